/*
 * npy.c: reads and writes NumPy's .npy files, each of which holds one tensor.
 */
#include "npy.h"

#include "files.h"
#include "tensor/load.h"
#include "tensor/scope.h"
#include "tensor/storage.h"

#include <string.h>

/* The greatest size in bytes of a header that NumPy reads, unless its caller says that the file is
 * trusted. */
enum { NPY_LONGEST_HEADER = 10000 };

/* ---- reading a .npy ------------------------------------------------------------------- */

rg_npy_source rgi_npy_source(const rg_file *f) {
    return (rg_npy_source){ .file = f, .bytes = f->bytes };
}

static bool npy_read(void *source, void *to, size_t n) {
    rg_npy_source *s = source;
    if (n > s->bytes - s->at)
        return rgi_npy_refuse(s, "it ends at byte %llu, in its header",
                              (unsigned long long)s->bytes);
    const bool ok = s->stream ? rgi_zip_stream_read(s->stream, to, n)
                              : rgi_file_read(s->file, s->at, to, n);
    s->at += n;
    return ok;
}

/* Reads the bytes before the header's dict. Returns the number of bytes of the dict and of the
 * blanks behind it, or -1 on failure. */
static int64_t npy_read_length(rg_npy_source *s) {
    unsigned char magic[8] = { 0 }, length[4];
    if (s->bytes >= sizeof magic && !npy_read(s, magic, sizeof magic))
        return -1;
    if (memcmp(magic, "\x93NUMPY", 6) != 0) {
        rgi_npy_refuse(s, "it is no .npy: it doesn't begin with \\x93NUMPY");
        return -1;
    }
    if (magic[6] < 1 || magic[6] > 3 || magic[7]) {
        rgi_npy_refuse(s, "it is of version %d.%d, and 1.0, 2.0 and 3.0 can be read", magic[6],
                       magic[7]);
        return -1;
    }
    const size_t bytes = magic[6] == 1 ? 2 : 4;
    if (!npy_read(s, length, bytes))
        return -1;
    int64_t n = 0;
    for (size_t i = bytes; i-- > 0;)
        n = n << 8 | length[i];
    if (n <= NPY_LONGEST_HEADER)
        return n;
    rgi_npy_refuse(s, "its header takes %lld bytes, which is too long to be one", (long long)n);
    return -1;
}

bool rgi_npy_read_header(rg_npy_source *s, rg_npy_header *h) {
    char text[NPY_LONGEST_HEADER];
    const int64_t n = npy_read_length(s);
    if (n < 0 || !npy_read(s, text, (size_t)n) || !rgi_npy_parse(s, text, (size_t)n, h))
        return false;
    /* Extra bytes behind the elements are an error, although NumPy ignores them. Otherwise data
     * that someone has saved behind the elements would be lost silently. */
    const uint64_t want = (uint64_t)h->numel * rgi_foreign[h->type].bytes, have = s->bytes - s->at;
    return want == have
           || rgi_npy_refuse(s, "its shape %s takes %llu bytes, but %llu follow the header",
                             RG_DIMS_TEXT(&h->shape), (unsigned long long)want,
                             (unsigned long long)have);
}

/* Reverses the order of t's dims, with their sizes and strides. The elements stay in place. */
static void turn_dims(rg_tensor *t) {
    for (int a = 0, b = t->ndim - 1; a < b; a++, b--) {
        RG_SWAP(t->size[a], t->size[b]);
        RG_SWAP(t->stride[a], t->stride[b]);
    }
    rgi_update_flags(t);
}

rg_tensor *rgi_npy_read(rg_npy_source *s) {
    rg_npy_header h;
    if (!rgi_npy_read_header(s, &h))
        return NULL;
    rg_dims shape = h.shape;
    for (int d = 0; h.fortran && d < shape.n; d++)
        shape.v[d] = h.shape.v[shape.n - 1 - d];
    rg_tensor *t = rgi_new(rgi_foreign[h.type].dtype, shape.n, shape.v);
    if (!t)
        return NULL;
    if (h.fortran)
        turn_dims(t);
    if (rgi_read_elements_of(s->file, npy_read, s, h.type, h.swapped, t->data, h.numel,
                             s->what ? s->what : "the array"))
        return t;
    rgi_release(t);
    return NULL;
}

rg_tensor *rg_load_npy(const char *path) {
    RG_LOADING("load_npy", path);
    rg_file f;
    if (!rgi_file_open(&f, "load_npy", path))
        return NULL;
    rg_npy_source s = rgi_npy_source(&f);
    rg_tensor *t = rgi_npy_read(&s);
    rgi_file_close(&f);
    return rgi_own(t);
}

/* ---- writing a .npy ------------------------------------------------------------------- */

bool rg_save_npy(rg_tensor *t, const char *path) {
    rg_writer w;
    rg_text header = { 0 };
    if (!rgi_check(t, "save_npy") || !rgi_npy_takes("save_npy", t)
        || !rgi_writer_begin(&w, "save_npy", path))
        return false;
    if (rgi_npy_make_header(&header, t)) {
        rgi_write(&w, header.v, header.n);
        if (rgi_npy_is_fortran(t))
            rgi_write(&w, t->data, rgi_bytes_of(t));
        else
            rgi_write_elements(&w, t);
    } else {
        w.failed = true;
    }
    rgi_text_free(&header);
    return rgi_writer_end(&w);
}
