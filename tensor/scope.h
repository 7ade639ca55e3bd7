/*
 * scope.h: scopes, which own results. The public functions that begin and end scopes are in
 * tensor.h.
 */
#pragma once

#include "storage.h"
#include "text/text.h"

/* Gives the caller's reference to t to the innermost scope, and returns t. If memory runs out,
 * releases t and returns NULL. If t is NULL or RG_NONE, just returns t. */
static inline rg_tensor *rgi_own(rg_tensor *t);
rg_tensor *rgi_own_slowly(rg_tensor *t);
/* Drops t as rg_drop does. If that releases t, leaves it in the given state (opaque.h). */
void rgi_drop_as(rg_tensor *t, uint32_t state);

/* Releases all tensors and frees all memory that the thread's scopes own. Only for thread.c. */
void rgi_scope_end_thread(rg_thread *me);

static inline rg_tensor *rgi_own(rg_tensor *t) {
    rg_thread *me = &rgi_this;
    if (RG_UNLIKELY(!t || t == RG_NONE || me->depth == me->room))
        return rgi_own_slowly(t);
    atomic_store_explicit(&t->slot, (uint32_t)me->depth, memory_order_relaxed);
    me->stack[me->depth++] = t;
    return t;
}
