/*
 * lower.h: a recorded step as a list of calls of loops.
 */
#pragma once

#include "replay.h"
#include "tensor/map.h"
#include "tensor/kernels/trace.h"

/* A region that exists before the step. It is the memory of a storage, which `tensor` and other
 * tensors use; or it is a block in which an entry keeps a state, such as an optimizer's count of
 * steps, and then `storage` and `tensor` are NULL. `computed` is set if the step writes to the
 * region before it reads it. */
typedef struct rg_known_region {
    const rg_storage *storage;
    rg_tensor *tensor;
    bool computed;
} rg_known_region;

/* A lowered step. `trace` has its calls of loops. known[i] describes the trace's region i, for the
 * first n regions; the others are temporary blocks. */
typedef struct rg_lowered {
    k_trace trace;
    rg_known_region *known;
    size_t n, room;
    /* A map from storages to the numbers of their regions. */
    rg_map numbers;
} rg_lowered;

/* Lowers the step. `inputs` are the tensors that the program writes to between the steps. To find
 * the calls, repeats the step on the recording's tensors, and gives them their old elements again.
 * Fails and returns false if an operation of the step can't be lowered. */
bool rgi_replay_lower(rg_replay *r, rg_list inputs, rg_lowered *to);
/* Returns the number of the storage's region, or -1 if the step doesn't use the storage. */
int rgi_lowered_region(const rg_lowered *l, const rg_storage *s);
void rgi_lowered_free(rg_lowered *l);
/* Returns whether the memory from the first to the last element of one tensor overlaps that of the
 * other. */
bool rgi_lowered_overlap(const rg_tensor *a, const rg_tensor *b);

/* ---- for parts.c and autograd/export/compile.c ----------------------------------------- */

/* rgi_may_lower reserves the recorded step for lowering, until rgi_lowering_ends. If the step was
 * compiled, its entries are the recorded ones meanwhile. Fails and returns false if another thread
 * is lowering any step, if this step is running, or if it no longer fits (rgi_recording_fits). `op`
 * is the function that the failure names. */
bool rgi_may_lower(rg_replay *r, const char *op);
void rgi_lowering_ends(rg_replay *r);
/* Makes a region of each storage that the recording's tensors use. Returns false if memory ran
 * out. */
bool rgi_lowered_begin(const rg_replay *r, rg_lowered *l);
/* Makes the calls of the entries first .. last - 1 that `trace`, a k_trace, has noted. Returns
 * false if memory ran out. */
bool rgi_lowered_run(void *trace, size_t first, size_t last);

/* A list of n parts of the known regions. They may overlap. The array v has room for `room`. */
typedef struct {
    char *begin;
    size_t bytes;
} rg_range;
typedef struct {
    rg_range *v;
    size_t n, room;
} rg_ranges;

/* A copy of these ranges; bytes is NULL if memory ran out. */
typedef struct {
    char *bytes;
    size_t size;
    const rg_ranges *of;
} rg_memory_copy;
/* Copies these ranges, or all known regions if `of` is NULL. */
rg_memory_copy rgi_lowered_copy(const rg_lowered *l, const rg_ranges *of);
/* Writes the copy into the regions again. */
void rgi_lowered_put_back(const rg_lowered *l, const rg_memory_copy *c);
/* Returns whether the regions are equal to the copy. */
bool rgi_lowered_equals(const rg_lowered *l, const rg_memory_copy *c);
void rgi_lowered_free_copy(rg_memory_copy *c);

/* Does what the entries first .. last - 1 do. Returns false on failure. */
typedef bool rg_run_range(void *context, size_t first, size_t last);
/* Runs the entries first .. last - 1 by `own`, and then by `other` on the same memory. Sets *equal
 * to whether both succeed and compute the same, and leaves what `own` has computed. Requires that
 * the entries work on no other memory than these ranges, unless `of` is NULL. Returns false if
 * memory ran out. */
bool rgi_lowered_compare(const rg_lowered *l, const rg_ranges *of, size_t first, size_t last,
                         rg_run_range *own, void *own_context, rg_run_range *other,
                         void *other_context, bool *equal);
/* Moves the elements of a tensor's memory one place towards its beginning: the first one is lost,
 * and the last one is there twice. The tensor then has other values, and its indices are still
 * valid. */
void rgi_turn_elements(char *data, size_t bytes, rg_dtype dtype);
