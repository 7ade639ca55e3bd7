/*
 * loops/matmul_thin.h: products with few rows, or with few multiplications in all, without tiles.
 * They are computed by dot products if both factors are contiguous along k, and k is at least four
 * vectors. Otherwise rows of b, times elements of `a`, are added to rows of y. Tiles are in
 * loops/matmul.h.
 *
 * A dot product is summed in vectors of 32 bytes, whose lanes are added at the end. Without dot
 * products, every element of y is summed over k in ascending order.
 */
K_SUMS_IN_T;

#if K_IS_FLOAT
#define NUMBER T
#else
/* The type in which integers are multiplied and added: it is unsigned, so that they wrap around on
 * overflow. */
#define NUMBER K_UNSIGNED
#endif

#define VECTOR K_NAME(matmul_narrow)
#define LANES  ((int)(32 / sizeof(T)))

typedef NUMBER VECTOR __attribute__((vector_size(32), aligned(sizeof(T)), may_alias));

/* Returns alpha or beta as a NUMBER. For integers, x is converted to a signed number first, since C
 * doesn't define the conversion of a negative double to an unsigned type. */
K_INLINE NUMBER K_NAME(matmul_number)(double x) {
#if K_IS_FLOAT
    return (T)x;
#else
    return (NUMBER)(int64_t)x;
#endif
}

/* sum += a * b, for a vector of elements. */
K_INLINE void K_NAME(matmul_narrow_step)(VECTOR *sum, const NUMBER *a, const NUMBER *b) {
#if K_IS_FLOAT
    K_NAME(k_multiply_add_narrow)(sum, a, b);
#else
    *sum += *(const VECTOR *)a * *(const VECTOR *)b;
#endif
}

/* ---- dot products ------------------------------------------------------------------ */

/* Returns the sum of the lanes of both vectors, plus the products a[l] * b[l] for l from `whole` to
 * k - 1. */
K_INLINE NUMBER K_NAME(matmul_dot_total)(const VECTOR sum[2], const NUMBER *a, const NUMBER *b,
                                         int64_t whole, int64_t k) {
    VECTOR both = sum[0] + sum[1];
    NUMBER total = 0;
    for (int lane = 0; lane < LANES; lane++)
        total += both[lane];
    for (int64_t l = whole; l < k; l++)
        total += a[l] * b[l];
    return total;
}

/* y[i][j] += alpha times a dot product, for several rows and columns at once, so that each element
 * of a and b that is loaded serves several dot products. The rows are the `rows` rows that begin at
 * row i. The columns are the `columns` columns j, j + share, j + 2 * share, and so on. The next
 * call computes the columns j + 1, j + 1 + share, and so on; so the processor's prefetcher
 * recognises the pattern in which b is read. Vectors of 32 bytes wait less for loads than longer
 * vectors do. */
K_INLINE void K_NAME(matmul_dots)(const k_product_sizes *z, NUMBER *y, const NUMBER *a,
                                  const NUMBER *b, NUMBER alpha, int64_t i, int64_t j,
                                  int64_t share, const int rows, const int columns) {
    VECTOR sum[2][MATMUL_STREAMS][2] = { { { { 0 } } } };
    const int64_t apart = share * z->b_col;
    const int64_t whole = z->k / (2 * LANES) * (2 * LANES);
    y += i * z->y_row + j * z->y_col;
    a += i * z->a_row;
    b += j * z->b_col;
    for (int64_t l = 0; l < whole; l += 2 * LANES)
        for (int v = 0; v < 2; v++)
            for (int s = 0; s < columns; s++)
                for (int r = 0; r < rows; r++) {
                    const int64_t at = l + v * LANES;
                    const NUMBER *row = a + r * z->a_row + at;
                    K_NAME(matmul_narrow_step)(&sum[r][s][v], row, b + s * apart + at);
                }
    for (int s = 0; s < columns; s++) {
        for (int r = 0; r < rows; r++)
            y[r * z->y_row] +=
                alpha * K_NAME(matmul_dot_total)(sum[r][s], a + r * z->a_row, b, whole, z->k);
        b += apart;
        y += share * z->y_col;
    }
}

/* y += alpha * a b by dot products: MATMUL_STREAMS columns at once, and the columns that are left
 * one by one. Requires that both factors are contiguous along k. */
static void K_NAME(matmul_all_dots)(const k_product_sizes *z, NUMBER *y, const NUMBER *a,
                                    const NUMBER *b, NUMBER alpha) {
    /* PAIR rows are computed together. With vectors of 32 bytes, the sums of two rows would fill
     * all sixteen registers of AVX2. */
    enum { PAIR = K_VECTOR_BYTES == 64 ? 2 : 1 };
    const int64_t share = z->n / MATMUL_STREAMS;
    for (int64_t j = 0; j < share; j++) {
        int64_t i = 0;
        for (; i + PAIR <= z->m; i += PAIR)
            K_NAME(matmul_dots)(z, y, a, b, alpha, i, j, share, PAIR, MATMUL_STREAMS);
        for (; i < z->m; i++)
            K_NAME(matmul_dots)(z, y, a, b, alpha, i, j, share, 1, MATMUL_STREAMS);
    }
    for (int64_t j = share * MATMUL_STREAMS; j < z->n; j++)
        for (int64_t i = 0; i < z->m; i++)
            K_NAME(matmul_dots)(z, y, a, b, alpha, i, j, 0, 1, 1);
}

/* ---- rows of b, times elements of a, added to rows of y -------------------------------------- */

/* y += alpha * a b, for the terms l to l + 3 of the sums. Requires that rows of b and y are
 * contiguous. The additions are in the same order as for one term at a time, but y is loaded and
 * stored less often. */
K_INLINE void K_NAME(matmul_four_steps)(const k_product_sizes *z, NUMBER *y, const NUMBER *a,
                                        const NUMBER *b, NUMBER alpha, int64_t l) {
    const NUMBER *from = b + l * z->b_row;
    for (int64_t i = 0; i < z->m; i++) {
        NUMBER *restrict row = y + i * z->y_row;
        NUMBER v[4];
        for (int s = 0; s < 4; s++)
            v[s] = alpha * a[i * z->a_row + (l + s) * z->a_col];
        for (int64_t j = 0; j < z->n; j++)
            row[j] = row[j] + v[0] * from[j] + v[1] * from[z->b_row + j]
                     + v[2] * from[2 * z->b_row + j] + v[3] * from[3 * z->b_row + j];
    }
}

/* y += alpha * a b, for term l of the sums. */
K_INLINE void K_NAME(matmul_one_step)(const k_product_sizes *z, NUMBER *y, const NUMBER *a,
                                      const NUMBER *b, NUMBER alpha, int64_t l) {
    const NUMBER *from = b + l * z->b_row;
    const bool dense = z->b_col == 1 && z->y_col == 1;
    for (int64_t i = 0; i < z->m; i++) {
        NUMBER *row = y + i * z->y_row;
        NUMBER v = alpha * a[i * z->a_row + l * z->a_col];
        if (dense)
            for (int64_t j = 0; j < z->n; j++)
                row[j] += v * from[j];
        else
            for (int64_t j = 0; j < z->n; j++)
                row[j * z->y_col] += v * from[j * z->b_col];
    }
}

/* y = alpha * a b + beta * c, without packing. */
static void K_NAME(matmul_thin)(const k_product_sizes *z, NUMBER *y, const NUMBER *c,
                                const NUMBER *a, const NUMBER *b, NUMBER alpha, NUMBER beta) {
    for (int64_t i = 0; i < z->m; i++)
        for (int64_t j = 0; j < z->n; j++)
            y[i * z->y_row + j * z->y_col] = beta == 0 ? 0 : beta * c[i * z->c_row + j * z->y_col];
    if (z->b_row == 1 && z->a_col == 1 && z->k >= 4 * LANES) {
        K_NAME(matmul_all_dots)(z, y, a, b, alpha);
        return;
    }
    int64_t l = 0;
    for (; l + 4 <= z->k && z->b_col == 1 && z->y_col == 1; l += 4)
        K_NAME(matmul_four_steps)(z, y, a, b, alpha, l);
    for (; l < z->k; l++)
        K_NAME(matmul_one_step)(z, y, a, b, alpha, l);
}

#undef NUMBER
#undef VECTOR
#undef LANES
