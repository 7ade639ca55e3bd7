/*
 * bfloat16.c: products of float32 matrices, computed with the processor's instruction for bfloat16,
 * which adds two products at once. The elements are rounded to bfloat16 when they are packed; the
 * sums are in float32. Each element of y is a sum of k terms, which are added in ascending order,
 * whatever the sizes m and n of y are. loops/bfloat16.h packs panels and computes tiles.
 *
 * Such products are used in two cases. If bfloat16 can hold the factors exactly, as in modules of
 * this dtype, the sums have the same bits as in float32: the instruction adds one product after the
 * other, and rounds each sum. It differs only in subnormal numbers, which it takes for zeros. And
 * rg_set_float32_matmul_precision("medium") enables such products of any matrices.
 */
#include "exchange.h"
#include "kernels.h"
#include "tensor/shape.h"
#include "tensor/walk.h"

enum { MATMUL_HIGHEST, MATMUL_HIGH, MATMUL_MEDIUM };
static const char *const matmul_precisions[] = { "highest", "high", "medium" };
static atomic_int matmul_precision = MATMUL_HIGHEST;

const char *rg_get_float32_matmul_precision(void) { return matmul_precisions[matmul_precision]; }

bool rg_set_float32_matmul_precision(const char *precision) {
    static const char op[] = "set_float32_matmul_precision";
    int i = 0;
    RG_FAIL_IF(!precision, op, "%s expects a str, but got NoneType", op);
    while (i < RG_COUNT(matmul_precisions) && strcmp(precision, matmul_precisions[i]))
        i++;
    RG_FAIL_IF(i == RG_COUNT(matmul_precisions), op,
               "%s is not one of 'highest', 'high', or 'medium'; the current"
               "setFloat32MatmulPrecision call has no effect.",
               precision);
    matmul_precision = i;
    return true;
}

#ifdef K_X86
#include "loops/bfloat16.h"

bool k_has_bfloat16(void) {
    return k_set_now() == K_AVX512 && __builtin_cpu_supports("avx512bf16");
}

/* A range that grows row by row, and whether bfloat16 can hold all elements that were read. */
typedef struct {
    bf_range *range;
    bool *exact;
} bfloat16_look;

static void bfloat16_extend_row(char *const p[], const int64_t step[], int64_t n,
                                const void *context) {
    const bfloat16_look *look = context;
    const bool contiguous = step[0] == sizeof(float);
    /* If the step is 0, the row repeats one element. */
    *look->exact = *look->exact && (contiguous || step[0] == 0)
                   && bf_extend(look->range, (const float *)(const void *)p[0], contiguous ? n : 1);
}

/* Extends *r by the elements of t. Returns false if bfloat16 can't hold one of them exactly, or if
 * no dim of t is contiguous. */
static bool bfloat16_extend(bf_range *r, const rg_tensor *t) {
    rg_tensor x = rgi_header_of(t);
    rg_walk w;
    /* The first element of most float32 matrices tells that they aren't exact. */
    bool exact = bf_extend(r, (const float *)(const void *)x.data, 1);
    if (!exact)
        return false;
    rgi_walk_make(&w, 1, (rg_tensor *[]){ &x }, true);
    rgi_walk_run(&w, bfloat16_extend_row, &(bfloat16_look){ r, &exact });
    return exact;
}

bool k_bfloat16_is_exact(const k_product_sizes *z, const rg_tensor *a, const rg_tensor *b) {
    bf_range x = bf_no_range, y = bf_no_range;
    if (z->m < 32 || z->n < 32 || z->k < 32 || !k_has_bfloat16() || !bfloat16_extend(&x, a)
        || !bfloat16_extend(&y, b) || !bf_is_normal(&x) || !bf_is_normal(&y))
        return false;
    /* Each product, and therefore each sum, is a multiple of 2^least, and less than 2^greatest. */
    const int least = bf_exponent(x.least) + bf_exponent(y.least) - 2 * BF_FRACTION;
    const int greatest = bf_exponent(x.greatest) + bf_exponent(y.greatest) + 2
                         + (64 - __builtin_clzll((uint64_t)z->k));
    return least > -BF_BIAS && greatest <= BF_BIAS;
}

/* Returns the size in bytes of a worker's scratch memory. It holds one panel (see loops/bfloat16.h)
 * of BF_LANES rows of the product's first matrix, and at most `columns` columns of the second one.
 * Returns 0 if the product must be computed in float32 instead: if the precision isn't "medium" and
 * `exact` is false, if k_has_bfloat16 returns false, if the rows of y aren't contiguous, or if
 * the product is so thin that packing doesn't pay. */
size_t k_bfloat16_room(const k_product_sizes *z, int64_t columns, bool exact) {
    const bool thin = z->m < 16 || z->n < 16 || z->k < 32 || z->y_col != 1;
    const bool asked = exact || matmul_precision == MATMUL_MEDIUM;
    if (thin || !asked || !k_has_bfloat16())
        return 0;
    const int64_t k = RG_MIN(z->k, BF_KC);
    const int64_t panels = (RG_MIN(columns, BF_NC) - 1) / BF_LANES + 1;
    return (size_t)(BF_LANES * bf_row_vectors(k) + panels * ((k + 1) / 2)) * sizeof(bf_pairs);
}

/* The product y = alpha * a b + beta * c, and the scratch memory. */
typedef struct {
    const k_product_sizes *z;
    float *y;
    const float *c, *a, *b;
    float alpha, beta;
    bf_pairs *room;
} bf_product;

/* Returns the place of the tile whose first element is y[row][column]. In the first block of steps,
 * a tile adds beta * c to its sums. In later blocks it adds y. */
static bf_place bfloat16_place(const bf_product *p, int64_t row, int64_t column, bool first) {
    const k_product_sizes *z = p->z;
    bf_place to = {
        .y = p->y + row * z->y_row + column,
        .y_row = z->y_row,
        .c_row = first ? z->c_row : z->y_row,
        .alpha = p->alpha,
        .beta = first ? p->beta : 1,
    };
    to.c = first ? p->c + row * z->c_row + column : to.y;
    return to;
}

/* Packs the k steps from `step` on of at most BF_LANES rows, from `row` on, and returns the panel.
 * Sets *ahead to the rows after them. */
static bf_panel bfloat16_pack_a(const bf_product *p, int64_t row, int64_t step, int64_t k,
                                bf_ahead *ahead) {
    const k_product_sizes *z = p->z;
    const float *x = p->a + row * z->a_row + step * z->a_col;
    const int64_t rows = RG_MIN(z->m - row, BF_LANES);
    const bool along = z->a_col == 1;
    if (along)
        bf_pack_rows(p->room, x, rows, k, z->a_row);
    else
        bf_pack(p->room, x, rows, k, z->a_row, z->a_col);
    const bool last = row + BF_LANES >= z->m;
    ahead->p = last ? x : x + BF_LANES * z->a_row;
    ahead->step = last ? 0 : along ? 2 * BF_LANES : z->a_col;
    return (bf_panel){
        .first = (const int32_t *)p->room,
        .row = along ? BF_LANES * bf_row_vectors(k) : 1,
        .pair = along ? 1 : BF_LANES,
    };
}

/* Computes y += alpha * a b for one block: at most BF_NC columns of y and b, beginning at `column`,
 * and at most BF_KC terms of each sum, beginning at term `step`. If `step` is 0, computes
 * y = alpha * a b + beta * c instead. Two panels of b are packed when they are first needed, while
 * the next two are prefetched. */
static void bfloat16_block(const bf_product *p, int64_t column, int64_t step) {
    const k_product_sizes *z = p->z;
    const int64_t n = RG_MIN(z->n - column, BF_NC);
    const int64_t k = RG_MIN(z->k - step, BF_KC);
    const int64_t pairs = (k + 1) / 2;
    const float *b = p->b + column * z->b_col + step * z->b_row;
    bf_pairs *packed_b = p->room + BF_LANES * bf_row_vectors(k);
    for (int64_t i = 0; i < z->m; i += BF_LANES) {
        bf_ahead next_a;
        const bf_panel rows = bfloat16_pack_a(p, i, step, k, &next_a);
        for (int64_t j = 0; j < n; j += 2 * BF_LANES) {
            bf_pairs *columns = packed_b + j / BF_LANES * pairs;
            const float *x = b + j * z->b_col;
            bf_ahead ahead = { x, 0 };
            if (i == 0)
                bf_pack(columns, x, RG_MIN(n - j, 2 * BF_LANES), k, z->b_col, z->b_row);
            /* Each part of a and b is prefetched once: b beside the first rows, and the next rows
             * beside the first columns for which that is possible. */
            if (i == 0 && j + 2 * BF_LANES < n)
                ahead = (bf_ahead){ x + 2 * BF_LANES * z->b_col,
                                    z->b_row == 1 ? 2 * BF_LANES : z->b_row };
            else if (i == 0 || j == 0)
                ahead = next_a;
            bf_rows(bfloat16_place(p, i, column + j, step == 0), rows, columns,
                    RG_MIN(z->m - i, BF_LANES), n - j, pairs, ahead);
        }
    }
}

void k_bfloat16_product(const k_product_sizes *z, void *y, const void *c, const void *a,
                        const void *b, double alpha, double beta, void *room) {
    const bf_product p = { z, y, c, a, b, (float)alpha, (float)beta, room };
    for (int64_t column = 0; column < z->n; column += BF_NC)
        for (int64_t step = 0; step < z->k; step += BF_KC)
            bfloat16_block(&p, column, step);
}
#else
bool k_has_bfloat16(void) { return false; }

bool k_bfloat16_is_exact(const k_product_sizes *z, const rg_tensor *a, const rg_tensor *b) {
    (void)z;
    (void)a;
    (void)b;
    return false;
}

/* Returns 0, which means that float32 products are computed in float32: this processor architecture
 * has no instruction for bfloat16. */
size_t k_bfloat16_room(const k_product_sizes *z, int64_t columns, bool exact) {
    (void)z;
    (void)columns;
    (void)exact;
    return 0;
}

void k_bfloat16_product(const k_product_sizes *z, void *y, const void *c, const void *a,
                        const void *b, double alpha, double beta, void *room) {
    (void)z;
    (void)y;
    (void)c;
    (void)a;
    (void)b;
    (void)alpha;
    (void)beta;
    (void)room;
}
#endif
