/*
 * loops/index_each.h: the elements that indices name, one by one. p[0] steps
 * through the elements that stand in a row, p[1] to where each index starts to
 * count, and p[2] through the indices; an index is worth `step` bytes.
 */

/* An action takes an element of the row and the element at an index, and reads or changes them. */
typedef void K_NAME(index_action)(T *row, T *at);

/* Acts on a whole row at one index, where elements lie side by side in both places, which are
 * apart. */
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
