/*
 * compare.c: comparisons and other tests of elements. Their results are bools, which have no
 * gradient. Each function is a row of tensor/kernels/elementwise.def.
 */
#include "elementwise.h"

/* ---- tests of one tensor ------------------------------------------------------- */

static bool predicate_shape(rg_call *c) {
    c->out[0]->dtype = RG_BOOL;
    return rgi_shape_same(c);
}

#define PREDICATE(name, formula)                                                           \
    RG_OP(name, .doc = formula, .n_in = 1, .laid_between = true, .shape = predicate_shape, \
          .kernel = &k_##name, SAMPLES_1("", NULL));                                       \
    FUNCTION_OF_ROW(name)
#include "tensor/kernels/elementwise.def"

rg_tensor *rg_logical_not_(rg_tensor *x) {
    return RG_COMPOSITE("logical_not_",
                        rgi_replace_("logical_not_", "LogicalNotBackward0", x, rg_logical_not(x)));
}

/* ---- comparisons of two tensors ------------------------------------------------ */

/* Compares x with b, and writes the result over x as 0 or 1. As in torch, the node's name depends
 * on whether b was given as a number. If b requires grad, the result must require grad as well, and
 * b must get a gradient of zeros. Therefore the result is passed through rg_where with b as an
 * input whose elements it never chooses. */
static rg_tensor *compare_in_place(const char *name, const char *node_of_number,
                                   const char *node_of_tensor,
                                   rg_tensor *(*compare)(rg_tensor *, rg_tensor *), rg_tensor *x,
                                   rg_tensor *b) {
    const char *node = elementwise_is_number(b) ? node_of_number : node_of_tensor;
    RG_AS(name);
    RG_SCOPE();
    rg_tensor *result = compare(x, b);
    if (result && rg_requires_grad(b))
        result = rg_where(rg_ones_dims(rg_shape(result), RG_BOOL), result, b);
    return rg_escape(rgi_replace_(name, node, x, result));
}

#define COMPARISON(name, Node, formula)                                                          \
    RG_OP(name, .doc = formula, .n_in = 2, .typing = RG_PROMOTED, .laid_between = true,          \
          .shape = rgi_shape_broadcast_bool, .kernel = &k_##name, SAMPLES_2("", "", NULL));      \
    FUNCTION_OF_BINARY_ROW(name)                                                                 \
    rg_tensor *(rg_##name##_)(rg_tensor * x, rg_tensor * b) {                                    \
        return compare_in_place(#name "_", #Node "Backward0", #Node "Backward1", (rg_##name), x, \
                                b);                                                              \
    }
#include "tensor/kernels/elementwise.def"
