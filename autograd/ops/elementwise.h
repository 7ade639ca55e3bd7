/*
 * elementwise.h: code that the files of elementwise ops share: samples, shape functions that refuse
 * some dtypes, and a gradient that is computed in one pass over the data. The ops are in unary.c,
 * activation.c, shrink.c, binary.c, compare.c, ternary.c and replace.c; the table of their rows is
 * tensor/kernels/elementwise.def.
 */
#pragma once

#include "autograd/checks.h"

#include <math.h>

/* Test samples of ops with one input, with two, and with three. The inputs broadcast. `kind`, `a`,
 * `b` and `c` are the letters before the shapes (see rg_sample in op.h). */
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

/* ---- code made from a row of tensor/kernels/elementwise.def ----------------------- */

/* Besides g, the gradient of a row may read one saved value: the input x or the output y. The row
 * names this value, or g if there is none. NEEDS_x, for example, is the mask of the values to save,
 * and VALUE_x declares a variable for the saved value. */
#define NEEDS_g 0
#define NEEDS_x RG_IN(0)
#define NEEDS_y RG_OUTPUT
#define VALUE_g (void)s
#define VALUE_x rg_tensor *x = rgi_saved(s, 0)
#define VALUE_y rg_tensor *y = rgi_saved_output(s)

/* The names with which a row says which dtypes it allows. */
#define DTYPES_FLOATED            .typing = RG_FLOATED, .shape = rgi_shape_same
#define DTYPES_FLOATS             .shape = rgi_shape_of_floats
#define DTYPES_NUMBERS            .shape = rgi_shape_of_numbers
#define DTYPES_NUMBERS_IF(shape_) .shape = shape_
#define DTYPES_ALL                .shape = rgi_shape_same

/* RULE_OF_ROW defines a rule. OP_OF_ROW and SLOPE_OF_ROW expand to initializers for fields of the
 * op. FUNCTION_OF_ROW defines the public function rg_name, and FUNCTION_IN_PLACE_OF_ROW defines
 * rg_name_. */
#define RULE_OF_ROW(rule, value, gradient)                   \
    static rg_tensor *rule(const rg_step *s, rg_tensor *g) { \
        VALUE_##value;                                       \
        return gradient;                                     \
    }
#define OP_OF_ROW(name, Node, formula, dtypes, value)                                      \
    .doc = formula, .node = #Node "Backward0", .n_in = 1, RG_ELEMENTWISE, DTYPES_##dtypes, \
    .kernel = &k_##name, .grad = { RG_RULE(NEEDS_##value, name##_rule) }
#define SLOPE_OF_ROW(name, order) .slope = &k_##name##_grad, .fused = SLOPE_##order
#define SLOPE_BY_G                rgi_elementwise_slope
#define SLOPE_BY_VALUE            rgi_elementwise_slope_by_value
#define FUNCTION_OF_ROW(name) \
    rg_tensor *rg_##name(rg_tensor *x) { return RG_APPLY(name, RG_NO_ATTR, x); }
#define FUNCTION_IN_PLACE_OF_ROW(name) \
    rg_tensor *rg_##name##_(rg_tensor *x) { return RG_APPLY_(name, RG_NO_ATTR, x); }
/* Defines the public function rg_name of two tensors. */
#define FUNCTION_OF_BINARY_ROW(name)                       \
    rg_tensor *(rg_##name)(rg_tensor * a, rg_tensor * b) { \
        return RG_APPLY(name, RG_NO_ATTR, a, b);           \
    }

/* ---- shape functions, and checks of inputs ---------------------------------------- */

/* Shape functions that give the output in[0]'s shape. rgi_shape_of_floats fails unless the input is
 * floating point, and rgi_shape_of_numbers fails if it is bool. */
bool rgi_shape_of_floats(rg_call *c);
bool rgi_shape_of_numbers(rg_call *c);
/* Shape functions that give the output the shape to which the inputs broadcast.
 * rgi_shape_broadcast_floats fails unless the inputs are floating point, and
 * rgi_shape_broadcast_numbers fails if they are bool. */
bool rgi_shape_broadcast_floats(rg_call *c);
bool rgi_shape_broadcast_numbers(rg_call *c);

/* Returns whether t is a number, which the caller passed in place of a tensor. */
static inline bool elementwise_is_number(const rg_tensor *t) {
    return t && t->state == RG_ALIVE && t->flags & RG_WEAK;
}

/* Fails with torch's error message if the single element of t doesn't fit into the dtype d. An
 * integer or bool is checked only if d is an integer dtype. */
bool rgi_element_fits(const char *op, const rg_tensor *t, rg_dtype d);

/* Fails with torch's error message if v, by which an op multiplies, doesn't fit into the dtype d.
 * Whole numbers from -255 to -1 fit into uint8: they wrap, as in torch. */
bool rgi_factor_fits(const char *op, double v, rg_dtype d);

/* ---- ops of one tensor, with up to three numbers as further arguments ------------- */

/* The attributes of these ops. The numbers k[0], k[1] and k[2] are called k0, k1 and k2 in
 * formulas. */
struct numbers_attr {
    const char *node;
    double k[3];
};

/* Returns the numbers among the attributes of a call or a step, or NULL if its op takes none. */
#define NUMBERS_OF(s) ((s)->op->attr_size ? RG_ATTR(s, numbers)->k : NULL)

/* Computes the output by the op's kernel, to which it passes the numbers of the call. */
bool rgi_elementwise_forward(rg_call *c);

/* Returns gx. If the graph of gradients is wanted, the result has a history in which the derivative
 * of gx with respect to `x`, a saved value, is 0, as in torch: so backward gives x zeros, and not
 * no gradient. */
rg_tensor *rgi_flat_in(const rg_step *s, rg_tensor *x, rg_tensor *gx);
/* Does the same with respect to the input whose gradient the rule computes, also if the op hasn't
 * saved the value of this input. */
rg_tensor *rgi_flat_in_input(const rg_step *s, rg_tensor *gx);

/* Compute the gradient in one pass of the op's slope kernel over g and the saved value. As in
 * torch, rgi_elementwise_slope gives the gradient g's memory order, and
 * rgi_elementwise_slope_by_value gives it the saved value's memory order. */
bool rgi_elementwise_slope(const rg_step *s, rg_tensor *gin[]);
bool rgi_elementwise_slope_by_value(const rg_step *s, rg_tensor *gin[]);
