/*
 * loops/softmax_short.h: softmax, log_softmax and their gradients for contiguous rows of up to
 * sixteen floats, in registers of AVX-512. A register holds one row in 16 lanes, two rows in 8
 * lanes each, or four rows in 4 lanes each. Other instruction sets lack the instructions that load
 * rows in this way; they compute each row by softmax.h.
 */
#ifdef K_SET_IS_AVX512
/* The layout of rows in a register. A row has n elements in `lanes` lanes, and a register holds
 * `rows` rows. `spread` is the mask of the lanes that have an element. */
typedef struct {
    int n, lanes, rows;
    __mmask16 spread;
} short_shape;

static inline short_shape softmax_shape_of(int n) {
    const unsigned row = (1u << n) - 1;
    if (n > 8)
        return (short_shape){ n, 16, 1, (__mmask16)row };
    if (n > 4)
        return (short_shape){ n, 8, 2, (__mmask16)(row * 0x101) };
    return (short_shape){ n, 4, 4, (__mmask16)(row * 0x1111) };
}

/* Returns the mask of the contiguous elements that the next register loads or stores. `left` is the
 * number of rows that are left. */
static inline __mmask16 softmax_in_memory(const short_shape *s, int64_t left) {
    return (__mmask16)((1u << RG_MIN(left, s->rows) * s->n) - 1);
}

K_INLINE __m512 softmax_load(const short_shape *s, const float *from, int64_t left, float fill) {
    const __m512 none = _mm512_set1_ps(fill);
    const __m512 packed = _mm512_mask_loadu_ps(none, softmax_in_memory(s, left), from);
    return _mm512_mask_expand_ps(none, s->spread, packed);
}

K_INLINE void softmax_store(const short_shape *s, float *to, int64_t left, __m512 v) {
    const __m512 packed = _mm512_maskz_compress_ps(s->spread, v);
    _mm512_mask_storeu_ps(to, softmax_in_memory(s, left), packed);
}

/* Returns a register in which each lane has the sum of its row. The additions are in the same order
 * as in lanes_sum. */
K_INLINE __m512 softmax_sums(const short_shape *s, __m512 v) {
    if (s->lanes > 8)
        v += _mm512_shuffle_f32x4(v, v, 0x4e);
    if (s->lanes > 4)
        v += _mm512_shuffle_f32x4(v, v, 0xb1);
    v += _mm512_permute_ps(v, 0x4e);
    return v + _mm512_permute_ps(v, 0xb1);
}

/* Returns a register in which each lane has the maximum of its row. A NaN in the row is the maximum
 * in its own lane only; the other lanes ignore it. That is enough, because the NaN in one lane
 * makes the sum of the row's powers NaN. */
K_INLINE __m512 softmax_maxima(const short_shape *s, __m512 v) {
    if (s->lanes > 8)
        v = _mm512_max_ps(_mm512_shuffle_f32x4(v, v, 0x4e), v);
    if (s->lanes > 4)
        v = _mm512_max_ps(_mm512_shuffle_f32x4(v, v, 0xb1), v);
    v = _mm512_max_ps(_mm512_permute_ps(v, 0x4e), v);
    return _mm512_max_ps(_mm512_permute_ps(v, 0xb1), v);
}

static void K_IN_SET(softmax_short)(const softmax_rows *z, char *const p[], int64_t rows) {
    const short_shape s = softmax_shape_of((int)z->n);
    float *y = (float *)p[0];
    const float *x = (const float *)p[1];
    for (int64_t left = rows; left > 0; left -= s.rows) {
        const __m512 v = softmax_load(&s, x, left, -INFINITY);
        const __m512 below = v - softmax_maxima(&s, v);
        __m512 power;
        for (int l = 0; l < 16; l++)
            power[l] = k_exp_below_float(below[l]);
        __m512 total = softmax_sums(&s, power);
        if (z->kind == K_LOG_SOFTMAX) {
            for (int l = 0; l < 16; l++)
                total[l] = k_log_float(total[l]);
            softmax_store(&s, y, left, below - total);
        } else {
            softmax_store(&s, y, left, power * (1 / total));
        }
        x += s.rows * s.n;
        y += s.rows * s.n;
    }
}

static void K_IN_SET(softmax_backward_short)(const softmax_rows *z, char *const p[], int64_t rows) {
    const short_shape s = softmax_shape_of((int)z->n);
    float *gx = (float *)p[0];
    const float *from_g = (const float *)p[1];
    const float *from_y = (const float *)p[2];
    int64_t at = 0;
    for (int64_t left = rows; left > 0; left -= s.rows) {
        const __m512 g = softmax_load(&s, from_g + at, left, 0);
        const __m512 y = softmax_load(&s, from_y + at, left, 0);
        const __m512 total = softmax_sums(&s, z->kind == K_LOG_SOFTMAX ? g : (__m512)(g * y));
        __m512 share;
        if (z->kind == K_LOG_SOFTMAX) {
            for (int l = 0; l < 16; l++)
                share[l] = k_exp_float(y[l]);
            softmax_store(&s, gx + at, left, g - share * total);
        } else {
            softmax_store(&s, gx + at, left, y * (g - total));
        }
        at += s.rows * s.n;
    }
}
#else
static void K_IN_SET(softmax_short)(const softmax_rows *z, char *const p[], int64_t rows) {
    K_IN_SET(softmax_float)(z, p, rows);
}

static void K_IN_SET(softmax_backward_short)(const softmax_rows *z, char *const p[], int64_t rows) {
    K_IN_SET(softmax_backward_float)(z, p, rows);
}
#endif
