/*
 * inflate.c: decompresses deflated bytes (RFC 1951), without zlib, which may not be installed.
 * Input that zlib refuses is refused here as well. The last 64 KB of output are kept in a ring,
 * from which earlier output is copied.
 */
#include "inflate.h"

#include "tensor/base.h"

#include <string.h>

static bool inflate_refuse(rg_inflate *i, const char *sentence) {
    if (!i->failed)
        rgi_file_refuse(i->file, "%s: its deflated bytes are damaged: %s", i->what, sentence);
    i->failed = true;
    return false;
}

/* ---- reading bits --------------------------------------------------------------------- */

/* Reads the next deflated bytes of the file into the input buffer i->in. Returns false if no
 * deflated bytes are left, or on failure. */
static bool fetch(rg_inflate *i) {
    size_t n = (size_t)RG_MIN(i->end - i->at, (uint64_t)sizeof i->in);
    if (n == 0 || i->failed)
        return false;
    if (!rgi_file_read(i->file, i->at, i->in, n)) {
        i->failed = true;
        return false;
    }
    i->at += n;
    i->in_at = 0;
    i->in_n = n;
    return true;
}

/* Moves bytes from the input buffer to i->bits, until i->bits holds more than 56 bits or the input
 * ends. */
static inline void refill(rg_inflate *i) {
    while (i->n_bits <= 56 && (i->in_at < i->in_n || fetch(i))) {
        i->bits |= (uint64_t)i->in[i->in_at++] << i->n_bits;
        i->n_bits += 8;
    }
}

/* Skips the next n bits of i->bits; n is at most 56. Fails if i->bits holds fewer bits, because
 * then the input ends too early. */
static inline void drop_bits(rg_inflate *i, int n) {
    if (n > i->n_bits) {
        inflate_refuse(i, "they end too early");
        return;
    }
    i->bits >>= n;
    i->n_bits -= n;
}

/* Returns the next n bits as a number, and skips them; n is at most 16. If the input has fewer bits
 * left, fails, and the number has no meaning. */
static uint32_t take_bits(rg_inflate *i, int n) {
    if (i->n_bits < n)
        refill(i);
    uint32_t v = (uint32_t)i->bits & ((1u << n) - 1);
    drop_bits(i, n);
    return v;
}

/* ---- Huffman codes -------------------------------------------------------------------- */

static uint32_t reversed(uint32_t code, int n) {
    uint32_t r = 0;
    for (int k = 0; k < n; k++)
        r |= (code >> k & 1) << (n - 1 - k);
    return r;
}

/* Sets *c to the Huffman code in which symbol s, from 0 to n - 1, has a code of length[s] bits. A
 * symbol of length 0 isn't used. Returns false if no code has these lengths, or if the code is
 * incomplete. Two incomplete codes are allowed: one without symbols and, if `single` is true, one
 * with a single symbol of one bit. */
static bool make_code(rg_inflate_code *c, const uint8_t *length, int n, bool single) {
    uint32_t next[RG_INFLATE_LONGEST] = { 0 }, place[RG_INFLATE_LONGEST] = { 0 };
    memset(c, 0, sizeof *c);
    for (int s = 0; s < n; s++)
        c->count[length[s]]++;
    const int absent = c->count[0];
    c->count[0] = 0;
    int left = 1;
    for (int k = 1; k < RG_INFLATE_LONGEST; k++) {
        left = left * 2 - c->count[k];
        if (left < 0)
            return false;
        next[k] = (next[k - 1] + c->count[k - 1]) << 1;
        place[k] = place[k - 1] + c->count[k - 1];
    }
    if (left > 0 && absent < n && !(single && c->count[1] == 1 && absent == n - 1))
        return false;
    for (int s = 0; s < n; s++) {
        const int k = length[s];
        if (k == 0)
            continue;
        c->symbol[place[k]++] = (uint16_t)s;
        uint32_t code = reversed(next[k]++, k);
        for (; k <= RG_INFLATE_QUICK && code < 1 << RG_INFLATE_QUICK; code += 1u << k)
            c->quick[code] = (uint16_t)(s << 4 | k);
    }
    return true;
}

/* Reads a symbol whose code is too long for the table c->quick. Compares the next bits with the
 * codes of 1 bit, 2 bits and so on. This is simple, because codes of the same length are
 * consecutive numbers. Fails and returns 0 if no code matches. */
static uint32_t slow_symbol(rg_inflate *i, const rg_inflate_code *c) {
    uint32_t code = 0, first = 0, place = 0;
    for (int k = 1; k < RG_INFLATE_LONGEST; k++) {
        code = code << 1 | (uint32_t)(i->bits >> (k - 1) & 1);
        first <<= 1;
        if (code - first < c->count[k]) {
            drop_bits(i, k);
            return c->symbol[place + code - first];
        }
        first += c->count[k];
        place += c->count[k];
    }
    inflate_refuse(i, i->n_bits < RG_INFLATE_LONGEST ? "they end too early"
                                                     : "there is a code without a meaning");
    return 0;
}

static inline uint32_t next_symbol(rg_inflate *i, const rg_inflate_code *c) {
    if (i->n_bits < RG_INFLATE_LONGEST)
        refill(i);
    uint32_t entry = c->quick[i->bits & ((1 << RG_INFLATE_QUICK) - 1)];
    if (RG_UNLIKELY(!entry))
        return slow_symbol(i, c);
    drop_bits(i, (int)(entry & 15));
    return entry >> 4;
}

/* ---- beginning and ending blocks ------------------------------------------------------ */

static bool begin_stored(rg_inflate *i) {
    drop_bits(i, i->n_bits & 7);
    i->stored = take_bits(i, 16);
    if ((take_bits(i, 16) ^ i->stored) != 0xFFFF)
        return inflate_refuse(i, "a block's length and its complement don't agree");
    return true;
}

static bool begin_fixed(rg_inflate *i) {
    uint8_t length[RG_INFLATE_SYMBOLS];
    memset(length, 8, RG_INFLATE_SYMBOLS);
    memset(length + 144, 9, 256 - 144);
    memset(length + 256, 7, 280 - 256);
    make_code(&i->literals, length, RG_INFLATE_SYMBOLS, false);
    memset(length, 5, 32);
    return make_code(&i->distances, length, 32, false);
}

/* Reads the n code lengths of a block into length[]. The lengths are Huffman-coded as well:
 * i->literals must be the code for them. Returns false on failure. */
static bool read_lengths(rg_inflate *i, uint8_t *length, uint32_t n) {
    for (uint32_t s = 0; s < n;) {
        uint32_t symbol = next_symbol(i, &i->literals), value = 0, times = 1;
        if (symbol < 16) {
            value = symbol;
        } else if (symbol == 16) {
            if (s == 0)
                return inflate_refuse(i, "a length is repeated before there is one");
            value = length[s - 1];
            times = 3 + take_bits(i, 2);
        } else {
            times = symbol == 17 ? 3 + take_bits(i, 3) : 11 + take_bits(i, 7);
        }
        if (i->failed)
            return false;
        if (times > n - s)
            return inflate_refuse(i, "a block has too many lengths of codes");
        memset(length + s, (int)value, times);
        s += times;
    }
    return true;
}

static bool begin_dynamic(rg_inflate *i) {
    static const uint8_t order[] = { 16, 17, 18, 0, 8,  7, 9,  6, 10, 5,
                                     11, 4,  12, 3, 13, 2, 14, 1, 15 };
    uint8_t length[286 + 30] = { 0 };
    uint32_t literals = 257 + take_bits(i, 5), distances = 1 + take_bits(i, 5);
    uint32_t n = 4 + take_bits(i, 4);
    if (literals > 286 || distances > 30)
        return inflate_refuse(i, "a block has too many codes");
    for (uint32_t k = 0; k < n; k++)
        length[order[k]] = (uint8_t)take_bits(i, 3);
    if (!make_code(&i->literals, length, RG_COUNT(order), false))
        return inflate_refuse(i, "the code of a block's lengths is no code");
    if (!read_lengths(i, length, literals + distances))
        return false;
    if (length[256] == 0)
        return inflate_refuse(i, "a block has no code for its end");
    if (!make_code(&i->literals, length, (int)literals, true))
        return inflate_refuse(i, "a block's code of literals is no code");
    if (!make_code(&i->distances, length + literals, (int)distances, true))
        return inflate_refuse(i, "a block's code of distances is no code");
    return true;
}

static void begin_block(rg_inflate *i) {
    i->last = take_bits(i, 1);
    const uint32_t kind = take_bits(i, 2);
    i->phase = kind ? RG_INFLATE_CODED : RG_INFLATE_STORED;
    if (kind == 0)
        begin_stored(i);
    else if (kind == 1)
        begin_fixed(i);
    else if (kind == 2)
        begin_dynamic(i);
    else
        inflate_refuse(i, "a block is of an unknown kind");
}

static void end_block(rg_inflate *i) { i->phase = i->last ? RG_INFLATE_DONE : RG_INFLATE_HEADER; }

/* ---- decompressing bytes -------------------------------------------------------------- */

static inline void make_byte(rg_inflate *i, uint32_t byte) {
    i->ring[i->made++ % RG_INFLATE_RING] = (uint8_t)byte;
}

/* Appends a copy of earlier output to the output. `symbol`, with some further bits of the input,
 * stands for the number of bytes to copy. After these bits, the input has the distance: the number
 * of bytes from the beginning of the copied bytes to the end of the output. */
static void copy_back(rg_inflate *i, uint32_t symbol) {
    static const uint16_t length[] = { 3,  4,  5,  6,   7,   8,   9,   10,  11, 13,
                                       15, 17, 19, 23,  27,  31,  35,  43,  51, 59,
                                       67, 83, 99, 115, 131, 163, 195, 227, 258 };
    static const uint8_t length_bits[] = { 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2,
                                           2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0 };
    static const uint16_t distance[] = { 1,    2,    3,    4,     5,     7,    9,    13,
                                         17,   25,   33,   49,    65,    97,   129,  193,
                                         257,  385,  513,  769,   1025,  1537, 2049, 3073,
                                         4097, 6145, 8193, 12289, 16385, 24577 };
    symbol -= 257;
    if (symbol >= RG_COUNT(length)) {
        inflate_refuse(i, "there is a length that has no meaning");
        return;
    }
    const uint32_t n = length[symbol] + take_bits(i, length_bits[symbol]);
    const uint32_t far = next_symbol(i, &i->distances);
    if (far >= RG_COUNT(distance)) {
        inflate_refuse(i, "there is a distance that has no meaning");
        return;
    }
    const uint32_t back = distance[far] + take_bits(i, far < 4 ? 0 : (int)far / 2 - 1);
    if (back > i->made)
        inflate_refuse(i, "bytes are copied from before the first one");
    for (uint32_t k = 0; k < n && !i->failed; k++)
        make_byte(i, i->ring[(i->made - back) % RG_INFLATE_RING]);
}

/* Decompresses bytes of the current block, until half of the ring holds bytes that the caller
 * hasn't read, or the block ends. The last copy may go beyond that half by up to 257 bytes. Those
 * 257 bytes overwrite bytes that the caller has read, and that no later copy can reach. */
static void inflate_block(rg_inflate *i) {
    while (!i->failed && i->made - i->read < RG_INFLATE_RING / 2) {
        if (i->phase == RG_INFLATE_STORED && i->stored == 0) {
            end_block(i);
            return;
        }
        if (i->phase == RG_INFLATE_STORED) {
            make_byte(i, take_bits(i, 8));
            i->stored--;
            continue;
        }
        const uint32_t symbol = next_symbol(i, &i->literals);
        if (symbol < 256) {
            make_byte(i, symbol);
        } else if (symbol > 256) {
            copy_back(i, symbol);
        } else {
            end_block(i);
            return;
        }
    }
}

/* Decompresses until half of the ring holds bytes that the caller hasn't read, or the last block
 * ends. */
static void inflate_more(rg_inflate *i) {
    while (!i->failed && i->phase != RG_INFLATE_DONE && i->made - i->read < RG_INFLATE_RING / 2) {
        if (i->phase == RG_INFLATE_HEADER)
            begin_block(i);
        else
            inflate_block(i);
    }
}

/* ---- public functions ------------------------------------------------------------------------ */

void rgi_inflate_begin(rg_inflate *i, const rg_file *file, uint64_t at, uint64_t packed,
                       const char *what) {
    memset(i, 0, offsetof(rg_inflate, literals));
    i->file = file;
    i->what = what;
    i->at = at;
    i->end = at + packed;
}

bool rgi_inflate_read(rg_inflate *i, void *to, size_t n) {
    for (char *next = to; n > 0;) {
        if (i->made == i->read)
            inflate_more(i);
        if (i->failed)
            return false;
        if (i->made == i->read)
            return rgi_file_refuse(i->file, "%s: it inflates to %llu bytes, and more are needed",
                                   i->what, (unsigned long long)i->made);
        const size_t from = i->read % RG_INFLATE_RING;
        size_t part = RG_MIN(n, (size_t)(i->made - i->read));
        part = RG_MIN(part, RG_INFLATE_RING - from);
        memcpy(next, i->ring + from, part);
        i->read += part;
        next += part;
        n -= part;
    }
    return true;
}

bool rgi_inflate_end(rg_inflate *i) {
    inflate_more(i);
    if (i->failed)
        return false;
    if (i->made > i->read)
        return rgi_file_refuse(i->file, "%s: it inflates to more than the %llu bytes that it has",
                               i->what, (unsigned long long)i->read);
    const uint64_t left = i->end - i->at + (i->in_n - i->in_at) + (uint64_t)i->n_bits / 8;
    if (left > 0)
        return rgi_file_refuse(i->file, "%s: %llu bytes follow those that are deflated", i->what,
                               (unsigned long long)left);
    return true;
}
