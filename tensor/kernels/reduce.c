/*
 * reduce.c: sums, extremes and their kind, over the dims of a mask. A reduction
 * is cut into blocks of two dims, the first of them reduced, and folded into y.
 */
#ifndef K_BITS
#include "kernels.h"

#include <tgmath.h>

/* y[j] = fold of x[i][j] over i < n0, and what y[j] was. Steps in bytes; sy may be 0. */
typedef struct {
    int64_t n0, s0, n1, s1, sy;
    const void *context;
} reduce_block;
typedef void reduce_loop(char *y, const char *x, const reduce_block *b);

/* elements; bytes of sums that are made at once */
enum { REDUCE_LARGE = 1 << 15, REDUCE_BLOCK = 8192 };

/* Columns of a block, 128 of them at a time, or rows: how many are side by side in a part decides
 * of no sum's order. */
typedef struct {
    reduce_loop *loop;
    const reduce_block *b;
    char *y;
    const char *x;
    int64_t columns, parts;
} reduce_share;
static void reduce_part(void *share, int64_t begin, int64_t end, int worker) {
    const reduce_share *s = share;
    reduce_block b = *s->b;
    (void)worker;
    begin *= s->columns;
    b.n1 = (end == s->parts ? b.n1 : end * s->columns) - begin;
    s->loop(s->y + begin * b.sy, s->x + begin * b.s1, &b);
}

/* Reduced dims come first, as x lies in memory; then the kept ones, as y lies, or,
 * where there is much to read, as x. In this order the sums of few numbers are
 * added in torch's order, too. */
static void reduce_run(rg_tensor *y, const rg_tensor *x, uint32_t dims, reduce_loop *loop,
                       const void *context) {
    int64_t bytes = (int64_t)rgi_sizeof(x->dtype), step = (int64_t)rgi_sizeof(y->dtype);
    if (x->numel == 0)
        return;
    if (y->numel == 1 && x->flags & RG_CONTIGUOUS)
        return loop(y->data, x->data,
                    &(reduce_block){ .n0 = x->numel, .s0 = bytes, .n1 = 1, .context = context });
    struct reduce_dim {
        int64_t size, x, y;
    } d[RG_MAX_DIMS + 2];
    int n = 1, merged = 0;
    d[0] = (struct reduce_dim){ .size = 1 };
    for (int dim = x->ndim - 1; dim >= 0; dim--) {
        if (x->size[dim] == 1)
            continue;
        bool reduced = dims >> dim & 1;
        d[n] = (struct reduce_dim){ x->size[dim], x->stride[dim] * bytes, reduced ? 0 : step };
        if (!reduced)
            step *= x->size[dim];
        for (int k = n - 1, i = n++; k > 0; k--) {
            /* does d[k] come after d[i]? */
            int after = reduced != !d[k].y                    ? reduced ? 1 : -1
                        : !reduced && x->numel < REDUCE_LARGE ? -1
                        : d[k].x && d[i].x ? (d[k].x > d[i].x) - (d[k].x < d[i].x)
                                           : 0;
            if (after < 0)
                break;
            if (after == 0)
                continue;
            RG_SWAP(d[k], d[i]);
            i = k;
        }
    }
    for (int k = 1; k < n; k++) {
        int64_t inner = d[merged].size;
        bool joins = d[k].x == d[merged].x * inner && d[k].y == d[merged].y * inner
                     && (merged || !d[k].y);
        if (inner == 1 && (joins || !d[k].y))
            d[merged] = d[k];
        else if (joins)
            d[merged].size *= d[k].size;
        else
            d[++merged] = d[k];
    }
    if ((n = merged + 1) == 1)
        d[n++] = (struct reduce_dim){ .size = 1 };
    reduce_block b = { d[0].size, d[0].x, d[1].size, d[1].x, d[1].y, context };
    int64_t columns = b.s0 == bytes && b.n0 >= 32 ? 1 : 128,
            parts = b.sy ? RG_MAX(1, b.n1 / columns) : 1;
    int64_t at[RG_MAX_DIMS + 2] = { 0 };
    char *to = y->data;
    const char *from = x->data;
    for (int k = 0; k < n;) {
        k_rows(parts, b.n0 * b.n1 / parts, reduce_part,
               &(reduce_share){ loop, &b, to, from, columns, parts });
        for (k = 2; k < n; k++) {
            from += d[k].x;
            to += d[k].y;
            if (++at[k] < d[k].size)
                break;
            from -= d[k].x * d[k].size;
            to -= d[k].y * d[k].size;
            at[k] = 0;
        }
    }
}

/* What all loops are made of. at: the value of an element v; join: of what there is so far, a,
 * and the next value, b; rows: x[r][c] joins total[c], row by row. */
#define K_ROWS(name, T, A, value, joined)                                                   \
    static inline A name##_at(const char *x) {                                              \
        T v = *(const T *)x;                                                                \
        return (A)(value);                                                                  \
    }                                                                                       \
    static inline A name##_join(A a, A b) { return (A)(joined); }                           \
    static inline A name##_join4(A a, const char *x, int64_t row) {                         \
        a = name##_join(name##_join(a, name##_at(x)), name##_at(x + row));                  \
        return name##_join(name##_join(a, name##_at(x + 2 * row)), name##_at(x + 3 * row)); \
    }                                                                                       \
    static inline void name##_rows(const char *x, int64_t row, int64_t col, int64_t rows,   \
                                   int cols, A *restrict total) {                           \
        enum { NEXT = sizeof(T) };                                                          \
        for (; rows >= 8 && col == NEXT; rows -= 8, x += 8 * row)                           \
            for (int c = 0; c < cols; c++)                                                  \
                total[c] = name##_join4(name##_join4(total[c], x + c * NEXT, row),          \
                                        x + 4 * row + c * NEXT, row);                       \
        for (; rows > 0 && col == NEXT; rows--, x += row)                                   \
            for (int c = 0; c < cols; c++)                                                  \
                total[c] = name##_join(total[c], name##_at(x + c * NEXT));                  \
        for (; rows > 0; rows--, x += row)                                                  \
            for (int c = 0; c < cols; c++)                                                  \
                total[c] = name##_join(total[c], name##_at(x + c * col));                   \
    }

/* ---- sums ---------------------------------------------------------------------------
 * A cascade: 16 rows (or more, where there are over 2^20) make a subtotal, 16 of
 * those one of the next level, up to four levels, so the error hardly grows with
 * the count. A row is 32 bytes times 4 where numbers lie side by side, else 4 of
 * them. This is torch's order, on one thread, and gives its bits. */
static int sum_power(int64_t rows) {
    return RG_MAX(4, (rows <= 2 ? 1 : 64 - __builtin_clzll((uint64_t)rows - 1)) / 4);
}

/* After i rows, is the subtotal of a level ready for the next one? */
#define SUM_FULL(i, level, power) (!((i) & (((int64_t)1 << ((level) + 1) * (power)) - 1)))

/* The cascades of every fourth of n rows of `wide` numbers, a step apart, in registers of some
 * lanes. */
#define K_SUM_BY_FOUR(function, name, A, lanes, wide)                                      \
    static __attribute__((noinline)) void function(const char *x, int64_t step, int64_t n, \
                                                   A *total) {                             \
        enum { WIDE = wide, LANES = lanes, VECTORS = 4 * WIDE / LANES };                   \
        typedef A vector __attribute__((vector_size(LANES * sizeof(A))));                  \
        vector level[4][VECTORS], more;                                                    \
        A part[4 * WIDE], lane[LANES];                                                     \
        int power = sum_power(n / 4);                                                      \
        for (int v = 0; v < 4 * VECTORS; v++)                                              \
            level[v % 4][v / 4] = (vector){ 0 }; /* quicker than `rep stos` */             \
        for (int64_t i = 0; i < n / 4;) {                                                  \
            for (int64_t end = RG_MIN(n / 4, i + (1 << power)); i < end; i++)              \
                for (int v = 0; v < VECTORS; v++, x += LANES * step) {                     \
                    for (int c = 0; c < LANES; c++)                                        \
                        lane[c] = name##_at(x + c * step);                                 \
                    memcpy(&more, lane, sizeof more);                                      \
                    level[0][v] += more;                                                   \
                }                                                                          \
            for (int j = 0; j < 3 && SUM_FULL(i, j, power); j++)                           \
                for (int v = 0; v < VECTORS; v++)                                          \
                    level[j + 1][v] += level[j][v], level[j][v] = (vector){ 0 };           \
        }                                                                                  \
        for (int v = 0; v < VECTORS; v++)                                                  \
            level[0][v] = ((level[0][v] + level[1][v]) + level[2][v]) + level[3][v];       \
        memcpy(part, level[0], sizeof part);                                               \
        for (int c = 0; c < WIDE; c++)                                                     \
            total[c] = part[c];                                                            \
        for (int64_t k = 0; k < n % 4; k++)                                                \
            for (int c = 0; c < WIDE; c++, x += step)                                      \
                total[c] += name##_at(x);                                                  \
        for (int k = 1; k < 4; k++)                                                        \
            for (int c = 0; c < WIDE; c++)                                                 \
                total[c] += part[k * WIDE + c];                                            \
    }
#define K_SUM(name, T, A, value)                                                                \
    K_ROWS(name, T, A, value, a + b)                                                            \
    static void name##_cascade(const char *x, int64_t row, int64_t col, int64_t rows, int cols, \
                               A *restrict total) {                                             \
        A level[3][REDUCE_BLOCK / sizeof(A)], *of[] = { total, level[0], level[1], level[2] };  \
        int power = sum_power(rows), levels = rows >> power ? 4 : 1;                            \
        for (int j = 0; j < levels; j++)                                                        \
            memset(of[j], 0, (size_t)cols * sizeof(A));                                         \
        for (int64_t i = 0, n; i < rows;) {                                                     \
            n = RG_MIN(rows - i, 1 << power);                                                   \
            name##_rows(x + i * row, row, col, n, cols, total);                                 \
            i += n;                                                                             \
            for (int j = 0; j < 3 && SUM_FULL(i, j, power); j++)                                \
                for (int c = 0; c < cols; c++)                                                  \
                    of[j + 1][c] += of[j][c], of[j][c] = 0;                                     \
        }                                                                                       \
        for (int j = 1; j < levels; j++)                                                        \
            for (int c = 0; c < cols; c++)                                                      \
                total[c] += of[j][c];                                                           \
    }                                                                                           \
    /* The same with every fourth row in a cascade of its own; fewer than 32 columns. */        \
    static inline void name##_by_four(const char *x, int64_t row, int64_t col, int64_t rows,    \
                                      int cols, A *restrict total) {                            \
        A part[4 * 32];                                                                         \
        int64_t q = rows / 4;                                                                   \
        if (row == cols * col)                                                                  \
            name##_cascade(x, 4 * row, col, q, 4 * cols, part);                                 \
        else                                                                                    \
            for (int k = 0; k < 4; k++)                                                         \
                name##_cascade(x + k * row, 4 * row, col, q, cols, part + k * cols);            \
        for (int c = 0; c < cols; c++)                                                          \
            total[c] = part[c];                                                                 \
        name##_rows(x + 4 * q * row, row, col, rows - 4 * q, cols, total);                      \
        for (int k = 1; k < 4; k++)                                                             \
            for (int c = 0; c < cols; c++)                                                      \
                total[c] += part[k * cols + c];                                                 \
    }                                                                                           \
    K_SUM_BY_FOUR(name##_beside, name, A, RG_MIN(K_BITS / 8, 32) / sizeof(A), 32 / sizeof(A))   \
    K_SUM_BY_FOUR(name##_apart, name, A, 4, 1)                                                  \
    static __attribute__((noinline)) A name##_row(const char *x, int64_t n) {                   \
        enum { V = 32 / sizeof(A), W = V * sizeof(T) };                                         \
        A lane[V] = { 0 }, total = 0;                                                           \
        if (n >= 4 * V)                                                                         \
            name##_beside(x, sizeof(T), n / V, lane);                                           \
        else                                                                                    \
            name##_rows(x, W, sizeof(T), n / V, V, lane);                                       \
        for (int64_t i = n / V * V; i < n; i++)                                                 \
            total += name##_at(x + i * (int64_t)sizeof(T));                                     \
        for (int k = 0; k < V; k++)                                                             \
            total += lane[k];                                                                   \
        return total;                                                                           \
    }                                                                                           \
    static void name(char *y, const char *x, const reduce_block *b) {                           \
        enum { V = 32 / sizeof(A), COLUMNS = REDUCE_BLOCK / sizeof(A) };                        \
        int64_t n0 = b->n0, s0 = b->s0, n1 = b->n1, s1 = b->s1, j = 0;                          \
        A total[COLUMNS];                                                                       \
        if ((s0 == sizeof(T) && n0 >= V) || ((s1 != sizeof(T) || n1 < V) && s0 < s1)) {         \
            for (; j < n1; j++) {                                                               \
                if (s0 == sizeof(T) && n0 >= V)                                                 \
                    total[0] = name##_row(x + j * s1, n0);                                      \
                else                                                                            \
                    name##_apart(x + j * s1, s0, n0, total);                                    \
                *(A *)(y + j * b->sy) += total[0];                                              \
            }                                                                                   \
            return;                                                                             \
        }                                                                                       \
        int64_t group = s1 == sizeof(T) && n1 >= V ? 4 * V : 4, whole = n1 / group * group;     \
        while (j < n1) {                                                                        \
            int cols = (int)RG_MIN(COLUMNS, (j < whole ? whole : n1) - j);                      \
            if (j < whole)                                                                      \
                name##_cascade(x + j * s1, s0, s1, n0, cols, total);                            \
            else                                                                                \
                name##_by_four(x + j * s1, s0, s1, n0, cols, total);                            \
            for (int c = 0; c < cols; c++)                                                      \
                *(A *)(y + (j + c) * b->sy) += total[c];                                        \
            j += cols;                                                                          \
        }                                                                                       \
    }

/* ---- folds: numbers side by side in torch's order, the rest, which hardly depends on it, row by row --- */

#define K_FOLD(name, T, A, unit, value, joined)                                            \
    K_ROWS(name, T, A, value, joined)                                                      \
    static void name(char *y, const char *x, const reduce_block *b) {                      \
        enum { V = 32 / sizeof(A), COLUMNS = REDUCE_BLOCK / sizeof(A), SIZE = sizeof(T) }; \
        A part[COLUMNS];                                                                   \
        int64_t rows = b->s0 == SIZE ? b->n0 / (4 * V) : 0;                                \
        if (b->sy == 0 || b->s0 <= b->s1) {                                                \
            for (int64_t j = 0; j < b->n1; j++) {                                          \
                const char *row = x + j * b->s1;                                           \
                A *to = (A *)(y + j * b->sy), total = *to;                                 \
                if (rows) {                                                                \
                    for (int c = 0; c < 4 * V; c++)                                        \
                        part[c] = (A)(unit);                                               \
                    name##_rows(row, 4 * V * SIZE, SIZE, rows, 4 * V, part);               \
                    for (A *p = part; p < part + V; p++)                                   \
                        *p = name##_join(name##_join(p[0], p[V]),                          \
                                         name##_join(p[2 * V], p[3 * V]));                 \
                    for (int c = 1; c < V; c++)                                            \
                        part[0] = name##_join(part[0], part[c]);                           \
                    total = name##_join(total, part[0]);                                   \
                }                                                                          \
                for (int64_t i = rows * 4 * V; i < b->n0; i++)                             \
                    total = name##_join(total, name##_at(row + i * b->s0));                \
                *to = total;                                                               \
            }                                                                              \
            return;                                                                        \
        }                                                                                  \
        for (int64_t j = 0; j < b->n1; j += COLUMNS) {                                     \
            int cols = (int)RG_MIN(b->n1 - j, COLUMNS);                                    \
            for (int c = 0; c < cols; c++)                                                 \
                part[c] = *(A *)(y + (j + c) * b->sy);                                     \
            name##_rows(x + j * b->s1, b->s0, b->s1, b->n0, cols, part);                   \
            for (int c = 0; c < cols; c++)                                                 \
                *(A *)(y + (j + c) * b->sy) = part[c];                                     \
        }                                                                                  \
    }

/* ---- extremes and their places, along one dim: the first of equals, the first NaN ---- */

typedef struct {
    char *values;
    int64_t *indices;
    bool smallest;
} place_context;

#define K_PLACE(name, min, max, T, I)                                                        \
    static inline bool name##_beats(T v, T best, bool smallest) {                            \
        return ((smallest ? v < best : v > best) | (v != v)) & (best == best);               \
    }                                                                                        \
    static inline __attribute__((always_inline)) void name##_row(                            \
        T *restrict best, I *restrict where, const char *x, int64_t step, int64_t cols, I i, \
        bool smallest) {                                                                     \
        for (int64_t k = 0; k < cols; k++) {                                                 \
            T v = *(const T *)(x + k * step), b = best[k];                                   \
            I at = where[k];                                                                 \
            bool beats = name##_beats(v, b, smallest);                                       \
            best[k] = beats ? v : b;                                                         \
            where[k] = beats ? i : at;                                                       \
        }                                                                                    \
    }                                                                                        \
    /* In one row: the block with the extreme first, then where in it. */                    \
    static int64_t name##_in_row(const T *v, int64_t n, bool smallest, T *best) {            \
        enum { BLOCK = 2048 };                                                               \
        int64_t at = 0;                                                                      \
        for (int64_t i = 0; i < n; i += BLOCK) {                                             \
            T most = v[0];                                                                   \
            reduce_block b = { .n0 = RG_MIN(n - i, BLOCK), .s0 = sizeof(T), .n1 = 1 };       \
            (smallest ? min : max)((char *)&most, (const char *)(v + i), &b);                \
            if (i == 0 || name##_beats(most, *best, smallest))                               \
                *best = most, at = i;                                                        \
        }                                                                                    \
        while (*best == *best ? v[at] != *best : v[at] == v[at])                             \
            at++;                                                                            \
        return at;                                                                           \
    }                                                                                        \
    static void name(char *y, const char *x, const reduce_block *b) {                        \
        enum { COLUMNS = 1024, NEXT = sizeof(T) };                                           \
        const place_context *c = b->context;                                                 \
        T best[COLUMNS], *value = (T *)y;                                                    \
        I where[COLUMNS];                                                                    \
        int64_t *at = c->indices + (value - (T *)c->values), sy = b->sy / NEXT;              \
        if (b->s0 == NEXT && b->n0 >= 64) {                                                  \
            for (int64_t j = 0; j < b->n1; j++)                                              \
                at[j * sy] = name##_in_row((const T *)(x + j * b->s1), b->n0, c->smallest,   \
                                           value + j * sy);                                  \
            return;                                                                          \
        }                                                                                    \
        for (int64_t j = 0; j < b->n1; j += COLUMNS) {                                       \
            int64_t cols = RG_MIN(b->n1 - j, COLUMNS);                                       \
            const char *row = x + j * b->s1;                                                 \
            for (int64_t k = 0; k < cols; k++)                                               \
                best[k] = *(const T *)(row + k * b->s1), where[k] = 0;                       \
            for (int64_t i = 1; i < b->n0; i++) {                                            \
                row += b->s0;                                                                \
                if (b->s1 != NEXT)                                                           \
                    name##_row(best, where, row, b->s1, cols, (I)i, c->smallest);            \
                else if (c->smallest)                                                        \
                    name##_row(best, where, row, NEXT, cols, (I)i, true);                    \
                else                                                                         \
                    name##_row(best, where, row, NEXT, cols, (I)i, false);                   \
            }                                                                                \
            for (int64_t k = 0; k < cols; k++)                                               \
                value[(j + k) * sy] = best[k], at[(j + k) * sy] = where[k];                  \
        }                                                                                    \
    }

/* A kind of reduction: what it starts from, and its loops by dtype. */
typedef struct {
    double unit;
    int64_t integer;
    reduce_loop *loop[4];
} reduction;

/* define(name, ..), under the set's name. */
#define K_DEFINE_(define, ...)      define(__VA_ARGS__)
#define K_DEFINE(define, name, ...) K_DEFINE_(define, K_SET(name), __VA_ARGS__)

#define K_FILE "reduce.c"
#include "sets.h"

/* ---- the kinds, and what is made of them ----------------------------------------- */

void k_reduce(k_reduction how, rg_tensor *y, const rg_tensor *x, uint32_t dims) {
    static const reduction *const sets[] = K_SETS(reductions);
    const reduction *r = &sets[k_set][how];
    if (r->unit == 0)
        rgi_fill_zero(y);
    else
        rgi_fill_number(y, r->unit, y->dtype == RG_BOOL ? r->integer > 0 : r->integer);
    reduce_run(y, x, dims, r->loop[x->dtype], NULL);
}

int64_t k_count(const rg_tensor *x) {
    int64_t n;
    rg_tensor y = { .dtype = RG_INT64, .flags = RG_CONTIGUOUS, .numel = 1, .data = (char *)&n };
    k_reduce(K_COUNT, &y, x, UINT32_MAX);
    return n;
}

/* Each v of y, a float or a double as `real` is, becomes the expression. */
#define REDUCE_EACH_OF(T, y, expression)             \
    {                                                \
        typedef T real;                              \
        for (int64_t i = 0; i < y->numel; i++) {     \
            real *at = (real *)y->data + i, v = *at; \
            *at = expression;                        \
        }                                            \
    }
#define REDUCE_EACH(y, expression)                                                          \
    {                                                                                       \
        if (y->dtype == RG_FLOAT32)                                                         \
            REDUCE_EACH_OF(float, y, expression) else REDUCE_EACH_OF(double, y, expression) \
    }

void k_mean(rg_tensor *y, const rg_tensor *x, uint32_t dims) {
    double n = (double)x->numel / (double)y->numel;
    k_reduce(K_SUM, y, x, dims);
    REDUCE_EACH(y, v / (real)n);
}

bool k_any(rg_tensor *y, const rg_tensor *x, uint32_t dims, bool all) {
    rg_tensor *count = rgi_new_like(y, RG_INT64);
    if (!count)
        return false;
    k_reduce(K_COUNT, count, x, dims);
    int64_t needed = all && y->numel ? x->numel / y->numel : 1;
    for (int64_t i = 0; i < y->numel; i++)
        ((bool *)y->data)[i] = ((int64_t *)count->data)[i] >= needed;
    rgi_release(count);
    return true;
}

void k_max_dim(rg_tensor *values, rg_tensor *indices, const rg_tensor *x, int dim, bool smallest) {
    static reduce_loop *const *const sets[] = K_SETS(places);
    place_context c = { values->data, (int64_t *)indices->data, smallest };
    reduce_run(values, x, 1u << dim, sets[k_set][x->dtype], &c);
}

/* ---- sums of what is made of the elements and of another number for each sum ----- */

/* y with x's dims, the reduced ones at 1: to walk along with x. */
static rg_tensor reduce_kept(const rg_tensor *y, const rg_tensor *x, uint32_t dims) {
    rg_tensor kept = *y;
    kept.ndim = x->ndim;
    for (int d = 0; d < x->ndim; d++)
        kept.size[d] = dims >> d & 1 ? 1 : x->size[d];
    rgi_set_strides(&kept);
    return kept;
}

/* m2[j] += (x[i] - mean[j])^2; p: x, m2, mean */
#define K_SPREAD(T)                                                                                \
    static void spread_##T(char *const p[], const int64_t s[], int64_t n, const void *context) {   \
        enum { LANES = 8 };                                                                        \
        double lane[LANES] = { 0 }, *restrict m2 = (double *)p[1], m = *(const double *)p[2];      \
        const double *restrict mean = (const double *)p[2];                                        \
        const T *restrict x = (const T *)p[0];                                                     \
        int64_t i = 0;                                                                             \
        (void)context;                                                                             \
        if (s[0] == sizeof(T) && s[1] == sizeof(double)) {                                         \
            for (; i < n; i++)                                                                     \
                m2[i] += ((double)x[i] - mean[i]) * ((double)x[i] - mean[i]);                      \
            return;                                                                                \
        }                                                                                          \
        for (; s[0] == sizeof(T) && s[1] == 0 && i + LANES <= n; i += LANES)                       \
            for (int k = 0; k < LANES; k++)                                                        \
                lane[k] += ((double)x[i + k] - m) * ((double)x[i + k] - m);                        \
        for (; i < n; i++) {                                                                       \
            double v = (double)*(const T *)(p[0] + i * s[0]) - *(const double *)(p[2] + i * s[2]); \
            *(double *)(p[1] + i * s[1]) += v * v;                                                 \
        }                                                                                          \
        for (int k = 0; k < LANES && s[1] == 0; k++)                                               \
            *m2 += lane[k];                                                                        \
    }
K_SPREAD(float)
K_SPREAD(double)

bool k_var(rg_tensor *y, const rg_tensor *x, uint32_t dims, double correction, bool root) {
    rg_tensor *mean = rgi_new_like(y, RG_FLOAT64), *m2 = rgi_new_like(y, RG_FLOAT64);
    if (mean && m2) {
        double n = (double)x->numel / (double)y->numel;
        k_reduce(K_SUM_WIDE, mean, x, dims);
        REDUCE_EACH(mean, v / (real)n);
        rgi_fill_zero(m2);
        rg_tensor around = reduce_kept(mean, x, dims), to = reduce_kept(m2, x, dims),
                  *t[] = { (rg_tensor *)x, &to, &around };
        rgi_each(3, t, x->dtype == RG_FLOAT32 ? spread_float : spread_double, NULL);
        REDUCE_EACH(m2, v / (real)RG_MAX(0, n - correction));
        if (root)
            REDUCE_EACH(m2, sqrt(v));
        rgi_copy_elements(y, m2);
    }
    rgi_release(mean);
    rgi_release(m2);
    return mean && m2;
}

bool k_norm(rg_tensor *y, const rg_tensor *x, uint32_t dims, double p) {
    /* Of one number alone it is its size, whose power may be out of range. */
    k_reduction how = p == 0                                  ? K_NORM_0
                      : p == 1                                ? K_NORM_1
                      : p == 2 && x->numel != y->numel        ? K_NORM_2
                      : p == INFINITY || x->numel == y->numel ? K_NORM_MAX
                      : p == -INFINITY                        ? K_NORM_MIN
                                                              : K_SUM;
    rg_tensor *powers = how == K_SUM ? rgi_new_like(x, x->dtype) : NULL;
    if (how == K_SUM && !powers)
        return false;
    const float order = (float)p;
    rg_tensor number = RG_NUMBER(x->dtype, x->dtype == RG_FLOAT32 ? (const void *)&order : &p);
    if (powers)
        k_run(k_abs, powers, (rg_tensor *)x), k_run(k_pow, powers, powers, &number);
    k_reduce(how, y, powers ? powers : x, dims);
    rgi_release(powers);
    if (how == K_SUM)
        REDUCE_EACH(y, pow(v, (real)(1 / p)));
    if (how == K_NORM_2)
        REDUCE_EACH(y, sqrt(v));
    return true;
}

/* With the largest subtracted, unless that is infinite. */
bool k_logsumexp(rg_tensor *y, const rg_tensor *x, uint32_t dims) {
    rg_tensor *most = rgi_new_like(y, y->dtype), *powers = rgi_new_like(x, x->dtype);
    if (most && powers) {
        k_reduce(K_MAX, most, x, dims);
        REDUCE_EACH(most, isinf(v) ? 0 : v);
        rg_tensor kept = reduce_kept(most, x, dims);
        k_run(k_sub, powers, (rg_tensor *)x, &kept);
        k_run(k_exp, powers, powers);
        k_reduce(K_SUM, y, powers, dims);
        REDUCE_EACH(y, log(v) + ((real *)most->data)[i]);
    }
    rgi_release(most);
    rgi_release(powers);
    return most && powers;
}

#else
#define K_SUM_FLOATS(name, value)                      \
    K_DEFINE(K_SUM, name##_float, float, float, value) \
    K_DEFINE(K_SUM, name##_double, double, double, value)
K_SUM_FLOATS(sum, v)
K_DEFINE(K_SUM, sum_wide, float, double, v)
K_SUM_FLOATS(nansum, v == v ? v : 0)
K_SUM_FLOATS(norm0, v != 0)
K_SUM_FLOATS(norm1, fabs(v))
K_SUM_FLOATS(norm2, v *v)

K_DEFINE(K_FOLD, sum_bool, uint8_t, uint64_t, 0, v, a + b)
K_DEFINE(K_FOLD, sum_int64, int64_t, uint64_t, 0, v, a + b)
K_DEFINE(K_FOLD, count_bool, uint8_t, uint64_t, 0, v, a + b)
K_DEFINE(K_FOLD, count_int64, int64_t, uint64_t, 0, v != 0, a + b)
K_DEFINE(K_FOLD, count_float, float, uint64_t, 0, v != 0, a + b)
K_DEFINE(K_FOLD, count_double, double, uint64_t, 0, v != 0, a + b)
K_DEFINE(K_FOLD, prod_bool, uint8_t, uint64_t, 1, v, a &b)
K_DEFINE(K_FOLD, prod_int64, int64_t, uint64_t, 1, v, a *b)
K_DEFINE(K_FOLD, prod_float, float, float, 1, v, a *b)
K_DEFINE(K_FOLD, prod_double, double, double, 1, v, a *b)

/* A NaN stays: nothing is greater. */
#define K_EXTREMES(name, T, low, high, value)                                    \
    K_DEFINE(K_FOLD, max_##name, T, T, low, value, ((b > a) | (b != b)) ? b : a) \
    K_DEFINE(K_FOLD, min_##name, T, T, high, value, ((b < a) | (b != b)) ? b : a)
K_EXTREMES(bool, uint8_t, 0, 1, v)
K_EXTREMES(int64, int64_t, INT64_MIN, INT64_MAX, v)
K_EXTREMES(float, float, -INFINITY, INFINITY, v)
K_EXTREMES(double, double, -INFINITY, INFINITY, v)
K_EXTREMES(norm_float, float, 0, INFINITY, fabs(v))
K_EXTREMES(norm_double, double, 0, INFINITY, fabs(v))

#define REDUCE_LOOPS(name) \
    { K_SET(name##_bool), K_SET(name##_int64), K_SET(name##_float), K_SET(name##_double) }
#define REDUCE_FLOATS(name) \
    { NULL, NULL, K_SET(name##_float), K_SET(name##_double) }
static const reduction K_SET(reductions)[] = {
    [K_SUM] = { 0, 0, REDUCE_LOOPS(sum) },
    [K_SUM_WIDE] = { 0, 0, { NULL, NULL, K_SET(sum_wide), K_SET(sum_double) } },
    [K_NANSUM] = { 0,
                   0,
                   { K_SET(sum_bool), K_SET(sum_int64), K_SET(nansum_float),
                     K_SET(nansum_double) } },
    [K_COUNT] = { 0, 0, REDUCE_LOOPS(count) },
    [K_PROD] = { 1, 1, REDUCE_LOOPS(prod) },
    [K_MAX] = { -INFINITY, INT64_MIN, REDUCE_LOOPS(max) },
    [K_MIN] = { INFINITY, INT64_MAX, REDUCE_LOOPS(min) },
    [K_NORM_0] = { 0, 0, REDUCE_FLOATS(norm0) },
    [K_NORM_1] = { 0, 0, REDUCE_FLOATS(norm1) },
    [K_NORM_2] = { 0, 0, REDUCE_FLOATS(norm2) },
    [K_NORM_MAX] = { 0, 0, REDUCE_FLOATS(max_norm) },
    [K_NORM_MIN] = { INFINITY, 0, REDUCE_FLOATS(min_norm) },
};

K_DEFINE(K_PLACE, place_bool, K_SET(min_bool), K_SET(max_bool), bool, int64_t)
K_DEFINE(K_PLACE, place_int64, K_SET(min_int64), K_SET(max_int64), int64_t, int64_t)
/* A dim of 2^32 floats or more, not side by side, is too much. */
K_DEFINE(K_PLACE, place_float, K_SET(min_float), K_SET(max_float), float, uint32_t)
K_DEFINE(K_PLACE, place_double, K_SET(min_double), K_SET(max_double), double, int64_t)
static reduce_loop *const K_SET(places)[] = REDUCE_LOOPS(place);
#endif
