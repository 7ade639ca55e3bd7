/*
 * hash.h: a hash by which ranks compare their data. Private.
 */
#pragma once

#include <stdint.h>
#include <string.h>

/* Extends `hash`, the hash of earlier data, by the n bytes at `data`, and returns the result. For
 * the first data `hash` is any number that is the same on all ranks. */
static inline uint64_t rgi_hash(uint64_t hash, const void *data, size_t n) {
    const char *bytes = data;
    for (uint64_t word; n >= sizeof word; n -= sizeof word, bytes += sizeof word) {
        memcpy(&word, bytes, sizeof word);
        hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 32;
    }
    for (; n; n--)
        hash = (hash ^ (unsigned char)*bytes++) * 0x100000001b3u;
    return hash;
}
