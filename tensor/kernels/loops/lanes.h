/*
 * loops/lanes.h: sums and maxima of a row of T, and loops that write a row. A sum is computed in
 * K_LANES lanes: lane l sums the elements l, l + K_LANES, l + 2 * K_LANES, and so on. At the end
 * the upper half of the lanes is added to the lower half, again and again until one lane is left.
 * So the sum vectorises, is more accurate than one running sum, and has the same bits in every
 * instruction set. For a sum or a write, the caller passes a function that computes an element from
 * its index; the compiler inlines that function.
 */
K_SUMS_IN_T;

#define LANES K_NAME(lanes)
#define VALUE K_NAME(value)

typedef T LANES __attribute__((vector_size(K_LANES * sizeof(T))));

/* Returns element i of a row. `row` points to a struct that only the caller and its function
 * know. */
typedef T VALUE(const void *row, int64_t i);

/* Returns the sum of the lanes. */
K_INLINE T K_NAME(lanes_sum)(const LANES *lanes) {
    T lane[K_LANES];
    memcpy(lane, lanes, sizeof lane);
    _Pragma("GCC unroll 4") for (int half = K_LANES / 2; half; half /= 2) {
        for (int l = 0; l < half; l++)
            lane[l] += lane[l + half];
    }
    return lane[0];
}

/* Returns the greatest of the lanes. The lanes are read through a union, so that the caller's loop
 * keeps them in a register. With memcpy, the compiler would write them to memory in each iteration
 * of that loop. */
K_INLINE T K_NAME(lanes_max)(const LANES *lanes) {
    union {
        LANES all;
        T lane[K_LANES];
    } max = { *lanes };
    _Pragma("GCC unroll 4") for (int half = K_LANES / 2; half; half /= 2) {
        for (int l = 0; l < half; l++)
            max.lane[l] = RG_MAX(max.lane[l], max.lane[l + half]);
    }
    return max.lane[0];
}

/* sum[l] += lane[l]. The sum is a vector because compilers would keep an array in memory, and load
 * and store it in each iteration. */
K_INLINE void K_NAME(lanes_add)(LANES *sum, const T lane[K_LANES]) {
    LANES more;
    memcpy(&more, lane, sizeof more);
    *sum += more;
}

/* Returns the sum of the values at i = 0 .. n - 1. */
K_INLINE T K_NAME(sum_of)(int64_t n, VALUE *value, const void *row) {
    const int64_t whole = n / K_LANES * K_LANES;
    const int left = (int)(n - whole);
    LANES sum = { 0 };
    T lane[K_LANES];
    for (int64_t j = 0; j < whole; j += K_LANES) {
        for (int l = 0; l < K_LANES; l++)
            lane[l] = value(row, j + l);
        K_NAME(lanes_add)(&sum, lane);
    }
    if (left) {
        for (int l = 0; l < K_LANES; l++)
            lane[l] = l < left ? value(row, whole + l) : 0;
        K_NAME(lanes_add)(&sum, lane);
    }
    return K_NAME(lanes_sum)(&sum);
}

/* ---- maxima and sums for softmax and cross entropy ------------------------------------------- */

/* Returns the greatest of n elements, in the order of k_order (see smooth.h). If the row has a NaN,
 * the result may be NaN or a number, depending on the NaN's sign and place. In both cases,
 * sum_of_powers is NaN for this row. */
K_INLINE T K_NAME(greatest)(const T *x, int64_t n) {
    K_TYPED(k_ordered) greatest = K_TYPED(k_order)(-(T)INFINITY);
    for (int64_t i = 0; i < n; i++)
        greatest = RG_MAX(greatest, K_TYPED(k_order)(x[i]));
    return K_TYPED(k_unorder)(greatest);
}

typedef struct {
    const T *x;
    T max;
} K_NAME(powers);

K_INLINE T K_NAME(power)(const void *row, int64_t i) {
    const K_NAME(powers) *r = row;
    return K_TYPED(k_exp_below)(r->x[i] - r->max);
}

/* Returns the sum of e^(x[i] - max) over n elements. */
K_INLINE T K_NAME(sum_of_powers)(const T *x, int64_t n, T max) {
    const K_NAME(powers) row = { x, max };
    return K_NAME(sum_of)(n, K_NAME(power), &row);
}

/* ---- writing a row --------------------------------------------------------------------------- */

/* to[i] = value(row, i), for i < n. If `stream` is true, whole lines of 64 bytes are written past
 * the caches; this requires that the address `to` is a multiple of 64. */
K_INLINE void K_NAME(write_row)(T *to, int64_t n, bool stream, VALUE *value, const void *row) {
    int64_t written = 0;
    for (; stream && written + K_LANES <= n; written += K_LANES) {
        T line[K_LANES];
        /* The pragma is needed because compilers don't vectorise a loop that they have unrolled
         * early. */
        _Pragma("GCC unroll 1") for (int l = 0; l < K_LANES; l++) {
            line[l] = value(row, written + l);
        }
        for (int l = 0; l < K_LANES; l += 64 / (int)sizeof(T))
            K_IN_SET(k_stream_line)(to + written + l, line + l);
    }
    K_INDEPENDENT
    _Pragma("GCC unroll 1") for (int64_t i = written; i < n; i++) { to[i] = value(row, i); }
}

#undef LANES
#undef VALUE
