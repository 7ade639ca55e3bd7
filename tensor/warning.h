/*
 * warning.h: warnings of calls that succeed. tensor.h has the public functions, which install a
 * handler.
 */
#pragma once

/* Calls the handler with "op: sentence", unless the same warning was given before. */
void rgi_warn(const char *op, const char *format, ...) __attribute__((format(printf, 2, 3), cold));

/* Warns that an environment variable has a value that isn't `expected`, and says which value is
 * used instead (`taken`). */
void rgi_warn_of_variable(const char *variable, const char *value, const char *expected,
                          const char *taken) __attribute__((cold));
