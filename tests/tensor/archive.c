/*
 * archive.c: an archive of two members, made byte by byte.
 */
#include "archive.h"

#include <stdlib.h>
#include <string.h>

void archive_set(archive *a, size_t at, uint64_t v, size_t bytes) {
    for (size_t i = 0; i < bytes; i++)
        a->v[at + i] = (char)(v >> (8 * i));
}

void archive_add(archive *a, uint64_t v, size_t bytes) {
    archive_set(a, a->n, v, bytes);
    a->n += bytes;
}

void archive_insert(archive *a, size_t at, const void *bytes, size_t n) {
    memmove(a->v + at + n, a->v + at, a->n - at);
    memcpy(a->v + at, bytes, n);
    a->n += n;
}

void archive_remove(archive *a, size_t at, size_t n) {
    memmove(a->v + at, a->v + at + n, a->n - at - n);
    a->n -= n;
}

size_t bytes_of_hex(char *to, const char *hex) {
    size_t n = 0;
    for (; hex[2 * n]; n++) {
        const char pair[] = { hex[2 * n], hex[2 * n + 1], 0 };
        to[n] = (char)strtol(pair, NULL, 16);
    }
    return n;
}

static void add_extra(archive *a, const archive_member *m, int numbers, uint64_t place) {
    const uint64_t v[] = { m->inflated, m->n, place };
    archive_add(a, 1, 2);
    archive_add(a, (uint64_t)numbers * 8, 2);
    for (int i = 0; i < numbers; i++)
        archive_add(a, v[i], 8);
}

/* Adds what local headers and entries have in common, from the version on. */
static void add_common(archive *a, const archive_member *m, int method, int wide) {
    archive_add(a, wide ? 45 : 20, 2);
    archive_add(a, 1 << 11, 2);
    archive_add(a, (uint64_t)method, 2);
    archive_add(a, 0, 4);
    archive_add(a, m->crc, 4);
    archive_add(a, wide ? UINT32_MAX : m->n, 4);
    archive_add(a, wide ? UINT32_MAX : m->inflated, 4);
    archive_add(a, strlen(m->name), 2);
}

static void add_text(archive *a, const void *text, size_t n) {
    memcpy(a->v + a->n, text, n);
    a->n += n;
}

static void add_local(archive *a, archive_record r, const archive_member *m, int method, int wide) {
    a->place[r] = a->n;
    archive_add(a, 0x04034B50, 4);
    add_common(a, m, method, wide);
    archive_add(a, wide ? 20 : 0, 2);
    add_text(a, m->name, strlen(m->name));
    if (wide)
        add_extra(a, m, 2, 0);
    a->place[r + 1] = a->n;
    add_text(a, m->bytes, m->n);
}

static void add_entry(archive *a, archive_record r, const archive_member *m, int method, int wide,
                      size_t place) {
    a->place[r] = a->n;
    archive_add(a, 0x02014B50, 4);
    archive_add(a, 45, 2);
    add_common(a, m, method, wide);
    archive_add(a, wide ? 28 : 0, 2);
    archive_add(a, 0, 2 + 2 + 2);
    archive_add(a, 0, 4);
    archive_add(a, wide ? UINT32_MAX : place, 4);
    add_text(a, m->name, strlen(m->name));
    if (wide)
        add_extra(a, m, 3, place);
}

static void add_end64(archive *a, size_t directory) {
    const size_t here = a->n;
    a->place[ARCHIVE_END64] = here;
    archive_add(a, 0x06064B50, 4);
    archive_add(a, 44, 8);
    archive_add(a, 45, 2);
    archive_add(a, 45, 2);
    archive_add(a, 0, 8);
    archive_add(a, 2, 8);
    archive_add(a, 2, 8);
    archive_add(a, here - directory, 8);
    archive_add(a, directory, 8);
    a->place[ARCHIVE_LOCATOR] = a->n;
    archive_add(a, 0x07064B50, 4);
    archive_add(a, 0, 4);
    archive_add(a, here, 8);
    archive_add(a, 1, 4);
}

void make_archive(archive *a, const archive_member *stored, const archive_member *deflated,
                  int wide) {
    memset(a, 0, sizeof *a);
    add_local(a, ARCHIVE_LOCAL, stored, 0, wide);
    add_local(a, ARCHIVE_LOCAL2, deflated, 8, wide);
    const size_t directory = a->n;
    add_entry(a, ARCHIVE_ENTRY, stored, 0, wide, a->place[ARCHIVE_LOCAL]);
    add_entry(a, ARCHIVE_ENTRY2, deflated, 8, wide, a->place[ARCHIVE_LOCAL2]);
    const size_t bytes = a->n - directory;
    if (wide)
        add_end64(a, directory);
    a->place[ARCHIVE_END] = a->n;
    archive_add(a, 0x06054B50, 4);
    archive_add(a, 0, 4);
    archive_add(a, wide ? UINT16_MAX : 2, 2);
    archive_add(a, wide ? UINT16_MAX : 2, 2);
    archive_add(a, wide ? UINT32_MAX : bytes, 4);
    archive_add(a, wide ? UINT32_MAX : directory, 4);
    archive_add(a, 0, 2);
    a->place[ARCHIVE_ALL] = a->n;
}
