/*
 * parallel.h: work that is spread over threads.
 */
#pragma once

#include "base.h"
#include "tensor.h"

/* Works on [0, n) in parts of `grain`, the last of which may be shorter: each part is work(context,
 * begin, end, worker) on one of `workers` threads, which are counted from 0. There are
 * rgi_workers(n, grain) of them, or 1. Where that is 1 (there is little to do, one thread, or this
 * is inside other such work), the work is done in place. A part must not depend on others, and room
 * that each worker needs has to be found before the call. */
typedef void rg_work(void *context, int64_t begin, int64_t end, int worker);
int rgi_workers(int64_t n, int64_t grain);
void rgi_parallel(int64_t n, int64_t grain, int workers, rg_work *work, void *context);
