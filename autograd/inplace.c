/*
 * inplace.c: ops in place: whether a tensor may be written to, how the result of an op replaces the
 * op's first input, and how that input gets a new history. apply.c applies the op.
 */
#include "apply.h"
#include "tensor/observer.h"
#include "graph_observer.h"
#include "rebase.h"

/* ---- whether a write is allowed ----------------------------------------------------- */

/* Fails with torch's error message if a write to t can't be recorded. This is so if t is a leaf
 * that requires grad, a view of such a leaf, or a view whose history can't follow its base's. */
static bool may_record_write(const rg_tensor *t, const char *op) {
    bool view = t->flags & RG_VIEW;
    const rg_tensor *base = view ? rgi_base_of(t) : t;
    if (!rgi_may_touch(t, op))
        return false;
    if (!rgi_view_follows(op, t, "is being"))
        return false;
    bool of_leaf = rgi_history_of(t) && !(base->history && rgi_node_of(base)->op);
    RG_FAIL_IF(of_leaf, op,
               "a %sleaf Variable that requires grad is being used in an in-place operation. To "
               "change it without recording, do so in a block with RG_NO_GRAD();",
               view ? "view of a " : "");
    return true;
}

static bool guard_write(rg_tensor *t, const char *op) {
    if (rgi_grad_off || !rgi_history_of(t))
        return true;
    if (!may_record_write(t, op) || !rgi_renew(t, op))
        return false;
    return rgi_fail(RG_RUNTIME_ERROR, op,
                    "a tensor with grad_fn=<%s> would be overwritten, which is not recorded. "
                    "Use rg_detach or RG_NO_GRAD.",
                    rgi_node_name(rgi_node_of(t)));
}

__attribute__((constructor)) static void install_write_guard(void) {
    rgi_write_guard = guard_write;
}

/* Returns whether a write to in[0] is recorded: whether grad mode is on and an input has a history.
 * For in[0] and for each stale view (rebase.h), the history of the base counts as well. */
static bool is_recorded(int n, rg_tensor *const in[]) {
    bool any = false;
    for (int i = 0; i < n && !any; i++) {
        const rg_tensor *x = in[i];
        if (!x || x->state != RG_ALIVE)
            continue;
        any = i == 0 || rgi_is_stale(x) ? rgi_history_of(x) : x->history;
    }
    return any && !rgi_grad_off;
}

/* Fails unless the op may write to in[0]. If the write will be recorded, first gives stale views
 * among the inputs their new histories. */
static bool may_write(const char *name, int n, rg_tensor *const in[]) {
    rg_tensor *t = in[0];
    if (!rgi_check(t, name))
        return false;
    if (!is_recorded(n, in))
        return rgi_may_overwrite(t, name);
    if (!may_record_write(t, name) || !rgi_may_overwrite(t, name))
        return false;
    for (int i = 0; i < n; i++)
        if (in[i] && in[i]->state == RG_ALIVE && !rgi_renew(in[i], name))
            return false;
    return true;
}

/* ---- values that a write would change ----------------------------------------------- */

/* Returns whether a write to t would change inputs that the op reads later. An input is safe if it
 * doesn't share t's storage, or has the same elements as t in the same order and the op takes no
 * indices. */
static bool collides(const rg_op *op, const rg_tensor *t, int n, rg_tensor *const in[]) {
    for (int i = 1; i < n; i++) {
        const rg_tensor *x = in[i];
        if (!x || x->storage != t->storage)
            continue;
        if (op->refuses_values || x->data != t->data || !rgi_same_shape(x, t)
            || memcmp(x->stride, t->stride, t->ndim * sizeof x->stride[0]))
            return true;
    }
    return false;
}

/* Returns whether a recorded rule will need the value of in[0], which will be written over. */
static bool reads_overwritten(const rg_op *op, int n, rg_tensor *const in[]) {
    for (int i = 0; i < n && i < RG_MAX_RULES && !rgi_grad_off; i++)
        if (in[i] && in[i] != RG_NONE && in[i]->history && rgi_gradient_of(op, i)->needs & RG_IN(0))
            return true;
    return false;
}

/* Returns a copy of t that has t's history. */
static rg_tensor *copy_with_history(rg_tensor *t) {
    rg_tensor *copy = rgi_new_dense_like(t, (rg_dtype)t->dtype);
    if (!copy)
        return NULL;
    rgi_copy_elements(copy, t);
    rgi_observe_copy(copy, t, "copy_");
    if (t->history)
        rgi_node_attach(copy, rgi_node_of(t), t->output);
    return rgi_own(copy);
}

/* ---- writing the result of an op over its first input ------------------------------- */

/* Writes the values of y over t, and records this: t and, if t is a view, t's base get new
 * histories that lead to y's history. If the node of y saved its output, and y has t's dtype, the
 * saved value becomes an alias of t, as in torch. Then backward fails after a later write to t. */
static bool take_over_history(const char *name, rg_tensor *t, rg_tensor *y) {
    rg_tensor *cast = rgi_to_as(rgi_node_name(rgi_node_of(y)), y, t->dtype);
    rg_rebase rebase;
    if (!cast || !rgi_rebase_begin(&rebase, t, cast))
        return false;
    rgi_copy_elements(t, cast);
    rgi_count_write(t, name);
    rgi_rebase_end(&rebase);
    if (cast == y)
        rgi_node_save_instead(rgi_node_of(y), t);
    return rgi_observe_copy(t, cast, name);
}

/* Writes the values of y over t. If y has a history, records the write (take_over_history). Fails
 * if the shape or dtype of y doesn't suit t. */
static bool take_over(const char *name, rg_tensor *t, rg_tensor *y) {
    bool to_bool = rgi_is_bool(t->dtype) && !rgi_is_bool(y->dtype);
    bool to_integer = rgi_is_float(y->dtype) && !rgi_is_float(t->dtype);
    RG_FAIL_IF(!rgi_same_shape(y, t), name,
               "output with shape %s doesn't match the broadcast shape %s", RG_SHAPE_TEXT(t),
               RG_SHAPE_TEXT(y));
    RG_FAIL_IF(to_bool || to_integer, name,
               "result type %s can't be cast to the desired output type %s",
               rgi_scalar_name(y->dtype), rgi_scalar_name(t->dtype));
    if (y->history)
        return take_over_history(name, t, y);
    rgi_copy_elements(t, y);
    rgi_count_write(t, name);
    return rgi_observe_copy(t, y, name);
}

rg_tensor *rgi_apply_inplace(const char *name, const rg_op *op, const void *attr, size_t attr_size,
                             int n, rg_tensor *const in[]) {
    rg_tensor *t = in[0];
    rg_tensor *apart[2 + RG_MAX_DIMS];
    if (!may_write(name, n, in))
        return NULL;
    rg_graph_observer *o = rgi_graph_observer();
    if (RG_UNLIKELY(o != NULL) && o->may_update && !o->may_update(o, t, name))
        return NULL;
    /* An observer of calls compares the result with the inputs, so no input is overwritten. */
    bool direct = op->inplace && !collides(op, t, n, in) && !rgi_is_observed(RG_SEES_CALLS);
    RG_SCOPE();
    rg_tensor *source = rgi_grad_off ? t : rgi_beside_hooks(t);
    if (source && reads_overwritten(op, n, in))
        source = copy_with_history(source);
    if (source != t) {
        memcpy(apart, in, (size_t)n * sizeof *in);
        apart[0] = source;
        in = apart;
    }
    rg_tensor *y = rgi_apply_over(op, attr, attr_size, n, in, direct ? t : NULL);
    if (!y)
        return NULL;
    if (y == t) {
        rgi_release(y);
        rgi_count_write(t, name);
        return t;
    }
    return rgi_own(y) && take_over(name, t, y) ? t : NULL;
}
