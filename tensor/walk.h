/*
 * walk.h: one walk over up to RG_MAX_OPERANDS tensors that broadcast to the first one's shape.
 * Neighbouring dims that can be walked as one are merged.
 */
#pragma once

#include "structs.h"

#define RG_MAX_OPERANDS 5
/* A walk leads n operands over ndim dims, outermost first, and numel elements. step[d][k] is how
 * far operand k goes for each step in dim d, and element[k] is the size of its elements, both in
 * bytes. */
typedef struct rg_walk {
    int n, ndim;
    int64_t numel;
    int64_t size[RG_MAX_DIMS];
    int64_t step[RG_MAX_DIMS][RG_MAX_OPERANDS];
    int64_t element[RG_MAX_OPERANDS];
    char *data[RG_MAX_OPERANDS];
} rg_walk;

/* A loop works on n elements, from p[k] on, and steps through operand k by step[k] bytes. */
typedef void rg_loop(char *const p[], const int64_t step[], int64_t n, const void *context);

/* Plans a walk over n tensors, the first of which is the output. It goes in the order in which the
 * output lies in memory if by_stride is set, else in that of its dims. */
void rgi_walk_make(rg_walk *w, int n, rg_tensor *const t[], bool by_stride);
/* Calls the loop for each row of the walk. */
void rgi_walk_run(const rg_walk *w, rg_loop *inner, const void *context);
/* Does both, with a short way for what is contiguous throughout. */
void rgi_each(int n, rg_tensor *const t[], rg_loop *inner, const void *context);
