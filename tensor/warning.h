/*
 * warning.h: what a call says that has not failed. The public half, which takes the words, is in
 * tensor.h.
 */
#pragma once

/* Hands "op: sentence" to the handler, unless it was handed over before. */
void rgi_warn(const char *op, const char *format, ...) __attribute__((format(printf, 2, 3), cold));

/* Warns that a variable of the environment has a value that isn't `expected`, and says what is
 * taken instead. */
void rgi_warn_of_variable(const char *variable, const char *value, const char *expected,
                          const char *taken) __attribute__((cold));
