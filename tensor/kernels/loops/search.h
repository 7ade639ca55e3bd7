/*
 * loops/search.h: binary search in sorted rows of one type.
 */

/* Returns how many of the row's n sorted elements are less than v, or, if `right`, less than or
 * equal to v. If v is NaN, returns n. */
K_INLINE int64_t K_NAME(search_row)(const T *row, int64_t n, T v, bool right) {
    int64_t low = 0;
    int64_t high = n;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        bool above = right ? row[middle] > v : row[middle] >= v;
        if (above)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* Sets to[i] to the result of search_row for value i, for `count` values. The first `per_row`
 * values are searched for in the first row of `sorted`, the next `per_row` values in the next row,
 * and so on. Rows have n elements. */
static void K_NAME(search)(int64_t *to, const void *sorted, const void *values, int64_t n,
                           int64_t count, int64_t per_row, bool right) {
    const T *row = sorted;
    const T *v = values;
    for (int64_t i = 0; i < count; i++) {
        if (i && i % per_row == 0)
            row += n;
        to[i] = K_NAME(search_row)(row, n, v[i], right);
    }
}
