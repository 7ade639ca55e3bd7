/*
 * torch_tensor.c: makes the tensors that a pickle describes. Each storage is read as a whole, and
 * only once for each element type. The tensors of this element type share the memory of the
 * elements that were read, as in torch.
 */
#include "torch_file.h"

#include "tensor/memory.h"
#include "tensor/shape.h"
#include "tensor/storage.h"

#include <stdio.h>
#include <string.h>

/* Fails with a message about the tensor of the entry `name`, and evaluates to false. */
#define REFUSE_TENSOR(r, name, format, ...) \
    rgi_file_refuse((r)->file, "tensor \"%s\": " format, RG_SHOWN(name), ##__VA_ARGS__)

void rgi_torch_reader_free(rg_torch_reader *r) {
    for (size_t i = 0; i < r->n_storages; i++)
        for (int type = 0; type < RG_FOREIGN_COUNT; type++)
            rgi_release(r->storages[i].as[type]);
    for (size_t i = 0; r->made && i < r->pickle.n_values; i++)
        rgi_release(r->made[i]);
    rgi_free(r->storages, r->storage_room * sizeof *r->storages, RG_MEM_OTHER);
    rgi_free(r->made, r->made_room, RG_MEM_OTHER);
    rgi_map_free(&r->keys);
    rgi_pickle_free(&r->pickle);
}

/* ---- finding storages ----------------------------------------------------------------- */

/* Adds a storage with this key, and returns a pointer to it, which is valid until another storage
 * is added. Returns NULL if memory runs out. */
static rg_torch_storage *add_storage(rg_torch_reader *r, const char *key,
                                     rg_torch_storage storage) {
    if (!rgi_grow((void **)&r->storages, &r->storage_room, r->n_storages + 1, sizeof storage)
        || !rgi_map_put_name(&r->keys, key, (int64_t)r->n_storages))
        return NULL;
    r->storages[r->n_storages] = storage;
    return &r->storages[r->n_storages++];
}

/* Finds the archive's member for the storage with this key, and adds the storage to r->storages.
 * `declared` is the storage as the pickle describes it. Returns NULL on failure. */
static rg_torch_storage *storage_in_archive(rg_torch_reader *r, const rg_pickle_value *key,
                                            const rg_pickle_value *declared, const char *name) {
    rg_text path = { 0 };
    rgi_text_add(&path, "%.*sdata/%.*s", (int)r->prefix_n, r->prefix, (int)key->n, key->v);
    rg_torch_storage *found = NULL;
    if (!path.failed) {
        rg_torch_storage storage = { .global = declared->global, .numel = declared->i };
        storage.member = rgi_zip_find(r->zip, path.v);
        if (storage.member)
            found = add_storage(r, path.v + r->prefix_n + 5, storage);
        else
            REFUSE_TENSOR(r, name, "the archive has no member '%s'",
                          RG_SHOWN_BYTES(path.v, path.n));
    }
    rgi_text_free(&path);
    return found;
}

/* Returns the entry of r->storages for the key of the storage that `value` describes. If there is
 * no such entry, adds one. Returns NULL on failure. */
static rg_torch_storage *look_for_storage(rg_torch_reader *r, uint32_t value, const char *name) {
    const rg_pickle_value *v = &r->pickle.v[value];
    const rg_pickle_value *key = &r->pickle.v[r->pickle.cells[v->first].value];
    rg_text text = { 0 };
    rgi_text_add(&text, "%.*s", (int)key->n, key->v);
    if (text.failed)
        return NULL;
    int64_t at = rgi_map_name(&r->keys, text.v);
    rgi_text_free(&text);
    return at < 0 ? storage_in_archive(r, key, v, name) : &r->storages[at];
}

/* Returns the entry of r->storages for the storage that `value` describes. Fails and returns NULL
 * if the archive has no member for it, if the described size isn't the member's, or if the pickle
 * describes the same storage elsewhere with another type or size. */
static rg_torch_storage *find_storage(rg_torch_reader *r, uint32_t value, const char *name) {
    const rg_pickle_value *v = &r->pickle.v[value];
    const rg_pickle_value *key = &r->pickle.v[r->pickle.cells[v->first].value];
    const size_t size = rgi_foreign[rgi_pickle_type(v->global)].bytes;
    if (memchr(key->v, 0, key->n)) {
        REFUSE_TENSOR(r, name, "its storage's key holds a 0");
        return NULL;
    }
    rg_torch_storage *s = look_for_storage(r, value, name);
    if (!s)
        return NULL;
    if (s->global != v->global || s->numel != v->i)
        REFUSE_TENSOR(r, name,
                      "its storage is of %s with %lld elements here, and of %s with %lld elsewhere",
                      rgi_pickle_global_name(v->global), (long long)v->i,
                      rgi_pickle_global_name(s->global), (long long)s->numel);
    else if (s->member->bytes / size != (uint64_t)s->numel)
        REFUSE_TENSOR(r, name, "its storage has %llu bytes, which aren't those of %lld elements",
                      (unsigned long long)s->member->bytes, (long long)s->numel);
    else
        return s;
    return NULL;
}

/* ---- reading elements ----------------------------------------------------------------- */

static bool next_of_member(void *source, void *to, size_t n) {
    return rgi_zip_stream_read(source, to, n);
}

/* Reads n elements of a member. Then reads the bytes after them, which are too few for another
 * element, so that the CRC of the whole member can be checked. */
static bool read_member(const rg_torch_reader *r, const rg_torch_storage *s, rg_foreign type,
                        void *to, int64_t n, const char *what) {
    char rest[8];
    rg_zip_stream *stream = rgi_zip_stream(r->zip, s->member);
    if (!stream)
        return false;
    const size_t left = (size_t)(s->member->bytes % rgi_foreign[type].bytes);
    bool ok = rgi_read_elements_of(r->file, next_of_member, stream, type, r->swapped, to, n, what)
              && rgi_zip_stream_read(stream, rest, left);
    bool whole = rgi_zip_stream_end(stream, ok);
    return ok && whole;
}

/* Returns the elements of the storage, read as elements of this type, as a tensor of one dim. The
 * storage owns the tensor. Returns NULL on failure. */
static rg_tensor *storage_as(rg_torch_reader *r, rg_torch_storage *s, rg_foreign type,
                             const char *name) {
    const int64_t n = (int64_t)(s->member->bytes / rgi_foreign[type].bytes);
    if (s->as[type])
        return s->as[type];
    rg_tensor *t = rgi_new(rgi_foreign[type].dtype, 1, &n);
    if (!t)
        return NULL;
    char what[RG_SHOWN_ROOM + 32];
    snprintf(what, sizeof what, "tensor \"%s\"", RG_SHOWN(name));
    if (read_member(r, s, type, t->data, n, what))
        return s->as[type] = t;
    rgi_release(t);
    return NULL;
}

/* ---- checking shapes ------------------------------------------------------------------ */

/* Copies the integers of a size or stride to `dims`. `called` is "size" or "stride". Fails if there
 * are too many integers, or if one is negative or too large. */
static bool take_sizes(const rg_torch_reader *r, uint32_t value, const char *called, rg_dims *dims,
                       const char *name) {
    const rg_pickle *p = &r->pickle;
    uint32_t v[RG_MAX_DIMS];
    size_t n = rgi_pickle_items(p, value, v, RG_MAX_DIMS);
    if (n > RG_MAX_DIMS)
        return REFUSE_TENSOR(r, name, "it has %zu dims, and %d are the most", n, RG_MAX_DIMS);
    dims->n = (int)n;
    for (size_t i = 0; i < n; i++) {
        dims->v[i] = p->v[v[i]].i;
        if (p->v[v[i]].kind != RG_PICKLE_INT || dims->v[i] < 0 || dims->v[i] > RG_NUMEL_MAX)
            return REFUSE_TENSOR(r, name, "dim %zu has a %s that isn't possible", i, called);
    }
    return true;
}

/* Returns whether all elements of a tensor with this size, stride and offset are within the n
 * elements of a storage, and the tensor has at most RG_NUMEL_MAX elements. */
static bool lies_within(const rg_dims *size, const rg_dims *stride, int64_t offset, int64_t n) {
    int64_t numel = 1, last = offset;
    bool empty = false;
    for (int d = 0; d < size->n; d++)
        empty |= size->v[d] == 0;
    if (empty)
        return offset >= 0;
    for (int d = 0; d < size->n; d++) {
        int64_t way;
        if (__builtin_mul_overflow(numel, size->v[d], &numel) || numel > RG_NUMEL_MAX
            || __builtin_mul_overflow(size->v[d] - 1, stride->v[d], &way)
            || __builtin_add_overflow(last, way, &last))
            return false;
    }
    return offset >= 0 && last < n;
}

/* Returns a new tensor with this size, stride and offset, which shares the memory of `whole`.
 * Returns NULL if memory runs out. */
static rg_tensor *tensor_within(rg_tensor *whole, const rg_dims *size, const rg_dims *stride,
                                int64_t offset) {
    rg_tensor *t = rgi_alias(whole);
    if (!t)
        return NULL;
    rgi_set_size(t, size);
    for (int d = 0; d < size->n; d++)
        t->stride[d] = stride->v[d];
    rgi_update_flags(t);
    if (t->numel == 0)
        rgi_set_strides(t);
    else
        t->data += (size_t)offset * rgi_sizeof((rg_dtype)t->dtype);
    return t;
}

static rg_tensor *make_tensor(rg_torch_reader *r, const uint32_t *items, rg_foreign type,
                              const char *name) {
    rg_dims size, stride;
    const int64_t offset = r->pickle.v[items[1]].i;
    rg_torch_storage *s = find_storage(r, items[0], name);
    if (!s || !take_sizes(r, items[2], "size", &size, name)
        || !take_sizes(r, items[3], "stride", &stride, name))
        return NULL;
    const int64_t n = (int64_t)(s->member->bytes / rgi_foreign[type].bytes);
    if (size.n != stride.n)
        REFUSE_TENSOR(r, name, "it has %d sizes and %d strides", size.n, stride.n);
    else if (!lies_within(&size, &stride, offset, n))
        REFUSE_TENSOR(r, name,
                      "sizes %s, strides %s and offset %lld reach beyond the %lld elements "
                      "of its storage",
                      RG_DIMS_TEXT(&size), RG_DIMS_TEXT(&stride), (long long)offset, (long long)n);
    else {
        rg_tensor *whole = storage_as(r, s, type, name);
        return whole ? tensor_within(whole, &size, &stride, offset) : NULL;
    }
    return NULL;
}

rg_tensor *rgi_torch_tensor(rg_torch_reader *r, uint32_t value, const char *name) {
    const rg_pickle *p = &r->pickle;
    const rg_pickle_value *v = &p->v[value];
    if (r->made[value])
        return r->made[value];
    uint32_t items[4] = { value };
    const bool whole = v->kind == RG_PICKLE_STORAGE;
    if (!whole)
        rgi_pickle_items(p, value, items, 4);
    const rg_foreign type = rgi_pickle_type(v->global ? v->global : p->v[items[0]].global);
    if (!whole)
        return r->made[value] = make_tensor(r, items, type, name);
    rg_torch_storage *s = find_storage(r, value, name);
    rg_tensor *t = s ? storage_as(r, s, type, name) : NULL;
    return r->made[value] = t ? rgi_alias(t) : NULL;
}
