/*
 * leaf_entries.c: the part of the recorder that sees gradients of leaves: the entries that make,
 * add to and remove them, and the checks of the gradients that a repetition finds. The recorder
 * itself is in replay.c.
 */
#include "recording.h"

/* The entry of a leaf's gradient. If `sum` is NULL, a repetition makes g the leaf's gradient, or
 * removes the gradient if g is NULL. If `sum` isn't NULL, the step adds g to the leaf's gradient,
 * whichever tensor that is in a repetition. If there is none, the repetition copies g into `sum`,
 * and makes `sum` the leaf's gradient. */
typedef struct {
    rg_node *leaf;
    rg_tensor *g, *sum;
    /* True if the step adds g to the gradient that it finds at its beginning. */
    bool first;
    /* True if the step reads the sum later. Entries may then work on the tensor `sum`, so this
     * tensor becomes the leaf's gradient in any case. */
    bool read;
    /* True if `sum` was the leaf's gradient before the step was recorded. A call of the step would
     * not write to it any more once the program has removed it from the leaf. */
    bool found;
    /* True if the program had set that gradient, and used it elsewhere, too. */
    bool shared;
    /* The tensor that has taken the place of such a sum, or NULL. */
    rg_tensor *renewed;
} noted_leaf;

static void drop_leaf(void *context) {
    noted_leaf *n = context;
    rgi_release_as(n->renewed, RG_REPLAY_FREED);
    rgi_node_release(n->leaf);
}

/* Puts a new tensor in the place of n->sum. Returns false if memory ran out. */
static bool renew_sum(noted_leaf *n) {
    n->renewed = rgi_new_dense_like(n->g, (rg_dtype)n->g->dtype);
    if (!n->renewed)
        return false;
    n->sum = n->renewed;
    n->found = false;
    return true;
}

static bool leaf_again(void *context) {
    noted_leaf *n = context;
    rg_tensor **grad = &n->leaf->grad;
    const bool adds = n->sum && *grad;
    if (n->found && !*grad && !n->read && !renew_sum(n))
        return false;
    rg_tensor *now = n->sum ? n->sum : n->g;
    if (adds && !n->read)
        now = *grad;
    if (adds)
        k_run(k_add, now, *grad, n->g);
    else if (n->sum)
        rgi_copy_elements(now, n->g);
    if (n->sum)
        rgi_count_write(now, "backward");
    if (adds)
        rgi_gradient_was_added_to(now);
    if (*grad == now)
        return true;
    if (now)
        rgi_retain(now);
    rgi_release(*grad);
    *grad = now;
    return true;
}

/* ---- leaves whose gradients the step changes ------------------------------------------ */

/* Returns the leaf's element in r->leaves, or NULL if the step hasn't changed the leaf's gradient
 * up to now. */
static rg_replay_leaf *known_leaf(const rg_replay *r, const rg_node *leaf) {
    for (size_t i = 0; i < r->n_leaves; i++)
        if (r->leaves[i].leaf == leaf)
            return &r->leaves[i];
    return NULL;
}

/* Notes that the step sets the leaf's gradient or, if not `made`, removes it. The next entry
 * repeats this. */
static void note_leaf_change(rg_replay *r, rg_node *leaf, bool made) {
    rg_replay_leaf *known = known_leaf(r, leaf);
    if (known) {
        known->made = made;
        known->removal = r->n_entries;
        return;
    }
    if (!rgi_grow((void **)&r->leaves, &r->leaf_room, r->n_leaves + 1, sizeof *r->leaves)) {
        r->failed = true;
        return;
    }
    rgi_node_retain(leaf);
    r->leaves[r->n_leaves++] = (rg_replay_leaf){ leaf, made, r->n_entries };
}

/* Returns whether the program has set the leaf's gradient, and still uses it or its memory
 * elsewhere. */
static bool is_shared(const rg_node *leaf) {
    return leaf->given && (leaf->grad->refs > 1 || leaf->grad->storage->refs > 1);
}

/* Sets n->sum. It is the leaf's gradient or, if there is none, a new tensor with g's values. It
 * stays NULL if memory ran out. */
static void find_sum(rg_replay *r, noted_leaf *n) {
    rg_tensor *found = n->leaf->grad, *g = n->g;
    n->sum = found ? found : rgi_own(rgi_new_dense_like(g, (rg_dtype)g->dtype));
    if (!n->sum)
        return;
    n->found = found && n->first;
    n->shared = n->found && is_shared(n->leaf);
    if (!found) {
        rgi_copy_elements(n->sum, g);
        rgi_recording_makes_anew(r, n->sum, "backward");
    }
    rgi_recording_hold(r, n->sum);
}

/* Adds an entry that makes g the leaf's gradient, or removes the gradient if g is NULL. Returns the
 * entry's context, or NULL if the recording has failed. */
static noted_leaf *note_leaf(rg_replay *r, rg_node *leaf, rg_tensor *g) {
    noted_leaf *n = rgi_recording_note(r, leaf_again, drop_leaf, sizeof *n);
    if (!n)
        return NULL;
    *n = (noted_leaf){ .leaf = leaf, .g = g };
    rgi_node_retain(leaf);
    rgi_recording_hold(r, g);
    return n;
}

/* Adds an entry for a change of the leaf's gradient: g is set or added or, if g is NULL, the
 * gradient is removed. Returns the tensor that the caller uses in place of g, or NULL if g is NULL
 * or the recording has failed. An entry that removes the gradient is added even if the leaf has
 * none now, since a later repetition may find one. It is left out again if the step makes a new
 * gradient before an operation reads gradients: the new one replaces the old. If the leaf is frozen
 * or released, g isn't used: returns g and adds no entry. */
rg_tensor *rgi_recorder_gradient(rg_graph_observer *o, rg_node *leaf, rg_tensor *g) {
    rg_replay *r = rgi_recording_of(o);
    if (g && !rgi_leaf_is_open(leaf))
        return g;
    const rg_replay_leaf *known = known_leaf(r, leaf);
    const bool was_known = known;
    bool was_taken_away = known && !known->made;
    if (!g && (was_taken_away || leaf->op))
        return NULL;
    if (was_taken_away && known->removal >= r->up_to_operation)
        r->entries[known->removal].redo = NULL;
    note_leaf_change(r, leaf, g != NULL);
    noted_leaf *n = note_leaf(r, leaf, g);
    if (!n || !g)
        return NULL;
    if (was_taken_away || (!was_known && rgi_recording_made_leaf(r, leaf)))
        return g;
    n->first = !was_known;
    bool new_sum = !leaf->grad;
    find_sum(r, n);
    return new_sum ? n->sum : g;
}

/* ---- gradients that the step reads ----------------------------------------------------- */

/* Notes that t's gradient at the beginning of the step is `grad` (NULL: t has none), and that it
 * must be the same in each repetition. Does nothing if the step has made t. */
static void expect(rg_replay *r, rg_tensor *t, rg_tensor *grad) {
    if (rgi_pointers_have(&r->pool, t->storage) || rgi_recording_is_constant(r, t))
        return;
    for (size_t i = 0; i < r->n_reads; i++)
        if (r->reads[i].t == t)
            return;
    if (!rgi_grow((void **)&r->reads, &r->read_room, r->n_reads + 1, sizeof *r->reads)) {
        r->failed = true;
        return;
    }
    rgi_retain(t);
    if (grad)
        rgi_retain(grad);
    r->reads[r->n_reads++] = (rg_replay_read){ t, grad };
}

/* Returns the leaf's entry at e, or NULL if the entry is another one. */
static noted_leaf *entry_of_leaf(const rg_replay_entry *e, const rg_node *leaf) {
    noted_leaf *n = e->redo == leaf_again ? e->context : NULL;
    return n && n->leaf == leaf ? n : NULL;
}

/* If the step reads a gradient that it has made, entries may work on that tensor, and so on the
 * gradient that the leaf had before. If that is used elsewhere, too, it must still be the leaf's
 * gradient in each repetition. */
void rgi_recorder_read_gradient(rg_graph_observer *o, rg_tensor *t, rg_tensor *grad, bool again) {
    rg_replay *r = rgi_recording_of(o);
    const rg_node *leaf = rgi_leaf_of(t);
    if (leaf || grad)
        rgi_recording_reads(r, grad);
    if (again)
        return;
    if (!leaf || !known_leaf(r, leaf)) {
        expect(r, t, grad);
        return;
    }
    for (size_t i = 0; i < r->n_entries; i++) {
        noted_leaf *n = entry_of_leaf(&r->entries[i], leaf);
        if (!n)
            continue;
        n->read = true;
        if (n->shared)
            expect(r, t, n->sum);
    }
}

bool rgi_recording_finds_gradients(const rg_replay *r) {
    for (size_t i = 0; i < r->n_reads; i++) {
        const rg_replay_read *read = &r->reads[i];
        rg_tensor *const *place = rgi_grad_place(read->t);
        const rg_tensor *now = place ? *place : NULL;
        const char *if_present = read->grad ? "another" : "there";
        RG_FAIL_IF(now != read->grad, "replay_run",
                   "a gradient that was %s when the step was recorded is %s now; record the step "
                   "again",
                   read->grad ? "there" : "absent", now ? if_present : "absent");
    }
    return true;
}

/* ---- gradients that the program gives to leaves after the recording ---------------------- */

static bool uses_memory_of(const rg_replay *r, const rg_tensor *t) {
    for (size_t i = 0; i < r->held.n; i++)
        if (((const rg_tensor *)r->held.v[i])->storage == t->storage)
            return true;
    return false;
}

/* A repetition writes over the memory of the recording at other times than the step would write to
 * a gradient that lies there. If entries work on the tensor `sum`, the repetition doesn't add to
 * the given gradient itself, which the program would notice if it uses that gradient elsewhere. */
bool rgi_recording_suits_gradients(const rg_replay *r) {
    for (size_t i = 0; i < r->n_entries; i++) {
        const noted_leaf *n = r->entries[i].redo == leaf_again ? r->entries[i].context : NULL;
        const rg_tensor *given = n && n->first ? n->leaf->grad : NULL;
        if (!given || given == n->sum)
            continue;
        RG_FAIL_IF(uses_memory_of(r, given), "replay_run",
                   "a gradient that was set since the step was recorded shares memory with a "
                   "tensor of the step; set a clone, or record the step again");
        RG_FAIL_IF(n->read && is_shared(n->leaf), "replay_run",
                   "a gradient that was set since the step was recorded is used elsewhere, too, "
                   "and the step doesn't only add to it, but also reads it; copy it into the "
                   "gradient that the step has made (rg_copy_), or record the step again");
    }
    return true;
}
