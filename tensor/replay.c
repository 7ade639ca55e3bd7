/*
 * replay.c: a step that is recorded once runs again as the list of what it did, on
 * the tensors that it did it to: no dispatch, no memory, the same bits. Whoever does
 * what a run must do again notes it (rgi_note); what can't be done again is refused.
 */
#include "internal.h"

struct rg_replay_entry {
    rg_again *run;
    void (*drop)(void *);
    void *context;
    size_t bytes;
};

static _Atomic uint64_t last_recording;

/* What is lent is held without being counted, so that one sees when nobody else has it any more. */
void rgi_hold(rg_tensor *t) {
    rg_replay *r = rgi_this.recording;
    if (!t || t == RG_NONE || t->flags & RG_HELD)
        return;
    if (!rgi_grow((void **)&r->held, &r->held_room, r->n_held + 1, sizeof *r->held))
        return (void)(r->failed = true);
    r->held[r->n_held++] = t;
    if (t->storage->lender == r)
        t->flags |= RG_HELD;
    else
        rgi_retain(t);
}

/* To what an entry writes in every run before any other reads it, and to nothing else. Of those
 * that fit the smallest. */
bool rgi_lend_storage(rg_tensor *t, size_t bytes) {
    rg_replay *r = rgi_this.recording;
    rg_storage *best = NULL;
    if (!rgi_grow((void **)&r->held, &r->held_room, r->n_held + 1, sizeof *r->held))
        return false;
    for (size_t i = r->n_held; i-- > 0 && !r->anew;) {
        rg_storage *s = r->held[i]->storage;
        size_t room = s->bytes - RG_LENT;
        if (s->lender == r && !s->refs && room >= bytes && room / 2 <= bytes
            && (!best || s->bytes < best->bytes))
            best = s;
    }
    if (best) {
        best->refs = 1;
        t->data = (t->storage = best)->data;
    } else {
        if (!(best = rgi_alloc(RG_STORAGE_HEADER + bytes, RG_MEM_STORAGE)))
            return false;
        rgi_storage_begin(t, best, RG_LENT + bytes);
        best->lender = r;
    }
    rgi_hold(t);
    return true;
}

/* A gradient that the step reads and hasn't made is, in a run, what the run before left: so what is
 * made from now on, and may be left, has memory that no earlier entry writes to. */
void rgi_lend_anew(const rg_tensor *grad) {
    rgi_this.recording->anew |= !grad || grad->storage->lender != rgi_this.recording;
}

/* From now on all is counted, and memory stays with its tensors. */
static void replay_settle(rg_replay *r) {
    for (size_t i = 0; i < r->n_held; i++) {
        rg_tensor *t = r->held[i];
        if (t->storage->lender == r)
            t->storage->lender = NULL, t->storage->bytes -= RG_LENT;
        if (t->flags & RG_HELD)
            rgi_retain(t);
        else if (t->state == RG_DEAD)
            t->storage->refs++;
        t->flags &= (uint8_t)~RG_HELD;
        t->state = RG_ALIVE;
    }
}

bool rgi_made_again(rg_tensor *t, const char *op) {
    const rg_replay *r = rgi_this.recording;
    for (size_t i = rgi_is_constant(t) ? r->n_held : 0; i-- > 0;)
        if (r->held[i]->storage == t->storage)
            return rgi_not_again(op);
    t->storage->constant = 0;
    return true;
}

void *rgi_note(rg_again *run, void (*drop)(void *), size_t bytes) {
    rg_replay *r = rgi_this.recording;
    if (r->failed)
        return NULL;
    void *context = rgi_alloc(bytes, RG_MEM_OTHER);
    r->failed = !context || !rgi_grow((void **)&r->entries, &r->room, r->n + 1, sizeof *r->entries);
    if (!r->failed)
        return r->entries[r->n++] = (struct rg_replay_entry){ run, drop, context, bytes }, context;
    if (context)
        rgi_free(context, bytes, RG_MEM_OTHER);
    return NULL;
}

bool rgi_not_again(const char *op) {
    if (!rgi_this.recording || rgi_this.inside)
        return true;
    rgi_this.recording->failed = true;
    return rgi_fail(RG_NOT_IMPLEMENTED, op,
                    "can't be part of a recorded step: a run could not do it again");
}

typedef struct {
    rg_tensor *to, *from;
} noted_copy;

static bool copy_again(void *context) {
    noted_copy *c = context;
    if (c->from)
        rgi_copy_elements(c->to, c->from);
    else
        rgi_fill_zero(c->to);
    return true;
}

void rgi_note_copy(rg_tensor *to, rg_tensor *from) {
    noted_copy *c = rgi_note(copy_again, NULL, sizeof *c);
    if (c)
        *c = (noted_copy){ to, from };
    rgi_hold(to);
    rgi_hold(from);
}

/* ---- recording and running ------------------------------------------------------- */
rg_replay *rg_record(void (*step)(void *context), void *context) {
    rg_thread *me = rgi_thread_get();
    rg_replay *r;
    RG_FAIL_IF(!step, "record", "there is no step");
    RG_FAIL_IF(me->recording, "record", "a step is being recorded already");
    if (!(r = rgi_alloc(sizeof *r, RG_MEM_OTHER)))
        return NULL;
    *r = (rg_replay){ .id = atomic_fetch_add(&last_recording, 1) + 1 };
    rg_error_clear();
    me->recording = r;
    size_t mark = rg_scope_begin();
    step(context);
    rg_scope_end(mark);
    me->recording = NULL;
    replay_settle(r);
    if (!r->failed && rg_error_code() == RG_OK)
        return r;
    rg_replay_free(r);
    return NULL;
}

bool rg_replay_run(rg_replay *r) {
    bool ok = r || rgi_fail(RG_RUNTIME_ERROR, "replay_run", "there is no recorded step");
    if (ok && rgi_this.recording)
        ok = rgi_not_again("replay_run");
    size_t mark = rg_scope_begin();
    for (size_t i = 0; ok && i < r->n; i++)
        ok = r->entries[i].run(r->entries[i].context);
    rg_scope_end(mark);
    return ok;
}

void rg_replay_free(rg_replay *r) {
    if (!r)
        return;
    for (size_t i = 0; i < r->n; i++) {
        if (r->entries[i].drop)
            r->entries[i].drop(r->entries[i].context);
        rgi_free(r->entries[i].context, r->entries[i].bytes, RG_MEM_OTHER);
    }
    for (size_t i = 0; i < r->n_held; i++)
        rgi_release(r->held[i]);
    rgi_free(r->entries, r->room * sizeof *r->entries, RG_MEM_OTHER);
    rgi_free(r->held, r->held_room * sizeof *r->held, RG_MEM_OTHER);
    rgi_free(r, sizeof *r, RG_MEM_OTHER);
}
