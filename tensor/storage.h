/*
 * storage.h: how tensors and their storage are made, shared, written and released. The functions
 * that make a tensor return it with one reference, which belongs to the caller. The caller releases
 * that reference, or gives it to the innermost scope by rgi_own, which returns the tensor for the
 * program.
 */
#pragma once

#include "dtype.h"
#include "memory.h"
#include "shape.h"

/* ---- making tensors -------------------------------------------------------------------------- */

/* Returns a 0-d tensor with one reference and no storage. Returns NULL if memory runs out. */
static inline rg_tensor *rgi_header_new(void);
/* Sets contiguous strides for t's shape, and allocates its storage. Returns false if that fails. */
bool rgi_allocate(rg_tensor *t);
/* Returns a contiguous tensor with one reference, or NULL. Its elements are uninitialised. */
rg_tensor *rgi_new(rg_dtype dtype, int ndim, const int64_t *size);
/* Does the same as rgi_new. If it fails, the error names the op `op`. */
rg_tensor *rgi_new_named(const char *op, rg_dtype dtype, int ndim, const int64_t *size);
/* Returns a tensor of x's shape that is made by rgi_new. */
rg_tensor *rgi_new_like(const rg_tensor *x, rg_dtype dtype);
/* Returns a contiguous tensor for the output of an op, with one reference and uninitialised. Does
 * the same as rgi_new, except that an observer may allocate the storage. */
static inline rg_tensor *rgi_new_output(rg_dtype dtype, int ndim, const int64_t *size);
/* Returns a tensor with x's shape and without gaps, whose dims have x's order in memory (see
 * rgi_lay_out_as). */
rg_tensor *rgi_new_dense_like(const rg_tensor *x, rg_dtype dtype);
/* Checks x, and returns what rgi_new_dense_like returns for x's dtype. If it fails, the error names
 * the op `op`. */
rg_tensor *rgi_new_like_given(const char *op, rg_tensor *x);
/* Returns a tensor for the result of an elementwise function of these n inputs, which all have the
 * shape of in[0]. The strides are those of rgi_lay_out_between. */
rg_tensor *rgi_new_between(rg_dtype dtype, int n, rg_tensor *const in[]);
/* Returns a new tensor with a shape and a dtype that a program has passed. Fails and returns NULL
 * if they aren't valid. */
rg_tensor *rgi_new_dims(const char *op, const rg_dims *shape, int dtype);
/* Returns a new tensor that shares t's storage, shape and strides, without history. */
rg_tensor *rgi_alias(rg_tensor *t);

/* ---- references ----------------------------------------------------------------- */

static inline void rgi_retain(rg_tensor *t);
/* Removes a reference to t, and releases t if it was the last one. Does nothing for NULL and
 * RG_NONE. */
static inline void rgi_release(rg_tensor *t);
/* Releases a tensor that has no reference left, and leaves it in the state RG_DEAD. */
void rgi_destroy(rg_tensor *t);
/* Removes t's label, if it has one, and with it t's name and a frozen leaf's history. */
void rgi_forget_name(rg_tensor *t);

static inline void rgi_retain(rg_tensor *t) { RG_COUNT_UP(&t->refs, 1); }

static inline void rgi_release(rg_tensor *t) {
    if (t && t != RG_NONE && RG_COUNT_DOWN(&t->refs, 1))
        rgi_destroy(t);
}

/* ---- views ---------------------------------------------------------------------- */

/* Turns y, a new tensor that shares x's storage, into a view. The base of y is x's base if x is a
 * view, and otherwise x. */
static inline void rgi_view_join(rg_tensor *y, rg_tensor *x) {
    y->base = x->flags & RG_VIEW ? rgi_base_of(x) : x;
    y->flags |= RG_VIEW | (x->flags & (RG_OF_LIST | RG_UNTRACKED));
    atomic_store_explicit(&y->version, x->storage->version, memory_order_relaxed);
    rgi_retain(y->base);
}

/* Turns the view t into a tensor that isn't a view, and removes the reference to its base. */
static inline void rgi_view_leave(rg_tensor *t) {
    t->flags &= (uint8_t) ~(RG_VIEW | RG_OF_LIST | RG_UNTRACKED);
    rgi_release(rgi_base_of(t));
}

/* ---- writes --------------------------------------------------------------------- */

/* Returns whether the function `op`, which isn't recorded in the graph, may write to t in place. If
 * it may not, fails with torch's message. autograd/ sets rgi_write_guard to a function that fails
 * for leaves that require gradients and for results of the graph. */
bool rgi_may_write(rg_tensor *t, const char *op);
extern bool (*rgi_write_guard)(rg_tensor *t, const char *op);
/* Returns whether inference mode allows writing to t: either t wasn't made in inference mode, or
 * the thread is in inference mode. Otherwise fails with torch's message. */
static inline bool rgi_may_touch(const rg_tensor *t, const char *op);
bool rgi_fail_for_inference(const char *op) __attribute__((cold));
static inline bool rgi_may_touch(const rg_tensor *t, const char *op) {
    return RG_LIKELY(!t->storage->inference) || rgi_this.inference || rgi_fail_for_inference(op);
}

/* ---- inlined parts of making tensors --------------------------------------------------------- */

enum {
    /* The number of bytes that a tensor's header counts for in memory statistics. */
    RG_HEADER_BYTES = (sizeof(rg_tensor) + 63) / 64 * 64,
    RG_STORAGE_HEADER = 64, /* The offset of a storage's data. */
};
_Static_assert(sizeof(rg_storage) <= RG_STORAGE_HEADER, "a storage's header fits");
_Static_assert(sizeof(rg_tensor) <= 192, "a tensor's header takes three cache lines");
_Static_assert(offsetof(rg_tensor, state) == offsetof(rg_free_block, keeps_state),
               "a tensor's state outlives it in the free list");

/* Returns how many bytes all of t's elements take together. */
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

/* Initialises a block as t's storage, with one reference. */
static inline void rgi_storage_begin(rg_tensor *t, rg_storage *s, size_t bytes) {
    memset(s, 0, sizeof *s);
    atomic_store_explicit(&s->refs, 1, memory_order_relaxed);
    s->bytes = bytes;
    s->data = (char *)s + RG_STORAGE_HEADER;
    s->inference = rgi_this.inference;
    t->storage = s;
    t->data = s->data;
}

/* Records that an optimizer's step uses the gradient. Returns true if the gradient still contains
 * what an earlier step used. That is so if, since that step, backward runs have added to the
 * gradient, and all other writes have only scaled it, as clipping does. Returns false for parts of
 * one buffer. */
static inline bool rgi_use_gradient(const rg_tensor *grad) {
    rg_storage *s = grad->storage;
    const uint32_t used = 2 * s->version + 2;
    const bool again = RG_UNLIKELY(s->stepped & 1) && s->stepped == used + 1;
    s->stepped = used;
    return again;
}

/* Initialises the header `a`, which may be in any memory, as an alias of t. */
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

/* rgi_new_slowly does the same as rgi_new_named in the rarer cases: a free list is empty, a size
 * isn't small, or an observer makes the tensor. `op` may be NULL; then the error names the op that
 * is being applied. rgi_new_observed does the same as rgi_new_output if there is an observer. */
rg_tensor *rgi_new_slowly(const char *op, rg_dtype dtype, int ndim, const int64_t *size);
rg_tensor *rgi_new_observed(rg_dtype dtype, int ndim, const int64_t *size);

/* Does the same as rgi_new_named if there is no observer; `op` may be NULL. The inlined part is for
 * the most common case, in which the free lists have a header and a storage, and every size is
 * small. In other cases rgi_new_slowly is called. */
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

/* Returns a tensor of x's shape and dtype. Requires that x is contiguous and that there is no
 * observer. */
static inline rg_tensor *rgi_new_beside(const rg_tensor *x) {
    return rgi_new_alone(NULL, (rg_dtype)x->dtype, x->ndim, x->size);
}

/* Removes a reference to the storage, and frees the storage if that was the last reference. */
static inline void rgi_storage_release(rg_storage *s) {
    if (RG_COUNT_DOWN(&s->refs, 1))
        rgi_free_fast(s, RG_STORAGE_HEADER + s->bytes, RG_MEM_STORAGE);
}
