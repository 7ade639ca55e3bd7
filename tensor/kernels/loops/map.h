/*
 * loops/map.h: y = f(a), f(a, b) or f(a, b, c), element by element. A file of loops includes this
 * header, and writes f as an ordinary function:
 *
 *     K_INLINE R K_NAME(relu)(T x) { return x < 0 ? 0 : x; }
 *
 * At its end, the file makes the function relu_loop from the row of relu in elementwise.def. For an
 * f without a row, it has a line K_MAP_1(f), which makes f_loop. If such a function takes numbers
 * beside its operands, such as a slope, its last parameter is `const T *k`, and its line is
 * K_MAP_1_WITH; k has three numbers, converted to T. Before including this header, a file defines
 * KIND, and may define A and R:
 *
 *     KIND  the first part of the names of the functions here
 *     A     the type of the first operand; T if it isn't defined
 *     R     the type of the result; T if it isn't defined
 *
 * map_end.h undefines these macros. There is a loop for contiguous operands alone, and one for each
 * usual combination of contiguous operands with single numbers. These loops vectorise.
 *
 * A function is heavy if each loop into which it is compiled takes hundreds of bytes, and if it
 * takes more time than a copy of its operands. Its line is K_HEAVY_1, K_HEAVY_2 and so on. Such a
 * line makes a loop for contiguous operands only; other operands, and single numbers, are copied to
 * a buffer block by block. K_HEAVY_2_OR_NUMBER also makes loops for an operand that is a single
 * number, since programs often call such a function with a number.
 */

#ifndef A
#define A T
#endif
#ifndef R
#define R T
#endif

/* Makes the name of a function of this header. It begins with KIND, which the including file has
 * defined, and a suffix such as _map_1. It ends with the type and the set, as K_NAME makes them. */
#define K_MAP(f) K_NAME(RG_PASTE(KIND, f))

typedef R K_MAP(_map_1_function)(A a, const T *k);
typedef R K_MAP(_map_2_function)(A a, T b, const T *k);
typedef R K_MAP(_map_3_function)(A a, T b, T c, const T *k);

/* Converts the three numbers at `context` from double to T. If `context` is NULL, all three are
 * 0. */
K_INLINE void K_MAP(_map_numbers)(T k[3], const void *context) {
    const double *numbers = context;
    for (int i = 0; i < 3; i++) {
#if K_IS_FLOAT || K_IS_BOOL
        k[i] = numbers ? (T)numbers[i] : 0;
#else
        k[i] = numbers ? rgi_load_i64(numbers + i, RG_FLOAT64) : 0;
#endif
    }
}

/* _map_1, _map_2 and _map_3 compute n elements of f's result. If f is heavy, `heavy` is the loop
 * that calls this function; k_run_beside calls that loop again with contiguous copies. Otherwise
 * `heavy` is NULL. In _map_2, the bool `numbers` says whether an operand that is a single number
 * has a loop of its own. If f isn't heavy, _map_1 and _map_2 compute elements that aren't
 * contiguous one by one. Gathering the elements into vectors would take as many loads, and ten
 * times as much code. */
K_INLINE void K_MAP(_map_1)(char *const p[], const int64_t s[], int64_t n, const T *k,
                            K_MAP(_map_1_function) * f, rg_loop *heavy, const void *context) {
    R *y = (R *)p[0];
    const A *a = (const A *)p[1];
    if (s[0] == sizeof(R) && s[1] == sizeof(A)) {
        K_INDEPENDENT
        for (int64_t i = 0; i < n; i++)
            y[i] = f(a[i], k);
    } else if (heavy) {
        k_run_beside(heavy, 2, (const int[]){ sizeof(R), sizeof(A) }, p, s, n, context);
    } else {
        for (int64_t i = 0; i < n; i++) {
            K_ONE_BY_ONE();
            *(R *)(p[0] + i * s[0]) = f(*(const A *)(p[1] + i * s[1]), k);
        }
    }
}

K_INLINE void K_MAP(_map_2)(char *const p[], const int64_t s[], int64_t n, const T *k,
                            K_MAP(_map_2_function) * f, bool numbers, rg_loop *heavy,
                            const void *context) {
    R *y = (R *)p[0];
    const A *a = (const A *)p[1];
    const T *b = (const T *)p[2];
    const bool dense = s[0] == sizeof(R);
    const bool dense_a = s[1] == sizeof(A);
    const bool dense_b = s[2] == sizeof(T);
    if (dense && dense_a && dense_b) {
        K_INDEPENDENT
        for (int64_t i = 0; i < n; i++)
            y[i] = f(a[i], b[i], k);
    } else if (numbers && dense && dense_a && s[2] == 0) {
        const T number = *b;
        K_INDEPENDENT
        for (int64_t i = 0; i < n; i++)
            y[i] = f(a[i], number, k);
    } else if (numbers && dense && s[1] == 0 && dense_b) {
        const A number = *a;
        K_INDEPENDENT
        for (int64_t i = 0; i < n; i++)
            y[i] = f(number, b[i], k);
    } else if (heavy) {
        k_run_beside(heavy, 3, (const int[]){ sizeof(R), sizeof(A), sizeof(T) }, p, s, n, context);
    } else {
        for (int64_t i = 0; i < n; i++) {
            K_ONE_BY_ONE();
            *(R *)(p[0] + i * s[0]) = f(*(const A *)(p[1] + i * s[1]),
                                        *(const T *)(p[2] + i * s[2]), k);
        }
    }
}

K_INLINE void K_MAP(_map_3)(char *const p[], const int64_t s[], int64_t n, const T *k,
                            K_MAP(_map_3_function) * f, rg_loop *heavy, const void *context) {
    R *y = (R *)p[0];
    const A *a = (const A *)p[1];
    const T *b = (const T *)p[2];
    const T *c = (const T *)p[3];
    const bool dense = s[0] == sizeof(R) && s[1] == sizeof(A);
    const bool dense_b = s[2] == sizeof(T);
    if (dense && dense_b && s[3] == sizeof(T)) {
        K_INDEPENDENT
        for (int64_t i = 0; i < n; i++)
            y[i] = f(a[i], b[i], c[i], k);
    } else if (heavy) {
        k_run_beside(heavy, 4, (const int[]){ sizeof(R), sizeof(A), sizeof(T), sizeof(T) }, p, s, n,
                     context);
    } else if (dense && dense_b && s[3] == 0) {
        const T number = *c;
        K_INDEPENDENT
        for (int64_t i = 0; i < n; i++)
            y[i] = f(a[i], b[i], number, k);
    } else if (dense && s[2] == 0 && s[3] == 0) {
        const T second = *b;
        const T third = *c;
        K_INDEPENDENT
        for (int64_t i = 0; i < n; i++)
            y[i] = f(a[i], second, third, k);
    } else {
        K_INDEPENDENT
        for (int64_t i = 0; i < n; i++)
            *(R *)(p[0] + i * s[0]) = f(*(const A *)(p[1] + i * s[1]),
                                        *(const T *)(p[2] + i * s[2]),
                                        *(const T *)(p[3] + i * s[3]), k);
    }
}

/* ---- macros that define a loop: K_MAP_1(f) defines f_loop ------------------------------------ */

#define K_LOOP_HEAD(op)                                                          \
    static void K_NAME(op##_loop)(char *const p[], const int64_t s[], int64_t n, \
                                  const void *context)

/* Defines op_loop, for a function K_NAME(op) that takes `count` operands and the three numbers k[].
 * The macro's other arguments are passed on to _map_1, _map_2 or _map_3 (see there): the bool
 * `numbers`, which only _map_2 has, and the loop `heavy`. */
#define K_LOOP_WITH(op, count, ...)                                                  \
    K_LOOP_HEAD(op) {                                                                \
        T k[3];                                                                      \
        K_MAP(_map_numbers)(k, context);                                             \
        K_MAP(RG_PASTE(_map_, count))(p, s, n, k, K_NAME(op), __VA_ARGS__, context); \
    }
/* Defines op_loop, for a function K_NAME(op) that takes `count` operands and no numbers. */
#define K_LOOP_ALONE(op, count, ...)                                                            \
    K_LOOP_HEAD(op) {                                                                           \
        K_MAP(RG_PASTE(_map_, count))(p, s, n, NULL, K_NAME(op##_alone), __VA_ARGS__, context); \
    }
#define K_ALONE_1(op)                                \
    K_INLINE R K_NAME(op##_alone)(A a, const T *k) { \
        (void)k;                                     \
        return K_NAME(op)(a);                        \
    }
#define K_ALONE_2(op)                                     \
    K_INLINE R K_NAME(op##_alone)(A a, T b, const T *k) { \
        (void)k;                                          \
        return K_NAME(op)(a, b);                          \
    }
#define K_ALONE_3(op)                                          \
    K_INLINE R K_NAME(op##_alone)(A a, T b, T c, const T *k) { \
        (void)k;                                               \
        return K_NAME(op)(a, b, c);                            \
    }

#define K_MAP_1(op)             K_ALONE_1(op) K_LOOP_ALONE(op, 1, NULL)
#define K_MAP_2(op)             K_ALONE_2(op) K_LOOP_ALONE(op, 2, true, NULL)
#define K_MAP_3(op)             K_ALONE_3(op) K_LOOP_ALONE(op, 3, NULL)
#define K_MAP_1_WITH(op)        K_LOOP_WITH(op, 1, NULL)
#define K_MAP_2_WITH(op)        K_LOOP_WITH(op, 2, true, NULL)
#define K_MAP_3_WITH(op)        K_LOOP_WITH(op, 3, NULL)
#define K_HEAVY_1(op)           K_ALONE_1(op) K_LOOP_ALONE(op, 1, K_NAME(op##_loop))
#define K_HEAVY_2(op)           K_ALONE_2(op) K_LOOP_ALONE(op, 2, false, K_NAME(op##_loop))
#define K_HEAVY_2_OR_NUMBER(op) K_ALONE_2(op) K_LOOP_ALONE(op, 2, true, K_NAME(op##_loop))
#define K_HEAVY_3(op)           K_ALONE_3(op) K_LOOP_ALONE(op, 3, K_NAME(op##_loop))
#define K_HEAVY_1_WITH(op)      K_LOOP_WITH(op, 1, K_NAME(op##_loop))
#define K_HEAVY_2_WITH(op)      K_LOOP_WITH(op, 2, false, K_NAME(op##_loop))

/* K_LOOP_OF_ROW(op, n, weight, dtypes) defines op_loop for a row of elementwise.def, if the row has
 * loops for this type. n is the number of operands, or 2_OR_NUMBER as in K_HEAVY_2_OR_NUMBER.
 * `weight` is LIGHT, MEDIUM, HEAVY or OWN; for OWN nothing is defined, because the file of loops
 * defines op_loop itself. */
#define K_LOOP_OF_ROW(op, n, weight, dtypes) \
    K_LOOP_OF_ROW_(K_ROW_##weight##_##n, op, K_LOOPS_FOR_##dtypes)
#define K_LOOP_OF_ROW_(LINE, op, TYPES)  K_LOOP_OF_ROW__(LINE, op, TYPES)
#define K_LOOP_OF_ROW__(LINE, op, TYPES) K_IF_##TYPES(LINE(op))
#define K_IF_ALL(loop)                   loop
#if K_IS_BOOL
#define K_IF_NUMBERS(loop)
#else
#define K_IF_NUMBERS(loop) loop
#endif
#if K_IS_FLOAT
#define K_IF_FLOATS(loop) loop
#else
#define K_IF_FLOATS(loop)
#endif

#define K_ROW_LIGHT_1  K_MAP_1
#define K_ROW_MEDIUM_1 K_MAP_1
#define K_ROW_HEAVY_1  K_HEAVY_1
#define K_ROW_OWN_1(op)
#define K_ROW_LIGHT_2  K_MAP_2
#define K_ROW_MEDIUM_2 K_MAP_2
#define K_ROW_HEAVY_2  K_HEAVY_2
#define K_ROW_OWN_2(op)
#define K_ROW_LIGHT_2_OR_NUMBER  K_MAP_2
#define K_ROW_MEDIUM_2_OR_NUMBER K_MAP_2
#define K_ROW_HEAVY_2_OR_NUMBER  K_HEAVY_2_OR_NUMBER
