/*
 * packed.h: cuts a packed sequence into runs. The batch size of a step is the number of sequences
 * that have this step. A run is a range of consecutive steps with the same batch size, so that one
 * tensor (steps, batch, ..) can hold it. Packed sequences are declared in recurrent.h. Private.
 */
#pragma once

#include "recurrent.h"

/* A run of `steps` steps, each of `batch` sequences. `at` is the index of the run's first row in
 * the packed data. recurrent.c also divides padded input into runs; in these, `at` is the index of
 * the first step. */
typedef struct rg_step_run {
    int64_t at, steps, batch;
} rg_step_run;
/* The n runs of a packed sequence. Together they have `rows` rows. The first run has the largest
 * batch size. The current scope (RG_SCOPE) owns v. */
typedef struct rg_step_runs {
    int n;
    rg_step_run *v;
    int64_t rows;
} rg_step_runs;
/* Divides the steps of a packed sequence into runs. batch_sizes has the batch size of each step,
 * and `rows` is the number of rows of the packed data. If `single` is true, each run is one step.
 * Fails and returns n = -1 unless batch_sizes is an int64 vector of positive sizes that never rise
 * and whose sum is `rows`. */
rg_step_runs rgi_step_runs(const char *op, rg_tensor *batch_sizes, int64_t rows, bool single);
