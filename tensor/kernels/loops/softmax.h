/*
 * loops/softmax.h: softmax, log_softmax and their gradients. A contiguous row is summed in the
 * lanes of lanes.h. If rows aren't contiguous (element i of row r is x[i * step + r]), many
 * adjacent rows are computed at a time.
 */
K_SUMS_IN_T;

#define ROW   K_NAME(softmax_row)
#define LANES K_NAME(lanes)

/* The operands of one row, and the numbers that were computed from them; power_i is e^(x_i - max).
 * The functions below compute an element of a result from a ROW and the element's index. */
typedef struct {
    const T *x, *power, *y, *g;
    T max;       /* max_i x_i */
    T inverse;   /* 1 / sum_i power_i */
    T log_total; /* ln sum_i power_i */
    T total;     /* sum_i g_i * y_i; for log_softmax, sum_i g_i */
} ROW;

/* ---- forward: power_i = e^(x_i - max); y_i = power_i / sum_j power_j ----------------------------
 * The logarithm of y_i is x_i - max - ln sum_j power_j. */

K_INLINE T K_NAME(softmax_share)(const void *row, int64_t i) {
    const ROW *r = row;
    return r->power[i] * r->inverse;
}

K_INLINE T K_NAME(softmax_log_share)(const void *row, int64_t i) {
    const ROW *r = row;
    return r->x[i] - r->max - r->log_total;
}

/* Writes power[i] = e^(x[i] - max) for n elements, and returns their sum. Prefetches the next
 * row. */
K_INLINE T K_NAME(softmax_powers)(T *restrict power, const T *restrict x, int64_t n, T max) {
    const int64_t whole = n / K_LANES * K_LANES;
    const int left = (int)(n - whole);
    LANES sum = { 0 };
    T lane[K_LANES];
    for (int64_t j = 0; j < whole; j += K_LANES) {
        __builtin_prefetch(x + n + j);
        for (int l = 0; l < K_LANES; l++)
            lane[l] = K_TYPED(k_exp_below)(x[j + l] - max);
        memcpy(power + j, lane, sizeof lane);
        K_NAME(lanes_add)(&sum, lane);
    }
    if (left) {
        for (int l = 0; l < K_LANES; l++) {
            lane[l] = l < left ? K_TYPED(k_exp_below)(x[whole + l] - max) : 0;
            if (l < left)
                power[whole + l] = lane[l];
        }
        K_NAME(lanes_add)(&sum, lane);
    }
    return K_NAME(lanes_sum)(&sum);
}

/* Computes one row. The powers are stored in y. If y is written past the caches, they are stored in
 * `room` instead; a row that is too long for `room` isn't written past the caches. */
static void K_NAME(softmax_one)(const softmax_rows *z, T *restrict y, const T *restrict x) {
    const int64_t n = z->n;
    const bool stream = z->stream && n <= SOFTMAX_ROOM;
    T room[SOFTMAX_ROOM] __attribute__((aligned(64)));
    T *power = stream ? room : y;
    ROW row = { .x = x, .power = power, .max = K_NAME(greatest)(x, n) };
    if (z->kind == K_LOG_SOFTMAX) {
        row.log_total = K_TYPED(k_log)(K_NAME(sum_of_powers)(x, n, row.max));
        K_NAME(write_row)(y, n, stream, K_NAME(softmax_log_share), &row);
        return;
    }
    if (z->kind == K_SAFE_SOFTMAX && row.max == -(T)INFINITY)
        row.max = 0; /* With max 0, the powers and their sum are 0, or NaN if the row has a NaN. */
    const T total = K_NAME(softmax_powers)(power, x, n, row.max);
    row.inverse = 1 / (total == 0 ? 1 : total);
    K_NAME(write_row)(y, n, stream, K_NAME(softmax_share), &row);
}

/* ---- three rows at once, written past the caches ------------------------------------------------
 * Each iteration handles SOFTMAX_STEP elements of three rows: it computes the maximum of the next
 * row, sums the powers of the current row, and writes the previous row. None of these three steps
 * waits for another step or for memory. The maximum ignores NaN here, but a NaN makes the sum NaN.
 * This method needs registers that hold sixteen lanes: with AVX2 it takes twice as long as row by
 * row. */

/* Copies the elements of the previous row that this iteration writes, since the powers of the
 * current row will overwrite them. */
K_INLINE void K_NAME(softmax_step_copy)(T *to, const T *from) {
    LANES more;
    for (int j = 0; j < SOFTMAX_STEP; j += K_LANES) {
        memcpy(&more, from + j, sizeof more);
        memcpy(to + j, &more, sizeof more);
    }
}

K_INLINE void K_NAME(softmax_step_greatest)(LANES *most, const T *x) {
    T lane[K_LANES];
    for (int j = 0; j < SOFTMAX_STEP; j += K_LANES) {
        memcpy(lane, most, sizeof lane);
        for (int l = 0; l < K_LANES; l++)
            lane[l] = x[j + l] > lane[l] ? x[j + l] : lane[l];
        memcpy(most, lane, sizeof lane);
    }
}

K_INLINE void K_NAME(softmax_step_powers)(LANES *sum, T *power, const T *x, T max) {
    T lane[K_LANES];
    for (int j = 0; j < SOFTMAX_STEP; j += K_LANES) {
        _Pragma("GCC unroll 1") for (int l = 0; l < K_LANES; l++) {
            lane[l] = K_TYPED(k_exp_below)(x[j + l] - max);
        }
        memcpy(power + j, lane, sizeof lane);
        K_NAME(lanes_add)(sum, lane);
    }
}

K_INLINE void K_NAME(softmax_write)(T *y, int64_t n, bool log, const ROW *row) {
    if (log)
        K_NAME(write_row)(y, n, true, K_NAME(softmax_log_share), row);
    else
        K_NAME(write_row)(y, n, true, K_NAME(softmax_share), row);
}

static void K_NAME(softmax_stream)(const softmax_rows *z, int64_t rows, T *y, const T *x) {
    const int64_t n = z->n;
    const bool log = z->kind == K_LOG_SOFTMAX;
    const bool whole_pages = n * (int64_t)sizeof(T) % SOFTMAX_PAGE == 0;
    T room[2][SOFTMAX_ROOM + SOFTMAX_PAGE / sizeof(T)] __attribute__((aligned(SOFTMAX_PAGE)));
    T copy[SOFTMAX_STEP];
    T *power = NULL;
    T max = K_NAME(greatest)(x, n);
    ROW last = { .x = copy, .power = copy };
    for (int64_t r = 0; r < rows; r++) {
        const T *next = r + 1 < rows ? x + n : x;
        const T *done = x;
        LANES sum = { 0 };
        LANES most = sum - (T)INFINITY;
        if (r > 0)
            done = log ? x - n : power;
        /* A load waits for an earlier store if the last 12 bits of the two addresses are equal.
         * Therefore the powers are stored half a page away from x. If rows are whole pages, the
         * powers of the current row overwrite those of the previous row, iteration by iteration;
         * otherwise the powers of the two rows are in different buffers. */
        power = room[whole_pages ? 0 : r & 1]
                + ((uintptr_t)x + SOFTMAX_PAGE / 2) % SOFTMAX_PAGE / sizeof(T);
        if (z->kind == K_SAFE_SOFTMAX && max == -(T)INFINITY)
            max = 0; /* With max 0, the powers and their sum are 0, or NaN if the row has a NaN. */
        for (int64_t k = 0; k < n; k += SOFTMAX_STEP) {
            K_NAME(softmax_step_copy)(copy, done + k);
            K_NAME(softmax_step_greatest)(&most, next + k);
            K_NAME(softmax_step_powers)(&sum, power + k, x + k, max);
            if (r > 0)
                K_NAME(softmax_write)(y - n + k, SOFTMAX_STEP, log, &last);
        }
        const T total = K_NAME(lanes_sum)(&sum);
        last.max = max;
        last.inverse = 1 / (total == 0 ? 1 : total);
        last.log_total = log ? K_TYPED(k_log)(total) : 0;
        max = K_NAME(lanes_max)(&most);
        x += n;
        y += n;
    }
    last.x = x - n;
    last.power = power;
    K_NAME(softmax_write)(y - n, n, log, &last);
}

/* ---- rows that aren't contiguous: element i of row r is x[i * step + r] ---------------------- */

/* y = e^(x - max) / total, where `total` is the sum of a row's powers. */
K_INLINE void K_NAME(softmax_side_shares)(const softmax_rows *z, int64_t rows, T *restrict y,
                                          const T *restrict x, const T *max) {
    const int64_t end = z->n * z->step;
    T total[SOFTMAX_SIDE];
    for (int64_t r = 0; r < rows; r++)
        total[r] = 0;
    for (int64_t at = 0; at < end; at += z->step) {
        K_INDEPENDENT
        for (int64_t r = 0; r < rows; r++) {
            y[at + r] = K_TYPED(k_exp_below)(x[at + r] - max[r]);
            total[r] += y[at + r];
        }
    }
    /* A sum can be 0 only in K_SAFE_SOFTMAX, if all elements of the row are -infinity. With a total
     * of 1 in place of 0, the results of this row are 0. */
    K_INDEPENDENT
    for (int64_t r = 0; r < rows; r++)
        total[r] = total[r] == 0 ? 1 : total[r];
    for (int64_t at = 0; at < end; at += z->step) {
        K_INDEPENDENT
        for (int64_t r = 0; r < rows; r++)
            y[at + r] /= total[r];
    }
}

/* y = x - max - ln(total), where `total` is the sum of a row's powers. */
K_INLINE void K_NAME(softmax_side_log_shares)(const softmax_rows *z, int64_t rows, T *restrict y,
                                              const T *restrict x, const T *max) {
    const int64_t end = z->n * z->step;
    T total[SOFTMAX_SIDE];
    for (int64_t r = 0; r < rows; r++)
        total[r] = 0;
    for (int64_t at = 0; at < end; at += z->step) {
        K_INDEPENDENT
        for (int64_t r = 0; r < rows; r++)
            total[r] += K_TYPED(k_exp_below)(x[at + r] - max[r]);
    }
    K_INDEPENDENT
    for (int64_t r = 0; r < rows; r++)
        total[r] = K_TYPED(k_log)(total[r]);
    for (int64_t at = 0; at < end; at += z->step) {
        K_INDEPENDENT
        for (int64_t r = 0; r < rows; r++)
            y[at + r] = x[at + r] - max[r] - total[r];
    }
}

static void K_NAME(softmax_side)(const softmax_rows *z, int64_t rows, T *y, const T *x) {
    K_TYPED(k_ordered) greatest[SOFTMAX_SIDE];
    T max[SOFTMAX_SIDE];
    for (int64_t r = 0; r < rows; r++)
        greatest[r] = K_TYPED(k_order)(-(T)INFINITY);
    for (int64_t at = 0; at < z->n * z->step; at += z->step) {
        K_INDEPENDENT
        for (int64_t r = 0; r < rows; r++)
            greatest[r] = RG_MAX(greatest[r], K_TYPED(k_order)(x[at + r]));
    }
    for (int64_t r = 0; r < rows; r++)
        max[r] = K_TYPED(k_unorder)(greatest[r]);
    if (z->kind == K_LOG_SOFTMAX) {
        K_NAME(softmax_side_log_shares)(z, rows, y, x, max);
        return;
    }
    if (z->kind == K_SAFE_SOFTMAX) {
        for (int64_t r = 0; r < rows; r++)
            max[r] = max[r] == -(T)INFINITY ? 0 : max[r];
    }
    K_NAME(softmax_side_shares)(z, rows, y, x, max);
}

/* Computes `rows` rows: the output p[0] from the input p[1]. */
static void K_NAME(softmax)(const softmax_rows *z, char *const p[], int64_t rows) {
    T *y = (T *)p[0];
    const T *x = (const T *)p[1];
    if (!z->last)
        K_NAME(softmax_side)(z, rows, y, x);
    else if (z->stream && K_VECTOR_BYTES == 64 && z->n <= SOFTMAX_ROOM && z->n % SOFTMAX_STEP == 0)
        K_NAME(softmax_stream)(z, rows, y, x);
    else
        for (int64_t r = 0; r < rows; r++)
            K_NAME(softmax_one)(z, y + r * z->n, x + r * z->n);
}

/* ---- backward: gx_i = y_i * (g_i - sum_j g_j * y_j) -------------------------------------------
 * For log_softmax, gx_i = g_i - e^(y_i) * sum_j g_j. */

K_INLINE T K_NAME(softmax_weighted)(const void *row, int64_t i) {
    const ROW *r = row;
    return r->g[i] * r->y[i];
}

K_INLINE T K_NAME(softmax_slope)(const void *row, int64_t i) {
    const ROW *r = row;
    return r->y[i] * (r->g[i] - r->total);
}

K_INLINE T K_NAME(softmax_plain)(const void *row, int64_t i) {
    const ROW *r = row;
    return r->g[i];
}

K_INLINE T K_NAME(softmax_log_slope)(const void *row, int64_t i) {
    const ROW *r = row;
    return r->g[i] - K_TYPED(k_exp)(r->y[i]) * r->total;
}

static void K_NAME(softmax_backward_one)(const softmax_rows *z, T *gx, const T *g, const T *y) {
    ROW row = { .g = g, .y = y };
    if (z->kind == K_LOG_SOFTMAX) {
        row.total = K_NAME(sum_of)(z->n, K_NAME(softmax_plain), &row);
        K_NAME(write_row)(gx, z->n, z->stream, K_NAME(softmax_log_slope), &row);
    } else {
        row.total = K_NAME(sum_of)(z->n, K_NAME(softmax_weighted), &row);
        K_NAME(write_row)(gx, z->n, z->stream, K_NAME(softmax_slope), &row);
    }
}

/* Computes the gradients of rows that aren't contiguous: those of log_softmax if `log`, otherwise
 * those of softmax. */
K_INLINE void K_NAME(softmax_backward_side)(const softmax_rows *z, int64_t rows, T *restrict gx,
                                            const T *restrict g, const T *restrict y,
                                            const bool log) {
    const int64_t end = z->n * z->step;
    T total[SOFTMAX_SIDE];
    for (int64_t r = 0; r < rows; r++)
        total[r] = 0;
    for (int64_t at = 0; at < end; at += z->step) {
        K_INDEPENDENT
        for (int64_t r = 0; r < rows; r++)
            total[r] += log ? g[at + r] : g[at + r] * y[at + r];
    }
    for (int64_t at = 0; at < end; at += z->step) {
        K_INDEPENDENT
        for (int64_t r = 0; r < rows; r++)
            gx[at + r] = log ? g[at + r] - K_TYPED(k_exp)(y[at + r]) * total[r]
                             : y[at + r] * (g[at + r] - total[r]);
    }
}

/* Computes the gradient p[0] of `rows` rows from g at p[1] and y at p[2]. */
static void K_NAME(softmax_backward)(const softmax_rows *z, char *const p[], int64_t rows) {
    T *gx = (T *)p[0];
    const T *g = (const T *)p[1];
    const T *y = (const T *)p[2];
    if (z->last)
        for (int64_t at = 0; at < rows * z->n; at += z->n)
            K_NAME(softmax_backward_one)(z, gx + at, g + at, y + at);
    else if (z->kind == K_LOG_SOFTMAX)
        K_NAME(softmax_backward_side)(z, rows, gx, g, y, true);
    else
        K_NAME(softmax_backward_side)(z, rows, gx, g, y, false);
}

#undef ROW
#undef LANES
