/*
 * loops/matmul_tiny.h: y = a b of a thousand steps in all, up to eight of them along k: for 32
 * bytes of columns at a time, all rows of b are held in registers, and each row of y is one vector.
 * Sets without such vectors, and integers, compute it in place, as loops/matmul_thin.h does.
 */

#if K_IS_FLOAT && (defined(K_SET_IS_AVX2) || defined(K_SET_IS_AVX512))

#define VECTOR K_NAME(matmul_narrow)
#define LANES  ((int)(32 / sizeof(T)))

/* ---- the first n <= LANES elements of a vector ----------------------------------------- */

#ifdef K_SET_IS_AVX512
typedef __mmask8 K_NAME(matmul_mask);

K_INLINE __mmask8 K_NAME(matmul_first)(int64_t n) { return (__mmask8)((1u << n) - 1); }

/* Loads them, and zeros for the others. */
K_INLINE VECTOR K_NAME(matmul_load)(const T *p, __mmask8 first) {
    if (sizeof(T) == sizeof(float))
        return (VECTOR)_mm256_maskz_loadu_ps(first, (const void *)p);
    return (VECTOR)_mm256_maskz_loadu_pd(first, (const void *)p);
}

K_INLINE void K_NAME(matmul_store)(T *p, __mmask8 first, int64_t n, VECTOR v) {
    (void)n;
    if (sizeof(T) == sizeof(float))
        _mm256_mask_storeu_ps((void *)p, first, (__m256)v);
    else
        _mm256_mask_storeu_pd((void *)p, first, (__m256d)v);
}
#else
typedef __m256i K_NAME(matmul_mask);

K_INLINE __m256i K_NAME(matmul_first)(int64_t n) {
    if (sizeof(T) == sizeof(float))
        return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n),
                                  _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    return _mm256_cmpgt_epi64(_mm256_set1_epi64x(n), _mm256_setr_epi64x(0, 1, 2, 3));
}

/* Loads them, and zeros for the others. */
K_INLINE VECTOR K_NAME(matmul_load)(const T *p, __m256i first) {
    if (sizeof(T) == sizeof(float))
        return (VECTOR)_mm256_maskload_ps((const void *)p, first);
    return (VECTOR)_mm256_maskload_pd((const void *)p, first);
}

/* Stores them half by half, for a store by a mask is slow in many processors. */
K_INLINE void K_NAME(matmul_store)(T *p, __m256i first, int64_t n, VECTOR v) {
    typedef T half __attribute__((vector_size(16), aligned(sizeof(T)), may_alias));
    half part = (half)_mm256_castsi256_si128((__m256i)v);
    (void)first;
    if (n == LANES) {
        *(VECTOR *)p = v;
        return;
    }
    if (n >= LANES / 2) {
        *(half *)p = part;
        p += LANES / 2;
        n -= LANES / 2;
        part = (half)_mm256_extracti128_si256((__m256i)v, 1);
    }
    if (LANES == 8 && n >= 2) {
        memcpy(p, &part, 2 * sizeof(T));
        p += 2;
        n -= 2;
        part = (half)_mm_unpackhi_pd((__m128d)part, (__m128d)part);
    }
    if (n)
        *p = part[0];
}
#endif

/* ---- rows of b that lies turned, each in a register -------------------------------------- */

#ifdef K_SET_IS_AVX512
/* Can matmul_turned_rows read b? Its columns must follow each other, and fit two long vectors. */
K_INLINE bool K_NAME(matmul_turns)(const k_product_sizes *z) {
    return z->b_row == 1 && z->b_col == z->k
           && RG_MIN(z->n, LANES) * z->k <= 2 * (int64_t)(64 / sizeof(T));
}

/* Permutes the rows of n columns out of the two vectors in which these lie. */
K_INLINE void K_NAME(matmul_turned_rows)(VECTOR rows[], const k_product_sizes *z, const T *b,
                                         int64_t n, const int k) {
    enum { WIDE = 64 / sizeof(T) };
    static const int32_t places[16] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 };
    static const int64_t wide_places[8] = { 0, 1, 2, 3, 4, 5, 6, 7 };
    const int64_t all = n * k;
    const int64_t low = RG_MIN(all, WIDE);
    (void)z;
    if (sizeof(T) == sizeof(float)) {
        const __m512 first = _mm512_maskz_loadu_ps((__mmask16)((1u << low) - 1), b);
        const __m512 second = _mm512_maskz_loadu_ps((__mmask16)((1u << (all - low)) - 1), b + WIDE);
        __m512i at = _mm512_mullo_epi32(_mm512_loadu_si512(places), _mm512_set1_epi32(k));
        for (int l = 0; l < k; l++) {
            __m512 row = _mm512_permutex2var_ps(first, at, second);
            rows[l] = (VECTOR)_mm512_castps512_ps256(row);
            at = _mm512_add_epi32(at, _mm512_set1_epi32(1));
        }
    } else {
        const __m512d first = _mm512_maskz_loadu_pd((__mmask8)((1u << low) - 1), b);
        const __m512d second = _mm512_maskz_loadu_pd((__mmask8)((1u << (all - low)) - 1), b + WIDE);
        __m512i at = _mm512_mullo_epi64(_mm512_loadu_si512(wide_places), _mm512_set1_epi64(k));
        for (int l = 0; l < k; l++) {
            __m512d row = _mm512_permutex2var_pd(first, at, second);
            rows[l] = (VECTOR)_mm512_castpd512_pd256(row);
            at = _mm512_add_epi64(at, _mm512_set1_epi64(1));
        }
    }
}
#else
/* Can matmul_turned_rows read b? */
K_INLINE bool K_NAME(matmul_turns)(const k_product_sizes *z) { return z->k <= MATMUL_TINY_K; }

/* Gathers the rows of n columns element by element. */
static __attribute__((noinline)) void K_NAME(matmul_turned_rows)(VECTOR rows[],
                                                                 const k_product_sizes *z,
                                                                 const T *b, int64_t n,
                                                                 const int k) {
    for (int l = 0; l < k; l++) {
        T v[LANES] = { 0 };
        for (int j = 0; j < n; j++)
            v[j] = b[l * z->b_row + j * z->b_col];
        rows[l] = *(VECTOR *)v;
    }
}
#endif

/* ---- the product ----------------------------------------------------------------------- */

/* n <= LANES columns of y = a b, unrolled along k; dense: each row of b lies in one piece. */
K_INLINE void K_NAME(matmul_tiny_unrolled)(const k_product_sizes *z, T *y, const T *a, const T *b,
                                           int64_t n, const int k, const bool dense) {
    VECTOR rows[MATMUL_TINY_K];
    K_NAME(matmul_mask) first = K_NAME(matmul_first)(n);
    if (dense)
        for (int l = 0; l < k; l++)
            rows[l] = K_NAME(matmul_load)(b + l * z->b_row, first);
    else
        K_NAME(matmul_turned_rows)(rows, z, b, n, k);
    const int64_t a_col = z->a_col;
    const int64_t a_row = z->a_row;
    const int64_t y_row = z->y_row;
    for (int64_t m = z->m; m > 0; m--) {
        VECTOR sum = { 0 };
        for (int l = 0; l < k; l++)
            sum += a[l * a_col] * rows[l];
        K_NAME(matmul_store)(y, first, n, sum);
        a += a_row;
        y += y_row;
    }
}

/* n <= LANES columns of y = a b: each number of steps has code of its own. */
K_INLINE void K_NAME(matmul_tiny_columns)(const k_product_sizes *z, T *y, const T *a, const T *b,
                                          int64_t n, const bool dense) {
    _Static_assert(MATMUL_TINY_K == 8, "a case for each number of steps");
    switch (z->k) {
    case 1: K_NAME(matmul_tiny_unrolled)(z, y, a, b, n, 1, dense); break;
    case 2: K_NAME(matmul_tiny_unrolled)(z, y, a, b, n, 2, dense); break;
    case 3: K_NAME(matmul_tiny_unrolled)(z, y, a, b, n, 3, dense); break;
    case 4: K_NAME(matmul_tiny_unrolled)(z, y, a, b, n, 4, dense); break;
    case 5: K_NAME(matmul_tiny_unrolled)(z, y, a, b, n, 5, dense); break;
    case 6: K_NAME(matmul_tiny_unrolled)(z, y, a, b, n, 6, dense); break;
    case 7: K_NAME(matmul_tiny_unrolled)(z, y, a, b, n, 7, dense); break;
    case 8: K_NAME(matmul_tiny_unrolled)(z, y, a, b, n, 8, dense); break;
    }
}

static void K_NAME(matmul_tiny)(const k_product_sizes *z, void *to, const void *left,
                                const void *right) {
    T *y = to;
    const T *a = left;
    const T *b = right;
    const bool dense = z->b_col == 1;
    if (!dense && !K_NAME(matmul_turns)(z)) {
        K_NAME(matmul_thin)(z, y, y, a, b, 1, 0);
        return;
    }
    for (int64_t j = 0; j < z->n; j += LANES) {
        const int64_t n = RG_MIN(z->n - j, LANES);
        if (dense)
            K_NAME(matmul_tiny_columns)(z, y + j, a, b + j, n, true);
        else
            K_NAME(matmul_tiny_columns)(z, y + j, a, b + j * z->b_col, n, false);
    }
}

#undef VECTOR
#undef LANES

#else

static void K_NAME(matmul_tiny)(const k_product_sizes *z, void *y, const void *a, const void *b) {
    K_NAME(matmul_thin)(z, y, y, a, b, 1, 0);
}

#endif
