/*
 * repeat.c: a tensor that comes over and over along its dims.
 */
#include "autograd/op.h"

/* ---- repeat: x over and over, so often along each dim; gx is the sum of g over the copies ---- */

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
    return rgi_dims_numel(NULL, &shape) >= 0;
}

/* Copies x once, and then dim by dim the block that is there already, which doubles. */
static bool repeat_forward(rg_call *c) {
    const rg_tensor *y = c->out[0];
    const rg_tensor *x = c->in[0];
    int shift = y->ndim - x->ndim;
    if (y->numel == 0)
        return true;
    rg_tensor block = *y;
    for (int d = 0; d < y->ndim; d++)
        block.size[d] = d < shift ? 1 : x->size[d - shift];
    rgi_update_flags(&block);
    rgi_copy_elements(&block, x);
    for (int d = y->ndim - 1; d >= 0; d--)
        while (block.size[d] < y->size[d]) {
            int64_t more = RG_MIN(block.size[d], y->size[d] - block.size[d]);
            RG_PART_HEADER(from, block, (&(rg_part){ RG_PART_RANGE(d, 0, more, 1) }));
            k_copy_into(&block, &from, d, block.size[d]);
            block.size[d] += from.size[d];
        }
    return true;
}

/* Each dim of g is cut in two, the copies and what they are copies of, and the sum goes over the
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

RG_OP(repeat, RG_WITH(repeat), .doc = "x over and over, so often along each dim",
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
