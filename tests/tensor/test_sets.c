/* test_sets.c: kernels give the same bits in every instruction set that this processor has, and the
 * bits are right. */
#include "tests/test.h"
#include "tensor/scope.h"
#include "tensor/shape.h"
#include "tensor/storage.h"
#include "tensor/kernels/kernels.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#if defined(__x86_64__) && !defined(RG_ONLY_PLAIN)
static const char *const names[] = { "sse2", "avx2", "avx512" };
static const char none[] = "'sse3' is none of sse2 avx2 avx512; sse2 runs";
#elif defined(__aarch64__) && !defined(RG_ONLY_PLAIN)
static const char *const names[] = { "plain", "neon" };
static const char none[] = "'sse3' is none of plain neon; plain runs";
#else
static const char *const names[] = { "plain" };
static const char none[] = "'sse3' is none of plain; plain runs";
#endif

/* These tests run in the set that REGARD_CPU names, or in the best one if it is empty or unset. */
START_TEST(test_chosen) {
    const char *asked = getenv("REGARD_CPU");
    const int chosen = k_set;
    char wrong[K_SET_TEXT], text[K_SET_TEXT];
    ck_assert_int_eq(RG_COUNT(names), K_SETS);
    if (asked && *asked)
        ck_assert_str_eq(names[k_set], asked);
    for (int best = 0; best < K_SETS; best++) {
        for (int i = 0; i < K_SETS; i++) {
            snprintf(text, sizeof text, "this processor has no %s; %s runs", names[i], names[best]);
            k_choose_set(names[i], best, wrong);
            ck_assert_int_eq(k_set, RG_MIN(i, best));
            ck_assert_str_eq(wrong, i > best ? text : "");
        }
        k_choose_set(NULL, best, wrong);
        ck_assert_int_eq(k_set, best);
        ck_assert_str_eq(wrong, "");
        k_choose_set("", best, wrong);
        ck_assert_int_eq(k_set, best);
        ck_assert_str_eq(wrong, "");
    }
    k_choose_set("sse3", 0, wrong);
    ck_assert_str_eq(wrong, none);
    k_choose_set("a name that is much longer than the text in which the answer has room for it, or"
                 " for anything else",
                 0, wrong);
    ck_assert_msg(strncmp(wrong, "'a name that", 12) == 0 && strstr(wrong, " runs"), "%s", wrong);
    k_set = chosen;
}
END_TEST

/* Runs this program again with this value of REGARD_CPU. Reads its standard error, and then the
 * number of the set in which it runs, into `text`. */
static void run_with(const char *value, char *text, size_t room) {
    char command[256];
    snprintf(command, sizeof command, "REGARD_CPU='%s' TELL_SET=1 /proc/%d/exe 2>&1", value,
             getpid());
    FILE *pipe = popen(command, "r");
    ck_assert(pipe != NULL);
    text[fread(text, 1, room - 1, pipe)] = 0;
    ck_assert_int_eq(pclose(pipe), 0);
}

/* A program that is told to take a set that doesn't exist prints a warning before main, and runs in
 * the best set. A set that exists causes no warning. */
START_TEST(test_warning) {
    static const char *const wrong[] = { "nonsense", "sse3", "AVX2", " ", "%s%d" };
    char best[128], text[512], want[512], reason[K_SET_TEXT];
    /* A child would run on the machine itself, where a program for an emulated machine can't
     * run. */
    if (rg_emulated() || getenv("EMULATED"))
        return;
    const int chosen = k_set;
    run_with("", best, sizeof best);
    ck_assert_msg(strncmp(best, "set ", 4) == 0 && strlen(best) == sizeof "set 0", "%s", best);
    for (int i = 0; i < RG_COUNT(wrong); i++) {
        k_choose_set(wrong[i], best[4] - '0', reason);
        snprintf(want, sizeof want, "regard: warning: REGARD_CPU: %s\n%s", reason, best);
        run_with(wrong[i], text, sizeof text);
        ck_assert_str_eq(text, want);
    }
    for (int set = 0; set <= best[4] - '0'; set++) {
        run_with(names[set], text, sizeof text);
        snprintf(want, sizeof want, "set %d\n", set);
        ck_assert_str_eq(text, want);
    }
    k_set = chosen;
}
END_TEST

static double value(const rg_tensor *t, int64_t i) {
    return rgi_load_f64(t->data + i * (int64_t)rgi_sizeof(t->dtype), (rg_dtype)t->dtype);
}

/* Exchanges the dims of the matrix x. */
static void turn(rg_tensor *x) {
    RG_SWAP(x->size[0], x->size[1]);
    RG_SWAP(x->stride[0], x->stride[1]);
    rgi_update_flags(x);
}

/* Returns rows of n numbers around 0. A few rows have infinities and NaN. */
static rg_tensor *rows_of(rg_dtype dtype, int64_t rows, int64_t n) {
    static const double odd[] = { INFINITY, NAN, 90, -INFINITY, -110 };
    rg_tensor *t = rgi_own(rgi_new(dtype, 2, (int64_t[]){ rows, n }));
    for (int64_t i = 0; i < t->numel; i++) {
        int64_t row = i / n;
        double v = 3 * sin((double)(7 * i + n)) + (i % 11 == 5);
        if (row % 8 == 7)
            v = -INFINITY;
        else if (row % 4 == 3 && i % 5 == 0)
            v = odd[i / 5 % RG_COUNT(odd)];
        rgi_store_f64(t->data + i * (int64_t)rgi_sizeof(dtype), dtype, v);
    }
    return t;
}

static bool same(double a, double b, double tolerance) {
    return a == b || (a != a && b != b) || fabs(a - b) <= tolerance;
}

/* Checks that y has the bits of `plain`, the result of the set for any processor. */
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

/* Tries rows of n numbers. If `turned`, they lie in memory as columns. */
static void try_softmax(bool turned, rg_dtype dtype, k_softmax_kind kind, int64_t rows, int64_t n) {
    RG_SCOPE();
    const int best = k_set;
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

START_TEST(test_softmax) {
    static const int64_t lengths[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 17, 31, 33, 64, 100 };
    static const rg_dtype dtypes[] = { RG_FLOAT32, RG_FLOAT64 };
    for (int d = 0; d < RG_COUNT(dtypes); d++)
        for (int kind = K_SOFTMAX_PLAIN; kind <= K_SAFE_SOFTMAX; kind++)
            for (int64_t rows = 1; rows <= 9; rows += getenv("EMULATED") ? 4 : 1)
                for (int l = 0; l < RG_COUNT(lengths); l++) {
                    try_softmax(false, dtypes[d], (k_softmax_kind)kind, rows, lengths[l]);
                    /* The transposed rows are more than a block holds. */
                    try_softmax(true, dtypes[d], (k_softmax_kind)kind, 37 * rows, lengths[l]);
                }
}
END_TEST

/* Returns the distance from v to the next number of the type. */
static double unit_at(double v, rg_dtype dtype) {
    double a = fabs(v);
    return dtype == RG_FLOAT64 ? nextafter(a, INFINITY) - a
                               : (double)(nextafterf((float)a, INFINITY) - (float)a);
}
static double rounded(double v, rg_dtype dtype) {
    return dtype == RG_FLOAT64 ? v : (double)(float)v;
}

/* Over the whole range of float32, values are within 2 units in the last place. Doubles are within
 * 4 units, because libm's values, with which they are compared, are rounded as well. */
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
        for (uint32_t part = 0; part < 16; part += getenv("EMULATED") ? 3 : 1) {
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

/* The values are right for any two floats, also for infinities and other special ones. */
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
                float *v = (float *)in[k]->data + i;
                if (i < ODD * ODD)
                    *v = odd[k ? i % ODD : i / ODD];
                else if (i % 2)
                    memcpy(v, &bits, sizeof *v);
                else
                    *v = (float)(k ? 20 * sin(i) : exp(3 * cos(7.0 * i)));
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

/* Functions of two numbers that are made of smooth functions have the same bits in all sets.
 * Distances also have the same bits, because their sums have the same lanes in every set. */
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
            rgi_lay_out(b, 2, a->size); /* These numbers must differ from a's. */
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

typedef struct {
    const char *name;
    const rg_kernel *kernel;
    double (*right)(double);
} circle_function;

/* Fills x with the numbers at and around each multiple of pi / 4. `far` gets the same numbers, but
 * each fifth one is NaN or too large. */
static void fill_circle(float *x, float *far, int n) {
    for (int i = 0; i < n; i++) {
        float at = (float)(i / 5 * (acos(-1) / 4));
        float v = (float[]){ at, nextafterf(at, INFINITY), nextafterf(at, -INFINITY), at + 0.1f,
                             at + 0.4f }[i % 5];
        x[i] = i % 2 ? -v : v;
        far[i] = x[i];
        if (i % 5 == 0)
            far[i] = i % 10 ? NAN : 3e8f;
    }
}

/* Checks that the values are within 1.6 units in the last place. */
static void check_circle(const circle_function *f, const rg_tensor *y, const rg_tensor *x) {
    for (int64_t i = 0; i < x->numel; i++) {
        double right = f->right(value(x, i)),
               unit = nextafterf(fabsf((float)right), INFINITY) - fabsf((float)right);
        ck_each(fabs(value(y, i) - right) <= 1.6 * unit, "%s(%.9g) is %.9g, not %.9g: %g units",
                f->name, value(x, i), value(y, i), right, fabs(value(y, i) - right) / unit);
    }
}

/* Checks that the results for x have the same bits if neighbours are computed one by one, as the
 * special numbers in `far` are, and if only every other element is read. */
static void check_neighbours(const circle_function *f, const rg_tensor *y, const rg_tensor *x,
                             rg_tensor *far) {
    rg_tensor *other = rgi_own(rgi_new_like(x, RG_FLOAT32)), every = *far;
    rg_tensor *half = rgi_own(rgi_new(RG_FLOAT32, 1, (int64_t[]){ x->numel / 2 }));
    every.ndim = 1;
    every.size[0] = x->numel / 2;
    every.stride[0] = 2;
    rgi_update_flags(&every);
    k_run(*f->kernel, other, far);
    k_run(*f->kernel, half, &every);
    for (int64_t i = 0; i < half->numel; i++)
        ck_each(value(half, i) == value(other, 2 * i), "%s(%.9g) of every other one", f->name,
                value(far, 2 * i));
    for (int64_t i = 0; i < x->numel; i++)
        ck_each(i % 5 == 0 || value(y, i) == value(other, i), "%s(%.9g) hangs on its neighbours",
                f->name, value(x, i));
}

/* The multiples of pi / 4 go up to a little more than 2^17. At them, almost nothing is left of x
 * after the reduction, or two polynomials meet. */
START_TEST(test_circle) {
    static const circle_function functions[] = {
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
        fill_circle((float *)x->data, (float *)far->data, N);
        for (k_set = 0; k_set <= best; k_set++) {
            rg_tensor *y = rgi_own(rgi_new_like(x, RG_FLOAT32));
            k_run(*functions[f].kernel, y, x);
            check_neighbours(&functions[f], y, x, far);
            if (k_set) {
                check_bits(y, plain, functions[f].name);
                continue;
            }
            plain = y;
            check_circle(&functions[f], y, x);
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

static const rg_kernel *const elementwise[] = {
#define UNARY(name, ...)            &k_##name,
#define ACTIVATION(name, ...)       &k_##name, &k_##name##_grad,
#define ACTIVATION_ALONE(name, ...) ACTIVATION(name)
#define BINARY(name, ...)           &k_##name,
#define BINARY_ALONE(name, ...)     &k_##name,
#include "tensor/kernels/elementwise.def"
    &k_square,     &k_logsigmoid, &k_logsigmoid_grad, &k_sub,   &k_remainder, &k_prelu,
    &k_prelu_grad, &k_glu,        &k_glu_grad,        &k_clamp, &k_lerp,
};

/* All sets compute the same elements, for contiguous tensors and for tensors with gaps. The lengths
 * are all those below a few vectors, and some larger ones. */
START_TEST(test_elements) {
    const int best = k_set;
    for (int k = 0; k < RG_COUNT(elementwise); k++)
        for (int64_t n = 1; n < 80; n += n < 36 ? 1 : 11)
            for (int gaps = 0; gaps < 2; gaps++) {
                RG_SCOPE();
                rg_dtype dtype = n % 3 ? RG_FLOAT32 : RG_FLOAT64;
                rg_tensor *in[3], *plain = NULL;
                for (int i = 0; i < 3; i++) {
                    in[i] = rows_of(dtype, 8 + i, n);
                    /* The operands must have different rows. */
                    in[i]->data += i * n * (int64_t)rgi_sizeof(dtype);
                    if (gaps)
                        turn(in[i]);
                    in[i]->size[gaps ? 1 : 0] = 8;
                    rgi_update_flags(in[i]);
                }
                for (k_set = 0; k_set <= best; k_set++) {
                    rg_tensor *y = rgi_own(rgi_new(dtype, 2, in[0]->size));
                    k_run_with(elementwise[k], y, in, NULL);
                    if (k_set)
                        check_bits(y, plain, "element by element");
                    else
                        plain = y;
                }
                k_set = best;
            }
}
END_TEST

/* If the operands of a large result are single numbers, each element has the same bits as in a
 * small result, and no bytes are written in the gaps between the elements. */
START_TEST(test_numbers) {
    enum { ROWS = 3, LENGTH = 9001, GAP = 7 };
    for (int k = 0; k < RG_COUNT(elementwise); k++)
        for (int which = 0; which < 4; which++) {
            RG_SCOPE();
            const rg_dtype dtype = which & 1 ? RG_FLOAT32 : RG_FLOAT64;
            const int64_t gap = which & 2 ? GAP : 0;
            rg_tensor *in[3], *one = rgi_own(rgi_new(dtype, 0, NULL));
            for (int i = 0; i < 3; i++) {
                in[i] = rgi_own(rgi_new(dtype, 0, NULL));
                rgi_store_f64(in[i]->data, dtype, 0.3 + 0.25 * i);
            }
            k_run_with(elementwise[k], one, in, NULL);
            rg_tensor *all = rgi_own(rgi_new(dtype, 2, (int64_t[]){ ROWS, LENGTH + gap }));
            rgi_fill_number(all, -7, -7);
            rg_tensor y = *all;
            y.size[1] = LENGTH;
            rgi_update_flags(&y);
            k_run_with(elementwise[k], &y, in, NULL);
            for (int64_t i = 0; i < all->numel; i++) {
                const double right = i % all->size[1] < LENGTH ? value(one, 0) : -7;
                ck_each(same(value(all, i), right, 0), "%s, element %lld: %g, not %g",
                        elementwise[k]->name, (long long)i, value(all, i), right);
            }
        }
}
END_TEST

/* Checks the result of layer_norm without weights for rows of n elements. */
static void check_layer_norm(const rg_tensor *y, const rg_tensor *x, int64_t n) {
    double tolerance = x->dtype == RG_FLOAT32 ? 2e-6 : 1e-14;
    for (int64_t first = 0; first < x->numel; first += n) {
        double mean = 0, var = 0;
        for (int64_t i = first; i < first + n; i++)
            mean += value(x, i) / (double)n;
        for (int64_t i = first; i < first + n; i++)
            var += (value(x, i) - mean) * (value(x, i) - mean) / (double)n;
        for (int64_t i = first; i < first + n; i++)
            ck_each(same(value(y, i), (value(x, i) - mean) / sqrt(var + 1e-5), tolerance),
                    "layer_norm of %lld: %.9g", (long long)n, value(y, i));
    }
}

enum { LONGEST_NORM = 900 };

static void try_normalize(int64_t n, bool affine) {
    enum { ROWS = 9 };
    RG_SCOPE();
    const int best = k_set;
    rg_dtype dtype = n % 2 ? RG_FLOAT32 : RG_FLOAT64;
    rg_tensor *x = rows_of(dtype, 1, ROWS * n), *g = rows_of(dtype, 1, ROWS * n),
              *w = affine ? rows_of(dtype, 1, n) : NULL;
    rg_tensor *plain[2] = { NULL, NULL };
    /* sums[0] holds the gradients of weight and bias in the set for any processor, and sums[1]
     * those in another set. */
    double sums[2][2][LONGEST_NORM], (*sum)[LONGEST_NORM] = sums[0];
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
    if (!affine)
        check_layer_norm(plain[0], x, n);
}

START_TEST(test_normalize) {
    for (int64_t n = 1; n < LONGEST_NORM;) {
        try_normalize(n, false);
        try_normalize(n, true);
        if (n < 20)
            n += 1;
        else
            n += n < 98 ? 13 : 79;
    }
}
END_TEST

/* Checks the losses, and the gradients of the logits x. */
static void check_cross_entropy(const k_nll_targets *z, const rg_tensor *x, const rg_tensor *g,
                                const rg_tensor *losses, const rg_tensor *gx) {
    int64_t n = x->size[1];
    double tolerance = x->dtype == RG_FLOAT32 ? 2e-6 : 1e-9;
    for (int64_t r = 0; r < x->size[0]; r++) {
        double max = -INFINITY, total = 0, w = 0;
        int64_t t = ((int64_t *)z->target->data)[r];
        if (t >= 0)
            w = z->weight ? value(z->weight, t) : 1;
        double own = w * value(g, r) * 2;
        for (int64_t i = r * n; i < r * n + n; i++)
            max = value(x, i) > max || value(x, i) != value(x, i) ? value(x, i) : max;
        for (int64_t i = r * n; i < r * n + n; i++)
            total += exp(value(x, i) - max);
        double right = t < 0 ? 0 : w * (max - value(x, r * n + t) + log(total));
        ck_each(same(value(losses, r), right, tolerance * (1 + fabs(right))),
                "cross_entropy of %lld: %.9g, not %.9g", (long long)n, value(losses, r), right);
        for (int64_t i = 0; i < n; i++) {
            right = exp(value(x, r * n + i) - max) / total * own - (i == t ? own : 0);
            ck_each(same(value(gx, r * n + i), right, tolerance * (1 + own)),
                    "its gradient, %lld of %lld: %.9g, not %.9g", (long long)i, (long long)n,
                    value(gx, r * n + i), right);
        }
    }
}

/* Tries cross_entropy, with some targets ignored. */
static void try_cross_entropy(int64_t n, rg_dtype dtype, double shift, bool weighted) {
    enum { ROWS = 9 };
    RG_SCOPE();
    const int best = k_set;
    rg_tensor *x = rows_of(dtype, ROWS, n), *plain[3] = { NULL, NULL, NULL };
    rg_tensor *target = rgi_own(rgi_new(RG_INT64, 1, (int64_t[]){ ROWS })),
              *g = rgi_own(rgi_new(dtype, 1, target->size));
    rg_tensor *weight = rgi_own(rgi_new(dtype, 1, &n));
    for (int64_t i = 0; i < n; i++)
        rgi_store_f64(weight->data + i * (int64_t)rgi_sizeof(dtype), dtype,
                      1 + 0.5 * (double)(i % 3));
    for (int64_t r = 0; r < ROWS; r++) {
        ((int64_t *)target->data)[r] = r == 5 ? -1 : 7 * r % n;
        rgi_store_f64(g->data + r * (int64_t)rgi_sizeof(dtype), dtype, 1 + 0.25 * (double)r);
    }
    for (int64_t i = 0; i < x->numel; i++)
        rgi_store_f64(x->data + i * (int64_t)rgi_sizeof(dtype), dtype, value(x, i) + shift);
    double total = 0.5;
    const k_nll_targets z = { target, weighted ? weight : NULL, n, 1, -1, &total };
    for (k_set = 0; k_set <= best; k_set++) {
        rg_tensor *y = rgi_own(rgi_new(dtype, 1, target->size)),
                  *shifts = rgi_own(rgi_new(dtype, 2, (int64_t[]){ ROWS, 2 }));
        rg_tensor *gx = rgi_own(rgi_new(dtype, 2, x->size));
        k_cross_entropy(&z, y, shifts, x);
        k_cross_entropy_backward(&z, gx, shifts, x, g);
        if (k_set) {
            check_bits(y, plain[0], "cross_entropy");
            check_bits(shifts, plain[1], "shifts");
            check_bits(gx, plain[2], "its gradient");
        } else {
            plain[0] = y;
            plain[1] = shifts;
            plain[2] = gx;
        }
    }
    k_set = best;
    check_cross_entropy(&z, x, g, plain[0], plain[2]);
}

/* Tries small and huge logits. */
START_TEST(test_cross_entropy) {
    static const double shifts[] = { 1, 100, 1e6, 1e15, 1e30 };
    for (int64_t n = 1; n < 100; n += n < 36 ? 1 : 13)
        for (int s = 0; s < RG_COUNT(shifts); s++) {
            try_cross_entropy(n, RG_FLOAT32, shifts[s], s != 0);
            try_cross_entropy(n, RG_FLOAT64, shifts[s], s != 1);
        }
}
END_TEST

/* The kinds of reductions. The numbers GREATEST and LEAST, behind the last index, stand for the
 * maximum and the minimum with their indices. */
static const k_reduction *const kinds[] = {
    &k_sums,  &k_wide_sums, &k_nansums, &k_counts,  &k_products,  &k_greatest,
    &k_least, &k_norms_0,   &k_norms_1, &k_norms_2, &k_norms_max, &k_norms_min,
};
enum { PRODUCTS = 4, NORMS = 7, GREATEST = RG_COUNT(kinds), LEAST, REDUCTIONS };

static rg_dtype reduced_dtype(int how, rg_dtype dtype) {
    if (how < GREATEST && (kinds[how] == &k_counts || (dtype == RG_BOOL && how <= PRODUCTS)))
        return RG_INT64;
    return how < GREATEST && kinds[how] == &k_wide_sums ? RG_FLOAT64 : dtype;
}

/* Returns a matrix of 9 rows of n numbers. Layout 0 is contiguous, 1 is transposed, and 2 leaves
 * out every other number. */
static rg_tensor *reduced_matrix(rg_dtype dtype, int64_t n, int layout) {
    bool whole = dtype == RG_BOOL || dtype == RG_INT64;
    rg_tensor *x = whole ? rgi_own(rgi_new(dtype, 2, (int64_t[]){ 9, n })) : rows_of(dtype, 9, n);
    for (int64_t i = 0; i < x->numel && whole; i++)
        rgi_store_f64(x->data + i * (int64_t)rgi_sizeof(dtype), dtype,
                      (double)(i * i % 13 - 3) * (i % 5 != 0));
    if (layout == 1)
        turn(x);
    if (layout == 2) {
        x->size[1] = (n + 1) / 2;
        x->stride[1] *= 2;
        rgi_update_flags(x);
    }
    return x;
}

/* Reduces x over the dims whose bits are set in `over`. */
static void try_reduction(int how, rg_tensor *x, int over) {
    RG_SCOPE();
    const int best = k_set;
    rg_dtype dtype = (rg_dtype)x->dtype;
    bool whole = dtype == RG_BOOL || dtype == RG_INT64, place = how >= GREATEST;
    if (whole && !place && (kinds[how] == &k_wide_sums || how >= NORMS))
        return;
    if (place && over == 3)
        return;
    rg_tensor *plain[2] = { NULL, NULL };
    int64_t kept[2] = { over & 1 ? 1 : x->size[0], over & 2 ? 1 : x->size[1] };
    for (k_set = 0; k_set <= best; k_set++) {
        rg_tensor *y = rgi_own(rgi_new(reduced_dtype(how, dtype), 2, kept)),
                  *at = rgi_own(rgi_new(RG_INT64, 2, kept));
        rgi_fill_zero(at);
        if (place)
            k_max_dim(y, at, x, over - 1, how == LEAST);
        else
            k_reduce(kinds[how], y, x, (uint32_t)over);
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

static int64_t next_length(int64_t n) {
    if (n < 70)
        return n + (rg_slow() ? 7 : 1);
    return n + (n < 700 ? 61 : 4099);
}

/* Rows and columns in each layout are reduced, at every length around those of the vectors. */
START_TEST(test_reductions) {
    for (int64_t n = 1; n < 9000; n = next_length(n))
        for (int dtype = RG_BOOL; dtype <= RG_FLOAT64; dtype++)
            for (int layout = 0; layout < 3; layout++) {
                RG_SCOPE();
                rg_tensor *x = reduced_matrix((rg_dtype)dtype, n, layout);
                for (int how = 0; how < REDUCTIONS; how++)
                    for (int over = 1; over <= 3; over++)
                        try_reduction(how, x, over);
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

/* The kinds of softmax come first among these ops. */
enum { STREAM_SUM = K_SAFE_SOFTMAX + 1, STREAM_COPY, STREAM_NORM, STREAM_OPS };

/* Computes y, and in gx the gradient or another result, from rows x and g. */
static void run_streamed(int op, rg_tensor *y, rg_tensor *gx, rg_tensor *x, rg_tensor *g,
                         rg_tensor *w) {
    if (op < STREAM_SUM) {
        k_softmax(y, x, 1, (k_softmax_kind)op);
        k_softmax_backward(gx, g, y, 1, (k_softmax_kind)op);
    } else if (op == STREAM_SUM) {
        k_run(k_add, y, x, g);
        k_run(k_relu_grad, gx, g, x);
    } else if (op == STREAM_COPY) {
        rgi_copy_elements(y, x);
        k_run(k_mul, gx, x, w);
    } else {
        k_norm_rows z = { x->size[0], x->size[1], 1, 1, 1e-5, true };
        k_normalize(&z, y, x, w, w);
        k_normalize_backward(&z, gx, NULL, NULL, g, x, w);
    }
}

/* Returns n of x's rows, from the first one on. */
static rg_tensor some_rows(const rg_tensor *x, int64_t first, int64_t n) {
    rg_tensor rows = *x;
    rows.data += first * x->size[1] * 4;
    rows.size[0] = n;
    rgi_update_flags(&rows);
    return rows;
}

/* Checks that a large result, which is written past the caches, has the bits of a small one, which
 * isn't. Seven rows at a time are compared, at five places. */
static void check_streamed(int op, rg_tensor *x, rg_tensor *g, rg_tensor *w) {
    enum { PART = 7 };
    RG_SCOPE();
    int64_t rows = x->size[0], n = x->size[1];
    rg_tensor *all[] = { rg_empty(rows, n), rg_empty(rows, n) };
    rg_tensor *part[] = { rg_empty(PART, n), rg_empty(PART, n) };
    ck_assert(k_should_stream(all[0], n) && !k_should_stream(part[0], n));
    run_streamed(op, all[0], all[1], x, g, w);
    for (int64_t first = 0; first <= rows - PART; first += (rows - PART) / 4) {
        rg_tensor xs = some_rows(x, first, PART), gs = some_rows(g, first, PART);
        run_streamed(op, part[0], part[1], &xs, &gs, w);
        for (int i = 0; i < 2; i++)
            ck_each(same_floats(all[i]->data + first * n * 4, part[i]->data, PART * n),
                    "op %d, output %d, set %d, row %lld", op, i, k_set, (long long)first);
    }
}

static void check_past_the_caches(int64_t m, int64_t n) {
    const int best = k_set;
    rg_tensor *x = rg_randn(m, n), *g = rg_randn(m, n), *w = rg_randn(n);
    float *rows = (float *)x->data;
    rows[n + 5] = NAN;
    rows[2 * n + 7] = INFINITY;
    rows[4 * n] = -INFINITY;
    rows[5 * n + 70] = 1e30f;
    rows[6 * n] = -1e30f;
    for (int64_t i = 3 * n; i < 4 * n; i++)
        rows[i] = -INFINITY;
    for (k_set = 0; k_set <= best; k_set++)
        for (int op = 0; op < STREAM_OPS; op++)
            check_streamed(op, x, g, w);
    k_set = best;
}

START_TEST(test_past_the_caches) {
    RG_SCOPE();
    /* A row of 1056 elements isn't a multiple of 64 elements, and one of 1088 is. A row of 1024
     * elements is a whole page. A row of 17408 is longer than the 4096 elements whose powers
     * softmax keeps. */
    check_past_the_caches(4096, 1056);
    if (getenv("EMULATED"))
        return;
    check_past_the_caches(4096, 1088);
    check_past_the_caches(4096, 1024);
    check_past_the_caches(256, 17408);
}
END_TEST

/* If a kernel has no loop for a dtype, the error has the kernel's name. */
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

int main(void) {
    if (getenv("TELL_SET"))
        return printf("set %d\n", k_set) < 0;
    const TTest *cases[] = { test_chosen,
                             test_warning,
                             test_kernels_refuse_dtypes,
                             test_past_the_caches,
                             test_reductions,
                             test_cross_entropy,
                             test_softmax,
                             test_smooth_functions,
                             test_pow_and_atan2,
                             test_logarithms_and_distances,
                             test_circle,
                             test_gelu_is_right,
                             test_elements,
                             test_numbers,
                             test_normalize };
    return rg_run_tests("sets", 0, sizeof cases / sizeof cases[0], cases);
}
