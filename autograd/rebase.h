/*
 * rebase.h: views and their bases in the graph. A write through a view becomes part of its base's
 * history; and a view whose storage was written to, by itself or by others, gets a new history from
 * its base's when it is next used.
 */
#pragma once

#include "node.h"

/* The place of a view in its base, of which the ops of ops/strided.c are told. The base has this
 * shape, and its elements lie in memory as `layout`, its strides, says. The view begins at element
 * number `start` from there, and has this size and these strides. */
typedef struct rg_strided {
    rg_dims shape, layout, size, stride;
    int64_t start;
} rg_strided;

/* Gives a view whose storage was written to a new history. Returns false if it failed, also with
 * torch's sentence, said of `op`, for a view that can't have one: one of a list, or one that was
 * made without grad mode. */
bool rgi_renew_slowly(rg_tensor *t, const char *op);
static inline bool rgi_renew(rg_tensor *t, const char *op) {
    return RG_LIKELY(!rgi_is_stale(t)) || rgi_renew_slowly(t, op);
}
/* Returns whether a view's history is its base's business: torch leaves a view alone that requires
 * no grad, or is a leaf, as long as its base requires none. */
static inline bool rgi_follows_base(const rg_tensor *t) {
    return rgi_base_of(t)->history || (t->history && rgi_node_of(t)->op);
}
/* Returns whether a view may get a new history after its base was written to. */
static inline bool rgi_is_renewable(const rg_tensor *t) {
    return !(t->flags & (RG_OF_LIST | RG_UNTRACKED));
}
/* Fails with torch's sentence if a view can't be part of its base's history. `written` is the part
 * of it that says what was written to: "is being", if it was the view itself. */
bool rgi_view_follows(const char *op, const rg_tensor *t, const char *written);

/* Returns a view, or an alias of it, whose history leads to its base's directly. torch calls no
 * hook of a view, or of one on the way to it, with the gradient from before a write through it. */
rg_tensor *rgi_beside_hooks(rg_tensor *t);

/* A rebase is a write to `t` on its way into the graph: headers with the histories that t and, if t
 * is a view, its base are to have. Beginning makes all that can fail; after that the value is
 * written, and the rebase is ended. */
typedef struct rg_rebase {
    rg_tensor *t;
    rg_tensor after, base_after;
} rg_rebase;
bool rgi_rebase_begin(rg_rebase *r, rg_tensor *t, rg_tensor *value);
void rgi_rebase_end(rg_rebase *r);
