/*
 * elementwise.h: what the ops on one element at a time have in common.
 */
#ifndef RG_OPS_ELEMENTWISE_H
#define RG_OPS_ELEMENTWISE_H

#include "autograd/op.h"

#include <math.h>

/* Samples of one tensor whose values are of a kind (see op.h), and of two that broadcast. */
#define SAMPLES_1(kind) \
    RG_SAMPLES({ kind "(2,3)", NULL }, { kind "(2,1,3)", NULL }, { kind "()", NULL }, { kind "(0,3)", NULL })
#define SAMPLES_2(a, b)                                                                         \
    RG_SAMPLES({ a "(2,3) " b "(2,3)", NULL }, { a "(2,1,3) " b "(4,1)", NULL }, { a "(3) " b "(2,3)", NULL }, \
               { a "() " b "(2,2)", NULL }, { a "(2,2) " b "()", NULL }, { a "() " b "()", NULL },              \
               { a "(0,3) " b "(3)", NULL }, { a "(2,0) " b "(1,1)", NULL })

/* The shape of in[0], which must be of this dtype or a higher one; cpu: torch's kernel. */
static inline bool elementwise_takes(rg_call *c, rg_dtype least, const char *cpu)
{
    if (c->in[0]->dtype < least)
        return rg_fail(RG_NOT_IMPLEMENTED, c->op->name, "\"%s\" not implemented for '%s'", cpu,
                       rg_scalar_name(c->in[0]->dtype));
    return rg_shape_same(c);
}

/* Did a number stand for the tensor? */
static inline bool elementwise_number(const rg_tensor *t) { return t && t->state == RG_ALIVE && t->flags & RG_WEAK; }

/* What a rule of a function of one tensor can name: g alone, or x or y as well. */
#define NEEDS_g 0
#define NEEDS_x RG_IN(0)
#define NEEDS_y RG_OUTPUT
#define BIND_g  (void)s;
#define BIND_x  rg_tensor *x = rg_saved(s, 0);
#define BIND_y  rg_tensor *y = rg_saved_output(s);

/* An op on one tensor without attributes, with its kernel k_ident, and its public
 * functions. of: g, x or y; gradient: an expression in g and that one. */
#define ELEMENTWISE(ident, Node, formula, typing_, shape_, of, gradient, ...)                   \
    static bool ident##_forward(rg_call *c) { return k_##ident(c->out[0], c->in, NULL), true; } \
    static rg_tensor *ident##_derivative(const rg_step *s, rg_tensor *g) { BIND_##of return gradient; } \
    RG_OP(ident, .doc = formula, .node = Node "Backward0", .n_in = 1, .typing = typing_, .inplace = true, \
          .shape = shape_, .forward = ident##_forward, .grad = { RG_RULE(NEEDS_##of, ident##_derivative) }, __VA_ARGS__); \
    rg_tensor *rg_##ident(rg_tensor *x) { return RG_APPLY(ident, RG_NO_ATTR, x); }

#define INPLACE_1(ident) rg_tensor *rg_##ident##_(rg_tensor *x) { return RG_APPLY_(ident, RG_NO_ATTR, x); }

/* The gradient in one pass, from g and what the rule reads. */
static inline bool elementwise_fused(rg_tensor *gin[], rg_kernel_with *kernel, rg_tensor *g, rg_tensor *v, const double *k)
{
    if (!g || !v || !(gin[0] = rg_new_like(v, v->dtype))) return false;
    kernel(gin[0], (rg_tensor *[]){ g, v }, k);
    return true;
}
#define VALUE_x rg_saved(s, 0)
#define VALUE_y rg_saved_output(s)
#define FUSED(ident, of, numbers)                                                               \
    static bool ident##_fused(const rg_step *s, rg_tensor *gin[])                               \
    {                                                                                           \
        return elementwise_fused(gin, k_##ident##_grad, rg_step_g(s, 0), VALUE_##of, numbers);  \
    }

#endif
