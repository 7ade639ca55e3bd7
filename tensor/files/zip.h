/*
 * zip.h: zip archives, such as NumPy's .npz and PyTorch's files. Members may be stored or deflated;
 * zip64 is supported, encryption and several disks aren't. The reader takes names, sizes and CRCs
 * from the central directory, and checks that the members' local headers agree with the directory.
 */
#pragma once

#include "file.h"
#include "tensor/map.h"

/* ---- reading an archive --------------------------------------------------------------- */

typedef struct {
    const char *name; /* The name, in UTF-8. */
    uint64_t at;      /* The offset of the member's local header. */
    uint64_t data;    /* The offset of the first of the member's bytes. */
    uint64_t packed;  /* The number of the member's bytes in the archive. */
    uint64_t bytes;   /* The number of bytes after decompression. */
    uint32_t crc;
    bool described; /* Set if the sizes and the CRC may be in a descriptor behind the bytes, not in
                     * the local header. */
    bool deflated;  /* Set if the member is deflated; otherwise it is stored uncompressed. */
} rg_zip_member;

typedef struct {
    rg_file file;
    size_t n;
    rg_zip_member *v; /* The members in the order of the directory. Their names are all
                       * different. */
    /* Fields that only zip.c uses. */
    char *directory;
    size_t directory_bytes, room;
    rg_map names;
} rg_zip;

/* Opens an archive, and reads its directory and the local headers of its members. If any of this
 * fails, returns false, and there is nothing to close. */
bool rgi_zip_open(rg_zip *z, const char *op, const char *path);
/* Opens an archive in a file that is already open. From then on the archive owns the file, and
 * closes it even on failure. Returns false on failure. */
bool rgi_zip_of(rg_zip *z, rg_file file);
void rgi_zip_close(rg_zip *z);
/* Returns the member with this name, or NULL if there is none. */
const rg_zip_member *rgi_zip_find(const rg_zip *z, const char *name);

/* A stream reads a member from its beginning to its end, one part after the other. */
typedef struct rg_zip_stream rg_zip_stream;
/* Returns a stream that reads member m. The caller must end the stream by rgi_zip_stream_end.
 * Returns NULL if memory runs out. */
rg_zip_stream *rgi_zip_stream(const rg_zip *z, const rg_zip_member *m);
/* Reads the next n bytes of the member. Fails and returns false if the member has fewer left, or is
 * damaged. */
bool rgi_zip_stream_read(rg_zip_stream *s, void *to, size_t n);
/* Frees the stream. If `whole` is false, checks nothing and returns true. If `whole` is true, fails
 * and returns false unless all bytes of the member were read, and have the CRC that the directory
 * says. */
bool rgi_zip_stream_end(rg_zip_stream *s, bool whole);
/* Reads the whole member, which has m->bytes bytes, into `to`, and checks its CRC. Returns false on
 * failure. */
bool rgi_zip_read(const rg_zip *z, const rg_zip_member *m, void *to);

/* ---- writing an archive --------------------------------------------------------------- */

/* An archive that is being written. Members are stored uncompressed. 64-bit numbers are used only
 * if a size, an offset or the number of members needs them. */
typedef struct {
    rg_writer file;
    rg_map names;
    char *directory; /* The directory's entries for the members that were begun up to now: n bytes,
                      * in memory for `room` bytes. */
    size_t n, room;
    /* The member that was begun last. `entry` is the offset of its entry in the directory, `bytes`
     * is its size, `put` is how many bytes were put into it up to now, and `crc` is the CRC of the
     * bytes that were put. */
    size_t entry;
    uint64_t bytes, put;
    uint32_t crc;
} rg_zip_writer;

/* Opens a new archive, which has a temporary name in the folder of `path` until rgi_zip_end renames
 * it to `path`. If opening fails, returns false, and there is nothing to end. */
bool rgi_zip_begin(rg_zip_writer *z, const char *op, const char *path);
/* Begins a member of `bytes` bytes; the first of these bytes gets an offset that is a multiple of
 * `alignment`. The following calls of rgi_zip_put and rgi_zip_put_elements must put exactly `bytes`
 * bytes. Fails if the name isn't UTF-8, is longer than 65535 bytes, or is the name of another
 * member. After a failure, this function, rgi_zip_put and rgi_zip_put_elements write nothing, and
 * rgi_zip_end returns false. */
void rgi_zip_member_begin(rg_zip_writer *z, const char *name, uint64_t bytes, size_t alignment);
void rgi_zip_put(rg_zip_writer *z, const void *from, size_t n);
/* Puts t's elements into the member, in row-major order whatever t's strides are. */
void rgi_zip_put_elements(rg_zip_writer *z, const rg_tensor *t);
/* Writes the directory, ends the file and renames it to its path. If any of this fails, or if an
 * earlier call has failed, removes the file and returns false. */
bool rgi_zip_end(rg_zip_writer *z);
void rgi_zip_cancel(rg_zip_writer *z);
