/*
 * crc32.h: the checksum of the members of a zip archive.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Returns the CRC-32 of a sequence of bytes that ends with the n bytes at `bytes`. `crc` is the
 * CRC-32 of the bytes before them. The CRC of no bytes is 0. */
uint32_t rgi_crc32(uint32_t crc, const void *bytes, size_t n);
