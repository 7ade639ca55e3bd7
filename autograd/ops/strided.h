/*
 * strided.h: where a view lies in its base. The ops on it (strided.c) are the graph's: a view that
 * was written to becomes a part of its base, and gets its history from the base again.
 */
#pragma once

#include "autograd/op.h"

/* The base has this shape, and its elements lie in memory as `layout`, its strides, says. The view
 * begins at element number `start` from there, and has this size and these strides. */
typedef struct rg_strided {
    rg_dims shape, layout, size, stride;
    int64_t start;
} rg_strided;
