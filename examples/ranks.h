/*
 * ranks.h: for examples that `mpirun -n N` may start: only rank 0 prints and writes files, and a
 * failure on one rank ends all processes.
 */
#pragma once

#include "nn/parallel/parallel.h"
#include "options.h"

static inline void begin_ranks(void) {
    if (!rg_init_process_group())
        refuse("%s", rg_error());
    if (rg_world_size() > 1)
        end_all = rg_abort_ranks_on_error;
    if (rg_rank() > 0 && !freopen("/dev/null", "w", stdout))
        refuse("can't write to /dev/null");
}
