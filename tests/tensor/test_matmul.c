/*
 * test_matmul.c: compares products of matrices with sums that the test writes out, for sizes around
 * every block and tile, and for any strides. The numbers are whole, so the order of summing makes
 * no difference.
 */
#include "tests/test.h"
#include "tensor/scope.h"
#include "tensor/shape.h"
#include "tensor/storage.h"
#include "tensor/kernels/kernels.h"

#include <math.h>

/* Returns a matrix of small whole numbers. `layout` 0 is contiguous, 1 is transposed, 2 takes every
 * other element, and 3 repeats one row. */
static rg_tensor *grid(rg_dtype dtype, int64_t rows, int64_t columns, int layout, uint32_t seed) {
    bool turned = layout == 1;
    int64_t step = layout == 2 ? 2 : 1;
    int64_t size[] = { turned ? columns : rows, (turned ? rows : columns) * step };
    rg_tensor *t = rgi_own(rgi_new(dtype, 2, size));
    for (int64_t i = 0; i < t->numel; i++) {
        seed = seed * 1664525u + 1013904223u;
        rgi_store_i64(t->data + i * (int64_t)rgi_sizeof(dtype), dtype,
                      (int64_t)(seed >> 24) % 7 - 3);
    }
    t->size[0] = rows;
    t->size[1] = columns;
    t->stride[0] = turned ? 1 : columns * step;
    if (layout == 3)
        t->stride[0] = 0;
    t->stride[1] = turned ? rows : step;
    rgi_update_flags(t);
    return t;
}

static int64_t at(const rg_tensor *t, int64_t i, int64_t j) {
    int64_t place = i * t->stride[0] + j * t->stride[1];
    return rgi_load_i64(t->data + place * (int64_t)rgi_sizeof(t->dtype), (rg_dtype)t->dtype);
}

/* Returns how many elements apart those are that a product is checked at. */
static int64_t apart_in(const int64_t size[3]) {
    const int64_t steps = size[0] * size[1] * size[2];
    if (steps > 1 << 21)
        return 211;
    return rg_slow() && steps > 1 << 14 ? 37 : 1;
}

/* Checks elements of y = alpha a b + beta y. With a bias, the last term is beta times the bias, a
 * row, in place of beta y. */
static void check_product(rg_dtype dtype, const int64_t size[3], int layout_a, int layout_b,
                          int layout_y, bool bias, double alpha, double beta) {
    RG_SCOPE();
    const int64_t m = size[0], n = size[1], k = size[2], apart = apart_in(size);
    if (apart == 211 && rg_emulated())
        return;
    rg_tensor *a = grid(dtype, m, k, layout_a, 1), *b = grid(dtype, k, n, layout_b, 2);
    rg_tensor *y = grid(dtype, m, n, layout_y, 3);
    rg_tensor *c = grid(dtype, bias ? 1 : m, n, bias ? 0 : layout_y, 3);
    rg_tensor row = *c;
    row.ndim = 1;
    row.size[0] = n;
    row.stride[0] = 1;
    /* If beta is 0, y must not be read. */
    if (beta == 0 && rgi_is_float(dtype))
        rgi_fill_number(y, NAN, 0);
    ck_assert(k_matmul_with(y, bias ? &row : NULL, a, false, b, false, alpha, beta));
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = i % apart; j < n; j += apart) {
            int64_t sum = (int64_t)beta * at(c, bias ? 0 : i, j);
            for (int64_t l = 0; l < k; l++)
                sum += (int64_t)alpha * at(a, i, l) * at(b, l, j);
            ck_each(at(y, i, j) == sum,
                    "%s (%lld,%lld) (%lld,%lld), layouts %d %d, at %lld %lld: %lld, not %lld",
                    rg_dtype_name(dtype), (long long)m, (long long)k, (long long)k, (long long)n,
                    layout_a, layout_b, (long long)i, (long long)j, (long long)at(y, i, j),
                    (long long)sum);
        }
}

START_TEST(test_products) {
    static const int64_t sizes[][3] = {
        /* A row has m, n and k. */
        { 1, 1, 1 },       { 2, 3, 4 },      { 1, 40, 70 },    { 40, 1, 70 },   { 4, 33, 65 },
        { 5, 33, 65 },     { 17, 31, 64 },   { 16, 100, 130 }, { 7, 15, 16 },   { 8, 16, 9 },
        { 9, 17, 33 },     { 97, 65, 20 },   { 6, 48, 257 },   { 193, 5, 31 },  { 13, 1540, 3 },
        { 200, 33, 300 },  { 3, 5, 0 },      { 50, 60, 0 },    { 0, 5, 3 },     { 5, 0, 3 },
        { 131, 520, 390 }, { 270, 40, 390 }, { 12, 600, 390 }, { 20, 40, 770 },
    };
    int threads = rg_get_num_threads();
    /* Several threads would divide a wide product into narrow ones. test_parallel.c compares
     * those. */
    ck_ok(rg_set_num_threads(1));
    for (int dtype = RG_INT64; dtype <= RG_FLOAT64; dtype++)
        for (int s = 0; s < RG_COUNT(sizes); s++)
            for (int layouts = 0; layouts < 16; layouts++)
                check_product((rg_dtype)dtype, sizes[s], layouts / 4, layouts % 4, layouts % 7 / 5,
                              layouts % 2, layouts % 3 ? 1 : -2, layouts % 5 ? 0 : 3);
    rg_set_num_threads(threads);
}
END_TEST

/* One operand may have the same matrix for a whole batch. If b has no batch, the rows of a's batch
 * form one matrix. */
START_TEST(test_batches) {
    static const int64_t cases[][4] = {
        /* A row has the two batch sizes of a, and those of b. */
        { 3, 4, 3, 4 }, { 3, 1, 1, 4 }, { 1, 1, 3, 4 }, { 3, 4, 1, 1 }, { 1, 4, 3, 1 },
    };
    for (int k = 0; k < RG_COUNT(cases); k++) {
        RG_SCOPE();
        const int64_t *c = cases[k];
        rg_tensor *a = rg_zeros_dims(RG_DIMS(c[0], c[1], 5, 6), RG_FLOAT64);
        rg_tensor *b = rg_zeros_dims(RG_DIMS(c[2], c[3], 6, 7), RG_FLOAT64);
        rg_tensor *y = rg_zeros_dims(RG_DIMS(3, 4, 5, 7), RG_FLOAT64);
        for (int64_t i = 0; i < a->numel; i++)
            ((double *)a->data)[i] = (double)(i % 11 - 5);
        for (int64_t i = 0; i < b->numel; i++)
            ((double *)b->data)[i] = (double)(i % 13 - 6);
        ck_assert(k_matmul(y, a, b));
        for (int64_t i = 0; i < 3; i++)
            for (int64_t j = 0; j < 4; j++)
                for (int64_t r = 0; r < 5; r++)
                    for (int64_t s = 0; s < 7; s++) {
                        const double *pa = (double *)a->data + ((i % c[0]) * c[1] + j % c[1]) * 30;
                        const double *pb = (double *)b->data + ((i % c[2]) * c[3] + j % c[3]) * 42;
                        double sum = 0;
                        for (int l = 0; l < 6; l++)
                            sum += pa[r * 6 + l] * pb[l * 7 + s];
                        ck_assert_double_eq(((double *)y->data)[((i * 4 + j) * 5 + r) * 7 + s],
                                            sum);
                    }
    }
}
END_TEST

/* -1 times the sum of zeros is -0, or 0 if it is added to 0, in all tiles of a product, also those
 * at its edges. */
START_TEST(test_signs_of_zeros) {
    static const int64_t sizes[] = { 1, 2, 7, 16, 37, 65 };
    for (int s = 0; s < RG_COUNT(sizes) * RG_COUNT(sizes); s++)
        for (int k = 3; k < 50; k += 40) {
            RG_SCOPE();
            const int64_t m = sizes[s / RG_COUNT(sizes)], n = sizes[s % RG_COUNT(sizes)];
            rg_tensor *a = rg_zeros(m, k), *b = rg_zeros(k, n), *y = rg_empty(m, n);
            ck_assert(k_matmul_with(y, NULL, a, false, b, false, -1, 0));
            const float *v = (const float *)y->data;
            for (int64_t i = 0; i < y->numel; i++)
                ck_assert_msg(v[i] == 0 && !signbit(v[i]) == !signbit(v[0]), "(%d,%d) at %d: %g",
                              (int)m, (int)n, (int)i, v[i]);
        }
}
END_TEST

RG_TESTS(matmul, test_products, test_batches, test_signs_of_zeros)
