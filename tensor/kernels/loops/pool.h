/*
 * loops/pool.h: max pooling and mean pooling, and their gradients, compiled for each element type
 * (see sets.h). A row of windows is computed together: first all windows use their first tap (an
 * element of the window), then all use the next tap, and so on. But windows are computed one by one
 * if their sizes differ, or if a row has only few windows and there is no dilation.
 */
K_SUMS_IN_T;

/* WHERE is the type of an index; it has the size of an element. TOTAL is the type of a sum, in
 * which integers wrap around. */
#if K_IS_FLOAT
#define TOTAL T
#else
#define TOTAL uint64_t
#endif
#if K_SIZE == 4
#define WHERE int32_t
#elif K_SIZE == 8
#define WHERE int64_t
#endif
#define VECTOR K_NAME(pool_vector)
#define PLACES K_NAME(pool_places)
#define LANES  ((int)(K_VECTOR_BYTES / sizeof(T)))

typedef T VECTOR __attribute__((vector_size(K_VECTOR_BYTES), aligned(sizeof(T)), may_alias));
typedef WHERE PLACES __attribute__((vector_size(K_VECTOR_BYTES), aligned(sizeof(T)), may_alias));

/* ---- the maximum: the last NaN if there is one, otherwise the first of equal maxima ---------- */

/* Compares a vector of elements v with the maxima of their windows. `place` says where in their
 * windows these elements are: their offset in the plane from the first tap of the window. If an
 * element is greater than the maximum or NaN, it replaces the maximum, and `place` replaces the
 * offset in `at`. */
K_INLINE void K_NAME(pool_keep_greater)(T *max, WHERE *at, VECTOR v, WHERE place) {
    const VECTOR before = *(const VECTOR *)max;
    PLACES greater = (PLACES)(v > before);
#if K_IS_FLOAT
    greater |= (PLACES)(v != v);
#endif
    *(VECTOR *)max = (VECTOR)(((PLACES)v & greater) | ((PLACES)before & ~greater));
    *(PLACES *)at = (place & greater) | (*(const PLACES *)at & ~greater);
}

/* Compares the elements of one tap with the maxima of the taps before it, for n windows. For window
 * i, the element is x[i * step]. `place` is as in pool_keep_greater. */
K_INLINE void K_NAME(pool_compare)(T *max, WHERE *at, const T *x, int64_t step, int64_t n,
                                   WHERE place) {
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        union {
            VECTOR all;
            T lane[LANES];
        } v;
        if (step == 1)
            v.all = *(const VECTOR *)(x + i);
        else
            for (int k = 0; k < LANES; k++)
                v.lane[k] = x[(i + k) * step];
        K_NAME(pool_keep_greater)(max + i, at + i, v.all, place);
    }
    for (; i < n; i++) {
        const T v = x[i * step];
        const bool greater = (v > max[i]) | K_TYPED(k_is_nan)(v);
        max[i] = greater ? v : max[i];
        at[i] = greater ? place : at[i];
    }
}

/* Returns the first tap of window o along dim d that isn't in the padding before the plane. */
K_INLINE int64_t K_NAME(pool_first_tap)(const k_window *z, int d, int64_t o) {
    const int64_t from = o * z->stride[d] - z->padding[d];
    return from < 0 ? (z->dilation[d] - 1 - from) / z->dilation[d] : 0;
}

/* Initialises the maxima of n windows of a row, beginning at window `col`. Sets each maximum to
 * K_LEAST. Sets the maximum's offset in `at` (see pool_keep_greater) to the offset of the window's
 * first tap inside the plane. */
K_INLINE void K_NAME(pool_begin)(const k_window *z, T *max, WHERE *at, int64_t row, int64_t col,
                                 int64_t n) {
    const WHERE top = (WHERE)(K_NAME(pool_first_tap)(z, 0, row) * z->dilation[0] * z->size[1]);
    for (int64_t i = 0; i < n; i++) {
        max[i] = (T)K_LEAST;
        at[i] = top;
    }
    for (int64_t i = 0; i < n && (col + i) * z->stride[1] < z->padding[1]; i++)
        at[i] += (WHERE)(K_NAME(pool_first_tap)(z, 1, col + i) * z->dilation[1]);
}

/* Returns whether the windows are the most common ones: 2 by 2 elements, adjacent, without overlap
 * or padding. */
K_INLINE bool K_NAME(pool_of_pairs)(const k_window *z) {
    bool pairs = true;
    for (int d = 0; d < 2; d++)
        pairs &= z->kernel[d] == 2 && z->stride[d] == 2 && z->padding[d] == 0 && z->dilation[d] == 1
                 && z->to[d] * 2 <= z->size[d];
    return pairs;
}

/* If v is greater than *max or NaN, replaces *max by v and *at by `place`. */
K_INLINE void K_NAME(pool_keep)(T *max, WHERE *at, T v, WHERE place) {
    const bool greater = (v > *max) | K_TYPED(k_is_nan)(v);
    *max = greater ? v : *max;
    *at = greater ? place : *at;
}

/* Computes the maxima, and their indices, of a row of n windows of 2 by 2 elements. The first
 * window begins at x, which is at index `begin` of the plane. If `more`, reads and writes may go
 * beyond the row, to a multiple of POOL_ROUND windows. */
K_INLINE void K_NAME(pool_max_pairs)(T *restrict y, int64_t *restrict indices, const T *restrict x,
                                     int64_t width, int64_t begin, int64_t n, bool more) {
    const int64_t count = more ? (n + POOL_ROUND - 1) / POOL_ROUND * POOL_ROUND : n;
    const T *below = x + width;
    const WHERE down = (WHERE)width;
    K_INDEPENDENT
    for (int64_t i = 0; i < count; i++) {
        T max = x[2 * i];
        WHERE at = 0;
        K_NAME(pool_keep)(&max, &at, x[2 * i + 1], 1);
        K_NAME(pool_keep)(&max, &at, below[2 * i], down);
        K_NAME(pool_keep)(&max, &at, below[2 * i + 1], down + 1);
        y[i] = max;
        indices[i] = begin + 2 * i + at;
    }
}

/* Computes the maxima of n windows of a row, and the indices of these maxima in the plane. Window
 * `col` is the first of them. Whole vectors are read from x where they end before `limit`, the end
 * of x's memory. Whole vectors are written to y and `indices` if these have room for that many
 * windows: they have room for `room` windows. */
K_INLINE void K_NAME(pool_max_run)(const k_window *z, T *y, int64_t *indices, const T *x,
                                   const T *limit, int64_t row, int64_t col, int64_t n,
                                   int64_t room) {
    T max[POOL_RUN];
    WHERE at[POOL_RUN]; /* Offsets from a window's first tap, which may be in the padding. */
    const int64_t down_step = z->dilation[0] * z->size[1];
    const int64_t stride = z->stride[1];
    const int64_t whole = (n + POOL_ROUND - 1) / POOL_ROUND * POOL_ROUND;
    K_NAME(pool_begin)(z, max, at, row, col, whole);
    for (int64_t h = 0; h < z->kernel[0]; h++) {
        const k_tap down = k_tap_at(z, 0, h);
        if (row < down.begin || row >= down.end)
            continue;
        for (int64_t w = 0; w < z->kernel[1]; w++) {
            const k_tap across = k_tap_at(z, 1, w);
            const int64_t first = RG_MIN(RG_MAX(across.begin - col, 0), n);
            int64_t last = RG_MIN(RG_MAX(across.end - col, first), n);
            const T *seen = x + (row * z->stride[0] + down.shift) * z->size[1]
                            + (col + first) * stride + across.shift;
            if (last == n && limit - seen >= (whole - first) * stride)
                last = whole;
            const WHERE place = (WHERE)(h * down_step + w * z->dilation[1]);
            if (stride == 1)
                K_NAME(pool_compare)(max + first, at + first, seen, 1, last - first, place);
            else if (stride == 2)
                K_NAME(pool_compare)(max + first, at + first, seen, 2, last - first, place);
            else
                K_NAME(pool_compare)(max + first, at + first, seen, stride, last - first, place);
        }
    }
    const int64_t begin = (row * z->stride[0] - z->padding[0]) * z->size[1] + col * stride
                          - z->padding[1];
    const int64_t written = whole <= room ? whole : n;
    for (int64_t i = 0; i < written; i++) {
        y[i] = max[i];
        indices[i] = begin + i * stride + at[i];
    }
}

/* Computes the maximum of one window, and its index. `down` and `across` are the ranges of the
 * window's elements along the two dims, for dilation 1 (see pool_span in pool.c). */
K_INLINE void K_NAME(pool_max_one)(T *y, int64_t *index, const T *x, int64_t width, pool_span down,
                                   pool_span across) {
    T max = (T)K_LEAST;
    int64_t at = down.begin * width + across.begin;
    for (int64_t h = down.begin; h < down.end; h++)
        for (int64_t w = across.begin; w < across.end; w++) {
            const T v = x[h * width + w];
            if (v > max || K_TYPED(k_is_nan)(v)) {
                max = v;
                at = h * width + w;
            }
        }
    *y = max;
    *index = at;
}

static void K_NAME(pool_max)(void *context, int64_t begin, int64_t end, int worker) {
    const pool_work *work = context;
    const k_pool *p = work->p;
    const k_window *z = &p->window;
    const T *limit = (const T *)(const void *)work->x + p->planes * z->size[0] * z->size[1];
    (void)worker;
    const bool pairs = !p->adaptive && K_NAME(pool_of_pairs)(z);
    const int64_t whole = (z->to[1] + POOL_ROUND - 1) / POOL_ROUND * POOL_ROUND;
    for (int64_t plane = begin; plane < end; plane++)
        for (int64_t row = 0; row < z->to[0]; row++) {
            const int64_t at = (plane * z->to[0] + row) * z->to[1];
            const T *x = (const T *)(const void *)work->x + plane * z->size[0] * z->size[1];
            T *y = (T *)(void *)work->y + at;
            int64_t *indices = work->indices + at;
            if (pairs) {
                const int64_t from = 2 * row * z->size[1];
                const bool more = whole <= (z->to[0] - row) * z->to[1]
                                  && limit - (x + from + z->size[1]) >= 2 * whole;
                K_NAME(pool_max_pairs)(y, indices, x + from, z->size[1], from, z->to[1], more);
                continue;
            }
            if (!pool_one_by_one(p)) {
                /* More windows may be written here than the row has, because the following rows of
                 * this plane are written later. */
                const int64_t room = (z->to[0] - row) * z->to[1];
                for (int64_t col = 0; col < z->to[1]; col += POOL_RUN)
                    K_NAME(pool_max_run)
                (z, y + col, indices + col, x, limit, row, col, RG_MIN(POOL_RUN, z->to[1] - col),
                 room - col);
                continue;
            }
            const pool_span down = pool_span_of(p, 0, row);
            for (int64_t col = 0; col < z->to[1]; col++)
                K_NAME(pool_max_one)
            (y + col, indices + col, x, z->size[1], down, pool_span_of(p, 1, col));
        }
}

/* Sets gx to 0, and then computes gx[indices[i]] += g[i] for each window i. The gradients are
 * added, since several windows may contain the same element. */
static void K_NAME(pool_max_backward)(void *context, int64_t begin, int64_t end, int worker) {
    const pool_work *work = context;
    const k_window *z = &work->p->window;
    const int64_t outputs = z->to[0] * z->to[1];
    const int64_t inputs = z->size[0] * z->size[1];
    (void)worker;
    for (int64_t plane = begin; plane < end; plane++) {
        TOTAL *gx = (TOTAL *)(void *)work->y + plane * inputs;
        const TOTAL *g = (const TOTAL *)(const void *)work->x + plane * outputs;
        const int64_t *at = work->indices + plane * outputs;
        memset(gx, 0, (size_t)inputs * sizeof(T));
        for (int64_t i = 0; i < outputs; i++)
            gx[at[i]] += g[i];
    }
}

/* ---- mean pooling ------------------------------------------------------------------------ */

/* Returns the number by which the sum of a window is divided. */
K_INLINE T K_NAME(pool_divisor)(const k_pool *p, pool_span down, pool_span across) {
    return (T)(p->divisor ? p->divisor : down.counted * across.counted);
}

/* Returns sum / divisor. For integers, INT64_MIN / -1 would trap, so the sum is negated if the
 * divisor is -1. */
K_INLINE T K_NAME(pool_quotient)(TOTAL sum, T divisor) {
#if !K_IS_FLOAT
    if (divisor == -1)
        return (T)(0 - sum);
#endif
    return (T)sum / divisor;
}

/* Computes the means of n windows of a row, beginning at window `col`. */
K_INLINE void K_NAME(pool_mean_run)(const k_pool *p, T *y, const T *x, int64_t row, int64_t col,
                                    int64_t n) {
    const k_window *z = &p->window;
    const pool_span down = pool_span_of(p, 0, row);
    TOTAL sum[POOL_RUN];
    for (int64_t i = 0; i < n; i++)
        sum[i] = 0;
    for (int64_t h = down.begin; h < down.end; h++)
        for (int64_t w = 0; w < z->kernel[1]; w++) {
            const k_tap across = k_tap_at(z, 1, w);
            const int64_t first = RG_MIN(RG_MAX(across.begin - col, 0), n);
            const int64_t last = RG_MIN(RG_MAX(across.end - col, first), n);
            const int64_t step = z->stride[1];
            const T *seen = x + h * z->size[1] + (col + first) * step + across.shift;
            for (int64_t i = first; i < last; i++)
                sum[i] += (TOTAL)seen[(i - first) * step];
        }
    for (int64_t i = 0; i < n; i++)
        y[i] = K_NAME(pool_quotient)(sum[i],
                                     K_NAME(pool_divisor)(p, down, pool_span_of(p, 1, col + i)));
}

/* Returns the mean of one window. */
K_INLINE T K_NAME(pool_mean_one)(const k_pool *p, const T *x, pool_span down, pool_span across) {
    TOTAL sum = 0;
    for (int64_t h = down.begin; h < down.end; h++)
        for (int64_t w = across.begin; w < across.end; w++)
            sum += (TOTAL)x[h * p->window.size[1] + w];
    return K_NAME(pool_quotient)(sum, K_NAME(pool_divisor)(p, down, across));
}

static void K_NAME(pool_mean)(void *context, int64_t begin, int64_t end, int worker) {
    const pool_work *work = context;
    const k_pool *p = work->p;
    const k_window *z = &p->window;
    (void)worker;
    for (int64_t plane = begin; plane < end; plane++)
        for (int64_t row = 0; row < z->to[0]; row++) {
            const T *x = (const T *)(const void *)work->x + plane * z->size[0] * z->size[1];
            T *y = (T *)(void *)work->y + (plane * z->to[0] + row) * z->to[1];
            if (!pool_one_by_one(p)) {
                for (int64_t col = 0; col < z->to[1]; col += POOL_RUN)
                    K_NAME(pool_mean_run)
                (p, y + col, x, row, col, RG_MIN(POOL_RUN, z->to[1] - col));
                continue;
            }
            const pool_span down = pool_span_of(p, 0, row);
            for (int64_t col = 0; col < z->to[1]; col++)
                y[col] = K_NAME(pool_mean_one)(p, x, down, pool_span_of(p, 1, col));
        }
}

/* Sets gx to 0. Then, for each window, adds g / divisor to gx at each element of the window. The
 * gradients are added, since several windows may contain the same element. */
static void K_NAME(pool_mean_backward)(void *context, int64_t begin, int64_t end, int worker) {
    const pool_work *work = context;
    const k_pool *p = work->p;
    const k_window *z = &p->window;
    const int64_t inputs = z->size[0] * z->size[1];
    (void)worker;
    for (int64_t plane = begin; plane < end; plane++) {
        TOTAL *gx = (TOTAL *)(void *)work->y + plane * inputs;
        const T *g = (const T *)(const void *)work->x + plane * z->to[0] * z->to[1];
        memset(gx, 0, (size_t)inputs * sizeof(T));
        for (int64_t row = 0; row < z->to[0]; row++) {
            const pool_span down = pool_span_of(p, 0, row);
            for (int64_t col = 0; col < z->to[1]; col++) {
                const pool_span across = pool_span_of(p, 1, col);
                const T share = K_NAME(pool_quotient)((TOTAL)*g++,
                                                      K_NAME(pool_divisor)(p, down, across));
                for (int64_t h = down.begin; h < down.end; h++)
                    for (int64_t w = across.begin; w < across.end; w++)
                        gx[h * z->size[1] + w] += (TOTAL)share;
            }
        }
    }
}

#undef TOTAL
#undef WHERE
#undef VECTOR
#undef PLACES
#undef LANES
