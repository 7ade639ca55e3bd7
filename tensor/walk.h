/*
 * walk.h: walks over up to RG_MAX_OPERANDS tensors that broadcast to the shape of the first one.
 * Neighbouring dims are merged into one where the strides allow it.
 */
#pragma once

#include "structs.h"

#define RG_MAX_OPERANDS 5
/* A walk over n operands. It has ndim dims, the outermost first, and numel elements; data[k] points
 * to the first element of operand k. step[d][k] is the number of bytes from one index of dim d to
 * the next in operand k. element[k] is the size in bytes of an element of operand k. */
typedef struct rg_walk {
    int n, ndim;
    int64_t numel;
    int64_t size[RG_MAX_DIMS];
    int64_t step[RG_MAX_DIMS][RG_MAX_OPERANDS];
    int64_t element[RG_MAX_OPERANDS];
    char *data[RG_MAX_OPERANDS];
} rg_walk;

/* A loop computes one row of n elements: element i of operand k is at p[k] + i * step[k]. */
typedef void rg_loop(char *const p[], const int64_t step[], int64_t n, const void *context);

/* Makes a walk over n tensors, of which the first is the output. If by_stride is true, the dims of
 * the walk are in the order in which the output's dims lie in memory; otherwise they are in the
 * output's own order. */
void rgi_walk_make(rg_walk *w, int n, rg_tensor *const t[], bool by_stride);
/* Calls the loop `inner` once for each row of the walk: the elements along the innermost dim. */
void rgi_walk_run(const rg_walk *w, rg_loop *inner, const void *context);
/* Makes a walk over the n tensors and calls the loop for each row. If all operands are contiguous,
 * and each has one element or as many as t[0], makes no walk and calls the loop once for all
 * elements. If t[0] is empty, the loop isn't called. */
void rgi_each(int n, rg_tensor *const t[], rg_loop *inner, const void *context);
