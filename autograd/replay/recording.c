/*
 * recording.c: the tensors and the memory of a recording. Which entries there are, and
 * how they run, is replay.c's business.
 *
 * Memory goes round, as it does in the step itself: outputs are lent storages, and a
 * storage that only the recording has any more is lent again. The recording holds a
 * reference to every tensor that an entry works on. A tensor to which it has the only
 * one has been released by everybody else; such tensors are looked for from time to
 * time, and let go of their memory.
 */
#include "recording.h"
#include "tensor/memory.h"

/* ---- lists of pointers ------------------------------------------------------------- */

/* Adds a pointer. Where there is no memory for it, the recording has failed. */
static bool pointers_add(rg_replay *r, rg_pointers *list, void *it) {
    if (!rgi_grow((void **)&list->v, &list->room, list->n + 1, sizeof *list->v)) {
        r->failed = true;
        return false;
    }
    list->v[list->n++] = it;
    return true;
}

/* Returns the pointer's place, or the list's length if it isn't there. The newest are looked at
 * first. */
static size_t pointers_find(const rg_pointers *list, const void *it) {
    for (size_t i = list->n; i-- > 0;)
        if (list->v[i] == it)
            return i;
    return list->n;
}

bool rgi_pointers_have(const rg_pointers *list, const void *it) {
    return pointers_find(list, it) < list->n;
}

static void pointers_remove(rg_pointers *list, const void *it) {
    size_t at = pointers_find(list, it);
    if (at == list->n)
        return;
    list->n--;
    memmove(list->v + at, list->v + at + 1, (list->n - at) * sizeof *list->v);
}

void rgi_pointers_free(rg_pointers *list) {
    rgi_free(list->v, list->room * sizeof *list->v, RG_MEM_OTHER);
    *list = (rg_pointers){ NULL, 0, 0 };
}

/* ---- entries ----------------------------------------------------------------------- */

bool rgi_recording_refuse(rg_replay *r, const char *op) {
    r->failed = true;
    return rgi_fail(RG_NOT_IMPLEMENTED, op,
                    "can't be part of a recorded step: a run could not do it again");
}

void *rgi_recording_note(rg_replay *r, rg_redo *redo, void (*drop)(void *), size_t bytes) {
    if (r->failed)
        return NULL;
    /* The recording has failed unless the entry is made. */
    r->failed = true;
    void *context = rgi_alloc(bytes, RG_MEM_OTHER);
    if (!context)
        return NULL;
    if (!rgi_grow((void **)&r->entries, &r->entry_room, r->n_entries + 1, sizeof *r->entries)) {
        rgi_free(context, bytes, RG_MEM_OTHER);
        return NULL;
    }
    r->entries[r->n_entries++] = (rg_replay_entry){ redo, drop, context, bytes };
    r->failed = false;
    return context;
}

/* ---- memory that goes round -------------------------------------------------------- */

static bool is_lent(const rg_replay *r, const rg_storage *s) {
    return rgi_pointers_have(&r->lent, s);
}

void rgi_recording_hold(rg_replay *r, rg_tensor *t) {
    if (!t || t == RG_NONE || rgi_pointers_have(&r->living, t))
        return;
    if (!pointers_add(r, &r->held, t))
        return;
    rgi_retain(t);
    if (is_lent(r, t->storage))
        pointers_add(r, &r->living, t);
}

/* Makes t look released, as everybody else has released it. Its header stays, since entries work on
 * it. */
static void feign_release(rg_tensor *t) {
    rgi_forget_history(t);
    if (t->flags & RG_VIEW)
        rgi_view_leave(t);
    t->state = RG_DEAD;
    rgi_storage_release(t->storage);
}

/* A tensor whose release is feigned lets go of its history and its base, which may have held
 * others: mostly older ones, so the newest come first. What is left waits for the next time. */
void rgi_recording_reap(rg_replay *r) {
    rg_tensor **living = (rg_tensor **)r->living.v;
    size_t first = r->living.n;
    for (size_t i = r->living.n; i-- > 0;) {
        rg_tensor *t = living[i];
        if (t->refs > 1)
            living[--first] = t;
        else
            feign_release(t);
    }
    if (first == 0)
        return;
    r->living.n -= first;
    memmove(living, living + first, r->living.n * sizeof *living);
}

/* Returns the smallest storage that nobody uses and that holds `bytes` bytes, but not more than
 * twice that, or NULL if there is none. */
static rg_storage *spare_storage(const rg_replay *r, size_t bytes) {
    rg_storage *best = NULL;
    for (size_t i = r->lent.n; i-- > 0;) {
        rg_storage *s = r->lent.v[i];
        bool suits = s->bytes >= bytes && s->bytes / 2 <= bytes;
        if (s->refs == 1 && suits && (!best || s->bytes < best->bytes))
            best = s;
    }
    return best;
}

/* Gives t a new storage, which is among those to lend from now on. A constant that lay at the same
 * address before is gone. */
static bool lend_new(rg_replay *r, rg_tensor *t, size_t bytes) {
    rg_storage *s = rgi_alloc(RG_STORAGE_HEADER + bytes, RG_MEM_STORAGE);
    if (!s)
        return false;
    rgi_storage_begin(t, s, bytes);
    pointers_remove(&r->constants, s);
    if (!pointers_add(r, &r->lent, s))
        return false;
    RG_COUNT_UP(&s->refs, 1);
    return true;
}

bool rgi_recording_lend(rg_replay *r, rg_tensor *t, size_t bytes) {
    rg_storage *spare = r->lends_only_new ? NULL : spare_storage(r, bytes);
    if (spare) {
        RG_COUNT_UP(&spare->refs, 1);
        spare->inference = rgi_this.inference;
        t->storage = spare;
        t->data = spare->data;
    } else if (!lend_new(r, t, bytes)) {
        return false;
    }
    rgi_recording_hold(r, t);
    return true;
}

/* Where the step reads a gradient that it hasn't made, a run reads the one that the run before it
 * left. The step may make that gradient later, in memory that it is lent from now on. The entries
 * that are there already come before the reading, so none of them may write to such memory: it
 * must be new. */
void rgi_recording_reads(rg_replay *r, const rg_tensor *grad) {
    if (!grad || !is_lent(r, grad->storage))
        r->lends_only_new = true;
}

/* ---- constants --------------------------------------------------------------------- */

/* The storage is listed already if another constant lay there that is gone. */
bool rgi_recording_adds_constant(rg_replay *r, const rg_tensor *t) {
    return rgi_recording_is_constant(r, t) || pointers_add(r, &r->constants, t->storage);
}

bool rgi_recording_is_constant(const rg_replay *r, const rg_tensor *t) {
    return rgi_pointers_have(&r->constants, t->storage);
}

bool rgi_recording_makes_anew(rg_replay *r, const rg_tensor *t, const char *op) {
    if (!rgi_recording_is_constant(r, t))
        return true;
    for (size_t i = 0; i < r->held.n; i++) {
        const rg_tensor *held = r->held.v[i];
        if (held->storage == t->storage)
            return rgi_recording_refuse(r, op);
    }
    pointers_remove(&r->constants, t->storage);
    return true;
}

/* ---- the end of a recording -------------------------------------------------------- */

void rgi_recording_settle(rg_replay *r) {
    for (size_t i = 0; i < r->held.n; i++) {
        rg_tensor *t = r->held.v[i];
        if (t->state != RG_DEAD)
            continue;
        t->state = RG_ALIVE;
        RG_COUNT_UP(&t->storage->refs, 1);
    }
    for (size_t i = 0; i < r->lent.n; i++)
        rgi_storage_release(r->lent.v[i]);
    for (size_t i = 0; i < r->n_leaves; i++)
        rgi_node_release(r->leaves[i].leaf);
    rgi_free(r->leaves, r->leaf_room * sizeof *r->leaves, RG_MEM_OTHER);
    rgi_pointers_free(&r->lent);
    rgi_pointers_free(&r->living);
    rgi_pointers_free(&r->constants);
}
