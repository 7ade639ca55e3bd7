/*
 * zip.h: zip archives, such as NumPy's .npz and PyTorch's files: stored or deflated members, zip64,
 * no encryption, one disk. The reader uses only the central directory, and checks that everything
 * else agrees with it.
 */
#pragma once

#include "file.h"
#include "tensor/map.h"

/* ---- reading -------------------------------------------------------------------------- */

typedef struct {
    const char *name; /* The name, in UTF-8. */
    uint64_t at;      /* The offset of the member's local header. */
    uint64_t data;    /* The offset of the member's bytes. */
    uint64_t packed;  /* The number of bytes in the archive. */
    uint64_t bytes;   /* The number of bytes after inflating. */
    uint32_t crc;
    bool described; /* Set if sizes and CRC may be only behind the bytes. */
    bool deflated;  /* Set if the member is deflated; otherwise it is stored. */
} rg_zip_member;

typedef struct {
    rg_file file;
    size_t n;
    rg_zip_member *v; /* The members, in the directory's order, with different names. */
    /* Fields that only zip.c uses. */
    char *directory;
    size_t directory_bytes, room;
    rg_map names;
} rg_zip;

/* Opens an archive, and reads its directory and the local headers of its members. Returns false,
 * with nothing to close, on failure. */
bool rgi_zip_open(rg_zip *z, const char *op, const char *path);
/* Opens an archive in an open file, and takes the file over: closes it on failure, too. */
bool rgi_zip_of(rg_zip *z, rg_file file);
void rgi_zip_close(rg_zip *z);
/* Returns the member of this name, or NULL. */
const rg_zip_member *rgi_zip_find(const rg_zip *z, const char *name);

/* A stream reads a member from its beginning to its end, a part at a time. */
typedef struct rg_zip_stream rg_zip_stream;
/* Returns a stream, which rgi_zip_stream_end ends, or NULL. */
rg_zip_stream *rgi_zip_stream(const rg_zip *z, const rg_zip_member *m);
/* Reads the next n bytes. Fails if the member has fewer. */
bool rgi_zip_stream_read(rg_zip_stream *s, void *to, size_t n);
/* Frees the stream. If `whole`, returns whether all bytes were read, and have the CRC of the
 * archive; otherwise checks nothing. */
bool rgi_zip_stream_end(rg_zip_stream *s, bool whole);
/* Reads the whole member, of m->bytes bytes, and checks its CRC. */
bool rgi_zip_read(const rg_zip *z, const rg_zip_member *m, void *to);

/* ---- writing -------------------------------------------------------------------------- */

/* An archive that is being written. Members are stored. Numbers of 64 bits are used if a size or an
 * offset needs them. */
typedef struct {
    rg_writer file;
    rg_map names;
    char *directory; /* The directory: n bytes, with a capacity of `room`. */
    size_t n, room;
    /* The last member: the offset of its entry in the directory, its size, the bytes that were put,
     * and their CRC. */
    size_t entry;
    uint64_t bytes, put;
    uint32_t crc;
} rg_zip_writer;

/* Opens a new archive beside the path. Returns false, with nothing to end, on failure. */
bool rgi_zip_begin(rg_zip_writer *z, const char *op, const char *path);
/* Begins a member of `bytes` bytes, at an offset that is a multiple of `alignment`; the next calls
 * of rgi_zip_put must put that number of bytes. A name fails if it isn't UTF-8, is longer than
 * 65535 bytes, or is that of another member. After a failure these functions do nothing. */
void rgi_zip_member_begin(rg_zip_writer *z, const char *name, uint64_t bytes, size_t alignment);
void rgi_zip_put(rg_zip_writer *z, const void *from, size_t n);
/* Writes t's elements in the order of its dims. */
void rgi_zip_put_elements(rg_zip_writer *z, const rg_tensor *t);
/* Writes the directory and ends the file. If this or an earlier call failed, removes the file, and
 * returns false. */
bool rgi_zip_end(rg_zip_writer *z);
void rgi_zip_cancel(rg_zip_writer *z);
