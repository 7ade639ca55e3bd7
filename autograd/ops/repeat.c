/*
 * repeat.c: x repeated along its dims as a whole (repeat, tile) or slice by slice
 * (repeat_interleave), and the coordinates of a grid (meshgrid). In the formulas, g is the gradient
 * of the result, and gx the gradient of x.
 */
#include "view.h"

#include "autograd/checks.h"

#include <string.h>

/* ---- repeat: x, repeated along each dim; gx is the sum of g over the copies ------------------ */

struct repeat_attr {
    rg_dims times;
};

static bool repeat_shape(rg_call *c) {
    const rg_tensor *x = c->in[0];
    rg_dims shape = RG_ATTR(c, repeat)->times;
    int first = shape.n - x->ndim;
    for (int d = first; d < shape.n; d++)
        if (__builtin_mul_overflow(shape.v[d], x->size[d - first], &shape.v[d]))
            shape.v[d] = INT64_MAX;
    rgi_set_size(c->out[0], &shape);
    return rgi_check_sizes(NULL, &shape);
}

/* Copies x once into a corner of y. Then, for each dim, copies the block that is already filled to
 * the place after it, until the dim is full. Each copy doubles the block, except perhaps the last
 * one. */
static bool repeat_forward(rg_call *c) {
    const rg_tensor *y = c->out[0];
    const rg_tensor *x = c->in[0];
    int shift = y->ndim - x->ndim;
    if (y->numel == 0)
        return true;
    rg_tensor block = rgi_header_of(y);
    for (int d = 0; d < y->ndim; d++)
        block.size[d] = d < shift ? 1 : x->size[d - shift];
    rgi_update_flags(&block);
    rgi_copy_elements(&block, x);
    for (int d = y->ndim - 1; d >= 0; d--)
        while (block.size[d] < y->size[d]) {
            int64_t more = RG_MIN(block.size[d], y->size[d] - block.size[d]);
            RG_PART_HEADER(from, &block, (&(rg_part){ RG_PART_RANGE(d, 0, more, 1) }));
            k_copy_into(&block, &from, d, block.size[d]);
            block.size[d] += from.size[d];
        }
    return true;
}

/* Splits each dim of g in two, one for the copies and one for the elements of x, and sums over the
 * copies. */
static rg_tensor *repeat_rule(const rg_step *s, rg_tensor *g) {
    const rg_dims *times = &RG_ATTR(s, repeat)->times;
    rg_dims shape = rgi_input_dims(s, 0);
    int64_t before = 1;
    if (g->numel == 0)
        return rg_zeros_dims(shape, (rg_dtype)g->dtype);
    for (int d = 0; d < times->n && g; d++) {
        int64_t size = d < times->n - shape.n ? 1 : shape.v[d - (times->n - shape.n)];
        if (times->v[d] > 1)
            g = rg_sum_dim(rg_reshape(g, before, times->v[d], size, -1), 1, false);
        before *= size;
    }
    return rg_reshape_dims(g, shape);
}

RG_OP(repeat, RG_WITH(repeat), .moves = true, .doc = "x over and over, so often along each dim",
      .node = "RepeatBackward0", .n_in = 1, RG_MADE(repeat), .grad = { RG_RULE(0, repeat_rule) },
      RG_SAMPLES({ "(2,3)", RG_A(repeat, RG_D(2, 3)) },
                 { "(2,1,3)", RG_A(repeat, RG_D(2, 1, 3, 2)) }, { "()", RG_A(repeat, RG_D(3)) },
                 { "()", RG_A(repeat, RG_D()) }, { "(2,3)", RG_A(repeat, RG_D(0, 1)) },
                 { "(0,3)", RG_A(repeat, RG_D(2, 2)) }));

rg_tensor *rg_repeat_dims(rg_tensor *x, rg_dims repeats) {
    if (!rgi_check(x, "repeat") || !rgi_check_dims("repeat", repeats.n))
        return NULL;
    RG_FAIL_IF(repeats.n < x->ndim, "repeat",
               "Number of dimensions of repeat dims can not be smaller than number of dimensions "
               "of tensor");
    return RG_APPLY(repeat, RG_A(repeat, repeats), x);
}

rg_tensor *rg_tile_dims(rg_tensor *x, rg_dims repeats) {
    if (!rgi_check(x, "tile") || !rgi_check_dims("tile", repeats.n))
        return NULL;
    rg_dims times = { .n = RG_MAX(repeats.n, x->ndim) };
    int first = times.n - repeats.n;
    for (int d = 0; d < times.n; d++)
        times.v[d] = d < first ? 1 : repeats.v[d - first];
    RG_AS("tile");
    return rg_repeat_dims(x, times);
}

/* ---- interleave: a vector of indices: repeats[0] times the index 0, then repeats[1] times
 *      the index 1, and so on --------------------------------------------------- */

/* The attributes of interleave. output_size is the sum of the repeats, or negative if the caller
 * didn't give it. */
struct interleave_attr {
    int64_t output_size;
};

/* Sets *total to the sum of the repeats. Fails if a repeat is negative, or if `given` is another
 * number than the sum. A negative `given` means that the caller gave no sum. */
static bool interleave_total(const rg_tensor *repeats, int64_t given, int64_t *total) {
    const int64_t *times = (const int64_t *)repeats->data;
    bool negative = false;
    *total = 0;
    for (int64_t i = 0; i < repeats->numel; i++) {
        negative = negative || times[i] < 0;
        if (__builtin_add_overflow(*total, times[i], total))
            *total = INT64_MAX;
    }
    RG_FAIL_IF(given >= 0 && given != *total, NULL, "allocated size does not match required size");
    RG_FAIL_IF(negative, NULL, "repeats can not be negative");
    return true;
}

/* Computes the output. The op has this `view` function in place of `shape` and `forward`, because
 * the output's size depends on the repeats, and a `view` function may allocate the output after it
 * has read them. */
static bool interleave_make(rg_call *c) {
    rg_tensor *y = c->out[0];
    if (!rgi_want_dtype(NULL, rgi_is_index(c->in[0]->dtype), c->in[0]->dtype))
        return false;
    RG_SCOPE();
    rg_tensor *repeats = rgi_own(rgi_contiguous_copy(c->in[0], RG_INT64));
    if (!repeats || !interleave_total(repeats, RG_ATTR(c, interleave)->output_size, &y->size[0]))
        return false;
    y->ndim = 1;
    if (!rgi_allocate(y))
        return false;
    int64_t *to = (int64_t *)y->data;
    for (int64_t i = 0; i < repeats->numel; i++)
        for (int64_t times = ((const int64_t *)repeats->data)[i]; times > 0; times--)
            *to++ = i;
    return true;
}

RG_OP(interleave, .doc = "each index so often as the repeats say", RG_WITH(interleave), .n_in = 1,
      .view = interleave_make, .by_value = true,
      RG_SAMPLES({ "i4(5)", RG_A(interleave, -1) }, { "i3(2,2)", RG_A(interleave, -1) },
                 { "i3(0)", RG_A(interleave, 0) }));

/* ---- repeat_interleave: x with each slice along dim repeated. If no dim is given, the flattened x
 *      with each element repeated ----------------------------------------------- */

/* Returns x with each slice along dim repeated `times` times. Reshapes x to (before, size, 1,
 * after), expands the dim of size 1 to `times`, and copies the result. */
static rg_tensor *interleave_evenly(rg_tensor *x, int64_t times, int dim, int64_t output_size) {
    rg_dims shape = rg_shape(x);
    if (!rgi_want_non_negative(NULL, "Repeats", 1, &times))
        return NULL;
    RG_FAIL_INDEX_IF(x->ndim == 0, NULL,
                     "Dimension out of range (expected to be in range of [-1, 0], but got 1)");
    int64_t size = x->size[dim];
    bool overflow = __builtin_mul_overflow(size, times, &shape.v[dim]);
    RG_FAIL_IF(overflow, NULL, "numel: integer multiplication overflow");
    RG_FAIL_IF(output_size >= 0 && output_size != shape.v[dim], NULL,
               "repeat_interleave: Invalid output_size, expected %lld but got %lld",
               (long long)shape.v[dim], (long long)output_size);
    int64_t before = 1;
    int64_t after = 1;
    for (int d = 0; d < dim; d++)
        before *= x->size[d];
    for (int d = dim + 1; d < x->ndim; d++)
        after *= x->size[d];
    rg_tensor *places = rg_reshape(x, before, size, 1, after);
    return rg_view_dims(rgi_contiguous_clone(rg_expand(places, before, size, times, after)), shape);
}

/* Returns the slices of x along dim, each repeated as often as its element of `repeats` says. If
 * `repeats` has a single element, the element is for all slices. */
static rg_tensor *interleave_each(rg_tensor *x, rg_tensor *repeats, int dim, int64_t output_size) {
    int wrapped;
    if (!repeats)
        return NULL;
    if (!rgi_want_dtype(NULL, !rgi_is_byte(repeats->dtype), repeats->dtype)
        || !rgi_want_dims(NULL, "repeats", repeats, 0, 1) || !rgi_want_any_dim(NULL, x, dim)
        || !rgi_wrap_dim(NULL, dim, x->ndim, &wrapped))
        return NULL;
    int64_t size = x->size[wrapped];
    RG_FAIL_IF(repeats->numel != 1 && repeats->numel != size, NULL,
               "repeats must have the same size as input along dim, but got repeats.size(0) = %lld "
               "and input.size(%d) = %lld",
               (long long)repeats->numel, dim, (long long)size);
    if (repeats->numel == 1)
        repeats = rg_expand(rg_reshape(repeats, 1), size);
    return rg_index_select(x, wrapped,
                           RG_APPLY(interleave, RG_A(interleave, output_size), repeats));
}

static rg_tensor *repeat_interleave(rg_tensor *x, rg_tensor *repeats, int64_t given_dim,
                                    int64_t output_size) {
    int dim = rgi_nearest_int(given_dim);
    if (!rgi_check(x, NULL) || !rgi_check(repeats, NULL))
        return NULL;
    if (given_dim == INT_MIN) {
        x = rg_flatten(x, 0, -1);
        dim = 0;
    }
    if (!x)
        return NULL;
    if (!(repeats->flags & RG_WEAK) || rgi_is_float(repeats->dtype))
        return interleave_each(x, rg_detach(repeats), dim, output_size);
    if (!rgi_wrap_dim(NULL, dim, x->ndim, &dim))
        return NULL;
    return interleave_evenly(x, rgi_load_i64(repeats->data, repeats->dtype), dim, output_size);
}

rg_tensor *rg_repeat_interleave_with(rg_tensor *x, rg_tensor *repeats,
                                     rg_repeat_interleave_options o) {
    return RG_COMPOSITE("repeat_interleave", repeat_interleave(x, repeats, o.dim, o.output_size));
}

/* ---- meshgrid: each of n vectors, expanded to the grid of n dims that they span ---- */

static bool meshgrid_check(rg_list tensors, const char *indexing) {
    if (!rgi_given_list(tensors.n, tensors.v, "meshgrid")
        || !rgi_given(indexing, "meshgrid", "a text"))
        return false;
    RG_FAIL_IF(tensors.n == 0, NULL, "meshgrid expects a non-empty TensorList");
    for (int i = 0; i < tensors.n; i++)
        if (!rgi_check(tensors.v[i], "meshgrid"))
            return false;
    RG_FAIL_IF(strcmp(indexing, "xy") && strcmp(indexing, "ij"), NULL,
               "torch.meshgrid: indexing must be one of \"xy\" or \"ij\", but received: %s",
               indexing);
    for (int i = 0; i < tensors.n; i++)
        if (!rgi_want_same_dtype(NULL, "tensor", tensors.v[i], "the first", tensors.v[0])
            || !rgi_want_dims(NULL, "tensor", tensors.v[i], 0, 1))
            return false;
    return rgi_check_dims("meshgrid", tensors.n);
}

/* Returns the dim of the grid along which tensor i varies. With "xy", the dims of the first two
 * tensors are exchanged. */
static int meshgrid_dim(int i, int n, bool xy) { return xy && n > 1 && i < 2 ? 1 - i : i; }

/* Returns an array with the n grids, or NULL if an argument is wrong or memory ran out. The scope
 * owns the array and the grids. */
static rg_tensor **meshgrid_make(rg_list tensors, const char *indexing) {
    RG_AS("meshgrid");
    if (!meshgrid_check(tensors, indexing))
        return NULL;
    bool xy = strcmp(indexing, "xy") == 0;
    rg_tensor **grid = rgi_scope_alloc((size_t)tensors.n * sizeof *grid);
    rg_dims shape = { .n = tensors.n };
    for (int i = 0; i < tensors.n; i++)
        shape.v[meshgrid_dim(i, tensors.n, xy)] = tensors.v[i]->numel;
    for (int i = 0; i < tensors.n && grid; i++) {
        const int dim = meshgrid_dim(i, tensors.n, xy);
        const rg_dims along = rgi_dims_along(tensors.n, dim, tensors.v[i]->numel);
        grid[i] = RG_COMPOSITE("meshgrid",
                               rg_expand_dims(rg_view_dims(tensors.v[i], along), shape));
        if (!grid[i])
            return NULL;
    }
    return grid;
}

rg_list rg_meshgrid_with(rg_list tensors, rg_meshgrid_options o) {
    rg_tensor **grid = meshgrid_make(tensors, o.indexing);
    return grid ? (rg_list){ tensors.n, grid } : rgi_list_failed;
}
