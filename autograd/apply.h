/*
 * apply.h: an application whose result isn't owned yet, for inplace.c. Paragraphs
 * apply ops by the functions in op.h.
 */
#pragma once

#include "op.h"

/* Applies an op with one output, and returns a reference to it; NULL means that it failed. The
 * result is `over` itself if that fits and nothing is recorded. `over` is NULL unless the op may
 * write over in[0]. */
rg_tensor *rgi_apply_over(const rg_op *op, const void *attr, size_t attr_size, int n,
                          rg_tensor *const in[], rg_tensor *over);
