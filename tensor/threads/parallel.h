/*
 * parallel.h: splits work among threads.
 */
#pragma once

#include "tensor/base.h"
#include "tensor/tensor.h"

/* rgi_parallel splits the range [0, n) into parts of `grain` indices; the last part may be shorter.
 * For each part, work(context, begin, end, worker) is called on one of several threads; `worker` is
 * the index of the thread, from 0 to workers - 1. `workers` must be rgi_workers(n, grain), or 1. If
 * it is 1, the calling thread computes all parts. rgi_workers returns how many threads should share
 * the work: 1 if n is at most `grain`, if only one thread is wanted, or if the calling thread is
 * itself computing a part of such work. Parts must not depend on each other. Memory that the
 * workers need must be allocated before the call. */
typedef void rg_work(void *context, int64_t begin, int64_t end, int worker);
int rgi_workers(int64_t n, int64_t grain);
void rgi_parallel(int64_t n, int64_t grain, int workers, rg_work *work, void *context);
