/*
 * ranks.h: for examples that can be started by `mpirun -n N`. Only rank 0 prints and writes files,
 * and if one rank fails, all processes end.
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
