/*
 * look.c: functions by which programs read a tensor's shape, dtype and elements. None of them adds
 * a node to the graph.
 */
#include "dtype.h"
#include "error.h"
#include "kernels/copy.h"
#include "observer.h"
#include "shape.h"

#include <math.h>
#include <string.h>

/* ---- shape and dtype ------------------------------------------------------------------------- */

int rg_ndim(rg_tensor *t) { return rgi_check(t, "ndim") ? t->ndim : rgi_failed_count(); }

int64_t rg_numel(rg_tensor *t) { return rgi_check(t, "numel") ? t->numel : rgi_failed_count(); }

int rg_dtype_of(rg_tensor *t) { return rgi_check(t, "dtype_of") ? t->dtype : RG_NO_DTYPE; }

int64_t rg_version(rg_tensor *t) {
    if (!rgi_check(t, "version"))
        return rgi_failed_count();
    if (!t->storage->inference)
        return t->storage->version;
    rgi_fail(RG_RUNTIME_ERROR, "version", "Inference tensors do not track version counter.");
    return rgi_failed_count();
}

bool rg_is_contiguous(rg_tensor *t) {
    return rgi_check(t, "is_contiguous") && t->flags & RG_CONTIGUOUS;
}

bool rg_is_floating_point(rg_tensor *t) {
    return rgi_check(t, "is_floating_point") && rgi_is_float(t->dtype);
}

/* Returns the entry of `list`, which is t's sizes or t's strides, at the given dim. Fails and
 * returns -1 if t isn't valid, has no dims, or lacks this dim. */
static int64_t one_of_dims(const char *op, rg_tensor *t, const int64_t *list, int dim) {
    int d;
    if (!rgi_check(t, op))
        return rgi_failed_count();
    if (!t->ndim) {
        rgi_fail(RG_INDEX_ERROR, op, "Dimension specified as %d but tensor has no dimensions", dim);
        return rgi_failed_count();
    }
    return rgi_wrap_dim(op, dim, t->ndim, &d) ? list[d] : rgi_failed_count();
}

int64_t(rg_size)(rg_tensor *t, int dim) { return one_of_dims("size", t, t ? t->size : NULL, dim); }

int64_t(rg_stride)(rg_tensor *t, int dim) {
    return one_of_dims("stride", t, t ? t->stride : NULL, dim);
}

rg_dims rg_shape(rg_tensor *t) {
    rg_dims d = { .n = -1 };
    if (!rgi_check(t, "shape"))
        return d;
    d.n = t->ndim;
    memcpy(d.v, t->size, (size_t)d.n * sizeof d.v[0]);
    return d;
}

/* ---- reading one element ----------------------------------------------------------- */

static bool is_one_element(const char *op, int64_t numel) {
    RG_FAIL_IF(numel != 1, op, "a Tensor with %lld elements cannot be converted to Scalar",
               (long long)numel);
    return true;
}

/* Fails and returns false unless t has exactly one element and no step is being recorded. A failure
 * is written to standard error at once, because few programs check whether the result is NaN or
 * -1. */
static bool is_item(rg_tensor *t) {
    return (rgi_may_do_once("item") && rgi_check(t, "item") && is_one_element("item", t->numel))
           || rgi_tell_unread();
}

double rg_item(rg_tensor *t) {
    return is_item(t) ? rgi_load_f64(t->data, t->dtype) : rgi_failed_number();
}

static bool is_whole_number(double v) {
    RG_FAIL_VALUE_IF(isnan(v), "item", "cannot convert float NaN to integer");
    RG_FAIL_IF(isinf(v), "item", "cannot convert float infinity to integer");
    return rgi_number_fits("item", v, RG_INT64);
}

int64_t rg_item_int(rg_tensor *t) {
    if (!is_item(t))
        return rgi_failed_count();
    if (rgi_is_float(t->dtype) && !is_whole_number(rgi_load_f64(t->data, t->dtype)))
        return rgi_failed_count();
    return rgi_load_i64(t->data, t->dtype);
}

/* Returns the address of the element with this index. The index may leave out the last dims of t if
 * they all have size 1. Fails and returns NULL if the index isn't valid for t. */
static const char *place_of_index(rg_tensor *t, const rg_dims *index) {
    RG_FAIL_INDEX_IF(index->n > 0 && t->ndim == 0, "at",
                     "invalid index of a 0-dim tensor. Use `tensor.item()` in Python "
                     "or `tensor.item<T>()` in C++ to convert a 0-dim tensor to a number");
    RG_FAIL_INDEX_IF(index->n > t->ndim, "at", "too many indices for tensor of dimension %d",
                     t->ndim);
    int64_t offset = 0;
    for (int d = 0; d < index->n; d++) {
        int64_t i = index->v[d];
        int64_t n = t->size[d];
        RG_FAIL_INDEX_IF(i < -n || i >= n, "at",
                         "index %lld is out of bounds for dimension %d with "
                         "size %lld",
                         (long long)i, d, (long long)n);
        offset += (i < 0 ? i + n : i) * t->stride[d];
    }
    int64_t rest = 1;
    for (int d = RG_MAX(index->n, 0); d < t->ndim; d++)
        if (__builtin_mul_overflow(rest, t->size[d], &rest))
            rest = INT64_MAX;
    return is_one_element("at", rest) ? t->data + offset * (int64_t)rgi_sizeof(t->dtype) : NULL;
}

double rg_at_dims(rg_tensor *t, rg_dims index) {
    if (!rgi_may_do_once("at") || !rgi_check(t, "at"))
        return rgi_failed_number();
    const char *at = place_of_index(t, &index);
    return at ? rgi_load_f64(at, t->dtype) : rgi_failed_number();
}

/* ---- reading all elements ---------------------------------------------------------- */

void *rg_data(rg_tensor *t) {
    if (!rgi_may_do_once("data") || !rgi_check(t, "data"))
        return NULL;
    rgi_expose(t);
    return t->data;
}

void *(rg_data_as_dtype)(rg_tensor *t, rg_dtype dtype) {
    static const char op[] = "data_as";
    if (!rgi_may_do_once(op) || !rgi_check(t, op) || !rgi_check_dtype(op, dtype))
        return NULL;
    RG_FAIL_AS_IF(RG_TYPE_ERROR, t->dtype != dtype, op,
                  "expected elements of dtype %s, but the tensor has dtype %s: rg_to converts it",
                  rg_dtype_name(dtype), rg_dtype_name((rg_dtype)t->dtype));
    RG_FAIL_IF(!(t->flags & RG_CONTIGUOUS), op,
               "the tensor isn't contiguous: rg_contiguous puts its elements in row-major order");
    rgi_expose(t);
    return t->data;
}

bool(rg_copy_out)(rg_tensor *t, void *to, size_t bytes) {
    if (!rgi_may_do_once("copy_out") || !rgi_check(t, "copy_out"))
        return false;
    size_t need;
    if (__builtin_mul_overflow((size_t)t->numel, rgi_sizeof(t->dtype), &need))
        need = SIZE_MAX;
    RG_FAIL_VALUE_IF(need > bytes || (need && !to), "copy_out",
                     "%zu bytes are needed, but there is room for %zu", need, to ? bytes : 0);
    rg_tensor out = { .state = RG_ALIVE, .dtype = t->dtype, .data = to };
    rgi_copy_shape(&out, t);
    rgi_set_strides(&out);
    rgi_copy_elements(&out, t);
    return true;
}
