/*
 * batches.h: parts and windows of a long encoded text, to train on.
 */
#pragma once

#include "../../tensor/tensor.h"

RG_PUBLIC_BEGIN

/* Both tensors are NULL on failure. */
typedef struct rg_pair {
    rg_tensor *first, *second;
} rg_pair;
/* Returns data[:int(fraction * n)] and the rest. */
rg_pair rg_split_text(rg_tensor *data, double fraction);
/* Returns windows of (batch_size, block_size), and the windows that lie one element further on. The
 * first ones begin where torch.randint(len(data) - block_size, (batch_size,)) says. */
rg_pair rg_get_batch_with(rg_tensor *data, int64_t batch_size, int64_t block_size, rg_generator *g);
#define rg_get_batch(data, batch_size, block_size) \
    rg_get_batch_with(data, batch_size, block_size, rg_default_generator())

/* ---- whole numbers: RG_WHOLE, in tensor/keywords.h, refuses a fraction --------------- */

#define rg_get_batch_with(data, batch_size, block_size, g) \
    rg_get_batch_with(data, RG_WHOLE(batch_size), RG_WHOLE(block_size), g)

RG_PUBLIC_END
