/*
 * safe_file.c: the public functions that read safetensors files: all tensors at once, or one tensor
 * at a time.
 */
#include "safetensors.h"

#include "tensor/handle.h"
#include "tensor/load.h"
#include "tensor/scope.h"

#include <stdlib.h>

/* An open file, or the files of an index. `path` is a copy of the caller's path. */
struct rg_safe_file {
    rg_handle handle;
    rg_shards shards;
    size_t bytes;
    char path[];
};

rg_named_list rg_load_file(const char *path) {
    RG_LOADING("load_file", path);
    rg_shards s;
    if (!rgi_shards_open(&s, "load_file", path))
        return (rg_named_list){ .n = -1 };
    rg_named_list tensors = rgi_shards_read_all(&s);
    rgi_shards_close(&s);
    return tensors;
}

rg_safe_file *rg_safe_open(const char *path) {
    RG_LOADING("safe_open", path);
    if (!rgi_given_path(path, "safe_open"))
        return NULL;
    const size_t n = strlen(path) + 1, bytes = sizeof(rg_safe_file) + n;
    rg_safe_file *f = rgi_alloc(bytes, RG_MEM_OTHER);
    if (!f)
        return NULL;
    *f = (rg_safe_file){ .handle = RG_NEW_HANDLE(SAFE_FILE), .bytes = bytes };
    memcpy(f->path, path, n);
    if (rgi_shards_open(&f->shards, "safe_open", f->path))
        return f;
    rgi_free(f, bytes, RG_MEM_OTHER);
    return NULL;
}

void rg_safe_close(rg_safe_file *f) {
    if (!f || !rgi_handle_given(f, "safe_close", RG_HANDLE_SAFE_FILE))
        return;
    rgi_shards_close(&f->shards);
    rgi_free_handle(&f->handle, f->bytes);
}

/* Returns a copy of the string. The innermost scope owns the copy. Returns NULL if memory runs
 * out. */
static const char *scope_copy(const char *text) {
    size_t n = strlen(text) + 1;
    char *copy = rgi_scope_alloc(n);
    return copy ? memcpy(copy, text, n) : NULL;
}

static int by_key(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

rg_names rg_safe_keys(const rg_safe_file *f) {
    const rg_names failed = { .n = -1 };
    if (!rgi_handle_given(f, "safe_keys", RG_HANDLE_SAFE_FILE))
        return failed;
    const rg_shards *s = &f->shards;
    int n = 0;
    for (int i = 0; i < s->n; i++)
        n += s->v[i].file.n;
    const char **v = rgi_scope_alloc((size_t)n * sizeof *v), **to = v;
    if (!v)
        return failed;
    for (int i = 0; i < s->n; i++)
        for (int k = 0; k < s->v[i].file.n; k++) {
            *to = scope_copy(s->v[i].file.named[k]->name);
            if (!*to++)
                return failed;
        }
    if (s->n > 1)
        qsort(v, (size_t)n, sizeof *v, by_key);
    return (rg_names){ n, v };
}

rg_metadata rg_safe_metadata(const rg_safe_file *f) {
    const rg_metadata failed = { .n = -1 };
    if (!rgi_handle_given(f, "safe_metadata", RG_HANDLE_SAFE_FILE))
        return failed;
    const rg_metadata m = f->shards.v[0].file.metadata;
    rg_metadata_pair *v = rgi_scope_alloc((size_t)m.n * sizeof *v);
    for (int i = 0; v && i < m.n; i++) {
        v[i] = (rg_metadata_pair){ scope_copy(m.v[i].key), scope_copy(m.v[i].value) };
        if (!v[i].key || !v[i].value)
            return failed;
    }
    return v ? (rg_metadata){ m.n, v } : failed;
}

rg_tensor *rg_safe_get_tensor(const rg_safe_file *f, const char *name) {
    const char *op = "safe_get_tensor";
    if (!rgi_handle_given(f, op, RG_HANDLE_SAFE_FILE) || !rgi_given(name, op, "a name"))
        return NULL;
    RG_LOADING(op, f->path);
    const rg_safetensors *file;
    const rg_safetensors_entry *e = rgi_shards_find(&f->shards, name, &file);
    rgi_load_reads(file->file.bytes);
    /* Error messages must name this function, and not rg_safe_open. Its name is set in a copy of
     * the file's state, because other threads may be reading from the same file. */
    rg_safetensors s = *file;
    s.file.op = op;
    if (e)
        return rgi_safetensors_read(&s, e);
    return rgi_fail(RG_INDEX_ERROR, op, "'%s': File does not contain tensor %s", f->path,
                    RG_SHOWN(name));
}
