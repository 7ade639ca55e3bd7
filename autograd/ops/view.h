/*
 * view.h: functions for ops that make views. Parts of a tensor are in part.c and split.c, windows
 * in unfold.c, other shapes in reshape.c, and other orders of dims in permute.c.
 */
#pragma once

#include "autograd/op.h"

/* A rule that returns g in the shape of the input. */
rg_rule rgi_rule_reshape;

/* Sets *wrapped to `dim` or, if dim is negative, to dim plus x's number of dims. If x has no dims,
 * fails with the code and the error message `sentence`. If x has no such dim, fails as rgi_wrap_dim
 * does. */
bool rgi_part_check(const char *op, rg_code code, const char *sentence, rg_tensor *x, int dim,
                    int *wrapped);
