/*
 * safetensors_write.c: writes safetensors files, with the same bytes as the format's own library.
 */
#include "safetensors.h"

#include "json.h"
#include "utf8.h"
#include "tensor/map.h"
#include "tensor/scope.h"

#include <inttypes.h>
#include <stdlib.h>

/* ---- checks of names ------------------------------------------------------------------------- */

/* Returns whether `name` may be a name in the header; otherwise fails. A name must be UTF-8, not
 * too long, and not in `known`, the set of earlier names. If the name fits, adds it to `known`.
 * `what` says what has the name, for error messages: "tensor" or "metadata". */
static bool safetensors_name_fits(const char *op, const char *what, const char *name,
                                  rg_map *known) {
    if (!rgi_given(name, op, "a name"))
        return false;
    RG_FAIL_VALUE_IF(strlen(name) > RG_SAFETENSORS_HEADER_MAX, op,
                     "%s \"%s\": a name of %zu bytes is too long for a header", what,
                     RG_SHOWN(name), strlen(name));
    RG_FAIL_VALUE_IF(!rgi_is_utf8(name, strlen(name)), op, "%s \"%s\": its name is no UTF-8", what,
                     RG_SHOWN(name));
    RG_FAIL_VALUE_IF(rgi_map_name(known, name) >= 0, op, "%s \"%s\" comes twice", what,
                     RG_SHOWN(name));
    return rgi_map_put_name(known, name, 0);
}

static bool tensors_fit(const char *op, rg_named_list tensors) {
    rg_map known = { 0 };
    bool ok = rgi_given_list(tensors.n, tensors.v, op)
              && rgi_map_put_name(&known, "__metadata__", 0);
    for (int i = 0; ok && i < tensors.n; i++) {
        const char *name = tensors.v[i].name;
        ok = rgi_check(tensors.v[i].tensor, op);
        if (ok && name && strcmp(name, "__metadata__") == 0)
            ok = rgi_fail(RG_VALUE_ERROR, op, "no tensor can have the name \"%s\"", name);
        ok = ok && safetensors_name_fits(op, "tensor", name, &known);
    }
    rgi_map_free(&known);
    return ok;
}

static bool value_fits(const char *op, const rg_metadata_pair *pair) {
    if (!rgi_given(pair->value, op, "a text"))
        return false;
    RG_FAIL_VALUE_IF(strlen(pair->value) > RG_SAFETENSORS_HEADER_MAX, op,
                     "metadata \"%s\": a text of %zu bytes is too long for a header",
                     RG_SHOWN(pair->key), strlen(pair->value));
    RG_FAIL_VALUE_IF(!rgi_is_utf8(pair->value, strlen(pair->value)), op,
                     "metadata \"%s\": its text is no UTF-8", RG_SHOWN(pair->key));
    return true;
}

static bool metadata_fit(const char *op, rg_metadata metadata) {
    rg_map known = { 0 };
    bool ok = rgi_given_list(metadata.n, metadata.v, op);
    for (int i = 0; ok && i < metadata.n; i++)
        ok = safetensors_name_fits(op, "metadata", metadata.v[i].key, &known)
             && value_fits(op, &metadata.v[i]);
    rgi_map_free(&known);
    return ok;
}

/* ---- the order of tensors in the file ------------------------------------------------- */

/* Returns the rank of a tensor in the file, which is the index of its type in RG_FOREIGN_TYPES.
 * Higher ranks come first. So types with larger elements come first, and all elements are aligned
 * to their size. Types of the same size are ordered as in the format's own library. */
static int safetensors_rank(const rg_tensor *t) {
    return (int)rgi_foreign_of((rg_dtype)t->dtype);
}

static int by_rank_and_name(const void *a, const void *b) {
    const rg_named *x = a, *y = b;
    const int more = safetensors_rank(y->tensor) - safetensors_rank(x->tensor);
    return more ? more : strcmp(x->name, y->name);
}

/* Returns a copy of the list's array, sorted into the order in which the tensors are written. The
 * innermost scope owns the array. Returns NULL if memory runs out. */
static const rg_named *in_order(rg_named_list tensors) {
    rg_named *v = rgi_scope_alloc((size_t)tensors.n * sizeof *v);
    if (v && tensors.n > 0) {
        memcpy(v, tensors.v, (size_t)tensors.n * sizeof *v);
        qsort(v, (size_t)tensors.n, sizeof *v, by_rank_and_name);
    }
    return v;
}

/* ---- making the header ---------------------------------------------------------------- */

static void add_metadata(rg_text *to, rg_metadata metadata) {
    rgi_text_add(to, "\"__metadata__\":{");
    for (int i = 0; i < metadata.n && to->n <= RG_SAFETENSORS_HEADER_MAX; i++) {
        rgi_text_add(to, i ? "," : "");
        rgi_json_quote(to, metadata.v[i].key);
        rgi_text_add(to, ":");
        rgi_json_quote(to, metadata.v[i].value);
    }
    rgi_text_add(to, "}");
}

/* Appends the description of a tensor whose data begins *at bytes behind the header, and adds the
 * size of this data to *at. */
static void add_description(rg_text *to, const rg_named *it, uint64_t *at) {
    const rg_tensor *t = it->tensor;
    rgi_json_quote(to, it->name);
    rgi_text_add(to, ":{\"dtype\":\"%s\",\"shape\":[",
                 rgi_foreign[rgi_foreign_of((rg_dtype)t->dtype)].safetensors);
    for (int d = 0; d < t->ndim; d++)
        rgi_text_add(to, d ? ",%" PRId64 : "%" PRId64, t->size[d]);
    rgi_text_add(to, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", *at, *at + rgi_bytes_of(t));
    *at += rgi_bytes_of(t);
}

/* Makes the header, padded with blanks to a multiple of 8 bytes. Returns false if the header is too
 * long, or if memory runs out. */
static bool make_header(rg_text *to, const char *op, const rg_named *v, int n,
                        rg_metadata metadata) {
    uint64_t at = 0;
    rgi_text_add(to, "{");
    if (metadata.n > 0)
        add_metadata(to, metadata);
    for (int i = 0; i < n && to->n <= RG_SAFETENSORS_HEADER_MAX; i++) {
        rgi_text_add(to, i || metadata.n > 0 ? "," : "");
        add_description(to, &v[i], &at);
    }
    rgi_text_add(to, "}");
    rgi_text_add(to, "%*s", (int)(-to->n % 8), "");
    RG_FAIL_VALUE_IF(to->n > RG_SAFETENSORS_HEADER_MAX, op,
                     "the header would have more than %d bytes", RG_SAFETENSORS_HEADER_MAX);
    return !to->failed;
}

/* ---- writing the file ----------------------------------------------------------------- */

static bool write_header_and_tensors(const char *op, const char *path, const rg_text *header,
                                     const rg_named *v, int n) {
    rg_writer w;
    unsigned char length[8];
    if (!rgi_writer_begin(&w, op, path))
        return false;
    for (int i = 0; i < 8; i++)
        length[i] = (unsigned char)((uint64_t)header->n >> 8 * i);
    rgi_write(&w, length, sizeof length);
    rgi_write(&w, header->v, header->n);
    for (int i = 0; i < n; i++)
        rgi_write_elements(&w, v[i].tensor);
    return rgi_writer_end(&w);
}

bool rgi_safetensors_write(const char *op, rg_named_list tensors, rg_metadata metadata,
                           const char *path) {
    RG_SCOPE();
    if (!rgi_given_path(path, op) || !tensors_fit(op, tensors) || !metadata_fit(op, metadata))
        return false;
    const rg_named *v = in_order(tensors);
    rg_text header = { 0 };
    bool ok = v && make_header(&header, op, v, tensors.n, metadata)
              && write_header_and_tensors(op, path, &header, v, tensors.n);
    rgi_text_free(&header);
    return ok;
}

/* ---- writing several files ---------------------------------------------------------------- */

static int64_t data_bytes(const rg_tensor *t) { return t->numel * (int64_t)rgi_sizeof(t->dtype); }

/* Returns the index behind the last tensor of the shard that begins with tensor `begin`. A shard
 * has at most `most` bytes of data, or a single tensor. */
static int shard_end(rg_named_list tensors, int begin, int64_t most) {
    int64_t bytes = data_bytes(tensors.v[begin].tensor);
    int end = begin + 1;
    while (end < tensors.n && data_bytes(tensors.v[end].tensor) <= most - bytes)
        bytes += data_bytes(tensors.v[end++].tensor);
    return end;
}

static int count_shards(rg_named_list tensors, int64_t most) {
    int n = 0;
    for (int i = 0; i < tensors.n; i = shard_end(tensors, i, most))
        n++;
    return n;
}

/* Writes the shards, and adds the name of each tensor's file to the index. Returns false on
 * failure. */
static bool write_shards(const char *op, rg_named_list tensors, const rg_save_file_options *o,
                         const char *path, int n, rg_text *index) {
    const char *slash = strrchr(path, '/');
    const size_t folder = slash ? (size_t)(slash + 1 - path) : 0;
    const int stem = (int)(strlen(path) - strlen(".safetensors"));
    int64_t total = 0;
    for (int i = 0; i < tensors.n; i++)
        total += data_bytes(tensors.v[i].tensor);
    rgi_text_add(index, "{\n  \"metadata\": {\n    \"total_size\": %lld\n  },\n", (long long)total);
    rgi_text_add(index, "  \"weight_map\": {");
    for (int i = 0, begin = 0, end; i < n; i++, begin = end) {
        rg_text name = { 0 };
        rgi_text_add(&name, "%.*s-%05d-of-%05d.safetensors", stem, path, i + 1, n);
        const char *shard = rgi_text_own(&name);
        end = shard_end(tensors, begin, o->max_shard_size);
        const rg_named_list some = { end - begin, tensors.v + begin };
        if (!shard || !rgi_safetensors_write(op, some, o->metadata, shard))
            return false;
        for (int k = begin; k < end; k++) {
            rgi_text_add(index, "%s\n    ", k ? "," : "");
            rgi_json_quote(index, tensors.v[k].name);
            rgi_text_add(index, ": ");
            rgi_json_quote(index, shard + folder);
        }
    }
    rgi_text_add(index, "\n  }\n}\n");
    return !index->failed;
}

bool rgi_safetensors_save(const char *op, rg_named_list tensors, const char *path,
                          const rg_save_file_options *o) {
    RG_SCOPE();
    RG_FAIL_VALUE_IF(o->max_shard_size < 0, op, "max_shard_size %lld is negative",
                     (long long)o->max_shard_size);
    if (!o->max_shard_size)
        return rgi_safetensors_write(op, tensors, o->metadata, path);
    if (!rgi_given_path(path, op) || !tensors_fit(op, tensors))
        return false;
    RG_FAIL_VALUE_IF(!rgi_ends_with(path, ".safetensors"), op,
                     "'%s' doesn't end with .safetensors, as the path of several files must", path);
    const int n = count_shards(tensors, o->max_shard_size);
    if (n <= 1)
        return rgi_safetensors_write(op, tensors, o->metadata, path);
    rg_text name = { 0 }, index = { 0 };
    rgi_text_add(&name, "%s.index.json", path);
    const char *index_path = rgi_text_own(&name);
    rg_writer w;
    bool ok = index_path && write_shards(op, tensors, o, path, n, &index)
              && rgi_writer_begin(&w, op, index_path);
    if (ok) {
        rgi_write(&w, index.v, index.n);
        ok = rgi_writer_end(&w);
    }
    rgi_text_free(&index);
    return ok;
}

bool rg_save_file_with(rg_named_list tensors, const char *path, rg_save_file_options o) {
    return rgi_safetensors_save("save_file", tensors, path, &o);
}
