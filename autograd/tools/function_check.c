/*
 * function_check.c: checks that a user's op behaves as regard's own ops do. This file checks
 * derivatives, and values in float32 and float64. The other checks are in rule_checks.c.
 */
#include "check_run.h"
#include "autograd/ops/ops.h"
#include "tensor/observer.h"

#include <math.h>

/* ---- checks of forward -------------------------------------------------------------- */

static bool check_forward(const rg_check_run *s) {
    rg_tensor *in[RG_FUNCTION_INPUTS], *y[RG_MAX_OUTPUTS], *again[RG_MAX_OUTPUTS],
        *ungraphed[RG_MAX_OUTPUTS];
    if (!rgi_check_run_inputs(s, in) || !rgi_check_run_apply(s, in, y))
        return false;
    for (int i = 0; i < s->n; i++)
        if (!rgi_check_run_same(in[i], s->plain[i], 0))
            return rgi_check_run_wrong(s, "forward writes to input %d", i);
    if (!rgi_check_run_apply(s, in, again))
        return rgi_check_run_failed(s, "in a second call");
    for (int k = 0; k < s->n_out; k++)
        if (!rgi_check_run_same(y[k], again[k], 0))
            return rgi_check_run_wrong(
                s,
                "output %d has other values in a second call with the same inputs: "
                "forward isn't deterministic, or leaves elements without a value",
                k);
    {
        RG_NO_GRAD();
        if (!rgi_check_run_apply(s, in, ungraphed))
            return rgi_check_run_failed(s, "without grad mode");
    }
    for (int k = 0; k < s->n_out; k++)
        if (!rgi_check_run_same(y[k], ungraphed[k], 0))
            return rgi_check_run_wrong(s, "output %d has other values without grad mode", k);
    return true;
}

/* Returns whether t has a value, other than NaN, that float32 can't represent exactly. Also returns
 * false if memory ran out. */
static bool has_many_digits(rg_tensor *t) {
    RG_SCOPE();
    const rg_tensor *p = rgi_own(rgi_contiguous_copy(t, RG_FLOAT64));
    for (int64_t e = 0; p && e < p->numel; e++) {
        const double x = ((const double *)p->data)[e];
        if (x != (double)(float)x && !isnan(x))
            return true;
    }
    return false;
}

/* Returns whether float32 can represent every value of t exactly, and at least one of them isn't a
 * multiple of 1/2. Such values were probably computed in float32. Values that are all multiples of
 * 1/2, such as 0 and 1, don't show this: they are exact in either dtype. */
static bool has_few_digits(rg_tensor *t) {
    RG_SCOPE();
    bool odd = false;
    const rg_tensor *p = rgi_own(rgi_contiguous_copy(t, RG_FLOAT64));
    for (int64_t e = 0; p && e < p->numel; e++) {
        const double x = ((const double *)p->data)[e];
        odd = odd || 2 * x != trunc(2 * x);
    }
    return odd && !has_many_digits(t);
}

/* Fails if an output or gradient has only float32's precision, although an input that requires grad
 * has more digits. */
static bool check_digits(const rg_check_run *s) {
    rg_tensor *in[RG_FUNCTION_INPUTS];
    rg_check_result r;
    bool many = false;
    for (int i = 0; i < s->n; i++)
        many = many || (rgi_check_run_wants(s, i) && has_many_digits(s->plain[i]));
    if (!many)
        return true;
    if (!rgi_check_run_inputs(s, in) || !rgi_check_run_forward_backward(s, in, &r))
        return false;
    for (int k = 0; k < s->n_out; k++)
        if (rgi_is_float(r.y[k]->dtype) && has_few_digits(r.y[k]))
            return rgi_check_run_wrong(
                s, "output %d has the precision of float32 for inputs of float64", k);
    for (int i = 0; i < s->n; i++)
        if (!rgi_is_none(r.g[i]) && has_few_digits(r.g[i]))
            return rgi_check_run_wrong(
                s,
                "the gradient of input %d has the precision of float32 for inputs of "
                "float64",
                i);
    return true;
}

/* Stores float32 copies of the floating-point inputs in narrow[], and float64 copies of these
 * copies in wide[]. The other inputs are stored unchanged in both arrays. If memory ran out, an
 * element is NULL. */
static void copy_narrow(const rg_check_run *s, rg_tensor *narrow[], rg_tensor *wide[]) {
    for (int i = 0; i < s->n; i++) {
        narrow[i] = wide[i] = s->plain[i];
        if (rgi_is_none(s->plain[i]) || !rgi_is_float(s->plain[i]->dtype))
            continue;
        rg_tensor *rounded = rg_to(s->plain[i], RG_FLOAT32);
        narrow[i] = rgi_check_run_copy(rounded, RG_LAID_PLAIN, rgi_check_run_wants(s, i));
        rounded = rg_to(rounded, RG_FLOAT64);
        wide[i] = rgi_check_run_copy(rounded, RG_LAID_PLAIN, rgi_check_run_wants(s, i));
    }
}

static bool check_float32(const rg_check_run *s) {
    rg_tensor *narrow[RG_FUNCTION_INPUTS], *wide[RG_FUNCTION_INPUTS];
    rg_check_result a, b;
    copy_narrow(s, narrow, wide);
    if (!rgi_check_run_forward_backward(s, wide, &a))
        return false;
    if (!rgi_check_run_forward_backward(s, narrow, &b))
        return rgi_check_run_failed(s, "with float32 inputs");
    for (int k = 0; k < s->n_out; k++) {
        const bool same = a.y[k]->dtype == b.y[k]->dtype;
        if (same && rgi_is_float(a.y[k]->dtype))
            return rgi_check_run_wrong(s, "output %d is %s for inputs of float32 and of float64", k,
                                       rg_dtype_name((rg_dtype)a.y[k]->dtype));
    }
    return check_digits(s)
           && rgi_check_run_agree(s, &a, &b, s->options.float32_tol, "in float32 than in float64");
}

/* ---- checks of derivatives ---------------------------------------------------------- */

static rg_list outputs_of(rg_tensor *const inputs[], void *context) {
    static __thread rg_tensor *y[RG_MAX_OUTPUTS];
    const rg_check_run *s = context;
    rg_tensor *in[RG_FUNCTION_INPUTS];
    for (int i = 0; i < s->n; i++)
        in[i] = inputs[i];
    return rgi_check_run_apply(s, in, y) ? (rg_list){ s->n_out, y } : (rg_list){ -1, NULL };
}

static rg_gradcheck_options differences(const rg_check_run *s) {
    return (rg_gradcheck_options){ .eps = s->options.eps,
                                   .atol = s->options.atol,
                                   .rtol = s->options.rtol };
}

/* Fails if backward returns no gradient for an input on which the outputs depend. */
static bool gradients_are_made(const rg_check_run *s, const rg_check_result *r) {
    for (int i = 0; i < s->n; i++) {
        if (!rgi_check_run_wants(s, i) || !rgi_is_none(r->g[i]))
            continue;
        rg_check_run alone = *s;
        alone.wanted = RG_IN(i);
        rg_tensor *in[RG_FUNCTION_INPUTS];
        if (!rgi_check_run_inputs(&alone, in))
            return false;
        if (!rg_gradcheck_list_with(outputs_of, &alone, s->n, in, differences(s)))
            return rgi_check_run_wrong(
                s, "backward makes no gradient of input %d, on which the outputs depend", i);
    }
    return true;
}

static bool check_gradients(const rg_check_run *s) {
    rg_tensor *in[RG_FUNCTION_INPUTS];
    rg_check_result r;
    if (!rgi_check_run_inputs(s, in) || !rgi_check_run_forward_backward(s, in, &r)
        || !gradients_are_made(s, &r))
        return false;
    if (rg_gradcheck_list_with(outputs_of, (void *)(uintptr_t)s, s->n, in, differences(s)))
        return true;
    return rgi_check_run_failed(s, "backward doesn't agree with finite differences");
}

/* Computes gradients for the gradients v - factor w of the outputs. w and v are different fixed
 * numbers. If with_v is false, v counts as 0. */
static bool gradients_of_sum(const rg_check_run *s, bool with_v, double factor,
                             rg_check_result *r) {
    rg_tensor *in[RG_FUNCTION_INPUTS], *given[RG_MAX_OUTPUTS] = { NULL };
    if (!rgi_check_run_inputs(s, in) || !rgi_check_run_apply(s, in, r->y))
        return false;
    for (int k = 0; k < s->n_out; k++) {
        if (!r->y[k]->history)
            continue;
        rg_tensor *w = rgi_check_run_weights(r->y[k], k);
        rg_tensor *v = with_v ? rg_square(w) : rg_zeros_like(w);
        given[k] = rg_sub(v, rg_mul(w, factor));
        if (!given[k])
            return false;
    }
    return rgi_check_run_gradients(s, in, given, -1, false, r);
}

/* Fails unless backward is linear in the gradients of the outputs. Finite differences are compared
 * with gradients for single ones, which don't show whether it is. */
static bool check_linear(const rg_check_run *s) {
    rg_check_result of_w, of_v, of_both;
    if (!gradients_of_sum(s, false, -1, &of_w) || !gradients_of_sum(s, true, 0, &of_v)
        || !gradients_of_sum(s, true, 2, &of_both))
        return false;
    for (int i = 0; i < s->n; i++) {
        if (rgi_is_none(of_both.g[i]))
            continue;
        rg_tensor *sum = rg_sub(of_v.g[i], rg_mul(of_w.g[i], 2));
        if (!rgi_check_run_same(sum, of_both.g[i], RG_RUNS_SAME))
            return rgi_check_run_wrong(
                s, "the gradient of input %d isn't linear in the gradients of the outputs", i);
    }
    return true;
}

/* Fails if a gradient isn't zero and has no history. A backward that works on the data computes
 * gradients without a graph, so that they count as constants. But a gradient that isn't zero
 * depends at least on the gradients of the outputs, so it must have a graph. */
static bool gradients_have_graphs(const rg_check_run *s) {
    RG_ENABLE_GRAD();
    rg_tensor *in[RG_FUNCTION_INPUTS], *gy[RG_MAX_OUTPUTS] = { NULL };
    rg_check_result r;
    if (!rgi_check_run_inputs(s, in) || !rgi_check_run_apply(s, in, r.y))
        return false;
    for (int k = 0; k < s->n_out; k++) {
        if (!r.y[k]->history)
            continue;
        gy[k] = rg_requires_grad_(rgi_check_run_weights(r.y[k], k), true);
        if (!gy[k])
            return false;
    }
    if (!rgi_check_run_gradients(s, in, gy, -1, true, &r))
        return rgi_check_run_failed(s, "where a graph of the gradients is created");
    for (int i = 0; i < s->n; i++) {
        bool made = !rgi_check_run_same(r.g[i], RG_NONE, 0);
        if (made && !r.g[i]->history)
            return rgi_check_run_wrong(
                s,
                "the gradient of input %d has no history, so that it can't be "
                "differentiated: write backward in regard's functions, or say "
                ".once_differentiable = true",
                i);
    }
    return true;
}

/* Returns whether forward saved intermediate results for backward. The node then has more inputs
 * than the user's op. */
static bool saves_intermediates(const rg_check_run *s) {
    rg_tensor *in[RG_FUNCTION_INPUTS], *y[RG_MAX_OUTPUTS];
    if (!rgi_check_run_inputs(s, in) || !rgi_check_run_apply(s, in, y))
        return false;
    const int own = s->n + (s->cls->state_bytes > 0);
    for (int k = 0; k < s->n_out; k++)
        if (y[k]->history && rgi_node_of(y[k])->n_in > own)
            return true;
    return false;
}

static bool check_second_order(const rg_check_run *s) {
    if (s->cls->once_differentiable)
        return true;
    rg_tensor *in[RG_FUNCTION_INPUTS];
    if (!gradients_have_graphs(s) || !rgi_check_run_inputs(s, in))
        return false;
    if (rg_gradgradcheck_list_with(outputs_of, (void *)(uintptr_t)s, s->n, in, differences(s)))
        return true;
    rg_failure mismatch;
    rgi_set_failure_aside(&mismatch);
    const bool saves = saves_intermediates(s);
    const bool failed = rgi_failed();
    if (failed)
        mismatch.code = RG_OK; /* Memory ran out. This error is reported instead of the mismatch. */
    rgi_bring_failure_back(&mismatch);
    if (failed)
        return false;
    return rgi_check_run_failed(
        s, saves ? "second derivatives don't agree with finite differences; backward "
                   "reads an intermediate result, but only what is an input or an "
                   "output leads them on"
                 : "second derivatives don't agree with finite differences");
}

/* ---- running all checks ------------------------------------------------------------- */

/* Calls each check in a scope of its own. Stops when a check fails or memory has run out. */
static bool run_checks(const rg_check_run *s) {
    static bool (*const checks[])(const rg_check_run *s) = {
        check_forward,      check_float32,    rgi_check_backward_writes, rgi_check_partly,
        check_gradients,    check_linear,     rgi_check_layouts,         rgi_check_inputs_later,
        check_second_order, rgi_check_replay, rgi_check_memory
    };
    bool ok = true;
    for (int i = 0; i < RG_COUNT(checks) && ok; i++) {
        RG_SCOPE();
        ok = checks[i](s) && rgi_this.failure.code != RG_OUT_OF_MEMORY;
    }
    return ok;
}

/* Copies the inputs to s->plain. The copies are contiguous, and float64 if the input is floating
 * point. Sets s->wanted to the inputs that require grad or, if none does, to all floating-point
 * inputs. Fails if s->wanted is then empty. */
static bool check_begin(rg_check_run *s, rg_list inputs) {
    for (int i = 0; i < s->n; i++) {
        rg_tensor *t = inputs.v[i];
        s->plain[i] = t;
        if (rgi_is_none(t))
            continue;
        if (!rgi_check(t, "function_check"))
            return false;
        if (rgi_is_in_graph(t))
            s->wanted |= RG_IN(i);
    }
    const bool all = s->wanted == 0;
    for (int i = 0; i < s->n; i++) {
        rg_tensor *t = s->plain[i];
        if (rgi_is_none(t))
            continue;
        const bool real = rgi_is_float(t->dtype);
        if (all && real)
            s->wanted |= RG_IN(i);
        s->plain[i] = rgi_check_run_copy(real ? rg_to(t, RG_FLOAT64) : t, RG_LAID_PLAIN, false);
        if (!s->plain[i])
            return false;
    }
    RG_FAIL_VALUE_IF(s->wanted == 0, "function_check",
                     "expected at least one input of floating point, to differentiate it");
    return true;
}

bool rg_function_check_with(rg_function_class *cls, const void *args, rg_list inputs,
                            rg_function_check_options options) {
    RG_SCOPE();
    RG_ENABLE_GRAD();
    if (!rgi_may_do_once("function_check") || !rgi_given(cls, "function_check", "a class")
        || !rgi_given_list(inputs.n, inputs.v, "function_check"))
        return false;
    RG_FAIL_IF(rgi_this.inference, "function_check",
               "can't check gradients in inference mode, which records nothing");
    RG_FAIL_VALUE_IF(inputs.n > RG_FUNCTION_INPUTS, "function_check",
                     "takes up to %d inputs, but got %d", RG_FUNCTION_INPUTS, inputs.n);
    rg_check_run s = { .cls = cls,
                       .args = args,
                       .n = inputs.n,
                       .n_out = RG_MAX(cls->outputs, 1),
                       .options = options };
    if (!check_begin(&s, inputs))
        return false;
    rg_failure before;
    rgi_set_failure_aside(&before);
    const bool ok = run_checks(&s);
    rgi_bring_failure_back(&before);
    return ok;
}
