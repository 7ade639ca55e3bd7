/*
 * tokenizer_encode.c: encodes a text. First finds added tokens, then normalizes the text between
 * them and cuts it into words, and then the model makes tokens of each word.
 */
#include "tokenizer_encode.h"
#include "tensor/error.h"
#include "tensor/files/utf8.h"
#include "tensor/memory.h"

#include <string.h>

/* A word whose tokens are known. Most words of a text occur several times. So when a short word has
 * been encoded, it is stored in the slot of its hash, with the position of its n ids in the output.
 * `bytes` is the word's length. Offsets of tokens differ, so that with them nothing is stored. */
enum { SEEN_BYTES = 26, SEEN_MOST = 1 << 14 };
typedef struct rg_seen_word {
    uint32_t at; /* The index of the word's first id in ids.v. */
    uint8_t n, bytes;
    char word[SEEN_BYTES];
} seen_word;

/* ---- encoding words ------------------------------------------------------------------- */

/* Returns the word's slot in the hash table e->seen. The slot may hold this word or another word,
 * or be empty. The caller must check which of these is the case. */
static seen_word *seen_slot(const rg_encoding_run *e, const char *p, size_t n) {
    uint64_t hash = n;
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ (unsigned char)p[i]) * 0x9E3779B97F4A7C15u;
    return &e->seen[(hash >> 32) & (e->n_seen - 1)];
}

static bool model_word(rg_encoding_run *e, const rg_piece *word) {
    return e->t->model == RG_MODEL_UNIGRAM ? rgi_unigram_word(e->t, &e->model, &e->ids, word)
                                           : rgi_model_word(e->t, &e->model, &e->ids, word);
}

static bool encode_word(rg_encoding_run *e, const rg_piece *word) {
    const size_t n = word->n, at = e->ids.n;
    if (n > SEEN_BYTES || at > UINT32_MAX || e->ids.aligned)
        return model_word(e, word);
    seen_word *s = seen_slot(e, word->v, n);
    if (s->bytes == n && memcmp(s->word, word->v, n) == 0) {
        for (size_t i = 0; i < s->n; i++)
            if (!rgi_ids_add(&e->ids, e->ids.v[s->at + i], word, 0, n))
                return false;
        return true;
    }
    if (!model_word(e, word))
        return false;
    if (e->ids.n - at > UINT8_MAX)
        return true;
    *s = (seen_word){ (uint32_t)at, (uint8_t)(e->ids.n - at), (uint8_t)n, { 0 } };
    memcpy(s->word, word->v, n);
    return true;
}

/* ---- finding added tokens in a text --------------------------------------------------- */

/* Returns the longest token in `a` with which the text at p begins. Returns NULL if there is
 * none. A token of which the normalizer leaves nothing is never found. */
static const rg_added_token *added_at(const rg_added_tokens *a, const char *p, const char *end) {
    unsigned char lead = (unsigned char)*p;
    for (uint32_t i = a->first[lead]; i < a->first[lead + 1]; i++) {
        const rg_added_token *token = &a->v[i];
        if (token->bytes > 0 && token->bytes <= (size_t)(end - p)
            && memcmp(token->text, p, token->bytes) == 0)
            return token;
    }
    return NULL;
}

/* Returns whether the token, which extends from `from` to `to`, has no word character directly
 * before or after it. The text extends from `begin` to `end`. */
static bool stands_alone(const rg_unicode *u, const char *begin, const char *from, const char *to,
                         const char *end) {
    size_t n;
    bool before = from > begin && rgi_unicode_before(u, begin, from, &n) & RG_UNICODE_WORD;
    bool behind = to < end && rgi_unicode_at(u, to, end, &n) & RG_UNICODE_WORD;
    return !before && !behind;
}

/* Returns where the white space that ends at p begins. The text begins at `begin`. */
static const char *space_before(const rg_unicode *u, const char *begin, const char *p) {
    size_t n;
    while (p > begin && rgi_unicode_before(u, begin, p, &n) & RG_UNICODE_SPACE)
        p -= n;
    return p;
}

static const char *space_behind(const rg_unicode *u, const char *p, const char *end) {
    size_t n;
    while (p < end && rgi_unicode_at(u, p, end, &n) & RG_UNICODE_SPACE)
        p += n;
    return p;
}

static bool take_word(void *e, const rg_piece *word) { return encode_word(e, word); }

static bool encode_between(rg_encoding_run *e, const rg_added_tokens *a, const rg_piece *text);

/* Encodes a part of a text in which none of the tokens `a` was found. A text is searched for the
 * tokens t->plain first. If `a` is that list, normalizes the part and searches it for the tokens
 * t->normalized next. Otherwise both searches are done: cuts the text into words and encodes the
 * words. */
static bool encode_rest(rg_encoding_run *e, const rg_added_tokens *a, const rg_piece *text,
                        size_t from, size_t to) {
    const rg_tokenizer *t = e->t;
    if (from >= to)
        return true;
    rg_piece part = rgi_piece_part(text, from, to);
    if (a == &t->plain)
        return rgi_normalize(t->norms, t->n_norms, &t->unicode, &e->norm, &part)
               && encode_between(e, &t->normalized, &part);
    return rgi_pretokenize(t->pres, t->n_pres, e->pre, &part, take_word, e);
}

/* Encodes a text. Searches it from left to right for the tokens of `a`. If several tokens begin at
 * the same character, takes the longest. Calls encode_rest for the text between the tokens. If a
 * token strips the white space on its right, the search for the next token still begins directly
 * after the token, in this white space. A token of white space that is found there is left out if
 * it strips, too, and nothing of it remains. Hugging Face's tokenizers do the same. */
static bool encode_between(rg_encoding_run *e, const rg_added_tokens *a, const rg_piece *text) {
    const rg_unicode *u = &e->t->unicode;
    const char *begin = text->v, *p = begin, *done = p, *end = p + text->n;
    while (a->n > 0 && p < end) {
        const rg_added_token *found = added_at(a, p, end);
        if (!found) {
            p++;
            continue;
        }
        const rg_token *token = &e->t->tokens[found->id];
        const char *from = p, *to = p + found->bytes;
        p = to;
        if (token->single_word && !stands_alone(u, begin, from, to, end))
            continue;
        if (token->lstrip)
            from = RG_MAX(space_before(u, begin, from), done);
        if (token->rstrip)
            to = space_behind(u, to, end);
        if (from >= to)
            continue;
        if (!encode_rest(e, a, text, (size_t)(done - begin), (size_t)(from - begin))
            || !rgi_ids_add(&e->ids, found->id, text, (size_t)(from - begin), (size_t)(to - begin)))
            return false;
        done = to;
    }
    return encode_rest(e, a, text, (size_t)(done - begin), (size_t)(end - begin));
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

bool rgi_encoding_begin(rg_encoding_run *e, const rg_tokenizer *t, size_t n, bool offsets) {
    *e = (rg_encoding_run){ .t = t, .n_seen = 16 };
    e->ids.aligned = offsets;
    e->norm.text[0].aligned = e->norm.text[1].aligned = offsets || t->by_first;
    for (size_t i = 0; i < t->n_pres; i++)
        e->pre[i].aligned = offsets || t->by_first;
    while (e->n_seen < SEEN_MOST && e->n_seen < n / 8)
        e->n_seen *= 2;
    e->seen = rgi_alloc(e->n_seen * sizeof *e->seen, RG_MEM_OTHER);
    if (e->seen)
        memset(e->seen, 0, e->n_seen * sizeof *e->seen);
    return e->seen;
}

bool rgi_encode_text(rg_encoding_run *e, const char *text, size_t n) {
    if (!check_utf8(text, n))
        return false;
    RG_FAIL_VALUE_IF(n > UINT32_MAX && e->norm.text[0].aligned, "tokenizer_encode",
                     "the text has 4 GB or more");
    const rg_piece piece = { text, n, NULL, 0 };
    return encode_between(e, &e->t->plain, &piece);
}

void rgi_encoding_end(rg_encoding_run *e) {
    rgi_ids_free(&e->ids);
    rgi_norm_room_free(&e->norm);
    for (size_t i = 0; i < RG_PRE_MOST; i++)
        rgi_aligned_free(&e->pre[i]);
    rgi_bpe_free(&e->model.word);
    rgi_free(e->model.name, e->model.name_room, RG_MEM_OTHER);
    rgi_free(e->model.nodes, e->model.nodes_room * sizeof *e->model.nodes, RG_MEM_OTHER);
    rgi_free(e->seen, e->n_seen * sizeof *e->seen, RG_MEM_OTHER);
}
