/*
 * loops/rows.h: combines rows of elements, column by column: total[c] = JOIN(total[c], x[r][c]) for
 * each row r. sum.h and fold.h include this file.
 *
 * Requires these macros:
 *
 *     KIND         the first part of the functions' names
 *     ELEMENT      the type of an element in memory
 *     RESULT       the type of the result
 *     VALUE(v)     the value of an element v that is combined with others
 *     JOIN(a, b)   the combination of a result a and a value b
 */
#define THIS(f) K_NAME(RG_PASTE(KIND, f))

K_INLINE RESULT THIS(_at)(const char *x) {
    const ELEMENT v = *(const ELEMENT *)x;
    return (RESULT)(VALUE(v));
}

K_INLINE RESULT THIS(_join)(RESULT a, RESULT b) { return (RESULT)(JOIN(a, b)); }

/* Returns `a` combined with one element of each of four rows. The rows are `row` bytes apart. */
static inline RESULT THIS(_join_four)(RESULT a, const char *x, int64_t row) {
    a = THIS(_join)(a, THIS(_at)(x));
    a = THIS(_join)(a, THIS(_at)(x + row));
    a = THIS(_join)(a, THIS(_at)(x + 2 * row));
    return THIS(_join)(a, THIS(_at)(x + 3 * row));
}

/* total[c] = JOIN(total[c], x[r][c]), row by row. Rows are `row` bytes apart, and columns are
 * `column` bytes apart. */
static inline void THIS(_rows)(const char *x, int64_t row, int64_t column, int64_t rows,
                               int columns, RESULT *restrict total) {
    enum { NEXT = sizeof(ELEMENT) };
    for (; rows >= 8 && column == NEXT; rows -= 8) {
        for (int c = 0; c < columns; c++) {
            RESULT first = THIS(_join_four)(total[c], x + c * NEXT, row);
            total[c] = THIS(_join_four)(first, x + 4 * row + c * NEXT, row);
        }
        x += 8 * row;
    }
    for (; rows > 0 && column == NEXT; rows--) {
        for (int c = 0; c < columns; c++)
            total[c] = THIS(_join)(total[c], THIS(_at)(x + c * NEXT));
        x += row;
    }
    for (; rows > 0; rows--) {
        for (int c = 0; c < columns; c++)
            total[c] = THIS(_join)(total[c], THIS(_at)(x + c * column));
        x += row;
    }
}
