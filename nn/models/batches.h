/*
 * batches.h: splits a long encoded text into training and validation data, and draws random windows
 * of it for training.
 */
#pragma once

#include "../../tensor/tensor.h"
#pragma GCC system_header

RG_PUBLIC_BEGIN

/* Two tensors. On failure both are NULL. */
typedef struct rg_pair {
    rg_tensor *first, *second;
} rg_pair;
/* Returns data[:n] and data[n:], where n is int(fraction * len(data)). Both are views of data.
 * Fails unless the fraction is from 0 to 1. */
rg_pair rg_split_text(rg_tensor *data, double fraction);
/* Draws batch_size random windows of block_size consecutive elements of data. `first` is a tensor
 * (batch_size, block_size) with the windows. `second`, of the same shape, holds the targets: the
 * windows that start one element later. The starts are torch.randint(len(data) - block_size,
 * (batch_size,)). */
rg_pair rg_get_batch_with(rg_tensor *data, int64_t batch_size, int64_t block_size, rg_generator *g);
#define rg_get_batch(data, batch_size, block_size) \
    rg_get_batch_with(data, batch_size, block_size, rg_default_generator())

/* ---- checked arguments: see tensor/arguments/arguments.h ---------------------------------- */

#define rg_split_text(data, fraction) rg_split_text(data, RG_REAL(fraction))
#define rg_get_batch_with(data, batch_size, block_size, g) \
    rg_get_batch_with(data, RG_WHOLE(batch_size), RG_WHOLE(block_size), g)

RG_PUBLIC_END
