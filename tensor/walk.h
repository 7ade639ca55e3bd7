/*
 * walk.h: one walk over up to RG_MAX_OPERANDS tensors that broadcast to the first one's shape.
 * Neighbouring dims that can be walked as one are merged.
 */
#pragma once

#include "storage.h"

#define RG_MAX_OPERANDS 5
typedef struct rg_walk {
    int n, ndim;
    int64_t numel;
    int64_t size[RG_MAX_DIMS];                  /* The outermost dim is the first. */
    int64_t step[RG_MAX_DIMS][RG_MAX_OPERANDS]; /* bytes */
    int64_t element[RG_MAX_OPERANDS];           /* bytes of one element */
    char *data[RG_MAX_OPERANDS];
} rg_walk;

/* A loop takes n elements from p[k] on, where operand k steps by step[k] bytes. */
typedef void rg_loop(char *const p[], const int64_t step[], int64_t n, const void *context);

/* Makes a walk in the order in which the output lies (by_stride), or else in that of its dims. */
void rgi_walk_make(rg_walk *w, int n, rg_tensor *const t[], bool by_stride);
void rgi_walk_run(const rg_walk *w, rg_loop *inner, const void *context);
/* Makes a walk and runs it; what is contiguous throughout needs none. */
void rgi_each(int n, rg_tensor *const t[], rg_loop *inner, const void *context);
/* Does as rgi_each does, with a loop to whose elements no order matters: from RG_LARGE of them on
 * they are spread over the threads (kernels/run.c). */
enum { RG_LARGE = 1 << 16 };
void rgi_each_apart(int n, rg_tensor *const t[], rg_loop *inner, const void *context);
