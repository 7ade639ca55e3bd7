/*
 * tokenizer_encode.c: encodes a text. First finds added tokens, then cuts the text between them
 * into words, and then merges the bytes of each word.
 */
#include "tokenizer_struct.h"
#include "unicode.h"
#include "tensor/error.h"
#include "tensor/files/utf8.h"
#include "autograd/ops/ops.h"
#include "tensor/memory.h"

#include <string.h>

/* A word whose ids are known. Most words of a text occur several times. So when a short word has
 * been merged, it is stored in the slot of its hash, with the position of its n ids in the output.
 * `bytes` is the word's length. */
enum { SEEN_BYTES = 26, SEEN_MOST = 1 << 14 };
typedef struct {
    uint32_t at; /* The index of the word's first id in encoding.ids. */
    uint8_t n, bytes;
    char word[SEEN_BYTES];
} seen_word;

typedef struct {
    const rg_tokenizer *t;
    int64_t *ids;
    size_t n, room;
    rg_bpe word;
    char *name; /* A buffer for a word, written as in the vocabulary. */
    size_t name_room;
    char *spaced; /* A buffer for a text with a blank put before it. */
    size_t spaced_room;
    seen_word *seen;
    size_t n_seen; /* The number of slots in `seen`, a power of 2. */
} encoding;

/* ---- encoding words ------------------------------------------------------------------- */

static bool add_id(encoding *e, int64_t id) {
    if (e->n == e->room && !rgi_grow((void **)&e->ids, &e->room, e->n + 1, sizeof *e->ids))
        return false;
    e->ids[e->n++] = id;
    return true;
}

/* Returns the id of the word if the whole word is a token of the vocabulary. Returns -1 if it
 * isn't, and -2 if memory runs out. */
static int64_t whole_word(encoding *e, const char *p, size_t n) {
    if (n > e->t->longest)
        return -1;
    if (!rgi_grow((void **)&e->name, &e->name_room, 2 * n + 1, 1))
        return -2;
    char *to = e->name;
    for (size_t i = 0; i < n; i++)
        to += rgi_byte_character((unsigned char)p[i], to);
    *to = 0;
    int64_t id = rgi_map_name(&e->t->names, e->name);
    return id >= 0 && e->t->tokens[id].model ? id : -1;
}

/* Appends the token of each byte of the word to e->word. A byte without a token becomes the unknown
 * token; with fuse_unknown, several such bytes in a row become a single unknown token. If the
 * tokenizer has no unknown token, such a byte is dropped. Returns false on failure. */
static bool take_bytes(encoding *e, const char *p, size_t n) {
    const rg_tokenizer *t = e->t;
    bool unknown = false, ok = true;
    for (size_t i = 0; ok && i < n; i++) {
        int64_t id = t->of_byte[(unsigned char)p[i]];
        if (id < 0 && unknown && t->fuse_unknown)
            continue;
        if (id < 0) {
            unknown = t->unknown >= 0;
            id = t->unknown;
        } else {
            unknown = false;
        }
        ok = id < 0 || rgi_bpe_add(&e->word, (uint32_t)id);
    }
    return ok;
}

static bool merge_word(encoding *e, const char *p, size_t n) {
    int64_t id = e->t->ignore_merges ? whole_word(e, p, n) : -1;
    if (id != -1)
        return id >= 0 && add_id(e, id);
    if (!take_bytes(e, p, n) || !rgi_bpe_merge(&e->word, &e->t->merges)
        || !rgi_grow((void **)&e->ids, &e->room, e->n + e->word.n, sizeof *e->ids))
        return false;
    e->n += rgi_bpe_take(&e->word, e->ids + e->n);
    return true;
}

/* Returns the word's slot in the hash table e->seen. The slot may hold this word or another word,
 * or be empty. The caller must check which of these is the case. */
static seen_word *seen_slot(const encoding *e, const char *p, size_t n) {
    uint64_t hash = n;
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ (unsigned char)p[i]) * 0x9E3779B97F4A7C15u;
    return &e->seen[(hash >> 32) & (e->n_seen - 1)];
}

static bool encode_word(encoding *e, const char *p, size_t n) {
    if (n > SEEN_BYTES || e->n > UINT32_MAX)
        return merge_word(e, p, n);
    seen_word *s = seen_slot(e, p, n);
    size_t at = e->n;
    if (s->bytes == n && memcmp(s->word, p, n) == 0) {
        for (size_t i = 0; i < s->n; i++)
            if (!add_id(e, e->ids[s->at + i]))
                return false;
        return true;
    }
    if (!merge_word(e, p, n))
        return false;
    *s = (seen_word){ (uint32_t)at, (uint8_t)(e->n - at), (uint8_t)n, { 0 } };
    memcpy(s->word, p, n);
    return true;
}

/* Encodes a text that contains no added tokens and isn't empty. If the tokenizer has prefix_space,
 * a blank is put before the text unless it begins with one. */
static bool encode_piece(encoding *e, const char *p, size_t n) {
    if (e->t->prefix_space && *p != ' ') {
        if (!rgi_grow((void **)&e->spaced, &e->spaced_room, n + 1, 1))
            return false;
        *e->spaced = ' ';
        memcpy(e->spaced + 1, p, n);
        p = e->spaced;
        n++;
    }
    for (const char *end = p + n; p < end; p += n) {
        n = e->t->words ? rgi_gpt2_word(p, end) : n;
        if (!encode_word(e, p, n))
            return false;
    }
    return true;
}

/* ---- finding added tokens in a text --------------------------------------------------- */

/* Returns the longest token in `a` with which the text at p begins. Returns NULL if there is
 * none. */
static const rg_token *added_at(const encoding *e, const rg_added_tokens *a, const char *p,
                                const char *end) {
    unsigned char lead = (unsigned char)*p;
    for (uint32_t i = a->first[lead]; i < a->first[lead + 1]; i++) {
        const rg_token *token = &e->t->tokens[a->v[i]];
        if (token->bytes <= (size_t)(end - p) && memcmp(token->text, p, token->bytes) == 0)
            return token;
    }
    return NULL;
}

/* Returns whether the token, which extends from `from` to `to`, has no word character directly
 * before or after it. The text extends from `begin` to `end`. */
static bool stands_alone(const char *begin, const char *from, const char *to, const char *end) {
    size_t n;
    bool before = from > begin && rgi_unicode_before(begin, from, &n) & RG_UNICODE_WORD;
    bool behind = to < end && rgi_unicode_at(to, end, &n) & RG_UNICODE_WORD;
    return !before && !behind;
}

/* Returns where the white space that ends at p begins. The text begins at `begin`. */
static const char *space_before(const char *begin, const char *p) {
    size_t n;
    while (p > begin && (rgi_unicode_before(begin, p, &n) & RG_UNICODE_KINDS) == RG_UNICODE_SPACE)
        p -= n;
    return p;
}

static const char *space_behind(const char *p, const char *end) {
    size_t n;
    while (p < end && (rgi_unicode_at(p, end, &n) & RG_UNICODE_KINDS) == RG_UNICODE_SPACE)
        p += n;
    return p;
}

static bool encode_between(encoding *e, const rg_added_tokens *a, const char *p, const char *end);

/* Encodes a text in which none of the tokens `a` was found. A text is searched for the tokens
 * e->t->plain first. If `a` is that list, searches the text for the tokens e->t->normalized next.
 * Otherwise both searches are done: cuts the text into words, and encodes the words. */
static bool encode_rest(encoding *e, const rg_added_tokens *a, const char *p, const char *end) {
    if (p >= end)
        return true;
    if (a == &e->t->plain)
        return encode_between(e, &e->t->normalized, p, end);
    return encode_piece(e, p, (size_t)(end - p));
}

/* Encodes a text. Searches it from left to right for the tokens of `a`. If several tokens begin at
 * the same character, takes the longest. Calls encode_rest for the text between the tokens. If a
 * token strips the white space on its right, the search for the next token still begins directly
 * after the token, in this white space. Hugging Face's tokenizers do the same. */
static bool encode_between(encoding *e, const rg_added_tokens *a, const char *p, const char *end) {
    const char *begin = p, *done = p;
    while (a->n > 0 && p < end) {
        const rg_token *token = added_at(e, a, p, end);
        if (!token) {
            p++;
            continue;
        }
        const char *from = p, *to = p + token->bytes;
        p = to;
        if (token->single_word && !stands_alone(begin, from, to, end))
            continue;
        if (token->lstrip)
            from = RG_MAX(space_before(begin, from), done);
        if (token->rstrip)
            to = space_behind(to, end);
        if (!encode_rest(e, a, done, from) || !add_id(e, token - e->t->tokens))
            return false;
        done = to;
    }
    return encode_rest(e, a, done, end);
}

/* ---- encoding a whole text ------------------------------------------------------------ */

static bool check_utf8(const char *text, size_t n) {
    const char *p = text, *end = text + n;
    while (p < end) {
        uint32_t code;
        size_t wide = rgi_utf8_read(p, end, &code);
        RG_FAIL_VALUE_IF(wide == 0, "tokenizer_encode", "the text is no UTF-8 at byte %zu",
                         (size_t)(p - text));
        p += wide;
    }
    return true;
}

/* Begins the encoding of a text of n bytes: allocates the slots for known words (seen_word), more
 * of them for a longer text. Returns false if memory runs out. */
static bool encoding_begin(encoding *e, const rg_tokenizer *t, size_t n) {
    *e = (encoding){ .t = t, .n_seen = 16 };
    while (e->n_seen < SEEN_MOST && e->n_seen < n / 8)
        e->n_seen *= 2;
    e->seen = rgi_alloc(e->n_seen * sizeof *e->seen, RG_MEM_OTHER);
    if (e->seen)
        memset(e->seen, 0, e->n_seen * sizeof *e->seen);
    return e->seen;
}

static void encoding_end(encoding *e) {
    rgi_free(e->ids, e->room * sizeof *e->ids, RG_MEM_OTHER);
    rgi_free(e->name, e->name_room, RG_MEM_OTHER);
    rgi_free(e->spaced, e->spaced_room, RG_MEM_OTHER);
    rgi_free(e->seen, e->n_seen * sizeof *e->seen, RG_MEM_OTHER);
    rgi_bpe_free(&e->word);
}

rg_tensor *rg_tokenizer_encode_with(const rg_tokenizer *t, const char *text,
                                    rg_tokenizer_encode_options o) {
    RG_AS("tokenizer_encode");
    if (!rgi_handle_given(t, "tokenizer_encode", RG_HANDLE_TOKENIZER)
        || !rgi_given(text, "tokenizer_encode", "a text"))
        return NULL;
    RG_FAIL_VALUE_IF(o.length < -1, "tokenizer_encode", "the length %lld is negative",
                     (long long)o.length);
    size_t n = o.length < 0 ? strlen(text) : (size_t)o.length;
    if (!check_utf8(text, n))
        return NULL;
    encoding e;
    rg_tensor *ids = NULL;
    if (encoding_begin(&e, t, n) && encode_between(&e, &t->plain, text, text + n))
        ids = rg_from_int64(e.ids, RG_DIMS((int64_t)e.n));
    encoding_end(&e);
    return ids;
}
