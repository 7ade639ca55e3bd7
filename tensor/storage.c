/*
 * storage.c: makes and releases tensors and their storage, and counts writes to the storage. Making
 * a tensor takes no locked instruction, because no other thread sees its reference count yet.
 * Releasing a tensor takes none if its count is 1, because no other thread has a reference.
 */
#include "error.h"
#include "refs.h"
#include "storage.h"
#include "thread.h"
#include "observer.h"

/* ---- making tensors -------------------------------------------------------------------------- */

/* Allocates t's storage, or lets the observer allocate it. Returns false on failure. */
static bool allocate(rg_tensor *t, rg_observer *observer) {
    rgi_set_strides(t);
    RG_FAIL_IF(t->numel > RG_NUMEL_MAX, NULL, "Storage size calculation overflowed with sizes=%s",
               RG_SHAPE_TEXT(t));
    size_t bytes = rgi_bytes_of(t);
    if (RG_UNLIKELY(observer != NULL) && observer->allocate)
        return observer->allocate(observer, t, bytes);
    rg_storage *s = rgi_alloc_fast(RG_STORAGE_HEADER + bytes, RG_MEM_STORAGE);
    if (!s)
        return false;
    rgi_storage_begin(t, s, bytes);
    return true;
}

bool rgi_allocate(rg_tensor *t) { return allocate(t, rgi_this.observer); }

/* Returns a header of this shape without storage. Returns NULL if memory runs out. */
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

static rg_tensor *new_by(rg_observer *observer, rg_dtype dtype, int ndim, const int64_t *size) {
    rg_tensor *t = header_of_size(dtype, ndim, size);
    if (t && allocate(t, observer))
        return t;
    rgi_release(t);
    return NULL;
}

__attribute__((noinline)) rg_tensor *rgi_new_slowly(const char *op, rg_dtype dtype, int ndim,
                                                    const int64_t *size) {
    rg_observer *observer = rgi_this.observer;
    const char *outer = rgi_applying;
    if (op)
        rgi_applying = op;
    rg_tensor *t = RG_UNLIKELY(observer != NULL) && observer->make
                       ? observer->make(observer, dtype, ndim, size)
                       : new_by(NULL, dtype, ndim, size);
    rgi_applying = outer;
    return t;
}

rg_tensor *rgi_new_observed(rg_dtype dtype, int ndim, const int64_t *size) {
    return new_by(rgi_this.observer, dtype, ndim, size);
}

static inline rg_tensor *new_named(const char *op, rg_dtype dtype, int ndim, const int64_t *size) {
    rg_observer *observer = rgi_this.observer;
    if (RG_UNLIKELY(observer != NULL) && observer->make)
        return rgi_new_slowly(op, dtype, ndim, size);
    return rgi_new_alone(op, dtype, ndim, size);
}

RG_HOT rg_tensor *rgi_new(rg_dtype dtype, int ndim, const int64_t *size) {
    return new_named(NULL, dtype, ndim, size);
}

RG_HOT rg_tensor *rgi_new_named(const char *op, rg_dtype dtype, int ndim, const int64_t *size) {
    return new_named(op, dtype, ndim, size);
}

rg_tensor *rgi_new_dims(const char *op, const rg_dims *shape, int dtype) {
    if (!rgi_check_dtype(op, dtype) || !rgi_check_sizes(op, shape))
        return NULL;
    return new_named(op, (rg_dtype)dtype, shape->n, shape->v);
}

RG_HOT rg_tensor *rgi_new_like(const rg_tensor *x, rg_dtype dtype) {
    return rgi_new(dtype, x->ndim, x->size);
}

rg_tensor *rgi_new_dense_like(const rg_tensor *x, rg_dtype dtype) {
    rg_tensor *t = rgi_new_like(x, dtype);
    if (t && !(x->flags & RG_PLAIN))
        rgi_lay_out_as(t, x);
    return t;
}

rg_tensor *rgi_new_like_given(const char *op, rg_tensor *x) {
    if (!rgi_check(x, op))
        return NULL;
    const char *outer = rgi_applying;
    rgi_applying = op;
    rg_tensor *t = rgi_new_dense_like(x, (rg_dtype)x->dtype);
    rgi_applying = outer;
    return t;
}

rg_tensor *rgi_new_between(rg_dtype dtype, int n, rg_tensor *const in[]) {
    rg_tensor *t = rgi_new_like(in[0], dtype);
    if (t)
        rgi_lay_out_between(t, n, in);
    return t;
}

RG_HOT rg_tensor *rgi_alias(rg_tensor *t) {
    rg_tensor *a = rgi_alloc_fast(sizeof *a, RG_MEM_HEADER);
    if (a)
        rgi_alias_begin(a, t);
    return a;
}

/* ---- releasing tensors ----------------------------------------------------------------------- */

/* Frees a tensor's header and removes a reference to its storage. First writes `state` into the
 * header: a free list doesn't overwrite that field, so a later use of the tensor is noticed. */
static inline void free_tensor(rg_tensor *t, uint32_t state) {
    rg_storage *s = t->storage;
    t->state = state;
    if (s && RG_COUNT_DOWN(&s->refs, 1))
        rgi_free_both(t, RG_HEADER_BYTES, s, RG_STORAGE_HEADER + s->bytes);
    else
        rgi_free_both(t, RG_HEADER_BYTES, NULL, 0);
}

/* Releases t's history and its label, if it has them. */
static inline void leave_others(rg_tensor *t) {
    if (t->history)
        t->history->cls->release(t->history);
    if (RG_UNLIKELY(t->flags & RG_NAMED))
        rgi_forget_name(t);
}

/* Releases a tensor that has a history, a label or a base. */
RG_HOT static __attribute__((noinline)) void destroy_known(rg_tensor *t) {
    leave_others(t);
    if (t->flags & RG_VIEW)
        rgi_release(t->base);
    free_tensor(t, RG_DEAD);
}

/* Releases t, which has no reference left. Each branch ends with a call of another function, so
 * that this function needn't save registers. */
RG_HOT __attribute__((noinline)) void rgi_destroy(rg_tensor *t) {
    if (t->history || t->flags & (RG_VIEW | RG_NAMED))
        destroy_known(t);
    else
        free_tensor(t, RG_DEAD);
}

void rgi_release_as(rg_tensor *t, uint32_t state) {
    while (t && t != RG_NONE && RG_COUNT_DOWN(&t->refs, 1)) {
        leave_others(t);
        rg_tensor *base = t->flags & RG_VIEW ? t->base : NULL;
        free_tensor(t, state);
        t = base;
    }
}

void rgi_set_reference(rg_tensor **place, rg_tensor *t) {
    rg_tensor *before = *place;
    if (t)
        rgi_retain(t);
    *place = t;
    rgi_release(before);
}

int64_t rg_live_tensors(void) { return rg_memory_stats().headers / RG_HEADER_BYTES; }

/* ---- writes ------------------------------------------------------------------------ */

bool (*rgi_write_guard)(rg_tensor *t, const char *op);

bool rgi_fail_for_inference(const char *op) {
    return rgi_fail(RG_RUNTIME_ERROR, op,
                    "Inplace update to inference tensor outside InferenceMode is not allowed.You "
                    "can make a clone to get a normal tensor before doing inplace update.See "
                    "https://github.com/pytorch/rfcs/pull/17 for more details.");
}

RG_HOT bool rgi_may_overwrite(const rg_tensor *t, const char *op) {
    if (!rgi_may_touch(t, op))
        return false;
    return !rgi_overlaps_itself(t)
           || rgi_fail(RG_RUNTIME_ERROR, op,
                       "unsupported operation: more than one element of the written-to tensor "
                       "refers to a single memory location. Please clone() the tensor before "
                       "performing the operation.");
}

bool rgi_may_write(rg_tensor *t, const char *op) {
    return rgi_check(t, op) && (!rgi_write_guard || rgi_write_guard(t, op))
           && rgi_may_overwrite(t, op);
}

RG_HOT void rgi_count_write(rg_tensor *t, const char *op) {
    t->storage->version++;
    t->storage->mutation = op;
    t->flags &= (uint8_t)~RG_WEAK; /* A number that was written to is a tensor. */
}

/* ---- gradients that an optimizer's step has used ------------------------------------- */

/* The caller has already counted the write in `version`. If `stepped` (see rg_storage) refers to
 * the version before the write, changes `stepped` so that it refers to the new version. */
void rgi_gradient_was_scaled(rg_tensor *grad) {
    rg_storage *s = grad->storage;
    if (s->stepped / 2 == s->version)
        s->stepped += 2;
}

void rgi_gradient_was_added_to(rg_tensor *grad) {
    rg_storage *s = grad->storage;
    if (s->stepped / 2 == s->version && !(grad->flags & RG_VIEW) && rgi_fills_storage(grad))
        s->stepped = 2 * s->version + 3;
}

/* ---- memory ------------------------------------------------------------------------ */

void *rgi_data(const rg_tensor *t) { return t->data; }

const void *rgi_data_end(const rg_tensor *t) {
    const size_t bytes = rgi_sizeof((rg_dtype)t->dtype);
    return t->numel ? t->data + (size_t)(rgi_reach(t) + 1) * bytes : t->data;
}

bool rgi_fills_storage(const rg_tensor *t) {
    return t->data == t->storage->data && rgi_bytes_of(t) == t->storage->bytes;
}
