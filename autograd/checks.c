/*
 * checks.c: the checking functions of checks.h, with their error messages.
 */
#include "checks.h"

#include <stdio.h>

/* ---- checks of dtypes -------------------------------------------------------------- */

static bool want_scalar_type(const char *op, const char *what, const rg_tensor *t,
                             rg_dtype dtype) {
    RG_FAIL_IF(!rgi_is_none(t) && t->dtype != dtype, op, "Expected %s of dtype %s, but got %s",
               what, rgi_scalar_name(dtype), rgi_scalar_name(t->dtype));
    return true;
}

bool rgi_want_integers(const char *op, const char *what, const rg_tensor *t) {
    return want_scalar_type(op, what, t, RG_INT64);
}

bool rgi_want_bools(const char *op, const char *what, const rg_tensor *t) {
    return want_scalar_type(op, what, t, RG_BOOL);
}

bool rgi_want_same_dtype(const char *op, const char *what, const rg_tensor *t, const char *what2,
                         const rg_tensor *t2) {
    RG_FAIL_IF(!rgi_is_none(t) && !rgi_is_none(t2) && t->dtype != t2->dtype, op,
               "%s and %s must have the same dtype, but got %s and %s", what, what2,
               rgi_scalar_name(t->dtype), rgi_scalar_name(t2->dtype));
    return true;
}

bool rgi_want_cast(const char *op, bool can, rg_dtype from, rg_dtype to) {
    RG_FAIL_IF(!can, op, "result type %s can't be cast to the desired output type %s",
               rgi_scalar_name(from), rgi_scalar_name(to));
    return true;
}

bool rgi_want_tracked(const char *op, const rg_tensor *t, rg_dtype dtype) {
    RG_FAIL_IF(rgi_is_in_graph(t) && !rgi_grad_off && !rgi_is_float(dtype), op,
               "Autograd not support dtype: %s", rgi_scalar_name(dtype));
    return true;
}

/* ---- checks of shapes -------------------------------------------------------------- */

bool rgi_lacks_dims(const char *op, const char *what, const rg_tensor *t, int least, int most) {
    char wanted[48];
    if (least == most)
        snprintf(wanted, sizeof wanted, "%dD", least);
    else if (most == RG_MAX_DIMS)
        snprintf(wanted, sizeof wanted, "at least %dD", least);
    else
        snprintf(wanted, sizeof wanted, "%dD %s %dD", least, most - least == 1 ? "or" : "to", most);
    rgi_fail(RG_RUNTIME_ERROR, op, "Expected %s to be %s, but got %dD of shape %s", what, wanted,
             t->ndim, RG_SHAPE_TEXT(t));
    return false;
}

bool rgi_want_any_dim(const char *op, const rg_tensor *t, int64_t dim) {
    RG_FAIL_INDEX_IF(t->ndim == 0, op, "Dimension specified as %lld but tensor has no dimensions",
                     (long long)dim);
    return true;
}

bool rgi_want_reducible(const char *op, const rg_tensor *t, int dim) {
    RG_FAIL_INDEX_IF(t->ndim && t->size[dim] == 0, op,
                     "Expected reduction dim %d to have non-zero size.", dim);
    return true;
}

bool rgi_want_size(const char *op, const char *what, const rg_tensor *t, int dim, int64_t size) {
    RG_FAIL_IF(!rgi_is_none(t) && t->size[dim] != size, op,
               "Expected %s to have size %lld at dimension %d, but got shape %s", what,
               (long long)size, dim, RG_SHAPE_TEXT(t));
    return true;
}

bool rgi_want_shape(const char *op, const char *what, const rg_tensor *t, rg_dims shape) {
    if (rgi_is_none(t))
        return true;
    rg_tensor wanted = { .ndim = 0 };
    rgi_set_size(&wanted, &shape);
    RG_FAIL_IF(!rgi_same_shape(t, &wanted), op, "Expected %s to have shape %s, but got %s", what,
               RG_DIMS_TEXT(&shape), RG_SHAPE_TEXT(t));
    return true;
}

bool rgi_want_vector(const char *op, const char *what, const rg_tensor *t, int64_t n) {
    return rgi_want_shape(op, what, t, (rg_dims){ 1, { n } });
}

bool rgi_want_elements(const char *op, const char *what, const rg_tensor *t, int first) {
    bool empty = false;
    for (int d = first; d < t->ndim; d++)
        empty = empty || t->size[d] == 0;
    RG_FAIL_IF(empty, op,
               "Expected %s to have non-zero size for non-batch dimensions, but got shape %s",
               what, RG_SHAPE_TEXT(t));
    return true;
}

bool rgi_want_no_wider(const char *op, const rg_tensor *y, const rg_tensor *wide) {
    RG_FAIL_IF(!rgi_same_shape(y, wide), op,
               "output with shape %s doesn't match the broadcast shape %s", RG_SHAPE_TEXT(y),
               RG_SHAPE_TEXT(wide));
    return true;
}

/* Writes a shape as it appears in the error messages of products, such as 2x3. Returns `text`. */
static const char *sizes_text(const rg_tensor *t, char text[192]) {
    int at = 0;
    for (int d = 0; d < t->ndim && at < 170; d++)
        at += snprintf(text + at, 192 - (size_t)at, "%s%lld", d ? "x" : "", (long long)t->size[d]);
    return text;
}

bool rgi_want_product(const char *op, const rg_tensor *a, const rg_tensor *b, int64_t left,
                      int64_t right) {
    RG_FAIL_IF(left != right, op, "mat1 and mat2 shapes cannot be multiplied (%s and %s)",
               sizes_text(a, (char[192]){ 0 }), sizes_text(b, (char[192]){ 0 }));
    return true;
}

/* ---- checks of numbers ------------------------------------------------------------- */

/* Writes a single number as a number, and several numbers as a shape. Returns the string. */
static const char *numbers_text(int n, const int64_t *v, char text[192]) {
    if (n != 1)
        return rgi_shape_text(n, v, text);
    snprintf(text, 192, "%lld", (long long)v[0]);
    return text;
}

static bool want_from(const char *op, const char *what, int n, const int64_t *v, int64_t least,
                      const char *must) {
    bool fits = true;
    for (int i = 0; i < n; i++)
        fits = fits && v[i] >= least;
    RG_FAIL_IF(!fits, op, "%s %s, but got %s", what, must,
               numbers_text(n, v, (char[192]){ 0 }));
    return true;
}

bool rgi_want_positive(const char *op, const char *what, int n, const int64_t *v) {
    return want_from(op, what, n, v, 1, "should be greater than zero");
}

bool rgi_want_non_negative(const char *op, const char *what, int n, const int64_t *v) {
    return want_from(op, what, n, v, 0, "must be non-negative");
}

bool rgi_want_indices(rg_code code, const char *op, const rg_tensor *index, int64_t from,
                      int64_t size, int dim) {
    int64_t bad;
    RG_FAIL_AS_IF(code, !k_index_within(index, from, size, &bad), op,
                  "index %lld is out of bounds for dimension %d with size %lld", (long long)bad,
                  dim, (long long)size);
    return true;
}

bool rgi_given_once(const char *op, const char *what, int64_t number, int64_t absent, int n) {
    RG_FAIL_VALUE_IF(n && number != absent, op, "%s and %ss can't both be given", what, what);
    return true;
}

bool rgi_want_option(const char *op, const char *what, int dims, int64_t number, int64_t absent,
                     const rg_dims *list, int64_t *to) {
    if (!rgi_given_once(op, what, number, absent, list->n))
        return false;
    RG_FAIL_IF(list->n < 0 || (list->n > 1 && list->n != dims), op,
               "Expected %s to be a single integer value or a list of %d values, but got %s", what,
               dims, list->n < 0 ? "NULL" : RG_DIMS_TEXT(list));
    for (int d = 0; d < dims; d++)
        to[d] = list->n ? list->v[list->n > 1 ? d : 0] : number;
    return true;
}

/* ---- checks of other arguments ------------------------------------------------------ */

bool rgi_want_given(const char *op, const char *what, const rg_tensor *t, const char *when) {
    RG_FAIL_IF(rgi_is_none(t), op, "%s must be defined %s", what, when);
    return true;
}

bool rgi_want_no_grad(const char *op, const char *what, const rg_tensor *t) {
    RG_FAIL_IF(!rgi_is_none(t) && rg_requires_grad((rg_tensor *)t), op,
               "not differentiable with respect to argument '%s'. This input cannot have "
               "requires_grad True.",
               what);
    return true;
}

bool rgi_want_replacement(const char *op, const char *hook, const rg_tensor *made,
                          const rg_tensor *grad) {
    RG_FAIL_IF(made->dtype != grad->dtype, op, "%s has changed the type of value (was %s got %s)",
               hook, rg_dtype_name(grad->dtype), rg_dtype_name(made->dtype));
    RG_FAIL_IF(!rgi_same_shape(made, grad), op, "%s has changed the size of value (was %s got %s)",
               hook, RG_SHAPE_TEXT(grad), RG_SHAPE_TEXT(made));
    return true;
}
