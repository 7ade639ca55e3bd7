/*
 * workers.h: workers, the threads that help a caller with a job.
 */
#pragma once

#include "tensor/base.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* A job. rgi_run_job calls help(job, 0), and meanwhile all, some or none of the workers 1 to
 * threads - 1 call help(job, i). Each call does parts until every part has been begun, because
 * rgi_run_job doesn't wait for a worker that hasn't begun. The address of the job must be a
 * multiple of 8, and help must not fail. The pool sets the fields below `threads`: whether
 * processor time is counted, and the workers' processor time in nanoseconds. */
typedef struct rg_job {
    void (*help)(struct rg_job *job, int me);
    int threads;
    bool timed;
    _Atomic int64_t helped;
} rg_job;
void rgi_run_job(rg_job *job);

/* The most threads of a job, including its caller. */
enum { RG_MOST_THREADS = 512 };

/* Returns whether the calling thread is running a job. */
bool rgi_in_job(void);

/* Lets the next job try again to start workers that the system has refused. */
void rgi_retry_workers(void);

/* Returns the number of cores that the process may use. */
int rgi_cores(void);

/* If tests set this, a job begins when all free workers have begun, and every job is helped. It
 * must not change while a job runs. */
extern bool rgi_gather_workers;
