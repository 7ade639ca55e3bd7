/*
 * check_run.c: applies a user's op, for tests of the op, and compares two applications. The
 * gradients of the outputs are fixed numbers of both signs, so that mistakes don't cancel each
 * other.
 */
#include "check_run.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

/* ---- error messages ----------------------------------------------------------------- */

/* Returns false, with an error whose message names the class. This error replaces the current one.
 * Only an error that memory ran out is kept, since then the op isn't to blame. */
bool rgi_check_run_wrong(const rg_check_run *s, const char *format, ...) {
    char sentence[1024];
    if (rgi_this.failure.code == RG_OUT_OF_MEMORY)
        return false;
    va_list args;
    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    rgi_forget_failure();
    return rgi_fail(RG_RUNTIME_ERROR, "function_check", "%s: %s", s->cls->name, sentence);
}

bool rgi_check_run_failed(const rg_check_run *s, const char *when) {
    return rgi_check_run_wrong(s, "%s: %s", when, rg_error_peek());
}

/* ---- copies of the inputs ----------------------------------------------------------- */

const char *const rgi_layout_text[] = { "is contiguous", "isn't contiguous",
                                        "is expanded, and has a stride of 0" };

static rg_tensor *strided_copy(rg_tensor *t) {
    if (t->ndim == 0)
        return rg_clone(t);
    const int last = t->ndim - 1;
    rg_tensor *pairs = rg_repeat_interleave(rg_transpose(t, 0, last), 2, .dim = last);
    return rg_transpose(rg_slice(pairs, last, 0, INT64_MAX, 2), 0, last);
}

static rg_tensor *expanded_copy(rg_tensor *t) {
    int d = 0;
    while (d < t->ndim && t->size[d] < 2)
        d++;
    if (d == t->ndim)
        return rg_clone(t);
    return rg_expand_dims(rg_clone(rg_narrow(t, d, 0, 1)), rg_shape(t));
}

static rg_tensor *copy_laid(rg_tensor *t, rg_check_layout as) {
    switch (as) {
    case RG_LAID_STRIDED: return strided_copy(t);
    case RG_LAID_EXPANDED: return expanded_copy(t);
    case RG_LAID_PLAIN: break;
    }
    return rg_clone(rg_contiguous(t));
}

rg_tensor *rgi_check_run_copy(rg_tensor *t, rg_check_layout as, bool require_grad) {
    if (rgi_is_none(t))
        return t;
    RG_SCOPE();
    RG_NO_GRAD();
    return rg_escape(rg_requires_grad_(copy_laid(t, as), require_grad));
}

bool rgi_check_run_inputs(const rg_check_run *s, rg_tensor *to[]) {
    for (int i = 0; i < s->n; i++) {
        to[i] = rgi_check_run_copy(s->plain[i], RG_LAID_PLAIN, rgi_check_run_wants(s, i));
        if (!to[i])
            return false;
    }
    return true;
}

/* ---- applying the op, and comparing results ----------------------------------------- */

bool rgi_check_run_apply(const rg_check_run *s, rg_tensor *in[], rg_tensor *y[]) {
    return rg_function_apply_many(s->cls, s->args, (rg_list){ s->n, in }, y);
}

rg_tensor *rgi_check_run_weights(const rg_tensor *y, int k) {
    rg_tensor *w = rgi_own(rgi_new(RG_FLOAT64, y->ndim, y->size));
    for (int64_t e = 0; w && e < w->numel; e++) {
        const double wave = sin(1.7 * (double)e + k + 0.4);
        ((double *)w->data)[e] = wave + (wave < 0 ? -0.3 : 0.3);
    }
    return w ? rg_to(w, (rg_dtype)y->dtype) : NULL;
}

bool rgi_check_run_gradients(const rg_check_run *s, rg_tensor *const in[], rg_tensor *const given[],
                             int only, bool create_graph, rg_check_result *r) {
    int n = 0, m = 0;
    rg_tensor *y[RG_MAX_OUTPUTS], *gy[RG_MAX_OUTPUTS], *x[RG_FUNCTION_INPUTS],
        *g[RG_FUNCTION_INPUTS];
    for (int k = 0; k < s->n_out; k++) {
        if (!r->y[k]->history || (only >= 0 && k != only))
            continue;
        y[n] = r->y[k];
        gy[n] = given && given[k] ? given[k] : rgi_check_run_weights(r->y[k], k);
        if (!gy[n++])
            return false;
    }
    for (int i = 0; i < s->n; i++) {
        r->g[i] = RG_NONE;
        if (rgi_check_run_wants(s, i))
            x[m++] = in[i];
    }
    if (n == 0)
        return true;
    const rg_backward_options options = { .retain_graph = true,
                                          .create_graph = create_graph,
                                          .allow_unused = true };
    if (!rg_grad_many(n, y, gy, m, x, g, options))
        return false;
    m = 0;
    for (int i = 0; i < s->n; i++)
        if (rgi_check_run_wants(s, i))
            r->g[i] = g[m++];
    return true;
}

bool rgi_check_run_forward_backward(const rg_check_run *s, rg_tensor *in[], rg_check_result *r) {
    return rgi_check_run_apply(s, in, r->y) && rgi_check_run_gradients(s, in, NULL, -1, false, r);
}

/* Returns whether a and b differ by more than the tolerance. Two NaNs don't differ. If |b| is
 * larger than 1, the tolerance is multiplied by |b|. */
static bool numbers_differ(double a, double b, double tolerance) {
    if (a == b || (isnan(a) && isnan(b)))
        return false;
    return !(fabs(a - b) <= tolerance * RG_MAX(1, fabs(b)));
}

bool rgi_check_run_same(rg_tensor *a, rg_tensor *b, double tolerance) {
    RG_SCOPE();
    if (rgi_is_none(a) && rgi_is_none(b))
        return true;
    if (rgi_is_none(a))
        a = rg_zeros_dims(rg_shape(b), RG_FLOAT64);
    if (rgi_is_none(b))
        b = rg_zeros_dims(rg_shape(a), RG_FLOAT64);
    if (!a || !b || !rgi_same_shape(a, b))
        return false;
    const rg_tensor *p = rgi_own(rgi_contiguous_copy(a, RG_FLOAT64));
    const rg_tensor *q = rgi_own(rgi_contiguous_copy(b, RG_FLOAT64));
    for (int64_t e = 0; p && q && e < p->numel; e++)
        if (numbers_differ(((const double *)p->data)[e], ((const double *)q->data)[e], tolerance))
            return false;
    return p && q;
}

bool rgi_check_run_agree(const rg_check_run *s, const rg_check_result *a, const rg_check_result *b,
                         double tolerance, const char *when) {
    for (int k = 0; k < s->n_out; k++)
        if (!rgi_check_run_same(a->y[k], b->y[k], tolerance))
            return rgi_check_run_wrong(s, "output %d has other values %s", k, when);
    for (int i = 0; i < s->n; i++)
        if (!rgi_check_run_same(a->g[i], b->g[i], tolerance))
            return rgi_check_run_wrong(s, "the gradient of input %d has other values %s", i, when);
    return true;
}
