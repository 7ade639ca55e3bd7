/*
 * gradcheck.c: are the gradients of a function those that finite differences
 * give? Each column of the Jacobian is measured by moving one element of one
 * input by eps to either side; each row is computed by a backward run from one
 * element of the output.
 */
#include "node.h"

#include <math.h>

/* A check calls f(inputs, context) with n inputs; `op` is the function that the user called. */
typedef struct {
    const char *op;
    rg_function *f;
    void *context;
    int n;
    rg_tensor *const *inputs;
    rg_gradcheck_options options;
} check;

/* A mismatch says by how much the two gradients of output element `out` with respect to element
 * `at` of an input differ beyond the tolerance. */
typedef struct {
    int input;
    int64_t at, out;
    double analytic, numeric, excess;
} mismatch;

/* Returns the index of the element that is number `at` when t is counted row by row. */
static rg_dims position(const rg_tensor *t, int64_t at) {
    rg_dims index = { .n = t->ndim };
    for (int d = t->ndim - 1; d >= 0; d--) {
        index.v[d] = at % t->size[d];
        at /= t->size[d];
    }
    return index;
}

static double *element(const rg_tensor *t, int64_t at) {
    rg_dims index = position(t, at);
    double *it = (double *)t->data;
    for (int d = 0; d < index.n; d++)
        it += index.v[d] * t->stride[d];
    return it;
}

/* Returns f's value as a contiguous float64 tensor that the caller's scope owns. */
static rg_tensor *value_of(const check *c) {
    RG_SCOPE();
    rg_tensor *y = c->f(c->inputs, c->context);
    if (!rgi_check(y, c->op))
        return NULL;
    RG_FAIL_VALUE_IF(!rgi_is_float(y->dtype), c->op,
                     "expects a function whose result is floating point");
    y = rgi_own(rgi_contiguous_copy(y, RG_FLOAT64));
    return rg_escape(y);
}

/* Returns a copy of t: f may return one of its inputs, which changes when x is moved again. */
static rg_tensor *copy_of(const rg_tensor *t) {
    rg_tensor *copy = t ? rgi_own(rgi_new_like(t, RG_FLOAT64)) : NULL;
    if (copy)
        rgi_copy_elements(copy, t);
    return copy;
}

/* Returns column (input, at) of the Jacobian as it is measured: (f(x + eps) - f(x - eps)) / 2 eps.
 */
static rg_tensor *numeric_column(const check *c, int input, int64_t at) {
    RG_SCOPE();
    double *x = element(c->inputs[input], at), before = *x, eps = c->options.eps;
    *x = before + eps;
    rg_tensor *column = copy_of(value_of(c));
    *x = before - eps;
    const rg_tensor *below = column ? value_of(c) : NULL;
    if (!below || below->numel != column->numel)
        column = NULL;
    double *slope = column ? (double *)column->data : NULL;
    for (int64_t i = 0; column && i < column->numel; i++)
        slope[i] = (slope[i] - ((const double *)below->data)[i]) / (2 * eps);
    /* `below` may be the input itself, so x gets its value back only now. */
    *x = before;
    return rg_escape(column);
}

/* Computes rows of the Jacobian: rows[i][out * numel + at] for each input i that has them. */
static bool analytic_rows(const check *c, rg_tensor *y, double *rows[]) {
    int m = 0;
    rg_tensor *wanted[RG_MAX_INPUTS], *g[RG_MAX_INPUTS];
    for (int i = 0; i < c->n; i++)
        if (rows[i])
            wanted[m++] = c->inputs[i];
    for (int64_t out = 0; out < y->numel; out++) {
        RG_SCOPE();
        rg_tensor *one = rg_zeros_dims(rg_shape(y), y->dtype);
        if (!one)
            return false;
        rgi_store_f64(one->data + out * (int64_t)rgi_sizeof(y->dtype), y->dtype, 1);
        if (!rg_grad_many(1, &y, &one, m, wanted, g,
                          (rg_backward_options){ .retain_graph = true, .allow_unused = true }))
            return false;
        for (int j = 0, i = 0; i < c->n; i++) {
            if (!rows[i])
                continue;
            rg_tensor *row = g[j++];
            for (int64_t at = 0; at < c->inputs[i]->numel; at++)
                rows[i][out * c->inputs[i]->numel + at] = row == RG_NONE ? 0 : *element(row, at);
        }
    }
    return true;
}

/* Returns by how much the values differ beyond the tolerance, 0 if they agree. */
static double excess_of(const check *c, double analytic, double numeric) {
    if (analytic == numeric || (isnan(analytic) && isnan(numeric)))
        return 0;
    double tolerance = c->options.atol + c->options.rtol * fabs(numeric);
    double excess = fabs(analytic - numeric) - tolerance;
    if (isnan(excess))
        return INFINITY;
    return excess > 0 ? excess : 0;
}

/* Compares column (input, at) of the Jacobian, and keeps the worst of its elements. */
static bool compare_column(const check *c, const rg_tensor *y, const double *rows, int input,
                           int64_t at, mismatch *worst) {
    RG_SCOPE();
    const rg_tensor *column = numeric_column(c, input, at);
    if (!column)
        return false;
    for (int64_t out = 0; out < y->numel; out++) {
        double numeric = ((const double *)column->data)[out];
        double analytic = y->history ? rows[out * c->inputs[input]->numel + at] : 0;
        double excess = excess_of(c, analytic, numeric);
        if (excess > worst->excess)
            *worst = (mismatch){ input, at, out, analytic, numeric, excess };
    }
    return true;
}

static bool jacobian_check(const check *c, rg_tensor *y, double *rows[]) {
    mismatch worst = { .excess = 0 };
    if (y->history && !analytic_rows(c, y, rows))
        return false;
    for (int i = 0; i < c->n; i++)
        for (int64_t at = 0; rows[i] && at < c->inputs[i]->numel; at++)
            if (!compare_column(c, y, rows[i], i, at, &worst))
                return false;
    if (worst.excess == 0)
        return true;
    rg_dims in = position(c->inputs[worst.input], worst.at), out = position(y, worst.out);
    return rgi_fail(RG_RUNTIME_ERROR, c->op,
                    "Jacobian mismatch for output 0 with respect to input %d: at output %s and "
                    "input %s the analytical value is %.12g but the numerical one is %.12g (%s)",
                    worst.input, RG_DIMS_TEXT(&out), RG_DIMS_TEXT(&in), worst.analytic,
                    worst.numeric,
                    y->history ? rgi_node_name(rgi_node_of(y)) : "a result without history");
}

static bool takes_arguments(const char *op, rg_function *f, int n, int most,
                            rg_tensor *const inputs[]) {
    RG_FAIL_AS_IF(RG_TYPE_ERROR, !f || (n > 0 && !inputs), op,
                  "expected a function and its inputs but got NULL");
    return (n >= 0 && n <= most)
           || rgi_fail(RG_VALUE_ERROR, op, "takes up to %d inputs, but got %d", most, n);
}

/* Fails unless every input that requires grad can be checked, and there is one. */
static bool inputs_check(const char *op, int n, rg_tensor *const inputs[]) {
    int checked = 0;
    for (int i = 0; i < n; i++) {
        if (!rgi_is_none(inputs[i]) && !rgi_check(inputs[i], op))
            return false;
        if (!inputs[i]->history)
            continue;
        checked++;
        RG_FAIL_VALUE_IF(inputs[i]->dtype != RG_FLOAT64, op,
                         "input %d requires gradient and is not "
                         "a float64 tensor",
                         i);
        RG_FAIL_IF(
            rgi_overlaps_itself(inputs[i]), op,
            "The %dth input has a dimension with stride 0. "
            "gradcheck only supports inputs that are non-overlapping to be able to compute the "
            "numerical gradients correctly. You should call .contiguous on the input before "
            "passing it to gradcheck.",
            i);
    }
    RG_FAIL_VALUE_IF(!checked, op,
                     "gradcheck expects at least one input tensor to require gradient, but none of "
                     "them have requires_grad=True.");
    return true;
}

static bool gradcheck_as(const char *op, rg_function *f, void *context, int n,
                         rg_tensor *const inputs[], rg_gradcheck_options options) {
    check c = { op, f, context, n, inputs, options };
    if (!takes_arguments(op, f, n, RG_MAX_INPUTS, inputs) || !inputs_check(op, n, inputs))
        return false;
    rg_tensor *y = f(inputs, context);
    if (!rgi_check(y, op))
        return false;
    double *rows[RG_MAX_INPUTS];
    for (int i = 0; i < n; i++) {
        rows[i] = NULL;
        if (!inputs[i]->history)
            continue;
        rg_tensor *room =
            rgi_own(rgi_new(RG_FLOAT64, 2, (int64_t[]){ y->numel, inputs[i]->numel }));
        if (!room)
            return false;
        rows[i] = (double *)room->data;
    }
    return jacobian_check(&c, y, rows);
}

bool rg_gradcheck_with(rg_function *f, void *context, int n, rg_tensor *const inputs[],
                       rg_gradcheck_options options) {
    RG_SCOPE();
    RG_ENABLE_GRAD();
    return gradcheck_as("gradcheck", f, context, n, inputs, options);
}

/* ---- second order -------------------------------------------------------------------
 * The gradients of f for a cotangent v are a function of the inputs and v; that
 * function is checked as any other. */
typedef struct {
    rg_function *f;
    void *context;
    int n;
} derivative;

static rg_tensor *derivative_of(rg_tensor *const inputs[], void *context) {
    const derivative *d = context;
    int m = 0;
    rg_tensor *wanted[RG_MAX_INPUTS], *g[RG_MAX_INPUTS];
    rg_tensor *v = inputs[d->n], *y = d->f(inputs, d->context);
    for (int i = 0; i < d->n; i++)
        if (inputs[i]->history)
            wanted[m++] = inputs[i];
    if (!rg_grad_many(1, &y, &v, m, wanted, g,
                      (rg_backward_options){ .create_graph = true, .allow_unused = true }))
        return NULL;
    for (int j = 0; j < m; j++) {
        if (g[j] == RG_NONE)
            g[j] = rg_zeros_like(wanted[j]);
        g[j] = rg_reshape(g[j], -1);
    }
    return rg_cat((rg_list){ m, g }, 0);
}

/* Returns a tensor like y with values of either sign, never near 0, and not drawn from the user's
 * stream. */
static rg_tensor *cotangent(rg_tensor *y) {
    rg_tensor *v = rg_zeros_dims(rg_shape(y), y->dtype);
    for (int64_t i = 0; v && i < v->numel; i++) {
        double turn = fmod(0.6180339887498949 * (double)(i + 1), 1);
        rgi_store_f64(v->data + i * (int64_t)rgi_sizeof(v->dtype), v->dtype,
                      turn < 0.5 ? turn - 1 : turn);
    }
    return v;
}

bool rg_gradgradcheck_with(rg_function *f, void *context, int n, rg_tensor *const inputs[],
                           rg_gradcheck_options options) {
    RG_SCOPE();
    RG_ENABLE_GRAD();
    rg_tensor *all[RG_MAX_INPUTS];
    if (!takes_arguments("gradgradcheck", f, n, RG_MAX_INPUTS - 1, inputs))
        return false;
    for (int i = 0; i < n; i++)
        all[i] = inputs[i];
    rg_tensor *y = f(inputs, context);
    if (!rgi_check(y, "gradgradcheck"))
        return false;
    /* A result that doesn't require grad has no gradients to be checked. */
    if (!y->history)
        return true;
    rg_tensor *v = cotangent(y);
    all[n] = v ? rg_requires_grad_(v, true) : NULL;
    derivative d = { f, context, n };
    return all[n] && gradcheck_as("gradgradcheck", derivative_of, &d, n + 1, all, options);
}
