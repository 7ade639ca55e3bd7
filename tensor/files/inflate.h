/*
 * inflate.h: decompresses a deflated part of a file (RFC 1951), piece by piece.
 */
#pragma once

#include "file.h"

enum {
    RG_INFLATE_QUICK = 10,     /* The number of bits that are looked up in a table at once. */
    RG_INFLATE_RING = 1 << 16, /* The size of the ring of output, which is twice the greatest
                                * distance of a copy. */
    RG_INFLATE_MOST = 1032,    /* The greatest number of bytes that one deflated byte stands for. */
    RG_INFLATE_SYMBOLS = 288,  /* The greatest number of symbols in a code. */
    /* The number of different code lengths, from 0 to 15 bits. */
    RG_INFLATE_LONGEST = 15 + 1,
};

/* A Huffman code. `quick` is indexed by the next RG_INFLATE_QUICK bits of the input. If these begin
 * with the code of a symbol, the entry is 16 times the symbol, plus the number of bits of its code.
 * The entry is 0 if the next bits are the beginning of a longer code, or of no code. */
typedef struct {
    uint16_t quick[1 << RG_INFLATE_QUICK];
    uint16_t count[RG_INFLATE_LONGEST];  /* The number of symbols for each code length. */
    uint16_t symbol[RG_INFLATE_SYMBOLS]; /* The symbols in the order of their codes, the shortest
                                          * codes first. */
} rg_inflate_code;

/* The state of a decompression, which takes 80 KB. Only inflate.c uses the fields. */
typedef struct {
    const rg_file *file;
    const char *what;
    uint64_t at, end;   /* The range of bytes in the file that haven't been read into `in` yet. */
    uint64_t bits;      /* The bits that were read but not used yet; the lowest bit is used next. */
    int n_bits;         /* The number of bits in `bits`. */
    size_t in_at, in_n; /* The bytes of `in` that haven't been used yet: the offset of the first
                         * one, and the offset behind the last one. */
    enum { RG_INFLATE_HEADER, RG_INFLATE_STORED, RG_INFLATE_CODED, RG_INFLATE_DONE } phase;
    bool last;           /* Set once the last block has begun. */
    bool failed;         /* Set after a failure. */
    uint32_t stored;     /* The number of bytes left in a block that is stored uncompressed. */
    uint64_t made, read; /* The number of bytes that were decompressed, and the number of bytes that
                          * the caller has read. */
    rg_inflate_code literals, distances;
    uint8_t in[1 << 13], ring[RG_INFLATE_RING];
} rg_inflate;

/* Begins to decompress the `packed` bytes of the file that begin at offset `at`. `what` is their
 * name in error messages. The file and this string must live as long as *i is used. */
void rgi_inflate_begin(rg_inflate *i, const rg_file *file, uint64_t at, uint64_t packed,
                       const char *what);
/* Reads the next n decompressed bytes. Fails and returns false if there are fewer, or if the
 * deflated bytes are damaged. */
bool rgi_inflate_read(rg_inflate *i, void *to, size_t n);
/* Returns true if the caller has read all decompressed bytes, and no bytes follow the last block;
 * otherwise fails and returns false. */
bool rgi_inflate_end(rg_inflate *i);
