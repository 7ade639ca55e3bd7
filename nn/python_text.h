/*
 * python_text.h: numbers and flags in a module's text, as Python writes them. Private.
 */
#pragma once

#include "tensor/text/digits.h"

static inline const char *rgi_python_bool(bool x) { return x ? "True" : "False"; }
