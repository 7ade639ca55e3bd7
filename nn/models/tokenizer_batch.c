/*
 * tokenizer_batch.c: encodes one text or a batch: cuts the texts to a length, puts them into the
 * template with its special tokens, and fills up the rows of a batch to the same length.
 */
#include "tokenizer_encode.h"
#include "tensor/error.h"
#include "tensor/files/utf8.h"
#include "tensor/memory.h"
#include "autograd/ops/ops.h"

#include <string.h>

/* A row of a batch. The tokens of its text number i are count[i] ids from begin[i] on in the list
 * of all ids. `n` is the number of tokens in the row, special ones included. */
typedef struct {
    size_t begin[2], count[2], n;
    const char *text[2];
} batch_row;

/* The way in which each row is made. */
typedef struct {
    const char *op;
    const rg_template *template;
    size_t texts; /* One or two in each row. */
    bool special; /* Special tokens are added. */
    rg_fit truncation, padding;
} batch_way;

/* ---- cutting and filling up ----------------------------------------------------------- */

static size_t special_tokens(const batch_way *way) {
    size_t n = 0;
    for (size_t i = 0; i < way->template->n && way->special; i++)
        n += way->template->v[i].n;
    return n;
}

/* Leaves `keep` tokens of a text of the row. */
static void cut_text(const batch_way *way, batch_row *row, int text, size_t keep) {
    if (row->count[text] <= keep)
        return;
    if (way->truncation.left)
        row->begin[text] += row->count[text] - keep;
    row->count[text] = keep;
}

/* Cuts two texts to `most` tokens together: the longer one, and then both to the same length. */
static void cut_longest(const batch_way *way, batch_row *row, size_t most) {
    int longer = row->count[0] > row->count[1] ? 0 : 1;
    size_t n1 = row->count[!longer];
    size_t n2 = n1 > most ? n1 : RG_MAX(n1, most - n1);
    if (n1 + n2 > most) {
        n1 = most / 2;
        n2 = n1 + most % 2;
    }
    cut_text(way, row, !longer, n1);
    cut_text(way, row, longer, n2);
}

/* Cuts the texts of a row, so that with special tokens the row has no more tokens than
 * truncation.length. */
static bool cut_row(const batch_way *way, batch_row *row) {
    const size_t added = special_tokens(way), both = row->count[0] + row->count[1];
    const rg_fit *cut = &way->truncation;
    if (!cut->given)
        return true;
    RG_FAIL_VALUE_IF((uint64_t)cut->length < added, way->op,
                     "max_length is %lld, but %zu special tokens are added", (long long)cut->length,
                     added);
    const size_t most = (size_t)cut->length - added;
    if (both <= most)
        return true;
    if (cut->strategy == RG_LONGEST_FIRST || most == 0) {
        if (way->texts == 2 && most > 0)
            cut_longest(way, row, most);
        else
            for (int text = 0; text < 2; text++)
                cut_text(way, row, text, most);
        return true;
    }
    int text = cut->strategy == RG_ONLY_SECOND;
    RG_FAIL_VALUE_IF(row->count[text] <= both - most, way->op,
                     "the %s text is too short to be cut to max_length %lld",
                     text ? "second" : "first", (long long)cut->length);
    cut_text(way, row, text, row->count[text] - (both - most));
    return true;
}

/* Returns the number of tokens to which all n rows are filled up. */
static size_t padded_length(const rg_fit *padding, const batch_row *rows, size_t n) {
    size_t length = padding->length > 0 ? (size_t)padding->length : 0;
    size_t multiple = (size_t)padding->multiple;
    for (size_t i = 0; i < n && padding->length < 0; i++)
        length = RG_MAX(length, rows[i].n);
    if (multiple > 0 && length % multiple > 0)
        length += multiple - length % multiple;
    return length;
}

/* ---- offsets -------------------------------------------------------------------------- */

/* Returns the number of characters of white space at the beginning of the text from p to `end`, or
 * with `back` at its end. A single one doesn't count if `but_one`. U+0120 counts as white space,
 * for tokens have it for the blank. */
static size_t count_spaces(const rg_unicode *u, const char *p, const char *end, bool back,
                           bool but_one) {
    size_t n, count = 0;
    while (p < end) {
        uint32_t is = back ? rgi_unicode_before(u, p, end, &n) : rgi_unicode_at(u, p, end, &n);
        const char *at = back ? end - n : p;
        if (!(is & RG_UNICODE_SPACE) && !(n == 2 && memcmp(at, "\u0120", 2) == 0))
            break;
        count++;
        p += back ? 0 : n;
        end -= back ? n : 0;
    }
    return but_one && count == 1 ? 0 : count;
}

/* Returns whether a character of UTF-8 goes on with this byte. */
static bool goes_on(char byte) { return ((unsigned char)byte & 0xc0) == 0x80; }

/* Returns the place that is n characters after `at` in the text, and at most `end`. */
static uint32_t after_characters(const char *text, uint32_t at, uint32_t end, size_t n) {
    for (; n > 0 && at < end; n--) {
        at++;
        while (at < end && goes_on(text[at]))
            at++;
    }
    return at;
}

/* Returns the place that is n characters before `at` in the text, or `at` if the text has fewer
 * characters before it. */
static uint32_t before_characters(const char *text, uint32_t at, size_t n) {
    uint32_t to = at;
    for (; n > 0; n--) {
        if (to == 0)
            return at;
        to--;
        while (to > 0 && goes_on(text[to]))
            to--;
    }
    return to;
}

/* Takes white space at the ends of tokens out of their offsets, for a text's n tokens: a character
 * of the text for each character of the token, as tokenizers does. An added token may have stripped
 * white space of the text. */
static void trim_offsets(const rg_tokenizer *t, const char *text, const int64_t *ids,
                         rg_byte_range *range, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const rg_token *token = &t->tokens[ids[i]];
        const char *p = token->added ? text + range[i].from : token->text;
        const char *end = token->added ? text + range[i].to : p + token->bytes;
        bool put_there = t->trim_prefixed && (i == 0 || range[i].from == 0);
        size_t before = count_spaces(&t->unicode, p, end, false, put_there);
        size_t behind = count_spaces(&t->unicode, p, end, true, false);
        range[i].from = after_characters(text, range[i].from, range[i].to, before);
        range[i].to = RG_MAX(before_characters(text, range[i].to, behind), range[i].from);
    }
}

/* ---- writing rows --------------------------------------------------------------------- */

/* The arrays of numbers that become tensors. NULL for those that nobody asks for. */
typedef struct {
    int64_t *ids, *types, *attention, *special, *offsets;
} batch_arrays;

static void put_number(int64_t *to, size_t at, int64_t number) {
    if (to)
        to[at] = number;
}

static void put_token(const batch_arrays *to, size_t at, int64_t id, int64_t type, bool special,
                      bool attention) {
    to->ids[at] = id;
    put_number(to->types, at, type);
    put_number(to->attention, at, attention);
    put_number(to->special, at, special);
    put_number(to->offsets, 2 * at, 0);
    put_number(to->offsets, 2 * at + 1, 0);
}

/* Writes the tokens of a piece of the template from `at` on. Returns the index behind them. */
static size_t put_piece(const batch_arrays *to, size_t at, const rg_encoding_run *e,
                        const batch_way *way, const batch_row *row,
                        const rg_template_piece *piece) {
    if (piece->sequence < 0) {
        for (size_t i = 0; i < piece->n && way->special; i++)
            put_token(to, at++, e->t->template_ids[piece->first + i], piece->type, true, true);
        return at;
    }
    const size_t begin = row->begin[piece->sequence], n = row->count[piece->sequence];
    if (to->offsets && e->t->trim)
        trim_offsets(e->t, row->text[piece->sequence], e->ids.v + begin, e->ids.span + begin, n);
    for (size_t i = begin; i < begin + n; i++, at++) {
        put_token(to, at, e->ids.v[i], piece->type, false, true);
        if (to->offsets) {
            to->offsets[2 * at] = e->ids.span[i].from;
            to->offsets[2 * at + 1] = e->ids.span[i].to;
        }
    }
    return at;
}

/* Writes a row of `length` tokens from `at` on. */
static void put_row(const batch_arrays *to, size_t at, size_t length, const rg_encoding_run *e,
                    const batch_way *way, const batch_row *row) {
    const rg_fit *pad = &way->padding;
    const size_t end = at + length, more = length - row->n;
    for (size_t i = 0; i < more && pad->left; i++)
        put_token(to, at++, pad->id, pad->type, true, false);
    for (size_t i = 0; i < way->template->n; i++)
        at = put_piece(to, at, e, way, row, &way->template->v[i]);
    while (at < end)
        put_token(to, at++, pad->id, pad->type, true, false);
}

/* ---- encoding rows -------------------------------------------------------------------- */

/* A text of n bytes. */
typedef struct {
    const char *v;
    size_t n;
} batch_text;

/* Encodes the texts of one row, and cuts them. */
static bool encode_row(rg_encoding_run *e, const batch_way *way, const batch_text *texts,
                       batch_row *row) {
    *row = (batch_row){ { 0 }, { 0 }, 0, { NULL } };
    for (size_t i = 0; i < way->texts; i++) {
        row->begin[i] = e->ids.n;
        row->text[i] = texts[i].v;
        if (!rgi_encode_text(e, texts[i].v, texts[i].n))
            return false;
        row->count[i] = e->ids.n - row->begin[i];
    }
    if (!cut_row(way, row))
        return false;
    row->n = row->count[0] + row->count[1] + special_tokens(way);
    return true;
}

/* Encodes n rows of way->texts texts each. The scope owns *rows. Sets *length to the length of the
 * longest row, or that to which they are filled up. */
static bool encode_rows(rg_encoding_run *e, const batch_way *way, const batch_text *texts, size_t n,
                        batch_row **rows, size_t *length) {
    *rows = rgi_scope_alloc(n * sizeof **rows);
    if (!*rows)
        return false;
    for (size_t i = 0; i < n; i++)
        if (!encode_row(e, way, texts + i * way->texts, *rows + i))
            return false;
    *length = padded_length(&(rg_fit){ .length = -1 }, *rows, n);
    if (way->padding.given)
        *length = RG_MAX(*length, padded_length(&way->padding, *rows, n));
    return true;
}

static size_t longest_text(const batch_text *texts, size_t n) {
    size_t most = 0;
    for (size_t i = 0; i < n; i++)
        most = RG_MAX(most, texts[i].n);
    return most;
}

/* Chooses what is done with each row. Fails and returns false if there is no template for pairs. */
static bool choose_way(const rg_tokenizer *t, batch_way *way, bool pairs, bool special) {
    way->texts = pairs ? 2 : 1;
    way->template = pairs ? &t->pair : &t->single;
    way->special = special;
    way->truncation = t->truncation;
    way->padding = t->padding;
    RG_FAIL_VALUE_IF(way->template->n == 0, way->op, "the tokenizer has no template for pairs");
    return true;
}

/* ---- one text ------------------------------------------------------------------------- */

/* Returns the n ids of a row. If they are the text's own, they are copied only once. */
static rg_tensor *ids_of_row(const rg_encoding_run *e, const batch_way *way, const batch_row *row,
                             size_t n) {
    if (n == row->count[0] && n > 0)
        return rg_from_int64(e->ids.v + row->begin[0], RG_DIMS((int64_t)n));
    batch_arrays to = { .ids = rgi_scope_alloc(n * sizeof *to.ids) };
    if (!to.ids)
        return NULL;
    put_row(&to, 0, n, e, way, row);
    return rg_from_int64(to.ids, RG_DIMS((int64_t)n));
}

static rg_tensor *encode_one(const rg_tokenizer *t, const batch_way *way, const batch_text *texts) {
    RG_SCOPE();
    rg_encoding_run e;
    batch_row *row;
    size_t n = 0;
    rg_tensor *ids = NULL;
    if (rgi_encoding_begin(&e, t, longest_text(texts, way->texts), false)
        && encode_rows(&e, way, texts, 1, &row, &n))
        ids = ids_of_row(&e, way, row, n);
    rgi_encoding_end(&e);
    return ids ? rg_escape(ids) : NULL;
}

rg_tensor *rg_tokenizer_encode_with(const rg_tokenizer *t, const char *text,
                                    rg_tokenizer_encode_options o) {
    RG_AS("tokenizer_encode");
    batch_way way = { .op = "tokenizer_encode" };
    if (!rgi_handle_given(t, "tokenizer_encode", RG_HANDLE_TOKENIZER)
        || !rgi_given(text, "tokenizer_encode", "a text"))
        return NULL;
    RG_FAIL_VALUE_IF(o.length < -1, "tokenizer_encode", "the length %lld is negative",
                     (long long)o.length);
    if (!choose_way(t, &way, o.pair, o.add_special_tokens))
        return NULL;
    const batch_text texts[] = { { text, o.length < 0 ? strlen(text) : (size_t)o.length },
                                 { o.pair, o.pair ? strlen(o.pair) : 0 } };
    return encode_one(t, &way, texts);
}

/* ---- a batch -------------------------------------------------------------------------- */

static const char batch_op[] = "tokenizer_encode_batch";

/* Applies the options to what the file says. */
static bool apply_options(const rg_tokenizer *t, batch_way *way,
                          const rg_tokenizer_batch_options *o) {
    RG_FAIL_VALUE_IF(o->max_length < -1 || o->pad_to < -1, batch_op,
                     "max_length %lld or pad_to %lld is negative", (long long)o->max_length,
                     (long long)o->pad_to);
    RG_FAIL_INDEX_IF(o->pad_token_id < -1 || o->pad_token_id >= (int64_t)t->n, batch_op,
                     "pad_token_id %lld is none of %zu tokens", (long long)o->pad_token_id, t->n);
    if (o->max_length >= 0) {
        way->truncation.given = true;
        way->truncation.length = o->max_length;
    }
    if (o->pad_to >= 0) {
        way->padding.given = true;
        way->padding.length = o->pad_to;
        way->padding.multiple = 0;
    }
    if (o->pad_token_id >= 0)
        way->padding.id = o->pad_token_id;
    return true;
}

/* Returns the texts of the batch, row by row. The scope owns the list. */
static batch_text *batch_texts(rg_names texts, rg_names pairs) {
    RG_FAIL_VALUE_IF(texts.n < 0 || (texts.n > 0 && !texts.v), batch_op, "expected texts");
    RG_FAIL_VALUE_IF(pairs.n < 0 || (pairs.n > 0 && !pairs.v), batch_op, "expected pairs");
    RG_FAIL_VALUE_IF(pairs.v && pairs.n != texts.n, batch_op, "there are %d texts but %d pairs",
                     texts.n, pairs.n);
    const size_t each = pairs.v ? 2 : 1;
    batch_text *all = rgi_scope_alloc((size_t)texts.n * each * sizeof *all);
    for (size_t i = 0; all && i < (size_t)texts.n * each; i++) {
        const char *text = i % each ? pairs.v[i / each] : texts.v[i / each];
        if (!rgi_given(text, batch_op, "a text"))
            return NULL;
        all[i] = (batch_text){ text, strlen(text) };
    }
    return all;
}

static bool arrays_begin(batch_arrays *to, size_t n, bool offsets) {
    to->ids = rgi_scope_alloc(n * sizeof *to->ids);
    to->types = to->ids ? rgi_scope_alloc(n * sizeof *to->ids) : NULL;
    to->attention = to->types ? rgi_scope_alloc(n * sizeof *to->ids) : NULL;
    to->special = to->attention ? rgi_scope_alloc(n * sizeof *to->ids) : NULL;
    to->offsets = to->special && offsets ? rgi_scope_alloc(2 * n * sizeof *to->ids) : NULL;
    return offsets ? to->offsets : to->special;
}

/* Makes the tensors (n, length) of the arrays. */
static rg_encoding tensors_of(const batch_arrays *a, int64_t n, int64_t length) {
    rg_encoding y = { rg_from_int64(a->ids, RG_DIMS(n, length)),
                      rg_from_int64(a->types, RG_DIMS(n, length)),
                      rg_from_int64(a->attention, RG_DIMS(n, length)),
                      rg_from_int64(a->special, RG_DIMS(n, length)), NULL };
    if (a->offsets)
        y.offset_mapping = rg_from_int64(a->offsets, RG_DIMS(n, length, 2));
    bool all = y.input_ids && y.token_type_ids && y.attention_mask && y.special_tokens_mask
               && (!a->offsets || y.offset_mapping);
    return all ? y : (rg_encoding){ 0 };
}

static rg_encoding encode_batch(const rg_tokenizer *t, const batch_way *way,
                                const batch_text *texts, size_t n, bool offsets) {
    rg_encoding_run e;
    batch_row *rows;
    batch_arrays to = { 0 };
    size_t length = 0;
    bool ok = rgi_encoding_begin(&e, t, longest_text(texts, n * way->texts), offsets)
              && encode_rows(&e, way, texts, n, &rows, &length);
    if (ok && n > 0 && length > (size_t)INT64_MAX / 16 / n) {
        rg_fail(RG_VALUE_ERROR, batch_op, "%zu rows of %zu tokens are too many", n, length);
        ok = false;
    }
    ok = ok && arrays_begin(&to, n * length, offsets);
    for (size_t i = 0; i < n && ok; i++)
        put_row(&to, i * length, length, &e, way, &rows[i]);
    rgi_encoding_end(&e);
    return ok ? tensors_of(&to, (int64_t)n, (int64_t)length) : (rg_encoding){ 0 };
}

rg_encoding rg_tokenizer_encode_batch_with(const rg_tokenizer *t, rg_names texts,
                                           rg_tokenizer_batch_options o) {
    RG_AS("tokenizer_encode_batch");
    RG_SCOPE();
    batch_way way = { .op = batch_op };
    if (!rgi_handle_given(t, batch_op, RG_HANDLE_TOKENIZER))
        return (rg_encoding){ 0 };
    const batch_text *all = batch_texts(texts, o.pairs);
    if (!all || !choose_way(t, &way, o.pairs.v, o.add_special_tokens)
        || !apply_options(t, &way, &o))
        return (rg_encoding){ 0 };
    rg_encoding y = encode_batch(t, &way, all, (size_t)texts.n, o.return_offsets_mapping);
    rg_tensor *const all_of[] = { y.input_ids, y.token_type_ids, y.attention_mask,
                                  y.special_tokens_mask, y.offset_mapping };
    for (int i = 0; i < RG_COUNT(all_of); i++)
        if (all_of[i])
            rg_escape(all_of[i]);
    return y;
}
