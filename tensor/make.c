/*
 * make.c: functions by which programs make tensors of given values. None of them adds a node to the
 * graph: if a value is passed as a 0-d tensor, only its number is used.
 */
#include "kernels/kernels.h"
#include "observer.h"
#include "scope.h"
#include "storage.h"
#include "text/digits.h"

#include <stdio.h>
#include <tgmath.h>
#include <string.h>

/* ---- numbers ---------------------------------------------------------------------- */

/* The number in a 0-d tensor, as a double and as an integer: a double can't hold every int64. */
typedef struct making_number {
    rg_dtype dtype;
    double d;
    int64_t i;
} making_number;

/* Reads the number t of an argument into *out. Fails and returns false if t has dims or requires
 * grad. Also fails if t is a tensor, not a wrapped number (RG_WEAK), while a step is recorded,
 * since a repetition of the step would not read the tensor again. */
static bool number_of(const char *op, const char *argument, rg_tensor *t, making_number *out) {
    if (!rgi_check(t, op))
        return false;
    RG_FAIL_AS_IF(RG_TYPE_ERROR, t->ndim || rgi_history_of(t), op,
                  "argument '%s' must be Number, not Tensor", argument);
    if (!(t->flags & RG_WEAK) && !rgi_may_read_number(op))
        return false;
    out->dtype = t->dtype;
    out->d = rgi_load_f64(t->data, t->dtype);
    out->i = rgi_load_i64(t->data, t->dtype);
    return true;
}

/* Returns the dtype of a tensor that is made from this number, if the program gives no dtype. */
static rg_dtype number_dtype(const making_number *v) {
    return rgi_is_float(v->dtype) ? rg_default_dtype() : v->dtype;
}

static rg_tensor *wrapped(rg_dtype dtype, const void *number) {
    rg_tensor *t = rgi_new_named("scalar", dtype, 0, NULL);
    if (!t)
        return NULL;
    memcpy(t->data, number, rgi_sizeof(dtype));
    t->flags |= RG_WEAK;
    return rgi_own(t);
}

RG_HOT rg_tensor *(rg_wrap_float)(double x) { return wrapped(RG_FLOAT64, &x); }
rg_tensor *(rg_wrap_int)(int64_t x) { return wrapped(RG_INT64, &x); }
rg_tensor *(rg_wrap_bool)(bool x) { return wrapped(RG_BOOL, &x); }

/* Returns x as a 0-d tensor of int64. Fails and returns NULL if int64 can't hold x. The error names
 * x instead of an op, since the op that will be given the tensor isn't known here. */
rg_tensor *(rg_wrap_unsigned)(uint64_t x) {
    char digits[24];
    if (x <= INT64_MAX)
        return rg_wrap_int((int64_t)x);
    snprintf(digits, sizeof digits, "%llu", (unsigned long long)x);
    return rgi_fail(RG_RUNTIME_ERROR, digits,
                    "value cannot be converted to type int64_t without overflow");
}

rg_tensor *(rg_scalar)(rg_tensor *number) {
    making_number v;
    if (!number_of("scalar", "number", number, &v))
        return NULL;
    const rg_dtype dtype = number->flags & RG_WEAK ? number_dtype(&v) : v.dtype;
    rg_tensor *t = rgi_new_named("scalar", dtype, 0, NULL);
    if (t)
        rgi_fill_number(t, v.d, v.i);
    return rgi_own(t);
}

rg_tensor *(rg_scalar_dtype)(double number, rg_dtype dtype) {
    if (!rgi_check_dtype("scalar", dtype))
        return NULL;
    if (rgi_is_integer(dtype) && !rgi_number_fits("scalar", number, dtype))
        return NULL;
    rg_tensor *t = rgi_new_named("scalar", dtype, 0, NULL);
    if (t)
        rgi_store_f64(t->data, dtype, number);
    return rgi_own(t);
}

/* ---- constant tensors ------------------------------------------------------------ */

static rg_tensor *making_zeros(rg_tensor *t) {
    if (t)
        rgi_fill_zero(t);
    return rgi_own(t);
}

static rg_tensor *making_full(rg_tensor *t, double d, int64_t i) {
    if (t)
        rgi_fill_number(t, d, i);
    return rgi_own(t);
}

/* Gives t, a new tensor or NULL, to the innermost scope. The elements of t stay uninitialised,
 * except that bools are set to false, since a bool of C must be 0 or 1. */
static rg_tensor *making_any(rg_tensor *t) {
    return t && rgi_is_bool(t->dtype) ? making_zeros(t) : rgi_own(t);
}

rg_tensor *(rg_empty_dims)(rg_dims shape, rg_dtype dtype) {
    return making_any(rgi_new_dims("empty", &shape, dtype));
}

rg_tensor *(rg_ones_dims)(rg_dims shape, rg_dtype dtype) {
    return making_full(rgi_new_dims("ones", &shape, dtype), 1, 1);
}

rg_tensor *(rg_zeros_dims)(rg_dims shape, rg_dtype dtype) {
    for (int d = 0; d < RG_MIN(shape.n, RG_MAX_DIMS); d++)
        RG_FAIL_IF(shape.v[d] < 0, "zeros", "Dimension size must be non-negative.");
    return making_zeros(rgi_new_dims("zeros", &shape, dtype));
}

/* Returns a new tensor in which all elements are `value`. It has the shape of `like` or, if `like`
 * is NULL, the shape `shape`. If dtype is RG_NO_DTYPE, the dtype is the one that number_dtype
 * returns. Fails and returns NULL if the dtype can't hold the value. */
static rg_tensor *full_of(const char *op, const rg_tensor *like, const rg_dims *shape,
                          rg_tensor *value, int dtype) {
    making_number v;
    if (!number_of(op, "fill_value", value, &v))
        return NULL;
    if (dtype == RG_NO_DTYPE)
        dtype = number_dtype(&v);
    if (rgi_is_float(v.dtype) ? !rgi_number_fits(op, v.d, (rg_dtype)dtype)
                              : !rgi_whole_fits(op, v.i, (rg_dtype)dtype))
        return NULL;
    rg_tensor *t = like ? rgi_new_dense_like(like, (rg_dtype)dtype)
                        : rgi_new_dims(op, shape, dtype);
    return making_full(t, v.d, rgi_is_bool(dtype) ? v.d != 0 : v.i);
}

rg_tensor *(rg_full_dims)(rg_dims shape, rg_tensor *value, rg_dtype dtype) {
    return rgi_check_dtype("full", dtype) ? full_of("full", NULL, &shape, value, dtype) : NULL;
}

rg_tensor *(rg_full)(rg_dims shape, rg_tensor *value) {
    return full_of("full", NULL, &shape, value, RG_NO_DTYPE);
}

rg_tensor *rg_empty_like(rg_tensor *x) { return making_any(rgi_new_like_given("empty_like", x)); }

rg_tensor *rg_zeros_like(rg_tensor *x) { return making_zeros(rgi_new_like_given("zeros_like", x)); }

rg_tensor *rg_ones_like(rg_tensor *x) {
    return making_full(rgi_new_like_given("ones_like", x), 1, 1);
}

rg_tensor *(rg_full_like)(rg_tensor *x, rg_tensor *value) {
    RG_AS("full_like");
    if (!rgi_check(x, "full_like"))
        return NULL;
    return full_of("full_like", x, NULL, value, x->dtype);
}

rg_tensor *(rg_eye)(int64_t n, int64_t m) { return rg_eye_as(n, m, rg_default_dtype()); }
rg_tensor *(rg_eye_as)(int64_t n, int64_t m, rg_dtype dtype) {
    RG_AS("eye");
    RG_FAIL_IF(n < 0, "eye", "n must be greater or equal to 0, got %lld", (long long)n);
    RG_FAIL_IF(m < 0, "eye", "m must be greater or equal to 0, got %lld", (long long)m);
    rg_tensor *t = rg_zeros_dims(RG_DIMS(n, m), dtype);
    for (int64_t i = 0; t && i < RG_MIN(n, m); i++)
        rgi_store_f64(t->data + (size_t)(i * (m + 1)) * rgi_sizeof(t->dtype), t->dtype, 1);
    return t;
}

/* ---- ranges ---------------------------------------------------------------------- */

/* Return the argument, and fail if it is false. The message of arange_leads says that the step
 * leads away from the end of the range, and the message of arange_ends that the range is too
 * long. */
static bool arange_leads(bool leads) {
    RG_FAIL_IF(!leads, "arange", "upper bound and lower bound inconsistent with step sign");
    return true;
}
static bool arange_ends(bool ends) {
    RG_FAIL_IF(!ends, "arange", "invalid size, possible overflow?");
    return true;
}

/* Gives a new tensor to the scope if it was filled, and releases it if not. Returns the tensor, or
 * NULL if it wasn't filled. */
static rg_tensor *owned_if(bool filled, rg_tensor *t) {
    if (filled)
        return rgi_own(t);
    rgi_release(t);
    return NULL;
}

/* Makes a range whose length is computed in double. In bytes, its numbers are computed from the
 * truncated start and step. */
static rg_tensor *arange_floats(const making_number *a, const making_number *b,
                                const making_number *s, rg_dtype dtype) {
    const double steps = ceil((b->d - a->d) / s->d);
    if (!arange_leads(s->d > 0 ? b->d >= a->d : b->d <= a->d) || !arange_ends(steps < 0x1p63))
        return NULL;
    rg_tensor *t = rgi_new_dims("arange", &RG_DIMS((int64_t)steps), dtype);
    const bool filled =
        t && (rgi_is_byte(dtype) ? k_arange_integers(t, a->i, s->i) : k_arange(t, a->d, s->d));
    return owned_if(filled, t);
}

static rg_tensor *arange_integers(int64_t start, int64_t end, int64_t step, rg_dtype dtype) {
    int64_t length;
    bool wraps = __builtin_sub_overflow(end, start, &length) || length == INT64_MIN;
    if (!arange_leads(step > 0 ? end >= start : end <= start) || !arange_ends(!wraps))
        return NULL;
    int64_t n = length / step + (length % step != 0);
    rg_tensor *t = rgi_new_dims("arange", &RG_DIMS(n), dtype);
    return owned_if(t && k_arange_integers(t, start, step), t);
}

/* Makes an integer range although an argument is a float: first truncates start, end and step to
 * integers, as torch does. */
static rg_tensor *arange_cut(const making_number *a, const making_number *b,
                             const making_number *s, rg_dtype dtype) {
    if (!rgi_number_fits("arange", a->d, RG_INT64) || !rgi_number_fits("arange", b->d, RG_INT64)
        || !rgi_number_fits("arange", s->d, RG_INT64))
        return NULL;
    RG_FAIL_VALUE_IF(s->i == 0, "arange", "step must be nonzero");
    return arange_integers(a->i, b->i, s->i, dtype);
}

/* The numbers of a range: its start, its end and its step. */
typedef struct making_range {
    making_number start, end, step;
} making_range;

/* Fills *out with the numbers that a program gives for a range. Returns false on failure. */
static bool range_of(rg_tensor *start, rg_tensor *end, rg_tensor *step, making_range *out) {
    return number_of("arange", "start", start, &out->start)
           && number_of("arange", "end", end, &out->end)
           && number_of("arange", "step", step, &out->step);
}

/* Makes a range from start up to end, which is excluded. If dtype is RG_NO_DTYPE, the range is of
 * int64 or, if one of the three numbers is floating, of the default dtype. */
static rg_tensor *arange_of(const making_range *r, int dtype) {
    const making_number a = r->start;
    const making_number b = r->end;
    const making_number s = r->step;
    bool floats = rgi_is_float(a.dtype) || rgi_is_float(b.dtype) || rgi_is_float(s.dtype);
    if (dtype == RG_NO_DTYPE)
        dtype = floats ? rg_default_dtype() : RG_INT64;
    if (!rgi_want_dtype("arange", !rgi_is_bool(dtype), dtype))
        return NULL;
    RG_FAIL_IF(!(s.d > 0 || s.d < 0), "arange", "step must be nonzero");
    RG_FAIL_IF(!isfinite(a.d) || !isfinite(b.d), "arange", "unsupported range: %s -> %s",
               rgi_number(a.d), rgi_number(b.d));
    if (rgi_is_float(dtype) || rgi_is_byte(dtype))
        return arange_floats(&a, &b, &s, dtype);
    return floats ? arange_cut(&a, &b, &s, dtype) : arange_integers(a.i, b.i, s.i, dtype);
}

rg_tensor *(rg_arange_step)(rg_tensor *start, rg_tensor *end, rg_tensor *step) {
    making_range r;
    return range_of(start, end, step, &r) ? arange_of(&r, RG_NO_DTYPE) : NULL;
}

rg_tensor *(rg_arange_step_as)(rg_tensor *start, rg_tensor *end, rg_tensor *step, rg_dtype dtype) {
    making_range r;
    return rgi_check_dtype("arange", dtype) && range_of(start, end, step, &r)
               ? arange_of(&r, dtype)
               : NULL;
}

/* Fills *out for a range from 0 to `end` in steps of 1. Returns false on failure. */
static bool range_to(rg_tensor *end, making_range *out) {
    out->start = (making_number){ RG_INT64, 0, 0 };
    out->step = (making_number){ RG_INT64, 1, 1 };
    return number_of("arange", "end", end, &out->end);
}

rg_tensor *(rg_arange)(rg_tensor *end) {
    making_range r;
    return range_to(end, &r) ? arange_of(&r, RG_NO_DTYPE) : NULL;
}

rg_tensor *(rg_arange_as)(rg_tensor *end, rg_dtype dtype) {
    making_range r;
    return rgi_check_dtype("arange", dtype) && range_to(end, &r) ? arange_of(&r, dtype) : NULL;
}

/* Checks the arguments, and returns a new tensor of `steps` uninitialised numbers. Fails and
 * returns NULL if an argument isn't valid. `only` is the number that the caller writes if steps is
 * 1; it is checked in that case. */
static rg_tensor *spaced_new(const char *op, double start, double end, double only, int64_t steps,
                             rg_dtype dtype) {
    if (!rgi_check_dtype(op, dtype))
        return NULL;
    RG_FAIL_IF(steps < 0, op, "number of steps must be non-negative");
    if (!rgi_want_dtype(op, steps <= 1 || !rgi_is_bool(dtype), dtype))
        return NULL;
    if (steps == 1 && !rgi_number_fits(op, only, dtype))
        return NULL;
    if (steps > 1 && (!rgi_number_fits(op, start, dtype) || !rgi_number_fits(op, end, dtype)))
        return NULL;
    return rgi_new_dims(op, &RG_DIMS(steps), dtype);
}

rg_tensor *(rg_linspace)(double start, double end, int64_t steps, rg_dtype dtype) {
    rg_tensor *t = spaced_new("linspace", start, end, start, steps, dtype);
    if (t && steps == 1)
        rgi_store_f64(t->data, dtype, start);
    return owned_if(t && (steps <= 1 || k_linspace(t, start, end)), t);
}

rg_tensor *(rg_logspace)(double start, double end, int64_t steps, double base, rg_dtype dtype) {
    if (!rgi_check_dtype("logspace", dtype))
        return NULL;
    rg_tensor *t = spaced_new("logspace", start, end, pow(base, start), steps, dtype);
    if (!t)
        return NULL;
    if (steps > 1) {
        start = rgi_rounded(start, dtype);
        end = rgi_rounded(end, dtype);
    }
    double width = rgi_is_float(dtype) ? rgi_rounded(end - start, dtype) : end - start;
    double step = steps > 1 ? width / ((double)steps - 1) : 0;
    for (int64_t i = 0; i < steps; i++) {
        /* As in torch, the exponents of the second half are computed backwards from the end. */
        bool early = i < steps / 2 || steps == 1;
        double exponent = early ? start + step * (double)i : end - step * (double)(steps - 1 - i);
        rgi_store_f64(t->data + (size_t)i * rgi_sizeof(dtype), dtype, pow(base, exponent));
    }
    return rgi_own(t);
}

/* ---- tensors of numbers in the program's memory ---------------------------------- */

/* Returns a new tensor, which the caller fills from `data`. Fails and returns NULL if `data` is
 * NULL although the shape has elements, or if a step is being recorded. */
static rg_tensor *making_room_for(const void *data, rg_dtype dtype, const rg_dims *shape) {
    rg_tensor *t = rgi_may_read_once("from") ? rgi_new_dims("from", shape, dtype) : NULL;
    if (!t || data || !t->numel)
        return t;
    rgi_release(t);
    return rgi_fail(RG_VALUE_ERROR, "from", "there is no data to copy: got NULL");
}

rg_tensor *(rg_from_dims)(const void *data, rg_dtype dtype, rg_dims shape) {
    rg_tensor *t = making_room_for(data, dtype, &shape);
    if (!t)
        return NULL;
    /* A byte other than 0 becomes 1, since a C bool must be 0 or 1. */
    if (rgi_is_bool(dtype))
        for (int64_t i = 0; i < t->numel; i++)
            t->data[i] = ((const char *)data)[i] != 0;
    else if (t->numel)
        memcpy(t->data, data, (size_t)t->numel * rgi_sizeof(dtype));
    return rgi_own(t);
}

rg_tensor *rg_from_int(const int *data, rg_dims shape) {
    rg_tensor *t = making_room_for(data, RG_INT64, &shape);
    for (int64_t i = 0; t && i < t->numel; i++)
        ((int64_t *)t->data)[i] = data[i];
    return rgi_own(t);
}

#define FROM(name, type, dtype)                                  \
    rg_tensor *rg_from_##name(const type *data, rg_dims shape) { \
        return rg_from_dims(data, dtype, shape);                 \
    }
FROM(float, float, RG_FLOAT32)
FROM(double, double, RG_FLOAT64)
FROM(int64, int64_t, RG_INT64)
FROM(bool, bool, RG_BOOL)
FROM(uint8, uint8_t, RG_UINT8)
