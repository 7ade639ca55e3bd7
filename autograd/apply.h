/*
 * apply.h: a function for inplace.c that applies an op and returns a reference that no scope owns.
 * Everybody else applies ops by the functions in op.h.
 */
#pragma once

#include "op.h"

/* Applies an op with one output, and returns a new reference to the output, or NULL on failure.
 * `over` is in[0] if the op may write the output over in[0], and otherwise NULL. If `over` is
 * in[0], the output is in[0] itself, unless its dtype or shape is wrong or the call is recorded. */
rg_tensor *rgi_apply_over(const rg_op *op, const void *attr, size_t attr_size, int n,
                          rg_tensor *const in[], rg_tensor *over);
