/*
 * storage.h: how tensors and the memory behind them are born, shared, written to
 * and released. A new tensor belongs to the caller, who releases it or gives it
 * to the scope; only what rgi_own returns is a user's.
 */
#pragma once

#include "dtype.h"
#include "memory.h"
#include "shape.h"

/* ---- births --------------------------------------------------------------------- */

/* Returns a tensor that is alive, with one reference, of 0 dims and without storage. */
static inline rg_tensor *rgi_header_new(void);
/* Gives t contiguous strides, and storage for its size. */
bool rgi_allocate(rg_tensor *t);
/* Return both, with elements that have no value yet. */
rg_tensor *rgi_new(rg_dtype dtype, int ndim, const int64_t *size);
rg_tensor *rgi_new_like(const rg_tensor *x, rg_dtype dtype);
/* Returns the same as rgi_new for an op's output, to which the observer may give a storage. */
rg_tensor *rgi_new_output(rg_dtype dtype, int ndim, const int64_t *size);
/* Returns one of x's shape which has no gaps, and whose dims lie in the order of x's. */
rg_tensor *rgi_new_dense_like(const rg_tensor *x, rg_dtype dtype);
/* Returns what a user asked for, after a look at the shape and the dtype. */
rg_tensor *rgi_new_dims(const char *op, const rg_dims *shape, int dtype);
/* Returns a new tensor on t's storage, without history. */
rg_tensor *rgi_alias(rg_tensor *t);

/* ---- references ----------------------------------------------------------------- */

static inline void rgi_retain(rg_tensor *t);
/* Takes a reference away; NULL and RG_NONE have none. */
static inline void rgi_release(rg_tensor *t);
/* Ends a tensor that has no reference any more. */
void rgi_destroy(rg_tensor *t);

static inline void rgi_retain(rg_tensor *t) { RG_COUNT_UP(&t->refs, 1); }

static inline void rgi_release(rg_tensor *t) {
    if (t && t != RG_NONE && RG_COUNT_DOWN(&t->refs, 1))
        rgi_destroy(t);
}

/* ---- writes --------------------------------------------------------------------- */

/* Counts a write to t's storage that an observer knows of. */
void rgi_count_write(rg_tensor *t, const char *op);
/* Counts a write that can't be done again, and tells the observer. */
void rgi_wrote(rg_tensor *t, const char *op);

/* Returns whether op may write to t in place; else fails with torch's sentence. The guard is the
 * autograd layer's: a leaf that requires grad stays as it is, and a result of the graph is written
 * to only by what is recorded. */
bool rgi_may_write(rg_tensor *t, const char *op, bool recorded);
extern bool (*rgi_write_guard)(rg_tensor *t, const char *op, bool recorded);
/* Returns whether each element of t has a place of its own; else fails. */
bool rgi_may_overwrite(const rg_tensor *t, const char *op);

/* ---- how births are made ---------------------------------------------------------- */

enum { RG_HEADER_BYTES = (sizeof(rg_tensor) + 63) / 64 * 64 }; /* of one, as the pool counts */
enum { RG_STORAGE_HEADER = 64 }; /* the data follow at a multiple of 64 */
_Static_assert(sizeof(rg_storage) <= RG_STORAGE_HEADER, "it fits");

/* t's own new storage. */
static inline void rgi_storage_begin(rg_tensor *t, rg_storage *s, size_t bytes) {
    memset(s, 0, sizeof *s);
    atomic_store_explicit(&s->refs, 1, memory_order_relaxed);
    s->bytes = bytes;
    s->data = (char *)s + RG_STORAGE_HEADER;
    t->storage = s;
    t->data = s->data;
}

static inline rg_tensor *rgi_header_begin(rg_tensor *t) {
    memset(t, 0, offsetof(rg_tensor, size));
    t->state = RG_ALIVE;
    atomic_store_explicit(&t->refs, 1, memory_order_relaxed);
    return t;
}

/* What rgi_alias makes. */
static inline void rgi_alias_begin(rg_tensor *a, const rg_tensor *t) {
    RG_COUNT_UP(&t->storage->refs, 1);
    a->storage = t->storage;
    a->state = RG_ALIVE;
    atomic_store_explicit(&a->refs, 1, memory_order_relaxed);
    a->dtype = t->dtype;
    a->ndim = t->ndim;
    a->flags = t->flags & (RG_CONTIGUOUS | RG_WEAK);
    a->output = 0;
    atomic_store_explicit(&a->slot, 0, memory_order_relaxed);
    atomic_store_explicit(&a->kept, 0, memory_order_relaxed);
    a->rebased = t->rebased;
    a->numel = t->numel;
    a->data = t->data;
    a->history = NULL;
    a->name = NULL;
    memcpy(a->size, t->size, sizeof a->size);
    memcpy(a->stride, t->stride, sizeof a->stride);
}

static inline rg_tensor *rgi_header_new(void) {
    rg_tensor *t = rgi_alloc_fast(sizeof *t, RG_MEM_HEADER);
    return t ? rgi_header_begin(t) : NULL;
}

/* t's size, and strides and count of what is contiguous, if each is small; else false: it may be
 * empty, or more than fits. */
static inline bool rgi_lay_out(rg_tensor *t, int ndim, const int64_t *size) {
    int64_t numel = 1;
    for (int d = ndim; d-- > 0; numel *= t->size[d]) {
        if (RG_UNLIKELY((uint64_t)size[d] - 1 >= 127))
            return false;
        t->size[d] = size[d];
        t->stride[d] = numel;
    }
    t->numel = numel;
    return true;
}

/* What rgi_new makes, both blocks at once, of what is small and at hand; else NULL, without an
 * error. */
static inline rg_tensor *rgi_new_at_hand(rg_dtype dtype, int ndim, const int64_t *size) {
    rg_thread *me = &rgi_this;
    /* of its count and all behind the list makes no use */
    rg_tensor *t = (rg_tensor *)me->small[0].first;
    if (RG_UNLIKELY(!t || me->fail_at || me->observer || !rgi_lay_out(t, ndim, size)))
        return NULL;
    size_t bytes = (size_t)t->numel * rgi_sizeof(dtype),
           c = rgi_small_class(RG_STORAGE_HEADER + bytes, RG_MEM_STORAGE);
    rg_free_block *block = c < RG_SMALL_CLASSES ? me->small[c].first : NULL;
    int64_t numel = t->numel;
    if (RG_UNLIKELY(!block))
        return NULL;
    rgi_take(me, 0);
    rgi_take(me, c);
    rgi_header_begin(t);
    t->dtype = dtype;
    t->flags = RG_CONTIGUOUS;
    t->ndim = (uint8_t)ndim;
    t->numel = numel;
    rgi_storage_begin(t, (rg_storage *)block, bytes);
    rgi_count_to(&me->bytes[RG_MEM_HEADER], RG_HEADER_BYTES);
    rgi_count_bytes(me, RG_MEM_STORAGE, true, (long)c * 64, RG_HEADER_BYTES);
    return t;
}

/* rgi_new_like(x, x->dtype), where x is contiguous. */
static inline rg_tensor *rgi_new_beside(const rg_tensor *x) {
    rg_tensor *t = rgi_new_at_hand(x->dtype, x->ndim, x->size);
    return RG_LIKELY(t) ? t : rgi_new_like(x, x->dtype);
}

static inline void rgi_storage_release(rg_storage *s) {
    if (RG_COUNT_DOWN(&s->refs, 1))
        rgi_free_fast(s, RG_STORAGE_HEADER + s->bytes, RG_MEM_STORAGE);
}
