/*
 * gpt_ids.h: reads and writes the ids of the tokens that begin, end and pad a text. They are in the
 * files config.json and generation_config.json of a model's folder. Private.
 */
#pragma once

#include "gpt.h"
#include "json_rules.h"
#include "tensor/text/text.h"

/* Reads bos_token_id, eos_token_id and pad_token_id from the file into the options. An id that is
 * null or missing leaves its option unchanged. Fails and returns false if a value isn't a valid
 * id. */
bool rgi_gpt_read_ids(const rg_json_file *f, rg_gpt_options *o);
/* Reads generation_config.json, if it exists. The ids in it replace those in m->config, and its
 * contents are kept in m->generation_config. Returns false on failure. */
bool rgi_gpt_read_generation(rg_gpt *m, const char *op, const char *folder);
/* Writes m->generation_config to a temporary file, which rgi_gpt_end_generation renames. Does
 * nothing if m->generation_config is NULL. Returns false on failure. */
bool rgi_gpt_begin_generation(rg_writer *w, const rg_gpt *m, const char *op, const char *folder);
/* Renames the temporary file to generation_config.json if `go` is true, otherwise removes it. Does
 * nothing if m->generation_config is NULL. Returns false if the renaming fails. */
bool rgi_gpt_end_generation(rg_writer *w, const rg_gpt *m, bool go);
/* rgi_gpt_add_id appends the line of config.json for one id, and rgi_gpt_add_ids the line or lines
 * for a list of ids. The id -1 and an empty list are written as null. */
void rgi_gpt_add_id(rg_text *text, const char *name, int64_t id);
void rgi_gpt_add_ids(rg_text *text, const char *name, rg_dims ids);
