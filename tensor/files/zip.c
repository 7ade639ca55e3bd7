/*
 * zip.c: opens zip archives, and reads their members. An archive is refused if two programs might
 * read it differently, because such an archive may be crafted to deceive one of these programs.
 */
#include "zip.h"

#include "crc32.h"
#include "inflate.h"
#include "utf8.h"
#include "zip_records.h"
#include "tensor/memory.h"
#include "tensor/scope.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- error messages -------------------------------------------------------------------------- */

/* Fails with a message about a member. Returns false. */
static bool refuse_member(const rg_zip *z, const rg_zip_member *m, const char *format, ...)
    __attribute__((format(printf, 3, 4), cold));
static bool refuse_member(const rg_zip *z, const rg_zip_member *m, const char *format, ...) {
    char sentence[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    return rgi_file_refuse(&z->file, "member \"%s\": %s", RG_SHOWN(m->name), sentence);
}

/* ---- the records at the end ------------------------------------------------------------------ */

/* The contents of the end records. The directory has n entries, in `bytes` bytes that begin at
 * offset `at` of the file. The end records begin at offset `stop`. */
typedef struct {
    uint64_t n, bytes, at, stop;
} zip_end;

/* Finds the end record, which is the last record of the file, and which may end with a comment.
 * Copies the record, without the comment, into `record`, and sets end->stop to the record's offset.
 * Fails if there is no end record, or more than one. */
static bool find_end(const rg_zip *z, zip_end *end, char record[RG_ZIP_END_BYTES]) {
    RG_SCOPE();
    const uint64_t all = z->file.bytes;
    const size_t n = (size_t)RG_MIN(all, (uint64_t)RG_ZIP_END_BYTES + UINT16_MAX);
    if (n < RG_ZIP_END_BYTES)
        return rgi_file_refuse(&z->file, "it is no zip archive: it has %llu bytes",
                               (unsigned long long)all);
    char *tail = rgi_scope_alloc(n);
    if (!tail || !rgi_file_read(&z->file, all - n, tail, n))
        return false;
    int found = 0;
    for (size_t at = n - RG_ZIP_END_BYTES + 1; at-- > 0;) {
        if (tail[at] != 'P' || rgi_zip_32(tail + at) != RG_ZIP_END
            || at + RG_ZIP_END_BYTES + rgi_zip_16(tail + at + 20) != n)
            continue;
        if (found++)
            return rgi_file_refuse(&z->file, "it has two end records");
        memcpy(record, tail + at, RG_ZIP_END_BYTES);
        end->stop = all - n + at;
    }
    return found || rgi_file_refuse(&z->file, "it is no zip archive: it has no end record");
}

/* Returns whether a number of the end record agrees with `wide`, the same number in the 64-bit
 * record. In the end record, the number has `bytes` bytes, at `small`. The numbers agree if they
 * are equal. They also agree if all bits at `small` are set, which means that only the 64-bit
 * record has the number. */
static bool agrees(const char *small, size_t bytes, uint64_t wide) {
    const uint64_t v = rgi_zip_number(small, bytes);
    return v == wide || v == (bytes == 2 ? RG_ZIP_WIDE16 : RG_ZIP_WIDE32);
}

/* Returns whether the numbers in the end record, `small`, agree with those in the 64-bit end
 * record, `end`; otherwise fails. `here` is the number of members on this disk, as the 64-bit
 * record says. */
static bool ends_agree(const rg_zip *z, const zip_end *end, const char *small, uint64_t here) {
    const struct {
        const char *what;
        size_t at, bytes;
        uint64_t wide;
    } fields[] = {
        { "the disk's number", 4, 2, 0 },
        { "the number of the directory's disk", 6, 2, 0 },
        { "how many members are on this disk", 8, 2, here },
        { "how many members there are", 10, 2, end->n },
        { "the directory's bytes", 12, 4, end->bytes },
        { "the directory's place", 16, 4, end->at },
    };
    if (here != end->n)
        return rgi_file_refuse(&z->file, "it is a part of an archive on several disks");
    for (int i = 0; i < RG_COUNT(fields); i++)
        if (!agrees(small + fields[i].at, fields[i].bytes, fields[i].wide))
            return rgi_file_refuse(&z->file, "its end record and the 64-bit one don't agree in %s",
                                   fields[i].what);
    return true;
}

/* If there is a 64-bit end record, reads it into *end, and checks that the end record `small`
 * agrees with it. Returns false on failure. */
static bool read_end64(const rg_zip *z, zip_end *end, const char *small) {
    char locator[RG_ZIP_LOCATOR_BYTES], wide[RG_ZIP_END64_BYTES];
    if (end->stop < sizeof locator)
        return true;
    const uint64_t stop = end->stop - sizeof locator;
    if (!rgi_file_read(&z->file, stop, locator, sizeof locator))
        return false;
    if (rgi_zip_32(locator) != RG_ZIP_LOCATOR)
        return true;
    const uint64_t at = rgi_zip_64(locator + 8);
    if (rgi_zip_32(locator + 4) != 0 || rgi_zip_32(locator + 16) > 1)
        return rgi_file_refuse(&z->file, "it is a part of an archive on several disks");
    if (at > stop || stop - at < sizeof wide)
        return rgi_file_refuse(&z->file, "its 64-bit end record can't lie at byte %llu",
                               (unsigned long long)at);
    if (!rgi_file_read(&z->file, at, wide, sizeof wide))
        return false;
    if (rgi_zip_32(wide) != RG_ZIP_END64 || rgi_zip_64(wide + 4) != stop - at - 12)
        return rgi_file_refuse(&z->file, "it has no 64-bit end record at byte %llu",
                               (unsigned long long)at);
    if (rgi_zip_32(wide + 16) || rgi_zip_32(wide + 20))
        return rgi_file_refuse(&z->file, "it is a part of an archive on several disks");
    *end = (zip_end){ .n = rgi_zip_64(wide + 32),
                      .bytes = rgi_zip_64(wide + 40),
                      .at = rgi_zip_64(wide + 48),
                      .stop = at };
    return ends_agree(z, end, small, rgi_zip_64(wide + 24));
}

static bool read_end(const rg_zip *z, zip_end *end) {
    char small[RG_ZIP_END_BYTES];
    if (!find_end(z, end, small))
        return false;
    end->n = rgi_zip_16(small + 10);
    end->bytes = rgi_zip_32(small + 12);
    end->at = rgi_zip_32(small + 16);
    const uint64_t stop = end->stop;
    if (!read_end64(z, end, small))
        return false;
    if (end->stop == stop && (rgi_zip_32(small + 4) || rgi_zip_16(small + 8) != end->n))
        return rgi_file_refuse(&z->file, "it is a part of an archive on several disks");
    if (end->at > end->stop || end->bytes != end->stop - end->at)
        return rgi_file_refuse(&z->file,
                               "its directory should end at byte %llu, but has %llu bytes from "
                               "byte %llu on",
                               (unsigned long long)end->stop, (unsigned long long)end->bytes,
                               (unsigned long long)end->at);
    if (end->n > end->bytes / RG_ZIP_ENTRY_BYTES)
        return rgi_file_refuse(&z->file, "its directory has %llu bytes, too few for %llu members",
                               (unsigned long long)end->bytes, (unsigned long long)end->n);
    return true;
}

/* ---- reading the directory ------------------------------------------------------------ */

/* Completes numbers that were read from fields of 32 bits; v[i] points to the i-th of the n_v
 * numbers. If all 32 bits of a number are set, it is a placeholder, and is replaced by a number of
 * 64 bits. The zip64 extra field has these numbers, in the order of v, for the placeholders only.
 * `extra` points to all extra fields, which take n bytes. Returns NULL on success, otherwise a
 * message that says what is wrong. */
static const char *widen(const char *extra, size_t n, uint64_t *const v[], int n_v) {
    bool wide = false;
    for (int i = 0; i < n_v; i++)
        wide |= *v[i] == RG_ZIP_WIDE32;
    bool found = false;
    while (n >= 4) {
        const uint16_t id = rgi_zip_16(extra), bytes = rgi_zip_16(extra + 2);
        extra += 4;
        n -= 4;
        if (bytes > n)
            return "its extra fields are longer than said";
        const char *next = extra;
        for (int i = 0; id == RG_ZIP_EXTRA64 && i < n_v; i++) {
            if (found)
                return "it has two 64-bit extra fields";
            if (*v[i] != RG_ZIP_WIDE32)
                continue;
            if (extra + bytes - next < 8)
                return "its 64-bit extra field is too short";
            *v[i] = rgi_zip_64(next);
            next += 8;
        }
        found |= id == RG_ZIP_EXTRA64;
        extra += bytes;
        n -= bytes;
    }
    return wide && !found ? "it has no 64-bit extra field" : NULL;
}

/* Returns NULL if the name is valid, otherwise what is wrong with it, such as "is no UTF-8". */
static const char *name_fault(const char *name, size_t n, bool utf8) {
    const char *end = name + n;
    uint32_t code;
    for (size_t more; name < end; name += more) {
        more = rgi_utf8_read(name, end, &code);
        if (more > 1 && !utf8)
            return "is neither ASCII nor said to be UTF-8";
        if (more == 0)
            return utf8 ? "is no UTF-8" : "is neither ASCII nor said to be UTF-8";
        if (code == 0)
            return "has a 0 in it";
    }
    return NULL;
}

/* Returns whether the member can be read: it isn't encrypted or on another disk, its method of
 * compression is known, and its sizes are plausible; otherwise fails. */
static bool check_entry(const rg_zip *z, const rg_zip_member *m, const char *entry) {
    const uint16_t flags = rgi_zip_16(entry + 8), method = rgi_zip_16(entry + 10);
    if (flags & RG_ZIP_ENCRYPTED)
        return refuse_member(z, m, "it is encrypted");
    if (method != RG_ZIP_STORED && method != RG_ZIP_DEFLATED)
        return refuse_member(z, m, "it is compressed by method %u; 0 and 8 can be read", method);
    if (rgi_zip_16(entry + 34))
        return refuse_member(z, m, "it lies on another disk");
    if (!m->deflated && m->packed != m->bytes)
        return refuse_member(z, m, "it is stored, but takes %llu bytes for %llu",
                             (unsigned long long)m->packed, (unsigned long long)m->bytes);
    if (m->bytes / RG_INFLATE_MOST > m->packed)
        return refuse_member(z, m, "%llu bytes can't be inflated to %llu",
                             (unsigned long long)m->packed, (unsigned long long)m->bytes);
    return true;
}

/* Reads the directory's entry for member i, which is at offset *at of the directory, and adds the
 * entry's size to *at. Returns false on failure. */
static bool read_directory_entry(rg_zip *z, size_t i, size_t *at) {
    char *entry = z->directory + *at;
    const size_t left = z->directory_bytes - *at;
    if (left < RG_ZIP_ENTRY_BYTES || rgi_zip_32(entry) != RG_ZIP_ENTRY)
        return rgi_file_refuse(&z->file, "its directory has no entry for member %zu", i);
    const size_t name = rgi_zip_16(entry + 28), extra = rgi_zip_16(entry + 30);
    const size_t all = RG_ZIP_ENTRY_BYTES + name + extra + rgi_zip_16(entry + 32);
    if (all > left)
        return rgi_file_refuse(&z->file, "its directory is too short for member %zu", i);
    char *text = entry + RG_ZIP_ENTRY_BYTES;
    const char *fault = name_fault(text, name, rgi_zip_16(entry + 8) & RG_ZIP_UTF8);
    if (fault)
        return rgi_file_refuse(&z->file, "the name of member %zu %s", i, fault);
    rg_zip_member *m = &z->v[i];
    *m = (rg_zip_member){ .name = text - 1,
                          .at = rgi_zip_32(entry + 42),
                          .packed = rgi_zip_32(entry + 20),
                          .bytes = rgi_zip_32(entry + 24),
                          .crc = rgi_zip_32(entry + 16),
                          .described = rgi_zip_16(entry + 8) & RG_ZIP_DESCRIBED,
                          .deflated = rgi_zip_16(entry + 10) == RG_ZIP_DEFLATED };
    fault = widen(text + name, extra, (uint64_t *[]){ &m->bytes, &m->packed, &m->at }, 3);
    /* The name is moved one byte towards the beginning, over a byte that was read already, so that
     * there is room for a 0 behind the name. */
    memmove(text - 1, text, name);
    (text - 1)[name] = 0;
    *at += all;
    if (fault)
        return refuse_member(z, m, "%s", fault);
    if (rgi_map_name(&z->names, m->name) >= 0)
        return refuse_member(z, m, "it comes twice");
    return check_entry(z, m, entry) && rgi_map_put_name(&z->names, m->name, (int64_t)i);
}

static bool read_directory(rg_zip *z, const zip_end *end) {
    if (end->bytes >= SIZE_MAX || end->n > SIZE_MAX / sizeof *z->v)
        return rgi_fail(RG_OUT_OF_MEMORY, z->file.op, "the directory is too large");
    z->directory_bytes = (size_t)end->bytes;
    z->directory = rgi_alloc(z->directory_bytes + 1, RG_MEM_OTHER);
    z->room = (size_t)end->n;
    z->v = rgi_alloc((z->room + 1) * sizeof *z->v, RG_MEM_OTHER);
    if (!z->directory || !z->v
        || !rgi_file_read(&z->file, end->at, z->directory, z->directory_bytes))
        return false;
    size_t at = 0;
    for (; z->n < z->room; z->n++)
        if (!read_directory_entry(z, z->n, &at))
            return false;
    return at == z->directory_bytes
           || rgi_file_refuse(&z->file,
                              "its directory has %zu bytes more than its %zu members take",
                              z->directory_bytes - at, z->n);
}

/* ---- checking local headers ----------------------------------------------------------- */

/* Returns whether the sizes and the CRC in a local header are those in the directory; otherwise
 * fails. If m->described is set, the local header may have zeros in place of them, because a
 * descriptor behind the member has the sizes and the CRC. */
static bool check_sizes(const rg_zip *z, const rg_zip_member *m, const char *local) {
    RG_SCOPE();
    uint64_t packed = rgi_zip_32(local + 18), bytes = rgi_zip_32(local + 22);
    const uint32_t crc = rgi_zip_32(local + 14);
    if (m->described && crc == 0 && packed == 0 && bytes == 0)
        return true;
    if (packed == RG_ZIP_WIDE32 || bytes == RG_ZIP_WIDE32) {
        const size_t n = rgi_zip_16(local + 28);
        char *extra = rgi_scope_alloc(n);
        if (!extra || !rgi_file_read(&z->file, m->data - n, extra, n))
            return false;
        const char *fault = widen(extra, n, (uint64_t *[]){ &bytes, &packed }, 2);
        if (fault)
            return refuse_member(z, m, "in its local header, %s", fault);
        if (m->described && crc == 0 && packed == 0 && bytes == 0)
            return true;
    }
    if (packed != m->packed || bytes != m->bytes)
        return refuse_member(z, m, "its local header says %llu bytes for %llu, not %llu for %llu",
                             (unsigned long long)packed, (unsigned long long)bytes,
                             (unsigned long long)m->packed, (unsigned long long)m->bytes);
    if (crc != m->crc && !(m->described && crc == 0))
        return refuse_member(z, m, "its local header has the CRC %08lx, not %08lx",
                             (unsigned long)crc, (unsigned long)m->crc);
    return true;
}

/* Checks a member's local header, and sets m->data to the offset of its bytes. Fails if the
 * member's bytes reach beyond offset `stop`, at which the directory begins. Returns false on
 * failure. */
static bool read_local(rg_zip *z, rg_zip_member *m, uint64_t stop) {
    RG_SCOPE();
    const size_t name = strlen(m->name), n = RG_ZIP_LOCAL_BYTES + name;
    char *local = rgi_scope_alloc(n);
    if (!local)
        return false;
    if (m->at > stop || stop - m->at < n)
        return refuse_member(z, m, "it can't begin at byte %llu", (unsigned long long)m->at);
    if (!rgi_file_read(&z->file, m->at, local, n))
        return false;
    if (rgi_zip_32(local) != RG_ZIP_LOCAL)
        return refuse_member(z, m, "it has no local header at byte %llu",
                             (unsigned long long)m->at);
    if (rgi_zip_16(local + 26) != name || memcmp(local + RG_ZIP_LOCAL_BYTES, m->name, name))
        return refuse_member(z, m, "its local header has another name");
    if (rgi_zip_16(local + 8) != (m->deflated ? RG_ZIP_DEFLATED : RG_ZIP_STORED))
        return refuse_member(z, m, "its local header has another method");
    const uint16_t flags = rgi_zip_16(local + 6);
    if ((flags & RG_ZIP_ENCRYPTED) || !(flags & RG_ZIP_DESCRIBED) != !m->described)
        return refuse_member(z, m, "its local header has other flags");
    m->data = m->at + n + rgi_zip_16(local + 28);
    if (m->data > stop || m->packed > stop - m->data)
        return refuse_member(z, m,
                             "its %llu bytes from byte %llu on don't end before the "
                             "directory, at byte %llu",
                             (unsigned long long)m->packed, (unsigned long long)m->data,
                             (unsigned long long)stop);
    return check_sizes(z, m, local);
}

static int zip_by_place(const void *a, const void *b) {
    const rg_zip_member *x = *(const rg_zip_member *const *)a;
    const rg_zip_member *y = *(const rg_zip_member *const *)b;
    return x->at < y->at ? -1 : x->at > y->at;
}

/* Fails and returns false if members overlap, or if memory runs out. If members were allowed to
 * overlap, a small archive could be inflated to a huge amount of data. */
static bool check_overlaps(const rg_zip *z) {
    RG_SCOPE();
    const rg_zip_member **order = rgi_scope_alloc(z->n * sizeof *order);
    if (!order)
        return false;
    for (size_t i = 0; i < z->n; i++)
        order[i] = &z->v[i];
    qsort(order, z->n, sizeof *order, zip_by_place);
    for (size_t i = 1; i < z->n; i++)
        if (order[i - 1]->data + order[i - 1]->packed > order[i]->at)
            return refuse_member(z, order[i], "it begins at byte %llu, in another member",
                                 (unsigned long long)order[i]->at);
    return true;
}

/* ---- opening and closing archives ----------------------------------------------------- */

bool rgi_zip_open(rg_zip *z, const char *op, const char *path) {
    *z = (rg_zip){ 0 };
    rg_file file;
    return rgi_file_open(&file, op, path) && rgi_zip_of(z, file);
}

bool rgi_zip_of(rg_zip *z, rg_file file) {
    *z = (rg_zip){ .file = file };
    zip_end end = { 0 };
    bool ok = read_end(z, &end) && read_directory(z, &end);
    for (size_t i = 0; ok && i < z->n; i++)
        ok = read_local(z, &z->v[i], end.at);
    ok = ok && check_overlaps(z);
    if (!ok)
        rgi_zip_close(z);
    return ok;
}

void rgi_zip_close(rg_zip *z) {
    rgi_file_close(&z->file);
    rgi_map_free(&z->names);
    rgi_free(z->v, (z->room + 1) * sizeof *z->v, RG_MEM_OTHER);
    rgi_free(z->directory, z->directory_bytes + 1, RG_MEM_OTHER);
    *z = (rg_zip){ .file.fd = -1 };
}

const rg_zip_member *rgi_zip_find(const rg_zip *z, const char *name) {
    const int64_t i = rgi_map_name(&z->names, name);
    return i < 0 ? NULL : &z->v[i];
}

/* ---- reading members ------------------------------------------------------------------ */

struct rg_zip_stream {
    const rg_zip *z;
    const rg_zip_member *m;
    uint64_t read; /* The number of bytes that were read up to now. */
    uint32_t crc;  /* The CRC of these bytes. */
    rg_inflate *inflate;
    char what[160]; /* The name for error messages, such as: member "weight.npy" */
};

rg_zip_stream *rgi_zip_stream(const rg_zip *z, const rg_zip_member *m) {
    rg_zip_stream *s = rgi_alloc(sizeof *s, RG_MEM_OTHER);
    if (!s)
        return NULL;
    *s = (rg_zip_stream){ .z = z, .m = m };
    snprintf(s->what, sizeof s->what, "member \"%s\"", RG_SHOWN(m->name));
    if (!m->deflated)
        return s;
    s->inflate = rgi_alloc(sizeof *s->inflate, RG_MEM_OTHER);
    if (s->inflate) {
        rgi_inflate_begin(s->inflate, &z->file, m->data, m->packed, s->what);
        return s;
    }
    rgi_free(s, sizeof *s, RG_MEM_OTHER);
    return NULL;
}

bool rgi_zip_stream_read(rg_zip_stream *s, void *to, size_t n) {
    if (n > s->m->bytes - s->read)
        return rgi_file_refuse(&s->z->file, "%s: it has %llu bytes, and more are needed", s->what,
                               (unsigned long long)s->m->bytes);
    /* Reads in parts, so that each part is still in the cache when its CRC is computed. */
    for (size_t part; n > 0; n -= part) {
        part = RG_MIN(n, (size_t)1 << 18);
        if (s->inflate ? !rgi_inflate_read(s->inflate, to, part)
                       : !rgi_file_read(&s->z->file, s->m->data + s->read, to, part))
            return false;
        s->crc = rgi_crc32(s->crc, to, part);
        s->read += part;
        to = (char *)to + part;
    }
    return true;
}

static bool check_stream(rg_zip_stream *s) {
    if (s->read < s->m->bytes)
        return rgi_file_refuse(&s->z->file, "%s: %llu bytes follow the %llu that belong to it",
                               s->what, (unsigned long long)(s->m->bytes - s->read),
                               (unsigned long long)s->read);
    if (s->inflate && !rgi_inflate_end(s->inflate))
        return false;
    return s->crc == s->m->crc
           || rgi_file_refuse(&s->z->file,
                              "%s: its bytes have the CRC %08lx, and the archive says %08lx",
                              s->what, (unsigned long)s->crc, (unsigned long)s->m->crc);
}

bool rgi_zip_stream_end(rg_zip_stream *s, bool whole) {
    const bool ok = !whole || check_stream(s);
    rgi_free(s->inflate, sizeof *s->inflate, RG_MEM_OTHER);
    rgi_free(s, sizeof *s, RG_MEM_OTHER);
    return ok;
}

bool rgi_zip_read(const rg_zip *z, const rg_zip_member *m, void *to) {
    rg_zip_stream *s = rgi_zip_stream(z, m);
    if (!s)
        return false;
    const bool ok = rgi_zip_stream_read(s, to, (size_t)m->bytes);
    return rgi_zip_stream_end(s, ok) && ok;
}
