/*
 * process_group.h: the processes that train together, one rank each: torch.distributed on MPI.
 *
 *     int main(void) {
 *         if (!rg_init_process_group())
 *             return puts(rg_error());
 *         rg_on_error(rg_abort_ranks_on_error);
 *         ...
 *         rg_destroy_process_group();
 *     }
 *
 * A program that `mpirun -n 4` starts has 4 ranks. One that no launcher of MPI's has started is
 * rank 0 of 1, and MPI isn't begun: all that follows works, and sends nothing.
 *
 * What the ranks do together each of them calls, in the same order and from the thread that began
 * the group. Where they don't agree, on the function, a shape or a dtype, and where one of them has
 * failed, all fail with one sentence that names the rank. None of this is part of a recording (see
 * replay.h) or of a graph.
 */
#pragma once

#include "../../autograd/autograd.h"

RG_PUBLIC_BEGIN

/* ---- the group ------------------------------------------------------------------------- */

/* Begins the group, which a process can do once. Returns false on failure. */
bool rg_init_process_group(void);
/* Waits until every rank is here, and ends the group. Without a group it does nothing. */
void rg_destroy_process_group(void);
bool rg_is_initialized(void);
/* Both return -1 where there is no group. */
int rg_rank(void);
int rg_world_size(void);

/* ---- what the ranks do together -------------------------------------------------------- */

typedef enum rg_reduce_op {
    RG_REDUCE_SUM, /* The sum; of bool whether any is true, as is the maximum. */
    RG_REDUCE_MAX,
    RG_REDUCE_MIN
} rg_reduce_op;
typedef struct RG_OPTIONS rg_all_reduce_options {
    RG_BY_NAME;
    rg_reduce_op op RG_DEFAULT(RG_REDUCE_SUM);
} rg_all_reduce_options;
/* Makes each element of t the sum, or what op says, of those of all ranks. Neighbours are added
 * first, then pairs of neighbours, and so on, so that all ranks get the same bits at any time. */
rg_tensor *rg_all_reduce_with_(rg_tensor *t, rg_all_reduce_options o);
#define rg_all_reduce_(t, ...) \
    rg_all_reduce_with_(t, RG_KEYWORDS(rg_all_reduce_options, (.op = RG_REDUCE_SUM), __VA_ARGS__))
/* Gives t on every rank the elements of rank src. */
rg_tensor *rg_broadcast_(rg_tensor *t, int src);
/* Returns once every rank is here; false on failure. */
bool rg_barrier(void);

/* ---- failure --------------------------------------------------------------------------- */

/* A handler for rg_on_error: it writes "rank 2 of 4: " and the sentence to stderr, and ends the
 * programs of all ranks. Without it, ranks that wait for one that has failed would wait for ever.
 * It is the one function of regard's that ends a program, and no other calls it. */
void rg_abort_ranks_on_error(rg_code code, const char *message);

/* ---- whole numbers: RG_WHOLE, in tensor/keywords.h, refuses a fraction --------------- */

#define rg_broadcast_(t, src) rg_broadcast_(t, RG_WHOLE(src))

RG_PUBLIC_END
