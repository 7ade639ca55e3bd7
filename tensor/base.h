/*
 * base.h: macros that every file of the library may use. The table of rooms in CONTRIBUTING.md has
 * the order in which the rooms of tensor/ call each other. Rooms above text/ include two files of
 * it, which use no tensor: c_locale.h and text.h.
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
/* Begins a function that is inlined wherever it is called. */
#define RG_INLINED static inline __attribute__((always_inline))
/* An empty asm statement. It stands in a loop over a few items, so that GCC doesn't replace the
 * loop by a call of memset or memcpy. */
#define RG_FEW() __asm__ volatile("")
#define RG_SWAP(a, b)              \
    do {                           \
        __typeof__(a) swap_ = (a); \
        (a) = (b);                 \
        (b) = swap_;               \
    } while (0)
