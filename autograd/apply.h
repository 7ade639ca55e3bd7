/*
 * apply.h: applies an op and returns a reference, which no scope owns, for inplace.c. Ops
 * themselves are applied by the functions in op.h.
 */
#pragma once

#include "op.h"

/* Applies an op with one output, and returns a reference to it, or NULL if it failed. `over` is
 * NULL, or in[0] if the op may write over it: then the result is `over` itself, if its dtype and
 * shape suit and nothing is recorded. */
rg_tensor *rgi_apply_over(const rg_op *op, const void *attr, size_t attr_size, int n,
                          rg_tensor *const in[], rg_tensor *over);
