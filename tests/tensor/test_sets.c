/* Kernels give the same bits with every instruction set that this processor has, and those bits are right. */
#include "tests/test.h"
#include "tensor/kernels/kernels.h"

#include <math.h>

static double value(const rg_tensor *t, int64_t i) {
    return rg_load_f64(t->data + i * (int64_t)rg_sizeof(t->dtype), (rg_dtype)t->dtype);
}

/* rows of n around 0, a few of them with infinities and NaN */
static rg_tensor *rows_of(rg_dtype dtype, int64_t rows, int64_t n) {
    static const double odd[] = { INFINITY, NAN, 90, -INFINITY, -110 };
    rg_tensor *t = rg_own(rg_new(dtype, 2, (int64_t[]){ rows, n }));
    for (int64_t i = 0; i < t->numel; i++) {
        double v = 3 * sin((double)(7 * i + n)) + (i % 11 == 5);
        if (i / n % 4 == 3) v = i / n % 8 == 7 ? -INFINITY : i % 5 ? v : odd[i / 5 % RG_COUNT(odd)];
        rg_store_f64(t->data + i * (int64_t)rg_sizeof(dtype), dtype, v);
    }
    return t;
}

static bool same(double a, double b, double tolerance) { return a == b || (a != a && b != b) || fabs(a - b) <= tolerance; }

/* y has the bits of `plain`, the result for any processor. */
static void check_bits(const rg_tensor *y, const rg_tensor *plain, const char *what) {
    for (int64_t i = 0; i < y->numel; i++)
        ck_assert_msg(same(value(y, i), value(plain, i), 0) && (value(y, i) != 0 || signbit(value(y, i)) == signbit(value(plain, i))),
                      "%s, %s, set %d, %lld of %lld: %.9g, plainly %.9g", what, rg_dtype_name((rg_dtype)y->dtype), k_set, (long long)i,
                      (long long)y->numel, value(y, i), value(plain, i));
}

static void check_softmax(const rg_tensor *y, const rg_tensor *x, k_softmax_kind kind) {
    int64_t n = x->size[1];
    double tolerance = x->dtype == RG_FLOAT32 ? 4e-7 : 1e-15;
    for (int64_t r = 0; r < x->size[0]; r++) {
        double max = -INFINITY, total = 0;
        for (int64_t i = r * n; i < r * n + n; i++) max = value(x, i) > max || value(x, i) != value(x, i) ? value(x, i) : max;
        for (int64_t i = r * n; i < r * n + n; i++) total += exp(value(x, i) - max);
        for (int64_t i = r * n; i < r * n + n; i++) {
            double v = value(x, i) - max, right = kind == K_LOG_SOFTMAX ? v - log(total) : exp(v) / total;
            if (kind == K_SAFE_SOFTMAX && max == -INFINITY) right = 0;
            ck_assert_msg(same(value(y, i), right, tolerance * (1 + (right < 0 ? -right : 0))), "softmax %d, (%lld,%lld), %lld: %.9g, not %.9g",
                          (int)kind, (long long)x->size[0], (long long)n, (long long)i, value(y, i), right);
        }
    }
}

static void check_softmax_gradient(const rg_tensor *gx, const rg_tensor *g, const rg_tensor *y, k_softmax_kind kind) {
    int64_t n = g->size[1];
    double tolerance = g->dtype == RG_FLOAT32 ? 4e-6 : 1e-14;
    for (int64_t r = 0; r < g->size[0]; r++) {
        double total = 0;
        for (int64_t i = r * n; i < r * n + n; i++) total += value(g, i) * (kind == K_LOG_SOFTMAX ? 1 : value(y, i));
        for (int64_t i = r * n; i < r * n + n; i++) {
            double v = value(y, i), right = kind == K_LOG_SOFTMAX ? value(g, i) - exp(v) * total : v * (value(g, i) - total);
            ck_assert_msg(same(value(gx, i), right, tolerance * (1 + fabs(right) + fabs(total))), "gradient of softmax %d, (%lld,%lld), %lld: %.9g, not %.9g",
                          (int)kind, (long long)g->size[0], (long long)n, (long long)i, value(gx, i), right);
        }
    }
}

START_TEST(test_softmax) {
    static const int64_t lengths[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 17, 31, 33, 64, 100 };
    const int best = k_set;
    for (int c = 0; c < RG_COUNT(lengths) * 3 * 2 * 2 * 9; c++) {
        RG_SCOPE();
        int64_t n = lengths[c % RG_COUNT(lengths)], rows = c / RG_COUNT(lengths) % 9 + 1;
        k_softmax_kind kind = (k_softmax_kind)(c / RG_COUNT(lengths) / 9 % 3);
        rg_dtype dtype = c / RG_COUNT(lengths) / 27 % 2 ? RG_FLOAT64 : RG_FLOAT32;
        bool turned = c / RG_COUNT(lengths) / 54;                      /* rows that lie side by side */
        rg_tensor *x = rows_of(dtype, rows, n), *g = rows_of(dtype, rows + 1, n), *plain[2] = { NULL, NULL };
        g->data += n * (int64_t)rg_sizeof(dtype), g->size[0] = rows, rg_update_flags(g);
        for (k_set = 0; k_set <= best; k_set++) {
            rg_tensor *y = rg_own(rg_new(dtype, 2, x->size)), *gx = rg_own(rg_new(dtype, 2, x->size)), ty = k_turned(y), tx = k_turned(x),
                      tgx = k_turned(gx), tg = k_turned(g);
            k_softmax(turned ? &ty : y, turned ? &tx : x, !turned, kind);
            k_softmax_backward(turned ? &tgx : gx, turned ? &tg : g, turned ? &ty : y, !turned, kind);
            check_softmax(y, x, kind);
            check_softmax_gradient(gx, g, y, kind);
            if (k_set) check_bits(y, plain[0], "softmax"), check_bits(gx, plain[1], "its gradient");
            else plain[0] = y, plain[1] = gx;
        }
        k_set = best;
    }
}
END_TEST

RG_TESTS(sets, test_softmax)
