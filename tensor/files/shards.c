/*
 * shards.c: opens a safetensors file, or all the files that an index lists. Hugging Face's
 * libraries write the tensors of a large model into several files, the shards, and beside them an
 * index, such as model.safetensors.index.json. Its "weight_map" has the name of each tensor's file.
 */
#include "safetensors.h"

#include "json.h"
#include "tensor/map.h"
#include "tensor/scope.h"

/* Opens the file `name` in the folder that the first n bytes of `folder` name, which end with a
 * slash unless n is 0. Returns false on failure. */
static bool open_shard(rg_shards *s, const char *op, const char *folder, size_t n,
                       const char *name) {
    if (!rgi_grow((void **)&s->v, &s->room, (size_t)s->n + 1, sizeof *s->v))
        return false;
    rg_shard *shard = &s->v[s->n];
    shard->path_bytes = n + strlen(name) + 1;
    shard->path = rgi_alloc(shard->path_bytes, RG_MEM_OTHER);
    if (!shard->path)
        return false;
    memcpy(shard->path, folder, n);
    memcpy(shard->path + n, name, shard->path_bytes - n);
    if (rgi_safetensors_open(&shard->file, op, shard->path)) {
        s->n++;
        return true;
    }
    rgi_free(shard->path, shard->path_bytes, RG_MEM_OTHER);
    return false;
}

/* Fails and returns false if two shards have a tensor of the same name. */
static bool shards_differ(const rg_shards *s) {
    for (int i = 1; i < s->n; i++)
        for (int k = 0; k < s->v[i].file.n; k++) {
            const rg_safetensors *file = &s->v[i].file, *first;
            rgi_shards_find(s, file->v[k].name, &first);
            if (first != file)
                return rgi_file_refuse(&file->file, "tensor \"%s\" comes twice",
                                       RG_SHOWN(file->v[k].name));
        }
    return true;
}

/* Opens each file that the weight_map lists. Fails and returns false if it lists a file that isn't
 * in the index's own folder, or a tensor that its file lacks. */
static bool open_listed(rg_shards *s, const rg_file *index, const rg_json *j, uint32_t weights,
                        rg_map *known) {
    const char *slash = strrchr(index->path, '/');
    const size_t folder = slash ? (size_t)(slash + 1 - index->path) : 0;
    for (RG_EACH_JSON(i, j, weights)) {
        const char *name = rgi_json_text(j, i + 1);
        if (!name || !*name || strchr(name, '/'))
            return rgi_file_refuse(index,
                                   "for tensor \"%s\" \"weight_map\" has %s, which is no file in "
                                   "this folder",
                                   RG_SHOWN(j->v[i].v), RG_JSON_SHOWN(j, i + 1));
        if (rgi_map_name(known, name) < 0
            && !(open_shard(s, index->op, index->path, folder, name)
                 && rgi_map_put_name(known, name, s->n - 1)))
            return false;
    }
    for (RG_EACH_JSON(i, j, weights)) {
        const rg_safetensors *file = &s->v[rgi_map_name(known, j->v[i + 1].v)].file;
        if (!rgi_safetensors_find(file, j->v[i].v))
            return rgi_file_refuse(&file->file, "it lacks tensor \"%s\"", RG_SHOWN(j->v[i].v));
    }
    return shards_differ(s);
}

static bool open_index(rg_shards *s, const char *op, const char *path) {
    RG_SCOPE();
    const rg_file index = { .op = op, .path = path, .fd = -1 };
    size_t n;
    char *text = rgi_file_text(op, path, &n);
    rg_json j;
    if (!text || !rgi_json_parse(&j, op, path, text, n))
        return false;
    rg_map known = { 0 };
    const uint32_t weights = rgi_json_find(&j, 0, "weight_map");
    bool ok = false;
    if (!weights)
        rgi_file_refuse(&index, "it has no \"weight_map\"");
    else if (j.v[weights].kind != RG_JSON_OBJECT)
        rgi_file_refuse(&index, "its \"weight_map\" is %s, and no object",
                        RG_JSON_SHOWN(&j, weights));
    else if (!j.v[weights].n)
        rgi_file_refuse(&index, "its \"weight_map\" tells of no file");
    else
        ok = open_listed(s, &index, &j, weights, &known);
    rgi_map_free(&known);
    rgi_json_free(&j);
    return ok;
}

bool rgi_shards_open(rg_shards *s, const char *op, const char *path) {
    *s = (rg_shards){ 0 };
    if (!rgi_given_path(path, op))
        return false;
    if (rgi_ends_with(path, ".index.json") ? open_index(s, op, path)
                                           : open_shard(s, op, path, 0, path))
        return true;
    rgi_shards_close(s);
    return false;
}

void rgi_shards_close(rg_shards *s) {
    for (int i = 0; i < s->n; i++) {
        rgi_safetensors_close(&s->v[i].file);
        rgi_free(s->v[i].path, s->v[i].path_bytes, RG_MEM_OTHER);
    }
    rgi_free(s->v, s->room * sizeof *s->v, RG_MEM_OTHER);
    *s = (rg_shards){ 0 };
}

const rg_safetensors_entry *rgi_shards_find(const rg_shards *s, const char *name,
                                            const rg_safetensors **file) {
    const rg_safetensors_entry *e = NULL;
    for (int i = 0; i < s->n && !e; i++) {
        *file = &s->v[i].file;
        e = rgi_safetensors_find(*file, name);
    }
    return e;
}

rg_named_list rgi_shards_read_all(const rg_shards *s) {
    const rg_named_list failed = { .n = -1 };
    if (s->n == 1)
        return rgi_safetensors_read_all(&s->v[0].file);
    size_t n = 0;
    for (int i = 0; i < s->n; i++)
        n += (size_t)s->v[i].file.n;
    rg_named *v = rgi_scope_alloc(n * sizeof *v), *to = v;
    for (int i = 0; v && i < s->n; i++) {
        const rg_named_list some = rgi_safetensors_read_all(&s->v[i].file);
        if (some.n < 0)
            return failed;
        memcpy(to, some.v, (size_t)some.n * sizeof *to);
        to += some.n;
    }
    return v ? (rg_named_list){ (int)n, v } : failed;
}
