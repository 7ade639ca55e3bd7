/*
 * gpt_ids.h: which tokens begin, end and fill up a text, as the files of a model's folder say:
 * config.json, and generation_config.json, if there is one. Private.
 */
#pragma once

#include "gpt.h"
#include "json_rules.h"
#include "tensor/text/text.h"

/* Takes the ids that the file has into the options. Fails where they are none. */
bool rgi_gpt_read_ids(const rg_json_file *f, rg_gpt_options *o);
/* Reads generation_config.json, if the folder has one, whose ids count more than config.json's. The
 * model keeps its text. */
bool rgi_gpt_read_generation(rg_gpt *m, const char *op, const char *folder);
/* Writes the text that the model keeps, all but the rename. Does nothing where it keeps none. */
bool rgi_gpt_begin_generation(rg_writer *w, const rg_gpt *m, const char *op, const char *folder);
/* Renames the file, if `go`, or takes it away. */
bool rgi_gpt_end_generation(rg_writer *w, const rg_gpt *m, bool go);
/* Adds a line of config.json with one id, which is null where it is -1, or with several. */
void rgi_gpt_add_id(rg_text *text, const char *name, int64_t id);
void rgi_gpt_add_ids(rg_text *text, const char *name, rg_dims ids);
