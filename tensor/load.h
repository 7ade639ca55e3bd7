/*
 * load.h: the limit of the memory that loading a file takes. A function that reads a file begins a
 * load by RG_LOADING; up to the end of the block, each of the thread's requests for memory counts,
 * and memory.c calls rgi_load_may_take before it grants one. rg_set_load_limit, in files.h, sets
 * the limit.
 */
#pragma once

#include "error.h"

/* A load in progress. `op` and `as`, the name of an RG_AS around the load, are the names that a
 * failure for lack of memory has, whichever function needs the memory. */
typedef struct rg_load {
    const char *op, *path, *as;
    int64_t limit;  /* The most bytes that the load may take. */
    int64_t before; /* The bytes that the thread held when the load began. */
    bool by_files;  /* Set for the default limit, which grows with each file that the load reads. */
} rg_load;

/* Begins a load, and ends it at the end of the block. The path is for errors. A load within another
 * one is part of it. */
#define RG_LOADING(op, path)                                           \
    rg_load rg_loading __attribute__((cleanup(rgi_load_end))) = { 0 }; \
    rgi_load_begin(&rg_loading, op, path)
void rgi_load_begin(rg_load *load, const char *op, const char *path);
void rgi_load_end(rg_load *load);

/* Tells the load in progress, if there is one, that it reads a file of that size. */
void rgi_load_reads(uint64_t bytes);
/* Returns whether the thread may take that number of bytes. Fails with RG_IO_ERROR if the load in
 * progress would take more than its limit. Requires a load in progress. */
bool rgi_load_may_take(const rg_thread *me, size_t bytes);
