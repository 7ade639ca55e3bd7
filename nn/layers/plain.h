/*
 * plain.h: reads a dim from a field of an rg_plain_module. The field is a double, which a program
 * can set to any number. Private.
 */
#pragma once

#include "tensor/text/python_text.h"
#include "tensor/error.h"

#include <limits.h>

/* Stores the number in *dim. Fails and returns false unless it is a whole number that fits. */
static inline bool rgi_want_dim(const char *op, double number, int *dim) {
    const bool fits = number >= INT_MIN && number <= INT_MAX && number == (int)number;
    RG_FAIL_AS_IF(RG_TYPE_ERROR, !fits, op, "a dim must be a whole number, but got %s",
                  rgi_python_float(number));
    *dim = (int)number;
    return true;
}
