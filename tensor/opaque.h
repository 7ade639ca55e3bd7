/*
 * opaque.h: what a file needs of tensors that doesn't know their struct, beside the functions for
 * programs: references, writes in place, the memory behind a tensor, and its shape's text.
 */
#pragma once

#include "tensor.h"

/* ---- references ------------------------------------------------------------------- */

/* The states of a tensor, numbers that are unlikely to be elsewhere in memory. The states of a
 * released tensor say what released it, for the error of a later use; RG_DEAD is for a scope. They
 * differ in their highest byte only. */
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

/* Replaces the reference in *place, which may be NULL, by one to t, or by none where t is NULL. */
void rgi_set_reference(rg_tensor **place, rg_tensor *t);
/* Removes a reference. If it was the last one, leaves the tensor in this state, which says what
 * released it. NULL and RG_NONE have no references. */
void rgi_release_as(rg_tensor *t, uint32_t state);
/* Adds a reference, gives it to the innermost scope, and returns t. */
rg_tensor *rgi_lend(rg_tensor *t);

/* ---- writes in place, without a record --------------------------------------------- */

/* Returns whether no two elements of t share memory, and t wasn't made in inference mode or the
 * thread is in inference mode; otherwise fails with torch's sentence. */
bool rgi_may_overwrite(const rg_tensor *t, const char *op);
/* Counts a write to t's memory. The caller tells the observer. */
void rgi_count_write(rg_tensor *t, const char *op);

/* ---- memory ------------------------------------------------------------------------ */

/* Returns a pointer to t's first element, as rg_data does, also while a step is recorded. */
void *rgi_data(const rg_tensor *t);
/* Returns a pointer behind the element that lies last in memory. */
const void *rgi_data_end(const rg_tensor *t);
/* Returns whether t's elements are all that its storage has room for. */
bool rgi_fills_storage(const rg_tensor *t);

/* ---- failures ---------------------------------------------------------------------- */

/* Fails with RG_NOT_IMPLEMENTED, and a sentence like: not implemented for 'Long'. Returns false. If
 * `op` is NULL, the error has the name of the op that is being applied. */
bool rgi_lacks_dtype(const char *op, rg_dtype dtype) __attribute__((cold));

/* ---- shapes ------------------------------------------------------------------------ */

/* Returns whether two tensors have the same shape, as rgi_same_shape (shape.h) does to a file that
 * sees the struct. */
bool rgi_have_same_shape(const rg_tensor *a, const rg_tensor *b);
/* Writes a shape into the buffer, such as [6, 3], and returns the buffer. */
const char *rgi_shape_text(int n, const int64_t *size, char buf[192]);
/* The text of dims, which lasts to the end of the block. */
#define RG_DIMS_TEXT(d) rgi_shape_text((d)->n, (d)->v, (char[192]){ 0 })
/* The text of a tensor's shape, which lasts as long. */
#define RG_SIZES_TEXT(t) RG_DIMS_TEXT(((rg_dims[]){ rg_shape(t) }))
