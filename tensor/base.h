/*
 * base.h: macros that every file of the library may use.
 *
 * The modules of tensor/, called rooms here, depend on each other in this order. A room includes
 * and calls only rooms above it:
 *
 *     base, refs         macros; reference counts
 *     system             all that depends on the operating system
 *     thread             the state of a thread
 *     observer           observers of tensors that are made and written
 *     error              failures
 *     warning, unread    warnings; reports of unread failures
 *     memory             requests and releases of memory
 *     map                maps from names, or addresses, to numbers
 *     opaque, structs    functions for files that don't see the struct of a tensor; the structs
 *     dtype, shape       element types; shapes
 *     storage, scope     making and releasing tensors; owners of results
 *     threads/           workers; loops that are split among threads; locks
 *     walk               walks over tensors that broadcast
 *     kernels/           loops over elements
 *     make, look, compare, name
 *     random/            torch's streams of random numbers
 *     text/              printing and parsing
 *     files/             tensors in files: the formats, and the refusal of damaged files
 *
 * Rooms above text/ include two files of it, which use no tensor: c_locale.h and text.h.
 *
 * One exception: thread.c, which makes a thread's state, calls memory.c and scope.c to do so.
 */
#pragma once

#define RG_LIKELY(x)   __builtin_expect(!!(x), 1)
#define RG_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define RG_COUNT(a)    ((int)(sizeof(a) / sizeof((a)[0])))
#ifndef RG_MIN /* autograd/export/loops defines both names as themselves, to keep them. */
#define RG_MIN(a, b) ((a) < (b) ? (a) : (b))
#define RG_MAX(a, b) ((a) > (b) ? (a) : (b))
/* The least multiple of `unit` that is at least n, for n >= 0. */
#define RG_ROUND_UP(n, unit) (((n) + (unit)-1) / (unit) * (unit))
#endif
/* Marks a function that most calls execute, even those on small tensors. The linker places such
 * functions next to each other. Functions that are scattered in memory may compete for lines of the
 * processor's instruction cache: with scattered functions, the backward of a small sum took 10 %
 * longer. */
#define RG_HOT __attribute__((hot))
/* An empty asm statement. It stands in a loop over a few items, so that GCC doesn't replace the
 * loop by a call of memset or memcpy. */
#define RG_FEW() __asm__ volatile("")
#define RG_SWAP(a, b)              \
    do {                           \
        __typeof__(a) swap_ = (a); \
        (a) = (b);                 \
        (b) = swap_;               \
    } while (0)
