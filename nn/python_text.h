/*
 * python_text.h: numbers and flags in a module's text, as Python writes them. Private.
 */
#pragma once

#include "../tensor/tensor.h"

/* Returns Python's text of a float, such as "1e-05", or "" where there is no memory for it. */
static inline const char *rgi_python_float(double x) {
    const char *text = rg_str(rg_scalar_dtype(x, RG_FLOAT64));
    return text ? text : "";
}

static inline const char *rgi_python_bool(bool x) { return x ? "True" : "False"; }
