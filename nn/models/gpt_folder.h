/*
 * gpt_folder.h: GPT-2 in a folder as Hugging Face's transformers has it: config.json and
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

/* Returns the folder's model, which doesn't train until rg_train is called. The weights may lie in
 * one file or in several (model.safetensors.index.json). What config.json asks for and rg_nn_gpt
 * can't do is refused by its name. The special tokens' ids are in the model's config;
 * those of generation_config.json, if there is one, count more, and the model keeps its text. */
rg_gpt *rg_gpt_from_folder(const char *folder);
/* Writes config.json and model.safetensors, and the generation_config.json that the model keeps,
 * which transformers' from_pretrained opens. The folder must be there. A model without biases gets
 * some of zeros. Returns false on failure, which leaves the folder as it was, unless it is one of
 * the renames at the end that fails. */
bool rg_gpt_to_folder(rg_gpt *m, const char *folder);

RG_PUBLIC_END
