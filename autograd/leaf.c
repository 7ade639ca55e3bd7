/*
 * leaf.c: leaves: requires_grad, detach_, data and .grad. node.c makes the nodes of leaves.
 */
#include "frozen.h"
#include "graph_observer.h"
#include "hooks.h"
#include "node.h"
#include "rebase.h"
#include "tensor/observer.h"
#include "tensor/text/text.h"

/* ---- requires_grad, detach and data ------------------------------------------------ */

/* Tells recordings that the program is about to change whether t requires grad. */
static void note_change(rg_tensor *t) {
    rg_graph_observer *o = rgi_graph_observer();
    if (o && o->before_change)
        o->before_change(o, t);
    rgi_count_change();
}

/* Makes t, which has no history, a leaf that requires grad. Returns false if memory ran out. */
static bool make_leaf(rg_tensor *t) {
    rg_node *n = rgi_leaf_of(t);
    const bool named = n && rgi_rename(&n->base.name, rgi_name_of(t));
    if (named)
        rgi_thaw(t);
    if (n)
        return named;
    n = rgi_leaf_new(t);
    if (!n)
        return false;
    if (rgi_rename(&n->base.name, rgi_name_of(t)))
        rgi_node_attach(t, n, 0);
    rgi_node_release(n);
    return t->history;
}

rg_tensor *(rg_requires_grad_)(rg_tensor *t, bool on) {
    if (!rgi_check(t, "requires_grad_"))
        return NULL;
    RG_FAIL_IF(on && t->storage->inference && !rgi_this.inference, "requires_grad_",
               "Setting requires_grad=True on inference tensor outside InferenceMode is not "
               "allowed.");
    if (on && rgi_is_in_graph(t))
        return t;
    if (!rgi_renew(t, "requires_grad_"))
        return NULL;
    rg_node *n = rgi_node_of(t);
    RG_FAIL_IF(n && n->op, "requires_grad_",
               "you can only change requires_grad flags of leaf variables. If you want to use a "
               "computed variable in a subgraph that doesn't require differentiation use "
               "var_no_grad = var.detach().");
    note_change(t);
    if (!on)
        return !n || rgi_freeze(t) ? t : NULL;
    RG_FAIL_IF(!rgi_is_float(t->dtype), "requires_grad_",
               "only Tensors of floating point dtype can require gradients");
    if (!make_leaf(t))
        return NULL;
    t->flags &= (uint8_t)~RG_WEAK;
    return t;
}

/* Returns whether t is floating point and has a history. For a view without a history, its base's
 * history counts. Also returns true for a view that ops refuse because its base was written to. */
bool rg_requires_grad(rg_tensor *t) {
    return rgi_check(t, "requires_grad") && rgi_is_float(t->dtype) && rgi_history_of(t);
}

bool rg_is_leaf(rg_tensor *t) {
    return rgi_check(t, "is_leaf") && rgi_renew(t, "is_leaf")
           && !(t->history && rgi_node_of(t)->op);
}

const char *rg_grad_fn(rg_tensor *t) {
    if (!rgi_check(t, "grad_fn") || !rgi_renew(t, "grad_fn"))
        return NULL;
    return rg_is_leaf(t) ? "" : rgi_node_name(rgi_node_of(t));
}

rg_tensor *rg_detach_(rg_tensor *t) {
    if (!rgi_check(t, "detach_"))
        return NULL;
    RG_FAIL_IF(t->flags & RG_VIEW, "detach_", "Can't detach views in-place. Use detach() instead.");
    note_change(t);
    const rg_node *n = rgi_node_of(t);
    if (n && !n->op)
        return rgi_freeze(t) ? t : NULL;
    rg_tensor **retained = rgi_retained(t);
    rg_tensor *grad = retained ? *retained : NULL;
    if (grad)
        rgi_retain(grad);
    rgi_forget_history(t);
    if (!grad || rgi_freeze_with(t, grad))
        return t;
    rgi_release(grad);
    return NULL;
}

/* Gives t the storage, dtype and strides of data. Fails if data has another shape than t, or if t
 * has a history and isn't a leaf. t remains the same tensor, and no memory is allocated. If t is a
 * view, it is no longer a view of its base. If the dtype changes, t loses its .grad. The change
 * counts as a write to t, so that backward fails for graphs that have saved t. (In torch, such a
 * graph would use the new data for some ops, and the old data for others.) */
static bool set_data(rg_tensor *t, rg_tensor *data) {
    if (!rgi_may_do_once("set_data") || !rgi_check(t, "set_data") || !rgi_check(data, "set_data")
        || !rgi_renew(t, "set_data"))
        return false;
    rg_node *n = rgi_leaf_of(t);
    RG_FAIL_IF((t->history && rgi_node_of(t) != n) || !rgi_same_shape(t, data), "set_data",
               "expects a leaf, and data of its shape");
    RG_FAIL_IF(t->history && !rgi_is_float(data->dtype), "set_data",
               "data set to a tensor that requires gradients must be floating point or complex "
               "dtype");
    rg_storage *before = t->storage;
    rgi_count_write(t, "set_data");
    RG_COUNT_UP(&data->storage->refs, 1);
    t->storage = data->storage;
    rgi_storage_release(before);
    rgi_count_change();
    t->data = data->data;
    if (t->flags & RG_VIEW)
        rgi_view_leave(t);
    t->dtype = data->dtype;
    memcpy(t->stride, data->stride, sizeof t->stride);
    rgi_update_flags(t);
    if (n)
        rgi_leaf_lie_as(n, t);
    if (n && n->meta[0].dtype != data->dtype) {
        n->meta[0].dtype = data->dtype;
        rgi_release(n->grad);
        n->grad = NULL;
    }
    return true;
}

bool(rg_set_data)(rg_tensor *t, rg_tensor *data) {
    return set_data(t, data) || rgi_halt_training();
}

/* ---- .grad ------------------------------------------------------------------------- */

rg_tensor **rgi_grad_place(const rg_tensor *t) {
    rg_node *leaf = rgi_leaf_of(t);
    return leaf ? &leaf->grad : rgi_retained(t);
}

/* Tells a recording that the step reads t's gradient, *place. `place` is rgi_grad_place(t). */
static void note_read(rg_tensor *t, rg_tensor *const *place, bool again) {
    rg_graph_observer *o = rgi_graph_observer();
    if (RG_UNLIKELY(o != NULL) && o->read_gradient)
        o->read_gradient(o, t, place ? *place : NULL, again);
}

rg_tensor *rgi_grad_of(rg_tensor *t, bool again) {
    if (!rgi_check(t, "grad_of"))
        return NULL;
    rg_tensor **place = rgi_grad_place(t);
    note_read(t, place, again);
    return place && *place ? rgi_lend(*place) : RG_NONE;
}

RG_HOT rg_tensor *rg_grad_of(rg_tensor *t) { return rgi_grad_of(t, false); }

/* Returns a new reference to the gradient that t gets: `grad` itself, a copy if elements of `grad`
 * share an address, since gradients are added in place, or an alias if `grad` is a view of t, since
 * a tensor that keeps a view of itself is never released. Returns NULL on failure. */
static rg_tensor *grad_to_keep(rg_tensor *t, rg_tensor *grad) {
    if (!rgi_may_do_once("set_grad"))
        return NULL;
    RG_FAIL_IF(!rgi_same_shape(grad, t), "set_grad",
               "attempting to assign a gradient of size '%s' to a tensor of size '%s'. Please "
               "ensure that the gradient and the tensor are the same size",
               RG_SHAPE_TEXT(grad), RG_SHAPE_TEXT(t));
    RG_FAIL_IF(grad->dtype != t->dtype, "set_grad",
               "attempting to assign a gradient with dtype '%s' to a tensor with grad_dtype '%s'. "
               "The gradient must match the tensor's grad_dtype (defaults to the tensor's dtype).",
               rgi_c_name(grad->dtype), rgi_scalar_name(t->dtype));
    if (rgi_overlaps_itself(grad))
        return rgi_contiguous_copy(grad, grad->dtype);
    if (grad->flags & RG_VIEW && rgi_base_of(grad) == t)
        return rgi_alias(grad);
    rgi_retain(grad);
    return grad;
}

static bool set_grad(rg_tensor *t, rg_tensor *grad) {
    if (!rgi_check(t, "set_grad") || (grad != RG_NONE && !rgi_check(grad, "set_grad")))
        return false;
    rg_node *leaf = rgi_leaf_of(t);
    rg_tensor **place = leaf ? &leaf->grad : rgi_retained(t);
    if (!place && grad == RG_NONE) {
        /* There is no gradient to remove. Repetitions of a recorded step must find none either. */
        note_read(t, NULL, false);
        return true;
    }
    RG_FAIL_IF(!place && rgi_history_of(t), "set_grad",
               "the tensor neither is a leaf nor retains its grad");
    RG_FAIL_IF(grad == t, "set_grad", "can't assign Variable as its own grad");
    rg_tensor *kept = grad == RG_NONE ? NULL : grad_to_keep(t, grad);
    if (!kept && grad != RG_NONE)
        return false;
    if (!place) {
        const bool set = rgi_freeze_with(t, kept);
        if (set)
            rgi_leaf_of(t)->given = true;
        else
            rgi_release(kept);
        return set;
    }
    rg_graph_observer *o = rgi_graph_observer();
    if (RG_UNLIKELY(o != NULL) && o->gradient)
        o->gradient(o, leaf ? leaf : rgi_node_of(t), NULL);
    if (leaf)
        leaf->given = kept;
    if (kept)
        rgi_count_change();
    rgi_release(*place);
    *place = kept;
    return true;
}

RG_HOT bool(rg_set_grad)(rg_tensor *t, rg_tensor *grad) {
    return set_grad(t, grad) || rgi_halt_training();
}
