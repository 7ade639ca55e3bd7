/*
 * packed.h: a packed sequence as runs. A run is a range of consecutive steps that have the same
 * batch size. Private; packed sequences are in recurrent.h.
 */
#pragma once

#include "recurrent.h"

/* A run of `steps` steps of `batch` sequences each. Its first row is `at`. */
typedef struct rg_step_run {
    int64_t at, steps, batch;
} rg_step_run;
/* The runs of a packed sequence, which have `rows` rows together. The first run has the largest
 * batch. The scope owns v. */
typedef struct rg_step_runs {
    int n;
    rg_step_run *v;
    int64_t rows;
} rg_step_runs;
/* Returns the runs, each of one step if asked. Fails with .n == -1 if batch_sizes doesn't fit a
 * packed sequence of `rows` rows. */
rg_step_runs rgi_step_runs(const char *op, rg_tensor *batch_sizes, int64_t rows, bool single);
