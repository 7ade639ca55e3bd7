/*
 * process_group.h: a group of processes that train together, as in torch.distributed. Each process
 * is one rank.
 *
 *     int main(void) {
 *         if (!rg_init_process_group())
 *             return puts(rg_error());
 *         rg_on_error(rg_abort_ranks_on_error);
 *         ...
 *         rg_destroy_process_group();
 *     }
 *
 * A program that `mpirun -n 4` starts has 4 ranks. If a program wasn't started by a launcher of
 * MPI, it is rank 0 of 1, and MPI isn't initialized: all functions below work, and send nothing.
 *
 * A collective function must be called by all ranks, in the same order, from the thread that
 * started the group. The call fails on all ranks if the ranks call different functions or pass
 * different shapes or dtypes, or if the call fails on one rank, for example because its tensor is
 * NULL. A rank that has failed keeps its own error; on the others the message says which rank has
 * failed or differs. An earlier failure on a rank doesn't by itself make the call fail, even if the
 * program hasn't read that error. With rg_abort_ranks_on_error, every failure ends all ranks at
 * once. Collective functions can't be a part of a recording (see replay.h) or of a graph: under
 * RG_NO_GRAD they take tensors that require grad, and otherwise fail.
 */
#pragma once

#include "../../autograd/autograd.h"
#pragma GCC system_header

RG_PUBLIC_BEGIN

/* ---- the group ------------------------------------------------------------------------- */

/* Starts the process group. A process can start it only once. Returns false on failure. */
bool rg_init_process_group(void);
/* Waits until all ranks have called this function, and ends the group. If another rank calls a
 * collective function instead, that call fails on all ranks, and so do later ones. Does nothing if
 * there is no group. */
void rg_destroy_process_group(void);
bool rg_is_initialized(void);
/* rg_rank returns the rank of this process, rg_world_size the number of ranks. Without a group both
 * fail, and return -1. */
int rg_rank(void);
int rg_world_size(void);

/* ---- collective functions -------------------------------------------------------- */

typedef enum rg_reduce_op {
    RG_REDUCE_SUM, /* The sum. For bools, whether any of them is true. */
    RG_REDUCE_MAX,
    RG_REDUCE_MIN
} rg_reduce_op;
typedef struct RG_OPTIONS rg_all_reduce_options {
    RG_BY_NAME;
    RG_ONE_OF(rg_reduce_op) op RG_DEFAULT(RG_REDUCE_SUM);
} rg_all_reduce_options;
/* Replaces each element of t by the sum of this element over all ranks, or by its maximum or
 * minimum. The order of additions is fixed, so that each run, and each rank, gets the same bits. If
 * the number of ranks is a power of two, the elements of adjacent ranks are added first, then the
 * sums of adjacent pairs, and so on. Tensors of 16 bits can't be summed. Returns t, or NULL on
 * failure. */
rg_tensor *rg_all_reduce_with_(rg_tensor *t, rg_all_reduce_options o);
#define rg_all_reduce_(t, ...) \
    rg_all_reduce_with_(t, RG_KEYWORDS(rg_all_reduce_options, (.op = RG_REDUCE_SUM), __VA_ARGS__))
/* Copies the elements of t on rank src to t on every other rank. Returns t, or NULL on failure. */
rg_tensor *rg_broadcast_(rg_tensor *t, int src);
/* Waits until all ranks have called this function. Returns false on failure. */
bool rg_barrier(void);

/* ---- failure --------------------------------------------------------------------------- */

/* A handler for rg_on_error. It prints the error to stderr, after "rank 2 of 4: ", and ends the
 * programs of all ranks. Without it, ranks that wait for a message from a failed rank would wait
 * forever. regard calls this function only if the program has given it to rg_on_error. */
void rg_abort_ranks_on_error(rg_code code, const char *message);

/* ---- checked arguments: see tensor/arguments/arguments.h ---------------------------------- */

#define rg_broadcast_(t, src) rg_broadcast_(t, RG_INT(src))

RG_PUBLIC_END
