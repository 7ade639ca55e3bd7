/*
 * reduce.c: sums, extremes and their kind, over the dims of a mask. A reduction
 * is cut into blocks of two dims, the first of them reduced, and folded into y.
 */
#include "kernels.h"

#include <math.h>

/* y[j] = fold of x[i][j] over i < n0, and what y[j] was. Steps in bytes; sy may be 0. */
typedef struct { int64_t n0, s0, n1, s1, sy; const void *context; } reduce_block;
typedef void reduce_loop(char *y, const char *x, const reduce_block *b);

enum { REDUCE_LARGE = 1 << 15, REDUCE_BLOCK = 8192 };   /* elements; bytes of sums that are made at once */

/* Reduced dims come first, as x lies in memory; then the kept ones, as y lies, or,
 * where there is much to read, as x. In this order the sums of few numbers are
 * added in torch's order, too. */
static void reduce_run(rg_tensor *y, const rg_tensor *x, uint32_t dims, reduce_loop *loop, const void *context)
{
    struct { int64_t size, x, y; } d[RG_MAX_DIMS + 2], t;
    int64_t bytes = (int64_t)rg_sizeof(x->dtype), step = (int64_t)rg_sizeof(y->dtype), at[RG_MAX_DIMS + 2] = { 0 };
    int n = 1, merged = 0;
    if (x->numel == 0) return;
    d[0].size = 1, d[0].x = d[0].y = 0;
    for (int dim = x->ndim - 1; dim >= 0; dim--) {
        if (x->size[dim] == 1) continue;
        bool reduced = dims >> dim & 1;
        t.size = x->size[dim], t.x = x->stride[dim] * bytes, t.y = reduced ? 0 : step;
        if (!reduced) step *= t.size;
        d[n] = t;
        for (int k = n - 1, i = n++; k > 0; k--) {
            int after = reduced != !d[k].y ? reduced ? 1 : -1               /* does d[k] come after d[i]? */
                      : !reduced && x->numel < REDUCE_LARGE ? -1
                      : d[k].x && d[i].x ? (d[k].x > d[i].x) - (d[k].x < d[i].x) : 0;
            if (after < 0) break;
            if (after > 0) t = d[k], d[k] = d[i], d[i] = t, i = k;
        }
    }
    for (int k = 1; k < n; k++) {
        bool fits = (d[merged].size == 1 && !d[k].y) || (d[k].x == d[merged].x * d[merged].size
                    && d[k].y == d[merged].y * d[merged].size && (merged || !d[k].y));
        if (!fits) d[++merged] = d[k];
        else if (d[merged].size == 1) d[merged] = d[k];
        else d[merged].size *= d[k].size;
    }
    n = merged + 1;
    if (n == 1) d[n].size = 1, d[n].x = d[n].y = 0, n++;
    reduce_block b = { d[0].size, d[0].x, d[1].size, d[1].x, d[1].y, context };
    char *to = y->data;
    const char *from = x->data;
    for (;;) {
        loop(to, from, &b);
        int k = 2;
        for (; k < n; k++) {
            from += d[k].x, to += d[k].y;
            if (++at[k] < d[k].size) break;
            from -= d[k].x * d[k].size, to -= d[k].y * d[k].size;
            at[k] = 0;
        }
        if (k == n) return;
    }
}

/* ---- sums -------------------------------------------------------------------------------
 * A cascade: 16 rows (or more, where there are over 2^20) make a subtotal, 16 of
 * those one of the next level, up to four levels, so the error hardly grows with
 * the count. A row is 32 bytes times 4 where numbers lie side by side, else 4 of
 * them. This is torch's order, on one thread, and gives its bits. */
static int sum_power(int64_t rows)
{
    int log2 = rows <= 2 ? 1 : 64 - __builtin_clzll((uint64_t)rows - 1);
    return RG_MAX(4, log2 / 4);
}

#define K_SUM(name, T, A, value)                                                                \
    static inline A name##_at(const char *x) { T v = *(const T *)x; return (A)(value); }        \
    /* total[c] += x[r][c], row by row */                                                       \
    static inline void name##_rows(const char *x, int64_t row, int64_t col, int64_t rows, int cols, A *restrict total) \
    {                                                                                           \
        if (col != sizeof(T)) {                                                                 \
            for (int64_t r = 0; r < rows; r++, x += row)                                        \
                for (int c = 0; c < cols; c++) total[c] += name##_at(x + c * col);              \
            return;                                                                             \
        }                                                                                       \
        int64_t r = 0;                                                                          \
        for (; r + 8 <= rows; r += 8, x += 8 * row)                                             \
            for (int c = 0; c < cols; c++) {                                                    \
                const char *v = x + c * (int64_t)sizeof(T);                                     \
                A t = (((total[c] + name##_at(v)) + name##_at(v + row)) + name##_at(v + 2 * row)) + name##_at(v + 3 * row); \
                total[c] = (((t + name##_at(v + 4 * row)) + name##_at(v + 5 * row)) + name##_at(v + 6 * row)) \
                           + name##_at(v + 7 * row);                                            \
            }                                                                                   \
        for (; r + 4 <= rows; r += 4, x += 4 * row)                                             \
            for (int c = 0; c < cols; c++) {                                                    \
                const char *v = x + c * (int64_t)sizeof(T);                                     \
                total[c] = (((total[c] + name##_at(v)) + name##_at(v + row)) + name##_at(v + 2 * row)) \
                           + name##_at(v + 3 * row);                                            \
            }                                                                                   \
        for (; r < rows; r++, x += row)                                                         \
            for (int c = 0; c < cols; c++) total[c] += name##_at(x + c * (int64_t)sizeof(T));   \
    }                                                                                           \
    static void name##_cascade(const char *x, int64_t row, int64_t col, int64_t rows, int cols, A *restrict total) \
    {                                                                                           \
        A level[3][REDUCE_BLOCK / sizeof(A)];                                                             \
        int power = sum_power(rows);                                                            \
        int64_t step = (int64_t)1 << power, i = 0;                                              \
        bool deep = rows >= step;                                                               \
        for (int c = 0; c < cols; c++) total[c] = 0;                                            \
        for (int j = 0; j < 3 && deep; j++)                                                     \
            for (int c = 0; c < cols; c++) level[j][c] = 0;                                     \
        while (i + step <= rows) {                                                              \
            name##_rows(x + i * row, row, col, step, cols, total);                              \
            i += step;                                                                          \
            A *from = total;                                                                    \
            for (int j = 0; j < 3; j++) {                                                       \
                for (int c = 0; c < cols; c++) level[j][c] += from[c], from[c] = 0;             \
                if (i & (step - 1) << (j + 1) * power) break;                                   \
                from = level[j];                                                                \
            }                                                                                   \
        }                                                                                       \
        name##_rows(x + i * row, row, col, rows - i, cols, total);                              \
        for (int j = 0; j < 3 && deep; j++)                                                     \
            for (int c = 0; c < cols; c++) total[c] += level[j][c];                             \
    }                                                                                           \
    /* The same with every fourth row in a cascade of its own; fewer than 32 columns. */        \
    static void name##_by_four(const char *x, int64_t row, int64_t col, int64_t rows, int cols, A *restrict total) \
    {                                                                                           \
        A part[4 * 32];                                                                         \
        int64_t q = rows / 4;                                                                   \
        if (cols == 1 || row == cols * col) name##_cascade(x, 4 * row, cols == 1 ? row : col, q, 4 * cols, part); \
        else for (int k = 0; k < 4; k++) name##_cascade(x + k * row, 4 * row, col, q, cols, part + k * cols); \
        for (int c = 0; c < cols; c++) total[c] = part[c];                                      \
        name##_rows(x + 4 * q * row, row, col, rows - 4 * q, cols, total);                      \
        for (int k = 1; k < 4; k++)                                                             \
            for (int c = 0; c < cols; c++) total[c] += part[k * cols + c];                      \
    }                                                                                           \
    static A name##_few(const char *x, int64_t row, int64_t n)                                  \
    {                                                                                           \
        A a = 0, b = 0, c = 0, d = 0;                                                           \
        for (; n >= 4; n -= 4, x += 4 * row) {                                                  \
            a += name##_at(x), b += name##_at(x + row), c += name##_at(x + 2 * row), d += name##_at(x + 3 * row); \
        }                                                                                       \
        for (; n > 0; n--, x += row) a += name##_at(x);                                         \
        return ((a + b) + c) + d;                                                               \
    }                                                                                           \
    static A name##_row(const char *x, int64_t n)                                               \
    {                                                                                           \
        enum { V = 32 / sizeof(A), W = V * sizeof(T) };                                         \
        A lane[V], total = 0;                                                                   \
        for (int k = 0; k < V && n < 4 * V; k++) lane[k] = name##_at(x + k * (int64_t)sizeof(T)); \
        if (n >= 4 * V) name##_by_four(x, W, sizeof(T), n / V, V, lane);                        \
        else if (n >= 2 * V) name##_rows(x + W, W, sizeof(T), n / V - 1, V, lane);              \
        for (int64_t i = n / V * V; i < n; i++) total += name##_at(x + i * (int64_t)sizeof(T)); \
        for (int k = 0; k < V; k++) total += lane[k];                                           \
        return total;                                                                           \
    }                                                                                           \
    static void name(char *y, const char *x, const reduce_block *b)                             \
    {                                                                                           \
        enum { V = 32 / sizeof(A), COLUMNS = REDUCE_BLOCK / sizeof(A) };                        \
        int64_t n0 = b->n0, s0 = b->s0, n1 = b->n1, s1 = b->s1, j = 0;                          \
        A total[COLUMNS];                                                                       \
        if ((s0 == sizeof(T) && n0 >= V) || ((s1 != sizeof(T) || n1 < V) && s0 < s1)) {         \
            for (; j < n1; j++) {                                                               \
                if (s0 == sizeof(T) && n0 >= V) total[0] = name##_row(x + j * s1, n0);          \
                else if (n0 < 64) total[0] = name##_few(x + j * s1, s0, n0);                    \
                else name##_by_four(x + j * s1, s0, s1, n0, 1, total);                          \
                *(A *)(y + j * b->sy) += total[0];                                              \
            }                                                                                   \
            return;                                                                             \
        }                                                                                       \
        int64_t group = s1 == sizeof(T) && n1 >= V ? 4 * V : 4, whole = n1 / group * group;     \
        while (j < n1) {                                                                        \
            int cols = (int)RG_MIN(COLUMNS, (j < whole ? whole : n1) - j);                      \
            if (j < whole) name##_cascade(x + j * s1, s0, s1, n0, cols, total);                 \
            else name##_by_four(x + j * s1, s0, s1, n0, cols, total);                           \
            for (int c = 0; c < cols; c++) *(A *)(y + (j + c) * b->sy) += total[c];             \
            j += cols;                                                                          \
        }                                                                                       \
    }
K_SUM(sum_bool, bool, uint64_t, v)
K_SUM(sum_int64, int64_t, uint64_t, v)
K_SUM(sum_float, float, float, v)
K_SUM(sum_double, double, double, v)
K_SUM(nansum_float, float, float, v == v ? v : 0)
K_SUM(nansum_double, double, double, v == v ? v : 0)
K_SUM(sum_wide, float, double, v)
K_SUM(count_bool, bool, uint64_t, v)
K_SUM(count_int64, int64_t, uint64_t, v != 0)
K_SUM(count_float, float, uint64_t, v != 0)
K_SUM(count_double, double, uint64_t, v != 0)
K_SUM(norm1_float, float, float, fabsf(v))
K_SUM(norm1_double, double, double, fabs(v))
K_SUM(norm2_float, float, float, v * v)
K_SUM(norm2_double, double, double, v * v)
K_SUM(norm0_float, float, float, v != 0)
K_SUM(norm0_double, double, double, v != 0)

void k_sum(rg_tensor *y, const rg_tensor *x, uint32_t dims)
{
    static reduce_loop *const loops[] = { sum_bool, sum_int64, sum_float, sum_double };
    rg_fill_zero(y);
    reduce_run(y, x, dims, loops[x->dtype], NULL);
}

void k_nansum(rg_tensor *y, const rg_tensor *x, uint32_t dims)
{
    static reduce_loop *const loops[] = { sum_bool, sum_int64, nansum_float, nansum_double };
    rg_fill_zero(y);
    reduce_run(y, x, dims, loops[x->dtype], NULL);
}

void k_count_nonzero(rg_tensor *y, const rg_tensor *x, uint32_t dims)
{
    static reduce_loop *const loops[] = { count_bool, count_int64, count_float, count_double };
    rg_fill_zero(y);
    reduce_run(y, x, dims, loops[x->dtype], NULL);
}

void k_mean(rg_tensor *y, const rg_tensor *x, uint32_t dims)
{
    double n = (double)x->numel / (double)y->numel;
    k_sum(y, x, dims);
    if (y->dtype == RG_FLOAT32) for (int64_t i = 0; i < y->numel; i++) ((float *)y->data)[i] /= (float)n;
    else for (int64_t i = 0; i < y->numel; i++) ((double *)y->data)[i] /= n;
}

/* ---- folds: what hardly depends on the order ------------------------------------------------
 * a is what there is so far, b the next value, made of an element v. */
#define K_FOLD(name, T, A, unit, value, expression)                                             \
    static inline A name##_join(A a, A b) { return (A)(expression); }                           \
    static inline A name##_fold(A a, T v) { return name##_join(a, (A)(value)); }                \
    static void name##_columns(A *restrict out, const char *restrict x, int64_t row, int64_t rows, int64_t step, int64_t cols) \
    {                                                                                           \
        for (; rows >= 4 && step == sizeof(T); rows -= 4, x += 4 * row)                         \
            for (int64_t c = 0; c < cols; c++) {                                                \
                const char *v = x + c * (int64_t)sizeof(T);                                     \
                A a = name##_fold(name##_fold(out[c], *(const T *)v), *(const T *)(v + row));   \
                out[c] = name##_fold(name##_fold(a, *(const T *)(v + 2 * row)), *(const T *)(v + 3 * row)); \
            }                                                                                   \
        for (; rows > 0; rows--, x += row)                                                      \
            for (int64_t c = 0; c < cols; c++) out[c] = name##_fold(out[c], *(const T *)(x + c * step)); \
    }                                                                                           \
    static void name(char *y, const char *x, const reduce_block *r)                             \
    {                                                                                           \
        enum { LANES = 16 };                                                                    \
        int64_t n0 = r->n0, s0 = r->s0, n1 = r->n1, s1 = r->s1, sy = r->sy;                     \
        if (sy == 0 || s0 <= s1) {                                                              \
            for (int64_t j = 0; j < n1; j++) {                                                  \
                A total = *(A *)(y + j * sy), lane[LANES];                                      \
                const char *row = x + j * s1;                                                   \
                int64_t i = 0;                                                                  \
                if (s0 == sizeof(T) && n0 >= 4 * LANES) {                                       \
                    const T *v = (const T *)row;                                                \
                    for (int k = 0; k < LANES; k++) lane[k] = (A)(unit);                        \
                    for (; i + 4 * LANES <= n0; i += 4 * LANES)                                 \
                        for (int k = 0; k < LANES; k++) {                                       \
                            A a = name##_fold(name##_fold(lane[k], v[i + k]), v[i + k + LANES]); \
                            lane[k] = name##_fold(name##_fold(a, v[i + k + 2 * LANES]), v[i + k + 3 * LANES]); \
                        }                                                                       \
                    for (int k = 0; k < LANES; k++) total = name##_join(total, lane[k]);        \
                }                                                                               \
                for (; i < n0; i++) total = name##_fold(total, *(const T *)(row + i * s0));     \
                *(A *)(y + j * sy) = total;                                                     \
            }                                                                                   \
            return;                                                                             \
        }                                                                                       \
        enum { COLUMNS = REDUCE_BLOCK / sizeof(A) };                                            \
        for (int64_t j = 0; j < n1; j += COLUMNS) {                                             \
            int64_t cols = RG_MIN(n1 - j, COLUMNS);                                             \
            A out[COLUMNS];                                                                     \
            for (int64_t c = 0; c < cols; c++) out[c] = *(A *)(y + (j + c) * sy);               \
            name##_columns(out, x + j * s1, s0, n0, s1, cols);                                  \
            for (int64_t c = 0; c < cols; c++) *(A *)(y + (j + c) * sy) = out[c];               \
        }                                                                                       \
    }
K_FOLD(prod_bool, bool, uint64_t, 1, v, a * b)
K_FOLD(prod_int64, int64_t, uint64_t, 1, v, a * b)
K_FOLD(prod_float, float, float, 1, v, a * b)
K_FOLD(prod_double, double, double, 1, v, a * b)

void k_prod(rg_tensor *y, const rg_tensor *x, uint32_t dims)
{
    static reduce_loop *const loops[] = { prod_bool, prod_int64, prod_float, prod_double };
    rg_fill_number(y, 1, 1);
    reduce_run(y, x, dims, loops[x->dtype], NULL);
}

bool k_any(rg_tensor *y, const rg_tensor *x, uint32_t dims, bool all)
{
    rg_tensor *count = rg_new_like(y, RG_INT64);
    if (!count) return false;
    k_count_nonzero(count, x, dims);
    int64_t needed = all && y->numel ? x->numel / y->numel : 1;
    for (int64_t i = 0; i < y->numel; i++) ((bool *)y->data)[i] = ((int64_t *)count->data)[i] >= needed;
    rg_release(count);
    return true;
}

/* A NaN stays: nothing is greater. */
#define K_EXTREMES(T, name, low, high)                                                          \
    K_FOLD(max_##name, T, T, low, v, ((b > a) | (b != b)) ? b : a)                                \
    K_FOLD(min_##name, T, T, high, v, ((b < a) | (b != b)) ? b : a)
K_EXTREMES(bool, bool, false, true)
K_EXTREMES(int64_t, int64, INT64_MIN, INT64_MAX)
K_EXTREMES(float, float, -INFINITY, INFINITY)
K_EXTREMES(double, double, -INFINITY, INFINITY)

static reduce_loop *const extremes[2][4] = {
    { max_bool, max_int64, max_float, max_double }, { min_bool, min_int64, min_float, min_double }
};

void k_amax(rg_tensor *y, const rg_tensor *x, uint32_t dims, bool smallest)
{
    rg_fill_number(y, smallest ? INFINITY : -INFINITY, x->dtype == RG_BOOL ? smallest : smallest ? INT64_MAX : INT64_MIN);
    reduce_run(y, x, dims, extremes[smallest][x->dtype], NULL);
}

/* ---- extremes and their places, along one dim: the first of equals, the first NaN ------------- */

typedef struct { char *values; int64_t *indices; bool smallest; } place_context;

#define K_PLACE_COLUMNS(name, T, I, beyond)                                                     \
    static void name(T *restrict best, I *restrict where, const char *restrict x, int64_t step, int64_t cols, I i) \
    {                                                                                           \
        for (int64_t k = 0; k < cols && step == sizeof(T); k++) {                               \
            T v = ((const T *)x)[k], b = best[k];                                               \
            I at = where[k];                                                                    \
            bool beats = ((v beyond b) | (v != v)) & (b == b);                                  \
            best[k] = beats ? v : b;                                                            \
            where[k] = beats ? i : at;                                                          \
        }                                                                                       \
        for (int64_t k = 0; k < cols && step != sizeof(T); k++, x += step) {                    \
            T v = *(const T *)x, b = best[k];                                                   \
            if (((v beyond b) | (v != v)) & (b == b)) best[k] = v, where[k] = i;                \
        }                                                                                       \
    }
#define K_PLACE(name, T, I)                                                                     \
    K_PLACE_COLUMNS(place_high_##name, T, I, >)                                                 \
    K_PLACE_COLUMNS(place_low_##name, T, I, <)                                                  \
    static inline bool place_beats_##name(T v, T best, bool smallest)                           \
    {                                                                                           \
        return ((smallest ? v < best : v > best) | (v != v)) & (best == best);                  \
    }                                                                                           \
    /* In one row: the block with the extreme first, then where in it. */                       \
    static int64_t place_in_row_##name(const T *v, int64_t n, bool smallest, T *best)           \
    {                                                                                           \
        enum { BLOCK = 2048 };                                                                  \
        reduce_loop *fold = smallest ? min_##name : max_##name;                                 \
        T low = *best;                                                                          \
        int64_t at = 0;                                                                         \
        for (int64_t i = 0; i < n; i += BLOCK) {                                                \
            T most = low;                                                                       \
            reduce_block b = { .n0 = RG_MIN(n - i, BLOCK), .s0 = sizeof(T), .n1 = 1 };          \
            fold((char *)&most, (const char *)(v + i), &b);                                     \
            if (i == 0 || place_beats_##name(most, *best, smallest)) *best = most, at = i;      \
        }                                                                                       \
        if (*best != *best) while (v[at] == v[at]) at++;                                        \
        else while (v[at] != *best) at++;                                                       \
        return at;                                                                              \
    }                                                                                           \
    static void place_##name(char *y, const char *x, const reduce_block *b)                     \
    {                                                                                           \
        const place_context *c = b->context;                                                    \
        int64_t *at = c->indices + (y - c->values) / (int64_t)sizeof(T);                        \
        int64_t sy = b->sy / (int64_t)sizeof(T);                                                \
        enum { COLUMNS = 1024 };                                                                \
        bool smallest = c->smallest;                                                            \
        if (b->s0 == sizeof(T) && b->n0 >= 64) {                                                \
            for (int64_t j = 0; j < b->n1; j++)                                                 \
                at[j * sy] = place_in_row_##name((const T *)(x + j * b->s1), b->n0, smallest, (T *)(y + j * b->sy)); \
            return;                                                                             \
        }                                                                                       \
        for (int64_t j = 0; j < b->n1; j += COLUMNS) {                                          \
            int64_t cols = RG_MIN(b->n1 - j, COLUMNS);                                          \
            T best[COLUMNS];                                                                    \
            I where[COLUMNS];                                                                   \
            for (int64_t k = 0; k < cols; k++) best[k] = *(const T *)(x + (j + k) * b->s1), where[k] = 0; \
            for (int64_t i = 1; i < b->n0; i++)                                                 \
                (smallest ? place_low_##name : place_high_##name)(best, where, x + i * b->s0 + j * b->s1, b->s1, cols, (I)i); \
            for (int64_t k = 0; k < cols; k++) ((T *)y)[(j + k) * sy] = best[k], at[(j + k) * sy] = where[k]; \
        }                                                                                       \
    }
K_PLACE(bool, bool, int64_t)
K_PLACE(int64, int64_t, int64_t)
K_PLACE(float, float, uint32_t)         /* a dim of 2^32 floats or more, not side by side, is too much */
K_PLACE(double, double, int64_t)

void k_max_dim(rg_tensor *values, rg_tensor *indices, const rg_tensor *x, int dim, bool smallest)
{
    static reduce_loop *const loops[] = { place_bool, place_int64, place_float, place_double };
    rg_fill_number(values, smallest ? INFINITY : -INFINITY, x->dtype == RG_BOOL ? smallest : smallest ? INT64_MAX : INT64_MIN);
    place_context c = { values->data, (int64_t *)indices->data, smallest };
    reduce_run(values, x, 1u << dim, loops[x->dtype], &c);
}

/* ---- how ties share -------------------------------------------------------------------------- */

#define K_SHARE(T)                                                                              \
    static void share_mark_##T(char *const p[], const int64_t s[], int64_t n, const void *context) \
    {                                                                                           \
        bool nan_too = context != NULL;                                                         \
        for (int64_t i = 0; i < n; i++) {                                                       \
            T v = *(const T *)(p[1] + i * s[1]), w = *(const T *)(p[2] + i * s[2]);             \
            *(T *)(p[0] + i * s[0]) = (v == w) | (nan_too & (v != v) & (w != w));               \
        }                                                                                       \
    }                                                                                           \
    static void share_divide_##T(char *const p[], const int64_t s[], int64_t n, const void *context) \
    {                                                                                           \
        (void)context;                                                                          \
        for (int64_t i = 0; i < n; i++) *(T *)(p[0] + i * s[0]) /= *(const T *)(p[1] + i * s[1]); \
    }
K_SHARE(float)
K_SHARE(double)

void k_mark_equal(rg_tensor *y, const rg_tensor *a, const rg_tensor *b, bool nan_too)
{
    rg_each(3, (rg_tensor *[]){ y, (rg_tensor *)a, (rg_tensor *)b },
            y->dtype == RG_FLOAT32 ? share_mark_float : share_mark_double, nan_too ? y : NULL);
}

void k_divide_by(rg_tensor *y, const rg_tensor *b)
{
    rg_each(2, (rg_tensor *[]){ y, (rg_tensor *)b }, y->dtype == RG_FLOAT32 ? share_divide_float : share_divide_double, NULL);
}

/* ---- sums of what is made of the elements and of another number for each sum -------------------- */

/* y with x's dims, the reduced ones at 1: to walk along with x. */
static rg_tensor reduce_kept(const rg_tensor *y, const rg_tensor *x, uint32_t dims)
{
    rg_tensor kept = *y;
    kept.ndim = x->ndim;
    for (int d = 0; d < x->ndim; d++) kept.size[d] = dims >> d & 1 ? 1 : x->size[d];
    rg_set_strides(&kept);
    return kept;
}

/* m2[j] += (x[i] - mean[j])^2; p: x, m2, mean */
#define K_SPREAD(T)                                                                             \
    static void spread_##T(char *const p[], const int64_t s[], int64_t n, const void *context)  \
    {                                                                                           \
        enum { LANES = 8 };                                                                     \
        double lane[LANES] = { 0 }, *restrict m2 = (double *)p[1], m = *(const double *)p[2];   \
        const double *restrict mean = (const double *)p[2];                                     \
        const T *restrict x = (const T *)p[0];                                                  \
        int64_t i = 0;                                                                          \
        (void)context;                                                                          \
        if (s[0] == sizeof(T) && s[1] == sizeof(double)) {                                      \
            for (; i < n; i++) m2[i] += ((double)x[i] - mean[i]) * ((double)x[i] - mean[i]);    \
            return;                                                                             \
        }                                                                                       \
        for (; s[0] == sizeof(T) && s[1] == 0 && i + LANES <= n; i += LANES)                    \
            for (int k = 0; k < LANES; k++) lane[k] += ((double)x[i + k] - m) * ((double)x[i + k] - m); \
        for (; i < n; i++) {                                                                    \
            double v = (double)*(const T *)(p[0] + i * s[0]) - *(const double *)(p[2] + i * s[2]); \
            *(double *)(p[1] + i * s[1]) += v * v;                                              \
        }                                                                                       \
        for (int k = 0; k < LANES && s[1] == 0; k++) *m2 += lane[k];                            \
    }
K_SPREAD(float)
K_SPREAD(double)

bool k_var(rg_tensor *y, const rg_tensor *x, uint32_t dims, double correction, bool root)
{
    rg_tensor *mean = rg_new_like(y, RG_FLOAT64), *m2 = rg_new_like(y, RG_FLOAT64);
    if (mean && m2) {
        double n = 1, *sum = (double *)mean->data, *square = (double *)m2->data;
        for (int d = 0; d < x->ndim; d++)
            if (dims >> d & 1) n *= (double)x->size[d];
        rg_fill_zero(mean);
        rg_fill_zero(m2);
        reduce_run(mean, x, dims, x->dtype == RG_FLOAT32 ? sum_wide : sum_double, NULL);
        for (int64_t i = 0; i < mean->numel; i++) sum[i] /= n;
        rg_tensor around = reduce_kept(mean, x, dims), to = reduce_kept(m2, x, dims);
        rg_each(3, (rg_tensor *[]){ (rg_tensor *)x, &to, &around }, x->dtype == RG_FLOAT32 ? spread_float : spread_double, NULL);
        for (int64_t i = 0; i < m2->numel; i++) {
            square[i] /= RG_MAX(0, n - correction);
            if (root) square[i] = sqrt(square[i]);
        }
        rg_copy_elements(y, m2);
    }
    rg_release(mean);
    rg_release(m2);
    return mean && m2;
}

#define K_NORM_POWER(T, POW, ABS)                                                               \
    static void norm_power_##T(char *const p[], const int64_t s[], int64_t n, const void *context) \
    {                                                                                           \
        T order = (T)*(const double *)context;                                                  \
        for (int64_t i = 0; i < n; i++) *(T *)(p[0] + i * s[0]) = POW(ABS(*(const T *)(p[1] + i * s[1])), order); \
    }
K_NORM_POWER(float, powf, fabsf)
K_NORM_POWER(double, pow, fabs)

K_FOLD(norm_max_float, float, float, 0, fabsf(v), ((b > a) | (b != b)) ? b : a)
K_FOLD(norm_max_double, double, double, 0, fabs(v), ((b > a) | (b != b)) ? b : a)
K_FOLD(norm_min_float, float, float, INFINITY, fabsf(v), ((b < a) | (b != b)) ? b : a)
K_FOLD(norm_min_double, double, double, INFINITY, fabs(v), ((b < a) | (b != b)) ? b : a)

bool k_norm(rg_tensor *y, const rg_tensor *x, uint32_t dims, double p)
{
    bool narrow = x->dtype == RG_FLOAT32;
    reduce_loop *loop = p == 0 ? narrow ? norm0_float : norm0_double
                      : p == 1 ? narrow ? norm1_float : norm1_double
                      : p == 2 ? narrow ? norm2_float : norm2_double
                      : p == INFINITY ? narrow ? norm_max_float : norm_max_double
                      : p == -INFINITY ? narrow ? norm_min_float : norm_min_double : NULL;
    rg_fill_number(y, p == -INFINITY ? INFINITY : 0, 0);
    if (loop) {
        reduce_run(y, x, dims, loop, NULL);
    } else {
        rg_tensor *powers = rg_new_like(x, x->dtype);
        if (!powers) return false;
        rg_each(2, (rg_tensor *[]){ powers, (rg_tensor *)x }, narrow ? norm_power_float : norm_power_double, &p);
        k_sum(y, powers, dims);
        rg_release(powers);
    }
    for (int64_t i = 0; i < y->numel && p != 0 && p != 1 && p != INFINITY && p != -INFINITY; i++) {
        if (narrow) ((float *)y->data)[i] = p == 2 ? sqrtf(((float *)y->data)[i]) : powf(((float *)y->data)[i], (float)(1 / p));
        else ((double *)y->data)[i] = p == 2 ? sqrt(((double *)y->data)[i]) : pow(((double *)y->data)[i], 1 / p);
    }
    return true;
}

/* With the largest subtracted, unless that is infinite. */
bool k_logsumexp(rg_tensor *y, const rg_tensor *x, uint32_t dims)
{
    bool narrow = x->dtype == RG_FLOAT32;
    rg_tensor *most = rg_new_like(y, y->dtype), *powers = rg_new_like(x, x->dtype);
    if (most && powers) {
        k_amax(most, x, dims, false);
        for (int64_t i = 0; i < most->numel; i++) {
            if (narrow && isinf(((float *)most->data)[i])) ((float *)most->data)[i] = 0;
            if (!narrow && isinf(((double *)most->data)[i])) ((double *)most->data)[i] = 0;
        }
        rg_tensor kept = reduce_kept(most, x, dims);
        k_sub(powers, (rg_tensor *[]){ (rg_tensor *)x, &kept });
        k_exp(powers, (rg_tensor *[]){ powers });
        k_sum(y, powers, dims);
        for (int64_t i = 0; i < y->numel; i++) {
            if (narrow) ((float *)y->data)[i] = logf(((float *)y->data)[i]) + ((float *)most->data)[i];
            else ((double *)y->data)[i] = log(((double *)y->data)[i]) + ((double *)most->data)[i];
        }
    }
    rg_release(most);
    rg_release(powers);
    return most && powers;
}
