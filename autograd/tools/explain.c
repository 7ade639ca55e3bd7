/*
 * explain.c: explains a gradient in words and as a drawing: the largest paths that paths.c has
 * found, the steps where the gradient first became zero, not finite or huge, and the comparison
 * with finite differences.
 */
#include "explain.h"
#include "graphviz.h"
#include "autograd/tools/inputs.h"
#include "autograd/rebase.h"
#include "paths.h"
#include "tensor/dtype.h"
#include "tensor/kernels/limits.h"
#include "tensor/memory.h"
#include "tensor/messages/callback.h"
#include "tensor/observer.h"
#include "tensor/text/digits.h"

#include <math.h>
#include <stdlib.h>

/* ---- the shares of paths --------------------------------------------------------------- */

/* Returns the names of the ops of the path that ends with `step`, as a string that begins at the
 * loss. If the path has more than 256 steps, only the 256 nearest to w are in the string. */
static const char *ops_of(const rg_paths *p, int step) {
    int steps[256], n = 0;
    rg_text text = { 0 };
    rgi_text_add(&text, "%s", "");
    for (; step > 0 && n < 256; step = p->step[step].before)
        steps[n++] = step;
    while (n-- > 0)
        rgi_text_add(&text, "%s%s", p->step[steps[n]].op, n ? " <- " : "");
    return rgi_text_own(&text);
}

/* Returns the gradient of w: the sum of the contributions of all paths, or zeros if there are
 * none. */
static rg_tensor *whole_gradient(const rg_paths *p, rg_tensor *w) {
    RG_SCOPE();
    rg_tensor *sum = rg_zeros_like(w);
    for (int i = 0; i < p->of_w.n && sum; i++)
        sum = rg_add(sum, p->of_w.v[i].g);
    return rg_escape(sum);
}

/* A path, as it is returned to the user, the norm of its contribution, and the index of its last
 * step in the array `step` of rg_paths. */
typedef struct {
    rg_gradient_path path;
    double norm;
    int step;
} told_path;

/* All n paths, the largest first, but without the merged paths (RG_REST). `merged` is the norm of
 * the merged paths, and `norms` the sum of the norms of all contributions. If `cancel` is set, this
 * sum is over CANCELLED times the gradient's norm. The text and the drawing then have norms in
 * place of shares, which would be huge. */
typedef struct {
    told_path v[RG_MOST_PATHS + 1];
    int n;
    double merged, norms;
    bool cancel;
} told_paths;

#define CANCELLED 1000

static int by_norm(const void *a, const void *b) {
    const told_path *x = a, *y = b;
    if (x->norm != y->norm)
        return x->norm > y->norm ? -1 : 1;
    return x->step - y->step;
}

/* Lists all paths, and stores the sum of the shares of the merged paths in e->rest. If the gradient
 * is 0 or not finite, all shares and sizes are NAN. Returns false on failure. */
static bool list_paths(const rg_paths *p, rg_explanation *e, told_paths *told) {
    RG_SCOPE();
    const double *g = rgi_doubles(e->gradient);
    int64_t numel = rg_numel(e->gradient);
    if (!g)
        return false;
    double square = rgi_inner_product(numel, g, g);
    bool shared = square > 0 && isfinite(square);
    *told = (told_paths){ .n = 0 };
    e->rest = shared ? 0 : NAN;
    for (int i = 0; i < p->of_w.n; i++) {
        RG_SCOPE();
        const path_part *part = &p->of_w.v[i];
        const double *c = rgi_doubles(part->g);
        if (!c)
            return false;
        double share = shared ? rgi_inner_product(numel, c, g) / square : NAN;
        double size = shared ? part->norm / sqrt(square) : NAN;
        told->norms += part->norm;
        if (part->step != RG_REST) {
            told->v[told->n++] = (told_path){ { NULL, share, size }, part->norm, part->step };
            continue;
        }
        e->rest = share;
        told->merged = part->norm;
    }
    told->cancel = isfinite(told->norms) && told->norms > CANCELLED * sqrt(square);
    qsort(told->v, (size_t)told->n, sizeof told->v[0], by_norm);
    return true;
}

/* ---- comparison with finite differences -------------------------------------------------- */

enum { MOST_EXPLAINED = 64 };

/* Calls f with .inputs or, if there are none, with w. Returns NULL if f fails. If f has set an
 * error, adds the number of inputs to the error message. */
static rg_tensor *call_f(const rg_explain_options *o, rg_tensor *w) {
    rg_tensor *in[MOST_EXPLAINED + RG_INPUTS_BEHIND];
    const rg_list inputs = o->inputs.n ? o->inputs : (rg_list){ 1, &w };
    const char *named_as = rgi_named_as;
    rgi_inputs_copy(in, inputs.n, inputs.v);
    rgi_named_as = NULL;
    const int64_t before = rgi_failures();
    rg_tensor *y = o->f(in, o->context);
    rgi_named_as = named_as;
    const bool said_nothing = rgi_failures() == before;
    if (rgi_called(y, before, RG_TYPE_ERROR, "explain", "expected a tensor but got NULL")
        || said_nothing)
        return y;
    const rg_failure failure = rgi_this.failure;
    rgi_forget_failure();
    rgi_fail(failure.code, "explain", "f failed with %d input%s (.inputs gives it others): %s",
             inputs.n, inputs.n == 1 ? "" : "s", failure.message);
    return NULL;
}

/* Returns the value of f after step * direction was added to w, or NAN on failure. Afterwards w
 * gets its values back, which are in `before`. These writes don't count as changes of w, so the
 * graph stays usable. */
static double value_at(const rg_explain_options *o, rg_tensor *w, rg_tensor *before,
                       rg_tensor *direction, double step) {
    RG_SCOPE();
    rg_tensor *moved = rg_add(before, rg_mul(direction, step));
    if (!moved)
        return NAN;
    rgi_copy_elements(w, moved);
    const double value = rg_item(call_f(o, w));
    rgi_copy_elements(w, before);
    return value;
}

static rg_tensor *direction_of(const rg_explanation *e, rg_generator *random, int k) {
    rg_tensor *d = k ? rg_randn_dims(rg_shape(e->gradient), RG_FLOAT64, random) : e->gradient;
    const double length = rg_item(rg_norm(d));
    return length > 0 ? rg_div(d, length) : d;
}

/* Calls f, and returns whether the graph of its result leads to w. Also returns true if the
 * backward run that looks for w fails. */
static bool f_leads_to(const rg_explain_options *o, rg_tensor *w) {
    RG_SCOPE();
    const bool grad = rg_is_grad_enabled();
    rg_set_grad_enabled(true);
    rg_tensor *y = call_f(o, w);
    rg_tensor *g = RG_NONE;
    if (y && rgi_is_in_graph(y))
        g = rg_grad(y, w, .allow_unused = true, .retain_graph = true);
    rg_set_grad_enabled(grad);
    return !rgi_is_none(g);
}

/* Compares the gradient with finite differences along the gradient's own direction and four random
 * ones, and sets e->off and e->agrees. Sets *unread to true if f seems not to read w: if the
 * gradient isn't zero, but moving w doesn't change the value of f, and the graph of a call of f
 * doesn't lead to w. Then there is no verdict, and e->off becomes NAN. Returns false on failure. */
static bool compare_with_differences(rg_explanation *e, const rg_explain_options *o, rg_tensor *w,
                                     rg_generator *random, bool *unread) {
    enum { DIRECTIONS = 5 };
    const double h = 1e-6;
    rg_tensor *before = rg_clone(rg_detach(w));
    const double norm = rg_item(rg_norm(e->gradient));
    bool moved = norm == 0;
    e->off = 0;
    for (int k = 0; k < DIRECTIONS; k++) {
        rg_tensor *d = direction_of(e, random, k);
        const double high = value_at(o, w, before, d, h);
        const double low = rgi_failed() ? NAN : value_at(o, w, before, d, -h);
        if (rgi_failed())
            return false;
        const double *a = rgi_doubles(d), *g = a ? rgi_doubles(e->gradient) : NULL;
        if (!g)
            return false;
        double expected = rgi_inner_product(rg_numel(w), a, g);
        moved |= high != low;
        double off = fabs((high - low) / (2 * h) - expected) / fmax(norm, 1e-3);
        /* A NaN counts as the largest difference. */
        e->off = off <= e->off || isnan(e->off) ? e->off : off;
    }
    *unread = !moved && !f_leads_to(o, w);
    if (*unread)
        e->off = NAN;
    e->agrees = e->off < 1e-6;
    return !rgi_failed();
}

static bool judge(rg_explanation *e, const rg_explain_options *o, rg_tensor *w, bool *unread) {
    if (!o->f || !rgi_suits_differences(w->dtype) || !(w->flags & RG_CONTIGUOUS))
        return true;
    RG_SCOPE();
    RG_NO_GRAD();
    rg_failure before;
    rgi_save_failure(&before);
    rg_generator *random = rg_generator_new(1);
    bool ok = random && compare_with_differences(e, o, w, random, unread);
    rg_generator_free(random);
    rgi_restore_failure(&before);
    return ok;
}

/* ---- the explanation in words -------------------------------------------------------------- */

static const char *name_of(rg_tensor *w) { return rgi_name_of(w) ? rgi_name_of(w) : "w"; }

static void write_verdict(rg_text *t, const rg_explanation *e, const rg_explain_options *o,
                          rg_tensor *w, bool unread) {
    if (!o->f)
        rgi_text_add(t, "no verdict by differences: there is no function to compute the loss by\n");
    else if (!rgi_suits_differences(w->dtype))
        rgi_text_add(t, "no verdict by differences: %s tells little of them\n",
                     rg_dtype_name((rg_dtype)w->dtype));
    else if (!(w->flags & RG_CONTIGUOUS))
        rgi_text_add(t, "no verdict by differences: the tensor isn't contiguous\n");
    else if (unread)
        rgi_text_add(t,
                     "no verdict by differences: f doesn't read %s, neither as an input nor by "
                     "the context\n",
                     name_of(w));
    else
        rgi_text_add(t, "differences in float64 %s: off by %s of the norm\n",
                     e->agrees ? "agree" : "DISAGREE", rgi_number_of_digits(2, e->off));
}

/* Writes a line for each path, with its share and size. */
static void write_shares(rg_text *t, const rg_explanation *e, double norm) {
    if (isnan(e->rest))
        rgi_text_add(t, "it is %s: there are no shares\n", norm == 0 ? "zero" : "not finite");
    rgi_text_add(t, "   share   size   path from the loss\n");
    for (int i = 0; i < e->n; i++)
        rgi_text_add(t, "%7.1f%% %6.2f   %s\n", 100 * e->v[i].share, e->v[i].size, e->v[i].ops);
    rgi_text_add(t, "%7.1f%%          all others\n", 100 * e->rest);
}

/* Writes a line for each path, with the norm of its contribution. */
static void write_norms(rg_text *t, const rg_explanation *e, const told_paths *told) {
    double others = told->merged;
    rgi_text_add(t, "its paths cancel: the norms of their contributions add up to %s\n",
                 rgi_number_of_digits(4, told->norms));
    rgi_text_add(t, "           norm   path from the loss\n");
    for (int i = 0; i < e->n; i++)
        rgi_text_add(t, "%15s   %s\n", rgi_number_of_digits(4, told->v[i].norm), e->v[i].ops);
    for (int i = e->n; i < told->n; i++)
        others += told->v[i].norm;
    rgi_text_add(t, "%15s   all others\n", rgi_number_of_digits(4, others));
}

static const char *write_text(const rg_explanation *e, const told_paths *told,
                              const rg_explain_options *o, rg_tensor *w, double norm, bool unread) {
    rg_text t = { 0 };
    rgi_text_add(&t, "%s: a gradient of %s, norm %s\n", name_of(w), RG_SHAPE_TEXT(w),
                 rgi_number_of_digits(4, norm));
    if (told->cancel)
        write_norms(&t, e, told);
    else
        write_shares(&t, e, norm);
    if (e->first_zero)
        rgi_text_add(&t, "first zero on the way back: %s\n", e->first_zero);
    if (e->first_not_finite)
        rgi_text_add(&t, "first not finite on the way back: %s\n", e->first_not_finite);
    if (e->first_huge)
        rgi_text_add(&t, "first huge on the way back: %s\n", e->first_huge);
    write_verdict(&t, e, o, w, unread);
    return rgi_text_own(&t);
}

/* ---- the explanation as a drawing ----------------------------------------------------------- */

/* Adds a path's share to each step of the path, whose last step is `step`, and marks these steps as
 * used. */
static void add_to_steps(const rg_paths *p, int step, double share, double shares[], bool used[]) {
    for (; step >= 0; step = p->step[step].before) {
        shares[step] += share;
        used[step] = true;
    }
}

/* Returns the share of a path or, if paths cancel, its part of the sum of norms. */
static double drawn_share(const told_paths *told, int i) {
    return told->cancel ? told->v[i].norm / told->norms : told->v[i].path.share;
}

/* Adds the label of an edge through which paths with this sum of shares lead. If paths cancel, the
 * label is the sum of their norms. */
static void add_share(rg_text *t, const told_paths *told, double share) {
    if (told->cancel)
        rgi_text_add(t, "label=\"norms %s\"", rgi_number_of_digits(4, share * told->norms));
    else
        rgi_text_add(t, "label=\"%.1f%%\"", 100 * share);
}

/* Returns the drawing of the n largest paths. Paths that begin with the same steps are drawn as
 * one, up to the step where they part. Returns NULL if memory ran out. */
static const char *write_dot(const rg_paths *p, int n, const told_paths *told, rg_tensor *w) {
    double *shares = rgi_scope_alloc(p->n_steps * sizeof *shares);
    bool *used = shares ? rgi_scope_alloc(p->n_steps * sizeof *used) : NULL;
    rg_text t = { 0 };
    if (!used)
        return NULL;
    for (size_t i = 0; i < p->n_steps; i++) {
        shares[i] = 0;
        used[i] = false;
    }
    for (int i = 0; i < n; i++)
        add_to_steps(p, told->v[i].step, drawn_share(told, i), shares, used);
    rgi_text_add(&t, "digraph regard {\n    rankdir=TB\n    node [fontname=\"sans-serif\"]\n"
                     "    s0 [shape=box, label=\"loss\"]\n"
                     "    w [shape=box, style=filled, fillcolor=lightblue, label=\"");
    rgi_add_label(&t, name_of(w));
    rgi_text_add(&t, "\\n%s\"]\n", RG_SHAPE_TEXT(w));
    for (size_t i = 1; i < p->n_steps; i++) {
        if (!used[i])
            continue;
        rgi_text_add(&t, "    s%zu [label=\"", i);
        rgi_add_label(&t, p->step[i].op);
        rgi_text_add(&t, "\"]\n    s%d -> s%zu [", p->step[i].before, i);
        add_share(&t, told, shares[i]);
        rgi_text_add(&t, ", penwidth=%.2f]\n",
                     1 + 4 * fmin(isnan(shares[i]) ? 0 : fabs(shares[i]), 1));
    }
    for (int i = 0; i < n; i++) {
        const double share = drawn_share(told, i);
        rgi_text_add(&t, "    s%d -> w [", told->v[i].step);
        add_share(&t, told, share);
        rgi_text_add(&t, "%s]\n", share < 0 ? ", color=red" : "");
    }
    rgi_text_add(&t, "}\n");
    return rgi_text_own(&t);
}

/* ---- the public function ----------------------------------------------------------------- */

static bool own_first(const char **place, const char *text) {
    rg_text t = { 0 };
    if (!*text)
        return true;
    rgi_text_add(&t, "%s", text);
    *place = rgi_text_own(&t);
    return *place;
}

/* Returns the Euclidean norm of t, or -1 if memory ran out. */
static double norm_of_gradient(rg_tensor *t) {
    RG_SCOPE();
    const double *x = rgi_doubles(t);
    return x ? sqrt(rgi_inner_product(t->numel, x, x)) : -1;
}

/* Fills in the explanation, with the o->paths largest paths, or with all of them if there are
 * fewer. Returns false on failure. */
static bool tell_explanation(rg_explanation *e, const rg_paths *p, const rg_explain_options *o,
                             rg_tensor *w) {
    told_paths told;
    e->gradient = whole_gradient(p, w);
    if (!e->gradient || !list_paths(p, e, &told))
        return false;
    e->n = (int)RG_MIN(told.n, o->paths);
    for (int i = e->n; i < told.n; i++)
        e->rest += told.v[i].path.share;
    rg_gradient_path *v = rgi_scope_alloc((size_t)e->n * sizeof *v);
    if (!v)
        return false;
    for (int i = 0; i < e->n; i++) {
        v[i] = told.v[i].path;
        v[i].ops = ops_of(p, told.v[i].step);
        if (!v[i].ops)
            return false;
    }
    e->v = v;
    const double norm = norm_of_gradient(e->gradient);
    const bool is_over = norm == 0 && *p->overwritten;
    bool unread = false;
    if (norm < 0 || !own_first(&e->first_zero, is_over ? p->overwritten : p->zero)
        || !own_first(&e->first_not_finite, p->not_finite) || !own_first(&e->first_huge, p->huge)
        || !judge(e, o, w, &unread))
        return false;
    e->text = write_text(e, &told, o, w, norm, unread);
    e->dot = write_dot(p, e->n, &told, w);
    return e->text && e->dot;
}

static bool may_explain(rg_tensor *loss, rg_tensor *w, const rg_explain_options *o) {
    if (!rgi_check(loss, "explain") || !rgi_check(w, "explain") || !rgi_may_do_once("explain")
        || !rgi_renew(loss, "explain") || !rgi_renew(w, "explain"))
        return false;
    RG_FAIL_IF(loss->numel != 1, "explain",
               "grad can be implicitly created only for scalar outputs");
    RG_FAIL_IF(!loss->history, "explain",
               "element 0 of tensors does not require grad and does not have a grad_fn");
    RG_FAIL_IF(!w->history, "explain", "One of the differentiated Tensors does not require grad");
    RG_FAIL_VALUE_IF(o->paths < 0, "explain", "paths can't be %lld", (long long)o->paths);
    RG_FAIL_VALUE_IF(o->inputs.n > MOST_EXPLAINED, "explain", "takes up to %d inputs, but got %d",
                     MOST_EXPLAINED, o->inputs.n);
    return rgi_given_list(o->inputs.n, o->inputs.v, "explain");
}

/* Returns the explanation of a call that has failed. Its text is the failure's message, so that it
 * can be printed. */
static rg_explanation no_explanation(void) {
    const char *message = rg_error_peek();
    char *text = rgi_scope_alloc(strlen(message) + 1);
    return (rg_explanation){
        .n = -1, .off = NAN, .text = text ? strcpy(text, message) : "explain: failed", .dot = ""
    };
}

rg_explanation rg_explain_with(rg_tensor *loss, rg_tensor *w, rg_explain_options options) {
    rg_explanation e = { .n = -1, .off = NAN };
    rg_paths p = { .step = NULL };
    RG_AS("explain");
    if (!may_explain(loss, w, &options))
        return no_explanation();
    RG_NO_GRAD();
    bool ok = rgi_find_paths(&p, loss, w, options.huge) && tell_explanation(&e, &p, &options, w);
    rgi_paths_free(&p);
    return ok ? e : no_explanation();
}
