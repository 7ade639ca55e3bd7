/*
 * gpt_ids.h: the tokens that begin, end and pad a text, as config.json and generation_config.json
 * of a model's folder name them. Private.
 */
#pragma once

#include "gpt.h"
#include "json_rules.h"
#include "tensor/text/text.h"

/* Reads the file's ids into the options. Fails if one is invalid. */
bool rgi_gpt_read_ids(const rg_json_file *f, rg_gpt_options *o);
/* Reads generation_config.json if it exists. Its ids take precedence over config.json's, and the
 * model keeps its text. */
bool rgi_gpt_read_generation(rg_gpt *m, const char *op, const char *folder);
/* Writes the text that the model keeps to a temporary file, if there is a text. */
bool rgi_gpt_begin_generation(rg_writer *w, const rg_gpt *m, const char *op, const char *folder);
/* Renames the temporary file if `go`, else removes it. */
bool rgi_gpt_end_generation(rg_writer *w, const rg_gpt *m, bool go);
/* Writes config.json's line for an id, where -1 becomes null, or for a list. */
void rgi_gpt_add_id(rg_text *text, const char *name, int64_t id);
void rgi_gpt_add_ids(rg_text *text, const char *name, rg_dims ids);
