/*
 * view.h: functions for ops that make views. Parts are in part.c and split.c, windows in unfold.c,
 * other shapes in reshape.c, other orders of dims in permute.c.
 */
#pragma once

#include "autograd/op.h"

/* gx = g in x's shape */
rg_rule rgi_rule_reshape;

/* Sets *wrapped to `dim`, counted from the end if it is negative. Fails with the code and the
 * sentence if x has no dims, and as rgi_wrap_dim does if x has no such dim. */
bool rgi_part_check(const char *op, rg_code code, const char *sentence, rg_tensor *x, int dim,
                    int *wrapped);
