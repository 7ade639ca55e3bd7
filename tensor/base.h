/*
 * base.h: the few macros that every file of the library may use.
 *
 * The modules of tensor/, called rooms here, stand on each other in this order. A
 * room includes and calls only rooms that come before it:
 *
 *     base, refs         macros; counts of references
 *     thread             what a thread owns
 *     observer           an optional guest who sees tensors made and written
 *     c_locale, error    numbers with a point; what a failed call leaves behind
 *     warning            what a call says that hasn't failed
 *     memory, text       the one door to malloc; strings that grow
 *     map                from names, or addresses, to numbers
 *     structs            the tensor, its storage, its history
 *     dtype, shape       what is true of an element type; what shapes do
 *     storage, scope     births and deaths; who owns a result
 *     parallel, walk     threads at work; walks over tensors that broadcast
 *     kernels/           loops over elements
 *     make, look, compare, name, random, digits, print, parse
 *     files/             tensors in files: what is believed of a file, and what is refused
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
#define RG_SWAP(a, b)            \
    do {                         \
        __auto_type swap_ = (a); \
        (a) = (b);               \
        (b) = swap_;             \
    } while (0)
