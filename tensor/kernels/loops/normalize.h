/*
 * loops/normalize.h: layer norm, group norm and rms norm of rows, and their gradients. Backward
 * computes the mean and the deviation again, because it reads the row anyway.
 */
K_SUMS_IN_T;

#define ROW   K_NAME(norm_row)
#define LANES K_NAME(lanes)
#define VALUE K_NAME(value)

/* The operands of one row, and the numbers that were computed from them. The functions below
 * compute an element of a result from a ROW and the element's index. */
typedef struct {
    const T *x, *g, *weight, *bias;
    T mean, rstd;   /* rstd = 1 / sqrt(variance + eps) */
    T scale, shift; /* The weight and the bias of the current channel, if one weight applies to
                     * several elements. */
    T sum, dot;     /* The means over i of gw_i and of gw_i * h_i, where gw = g * weight and h = (x
                     * - mean) * rstd. */
} ROW;

/* ---- mean and deviation -------------------------------------------------------------------------
 * A row is read in chunks of NORM_CHUNK vectors, each of K_LANES lanes. For each lane, the mean of
 * a chunk and its sum of squares around that mean are combined with those of the chunks before. At
 * the end the lanes are combined in the same way, and so is the rest of the row, which doesn't fill
 * a chunk. */

K_INLINE T K_NAME(norm_x)(const void *row, int64_t i) {
    const ROW *r = row;
    return r->x[i];
}

K_INLINE T K_NAME(norm_square)(const void *row, int64_t i) {
    const ROW *r = row;
    return (r->x[i] - r->mean) * (r->x[i] - r->mean);
}

/* For each lane, computes the mean of NORM_CHUNK vectors, and the sum of squares around that
 * mean. */
K_INLINE void K_NAME(norm_chunk)(const T *x, LANES *mean, LANES *squares) {
    LANES sum[4] = { { 0 } };
    LANES square[4] = { { 0 } };
    LANES v;
    for (int k = 0; k < NORM_CHUNK; k++) {
        memcpy(&v, x + k * K_LANES, sizeof v);
        sum[k % 4] += v;
    }
    *mean = ((sum[0] + sum[1]) + (sum[2] + sum[3])) / NORM_CHUNK;
    for (int k = 0; k < NORM_CHUNK; k++) {
        memcpy(&v, x + k * K_LANES, sizeof v);
        v -= *mean;
        square[k % 4] += v * v;
    }
    *squares = (square[0] + square[1]) + (square[2] + square[3]);
}

/* Computes the mean of the first `whole` elements, and returns the sum of squares around that mean.
 * `whole` must be a multiple of the number of elements in a chunk. */
K_INLINE T K_NAME(norm_chunks)(const T *x, int64_t whole, T *mean) {
    LANES means = { 0 };
    LANES squares = { 0 };
    for (int64_t j = 0; j < whole; j += NORM_CHUNK * K_LANES) {
        const T before = (T)(j / K_LANES);
        const T share = NORM_CHUNK / (before + NORM_CHUNK);
        LANES chunk, around;
        K_NAME(norm_chunk)(x + j, &chunk, &around);
        squares += around;
        if (j == 0) {
            means = chunk;
            continue;
        }
        const LANES apart = chunk - means;
        means += apart * share;
        squares += apart * apart * (before * share);
    }
    *mean = K_NAME(lanes_sum)(&means) / K_LANES;
    means -= *mean;
    squares += means * means * (T)(whole / K_LANES);
    return K_NAME(lanes_sum)(&squares);
}

/* Computes the mean of a row of n elements, and rstd = 1 / sqrt(variance + eps). If the norm isn't
 * centred (rms norm), 0 takes the place of the mean, also in the variance. */
K_INLINE void K_NAME(norm_moments)(const k_norm_rows *z, const T *x, const int64_t n, T *mean,
                                   T *rstd) {
    const int64_t chunk = NORM_CHUNK * K_LANES;
    const int64_t whole = z->centred ? n / chunk * chunk : 0;
    const int64_t rest = n - whole;
    T m = 0;
    T squares = 0;
    if (whole)
        squares = K_NAME(norm_chunks)(x, whole, &m);
    if (rest) {
        ROW left = { .x = x + whole };
        if (z->centred)
            left.mean = K_NAME(sum_of)(rest, K_NAME(norm_x), &left);
        left.mean /= (T)rest;
        squares += K_NAME(sum_of)(rest, K_NAME(norm_square), &left);
        const T apart = left.mean - m;
        if (whole)
            squares += apart * apart * ((T)whole * (T)rest / (T)n);
        m += apart * ((T)rest / (T)n);
    }
    *mean = m;
    *rstd = 1 / sqrt(squares / (T)n + (T)z->eps);
}

/* ---- forward: y = h * weight + bias, where h = (x - mean) * rstd ----------------------------- */

K_INLINE T K_NAME(norm_h)(const ROW *r, int64_t i) { return (r->x[i] - r->mean) * r->rstd; }

K_INLINE T K_NAME(norm_scaled)(const void *row, int64_t i) {
    const ROW *r = row;
    return K_NAME(norm_h)(r, i) * r->weight[i];
}

K_INLINE T K_NAME(norm_shifted)(const void *row, int64_t i) {
    const ROW *r = row;
    return K_NAME(norm_h)(r, i) * r->weight[i] + r->bias[i];
}

K_INLINE T K_NAME(norm_in_channel)(const void *row, int64_t i) {
    const ROW *r = row;
    return K_NAME(norm_h)(r, i) * r->scale + r->shift;
}

/* y = h * weight + bias, for a row of n elements. Each weight and bias applies to z->per
 * consecutive elements. A weight that is NULL counts as 1, and a bias that is NULL as 0. */
K_INLINE void K_NAME(norm_write)(const k_norm_rows *z, bool stream, T *y, ROW row,
                                 const int64_t n) {
    if (z->per == 1 && row.weight && row.bias) {
        K_NAME(write_row)(y, n, stream, K_NAME(norm_shifted), &row);
        return;
    }
    if (z->per == 1 && row.weight) {
        K_NAME(write_row)(y, n, stream, K_NAME(norm_scaled), &row);
        return;
    }
    if (!row.weight && !row.bias) {
        row.scale = 1;
        row.shift = 0;
        K_NAME(write_row)(y, n, false, K_NAME(norm_in_channel), &row);
        return;
    }
    const int64_t per = z->per;
    for (int64_t c = 0; c < n / per; c++) {
        row.scale = row.weight ? row.weight[c] : 1;
        row.shift = row.bias ? row.bias[c] : 0;
        K_NAME(write_row)(y, per, false, K_NAME(norm_in_channel), &row);
        row.x += per;
        y += per;
    }
}

K_INLINE void K_NAME(norm_rows)(const norm_work *work, int64_t begin, int64_t end,
                                const int64_t n) {
    const k_norm_rows *z = work->z;
    const int64_t channels = n / z->per;
    const T *weight = (const T *)work->weight;
    const T *bias = (const T *)work->bias;
    for (int64_t r = begin; r < end; r++) {
        const int64_t first = r % z->groups * channels;
        const T *x = (const T *)work->x + r * n;
        T mean, rstd;
        K_NAME(norm_moments)(z, x, n, &mean, &rstd);
        const ROW row = {
            .x = x,
            .weight = weight ? weight + first : NULL,
            .bias = bias ? bias + first : NULL,
            .mean = mean,
            .rstd = rstd,
        };
        K_NAME(norm_write)(z, work->stream, (T *)work->y + r * n, row, n);
    }
}

/* Computes rows begin to end - 1. In float32, some row lengths have separate code, in which a row
 * stays in registers. */
static void K_NAME(norm)(void *context, int64_t begin, int64_t end, int worker) {
    const norm_work *work = context;
    (void)worker;
    switch (work->z->n) {
#if K_SIZE == 4
    case 16: K_NAME(norm_rows)(work, begin, end, 16); break;
    case 32: K_NAME(norm_rows)(work, begin, end, 32); break;
    case 64: K_NAME(norm_rows)(work, begin, end, 64); break;
#endif
    default: K_NAME(norm_rows)(work, begin, end, work->z->n); break;
    }
    if (work->stream)
        k_stream_end();
}

/* ---- backward: gx = rstd * (gw - mean(gw) - h * mean(gw * h)), where gw = g * weight ----------
 * If the norm isn't centred, mean(gw) is left out. The gradient of the weight is sum(g * h), and
 * the gradient of the bias is sum(g). */

K_INLINE T K_NAME(norm_g)(const void *row, int64_t i) {
    const ROW *r = row;
    return r->g[i];
}

K_INLINE T K_NAME(norm_gh)(const void *row, int64_t i) {
    const ROW *r = row;
    return r->g[i] * K_NAME(norm_h)(r, i);
}

K_INLINE T K_NAME(norm_gx)(const void *row, int64_t i) {
    const ROW *r = row;
    return r->rstd * (r->g[i] - r->sum - K_NAME(norm_h)(r, i) * r->dot);
}

K_INLINE T K_NAME(norm_gw)(const void *row, int64_t i) {
    const ROW *r = row;
    return r->g[i] * r->weight[i];
}

K_INLINE T K_NAME(norm_gwh)(const void *row, int64_t i) {
    const ROW *r = row;
    return r->g[i] * r->weight[i] * K_NAME(norm_h)(r, i);
}

K_INLINE T K_NAME(norm_gx_weighted)(const void *row, int64_t i) {
    const ROW *r = row;
    return r->rstd * (r->g[i] * r->weight[i] - r->sum - K_NAME(norm_h)(r, i) * r->dot);
}

/* Computes gx of a row. The functions gw, gwh and `value` return gw_i, gw_i * h_i and gx_i. */
K_INLINE void K_NAME(norm_gradient_of)(const k_norm_rows *z, bool stream, T *gx, ROW row,
                                       const int64_t n, VALUE *gw, VALUE *gwh, VALUE *value) {
    if (z->centred)
        row.sum = K_NAME(sum_of)(n, gw, &row) / (T)n;
    row.dot = K_NAME(sum_of)(n, gwh, &row) / (T)n;
    K_NAME(write_row)(gx, n, stream, value, &row);
}

K_INLINE void K_NAME(norm_gradient)(const k_norm_rows *z, bool stream, T *gx, ROW row,
                                    const int64_t n) {
    if (z->per == 1 && row.weight) {
        K_NAME(norm_gradient_of)
        (z, stream, gx, row, n, K_NAME(norm_gw), K_NAME(norm_gwh), K_NAME(norm_gx_weighted));
        return;
    }
    if (row.weight) {
        for (int64_t c = 0; c < n / z->per; c++) {
            for (int64_t i = c * z->per; i < (c + 1) * z->per; i++)
                gx[i] = row.g[i] * row.weight[c];
        }
        row.g = gx;
        stream = false;
    }
    K_NAME(norm_gradient_of)
    (z, stream, gx, row, n, K_NAME(norm_g), K_NAME(norm_gh), K_NAME(norm_gx));
}

/* to[i] += the sum of value(row, i) over `count` rows. NORM_ROWS rows are added in one pass, so
 * that to[i] is loaded and stored only once; fewer rows are added one after the other. */
K_INLINE void K_NAME(norm_add_columns)(double *restrict to, int64_t n, const ROW *rows,
                                       int64_t count, VALUE *value) {
    if (count == NORM_ROWS) {
        for (int64_t i = 0; i < n; i++) {
            double sum = to[i];
            _Pragma("GCC unroll 4") for (int k = 0; k < NORM_ROWS; k++) {
                sum += (double)value(&rows[k], i);
            }
            to[i] = sum;
        }
        return;
    }
    for (int64_t k = 0; k < count; k++) {
        const ROW row = rows[k];
        for (int64_t i = 0; i < n; i++)
            to[i] += (double)value(&row, i);
    }
}

/* Adds a row's part to the gradients of weights and biases, for z->per > 1, that is, if each weight
 * and bias applies to several elements. */
K_INLINE void K_NAME(norm_add_channels)(const k_norm_rows *z, double *gweight, double *gbias,
                                        ROW row) {
    for (int64_t c = 0; c < z->n / z->per; c++) {
        if (gweight)
            gweight[c] += (double)K_NAME(sum_of)(z->per, K_NAME(norm_gh), &row);
        if (gbias)
            gbias[c] += (double)K_NAME(sum_of)(z->per, K_NAME(norm_g), &row);
        row.x += z->per;
        row.g += z->per;
    }
}

/* Computes gx of rows begin to end - 1, which have n elements, and adds the part of these rows to
 * the gradients of weights and biases. Each of the three gradients may be NULL. */
K_INLINE void K_NAME(norm_backward_rows)(const norm_slopes *work, int64_t begin, int64_t end,
                                         double *gweight, double *gbias, const int64_t n) {
    const k_norm_rows *z = work->z;
    const T *weight = (const T *)work->weight;
    const int64_t most = z->per == 1 && z->groups == 1 ? NORM_ROWS : 1;
    ROW rows[NORM_ROWS];
    int64_t count;
    for (int64_t r = begin; r < end; r += count) {
        const int64_t first = r % z->groups * (n / z->per);
        const T *row_weight = weight ? weight + first : NULL;
        double *to_weight = gweight ? gweight + first : NULL;
        double *to_bias = gbias ? gbias + first : NULL;
        count = RG_MIN(end - r, most);
        for (int64_t k = 0; k < count; k++) {
            const int64_t at = (r + k) * n;
            const T *x = (const T *)work->x + at;
            const T *g = (const T *)work->g + at;
            ROW row = { .x = x, .g = g, .weight = row_weight };
            K_NAME(norm_moments)(z, x, n, &row.mean, &row.rstd);
            rows[k] = row;
            if (work->gx)
                K_NAME(norm_gradient)(z, work->stream, (T *)work->gx + at, row, n);
        }
        if (z->per > 1) {
            K_NAME(norm_add_channels)(z, to_weight, to_bias, rows[0]);
            continue;
        }
        if (to_weight)
            K_NAME(norm_add_columns)(to_weight, n, rows, count, K_NAME(norm_gh));
        if (to_bias)
            K_NAME(norm_add_columns)(to_bias, n, rows, count, K_NAME(norm_g));
    }
}

/* Computes a part: the rows begin to end - 1. */
static void K_NAME(norm_backward)(void *context, int64_t begin, int64_t end, int worker) {
    const norm_slopes *work = context;
    double *gweight = norm_sums(work->gweight, work->z, begin / work->grain);
    double *gbias = norm_sums(work->gbias, work->z, begin / work->grain);
    (void)worker;
    switch (work->z->n) {
#if K_SIZE == 4
    case 16: K_NAME(norm_backward_rows)(work, begin, end, gweight, gbias, 16); break;
    case 32: K_NAME(norm_backward_rows)(work, begin, end, gweight, gbias, 32); break;
    case 64: K_NAME(norm_backward_rows)(work, begin, end, gweight, gbias, 64); break;
#endif
    default: K_NAME(norm_backward_rows)(work, begin, end, gweight, gbias, work->z->n); break;
    }
    if (work->stream)
        k_stream_end();
}

#undef ROW
#undef LANES
#undef VALUE
