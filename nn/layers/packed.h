/*
 * packed.h: cuts a packed sequence into runs. A run is a range of consecutive steps that have the
 * same batch size, so that one tensor can hold it. Private. Packed sequences are in recurrent.h.
 */
#pragma once

#include "recurrent.h"

/* A run of `steps` steps, each of `batch` sequences. `at` is the index of its first row in the
 * packed data. */
typedef struct rg_step_run {
    int64_t at, steps, batch;
} rg_step_run;
/* All runs of a packed sequence. Together they have `rows` rows. The first run has the largest
 * batch size. The scope owns v. */
typedef struct rg_step_runs {
    int n;
    rg_step_run *v;
    int64_t rows;
} rg_step_runs;
/* Returns the runs of a packed sequence that has these batch sizes. If `single`, each run is one
 * step. Fails, with n = -1, if batch_sizes doesn't fit a packed sequence of `rows` rows. */
rg_step_runs rgi_step_runs(const char *op, rg_tensor *batch_sizes, int64_t rows, bool single);
