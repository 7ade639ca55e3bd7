/*
 * keywords.h: macros for Python's keyword arguments, and checks of arguments by the compiler.
 *
 * RG_KEYWORDS makes Python's keyword arguments possible: f(x, .eps = 1e-6, .reduction = RG_SUM). It
 * makes a struct of options from the last arguments of a call. Options that aren't given have their
 * defaults. An option can be given only by its name: f(x, 1e-6) doesn't compile. A fraction that is
 * given for a whole number doesn't compile either, nor does a pointer of a wrong type.
 */
#pragma once

#include <stdbool.h>
#ifdef __cplusplus
#include <type_traits>
#endif

/* The opening brace of options. Clang reports a fraction that is given for a whole number only if
 * this brace isn't in a system header. So this line is above the pragma that makes the rest of this
 * file a system header. */
#define RG_OPEN_ {

/* ---- ISO C and C++ ------------------------------------------------------------------- */

/* With -pedantic, compilers warn of what ISO C and C++ lack, but not in a system header. So each
 * public header with such macros declares itself a system header. That line stands below the
 * #include lines, because -MMD doesn't list what a system header includes. */
#pragma GCC system_header
/* A call without options has an empty argument. Clang warns of empty arguments even in system
 * headers. The warning's name changed in Clang 19, and again in Clang 20. */
#if defined __clang__ && __clang_major__ == 19
#pragma clang diagnostic ignored "-Wc23-extensions"
#pragma clang diagnostic ignored "-Wc++20-extensions"
#elif defined __clang__ && __clang_major__ > 19
#pragma clang diagnostic ignored "-Wvariadic-macro-arguments-omitted"
#elif defined __clang__
#pragma clang diagnostic ignored "-Wgnu-zero-variadic-macro-arguments"
#endif

#define RG_PASTE_(a, b) a##b
#define RG_PASTE(a, b)  RG_PASTE_(a, b)

/* In C, turns two warnings into errors, as newer compilers do by default: a pointer of another
 * type, such as a module where a tensor is expected, and an integer where a pointer is expected. */
#ifndef __cplusplus
#pragma GCC diagnostic error "-Wincompatible-pointer-types"
#pragma GCC diagnostic error "-Wint-conversion"
#elif defined __clang__ /* Makes it an error to pass NULL as a number. */
#pragma clang diagnostic error "-Wnull-conversion"
#else
#pragma GCC diagnostic error "-Wconversion-null"
#endif

/* ---- options by name ----------------------------------------------------------------- */

/* The macros of this section make options that can be given only by name. A struct of options
 * begins with RG_BY_NAME, and each of its fields ends with RG_DEFAULT. The two macros put a member
 * without a size before the first field and behind each field. A value without a name would have to
 * initialise such a member, but no value converts to its type. (If the type were an array of char,
 * a string would convert to it.) In C, GCC would accept the value all the same. RG_OPTIONS makes
 * that an error, which only -w silences. */
#if defined __GNUC__ && !defined __clang__ && !defined __cplusplus
#define RG_OPTIONS __attribute__((designated_init))
#pragma GCC diagnostic error "-Wdesignated-init"
#else
#define RG_OPTIONS
#endif
#define RG_BY_ITS_NAME_                                                                      \
    "an option goes by its name, as .bias does in rg_nn_linear(3, 4, .bias = false); and a " \
    "literal with commas is in parentheses, as in ((rg_tensor *[]){ x, y })"
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

/* RG_ONE_OF(type) is the type of an option that takes a value of the enum `type`. In C it is an
 * integer type of the enum's size, because compilers silently convert a fraction to an enum, while
 * RG_KEYWORDS makes them report a fraction that is converted to an integer. */
#ifdef __cplusplus
#define RG_ONE_OF(type) type
#else
#define RG_ONE_OF(type) __typeof__(__builtin_choose_expr(sizeof(type) == 1, (signed char)0, 0u))
#endif

/* rg_flag is the type of an option that is true or false. Each integer but 0 stands for true. In C
 * the type is an integer, because compilers silently convert a fraction and a pointer to a bool. It
 * has 64 bits, so that the value of `flags & (1ll << 40)` isn't lost. In C++ a long selects
 * the constructor for a long long, because NULL has the type long there (see arguments.h). */
#ifdef __cplusplus
template <typename T> using rg_no_long = std::enable_if_t<!std::is_same<T, long>::value>;
class rg_flag {
    long long number = 0;

  public:
    constexpr rg_flag() = default;
    constexpr rg_flag(long long value) : number(value != 0) {}
    template <typename T, typename = rg_no_long<T>>
    constexpr rg_flag(T value) : number(value ? 1 : 0) {
        static_assert(!std::is_floating_point<T>::value && !std::is_pointer<T>::value,
                      "true or false belongs here, or an integer");
    }
    constexpr operator bool() const { return number != 0; }
};
#else
typedef long long rg_flag;
#endif

/* RG_EMPTY ends a field of a struct that programs initialise by field names. A field that the
 * program leaves out is zero, in C++ as in C, and the compiler doesn't warn about it. */
#ifdef __cplusplus
#define RG_EMPTY = {}
#else
#define RG_EMPTY
#endif

/* RG_KEYWORDS makes a struct of options from the arguments. In C the defaults come from the
 * argument `defaults`, in C++ from the struct's definition. The macro opens no block around the
 * arguments. Therefore a literal among them, such as an array, lives to the end of the caller's
 * block in C, and to the end of the full expression in C++. The check in C comes before the
 * arguments, so that its sentence comes before the compiler's own errors. */
#ifdef __cplusplus
#define RG_KEYWORDS(type, defaults, ...) \
    __extension__ type { __VA_ARGS__ }
#else
/* RG_QUIET_ turns two warnings off: one when an argument overrides a default, and one when the
 * arguments, written as a string, are too long. RG_STRICT_ makes it an error to give a fraction for
 * a whole number. */
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
#else
/* GCC 11 and older allow no pragma in a macro's argument. So two warnings are turned off for the
 * rest of the file that includes this header: the warning of an argument that overrides a default,
 * and the warning of fields that an initialiser leaves out. */
#define RG_QUIET_
#define RG_STRICT_
#define RG_LOUD_
#pragma GCC diagnostic ignored "-Woverride-init"
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#endif
#define RG_QUIETLY_ (void)__extension__({ RG_QUIET_ RG_STRICT_ 0; })
#define RG_LOUDLY_  __extension__({ RG_LOUD_ 0; })
#define RG_KEYWORDS(type, defaults, ...)                                            \
    (*(RG_QUIETLY_, (void)RG_REQUIRE_(RG_IS_NAMED_(#__VA_ARGS__), RG_BY_ITS_NAME_), \
       &(type)RG_OPEN_ RG_STRIP_ defaults, __VA_ARGS__                              \
    }                                                                               \
                        + RG_LOUDLY_))
#define RG_STRIP_(...)     __VA_ARGS__
/* RG_IS_NAMED_ is true if `text`, the arguments written as a string, is empty or begins with a dot,
 * as an option by name does. */
#define RG_IS_NAMED_(text) (sizeof(text) == 1 || !__builtin_memcmp(text, ".", 1))
#endif

/* In C, RG_REQUIRE_ is 0 if the condition holds. If it doesn't hold, the expression doesn't
 * compile, and the compiler prints the sentence. __builtin_choose_expr keeps Clang from printing
 * the whole condition as well. */
#define RG_REQUIRE_(condition, sentence)                                     \
    (0 * (int)sizeof(struct {                                                \
         _Static_assert(__builtin_choose_expr((condition), 1, 0), sentence); \
         int unused;                                                         \
     }))
/* RG_REQUIRE_OF_ does the same as RG_REQUIRE_, for a condition on the type of an expression that
 * may have an array literal of variables, such as (float[]){ x, y }. Clang doesn't allow such a
 * literal in the struct that RG_REQUIRE_ declares. RG_REQUIRE_OF_ can be used only within a
 * function. */
#ifdef __clang__
#define RG_REQUIRE_OF_(condition, sentence)                                 \
    __extension__({                                                         \
        _Static_assert(__builtin_choose_expr((condition), 1, 0), sentence); \
        0;                                                                  \
    })
#else
#define RG_REQUIRE_OF_(condition, sentence) RG_REQUIRE_(condition, sentence)
#endif
