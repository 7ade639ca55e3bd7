/*
 * packed.h: how a packed sequence is read: as runs of steps that have the same sequences. Private;
 * packed sequences are in recurrent.h.
 */
#pragma once

#include "recurrent.h"

/* The rows of a run begin at `at`: `steps` steps of `batch` sequences. */
typedef struct rg_step_run {
    int64_t at, steps, batch;
} rg_step_run;
/* All runs together have `rows` rows, and the first has the most sequences. The scope owns v. */
typedef struct rg_step_runs {
    int n;
    rg_step_run *v;
    int64_t rows;
} rg_step_runs;
/* Returns the runs, each of a single step if so asked; where n is -1, batch_sizes aren't those of a
 * packed sequence of `rows` rows, and the thread has that error. */
rg_step_runs rgi_step_runs(const char *op, rg_tensor *batch_sizes, int64_t rows, bool single);
