/*
 * index.c: moving elements between places: slices, and what indices name.
 */
#include "loops.h"

void k_copy_into(rg_tensor *y, const rg_tensor *x, int dim, int64_t start) {
    rg_tensor part = *y;
    part.size[dim] = x->size[dim];
    part.data += start * y->stride[dim] * (int64_t)rgi_sizeof(y->dtype);
    rgi_update_flags(&part);
    rgi_copy_elements(&part, x);
}

void k_clear_triangle(rg_tensor *y, int64_t diagonal, bool above) {
    if (y->numel == 0)
        return;
    int64_t rows = y->size[y->ndim - 2], columns = y->size[y->ndim - 1],
            bytes = (int64_t)rgi_sizeof(y->dtype);
    diagonal = RG_MAX(RG_MIN(diagonal, columns), -rows);
    for (int64_t i = 0, n = y->numel / columns; i < n; i++) {
        /* where what is above begins */
        int64_t keep = RG_MAX(RG_MIN(i % rows + diagonal + above, columns), 0);
        char *row = y->data + i * columns * bytes;
        if (above)
            memset(row + keep * bytes, 0, (size_t)((columns - keep) * bytes));
        else
            memset(row, 0, (size_t)(keep * bytes));
    }
}

/* ---- elements at indices -------------------------------------------------------------
 * p[0] steps through the elements that stand in a row, p[1] to where each index starts
 * to count, p[2] through the indices; an index is worth `step` bytes. */

#define K_AT_INDEX(name, T, whole, action)                                                  \
    static void name(char *const p[], const int64_t s[], int64_t n, const void *context) {  \
        int64_t step = *(const int64_t *)context;                                           \
        char *row = p[0], *base = p[1], *index = p[2];                                      \
        if (s[2] == 0) { /* one index for the whole row */                                  \
            base += *(const int64_t *)index * step;                                         \
            if (s[0] == sizeof(T) && s[1] == sizeof(T)) {                                   \
                T *restrict a = (T *)row, *restrict b = (T *)base;                          \
                whole;                                                                      \
                return;                                                                     \
            }                                                                               \
            step = 0;                                                                       \
        } else if (s[0] == sizeof(T) && s[1] == 0 && s[2] == sizeof(int64_t)) {             \
            for (int64_t i = 0; i < n; i++) {                                               \
                T *a = (T *)row + i, *b = (T *)(base + ((const int64_t *)index)[i] * step); \
                action;                                                                     \
            }                                                                               \
            return;                                                                         \
        }                                                                                   \
        for (int64_t i = 0; i < n; i++, row += s[0], base += s[1], index += s[2]) {         \
            T *a = (T *)row, *b = (T *)(base + *(const int64_t *)index * step);             \
            action;                                                                         \
        }                                                                                   \
    }

#define INDEX_ADD_ROW(sum)          \
    for (int64_t i = 0; i < n; i++) \
    sum

K_AT_INDEX(index_get_1, uint8_t, memcpy(a, b, (size_t)n * sizeof *a), *a = *b)
K_AT_INDEX(index_get_4, uint32_t, memcpy(a, b, (size_t)n * sizeof *a), *a = *b)
K_AT_INDEX(index_get_8, uint64_t, memcpy(a, b, (size_t)n * sizeof *a), *a = *b)
K_AT_INDEX(index_put_1, uint8_t, memcpy(b, a, (size_t)n * sizeof *a), *b = *a)
K_AT_INDEX(index_put_4, uint32_t, memcpy(b, a, (size_t)n * sizeof *a), *b = *a)
K_AT_INDEX(index_put_8, uint64_t, memcpy(b, a, (size_t)n * sizeof *a), *b = *a)
K_AT_INDEX(index_add_b, bool, INDEX_ADD_ROW(b[i] |= a[i]), *b |= *a)
K_AT_INDEX(index_add_i, int64_t, INDEX_ADD_ROW(b[i] = k_wrap_add(b[i], a[i])),
           *b = k_wrap_add(*b, *a))
K_AT_INDEX(index_add_f, float, INDEX_ADD_ROW(b[i] += a[i]), *b += *a)
K_AT_INDEX(index_add_d, double, INDEX_ADD_ROW(b[i] += a[i]), *b += *a)

static rg_loop *const index_loops[][4] = {
    /* by k_index_how and dtype */
    { index_get_1, index_get_8, index_get_4, index_get_8 },
    { index_put_1, index_put_8, index_put_4, index_put_8 },
    { index_add_b, index_add_i, index_add_f, index_add_d },
};

void k_index(k_index_how how, rg_tensor *row, rg_tensor *base, const rg_tensor *index,
             int64_t step) {
    step *= (int64_t)rgi_sizeof(row->dtype);
    rgi_each(3, (rg_tensor *[]){ row, base, (rg_tensor *)index }, index_loops[how][row->dtype],
             &step);
}

void k_index_along(k_index_how how, rg_tensor *row, const rg_tensor *t, int dim,
                   const rg_tensor *index) {
    rg_tensor part = *row, base = *t;
    int64_t step = t->ndim ? t->stride[dim] : 0;
    rgi_copy_shape(&part, index); /* the row may be larger */
    rgi_copy_shape(&base, index);
    if (row->ndim == 0 && index->ndim)
        part.stride[0] = 0;
    if (index->ndim)
        base.stride[dim] = 0;
    rgi_update_flags(&part);
    rgi_update_flags(&base);
    k_index(how, &part, &base, index, step);
}

void k_index_slices(k_index_how how, rg_tensor *row, const rg_tensor *t, int dim,
                    const rg_tensor *index) {
    /* whole slices */
    if (dim == 0 && t->ndim && index->numel
        && row->flags & t->flags & index->flags & RG_CONTIGUOUS) {
        int64_t n = row->numel / index->numel, bytes = (int64_t)rgi_sizeof(t->dtype),
                step = t->stride[0] * bytes;
        char *p[] = { row->data, t->data, index->data };
        const int64_t steps[] = { bytes, bytes, 0 };
        rg_loop *loop = index_loops[how][row->dtype];
        for (int64_t i = 0; i < index->numel; i++, p[0] += n * bytes, p[2] += sizeof(int64_t))
            loop(p, steps, n, &step);
        return;
    }
    rg_tensor base = *t, along = *index;
    /* so many dims of the row are the index's */
    int n = row->ndim - t->ndim + 1;
    rgi_copy_shape(&base, row);
    rgi_copy_shape(&along, row);
    for (int d = 0; d < row->ndim; d++) {
        bool indexed = d >= dim && d < dim + n;
        along.stride[d] = indexed && index->ndim ? index->stride[d - dim] : 0;
        base.stride[d] = indexed ? 0 : t->stride[d < dim ? d : d - n + 1];
    }
    rgi_update_flags(&base);
    rgi_update_flags(&along);
    k_index(how, row, &base, &along, t->ndim ? t->stride[dim] : 0);
}

typedef struct {
    int64_t low, high;
    int64_t *bad;
    bool *ok;
} index_bounds;

static void index_bounds_loop(char *const p[], const int64_t s[], int64_t n, const void *context) {
    const index_bounds *c = context;
    const char *at = p[0];
    /* a difference below 0 shows at its sign */
    uint64_t low = (uint64_t)c->low, high = (uint64_t)c->high - 1, outside = 0;
    for (int64_t i = 0; i < n; i++) {
        uint64_t v = *(const uint64_t *)(at + i * s[0]);
        outside |= (v - low) | (high - v);
    }
    for (int64_t i = 0; i < n && outside >> 63 && *c->ok; i++) {
        *c->bad = *(const int64_t *)(at + i * s[0]);
        *c->ok = *c->bad >= c->low && *c->bad < c->high;
    }
}

bool k_index_within(const rg_tensor *index, int64_t low, int64_t high, int64_t *bad) {
    bool ok = true;
    rgi_each(1, (rg_tensor *[]){ (rg_tensor *)index }, index_bounds_loop,
             &(index_bounds){ low, high, bad, &ok });
    return ok;
}
