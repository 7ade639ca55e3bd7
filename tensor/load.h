/*
 * load.h: the limit of the memory that a load takes. A function that reads a file says RG_LOADING;
 * from there to the end of the block, each request of the thread counts, and memory.c asks here
 * whether it may be granted. rg_set_load_limit, in files.h, sets the limit.
 */
#pragma once

#include "error.h"

/* A load that is under way. A failure has its op's name, or that of RG_AS around it (`as`),
 * whatever function needs the memory. */
typedef struct rg_load {
    const char *op, *path, *as;
    int64_t limit;  /* The most bytes that the load may take. */
    int64_t before; /* The bytes that the thread held when the load began. */
    bool by_files;  /* The limit is the default one, to which each file adds. */
} rg_load;

/* Begins the load of a path, for errors, and ends it with the block. A load inside another one is
 * part of it. */
#define RG_LOADING(op, path)                                           \
    rg_load rg_loading __attribute__((cleanup(rgi_load_end))) = { 0 }; \
    rgi_load_begin(&rg_loading, op, path)
void rgi_load_begin(rg_load *load, const char *op, const char *path);
void rgi_load_end(rg_load *load);

/* Tells the load under way, if there is one, that it reads a file of that size. */
void rgi_load_reads(uint64_t bytes);
/* Returns whether the thread may take that number of bytes more. Fails with RG_IO_ERROR where the
 * load under way would take more than its limit. Requires that there is one. */
bool rgi_load_may_take(const rg_thread *me, size_t bytes);
