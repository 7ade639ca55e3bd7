/*
 * walk.h: one walk over up to RG_MAX_OPERANDS tensors that broadcast to the first
 * one's shape. Neighbouring dims that can be walked as one are merged.
 */
#pragma once

#include "storage.h"

#define RG_MAX_OPERANDS 5
typedef struct rg_walk {
    int n, ndim;
    int64_t numel;
    int64_t size[RG_MAX_DIMS];                  /* outermost first */
    int64_t step[RG_MAX_DIMS][RG_MAX_OPERANDS]; /* bytes */
    int64_t element[RG_MAX_OPERANDS];           /* bytes of one */
    char *data[RG_MAX_OPERANDS];
} rg_walk;
/* n elements from p[k], each operand stepping by step[k] bytes */
typedef void rg_loop(char *const p[], const int64_t step[], int64_t n, const void *context);
/* by_stride: in the order in which the output lies, else in that of its dims. */
void rgi_walk_make(rg_walk *w, int n, rg_tensor *const t[], bool by_stride);
void rgi_walk_run(const rg_walk *w, rg_loop *inner, const void *context);
/* The usual case: make and run, with a short way for what is contiguous throughout. */
void rgi_each(int n, rg_tensor *const t[], rg_loop *inner, const void *context);
/* The same for a loop to whose elements no order matters: from RG_LARGE of them on they are spread
 * over the threads. */
enum { RG_LARGE = 1 << 16 };
void rgi_each_apart(int n, rg_tensor *const t[], rg_loop *inner, const void *context);

rg_loop *rgi_copy_loop(rg_dtype to, rg_dtype from);           /* p[0] from p[1] */
void rgi_copy_elements(rg_tensor *to, const rg_tensor *from); /* broadcasts and converts */
void rgi_fill_zero(rg_tensor *t);
/* integer: for int64 and bool */
void rgi_fill_number(rg_tensor *t, double value, int64_t integer);
/* a new reference: t itself if it is one already */
rg_tensor *rgi_contiguous_copy(rg_tensor *t, rg_dtype dtype);
