/* test_sets.c: kernels give the same bits with every instruction set that this processor has, and
 * those bits are right. */
#include "tests/test.h"
#include "tensor/scope.h"
#include "tensor/shape.h"
#include "tensor/storage.h"
#include "tensor/kernels/kernels.h"

#include <math.h>

static double value(const rg_tensor *t, int64_t i) {
    return rgi_load_f64(t->data + i * (int64_t)rgi_sizeof(t->dtype), (rg_dtype)t->dtype);
}

/* Returns rows of n numbers around 0, a few of them with infinities and NaN. */
static rg_tensor *rows_of(rg_dtype dtype, int64_t rows, int64_t n) {
    static const double odd[] = { INFINITY, NAN, 90, -INFINITY, -110 };
    rg_tensor *t = rgi_own(rgi_new(dtype, 2, (int64_t[]){ rows, n }));
    for (int64_t i = 0; i < t->numel; i++) {
        double v = 3 * sin((double)(7 * i + n)) + (i % 11 == 5);
        if (i / n % 4 == 3)
            v = i / n % 8 == 7 ? -INFINITY : i % 5 ? v : odd[i / 5 % RG_COUNT(odd)];
        rgi_store_f64(t->data + i * (int64_t)rgi_sizeof(dtype), dtype, v);
    }
    return t;
}

static bool same(double a, double b, double tolerance) {
    return a == b || (a != a && b != b) || fabs(a - b) <= tolerance;
}

/* Checks that y has the bits of `plain`, the result for any processor. */
static void check_bits(const rg_tensor *y, const rg_tensor *plain, const char *what) {
    for (int64_t i = 0; i < y->numel; i++)
        ck_each(same(value(y, i), value(plain, i), 0)
                    && (value(y, i) != 0 || signbit(value(y, i)) == signbit(value(plain, i))),
                "%s, %s, set %d, %lld of %lld: %.9g, plainly %.9g", what,
                rg_dtype_name((rg_dtype)y->dtype), k_set, (long long)i, (long long)y->numel,
                value(y, i), value(plain, i));
}

static void check_softmax(const rg_tensor *y, const rg_tensor *x, k_softmax_kind kind) {
    int64_t n = x->size[1];
    double tolerance = x->dtype == RG_FLOAT32 ? 4e-7 : 1e-15;
    for (int64_t r = 0; r < x->size[0]; r++) {
        double max = -INFINITY, total = 0;
        for (int64_t i = r * n; i < r * n + n; i++)
            max = value(x, i) > max || value(x, i) != value(x, i) ? value(x, i) : max;
        for (int64_t i = r * n; i < r * n + n; i++)
            total += exp(value(x, i) - max);
        for (int64_t i = r * n; i < r * n + n; i++) {
            double v = value(x, i) - max,
                   right = kind == K_LOG_SOFTMAX ? v - log(total) : exp(v) / total;
            if (kind == K_SAFE_SOFTMAX && max == -INFINITY)
                right = 0;
            ck_each(same(value(y, i), right, tolerance * (1 + (right < 0 ? -right : 0))),
                    "softmax %d, (%lld,%lld), %lld: %.9g, not %.9g", (int)kind,
                    (long long)x->size[0], (long long)n, (long long)i, value(y, i), right);
        }
    }
}

static void check_softmax_gradient(const rg_tensor *gx, const rg_tensor *g, const rg_tensor *y,
                                   k_softmax_kind kind) {
    int64_t n = g->size[1];
    double tolerance = g->dtype == RG_FLOAT32 ? 4e-6 : 1e-14;
    for (int64_t r = 0; r < g->size[0]; r++) {
        double total = 0;
        for (int64_t i = r * n; i < r * n + n; i++)
            total += value(g, i) * (kind == K_LOG_SOFTMAX ? 1 : value(y, i));
        for (int64_t i = r * n; i < r * n + n; i++) {
            double v = value(y, i), right = kind == K_LOG_SOFTMAX ? value(g, i) - exp(v) * total
                                                                  : v * (value(g, i) - total);
            ck_each(same(value(gx, i), right, tolerance * (1 + fabs(right) + fabs(total))),
                    "gradient of softmax %d, (%lld,%lld), %lld: %.9g, not %.9g", (int)kind,
                    (long long)g->size[0], (long long)n, (long long)i, value(gx, i), right);
        }
    }
}

static rg_tensor *turned_over(const rg_tensor *x) {
    const rg_tensor t = k_turned(x);
    rg_tensor *y = rgi_own(rgi_new((rg_dtype)x->dtype, 2, t.size));
    rgi_copy_elements(y, &t);
    return y;
}

START_TEST(test_softmax) {
    static const int64_t lengths[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 17, 31, 33, 64, 100 };
    const int best = k_set;
    for (int c = 0; c < RG_COUNT(lengths) * 3 * 2 * 2 * 9; c++) {
        RG_SCOPE();
        /* Turned rows lie side by side, and there are more of them than a block has. */
        bool turned = c / RG_COUNT(lengths) / 54;
        int64_t n = lengths[c % RG_COUNT(lengths)],
                rows = (c / RG_COUNT(lengths) % 9 + 1) * (turned ? 37 : 1);
        k_softmax_kind kind = (k_softmax_kind)(c / RG_COUNT(lengths) / 9 % 3);
        rg_dtype dtype = c / RG_COUNT(lengths) / 27 % 2 ? RG_FLOAT64 : RG_FLOAT32;
        rg_tensor *x = rows_of(dtype, rows, n), *g = rows_of(dtype, rows + 1, n),
                  *plain[2] = { NULL, NULL };
        g->data += n * (int64_t)rgi_sizeof(dtype);
        g->size[0] = rows;
        rgi_update_flags(g);
        for (k_set = 0; k_set <= best; k_set++) {
            rg_tensor *xs = turned ? turned_over(x) : x, *gs = turned ? turned_over(g) : g;
            rg_tensor *y = rgi_own(rgi_new(dtype, 2, xs->size)),
                      *gx = rgi_own(rgi_new(dtype, 2, xs->size));
            k_softmax(y, xs, !turned, kind);
            k_softmax_backward(gx, gs, y, !turned, kind);
            if (turned) {
                y = turned_over(y);
                gx = turned_over(gx);
            }
            check_softmax(y, x, kind);
            check_softmax_gradient(gx, g, y, kind);
            if (k_set) {
                check_bits(y, plain[0], "softmax");
                check_bits(gx, plain[1], "its gradient");
            } else {
                plain[0] = y;
                plain[1] = gx;
            }
        }
        k_set = best;
    }
}
END_TEST

/* Returns the distance from v to the next number of a type. */
static double unit_at(double v, rg_dtype dtype) {
    double a = fabs(v);
    return dtype == RG_FLOAT64 ? nextafter(a, INFINITY) - a
                               : (double)(nextafterf((float)a, INFINITY) - (float)a);
}
static double rounded(double v, rg_dtype dtype) {
    return dtype == RG_FLOAT64 ? v : (double)(float)v;
}

/* The values are within 2 units in the last place through all of float's range. Those of doubles
 * are within 4, since libm rounds, too. */
START_TEST(test_smooth_functions) {
    static const struct {
        const char *name;
        const rg_kernel *kernel;
        double (*right)(double);
    } functions[] = {
        { "exp", &k_exp, exp },    { "log", &k_log, log },       { "tanh", &k_tanh, tanh },
        { "erf", &k_erf, erf },    { "sin", &k_sin, sin },       { "cos", &k_cos, cos },
        { "tan", &k_tan, tan },    { "exp2", &k_exp2, exp2 },    { "expm1", &k_expm1, expm1 },
        { "log2", &k_log2, log2 }, { "log10", &k_log10, log10 }, { "log1p", &k_log1p, log1p },
        { "sinh", &k_sinh, sinh }, { "cosh", &k_cosh, cosh },    { "asin", &k_asin, asin },
        { "acos", &k_acos, acos }, { "atan", &k_atan, atan },    { "erfc", &k_erfc, erfc },
    };
    enum { N = 1 << 16 };
    const int best = k_set;
    for (int f = 0; f < RG_COUNT(functions); f++)
        for (uint32_t part = 0; part < 16; part++) {
            RG_SCOPE();
            const rg_dtype dtype = part < 8 ? RG_FLOAT32 : RG_FLOAT64;
            rg_tensor *x = rgi_own(rgi_new(dtype, 1, (int64_t[]){ N })), *plain = NULL;
            for (uint32_t i = 0; i < N; i++) {
                uint32_t bits = (part % 8 * N + i) * 8191u;
                float v;
                memcpy(&v, &bits, sizeof v);
                if (dtype == RG_FLOAT32)
                    memcpy(x->data + i * sizeof v, &v, sizeof v);
                else
                    ((double *)x->data)[i] = (double)v * (1 + i * 1e-10) * (i % 64 ? 1 : 0x1p-940);
            }
            for (k_set = 0; k_set <= best; k_set++) {
                rg_tensor *y = rgi_own(rgi_new(dtype, 1, (int64_t[]){ N }));
                k_run(*functions[f].kernel, y, x);
                if (k_set) {
                    check_bits(y, plain, functions[f].name);
                    continue;
                }
                plain = y;
                for (int64_t i = 0; i < N; i++) {
                    double right = functions[f].right(value(x, i));
                    double near = rounded(right, dtype), unit = unit_at(near, dtype);
                    ck_each(same(value(y, i), near, 0)
                                || fabs(value(y, i) - right) <= (part < 8 ? 2 : 4) * unit,
                            "%s(%.9g) is %.9g, not %.9g", functions[f].name, value(x, i),
                            value(y, i), right);
                }
            }
            k_set = best;
        }
}
END_TEST

/* The values are right for any two floats, and for odd ones. */
START_TEST(test_pow_and_atan2) {
    static const float odd[] = { 0,     -0.f, 1, -1, INFINITY, -INFINITY, NAN,     0.5f,
                                 -0.5f, 2,    3, -3, -2.5f,    1e-40f,    -1e-40f, 3e38f };
    static double (*const right[])(double, double) = { pow, atan2 };
    enum { N = 1 << 16, ODD = RG_COUNT(odd) };
    const int best = k_set;
    for (int f = 0; f < 2; f++) {
        RG_SCOPE();
        rg_tensor *in[2], *plain = NULL;
        for (int k = 0; k < 2; k++) {
            in[k] = rgi_own(rgi_new(RG_FLOAT32, 1, (int64_t[]){ N }));
            for (uint32_t i = 0; i < N; i++) {
                uint32_t bits = i * (k ? 2654435761u : 40503u * 65537u);
                float v, near = (float)(k ? 20 * sin(i) : exp(3 * cos(7.0 * i)));
                memcpy(&v, &bits, sizeof v);
                ((float *)in[k]->data)[i] = i < ODD * ODD ? odd[k ? i % ODD : i / ODD]
                                            : i % 2       ? v
                                                          : near;
            }
        }
        for (k_set = 0; k_set <= best; k_set++) {
            rg_tensor *y = rgi_own(rgi_new(RG_FLOAT32, 1, (int64_t[]){ N }));
            k_run_with(f ? &k_atan2 : &k_pow, y, in, NULL);
            if (k_set) {
                check_bits(y, plain, "of two");
                continue;
            }
            plain = y;
            for (int64_t i = 0; i < N; i++) {
                double v = right[f](value(in[0], i), value(in[1], i)),
                       near = rounded(v, RG_FLOAT32);
                ck_each(
                    (same(value(y, i), near, 0) && (v != v || signbit(value(y, i)) == signbit(v)))
                        || fabs(value(y, i) - v) <= 2 * unit_at(near, RG_FLOAT32),
                    "%s of %.9g and %.9g is %.9g, not %.9g", f ? "atan2" : "pow", value(in[0], i),
                    value(in[1], i), value(y, i), v);
            }
        }
        k_set = best;
    }
}
END_TEST

/* All sets give the same bits of functions of two numbers that are made of smooth ones, and of
 * distances, whose lanes every set has. */
START_TEST(test_logarithms_and_distances) {
    static const rg_kernel *const kernels[] = { &k_xlogy, &k_logaddexp, &k_logaddexp2 };
    static const double orders[] = { 0, 0.5, 1, 1.5, 2, 3, INFINITY };
    enum { ROWS = 16, OTHERS = 9, N = 37 };
    const int best = k_set;
    for (int t = 0; t < 2 * (RG_COUNT(kernels) + RG_COUNT(orders)); t++) {
        RG_SCOPE();
        const rg_dtype dtype = t % 2 ? RG_FLOAT32 : RG_FLOAT64;
        const int of_two = t / 2 - RG_COUNT(orders);
        rg_tensor *a = rows_of(dtype, ROWS, N);
        rg_tensor *b = of_two < 0 ? rows_of(dtype, OTHERS, N) : rows_of(dtype, N, ROWS);
        if (of_two >= 0)
            rgi_lay_out(b, 2, a->size); /* The numbers are others than a's. */
        const rg_dims shape = of_two < 0 ? RG_DIMS(ROWS, OTHERS) : RG_DIMS(ROWS, N);
        rg_tensor *plain[2] = { NULL, NULL };
        for (k_set = 0; k_set <= best; k_set++) {
            rg_tensor *y = rgi_own(rgi_new(dtype, 2, shape.v));
            rg_tensor *ga = rgi_own(rgi_new(dtype, 2, a->size));
            rgi_fill_zero(ga);
            if (of_two >= 0) {
                k_run_with(kernels[of_two], y, (rg_tensor *[]){ a, b }, NULL);
            } else {
                k_distance(y, a, b, orders[t / 2]);
                k_distance_backward(ga, y, a, b, y, orders[t / 2], false);
            }
            if (k_set) {
                check_bits(y, plain[0], "of two, or a distance");
                check_bits(ga, plain[1], "a distance's slope");
                continue;
            }
            plain[0] = y;
            plain[1] = ga;
        }
        k_set = best;
    }
}
END_TEST

/* The values are within 1.6 units in the last place at and around each multiple of pi / 4 up to a
 * little more than 2^17, where little is left of x, or two polynomials meet. Where a vector holds a
 * NaN or a number that is too large, here each fifth element, its elements are computed one by one,
 * and those beside it must keep their bits. So must they where only every other element is read. */
START_TEST(test_circle) {
    static const struct {
        const char *name;
        const rg_kernel *kernel;
        double (*right)(double);
    } functions[] = {
        { "sin", &k_sin, sin },
        { "cos", &k_cos, cos },
        { "tan", &k_tan, tan },
    };
    enum { N = 5 * 167000 };
    const int best = k_set;
    for (int f = 0; f < RG_COUNT(functions); f++) {
        RG_SCOPE();
        rg_tensor *x = rgi_own(rgi_new(RG_FLOAT32, 2, (int64_t[]){ N / 5, 5 })),
                  *far = rgi_own(rgi_new_like(x, RG_FLOAT32)), *plain = NULL;
        for (int i = 0; i < N; i++) {
            float at = (float)(i / 5 * (acos(-1) / 4));
            float v = (float[]){ at, nextafterf(at, INFINITY), nextafterf(at, -INFINITY), at + 0.1f,
                                 at + 0.4f }[i % 5];
            ((float *)x->data)[i] = i % 2 ? -v : v;
            ((float *)far->data)[i] = i % 5 ? ((float *)x->data)[i] : i % 10 ? NAN : 3e8f;
        }
        for (k_set = 0; k_set <= best; k_set++) {
            rg_tensor *y = rgi_own(rgi_new_like(x, RG_FLOAT32)),
                      *other = rgi_own(rgi_new_like(x, RG_FLOAT32)), every = *far;
            rg_tensor *half = rgi_own(rgi_new(RG_FLOAT32, 1, (int64_t[]){ N / 2 }));
            every.ndim = 1;
            every.size[0] = N / 2;
            every.stride[0] = 2;
            rgi_update_flags(&every);
            k_run(*functions[f].kernel, y, x);
            k_run(*functions[f].kernel, other, far);
            k_run(*functions[f].kernel, half, &every);
            for (int i = 0; i < N / 2; i++)
                ck_each(value(half, i) == value(other, 2 * i), "%s(%.9g) of every other one",
                        functions[f].name, value(far, 2 * i));
            for (int i = 0; i < N; i++)
                ck_each(i % 5 == 0 || value(y, i) == value(other, i),
                        "%s(%.9g) hangs on its neighbours", functions[f].name, value(x, i));
            if (k_set) {
                check_bits(y, plain, functions[f].name);
                continue;
            }
            plain = y;
            for (int i = 0; i < N; i++) {
                double right = functions[f].right(value(x, i)),
                       unit = nextafterf(fabsf((float)right), INFINITY) - fabsf((float)right);
                ck_each(fabs(value(y, i) - right) <= 1.6 * unit,
                        "%s(%.9g) is %.9g, not %.9g: %g units", functions[f].name, value(x, i),
                        value(y, i), right, fabs(value(y, i) - right) / unit);
            }
        }
        k_set = best;
    }
}
END_TEST

static double gelu(double x) { return x * 0.5 * erfc(-x * sqrt(0.5)); }
static double gelu_tanh(double x) {
    return x / (1 + exp(-2 * sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
}

START_TEST(test_gelu_is_right) {
    for (double x = -20; x < 20; x += 1 / 128.) {
        RG_SCOPE();
        float v = (float)x;
        rg_tensor *in = rg_from(&v, 1), *one = rg_ones(1), *y = rg_empty(1);
        static const struct {
            const rg_kernel *y, *slope;
            double (*right)(double);
        } kinds[] = { { &k_gelu, &k_gelu_grad, gelu },
                      { &k_gelu_tanh, &k_gelu_tanh_grad, gelu_tanh } };
        for (int k = 0; k < RG_COUNT(kinds); k++) {
            k_run(*kinds[k].y, y, in);
            ck_each(same(value(y, 0), kinds[k].right(x), 2e-7 * (1 + fabs(x))),
                    "gelu %d of %g: %.9g", k, x, value(y, 0));
            k_run(*kinds[k].slope, y, one, in);
            double slope = (kinds[k].right(x + 1e-5) - kinds[k].right(x - 1e-5)) / 2e-5;
            ck_each(same(value(y, 0), slope, 2e-6), "slope of gelu %d at %g: %.9g, not %.9g", k, x,
                    value(y, 0), slope);
        }
    }
}
END_TEST

/* Elements are right at every length around the vectors', in one piece and with gaps. */
START_TEST(test_elements) {
    static const rg_kernel *const kernels[] = {
        &k_neg,
        &k_abs,
        &k_square,
        &k_sign,
        &k_floor,
        &k_round,
        &k_trunc,
        &k_exp,
        &k_log,
        &k_sqrt,
        &k_rsqrt,
        &k_reciprocal,
        &k_tanh,
        &k_erf,
        &k_sigmoid,
        &k_relu,
        &k_gelu,
        &k_gelu_tanh,
        &k_silu,
        &k_mish,
        &k_hardswish,
        &k_hardsigmoid,
        &k_logsigmoid,
        &k_add,
        &k_sub,
        &k_mul,
        &k_div,
        &k_maximum,
        &k_minimum,
        &k_remainder,
        &k_tanh_grad,
        &k_sigmoid_grad,
        &k_relu_grad,
        &k_gelu_grad,
        &k_gelu_tanh_grad,
        &k_silu_grad,
        &k_mish_grad,
        &k_hardswish_grad,
        &k_hardsigmoid_grad,
        &k_logsigmoid_grad,
        &k_clamp,
        &k_lerp,
    };
    const int best = k_set;
    for (int k = 0; k < RG_COUNT(kernels); k++)
        for (int64_t n = 1; n < 80; n += n < 36 ? 1 : 11)
            for (int gaps = 0; gaps < 2; gaps++) {
                RG_SCOPE();
                rg_dtype dtype = n % 3 ? RG_FLOAT32 : RG_FLOAT64;
                rg_tensor *in[3], *plain = NULL;
                for (int i = 0; i < 3; i++) {
                    in[i] = rows_of(dtype, 8 + i, n);
                    /* Each operand has other rows. */
                    in[i]->data += i * n * (int64_t)rgi_sizeof(dtype);
                    if (gaps)
                        *in[i] = k_turned(in[i]), in[i]->size[1] = 8, rgi_update_flags(in[i]);
                    else
                        in[i]->size[0] = 8, rgi_update_flags(in[i]);
                }
                for (k_set = 0; k_set <= best; k_set++) {
                    rg_tensor *y = rgi_own(rgi_new(dtype, 2, in[0]->size));
                    k_run_with(kernels[k], y, in, NULL);
                    if (k_set)
                        check_bits(y, plain, "element by element");
                    else
                        plain = y;
                }
                k_set = best;
            }
}
END_TEST

START_TEST(test_normalize) {
    const int best = k_set;
    for (int64_t n = 1; n < 900; n += n < 20 ? 1 : n < 98 ? 13 : 79)
        for (int affine = 0; affine < 2; affine++) {
            RG_SCOPE();
            rg_dtype dtype = n % 2 ? RG_FLOAT32 : RG_FLOAT64;
            enum { ROWS = 9 };
            rg_tensor *x = rows_of(dtype, 1, ROWS * n), *g = rows_of(dtype, 1, ROWS * n),
                      *w = affine ? rows_of(dtype, 1, n) : NULL;
            rg_tensor *plain[2] = { NULL, NULL };
            double sums[2][2][900], (*sum)[900] = sums[0];
            k_norm_rows z = { ROWS, n, 1, 1, 1e-5, true };
            for (k_set = 0; k_set <= best; k_set++) {
                rg_tensor *y = rgi_own(rgi_new(dtype, 2, x->size)),
                          *gx = rgi_own(rgi_new(dtype, 2, x->size));
                k_normalize(&z, y, x, w, w);
                sum = sums[k_set > 0];
                memset(sum, 0, sizeof sums[0]);
                k_normalize_backward(&z, gx, sum[0], sum[1], g, x, w);
                if (k_set) {
                    check_bits(y, plain[0], "layer_norm");
                    check_bits(gx, plain[1], "its gradient");
                    for (int64_t i = 0; i < n; i++)
                        ck_assert(sums[0][0][i] == sums[1][0][i] && sums[0][1][i] == sums[1][1][i]);
                } else {
                    plain[0] = y;
                    plain[1] = gx;
                }
            }
            k_set = best;
            for (int64_t r = 0; r < ROWS && !affine; r++) {
                double mean = 0, var = 0, tolerance = dtype == RG_FLOAT32 ? 2e-6 : 1e-14;
                for (int64_t i = r * n; i < r * n + n; i++)
                    mean += value(x, i) / (double)n;
                for (int64_t i = r * n; i < r * n + n; i++)
                    var += (value(x, i) - mean) * (value(x, i) - mean) / (double)n;
                for (int64_t i = r * n; i < r * n + n; i++)
                    ck_each(same(value(plain[0], i), (value(x, i) - mean) / sqrt(var + 1e-5),
                                 tolerance),
                            "layer_norm of %lld: %.9g", (long long)n, value(plain[0], i));
            }
        }
}
END_TEST

/* Logits are small or huge, some targets are ignored, and the second output has a gradient. */
START_TEST(test_cross_entropy) {
    static const double sizes[] = { 1, 100, 1e6 };
    const int best = k_set;
    for (int64_t n = 1; n < 100; n += n < 36 ? 1 : 13)
        for (int s = 0; s < 2 * RG_COUNT(sizes); s++) {
            RG_SCOPE();
            enum { ROWS = 9 };
            rg_dtype dtype = s % 2 ? RG_FLOAT64 : RG_FLOAT32;
            rg_tensor *x = rows_of(dtype, ROWS, n), *plain[3] = { NULL, NULL, NULL };
            rg_tensor *target = rgi_own(rgi_new(RG_INT64, 1, (int64_t[]){ ROWS })),
                      *g = rgi_own(rgi_new(dtype, 1, target->size));
            rg_tensor *weight = rgi_own(rgi_new(dtype, 1, &n)),
                      *g_lse = rgi_own(rgi_new(RG_FLOAT64, 1, target->size));
            for (int64_t i = 0; i < n; i++)
                rgi_store_f64(weight->data + i * (int64_t)rgi_sizeof(dtype), dtype,
                              1 + 0.5 * (double)(i % 3));
            for (int64_t r = 0; r < ROWS; r++) {
                ((int64_t *)target->data)[r] = r == 5 ? -1 : 7 * r % n;
                rgi_store_f64(g->data + r * (int64_t)rgi_sizeof(dtype), dtype,
                              1 + 0.25 * (double)r);
                ((double *)g_lse->data)[r] = 0.5 * (double)(r % 2);
                for (int64_t i = r * n; i < r * n + n; i++)
                    rgi_store_f64(x->data + i * (int64_t)rgi_sizeof(dtype), dtype,
                                  value(x, i) + sizes[s / 2]);
            }
            const k_nll_targets z = { target, s % 3 ? weight : NULL, n, 1, -1 };
            for (k_set = 0; k_set <= best; k_set++) {
                rg_tensor *y = rgi_own(rgi_new(dtype, 1, target->size)),
                          *lse = rgi_own(rgi_new(RG_FLOAT64, 1, target->size));
                rg_tensor *gx = rgi_own(rgi_new(dtype, 2, x->size));
                k_cross_entropy(&z, y, lse, x);
                k_cross_entropy_backward(&z, gx, lse, x, g, g_lse, 2);
                if (k_set) {
                    check_bits(y, plain[0], "cross_entropy");
                    check_bits(lse, plain[1], "lse");
                    check_bits(gx, plain[2], "its gradient");
                } else {
                    plain[0] = y;
                    plain[1] = lse;
                    plain[2] = gx;
                }
            }
            k_set = best;
            for (int64_t r = 0; r < ROWS; r++) {
                double max = -INFINITY, total = 0, tolerance = dtype == RG_FLOAT32 ? 2e-6 : 1e-9;
                int64_t t = ((int64_t *)target->data)[r];
                double w = t < 0 ? 0 : z.weight ? value(weight, t) : 1, own = w * value(g, r) * 2;
                for (int64_t i = r * n; i < r * n + n; i++)
                    max = value(x, i) > max || value(x, i) != value(x, i) ? value(x, i) : max;
                for (int64_t i = r * n; i < r * n + n; i++)
                    total += exp(value(x, i) - max);
                double right = t < 0 ? 0 : w * (max - value(x, r * n + t) + log(total));
                ck_each(same(value(plain[0], r), right, tolerance * (1 + fabs(right))),
                        "cross_entropy of %lld: %.9g, not %.9g", (long long)n, value(plain[0], r),
                        right);
                for (int64_t i = 0; i < n; i++) {
                    right = exp(value(x, r * n + i) - max) / total * (own + value(g_lse, r))
                            - (i == t ? own : 0);
                    ck_each(same(value(plain[2], r * n + i), right, tolerance * (1 + own)),
                            "its gradient, %lld of %lld: %.9g, not %.9g", (long long)i,
                            (long long)n, value(plain[2], r * n + i), right);
                }
            }
        }
}
END_TEST

/* Rows and columns that lie side by side, turned, or with every other number left out are reduced,
 * at every length around the vectors'. */
START_TEST(test_reductions) {
    const int best = k_set;
    for (int64_t n = 1; n < 9000; n += n < 70 ? rg_slow() ? 7 : 1 : n < 700 ? 61 : 4099)
        for (int c = 0; c < (K_NORM_MIN + 3) * 4 * 3 * 3; c++) {
            RG_SCOPE();
            int how = c / 36, layout = c / 3 % 3, over = c % 3 + 1;
            rg_dtype dtype = c / 9 % 4 == 0   ? RG_BOOL
                             : c / 9 % 4 == 1 ? RG_INT64
                             : c / 9 % 4 == 2 ? RG_FLOAT32
                                              : RG_FLOAT64;
            bool whole = dtype == RG_BOOL || dtype == RG_INT64, place = how > K_NORM_MIN;
            if ((whole && (how == K_SUM_WIDE || (how >= K_NORM_0 && !place)))
                || (place && over == 3))
                continue;
            rg_tensor *x = whole ? rgi_own(rgi_new(dtype, 2, (int64_t[]){ 9, n }))
                                 : rows_of(dtype, 9, n),
                      *plain[2] = { NULL, NULL };
            for (int64_t i = 0; i < x->numel && whole; i++)
                rgi_store_f64(x->data + i * (int64_t)rgi_sizeof(dtype), dtype,
                              (double)(i * i % 13 - 3) * (i % 5 != 0));
            if (layout == 1)
                *x = k_turned(x);
            if (layout == 2) {
                x->size[1] = (n + 1) / 2;
                x->stride[1] *= 2;
                rgi_update_flags(x);
            }
            rg_dtype out = how == K_COUNT || (dtype == RG_BOOL && how <= K_PROD) ? RG_INT64
                           : how == K_SUM_WIDE                                   ? RG_FLOAT64
                                                                                 : dtype;
            int64_t kept[2] = { over & 1 ? 1 : x->size[0], over & 2 ? 1 : x->size[1] };
            for (k_set = 0; k_set <= best; k_set++) {
                rg_tensor *y = rgi_own(rgi_new(out, 2, kept)),
                          *at = rgi_own(rgi_new(RG_INT64, 2, kept));
                rgi_fill_zero(at);
                if (place)
                    k_max_dim(y, at, x, over - 1, how > K_NORM_MIN + 1);
                else
                    k_reduce((k_reduction)how, y, x, (uint32_t)over);
                if (k_set) {
                    check_bits(y, plain[0], "a reduction");
                    check_bits(at, plain[1], "its place");
                } else {
                    plain[0] = y;
                    plain[1] = at;
                }
            }
            k_set = best;
        }
}
END_TEST

static bool same_floats(const void *a_, const void *b_, int64_t n) {
    const float *a = a_, *b = b_;
    for (int64_t i = 0; i < n; i++)
        if (memcmp(a + i, b + i, sizeof *a) && (a[i] == a[i] || b[i] == b[i]))
            return false;
    return true;
}

/* Checks that a result so large that it goes past the caches has the bits of its rows by
 * themselves, which don't go past. */
static void check_past_the_caches(const int64_t M, const int64_t N) {
    enum { PART = 7, SUM = K_SAFE_SOFTMAX + 1, COPY, NORM, ALL };
    const int best = k_set;
    rg_tensor *x = rg_randn(M, N), *g = rg_randn(M, N), *w = rg_randn(N), *y[2][2];
    float *rows = (float *)x->data;
    rows[N + 5] = NAN;
    rows[2 * N + 7] = INFINITY;
    rows[4 * N] = -INFINITY;
    rows[5 * N + 70] = 1e30f;
    rows[6 * N] = -1e30f;
    for (int64_t i = 3 * N; i < 4 * N; i++)
        rows[i] = -INFINITY;
    for (int c = 0; c < ALL * (best + 1); c++) {
        RG_SCOPE();
        int op = c % ALL;
        k_set = c / ALL;
        for (int i = 0; i < 4; i++)
            y[i / 2][i % 2] = rg_empty(i / 2 ? PART : M, N);
        ck_assert(k_should_stream(y[0][0], N) && !k_should_stream(y[1][0], N));
        /* All rows come first, and then parts of them, from five places on. */
        for (int64_t part = 0, first = 0; first <= M - PART;
             first += part ? (M - PART) / 4 : 0, part = 1) {
            rg_tensor xs = *x, gs = *g, **to = y[part];
            k_norm_rows z = { part ? PART : M, N, 1, 1, 1e-5, true };
            if (part) {
                xs.data += first * N * 4;
                gs.data += first * N * 4;
                xs.size[0] = PART;
                gs.size[0] = PART;
                rgi_update_flags(&xs);
                rgi_update_flags(&gs);
            }
            if (op < SUM) {
                k_softmax(to[0], &xs, 1, (k_softmax_kind)op);
                k_softmax_backward(to[1], &gs, to[0], 1, (k_softmax_kind)op);
            } else if (op == SUM) {
                k_run(k_add, to[0], &xs, &gs);
                k_run(k_relu_grad, to[1], &gs, &xs);
            } else if (op == COPY) {
                rgi_copy_elements(to[0], &xs);
                k_run(k_mul, to[1], &xs, w);
            } else {
                k_normalize(&z, to[0], &xs, w, w);
                k_normalize_backward(&z, to[1], NULL, NULL, &gs, &xs, w);
            }
            for (int i = 0; i < 2 && part; i++)
                ck_each(same_floats(y[0][i]->data + first * N * 4, to[i]->data, PART * N),
                        "op %d, output %d, set %d, row %lld", op, i, k_set, (long long)first);
        }
    }
    k_set = best;
}

START_TEST(test_past_the_caches) {
    RG_SCOPE();
    /* Rows are no whole steps of 64 elements, or are, or are whole pages, too; and the last are
     * longer than the room that softmax has beside them. */
    check_past_the_caches(4096, 1056);
    check_past_the_caches(4096, 1088);
    check_past_the_caches(4096, 1024);
    check_past_the_caches(1024, 4352);
}
END_TEST

/* A kernel has no loop for some dtypes, and says so by name. */
START_TEST(test_kernels_refuse_dtypes) {
    RG_SCOPE();
    const int64_t size = 3;
    rg_tensor *x = rgi_own(rgi_new(RG_INT64, 1, &size));
    rg_tensor *y = rgi_own(rgi_new(RG_INT64, 1, &size));
    ck_assert(!k_run(k_exp, y, x));
    ck_assert_str_eq(rg_error(), "\"exp\" not implemented for 'Long'");
    rg_error_clear();
    ck_assert(!k_run(k_relu_grad, y, x, x));
    ck_assert_str_eq(rg_error(), "\"relu_grad\" not implemented for 'Long'");
    rg_error_clear();
    ck_assert(!k_arange(y, 0, 1));
    ck_assert_str_eq(rg_error(), "\"arange\" not implemented for 'Long'");
    rg_error_clear();
}
END_TEST

RG_TESTS(sets, test_kernels_refuse_dtypes, test_past_the_caches, test_reductions,
         test_cross_entropy, test_softmax, test_smooth_functions, test_pow_and_atan2,
         test_logarithms_and_distances, test_circle, test_gelu_is_right, test_elements,
         test_normalize)
