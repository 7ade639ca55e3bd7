/*
 * npy.h: reads and writes the header and the elements of NumPy's .npy format. The .npy may be a
 * whole file, a member of an archive, or a part of another file, such as a file of tokens.
 */
#pragma once

#include "foreign.h"
#include "zip.h"
#include "tensor/text/text.h"

/* A source of the bytes of a .npy, which is a file or a member of an archive. */
typedef struct {
    const rg_file *file;
    rg_zip_stream *stream; /* The member of an archive, or NULL if the bytes are read from `file`
                            * itself. */
    const char *what;      /* The name for error messages, such as: member "weight.npy"; or NULL. */
    uint64_t at, bytes;    /* The number of bytes that were read up to now, and the number of all
                            * bytes of the .npy. */
} rg_npy_source;
/* Returns a source that reads the whole file. */
rg_npy_source rgi_npy_source(const rg_file *f);

typedef struct {
    rg_foreign type;
    bool swapped; /* Set if the bytes of an element are in the opposite order to the machine's. */
    bool fortran; /* Set if the elements are in Fortran's order, in which the first dim is
                   * contiguous. */
    rg_dims shape;
    int64_t numel;
} rg_npy_header;
/* Reads the header. Fails and returns false if the header isn't valid, or if the bytes after it are
 * more or fewer than the elements take. */
bool rgi_npy_read_header(rg_npy_source *s, rg_npy_header *h);
/* Parses `text`, which has the n bytes of a header's dict, into *h. Returns false on failure. Such
 * a dict is: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), } */
bool rgi_npy_parse(const rg_npy_source *s, const char *text, size_t n, rg_npy_header *h);
/* Reads the header and the elements. Returns a tensor with one reference, which the caller owns, or
 * NULL on failure. */
rg_tensor *rgi_npy_read(rg_npy_source *s);

/* Sets `text` to the header that np.save would write for t. Requires that `text` is { 0 } before.
 * Returns false if memory runs out. The caller frees `text`, even after a failure. */
bool rgi_npy_make_header(rg_text *text, const rg_tensor *t);
/* Returns whether NumPy has t's dtype. Fails and returns false if it hasn't. */
bool rgi_npy_takes(const char *op, const rg_tensor *t);
/* Returns whether np.save writes the tensor in Fortran's order: t isn't contiguous, but would be if
 * the order of its dims were reversed. */
bool rgi_npy_is_fortran(const rg_tensor *t);

/* Fails with RG_IO_ERROR and a message such as: op: 'path': member "x.npy": sentence. Returns
 * false. */
bool rgi_npy_refuse(const rg_npy_source *s, const char *format, ...)
    __attribute__((format(printf, 2, 3), cold));
