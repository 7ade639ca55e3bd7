/*
 * parallel.h: splits work among threads.
 */
#pragma once

#include "tensor/base.h"
#include "tensor/tensor.h"

/* rgi_parallel splits [0, n) into parts of `grain`, of which the last may be shorter, and calls
 * work(context, begin, end, worker) for each part on one of `workers` threads; `worker` is the
 * thread's index, from 0. `workers` must be rgi_workers(n, grain), or 1, with which the calling
 * thread does all parts. rgi_workers returns 1 if there is little work or one thread, and within
 * other such work. Parts must not depend on each other, and the memory that each worker needs must
 * be allocated before the call. */
typedef void rg_work(void *context, int64_t begin, int64_t end, int worker);
int rgi_workers(int64_t n, int64_t grain);
void rgi_parallel(int64_t n, int64_t grain, int workers, rg_work *work, void *context);
