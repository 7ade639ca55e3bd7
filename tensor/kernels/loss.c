/*
 * loss.c: what a prediction costs, element by element, and what that is a slope
 * of; and the negative log likelihood of classes.
 */
#ifndef K_BITS
#include "loops.h"

/* VALUE from x, t, d = x - t, a = |d|, c (beta, delta), weight, and w: pos_weight of a loss, g
 * times the scale of a slope */
typedef struct {
    double c, scale;
} loss_context;

#define K_LOSS_EACH(T, step, single, VALUE)                                           \
    K_INDEPENDENT for (int64_t i = 0; i < n; i++) {                                   \
        T x = *(const T *)(p[1] + i * step(1)), t = *(const T *)(p[2] + i * step(2)); \
        T weight = *(const T *)(p[3] + i * single(3)),                                \
          w = *(const T *)(p[4] + i * single(4)) * scale;                             \
        T d = x - t, a = d < 0 ? -d : d;                                              \
        (void)a, (void)c, (void)w;                                                    \
        *(T *)(p[0] + i * step(0)) = (VALUE)*weight;                                  \
    }
#define K_LOSS_LOOP(name, T, VALUE)                                                     \
    static void K_SET(name##_##T)(char *const p[], const int64_t s[], int64_t n,        \
                                  const void *context) {                                \
        const loss_context *k = context;                                                \
        const T c = (T)k->c, scale = (T)k->scale;                                       \
        const bool dense = s[0] == sizeof(T) && s[1] == sizeof(T) && s[2] == sizeof(T); \
        if (dense && !s[3] && !s[4])                                                    \
            K_LOSS_EACH(T, LOSS_DENSE, LOSS_SINGLE, VALUE)                              \
        else                                                                            \
            K_LOSS_EACH(T, LOSS_STEP, LOSS_STEP, VALUE)                                 \
    }
#define LOSS_STEP(operand)   s[operand]
#define LOSS_DENSE(operand)  (int64_t)sizeof(c)
#define LOSS_SINGLE(operand) 0
#define K_LOSS(name, loss, slope)                \
    K_LOSS_LOOP(loss_##name, float, loss)        \
    K_LOSS_LOOP(loss_##name, double, loss)       \
    K_LOSS_LOOP(slope_##name, float, w *(slope)) \
    K_LOSS_LOOP(slope_##name, double, w *(slope))
#define LOSS_ABOVE(v, least) ((v) < (least) ? (least) : (v))
#define LOSS_WITHIN(v, most) ((v) > (most) ? (most) : LOSS_ABOVE(v, -(most)))

/* ---- negative log likelihood: x (batch, classes, inner), target (batch, inner), contiguous ---- */

static double nll_weight(const k_nll_targets *z, int64_t i) {
    int64_t class = ((const int64_t *)z->target->data)[i];
    if (class == z->ignore || !z->weight)
        return class != z->ignore;
    return rgi_load_f64(z->weight->data
                            + class * z->weight->stride[0] * (int64_t)rgi_sizeof(z->weight->dtype),
                        z->weight->dtype);
}

/* y: the losses, or x's gradient. */
typedef struct {
    const k_nll_targets *z;
    rg_tensor *y, *lse, *x, *g, *g_lse;
    double scale;
} cross_entropy_rows;

/* weight[t] (lse - x[t]); gx = e^(x - lse) (weight[t] g + g_lse), but for t's class, where it is
 * less by weight[t] g */
#define K_CROSS_ENTROPY(T)                                                                        \
    static void K_SET(cross_entropy_##T)(void *context, int64_t begin, int64_t end, int worker) { \
        const cross_entropy_rows *c = context;                                                    \
        const int64_t n = c->z->classes, *target = (const int64_t *)c->z->target->data;           \
        (void)worker;                                                                             \
        for (int64_t r = begin; r < end; r++) {                                                   \
            const T *x = (const T *)c->x->data + r * n;                                           \
            __typeof__(ORDER((T)0)) greatest = ORDER(-(T)INFINITY);                               \
            T max, total;                                                                         \
            for (int64_t i = 0; i < n; i++)                                                       \
                greatest = RG_MAX(greatest, ORDER(x[i]));                                         \
            max = UNORDER(greatest);                                                              \
            K_SUM_OF(total, n, EXP_BELOW(x[i] - max));                                            \
            total = LOG(total);                                                                   \
            ((double *)c->lse->data)[r] = (double)max + (double)total;                            \
            ((T *)c->y->data)[r] =                                                                \
                target[r] == c->z->ignore                                                         \
                    ? 0                                                                           \
                    : (T)(-(double)(x[target[r]] - max - total) * nll_weight(c->z, r));           \
        }                                                                                         \
    }                                                                                             \
    static void K_SET(cross_entropy_backward_##T)(void *context, int64_t begin, int64_t end,      \
                                                  int worker) {                                   \
        const cross_entropy_rows *c = context;                                                    \
        const int64_t n = c->z->classes, *target = (const int64_t *)c->z->target->data;           \
        (void)worker;                                                                             \
        for (int64_t r = begin; r < end; r++) {                                                   \
            const T *restrict x = (const T *)c->x->data + r * n;                                  \
            T *restrict gx = (T *)c->y->data + r * n;                                             \
            const bool counts = target[r] != c->z->ignore;                                        \
            double lse = ((const double *)c->lse->data)[r],                                       \
                   g = (double)((const T *)c->g->data)[c->g->ndim ? r : 0] * c->scale;            \
            double own = counts ? g * nll_weight(c->z, r) : 0;                                    \
            const T high = (T)lse, low = (T)(lse - (double)high),                                 \
                    all = (T)(own + (c->g_lse ? ((const double *)c->g_lse->data)[r] : 0));        \
            for (int64_t i = 0; i < n; i++)                                                       \
                gx[i] = EXP_BELOW(x[i] - high - low) * all;                                       \
            if (counts)                                                                           \
                gx[target[r]] -= (T)own;                                                          \
        }                                                                                         \
    }

#define K_FILE "loss.c"
#include "sets.h"

#define LOSS_LOOPS(name)                                                 \
    {                                                                    \
        { K_SETS(loss_##name##_float), K_SETS(loss_##name##_double) }, { \
            K_SETS(slope_##name##_float), K_SETS(slope_##name##_double)  \
        }                                                                \
    }
static rg_loop *const loss_loops[][2][2][K_SET_COUNT] = { LOSS_LOOPS(mse), LOSS_LOOPS(smooth),
                                                          LOSS_LOOPS(huber), LOSS_LOOPS(bce),
                                                          LOSS_LOOPS(logits) };

void k_loss(k_loss_kind kind, bool slope, rg_tensor *y, rg_tensor *x, rg_tensor *t,
            const rg_tensor *weight, const rg_tensor *by, double c, double scale) {
    static const float single = 1;
    static const double wide = 1;
    static rg_tensor ones[] = { RG_NUMBER(RG_FLOAT32, &single), RG_NUMBER(RG_FLOAT64, &wide) };
    rg_tensor *one = &ones[y->dtype == RG_FLOAT64],
              *all[] = { y, x, t, weight ? (rg_tensor *)weight : one, by ? (rg_tensor *)by : one };
    rgi_each_apart(5, all, loss_loops[kind][slope][y->dtype == RG_FLOAT64][k_set],
                   &(loss_context){ c, scale });
}

double k_nll_total(const k_nll_targets *z) {
    double total = 0;
    for (int64_t i = 0; i < z->target->numel; i++)
        total += nll_weight(z, i);
    return total;
}

/* Rows of `inner` targets: their losses, or with g the gradient of a slice of x. */
#define NLL_ROWS(T)                                                                               \
    static void nll_##T(void *context, int64_t begin, int64_t end, int worker) {                  \
        const cross_entropy_rows *c = context;                                                    \
        const int64_t inner = c->z->inner, n = c->z->classes * inner,                             \
                      *t = (const int64_t *)c->z->target->data;                                   \
        (void)worker;                                                                             \
        for (int64_t r = begin; r < end; r++) {                                                   \
            T *slice = (T *)c->x->data + r * n;                                                   \
            if (c->g)                                                                             \
                memset(slice, 0, (size_t)n * sizeof *slice);                                      \
            for (int64_t i = r * inner; i < (r + 1) * inner; i++) {                               \
                const bool counts = t[i] != c->z->ignore;                                         \
                T *x = slice + i - r * inner + (counts ? t[i] * inner : 0);                       \
                if (!c->g)                                                                        \
                    ((T *)c->y->data)[i] = counts ? (T)(-(double)*x * nll_weight(c->z, i)) : 0;   \
                else if (counts)                                                                  \
                    *x = (T)(-nll_weight(c->z, i) * (double)((T *)c->g->data)[c->g->ndim ? i : 0] \
                             * c->scale);                                                         \
            }                                                                                     \
        }                                                                                         \
    }
NLL_ROWS(float)
NLL_ROWS(double)

static void nll_run(const cross_entropy_rows *c, int64_t per_row) {
    k_rows(c->z->target->numel / RG_MAX(c->z->inner, 1), per_row,
           c->x->dtype == RG_FLOAT64 ? nll_double : nll_float, (void *)c);
}

void k_nll(const k_nll_targets *z, rg_tensor *y, rg_tensor *x) {
    nll_run(&(cross_entropy_rows){ z, y, .x = x }, z->inner);
}

void k_nll_backward(const k_nll_targets *z, rg_tensor *gx, rg_tensor *g, double scale) {
    nll_run(&(cross_entropy_rows){ z, .x = gx, .g = g, .scale = scale }, z->classes * z->inner);
}

void k_cross_entropy(const k_nll_targets *z, rg_tensor *y, rg_tensor *lse, rg_tensor *x) {
    static rg_work *const loops[][K_SET_COUNT] = { K_SETS(cross_entropy_float),
                                                   K_SETS(cross_entropy_double) };
    k_rows(lse->numel, z->classes, loops[x->dtype == RG_FLOAT64][k_set],
           &(cross_entropy_rows){ z, y, lse, x, .scale = 1 });
}

void k_cross_entropy_backward(const k_nll_targets *z, rg_tensor *gx, rg_tensor *lse, rg_tensor *x,
                              rg_tensor *g, rg_tensor *g_lse, double scale) {
    static rg_work *const loops[][K_SET_COUNT] = { K_SETS(cross_entropy_backward_float),
                                                   K_SETS(cross_entropy_backward_double) };
    k_rows(lse->numel, z->classes, loops[x->dtype == RG_FLOAT64][k_set],
           &(cross_entropy_rows){ z, gx, lse, x, g, g_lse, scale });
}

#else
K_CROSS_ENTROPY(float)
K_CROSS_ENTROPY(double)
K_LOSS(mse, d *d, 2 * d)
K_LOSS(smooth, a < c ? d * d / c / 2 : a - c / 2, LOSS_WITHIN(d, c) / c)
K_LOSS(huber, a <= c ? d * d / 2 : c * (a - c / 2), LOSS_WITHIN(d, c))
K_LOSS(bce, (t - 1) * LOSS_ABOVE(LOG1P(-x), -100) - t * LOSS_ABOVE(LOG(x), -100),
       d / LOSS_ABOVE((1 - x) * x, c))
K_LOSS(logits, (1 - t) * x + ((w - 1) * t + 1) * (LOG1P(EXP(-fabs(x))) + LOSS_ABOVE(-x, 0)),
       1 / (1 + EXP(-x)) - t)
#endif
