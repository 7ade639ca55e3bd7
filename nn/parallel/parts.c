/*
 * parts.c: rg_distributed_part, which cuts a shard's rows out of a batch, and the checks that the
 * program goes from shard to shard as the reducer does.
 */
#include "parts.h"
#include "autograd/ops/ops.h"

uint64_t rgi_fingerprint(uint64_t hash, rg_tensor *t) {
    enum { SAMPLES = 64 };
    const rg_dims shape = rg_shape(t);
    const int dtype = rg_dtype_of(t);
    const int64_t n = rg_numel(t), step = n / SAMPLES + 1;
    const size_t size = rgi_element_size((rg_dtype)dtype);
    const char *data = n ? rg_data(t) : NULL;
    int64_t stride[RG_MAX_DIMS];
    hash = rgi_hash(hash, &dtype, sizeof dtype);
    hash = rgi_hash(hash, shape.v, (size_t)shape.n * sizeof *shape.v);
    for (int d = 0; d < shape.n; d++)
        stride[d] = rg_stride(t, d);
    for (int64_t i = 0; data && i < n; i += step) {
        int64_t at = 0, rest = i;
        for (int d = shape.n - 1; d >= 0; d--) {
            at += rest % shape.v[d] * stride[d];
            rest /= shape.v[d];
        }
        hash = rgi_hash(hash, data + at * (int64_t)size, size);
    }
    return hash;
}

/* Finds out whether a step is being recorded by a call of rg_data, which fails then. The message of
 * that failure doesn't name the distributed module, so another one takes its place. */
bool rgi_not_recorded(const rg_distributed *d, const char *op) {
    const bool failed_before = *rg_error_peek();
    if (rg_data(d->reducer_room))
        return true;
    if (failed_before)
        return false;
    rg_error_clear();
    return rg_fail(RG_NOT_IMPLEMENTED, op,
                   "a distributed module can't be part of a recorded step, since a run would send "
                   "no gradients: call the step without rg_record, or record the model itself");
}

/* ---- the parts of a shard -------------------------------------------------------------- */

static bool refuse_parts(const rg_reducer *s, const char *op) {
    return rg_fail(RG_RUNTIME_ERROR, op,
                   "shard %d of this rank doesn't take the same parts as shard 0: each shard of a "
                   "batch ends with its one backward run, and takes parts of the same tensors in "
                   "the same order; begin another batch after the last shard",
                   s->turn);
}

/* Notes that the program takes a part of `batch` for the current shard. The batch's first shard on
 * this rank decides of which tensors parts are taken. Fails if a later shard takes others. */
static bool note_part(rg_reducer *s, rg_tensor *batch) {
    rg_parts *p = &s->parts;
    if (s->distributed->local > 1 && !s->n_parameters)
        return rg_fail(RG_RUNTIME_ERROR, "distributed_part",
                       "no parameter required grad when the distributed module was made, so no "
                       "backward run ends a shard: take parts by the module that is trained");
    const uint64_t mark = rgi_fingerprint(1, batch);
    if (s->turn == 0 && p->n < RG_PARTS)
        p->marks[p->n] = mark;
    else if (s->turn > 0 && (p->n >= p->first || (p->n < RG_PARTS && p->marks[p->n] != mark)))
        return refuse_parts(s, "distributed_part");
    p->n++;
    p->since_forward |= s->armed;
    return true;
}

bool rgi_parts_end(rg_reducer *s) {
    rg_parts *p = &s->parts;
    if (s->turn == 0)
        p->first = p->n;
    if (p->n != p->first)
        return refuse_parts(s, "distributed");
    p->n = 0;
    p->since_forward = false;
    return true;
}

rg_tensor *rg_distributed_part(const rg_distributed *d, rg_tensor *batch) {
    if (!rg_check_tensor(batch, "distributed_part"))
        return NULL;
    const int64_t rows = rg_ndim(batch) ? rg_size(batch, 0) : 1;
    if (rows % d->shards)
        return rg_fail(RG_VALUE_ERROR, "distributed_part",
                       "a batch of %lld rows can't be cut into %d equal shards", (long long)rows,
                       d->shards);
    if (d->reducer
        && (!rgi_not_recorded(d, "distributed_part") || !note_part(d->reducer, batch)))
        return NULL;
    const int64_t each = rows / d->shards, turn = d->reducer ? d->reducer->turn : 0;
    return rg_narrow(batch, 0, (d->first + turn) * each, each);
}
