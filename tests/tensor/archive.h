/*
 * archive.h: an archive of two members, made byte by byte, so that a test can change each of them.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* The records of the archive, in their order. ARCHIVE_DATA is the stored bytes of the first member,
 * and ARCHIVE_PACKED the deflated bytes of the second. */
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

/* A member: its name, its bytes in the archive, their number, the number of the inflated bytes, and
 * the CRC of the inflated bytes. */
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
/* Overwrites bytes with the lowest bytes of a number. */
void archive_set(archive *a, size_t at, uint64_t v, size_t bytes);
/* Insert and remove n bytes. */
void archive_insert(archive *a, size_t at, const void *bytes, size_t n);
void archive_remove(archive *a, size_t at, size_t n);
/* Writes the bytes of a text of hexadecimal digits, and returns their number. */
size_t bytes_of_hex(char *to, const char *hex);
