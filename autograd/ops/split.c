/*
 * split.c: functions that return a list of parts of a tensor: split, chunk and unbind. The parts
 * follow one another along a dim.
 */
#include "view.h"

/* ---- making lists of views ----------------------------------------------------- */

/* The maximum number of parts in a list. The tensor headers of a list of this length take most of a
 * gigabyte. */
enum { LIST_MOST = 1 << 22 };

/* If the condition holds, calls rgi_fail and makes the function around it return a failed list. */
#define LIST_FAIL_IF(code, condition, ...) \
    do {                                   \
        if (condition) {                   \
            rgi_fail(code, __VA_ARGS__);   \
            return rgi_list_failed;        \
        }                                  \
    } while (0)

/* Returns n adjacent parts of x, beginning with p. If `sizes` isn't NULL, part i has the size
 * sizes[i]. Otherwise each part has p's length, except that the last may be shorter. Returns
 * rgi_list_failed on failure. */
static rg_list list_of_parts(const char *op, rg_tensor *x, int64_t n, rg_part p,
                             const int64_t *sizes) {
    RG_AS(op);
    LIST_FAIL_IF(RG_RUNTIME_ERROR, n > LIST_MOST, op, "%lld parts, but a list has at most %d",
                 (long long)n, LIST_MOST);
    rg_tensor **part = rgi_scope_alloc((size_t)n * sizeof *part);
    if (!part)
        return rgi_list_failed;
    for (int64_t i = 0; i < n; i++) {
        p.length = sizes ? sizes[i] : RG_MIN(p.length, x->size[p.dim] - p.start);
        p.number = (int)i;
        part[i] = rgi_part_of(x, &p);
        if (!part[i])
            return rgi_list_failed;
        if (!rgi_grad_off)
            part[i]->flags = (uint8_t)((part[i]->flags & ~RG_UNTRACKED) | RG_OF_LIST);
        p.start += p.length;
    }
    return (rg_list){ (int)n, part };
}

static rg_list split_even(const char *op, rg_tensor *x, int64_t size, int dim) {
    int64_t n = size ? RG_MAX((x->size[dim] - 1) / size + 1, 1) : 1;
    rg_part first = { RG_PART_RANGE(dim, 0, size, 1), .node = "SplitBackward0" };
    return list_of_parts(op, x, n, first, NULL);
}

static const char split_no_dims[] = "%s expects at least a 1-dimensional tensor";

/* ---- split: parts of the same size, of which the last may be smaller; or parts of given
 *      sizes -------------------------------------------------------------------- */

rg_list(rg_split)(rg_tensor *x, int64_t size, int dim) {
    int d;
    if (!rgi_part_check("split", RG_RUNTIME_ERROR, split_no_dims, x, dim, &d))
        return rgi_list_failed;
    LIST_FAIL_IF(RG_RUNTIME_ERROR, size < 0, "split",
                 "split expects split_size be non-negative, but got split_size=%lld",
                 (long long)size);
    LIST_FAIL_IF(RG_RUNTIME_ERROR, size == 0 && x->size[d], "split",
                 "split_size can only be 0 if dimension size is 0, but got dimension size of %lld",
                 (long long)x->size[d]);
    return split_even("split", x, size, d);
}

rg_list(rg_split_sizes)(rg_tensor *x, int n, const int64_t *sizes, int dim) {
    int d;
    if (!rgi_part_check("split", RG_RUNTIME_ERROR, split_no_dims, x, dim, &d))
        return rgi_list_failed;
    int64_t sum = 0;
    bool negative = false;
    bool overflow = n < 0 || (n && !sizes);
    for (int i = 0; i < n && !overflow; i++) {
        negative = negative || sizes[i] < 0;
        overflow = __builtin_add_overflow(sum, sizes[i], &sum);
    }
    LIST_FAIL_IF(RG_RUNTIME_ERROR, negative, "split",
                 "split_with_sizes expects split_sizes have only non-negative entries, but got "
                 "split_sizes=%s",
                 rgi_shape_text(n, sizes, (char[192]){ 0 }));
    LIST_FAIL_IF(RG_RUNTIME_ERROR, overflow || sum != x->size[d], "split",
                 "split_with_sizes expects split_sizes to sum exactly to %lld (input tensor's "
                 "size at dimension %d), but got split_sizes=%s",
                 (long long)x->size[d], dim,
                 rgi_shape_text(sizes ? n : 0, sizes, (char[192]){ 0 }));
    rg_part first = { RG_PART_RANGE(d, 0, 0, 1), .node = "SplitWithSizesBackward0" };
    return list_of_parts("split", x, n, first, sizes);
}

/* ---- chunk: at most `chunks` parts of the same size, of which the last may be smaller; if dim has
 *      size 0, `chunks` empty parts -------------------------------------------- */

rg_list(rg_chunk)(rg_tensor *x, int64_t chunks, int dim) {
    int d;
    if (!rgi_part_check("chunk", RG_RUNTIME_ERROR, split_no_dims, x, dim, &d))
        return rgi_list_failed;
    LIST_FAIL_IF(RG_RUNTIME_ERROR, chunks <= 0, "chunk",
                 "chunk expects `chunks` to be greater than 0, got: %lld", (long long)chunks);
    if (x->size[d])
        return split_even("chunk", x, (x->size[d] - 1) / chunks + 1, d);
    rg_part empty = { RG_PART_RANGE(d, 0, 0, 1), .node = "SplitWithSizesBackward0" };
    return list_of_parts("chunk", x, chunks, empty, NULL);
}

/* ---- unbind: x[0], x[1], .. along dim ------------------------------------------ */

rg_list(rg_unbind)(rg_tensor *x, int dim) {
    int d;
    if (!rgi_check(x, "unbind") || !rgi_wrap_dim("unbind", dim, x->ndim, &d))
        return rgi_list_failed;
    LIST_FAIL_IF(RG_INDEX_ERROR, x->ndim == 0, "unbind",
                 "Dimension specified as %d but tensor has no dimensions", d);
    rg_part first = { RG_PART_INDEX(d, 0), .length = 1, .node = "UnbindBackward0" };
    return list_of_parts("unbind", x, x->size[d], first, NULL);
}
