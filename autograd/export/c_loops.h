/*
 * c_loops.h: the text of the loops that noted calls need.
 */
#pragma once

#include "tensor/kernels/trace.h"
#include "tensor/text/text.h"

/* Adds the text of the loops that the trace's calls need. Returns false on failure; `op` is the
 * function that the failure names. */
bool rgi_c_loops_add(rg_text *text, const char *op, const k_trace *t);
/* Sets has_text[i] to whether the library has a text of all loops that call i needs. Returns false
 * if memory ran out. */
bool rgi_c_loops_find(const char *op, const k_trace *t, bool has_text[]);
