/*
 * frozen.c: frozen leaves. As in torch, a leaf whose requires_grad is set to false keeps its
 * gradient and its hooks, and has them when it requires grad again. Until then the tensor's label
 * (tensor/text/label.h) holds the leaf's node. The label takes over the tensor's reference to the
 * node. A backward run through an older graph adds nothing to the gradient of a frozen leaf.
 */
#include "frozen.h"
#include "tensor/text/label.h"
#include "tensor/memory.h"

/* A history that refers to a frozen leaf. The tensor's label holds it. tensor/ knows no nodes, but
 * it can release a history, by the function in the history's class. */
typedef struct {
    rg_history base;
    rg_node *leaf;
} frozen_leaf;

static void frozen_free(frozen_leaf *f) { rgi_free(f, sizeof *f, RG_MEM_NODE); }

static void frozen_release(rg_history *h) {
    frozen_leaf *f = (frozen_leaf *)h;
    rg_node *leaf = f->leaf;
    frozen_free(f);
    leaf->base.cls->release(&leaf->base);
}

static const rg_history_class frozen_class = { .release = frozen_release };

rg_node *rgi_leaf_of(const rg_tensor *t) {
    rg_node *n = rgi_node_of(t);
    if (n && !n->op)
        return n;
    const frozen_leaf *f = (const frozen_leaf *)rgi_frozen_of(t);
    return f ? f->leaf : NULL;
}

/* Returns whether the leaf has a gradient, hooks, or a reference other than its tensor's. */
static bool is_worth_keeping(const rg_node *leaf) {
    const int64_t one_header = ((int64_t)1 << 32) + 1;
    const int64_t refs = atomic_load_explicit(&leaf->refs, memory_order_relaxed);
    return leaf->grad || leaf->notes || refs != one_header;
}

bool rgi_freeze(rg_tensor *t) {
    rg_node *leaf = rgi_node_of(t);
    if (!is_worth_keeping(leaf)) {
        rgi_forget_history(t);
        return true;
    }
    frozen_leaf *f = rgi_alloc(sizeof *f, RG_MEM_NODE);
    if (!f)
        return false;
    *f = (frozen_leaf){ .base.cls = &frozen_class, .leaf = leaf };
    if (!rgi_set_frozen(t, &f->base)) {
        frozen_free(f);
        return false;
    }
    t->history = NULL;
    leaf->frozen = true;
    return true;
}

void rgi_thaw(rg_tensor *t) {
    frozen_leaf *f = (frozen_leaf *)rgi_frozen_of(t);
    if (!f)
        return;
    f->leaf->frozen = false;
    t->history = &f->leaf->base;
    t->output = 0;
    rgi_set_frozen(t, NULL);
    frozen_free(f);
}

bool rgi_freeze_with(rg_tensor *t, rg_tensor *grad) {
    rg_node *leaf = rgi_leaf_new(t);
    if (!leaf)
        return false;
    leaf->grad = grad;
    rgi_node_attach(t, leaf, 0);
    rgi_node_release(leaf);
    if (rgi_freeze(t))
        return true;
    leaf->grad = NULL;
    rgi_forget_history(t);
    return false;
}
