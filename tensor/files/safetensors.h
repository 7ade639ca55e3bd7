/*
 * safetensors.h: the format safetensors: eight bytes with the length of the header, the header in
 * JSON, and the tensors' elements one after another. Private; files.h has the functions for
 * programs.
 */
#pragma once

#include "files.h"
#include "foreign.h"

/* The greatest size of a header, as in the format's own library. */
enum { RG_SAFETENSORS_HEADER_MAX = 100000000 };

/* ---- reading -------------------------------------------------------------------------- */

typedef struct {
    const char *name;
    rg_foreign type;
    rg_dims shape;
    int64_t numel;
    /* The range of the elements in the file: the first offset, and the one behind the last. */
    uint64_t begin, end;
} rg_safetensors_entry;

/* An open file, whose header was read and checked. Names and metadata live as long as the file is
 * open. */
typedef struct {
    rg_file file;
    int n;
    rg_safetensors_entry *v;            /* The entries in the order of the file. */
    const rg_safetensors_entry **named; /* The entries in the order of their names. */
    rg_metadata metadata;
    /* Fields that only safetensors.c uses. */
    char *header;
    size_t header_bytes, entries_room, pairs_room;
} rg_safetensors;

/* Opens a file and checks its header. `op` and the path must live as long as the file is open.
 * Returns false, with nothing to close, on failure. */
bool rgi_safetensors_open(rg_safetensors *s, const char *op, const char *path);
void rgi_safetensors_close(rg_safetensors *s);
/* Returns the tensor of this name, or NULL without an error. */
const rg_safetensors_entry *rgi_safetensors_find(const rg_safetensors *s, const char *name);
/* Returns the text under this name in the metadata, or NULL without an error. */
const char *rgi_safetensors_text(const rg_safetensors *s, const char *key);
/* Returns a new tensor, which the scope owns, or NULL. */
rg_tensor *rgi_safetensors_read(const rg_safetensors *s, const rg_safetensors_entry *e);
/* Reads a tensor of the file into a contiguous tensor of the same shape, and of the dtype that the
 * file's type becomes. */
bool rgi_safetensors_read_into(const rg_safetensors *s, const rg_safetensors_entry *e,
                               rg_tensor *to);
/* Returns all tensors in the order of the file. The scope owns them and copies of their names, so
 * that the file may be closed. A list with .n == -1 means failure. */
rg_named_list rgi_safetensors_read_all(const rg_safetensors *s);

/* ---- writing -------------------------------------------------------------------------- */

/* Writes a file. Returns false on failure; a file that was there then stays as it was. */
bool rgi_safetensors_write(const char *op, rg_named_list tensors, rg_metadata metadata,
                           const char *path);
