/*
 * gpt_turned.h: which of GPT-2's matrices Hugging Face's transformers has as (in, out), where
 * rg_nn_gpt has (out, in). Private.
 */
#pragma once

#include "tensor/text/text.h"

static inline bool rgi_gpt_is_turned(const char *name) {
    return rgi_ends_with(name, ".c_attn.weight") || rgi_ends_with(name, ".c_proj.weight")
           || rgi_ends_with(name, ".c_fc.weight");
}
