/*
 * safetensors.h: the format safetensors. A file has eight bytes with the length of the header, the
 * header in JSON, and then the elements of all tensors. Private; the public functions are in
 * files.h.
 */
#pragma once

#include "files.h"
#include "foreign.h"

/* The greatest size of a header in bytes, which is the limit of the format's own library. */
enum { RG_SAFETENSORS_HEADER_MAX = 100000000 };

/* ---- reading a file ------------------------------------------------------------------- */

typedef struct {
    const char *name;
    rg_foreign type;
    rg_dims shape;
    int64_t numel;
    /* The range of the tensor's bytes in the file: the offset of the first byte, and the offset
     * behind the last one. */
    uint64_t begin, end;
} rg_safetensors_entry;

/* An open file, whose header has been read and checked. Names and metadata live as long as the file
 * is open. */
typedef struct {
    rg_file file;
    int n;
    rg_safetensors_entry *v;            /* The entries in the order of their places in the file. */
    const rg_safetensors_entry **named; /* The entries in the order of their names. */
    rg_metadata metadata;
    /* Fields that only safetensors.c uses. */
    char *header;
    size_t header_bytes, entries_room, pairs_room;
} rg_safetensors;

/* Opens a file and checks its header. The strings `op` and `path` must live as long as the file is
 * open. If opening fails, returns false, and there is nothing to close. */
bool rgi_safetensors_open(rg_safetensors *s, const char *op, const char *path);
void rgi_safetensors_close(rg_safetensors *s);
/* Returns the entry of the tensor with this name. If there is none, returns NULL; that isn't a
 * failure. */
const rg_safetensors_entry *rgi_safetensors_find(const rg_safetensors *s, const char *name);
/* Returns the string under this key in the metadata. If there is none, returns NULL; that isn't a
 * failure. */
const char *rgi_safetensors_text(const rg_safetensors *s, const char *key);
/* Reads a tensor into a new tensor, which the innermost scope owns. Returns NULL on failure. */
rg_tensor *rgi_safetensors_read(const rg_safetensors *s, const rg_safetensors_entry *e);
/* Reads a tensor of the file into `to`. Requires that `to` is contiguous, and has the tensor's
 * shape and the dtype rgi_foreign[e->type].dtype. Returns false on failure. */
bool rgi_safetensors_read_into(const rg_safetensors *s, const rg_safetensors_entry *e,
                               rg_tensor *to);
/* Returns all tensors, in the order of their bytes in the file. The innermost scope owns the
 * tensors and copies of their names, so they stay valid after the file is closed. A list with .n ==
 * -1 means failure. */
rg_named_list rgi_safetensors_read_all(const rg_safetensors *s);

/* ---- several files ---------------------------------------------------------------------- */

/* An open file, and its path, which rg_shards owns. */
typedef struct rg_shard {
    rg_safetensors file;
    char *path;
    size_t path_bytes;
} rg_shard;

/* The open files whose tensors belong together: one file, or those that an index lists. No name is
 * in two of the files. */
typedef struct rg_shards {
    rg_shard *v;
    int n;
    size_t room;
} rg_shards;

/* Opens a file or, if the path ends with ".index.json", each file that the index lists. The string
 * `op` must live as long as the files are open. If opening fails, returns false, and there is
 * nothing to close. */
bool rgi_shards_open(rg_shards *s, const char *op, const char *path);
void rgi_shards_close(rg_shards *s);
/* Returns the entry of the tensor with this name, and sets *file to its file. If there is none,
 * returns NULL, which isn't a failure, and sets *file to the last file. */
const rg_safetensors_entry *rgi_shards_find(const rg_shards *s, const char *name,
                                            const rg_safetensors **file);
/* Returns all tensors of all files (see rgi_safetensors_read_all). */
rg_named_list rgi_shards_read_all(const rg_shards *s);

/* ---- writing a file ------------------------------------------------------------------- */

/* Writes a file to `path`. Returns false on failure; then a file that was at `path` before is
 * unchanged. */
bool rgi_safetensors_write(const char *op, rg_named_list tensors, rg_metadata metadata,
                           const char *path);
/* Does what rg_save_file does with these options. */
bool rgi_safetensors_save(const char *op, rg_named_list tensors, const char *path,
                          const rg_save_file_options *o);
