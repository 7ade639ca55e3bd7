/*
 * loops/bfloat16.h: products of float32 matrices that are rounded to bfloat16, written in the
 * intrinsics of AVX-512 and its extension for bfloat16. No set of sets.h includes this extension,
 * and no other loop needs it. So these functions aren't compiled for each set, but once, with an
 * attribute (BF_TARGET) that enables the extension.
 *
 * A line is a row of `a` or a column of `b`. A step is an index along k, the dim that is summed.
 * Two consecutive steps are a pair: one instruction adds the products of both steps to a sum. Lines
 * are packed into panels of BF_LANES lines and at most BF_KC steps. A panel of `a` is multiplied
 * with up to BF_NC columns of `b`, which fit into the L2 cache. The product is computed in tiles of
 * BF_ROWS rows and two panels of columns.
 */
#include "../exchange.h"

enum { BF_LANES = 16, BF_KC = 256, BF_NC = 1024, BF_ROWS = 8 };

#define BF_TARGET __attribute__((target("avx2,fma,avx512f,avx512dq,avx512bw,avx512vl,avx512bf16")))
#define BF_INLINE static inline __attribute__((always_inline)) BF_TARGET

/* A vector with one pair for each line of a panel: the line's elements at two consecutive steps. */
typedef k_lanes bf_pairs;

/* Returns a vector of the n elements p[0], p[step], p[2 * step], .., filled up with zeros. If n is
 * more than BF_LANES, only the first BF_LANES elements are loaded. If n is negative, all lanes are
 * 0. */
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

/* Packs one panel of lines. The lines are `line` elements apart, and the steps of a line are `step`
 * elements apart. For each pair, the elements of all lines at its first step are loaded as one
 * vector, and those at its second step as another. The two vectors are then interleaved. The first
 * step becomes the upper half of each pair, since the instruction adds the product of the upper
 * halves first. */
BF_INLINE void bf_pack_across(bf_pairs *to, const float *x, int64_t lines, int64_t k, int64_t line,
                              int64_t step) {
    const __m512i halves = _mm512_set_epi16(15, 31, 14, 30, 13, 29, 12, 28, 11, 27, 10, 26, 9, 25,
                                            8, 24, 7, 23, 6, 22, 5, 21, 4, 20, 3, 19, 2, 18, 1, 17,
                                            0, 16);
    for (int64_t l = 0; l < k; l += 2) {
        const float *p = x + l * step;
        const __m512 first = bf_load(p, lines, line);
        const __m512 second = bf_load(p + step, l + 1 < k ? lines : 0, line);
        const __m512i both = (__m512i)_mm512_cvtne2ps_pbh(second, first);
        to[l / 2] = (bf_pairs)_mm512_permutexvar_epi16(halves, both);
    }
}

/* Packs one panel of lines whose steps are contiguous: reads sixteen pairs of each line at a time,
 * and transposes them. */
BF_INLINE void bf_pack_along(bf_pairs *to, const float *x, int64_t lines, int64_t k, int64_t line) {
    for (int64_t l = 0; l < k; l += 2 * BF_LANES) {
        bf_pairs v[BF_LANES];
        for (int i = 0; i < BF_LANES; i++) {
            const int64_t here = i < lines ? k - l : 0;
            const float *p = x + i * line + l;
            const __m512 first = bf_load(p, here, 1);
            const __m512 second = bf_load(p + BF_LANES, here - BF_LANES, 1);
            const __m512i both = (__m512i)_mm512_cvtne2ps_pbh(second, first);
            v[i] = (bf_pairs)_mm512_rol_epi32(both, 16);
        }
        k_transpose(v);
        for (int64_t i = 0; i < RG_MIN((k - l + 1) / 2, BF_LANES); i++)
            to[l / 2 + i] = v[i];
    }
}

/* Packs lines into panels. Lines are `line` elements apart, and the steps of a line are `step`
 * elements apart. Panels are filled up with zeros beyond the last line and the last step. */
BF_TARGET static void bf_pack(bf_pairs *to, const float *x, int64_t lines, int64_t k, int64_t line,
                              int64_t step) {
    for (; lines > 0; lines -= BF_LANES) {
        if (step == 1)
            bf_pack_along(to, x, lines, k, line);
        else
            bf_pack_across(to, x, lines, k, line, step);
        x += BF_LANES * line;
        to += (k + 1) / 2;
    }
}

/* The addresses of a tile in y and in c, the row strides of y and c in elements, and the factors in
 * y = alpha * a b + beta * c. */
typedef struct {
    float *y;
    const float *c;
    int64_t y_row, c_row;
    float alpha, beta;
} bf_place;

/* Writes alpha * sum + beta * c to row i of a tile, from column j on. `sum` is a vector with a lane
 * for each column; lanes beyond the tile's n columns aren't written. */
BF_INLINE void bf_write(const bf_place *to, int64_t i, int64_t j, int64_t n, __m512 sum) {
    const __mmask16 here = (__mmask16)((1 << RG_MIN(n - j, BF_LANES)) - 1);
    __m512 v = sum * to->alpha;
    if (to->beta != 0)
        v += _mm512_maskz_loadu_ps(here, to->c + i * to->c_row + j) * to->beta;
    _mm512_mask_storeu_ps(to->y + i * to->y_row + j, here, v);
}

/* Computes a tile of BF_ROWS rows and of the columns in `panels` panels of b. Only the first m rows
 * and n columns of the tile are written to y. The pragmas are needed because GCC would otherwise
 * keep the sums in memory. */
BF_INLINE void bf_tile(const bf_place *to, const int32_t *a, const bf_pairs *b, int64_t m,
                       int64_t n, int64_t pairs, const int panels) {
    __m512 sum[BF_ROWS][2];
#pragma GCC unroll 8
    for (int i = 0; i < BF_ROWS; i++)
        for (int p = 0; p < panels; p++)
            sum[i][p] = _mm512_setzero_ps();
    for (int64_t l = 0; l < pairs; l++) {
#pragma GCC unroll 8
        for (int i = 0; i < BF_ROWS; i++)
            for (int p = 0; p < panels; p++)
                sum[i][p] = _mm512_dpbf16_ps(sum[i][p], (__m512bh)_mm512_set1_epi32(a[i]),
                                             (__m512bh)b[p * pairs + l]);
        a += BF_LANES;
    }
#pragma GCC unroll 8
    for (int i = 0; i < BF_ROWS; i++)
        for (int p = 0; p < panels; p++)
            if (i < m)
                bf_write(to, i, p * BF_LANES, n, sum[i][p]);
}

/* Computes m rows and n columns of y. `a` is one packed panel with the m rows, and `b` has the n
 * columns in packed panels. */
BF_TARGET static void bf_rows(bf_place to, const bf_pairs *a, const bf_pairs *b, int64_t m,
                              int64_t n, int64_t pairs) {
    for (int64_t j = 0; j < n; j += 2 * BF_LANES) {
        const bf_pairs *columns = b + j / BF_LANES * pairs;
        for (int64_t i = 0; i < m; i += BF_ROWS) {
            const int32_t *rows = (const int32_t *)a + i;
            bf_place tile = to;
            tile.y += i * to.y_row + j;
            tile.c += i * to.c_row + j;
            if (n - j > BF_LANES)
                bf_tile(&tile, rows, columns, m - i, n - j, pairs, 2);
            else
                bf_tile(&tile, rows, columns, m - i, n - j, pairs, 1);
        }
    }
}
