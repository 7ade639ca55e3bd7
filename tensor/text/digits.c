/*
 * digits.c: writes one number as a string. It finds the fewest digits that identify the number, or
 * rounds it, and writes them with or without an exponent. The result doesn't depend on the
 * program's locale. print.c arranges the numbers of a tensor.
 */
#include "digits.h"

#include "tensor/base.h"
#include "tensor/dtype.h"
#include "tensor/kernels/limits.h"
#include "c_locale.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Writes v, which isn't finite, as nan, inf or -inf, and returns the length of the string. */
static int print_nonfinite(char *to, double v) {
    if (isnan(v))
        return sprintf(to, "nan");
    return sprintf(to, "%s", v < 0 ? "-inf" : "inf");
}

/* Writes v as Python's '{:.4f}' or '{:.4e}' does, and returns the length of the string. `format` is
 * the printf format for that, and `precision` takes the place of 4. */
int rgi_print_number(char *to, const char *format, int precision, double v) {
    if (!isfinite(v))
        return print_nonfinite(to, v);
    RG_C_NUMBERS();
    return snprintf(to, RG_WORD_ROOM, format, precision, v);
}

rg_python_float rgi_rounded_text(int digits, double x) {
    rg_python_float f;
    if (isfinite(x)) {
        RG_C_NUMBERS();
        snprintf(f.text, sizeof f.text, "%.*g", digits, x);
    } else {
        print_nonfinite(f.text, x);
    }
    return f;
}

/* Reads the digits and the exponent from `text`, which "%.*e" printed for a number that isn't
 * negative. Leaves out zeros at the end of the digits, except the first digit. */
static rg_digits digits_read(const char *text) {
    rg_digits s = { .n = 0 };
    for (; *text != 'e'; text++)
        if (*text != '.')
            s.d[s.n++] = *text;
    while (s.n > 1 && s.d[s.n - 1] == '0')
        s.n--;
    s.exponent = atoi(text + 1);
    return s;
}

rg_digits rgi_digits_rounded(double v, int n) {
    char text[RG_WORD_ROOM];
    rgi_print_number(text, "%.*e", n - 1, v);
    return digits_read(text);
}

/* Adds 1 to the last digit of `text`, which "%.*e" printed for a number v. There is no carry: a 9
 * becomes a character that isn't a digit, and the string doesn't read back as v. That does no harm:
 * this function is called only if v is a power of two, and then digits with a carry wouldn't read
 * back as v either. */
static void digits_raise(char *text) { ++strchr(text, 'e')[-1]; }

static double digits_read_float(const char *text) { return strtof(text, NULL); }
static double digits_read_double(const char *text) { return strtod(text, NULL); }
static double digits_read_bfloat16(const char *text) {
    return rgi_rounded(strtod(text, NULL), RG_BFLOAT16);
}
static double digits_read_float16(const char *text) {
    return rgi_rounded(strtod(text, NULL), RG_FLOAT16);
}

static bool digits_read_back(const char *text, double v, rg_dtype dtype) {
    static double (*const readers[])(const char *) = RG_BY_FLOAT(digits_read);
    return readers[dtype](text) == v;
}

/* Returns the fewest digits that read back as v. If several numbers with equally few digits read
 * back as v, returns the one closest to v.
 *
 * The search tries more and more digits, and begins with always_exact digits, which the dtype
 * always preserves. If fewer digits are enough, the first try yields these digits followed by
 * zeros, and digits_read leaves out the zeros. A subnormal number preserves fewer digits, so for a
 * subnormal v the search begins with 1 digit.
 *
 * A power of two is special, because the gap from v to the next greater number is twice the gap to
 * the next smaller one. If the closest n digits are too far below v, they don't read back as v, but
 * the next greater n digits may. */
rg_digits rgi_digits_shortest(double v, rg_dtype dtype) {
    const bool subnormal = v < rgi_least_normal(dtype);
    const int always_exact = rgi_decimal_digits(dtype);
    int exponent;
    const bool power_of_two = frexp(v, &exponent) == 0.5;
    char text[RG_WORD_ROOM];
    RG_C_NUMBERS();
    for (int n = subnormal ? 1 : always_exact;; n++) {
        snprintf(text, sizeof text, "%.*e", n - 1, v);
        if (digits_read_back(text, v, dtype))
            break;
        if (!power_of_two)
            continue;
        digits_raise(text);
        if (digits_read_back(text, v, dtype))
            break;
    }
    return digits_read(text);
}

/* Writes a number without an exponent, and returns the length of the string. Examples are "12.5",
 * "0.01" and, for a whole number, "3." with a point at the end. */
int rgi_print_positional(char *to, bool negative, const rg_digits *s) {
    int n = 0;
    if (negative)
        to[n++] = '-';
    if (s->exponent < 0)
        to[n++] = '0';
    for (int i = 0; i <= s->exponent; i++)
        to[n++] = i < s->n ? s->d[i] : '0';
    to[n++] = '.';
    for (int i = -1; i > s->exponent; i--)
        to[n++] = '0';
    for (int i = RG_MAX(s->exponent + 1, 0); i < s->n; i++)
        to[n++] = s->d[i];
    to[n] = 0;
    return n;
}

/* Writes a number such as 1.25e+01, and returns the length of the string. The number has at least
 * `fraction` digits after the point, and at least `wide` digits in the exponent. If `fraction` is
 * -1 and the number has a single digit, no point follows that digit. */
int rgi_print_scientific(char *to, bool negative, const rg_digits *s, int fraction, int wide) {
    int n = 0;
    if (negative)
        to[n++] = '-';
    to[n++] = s->d[0];
    if (s->n > 1 || fraction >= 0)
        to[n++] = '.';
    for (int i = 1; i < RG_MAX(s->n, fraction + 1); i++)
        to[n++] = i < s->n ? s->d[i] : '0';
    return n + sprintf(to + n, "e%c%0*d", s->exponent < 0 ? '-' : '+', wide, abs(s->exponent));
}

/* rgi_print_alone writes a number with an exponent if its absolute value is at least this limit, or
 * if it is less than 1e-4 (but not 0). */
#define DIGITS_LARGE_float    1e6
#define DIGITS_LARGE_double   1e16
#define DIGITS_LARGE_bfloat16 1e3
#define DIGITS_LARGE_float16  1e3
static const double digits_large[] = RG_BY_FLOAT(DIGITS_LARGE);

/* Writes a number that isn't an element of an array: a float64 as Python's repr does, a float32 as
 * NumPy does. */
void rgi_print_alone(char *to, double v, rg_dtype dtype) {
    if (!isfinite(v)) {
        print_nonfinite(to, v);
        return;
    }
    const double size = fabs(v);
    const double large = digits_large[dtype];
    rg_digits s = rgi_digits_shortest(size, dtype);
    if (v != 0 && (size < 1e-4 || size >= large)) {
        rgi_print_scientific(to, signbit(v), &s, -1, 2);
        return;
    }
    int n = rgi_print_positional(to, signbit(v), &s);
    if (to[n - 1] == '.')
        strcpy(to + n, "0"); /* A whole number ends with ".0". */
}
