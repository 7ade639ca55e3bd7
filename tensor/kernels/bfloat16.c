/*
 * bfloat16.c: products of float32 matrices that are rounded to bfloat16 as they are packed and
 * summed in float32, which rg_set_float32_matmul_precision("medium") asks for, where the processor
 * has an instruction for it: of two steps of k. Every element is a sum over k in rising order,
 * whatever the sizes of the rest.
 */
#include "kernels.h"

static const char *const matmul_precisions[] = { "highest", "high", "medium" };
static atomic_int matmul_precision;

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

#ifdef __x86_64__
#include "exchange.h"

/* A panel is LANES lines, which are rows of a or columns of b, with KC steps at most, two to a
 * pair. A panel of a meets NC columns of b, which stay in L2, in tiles of MR rows and two panels.
 */
enum { BF_LANES = 16, BF_KC = 256, BF_NC = 1024, BF_MR = 8 };

#define BF        __attribute__((target("avx2,fma,avx512f,avx512dq,avx512bw,avx512vl,avx512bf16")))
#define BF_INLINE static inline __attribute__((always_inline)) BF
typedef k_lanes bf_pairs;

/* n elements, `step` apart, as a vector that is filled up with zeros. */
BF_INLINE __m512 bf_load(const float *p, int64_t n, int64_t step) {
    if (step == 1 && n >= BF_LANES)
        return _mm512_loadu_ps(p);
    if (step == 1)
        return _mm512_maskz_loadu_ps((__mmask16)((1 << RG_MAX(n, 0)) - 1), p);
    float v[BF_LANES] = { 0 };
    for (int64_t i = 0; i < RG_MIN(n, BF_LANES); i++)
        v[i] = p[i * step];
    return _mm512_loadu_ps(v);
}

/* Panels of lines that lie `line` apart, and their steps `step`; zeros beyond the last line and the
 * last step. The first of two steps is a pair's upper half, whose product the instruction adds
 * first. */
BF static void bf_pack(bf_pairs *to, const float *x, int64_t lines, int64_t k, int64_t line,
                       int64_t step) {
    const __m512i halves = _mm512_set_epi16(15, 31, 14, 30, 13, 29, 12, 28, 11, 27, 10, 26, 9, 25,
                                            8, 24, 7, 23, 6, 22, 5, 21, 4, 20, 3, 19, 2, 18, 1, 17,
                                            0, 16);
    for (; lines > 0; lines -= BF_LANES, x += BF_LANES * line, to += (k + 1) / 2) {
        if (step != 1)
            for (int64_t l = 0; l < k; l += 2) {
                const float *p = x + l * step;
                __m512 first = bf_load(p, lines, line),
                       second = bf_load(p + step, l + 1 < k ? lines : 0, line);
                to[l / 2] = (bf_pairs)_mm512_permutexvar_epi16(
                    halves, (__m512i)_mm512_cvtne2ps_pbh(second, first));
            }
        else
            for (int64_t l = 0; l < k; l += 2 * BF_LANES) {
                bf_pairs v[BF_LANES];
                for (int i = 0; i < BF_LANES; i++) {
                    int64_t here = i < lines ? k - l : 0;
                    const float *p = x + i * line + l;
                    __m512 first = bf_load(p, here, 1),
                           second = bf_load(p + BF_LANES, here - BF_LANES, 1);
                    v[i] = (bf_pairs)_mm512_rol_epi32((__m512i)_mm512_cvtne2ps_pbh(second, first),
                                                      16);
                }
                k_transpose(v);
                for (int64_t i = 0; i < RG_MIN((k - l + 1) / 2, BF_LANES); i++)
                    to[l / 2 + i] = v[i];
            }
    }
}

/* y = alpha a b + beta c, of m rows, up to MR, and n columns, up to those of the panels of b. */
BF_INLINE void bf_tile(float *y, int64_t y_row, const float *c, int64_t c_row, const int32_t *a,
                       const bf_pairs *b, int64_t m, int64_t n, int64_t pairs, float alpha,
                       float beta, const int panels) {
    __m512 sum[BF_MR][2] = { { { 0 } } };
    for (int64_t l = 0; l < pairs; l++, a += BF_LANES)
        for (int i = 0; i < BF_MR; i++)
            for (int p = 0; p < panels; p++)
                sum[i][p] = _mm512_dpbf16_ps(sum[i][p], (__m512bh)_mm512_set1_epi32(a[i]),
                                             (__m512bh)b[p * pairs + l]);
    for (int i = 0; i < BF_MR; i++)
        for (int p = 0; p < panels && i < m; p++) {
            __mmask16 here = (__mmask16)((1 << RG_MIN(n - p * BF_LANES, BF_LANES)) - 1);
            __m512 v = sum[i][p] * alpha;
            if (beta != 0)
                v += _mm512_maskz_loadu_ps(here, c + i * c_row + p * BF_LANES) * beta;
            _mm512_mask_storeu_ps(y + i * y_row + p * BF_LANES, here, v);
        }
}

/* For a panel of a and the columns of b. Thin products don't pay for the packing. */
size_t k_bfloat16_room(const k_product_sizes *z, int64_t columns) {
    bool thin = z->m < 16 || z->n < 16 || z->k < 32 || z->y_col != 1;
    if (thin || matmul_precision != 2 || !__builtin_cpu_supports("avx512bf16"))
        return 0;
    int64_t panels = (RG_MIN(columns, BF_NC) - 1) / BF_LANES + 2,
            pairs = (RG_MIN(z->k, BF_KC) + 1) / 2;
    return (size_t)(panels * pairs) * sizeof(bf_pairs);
}

BF void k_bfloat16_product(const k_product_sizes *z, void *y, const void *c, const void *a,
                           const void *b, double alpha, double beta, void *room) {
    for (int64_t jc = 0; jc < z->n; jc += BF_NC)
        for (int64_t lc = 0; lc < z->k; lc += BF_KC) {
            int64_t n = RG_MIN(z->n - jc, BF_NC), k = RG_MIN(z->k - lc, BF_KC), pairs = (k + 1) / 2;
            bf_pairs *pa = room, *pb = pa + pairs;
            bf_pack(pb, (const float *)b + jc * z->b_col + lc * z->b_row, n, k, z->b_col, z->b_row);
            for (int64_t ic = 0; ic < z->m; ic += BF_LANES) {
                int64_t m = RG_MIN(z->m - ic, BF_LANES);
                bf_pack(pa, (const float *)a + ic * z->a_row + lc * z->a_col, m, k, z->a_row,
                        z->a_col);
                for (int64_t j = 0; j < n; j += 2 * BF_LANES)
                    for (int64_t i = 0; i < m; i += BF_MR) {
                        float *to = (float *)y + (ic + i) * z->y_row + jc + j,
                              more = lc ? 1 : (float)beta;
                        const float *add = lc ? to
                                              : (const float *)c + (ic + i) * z->c_row + jc + j;
                        const int32_t *rows = (const int32_t *)pa + i;
                        const bf_pairs *columns = pb + j / BF_LANES * pairs;
                        bool both = n - j > BF_LANES;
                        if (both)
                            bf_tile(to, z->y_row, add, lc ? z->y_row : z->c_row, rows, columns,
                                    m - i, n - j, pairs, (float)alpha, more, 2);
                        else
                            bf_tile(to, z->y_row, add, lc ? z->y_row : z->c_row, rows, columns,
                                    m - i, n - j, pairs, (float)alpha, more, 1);
                    }
            }
        }
}
#else
size_t k_bfloat16_room(const k_product_sizes *z, int64_t columns) { return z && columns && false; }
void k_bfloat16_product(const k_product_sizes *z, void *y, const void *c, const void *a,
                        const void *b, double alpha, double beta, void *room) {
    (void)z, (void)y, (void)c, (void)a, (void)b, (void)alpha, (void)beta, (void)room;
}
#endif
