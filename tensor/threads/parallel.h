/*
 * parallel.h: work that is spread over threads.
 */
#pragma once

#include "tensor/base.h"
#include "tensor/tensor.h"

/* rgi_parallel works on [0, n) in parts of `grain`, the last of which may be shorter. For each part
 * one of `workers` threads, which are counted from 0, calls work(context, begin, end, worker).
 * `workers` must be rgi_workers(n, grain), or 1, with which the calling thread does it all.
 * rgi_workers returns 1 where there is little to do, where there is one thread, and inside other
 * such work. No part may depend on others, and room that each worker needs has to be found before
 * the call. */
typedef void rg_work(void *context, int64_t begin, int64_t end, int worker);
int rgi_workers(int64_t n, int64_t grain);
void rgi_parallel(int64_t n, int64_t grain, int workers, rg_work *work, void *context);
