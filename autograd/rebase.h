/*
 * rebase.h: views and their bases in the graph. A write through a view is recorded in its base's
 * history. If the storage of a view was written to, through the view itself or in another way, the
 * view is stale: at its next use it gets a new history, which leads to the base's history.
 */
#pragma once

#include "node.h"

/* The place of a view in its base, for the ops of ops/strided.c. `shape` and `layout` are the sizes
 * and strides of the base, `size` and `stride` those of the view. `start` is the distance, in
 * elements, from the base's first element to the view's first element. */
typedef struct rg_strided {
    rg_dims shape, layout, size, stride;
    int64_t start;
} rg_strided;

/* Gives a stale view a new history, if it follows its base (rgi_follows_base). Returns false if
 * memory ran out. Also fails, with torch's error message, if the view can't have a new history
 * (rgi_is_renewable). rgi_renew does the same, but returns true at once if t isn't stale. */
bool rgi_renew_slowly(rg_tensor *t, const char *op);
static inline bool rgi_renew(rg_tensor *t, const char *op) {
    return RG_LIKELY(!rgi_is_stale(t)) || rgi_renew_slowly(t, op);
}
/* Returns whether a view gets its history from its base. As in torch, this is so if the base
 * requires grad, or if the view itself requires grad and isn't a leaf. */
static inline bool rgi_follows_base(const rg_tensor *t) {
    return rgi_base_of(t)->history || (t->history && rgi_node_of(t)->op);
}
/* Returns whether a view may get a new history after its base was written to. Returns false for a
 * view that a function returned in a list, and for one that was made without grad mode or by an op
 * of the program. */
static inline bool rgi_is_renewable(const rg_tensor *t) {
    return !(t->flags & (RG_OF_LIST | RG_UNTRACKED));
}
/* Fails with torch's error message if the view t can't follow its base's history. `written` is the
 * part of the message about the write, such as "is being" if the view itself is written to. */
bool rgi_view_follows(const char *op, const rg_tensor *t, const char *written);

/* Returns t or, if t is a view, an alias of t whose history leads directly to the history of t's
 * base. After a write through a view, torch doesn't call the hooks that the view, or views between
 * it and the base, had before the write. The alias has none of these hooks. Returns NULL if memory
 * ran out. */
rg_tensor *rgi_beside_hooks(rg_tensor *t);

/* The new histories for a write to the tensor `t`. `after` is a header with the history that t will
 * get. If t is a view, base_after is a header with the history that its base will get.
 * rgi_rebase_begin makes both histories, and does everything that can fail. Then the caller writes
 * the value, and rgi_rebase_end gives the histories to t and its base. */
typedef struct rg_rebase {
    rg_tensor *t;
    rg_tensor after, base_after;
} rg_rebase;
bool rgi_rebase_begin(rg_rebase *r, rg_tensor *t, rg_tensor *value);
void rgi_rebase_end(rg_rebase *r);
