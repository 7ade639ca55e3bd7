/*
 * npz.c: reads and writes NumPy's .npz, a zip archive with a .npy for each tensor.
 */
#include "npy.h"

#include "files.h"
#include "tensor/load.h"
#include "tensor/memory.h"
#include "tensor/scope.h"
#include "tensor/storage.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

static const char npz_suffix[] = ".npy";
enum { NPZ_SUFFIX = sizeof npz_suffix - 1 };

/* ---- reading an archive --------------------------------------------------------------- */

/* Returns a copy of a member's name without ".npy". The innermost scope owns the copy. Returns NULL
 * on failure. */
static const char *npz_name(const rg_zip *z, const rg_zip_member *m) {
    const size_t all = strlen(m->name);
    if (all < NPZ_SUFFIX || strcmp(m->name + all - NPZ_SUFFIX, npz_suffix) != 0) {
        rgi_file_refuse(&z->file, "member \"%s\": its name doesn't end with .npy",
                        RG_SHOWN(m->name));
        return NULL;
    }
    char *name = rgi_scope_alloc(all - NPZ_SUFFIX + 1);
    if (!name)
        return NULL;
    memcpy(name, m->name, all - NPZ_SUFFIX);
    name[all - NPZ_SUFFIX] = 0;
    return name;
}

static rg_tensor *npz_tensor(const rg_zip *z, const rg_zip_member *m) {
    char what[160];
    snprintf(what, sizeof what, "member \"%s\"", RG_SHOWN(m->name));
    rg_zip_stream *stream = rgi_zip_stream(z, m);
    if (!stream)
        return NULL;
    rg_npy_source s = { .file = &z->file, .stream = stream, .what = what, .bytes = m->bytes };
    rg_tensor *t = rgi_npy_read(&s);
    if (rgi_zip_stream_end(stream, t != NULL))
        return rgi_own(t);
    rgi_release(t);
    return NULL;
}

static rg_named_list npz_read(const rg_zip *z) {
    const rg_named_list failed = { .n = -1 };
    if (z->n > INT_MAX) {
        rgi_file_refuse(&z->file, "it has %zu members", z->n);
        return failed;
    }
    rg_named *v = rgi_scope_alloc(z->n * sizeof *v);
    for (size_t i = 0; v && i < z->n; i++) {
        v[i].name = npz_name(z, &z->v[i]);
        if (!v[i].name)
            return failed;
    }
    RG_SCOPE();
    for (size_t i = 0; v && i < z->n; i++) {
        v[i].tensor = npz_tensor(z, &z->v[i]);
        if (!v[i].tensor)
            return failed;
    }
    for (size_t i = 0; v && i < z->n; i++)
        rg_escape(v[i].tensor);
    return v ? (rg_named_list){ (int)z->n, v } : failed;
}

rg_named_list rg_load_npz(const char *path) {
    RG_LOADING("load_npz", path);
    rg_zip z;
    if (!rgi_zip_open(&z, "load_npz", path))
        return (rg_named_list){ .n = -1 };
    const rg_named_list list = npz_read(&z);
    rgi_zip_close(&z);
    return list;
}

/* ---- writing an archive --------------------------------------------------------------- */

static bool npz_fits(rg_named_list list) {
    bool ok = rgi_given_list(list.n, list.v, "save_npz");
    for (int i = 0; ok && i < list.n; i++)
        ok = rgi_given(list.v[i].name, "save_npz", "a name")
             && rgi_check(list.v[i].tensor, "save_npz")
             && rgi_npy_takes("save_npz", list.v[i].tensor);
    return ok;
}

static void npz_put(rg_zip_writer *z, const rg_named *it) {
    const rg_tensor *t = it->tensor;
    rg_text name = { 0 }, header = { 0 };
    rgi_text_add(&name, "%s%s", it->name, npz_suffix);
    if (!name.failed && rgi_npy_make_header(&header, t)) {
        rgi_zip_member_begin(z, name.v, header.n + rgi_bytes_of(t), 64);
        rgi_zip_put(z, header.v, header.n);
        if (rgi_npy_is_fortran(t))
            rgi_zip_put(z, t->data, rgi_bytes_of(t));
        else
            rgi_zip_put_elements(z, t);
    } else {
        z->file.failed = true;
    }
    rgi_text_free(&name);
    rgi_text_free(&header);
}

bool rg_save_npz(rg_named_list list, const char *path) {
    rg_zip_writer z;
    if (!npz_fits(list) || !rgi_zip_begin(&z, "save_npz", path))
        return false;
    for (int i = 0; i < list.n; i++)
        npz_put(&z, &list.v[i]);
    return rgi_zip_end(&z);
}
