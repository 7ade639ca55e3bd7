/*
 * loops/fold.h: the loop of a reduction that isn't a sum of floats. Contiguous elements are
 * combined in torch's order, other elements row by row. The order matters only for the rounding of
 * a result, such as a product of floats.
 *
 * Requires KIND, ELEMENT, RESULT, VALUE(v) and JOIN(a, b), which rows.h explains, and UNIT, a value
 * that changes nothing: JOIN(x, UNIT) equals x for every result x. Undefines KIND, UNIT, VALUE and
 * JOIN at the end.
 */
#include "rows.h"

/* Returns `total` combined with n0 elements, which are `step` bytes apart. */
K_INLINE RESULT THIS(_line)(RESULT total, const char *x, int64_t step, int64_t n0) {
    enum { V = 32 / sizeof(RESULT), NEXT = sizeof(ELEMENT) };
    RESULT part[4 * V];
    const int64_t rows = step == NEXT ? n0 / (4 * V) : 0;
    if (rows) {
        K_IN_REGISTERS
        for (int c = 0; c < 4 * V; c++)
            part[c] = (RESULT)(UNIT);
        for (int64_t r = 0; r < rows; r++) {
            K_IN_REGISTERS
            for (int c = 0; c < 4 * V; c++)
                part[c] = THIS(_join)(part[c], THIS(_at)(x + (r * 4 * V + c) * NEXT));
        }
        K_IN_REGISTERS
        for (int c = 0; c < V; c++) {
            RESULT low = THIS(_join)(part[c], part[V + c]);
            RESULT high = THIS(_join)(part[2 * V + c], part[3 * V + c]);
            part[c] = THIS(_join)(low, high);
        }
        K_IN_REGISTERS
        for (int c = 1; c < V; c++)
            part[0] = THIS(_join)(part[0], part[c]);
        total = THIS(_join)(total, part[0]);
    }
    if (step == NEXT)
        for (int64_t i = rows * 4 * V; i < n0; i++)
            total = THIS(_join)(total, THIS(_at)(x + i * NEXT));
    else
        for (int64_t i = 0; i < n0; i++)
            total = THIS(_join)(total, THIS(_at)(x + i * step));
    return total;
}

/* Copies `columns` results from y, where they are y_step bytes apart, to part[]. */
K_INLINE void THIS(_load)(RESULT *part, const char *y, int64_t y_step, int columns) {
    if (y_step == sizeof(RESULT))
        memcpy(part, y, (size_t)columns * sizeof(RESULT));
    else
        for (int c = 0; c < columns; c++)
            part[c] = *(const RESULT *)(y + c * y_step);
}

/* Copies `columns` results from part[] to y, where they are y_step bytes apart. */
K_INLINE void THIS(_store)(char *y, int64_t y_step, const RESULT *part, int columns) {
    if (y_step == sizeof(RESULT))
        memcpy(y, part, (size_t)columns * sizeof(RESULT));
    else
        for (int c = 0; c < columns; c++)
            *(RESULT *)(y + c * y_step) = part[c];
}

static void K_NAME(KIND)(char *y, const char *x, const reduce_block *b) {
    enum { COLUMNS = REDUCE_BLOCK / sizeof(RESULT) };
    if (b->y_step == 0 || b->step0 <= b->step1) {
        for (int64_t j = 0; j < b->n1; j++) {
            RESULT *to = (RESULT *)(y + j * b->y_step);
            *to = THIS(_line)(*to, x + j * b->step1, b->step0, b->n0);
        }
        return;
    }
    RESULT part[COLUMNS];
    for (int64_t j = 0; j < b->n1; j += COLUMNS) {
        const int columns = (int)RG_MIN(b->n1 - j, COLUMNS);
        THIS(_load)(part, y + j * b->y_step, b->y_step, columns);
        THIS(_rows)(x + j * b->step1, b->step0, b->step1, b->n0, columns, part);
        THIS(_store)(y + j * b->y_step, b->y_step, part, columns);
    }
}

#undef THIS
#undef KIND
#undef UNIT
#undef VALUE
#undef JOIN
