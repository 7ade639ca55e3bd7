/*
 * digits.h: writes one number as a string, in the manner of Python, NumPy or torch.
 */
#pragma once

#include "tensor/tensor.h"

#include <float.h>

/* The greatest number of digits after the point that programs can set for printing, and the size of
 * a buffer that is large enough for any number. */
enum { RG_PRECISION_MAX = 1000, RG_WORD_ROOM = RG_PRECISION_MAX + DBL_MAX_10_EXP + 16 };

/* A number: d[0].d[1]d[2].. * 10^exponent. d has n digits, as characters. */
typedef struct rg_digits {
    char d[24];
    int n, exponent;
} rg_digits;

/* Return the digits of v, which must be finite and not negative. rgi_digits_shortest returns the
 * fewest digits that read back as v in this floating dtype. rgi_digits_rounded returns the digits
 * of v rounded to n digits. Both leave out zeros at the end. */
rg_digits rgi_digits_shortest(double v, rg_dtype dtype);
rg_digits rgi_digits_rounded(double v, int n);

/* Write a number to `to`, each function in another format, which digits.c describes. The first
 * three return the length of the string. `format` is a printf format that takes a precision and a
 * double. */
int rgi_print_number(char *to, const char *format, int precision, double v);
int rgi_print_positional(char *to, bool negative, const rg_digits *s);
int rgi_print_scientific(char *to, bool negative, const rg_digits *s, int fraction, int wide);
void rgi_print_alone(char *to, double v, rg_dtype dtype);

/* A buffer for the string of a float64, which is long enough for every float64. */
typedef struct rg_python_float {
    char text[40];
} rg_python_float;

static inline rg_python_float rgi_python_float_of(double x) {
    rg_python_float f;
    rgi_print_alone(f.text, x, RG_FLOAT64);
    return f;
}

/* rgi_number(x) is the string of a number for an error or a report: what printf writes for "%g".
 * rgi_number_of_digits(4, x) is what printf writes for "%.4g". But the string has a point in any
 * locale, and is "nan" even if the sign of a NaN is set, as in torch. The string lives to the end
 * of the full expression. */
rg_python_float rgi_rounded_text(int digits, double x);
#define rgi_number_of_digits(digits, x) (rgi_rounded_text(digits, x).text)
#define rgi_number(x)                   rgi_number_of_digits(6, x)

/* rgi_python_float(x) is the string that Python prints for a float, such as "1e-05". It lives to
 * the end of the full expression. */
#define rgi_python_float(x) (rgi_python_float_of(x).text)
