/*
 * scope.c: results belong to a scope. The thread has one stack of references
 * and, for each open scope, the depth at which it began; ending a scope drops
 * the stack to that mark, and with it whatever scopes were left open inside.
 */
#include "internal.h"

/* The root scope has no mark of its own: it begins at 0. */
static size_t innermost(void) { return rgi_this.scopes ? rgi_this.marks[rgi_this.scopes - 1] : 0; }

size_t rg_scope_begin(void) {
    rg_thread *me = rgi_thread_get();
    if (RG_UNLIKELY(me->scopes == me->marks_room)) {
        /* a mark is not a request of the user's: */
        int64_t fail_at = me->fail_at;
        me->fail_at = 0; /* a scope can't report failure */
        bool grown = rgi_grow((void **)&me->marks, &me->marks_room, me->scopes + 1,
                              sizeof *me->marks);
        me->fail_at = fail_at;
        if (!grown)
            return me->scopes;
    }
    me->marks[me->scopes] = me->depth;
    return me->scopes++;
}

static inline void drop_to(rg_thread *me, size_t mark) {
    while (me->depth > mark) {
        rg_tensor *t = me->stack[--me->depth];
        if (t && RG_COUNT_DOWN(&t->refs, 1))
            rgi_destroy(t);
    }
    rgi_observe_release();
}

void rg_scope_end(size_t mark) {
    rg_thread *me = rgi_thread_get();
    if (mark >= me->scopes)
        return;
    drop_to(me, me->marks[mark]);
    me->scopes = mark;
}

void rgi_scope_end_root(void) {
    rgi_this.scopes = 0;
    drop_to(rgi_thread_get(), 0);
}

rg_scope_guard rg_scope_open(void) { return (rg_scope_guard){ rg_scope_begin(), true }; }

void rg_scope_close(rg_scope_guard *guard) { rg_scope_end(guard->mark); }

bool rg_scope_restart(rg_scope_guard *guard) {
    rg_thread *me = &rgi_this;
    if (guard->mark < me->scopes) {
        drop_to(me, me->marks[guard->mark]);
        me->scopes = guard->mark + 1;
    }
    return false;
}

/* ---- ownership -------------------------------------------------------------------- */

/* Several threads may lend one tensor: the hint is the last one's. */
static void put_slot(rg_tensor *t, size_t at) {
    atomic_store_explicit(&t->slot, (unsigned)at, memory_order_relaxed);
}

rg_tensor *rgi_own_slowly(rg_tensor *t) {
    rg_thread *me = rgi_thread_get();
    if (!t || t == RG_NONE)
        return t;
    if (!rgi_grow((void **)&me->stack, &me->room, me->depth + 1, sizeof *me->stack)) {
        rgi_release(t);
        return NULL;
    }
    return rgi_own(t);
}

rg_tensor *rgi_lend(rg_tensor *t) {
    if (!t || t == RG_NONE)
        return t;
    rgi_retain(t);
    return rgi_own(t);
}

char *rgi_own_string(size_t bytes) {
    rg_tensor *t = rgi_own(rgi_new(RG_BOOL, 1, (int64_t[]){ (int64_t)bytes }));
    return t ? t->data : NULL;
}

char *rgi_text_own(rg_text *t) {
    char *own = t->failed ? NULL : rgi_own_string(t->n + 1);
    if (own)
        memcpy(own, t->v, t->n + 1);
    rgi_text_free(t);
    return own;
}

/* Where on the stack, from the mark up, is t? Its hint is usually right. */
static bool find(const rg_tensor *t, size_t mark, size_t *at) {
    rg_thread *me = rgi_thread_get();
    size_t hint = atomic_load_explicit(&t->slot, memory_order_relaxed);
    if (hint >= mark && hint < me->depth && me->stack[hint] == t)
        return *at = hint, true;
    for (size_t i = me->depth; i-- > mark;)
        if (me->stack[i] == t)
            return *at = i, true;
    return false;
}

/* Holes at the top close, lest a loop that keeps or drops grow the stack. */
static void take_from_stack(size_t at) {
    rg_thread *me = rgi_thread_get();
    me->stack[at] = NULL;
    for (size_t mark = innermost(); me->depth > mark && !me->stack[me->depth - 1];)
        me->depth--;
}

rg_tensor *rg_keep(rg_tensor *t) {
    if (!rgi_check(t, "keep"))
        return NULL;
    size_t at;
    if (find(t, 0, &at))
        take_from_stack(at);
    else
        rgi_retain(t);
    atomic_fetch_add_explicit(&t->kept, 1, memory_order_relaxed);
    return t;
}

static bool was_kept(rg_tensor *t) {
    unsigned kept = atomic_load_explicit(&t->kept, memory_order_relaxed);
    while (kept)
        if (atomic_compare_exchange_weak_explicit(&t->kept, &kept, kept - 1, memory_order_relaxed,
                                                  memory_order_relaxed))
            return true;
    return false;
}

void rg_drop(rg_tensor *t) {
    if (!t || t == RG_NONE || !rgi_check(t, "drop"))
        return;
    size_t at;
    if (was_kept(t))
        rgi_release(t);
    else if (find(t, 0, &at))
        take_from_stack(at), rgi_release(t);
    else
        rgi_fail(RG_RUNTIME_ERROR, "drop",
                 "the tensor is neither kept nor owned by a scope of this thread");
    rgi_observe_release();
}

rg_tensor *rg_escape(rg_tensor *t) {
    rg_thread *me = rgi_thread_get();
    if (rgi_is_none(t))
        return t;
    if (!rgi_check(t, "escape"))
        return NULL;
    size_t mark = innermost(), at;
    if (me->scopes == 0 || !find(t, mark, &at))
        return t; /* it is outside already */
    rg_tensor *first = me->stack[mark];
    me->stack[at] = first;
    if (first)
        put_slot(first, at);
    me->stack[mark] = t;
    put_slot(t, mark);
    me->marks[me->scopes - 1]++;
    return t;
}
