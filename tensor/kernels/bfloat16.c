/*
 * bfloat16.c: products of float32 matrices, computed with the processor's instruction for bfloat16,
 * which adds two products at once. The elements are rounded to bfloat16 when they are packed; the
 * sums are in float32. rg_set_float32_matmul_precision("medium") enables such products if the
 * processor has the instruction. Each element of y is a sum of k terms, which are added in
 * ascending order, whatever the sizes m and n of y are. loops/bfloat16.h packs panels and computes
 * tiles.
 */
#include "exchange.h"
#include "kernels.h"

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

/* Returns the size in bytes of a worker's scratch memory. It holds one panel (see loops/bfloat16.h)
 * of BF_LANES rows of the product's first matrix, and at most `columns` columns of the second one.
 * Returns 0 if the product must be computed in float32 instead: if the precision isn't "medium" and
 * of_bfloat16 is false, if k_has_bfloat16 returns false, if the rows of y aren't contiguous, or if
 * the product is so thin that packing doesn't pay. */
size_t k_bfloat16_room(const k_product_sizes *z, int64_t columns, bool of_bfloat16) {
    const bool thin = z->m < 16 || z->n < 16 || z->k < 32 || z->y_col != 1;
    const bool asked = of_bfloat16 || matmul_precision == MATMUL_MEDIUM;
    if (thin || !asked || !k_has_bfloat16())
        return 0;
    const int64_t panels = (RG_MIN(columns, BF_NC) - 1) / BF_LANES + 2;
    const int64_t pairs = (RG_MIN(z->k, BF_KC) + 1) / 2;
    return (size_t)(panels * pairs) * sizeof(bf_pairs);
}

/* Computes y += alpha * a b for one block: at most BF_NC columns of y and b, beginning at `column`,
 * and at most BF_KC terms of each sum, beginning at term `step`. If `step` is 0, computes
 * y = alpha * a b + beta * c instead. */
static void bfloat16_block(const k_product_sizes *z, float *y, const float *c, const float *a,
                           const float *b, float alpha, float beta, bf_pairs *room, int64_t column,
                           int64_t step) {
    const int64_t n = RG_MIN(z->n - column, BF_NC);
    const int64_t k = RG_MIN(z->k - step, BF_KC);
    const int64_t pairs = (k + 1) / 2;
    const bool first = step == 0;
    bf_pairs *packed_a = room;
    bf_pairs *packed_b = packed_a + pairs;
    bf_pack(packed_b, b + column * z->b_col + step * z->b_row, n, k, z->b_col, z->b_row);
    for (int64_t i = 0; i < z->m; i += BF_LANES) {
        const int64_t m = RG_MIN(z->m - i, BF_LANES);
        float *to = y + i * z->y_row + column;
        const bf_place place = { .y = to,
                                 .c = first ? c + i * z->c_row + column : to,
                                 .y_row = z->y_row,
                                 .c_row = first ? z->c_row : z->y_row,
                                 .alpha = alpha,
                                 .beta = first ? beta : 1 };
        bf_pack(packed_a, a + i * z->a_row + step * z->a_col, m, k, z->a_row, z->a_col);
        bf_rows(place, packed_a, packed_b, m, n, pairs);
    }
}

void k_bfloat16_product(const k_product_sizes *z, void *y, const void *c, const void *a,
                        const void *b, double alpha, double beta, void *room) {
    for (int64_t column = 0; column < z->n; column += BF_NC)
        for (int64_t step = 0; step < z->k; step += BF_KC)
            bfloat16_block(z, y, c, a, b, (float)alpha, (float)beta, room, column, step);
}
#else
bool k_has_bfloat16(void) { return false; }

/* Returns 0, which means that float32 products are computed in float32: this processor architecture
 * has no instruction for bfloat16. */
size_t k_bfloat16_room(const k_product_sizes *z, int64_t columns, bool of_bfloat16) {
    (void)z;
    (void)columns;
    (void)of_bfloat16;
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
