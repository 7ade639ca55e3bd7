/*
 * sort.c: order along one dim, equal elements, places.
 */
#include "kernels.h"

/* A stable merge sort of n items; `aside` has room for as many. Short runs are sorted by
 * insertion; before(a, b): must a precede b? */
#define K_MERGE_SORT(name, before)                                                             \
    static k_ranked *name(k_ranked *q, k_ranked *aside, int64_t n, const void *context) {      \
        enum { RUN = 16 };                                                                     \
        (void)context;                                                                         \
        for (int64_t start = 0; start < n; start += RUN)                                       \
            for (int64_t i = start + 1; i < RG_MIN(start + RUN, n); i++) {                     \
                k_ranked v = q[i];                                                             \
                int64_t j = i;                                                                 \
                if (before(v, q[start]))                                                       \
                    for (; j > start; j--)                                                     \
                        q[j] = q[j - 1];                                                       \
                else                                                                           \
                    for (; before(v, q[j - 1]); j--)                                           \
                        q[j] = q[j - 1];                                                       \
                q[j] = v;                                                                      \
            }                                                                                  \
        for (int64_t width = RUN; width < n; width *= 2) {                                     \
            for (int64_t start = 0; start < n; start += 2 * width) {                           \
                int64_t middle = RG_MIN(start + width, n), end = RG_MIN(start + 2 * width, n); \
                int64_t a = start, b = middle;                                                 \
                for (int64_t k = start; k < end; k++)                                          \
                    aside[k] = a < middle && (b == end || !(before(q[b], q[a]))) ? q[a++]      \
                                                                                 : q[b++];     \
            }                                                                                  \
            RG_SWAP(q, aside);                                                                 \
        }                                                                                      \
        return q; /* where the sorted ones are */                                              \
    }
#define SORT_BY_KEY(a, b) ((a).key < (b).key)
K_MERGE_SORT(sort_merge, SORT_BY_KEY)

/* The same for many items: byte after byte of the key, from the least; bytes that all keys share
 * are skipped. */
static k_ranked *sort_ranked(k_ranked *q, k_ranked *aside, int64_t n) {
    if (n < 512)
        return sort_merge(q, aside, n, NULL);
    int64_t count[8][256] = { { 0 } };
    for (int64_t i = 0; i < n; i++)
        for (int b = 0; b < 8; b++)
            count[b][(uint64_t)(q[i].key ^ INT64_MIN) >> 8 * b & 255]++;
    for (int b = 0; b < 8; b++) {
        int64_t start[256], so_far = 0;
        if (count[b][(uint64_t)(q[0].key ^ INT64_MIN) >> 8 * b & 255] == n)
            continue;
        for (int v = 0; v < 256; v++)
            start[v] = so_far, so_far += count[b][v];
        for (int64_t i = 0; i < n; i++)
            aside[start[(uint64_t)(q[i].key ^ INT64_MIN) >> 8 * b & 255]++] = q[i];
        RG_SWAP(q, aside);
    }
    return q;
}

static void sort_load(k_ranked *q, const char *x, int64_t step, int64_t n, rg_dtype dtype,
                      bool descending) {
    for (int64_t i = 0; i < n; i++, x += step) {
        q[i].key = dtype == RG_FLOAT32 ? k_rank(*(const float *)x, descending)
                   : dtype == RG_FLOAT64
                       ? k_rank(*(const double *)x, descending)
                       : (dtype == RG_INT64 ? *(const int64_t *)x : *(const bool *)x)
                             ^ -(int64_t)descending;
        q[i].index = i;
    }
}

/* ---- sort, topk ------------------------------------------------------------------ */

typedef struct {
    k_ranked *q;
    int64_t n, k, step[3];
    rg_dtype dtype;
    bool descending, sorted, top;
} sort_context;

/* p: values, indices, x */
static void sort_lines(char *const p[], const int64_t s[], int64_t lines, const void *context) {
    const sort_context *c = context;
    size_t bytes = rgi_sizeof(c->dtype);
    for (int64_t j = 0; j < lines; j++) {
        char *values = p[0] + j * s[0], *indices = p[1] + j * s[1], *x = p[2] + j * s[2];
        k_ranked *q = c->q;
        sort_load(q, x, c->step[2], c->n, c->dtype, c->descending);
        if (c->top)
            k_top(q, c->n, c->k, c->sorted);
        else
            q = sort_ranked(q, q + c->n, c->n);
        for (int64_t i = 0; i < c->k; i++) {
            memcpy(values + i * c->step[0], x + q[i].index * c->step[2], bytes);
            *(int64_t *)(indices + i * c->step[1]) = q[i].index;
        }
    }
}

static bool sort_run(rg_tensor *values, rg_tensor *indices, const rg_tensor *x, int dim,
                     sort_context c) {
    c.n = x->ndim ? x->size[dim] : 1;
    c.k = x->ndim ? values->size[dim] : 1;
    c.dtype = x->dtype;
    if (values->numel == 0)
        return true;
    /* n: x may be expanded */
    rg_tensor *room = rgi_new(RG_INT64, 1,
                              (int64_t[]){ RG_MIN(c.n, INT64_MAX / 64) * (c.top ? 2 : 4) });
    if (!room)
        return false;
    c.q = (k_ranked *)(void *)room->data;
    k_lines(3, (rg_tensor *[]){ values, indices, (rg_tensor *)x }, dim, false, c.step, sort_lines,
            &c);
    rgi_release(room);
    return true;
}

bool k_sort(rg_tensor *values, rg_tensor *indices, const rg_tensor *x, int dim, bool descending) {
    return sort_run(values, indices, x, dim, (sort_context){ .descending = descending });
}

bool k_topk(rg_tensor *values, rg_tensor *indices, const rg_tensor *x, int dim, bool largest,
            bool sorted) {
    return sort_run(values, indices, x, dim,
                    (sort_context){ .descending = largest, .sorted = sorted, .top = 1 });
}

/* ---- unique -------------------------------------------------------------------------
 * Of elements (dim -1) or of slices along dim, which are the rows of a copy. order: their places,
 * sorted; group: for each of them, in that order, the number of its value. */

typedef struct {
    const char *data;
    int64_t numbers;
    rg_dtype dtype;
} sort_rows;

/* The first difference decides. A NaN is one if we ask for equals, but none for the order, as torch
 * has it. */
static int sort_compare_rows(const sort_rows *s, int64_t a, int64_t b, bool equals) {
    int64_t bytes = (int64_t)rgi_sizeof(s->dtype);
    const char *p = s->data + a * s->numbers * bytes, *r = s->data + b * s->numbers * bytes;
    for (int64_t i = 0; i < s->numbers; i++, p += bytes, r += bytes) {
        if (rgi_is_float(s->dtype)) {
            double v = rgi_load_f64(p, s->dtype), w = rgi_load_f64(r, s->dtype);
            if (v < w || v > w || (v != w && equals))
                return v < w ? -1 : 1;
        } else {
            int64_t v = rgi_load_i64(p, s->dtype), w = rgi_load_i64(r, s->dtype);
            if (v != w)
                return v < w ? -1 : 1;
        }
    }
    return 0;
}
#define SORT_BY_ROW(a, b) (sort_compare_rows(context, (a).index, (b).index, false) < 0)
K_MERGE_SORT(sort_by_row, SORT_BY_ROW)

int64_t k_unique(const rg_tensor *x, int dim, int64_t *order, int64_t *group) {
    int64_t n = dim < 0 ? x->numel : x->size[dim], groups = 0;
    size_t room = 2 * (size_t)n * sizeof(k_ranked);
    rg_tensor moved = *x;
    for (int d = dim; d > 0; d--)
        moved.size[d] = x->size[d - 1], moved.stride[d] = x->stride[d - 1];
    if (dim >= 0)
        moved.size[0] = n, moved.stride[0] = x->stride[dim];
    rgi_update_flags(&moved);
    rg_tensor *rows = rgi_new_like(&moved, x->dtype);
    k_ranked *q = rows ? rgi_alloc(room, RG_MEM_OTHER) : NULL, *sorted = q;
    if (q) {
        sort_rows s = { rows->data, dim < 0 ? 1 : x->numel / RG_MAX(n, 1), x->dtype };
        rgi_copy_elements(rows, &moved);
        sort_load(q, rows->data, s.numbers * (int64_t)rgi_sizeof(x->dtype), n, x->dtype, false);
        sorted = dim < 0 ? sort_ranked(q, q + n, n) : sort_by_row(q, q + n, n, &s);
        for (int64_t i = 0; i < n; i++) {
            groups += i == 0
                      || sort_compare_rows(&s, sorted[i - 1].index, sorted[i].index, true) != 0;
            order[i] = sorted[i].index;
            group[i] = groups - 1;
        }
        rgi_free(q, room, RG_MEM_OTHER);
    }
    rgi_release(rows);
    return q ? groups : -1;
}

/* ---- searchsorted: how many of a sorted row are below v; up to v if right -------- */

#define K_SEARCH(T)                                                                        \
    static void search_##T(int64_t *to, const void *sorted, const void *values, int64_t n, \
                           int64_t count, int64_t per_row, bool right) {                   \
        const T *row = sorted, *v = values;                                                \
        for (int64_t i = 0; i < count; i++) {                                              \
            int64_t low = 0, high = n;                                                     \
            if (i && i % per_row == 0)                                                     \
                row += n;                                                                  \
            while (low < high) {                                                           \
                int64_t middle = low + (high - low) / 2;                                   \
                if (right ? row[middle] > v[i] : row[middle] >= v[i])                      \
                    high = middle;                                                         \
                else                                                                       \
                    low = middle + 1;                                                      \
            }                                                                              \
            to[i] = low;                                                                   \
        }                                                                                  \
    }
K_SEARCH(int64_t)
K_SEARCH(float)
K_SEARCH(double)

/* Contiguous tensors of one dtype, not bool; rows of `sorted` go with rows of `values`, or
 * there is one row for all. */
void k_searchsorted(rg_tensor *y, const rg_tensor *sorted, const rg_tensor *values, bool right) {
    int64_t per_row = sorted->ndim == 1 ? INT64_MAX : values->size[values->ndim - 1];
    int64_t n = sorted->size[sorted->ndim - 1];
    (values->dtype == RG_FLOAT32   ? search_float
     : values->dtype == RG_FLOAT64 ? search_double
                                   : search_int64_t)((int64_t *)y->data, sorted->data, values->data,
                                                     n, values->numel, per_row, right);
}

/* ---- nonzero: the places of what is not 0, row by row ---------------------------- */

void k_nonzero(rg_tensor *y, const rg_tensor *x) {
    int last = x->ndim - 1;
    int64_t at[RG_MAX_DIMS] = { 0 }, *to = (int64_t *)y->data,
            bytes = (int64_t)rgi_sizeof(x->dtype);
    int64_t n = last < 0 ? 1 : x->size[last], step = last < 0 ? 0 : x->stride[last] * bytes;
    rg_loop *to_bool = rgi_copy_loop(RG_BOOL, x->dtype);
    char *p = x->data;
    for (int64_t rows = n ? x->numel / n : 0; rows > 0; rows--) {
        bool is[512];
        for (int64_t i = 0; i < n; i++) {
            int64_t k = i % RG_COUNT(is), m = RG_MIN(n - i, RG_COUNT(is));
            if (k == 0)
                to_bool((char *[]){ (char *)is, p + i * step }, (int64_t[]){ 1, step }, m, NULL);
            for (int d = 0; d < last && is[k]; d++)
                *to++ = at[d];
            if (last >= 0 && is[k])
                *to++ = i;
        }
        for (int d = last - 1; d >= 0; d--) {
            p += x->stride[d] * bytes;
            if (++at[d] < x->size[d])
                break;
            p -= x->stride[d] * bytes * x->size[d];
            at[d] = 0;
        }
    }
}
