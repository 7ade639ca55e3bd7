/*
 * keywords.h: Python's keyword arguments, f(x, .eps = 1e-6, .reduction = RG_SUM). RG_KEYWORDS makes
 * a struct of the type from the last arguments; absent fields have their defaults. An option is
 * given by its name alone: f(x, 1e-6) doesn't compile.
 */
#pragma once

#include <stdbool.h>

#define RG_PASTE_(a, b) a##b
#define RG_PASTE(a, b)  RG_PASTE_(a, b)

/* A struct of options begins with RG_BY_NAME, and each field ends in RG_DEFAULT: between fields lie
 * members of no size, which no value converts to (an array of char would take a string). In C, GCC
 * takes such a value all the same, but it knows RG_OPTIONS (and -w alone silences it). */
#if defined __GNUC__ && !defined __clang__ && !defined __cplusplus
#define RG_OPTIONS __attribute__((designated_init))
#pragma GCC diagnostic error "-Wdesignated-init"
#else
#define RG_OPTIONS
#endif
#ifdef __cplusplus
class rg_options_go_by_name {
    __extension__ bool nothing[0] __attribute__((unused));
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

/* In C the defaults are those of RG_KEYWORDS, in C++ those of the struct. */
#ifdef __cplusplus
#define RG_KEYWORDS(type, defaults, ...) \
    type { __VA_ARGS__ }
#define RG_CALL_KEYWORDS(function, first, type, defaults, ...) function(first, type{ __VA_ARGS__ })
#else
#ifdef __clang__
#define RG_QUIET_ \
    _Pragma("GCC diagnostic push") _Pragma("clang diagnostic ignored \"-Winitializer-overrides\"")
#define RG_LOUD_ _Pragma("GCC diagnostic pop")
#elif __GNUC__ >= 12
#define RG_QUIET_ \
    _Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Woverride-init\"")
#define RG_LOUD_ _Pragma("GCC diagnostic pop")
#else /* GCC 11 takes no pragma in a macro's argument, and warns of fields that aren't named. */
#define RG_QUIET_
#define RG_LOUD_
#pragma GCC diagnostic ignored "-Woverride-init"
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#endif
#define RG_KEYWORDS(type, defaults, ...) \
    RG_KEYWORDS_(RG_PASTE(rg_k, __COUNTER__), type, defaults, __VA_ARGS__)
#define RG_KEYWORDS_(name, type, defaults, ...)                    \
    __extension__({                                                \
        RG_QUIET_ type name = { RG_STRIP_ defaults, __VA_ARGS__ }; \
        RG_LOUD_ name;                                             \
    })
/* Calls function(first, options) while what the options point to, such as an RG_LIST among them,
 * still lives: beyond RG_KEYWORDS it wouldn't. */
#define RG_CALL_KEYWORDS(function, first, type, defaults, ...) \
    RG_CALL_KEYWORDS_(RG_PASTE(rg_k, __COUNTER__), function, first, type, defaults, __VA_ARGS__)
#define RG_CALL_KEYWORDS_(name, function, first, type, defaults, ...) \
    __extension__({                                                   \
        RG_QUIET_ type name = { RG_STRIP_ defaults, __VA_ARGS__ };    \
        RG_LOUD_ function(first, name);                               \
    })
#define RG_STRIP_(...) __VA_ARGS__
#endif
