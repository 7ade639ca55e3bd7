/*
 * gpt_turned.h: tells which of GPT-2's matrices Hugging Face's transformers store transposed. They
 * are (in, out) there, but (out, in) in rg_nn_gpt. Private.
 */
#pragma once

#include "tensor/text/text.h"

static inline bool rgi_gpt_is_turned(const char *name) {
    return rgi_ends_with(name, ".c_attn.weight") || rgi_ends_with(name, ".c_proj.weight")
           || rgi_ends_with(name, ".c_fc.weight");
}
