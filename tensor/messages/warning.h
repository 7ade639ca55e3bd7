/*
 * warning.h: warnings, which a call gives although it succeeds. The public functions that install a
 * handler are in tensor.h.
 */
#pragma once

/* Calls the program's handler of warnings with the line "op: sentence", unless the same line was
 * given before. */
void rgi_warn(const char *op, const char *format, ...) __attribute__((format(printf, 2, 3), cold));

/* Warns that the environment variable has an invalid value. `expected` is the part of the message
 * that describes the valid values, and `taken` the part that says what the library does instead. */
void rgi_warn_of_variable(const char *variable, const char *value, const char *expected,
                          const char *taken) __attribute__((cold));
