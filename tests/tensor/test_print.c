/* test_print.c: printing gives PyTorch's, Python's and NumPy's text to the character. */
#include "print_cases.h"
#include "tensor/base.h"
#include "tensor/text/digits.h"
#include "tests/locale.h"

#include <fcntl.h>
#include <limits.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

static const char *text_of(const print_case *c) {
    switch (c->kind[0]) {
    case 'r': return rg_repr(c->t);
    case 's': return rg_str(c->t);
    case 'n': return rg_repr_numpy(c->t);
    default: return rg_repr_tf(c->t);
    }
}

START_TEST(test_golden) {
    print_case c;
    int n = 0, wrong = 0;
    golden_file f = golden_open("print");
    for (;;) {
        RG_SCOPE();
        if (!print_case_next(&f, &c))
            break;
        rg_set_printoptions_with(c.options);
        rg_set_default_dtype(c.default_dtype);
        const char *text = text_of(&c);
        ck_ok(text);
        n++;
        if (strcmp(text, c.text) != 0 && wrong++ < 10)
            fprintf(stderr, "line %d: %s gave\n%s\nnot\n%s\n", c.line, c.kind, text, c.text);
    }
    golden_close(&f);
    ck_assert_msg(wrong == 0 && n > 0, "%d of %d texts differ", wrong, n);
}
END_TEST

START_TEST(test_shape) {
    ck_assert_str_eq(rg_repr_shape(rg_zeros(6, 3)), "torch.Size([6, 3])");
    ck_assert_str_eq(rg_repr_shape(rg_zeros(3)), "torch.Size([3])");
    ck_assert_str_eq(rg_repr_shape(rg_scalar(1)), "torch.Size([])");
}
END_TEST

START_TEST(test_options_are_clamped) {
    rg_set_printoptions(.precision = INT_MAX, .threshold = -1, .edgeitems = 0, .linewidth = -9,
                        .sci_mode = 7);
    rg_printoptions o = rg_get_printoptions();
    ck_assert(o.precision == 1000 && o.threshold == 0 && o.edgeitems == 0);
    ck_assert(o.linewidth == 0 && o.sci_mode == 1);
    ck_ok(rg_repr(rg_full_dims(RG_DIMS(2, 2), 1e-300, RG_FLOAT64)));
    rg_set_printoptions(.precision = INT_MAX, .threshold = INT_MAX, .edgeitems = INT_MAX,
                        .linewidth = INT_MAX, .sci_mode = -7);
    ck_assert_int_eq(rg_get_printoptions().sci_mode, -1);
    ck_ok(rg_repr(rg_full_dims(RG_DIMS(2, 2), -1.7e308, RG_FLOAT64)));
    rg_set_printoptions(.precision = 1000, .threshold = 1000, .edgeitems = 3, .linewidth = 80,
                        .sci_mode = 0);
    const char *text = rg_repr(rg_full_dims(RG_DIMS(1), -1.5e308 / 7, RG_FLOAT64));
    ck_assert_uint_eq(strlen(text), strlen("tensor([-.],\n       dtype=torch.float64)") + 308);
    print_reset();
}
END_TEST

/* Options that aren't given stay as they are, except for sci_mode: as in torch. */
START_TEST(test_options_by_name) {
    const rg_printoptions before = rg_get_printoptions();
    rg_tensor *x = rg_full_dims(RG_DIMS(1), 1.23456, RG_FLOAT32);
    ck_assert_str_eq(rg_repr(x), "tensor([1.2346])");
    rg_set_printoptions(.precision = 2, .sci_mode = 1);
    ck_assert_str_eq(rg_repr(x), "tensor([1.23e+00])");
    rg_set_printoptions(.edgeitems = 1, .threshold = 2);
    ck_assert_str_eq(rg_repr(x), "tensor([1.23])");
    ck_assert_str_eq(rg_repr(rg_arange(9)), "tensor([0,  ..., 8])");
    rg_set_printoptions();
    rg_printoptions o = rg_get_printoptions();
    ck_assert(o.precision == 2 && o.threshold == 2 && o.edgeitems == 1);
    ck_assert(o.linewidth == 80 && o.sci_mode == -1);
    rg_set_printoptions_with(before);
    ck_assert_str_eq(rg_repr(x), "tensor([1.2346])");
}
END_TEST

/* Options with which printing would fail are refused, and change nothing. */
START_TEST(test_negative_options) {
    print_reset();
    ck_ok(rg_set_printoptions(.precision = 3, .edgeitems = 2));
    ck_fails(rg_set_printoptions(.precision = -1, .linewidth = 20), RG_VALUE_ERROR,
             "set_printoptions: precision and edgeitems must be non-negative, but got -1 and 2");
    ck_fails(rg_set_printoptions(.edgeitems = -4, .sci_mode = 1), RG_VALUE_ERROR,
             "set_printoptions: precision and edgeitems must be non-negative, but got 3 and -4");
    const rg_printoptions o = rg_get_printoptions();
    ck_assert(o.precision == 3 && o.edgeitems == 2 && o.linewidth == 80 && o.sci_mode == -1);
    print_reset();
}
END_TEST

/* Returns whether digits * 10^exponent reads as v in this type. */
static bool reads_back(long long digits, int exponent, double v, bool single) {
    char text[64];
    snprintf(text, sizeof text, "%llde%d", digits, exponent);
    return (single ? strtof(text, NULL) : strtod(text, NULL)) == v;
}

/* Returns the first n digits of v, rounded or cut off. */
static long long first_digits(double v, int n, bool rounded) {
    char text[128], digits[32] = "";
    snprintf(text, sizeof text, "%.*e", rounded ? n - 1 : 60, v);
    digits[0] = text[0];
    memcpy(digits + 1, text + 2, (size_t)n - 1);
    return strtoll(digits, NULL, 10);
}

/* Asserts that the result of rgi_digits_shortest reads as v, and that no number with fewer digits
 * does. Of the numbers with as many digits, the result must be the closest to v. If the closest
 * doesn't read as v, the result must be the next larger one. */
static void check_shortest(double v, bool single) {
    const rg_digits s = rgi_digits_shortest(v, single ? RG_FLOAT32 : RG_FLOAT64);
    char text[32] = "";
    memcpy(text, s.d, (size_t)s.n);
    const long long digits = strtoll(text, NULL, 10), closest = first_digits(v, s.n, true);
    const int exponent = s.exponent - s.n + 1;
    ck_each(reads_back(digits, exponent, v, single), "%a becomes %lld", v, digits);
    const bool other = digits == closest + 1 && !reads_back(closest, exponent, v, single);
    ck_each(digits == closest || other, "%a: %lld digits are closer than %lld", v, closest, digits);
    if (s.n == 1)
        return;
    const long long fewer = first_digits(v, s.n - 1, false);
    for (int more = 0; more < 2; more++)
        ck_each(!reads_back(fewer + more, exponent + 1, v, single), "%a: %lld is shorter than %lld",
                v, fewer + more, digits);
}

/* Powers of two are tried as well, since their two neighbours aren't equally near. */
START_TEST(test_shortest_digits) {
    for (int single = 0; single < 2; single++)
        for (int e = single ? -149 : -1074; e < (single ? 128 : 1024); e++) {
            const double v = ldexp(1, e);
            check_shortest(v, single);
            check_shortest(single ? nextafterf((float)v, 0) : nextafter(v, 0), single);
            check_shortest(single ? nextafterf((float)v, INFINITY) : nextafter(v, INFINITY),
                           single);
        }
    print_reset();
    ck_assert_str_eq(rg_str(rg_scalar_dtype(0x1p-1030, RG_FLOAT64)), "8.691694759794e-311");
    /* The digits after the shortest ones are zeros, even if 15 digits come before. */
    ck_assert_str_eq(rg_str(rg_scalar_dtype(1234567890123450, RG_FLOAT64)), "1234567890123450.0");
    ck_assert_str_eq(rg_str(rg_scalar_dtype(1000000000000000, RG_FLOAT64)), "1000000000000000.0");
    ck_assert_str_eq(rg_repr_numpy(rg_scalar_dtype(0x1p-133, RG_FLOAT32)), "9.1835e-41");
}
END_TEST

/* In a program with a decimal comma, tensors are still written and read with a point, and so are
 * the numbers in errors. */
START_TEST(test_locale) {
    print_reset();
    const bool comma = set_locale("de_DE") && *localeconv()->decimal_point == ',';
    if (!comma)
        fprintf(stderr,
                "test_locale: no locale with a decimal comma here, so this proves little\n");
    rg_tensor *t = rg_parse("[1.5, 2.25]");
    ck_assert_str_eq(rg_repr(t), "tensor([1.5000, 2.2500])");
    ck_assert_str_eq(rg_repr_numpy(t), "[1.5  2.25]");
    ck_assert_str_eq(rg_str(rg_scalar(0.1)), "0.10000000149011612");
    ck_fails(rg_fail(RG_VALUE_ERROR, "f", "it is %g", 0.5), RG_VALUE_ERROR, "f: it is 0.5");
    char text[8];
    snprintf(text, sizeof text, "%.1f", 0.5);
    /* The program keeps its own locale. */
    ck_assert_str_eq(text, comma ? "0,5" : "0.5");
    setlocale(LC_ALL, "C");
}
END_TEST

/* A stale view without a history is printed like any other view. */
START_TEST(test_stale_view) {
    RG_SCOPE();
    print_reset();
    rg_tensor *base = rg_ones(2);
    rg_tensor view = *base;
    view.flags |= RG_VIEW;
    view.base = base;
    rgi_count_write(base, "test");
    ck_assert(rgi_is_stale(&view));
    ck_assert_str_eq(rg_repr(&view), "tensor([1., 1.])");
}
END_TEST

/* The stride of a dim of one item doesn't matter. */
START_TEST(test_any_stride) {
    RG_SCOPE();
    print_reset();
    rg_tensor fake = *rg_ones(1, 1);
    fake.stride[0] = INT64_MAX;
    fake.stride[1] = -INT64_MAX;
    ck_assert_str_eq(rg_repr(&fake), "tensor([[1.]])");
    ck_assert_str_eq(rg_repr_numpy(&fake), "[[1.]]");
}
END_TEST

/* An absent tensor is printed as Python prints None. */
START_TEST(test_none) {
    ck_assert_str_eq(rg_repr(RG_NONE), "None");
    ck_assert_str_eq(rg_str(RG_NONE), "None");
    ck_assert_int_eq(rg_error_code(), RG_OK);
}
END_TEST

START_TEST(test_bad_arguments) {
    ck_assert_str_eq(rg_repr(rg_literal([ 1, 1000000 ])), "tensor([      1, 1000000])");
    /* The least infinity decides the column's width, wherever it is. */
    ck_assert_str_eq(rg_repr_numpy(rg_literal([ -inf, 1.0, inf ])), "[-inf   1.  inf]");
    ck_assert_str_eq(rg_repr_numpy(rg_literal([ -inf, 1.0 ])), "[-inf   1.]");
    ck_assert_str_eq(rg_repr_numpy(rg_full(RG_DIMS(2), (bool)true)), "[ True  True]");
    rg_print(NULL);
    ck_assert_int_eq(rg_error_code(), RG_TYPE_ERROR);
}
END_TEST

START_TEST(test_out_of_memory) {
    print_reset();
    const char *(*const forms[])(rg_tensor *) = { rg_repr, rg_repr_numpy, rg_repr_tf, rg_repr_shape,
                                                  rg_str };
    rg_tensor *t = rg_full_dims(RG_DIMS(20, 30), 0.1, RG_FLOAT64);
    for (int i = 0; i < RG_COUNT(forms); i++) {
        for (int warm = 0; warm < 2; warm++) {
            RG_SCOPE();
            forms[i](t);
        }
        int64_t live = rg_live_tensors(), other = rg_memory_stats().other;
        bool done = false;
        for (int n = 1; !done; n++) {
            RG_SCOPE();
            rg_error_clear();
            rg_memory_fail_at(n);
            done = forms[i](t) != NULL;
            rg_memory_fail_at(0);
            ck_assert_int_eq(rg_error_code(), done ? RG_OK : RG_OUT_OF_MEMORY);
            ck_assert_int_le(n, 100);
            ck_assert(!done || n > 2);
        }
        ck_assert_int_eq(rg_live_tensors(), live);
        ck_assert_int_eq(rg_memory_stats().other, other);
    }
}
END_TEST

START_TEST(test_print) {
    print_reset();
    char path[] = "/tmp/regard-print-XXXXXX", text[128] = "";
    int file = mkstemp(path), out = dup(1);
    ck_assert_int_ge(file, 0);
    fflush(stdout);
    dup2(file, 1);
    rg_print(rg_zeros(2, 2));
    fflush(stdout);
    dup2(out, 1);
    ck_assert_int_gt(pread(file, text, sizeof text - 1, 0), 0);
    close(file);
    unlink(path);
    ck_assert_str_eq(text, "tensor([[0., 0.],\n        [0., 0.]])\n");
}
END_TEST

/* Calls rg_print with this file as standard output. It must fail with this error. */
static void print_to(int file, const char *sentence) {
    const int out = dup(1);
    fflush(stdout);
    rg_error_clear();
    if (file < 0)
        close(1);
    else
        dup2(file, 1);
    rg_print(rg_ones(2));
    dup2(out, 1);
    close(out);
    ck_assert_str_eq(rg_error(), sentence);
    rg_error_clear();
    fflush(stdout);
}

START_TEST(test_output_that_is_full_or_closed) {
    const int full = open("/dev/full", O_WRONLY);
    ck_assert_int_ge(full, 0);
    print_to(full, "print: [Errno 28] No space left on device");
    close(full);
    print_to(-1, "print: [Errno 9] Bad file descriptor");
    const int null = open("/dev/null", O_WRONLY);
    print_to(null, "");
    close(null);
}
END_TEST

RG_TESTS(print, test_output_that_is_full_or_closed, test_golden, test_shape,
         test_options_are_clamped, test_options_by_name, test_negative_options,
         test_shortest_digits, test_locale, test_stale_view, test_any_stride, test_none,
         test_bad_arguments, test_out_of_memory, test_print)
