/*
 * refs.h: reference counts.
 *
 * An atomic read-modify-write instruction takes about as long as twenty ordinary ones. While the C
 * library says that the process has only one thread, counts are changed without such instructions.
 */
#pragma once

#include "base.h"

#include <stdatomic.h>

#if __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h>
#define RG_ALONE RG_LIKELY(__libc_single_threaded)
#else
#define RG_ALONE false
#endif

/* Adds n references to the count. */
#define RG_COUNT_UP(count, n)                                                                     \
    do {                                                                                          \
        if (RG_ALONE)                                                                             \
            atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + (n), \
                                  memory_order_relaxed);                                          \
        else                                                                                      \
            atomic_fetch_add_explicit(count, n, memory_order_relaxed);                            \
    } while (0)

/* Subtracts n references from the count, and returns whether they were the last ones. If they were,
 * the count may keep its old value, since no other thread reads it any more. */
#define RG_COUNT_DOWN(count, n)                                                   \
    __extension__({                                                               \
        __auto_type now_ = atomic_load_explicit(count, memory_order_acquire);     \
        if (now_ != (n)) {                                                        \
            if (RG_ALONE)                                                         \
                atomic_store_explicit(count, now_ - (n), memory_order_relaxed);   \
            else                                                                  \
                now_ = atomic_fetch_sub_explicit(count, n, memory_order_acq_rel); \
        }                                                                         \
        now_ == (n);                                                              \
    })
