/*
 * tokenizer_model.c: makes tokens of one word by the models BPE (whose merges are in bpe.c),
 * WordPiece and WordLevel. unigram.c has the model Unigram.
 */
#include "tokenizer_model.h"
#include "tensor/error.h"
#include "tensor/files/utf8.h"
#include "tensor/memory.h"

#include <string.h>

bool rgi_ids_add(rg_ids *ids, int64_t id, const rg_piece *word, size_t from, size_t to) {
    if (ids->n == ids->room && !rgi_grow((void **)&ids->v, &ids->room, ids->n + 1, sizeof id))
        return false;
    if (ids->aligned) {
        if (!rgi_grow((void **)&ids->span, &ids->span_room, ids->n + 1, sizeof *ids->span))
            return false;
        ids->span[ids->n] = rgi_piece_span(word, from, to);
    }
    ids->v[ids->n++] = id;
    return true;
}

void rgi_ids_free(rg_ids *ids) {
    rgi_free(ids->v, ids->room * sizeof *ids->v, RG_MEM_OTHER);
    rgi_free(ids->span, ids->span_room * sizeof *ids->span, RG_MEM_OTHER);
}

int64_t rgi_model_token(const rg_tokenizer *t, rg_model_room *room, const char *before,
                        const char *p, size_t n, const char *after) {
    size_t more = before ? strlen(before) : 0, behind = after ? strlen(after) : 0;
    if (more + n + behind > t->longest || memchr(p, 0, n))
        return -1;
    if (!rgi_grow((void **)&room->name, &room->name_room, more + n + behind + 1, 1))
        return -2;
    if (more)
        memcpy(room->name, before, more);
    memcpy(room->name + more, p, n);
    if (behind)
        memcpy(room->name + more + n, after, behind);
    room->name[more + n + behind] = 0;
    int64_t id = rgi_map_name(&t->names, room->name);
    return id >= 0 && t->tokens[id].model ? id : -1;
}

/* ---- BPE ------------------------------------------------------------------------------ */

/* Returns the id of the word if the whole word is a token of the vocabulary. Returns -1 if it
 * isn't, and -2 if memory runs out. */
static int64_t whole_word(const rg_tokenizer *t, rg_model_room *room, const rg_piece *word) {
    if (word->n > t->longest)
        return -1;
    if (!t->bytes)
        return rgi_model_token(t, room, NULL, word->v, word->n, NULL);
    if (!rgi_grow((void **)&room->name, &room->name_room, 2 * word->n + 1, 1))
        return -2;
    char *to = room->name;
    for (size_t i = 0; i < word->n; i++)
        to += rgi_byte_character((unsigned char)word->v[i], to);
    *to = 0;
    int64_t id = rgi_map_name(&t->names, room->name);
    return id >= 0 && t->tokens[id].model ? id : -1;
}

/* Returns the token of the character of `wide` bytes at offset `at`: -1 if there is none, and -2 if
 * memory runs out. */
static int64_t character(const rg_tokenizer *t, rg_model_room *room, const rg_piece *word,
                         size_t at, size_t wide) {
    if (t->bytes)
        return t->of_byte[(unsigned char)word->v[at]];
    const char *suffix = at + wide == word->n ? t->suffix : NULL;
    return rgi_model_token(t, room, at ? t->prefix : NULL, word->v + at, wide, suffix);
}

/* Appends the tokens of the character's bytes to the word. Returns 1, 0 if one of them has no
 * token, and -1 if memory runs out. */
static int add_bytes(const rg_tokenizer *t, rg_bpe *to, const char *p, size_t n) {
    bool all = t->byte_fallback;
    for (size_t i = 0; i < n; i++)
        all = all && t->of_byte[(unsigned char)p[i]] >= 0;
    for (size_t i = 0; i < n && all; i++)
        if (!rgi_bpe_add(to, (uint32_t)t->of_byte[(unsigned char)p[i]], 1))
            return -1;
    return all;
}

/* Appends the token of each character of the word to room->word. A character without a token
 * becomes the tokens of its bytes, or the unknown token. With fuse_unknown, several unknown ones
 * become a single token. If the tokenizer has no unknown token, such a character is dropped. The
 * unknown token is appended before the next known character; bytes may come before it, as in
 * Hugging Face's tokenizers. Returns false on failure. */
static bool take_characters(const rg_tokenizer *t, rg_model_room *room, const rg_piece *word) {
    size_t unknown = 0;
    rg_bpe *to = &room->word;
    for (size_t at = 0, wide; at < word->n; at += wide) {
        uint32_t code;
        wide = t->bytes ? 1 : rgi_utf8_read(word->v + at, word->v + word->n, &code);
        int64_t id = character(t, room, word, at, wide);
        int as_bytes = id == -1 ? add_bytes(t, to, word->v + at, wide) : 0;
        if (id == -2 || as_bytes < 0)
            return false;
        if (as_bytes || (id < 0 && t->unknown < 0))
            continue;
        bool ends = unknown && (id >= 0 || !t->fuse_unknown);
        if (ends && !rgi_bpe_add(to, (uint32_t)t->unknown, unknown))
            return false;
        unknown = ends ? 0 : unknown;
        if (id >= 0 && !rgi_bpe_add(to, (uint32_t)id, wide))
            return false;
        unknown += id < 0 ? wide : 0;
    }
    return unknown == 0 || rgi_bpe_add(to, (uint32_t)t->unknown, unknown);
}

static bool bpe_word(const rg_tokenizer *t, rg_model_room *room, rg_ids *ids,
                     const rg_piece *word) {
    int64_t id = t->ignore_merges ? whole_word(t, room, word) : -1;
    if (id != -1)
        return id >= 0 && rgi_ids_add(ids, id, word, 0, word->n);
    if (!take_characters(t, room, word) || !rgi_bpe_merge(&room->word, &t->merges))
        return false;
    size_t from = 0, bytes;
    for (uint32_t at = 0; rgi_bpe_next(&room->word, &at, &id, &bytes); from += bytes)
        if (!rgi_ids_add(ids, id, word, from, from + bytes))
            return false;
    room->word.n = 0;
    return true;
}

/* ---- WordPiece and WordLevel ---------------------------------------------------------- */

static bool unknown_word(const rg_tokenizer *t, rg_ids *ids, const rg_piece *word) {
    RG_FAIL_VALUE_IF(t->unknown < 0, "tokenizer_encode",
                     "the word \"%.*s\" isn't in the vocabulary, nor is a token for such words",
                     (int)RG_MIN(word->n, 100), word->v);
    return rgi_ids_add(ids, t->unknown, word, 0, word->n);
}

static bool too_long(const rg_tokenizer *t, const rg_piece *word) {
    int64_t n = 0;
    for (size_t i = 0; i < word->n; i++)
        n += (word->v[i] & 0xC0) != 0x80;
    return n > t->most_characters;
}

/* Takes the longest token with which the word begins, then the longest one that continues it, and
 * so on. If that fails, the whole word is unknown. */
static bool wordpiece_word(const rg_tokenizer *t, rg_model_room *room, rg_ids *ids,
                           const rg_piece *word) {
    if (too_long(t, word))
        return unknown_word(t, ids, word);
    const size_t before = ids->n;
    for (size_t from = 0, to; from < word->n; from = to) {
        int64_t id = -1;
        to = RG_MIN(word->n, from + t->longest);
        for (; to > from && id == -1; to -= id == -1)
            if (to == word->n || (word->v[to] & 0xC0) != 0x80)
                id = rgi_model_token(t, room, from ? t->prefix : NULL, word->v + from, to - from,
                                     NULL);
        if (id == -1) {
            ids->n = before;
            return unknown_word(t, ids, word);
        }
        if (id < 0 || !rgi_ids_add(ids, id, word, from, to))
            return false;
    }
    return true;
}

static bool wordlevel_word(const rg_tokenizer *t, rg_model_room *room, rg_ids *ids,
                           const rg_piece *word) {
    int64_t id = rgi_model_token(t, room, NULL, word->v, word->n, NULL);
    if (id == -1)
        return unknown_word(t, ids, word);
    return id >= 0 && rgi_ids_add(ids, id, word, 0, word->n);
}

/* ---- any model ------------------------------------------------------------------------ */

int rgi_model_bytes(const rg_tokenizer *t, rg_ids *ids, const rg_piece *word, size_t from,
                    size_t to) {
    bool all = t->byte_fallback;
    for (size_t i = from; i < to; i++)
        all = all && t->of_byte[(unsigned char)word->v[i]] >= 0;
    for (size_t i = from; i < to && all; i++)
        if (!rgi_ids_add(ids, t->of_byte[(unsigned char)word->v[i]], word, from, to))
            return -1;
    return all;
}

bool rgi_model_word(const rg_tokenizer *t, rg_model_room *room, rg_ids *ids, const rg_piece *word) {
    switch (t->model) {
    case RG_MODEL_BPE: return bpe_word(t, room, ids, word);
    case RG_MODEL_WORDPIECE: return wordpiece_word(t, room, ids, word);
    case RG_MODEL_WORDLEVEL: return wordlevel_word(t, room, ids, word);
    case RG_MODEL_UNIGRAM: break;
    }
    return false;
}
