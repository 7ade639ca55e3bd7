/*
 * bare.c: what the self-tests of written steps call on machines without a C library. These are a
 * Cortex-M4F, on which examples/mcu/board.c prints, and WebAssembly, whose host prints.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

int printf(const char *format, ...);
void *memcpy(void *restrict to, const void *restrict from, size_t n);

#ifdef __wasm__
__attribute__((import_module("host"), import_name("print"))) void print(const char *text);

void *memcpy(void *restrict to, const void *restrict from, size_t n) {
    for (size_t i = 0; i < n; i++)
        ((char *)to)[i] = ((const char *)from)[i];
    return to;
}

void *memmove(void *to, const void *from, size_t n) {
    const int forward = (const char *)to <= (const char *)from;
    for (size_t i = 0; i < n; i++) {
        const size_t at = forward ? i : n - 1 - i;
        ((char *)to)[at] = ((const char *)from)[at];
    }
    return to;
}

void *memset(void *to, int byte, size_t n) {
    for (size_t i = 0; i < n; i++)
        ((char *)to)[i] = (char)byte;
    return to;
}
#else
#include "mcu/board.h"
#endif

/* Writes the digits of x, which may be none, and returns the end. */
static char *write_digits(char *to, int x) {
    if (x >= 10)
        to = write_digits(to, x / 10);
    *to++ = (char)('0' + x % 10);
    return to;
}

/* Prints a normal number or zero, as printf("%a\n", x) does. A self-test prints nothing else. */
int printf(const char *format, ...) {
    va_list list;
    va_start(list, format);
    const double x = va_arg(list, double);
    va_end(list);
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    const int exponent = x != 0 ? (int)(bits >> 52 & 0x7ff) - 1023 : 0;
    char text[40] = "-0x";
    char *at = text + 3;
    *at++ = x != 0 ? '1' : '0';
    uint64_t fraction = bits << 12;
    if (fraction)
        *at++ = '.';
    for (; fraction; fraction <<= 4)
        *at++ = "0123456789abcdef"[fraction >> 60];
    *at++ = 'p';
    *at++ = exponent < 0 ? '-' : '+';
    at = write_digits(at, exponent < 0 ? -exponent : exponent);
    *at++ = '\n';
    *at = 0;
    print(bits >> 63 ? text : text + 1);
    return 0;
}
