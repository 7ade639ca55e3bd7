/*
 * crc32.h: the checksum that zip archives have of their members.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Returns the CRC-32 of bytes whose CRC is `crc`, followed by n more bytes. The CRC of no bytes is
 * 0. */
uint32_t rgi_crc32(uint32_t crc, const void *bytes, size_t n);
