/*
 * reduce.c: what makes fewer numbers of many: sums, means and their kind.
 */
#include "reduce.h"

#include <math.h>

rg_tensor *rgi_reduce(const rg_op *op, rg_tensor *x, const rg_dims *dims, uint32_t none,
                      bool keepdim, double p) {
    struct reduce_attr a = { .dims = dims->n ? 0 : none, .keepdim = keepdim, .p = p };
    rg_dims some = *dims;
    if (!rgi_check(x, op->name) || !rgi_check_dims(op->name, some.n)
        || (some.n
            && !rgi_wrap_dims(op->name, &some, x->ndim, &a.dims,
                              "dim %d appears multiple times in the list of dims")))
        return NULL;
    return rgi_apply(op, &a, sizeof a, 1, &x);
}

void rgi_reduce_sizes(rg_tensor *y, const rg_tensor *x, const struct reduce_attr *a) {
    y->ndim = 0;
    for (int d = 0; d < x->ndim; d++)
        if (a->keepdim || !(a->dims >> d & 1))
            y->size[y->ndim++] = a->dims >> d & 1 ? 1 : x->size[d];
}

bool rgi_reduce_shape(rg_call *c) { return rgi_reduce_sizes(c->out[0], c->in[0], c->attr), true; }
bool rgi_reduce_shape_int64(rg_call *c) { return c->out[0]->dtype = RG_INT64, rgi_reduce_shape(c); }
static bool reduce_shape_sum(rg_call *c) {
    return rgi_is_float(c->in[0]->dtype) ? rgi_reduce_shape(c) : rgi_reduce_shape_int64(c);
}

rg_tensor *rgi_reduce_restore(rg_tensor *g, int ndim, const struct reduce_attr *a) {
    rg_dims shape = { .n = ndim };
    if (a->keepdim || !rgi_check(g, "reduce") || g->ndim == 0)
        return g;
    for (int d = 0, k = 0; d < ndim; d++)
        shape.v[d] = a->dims >> d & 1 ? 1 : g->size[k++];
    return shape.n == g->ndim ? g : rg_reshape_dims(g, shape);
}

/* How many elements make one. */
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

/* g where it came from: gx = g, expanded. */
static rg_tensor *reduce_expand(const rg_step *s, rg_tensor *g) {
    rg_dims shape = rgi_input_dims(s, 0);
    return rg_expand_dims(rgi_reduce_restore(g, shape.n, s->attr), shape);
}

static bool reduce_named(const void *attr) {
    return ((const struct reduce_attr *)attr)->dims != RG_UNNAMED;
}

/* The samples of most reductions. */
#define REDUCE_SAMPLES                                                                           \
    RG_SAMPLES(REDUCED("(2,3)", RG_UNNAMED), REDUCED("(2,3,4)", 2), REDUCED("(2,3,4)", 5, true), \
               REDUCED("(5,9)", 1, true), REDUCED("()", RG_UNNAMED), REDUCED("(0,3)", 2),        \
               REDUCED("(3,0)", 2))

/* ---- sum: gx = g, expanded ------------------------------------------------------- */
static const char *sum_node(const void *attr) {
    return reduce_named(attr) ? "SumBackward1" : "SumBackward0";
}

/* Of few elements that make one: g written out, since what comes next walks that faster. */
static bool sum_fused(const rg_step *s, rg_tensor *gin[]) {
    rg_dims shape = rgi_input_dims(s, 0);
    const rg_tensor *g = s->g[0];
    if (g->numel != 1 || reduce_count(&shape, s->attr) > 4096)
        return true;
    if (!(gin[0] = rgi_new(g->dtype, shape.n, shape.v)))
        return false;
    if (g->dtype == RG_FLOAT32) {
        float v = *(const float *)g->data, *to = (float *)gin[0]->data;
        for (int64_t i = 0; i < gin[0]->numel; i++)
            to[i] = v;
    } else {
        rgi_fill_number(gin[0], *(const double *)g->data, 0);
    }
    return true;
}
RG_REDUCTION(sum, (k_sum(y, x, a->dims), true), .doc = "sum(x) over dims", .node_of = sum_node,
             .shape = reduce_shape_sum, .fused = sum_fused, .grad = { RG_RULE(0, reduce_expand) },
             REDUCE_SAMPLES);
RG_REDUCE(sum, RG_EVERY_DIM, true)

/* ---- nansum: the same without NaNs; gx = g where x is a number ------------------- */
RULE(nansum_rule, x, rg_mul(reduce_expand(s, g), rg_eq(x, x)))
RG_REDUCTION(nansum, (k_reduce(K_NANSUM, y, x, a->dims), true),
             .doc = "sum(x) over dims, where NaN counts as 0", .node = "NansumBackward0",
             .shape = reduce_shape_sum, .grad = { RULED(nansum_rule) }, REDUCE_SAMPLES);
RG_REDUCE(nansum, RG_EVERY_DIM, true)

/* ---- mean: sum / n; gx = g / n, expanded ----------------------------------------- */
static const char *mean_node(const void *attr) {
    return reduce_named(attr) ? "MeanBackward1" : "MeanBackward0";
}
static rg_tensor *mean_rule(const rg_step *s, rg_tensor *g) {
    rg_dims shape = rgi_input_dims(s, 0);
    return rg_div(reduce_expand(s, g), reduce_count(&shape, s->attr));
}
RG_REDUCTION(mean, (k_mean(y, x, a->dims), true), .doc = "sum(x) / n over dims",
             .node_of = mean_node, .shape = rgi_reduce_shape, .grad = { RG_RULE(0, mean_rule) },
             REDUCE_SAMPLES);

static bool mean_check(rg_tensor *x) {
    if (!rgi_check(x, "mean"))
        return false;
    RG_FAIL_IF(!rgi_is_float(x->dtype), NULL,
               "mean(): could not infer output dtype. Input dtype must be either "
               "a floating point or complex dtype. Got: %s",
               rgi_scalar_name(x->dtype));
    return true;
}
RG_REDUCE(mean, RG_EVERY_DIM, mean_check(x))

/* ---- prod: gx = g y / x; where x has zeros, g times the product of the others ---- */
static const char *prod_node(const void *attr) {
    return reduce_named(attr) ? "ProdBackward1" : "ProdBackward0";
}

static rg_tensor *prod_rule(const rg_step *s, rg_tensor *g) {
    const struct reduce_attr *a = s->attr;
    rg_tensor *x = rgi_saved(s, 0), *y = rgi_saved_output(s);
    if (!x || !y)
        return NULL;
    if (x->ndim == 0)
        return g;
    g = rgi_reduce_restore(g, x->ndim, a);
    if (!rgi_not_again("the gradient of prod"))
        return NULL;
    int64_t zeros = x->numel - k_count(x);
    if (zeros == 0)
        return rg_mul(g, rg_div(rgi_reduce_restore(y, x->ndim, a), x));
    bool flat = !reduce_named(a);
    if (flat && zeros > 1 && !s->create_graph)
        return rg_zeros_like(x);
    int dim = flat ? 0 : __builtin_ctz(a->dims);
    rg_tensor *line = flat ? rg_reshape_dims(x, RG_DIMS(-1)) : x;
    rg_tensor *others = rg_mul(rgi_cumprod_before(line, dim, false),
                               rgi_cumprod_before(line, dim, true));
    return rg_mul(g, flat ? rg_view_as(others, x) : others);
}
RG_REDUCTION(prod, (k_reduce(K_PROD, y, x, a->dims), true), .doc = "the product of x over a dim",
             .node_of = prod_node, .shape = reduce_shape_sum,
             .grad = { RG_RULE(RG_IN(0) | RG_OUTPUT, prod_rule) },
             RG_SAMPLES(REDUCED("z(2,3)", RG_UNNAMED), REDUCED("z(2,3,4)", 2),
                        REDUCED("()", RG_UNNAMED), REDUCED("(0,3)", 2), REDUCED("(3,0)", 2)));
rg_tensor *rg_prod(rg_tensor *x) { return RG_APPLY(prod, RG_REDUCE_ATTR(RG_UNNAMED), x); }
rg_tensor *rg_prod_dim(rg_tensor *x, int dim, bool keep) {
    return rgi_reduce(&rg_op_prod, x, &RG_DIMS(dim), 0, keep, 0);
}

/* ---- any, all, count_nonzero: what is not 0, NaN included ------------------------ */
static bool any_shape(rg_call *c) { return c->out[0]->dtype = RG_BOOL, rgi_reduce_shape(c); }
RG_REDUCTION(any, k_any(y, x, a->dims, false), .doc = "is any x over dims not 0?",
             .shape = any_shape, REDUCE_SAMPLES);
RG_REDUCTION(all, k_any(y, x, a->dims, true), .doc = "is every x over dims not 0?",
             .shape = any_shape, REDUCE_SAMPLES);
/* Here, and only here, torch takes an empty list of dims at its word. */
RG_REDUCE(any, 0, true)
RG_REDUCE(all, 0, true)

RG_REDUCTION(count_nonzero, (k_reduce(K_COUNT, y, x, a->dims), true),
             .doc = "how many x over dims are not 0", .shape = rgi_reduce_shape_int64,
             REDUCE_SAMPLES);
rg_tensor *rg_count_nonzero(rg_tensor *x) {
    return RG_APPLY(count_nonzero, RG_REDUCE_ATTR(RG_UNNAMED), x);
}
rg_tensor *rg_count_nonzero_dim(rg_tensor *x, int dim) {
    return rg_count_nonzero_dims(x, RG_DIMS(dim));
}
rg_tensor *rg_count_nonzero_dims(rg_tensor *x, rg_dims dims) {
    return rgi_reduce(&rg_op_count_nonzero, x, &dims, RG_EVERY_DIM, false, 0);
}

/* ---- var: sum((x - mean)^2) / max(0, n - correction); std: its root -------------- */
static bool var_shape(rg_call *c) {
    RG_FAIL_IF(!rgi_is_float(c->in[0]->dtype), c->op->name,
               "std and var only support floating point and "
               "complex dtypes");
    return rgi_reduce_shape(c);
}

/* gx = g 2 (x - mean) / (n - correction). Where that divisor isn't positive, torch gives
 * infinity, or NaN at the mean, if no dim was named, and the formula's value else. */
static rg_tensor *var_rule(const rg_step *s, rg_tensor *g) {
    const struct reduce_attr *a = s->attr;
    rg_tensor *x = rgi_saved(s, 0);
    if (!x)
        return NULL;
    rg_dims shape = rg_shape(x);
    double freedom = reduce_count(&shape, a) - a->p;
    rg_tensor *around = rg_sub(x, RG_APPLY(mean, RG_REDUCE_ATTR(a->dims, .keepdim = true), x));
    if (freedom <= 0 && (!reduce_named(a) || x->ndim == 0))
        around = rg_abs(rg_detach(around)), freedom = 0;
    return rg_mul(rg_mul(rgi_reduce_restore(g, x->ndim, a), 2 / freedom), around);
}

/* g / (2 y), 0 where y is 0, is the g of var */
RULE(std_rule, xy, x ? var_rule(s, rg_masked_fill(rg_div(g, rg_mul(y, 2)), rg_eq(y, 0), 0)) : NULL)

#define VAR_SAMPLES                                                               \
    RG_SAMPLES(REDUCED("d(2,3)", RG_UNNAMED, false, 1), REDUCED("d(2,3,4)", 2),   \
               REDUCED("d(2,3,4)", 5, true, 1), REDUCED("d(5,19)", 2, true, 0.5), \
               REDUCED("(0,3)", 2, false, 1))
RG_REDUCTION(var, k_var(y, x, a->dims, a->p, false),
             .doc = "sum((x - mean)^2) / (n - correction) over dims", .node = "VarBackward0",
             .shape = var_shape, .grad = { RG_RULE(RG_IN(0), var_rule) }, VAR_SAMPLES);
RG_REDUCTION(std, k_var(y, x, a->dims, a->p, true), .doc = "sqrt(var(x)) over dims",
             .node = "StdBackward0", .shape = var_shape, .grad = { RULED(std_rule) }, VAR_SAMPLES);

#define REDUCE_VAR(f)                                                                       \
    rg_tensor *rg_##f(rg_tensor *x) { return rg_##f##_dims(x, rg_no_dims, 1, false); }      \
    rg_tensor *rg_##f##_dims(rg_tensor *x, rg_dims dims, double correction, bool keepdim) { \
        return rgi_reduce(&rg_op_##f, x, &dims, RG_UNNAMED, keepdim, correction);           \
    }                                                                                       \
    rg_tensor *rg_##f##_dim(rg_tensor *x, int dim, double correction, bool keepdim) {       \
        return rg_##f##_dims(x, RG_DIMS(dim), correction, keepdim);                         \
    }
REDUCE_VAR(var)
REDUCE_VAR(std)

/* ---- norm: sum(|x|^p)^(1/p); 0: how many aren't 0; inf: max |x|; -inf: min |x| ---- */

/* gx = g x |x|^(p-2) / y^(p-1), in torch's form for each p: 0 where the norm is 0, and
 * below 1 also where x is. */
static rg_tensor *norm_rule(const rg_step *s, rg_tensor *g) {
    const struct reduce_attr *a = s->attr;
    double p = a->p;
    rg_tensor *x = rgi_saved(s, 0), *y = rgi_saved_output(s);
    if (!x || !y)
        return NULL;
    if (p == 0)
        return RG_NONE;
    g = rgi_reduce_restore(g, x->ndim, a);
    y = rgi_reduce_restore(y, x->ndim, a);
    if (p == 1)
        return rg_mul(rg_sign(x), g);
    if (p == 2)
        return rg_mul(g, rg_masked_fill(rg_div(x, y), rg_eq(y, 0), 0));
    if (p == INFINITY || p == -INFINITY)
        return rg_mul(rg_sign(x), rg_mul(g, rgi_reduce_share(rg_abs(rg_detach(x)), y, a, true)));
    if (p < 1) {
        rg_tensor *power = rg_masked_fill(rg_pow(rg_abs(x), p - 1), rg_eq(x, 0), 0);
        return rg_mul(rg_mul(rg_mul(rg_sign(x), power), g), rg_pow(y, 1 - p));
    }
    rg_tensor *scale = rg_masked_fill(rg_div(g, rg_pow(y, p - 1)), rg_eq(y, 0), 0);
    if (p < 2)
        return rg_mul(rg_mul(rg_sign(x), rg_pow(rg_abs(x), p - 1)), scale);
    return rg_mul(rg_mul(x, rg_pow(rg_abs(x), p - 2)), scale);
}

RG_REDUCTION(norm, k_norm(y, x, a->dims, a->p), .doc = "sum(|x|^p)^(1/p) over dims",
             .node = "LinalgVectorNormBackward0", .shape = rgi_reduce_shape,
             .grad = { RG_RULE(RG_IN(0) | RG_OUTPUT, norm_rule) },
             RG_SAMPLES(REDUCED("z(2,3)", RG_UNNAMED, false, 2), REDUCED("z(2,3,4)", 2, false, 1),
                        REDUCED("d(2,3,4)", 5, true, INFINITY), REDUCED("z(4,3)", 2, false, 3),
                        REDUCED("p(4,3)", 1, true, -INFINITY), REDUCED("z(4,3)", 1, false, 1.5),
                        REDUCED("z(4,3)", 2, false, 0.5), REDUCED("z(4,3)", 2, true, -1),
                        REDUCED("z(4,3)", 2, true, 0), REDUCED("z()", RG_UNNAMED, false, 2),
                        REDUCED("(0,3)", 2, false, 2), REDUCED("(3,0)", 2, false, 3)));

/* Nothing has no largest or smallest. dims: as they were given. */
static bool norm_check(rg_tensor *x, double p, const rg_dims *dims) {
    if (!rgi_check(x, "norm"))
        return false;
    RG_FAIL_IF(!rgi_is_float(x->dtype), "norm",
               "linalg.vector_norm: Expected a floating point or complex "
               "tensor as input. Got %s",
               rgi_scalar_name(x->dtype));
    if (x->numel || !(p < 0 || p == INFINITY))
        return true;
    RG_FAIL_IF(dims->n == 0, "norm",
               "linalg.vector_norm cannot compute the %g norm on an empty tensor "
               "because the operation does not have an identity",
               p);
    for (int i = 0, d; i < RG_MIN(dims->n, RG_MAX_DIMS); i++)
        RG_FAIL_IF(
            rgi_wrap_dim("norm", dims->v[i], x->ndim, &d) && x->size[d] == 0, "norm",
            "linalg.vector_norm cannot compute the %g norm on the dimension %lldbecause this dimension "
            "is empty and the operation does not have an identity",
            p, (long long)dims->v[i]);
    return true;
}

static rg_tensor *norm_over(rg_tensor *x, double p, const rg_dims *dims, bool keepdim) {
    return norm_check(x, p, dims) ? rgi_reduce(&rg_op_norm, x, dims, RG_EVERY_DIM, keepdim, p)
                                  : NULL;
}

rg_tensor *rg_norm(rg_tensor *x) { return rg_norm_p(x, 2); }
rg_tensor *rg_norm_p(rg_tensor *x, double p) { return norm_over(x, p, &rg_no_dims, false); }
rg_tensor *rg_norm_dim(rg_tensor *x, double p, int dim, bool keep) {
    return norm_over(x, p, &RG_DIMS(dim), keep);
}
rg_tensor *rg_norm_dims(rg_tensor *x, double p, rg_dims dims, bool keep) {
    return norm_over(x, p, &dims, keep);
}

/* ---- logsumexp: ln sum(e^x); gx = g e^(x - y) ------------------------------------ */
RULE(logsumexp_rule, xy,
     !x ? NULL
        : rg_mul(rgi_reduce_restore(g, x->ndim, s->attr),
                 rg_exp(rg_sub(x, rgi_reduce_restore(y, x->ndim, s->attr)))))
RG_REDUCTION(logsumexp, k_logsumexp(y, x, a->dims), .doc = "ln sum(e^x) over dims",
             .node = "LogsumexpBackward0", .typing = RG_FLOATED, .shape = rgi_reduce_shape,
             .grad = { RULED(logsumexp_rule) }, REDUCE_SAMPLES);

rg_tensor *rg_logsumexp_dims(rg_tensor *x, rg_dims dims, bool keepdim) {
    if (!rgi_check(x, "logsumexp"))
        return NULL;
    rg_dims ones = { .n = x->ndim, .v = { 1, 1, 1, 1, 1, 1, 1, 1 } };
    /* torch reduces all dims in one place, none in another */
    RG_FAIL_IF(dims.n == 0 && x->ndim && x->numel && !keepdim, "logsumexp",
               "output with shape [] doesn't match "
               "the broadcast shape %s",
               RG_DIMS_TEXT(&ones));
    return rgi_reduce(&rg_op_logsumexp, x, &dims, RG_EVERY_DIM, keepdim, 0);
}

rg_tensor *rg_logsumexp(rg_tensor *x, int dim, bool keep) {
    return rg_logsumexp_dims(x, RG_DIMS(dim), keep);
}
