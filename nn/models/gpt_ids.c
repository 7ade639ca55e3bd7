/*
 * gpt_ids.c: reads and writes the ids of special tokens in the files of a model's folder.
 */
#include "gpt_ids.h"

/* Reads an id into *id. Fails and returns false if the value isn't a whole number from 0 to
 * INT32_MAX. */
static bool read_id(const rg_json_file *f, const char *name, uint32_t value, int64_t *id) {
    if (rgi_json_integer(&f->json, value, id) && *id >= 0 && *id <= INT32_MAX)
        return true;
    return rgi_file_refuse(&f->file, "\"%s\" isn't the number of a token", name);
}

/* Reads the member `name`, an id, into *id. Leaves *id as it is if the value is null or missing.
 * Returns false on failure. */
static bool read_one_id(const rg_json_file *f, const char *name, int64_t *id) {
    const uint32_t value = rgi_json_find(&f->json, 0, name);
    return !value || f->json.v[value].kind == RG_JSON_NULL || read_id(f, name, value, id);
}

/* Reads the member `name`, an id or a list of ids, into *ids. Leaves *ids as it is if the value is
 * null or missing. Fails and returns false if an id is invalid, or the list has more than
 * RG_MAX_DIMS ids. */
static bool read_some_ids(const rg_json_file *f, const char *name, rg_dims *ids) {
    const rg_json *j = &f->json;
    const uint32_t value = rgi_json_find(j, 0, name);
    if (!value || j->v[value].kind == RG_JSON_NULL)
        return true;
    *ids = (rg_dims){ .n = 0 };
    if (j->v[value].kind != RG_JSON_ARRAY)
        return read_id(f, name, value, &ids->v[ids->n++]);
    for (RG_EACH_JSON(i, j, value)) {
        if (ids->n == RG_MAX_DIMS)
            return rgi_file_refuse(&f->file,
                                   "\"%s\" has more than %d tokens, which isn't supported", name,
                                   RG_MAX_DIMS);
        if (!read_id(f, name, i, &ids->v[ids->n++]))
            return false;
    }
    return true;
}

bool rgi_gpt_read_ids(const rg_json_file *f, rg_gpt_options *o) {
    return read_one_id(f, "bos_token_id", &o->bos_token_id)
           && read_some_ids(f, "eos_token_id", &o->eos_token_id)
           && read_one_id(f, "pad_token_id", &o->pad_token_id);
}

bool rgi_gpt_read_generation(rg_gpt *m, const char *op, const char *folder) {
    RG_SCOPE();
    rg_json_file f;
    size_t n;
    bool there;
    const char *path = rgi_path_in(op, folder, "generation_config.json");
    if (!path || !rgi_file_there(op, path, &there))
        return false;
    if (!there)
        return true;
    const char *text = rgi_file_text(op, path, &n);
    if (!text || !rgi_json_file_read(&f, op, path))
        return false;
    bool ok = f.json.v[0].kind == RG_JSON_OBJECT
              || rgi_file_refuse(&f.file, "the file is no object");
    ok = ok && rgi_gpt_read_ids(&f, (rg_gpt_options *)&m->config)
         && rgi_rename((char **)&m->generation_config, text);
    rgi_json_file_free(&f);
    return ok;
}

bool rgi_gpt_begin_generation(rg_writer *w, const rg_gpt *m, const char *op, const char *folder) {
    if (!m->generation_config)
        return true;
    const char *path = rgi_path_in(op, folder, "generation_config.json");
    if (!path || !rgi_writer_begin(w, op, path))
        return false;
    rgi_write(w, m->generation_config, strlen(m->generation_config));
    if (rgi_writer_settle(w))
        return true;
    rgi_writer_cancel(w);
    return false;
}

bool rgi_gpt_end_generation(rg_writer *w, const rg_gpt *m, bool go) {
    if (!m->generation_config)
        return true;
    if (go)
        return rgi_writer_end(w);
    rgi_writer_cancel(w);
    return true;
}

void rgi_gpt_add_id(rg_text *text, const char *name, int64_t id) {
    if (id < 0)
        rgi_text_add(text, "  \"%s\": null,\n", name);
    else
        rgi_text_add(text, "  \"%s\": %lld,\n", name, (long long)id);
}

void rgi_gpt_add_ids(rg_text *text, const char *name, rg_dims ids) {
    if (ids.n <= 1) {
        rgi_gpt_add_id(text, name, ids.n ? ids.v[0] : -1);
        return;
    }
    rgi_text_add(text, "  \"%s\": [", name);
    for (int i = 0; i < ids.n; i++)
        rgi_text_add(text, "%s\n    %lld", i ? "," : "", (long long)ids.v[i]);
    rgi_text_add(text, "\n  ],\n");
}
