/*
 * tokenizer_decode.c: decodes ids, all at once or one by one. Each step of the decoder changes the
 * text of one token. Then the texts are joined; bytes among them become characters.
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

/* ---- bytes that aren't UTF-8 ---------------------------------------------------------- */

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

/* ---- the text of one token ------------------------------------------------------------ */

/* The decoding of a list of tokens. `raw` has bytes that aren't characters yet, and `out` the text
 * before them. `index` is the number of tokens before. */
typedef struct {
    const rg_tokenizer *t;
    rg_aligned work[2], raw, out;
    int last;
    int64_t index;
} decoding;

static void decoding_end(decoding *d) {
    rgi_aligned_free(&d->work[0]);
    rgi_aligned_free(&d->work[1]);
    rgi_aligned_free(&d->raw);
    rgi_aligned_free(&d->out);
}

/* Returns an empty text, which isn't the one that the last step wrote. */
static rg_aligned *next_work(decoding *d) {
    rg_aligned *to = &d->work[d->last = !d->last];
    to->n = 0;
    return to;
}

static bool begins(const rg_piece *p, size_t at, const char *text) {
    size_t n = strlen(text);
    return p->n - at >= n && memcmp(p->v + at, text, n) == 0;
}

/* Replaces each `from` in the piece by `by`. Returns false if memory runs out. */
static bool replace_text(decoding *d, rg_piece *p, const char *from, const char *by) {
    const size_t n = strlen(from);
    size_t at = 0;
    while (at < p->n && !begins(p, at, from))
        at++;
    if (at == p->n)
        return true;
    rg_aligned *to = next_work(d);
    size_t done = 0;
    for (; at < p->n; at++)
        if (begins(p, at, from)) {
            if (!rgi_aligned_copy(to, p, done, at) || !rgi_aligned_text(to, by, p, at))
                return false;
            done = at + n;
            at = done - 1;
        }
    if (!rgi_aligned_copy(to, p, done, p->n))
        return false;
    *p = rgi_aligned_piece(to);
    return true;
}

/* Removes blanks before punctuation and in contractions, as WordPiece's option cleanup does. */
static bool clean_up(decoding *d, rg_piece *p) {
    static const char *const pairs[][2] = {
        { " .", "." },   { " ?", "?" },     { " !", "!" },     { " ,", "," },
        { " ' ", "'" },  { " n't", "n't" }, { " 'm", "'m" },   { " do not", " don't" },
        { " 's", "'s" }, { " 've", "'ve" }, { " 're", "'re" },
    };
    for (int i = 0; i < RG_COUNT(pairs); i++)
        if (!replace_text(d, p, pairs[i][0], pairs[i][1]))
            return false;
    return true;
}

static bool put_blank_before(decoding *d, rg_piece *p) {
    rg_aligned *to = next_work(d);
    if (!rgi_aligned_text(to, " ", p, 0) || !rgi_aligned_copy(to, p, 0, p->n))
        return false;
    *p = rgi_aligned_piece(to);
    return true;
}

static bool decode_word(decoding *d, const rg_decode_step *s, rg_piece *p) {
    bool within = begins(p, 0, s->text);
    if (d->index > 0 && within)
        *p = rgi_piece_part(p, strlen(s->text), p->n);
    else if (d->index > 0 && !put_blank_before(d, p))
        return false;
    return !s->cleanup || clean_up(d, p);
}

static void strip_text(const rg_decode_step *s, rg_piece *p) {
    size_t n = strlen(s->text);
    for (int64_t i = 0; n > 0 && i < s->start && begins(p, 0, s->text); i++)
        *p = rgi_piece_part(p, n, p->n);
    for (int64_t i = 0; n > 0 && i < s->stop && p->n >= n && begins(p, p->n - n, s->text); i++)
        *p = rgi_piece_part(p, 0, p->n - n);
}

static bool replace_matches(decoding *d, const rg_decode_step *s, rg_piece *p) {
    rg_aligned *to = next_work(d);
    if (!rgi_replace(to, &s->regex, s->text, p))
        return false;
    *p = rgi_aligned_piece(to);
    return true;
}

/* Sets *p to the text of the next token, after the steps that change it. */
static bool token_text(decoding *d, int64_t id, rg_piece *p) {
    const rg_tokenizer *t = d->t;
    const char *text = t->tokens[id].decoded;
    *p = (rg_piece){ text, strlen(text), NULL, 0 };
    bool ok = !t->joined_by_blanks || d->index == 0 || put_blank_before(d, p);
    for (size_t i = 0; i < t->n_decoders && ok; i++) {
        const rg_decode_step *s = &t->decoders[i];
        if (s->kind == RG_DECODE_REPLACE)
            ok = replace_matches(d, s, p);
        else if (s->kind == RG_DECODE_STRIP)
            strip_text(s, p);
        else if (s->kind == RG_DECODE_WORDPIECE)
            ok = decode_word(d, s, p);
        else if (s->kind == RG_DECODE_BLANKS)
            ok = replace_text(d, p, s->text, s->start && d->index == 0 ? "" : " ");
    }
    d->index++;
    return ok;
}

/* ---- joining the texts ---------------------------------------------------------------- */

static const rg_decode_step *step_of_kind(const rg_tokenizer *t, rg_decode_kind kind) {
    for (size_t i = 0; i < t->n_decoders; i++)
        if (t->decoders[i].kind == kind)
            return &t->decoders[i];
    return NULL;
}

/* Returns the byte that vocabularies write as the character `code`, or -1 if there is none: the
 * inverse of rgi_byte_character. */
static int byte_of(uint32_t code) {
    if (code >= 0x100 && code < 0x121)
        return (int)code - 0x100;
    if (code >= 0x121 && code < 0x143)
        return (int)code - 0x121 + 0x7F;
    if (code == 0x143)
        return 0xAD;
    bool itself = (code > 0x20 && code < 0x7F) || (code > 0xA0 && code < 0x100 && code != 0xAD);
    return itself ? (int)code : -1;
}

/* Each character of a token in a byte-level vocabulary stands for a byte. Appends these bytes to
 * d->raw. If one of the characters stands for no byte, appends the token's text as it is. */
static bool put_bytes(decoding *d, const rg_piece *p) {
    const size_t before = d->raw.n;
    uint32_t code = 0;
    for (size_t i = 0; i < p->n; i += rgi_utf8_read(p->v + i, p->v + p->n, &code)) {
        rgi_utf8_read(p->v + i, p->v + p->n, &code);
        int byte = byte_of(code);
        if (byte < 0) {
            d->raw.n = before;
            return rgi_aligned_copy(&d->raw, p, 0, p->n);
        }
        const char one = (char)byte;
        if (!rgi_aligned_copy(&d->raw, &(rg_piece){ &one, 1, NULL, 0 }, 0, 1))
            return false;
    }
    return true;
}

/* Returns the byte of a token such as <0x0A>, or -1 if the text isn't one. */
static int fallback_byte(const rg_piece *p) {
    static const char digits[] = "0123456789ABCDEF";
    if (p->n != 6 || !begins(p, 0, "<0x") || p->v[5] != '>')
        return -1;
    const char *high = memchr(digits, p->v[3] >= 'a' ? p->v[3] - 32 : p->v[3], 16);
    const char *low = memchr(digits, p->v[4] >= 'a' ? p->v[4] - 32 : p->v[4], 16);
    return high && low ? (int)((high - digits) << 4 | (low - digits)) : -1;
}

/* Ends a run of bytes: if they are UTF-8, these characters are appended to the text, otherwise
 * U+FFFD for each byte. */
static bool end_bytes(decoding *d) {
    const rg_piece raw = { d->raw.v, d->raw.n, NULL, 0 };
    d->raw.n = 0;
    if (raw.n == 0 || rgi_is_utf8(raw.v, raw.n))
        return raw.n == 0 || rgi_aligned_copy(&d->out, &raw, 0, raw.n);
    for (size_t i = 0; i < raw.n; i++)
        if (!rgi_aligned_put(&d->out, 0xFFFD, &raw, i))
            return false;
    return true;
}

/* Adds the next token to d->out or d->raw. Returns false on failure. */
static bool decode_token(decoding *d, int64_t id) {
    rg_piece p;
    if (!token_text(d, id, &p))
        return false;
    if (step_of_kind(d->t, RG_DECODE_BYTES))
        return put_bytes(d, &p);
    int byte = step_of_kind(d->t, RG_DECODE_FALLBACK) ? fallback_byte(&p) : -1;
    const char one = (char)byte;
    if (byte >= 0)
        return rgi_aligned_copy(&d->raw, &(rg_piece){ &one, 1, NULL, 0 }, 0, 1);
    return end_bytes(d) && rgi_aligned_copy(&d->out, &p, 0, p.n);
}

/* Removes from the beginning of a text what the decoder removes there: `removed` is how many
 * characters it has removed before. Returns how many they are now. */
static int64_t strip_start(const rg_tokenizer *t, rg_piece *p, int64_t removed) {
    const rg_decode_step *s = step_of_kind(t, RG_DECODE_STRIP_START);
    size_t n = s ? strlen(s->text) : 0;
    for (; n > 0 && removed < s->start && begins(p, 0, s->text); removed++)
        *p = rgi_piece_part(p, n, p->n);
    return removed;
}

/* ---- decoding a list of ids ----------------------------------------------------------- */

/* Returns the decoded text, and sets *n to its length in bytes. Bytes that aren't UTF-8 become
 * U+FFFD, but if `kept` isn't NULL, an unfinished character at the end is left out, and *kept is
 * set to the number of its bytes. Returns NULL if memory runs out. */
static char *decoded_text(decoding *d, size_t *kept, size_t *n) {
    char *text = rgi_scope_alloc(d->out.n + 3 * d->raw.n + 1);
    if (!text)
        return NULL;
    if (d->out.n)
        memcpy(text, d->out.v, d->out.n);
    *n = d->out.n;
    if (kept)
        *kept = 0;
    if (d->raw.n)
        *n += copy_replacing(text + *n, d->raw.v, d->raw.n, kept);
    text[*n] = 0;
    return text;
}

/* Returns whether the token is decoded to the text of a special token. This isn't the token's own
 * text if the normalizer has changed it. */
static bool decodes_to_special(const rg_tokenizer *t, int64_t id) {
    const int64_t same = rgi_map_name(&t->names, t->tokens[id].decoded);
    return same >= 0 && t->tokens[same].special;
}

/* Returns the text of the ids, and sets *n to its length in bytes. Returns NULL on failure. */
static const char *decode_ids(const rg_tokenizer *t, const int64_t *ids, int64_t count, bool skip,
                              size_t *n) {
    decoding d = { .t = t };
    bool ok = true;
    for (int64_t i = 0; i < count && ok; i++)
        ok = rgi_is_token(t, ids[i], "tokenizer_decode")
             && ((skip && decodes_to_special(t, ids[i])) || decode_token(&d, ids[i]));
    ok = ok && (step_of_kind(t, RG_DECODE_BYTES) || end_bytes(&d));
    const char *text = ok ? decoded_text(&d, NULL, n) : NULL;
    decoding_end(&d);
    rg_piece p = { text, text ? *n : 0, NULL, 0 };
    if (text)
        strip_start(t, &p, 0);
    *n = p.n;
    return p.v;
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
    (void)rgi_given(t, "token_stream_begin", "a tokenizer");
    return (rg_token_stream){ .tokenizer = t };
}

/* Decodes a token behind the bytes that the stream holds. Returns the text, or NULL if memory runs
 * out. */
static char *stream_text(rg_token_stream *s, int64_t id, size_t *n) {
    decoding d = { .t = s->tokenizer, .index = s->n_tokens };
    const rg_piece held = { s->held, (size_t)s->n_held, NULL, 0 };
    size_t kept;
    bool ok = rgi_aligned_copy(&d.raw, &held, 0, held.n) && decode_token(&d, id);
    char *text = ok ? decoded_text(&d, &kept, n) : NULL;
    if (text) {
        memcpy(s->held, d.raw.v + d.raw.n - kept, kept);
        s->n_held = (int)kept;
    }
    decoding_end(&d);
    return text;
}

const char *(rg_token_stream_add)(rg_token_stream *s, int64_t id) {
    if (!rgi_given(s, "token_stream_add", "a stream")
        || !rgi_handle_given(s->tokenizer, "token_stream_add", RG_HANDLE_TOKENIZER)
        || !rgi_is_token(s->tokenizer, id, "token_stream_add"))
        return NULL;
    RG_FAIL_VALUE_IF(s->n_held < 0 || s->n_held > 3, "token_stream_add", "%d bytes are held",
                     s->n_held);
    size_t n = 0;
    char *text = stream_text(s, id, &n);
    if (!text)
        return NULL;
    rg_piece p = { text, n, NULL, 0 };
    s->n_tokens++;
    if (!s->begun)
        s->n_stripped = strip_start(s->tokenizer, &p, s->n_stripped);
    s->begun = s->begun || p.n > 0;
    s->length = (int64_t)p.n;
    return p.v;
}

const char *rg_token_stream_end(rg_token_stream *s) {
    if (!rgi_given(s, "token_stream_end", "a stream"))
        return NULL;
    static const char unknown[] = "\uFFFD\uFFFD\uFFFD";
    const bool each = s->n_held > 0 && s->n_held <= 3 && s->tokenizer
                      && step_of_kind(s->tokenizer, RG_DECODE_FALLBACK);
    const char *left = s->n_held ? unknown + 3 * (3 - (each ? s->n_held : 1)) : "";
    *s = rg_token_stream_begin(s->tokenizer);
    s->length = (int64_t)strlen(left);
    return left;
}
