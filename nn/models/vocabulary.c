/*
 * vocabulary.c: encodes the tokens of a text as indices, and decodes indices.
 */
#include "vocabulary.h"
#include "tensor/dtype.h"
#include "tensor/error.h"
#include "tensor/files/utf8.h"
#include "tensor/handle.h"
#include "tensor/memory.h"
#include "tensor/observer.h"
#include "tensor/text/text.h"
#include "autograd/ops/ops.h"
#include "tensor/map.h"

#include <stdlib.h>
#include <string.h>

/* ---- cutting a text into tokens ------------------------------------------------ */

/* Copies the UTF-8 character at p to `token`, and returns the position after it. At the end of the
 * text, `token` becomes "". */
static const char *copy_character(const char *p, char *token) {
    char *end = token;
    if (*p) {
        do {
            *end++ = *p++;
        } while ((*p & 0xc0) == 0x80 && end < token + 4);
    }
    *end = 0;
    return p;
}

/* Returns the number of bytes of the white space character at p, or 0 if Python's split() doesn't
 * cut words at the character there. Requires that the text doesn't end at p. */
static size_t space_at(const char *p) {
    uint32_t c = 0;
    if ((unsigned char)*p < 0x80)
        return strchr(" \t\n\v\f\r\x1c\x1d\x1e\x1f", *p) != NULL;
    /* rgi_utf8_read reads nothing after the text's final NUL, because a NUL continues no
     * character. */
    const size_t n = rgi_utf8_read(p, p + 4, &c);
    const bool is_space = c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A)
                          || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F
                          || c == 0x3000;
    return is_space ? n : 0;
}

/* Copies the first word at or after p to `token`, without the bytes in `drop`. Returns the position
 * after the word. If no word is left, `token` becomes "". */
static const char *copy_word(const char *p, const char *drop, char *token) {
    char *end = token;
    for (size_t n = 0; *p; p += RG_MAX(n, 1)) {
        n = space_at(p);
        if (n && end > token)
            break;
        if (!n && !strchr(drop, *p))
            *end++ = *p;
    }
    *end = 0;
    return p;
}

/* Copies the next token of *text to `token`, and moves *text to the position after it. Returns
 * false at the end of the text. */
static bool next_token(const rg_vocabulary *v, const char **text, char *token) {
    *text = v->characters ? copy_character(*text, token) : copy_word(*text, v->drop, token);
    return *token;
}

/* ---- making a vocabulary from a text ------------------------------------------- */

static int by_bytes(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Adds each token of the text to the map v->index, once. The tokens' indices are set later, by
 * number_tokens. Returns false if memory runs out. */
static bool collect_tokens(rg_vocabulary *v, const char *text) {
    RG_SCOPE();
    char *token = rgi_scope_alloc(strlen(text) + 1);
    bool ok = token;
    while (ok && next_token(v, &text, token))
        ok = rgi_map_name(v->index, token) >= 0 || rgi_map_put_name(v->index, token, 0);
    return ok;
}

/* Sorts the tokens, and gives each of them its index. The token `unknown`, if it isn't NULL and
 * doesn't occur in the text, comes last. Returns false if memory runs out. */
static bool number_tokens(rg_vocabulary *v, const char *unknown) {
    size_t n = rgi_map_names(v->index);
    bool added = unknown && rgi_map_name(v->index, unknown) < 0;
    if (added && !rgi_map_put_name(v->index, unknown, 0))
        return false;
    v->n = (int64_t)(n + added);
    v->tokens_bytes = (n + 1) * sizeof *v->tokens;
    v->tokens = rgi_alloc(v->tokens_bytes, RG_MEM_OTHER);
    if (!v->tokens)
        return false;
    for (size_t i = 0; i < n + added; i++)
        v->tokens[i] = rgi_map_name_at(v->index, i);
    qsort(v->tokens, n, sizeof *v->tokens, by_bytes);
    for (size_t i = 0; i < n + added; i++)
        if (!rgi_map_put_name(v->index, v->tokens[i], (int64_t)i))
            return false;
    v->unknown = unknown ? rgi_map_name(v->index, unknown) : -1;
    return true;
}

static bool build_vocabulary(rg_vocabulary *v, const char *text, rg_vocabulary_options o) {
    v->index = rgi_alloc(sizeof *v->index, RG_MEM_OTHER);
    if (!v->index)
        return false;
    *v->index = (rg_map){ 0 };
    return rgi_rename(&v->drop, o.drop ? o.drop : "") && collect_tokens(v, text)
           && number_tokens(v, o.unknown);
}

rg_vocabulary *rg_vocabulary_new_with(const char *text, rg_vocabulary_options o) {
    if (!rgi_given(text, "vocabulary_new", "a text"))
        return NULL;
    rg_vocabulary *v = rgi_alloc(sizeof *v, RG_MEM_OTHER);
    if (!v)
        return NULL;
    *v = (rg_vocabulary){ .handle = RG_NEW_HANDLE(VOCABULARY), .characters = o.characters };
    if (build_vocabulary(v, text, o))
        return v;
    rg_vocabulary_free(v);
    return NULL;
}

void rg_vocabulary_free(rg_vocabulary *v) {
    if (!v || !rgi_handle_given(v, "vocabulary_free", RG_HANDLE_VOCABULARY))
        return;
    if (v->index)
        rgi_map_free(v->index);
    rgi_free(v->index, sizeof *v->index, RG_MEM_OTHER);
    rgi_free(v->tokens, v->tokens_bytes, RG_MEM_OTHER);
    rgi_rename(&v->drop, NULL);
    rgi_free_handle(&v->handle, sizeof *v);
}

/* ---- encoding and decoding ----------------------------------------------------- */

int64_t rg_vocabulary_index(const rg_vocabulary *v, const char *token) {
    if (!rgi_handle_given(v, "vocabulary_index", RG_HANDLE_VOCABULARY)
        || !rgi_given(token, "vocabulary_index", "a token"))
        return rgi_failed_count();
    int64_t at = rgi_map_name(v->index, token);
    if (at >= 0)
        return at;
    if (v->unknown >= 0)
        return v->unknown;
    rg_fail(RG_INDEX_ERROR, "vocabulary_index", "KeyError: '%s' is none of the %lld tokens", token,
            (long long)v->n);
    return rgi_failed_count();
}

rg_tensor *rg_encode(const rg_vocabulary *v, const char *text) {
    RG_AS("encode");
    RG_SCOPE();
    if (!rgi_handle_given(v, "encode", RG_HANDLE_VOCABULARY)
        || !rgi_given(text, "encode", "a text"))
        return NULL;
    char *token = rgi_scope_alloc(strlen(text) + 1);
    int64_t *index = token ? rgi_scope_alloc(strlen(text) * sizeof *index) : NULL;
    if (!index)
        return NULL;
    int64_t n = 0;
    for (; next_token(v, &text, token); n++) {
        index[n] = rg_vocabulary_index(v, token);
        if (index[n] < 0)
            return NULL;
    }
    return rg_escape(rg_from_int64(index, RG_DIMS(n)));
}

/* Appends the tokens of these indices to the text. Fails, and returns false, if an index has no
 * token. */
static bool decode_to(rg_text *text, const rg_vocabulary *v, const int64_t *index, int64_t n) {
    for (int64_t i = 0; i < n && !text->failed; i++) {
        RG_FAIL_INDEX_IF(index[i] < 0 || index[i] >= v->n, "decode",
                         "index %lld is none of %lld tokens", (long long)index[i], (long long)v->n);
        const char *between = i && !v->characters ? " " : "";
        rgi_text_add(text, "%s%s", between, v->tokens[index[i]]);
    }
    return true;
}

static const char *decode_words(const rg_vocabulary *v, rg_tensor *indices) {
    if (!rgi_handle_given(v, "decode", RG_HANDLE_VOCABULARY)
        || !rg_check_tensor(indices, "decode"))
        return NULL;
    RG_FAIL_AS_IF(RG_TYPE_ERROR, !rgi_is_index(rg_dtype_of(indices)), "decode",
                  "expected indices of dtype torch.int64 but got %s",
                  rg_dtype_name(rg_dtype_of(indices)));
    rg_tensor *dense = rgi_may_do_once("decode") ? rg_keep(rg_contiguous(indices)) : NULL;
    if (!dense)
        return NULL;
    rg_text text = { 0 };
    rgi_text_add(&text, "%s", "");
    if (!decode_to(&text, v, (const int64_t *)rg_data(dense), rg_numel(dense)))
        text.failed = true;
    rg_drop(dense);
    return rgi_text_own(&text);
}

const char *rg_decode(const rg_vocabulary *v, rg_tensor *indices) {
    return rgi_told(decode_words(v, indices));
}
