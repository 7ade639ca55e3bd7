/*
 * torch_write.c: writes a list of named tensors to a file. The pickle in this file has the same
 * bytes as the one that torch.save writes for an OrderedDict of these tensors. The archive has the
 * same members as torch's, except the member with a serial number, which torch doesn't need. For
 * nested values, the pickle has other bytes than torch's, but the same meaning.
 */
#include "torch_value.h"
#include "tensor/files/foreign.h"
#include "tensor/files/utf8.h"
#include "tensor/files/zip.h"
#include "tensor/map.h"
#include "tensor/memory.h"
#include "tensor/scope.h"
#include "tensor/text/text.h"

#include <stdio.h>
#include <string.h>

/* PICKLE_BATCH is the number of pairs of a dict that Python's pickler writes at a time. */
enum { PICKLE_BATCH = 1000, TORCH_ALIGNMENT = 64 };

/* The values that are written once and then loaded from the pickle's memo: for each, its index in
 * the memo, or -1 if it isn't written yet. */
typedef struct {
    int64_t rebuild, ordered_dict, storage, cpu, types[RG_DTYPE_COUNT];
} torch_memo;

/* A storage that the pickle names by a key. `key` is the index of this key in the memo, or -1 if
 * the key isn't written yet. */
typedef struct {
    const rg_tensor *tensor; /* The first of the tensors that use the storage. */
    int64_t key;
} written_storage;

typedef struct {
    const char *op;
    char *v; /* The pickle: n bytes, in memory for `room` bytes. */
    size_t n, room;
    bool failed;
    uint32_t memoized;
    torch_memo memo;
    rg_map places; /* A map from the address of a storage to its index in `storages`. */
    written_storage *storages;
    size_t n_storages, storage_room;
} torch_writer;

/* ---- writing opcodes and numbers ------------------------------------------------------ */

static void pickle_bytes(torch_writer *w, const void *from, size_t n) {
    w->failed = w->failed || !rgi_grow((void **)&w->v, &w->room, w->n + n, 1);
    if (w->failed)
        return;
    memcpy(w->v + w->n, from, n);
    w->n += n;
}

static void pickle_op(torch_writer *w, const char *ops) { pickle_bytes(w, ops, strlen(ops)); }

/* Writes an opcode, followed by a little-endian number of `bytes` bytes. */
static void pickle_number(torch_writer *w, char op, uint64_t number, size_t bytes) {
    char v[9] = { op };
    for (size_t i = 0; i < bytes; i++)
        v[i + 1] = (char)(number >> 8 * i);
    pickle_bytes(w, v, bytes + 1);
}

/* Writes the opcode that stores the value on top of the stack in the memo, under the next index.
 * Returns this index. */
static int64_t pickle_put(torch_writer *w) {
    const uint32_t at = w->memoized++;
    pickle_number(w, at < 256 ? 'q' : 'r', at, at < 256 ? 1 : 4);
    return at;
}

/* Writes the opcode that loads the value with index `at` from the memo. If `at` is -1, writes
 * nothing and returns false. */
static bool pickle_again(torch_writer *w, int64_t at) {
    if (at >= 0)
        pickle_number(w, at < 256 ? 'h' : 'j', (uint64_t)at, at < 256 ? 1 : 4);
    return at >= 0;
}

static void pickle_text(torch_writer *w, const char *text) {
    pickle_number(w, 'X', strlen(text), 4);
    pickle_bytes(w, text, strlen(text));
}

static void pickle_text_once(torch_writer *w, const char *text, int64_t *at) {
    if (pickle_again(w, *at))
        return;
    pickle_text(w, text);
    *at = pickle_put(w);
}

static void pickle_global_once(torch_writer *w, const char *lines, int64_t *at) {
    if (pickle_again(w, *at))
        return;
    pickle_op(w, "c");
    pickle_op(w, lines);
    *at = pickle_put(w);
}

static void pickle_float(torch_writer *w, double real) {
    union {
        double real;
        uint64_t bits;
    } as = { real };
    char v[9] = { 'G' };
    for (int i = 0; i < 8; i++)
        v[i + 1] = (char)(as.bits >> (56 - 8 * i));
    pickle_bytes(w, v, sizeof v);
}

/* Writes an integer, by the same opcode and with as many bytes as Python does. */
static void pickle_int(torch_writer *w, int64_t i) {
    if (i >= 0 && i < 1 << 8) {
        pickle_number(w, 'K', (uint64_t)i, 1);
    } else if (i >= 0 && i < 1 << 16) {
        pickle_number(w, 'M', (uint64_t)i, 2);
    } else if (i >= INT32_MIN && i <= INT32_MAX) {
        pickle_number(w, 'J', (uint64_t)i, 4);
    } else {
        /* Writes as few bytes as possible such that the highest bit of the last byte is the sign.
         * At least 5 bytes are needed, because int32 can't hold i. */
        const int64_t sign = i < 0 ? -1 : 0;
        uint64_t bytes = 4;
        while (i >> (8 * bytes - 1) != sign)
            bytes++;
        pickle_number(w, '\x8A', bytes, 1);
        for (uint64_t b = 0; b < bytes; b++)
            pickle_bytes(w, &(char){ (char)(i >> 8 * b) }, 1);
    }
}

static void pickle_ints(torch_writer *w, int n, const int64_t *v) {
    static const char *const closing[] = { ")", "\x85", "\x86", "\x87" };
    if (n > 3)
        pickle_op(w, "(");
    for (int i = 0; i < n; i++)
        pickle_int(w, v[i]);
    pickle_op(w, n > 3 ? "t" : closing[n]);
    if (n > 0)
        pickle_put(w);
}

static void pickle_ordered_dict(torch_writer *w) {
    pickle_global_once(w, "collections\nOrderedDict\n", &w->memo.ordered_dict);
    pickle_op(w, ")R");
    pickle_put(w);
}

/* ---- writing tensors ------------------------------------------------------------------ */

static size_t element_bytes(const rg_tensor *t) { return rgi_sizeof((rg_dtype)t->dtype); }

static int64_t storage_numel(const rg_tensor *t) {
    return (int64_t)(t->storage->bytes / element_bytes(t));
}

/* Returns the index of t's storage in w->storages, and appends the storage if it isn't there yet.
 * Returns -1 if memory runs out. */
static int64_t place_of_storage(torch_writer *w, const rg_tensor *t) {
    int64_t at = rgi_map_address(&w->places, t->storage);
    if (at >= 0)
        return at;
    at = (int64_t)w->n_storages;
    if (!rgi_grow((void **)&w->storages, &w->storage_room, w->n_storages + 1, sizeof *w->storages)
        || !rgi_map_put_address(&w->places, t->storage, at))
        return -1;
    w->storages[w->n_storages++] = (written_storage){ t, -1 };
    return at;
}

/* Writes the persistent id of t's storage: ("storage", type, key, "cpu", numel). */
static void pickle_storage(torch_writer *w, const rg_tensor *t) {
    const int64_t at = place_of_storage(w, t);
    w->failed |= at < 0;
    if (w->failed)
        return;
    char type[40], key[24];
    snprintf(type, sizeof type, "torch\n%sStorage\n",
             rgi_foreign[rgi_foreign_of((rg_dtype)t->dtype)].storage);
    snprintf(key, sizeof key, "%lld", (long long)at);
    pickle_op(w, "(");
    pickle_text_once(w, "storage", &w->memo.storage);
    pickle_global_once(w, type, &w->memo.types[t->dtype]);
    pickle_text_once(w, key, &w->storages[at].key);
    pickle_text_once(w, "cpu", &w->memo.cpu);
    pickle_int(w, storage_numel(t));
    pickle_op(w, "t");
    pickle_put(w);
    pickle_op(w, "Q");
}

static void pickle_tensor(torch_writer *w, const rg_tensor *t) {
    if (t == RG_NONE) {
        pickle_op(w, "N");
        return;
    }
    pickle_global_once(w, "torch._utils\n_rebuild_tensor_v2\n", &w->memo.rebuild);
    pickle_op(w, "(");
    pickle_storage(w, t);
    pickle_int(w, (t->data - (char *)t->storage->data) / (int64_t)element_bytes(t));
    pickle_ints(w, t->ndim, t->size);
    pickle_ints(w, t->ndim, t->stride);
    pickle_op(w, "\x89");   /* The argument requires_grad is false. */
    pickle_ordered_dict(w); /* The argument backward_hooks is empty. */
    pickle_op(w, "t");
    pickle_put(w);
    pickle_op(w, "R");
    pickle_put(w);
}

/* ---- writing the list ----------------------------------------------------------------- */

static bool check_entries(const torch_writer *w, rg_named_list list) {
    rg_map names = { 0 };
    bool ok = rgi_given_list(list.n, list.v, w->op);
    for (int i = 0; ok && i < list.n; i++) {
        const char *name = list.v[i].name;
        ok = rgi_given(name, w->op, "a name")
             && (list.v[i].tensor == RG_NONE || rgi_check(list.v[i].tensor, w->op));
        if (ok && !rgi_is_utf8(name, strlen(name)))
            ok = rgi_fail(RG_VALUE_ERROR, w->op, "name %d of the list is no UTF-8", i);
        if (ok && rgi_map_name(&names, name) >= 0)
            ok = rgi_fail(RG_VALUE_ERROR, w->op, "the name \"%s\" comes twice", name);
        ok = ok && rgi_map_put_name(&names, name, i);
    }
    rgi_map_free(&names);
    return ok;
}

static void pickle_list(torch_writer *w, rg_named_list list) {
    pickle_op(w, "\x80\x02");
    if (list.n == 1 && !*list.v[0].name) {
        pickle_tensor(w, list.v[0].tensor);
        pickle_op(w, ".");
        return;
    }
    pickle_ordered_dict(w);
    for (int i = 0, n; i < list.n; i += n) {
        n = RG_MIN(list.n - i, PICKLE_BATCH);
        if (n > 1)
            pickle_op(w, "(");
        for (int k = i; k < i + n; k++) {
            pickle_text(w, list.v[k].name);
            pickle_put(w);
            pickle_tensor(w, list.v[k].tensor);
        }
        pickle_op(w, n > 1 ? "u" : "s");
    }
    pickle_op(w, ".");
}

/* ---- writing the archive ---------------------------------------------------------------- */

/* Appends the name of the folder that has the members, and a slash. As in torch, the name is the
 * part of the file's name before its last dot. If this part is empty or contains other characters
 * than printable ASCII, the name is "archive". */
static void add_folder(rg_text *to, const char *path) {
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    const char *dot = strrchr(base, '.');
    const size_t n = dot ? (size_t)(dot - base) : strlen(base);
    bool plain = n > 0;
    for (size_t i = 0; i < n; i++)
        plain &= base[i] >= 0x20 && base[i] < 0x7F;
    rgi_text_add(to, "%.*s/", plain ? (int)n : 7, plain ? base : "archive");
}

/* Writes a member with this name and the n bytes at `from` into the folder. The first `folder`
 * bytes of *path are the folder's name; what follows them is overwritten. */
static void add_member(rg_zip_writer *z, rg_text *path, size_t folder, const char *name,
                       const void *from, size_t n) {
    path->n = folder;
    rgi_text_add(path, "%s", name);
    if (path->failed)
        return;
    rgi_zip_member_begin(z, path->v, n, TORCH_ALIGNMENT);
    rgi_zip_put(z, from, n);
}

static void add_text_member(rg_zip_writer *z, rg_text *path, size_t folder, const char *name,
                            const char *text) {
    add_member(z, path, folder, name, text, strlen(text));
}

/* Writes the members in the same order as torch. Returns false if memory for a name runs out. Other
 * failures set z->file.failed. */
static bool write_members(const torch_writer *w, rg_zip_writer *z, const char *file) {
    rg_text path = { 0 };
    add_folder(&path, file);
    const size_t folder = path.n;
    add_member(z, &path, folder, "data.pkl", w->v, w->n);
    add_text_member(z, &path, folder, ".format_version", "1");
    add_text_member(z, &path, folder, ".storage_alignment", "64");
    add_text_member(z, &path, folder, "byteorder", rgi_little_endian() ? "little" : "big");
    for (size_t i = 0; i < w->n_storages; i++) {
        char name[32];
        const rg_tensor *t = w->storages[i].tensor;
        snprintf(name, sizeof name, "data/%zu", i);
        add_member(z, &path, folder, name, t->storage->data,
                   (size_t)storage_numel(t) * element_bytes(t));
    }
    add_text_member(z, &path, folder, "version", "3\n");
    bool ok = !path.failed;
    rgi_text_free(&path);
    return ok;
}

/* Writes the archive if `ok` is true. Frees the writer in any case. Returns false if `ok` is false,
 * or on failure. */
static bool write_archive(torch_writer *w, const char *path, bool ok) {
    rg_zip_writer z;
    ok = ok && !w->failed && rgi_zip_begin(&z, w->op, path);
    if (ok && write_members(w, &z, path)) {
        ok = rgi_zip_end(&z);
    } else if (ok) {
        rgi_zip_cancel(&z);
        ok = false;
    }
    rgi_free(w->v, w->room, RG_MEM_OTHER);
    rgi_free(w->storages, w->storage_room * sizeof *w->storages, RG_MEM_OTHER);
    rgi_map_free(&w->places);
    return ok;
}

static torch_writer new_writer(const char *op) {
    return (torch_writer){ .op = op,
                           .memo = { -1, -1, -1, -1, { [0 ... RG_DTYPE_COUNT - 1] = -1 } } };
}

bool rg_torch_save(rg_named_list list, const char *path) {
    torch_writer w = new_writer("torch_save");
    const bool ok = check_entries(&w, list);
    if (ok)
        pickle_list(&w, list);
    return write_archive(&w, path, ok);
}

/* ---- writing nested values ------------------------------------------------------------------- */

/* The opcodes before and after the items of each kind of container. */
static const struct {
    const char *begins, *ends;
} py_brackets[] = {
    [RG_PY_DICT] = { "}(", "u" },
    [RG_PY_ORDERED_DICT] = { "ccollections\nOrderedDict\n)R(", "u" },
    [RG_PY_COUNTER] = { "ccollections\nCounter\n}(", "u\x85R" },
    [RG_PY_LIST] = { "](", "e" },
    [RG_PY_TUPLE] = { "(", "t" },
};

static void pickle_part(torch_writer *w, const rg_py_part *part) {
    switch (part->kind) {
    case RG_PY_KEY:
    case RG_PY_TEXT: pickle_text(w, part->text); break;
    case RG_PY_INT_KEY:
    case RG_PY_INT: pickle_int(w, part->whole); break;
    case RG_PY_FLOAT: pickle_float(w, part->real); break;
    case RG_PY_BOOL: pickle_op(w, part->whole ? "\x88" : "\x89"); break;
    case RG_PY_NONE: pickle_op(w, "N"); break;
    case RG_PY_TENSOR: pickle_tensor(w, part->tensor); break;
    default: pickle_op(w, py_brackets[part->kind].begins); break;
    }
}

bool rgi_torch_write(const char *op, const rg_py *p, const char *path) {
    torch_writer w = new_writer(op);
    const char *ends[RG_PY_DEPTH];
    int depth = 0;
    if (p->failed)
        return false;
    for (size_t i = 0; i < p->n; i++)
        RG_FAIL_VALUE_IF(p->v[i].kind == RG_PY_KEY
                             && !rgi_is_utf8(p->v[i].text, strlen(p->v[i].text)),
                         op, "a name is no UTF-8");
    pickle_op(&w, "\x80\x02");
    for (size_t i = 0; i < p->n; i++) {
        if (p->v[i].kind < RG_PY_END)
            ends[depth++] = py_brackets[p->v[i].kind].ends;
        if (p->v[i].kind == RG_PY_END)
            pickle_op(&w, ends[--depth]);
        else
            pickle_part(&w, &p->v[i]);
    }
    pickle_op(&w, ".");
    return write_archive(&w, path, true);
}
