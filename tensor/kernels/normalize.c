/*
 * normalize.c: rows with their mean taken away and divided by their deviation,
 * then scaled and shifted: layer, group and rms norm. Backward finds mean and
 * deviation again, from a row that it has to read anyway.
 */
#ifndef K_SET
#include "loops.h"

enum { NORM_ROWS = 4 };                                /* whose columns are added up at once */

/* to[i] += the values of R rows in column i, which are written back once */
#define NORM_COLUMNS(to, value) do {                                                                         \
        double *restrict to_ = (to);                                                                         \
        if (R == NORM_ROWS) for (int64_t i = 0; i < z->n; i++)                                               \
            to_[i] = to_[i] + value(0) + value(1) + value(2) + value(3);                                     \
        else for (int64_t k = 0; k < R; k++)                                                                 \
            for (int64_t i = 0; i < z->n; i++) to_[i] += value(k);                                           \
    } while (0)
#define NORM_G(k)  ((double)g[(k) * z->n + i])
#define NORM_GH(k) ((double)(g[(k) * z->n + i] * ((x[(k) * z->n + i] - mean[k]) * rstd[k])))
/* gx of a row, from its gw */
#define NORM_GRADIENT(gw) do {                                                                               \
        if (z->centred) K_SUM_OF(sum, z->n, gw);                                                             \
        K_SUM_OF(dot, z->n, (gw) * ((x[i] - mean) * rstd));                                                  \
        sum /= (__typeof__(sum))z->n, dot /= (__typeof__(sum))z->n;                                          \
        for (int64_t i = 0; i < z->n; i++) gx[i] = rstd * ((gw) - sum - (x[i] - mean) * rstd * dot);         \
    } while (0)

typedef struct { const k_norm_rows *z; rg_tensor *y; const rg_tensor *x, *weight, *bias; } norm_operands;

/* Row r's weights begin at (r % groups) * channels; each serves `per` elements. */
#define NORM_DATA(t) ((t) ? (void *)(t)->data : NULL)
#define K_NORM(T)                                                                                            \
    static void K_SET(norm_row_##T)(const k_norm_rows *z, const T *x, T *mean, T *rstd) {                    \
        T m = 0, v;                                                                                          \
        if (z->centred) K_SUM_OF(m, z->n, x[i]);                                                             \
        m /= (T)z->n;                                                                                        \
        K_SUM_OF(v, z->n, (x[i] - m) * (x[i] - m));                                                          \
        *mean = m, *rstd = 1 / sqrt(v / (T)z->n + (T)z->eps);                                                \
    }                                                                                                        \
    static void K_SET(norm_##T)(void *context, int64_t begin, int64_t end, int worker) {                     \
        const norm_operands *o = context;                                                                    \
        const k_norm_rows *z = o->z;                                                                         \
        T *restrict y = (T *)o->y->data + begin * z->n;                                                      \
        const T *restrict x = (const T *)o->x->data + begin * z->n, *w = NORM_DATA(o->weight), *b = NORM_DATA(o->bias);\
        int64_t channels = z->n / z->per;                                                                    \
        (void)worker;                                                                                        \
        for (int64_t r = begin; r < end; r++, x += z->n, y += z->n) {                                        \
            T mean, rstd;                                                                                    \
            const T *rw = w ? w + r % z->groups * channels : NULL, *rb = b ? b + r % z->groups * channels : NULL; \
            K_SET(norm_row_##T)(z, x, &mean, &rstd);                                                         \
            if (z->per == 1 && rw && rb) {                                                                   \
                for (int64_t i = 0; i < z->n; i++) y[i] = (x[i] - mean) * rstd * rw[i] + rb[i];              \
            } else if (z->per == 1 && rw) {                                                                  \
                for (int64_t i = 0; i < z->n; i++) y[i] = (x[i] - mean) * rstd * rw[i];                      \
            } else for (int64_t c = 0; c < channels; c++) {                                                  \
                T scale = rw ? rw[c] : 1, shift = rb ? rb[c] : 0;                                            \
                for (int64_t i = c * z->per; i < (c + 1) * z->per; i++) y[i] = (x[i] - mean) * rstd * scale + shift; \
            }                                                                                                \
        }                                                                                                    \
    }                                                                                                        \
    /* with h = (x - mean) rstd: gx = rstd (gw - mean(gw) - h mean(gw h)), gw = g weight;                    \
     * weight's is sum(g h), bias's sum(g) */                                                                \
    static void K_SET(norm_gradient_##T)(const k_norm_rows *z, T mean, T rstd, T *restrict gx, const T *restrict g, \
                                         const T *restrict x, const T *restrict w) {                         \
        T sum = 0, dot = 0;                                                                                  \
        if (z->per == 1 && w) NORM_GRADIENT(g[i] * w[i]);                                                    \
        else if (!w) NORM_GRADIENT(g[i]);                                                                    \
        else {                                                                                               \
            for (int64_t c = 0; c < z->n / z->per; c++)                                                      \
                for (int64_t i = c * z->per; i < (c + 1) * z->per; i++) gx[i] = g[i] * w[c];                 \
            NORM_GRADIENT(gx[i]);                                                                            \
        }                                                                                                    \
    }                                                                                                        \
    static void K_SET(norm_backward_##T)(const k_norm_rows *z, rg_tensor *to, double *restrict gweight, double *restrict gbias, \
                                         const rg_tensor *by, const rg_tensor *from, const rg_tensor *weight) { \
        T *gx = NORM_DATA(to), mean[NORM_ROWS], rstd[NORM_ROWS];                                             \
        const T *g = (const T *)by->data, *x = (const T *)from->data, *w = NORM_DATA(weight);                \
        int64_t channels = z->n / z->per;                                                                    \
        for (int64_t r = 0, R; r < z->rows; r += R, x += R * z->n, g += R * z->n, gx += gx ? R * z->n : 0) { \
            int64_t first = r % z->groups * channels;                                                        \
            R = z->per == 1 && z->groups == 1 ? RG_MIN(z->rows - r, NORM_ROWS) : 1;                          \
            for (int64_t k = 0, at = 0; k < R; k++, at += z->n) {                                            \
                K_SET(norm_row_##T)(z, x + at, &mean[k], &rstd[k]);                                          \
                if (gx) K_SET(norm_gradient_##T)(z, mean[k], rstd[k], gx + at, g + at, x + at, w ? w + first : NULL); \
            }                                                                                                \
            if (z->per == 1) {                                                                               \
                if (gweight) NORM_COLUMNS(gweight + first, NORM_GH);                                         \
                if (gbias) NORM_COLUMNS(gbias + first, NORM_G);                                              \
                continue;                                                                                    \
            }                                                                                                \
            for (int64_t c = 0; c < channels && (gweight || gbias); c++) {                                   \
                const T *gc = g + c * z->per, *xc = x + c * z->per;                                          \
                T gw, gb;                                                                                    \
                K_SUM_OF(gw, z->per, gc[i] * ((xc[i] - *mean) * *rstd));                                     \
                K_SUM_OF(gb, z->per, gc[i]);                                                                 \
                if (gweight) gweight[first + c] += (double)gw;                                               \
                if (gbias) gbias[first + c] += (double)gb;                                                   \
            }                                                                                                \
        }                                                                                                    \
    }
#define K_FILE "normalize.c"
#include "sets.h"

void k_normalize(const k_norm_rows *z, rg_tensor *y, const rg_tensor *x, const rg_tensor *weight, const rg_tensor *bias) {
    static rg_work *const loops[][K_SET_COUNT] = { K_SETS(norm_float), K_SETS(norm_double) };
    if (y->numel) k_rows(z->rows, z->n, loops[y->dtype == RG_FLOAT64][k_set], &(norm_operands){ z, y, x, weight, bias });
}

void k_normalize_backward(const k_norm_rows *z, rg_tensor *gx, double *gweight, double *gbias, const rg_tensor *g,
                          const rg_tensor *x, const rg_tensor *weight) {
    static __typeof__(k_normalize_backward) *const loops[][K_SET_COUNT] = { K_SETS(norm_backward_float), K_SETS(norm_backward_double) };
    if (x->numel) loops[x->dtype == RG_FLOAT64][k_set](z, gx, gweight, gbias, g, x, weight);
}

#else
K_NORM(float)
K_NORM(double)
#endif
