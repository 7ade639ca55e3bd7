/*
 * combine.h: sums, maxima and minima of two arrays of type T, element by element. combine.c
 * includes this file once for each type. Before each inclusion combine.c must define T, and
 * NAMED(f), which is the name of the function f for this type. This file undefines both.
 */
static void NAMED(sum)(T *to, const T *left, const T *right, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        to[i] = left[i] + right[i];
}

/* Returns the larger of two numbers. Returns NaN if either is NaN. */
static T NAMED(above)(T a, T b) {
    if (a >= b)
        return a;
    return b >= a ? b : (T)(a + b);
}

static void NAMED(max)(T *to, const T *left, const T *right, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        to[i] = NAMED(above)(left[i], right[i]);
}

static T NAMED(below)(T a, T b) {
    if (a <= b)
        return a;
    return b <= a ? b : (T)(a + b);
}

static void NAMED(min)(T *to, const T *left, const T *right, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        to[i] = NAMED(below)(left[i], right[i]);
}

static void NAMED(combine)(rg_reduce_op op, T *to, const T *left, const T *right, int64_t n) {
    if (op == RG_REDUCE_SUM)
        NAMED(sum)(to, left, right, n);
    else if (op == RG_REDUCE_MAX)
        NAMED(max)(to, left, right, n);
    else
        NAMED(min)(to, left, right, n);
}

#undef T
#undef NAMED
