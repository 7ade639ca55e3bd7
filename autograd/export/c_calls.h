/*
 * c_calls.h: writes noted calls of loops as C.
 */
#pragma once

#include "tensor/kernels/trace.h"
#include "tensor/text/text.h"

/* The text to which calls are added, and the trace that has noted them. In the text, region i of
 * the trace begins at the address m + offset[i] or, if `offset` is NULL, at r[i]. If `kind` is
 * NULL, each call is written as a call of its loop. Otherwise call i is written as a call of the
 * function that rgi_c_calls_define has added for the kind number kind[i]. The arguments of this
 * function are f, the array of the library's loops, and the addresses that the call uses. If
 * `by_pointer` isn't NULL, by_pointer[k] is set for the kinds whose function was added with a
 * pointer. */
typedef struct c_calls {
    rg_text *text;
    const k_trace *trace;
    const int64_t *offset;
    const int *kind;
    const bool *by_pointer;
} c_calls;

/* Returns the C type of an element, such as "float". */
const char *rgi_c_type(rg_dtype dtype);
/* Adds the calls number first .. last - 1 as statements. */
void rgi_c_calls_add(const c_calls *c, size_t first, size_t last);
/* Sets kind[i] to the kind of call i: two calls are of one kind if they are equal but for the
 * places in memory. Sets first[k] to the first call of kind k. Returns the number of kinds. */
int rgi_c_call_kinds(const k_trace *t, int kind[], size_t first[]);
/* Adds the function for the calls of the same kind as this one. The function calls the loop by its
 * name or, if loop_index isn't negative, by the address f[loop_index]. */
void rgi_c_calls_define(const c_calls *c, size_t call, int loop_index);
