/*
 * profile.c: the profiler. It counts the cost of each op: the number of calls, their time, the
 * bytes of the tensors read and written, and the floating point operations. The time of a call
 * doesn't include that of calls inside it. If a gradient rule computes a gradient, the cost is
 * counted for the ops that the rule calls. The costs are the rows of a table. Work that isn't an op
 * has rows of its own if the program marks it (RG_RECORD_FUNCTION). With REGARD_PROFILE=1 in the
 * environment, the table is printed to standard error when the program ends.
 * REGARD_PROFILE=FILE.json also writes every call to that file, for chrome://tracing.
 */
#include "autograd/autograd.h"
#include "autograd/engine.h"
#include "autograd/graph_observer.h"
#include "profile_file.h"
#include "tensor/messages/warning.h"
#include "tensor/threads/lock.h"
#include "tensor/text/c_locale.h"
#include "tensor/text/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <string.h>

/* A row of the profile's table: the cost of all forward or all backward calls with this name.
 * `beside` is true for work that was measured by rg_profile_begin and rg_profile_end. Such work
 * goes on while the threads call ops, so its time isn't a part of the total. */
typedef struct {
    const char *name;
    bool backward, beside;
    rg_cost cost;
} profile_row;

/* The table has profile_n rows: one for each op whose forward was called, one for each op whose
 * backward step was done, and one for each name that the program gives. The name of an op exists
 * for good, and is not copied. The program's names are copied to given_names, cut to GIVEN_ROOM
 * bytes, and the rows point to the copies. */
enum { PROFILE_ROWS = 1024, GIVEN_ROOM = 64 };
static profile_row profile_rows[PROFILE_ROWS];
static char given_names[PROFILE_ROWS][GIVEN_ROOM];
static int profile_n;
/* The nanoseconds that calls inside the current call have taken up to now. */
static __thread double profile_inside __attribute__((tls_model("initial-exec")));

static double profile_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* A call that is being measured. `began` is the time at which it began. At that time profile_inside
 * was set to 0, to add up the times of the calls inside this one. `outer` keeps the value that
 * profile_inside had before, for the surrounding call. All times are in nanoseconds. */
typedef struct {
    double began, outer;
} timing;

static void profile_add(rg_cost *to, const rg_cost *c) {
    to->calls += c->calls;
    to->ns += c->ns;
    to->bytes += c->bytes;
    to->flops += c->flops;
}

static void timing_begin(timing *t) {
    t->outer = profile_inside;
    profile_inside = 0;
    t->began = profile_now();
}

/* Returns the index of the op's row, or profile_n if it has no row yet. */
static int row_of_op(const char *name, bool backward) {
    int i = 0;
    while (i < profile_n && (profile_rows[i].name != name || profile_rows[i].backward != backward))
        i++;
    return i;
}

static int row_of_given_name(const char *name, bool beside) {
    int i = 0;
    while (i < profile_n
           && (profile_rows[i].name != given_names[i] || profile_rows[i].beside != beside
               || strncmp(given_names[i], name, GIVEN_ROOM - 1) != 0))
        i++;
    return i;
}

/* Adds the cost to row i. If i is profile_n, first appends `row`. Does nothing if i is
 * PROFILE_ROWS: the table is full, and has no row for this name. */
static void add_to_row(int i, profile_row row, const rg_cost *cost) {
    if (i == PROFILE_ROWS)
        return;
    if (i == profile_n)
        profile_rows[profile_n++] = row;
    profile_add(&profile_rows[i].cost, cost);
}

static void add_to_given_name(const char *name, bool beside, const rg_cost *cost) {
    const int i = row_of_given_name(name, beside);
    if (i == PROFILE_ROWS)
        return;
    if (i == profile_n)
        snprintf(given_names[i], GIVEN_ROOM, "%s", name);
    add_to_row(i, (profile_row){ .name = given_names[i], .beside = beside }, cost);
}

/* Ends the measurement t, and returns the cost of the call without the calls inside it. Sets *took
 * to the call's time including the calls inside it, and adds this time to the profile_inside of the
 * surrounding call. */
static rg_cost cost_since(const timing *t, double bytes, double flops, double *took) {
    *took = profile_now() - t->began;
    rg_cost own = { .calls = 1, .ns = *took - profile_inside, .bytes = bytes, .flops = flops };
    profile_inside = t->outer + *took;
    return own;
}

static void count_call(const timing *t, const char *name, bool backward, double bytes,
                       double flops) {
    double took;
    const rg_cost own = cost_since(t, bytes, flops, &took);
    rgi_lock(RG_LOCK_PROFILE);
    add_to_row(row_of_op(name, backward), (profile_row){ .name = name, .backward = backward },
               &own);
    rgi_profile_file_call(name, backward ? "backward" : "forward", t->began, took);
    rgi_unlock(RG_LOCK_PROFILE);
}

static bool is_profiling(void) { return rgi_is_in_force(&rgi_profiler); }

/* ---- work other than ops ----------------------------------------------------------- */

rg_profile_guard rg_profile_open(const char *name) {
    timing t;
    if (!name || !is_profiling())
        return (rg_profile_guard){ 0 };
    timing_begin(&t);
    return (rg_profile_guard){ .name = name, .began = t.began, .outer = t.outer };
}

void rg_profile_close(rg_profile_guard *g) {
    if (!g->name)
        return;
    double took;
    const timing t = { .began = g->began, .outer = g->outer };
    const rg_cost own = cost_since(&t, 0, 0, &took);
    rgi_lock(RG_LOCK_PROFILE);
    add_to_given_name(g->name, false, &own);
    rgi_profile_file_call(g->name, "function", g->began, took);
    rgi_unlock(RG_LOCK_PROFILE);
}

double rg_profile_begin(void) { return is_profiling() ? profile_now() : 0; }

void(rg_profile_end)(const char *name, double began, double bytes) {
    const double took = profile_now() - began;
    if (!name || !(began > 0) || !(took >= 0) || !isfinite(bytes))
        return;
    rgi_lock(RG_LOCK_PROFILE);
    add_to_given_name(name, true, &(rg_cost){ .calls = 1, .ns = took, .bytes = bytes });
    rgi_profile_file_beside(name, began, took, bytes);
    rgi_unlock(RG_LOCK_PROFILE);
}

/* ---- the cost of a call ------------------------------------------------------------ */

static rg_dims profile_shape(const rg_tensor *t) {
    rg_dims shape = { .n = t->ndim };
    memcpy(shape.v, t->size, (size_t)t->ndim * sizeof *t->size);
    return shape;
}

static double profile_elements(rg_dims shape) {
    double elements = 1;
    for (int d = 0; d < shape.n; d++)
        elements *= (double)shape.v[d];
    return elements;
}

static double profile_bytes(int n, rg_tensor *const t[]) {
    double bytes = 0;
    for (int i = 0; i < n; i++)
        if (t[i] && !rgi_is_none(t[i]))
            bytes += (double)t[i]->numel * (double)rgi_sizeof(t[i]->dtype);
    return bytes;
}

/* Returns the number of floating point operations for an output of shape y. A view needs none, and
 * most other ops need one for each element. For an op that computes products of matrices, returns
 * the number for one product: two for each term of each element. `terms_of` is then the shape of
 * the input that determines the number of terms (see rg_terms). If the op leaves out terms, only
 * those that it computes are counted. */
static double profile_flops(const rg_op *op, const void *attr, rg_dims y, rg_dims terms_of) {
    const double elements = profile_elements(y);
    if (!op->terms.times)
        return op->view ? 0 : elements;
    int64_t terms = terms_of.v[RG_MAX(terms_of.n - op->terms.from_last, 0)];
    double share = op->terms.share ? op->terms.share(attr, y.v[y.n - 2], terms) : 1;
    return 2 * elements * (double)terms * share;
}

/* Returns the measurement that begin_timing stored in a span's notes. `began` is 0 if the profiler
 * was off at the beginning. */
static timing timing_of(const rg_span *span) { return (timing){ span->notes[0], span->notes[1] }; }

static void begin_timing(rg_graph_observer *o, rg_span *span) {
    (void)o;
    timing t;
    timing_begin(&t);
    span->notes[0] = t.began;
    span->notes[1] = t.outer;
}

static void count_forward(rg_graph_observer *o, const rg_span *span, const rg_call *c) {
    (void)o;
    const timing t = timing_of(span);
    if (!(t.began > 0))
        return;
    const rg_tensor *y = c->out[0];
    const rg_tensor *x = c->n_in ? c->in[c->op->terms.input] : y;
    double bytes = profile_bytes(c->n_in, c->in) + profile_bytes(c->n_out, c->out);
    double flops = profile_flops(c->op, c->attr, profile_shape(y), profile_shape(x));
    count_call(&t, c->op->name, false, c->op->view ? 0 : bytes,
               flops * RG_MAX(1, c->op->terms.times));
}

/* Returns the number of floating point operations of a step that computed the gradients in the mask
 * by its own code. If the op computes products, each gradient costs one product, and terms->extra
 * further products are added. The shape that determines the number of terms is that of input number
 * terms->input. The shape is read from the node that the input's edge leads to. If the edge leads
 * to no node, the shape is that of the input's saved value, which exists because another input's
 * gradient needs it. */
static double profile_step_flops(const rg_step *s, uint32_t gradients) {
    const rg_terms *terms = &s->op->terms;
    const rg_node *n = s->node;
    const int count = __builtin_popcount(gradients) + terms->extra;
    const rg_dims y = rgi_meta_dims(&n->meta[0]);
    if (!terms->times)
        return profile_flops(s->op, s->attr, y, y) * count;
    const rg_edge *e = &n->edge[terms->input];
    const rg_dims terms_of = e->node ? rgi_meta_dims(&e->node->meta[e->output])
                                     : profile_shape(n->saved[terms->input]);
    return profile_flops(s->op, s->attr, y, terms_of) * count;
}

/* Returns the size in bytes of the input gradients in the mask `made`: those that the step computed
 * by its own code, not by calling a rule. */
static double profile_made_bytes(const rg_node *n, uint32_t made) {
    double bytes = 0;
    for (uint32_t left = made; left; left &= left - 1) {
        const rg_edge *e = &n->edge[__builtin_ctz(left)];
        const rg_meta *m = &e->node->meta[e->output];
        bytes += profile_elements(rgi_meta_dims(m)) * (double)rgi_sizeof(m->dtype);
    }
    return bytes;
}

static void count_backward(rg_graph_observer *o, const rg_span *span, const rg_step *s,
                           uint32_t made) {
    (void)o;
    const timing t = timing_of(span);
    if (!(t.began > 0))
        return;
    const rg_node *n = s->node;
    uint32_t gradients = made & (s->op->terms.times ? s->op->terms.gradients : ~0u);
    double flops = gradients ? profile_step_flops(s, gradients) : 0;
    double bytes = profile_made_bytes(n, made);
    if (made)
        bytes += profile_bytes(n->n_out, s->g) + profile_bytes(n->n_saved, n->saved);
    count_call(&t, s->op->name, true, bytes, flops);
}

rg_graph_observer rgi_profiler = { .begin_span = begin_timing,
                                   .end_call = count_forward,
                                   .end_step = count_backward,
                                   .listed = true };

bool(rg_set_profiling)(bool on) { return rgi_set_graph_observer(&rgi_profiler, on); }

/* ---- printing the table ------------------------------------------------------------ */

static int profile_by_time(const void *a, const void *b) {
    double x = ((const profile_row *)a)->cost.ns;
    double y = ((const profile_row *)b)->cost.ns;
    return (x < y) - (x > y);
}

static void profile_name(const profile_row *r, char name[GIVEN_ROOM]) {
    snprintf(name, GIVEN_ROOM, "%s%s", r->name, r->backward ? ", backward" : "");
}

rg_cost rg_profile_cost(const char *row) {
    rg_cost cost = { 0 };
    rgi_lock(RG_LOCK_PROFILE);
    for (int i = 0; i < profile_n; i++) {
        char name[GIVEN_ROOM];
        profile_name(&profile_rows[i], name);
        const bool asked = row ? strncmp(row, name, GIVEN_ROOM - 1) == 0 : !profile_rows[i].beside;
        if (asked)
            profile_add(&cost, &profile_rows[i].cost);
    }
    rgi_unlock(RG_LOCK_PROFILE);
    return cost;
}

const char *rg_profile_table(void) {
    /* The text is made from a copy of the rows, after the lock is given back. If memory runs out
     * for the text, the program's error handler is called, and it may use the profiler. */
    profile_row rows[PROFILE_ROWS];
    double all = rg_profile_cost(NULL).ns;
    rgi_lock(RG_LOCK_PROFILE);
    int n = profile_n;
    memcpy(rows, profile_rows, sizeof rows);
    rgi_unlock(RG_LOCK_PROFILE);
    qsort(rows, (size_t)n, sizeof *rows, profile_by_time);
    rg_text text = { 0 };
    RG_C_NUMBERS();
    rgi_text_add(&text, "%-36s %10s %12s %6s %12s %10s %10s\n", "op", "calls", "ms", "%",
                 "us a call", "GB/s", "GFLOP/s");
    for (int i = 0; i < n; i++) {
        const rg_cost *r = &rows[i].cost;
        char name[GIVEN_ROOM], share[16] = "";
        profile_name(&rows[i], name);
        if (!rows[i].beside)
            snprintf(share, sizeof share, "%.1f", all > 0 ? 100 * r->ns / all : 0);
        rgi_text_add(&text, "%-36s %10ld %12.3f %6s %12.3f %10.2f %10.2f\n", name, (long)r->calls,
                     r->ns / 1e6, share, r->ns / 1e3 / (double)r->calls, r->bytes / r->ns,
                     r->flops / r->ns);
    }
    return rgi_text_own(&text);
}

__attribute__((constructor)) static void begin_as_environment_says(void) {
    const char *want = getenv("REGARD_PROFILE");
    if (!want || !*want || strcmp(want, "0") == 0)
        return;
    const bool path = strpbrk(want, "./");
    if (!path && strcmp(want, "1")) {
        rgi_warn_of_variable("REGARD_PROFILE", want, "0, 1 or a path such as trace.json",
                             "nothing is profiled");
        return;
    }
    if (path)
        rgi_profile_file_begin(want);
    rg_set_profiling(true);
}

__attribute__((destructor(200))) static void print_at_the_end(void) {
    if (!getenv("REGARD_PROFILE") || !is_profiling())
        return;
    const char *table = rg_profile_table();
    if (table)
        fputs(table, stderr);
    rgi_profile_file_end();
}
