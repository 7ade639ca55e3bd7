/*
 * view.h: what views share. Parts are in part.c and split.c, other shapes in reshape.c, other
 * orders of dims in permute.c.
 */
#pragma once

#include "autograd/op.h"

/* gx = g in x's shape */
rg_rule rgi_rule_reshape;

/* Wraps a dim of a tensor that has dims at all, else fails with the sentence. */
bool rgi_part_check(const char *op, rg_code code, const char *sentence, rg_tensor *x, int dim,
                    int *wrapped);
