/*
 * map.c: maps from names, or from addresses, to numbers. The maps are made of the hash tables of
 * stb_ds, a header that no other file includes. This file allocates memory for stb_ds, and handles
 * failed allocations, which stb_ds doesn't.
 */
#include "map.h"
#include "threads/lock.h"
#include "memory.h"

#include <assert.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

/* ---- memory for stb_ds --------------------------------------------------------- */

/* A block of memory of a map. The map's blocks form a linked list, and are freed together. */
typedef struct rg_map_block {
    struct rg_map_block *next;
    size_t bytes;
} map_block;

/* An insertion of a key that is in progress. stb_ds doesn't check whether an allocation succeeded.
 * Therefore map_memory, when it gets no memory, leaves stb_ds by a longjmp to the function that
 * started the insertion. */
typedef struct map_put {
    rg_map *map;
    jmp_buf out_of_memory;
} map_put;

/* The insertion that is in progress in this thread, or NULL if there is none. */
static __thread map_put *putting __attribute__((tls_model("initial-exec")));

/* Returns a new block of `bytes` bytes with the contents of the old block, which isn't freed. If
 * memory runs out, leaves stb_ds by longjmp. RG_LOCK_MAPS is released during the allocation,
 * because a failed allocation calls the program's error handler, which may use a map. */
static void *map_memory(const void *old, size_t bytes) {
    map_put *put = putting;
    rgi_unlock(RG_LOCK_MAPS);
    map_block *b = rgi_alloc(sizeof *b + bytes, RG_MEM_OTHER);
    rgi_lock(RG_LOCK_MAPS);
    if (!b)
        longjmp(put->out_of_memory, 1);
    *b = (map_block){ put->map->blocks, bytes };
    put->map->blocks = b;
    if (!old)
        return b + 1;
    size_t had = ((const map_block *)old)[-1].bytes;
    return memcpy(b + 1, old, RG_MIN(bytes, had));
}

/* Makes stb_ds's functions static, so that they don't clash with a program's own copy of stb_ds.
 * stb_ds uses the keyword typeof, which only GNU C has; in plain C11 it is replaced by
 * __typeof__. */
#define STBDS_REALLOC(context, block, bytes) map_memory(block, bytes)
#define STBDS_FREE(context, block)           ((void)0)
#define STBDS_NO_SHORT_NAMES
#define STB_DS_IMPLEMENTATION
#define extern static
#define typeof __typeof__
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include <stb_ds.h>
#undef extern

typedef struct rg_map_name {
    char *key;
    int64_t value;
} map_name;

typedef struct rg_map_address {
    const void *key;
    int64_t value;
} map_address;

/* ---- setting a key's number ---------------------------------------------------- */

/* Sets the number of `name` or, if `name` is NULL, of `address`. Requires that `putting` is an
 * insertion into the map m. */
static void put_key(rg_map *m, const char *name, const void *address, int64_t number) {
    if (!name) {
        stbds_hmput(m->addresses, address, number);
        return;
    }
    if (!m->names)
        stbds_sh_new_arena(m->names);
    stbds_shput(m->names, (char *)name, number);
}

static bool put_or_empty(rg_map *m, const char *name, const void *address, int64_t number) {
    map_put this = { .map = m };
    map_put *outer = putting;
    volatile bool done = false;
    rgi_lock(RG_LOCK_MAPS);
    putting = &this;
    if (setjmp(this.out_of_memory) == 0) {
        put_key(m, name, address, number);
        done = true;
    }
    putting = outer;
    rgi_unlock(RG_LOCK_MAPS);
    if (!done)
        rgi_map_free(m);
    return done;
}

bool rgi_map_put_name(rg_map *m, const char *name, int64_t number) {
    return put_or_empty(m, name, NULL, number);
}

bool rgi_map_put_address(rg_map *m, const void *address, int64_t number) {
    return put_or_empty(m, NULL, address, number);
}

/* ---- looking up keys ----------------------------------------------------------- */

/* Returns the number of a name, or -1 if the map doesn't have the name. Without the first check,
 * stb_ds would allocate a table for names if there is none. */
int64_t rgi_map_name(const rg_map *m, const char *name) {
    if (!m->names)
        return -1;
    ptrdiff_t at = -1;
    stbds_hmget_key_ts(m->names, sizeof *m->names, (char *)name, sizeof m->names->key, &at,
                       STBDS_HM_STRING);
    return at < 0 ? -1 : m->names[at].value;
}

int64_t rgi_map_address(const rg_map *m, const void *address) {
    if (!m->addresses)
        return -1;
    ptrdiff_t at = -1;
    stbds_hmget_key_ts(m->addresses, sizeof *m->addresses, &address, sizeof address, &at,
                       STBDS_HM_BINARY);
    return at < 0 ? -1 : m->addresses[at].value;
}

size_t rgi_map_names(const rg_map *m) { return (size_t)stbds_shlen(m->names); }
size_t rgi_map_addresses(const rg_map *m) { return (size_t)stbds_hmlen(m->addresses); }
const char *rgi_map_name_at(const rg_map *m, size_t i) { return m->names[i].key; }

void rgi_map_free(rg_map *m) {
    map_block *b = m->blocks;
    while (b) {
        map_block *next = b->next;
        rgi_free(b, sizeof *b + b->bytes, RG_MEM_OTHER);
        b = next;
    }
    *m = (rg_map){ 0 };
}
