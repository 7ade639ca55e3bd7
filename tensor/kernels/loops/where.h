/*
 * loops/where.h: choosing by a condition, for elements of one size in one set.
 */
#define A bool
#include "map.h"

/* Returns b or c. A mask of ones or zeros chooses, not a branch, which a random condition would
 * make slow. */
K_INLINE T K_NAME(where)(bool condition, T b, T c) {
    const T mask = -(T)condition;
    return (b & mask) | (c & ~mask);
}
K_MAP_3(where)

#include "map_end.h"
