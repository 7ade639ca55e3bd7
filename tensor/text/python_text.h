/*
 * python_text.h: writes numbers and booleans of a module's repr as Python does ("True", "1e-05").
 * The functions for numbers are in digits.h. Private.
 */
#pragma once

#include "tensor/text/digits.h"

static inline const char *rgi_python_bool(bool x) { return x ? "True" : "False"; }
