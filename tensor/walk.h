/*
 * walk.h: walks over up to RG_MAX_OPERANDS tensors that broadcast to the shape of the first one.
 * Neighbouring dims that can be walked as one are merged.
 */
#pragma once

#include "structs.h"

#define RG_MAX_OPERANDS 5
/* A walk over n operands: ndim dims, the outermost first, and numel elements. step[d][k] is the
 * distance between indices of dim d in operand k, and element[k] the size of its elements, both in
 * bytes. */
typedef struct rg_walk {
    int n, ndim;
    int64_t numel;
    int64_t size[RG_MAX_DIMS];
    int64_t step[RG_MAX_DIMS][RG_MAX_OPERANDS];
    int64_t element[RG_MAX_OPERANDS];
    char *data[RG_MAX_OPERANDS];
} rg_walk;

/* A loop computes n elements: element i of operand k is at p[k] + i step[k]. */
typedef void rg_loop(char *const p[], const int64_t step[], int64_t n, const void *context);

/* Makes a walk over n tensors, the first of which is the output. If by_stride, the dims are in the
 * order of the output in memory; otherwise in their own order. */
void rgi_walk_make(rg_walk *w, int n, rg_tensor *const t[], bool by_stride);
/* Calls the loop for each row of the walk. */
void rgi_walk_run(const rg_walk *w, rg_loop *inner, const void *context);
/* Makes a walk and runs it, or calls the loop at once if all operands are contiguous. */
void rgi_each(int n, rg_tensor *const t[], rg_loop *inner, const void *context);
