/*
 * loops/slide.h: convolutions with stride 1, and their gradients of w, compiled for each element
 * type and instruction set (see sets.h). An image is processed in strips; a strip is a number of
 * consecutive rows of windows. The part of x that a strip reads is copied together with its
 * padding. In this copy each tap reads at the same offset from every window, so the matrix product
 * reads its operand from the copy, and no matrix of columns is made. The product is computed tile
 * by tile; the sums of a tile are held in registers. loops/conv.h explains taps, and has the
 * functions that copy.
 */
K_SUMS_IN_T;

#define VECTOR K_NAME(conv_vector)
#define LANES  ((int64_t)(K_VECTOR_BYTES / sizeof(T)))

/* ---- the padded copy -------------------------------------------------------------------- */

/* Writes n zeros. May write more, up to the next whole vector. */
K_INLINE void K_NAME(slide_clear)(T *to, int64_t n) {
    for (int64_t i = 0; i < n; i += LANES)
        *(VECTOR *)(to + i) = (VECTOR){ 0 };
}

/* Copies the part of x that a strip reads: `rows` rows of windows, beginning at row `row`, in all
 * channels. Writes zeros for padding. A line of the copy may be written beyond its end, because the
 * next line, or the zeros behind the last channel, are written later. */
static void K_NAME(slide_pad)(const conv_plan *p, T *to, const T *x, int64_t row, int64_t rows) {
    const k_window *z = &p->z->window;
    const int64_t left = RG_MIN(RG_MAX(z->padding[1], 0), p->width);
    const int64_t right = RG_MAX(left, RG_MIN(z->size[1] + z->padding[1], p->width));
    const int64_t top = row - z->padding[0];
    const int64_t deep = rows + (z->kernel[0] - 1) * z->dilation[0];
    const T *limit = x + p->channels * z->size[0] * z->size[1];
    for (int64_t c = 0; c < p->channels; c++)
        for (int64_t r = top; r < top + deep; r++) {
            T *line = to + c * p->plane + (r - top) * p->width;
            if (r < 0 || r >= z->size[0]) {
                K_NAME(slide_clear)(line, p->width);
                continue;
            }
            const T *from = x + (c * z->size[0] + r) * z->size[1] + left - z->padding[1];
            K_NAME(slide_clear)(line, left);
            K_NAME(conv_copy)(line + left, from, right - left, limit);
            K_NAME(slide_clear)(line + right, p->width - right);
        }
    memset(to + p->channels * p->plane, 0, SLIDE_SLACK * sizeof(T));
}

/* sum += a * b, for a vector of elements of b. */
K_INLINE void K_NAME(slide_step)(VECTOR *sum, T a, const T *b) {
    const VECTOR all = a - (VECTOR){ 0 };
    K_NAME(k_multiply_add)(sum, &all, b);
}

/* ---- y = w x + bias ----------------------------------------------------------------------- */

/* Computes y = w x for m channels of y, which are rows of w, and for `vectors` vectors of windows,
 * 1 or 2. The tile is compiled for `rows` rows; m is at most that. x points to the first window in
 * the padded copy. Term l of a sum reads at offset p->at[l] from its window.
 * The second vector begins `second` elements behind the first, in x and in y. */
K_INLINE void K_NAME(slide_tile)(const conv_plan *p, T *y, int64_t y_row, const T *w, const T *x,
                                 int64_t second, int64_t m, const int rows, const int vectors) {
    VECTOR sum[K_TILE_ROWS][2];
    const T *row[K_TILE_ROWS];
    for (int i = 0; i < rows; i++) {
        row[i] = w + RG_MIN(i, m - 1) * p->terms;
        sum[i][0] = (VECTOR){ 0 };
        sum[i][1] = (VECTOR){ 0 };
    }
    for (int64_t l = 0; l < p->terms; l++) {
        const T *seen = x + p->at[l];
        for (int i = 0; i < rows; i++)
            for (int v = 0; v < vectors; v++)
                K_NAME(slide_step)(&sum[i][v], row[i][l], seen + v * second);
    }
    for (int i = 0; i < RG_MIN(m, rows); i++)
        for (int v = 0; v < vectors; v++)
            *(VECTOR *)(y + i * y_row + v * second) = sum[i][v];
}

/* Computes m channels of y for a strip. Here a channel of y has the layout of the padded copy: its
 * rows of windows are p->width elements apart. The rows of windows are computed one by one, or all
 * together with the elements between the rows, whichever takes fewer vectors. */
K_INLINE void K_NAME(slide_rows)(const conv_plan *p, T *y, int64_t y_row, const T *w, const T *x,
                                 int64_t m, int64_t rows_of_windows, const int rows) {
    const int64_t wide = p->z->window.to[1];
    const int64_t each = (wide + LANES - 1) / LANES;
    const int64_t joined = ((rows_of_windows - 1) * p->width + wide + LANES - 1) / LANES;
    const bool join = joined < rows_of_windows * each;
    const int64_t n = join ? joined : rows_of_windows * each;
    for (int64_t v = 0; v < n; v += 2) {
        const int64_t at = join ? v * LANES : v / each * p->width + v % each * LANES;
        const int64_t next = join ? (v + 1) * LANES
                                  : (v + 1) / each * p->width + (v + 1) % each * LANES;
        if (v + 1 < n)
            K_NAME(slide_tile)(p, y + at, y_row, w, x + at, next - at, m, rows, 2);
        else
            K_NAME(slide_tile)(p, y + at, y_row, w, x + at, 0, m, rows, 1);
    }
}

/* Copies the rows of windows of one channel from the layout of the padded copy to y, and adds the
 * bias. The last vector of a row may overwrite elements of the rows that follow, because those rows
 * are written later. But nothing is written beyond the last row. */
K_INLINE void K_NAME(slide_give)(const conv_plan *p, T *to, const T *from, int64_t rows, T bias) {
    const int64_t wide = p->z->window.to[1];
    int64_t r = 0;
    for (; r < rows && (rows - r) * wide >= wide + LANES; r++)
        for (int64_t i = 0; i < wide; i += LANES)
            *(VECTOR *)(to + r * wide + i) = *(const VECTOR *)(from + r * p->width + i) + bias;
    for (; r < rows; r++)
        for (int64_t i = 0; i < wide; i++)
            to[r * wide + i] = from[r * p->width + i] + bias;
}

/* Computes one strip of one group of one image. */
static void K_NAME(slide_forward_part)(const conv_plan *p, int64_t part, T *room) {
    const k_conv *z = p->z;
    const k_window *window = &z->window;
    const int64_t image = part / p->stretches;
    const int64_t group = image % z->groups;
    const int64_t first = part % p->stretches * p->rows;
    const int64_t rows = RG_MIN(p->rows, window->to[0] - first);
    const int64_t pixels = window->to[0] * window->to[1];
    const T *x = (const T *)(const void *)p->x + image * z->in * window->size[0] * window->size[1];
    const T *w = (const T *)(const void *)p->w + group * z->out * p->terms;
    const T *bias = p->bias ? (const T *)(const void *)p->bias + group * z->out : NULL;
    T *y = (T *)(void *)p->y + image * z->out * pixels + first * window->to[1];
    const int64_t y_row = p->rows * p->width + SLIDE_SLACK;
    T *padded = room + K_TILE_ROWS * y_row;
    K_NAME(slide_pad)(p, padded, x, first, rows);
    for (int64_t i = 0; i < z->out; i += K_TILE_ROWS) {
        const int64_t m = RG_MIN(z->out - i, K_TILE_ROWS);
        if (m > K_TILE_ROWS / 2)
            K_NAME(slide_rows)(p, room, y_row, w + i * p->terms, padded, m, rows, K_TILE_ROWS);
        else
            K_NAME(slide_rows)(p, room, y_row, w + i * p->terms, padded, m, rows, K_TILE_ROWS / 2);
        for (int64_t k = 0; k < m; k++)
            K_NAME(slide_give)
        (p, y + (i + k) * pixels, room + k * y_row, rows, bias ? bias[i + k] : 0);
    }
}

static void K_NAME(slide_forward)(void *plan, int64_t begin, int64_t end, int worker) {
    const conv_plan *p = plan;
    for (int64_t part = begin; part < end; part++)
        K_NAME(slide_forward_part)(p, part, (T *)(void *)(p->room + (size_t)worker * p->bytes));
}

/* ---- gw^T = x g^T, summed over a part of the batch ------------------------------------------- */

/* sums += x g^T for m <= rows terms and one or two vectors of channels of g, over all windows of a
 * strip. A term is one tap of one channel of x. g is transposed: it has p->wide channels for each
 * window. */
K_INLINE void K_NAME(slide_weight_tile)(const conv_plan *p, T *sums, const int64_t *at, const T *x,
                                        const T *g, int64_t rows_of_windows, int64_t m,
                                        const int rows, const int vectors) {
    VECTOR sum[K_TILE_ROWS][2];
    const T *row[K_TILE_ROWS];
    const int64_t wide = p->z->window.to[1];
    for (int i = 0; i < rows; i++) {
        row[i] = x + at[RG_MIN(i, m - 1)];
        sum[i][0] = (VECTOR){ 0 };
        sum[i][1] = (VECTOR){ 0 };
    }
    for (int64_t r = 0; r < rows_of_windows; r++)
        for (int64_t l = r * p->width; l < r * p->width + wide; l++) {
            for (int i = 0; i < rows; i++)
                for (int v = 0; v < vectors; v++)
                    K_NAME(slide_step)(&sum[i][v], row[i][l], g + v * LANES);
            g += p->wide;
        }
    for (int i = 0; i < RG_MIN(m, rows); i++)
        for (int v = 0; v < vectors; v++)
            *(VECTOR *)(sums + i * p->wide + v * LANES) += sum[i][v];
}

/* sums += x g^T for all terms and channels, over all windows of a strip. */
static void K_NAME(slide_weight_strip)(const conv_plan *p, T *sums, const T *x, const T *g,
                                       int64_t rows) {
    enum { HALF = K_TILE_ROWS / 2 };
    for (int64_t j = 0; j < p->wide; j += 2 * LANES)
        for (int64_t i = 0; i < p->channels * p->taps; i += K_TILE_ROWS) {
            const int64_t m = RG_MIN(p->channels * p->taps - i, K_TILE_ROWS);
            const int64_t *at = p->at + i;
            T *to = sums + i * p->wide + j;
            if (p->wide - j <= LANES)
                K_NAME(slide_weight_tile)(p, to, at, x, g + j, rows, m, K_TILE_ROWS, 1);
            else if (m > HALF)
                K_NAME(slide_weight_tile)(p, to, at, x, g + j, rows, m, K_TILE_ROWS, 2);
            else
                K_NAME(slide_weight_tile)(p, to, at, x, g + j, rows, m, HALF, 2);
        }
}

static void K_NAME(slide_weight_part)(const conv_plan *plan, int64_t part, T *room) {
    conv_plan p = *plan;
    const k_conv *z = p.z;
    const k_window *window = &z->window;
    const int64_t plane = window->size[0] * window->size[1];
    const int64_t pixels = window->to[0] * window->to[1];
    const int64_t share = part % p.shares;
    const int64_t channel = part / p.shares % p.blocks * p.channels;
    const int64_t group = part / p.shares / p.blocks;
    p.channels = RG_MAX(0, RG_MIN(p.channels, z->in - channel));
    T *sums = (T *)(void *)p.y
              + ((share * z->groups + group) * p.terms + channel * p.taps) * p.wide;
    T *turned = room;
    T *padded = room + p.wide * p.rows * window->to[1];
    memset(sums, 0, (size_t)(p.channels * p.taps * p.wide) * sizeof(T));
    memset(turned, 0, (size_t)(p.wide * p.rows * window->to[1]) * sizeof(T));
    for (int64_t i = z->batch * share / p.shares; i < z->batch * (share + 1) / p.shares; i++) {
        const int64_t image = i * z->groups + group;
        const T *x = (const T *)(const void *)p.x + (image * z->in + channel) * plane;
        const T *g = (const T *)(const void *)p.w + image * z->out * pixels;
        for (int64_t first = 0; first < window->to[0]; first += p.rows) {
            const int64_t rows = RG_MIN(p.rows, window->to[0] - first);
            K_NAME(slide_pad)(&p, padded, x, first, rows);
            p.turn(turned, p.wide, g + first * window->to[1], pixels, 1, z->out,
                   rows * window->to[1], 1);
            K_NAME(slide_weight_strip)(&p, sums, padded, turned, rows);
        }
    }
}

static void K_NAME(slide_weight)(void *plan, int64_t begin, int64_t end, int worker) {
    const conv_plan *p = plan;
    for (int64_t part = begin; part < end; part++)
        K_NAME(slide_weight_part)(p, part, (T *)(void *)(p->room + (size_t)worker * p->bytes));
}

#undef VECTOR
#undef LANES
