/*
 * storage.c: headers, the memory behind them, and their reference counts. A
 * birth is a plain store, and a sole owner's release needs no locked
 * instruction: nobody else can see the count.
 */
#include "internal.h"
#include "observer.h"

_Static_assert(offsetof(rg_tensor, state) == offsetof(rg_free_block, keeps_state),
               "it outlives a tensor");

/* Takes the place of the one that has rested longest. */
static inline rg_tensor *put_to_rest(rg_thread *me, rg_tensor *t) {
    rg_tensor **place = &me->resting[me->rests++ % RG_RESTING], *rested = *place;
    *place = t;
    return rested;
}

/* Where the lists are full, or not in use. s: released with t. */
static __attribute__((noinline)) void destroy_slowly(rg_tensor *t, rg_storage *s) {
    rg_thread *me = &rgi_this;
    if (s)
        rgi_free(s, RG_STORAGE_HEADER + s->bytes, RG_MEM_STORAGE);
    t->state = RG_DEAD;
    if (me->small[0].limit)
        t = put_to_rest(me, t);
    if (t)
        rgi_free(t, sizeof *t, RG_MEM_HEADER);
    /* one that rests counts as released */
    else
        rgi_count_bytes(me, RG_MEM_HEADER, false, RG_HEADER_BYTES, 0);
}

/* Lets go of the past and the name; then the tensor is like any other. */
static __attribute__((noinline)) void destroy_known(rg_tensor *t) {
    if (t->history)
        t->history->cls->release(t->history);
    if (t->name)
        rgi_rename(&t->name, NULL);
    t->history = NULL;
    rgi_destroy(t);
}

/* A released header rests before it is used again: a use after the end of its scope meets a dead
 * one. What isn't usual is called last, so that the usual has no registers to save. */
__attribute__((noinline)) void rgi_destroy(rg_tensor *t) {
    if (t->history || t->name) {
        destroy_known(t);
        return;
    }
    rg_thread *me = &rgi_this;
    rg_storage *s = t->storage;
    size_t c = s && RG_COUNT_DOWN(&s->refs, 1)
                   ? rgi_small_class(RG_STORAGE_HEADER + s->bytes, RG_MEM_STORAGE)
                   : 0;
    if (RG_UNLIKELY(!rgi_has_room(me, 0) || !rgi_has_room(me, c))) {
        destroy_slowly(t, c ? s : NULL);
        return;
    }
    t->state = RG_DEAD;
    t = put_to_rest(me, t);
    if (RG_LIKELY(t))
        rgi_put_back(me, t, 0);
    if (c)
        rgi_put_back(me, s, c);
    rgi_count_to(&me->bytes[RG_MEM_STORAGE], -(long)c * 64);
    rgi_count_bytes(me, RG_MEM_HEADER, false, RG_HEADER_BYTES, (long)c * 64);
}

/* Where there is an observer, it may give the storage. */
static __attribute__((noinline)) bool allocate_slowly(rg_tensor *t, rg_observer *observer) {
    rgi_set_strides(t);
    RG_FAIL_IF(t->numel > INT64_MAX / 16, NULL, "Storage size calculation overflowed with sizes=%s",
               RG_SHAPE_TEXT(t));
    size_t bytes = (size_t)t->numel * rgi_sizeof(t->dtype);
    if (RG_UNLIKELY(observer != NULL) && observer->allocate)
        return observer->allocate(observer, t, bytes);
    rg_storage *s = rgi_alloc_fast(RG_STORAGE_HEADER + bytes, RG_MEM_STORAGE);
    if (!s)
        return false;
    rgi_storage_begin(t, s, bytes);
    return true;
}

bool rgi_allocate(rg_tensor *t) {
    rg_thread *me = &rgi_this;
    if (me->observer || !rgi_lay_out(t, t->ndim, t->size))
        return allocate_slowly(t, me->observer);
    size_t bytes = (size_t)t->numel * rgi_sizeof(t->dtype),
           c = rgi_small_class(RG_STORAGE_HEADER + bytes, RG_MEM_STORAGE);
    if (RG_UNLIKELY(c >= RG_SMALL_CLASSES || !me->small[c].first || me->fail_at))
        return allocate_slowly(t, NULL);
    t->flags |= RG_CONTIGUOUS;
    rgi_storage_begin(t, rgi_take(me, c), bytes);
    rgi_count_bytes(me, RG_MEM_STORAGE, true, (long)c * 64, 0);
    return true;
}

static rg_tensor *header_of_size(rg_dtype dtype, int ndim, const int64_t *size) {
    rg_tensor *t = rgi_header_new();
    if (!t)
        return NULL;
    t->dtype = dtype;
    t->ndim = (uint8_t)ndim;
    for (int i = 0; i < ndim; i++)
        t->size[i] = size[i];
    return t;
}

static __attribute__((noinline)) rg_tensor *new_slowly(rg_dtype dtype, int ndim,
                                                       const int64_t *size) {
    rg_observer *observer = rgi_this.observer;
    if (RG_UNLIKELY(observer != NULL) && observer->make)
        return observer->make(observer, dtype, ndim, size);
    rg_tensor *t = header_of_size(dtype, ndim, size);
    if (t && allocate_slowly(t, NULL))
        return t;
    rgi_release(t);
    return NULL;
}

rg_tensor *rgi_new_output(rg_dtype dtype, int ndim, const int64_t *size) {
    rg_tensor *t = header_of_size(dtype, ndim, size);
    if (t && rgi_allocate(t))
        return t;
    rgi_release(t);
    return NULL;
}

rg_tensor *rgi_new(rg_dtype dtype, int ndim, const int64_t *size) {
    rg_tensor *t = rgi_new_at_hand(dtype, ndim, size);
    return RG_LIKELY(t) ? t : new_slowly(dtype, ndim, size);
}

rg_tensor *rgi_new_dims(const char *op, const rg_dims *shape, int dtype) {
    if (!rgi_check_dtype(op, dtype) || rgi_dims_numel(op, shape) < 0)
        return NULL;
    return rgi_new((rg_dtype)dtype, shape->n, shape->v);
}

rg_tensor *rgi_new_like(const rg_tensor *x, rg_dtype dtype) {
    return rgi_new(dtype, x->ndim, x->size);
}

rg_tensor *rgi_new_dense_like(const rg_tensor *x, rg_dtype dtype) {
    int order[RG_MAX_DIMS];
    rg_tensor *t = rgi_new_like(x, dtype);
    if (!t || t->numel == 0 || rgi_memory_order(x, order))
        return t;
    int64_t stride = 1;
    for (int d = t->ndim - 1; d >= 0; d--) {
        t->stride[order[d]] = stride;
        stride *= t->size[order[d]];
    }
    rgi_update_flags(t);
    return t;
}

rg_tensor *rgi_alias(rg_tensor *t) {
    rg_tensor *a = rgi_alloc_fast(sizeof *a, RG_MEM_HEADER);
    if (a)
        rgi_alias_begin(a, t);
    return a;
}

bool (*rgi_write_guard)(rg_tensor *t, const char *op, bool recorded);

bool rgi_may_overwrite(const rg_tensor *t, const char *op) {
    return !rgi_overlaps_itself(t)
           || rgi_fail(
               RG_RUNTIME_ERROR, op,
               "unsupported operation: more than one element of the written-to tensor refers "
               "to a single memory location. Please clone() the tensor before performing the operation.");
}

bool rgi_may_write(rg_tensor *t, const char *op, bool recorded) {
    return rgi_check(t, op) && rgi_may_overwrite(t, op)
           && (!rgi_write_guard || rgi_write_guard(t, op, recorded));
}

void rgi_wrote(rg_tensor *t, const char *op) {
    rgi_may_do_once(op);
    rgi_count_write(t, op);
}

void rgi_count_write(rg_tensor *t, const char *op) {
    t->storage->version++;
    t->storage->mutation = op;
}
