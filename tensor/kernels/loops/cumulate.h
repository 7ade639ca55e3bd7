/*
 * loops/cumulate.h: running sums, products, recurrences and logarithms of sums of exponentials,
 * compiled for each element type (see sets.h). A line is the elements along the dim of the call,
 * for one index of the other dims.
 */
K_SUMS_IN_T;

/* TOTAL is the type of the running value, and RESULT the type of the result. Integers wrap around;
 * floats are computed in double. */
#if K_IS_FLOAT
#define TOTAL  double
#define RESULT T
#else
#define TOTAL  uint64_t
#define RESULT uint64_t
#endif

/* A step function returns the next running value, from the running value and the next element of x.
 * *z is the next element of another operand, which only a recurrence uses. */
typedef TOTAL K_NAME(cumulate_step)(TOTAL total, TOTAL x, const T *z);

K_INLINE TOTAL K_NAME(cumulate_sum)(TOTAL total, TOTAL x, const T *z) {
    (void)z;
    return total + x;
}

K_INLINE TOTAL K_NAME(cumulate_product)(TOTAL total, TOTAL x, const T *z) {
    (void)z;
    return total * x;
}

K_INLINE TOTAL K_NAME(cumulate_recurrence)(TOTAL total, TOTAL x, const T *z) {
    return (TOTAL)*z + x * total;
}

#if K_IS_FLOAT
/* Returns ln(e^total + e^x). If both are the same infinity, returns that infinity; x - total would
 * be NaN. */
K_INLINE TOTAL K_NAME(cumulate_logaddexp)(TOTAL total, TOTAL x, const T *z) {
    (void)z;
    if (total == x && isinf(x))
        return x;
    const double most = x > total || x != x ? x : total;
    return most + log1p(exp(-fabs(x - total)));
}
#endif

/* Computes one line, by calling `step` for each element. `total` is the running value before the
 * first element. */
K_INLINE void K_NAME(cumulate_line)(char *y, const char *x, const char *z, const cumulate_along *c,
                                    TOTAL total, K_NAME(cumulate_step) * step) {
    for (int64_t i = 0; i < c->n; i++) {
        const T next = *(const T *)x;
        total = step(total, (TOTAL)next, (const T *)z);
        *(RESULT *)y = (RESULT)total;
        y += c->step[0];
        x += c->step[1];
        z += c->step[2];
    }
}

/* Computes several adjacent lines at once. One line begins s[0] bytes after the line before it in
 * y, s[1] bytes in x, and s[2] bytes in z. */
K_INLINE void K_NAME(cumulate_columns)(char *y, const char *x, const char *z, const int64_t s[],
                                       int64_t columns, const cumulate_along *c, TOTAL start,
                                       K_NAME(cumulate_step) * step) {
    TOTAL total[CUMULATE_COLUMNS];
    for (int64_t k = 0; k < columns; k++)
        total[k] = start;
    for (int64_t i = 0; i < c->n; i++) {
        for (int64_t k = 0; k < columns; k++) {
            const T next = *(const T *)(x + k * s[1]);
            total[k] = step(total[k], (TOTAL)next, (const T *)(z + k * s[2]));
            *(RESULT *)(y + k * s[0]) = (RESULT)total[k];
        }
        y += c->step[0];
        x += c->step[1];
        z += c->step[2];
    }
}

/* Computes the lines one by one; or, if neighbouring elements in memory belong to different lines,
 * several lines at once. */
K_INLINE void K_NAME(cumulate_lines)(char *const p[], const int64_t s[], int64_t lines,
                                     const cumulate_along *c, TOTAL start,
                                     K_NAME(cumulate_step) * step) {
    const bool side_by_side = llabs(c->step[1]) > llabs(s[1]);
    const int64_t block = side_by_side ? CUMULATE_COLUMNS : 1;
    for (int64_t j = 0; j < lines; j += block) {
        char *y = p[0] + j * s[0];
        const char *x = p[1] + j * s[1];
        const char *z = p[2] + j * s[2];
        if (side_by_side)
            K_NAME(cumulate_columns)(y, x, z, s, RG_MIN(block, lines - j), c, start, step);
        else
            K_NAME(cumulate_line)(y, x, z, c, start, step);
    }
}

static void K_NAME(cumsum)(char *const p[], const int64_t s[], int64_t lines, const void *context) {
    K_NAME(cumulate_lines)(p, s, lines, context, 0, K_NAME(cumulate_sum));
}

static void K_NAME(cumprod)(char *const p[], const int64_t s[], int64_t lines,
                            const void *context) {
    K_NAME(cumulate_lines)(p, s, lines, context, 1, K_NAME(cumulate_product));
}

static void K_NAME(recur)(char *const p[], const int64_t s[], int64_t lines, const void *context) {
    K_NAME(cumulate_lines)(p, s, lines, context, 0, K_NAME(cumulate_recurrence));
}

#if K_IS_FLOAT
static void K_NAME(logcumsumexp)(char *const p[], const int64_t s[], int64_t lines,
                                 const void *context) {
    K_NAME(cumulate_lines)(p, s, lines, context, -(TOTAL)INFINITY, K_NAME(cumulate_logaddexp));
}
#endif

#undef TOTAL
#undef RESULT
