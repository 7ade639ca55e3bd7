/*
 * functional.c: Jacobians, Hessians and their products with vectors, computed by backward runs.
 * Also contains vmap, which calls a function once for each example, and stacks the results. If J is
 * the Jacobian of y, a backward run from y with the gradient u computes u^T J. The product J v is
 * the derivative of u^T J v by u, so it takes a second backward run, through the graph of the
 * first.
 */
#include "functional.h"
#include "normal_mode.h"
#include "autograd/tools/inputs.h"
#include "autograd/rebase.h"
#include "autograd/ops/ops.h"
#include "tensor/memory.h"
#include "tensor/messages/callback.h"
#include "tensor/thread.h"

#include <string.h>

enum { MOST_DERIVED = 64 };

/* A function f that is differentiated by its inputs, and the result `y` of a call of f. f is called
 * with in[], which has a detached leaf in place of each floating-point input. But if a graph is
 * created and the input has a history, in[] has a view of the input. If f reads an input of the
 * program directly, not through in[], that input counts as a constant. Bit i of `real` says that
 * input i is floating point. */
typedef struct {
    const char *op;
    rg_function *f;
    void *context;
    int n;
    rg_tensor *in[MOST_DERIVED + RG_INPUTS_BEHIND];
    uint64_t real;
    int64_t argnum; /* The input by which f is differentiated; ALL_INPUTS means each
                     * floating-point one. */
    bool create_graph;
    rg_tensor *y;
} derived;
enum { ALL_INPUTS = -1 };

/* Returns a struct with what a public function was given. */
static derived derived_of(const char *op, rg_function *f, void *context, int n, int64_t argnum,
                          bool create_graph) {
    return (derived){ .op = op,
                      .f = f,
                      .context = context,
                      .n = n,
                      .argnum = argnum,
                      .create_graph = create_graph };
}

static bool is_real(const derived *d, int i) { return d->real >> i & 1; }

/* Returns t, or a copy of t if t is an inference tensor, since such a tensor can't be saved for
 * backward. */
static rg_tensor *recordable(rg_tensor *t) {
    return !rgi_is_none(t) && t->storage->inference ? rg_clone(rg_detach(t)) : t;
}

/* Returns the tensor that f gets in place of the floating-point input x, which has index i. The
 * tensor requires grad if f is differentiated by this input. */
static rg_tensor *seen_input(const derived *d, int i, rg_tensor *x) {
    if (d->create_graph && !rgi_renew(x, d->op))
        return NULL;
    if (d->argnum != ALL_INPUTS && d->argnum != i)
        return d->create_graph ? recordable(x) : rg_detach(recordable(x));
    if (d->create_graph && x->history && !x->storage->inference)
        return rg_view_as(x, x);
    return rg_requires_grad_(rg_detach(recordable(x)), true);
}

/* Calls f, and sets d->y to its result. Requires that the caller's block has RG_NORMAL_MODE(): as
 * in torch.func, f's calls are recorded whatever mode the program has set. Returns false on
 * failure. */
static bool run_derived(derived *d, rg_tensor *const inputs[]) {
    RG_FAIL_AS_IF(RG_TYPE_ERROR, !d->f || (d->n > 0 && !inputs), d->op,
                  "expected a function and its inputs but got NULL");
    RG_FAIL_VALUE_IF(d->n < 0 || d->n > MOST_DERIVED, d->op, "takes up to %d inputs, but got %d",
                     MOST_DERIVED, d->n);
    for (int i = 0; i < d->n; i++) {
        d->in[i] = inputs[i];
        if (rgi_is_none(inputs[i]))
            continue;
        if (!rgi_check(inputs[i], d->op))
            return false;
        const bool real = rgi_is_float(inputs[i]->dtype);
        d->real |= (uint64_t)real << i;
        d->in[i] = real ? seen_input(d, i, inputs[i]) : recordable(inputs[i]);
        if (!d->in[i])
            return false;
    }
    rgi_inputs_end(d->in, d->n);
    const int64_t before = rgi_failures();
    d->y = d->f(d->in, d->context);
    if (!rgi_returned(d->y, before, d->op) || !rgi_renew(d->y, d->op))
        return false;
    RG_FAIL_IF(!rgi_is_float(d->y->dtype), d->op,
               "the output of the function must be a floating point tensor, got one of dtype %s",
               rg_dtype_name((rg_dtype)d->y->dtype));
    return true;
}

/* Returns t, which is y or a derivative, without its history unless a graph is created. Results are
 * given to the caller in this form. */
static rg_tensor *outcome(const derived *d, rg_tensor *t) {
    return d->create_graph ? t : rg_detach(t);
}

/* Returns the gradient of x by a backward run from y. `gradient` is the gradient of y; RG_NONE
 * stands for 1. Returns zeros if y doesn't depend on x, and NULL on failure. The graph is
 * retained. */
static rg_tensor *derivative(rg_tensor *y, rg_tensor *x, rg_tensor *gradient, bool create_graph) {
    rg_tensor *g = RG_NONE;
    if (y->history)
        g = rg_grad(y, x, .gradient = gradient, .retain_graph = true, .create_graph = create_graph,
                    .allow_unused = true);
    return g == RG_NONE ? rg_zeros_like(x) : g;
}

static bool is_argument(const derived *d) {
    RG_FAIL_INDEX_IF(d->argnum < 0 || d->argnum >= d->n, d->op, "there is no input %lld of %d",
                     (long long)d->argnum, d->n);
    RG_FAIL_IF(!is_real(d, (int)d->argnum), d->op,
               "only Tensors of floating point dtype can require gradients");
    return true;
}

/* Fails unless v is a tensor with the shape of `as`. */
static bool vector_fits(const char *op, rg_tensor *v, const rg_tensor *as) {
    if (!rgi_check(v, op))
        return false;
    RG_FAIL_IF(!rgi_same_shape(v, as), op,
               "v has invalid size: should be torch.Size(%s) but got torch.Size(%s).",
               RG_SHAPE_TEXT(as), RG_SHAPE_TEXT(v));
    return true;
}

/* ---- stacking many results -------------------------------------------------------------- */

/* Calls one(at, context) for at = from, .., from + n - 1. Returns the results, stacked along dim,
 * or NULL on failure. At most AT_ONCE tensors are stacked at a time. If there are more, each half
 * is stacked, and the halves are joined. */
static rg_tensor *stack_of(rg_tensor *(*one)(int64_t at, void *context), void *context,
                           int64_t from, int64_t n, int dim) {
    enum { AT_ONCE = 512 };
    if (n > AT_ONCE) {
        rg_tensor *first = stack_of(one, context, from, n / 2, dim);
        rg_tensor *rest = first ? stack_of(one, context, from + n / 2, n - n / 2, dim) : NULL;
        return rg_cat((rg_list){ 2, (rg_tensor *[]){ first, rest } }, dim);
    }
    rg_tensor *part[AT_ONCE];
    for (int i = 0; i < n; i++) {
        part[i] = one(from + i, context);
        if (!part[i])
            return NULL;
    }
    return rg_stack((rg_list){ (int)n, part }, dim);
}

/* ---- Jacobians and Hessians ----------------------------------------------------------- */

/* Returns a tensor with the shape and dtype of t, in which element number `at` is 1 and all others
 * are 0. */
static rg_tensor *unit_vector(const rg_tensor *t, int64_t at) {
    rg_tensor *e = rgi_own(rgi_new((rg_dtype)t->dtype, t->ndim, t->size));
    if (!e)
        return NULL;
    rgi_fill_zero(e);
    rgi_store_f64(e->data + at * (int64_t)rgi_sizeof((rg_dtype)e->dtype), (rg_dtype)e->dtype, 1);
    return e;
}

/* Sets *shape to the sizes of y followed by those of x. Fails if these are more than
 * RG_MAX_DIMS. */
static bool joined_shape(const char *op, const rg_tensor *y, const rg_tensor *x, rg_dims *shape) {
    RG_FAIL_IF(y->ndim + x->ndim > RG_MAX_DIMS, op,
               "the Jacobian of %d by %d dims has more than the %d that a tensor may have", y->ndim,
               x->ndim, RG_MAX_DIMS);
    shape->n = y->ndim + x->ndim;
    for (int d = 0; d < y->ndim; d++)
        shape->v[d] = y->size[d];
    for (int d = 0; d < x->ndim; d++)
        shape->v[y->ndim + d] = x->size[d];
    return true;
}

/* The arguments of row_of, which computes row e of a matrix of derivatives: the derivatives of
 * element e of y by all elements of x. */
typedef struct {
    rg_tensor *y, *x;
    bool create_graph;
} derived_rows;

/* Returns row e as a vector: the gradient of x if the gradient of y is 1 at element e and 0
 * elsewhere. Returns NULL on failure. */
static rg_tensor *row_of(int64_t e, void *context) {
    const derived_rows *rows = context;
    rg_tensor *unit = unit_vector(rows->y, e);
    if (!unit)
        return NULL;
    return rg_reshape(derivative(rows->y, rows->x, unit, rows->create_graph), rows->x->numel);
}

/* Returns the matrix of derivatives: row e has the derivatives of element e of y by all elements of
 * x. Unless a graph is created or a step is recorded, each row is copied into the matrix and
 * released before the next row is computed, which saves memory. */
static rg_tensor *rows_of(rg_tensor *y, rg_tensor *x, bool create_graph) {
    derived_rows made = { y, x, create_graph };
    if ((create_graph || rgi_this.observer) && y->numel > 0)
        return stack_of(row_of, &made, 0, y->numel, 0);
    const rg_dims shape = { .n = 2, .v = { y->numel, x->numel } };
    rg_tensor *rows = rg_zeros_dims(shape, (rg_dtype)x->dtype);
    const size_t bytes = (size_t)x->numel * rgi_sizeof((rg_dtype)x->dtype);
    RG_FOR (int64_t e = 0; rows && e < y->numel; e++) {
        rg_tensor *row = rg_contiguous(row_of(e, &made));
        if (!row)
            return NULL;
        memcpy(rows->data + (size_t)e * bytes, row->data, bytes);
    }
    return rows;
}

/* Computes the Jacobian row by row. Each row is the derivative of one element of y. */
static rg_tensor *jacobian_by_rows(const derived *d, rg_tensor *x) {
    return rows_of(d->y, x, d->create_graph);
}

/* Computes the Jacobian column by column. The gradient g = u^T J is linear in u, so that dg / du is
 * the transpose of J. */
static rg_tensor *jacobian_by_columns(const derived *d, rg_tensor *x) {
    rg_tensor *u = rg_requires_grad_(rg_zeros_like(d->y), true);
    rg_tensor *g = u ? derivative(d->y, x, u, true) : NULL;
    return g ? rg_T(rows_of(g, u, d->create_graph)) : NULL;
}

static rg_tensor *whole_jacobian(derived d, rg_tensor *const inputs[],
                                 rg_tensor *(*made)(const derived *d, rg_tensor *x)) {
    RG_SCOPE();
    RG_NORMAL_MODE();
    rg_dims shape;
    if (!run_derived(&d, inputs) || !is_argument(&d)
        || !joined_shape(d.op, d.y, d.in[d.argnum], &shape))
        return NULL;
    rg_tensor *matrix = made(&d, d.in[d.argnum]);
    return rg_escape(outcome(&d, rg_reshape_dims(matrix, shape)));
}

rg_tensor *(rg_jacrev_with)(rg_function *f, void *context, int n, rg_tensor *const inputs[],
                            rg_derivative_options options) {
    const derived d = derived_of("jacrev", f, context, n, options.argnum, options.create_graph);
    return whole_jacobian(d, inputs, jacobian_by_rows);
}

rg_tensor *(rg_jacfwd_with)(rg_function *f, void *context, int n, rg_tensor *const inputs[],
                            rg_derivative_options options) {
    const derived d = derived_of("jacfwd", f, context, n, options.argnum, options.create_graph);
    return whole_jacobian(d, inputs, jacobian_by_columns);
}

typedef struct {
    rg_function *f;
    void *context;
    int n;
    int64_t argnum;
} inner_jacobian;

static rg_tensor *jacobian_as_function(rg_tensor *const inputs[], void *context) {
    const inner_jacobian *inner = context;
    const rg_derivative_options options = { .argnum = inner->argnum, .create_graph = true };
    return rg_jacrev_with(inner->f, inner->context, inner->n, inputs, options);
}

rg_tensor *(rg_hessian_with)(rg_function *f, void *context, int n, rg_tensor *const inputs[],
                             rg_derivative_options options) {
    RG_AS("hessian");
    RG_FAIL_AS_IF(RG_TYPE_ERROR, !f, "hessian", "expected a function and its inputs but got NULL");
    inner_jacobian inner = { f, context, n, options.argnum };
    return rg_jacrev_with(jacobian_as_function, &inner, n, inputs, options);
}

/* ---- products of Jacobians or Hessians and vectors -------------------------------------- */

/* Computes the derivatives of y by all floating-point inputs, where v is the gradient of y. The
 * results for other inputs are RG_NONE. Returns false on failure. */
static bool derivatives(const derived *d, rg_tensor *y, rg_tensor *v, bool create_graph,
                        rg_tensor *results[]) {
    if (!rgi_check(v, d->op))
        return false;
    for (int i = 0; i < d->n; i++)
        results[i] = RG_NONE;
    int m = 0;
    rg_tensor *x[MOST_DERIVED], *g[MOST_DERIVED];
    for (int i = 0; i < d->n; i++)
        if (is_real(d, i))
            x[m++] = d->in[i];
    const rg_backward_options options = { .retain_graph = true,
                                          .create_graph = create_graph,
                                          .allow_unused = true };
    if (y->history && m && !rg_grad_many(1, &y, &v, m, x, g, options))
        return false;
    m = 0;
    for (int i = 0; i < d->n; i++) {
        if (!is_real(d, i))
            continue;
        rg_tensor *it = y->history ? g[m++] : RG_NONE;
        results[i] = it == RG_NONE ? rg_zeros_like(d->in[i]) : it;
        if (!results[i])
            return false;
    }
    return true;
}

/* Sets the n results to NULL. Fails if `results` itself is NULL. */
static bool begin_results(const char *op, int n, rg_tensor *results[]) {
    if (!rgi_given(results, op, "room for the results"))
        return false;
    for (int i = 0; i < n; i++)
        results[i] = NULL;
    return true;
}

/* If `ok` is true, gives y and the n results to the outer scope, and returns y. If `ok` is false,
 * or if y or a result can't be detached, sets all results to NULL and returns NULL. */
static rg_tensor *hand_out(const derived *d, bool ok, int n, rg_tensor *results[]) {
    for (int i = 0; i < n && ok; i++) {
        if (results[i] == RG_NONE)
            continue;
        results[i] = outcome(d, results[i]);
        ok = results[i] != NULL;
    }
    rg_tensor *y = ok ? outcome(d, d->y) : NULL;
    for (int i = 0; i < n; i++)
        results[i] = y ? rg_escape(results[i]) : NULL;
    return y ? rg_escape(y) : NULL;
}

rg_tensor *(rg_vjp_with)(rg_function *f, void *context, int n, rg_tensor *const inputs[],
                         rg_tensor *v, rg_tensor *results[], rg_derivative_options options) {
    RG_SCOPE();
    RG_NORMAL_MODE();
    derived d = derived_of("vjp", f, context, n, ALL_INPUTS, options.create_graph);
    if (!begin_results(d.op, n, results) || !run_derived(&d, inputs))
        return NULL;
    RG_FAIL_IF(v == RG_NONE && d.y->numel != 1, d.op,
               "The vector v can only be None if the user-provided function returns a single "
               "Tensor with a single element.");
    if (v == RG_NONE)
        v = rg_ones_like(d.y);
    bool ok = vector_fits(d.op, v, d.y)
              && derivatives(&d, d.y, recordable(v), d.create_graph, results);
    return hand_out(&d, ok, n, results);
}

/* Returns the sum of the inner products <g_i, v_i> over the floating-point inputs i whose vector
 * v[i] isn't RG_NONE. Returns RG_NONE if there is no such input, and NULL on failure. */
static rg_tensor *sum_of_products(const derived *d, rg_tensor *const g[], rg_tensor *const v[]) {
    rg_tensor *sum = RG_NONE;
    for (int i = 0; i < d->n; i++) {
        if (!is_real(d, i) || rgi_is_none(v[i]))
            continue;
        if (!vector_fits(d->op, v[i], d->in[i]))
            return NULL;
        rg_tensor *product = rg_sum(rg_mul(g[i], recordable(v[i])));
        sum = sum == RG_NONE ? product : rg_add(sum, product);
    }
    return sum;
}

rg_tensor *(rg_jvp_with)(rg_function *f, void *context, int n, rg_tensor *const inputs[],
                         rg_tensor *const v[], rg_tensor **result, rg_derivative_options options) {
    RG_SCOPE();
    RG_NORMAL_MODE();
    derived d = derived_of("jvp", f, context, n, ALL_INPUTS, options.create_graph);
    if (!begin_results(d.op, 1, result) || !rgi_given(v, d.op, "vectors")
        || !run_derived(&d, inputs))
        return NULL;
    rg_tensor *g[MOST_DERIVED];
    rg_tensor *u = rg_requires_grad_(rg_zeros_like(d.y), true);
    bool ok = derivatives(&d, d.y, u, true, g);
    rg_tensor *sum = ok ? sum_of_products(&d, g, v) : NULL;
    /* If all vectors are RG_NONE, `sum` is RG_NONE, and `derivative` returns zeros. */
    *result = sum ? derivative(sum, u, RG_NONE, d.create_graph) : NULL;
    return hand_out(&d, *result != NULL, 1, result);
}

rg_tensor *(rg_hvp_with)(rg_function *f, void *context, int n, rg_tensor *const inputs[],
                         rg_tensor *const v[], rg_tensor *results[],
                         rg_derivative_options options) {
    RG_SCOPE();
    RG_NORMAL_MODE();
    derived d = derived_of("hvp", f, context, n, ALL_INPUTS, options.create_graph);
    if (!begin_results(d.op, n, results) || !rgi_given(v, d.op, "vectors")
        || !run_derived(&d, inputs))
        return NULL;
    RG_FAIL_IF(d.y->numel != 1, d.op,
               "The Tensor returned by the function given to hvp should contain a single element");
    rg_tensor *g[MOST_DERIVED];
    bool ok = derivatives(&d, d.y, rg_ones_like(d.y), true, g);
    rg_tensor *sum = ok ? sum_of_products(&d, g, v) : NULL;
    if (sum == RG_NONE)
        sum = rg_zeros_like(d.y);
    ok = sum && derivatives(&d, sum, rg_ones_like(sum), d.create_graph, results);
    return hand_out(&d, ok, n, results);
}

/* ---- vmap: one call of f for each example -------------------------------------------------- */

/* Sets dim[i] to the dim of input i along which the examples lie, or to -1 if all examples get the
 * whole input. Sets *count to the number of examples. Fails if two inputs have different numbers of
 * examples, if the number is 0, or if every dim[i] is -1. */
static bool find_examples(int n, rg_tensor *const inputs[], const rg_dims *in_dims, int dim[],
                          int64_t *count) {
    *count = -1;
    for (int i = 0; i < n; i++) {
        int64_t in = in_dims->n ? in_dims->v[i] : 0;
        dim[i] = -1;
        if (rgi_is_none(inputs[i]) || in == RG_UNMAPPED)
            continue;
        if (!rgi_check(inputs[i], "vmap"))
            return false;
        const int ndim = inputs[i]->ndim;
        RG_FAIL_VALUE_IF(in < -ndim || in >= ndim, "vmap",
                         "Got in_dim=%lld for some input, but that input is a Tensor of "
                         "dimensionality %d so expected in_dim to satisfy -%d <= in_dim < %d.",
                         (long long)in, ndim, ndim, ndim);
        dim[i] = (int)(in < 0 ? in + ndim : in);
        const int64_t size = inputs[i]->size[dim[i]];
        RG_FAIL_VALUE_IF(*count >= 0 && *count != size, "vmap",
                         "Expected all tensors to have the same size in the mapped dimension, got "
                         "sizes [%lld, %lld] for the mapped dimension",
                         (long long)*count, (long long)size);
        *count = size;
    }
    RG_FAIL_VALUE_IF(*count < 0, "vmap", "no input has a dim along which its examples lie");
    RG_FAIL_VALUE_IF(*count == 0, "vmap", "there is no example to call the function with");
    return true;
}

/* The state of rg_vmap. dim[i] is the dim of inputs[i] along which the examples lie. It is -1 if
 * all examples get the whole input. */
typedef struct {
    rg_function *f;
    void *context;
    int n;
    rg_tensor *const *inputs;
    int dim[MOST_DERIVED];
} mapped_function;

static rg_tensor *result_of_example(int64_t at, void *context) {
    const mapped_function *m = context;
    RG_SCOPE();
    rg_tensor *in[MOST_DERIVED + RG_INPUTS_BEHIND];
    rgi_inputs_end(in, m->n);
    for (int i = 0; i < m->n; i++) {
        in[i] = m->dim[i] < 0 ? m->inputs[i] : rg_select(m->inputs[i], m->dim[i], at);
        if (!in[i])
            return NULL;
    }
    const int64_t before = rgi_failures();
    rg_tensor *y = m->f(in, m->context);
    return rgi_returned(y, before, "vmap") ? rg_escape(y) : NULL;
}

rg_tensor *(rg_vmap_with)(rg_function *f, void *context, int n, rg_tensor *const inputs[],
                          rg_vmap_options options) {
    RG_SCOPE();
    RG_FAIL_AS_IF(RG_TYPE_ERROR, !f || !inputs, "vmap",
                  "expected a function and its inputs but got NULL");
    RG_FAIL_VALUE_IF(n < 1 || n > MOST_DERIVED, "vmap", "takes 1 to %d inputs, but got %d",
                     MOST_DERIVED, n);
    RG_FAIL_VALUE_IF(options.in_dims.n && options.in_dims.n != n, "vmap",
                     "in_dims has %d dims for %d inputs", options.in_dims.n, n);
    mapped_function m = { .f = f, .context = context, .n = n, .inputs = inputs };
    int64_t count;
    if (!find_examples(n, inputs, &options.in_dims, m.dim, &count))
        return NULL;
    const int dim = rgi_nearest_int(options.out_dim);
    rg_tensor *all = stack_of(result_of_example, &m, 0, count, dim);
    return all ? rg_escape(all) : NULL;
}
