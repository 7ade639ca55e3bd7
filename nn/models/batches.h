/*
 * batches.h: splits and random windows of a long encoded text, for training.
 */
#pragma once

#include "../../tensor/tensor.h"

RG_PUBLIC_BEGIN

/* A pair of results. On failure both tensors are NULL. */
typedef struct rg_pair {
    rg_tensor *first, *second;
} rg_pair;
/* Returns data[:int(fraction * n)] and the rest. */
rg_pair rg_split_text(rg_tensor *data, double fraction);
/* Returns random windows (batch_size, block_size) of data, and the windows that start one element
 * later. The starts are torch.randint(len(data) - block_size, (batch_size,)). */
rg_pair rg_get_batch_with(rg_tensor *data, int64_t batch_size, int64_t block_size, rg_generator *g);
#define rg_get_batch(data, batch_size, block_size) \
    rg_get_batch_with(data, batch_size, block_size, rg_default_generator())

/* ---- whole numbers: RG_WHOLE, in tensor/keywords.h, refuses a fraction --------------- */

#define rg_get_batch_with(data, batch_size, block_size, g) \
    rg_get_batch_with(data, RG_WHOLE(batch_size), RG_WHOLE(block_size), g)

RG_PUBLIC_END
