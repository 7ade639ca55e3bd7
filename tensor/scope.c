/*
 * scope.c: scopes, which own results. Each thread has one stack of references to tensors and, for
 * each open scope, the depth that the stack had when the scope began (marks[]). The mark that a
 * program gets for a scope is the index in marks[]. Ending a scope releases the references above
 * the scope's depth, and so also ends the scopes that are still open inside it. The blocks of
 * memory that scopes own are in a list beside the stack.
 */
#include "scope.h"
#include "error.h"
#include "memory.h"
#include "observer.h"
#include "refs.h"
#include "thread.h"

/* Returns the depth at which the innermost scope begins. The root scope begins at depth 0, and has
 * no entry in marks[]. */
static size_t innermost_mark(const rg_thread *me) {
    return me->scopes ? me->marks[me->scopes - 1] : 0;
}

RG_HOT size_t rg_scope_begin(void) {
    rg_thread *me = rgi_thread_get();
    if (RG_UNLIKELY(me->scopes == me->marks_room)) {
        /* This allocation isn't counted for tests (fail_at) or for the limit of a load (load),
         * because rg_scope_begin has no way to report a failure. */
        int64_t fail_at = me->fail_at;
        struct rg_load *load = me->load;
        me->fail_at = 0;
        me->load = NULL;
        bool grown = rgi_grow((void **)&me->marks, &me->marks_room, me->scopes + 1,
                              sizeof *me->marks);
        me->fail_at = fail_at;
        me->load = load;
        if (!grown)
            return me->scopes;
    }
    me->marks[me->scopes] = me->depth;
    return me->scopes++;
}

static inline void release_down_to(rg_thread *me, size_t depth) {
    while (me->depth > depth) {
        rg_tensor *t = me->stack[--me->depth];
        if (t && RG_COUNT_DOWN(&t->refs, 1))
            rgi_destroy(t);
    }
}

/* ---- memory that scopes own -------------------------------------------------------- */

/* The fields before a block of memory that a scope owns; they take a multiple of 64 bytes. `level`
 * is the level of the scope: 1 for the root scope, 2 for a scope inside it, and so on. `bytes` is
 * the size of the block including these fields. */
struct rg_scope_block {
    _Alignas(64) struct rg_scope_block *next;
    size_t level;
    size_t bytes;
};

void *rgi_scope_alloc(size_t bytes) {
    rg_thread *me = rgi_thread_get();
    struct rg_scope_block *block;
    size_t all;
    if (__builtin_add_overflow(bytes, sizeof *block, &all))
        all = SIZE_MAX;
    block = rgi_alloc(all, RG_MEM_OTHER);
    if (!block)
        return NULL;
    *block = (struct rg_scope_block){ me->blocks, me->scopes + 1, all };
    me->blocks = block;
    return block + 1;
}

void *(rg_scope_copy)(const void *from, size_t bytes) {
    if (bytes && !rgi_given(from, "scope_copy", "memory"))
        return NULL;
    void *own = rgi_scope_alloc(bytes);
    if (own && bytes)
        memcpy(own, from, bytes);
    return own;
}

/* Frees the blocks of all scopes whose level is greater than `level`. */
static __attribute__((noinline)) void free_blocks(rg_thread *me, size_t level) {
    while (me->blocks && me->blocks->level > level) {
        struct rg_scope_block *block = me->blocks;
        me->blocks = block->next;
        rgi_free(block, block->bytes, RG_MEM_OTHER);
    }
}

char *rgi_text_own(rg_text *t) {
    char *own = t->failed ? NULL : rgi_scope_alloc(t->n + 1);
    if (own)
        memcpy(own, t->v, t->n + 1);
    rgi_text_free(t);
    return own;
}

/* ---- ending scopes ----------------------------------------------------------------- */

static __attribute__((noinline)) void tell_and_free_blocks(rg_thread *me, size_t level) {
    rgi_observe_release();
    free_blocks(me, level);
}

/* Empties the scopes with a level above `level`. Releases their tensors, which are on the stack
 * from index `depth` on, and reports that to the observer, if there is one. Then frees their blocks
 * of memory. */
static inline void end_inside(rg_thread *me, size_t depth, size_t level) {
    release_down_to(me, depth);
    if (RG_UNLIKELY((uintptr_t)me->observer | (uintptr_t)me->blocks))
        tell_and_free_blocks(me, level);
}

/* Ends the scope with this mark and the scopes inside it. Returns false if there is none. */
static inline bool end_scope(rg_thread *me, size_t mark) {
    if (RG_UNLIKELY(mark >= me->scopes))
        return false;
    end_inside(me, me->marks[mark], mark + 1);
    me->scopes = mark;
    return true;
}

void(rg_scope_end)(size_t mark) {
    if (!end_scope(rgi_thread_get(), mark))
        rgi_fail(RG_RUNTIME_ERROR, "scope_end",
                 "no scope has the mark %zu: it has ended already, by itself or with a scope "
                 "around it, or it has never begun",
                 mark);
}

RG_HOT rg_scope_guard rg_scope_open(void) { return (rg_scope_guard){ rg_scope_begin(), true }; }

/* Does nothing if the scope has ended already, because the program has ended a scope around it. */
RG_HOT void rg_scope_close(rg_scope_guard *guard) {
    (void)end_scope(rgi_thread_get(), guard->mark);
}

RG_HOT bool rg_scope_restart(rg_scope_guard *guard) {
    rg_thread *me = &rgi_this;
    if (guard->mark < me->scopes) {
        end_inside(me, me->marks[guard->mark], guard->mark + 1);
        me->scopes = guard->mark + 1;
    }
    return false;
}

void rgi_scope_end_thread(rg_thread *me) {
    me->scopes = 0;
    while (me->depth > 0)
        rgi_release_as(me->stack[--me->depth], RG_THREAD_ENDED);
    tell_and_free_blocks(me, 0);
    rgi_free(me->stack, me->room * sizeof *me->stack, RG_MEM_OTHER);
    rgi_free(me->marks, me->marks_room * sizeof *me->marks, RG_MEM_OTHER);
    me->stack = NULL;
    me->marks = NULL;
    me->room = 0;
    me->marks_room = 0;
}

/* ---- ownership ----------------------------------------------------------------------- */

/* Stores in t the index at which t's reference is on the stack. The index is only a hint: if scopes
 * of several threads own t, it is the one that was stored last. */
static void put_slot(rg_tensor *t, size_t at) {
    atomic_store_explicit(&t->slot, (unsigned)at, memory_order_relaxed);
}

rg_tensor *rgi_own_slowly(rg_tensor *t) {
    rg_thread *me = rgi_thread_get();
    if (!t || t == RG_NONE)
        return t;
    const char *outer = rgi_applying;
    if (!outer)
        rgi_applying = "scope";
    const bool grown = rgi_grow((void **)&me->stack, &me->room, me->depth + 1, sizeof *me->stack);
    rgi_applying = outer;
    if (grown)
        return rgi_own(t);
    rgi_release(t);
    return NULL;
}

RG_HOT rg_tensor *rgi_lend(rg_tensor *t) {
    if (!t || t == RG_NONE)
        return t;
    rgi_retain(t);
    return rgi_own(t);
}

/* Returns an index of t on the stack that is at least `from`, or -1 if there is none. First tries
 * t->slot, a hint that is usually right. */
static int64_t find_on_stack(const rg_thread *me, const rg_tensor *t, size_t from) {
    size_t hint = atomic_load_explicit(&t->slot, memory_order_relaxed);
    if (hint >= from && hint < me->depth && me->stack[hint] == t)
        return (int64_t)hint;
    for (size_t i = me->depth; i-- > from;)
        if (me->stack[i] == t)
            return (int64_t)i;
    return -1;
}

/* Removes the reference at index `at` from the stack, by setting it to NULL, and pops the NULLs at
 * the top of the innermost scope. So the stack doesn't grow in a loop that keeps or drops
 * tensors. */
static void take_from_stack(rg_thread *me, int64_t at) {
    size_t mark = innermost_mark(me);
    me->stack[at] = NULL;
    while (me->depth > mark && !me->stack[me->depth - 1])
        me->depth--;
}

rg_tensor *rg_keep(rg_tensor *t) {
    rg_thread *me = rgi_thread_get();
    if (!rgi_check(t, "keep"))
        return NULL;
    int64_t at = find_on_stack(me, t, 0);
    if (at >= 0)
        take_from_stack(me, at);
    else
        rgi_retain(t);
    atomic_fetch_add_explicit(&t->kept, 1, memory_order_relaxed);
    return t;
}

/* Cancels one call of rg_keep for t. Returns false if there was none to cancel. */
static bool unkeep(rg_tensor *t) {
    unsigned kept = atomic_load_explicit(&t->kept, memory_order_relaxed);
    while (kept)
        if (atomic_compare_exchange_weak_explicit(&t->kept, &kept, kept - 1, memory_order_relaxed,
                                                  memory_order_relaxed))
            return true;
    return false;
}

void rgi_drop_as(rg_tensor *t, uint32_t state) {
    rg_thread *me = rgi_thread_get();
    if (!t || t == RG_NONE || !rgi_check(t, "drop"))
        return;
    if (unkeep(t)) {
        rgi_release_as(t, state);
        rgi_observe_release();
        return;
    }
    int64_t at = find_on_stack(me, t, 0);
    if (at < 0) {
        rgi_fail(RG_RUNTIME_ERROR, "drop",
                 "the tensor is neither kept nor owned by a scope of this thread");
        return;
    }
    take_from_stack(me, at);
    rgi_release_as(t, state);
    rgi_observe_release();
}

void rg_drop(rg_tensor *t) { rgi_drop_as(t, RG_DROPPED); }

rg_tensor *rg_escape(rg_tensor *t) {
    rg_thread *me = rgi_thread_get();
    if (rgi_is_none(t))
        return t;
    if (!rgi_check(t, "escape"))
        return NULL;
    if (me->scopes == 0)
        return t;
    size_t mark = innermost_mark(me);
    int64_t at = find_on_stack(me, t, mark);
    if (at < 0)
        return t; /* An outer scope owns t, or t is kept: t outlives this scope. */
    /* Swaps t with the first reference of the innermost scope, and moves the depth at which that
     * scope begins up by one. So t belongs to the scope outside. */
    rg_tensor *first = me->stack[mark];
    me->stack[at] = first;
    if (first)
        put_slot(first, (size_t)at);
    me->stack[mark] = t;
    put_slot(t, mark);
    me->marks[me->scopes - 1]++;
    return t;
}
