/*
 * loops/sum.h: a sum of floats, added in the same order as torch adds on one thread, so that it has
 * torch's bits. A sum is a cascade of subtotals: 16 rows, or more if there are over 2^19 rows, are
 * added to a subtotal. The same number of subtotals is added to a subtotal of the next level, and
 * so on, for up to four levels. So the rounding error hardly grows with the number of rows. If many
 * columns are summed together, each has a cascade of its own, and a row has one number of each
 * column. A single column of numbers is summed by four cascades (see cascade.h). In this case a row
 * is a vector of 32 bytes if the numbers are contiguous, otherwise a single number.
 *
 * Requires KIND, ELEMENT, RESULT and VALUE(v), which rows.h explains. Undefines KIND and VALUE at
 * the end.
 */
#define JOIN(a, b) ((a) + (b))
#include "rows.h"

/* Sets total[c] to the sum of column c over all rows, by a cascade for each column. */
static void THIS(_cascade)(const char *x, int64_t row, int64_t column, int64_t rows, int columns,
                           RESULT *restrict total) {
    RESULT level[3][REDUCE_BLOCK / sizeof(RESULT)];
    RESULT *const of[] = { total, level[0], level[1], level[2] };
    const int power = sum_power(rows);
    const int levels = rows >> power ? 4 : 1;
    for (int j = 0; j < levels; j++)
        memset(of[j], 0, (size_t)columns * sizeof(RESULT));
    for (int64_t i = 0; i < rows;) {
        const int64_t n = RG_MIN(rows - i, 1 << power);
        THIS(_rows)(x + i * row, row, column, n, columns, total);
        i += n;
        for (int j = 0; j < 3 && sum_is_full(i, j, power); j++) {
            for (int c = 0; c < columns; c++) {
                of[j + 1][c] += of[j][c];
                of[j][c] = 0;
            }
        }
    }
    for (int j = 1; j < levels; j++)
        for (int c = 0; c < columns; c++)
            total[c] += of[j][c];
}

/* Sets total[c] to the sum of column c over all rows, for fewer than 32 columns. Each column has
 * four cascades, each of which adds every fourth row. */
static inline void THIS(_by_four)(const char *x, int64_t row, int64_t column, int64_t rows,
                                  int columns, RESULT *restrict total) {
    RESULT part[4 * 32];
    const int64_t quarter = rows / 4;
    if (row == columns * column) {
        THIS(_cascade)(x, 4 * row, column, quarter, 4 * columns, part);
    } else {
        for (int k = 0; k < 4; k++)
            THIS(_cascade)(x + k * row, 4 * row, column, quarter, columns, part + k * columns);
    }
    for (int c = 0; c < columns; c++)
        total[c] = part[c];
    THIS(_rows)(x + 4 * quarter * row, row, column, rows - 4 * quarter, columns, total);
    for (int k = 1; k < 4; k++)
        for (int c = 0; c < columns; c++)
            total[c] += part[k * columns + c];
}

/* Each include of cascade.h makes a function that sums rows, with the sums in registers. In
 * THIS(_beside) a row has 32 bytes; in THIS(_apart) a row is a single number. */
#define CASCADE THIS(_beside)
#define WIDE    (int)(32 / sizeof(RESULT))
#define LANES   (int)(RG_MIN(K_VECTOR_BYTES, 32) / sizeof(RESULT))
#include "cascade.h"

#define CASCADE THIS(_apart)
#define WIDE    1
#define LANES   4
#include "cascade.h"

/* Returns the sum of n contiguous elements. */
static __attribute__((noinline)) RESULT THIS(_row)(const char *x, int64_t n) {
    enum { V = 32 / sizeof(RESULT), NEXT = sizeof(ELEMENT) };
    RESULT lane[V] = { 0 };
    RESULT total = 0;
    if (n >= 4 * V)
        THIS(_beside)(x, NEXT, n / V, lane);
    else
        THIS(_rows)(x, V * NEXT, NEXT, n / V, V, lane);
    for (int64_t i = n / V * V; i < n; i++)
        total += THIS(_at)(x + i * (int64_t)NEXT);
    for (int k = 0; k < V; k++)
        total += lane[k];
    return total;
}

/* Sums the columns of a block one after the other, and adds each sum to its element of y. `beside`
 * is true if the elements of each column are contiguous. */
K_INLINE void THIS(_columns)(char *y, const char *x, const reduce_block *b, bool beside) {
    for (int64_t j = 0; j < b->n1; j++) {
        RESULT total;
        if (beside)
            total = THIS(_row)(x + j * b->step1, b->n0);
        else
            THIS(_apart)(x + j * b->step1, b->step0, b->n0, &total);
        *(RESULT *)(y + j * b->y_step) += total;
    }
}

static void K_NAME(KIND)(char *y, const char *x, const reduce_block *b) {
    enum { V = 32 / sizeof(RESULT), COLUMNS = REDUCE_BLOCK / sizeof(RESULT) };
    const int64_t next = sizeof(ELEMENT);
    const bool beside = b->step0 == next && b->n0 >= V;
    const bool columns_beside = b->step1 == next && b->n1 >= V;
    if (beside || (!columns_beside && b->step0 < b->step1)) {
        THIS(_columns)(y, x, b, beside);
        return;
    }
    RESULT total[COLUMNS];
    const int64_t group = columns_beside ? 4 * V : 4;
    const int64_t whole = b->n1 / group * group;
    for (int64_t j = 0; j < b->n1;) {
        const int columns = (int)RG_MIN(COLUMNS, (j < whole ? whole : b->n1) - j);
        if (j < whole)
            THIS(_cascade)(x + j * b->step1, b->step0, b->step1, b->n0, columns, total);
        else
            THIS(_by_four)(x + j * b->step1, b->step0, b->step1, b->n0, columns, total);
        for (int c = 0; c < columns; c++)
            *(RESULT *)(y + (j + c) * b->y_step) += total[c];
        j += columns;
    }
}

#undef THIS
#undef JOIN
#undef KIND
#undef VALUE
