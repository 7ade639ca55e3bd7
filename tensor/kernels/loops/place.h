/*
 * loops/place.h: the maximum or minimum along one dim, and its index. If the extreme occurs several
 * times, the index is that of its first occurrence. If there is a NaN, the result is the first NaN
 * and its index. extremes.h includes this file, after the loops K_NAME(min) and K_NAME(max).
 */

/* PLACE is the type of the indices in place_columns. For float32 elements it has 32 bits, so that a
 * vector holds as many indices as elements. Such a PLACE can't hold an index of 2^32 or more.
 * (place_in_row, which handles contiguous rows of 64 or more elements, computes with int64_t.) */
#if K_IS_FLOAT && K_SIZE == 4
#define PLACE uint32_t
#else
#define PLACE int64_t
#endif

/* Returns whether v replaces `best`, the best value among the elements before v. It does if v is
 * better or NaN, and `best` isn't NaN. */
K_INLINE bool K_NAME(place_beats)(T v, T best, bool smallest) {
    const bool beyond = smallest ? v < best : v > best;
    const bool is_nan = K_TYPED(k_is_nan)(v);
    const bool best_is_nan = K_TYPED(k_is_nan)(best);
    return (beyond | is_nan) & !best_is_nan;
}

/* Compares the elements of row i with the best value of each column, and replaces the value and its
 * index where place_beats is true. */
K_INLINE void K_NAME(place_row)(T *restrict best, PLACE *restrict where, const char *x,
                                int64_t step, int64_t columns, PLACE i, bool smallest) {
    for (int64_t k = 0; k < columns; k++) {
        const T v = *(const T *)(x + k * step);
        const T b = best[k];
        const PLACE at = where[k];
        const bool beats = K_NAME(place_beats)(v, b, smallest);
        best[k] = beats ? v : b;
        where[k] = beats ? i : at;
    }
}

/* Sets *best to the extreme of a row of n elements, and returns its index. First finds the block
 * that contains the extreme, and then the index within the block. */
static int64_t K_NAME(place_in_row)(const T *v, int64_t n, bool smallest, T *best) {
    enum { BLOCK = 2048 };
    reduce_loop *loop = smallest ? K_NAME(min) : K_NAME(max);
    int64_t at = 0;
    for (int64_t i = 0; i < n; i += BLOCK) {
        T most = v[0];
        const reduce_block b = { .n0 = RG_MIN(n - i, BLOCK), .step0 = sizeof(T), .n1 = 1 };
        loop((char *)&most, (const char *)(v + i), &b);
        if (i == 0 || K_NAME(place_beats)(most, *best, smallest)) {
            *best = most;
            at = i;
        }
    }
    if (K_TYPED(k_is_nan)(*best)) {
        while (!K_TYPED(k_is_nan)(v[at]))
            at++;
    } else {
        const T extreme = *best;
        _Pragma("GCC unroll 4") while (v[at] != extreme) { at++; }
    }
    return at;
}

/* Updates best[] and where[] with the elements of rows 1 to n0 - 1. Before the call, best[] has the
 * elements of row 0, and where[] has zeros. */
K_INLINE void K_NAME(place_rows)(T *best, PLACE *where, const char *x, const reduce_block *b,
                                 int64_t columns, const bool smallest) {
    for (int64_t i = 1; i < b->n0; i++) {
        x += b->step0;
        if (b->step1 == sizeof(T))
            K_NAME(place_row)(best, where, x, sizeof(T), columns, (PLACE)i, smallest);
        else
            K_NAME(place_row)(best, where, x, b->step1, columns, (PLACE)i, smallest);
    }
}

/* Finds the extreme of each of `columns` columns, and its index. */
static void K_NAME(place_columns)(T *best, PLACE *where, const char *x, const reduce_block *b,
                                  int64_t columns, bool smallest) {
    for (int64_t k = 0; k < columns; k++) {
        best[k] = *(const T *)(x + k * b->step1);
        where[k] = 0;
    }
    if (smallest)
        K_NAME(place_rows)(best, where, x, b, columns, true);
    else
        K_NAME(place_rows)(best, where, x, b, columns, false);
}

static void K_NAME(place)(char *y, const char *x, const reduce_block *b) {
    enum { COLUMNS = 1024, NEXT = sizeof(T) };
    const place_context *c = b->context;
    T *value = (T *)y;
    int64_t *at = c->indices + (value - (T *)c->values);
    const int64_t y_step = b->y_step / NEXT;
    if (b->step0 == NEXT && b->n0 >= 64) {
        for (int64_t j = 0; j < b->n1; j++) {
            const T *row = (const T *)(x + j * b->step1);
            at[j * y_step] = K_NAME(place_in_row)(row, b->n0, c->smallest, value + j * y_step);
        }
        return;
    }
    T best[COLUMNS];
    PLACE where[COLUMNS];
    for (int64_t j = 0; j < b->n1; j += COLUMNS) {
        const int64_t columns = RG_MIN(b->n1 - j, COLUMNS);
        K_NAME(place_columns)(best, where, x + j * b->step1, b, columns, c->smallest);
        for (int64_t k = 0; k < columns; k++) {
            value[(j + k) * y_step] = best[k];
            at[(j + k) * y_step] = where[k];
        }
    }
}

#undef PLACE
