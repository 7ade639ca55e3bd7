/*
 * unique.c: finds equal elements of a tensor, or equal slices along a dim.
 */
#include "merge_sort.h"
#include "tensor/memory.h"
#include "tensor/shape.h"
#include "tensor/storage.h"

/* The rows that are compared, in contiguous memory. A row is a single element, or a slice of
 * `numbers` elements. */
typedef struct {
    const char *data;
    int64_t numbers;
    rg_dtype dtype;
} unique_rows;

/* Compares one element of a row with an element of another row. Returns -1, 1 or 0, as
 * unique_compare below does for whole rows. */
static int unique_compare_number(const char *p, const char *r, rg_dtype dtype, bool equals) {
    if (rgi_is_float(dtype)) {
        double v = rgi_load_f64(p, dtype);
        double w = rgi_load_f64(r, dtype);
        if (v < w)
            return -1;
        return v > w || (v != w && equals);
    }
    int64_t v = rgi_load_i64(p, dtype);
    int64_t w = rgi_load_i64(r, dtype);
    return (v > w) - (v < w);
}

/* Compares rows a and b by the first element that differs. Returns -1 if row a is less, 1 if it is
 * greater, and 0 if neither. If `equals`, the caller asks whether the rows are equal, and a NaN
 * counts as different from everything. Otherwise the caller sorts, and a NaN counts as equal to
 * everything, as in torch. */
static int unique_compare(const unique_rows *s, int64_t a, int64_t b, bool equals) {
    const int64_t bytes = (int64_t)rgi_sizeof(s->dtype);
    const char *p = s->data + a * s->numbers * bytes;
    const char *r = s->data + b * s->numbers * bytes;
    for (int64_t i = 0; i < s->numbers; i++) {
        int order = unique_compare_number(p + i * bytes, r + i * bytes, s->dtype, equals);
        if (order)
            return order;
    }
    return 0;
}

static bool unique_before(const k_ranked *a, const k_ranked *b, const void *context) {
    return unique_compare(context, a->index, b->index, false) < 0;
}

/* Returns a view of x with `dim` moved to the front, so that each slice along dim is a row. */
static rg_tensor unique_with_dim_first(const rg_tensor *x, int dim) {
    rg_tensor moved = rgi_header_of(x);
    for (int d = dim; d > 0; d--) {
        moved.size[d] = x->size[d - 1];
        moved.stride[d] = x->stride[d - 1];
    }
    moved.size[0] = x->size[dim];
    moved.stride[0] = x->stride[dim];
    rgi_update_flags(&moved);
    return moved;
}

/* Sorts n rows, and numbers the groups of equal rows from 0 on. order[i] becomes the index of the
 * row that is i-th in sorted order, and group[i] the number of that row's group. Returns the number
 * of groups. If by_element, a row is a single element, and rows are sorted by the keys that `rank`
 * computes; otherwise rows are compared element by element. q has room for 2 * n items. */
static int64_t unique_number(const unique_rows *s, int64_t n, bool by_element, k_ranks *rank,
                             k_ranked *q, int64_t *order, int64_t *group) {
    const int64_t row_bytes = s->numbers * (int64_t)rgi_sizeof(s->dtype);
    int64_t groups = 0;
    rank(q, s->data, row_bytes, n, false);
    const k_ranked *sorted = by_element ? k_sort_ranked(q, q + n, n)
                                        : k_merge_sort(q, q + n, n, unique_before, s);
    for (int64_t i = 0; i < n; i++) {
        bool is_new = i == 0 || unique_compare(s, sorted[i - 1].index, sorted[i].index, true) != 0;
        groups += is_new;
        order[i] = sorted[i].index;
        group[i] = groups - 1;
    }
    return groups;
}

int64_t k_unique(const rg_tensor *x, int dim, int64_t *order, int64_t *group) {
    const bool by_element = dim < 0;
    const rg_tensor moved = by_element ? rgi_header_of(x) : unique_with_dim_first(x, dim);
    const int64_t n = by_element ? x->numel : x->size[dim];
    const size_t room = 2 * (size_t)n * sizeof(k_ranked);
    k_ranks *rank = k_ranks_of(x->dtype);
    if (!rank)
        return -1;
    rg_tensor *rows = rgi_new_like(&moved, x->dtype);
    k_ranked *q = rows ? rgi_alloc(room, RG_MEM_OTHER) : NULL;
    int64_t groups = -1;
    if (q) {
        unique_rows s = { rows->data, by_element ? 1 : x->numel / RG_MAX(n, 1), x->dtype };
        rgi_copy_elements(rows, &moved);
        groups = unique_number(&s, n, by_element, rank, q, order, group);
        rgi_free(q, room, RG_MEM_OTHER);
    }
    rgi_release(rows);
    return groups;
}
