/*
 * inflate.h: inflates a part of a file that is deflated (RFC 1951), piece by piece.
 */
#pragma once

#include "file.h"

enum {
    RG_INFLATE_QUICK = 10,     /* The number of bits that are looked up at once. */
    RG_INFLATE_RING = 1 << 16, /* The size of the ring: twice the greatest distance of a copy. */
    RG_INFLATE_MOST = 1032,    /* The most bytes that one deflated byte can become. */
    RG_INFLATE_SYMBOLS = 288,  /* The most symbols of a code. */
    /* The number of lengths that a code of a symbol may have; 0 is one of them. */
    RG_INFLATE_LONGEST = 15 + 1,
};

/* A Huffman code. An entry of `quick` is a symbol times 16 plus its number of bits, or 0 if the
 * code is longer. */
typedef struct {
    uint16_t quick[1 << RG_INFLATE_QUICK];
    uint16_t count[RG_INFLATE_LONGEST];  /* The number of symbols for each length of a code. */
    uint16_t symbol[RG_INFLATE_SYMBOLS]; /* The symbols in the order of their codes. */
} rg_inflate_code;

/* The state of an inflation. Only inflate.c uses the fields, which take 80 KB. */
typedef struct {
    const rg_file *file;
    const char *what;
    uint64_t at, end;   /* The range of the file that hasn't been read into `in`. */
    uint64_t bits;      /* The waiting bits; the lowest one is the next. */
    int n_bits;         /* The number of waiting bits. */
    size_t in_at, in_n; /* The rest of `in`: its offset and its end. */
    enum { RG_INFLATE_HEADER, RG_INFLATE_STORED, RG_INFLATE_CODED, RG_INFLATE_DONE } phase;
    bool last;           /* Set in the last block. */
    bool failed;         /* Set after a failure. */
    uint32_t stored;     /* The remaining bytes of a block that is stored without compression. */
    uint64_t made, read; /* The numbers of bytes that were inflated, and that were read. */
    rg_inflate_code literals, distances;
    uint8_t in[1 << 13], ring[RG_INFLATE_RING];
} rg_inflate;

/* Begins to inflate the `packed` bytes of the file from the offset `at` on. `what` names them in
 * errors, and must live as long. */
void rgi_inflate_begin(rg_inflate *i, const rg_file *file, uint64_t at, uint64_t packed,
                       const char *what);
/* Reads the next n inflated bytes. Fails if there are fewer, or if the deflated bytes are damaged.
 */
bool rgi_inflate_read(rg_inflate *i, void *to, size_t n);
/* Returns whether all bytes were read, inflated and deflated ones; otherwise fails. */
bool rgi_inflate_end(rg_inflate *i);
