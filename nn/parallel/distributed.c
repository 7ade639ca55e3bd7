/*
 * distributed.c: the module that trains on all ranks: its constructor and its forward. parts.c cuts
 * batches, and reducer.c sums the gradients.
 */
#include "parts.h"
#include "autograd/ops/ops.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char distributed_name[] = "distributed";

/* ---- random streams of the shards ------------------------------------------------------ */

/* Returns a hash of x (the mixing function of splitmix64). Seeds are hashed, so that the random
 * streams of consecutive seeds are unrelated. */
static uint64_t mixed(uint64_t x) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* Draws the seed of this batch's random streams, unless it has been drawn already. It is drawn only
 * once for each batch, so that the generators of all ranks stay in the same state. */
static bool draw_stream(rg_reducer *s) {
    if (s->drawn)
        return true;
    rg_tensor *number = rg_randint(0, INT64_MAX, 1);
    if (!number)
        return false;
    s->stream = (uint64_t)rg_item_int(number);
    s->drawn = true;
    return true;
}

/* ---- checks before a forward ----------------------------------------------------------- */

/* Fails if a parameter that requires grad has no entry in the reducer, because a layer was added or
 * replaced, or a parameter was unfrozen: its gradient wouldn't be summed. */
static bool check_parameters(const rg_distributed *d) {
    RG_SCOPE();
    const rg_reducer *s = d->reducer;
    const rg_list all = rg_parameters(d->module);
    int entry = 0;
    for (int i = 0; i < all.n; i++) {
        if (!rg_requires_grad(all.v[i]))
            continue;
        while (entry < s->n_parameters && s->v[entry].leaf != all.v[i])
            entry++;
        if (entry == s->n_parameters)
            return rg_fail(RG_RUNTIME_ERROR, distributed_name,
                           "the model has parameters that weren't there, or didn't require grad, "
                           "when rg_nn_distributed was called, so that their gradients wouldn't be "
                           "summed: change a model before rg_nn_distributed");
    }
    return all.n >= 0;
}

/* Fails if an earlier forward of this batch had no backward run. Two signs tell so: the program has
 * taken another part since that forward, or has changed parameters in the middle of the batch. */
static bool check_earlier_forward(rg_distributed *d) {
    rg_reducer *s = d->reducer;
    const bool begins = s->turn == 0 && !s->armed;
    bool changed = false;
    for (int i = 0; i < s->n_parameters; i++) {
        if (begins)
            s->v[i].version = rg_version(s->v[i].leaf);
        changed = changed || s->v[i].version != rg_version(s->v[i].leaf);
    }
    if (!changed && !(s->armed && s->parts.since_forward))
        return true;
    return rg_fail(RG_RUNTIME_ERROR, distributed_name,
                   "a shard had a forward but no backward run that reached the parameters: give "
                   "each shard one, if need be of a loss times 0; call the module under RG_NO_GRAD "
                   "if there is none; and take all parts of a shard before a second forward%s",
                   changed ? " (the parameters were changed in the middle of a batch)" : "");
}

/* Runs the forward of the model for the current shard, with random numbers and buffers that don't
 * depend on other shards. Afterwards restores the state of the default generator. */
static rg_tensor *forward_of_shard(rg_distributed *d, rg_list in) {
    rg_reducer *s = d->reducer;
    rg_generator *g = rg_default_generator();
    rg_tensor *state = draw_stream(s) ? rg_generator_state(g) : NULL;
    const uint64_t shard = (uint64_t)(d->first + s->turn);
    const uint64_t seed = mixed(mixed(s->stream + shard) + (uint64_t)s->calls);
    if (!state || !rgi_buffers_before_forward(s) || !rg_generator_seed(g, seed))
        return NULL;
    s->calls++;
    rg_tensor *y = rg_call_list(d->module, in);
    return rg_generator_set_state(g, state) && y && rgi_buffers_after_forward(s) ? y : NULL;
}

/* ---- the module's forward and class ---------------------------------------------------- */

static rg_tensor *distributed_forward(rg_module *m, rg_list in, void *keywords) {
    rg_distributed *d = (rg_distributed *)m;
    (void)keywords;
    if (!d->reducer)
        return rg_call_list(d->module, in);
    if (!rg_is_grad_enabled() && !d->reducer->n_buffers)
        return rg_call_list(d->module, in);
    if (!rgi_not_recorded(d, distributed_name))
        return NULL;
    if (!rg_is_grad_enabled())
        return rgi_buffers_stay(d->reducer, d->module, in);
    if (d->reducer->open)
        return rg_fail(RG_RUNTIME_ERROR, distributed_name,
                       "a run has failed, and left the sums of its batch undone; or rg_grad of a "
                       "parameter has taken a shard's run, for which the program must call the "
                       "model itself, not the distributed module. To go on, distribute a copy of "
                       "the model (rg_deepcopy), on all ranks");
    if (!check_parameters(d) || !check_earlier_forward(d))
        return NULL;
    rg_tensor *y = forward_of_shard(d, in);
    d->reducer->armed = y;
    return y;
}

static void distributed_repr(rg_module *m, char *text, size_t room) {
    snprintf(text, room, "shards=%d", ((rg_distributed *)m)->shards);
}

static void distributed_destroy(rg_module *m) {
    rg_distributed *d = (rg_distributed *)m;
    if (d->reducer)
        rgi_reducer_end(d->reducer);
    rgi_room_drop(&d->reducer_room);
}

static const rg_module_class distributed_class = { .name = "DistributedDataParallel",
                                                   .forward_with = distributed_forward,
                                                   .extra_repr = distributed_repr,
                                                   .destroy = distributed_destroy };

/* ---- checks that the models of all ranks are equal ------------------------------------- */

/* Extends `hash`, the hash of earlier data, by a tensor's name, dtype, requires_grad and shape, but
 * not by the tensor's elements. Returns the extended hash. */
static uint64_t hash_form(uint64_t hash, const rg_named *t) {
    const rg_dims shape = rg_shape(t->tensor);
    const int kind[] = { rg_dtype_of(t->tensor), rg_requires_grad(t->tensor) };
    hash = rgi_hash(hash, t->name, strlen(t->name));
    hash = rgi_hash(hash, kind, sizeof kind);
    return rgi_hash(hash, shape.v, (size_t)shape.n * sizeof *shape.v);
}

/* The parameters and buffers of a model. The scope owns the lists. */
typedef struct {
    rg_named_list parameters, buffers;
} model_tensors;

static bool list_tensors(const rg_distributed *d, model_tensors *all) {
    all->parameters = rg_named_parameters(d->module);
    all->buffers = rg_named_buffers(d->module);
    return all->parameters.n >= 0 && all->buffers.n >= 0;
}

/* with_tensors calls f for each parameter and buffer, until a call returns false. It returns
 * whether all calls returned true. */
typedef bool with_tensor(const rg_named *t, void *context);
static bool with_tensors(const model_tensors *all, with_tensor *f, void *context) {
    bool ok = true;
    for (int i = 0; ok && i < all->parameters.n; i++)
        ok = f(&all->parameters.v[i], context);
    for (int i = 0; ok && i < all->buffers.n; i++)
        ok = f(&all->buffers.v[i], context);
    return ok;
}

static bool hash_one_form(const rg_named *t, void *context) {
    uint64_t *hash = context;
    *hash = hash_form(*hash, t);
    return true;
}

static bool hash_value(const rg_named *t, void *context) {
    RG_SCOPE();
    RG_NO_GRAD();
    uint64_t *hash = context;
    rg_tensor *whole = rg_contiguous(t->tensor);
    const size_t size = whole ? rgi_element_size((rg_dtype)rg_dtype_of(whole)) : 0;
    const void *data = whole ? rg_data(whole) : NULL;
    if (data)
        *hash = rgi_hash(hash_form(*hash, t), data, (size_t)rg_numel(whole) * size);
    return data;
}

static bool take_from_rank_0(const rg_named *t, void *context) {
    (void)context;
    return rg_broadcast_(t->tensor, 0);
}

/* Computes a hash by calling f for each parameter and buffer. Returns whether all ranks get the
 * same hash, and fails on all ranks if not. `what` names the hash in the error message. */
static bool same_hash(const rg_distributed *d, const char *op, with_tensor *f, const char *what) {
    RG_SCOPE();
    uint64_t hash = 1;
    model_tensors all;
    const bool ok = list_tensors(d, &all) && with_tensors(&all, f, &hash);
    const rg_claim mine = rgi_claim_number(op, ok, (int64_t)(hash >> 1));
    return rgi_all_agree(&mine, what);
}

/* Copies the parameters and buffers of rank 0 to all ranks. */
static bool take_all_from_rank_0(const rg_distributed *d) {
    RG_SCOPE();
    RG_NO_GRAD();
    model_tensors all;
    return rgi_all_ok(distributed_name, list_tensors(d, &all))
           && with_tensors(&all, take_from_rank_0, NULL);
}

bool rg_distributed_check(const rg_distributed *d) {
    static const char op[] = "distributed_check";
    return rgi_group_given(op)
           && same_hash(d, op, hash_value, "the hash of the parameters and buffers");
}

/* ---- the constructor ------------------------------------------------------------------- */

/* Assigns shards to this rank. 0 shards means one for each rank. Fails if there are fewer shards
 * than ranks, or more than INT_MAX. If the number of shards isn't a multiple of the number of
 * ranks, some ranks get one shard more than others. */
static bool deal_shards(rg_distributed *d, int64_t shards) {
    const int64_t size = rg_world_size(), rank = rg_rank();
    if (shards == 0)
        shards = size;
    if (shards < size)
        return rg_fail(RG_VALUE_ERROR, distributed_name, "%d ranks can't have %lld shards",
                       (int)size, (long long)shards);
    if (shards > INT_MAX)
        return rg_fail(RG_VALUE_ERROR, distributed_name, "a batch can't have %lld shards",
                       (long long)shards);
    const int64_t first = rank * shards / size, end = (rank + 1) * shards / size;
    /* The fields are const for programs; only this function sets them. */
    *(int *)&d->shards = (int)shards;
    *(int *)&d->first = (int)first;
    *(int *)&d->local = (int)(end - first);
    return true;
}

/* Checks that all ranks have the same number of shards, the same size of buckets, and models whose
 * parameters and buffers have the same names, dtypes, requires_grad and shapes. Then copies the
 * values of rank 0 to the other ranks, and checks that all ranks have the same bits. */
static bool unite(const rg_distributed *d, int64_t cap) {
    const rg_claim shards = rgi_claim_number(distributed_name, true, d->shards);
    const rg_claim bytes = rgi_claim_number(distributed_name, true, cap);
    return rgi_all_agree(&shards, "the number of shards")
           && rgi_all_agree(&bytes, "bucket_cap_mb in bytes")
           && same_hash(d, distributed_name, hash_one_form,
                        "the hash of the parameters' names, shapes and requires_grad")
           && (rg_world_size() == 1 || take_all_from_rank_0(d)) && rg_distributed_check(d);
}

static bool begin_reducer(rg_distributed *d, int64_t cap) {
    const rg_list parameters = rg_parameters(d->module);
    for (int i = 0; i < parameters.n; i++)
        if (!rgi_group_sums(distributed_name, parameters.v[i]))
            return false;
    d->reducer = rgi_room(&d->reducer_room, sizeof *d->reducer);
    if (!d->reducer)
        return false;
    d->reducer->distributed = d;
    return rgi_reducer_begin(d->reducer, cap);
}

rg_distributed *(rg_nn_distributed_with)(void *model, rg_distributed_options o) {
    RG_SCOPE();
    rg_distributed *d = RG_MODULE(rg_distributed, &distributed_class, .shards = 0);
    RG_CHILD(d, module, model);
    if (!d)
        rg_module_free(model);
    d = RG_READY(d);
    if (!rgi_group_given(distributed_name)) {
        rg_module_free(d);
        return NULL;
    }
    bool ok = d && deal_shards(d, o.shards);
    if (ok && !(o.bucket_cap_mb > 0))
        ok = rg_fail(RG_VALUE_ERROR, distributed_name, "bucket_cap_mb is %g",
                     isnan(o.bucket_cap_mb) ? (double)NAN : o.bucket_cap_mb);
    const int64_t cap = (int64_t)fmax(0, fmin(o.bucket_cap_mb * 0x1p20, 0x1p62));
    ok = rgi_all_ok(distributed_name, ok) && unite(d, cap);
    if (ok && d->shards > 1)
        ok = rgi_all_ok(distributed_name, begin_reducer(d, cap));
    if (ok && d->reducer)
        d->reducer->channel = rgi_channel_begin();
    if (ok)
        return d;
    rg_module_free(d);
    return NULL;
}
