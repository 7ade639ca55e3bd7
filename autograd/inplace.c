/*
 * inplace.c: writing over a tensor: who may, how the result of an op takes the place of
 * its first input, and how that input's place in the graph changes. Applying the op is
 * apply.c's business.
 */
#include "apply.h"
#include "tensor/observer.h"
#include "graph_observer.h"

/* ---- who may write ------------------------------------------------------------------ */

/* Refuses a write to a leaf that requires grad, to a view that does, and to any other result of the
 * graph unless the write is recorded. */
static bool guard_write(rg_tensor *t, const char *op, bool recorded) {
    rg_node *n = rgi_node_of(t);
    if (!n || rgi_grad_off)
        return true;
    bool view = t->flags & RG_VIEW;
    bool of_leaf = n->n_in && n->edge[0].node && !n->edge[0].node->op;
    RG_FAIL_IF(!n->op || (view && of_leaf), op,
               "a %sleaf Variable that requires grad is being used in an in-place operation.",
               n->op ? "view of a " : "");
    RG_FAIL_IF(view, op,
               "Output %d of %s is a view and is being modified inplace. Write to its base with "
               "rg_set_item instead.",
               t->output, rgi_node_name(n));
    RG_FAIL_IF(!recorded, op,
               "a result of %s would be overwritten, which is not recorded. "
               "Use rg_detach or RG_NO_GRAD.",
               rgi_node_name(n));
    return true;
}

__attribute__((constructor)) static void install_write_guard(void) {
    rgi_write_guard = guard_write;
}

/* ---- what a write would spoil ------------------------------------------------------- */

/* Returns whether writing to t spoils inputs that the op still has to read. An input isn't spoiled
 * if it is t element by element, or has no storage in common with t. */
static bool collides(const rg_tensor *t, int n, rg_tensor *const in[]) {
    for (int i = 1; i < n; i++) {
        const rg_tensor *x = in[i];
        if (!x || x == RG_NONE || x->storage != t->storage)
            continue;
        if (x->data != t->data || !rgi_same_shape(x, t)
            || memcmp(x->stride, t->stride, t->ndim * sizeof x->stride[0]))
            return true;
    }
    return false;
}

/* Returns whether a rule wants to read the value that is written over. */
static bool reads_overwritten(const rg_op *op, int n, rg_tensor *const in[]) {
    for (int i = 0; i < n && i < RG_MAX_RULES && !rgi_grad_off; i++)
        if (in[i] && in[i] != RG_NONE && in[i]->history && rgi_gradient_of(op, i)->needs & RG_IN(0))
            return true;
    return false;
}

/* Returns a copy of t in t's place in the graph. */
static rg_tensor *copy_with_history(rg_tensor *t) {
    rg_tensor *copy = rgi_new_like(t, t->dtype);
    if (!copy)
        return NULL;
    rgi_copy_elements(copy, t);
    rgi_observe_copy(copy, t, "copy_");
    if (t->history)
        rgi_node_attach(copy, rgi_node_of(t), t->output);
    return rgi_own(copy);
}

/* ---- writing ------------------------------------------------------------------------ */

/* Gives t the history of y. Views of t are out of date from now on. */
static void take_history(rg_tensor *t, rg_tensor *y) {
    rg_history *before = t->history;
    rgi_node_attach(t, rgi_node_of(y), y->output);
    t->storage->rebased++;
    t->rebased = t->storage->rebased;
    if (before)
        before->cls->release(before);
}

/* Gives t the values of y, and its place in the graph. */
static bool take_over(const char *name, rg_tensor *t, rg_tensor *y) {
    bool to_bool = t->dtype == RG_BOOL && y->dtype != RG_BOOL;
    bool to_integer = rgi_is_float(y->dtype) && !rgi_is_float(t->dtype);
    RG_FAIL_IF(!rgi_same_shape(y, t), name,
               "output with shape %s doesn't match the broadcast shape %s", RG_SHAPE_TEXT(t),
               RG_SHAPE_TEXT(y));
    RG_FAIL_IF(to_bool || to_integer, name,
               "result type %s can't be cast to the desired output type %s",
               rgi_scalar_name(y->dtype), rgi_scalar_name(t->dtype));
    RG_FAIL_IF(y->history && t->flags & RG_VIEW, name,
               "the view of a tensor is written to with a value that requires grad. Write to its "
               "base with rg_set_item instead.");
    if (y->history)
        y = rgi_to_as(rgi_node_name(rgi_node_of(y)), y, t->dtype);
    if (!y)
        return false;
    rgi_copy_elements(t, y);
    if (!rgi_observe_copy(t, y, name))
        return false;
    if (y->history)
        take_history(t, y);
    return true;
}

rg_tensor *rgi_apply_inplace(const char *name, const rg_op *op, const void *attr, size_t attr_size,
                             int n, rg_tensor *const in[]) {
    rg_tensor *t = in[0];
    rg_tensor *apart[RG_MAX_RULES];
    if (!rgi_may_write(t, name, true))
        return NULL;
    rg_graph_observer *o = rgi_graph_observer();
    if (RG_UNLIKELY(o != NULL) && o->may_update && !o->may_update(o, t, name))
        return NULL;
    bool direct = op->inplace && !collides(t, n, in);
    RG_SCOPE();
    /* A rule that wants the old value of t reads it from a copy. */
    if (reads_overwritten(op, n, in)) {
        apart[0] = copy_with_history(t);
        if (!apart[0])
            return NULL;
        for (int i = 1; i < n; i++)
            apart[i] = in[i];
        in = apart;
    }
    rg_tensor *y = rgi_apply_over(op, attr, attr_size, n, in, direct ? t : NULL);
    if (!y)
        return NULL;
    if (y == t)
        rgi_release(y);
    else if (!rgi_own(y) || !take_over(name, t, y))
        return NULL;
    rgi_count_write(t, name);
    return t;
}
