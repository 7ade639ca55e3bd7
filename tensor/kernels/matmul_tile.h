/*
 * matmul_tile.h: the product y = alpha a b + beta y of one matrix, for one set of
 * instructions and each type T. matmul.c includes it by sets.h, and it itself for
 * each type. A register tile is MR rows, or half as many, of one or two vectors of
 * W elements.
 *
 * Every element is a sum over k in rising order, block by block of MATMUL_KC (of
 * vectors and then their elements in a dot product), wherever its tile lies.
 */
#ifndef T
#define T float
#include "matmul_tile.h"
#define T double
#include "matmul_tile.h"
#define T matmul_wrapping
#include "matmul_tile.h"
#else

#define MR      (K_BITS == 512 ? 8 : K_BITS == 256 ? 6 : 4)
#define V       K_SET(RG_PASTE(matmul_vector_, T))
#define U       K_SET(RG_PASTE(matmul_narrow_, T))
#define NAME(x) K_SET(RG_PASTE(tile_##x##_, T))
#define W       ((int)(K_BITS / 8 / sizeof(T)))
#define NR      (2 * W)
#define UW      ((int)(32 / sizeof(T)))

typedef T V __attribute__((vector_size(K_BITS / 8), aligned(sizeof(T)), may_alias));
typedef T U __attribute__((vector_size(32), aligned(sizeof(T)), may_alias));

/* a b + c of vectors of so many bits, in one step where floats can. */
#if K_BITS == 128
#define FMA(bits, a, b, c) ((a) * (b) + (c))
#else
#define FMA_(bits, a, b, c)                                                            \
    ((__typeof__(c))_Generic(                                                          \
        (T)0, default                                                                  \
        : (a) * (b) + (c), float                                                       \
        : _mm##bits##_fmadd_ps((__m##bits)(a), (__m##bits)(b), (__m##bits)(c)), double \
        : _mm##bits##_fmadd_pd((__m##bits##d)(a), (__m##bits##d)(b), (__m##bits##d)(c))))
#define FMA(bits, a, b, c) FMA_(bits, a, b, c)
#endif

/* y[i][j] += alpha times a dot product, for one or two rows i, and a share of b's columns further
 * on others, as many as there are streams: they share what is read of a, and each goes on in the
 * next column, so that the processor foresees it. Narrow loads wait less. */
static inline __attribute__((always_inline)) void NAME(dots)(const k_product_sizes *z, T *y,
                                                             const T *a, const T *b, T alpha,
                                                             int64_t i, int64_t j, int64_t share,
                                                             const int rows, const int streams) {
    U sum[2][MATMUL_STREAMS][2] = { { { { 0 } } } };
    int64_t apart = share * z->b_col, whole = z->k / (2 * UW) * (2 * UW);
    y += i * z->y_row + j * z->y_col;
    a += i * z->a_row;
    b += j * z->b_col;
    for (int64_t l = 0; l < whole; l += 2 * UW)
        for (int v = 0; v < 2; v++)
            for (int s = 0; s < streams; s++)
                for (int r = 0; r < rows; r++)
                    sum[r][s][v] = FMA(256, *(const U *)(a + r * z->a_row + l + v * UW),
                                       *(const U *)(b + s * apart + l + v * UW), sum[r][s][v]);
    for (int s = 0; s < streams; s++, b += apart, y += share * z->y_col)
        for (int r = 0; r < rows; r++) {
            U both = sum[r][s][0] + sum[r][s][1];
            T total = 0;
            for (int v = 0; v < UW; v++)
                total += both[v];
            for (int64_t l = whole; l < z->k; l++)
                total += a[r * z->a_row + l] * b[l];
            y[r * z->y_row] += alpha * total;
        }
}

/* y = alpha a b + beta c for few rows, or a few thousand steps in all: in place. */
static void NAME(thin)(const k_product_sizes *z, T *y, const T *c, const T *a, const T *b, T alpha,
                       T beta) {
    for (int64_t i = 0; i < z->m; i++)
        for (int64_t j = 0; j < z->n; j++)
            y[i * z->y_row + j * z->y_col] = beta == 0 ? 0 : beta * c[i * z->c_row + j * z->y_col];
    if (z->b_row == 1 && z->a_col == 1 && z->k >= 4 * UW) {
        enum { PAIR = K_BITS == 512 ? 2 : 1 }; /* as many sums as there are registers */
        int64_t share = z->n / MATMUL_STREAMS, i;
        for (int64_t j = 0; j < share; j++) {
            for (i = 0; i + PAIR <= z->m; i += PAIR)
                NAME(dots)(z, y, a, b, alpha, i, j, share, PAIR, MATMUL_STREAMS);
            for (; i < z->m; i++)
                NAME(dots)(z, y, a, b, alpha, i, j, share, 1, MATMUL_STREAMS);
        }
        for (int64_t j = share * MATMUL_STREAMS; j < z->n; j++)
            for (i = 0; i < z->m; i++)
                NAME(dots)(z, y, a, b, alpha, i, j, 0, 1, 1);
        return;
    }
    int64_t l = 0;
    /* in the same order, but y is read and written less often */
    for (; l + 4 <= z->k && z->b_col == 1 && z->y_col == 1; l += 4)
        for (int64_t i = 0; i < z->m; i++) {
            T *restrict row = y + i * z->y_row, v[4];
            const T *from = b + l * z->b_row;
            for (int s = 0; s < 4; s++)
                v[s] = alpha * a[i * z->a_row + (l + s) * z->a_col];
            for (int64_t j = 0; j < z->n; j++)
                row[j] = row[j] + v[0] * from[j] + v[1] * from[z->b_row + j]
                         + v[2] * from[2 * z->b_row + j] + v[3] * from[3 * z->b_row + j];
        }
    for (; l < z->k; l++)
        for (int64_t i = 0; i < z->m; i++) {
            T *row = y + i * z->y_row, v = alpha * a[i * z->a_row + l * z->a_col];
            const T *from = b + l * z->b_row;
            if (z->b_col == 1 && z->y_col == 1)
                for (int64_t j = 0; j < z->n; j++)
                    row[j] += v * from[j];
            else
                for (int64_t j = 0; j < z->n; j++)
                    row[j * z->y_col] += v * from[j * z->b_col];
        }
}

/* ---- tiny products: a row of y in one narrow vector, unrolled along k ------------ */

#if K_BITS == 128
static void NAME(tiny)(const k_product_sizes *z, void *y, const void *a, const void *b) {
    NAME(thin)(z, y, y, a, b, 1, 0);
}
#else
/* The first n <= UW elements: of a load, the others are 0. */
#if K_BITS == 512
typedef __mmask8 NAME(first);
static inline __mmask8 NAME(first_of)(int64_t n) { return (__mmask8)((1u << n) - 1); }
static inline U NAME(load)(const T *p, __mmask8 some) {
    return (U) _Generic((T)0, float
                        : _mm256_maskz_loadu_ps, default
                        : _mm256_maskz_loadu_pd)(some, (const void *)p);
}
static inline void NAME(store)(T *p, __mmask8 some, int64_t n, U v) {
    (void)n;
    _Generic((T)0, float
             : _mm256_mask_storeu_ps((void *)p, some, (__m256)v), default
             : _mm256_mask_storeu_pd((void *)p, some, (__m256d)v));
}
#else
typedef __m256i NAME(first);
static inline __m256i NAME(first_of)(int64_t n) {
    return _Generic(
        (T)0, float
        : _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)),
          default
        : _mm256_cmpgt_epi64(_mm256_set1_epi64x(n), _mm256_setr_epi64x(0, 1, 2, 3)));
}
static inline U NAME(load)(const T *p, __m256i some) {
    return (U) _Generic((T)0, float
                        : _mm256_maskload_ps, default
                        : _mm256_maskload_pd)((const void *)p, some);
}
/* Half by half: storing by a mask is slow in many processors. */
static inline void NAME(store)(T *p, __m256i some, int64_t n, U v) {
    typedef T half __attribute__((vector_size(16), aligned(sizeof(T)), may_alias));
    half part = (half)_mm256_castsi256_si128((__m256i)v);
    (void)some;
    if (n == UW) {
        *(U *)p = v;
        return;
    }
    if (n >= UW / 2) {
        *(half *)p = part;
        p += UW / 2;
        n -= UW / 2;
        part = (half)_mm256_extracti128_si256((__m256i)v, 1);
    }
    if (UW == 8 && n >= 2) {
        memcpy(p, &part, 2 * sizeof(T));
        p += 2;
        n -= 2;
        part = (half)_mm_unpackhi_pd((__m128d)part, (__m128d)part);
    }
    if (n)
        *p = part[0];
}
#endif

/* Rows of b that lies turned, each in a register: permuted there from two wide ones, or gathered.
 */
#if K_BITS == 512
static inline bool NAME(turns)(const k_product_sizes *z) {
    return z->b_row == 1 && z->b_col == z->k && RG_MIN(z->n, UW) * z->k <= 2 * W;
}
static inline __attribute__((always_inline)) void NAME(turned)(U rows[], const k_product_sizes *z,
                                                               const T *b, int64_t n, const int k) {
    typedef __typeof__(_Generic((T)0, float : (int32_t)0, default : (int64_t)0)) place;
    typedef place places __attribute__((vector_size(K_BITS / 8)));
    static const place count[16] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 };
    int64_t all = n * k, low = RG_MIN(all, W);
    places at;
    (void)z;
    memcpy(&at, count, sizeof at);
    at *= k;
    for (int l = 0; l < k; l++, at += 1)
        rows[l] = _Generic((T)0, float
                           : (U)_mm512_castps512_ps256(_mm512_permutex2var_ps(
                                 _mm512_maskz_loadu_ps((1u << low) - 1, b), (__m512i)at,
                                 _mm512_maskz_loadu_ps((1u << (all - low)) - 1, b + W))),
                             default
                           : (U)_mm512_castpd512_pd256(_mm512_permutex2var_pd(
                               _mm512_maskz_loadu_pd((1u << low) - 1, b), (__m512i)at,
                               _mm512_maskz_loadu_pd((1u << (all - low)) - 1, b + W))));
}
#else
static inline bool NAME(turns)(const k_product_sizes *z) { return z->k <= MATMUL_TINY_K; }
static __attribute__((noinline)) void NAME(turned)(U rows[], const k_product_sizes *z, const T *b,
                                                   int64_t n, const int k) {
    for (int l = 0; l < k; l++) {
        T v[UW] = { 0 };
        for (int j = 0; j < n; j++)
            v[j] = b[l * z->b_row + j * z->b_col];
        rows[l] = *(U *)v;
    }
}
#endif

/* y = a b, n <= UW columns of it */
static inline __attribute__((always_inline)) void NAME(tiny_of)(const k_product_sizes *z, T *y,
                                                                const T *a, const T *b, int64_t n,
                                                                const int k, const bool whole) {
    U rows[MATMUL_TINY_K];
    NAME(first) some = NAME(first_of)(n);
    if (whole)
        for (int l = 0; l < k; l++)
            rows[l] = NAME(load)(b + l * z->b_row, some);
    else
        NAME(turned)(rows, z, b, n, k);
    int64_t a_col = z->a_col, a_row = z->a_row, y_row = z->y_row;
    for (int64_t m = z->m; m > 0; m--, a += a_row, y += y_row) {
        U sum = { 0 };
        for (int l = 0; l < k; l++)
            sum += a[l * a_col] * rows[l];
        NAME(store)(y, some, n, sum);
    }
}

static void NAME(tiny)(const k_product_sizes *z, void *y_, const void *a, const void *b_) {
    T *y = y_;
    const T *b = b_;
    if (_Generic((T)0, matmul_wrapping
                 : true, default
                 : false)
        || (z->b_col != 1 && !NAME(turns)(z))) {
        NAME(thin)(z, y, y, a, b, 1, 0);
        return;
    }
    for (int64_t left = z->n; left > 0; left -= UW, y += UW, b += UW * z->b_col) {
        int64_t n = RG_MIN(left, UW);
        switch (z->b_col == 1 ? z->k : -z->k) {
#define CASE(k)                                           \
    case k: NAME(tiny_of)(z, y, a, b, n, k, true); break; \
    case -k:                                              \
        NAME(tiny_of)(z, y, a, b, n, k, false);           \
        break
            CASE(1);
            CASE(2);
            CASE(3);
            CASE(4);
            CASE(5);
            CASE(6);
            CASE(7);
            CASE(8);
#undef CASE
        }
    }
}
#endif

/* ---- large products -------------------------------------------------------------- */

/* n rows of k elements as columns, times scale. */
static void NAME(turn)(void *to_, int64_t to_row, const void *from_, int64_t row, int64_t col,
                       int64_t n, int64_t k, double scale_) {
    T *to = to_, scale = MATMUL_NUMBER(scale_);
    const T *from = from_;
    for (int64_t j = 0; j < n; j += W)
        for (int64_t l = 0; l < k; l += W) {
#if K_BITS == 512
            if (W == 16 && col == 1 && n - j >= W && k - l >= W) {
                k_lanes v[16];
                for (int i = 0; i < W; i++)
                    v[i] = (k_lanes)(scale * *(const V *)(from + (j + i) * row + l));
                k_transpose(v);
                for (int i = 0; i < W; i++)
                    *(k_lanes *)(to + (l + i) * to_row + j) = v[i];
                continue;
            }
#endif
            for (int64_t s = l; s < RG_MIN(k, l + W); s++)
                for (int64_t r = j; r < RG_MIN(n, j + W); r++)
                    to[s * to_row + r] = scale * from[r * row + s * col];
        }
}

/* Panels of `width` lines, each step by step along k; zeros beyond the last line. */
static inline __attribute__((always_inline)) void NAME(pack)(T *to, const T *x, int64_t lines,
                                                             int64_t k, int64_t line, int64_t step,
                                                             const int width) {
    /* steps whose lines of memory stay until the next panel reads on in them */
    enum { SOME = 16 };
    if (lines % width)
        memset(to + lines / width * width * k, 0, (size_t)(width * k) * sizeof(T));
    for (int64_t j = 0; j < lines && line != 1; j += width)
        NAME(turn)(to + j * k, width, x + j * line, line, step, RG_MIN(lines - j, width), k, 1);
    for (int64_t l = 0; l < k && line == 1; l += SOME)
        for (int64_t j = 0; j < lines; j += width)
            for (int64_t s = l; s < RG_MIN(k, l + SOME); s++)
                if (lines - j >= width)
                    memcpy(to + j * k + s * width, x + s * step + j, (size_t)width * sizeof(T));
                else
                    memcpy(to + j * k + s * width, x + s * step + j,
                           (size_t)(lines - j) * sizeof(T));
}

/* m <= rows of a, and up to that the last one again. While it counts, the lines of y, the next rows
 * of a and what comes next are on their way from further caches, or from memory. */
static inline __attribute__((always_inline)) void NAME(tile)(const k_product_sizes *z, T *y,
                                                             const T *c, const T *a, const T *b,
                                                             matmul_next *next, int64_t m,
                                                             int64_t n, T alpha, T beta,
                                                             const int rows, const int vectors) {
    enum { LINE = 64 / sizeof(T) };
    V sum[MR][2];
    const T *row[MR];
    for (int i = 0; i < rows; i++)
        row[i] = a + RG_MIN(i, m - 1) * z->a_row, sum[i][0] = sum[i][1] = (V){ 0 };
    for (int64_t l = 0, at = 0, k = z->k; l < k;) {
        for (int v = 0; v < vectors && l / LINE < m; v++)
            __builtin_prefetch(y + l / LINE * z->y_row + v * W, 1);
        for (int i = 0; i < rows && z->a_col == 1; i++)
            __builtin_prefetch(row[i] + at + MR * z->a_row);
        for (int64_t q = next ? RG_MIN(next->each, next->left) : 0; q > 0; q--, next->left--) {
            __builtin_prefetch(next->from);
            next->from += next->apart;
            if (++next->at == next->count)
                next->at = 0, next->from += next->further;
        }
        for (int64_t end = RG_MIN(k, l + LINE); l < end; l++, at += z->a_col, b += z->b_row)
            for (int i = 0; i < rows; i++)
                for (int v = 0; v < vectors; v++)
                    sum[i][v] = FMA(K_BITS, row[i][at] - (V){ 0 }, *(const V *)(b + v * W),
                                    sum[i][v]);
    }
    if (alpha != 1)
        for (int i = 0; i < rows; i++)
            for (int v = 0; v < vectors; v++)
                sum[i][v] *= alpha;
    if (m == rows && n == vectors * W && z->y_col == 1) {
        if (beta != 0)
            for (int i = 0; i < rows; i++)
                for (int v = 0; v < vectors; v++)
                    sum[i][v] += beta * *(const V *)(c + i * z->c_row + v * W);
        for (int i = 0; i < rows; i++)
            for (int v = 0; v < vectors; v++)
                *(V *)(y + i * z->y_row + v * W) = sum[i][v];
    } else {
        T s[MR * NR];
        for (int i = 0; i < rows; i++)
            for (int v = 0; v < vectors; v++)
                *(V *)(s + i * NR + v * W) = sum[i][v];
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < n; j++)
                y[i * z->y_row + j * z->y_col] =
                    s[i * NR + j] + (beta == 0 ? 0 : beta * c[i * z->c_row + j * z->y_col]);
    }
}

/* n <= NR columns, of which b has whole vectors. From a tile's rows of a it is so far to the
 * second's, and from these to the third's. */
static void NAME(panel)(const k_product_sizes *z, T *y, const T *c, const T *a, int64_t second,
                        int64_t third, const T *b, matmul_next *next, int64_t n, T alpha, T beta) {
    for (int64_t i = 0; i < z->m; i += MR, y += MR * z->y_row, c += MR * z->c_row) {
        int64_t m = RG_MIN(z->m - i, MR);
        if (m > MR / 2) {
            if (n > W)
                NAME(tile)(z, y, c, a, b, next, m, n, alpha, beta, MR, 2);
            else
                NAME(tile)(z, y, c, a, b, next, m, n, alpha, beta, MR, 1);
        } else {
            if (n > W)
                NAME(tile)(z, y, c, a, b, next, m, n, alpha, beta, MR / 2, 2);
            else
                NAME(tile)(z, y, c, a, b, next, m, n, alpha, beta, MR / 2, 1);
        }
        a += second;
        RG_SWAP(second, third);
    }
}

/* y = a b, or y += a b, of whole vectors. */
static __attribute__((unused)) void NAME(direct)(const k_product_sizes *z, void *y, const void *a,
                                                 const void *b, bool add) {
    for (int64_t j = 0; j < z->n; j += NR)
        NAME(panel)
    (z, (T *)y + j, (T *)y + j, a, MR * z->a_row, MR * z->a_row, (const T *)b + j, NULL,
     RG_MIN(z->n - j, NR), 1, add);
}

/* y = alpha a b + beta c for rows of a, and steps, that stay in a cache. Wide b pay for packing
 * these rows. b is read where it lies if its panels are whole there, but far ones, in memory: they
 * are packed, each while the next is on its way; after the last is `then`. */
static void NAME(block)(k_product_sizes z, T *y, const T *c, const T *a, const T *b, const T *then,
                        bool far, T alpha, T beta, T *panel) {
    /* of memory, a row of a panel */
    enum { LINES = NR * sizeof(T) < 64 ? 1 : NR * sizeof(T) / 64 };
    int64_t item = (int64_t)sizeof(T), b_row = z.b_row, second = MR * z.a_row, third = second;
    int64_t lines = LINES * z.k, times = ((z.m - 1) / MR + 1) * ((z.k - 1) * item / 64 + 1);
    matmul_next next = { .apart = 64, .count = LINES, .each = (lines - 1) / times + 1 };
    if (z.b_col != 1)
        next.apart = z.b_col * item, next.count = NR;
    next.further = (z.b_col == 1 ? b_row * item : 64) - next.count * next.apart;
    if (z.n > MATMUL_WIDE) {
        T *packed = panel + NR * z.k;
        NAME(pack)(packed, a, z.m, z.k, z.a_row, z.a_col, 2 * MR);
        a = packed;
        z.a_row = 1;
        z.a_col = 2 * MR;
        second = MR;
        third = 2 * MR * z.k - MR;
    }
    for (int64_t j = 0; j < z.n; j += NR, y += NR * z.y_col, c += NR * z.y_col, b += NR * z.b_col) {
        int64_t n = RG_MIN(z.n - j, NR);
        bool packs = (far && z.m >= MATMUL_MANY) || z.b_col != 1 || (n != NR && n != W);
        next.from = (const char *)(z.n - j > NR ? b + NR * z.b_col : then), next.left = lines,
        next.at = 0;
        if (packs)
            NAME(pack)(panel, b, n, z.k, z.b_col, b_row, NR);
        z.b_row = packs ? NR : b_row;
        NAME(panel)
        (&z, y, c, a, second, third, packs ? panel : b, far && next.from ? &next : NULL, n, alpha,
         beta);
    }
}

/* room: for a panel of NR columns of b, and MATMUL_MC rows of a, of MATMUL_KC steps. */
static void NAME(product)(const k_product_sizes *z, void *y_, const void *c_, const void *a_,
                          const void *b_, double alpha_, double beta_, void *room) {
    T *y = y_, alpha = MATMUL_NUMBER(alpha_), beta = MATMUL_NUMBER(beta_);
    const T *a = a_, *b = b_, *c = c_;
    if (!room) {
        NAME(thin)(z, y, c, a, b, alpha, beta);
        return;
    }
    bool far = z->m >= MATMUL_SOME && z->k * z->n > MATMUL_STAYS;
    /* of few steps y is what takes time: whole rows of it */
    int64_t most = z->k <= 4 ? 2 * MR : MATMUL_MC;
    for (int64_t i = 0; i < z->m; i += most)
        for (int64_t l = 0; l < z->k; l += MATMUL_KC) {
            k_product_sizes part = *z;
            part.m = RG_MIN(z->m - i, most);
            part.k = RG_MIN(z->k - l, MATMUL_KC);
            T *to = y + i * z->y_row;
            const T *add = l ? to : c + i * z->c_row, *rows = a + i * z->a_row + l * z->a_col,
                    *from = b + l * z->b_row;
            if (l)
                part.c_row = z->y_row;
            NAME(block)
            (part, to, add, rows, from, l + part.k < z->k ? from + part.k * z->b_row : NULL, far,
             alpha, l ? 1 : beta, room);
        }
}

#undef V
#undef U
#undef UW
#undef FMA
#undef FMA_
#undef NAME
#undef W
#undef NR
#undef MR
#undef T
#endif
