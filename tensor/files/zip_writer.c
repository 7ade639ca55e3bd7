/*
 * zip_writer.c: writes zip archives. An archive is written from beginning to end without going
 * back, so a member's CRC is written in a descriptor behind its bytes, and in the directory. All
 * members have the same date, so that the same tensors make the same file.
 */
#include "zip.h"

#include "crc32.h"
#include "utf8.h"
#include "zip_records.h"
#include "tensor/kernels/copy.h"
#include "tensor/memory.h"
#include "tensor/storage.h"

#include <string.h>

enum {
    ZIP_UNIX = 3 << 8,     /* Says that names and permissions are those of Unix. */
    ZIP_VERSION = 20,      /* The version of the zip format that a reader needs. */
    ZIP_VERSION64 = 45,    /* The version that a reader needs for 64-bit numbers. */
    ZIP_DATE = 1 << 5 | 1, /* The date of all members: January 1st, 1980, as in NumPy. */
    ZIP_AT_ONCE = 1 << 18, /* The greatest number of bytes that are checksummed and then written
                            * at a time. So they are still in the cache when they are written. */
};
static const uint32_t ZIP_PERMISSIONS = 0100644u << 16;

/* ---- making records ------------------------------------------------------------------- */

/* A record, or the extra fields of a record, while it is made: the first n bytes of v. */
typedef struct {
    char v[128];
    size_t n;
} zip_record;

static void add_number(zip_record *r, uint64_t v, size_t bytes) {
    for (size_t i = 0; i < bytes; i++)
        r->v[r->n++] = (char)(v >> (8 * i));
}

/* Appends v as a number of 32 bits. If v needs more bits, or is RG_ZIP_WIDE32, appends
 * RG_ZIP_WIDE32, which says that the number is stored elsewhere in 64 bits. */
static void add_narrow(zip_record *r, uint64_t v) {
    add_number(r, RG_MIN(v, (uint64_t)RG_ZIP_WIDE32), 4);
}

static bool is_wide(uint64_t v) { return v >= RG_ZIP_WIDE32; }

static void write_record(rg_zip_writer *z, const zip_record *r) { rgi_write(&z->file, r->v, r->n); }

/* Appends n bytes to the directory, which stays in memory until the archive ends. If memory runs
 * out, sets z->file.failed. */
static void remember(rg_zip_writer *z, const void *from, size_t n) {
    if (rgi_grow((void **)&z->directory, &z->room, z->n + n, 1)) {
        memcpy(z->directory + z->n, from, n);
        z->n += n;
    } else {
        z->file.failed = true;
    }
}

static void fail_archive(rg_zip_writer *z, const char *sentence, const char *name) {
    rgi_fail(RG_VALUE_ERROR, z->file.op, "'%s': %s: \"%s\"", z->file.path, sentence,
             RG_SHOWN(name));
    z->file.failed = true;
}

/* ---- writing members ------------------------------------------------------------------ */

/* Returns the flag RG_ZIP_UTF8 if the name isn't ASCII, otherwise 0. If the name can't be used for
 * a member, also sets *fault to a message that says why. */
static int name_flags(const rg_zip_writer *z, const char *name, const char **fault) {
    const size_t n = strlen(name);
    const char *p = name, *end = name + n;
    int flags = 0;
    uint32_t code;
    for (size_t more = 1; p < end && more > 0; p += more) {
        more = rgi_utf8_read(p, end, &code);
        if (more != 1)
            flags = RG_ZIP_UTF8;
        if (more == 0)
            *fault = "a member's name isn't UTF-8";
    }
    if (n > UINT16_MAX)
        *fault = "a member's name is longer than an archive can have it";
    if (rgi_map_name(&z->names, name) >= 0)
        *fault = "two members have one name";
    return flags;
}

/* Writes the member's local header. Its extra fields make room for 64-bit sizes, if the member
 * needs them, and align the member's bytes. */
static void write_local(rg_zip_writer *z, const char *name, int flags, uint64_t bytes,
                        size_t alignment) {
    const bool wide = is_wide(bytes);
    const size_t n = strlen(name);
    zip_record local = { .n = 0 }, extra = { .n = 0 };
    if (wide) {
        add_number(&extra, RG_ZIP_EXTRA64, 2);
        add_number(&extra, 16, 2);
        add_number(&extra, 0, 8);
        add_number(&extra, 0, 8);
    }
    const uint64_t at = z->file.bytes + RG_ZIP_LOCAL_BYTES + n + extra.n;
    size_t pad = (size_t)((alignment - at % alignment) % alignment);
    while (pad > 0 && pad < 4)
        pad += alignment;
    add_number(&local, RG_ZIP_LOCAL, 4);
    add_number(&local, wide ? ZIP_VERSION64 : ZIP_VERSION, 2);
    add_number(&local, (uint64_t)flags, 2);
    add_number(&local, RG_ZIP_STORED, 2);
    add_number(&local, 0, 2);
    add_number(&local, ZIP_DATE, 2);
    add_number(&local, 0, 4);
    add_number(&local, wide ? RG_ZIP_WIDE32 : 0, 4);
    add_number(&local, wide ? RG_ZIP_WIDE32 : 0, 4);
    add_number(&local, n, 2);
    add_number(&local, extra.n + pad, 2);
    write_record(z, &local);
    rgi_write(&z->file, name, n);
    write_record(z, &extra);
    if (pad > 0) {
        /* PyTorch pads by an extra field with this id. */
        zip_record padding = { .v = "FB", .n = 2 };
        add_number(&padding, pad - 4, 2);
        write_record(z, &padding);
        rgi_write_zeros_to(&z->file, alignment);
    }
}

/* Appends the member's entry to the directory. The CRC isn't known yet: end_member fills it in. */
static void remember_entry(rg_zip_writer *z, const char *name, int flags, uint64_t bytes,
                           uint64_t at) {
    zip_record entry = { .n = 0 }, extra = { .n = 0 };
    if (is_wide(bytes) || is_wide(at)) {
        add_number(&extra, RG_ZIP_EXTRA64, 2);
        add_number(&extra, (is_wide(bytes) ? 16 : 0) + (is_wide(at) ? 8 : 0), 2);
    }
    if (is_wide(bytes)) {
        add_number(&extra, bytes, 8);
        add_number(&extra, bytes, 8);
    }
    if (is_wide(at))
        add_number(&extra, at, 8);
    add_number(&entry, RG_ZIP_ENTRY, 4);
    add_number(&entry, ZIP_UNIX | ZIP_VERSION64, 2);
    add_number(&entry, extra.n ? ZIP_VERSION64 : ZIP_VERSION, 2);
    add_number(&entry, (uint64_t)flags, 2);
    add_number(&entry, RG_ZIP_STORED, 2);
    add_number(&entry, 0, 2);
    add_number(&entry, ZIP_DATE, 2);
    add_number(&entry, 0, 4);
    add_narrow(&entry, bytes);
    add_narrow(&entry, bytes);
    add_number(&entry, strlen(name), 2);
    add_number(&entry, extra.n, 2);
    add_number(&entry, 0, 2 + 2 + 2);
    add_number(&entry, ZIP_PERMISSIONS, 4);
    add_narrow(&entry, at);
    z->entry = z->n;
    remember(z, entry.v, entry.n);
    remember(z, name, strlen(name));
    remember(z, extra.v, extra.n);
}

/* Ends the member that was begun last, if there is one: writes its CRC behind its bytes, and into
 * its entry in the directory. Fails if rgi_zip_put was given more or fewer bytes than
 * rgi_zip_member_begin was told. */
static void end_member(rg_zip_writer *z) {
    if (z->n == 0 || z->file.failed)
        return;
    if (z->put != z->bytes) {
        rgi_fail(RG_RUNTIME_ERROR, z->file.op, "'%s': %llu bytes were put into a member of %llu",
                 z->file.path, (unsigned long long)z->put, (unsigned long long)z->bytes);
        z->file.failed = true;
        return;
    }
    zip_record crc = { .n = 0 }, descriptor = { .n = 0 };
    add_number(&crc, z->crc, 4);
    memcpy(z->directory + z->entry + 16, crc.v, 4);
    const size_t size = is_wide(z->bytes) ? 8 : 4;
    add_number(&descriptor, RG_ZIP_DESCRIPTOR, 4);
    add_number(&descriptor, z->crc, 4);
    add_number(&descriptor, z->bytes, size);
    add_number(&descriptor, z->bytes, size);
    write_record(z, &descriptor);
}

void rgi_zip_member_begin(rg_zip_writer *z, const char *name, uint64_t bytes, size_t alignment) {
    end_member(z);
    if (z->file.failed)
        return;
    const char *fault = NULL;
    const int flags = RG_ZIP_DESCRIBED | name_flags(z, name, &fault);
    if (fault) {
        fail_archive(z, fault, name);
        return;
    }
    if (!rgi_map_put_name(&z->names, name, 0))
        z->file.failed = true;
    remember_entry(z, name, flags, bytes, z->file.bytes);
    write_local(z, name, flags, bytes, alignment);
    z->bytes = bytes;
    z->put = 0;
    z->crc = 0;
}

void rgi_zip_put(rg_zip_writer *z, const void *from, size_t n) {
    z->put += n;
    for (size_t part; n > 0 && !z->file.failed; n -= part) {
        part = RG_MIN(n, (size_t)ZIP_AT_ONCE);
        z->crc = rgi_crc32(z->crc, from, part);
        rgi_write(&z->file, from, part);
        from = (const char *)from + part;
    }
}

void rgi_zip_put_elements(rg_zip_writer *z, const rg_tensor *t) {
    if (t->flags & RG_CONTIGUOUS || z->file.failed) {
        rgi_zip_put(z, t->data, rgi_bytes_of(t));
        return;
    }
    rg_tensor *copy = rgi_new_like(t, (rg_dtype)t->dtype);
    if (copy) {
        rgi_copy_elements(copy, t);
        rgi_zip_put(z, copy->data, rgi_bytes_of(copy));
    } else {
        z->file.failed = true;
    }
    rgi_release(copy);
}

/* ---- beginning and ending an archive -------------------------------------------------- */

bool rgi_zip_begin(rg_zip_writer *z, const char *op, const char *path) {
    *z = (rg_zip_writer){ .n = 0 };
    return rgi_writer_begin(&z->file, op, path);
}

static void free_directory(rg_zip_writer *z) {
    rgi_map_free(&z->names);
    rgi_free(z->directory, z->room, RG_MEM_OTHER);
    z->directory = NULL;
    z->n = z->room = 0;
}

/* Writes the 64-bit end record, and then the locator, which has the offset of the 64-bit end
 * record. The directory begins at offset `at`. */
static void write_end64(rg_zip_writer *z, uint64_t members, uint64_t at) {
    const uint64_t here = z->file.bytes;
    zip_record r = { .n = 0 };
    add_number(&r, RG_ZIP_END64, 4);
    add_number(&r, RG_ZIP_END64_BYTES - 12, 8);
    add_number(&r, ZIP_VERSION64, 2);
    add_number(&r, ZIP_VERSION64, 2);
    add_number(&r, 0, 4 + 4);
    add_number(&r, members, 8);
    add_number(&r, members, 8);
    add_number(&r, z->n, 8);
    add_number(&r, at, 8);
    add_number(&r, RG_ZIP_LOCATOR, 4);
    add_number(&r, 0, 4);
    add_number(&r, here, 8);
    add_number(&r, 1, 4);
    write_record(z, &r);
}

static void write_end(rg_zip_writer *z, uint64_t members, uint64_t at) {
    const uint64_t narrow = RG_MIN(members, (uint64_t)RG_ZIP_WIDE16);
    zip_record r = { .n = 0 };
    add_number(&r, RG_ZIP_END, 4);
    add_number(&r, 0, 2 + 2);
    add_number(&r, narrow, 2);
    add_number(&r, narrow, 2);
    add_narrow(&r, z->n);
    add_narrow(&r, at);
    add_number(&r, 0, 2);
    write_record(z, &r);
}

bool rgi_zip_end(rg_zip_writer *z) {
    end_member(z);
    const uint64_t members = rgi_map_names(&z->names), at = z->file.bytes;
    rgi_write(&z->file, z->directory, z->n);
    if (members >= RG_ZIP_WIDE16 || is_wide(z->n) || is_wide(at))
        write_end64(z, members, at);
    write_end(z, members, at);
    free_directory(z);
    return rgi_writer_end(&z->file);
}

void rgi_zip_cancel(rg_zip_writer *z) {
    free_directory(z);
    rgi_writer_cancel(&z->file);
}
