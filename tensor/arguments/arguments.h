/*
 * arguments.h: macros through which public functions are called. Some check arguments when the
 * program is compiled, some convert a number to a tensor, and some evaluate arguments from left to
 * right. tensor.h includes this file. The last section has a macro for each function of tensor.h
 * that needs one; tensor.h explains these functions.
 */
#pragma once

#include "../tensor.h"

#ifdef __cplusplus
#include <initializer_list>
#endif
#pragma GCC system_header

RG_PUBLIC_BEGIN

/* ---- checks of one argument -----------------------------------------------------------
 * Each macro has the value of its argument, and doesn't compile if the argument is of another kind
 * than this table says. A public function with such a parameter is also a macro of the same name,
 * which wraps the argument in one of these macros. Only RG_INT may cost time when the program runs.
 *
 *     RG_WHOLE(n)      a whole number for a parameter of 64 bits: no fraction, pointer or dtype
 *     RG_INT(n)        a whole number for a parameter of type int (see below if it doesn't fit)
 *     RG_FLAG(b)       true or false, or an integer: no fraction, pointer or dtype
 *     RG_REAL(d)       a number for a parameter of type double: neither a bool nor a dtype
 *     RG_A_DTYPE(d)    a dtype: neither a constant number nor a constant of another enum
 *
 * A double parameter that is called `number` isn't checked: it is an element's value, which may
 * also be a bool.
 *
 * In C the first three macros expand to a bitwise or of the argument with 0, because C has no
 * bitwise or for fractions and pointers. (If the argument is a dtype, a null pointer replaces the
 * 0.) The 0 has a type whose name, such as RG_A_WHOLE_NUMBER_BELONGS_HERE, appears in the
 * compiler's error. (GCC shows the name of a type in a literal with braces, but not the name of a
 * constant.) */
#define RG_REAL_SENTENCE_ "a number belongs here: a double, a float or an integer"
#ifndef __cplusplus
typedef int RG_A_WHOLE_NUMBER_BELONGS_HERE;
typedef int RG_TRUE_OR_FALSE_BELONGS_HERE;
#define RG_OR_ZERO_(n, type) ((n) | _Generic((n), rg_dtype : (type *)0, default : (type){ 0 }))
#define RG_WHOLE(n)          RG_OR_ZERO_(n, RG_A_WHOLE_NUMBER_BELONGS_HERE)
#define RG_FLAG(b)           RG_OR_ZERO_(b, RG_TRUE_OR_FALSE_BELONGS_HERE)
#define RG_REAL(d)                                                              \
    ((void)RG_REQUIRE_OF_(!_Generic((d), _Bool : 1, rg_dtype : 1, default : 0), \
                          RG_REAL_SENTENCE_),                                   \
     (d))
/* RG_A_DTYPE accepts a variable of a signed integer type, since rg_dtype_of returns an int. It
 * refuses a variable of an unsigned type, because in C a variable of another enum has such a type.
 * RG_IS_CONSTANT_(x) is 1 if x is a constant expression. Then (void *)(x * 0) is a null pointer
 * constant, and the conditional expression has the type int *. Otherwise it has the type void *. */
#define RG_A_DTYPE(d) ((void)RG_REQUIRE_OF_(RG_MAY_BE_DTYPE_(d), RG_DTYPE_SENTENCE_), (d))
#define RG_DTYPE_SENTENCE_ \
    "a dtype belongs here: RG_FLOAT32, RG_FLOAT64, RG_INT64, RG_BOOL or (rg_dtype)number"
#define RG_MAY_BE_DTYPE_(d)                                                     \
    (_Generic((d), rg_dtype : 1, default : 0)                                   \
     || (_Generic((1 ? (d) : 0), int : 1, long : 1, long long : 1, default : 0) \
         && !RG_IS_CONSTANT_(d)))
#define RG_IS_CONSTANT_(x) \
    _Generic((1 ? (void *)((intptr_t)(x)*0) : (int *)0), int * : 1, default : 0)
#endif

/* If n doesn't fit into an int, RG_INT(n) is the nearest int. So a dim or an index that is too
 * large is out of range for the function that gets it, and is refused. C's own conversion would
 * keep the lower 32 bits of n, which may be a valid dim; those of (size_t)-1 are -1. The compiler
 * removes the comparisons if n is an int. */
static inline int rgi_nearest_int(long long n) {
    if (n > __INT_MAX__)
        return __INT_MAX__;
    return n < -__INT_MAX__ ? -__INT_MAX__ - 1 : (int)n;
}
static inline int rgi_nearest_int_of_unsigned(unsigned long long n) {
    return n > __INT_MAX__ ? __INT_MAX__ : (int)n;
}
#ifndef __cplusplus
#define RG_INT(n)                                                   \
    _Generic((n), unsigned long : rgi_nearest_int_of_unsigned,      \
             unsigned long long : rgi_nearest_int_of_unsigned,      \
             default : rgi_nearest_int)(RG_WHOLE(n))
#endif

/* ---- arguments that may be literals -----------------------------------------------------
 * RG_CHECKED_2(A, B, a, b) is A(a), B(b), where A and B are macros such as RG_WHOLE, or RG_ANY for
 * an argument that isn't checked. The preprocessor splits a literal such as
 * (rg_dims){ 2, { 3, 4 } } at its commas. If there are more than two arguments for this reason,
 * they are passed on unchecked. RG_CHECKED_3 and RG_CHECKED_6 do the same for three and six
 * arguments. */
#define RG_ANY(x) x
#define RG_CHECKED_2(A, B, a, b, ...) \
    RG_PASTE(RG_CHECKED_2_, __VA_OPT__(SPLIT_))(A, B, a, b __VA_OPT__(, ) __VA_ARGS__)
#define RG_CHECKED_3(A, B, C, a, b, c, ...) \
    RG_PASTE(RG_CHECKED_3_, __VA_OPT__(SPLIT_))(A, B, C, a, b, c __VA_OPT__(, ) __VA_ARGS__)
#define RG_CHECKED_6(A, B, C, D, E, F, a, b, c, d, e, f, ...) \
    RG_PASTE(RG_CHECKED_6_, __VA_OPT__(SPLIT_))               \
    (A, B, C, D, E, F, a, b, c, d, e, f __VA_OPT__(, ) __VA_ARGS__)
#define RG_CHECKED_2_(A, B, a, b)                         A(a), B(b)
#define RG_CHECKED_3_(A, B, C, a, b, c)                   A(a), B(b), C(c)
#define RG_CHECKED_6_(A, B, C, D, E, F, a, b, c, d, e, f) A(a), B(b), C(c), D(d), E(e), F(f)
#define RG_CHECKED_2_SPLIT_(A, B, ...)                    __VA_ARGS__
#define RG_CHECKED_3_SPLIT_(A, B, C, ...)                 __VA_ARGS__
#define RG_CHECKED_6_SPLIT_(A, B, C, D, E, F, ...)        __VA_ARGS__

/* ---- numbers where a tensor is expected ------------------------------------------------ */

#define RG_TENSOR_OR_NUMBER_ "a tensor (an rg_tensor *) or a number belongs here"
#ifdef __cplusplus
#define RG_WRAP(x) rg_wrap(x)
#else
/* clang-format off */
/* Selects one of the other arguments by the type of x: `absent` for a pointer to void, and `other`
 * if x is neither a pointer to void nor a tensor nor a number. */
#define RG_BY_TYPE_(x, tensor, absent, yes_no, fraction, whole, large, other)           \
    _Generic((x),                                                                       \
        rg_tensor *: tensor, void *: absent, const void *: absent, _Bool: yes_no,       \
        float: fraction, double: fraction, long double: fraction,                       \
        char: whole, signed char: whole, unsigned char: whole, short: whole,            \
        unsigned short: whole, int: whole, unsigned: whole, long: whole,                \
        long long: whole, unsigned long: large, unsigned long long: large, default: other)
/* clang-format on */
#define RG_WRAP(x)                                                                          \
    ((void)RG_REQUIRE_OF_(RG_BY_TYPE_(x, 1, 1, 1, 1, 1, 1, 0), RG_TENSOR_OR_NUMBER_),       \
     RG_BY_TYPE_(x, rg_wrap_tensor, rg_wrap_void, rg_wrap_bool, rg_wrap_float, rg_wrap_int, \
                 rg_wrap_unsigned, rg_wrap_void)(x))
#endif

/* RG_T1, RG_T2 and RG_T3 call f with one, two or three arguments, each of them a tensor or a
 * number. The arguments are evaluated once, from left to right. In C++, braces guarantee that
 * order, and temporaries inside the braces live to the end of the full expression. */
#ifdef __cplusplus
#define RG_T1(f, a)       (rg_in_order{ RG_WRAP(a) }.one(f))
#define RG_T2(f, a, b)    (rg_in_order{ RG_WRAP(a), RG_WRAP(b) }.two(f))
#define RG_T3(f, a, b, c) (rg_in_order{ RG_WRAP(a), RG_WRAP(b), RG_WRAP(c) }.three(f))
#else
#define RG_T1(f, a)    RG_T1_(f, RG_PASTE(rg_a, __COUNTER__), a)
#define RG_T2(f, a, b) RG_T2_(f, RG_PASTE(rg_a, __COUNTER__), a, RG_PASTE(rg_b, __COUNTER__), b)
#define RG_T3(f, a, b, c)                                                     \
    RG_T3_(f, RG_PASTE(rg_a, __COUNTER__), a, RG_PASTE(rg_b, __COUNTER__), b, \
           RG_PASTE(rg_c, __COUNTER__), c)
#define RG_T1_(f, x, a)      \
    __extension__({          \
        __auto_type x = (a); \
        f(RG_WRAP(x));       \
    })
#define RG_T2_(f, x, a, y, b)      \
    __extension__({                \
        __auto_type x = (a);       \
        __auto_type y = (b);       \
        f(RG_WRAP(x), RG_WRAP(y)); \
    })
#define RG_T3_(f, x, a, y, b, z, c)            \
    __extension__({                            \
        __auto_type x = (a);                   \
        __auto_type y = (b);                   \
        __auto_type z = (c);                   \
        f(RG_WRAP(x), RG_WRAP(y), RG_WRAP(z)); \
    })
#endif

/* ---- arguments from left to right -------------------------------------------------------
 * C leaves open in which order arguments are evaluated. These macros call f, and first evaluate the
 * arguments that are tensors, from left to right. So the two random tensors in
 * rg_matmul(rg_rand(6, 3), rg_randn(3, 2)) are drawn in the same order as in Python. The other
 * arguments are evaluated after the tensors. The number n makes the names of the macro's variables
 * unique. In C the arguments are evaluated inside a block that the macro opens. If an argument
 * contains an array literal, the array's life ends with that block. This does no harm, because none
 * of these functions keeps a pointer to the array.
 *
 *     RG_IN_ORDER_2, 3, 4    the function's first arguments are two, three or four tensors
 *     RG_AROUND_2, 3         one argument, such as a dim or a shape, stands between the first
 *                            tensor and one or two more tensors
 *     RG_BEHIND_2            a module stands before two tensors
 *
 * A function that writes to an object to which an option points, such as a cache, isn't called by
 * these macros: a literal for such an option must live to the end of the caller's block. Its macro
 * makes one argument of the tensors, by RG_PAIR or RG_TRIPLE, and passes it with the options to an
 * inline function. Here too the order is open between the tensors and the options. */
typedef struct rg_tensors_in_order {
    rg_tensor *a, *b, *c;
} rg_tensors_in_order;
#ifdef __cplusplus
#define RG_IN_ORDER_2(f, n, a, b, ...) (rg_in_order{ (a), (b) }.two(f __VA_OPT__(, ) __VA_ARGS__))
#define RG_IN_ORDER_3(f, n, a, b, c, ...) \
    (rg_in_order{ (a), (b), (c) }.three(f __VA_OPT__(, ) __VA_ARGS__))
#define RG_IN_ORDER_4(f, n, a, b, c, d, ...) \
    (rg_in_order{ (a), (b), (c), (d) }.four(f __VA_OPT__(, ) __VA_ARGS__))
#define RG_AROUND_2(f, n, a, dim, b, ...) \
    (rg_in_order{ (a), (b) }.around_two(f, dim __VA_OPT__(, ) __VA_ARGS__))
#define RG_AROUND_3(f, n, a, dim, b, c, ...) \
    (rg_in_order{ (a), (b), (c) }.around_three(f, dim __VA_OPT__(, ) __VA_ARGS__))
#define RG_BEHIND_2(f, n, m, a, b, ...) \
    (rg_in_order{ (a), (b) }.behind_two(f, m __VA_OPT__(, ) __VA_ARGS__))
#define RG_PAIR(n, a, b)      (rg_tensors_in_order{ (a), (b), NULL })
#define RG_TRIPLE(n, a, b, c) (rg_tensors_in_order{ (a), (b), (c) })
#else
#define RG_IN_ORDER_2(f, n, a, b, ...)    RG_IN_ORDER_2_(f, n, a, b __VA_OPT__(, ) __VA_ARGS__)
#define RG_IN_ORDER_3(f, n, a, b, c, ...) RG_IN_ORDER_3_(f, n, a, b, c __VA_OPT__(, ) __VA_ARGS__)
#define RG_IN_ORDER_4(f, n, a, b, c, d, ...) \
    RG_IN_ORDER_4_(f, n, a, b, c, d __VA_OPT__(, ) __VA_ARGS__)
#define RG_AROUND_2(f, n, a, dim, b, ...) RG_AROUND_2_(f, n, a, dim, b __VA_OPT__(, ) __VA_ARGS__)
#define RG_AROUND_3(f, n, a, dim, b, c, ...) \
    RG_AROUND_3_(f, n, a, dim, b, c __VA_OPT__(, ) __VA_ARGS__)
#define RG_BEHIND_2(f, n, m, a, b, ...)    RG_BEHIND_2_(f, n, m, a, b __VA_OPT__(, ) __VA_ARGS__)
#define RG_IN_ORDER_2_(f, n, a, b, ...)                 \
    __extension__({                                     \
        RG_TWO_(n, a, b);                               \
        f(rg_a##n, rg_b##n __VA_OPT__(, ) __VA_ARGS__); \
    })
#define RG_IN_ORDER_3_(f, n, a, b, c, ...)                       \
    __extension__({                                              \
        RG_THREE_(n, a, b, c);                                   \
        f(rg_a##n, rg_b##n, rg_c##n __VA_OPT__(, ) __VA_ARGS__); \
    })
#define RG_IN_ORDER_4_(f, n, a, b, c, d, ...)                             \
    __extension__({                                                       \
        RG_THREE_(n, a, b, c);                                            \
        rg_tensor *rg_d##n = (d);                                         \
        f(rg_a##n, rg_b##n, rg_c##n, rg_d##n __VA_OPT__(, ) __VA_ARGS__); \
    })
#define RG_AROUND_2_(f, n, a, dim, b, ...)                   \
    __extension__({                                          \
        RG_TWO_(n, a, b);                                    \
        f(rg_a##n, dim, rg_b##n __VA_OPT__(, ) __VA_ARGS__); \
    })
#define RG_AROUND_3_(f, n, a, dim, b, c, ...)                         \
    __extension__({                                                   \
        RG_THREE_(n, a, b, c);                                        \
        f(rg_a##n, dim, rg_b##n, rg_c##n __VA_OPT__(, ) __VA_ARGS__); \
    })
#define RG_BEHIND_2_(f, n, m, a, b, ...)                   \
    __extension__({                                        \
        RG_TWO_(n, a, b);                                  \
        f(m, rg_a##n, rg_b##n __VA_OPT__(, ) __VA_ARGS__); \
    })
#define RG_PAIR(n, a, b)      RG_PAIR_(n, a, b)
#define RG_TRIPLE(n, a, b, c) RG_TRIPLE_(n, a, b, c)
#define RG_PAIR_(n, a, b)                                \
    __extension__({                                      \
        RG_TWO_(n, a, b);                                \
        (rg_tensors_in_order){ rg_a##n, rg_b##n, NULL }; \
    })
#define RG_TRIPLE_(n, a, b, c)                              \
    __extension__({                                         \
        RG_THREE_(n, a, b, c);                              \
        (rg_tensors_in_order){ rg_a##n, rg_b##n, rg_c##n }; \
    })
#define RG_TWO_(n, a, b)      \
    rg_tensor *rg_a##n = (a); \
    rg_tensor *rg_b##n = (b)
#define RG_THREE_(n, a, b, c) \
    RG_TWO_(n, a, b);         \
    rg_tensor *rg_c##n = (c)
#endif

/* ---- functions of tensor.h ---------------------------------------------------------------- */

#define rg_full(...)                     (rg_full)(RG_CHECKED_2(RG_ANY, RG_WRAP, __VA_ARGS__))
#define rg_full_dims(...) rg_full_dims(RG_CHECKED_3(RG_ANY, RG_WRAP, RG_A_DTYPE, __VA_ARGS__))
#define rg_full_like(x, value)           RG_T2(rg_full_like, x, value)
#define rg_arange(end)                   RG_T1(rg_arange, end)
#define rg_arange_step(start, end, step) RG_T3(rg_arange_step, start, end, step)
#define rg_arange_as(end, dtype)         (rg_arange_as)(RG_WRAP(end), RG_A_DTYPE(dtype))
#define rg_arange_step_as(start, end, step, dtype)                                             \
    RG_IN_ORDER_3(rg_arange_step_as, __COUNTER__, RG_WRAP(start), RG_WRAP(end), RG_WRAP(step), \
                  RG_A_DTYPE(dtype))
#define rg_scalar(number) RG_T1(rg_scalar, number)

#define RG_FROM_THESE_ \
    "rg_from copies from an array of float, double, int64_t, int, uint8_t or bool"
#ifndef __cplusplus
/* clang-format off */
#define RG_FROM_(data, a_float, a_double, an_int64, an_int, a_bool, a_byte, other) \
    _Generic(*(data), float: a_float, double: a_double, int64_t: an_int64,          \
             int: an_int, bool: a_bool, uint8_t: a_byte, default: other)
/* clang-format on */
#define rg_from(data, ...)                                                                   \
    ((void)RG_REQUIRE_OF_(RG_FROM_(data, 1, 1, 1, 1, 1, 1, 0), RG_FROM_THESE_),              \
     RG_FROM_(data, rg_from_float, rg_from_double, rg_from_int64, rg_from_int, rg_from_bool, \
              rg_from_uint8, rg_from_bool)(data, RG_DIMS(__VA_ARGS__)))
#endif

#define RG_DATA_THESE_ "rg_data_as gives elements as float, double, int64_t, uint8_t or bool"
#ifndef __cplusplus
/* clang-format off */
#define RG_DATA_DTYPE_(type)                                            \
    _Generic((type *)0, float *: RG_FLOAT32, const float *: RG_FLOAT32, \
             double *: RG_FLOAT64, const double *: RG_FLOAT64,          \
             int64_t *: RG_INT64, const int64_t *: RG_INT64,            \
             uint8_t *: RG_UINT8, const uint8_t *: RG_UINT8,            \
             bool *: RG_BOOL, const bool *: RG_BOOL, default: RG_NO_DTYPE)
/* clang-format on */
#define rg_data_as(type, t)                                                  \
    ((void)RG_REQUIRE_(RG_DATA_DTYPE_(type) != RG_NO_DTYPE, RG_DATA_THESE_), \
     (type *)rg_data_as_dtype(t, RG_DATA_DTYPE_(type)))
#endif

#define rg_scope_end(mark) rg_scope_end(RG_WHOLE(mark))
#define rg_scope_copy(...) rg_scope_copy(RG_CHECKED_2(RG_ANY, RG_WHOLE, __VA_ARGS__))
#define rg_empty_dims(...) rg_empty_dims(RG_CHECKED_2(RG_ANY, RG_A_DTYPE, __VA_ARGS__))
#define rg_zeros_dims(...) rg_zeros_dims(RG_CHECKED_2(RG_ANY, RG_A_DTYPE, __VA_ARGS__))
#define rg_ones_dims(...)  rg_ones_dims(RG_CHECKED_2(RG_ANY, RG_A_DTYPE, __VA_ARGS__))
#define rg_linspace(start, end, steps, dtype) \
    rg_linspace(RG_REAL(start), RG_REAL(end), RG_WHOLE(steps), RG_A_DTYPE(dtype))
#define rg_logspace(start, end, steps, base, dtype) \
    rg_logspace(RG_REAL(start), RG_REAL(end), RG_WHOLE(steps), RG_REAL(base), RG_A_DTYPE(dtype))
#define rg_eye(n, m)                   rg_eye(RG_WHOLE(n), RG_WHOLE(m))
#define rg_eye_as(n, m, dtype)         rg_eye_as(RG_WHOLE(n), RG_WHOLE(m), RG_A_DTYPE(dtype))
#define rg_scalar_dtype(number, dtype) rg_scalar_dtype(number, RG_A_DTYPE(dtype))
#define rg_parse_dtype(text, dtype)    rg_parse_dtype(text, RG_A_DTYPE(dtype))
#define rg_from_dims(...) rg_from_dims(RG_CHECKED_3(RG_ANY, RG_A_DTYPE, RG_ANY, __VA_ARGS__))
#define rg_set_default_dtype(dtype)    rg_set_default_dtype(RG_A_DTYPE(dtype))
#define rg_size(t, dim)                rg_size(t, RG_INT(dim))
#define rg_stride(t, dim)              rg_stride(t, RG_INT(dim))
#define rg_data_as_dtype(t, dtype)        rg_data_as_dtype(t, RG_A_DTYPE(dtype))
#define rg_copy_out(t, ...)            rg_copy_out(t, RG_CHECKED_2(RG_ANY, RG_WHOLE, __VA_ARGS__))
#define rg_equal(a, b)                 RG_IN_ORDER_2(rg_equal, __COUNTER__, a, b)
#define rg_allclose(a, b, rtol, atol) \
    RG_IN_ORDER_2(rg_allclose, __COUNTER__, a, b, RG_REAL(rtol), RG_REAL(atol))
#define rg_dtype_name(dtype)       rg_dtype_name(RG_A_DTYPE(dtype))
#define rg_promote_types(a, b)     rg_promote_types(RG_A_DTYPE(a), RG_A_DTYPE(b))
#define rg_result_type(a, b)       RG_IN_ORDER_2(rg_result_type, __COUNTER__, a, b)
#define rg_manual_seed(seed)       rg_manual_seed(RG_WHOLE(seed))
#define rg_generator_new(seed)     rg_generator_new(RG_WHOLE(seed))
#define rg_generator_seed(g, seed) rg_generator_seed(g, RG_WHOLE(seed))
#define rg_rand_dims(...) rg_rand_dims(RG_CHECKED_3(RG_ANY, RG_A_DTYPE, RG_ANY, __VA_ARGS__))
#define rg_randn_dims(...) rg_randn_dims(RG_CHECKED_3(RG_ANY, RG_A_DTYPE, RG_ANY, __VA_ARGS__))
#define rg_randint_dims(low, high, ...)            \
    rg_randint_dims(RG_WHOLE(low), RG_WHOLE(high), \
                    RG_CHECKED_3(RG_ANY, RG_A_DTYPE, RG_ANY, __VA_ARGS__))
#define rg_randperm_with(n, g) rg_randperm_with(RG_WHOLE(n), g)
#define rg_multinomial_with(weights, draws, replacement, g) \
    rg_multinomial_with(weights, RG_WHOLE(draws), RG_FLAG(replacement), g)
#define rg_uniform_with_(t, low, high, g) rg_uniform_with_(t, RG_REAL(low), RG_REAL(high), g)
#define rg_normal_with_(t, mean, std, g)  rg_normal_with_(t, RG_REAL(mean), RG_REAL(std), g)
#define rg_trunc_normal_with_(t, mean, std, low, high, g) \
    rg_trunc_normal_with_(t, RG_REAL(mean), RG_REAL(std), RG_REAL(low), RG_REAL(high), g)
#define rg_exponential_with_(t, rate, g) rg_exponential_with_(t, RG_REAL(rate), g)
#define rg_bernoulli_with_(t, p, g)      rg_bernoulli_with_(t, RG_REAL(p), g)
#define rg_memory_fail_at(n)             rg_memory_fail_at(RG_WHOLE(n))
#define rg_set_num_threads(n)            rg_set_num_threads(RG_INT(n))
#define rg_wrap_float(x)                 rg_wrap_float(RG_REAL(x))
#define rg_wrap_int(x)                   rg_wrap_int(RG_WHOLE(x))
#define rg_wrap_unsigned(x)              rg_wrap_unsigned(RG_WHOLE(x))
#define rg_wrap_bool(x)                  rg_wrap_bool(RG_FLAG(x))

RG_PUBLIC_END

#ifdef __cplusplus
/* In C++ RG_WHOLE, RG_FLAG and RG_REAL call overloaded functions. G++ gives NULL the type long, and
 * reports an error if NULL is converted to another type. Therefore an argument of type long selects
 * the function whose parameter is a long long, and every other type selects the template. (Clang
 * reports NULL only if NULL and the conversion come from the same macro.) Below, sizes and operands
 * have two such functions as well. The class rg_argument has the line's number as a parameter, so
 * that the compiler reports each wrong line, not only the first one. RG_A_DTYPE checks nothing,
 * because a C++ compiler itself refuses a number where a dtype belongs. */
template <typename T> struct rg_is_exact {
    static constexpr bool value = !std::is_floating_point<T>::value && !std::is_pointer<T>::value
                                  && !std::is_same<T, rg_dtype>::value;
};
template <int line> struct rg_argument {
    static constexpr inline long long whole(long long n) { return n; }
    template <typename T, typename = rg_no_long<T>> static constexpr inline T whole(T n) {
        static_assert(rg_is_exact<T>::value,
                      "a whole number belongs here: an int, an int64_t or a size_t");
        return n;
    }
    template <typename T> static inline int nearest_int(T n) {
        return std::is_signed<T>::value ? rgi_nearest_int((long long)n)
                                        : rgi_nearest_int_of_unsigned((unsigned long long)n);
    }
    static constexpr inline bool flag(long long b) { return b != 0; }
    template <typename T, typename = rg_no_long<T>> static constexpr inline bool flag(T b) {
        static_assert(rg_is_exact<T>::value, "true or false belongs here, or an integer");
        return b ? true : false;
    }
    static constexpr inline double real(long long d) { return (double)d; }
    template <typename T, typename = rg_no_long<T>> static constexpr inline double real(T d) {
        static_assert(!std::is_same<T, bool>::value && !std::is_same<T, rg_dtype>::value,
                      RG_REAL_SENTENCE_);
        return d;
    }
};
#define RG_WHOLE(n)   (rg_argument<__LINE__>::whole(n))
#define RG_FLAG(b)    (rg_argument<__LINE__>::flag(b))
#define RG_REAL(d)    (rg_argument<__LINE__>::real(d))
#define RG_INT(n)     (rg_argument<__LINE__>::nearest_int(RG_WHOLE(n)))
#define RG_A_DTYPE(d) (d)

/* The innermost scope owns the array of a list, because the array of an initializer_list would live
 * only to the end of the expression. */
template <typename L, typename T> static inline L rg_list_in_scope(std::initializer_list<T> l) {
    const void *v = rg_scope_copy(l.begin(), l.size() * sizeof(T));
    return L{ v ? (int)l.size() : -1, static_cast<const T *>(v) };
}
static inline rg_named_list rg_named_list_of(std::initializer_list<rg_named> l) {
    return rg_list_in_scope<rg_named_list>(l);
}
#define RG_NAMED_LIST(...) rg_named_list_of({ __VA_ARGS__ })

struct rg_one_size {
    int64_t v;
    rg_one_size(long long n) : v(n) {}
    template <typename T, typename = rg_no_long<T>> rg_one_size(T n) : v(0) {
        constexpr bool is_list = std::is_same<T, rg_dims>::value;
        static_assert(!std::is_same<T, rg_dtype>::value && !is_list, RG_NO_SIZE_);
        static_assert(!std::is_floating_point<T>::value && !std::is_pointer<T>::value,
                      RG_WHOLE_SIZES_);
        if constexpr (!is_list)
            v = (int64_t)n;
    }
};
struct rg_no_size {};
static inline rg_dims rg_dims_of(rg_no_size) { return rg_dims{}; }
template <size_t n> static inline rg_dims rg_dims_of(const rg_one_size (&sizes)[n]) {
    static_assert(n <= RG_MAX_DIMS, "there are too many sizes");
    rg_dims d = { (int)n, {} };
    for (size_t i = 0; i < n; i++)
        d.v[i] = sizes[i].v;
    return d;
}
#define RG_DIMS(...) rg_dims_of({ __VA_ARGS__ })

static inline rg_tensor *rg_wrap(long long x) { return rg_wrap_int(x); }
template <typename T, typename = rg_no_long<T>> static inline rg_tensor *rg_wrap(T x) {
    using type = std::remove_cv_t<T>;
    constexpr bool is_tensor = std::is_same<type, rg_tensor *>::value
                               || std::is_same<type, decltype(nullptr)>::value;
    static_assert(is_tensor || std::is_arithmetic<T>::value || std::is_enum<T>::value,
                  RG_TENSOR_OR_NUMBER_);
    if constexpr (is_tensor)
        return x;
    else if constexpr (std::is_same<type, bool>::value)
        return rg_wrap_bool(x);
    else if constexpr (std::is_floating_point<T>::value)
        return rg_wrap_float((double)x);
    else if constexpr (std::is_same<type, unsigned long>::value
                       || std::is_same<type, unsigned long long>::value)
        return rg_wrap_unsigned(x);
    else if constexpr (std::is_arithmetic<T>::value || std::is_enum<T>::value)
        return rg_wrap_int((int64_t)x);
    else
        return nullptr;
}

/* The braces of rg_in_order{ .. } evaluate the tensors from left to right. The struct's member
 * functions then call f with the tensors and the other arguments. The other arguments are converted
 * to the types of f's parameters, so that NULL may stand for a pointer. */
template <typename T> struct rg_same { using type = T; };
template <typename T> using rg_given = typename rg_same<T>::type;
struct rg_in_order {
    using T = rg_tensor *;
    rg_tensor *a, *b = nullptr, *c = nullptr, *d = nullptr;
    template <typename R> R one(R (*f)(T)) const { return f(a); }
    template <typename R, typename... O> R two(R (*f)(T, T, O...), rg_given<O>... o) const {
        return f(a, b, o...);
    }
    template <typename R, typename... O> R three(R (*f)(T, T, T, O...), rg_given<O>... o) const {
        return f(a, b, c, o...);
    }
    template <typename R, typename... O> R four(R (*f)(T, T, T, T, O...), rg_given<O>... o) const {
        return f(a, b, c, d, o...);
    }
    template <typename R, typename D, typename... O>
    R around_two(R (*f)(T, D, T, O...), rg_given<D> dim, rg_given<O>... o) const {
        return f(a, dim, b, o...);
    }
    template <typename R, typename D, typename... O>
    R around_three(R (*f)(T, D, T, T, O...), rg_given<D> dim, rg_given<O>... o) const {
        return f(a, dim, b, c, o...);
    }
    template <typename R, typename M, typename... O>
    R behind_two(R (*f)(M, T, T, O...), rg_given<M> m, rg_given<O>... o) const {
        return f(m, a, b, o...);
    }
};

static inline rg_tensor *rg_from_any(const float *p, rg_dims s) { return rg_from_float(p, s); }
static inline rg_tensor *rg_from_any(const double *p, rg_dims s) { return rg_from_double(p, s); }
static inline rg_tensor *rg_from_any(const int64_t *p, rg_dims s) { return rg_from_int64(p, s); }
static inline rg_tensor *rg_from_any(const int *p, rg_dims s) { return rg_from_int(p, s); }
static inline rg_tensor *rg_from_any(const bool *p, rg_dims s) { return rg_from_bool(p, s); }
static inline rg_tensor *rg_from_any(const uint8_t *p, rg_dims s) { return rg_from_uint8(p, s); }
template <typename T> static inline rg_tensor *rg_from_any(const T *, rg_dims) {
    static_assert(std::is_void<T>::value && !std::is_void<T>::value, RG_FROM_THESE_);
    return nullptr;
}
#define rg_from(data, ...) rg_from_any(data, RG_DIMS(__VA_ARGS__))

template <typename T> static inline T *rg_data_of_type(rg_tensor *t) {
    using type = std::remove_const_t<T>;
    constexpr rg_dtype dtype = std::is_same<type, float>::value     ? RG_FLOAT32
                               : std::is_same<type, double>::value  ? RG_FLOAT64
                               : std::is_same<type, int64_t>::value ? RG_INT64
                               : std::is_same<type, uint8_t>::value ? RG_UINT8
                               : std::is_same<type, bool>::value    ? RG_BOOL
                                                                    : RG_NO_DTYPE;
    static_assert(dtype != RG_NO_DTYPE, RG_DATA_THESE_);
    return (T *)rg_data_as_dtype(t, dtype);
}
#define rg_data_as(type, t) rg_data_of_type<type>(t)
#endif
