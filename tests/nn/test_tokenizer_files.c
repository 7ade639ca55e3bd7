/* test_tokenizer_files.c: tokenizers of the kinds of BERT, Llama 3, Llama 2 and T5 encode and
 * decode as Hugging Face's tokenizers do, also pairs and batches. Files that use what regard lacks
 * are refused. tests/exchange/tokenizer_files.py compares many more texts. */
#include "nn/models/normalizer.h"
#include "tensor/files/utf8.h"
#include "tests/golden.h"
#include "tests/in_turn.h"
#include "tests/scratch.h"
#include "tests/test.h"
#include "regard.h"

#include <stdio.h>
#include <string.h>

enum { MOST = 1000 };

static const char *file_path(const char *name) {
    static char path[600];
    snprintf(path, sizeof path, "%s/../files/tokenizers/%s.json", golden_folder(), name);
    return path;
}

static void same(const char *what, rg_tensor *t, const int64_t *v, int64_t n) {
    ck_assert_msg(t, "%s: %s", what, rg_error());
    ck_assert_msg(rg_numel(t) == n, "%s: %s", what, rg_repr(t));
    for (int64_t i = 0; i < n; i++)
        ck_assert_msg(((int64_t *)rg_data(t))[i] == v[i], "%s: number %lld: %s", what, (long long)i,
                      rg_repr(t));
}

/* ---- golden cases -------------------------------------------------------------------- */

static void encode_case(const rg_tokenizer *t, golden_file *f, const char *text) {
    int64_t v[MOST], n = golden_integers(f, ':', v, MOST);
    same(text, rg_tokenizer_encode(t, text), v, n);
    n = golden_integers(f, ':', v, MOST);
    rg_names one = { 1, &text };
    same(text, rg_tokenizer_encode_batch(t, one, .return_offsets_mapping = true).offset_mapping, v,
         n);
}

static void pair_case(const rg_tokenizer *t, golden_file *f, const char *text, const char *other) {
    int64_t v[MOST], n = golden_integers(f, ':', v, MOST);
    same(text, rg_tokenizer_encode(t, text, .pair = other), v, n);
    rg_names one = { 1, &text }, two = { 1, &other };
    rg_encoding e = rg_tokenizer_encode_batch(t, one, .pairs = two);
    same(text, e.input_ids, v, n);
    n = golden_integers(f, ':', v, MOST);
    same(text, e.token_type_ids, v, n);
}

/* With `streams`, the ids must have the same text one by one. */
static void decode_case(const rg_tokenizer *t, golden_file *f, const char *text, bool streams) {
    int64_t v[MOST], n = golden_integers(f, ':', v, MOST);
    rg_tensor *ids = rg_from_int64(v, RG_DIMS(n));
    ck_assert_str_eq(rg_tokenizer_decode(t, ids, .skip_special_tokens = true), text);
    char streamed[4000] = "";
    rg_token_stream s = rg_token_stream_begin(t);
    for (int64_t i = 0; i < n; i++)
        strcat(streamed, rg_token_stream_add(&s, v[i]));
    strcat(streamed, rg_token_stream_end(&s));
    ck_assert(!streams || strcmp(streamed, rg_tokenizer_decode(t, ids)) == 0);
}

static const char *const batch[] = { "The winter's day, O! thou art", "<s>thou<l>   <l> a <w> b<w>",
                                     "", "  two  blanks\n\nand\tlines " };

static void batch_case(const rg_tokenizer *t, golden_file *f, int64_t length) {
    int64_t v[MOST], n = golden_integers(f, ':', v, MOST);
    ck_assert_int_eq(n, 1);
    rg_names texts = { 4, batch };
    rg_encoding e = rg_tokenizer_encode_batch(t, texts, .max_length = length);
    ck_ok(e.input_ids);
    ck_assert_int_eq(rg_size(e.input_ids, 0), 4);
    ck_assert_int_eq(rg_size(e.input_ids, 1), v[0]);
    n = golden_integers(f, ':', v, MOST);
    same("batch", e.input_ids, v, n);
    n = golden_integers(f, ':', v, MOST);
    same("batch", e.attention_mask, v, n);
}

/* ---- each code point ----------------------------------------------------------------- */

static rg_unicode unicode;

static uint32_t hashed(uint32_t hash, const char *p, size_t n) {
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ (unsigned char)p[i]) * 0x01000193;
    return hash;
}

/* Sets `steps` to those of the form. Returns their number. */
static size_t steps_of(const char *form, rg_norm_step steps[2]) {
    const bool k = strstr(form, "NFK") != NULL, c = form[strlen(form) - 1] == 'C';
    steps[0] = (rg_norm_step){ .kind = RG_NORM_FORM, .compatible = k, .compose = c };
    steps[1] = (rg_norm_step){ .kind = RG_NORM_REMOVE, .is = RG_UNICODE_NONSPACING };
    if (!strcmp(form, "strip_accents"))
        return 2;
    if (!strcmp(form, "Lowercase"))
        steps[0].kind = RG_NORM_LOWER;
    if (!strcmp(form, "clean_text"))
        steps[0].kind = RG_NORM_CLEAN;
    if (!strcmp(form, "chinese"))
        steps[0].kind = RG_NORM_CHINESE;
    if (!strcmp(form, "StripAccents"))
        steps[0] = (rg_norm_step){ .kind = RG_NORM_REMOVE, .is = RG_UNICODE_COMBINING };
    return 1;
}

static uint32_t hash_of_form(const char *form) {
    rg_norm_step steps[2];
    const size_t n = steps_of(form, steps);
    rg_norm_room room = { 0 };
    uint32_t hash = 0x811C9DC5;
    for (uint32_t code = 0; code < 0x110000; code++) {
        char text[20], one[5];
        if (code >= 0xD800 && code < 0xE000)
            continue;
        size_t wide = rgi_utf8_write(one, code), length = 2 * wide + 7;
        memcpy(text, one, wide);
        memcpy(text + wide, "\u0327\u0301", 4);
        memcpy(text + wide + 4, one, wide);
        memcpy(text + 2 * wide + 4, "\u1161", 3);
        rg_piece p = { text, length, NULL, 0 };
        ck_each(rgi_normalize(steps, n, &unicode, &room, &p), "%s", rg_error());
        hash = hashed(code ? hashed(hash, "\n", 1) : hash, p.v, p.n);
    }
    rgi_norm_room_free(&room);
    return hash;
}

static uint32_t hash_of_class(const char *pattern) {
    const rg_file f = { .op = "load", .path = "t.json", .fd = -1 };
    rg_regex r = { 0 };
    uint32_t hash = 0x811C9DC5;
    ck_ok(rgi_regex_compile(&r, &unicode, &f, "it", pattern, strlen(pattern)));
    for (uint32_t code = 0; code < 0x110000; code++) {
        char one[5];
        const char *from, *to;
        if (code >= 0xD800 && code < 0xE000)
            continue;
        size_t n = rgi_utf8_write(one, code);
        rgi_regex_find(&r, one, one + n, &from, &to);
        hash = hashed(hash, from == one ? "\1" : "\0", 1);
    }
    rgi_regex_free(&r);
    return hash;
}

START_TEST(test_each_code_point) {
    golden_file f = golden_open("tokenizers");
    int cases = 0;
    ck_assert(rgi_unicode_load(&unicode, "test"));
    for (char *at; !rg_slow() && (at = golden_case(&f));) {
        const char *what = golden_word(&at);
        const bool form = !strcmp(what, "every");
        int64_t v[1];
        if (!form && strcmp(what, "class") != 0)
            continue;
        const char *name = golden_word(&at);
        ck_assert_int_eq(golden_integers(&f, ':', v, 1), 1);
        ck_assert_msg((form ? hash_of_form(name) : hash_of_class(name)) == (uint32_t)v[0], "%s",
                      name);
        cases++;
    }
    ck_assert(rg_slow() || cases == 27);
    rgi_unicode_free(&unicode);
    golden_close(&f);
}
END_TEST

static void short_case(const rg_tokenizer *t, const char *text, const char *other) {
    ck_fails(rg_tokenizer_encode(t, text, .pair = other), RG_VALUE_ERROR,
             "text is too short to be cut to max_length");
}

/* Compares a tokenizer with one of the cases about texts. */
static void text_case(const rg_tokenizer *t, golden_file *f, const char *what, char *at) {
    char *text = golden_quoted(&at), *other = golden_at_end(at) ? NULL : golden_quoted(&at);
    if (!strcmp(what, "encode"))
        encode_case(t, f, text);
    else if (!strcmp(what, "decode") || !strcmp(what, "whole"))
        decode_case(t, f, text, *what == 'd');
    else if (!strcmp(what, "short"))
        short_case(t, text, other);
    else
        pair_case(t, f, text, other);
}

START_TEST(test_golden) {
    golden_file f = golden_open("tokenizers");
    rg_tokenizer *t = NULL;
    int cases = 0;
    for (char *at; (at = golden_case(&f)); cases++) {
        RG_SCOPE();
        const char *what = golden_word(&at);
        if (!strcmp(what, "file")) {
            rg_tokenizer_free(t);
            t = rg_tokenizer_from_file(file_path(golden_word(&at)));
            ck_ok(t);
        } else if (!strcmp(what, "every") || !strcmp(what, "class")) {
            golden_line(&f);
        } else if (!strcmp(what, "batch")) {
            batch_case(t, &f, golden_integer(&at));
        } else {
            text_case(t, &f, what, at);
        }
    }
    ck_assert_int_ge(cases, 150);
    rg_tokenizer_free(t);
    golden_close(&f);
}
END_TEST

/* Each part that a file can have, with each of its settings, in a small tokenizer of its own. */
START_TEST(test_parts) {
    golden_file f = golden_open("tokenizer_parts");
    rg_tokenizer *t = NULL;
    const char *json = NULL;
    int cases = 0;
    scratch_begin();
    for (char *at; (at = golden_case(&f)); cases++) {
        RG_SCOPE();
        const char *what = golden_word(&at);
        if (!strcmp(what, "made")) {
            json = golden_quoted(&at);
            rg_tokenizer_free(t);
            t = rg_tokenizer_from_file(scratch_write("t.json", json, strlen(json)));
            ck_assert_msg(t, "%s: %s", json, rg_error());
        } else {
            text_case(t, &f, what, at);
        }
    }
    ck_assert_int_ge(cases, 600);
    rg_tokenizer_free(t);
    scratch_end();
    golden_close(&f);
}
END_TEST

/* ---- files with another value -------------------------------------------------------- */

/* Those of tokenizer_changes.py. */
static const char *const replacements[] = {
    "null", "true", "false",  "-1",      "0",          "1",                "1.5",
    "\"a\"", "\"\"", "[]", "{}", "[0]", "[\"a\"]", "{\"a\":0}", "{\"type\":\"a\"}",
    "99999999999999999999",
};
enum { REPLACEMENTS = sizeof replacements / sizeof *replacements };

/* Loads a file in which the value is replaced by replacements[k]. The letter tells what the library
 * tokenizers does (see tokenizer_changes.py). If it is `a`, the golden file's next line has the ids
 * of the text. Returns whether regard encodes the text; it may refuse more. */
static bool change_case(golden_file *f, const char *json, int64_t offset, int64_t length, int k,
                        char letter, uint32_t *hash) {
    RG_SCOPE();
    int64_t v[MOST], n = letter == 'a' ? golden_integers(f, ':', v, MOST) : 0;
    char changed[4000];
    snprintf(changed, sizeof changed, "%.*s%s%s", (int)offset, json, replacements[k],
             json + offset + length);
    rg_tokenizer *t = rg_tokenizer_from_file(scratch_write("t.json", changed, strlen(changed)));
    rg_tensor *ids = t ? rg_tokenizer_encode(t, "Ab c a 12 <s>x \u00e9 ab xyz, b!!c") : NULL;
    const char *sentence = rg_error();
    if (ids && letter == 'a')
        same(changed, ids, v, n);
    ck_assert_msg(letter != 'x' || !t, "%s: it is taken", changed);
    ck_assert_msg(letter != 'e' || !ids, "%s: the text is encoded", changed);
    ck_assert_msg(letter != 'o' || t, "%s: %s", changed, sentence);
    if (!ids) {
        const char *after = strstr(sentence, "t.json': ");
        sentence = after ? after : sentence;
        ck_assert_msg(strlen(sentence) > 20, "%s: %s", changed, sentence);
        *hash = hashed(*hash, sentence, strlen(sentence) + 1);
        rg_error_clear();
    }
    rg_tokenizer_free(t);
    return ids;
}

/* In files with each part that a tokenizer can have, each value is replaced by others. Files that
 * the library tokenizers refuses are refused, and so are most of the others, such as those that
 * lack a part that it adds itself. The sentences are those that were read when they were hashed. */
START_TEST(test_changed_files) {
    golden_file f = golden_open("tokenizer_changes");
    const char *json = NULL;
    int cases = 0, taken = 0;
    uint32_t hash = 0x811C9DC5;
    scratch_begin();
    for (char *at; (at = golden_case(&f));) {
        if (!strcmp(golden_word(&at), "base")) {
            json = golden_quoted(&at);
            continue;
        }
        const int64_t offset = golden_integer(&at), length = golden_integer(&at);
        const char *letters = golden_word(&at);
        ck_assert_uint_eq(strlen(letters), REPLACEMENTS);
        for (int k = 0; k < REPLACEMENTS; k++) {
            if (letters[k] == '-')
                continue;
            if (!rg_slow() || cases % 5 == 0)
                taken += change_case(&f, json, offset, length, k, letters[k], &hash);
            else if (letters[k] == 'a')
                golden_line(&f);
            cases++;
        }
    }
    ck_assert_int_eq(cases, 4148);
    ck_assert(rg_slow() || taken == 185);
    ck_assert_msg(rg_slow() || hash == 0xC9C8CAE4,
                  "the sentences have another hash than when they were read: %x", hash);
    scratch_end();
    golden_close(&f);
}
END_TEST

/* ---- batches ------------------------------------------------------------------------- */

START_TEST(test_batches) {
    rg_tokenizer *t = rg_tokenizer_from_file(file_path("llama3"));
    static const char *const both[] = { "thou", "a b" };
    rg_names texts = { 2, both }, none = { 0, NULL };
    rg_encoding e = rg_tokenizer_encode_batch(t, texts, .pad_to = 12, .pad_token_id = 5);
    ck_assert_int_eq(rg_size(e.input_ids, 1), 12);
    ck_assert_int_eq(((int64_t *)rg_data(e.input_ids))[23], 5);
    ck_assert_int_eq(((int64_t *)rg_data(e.special_tokens_mask))[0], 1);
    ck_assert_int_eq(((int64_t *)rg_data(e.special_tokens_mask))[1], 0);
    ck_assert_int_eq(((int64_t *)rg_data(e.special_tokens_mask))[23], 1);
    ck_assert(!e.offset_mapping);
    int64_t longest = rg_size(rg_tokenizer_encode_batch(t, texts).input_ids, 1);
    ck_assert_int_lt(longest, 12);
    ck_assert_int_eq(rg_size(rg_tokenizer_encode_batch(t, texts, .pad_to = 1).input_ids, 1),
                     longest);
    e = rg_tokenizer_encode_batch(t, texts, .add_special_tokens = false, .max_length = 0);
    ck_assert_int_eq(rg_numel(e.input_ids), 0);
    e = rg_tokenizer_encode_batch(t, none, .return_offsets_mapping = true);
    ck_assert(e.input_ids && rg_numel(e.input_ids) == 0 && e.offset_mapping);
    rg_tokenizer_free(t);
}
END_TEST

START_TEST(test_bad_batches) {
    rg_tokenizer *t = rg_tokenizer_from_file(file_path("bert"));
    static const char *const both[] = { "thou", NULL };
    static const char *const broken[] = { "a\xff" };
    rg_names texts = { 1, both }, two = { 2, both }, wrong = { 1, broken };
    rg_names negative = { -1, NULL }, nowhere = { 2, NULL };
    ck_fails(rg_tokenizer_encode_batch(NULL, texts).input_ids, RG_TYPE_ERROR,
             "tokenizer_encode_batch: expected a tokenizer but got NULL");
    ck_fails(rg_tokenizer_encode_batch(t, two).input_ids, RG_TYPE_ERROR, "expected a text");
    ck_fails(rg_tokenizer_encode_batch(t, negative).input_ids, RG_VALUE_ERROR, "expected texts");
    ck_fails(rg_tokenizer_encode_batch(t, nowhere).input_ids, RG_VALUE_ERROR, "expected texts");
    ck_fails(rg_tokenizer_encode_batch(t, texts, .pairs = negative).input_ids, RG_VALUE_ERROR,
             "expected pairs");
    ck_fails(rg_tokenizer_encode_batch(t, texts, .pairs = nowhere).input_ids, RG_VALUE_ERROR,
             "expected pairs");
    ck_fails(rg_tokenizer_encode_batch(t, wrong).input_ids, RG_VALUE_ERROR,
             "tokenizer_encode_batch: the text is no UTF-8 at byte 1");
    ck_fails(rg_tokenizer_encode_batch(t, texts, .pairs = two).input_ids, RG_VALUE_ERROR,
             "there are 1 texts but 2 pairs");
    ck_fails(rg_tokenizer_encode_batch(t, texts, .max_length = -2).input_ids, RG_VALUE_ERROR,
             "max_length -2 or pad_to -1 is negative");
    ck_fails(rg_tokenizer_encode_batch(t, texts, .pad_to = -2).input_ids, RG_VALUE_ERROR,
             "max_length -1 or pad_to -2 is negative");
    ck_fails(rg_tokenizer_encode_batch(t, texts, .pad_to = INT64_MAX / 8).input_ids, RG_VALUE_ERROR,
             "1 rows of 1152921504606846975 tokens are too many");
    ck_fails(rg_tokenizer_encode_batch(t, texts, .max_length = 1).input_ids, RG_VALUE_ERROR,
             "max_length is 1, but 2 special tokens are added");
    ck_fails(rg_tokenizer_encode_batch(t, texts, .pad_token_id = 1000).input_ids, RG_INDEX_ERROR,
             "pad_token_id 1000 is none of");
    ck_fails(rg_tokenizer_encode_batch(t, texts, .pad_token_id = -2).input_ids, RG_INDEX_ERROR,
             "pad_token_id -2 is none of");
    rg_tokenizer_free(t);
}
END_TEST

/* ---- files that are refused ---------------------------------------------------------- */

/* Parts of a file, with single quotes for double ones: the member, its value and the sentence. */
static const struct {
    const char *member, *value, *said;
} bad[] = {
    { "normalizer", "{'type': 'Replace', 'pattern': {'Regex': '('}, 'content': ''}",
      "the normalizer's regular expression '(' has no ) at byte 1" },
    { "normalizer", "{'type': 'Replace', 'pattern': {'String': ''}, 'content': ''}",
      "the normalizer's pattern is neither a text nor a regular expression" },
    { "normalizer", "{'type': 'Replace', 'pattern': {'Text': 'a'}, 'content': ''}",
      "a pattern's 'Text' isn't supported" },
    { "normalizer", "{'type': 'Sequence', 'normalizers': [{'type': 'NFC'}, 3]}",
      "the normalizer is no object" },
    { "normalizer", "{'type': 'BertNormalizer', 'lowercase': true}",
      "the normalizer has no 'clean_text'" },
    { "normalizer", "{'type': 'Precompiled', 'precompiled_charsmap': 'AAA='}",
      "the normalizer's 'precompiled_charsmap' isn't one" },
    { "normalizer", "{'type': 'Precompiled', 'precompiled_charsmap': '////fwAA'}",
      "the normalizer's 'precompiled_charsmap' isn't one" },
    { "normalizer", "{'type': 'Precompiled', 'precompiled_charsmap': '!'}",
      "the normalizer's 'precompiled_charsmap' isn't one" },
    { "pre_tokenizer", "{'type': 'Split', 'pattern': {'String': 'a'}, 'behavior': 'Joined'}",
      "the pre_tokenizer's 'behavior' is 'Joined', which isn't supported" },
    { "pre_tokenizer", "{'type': 'Metaspace', 'replacement': 'ab'}",
      "the pre_tokenizer's 'replacement' is 'ab', and no character" },
    { "pre_tokenizer", "{'type': 'Metaspace', 'replacement': '_', 'prepend_scheme': 'last'}",
      "the pre_tokenizer's 'prepend_scheme' is 'last', which isn't supported" },
    { "pre_tokenizer",
      "{'type': 'Sequence', 'pretokenizers': [{'type': 'BertPreTokenizer'},"
      " {'type': 'BertPreTokenizer'}, {'type': 'BertPreTokenizer'}, {'type': 'BertPreTokenizer'},"
      " {'type': 'BertPreTokenizer'}, {'type': 'BertPreTokenizer'}, {'type': 'BertPreTokenizer'},"
      " {'type': 'BertPreTokenizer'}, {'type': 'BertPreTokenizer'}]}",
      "the pre_tokenizer has more than 16 steps, which isn't supported" },
    { "decoder", "{'type': 'Sequence', 'decoders': [{'type': 'Fuse'}, {'type': 'ByteFallback'}]}",
      "the decoder has a step behind the one that joins the tokens" },
    { "decoder",
      "{'type': 'Sequence', 'decoders': [{'type': 'Fuse'},"
      " {'type': 'Strip', 'content': ' ', 'start': 0, 'stop': 1}]}",
      "the decoder strips the end of the text, which isn't supported" },
    { "post_processor", "{'type': 'BertProcessing', 'sep': ['a'], 'cls': ['a', 0]}",
      "the post_processor's 'sep' isn't a token and its id" },
    { "post_processor", "{'type': 'BertProcessing', 'sep': ['a', 0], 'cls': [0, 0]}",
      "the post_processor's 'cls' isn't a token and its id" },
    { "post_processor", "{'type': 'BertProcessing', 'sep': ['a', 0], 'cls': ['a', 3]}",
      "the post_processor has a token with the id 3, and ids are from 0 to 2" },
    { "post_processor",
      "{'type': 'Sequence', 'processors': [{'type': 'BertProcessing', 'sep': ['a', 0],"
      " 'cls': ['a', 0]}, {'type': 'BertProcessing', 'sep': ['a', 0], 'cls': ['a', 0]}]}",
      "the post_processor has several templates, which isn't supported" },
    { "post_processor", "{'type': 'TemplateProcessing', 'single': [{}]}",
      "a piece is neither a text nor a special token" },
    { "post_processor",
      "{'type': 'TemplateProcessing', 'single': [{'Sequence': {'id': 'A'},"
      " 'SpecialToken': {'id': 'a'}}]}",
      "a piece is neither a text nor a special token" },
    { "truncation", "{'max_length': 3, 'strategy': 'None'}",
      "the truncation's 'strategy' is 'None', which isn't supported" },
    { "truncation", "{'max_length': 3, 'strategy': 'OnlyFirst', 'direction': 'Up'}",
      "the truncation's 'direction' is 'Up', which isn't supported" },
    { "padding", "{'strategy': 'Most', 'pad_id': 0}",
      "the padding's 'strategy' is 'Most', which isn't supported" },
    { "padding", "{'strategy': {'Fixed': 2000000}, 'pad_id': 0}",
      "the padding is to more than 1048576 tokens" },
    { "padding", "{'strategy': 'BatchLongest', 'pad_id': 3}",
      "the padding's 'pad_id' is 3, and there are 3 tokens" },
    { "model", "{'type': 'WordPiece', 'vocab': {}}", "the model has no 'unk_token'" },
    { "model", "{'type': 'Unigram', 'vocab': [['a', 0], ['b', 1], ['a', 2]]}",
      "the token 'a' comes twice" },
    { "model", "{'type': 'Unigram', 'vocab': [['a', 0], ['b']]}",
      "token 1 is no pair of a text and a score" },
    { "model", "{'type': 'Unigram', 'vocab': [['a', 0]], 'unk_id': 1}",
      "the unk_id is 1, and there are 1 tokens" },
};

/* Writes a file with three tokens and one other member. */
static const char *file_with(const char *member, const char *value) {
    char text[3000];
    static const char words[] = ", 'model': {'type': 'WordLevel', 'unk_token': 'u', 'vocab': "
                                "{'a': 0, 'b': 1, 'c': 2}}";
    const bool model = strcmp(member, "model") == 0;
    int n = snprintf(text, sizeof text, "{'%s': %s%s}", member, value, model ? "" : words);
    for (char *c = text; *c; c++)
        if (*c == '\'')
            *c = '"';
    return scratch_write("t.json", text, (size_t)n);
}

START_TEST(test_bad_files) {
    scratch_begin();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char said[300];
        snprintf(said, sizeof said, "%s", bad[i].said);
        for (char *c = said; *c; c++) {
            bool apostrophe = c > said
                              && ((c[-1] == 'n' && c[1] == 't') || (c[1] == 's' && c[2] == ' '));
            if (*c == '\'' && !apostrophe)
                *c = '"';
        }
        rg_tokenizer *t = rg_tokenizer_from_file(file_with(bad[i].member, bad[i].value));
        ck_assert_msg(!t, "%s", bad[i].value);
        ck_assert_msg(rg_error_code() == RG_IO_ERROR && strstr(rg_error(), said), "%s: %s", said,
                      rg_error());
        rg_error_clear();
    }
    scratch_end();
}
END_TEST

/* A normalizer can leave nothing of an added token. The token is then found nowhere, also not at a
 * character U+0000, and decoded to nothing, as in tokenizers. */
START_TEST(test_vanished_token) {
    scratch_begin();
    rg_tokenizer *t = rg_tokenizer_from_file(
        file_with("normalizer", "{'type': 'Strip', 'strip_left': true, 'strip_right': true},"
                                " 'pre_tokenizer': {'type': 'WhitespaceSplit'}, 'added_tokens':"
                                " [{'id': 3, 'content': ' ', 'special': false, 'lstrip': false,"
                                " 'rstrip': false, 'single_word': false, 'normalized': true}]"));
    ck_ok(t);
    ck_assert(rg_equal(rg_tokenizer_encode(t, "a b"), rg_literal([ 0, 1 ])));
    ck_assert_str_eq(rg_tokenizer_decode(t, rg_literal([ 0, 3, 1 ])), "a  b");
    ck_fails(rg_tokenizer_encode(t, "a\0b", .length = 3), RG_VALUE_ERROR,
             "tokenizer_encode: the word \"");
    rg_tokenizer_free(t);
    scratch_end();
}
END_TEST

/* A special token is left out by the text to which it is decoded. If the normalizer has changed
 * that text, it is the text of a special token no more, as in tokenizers. */
START_TEST(test_skipped_tokens) {
    static const char flags[] = "'single_word': false, 'lstrip': false, 'rstrip': false, ";
    char value[600];
    snprintf(value, sizeof value,
             "{'type': 'Lowercase'}, 'added_tokens': ["
             "{'id': 3, 'content': '<Y>', 'normalized': true, %s'special': true}, "
             "{'id': 4, 'content': '<Z>', 'normalized': false, %s'special': true}, "
             "{'id': 5, 'content': '<x>', 'normalized': true, %s'special': true}, "
             "{'id': 6, 'content': '<X>', 'normalized': true, %s'special': false}]",
             flags, flags, flags, flags);
    scratch_begin();
    rg_tokenizer *t = rg_tokenizer_from_file(file_with("normalizer", value));
    ck_ok(t);
    rg_tensor *ids = rg_literal([ 0, 3, 4, 5, 6, 1 ]);
    ck_assert_str_eq(rg_tokenizer_decode(t, ids), "a <y> <Z> <x> <x> b");
    ck_assert_str_eq(rg_tokenizer_decode(t, ids, .skip_special_tokens = true), "a <y> b");
    rg_tokenizer_free(t);
    scratch_end();
}
END_TEST

/* Without a step that joins the tokens, each token is stripped by itself. Each end of it loses at
 * most as many copies of the text as the step says. */
START_TEST(test_stripped_tokens) {
    static const char *const rows[][2] = {
        { "{'type': 'Strip', 'content': 'a', 'start': 1, 'stop': 0}", "bcabaa" },
        { "{'type': 'Strip', 'content': 'a', 'start': 0, 'stop': 1}", "bcaaba" },
        { "{'type': 'Strip', 'content': 'a', 'start': 1, 'stop': 3}", "bcab" },
        { "{'type': 'Strip', 'content': 'b', 'start': 2, 'stop': 0}", "acaaabaa" },
    };
    scratch_begin();
    for (int i = 0; i < RG_COUNT(rows); i++) {
        char value[300];
        snprintf(value, sizeof value,
                 "%s, 'added_tokens': [{'id': 3, 'content': 'aabaa', 'single_word': false, "
                 "'lstrip': false, 'rstrip': false, 'normalized': false, 'special': false}]",
                 rows[i][0]);
        rg_tokenizer *t = rg_tokenizer_from_file(file_with("decoder", value));
        ck_assert_str_eq(rg_tokenizer_decode(t, rg_literal([ 0, 1, 2, 0, 3 ])), rows[i][1]);
        rg_tokenizer_free(t);
    }
    scratch_end();
}
END_TEST

/* An unknown character counts as 10 less than the least score, also where all scores are positive:
 * here "\u00e9" and "a" count as -5 + 12, and "\u00e9a" as 6. The ids are those of the library
 * tokenizers. */
START_TEST(test_positive_scores) {
    scratch_begin();
    rg_tokenizer *t = rg_tokenizer_from_file(file_with(
        "model", "{'type': 'Unigram', 'unk_id': 0,"
                 " 'vocab': [['<unk>', 5], ['\u00e9a', 6], ['a', 12]]}"));
    ck_assert(rg_equal(rg_tokenizer_encode(t, "\u00e9aa\u00e9a"), rg_literal([ 0, 2, 2, 0, 2 ])));
    rg_tokenizer_free(t);
    scratch_end();
}
END_TEST

/* Files may be complete, and yet a text can't be encoded. */
START_TEST(test_texts_without_tokens) {
    scratch_begin();
    rg_tokenizer *t = rg_tokenizer_from_file(file_with("decoder", "null"));
    ck_assert_int_eq(rg_numel(rg_tokenizer_encode(t, "a")), 1);
    ck_fails(rg_tokenizer_encode(t, "d"), RG_VALUE_ERROR,
             "tokenizer_encode: the word \"d\" isn't in the vocabulary");
    ck_assert_str_eq(rg_tokenizer_decode(t, rg_literal([ 0, 2 ])), "a c");
    rg_tokenizer_free(t);
    t = rg_tokenizer_from_file(file_with("model", "{'type': 'Unigram', 'vocab': [['a', -1.5]]}"));
    ck_fails(rg_tokenizer_encode(t, "ad"), RG_VALUE_ERROR,
             "tokenizer_encode: the character \"d\" isn't in the vocabulary");
    ck_assert_int_eq(rg_numel(rg_tokenizer_encode(t, "aa")), 2);
    rg_tokenizer_free(t);
    t = rg_tokenizer_from_file(file_with(
        "post_processor", "{'type': 'TemplateProcessing', 'single': [{'Sequence': {'id': 'A'}}]}"));
    ck_fails(rg_tokenizer_encode(t, "a", .pair = "b"), RG_VALUE_ERROR,
             "the tokenizer has no template for pairs");
    rg_tokenizer_free(t);
    scratch_end();
}
END_TEST

/* White space that is trimmed from a token takes whole characters from its offsets, as many as it
 * has itself. The offsets are those of tokenizers, counted in bytes. */
START_TEST(test_trimmed_offsets) {
    static const struct {
        const char *model, *text;
        const char *offsets;
    } rows[] = {
        { "{'type': 'BPE', 'merges': [], 'vocab': {'\u0120': 0, '\u00e6': 1, '\u0139': 2,"
          " '\u00a5': 3, '\u013e': 4, '\u00ac': 5}},"
          " 'pre_tokenizer': {'type': 'ByteLevel', 'add_prefix_space': true},"
          " 'post_processor': {'type': 'ByteLevel', 'trim_offsets': true}",
          "\u65e5\u672c", "[[0, 0], [0, 3], [0, 3], [0, 3], [3, 6], [3, 6], [3, 6]]" },
        { "{'type': 'WordLevel', 'unk_token': 'u', 'vocab': {'u': 0, ' x': 1, '!': 2, 'y ': 3}},"
          " 'pre_tokenizer': {'type': 'Punctuation', 'behavior': 'Isolated'},"
          " 'post_processor': {'type': 'RobertaProcessing', 'sep': ['u', 0], 'cls': ['u', 0],"
          " 'trim_offsets': true, 'add_prefix_space': false}",
          " x!y ", "[[0, 0], [1, 2], [2, 3], [3, 4], [0, 0]]" },
    };
    scratch_begin();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        rg_names one = { 1, &rows[i].text };
        rg_tokenizer *t = rg_tokenizer_from_file(file_with("model", rows[i].model));
        rg_encoding e = rg_tokenizer_encode_batch(t, one, .return_offsets_mapping = true);
        ck_ok(e.offset_mapping);
        ck_assert(rg_equal(rg_select(e.offset_mapping, 0, 0), rg_parse(rows[i].offsets)));
        rg_tokenizer_free(t);
    }
    scratch_end();
}
END_TEST

/* ---- memory that runs out ------------------------------------------------------------ */

static const char *denied_name;

static bool use_file(void) {
    static const char *const texts[] = { "The winter's ﬁne day <l> \u00e9e\u0301", "<w> b" };
    rg_names all = { 2, texts };
    rg_tokenizer *t = rg_tokenizer_from_file(file_path(denied_name));
    rg_encoding e = { 0 };
    if (t)
        e = rg_tokenizer_encode_batch(t, all, .pairs = all, .return_offsets_mapping = true);
    bool done = e.input_ids && rg_tokenizer_encode(t, texts[0])
                && rg_tokenizer_decode(t, e.input_ids);
    rg_tokenizer_free(t);
    return done;
}

START_TEST(test_denied) {
    static const char *const names[] = { "bert", "llama3", "llama2", "t5" };
    for (int i = 0; i < 4; i++) {
        denied_name = names[i];
        ck_assert_int_gt(deny_in_turn(use_file, NULL), 1);
    }
}
END_TEST

RG_TESTS(tokenizer_files, test_golden, test_parts, test_each_code_point, test_changed_files,
         test_batches, test_bad_batches, test_bad_files, test_vanished_token, test_skipped_tokens,
         test_stripped_tokens, test_positive_scores, test_texts_without_tokens,
         test_trimmed_offsets, test_denied)
