/*
 * loops/matmul.h: y = alpha * a b + beta * c, where a b is the product of two matrices, by tiles
 * whose sums are held in registers. A tile has K_TILE_ROWS rows, or half as many, and one or two
 * vectors of columns. Products that are too small for tiles are in loops/matmul_thin.h.
 *
 * Every element of y is summed over k in ascending order, in blocks of K_PRODUCT_STEPS terms,
 * whichever tile the element is in. So its bits don't depend on the tiles. A line is a row of `a`
 * or a column of `b`. A step is an index along k. A panel is a number of lines that are packed step
 * by step: first the elements of all its lines at step 0, then those at step 1, and so on.
 */
K_SUMS_IN_T;

#if K_IS_FLOAT
#define NUMBER T
#else
/* The type in which integers are multiplied and added: it is unsigned, so that they wrap around on
 * overflow. */
#define NUMBER K_UNSIGNED
#endif

#define VECTOR K_NAME(matmul_vector)
#define LANES  ((int)(K_VECTOR_BYTES / sizeof(T)))
/* The number of columns in a panel of b. */
#define PANEL (2 * LANES)

typedef NUMBER VECTOR __attribute__((vector_size(K_VECTOR_BYTES), aligned(sizeof(T)), may_alias));

/* sum += x * b, for a vector of elements of b. */
K_INLINE void K_NAME(matmul_step)(VECTOR *sum, NUMBER x, const NUMBER *b) {
    const VECTOR all = x - (VECTOR){ 0 };
#if K_IS_FLOAT
    K_NAME(k_multiply_add)(sum, &all, b);
#else
    *sum += all * *(const VECTOR *)b;
#endif
}

/* ---- packing lines into panels ------------------------------------------------------- */

/* A vector of floats has as many lanes as a square has rows. */
#if defined(K_SET_IS_AVX512)
#define SQUARE           16
#define SQUARE_ROW       k_lanes
#define SQUARE_TRANSPOSE k_transpose
#elif defined(K_SET_IS_AVX2)
#define SQUARE           8
#define SQUARE_ROW       k_half_lanes
#define SQUARE_TRANSPOSE k_transpose_half
#elif defined(K_SET_IS_NEON)
#define SQUARE           4
#define SQUARE_ROW       k_quarter_lanes
#define SQUARE_TRANSPOSE k_transpose_quarter
#endif

#ifdef SQUARE
/* Transposes a square of floats, and multiplies them by scale. */
K_INLINE void K_NAME(matmul_turn_square)(NUMBER *to, int64_t to_row, const NUMBER *from,
                                         int64_t row, NUMBER scale) {
    SQUARE_ROW v[SQUARE];
    for (int i = 0; i < SQUARE; i++)
        v[i] = (SQUARE_ROW)(scale * *(const VECTOR *)(from + i * row));
    SQUARE_TRANSPOSE(v);
    for (int i = 0; i < SQUARE; i++)
        *(SQUARE_ROW *)(to + i * to_row) = v[i];
}
#endif

/* Transposes n rows of k elements, and multiplies them by `factor`: row j becomes column j of
 * `columns`, whose rows are to_row elements apart. In `rows`, `row` is the distance from one row to
 * the next, and `col` from one element of a row to the next, in elements. */
static void K_NAME(matmul_turn)(void *columns, int64_t to_row, const void *rows, int64_t row,
                                int64_t col, int64_t n, int64_t k, double factor) {
    NUMBER *to = columns;
    const NUMBER *from = rows;
    const NUMBER scale = K_NAME(matmul_number)(factor);
    for (int64_t j = 0; j < n; j += LANES)
        for (int64_t l = 0; l < k; l += LANES) {
#ifdef SQUARE
            if (LANES == SQUARE && col == 1 && n - j >= LANES && k - l >= LANES) {
                const NUMBER *square = from + j * row + l;
                K_NAME(matmul_turn_square)(to + l * to_row + j, to_row, square, row, scale);
                continue;
            }
#endif
            for (int64_t s = l; s < RG_MIN(k, l + LANES); s++)
                for (int64_t r = j; r < RG_MIN(n, j + LANES); r++)
                    to[s * to_row + r] = scale * from[r * row + s * col];
        }
}

/* Packs lines that are contiguous across: the elements of all lines at one step are adjacent. Each
 * panel gets SOME steps, then each panel gets the next SOME steps, and so on. So a cache line that
 * has elements of two panels is still in a cache when it is read for the second panel. */
K_INLINE void K_NAME(matmul_pack_dense)(NUMBER *to, const NUMBER *x, int64_t lines, int64_t k,
                                        int64_t step, const int width) {
    enum { SOME = 16 };
    for (int64_t l = 0; l < k; l += SOME)
        for (int64_t j = 0; j < lines; j += width)
            for (int64_t s = l; s < RG_MIN(k, l + SOME); s++)
                if (lines - j >= width)
                    memcpy(to + j * k + s * width, x + s * step + j, (size_t)width * sizeof(T));
                else
                    memcpy(to + j * k + s * width, x + s * step + j,
                           (size_t)(lines - j) * sizeof(T));
}

/* Packs lines into panels of `width` lines; the last panel is filled up with zeros. Lines are
 * `line` elements apart, and the steps of a line are `step` elements apart. */
K_INLINE void K_NAME(matmul_pack)(NUMBER *to, const NUMBER *x, int64_t lines, int64_t k,
                                  int64_t line, int64_t step, const int width) {
    if (lines % width)
        memset(to + lines / width * width * k, 0, (size_t)(width * k) * sizeof(T));
    if (line == 1) {
        K_NAME(matmul_pack_dense)(to, x, lines, k, step, width);
        return;
    }
    for (int64_t j = 0; j < lines; j += width) {
        const int64_t n = RG_MIN(lines - j, width);
        K_NAME(matmul_turn)(to + j * k, width, x + j * line, line, step, n, k, 1);
    }
}

/* ---- computing one tile ------------------------------------------------------------------ */

/* Prefetches the next ahead->at_once cache lines, or all remaining lines if fewer are left. */
K_INLINE void K_NAME(matmul_fetch)(matmul_prefetch *ahead) {
    for (int64_t lines = RG_MIN(ahead->at_once, ahead->left); lines > 0; lines--) {
        __builtin_prefetch(ahead->next);
        ahead->left--;
        ahead->next += ahead->line_step;
        ahead->in_group++;
        if (ahead->in_group == ahead->group_lines) {
            ahead->in_group = 0;
            ahead->next += ahead->group_step;
        }
    }
}

/* sum = a b, for a tile with m <= rows rows of `a`. If m < rows, row m - 1 is read again in place
 * of each missing row. Also prefetches y, the cache lines of `ahead` (unless `ahead` is NULL), and
 * the next rows of `a` if rows of `a` are contiguous. */
K_INLINE void K_NAME(matmul_tile_sums)(VECTOR sum[][2], const k_product_sizes *z, const NUMBER *y,
                                       const NUMBER *a, const NUMBER *b, matmul_prefetch *ahead,
                                       int64_t m, const int rows, const int vectors) {
    enum { LINE = 64 / sizeof(T) };
    const NUMBER *row[K_TILE_ROWS];
    for (int i = 0; i < rows; i++) {
        row[i] = a + RG_MIN(i, m - 1) * z->a_row;
        sum[i][0] = (VECTOR){ 0 };
        sum[i][1] = (VECTOR){ 0 };
    }
    const int64_t k = z->k;
    int64_t at = 0;
    for (int64_t l = 0; l < k;) {
        for (int v = 0; v < vectors && l / LINE < m; v++)
            __builtin_prefetch(y + l / LINE * z->y_row + v * LANES, 1);
        for (int i = 0; i < rows && z->a_col == 1; i++)
            __builtin_prefetch(row[i] + at + K_TILE_ROWS * z->a_row);
        if (ahead)
            K_NAME(matmul_fetch)(ahead);
        for (int64_t end = RG_MIN(k, l + LINE); l < end; l++) {
            for (int i = 0; i < rows; i++)
                for (int v = 0; v < vectors; v++)
                    K_NAME(matmul_step)(&sum[i][v], row[i][at], b + v * LANES);
            at += z->a_col;
            b += z->b_row;
        }
    }
}

/* y = sum + beta * c, for a complete tile whose rows in y are contiguous. */
K_INLINE void K_NAME(matmul_write_tile)(VECTOR sum[][2], const k_product_sizes *z, NUMBER *y,
                                        const NUMBER *c, NUMBER beta, const int rows,
                                        const int vectors) {
    if (beta != 0)
        for (int i = 0; i < rows; i++)
            for (int v = 0; v < vectors; v++)
                sum[i][v] += beta * *(const VECTOR *)(c + i * z->c_row + v * LANES);
    for (int i = 0; i < rows; i++)
        for (int v = 0; v < vectors; v++)
            *(VECTOR *)(y + i * z->y_row + v * LANES) = sum[i][v];
}

/* y = sum + beta * c, for the first m rows and n columns of a tile. */
K_INLINE void K_NAME(matmul_write_part)(VECTOR sum[][2], const k_product_sizes *z, NUMBER *y,
                                        const NUMBER *c, NUMBER beta, int64_t m, int64_t n,
                                        const int rows, const int vectors) {
    NUMBER s[K_TILE_ROWS * PANEL];
    for (int i = 0; i < rows; i++)
        for (int v = 0; v < vectors; v++)
            *(VECTOR *)(s + i * PANEL + v * LANES) = sum[i][v];
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            /* Adding 0 in place of beta * c would turn -0 into 0. */
            NUMBER element = s[i * PANEL + j];
            if (beta != 0)
                element += beta * c[i * z->c_row + j * z->y_col];
            y[i * z->y_row + j * z->y_col] = element;
        }
}

/* y = alpha * a b + beta * c, for a tile of m rows and n columns. */
K_INLINE void K_NAME(matmul_tile)(const k_product_sizes *z, NUMBER *y, const NUMBER *c,
                                  const NUMBER *a, const NUMBER *b, matmul_prefetch *ahead,
                                  int64_t m, int64_t n, NUMBER alpha, NUMBER beta, const int rows,
                                  const int vectors) {
    VECTOR sum[K_TILE_ROWS][2];
    K_NAME(matmul_tile_sums)(sum, z, y, a, b, ahead, m, rows, vectors);
    if (alpha != 1)
        for (int i = 0; i < rows; i++)
            for (int v = 0; v < vectors; v++)
                sum[i][v] *= alpha;
    if (m == rows && n == vectors * LANES && z->y_col == 1)
        K_NAME(matmul_write_tile)(sum, z, y, c, beta, rows, vectors);
    else
        K_NAME(matmul_write_part)(sum, z, y, c, beta, m, n, rows, vectors);
}

/* ---- panels, blocks and the product ---------------------------------------------------------- */

/* Computes n <= PANEL columns of y, tile by tile. Requires that b can be read in whole vectors,
 * even if n isn't a multiple of LANES. `second` and `third` are distances in `a`, in elements, from
 * the rows of one tile to the rows of the next: `second` from the first tile to the second, `third`
 * from the second to the third. From then on the two distances alternate. */
static void K_NAME(matmul_panel)(const k_product_sizes *z, NUMBER *y, const NUMBER *c,
                                 const NUMBER *a, int64_t second, int64_t third, const NUMBER *b,
                                 matmul_prefetch *ahead, int64_t n, NUMBER alpha, NUMBER beta) {
    enum { HALF = K_TILE_ROWS / 2 };
    for (int64_t i = 0; i < z->m; i += K_TILE_ROWS) {
        int64_t m = RG_MIN(z->m - i, K_TILE_ROWS);
        if (m > HALF) {
            if (n > LANES)
                K_NAME(matmul_tile)(z, y, c, a, b, ahead, m, n, alpha, beta, K_TILE_ROWS, 2);
            else
                K_NAME(matmul_tile)(z, y, c, a, b, ahead, m, n, alpha, beta, K_TILE_ROWS, 1);
        } else {
            if (n > LANES)
                K_NAME(matmul_tile)(z, y, c, a, b, ahead, m, n, alpha, beta, HALF, 2);
            else
                K_NAME(matmul_tile)(z, y, c, a, b, ahead, m, n, alpha, beta, HALF, 1);
        }
        y += K_TILE_ROWS * z->y_row;
        c += K_TILE_ROWS * z->c_row;
        a += second;
        RG_SWAP(second, third);
    }
}

#if K_IS_FLOAT
/* y = a b, or y += a b if `add` is true, for one row and `vectors` vectors of columns. */
K_INLINE void K_NAME(matmul_row_part)(const k_product_sizes *z, T *y, const T *a, const T *b,
                                      bool add, const int vectors) {
    VECTOR sum[4] = { { 0 } };
    for (int64_t l = 0; l < z->k; l++)
        for (int v = 0; v < vectors; v++)
            K_NAME(matmul_step)(&sum[v], a[l * z->a_col], b + l * z->b_row + v * LANES);
    for (int v = 0; v < vectors; v++) {
        VECTOR *to = (VECTOR *)(y + v * LANES);
        if (add)
            sum[v] += *to;
        *to = sum[v];
    }
}

/* y = a b, or y += a b if `add` is true, for all columns of one row. (A tile would also compute
 * rows that don't exist.) */
static void K_NAME(matmul_row)(const k_product_sizes *z, T *y, const T *a, const T *b, bool add) {
    int64_t j = 0;
    for (; z->n - j >= 4 * LANES; j += 4 * LANES)
        K_NAME(matmul_row_part)(z, y + j, a, b + j, add, 4);
    for (; j < z->n; j += LANES)
        K_NAME(matmul_row_part)(z, y + j, a, b + j, add, 1);
}

/* y = a b, or y += a b if `add` is true, without packing. Requires that n is a multiple of LANES,
 * and that y_col and b_col are 1. Attention, convolutions and recurrent layers use this
 * function. */
static void K_NAME(matmul_direct)(const k_product_sizes *z, void *y, const void *a, const void *b,
                                  bool add) {
    const int64_t tile = K_TILE_ROWS * z->a_row;
    if (z->m == 1) {
        K_NAME(matmul_row)(z, y, a, b, add);
        return;
    }
    for (int64_t j = 0; j < z->n; j += PANEL) {
        T *to = (T *)y + j;
        const int64_t n = RG_MIN(z->n - j, PANEL);
        K_NAME(matmul_panel)(z, to, to, a, tile, tile, (const T *)b + j, NULL, n, 1, add);
    }
}
#endif

/* Returns a plan for prefetching the next panel of b while the tiles of the current panel are
 * computed. Each tile prefetches `at_once` cache lines for every 64 / sizeof(T) steps along k, so
 * that the prefetches are spread evenly. */
K_INLINE matmul_prefetch K_NAME(matmul_next_panel)(const k_product_sizes *z) {
    /* The number of cache lines in a row of a panel. */
    enum { LINES = PANEL * sizeof(T) < 64 ? 1 : PANEL * sizeof(T) / 64 };
    const int64_t item = (int64_t)sizeof(T);
    const int64_t lines = LINES * z->k;
    const int64_t times = ((z->m - 1) / K_TILE_ROWS + 1) * ((z->k - 1) * item / 64 + 1);
    matmul_prefetch ahead = { .lines = lines, .at_once = (lines - 1) / times + 1 };
    if (z->b_col == 1) {
        ahead.line_step = 64;
        ahead.group_lines = LINES;
        ahead.group_step = z->b_row * item - LINES * 64;
    } else {
        ahead.line_step = z->b_col * item;
        ahead.group_lines = PANEL;
        ahead.group_step = 64 - PANEL * ahead.line_step;
    }
    return ahead;
}

/* y = alpha * a b + beta * c for one block. A block is some rows of `a` and some steps along k,
 * which fit into a cache together; it has all columns of b. The rows of `a` are packed if b has
 * more than MATMUL_WIDE columns. `far` is set if b is too large for the cache, and the product has
 * enough rows for prefetching to pay. In that case the next panel of b is prefetched while the
 * current panel is multiplied. `then` is the panel to prefetch while the last panel is multiplied:
 * the first panel of the next block, or NULL. A panel of b is packed in three cases: if
 * neighbouring columns of b aren't adjacent in memory (b_col isn't 1), if the panel's width is
 * neither PANEL nor LANES, or if `far` is set and the block has at least MATMUL_MANY rows. */
static void K_NAME(matmul_block)(k_product_sizes z, NUMBER *y, const NUMBER *c, const NUMBER *a,
                                 const NUMBER *b, const NUMBER *then, bool far, NUMBER alpha,
                                 NUMBER beta, NUMBER *panel) {
    const int64_t b_row = z.b_row;
    int64_t second = K_TILE_ROWS * z.a_row;
    int64_t third = second;
    matmul_prefetch ahead = K_NAME(matmul_next_panel)(&z);
    if (z.n > MATMUL_WIDE) {
        /* A panel of a has the rows of two tiles. */
        NUMBER *packed = panel + PANEL * z.k;
        K_NAME(matmul_pack)(packed, a, z.m, z.k, z.a_row, z.a_col, 2 * K_TILE_ROWS);
        a = packed;
        z.a_row = 1;
        z.a_col = 2 * K_TILE_ROWS;
        second = K_TILE_ROWS;
        third = 2 * K_TILE_ROWS * z.k - K_TILE_ROWS;
    }
    for (int64_t j = 0; j < z.n; j += PANEL) {
        const int64_t n = RG_MIN(z.n - j, PANEL);
        const bool whole = n == PANEL || n == LANES;
        const bool packs = (far && z.m >= MATMUL_MANY) || z.b_col != 1 || !whole;
        const NUMBER *next = z.n - j > PANEL ? b + PANEL * z.b_col : then;
        ahead.next = (const char *)next;
        ahead.left = ahead.lines;
        ahead.in_group = 0;
        const NUMBER *columns = packs ? panel : b;
        matmul_prefetch *fetched = far && next ? &ahead : NULL;
        if (packs)
            K_NAME(matmul_pack)(panel, b, n, z.k, z.b_col, b_row, PANEL);
        z.b_row = packs ? PANEL : b_row;
        K_NAME(matmul_panel)(&z, y, c, a, second, third, columns, fetched, n, alpha, beta);
        y += PANEL * z.y_col;
        c += PANEL * z.y_col;
        b += PANEL * z.b_col;
    }
}

/* y = alpha * a b + beta * c. The scratch memory `room` has space for a panel of b and, if `a` is
 * packed, for the rows of `a` in a block (see matmul_lines in matmul.c). If `room` is NULL,
 * matmul_thin computes the product. */
static void K_NAME(matmul_product)(const k_product_sizes *z, void *to, const void *add,
                                   const void *left, const void *right, double alpha_given,
                                   double beta_given, void *room) {
    NUMBER *y = to;
    const NUMBER *c = add;
    const NUMBER *a = left;
    const NUMBER *b = right;
    const NUMBER alpha = K_NAME(matmul_number)(alpha_given);
    const NUMBER beta = K_NAME(matmul_number)(beta_given);
    if (!room) {
        K_NAME(matmul_thin)(z, y, c, a, b, alpha, beta);
        return;
    }
    const bool far = z->m >= MATMUL_SOME && z->k * z->n > MATMUL_STAYS;
    /* If k is small, most of the time is spent writing y. Then a block has only the rows of two
     * tiles, so that y is written a few whole rows at a time. */
    const int64_t most = z->k <= 4 ? 2 * K_TILE_ROWS : MATMUL_MC;
    for (int64_t i = 0; i < z->m; i += most)
        for (int64_t l = 0; l < z->k; l += K_PRODUCT_STEPS) {
            const bool first = l == 0;
            k_product_sizes part = *z;
            part.m = RG_MIN(z->m - i, most);
            part.k = RG_MIN(z->k - l, K_PRODUCT_STEPS);
            part.c_row = first ? z->c_row : z->y_row;
            NUMBER *y_rows = y + i * z->y_row;
            const NUMBER *begin = first ? c + i * z->c_row : y_rows;
            const NUMBER share = first ? beta : 1;
            const NUMBER *a_rows = a + i * z->a_row + l * z->a_col;
            const NUMBER *from = b + l * z->b_row;
            const NUMBER *then = l + part.k < z->k ? from + part.k * z->b_row : NULL;
            K_NAME(matmul_block)
            (part, y_rows, begin, a_rows, from, then, far, alpha, share, room);
        }
}

#undef NUMBER
#undef VECTOR
#undef LANES
#undef PANEL
#undef SQUARE
#undef SQUARE_ROW
#undef SQUARE_TRANSPOSE
