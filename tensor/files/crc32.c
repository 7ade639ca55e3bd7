/*
 * crc32.c: computes the CRC-32 of IEEE 802.3. The bytes are taken as a polynomial, which is divided
 * by the standard's polynomial. The checksum is the remainder with all bits inverted. The first 32
 * bits of the data are inverted as well, as the standard says. Sixteen bytes at a time are looked
 * up in tables, so that the check takes less time than reading the file.
 */
#include "crc32.h"

#include "tensor/threads/lock.h"

#include <stdbool.h>

enum { CRC_AT_ONCE = 16 };

/* Entry b of table k is the remainder of a sequence of bytes: byte b, and then k bytes of 0. */
static uint32_t crc_tables[CRC_AT_ONCE][256];

static void make_crc_tables(void) {
    for (uint32_t b = 0; b < 256; b++) {
        uint32_t r = b;
        for (int bit = 0; bit < 8; bit++)
            r = r >> 1 ^ (r & 1 ? 0xEDB88320 : 0);
        crc_tables[0][b] = r;
    }
    for (int k = 1; k < CRC_AT_ONCE; k++)
        for (int b = 0; b < 256; b++) {
            uint32_t r = crc_tables[k - 1][b];
            crc_tables[k][b] = r >> 8 ^ crc_tables[0][r & 0xFF];
        }
}

/* Returns the remainder of a sequence of bytes: the four bytes of `four`, the lowest first, and
 * then `behind` bytes of 0. */
static inline uint32_t crc_of_four(uint32_t four, int behind) {
    return crc_tables[behind + 3][four & 0xFF] ^ crc_tables[behind + 2][four >> 8 & 0xFF]
           ^ crc_tables[behind + 1][four >> 16 & 0xFF] ^ crc_tables[behind][four >> 24];
}

static inline uint32_t four_bytes(const unsigned char *p) {
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

uint32_t rgi_crc32(uint32_t crc, const void *bytes, size_t n) {
    static bool made;
    rgi_lock(RG_LOCK_TABLES);
    if (!made) {
        make_crc_tables();
        made = true;
    }
    rgi_unlock(RG_LOCK_TABLES);
    const unsigned char *p = bytes;
    uint32_t r = ~crc;
    for (; n >= CRC_AT_ONCE; n -= CRC_AT_ONCE) {
        r = crc_of_four(four_bytes(p) ^ r, 12) ^ crc_of_four(four_bytes(p + 4), 8)
            ^ crc_of_four(four_bytes(p + 8), 4) ^ crc_of_four(four_bytes(p + 12), 0);
        p += CRC_AT_ONCE;
    }
    for (; n > 0; n--)
        r = r >> 8 ^ crc_tables[0][(r ^ *p++) & 0xFF];
    return ~r;
}
