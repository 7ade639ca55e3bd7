/*
 * bincount.c: counts how often each integer occurs in a vector.
 */
#include "autograd/checks.h"

/* ---- bincount: y_v is the number of elements of x that equal v, or the sum of their weights */

struct bincount_attr {
    int64_t minlength;
};

/* Sets *length to the largest integer in x plus 1, or to minlength if that is larger. Fails if an
 * integer is negative or is INT64_MAX. */
static bool bincount_length(const rg_tensor *x, int64_t minlength, int64_t *length) {
    int64_t largest = -1;
    for (int64_t i = 0; i < x->numel; i++) {
        int64_t v = ((const int64_t *)x->data)[i];
        RG_FAIL_IF(v < 0, NULL, "bincount only supports 1-d non-negative integral inputs.");
        largest = RG_MAX(largest, v);
    }
    RG_FAIL_IF(largest == INT64_MAX, NULL,
               "maximum value of input overflowed, it should be < %lld but got %lld",
               (long long)INT64_MAX, (long long)INT64_MAX);
    *length = RG_MAX(largest + 1, minlength);
    return true;
}

/* Returns the dtype of the result: int64 for counts. With weights, it is the weights' dtype if that
 * is floating point, and otherwise float64. */
static rg_dtype bincount_dtype(const rg_tensor *weights) {
    if (rgi_is_none(weights))
        return RG_INT64;
    return rgi_is_float(weights->dtype) ? weights->dtype : RG_FLOAT64;
}

/* Computes the output. The op has this `view` function in place of `shape` and `forward`, because
 * the output's size depends on the integers in x, and a `view` function may allocate the output
 * after it has read them. */
static bool bincount_make(rg_call *c) {
    rg_tensor *y = c->out[0];
    rg_tensor *weights = c->in[1];
    y->dtype = bincount_dtype(weights);
    RG_SCOPE();
    rg_tensor *x = rgi_own(rgi_contiguous_copy(c->in[0], RG_INT64));
    if (!x || !bincount_length(x, RG_ATTR(c, bincount)->minlength, &y->size[0]))
        return false;
    if (!rgi_want_shape(NULL, "weights", weights, rg_shape(x)))
        return false;
    rg_tensor *row = rgi_own(rgi_new_like(x, y->dtype));
    y->ndim = 1;
    if (!row || !rgi_allocate(y))
        return false;
    if (rgi_is_none(weights))
        rgi_fill_number(row, 1, 1);
    else
        rgi_copy_elements(row, weights);
    rgi_fill_zero(y);
    rg_tensor row_flat = rgi_flat(row);
    rg_tensor x_flat = rgi_flat(x);
    return k_index_along(K_ADD, &row_flat, y, 0, &x_flat);
}

RG_OP(bincount, .doc = "how often each integer occurs", .node = "NotImplemented", .n_in = 2,
      .optional = RG_IN(1), RG_WITH(bincount), .view = bincount_make, .by_value = true,
      .no_grad = "derivative for aten::bincount is not implemented: index_add of the weights has "
                 "one",
      RG_SAMPLES({ "i4(6) (6)", RG_A(bincount, 0) }, { "i4(2,3) (2,3)", RG_A(bincount, 7) },
                 { "i4(0) (0)", RG_A(bincount, 2) }));

rg_tensor *rg_bincount_with(rg_tensor *x, rg_bincount_options o) {
    struct bincount_attr a = { o.minlength };
    RG_AS("bincount");
    if (!rgi_check(x, NULL) || !rgi_check_optional(o.weights, NULL))
        return NULL;
    if (!rgi_want_dtype(NULL, rgi_is_integer(x->dtype), x->dtype)
        || !rgi_want_non_negative(NULL, "minlength", 1, &o.minlength)
        || !rgi_want_dims(NULL, "input", x, 1, 1))
        return NULL;
    RG_SCOPE();
    rg_tensor *weights = x->numel ? o.weights : RG_NONE;
    if (rgi_is_half(weights->dtype)) /* Torch then counts in float64. */
        weights = rg_to(weights, RG_FLOAT64);
    return rg_escape(RG_APPLY(bincount, &a, x, weights));
}
