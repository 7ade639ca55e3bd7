/*
 * softmax.c: softmax, its logarithm and their gradients, row by row along one
 * dim. A row that lies in one piece is read in lanes; rows that lie side by side
 * (another dim than the last) are done a few dozen at a time, for the cache's sake.
 */
#ifndef K_BITS
#include "loops.h"

/* n elements along the dim, `step` apart in y, x (or the output that was) and g. */
typedef struct { int64_t n, y_step, x_step, g_step; k_softmax_kind kind; bool last, past; } softmax_context;

/* Rows side by side; of three at once the longest, and how many elements of each in turn. */
enum { SOFTMAX_SIDE = 32, SOFTMAX_ROOM = 4096, SOFTMAX_STEP = 64 };

/* R rows side by side, or one. */
#define SOFTMAX_EACH for (int64_t i = 0; i < c->n; i++) for (int64_t r = 0; r < R; r++)

#define K_SOFTMAX(T)                                                                            \
    static void K_SET(softmax_side_##T)(const softmax_context *c, int64_t R, T *restrict y, const T *restrict x) \
    {                                                                                           \
        T max[SOFTMAX_SIDE], total[SOFTMAX_SIDE];                                               \
        for (int64_t r = 0; r < R; r++) max[r] = -(T)INFINITY, total[r] = 0;                    \
        SOFTMAX_EACH {                                                                          \
            T v = x[i * c->x_step + r];                                                         \
            max[r] = v > max[r] || v != v ? v : max[r];                                                 \
        }                                                                                       \
        SOFTMAX_EACH {                                                                          \
            T e = EXP_BELOW(x[i * c->x_step + r] - max[r]);                                           \
            total[r] += e;                                                                      \
            if (c->kind != K_LOG_SOFTMAX) y[i * c->y_step + r] = e;                             \
        }                                                                                       \
        if (c->kind == K_LOG_SOFTMAX) {                                                         \
            for (int64_t r = 0; r < R; r++) total[r] = LOG(total[r]);                           \
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
    /* Three rows at once, which go past the caches: of the next one the greatest is found, this one's exponentials are summed up, and \
     * the last one is written. None of them waits for another, nor for memory. A NaN isn't the greatest, but makes the sum NaN. */ \
    static void K_SET(softmax_past_##T)(const softmax_context *c, int64_t rows, T *y, const T *x) { \
        const int64_t n = c->n;                                                                 \
        const bool ln = c->kind == K_LOG_SOFTMAX;                                               \
        T room[2][SOFTMAX_ROOM + 4096 / sizeof(T)] __attribute__((aligned(4096))), lane[K_LANES], *e = NULL, max, less = 0, times = 0; \
        __typeof__(ORDER((T)0)) greatest = ORDER(-(T)INFINITY);                                 \
        for (int64_t i = 0; i < n; i++) greatest = RG_MAX(greatest, ORDER(x[i]));               \
        max = UNORDER(greatest);                                                                \
        for (int64_t r = 0; r < rows; r++, x += n, y += n) {                                    \
            T __attribute__((vector_size(K_LANES * sizeof(T)))) most = { 0 }, sum = most, more; \
            const T *next = r + 1 < rows ? x + n : x, *done = ln ? x - n : e;                   \
            /* Half a page from x: a load waits for a store whose address ends in the same 12 bits. */ \
            e = room[r & 1] + ((uintptr_t)x + 2048) % 4096 / sizeof(T);                         \
            most -= (T)INFINITY;                                                                \
            if (c->kind == K_SAFE_SOFTMAX && max == -(T)INFINITY) max = 0;      /* e and their sum are 0 */ \
            for (int64_t k = 0; k < n; k += SOFTMAX_STEP) {                                     \
                for (int64_t j = k; j < k + SOFTMAX_STEP; j += K_LANES) {                       \
                    memcpy(lane, &most, sizeof lane);                                           \
                    for (int l = 0; l < K_LANES; l++) lane[l] = next[j + l] > lane[l] ? next[j + l] : lane[l]; \
                    memcpy(&most, lane, sizeof lane);                                           \
                }                                                                               \
                K_INDEPENDENT for (int64_t i = k; i < k + SOFTMAX_STEP; i++) e[i] = EXP_BELOW(x[i] - max); \
                for (int64_t j = k; j < k + SOFTMAX_STEP; j += K_LANES) {                       \
                    memcpy(&more, e + j, sizeof more);                                          \
                    sum += more;                                                                \
                }                                                                               \
                if (r && ln) K_ROW(true, y - n + k, SOFTMAX_STEP, done[k + i] - less - times);  \
                else if (r) K_ROW(true, y - n + k, SOFTMAX_STEP, done[k + i] * times);          \
            }                                                                                   \
            less = max, times = K_LANES_SUM(sum, lane);                                         \
            times = ln ? LOG(times) : 1 / (times == 0 ? 1 : times);                             \
            memcpy(lane, &most, sizeof lane), max = lane[0];                                    \
            for (int l = 1; l < K_LANES; l++) max = lane[l] > max ? lane[l] : max;              \
        }                                                                                       \
        if (ln) K_ROW(true, y - n, n, x[i - n] - less - times);                                 \
        else K_ROW(true, y - n, n, e[i] * times);                                              \
    }                                                                                           \
    static void K_SET(softmax_row_##T)(const softmax_context *c, T *restrict y, const T *restrict x) { \
        __typeof__(ORDER((T)0)) greatest = ORDER(-(T)INFINITY);                                 \
        const bool past = c->past && c->n <= SOFTMAX_ROOM;                                      \
        T max, total, room[SOFTMAX_ROOM] __attribute__((aligned(64))), *e = past ? room : y;    \
        for (int64_t i = 0; i < c->n; i++) greatest = RG_MAX(greatest, ORDER(x[i]));            \
        max = UNORDER(greatest);                                                                \
        if (c->kind == K_LOG_SOFTMAX) {                                                         \
            K_SUM_OF(total, c->n, EXP_BELOW(x[i] - max));                                       \
            total = LOG(total);                                                                 \
            K_ROW(past, y, c->n, x[i] - max - total);                                           \
            return;                                                                             \
        }                                                                                       \
        K_SUM_AND(__builtin_prefetch(x + c->n + j), total, c->n, e[i] = EXP_BELOW(x[i] - max)); \
        total = 1 / total;                                                                      \
        if (c->kind == K_SAFE_SOFTMAX && max == -(T)INFINITY) memset(y, 0, (size_t)c->n * sizeof *y); \
        else K_ROW(past, y, c->n, e[i] * total);                                                \
    }                                                                                           \
    static void K_SET(softmax_##T)(char *const p[], const int64_t s[], int64_t rows, const void *context) \
    {                                                                                           \
        const softmax_context *c = context;                                                     \
        const bool side = s[0] == sizeof(T) && s[1] == sizeof(T) && c->y_step != 1, packed = c->last && c->y_step == 1 && c->x_step == 1; \
        if (c->past && c->n <= SOFTMAX_ROOM && c->n % SOFTMAX_STEP == 0) {                      \
            K_SET(softmax_past_##T)(c, rows, (T *)p[0], (const T *)p[1]);                       \
            return;                                                                             \
        }                                                                                       \
        for (int64_t r = 0, R; r < rows; r += R) {                                              \
            const T *x = (const T *)(p[1] + r * s[1]);                                          \
            T *y = (T *)(p[0] + r * s[0]);                                                      \
            R = side ? RG_MIN(rows - r, SOFTMAX_SIDE) : 1;                                      \
            if (packed) K_SET(softmax_row_##T)(c, y, x);                                        \
            else K_SET(softmax_side_##T)(c, R, y, x);                                           \
        }                                                                                       \
    }                                                                                           \
    static void K_SET(softmax_backward_row_##T)(int64_t n, bool log, bool past, T *restrict gx, const T *restrict g, const T *restrict y) { \
        T total;                                                                                \
        if (log) {                                                                              \
            K_SUM_OF(total, n, g[i]);                                                           \
            K_ROW(past, gx, n, g[i] - EXP(y[i]) * total);                                       \
        } else {                                                                                \
            K_SUM_OF(total, n, g[i] * y[i]);                                                    \
            K_ROW(past, gx, n, y[i] * (g[i] - total));                                          \
        }                                                                                       \
    }                                                                                           \
    /* softmax: y (g - sum(g y)); log_softmax: g - e^y sum(g) */                                \
    static void K_SET(softmax_backward_##T)(char *const p[], const int64_t s[], int64_t rows, const void *context) \
    {                                                                                           \
        const softmax_context *c = context;                                                     \
        bool side = s[0] == sizeof(T) && s[1] == sizeof(T) && s[2] == sizeof(T) && c->y_step != 1; \
        bool log = c->kind == K_LOG_SOFTMAX, packed = c->y_step == 1 && c->x_step == 1 && c->g_step == 1; \
        for (int64_t first = 0, R; first < rows; first += R) {                                  \
            T *restrict gx = (T *)(p[0] + first * s[0]), total[SOFTMAX_SIDE] = { 0 };           \
            const T *restrict g = (const T *)(p[1] + first * s[1]), *restrict y = (const T *)(p[2] + first * s[2]); \
            R = side ? RG_MIN(rows - first, SOFTMAX_SIDE) : 1;                                  \
            if (packed) {                                                                       \
                K_SET(softmax_backward_row_##T)(c->n, log, c->past, gx, g, y);                  \
                continue;                                                                       \
            }                                                                                   \
            SOFTMAX_EACH total[r] += g[i * c->g_step + r] * (log ? 1 : y[i * c->x_step + r]);   \
            SOFTMAX_EACH {                                                                      \
                T v = y[i * c->x_step + r], u = g[i * c->g_step + r];                           \
                gx[i * c->y_step + r] = log ? u - EXP(v) * total[r] : v * (u - total[r]);       \
            }                                                                                   \
        }                                                                                       \
    }

#define K_FILE "softmax.c"
#include "sets.h"

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

/* Rows in one piece, of up to three operands, one after the other. */
typedef struct { rg_loop *loop; char *p[3]; int64_t row; const softmax_context *context; } softmax_spread;

static void softmax_part(void *spread, int64_t begin, int64_t end, int worker) {
    const softmax_spread *k = spread;
    int64_t at = begin * k->row;
    (void)worker;
    k->loop((char *[]){ k->p[0] + at, k->p[1] + at, k->p[2] + at }, (int64_t[]){ k->row, k->row, k->row }, end - begin, k->context);
    if (k->context->past) k_past_end();
}

void k_softmax(rg_tensor *y, const rg_tensor *x, int dim, k_softmax_kind kind) {
    softmax_context c = { .n = x->ndim ? x->size[dim] : 1, .kind = kind, .last = dim >= x->ndim - 1 };
    static rg_loop *const floats[] = K_SETS(softmax_float), *const shorts[] = K_SETS(softmax_short), *const doubles[] = K_SETS(softmax_double);
    rg_loop *loop = (x->dtype == RG_FLOAT32 ? floats : doubles)[k_set];
    if (c.last && x->numel && x->flags & y->flags & RG_CONTIGUOUS) {
        int64_t row = c.n * (int64_t)rg_sizeof(x->dtype);
        c.y_step = c.x_step = 1;
        c.past = k_goes_past(y, c.n);
        if (c.n <= K_LANES && kind != K_SAFE_SOFTMAX && x->dtype == RG_FLOAT32) loop = shorts[k_set];
        k_rows(x->numel / c.n, c.n, softmax_part, &(softmax_spread){ loop, { y->data, x->data, x->data }, row, &c });
        return;
    }
    rg_tensor ry = softmax_rows(y, dim, &c.y_step), rx = softmax_rows(x, dim, &c.x_step);
    if (x->numel) rg_each(2, (rg_tensor *[]){ &ry, &rx }, loop, &c);
}

void k_softmax_backward(rg_tensor *gx, const rg_tensor *g, const rg_tensor *y, int dim, k_softmax_kind kind) {
    softmax_context c = { .n = y->ndim ? y->size[dim] : 1, .kind = kind };
    static rg_loop *const floats[] = K_SETS(softmax_backward_float), *const doubles[] = K_SETS(softmax_backward_double);
    static rg_loop *const shorts[] = K_SETS(softmax_backward_short);
    rg_loop *loop = (y->dtype == RG_FLOAT32 ? floats : doubles)[k_set];
    if (dim >= y->ndim - 1 && y->numel && gx->flags & g->flags & y->flags & RG_CONTIGUOUS) {
        int64_t row = c.n * (int64_t)rg_sizeof(y->dtype);
        c.y_step = c.x_step = c.g_step = 1;
        c.past = k_goes_past(gx, c.n);
        if (c.n <= K_LANES && y->dtype == RG_FLOAT32) loop = shorts[k_set];
        k_rows(y->numel / c.n, c.n, softmax_part, &(softmax_spread){ loop, { gx->data, g->data, y->data }, row, &c });
        return;
    }
    rg_tensor rx = softmax_rows(gx, dim, &c.y_step), rg = softmax_rows(g, dim, &c.g_step), ry = softmax_rows(y, dim, &c.x_step);
    if (y->numel) rg_each(3, (rg_tensor *[]){ &rx, &rg, &ry }, loop, &c);
}

#else
K_SOFTMAX(float)
K_SOFTMAX(double)

/* The same for short rows of floats in one piece. A register holds one, two or four: 16, 8 or 4 lanes for each. */
#if K_BITS == 512
#define SHORT_MAX(a, b)  _mm512_max_ps(b, a)
#define SHORT_PLUS(a, b) ((a) + (b))
#define SHORT_LANES const int n = (int)c->n, lanes = n > 8 ? 16 : n > 4 ? 8 : 4, held = 16 / lanes; \
                    const __mmask16 spread = (__mmask16)(((1u << n) - 1) * (lanes == 16 ? 1 : lanes == 8 ? 0x101 : 0x1111))
#define SHORT_EACH  for (int64_t i = 0, left = rows; left > 0; left -= held, i += held * n)
#define SHORT_IN    (__mmask16)((1u << RG_MIN(left, held) * n) - 1)
#define SHORT_LOAD(fill, from) \
    _mm512_mask_expand_ps(_mm512_set1_ps(fill), spread, _mm512_mask_loadu_ps(_mm512_set1_ps(fill), SHORT_IN, (const float *)(from) + i))
#define SHORT_STORE(to, v)     _mm512_mask_storeu_ps((float *)(to) + i, SHORT_IN, _mm512_maskz_compress_ps(spread, v))
/* In every lane the fold of its row's, which is in the order of K_FOLD. */
#define SHORT_FOLD(v, fold) do {                                                                \
        if (lanes > 8) v = fold(v, _mm512_shuffle_f32x4(v, v, 0x4e));                           \
        if (lanes > 4) v = fold(v, _mm512_shuffle_f32x4(v, v, 0xb1));                           \
        v = fold(v, _mm512_permute_ps(v, 0x4e));                                                \
        v = fold(v, _mm512_permute_ps(v, 0xb1));                                                \
    } while (0)
#define SHORT_MAP(to, f, from) for (int l = 0; l < 16; l++) to[l] = f(from[l])

static void K_SET(softmax_short)(char *const p[], const int64_t s[], int64_t rows, const void *context) {
    const softmax_context *c = context;
    SHORT_LANES;
    (void)s;
    SHORT_EACH {
        __m512 v = SHORT_LOAD(-INFINITY, p[1]), max = v, e, total, ln;
        SHORT_FOLD(max, SHORT_MAX);
        v -= max;
        SHORT_MAP(e, k_exp_belowf, v);
        total = e;
        SHORT_FOLD(total, SHORT_PLUS);
        if (c->kind == K_LOG_SOFTMAX) {
            SHORT_MAP(ln, k_logf, total);
            SHORT_STORE(p[0], v - ln);
        } else SHORT_STORE(p[0], e * (1 / total));
    }
}

static void K_SET(softmax_backward_short)(char *const p[], const int64_t s[], int64_t rows, const void *context) {
    const softmax_context *c = context;
    SHORT_LANES;
    (void)s;
    SHORT_EACH {
        __m512 g = SHORT_LOAD(0, p[1]), y = SHORT_LOAD(0, p[2]), e, total = g;
        if (c->kind != K_LOG_SOFTMAX) total *= y;
        SHORT_FOLD(total, SHORT_PLUS);
        if (c->kind == K_LOG_SOFTMAX) {
            SHORT_MAP(e, k_expf, y);
            SHORT_STORE(p[0], g - e * total);
        } else SHORT_STORE(p[0], y * (g - total));
    }
}
#else
static void K_SET(softmax_short)(char *const p[], const int64_t s[], int64_t rows, const void *context) {
    K_SET(softmax_float)(p, s, rows, context);
}
static void K_SET(softmax_backward_short)(char *const p[], const int64_t s[], int64_t rows, const void *context) {
    K_SET(softmax_backward_float)(p, s, rows, context);
}
#endif
#endif
