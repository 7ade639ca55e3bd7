/*
 * reduce.c: reductions over dims: sums, means, products, variances, the logarithm of a sum of
 * exponentials, any, all and count_nonzero. (Norms are in norm.c.) In the formulas, g is the
 * gradient of the result, and gx the gradient of x.
 */
#include "autocast.h"
#include "elementwise.h"
#include "reduce.h"
#include "tensor/observer.h"

#include <math.h>

/* ---- functions for all reductions ---------------------------------------------- */

rg_tensor *rgi_reduce(const rg_op *op, rg_tensor *x, const rg_dims *dims, uint32_t none,
                      bool keepdim, double p) {
    struct reduce_attr a = { .dims = dims->n ? 0 : none, .keepdim = keepdim, .p = p };
    rg_dims some = *dims;
    if (!rgi_check(x, op->name) || !rgi_check_dims(op->name, some.n))
        return NULL;
    if (some.n
        && !rgi_wrap_dims(op->name, &some, x->ndim, &a.dims,
                          "dim %d appears multiple times in the list of dims"))
        return NULL;
    return rgi_apply(op, &a, sizeof a, 1, &x);
}

void rgi_reduce_sizes(rg_tensor *y, const rg_tensor *x, const struct reduce_attr *a) {
    y->ndim = 0;
    for (int d = 0; d < x->ndim; d++) {
        bool reduced = a->dims >> d & 1;
        if (a->keepdim || !reduced)
            y->size[y->ndim++] = reduced ? 1 : x->size[d];
    }
}

bool rgi_reduce_shape(rg_call *c) {
    rgi_reduce_sizes(c->out[0], c->in[0], c->attr);
    return true;
}

bool rgi_reduce_shape_int64(rg_call *c) {
    c->out[0]->dtype = RG_INT64;
    return rgi_reduce_shape(c);
}

/* The shape function of sums and products. For integers and bools, the result is int64. */
static bool reduce_shape_sum(rg_call *c) {
    return rgi_is_float(c->in[0]->dtype) ? rgi_reduce_shape(c) : rgi_reduce_shape_int64(c);
}

rg_tensor *rgi_reduce_restore(rg_tensor *g, int ndim, const struct reduce_attr *a) {
    rg_dims shape = { .n = ndim };
    if (a->keepdim || !rgi_check(g, "reduce") || g->ndim == 0)
        return g;
    int next = 0;
    for (int d = 0; d < ndim; d++)
        shape.v[d] = a->dims >> d & 1 ? 1 : g->size[next++];
    return shape.n == g->ndim ? g : rg_reshape_dims(g, shape);
}

/* Returns the number of elements of a tensor with this shape that are reduced to one element. */
static double reduce_count(const rg_dims *shape, const struct reduce_attr *a) {
    double n = 1;
    for (int d = 0; d < shape->n; d++)
        if (a->dims >> d & 1)
            n *= (double)shape->v[d];
    return n;
}

rg_tensor *rgi_reduce_share(rg_tensor *x, rg_tensor *y, const struct reduce_attr *a, bool nan_too) {
    if (!rgi_check(x, "reduce") || !rgi_check(y, "reduce"))
        return NULL;
    y = rgi_reduce_restore(y, x->ndim, a);
    rg_tensor *same = rg_eq(x, y);
    if (nan_too)
        same = rg_logical_or(same, rg_logical_and(rg_isnan(x), rg_isnan(y)));
    same = rg_to(same, x->dtype);
    return rg_div(same, RG_APPLY(sum, RG_REDUCE_ATTR(a->dims, .keepdim = true), same));
}

/* Returns g expanded to x's shape: each element of x gets the g of the result to which it was
 * reduced. */
static rg_tensor *reduce_expand(const rg_step *s, rg_tensor *g) {
    rg_dims shape = rgi_input_dims(s, 0);
    return rg_expand_dims(rgi_reduce_restore(g, shape.n, s->attr), shape);
}

/* The test samples of most reductions. */
#define REDUCE_SAMPLES                                                                           \
    RG_SAMPLES(REDUCED("(2,3)", RG_UNNAMED), REDUCED("(2,3,4)", 2), REDUCED("(2,3,4)", 5, true), \
               REDUCED("(5,9)", 1, true), REDUCED("()", RG_UNNAMED), REDUCED("(0,3)", 2),        \
               REDUCED("(3,0)", 2))

/* ---- sum: sum(x) over dims; gx = g, expanded ----------------------------------- */

static bool sum_forward(rg_call *c) { return k_sum(c->out[0], c->in[0], RG_ATTR(c, reduce)->dims); }

/* Returns whether a tensor of these sizes has at most 4096 elements. May also return false for a
 * tensor without elements. */
static bool has_few(int ndim, const int64_t *size) {
    int64_t n = 1;
    for (int d = 0; d < ndim; d++) {
        if (size[d] > 4096 || n > 4096)
            return false;
        n *= size[d];
    }
    return n <= 4096;
}

/* Computes the gradient if g has one element and x has few (has_few): copies g's element to all
 * elements of a new tensor. In other cases the rule returns an expanded view of g. Such a view
 * needs no memory, but later loops over its elements are slower. */
static bool sum_fused(const rg_step *s, rg_tensor *gin[]) {
    const int64_t *size = rgi_input_size(s, 0);
    const int ndim = rgi_input_ndim(s, 0);
    const rg_tensor *g = s->g[0];
    if (g->numel != 1 || !has_few(ndim, size))
        return true;
    gin[0] = rgi_new(g->dtype, ndim, size);
    if (!gin[0])
        return false;
    /* For float32, the usual dtype, this loop takes less time than the call below. */
    if (g->dtype == RG_FLOAT32 && k_set_now() != K_TRACED) {
        float v = *(const float *)g->data;
        float *to = (float *)gin[0]->data;
        for (int64_t i = 0; i < gin[0]->numel; i++)
            to[i] = v;
    } else {
        rgi_copy_elements(gin[0], g);
    }
    return true;
}

static const char *sum_node(const void *attr) {
    return rgi_reduce_named(attr) ? "SumBackward1" : "SumBackward0";
}

RG_OP(sum, .doc = "sum(x) over dims", .node_of = sum_node, .n_in = 1, RG_WITH(reduce),
      .shape = reduce_shape_sum, .forward = sum_forward, .fused = sum_fused,
      .grad = { RG_RULE(0, reduce_expand) }, REDUCE_SAMPLES);

rg_tensor *rg_sum(rg_tensor *x) { return rgi_reduce_all(&rg_op_sum, x); }
rg_tensor *(rg_sum_dim)(rg_tensor *x, int dim, bool keepdim) {
    return rgi_reduce_dim(&rg_op_sum, x, dim, keepdim);
}

rg_tensor *(rg_sum_dims)(rg_tensor *x, rg_dims dims, bool keepdim) {
    return rgi_reduce_dims(&rg_op_sum, x, dims, keepdim);
}

/* ---- nansum: sum(x) over dims, where NaN counts as 0; gx = g where x isn't NaN, else 0 ---- */

static bool nansum_forward(rg_call *c) {
    return k_reduce(&k_nansums, c->out[0], c->in[0], RG_ATTR(c, reduce)->dims);
}

static rg_tensor *nansum_rule(const rg_step *s, rg_tensor *g) {
    rg_tensor *x = rgi_saved(s, 0);
    return rg_mul(reduce_expand(s, g), rg_eq(x, x));
}

RG_OP(nansum, .doc = "sum(x) over dims, where NaN counts as 0", .node = "NansumBackward0",
      .n_in = 1, RG_WITH(reduce), .shape = reduce_shape_sum, .forward = nansum_forward,
      .grad = { RG_RULE(RG_IN(0), nansum_rule) }, REDUCE_SAMPLES);

rg_tensor *rg_nansum(rg_tensor *x) { return rgi_reduce_all(&rg_op_nansum, x); }
rg_tensor *(rg_nansum_dim)(rg_tensor *x, int dim, bool keepdim) {
    return rgi_reduce_dim(&rg_op_nansum, x, dim, keepdim);
}

rg_tensor *(rg_nansum_dims)(rg_tensor *x, rg_dims dims, bool keepdim) {
    return rgi_reduce_dims(&rg_op_nansum, x, dims, keepdim);
}

/* ---- mean: sum(x) / n over dims; gx = g / n, expanded -------------------------- */

static bool mean_forward(rg_call *c) {
    return k_mean(c->out[0], c->in[0], RG_ATTR(c, reduce)->dims);
}

static rg_tensor *mean_rule(const rg_step *s, rg_tensor *g) {
    rg_dims shape = rgi_input_dims(s, 0);
    return rg_div(reduce_expand(s, g), reduce_count(&shape, s->attr));
}

static const char *mean_node(const void *attr) {
    return rgi_reduce_named(attr) ? "MeanBackward1" : "MeanBackward0";
}

RG_OP(mean, .doc = "sum(x) / n over dims", .node_of = mean_node, .n_in = 1, RG_WITH(reduce),
      .shape = rgi_reduce_shape, .forward = mean_forward, .grad = { RG_RULE(0, mean_rule) },
      REDUCE_SAMPLES);

static bool mean_check(rg_tensor *x) {
    if (!rgi_check(x, "mean"))
        return false;
    RG_FAIL_IF(!rgi_is_float(x->dtype), NULL,
               "mean(): could not infer output dtype. Input dtype must be either a floating point "
               "or complex dtype. Got: %s",
               rgi_scalar_name(x->dtype));
    return true;
}

rg_tensor *rg_mean(rg_tensor *x) { return mean_check(x) ? rgi_reduce_all(&rg_op_mean, x) : NULL; }
rg_tensor *(rg_mean_dim)(rg_tensor *x, int dim, bool keepdim) {
    return mean_check(x) ? rgi_reduce_dim(&rg_op_mean, x, dim, keepdim) : NULL;
}

rg_tensor *(rg_mean_dims)(rg_tensor *x, rg_dims dims, bool keepdim) {
    return mean_check(x) ? rgi_reduce_dims(&rg_op_mean, x, dims, keepdim) : NULL;
}

/* ---- prod: the product of x over a dim; gx = g y / x. Where that would divide by 0, gx is g
 *      times the product of the other elements ---------------------------------- */

static bool prod_forward(rg_call *c) {
    return k_reduce(&k_products, c->out[0], c->in[0], RG_ATTR(c, reduce)->dims);
}

static const char *prod_node(const void *attr) {
    return rgi_reduce_named(attr) ? "ProdBackward1" : "ProdBackward0";
}

/* Returns for each element the product of all other elements that are reduced to the same result:
 * the product of those before it times the product of those after it. */
static rg_tensor *prod_of_others(rg_tensor *x, const struct reduce_attr *a) {
    bool flat = !rgi_reduce_named(a);
    int dim = __builtin_ctz(a->dims);
    rg_tensor *line = flat ? rg_reshape_dims(x, RG_DIMS(-1)) : x;
    rg_tensor *before = rgi_cumprod_before(line, dim, false);
    rg_tensor *others = rg_mul(before, rgi_cumprod_before(line, dim, true));
    return flat ? rg_view_as(others, x) : others;
}

/* The gradient of x. If all elements are reduced and at least two of them are 0, then for each
 * element the product of the others is 0. The gradient is then zeros, and no product is computed,
 * unless the gradient itself is to be differentiated. */
static rg_tensor *prod_rule(const rg_step *s, rg_tensor *g) {
    const struct reduce_attr *a = s->attr;
    rg_tensor *x = rgi_saved(s, 0);
    rg_tensor *y = rgi_saved_output(s);
    if (!x || !y)
        return NULL;
    if (x->ndim == 0)
        return g;
    g = rgi_reduce_restore(g, x->ndim, a);
    /* Over a dim of size 1, y is x, so gx is g. The formulas below would give NaN where x is
     * infinite or NaN. */
    if (rgi_reduce_named(a) && x->size[__builtin_ctz(a->dims)] == 1)
        return rgi_flat_in(s, x, rg_reshape_dims(g, rg_shape(x)));
    if (!rgi_may_do_once("the gradient of prod"))
        return NULL;
    int64_t zeros = x->numel - k_count(x);
    if (zeros == 0)
        return rg_mul(g, rg_div(rgi_reduce_restore(y, x->ndim, a), x));
    if (!rgi_reduce_named(a) && zeros > 1 && !s->create_graph)
        return rg_zeros_like(x);
    return rg_mul(g, prod_of_others(x, a));
}

RG_OP(prod, .doc = "the product of x over a dim", .node_of = prod_node, .n_in = 1, RG_WITH(reduce),
      .shape = reduce_shape_sum, .forward = prod_forward,
      .grad = { RG_RULE(RG_IN(0) | RG_OUTPUT, prod_rule) },
      RG_SAMPLES(REDUCED("z(2,3)", RG_UNNAMED), REDUCED("z(2,3,4)", 2), REDUCED("()", RG_UNNAMED),
                 REDUCED("(0,3)", 2), REDUCED("(3,0)", 2)));

rg_tensor *rg_prod(rg_tensor *x) {
    RG_AUTOCASTS(RG_WIDER, rg_prod(in[0]), x);
    return rgi_reduce_all(&rg_op_prod, x);
}
rg_tensor *(rg_prod_dim)(rg_tensor *x, int dim, bool keepdim) {
    RG_AUTOCASTS(RG_WIDER, (rg_prod_dim)(in[0], dim, keepdim), x);
    return rgi_reduce_dim(&rg_op_prod, x, dim, keepdim);
}

/* ---- any: is at least one x over dims nonzero? all: are all of them nonzero? NaN is nonzero.
 * As in torch, an empty list of dims means no dims here; in the other reductions it means all
 * dims. */

static bool any_shape(rg_call *c) {
    if (!rgi_is_byte(c->in[0]->dtype)) /* As in torch, the result for bytes is of bytes. */
        c->out[0]->dtype = RG_BOOL;
    return rgi_reduce_shape(c);
}

/* Computes bools, and converts them if the output, which is widened then, isn't of bools. */
static bool any_or_all(rg_call *c, bool all) {
    rg_tensor *y = c->out[0];
    const uint32_t dims = RG_ATTR(c, reduce)->dims;
    if (RG_LIKELY(rgi_is_bool(y->dtype)))
        return k_any(y, c->in[0], dims, all);
    rg_tensor *bools = rgi_new_like(y, RG_BOOL);
    const bool ok = bools && k_any(bools, c->in[0], dims, all);
    if (ok)
        rgi_copy_elements(y, bools);
    rgi_release(bools);
    return ok;
}

static bool any_forward(rg_call *c) { return any_or_all(c, false); }
static bool all_forward(rg_call *c) { return any_or_all(c, true); }

RG_OP(any, .doc = "is any x over dims not 0?", .n_in = 1, RG_WITH(reduce), .shape = any_shape,
      .forward = any_forward, REDUCE_SAMPLES);
RG_OP(all, .doc = "is every x over dims not 0?", .n_in = 1, RG_WITH(reduce), .shape = any_shape,
      .forward = all_forward, REDUCE_SAMPLES);

rg_tensor *rg_any(rg_tensor *x) { return rgi_reduce_all(&rg_op_any, x); }
rg_tensor *(rg_any_dim)(rg_tensor *x, int dim, bool keepdim) {
    return rgi_reduce_dim(&rg_op_any, x, dim, keepdim);
}

rg_tensor *(rg_any_dims)(rg_tensor *x, rg_dims dims, bool keepdim) {
    return rgi_reduce(&rg_op_any, x, &dims, 0, keepdim, 0);
}

rg_tensor *rg_all(rg_tensor *x) { return rgi_reduce_all(&rg_op_all, x); }
rg_tensor *(rg_all_dim)(rg_tensor *x, int dim, bool keepdim) {
    return rgi_reduce_dim(&rg_op_all, x, dim, keepdim);
}

rg_tensor *(rg_all_dims)(rg_tensor *x, rg_dims dims, bool keepdim) {
    return rgi_reduce(&rg_op_all, x, &dims, 0, keepdim, 0);
}

/* ---- count_nonzero: the number of elements over dims that aren't 0 ------------- */

static bool count_nonzero_forward(rg_call *c) {
    return k_reduce(&k_counts, c->out[0], c->in[0], RG_ATTR(c, reduce)->dims);
}

RG_OP(count_nonzero, .doc = "how many x over dims are not 0", .n_in = 1, RG_WITH(reduce),
      .shape = rgi_reduce_shape_int64, .forward = count_nonzero_forward, REDUCE_SAMPLES);

rg_tensor *rg_count_nonzero(rg_tensor *x) { return rgi_reduce_all(&rg_op_count_nonzero, x); }
rg_tensor *(rg_count_nonzero_dim)(rg_tensor *x, int dim) {
    return rgi_reduce_dim(&rg_op_count_nonzero, x, dim, false);
}

rg_tensor *rg_count_nonzero_dims(rg_tensor *x, rg_dims dims) {
    return rgi_reduce_dims(&rg_op_count_nonzero, x, dims, false);
}

/* ---- var: sum((x - mean)^2) / max(0, n - correction) over dims; gx = g * 2 (x - mean) / (n -
 *      correction) -------------------------------------------------------------- */

static bool var_shape(rg_call *c) {
    RG_FAIL_IF(!rgi_is_float(c->in[0]->dtype), c->op->name,
               "std and var only support floating point and complex dtypes");
    return rgi_reduce_shape(c);
}

static bool var_forward(rg_call *c) {
    const struct reduce_attr *a = c->attr;
    return k_var(c->out[0], c->in[0], a->dims, a->p, false);
}

/* The gradient of x. If n - correction isn't positive, and the caller named no dims or x has none,
 * then the gradient is infinite, or NaN where x is the mean. In all other cases the gradient is the
 * formula's value. Both are as in torch. */
static rg_tensor *var_rule(const rg_step *s, rg_tensor *g) {
    const struct reduce_attr *a = s->attr;
    rg_tensor *x = rgi_saved(s, 0);
    if (!x)
        return NULL;
    rg_dims shape = rg_shape(x);
    double freedom = reduce_count(&shape, a) - a->p;
    rg_tensor *around = rg_sub(x, RG_APPLY(mean, RG_REDUCE_ATTR(a->dims, .keepdim = true), x));
    if (freedom <= 0 && (!rgi_reduce_named(a) || x->ndim == 0)) {
        around = rg_abs(rg_detach(around));
        freedom = 0;
    }
    return rg_mul(rg_mul(rgi_reduce_restore(g, x->ndim, a), 2 / freedom), around);
}

#define VAR_SAMPLES                                                               \
    RG_SAMPLES(REDUCED("d(2,3)", RG_UNNAMED, false, 1), REDUCED("d(2,3,4)", 2),   \
               REDUCED("d(2,3,4)", 5, true, 1), REDUCED("d(5,19)", 2, true, 0.5), \
               REDUCED("(0,3)", 2, false, 1))
RG_OP(var, .doc = "sum((x - mean)^2) / (n - correction) over dims", .node = "VarBackward0",
      .n_in = 1, RG_WITH(reduce), .shape = var_shape, .forward = var_forward,
      .grad = { RG_RULE(RG_IN(0), var_rule) }, VAR_SAMPLES);

rg_tensor *rg_var(rg_tensor *x) { return rg_var_dims(x, rg_no_dims, 1, false); }
rg_tensor *(rg_var_dim)(rg_tensor *x, int dim, double correction, bool keepdim) {
    return rg_var_dims(x, RG_DIMS(dim), correction, keepdim);
}

rg_tensor *(rg_var_dims)(rg_tensor *x, rg_dims dims, double correction, bool keepdim) {
    return rgi_reduce(&rg_op_var, x, &dims, RG_UNNAMED, keepdim, correction);
}

/* ---- std: y = sqrt(var(x)) over dims; gx is var's gradient with g / (2 y) in place of g, or
 *      0 where y is 0 ----------------------------------------------------------- */

static bool std_forward(rg_call *c) {
    const struct reduce_attr *a = c->attr;
    return k_var(c->out[0], c->in[0], a->dims, a->p, true);
}

static rg_tensor *std_rule(const rg_step *s, rg_tensor *g) {
    rg_tensor *y = rgi_saved_output(s);
    return var_rule(s, rg_masked_fill(rg_div(g, rg_mul(y, 2)), rg_eq(y, 0), 0));
}

RG_OP(std, .doc = "sqrt(var(x)) over dims", .node = "StdBackward0", .n_in = 1, RG_WITH(reduce),
      .shape = var_shape, .forward = std_forward,
      .grad = { RG_RULE(RG_IN(0) | RG_OUTPUT, std_rule) }, VAR_SAMPLES);

rg_tensor *rg_std(rg_tensor *x) { return rg_std_dims(x, rg_no_dims, 1, false); }
rg_tensor *(rg_std_dim)(rg_tensor *x, int dim, double correction, bool keepdim) {
    return rg_std_dims(x, RG_DIMS(dim), correction, keepdim);
}

rg_tensor *(rg_std_dims)(rg_tensor *x, rg_dims dims, double correction, bool keepdim) {
    return rgi_reduce(&rg_op_std, x, &dims, RG_UNNAMED, keepdim, correction);
}

/* ---- logsumexp: ln sum(e^x) over dims; gx = g e^(x - y) ------------------------ */

static bool logsumexp_forward(rg_call *c) {
    return k_logsumexp(c->out[0], c->in[0], RG_ATTR(c, reduce)->dims);
}

static rg_tensor *logsumexp_rule(const rg_step *s, rg_tensor *g) {
    rg_tensor *x = rgi_saved(s, 0);
    rg_tensor *y = rgi_saved_output(s);
    if (!x)
        return NULL;
    g = rgi_reduce_restore(g, x->ndim, s->attr);
    return rg_mul(g, rg_exp(rg_sub(x, rgi_reduce_restore(y, x->ndim, s->attr))));
}

RG_OP(logsumexp, .doc = "ln sum(e^x) over dims", .node = "LogsumexpBackward0", .n_in = 1,
      RG_WITH(reduce), .typing = RG_FLOATED, .shape = rgi_reduce_shape,
      .forward = logsumexp_forward, .grad = { RG_RULE(RG_IN(0) | RG_OUTPUT, logsumexp_rule) },
      REDUCE_SAMPLES);

rg_tensor *(rg_logsumexp)(rg_tensor *x, int dim, bool keepdim) {
    return rg_logsumexp_dims(x, RG_DIMS(dim), keepdim);
}

/* Fails for an empty list of dims, unless keepdim is set or x has no dims or no elements. The error
 * is torch's. Torch's logsumexp calls two functions: an empty list means all dims to the first one,
 * and no dims to the second one. The shapes of their results then differ. */
rg_tensor *(rg_logsumexp_dims)(rg_tensor *x, rg_dims dims, bool keepdim) {
    if (!rgi_check(x, "logsumexp"))
        return NULL;
    const rg_dims ones = rgi_dims_along(x->ndim, 0, 1);
    RG_FAIL_IF(dims.n == 0 && x->ndim && x->numel && !keepdim, "logsumexp",
               "output with shape [] doesn't match the broadcast shape %s", RG_DIMS_TEXT(&ones));
    return rgi_reduce_dims(&rg_op_logsumexp, x, dims, keepdim);
}
