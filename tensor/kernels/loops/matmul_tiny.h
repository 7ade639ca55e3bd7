/*
 * loops/matmul_tiny.h: the product y = a b with at most MATMUL_TINY multiplications, and at most
 * MATMUL_TINY_K terms in each sum. The columns are processed in strips of 32 bytes: all rows of b
 * in the strip are held in registers, and each row of y in the strip is one vector. Instruction
 * sets without such vectors, and integers, use loops/matmul_thin.h.
 */

#if K_IS_FLOAT && (defined(K_SET_IS_AVX2) || defined(K_SET_IS_AVX512))

_Static_assert(sizeof(T) == sizeof(float) || sizeof(T) == sizeof(double),
               "the functions below load and store floats or doubles");

#define VECTOR K_NAME(matmul_narrow)
#define LANES  ((int)(32 / sizeof(T)))

/* ---- loading and storing the first n <= LANES elements of a vector --------------------------- */

#ifdef K_SET_IS_AVX512
typedef __mmask8 K_NAME(matmul_mask);

K_INLINE __mmask8 K_NAME(matmul_first)(int64_t n) { return (__mmask8)((1u << n) - 1); }

/* Loads the elements that are in the mask `first`, and zeros in the place of the others. */
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

/* Loads the elements that are in the mask `first`, and zeros in the place of the others. */
K_INLINE VECTOR K_NAME(matmul_load)(const T *p, __m256i first) {
    if (sizeof(T) == sizeof(float))
        return (VECTOR)_mm256_maskload_ps((const void *)p, first);
    return (VECTOR)_mm256_maskload_pd((const void *)p, first);
}

/* Stores the first n elements. If n < LANES, stores them in parts of at most half a vector, because
 * a masked store is slow on many processors. */
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

/* ---- reading the rows of b into registers if they aren't contiguous -------------------------- */

#ifdef K_SET_IS_AVX512
/* Returns whether matmul_turned_rows can read b: its columns must be contiguous and adjacent to
 * each other, and the columns of a strip must fit into two vectors of 64 bytes. */
K_INLINE bool K_NAME(matmul_turns)(const k_product_sizes *z) {
    return z->b_row == 1 && z->b_col == z->k
           && RG_MIN(z->n, LANES) * z->k <= 2 * (int64_t)(64 / sizeof(T));
}

/* A vector of 64 bytes. Two of them hold all columns of a strip. */
typedef T K_NAME(matmul_wide) __attribute__((vector_size(64), aligned(sizeof(T)), may_alias));
/* The type of an element's index in these vectors; it has the size of T. */
typedef __typeof__(_Generic((T)0, float : (int32_t)0, double : (int64_t)0)) K_NAME(matmul_place);
typedef K_NAME(matmul_place) K_NAME(matmul_places) __attribute__((vector_size(64)));

/* Loads the first n elements at p, and zeros in the place of the others. */
K_INLINE K_NAME(matmul_wide) K_NAME(matmul_load_wide)(const T *p, int64_t n) {
    const __mmask16 first = (__mmask16)((1u << n) - 1);
    if (sizeof(T) == sizeof(float))
        return (K_NAME(matmul_wide))_mm512_maskz_loadu_ps(first, p);
    return (K_NAME(matmul_wide))_mm512_maskz_loadu_pd((__mmask8)first, p);
}

/* Returns the elements of `low` and `high` whose indices are the first LANES numbers in `at`.
 * Indices from 64 / sizeof(T) on select elements of `high`. */
K_INLINE VECTOR K_NAME(matmul_permute)(K_NAME(matmul_wide) low, K_NAME(matmul_wide) high,
                                       K_NAME(matmul_places) at) {
    if (sizeof(T) == sizeof(float)) {
        __m512 row = _mm512_permutex2var_ps((__m512)low, (__m512i)at, (__m512)high);
        return (VECTOR)_mm512_castps512_ps256(row);
    }
    __m512d row = _mm512_permutex2var_pd((__m512d)low, (__m512i)at, (__m512d)high);
    return (VECTOR)_mm512_castpd512_pd256(row);
}

/* Reads n columns of k elements into two vectors, and permutes them into rows: row l gets the
 * elements l, l + k, l + 2 * k, and so on. */
K_INLINE void K_NAME(matmul_turned_rows)(VECTOR rows[], const k_product_sizes *z, const T *b,
                                         int64_t n, const int k) {
    enum { WIDE = 64 / sizeof(T) };
    static const K_NAME(matmul_place)
        count[16] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 };
    const int64_t in_low = RG_MIN(n * k, WIDE);
    const K_NAME(matmul_wide) low = K_NAME(matmul_load_wide)(b, in_low);
    const K_NAME(matmul_wide) high = K_NAME(matmul_load_wide)(b + WIDE, n * k - in_low);
    K_NAME(matmul_places) at;
    (void)z;
    memcpy(&at, count, sizeof at);
    at *= k;
    for (int l = 0; l < k; l++) {
        rows[l] = K_NAME(matmul_permute)(low, high, at);
        at += 1;
    }
}
#else
/* Returns whether matmul_turned_rows can read b: in AVX2, if b has at most MATMUL_TINY_K rows. */
K_INLINE bool K_NAME(matmul_turns)(const k_product_sizes *z) { return z->k <= MATMUL_TINY_K; }

/* Reads n columns of b element by element. rows[l] gets the n elements of row l, filled up with
 * zeros. */
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

/* ---- computing the product ------------------------------------------------------------- */

/* Computes n <= LANES columns of y = a b. k is a constant for the compiler, so that it unrolls the
 * loops over k. `dense` says that the rows of b are contiguous. */
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

/* Computes n <= LANES columns of y = a b. The switch has separate code for each k: case k is for
 * matrices b with contiguous rows, and case -k for all other matrices b. (If each kind of b had a
 * switch of its own, compilers would compute the values that both switches need in any case, before
 * the first switch.) */
K_INLINE void K_NAME(matmul_tiny_columns)(const k_product_sizes *z, T *y, const T *a, const T *b,
                                          int64_t n) {
    _Static_assert(MATMUL_TINY_K == 8, "a case for each number of steps");
    switch (z->b_col == 1 ? z->k : -z->k) {
    case 1: K_NAME(matmul_tiny_unrolled)(z, y, a, b, n, 1, true); break;
    case 2: K_NAME(matmul_tiny_unrolled)(z, y, a, b, n, 2, true); break;
    case 3: K_NAME(matmul_tiny_unrolled)(z, y, a, b, n, 3, true); break;
    case 4: K_NAME(matmul_tiny_unrolled)(z, y, a, b, n, 4, true); break;
    case 5: K_NAME(matmul_tiny_unrolled)(z, y, a, b, n, 5, true); break;
    case 6: K_NAME(matmul_tiny_unrolled)(z, y, a, b, n, 6, true); break;
    case 7: K_NAME(matmul_tiny_unrolled)(z, y, a, b, n, 7, true); break;
    case 8: K_NAME(matmul_tiny_unrolled)(z, y, a, b, n, 8, true); break;
    case -1: K_NAME(matmul_tiny_unrolled)(z, y, a, b, n, 1, false); break;
    case -2: K_NAME(matmul_tiny_unrolled)(z, y, a, b, n, 2, false); break;
    case -3: K_NAME(matmul_tiny_unrolled)(z, y, a, b, n, 3, false); break;
    case -4: K_NAME(matmul_tiny_unrolled)(z, y, a, b, n, 4, false); break;
    case -5: K_NAME(matmul_tiny_unrolled)(z, y, a, b, n, 5, false); break;
    case -6: K_NAME(matmul_tiny_unrolled)(z, y, a, b, n, 6, false); break;
    case -7: K_NAME(matmul_tiny_unrolled)(z, y, a, b, n, 7, false); break;
    case -8: K_NAME(matmul_tiny_unrolled)(z, y, a, b, n, 8, false); break;
    }
}

static void K_NAME(matmul_tiny)(const k_product_sizes *z, void *to, const void *left,
                                const void *right) {
    T *y = to;
    const T *a = left;
    const T *b = right;
    if (z->b_col != 1 && !K_NAME(matmul_turns)(z)) {
        K_NAME(matmul_thin)(z, y, y, a, b, 1, 0);
        return;
    }
    for (int64_t rest = z->n; rest > 0; rest -= LANES) {
        K_NAME(matmul_tiny_columns)(z, y, a, b, RG_MIN(rest, LANES));
        y += LANES;
        b += LANES * z->b_col;
    }
}

#undef VECTOR
#undef LANES

#elif defined RG_LOOPS_AS_TEXT && K_IS_FLOAT

/* In the text of the loops all sizes are constants for the compiler, so that it unrolls these
 * loops. The products are rounded before they are added, in any set; but AVX-512 computes some of
 * the products by matmul_thin (see matmul_turns above). */
static void K_NAME(matmul_tiny)(const k_product_sizes *z, void *to, const void *left,
                                const void *right) {
    enum { STRIP = 32 / sizeof(T) };
    T *y = to;
    const T *a = left;
    const T *b = right;
    const bool turns = z->b_row == 1 && z->b_col == z->k
                       && RG_MIN(z->n, STRIP) * z->k <= 2 * (int64_t)(64 / sizeof(T));
    if (K_VECTOR_BYTES == 64 && z->b_col != 1 && !turns) {
        K_NAME(matmul_thin)(z, y, y, a, b, 1, 0);
        return;
    }
    for (int64_t j = 0; j < z->n; j += STRIP) {
        const int64_t n = RG_MIN(z->n - j, STRIP);
        T rows[MATMUL_TINY_K][STRIP] = { { 0 } };
        for (int64_t l = 0; l < z->k; l++)
            for (int64_t c = 0; c < n; c++)
                rows[l][c] = b[l * z->b_row + (j + c) * z->b_col];
        for (int64_t i = 0; i < z->m; i++) {
            T sum[STRIP] = { 0 };
            for (int64_t l = 0; l < z->k; l++)
                for (int c = 0; c < STRIP; c++)
                    sum[c] += a[i * z->a_row + l * z->a_col] * rows[l][c];
            memcpy(y + i * z->y_row + j, sum, (size_t)n * sizeof(T));
        }
    }
}

#else

static void K_NAME(matmul_tiny)(const k_product_sizes *z, void *y, const void *a, const void *b) {
    K_NAME(matmul_thin)(z, y, y, a, b, 1, 0);
}

#endif
