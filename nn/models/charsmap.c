/*
 * charsmap.c: reads Sentencepiece's table of characters and their replacements, which files have in
 * base64 as "precompiled_charsmap", and applies it. The table begins with the size of a double
 * array in bytes; after the array come the replacements.
 */
#include "charsmap.h"
#include "tensor/files/utf8.h"
#include "tensor/memory.h"

#include <string.h>

/* ---- reading -------------------------------------------------------------------------- */

/* Decodes n characters of base64. Returns the number of bytes, or SIZE_MAX if the text isn't
 * base64. */
static size_t from_base64(const char *text, size_t n, uint8_t *to) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint32_t bits = 0;
    size_t made = 0, used = 0;
    while (n > 0 && text[n - 1] == '=' && used++ < 2)
        n--;
    for (size_t i = 0; i < n; i++) {
        const char *digit = memchr(digits, text[i], 64);
        if (!digit)
            return SIZE_MAX;
        bits = bits << 6 | (uint32_t)(digit - digits);
        if (i % 4 > 0)
            to[made++] = (uint8_t)(bits >> (6 - 2 * (i % 4)));
    }
    return made;
}

static uint32_t unit_at(const uint8_t *units, size_t i) {
    const uint8_t *u = units + 4 * i;
    return u[0] | (uint32_t)u[1] << 8 | (uint32_t)u[2] << 16 | (uint32_t)u[3] << 24;
}

bool rgi_charsmap_load(rg_charsmap *c, const rg_file *f, const char *base64, size_t n) {
    if (!rgi_grow((void **)&c->block, &c->bytes, n + 1, 1))
        return false;
    size_t bytes = from_base64(base64, n, c->block);
    uint32_t size = bytes >= 4 && bytes != SIZE_MAX ? unit_at(c->block, 0) : 0;
    bool fits = size > 0 && size % 4 == 0 && size < bytes - 4;
    if (!fits || c->block[bytes - 1] != 0
        || !rgi_is_utf8((char *)c->block + 4 + size, bytes - 4 - size))
        return rgi_file_refuse(f, "the normalizer's \"precompiled_charsmap\" isn't one");
    c->units = c->block + 4;
    c->n_units = size / 4;
    c->texts = c->units + size;
    c->n_texts = bytes - 4 - size;
    return true;
}

/* ---- applying ------------------------------------------------------------------------- */

static uint32_t offset_of_unit(uint32_t unit) { return (unit >> 10) << ((unit & (1u << 9)) >> 6); }

/* Returns the replacement of the shortest beginning of these n bytes that the table has. Returns
 * NULL if it has none. */
static const char *replacement(const rg_charsmap *c, const char *p, size_t n) {
    uint32_t at = offset_of_unit(unit_at(c->units, 0));
    for (size_t i = 0; i < n; i++) {
        unsigned char byte = (unsigned char)p[i];
        at ^= byte;
        if (byte == 0 || at >= c->n_units)
            return NULL;
        uint32_t unit = unit_at(c->units, at);
        if ((unit & (1u << 31 | 0xFF)) != byte)
            return NULL;
        at ^= offset_of_unit(unit);
        if (unit >> 8 & 1) {
            uint32_t text = at < c->n_units ? unit_at(c->units, at) & ~(1u << 31) : UINT32_MAX;
            return text < c->n_texts && (c->texts[text] & 0xC0) != 0x80
                       ? (const char *)c->texts + text
                       : NULL;
        }
    }
    return NULL;
}

/* A piece whose characters are being replaced. The next character of the result stands for the one
 * at offset `at` of the piece. The last character, `code`, isn't written yet: with a `change` above
 * 0 it stands for the same as the one before it, and with one of -k for k more. */
typedef struct {
    const rg_charsmap *c;
    rg_aligned *to;
    const rg_piece *p;
    size_t at;
    uint32_t code;
    int64_t change;
    bool any;
} charsmap_run;

static bool put_last(charsmap_run *r) {
    size_t at = r->change > 0 && r->at > 0 ? r->at - 1 : r->at;
    if (r->any && !rgi_aligned_put(r->to, r->code, r->p, at))
        return false;
    for (int64_t i = r->change; r->any && i <= 0; i++) {
        uint32_t code;
        r->at += rgi_utf8_read(r->p->v + r->at, r->p->v + r->p->n, &code);
    }
    return true;
}

/* Adds a character that replaces one of the piece, or comes in addition. */
static bool put_character(charsmap_run *r, uint32_t code, bool more) {
    if (!put_last(r))
        return false;
    r->code = code;
    r->change = more;
    r->any = true;
    return true;
}

/* Adds the replacement of `old` characters of the piece. Its characters stand for those of the
 * piece one by one. If these are more, the last character before stands for what is left; if there
 * is none, the next characters stand for it, as in Hugging Face's tokenizers. */
static bool put_replacement(charsmap_run *r, const char *text, size_t old) {
    const char *end = text + strlen(text);
    while (text < end) {
        uint32_t code = 0;
        text += rgi_utf8_read(text, end, &code);
        if (!put_character(r, code, old == 0))
            return false;
        old -= old > 0;
    }
    r->change -= (int64_t)old;
    return true;
}

static size_t characters_in(const char *p, size_t n) {
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += (p[i] & 0xC0) != 0x80;
    return count;
}

/* Appends what becomes of a cluster of n bytes at p: it is replaced as a whole, if it is short
 * enough, or character by character. */
static bool put_cluster(charsmap_run *r, const char *p, size_t n) {
    enum { LONGEST = 5 };
    const char *whole = n <= LONGEST ? replacement(r->c, p, n) : NULL;
    if (whole)
        return put_replacement(r, whole, characters_in(p, n));
    for (size_t i = 0, wide; i < n; i += wide) {
        uint32_t code = 0;
        wide = rgi_utf8_read(p + i, p + n, &code);
        const char *text = replacement(r->c, p + i, wide);
        if (!(text ? put_replacement(r, text, 1) : put_character(r, code, false)))
            return false;
    }
    return true;
}

bool rgi_charsmap_apply(const rg_charsmap *c, const rg_unicode *u, rg_aligned *to,
                        const rg_piece *p) {
    charsmap_run run = { .c = c, .to = to, .p = p };
    for (size_t i = 0, n; i < p->n; i += n) {
        n = rgi_cluster(u, p->v + i, p->v + p->n);
        if (!put_cluster(&run, p->v + i, n))
            return false;
    }
    return put_last(&run);
}
