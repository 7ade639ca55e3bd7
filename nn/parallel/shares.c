/*
 * shares.c: gradients as a backward run makes them: each is added to the sums of the shards before
 * it, as the tree says, and after the last shard they become the parameters' .grad.
 */
#include "shares.h"
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

/* ---- the tree within a rank ------------------------------------------------------------ */

/* Adds zeros, which make 0 of -0, so that it is as if another rank had sent them. */
static void add_zeros(const rg_bucket *b, char *to, int64_t n) {
    static const double zeros[512];
    const size_t size = rgi_element_size(b->dtype);
    const int64_t most = (int64_t)(sizeof zeros / size);
    for (int64_t i = 0; i < n; i += most) {
        char *part = to + (size_t)i * size;
        rgi_combine(RG_REDUCE_SUM, b->dtype, part, part, zeros, n - i < most ? n - i : most);
    }
}

/* Adds a shard's gradient, or zeros if that is NULL, to the sum that waits for it, and that sum to
 * the one before, for all that the shard completes. Where it completes none, it waits itself. */
static void add_to_tree(const rg_share *share, const void *gradient) {
    const rg_shares *s = share->of;
    const rg_bucket *b = &s->buckets[share->bucket];
    const int completed = rgi_sums_completed(s->turn, s->distributed->local);
    const size_t bytes = (size_t)share->n * rgi_element_size(b->dtype);
    char *sum = rgi_bucket_sum(b, s->depth - (completed > 0), share->at);
    if (!completed && gradient)
        memcpy(sum, gradient, bytes);
    else if (!completed)
        memset(sum, 0, bytes);
    else if (gradient)
        rgi_combine(RG_REDUCE_SUM, b->dtype, sum, sum, gradient, share->n);
    else
        add_zeros(b, sum, share->n);
    for (int i = 1; i < completed; i++) {
        char *left = rgi_bucket_sum(b, s->depth - 1 - i, share->at);
        rgi_combine(RG_REDUCE_SUM, b->dtype, left, left, sum, share->n);
        sum = left;
    }
}

static bool is_last_turn(const rg_shares *s) { return s->turn == s->distributed->local - 1; }

/* ---- a run ----------------------------------------------------------------------------- */

/* A run's first gradient begins it. */
static void run_opens(rg_shares *s) {
    s->open = true;
    s->arrived = 0;
    for (int i = 0; i < s->n; i++)
        s->v[i].arrived = false;
    if (is_last_turn(s))
        rgi_buckets_expect(s);
}

/* Until the order is settled, that in which gradients arrive is noted. */
static void arrive(rg_share *share, const void *gradient) {
    rg_shares *s = share->of;
    if (!s->settled)
        s->order[s->arrived] = share;
    s->arrived++;
    add_to_tree(share, gradient);
    share->arrived = true;
    share->used |= gradient != NULL;
    s->buckets[share->bucket].missing--;
}

/* Is called as soon as a parameter's gradient is complete. */
static rg_tensor *gradient_arrives(rg_tensor *gradient, void *context) {
    rg_share *share = context;
    rg_shares *s = share->of;
    if (!s->armed)
        return RG_NONE;
    if (!s->open)
        run_opens(s);
    if (share->arrived)
        return rg_fail(RG_RUNTIME_ERROR, "distributed",
                       "a parameter's gradient arrives twice: a shard has one backward run, and "
                       "rg_grad none before it");
    RG_SCOPE();
    rg_tensor *whole = rg_contiguous(gradient), *before = rg_grad_of(share->leaf);
    if (!whole || !before)
        return NULL;
    if (s->turn == 0 && before != RG_NONE) {
        share->before = rg_keep(rg_clone(before));
        if (!share->before)
            return NULL;
    }
    arrive(share, rg_data(whole));
    if (is_last_turn(s))
        rgi_buckets_advance(s);
    return RG_NONE;
}

/* ---- its end --------------------------------------------------------------------------- */

/* Gives the shares, on all ranks, the order in which rank 0's gradients have come. */
static bool settle_order(rg_shares *s) {
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

/* Returns true if a rank has used the share of this mark. Only floats have gradients. */
static bool is_used(rg_dtype dtype, const void *mark) {
    switch (dtype) {
    case RG_FLOAT32: return *(const float *)mark != 0;
    case RG_FLOAT64: return *(const double *)mark != 0;
    case RG_BOOL:
    case RG_INT64:
    case RG_NO_DTYPE: break;
    }
    return false;
}

/* Returns the mean of the shards' gradients, added to what there was before, or RG_NONE where there
 * is none of either. */
static rg_tensor *final_gradient(const rg_share *share) {
    const rg_bucket *b = &share->of->buckets[share->bucket];
    rg_tensor *before = share->before ? share->before : RG_NONE;
    char *mark = rgi_bucket_sum(b, 0, b->n - b->n_shares + share->place);
    if (!is_used(b->dtype, mark))
        return before;
    rg_tensor *sum = rg_from_dims(rgi_bucket_sum(b, 0, share->at), b->dtype, rg_shape(share->leaf));
    rg_tensor *mean = rg_div_(sum, share->of->distributed->shards);
    return before == RG_NONE ? mean : rg_add_(mean, before);
}

/* Takes a gradient away after a shard; after the last one it is the mean. */
static bool put_gradient(rg_share *share, bool last) {
    RG_SCOPE();
    rg_tensor *there = rg_grad_of(share->leaf);
    if (share->of->turn == 0 && !share->used && there && there != RG_NONE)
        share->before = rg_keep(there);
    rg_tensor *gradient = last ? final_gradient(share) : RG_NONE;
    if (!gradient || !rg_set_grad(share->leaf, gradient))
        return false;
    if (last)
        rgi_room_drop(&share->before);
    return true;
}

static bool put_all(rg_shares *s, bool last) {
    bool ok = true;
    for (int i = 0; ok && i < s->n; i++) {
        RG_SCOPE();
        rg_share *share = &s->v[i];
        if (!share->is_buffer)
            ok = put_gradient(share, last);
        else if (last)
            ok = rg_copy_(share->leaf, final_gradient(share));
    }
    return ok;
}

static void batch_ends(rg_shares *s) {
    s->turn = 0;
    s->depth = 0;
    s->drawn = false;
    for (int i = 0; i < s->n; i++)
        s->v[i].used = false;
}

/* Gradients that the run hasn't reached count as zeros; buffers are as the forward left them. */
static bool rest_arrives(rg_shares *s) {
    RG_SCOPE();
    for (int i = 0; i < s->n; i++) {
        rg_share *share = &s->v[i];
        rg_tensor *value = share->is_buffer ? rg_contiguous(share->leaf) : RG_NONE;
        if (!value)
            return false;
        if (!share->arrived)
            arrive(share, share->is_buffer ? rg_data(value) : NULL);
    }
    return true;
}

/* The profiler shows how much of the sums doesn't hide behind the run. */
static void wait_for_sums(rg_shares *s) {
    RG_RECORD_FUNCTION("wait for all_reduce");
    while (!rgi_buckets_advance(s))
        continue;
}

static bool run_ends(rg_shares *s) {
    const bool last = is_last_turn(s);
    if (!rest_arrives(s))
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

/* Is called after the whole run, for each of its parameters; the first call ends the shard. */
static bool run_is_over(rg_tensor *leaf, void *context) {
    rg_shares *s = ((rg_share *)context)->of;
    (void)leaf;
    RG_NO_GRAD();
    return !s->open || run_ends(s);
}

/* ---- making ---------------------------------------------------------------------------- */

static bool add_share(rg_shares *s, rg_tensor *leaf) {
    rg_share *share = &s->v[s->n++];
    *share = (rg_share){ .of = s, .leaf = rg_keep(leaf), .n = rg_numel(leaf), .after = -1 };
    share->hook = rg_register_hook(leaf, gradient_arrives, share);
    if (share->hook >= 0)
        share->after = rg_register_post_accumulate_grad_hook(leaf, run_is_over, share);
    return share->after >= 0;
}

void rgi_shares_add_buffer(rg_shares *s, rg_tensor *buffer) {
    rg_share *share = &s->v[s->n];
    s->order[s->n++] = share;
    *share = (rg_share){ .of = s,
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

/* At first the last parameter is expected to have its gradient first. */
bool rgi_shares_begin(rg_shares *s, double bucket_cap_mb) {
    const rg_list all = rg_parameters(s->distributed->module);
    const rg_named_list buffers = rg_named_buffers(s->distributed->module);
    s->cap = (size_t)(bucket_cap_mb * 1048576);
    s->levels = s->distributed->local > 2 ? log_up(s->distributed->local) : 1;
    if (all.n < 0 || buffers.n < 0)
        return false;
    const size_t most = (size_t)(all.n + buffers.n);
    s->v = rgi_room(&s->holder, most * sizeof *s->v);
    s->order = s->v ? rgi_room(&s->order_holder, most * sizeof *s->order) : NULL;
    bool ok = s->order && rgi_buffers_list(s, buffers);
    for (int i = 0; ok && i < all.n; i++)
        ok = !rg_requires_grad(all.v[i]) || add_share(s, all.v[i]);
    for (int i = 0; ok && i < s->n; i++)
        s->order[i] = &s->v[s->n - 1 - i];
    return ok && rgi_buckets_make(s);
}

void rgi_shares_end(rg_shares *s) {
    rgi_buckets_drop(s);
    rgi_buffers_end(s);
    for (int i = 0; i < s->n; i++) {
        rg_share *share = &s->v[i];
        if (share->hook >= 0)
            rg_remove_hook(share->leaf, share->hook);
        if (share->after >= 0)
            rg_remove_hook(share->leaf, share->after);
        rgi_room_drop(&share->before);
        rg_drop(share->leaf);
    }
    rgi_room_drop(&s->holder);
    rgi_room_drop(&s->order_holder);
}
