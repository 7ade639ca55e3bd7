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

/* Reads the model in the folder, and sets it to evaluation mode (call rg_train to train it). The
 * weights can be in one file, or in several with the index model.safetensors.index.json. They are
 * converted to the default dtype, as by from_pretrained(.., dtype=torch.get_default_dtype()). If
 * config.json has an option that rg_nn_gpt doesn't support, fails with an error message that names
 * it. The ids of special tokens are stored in model->config. If there is a generation_config.json,
 * the ids in it replace those of config.json, and its contents are kept in
 * model->generation_config. Returns NULL on failure. */
rg_gpt *rg_gpt_from_folder(const char *folder);
/* Writes config.json, model.safetensors and, if m->generation_config isn't NULL,
 * generation_config.json to the folder, so that transformers' from_pretrained can read them. The
 * folder must exist. Biases that the model doesn't have are written as zeros. lm_head.weight is
 * written unless it is tied to the embedding. Fails if the model's weights aren't those of a GPT
 * with the options m->config, because layers were replaced or added. Returns false on failure. Each
 * file is written under a temporary name, and renamed at the end. So after a failure the folder's
 * old files are unchanged, unless one of the renames has failed. */
bool rg_gpt_to_folder(rg_gpt *m, const char *folder);

RG_PUBLIC_END
