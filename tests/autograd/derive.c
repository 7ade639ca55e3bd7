/*
 * derive.c: the checks of derive.h. Each applies an op to a sample's inputs and knows nothing of
 * the op but its row.
 */
#include "derive.h"
#include "keeps.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

long derive_checks;
bool derive_quiet;

/* Prints a fault, unless derive_quiet is set, and returns 1. */
static int fault(const rg_op *op, const rg_sample *s, const char *check, const char *what) {
    if (!derive_quiet)
        printf("%s %s: %s: %s\n", op->name, s->inputs, check, what);
    return 1;
}

/* ---- inputs ---------------------------------------------------------------------- */

/* Returns a number in (0, 1). */
static double uniform(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return ((double)(*state >> 12) + 0.5) / 4503599627370496.0;
}

static double normal(uint64_t *state) {
    double radius = sqrt(-2 * log(uniform(state)));
    return radius * cos(6.283185307179586 * uniform(state));
}

/* Returns element i of n of an input of this kind; op.h says what the kinds are. */
static double draw(char kind, uint64_t *state, int64_t i, int64_t n) {
    double shift;
    switch (kind) {
    case 'p': return 0.1 + 2 * uniform(state);
    case 'u': return 0.05 + 0.9 * uniform(state);
    case 's': return 1.9 * uniform(state) - 0.95;
    /* The divisor isn't a multiple of 7, so i * 7 has a different remainder for each i. */
    case 'd': return 0.17 * (double)((i * 7 + 3) % (n % 7 ? n : n + 1)) - 0.31;
    case 'z':
        shift = 0.1 + 0.3 * uniform(state);
        return floor(6 * uniform(state)) / 2 - 1.5 + shift;
    default: return normal(state);
    }
}

/* A sample's text describes each input so: "i5(2,3)" has the kind 'i', the limit 5 and the shape
 * (2, 3). */
typedef struct {
    char kind;
    int64_t limit;
    rg_dims shape;
} described;

/* Reads a shape such as "(2,3)". Returns the rest of the text, or NULL if the text is malformed. */
static const char *read_shape(const char *p, rg_dims *shape) {
    if (*p != '(')
        return NULL;
    p++;
    while (*p && *p != ')') {
        shape->v[shape->n++] = strtol(p, (char **)&p, 10);
        if (*p == ',')
            p++;
    }
    return *p == ')' ? p + 1 : NULL;
}

static const char *read_input(const char *p, described *d) {
    if (isalpha((unsigned char)*p))
        d->kind = *p++;
    if (d->kind == 'i')
        d->limit = strtol(p, (char **)&p, 10);
    return read_shape(p, &d->shape);
}

static rg_tensor *make_input(const described *d, rg_dtype dtype, uint64_t *state) {
    bool whole = d->kind == 'i';
    bool truth = d->kind == 'b';
    rg_dtype given = truth ? RG_BOOL : RG_FLOAT64;
    rg_tensor *t = rg_empty_dims(d->shape, whole ? RG_INT64 : given);
    if (!t)
        return NULL;
    for (int64_t i = 0; i < t->numel; i++) {
        if (whole)
            ((int64_t *)t->data)[i] = (int64_t)(uniform(state) * (double)d->limit);
        else if (truth)
            ((bool *)t->data)[i] = uniform(state) < 0.5;
        else
            ((double *)t->data)[i] = draw(d->kind, state, i, t->numel);
    }
    return rgi_is_float(t->dtype) ? rg_requires_grad_(rg_to(t, dtype), true) : t;
}

int derive_inputs(const char *text, rg_dtype dtype, rg_tensor *in[RG_MAX_INPUTS]) {
    uint64_t state = 88172645463325252u;
    int n = 0;
    const char *p = text;
    while (*p) {
        while (*p == ' ')
            p++;
        if (*p == '-') {
            in[n++] = RG_NONE;
            p++;
            continue;
        }
        described d = { 0 };
        p = read_input(p, &d);
        if (!p)
            return -1;
        in[n] = make_input(&d, dtype, &state);
        if (!in[n++])
            return -1;
    }
    return n;
}

/* ---- the op as a function of its inputs ------------------------------------------ */

typedef enum { AS_IS, STRIDED, EXPANDED, LAYOUTS } layout;
static const char *const layout_names[LAYOUTS] = { "as it is", "strided", "expanded" };
typedef struct {
    const rg_op *op;
    const rg_sample *sample;
    int n, output;
    bool one_output; /* Only output number `output` has a cotangent. */
    /* Each third element of the cotangents or of an input, from element `first` on, is `odd`. */
    enum { WHOLE, SPOILED_COTANGENTS, SPOILED_INPUT } spoiled;
    int first, input;
    double odd;
    layout layout;
    bool create_graph;
} application;

/* Returns x in another layout. STRIDED gives a part of a larger tensor, whose dims lie in memory in
 * the reverse order. EXPANDED repeats the first slice along a dim, and so changes the numbers. */
static rg_tensor *laid_out(rg_tensor *x, layout how) {
    if (how == AS_IS || x == RG_NONE)
        return x;
    rg_dims shape = rg_shape(x);
    if (how == EXPANDED) {
        for (int d = 0; d < shape.n; d++)
            if (shape.v[d] > 1)
                return rg_expand_dims(rg_narrow(x, d, 0, 1), shape);
        return x;
    }
    rg_tensor *back = x;
    for (int d = 0; d < shape.n / 2; d++)
        back = rg_transpose(back, d, shape.n - 1 - d);
    if (shape.n == 0)
        return rg_select(rg_cat(RG_LIST(rg_reshape(x, 1), rg_reshape(x, 1)), 0), 0, 1);
    rg_tensor *apart = rg_unsqueeze(back, shape.n);
    rg_tensor *spread = rg_select(rg_cat(RG_LIST(apart, apart), shape.n), shape.n, 1);
    for (int d = 0; d < shape.n / 2; d++)
        spread = rg_transpose(spread, d, shape.n - 1 - d);
    return spread;
}

static bool apply_all(const application *a, rg_tensor *const inputs[], rg_tensor *out[]) {
    rg_tensor *in[RG_MAX_INPUTS];
    for (int i = 0; i < a->n; i++) {
        /* An index tensor isn't expanded, because expanding would change the indices. */
        bool index = inputs[i]->dtype != RG_BOOL && !rgi_is_float(inputs[i]->dtype);
        in[i] = laid_out(inputs[i], index && a->layout == EXPANDED ? AS_IS : a->layout);
        if (!in[i])
            return false;
    }
    return rgi_apply_outputs(a->op, a->sample->attr, a->sample->attr ? a->op->attr_size : 0, a->n,
                             in, out);
}

static rg_tensor *apply_one(rg_tensor *const inputs[], void *context) {
    const application *a = context;
    rg_tensor *out[RG_MAX_OUTPUTS];
    return apply_all(a, inputs, out) ? out[a->output] : NULL;
}

static int outputs_of(const rg_op *op) { return op->n_out ? op->n_out : 1; }

/* Returns whether a gradient can come from output k. */
static bool differentiable(const application *a, rg_tensor *const in[], int k) {
    application one = *a;
    one.output = k;
    rg_tensor *y = apply_one(in, &one);
    return y && rgi_is_float(y->dtype) && y->history && !a->op->no_grad;
}

/* ---- gradients against differences ----------------------------------------------- */

static const rg_gradcheck_options tight = { .eps = 1e-5, .atol = 2e-8, .rtol = 1e-7 };

static int check_order(const rg_op *op, const rg_sample *s, int order) {
    int faults = 0;
    for (layout how = AS_IS; how < (op->some_strides ? STRIDED : LAYOUTS); how++) {
        for (int k = 0; k < outputs_of(op); k++) {
            RG_SCOPE();
            rg_tensor *in[RG_MAX_INPUTS];
            application a = { .op = op,
                              .sample = s,
                              .n = derive_inputs(s->inputs, RG_FLOAT64, in),
                              .output = k,
                              .layout = how };
            if (a.n < 0)
                return fault(op, s, "sample", "malformed, or an input can't be made");
            rg_error_clear();
            rg_tensor *y = apply_one(in, &a);
            if (!y)
                return fault(op, s, "forward", rg_error());
            if (!differentiable(&a, in, k))
                continue;
            derive_checks++;
            bool ok = order == 1 ? rg_gradcheck_with(apply_one, &a, a.n, in, tight)
                                 : rg_gradgradcheck_with(apply_one, &a, a.n, in, tight);
            if (!ok)
                faults += fault(op, s, layout_names[how], rg_error());
        }
    }
    return faults;
}

int derive_first_order(const rg_op *op, const rg_sample *s) { return check_order(op, s, 1); }
int derive_second_order(const rg_op *op, const rg_sample *s) { return check_order(op, s, 2); }

/* ---- values ---------------------------------------------------------------------- */

/* Returns the largest difference divided by the largest magnitude, or infinity if shapes, NaN or
 * infinities differ. */
static double distance(rg_tensor *a, rg_tensor *b) {
    if (a == RG_NONE || b == RG_NONE)
        return a == b ? 0 : INFINITY;
    if (!a || !b || !rgi_same_shape(a, b))
        return INFINITY;
    a = rg_contiguous(rg_to(rg_detach(a), RG_FLOAT64));
    b = rg_contiguous(rg_to(rg_detach(b), RG_FLOAT64));
    double most = 0, largest = 1;
    for (int64_t i = 0; i < a->numel; i++) {
        double x = ((double *)a->data)[i], y = ((double *)b->data)[i];
        if (x == y || (isnan(x) && isnan(y)))
            continue;
        if (!isfinite(x) || !isfinite(y))
            return INFINITY;
        most = fmax(most, fabs(x - y));
        largest = fmax(largest, fmax(fabs(x), fabs(y)));
    }
    return most / largest;
}

/* Returns 0.5, 0.6, .. in y's shape and dtype. */
static rg_tensor *cotangent_of(const rg_tensor *y) {
    rg_tensor *v = rg_zeros_dims(rg_shape((rg_tensor *)y), (rg_dtype)y->dtype);
    for (int64_t j = 0; v && j < y->numel; j++)
        rgi_store_f64(v->data + j * (int64_t)rgi_sizeof(v->dtype), v->dtype,
                      0.5 + 0.1 * (double)(j % 11));
    return v;
}

/* Makes each third element of t, which is contiguous, the number that spoils the application. */
static void spoil(const application *a, rg_tensor *t) {
    for (int64_t j = a->first; j < t->numel; j += 3)
        rgi_store_f64(t->data + j * (int64_t)rgi_sizeof(t->dtype), t->dtype, a->odd);
}

static void spoil_input(const application *a, rg_tensor *const in[]) {
    if (a->spoiled == SPOILED_INPUT && in[a->input] != RG_NONE && rgi_is_float(in[a->input]->dtype))
        spoil(a, in[a->input]);
}

/* Returns the cotangent of an output of the application. */
static rg_tensor *cotangent_in(const application *a, const rg_tensor *y) {
    rg_tensor *v = cotangent_of(y);
    if (v && a->spoiled == SPOILED_COTANGENTS)
        spoil(a, v);
    return laid_out(v, a->layout == STRIDED ? STRIDED : AS_IS);
}

/* Puts the inputs that require grad into x, and returns their number. */
static int inputs_with_history(int n, rg_tensor *const in[], rg_tensor *x[]) {
    int m = 0;
    for (int i = 0; i < n; i++)
        if (in[i] != RG_NONE && in[i]->history)
            x[m++] = in[i];
    return m;
}

/* Fills the memory that is allocated next with a number. Each call uses another number, so an
 * element that an op leaves unwritten differs from run to run. */
static void spoil_memory(void) {
    static double number;
    RG_SCOPE();
    number += 1e9;
    for (int64_t n = 4; n <= 128; n += 8)
        for (int i = 0; i < 4; i++)
            rg_full_dims(RG_DIMS(n), number, RG_FLOAT64);
}

/* Computes the outputs of an application into `value`, and after them the gradients of its inputs.
 * The cotangents are 0.5, 0.6, .. for each floating output, or for the output `a->output` alone. If
 * the inputs are strided, the cotangents are strided as well. Returns false on failure. */
static bool values_of(const application *a, rg_tensor *const in[], bool graph, rg_tensor *value[],
                      int *n) {
    rg_tensor *out[RG_MAX_OUTPUTS], *y[RG_MAX_OUTPUTS], *v[RG_MAX_OUTPUTS], *x[RG_MAX_INPUTS];
    int outs = outputs_of(a->op), k = 0;
    spoil_memory();
    if (!apply_all(a, in, out))
        return false;
    for (int i = 0; i < outs; i++) {
        value[i] = out[i];
        if (!out[i]->history || a->op->no_grad || (a->one_output && i != a->output))
            continue;
        v[k] = cotangent_in(a, out[i]);
        y[k++] = out[i];
    }
    *n = outs;
    if (k == 0)
        return true;
    int m = inputs_with_history(a->n, in, x);
    *n += m;
    spoil_memory();
    return rg_grad_many(k, y, v, m, x, value + outs,
                        (rg_backward_options){ .create_graph = graph, .allow_unused = true });
}

/* Compares the outputs and gradients of the applications a and b. The inputs of b have the dtype
 * `other`. If `graph`, the gradients of b are computed with create_graph. Returns the number of
 * differences. */
static int compare_runs(const char *check, const application *a, const application *b,
                        rg_dtype other, bool graph, double tolerance) {
    RG_SCOPE();
    rg_tensor *in[RG_MAX_INPUTS], *in2[RG_MAX_INPUTS], *one[RG_MAX_INPUTS], *two[RG_MAX_INPUTS];
    int n1 = 0;
    int n2 = 0;
    int faults = 0;
    application p = *a, q = *b;
    p.n = derive_inputs(a->sample->inputs, RG_FLOAT64, in);
    q.n = derive_inputs(b->sample->inputs, other, in2);
    /* The expanded inputs are compared with contiguous ones of the same numbers. */
    if (a->layout == EXPANDED)
        for (int i = 0; i < p.n; i++) {
            if (in2[i]->dtype == RG_BOOL && in2[i] != RG_NONE)
                in2[i] = rg_clone(laid_out(in2[i], EXPANDED));
            else if (in2[i] != RG_NONE && rgi_is_float(in2[i]->dtype))
                in2[i] = rg_requires_grad_(rg_detach(rg_clone(laid_out(in2[i], EXPANDED))), true);
        }
    spoil_input(a, in);
    spoil_input(b, in2);
    if (!values_of(&p, in, false, one, &n1) || !values_of(&q, in2, graph, two, &n2))
        return fault(a->op, a->sample, check, rg_error());
    for (int i = 0; i < n1; i++) {
        /* The gradients of an expanded input are sums, so they are not compared. */
        if (a->layout == EXPANDED && i >= outputs_of(a->op))
            continue;
        derive_checks++;
        double d = distance(one[i], two[i]);
        bool output = i < outputs_of(a->op);
        char what[96];
        snprintf(what, sizeof what, "%s %d differs by %g", output ? "output" : "gradient",
                 output ? i : i - outputs_of(a->op), d);
        if (!(d <= tolerance))
            faults += fault(a->op, a->sample, check, what);
    }
    return faults;
}

int derive_layouts(const rg_op *op, const rg_sample *s) {
    application a = { .op = op, .sample = s, .layout = STRIDED }, b = { .op = op, .sample = s };
    if (op->some_strides)
        return 0;
    int faults = compare_runs("strided", &a, &b, RG_FLOAT64, false, 1e-13);
    a.layout = EXPANDED;
    return faults + compare_runs("expanded", &a, &b, RG_FLOAT64, false, 1e-13);
}

int derive_float32(const rg_op *op, const rg_sample *s) {
    application a = { .op = op, .sample = s };
    return compare_runs("float32", &a, &a, RG_FLOAT32, false, 1e-5);
}

/* Returns whether the sample's attention is causal. Its kernels don't read the keys that a query
 * doesn't see; the rules multiply them by 0, as torch's composed attention does. */
static bool hides_keys(const rg_op *op, const rg_sample *s) {
    return strstr(op->name, "attention") && ((const k_attention *)s->attr)->causal;
}

/* Compares gradients as derive_fused does, where NaN or infinity is among the cotangents or in an
 * input. */
static int fused_of_odd(const rg_op *op, const rg_sample *s) {
    static const double odd[] = { NAN, INFINITY };
    rg_tensor *in[RG_MAX_INPUTS];
    int faults = 0;
    RG_SCOPE();
    const int inputs = derive_inputs(s->inputs, RG_FLOAT64, in);
    for (int i = 0; i < RG_COUNT(odd); i++)
        for (int first = 0; first < 3; first++) {
            application a = { .op = op, .sample = s, .first = first, .odd = odd[i] };
            a.one_output = true;
            a.spoiled = SPOILED_COTANGENTS;
            faults += compare_runs("fused, odd cotangents", &a, &a, RG_FLOAT64, true, 1e-12);
            a.spoiled = SPOILED_INPUT;
            for (a.input = 0; a.input < inputs && !hides_keys(op, s); a.input++)
                faults += compare_runs("fused, odd input", &a, &a, RG_FLOAT64, true, 1e-12);
        }
    return faults;
}

/* Compares gradients of a run without create_graph, which calls the op's `fused` and `into`, with
 * those of a run with create_graph, which calls the rules. */
int derive_fused(const rg_op *op, const rg_sample *s) {
    application a = { .op = op, .sample = s };
    int faults = compare_runs("fused", &a, &a, RG_FLOAT64, true, 1e-12);
    a.one_output = true;
    for (; a.output < op->n_out; a.output++)
        faults += compare_runs("fused, from one output", &a, &a, RG_FLOAT64, true, 1e-12);
    return faults + fused_of_odd(op, s);
}

/* Returns the number of calls that a backward run through the sample makes, or -1 if there is no
 * such run. */
static int64_t calls_back(const rg_op *op, const rg_sample *s, bool create_graph) {
    RG_SCOPE();
    rg_tensor *in[RG_MAX_INPUTS], *out[RG_MAX_OUTPUTS];
    const int n = derive_inputs(s->inputs, RG_FLOAT64, in);
    if (n < 0 || !rgi_apply_outputs(op, s->attr, s->attr ? op->attr_size : 0, n, in, out)
        || !out[0]->history || out[0]->numel == 0)
        return -1;
    rg_tensor *g = rg_ones_dims(rg_shape(out[0]), (rg_dtype)out[0]->dtype);
    const int64_t before = rg_profile_cost(NULL).calls;
    rg_set_profiling(true);
    const bool ok = rg_backward_with(
        out[0], (rg_backward_options){ .gradient = g, .create_graph = create_graph });
    rg_set_profiling(false);
    for (int i = 0; i < n; i++)
        if (in[i] != RG_NONE && rg_requires_grad(in[i]))
            rg_set_grad(in[i], RG_NONE);
    return ok ? rg_profile_cost(NULL).calls - before : -1;
}

bool derive_is_fused(const rg_op *op, const rg_sample *s) {
    const int64_t fused = calls_back(op, s, false), ruled = calls_back(op, s, true);
    return fused < ruled;
}

/* ---- failures -------------------------------------------------------------------- */

int derive_null(const rg_op *op, const rg_sample *s) {
    RG_SCOPE();
    rg_tensor *in[RG_MAX_INPUTS], *out[RG_MAX_OUTPUTS];
    application a = { .op = op, .sample = s, .n = derive_inputs(s->inputs, RG_FLOAT64, in) };
    int faults = 0;
    for (int i = 0; i < a.n; i++) {
        rg_tensor *keep = in[i];
        rgi_fail(RG_RUNTIME_ERROR, NULL, "the root failure");
        in[i] = NULL;
        derive_checks++;
        if (rgi_apply_outputs(op, s->attr, s->attr ? op->attr_size : 0, a.n, in, out) || out[0])
            faults += fault(op, s, "NULL", "gave a result");
        if (strcmp(rg_error(), "the root failure"))
            faults += fault(op, s, "NULL", "changed the message");
        in[i] = keep;
    }
    rg_error_clear();
    return faults;
}

int derive_leaves_nothing(const rg_op *op, const rg_sample *s) {
    int64_t before = rg_live_tensors();
    {
        RG_SCOPE();
        rg_tensor *in[RG_MAX_INPUTS], *value[RG_MAX_INPUTS];
        application a = { .op = op, .sample = s, .n = derive_inputs(s->inputs, RG_FLOAT64, in) };
        int n;
        if (!values_of(&a, in, true, value, &n))
            return fault(op, s, "forward", rg_error());
        /* Gradients in .grad that have a history must be released with the scope as well. */
        for (int i = 0; i < n; i++)
            if (value[i] != RG_NONE && value[i]->history)
                rg_backward_with(rg_sum(value[i]), (rg_backward_options){ .gradient = RG_NONE,
                                                                          .create_graph = true });
        rg_error_clear();
    }
    derive_checks++;
    return rg_live_tensors() == before ? 0 : fault(op, s, "scope", "tensors are alive after it");
}

/* If no graph is recorded, applying an op leaves only its outputs alive. */
int derive_only_results(const rg_op *op, const rg_sample *s) {
    RG_SCOPE();
    RG_NO_GRAD();
    rg_tensor *in[RG_MAX_INPUTS], *out[RG_MAX_OUTPUTS];
    int n = derive_inputs(s->inputs, RG_FLOAT64, in);
    rg_memory before = rg_memory_stats();
    int64_t live = rg_live_tensors();
    if (!rgi_apply_outputs(op, s->attr, s->attr ? op->attr_size : 0, n, in, out))
        return fault(op, s, "only results", rg_error());
    derive_checks++;
    if (rg_live_tensors() - live != outputs_of(op))
        return fault(op, s, "only results", "other tensors are alive");
    if (rg_memory_stats().nodes != before.nodes || rg_memory_stats().other > before.other + 4096)
        return fault(op, s, "only results", "other memory is in use");
    return 0;
}

int derive_no_gradient(const rg_op *op, const rg_sample *s) {
    RG_SCOPE();
    rg_tensor *in[RG_MAX_INPUTS], *out[RG_MAX_OUTPUTS];
    application a = { .op = op, .sample = s, .n = derive_inputs(s->inputs, RG_FLOAT64, in) };
    if (!op->no_grad)
        return 0;
    if (!apply_all(&a, in, out))
        return fault(op, s, "forward", rg_error());
    derive_checks++;
    if (!out[0]->history)
        return fault(op, s, "no_grad", "silently stops the gradient");
    if (rg_backward_with(rg_sum(out[0]), (rg_backward_options){ .gradient = RG_NONE })
        || !strstr(rg_error(), op->no_grad))
        return fault(op, s, "no_grad", "does not refuse with its reason");
    rg_error_clear();
    return 0;
}

/* An op that writes its result over its first input computes the same as an op that makes a new
 * tensor. If it is recorded, its gradients are the same, too. */
int derive_inplace(const rg_op *op, const rg_sample *s) {
    int faults = 0;
    for (int recorded = 0; op->inplace && recorded < 2; recorded++) {
        RG_SCOPE();
        rg_tensor *in[RG_MAX_INPUTS], *y[2] = { NULL, NULL }, *g[2] = { RG_NONE, RG_NONE };
        application a = { .op = op, .sample = s, .n = derive_inputs(s->inputs, RG_FLOAT64, in) };
        for (int way = 0; way < 2; way++) {
            rg_tensor *args[RG_MAX_RULES];
            for (int i = 0; i < a.n; i++)
                args[i] = recorded || in[i] == RG_NONE ? in[i] : rg_detach(in[i]);
            args[0] = rg_clone(args[0]);
            if (!args[0])
                return fault(op, s, "in place", rg_error());
            size_t bytes = s->attr ? op->attr_size : 0;
            rg_error_clear();
            const int64_t live = rg_live_tensors();
            y[way] = way ? rgi_apply_inplace("inplace", op, s->attr, bytes, a.n, args)
                         : rgi_apply(op, s->attr, bytes, a.n, args);
            /* A result of another shape or dtype is rightly refused. */
            if (way && !y[1]) {
                bool fits = rgi_same_shape(args[0], y[0])
                            && rg_promote_types(y[0]->dtype, args[0]->dtype) == args[0]->dtype;
                if (fits)
                    faults += fault(op, s, "in place", rg_error());
                rg_error_clear();
                return faults;
            }
            /* A write that isn't recorded leaves no other tensor alive. */
            if (way && !recorded && rg_live_tensors() != live)
                faults += fault(op, s, "in place", "other tensors are alive");
            if (recorded && y[way]->history && !op->no_grad)
                g[way] = rg_grad(rg_sum(rg_mul(y[way], y[way])), in[0], .allow_unused = true);
        }
        derive_checks++;
        if (distance(rg_to(y[0], y[1]->dtype), y[1]) > 0)
            faults += fault(op, s, "in place", "another value");
        if (distance(g[0], g[1]) > 1e-14)
            faults += fault(op, s, "in place", "another gradient");
    }
    return faults;
}

/* ---- inner tensors --------------------------------------------------------------- */

/* An inner tensor has the same gradient whether its gradient is requested alone or with others. If
 * it is requested alone, the backward run ends at the tensor, and skips nodes that don't lead to
 * it. */
int derive_inner(const rg_op *op, const rg_sample *s) {
    RG_SCOPE();
    int faults = 0, n;
    rg_tensor *in[RG_MAX_INPUTS], *inner[RG_MAX_INPUTS], *value[RG_MAX_INPUTS + RG_MAX_OUTPUTS];
    application a = { .op = op, .sample = s, .n = derive_inputs(s->inputs, RG_FLOAT64, in) };
    if (op->no_grad)
        return 0;
    if (!values_of(&a, in, false, value, &n))
        return fault(op, s, "inner", rg_error());
    int at = outputs_of(op);
    for (int i = 0; i < a.n; i++) {
        if (in[i] == RG_NONE || !in[i]->history)
            continue;
        for (int k = 0; k < a.n; k++)
            inner[k] = in[k] != RG_NONE && in[k]->history ? rg_mul(in[k], 1) : in[k];
        rg_tensor *out[RG_MAX_OUTPUTS], *y[RG_MAX_OUTPUTS], *v[RG_MAX_OUTPUTS], *g;
        int m = 0;
        bool ok = apply_all(&a, inner, out);
        for (int k = 0; ok && k < outputs_of(op); k++)
            if (out[k]->history) {
                v[m] = cotangent_of(out[k]);
                y[m++] = out[k];
            }
        if (ok && m == 0)
            return faults;
        derive_checks++;
        rg_backward_options o = { .gradient = RG_NONE, .allow_unused = true };
        if (!ok || !rg_grad_many(m, y, v, 1, &inner[i], &g, o))
            faults += fault(op, s, "inner", rg_error());
        else if (distance(g, value[at]) > 1e-14)
            faults += fault(op, s, "inner", "another gradient where it is asked for alone");
        at++;
    }
    return faults;
}

static int alone_of(application a) {
    RG_SCOPE();
    const rg_op *op = a.op;
    const rg_sample *s = a.sample;
    int faults = 0, outs = outputs_of(op), at = outs, n;
    rg_tensor *in[RG_MAX_INPUTS], *want[RG_MAX_INPUTS + RG_MAX_OUTPUTS];
    a.n = derive_inputs(s->inputs, RG_FLOAT64, in);
    if (!values_of(&a, in, false, want, &n))
        return fault(op, s, "alone", rg_error());
    for (int i = 0; i < a.n && n > outs; i++) {
        rg_tensor *alone[RG_MAX_INPUTS], *got[RG_MAX_INPUTS + RG_MAX_OUTPUTS];
        int m;
        if (in[i] == RG_NONE || !in[i]->history)
            continue;
        for (int k = 0; k < a.n; k++)
            alone[k] = k == i || in[k] == RG_NONE ? in[k] : rg_detach(in[k]);
        for (int graph = 0; graph < 2; graph++) {
            derive_checks++;
            if (!values_of(&a, alone, graph, got, &m))
                faults += fault(op, s, "alone", rg_error());
            else if (distance(m > outs ? got[outs] : RG_NONE, want[at]) > 1e-12)
                faults += fault(op, s, "alone", "another gradient where the others are constants");
            rg_error_clear();
        }
        at++;
    }
    return faults;
}

/* If only one input requires grad, the op saves less. The input's gradient must be the same as if
 * all inputs required grad. The gradient is taken from all outputs together, and from each output
 * alone. */
int derive_alone(const rg_op *op, const rg_sample *s) {
    application a = { .op = op, .sample = s };
    if (op->no_grad)
        return 0;
    int faults = alone_of(a);
    a.one_output = true;
    for (; a.output < op->n_out; a.output++)
        faults += alone_of(a);
    return faults;
}

/* ---- writes ---------------------------------------------------------------------- */

/* Returns a view of numel elements of the buffer, from `first` on, in this shape. */
static rg_tensor *part_of(rg_tensor *buffer, int64_t first, rg_dims shape, int64_t numel) {
    return rg_view_dims(rg_narrow(buffer, 0, first, numel), shape);
}

/* Applies the op in place. Input i lies in the memory of the first input, `over` elements behind
 * its beginning. The result must be the same as if the inputs shared no memory. */
static int check_overlap(const application *a, rg_tensor *const in[], int i, int64_t over) {
    RG_SCOPE();
    int64_t n = in[0]->numel, m = in[i]->numel, most = RG_MAX(n, m);
    int64_t begin = RG_MAX(-over, 0);
    rg_tensor *args[RG_MAX_RULES], *apart[RG_MAX_RULES];
    rg_tensor *buffer = rg_repeat(rg_reshape(rg_detach(in[i]), -1), 3 + 3 * most / m);
    for (int k = 0; k < a->n; k++) {
        args[k] = in[k] == RG_NONE ? in[k] : rg_detach(in[k]);
        apart[k] = args[k];
    }
    args[0] = part_of(buffer, begin, rg_shape(in[0]), n);
    args[i] = part_of(buffer, begin + over, rg_shape(in[i]), m);
    apart[0] = rg_clone(args[0]);
    apart[i] = rg_clone(args[i]);
    size_t bytes = a->sample->attr ? a->op->attr_size : 0;
    rg_tensor *want = rgi_apply(a->op, a->sample->attr, bytes, a->n, apart);
    if (!want || !rgi_same_shape(want, in[0]) || want->dtype != in[0]->dtype) {
        rg_error_clear();
        return 0;
    }
    rg_tensor *y = rgi_apply_inplace("inplace", a->op, a->sample->attr, bytes, a->n, args);
    derive_checks++;
    if (!y)
        return fault(a->op, a->sample, "overlap", rg_error());
    return distance(want, y) > 0 ? fault(a->op, a->sample, "overlap", "another value") : 0;
}

/* Sets like[] to the inputs. If in[i] is an index, gives them its dtype, and the first input's
 * shape to those with as many dims, so that the index and the first input can be the same elements.
 * The index is then 1, 3, 5, ... modulo the least size, which is in bounds along each dim, and the
 * other inputs are 1, 2, 3, ... */
static void like_index(const application *a, rg_tensor *const in[], int i, rg_tensor *like[]) {
    const bool whole = in[i]->dtype == RG_INT64;
    int64_t least = RG_MAX(in[0]->numel, 1);
    for (int d = 0; d < in[0]->ndim; d++)
        least = RG_MIN(least, RG_MAX(in[0]->size[d], 1));
    for (int k = 0; k < a->n; k++) {
        like[k] = in[k];
        if (!whole || in[k] == RG_NONE)
            continue;
        rg_tensor *shape = in[k]->ndim == in[0]->ndim ? in[0] : in[k];
        rg_tensor *row = rg_add(rg_mul(rg_arange(shape->numel), k == i ? 2 : 1), 1);
        like[k] = rg_view_dims(k == i ? rg_remainder(row, least) : row, rg_shape(shape));
    }
}

/* An op that writes its result over its first input computes the same if another input, such as an
 * index, shares memory with the first. The other input begins one element before the first input,
 * at the same address, or one or two elements behind it. */
int derive_overlap(const rg_op *op, const rg_sample *s) {
    static const int64_t places[] = { -1, 0, 1, 2 };
    int faults = 0;
    RG_SCOPE();
    rg_tensor *in[RG_MAX_INPUTS], *like[RG_MAX_INPUTS];
    application a = { .op = op, .sample = s, .n = derive_inputs(s->inputs, RG_FLOAT64, in) };
    for (int i = 1; op->inplace && i < a.n; i++) {
        if (in[i] == RG_NONE)
            continue;
        like_index(&a, in, i, like);
        if (like[i]->dtype != like[0]->dtype || !like[i]->numel || !like[0]->numel)
            continue;
        for (int k = 0; k < RG_COUNT(places); k++)
            faults += check_overlap(&a, like, i, places[k]);
    }
    return faults;
}

/* Writes other values over a leaf or an index. No program should do this between forward and
 * backward. */
static bool overwrite(rg_tensor *t) {
    RG_NO_GRAD();
    if (t->dtype == RG_BOOL)
        return rg_logical_not_(t);
    return rgi_is_float(t->dtype) ? rg_add_(t, 0.25) : rg_zero_(t);
}

/* Writes an index that is out of bounds through rg_data, so the write isn't counted. Returns false
 * if t isn't an index. */
static bool poke(rg_tensor *t) {
    if (t->dtype != RG_INT64)
        return false;
    *(int64_t *)rg_data(t) = 1000000000;
    return true;
}

/* A write over an input or an output between forward and backward, and the sentence of the error
 * that refuses the backward run. If `named`, the sentence begins with the op's name. */
typedef struct {
    bool (*write)(rg_tensor *t);
    const char *refused;
    bool named;
} overwriting;

/* Differentiates the k outputs y by the m inputs x, after an input or an output was written to. The
 * gradients must be those in `want`, unless an error refuses the run. Returns the number of
 * faults. */
static int check_written(const overwriting *w, const application *a, int k, rg_tensor *const y[],
                         int m, rg_tensor *const x[], rg_tensor *const want[]) {
    rg_tensor *v[RG_MAX_OUTPUTS], *got[RG_MAX_INPUTS];
    rg_backward_options o = { .gradient = RG_NONE, .allow_unused = true };
    int faults = 0;
    for (int i = 0; i < k; i++)
        v[i] = cotangent_of(y[i]);
    derive_checks++;
    if (rg_grad_many(k, y, v, m, x, got, o)) {
        if (rg_error_code())
            faults += fault(a->op, a->sample, "written, but a gradient", rg_error());
        for (int i = 0; i < m; i++)
            if (distance(got[i], want[i]) > 0)
                faults += fault(a->op, a->sample, "written", "a wrong gradient, and no error");
        rg_error_clear();
        return faults;
    }
    char name[64];
    int length = snprintf(name, sizeof name, "%s: ", a->op->name);
    if (!strstr(rg_error(), w->refused)
        || (w->named && strncmp(rg_error(), name, (size_t)length) != 0))
        faults = fault(a->op, a->sample, "written", rg_error());
    rg_error_clear();
    return faults;
}

static int after_a_write(const overwriting *w, const rg_op *op, const rg_sample *s) {
    int faults = 0, outs = outputs_of(op);
    application a = { .op = op, .sample = s };
    for (int i = 0; !op->no_grad && !op->view && i < 8 + outs; i++) {
        RG_SCOPE();
        rg_tensor *in[RG_MAX_INPUTS], *same[RG_MAX_INPUTS], *out[RG_MAX_OUTPUTS];
        rg_tensor *x[RG_MAX_INPUTS], *y[RG_MAX_OUTPUTS];
        rg_tensor *want[RG_MAX_OUTPUTS + RG_MAX_INPUTS];
        int n, k = 0;
        a.n = derive_inputs(s->inputs, RG_FLOAT64, in);
        if (i >= a.n + outs)
            return faults;
        derive_inputs(s->inputs, RG_FLOAT64, same);
        if (!apply_all(&a, in, out) || !values_of(&a, same, false, want, &n))
            return fault(op, s, "written", rg_error());
        rg_tensor *written = i < a.n ? in[i] : out[i - a.n];
        int m = inputs_with_history(a.n, in, x);
        for (int j = 0; j < outs; j++)
            if (out[j]->history)
                y[k++] = out[j];
        if (written == RG_NONE || !written->numel || k == 0 || m == 0 || !w->write(written))
            continue;
        /* In `want` the gradients come after the outputs. */
        faults += check_written(w, &a, k, y, m, x, want + outs);
    }
    return faults;
}

/* An input or an output is written to before backward. If backward doesn't read it, the gradients
 * stay the same. Otherwise an error names the op. */
int derive_written(const rg_op *op, const rg_sample *s) {
    const overwriting w = { overwrite, "modified by an inplace operation", true };
    return after_a_write(&w, op, s);
}

/* An index is set out of bounds through rg_data before backward. If backward doesn't read the
 * index, the gradients stay the same. Otherwise an error refuses the run. */
int derive_poked(const rg_op *op, const rg_sample *s) {
    const overwriting w = { poke, "out of bounds", false };
    return after_a_write(&w, op, s);
}

/* A step for a recording: it applies the op, and differentiates the outputs by the inputs. v[k] is
 * the cotangent of output k. */
typedef struct {
    application a;
    rg_tensor *in[RG_MAX_INPUTS], *out[RG_MAX_OUTPUTS], *v[RG_MAX_OUTPUTS];
} forth_and_back;

static void go_forth_and_back(void *context) {
    forth_and_back *f = context;
    rg_tensor *y[RG_MAX_OUTPUTS], *v[RG_MAX_OUTPUTS], *x[RG_MAX_INPUTS], *gradient[RG_MAX_INPUTS];
    int k = 0;
    if (!apply_all(&f->a, f->in, f->out))
        return;
    for (int i = 0; i < outputs_of(f->a.op); i++)
        if (f->out[i]->history) {
            v[k] = f->v[i];
            y[k++] = f->out[i];
        }
    const int m = inputs_with_history(f->a.n, f->in, x);
    if (k && m)
        rg_grad_many(k, y, v, m, x, gradient, (rg_backward_options){ .allow_unused = true });
}

/* Records the step, sets an element of an input out of the bounds of indices, and runs the
 * recording. The run must fail if a call of the step would fail. Returns the number of faults. */
static int check_poked_replay(forth_and_back *f, rg_tensor *index) {
    const application *a = &f->a;
    rg_tensor *out[RG_MAX_OUTPUTS];
    int faults = 0;
    rg_replay *r = rg_record(go_forth_and_back, f);
    if (!r)
        return fault(a->op, a->sample, "poked replay", rg_error());
    derive_checks++;
    poke(index);
    const bool ran = rg_replay_run(r);
    if (!ran && !strstr(rg_error(), "out of bounds"))
        faults = fault(a->op, a->sample, "poked replay", rg_error());
    rg_error_clear();
    if (ran && !apply_all(a, f->in, out))
        faults = fault(a->op, a->sample, "poked replay", "an index out of bounds, and no error");
    rg_error_clear();
    rg_replay_free(r);
    return faults;
}

/* An index of a recorded step is set out of bounds through rg_data. If the step's forward reads the
 * index, an error must refuse the next run of the recording. */
int derive_poked_replay(const rg_op *op, const rg_sample *s) {
    int faults = 0, n = 1;
    for (int i = 0; !op->by_value && i < n; i++) {
        RG_SCOPE();
        forth_and_back f = { .a = { .op = op, .sample = s } };
        f.a.n = derive_inputs(s->inputs, RG_FLOAT64, f.in);
        n = f.a.n;
        if (f.in[i] == RG_NONE || f.in[i]->dtype != RG_INT64 || !f.in[i]->numel)
            continue;
        if (!apply_all(&f.a, f.in, f.out))
            return fault(op, s, "poked replay", rg_error());
        /* An op whose results have no elements reads no element at an index. */
        if (!f.out[0]->numel)
            continue;
        for (int k = 0; k < outputs_of(op); k++)
            f.v[k] = cotangent_of(f.out[k]);
        faults += check_poked_replay(&f, f.in[i]);
    }
    return faults;
}

/* Gives each leaf a gradient, which a failed run must leave alone. */
static void preset_gradients(int n, rg_tensor *const in[], rg_tensor *grads[]) {
    for (int i = 0; i < n; i++) {
        grads[i] = in[i] != RG_NONE && in[i]->history ? rg_full_like(in[i], 3) : RG_NONE;
        if (grads[i] != RG_NONE)
            rg_set_grad(in[i], grads[i]);
    }
}

static bool gradients_are_preset(int n, rg_tensor *const in[], rg_tensor *const grads[]) {
    for (int i = 0; i < n; i++)
        if (grads[i] != RG_NONE
            && (rg_grad_of(in[i]) != grads[i] || distance(grads[i], rg_full_like(in[i], 3)) != 0))
            return false;
    return true;
}

/* Runs the op forward, and backward from the output `a->output`. If the inputs are strided, so is
 * the gradient of that output. Returns whether both runs succeeded. */
static bool run_both_ways(const application *a, rg_tensor *const in[]) {
    rg_tensor *out[RG_MAX_OUTPUTS] = { NULL };
    if (!apply_all(a, in, out)) {
        /* A call that failed must have set no output. */
        for (int k = 0; k < outputs_of(a->op); k++)
            if (out[k])
                rgi_fail(RG_RUNTIME_ERROR, a->op->name, "output %d stays where the call failed", k);
        return false;
    }
    rg_tensor *y = out[a->output];
    if (!y->history || a->op->no_grad)
        return true;
    rg_backward_options o = { .gradient = RG_NONE,
                              .retain_graph = true,
                              .create_graph = a->create_graph };
    if (a->layout != STRIDED)
        return rg_backward_with(rg_sum(y), o);
    o.gradient = rg_expand_dims(rg_scalar_dtype(1, y->dtype), rg_shape(y));
    return rg_backward_with(y, o);
}

/* Runs the op with request number `fail` for memory denied. Returns the number of faults, and sets
 * *succeeded if the run succeeds nevertheless. */
static int run_without_memory(application a, int64_t fail, bool *succeeded) {
    RG_SCOPE();
    const rg_op *op = a.op;
    const rg_sample *s = a.sample;
    rg_tensor *in[RG_MAX_INPUTS], *grads[RG_MAX_INPUTS];
    a.n = derive_inputs(s->inputs, RG_FLOAT64, in);
    preset_gradients(a.n, in, grads);
    rg_error_clear();
    rg_memory_fail_at(fail);
    *succeeded = run_both_ways(&a, in);
    rg_memory_fail_at(0);
    derive_checks++;
    int faults = 0;
    if (*succeeded && rg_error_code())
        faults = fault(op, s, "out of memory, but a result", rg_error());
    else if (!*succeeded && rg_error_code() != RG_OUT_OF_MEMORY)
        faults = fault(op, s, "out of memory", rg_error());
    else if (!*succeeded && !gradients_are_preset(a.n, in, grads))
        faults = fault(op, s, "out of memory", "a failed run changed .grad");
    rg_error_clear();
    return faults;
}

/* Denies the first request for memory, then the second, and so on, until a run succeeds. */
static int without_memory(application a) {
    bool succeeded = false;
    for (int64_t fail = 1; !succeeded; fail++) {
        int64_t before = rg_live_tensors(), nodes = rg_memory_stats().nodes;
        if (run_without_memory(a, fail, &succeeded))
            return 1;
        if (rg_live_tensors() != before)
            return fault(a.op, a.sample, "out of memory", "tensors are alive after it");
        if (rg_memory_stats().nodes != nodes)
            return fault(a.op, a.sample, "out of memory", "nodes are alive after it");
        if (fail > 100000)
            return fault(a.op, a.sample, "out of memory", "does not end");
    }
    return 0;
}

/* Each request for memory is denied in turn, in runs with contiguous and with strided inputs. Many
 * ops copy strided inputs, which needs memory. Ops with `some_strides` refuse strided inputs. With
 * create_graph the gradients are computed by the rules, and not by `fused`. Each output is
 * differentiated alone, so the gradients of the other outputs are zeros, which also take memory. */
int derive_out_of_memory(const rg_op *op, const rg_sample *s) {
    int faults = 0;
    for (int k = 0; k < outputs_of(op); k++) {
        application a = { .op = op, .sample = s, .output = k };
        faults += without_memory(a);
        a.layout = STRIDED;
        if (!op->some_strides)
            faults += without_memory(a);
        a.create_graph = true;
        if (!op->some_strides && op->fused)
            faults += without_memory(a);
    }
    return faults;
}

/* ---- saved values that are withheld ------------------------------------------------ */

/* Hooks keep the saved values. When value number `turn` is unpacked, the hook returns NULL. */
typedef struct {
    int turn, unpacked;
} withheld;

static rg_tensor *unpack_but_one(void *packed, void *context) {
    withheld *w = context;
    w->unpacked++;
    return w->unpacked == w->turn ? NULL : packed;
}

/* Runs the op forward and backward, and withholds the saved value number `turn`. Returns the number
 * of faults. Sets *all to whether the run unpacked fewer than `turn` values, so none was
 * withheld. */
static int run_withheld(application a, int turn, bool *all) {
    RG_SCOPE();
    withheld w = { .turn = turn };
    rg_saved_hooks hooks = keeps;
    rg_tensor *in[RG_MAX_INPUTS], *grads[RG_MAX_INPUTS];
    hooks.unpack = unpack_but_one;
    hooks.context = &w;
    a.n = derive_inputs(a.sample->inputs, RG_FLOAT64, in);
    preset_gradients(a.n, in, grads);
    rg_error_clear();
    RG_SAVED_HOOKS(hooks);
    const bool succeeded = run_both_ways(&a, in);
    derive_checks++;
    *all = w.unpacked < turn;
    int faults = 0;
    if (succeeded != *all || succeeded != !rg_error_code())
        faults = fault(a.op, a.sample, "withheld", succeeded ? "has a gradient" : rg_error());
    else if (!succeeded && !strstr(rg_error(), "unpack_hook expected to be a Tensor but got NULL"))
        faults = fault(a.op, a.sample, "withheld", rg_error());
    else if (!succeeded && !gradients_are_preset(a.n, in, grads))
        faults = fault(a.op, a.sample, "withheld", "a failed run changed .grad");
    rg_error_clear();
    return faults;
}

/* If a saved value can't be unpacked, backward fails with the error about the hook. */
int derive_withheld(const rg_op *op, const rg_sample *s) {
    int faults = 0;
    for (int k = 0; k < outputs_of(op); k++)
        for (int graph = 0; graph < 2; graph++) {
            application a = { .op = op, .sample = s, .output = k, .create_graph = graph };
            bool all = false;
            const int64_t before = rg_live_tensors();
            for (int turn = 1; !all && !faults; turn++)
                faults += run_withheld(a, turn, &all);
            if (rg_live_tensors() != before)
                faults += fault(op, s, "withheld", "tensors are alive after it");
        }
    return faults;
}
