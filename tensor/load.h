/*
 * load.h: the limit of the memory that loading a file may allocate. A function that reads a file
 * puts RG_LOADING at its beginning. From there to the end of the block, each of the thread's
 * requests for memory counts, and memory.c calls rgi_load_may_take before it grants a request. A
 * program sets the limit by rg_set_load_limit (files.h).
 */
#pragma once

#include "error.h"

/* The loading of a file, while it is in progress. `op` is the name of the function that loads, and
 * `as` the name that an RG_AS (error.h) around the call of that function gives. If the limit is
 * exceeded, the error is reported under these names, whichever function requested the memory. */
typedef struct rg_load {
    const char *op, *path, *as;
    int64_t limit;  /* The maximum number of bytes that loading may allocate. */
    int64_t before; /* The bytes that the thread held when loading began. */
    bool by_files;  /* Set for the default limit, which grows with each file that is read. */
} rg_load;

/* Marks the rest of the block as the loading of a file. The path is for error messages. If the
 * thread is loading another file already, the new load becomes a part of the load in progress. */
#define RG_LOADING(op, path)                                           \
    rg_load rg_loading __attribute__((cleanup(rgi_load_end))) = { 0 }; \
    rgi_load_begin(&rg_loading, op, path)
void rgi_load_begin(rg_load *load, const char *op, const char *path);
void rgi_load_end(rg_load *load);

/* If a load is in progress, raises the load's limit for a file of this size, which is about to be
 * read. A limit that the program has set isn't raised. */
void rgi_load_reads(uint64_t bytes);
/* Returns whether the thread may allocate `bytes` bytes more. If the load in progress would then
 * exceed its limit, fails with RG_IO_ERROR and returns false. Requires that a load is in
 * progress. */
bool rgi_load_may_take(const rg_thread *me, size_t bytes);
