/*
 * gpt_ids.h: reads and writes the ids of the tokens that begin, end and pad a text. They are in the
 * files config.json and generation_config.json of a model's folder. Private.
 */
#pragma once

#include "gpt.h"
#include "json_rules.h"
#include "tensor/text/text.h"

/* Reads the ids from the file into the options. Returns false, and fails, if one isn't a valid
 * id. */
bool rgi_gpt_read_ids(const rg_json_file *f, rg_gpt_options *o);
/* Reads generation_config.json, if it exists. Ids in it replace those of config.json, and its
 * contents are kept in the model. Returns false on failure. */
bool rgi_gpt_read_generation(rg_gpt *m, const char *op, const char *folder);
/* Writes m->generation_config to a temporary file, which rgi_gpt_end_generation renames. Does
 * nothing if m->generation_config is NULL. Returns false on failure. */
bool rgi_gpt_begin_generation(rg_writer *w, const rg_gpt *m, const char *op, const char *folder);
/* Renames the temporary file to generation_config.json if `go`, otherwise removes it. */
bool rgi_gpt_end_generation(rg_writer *w, const rg_gpt *m, bool go);
/* Append the line of config.json for one id, or for a list of ids. The id -1 is written as null. */
void rgi_gpt_add_id(rg_text *text, const char *name, int64_t id);
void rgi_gpt_add_ids(rg_text *text, const char *name, rg_dims ids);
