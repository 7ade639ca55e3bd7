/*
 * reduce.c: what makes fewer numbers of many: sums, means and their kind.
 */
#include "reduce.h"

#include <math.h>

bool rg_reduce_mask(const char *op, const rg_tensor *x, const rg_dims *dims, uint32_t *mask)
{
    *mask = 0;
    if (!rg_check_dims(op, dims->n)) return false;
    for (int i = 0; i < dims->n; i++) {
        int d;
        if (!rg_wrap_dim(op, dims->v[i], x->ndim, &d)) return false;
        if (*mask >> d & 1) return rg_fail(RG_RUNTIME_ERROR, op, "dim %d appears multiple times in the list of dims", d);
        *mask |= 1u << d;
    }
    if (dims->n == 0) *mask = (1u << x->ndim) - 1;
    return true;
}

void rg_reduce_sizes(rg_tensor *y, const rg_tensor *x, uint32_t dims, bool keepdim)
{
    int n = 0;
    for (int d = 0; d < x->ndim; d++) {
        if (!(dims >> d & 1)) y->size[n++] = x->size[d];
        else if (keepdim) y->size[n++] = 1;
    }
    y->ndim = (uint8_t)n;
}

bool rg_reduce_shape(rg_call *c)
{
    const struct reduce_attr *a = c->attr;
    rg_reduce_sizes(c->out[0], c->in[0], a->dims, a->keepdim);
    return true;
}

rg_tensor *rg_reduce_restore(rg_tensor *g, int ndim, const struct reduce_attr *a)
{
    rg_dims shape = { .n = ndim };
    if (a->keepdim || !rg_check(g, "reduce") || g->ndim == 0) return g;
    for (int d = 0, k = 0; d < ndim; d++) shape.v[d] = a->dims >> d & 1 ? 1 : g->size[k++];
    return shape.n == g->ndim ? g : rg_reshape_dims(g, shape);
}

int64_t rg_reduce_count(const rg_dims *shape, uint32_t dims)
{
    int64_t n = 1;
    for (int d = 0; d < shape->n; d++)
        if (dims >> d & 1) n *= shape->v[d];
    return n;
}

rg_tensor *rg_reduce(const char *name, const rg_op *op, rg_tensor *x, rg_dims dims, bool keepdim, double p)
{
    struct reduce_attr a = { .keepdim = keepdim, .p = p };
    return rg_check(x, name) && rg_reduce_mask(name, x, &dims, &a.dims) ? rg_apply(op, &a, sizeof a, 1, &x) : NULL;
}

rg_tensor *rg_reduce_all(const rg_op *op, rg_tensor *x, double p)
{
    return rg_apply(op, &(struct reduce_attr){ .dims = UINT32_MAX, .p = p }, sizeof(struct reduce_attr), 1, &x);
}

rg_dims rg_reduce_list(const rg_dims *shape, uint32_t dims)
{
    rg_dims list = { .n = 0 };
    for (int d = 0; d < shape->n; d++)
        if (dims >> d & 1) list.v[list.n++] = d;
    return list;
}

rg_tensor *rg_reduce_share(rg_tensor *x, rg_tensor *y, uint32_t dims, bool nan_too)
{
    if (!rg_check(x, "reduce") || !rg_check(y, "reduce")) return NULL;
    rg_tensor kept = *y, *share = rg_own(rg_new_like(x, x->dtype));
    rg_reduce_sizes(&kept, x, dims, true);
    rg_set_strides(&kept);
    rg_tensor *ties = rg_own(rg_new_like(&kept, x->dtype));
    if (!share || !ties) return NULL;
    k_mark_equal(share, x, &kept, nan_too);
    k_sum(ties, share, dims);
    k_divide_by(share, ties);
    return share;
}

/* g where it came from: gx = g, expanded. */
static rg_tensor *reduce_expand(const rg_step *s, rg_tensor *g)
{
    rg_dims shape = rg_input_dims(s, 0);
    return rg_expand_dims(rg_reduce_restore(g, shape.n, s->attr), shape);
}

static bool reduce_named(const void *attr) { return ((const struct reduce_attr *)attr)->dims != UINT32_MAX; }

static bool reduce_shape_sum(rg_call *c)
{
    if (!rg_is_float(c->in[0]->dtype)) c->out[0]->dtype = RG_INT64;
    return rg_reduce_shape(c);
}

/* The samples of most reductions. */
#define REDUCE_SAMPLES                                                                          \
    .attr_size = sizeof(struct reduce_attr),                                                    \
    RG_SAMPLES({ "(2,3)", RG_REDUCE_ATTR(UINT32_MAX, false) }, { "(2,3,4)", RG_REDUCE_ATTR(2, false) }, \
               { "(2,3,4)", RG_REDUCE_ATTR(5, true) }, { "(5,9)", RG_REDUCE_ATTR(1, true) }, { "()", RG_REDUCE_ATTR(UINT32_MAX, false) }, \
               { "(0,3)", RG_REDUCE_ATTR(2, false) }, { "(3,0)", RG_REDUCE_ATTR(2, false) })

/* ---- sum: gx = g, expanded ------------------------------------------------------------- */

static const char *sum_node(const void *attr) { return reduce_named(attr) ? "SumBackward1" : "SumBackward0"; }

static bool sum_forward(rg_call *c)
{
    k_sum(c->out[0], c->in[0], ((const struct reduce_attr *)c->attr)->dims);
    return true;
}

RG_OP(sum, .doc = "sum(x) over dims", .node_of = sum_node, .n_in = 1, .shape = reduce_shape_sum, .forward = sum_forward,
      .grad = { RG_RULE(0, reduce_expand) }, REDUCE_SAMPLES);
RG_REDUCE(sum)

/* ---- nansum: the same without NaNs; gx = g where x is a number ----------------------------- */

static bool nansum_forward(rg_call *c)
{
    k_nansum(c->out[0], c->in[0], ((const struct reduce_attr *)c->attr)->dims);
    return true;
}

static rg_tensor *nansum_rule(const rg_step *s, rg_tensor *g)
{
    rg_tensor *x = rg_saved(s, 0), *is_number = x ? rg_own(rg_new_like(x, x->dtype)) : NULL;
    if (!is_number) return NULL;
    k_mark_equal(is_number, x, x, false);
    return rg_mul(reduce_expand(s, g), is_number);
}

RG_OP(nansum, .doc = "sum(x) over dims, where NaN counts as 0", .node = "NansumBackward0", .n_in = 1,
      .shape = reduce_shape_sum, .forward = nansum_forward, .grad = { RG_RULE(RG_IN(0), nansum_rule) }, REDUCE_SAMPLES);
RG_REDUCE(nansum)

/* ---- mean: sum / n; gx = g / n, expanded --------------------------------------------------- */

static const char *mean_node(const void *attr) { return reduce_named(attr) ? "MeanBackward1" : "MeanBackward0"; }

static bool mean_forward(rg_call *c)
{
    k_mean(c->out[0], c->in[0], ((const struct reduce_attr *)c->attr)->dims);
    return true;
}

static rg_tensor *mean_rule(const rg_step *s, rg_tensor *g)
{
    rg_dims shape = rg_input_dims(s, 0);
    return rg_div(reduce_expand(s, g), rg_reduce_count(&shape, ((const struct reduce_attr *)s->attr)->dims));
}

RG_OP(mean, .doc = "sum(x) / n over dims", .node_of = mean_node, .n_in = 1, .shape = rg_reduce_shape, .forward = mean_forward,
      .grad = { RG_RULE(0, mean_rule) }, REDUCE_SAMPLES);

static bool mean_check(rg_tensor *x)
{
    if (!rg_check(x, "mean")) return false;
    if (rg_is_float(x->dtype)) return true;
    return rg_fail(RG_RUNTIME_ERROR, NULL, "mean(): could not infer output dtype. Input dtype must be either a floating point "
                   "or complex dtype. Got: %s", rg_scalar_name(x->dtype));
}

rg_tensor *rg_mean(rg_tensor *x) { return mean_check(x) ? rg_reduce_all(&rg_op_mean, x, 0) : NULL; }
rg_tensor *rg_mean_dim(rg_tensor *x, int dim, bool keepdim) { return rg_mean_dims(x, RG_DIMS(dim), keepdim); }

rg_tensor *rg_mean_dims(rg_tensor *x, rg_dims dims, bool keepdim)
{
    return mean_check(x) ? rg_reduce("mean", &rg_op_mean, x, dims, keepdim, 0) : NULL;
}

/* ---- prod: gx = g y / x; where x has zeros, g times the product of the others -------------- */

static const char *prod_node(const void *attr) { return reduce_named(attr) ? "ProdBackward1" : "ProdBackward0"; }

static bool prod_forward(rg_call *c)
{
    k_prod(c->out[0], c->in[0], ((const struct reduce_attr *)c->attr)->dims);
    return true;
}

int64_t rg_count_zeros(rg_tensor *x)
{
    int64_t n = 0;
    k_count_nonzero(&(rg_tensor){ .state = RG_ALIVE, .dtype = RG_INT64, .flags = RG_CONTIGUOUS, .numel = 1, .data = (char *)&n },
                    x, UINT32_MAX);
    return x->numel - n;
}

static rg_tensor *prod_rule(const rg_step *s, rg_tensor *g)
{
    const struct reduce_attr *a = s->attr;
    rg_tensor *x = rg_saved(s, 0), *y = rg_saved_output(s);
    if (!x || !y) return NULL;
    if (x->ndim == 0) return g;
    g = rg_reduce_restore(g, x->ndim, a);
    int64_t zeros = rg_count_zeros(x);
    if (zeros == 0) return rg_mul(g, rg_div(rg_reduce_restore(y, x->ndim, a), x));
    bool flat = a->dims == UINT32_MAX;
    if (flat && zeros > 1 && !s->create_graph) return rg_zeros_like(x);
    int dim = flat ? 0 : __builtin_ctz(a->dims);
    rg_tensor *line = flat ? rg_reshape_dims(x, RG_DIMS(-1)) : x;
    rg_tensor *others = rg_mul(rg_cumprod_before(line, dim, false), rg_cumprod_before(line, dim, true));
    return rg_mul(g, flat ? rg_view_as(others, x) : others);
}

RG_OP(prod, .doc = "the product of x over a dim", .node_of = prod_node, .n_in = 1, .shape = reduce_shape_sum,
      .forward = prod_forward, .grad = { RG_RULE(RG_IN(0) | RG_OUTPUT, prod_rule) },
      .attr_size = sizeof(struct reduce_attr),
      RG_SAMPLES({ "z(2,3)", RG_REDUCE_ATTR(UINT32_MAX, false) }, { "z(2,3,4)", RG_REDUCE_ATTR(2, false) },
                 { "()", RG_REDUCE_ATTR(UINT32_MAX, false) }, { "(0,3)", RG_REDUCE_ATTR(2, false) },
                 { "(3,0)", RG_REDUCE_ATTR(2, false) }));

rg_tensor *rg_prod(rg_tensor *x) { return rg_reduce_all(&rg_op_prod, x, 0); }
rg_tensor *rg_prod_dim(rg_tensor *x, int dim, bool keepdim) { return rg_reduce("prod", &rg_op_prod, x, RG_DIMS(dim), keepdim, 0); }

/* ---- any, all, count_nonzero: what is not 0, NaN included ----------------------------------- */

static bool any_shape(rg_call *c)
{
    c->out[0]->dtype = RG_BOOL;
    return rg_reduce_shape(c);
}

static bool any_forward(rg_call *c)
{
    return k_any(c->out[0], c->in[0], ((const struct reduce_attr *)c->attr)->dims, c->op == &rg_op_all);
}

RG_OP(any, .doc = "is any x over dims not 0?", .n_in = 1, .shape = any_shape, .forward = any_forward, REDUCE_SAMPLES);
RG_OP(all, .doc = "is every x over dims not 0?", .n_in = 1, .shape = any_shape, .forward = any_forward, REDUCE_SAMPLES);

/* Here, and only here, torch takes an empty list of dims at its word. */
static rg_tensor *any_dims(const char *name, const rg_op *op, rg_tensor *x, rg_dims dims, bool keepdim)
{
    struct reduce_attr a = { .keepdim = keepdim };
    if (!rg_check(x, name) || !rg_reduce_mask(name, x, &dims, &a.dims)) return NULL;
    if (dims.n == 0) a.dims = 0;
    return rg_apply(op, &a, sizeof a, 1, &x);
}

rg_tensor *rg_any(rg_tensor *x) { return rg_reduce_all(&rg_op_any, x, 0); }
rg_tensor *rg_all(rg_tensor *x) { return rg_reduce_all(&rg_op_all, x, 0); }
rg_tensor *rg_any_dims(rg_tensor *x, rg_dims dims, bool keepdim) { return any_dims("any", &rg_op_any, x, dims, keepdim); }
rg_tensor *rg_all_dims(rg_tensor *x, rg_dims dims, bool keepdim) { return any_dims("all", &rg_op_all, x, dims, keepdim); }
rg_tensor *rg_any_dim(rg_tensor *x, int dim, bool keepdim) { return rg_any_dims(x, RG_DIMS(dim), keepdim); }
rg_tensor *rg_all_dim(rg_tensor *x, int dim, bool keepdim) { return rg_all_dims(x, RG_DIMS(dim), keepdim); }

static bool count_nonzero_shape(rg_call *c)
{
    c->out[0]->dtype = RG_INT64;
    return rg_reduce_shape(c);
}

static bool count_nonzero_forward(rg_call *c)
{
    k_count_nonzero(c->out[0], c->in[0], ((const struct reduce_attr *)c->attr)->dims);
    return true;
}

RG_OP(count_nonzero, .doc = "how many x over dims are not 0", .n_in = 1, .shape = count_nonzero_shape,
      .forward = count_nonzero_forward, REDUCE_SAMPLES);

rg_tensor *rg_count_nonzero(rg_tensor *x) { return rg_reduce_all(&rg_op_count_nonzero, x, 0); }
rg_tensor *rg_count_nonzero_dims(rg_tensor *x, rg_dims dims) { return rg_reduce("count_nonzero", &rg_op_count_nonzero, x, dims, false, 0); }
rg_tensor *rg_count_nonzero_dim(rg_tensor *x, int dim) { return rg_count_nonzero_dims(x, RG_DIMS(dim)); }

/* ---- var: sum((x - mean)^2) / max(0, n - correction); std: its root -------------------------- */

static bool var_shape(rg_call *c)
{
    if (!rg_is_float(c->in[0]->dtype))
        return rg_fail(RG_RUNTIME_ERROR, c->op->name, "std and var only support floating point and complex dtypes");
    return rg_reduce_shape(c);
}

static bool var_forward(rg_call *c)
{
    const struct reduce_attr *a = c->attr;
    return k_var(c->out[0], c->in[0], a->dims, a->p, c->op == &rg_op_std);
}

/* gx = g 2 (x - mean) / (n - correction). Where that divisor isn't positive, torch gives
 * infinity, or NaN at the mean, if no dim was named, and the formula's value else. */
static rg_tensor *var_rule(const rg_step *s, rg_tensor *g)
{
    const struct reduce_attr *a = s->attr;
    rg_tensor *x = rg_saved(s, 0);
    if (!x) return NULL;
    rg_dims shape = rg_shape(x);
    double freedom = (double)rg_reduce_count(&shape, a->dims) - a->p;
    rg_tensor *around = rg_sub(x, rg_reduce("mean", &rg_op_mean, x, rg_reduce_list(&shape, a->dims), true, 0));
    if (freedom <= 0 && (!reduce_named(a) || x->ndim == 0)) around = rg_abs(rg_detach(around)), freedom = 0;
    return rg_mul(rg_mul(rg_reduce_restore(g, x->ndim, a), 2 / freedom), around);
}

/* g / (2 y), 0 where y is 0, is the g of var */
static rg_tensor *std_rule(const rg_step *s, rg_tensor *g)
{
    rg_tensor *y = rg_saved_output(s);
    return var_rule(s, rg_masked_fill(rg_div(g, rg_mul(y, 2)), rg_eq(y, 0), 0));
}

#define VAR_ATTR(dims_, keepdim_, correction) &(const struct reduce_attr){ (dims_), (keepdim_), (correction) }
#define VAR_SAMPLES                                                                             \
    .attr_size = sizeof(struct reduce_attr),                                                    \
    RG_SAMPLES({ "d(2,3)", VAR_ATTR(UINT32_MAX, false, 1) }, { "d(2,3,4)", VAR_ATTR(2, false, 0) }, \
               { "d(2,3,4)", VAR_ATTR(5, true, 1) }, { "d(5,19)", VAR_ATTR(2, true, 0.5) }, { "(0,3)", VAR_ATTR(2, false, 1) })

RG_OP(var, .doc = "sum((x - mean)^2) / (n - correction) over dims", .node = "VarBackward0", .n_in = 1, .shape = var_shape,
      .forward = var_forward, .grad = { RG_RULE(RG_IN(0), var_rule) }, VAR_SAMPLES);
RG_OP(std, .doc = "sqrt(var(x)) over dims", .node = "StdBackward0", .n_in = 1, .shape = var_shape,
      .forward = var_forward, .grad = { RG_RULE(RG_IN(0) | RG_OUTPUT, std_rule) }, VAR_SAMPLES);

#define REDUCE_VAR(f)                                                                           \
    rg_tensor *rg_##f(rg_tensor *x) { return rg_reduce_all(&rg_op_##f, x, 1); }                 \
    rg_tensor *rg_##f##_dims(rg_tensor *x, rg_dims dims, double correction, bool keepdim)       \
    {                                                                                           \
        struct reduce_attr all = { UINT32_MAX, keepdim, correction };                           \
        if (dims.n == 0) return rg_apply(&rg_op_##f, &all, sizeof all, 1, &x);                  \
        return rg_reduce(#f, &rg_op_##f, x, dims, keepdim, correction);                         \
    }                                                                                           \
    rg_tensor *rg_##f##_dim(rg_tensor *x, int dim, double correction, bool keepdim)             \
    {                                                                                           \
        return rg_##f##_dims(x, RG_DIMS(dim), correction, keepdim);                             \
    }
REDUCE_VAR(var)
REDUCE_VAR(std)

/* ---- norm: sum(|x|^p)^(1/p); 0: how many aren't 0; inf: max |x|; -inf: min |x| ------------------ */

static bool norm_forward(rg_call *c)
{
    const struct reduce_attr *a = c->attr;
    return k_norm(c->out[0], c->in[0], a->dims, a->p);
}

/* gx = g x |x|^(p-2) / y^(p-1), in torch's form for each p: 0 where the norm is 0, and
 * below 1 also where x is. */
static rg_tensor *norm_rule(const rg_step *s, rg_tensor *g)
{
    const struct reduce_attr *a = s->attr;
    double p = a->p;
    rg_tensor *x = rg_saved(s, 0), *y = rg_saved_output(s);
    if (!x || !y) return NULL;
    if (p == 0) return RG_NONE;
    g = rg_reduce_restore(g, x->ndim, a);
    y = rg_reduce_restore(y, x->ndim, a);
    if (p == 1) return rg_mul(rg_sign(x), g);
    if (p == 2) return rg_mul(g, rg_masked_fill(rg_div(x, y), rg_eq(y, 0), 0));
    if (p == INFINITY || p == -INFINITY)
        return rg_mul(rg_sign(x), rg_mul(g, rg_reduce_share(rg_abs(rg_detach(x)), y, a->dims, true)));
    if (p < 1) {
        rg_tensor *power = rg_masked_fill(rg_pow(rg_abs(x), p - 1), rg_eq(x, 0), 0);
        return rg_mul(rg_mul(rg_mul(rg_sign(x), power), g), rg_pow(y, 1 - p));
    }
    rg_tensor *scale = rg_masked_fill(rg_div(g, rg_pow(y, p - 1)), rg_eq(y, 0), 0);
    if (p < 2) return rg_mul(rg_mul(rg_sign(x), rg_pow(rg_abs(x), p - 1)), scale);
    return rg_mul(rg_mul(x, rg_pow(rg_abs(x), p - 2)), scale);
}

RG_OP(norm, .doc = "sum(|x|^p)^(1/p) over dims", .node = "LinalgVectorNormBackward0", .n_in = 1, .shape = rg_reduce_shape,
      .forward = norm_forward, .grad = { RG_RULE(RG_IN(0) | RG_OUTPUT, norm_rule) }, .attr_size = sizeof(struct reduce_attr),
      RG_SAMPLES({ "z(2,3)", VAR_ATTR(UINT32_MAX, false, 2) }, { "z(2,3,4)", VAR_ATTR(2, false, 1) },
                 { "d(2,3,4)", VAR_ATTR(5, true, INFINITY) }, { "p(4,3)", VAR_ATTR(1, true, -INFINITY) },
                 { "z(4,3)", VAR_ATTR(2, false, 3) }, { "z(4,3)", VAR_ATTR(1, false, 1.5) }, { "z(4,3)", VAR_ATTR(2, true, 0.5) },
                 { "z(4,3)", VAR_ATTR(2, true, -1) }, { "z(4,3)", VAR_ATTR(2, true, 0) }, { "z()", VAR_ATTR(UINT32_MAX, false, 2) },
                 { "(0,3)", VAR_ATTR(2, false, 2) }, { "(3,0)", VAR_ATTR(2, false, 3) }));

/* Nothing has no largest or smallest. dims: as they were given; NULL: none were. */
static bool norm_check(rg_tensor *x, double p, const rg_dims *dims)
{
    if (!rg_check(x, "norm")) return false;
    if (!rg_is_float(x->dtype))
        return rg_fail(RG_RUNTIME_ERROR, "norm", "linalg.vector_norm: Expected a floating point or complex tensor as input. Got %s",
                       rg_scalar_name(x->dtype));
    if (x->numel || !(p < 0 || p == INFINITY)) return true;
    if (!dims || dims->n == 0)
        return rg_fail(RG_RUNTIME_ERROR, "norm", "linalg.vector_norm cannot compute the %g norm on an empty tensor because the "
                       "operation does not have an identity", p);
    for (int i = 0, d; i < RG_MIN(dims->n, RG_MAX_DIMS); i++)
        if (rg_wrap_dim("norm", dims->v[i], x->ndim, &d) && x->size[d] == 0)
            return rg_fail(RG_RUNTIME_ERROR, "norm", "linalg.vector_norm cannot compute the %g norm on the dimension %lld"
                           "because this dimension is empty and the operation does not have an identity", p, (long long)dims->v[i]);
    return true;
}

rg_tensor *rg_norm(rg_tensor *x) { return rg_norm_p(x, 2); }
rg_tensor *rg_norm_p(rg_tensor *x, double p) { return norm_check(x, p, NULL) ? rg_reduce_all(&rg_op_norm, x, p) : NULL; }
rg_tensor *rg_norm_dim(rg_tensor *x, double p, int dim, bool keepdim) { return rg_norm_dims(x, p, RG_DIMS(dim), keepdim); }

rg_tensor *rg_norm_dims(rg_tensor *x, double p, rg_dims dims, bool keepdim)
{
    return norm_check(x, p, &dims) ? rg_reduce("norm", &rg_op_norm, x, dims, keepdim, p) : NULL;
}

/* ---- logsumexp: ln sum(e^x); gx = g e^(x - y) ---------------------------------------------------- */

static bool logsumexp_forward(rg_call *c)
{
    return k_logsumexp(c->out[0], c->in[0], ((const struct reduce_attr *)c->attr)->dims);
}

static rg_tensor *logsumexp_rule(const rg_step *s, rg_tensor *g)
{
    rg_tensor *x = rg_saved(s, 0), *y = rg_saved_output(s);
    if (!x || !y) return NULL;
    return rg_mul(rg_reduce_restore(g, x->ndim, s->attr), rg_exp(rg_sub(x, rg_reduce_restore(y, x->ndim, s->attr))));
}

RG_OP(logsumexp, .doc = "ln sum(e^x) over dims", .node = "LogsumexpBackward0", .n_in = 1, .typing = RG_FLOATED,
      .shape = rg_reduce_shape, .forward = logsumexp_forward, .grad = { RG_RULE(RG_IN(0) | RG_OUTPUT, logsumexp_rule) },
      REDUCE_SAMPLES);

rg_tensor *rg_logsumexp_dims(rg_tensor *x, rg_dims dims, bool keepdim)
{
    rg_dims ones = { .n = RG_MAX_DIMS, .v = { 1, 1, 1, 1, 1, 1, 1, 1 } };
    char text[192];
    if (!rg_check(x, "logsumexp")) return NULL;
    if (dims.n == 0 && x->ndim && x->numel && !keepdim)             /* torch reduces all dims in one place, none in another */
        return rg_fail(RG_RUNTIME_ERROR, "logsumexp", "output with shape [] doesn't match the broadcast shape %s",
                       rg_shape_text(x->ndim, ones.v, text));
    return rg_reduce("logsumexp", &rg_op_logsumexp, x, dims, keepdim, 0);
}

rg_tensor *rg_logsumexp(rg_tensor *x, int dim, bool keepdim) { return rg_logsumexp_dims(x, RG_DIMS(dim), keepdim); }
