/*
 * safetensors.c: reads safetensors files: checks the header, and reads tensors. This reader is
 * stricter than the format's own library, which doesn't check everything that the description of
 * the format demands.
 */
#include "safetensors.h"

#include "json.h"
#include "tensor/scope.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- error messages -------------------------------------------------------------------------- */

/* Fails with a message about the tensor `name`. Returns false. */
__attribute__((format(printf, 3, 4))) static bool safetensors_refuse(const rg_safetensors *s,
                                                                     const char *name,
                                                                     const char *format, ...) {
    char sentence[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    return rgi_file_refuse(&s->file, "tensor \"%s\": %s", RG_SHOWN(name), sentence);
}

/* ---- the description of a tensor ---------------------------------------------------- */

/* The types of the format that regard can't read. */
static const char *const safetensors_lacking[] = { "F4",          "F6_E2M3",     "F6_E3M2",
                                                   "F8_E4M3FNUZ", "F8_E5M2FNUZ", "C64" };

static bool read_type(const rg_safetensors *s, const rg_json *j, uint32_t value,
                      rg_safetensors_entry *e) {
    const char *text = rgi_json_text(j, value);
    if (!text && j->v[value].kind == RG_JSON_TEXT)
        return safetensors_refuse(s, e->name, "its dtype %s has a 0 in it",
                                  RG_JSON_SHOWN(j, value));
    if (!text)
        return safetensors_refuse(s, e->name, "its dtype is %s, and no text",
                                  RG_JSON_SHOWN(j, value));
    for (int type = 0; type < RG_FOREIGN_COUNT; type++)
        if (strcmp(rgi_foreign[type].safetensors, text) == 0) {
            e->type = (rg_foreign)type;
            return true;
        }
    for (int i = 0; i < RG_COUNT(safetensors_lacking); i++)
        if (strcmp(safetensors_lacking[i], text) == 0)
            return safetensors_refuse(s, e->name, "its dtype %s is none that regard reads", text);
    return safetensors_refuse(s, e->name, "there is no dtype \"%s\"", RG_SHOWN(text));
}

/* Returns whether the value is a number from 0 to INT64_MAX without a point or an exponent; if so,
 * sets *size to the number. -0 isn't accepted, because the format's own library doesn't accept it
 * either. */
static bool is_size(const rg_json *j, uint32_t value, int64_t *size) {
    return rgi_json_integer(j, value, size) && *j->v[value].v != '-';
}

static bool read_shape(const rg_safetensors *s, const rg_json *j, uint32_t value,
                       rg_safetensors_entry *e) {
    if (j->v[value].kind != RG_JSON_ARRAY)
        return safetensors_refuse(s, e->name, "its shape is %s, and no array",
                                  RG_JSON_SHOWN(j, value));
    if (j->v[value].n > RG_MAX_DIMS)
        return safetensors_refuse(s, e->name, "it has %u dims, and regard has %d at most",
                                  j->v[value].n, RG_MAX_DIMS);
    int64_t numel = 1;
    bool empty = false, overflow = false;
    for (RG_EACH_JSON(i, j, value)) {
        int64_t size;
        if (!is_size(j, i, &size))
            return safetensors_refuse(s, e->name, "dim %d of its shape is %s, and no size",
                                      e->shape.n, RG_JSON_SHOWN(j, i));
        e->shape.v[e->shape.n++] = size;
        empty |= size == 0;
        overflow |= size && (__builtin_mul_overflow(numel, size, &numel) || numel > RG_NUMEL_MAX);
    }
    if (overflow)
        return safetensors_refuse(s, e->name, "a shape of %s has too many elements",
                                  RG_DIMS_TEXT(&e->shape));
    e->numel = empty ? 0 : numel;
    return true;
}

/* Sets e->begin and e->end to the range of the tensor's bytes in the file. The offsets in the
 * header are counted from the end of the header. Fails and returns false if the range isn't in the
 * file, or isn't as large as the shape and the dtype require. */
static bool read_offsets(const rg_safetensors *s, const rg_json *j, uint32_t value,
                         rg_safetensors_entry *e) {
    if (j->v[value].kind != RG_JSON_ARRAY)
        return safetensors_refuse(s, e->name, "its data_offsets are %s, and no array",
                                  RG_JSON_SHOWN(j, value));
    if (j->v[value].n != 2)
        return safetensors_refuse(s, e->name, "its data_offsets are %u, and not two",
                                  j->v[value].n);
    int64_t begin, end;
    if (!is_size(j, value + 1, &begin))
        return safetensors_refuse(s, e->name, "its data_offsets begin at %s, which is no size",
                                  RG_JSON_SHOWN(j, value + 1));
    if (!is_size(j, j->v[value + 1].end, &end))
        return safetensors_refuse(s, e->name, "its data_offsets end at %s, which is no size",
                                  RG_JSON_SHOWN(j, j->v[value + 1].end));
    if (end < begin)
        return safetensors_refuse(s, e->name,
                                  "its data_offsets begin at %" PRId64 " and end before, at"
                                  " %" PRId64,
                                  begin, end);
    const uint64_t data = 8 + s->header_bytes - 1;
    if ((uint64_t)end > s->file.bytes - data)
        return safetensors_refuse(s, e->name,
                                  "its data_offsets end at %" PRId64 ", and the file has %" PRIu64
                                  " bytes of data",
                                  end, s->file.bytes - data);
    const int64_t bytes = e->numel * (int64_t)rgi_foreign[e->type].bytes;
    if (end - begin != bytes)
        return safetensors_refuse(
            s, e->name,
            "a shape of %s and dtype %s take %" PRId64 " bytes, and its data_offsets have %" PRId64,
            RG_DIMS_TEXT(&e->shape), rgi_foreign[e->type].safetensors, bytes, end - begin);
    e->begin = data + (uint64_t)begin;
    e->end = data + (uint64_t)end;
    return true;
}

static bool read_entry(const rg_safetensors *s, const rg_json *j, uint32_t value,
                       rg_safetensors_entry *e) {
    if (j->v[value].kind != RG_JSON_OBJECT)
        return safetensors_refuse(s, e->name, "its description is %s, and no object",
                                  RG_JSON_SHOWN(j, value));
    static const char *const keys[] = { "dtype", "shape", "data_offsets" };
    uint32_t at[RG_COUNT(keys)];
    for (int i = 0; i < RG_COUNT(keys); i++) {
        at[i] = rgi_json_find(j, value, keys[i]);
        if (!at[i])
            return safetensors_refuse(s, e->name, "its description has no %s", keys[i]);
    }
    if (j->v[value].n > RG_COUNT(keys))
        return safetensors_refuse(s, e->name,
                                  "its description has more than dtype, shape and data_offsets");
    return read_type(s, j, at[0], e) && read_shape(s, j, at[1], e) && read_offsets(s, j, at[2], e);
}

static bool read_pair(const rg_safetensors *s, const rg_json *j, uint32_t name,
                      rg_metadata_pair *pair) {
    *pair = (rg_metadata_pair){ j->v[name].v, rgi_json_text(j, name + 1) };
    if (pair->value)
        return true;
    if (j->v[name + 1].kind == RG_JSON_TEXT)
        return rgi_file_refuse(&s->file, "__metadata__ has a text with a 0 in it under \"%s\"",
                               RG_SHOWN(pair->key));
    return rgi_file_refuse(&s->file, "__metadata__ has %s, and no text, under \"%s\"",
                           RG_JSON_SHOWN(j, name + 1), RG_SHOWN(pair->key));
}

static bool read_metadata(rg_safetensors *s, const rg_json *j, uint32_t value) {
    if (j->v[value].kind != RG_JSON_OBJECT)
        return rgi_file_refuse(&s->file, "its __metadata__ is %s, and no object",
                               RG_JSON_SHOWN(j, value));
    rg_metadata_pair *pairs = NULL;
    if (!rgi_grow((void **)&pairs, &s->pairs_room, j->v[value].n, sizeof *pairs))
        return false;
    s->metadata.v = pairs;
    for (RG_EACH_JSON(i, j, value))
        if (!read_pair(s, j, i, &pairs[s->metadata.n++]))
            return false;
    return true;
}

/* ---- reading the header ------------------------------------------------------------- */

static bool read_header(rg_safetensors *s) {
    unsigned char length[8];
    uint64_t n = 0;
    if (s->file.bytes < sizeof length)
        return rgi_file_refuse(&s->file,
                               "it has %" PRIu64 " bytes, and the length of a header has"
                               " 8",
                               s->file.bytes);
    if (!rgi_file_read(&s->file, 0, length, sizeof length))
        return false;
    for (size_t i = sizeof length; i-- > 0;)
        n = n << 8 | length[i];
    if (n > RG_SAFETENSORS_HEADER_MAX)
        return rgi_file_refuse(&s->file,
                               "its header would have %" PRIu64 " bytes, and %d are the"
                               " most",
                               n, RG_SAFETENSORS_HEADER_MAX);
    if (n > s->file.bytes - 8)
        return rgi_file_refuse(&s->file,
                               "its header would have %" PRIu64 " bytes, and %" PRIu64 " follow", n,
                               s->file.bytes - 8);
    s->header = rgi_alloc((size_t)n + 1, RG_MEM_OTHER);
    if (!s->header)
        return false;
    s->header_bytes = (size_t)n + 1;
    s->header[n] = 0;
    return rgi_file_read(&s->file, 8, s->header, (size_t)n);
}

/* Returns whether the header begins with { and ends with }, which blanks may follow; otherwise
 * fails. JSON would allow other white space as well. The header may be empty. Requires that a byte
 * 0 follows the header. */
static bool check_ends(const rg_safetensors *s) {
    size_t n = s->header_bytes - 1;
    if (s->header[0] != '{')
        return rgi_file_refuse(&s->file, "its header doesn't begin with {");
    while (s->header[n - 1] == ' ')
        n--;
    return s->header[n - 1] == '}'
           || rgi_file_refuse(&s->file, "its header doesn't end with } and blanks");
}

/* Makes the tables of tensors and of metadata, s->v and s->metadata, from the parsed header.
 * Returns false on failure. */
static bool read_entries(rg_safetensors *s, const rg_json *j) {
    void *block = NULL;
    if (!rgi_grow(&block, &s->entries_room, (size_t)j->v[0].n + 1, sizeof *s->v + sizeof *s->named))
        return false;
    s->v = block;
    s->named = (const rg_safetensors_entry **)(void *)(s->v + s->entries_room);
    for (RG_EACH_JSON(i, j, 0)) {
        if (strcmp(j->v[i].v, "__metadata__") == 0) {
            if (!read_metadata(s, j, i + 1))
                return false;
            continue;
        }
        s->v[s->n] = (rg_safetensors_entry){ .name = j->v[i].v };
        if (!read_entry(s, j, i + 1, &s->v[s->n++]))
            return false;
    }
    return true;
}

/* ---- the order of the data ---------------------------------------------------------- */

/* Compares tensors by the offsets of their first bytes. If these are equal, the tensor that ends
 * first comes first, so that empty tensors come before others. If the ends are equal as well, the
 * tensors are compared by their names. */
static int by_place(const void *a, const void *b) {
    const rg_safetensors_entry *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    if (x->end != y->end)
        return x->end < y->end ? -1 : 1;
    return strcmp(x->name, y->name);
}

static int by_entry_name(const void *a, const void *b) {
    const rg_safetensors_entry *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

/* Fails and returns false unless the tensors cover each byte of the data exactly once. Requires
 * that s->v is sorted by by_place. */
static bool check_places(const rg_safetensors *s) {
    uint64_t end = 8 + s->header_bytes - 1;
    for (int i = 0; i < s->n; i++) {
        const rg_safetensors_entry *e = &s->v[i];
        if (e->begin > end)
            return safetensors_refuse(s, e->name,
                                      "the %" PRIu64 " bytes of data before it are no tensor's",
                                      e->begin - end);
        if (e->begin < end)
            return safetensors_refuse(s, e->name, "it begins in the midst of tensor \"%s\"",
                                      RG_SHOWN(s->v[i - 1].name));
        end = e->end;
    }
    return end == s->file.bytes
           || rgi_file_refuse(&s->file, "the last %" PRIu64 " bytes of data are no tensor's",
                              s->file.bytes - end);
}

static bool safetensors_fill(rg_safetensors *s) {
    rg_json j;
    if (!read_header(s) || !check_ends(s)
        || !rgi_json_parse(&j, s->file.op, s->file.path, s->header, s->header_bytes - 1))
        return false;
    bool ok = read_entries(s, &j);
    rgi_json_free(&j);
    if (!ok)
        return false;
    qsort(s->v, (size_t)s->n, sizeof *s->v, by_place);
    for (int i = 0; i < s->n; i++)
        s->named[i] = &s->v[i];
    qsort(s->named, (size_t)s->n, sizeof *s->named, by_entry_name);
    return check_places(s);
}

bool rgi_safetensors_open(rg_safetensors *s, const char *op, const char *path) {
    *s = (rg_safetensors){ 0 };
    if (!rgi_file_open(&s->file, op, path))
        return false;
    if (safetensors_fill(s))
        return true;
    rgi_safetensors_close(s);
    return false;
}

void rgi_safetensors_close(rg_safetensors *s) {
    rgi_file_close(&s->file);
    rgi_free(s->header, s->header_bytes, RG_MEM_OTHER);
    rgi_free(s->v, s->entries_room * (sizeof *s->v + sizeof *s->named), RG_MEM_OTHER);
    rgi_free((void *)(uintptr_t)s->metadata.v, s->pairs_room * sizeof *s->metadata.v, RG_MEM_OTHER);
    *s = (rg_safetensors){ .file.fd = -1 };
}

/* ---- finding and reading tensors ---------------------------------------------------- */

const rg_safetensors_entry *rgi_safetensors_find(const rg_safetensors *s, const char *name) {
    const rg_safetensors_entry wanted = { .name = name }, *key = &wanted;
    const rg_safetensors_entry **found =
        s->n ? bsearch(&key, s->named, (size_t)s->n, sizeof key, by_entry_name) : NULL;
    return found ? *found : NULL;
}

const char *rgi_safetensors_text(const rg_safetensors *s, const char *key) {
    for (int i = 0; i < s->metadata.n; i++)
        if (strcmp(s->metadata.v[i].key, key) == 0)
            return s->metadata.v[i].value;
    return NULL;
}

bool rgi_safetensors_read_into(const rg_safetensors *s, const rg_safetensors_entry *e,
                               rg_tensor *to) {
    char what[160];
    snprintf(what, sizeof what, "tensor \"%s\"", RG_SHOWN(e->name));
    return rgi_read_elements(&s->file, e->begin, e->type, !rgi_little_endian(), to->data, e->numel,
                             what);
}

rg_tensor *rgi_safetensors_read(const rg_safetensors *s, const rg_safetensors_entry *e) {
    rg_tensor *t = rgi_new(rgi_foreign[e->type].dtype, e->shape.n, e->shape.v);
    if (t && !rgi_safetensors_read_into(s, e, t)) {
        rgi_release(t);
        return NULL;
    }
    return rgi_own(t);
}

/* Copies the tensors' names into one block of memory, each followed by a 0, and returns the block.
 * The innermost scope owns the block. Returns NULL if memory runs out. */
static char *copy_names(const rg_safetensors *s) {
    size_t bytes = 0;
    for (int i = 0; i < s->n; i++)
        bytes += strlen(s->v[i].name) + 1;
    char *names = rgi_scope_alloc(bytes), *to = names;
    for (int i = 0; names && i < s->n; i++) {
        size_t n = strlen(s->v[i].name) + 1;
        memcpy(to, s->v[i].name, n);
        to += n;
    }
    return names;
}

rg_named_list rgi_safetensors_read_all(const rg_safetensors *s) {
    const rg_named_list failed = { .n = -1 };
    rg_named *v = rgi_scope_alloc((size_t)s->n * sizeof *v);
    char *name = v ? copy_names(s) : NULL;
    if (!name)
        return failed;
    RG_SCOPE();
    for (int i = 0; i < s->n; i++) {
        v[i] = (rg_named){ name, rgi_safetensors_read(s, &s->v[i]) };
        if (!v[i].tensor)
            return failed;
        name += strlen(name) + 1;
    }
    for (int i = 0; i < s->n; i++)
        rg_escape(v[i].tensor);
    return (rg_named_list){ s->n, v };
}
