/*
 * apply.c: applies an op: checks and converts the inputs, finds the output's shape, computes the
 * outputs and, if grad mode is on and an input requires grad, records a node. node.c makes nodes,
 * and inplace.c applies ops in place.
 */
#include "apply.h"
#include "tensor/memory.h"
#include "tensor/observer.h"
#include "tensor/thread.h"
#include "graph_observer.h"
#include "rebase.h"

/* ---- checking and converting inputs ------------------------------------------------ */

static bool input_check(const rg_op *op, int i, rg_tensor *t) {
    if (t == RG_NONE && (op->optional >> i & 1))
        return true;
    if (!rgi_check(t, op->name))
        return false;
    bool untouched = rgi_grad_off && rgi_history_of(t);
    return untouched || rgi_renew(t, op->name);
}

/* Returns whether t, the input i, is converted to the inputs' common dtype. The mask op->typed
 * names the inputs to convert; a mask of 0 stands for all inputs. An absent input is never
 * converted. */
static bool is_typed(const rg_op *op, int i, const rg_tensor *t) {
    return (!op->typed || op->typed >> i & 1) && !rgi_is_none(t);
}

/* Returns the common dtype of the inputs for which is_typed returns true. Requires that there is at
 * least one such input. typed[] is scratch space for n tensors. */
static rg_dtype common_dtype(const rg_op *op, int n, rg_tensor *const in[], rg_tensor *typed[]) {
    int m = 0;
    bool differ = false;
    for (int i = 0; i < n; i++) {
        if (!is_typed(op, i, in[i]))
            continue;
        typed[m++] = in[i];
        differ |= in[i]->dtype != typed[0]->dtype;
    }
    bool promotes = differ || typed[0]->flags & RG_WEAK;
    rg_dtype dtype = promotes ? rgi_promote(m, typed) : typed[0]->dtype;
    return op->typing == RG_FLOATED && !rgi_is_float(dtype) ? rg_default_dtype() : dtype;
}

/* Returns a new tensor with t's values in the dtype. If t is float64, it has no dims: a float64
 * tensor with dims makes the common dtype float64, and needs no conversion. t's value then keeps
 * its full precision until it is stored in the copy. */
static rg_tensor *converted_copy(rg_tensor *t, rg_dtype dtype) {
    rg_tensor *copy = rgi_new_like(t, dtype);
    if (!copy)
        return NULL;
    /* A t without dims has one element. */
    if (t->dtype == RG_FLOAT64)
        rgi_store_f64(copy->data, dtype, *(double *)t->data);
    else
        rgi_copy_elements(copy, t);
    if (!(t->flags & RG_WEAK))
        rgi_observe_copy(copy, t, rgi_applying);
    return copy;
}

/* Converts the inputs for which is_typed returns true to their common dtype, or to the dtype that
 * rgi_dtype_beside_half says: replaces their pointers in in[]. The caller must release each
 * converted[i] that isn't NULL, also on failure. typed[] is scratch space for n tensors. */
static bool convert_inputs(const rg_op *op, int n, rg_tensor *in[], rg_tensor *converted[],
                           rg_tensor *typed[]) {
    const rg_dtype common = common_dtype(op, n, in, typed);
    for (int i = 0; i < n; i++) {
        if (!is_typed(op, i, in[i]) || in[i]->dtype == common)
            continue;
        const bool widened = RG_UNLIKELY(common & RG_WIDENED_BIT);
        const rg_dtype dtype = widened ? rgi_dtype_beside_half(op, i, in, common) : common;
        if (in[i]->dtype == dtype)
            continue;
        if (in[i]->history && !rgi_grad_off) {
            RG_AS(op->name);
            in[i] = rg_to(in[i], dtype);
        } else {
            converted[i] = converted_copy(in[i], dtype);
            in[i] = converted[i];
        }
        if (!in[i])
            return false;
    }
    return true;
}

/* ---- computing outputs ------------------------------------------------------------- */

/* The inputs are alike if all of them are plain (RG_PLAIN) and have the same dtype, and each has
 * in[0]'s shape or no dims. is_alike returns whether input i meets these conditions. by_kernel
 * returns whether rgi_run_alike can compute the op's output from inputs that are alike. */
static inline bool by_kernel(const rg_op *op) {
    return op->kernel && (op->shape == rgi_shape_broadcast || op->shape == rgi_shape_same);
}
static inline bool is_alike(const rg_tensor *t, rg_tensor *const in[], int i) {
    return t->flags & RG_PLAIN && t->dtype == in[0]->dtype
           && (i == 0 || t->ndim == 0 || rgi_same_shape(t, in[0]));
}

/* Computes the output with the op's kernel. Requires that the inputs are alike. If `over` isn't
 * NULL, it becomes the output. */
RG_INLINED bool compute_alike(rg_call *c, rg_tensor *over) {
    if (over) {
        rgi_retain(over);
        c->out[0] = over;
    } else {
        c->out[0] = rgi_new_beside(c->in[0]);
        if (!c->out[0])
            return false;
    }
    return rgi_run_alike(c);
}

/* Calls the op's forward function or, if it has none, its kernel; if `widened`, on widened copies
 * of inputs. The thread's observer is switched off during this call, since it isn't to see the
 * operations that the forward function calls. */
static inline bool run_forward(rg_call *c, bool widened) {
    rg_observer *observer = rgi_set_observer(NULL);
    bool ok = RG_UNLIKELY(widened) ? rgi_run_widened(c) : c->op->forward(c);
    rgi_set_observer(observer);
    return ok;
}

/* Sets the strides of y, the output of an op with `laid_between` (op.h), from those that the op's
 * inputs had before they were converted. */
static void lay_out(const rg_call *c, rg_tensor *y) {
    rg_tensor *const *in = c->given ? c->given : c->in;
    rgi_lay_out_between(y, c->n_in, in);
}

/* Returns a new tensor with the dtype, shape and strides of `like`. Requires that `like` has no
 * gaps between its elements. */
static inline rg_tensor *new_output(const rg_tensor *like) {
    rg_tensor *t = rgi_new_output((rg_dtype)like->dtype, like->ndim, like->size);
    if (RG_UNLIKELY(!(like->flags & RG_PLAIN)) && t) {
        memcpy(t->stride, like->stride, sizeof t->stride);
        rgi_update_flags(t);
    }
    return t;
}

/* Makes the output of an op that has one output. The output's dtype and shape come from the op's
 * shape function. If `over` isn't NULL and has this dtype and shape, it becomes the output. */
static inline bool make_output(rg_call *c, rg_tensor *over, bool widened) {
    rg_tensor like;
    like.dtype = RG_UNLIKELY(widened) ? rgi_dtype_made_widened(c) : c->in[0]->dtype;
    like.ndim = 0;
    like.state = RG_ALIVE;
    like.flags = RG_CONTIGUOUS | RG_PLAIN;
    c->out[0] = &like;
    bool ok = c->op->shape(c);
    c->out[0] = NULL;
    if (!ok)
        return false;
    if (over && like.dtype == over->dtype && rgi_same_shape(&like, over)) {
        rgi_retain(over);
        c->out[0] = over;
        return true;
    }
    if (c->op->laid_between)
        lay_out(c, &like);
    c->out[0] = new_output(&like);
    return c->out[0];
}

/* Makes the outputs of an op with several outputs. The outputs' dtypes and shapes come from the
 * op's shape function. */
static __attribute__((noinline)) bool make_outputs(rg_call *c) {
    rg_tensor like[RG_MAX_OUTPUTS];
    for (int k = 0; k < c->n_out; k++) {
        like[k].dtype = c->in[0]->dtype;
        like[k].ndim = 0;
        like[k].state = RG_ALIVE;
        like[k].flags = RG_CONTIGUOUS | RG_PLAIN;
        c->out[k] = &like[k];
    }
    bool ok = c->op->shape(c);
    for (int k = 0; k < c->n_out; k++)
        c->out[k] = NULL;
    for (int k = 0; ok && k < c->n_out; k++) {
        c->out[k] = new_output(&like[k]);
        ok = c->out[k];
    }
    return ok;
}

static inline bool view_input(rg_call *c, bool widened) {
    for (int k = 0; k < c->n_out; k++) {
        c->out[k] = rgi_header_new();
        if (!c->out[k])
            return false;
        c->out[k]->dtype = c->in[0]->dtype;
    }
    return widened && c->op->by_value ? rgi_run_widened(c) : c->op->view(c);
}

/* Computes the outputs from the inputs. If `over` isn't NULL, the op has one output; `over` becomes
 * that output if it has the right dtype and shape. */
RG_INLINED bool compute(rg_call *c, rg_tensor *over, bool alike, bool observed, bool widened) {
    const rg_op *op = c->op;
    if (alike && !observed && (!over || over == c->in[0]))
        return compute_alike(c, over);
    if (op->view)
        return view_input(c, widened);
    bool made = RG_LIKELY(c->n_out == 1) ? make_output(c, over, widened) : make_outputs(c);
    if (!made)
        return false;
    if (op->forward || widened)
        return run_forward(c, widened);
    return k_run_with(op->kernel, c->out[0], c->in, NULL);
}

/* Tells the thread's observer that a call has computed its outputs. Returns false if the observer
 * refuses the call. */
static __attribute__((noinline, cold)) bool tell_of_call(const rg_call *c, size_t attr_size,
                                                         bool alike) {
    rg_graph_observer *o = rgi_graph_observer();
    return !o->computed || o->computed(o, c, attr_size, alike);
}

/* Called if an input requires grad. Sets *wants_grad to whether the observers want the call to be
 * recorded. Returns false if an observer refuses to let the values for backward be saved. */
static __attribute__((noinline)) bool ask_to_record(const rg_call *c, bool *wants_grad) {
    *wants_grad = rgi_records(c);
    return !*wants_grad || rgi_may_save(c, rgi_needs_of(c));
}

/* Computes the outputs. Then records a node if wants_grad is set, an output is floating point, and
 * all observers allow it. */
RG_INLINED bool compute_and_record(rg_call *c, size_t attr_size, bool wants_grad, rg_tensor *over,
                                   bool alike, bool widened) {
    if (wants_grad && rgi_is_observed(RG_SEES_RECORDING) && !ask_to_record(c, &wants_grad))
        return false;
    const bool observed = RG_UNLIKELY(rgi_this.observer != NULL);
    if (!compute(c, wants_grad ? NULL : over, alike, observed, widened))
        return false;
    if (RG_UNLIKELY(observed) && !tell_of_call(c, attr_size, alike))
        return false;
    if (!wants_grad)
        return !rgi_is_observed(RG_SEES_CALLS) || rgi_applied(c, NULL);
    bool any_float = false;
    for (int k = 0; k < c->n_out; k++)
        any_float |= rgi_is_float(c->out[k]->dtype);
    return !any_float || rgi_record(c, attr_size);
}

/* ---- applying an op ---------------------------------------------------------------- */

/* Applies an op whose inputs must be checked one by one: they may be numbers, be absent, have
 * different dtypes, or have elements of 16 bits. in[] must have room for 3 * n tensors: the inputs,
 * converted[] and typed[]. */
RG_HOT static bool apply_converted(rg_call *c, size_t attr_size, rg_tensor *over, rg_tensor *in[],
                                   const rg_span *span) {
    int n = c->n_in;
    rg_tensor **converted = in + n;
    rg_tensor **typed = in + 2 * n;
    bool ok = true;
    bool wants_grad = false;
    bool alike = by_kernel(c->op);
    unsigned dtypes = 0;
    for (int i = 0; i < n; i++) {
        in[i] = c->in[i];
        converted[i] = NULL;
        ok = ok && input_check(c->op, i, in[i]);
        if (ok && in[i]->history)
            wants_grad = true;
    }
    c->given = c->in;
    c->in = in;
    if (c->op->typing != RG_AS_GIVEN)
        ok = ok && convert_inputs(c->op, n, in, converted, typed);
    for (int i = 0; i < n && ok; i++) {
        dtypes |= in[i]->dtype;
        alike = alike && is_alike(in[i], in, i) && c->given[i]->flags & RG_PLAIN;
    }
    const bool widened = dtypes & RG_WIDENED_BIT && !c->op->moves;
    alike = alike && !(dtypes & RG_WIDENED_BIT);
    ok = ok && compute_and_record(c, attr_size, wants_grad && !rgi_grad_off, over, alike, widened);
    /* Observers may read the converted inputs in rgi_end_call, so these are released after it. */
    if (ok && span)
        rgi_end_call(span, c);
    for (int i = 0; i < n; i++)
        if (converted[i])
            rgi_release(converted[i]);
    return ok;
}

/* Applies an op by apply_converted. The room for the inputs is on the stack or, for an op with many
 * inputs such as cat, on the heap. */
RG_HOT static __attribute__((noinline)) bool apply_slowly(rg_call *c, size_t attr_size,
                                                          rg_tensor *over, const rg_span *span) {
    int n = c->n_in;
    rg_tensor *few[3 * RG_MAX_RULES];
    if (RG_LIKELY(n <= RG_MAX_RULES))
        return apply_converted(c, attr_size, over, few, span);
    RG_FAIL_IF(n > RG_MAX_INPUTS, c->op->name, "at most %d tensors, but got %d", RG_MAX_INPUTS, n);
    size_t bytes = 3 * (size_t)n * sizeof(rg_tensor *);
    rg_tensor **in = rgi_alloc(bytes, RG_MEM_OTHER);
    if (!in)
        return false;
    bool ok = apply_converted(c, attr_size, over, in, span);
    rgi_free(in, bytes, RG_MEM_OTHER);
    return ok;
}

/* The findings of the first pass over the inputs. `plain` is true if the inputs need no further
 * check and no conversion. Then there are at most RG_MAX_RULES inputs, and each is a live tensor
 * with a dtype that suits the op. No input is absent, a number, a view whose base has changed, or
 * of 16-bit elements. The other fields are valid only if `plain` is true. `wants_grad` says whether
 * an input requires grad, and `alike` whether rgi_run_alike can compute the output. */
typedef struct {
    bool plain, wants_grad, alike;
} inputs_seen;

RG_INLINED bool is_plain(const rg_op *op, const rg_tensor *t, rg_tensor *const in[]) {
    return t && t->state == RG_ALIVE && t->storage
           && (RG_LIKELY(!(t->flags & (RG_WEAK | RG_VIEW)))
               || (!(t->flags & RG_WEAK) && !rgi_is_stale(t)))
           && (op->typing == RG_AS_GIVEN || t->dtype == in[0]->dtype);
}

RG_INLINED inputs_seen examine_inputs(const rg_call *c) {
    const rg_op *op = c->op;
    rg_tensor *const *in = c->in;
    inputs_seen seen = { .plain = c->n_in <= RG_MAX_RULES, .alike = by_kernel(op) };
    uintptr_t histories = 0;
    unsigned dtypes = 0;
    for (int i = 0; i < c->n_in && seen.plain; i++) {
        seen.plain = is_plain(op, in[i], in);
        if (!seen.plain)
            break;
        histories |= (uintptr_t)in[i]->history;
        dtypes |= in[i]->dtype;
        seen.alike = seen.alike && is_alike(in[i], in, i);
    }
    seen.wants_grad = histories;
    seen.plain = seen.plain && !(dtypes & RG_WIDENED_BIT);
    if (op->typing == RG_FLOATED && seen.plain)
        seen.plain = rgi_is_float(in[0]->dtype);
    return seen;
}

RG_INLINED bool apply(rg_call *c, size_t attr_size, rg_tensor *over) {
    inputs_seen seen = examine_inputs(c);
    const char *outer = rgi_applying;
    rgi_applying = c->op->name;
    rg_span span;
    const bool spanned = rgi_is_observed(RG_SEES_SPANS);
    bool ok;
    if (spanned)
        rgi_begin_span(&span);
    if (RG_LIKELY(seen.plain))
        ok = compute_and_record(c, attr_size, seen.wants_grad && !rgi_grad_off, over, seen.alike,
                                false);
    else
        ok = apply_slowly(c, attr_size, over, spanned ? &span : NULL);
    rgi_applying = outer;
    if (spanned && ok && seen.plain)
        rgi_end_call(&span, c);
    for (int k = 0; RG_UNLIKELY(!ok) && k < c->n_out; k++)
        rgi_release(c->out[k]);
    return ok;
}

static inline rg_call call_of(const rg_op *op, const void *attr, int n, rg_tensor *const in[]) {
    int n_out = op->n_out ? op->n_out : 1;
    return (rg_call){ .op = op, .attr = attr, .n_in = n, .n_out = n_out, .in = in };
}

RG_HOT rg_tensor *rgi_apply(const rg_op *op, const void *attr, size_t attr_size, int n,
                            rg_tensor *const in[]) {
    rg_call c = call_of(op, attr, n, in);
    return apply(&c, attr_size, NULL) ? rgi_own(c.out[0]) : NULL;
}

rg_tensor *rgi_apply_over(const rg_op *op, const void *attr, size_t attr_size, int n,
                          rg_tensor *const in[], rg_tensor *over) {
    rg_call c = call_of(op, attr, n, in);
    return apply(&c, attr_size, over) ? c.out[0] : NULL;
}

bool rgi_apply_outputs(const rg_op *op, const void *attr, size_t attr_size, int n,
                       rg_tensor *const in[], rg_tensor *out[]) {
    rg_call c = call_of(op, attr, n, in);
    bool applied = apply(&c, attr_size, NULL);
    bool ok = applied;
    for (int k = 0; k < c.n_out; k++) {
        out[k] = applied ? rgi_own(c.out[k]) : NULL;
        ok = ok && out[k];
    }
    for (int k = 0; k < c.n_out && !ok; k++)
        out[k] = NULL;
    return ok;
}
