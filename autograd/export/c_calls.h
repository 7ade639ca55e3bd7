/*
 * c_calls.h: writes noted calls of loops as C.
 */
#pragma once

#include "tensor/kernels/trace.h"
#include "tensor/text/text.h"

/* The text to which calls are added, and the trace that has noted them. In the text, region i of
 * the trace begins at the address m + offset[i]. */
typedef struct c_calls {
    rg_text *text;
    const k_trace *trace;
    const int64_t *offset;
} c_calls;

/* Returns the C type of an element, such as "float". */
const char *rgi_c_type(rg_dtype dtype);
/* Adds the calls number first .. last - 1 as statements. */
void rgi_c_calls_add(const c_calls *c, size_t first, size_t last);
