/*
 * npy.h: the header and the elements of NumPy's .npy, in a file of its own, in a member of an
 * archive, or before the tokens of a text.
 */
#pragma once

#include "foreign.h"
#include "zip.h"
#include "tensor/text/text.h"

/* A sequence of bytes to read: a file, or a member of an archive. */
typedef struct {
    const rg_file *file;
    rg_zip_stream *stream; /* The member, or NULL for a file of its own. */
    const char *what;      /* The name in errors, such as: member "weight.npy" */
    uint64_t at, bytes;    /* The number of bytes that were read, and of all bytes. */
} rg_npy_source;
/* Returns a whole file as a source. */
rg_npy_source rgi_npy_source(const rg_file *f);

typedef struct {
    rg_foreign type;
    bool swapped; /* Set if the elements' bytes are in the other order than the machine's. */
    bool fortran; /* Set if elements along the first dim lie side by side. */
    rg_dims shape;
    int64_t numel;
} rg_npy_header;
/* Reads a header. Fails if the bytes behind it aren't exactly the elements. */
bool rgi_npy_read_header(rg_npy_source *s, rg_npy_header *h);
/* Parses the dict of the header: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), } */
bool rgi_npy_parse(const rg_npy_source *s, const char *text, size_t n, rg_npy_header *h);
/* Reads header and elements. Returns a tensor with one reference. */
rg_tensor *rgi_npy_read(rg_npy_source *s);

/* Appends the header that np.save writes to `text`, which must be { 0 }; the caller frees it.
 * Returns false if there is no memory. */
bool rgi_npy_make_header(rg_text *text, const rg_tensor *t);
/* Returns whether np.save writes the tensor in Fortran's order, with its first dim innermost. */
bool rgi_npy_is_fortran(const rg_tensor *t);

/* Fails with RG_IO_ERROR: op: 'path': member "x.npy": the sentence. Returns false. */
bool rgi_npy_refuse(const rg_npy_source *s, const char *format, ...)
    __attribute__((format(printf, 2, 3), cold));
