/*
 * tokenizer.c: frees a tokenizer, looks up tokens by their ids and by their strings, and decodes
 * ids.
 */
#include "tokenizer_struct.h"
#include "tensor/dtype.h"
#include "tensor/error.h"
#include "tensor/files/utf8.h"
#include "tensor/memory.h"
#include "tensor/observer.h"
#include "tensor/text/text.h"
#include "autograd/ops/ops.h"

#include <string.h>

/* ---- making and freeing --------------------------------------------------------------- */

void rgi_tokenizer_drop(rg_tokenizer *t) {
    rgi_map_free(&t->names);
    rgi_merges_free(&t->merges);
    rgi_free(t->tokens, t->room * sizeof *t->tokens, RG_MEM_OTHER);
    rgi_free(t->bytes, t->bytes_room, RG_MEM_OTHER);
    rgi_free(t->bytes_at, t->bytes_at_room * sizeof *t->bytes_at, RG_MEM_OTHER);
    rgi_free(t->plain.v, t->plain.room * sizeof *t->plain.v, RG_MEM_OTHER);
    rgi_free(t->normalized.v, t->normalized.room * sizeof *t->normalized.v, RG_MEM_OTHER);
    rgi_free_handle(&t->handle, sizeof *t);
}

void rg_tokenizer_free(rg_tokenizer *t) {
    if (t && rgi_handle_given(t, "tokenizer_free", RG_HANDLE_TOKENIZER))
        rgi_tokenizer_drop(t);
}

size_t rgi_byte_character(unsigned char b, char *to) {
    uint32_t code = b;
    if (b < 0x21)
        code = 256u + b;
    else if (b >= 0x7F && b <= 0xA0)
        code = 256u + 33 + (b - 0x7Fu);
    else if (b == 0xAD)
        code = 256u + 67;
    return rgi_utf8_write(to, code);
}

/* ---- looking up tokens by id and by string -------------------------------------------- */

int64_t rg_tokenizer_size(const rg_tokenizer *t) {
    const bool given = rgi_handle_given(t, "tokenizer_size", RG_HANDLE_TOKENIZER);
    return given ? (int64_t)t->n : rgi_failed_count();
}

int64_t rg_tokenizer_id(const rg_tokenizer *t, const char *token) {
    if (!rgi_handle_given(t, "tokenizer_id", RG_HANDLE_TOKENIZER)
        || !rgi_given(token, "tokenizer_id", "a token"))
        return rgi_failed_count();
    int64_t id = rgi_map_name(&t->names, token);
    if (id >= 0)
        return id;
    rg_fail(RG_INDEX_ERROR, "tokenizer_id", "KeyError: '%s' is none of the %zu tokens", token,
            t->n);
    return rgi_failed_count();
}

static bool is_token(const rg_tokenizer *t, int64_t id, const char *op) {
    RG_FAIL_INDEX_IF(id < 0 || (uint64_t)id >= t->n, op, "index %lld is none of %zu tokens",
                     (long long)id, t->n);
    return true;
}

const char *(rg_tokenizer_token)(const rg_tokenizer *t, int64_t id) {
    if (!rgi_handle_given(t, "tokenizer_token", RG_HANDLE_TOKENIZER)
        || !is_token(t, id, "tokenizer_token"))
        return NULL;
    return t->tokens[id].text;
}

/* ---- decoding a list of ids ----------------------------------------------------------- */

/* Returns the length of a broken character at p: the number of bytes that Python's decoder replaces
 * by one U+FFFD. These are the bytes that could begin a valid character, or a single byte that
 * couldn't. Sets *unfinished to true if they reach the end of the text, because more bytes could
 * complete the character. Requires that no complete UTF-8 character begins at p. */
static size_t broken_character(const char *p, const char *end, bool *unfinished) {
    const unsigned char *u = (const unsigned char *)p;
    unsigned lead = u[0], low = 0x80, high = 0xBF;
    *unfinished = false;
    if (lead < 0xC2 || lead > 0xF4)
        return 1;
    const size_t have = (size_t)(end - p);
    /* After some first bytes, the range of the second byte is smaller. This excludes overlong
     * encodings, surrogates, and code points above U+10FFFF. */
    if (lead == 0xE0)
        low = 0xA0;
    else if (lead == 0xED)
        high = 0x9F;
    else if (lead == 0xF0)
        low = 0x90;
    else if (lead == 0xF4)
        high = 0x8F;
    for (size_t n = 1; n < have; n++) {
        if (u[n] < low || u[n] > high)
            return n;
        low = 0x80;
        high = 0xBF;
    }
    *unfinished = true;
    return have;
}

/* Copies n bytes to `to`, and replaces bytes that aren't valid UTF-8 by U+FFFD. `to` must have room
 * for 3 * n bytes. If `kept` isn't NULL, an unfinished character at the end is neither copied nor
 * replaced, and *kept is set to the number of its bytes (0 if there is none). Returns the number of
 * bytes that were written. */
static size_t copy_replacing(char *to, const char *p, size_t n, size_t *kept) {
    const char *end = p + n, *begin = to;
    while (p < end) {
        uint32_t code;
        bool unfinished;
        size_t wide = rgi_utf8_read(p, end, &code);
        if (wide > 0) {
            memcpy(to, p, wide);
            to += wide;
            p += wide;
            continue;
        }
        wide = broken_character(p, end, &unfinished);
        if (kept && unfinished)
            break;
        to += rgi_utf8_write(to, 0xFFFD);
        p += wide;
    }
    if (kept)
        *kept = (size_t)(end - p);
    return (size_t)(to - begin);
}

static size_t token_bytes(const rg_tokenizer *t, int64_t id) {
    return (size_t)(t->bytes_at[id + 1] - t->bytes_at[id]);
}

/* Sets *n to the number of bytes of all tokens together, and copies these bytes to `to`, unless
 * `to` is NULL. If `skip` is true, special tokens are left out. Fails and returns false if an id is
 * invalid or the text is too long. */
static bool join_tokens(const rg_tokenizer *t, const int64_t *ids, int64_t count, bool skip,
                        char *to, size_t *n) {
    *n = 0;
    for (int64_t i = 0; i < count; i++) {
        if (!is_token(t, ids[i], "tokenizer_decode"))
            return false;
        size_t bytes = token_bytes(t, ids[i]);
        if (skip && t->tokens[ids[i]].special)
            continue;
        if (to)
            memcpy(to + *n, t->bytes + t->bytes_at[ids[i]], bytes);
        RG_FAIL_IF(bytes > SIZE_MAX / 8 - *n, "tokenizer_decode", "the text is too long");
        *n += bytes;
    }
    return true;
}

/* Returns the text of the ids, and sets *n to its length in bytes. Returns NULL on failure. */
static const char *decode_ids(const rg_tokenizer *t, const int64_t *ids, int64_t count, bool skip,
                              size_t *n) {
    size_t bytes;
    if (!join_tokens(t, ids, count, skip, NULL, &bytes))
        return NULL;
    char *joined = rgi_alloc(bytes + 1, RG_MEM_OTHER), *text = NULL;
    if (joined && join_tokens(t, ids, count, skip, joined, n))
        text = rgi_scope_alloc(3 * bytes + 1);
    if (text) {
        *n = copy_replacing(text, joined, bytes, NULL);
        text[*n] = 0;
    }
    rgi_free(joined, bytes + 1, RG_MEM_OTHER);
    return text;
}

static const char *decode_tensor(const rg_tokenizer *t, rg_tensor *ids,
                                 rg_tokenizer_decode_options o) {
    if (!rgi_handle_given(t, "tokenizer_decode", RG_HANDLE_TOKENIZER)
        || !rg_check_tensor(ids, "tokenizer_decode"))
        return NULL;
    RG_FAIL_AS_IF(RG_TYPE_ERROR, !rgi_is_index(rg_dtype_of(ids)), "tokenizer_decode",
                  "expected indices of dtype torch.int64 but got %s",
                  rg_dtype_name(rg_dtype_of(ids)));
    rg_tensor *dense = rgi_may_do_once("tokenizer_decode") ? rg_keep(rg_contiguous(ids)) : NULL;
    if (!dense)
        return NULL;
    size_t n;
    const char *text = decode_ids(t, (const int64_t *)rg_data(dense), rg_numel(dense),
                                  o.skip_special_tokens, &n);
    rg_drop(dense);
    if (text && o.length)
        *o.length = (int64_t)n;
    return text;
}

const char *rg_tokenizer_decode_with(const rg_tokenizer *t, rg_tensor *ids,
                                     rg_tokenizer_decode_options o) {
    return rgi_told(decode_tensor(t, ids, o));
}

/* ---- decoding ids one by one ---------------------------------------------------------- */

rg_token_stream rg_token_stream_begin(const rg_tokenizer *t) {
    return (rg_token_stream){ .tokenizer = t };
}

const char *(rg_token_stream_add)(rg_token_stream *s, int64_t id) {
    if (!rgi_given(s, "token_stream_add", "a stream")
        || !rgi_handle_given(s->tokenizer, "token_stream_add", RG_HANDLE_TOKENIZER)
        || !is_token(s->tokenizer, id, "token_stream_add"))
        return NULL;
    RG_FAIL_VALUE_IF(s->n_held < 0 || s->n_held > 3, "token_stream_add", "%d bytes are held",
                     s->n_held);
    size_t held = (size_t)s->n_held, bytes = held + token_bytes(s->tokenizer, id), kept;
    char *joined = rgi_alloc(bytes + 1, RG_MEM_OTHER), *text = rgi_scope_alloc(3 * bytes + 1);
    if (joined && text) {
        memcpy(joined, s->held, held);
        memcpy(joined + held, s->tokenizer->bytes + s->tokenizer->bytes_at[id], bytes - held);
        s->length = (int64_t)copy_replacing(text, joined, bytes, &kept);
        text[s->length] = 0;
        memcpy(s->held, joined + bytes - kept, kept);
        s->n_held = (int)kept;
    }
    bool ok = joined;
    rgi_free(joined, bytes + 1, RG_MEM_OTHER);
    return ok ? text : NULL;
}

const char *rg_token_stream_end(rg_token_stream *s) {
    if (!rgi_given(s, "token_stream_end", "a stream"))
        return NULL;
    const char *left = s->n_held ? "\xEF\xBF\xBD" : "";
    s->n_held = 0;
    s->length = (int64_t)strlen(left);
    return left;
}
