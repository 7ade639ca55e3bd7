/*
 * loops/where.h: selects one of two elements by a condition, compiled for each size of elements and
 * instruction set (see sets.h).
 */
#define KIND where
#define A bool
#include "map.h"

/* Returns b if the condition is true, otherwise c. The choice is made by a mask of ones or zeros,
 * because a branch would be slow if conditions are random. */
K_INLINE T K_NAME(where)(bool condition, T b, T c) {
    const T mask = -(T)condition;
    return (b & mask) | (c & ~mask);
}
K_MAP_3(where)

#include "map_end.h"
