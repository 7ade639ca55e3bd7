/*
 * zip.h: archives as NumPy's .npz and PyTorch have them: members that are stored or deflated,
 * zip64, no encryption, one disk. The reader goes by the central directory alone, and checks it:
 * what another reader might take for something else is refused.
 */
#pragma once

#include "file.h"
#include "tensor/map.h"

/* ---- reading -------------------------------------------------------------------------- */

typedef struct {
    const char *name; /* UTF-8. */
    uint64_t at;      /* The member's local header begins here, */
    uint64_t data;    /* and its bytes here. */
    uint64_t packed;  /* The bytes that the member takes in the archive, */
    uint64_t bytes;   /* and those once it is inflated. */
    uint32_t crc;
    bool described; /* Sizes and CRC may stand behind the bytes alone. */
    bool deflated;  /* A member that isn't is stored as it is. */
} rg_zip_member;

typedef struct {
    rg_file file;
    size_t n;
    rg_zip_member *v; /* The members in the directory's order. No name comes twice. */
    /* zip.c alone uses these. */
    char *directory;
    size_t directory_bytes, room;
    rg_map names;
} rg_zip;

/* Opens an archive, and reads its directory and its members' local headers. Returns false, with
 * nothing to close, on failure. */
bool rgi_zip_open(rg_zip *z, const char *op, const char *path);
/* Does so for a file that is open, which it takes over: it closes it on failure, too. */
bool rgi_zip_of(rg_zip *z, rg_file file);
void rgi_zip_close(rg_zip *z);
/* Returns the member of this name, or NULL. */
const rg_zip_member *rgi_zip_find(const rg_zip *z, const char *name);

/* A member is read from its beginning to its end, a part at a time. */
typedef struct rg_zip_stream rg_zip_stream;
/* Returns a stream to be ended, or NULL. */
rg_zip_stream *rgi_zip_stream(const rg_zip *z, const rg_zip_member *m);
/* Reads the next n bytes. Fails where the member has fewer. */
bool rgi_zip_stream_read(rg_zip_stream *s, void *to, size_t n);
/* Frees the stream. Returns whether all bytes were read, and are those of which the archive has the
 * CRC; if `whole` is false it doesn't look. */
bool rgi_zip_stream_end(rg_zip_stream *s, bool whole);
/* Reads the whole member, of m->bytes bytes, and checks its CRC. */
bool rgi_zip_read(const rg_zip *z, const rg_zip_member *m, void *to);

/* ---- writing -------------------------------------------------------------------------- */

/* Members are stored. A 64-bit archive comes about where a size or a place asks for it. */
typedef struct {
    rg_writer file;
    rg_map names;
    char *directory; /* It has n bytes, and room for `room`. */
    size_t n, room;
    /* The last member's place in the directory, its bytes, those that were put, their CRC. */
    size_t entry;
    uint64_t bytes, put;
    uint32_t crc;
} rg_zip_writer;

/* Opens a new archive beside the path. Returns false, with nothing to end, on failure. */
bool rgi_zip_begin(rg_zip_writer *z, const char *op, const char *path);
/* Adds a member of `bytes` bytes, which begin at a multiple of `alignment`; the rgi_zip_put calls
 * that follow give just these bytes. A name that is no UTF-8, is longer than 65535 bytes, or is a
 * member's already, fails. After a failure these do nothing. */
void rgi_zip_member_begin(rg_zip_writer *z, const char *name, uint64_t bytes, size_t alignment);
void rgi_zip_put(rg_zip_writer *z, const void *from, size_t n);
/* Puts t's elements, in the order of its dims. */
void rgi_zip_put_elements(rg_zip_writer *z, const rg_tensor *t);
/* Writes the directory and ends the file. Where anything failed, takes away what was written, and
 * returns false. */
bool rgi_zip_end(rg_zip_writer *z);
void rgi_zip_cancel(rg_zip_writer *z);
