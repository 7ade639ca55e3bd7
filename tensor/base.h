/*
 * base.h: the few macros that every file of the library may use.
 *
 * The modules of tensor/, called rooms here, stand on each other in this order. A
 * room includes and calls only rooms that come before it:
 *
 *     base, refs         macros; counts of references
 *     thread             what a thread owns
 *     observer           who is told of tensors that are made and written
 *     error              the record that a failed call leaves
 *     warning, unread    the sentences of calls that haven't failed; unread failures are told
 *     memory             the one door to malloc
 *     map                from names, or addresses, to numbers
 *     structs            the tensor, its storage, its history
 *     dtype, shape       what is true of an element type; what shapes do
 *     storage, scope     births and deaths; who owns a result
 *     threads/           the threads that help; loops that are spread over them; locks
 *     walk               walks over tensors that broadcast
 *     kernels/           loops over elements
 *     make, look, compare, name
 *     random/            torch's streams of random numbers
 *     text/              printing and parsing
 *     files/             tensors in files: the formats, and the refusal of damaged files
 *
 * Two files of text/ stand on no tensor, and lower rooms call them: c_locale, numbers with a
 * point in any locale, and text, a string that grows.
 *
 * One arrow points the other way: thread.c, which begins and ends a thread, calls
 * memory.c and scope.c for what they hold for it.
 */
#pragma once

#define RG_LIKELY(x)   __builtin_expect(!!(x), 1)
#define RG_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define RG_COUNT(a)    ((int)(sizeof(a) / sizeof((a)[0])))
#define RG_MIN(a, b)   ((a) < (b) ? (a) : (b))
#define RG_MAX(a, b)   ((a) > (b) ? (a) : (b))
/* RG_HOT marks a function that every small call runs. Such functions lie side by side in the
 * program, so that they don't evict each other from the processor's instruction cache, whose lines
 * are chosen by address: scattered, the backward of a small sum took a tenth longer. */
#define RG_HOT __attribute__((hot))
/* RG_FEW stops GCC from replacing a loop over a few items by a call of memset or memcpy. */
#define RG_FEW() __asm__ volatile("")
#define RG_SWAP(a, b)            \
    do {                         \
        __auto_type swap_ = (a); \
        (a) = (b);               \
        (b) = swap_;             \
    } while (0)
