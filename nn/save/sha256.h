/*
 * sha256.h: the hash function SHA-256 (FIPS 180-4). Private.
 *
 *     rg_sha256 hash;
 *     rgi_sha256_begin(&hash);
 *     rgi_sha256_add(&hash, text, strlen(text));
 *     char hex[RG_SHA256_ROOM];
 *     rgi_sha256_end(&hash, hex);
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The room for a hash in hexadecimal digits, and the 0 behind them. */
enum { RG_SHA256_ROOM = 65 };

/* A hash to which `bytes` bytes were added. `block` has those that don't fill a block yet. */
typedef struct {
    uint32_t state[8];
    uint64_t bytes;
    uint8_t block[64];
} rg_sha256;

void rgi_sha256_begin(rg_sha256 *s);
/* Adds n bytes to the end of what is hashed. */
void rgi_sha256_add(rg_sha256 *s, const void *from, size_t n);
/* Writes the hash of all bytes that were added. */
void rgi_sha256_end(rg_sha256 *s, char hex[RG_SHA256_ROOM]);

/* Changes the state of a hash by n blocks of 64 bytes, without the processor's instructions for
 * SHA-256. */
void rgi_sha256_blocks_plain(uint32_t state[8], const uint8_t *blocks, size_t n);
