/*
 * walk.c: one walk over tensors that broadcast to one shape. Neighbouring
 * dims that every operand steps through evenly are merged, so that a kernel
 * sees the longest rows there are; a large operand that lies the other way is
 * turned over, tile by tile. And copying, with conversion, by such walks.
 */
#include "kernels/kernels.h"

#include <math.h>

/* A part has about so many elements, or more, if there would be more parts; a thread gets so many
 * parts. On one thread all is one part: the beginning and the end of one that goes past the caches
 * take a microsecond. */
enum { ITERATE_GRAIN = 1 << 13, ITERATE_PARTS = 64, ITERATE_WORTH = 4 };
enum { ITERATE_LONG = 1 << 14 }; /* so many are worth the best order */
enum { ITERATE_LINE = 64 };
/* bytes of a row from which on going past the caches pays */
enum { ITERATE_PAST = 8 << 10 };

static void add_dim(rg_walk *w, int64_t size, const int64_t step[]) {
    int d = w->ndim, k = 0;
    if (d > 0)
        while (k < w->n && w->step[d - 1][k] == size * step[k])
            k++;
    /* outer step == inner size * inner step */
    if (d > 0 && k == w->n)
        w->size[--d] *= size;
    else
        w->size[d] = size;
    for (k = 0; k < w->n; k++)
        w->step[d][k] = step[k];
    w->ndim = d + 1;
}

void rgi_walk_make(rg_walk *w, int n, rg_tensor *const t[], bool by_stride) {
    const rg_tensor *out = t[0];
    int order[RG_MAX_DIMS], dims = 0;
    w->n = n;
    w->ndim = 0;
    w->numel = out->numel;
    for (int k = 0; k < n; k++)
        w->data[k] = t[k]->data, w->element[k] = (int64_t)rgi_sizeof(t[k]->dtype);
    /* of nothing, sizes and strides may be anything */
    for (int d = 0; d < out->ndim && w->numel; d++) {
        if (out->size[d] == 1)
            continue;
        int i = dims++;
        for (; by_stride && i > 0 && out->stride[order[i - 1]] < out->stride[d]; i--)
            order[i] = order[i - 1];
        order[i] = d;
    }
    for (int i = 0; i < dims; i++) {
        int64_t step[RG_MAX_OPERANDS];
        for (int k = 0; k < n; k++) {
            int dk = order[i] - (out->ndim - t[k]->ndim);
            step[k] = dk < 0 || t[k]->size[dk] == 1 ? 0 : t[k]->stride[dk] * w->element[k];
        }
        add_dim(w, out->size[order[i]], step);
    }
    if (w->ndim == 0)
        add_dim(w, w->numel, (int64_t[RG_MAX_OPERANDS]){ 0 });
}

void rgi_walk_run(const rg_walk *w, rg_loop *inner, const void *context) {
    if (w->numel == 0)
        return;
    int last = w->ndim - 1;
    char *p[RG_MAX_OPERANDS];
    int64_t at[RG_MAX_DIMS] = { 0 };
    for (int k = 0; k < w->n; k++)
        p[k] = w->data[k];
    for (;;) {
        inner(p, w->step[last], w->size[last], context);
        int d = last - 1;
        for (; d >= 0; d--) {
            for (int k = 0; k < w->n; k++)
                p[k] += w->step[d][k];
            if (++at[d] < w->size[d])
                break;
            for (int k = 0; k < w->n; k++)
                p[k] -= w->step[d][k] * w->size[d];
            at[d] = 0;
        }
        if (d < 0)
            return;
    }
}

/* ---- operands that lie the other way ------------------------------------------------
 * Along the last dim they step from line to line of memory, and along another dim from element to
 * element. That one becomes the last but one, and tiles of the two are turned over in a buffer, as
 * they are read: lines are read once, pages seldom more than once, and loops vectorise. */
enum { TURN_SIDE = 64 };
typedef struct {
    const rg_walk *walk;
    rg_loop *inner;
    const void *context;
    bool turned[RG_MAX_OPERANDS];
} iterate_turn;

static bool turn_find(iterate_turn *turn, rg_walk *w) {
    int last = w->ndim - 1, at = -1;
    for (int k = 1; k < w->n; k++)
        for (int d = 0; d < last; d++) {
            if (w->step[d][k] != w->element[k] || w->step[last][k] < ITERATE_LINE
                || (at >= 0 && at != d))
                continue;
            turn->turned[k] = true;
            at = d;
        }
    if (at < 0)
        return false;
    for (int d = at; d < last - 1; d++) {
        RG_SWAP(w->size[d], w->size[d + 1]);
        for (int k = 0; k < w->n; k++)
            RG_SWAP(w->step[d][k], w->step[d + 1][k]);
    }
    return true;
}

#define TURN(T)                            \
    for (int64_t j = 0; j < columns; j++)  \
        for (int64_t i = 0; i < rows; i++) \
    ((T *)to)[i * TURN_SIDE + j] = ((const T *)(from + j * step))[i]
static void turn_tile(char *to, const char *from, int64_t step, int64_t element, int64_t rows,
                      int64_t columns) {
    if (element == 4)
        TURN(float);
    else if (element == 8)
        TURN(double);
    else
        TURN(char);
}

static void turn_loop(char *const p[], const int64_t outer[], int64_t n, const void *context) {
    const iterate_turn *t = context;
    const rg_walk *w = t->walk;
    int last = w->ndim;
    _Alignas(64) char buffer[RG_MAX_OPERANDS][TURN_SIDE * TURN_SIDE * sizeof(double)];
    for (int64_t j = 0, columns = 0; j < w->size[last]; j += columns)
        for (int64_t i = 0, rows = 0; i < n; i += rows) {
            rows = RG_MIN(n - i, TURN_SIDE);
            columns = RG_MIN(w->size[last] - j, TURN_SIDE);
            char *q[RG_MAX_OPERANDS];
            int64_t step[RG_MAX_OPERANDS], down[RG_MAX_OPERANDS];
            for (int k = 0; k < w->n; k++) {
                q[k] = p[k] + i * outer[k] + j * w->step[last][k];
                step[k] = w->step[last][k];
                down[k] = outer[k];
                if (!t->turned[k])
                    continue;
                turn_tile(buffer[k], q[k], step[k], w->element[k], rows, columns);
                q[k] = buffer[k];
                step[k] = w->element[k];
                down[k] = TURN_SIDE * w->element[k];
            }
            for (int64_t r = 0; r < rows; r++) {
                t->inner(q, step, columns, t->context);
                for (int k = 0; k < w->n; k++)
                    q[k] += down[k];
            }
        }
}

typedef struct {
    const rg_walk *whole;
    rg_loop *inner;
    const void *context;
    int64_t rows;
    bool past;
} iterate_spread;

/* Some of the outermost dim, so many rows at a time. */
static void iterate_part(void *spread, int64_t begin, int64_t end, int worker) {
    const iterate_spread *s = spread;
    rg_walk w = *s->whole;
    (void)worker;
    begin *= s->rows;
    end = RG_MIN(end * s->rows, w.size[0]);
    for (int k = 0; k < w.n; k++)
        w.data[k] += begin * w.step[0][k];
    w.numel = w.numel / w.size[0] * (end - begin);
    w.size[0] = end - begin;
    rgi_walk_run(&w, s->inner, s->context);
    if (s->past)
        k_past_end();
}

/* past: an output that is too large for the caches goes past them; it is no operand as well. */
static void iterate_apart(bool past, int n, rg_tensor *const t[], rg_loop *inner,
                          const void *context) {
    if (RG_LIKELY(t[0]->numel < ITERATE_LONG)) {
        rgi_each(n, t, inner, context);
        return;
    }
    rg_walk w;
    rgi_walk_make(&w, n, t, true);
    k_past loop = { n, inner, context };
    past = past && k_goes_past(t[0], 0) && w.ndim
           && w.size[w.ndim - 1] * w.element[0] >= ITERATE_PAST;
    for (int k = 1; k < n; k++)
        past &= w.data[k] != w.data[0];
    if (past)
        inner = k_past_loop(), context = &loop;
    iterate_turn turn = { &w, inner, context, { false } };
    bool turned = turn_find(&turn, &w);
    if (turned)
        inner = turn_loop, context = &turn, w.ndim--;
    int64_t rows = turned && w.ndim == 1 ? TURN_SIDE : 1, size = w.size[0];
    k_rows((size - 1) / rows + 1, w.numel / size * RG_MIN(rows, size), iterate_part,
           &(iterate_spread){ &w, inner, context, rows, past });
}

void rgi_each_apart(int n, rg_tensor *const t[], rg_loop *inner, const void *context) {
    iterate_apart(false, n, t, inner, context);
}

void k_rows(int64_t rows, int64_t n, rg_work *work, void *context) {
    const int64_t grain = RG_MAX(1, ITERATE_GRAIN / RG_MAX(n, 1));
    const int workers = rows * n < RG_LARGE ? 1 : rgi_workers(rows, ITERATE_WORTH * grain);
    if (rows)
        rgi_parallel(rows, workers > 1 ? RG_MAX(grain, rows / ITERATE_PARTS) : rows, workers, work,
                     context);
}

void rgi_each(int n, rg_tensor *const t[], rg_loop *inner, const void *context) {
    char *p[RG_MAX_OPERANDS];
    int64_t step[RG_MAX_OPERANDS];
    int k = 0;
    for (; k < n && t[k]->flags & RG_CONTIGUOUS; k++) {
        p[k] = t[k]->data;
        /* it has all of t[0]'s dims */
        if (t[k]->numel == t[0]->numel)
            step[k] = (int64_t)rgi_sizeof(t[k]->dtype);
        else if (t[k]->numel == 1)
            step[k] = 0;
        else
            break;
    }
    if (RG_LIKELY(k == n)) {
        if (t[0]->numel)
            inner(p, step, t[0]->numel, context);
        return;
    }
    rg_walk w;
    rgi_walk_make(&w, n, t, false);
    rgi_walk_run(&w, inner, context);
}

bool k_run_with(const rg_kernel *k, rg_tensor *y, rg_tensor *const in[], const double *numbers) {
    rg_loop *loop = K_LOOP_OF(k->by_dtype, in[k->n - 1]->dtype, k->name);
    if (!loop)
        return false;
    rg_tensor *t[RG_MAX_OPERANDS] = { y };
    for (int i = 0; i < k->n; i++)
        t[i + 1] = in[i];
    iterate_apart(k->light, k->n + 1, t, loop, numbers);
    return true;
}

void k_lines(int n, rg_tensor *const t[], int dim, bool reverse, int64_t step[], rg_loop *loop,
             const void *context) {
    rg_tensor first[RG_MAX_OPERANDS], *all[RG_MAX_OPERANDS];
    for (int k = 0; k < n; k++) {
        first[k] = *t[k];
        all[k] = &first[k];
        if (!t[k]->ndim)
            continue;
        step[k] = t[k]->stride[dim] * (int64_t)rgi_sizeof(t[k]->dtype);
        if (reverse)
            first[k].data += (t[k]->size[dim] - 1) * step[k], step[k] = -step[k];
        first[k].size[dim] = RG_MIN(1, t[k]->size[dim]);
        rgi_update_flags(&first[k]);
    }
    rgi_each(n, all, loop, context);
}

/* ---- copying and converting ------------------------------------------------------- */

/* What x86's conversion gives for NaN and what is out of range, as torch does. */
static inline int64_t from_f64(double v) {
    return v >= -9223372036854775808.0 && v < 9223372036854775808.0 ? (int64_t)v : INT64_MIN;
}

#define COPY_EACH(T, S, value, convert) \
    for (int64_t i = 0; i < n; i++) {   \
        S v = value;                    \
        ((T *)to)[i] = (T)(convert);    \
    }
#define COPY(name, T, S, convert)                                                          \
    static void name(char *const p[], const int64_t s[], int64_t n, const void *context) { \
        char *to = p[0], *from = p[1];                                                     \
        const S first = *(const S *)from;                                                  \
        (void)context;                                                                     \
        if (s[0] == sizeof(T) && s[1] == sizeof(S))                                        \
            COPY_EACH(T, S, ((const S *)from)[i], convert)                                 \
        else if (s[0] == sizeof(T) && s[1] == 0)                                           \
            COPY_EACH(T, S, first, convert)                                                \
        else                                                                               \
            _Pragma("GCC unroll 4") for (; n > 0; n--, to += s[0], from += s[1]) {         \
                S v = *(const S *)from;                                                    \
                *(T *)to = (T)(convert);                                                   \
            }                                                                              \
    }
#define COPIES(to, T, of_float)                 \
    COPY(to##_from_bool, T, bool, v)            \
    COPY(to##_from_int64, T, int64_t, v)        \
    COPY(to##_from_float, T, float, of_float)   \
    COPY(to##_from_double, T, double, of_float) \
    static rg_loop *const to##_from[] = K_BY_DTYPE(to##_from);
COPIES(copy_bool, bool, v)
COPIES(copy_int64, int64_t, from_f64(v))
COPIES(copy_float, float, v)
COPIES(copy_double, double, v)

rg_loop *rgi_copy_loop(rg_dtype to, rg_dtype from) {
    static rg_loop *const *const copies[] = { copy_bool_from, copy_int64_from, copy_float_from,
                                              copy_double_from };
    return copies[to][from];
}

void rgi_copy_elements(rg_tensor *to, const rg_tensor *from) {
    iterate_apart(true, 2, (rg_tensor *[]){ to, (rg_tensor *)from },
                  rgi_copy_loop(to->dtype, from->dtype), NULL);
}

void rgi_fill_zero(rg_tensor *t) {
    if (t->flags & RG_CONTIGUOUS)
        memset(t->data, 0, (size_t)t->numel * rgi_sizeof(t->dtype));
    else
        rgi_fill_number(t, 0, 0);
}

void rgi_fill_number(rg_tensor *t, double value, int64_t integer) {
    union {
        double d;
        float f;
        int64_t i;
        bool b;
    } v;
    if (rgi_is_float(t->dtype))
        rgi_store_f64(&v, t->dtype, value);
    else
        rgi_store_i64(&v, t->dtype, integer);
    rgi_copy_elements(t, &RG_NUMBER(t->dtype, &v));
}

rg_tensor *rgi_contiguous_copy(rg_tensor *t, rg_dtype dtype) {
    if (t->flags & RG_CONTIGUOUS && t->dtype == dtype)
        return rgi_retain(t), t;
    rg_tensor *c = rgi_new_like(t, dtype);
    if (c)
        rgi_copy_elements(c, t);
    return c;
}
