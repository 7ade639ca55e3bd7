/*
 * buffers.c: averages the buffers that a forward changes, such as the running means of batch norm.
 * The forward of each shard begins with the values from before the batch. After the batch each
 * buffer is set to the mean of the values that the shards gave it. So the result doesn't depend on
 * which rank had which shard. A buffer that isn't floating point, such as a count, isn't averaged:
 * on each rank it keeps the value that the rank's last shard gave it.
 */
#include "reducer.h"
#include "autograd/ops/ops.h"

#include "hash.h"

/* ---- the list of buffers --------------------------------------------------------------- */

bool rgi_buffers_list(rg_reducer *s, rg_named_list all) {
    s->buffers = rgi_room(&s->buffers_holder, (size_t)all.n * sizeof *s->buffers);
    for (int i = 0; s->buffers && i < all.n; i++)
        s->buffers[s->n_buffers++] = (rg_buffer){ .now = rg_keep(all.v[i].tensor) };
    return s->buffers;
}

static void drop_buffer(rg_buffer *b) {
    rg_drop(b->now);
    rgi_room_drop(&b->before);
}

void rgi_buffers_end(rg_reducer *s) {
    for (int i = 0; i < s->n_buffers; i++)
        drop_buffer(&s->buffers[i]);
    s->n_buffers = 0;
    rgi_room_drop(&s->buffers_holder);
}

/* Called after the first forward. Keeps only the buffers that this forward has changed, and adds an
 * entry to the reducer for each of them that is floating point. Fails on all ranks unless the
 * forward has changed the same buffers on all ranks. After a failure, every later forward fails. */
static bool find_changing(rg_reducer *s) {
    uint64_t hash = 1;
    int n = 0;
    for (int i = 0; i < s->n_buffers; i++) {
        rg_buffer *b = &s->buffers[i];
        if (rg_version(b->now) == b->version) {
            drop_buffer(b);
            continue;
        }
        hash = rgi_hash(hash, &i, sizeof i);
        s->buffers[n++] = *b;
        if (rg_is_floating_point(b->now))
            rgi_reducer_add_buffer(s, b->now);
    }
    s->n_buffers = n;
    s->buffers_known = true;
    rgi_buckets_drop(s);
    const rg_claim mine = rgi_claim_number("distributed", rgi_buckets_make(s),
                                           (int64_t)(hash >> 1));
    s->open = !rgi_all_agree(&mine, "the hash of the buffers that a forward changes");
    return !s->open;
}

/* ---- before and after the forward of a shard ------------------------------------------- */

static bool keep_before(rg_buffer *b) {
    b->version = rg_version(b->now);
    if (b->before)
        return rg_copy_(b->before, b->now);
    b->before = rg_keep(rg_clone(b->now));
    return b->before;
}

bool rgi_buffers_before_forward(rg_reducer *s) {
    RG_SCOPE();
    RG_NO_GRAD();
    bool ok = true;
    for (int i = 0; ok && s->calls == 0 && i < s->n_buffers; i++) {
        rg_buffer *b = &s->buffers[i];
        ok = s->turn == 0 ? keep_before(b) : rg_copy_(b->now, b->before) != NULL;
    }
    return ok;
}

/* Sets each buffer that has changed since its version was v[i] to copies[i]. */
static bool put_back(rg_reducer *s, const int64_t *v, rg_tensor *const copies[]) {
    RG_NO_GRAD();
    bool ok = true;
    for (int i = 0; ok && i < s->n_buffers; i++)
        ok = rg_version(s->buffers[i].now) == v[i] || rg_copy_(s->buffers[i].now, copies[i]);
    return ok;
}

rg_tensor *rgi_buffers_stay(rg_reducer *s, rg_module *module, rg_list in) {
    RG_SCOPE();
    rg_tensor **copies = rgi_scope_room((size_t)s->n_buffers * sizeof(void *));
    int64_t *version = copies ? rgi_scope_room((size_t)s->n_buffers * sizeof *version) : NULL;
    for (int i = 0; version && i < s->n_buffers; i++) {
        version[i] = rg_version(s->buffers[i].now);
        copies[i] = rg_clone(s->buffers[i].now);
        if (!copies[i])
            return NULL;
    }
    rg_tensor *y = version ? rg_call_list(module, in) : NULL;
    return version && put_back(s, version, copies) && y ? rg_escape(y) : NULL;
}

bool rgi_buffers_after_forward(rg_reducer *s) { return s->buffers_known || find_changing(s); }
