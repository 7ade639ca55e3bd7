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
/* Return a contiguous tensor with one reference, whose elements have no value yet. */
rg_tensor *rgi_new(rg_dtype dtype, int ndim, const int64_t *size);
/* Does the same; a failure has the op's name. */
rg_tensor *rgi_new_named(const char *op, rg_dtype dtype, int ndim, const int64_t *size);
rg_tensor *rgi_new_like(const rg_tensor *x, rg_dtype dtype);
/* Returns such a tensor for an op's output; an observer may be the one that gives it the
 * storage. */
static inline rg_tensor *rgi_new_output(rg_dtype dtype, int ndim, const int64_t *size);
/* Returns a tensor of x's shape that has no gaps, and lies in memory as x does (rgi_lay_out_as). */
rg_tensor *rgi_new_dense_like(const rg_tensor *x, rg_dtype dtype);
/* Returns such a tensor of x's dtype for a function of x; a failure has the op's name. */
rg_tensor *rgi_new_like_given(const char *op, rg_tensor *x);
/* Returns a tensor for an elementwise result of these inputs, which have one shape, laid out by
 * rgi_lay_out_between. */
rg_tensor *rgi_new_between(rg_dtype dtype, int n, rg_tensor *const in[]);
/* Returns a new tensor as a user asked for it; fails if the shape or the dtype isn't valid. */
rg_tensor *rgi_new_dims(const char *op, const rg_dims *shape, int dtype);
/* Returns a new tensor on t's storage, without history. */
rg_tensor *rgi_alias(rg_tensor *t);

/* ---- references ----------------------------------------------------------------- */

static inline void rgi_retain(rg_tensor *t);
/* Takes a reference away; NULL and RG_NONE have none. */
static inline void rgi_release(rg_tensor *t);
/* Does so, and if it was the last one, leaves the tensor in this state, which tells what released
 * it. */
void rgi_release_as(rg_tensor *t, uint32_t state);
/* Ends a tensor that has no reference any more, and leaves it in the state RG_DEAD. */
void rgi_destroy(rg_tensor *t);
/* Takes t's name away, if it has one. */
void rgi_forget_name(rg_tensor *t);

static inline void rgi_retain(rg_tensor *t) { RG_COUNT_UP(&t->refs, 1); }

static inline void rgi_release(rg_tensor *t) {
    if (t && t != RG_NONE && RG_COUNT_DOWN(&t->refs, 1))
        rgi_destroy(t);
}

/* ---- views ---------------------------------------------------------------------- */

/* Makes y, which is new and has x's storage, a view of x's base, or of x if that is no view. */
static inline void rgi_view_join(rg_tensor *y, rg_tensor *x) {
    y->base = x->flags & RG_VIEW ? rgi_base_of(x) : x;
    y->flags |= RG_VIEW | (x->flags & (RG_OF_LIST | RG_UNTRACKED));
    atomic_store_explicit(&y->version, x->storage->version, memory_order_relaxed);
    rgi_retain(y->base);
}

/* Makes a view a tensor of its own, which follows no base. */
static inline void rgi_view_leave(rg_tensor *t) {
    t->flags &= (uint8_t) ~(RG_VIEW | RG_OF_LIST | RG_UNTRACKED);
    rgi_release(rgi_base_of(t));
}

/* ---- writes --------------------------------------------------------------------- */

/* Counts a write to t's storage. An observer is told by whoever writes. */
void rgi_count_write(rg_tensor *t, const char *op);

/* Returns whether `op`, which isn't recorded, may write to t in place; else fails with torch's
 * sentence. The guard is the autograd layer's, and refuses leaves and results of the graph. */
bool rgi_may_write(rg_tensor *t, const char *op);
extern bool (*rgi_write_guard)(rg_tensor *t, const char *op);
/* Returns whether each element of t has a place of its own, and rgi_may_touch; else fails. */
bool rgi_may_overwrite(const rg_tensor *t, const char *op);
/* Returns whether t was not made in inference mode, or this is on; else fails with torch's
 * sentence. */
static inline bool rgi_may_touch(const rg_tensor *t, const char *op);
bool rgi_fail_for_inference(const char *op) __attribute__((cold));
static inline bool rgi_may_touch(const rg_tensor *t, const char *op) {
    return RG_LIKELY(!t->storage->inference) || rgi_this.inference || rgi_fail_for_inference(op);
}

/* ---- how births are made ---------------------------------------------------------- */

enum {
    RG_HEADER_BYTES = (sizeof(rg_tensor) + 63) / 64 * 64, /* The bytes of a header, as counted. */
    RG_STORAGE_HEADER = 64, /* A storage's data follow at a multiple of 64 bytes. */
};
_Static_assert(sizeof(rg_storage) <= RG_STORAGE_HEADER, "a storage's header fits");
_Static_assert(sizeof(rg_tensor) <= 192, "a tensor's header takes three cache lines");
_Static_assert(offsetof(rg_tensor, state) == offsetof(rg_free_block, keeps_state),
               "a tensor's state outlives it in the free list");

/* Returns the bytes of t's elements. */
static inline size_t rgi_bytes_of(const rg_tensor *t) {
    return (size_t)t->numel * rgi_sizeof((rg_dtype)t->dtype);
}

static inline rg_tensor *rgi_header_begin(rg_tensor *t) {
    memset(t, 0, offsetof(rg_tensor, size));
    t->state = RG_ALIVE;
    atomic_store_explicit(&t->refs, 1, memory_order_relaxed);
    return t;
}

static inline rg_tensor *rgi_header_new(void) {
    rg_tensor *t = rgi_alloc_fast(sizeof *t, RG_MEM_HEADER);
    return t ? rgi_header_begin(t) : NULL;
}

/* Makes the block a storage with one reference, which is t's. */
static inline void rgi_storage_begin(rg_tensor *t, rg_storage *s, size_t bytes) {
    memset(s, 0, sizeof *s);
    atomic_store_explicit(&s->refs, 1, memory_order_relaxed);
    s->bytes = bytes;
    s->data = (char *)s + RG_STORAGE_HEADER;
    s->inference = rgi_this.inference;
    t->storage = s;
    t->data = s->data;
}

/* Makes an alias of t in the header a, which may lie anywhere. */
static inline void rgi_alias_begin(rg_tensor *a, const rg_tensor *t) {
    RG_COUNT_UP(&t->storage->refs, 1);
    a->storage = t->storage;
    a->state = RG_ALIVE;
    atomic_store_explicit(&a->refs, 1, memory_order_relaxed);
    a->dtype = t->dtype;
    a->ndim = t->ndim;
    a->flags = t->flags & (RG_CONTIGUOUS | RG_PLAIN | RG_WEAK);
    a->output = 0;
    atomic_store_explicit(&a->slot, 0, memory_order_relaxed);
    atomic_store_explicit(&a->kept, 0, memory_order_relaxed);
    a->numel = t->numel;
    a->data = t->data;
    a->history = NULL;
    memcpy(a->size, t->size, sizeof a->size);
    memcpy(a->stride, t->stride, sizeof a->stride);
}

/* Serve rgi_new and rgi_new_output where a block isn't at hand, a size isn't small, or there
 * is an observer. A failure has the op's name, or for NULL that of the op that is being applied. */
rg_tensor *rgi_new_slowly(const char *op, rg_dtype dtype, int ndim, const int64_t *size);
rg_tensor *rgi_new_observed(rg_dtype dtype, int ndim, const int64_t *size);

/* Does what rgi_new does where nobody observes, inlined where both blocks are at hand and every
 * size is small. It fails as rgi_new_slowly does. */
static inline rg_tensor *rgi_new_alone(const char *op, rg_dtype dtype, int ndim,
                                       const int64_t *size) {
    rg_tensor *t = rgi_header_at_hand();
    if (RG_UNLIKELY(!t || !rgi_lay_out(t, ndim, size)))
        return rgi_new_slowly(op, dtype, ndim, size);
    int64_t numel = t->numel;
    size_t bytes = (size_t)numel * rgi_sizeof(dtype);
    rg_storage *s = rgi_take_both(RG_HEADER_BYTES, RG_STORAGE_HEADER + bytes);
    if (RG_UNLIKELY(!s))
        return rgi_new_slowly(op, dtype, ndim, size);
    rgi_header_begin(t);
    t->dtype = (uint8_t)dtype;
    t->flags = RG_CONTIGUOUS | RG_PLAIN;
    t->ndim = (uint8_t)ndim;
    t->numel = numel;
    rgi_storage_begin(t, s, bytes);
    return t;
}

static inline rg_tensor *rgi_new_output(rg_dtype dtype, int ndim, const int64_t *size) {
    if (RG_UNLIKELY(rgi_this.observer != NULL))
        return rgi_new_observed(dtype, ndim, size);
    return rgi_new_alone(NULL, dtype, ndim, size);
}

/* Returns a tensor of x's shape and dtype. Requires that x is contiguous, and that nobody
 * observes. */
static inline rg_tensor *rgi_new_beside(const rg_tensor *x) {
    return rgi_new_alone(NULL, (rg_dtype)x->dtype, x->ndim, x->size);
}

/* Takes a reference to the storage away, and frees the storage with the last one. */
static inline void rgi_storage_release(rg_storage *s) {
    if (RG_COUNT_DOWN(&s->refs, 1))
        rgi_free_fast(s, RG_STORAGE_HEADER + s->bytes, RG_MEM_STORAGE);
}
