/*
 * gradcheck.c: gradcheck, which compares the gradients of a function with finite differences. A
 * column of the Jacobian is measured by moving one element of one input by eps in both directions.
 * A row is computed by a backward run from one element of an output.
 *
 * This file is long because gradgradcheck is a gradcheck of the function's derivative, and works
 * on the same structs.
 */
#include "autograd/tools/inputs.h"
#include "autograd/rebase.h"
#include "tensor/dtype.h"
#include "tensor/kernels/limits.h"
#include "tensor/messages/callback.h"
#include "tensor/observer.h"
#include "tensor/text/digits.h"
#include "tensor/text/text.h"

#include <math.h>
#include <string.h>

/* The arguments of a check. If the function returns a tensor, it is f, and `many` is NULL. If it
 * returns a list of outputs, it is `many`, and f is NULL. `op` is the name of the function that the
 * user called. */
typedef struct check {
    const char *op;
    rg_function *f;
    rg_list_function *many;
    void *context;
    int n;
    rg_tensor *const *inputs;
    rg_gradcheck_options options;
    /* Used by gradgradcheck: the number of outputs that required grad in the first call of the
     * function. */
    int cotangents;
    /* The check of the user's function if f is its derivative, as in gradgradcheck. NULL if f or
     * `many` is the user's function. */
    const struct check *second;
} check;

/* The outputs of a call. v[] has copies of the pointers to them, since the function may write to
 * its own array of pointers in its next call. */
enum { MOST_OUTPUTS = 64 };
typedef struct {
    int n;
    rg_tensor *v[MOST_OUTPUTS];
} outputs;

/* A mismatch. The derivative of element `out` of output number `output` by element `at` of input
 * number `input` has the value `analytic` by a backward run, and `numeric` by finite differences.
 * `excess` is the amount by which their difference is above the tolerance. */
typedef struct {
    int input, output;
    int64_t at, out;
    double analytic, numeric, excess;
} mismatch;

/* Returns the indices of element number `at` of t, where the elements are numbered in row-major
 * order. */
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

/* Calls the function, and stores its outputs in *y. Returns false if the function failed or
 * returned a tensor that isn't valid. */
static bool call_function(const check *c, outputs *y) {
    rg_tensor *in[RG_MAX_INPUTS + RG_INPUTS_BEHIND];
    rgi_inputs_copy(in, c->n, c->inputs);
    const int64_t before = rgi_failures();
    rg_tensor *one = c->f ? c->f(in, c->context) : RG_NONE;
    rg_list list = c->f ? (rg_list){ 1, &one } : c->many(in, c->context);
    if (!rgi_called(one, before, RG_TYPE_ERROR, c->op, "expected a tensor but got NULL")
        || !rgi_called(list.n >= 0, before, RG_TYPE_ERROR, c->op,
                       "expected a list but got one that failed")
        || !rgi_given_list(list.n, list.v, c->op))
        return false;
    RG_FAIL_VALUE_IF(list.n > MOST_OUTPUTS, c->op, "takes up to %d outputs, but got %d",
                     MOST_OUTPUTS, list.n);
    y->n = list.n;
    for (int k = 0; k < y->n; k++) {
        y->v[k] = list.v[k];
        if (!rgi_check(y->v[k], c->op) || !rgi_renew(y->v[k], c->op))
            return false;
    }
    return true;
}

/* Returns the number of elements of all outputs together. */
static int64_t elements_of(const outputs *y) {
    int64_t n = 0;
    for (int k = 0; k < y->n; k++)
        n += y->v[k]->numel;
    return n;
}

/* Fails with torch's error message if the number, the shapes or the dtypes of the outputs y differ
 * from those of the first call. */
static bool outputs_alike(const check *c, const outputs *first, const outputs *y) {
    RG_FAIL_IF(y->n != first->n, c->op,
               "Expected `func` to return as many outputs in each call, but got %d and %d",
               first->n, y->n);
    for (int k = 0; k < y->n; k++) {
        const rg_tensor *a = first->v[k];
        const rg_tensor *b = y->v[k];
        RG_FAIL_IF(
            !rgi_same_shape(a, b), c->op,
            "Expected `func` to return outputs with the same shape when inputs are perturbed "
            "by %s, but got: shapes torch.Size(%s) and torch.Size(%s).",
            rgi_number(c->options.eps), RG_SHAPE_TEXT(a), RG_SHAPE_TEXT(b));
        RG_FAIL_IF(
            a->dtype != b->dtype, c->op,
            "Expected `func` to return outputs with the same dtype when inputs are perturbed "
            "by %s, but got: dtypes %s and %s.",
            rgi_number(c->options.eps), rg_dtype_name(a->dtype), rg_dtype_name(b->dtype));
    }
    return true;
}

/* Calls the function, and returns the elements of all its outputs as one float64 vector, which the
 * caller's scope owns. The values are copied, since a function may return one of its inputs, and
 * the check changes inputs later. Returns NULL on failure. */
static rg_tensor *values_of(const check *c, const outputs *first) {
    RG_SCOPE();
    outputs y;
    if (!call_function(c, &y) || !outputs_alike(c, first, &y))
        return NULL;
    rg_tensor *values = rgi_own(rgi_new(RG_FLOAT64, 1, (int64_t[]){ elements_of(&y) }));
    double *to = values ? (double *)values->data : NULL;
    for (int k = 0; k < y.n && values; k++) {
        rg_tensor *part = rgi_own(rgi_contiguous_copy(y.v[k], RG_FLOAT64));
        if (!part)
            return NULL;
        memcpy(to, part->data, (size_t)part->numel * sizeof *to);
        to += part->numel;
    }
    return rg_escape(values);
}

/* Returns the measured column of the Jacobian for x, element `at` of input number `input`: (f(x +
 * eps) - f(x - eps)) / (2 * eps). Returns NULL on failure. */
static rg_tensor *numeric_column(const check *c, const outputs *first, int input, int64_t at) {
    RG_SCOPE();
    double *x = element(c->inputs[input], at);
    double before = *x;
    double eps = c->options.eps;
    *x = before + eps;
    rg_tensor *column = values_of(c, first);
    *x = before - eps;
    const rg_tensor *below = column ? values_of(c, first) : NULL;
    *x = before;
    if (!below)
        return NULL;
    double *slope = (double *)column->data;
    for (int64_t i = 0; i < column->numel; i++)
        slope[i] = (slope[i] - ((const double *)below->data)[i]) / (2 * eps);
    return rg_escape(column);
}

/* The computed Jacobian. of[i] has the columns for input i, or is NULL if input i doesn't require
 * grad. A row belongs to an element of the outputs, and `out` numbers the elements of all outputs.
 * The value for element `at` of input i in row `out` is of[i][out * numel + at], where numel is the
 * number of elements of input i. reached[i] says whether any gradient reached input i. */
typedef struct {
    double *of[RG_MAX_INPUTS];
    bool reached[RG_MAX_INPUTS];
} jacobian;

/* Runs backward from one element of the output y, and stores the gradients in row `out` of *j. */
static bool analytic_row(const check *c, rg_tensor *y, int64_t element_of_y, jacobian *j,
                         int64_t out) {
    RG_SCOPE();
    int m = 0;
    rg_tensor *wanted[RG_MAX_INPUTS], *g[RG_MAX_INPUTS];
    for (int i = 0; i < c->n; i++)
        if (j->of[i])
            wanted[m++] = c->inputs[i];
    rg_tensor *one = rg_zeros_dims(rg_shape(y), y->dtype);
    if (!one)
        return false;
    rgi_store_f64(one->data + element_of_y * (int64_t)rgi_sizeof(y->dtype), y->dtype, 1);
    if (!rg_grad_many(1, &y, &one, m, wanted, g,
                      (rg_backward_options){ .retain_graph = true, .allow_unused = true }))
        return false;
    m = 0;
    for (int i = 0; i < c->n; i++) {
        if (!j->of[i])
            continue;
        rg_tensor *row = g[m++];
        j->reached[i] |= row != RG_NONE;
        for (int64_t at = 0; at < c->inputs[i]->numel; at++)
            j->of[i][out * c->inputs[i]->numel + at] = row == RG_NONE ? 0 : *element(row, at);
    }
    return true;
}

static bool analytic_rows(const check *c, const outputs *y, jacobian *j) {
    int64_t out = 0;
    for (int k = 0; k < y->n; k++) {
        rg_tensor *output = y->v[k];
        for (int64_t e = 0; e < output->numel; e++, out++)
            if (output->history && !analytic_row(c, output, e, j, out))
                return false;
    }
    return true;
}

/* Allocates the Jacobian, filled with zeros. The scope owns its memory. Returns false if memory ran
 * out. */
static bool jacobian_new(const check *c, const outputs *y, jacobian *j) {
    for (int i = 0; i < c->n; i++) {
        j->of[i] = NULL;
        j->reached[i] = false;
        if (!c->inputs[i]->history)
            continue;
        rg_tensor *room =
            rgi_own(rgi_new(RG_FLOAT64, 2, (int64_t[]){ elements_of(y), c->inputs[i]->numel }));
        if (!room)
            return false;
        rgi_fill_zero(room);
        j->of[i] = (double *)room->data;
    }
    return true;
}

/* Fails with torch's error message unless a second backward run computes the same gradients, up to
 * nondet_tol. */
static bool backward_repeats(const check *c, const outputs *y, const jacobian *j) {
    RG_SCOPE();
    jacobian again;
    if (!jacobian_new(c, y, &again) || !analytic_rows(c, y, &again))
        return false;
    for (int i = 0; i < c->n; i++)
        for (int64_t e = 0; j->of[i] && e < elements_of(y) * c->inputs[i]->numel; e++)
            RG_FAIL_IF(fabs(j->of[i][e] - again.of[i][e]) > c->options.nondet_tol, c->op,
                       "Backward is not reentrant, i.e., running backward with same input and "
                       "grad_output multiple times gives different values, although analytical "
                       "gradient matches numerical gradient."
                       "The tolerance for nondeterminism was %s.",
                       rgi_python_float(c->options.nondet_tol));
    return true;
}

/* Returns by how much the difference between the two values is above the tolerance, or 0 if they
 * agree. An infinity agrees with the same infinity, and NaN agrees with nothing. */
static double excess_of(const check *c, double analytic, double numeric) {
    if (analytic == numeric)
        return 0;
    double tolerance = c->options.atol + c->options.rtol * fabs(numeric);
    double excess = fabs(analytic - numeric) - tolerance;
    if (isnan(excess))
        return INFINITY;
    return fmax(excess, 0);
}

/* Compares one column of the Jacobian, for element `at` of input number `input`. If the worst
 * mismatch of the column has a larger excess than *worst, stores it in *worst. `any` is true if any
 * output has a history. Then only outputs with a history are compared. If no output has a history,
 * all measured values must be 0. Returns false if the column can't be measured. */
static bool compare_column(const check *c, const outputs *y, bool any, const jacobian *j, int input,
                           int64_t at, mismatch *worst) {
    RG_SCOPE();
    const rg_tensor *column = numeric_column(c, y, input, at);
    if (!column)
        return false;
    int64_t out = 0;
    for (int k = 0; k < y->n; k++) {
        const rg_tensor *output = y->v[k];
        for (int64_t e = 0; e < output->numel; e++, out++) {
            double numeric = ((const double *)column->data)[out];
            double analytic = j->of[input][out * c->inputs[input]->numel + at];
            double excess = any && !output->history ? 0 : excess_of(c, analytic, numeric);
            if (excess > worst->excess)
                *worst = (mismatch){ input, k, at, e, analytic, numeric, excess };
        }
    }
    return true;
}

/* Returns whether two more calls of the function return the same values. Also returns true if a
 * call fails. */
static bool forward_repeats(const check *c, const outputs *y) {
    RG_SCOPE();
    const rg_tensor *a = values_of(c, y);
    const rg_tensor *b = a ? values_of(c, y) : NULL;
    return !b || memcmp(a->data, b->data, (size_t)a->numel * sizeof(double)) == 0;
}

/* Moves the input element with the worst mismatch a little, and calls the function. Returns whether
 * the function probably computes in float32. This is so if float32 can hold each value of the
 * outputs exactly, and at least one value isn't a multiple of 1/2. */
static bool computes_in_float32(const check *c, const outputs *y, const mismatch *worst) {
    RG_SCOPE();
    double *x = element(c->inputs[worst->input], worst->at), before = *x;
    *x = before + c->options.eps / 3;
    const rg_tensor *values = values_of(c, y);
    *x = before;
    bool odd = false;
    for (int64_t e = 0; values && e < values->numel; e++) {
        double v = ((const double *)values->data)[e];
        if (v != (double)(float)v)
            return false;
        odd = odd || 2 * v != trunc(2 * v);
    }
    return odd;
}

/* Runs backward with a gradient of zeros for the output with the worst mismatch. Returns whether
 * the gradient of the input with this mismatch has a finite element that isn't 0. Returns false if
 * the run fails. */
static bool ignores_output_gradient(const check *c, const outputs *y, const mismatch *worst) {
    RG_SCOPE();
    rg_tensor *output = y->v[worst->output], *x = c->inputs[worst->input], *g = NULL;
    if (!output->history)
        return false;
    rg_tensor *zeros = rg_zeros_like(output);
    if (!zeros
        || !rg_grad_many(1, &output, &zeros, 1, &x, &g,
                         (rg_backward_options){ .retain_graph = true, .allow_unused = true }))
        return false;
    bool any = false;
    for (int64_t at = 0; g != RG_NONE && at < x->numel; at++)
        any = any || (isfinite(*element(g, at)) && *element(g, at) != 0);
    return any;
}

/* Compares the analytical and the numerical Jacobian of the output and the input with the worst
 * mismatch. Returns r if each analytical value is r times the numerical one. Returns 0 if there is
 * no such r, or on failure. If at most one numerical value is above atol, there nearly always is an
 * r, and 0 is returned unless r is about -1. */
static double common_factor(const check *c, const outputs *y, const jacobian *j,
                            const mismatch *worst) {
    const rg_tensor *x = c->inputs[worst->input];
    const double r = worst->analytic / worst->numeric;
    int64_t first = 0, compared = 0;
    if (!isfinite(r))
        return 0;
    for (int k = 0; k < worst->output; k++)
        first += y->v[k]->numel;
    for (int64_t at = 0; at < x->numel; at++) {
        RG_SCOPE();
        const rg_tensor *column = numeric_column(c, y, worst->input, at);
        if (!column)
            return 0;
        const int64_t end = first + y->v[worst->output]->numel;
        for (int64_t out = first; out < end; out++) {
            const double numeric = ((const double *)column->data)[out];
            compared += fabs(numeric) > c->options.atol;
            if (excess_of(c, j->of[worst->input][out * x->numel + at], r * numeric) > 0)
                return 0;
        }
    }
    return compared > 1 || fabs(r + 1) < c->options.rtol ? r : 0;
}

/* Returns a sentence that says that each analytical value is r times the numerical one, or "" if
 * memory runs out. */
static const char *factor_in_words(const check *c, double r) {
    rg_text text = { 0 };
    rgi_text_add(&text, ". Each analytical value for this output and input is ");
    if (fabs(r + 1) < c->options.rtol)
        rgi_text_add(&text, "the numerical one with the wrong sign");
    else
        rgi_text_add(&text, "%s times the numerical one", rgi_number_of_digits(6, r));
    const char *words = rgi_text_own(&text);
    return words ? words : "";
}

/* Returns the sentence about an input that no gradient reaches. */
static const char *why_unreached(const check *c) {
    return c->second ? ". No gradient reaches that input: does the backward of an op of your own "
                       "compute with loops? Write it in regard's functions, or set "
                       ".once_differentiable = true in the op's class. Or is the input detached on "
                       "its way, by rg_detach, RG_NO_GRAD or rg_item?"
                     : ". No gradient reaches that input: is it detached on its way, by rg_detach, "
                       "RG_NO_GRAD, rg_item or a loop over rg_data?";
}

/* Returns a sentence about the likely cause of a mismatch, or "" if no cause was found. */
static const char *likely_cause(const check *c, const outputs *y, const jacobian *j,
                                const uint32_t versions[], const mismatch *worst) {
    for (int i = 0; i < c->n; i++)
        if (!rgi_is_none(c->inputs[i]) && c->inputs[i]->storage->version != versions[i])
            return ". The function writes to one of its inputs in place";
    if (!forward_repeats(c, y))
        return ". The function isn't deterministic: it gives other values for the same inputs. "
               "Does it drop out, or draw random numbers?";
    if (!j->reached[worst->input])
        return why_unreached(c);
    if (!*rg_error_peek() && ignores_output_gradient(c, y, worst))
        return ". The input's gradient isn't 0 even if the output's is: does a backward function "
               "leave out g[0]?";
    if (!*rg_error_peek() && computes_in_float32(c, y, worst))
        return ". The values have the precision of float32: does a loop compute in float?";
    const double r = *rg_error_peek() ? 0 : common_factor(c, y, j, worst);
    return r != 0 ? factor_in_words(c, r) : "";
}

/* Returns a tensor of the shape of the output with the mismatch. In a gradgradcheck, the output is
 * a vector of all gradients, joined. Then this function sets worst->output to the number of the
 * gradient with the mismatch, and worst->out to the number of the element in that gradient. It
 * returns the input to which the gradient belongs. */
static const rg_tensor *place_of(const check *c, const outputs *y, mismatch *worst) {
    for (int i = 0; c->second && i < c->second->n; i++) {
        const rg_tensor *x = c->inputs[i];
        if (!x->history)
            continue;
        if (worst->out < x->numel)
            return x;
        worst->out -= x->numel;
        worst->output++;
    }
    return y->v[worst->output];
}

/* Returns the name of the output's node. In a gradgradcheck, the program didn't make the output,
 * which is a vector of gradients. */
static const char *origin_of_output(const check *c, const rg_tensor *output) {
    if (c->second)
        return "the outputs are the gradients of the inputs";
    return output->history ? rgi_node_name(rgi_node_of(output)) : "a result without history";
}

static bool report_mismatch(const check *c, const outputs *y, bool any, const jacobian *j,
                            const uint32_t versions[], mismatch *worst) {
    const rg_tensor *output = y->v[worst->output];
    rg_dims in = position(c->inputs[worst->input], worst->at);
    const char *name = rgi_name_of(c->inputs[worst->input]); /* A parameter's path, for example. */
    rg_failure before;
    rgi_set_failure_aside(&before);
    const char *cause = likely_cause(c, y, j, versions, worst);
    /* A failure in the search for the cause is ignored: the error that is reported is the
     * mismatch. */
    rgi_forget_failure();
    rgi_bring_failure_back(&before);
    const rg_tensor *place = place_of(c, y, worst);
    rg_dims out = position(place, worst->out);
    return rgi_fail(
        RG_RUNTIME_ERROR, c->op,
        "%sJacobian mismatch for output %d with respect to input %d%s%s: at output %s and "
        "input %s the analytical value is %s but the numerical one is %s (%s)%s",
        any ? "" : "Numerical gradient for function expected to be zero. ", worst->output,
        worst->input, name ? ", " : "", name ? name : "", RG_DIMS_TEXT(&out), RG_DIMS_TEXT(&in),
        rgi_number_of_digits(12, worst->analytic), rgi_number_of_digits(12, worst->numeric),
        origin_of_output(c, output), cause);
}

static bool jacobian_check(const check *c, const outputs *y, const uint32_t versions[]) {
    mismatch worst = { .excess = 0 };
    jacobian j;
    bool any = false;
    for (int k = 0; k < y->n; k++)
        any |= y->v[k]->history != NULL;
    if (!jacobian_new(c, y, &j) || !analytic_rows(c, y, &j) || !backward_repeats(c, y, &j))
        return false;
    for (int i = 0; i < c->n; i++)
        for (int64_t at = 0; j.of[i] && at < c->inputs[i]->numel; at++)
            if (!compare_column(c, y, any, &j, i, at, &worst))
                return false;
    return worst.excess == 0 || report_mismatch(c, y, any, &j, versions, &worst);
}

static bool takes_arguments(const char *op, bool f, int n, int most, rg_tensor *const inputs[]) {
    RG_FAIL_AS_IF(RG_TYPE_ERROR, !f || (n > 0 && !inputs), op,
                  "expected a function and its inputs but got NULL");
    return (n >= 0 && n <= most)
           || rgi_fail(RG_VALUE_ERROR, op, "takes up to %d inputs, but got %d", most, n);
}

/* Fails unless at least one input requires grad, and every input that does is float64 and has no
 * two elements in the same memory. */
static bool inputs_check(const char *op, int n, rg_tensor *const inputs[]) {
    int checked = 0;
    for (int i = 0; i < n; i++) {
        if (!rgi_is_none(inputs[i]) && !(rgi_check(inputs[i], op) && rgi_renew(inputs[i], op)))
            return false;
        if (!inputs[i]->history)
            continue;
        checked++;
        RG_FAIL_VALUE_IF(!rgi_suits_differences(inputs[i]->dtype), op,
                         "input %d requires gradient and is not a float64 tensor: rg_double it, or "
                         "rg_module_to(model, RG_FLOAT64)",
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

static bool gradcheck_as(const check *c) {
    outputs y;
    uint32_t versions[RG_MAX_INPUTS];
    if (!rgi_may_do_once(c->op)
        || !takes_arguments(c->op, c->f || c->many, c->n, RG_MAX_INPUTS, c->inputs)
        || !inputs_check(c->op, c->n, c->inputs))
        return false;
    for (int i = 0; i < c->n; i++)
        versions[i] = rgi_is_none(c->inputs[i]) ? 0 : c->inputs[i]->storage->version;
    return call_function(c, &y) && jacobian_check(c, &y, versions);
}

bool(rg_gradcheck_with)(rg_function *f, void *context, int n, rg_tensor *const inputs[],
                        rg_gradcheck_options options) {
    RG_SCOPE();
    RG_ENABLE_GRAD();
    return gradcheck_as(&(check){ .op = "gradcheck",
                                  .f = f,
                                  .context = context,
                                  .n = n,
                                  .inputs = inputs,
                                  .options = options });
}

bool(rg_gradcheck_list_with)(rg_list_function *f, void *context, int n, rg_tensor *const inputs[],
                             rg_gradcheck_options options) {
    RG_SCOPE();
    RG_ENABLE_GRAD();
    return gradcheck_as(&(check){ .op = "gradcheck",
                                  .many = f,
                                  .context = context,
                                  .n = n,
                                  .inputs = inputs,
                                  .options = options });
}

/* ---- gradgradcheck ------------------------------------------------------------------
 * Each output that requires grad gets a gradient, called its cotangent. The gradients of the inputs
 * are then a function of the inputs and the cotangents. That function is checked as any other
 * function is. */

/* Stores in kept[] those outputs of y that require grad. Returns their number. */
static int differentiable(const outputs *y, rg_tensor *kept[MOST_OUTPUTS]) {
    int m = 0;
    for (int k = 0; k < y->n; k++)
        if (y->v[k]->history)
            kept[m++] = y->v[k];
    return m;
}

/* The function whose gradients gradgradcheck checks. *context is the check of the user's function.
 * inputs[] are the inputs of the user's function, followed by the cotangents of its outputs that
 * require grad. Returns the gradients of the inputs that require grad, joined to one vector.
 * Returns NULL on failure. */
static rg_tensor *derivative_of(rg_tensor *const inputs[], void *context) {
    check c = *(const check *)context;
    outputs y;
    int m = 0;
    rg_tensor *out[MOST_OUTPUTS], *wanted[RG_MAX_INPUTS], *g[RG_MAX_INPUTS];
    c.inputs = inputs;
    if (!call_function(&c, &y))
        return NULL;
    for (int i = 0; i < c.n; i++)
        if (inputs[i]->history)
            wanted[m++] = inputs[i];
    int n_out = differentiable(&y, out);
    RG_FAIL_IF(n_out != c.cotangents, c.op,
               "the function had %d outputs that require grad, and now has %d", c.cotangents,
               n_out);
    if (!rg_grad_many(n_out, out, inputs + c.n, m, wanted, g,
                      (rg_backward_options){ .create_graph = true, .allow_unused = true }))
        return NULL;
    for (int j = 0; j < m; j++) {
        if (g[j] == RG_NONE)
            g[j] = rg_zeros_like(wanted[j]);
        g[j] = rg_reshape(g[j], -1);
    }
    return rg_cat((rg_list){ m, g }, 0);
}

/* Returns a tensor with the shape and dtype of y, and with fixed values of both signs, from 0.5 to
 * 1 in absolute value. Random numbers would change the state of the user's generator. */
static rg_tensor *cotangent(rg_tensor *y) {
    rg_tensor *v = rg_zeros_dims(rg_shape(y), y->dtype);
    for (int64_t i = 0; v && i < v->numel; i++) {
        double turn = fmod(0.6180339887498949 * (double)(i + 1), 1);
        rgi_store_f64(v->data + i * (int64_t)rgi_sizeof(v->dtype), v->dtype,
                      turn < 0.5 ? turn - 1 : turn);
    }
    return v;
}

static bool gradgradcheck_as(check *c) {
    RG_SCOPE();
    RG_ENABLE_GRAD();
    outputs y;
    rg_tensor *all[RG_MAX_INPUTS], *out[MOST_OUTPUTS];
    if (!takes_arguments(c->op, c->f || c->many, c->n, RG_MAX_INPUTS - 1, c->inputs)
        || !inputs_check(c->op, c->n, c->inputs) || !call_function(c, &y))
        return false;
    int m = differentiable(&y, out);
    RG_FAIL_IF(rgi_this.inference, c->op,
               "can't check gradients in inference mode, which records nothing");
    /* If no output requires grad, the gradients are 0, and so must be the differences. */
    if (m == 0)
        return gradcheck_as(c);
    RG_FAIL_VALUE_IF(c->n + m > RG_MAX_INPUTS, c->op,
                     "takes up to %d inputs and outputs, but got %d", RG_MAX_INPUTS, c->n + m);
    c->cotangents = m;
    for (int i = 0; i < c->n; i++)
        all[i] = c->inputs[i];
    for (int k = 0; k < m; k++)
        all[c->n + k] = rg_requires_grad_(cotangent(out[k]), true);
    return gradcheck_as(&(check){ .op = c->op,
                                  .f = derivative_of,
                                  .context = c,
                                  .n = c->n + m,
                                  .inputs = all,
                                  .options = c->options,
                                  .second = c });
}

bool(rg_gradgradcheck_with)(rg_function *f, void *context, int n, rg_tensor *const inputs[],
                            rg_gradcheck_options options) {
    return gradgradcheck_as(&(check){ .op = "gradgradcheck",
                                      .f = f,
                                      .context = context,
                                      .n = n,
                                      .inputs = inputs,
                                      .options = options });
}

bool(rg_gradgradcheck_list_with)(rg_list_function *f, void *context, int n,
                                 rg_tensor *const inputs[], rg_gradcheck_options options) {
    return gradgradcheck_as(&(check){ .op = "gradgradcheck",
                                      .many = f,
                                      .context = context,
                                      .n = n,
                                      .inputs = inputs,
                                      .options = options });
}
