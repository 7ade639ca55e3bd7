/*
 * elementwise.h: parts of a paragraph that ops on one element at a time share: samples, shapes that
 * refuse some dtypes, and a gradient that is made in one pass. The ops themselves are in unary.c,
 * activation.c, binary.c, maximum.c, compare.c, ternary.c and replace.c, and their table is
 * tensor/kernels/elementwise.def.
 */
#pragma once

#include "autograd/op.h"

#include <math.h>

/* Make the samples of ops on one input, on two that broadcast, and on three. Letters
 * before a shape say of which kind its values are (see rg_sample in op.h). */
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

/* ---- parts of a row in tensor/kernels/elementwise.def ----------------------------- */

/* The value that a gradient reads: NEEDS_ says what to keep for it, and VALUE_ declares it. */
#define NEEDS_g 0
#define NEEDS_x RG_IN(0)
#define NEEDS_y RG_OUTPUT
#define VALUE_g (void)s
#define VALUE_x rg_tensor *x = rgi_saved(s, 0)
#define VALUE_y rg_tensor *y = rgi_saved_output(s)

/* The dtypes that a row allows. */
#define DTYPES_FLOATED            .typing = RG_FLOATED, .shape = rgi_shape_same
#define DTYPES_FLOATS(torch)      .shape = rgi_elementwise_shape, .cpu = torch
#define DTYPES_NUMBERS(torch)     DTYPES_FLOATS(torch)
#define DTYPES_NUMBERS_IF(shape_) .shape = shape_
#define DTYPES_ALL                .shape = rgi_shape_same

/* RULE_OF_ROW defines name_rule, OP_OF_ROW is what the row says of the op, and the others define
 * rg_name and rg_name_. */
#define RULE_OF_ROW(name, value, gradient)                          \
    static rg_tensor *name##_rule(const rg_step *s, rg_tensor *g) { \
        VALUE_##value;                                              \
        return gradient;                                            \
    }
#define OP_OF_ROW(name, Node, formula, dtypes, value)                                      \
    .doc = formula, .node = #Node "Backward0", .n_in = 1, RG_ELEMENTWISE, DTYPES_##dtypes, \
    .kernel = &k_##name, .grad = { RG_RULE(NEEDS_##value, name##_rule) }
#define FUNCTION_OF_ROW(name) \
    rg_tensor *rg_##name(rg_tensor *x) { return RG_APPLY(name, RG_NO_ATTR, x); }
#define FUNCTION_IN_PLACE_OF_ROW(name) \
    rg_tensor *rg_##name##_(rg_tensor *x) { return RG_APPLY_(name, RG_NO_ATTR, x); }

/* Gives the output in[0]'s shape. Fails as torch's kernel op->cpu does if the op's kernel has no
 * loop for in[0]'s dtype. */
bool rgi_elementwise_shape(rg_call *c);

/* ---- checks --------------------------------------------------------------------- */

/* Gives the output in[0]'s shape. Fails for integers and bool as torch's kernel `cpu` does. */
static inline bool elementwise_of_floats(rg_call *c, const char *cpu) {
    RG_FAIL_DTYPE_IF(!rgi_is_float(c->in[0]->dtype), c->op->name, cpu, c->in[0]->dtype);
    return rgi_shape_same(c);
}

/* Gives the output in[0]'s shape. Fails for bool as torch's kernel `cpu` does. */
static inline bool elementwise_of_numbers(rg_call *c, const char *cpu) {
    RG_FAIL_DTYPE_IF(c->in[0]->dtype == RG_BOOL, c->op->name, cpu, RG_BOOL);
    return rgi_shape_same(c);
}

/* Gives the output the shape that the inputs broadcast to. Fails for bool as torch's kernel `cpu`
 * does. */
static inline bool elementwise_broadcast_numbers(rg_call *c, const char *cpu) {
    if (!rgi_shape_broadcast(c))
        return false;
    RG_FAIL_DTYPE_IF(c->in[0]->dtype == RG_BOOL, c->op->name, cpu, RG_BOOL);
    return true;
}

/* Returns whether a number stood for the tensor in the call. */
static inline bool elementwise_is_number(const rg_tensor *t) {
    return t && t->state == RG_ALIVE && t->flags & RG_WEAK;
}

/* Returns whether the one number in t can be written in this dtype; fails with torch's sentence if
 * not. */
bool rgi_element_fits(const char *op, const rg_tensor *t, rg_dtype d);

/* Makes the one input's gradient in one pass of a kernel over g and v, the value that the rule
 * reads; k holds the kernel's numbers, or is NULL. */
static inline bool elementwise_fused(const rg_step *s, rg_tensor *gin[], const rg_kernel *kernel,
                                     rg_tensor *v, const double *k) {
    rg_tensor *g = rgi_step_g(s, 0);
    if (!g || !v)
        return false;
    rg_tensor *in[] = { g, v };
    gin[0] = rgi_new_between((rg_dtype)v->dtype, 2, in);
    return gin[0] && k_run_with(kernel, gin[0], in, k);
}

/* Does what elementwise_fused does where torch's function takes v first, so that v's order of the
 * dims counts before g's. */
static inline bool elementwise_fused_by_value(const rg_step *s, rg_tensor *gin[],
                                              const rg_kernel *kernel, rg_tensor *v,
                                              const double *k) {
    rg_tensor *g = rgi_step_g(s, 0);
    if (!g || !v)
        return false;
    gin[0] = rgi_new_between((rg_dtype)v->dtype, 2, (rg_tensor *[]){ v, g });
    return gin[0] && k_run_with(kernel, gin[0], (rg_tensor *[]){ g, v }, k);
}
