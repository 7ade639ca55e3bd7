/*
 * archive.h: an archive of two members, made byte by byte, so that a test can change each of them.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Its records, in their order. ARCHIVE_DATA is what the first member stores, and ARCHIVE_PACKED
 * what the second one deflates. */
typedef enum {
    ARCHIVE_LOCAL,
    ARCHIVE_DATA,
    ARCHIVE_LOCAL2,
    ARCHIVE_PACKED,
    ARCHIVE_ENTRY,
    ARCHIVE_ENTRY2,
    ARCHIVE_END64,
    ARCHIVE_LOCATOR,
    ARCHIVE_END,
    ARCHIVE_ALL
} archive_record;

typedef struct {
    char v[2048];
    size_t n, place[ARCHIVE_ALL + 1];
} archive;

/* Each member has a name, bytes, and the CRC and the number of what they inflate to. */
typedef struct {
    const char *name;
    const void *bytes;
    size_t n, inflated;
    uint32_t crc;
} archive_member;

/* Makes an archive of a stored and a deflated member. If `wide`, all numbers take 64 bits. */
void make_archive(archive *a, const archive_member *stored, const archive_member *deflated,
                  int wide);
/* Adds the lowest bytes of a number. */
void archive_add(archive *a, uint64_t v, size_t bytes);
/* Writes them over what stands there. */
void archive_set(archive *a, size_t at, uint64_t v, size_t bytes);
/* Puts n bytes in, or takes them out. */
void archive_insert(archive *a, size_t at, const void *bytes, size_t n);
void archive_remove(archive *a, size_t at, size_t n);
/* Writes the bytes that hexadecimal digits stand for, and returns how many there are. */
size_t bytes_of_hex(char *to, const char *hex);
