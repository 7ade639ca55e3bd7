/*
 * gpt_folder.h: GPT-2 in a folder of Hugging Face's transformers: config.json and
 * model.safetensors.
 *
 *     rg_gpt *model = rg_gpt_from_folder("gpt2");
 *     rg_tokenizer *t = rg_tokenizer_from_folder("gpt2");
 *     rg_tensor *idx = rg_unsqueeze(rg_tokenizer_encode(t, "Hello world"), 0);
 *     puts(rg_tokenizer_decode(t, rg_gpt_generate(model, idx, 20, .temperature = 0)));
 */
#pragma once

#include "gpt.h"

RG_PUBLIC_BEGIN

/* Returns the folder's model in eval mode; rg_train changes that. The weights may be in one file or
 * in several (model.safetensors.index.json). An option of config.json that rg_nn_gpt lacks is an
 * error that names it. The special tokens' ids are in the model's config; those of
 * generation_config.json, if it exists, take precedence, and the model keeps that file's text. */
rg_gpt *rg_gpt_from_folder(const char *folder);
/* Writes config.json, model.safetensors, and the generation_config.json that the model keeps, for
 * transformers' from_pretrained. The folder must exist. Missing biases are written as zeros.
 * Returns false on failure, and then leaves the folder unchanged, unless a rename at the end has
 * failed. */
bool rg_gpt_to_folder(rg_gpt *m, const char *folder);

RG_PUBLIC_END
