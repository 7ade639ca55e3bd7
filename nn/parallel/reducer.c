/*
 * reducer.c: sums gradients. During a backward run each gradient is added to the sums over earlier
 * shards, in the order of a fixed binary tree. After the last shard, the mean over all shards is
 * added to the .grad that the parameter had before the batch.
 */
#include "parts.h"
#include "autograd/ops/ops.h"

#include <string.h>

int rgi_sums_completed(int i, int n) {
    int from = 0, end = n, completed = 0;
    while (end - from > 1) {
        const int middle = from + (end - from) / 2;
        const bool right = i >= middle;
        completed = right ? completed + 1 : 0;
        from = right ? middle : from;
        end = right ? end : middle;
    }
    return completed;
}

/* ---- adding the shards of a rank along the tree ---------------------------------------- */

/* Adds 0 to each of n elements of a sum, for a shard that has computed no gradient. This turns -0
 * into 0. If the shards were on different ranks, the zeros would be sent and added, which also
 * turns -0 into 0. The result must have the same bits for any number of ranks. */
static void add_zeros(const rg_bucket *b, char *to, int64_t n) {
    static const double zeros[512];
    const size_t size = rgi_element_size(b->dtype);
    const int64_t most = (int64_t)(sizeof zeros / size);
    for (int64_t i = 0; i < n; i += most) {
        char *part = to + (size_t)i * size;
        rgi_combine(RG_REDUCE_SUM, b->dtype, part, part, zeros, n - i < most ? n - i : most);
    }
}

/* Adds the gradient of the current shard to the sums over subtrees of shards; NULL means a gradient
 * of zeros. A sum over a subtree waits until the subtree beside it is complete. If this shard
 * completes no subtree, its gradient becomes a new waiting sum. Otherwise the gradient is added to
 * the newest waiting sum. If that completes a larger subtree as well, the result is added to the
 * waiting sum before it, and so on. */
static void add_to_tree(const rg_reducer_entry *entry, const void *gradient) {
    const rg_reducer *s = entry->of;
    const rg_bucket *b = &s->buckets[entry->bucket];
    const int completed = rgi_sums_completed(s->turn, s->distributed->local);
    const size_t bytes = (size_t)entry->n * rgi_element_size(b->dtype);
    char *sum = rgi_bucket_sum(b, s->depth - (completed > 0), entry->at);
    if (!completed && gradient)
        memcpy(sum, gradient, bytes);
    else if (!completed)
        memset(sum, 0, bytes);
    else if (gradient)
        rgi_combine(RG_REDUCE_SUM, b->dtype, sum, sum, gradient, entry->n);
    else
        add_zeros(b, sum, entry->n);
    for (int i = 1; i < completed; i++) {
        char *left = rgi_bucket_sum(b, s->depth - 1 - i, entry->at);
        rgi_combine(RG_REDUCE_SUM, b->dtype, left, left, sum, entry->n);
        sum = left;
    }
}

static bool is_last_turn(const rg_reducer *s) { return s->turn == s->distributed->local - 1; }

/* ---- during a backward run ------------------------------------------------------------- */

/* Called when the first gradient of a backward run arrives. Notes that the run is open, and that no
 * entry's gradient has been added yet. In the last shard also prepares the buckets. */
static void run_opens(rg_reducer *s) {
    s->open = true;
    s->arrived = 0;
    for (int i = 0; i < s->n; i++)
        s->v[i].arrived = false;
    if (is_last_turn(s))
        rgi_buckets_expect(s);
}

/* Adds the entry's gradient, or a buffer's value, to the sums; NULL means a gradient of zeros. Also
 * records the order in which gradients arrive, until the order is settled. */
static void arrive(rg_reducer_entry *entry, const void *gradient) {
    rg_reducer *s = entry->of;
    if (!s->settled)
        s->order[s->arrived] = entry;
    s->arrived++;
    add_to_tree(entry, gradient);
    entry->arrived = true;
    entry->used |= gradient != NULL;
    s->buckets[entry->bucket].missing--;
}

/* Returns whether a gradient that belongs to no shard would be added to a .grad of the batch. This
 * is so in the middle of the batch, and after it until a step has changed the parameter or the
 * program has removed the .grad. */
static bool is_late(const rg_reducer_entry *entry) {
    const rg_reducer *s = entry->of;
    return s->turn > 0
           || (s->summed && rg_version(entry->leaf) == entry->version
               && rg_grad_of(entry->leaf) != RG_NONE);
}

/* A hook that runs when the gradient of a parameter has been computed. */
static rg_tensor *gradient_arrives(rg_tensor *gradient, void *context) {
    rg_reducer_entry *entry = context;
    rg_reducer *s = entry->of;
    entry->late = !s->armed && is_late(entry);
    if (!s->armed)
        return RG_NONE;
    if (!s->open)
        run_opens(s);
    if (entry->arrived)
        return rg_fail(RG_RUNTIME_ERROR, "distributed",
                       "a parameter's gradient arrives twice: a shard has one backward run, and "
                       "rg_grad none before it");
    RG_SCOPE();
    rg_tensor *whole = rg_contiguous(gradient), *before = rg_grad_of(entry->leaf);
    if (!whole || !before)
        return NULL;
    if (s->turn == 0 && before != RG_NONE) {
        entry->before = rg_keep(rg_clone(before));
        if (!entry->before)
            return NULL;
    }
    arrive(entry, rg_data(whole));
    if (is_last_turn(s))
        rgi_buckets_advance(s);
    return RG_NONE;
}

/* ---- at the end of a backward run ------------------------------------------------------ */

/* On all ranks, replaces the expected order of the gradients by the order in which they arrived on
 * rank 0, and makes the buckets again. Returns false on failure. */
static bool settle_order(rg_reducer *s) {
    RG_SCOPE();
    rg_tensor *order = rg_zeros_dims(RG_DIMS(s->n), RG_INT64);
    int64_t *v = order ? rg_data(order) : NULL;
    for (int i = 0; v && i < s->n; i++)
        v[i] = s->order[i] - s->v;
    if (!rg_broadcast_(order, 0))
        return false;
    for (int i = 0; i < s->n; i++)
        s->order[i] = &s->v[v[i]];
    s->settled = true;
    rgi_buckets_drop(s);
    return rgi_all_ok("distributed", rgi_buckets_make(s));
}

/* Returns whether any rank has computed the gradient of an entry. `mark` is the entry's mark,
 * summed over all ranks. */
static bool is_used(rg_dtype dtype, const void *mark) {
    switch (dtype) {
    case RG_FLOAT32: return *(const float *)mark != 0;
    case RG_FLOAT64: return *(const double *)mark != 0;
    case RG_BOOL:
    case RG_INT64:
    case RG_BFLOAT16:
    case RG_FLOAT16:
    case RG_UINT8:
    case RG_NO_DTYPE: break;
    }
    return false;
}

/* Returns the mean of the gradient over all shards, plus the parameter's gradient from before the
 * batch, if there was one. If no shard has computed the gradient, returns the gradient from before
 * the batch, or RG_NONE. If the entry is a buffer, returns the mean of its values. */
static rg_tensor *final_gradient(const rg_reducer_entry *entry) {
    const rg_bucket *b = &entry->of->buckets[entry->bucket];
    rg_tensor *before = entry->before ? entry->before : RG_NONE;
    char *mark = rgi_bucket_sum(b, 0, b->n - b->n_entries + entry->place);
    if (!is_used(b->dtype, mark))
        return before;
    rg_tensor *sum = rg_from_dims(rgi_bucket_sum(b, 0, entry->at), b->dtype, rg_shape(entry->leaf));
    rg_tensor *mean = rg_div_(sum, entry->of->distributed->shards);
    return before == RG_NONE ? mean : rg_add_(mean, before);
}

/* Sets a parameter's .grad at the end of a shard. After the last shard, .grad becomes the final
 * gradient. After an earlier shard it becomes RG_NONE, so that the next shard's gradient isn't
 * added to it. */
static bool put_gradient(rg_reducer_entry *entry, bool last) {
    RG_SCOPE();
    rg_tensor *there = rg_grad_of(entry->leaf);
    if (entry->of->turn == 0 && !entry->used && there && there != RG_NONE)
        entry->before = rg_keep(there);
    rg_tensor *gradient = last ? final_gradient(entry) : RG_NONE;
    if (!gradient || !rg_set_grad(entry->leaf, gradient))
        return false;
    if (last)
        rgi_room_drop(&entry->before);
    return true;
}

static bool put_all(rg_reducer *s, bool last) {
    bool ok = true;
    for (int i = 0; ok && i < s->n; i++) {
        RG_SCOPE();
        rg_reducer_entry *entry = &s->v[i];
        if (!entry->is_buffer)
            ok = put_gradient(entry, last);
        else if (last)
            ok = rg_copy_(entry->leaf, final_gradient(entry));
    }
    return ok;
}

static void batch_ends(rg_reducer *s) {
    s->summed = true;
    s->turn = 0;
    s->depth = 0;
    s->drawn = false;
    for (int i = 0; i < s->n; i++)
        s->v[i].used = false;
}

/* Adds zeros to the sums for each gradient that this backward run hasn't computed, and adds the
 * values of the buffers to their sums. Returns false on failure. */
static bool rest_arrives(rg_reducer *s) {
    RG_SCOPE();
    for (int i = 0; i < s->n; i++) {
        rg_reducer_entry *entry = &s->v[i];
        rg_tensor *value = entry->is_buffer ? rg_contiguous(entry->leaf) : RG_NONE;
        if (!value)
            return false;
        if (!entry->arrived)
            arrive(entry, entry->is_buffer ? rg_data(value) : NULL);
    }
    return true;
}

/* Waits until all buckets are summed over all ranks. The profiler shows this time separately, since
 * the program does nothing else meanwhile. */
static void wait_for_sums(rg_reducer *s) {
    RG_RECORD_FUNCTION("wait for all_reduce");
    while (!rgi_buckets_advance(s))
        continue;
}

static bool run_ends(rg_reducer *s) {
    const bool last = is_last_turn(s);
    if (!rgi_parts_end(s) || !rest_arrives(s))
        return false;
    if (last)
        wait_for_sums(s);
    if (!put_all(s, last) || (last && !s->settled && !settle_order(s)))
        return false;
    s->open = false;
    s->armed = false;
    s->calls = 0;
    s->depth += 1 - rgi_sums_completed(s->turn, s->distributed->local);
    s->turn++;
    if (last)
        batch_ends(s);
    return true;
}

/* A hook that runs for each parameter when the backward run has ended. The first call ends the
 * shard, and later calls do nothing. Fails if the run belongs to no shard, but has added to a .grad
 * of the batch. rg_grad adds to no .grad, and so doesn't call this hook. */
static bool run_is_over(rg_tensor *leaf, void *context) {
    const rg_reducer_entry *entry = context;
    rg_reducer *s = entry->of;
    (void)leaf;
    RG_NO_GRAD();
    if (entry->late)
        return rg_fail(RG_RUNTIME_ERROR, "distributed",
                       "a shard has one backward run, and this is another one, whose gradients "
                       "aren't summed over the shards: add its loss to the shard's loss, or remove "
                       "the gradients before it");
    return !s->open || run_ends(s);
}

/* ---- making the entries of a reducer --------------------------------------------------- */

static bool append_entry(rg_reducer *s, rg_tensor *leaf) {
    rg_reducer_entry *entry = &s->v[s->n++];
    *entry = (rg_reducer_entry){ .of = s, .leaf = rg_keep(leaf), .n = rg_numel(leaf), .after = -1 };
    entry->hook = rg_register_hook(leaf, gradient_arrives, entry);
    if (entry->hook >= 0)
        entry->after = rg_register_post_accumulate_grad_hook(leaf, run_is_over, entry);
    return entry->after >= 0;
}

void rgi_reducer_add_buffer(rg_reducer *s, rg_tensor *buffer) {
    rg_reducer_entry *entry = &s->v[s->n];
    s->order[s->n++] = entry;
    *entry = (rg_reducer_entry){ .of = s,
                                 .leaf = rg_keep(buffer),
                                 .is_buffer = true,
                                 .n = rg_numel(buffer),
                                 .hook = -1,
                                 .after = -1 };
}

static int log_up(int n) {
    int k = 0;
    while (1 << k < n)
        k++;
    return k;
}

/* Makes the entries and the buckets. Gradients are expected in the reverse order of the parameters,
 * until a backward run shows the actual order. */
bool rgi_reducer_begin(rg_reducer *s, int64_t cap) {
    const rg_list all = rg_parameters(s->distributed->module);
    const rg_named_list buffers = rg_named_buffers(s->distributed->module);
    s->cap = (size_t)cap;
    s->levels = s->distributed->local > 2 ? log_up(s->distributed->local) : 1;
    if (all.n < 0 || buffers.n < 0)
        return false;
    const size_t most = (size_t)(all.n + buffers.n);
    s->v = rgi_room(&s->holder, most * sizeof *s->v);
    s->order = s->v ? rgi_room(&s->order_holder, most * sizeof *s->order) : NULL;
    bool ok = s->order && rgi_buffers_list(s, buffers);
    for (int i = 0; ok && i < all.n; i++)
        ok = !rg_requires_grad(all.v[i]) || append_entry(s, all.v[i]);
    s->n_parameters = s->n;
    for (int i = 0; ok && i < s->n; i++)
        s->order[i] = &s->v[s->n - 1 - i];
    return ok && rgi_buckets_make(s);
}

void rgi_reducer_end(rg_reducer *s) {
    rgi_channel_end(s->channel);
    rgi_buckets_drop(s);
    rgi_buffers_end(s);
    for (int i = 0; i < s->n; i++) {
        rg_reducer_entry *entry = &s->v[i];
        if (entry->hook >= 0)
            rg_remove_hook(entry->leaf, entry->hook);
        if (entry->after >= 0)
            rg_remove_hook(entry->leaf, entry->after);
        rgi_room_drop(&entry->before);
        rg_drop(entry->leaf);
    }
    rgi_room_drop(&s->holder);
    rgi_room_drop(&s->order_holder);
}
