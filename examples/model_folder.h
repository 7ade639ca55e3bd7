/*
 * model_folder.h: what the readers of models' folders share: names of files and tensors, sizes in
 * config.json, and tensors in files of weights. What isn't supported is refused by its name.
 */
#pragma once

#include "options.h"

/* ---- names and sizes --------------------------------------------------------------- */

/* The texts that `joined` has made. */
typedef struct kept_text {
    struct kept_text *before;
    char v[];
} kept_text;
static kept_text *kept_texts;

/* Returns a text that printf would print. It lives as long as the program. */
static inline const char *joined(const char *format, ...) __attribute__((format(printf, 1, 2)));
static inline const char *joined(const char *format, ...) {
    char line[4096];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    kept_text *t = malloc(sizeof *t + strlen(line) + 1);
    if (!t)
        refuse("no memory for a name");
    t->before = kept_texts;
    kept_texts = t;
    return strcpy(t->v, line);
}

/* Returns the size at this place in a file. Refuses a size that no model has. */
static inline int64_t size_in(const rg_json_document *j, const char *at, int64_t otherwise) {
    int64_t n = rg_json_int(j, at, otherwise);
    if (n < 1 || n > 1 << 24)
        refuse("config.json: \"%s\" is %lld, which isn't supported", at + 1, (long long)n);
    return n;
}

/* Returns the index of config.json's model_type among n types. Refuses a type that isn't one of
 * them. */
static inline int type_in(const rg_json_document *j, int n, const char *const types[]) {
    const char *type = rg_json_str(j, "/model_type", "");
    int i = 0;
    while (i < n && strcmp(type, types[i]))
        i++;
    if (i == n)
        refuse("config.json: \"model_type\" is \"%s\", which isn't supported", type);
    return i;
}

/* ---- files of weights --------------------------------------------------------------- */

/* An open file of tensors, their names, and which of them have been taken. */
typedef struct {
    const char *path;
    rg_safe_file *file;
    rg_names names;
    bool *taken;
} weights_file;

static inline weights_file open_weights(const char *path) {
    weights_file w = { .path = path, .file = rg_safe_open(path) };
    w.names = rg_safe_keys(w.file);
    w.taken = calloc((size_t)w.names.n + 1, sizeof *w.taken);
    return w.taken ? w : (refuse("no memory for names"), w);
}

/* Returns whether a file may have this tensor although the model needs no such tensor. */
static inline bool is_needless(const char *name) {
    return strstr(name, "rotary_emb.inv_freq") || strstr(name, "embeddings.position_ids")
           || strncmp(name, "pooler.", 7) == 0;
}

/* Closes the file. It must have no tensors but those that were taken. */
static inline void close_weights(weights_file *w) {
    for (int i = 0; i < w->names.n; i++)
        if (!w->taken[i] && !is_needless(w->names.v[i]))
            refuse("'%s': tensor \"%s\" is none of the model's", w->path, w->names.v[i]);
    rg_safe_close(w->file);
    free(w->taken);
}

/* Set if weights in bfloat16 or float16 are to stay in it. */
static bool half = false;

/* Returns a tensor of the file: in float32, unless `half` is set. If the file lacks it, returns
 * RG_NONE if `optional` is true, and otherwise refuses the file. */
static inline rg_tensor *read_weight(weights_file *w, const char *name, rg_dims shape,
                                     bool optional) {
    int i = 0;
    while (i < w->names.n && strcmp(w->names.v[i], name))
        i++;
    if (i == w->names.n && optional)
        return RG_NONE;
    if (i == w->names.n)
        refuse("'%s': it lacks tensor \"%s\"", w->path, name);
    rg_tensor *t = rg_safe_get_tensor(w->file, name);
    const rg_dims is = rg_shape(t);
    if (is.n != shape.n || memcmp(is.v, shape.v, (size_t)is.n * sizeof *is.v)
        || rg_dtype_of(t) == RG_INT64 || rg_dtype_of(t) == RG_BOOL)
        refuse("'%s': tensor \"%s\" is %s of %s, which doesn't fit to config.json", w->path, name,
               rg_repr_shape(t), rg_dtype_name(rg_dtype_of(t)));
    w->taken[i] = true;
    const int dtype = rg_dtype_of(t);
    return half && (dtype == RG_BFLOAT16 || dtype == RG_FLOAT16) ? t : rg_to(t, RG_FLOAT32);
}
