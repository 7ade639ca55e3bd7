/* test_make.c: functions that make tensors give torch's values, dtypes and errors. */
#include "tests/golden.h"
#include "tests/test.h"
#include "tensor/dtype.h"
#include "tensor/memory.h"
#include "tensor/scope.h"
#include "tensor/shape.h"
#include "tensor/storage.h"

#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Returns a view of a matrix. */
static rg_tensor *transposed(rg_tensor *m) {
    rg_tensor *t = rgi_alias(m);
    t->size[0] = m->size[1];
    t->size[1] = m->size[0];
    t->stride[0] = m->stride[1];
    t->stride[1] = m->stride[0];
    rgi_update_flags(t);
    return rgi_own(t);
}

static bool has_shape(rg_tensor *t, rg_dims want) {
    rg_dims got = rg_shape(t);
    return got.n == want.n && !memcmp(got.v, want.v, (size_t)got.n * sizeof got.v[0]);
}

/* Makes the range of a case. Its words are start, end, and the step or the number of steps. */
static rg_tensor *range_of(const char *kind, rg_dtype dtype, char *words) {
    double start = golden_number(&words);
    double end = golden_number(&words);
    double third = golden_number(&words);
    if (strcmp(kind, "linspace") == 0)
        return rg_linspace(start, end, (int64_t)third, dtype);
    if (strcmp(kind, "logspace") == 0)
        return rg_logspace(start, end, (int64_t)third, 10, dtype);
    if (dtype == RG_INT64)
        return rg_arange_step((int64_t)start, (int64_t)end, (int64_t)third);
    rg_set_default_dtype(dtype);
    rg_tensor *t = rg_arange_step(start, end, third);
    rg_set_default_dtype(RG_FLOAT32);
    return t;
}

static void check_range(rg_tensor *t, rg_dtype dtype, char *bits, int line) {
    for (int i = 0; i < rg_numel(t); i++) {
        ck_assert_msg(!golden_at_end(bits), "line %d: more elements than torch's", line);
        uint64_t want = golden_bits(&bits);
        const char *p = t->data + (size_t)i * rgi_sizeof(dtype);
        double d, got = rgi_load_f64(p, dtype);
        memcpy(&d, &want, 8);
        if (dtype == RG_INT64)
            ck_assert_int_eq(rgi_load_i64(p, dtype), (int64_t)want);
        else
            ck_assert_msg(got == d || (isnan(got) && isnan(d)), "line %d, element %d: %a, not %a",
                          line, i, got, d);
    }
    ck_assert_msg(golden_at_end(bits), "line %d: fewer elements than torch's", line);
}

START_TEST(test_ranges_are_torchs) {
    golden_file f = golden_open("core");
    int ranges = 0;
    for (char *words = golden_case(&f); words; words = golden_case(&f)) {
        const char *kind = golden_word(&words);
        if (strchr(kind, '.'))
            continue; /* The case is no range, but a promotion or a conversion. */
        RG_SCOPE();
        rg_dtype dtype = golden_dtype(golden_word(&words));
        rg_tensor *t = range_of(kind, dtype, words);
        ck_ok(t);
        ck_assert_int_eq(rg_ndim(t), 1);
        ck_assert_int_eq(rg_dtype_of(t), dtype);
        check_range(t, dtype, golden_field(&f, ':'), f.line);
        ranges++;
    }
    ck_assert_int_gt(ranges, 0);
    golden_close(&f);
}
END_TEST

START_TEST(test_range_dtypes) {
    ck_assert_int_eq(rg_dtype_of(rg_arange(3)), RG_INT64);
    ck_assert_int_eq(rg_dtype_of(rg_arange(3.0)), RG_FLOAT32);
    ck_assert_int_eq(rg_dtype_of(rg_arange((bool)true)), RG_INT64);
    ck_assert_int_eq(rg_dtype_of(rg_arange(rg_scalar_dtype(3, RG_FLOAT64))), RG_FLOAT32);
    ck_assert_int_eq(rg_dtype_of(rg_arange_step(0, 3, 0.5)), RG_FLOAT32);
    ck_assert_int_eq(rg_numel(rg_arange_step(0, 3, 0.5)), 6);
    ck_assert_int_eq(rg_numel(rg_arange(0)), 0);
    ck_assert_int_eq(rg_numel(rg_arange_step(3, 3, -1)), 0);
    ck_assert_int_eq(rg_numel(rg_arange_step(3, 3, 1)), 0);
    ck_assert_int_eq(rg_numel(rg_arange_step(3.0, 3, -1)), 0);
    ck_assert_int_eq(rg_numel(rg_arange_step(3.0, 3, 1)), 0);
    ck_assert_int_eq(rg_numel(rg_arange_step(0, 1, INFINITY)), 0);
    ck_assert_int_eq(rg_item_int(rg_arange_step(INT64_MAX - 1, INT64_MAX, 1)), INT64_MAX - 1);
    ck_assert(rg_item(rg_linspace(0.5, 1, 1, RG_BOOL)) == 1);
    ck_assert_int_eq(rg_numel(rg_logspace(0, 3, 0, 10, RG_BOOL)), 0);
    ck_assert_int_eq(rg_numel(rg_linspace(0, 3, 0, RG_FLOAT64)), 0);
    ck_assert(rg_equal(rg_arange_step_as(0.5, 5.9, 1, RG_INT64), rg_arange(5)));
    /* A range of one number is base to the power of the start, which isn't rounded to float32
     * before. */
    rg_tensor *one = rg_logspace(1.1, 5, 1, 1e30, RG_FLOAT32);
    ck_assert(rg_item(one) == (float)pow(1e30, 1.1));
    ck_assert(rg_item(rg_logspace(1e300, 1, 1, 10, RG_FLOAT32)) == INFINITY);
    ck_assert(rg_item(rg_logspace(100, 1, 1, 10, RG_FLOAT64)) == 1e100);
    ck_assert(rg_item(rg_logspace(100, 1, 1, 10, RG_BOOL)) == 1);
    ck_assert(
        rg_equal(rg_logspace(0, 3, 4, -2, RG_FLOAT32), rg_from(((float[]){ 1, -2, 4, -8 }), 4)));
    ck_assert_str_eq(rg_error(), "");
}
END_TEST

START_TEST(test_range_errors) {
    ck_fails(rg_arange_step(0, 1, NAN), RG_RUNTIME_ERROR, "arange: step must be nonzero");
    ck_fails(rg_arange(INFINITY), RG_RUNTIME_ERROR, "arange: unsupported range: 0 -> inf");
    ck_fails(rg_arange(NAN), RG_RUNTIME_ERROR, "arange: unsupported range: 0 -> nan");
    ck_fails(rg_arange(1e30), RG_RUNTIME_ERROR, "arange: invalid size, possible overflow?");
    ck_fails(rg_arange(0x1p63), RG_RUNTIME_ERROR, "arange: invalid size, possible overflow?");
    ck_fails(rg_arange_step_as(-1e308, 1e308, INFINITY, RG_FLOAT64), RG_RUNTIME_ERROR,
             "arange: invalid size, possible overflow?");
    /* One of the three arguments is a number that int64 can't hold. */
    ck_fails(rg_arange_step_as(1e30, 5, 1, RG_INT64), RG_RUNTIME_ERROR,
             "arange: value cannot be converted to type int64_t without overflow");
    ck_fails(rg_arange_step_as(0, 0x1p63, 1, RG_INT64), RG_RUNTIME_ERROR,
             "arange: value cannot be converted to type int64_t without overflow");
    ck_fails(rg_arange_step_as(0, 5, 1e30, RG_INT64), RG_RUNTIME_ERROR,
             "arange: value cannot be converted to type int64_t without overflow");
    ck_fails(rg_arange_step(0, INT64_MIN, -1), RG_RUNTIME_ERROR,
             "arange: invalid size, possible overflow?");
    ck_fails(rg_arange_step(INT64_MIN, INT64_MAX, 1), RG_RUNTIME_ERROR,
             "arange: invalid size, possible overflow?");
    ck_fails(rg_arange((int64_t)1 << 62), RG_RUNTIME_ERROR,
             "Storage size calculation overflowed with sizes=[4611686018427387904]");
    ck_fails(rg_arange((int64_t)1 << 50), RG_OUT_OF_MEMORY, "out of memory");
    ck_fails(rg_linspace(1e30, 1, 3, RG_INT64), RG_RUNTIME_ERROR,
             "value cannot be converted to type int64_t without overflow");
    ck_fails(rg_linspace(NAN, 1, 1, RG_INT64), RG_RUNTIME_ERROR,
             "value cannot be converted to type int64_t without overflow");
    ck_fails(rg_linspace(1e300, 1, 3, RG_FLOAT32), RG_RUNTIME_ERROR,
             "value cannot be converted to type float without overflow");
    ck_fails(rg_linspace(1e300, 1, 1, RG_FLOAT32), RG_RUNTIME_ERROR,
             "value cannot be converted to type float without overflow");
    ck_fails(rg_logspace(30, 3, 1, 10, RG_INT64), RG_RUNTIME_ERROR,
             "value cannot be converted to type int64_t without overflow");
    ck_fails(rg_logspace(100, 3, 1, 10, RG_FLOAT32), RG_RUNTIME_ERROR,
             "value cannot be converted to type float without overflow");
    ck_fails(rg_linspace(0, 1, INT64_MAX, RG_FLOAT64), RG_RUNTIME_ERROR,
             "Storage size calculation overflowed");
    ck_fails(rg_eye((int64_t)1 << 40, (int64_t)1 << 40), RG_RUNTIME_ERROR, "overflow");
}
END_TEST

START_TEST(test_constants) {
    rg_tensor *t = rg_full(RG_DIMS(2, 3), 7);
    ck_assert(has_shape(t, RG_DIMS(2, 3)) && rg_dtype_of(t) == RG_INT64);
    for (int i = 0; i < 6; i++)
        ck_assert(rg_at(t, i / 3, i % 3) == 7);
    ck_assert_int_eq(rg_dtype_of(rg_full(RG_DIMS(2), (bool)true)), RG_BOOL);
    ck_assert_int_eq(rg_dtype_of(rg_full(RG_DIMS(2), 1.5f)), RG_FLOAT32);
    ck_assert_int_eq(rg_dtype_of(rg_full(RG_DIMS(2), rg_scalar_dtype(1.5, RG_FLOAT64))),
                     RG_FLOAT32);
    ck_assert(rg_equal(rg_full_dims(RG_DIMS(2), -1.7, RG_INT64), rg_from(((int[]){ -1, -1 }), 2)));
    ck_assert(rg_equal(rg_full_dims(RG_DIMS(1), 0.5, RG_BOOL), rg_full(RG_DIMS(1), (bool)true)));
    ck_assert(rg_equal(rg_full_dims(RG_DIMS(1), NAN, RG_BOOL), rg_full(RG_DIMS(1), (bool)true)));
    ck_assert(rg_item(rg_full_dims(RG_DIMS(1), INFINITY, RG_FLOAT32)) == INFINITY);
    ck_assert_int_eq(rg_item_int(rg_full(RG_DIMS(1), INT64_MAX)), INT64_MAX);
    ck_assert(rg_item(rg_full_dims(RG_DIMS(1), 16777217, RG_FLOAT32)) == 16777216);
    rg_tensor *like = rg_full_like(rg_from(((int[]){ 1, 2 }), 2), 1.5);
    ck_assert(rg_dtype_of(like) == RG_INT64 && rg_at(like, 1) == 1);

    rg_tensor *x = transposed(rg_ones_dims(RG_DIMS(2, 3), RG_FLOAT64));
    ck_assert(has_shape(rg_zeros_like(x), RG_DIMS(3, 2))
              && rg_dtype_of(rg_empty_like(x)) == RG_FLOAT64);
    ck_assert(rg_equal(rg_ones_like(x), x));
    ck_assert(rg_equal(rg_zeros_like(x), rg_zeros(3, 2)));
    ck_assert(has_shape(rg_zeros_dims(RG_DIMS(), RG_BOOL), RG_DIMS()));
    ck_assert(rg_equal(rg_eye(2, 3), rg_from(((float[]){ 1, 0, 0, 0, 1, 0 }), 2, 3)));
    ck_assert(rg_equal(rg_eye(3, 2), rg_from(((float[]){ 1, 0, 0, 1, 0, 0 }), 3, 2)));
    ck_assert(has_shape(rg_eye(0, 0), RG_DIMS(0, 0)));
    rg_tensor *empty = rg_zeros(0, 2, 0, 3);
    ck_assert(rg_stride(empty, 0) == 6 && rg_stride(empty, 1) == 3 && rg_stride(empty, 2) == 3
              && rg_stride(empty, 3) == 1);
    ck_assert_str_eq(rg_error(), "");
}
END_TEST

START_TEST(test_constant_errors) {
    int64_t big = (int64_t)1 << 40;
    ck_fails(
        rg_zeros(big, big), RG_RUNTIME_ERROR,
        "zeros: Storage size calculation overflowed with sizes=[1099511627776, 1099511627776]");
    ck_fails(rg_zeros(0, big, big), RG_RUNTIME_ERROR, "zeros: Stride calculation overflowed");
    ck_fails(rg_zeros(big, big, 0), RG_RUNTIME_ERROR, "zeros: Storage size calculation overflowed");
    ck_fails(rg_zeros(big << 20), RG_RUNTIME_ERROR,
             "Storage size calculation overflowed with sizes=[1152921504606846976]");
    ck_fails(rg_zeros(big), RG_OUT_OF_MEMORY, "out of memory");
    ck_fails(rg_zeros(INT64_MAX / 16), RG_OUT_OF_MEMORY, "out of memory");
    ck_fails(rg_zeros(INT64_MAX / 16 + 1), RG_RUNTIME_ERROR, "zeros: Storage size calculation");
    ck_fails(rg_empty_dims((rg_dims){ .n = 9 }, RG_FLOAT32), RG_RUNTIME_ERROR,
             "at most 8 dimensions, but 9 were asked for");
    ck_fails(rg_full_dims(RG_DIMS(2), NAN, RG_INT64), RG_RUNTIME_ERROR,
             "full: value cannot be converted to type int64_t without overflow");
    ck_fails(rg_full_dims(RG_DIMS(2), 1e300, RG_FLOAT32), RG_RUNTIME_ERROR,
             "full: value cannot be converted to type float without overflow");
    /* The largest number of float32 is accepted, and a larger number isn't. */
    for (int sign = -1; sign < 2; sign += 2) {
        const double largest = sign * (double)FLT_MAX;
        ck_assert_double_eq(rg_at(rg_full_dims(RG_DIMS(1), largest, RG_FLOAT32), 0), largest);
        ck_fails(rg_full_dims(RG_DIMS(1), nextafter(largest, sign * INFINITY), RG_FLOAT32),
                 RG_RUNTIME_ERROR, "value cannot be converted to type float without overflow");
    }
    ck_fails(rg_full_like(rg_arange(2), -INFINITY), RG_RUNTIME_ERROR,
             "full_like: value cannot be converted to type int64_t without overflow");
    ck_fails(rg_scalar_dtype(NAN, RG_INT64), RG_RUNTIME_ERROR,
             "scalar: value cannot be converted to type int64_t without overflow");
    ck_fails(rg_from_float(NULL, RG_DIMS(-2)), RG_RUNTIME_ERROR,
             "from: Trying to create tensor with negative dimension -2");
    ck_ok(rg_from_float(NULL, RG_DIMS(0, 2)));
}
END_TEST

START_TEST(test_numbers) {
    rg_tensor *f = rg_wrap_float(0.1), *i = rg_wrap_int(INT64_MIN), *b = rg_wrap_bool(true);
    ck_assert(f->flags & RG_WEAK && i->flags & RG_WEAK && b->flags & RG_WEAK);
    ck_assert(rg_dtype_of(f) == RG_FLOAT64 && rg_ndim(f) == 0 && rg_item(f) == 0.1);
    ck_assert(rg_dtype_of(i) == RG_INT64 && rg_item_int(i) == INT64_MIN);
    ck_assert(rg_dtype_of(b) == RG_BOOL && rg_item(b) == 1);
    rg_tensor *s = rg_scalar(0.1);
    ck_assert(rg_dtype_of(s) == RG_FLOAT32 && rg_item(s) == 0.1f && !(s->flags & RG_WEAK));
    ck_assert(rg_dtype_of(rg_scalar(3)) == RG_INT64
              && rg_dtype_of(rg_scalar((bool)false)) == RG_BOOL);
    ck_assert(rg_dtype_of(rg_scalar(rg_scalar_dtype(1, RG_FLOAT64))) == RG_FLOAT64);
    ck_assert(rg_item(rg_scalar(1e300)) == INFINITY);
    ck_assert(rg_item(rg_scalar_dtype(-1.7, RG_INT64)) == -1
              && rg_item(rg_scalar_dtype(NAN, RG_BOOL)) == 1);
    ck_assert_int_eq(rg_result_type(rg_arange(2), f), RG_FLOAT32);
    ck_assert_int_eq(rg_result_type(rg_arange(2), rg_scalar_dtype(1, RG_FLOAT64)), RG_FLOAT64);
    char c = 3;
    unsigned short us = 65535;
    ck_assert(rg_item(rg_scalar(c)) == 3 && rg_item(rg_scalar(us)) == 65535);
    ck_assert(rg_item(rg_scalar(2.5L)) == 2.5 && rg_item(rg_scalar((uint32_t)-1)) == 4294967295.0);
    int calls = 0;
    rg_scalar(calls++);
    ck_assert_int_eq(calls, 1);
    ck_fails(rg_scalar(UINT64_MAX), RG_RUNTIME_ERROR,
             "18446744073709551615: value cannot be converted to type int64_t without overflow");
}
END_TEST

START_TEST(test_from_memory) {
    float f[] = { 1, 2.5f, -3, 4, 5, 6 };
    const int64_t l[] = { INT64_MIN, INT64_MAX };
    rg_tensor *t = rg_from(f, 2, 3);
    f[0] = 9;
    ck_assert(rg_dtype_of(t) == RG_FLOAT32 && rg_at(t, 0, 0) == 1 && rg_at(t, 0, 1) == 2.5
              && rg_at(t, 1, 2) == 6);
    ck_assert_int_eq(((int64_t *)rg_data(rg_from(l, 2)))[1], INT64_MAX);
    ck_assert(rg_dtype_of(rg_from(((double[]){ 1 }), 1)) == RG_FLOAT64);
    rg_tensor *ints = rg_from(((int[]){ INT_MIN, 7 }), 2);
    ck_assert(rg_dtype_of(ints) == RG_INT64 && rg_at(ints, 0) == INT_MIN && rg_at(ints, 1) == 7);
    ck_assert(rg_at(rg_from(((bool[]){ false, true }), 2), 1) == 1);
    rg_tensor *bytes = rg_from_dims("\0\2\377", RG_BOOL, RG_DIMS(3));
    ck_assert(rg_at(bytes, 0) == 0 && rg_at(bytes, 1) == 1 && ((char *)rg_data(bytes))[2] == 1);
    ck_assert(rg_numel(rg_from(f)) == 1 && rg_ndim(rg_from(f)) == 0);
}
END_TEST

/* ---- without memory ---------------------------------------------------------------- */

static const int numbers[1000];

/* Calls function number k that makes a tensor. Returns its tensor, and sets *name to its name. */
static rg_tensor *make(int k, rg_tensor *old, rg_tensor *two, const char **name) {
    switch (k) {
    case 0: *name = "empty"; return rg_empty(1000);
    case 1: *name = "zeros"; return rg_zeros(1000);
    case 2: *name = "ones"; return rg_ones(1000);
    case 3: *name = "full"; return rg_full_dims(RG_DIMS(1000), two, RG_FLOAT32);
    case 4: *name = "full"; return rg_full(RG_DIMS(1000), two);
    case 5: *name = "empty_like"; return rg_empty_like(old);
    case 6: *name = "zeros_like"; return rg_zeros_like(old);
    case 7: *name = "ones_like"; return rg_ones_like(old);
    case 8: *name = "full_like"; return rg_full_like(old, two);
    case 9: *name = "eye"; return rg_eye(30, 40);
    case 10: *name = "arange"; return rg_arange(two);
    case 11: *name = "arange"; return rg_arange_as(two, RG_FLOAT32);
    case 12: *name = "linspace"; return rg_linspace(0, 1, 1000, RG_FLOAT32);
    case 13: *name = "logspace"; return rg_logspace(0, 1, 1000, 10, RG_FLOAT32);
    case 14: *name = "parse"; return rg_parse("[1, 2, 3]");
    case 15: *name = "scalar"; return rg_scalar(two);
    case 16: *name = "scalar"; return rg_scalar_dtype(2, RG_FLOAT64);
    case 17: *name = "scalar"; return rg_wrap_float(2);
    case 18: *name = "from"; return rg_from_int(numbers, RG_DIMS(1000));
    case 19: *name = "rand"; return rg_rand(1000);
    case 20: *name = "randn"; return rg_randn(1000);
    case 21: *name = "randint"; return rg_randint(0, 9, 1000);
    case 22: *name = "randperm"; return rg_randperm(1000);
    case 23: *name = "rand_like"; return rg_rand_like(old);
    case 24: *name = "randn_like"; return rg_randn_like(old);
    }
    *name = NULL;
    return NULL;
}

/* Whichever request for memory is denied to a function that makes a tensor, the error has the
 * function's name. */
START_TEST(test_what_makes_without_memory) {
    const char *name;
    rg_tensor *old = rg_zeros(1000), *two = rg_scalar(2);
    for (int i = 0; i < 200; i++) /* After these, the scope has room for more tensors. */
        rg_zeros(1);
    for (int k = 0; make(k, old, two, &name); k++) {
        bool done = false;
        for (int64_t n = 1; !done; n++) {
            RG_SCOPE();
            char begins[64];
            rg_error_clear();
            rg_memory_fail_at(n);
            done = make(k, old, two, &name);
            rg_memory_fail_at(0);
            snprintf(begins, sizeof begins, "%s: out of memory: ", name);
            ck_each(done || strncmp(rg_error(), begins, strlen(begins)) == 0, "%d, %s: '%s'", k,
                    name, rg_error());
            ck_each(!done || (n > 1 && !*rg_error()), "%d, %s: '%s'", k, name, rg_error());
        }
    }
    ck_assert(!name);
}
END_TEST

RG_TESTS(make, test_what_makes_without_memory, test_ranges_are_torchs, test_range_dtypes,
         test_range_errors, test_constants, test_constant_errors, test_numbers, test_from_memory)
