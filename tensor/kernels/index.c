/*
 * index.c: copies into slices, clearing of triangles, indices of padded dims, and elements that are
 * selected by indices.
 */
#include "plans.h"
#include "tensor/shape.h"

void k_copy_into(rg_tensor *y, const rg_tensor *x, int dim, int64_t start) {
    rg_tensor part = rgi_header_of(y);
    part.size[dim] = x->size[dim];
    part.data += start * y->stride[dim] * (int64_t)rgi_sizeof(y->dtype);
    rgi_update_flags(&part);
    rgi_copy_elements(&part, x);
}

#define K_LOOPS "loops/index_lines.h"
#define K_TYPES_NONE
#define K_BASE_ONLY
#include "sets.h"

void k_clear_triangle(rg_tensor *y, int64_t diagonal, bool above) {
    if (y->numel == 0)
        return;
    triangle_rows z = { .y = y->data,
                        .rows = y->size[y->ndim - 2],
                        .columns = y->size[y->ndim - 1],
                        .bytes = (int64_t)rgi_sizeof(y->dtype),
                        .above = above };
    z.diagonal = RG_MAX(RG_MIN(diagonal, z.columns), -z.rows);
    K_BASE_LOOP(clear_triangle)(&z, 0, y->numel / z.columns, 0);
}

void k_pad_indices(rg_tensor *index, k_pad_kind kind, int64_t n, int64_t left, int64_t right) {
    pad_positions z = {
        .to = (int64_t *)(void *)index->data, .n = n, .left = left, .right = right, .kind = kind
    };
    K_BASE_LOOP(pad_indices)(&z, 0, index->numel, 0);
}

/* ---- elements at indices --------------------------------------------------------- */

#define K_LOOPS "loops/index_move.h"
#define K_TYPES_SIZES
#define K_BASE_ONLY
#include "sets.h"

#define K_LOOPS "loops/index_join.h"
#define K_TYPES_ALL
#define K_BASE_ONLY
#include "sets.h"

static rg_loop *index_loop(k_index_how how, rg_dtype dtype) {
    static rg_loop *const loops[][K_DTYPES] = {
        [K_GET] = K_BASE_SIZES(index_get),   [K_PUT] = K_BASE_SIZES(index_put),
        [K_ADD] = K_BASE_ALL(index_add),     [K_MULTIPLY] = K_BASE_ALL(index_multiply),
        [K_GREATER] = K_BASE_ALL(index_max), [K_LESSER] = K_BASE_ALL(index_min),
    };
    static const char *const names[] = {
        [K_GET] = "index_get_loops",     [K_PUT] = "index_put_loops",
        [K_ADD] = "index_add_loops",     [K_MULTIPLY] = "index_multiply_loops",
        [K_GREATER] = "index_max_loops", [K_LESSER] = "index_min_loops",
    };
    return K_BASE_LOOP_NAMED(loops[how], names[how], dtype, "index");
}

/* `row`, `base` and `index` have the same shape. For each position in this shape, applies the
 * action `how`, such as K_GET, to row's element and to the element that lies index * step elements
 * behind base's element. Returns false if there is no loop for the dtype. */
static bool index_all(k_index_how how, rg_tensor *row, rg_tensor *base, const rg_tensor *index,
                      int64_t step) {
    rg_loop *loop = index_loop(how, row->dtype);
    if (!loop)
        return false;
    step *= (int64_t)rgi_sizeof(row->dtype);
    rgi_each(3, (rg_tensor *[]){ row, base, (rg_tensor *)index }, loop, &step);
    return true;
}

bool k_index_along(k_index_how how, rg_tensor *row, const rg_tensor *t, int dim,
                   const rg_tensor *index) {
    if (index->numel == 0) /* Such an index may have more dims than `row`. */
        return true;
    rg_tensor part = rgi_header_of(row);
    rg_tensor base = rgi_header_of(t);
    int64_t step = t->ndim ? t->stride[dim] : 0;
    rgi_copy_shape(&part, index); /* `row` may be larger than `index`; then only the part of index's
                                   * shape is used. */
    rgi_copy_shape(&base, index);
    if (row->ndim == 0 && index->ndim)
        part.stride[0] = 0;
    if (index->ndim)
        base.stride[dim] = 0;
    rgi_update_flags(&part);
    rgi_update_flags(&base);
    return index_all(how, &part, &base, index, step);
}

/* For each i, applies the action `how` to slice i of `row` and slice index[i] of t, where slices
 * are taken along the first dim. Requires that all tensors are contiguous. */
static bool index_whole(k_index_how how, rg_tensor *row, const rg_tensor *t,
                        const rg_tensor *index) {
    const int64_t n = row->numel / index->numel;
    const int64_t bytes = (int64_t)rgi_sizeof(t->dtype);
    const int64_t step = t->stride[0] * bytes;
    const int64_t steps[] = { bytes, bytes, 0 };
    char *p[] = { row->data, t->data, index->data };
    rg_loop *loop = index_loop(how, row->dtype);
    for (int64_t i = 0; i < index->numel && loop; i++) {
        loop(p, steps, n, &step);
        p[0] += n * bytes;
        p[2] += sizeof(int64_t);
    }
    return loop != NULL;
}

bool k_index_slices(k_index_how how, rg_tensor *row, const rg_tensor *t, int dim,
                    const rg_tensor *index) {
    if (dim == 0 && t->ndim && index->numel && row->flags & t->flags & index->flags & RG_CONTIGUOUS)
        return index_whole(how, row, t, index);
    rg_tensor base = rgi_header_of(t);
    rg_tensor along = rgi_header_of(index);
    /* The number of dims of `row` that come from the dims of `index`. */
    int n = row->ndim - t->ndim + 1;
    rgi_copy_shape(&base, row);
    rgi_copy_shape(&along, row);
    for (int d = 0; d < row->ndim; d++) {
        bool indexed = d >= dim && d < dim + n;
        along.stride[d] = indexed && index->ndim ? index->stride[d - dim] : 0;
        const int dim_of_t = d < dim ? d : d - n + 1;
        base.stride[d] = indexed ? 0 : t->stride[dim_of_t];
    }
    rgi_update_flags(&base);
    rgi_update_flags(&along);
    return index_all(how, row, &base, &along, t->ndim ? t->stride[dim] : 0);
}

void k_index_offsets(rg_tensor *offsets, const rg_tensor *index, const k_index_dim *dim) {
    rgi_each(2, (rg_tensor *[]){ offsets, (rg_tensor *)index }, K_BASE_LOOP(index_offsets), dim);
}

/* ---- checking indices ------------------------------------------------------------------------ */

typedef struct {
    int64_t low, high;
    int64_t *bad;
    bool *ok;
} index_bounds;

/* Returns a number whose highest bit is set if one of n indices is out of range. v - low and
 * high - v are computed as unsigned numbers. If v is out of range, one of the two differences wraps
 * around, and its highest bit is set. */
K_INLINE uint64_t index_outside(const char *at, int64_t stride, int64_t n, const index_bounds *c) {
    const uint64_t low = (uint64_t)c->low;
    const uint64_t high = (uint64_t)c->high - 1;
    uint64_t outside = 0;
    /* An unrolled loop needs half as many instructions. */
    _Pragma("GCC unroll 16") for (int64_t i = 0; i < n; i++) {
        uint64_t v = *(const uint64_t *)(at + i * stride);
        outside |= (v - low) | (high - v);
    }
    return outside;
}

static void index_bounds_loop(char *const p[], const int64_t s[], int64_t n, const void *context) {
    const index_bounds *c = context;
    const char *at = p[0];
    /* Contiguous indices have a loop of their own, which the compiler vectorizes. */
    const uint64_t outside = s[0] == sizeof(int64_t) ? index_outside(at, sizeof(int64_t), n, c)
                                                     : index_outside(at, s[0], n, c);
    for (int64_t i = 0; i < n && outside >> 63 && *c->ok; i++) {
        *c->bad = *(const int64_t *)(at + i * s[0]);
        *c->ok = *c->bad >= c->low && *c->bad < c->high;
    }
}

bool k_index_within(const rg_tensor *index, int64_t low, int64_t high, int64_t *bad) {
    bool ok = true;
    rgi_each(1, (rg_tensor *[]){ (rg_tensor *)index }, index_bounds_loop,
             &(index_bounds){ .low = low, .high = high, .bad = bad, .ok = &ok });
    return ok;
}
