/*
 * softmax.c: softmax, its logarithm and their gradients, row by row along one
 * dim, of contiguous tensors. A row that lies in one piece is read in lanes; rows
 * that lie side by side (another dim than the last) are done many at a time.
 */
#ifndef K_BITS
#include "loops.h"

/* n elements along the dim, `step` apart; last: the rows lie in one piece. */
typedef struct {
    int64_t n, step;
    k_softmax_kind kind;
    bool last, past;
} softmax_context;
/* p: the operands' first rows */
typedef void softmax_loop(const softmax_context *c, char *const p[], int64_t rows);

/* Rows side by side; of three at once the longest, and how many elements of each in turn. */
enum { SOFTMAX_SIDE = 256, SOFTMAX_ROOM = 4096, SOFTMAX_STEP = 64 };

/* R rows side by side, whose elements i are at `at`. */
#define SOFTMAX_SIDES K_INDEPENDENT for (int64_t r = 0; r < R; r++)
#define SOFTMAX_EACH                                         \
    for (int64_t at = 0; at < c->n * c->step; at += c->step) \
    SOFTMAX_SIDES

#define K_SOFTMAX(T)                                                                              \
    static void K_SET(softmax_side_##T)(const softmax_context *c, int64_t R, T *restrict y,       \
                                        const T *restrict x) {                                    \
        __typeof__(ORDER((T)0)) greatest[SOFTMAX_SIDE];                                           \
        T max[SOFTMAX_SIDE], total[SOFTMAX_SIDE];                                                 \
        SOFTMAX_SIDES greatest[r] = ORDER(-(T)INFINITY), total[r] = 0;                            \
        SOFTMAX_EACH greatest[r] = RG_MAX(greatest[r], ORDER(x[at + r]));                         \
        SOFTMAX_SIDES max[r] = UNORDER(greatest[r]);                                              \
        if (c->kind == K_LOG_SOFTMAX) {                                                           \
            SOFTMAX_EACH total[r] += EXP_BELOW(x[at + r] - max[r]);                               \
            SOFTMAX_SIDES total[r] = LOG(total[r]);                                               \
            SOFTMAX_EACH y[at + r] = x[at + r] - max[r] - total[r];                               \
            return;                                                                               \
        }                                                                                         \
        if (c->kind == K_SAFE_SOFTMAX)                                                            \
            SOFTMAX_SIDES max[r] = max[r] == -(T)INFINITY ? 0 : max[r];                           \
        SOFTMAX_EACH total[r] += y[at + r] = EXP_BELOW(x[at + r] - max[r]);                       \
        SOFTMAX_SIDES total[r] = total[r] == 0 ? 1 : total[r]; /* of -inf throughout */           \
        SOFTMAX_EACH y[at + r] /= total[r];                                                       \
    }                                                                                             \
    /* Three rows at once, which go past the caches: of the next one the greatest is found, this  \
     * one's exponentials are summed up, and the last one is written. None of them waits for      \
     * another, nor for memory. A NaN isn't the greatest, but makes the sum NaN. (It takes a      \
     * register of sixteen lanes: with AVX2 it would take twice as long as rows one by one.) */   \
    static void K_SET(softmax_past_##T)(const softmax_context *c, int64_t rows, T *y,             \
                                        const T *x) {                                             \
        const int64_t n = c->n;                                                                   \
        const bool ln = c->kind == K_LOG_SOFTMAX, shifts = n * (int64_t)sizeof(T) % 4096;         \
        T room[2][SOFTMAX_ROOM + 4096 / sizeof(T)] __attribute__((aligned(4096))), lane[K_LANES], \
            last[SOFTMAX_STEP];                                                                   \
        T *e = NULL, max, less = 0, times = 0;                                                    \
        __typeof__(ORDER((T)0)) greatest = ORDER(-(T)INFINITY);                                   \
        for (int64_t i = 0; i < n; i++)                                                           \
            greatest = RG_MAX(greatest, ORDER(x[i]));                                             \
        max = UNORDER(greatest);                                                                  \
        for (int64_t r = 0; r < rows; r++, x += n, y += n) {                                      \
            T __attribute__((vector_size(K_LANES * sizeof(T)))) most = { 0 }, sum = most, more;   \
            const T *next = r + 1 < rows ? x + n : x, *done = !r ? x : ln ? x - n : e;            \
            /* Half a page from x, and where the last row's were, if it is whole pages: a load    \
             * waits for a store before it whose address ends in the same 12 bits. */             \
            e = room[r & shifts] + ((uintptr_t)x + 2048) % 4096 / sizeof(T);                      \
            most -= (T)INFINITY;                                                                  \
            if (c->kind == K_SAFE_SOFTMAX && max == -(T)INFINITY)                                 \
                max = 0; /* e and their sum are 0 */                                              \
            for (int64_t k = 0; k < n; k += SOFTMAX_STEP) {                                       \
                for (int64_t j = 0; j < SOFTMAX_STEP; j += K_LANES)                               \
                    memcpy(&more, done + k + j, sizeof more),                                     \
                        memcpy(last + j, &more, sizeof more);                                     \
                for (int64_t j = k; j < k + SOFTMAX_STEP; j += K_LANES) {                         \
                    memcpy(lane, &most, sizeof lane);                                             \
                    for (int l = 0; l < K_LANES; l++)                                             \
                        lane[l] = next[j + l] > lane[l] ? next[j + l] : lane[l];                  \
                    memcpy(&most, lane, sizeof lane);                                             \
                }                                                                                 \
                for (int64_t j = k; j < k + SOFTMAX_STEP; j += K_LANES) {                         \
                    _Pragma("GCC unroll 1") for (int l = 0; l < K_LANES; l++)                     \
                        lane[l] = EXP_BELOW(x[j + l] - max);                                      \
                    memcpy(e + j, lane, sizeof lane), memcpy(&more, lane, sizeof more);           \
                    sum += more;                                                                  \
                }                                                                                 \
                if (r && ln)                                                                      \
                    K_ROW(true, y - n + k, SOFTMAX_STEP, last[i] - less - times);                 \
                else if (r)                                                                       \
                    K_ROW(true, y - n + k, SOFTMAX_STEP, last[i] * times);                        \
            }                                                                                     \
            less = max, max = K_LANES_FOLD(most, lane, RG_MAX), times = K_LANES_SUM(sum, lane);   \
            times = ln ? LOG(times) : 1 / (times == 0 ? 1 : times);                               \
        }                                                                                         \
        if (ln)                                                                                   \
            K_ROW(true, y - n, n, x[i - n] - less - times);                                       \
        else                                                                                      \
            K_ROW(true, y - n, n, e[i] * times);                                                  \
    }                                                                                             \
    static void K_SET(softmax_row_##T)(const softmax_context *c, T *restrict y,                   \
                                       const T *restrict x) {                                     \
        __typeof__(ORDER((T)0)) greatest = ORDER(-(T)INFINITY);                                   \
        const bool past = c->past && c->n <= SOFTMAX_ROOM;                                        \
        T max, total, room[SOFTMAX_ROOM] __attribute__((aligned(64))), *e = past ? room : y;      \
        for (int64_t i = 0; i < c->n; i++)                                                        \
            greatest = RG_MAX(greatest, ORDER(x[i]));                                             \
        max = UNORDER(greatest);                                                                  \
        if (c->kind == K_LOG_SOFTMAX) {                                                           \
            K_SUM_OF(total, c->n, EXP_BELOW(x[i] - max));                                         \
            total = LOG(total);                                                                   \
            K_ROW(past, y, c->n, x[i] - max - total);                                             \
            return;                                                                               \
        }                                                                                         \
        K_SUM_AND(__builtin_prefetch(x + c->n + j), total, c->n, e[i] = EXP_BELOW(x[i] - max));   \
        total = 1 / total;                                                                        \
        if (c->kind == K_SAFE_SOFTMAX && max == -(T)INFINITY)                                     \
            memset(y, 0, (size_t)c->n * sizeof *y);                                               \
        else                                                                                      \
            K_ROW(past, y, c->n, e[i] * total);                                                   \
    }                                                                                             \
    static void K_SET(softmax_##T)(const softmax_context *c, char *const p[], int64_t rows) {     \
        T *y = (T *)p[0];                                                                         \
        const T *x = (const T *)p[1];                                                             \
        if (!c->last)                                                                             \
            K_SET(softmax_side_##T)(c, rows, y, x);                                               \
        else if (K_BITS == 512 && c->past && c->n <= SOFTMAX_ROOM && c->n % SOFTMAX_STEP == 0)    \
            K_SET(softmax_past_##T)(c, rows, y, x);                                               \
        else                                                                                      \
            for (int64_t r = 0; r < rows; r++)                                                    \
                K_SET(softmax_row_##T)(c, y + r * c->n, x + r * c->n);                            \
    }                                                                                             \
    static void K_SET(softmax_backward_row_##T)(int64_t n, bool log, bool past, T *restrict gx,   \
                                                const T *restrict g, const T *restrict y) {       \
        T total;                                                                                  \
        if (log) {                                                                                \
            K_SUM_OF(total, n, g[i]);                                                             \
            K_ROW(past, gx, n, g[i] - EXP(y[i]) * total);                                         \
        } else {                                                                                  \
            K_SUM_OF(total, n, g[i] * y[i]);                                                      \
            K_ROW(past, gx, n, y[i] * (g[i] - total));                                            \
        }                                                                                         \
    }                                                                                             \
    static void K_SET(softmax_backward_side_##T)(const softmax_context *c, int64_t R,             \
                                                 T *restrict gx, const T *restrict g,             \
                                                 const T *restrict y) {                           \
        T total[SOFTMAX_SIDE];                                                                    \
        SOFTMAX_SIDES total[r] = 0;                                                               \
        if (c->kind == K_LOG_SOFTMAX) {                                                           \
            SOFTMAX_EACH total[r] += g[at + r];                                                   \
            SOFTMAX_EACH gx[at + r] = g[at + r] - EXP(y[at + r]) * total[r];                      \
        } else {                                                                                  \
            SOFTMAX_EACH total[r] += g[at + r] * y[at + r];                                       \
            SOFTMAX_EACH gx[at + r] = y[at + r] * (g[at + r] - total[r]);                         \
        }                                                                                         \
    }                                                                                             \
    /* softmax: y (g - sum(g y)); log_softmax: g - e^y sum(g) */                                  \
    static void K_SET(softmax_backward_##T)(const softmax_context *c, char *const p[],            \
                                            int64_t rows) {                                       \
        T *gx = (T *)p[0];                                                                        \
        const T *g = (const T *)p[1], *y = (const T *)p[2];                                       \
        if (!c->last)                                                                             \
            K_SET(softmax_backward_side_##T)(c, rows, gx, g, y);                                  \
        else                                                                                      \
            for (int64_t r = 0, at = 0; r < rows; r++, at += c->n)                                \
                K_SET(softmax_backward_row_##T)                                                   \
        (c->n, c->kind == K_LOG_SOFTMAX, c->past, gx + at, g + at, y + at);                       \
    }

#define K_FILE "softmax.c"
#include "sets.h"

/* Rows of up to three operands: each in one piece, one after the other, or side by side, some
 * blocks of them beneath each other. */
typedef struct {
    softmax_loop *loop;
    char *p[3];
    int64_t element, blocks;
    const softmax_context *context;
} softmax_spread;

static void softmax_part(void *spread, int64_t begin, int64_t end, int worker) {
    const softmax_spread *k = spread;
    const softmax_context *c = k->context;
    (void)worker;
    for (int64_t i = begin, rows; i < end; i += c->last ? rows : 1) {
        int64_t side = i % k->blocks * SOFTMAX_SIDE,
                at = (i / k->blocks * c->n * c->step + side) * k->element;
        rows = c->last ? end - begin : RG_MIN(SOFTMAX_SIDE, c->step - side);
        k->loop(c, (char *[]){ k->p[0] + at, k->p[1] + at, k->p[2] + at }, rows);
    }
    if (c->past)
        k_past_end();
}

static void softmax_run(softmax_loop *const by_set[], softmax_loop *const shorts[], rg_tensor *y,
                        const rg_tensor *x, const rg_tensor *z, int dim, k_softmax_kind kind) {
    softmax_context c = {
        .n = y->ndim ? y->size[dim] : 1, .step = 1, .kind = kind, .last = dim >= y->ndim - 1
    };
    if (y->numel == 0)
        return;
    for (int d = dim + 1; d < y->ndim; d++)
        c.step *= y->size[d];
    c.past = c.last && k_goes_past(y, c.n);
    if (c.last && c.n <= K_LANES && y->dtype == RG_FLOAT32)
        by_set = shorts;
    int64_t blocks = (c.step + SOFTMAX_SIDE - 1) / SOFTMAX_SIDE,
            rows = y->numel / (c.n * c.step) * blocks;
    softmax_spread k = {
        by_set[k_set], { y->data, x->data, z->data }, (int64_t)rgi_sizeof(y->dtype), blocks, &c
    };
    k_rows(rows, y->numel / rows, softmax_part, &k);
}

void k_softmax(rg_tensor *y, const rg_tensor *x, int dim, k_softmax_kind kind) {
    static softmax_loop *const floats[] = K_SETS(softmax_float),
                               *const shorts[] = K_SETS(softmax_short),
                               *const doubles[] = K_SETS(softmax_double);
    softmax_run(y->dtype == RG_FLOAT32 ? floats : doubles, kind == K_SAFE_SOFTMAX ? floats : shorts,
                y, x, x, dim, kind);
}

void k_softmax_backward(rg_tensor *gx, const rg_tensor *g, const rg_tensor *y, int dim,
                        k_softmax_kind kind) {
    static softmax_loop *const floats[] = K_SETS(softmax_backward_float),
                               *const doubles[] = K_SETS(softmax_backward_double);
    static softmax_loop *const shorts[] = K_SETS(softmax_backward_short);
    softmax_run(gx->dtype == RG_FLOAT32 ? floats : doubles, shorts, gx, g, y, dim, kind);
}

#else
K_SOFTMAX(float)
K_SOFTMAX(double)

/* The same for short rows of floats in one piece. A register holds one, two or four: 16, 8 or 4
 * lanes for each. */
#if K_BITS == 512
#define SHORT_MAX(a, b) _mm512_max_ps(b, a)
#define SHORT_LANES                                                                 \
    const int n = (int)c->n, lanes = n > 8 ? 16 : n > 4 ? 8 : 4, held = 16 / lanes; \
    const __mmask16 spread = (__mmask16)(((1u << n) - 1)                            \
                                         * (lanes == 16  ? 1                        \
                                            : lanes == 8 ? 0x101                    \
                                                         : 0x1111))
#define SHORT_EACH for (int64_t i = 0, left = rows; left > 0; left -= held, i += held * n)
#define SHORT_IN   (__mmask16)((1u << RG_MIN(left, held) * n) - 1)
#define SHORT_LOAD(fill, from)        \
    _mm512_mask_expand_ps(            \
        _mm512_set1_ps(fill), spread, \
        _mm512_mask_loadu_ps(_mm512_set1_ps(fill), SHORT_IN, (const float *)(from) + i))
#define SHORT_STORE(to, v) \
    _mm512_mask_storeu_ps((float *)(to) + i, SHORT_IN, _mm512_maskz_compress_ps(spread, v))
/* In every lane the fold of its row's, which is in the order of K_FOLD. */
#define SHORT_FOLD(v, fold)                                \
    do {                                                   \
        if (lanes > 8)                                     \
            v = fold(v, _mm512_shuffle_f32x4(v, v, 0x4e)); \
        if (lanes > 4)                                     \
            v = fold(v, _mm512_shuffle_f32x4(v, v, 0xb1)); \
        v = fold(v, _mm512_permute_ps(v, 0x4e));           \
        v = fold(v, _mm512_permute_ps(v, 0xb1));           \
    } while (0)
#define SHORT_MAP(to, f, from)   \
    for (int l = 0; l < 16; l++) \
    to[l] = f(from[l])

static void K_SET(softmax_short)(const softmax_context *c, char *const p[], int64_t rows) {
    SHORT_LANES;
    SHORT_EACH {
        __m512 v = SHORT_LOAD(-INFINITY, p[1]), max = v, e, total, ln;
        SHORT_FOLD(max, SHORT_MAX);
        v -= max;
        SHORT_MAP(e, k_exp_belowf, v);
        total = e;
        SHORT_FOLD(total, K_PLUS);
        if (c->kind == K_LOG_SOFTMAX) {
            SHORT_MAP(ln, k_logf, total);
            SHORT_STORE(p[0], v - ln);
        } else
            SHORT_STORE(p[0], e * (1 / total));
    }
}

static void K_SET(softmax_backward_short)(const softmax_context *c, char *const p[], int64_t rows) {
    SHORT_LANES;
    SHORT_EACH {
        __m512 g = SHORT_LOAD(0, p[1]), y = SHORT_LOAD(0, p[2]), e, total = g;
        if (c->kind != K_LOG_SOFTMAX)
            total *= y;
        SHORT_FOLD(total, K_PLUS);
        if (c->kind == K_LOG_SOFTMAX) {
            SHORT_MAP(e, k_expf, y);
            SHORT_STORE(p[0], g - e * total);
        } else
            SHORT_STORE(p[0], y * (g - total));
    }
}
#else
static void K_SET(softmax_short)(const softmax_context *c, char *const p[], int64_t rows) {
    K_SET(softmax_float)(c, p, rows);
}
static void K_SET(softmax_backward_short)(const softmax_context *c, char *const p[], int64_t rows) {
    K_SET(softmax_backward_float)(c, p, rows);
}
#endif
#endif
