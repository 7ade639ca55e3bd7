/*
 * inflate.h: bytes of a file that are deflated (RFC 1951), inflated a part at a time.
 */
#pragma once

#include "file.h"

enum {
    RG_INFLATE_QUICK = 10,       /* The bits of a code that are looked up at once. */
    RG_INFLATE_RING = 1 << 16,   /* Twice as far as a copy reaches back. */
    RG_INFLATE_MOST = 1032,      /* The most bytes that one deflated byte stands for. */
    RG_INFLATE_SYMBOLS = 288,    /* The most symbols of a code, */
    RG_INFLATE_LONGEST = 15 + 1, /* and each has fewer bits than this. */
};

/* A Huffman code. An entry of `quick` is a symbol times 16 and its number of bits, or 0 where the
 * code is longer. */
typedef struct {
    uint16_t quick[1 << RG_INFLATE_QUICK];
    uint16_t count[RG_INFLATE_LONGEST];  /* The number of symbols for each length of a code. */
    uint16_t symbol[RG_INFLATE_SYMBOLS]; /* They stand in the order of their codes. */
} rg_inflate_code;

/* inflate.c alone uses the fields. They take 80 KB. */
typedef struct {
    const rg_file *file;
    const char *what;
    uint64_t at, end;   /* The file's bytes from here to there aren't in `in` yet. */
    uint64_t bits;      /* The lowest is the next one, */
    int n_bits;         /* and their number. */
    size_t in_at, in_n; /* These of `in` come behind them. */
    enum { RG_INFLATE_HEADER, RG_INFLATE_STORED, RG_INFLATE_CODED, RG_INFLATE_DONE } phase;
    bool last;           /* The block is the last one. */
    bool failed;         /* The thread has the sentence. */
    uint32_t stored;     /* The bytes that are left of a block that is stored as it is. */
    uint64_t made, read; /* The bytes that were inflated, and read. */
    rg_inflate_code literals, distances;
    uint8_t in[1 << 13], ring[RG_INFLATE_RING];
} rg_inflate;

/* Begins at the file's byte `at`, from which on `packed` bytes are deflated. `what` says whose they
 * are, for errors, and has to live as long. */
void rgi_inflate_begin(rg_inflate *i, const rg_file *file, uint64_t at, uint64_t packed,
                       const char *what);
/* Reads the next n bytes. Fails where there are fewer, or the deflated ones are damaged. */
bool rgi_inflate_read(rg_inflate *i, void *to, size_t n);
/* Returns whether nothing is left to be read, of what was deflated either; else fails. */
bool rgi_inflate_end(rg_inflate *i);
