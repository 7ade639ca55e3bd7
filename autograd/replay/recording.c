/*
 * recording.c: the tensors of a recording. replay.c adds the entries, which are the operations of
 * the recorded step, and repeats them. plan.c plans the memory of outputs.
 *
 * The recording holds a reference to every tensor that an entry works on. Once this is the only
 * reference to a tensor, the program has released the tensor, and the recording releases the
 * tensor's storage. The recording looks for such tensors whenever a scope ends.
 */
#include "recording.h"
#include "tensor/memory.h"

/* ---- lists of pointers ------------------------------------------------------------- */

bool rgi_pointers_add(rg_replay *r, rg_pointers *list, void *it) {
    if (!rgi_grow((void **)&list->v, &list->room, list->n + 1, sizeof *list->v)) {
        r->failed = true;
        return false;
    }
    list->v[list->n++] = it;
    return true;
}

/* Returns the index of the pointer in the list, or the list's length if the pointer isn't in the
 * list. The search goes from the newest pointer to the oldest. */
static size_t pointers_find(const rg_pointers *list, const void *it) {
    for (size_t i = list->n; i-- > 0;)
        if (list->v[i] == it)
            return i;
    return list->n;
}

bool rgi_pointers_have(const rg_pointers *list, const void *it) {
    return pointers_find(list, it) < list->n;
}

void rgi_pointers_remove(rg_pointers *list, const void *it) {
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

/* ---- adding entries ---------------------------------------------------------------- */

bool rgi_recording_refuse(rg_replay *r, const char *op, const char *instead) {
    r->failed = true;
    return rgi_fail(RG_NOT_IMPLEMENTED, op,
                    "can't be part of a recorded step: a run could not do it again%s", instead);
}

bool rgi_recording_takes(rg_replay *r, const char *op, int n, rg_tensor *const t[]) {
    for (int i = 0; i < n; i++) {
        if (!t[i] || !rgi_is_widened((rg_dtype)t[i]->dtype))
            continue;
        r->failed = true;
        return rgi_fail(RG_NOT_IMPLEMENTED, op, "not implemented for '%s' in a recorded step",
                        rgi_scalar_name((rg_dtype)t[i]->dtype));
    }
    return true;
}

bool rgi_recording_refuse_constant(rg_replay *r, const char *op) {
    return rgi_recording_refuse(
        r, op,
        ", since a run doesn't make this tensor anew (rg_zeros, rg_full and rg_arange, for "
        "example, are called only once); change a clone of it (rg_clone)");
}

void *rgi_recording_note(rg_replay *r, const char *op, rg_redo *redo, void (*drop)(void *),
                         size_t bytes) {
    if (r->failed)
        return NULL;
    /* The recording counts as failed until the entry is added. */
    r->failed = true;
    void *context = rgi_alloc(bytes, RG_MEM_OTHER);
    if (!context)
        return NULL;
    if (!rgi_grow((void **)&r->entries, &r->entry_room, r->n_entries + 1, sizeof *r->entries)) {
        rgi_free(context, bytes, RG_MEM_OTHER);
        return NULL;
    }
    r->entries[r->n_entries++] = (rg_replay_entry){
        .op = op, .redo = redo, .drop = drop, .context = context, .bytes = bytes
    };
    r->failed = false;
    return context;
}

/* ---- the memory of outputs ------------------------------------------------------------ */

static bool is_planned(const rg_replay *r, const rg_storage *s) {
    return rgi_plan_has(&r->plan, s);
}

void rgi_recording_hold(rg_replay *r, rg_tensor *t) {
    if (!t || t == RG_NONE)
        return;
    const bool planned = rgi_plan_use(&r->plan, t->storage, r->n_entries);
    if (rgi_pointers_have(&r->live, t) || !rgi_pointers_add(r, &r->held, t))
        return;
    rgi_retain(t);
    if (planned)
        rgi_pointers_add(r, &r->live, t);
}

void rgi_recording_aliases(rg_replay *r, rg_tensor *t) {
    if (!is_planned(r, t->storage) && !rgi_recording_is_constant(r, t))
        rgi_recording_hold(r, t);
}

void rgi_recording_may_use_all(rg_replay *r) { rgi_plan_use_all(&r->plan, r->n_entries); }

/* Goes through the tensors with storages of the plan, and marks as released those that only the
 * recording still holds. When a tensor is released, its history and its base are released as well.
 * They may hold other tensors, which can be released only after that. Most of these tensors are
 * older, so the loop goes from the newest tensor to the oldest. Tensors that the loop misses are
 * found at the next call. */
void rgi_recording_reap(rg_replay *r) {
    if (!rgi_plan_make_room(&r->plan, r->live.n)) {
        r->failed = true;
        return;
    }
    rg_tensor **live = (rg_tensor **)r->live.v;
    size_t first = r->live.n;
    for (size_t i = r->live.n; i-- > 0;) {
        rg_tensor *t = live[i];
        if (t->refs > 1)
            live[--first] = t;
        else
            rgi_plan_release(&r->plan, t);
    }
    if (first > 0) {
        r->live.n -= first;
        memmove(live, live + first, r->live.n * sizeof *live);
    }
    rgi_plan_end_lives(&r->plan);
}

/* Adds a storage to the plan. Returns false if memory ran out. */
static bool plan_storage(rg_replay *r, rg_storage *s) {
    if (rgi_plan_add(&r->plan, s, r->n_entries, r->only_own_memory))
        return true;
    r->failed = true;
    return false;
}

/* A constant that was freed may have had the address of the new storage; therefore the address is
 * removed from the list of constants. */
bool rgi_recording_allocate(rg_replay *r, rg_tensor *t, size_t bytes) {
    rg_storage *s = rgi_alloc(RG_STORAGE_HEADER + bytes, RG_MEM_STORAGE);
    if (!s)
        return false;
    rgi_storage_begin(t, s, bytes);
    rgi_pointers_remove(&r->constants, s);
    if (!plan_storage(r, s))
        return false;
    rgi_recording_hold(r, t);
    return true;
}

/* If the step reads a gradient before it makes one, a repetition may read the gradient that the
 * previous repetition has made. That gradient is made by an entry after the read. If the gradient
 * shared memory with an output that is computed before the read, the repetition would write over
 * the gradient before reading it. Therefore outputs share no memory from now on. */
void rgi_recording_reads(rg_replay *r, const rg_tensor *grad) {
    if (!grad || !is_planned(r, grad->storage))
        r->only_own_memory = true;
}

/* ---- constants: tensors that the step uses, but doesn't compute ------------------- */

/* Adds the address of t's storage to the list of constants. The address may be there already, if
 * t's storage has the address of a constant that was freed. */
bool rgi_recording_adds_constant(rg_replay *r, const rg_tensor *t) {
    return rgi_recording_is_constant(r, t) || rgi_pointers_add(r, &r->constants, t->storage);
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
            return rgi_recording_refuse_constant(r, op);
    }
    rgi_pointers_remove(&r->constants, t->storage);
    return !rgi_fills_storage(t) || plan_storage(r, t->storage);
}

/* ---- outputs that the program holds -------------------------------------------------- */

void rgi_recording_counts_writes(const rg_replay *r) {
    for (size_t i = 0; i < r->live.n; i++)
        rgi_count_write(r->live.v[i], "replay_run");
}

void rgi_recording_renews_views(const rg_replay *r) {
    for (size_t i = 0; i < r->live.n; i++) {
        rg_tensor *t = r->live.v[i];
        if (t->flags & RG_VIEW)
            atomic_store_explicit(&t->version, t->storage->version, memory_order_release);
    }
}

/* Removes from the list `live` the views that were stale when the recording ended. Their bases have
 * been written to, so that each of these views gets a new history at its next use. */
static void leave_out_stale_views(rg_replay *r) {
    size_t n = 0;
    for (size_t i = 0; i < r->live.n; i++)
        if (!rgi_is_stale(r->live.v[i]))
            r->live.v[n++] = r->live.v[i];
    r->live.n = n;
}

/* ---- the end of a recording -------------------------------------------------------- */

const rg_node *rgi_tensor_leaf(const rg_tensor *t) {
    const rg_node *n = (const rg_node *)t->history;
    return n && !n->op ? n : NULL;
}

void rgi_recording_changes(rg_replay *r, rg_tensor *t) {
    for (size_t i = 0; i < r->n_changed; i++)
        if (r->changed[i].t == t)
            return;
    if (!rgi_grow((void **)&r->changed, &r->changed_room, r->n_changed + 1, sizeof *r->changed)) {
        r->failed = true;
        return;
    }
    /* The step has made t if the plan has t's storage and t isn't a leaf. A tensor without history
     * on which no entry works also counts as made by the step, because it may be new. */
    const bool before = t->history;
    const bool computed = is_planned(r, t->storage) && !(before && !rgi_node_of(t)->op);
    const bool used = rgi_pointers_have(&r->held, t) && !is_planned(r, t->storage);
    r->changed[r->n_changed++] = (rg_replay_change){ t, before, computed || (!before && !used) };
    rgi_recording_hold(r, t);
}

bool rgi_recording_made_leaf(const rg_replay *r, const rg_node *leaf) {
    for (size_t i = 0; i < r->n_changed; i++) {
        const rg_tensor *t = r->changed[i].t;
        if (rgi_tensor_leaf(t) == leaf)
            return is_planned(r, t->storage) || rgi_recording_is_constant(r, t);
    }
    return false;
}

bool rgi_recording_leaves_as_found(const rg_replay *r) {
    for (size_t i = 0; i < r->n_changed; i++) {
        const rg_replay_change *c = &r->changed[i];
        const bool now = c->t->history != NULL;
        RG_FAIL_IF(!c->made && c->before != now, "record",
                   "requires_grad of a tensor is %s at the beginning of the step, and %s at its "
                   "end; a repetition can't follow that: change it back within the step, or change "
                   "it outside",
                   c->before ? "true" : "false", now ? "true" : "false");
    }
    return true;
}

/* Frees an entry's context. */
static void end_entry(rg_replay_entry *e) {
    if (e->drop)
        e->drop(e->context);
    rgi_free(e->context, e->bytes, RG_MEM_OTHER);
}

/* Removes the entries that have no function `redo` any more. */
static void leave_out_empty_entries(rg_replay *r) {
    size_t n = 0;
    for (size_t i = 0; i < r->n_entries; i++)
        if (r->entries[i].redo)
            r->entries[n++] = r->entries[i];
        else
            end_entry(&r->entries[i]);
    r->n_entries = n;
}

/* Notes which of the held tensors are computed anew in each repetition. Tensors without a storage
 * are among them: they get parts of the planned memory. Returns false if memory ran out. */
static bool note_computed(rg_replay *r) {
    r->data = rgi_alloc(r->held.n * sizeof *r->data, RG_MEM_OTHER);
    for (size_t i = 0; r->data && i < r->held.n; i++) {
        const rg_tensor *t = r->held.v[i];
        r->data[i].computed = !t->storage || rgi_plan_computes(&r->plan, t->storage);
    }
    return r->data || !r->held.n;
}

/* Notes the storage, the dtype, the leaf and the strides of each held tensor. Before later
 * repetitions, the tensors are compared with these notes. Returns false if memory ran out. */
static bool note_data(rg_replay *r) {
    for (size_t i = 0; i < r->held.n; i++)
        r->n_strides += ((const rg_tensor *)r->held.v[i])->ndim;
    r->strides = rgi_alloc(r->n_strides * sizeof *r->strides, RG_MEM_OTHER);
    if ((!r->data && r->held.n) || (!r->strides && r->n_strides))
        return false;
    int64_t *stride = r->strides;
    for (size_t i = 0; i < r->held.n; i++) {
        const rg_tensor *t = r->held.v[i];
        r->data[i].storage = t->storage;
        r->data[i].dtype = (rg_dtype)t->dtype;
        r->data[i].leaf = rgi_tensor_leaf(t);
        r->data[i].tracked = t->history != NULL;
        memcpy(stride, t->stride, t->ndim * sizeof *stride);
        stride += t->ndim;
    }
    return true;
}

/* Returns the bytes of the constants that the recording holds, and frees the list of constants. */
static size_t constant_bytes(rg_replay *r) {
    size_t bytes = 0;
    for (size_t i = 0; i < r->held.n && r->constants.n; i++) {
        const rg_storage *s = ((const rg_tensor *)r->held.v[i])->storage;
        if (!rgi_pointers_have(&r->constants, s))
            continue;
        bytes += s->bytes;
        rgi_pointers_remove(&r->constants, s);
    }
    rgi_pointers_free(&r->constants);
    return bytes;
}

/* Forgets the modules that the step has freed. */
static void forget_freed_modules(rg_replay *r) {
    for (size_t i = r->called.n; i-- > 0;) {
        rg_hook_count *count = r->called.v[i];
        if (count->hooks >= 0)
            continue;
        rgi_pointers_remove(&r->called, count);
        rgi_hook_count_release(count);
    }
}

void rgi_recording_settle(rg_replay *r) {
    r->constant_bytes = constant_bytes(r);
    r->failed = !note_computed(r) || r->failed;
    r->failed = !rgi_plan_settle(&r->plan) || r->failed;
    r->changes = rgi_changes();
    r->failed = !note_data(r) || r->failed;
    for (size_t i = 0; i < r->n_leaves; i++)
        rgi_node_release(r->leaves[i].leaf);
    rgi_free(r->leaves, r->leaf_room * sizeof *r->leaves, RG_MEM_OTHER);
    rgi_free(r->changed, r->changed_room * sizeof *r->changed, RG_MEM_OTHER);
    leave_out_stale_views(r);
    leave_out_empty_entries(r);
    forget_freed_modules(r);
}

/* ---- the modules that the step calls ---------------------------------------------------- */

void rgi_recording_calls(rg_replay *r, rg_hook_list *hooks) {
    rg_hook_count *count = rgi_hook_count_of(hooks);
    if (!count)
        r->failed = true;
    else if (rgi_pointers_have(&r->called, count) || !rgi_pointers_add(r, &r->called, count))
        rgi_hook_count_release(count);
}

/* ---- the bytes of a recording, and its end ----------------------------------------- */

size_t rgi_recording_bytes(const rg_replay *r) {
    size_t bytes = r->plan.block_bytes + r->plan.own_bytes + r->constant_bytes + r->compiled_bytes;
    const rg_replay_entry *entries = r->uncompile ? r->original : r->entries;
    const size_t n_entries = r->uncompile ? r->n_original : r->n_entries;
    for (size_t i = 0; i < n_entries; i++)
        bytes += entries[i].bytes;
    bytes += r->entry_room * sizeof *r->entries + r->read_room * sizeof *r->reads;
    bytes += r->held.n * sizeof *r->data + r->n_strides * sizeof *r->strides;
    bytes += (r->called.room + r->live.room + r->held.room + r->read_again.room) * sizeof(void *);
    return bytes + r->plan.n_released * RG_HEADER_BYTES + sizeof *r;
}

void rgi_recording_free(rg_replay *r) {
    if (r->uncompile)
        r->uncompile(r);
    for (size_t i = 0; i < r->n_entries; i++)
        end_entry(&r->entries[i]);
    for (size_t i = 0; i < r->n_reads; i++) {
        rgi_release_as(r->reads[i].t, RG_REPLAY_FREED);
        rgi_release_as(r->reads[i].grad, RG_REPLAY_FREED);
    }
    rgi_free(r->reads, r->read_room * sizeof *r->reads, RG_MEM_OTHER);
    for (size_t i = 0; i < r->held.n; i++)
        rgi_release_as(r->held.v[i], RG_REPLAY_FREED);
    rgi_free(r->entries, r->entry_room * sizeof *r->entries, RG_MEM_OTHER);
    if (r->data)
        rgi_free(r->data, r->held.n * sizeof *r->data, RG_MEM_OTHER);
    if (r->strides)
        rgi_free(r->strides, r->n_strides * sizeof *r->strides, RG_MEM_OTHER);
    for (size_t i = 0; i < r->read_again.n; i++)
        rgi_release_as(r->read_again.v[i], RG_REPLAY_FREED);
    rgi_pointers_free(&r->read_again);
    for (size_t i = 0; i < r->called.n; i++)
        rgi_hook_count_release(r->called.v[i]);
    rgi_pointers_free(&r->called);
    rgi_pointers_free(&r->live);
    rgi_pointers_free(&r->held);
    rgi_free_handle(&r->handle, sizeof *r);
}
