/*
 * anomaly.c: anomaly mode, which finds the first op that computes a NaN from inputs without NaN, or
 * an infinity from finite inputs. In this mode, the outputs of calls are checked, and the node of
 * each recorded call keeps a trace: the place of the call. The gradients of each backward step are
 * checked as well.
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

/* The largest number of stack frames in a trace, and the largest number that an error message
 * shows. The message leaves out the frames of regard's public functions. */
enum { TRACE_DEPTH = 24, TRACE_SHOWN = 8 };

/* The place of a forward call: the return addresses of its n innermost stack frames, and the module
 * in which the call was made ("" if there was none). */
typedef struct {
    rg_note note;
    int n;
    void *address[TRACE_DEPTH];
    char module[128];
} trace;

static void trace_free(rg_note *note) { rgi_free(note, sizeof(trace), RG_MEM_OTHER); }

static const rg_note_class trace_class = { .free = trace_free };

/* ---- values that are not finite ---------------------------------------------------- */

/* A search for an element that is NaN or, unless `only_nan`, infinite. `odd` is the element that
 * was found, or 0 if none was found. */
typedef struct {
    bool only_nan;
    double odd;
} search;

#define FIND_ODD(NAME, suffix, T, ...)                                           \
    static void find_odd_##suffix(char *const p[], const int64_t s[], int64_t n, \
                                  const void *context) {                         \
        search *find = (search *)context;                                        \
        for (int64_t i = 0; i < n && find->odd == 0; i++) {                      \
            const double v = *(const T *)(p[0] + i * s[0]);                      \
            if (isnan(v) || (isinf(v) && !find->only_nan))                       \
                find->odd = v;                                                   \
        }                                                                        \
    }
RG_FLOAT_DTYPES(FIND_ODD, )

/* Does the same for elements of 16 bits. */
#define FIND_ODD_HALF(NAME, suffix, T, ...)                                          \
    static void find_odd_##suffix(char *const p[], const int64_t s[], int64_t n,     \
                                  const void *context) {                             \
        for (int64_t i = 0; i < n && ((search *)context)->odd == 0; i++) {           \
            double v = rgi_load_f64(p[0] + i * s[0], RG_##NAME);                     \
            find_odd_double((char *[]){ (char *)&v }, (int64_t[]){ 0 }, 1, context); \
        }                                                                            \
    }
RG_HALF_DTYPES(FIND_ODD_HALF, )

/* Returns an element of the n tensors that is NaN or, unless `only_nan`, infinite. Returns 0 if
 * there is none. Skips NULL and tensors that aren't floating point, such as RG_NONE. */
static double odd_element(int n, rg_tensor *const t[], bool only_nan) {
    static rg_loop *const find_odd[] = RG_BY_FLOAT(find_odd);
    search find = { only_nan, 0 };
    for (int k = 0; k < n && find.odd == 0; k++)
        if (t[k] && rgi_is_float(t[k]->dtype))
            rgi_each(1, &t[k], find_odd[t[k]->dtype], &find);
    return find.odd;
}

/* Returns a NaN of the results if no operand has a NaN. If the results have no NaN, returns an
 * infinity of the results if all operands are finite. In all other cases, returns 0. */
static double arisen(int n_results, rg_tensor *const results[], int n,
                     rg_tensor *const operands[]) {
    for (int only_nan = 1; only_nan >= 0; only_nan--) {
        const double odd = odd_element(n_results, results, only_nan);
        if (odd != 0)
            return odd_element(n, operands, only_nan) == 0 ? odd : 0;
    }
    return 0;
}

/* ---- the error message ------------------------------------------------------------- */

/* Adds `before`, and the name of the function that contains the address. If the name isn't known,
 * adds the name of the program or library file, and the offset in it. If the file isn't known
 * either, or if the function is a public function of regard, returns false and adds nothing. */
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

/* Fails with an error message. It consists of `odd`, the value that isn't finite, the direction
 * ("forward" or "backward"), `where`, which describes the op and its tensors, and the trace t. t
 * may be NULL. */
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

/* Stores a trace with the node n unless n is NULL, and checks the outputs of a call. Fails if the
 * outputs have a NaN although no input has one, or an infinity although all inputs are finite. The
 * inputs are those that the caller gave: their conversion to the op's dtype may overflow. A view
 * isn't checked: its values are those of its base, and an expanded view would repeat them many
 * times. A call inside a gradient rule isn't checked either: instead, check_gradient checks the
 * gradient that the rule returns. */
static bool check_outputs(rg_graph_observer *o, const rg_call *c, rg_node *n) {
    (void)o;
    trace here;
    here.n = rgi_find_calls(here.address, TRACE_DEPTH);
    snprintf(here.module, sizeof here.module, "%s", rgi_inside ? rgi_inside : "");
    if (n && !remember_trace(n, &here))
        return false;
    if (c->op->view)
        return true;
    rg_tensor *const *operands = c->given ? c->given : c->in;
    const double odd = rgi_in_rule ? 0 : arisen(c->n_out, c->out, c->n_in, operands);
    if (odd == 0)
        return true;
    rg_text where = { 0 };
    rgi_text_add(&where, "%s of", c->op->name);
    for (int i = 0; i < c->n_in; i++)
        rgi_text_add(&where, " %s", rgi_is_none(c->in[i]) ? "none" : RG_SHAPE_TEXT(c->in[i]));
    return report(c->op, odd, "forward", &where, &here);
}

static bool check_gradient(rg_graph_observer *o, const rg_step *s, rg_tensor *g, int input) {
    (void)o;
    const double odd = arisen(1, &g, s->node->n_out, s->g);
    if (odd == 0)
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

/* Fails, because a repetition of a recorded step doesn't show outputs and gradients to observers,
 * and anomaly mode couldn't check them. */
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
