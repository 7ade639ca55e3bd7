/*
 * loss.c: what a prediction costs, element by element, and what that is a slope
 * of; and the negative log likelihood of classes.
 */
#include "kernels.h"

#include <math.h>

/* LOSS from x, t, d = x - t, a = |d|, w (pos_weight) and c (beta, delta); SLOPE: d LOSS / d x */
typedef struct { double c, scale; } loss_context;

#define K_LOSS_LOOPS(name, T, LOSS, SLOPE)                                                      \
    /* y = weight LOSS, of y, x, t, weight, pos_weight */                                       \
    static void loss_##name##_##T(char *const p[], const int64_t s[], int64_t n, const void *context) \
    {                                                                                           \
        const T c = (T)((const loss_context *)context)->c;                                      \
        for (int64_t i = 0; i < n; i++) {                                                       \
            T x = *(const T *)(p[1] + i * s[1]), t = *(const T *)(p[2] + i * s[2]), w = *(const T *)(p[4] + i * s[4]); \
            T d = x - t, a = d < 0 ? -d : d;                                                    \
            (void)a, (void)c, (void)w;                                                          \
            *(T *)(p[0] + i * s[0]) = *(const T *)(p[3] + i * s[3]) * (LOSS);                   \
        }                                                                                       \
    }                                                                                           \
    /* gx = g scale weight SLOPE, of gx, x, t, weight, g */                                     \
    static void slope_##name##_##T(char *const p[], const int64_t s[], int64_t n, const void *context) \
    {                                                                                           \
        const loss_context *k = context;                                                        \
        const T c = (T)k->c, scale = (T)k->scale, w = 1;                                        \
        for (int64_t i = 0; i < n; i++) {                                                       \
            T x = *(const T *)(p[1] + i * s[1]), t = *(const T *)(p[2] + i * s[2]), g = *(const T *)(p[4] + i * s[4]); \
            T d = x - t;                                                                        \
            (void)d, (void)c, (void)w;                                                          \
            *(T *)(p[0] + i * s[0]) = (SLOPE) * *(const T *)(p[3] + i * s[3]) * (g * scale);    \
        }                                                                                       \
    }
#define K_LOSS(name, LOSS, SLOPE)                                                               \
    K_LOSS_LOOPS(name, float, LOSS(f), SLOPE(f))                                                \
    K_LOSS_LOOPS(name, double, LOSS(), SLOPE())

#define LOSS_ABOVE(v, least) ((v) < (least) ? (least) : (v))
#define LOSS_MSE(f)         d * d
#define LOSS_MSE_SLOPE(f)   2 * d
#define LOSS_SMOOTH(f)      a < c ? d * d / c / 2 : a - c / 2
#define LOSS_SMOOTH_SLOPE(f) d <= -c ? -1 : d >= c ? 1 : d / c
#define LOSS_HUBER(f)       a <= c ? d * d / 2 : c * (a - c / 2)
#define LOSS_HUBER_SLOPE(f) d <= -c ? -c : d >= c ? c : d
#define LOSS_BCE(f)         (t - 1) * LOSS_ABOVE(log1p##f(-x), -100) - t * LOSS_ABOVE(log##f(x), -100)
#define LOSS_BCE_SLOPE(f)   d / LOSS_ABOVE((1 - x) * x, c)
#define LOSS_LOGITS(f)      (1 - t) * x + ((w - 1) * t + 1) * (log1p##f(exp##f(-fabs##f(x))) + LOSS_ABOVE(-x, 0))
#define LOSS_LOGITS_SLOPE(f) ((w * t + 1 - t) / (1 + exp##f(-x)) - w * t)
K_LOSS(mse, LOSS_MSE, LOSS_MSE_SLOPE)
K_LOSS(smooth, LOSS_SMOOTH, LOSS_SMOOTH_SLOPE)
K_LOSS(huber, LOSS_HUBER, LOSS_HUBER_SLOPE)
K_LOSS(bce, LOSS_BCE, LOSS_BCE_SLOPE)
K_LOSS(logits, LOSS_LOGITS, LOSS_LOGITS_SLOPE)

#define LOSS_PAIR(what, name) { what##_##name##_float, what##_##name##_double }
static rg_loop *const losses[][2] = { LOSS_PAIR(loss, mse), LOSS_PAIR(loss, smooth), LOSS_PAIR(loss, huber), LOSS_PAIR(loss, bce),
                                      LOSS_PAIR(loss, logits) };
static rg_loop *const slopes[][2] = { LOSS_PAIR(slope, mse), LOSS_PAIR(slope, smooth), LOSS_PAIR(slope, huber), LOSS_PAIR(slope, bce),
                                      LOSS_PAIR(slope, logits) };

/* t, or a 1 that stands for it. */
static rg_tensor *loss_or_one(const rg_tensor *t, const rg_tensor *like, rg_tensor *one)
{
    static const double one_double = 1;
    static const float one_float = 1;
    *one = (rg_tensor){ .state = RG_ALIVE, .dtype = like->dtype, .numel = 1, .flags = RG_CONTIGUOUS,
                        .data = like->dtype == RG_FLOAT32 ? (char *)&one_float : (char *)&one_double };
    return t ? (rg_tensor *)t : one;
}

void k_loss(k_loss_kind kind, rg_tensor *y, rg_tensor *x, rg_tensor *t, const rg_tensor *weight, const rg_tensor *pos_weight, double c)
{
    rg_tensor one, other;
    rg_tensor *all[] = { y, x, t, loss_or_one(weight, y, &one), loss_or_one(pos_weight, y, &other) };
    rg_each(5, all, losses[kind][y->dtype == RG_FLOAT64], &(loss_context){ .c = c });
}

void k_loss_slope(k_loss_kind kind, rg_tensor *gx, rg_tensor *g, rg_tensor *x, rg_tensor *t, const rg_tensor *weight, double c, double scale)
{
    rg_tensor one;
    rg_tensor *all[] = { gx, x, t, loss_or_one(weight, gx, &one), g };
    rg_each(5, all, slopes[kind][gx->dtype == RG_FLOAT64], &(loss_context){ c, scale });
}

#define K_XLOGX(T, LOG)                                                                         \
    static void xlogx_##T(char *const p[], const int64_t s[], int64_t n, const void *context)   \
    {                                                                                           \
        (void)context;                                                                          \
        for (int64_t i = 0; i < n; i++) {                                                       \
            T x = *(const T *)(p[1] + i * s[1]);                                                \
            *(T *)(p[0] + i * s[0]) = x == 0 ? 0 : x * LOG(x);                                  \
        }                                                                                       \
    }
K_XLOGX(float, logf)
K_XLOGX(double, log)

void k_xlogx(rg_tensor *y, rg_tensor *const in[])
{
    rg_each(2, (rg_tensor *[]){ y, in[0] }, y->dtype == RG_FLOAT32 ? xlogx_float : xlogx_double, NULL);
}

/* ---- negative log likelihood: x (batch, classes, inner), target (batch, inner), contiguous ---------- */

double k_nll_weights(rg_tensor *weights, const rg_tensor *target, const rg_tensor *weight, int64_t ignore)
{
    double total = 0;
    for (int64_t i = 0; i < target->numel; i++) {
        int64_t class = ((const int64_t *)target->data)[i];
        double w = class == ignore ? 0 : weight ? rg_load_f64(weight->data + class * weight->stride[0] * (int64_t)rg_sizeof(weight->dtype),
                                                              weight->dtype) : 1;
        if (weights) rg_store_f64(weights->data + i * (int64_t)rg_sizeof(weights->dtype), weights->dtype, w);
        total += w;
    }
    return total;
}

void k_nll(rg_tensor *y, const rg_tensor *x, const rg_tensor *target, const rg_tensor *weights, int64_t classes, int64_t inner, int64_t ignore)
{
    for (int64_t i = 0; i < target->numel; i++) {
        int64_t class = ((const int64_t *)target->data)[i], at = (i / inner * classes + class) * inner + i % inner;
        if (x->dtype == RG_FLOAT32)
            ((float *)y->data)[i] = class == ignore ? 0 : -((const float *)x->data)[at] * ((const float *)weights->data)[i];
        else
            ((double *)y->data)[i] = class == ignore ? 0 : -((const double *)x->data)[at] * ((const double *)weights->data)[i];
    }
}

void k_nll_backward(rg_tensor *gx, const rg_tensor *g, const rg_tensor *target, const rg_tensor *weights, int64_t classes, int64_t inner,
                    int64_t ignore, double scale)
{
    rg_fill_zero(gx);
    for (int64_t i = 0; i < target->numel; i++) {
        int64_t class = ((const int64_t *)target->data)[i], at = (i / inner * classes + class) * inner + i % inner;
        int64_t from = g->numel == 1 && g->ndim == 0 ? 0 : i;
        if (class == ignore) continue;
        if (gx->dtype == RG_FLOAT32)
            ((float *)gx->data)[at] = -((const float *)weights->data)[i] * (((const float *)g->data)[from] * (float)scale);
        else
            ((double *)gx->data)[at] = -((const double *)weights->data)[i] * (((const double *)g->data)[from] * scale);
    }
}
