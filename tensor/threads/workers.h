/*
 * workers.h: workers, which are threads that help a caller with a job.
 */
#pragma once

#include "tensor/base.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* A job, which a caller runs by rgi_run_job. rgi_run_job calls help(job, 0). At the same time all,
 * some or none of the workers from 1 to threads - 1 call help(job, i), where i is the worker's
 * number. Each call of `help` must compute parts of the job until all parts have been begun,
 * because rgi_run_job doesn't wait for workers that haven't begun. The address of the job must be a
 * multiple of 8, and `help` can't fail. The fields after `threads` belong to workers.c: `timed`
 * says whether processor time is counted, and `helped` is the processor time of the workers in
 * nanoseconds. */
typedef struct rg_job {
    void (*help)(struct rg_job *job, int me);
    int threads;
    bool timed;
    _Atomic int64_t helped;
} rg_job;
void rgi_run_job(rg_job *job);

/* The greatest number of threads that a job may have, including its caller. */
enum { RG_MOST_THREADS = 512 };

/* Returns whether the calling thread is computing a part of a job. */
bool rgi_in_job(void);
/* If `alone`, the calling thread computes all work itself from now on, as it does while it computes
 * a part of a job. */
void rgi_work_alone(bool alone);

/* Lets the next job try again to start workers whose threads the system has refused to start. */
void rgi_retry_workers(void);

/* For tests. If rgi_gather_workers is set, a job's caller begins only when every free worker has
 * begun, and workers help even if that doesn't pay. Must not be changed while a job runs. */
extern bool rgi_gather_workers;
