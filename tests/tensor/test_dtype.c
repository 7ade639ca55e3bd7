/* test_dtype.c: element types have their names, and promote as torch.result_type does. */
#include "tests/golden.h"
#include "tests/test.h"
#include "tensor/dtype.h"
#include "tensor/kernels/limits.h"

enum { OPERANDS = 11 };

/* Reads the dtypes to which operand a and each other operand are promoted, with this default
 * dtype. */
static void read_promoted(rg_dtype by_default, int a, rg_dtype promoted[OPERANDS]) {
    golden_file f = golden_find("core", "promoted.%s.%d", golden_dtype_name(by_default), a);
    char *names = golden_field(&f, ':');
    for (int b = 0; b < OPERANDS; b++)
        promoted[b] = golden_dtype(golden_word(&names));
    golden_close(&f);
}

/* Returns one of core.py's operands: four with dims, four 0-d, and Python's bool, int and float. */
static rg_tensor *operand(int k) {
    if (k < 4)
        return rg_ones_dims(RG_DIMS(2), (rg_dtype)k);
    if (k < 8)
        return rg_scalar_dtype(1, (rg_dtype)(k - 4));
    if (k == 8)
        return rg_wrap_bool(true);
    return k == 9 ? rg_wrap_int(2) : rg_wrap_float(2.5);
}

START_TEST(test_result_type) {
    for (int d = 0; d < 2; d++) {
        rg_dtype by_default = d ? RG_FLOAT64 : RG_FLOAT32;
        ck_assert(rg_set_default_dtype(by_default));
        for (int a = 0; a < OPERANDS; a++) {
            rg_dtype want[OPERANDS];
            read_promoted(by_default, a, want);
            for (int b = 0; b < OPERANDS; b++) {
                RG_SCOPE();
                int got = rg_result_type(operand(a), operand(b));
                ck_assert_msg(got == (int)want[b], "default %d, operands %d and %d: %d, not %d", d,
                              a, b, got, (int)want[b]);
            }
        }
    }
    rg_set_default_dtype(RG_FLOAT32);
}
END_TEST

/* The order of three operands must not matter. Operands with dims come first, then those without,
 * and then wrapped numbers. */
START_TEST(test_three_operands) {
    RG_SCOPE();
    rg_tensor *bools = operand(0), *ints = operand(1), *d0 = operand(7), *number = operand(10);
    ck_assert_int_eq(rgi_promote(3, (rg_tensor *[]){ bools, ints, d0 }), RG_FLOAT64);
    ck_assert_int_eq(rgi_promote(3, (rg_tensor *[]){ d0, number, ints }), RG_FLOAT64);
    ck_assert_int_eq(rgi_promote(3, (rg_tensor *[]){ number, ints, bools }), RG_FLOAT32);
    ck_assert_int_eq(rgi_promote(3, (rg_tensor *[]){ d0, operand(2), number }), RG_FLOAT32);
    ck_assert_int_eq(rgi_promote(3, (rg_tensor *[]){ operand(2), number, operand(3) }), RG_FLOAT64);
}
END_TEST

START_TEST(test_names_and_types) {
    ck_assert_str_eq(rg_dtype_name(RG_BOOL), "torch.bool");
    ck_assert_str_eq(rg_dtype_name(RG_INT64), "torch.int64");
    ck_assert_str_eq(rg_dtype_name(RG_FLOAT32), "torch.float32");
    ck_assert_str_eq(rg_dtype_name(RG_FLOAT64), "torch.float64");
    ck_assert_str_eq(rg_dtype_name((rg_dtype)99), "torch.?");
    for (int a = 0; a < 4; a++) {
        rg_dtype want[OPERANDS];
        read_promoted(RG_FLOAT32, a, want);
        for (int b = 0; b < 4; b++)
            ck_assert_int_eq(rg_promote_types((rg_dtype)a, (rg_dtype)b), (int)want[b]);
    }
}
END_TEST

START_TEST(test_default_dtype) {
    ck_assert(rg_set_default_dtype(RG_FLOAT64));
    RG_SCOPE();
    ck_assert_int_eq(rg_dtype_of(rg_zeros(2)), RG_FLOAT64);
    ck_assert_int_eq(rg_dtype_of(rg_scalar(1.5)), RG_FLOAT64);
    ck_assert_int_eq(rg_dtype_of(rg_arange(3.0)), RG_FLOAT64);
    ck_assert_int_eq(rg_dtype_of(rg_full(RG_DIMS(1), 0.5)), RG_FLOAT64);
    ck_assert_int_eq(rg_dtype_of(rg_eye(2, 2)), RG_FLOAT64);
    ck_assert(rg_set_default_dtype(RG_FLOAT32));
    ck_assert_int_eq(rg_dtype_of(rg_zeros(2)), RG_FLOAT32);
}
END_TEST

/* A number that isn't a dtype is neither bool, nor integer, nor float. */
START_TEST(test_kinds) {
    for (int d = -1; d <= RG_DTYPE_COUNT; d++) {
        const rg_dtype dtype = (rg_dtype)d;
        const int kinds = rgi_is_bool(dtype) + rgi_is_integer(dtype) + rgi_is_float(dtype);
        ck_each(kinds == (d >= 0 && d < RG_DTYPE_COUNT), "%d is of %d kinds", d, kinds);
        ck_each(!rgi_is_index(dtype) || rgi_is_integer(dtype), "%d may be an index", d);
    }
}
END_TEST

/* rgi_rounded gives the number that is loaded after the same number is stored. Rounding confirms
 * epsilon, digits and limit of each floating dtype. */
START_TEST(test_rounding) {
    static const double numbers[] = { 0, 1, -1, 2.5, 0.1, -0.1, 1e30, 1e300, INFINITY, 1.0 / 3 };
    for (int d = RG_INT64; d < RG_DTYPE_COUNT; d++) {
        const rg_dtype dtype = (rg_dtype)d;
        for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
            double element;
            rgi_store_f64(&element, dtype, numbers[i]);
            ck_each(rgi_rounded(numbers[i], dtype) == rgi_load_f64(&element, dtype), "%d: %g", d,
                    numbers[i]);
        }
        if (!rgi_is_float(dtype))
            continue;
        const double epsilon = rgi_epsilon(dtype);
        ck_each(rgi_rounded(1 + epsilon, dtype) == 1 + epsilon, "%d: epsilon is none", d);
        ck_each(rgi_rounded(1 + epsilon / 2, dtype) == 1, "%d: epsilon is too large", d);
        ck_each(epsilon == ldexp(1, 1 - rgi_mantissa_bits(dtype)), "%d: the mantissa's bits", d);
        ck_each(rgi_decimal_digits(dtype) == (int)floor(-log10(epsilon)), "%d: the digits", d);
        ck_each(isfinite(rgi_rounded(rgi_limit(dtype), dtype)), "%d: the limit isn't finite", d);
    }
}
END_TEST

RG_TESTS(dtype, test_result_type, test_three_operands, test_names_and_types, test_default_dtype,
         test_kinds, test_rounding)
