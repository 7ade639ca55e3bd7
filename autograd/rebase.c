/*
 * rebase.c: the histories of views and their bases. A write through a view is recorded in the
 * base's history, as the op copy_slices. The view's own history is then the op as_strided of the
 * base (see ops/strided.c). inplace.c decides whether a tensor may be written to.
 */
#include "rebase.h"
#include "hooks.h"
#include "tensor/threads/lock.h"

#include <string.h>

/* ---- the place of a view in its base ----------------------------------------------- */

/* Fills in *at, the place of the view t in its base. Returns false if the base doesn't contain the
 * view any more, because the view or the base was given other data. Also returns false if several
 * elements of the base are at the same address. For an empty view, always returns true. */
static bool place_in_base(const rg_tensor *t, rg_strided *at) {
    const rg_tensor *base = rgi_base_of(t);
    *at = (rg_strided){
        { .n = base->ndim }, { .n = base->ndim }, { .n = t->ndim }, { .n = t->ndim }, 0
    };
    for (int d = 0; d < base->ndim; d++) {
        at->shape.v[d] = base->size[d];
        at->layout.v[d] = base->stride[d];
    }
    for (int d = 0; d < t->ndim; d++) {
        at->size.v[d] = t->size[d];
        at->stride.v[d] = t->stride[d];
    }
    if (t->numel == 0)
        return true;
    at->start = (t->data - base->data) / (int64_t)rgi_sizeof((rg_dtype)base->dtype);
    return t->storage == base->storage && at->start >= 0
           && at->start + rgi_reach(t) <= rgi_reach(base) && !rgi_overlaps_itself(base);
}

/* ---- making new histories ---------------------------------------------------------- */

/* Makes `after` a header like t, and records a call of the op as the history of `after`. Returns
 * false if memory ran out. */
static bool record_after(rg_tensor *after, const rg_tensor *t, const rg_op *op,
                         const rg_strided *at, int n, rg_tensor *const in[]) {
    *after = rgi_header_of(t);
    rg_call c = { .op = op, .attr = at, .n_in = n, .n_out = 1, .in = in, .out = { after } };
    if (rgi_record(&c, sizeof *at))
        return true;
    rgi_forget_history(after);
    return false;
}

/* Makes `after` a header like the view t. The history of `after` is the op as_strided of the base.
 * Returns false if memory ran out. */
static bool record_view(rg_tensor *after, const rg_tensor *t, const rg_strided *at,
                        rg_tensor *base) {
    return record_after(after, t, &rg_op_as_strided, at, 1, &base);
}

/* Gives t the history of `after`. Returns t's old history; the caller now owns the reference to it.
 * A retained gradient moves to the new history, since it belongs to t's new value. Hooks stay with
 * the old history. */
static rg_history *exchange_history(rg_tensor *t, const rg_tensor *after) {
    rg_history *before = t->history;
    if (before)
        rgi_move_retained(t, after);
    t->history = after->history;
    t->output = after->output;
    return before;
}

/* If t retains its gradient, makes `after` retain its gradient as well. Requires that the node of
 * `after` is new. Returns false if memory ran out. */
static bool retain_alike(const rg_tensor *after, const rg_tensor *t) {
    return !rgi_retained(t) || rgi_retain_grad(after);
}

static void release_history(rg_history *h) {
    if (h)
        h->cls->release(h);
}

/* ---- views that were written to ---------------------------------------------------- */

/* Returns the number of the view t for torch's error message. If a function such as rg_split
 * returned t in a list, the number is t's index in the list. Otherwise it is t's index among the
 * outputs of its op. Requires that n, the node of t, isn't a leaf. */
static int output_number(const rg_node *n, const rg_tensor *t) {
    bool is_part = RG_IS(n->op, select) || RG_IS(n->op, slice);
    return is_part ? ((const rg_part *)n->attr)->number : t->output;
}

static const char advice_for_lists[] =
    "This view is the output of a function that returns multiple views. Such functions do not "
    "allow the output views to be modified inplace. You should replace the inplace operation by an "
    "out-of-place one.";
static const char advice_for_own_op[] =
    "This view was created inside a custom Function (or because an input was returned as-is) and "
    "the autograd logic to handle view+inplace would override the custom backward associated with "
    "the custom Function, leading to incorrect gradients. This behavior is forbidden. You can fix "
    "this by cloning the output of the custom Function.";
static const char advice_for_untracked[] =
    "Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify your "
    "code by moving both the view and the inplace either both inside the no_grad block (if you "
    "don't want the inplace to be tracked) or both outside (if you want the inplace to be "
    "tracked).";

static const char advice_for_inferred[] =
    "Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify your "
    "code by moving both the view and the inplace either both inside the inference_mode block (if "
    "you don't want the inplace to be tracked) or both outside (if you want the inplace to be "
    "tracked).";

/* Words of the error message for a view that can't follow its base. `block` is the kind of block in
 * which the view was made, and `outside` describes a write outside of it. Both are NULL if a
 * function returned the view in a list, or an op of the program made it. `advice` ends the
 * message. */
typedef struct {
    const char *block, *outside, *advice;
} view_origin;

/* Goes from n to the node of its first input, and so on, as long as the node's op makes a view.
 * Returns whether the last node belongs to an op that the program defines. */
static bool leads_to_own_op(const rg_node *n) {
    while (n && n->op && n->op->view)
        n = n->edge[0].node;
    return n && n->op && n->op->together;
}

static view_origin origin_of(const rg_tensor *t) {
    if (t->flags & RG_UNTRACKED && leads_to_own_op(rgi_node_of(t)))
        return (view_origin){ .advice = advice_for_own_op };
    if ((t->flags & RG_INFERRED) == RG_INFERRED)
        return (view_origin){ "inference mode", " in normal mode", advice_for_inferred };
    if (t->flags & RG_UNTRACKED)
        return (view_origin){ "no_grad mode", " with grad mode enabled", advice_for_untracked };
    return (view_origin){ .advice = advice_for_lists };
}

/* Fails with torch's error message for a view that can't follow its base. If the view has no node,
 * or its node is a leaf, the message says in which block the view was made. Otherwise it names the
 * op that made the view; if the view was made in no_grad or inference mode, it also says so. */
static bool fail_for_view(const char *op, const rg_tensor *t, const char *written) {
    view_origin o = origin_of(t);
    const rg_node *n = rgi_node_of(t);
    if (!n || !n->op) {
        if (!o.block)
            o = (view_origin){ "no_grad mode", " with grad mode enabled", o.advice };
        return rgi_fail(RG_RUNTIME_ERROR, op,
                        "A view was created in %s and %s modified inplace%s. %s", o.block, written,
                        o.outside, o.advice);
    }
    const char *name = rgi_node_name(n);
    const char *end = NULL; /* The last "Backward" in the name, where the message cuts it off. */
    for (const char *at = name; (at = strstr(at, "Backward")); at++)
        end = at;
    const int length = (int)(end ? (size_t)(end - name) : strlen(name));
    const int output = output_number(n, t);
    if (!o.block)
        return rgi_fail(RG_RUNTIME_ERROR, op,
                        "Output %d of %.*s is a view and %s modified inplace. %s", output, length,
                        name, written, o.advice);
    return rgi_fail(RG_RUNTIME_ERROR, op,
                    "Output %d of %.*s is a view of a view which was created in %s and %s modified "
                    "inplace%s. %s",
                    output, length, name, o.block, written, o.outside, o.advice);
}

bool rgi_view_follows(const char *op, const rg_tensor *t, const char *written) {
    return rgi_is_renewable(t) || fail_for_view(op, t, written);
}

bool rgi_renew_slowly(rg_tensor *t, const char *op) {
    rg_tensor after = { .history = NULL };
    rg_strided at;
    bool follows = rgi_follows_base(t);
    if (follows && !rgi_view_follows(op, t, "its base or another view of its base has been"))
        return false;
    follows = follows && place_in_base(t, &at);
    if (follows && !record_view(&after, t, &at, rgi_base_of(t)))
        return false;
    /* Another thread may renew the view now: its history is read under the lock. */
    rgi_lock(RG_LOCK_VIEWS);
    const bool retained = rgi_retained(t);
    rgi_unlock(RG_LOCK_VIEWS);
    if (follows && retained && !rgi_retain_grad(&after)) {
        rgi_forget_history(&after);
        return false;
    }
    rg_history *released = after.history;
    /* Two threads may use the view at the same time. The first one that gets the lock renews it. */
    rgi_lock(RG_LOCK_VIEWS);
    if (rgi_is_stale(t)) {
        if (follows)
            released = exchange_history(t, &after);
        atomic_store_explicit(&t->version, t->storage->version, memory_order_release);
    }
    rgi_unlock(RG_LOCK_VIEWS);
    release_history(released);
    return true;
}

/* ---- the name of a history --------------------------------------------------------- */

/* Returns the name of t's node, or NULL if t is a leaf or has no node. If t is a stale view, first
 * gives t its new history. If t can't have a new history, returns "Invalid", as torch prints. */
static const char *history_name(rg_tensor *t) {
    if (rgi_is_stale(t) && rgi_follows_base(t) && !rgi_is_renewable(t))
        return "Invalid";
    const rg_node *n = rgi_renew(t, "grad_fn") ? rgi_node_of(t) : NULL;
    return n && n->op ? rgi_node_name(n) : NULL;
}

__attribute__((constructor)) static void name_histories(void) {
    rgi_node_class.name = history_name;
}

/* ---- histories for a write --------------------------------------------------------- */

/* Requires that t isn't a leaf (a recorded write to a leaf is refused). A view whose node is an
 * as_strided without hooks is returned itself, since this node leads directly to the base's
 * history. */
rg_tensor *rgi_beside_hooks(rg_tensor *t) {
    rg_strided at;
    rg_tensor after;
    const rg_node *n = rgi_node_of(t);
    if (!(t->flags & RG_VIEW) || !n || !place_in_base(t, &at))
        return t;
    rg_tensor *base = rgi_base_of(t);
    if (RG_IS(n->op, as_strided) && !rgi_hooks_of(n))
        return t;
    if (!record_view(&after, t, &at, base))
        return NULL;
    rg_tensor *alias = rgi_join(t, rgi_node_of(&after), after.output);
    rgi_forget_history(&after);
    return alias;
}

/* Records the new histories of t and, if t is a view, of its base. If the base no longer contains
 * t, t first stops being a view. Returns false if memory ran out or the base may not be written
 * to. */
static bool record_rebase(rg_rebase *r, rg_tensor *t, rg_tensor *value) {
    rg_strided at;
    r->t = t;
    r->base_after.history = NULL;
    if (!(t->flags & RG_VIEW)) {
        r->after = rgi_header_of(value);
        rgi_node_attach(&r->after, rgi_node_of(value), value->output);
        return true;
    }
    rg_tensor *base = rgi_base_of(t);
    if (!rgi_may_overwrite(base, rgi_applying))
        return false;
    if (!place_in_base(t, &at)) {
        rgi_view_leave(t);
        return record_rebase(r, t, value);
    }
    rg_tensor *const in[] = { base, value };
    if (!record_after(&r->base_after, base, &rg_op_copy_slices, &at, 2, in))
        return false;
    if (record_view(&r->after, t, &at, &r->base_after))
        return true;
    rgi_forget_history(&r->base_after);
    return false;
}

static void let_go_of_rebase(rg_rebase *r) {
    rgi_forget_history(&r->after);
    rgi_forget_history(&r->base_after);
}

bool rgi_rebase_begin(rg_rebase *r, rg_tensor *t, rg_tensor *value) {
    if (!record_rebase(r, t, value))
        return false;
    if (retain_alike(&r->after, t)
        && (!r->base_after.history || retain_alike(&r->base_after, rgi_base_of(t))))
        return true;
    let_go_of_rebase(r);
    return false;
}

void rgi_rebase_end(rg_rebase *r) {
    rg_tensor *t = r->t;
    if (!rgi_history_of(t))
        rgi_count_change();
    if (r->base_after.history)
        release_history(exchange_history(rgi_base_of(t), &r->base_after));
    release_history(exchange_history(t, &r->after));
    if (t->flags & RG_VIEW)
        atomic_store_explicit(&t->version, t->storage->version, memory_order_release);
}
