/*
 * permute.c: views of a tensor with its dims in another order.
 */
#include "view.h"

#include "autograd/checks.h"

/* ---- functions for all permutations: dim d of y is dim dims[d] of x ------------ */

struct permute_attr {
    rg_dims dims;
};

static bool permute_view(rg_call *c) {
    const rg_dims *dims = &RG_ATTR(c, permute)->dims;
    rgi_view_begin(c);
    rg_tensor *y = c->out[0];
    rg_tensor *x = c->in[0];
    for (int d = 0; d < dims->n; d++) {
        y->size[d] = x->size[dims->v[d]];
        y->stride[d] = x->stride[dims->v[d]];
    }
    return rgi_view_end(c);
}

/* Applies the op with *dims as its attributes. Only the elements of dims->v that are in use are
 * stored. */
static rg_tensor *permute_apply(const rg_op *op, rg_tensor *x, const rg_dims *dims) {
    return rgi_apply(op, dims, offsetof(rg_dims, v) + (size_t)dims->n * sizeof dims->v[0], 1, &x);
}

static rg_tensor *permute_rule(const rg_step *s, rg_tensor *g) {
    const rg_dims *dims = &RG_ATTR(s, permute)->dims;
    rg_dims back = { .n = dims->n };
    for (int d = 0; d < dims->n; d++)
        back.v[dims->v[d]] = d;
    return permute_apply(s->op, g, &back);
}

#define PERMUTE_SAMPLES                                                                 \
    RG_SAMPLES({ "(2,3)", RG_A(permute, RG_D(1, 0)) }, { "()", RG_A(permute, RG_D()) }, \
               { "(2,3,4)", RG_A(permute, RG_D(2, 0, 1)) },                             \
               { "(0,3)", RG_A(permute, RG_D(1, 0)) })

/* ---- permute: x with its dims in another order --------------------------------- */

RG_OP(permute, .doc = "x with its dims in another order", .node = "PermuteBackward0",
      RG_WITH(permute), .n_in = 1, .view = permute_view, .grad = { RG_RULE(0, permute_rule) },
      PERMUTE_SAMPLES);

rg_tensor *rg_permute_dims(rg_tensor *x, rg_dims dims) {
    uint32_t mask;
    if (!rgi_check(x, "permute"))
        return NULL;
    RG_FAIL_IF(dims.n != x->ndim, "permute",
               "number of dimensions in the tensor input does not match the length of the desired "
               "ordering of dimensions: input.dim() = %d is not equal to len(dims) = %d",
               x->ndim, dims.n);
    if (!rgi_wrap_dims("permute", &dims, x->ndim, &mask,
                       "permute(): duplicate dims are not allowed."))
        return NULL;
    return permute_apply(&rg_op_permute, x, &dims);
}

/* ---- transpose: x with two given dims exchanged; mT: x with its last two dims exchanged ---- */

RG_OP(transpose, .doc = "x with two dims exchanged", .node = "TransposeBackward0", RG_WITH(permute),
      .n_in = 1, .view = permute_view, .grad = { RG_RULE(0, permute_rule) }, PERMUTE_SAMPLES);

rg_tensor *(rg_transpose)(rg_tensor *x, int dim0, int dim1) {
    int a, b;
    if (!rgi_check(x, "transpose") || !rgi_wrap_dim("transpose", dim0, x->ndim, &a)
        || !rgi_wrap_dim("transpose", dim1, x->ndim, &b))
        return NULL;
    rg_dims dims;
    dims.n = x->ndim;
    for (int d = 0; d < dims.n; d++)
        dims.v[d] = d;
    dims.v[a] = b;
    dims.v[b] = a;
    return permute_apply(&rg_op_transpose, x, &dims);
}

rg_tensor *rg_mT(rg_tensor *x) {
    RG_AS("mT");
    if (!rgi_check(x, "mT"))
        return NULL;
    if (x->ndim == 0)
        return rgi_lend(x);
    return rgi_want_dims("mT", "input", x, 2, RG_MAX_DIMS) ? rg_transpose(x, -2, -1) : NULL;
}

/* ---- T: x with all its dims in reverse order; t: a matrix with its two dims exchanged, or a
 *      vector as it is ---------------------------------------------------------- */

RG_OP(t, .doc = "a matrix with its dims exchanged; a vector as it is", .node = "TBackward0",
      RG_WITH(permute), .n_in = 1, .view = permute_view, .grad = { RG_RULE(0, permute_rule) },
      PERMUTE_SAMPLES);

static rg_tensor *permute_backwards(const rg_op *op, rg_tensor *x) {
    rg_dims dims;
    dims.n = x->ndim;
    for (int d = 0; d < dims.n; d++)
        dims.v[d] = dims.n - 1 - d;
    return permute_apply(op, x, &dims);
}

rg_tensor *rg_T(rg_tensor *x) {
    RG_AS("T");
    return rgi_check(x, "T") ? permute_backwards(&rg_op_permute, x) : NULL;
}

rg_tensor *rg_t(rg_tensor *x) {
    if (!rgi_check(x, "t"))
        return NULL;
    return rgi_want_dims("t", "input", x, 0, 2) ? permute_backwards(&rg_op_t, x) : NULL;
}

/* ---- movedim: some dims moved to given positions; the other dims keep their order ---- */

static bool movedim_wrap(rg_dims *dims, int ndim) {
    for (int i = 0; i < dims->n; i++) {
        int d;
        if (!rgi_wrap_dim("movedim", dims->v[i], ndim, &d))
            return false;
        dims->v[i] = d;
    }
    return true;
}

/* Sets *mask to a mask with a bit for each dim in the list. Fails if a dim occurs twice. `what` is
 * the name of the list and `text` its contents, for the error message. */
static bool movedim_mask(const rg_dims *dims, uint32_t *mask, const char *what, const char *text) {
    *mask = 0;
    for (int i = 0; i < dims->n; i++)
        *mask |= 1u << dims->v[i];
    RG_FAIL_IF(__builtin_popcount(*mask) < dims->n, "movedim", "movedim: repeated dim in `%s` (%s)",
               what, text);
    return true;
}

/* Returns an order of dims. In this order, dim source[i] is at position destination[i], and the
 * other dims take the free positions in their old order. `moved` is the mask of the dims in source,
 * and `taken` the mask of the positions in destination. */
static rg_dims movedim_order(int ndim, const rg_dims *source, const rg_dims *destination,
                             uint32_t moved, uint32_t taken) {
    rg_dims order = { .n = ndim };
    for (int i = 0; i < source->n; i++)
        order.v[destination->v[i]] = source->v[i];
    int rest = 0;
    for (int d = 0; d < ndim; d++) {
        if (taken >> d & 1)
            continue;
        while (moved >> rest & 1)
            rest++;
        order.v[d] = rest++;
    }
    return order;
}

rg_tensor *rg_movedim_dims(rg_tensor *x, rg_dims source, rg_dims destination) {
    RG_AS("movedim");
    if (!rgi_check(x, "movedim") || !rgi_check_dims("movedim", source.n)
        || !rgi_check_dims("movedim", destination.n))
        return NULL;
    const char *from = RG_DIMS_TEXT(&source);
    const char *to = RG_DIMS_TEXT(&destination);
    RG_FAIL_IF(source.n != destination.n, "movedim",
               "movedim: Invalid source or destination dims: source (%s dims) should contain the "
               "same number of dims as destination (%s dims)",
               from, to);
    uint32_t moved, taken;
    if (!movedim_wrap(&source, x->ndim) || !movedim_wrap(&destination, x->ndim)
        || !movedim_mask(&source, &moved, "source", from)
        || !movedim_mask(&destination, &taken, "destination", to))
        return NULL;
    if (x->ndim == 0)
        return RG_APPLY(alias, RG_NO_ATTR, x);
    rg_dims order = movedim_order(x->ndim, &source, &destination, moved, taken);
    return permute_apply(&rg_op_permute, x, &order);
}

rg_tensor *(rg_movedim)(rg_tensor *x, int source, int destination) {
    return rg_movedim_dims(x, RG_DIMS(source), RG_DIMS(destination));
}
