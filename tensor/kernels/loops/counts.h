/*
 * loops/counts.h: the loop that counts elements that aren't 0, compiled for each number type and
 * instruction set (see sets.h).
 */
#define ELEMENT T
#define RESULT  uint64_t

#define KIND       count
#define UNIT       0
#define VALUE(v)   ((v) != 0)
#define JOIN(a, b) ((a) + (b))
#include "fold.h"

#undef RESULT
#undef ELEMENT
