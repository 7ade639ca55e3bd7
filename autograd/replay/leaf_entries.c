/*
 * leaf_entries.c: the part of the recorder that handles gradients of leaves. It adds the entries
 * that set, add to and remove these gradients, and checks the gradients that a repetition finds. An
 * entry is an operation of the recorded step, and a repetition of the step carries out all entries.
 * The rest of the recorder is in replay.c.
 */
#include "recording.h"
#include "tensor/memory.h"

/* The context of an entry that changes a leaf's gradient. If `sum` is NULL, a repetition makes g
 * the leaf's gradient, or removes the gradient if g is NULL. If `sum` isn't NULL, a repetition adds
 * g to the gradient that the leaf has then. If the leaf has none then, the repetition copies g into
 * `sum`, and makes `sum` the leaf's gradient. */
typedef struct {
    rg_node *leaf;
    rg_tensor *g, *sum;
    /* True if this is the step's first change of the leaf's gradient: the step adds g to the
     * gradient that the leaf had before the step, if it had one. */
    bool first;
    /* True if the step reads the leaf's gradient after this change. Entries may then work on the
     * tensor `sum`. Therefore a repetition always writes the new gradient to this tensor, and makes
     * it the leaf's gradient. */
    bool read;
    /* True if `sum` was the leaf's gradient before the step was recorded. If the program has since
     * removed this gradient, a call of the step wouldn't write to it. So a repetition doesn't write
     * to it either, but takes a new tensor (renew_sum), unless `read` is true. */
    bool found;
    /* True if `sum` was made for this entry, since the leaf had no gradient. */
    bool made;
    /* True if `found` is true, and the program had set that gradient (rg_set_grad) and also used
     * the tensor or its memory elsewhere. */
    bool shared;
    /* The tensor that renew_sum has put in the place of `sum`, or NULL. */
    rg_tensor *renewed;
} noted_leaf;

static void drop_leaf(void *context) {
    noted_leaf *n = context;
    rgi_release_as(n->renewed, RG_REPLAY_FREED);
    rgi_node_release(n->leaf);
}

/* Returns whether a repetition takes a new tensor in place of n->sum when the leaf has no gradient:
 * the old one was there before the step, or another tensor has got its memory (rg_set_data). */
static bool must_renew_sum(const noted_leaf *n) {
    return !n->read && (n->found || (n->renewed && n->renewed->storage->refs > 1));
}

/* Replaces n->sum by a new tensor, whose elements aren't set. Returns false if memory ran out. */
static bool renew_sum(noted_leaf *n) {
    rg_tensor *made = rgi_new_dense_like(n->g, (rg_dtype)n->g->dtype);
    if (!made)
        return false;
    rgi_release(n->renewed);
    n->renewed = made;
    n->sum = made;
    n->found = false;
    return true;
}

static bool leaf_again(void *context) {
    noted_leaf *n = context;
    rg_tensor **grad = &n->leaf->grad;
    const bool adds = n->sum && *grad;
    if (n->sum && !*grad && must_renew_sum(n) && !renew_sum(n))
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
    else if (now)
        now->storage->stepped = 0; /* No optimizer's step has used the new gradient. */
    if (*grad == now)
        return true;
    if (now)
        rgi_retain(now);
    rgi_release(*grad);
    *grad = now;
    return true;
}

/* Returns the entry's context if it changes a leaf's gradient, and NULL otherwise. */
static noted_leaf *leaf_change_of(const rg_replay_entry *e) {
    return e->redo == leaf_again ? e->context : NULL;
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

/* Notes in r->leaves that the step sets the leaf's gradient (`made` is true) or removes it. The
 * next entry that the caller adds must repeat this change. If memory runs out, the recording
 * fails. */
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

/* Returns whether the program has set the leaf's gradient (rg_set_grad), and something besides the
 * leaf still refers to that tensor or to its memory. Requires that the leaf has a gradient. */
static bool is_shared(const rg_node *leaf) {
    return leaf->given && (leaf->grad->refs > 1 || leaf->grad->storage->refs > 1);
}

/* Sets n->sum to the leaf's gradient or, if there is none, to a new tensor with g's values. Also
 * sets n->found and n->shared. If memory ran out, n->sum stays NULL. */
static void find_sum(rg_replay *r, noted_leaf *n) {
    rg_tensor *found = n->leaf->grad, *g = n->g;
    n->sum = found ? found : rgi_own(rgi_new_dense_like(g, (rg_dtype)g->dtype));
    if (!n->sum)
        return;
    n->found = found && n->first;
    n->shared = n->found && is_shared(n->leaf);
    n->made = !found;
    if (n->made) {
        rgi_copy_elements(n->sum, g);
        rgi_recording_makes_anew(r, n->sum, "backward");
        rgi_plan_keep_alone(&r->plan, n->sum->storage);
    }
    rgi_recording_hold(r, n->sum);
}

/* Adds an entry that makes g the leaf's gradient, or removes the gradient if g is NULL. Returns the
 * entry's context, or NULL if the recording has failed. */
static noted_leaf *note_leaf(rg_replay *r, rg_node *leaf, rg_tensor *g) {
    noted_leaf *n = rgi_recording_note(r, "backward", leaf_again, drop_leaf, sizeof *n);
    if (!n)
        return NULL;
    *n = (noted_leaf){ .leaf = leaf, .g = g };
    rgi_node_retain(leaf);
    rgi_recording_hold(r, g);
    return n;
}

/* Adds an entry for a change of the leaf's gradient. The change sets or adds g or, if g is NULL,
 * removes the gradient. Returns the tensor that the caller uses in place of g. Returns NULL if g is
 * NULL or the recording has failed. A removal gets an entry even if the leaf has no gradient now,
 * since a repetition may find one. If the step has removed the gradient already, a second removal
 * gets no entry. If the step makes a new gradient after a removal, and no operation reads gradients
 * in between, the removal's entry is left out: the new gradient replaces the old one in any case.
 * If the leaf is frozen or released, g won't become a gradient. Then g is returned, and no entry is
 * added. */
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

/* Returns whether the step has made t. */
static bool is_of_step(const rg_replay *r, const rg_tensor *t) {
    return rgi_plan_has(&r->plan, t->storage) || rgi_recording_is_constant(r, t);
}

/* Notes that t has the gradient `grad` at the beginning of the step (NULL: t has none), and that t
 * must have the same gradient before each repetition. Does nothing if the step has made t. */
static void expect(rg_replay *r, rg_tensor *t, rg_tensor *grad) {
    if (is_of_step(r, t))
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

/* Notes that an operation of the step reads t's gradient again in each repetition, before the step
 * changes it. Does nothing if the step has made t. */
static void note_read_again(rg_replay *r, rg_tensor *t) {
    if (is_of_step(r, t) || rgi_pointers_have(&r->read_again, t))
        return;
    if (rgi_pointers_add(r, &r->read_again, t))
        rgi_retain(t);
}

/* Notes that the step reads t's gradient. If the step hasn't changed this gradient before, t must
 * have the same gradient before each repetition, unless the reader finds the gradient itself
 * (`again`, which rg_graph_observer explains). If the step has added to it, entries may work on the
 * tensor `sum`. If `sum` is a gradient that the program set and also uses elsewhere (`shared`), it
 * must be t's gradient before each repetition. */
void rgi_recorder_read_gradient(rg_graph_observer *o, rg_tensor *t, rg_tensor *grad, bool again) {
    rg_replay *r = rgi_recording_of(o);
    const rg_node *leaf = rgi_leaf_of(t);
    if (leaf || grad)
        rgi_recording_reads(r, grad);
    const bool known = leaf && known_leaf(r, leaf);
    if (again && !known)
        note_read_again(r, t);
    else if (!known)
        expect(r, t, grad);
    if (again || !known)
        return;
    for (size_t i = 0; i < r->n_entries; i++) {
        noted_leaf *n = leaf_change_of(&r->entries[i]);
        if (!n || n->leaf != leaf)
            continue;
        n->read = true;
        if (n->shared)
            expect(r, t, n->sum);
    }
}

void rgi_recording_leaves_out_sums(rg_replay *r) {
    for (size_t i = 0; i < r->n_entries; i++) {
        const noted_leaf *n = leaf_change_of(&r->entries[i]);
        if (n && n->made)
            rgi_pointers_remove(&r->live, n->sum);
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

/* Returns whether the leaf has a gradient after the step. Requires that the step changes it. */
static bool leaves_gradient(const rg_replay *r, const rg_node *leaf) {
    bool leaves = false;
    for (size_t i = 0; i < r->n_entries; i++) {
        const noted_leaf *n = leaf_change_of(&r->entries[i]);
        if (n && n->leaf == leaf)
            leaves = n->g;
    }
    return leaves;
}

bool rgi_recording_knows_gradients(const rg_replay *r, const char *op) {
    for (size_t i = 0; i < r->n_entries; i++) {
        const noted_leaf *n = leaf_change_of(&r->entries[i]);
        if (!n || !n->first || n->leaf->grad == n->sum)
            continue;
        RG_FAIL_IF(n->leaf->grad, op,
                   "the step adds to a gradient that the program has set since the step was "
                   "recorded; remove it first, or record the step again");
        RG_FAIL_IF(leaves_gradient(r, n->leaf), op,
                   "the step adds to a gradient that the program has removed; run the step first");
    }
    return true;
}

rg_tensor **rgi_recording_takes_gradients(const rg_replay *r) {
    rg_tensor **grads = rgi_alloc((r->n_entries + 1) * sizeof *grads, RG_MEM_OTHER);
    for (size_t i = 0; grads && i < r->n_entries; i++) {
        const noted_leaf *n = leaf_change_of(&r->entries[i]);
        grads[i] = n ? n->leaf->grad : NULL;
        if (grads[i])
            rgi_retain(grads[i]);
    }
    return grads;
}

void rgi_recording_puts_gradients_back(const rg_replay *r, rg_tensor **grads) {
    for (size_t i = 0; i < r->n_entries; i++) {
        const noted_leaf *n = leaf_change_of(&r->entries[i]);
        if (!n)
            continue;
        rgi_release(n->leaf->grad);
        n->leaf->grad = grads[i];
    }
    rgi_free(grads, (r->n_entries + 1) * sizeof *grads, RG_MEM_OTHER);
}

/* ---- gradients that the program gives to leaves after the recording ---------------------- */

static bool uses_memory_of(const rg_replay *r, const rg_tensor *t) {
    for (size_t i = 0; i < r->held.n; i++)
        if (((const rg_tensor *)r->held.v[i])->storage == t->storage)
            return true;
    return false;
}

/* Returns whether the leaf's gradient is one that the step has made for it. */
static bool has_gradient_of_step(const rg_replay *r, const rg_node *leaf) {
    for (size_t i = 0; i < r->n_entries; i++) {
        const noted_leaf *n = leaf_change_of(&r->entries[i]);
        if (n && n->leaf == leaf && (n->g == leaf->grad || n->sum == leaf->grad))
            return true;
    }
    return false;
}

/* Fails if an operation such as an optimizer's step works on a gradient or on data that the program
 * has set, and that share memory with a result of the step: a run writes over the result first. */
static bool suits_operations(const rg_replay *r) {
    for (size_t i = 0; i < r->read_again.n; i++) {
        const rg_tensor *t = r->read_again.v[i];
        const rg_node *leaf = rgi_leaf_of(t);
        const bool given = leaf && leaf->given && leaf->grad
                           && rgi_recording_computes(r, leaf->grad->storage)
                           && !has_gradient_of_step(r, leaf);
        RG_FAIL_IF(given || rgi_recording_computes(r, t->storage), "replay_run",
                   "a tensor has been given a gradient or data that it shares with a result of the "
                   "step, and a run writes over results; give it a clone, or record the step "
                   "again");
    }
    return true;
}

/* Checks the gradients that the program has set since the step was recorded and that the step adds
 * to. Two kinds are refused. The first is a gradient in memory of a tensor that the recording
 * holds. A repetition writes over this memory at other times than a call of the step would. The
 * second is a gradient that the program also uses elsewhere, if the step reads the sum. A
 * repetition writes the sum to the tensor `sum`. A call would write it to the gradient that was
 * set, where the program would see it. */
bool rgi_recording_suits_gradients(const rg_replay *r) {
    for (size_t i = 0; i < r->n_entries; i++) {
        const noted_leaf *n = leaf_change_of(&r->entries[i]);
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
    return suits_operations(r);
}
