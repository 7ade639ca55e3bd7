/*
 * unicode.h: what tokenizers know of each code point: its properties, its lower case, and how it
 * decomposes and composes in Unicode's normal forms. The tables are packed into the library, and a
 * tokenizer unpacks them when it is loaded. Private.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The properties of a code point, which are bits. The first ones are those of regular expressions:
 * the categories of Unicode that \p names, and \s and \w. The others are those of single parts of
 * Hugging Face's tokenizers, which have data of different versions of Unicode. */
enum {
    RG_UNICODE_LU = 1 << 0,
    RG_UNICODE_LL = 1 << 1,
    RG_UNICODE_LT = 1 << 2,
    RG_UNICODE_LM = 1 << 3,
    RG_UNICODE_LO = 1 << 4,
    RG_UNICODE_L = (1 << 5) - 1,
    RG_UNICODE_MN = 1 << 5,
    RG_UNICODE_M = 1 << 5 | 1 << 6,
    RG_UNICODE_ND = 1 << 7,
    RG_UNICODE_N = 1 << 7 | 1 << 8,
    RG_UNICODE_P = 1 << 9,
    RG_UNICODE_S = 1 << 10,
    RG_UNICODE_HAN = 1 << 11,
    RG_UNICODE_SPACE = 1 << 12,
    RG_UNICODE_W = 1 << 13,
    RG_UNICODE_WORD = 1 << 14,        /* \w of the pre-tokenizer Whitespace and of added tokens. */
    RG_UNICODE_NUMERIC = 1 << 15,     /* The characters of the pre-tokenizer Digits. */
    RG_UNICODE_PUNCTUATION = 1 << 16, /* The characters of the pre-tokenizer Punctuation. */
    RG_UNICODE_CONTROL = 1 << 17,     /* BertNormalizer's clean_text removes these, */
    RG_UNICODE_NONSPACING = 1 << 18,  /* Its strip_accents removes these. */
    RG_UNICODE_COMBINING = 1 << 19,   /* The normalizer StripAccents removes these. */
    RG_UNICODE_CHINESE = 1 << 20,     /* BertNormalizer puts blanks around these. */
};

/* The kinds of code points in clusters of characters; see rgi_cluster. */
enum {
    RG_CLUSTER_OTHER,
    RG_CLUSTER_CR,
    RG_CLUSTER_LF,
    RG_CLUSTER_CONTROL,
    RG_CLUSTER_EXTEND,
    RG_CLUSTER_ZWJ,
    RG_CLUSTER_PREPEND,
    RG_CLUSTER_SPACING,
    RG_CLUSTER_L,
    RG_CLUSTER_V,
    RG_CLUSTER_T,
    RG_CLUSTER_LV,
    RG_CLUSTER_LVT,
    RG_CLUSTER_FLAG,
    RG_CLUSTER_PICTURE
};

/* A column of a table: n numbers. */
typedef struct {
    uint32_t *v, n;
} rg_unicode_column;

/* Decompositions. The code point code.v[i] decomposes into those from to.v[begin.v[i]] on, up to
 * the beginning of the next. */
typedef struct {
    rg_unicode_column code, begin, to;
} rg_decompositions;

/* The unpacked tables. A code point c has the class in_block[block[c >> 8]][c & 255], and the class
 * has its properties in `is`, its combining class in `marks`, and its kind in `cluster`. */
enum { RG_UNICODE_BLOCKS = 0x1100 };
typedef struct {
    uint32_t *numbers; /* The block of memory in which all columns are. */
    size_t room;
    rg_unicode_column is, marks, cluster;
    uint16_t block[RG_UNICODE_BLOCKS];
    uint8_t (*in_block)[256];
    size_t blocks;
    rg_unicode_column upper, lower; /* Code points, and their distances to their lower case. */
    rg_decompositions canonical, compatible;
    rg_unicode_column first, second, composed;
} rg_unicode;

/* Unpacks the tables into *u, which must be all zeros. `op` is for error messages. Returns false if
 * memory runs out; rgi_unicode_free then frees what there is. */
bool rgi_unicode_load(rg_unicode *u, const char *op);
void rgi_unicode_free(rg_unicode *u);

/* Returns the class of a code point. */
static inline unsigned rgi_unicode_class(const rg_unicode *u, uint32_t code) {
    return u->in_block[u->block[code >> 8]][code & 255];
}
/* Returns the properties of a code point. */
static inline uint32_t rgi_unicode_is(const rg_unicode *u, uint32_t code) {
    return u->is.v[rgi_unicode_class(u, code)];
}
/* rgi_unicode_at returns the properties of the character at p, rgi_unicode_before those of the
 * character before p. Both set *n to the character's length in bytes. Requires that the text is
 * valid UTF-8 and has such a character. */
uint32_t rgi_unicode_at(const rg_unicode *u, const char *p, const char *end, size_t *n);
uint32_t rgi_unicode_before(const rg_unicode *u, const char *begin, const char *p, size_t *n);
/* Returns the code point in lower case. U+0130 becomes "i", which U+0307 must follow. */
uint32_t rgi_unicode_lower(const rg_unicode *u, uint32_t code);
/* Writes to `to` the code points into which `code` decomposes: itself if it doesn't decompose.
 * Returns their number. */
enum { RG_DECOMPOSED_MOST = 18 };
size_t rgi_unicode_decompose(const rg_unicode *u, uint32_t code, bool compatible,
                             uint32_t to[RG_DECOMPOSED_MOST]);
/* Returns the code point that two others compose, or 0 if there is none. */
uint32_t rgi_unicode_compose(const rg_unicode *u, uint32_t first, uint32_t second);
/* Returns the length in bytes of the first extended grapheme cluster of a text, which must be valid
 * UTF-8 and not empty. */
size_t rgi_cluster(const rg_unicode *u, const char *p, const char *end);
