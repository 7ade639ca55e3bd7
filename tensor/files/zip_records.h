/*
 * zip_records.h: the records of a zip archive, as PKWARE's APPNOTE.TXT describes them. Numbers in
 * them are little-endian on every machine.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* RG_ZIP_LOCAL, for example, is the number in the first four bytes of such a record, and
 * RG_ZIP_LOCAL_BYTES is the size of the record, without names and extra fields. */
enum {
    RG_ZIP_LOCAL = 0x04034B50, /* The record before a member's bytes. */
    RG_ZIP_LOCAL_BYTES = 30,
    RG_ZIP_DESCRIPTOR = 0x08074B50, /* The record behind a member's bytes. */
    RG_ZIP_ENTRY = 0x02014B50,      /* A member's entry in the directory. */
    RG_ZIP_ENTRY_BYTES = 46,
    RG_ZIP_END64 = 0x06064B50, /* The records behind the directory are RG_ZIP_END64 and
                                * RG_ZIP_LOCATOR, if the archive needs 64-bit numbers, and
                                * RG_ZIP_END. */
    RG_ZIP_END64_BYTES = 56,
    RG_ZIP_LOCATOR = 0x07064B50,
    RG_ZIP_LOCATOR_BYTES = 20,
    RG_ZIP_END = 0x06054B50,
    RG_ZIP_END_BYTES = 22,
};

enum {
    RG_ZIP_ENCRYPTED = 1,
    RG_ZIP_DESCRIBED = 8, /* The sizes and the CRC are in a descriptor behind the member, not in its
                           * local header. */
    RG_ZIP_UTF8 = 1 << 11,
    RG_ZIP_STORED = 0,
    RG_ZIP_DEFLATED = 8,
    RG_ZIP_EXTRA64 = 1, /* The id of the extra field that has 64-bit numbers. */
};

/* A field of 16 or 32 bits with this value means that the number itself is stored elsewhere in the
 * archive, in 64 bits. */
static const uint16_t RG_ZIP_WIDE16 = 0xFFFF;
static const uint32_t RG_ZIP_WIDE32 = 0xFFFFFFFF;

static inline uint64_t rgi_zip_number(const char *p, size_t bytes) {
    uint64_t v = 0;
    for (size_t i = 0; i < bytes; i++)
        v |= (uint64_t)(unsigned char)p[i] << (8 * i);
    return v;
}
static inline uint16_t rgi_zip_16(const char *p) { return (uint16_t)rgi_zip_number(p, 2); }
static inline uint32_t rgi_zip_32(const char *p) { return (uint32_t)rgi_zip_number(p, 4); }
static inline uint64_t rgi_zip_64(const char *p) { return rgi_zip_number(p, 8); }
