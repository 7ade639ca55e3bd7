/*
 * loops/conv.h: a task of a convolution, or of one of its gradients, by im2col, compiled for each
 * element type and instruction set (see sets.h). A tap is one element of the kernel. The matrix of
 * columns (im2col) has one row for each tap and channel. The row has the elements of x that the tap
 * reads, one for each pixel of y. For the gradient of x, the rows of such a matrix are added to the
 * elements of gx that the taps read (col2im). A stretch is a number of consecutive pixels of y.
 */
K_SUMS_IN_T;

#define VECTOR K_NAME(conv_vector)
#define LANES  ((int64_t)(K_VECTOR_BYTES / sizeof(T)))

typedef T VECTOR __attribute__((vector_size(K_VECTOR_BYTES), aligned(sizeof(T)), may_alias));
/* A vector of half as many elements, for rows of small images, which are often shorter than a whole
 * vector. */
#define HALF  K_NAME(conv_half)
#define FEWER (LANES / 2)

typedef T HALF __attribute__((vector_size(K_VECTOR_BYTES / 2), aligned(sizeof(T)), may_alias));

/* ---- copying and adding contiguous pixels ---------------------------------------------------- */

/* Copies n elements from `from` to `to`. May overwrite the elements of `to` behind the first n, up
 * to a whole vector. Reads nothing from the address `limit` on. */
K_INLINE void K_NAME(conv_copy)(T *to, const T *from, int64_t n, const T *limit) {
    if (n <= FEWER && limit - from >= FEWER) {
        *(HALF *)to = *(const HALF *)from;
        return;
    }
    if (limit - from >= (n + LANES - 1) / LANES * LANES) {
        for (int64_t i = 0; i < n; i += LANES)
            *(VECTOR *)(to + i) = *(const VECTOR *)(from + i);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        to[i] = from[i];
}

/* to[i] += from[i], for i < n */
K_INLINE void K_NAME(conv_add)(T *to, const T *from, int64_t n) {
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        *(VECTOR *)(to + i) += *(const VECTOR *)(from + i);
    if (i + FEWER <= n) {
        *(HALF *)(to + i) += *(const HALF *)(from + i);
        i += FEWER;
    }
    for (; i < n; i++)
        to[i] += from[i];
}

/* ---- one row of the matrix of columns -----------------------------------------------------------
 * The row has the elements that one tap of one channel reads, for the n pixels of y that begin at
 * pixel `from`. `down` and `across` describe the tap along the two dims (see k_tap in window.h). */

/* Returns whether three conditions hold: the n pixels are whole rows of y, the tap reads no padding
 * for any of these pixels, and the stride along the last dim is 1. */
K_INLINE bool K_NAME(conv_sees_all)(const k_window *z, k_tap down, k_tap across, int64_t from,
                                    int64_t n) {
    const int64_t width = z->to[1];
    return z->stride[1] == 1 && from % width == 0 && n % width == 0 && across.begin <= 0
           && across.end >= width && from / width >= down.begin && (from + n) / width <= down.end;
}

/* Writes one element to `to` for each of the n pixels: the element of `plane`, one channel's image,
 * that the tap reads, or 0 if the tap is in the padding. May overwrite the elements of `to` behind
 * the first n, up to a whole vector. */
static void K_NAME(conv_see)(T *to, const T *plane, const k_window *z, k_tap down, k_tap across,
                             int64_t from, int64_t n) {
    const int64_t stride = z->stride[1];
    const int64_t width = z->to[1];
    const T *limit = plane + z->size[0] * z->size[1];
    int64_t row = from / width;
    int64_t col = from % width;
    const T *seen = plane + (row * z->stride[0] + down.shift) * z->size[1] + across.shift;
    if (K_NAME(conv_sees_all)(z, down, across, from, n)) {
        for (T *end = to + n; to < end; to += width) {
            K_NAME(conv_copy)(to, seen, width, limit);
            seen += z->stride[0] * z->size[1];
        }
        return;
    }
    for (T *end = to + n; to < end; row++) {
        const int64_t run = RG_MIN(end - to, width - col);
        const int64_t first = RG_MIN(RG_MAX(across.begin - col, 0), run);
        const int64_t last = RG_MIN(RG_MAX(across.end - col, first), run);
        if (row < down.begin || row >= down.end) {
            for (int64_t i = 0; i < run; i += LANES)
                *(VECTOR *)(to + i) = (VECTOR){ 0 };
        } else if (stride == 1) {
            if (first)
                *(VECTOR *)to = (VECTOR){ 0 };
            for (int64_t i = LANES; i < first; i++)
                to[i] = 0;
            if (last > first) /* If last == first, `seen` may point before the plane. */
                K_NAME(conv_copy)(to + first, seen + col + first, last - first, limit);
            for (int64_t i = last; i < run; i++)
                to[i] = 0;
        } else {
            for (int64_t i = 0; i < first; i++)
                to[i] = 0;
            for (int64_t i = first; i < last; i++)
                to[i] = seen[(col + i) * stride];
            for (int64_t i = last; i < run; i++)
                to[i] = 0;
        }
        seen += z->stride[0] * z->size[1];
        to += run;
        col = 0;
    }
}

/* The reverse of conv_see (col2im): adds the n elements of a row of the matrix of columns to the
 * elements of `plane`, one channel's image, from which conv_see would read them. Elements that
 * stand for padding are ignored. */
static void K_NAME(conv_return)(T *plane, const T *from_pixel, const k_window *z, k_tap down,
                                k_tap across, int64_t from, int64_t n) {
    const int64_t stride = z->stride[1];
    const int64_t width = z->to[1];
    int64_t row = from / width;
    int64_t col = from % width;
    if (K_NAME(conv_sees_all)(z, down, across, from, n)) {
        T *seen = plane + (row * z->stride[0] + down.shift) * z->size[1] + across.shift;
        for (const T *end = from_pixel + n; from_pixel < end; from_pixel += width) {
            K_NAME(conv_add)(seen, from_pixel, width);
            seen += z->stride[0] * z->size[1];
        }
        return;
    }
    for (const T *end = from_pixel + n; from_pixel < end; row++) {
        const int64_t run = RG_MIN(end - from_pixel, width - col);
        const int64_t first = RG_MIN(RG_MAX(across.begin - col, 0), run);
        const int64_t last = RG_MIN(RG_MAX(across.end - col, first), run);
        if (row >= down.begin && row < down.end && first < last) {
            T *seen = plane + (row * z->stride[0] + down.shift) * z->size[1]
                      + (col + first) * stride + across.shift;
            if (stride == 1)
                K_NAME(conv_add)(seen, from_pixel + first, last - first);
            else
                for (int64_t i = first; i < last; i++)
                    seen[(i - first) * stride] += from_pixel[i];
        }
        from_pixel += run;
        col = 0;
    }
}

/* Writes `count` rows of the matrix of columns, beginning at row `first`, for n pixels from pixel
 * `from` on. Fills up the last vector of each row with zeros. x has the channels of one group of
 * one image. */
static void K_NAME(conv_columns)(const conv_plan *p, T *to, const T *x, int64_t first,
                                 int64_t count, int64_t from, int64_t n) {
    const k_window *z = &p->z->window;
    const int64_t plane = z->size[0] * z->size[1];
    for (int64_t i = 0; i < count; i++) {
        const int64_t tap = (first + i) % p->taps;
        const k_tap down = k_tap_at(z, 0, tap / z->kernel[1]);
        const k_tap across = k_tap_at(z, 1, tap % z->kernel[1]);
        const T *channel = x + (first + i) / p->taps * plane;
        T *row = to + i * p->stretch;
        K_NAME(conv_see)(row, channel, z, down, across, from, n);
        for (int64_t j = n; j % LANES; j++)
            row[j] = 0;
    }
}

/* ---- y = w c + bias, where c is the matrix of columns ----------------------------------- */

/* Sets the first n elements of each row of y to the row's bias. */
K_INLINE void K_NAME(conv_begin)(T *y, int64_t y_row, int64_t rows, int64_t n, const T *bias) {
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < n; j++)
            y[i * y_row + j] = bias[i];
}

/* y = w c, or y += w c if `add` is true, for n pixels, where c is a part of the matrix of columns:
 * `terms` of its rows. Requires that n is a multiple of LANES. */
static void K_NAME(conv_multiply)(const conv_plan *p, T *y, int64_t y_row, const T *w,
                                  const T *columns, int64_t n, int64_t terms, bool add) {
    for (int64_t i = 0; i < p->z->out && n; i += CONV_ROWS) {
        const k_product_sizes sizes = { .m = RG_MIN(p->z->out - i, CONV_ROWS),
                                        .n = n,
                                        .k = terms,
                                        .y_row = y_row,
                                        .y_col = 1,
                                        .a_row = p->terms,
                                        .a_col = 1,
                                        .b_row = p->stretch,
                                        .b_col = 1,
                                        .c_row = y_row };
        p->product(&sizes, y + i * y_row, w + i * p->terms, columns, add);
    }
}

/* Computes one stretch of one group of one image. The last pixels, if they don't fill a vector, are
 * computed in `rest` and then copied to y. */
static void K_NAME(conv_forward_part)(const conv_plan *p, int64_t part, T *room) {
    const k_conv *z = p->z;
    const int64_t image = part / p->stretches;
    const int64_t group = image % z->groups;
    const int64_t from = part % p->stretches * p->stretch;
    const int64_t n = RG_MIN(p->stretch, p->pixels - from);
    const int64_t whole = n / LANES * LANES;
    const T *x = (const T *)(const void *)p->x
                 + image * z->in * z->window.size[0] * z->window.size[1];
    const T *w = (const T *)(const void *)p->w + group * z->out * p->terms;
    const T *bias = p->bias ? (const T *)(const void *)p->bias + group * z->out : NULL;
    T *y = (T *)(void *)p->y + image * z->out * p->pixels + from;
    T *rest = room;
    T *columns = room + z->out * CONV_ROUND;
    if (bias) {
        K_NAME(conv_begin)(y, p->pixels, z->out, whole, bias);
        K_NAME(conv_begin)(rest, LANES, z->out, LANES, bias);
    }
    for (int64_t l = 0; l < p->terms; l += CONV_TERMS) {
        const int64_t terms = RG_MIN(p->terms - l, CONV_TERMS);
        const bool add = bias || l;
        K_NAME(conv_columns)(p, columns, x, l, terms, from, n);
        K_NAME(conv_multiply)(p, y, p->pixels, w + l, columns, whole, terms, add);
        if (whole < n)
            K_NAME(conv_multiply)(p, rest, LANES, w + l, columns + whole, LANES, terms, add);
    }
    for (int64_t i = 0; i < z->out; i++)
        for (int64_t j = whole; j < n; j++)
            y[i * p->pixels + j] = rest[i * LANES + j - whole];
}

static void K_NAME(conv_forward)(void *plan, int64_t begin, int64_t end, int worker) {
    const conv_plan *p = plan;
    for (int64_t part = begin; part < end; part++)
        K_NAME(conv_forward_part)(p, part, (T *)(void *)(p->room + (size_t)worker * p->bytes));
}

/* ---- gx: c = w^T g; each row of c is added to the elements of gx that its tap reads ---------- */

/* Returns a matrix with n pixels of each row of g, from pixel `from` on, which can be read in whole
 * vectors. If n is a multiple of LANES, the matrix is a part of g itself. Otherwise the pixels are
 * copied to `copy`, the rows of the copy are filled up with zeros to whole vectors, and `copy` is
 * returned. Sets *row to the distance from one row of the matrix to the next, in elements. */
K_INLINE const T *K_NAME(conv_pixels)(const conv_plan *p, T *copy, const T *g, int64_t from,
                                      int64_t n, int64_t *row) {
    *row = p->pixels;
    if (n % LANES == 0)
        return g + from;
    *row = p->stretch;
    for (int64_t i = 0; i < p->z->out; i++) {
        const T *limit = g + p->z->out * p->pixels;
        T *to = copy + i * p->stretch;
        K_NAME(conv_copy)(to, g + i * p->pixels + from, n, limit);
        for (int64_t j = n; j % LANES; j++)
            to[j] = 0;
    }
    return copy;
}

/* Computes the gradient of x for a block of channels of one group of one image. */
static void K_NAME(conv_input_part)(const conv_plan *p, int64_t part, T *room) {
    const k_conv *z = p->z;
    const k_window *window = &z->window;
    const int64_t plane = window->size[0] * window->size[1];
    const int64_t image = part / p->blocks;
    const int64_t channel = part % p->blocks * p->channels;
    const int64_t channels = RG_MAX(0, RG_MIN(p->channels, z->in - channel));
    const T *g = (const T *)(const void *)p->x + image * z->out * p->pixels;
    const T *w = (const T *)(const void *)p->w
                 + (image % z->groups * p->terms + channel * p->taps) * z->out;
    T *gx = (T *)(void *)p->y + (image * z->in + channel) * plane;
    T *columns = room + z->out * p->stretch;
    memset(gx, 0, (size_t)(channels * plane) * sizeof(T));
    for (int64_t from = 0; from < p->pixels; from += p->stretch) {
        const int64_t n = RG_MIN(p->stretch, p->pixels - from);
        k_product_sizes sizes = { .m = channels * p->taps,
                                  .n = (n + LANES - 1) / LANES * LANES,
                                  .k = z->out,
                                  .y_row = p->stretch,
                                  .y_col = 1,
                                  .a_row = z->out,
                                  .a_col = 1,
                                  .b_col = 1,
                                  .c_row = p->stretch };
        const T *pixels = K_NAME(conv_pixels)(p, room, g, from, n, &sizes.b_row);
        p->product(&sizes, columns, w, pixels, false);
        for (int64_t i = 0; i < channels * p->taps; i++) {
            const k_tap down = k_tap_at(window, 0, i % p->taps / window->kernel[1]);
            const k_tap across = k_tap_at(window, 1, i % window->kernel[1]);
            K_NAME(conv_return)
            (gx + i / p->taps * plane, columns + i * p->stretch, window, down, across, from, n);
        }
    }
}

static void K_NAME(conv_backward_input)(void *plan, int64_t begin, int64_t end, int worker) {
    const conv_plan *p = plan;
    for (int64_t part = begin; part < end; part++)
        K_NAME(conv_input_part)(p, part, (T *)(void *)(p->room + (size_t)worker * p->bytes));
}

/* ---- gw^T = c g^T, where c is the matrix of columns, summed over a part of the batch --------- */

static void K_NAME(conv_weight_part)(const conv_plan *p, int64_t part, T *room) {
    const k_conv *z = p->z;
    const int64_t plane = z->window.size[0] * z->window.size[1];
    const int64_t share = part % p->shares;
    const int64_t channel = part / p->shares % p->blocks * p->channels;
    const int64_t group = part / p->shares / p->blocks;
    const int64_t first = channel * p->taps;
    const int64_t terms = RG_MAX(0, RG_MIN(p->channels, z->in - channel)) * p->taps;
    T *sums = (T *)(void *)p->y + ((share * z->groups + group) * p->terms + first) * p->wide;
    T *turned = room;
    T *columns = room + p->wide * p->stretch;
    memset(sums, 0, (size_t)(terms * p->wide) * sizeof(T));
    memset(turned, 0, (size_t)(p->wide * p->stretch) * sizeof(T));
    for (int64_t i = z->batch * share / p->shares; i < z->batch * (share + 1) / p->shares; i++) {
        const int64_t image = i * z->groups + group;
        const T *x = (const T *)(const void *)p->x + image * z->in * plane;
        const T *g = (const T *)(const void *)p->w + image * z->out * p->pixels;
        for (int64_t from = 0; from < p->pixels; from += p->stretch) {
            const int64_t n = RG_MIN(p->stretch, p->pixels - from);
            const k_product_sizes sizes = { .m = terms,
                                            .n = p->wide,
                                            .k = n,
                                            .y_row = p->wide,
                                            .y_col = 1,
                                            .a_row = p->stretch,
                                            .a_col = 1,
                                            .b_row = p->wide,
                                            .b_col = 1,
                                            .c_row = p->wide };
            p->turn(turned, p->wide, g + from, p->pixels, 1, z->out, n, 1);
            K_NAME(conv_columns)(p, columns, x, first, terms, from, n);
            p->product(&sizes, sums, columns, turned, true);
        }
    }
}

static void K_NAME(conv_backward_weight)(void *plan, int64_t begin, int64_t end, int worker) {
    const conv_plan *p = plan;
    for (int64_t part = begin; part < end; part++)
        K_NAME(conv_weight_part)(p, part, (T *)(void *)(p->room + (size_t)worker * p->bytes));
}

#undef VECTOR
#undef LANES
#undef HALF
#undef FEWER
