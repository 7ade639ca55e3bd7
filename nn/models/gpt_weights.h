/*
 * gpt_weights.h: the names and shapes of GPT-2's weights in the files of Hugging Face's
 * transformers. Private.
 */
#pragma once

#include "gpt.h"

/* One of the weights, with its shape in the files. In a model some matrices are transposed (see
 * gpt_turned.h). */
typedef struct {
    char name[64];
    rg_dims shape;
} rg_gpt_weight;

/* Writes weight number `index` of a model with these options to *weight. Returns false if the model
 * has no weight with this number. */
bool rgi_gpt_weight(const rg_gpt_options *o, int64_t index, rg_gpt_weight *weight);
