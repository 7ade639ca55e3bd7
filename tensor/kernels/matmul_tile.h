/*
 * matmul_tile.h: the product y = alpha a b + beta y of one matrix, for one type
 * and one instruction set. matmul.c includes it for each pair, having defined
 *
 *   T, SUFFIX     the type, and what to put behind the functions' names
 *   BYTES         of a vector; FMA(a, b, c) = a b + c on vectors
 *   MR            rows of a register tile, which is two vectors wide
 *   MASK_LOAD, MASK_STORE    of the first few elements of a vector, if there are such instructions
 *
 * Every element is a sum over k in rising order (of vectors and then their
 * elements in a dot product), whatever the sizes of the rest.
 */
#define V       RG_PASTE(tile_vector_, SUFFIX)
#define NAME(x) RG_PASTE(tile_##x##_, SUFFIX)
#define W       ((int)(BYTES / sizeof(T)))
#define NR      (2 * W)

typedef T V __attribute__((vector_size(BYTES), aligned(sizeof(T)), may_alias));

/* y = alpha a b + beta y for few rows, or a few thousand steps in all: in place. */
static void NAME(thin)(const matmul_sizes *z, T *y, const T *a, const T *b, T alpha, T beta) {
    for (int64_t i = 0; i < z->m; i++) {
        T *row = y + i * z->y_row;
        if (beta == 0) for (int64_t j = 0; j < z->n; j++) row[j * z->y_col] = 0;
        else if (beta != 1) for (int64_t j = 0; j < z->n; j++) row[j * z->y_col] *= beta;
    }
    if (z->b_row == 1 && z->a_col == 1 && z->k >= 4 * W) {       /* dot products of rows */
        int64_t whole = z->k / (4 * W) * (4 * W);
        for (int64_t j = 0; j < z->n; j++)
            for (int64_t i = 0; i < z->m; i++) {
                const T *p = a + i * z->a_row, *q = b + j * z->b_col;
                V sum[4] = { { 0 } };
                for (int64_t l = 0; l < whole; l += 4 * W)
                    for (int v = 0; v < 4; v++)
                        sum[v] = FMA(*(const V *)(p + l + v * W), *(const V *)(q + l + v * W), sum[v]);
                T total = 0;
                sum[0] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
                for (int v = 0; v < W; v++) total += sum[0][v];
                for (int64_t l = whole; l < z->k; l++) total += p[l] * q[l];
                y[i * z->y_row + j * z->y_col] += alpha * total;
            }
        return;
    }
    for (int64_t l = 0; l < z->k; l++)
        for (int64_t i = 0; i < z->m; i++) {
            T *row = y + i * z->y_row, v = alpha * a[i * z->a_row + l * z->a_col];
            const T *from = b + l * z->b_row;
            if (z->b_col == 1 && z->y_col == 1) for (int64_t j = 0; j < z->n; j++) row[j] += v * from[j];
            else for (int64_t j = 0; j < z->n; j++) row[j * z->y_col] += v * from[j * z->b_col];
        }
}

/* n <= W elements, `step` apart, as a vector that is filled up with zeros. */
static inline V NAME(load)(const T *p, int64_t n, int64_t step) {
#ifdef MASK_LOAD
    if (step == 1) return (V)MASK_LOAD((1u << n) - 1, p);
#endif
    T v[W] = { 0 };
    for (int64_t j = 0; j < n; j++) v[j] = p[j * step];
    return *(V *)v;
}

static inline void NAME(store)(T *p, int64_t n, V v) {
#ifdef MASK_STORE
    MASK_STORE((void *)p, (1u << n) - 1, v);
#else
    for (int64_t j = 0; j < n; j++) p[j] = v[j];
#endif
}

/* y = a b, with a row of y in one register. */
static void NAME(tiny)(const matmul_sizes *z, T *y, const T *a, const T *b) {
    V rows[MATMUL_TINY_K];
    for (int64_t l = 0; l < z->k; l++) rows[l] = NAME(load)(b + l * z->b_row, z->n, z->b_col);
    for (int64_t i = 0; i < z->m; i++) {
        V sum = { 0 };
        for (int64_t l = 0; l < z->k; l++) sum += a[i * z->a_row + l * z->a_col] * rows[l];
        NAME(store)(y + i * z->y_row, z->n, sum);
    }
}

/* Panels of `width` rows, each panel step by step along k; zeros beyond the last row. */
static void NAME(pack)(T *to, int width, const T *from, int64_t rows, int64_t k, int64_t row, int64_t col) {
    for (int64_t r = 0; r < rows; r += width, to += width * k, from += width * row) {
        int64_t n = RG_MIN(rows - r, width);
        if (n < width) memset(to, 0, (size_t)(width * k) * sizeof(T));
        if (row == 1) {
            for (int64_t l = 0; l < k; l++) memcpy(to + l * width, from + l * col, (size_t)n * sizeof(T));
        } else {
            for (int64_t i = 0; i < n; i++)
                for (int64_t l = 0; l < k; l++) to[l * width + i] = from[i * row + l * col];
        }
    }
}

static inline __attribute__((always_inline))
void NAME(tile)(int64_t k, const T *a, const T *b, T *y, int64_t y_row, int64_t m, int64_t n, T alpha, T beta, const int vectors) {
    V sum[MR][2] = { { { 0 } } };
    for (int64_t l = 0; l < k; l++, a += MR, b += NR)
        for (int i = 0; i < MR; i++)
            for (int v = 0; v < vectors; v++)
                sum[i][v] = FMA(a[i] - (V){ 0 }, *(const V *)(b + v * W), sum[i][v]);
    if (m == MR && n == vectors * W) {
        for (int i = 0; i < MR; i++)
            for (int v = 0; v < vectors; v++) {
                V *to = (V *)(y + i * y_row + v * W);
                *to = beta == 0 ? alpha * sum[i][v] : alpha * sum[i][v] + beta * *to;
            }
    } else {
        const T *s = (const T *)sum;
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < n; j++)
                y[i * y_row + j] = alpha * s[i * NR + j] + (beta == 0 ? 0 : beta * y[i * y_row + j]);
    }
}

/* room: for MATMUL_KC steps of MATMUL_MC rows of a and MATMUL_NC columns of b, both packed. */
static void NAME(product)(const matmul_sizes *z, void *y_, const void *a_, const void *b_, double alpha_, double beta_, void *room) {
    T *y = y_, alpha = MATMUL_NUMBER(alpha_), beta_first = MATMUL_NUMBER(beta_);
    const T *a = a_, *b = b_;
    if (!room) {
        if (z->n <= W && z->k <= MATMUL_TINY_K && z->y_col == 1 && alpha == 1 && beta_first == 0) NAME(tiny)(z, y, a, b);
        else NAME(thin)(z, y, a, b, alpha, beta_first);
        return;
    }
    T *pa = room, *pb = pa + RG_MIN(z->k, MATMUL_KC) * matmul_panels(z->m, MATMUL_MC);
    for (int64_t jc = 0; jc < z->n; jc += MATMUL_NC)
        for (int64_t lc = 0; lc < z->k; lc += MATMUL_KC) {
            int64_t nc = RG_MIN(z->n - jc, MATMUL_NC), kc = RG_MIN(z->k - lc, MATMUL_KC);
            T beta = lc ? 1 : beta_first;
            NAME(pack)(pb, NR, b + lc * z->b_row + jc * z->b_col, nc, kc, z->b_col, z->b_row);
            for (int64_t ic = 0; ic < z->m; ic += MATMUL_MC) {
                int64_t mc = RG_MIN(z->m - ic, MATMUL_MC);
                NAME(pack)(pa, MR, a + ic * z->a_row + lc * z->a_col, mc, kc, z->a_row, z->a_col);
                for (int64_t j = 0; j < nc; j += NR)
                    for (int64_t i = 0; i < mc; i += MR) {
                        T *to = y + (ic + i) * z->y_row + jc + j;
                        int64_t m = RG_MIN(mc - i, MR), n = RG_MIN(nc - j, NR);
                        if (n > W) NAME(tile)(kc, pa + i * kc, pb + j * kc, to, z->y_row, m, n, alpha, beta, 2);
                        else NAME(tile)(kc, pa + i * kc, pb + j * kc, to, z->y_row, m, n, alpha, beta, 1);
                    }
            }
        }
}

#undef V
#undef NAME
#undef W
#undef NR
#undef T
#undef SUFFIX
#undef FMA
#undef MASK_LOAD
#undef MASK_STORE
