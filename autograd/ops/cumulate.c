/*
 * cumulate.c: running sums, products and log-sum-exps along a dim, and the recurrence that computes
 * some of their gradients. In the formulas, g is the gradient of y, and gx, ga and gb are the
 * gradients of x, a and b.
 */
#include "reduce.h"

#include "autograd/checks.h"
#include "tensor/observer.h"

#include <math.h>

/* ---- functions for all running sums and products ------------------------------- */

/* The attributes of the ops in this file. If `reverse` is set, the elements are accumulated from
 * the end of `dim` to its beginning. */
struct cumsum_attr {
    int dim;
    bool reverse;
};

static bool cumulate_shape(rg_call *c) {
    if (!rgi_is_float(c->in[0]->dtype))
        c->out[0]->dtype = RG_INT64;
    return rgi_shape_same(c);
}

static bool cumulate_run(rg_call *c, k_running what) {
    const struct cumsum_attr *a = c->attr;
    return k_cumulate(c->out[0], c->in[0], c->in[c->n_in - 1], a->dim, a->reverse, what);
}

static rg_tensor *cumulate(const rg_op *op, rg_tensor *x, int dim, bool reverse) {
    struct cumsum_attr a = { .reverse = reverse };
    if (!rgi_check(x, op->name) || !rgi_wrap_dim(op->name, dim, x->ndim, &a.dim))
        return NULL;
    return rgi_apply(op, &a, sizeof a, 1, &x);
}

/* Returns x shifted by one element along dim: towards the end, or towards the beginning if
 * `reverse` is set. The first element (or the last, if `reverse` is set) gets the value `fill`. If
 * x has no dims, or has size 0 along dim, returns x itself. */
static rg_tensor *cumulate_shift(rg_tensor *x, int dim, bool reverse, double fill) {
    if (!rgi_check(x, "cumprod") || x->ndim == 0 || x->size[dim] == 0)
        return x;
    rg_dims gap = rg_shape(x);
    gap.v[dim] = 1;
    rg_tensor *first = rg_full_dims(gap, fill, x->dtype);
    rg_tensor *rest = rg_narrow(x, dim, reverse, x->size[dim] - 1);
    return reverse ? rg_cat(RG_LIST(rest, first), dim) : rg_cat(RG_LIST(first, rest), dim);
}

#define CUMULATE_SAMPLES                                                              \
    RG_SAMPLES({ "(2,3)", RG_A(cumsum, .dim = 1) },                                   \
               { "(2,3,4)", RG_A(cumsum, .dim = 1, .reverse = true) },                \
               { "()", RG_A(cumsum, .dim = 0) }, { "(5,3)", RG_A(cumsum, .dim = 0) }, \
               { "(0,3)", RG_A(cumsum, .dim = 1) },                                   \
               { "(2,0)", RG_A(cumsum, .dim = 1, .reverse = true) })

/* ---- cumsum: y_k = x_0 + .. + x_k; gx is the cumsum of g from the end ---------- */

static bool cumsum_forward(rg_call *c) { return cumulate_run(c, K_CUMSUM); }

static rg_tensor *cumsum_rule(const rg_step *s, rg_tensor *g) {
    const struct cumsum_attr *a = s->attr;
    return cumulate(&rg_op_cumsum, g, a->dim, !a->reverse);
}

RG_OP(cumsum, .doc = "sums of x up to each place along dim", .node = "CumsumBackward0", .n_in = 1,
      RG_WITH(cumsum), .shape = cumulate_shape, .forward = cumsum_forward,
      .grad = { RG_RULE(0, cumsum_rule) }, CUMULATE_SAMPLES);

rg_tensor *(rg_cumsum)(rg_tensor *x, int dim) { return cumulate(&rg_op_cumsum, x, dim, false); }

/* ---- recurrence: y_k = b_k + a_k y_(k-1), with y_(-1) = 0. gb is h, which is itself a
 *      recurrence from the other end: h_k = g_k + a_(k+1) h_(k+1). ga_k = h_k y_(k-1) ---- */

static bool recurrence_forward(rg_call *c) { return cumulate_run(c, K_RECUR); }

static rg_tensor *recurrence_rule_b(const rg_step *s, rg_tensor *g) {
    const struct cumsum_attr *a = s->attr;
    rg_tensor *next = cumulate_shift(rgi_saved(s, 0), a->dim, !a->reverse, 0);
    return RG_APPLY(recurrence, RG_A(cumsum, a->dim, !a->reverse), next, g);
}

static rg_tensor *recurrence_rule_a(const rg_step *s, rg_tensor *g) {
    const struct cumsum_attr *a = s->attr;
    rg_tensor *y = rgi_saved_output(s);
    if (!y)
        return NULL;
    if (y->ndim == 0)
        return rgi_input_zeros(s);
    return rg_mul(recurrence_rule_b(s, g), cumulate_shift(y, a->dim, a->reverse, 0));
}

RG_OP(recurrence, .doc = "y_k = b_k + a_k y_(k-1) along dim", .node = "RecurrenceBackward0",
      .n_in = 2, RG_WITH(cumsum), .shape = rgi_shape_same, .forward = recurrence_forward,
      .grad = { RG_RULE(RG_IN(0) | RG_OUTPUT, recurrence_rule_a),
                RG_RULE(RG_IN(0), recurrence_rule_b) },
      RG_SAMPLES({ "(2,3) (2,3)", RG_A(cumsum, .dim = 1) },
                 { "(2,3,4) (2,3,4)", RG_A(cumsum, .dim = 1, .reverse = true) },
                 { "() ()", RG_A(cumsum, .dim = 0) }, { "(0,3) (0,3)", RG_A(cumsum, .dim = 1) }));

/* ---- cumprod: y_k = x_0 * .. * x_k; gx_k = (sum over i >= k of g_i y_i) / x_k. If x has a zero,
 *      the gradient is computed without a division: gx_k = (x_0 * .. * x_(k-1)) r_k, where r_k =
 *      g_k + x_(k+1) r_(k+1) ---------------------------------------------------- */

static bool cumprod_forward(rg_call *c) { return cumulate_run(c, K_CUMPROD); }

rg_tensor *rgi_cumprod_before(rg_tensor *x, int dim, bool reverse) {
    return cumulate(&rg_op_cumprod, cumulate_shift(x, dim, reverse, 1), dim, reverse);
}

static rg_tensor *cumprod_rule(const rg_step *s, rg_tensor *g) {
    const struct cumsum_attr *a = s->attr;
    rg_tensor *x = rgi_saved(s, 0);
    rg_tensor *y = rgi_saved_output(s);
    if (!x || !y)
        return NULL;
    /* Along a dim of size 1, y is x, so gx is g. The formulas below would give NaN if x is infinite
     * or NaN. */
    if (x->ndim == 0 || x->size[a->dim] == 1)
        return g;
    if (!rgi_may_do_once("the gradient of cumprod"))
        return NULL;
    if (k_count(x) == x->numel)
        return rg_div(cumulate(&rg_op_cumsum, rg_mul(g, y), a->dim, !a->reverse), x);
    return rg_mul(rgi_cumprod_before(x, a->dim, a->reverse), recurrence_rule_b(s, g));
}

RG_OP(cumprod, .doc = "products of x up to each place along dim", .node = "CumprodBackward0",
      .n_in = 1, RG_WITH(cumsum), .shape = cumulate_shape, .forward = cumprod_forward,
      .grad = { RG_RULE(RG_IN(0) | RG_OUTPUT, cumprod_rule) }, CUMULATE_SAMPLES);

rg_tensor *(rg_cumprod)(rg_tensor *x, int dim) { return cumulate(&rg_op_cumprod, x, dim, false); }

/* ---- logcumsumexp: y_k = ln(e^x_0 + .. + e^x_k); gx_k = e^(x_k - y_k) h_k, where h_k = g_k +
 *      e^(y_k - y_(k+1)) h_(k+1). Since no exponent is above 0, nothing overflows. The factors are
 *      computed and multiplied in float64, since their rounding errors add up along the dim ---- */

static bool logcumsumexp_shape(rg_call *c) {
    return rgi_want_float(NULL, c->in[0]) && rgi_shape_same(c);
}

static bool logcumsumexp_forward(rg_call *c) { return cumulate_run(c, K_LOGCUMSUMEXP); }

/* Returns whether elements of a and b are the same infinity. The result has a's order of dims in
 * memory. */
static rg_tensor *same_infinity(rg_tensor *a, rg_tensor *b) {
    return rg_logical_and(rg_isinf(a), rg_eq(a, b));
}

/* Returns e^(a - b), or 1 where `same` is true. */
static rg_tensor *exp_of_difference(rg_tensor *a, rg_tensor *b, rg_tensor *same) {
    return rg_exp(rg_where(same, 0, rg_sub(a, b)));
}

static rg_tensor *logcumsumexp_rule(const rg_step *s, rg_tensor *g) {
    int dim = RG_ATTR(s, cumsum)->dim;
    rg_tensor *x = rgi_saved(s, 0);
    rg_tensor *y = rgi_saved_output(s);
    if (!x || !y)
        return NULL;
    if (y->ndim == 0)
        return g;
    rg_tensor *wide = rg_to(y, RG_FLOAT64);
    rg_tensor *next = cumulate_shift(wide, dim, true, INFINITY);
    rg_tensor *kept = exp_of_difference(wide, next, same_infinity(wide, next));
    rg_tensor *h = RG_APPLY(recurrence, RG_A(cumsum, dim, true), kept, rg_to(g, RG_FLOAT64));
    /* Where x and y are the same infinity, the gradient is NaN, as in torch. The NaN is written
     * last, so that no derivative of another element is multiplied by it. The gradient has y's
     * order of dims in memory. */
    rg_tensor *lost = same_infinity(y, x);
    rg_tensor *weight = exp_of_difference(x, y, lost);
    return rg_where(lost, NAN, rg_mul(rg_to(h, g->dtype), weight));
}

RG_OP(logcumsumexp, .doc = "ln of sums of e^x up to each place along dim",
      .node = "LogcumsumexpBackward0", .n_in = 1, RG_WITH(cumsum), RG_MADE(logcumsumexp),
      .grad = { RG_RULE(RG_IN(0) | RG_OUTPUT, logcumsumexp_rule) },
      RG_SAMPLES({ "(2,3)", RG_A(cumsum, 1, false) }, { "(2,3,4)", RG_A(cumsum, 1, false) },
                 { "()", RG_A(cumsum, 0, false) }, { "(5,3)", RG_A(cumsum, 0, false) },
                 { "(0,3)", RG_A(cumsum, 1, false) }, { "(2,0)", RG_A(cumsum, 1, false) }));

rg_tensor *(rg_logcumsumexp)(rg_tensor *x, int dim) {
    return cumulate(&rg_op_logcumsumexp, x, dim, false);
}
