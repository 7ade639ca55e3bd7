/*
 * sharded_optim.c: makes steps of an optimizer whose state is split among the ranks, gathers that
 * state on rank 0, and frees the parts of the state that other ranks own.
 */
#include "sharded_state.h"
#include "parts.h"
#include "autograd/ops/ops.h"
#include "nn/optim/optimizer_structs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the owners of parameters ---------------------------------------------------------- */

/* All parameters of the optimizer, group by group, as its state_dict numbers them, and for each the
 * rank that owns it. The scope owns the arrays. */
typedef struct {
    int n;
    rg_tensor **params;
    int64_t *owner;
} ownership;

static bool list_params(rg_optim *o, ownership *w) {
    const int groups = rg_optim_n_groups(o);
    if (groups < 0)
        return false;
    for (int i = 0; i < groups; i++) {
        const rg_list list = rg_optim_parameters(o, i);
        if (list.n < 0)
            return false;
        w->n += list.n;
    }
    w->params = rgi_scope_room((size_t)w->n * sizeof *w->params);
    w->owner = rgi_scope_room((size_t)w->n * sizeof *w->owner);
    int n = 0;
    for (int i = 0; w->params && w->owner && i < groups; i++) {
        const rg_list list = rg_optim_parameters(o, i);
        if (list.n < 0)
            return false;
        for (int k = 0; k < list.n; k++)
            w->params[n++] = list.v[k];
    }
    return w->params && w->owner;
}

/* Finds the owners. While the state is divided, each parameter keeps the owner that it has, and
 * parameters of new groups are divided among the ranks by themselves. Returns false on failure. */
static bool find_owners(rg_optim *o, ownership *w) {
    if (!list_params(o, w))
        return false;
    const int64_t ranks = rg_world_size();
    int64_t all = 0, before = 0;
    for (int i = 0; i < w->n; i++) {
        if (o->share == RG_STATE_OF_ALL)
            o->slots[i].owner = -1;
        all += o->slots[i].owner < 0 ? rg_numel(w->params[i]) : 0;
    }
    for (int i = 0; i < w->n; i++) {
        if (o->slots[i].owner < 0) {
            /* For empty parameters at the end of the list, `rank` is equal to `ranks`. */
            const int64_t rank = before * ranks / (all ? all : 1);
            o->slots[i].owner = rank < ranks ? rank : ranks - 1;
            before += rg_numel(w->params[i]);
        }
        w->owner[i] = o->slots[i].owner;
    }
    return true;
}

/* Fails if a recording contains a step of the optimizer. A run of the recording would update all
 * parameters, but the rank is about to have the state of its own parameters only. */
static bool isnt_recorded(const rg_optim *o, const char *op) {
    if (o->holders > 1 && rg_world_size() > 1)
        return rg_fail(RG_RUNTIME_ERROR, op,
                       "a recording has a step of this optimizer, which works on the state of all "
                       "parameters; free the recording first");
    return true;
}

/* ---- a step of the optimizer ----------------------------------------------------------- */

/* Sets the .grad of the parameters that other ranks own to RG_NONE, so that a step doesn't update
 * them. Keeps the gradients in `hidden`, from which show_gradients restores them. */
static bool hide_gradients(const ownership *w, rg_tensor **hidden) {
    for (int i = 0; i < w->n; i++) {
        if (w->owner[i] == rg_rank())
            continue;
        rg_tensor *gradient = rg_grad_of(w->params[i]);
        if (!gradient)
            return false;
        if (gradient == RG_NONE)
            continue;
        hidden[i] = rg_keep(gradient);
        if (!rg_set_grad(w->params[i], RG_NONE))
            return false;
    }
    return true;
}

static bool show_gradients(const ownership *w, rg_tensor **hidden) {
    bool ok = true;
    for (int i = 0; hidden && i < w->n; i++) {
        if (!hidden[i])
            continue;
        ok = rg_set_grad(w->params[i], hidden[i]) && ok;
        rg_drop(hidden[i]);
    }
    return ok;
}

/* Returns whether only parameters of other ranks have gradients. A step of this rank would change
 * nothing, and warn that there is no gradient. */
static bool others_have_all(const ownership *w, rg_tensor *const hidden[]) {
    bool any = false;
    for (int i = 0; i < w->n; i++) {
        any = any || hidden[i];
        if (rg_grad_of(w->params[i]) != RG_NONE)
            return false;
    }
    return any;
}

/* Updates the parameters that this rank owns. The gradients of all other parameters must be hidden.
 * Returns false on failure. */
static bool step_owned(rg_optim *o, const ownership *w, rg_tensor *const hidden[]) {
    o->share = RG_STATE_OF_ALL; /* Otherwise rg_optim_step fails. */
    const bool ok = others_have_all(w, hidden) || rg_optim_step(o);
    if (rg_world_size() > 1)
        o->share = RG_STATE_OF_OWNED;
    return ok;
}

/* Updates the parameters that this rank owns, sends them to the other ranks, and receives theirs.
 * If training is halted on this rank, the rank still takes part until all ranks know that it has
 * failed. Otherwise the other ranks would wait for it forever. */
static bool step_own_part(rg_optim *o) {
    static const char op[] = "sharded_optim_step";
    RG_SCOPE();
    RG_NO_GRAD();
    ownership w = { 0 };
    if (!rgi_group_given(op))
        return false;
    bool ok = !rg_training_halted() && find_owners(o, &w) && isnt_recorded(o, op);
    rg_tensor **hidden = ok ? rgi_scope_room((size_t)w.n * sizeof *hidden) : NULL;
    ok = hidden && hide_gradients(&w, hidden) && step_owned(o, &w, hidden);
    ok = show_gradients(&w, hidden) && ok;
    if (!rgi_all_ok(op, ok))
        return false;
    for (int i = 0; ok && i < w.n && rg_world_size() > 1; i++)
        ok = rg_broadcast_(w.params[i], (int)w.owner[i]);
    return ok;
}

bool rg_sharded_optim_step(rg_optim *o) { return step_own_part(o) || rg_halt_training(); }

/* ---- gathering and releasing the state ------------------------------------------------- */

/* Returns the rank that owns the parameter to which an entry of the state_dict belongs. Returns -1
 * if the entry belongs to no parameter. */
static int64_t owner_of_entry(const ownership *w, const char *name) {
    if (strncmp(name, "state.", 6) != 0)
        return -1;
    const int i = atoi(name + 6);
    return i < w->n ? w->owner[i] : -1;
}

/* Returns the entries of the state_dict for the parameters that this rank owns. If of_params_alone
 * is false, also returns the entries that belong to no parameter, such as options. The scope owns
 * the list. On failure .n is -1. */
static rg_named_list own_state(rg_optim *o, const ownership *w, bool of_params_alone) {
    const rg_named_list all = rg_optim_state_dict(o), failed = { .n = -1 };
    rg_named *v = all.n < 0 ? NULL : rgi_scope_room((size_t)all.n * sizeof *v);
    rg_named_list own = { 0, v };
    if (!v)
        return failed;
    for (int i = 0; i < all.n; i++) {
        const int64_t owner = owner_of_entry(w, all.v[i].name);
        if (owner == rg_rank() || (owner < 0 && !of_params_alone))
            v[own.n++] = all.v[i];
    }
    return own;
}

bool rg_sharded_optim_release(rg_optim *o) {
    static const char op[] = "sharded_optim_release";
    RG_SCOPE();
    ownership w = { 0 };
    if (!rgi_group_given(op) || !find_owners(o, &w) || !isnt_recorded(o, op))
        return false;
    const rg_named_list own = own_state(o, &w, false);
    if (own.n < 0 || !rg_optim_load_state_dict(o, own))
        return false;
    if (rg_world_size() > 1)
        o->share = RG_STATE_OF_OWNED;
    return true;
}

/* An entry of the state_dict without its tensor's elements. An entry is sent in two messages: this
 * header, and then the elements. */
typedef struct {
    char name[64];
    int64_t dtype;
    rg_dims shape;
} entry_header;

/* Sends an entry from rank src to all ranks. *entry is read on rank src and set on the others. */
static bool send_entry(int src, rg_named *entry, entry_header *header) {
    if (rg_rank() == src) {
        memset(header, 0, sizeof *header);
        snprintf(header->name, sizeof header->name, "%s", entry->name);
        header->dtype = rg_dtype_of(entry->tensor);
        header->shape = rg_shape(entry->tensor);
    }
    rgi_transport_broadcast(header, sizeof *header, 1, src);
    entry->name = header->name;
    if (rg_rank() != src)
        entry->tensor = rg_empty_dims(header->shape, (rg_dtype)header->dtype);
    return rg_broadcast_(entry->tensor, src);
}

/* Rank src sends its `entries` entries, which are at `own`, to all ranks. Rank 0 appends them to v
 * and adds their number to *n; the other ranks don't keep them. Returns false on failure. */
static bool take_entries(int src, int64_t entries, const rg_named *own, rg_named *v,
                         entry_header *headers, int64_t *n) {
    for (int64_t i = 0; i < entries; i++) {
        RG_SCOPE();
        rg_named entry = { 0 };
        if (rg_rank() == src)
            entry = own[i];
        if (!send_entry(src, &entry, &headers[*n]))
            return false;
        if (rg_rank() == 0)
            v[(*n)++] = (rg_named){ entry.name, rg_escape(entry.tensor) };
    }
    return true;
}

/* Adds up, for each parameter, the fingerprints of the entries of its state. `sums` has an element
 * for each parameter. */
static bool sum_fingerprints(rg_optim *o, const ownership *w, uint64_t sums[]) {
    const rg_named_list all = rg_optim_state_dict(o);
    for (int i = 0; i < all.n; i++) {
        if (owner_of_entry(w, all.v[i].name) < 0)
            continue;
        const uint64_t name = rgi_hash(1, all.v[i].name, strlen(all.v[i].name));
        sums[atoi(all.v[i].name + 6)] += rgi_fingerprint(name, all.v[i].tensor);
    }
    return all.n >= 0;
}

/* Compares the fingerprints of rank 0, `mine`, with those of the owners. Fails if rank 0 has no
 * state, or an older one, of a parameter whose owner has a state. */
static bool same_as_owners(const char *op, const ownership *w, const uint64_t mine[],
                           const int64_t owners[]) {
    for (int i = 0; rg_rank() == 0 && i < w->n; i++)
        if (owners[i] && (uint64_t)owners[i] != mine[i])
            return rg_fail(RG_RUNTIME_ERROR, op,
                           "rank 0 doesn't have the state that parameter %d has on rank %d: call "
                           "rg_sharded_optim_gather before saving",
                           i, (int)w->owner[i]);
    return true;
}

bool rgi_state_is_gathered(const char *op, rg_optim *o) {
    RG_SCOPE();
    RG_NO_GRAD();
    ownership w = { 0 };
    uint64_t *mine = find_owners(o, &w) ? rgi_scope_room((size_t)w.n * sizeof *mine) : NULL;
    const bool ok = mine && sum_fingerprints(o, &w, mine);
    rg_tensor *owners = ok ? rg_zeros_dims(RG_DIMS(w.n), RG_INT64) : NULL;
    int64_t *v = owners ? rg_data(owners) : NULL;
    for (int i = 0; v && i < w.n; i++)
        v[i] = w.owner[i] == rg_rank() ? (int64_t)mine[i] : 0;
    if (!rg_all_reduce_(owners))
        return false;
    return rgi_all_ok(op, same_as_owners(op, &w, mine, rg_data(owners)));
}

bool rg_sharded_optim_gather(rg_optim *o) {
    static const char op[] = "sharded_optim_gather";
    RG_SCOPE();
    RG_NO_GRAD();
    ownership w = { 0 };
    if (!rgi_group_given(op))
        return false;
    const int size = rg_world_size();
    rg_named_list own = { .n = -1 };
    if (find_owners(o, &w) && isnt_recorded(o, op))
        own = own_state(o, &w, rg_rank() != 0);
    rg_tensor *counts = own.n < 0 ? NULL : rg_zeros_dims(RG_DIMS(size), RG_INT64);
    int64_t *count = counts ? rg_data(counts) : NULL;
    if (count)
        count[rg_rank()] = own.n;
    if (!rg_all_reduce_(counts))
        return false;
    const int64_t *entries = rg_data(counts);
    size_t most = 0;
    for (int i = 0; i < size; i++)
        most += (size_t)entries[i];
    rg_named *v = rgi_scope_room(most * sizeof *v);
    entry_header *headers = rgi_scope_room(most * sizeof *headers);
    if (!rgi_all_ok(op, v && headers))
        return false;
    int64_t n = 0;
    bool ok = true;
    for (; rg_rank() == 0 && n < own.n; n++)
        v[n] = own.v[n];
    for (int src = 1; ok && src < size; src++)
        ok = take_entries(src, entries[src], own.v, v, headers, &n);
    if (ok && rg_rank() == 0) {
        ok = rg_optim_load_state_dict(o, (rg_named_list){ (int)n, v });
        if (ok && o->share == RG_STATE_OF_OWNED)
            o->share = RG_STATE_GATHERED;
    }
    return rgi_all_ok(op, ok);
}
