/*
 * gpt_turned.h: the matrices of GPT-2 that Hugging Face's transformers stores transposed: as (in,
 * out), where rg_nn_gpt has (out, in). Private.
 */
#pragma once

#include "tensor/text/text.h"

static inline bool rgi_gpt_is_turned(const char *name) {
    return rgi_ends_with(name, ".c_attn.weight") || rgi_ends_with(name, ".c_proj.weight")
           || rgi_ends_with(name, ".c_fc.weight");
}
