/*
 * loops/cumulate.h: running sums, products and recurrences of one type, along lines.
 */

/* SO_FAR is the type in which the running value is held, and RESULT that of the result: integers
 * wrap around, and floats are summed in double. */
#if K_IS_FLOAT
#define SO_FAR double
#define RESULT T
#else
#define SO_FAR uint64_t
#define RESULT uint64_t
#endif

/* A step returns the running value joined by the next element of x, and of z, which only a
 * recurrence reads. */
typedef SO_FAR K_NAME(cumulate_step)(SO_FAR so_far, SO_FAR x, const T *z);

K_INLINE SO_FAR K_NAME(cumulate_sum)(SO_FAR so_far, SO_FAR x, const T *z) {
    (void)z;
    return so_far + x;
}

K_INLINE SO_FAR K_NAME(cumulate_product)(SO_FAR so_far, SO_FAR x, const T *z) {
    (void)z;
    return so_far * x;
}

K_INLINE SO_FAR K_NAME(cumulate_recurrence)(SO_FAR so_far, SO_FAR x, const T *z) {
    return (SO_FAR)*z + x * so_far;
}

#if K_IS_FLOAT
/* Two equal infinities have no difference. */
K_INLINE SO_FAR K_NAME(cumulate_logaddexp)(SO_FAR so_far, SO_FAR x, const T *z) {
    (void)z;
    if (so_far == x && isinf(x))
        return x;
    const double most = x > so_far || x != x ? x : so_far;
    return most + log1p(exp(-fabs(x - so_far)));
}
#endif

/* Runs along one line. */
K_INLINE void K_NAME(cumulate_line)(char *y, const char *x, const char *z, const cumulate_along *c,
                                    SO_FAR so_far, K_NAME(cumulate_step) * step) {
    for (int64_t i = 0; i < c->n; i++) {
        const T next = *(const T *)x;
        so_far = step(so_far, (SO_FAR)next, (const T *)z);
        *(RESULT *)y = (RESULT)so_far;
        y += c->step[0];
        x += c->step[1];
        z += c->step[2];
    }
}

/* Runs along many lines at once, whose neighbours lie s[0], s[1] and s[2] bytes apart. */
K_INLINE void K_NAME(cumulate_columns)(char *y, const char *x, const char *z, const int64_t s[],
                                       int64_t columns, const cumulate_along *c, SO_FAR start,
                                       K_NAME(cumulate_step) * step) {
    SO_FAR so_far[CUMULATE_COLUMNS];
    for (int64_t k = 0; k < columns; k++)
        so_far[k] = start;
    for (int64_t i = 0; i < c->n; i++) {
        for (int64_t k = 0; k < columns; k++) {
            const T next = *(const T *)(x + k * s[1]);
            so_far[k] = step(so_far[k], (SO_FAR)next, (const T *)(z + k * s[2]));
            *(RESULT *)(y + k * s[0]) = (RESULT)so_far[k];
        }
        y += c->step[0];
        x += c->step[1];
        z += c->step[2];
    }
}

/* Runs along the dim's lines one by one or, where neighbours in other lines lie closer, side by
 * side. */
K_INLINE void K_NAME(cumulate_lines)(char *const p[], const int64_t s[], int64_t lines,
                                     const cumulate_along *c, SO_FAR start,
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
    K_NAME(cumulate_lines)(p, s, lines, context, -INFINITY, K_NAME(cumulate_logaddexp));
}
#endif

#undef SO_FAR
#undef RESULT
