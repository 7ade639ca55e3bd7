/*
 * softmax.c: softmax, its logarithm and their gradients, row by row along one
 * dim. A row that lies in one piece is read in lanes; rows that lie side by side
 * (another dim than the last) are done a few dozen at a time, for the cache's sake.
 */
#include "loops.h"

/* n elements along the dim, `step` apart in y, x (or the output that was) and g. */
typedef struct { int64_t n, y_step, x_step, g_step; k_softmax_kind kind; bool last, short_rows; } softmax_context;

enum { SOFTMAX_SIDE = 32 };                             /* rows side by side */

/* R rows side by side, or one. */
#define SOFTMAX_EACH for (int64_t i = 0; i < c->n; i++) for (int64_t r = 0; r < R; r++)

#define K_SOFTMAX(T)                                                                            \
    static void softmax_side_##T(const softmax_context *c, int64_t R, T *restrict y, const T *restrict x) \
    {                                                                                           \
        T max[SOFTMAX_SIDE], total[SOFTMAX_SIDE];                                               \
        for (int64_t r = 0; r < R; r++) max[r] = -(T)INFINITY, total[r] = 0;                    \
        SOFTMAX_EACH {                                                                          \
            T v = x[i * c->x_step + r];                                                         \
            max[r] = K_GREATER(max[r], v);                                                      \
        }                                                                                       \
        SOFTMAX_EACH {                                                                          \
            T e = EXP(x[i * c->x_step + r] - max[r]);                                           \
            total[r] += e;                                                                      \
            if (c->kind != K_LOG_SOFTMAX) y[i * c->y_step + r] = e;                             \
        }                                                                                       \
        if (c->kind == K_LOG_SOFTMAX) {                                                         \
            for (int64_t r = 0; r < R; r++) total[r] = log(total[r]);                           \
            SOFTMAX_EACH y[i * c->y_step + r] = x[i * c->x_step + r] - max[r] - total[r];       \
            return;                                                                             \
        }                                                                                       \
        for (int64_t r = 0; r < R && c->kind == K_SAFE_SOFTMAX; r++)                            \
            if (max[r] == -(T)INFINITY) {                                                       \
                for (int64_t i = 0; i < c->n; i++) y[i * c->y_step + r] = 0;                    \
                total[r] = 1;                                                                   \
            }                                                                                   \
        if (c->last) SOFTMAX_EACH y[i * c->y_step + r] *= 1 / total[r];                         \
        else SOFTMAX_EACH y[i * c->y_step + r] /= total[r];                                     \
    }                                                                                           \
    static void softmax_row_##T(const softmax_context *c, T *restrict y, const T *restrict x)   \
    {                                                                                           \
        T max, total;                                                                           \
        K_FOLD(max, c->n, -(T)INFINITY, K_GREATER, x[i]);                                       \
        K_FOLD(total, c->n, 0, K_PLUS, (y[i] = EXP(x[i] - max)));                               \
        if (c->kind == K_LOG_SOFTMAX) {                                                         \
            total = log(total);                                                                 \
            for (int64_t i = 0; i < c->n; i++) y[i] = x[i] - max - total;                       \
        } else if (c->kind == K_SAFE_SOFTMAX && max == -(T)INFINITY) {                          \
            for (int64_t i = 0; i < c->n; i++) y[i] = 0;                                        \
        } else {                                                                                \
            total = 1 / total;                                                                  \
            for (int64_t i = 0; i < c->n; i++) y[i] *= total;                                   \
        }                                                                                       \
    }                                                                                           \
    /* The same for many rows, each shorter than the lanes are many: one loop for all exponentials. */ \
    static void softmax_short_##T(int64_t n, int64_t rows, T *restrict y, const T *restrict x)  \
    {                                                                                           \
        for (int64_t r = 0; r < rows; r++) {                                                    \
            T max = x[r * n];                                                                   \
            for (int64_t i = r * n + 1; i < r * n + n; i++) max = K_GREATER(max, x[i]);         \
            for (int64_t i = r * n; i < r * n + n; i++) y[i] = x[i] - max;                      \
        }                                                                                       \
        for (int64_t i = 0; i < rows * n; i++) y[i] = EXP(y[i]);                                \
        for (int64_t r = 0; r < rows; r++) {                                                    \
            T lane[K_LANES] = { 0 }, *row = y + r * n;                                          \
            for (int64_t i = 0; i < n; i++) lane[i] = row[i];                                   \
            K_FOLD_LANES(lane, K_PLUS);                                                         \
            for (int64_t i = 0; i < n; i++) row[i] *= 1 / lane[0];                              \
        }                                                                                       \
    }                                                                                           \
    static void softmax_##T(char *const p[], const int64_t s[], int64_t rows, const void *context) \
    {                                                                                           \
        const softmax_context *c = context;                                                     \
        bool side = s[0] == sizeof(T) && s[1] == sizeof(T) && c->y_step != 1;                   \
        for (int64_t r = 0, R; r < rows; r += R) {                                              \
            const T *x = (const T *)(p[1] + r * s[1]);                                          \
            T *y = (T *)(p[0] + r * s[0]);                                                      \
            R = side ? RG_MIN(rows - r, SOFTMAX_SIDE) : 1;                                      \
            if (c->short_rows) softmax_short_##T(c->n, R = RG_MIN(rows - r, SOFTMAX_SIDE), y, x); \
            else if (c->last && c->y_step == 1 && c->x_step == 1) softmax_row_##T(c, y, x);     \
            else softmax_side_##T(c, R, y, x);                                                  \
        }                                                                                       \
    }                                                                                           \
    /* softmax: y (g - sum(g y)); log_softmax: g - e^y sum(g) */                                \
    static void softmax_backward_##T(char *const p[], const int64_t s[], int64_t rows, const void *context) \
    {                                                                                           \
        const softmax_context *c = context;                                                     \
        bool side = s[0] == sizeof(T) && s[1] == sizeof(T) && s[2] == sizeof(T) && c->y_step != 1; \
        bool log = c->kind == K_LOG_SOFTMAX, packed = c->y_step == 1 && c->x_step == 1 && c->g_step == 1; \
        for (int64_t first = 0, R; first < rows; first += R) {                                  \
            T *restrict gx = (T *)(p[0] + first * s[0]), total[SOFTMAX_SIDE] = { 0 };           \
            const T *restrict g = (const T *)(p[1] + first * s[1]), *restrict y = (const T *)(p[2] + first * s[2]); \
            R = side ? RG_MIN(rows - first, SOFTMAX_SIDE) : 1;                                  \
            if (packed) {                                                                       \
                K_FOLD(total[0], c->n, 0, K_PLUS, g[i] * (log ? 1 : y[i]));                     \
                if (log) for (int64_t i = 0; i < c->n; i++) gx[i] = g[i] - EXP(y[i]) * total[0]; \
                else for (int64_t i = 0; i < c->n; i++) gx[i] = y[i] * (g[i] - total[0]);       \
                continue;                                                                       \
            }                                                                                   \
            SOFTMAX_EACH total[r] += g[i * c->g_step + r] * (log ? 1 : y[i * c->x_step + r]);   \
            SOFTMAX_EACH {                                                                      \
                T v = y[i * c->x_step + r], u = g[i * c->g_step + r];                           \
                gx[i * c->y_step + r] = log ? u - EXP(v) * total[r] : v * (u - total[r]);       \
            }                                                                                   \
        }                                                                                       \
    }
K_SOFTMAX(float)
K_SOFTMAX(double)

/* t without dim, whose step it gives: what remains are the rows. */
static rg_tensor softmax_rows(const rg_tensor *t, int dim, int64_t *step) {
    rg_tensor rows = *t;
    *step = 1;
    if (t->ndim) {
        *step = t->stride[dim];
        rows.size[dim] = 1;
    }
    rg_update_flags(&rows);
    return rows;
}

void k_softmax(rg_tensor *y, const rg_tensor *x, int dim, k_softmax_kind kind) {
    softmax_context c = { .n = x->ndim ? x->size[dim] : 1, .kind = kind, .last = dim >= x->ndim - 1 };
    rg_loop *loop = x->dtype == RG_FLOAT32 ? softmax_float : softmax_double;
    if (c.last && x->numel && x->flags & y->flags & RG_CONTIGUOUS) {
        int64_t row = c.n * (int64_t)rg_sizeof(x->dtype);
        c.y_step = c.x_step = 1;
        c.short_rows = c.n <= K_LANES && kind == K_SOFTMAX_PLAIN;
        loop((char *[]){ y->data, x->data }, (int64_t[]){ row, row }, x->numel / c.n, &c);
        return;
    }
    rg_tensor ry = softmax_rows(y, dim, &c.y_step), rx = softmax_rows(x, dim, &c.x_step);
    if (x->numel) rg_each(2, (rg_tensor *[]){ &ry, &rx }, loop, &c);
}

void k_softmax_backward(rg_tensor *gx, const rg_tensor *g, const rg_tensor *y, int dim, k_softmax_kind kind) {
    softmax_context c = { .n = y->ndim ? y->size[dim] : 1, .kind = kind };
    rg_loop *loop = y->dtype == RG_FLOAT32 ? softmax_backward_float : softmax_backward_double;
    if (dim >= y->ndim - 1 && y->numel && gx->flags & g->flags & y->flags & RG_CONTIGUOUS) {
        int64_t row = c.n * (int64_t)rg_sizeof(y->dtype);
        c.y_step = c.x_step = c.g_step = 1;
        loop((char *[]){ gx->data, g->data, y->data }, (int64_t[]){ row, row, row }, y->numel / c.n, &c);
        return;
    }
    rg_tensor rx = softmax_rows(gx, dim, &c.y_step), rg = softmax_rows(g, dim, &c.g_step), ry = softmax_rows(y, dim, &c.x_step);
    if (y->numel) rg_each(3, (rg_tensor *[]){ &rx, &rg, &ry }, loop, &c);
}
