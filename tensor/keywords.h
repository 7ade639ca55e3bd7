/*
 * keywords.h: macros for Python's keyword arguments, and checks of arguments by the compiler.
 *
 * RG_KEYWORDS makes Python's keyword arguments possible, f(x, .eps = 1e-6, .reduction = RG_SUM): it
 * makes a struct of options from the last arguments, in which absent fields have their defaults. An
 * option is given by its name alone: f(x, 1e-6) doesn't compile. Neither does a fraction for a
 * whole number, or a pointer of another type than the function takes.
 */
#pragma once

#include <stdbool.h>
#ifdef __cplusplus
#include <type_traits>
#endif

#define RG_PASTE_(a, b) a##b
#define RG_PASTE(a, b)  RG_PASTE_(a, b)

/* Makes two warnings errors, which older C compilers don't do: a module in place of a tensor, and
 * an integer in place of a pointer. */
#ifndef __cplusplus
/* Silences a warning of -pedantic: a call without options has an empty argument. */
#ifdef __clang__
#pragma clang diagnostic ignored "-Wgnu-zero-variadic-macro-arguments"
#endif
#pragma GCC diagnostic error "-Wincompatible-pointer-types"
#pragma GCC diagnostic error "-Wint-conversion"
#elif defined __clang__ /* Makes it an error to pass NULL as a number. */
#pragma clang diagnostic error "-Wnull-conversion"
#else
#pragma GCC diagnostic error "-Wconversion-null"
#endif

/* ---- whole numbers ------------------------------------------------------------------- */

/* RG_WHOLE(n) is n, and doesn't compile if n is a fraction or a pointer: C has no bitwise or of
 * these with the constant, which is 0, and whose name appears in the compiler's error. Each
 * function that takes a whole number, such as a size or a dim, is also a macro that wraps this
 * argument. Other arguments are passed on; one that is a literal with commas needs parentheses. */
#ifdef __cplusplus
/* NULL is a long to G++, which refuses to convert it. Therefore a long is converted to a long long,
 * and the template takes all other types; the same is done for sizes and operands. (Clang refuses
 * NULL only if it and the conversion come from the same macro.) */
template <typename T> using rg_no_long = std::enable_if_t<!std::is_same<T, long>::value>;
template <int line> struct rg_whole_number {
    static constexpr inline long long of(long long n) { return n; }
    template <typename T, typename = rg_no_long<T>> static constexpr inline T of(T n) {
        static_assert(!std::is_floating_point<T>::value && !std::is_pointer<T>::value,
                      "a whole number belongs here: an int, an int64_t or a size_t");
        return n;
    }
};
#define RG_WHOLE(n) (rg_whole_number<__LINE__>::of(n))
#else
enum { RG_A_WHOLE_NUMBER_BELONGS_HERE };
#define RG_WHOLE(n) ((n) | RG_A_WHOLE_NUMBER_BELONGS_HERE)
#endif

/* ---- options by name ----------------------------------------------------------------- */

/* A struct of options begins with RG_BY_NAME, and each field ends with RG_DEFAULT: they put members
 * without a size between the fields, to which no value converts (an array of char would take a
 * string). In C, GCC would accept a value for such a member; RG_OPTIONS makes that an error, which
 * only -w silences. */
#if defined __GNUC__ && !defined __clang__ && !defined __cplusplus
#define RG_OPTIONS __attribute__((designated_init))
#pragma GCC diagnostic error "-Wdesignated-init"
#else
#define RG_OPTIONS
#endif
#define RG_BY_ITS_NAME_ \
    "an option goes by its name, as .bias does in rg_nn_linear(3, 4, .bias = false)"
#ifdef __cplusplus
class rg_options_go_by_name {
    __extension__ bool nothing[0] __attribute__((unused));

  public:
    rg_options_go_by_name() = default;
    template <typename T> rg_options_go_by_name(T) {
        static_assert(std::is_void<T>::value, RG_BY_ITS_NAME_);
    }
};
#define RG_BY_NAME rg_options_go_by_name rg_before = {}
#define RG_DEFAULT_NAMED_(place, ...) \
    = __VA_ARGS__;                    \
    rg_options_go_by_name RG_PASTE(rg_after_, place) = {}
#else
typedef struct rg_options_go_by_name {
    __extension__ bool nothing[0];
} rg_options_go_by_name;
#define RG_BY_NAME rg_options_go_by_name rg_before
#define RG_DEFAULT_NAMED_(place, ...) \
    ;                                 \
    rg_options_go_by_name RG_PASTE(rg_after_, place)
#endif
#define RG_DEFAULT(...) RG_DEFAULT_NAMED_(__LINE__, __VA_ARGS__)

/* The type of an option whose value is an enum's. In C the field is an integer of the enum's size:
 * compilers silently convert a fraction to an enum, but RG_KEYWORDS makes them refuse it for an
 * integer. (They refuse neither a fraction nor a pointer for a bool.) */
#ifdef __cplusplus
#define RG_ONE_OF(type) type
#else
#define RG_ONE_OF(type) \
    __typeof__(__builtin_choose_expr(sizeof(type) == 1, (signed char)0, 0u))
#endif

/* Ends a field of a struct that programs fill in by name. If the program leaves the field out, it
 * is zero, in C++ as in C, without a warning. */
#ifdef __cplusplus
#define RG_EMPTY = {}
#else
#define RG_EMPTY
#endif

/* In C the defaults come from RG_KEYWORDS, in C++ from the struct. The macro puts the arguments in
 * no block of its own, so that a literal among them, such as an array, lives to the end of the
 * caller's block in C, and to the end of the whole expression in C++. */
#ifdef __cplusplus
#define RG_KEYWORDS(type, defaults, ...) \
    type { __VA_ARGS__ }
#else
/* RG_QUIET_ turns two warnings off: a default that an argument overrides, and arguments whose text
 * is a long string. RG_STRICT_ makes a fraction in place of a whole number an error. */
#ifdef __clang__
#define RG_QUIET_                                                                                  \
    _Pragma("GCC diagnostic push") _Pragma("clang diagnostic ignored \"-Winitializer-overrides\"") \
        _Pragma("clang diagnostic ignored \"-Woverlength-strings\"")
#define RG_STRICT_                                             \
    _Pragma("clang diagnostic error \"-Wliteral-conversion\"") \
        _Pragma("clang diagnostic error \"-Wfloat-conversion\"")
#define RG_LOUD_ _Pragma("GCC diagnostic pop")
#elif __GNUC__ >= 12
#define RG_QUIET_                                                                        \
    _Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Woverride-init\"") \
        _Pragma("GCC diagnostic ignored \"-Woverlength-strings\"")
#define RG_STRICT_ _Pragma("GCC diagnostic error \"-Wfloat-conversion\"")
#define RG_LOUD_   _Pragma("GCC diagnostic pop")
#else /* GCC 11 takes no pragma in a macro's argument, and warns of fields that aren't named. */
#define RG_QUIET_
#define RG_STRICT_
#define RG_LOUD_
#pragma GCC diagnostic ignored "-Woverride-init"
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#endif
#define RG_QUIETLY_ (void)__extension__({ RG_QUIET_ RG_STRICT_ 0; })
#define RG_LOUDLY_  __extension__({ RG_LOUD_ 0; })
#define RG_KEYWORDS(type, defaults, ...)                       \
    (*(RG_QUIETLY_, &(type){ RG_STRIP_ defaults, __VA_ARGS__ } \
                        + RG_REQUIRE_(RG_IS_NAMED_(#__VA_ARGS__), RG_BY_ITS_NAME_) + RG_LOUDLY_))
#define RG_STRIP_(...) __VA_ARGS__
/* True if the text of the arguments is empty or begins with a dot, as an option does. */
#define RG_IS_NAMED_(text) (sizeof(text) == 1 || !__builtin_memcmp(text, ".", 1))
#endif

/* In C, RG_REQUIRE_ is 0 if the condition holds; otherwise it doesn't compile, and the compiler
 * prints the sentence. __builtin_choose_expr keeps Clang from printing the whole condition. */
#define RG_REQUIRE_(condition, sentence)                                     \
    (0 * (int)sizeof(struct {                                                \
         _Static_assert(__builtin_choose_expr((condition), 1, 0), sentence); \
         int unused;                                                         \
     }))
/* RG_REQUIRE_OF_ does so for a condition on the type of an expression, within a function. (In the
 * declaration of a struct Clang refuses literals of variables, such as (float[]){ x, y }.) */
#ifdef __clang__
#define RG_REQUIRE_OF_(condition, sentence)                                 \
    __extension__({                                                         \
        _Static_assert(__builtin_choose_expr((condition), 1, 0), sentence); \
        0;                                                                  \
    })
#else
#define RG_REQUIRE_OF_(condition, sentence) RG_REQUIRE_(condition, sentence)
#endif
