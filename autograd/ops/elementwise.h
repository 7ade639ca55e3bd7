/*
 * elementwise.h: what the ops on one element at a time have in common.
 */
#pragma once

#include "autograd/op.h"

#include <math.h>

/* Samples of one tensor whose values are of a kind (see op.h), of two that broadcast, and of three.
 */
#define SAMPLES_1(kind, attr)                                                         \
    RG_SAMPLES({ kind "(2,3)", attr }, { kind "(2,1,3)", attr }, { kind "()", attr }, \
               { kind "(0,3)", attr })
#define SAMPLES_2(a, b, attr)                                                    \
    RG_SAMPLES({ a "(2,3) " b "(2,3)", attr }, { a "(2,1,3) " b "(4,1)", attr }, \
               { a "(3) " b "(2,3)", attr }, { a "() " b "(2,2)", attr },        \
               { a "(2,2) " b "()", attr }, { a "() " b "()", attr },            \
               { a "(0,3) " b "(3)", attr }, { a "(2,0) " b "(1,1)", attr })
#define SAMPLES_3(c, attr)                                                            \
    RG_SAMPLES({ "(2,3) (2,3) " c "(2,3)", attr }, { "(2,1,3) (4,1) " c "()", attr }, \
               { "(3) (2,1) " c "(2,3)", attr }, { "() () " c "()", attr },           \
               { "(0,3) (3) " c "(1)", attr })

/* The shape of in[0], which must be of this dtype or a higher one; cpu: torch's kernel. */
static inline bool elementwise_takes(rg_call *c, rg_dtype least, const char *cpu) {
    RG_FAIL_DTYPE_IF(c->in[0]->dtype < least, c->op->name, cpu, c->in[0]->dtype);
    return rgi_shape_same(c);
}

#define NOT_OF_BOOL(ident, sentence)                              \
    static bool ident##_shape(rg_call *c) {                       \
        RG_FAIL_IF(c->in[0]->dtype == RG_BOOL, #ident, sentence); \
        return rgi_shape_same(c);                                 \
    }

/* The shape as they broadcast, not of bool; cpu: torch's kernel, NULL: of bool, too. */
static inline bool elementwise_broadcast(rg_call *c, const char *cpu) {
    if (!rgi_shape_broadcast(c))
        return false;
    if (c->in[0]->dtype != RG_BOOL || !cpu)
        return true;
    return rgi_fail(RG_NOT_IMPLEMENTED, c->op->name, "\"%s\" not implemented for 'Bool'", cpu);
}

/* Did a number stand for the tensor? */
static inline bool elementwise_number(const rg_tensor *t) {
    return t && t->state == RG_ALIVE && t->flags & RG_WEAK;
}

/* Public functions of ops without attributes. */
#define FUNCTION_1(ident) \
    rg_tensor *rg_##ident(rg_tensor *x) { return RG_APPLY(ident, RG_NO_ATTR, x); }
#define INPLACE_1(ident) \
    rg_tensor *rg_##ident##_(rg_tensor *x) { return RG_APPLY_(ident, RG_NO_ATTR, x); }
#define FUNCTION_2(ident)                                   \
    rg_tensor *(rg_##ident)(rg_tensor * a, rg_tensor * b) { \
        return RG_APPLY(ident, RG_NO_ATTR, a, b);           \
    }
#define INPLACE_2(ident)                                       \
    rg_tensor *(rg_##ident##_)(rg_tensor * x, rg_tensor * b) { \
        return RG_APPLY_(ident, RG_NO_ATTR, x, b);             \
    }
#define FUNCTIONS_2(ident) FUNCTION_2(ident) INPLACE_2(ident)

/* An op on one tensor without attributes, with its kernel k_ident and its function. */
#define ELEMENTWISE(ident, Node, formula, typing_, shape_, of, gradient, ...)                      \
    RULE(ident##_rule, of, gradient)                                                               \
    RG_OP(ident, .doc = formula, .node = Node "Backward0", .n_in = 1, .typing = typing_,           \
          .inplace = true, .shape = shape_, .kernel = &k_##ident, .grad = { RULED(ident##_rule) }, \
          __VA_ARGS__);                                                                            \
    FUNCTION_1(ident)

/* The gradient in one pass, from g and what the rule reads. */
static inline bool elementwise_fused(rg_tensor *gin[], const rg_kernel *kernel, rg_tensor *g,
                                     rg_tensor *v, const double *k) {
    if (!g || !v || !(gin[0] = rgi_new_like(v, v->dtype)))
        return false;
    return k_run_with(kernel, gin[0], (rg_tensor *[]){ g, v }, k);
}
#define FUSED(ident, value, numbers)                                                        \
    static bool ident##_fused(const rg_step *s, rg_tensor *gin[]) {                         \
        return elementwise_fused(gin, &k_##ident##_grad, rgi_step_g(s, 0), value, numbers); \
    }
