/*
 * normalize.c: rows with their mean taken away and divided by their deviation,
 * then scaled and shifted: layer, group and rms norm. Backward finds mean and
 * deviation again, from a row that it has to read anyway.
 */
#ifndef K_BITS
#include "loops.h"

/* Rows whose columns are added up at once; vectors that have a mean of their own. */
enum { NORM_ROWS = 4, NORM_CHUNK = 16 };

/* to[i] += the values of R rows in column i, which are written back once */
#define NORM_COLUMNS(to, value)                                              \
    do {                                                                     \
        double *restrict to_ = (to);                                         \
        if (R == NORM_ROWS)                                                  \
            for (int64_t i = 0; i < z->n; i++)                               \
                to_[i] = to_[i] + value(0) + value(1) + value(2) + value(3); \
        else                                                                 \
            for (int64_t k = 0; k < R; k++)                                  \
                for (int64_t i = 0; i < z->n; i++)                           \
                    to_[i] += value(k);                                      \
    } while (0)
#define NORM_G(k)  ((double)g[(k)*z->n + i])
#define NORM_GH(k) ((double)(g[(k)*z->n + i] * ((x[(k)*z->n + i] - mean[k]) * rstd[k])))
/* gx of a row, from its gw */
#define NORM_GRADIENT(gw)                                                     \
    do {                                                                      \
        if (z->centred)                                                       \
            K_SUM_OF(sum, z->n, gw);                                          \
        K_SUM_OF(dot, z->n, (gw) * ((x[i] - mean) * rstd));                   \
        sum /= (__typeof__(sum))z->n, dot /= (__typeof__(sum))z->n;           \
        K_ROW(past, gx, z->n, rstd *((gw)-sum - (x[i] - mean) * rstd * dot)); \
    } while (0)

typedef struct {
    const k_norm_rows *z;
    rg_tensor *y;
    const rg_tensor *x, *weight, *bias;
    bool past;
} norm_operands;
typedef struct {
    const k_norm_rows *z;
    rg_tensor *gx;
    double *gweight, *gbias;
    const rg_tensor *g, *x, *weight;
    int64_t grain;
} norm_slopes;

/* Row r's weights begin at (r % groups) * channels; each serves `per` elements. */
#define NORM_DATA(t) ((t) ? (void *)(t)->data : NULL)
#define NORM_VECTOR(k)                               \
    __extension__({                                  \
        __typeof__(mean_) v_;                        \
        memcpy(&v_, x + j + (k)*K_LANES, sizeof v_); \
        v_;                                          \
    })
/* Mean and 1 / deviation. Lane by lane a chunk's mean and squares around it join those before; so
 * do, at last, the lanes and what is left of the row. */
#define K_NORM(T)                                                                                  \
    static void K_SET(norm_row_##T)(const k_norm_rows *z, const T *x, T *mean, T *rstd) {          \
        T m = 0, v = 0, lane[K_LANES];                                                             \
        T __attribute__((vector_size(K_LANES * sizeof(T)))) mean_ = { 0 }, m2 = { 0 };             \
        int64_t whole = 0, rest;                                                                   \
        for (int64_t j = 0; z->centred && j + NORM_CHUNK * K_LANES <= z->n; j = whole) {           \
            __typeof__(m2) s[4] = { { 0 } }, q[4] = { { 0 } }, d;                                  \
            T before = (T)(j / K_LANES), share = NORM_CHUNK / (before + NORM_CHUNK);               \
            for (int k = 0; k < NORM_CHUNK; k++)                                                   \
                s[k % 4] += NORM_VECTOR(k);                                                        \
            s[0] = ((s[0] + s[1]) + (s[2] + s[3])) / NORM_CHUNK;                                   \
            for (int k = 0; k < NORM_CHUNK; k++)                                                   \
                d = NORM_VECTOR(k) - s[0], q[k % 4] += d * d;                                      \
            m2 += (q[0] + q[1]) + (q[2] + q[3]);                                                   \
            d = s[0] - mean_;                                                                      \
            if (j)                                                                                 \
                mean_ += d * share, m2 += d * d * (before * share);                                \
            else                                                                                   \
                mean_ = s[0];                                                                      \
            whole = j + NORM_CHUNK * K_LANES;                                                      \
        }                                                                                          \
        if (whole) {                                                                               \
            m = K_LANES_SUM(mean_, lane) / K_LANES;                                                \
            mean_ -= m;                                                                            \
            m2 += mean_ * mean_ * (T)(whole / K_LANES);                                            \
            v = K_LANES_SUM(m2, lane);                                                             \
        }                                                                                          \
        if ((rest = z->n - whole)) {                                                               \
            T mr = 0, vr;                                                                          \
            const T *xr = x + whole;                                                               \
            if (z->centred)                                                                        \
                K_SUM_OF(mr, rest, xr[i]);                                                         \
            mr /= (T)rest;                                                                         \
            K_SUM_OF(vr, rest, (xr[i] - mr) * (xr[i] - mr));                                       \
            v += vr;                                                                               \
            if (whole)                                                                             \
                v += (mr - m) * (mr - m) * ((T)whole * (T)rest / (T)z->n);                         \
            m += (mr - m) * ((T)rest / (T)z->n);                                                   \
        }                                                                                          \
        *mean = m, *rstd = 1 / sqrt(v / (T)z->n + (T)z->eps);                                      \
    }                                                                                              \
    static void K_SET(norm_##T)(void *context, int64_t begin, int64_t end, int worker) {           \
        const norm_operands *o = context;                                                          \
        const k_norm_rows *z = o->z;                                                               \
        T *restrict y = (T *)o->y->data + begin * z->n;                                            \
        const T *restrict x = (const T *)o->x->data + begin * z->n, *w = NORM_DATA(o->weight),     \
                          *b = NORM_DATA(o->bias);                                                 \
        int64_t channels = z->n / z->per;                                                          \
        const int64_t n = z->n;                                                                    \
        (void)worker;                                                                              \
        for (int64_t r = begin; r < end; r++, x += z->n, y += z->n) {                              \
            T mean, rstd;                                                                          \
            const T *restrict rw = w ? w + r % z->groups * channels : NULL,                        \
                              *restrict rb = b ? b + r % z->groups * channels : NULL;              \
            K_SET(norm_row_##T)(z, x, &mean, &rstd);                                               \
            if (z->per == 1 && rw && rb) {                                                         \
                K_ROW(o->past, y, n, (x[i] - mean) * rstd * rw[i] + rb[i]);                        \
            } else if (z->per == 1 && rw) {                                                        \
                K_ROW(o->past, y, n, (x[i] - mean) * rstd * rw[i]);                                \
            } else                                                                                 \
                for (int64_t c = 0; c < channels; c++) {                                           \
                    T scale = rw ? rw[c] : 1, shift = rb ? rb[c] : 0;                              \
                    for (int64_t i = c * z->per; i < (c + 1) * z->per; i++)                        \
                        y[i] = (x[i] - mean) * rstd * scale + shift;                               \
                }                                                                                  \
        }                                                                                          \
        if (o->past)                                                                               \
            k_stream_end();                                                                          \
    }                                                                                              \
    /* with h = (x - mean) rstd: gx = rstd (gw - mean(gw) - h mean(gw h)), gw = g weight;          \
     * weight's is sum(g h), bias's sum(g) */                                                      \
    static void K_SET(norm_gradient_##T)(const k_norm_rows *z, bool past, T mean, T rstd,          \
                                         T *restrict gx, const T *restrict g, const T *restrict x, \
                                         const T *restrict w) {                                    \
        T sum = 0, dot = 0;                                                                        \
        if (z->per == 1 && w)                                                                      \
            NORM_GRADIENT(g[i] * w[i]);                                                            \
        else if (!w)                                                                               \
            NORM_GRADIENT(g[i]);                                                                   \
        else {                                                                                     \
            for (int64_t c = 0; c < z->n / z->per; c++)                                            \
                for (int64_t i = c * z->per; i < (c + 1) * z->per; i++)                            \
                    gx[i] = g[i] * w[c];                                                           \
            past = false;                                                                          \
            NORM_GRADIENT(gx[i]);                                                                  \
        }                                                                                          \
    }                                                                                              \
    static void K_SET(norm_backward_##T)(void *context, int64_t begin, int64_t end, int worker) {  \
        const norm_slopes *o = context;                                                            \
        const k_norm_rows *z = o->z;                                                               \
        T *gx = o->gx ? (T *)o->gx->data + begin * z->n : NULL, mean[NORM_ROWS], rstd[NORM_ROWS];  \
        const T *g = (const T *)o->g->data + begin * z->n,                                         \
                *x = (const T *)o->x->data + begin * z->n, *w = NORM_DATA(o->weight);              \
        int64_t channels = z->n / z->per, own = begin / o->grain * 2 * z->groups * channels;       \
        double *restrict gweight = o->gweight ? o->gweight + own : NULL, *restrict gbias =         \
                                                                             o->gbias              \
                                                                                 ? o->gbias + own  \
                                                                                 : NULL;           \
        const bool past = o->gx && k_should_stream(o->gx, z->n);                                       \
        (void)worker;                                                                              \
        for (int64_t r = begin, R; r < end;                                                        \
             r += R, x += R * z->n, g += R * z->n, gx += gx ? R * z->n : 0) {                      \
            int64_t first = r % z->groups * channels;                                              \
            R = z->per == 1 && z->groups == 1 ? RG_MIN(end - r, NORM_ROWS) : 1;                    \
            for (int64_t k = 0, at = 0; k < R; k++, at += z->n) {                                  \
                K_SET(norm_row_##T)(z, x + at, &mean[k], &rstd[k]);                                \
                if (gx)                                                                            \
                    K_SET(norm_gradient_##T)                                                       \
                (z, past, mean[k], rstd[k], gx + at, g + at, x + at, w ? w + first : NULL);        \
            }                                                                                      \
            if (z->per == 1) {                                                                     \
                if (gweight)                                                                       \
                    NORM_COLUMNS(gweight + first, NORM_GH);                                        \
                if (gbias)                                                                         \
                    NORM_COLUMNS(gbias + first, NORM_G);                                           \
                continue;                                                                          \
            }                                                                                      \
            for (int64_t c = 0; c < channels && (gweight || gbias); c++) {                         \
                const T *gc = g + c * z->per, *xc = x + c * z->per;                                \
                T gw, gb;                                                                          \
                K_SUM_OF(gw, z->per, gc[i] * ((xc[i] - *mean) * *rstd));                           \
                K_SUM_OF(gb, z->per, gc[i]);                                                       \
                if (gweight)                                                                       \
                    gweight[first + c] += (double)gw;                                              \
                if (gbias)                                                                         \
                    gbias[first + c] += (double)gb;                                                \
            }                                                                                      \
        }                                                                                          \
        if (past)                                                                                  \
            k_stream_end();                                                                          \
    }
#define K_FILE "normalize.c"
#include "sets.h"

void k_normalize(const k_norm_rows *z, rg_tensor *y, const rg_tensor *x, const rg_tensor *weight,
                 const rg_tensor *bias) {
    static rg_work *const loops[][K_SET_COUNT] = { K_SETS(norm_float), K_SETS(norm_double) };
    if (y->numel)
        k_rows(z->rows, z->n, loops[y->dtype == RG_FLOAT64][k_set],
               &(norm_operands){ z, y, x, weight, bias, k_should_stream(y, z->n) });
}

/* Of sixteen parts at most, whatever the number of threads, and of eight rows at least: their sums
 * take less room than x. */
static int64_t norm_grain(const k_norm_rows *z) {
    return z->rows * z->n < RG_LARGE
               ? RG_MAX(z->rows, 1)
               : RG_MAX((z->rows + 15) / 16 + NORM_ROWS - 1, 2 * NORM_ROWS) / NORM_ROWS * NORM_ROWS;
}

int64_t k_norm_parts(const k_norm_rows *z) { return RG_MAX(z->rows - 1, 0) / norm_grain(z) + 1; }

void k_normalize_backward(const k_norm_rows *z, rg_tensor *gx, double *gweight, double *gbias,
                          const rg_tensor *g, const rg_tensor *x, const rg_tensor *weight) {
    static rg_work *const loops[][K_SET_COUNT] = { K_SETS(norm_backward_float),
                                                   K_SETS(norm_backward_double) };
    if (!x->numel)
        return;
    int64_t grain = norm_grain(z), n = z->groups * z->n / z->per;
    rgi_parallel(z->rows, grain, rgi_workers(z->rows, grain), loops[x->dtype == RG_FLOAT64][k_set],
                 &(norm_slopes){ z, gx, gweight, gbias, g, x, weight, grain });
    for (int64_t part = 1; part < k_norm_parts(z); part++)
        for (int64_t i = 0; i < n; i++) {
            if (gweight)
                gweight[i] += gweight[2 * n * part + i];
            if (gbias)
                gbias[i] += gbias[2 * n * part + i];
        }
}

#else
K_NORM(float)
K_NORM(double)
#endif
