/*
 * digits.h: one number as text, as Python, NumPy and torch write it.
 */
#pragma once

#include "tensor/tensor.h"

#include <float.h>

/* The greatest precision, and the length of the longest text of a number. */
enum { RG_PRECISION_MAX = 1000, RG_WORD_ROOM = RG_PRECISION_MAX + DBL_MAX_10_EXP + 16 };

/* A number: d[0].d[1]d[2].. times 10^exponent, where d holds n digits as characters. */
typedef struct rg_digits {
    char d[24];
    int n, exponent;
} rg_digits;

/* Require v >= 0. rgi_digits_shortest returns the fewest digits that read back as v in a floating
 * dtype, and the other v rounded to n digits, without zeros at the end. */
rg_digits rgi_digits_shortest(double v, rg_dtype dtype);
rg_digits rgi_digits_rounded(double v, int n);

/* Write a number, and return the length of its text. The format is one of printf's for a precision
 * and a double. */
int rgi_print_number(char *to, const char *format, int precision, double v);
int rgi_print_positional(char *to, bool negative, const rg_digits *s);
int rgi_print_scientific(char *to, bool negative, const rg_digits *s, int fraction, int wide);
void rgi_print_alone(char *to, double v, rg_dtype dtype);

/* The text of a float; none is longer. */
typedef struct rg_python_float {
    char text[40];
} rg_python_float;

static inline rg_python_float rgi_python_float_of(double x) {
    rg_python_float f;
    rgi_print_alone(f.text, x, RG_FLOAT64);
    return f;
}

/* Returns Python's text of a float, such as "1e-05", which lasts until the end of the full
 * expression. */
#define rgi_python_float(x) (rgi_python_float_of(x).text)
