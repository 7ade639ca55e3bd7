/*
 * workers.h: the threads that help a caller with its work, called workers.
 */
#pragma once

#include "tensor/base.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* rgi_run_job calls help(job, 0), and lets the workers 1 to threads - 1 call help(job, i)
 * meanwhile: all of them, or only some, or none. Each call takes parts until every part has been
 * begun, because rgi_run_job doesn't wait for a worker that hasn't begun. The job must lie at an
 * address that 8 divides, and help must not fail. The fields below `threads` are the pool's own:
 * whether processor time is counted, and the workers' processor time in nanoseconds. */
typedef struct rg_job {
    void (*help)(struct rg_job *job, int me);
    int threads;
    bool timed;
    _Atomic int64_t helped;
} rg_job;
void rgi_run_job(rg_job *job);

/* A job has at most this many threads, its caller among them. */
enum { RG_MOST_THREADS = 512 };

/* Returns whether the thread is doing a job. */
bool rgi_in_job(void);

/* Lets the next job try again to start workers that the system has denied. */
void rgi_retry_workers(void);

/* Returns how many cores the process may use. */
int rgi_cores(void);

/* While this is set, as tests want it, a job begins when all workers that are free have begun, and
 * every job is helped. It must not change while a job runs. */
extern bool rgi_gather_workers;
