/*
 * plan.h: the memory of the results of a recorded step. It is included in this folder, in its test,
 * and in autograd/export/c_memory.c, which uses rgi_plan_place and rgi_plan_most alone.
 *
 * While a step is recorded, each result has a storage of its own, which is freed once the program
 * and the graph have released it. The plan notes the first and the last entry that works on each
 * storage. When the step has been recorded, a result whose storage is still in use keeps it, since
 * the program may hold this result longer than the recording. The results whose storages were freed
 * get parts of one block, the planned block, or parts of a storage that is still in use. The latter
 * is possible for a result whose last entry comes before the first entry that writes to that
 * storage. Two results share bytes only if no entry works on both, and none lies between the first
 * and the last entry of both.
 */
#pragma once

#include "autograd/node.h"

/* The life of a storage that was freed while the step was recorded. `first` and `last` are the
 * numbers of the first and of the last entry that work on it, as rgi_plan_add and rgi_plan_use were
 * given them. `bytes` is a multiple of 64. The life has its place at `offset` in the planned block
 * or, if `host` isn't 0, in element number host - 1 of `in_use`. */
typedef struct rg_plan_life {
    size_t first, last, bytes, offset, host;
} rg_plan_life;

/* A storage that is in use. The plan holds a reference to it. `own` is true if the storage must not
 * be replaced by a part of other memory, even if only the plan holds it before the recording ends.
 * `alone` is true if no other result may have a part of the storage: `own` is true, or a run reads
 * what the last run has left there. */
typedef struct rg_plan_storage {
    rg_storage *storage;
    size_t first, last;
    bool own, alone;
} rg_plan_storage;

/* A released tensor. If its storage was freed, `life` is the index of the storage's life, t has no
 * storage, and t->data is the tensor's offset in the storage. Otherwise `life` isn't used. */
typedef struct rg_plan_tensor {
    rg_tensor *t;
    size_t life;
} rg_plan_tensor;

/* The plan. The first `n_placed` of the released tensors have a life. The last three fields are set
 * when the plan is carried out: the bytes of the block, the bytes of the storages that are still in
 * use then, and the largest sum of bytes in use at one time. In this sum, the latter storages are
 * in use all the time, since the program may read them between two runs. */
typedef struct rg_plan {
    rg_plan_storage *in_use;
    size_t n_in_use, in_use_room;
    rg_plan_life *lives;
    size_t n_lives, life_room;
    rg_plan_tensor *released;
    size_t n_released, released_room, n_placed;
    size_t block_bytes, own_bytes, most_bytes;
} rg_plan;

/* Returns whether the storage is one of the plan's storages that are in use. */
bool rgi_plan_has(const rg_plan *p, const rg_storage *s);
/* Returns whether the plan has the storage, and each run writes to it before reading it. */
bool rgi_plan_computes(const rg_plan *p, const rg_storage *s);
/* Adds a storage, to which the entry number `first` writes, and takes a reference to it. Returns
 * false if memory ran out. */
bool rgi_plan_add(rg_plan *p, rg_storage *s, size_t first, bool own);
/* Notes that the entry with this number works on the storage. Returns false if the plan doesn't
 * have the storage. */
bool rgi_plan_use(rg_plan *p, const rg_storage *s, size_t entry);
/* Notes that the entry with this number may work on any storage that is in use. */
void rgi_plan_use_all(rg_plan *p, size_t entry);
/* rgi_plan_keep_alone makes sure that no other result gets a part of the storage. rgi_plan_keep
 * makes sure, in addition, that the storage isn't replaced by a part of other memory. Both do
 * nothing if the plan doesn't have the storage. */
void rgi_plan_keep(rg_plan *p, const rg_storage *s);
void rgi_plan_keep_alone(rg_plan *p, const rg_storage *s);
/* Makes room for n more calls of rgi_plan_release and for the lives that then end. Returns false if
 * memory ran out. */
bool rgi_plan_make_room(rg_plan *p, size_t n);
/* Marks t, whose storage the plan has, as released, and releases t's references to its storage, its
 * base and its history. The header itself isn't freed, since entries work on it. Requires room. */
void rgi_plan_release(rg_plan *p, rg_tensor *t);
/* Frees the storages that only the plan still holds. Requires room. */
void rgi_plan_end_lives(rg_plan *p);
/* Carries out the plan: allocates the block, gives its parts to the released tensors, and marks
 * them as alive again. Frees what only the planning needs. Returns false if memory ran out; then
 * some tensors are without memory. */
bool rgi_plan_settle(rg_plan *p);

/* Finds places for the lives: sets `host` and `offset` so that two lives with a common entry have
 * no common bytes, and that a life with a host ends before the host's first entry. Changes the
 * order of in_use. Returns the bytes of the block, or SIZE_MAX if memory ran out. */
size_t rgi_plan_place(rg_plan *p);
/* Returns the largest number of bytes that the lives without a host have together at one entry.
 * Returns SIZE_MAX if memory ran out. */
size_t rgi_plan_most(const rg_plan_life *lives, size_t n);
