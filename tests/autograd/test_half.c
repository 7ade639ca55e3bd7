/*
 * test_half.c: the dtypes with elements of 16 bits, bfloat16 and float16. Every element is
 * converted to float and back; floats are rounded to the nearest element; tensors are made, moved,
 * compared, printed and written to files.
 */
#include "regard.h"
#include "tests/golden.h"
#include "tests/scratch.h"
#include "tests/test.h"
#include "tensor/dtype.h"
#include "tensor/files/files.h"
#include "tensor/kernels/copy.h"
#include "tensor/kernels/half.h"
#include "tensor/kernels/limits.h"
#include "tensor/structs.h"

#include <math.h>

/* Returns the value of an element: (-1)^sign * 2^(e - bias) * 1.m, computed in double. */
static double value_of(rg_dtype dtype, unsigned bits) {
    const int mantissa = rgi_mantissa_bits(dtype) - 1;
    const int exponents = 15 - mantissa;
    const int e = (int)(bits >> mantissa & ((1u << exponents) - 1));
    const int bias = (1 << (exponents - 1)) - 1;
    const unsigned m = bits & ((1u << mantissa) - 1);
    const double sign = bits >> 15 ? -1 : 1;
    if (e == (1 << exponents) - 1)
        return m ? NAN : sign * HUGE_VAL;
    return sign * ldexp(e ? m + (1u << mantissa) : m, (e ? e : 1) - bias - mantissa);
}

/* Returns all 65,536 elements of the dtype, in the order of their bits. */
static rg_tensor *all_elements(rg_dtype dtype) {
    static uint16_t bits[1 << 16];
    for (int i = 0; i < 1 << 16; i++)
        bits[i] = (uint16_t)i;
    return rg_from_dims(bits, dtype, RG_DIMS(1 << 16));
}

static void check_every_element(rg_dtype dtype) {
    const rg_tensor *all = all_elements(dtype);
    const float *floats = rg_data_as(float, rg_to((rg_tensor *)all, RG_FLOAT32));
    const double *doubles = rg_data_as(double, rg_to((rg_tensor *)all, RG_FLOAT64));
    rg_tensor *back = rg_to(rg_to((rg_tensor *)all, RG_FLOAT32), dtype);
    const uint16_t *bits = rg_data(back);
    for (unsigned i = 0; i < 1 << 16; i++) {
        const double v = value_of(dtype, i);
        const double one = rgi_load_f64(all->data + 2 * i, dtype);
        ck_each(isnan(v) ? isnan(floats[i]) && isnan(doubles[i]) && isnan(one)
                         : floats[i] == v && doubles[i] == v && one == v
                               && !signbit(floats[i]) == !signbit(v),
                "%s 0x%04x is %g, not %g", rg_dtype_name(dtype), i, (double)floats[i], v);
        ck_each(isnan(v) ? isnan(value_of(dtype, bits[i])) : bits[i] == i,
                "%s 0x%04x returns 0x%04x", rg_dtype_name(dtype), i, bits[i]);
    }
}
START_TEST(test_every_element) {
    check_every_element(RG_BFLOAT16);
    check_every_element(RG_FLOAT16);
}
END_TEST

static float random_float(uint32_t *state) {
    float x;
    *state = *state * 1664525 + 1013904223;
    const uint32_t bits = *state ^ *state >> 16;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Elements in a row have the same bits as each alone, also the bits of NaN. */
START_TEST(test_elements_in_a_row) {
    enum { N = (1 << 16) - 1 };
    const rg_tensor *all = all_elements(RG_FLOAT16);
    const float *floats = rg_data_as(float, rg_to((rg_tensor *)all, RG_FLOAT32));
    for (int i = 0; i < 1 << 16; i++) {
        const float alone = k_float_of_float16((k_float16){ (uint16_t)i });
        ck_each(memcmp(&floats[i], &alone, sizeof alone) == 0, "float16 0x%04x: %a, alone %a", i,
                (double)floats[i], (double)alone);
    }
    static float x[N];
    uint32_t state = 1;
    for (int i = 0; i < N; i++)
        x[i] = i % 4 ? random_float(&state) : floats[i];
    const rg_tensor *from = rg_from_dims(x, RG_FLOAT32, RG_DIMS(N));
    const uint16_t *bits = rg_data(rg_to((rg_tensor *)from, RG_FLOAT16));
    const uint16_t *brain = rg_data(rg_to((rg_tensor *)from, RG_BFLOAT16));
    for (int i = 0; i < N; i++)
        ck_each(bits[i] == k_float16_of_float(x[i]).bits
                    && brain[i] == k_bfloat16_of_float(x[i]).bits,
                "%a is 0x%04x and 0x%04x", (double)x[i], bits[i], brain[i]);
}
END_TEST

/* Requires that the floats x[] become the elements wanted[]. */
static void check_rounding(rg_dtype dtype, float x[3], const double wanted[3]) {
    uint16_t y[3];
    rg_tensor to = RG_NUMBER(dtype, y), from = RG_NUMBER(RG_FLOAT32, x);
    to.ndim = from.ndim = 1;
    to.numel = from.numel = to.size[0] = from.size[0] = 3;
    to.stride[0] = from.stride[0] = 1;
    rgi_copy_elements(&to, &from);
    for (int k = 0; k < 3; k++)
        ck_each(value_of(dtype, y[k]) == wanted[k] && rgi_rounded((double)x[k], dtype) == wanted[k],
                "%s: %a becomes %g, not %g", rg_dtype_name(dtype), (double)x[k],
                value_of(dtype, y[k]), wanted[k]);
}

/* The number in the middle between two neighbours is rounded to the one whose last bit is 0, and
 * its neighbours among the floats to the nearer one. */
static void check_neighbours(rg_dtype dtype, unsigned i) {
    const double low = value_of(dtype, i), high = value_of(dtype, i + 1);
    if (!isfinite(low) || isnan(high))
        return;
    const double next = isinf(high) ? 2 * low - value_of(dtype, i - 1) : high;
    const float middle = (float)(low / 2 + next / 2);
    for (int sign = -1; sign <= 1; sign += 2) {
        const float s = (float)sign;
        float x[] = { s * middle, s * nextafterf(middle, 0), s * nextafterf(middle, INFINITY) };
        check_rounding(dtype, x,
                       (double[]){ sign * (i % 2 ? high : low), sign * low, sign * high });
    }
}
START_TEST(test_rounding) {
    for (unsigned i = 0; i + 1 < 1 << 15; i++) {
        check_neighbours(RG_BFLOAT16, i);
        check_neighbours(RG_FLOAT16, i);
    }
}
END_TEST

/* A double is rounded by way of float, as in torch. Whole numbers and bools are converted, too. */
START_TEST(test_other_dtypes) {
    rg_tensor *x = rg_literal_as(RG_FLOAT64, [ 1.00390625000001, 1e300, -0.0, nan, 3.7, -3.7 ]);
    rg_tensor *y = rg_to(x, RG_BFLOAT16);
    ck_assert(rg_at(y, 0) == 1 && rg_at(y, 1) == INFINITY && signbit(rg_at(y, 2)));
    rg_tensor *z = rg_to(x, RG_FLOAT16);
    ck_assert(rg_at(z, 0) == 1.00390625 && isinf(rg_at(z, 1)) && isnan(rg_at(z, 3)));
    rg_tensor *whole = rg_to(y, RG_INT64);
    ck_assert(rg_at(whole, 1) == (double)INT64_MIN && rg_at(whole, 3) == (double)INT64_MIN
              && rg_at(whole, 4) == 3 && rg_at(whole, 5) == -3);
    ck_ok(rg_equal(rg_to(z, RG_BOOL), rg_literal([ True, True, False, True, True, True ])));
    rg_tensor *n = rg_literal([ 16777217, 257, 2049, 70000 ]);
    ck_ok(rg_equal(rg_to(rg_to(n, RG_BFLOAT16), RG_INT64),
                   rg_literal([ 16777216, 256, 2048, 70144 ])));
    ck_assert(rg_at(rg_to(n, RG_FLOAT16), 2) == 2048 && isinf(rg_at(rg_to(n, RG_FLOAT16), 3)));
    ck_ok(rg_at(rg_to(z, RG_BFLOAT16), 4) == rg_at(y, 4));
}
END_TEST

START_TEST(test_promotion) {
    rg_tensor *b = rg_ones_dims(RG_DIMS(2), RG_BFLOAT16), *h = rg_ones_dims(RG_DIMS(2), RG_FLOAT16);
    ck_assert_int_eq(rg_promote_types(RG_BFLOAT16, RG_FLOAT16), RG_FLOAT32);
    ck_assert_int_eq(rg_promote_types(RG_BFLOAT16, RG_INT64), RG_BFLOAT16);
    ck_assert_int_eq(rg_promote_types(RG_FLOAT64, RG_FLOAT16), RG_FLOAT64);
    ck_assert_int_eq(rg_result_type(b, rg_ones(2)), RG_FLOAT32);
    ck_assert_int_eq(rg_result_type(b, rg_scalar_dtype(1, RG_FLOAT64)), RG_BFLOAT16);
    ck_assert_int_eq(rg_result_type(h, rg_wrap_float(2.5)), RG_FLOAT16);
    ck_assert_int_eq(rg_result_type(b, rg_scalar_dtype(1, RG_FLOAT16)), RG_BFLOAT16);
}
END_TEST

START_TEST(test_printing) {
    ck_assert_str_eq(rg_repr(rg_literal_as(RG_BFLOAT16, [ 0.1, 1, 1000.25, -3 ])),
                     "tensor([ 1.0010e-01,  1.0000e+00,  1.0000e+03, -3.0000e+00],\n"
                     "       dtype=torch.bfloat16)");
    ck_assert_str_eq(rg_repr(rg_scalar_dtype(0.1, RG_FLOAT16)),
                     "tensor(0.1000, dtype=torch.float16)");
    ck_assert_str_eq(rg_str(rg_scalar_dtype(0.1, RG_BFLOAT16)), "0.10009765625");
    rg_tensor *x = rg_parse("tensor([1.5, 2.], dtype=torch.bfloat16)");
    ck_assert_int_eq(rg_dtype_of(x), RG_BFLOAT16);
    ck_assert(rg_at(x, 0) == 1.5 && rg_item_int(rg_scalar_dtype(7, RG_FLOAT16)) == 7);
}
END_TEST

START_TEST(test_limits) {
    ck_fails(rg_full_dims(RG_DIMS(2), 70000, RG_FLOAT16), RG_RUNTIME_ERROR,
             "full: value cannot be converted to type c10::Half without overflow");
    ck_fails(rg_full_dims(RG_DIMS(2), 1e39, RG_BFLOAT16), RG_RUNTIME_ERROR,
             "full: value cannot be converted to type c10::BFloat16 without overflow");
    ck_assert(rg_at(rg_full_dims(RG_DIMS(2), 70000, RG_BFLOAT16), 1) == 70144);
    ck_ok(rg_allclose(rg_full_dims(RG_DIMS(3), 1.5, RG_FLOAT16),
                      rg_full_dims(RG_DIMS(3), 1.5, RG_FLOAT16), 0, 0));
    ck_assert(!rg_equal(rg_full_dims(RG_DIMS(1), 0.1, RG_FLOAT16), rg_full(RG_DIMS(1), 0.1)));
    ck_ok(rg_set_default_dtype(RG_BFLOAT16));
    ck_assert_int_eq(rg_dtype_of(rg_zeros(2)), RG_BFLOAT16);
    ck_ok(rg_set_default_dtype(RG_FLOAT32));
}
END_TEST

/* Ranges are computed in float32, as in torch, and random numbers are torch's. */
START_TEST(test_filled) {
    ck_ok(rg_equal(rg_arange_step_as(0, 1, 0.3, RG_BFLOAT16),
                   rg_literal_as(RG_BFLOAT16, [ 0, 0.30078125, 0.6015625, 0.8984375 ])));
    ck_ok(rg_equal(rg_linspace(0, 1, 4, RG_FLOAT16),
                   rg_literal_as(RG_FLOAT16, [ 0, 0.333251953125, 0.66650390625, 1 ])));
    golden_file f = golden_open("half");
    for (char *words; (words = golden_case(&f));) {
        const char *what = golden_word(&words);
        const rg_dtype dtype = golden_dtype(golden_word(&words));
        const rg_dims shape = golden_dims(golden_word(&words));
        rg_manual_seed(5);
        rg_tensor *t = rg_empty_dims(shape, dtype);
        rg_tensor *weights = rg_to(rg_linspace(0, 1, 600, RG_FLOAT32), dtype);
        if (strcmp(what, "uniform") == 0)
            rg_uniform_(t, -1.1, 2.3);
        else if (strcmp(what, "normal") == 0)
            rg_normal_(t, 0.3, 1.7);
        else if (strcmp(what, "exponential") == 0)
            rg_exponential_(t, 1.5);
        else if (strcmp(what, "trunc") == 0)
            rg_trunc_normal_(t, 0.3, 1.7, -2.003, 2.003);
        else if (strcmp(what, "narrow") == 0)
            rg_trunc_normal_(t, 0.3, 1.7, -0.3001, 0.3001);
        else if (strcmp(what, "bernoulli") == 0)
            rg_bernoulli_(t, 0.3);
        else if (strcmp(what, "randint") == 0)
            t = rg_randint_dims(0, 10, shape, dtype, rg_default_generator());
        else if (strcmp(what, "chances") == 0)
            t = rg_bernoulli(rg_to(rg_linspace(0, 0.1, shape.v[0], RG_FLOAT32), dtype));
        else if (strcmp(what, "draws") == 0)
            t = rg_multinomial(weights, shape.v[0], true);
        else if (strcmp(what, "distinct") == 0)
            t = rg_multinomial(weights, shape.v[0], false);
        else
            t = rg_dropout(rg_ones_dims(shape, dtype), 0.3, true);
        char *numbers = golden_field(&f, ':');
        for (int64_t i = 0; i < t->numel; i++)
            ck_each(rg_at(t, i) == golden_number(&numbers),
                    "%s, %s: element %lld", what, rg_dtype_name(dtype), (long long)i);
        ck_each(rg_item_int(rg_randint(0, 1 << 24, 1)) == golden_integer(&numbers),
                "%s: the stream goes on otherwise", what);
    }
    golden_close(&f);
}
END_TEST

/* The gradient of a float32 source is summed in float32, though the copy has 16 bits. */
START_TEST(test_gradient_of_a_copied_source) {
    rg_tensor *source = rg_requires_grad_(rg_ones(1), true);
    rg_tensor *y = rg_copy_(rg_zeros_dims(RG_DIMS(100000), RG_FLOAT16), source);
    ck_ok(rg_backward(y, .gradient = rg_ones_like(y)));
    ck_assert_double_eq(rg_item(rg_grad_of(source)), 100000);
}
END_TEST

/* Compares x w^T + bias with the same product in float32, rounded. */
static void check_linear(rg_tensor *x, rg_tensor *w, rg_tensor *bias) {
    rg_tensor *wide = rg_linear(rg_float(x), rg_float(w),
                                bias == RG_NONE ? RG_NONE : rg_float(bias));
    rg_tensor *y = rg_linear(x, w, bias);
    ck_ok(y);
    ck_assert_int_eq(rg_dtype_of(y), rg_dtype_of(w));
    const double epsilon = rgi_epsilon((rg_dtype)rg_dtype_of(w));
    ck_ok(rg_allclose(rg_float(y), wide, epsilon, 1e-4));
}

/* A linear layer's weight of several panels, or a turned one, is never converted as a whole. */
START_TEST(test_linear) {
    for (int i = 0; i < 2; i++) {
        RG_SCOPE();
        const rg_dtype dtype = i ? RG_FLOAT16 : RG_BFLOAT16;
        rg_manual_seed(1);
        rg_tensor *w = rg_to(rg_div(rg_randn(1500, 301), 8), dtype);
        rg_tensor *turned = rg_T(rg_to(rg_div(rg_randn(301, 1500), 8), dtype));
        rg_tensor *bias = rg_to(rg_randn(1500), dtype);
        rg_tensor *x[] = { rg_to(rg_randn(301), dtype), rg_to(rg_randn(1, 301), dtype),
                           rg_to(rg_randn(2, 3, 301), dtype),
                           rg_T(rg_to(rg_randn(301, 5), dtype)) };
        for (int k = 0; k < 4; k++) {
            check_linear(x[k], w, bias);
            check_linear(x[k], turned, RG_NONE);
            RG_SCOPE();
            RG_NO_GRAD();
            rg_memory_reset_peak();
            const int64_t before = rg_memory_stats().now;
            ck_ok(rg_linear(x[k], w, bias));
            ck_assert_int_lt(rg_memory_stats().peak - before, 1500 * 301 * 2);
        }
    }
}
END_TEST

static void half_step(void *x) { rg_add((rg_tensor *)x, 1); }

/* A recorded step refuses the dtypes by name. */
START_TEST(test_refused) {
    rg_tensor *x = rg_keep(rg_ones_dims(RG_DIMS(3), RG_BFLOAT16));
    ck_fails(rg_record(half_step, x), RG_NOT_IMPLEMENTED,
             "add: not implemented for 'BFloat16' in a recorded step");
    rg_drop(x);
}
END_TEST

/* Files have the dtype, and half of float32's bytes. NumPy has no bfloat16. */
static void check_files(rg_dtype dtype) {
    scratch_begin();
    rg_tensor *x = rg_reshape(all_elements(dtype), 256, 256), *turned = rg_T(x);
    const rg_named all[] = { { "x", x }, { "turned", turned } };
    const rg_named_list list = { 2, all };
    ck_ok(rg_save_file(list, scratch("f")));
    ck_ok(rg_torch_save(list, scratch("t")));
    for (int i = 0; i < 2; i++) {
        const rg_named_list back = i ? rg_torch_load(scratch("t")) : rg_load_file(scratch("f"));
        ck_assert_int_eq(back.n, 2);
        for (int k = 0; k < 2; k++) {
            rg_tensor *is = back.v[k].tensor;
            rg_tensor *want = strcmp(back.v[k].name, "x") ? turned : x;
            ck_assert_int_eq(is->dtype, dtype);
            ck_assert(!memcmp(rg_data(rg_contiguous(is)), rg_data(rg_contiguous(want)), 2 << 16));
        }
    }
    if (dtype == RG_FLOAT16) {
        ck_ok(rg_save_npy(turned, scratch("n")));
        ck_assert(!memcmp(rg_data(rg_contiguous(rg_load_npy(scratch("n")))),
                          rg_data(rg_contiguous(turned)), 2 << 16));
    } else {
        ck_fails(rg_save_npy(x, scratch("n")), RG_TYPE_ERROR,
                 "save_npy: NumPy has no bfloat16: rg_to converts the tensor, to float32 for "
                 "example");
        ck_fails(rg_save_npz(list, scratch("n")), RG_TYPE_ERROR,
                 "save_npz: NumPy has no bfloat16: rg_to converts the tensor, to float32 for "
                 "example");
    }
    scratch_end();
}
START_TEST(test_files) {
    check_files(RG_BFLOAT16);
    check_files(RG_FLOAT16);
}
END_TEST

/* The gradient of a loss in 16 bits is as near to that of float64 as its own rounding allows, also
 * where all logits are large. */
START_TEST(test_gradient_of_large_logits) {
    for (int i = 0; i < 4; i++) {
        RG_SCOPE();
        const rg_dtype dtype = i % 2 ? RG_FLOAT16 : RG_BFLOAT16;
        rg_manual_seed(8);
        rg_tensor *x = rg_randn_dims(RG_DIMS(6, 9), RG_FLOAT64, rg_default_generator());
        rg_tensor *narrow = rg_to(rg_add(x, i < 2 ? 30 : 300), dtype), *wide = rg_double(narrow);
        rg_tensor *target = rg_literal([ 0, 3, 8, 2, 2, 5 ]), *g[2];
        for (int k = 0; k < 2; k++) {
            rg_tensor *in = rg_requires_grad_(k ? wide : narrow, true);
            g[k] = rg_double(rg_grad(rg_cross_entropy(in, target), in));
        }
        const double off = rg_item(rg_norm(rg_sub(g[0], g[1]))) / rg_item(rg_norm(g[1]));
        ck_assert_msg(off < 0.005, "row %d: %g", i, off);
    }
}
END_TEST

RG_TESTS(half, test_gradient_of_large_logits, test_every_element, test_elements_in_a_row,
         test_rounding, test_other_dtypes, test_promotion, test_printing, test_limits, test_filled,
         test_gradient_of_a_copied_source, test_linear, test_refused, test_files)
