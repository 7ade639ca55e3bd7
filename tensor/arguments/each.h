/*
 * each.h: applies a macro to each of its arguments, separated by commas. Each argument appears once
 * in the result, so that the text of nested calls doesn't multiply. The macro isn't applied to
 * arguments behind the 32nd.
 */
#pragma once
#pragma GCC system_header

#define RG_EACH_(f, ...)       __VA_OPT__(RG_EACH_1_(f, __VA_ARGS__))
#define RG_EACH_1_(f, x, ...)  f(x) __VA_OPT__(, RG_EACH_2_(f, __VA_ARGS__))
#define RG_EACH_2_(f, x, ...)  f(x) __VA_OPT__(, RG_EACH_3_(f, __VA_ARGS__))
#define RG_EACH_3_(f, x, ...)  f(x) __VA_OPT__(, RG_EACH_4_(f, __VA_ARGS__))
#define RG_EACH_4_(f, x, ...)  f(x) __VA_OPT__(, RG_EACH_5_(f, __VA_ARGS__))
#define RG_EACH_5_(f, x, ...)  f(x) __VA_OPT__(, RG_EACH_6_(f, __VA_ARGS__))
#define RG_EACH_6_(f, x, ...)  f(x) __VA_OPT__(, RG_EACH_7_(f, __VA_ARGS__))
#define RG_EACH_7_(f, x, ...)  f(x) __VA_OPT__(, RG_EACH_8_(f, __VA_ARGS__))
#define RG_EACH_8_(f, x, ...)  f(x) __VA_OPT__(, RG_EACH_9_(f, __VA_ARGS__))
#define RG_EACH_9_(f, x, ...)  f(x) __VA_OPT__(, RG_EACH_10_(f, __VA_ARGS__))
#define RG_EACH_10_(f, x, ...) f(x) __VA_OPT__(, RG_EACH_11_(f, __VA_ARGS__))
#define RG_EACH_11_(f, x, ...) f(x) __VA_OPT__(, RG_EACH_12_(f, __VA_ARGS__))
#define RG_EACH_12_(f, x, ...) f(x) __VA_OPT__(, RG_EACH_13_(f, __VA_ARGS__))
#define RG_EACH_13_(f, x, ...) f(x) __VA_OPT__(, RG_EACH_14_(f, __VA_ARGS__))
#define RG_EACH_14_(f, x, ...) f(x) __VA_OPT__(, RG_EACH_15_(f, __VA_ARGS__))
#define RG_EACH_15_(f, x, ...) f(x) __VA_OPT__(, RG_EACH_16_(f, __VA_ARGS__))
#define RG_EACH_16_(f, x, ...) f(x) __VA_OPT__(, RG_EACH_17_(f, __VA_ARGS__))
#define RG_EACH_17_(f, x, ...) f(x) __VA_OPT__(, RG_EACH_18_(f, __VA_ARGS__))
#define RG_EACH_18_(f, x, ...) f(x) __VA_OPT__(, RG_EACH_19_(f, __VA_ARGS__))
#define RG_EACH_19_(f, x, ...) f(x) __VA_OPT__(, RG_EACH_20_(f, __VA_ARGS__))
#define RG_EACH_20_(f, x, ...) f(x) __VA_OPT__(, RG_EACH_21_(f, __VA_ARGS__))
#define RG_EACH_21_(f, x, ...) f(x) __VA_OPT__(, RG_EACH_22_(f, __VA_ARGS__))
#define RG_EACH_22_(f, x, ...) f(x) __VA_OPT__(, RG_EACH_23_(f, __VA_ARGS__))
#define RG_EACH_23_(f, x, ...) f(x) __VA_OPT__(, RG_EACH_24_(f, __VA_ARGS__))
#define RG_EACH_24_(f, x, ...) f(x) __VA_OPT__(, RG_EACH_25_(f, __VA_ARGS__))
#define RG_EACH_25_(f, x, ...) f(x) __VA_OPT__(, RG_EACH_26_(f, __VA_ARGS__))
#define RG_EACH_26_(f, x, ...) f(x) __VA_OPT__(, RG_EACH_27_(f, __VA_ARGS__))
#define RG_EACH_27_(f, x, ...) f(x) __VA_OPT__(, RG_EACH_28_(f, __VA_ARGS__))
#define RG_EACH_28_(f, x, ...) f(x) __VA_OPT__(, RG_EACH_29_(f, __VA_ARGS__))
#define RG_EACH_29_(f, x, ...) f(x) __VA_OPT__(, RG_EACH_30_(f, __VA_ARGS__))
#define RG_EACH_30_(f, x, ...) f(x) __VA_OPT__(, RG_EACH_31_(f, __VA_ARGS__))
#define RG_EACH_31_(f, x, ...) f(x) __VA_OPT__(, RG_EACH_32_(f, __VA_ARGS__))
#define RG_EACH_32_(f, x, ...) f(x) __VA_OPT__(, __VA_ARGS__)
