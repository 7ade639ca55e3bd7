/*
 * torch_legacy.c: what torch wrote before 1.6, and still does if asked: five pickles behind each
 * other (a magic number, a version, the writer's machine, the object, its storages' keys), and then
 * each storage: how many elements, in 8 bytes, and these. The lowest byte comes first, whatever the
 * machine.
 */
#include "torch_file.h"

#include "tensor/memory.h"

#include <string.h>

enum { LEGACY_VERSION = 1001, LEGACY_WINDOW = 1 << 20, LEGACY_HEAD = 15 };

/* The first pickle is this number, in a protocol that the 0 stands for. */
static const char legacy_head[LEGACY_HEAD + 1] =
    "\x80\0\x8A\x0A\x6C\xFC\x9C\x46\xF9\x20\x6A\xA8\x50\x19.";

/* The pickles lie in the file's first n bytes, which are here. `at` is where the next one begins.
 */
typedef struct {
    rg_torch_reader *reader;
    char *text;
    size_t n, room, at;
    bool starved; /* The pickles need more bytes than there are here. */
} legacy_window;

/* ---- pickles ---------------------------------------------------------------------------- */

/* Reads the next pickle. */
static bool window_pickle(legacy_window *w, rg_pickle *p, const char *what) {
    const rg_file *f = w->reader->file;
    *p = (rg_pickle){ .file = f, .what = what, .bytes = w->text, .n = w->n, .at = w->at };
    p->more = w->n < f->bytes;
    bool ok = rgi_pickle_read(p);
    w->at = p->at;
    w->starved |= p->starved && p->more;
    return ok;
}

/* Reads the pickles of torch's version and of the writer's machine. */
static bool legacy_preface(legacy_window *w) {
    const rg_file *f = w->reader->file;
    rg_pickle p;
    bool ok = window_pickle(w, &p, "the version");
    if (ok && (p.v[p.result].kind != RG_PICKLE_INT || p.v[p.result].i != LEGACY_VERSION))
        ok = rgi_file_refuse(f, "Invalid protocol version: %d is known", LEGACY_VERSION);
    rgi_pickle_free(&p);
    if (!ok)
        return false;
    ok = window_pickle(w, &p, "the writer's machine");
    rgi_pickle_free(&p);
    return ok;
}

/* ---- storages --------------------------------------------------------------------------- */

/* Adds the storages that the object has, which lie nowhere yet. */
static bool add_declared(rg_torch_reader *r) {
    const rg_pickle *p = &r->pickle;
    rg_text key = { 0 };
    bool ok = true;
    for (size_t i = 0; ok && i < p->n_values; i++) {
        const rg_pickle_value *v = &p->v[i];
        if (v->kind != RG_PICKLE_STORAGE)
            continue;
        const rg_pickle_value *text = &p->v[p->cells[v->first].value];
        key.n = 0;
        rgi_text_add(&key, "%.*s", (int)text->n, text->v);
        ok = !key.failed
             && (rgi_map_name(&r->keys, key.v) >= 0
                 || rgi_torch_add_storage(
                     r, key.v, (rg_torch_storage){ .global = v->global, .numel = v->i }));
    }
    rgi_text_free(&key);
    return ok;
}

/* Finds where the storage of a key lies: at *at, past which it goes. */
static bool place_storage(rg_torch_reader *r, const char *key, uint64_t *at) {
    int64_t number = rgi_map_name(&r->keys, key);
    const char *shown = RG_SHOWN(key);
    if (number < 0)
        return rgi_file_refuse(r->file, "storage key '%s' is no storage's", shown);
    rg_torch_storage *s = &r->storages[number];
    const rg_foreign type = rgi_pickle_type(s->global);
    if (type == RG_FOREIGN_COUNT)
        return rgi_file_refuse(r->file, "storage '%s' is a %s, which regard can't hold", shown,
                               rgi_pickle_global_name(s->global));
    if (s->at)
        return rgi_file_refuse(r->file, "storage '%s' comes twice", shown);
    unsigned char head[8];
    uint64_t n = 0;
    if (!rgi_file_read(r->file, *at, head, sizeof head))
        return false;
    for (size_t i = sizeof head; i-- > 0;)
        n = n << 8 | head[i];
    s->at = *at + sizeof head;
    if (n > (r->file->bytes - s->at) / rgi_foreign[type].bytes)
        return rgi_file_refuse(r->file, "storage '%s' has %llu elements, but the file ends sooner",
                               shown, (unsigned long long)n);
    s->bytes = n * rgi_foreign[type].bytes;
    *at = s->at + s->bytes;
    return true;
}

static bool place_storages(rg_torch_reader *r, const rg_pickle *keys, uint64_t at) {
    rg_text key = { 0 };
    bool ok = keys->v[keys->result].kind == RG_PICKLE_LIST
              || rgi_file_refuse(r->file, "its storages' keys are %s and no list",
                                 rgi_pickle_kind_name(keys, keys->result));
    for (RG_EACH_ITEM(cell, keys, keys->result)) {
        if (!ok)
            break;
        const rg_pickle_value *v = &keys->v[keys->cells[cell].value];
        if (v->kind != RG_PICKLE_TEXT) {
            ok = rgi_file_refuse(r->file, "a storage's key is %s and no str",
                                 rgi_pickle_kind_name(keys, keys->cells[cell].value));
            break;
        }
        key.n = 0;
        rgi_text_add(&key, "%.*s", (int)v->n, v->v);
        ok = !key.failed && place_storage(r, key.v, &at);
    }
    rgi_text_free(&key);
    return ok;
}

/* ---- the file --------------------------------------------------------------------------- */

/* Reads what the window has. */
static bool legacy_parts(legacy_window *w) {
    rg_torch_reader *r = w->reader;
    rg_pickle keys = { 0 };
    w->at = LEGACY_HEAD;
    bool ok = legacy_preface(w) && window_pickle(w, &r->pickle, "the object")
              && window_pickle(w, &keys, "the storages' keys") && add_declared(r)
              && place_storages(r, &keys, w->at);
    rgi_pickle_free(&keys);
    return ok;
}

/* Takes as many bytes again as the window has. */
static bool widen_window(legacy_window *w) {
    const rg_file *f = w->reader->file;
    const size_t n = (size_t)RG_MIN((uint64_t)w->n + RG_MAX(w->n, (size_t)LEGACY_WINDOW), f->bytes);
    if (!rgi_grow((void **)&w->text, &w->room, n + 1, 1)
        || !rgi_file_read(f, w->n, w->text + w->n, n - w->n))
        return false;
    w->n = n;
    return true;
}

/* Returns whether the window begins as each such file does. */
static bool legacy_begins(const legacy_window *w) {
    return w->n >= LEGACY_HEAD && w->text[0] == legacy_head[0]
           && memcmp(w->text + 2, legacy_head + 2, LEGACY_HEAD - 2) == 0;
}

bool rgi_torch_legacy(rg_torch_reader *r, char **text, size_t *room) {
    legacy_window w = { .reader = r };
    bool ok = false;
    do {
        rgi_pickle_free(&r->pickle);
        w.starved = false;
        if (!widen_window(&w))
            break;
        ok = legacy_begins(&w) ? legacy_parts(&w)
                               : rgi_file_refuse(r->file, "it isn't what torch.save writes: it is "
                                                          "no archive and has no magic number");
    } while (w.starved);
    *text = w.text;
    *room = w.room;
    return ok;
}
