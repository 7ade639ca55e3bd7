/*
 * replay.c: a step that is recorded once runs again as the list of what it did, on
 * the tensors that it did it to: no dispatch, no memory, the same bits. Whoever does
 * what a run must do again notes it (rg_note); what can't be done again is refused.
 */
#include "internal.h"

typedef struct { rg_again *run, *drop; void *context; size_t bytes; } replay_entry;

static _Atomic uint64_t last_recording;

struct rg_replay {
    uint64_t      id;
    replay_entry *entries;
    size_t        n, room;
    rg_tensor   **held;                                 /* what entries work on; and what rg_new made, in order */
    size_t        n_held, held_room;
    bool          failed;
};

void rg_hold(rg_tensor *t) {
    rg_replay *r = rg_this.recording;
    if (!t || t == RG_NONE || r->failed) return;
    r->failed = !rg_grow((void **)&r->held, &r->held_room, r->n_held + 1, sizeof *r->held);
    if (!r->failed) rg_retain(r->held[r->n_held++] = t);
}

bool rg_is_held(const rg_tensor *t) {
    const rg_replay *r = rg_this.recording;
    size_t i = r->n_held;
    while (i > 0 && r->held[i - 1]->storage != t->storage) i--;
    return i > 0;
}

size_t rg_held(void) { return rg_this.recording->n_held; }
uint64_t rg_recording_id(void) { return rg_this.recording->id; }

void *rg_note(rg_again *run, rg_again *drop, size_t bytes) {
    rg_replay *r = rg_this.recording;
    if (r->failed) return NULL;
    void *context = rg_alloc(bytes, RG_MEM_OTHER);
    r->failed = !context || !rg_grow((void **)&r->entries, &r->room, r->n + 1, sizeof *r->entries);
    if (!r->failed) return r->entries[r->n++] = (replay_entry){ run, drop, context, bytes }, context;
    if (context) rg_free(context, bytes, RG_MEM_OTHER);
    return NULL;
}

bool rg_not_again(const char *op) {
    if (!rg_this.recording || rg_this.inside) return true;
    rg_this.recording->failed = true;
    return rg_fail(RG_NOT_IMPLEMENTED, op, "can't be part of a recorded step: a run could not do it again");
}

typedef struct { rg_tensor *to, *from; } noted_copy;

static bool copy_again(rg_replay *r, void *context) {
    noted_copy *c = context;
    (void)r;
    if (c->from) rg_copy_elements(c->to, c->from);
    else rg_fill_zero(c->to);
    return true;
}

void rg_note_copy(rg_tensor *to, rg_tensor *from) {
    noted_copy *c = rg_note(copy_again, NULL, sizeof *c);
    if (c) *c = (noted_copy){ to, from };
    rg_hold(to);
    rg_hold(from);
}

/* ---- recording and running -------------------------------------------------------------- */
rg_replay *rg_record(void (*step)(void *context), void *context) {
    rg_thread *me = rg_thread_get();
    rg_replay *r;
    if (!step || me->recording)
        return rg_fail(RG_RUNTIME_ERROR, "record", step ? "a step is being recorded already" : "there is no step");
    if (!(r = rg_alloc(sizeof *r, RG_MEM_OTHER))) return NULL;
    *r = (rg_replay){ .id = atomic_fetch_add(&last_recording, 1) + 1 };
    rg_error_clear();
    me->recording = r;
    size_t mark = rg_scope_begin();
    step(context);
    rg_scope_end(mark);
    me->recording = NULL;
    if (!r->failed && rg_error_code() == RG_OK) return r;
    rg_replay_free(r);
    return NULL;
}

bool rg_replay_run(rg_replay *r) {
    bool ok = r || rg_fail(RG_RUNTIME_ERROR, "replay_run", "there is no recorded step");
    if (ok && rg_this.recording) ok = rg_not_again("replay_run");
    size_t mark = rg_scope_begin();
    for (size_t i = 0; ok && i < r->n; i++) ok = r->entries[i].run(r, r->entries[i].context);
    rg_scope_end(mark);
    return ok;
}

/* rg_new gives what it gave then, from held[first] on. */
void rg_again_from(rg_replay *r, size_t first) {
    rg_this.again = r ? r->held + first : NULL;
    rg_this.again_end = r ? r->held + r->n_held : NULL;
}

void rg_replay_free(rg_replay *r) {
    if (!r) return;
    for (size_t i = 0; i < r->n; i++) {
        if (r->entries[i].drop) r->entries[i].drop(r, r->entries[i].context);
        rg_free(r->entries[i].context, r->entries[i].bytes, RG_MEM_OTHER);
    }
    for (size_t i = 0; i < r->n_held; i++) rg_release(r->held[i]);
    rg_free(r->entries, r->room * sizeof *r->entries, RG_MEM_OTHER);
    rg_free(r->held, r->held_room * sizeof *r->held, RG_MEM_OTHER);
    rg_free(r, sizeof *r, RG_MEM_OTHER);
}
