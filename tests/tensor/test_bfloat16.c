/*
 * test_bfloat16.c: compares products with the precision "medium" of set_float32_matmul_precision
 * with sums of rounded numbers that the test writes out. If the processor has no such products,
 * they are computed in float32. Also checks that products of matrices that bfloat16 can hold have
 * the bits of float32's products.
 */
#include "tests/test.h"
#include "tensor/shape.h"
#include "tensor/kernels/kernels.h"

#include <math.h>

static float from_bits(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Returns the nearest number of 8 significant bits. Of two that are equally near, it is the even
 * one. If x is nearer to 0 than 2^-126, returns 0. */
static float rounded(float x) {
    int e;
    if (!k_has_bfloat16() || x != x || isinf(x))
        return x;
    if (fabsf(x) < 0x1p-126f)
        return 0;
    frexp(x, &e);
    return (float)(rint(ldexp(x, 8 - e)) * ldexp(1, e - 8));
}

static bool same(float x, float y) { return x == y || (x != x && y != y); }

START_TEST(test_names) {
    static const char *const names[] = { "high", "medium", "highest" };
    ck_assert_str_eq(rg_get_float32_matmul_precision(), "highest");
    for (int i = 0; i < RG_COUNT(names); i++) {
        ck_assert(rg_set_float32_matmul_precision(names[i]));
        ck_assert_str_eq(rg_get_float32_matmul_precision(), names[i]);
    }
    ck_fails(rg_set_float32_matmul_precision("Medium"), RG_RUNTIME_ERROR,
             "Medium is not one of 'highest', 'high', "
             "or 'medium'; the currentsetFloat32MatmulPrecision call has no effect.");
    ck_fails(rg_set_float32_matmul_precision(""), RG_RUNTIME_ERROR, " is not one of");
    ck_fails(rg_set_float32_matmul_precision(NULL), RG_RUNTIME_ERROR,
             "set_float32_matmul_precision expects a str, but got NoneType");
    ck_assert_str_eq(rg_get_float32_matmul_precision(), "highest");
}
END_TEST

/* A product with 1, on either side, shows how a number is rounded. */
START_TEST(test_rounding) {
    /* Each number stands beside what torch's x.bfloat16().float() makes of it. */
    static const uint32_t known[][2] = {
        { 0x3f800000, 0x3f800000 }, { 0x3f808000, 0x3f800000 }, { 0x3f818000, 0x3f820000 },
        { 0x3f808001, 0x3f810000 }, { 0x3f807fff, 0x3f800000 }, { 0x7f7f7fff, 0x7f7f0000 },
        { 0x7f7f8000, 0x7f800000 }, { 0x7f800000, 0x7f800000 }, { 0xff800000, 0xff800000 },
        { 0x7f800001, 0xffff0000 }, { 0x7fffffff, 0xffff0000 }, { 0x00000001, 0x00000000 },
        { 0x00800000, 0x00800000 }, { 0xbf80ffff, 0xbf810000 },
    };
    enum { N = 2048, K = 33 };
    ck_assert(rg_set_float32_matmul_precision("medium"));
    for (int turned = 0; turned < 2; turned++) {
        RG_SCOPE();
        rg_tensor *x = turned ? rg_zeros(K, N) : rg_zeros(N, K), *one = rg_zeros(16, K);
        rg_tensor *y = rg_empty(N, 16), *y_right = rg_empty(16, N);
        float *to = (float *)x->data, *left = (float *)y->data, *right = (float *)y_right->data;
        for (uint32_t i = 0; i < N; i++)
            to[turned ? i : K * i] = from_bits(i < RG_COUNT(known) ? known[i][0] : i * 2654435761u);
        ((float *)one->data)[0] = 1;
        ck_assert(k_matmul_with(y, NULL, x, turned, one, true, 1, 0));
        ck_assert(k_matmul_with(y_right, NULL, one, false, x, !turned, 1, 0));
        for (uint32_t i = 0; i < N; i++) {
            float v = to[turned ? i : K * i], want = rounded(v);
            if (k_has_bfloat16() && i < RG_COUNT(known))
                ck_assert(same(want, from_bits(known[i][1])));
            ck_assert_msg(same(left[16 * i], want), "%a became %a, not %a", v, left[16 * i], want);
            ck_assert_msg(same(right[i], want), "right, %a became %a, not %a", v, right[i], want);
        }
    }
}
END_TEST

/* Returns a matrix. `layout` 0 is contiguous, 1 is transposed, 2 takes every other element, and 3
 * repeats one row. */
static rg_tensor *grid(int64_t rows, int64_t columns, int layout) {
    int64_t step = layout == 2 ? 2 : 1;
    rg_tensor *t = layout == 1 ? rg_randn(columns, rows) : rg_randn(rows, columns * step);
    t->size[0] = rows;
    t->size[1] = columns;
    t->stride[0] = columns * step;
    t->stride[1] = step;
    if (layout == 1) {
        t->stride[0] = 1;
        t->stride[1] = rows;
    }
    if (layout == 3)
        t->stride[0] = 0;
    rgi_update_flags(t);
    return t;
}

static float at(const rg_tensor *t, int64_t i, int64_t j) {
    return ((float *)t->data)[i * t->stride[0] + j * t->stride[1]];
}

/* Returns a copy of t, whose elements are rounded if `rounds` is true. */
static rg_tensor *copy(const rg_tensor *t, bool rounds) {
    rg_tensor *to = rg_empty(t->size[0], t->size[1]);
    for (int64_t i = 0; i < t->size[0]; i++)
        for (int64_t j = 0; j < t->size[1]; j++)
            ((float *)to->data)[i * t->size[1] + j] = rounds ? rounded(at(t, i, j)) : at(t, i, j);
    return to;
}

/* Checks alpha a b + beta y. The rows of y have gaps of three elements, which the product must not
 * change. The tolerance of float32 is 2^-24 for each of k additions and two products. */
static void check_product(int64_t m, int64_t n, int64_t k, int layout_a, int layout_b, double alpha,
                          double beta) {
    RG_SCOPE();
    bool rounds = m >= 16 && n >= 16 && k >= 32;
    rg_tensor *a = grid(m, k, layout_a), *b = grid(k, n, layout_b);
    const float *p = (float *)copy(a, rounds)->data, *q = (float *)copy(b, rounds)->data;
    rg_tensor *y = rg_randn(m, n + 3), *c = rg_empty(m, n + 3), *one = rg_empty(m, n + 3);
    rgi_copy_elements(c, y);
    rgi_copy_elements(one, y);
    y->size[1] = one->size[1] = n;
    rgi_update_flags(y);
    rgi_update_flags(one);
    rg_set_num_threads(3);
    ck_assert(k_matmul_with(y, NULL, a, false, b, false, alpha, beta));
    rg_set_num_threads(1);
    ck_assert(k_matmul_with(one, NULL, a, false, b, false, alpha, beta));
    ck_assert_msg(memcmp(y->data, one->data, (size_t)(m * (n + 3)) * 4) == 0,
                  "(%d,%d,%d): other bits at 3 threads", (int)m, (int)k, (int)n);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n + 3; j++) {
            double sum = beta * at(c, i, j), bound = fabs(sum);
            if (j >= n) {
                ck_assert(at(y, i, j) == at(c, i, j));
                continue;
            }
            for (int64_t l = 0; l < k; l++) {
                const double v = alpha * ((double)p[i * k + l] * q[l * n + j]);
                sum += v;
                bound += fabs(v);
            }
            ck_assert_msg(fabs(at(y, i, j) - sum) <= (double)(k + 2) * 0x1p-24 * bound,
                          "(%d,%d) (%d,%d), layouts %d %d, at %d %d: %.9g, not %.9g", (int)m,
                          (int)k, (int)k, (int)n, layout_a, layout_b, (int)i, (int)j, at(y, i, j),
                          sum);
        }
}

START_TEST(test_products) {
    static const int64_t sizes[][3] = {
        /* A row has m, n and k. */
        { 16, 16, 32 },   { 17, 33, 33 },   { 31, 48, 51 },   { 24, 17, 512 },
        { 40, 65, 513 },  { 17, 35, 1100 }, { 16, 1041, 35 }, { 300, 200, 129 },
        { 16, 513, 515 }, { 15, 64, 64 },   { 64, 15, 64 },   { 64, 64, 31 },
    };
    ck_assert(rg_set_float32_matmul_precision("medium"));
    for (int s = 0; s < RG_COUNT(sizes); s++)
        for (int layouts = 0; layouts < 16; layouts += rg_emulated() ? 5 : 1)
            check_product(sizes[s][0], sizes[s][1], sizes[s][2], layouts / 4, layouts % 4,
                          layouts % 3 ? 1 : -0.5, layouts % 5 ? 0 : 3);
}
END_TEST

/* "highest" and "high" give the products of float32. A product has the same bits in a batch as
 * alone. An infinity in an operand makes infinity or NaN, as in float32. */
START_TEST(test_batches) {
    RG_SCOPE();
    rg_tensor *a = rg_randn(3, 40, 70), *b = rg_randn(3, 70, 50), *y[3];
    ((float *)a->data)[5] = INFINITY;
    ((float *)b->data)[5 * 50 + 1] = 0;
    ((float *)b->data)[70 * 50] = NAN;
    static const char *const names[] = { "highest", "high", "medium" };
    for (int i = 0; i < RG_COUNT(names); i++) {
        y[i] = rg_empty(3, 40, 50);
        ck_assert(rg_set_float32_matmul_precision(names[i]) && k_matmul(y[i], a, b));
    }
    ck_assert(memcmp(y[0]->data, y[1]->data, 3 * 40 * 50 * 4) == 0);
    ck_assert((memcmp(y[0]->data, y[2]->data, 3 * 40 * 50 * 4) != 0) == k_has_bfloat16());
    for (int64_t i = 0; i < 3; i++) {
        rg_tensor *alone = rg_empty(40, 50);
        ck_assert(k_matmul(alone, rg_from((float *)a->data + i * 40 * 70, 40, 70),
                           rg_from((float *)b->data + i * 70 * 50, 70, 50)));
        ck_assert(memcmp(alone->data, y[2]->data + i * 40 * 50 * 4, 40 * 50 * 4) == 0);
    }
    for (int64_t i = 0; i < y[2]->numel; i++) {
        float v = ((float *)y[2]->data)[i], w = ((float *)y[0]->data)[i];
        ck_assert_msg(isfinite(w) ? fabsf(v - w) < 0.5f : same(v, w), "at %d: %g beside %g", (int)i,
                      v, w);
    }
}
END_TEST

/* Sets the elements of t to numbers that bfloat16 can hold: random ones times 2^exponent, and a
 * quarter of them to zero. */
static void fill_exact(rg_tensor *t, int exponent) {
    float *v = (float *)t->data;
    for (size_t i = 0; i < t->storage->bytes / sizeof *v; i++) {
        uint32_t bits;
        memcpy(&bits, &v[i], sizeof bits);
        v[i] = i % 4 ? ldexpf(from_bits(bits & 0xFFFF0000), exponent) : 0;
    }
}

/* Checks that y is a b + y_before, where each element is a sum in ascending order, in blocks of
 * K_PRODUCT_STEPS terms, each of which is added with one rounding. */
static void check_bits(const rg_tensor *y, const rg_tensor *y_before, const rg_tensor *a,
                       const rg_tensor *b, double beta) {
    const int64_t k = a->size[1];
    for (int64_t i = 0; i < y->size[0]; i++)
        for (int64_t j = 0; j < y->size[1]; j++) {
            float want = beta ? at(y_before, i, j) : 0;
            for (int64_t step = 0; step < k; step += K_PRODUCT_STEPS) {
                float sum = 0;
                for (int64_t l = step; l < RG_MIN(k, step + K_PRODUCT_STEPS); l++)
                    sum = fmaf(at(a, i, l), at(b, l, j), sum);
                want = step || beta ? sum + want : sum;
            }
            ck_assert_msg(same(at(y, i, j), want), "at %d %d: %a, not %a", (int)i, (int)j,
                          at(y, i, j), want);
        }
}

/* Products of numbers that bfloat16 can hold may use its instruction, and have the same bits. */
START_TEST(test_exact) {
    static const int64_t sizes[][3] = {
        /* A row has m, n and k. */
        { 32, 32, 32 },  { 33, 65, 385 }, { 40, 48, 800 },
        { 64, 33, 384 }, { 16, 64, 64 },  { 50, 530, 51 },
    };
    static const int exponents[] = { 0, 3, -20, 50, -63, -75, 70 };
    static const int layouts[] = { 0, 1, 3 };
    for (int s = 0; s < RG_COUNT(sizes); s++)
        for (int e = 0; e < RG_COUNT(exponents) + 3; e++) {
            RG_SCOPE();
            const int64_t m = sizes[s][0], n = sizes[s][1], k = sizes[s][2];
            /* Rows are left out at the end, so that a transposed matrix isn't dense. */
            rg_tensor *a = grid(m + 3, k, layouts[(s + e) % 3]);
            rg_tensor *b = grid(k + 3, n, layouts[(s + e) / 3 % 3]);
            a->size[0] = m;
            b->size[0] = k;
            rgi_update_flags(a);
            rgi_update_flags(b);
            rg_tensor *y = rg_randn(m, n), *before = rg_empty(m, n);
            const double beta = e % 2;
            rgi_copy_elements(before, y);
            fill_exact(a, exponents[e % RG_COUNT(exponents)]);
            fill_exact(b, exponents[e % RG_COUNT(exponents)]);
            if (e >= RG_COUNT(exponents))
                *(float *)rg_data(a) = (float[]){ 0x1p-130f, NAN, INFINITY }[e % 3];
            ck_assert(k_matmul_with(y, NULL, a, false, b, false, 1, beta));
            check_bits(y, before, a, b, beta);
        }
}
END_TEST

/* Returns a copy of t, which has a gap of NaN after each row. */
static rg_tensor *with_gaps(const rg_tensor *t) {
    rg_tensor *wide = rg_full_like(rg_empty(t->size[0], t->size[1] + 5), NAN);
    wide->size[1] = t->size[1];
    rgi_update_flags(wide);
    rgi_copy_elements(wide, t);
    return wide;
}

/* Sums are exact in bfloat16's products if none of them can be subnormal or infinite. Below, each
 * sum is 2^(exponent_a + exponent_b - 14), the least that there is beside these exponents. */
START_TEST(test_limits_of_exact) {
    enum { M = 33, N = 34, K = 40 };
    static const struct {
        int exponent_a, exponent_b;
        float other; /* The last element of b. */
        bool exact;
    } rows[] = {
        { 0, 0, 0, true },           { 0, 0, 0x1.02p0f, true },    { 0, 0, 0x1.01p0f, false },
        { -56, -56, 0, true },       { -57, -56, 0, false },       { -56, -57, 0, false },
        { 10, -126, 0, false },      { 63, 56, 0, true },          { 63, 57, 0, false },
        { -20, 0, INFINITY, false }, { 0, 0, NAN, false },         { 100, 0, 0x1p-127f, false },
        { 100, 0, 0x1p-126f, true }, { 100, 0, -0x1p-126f, true },
    };
    for (int i = 0; i < RG_COUNT(rows); i++) {
        RG_SCOPE();
        rg_tensor *a = rg_zeros(M, K), *b = rg_zeros(K, N), *y = rg_empty(M, N);
        const k_product_sizes z = { .m = M, .n = N, .k = K };
        ck_assert_int_eq(k_bfloat16_is_exact(&z, a, b), k_has_bfloat16());
        for (int j = 0; j < M; j++) {
            ((float *)a->data)[j * K] = ldexpf(1 + 0x1p-7f, rows[i].exponent_a);
            ((float *)a->data)[j * K + 1] = ldexpf(1, rows[i].exponent_a);
        }
        for (int j = 0; j < N; j++) {
            ((float *)b->data)[j] = ldexpf(1 + 0x1p-7f, rows[i].exponent_b);
            ((float *)b->data)[N + j] = ldexpf(-1 - 0x1p-6f, rows[i].exponent_b);
        }
        ((float *)b->data)[K * N - 1] = rows[i].other;
        ck_assert(k_matmul(y, a, b));
        check_bits(y, y, a, b, 0);
        const k_product_sizes turned = { .m = N, .n = M, .k = K };
        const bool exact = rows[i].exact && k_has_bfloat16();
        for (int gaps = 0; gaps < 4; gaps++) {
            const rg_tensor *x = gaps & 1 ? with_gaps(a) : a, *w = gaps & 2 ? with_gaps(b) : b;
            const rg_tensor x_turned = k_turned(x), w_turned = k_turned(w);
            ck_assert_msg(k_bfloat16_is_exact(&z, x, w) == exact, "row %d, gaps %d", i, gaps);
            ck_assert_msg(k_bfloat16_is_exact(&turned, &w_turned, &x_turned) == exact,
                          "row %d turned, gaps %d", i, gaps);
        }
    }
}
END_TEST

RG_TESTS_UNGUARDED(bfloat16, test_names, test_rounding, test_products, test_batches, test_exact,
                   test_limits_of_exact)
