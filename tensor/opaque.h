/*
 * opaque.h: functions on tensors for files that don't see the struct of a tensor. They are about
 * references, writes in place, the memory of a tensor, and its shape as a string. The public
 * functions aren't repeated here.
 */
#pragma once

#include "tensor.h"

/* ---- references ------------------------------------------------------------------- */

/* The states of a tensor. The numbers are unlikely to occur elsewhere in memory. RG_ALIVE is the
 * state of a tensor in use. The other states differ only in their highest byte. They say what
 * released the tensor, for the error message if the program uses the tensor later. RG_DEAD means
 * that the end of a scope released it. */
enum {
    RG_ALIVE = 0x52454741,
    RG_DEAD = 0x44454144,
    RG_DROPPED = 0x45454144,
    RG_MODULE_FREED = 0x46454144,
    RG_OPTIM_FREED = 0x47454144,
    RG_LOADER_FREED = 0x48454144,
    RG_REPLAY_FREED = 0x49454144,
    RG_THREAD_ENDED = 0x4a454144,
};

/* Replaces the reference in *place, which may be NULL, by a reference to t. If t is NULL, *place
 * becomes NULL. */
void rgi_set_reference(rg_tensor **place, rg_tensor *t);
/* Removes a reference to t. If it was the last one, releases t, and leaves t's header in the given
 * state. Does nothing if t is NULL or RG_NONE. */
void rgi_release_as(rg_tensor *t, uint32_t state);
/* Adds a reference to t, owned by the innermost scope. Returns t, or NULL if memory runs out. If t
 * is NULL or RG_NONE, only returns t. */
rg_tensor *rgi_lend(rg_tensor *t);

/* ---- writes in place that the graph doesn't record ---------------------------------- */

/* Returns whether t may be overwritten in place. If two elements of t share memory, or if t was
 * made in inference mode and the thread isn't in inference mode, fails with torch's message and
 * returns false. */
bool rgi_may_overwrite(const rg_tensor *t, const char *op);
/* Counts a write to t's memory: raises the version of t's storage, and records in the storage that
 * `op` wrote last. The caller reports the write to the observer. */
void rgi_count_write(rg_tensor *t, const char *op);

/* ---- gradients that an optimizer's step has used ------------------------------------- */

/* Record that the last write to a gradient didn't overwrite it, but added to it or scaled it. By
 * this record, rgi_use_gradient (storage.h) knows that the gradient still contains what an earlier
 * step used. */
void rgi_gradient_was_added_to(rg_tensor *grad);
void rgi_gradient_was_scaled(rg_tensor *grad);

/* ---- memory ------------------------------------------------------------------------ */

/* Returns a pointer to t's first element, as rg_data does. Unlike rg_data, this function may also
 * be called while a step is recorded. */
void *rgi_data(const rg_tensor *t);
/* Returns the address behind t's last element in memory. If t is empty, returns rgi_data(t). */
const void *rgi_data_end(const rg_tensor *t);
/* Returns whether t begins where its storage begins, and has as many bytes as the storage. */
bool rgi_fills_storage(const rg_tensor *t);

/* ---- failures ---------------------------------------------------------------------- */

/* Fails with RG_NOT_IMPLEMENTED and a message such as "not implemented for 'Long'", and returns
 * false. If `op` is NULL, the error names the op that is being applied. */
bool rgi_lacks_dtype(const char *op, rg_dtype dtype) __attribute__((cold));

/* ---- shapes ------------------------------------------------------------------------ */

/* Returns whether two tensors have the same shape. Files that see the struct of a tensor call
 * rgi_same_shape (shape.h). */
bool rgi_have_same_shape(const rg_tensor *a, const rg_tensor *b);
/* Writes a shape into the buffer as a string such as [6, 3], and returns the buffer. */
const char *rgi_shape_text(int n, const int64_t *size, char buf[192]);
/* The string of the first RG_MAX_DIMS dims of an rg_dims; it lives to the end of the block. */
#define RG_DIMS_TEXT(d) \
    rgi_shape_text((d)->n < RG_MAX_DIMS ? (d)->n : RG_MAX_DIMS, (d)->v, (char[192]){ 0 })
/* The string of a tensor's shape; it lives to the end of the block. */
#define RG_SIZES_TEXT(t) RG_DIMS_TEXT(((rg_dims[]){ rg_shape(t) }))
