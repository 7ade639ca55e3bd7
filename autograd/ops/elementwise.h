/*
 * elementwise.h: parts of a paragraph that ops on one element at a time share: samples, shapes that
 * refuse some dtypes, and a gradient that is made in one pass. The ops themselves are in unary.c,
 * activation.c, binary.c, maximum.c, compare.c, ternary.c and replace.c.
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
