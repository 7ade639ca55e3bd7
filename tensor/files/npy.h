/*
 * npy.h: what stands before the elements of NumPy's .npy, wherever it stands: in a file of its own,
 * in a member of an archive, or before the tokens of a text.
 */
#pragma once

#include "foreign.h"
#include "zip.h"
#include "tensor/text/text.h"

/* Bytes that are read one after another: a file's, or a member's. */
typedef struct {
    const rg_file *file;
    rg_zip_stream *stream; /* NULL for a file of its own. */
    const char *what;      /* Such as: member "weight.npy"; for errors. */
    uint64_t at, bytes;    /* The bytes that were read, and those that there are. */
} rg_npy_source;
/* Returns all of a file. */
rg_npy_source rgi_npy_source(const rg_file *f);

typedef struct {
    rg_foreign type;
    bool swapped; /* The elements' bytes are in the other order than the machine's. */
    bool fortran; /* The first dim is the one whose elements lie side by side. */
    rg_dims shape;
    int64_t numel;
} rg_npy_header;
/* Reads a header, behind which the elements stand and nothing else. */
bool rgi_npy_read_header(rg_npy_source *s, rg_npy_header *h);
/* Reads the dict in the header's text: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
 */
bool rgi_npy_parse(const rg_npy_source *s, const char *text, size_t n, rg_npy_header *h);
/* Reads all of it. Returns a tensor with one reference. */
rg_tensor *rgi_npy_read(rg_npy_source *s);

/* Makes the header that np.save writes. `text` begins as { 0 }; it is to be freed. Returns false
 * where there is no memory. */
bool rgi_npy_make_header(rg_text *text, const rg_tensor *t);
/* Returns whether np.save writes the tensor with its first dim innermost, as it lies in memory. */
bool rgi_npy_is_fortran(const rg_tensor *t);

/* Fails with RG_IO_ERROR: op: 'path': member "x.npy": the sentence. Returns false. */
bool rgi_npy_refuse(const rg_npy_source *s, const char *format, ...)
    __attribute__((format(printf, 2, 3), cold));
