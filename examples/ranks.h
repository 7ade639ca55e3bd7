/*
 * ranks.h: an example that `mpirun -n N` may start: rank 0 alone prints and writes files, and what
 * fails on one rank ends all.
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
