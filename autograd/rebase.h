/*
 * rebase.h: views and their bases in the graph. A write through a view becomes part of its
 * base's history. If a view's storage was written to, through the view or in another way, the
 * view gets a new history at its next use, made from its base's.
 */
#pragma once

#include "node.h"

/* The place of a view in its base, for the ops of ops/strided.c: the base's shape, its strides
 * (`layout`), the index `start` of the view's first element in the base's memory, and the view's
 * size and strides. */
typedef struct rg_strided {
    rg_dims shape, layout, size, stride;
    int64_t start;
} rg_strided;

/* Gives a view whose storage was written to a new history. Returns false if it failed. Then torch's
 * sentence names `op`: an element of a list of views, and a view made without grad mode, can't have
 * a new history. */
bool rgi_renew_slowly(rg_tensor *t, const char *op);
static inline bool rgi_renew(rg_tensor *t, const char *op) {
    return RG_LIKELY(!rgi_is_stale(t)) || rgi_renew_slowly(t, op);
}
/* Returns whether a view gets its history from its base. As in torch, it doesn't while its base
 * requires no grad and the view itself requires none or is a leaf. */
static inline bool rgi_follows_base(const rg_tensor *t) {
    return rgi_base_of(t)->history || (t->history && rgi_node_of(t)->op);
}
/* Returns whether a view may get a new history after its base was written to. */
static inline bool rgi_is_renewable(const rg_tensor *t) {
    return !(t->flags & (RG_OF_LIST | RG_UNTRACKED));
}
/* Fails with torch's sentence if a view can't follow its base's history. `written` is the part of
 * the sentence about the write: "is being", if the view itself is written to. */
bool rgi_view_follows(const char *op, const rg_tensor *t, const char *written);

/* Returns a view, or an alias of it, whose history leads directly to its base's. After a write
 * through a view, torch calls no hook that was set before, on the view or on views between it and
 * the base. */
rg_tensor *rgi_beside_hooks(rg_tensor *t);

/* The new histories for a write to `t`: headers with the histories that t and, if t is a view, its
 * base will get. rgi_rebase_begin makes everything that can fail. Then the value is written, and
 * rgi_rebase_end sets the histories. */
typedef struct rg_rebase {
    rg_tensor *t;
    rg_tensor after, base_after;
} rg_rebase;
bool rgi_rebase_begin(rg_rebase *r, rg_tensor *t, rg_tensor *value);
void rgi_rebase_end(rg_rebase *r);
