/*
 * loops/index_each.h: calls a function for each index. The function gets an element of a row and
 * the element that the index selects.
 *
 * Element i of the row is at p[0] + i * s[0]. Index i is at p[2] + i * s[2]; it selects the element
 * at p[1] + i * s[1] + index * step, where `step` is in bytes.
 */

/* An action reads or changes two elements: *row, an element of the row, and *at, the element that
 * the index selects. */
typedef void K_NAME(index_action)(T *row, T *at);

/* Calls act(row + i, at + i) for i < n. Requires that the n elements at `row` don't overlap with
 * those at `at`. */
K_INLINE void K_NAME(index_rows)(T *restrict row, T *restrict at, int64_t n,
                                 K_NAME(index_action) * act) {
    for (int64_t i = 0; i < n; i++)
        act(row + i, at + i);
}

K_INLINE void K_NAME(index_each)(char *const p[], const int64_t s[], int64_t n, int64_t step,
                                 K_NAME(index_action) * act) {
    char *row = p[0];
    char *base = p[1];
    const char *index = p[2];
    if (s[2] == 0) {
        base += *(const int64_t *)index * step;
        step = 0;
        if (s[0] == sizeof(T) && s[1] == sizeof(T)) {
            K_NAME(index_rows)((T *)row, (T *)base, n, act);
            return;
        }
    }
    if (s[0] == sizeof(T) && s[1] == 0 && s[2] == sizeof(int64_t)) {
        for (int64_t i = 0; i < n; i++)
            act((T *)row + i, (T *)(base + ((const int64_t *)index)[i] * step));
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        act((T *)row, (T *)(base + *(const int64_t *)index * step));
        row += s[0];
        base += s[1];
        index += s[2];
    }
}
