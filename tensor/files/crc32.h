/*
 * crc32.h: the checksum that zip archives have of their members.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Returns the CRC-32 of some bytes, whose CRC is `crc`, and the n bytes that follow them. That of
 * no bytes is 0. */
uint32_t rgi_crc32(uint32_t crc, const void *bytes, size_t n);
