/*
 * gpt_model.h: what generation asks of the model. Private; what a program may use is in gpt.h.
 */
#pragma once

#include "gpt.h"

/* Returns the logits after each token of idx, or, if `last`, only after its last one. idx begins at
 * this position; the cache, of rg_gpt_cache's shape, holds what was before it, or is RG_NONE. */
rg_tensor *rgi_gpt_logits(rg_gpt *self, rg_tensor *idx, rg_tensor *cache, int64_t position,
                          bool last);
