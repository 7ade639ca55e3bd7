/*
 * loops/bfloat16.h: products of float32 matrices whose elements are rounded to bfloat16. They are
 * written in the intrinsics of AVX-512 and its extension for bfloat16. No set of sets.h includes
 * this extension, and no other loop needs it. So these functions aren't compiled for each set, but
 * once, with an attribute (BF_TARGET) that enables the extension.
 *
 * A line is a row of `a` or a column of `b`. A step is an index along k, the dim that is summed.
 * Two consecutive steps are a pair: one instruction adds the products of both steps to a sum. Lines
 * are packed into panels of BF_LANES lines and at most BF_KC steps. A panel of `a` is multiplied
 * with up to BF_NC columns of `b`, which fit into the L2 cache. The product is computed in tiles of
 * BF_ROWS rows and two panels of columns. While the sums of a tile are computed, the memory that is
 * read or written next is prefetched.
 */
#include "../exchange.h"

enum { BF_LANES = 16, BF_KC = K_PRODUCT_STEPS, BF_NC = 512, BF_ROWS = 8 };

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

/* Returns a vector of pairs of one line whose steps are contiguous. It holds the n steps at p, or
 * the first 2 * BF_LANES steps if n is greater, and then zeros. The first step becomes the upper
 * half of each pair, since the instruction adds the product of the upper halves first. */
BF_INLINE bf_pairs bf_line(const float *p, int64_t n) {
    const __m512 first = bf_load(p, n, 1);
    const __m512 second = bf_load(p + BF_LANES, n - BF_LANES, 1);
    const __m512i both = (__m512i)_mm512_cvtne2ps_pbh(second, first);
    return (bf_pairs)_mm512_rol_epi32(both, 16);
}

/* Packs one panel of lines. The lines are `line` elements apart, and the steps of a line are `step`
 * elements apart. For each pair, the elements of all lines at its first step are loaded as one
 * vector, and those at its second step as another. The two vectors are then interleaved. */
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

/* Packs one panel of lines whose steps are contiguous: reads BF_LANES pairs of each line at a time,
 * and transposes them. */
BF_INLINE void bf_pack_along(bf_pairs *to, const float *x, int64_t lines, int64_t k, int64_t line) {
    for (int64_t l = 0; l < k; l += 2 * BF_LANES) {
        bf_pairs v[BF_LANES];
        for (int i = 0; i < BF_LANES; i++)
            v[i] = bf_line(x + i * line + l, i < lines ? k - l : 0);
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

/* Returns the number of vectors that hold the pairs of one row of k steps. */
static inline int64_t bf_row_vectors(int64_t k) { return (k - 1) / (2 * BF_LANES) + 1; }

/* Packs a panel of rows of `a` whose steps are contiguous. Each row begins bf_row_vectors(k)
 * vectors behind the one before, so that nothing need be transposed. */
BF_TARGET static void bf_pack_rows(bf_pairs *to, const float *x, int64_t rows, int64_t k,
                                   int64_t row) {
    for (int64_t i = 0; i < BF_LANES; i++)
        for (int64_t l = 0; l < k; l += 2 * BF_LANES)
            *to++ = bf_line(x + i * row + l, i < rows ? k - l : 0);
}

/* A packed panel of `a`: its first pair, and how many pairs lie between consecutive rows and
 * between consecutive pairs of one row. */
typedef struct {
    const int32_t *first;
    int64_t row, pair;
} bf_panel;

/* Memory that will be read soon. For each pair of a tile, the two cache lines at p are prefetched
 * into the L2 cache, and p moves by `step` elements. */
typedef struct {
    const float *p;
    int64_t step;
} bf_ahead;

/* The bits of the floats of least and of greatest magnitude among those that were read, without
 * their signs, and without zeros. */
typedef struct {
    uint32_t least, greatest;
} bf_range;
static const bf_range bf_no_range = { UINT32_MAX, 0 };

/* The bias of a float's exponent, and the number of bits in the fraction of a bfloat16. */
enum { BF_BIAS = 127, BF_FRACTION = 7 };

static inline int bf_exponent(uint32_t bits) { return (int)(bits >> 23) - BF_BIAS; }

/* Returns whether all floats of a range are zeros or normal numbers: neither subnormal, nor
 * infinite, nor NaN. Makes a range of zeros that of the number 1, whose products are the same. */
static inline bool bf_is_normal(bf_range *r) {
    if (!r->greatest)
        *r = (bf_range){ BF_BIAS << 23, BF_BIAS << 23 };
    return bf_exponent(r->least) > -BF_BIAS && bf_exponent(r->greatest) <= BF_BIAS;
}

/* Extends *r by the n floats at x. Returns false as soon as there is a float that bfloat16 can't
 * hold exactly. */
BF_TARGET static bool bf_extend(bf_range *r, const float *x, int64_t n) {
    const __m512i one = _mm512_set1_epi32(1);
    __m512i before_least = _mm512_set1_epi32(-1), greatest = _mm512_setzero_si512();
    for (int64_t i = 0; i < n; i += BF_LANES) {
        const __m512i v = (__m512i)bf_load(x + i, n - i, 1);
        if (_mm512_test_epi32_mask(v, _mm512_set1_epi32(0xFFFF)))
            return false;
        const __m512i magnitude = _mm512_and_si512(v, _mm512_set1_epi32(0x7FFFFFFF));
        greatest = _mm512_max_epu32(greatest, magnitude);
        /* 0 becomes the greatest unsigned number, so it doesn't change the minimum. */
        before_least = _mm512_min_epu32(before_least, _mm512_sub_epi32(magnitude, one));
    }
    r->least = RG_MIN(r->least - 1, _mm512_reduce_min_epu32(before_least)) + 1;
    r->greatest = RG_MAX(r->greatest, _mm512_reduce_max_epu32(greatest));
    return true;
}

/* The addresses of a tile in y and in c, the row strides of y and c in elements, and the factors in
 * y = alpha * a b + beta * c. */
typedef struct {
    float *y;
    const float *c;
    int64_t y_row, c_row;
    float alpha, beta;
} bf_place;

/* Writes alpha * sum + beta * c to the first m rows and n columns of a tile. A sum is a vector with
 * a lane for each column of one panel, and each row has two of them. */
BF_INLINE void bf_write_part(const bf_place *to, const __m512 *sums, int64_t m, int64_t n) {
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j += BF_LANES) {
            const __mmask16 here = (__mmask16)((1 << RG_MIN(n - j, BF_LANES)) - 1);
            __m512 v = sums[2 * i + j / BF_LANES] * to->alpha;
            if (to->beta != 0)
                v += _mm512_maskz_loadu_ps(here, to->c + i * to->c_row + j) * to->beta;
            _mm512_mask_storeu_ps(to->y + i * to->y_row + j, here, v);
        }
}

/* Computes a tile of BF_ROWS rows and of the columns in `panels` panels of b. Only the first m rows
 * and n columns of the tile are written to y. The pragmas are needed because GCC would otherwise
 * keep the sums in memory. */
BF_INLINE void bf_tile(const bf_place *to, const bf_panel *a, const bf_pairs *b, int64_t m,
                       int64_t n, int64_t pairs, bf_ahead ahead, const int panels) {
    __m512 sum[BF_ROWS][2];
    const int32_t *rows = a->first;
#pragma GCC unroll 8
    for (int i = 0; i < BF_ROWS; i++)
        for (int p = 0; p < panels; p++)
            sum[i][p] = _mm512_setzero_ps();
    for (int64_t l = 0; l < pairs; l++) {
#pragma GCC unroll 8
        for (int i = 0; i < BF_ROWS; i++)
            for (int p = 0; p < panels; p++)
                sum[i][p] = _mm512_dpbf16_ps(sum[i][p],
                                             (__m512bh)_mm512_set1_epi32(rows[i * a->row]),
                                             (__m512bh)b[p * pairs + l]);
        rows += a->pair;
        __builtin_prefetch(ahead.p, 0, 2);
        __builtin_prefetch(ahead.p + BF_LANES, 0, 2);
        ahead.p += ahead.step;
    }
    if (m < BF_ROWS || n < panels * BF_LANES) {
        /* A loop over some of the rows needs the sums in memory. */
        __m512 kept[2 * BF_ROWS];
#pragma GCC unroll 8
        for (int i = 0; i < BF_ROWS; i++)
            for (int p = 0; p < panels; p++)
                kept[2 * i + p] = sum[i][p];
        bf_write_part(to, kept, RG_MIN(m, BF_ROWS), RG_MIN(n, panels * BF_LANES));
        return;
    }
    const float *c = to->c;
    float *y = to->y;
#pragma GCC unroll 8
    for (int i = 0; i < BF_ROWS; i++) {
        for (int p = 0; p < panels; p++) {
            __m512 v = sum[i][p] * to->alpha;
            if (to->beta != 0)
                v += _mm512_loadu_ps(c + p * BF_LANES) * to->beta;
            _mm512_storeu_ps(y + p * BF_LANES, v);
        }
        y += to->y_row;
        c += to->c_row;
    }
}

/* Computes m rows of y, at most BF_LANES, and n columns of it, at most two panels of them. */
BF_TARGET static void bf_rows(bf_place to, bf_panel a, const bf_pairs *b, int64_t m, int64_t n,
                              int64_t pairs, bf_ahead ahead) {
    for (; m > 0; m -= BF_ROWS) {
        for (int64_t i = 0; i < RG_MIN(m, BF_ROWS); i++) {
            __builtin_prefetch(to.y + i * to.y_row, 1);
            __builtin_prefetch(to.y + i * to.y_row + BF_LANES, 1);
        }
        if (n > BF_LANES)
            bf_tile(&to, &a, b, m, n, pairs, ahead, 2);
        else
            bf_tile(&to, &a, b, m, n, pairs, ahead, 1);
        to.y += BF_ROWS * to.y_row;
        to.c += BF_ROWS * to.c_row;
        a.first += BF_ROWS * a.row;
        ahead.p += pairs * ahead.step;
    }
}
