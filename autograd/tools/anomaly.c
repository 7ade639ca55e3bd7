/*
 * anomaly.c: anomaly mode, which finds the first op that computes a NaN or an infinity from finite
 * numbers. In this mode, the outputs of each call are checked, and a trace of the call is kept. The
 * gradients of each backward step are checked as well.
 */
#include "autograd/engine.h"
#include "autograd/graph_observer.h"
#include "tensor/memory.h"
#include "tensor/messages/unread.h"
#include "tensor/system/system.h"
#include "tensor/text/text.h"
#include "tensor/thread.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* The most stack frames that a trace has, and the most frames outside of the library that an error
 * message shows. */
enum { TRACE_DEPTH = 24, TRACE_SHOWN = 8 };

/* The place of a forward call: its stack frames, and the module in which it was made. */
typedef struct {
    rg_note note;
    int n;
    void *address[TRACE_DEPTH];
    char module[128];
} trace;

static void trace_free(rg_note *note) { rgi_free(note, sizeof(trace), RG_MEM_OTHER); }

static const rg_note_class trace_class = { .free = trace_free };

/* ---- values that are not finite ---------------------------------------------------- */

/* Each of these loops copies the elements of a tensor to *odd, one after the other, and stops after
 * the first that isn't finite. */
#define FIND_ODD(NAME, suffix, T, ...)                                           \
    static void find_odd_##suffix(char *const p[], const int64_t s[], int64_t n, \
                                  const void *context) {                         \
        double *odd = (double *)context;                                         \
        for (int64_t i = 0; i < n && isfinite(*odd); i++)                        \
            *odd = *(const T *)(p[0] + i * s[0]);                                \
    }
RG_FLOAT_DTYPES(FIND_ODD, )

/* Returns the first element of t that isn't finite. Returns 0 if there is none, if t isn't floating
 * point, or if t is RG_NONE, whose dtype is bool. */
static double odd_element(rg_tensor *t) {
    static rg_loop *const find_odd[] = RG_BY_FLOAT(find_odd);
    double odd = 0;
    if (rgi_is_float(t->dtype))
        rgi_each(1, &t, find_odd[t->dtype], &odd);
    return isfinite(odd) ? 0 : odd;
}

/* ---- the error message ------------------------------------------------------------- */

/* Adds `before`, and the name of the function that contains the address. If the name isn't known,
 * adds the name of the program or library file, and the offset in it. Returns false, and adds
 * nothing, if the file isn't known either, or if the function is a public one of regard. */
static bool add_frame(rg_text *text, const char *before, const void *address) {
    rg_place at;
    if (!rgi_find_place(address, &at) || (at.function && strncmp(at.function, "rg_", 3) == 0))
        return false;
    const char *file = strrchr(at.file, '/');
    if (at.function)
        rgi_text_add(text, "%s%s", before, at.function);
    else
        rgi_text_add(text, "%s%s+0x%zx", before, file ? file + 1 : at.file, at.offset);
    return true;
}

static void add_trace(rg_text *text, const trace *t) {
    if (t && *t->module)
        rgi_text_add(text, ", in module %s", t->module);
    if (!t || !t->n) {
        rgi_text_add(text, "; forward call: not recorded");
        return;
    }
    rgi_text_add(text, "; forward call: ");
    int shown = 0;
    for (int i = 0; i < t->n && shown < TRACE_SHOWN; i++)
        if (add_frame(text, shown ? " < " : "", t->address[i]))
            shown++;
}

/* Fails with an error message that consists of the value that isn't finite (`odd`), the direction
 * (forward or backward), `where`, which describes the op and its inputs, and the trace t. */
static bool report(const rg_op *op, double odd, const char *direction, rg_text *where,
                   const trace *t) {
    RG_SCOPE();
    add_trace(where, t);
    const char *text = rgi_text_own(where);
    if (!text)
        return false;
    const char *value = odd < 0 ? "-inf" : "inf";
    if (isnan(odd))
        value = "nan";
    return rgi_fail(RG_RUNTIME_ERROR, op->name, "the first %s arose %s in %s", value, direction,
                    text);
}

/* ---- the observer of anomaly mode ------------------------------------------------------ */

/* Gives the node a copy of the trace. Returns false if memory ran out. */
static bool remember_trace(rg_node *n, const trace *here) {
    trace *copy = rgi_alloc(sizeof *copy, RG_MEM_OTHER);
    if (!copy)
        return false;
    *copy = *here;
    rgi_note_add(n, &copy->note, &trace_class);
    return true;
}

/* Stores a trace with the node n unless n is NULL, and checks the outputs of a call. Fails if an
 * output isn't finite although all inputs are. A view isn't checked: its values are those of its
 * base, and an expanded view would repeat them many times. A call inside a gradient rule isn't
 * checked either: instead, check_gradient checks the gradient that the rule returns. */
static bool check_outputs(rg_graph_observer *o, const rg_call *c, rg_node *n) {
    (void)o;
    trace here;
    here.n = rgi_find_calls(here.address, TRACE_DEPTH);
    snprintf(here.module, sizeof here.module, "%s", rgi_inside ? rgi_inside : "");
    if (n && !remember_trace(n, &here))
        return false;
    if (c->op->view)
        return true;
    double odd = 0;
    for (int k = 0; k < c->n_out && odd == 0 && !rgi_in_rule; k++)
        odd = odd_element(c->out[k]);
    if (odd == 0)
        return true;
    /* If an input already has a value that isn't finite, this op isn't to blame. */
    for (int i = 0; i < c->n_in; i++)
        if (odd_element(c->in[i]) != 0)
            return true;
    rg_text where = { 0 };
    rgi_text_add(&where, "%s of", c->op->name);
    for (int i = 0; i < c->n_in; i++)
        rgi_text_add(&where, " %s", rgi_is_none(c->in[i]) ? "none" : RG_SHAPE_TEXT(c->in[i]));
    return report(c->op, odd, "forward", &where, &here);
}

static bool check_gradient(rg_graph_observer *o, const rg_step *s, rg_tensor *g, int input) {
    (void)o;
    double odd = odd_element(g);
    if (odd == 0)
        return true;
    for (int k = 0; k < s->node->n_out; k++)
        if (s->g[k] && odd_element(s->g[k]) != 0)
            return true;
    rg_text where = { 0 };
    rgi_text_add(&where, "%s, in the gradient of its input %d, %s", rgi_node_name(s->node), input,
                 RG_SHAPE_TEXT(g));
    const trace *forward = (const trace *)rgi_note_of(s->node, &trace_class);
    const bool stands = !rgi_this.failure.unread;
    report(s->op, odd, "backward", &where, forward);
    if (stands && forward)
        rgi_unread_came_from(forward->address, forward->n);
    return false;
}

/* ---- switching anomaly mode on and off --------------------------------------------- */

/* Fails, because a repetition of a recorded step doesn't pass its outputs and gradients to
 * observers, so that they can't be checked. */
static bool forbid_replay(rg_graph_observer *o) {
    (void)o;
    return rgi_fail(RG_NOT_IMPLEMENTED, "replay_run",
                    "anomaly mode can't check the values of a recorded step; call the step itself, "
                    "or call rg_set_detect_anomaly(false)");
}

static rg_graph_observer anomaly = { .applied = check_outputs,
                                     .made_gradient = check_gradient,
                                     .may_replay = forbid_replay };

bool(rg_set_detect_anomaly)(bool on) { return rgi_set_graph_observer(&anomaly, on); }

bool rg_is_anomaly_enabled(void) { return rgi_is_in_force(&anomaly); }
