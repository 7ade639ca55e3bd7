/*
 * limited.h: checks that a load of the file in memory_file.h stays below a limit of memory,
 * whatever the file is. Each file has a limit of its own, up to 64 times its size.
 */
#pragma once

#include "mutate.h"
#include "tensor/files/files.h"
#include "tests/memory_file.h"

/* Loads with the limit. If the load fails, the reason must be the file or the limit. */
static inline void fuzz_limited(void (*load)(void)) {
    const int64_t now = rg_memory_stats().now;
    uint64_t hash = 1469598103934665603u;
    for (size_t i = 0; i < memory_file.n; i++)
        hash = (hash ^ (unsigned char)memory_file.v[i]) * 1099511628211u;
    const int64_t limit = 1 + (int64_t)((hash >> 20) % (64 * (memory_file.n + 1)));
    fuzz_require(rg_set_load_limit(limit), "no limit");
    rg_memory_reset_peak();
    rg_error_clear();
    {
        RG_SCOPE();
        load();
    }
    fuzz_require(rg_memory_stats().peak - now <= limit, "a load takes more than its limit");
    const rg_code code = rg_error_code();
    fuzz_require(code == RG_OK || code == RG_IO_ERROR, "no error of the kind");
    rg_set_load_limit(0);
    rg_error_clear();
}
