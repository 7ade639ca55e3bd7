/*
 * loops/where.h: selects one of two elements by a condition, for one element size and one set.
 */
#define KIND where
#define A bool
#include "map.h"

/* Returns b if the condition holds, else c. The condition becomes a mask of ones or zeros, because
 * a branch would be slow where conditions are random. */
K_INLINE T K_NAME(where)(bool condition, T b, T c) {
    const T mask = -(T)condition;
    return (b & mask) | (c & ~mask);
}
K_MAP_3(where)

#include "map_end.h"
