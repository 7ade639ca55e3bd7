/* test_tokenizer.c: texts become the numbers that Hugging Face's tokenizers give, and numbers
 * become texts. Broken files, and files that ask for what regard lacks, are refused. */
#include "tensor/memory.h"
#include "tests/golden.h"
#include "tests/in_turn.h"
#include "tests/scratch.h"
#include "tests/test.h"
#include "regard.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const char *golden_path(const char *name) {
    static char path[600];
    snprintf(path, sizeof path, "%s/../files/gpt2%s", golden_folder(), name);
    return path;
}

/* ---- numbers ------------------------------------------------------------------------- */

static void same_numbers(const char *what, rg_tensor *ids, const int64_t *v, int64_t n) {
    ck_assert_msg(ids, "%s: %s", what, rg_error());
    ck_assert_msg(rg_numel(ids) == n && rg_ndim(ids) == 1, "%s: %s", what, rg_repr(ids));
    for (int64_t i = 0; i < n; i++)
        ck_each(((int64_t *)rg_data(ids))[i] == v[i], "%s: number %lld is another", what,
                (long long)i);
}

/* Decodes token by token, and returns the texts one after the other. */
static const char *streamed(const rg_tokenizer *t, const int64_t *v, int64_t n, int64_t *length) {
    static char text[100000];
    size_t at = 0;
    rg_token_stream s = rg_token_stream_begin(t);
    for (int64_t i = 0; i <= n; i++) {
        const char *part = i < n ? rg_token_stream_add(&s, v[i]) : rg_token_stream_end(&s);
        ck_assert_msg(part, "%s", rg_error());
        memcpy(text + at, part, (size_t)s.length + 1);
        at += (size_t)s.length;
    }
    *length = (int64_t)at;
    return text;
}

static bool has_added(const char *text) {
    return strstr(text, "<l>") || strstr(text, "<r>") || strstr(text, "<w>") || strstr(text, "<n>");
}

/* Compares the tokenizer with the golden cases. `added` is false if it was loaded from vocab.json
 * and merges.txt, whose vocabulary has only one of the added tokens. */
static void golden_numbers(const rg_tokenizer *t, bool added) {
    golden_file f = golden_open("gpt2");
    int64_t v[1000];
    int cases = 0;
    for (char *at; (at = golden_case(&f));) {
        RG_SCOPE();
        const char *what = golden_word(&at);
        bool encodes = !strcmp(what, "encode"), decodes = !strcmp(what, "decode");
        if (!encodes && !decodes) {
            golden_line(&f);
            golden_line(&f);
            continue;
        }
        char *text = golden_quoted(&at);
        int64_t n = golden_integers(&f, ':', v, 1000);
        if (!added && (has_added(text) || decodes))
            continue;
        if (encodes)
            same_numbers(text, rg_tokenizer_encode(t, text), v, n);
        int64_t length, streamed_length;
        const char *back = rg_tokenizer_decode(t, rg_from_int64(v, RG_DIMS(n)), .length = &length);
        const char *parts = streamed(t, v, n, &streamed_length);
        ck_assert(length == streamed_length && memcmp(parts, back, (size_t)length) == 0);
        /* White space that an added token has stripped isn't decoded. */
        if (!(encodes && has_added(text)))
            ck_assert_str_eq(back, text);
        cases++;
    }
    golden_close(&f);
    ck_assert_int_ge(cases, 15);
}

START_TEST(test_golden) {
    rg_tokenizer *t = rg_tokenizer_from_folder(golden_path(""));
    ck_ok(t);
    golden_numbers(t, true);
    ck_assert_int_eq(rg_tokenizer_size(t), 384);
    ck_assert_int_eq(rg_tokenizer_id(t, "<|endoftext|>"), 0);
    ck_assert_int_eq(rg_error_code(), RG_OK);
    ck_assert_str_eq(rg_tokenizer_token(t, 383), "<n>");
    int64_t the = rg_tokenizer_id(t, "\u0120the");
    ck_assert_str_eq(rg_tokenizer_token(t, the), "\u0120the");
    rg_tensor *ids = rg_tokenizer_encode(t, "a<|endoftext|>b<n>");
    ck_assert_str_eq(rg_tokenizer_decode(t, ids, .skip_special_tokens = true), "ab<n>");
    rg_tokenizer_free(t);
}
END_TEST

START_TEST(test_two_files) {
    static const char *const names[] = { "vocab.json", "merges.txt" };
    scratch_begin();
    for (int i = 0; i < 2; i++) {
        char name[20];
        snprintf(name, sizeof name, "/%s", names[i]);
        size_t n;
        char *bytes = file_bytes(golden_path(name), &n);
        scratch_write(names[i], bytes, n);
        free(bytes);
    }
    rg_tokenizer *t = rg_tokenizer_from_folder(scratch(""));
    ck_ok(t);
    golden_numbers(t, false);
    ck_assert_int_eq(rg_tokenizer_size(t), 380);
    rg_tensor *ids = rg_tokenizer_encode(t, "a<|endoftext|>b");
    ck_assert_str_eq(rg_tokenizer_decode(t, ids), "a<|endoftext|>b");
    ck_assert_str_eq(rg_tokenizer_decode(t, ids, .skip_special_tokens = true), "ab");
    rg_tokenizer_free(t);
    scratch_end();
}
END_TEST

/* ---- texts --------------------------------------------------------------------------- */

START_TEST(test_zeros_and_lengths) {
    rg_tokenizer *t = rg_tokenizer_from_folder(golden_path(""));
    static const char text[] = "a\0b \0\0";
    int64_t n;
    rg_tensor *ids = rg_tokenizer_encode(t, text, .length = 6);
    const char *back = rg_tokenizer_decode(t, ids, .length = &n);
    ck_assert(back && n == 6 && memcmp(back, text, 6) == 0);
    ck_assert_int_eq(rg_numel(rg_tokenizer_encode(t, text, .length = 0)), 0);
    ck_assert_str_eq(rg_tokenizer_decode(t, rg_long(rg_zeros(0))), "");
    ck_assert_str_eq(rg_tokenizer_decode(t, rg_full(RG_DIMS(2, 2), 0)),
                     "<|endoftext|><|endoftext|><|endoftext|><|endoftext|>");
    rg_tokenizer_free(t);
}
END_TEST

/* Bytes after the given length don't belong to the text, even if they would end a word in it. */
START_TEST(test_ends) {
    rg_tokenizer *t = rg_tokenizer_from_folder(golden_path(""));
    static const char *const texts[] = { "it's", "we'll", "we're", "d'd ", "  a", "a\u00e9" };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        for (size_t n = 0; n < strlen(texts[i]) - (i == 5); n++) {
            char cut[16];
            snprintf(cut, sizeof cut, "%.*s", (int)n, texts[i]);
            rg_tensor *whole = rg_tokenizer_encode(t, cut);
            ck_assert(rg_equal(rg_tokenizer_encode(t, texts[i], .length = (int64_t)n), whole));
        }
    rg_tokenizer_free(t);
}
END_TEST

/* Each token here is the first byte of a character. It decodes to the three bytes of U+FFFD. */
START_TEST(test_broken_characters) {
    enum { N = 100000 };
    rg_tokenizer *t = rg_tokenizer_from_folder(golden_path(""));
    int64_t lead = ((int64_t *)rg_data(rg_tokenizer_encode(t, "\U0001F468")))[0], n = 0;
    for (int few = 0; few < 130; few++) {
        RG_SCOPE();
        ck_ok(rg_tokenizer_decode(t, rg_full(RG_DIMS(few), lead), .length = &n));
        ck_assert_int_eq(n, 3 * few);
    }
    for (int again = 0; again < 3; again++) {
        RG_SCOPE();
        const char *text = rg_tokenizer_decode(t, rg_full(RG_DIMS(N), lead), .length = &n);
        ck_assert_int_eq(n, 3 * N);
        for (int i = 0; i < N; i++)
            ck_each(memcmp(text + 3 * i, "\xEF\xBF\xBD", 3) == 0, "character %d", i);
    }
    rg_tokenizer_free(t);
}
END_TEST

/* A character of four tokens is returned with its last token. If a token is missing, U+FFFD is
 * returned. */
START_TEST(test_stream_holds) {
    rg_tokenizer *t = rg_tokenizer_from_folder(golden_path(""));
    rg_tensor *ids = rg_tokenizer_encode(t, "\U0001F468");
    const int64_t *v = rg_data(ids);
    ck_assert_int_eq(rg_numel(ids), 4);
    rg_token_stream s = rg_token_stream_begin(t);
    for (int i = 0; i < 3; i++)
        ck_assert_str_eq(rg_token_stream_add(&s, v[i]), "");
    ck_assert_str_eq(rg_token_stream_add(&s, v[3]), "\U0001F468");
    ck_assert_str_eq(rg_token_stream_end(&s), "");
    rg_token_stream_add(&s, v[0]);
    ck_assert_str_eq(rg_token_stream_add(&s, v[0]), "\uFFFD");
    ck_assert_str_eq(rg_token_stream_end(&s), "\uFFFD");
    ck_assert_str_eq(rg_token_stream_end(&s), "");
    ck_assert_int_eq(s.length, 0);
    rg_tokenizer_free(t);
}
END_TEST

/* A word of a million letters takes n log n steps. */
START_TEST(test_long_word) {
    rg_tokenizer *t = rg_tokenizer_from_folder(golden_path(""));
    int64_t n = rg_slow() ? 20000 : 1000000, back;
    char *text = malloc((size_t)n);
    memset(text, 'e', (size_t)n);
    rg_tensor *ids = rg_tokenizer_encode(t, text, .length = n);
    const char *same = rg_tokenizer_decode(t, ids, .length = &back);
    ck_assert(same && back == n && memcmp(same, text, (size_t)n) == 0);
    free(text);
    rg_tokenizer_free(t);
}
END_TEST

START_TEST(test_bad_arguments) {
    rg_tokenizer *t = rg_tokenizer_from_folder(golden_path(""));
    static const char *const broken[] = { "\x80",         "\xC0\x80",
                                          "\xED\xA0\x80", "\xF4\x90\x80\x80",
                                          "\xE2\x82",     "\xFF" };
    char text[20];
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        snprintf(text, sizeof text, "ab%s", broken[i]);
        ck_fails(rg_tokenizer_encode(t, text), RG_VALUE_ERROR,
                 "tokenizer_encode: the text is no UTF-8 at byte 2");
    }
    rg_token_stream s = rg_token_stream_begin(t);
    ck_fails(rg_tokenizer_encode(t, "a", .length = -2), RG_VALUE_ERROR, "length -2 is negative");
    ck_fails(rg_tokenizer_decode(t, rg_full(RG_DIMS(2), 384)), RG_INDEX_ERROR,
             "tokenizer_decode: index 384 is none of 384 tokens");
    ck_fails(rg_tokenizer_decode(t, rg_full(RG_DIMS(2), -1)), RG_INDEX_ERROR, "index -1 is none");
    int64_t length = -7;
    ck_fails(rg_tokenizer_decode(t, rg_full(RG_DIMS(2), 384), .length = &length), RG_INDEX_ERROR,
             "tokenizer_decode: index 384");
    ck_assert_int_eq(length, -7);
    ck_fails(rg_tokenizer_decode(t, rg_zeros(2)), RG_TYPE_ERROR, "dtype torch.int64");
    ck_fails(rg_tokenizer_decode(t, NULL), RG_TYPE_ERROR, "");
    ck_fails(rg_token_stream_add(&s, 384), RG_INDEX_ERROR, "token_stream_add: index 384");
    ck_fails(rg_token_stream_begin(NULL).tokenizer, RG_TYPE_ERROR,
             "token_stream_begin: expected a tokenizer but got NULL");
    rg_token_stream nobody = { .tokenizer = NULL };
    ck_fails(rg_token_stream_add(&nobody, 1), RG_TYPE_ERROR,
             "token_stream_add: expected a tokenizer but got NULL");
    ck_fails(rg_tokenizer_token(t, -1), RG_INDEX_ERROR, "tokenizer_token: index -1");
    ck_fails(rg_tokenizer_id(t, "no such") >= 0, RG_INDEX_ERROR, "KeyError: 'no such' is none of");
    ck_fails(rg_tokenizer_from_folder("/no/such"), RG_IO_ERROR,
             "[Errno 2] No such file or directory: '/no/such/tokenizer.json'");
    rg_tokenizer_free(t);
}
END_TEST

/* ---- files that are refused ---------------------------------------------------------- */

/* Quotes are single here, for ease of reading. */
static const char good[] =
    "{'version': '1.0', 'truncation': null, 'padding': null, 'added_tokens': [{'id': 6,"
    " 'content': '<x>', 'single_word': false, 'lstrip': false, 'rstrip': false,"
    " 'normalized': false, 'special': true}], 'normalizer': null, 'pre_tokenizer':"
    " {'type': 'ByteLevel', 'add_prefix_space': false, 'trim_offsets': true,"
    " 'use_regex': true}, 'post_processor': {'type': 'TemplateProcessing', 'single':"
    " [{'Sequence': {'id': 'A', 'type_id': 0}}], 'pair': [], 'special_tokens': {}},"
    " 'decoder': {'type': 'ByteLevel', 'add_prefix_space': true, 'trim_offsets': false},"
    " 'model': {'type': 'BPE', 'dropout': null, 'unk_token': '<u>',"
    " 'continuing_subword_prefix': '', 'end_of_word_suffix': null, 'fuse_unk': false,"
    " 'byte_fallback': false, 'ignore_merges': false, 'vocab': {'a': 0, 'b': 1, 'ab': 2,"
    " '\u0120': 3, '\u0120ab': 4, '<u>': 5}, 'merges': ['a b', '\u0120 ab']}}";

typedef struct {
    const char *from, *to, *sentence;
} edit;
static const edit bad[] = {
    { "'1.0'", "'2.0'", "'version' is '2.0', which isn't supported" },
    { "'1.0'", "1", "'version' is 1, which isn't supported" },
    { "'truncation': null", "'truncation': {'max_length': 9}", "the truncation has no 'strategy'" },
    { "'padding': null", "'padding': {}", "the padding has no 'strategy'" },
    { "'padding': null", "'pudding': null", "'pudding' isn't supported" },
    { "'normalizer': null", "'normalizer': {'type': 'Nmt'}",
      "the normalizer's 'type' is 'Nmt', which isn't supported" },
    { "'normalizer': null", "'normalizer': []", "'normalizer' is an array" },
    { "'pre_tokenizer':", "'pre_tokenizers':", "'pre_tokenizers' isn't supported" },
    { "'pre_tokenizer':", "'pre_tokenizer': 3, 'x':", "'pre_tokenizer' is 3" },
    { "{'type': 'ByteLevel', 'add_prefix_space': false", "{'type': 'UnicodeScripts'",
      "the pre_tokenizer's 'type' is 'UnicodeScripts', which isn't supported" },
    { "{'type': 'ByteLevel', 'add_prefix_space': false", "{'add_prefix_space': false",
      "the pre_tokenizer has no 'type'" },
    { "'add_prefix_space': false", "'add_prefix_space': 0",
      "the pre_tokenizer's 'add_prefix_space' is 0" },
    { "'add_prefix_space': false, ", "", "the pre_tokenizer has no 'add_prefix_space'" },
    { "'use_regex': true", "'use_regex': null", "the pre_tokenizer's 'use_regex' is null" },
    { "'use_regex': true", "'regex': true", "the pre_tokenizer's 'regex' isn't supported" },
    { "'TemplateProcessing'", "'BertProcessing'", "the post_processor's 'single' isn't supported" },
    { "'TemplateProcessing'", "'OtherProcessing'",
      "the post_processor's 'type' is 'OtherProcessing', which isn't supported" },
    { "'TemplateProcessing'", "3", "the post_processor's 'type' is 3" },
    { "[{'Sequence': {'id': 'A', 'type_id': 0}}]", "[]",
      "the post_processor's 'single' doesn't have each text once" },
    { "[{'Sequence'", "[{'SpecialToken': {'id': '<x>', 'type_id': 0}}, {'Sequence'",
      "the post_processor's special token '<x>' isn't in 'special_tokens'" },
    { "{'Sequence'", "{'SpecialToken'",
      "the post_processor's special token 'A' isn't in 'special_tokens'" },
    { "{'id': 'A'", "{'id': 'B'", "a piece's 'id' is 'B', which isn't supported" },
    { "{'id': 'A', 'type_id': 0}", "7", "a piece's 'Sequence' is 7" },
    { "'single': [", "'single': 3, 'pair': [", "comes twice in one object" },
    { "'single': [", "'couple': [", "the post_processor's 'couple' isn't supported" },
    { "'single': [{'Sequence': {'id': 'A', 'type_id': 0}}], ", "",
      "the post_processor has no 'single'" },
    { "{'Sequence': {'id': 'A', 'type_id': 0}}", "7", "a piece is no object" },
    { "'type_id': 0", "'type_id': 2147483648", "a piece's 'type_id' is 2147483648" },
    { "'decoder'", "'decoders'", "'decoders' isn't supported" },
    { "'decoder': {'type': 'ByteLevel'", "'decoder': {'type': 'CTC'",
      "the decoder's 'type' is 'CTC', which isn't supported" },
    { "'decoder': {'type': 'ByteLevel', 'add_prefix_space': true, 'trim_offsets': false}",
      "'decoder': []", "'decoder' is an array, which isn't supported" },
    { "'type': 'BPE'", "'type': 'WordPiece'", "the model's 'dropout' isn't supported" },
    { "'type': 'BPE'", "'type': 'Words'", "the model's 'type' is 'Words'" },
    { "'type': 'BPE'", "'type': null", "the model's 'type' is null" },
    { "'dropout': null", "'dropout': 0.1", "the model's 'dropout' is 0.1, which isn't" },
    { "'unk_token': '<u>'", "'unk_token': '<v>'", "unk_token '<v>' is not in the vocabulary" },
    { "'unk_token': '<u>'", "'unk_token': 3", "the model's 'unk_token' is 3" },
    { "'<u>': 5", "'\u00ff': 5", "unk_token '<u>' is not in the vocabulary" },
    { "prefix': ''", "prefix': 1", "'continuing_subword_prefix' is 1" },
    { "prefix': ''", "prefix': 'b'", "merge 2 is of '\u0120b', which" },
    { "suffix': null", "suffix': true", "'end_of_word_suffix' is true" },
    { "'fuse_unk': false", "'fuse_unk': 1", "the model's 'fuse_unk' is 1" },
    { "'byte_fallback': false", "'byte_fallback': 1", "'byte_fallback' is 1" },
    { "prefix': '', 'end_of_word_suffix': null, 'fuse_unk': false, 'byte_fallback': false",
      "prefix': '#', 'end_of_word_suffix': null, 'fuse_unk': false, 'byte_fallback': true",
      "byte_fallback with a continuing_subword_prefix isn't supported" },
    { "suffix': null, 'fuse_unk': false, 'byte_fallback': false",
      "suffix': '#', 'fuse_unk': false, 'byte_fallback': true",
      "byte_fallback with an end_of_word_suffix isn't supported" },
    { "'ignore_merges': false", "'ignore_merges': 'no'", "'ignore_merges' is 'no'" },
    { "'ignore_merges'", "'use_merges'", "the model's 'use_merges' isn't supported" },
    { "'vocab': {", "'vocab': [], 'x': {", "the model's 'vocab' is an array" },
    { "'b': 1", "'b': -1", "the number of token 'b' is -1, and none from 0 to 5" },
    { "'b': 1", "'b': 6", "the number of token 'b' is 6, and none from 0 to 5" },
    { "'b': 1", "'b': 1.5", "the number of token 'b' is 1.5, and none from 0 to 5" },
    { "'b': 1", "'b': '1'", "token 'b' has no number" },
    { "'b': 1", "'b': 1e0", "the number of token 'b' is 1e0, and none from 0 to 5" },
    { "'b': 1", "'b': 99999999999999999999",
      "the number of token 'b' is 99999999999999999999, and none from 0 to 5" },
    { "'b': 1", "'b': 0", "tokens 'a' and 'b' have the same number, 0" },
    { "'b': 1", "'a': 1", "'a' comes twice in one object" },
    { "'b': 1", "'b\\u0000': 1", "a name that begins with" },
    { "'b': 1", "'\xff': 1", "there is no UTF-8" },
    { "'b': 1", "'b': ", "a value is expected" },
    { "'a b'", "'a c'", "merge 1 is of 'c', which is not in the vocabulary" },
    { "'a b'", "'b a'", "merge 1 is of 'ba', which is not in the vocabulary" },
    { "'a b'", "'c b'", "merge 1 is of 'c', which is not in the vocabulary" },
    { "'a b'", "'a\\u0000 b'", "merge 1 is of 'a?', which is not in the vocabulary" },
    { "'a b'", "'ab'", "merge 1 is 'ab', which isn't two tokens with a blank" },
    { "'a b'", "'a b a'", "merge 1 is 'a b a', which isn't two tokens with a blank" },
    { "'a b'", "'a  b'", "merge 1 is 'a  b', which isn't two tokens with a blank" },
    { "'a b'", "''", "merge 1 is '', which isn't two tokens with a blank" },
    { "'a b'", "['a', 'b']", "merge 2 is one text, unlike the first one" },
    { "'\u0120 ab'", "['\u0120', 'ab']", "merge 2 is two texts, unlike the first one" },
    { "'a b'", "['a']", "merge 1 is neither a text nor two texts" },
    { "'a b'", "['a', 'b', 'a']", "merge 1 is neither a text nor two" },
    { "'a b'", "['a', 1]", "merge 1 is neither a text nor two" },
    { "'a b'", "[1, 'a']", "merge 1 is neither a text nor two" },
    { "'a b'", "7", "merge 1 is neither a text nor two" },
    { "'a b'", "{'a': 'b'}", "merge 1 is neither a text nor two" },
    { "'a b'", "{'a': 'b', 'c': 'd'}", "merge 1 is neither a text nor two" },
    { "'merges': [", "'merges': {}, 'x': [", "the model's 'merges' is an object" },
    { ", 'merges': ['a b', '\u0120 ab']", "", "the model has no 'merges'" },
    { "'id': 6", "'id': 7", "the number of the added token '<x>' is 7, not 6" },
    { "'id': 6", "'id': 0", "the number of the added token '<x>' is 0, not 6" },
    { "'id': 6", "'id': -6", "an added token's 'id' is -6, which isn't supported" },
    { "'id': 6", "'id': null", "an added token's 'id' is null" },
    { "'id': 6,", "", "an added token has no 'id'" },
    { "'<x>', 'single", "'a', 'single", "the number of the added token 'a' is 6, not 0" },
    { "'<x>', 'single", "'', 'single", "an added token has no text" },
    { "'<x>', 'single", "'\\u0000', 'single", "an added token's 'content' is" },
    { "'content': '<x>'", "'content': 1", "an added token's 'content' is 1" },
    { "'content'", "'text'", "an added token's 'text' isn't supported" },
    { "'lstrip': false, ", "", "an added token has no 'lstrip'" },
    { "'rstrip': false", "'rstrip': 0", "an added token's 'rstrip' is 0" },
    { "[{'id': 6,", "[7, {'id': 6,", "an added token is no object" },
    { "'special': true}]",
      "'special': true}, {'id': 6, 'content': '<x>', 'single_word': false, 'lstrip': false,"
      " 'rstrip': false, 'normalized': false, 'special': true}]",
      "the added token '<x>' comes twice" },
    { "'model'", "'modell'", "'modell' isn't supported" },
    { "{'version'", "[{'version'", "a comma or ] is expected" },
    { "]}}", "]}", "a comma or } is expected" },
    { "]}}", "]}} x", "there is more behind the value" },
    { "{'version'", "x{'version'", "a value is expected" },
};

/* Copies a text, with the first `from` replaced and with double quotes for single ones. */
static size_t edited(char *to, const char *text, const edit *e) {
    const char *at = strstr(text, e->from);
    ck_assert_msg(at, "no %s", e->from);
    int n = sprintf(to, "%.*s%s%s", (int)(at - text), text, e->to, at + strlen(e->from));
    for (char *c = to; *c; c++)
        if (*c == '\'')
            *c = '"';
    return (size_t)n;
}

/* The sentences of the table have single quotes, too. */
static void refused(void *it, const char *path, const char *sentence) {
    char wanted[500], quoted[400];
    snprintf(quoted, sizeof quoted, "%s", sentence);
    for (char *c = quoted; *c; c++)
        if (*c == '\'' && !(c > quoted && c[-1] == 'n' && c[1] == 't')
            && !(c > quoted && c[1] == 's' && c[2] == ' '))
            *c = '"';
    snprintf(wanted, sizeof wanted, "%s", quoted);
    ck_assert_msg(!it && rg_error_code() == RG_IO_ERROR && strstr(rg_error(), wanted)
                      && strstr(rg_error(), path),
                  "expected '%s', got '%s'", wanted, it ? "no error" : rg_error());
    rg_error_clear();
}

START_TEST(test_bad_files) {
    char text[3000];
    scratch_begin();
    size_t n = edited(text, good, &(edit){ "1.0", "1.0", "" });
    const char *path = scratch_write("t.json", text, n);
    rg_tokenizer *t = rg_tokenizer_from_file(path);
    ck_ok(t);
    static const int64_t ids[] = { 2, 4, 5, 6, 1 };
    same_numbers("ab", rg_tokenizer_encode(t, "ab abc<x>b"), ids, 5);
    rg_tokenizer_free(t);
    n = edited(text, good, &(edit){ "'padding': null", "'padding': 3", "" });
    path = scratch_write("t.json", text, n);
    snprintf(text, sizeof text,
             "tokenizer_from_file: '%s': \"padding\" is 3, which isn't supported", path);
    ck_says(rg_tokenizer_from_file(path), text);
    n = edited(text, good, &(edit){ "'padding': null", "'pudding': null", "" });
    path = scratch_write("t.json", text, n);
    snprintf(text, sizeof text, "tokenizer_from_file: '%s': \"pudding\" isn't supported", path);
    ck_says(rg_tokenizer_from_file(path), text);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        n = edited(text, good, &bad[i]);
        path = scratch_write("t.json", text, n);
        refused(rg_tokenizer_from_file(path), path, bad[i].sentence);
    }
    scratch_end();
}
END_TEST

/* Returns the tokenizer of the good file after up to four edits. */
static rg_tokenizer *edited_tokenizer(const edit *const edits[4]) {
    char text[4000], next[4000];
    size_t n = edited(text, good, &(edit){ "", "", "" });
    for (int k = 0; k < 4 && edits[k]; k++) {
        char from[400], to[1200];
        edited(from, edits[k]->from, &(edit){ "", "", "" });
        edited(to, edits[k]->to, &(edit){ "", "", "" });
        n = edited(next, text, &(edit){ from, to, "" });
        memcpy(text, next, n + 1);
    }
    rg_tokenizer *t = rg_tokenizer_from_file(scratch_write("t.json", text, n));
    ck_ok(t);
    return t;
}

/* The options of a file change the tokens. Each text becomes the n numbers that Hugging Face's
 * tokenizers give. These numbers decode to `back`. */
START_TEST(test_options) {
    static const edit prefix = { "'add_prefix_space': false", "'add_prefix_space': true", "" };
    static const edit no_words = { "'use_regex': true", "'use_regex': false", "" };
    static const edit unsaid = { ", 'use_regex': true", "", "" };
    static const edit not_fused = { "'fuse_unk': false, ", "", "" };
    static const edit not_whole = { "'ignore_merges': false, ", "", "" };
    static const edit whole = { "'ignore_merges': false", "'ignore_merges': true", "" };
    static const edit unmerged = { "['a b', '\u0120 ab']", "[]", "" };
    static const edit word_0 = { "'a': 0, 'b': 1, 'ab': 2", "'ab': 0, 'b': 1, 'a': 2", "" };
    static const edit blanks = { "'\u0120 ab'", "'\u0120 ab', '\u0120 \u0120'", "" };
    static const edit two_blanks = { "'<u>': 5", "'<u>': 5, '\u0120\u0120': 6", "" };
    static const edit longest = { "'<u>': 5", "'<u>': 5, 'babab': 6", "" };
    static const edit across = { "'\u0120 ab'", "'\u0120 ab', 'ab \u0120ab'", "" };
    static const edit across_token = { "'<u>': 5", "'ab\u0120ab': 6, '<u>': 5", "" };
    static const edit twice = { "'a b'", "'a b', 'b a', 'a b'", "" };
    static const edit pair = { "'<u>': 5", "'<u>': 5, 'ba': 6", "" };
    static const edit later = { "'id': 6", "'id': 7", "" };
    static const edit fused = { "'fuse_unk': false", "'fuse_unk': true", "" };
    static const edit no_unknown = { "'unk_token': '<u>'", "'unk_token': null", "" };
#define ADDED(id, content)                                                                        \
    ", {'id': " #id ", 'content': '" content "', 'single_word': false, 'lstrip': false, 'rstrip'" \
    ": false, 'normalized': false, 'special': true}"
    static const edit second = { "'special': true}", "'special': true}" ADDED(7, "[y]"), "" };
    static const edit prefixes = { "'special': true}",
                                   "'special': true}" ADDED(7, "<") ADDED(8, "a<") ADDED(9, "<x>y")
                                       ADDED(10, "<x"),
                                   "" };
    static const edit four = { "'a b'", "'a b', 'a b', 'b a', 'a b'", "" };
    static const edit same_right = { "'\u0120 ab'", "'\u0120 b'", "" };
    static const edit blank_b = { "'<u>': 5", "'<u>': 5, '\u0120b': 6", "" };
    static const edit normalized = { "'normalized': false", "'normalized': true", "" };
    static const edit shorter = { "'special': true}", "'special': true}" ADDED(7, "x>"), "" };
    static const edit last_a = { "'a': 0", "'a': 5", "" };
    static const edit first_unknown = { "'<u>': 5", "'<u>': 0", "" };
    static const edit no_dropout = { "'dropout': null", "'dropout': 0.0", "" };
    static const edit word = { "'<x>', 'single_word': false", "'aab', 'single_word': true", "" };
    static const edit blank = { "'<x>'", "'[a b]'", "" };
    static const edit none_added = { "'added_tokens': [{'id': 6, 'content': '<x>', 'single_word':"
                                     " false, 'lstrip': false, 'rstrip': false, 'normalized':"
                                     " false, 'special': true}], ",
                                     "", "" };
    static const edit no_processor = { "'post_processor': {'type': 'TemplateProcessing', 'single':"
                                       " [{'Sequence': {'id': 'A', 'type_id': 0}}], 'pair': [],"
                                       " 'special_tokens': {}}, ",
                                       "", "" };
    static const edit null_processor = { "{'type': 'TemplateProcessing', 'single':"
                                         " [{'Sequence': {'id': 'A', 'type_id': 0}}], 'pair': [],"
                                         " 'special_tokens': {}}",
                                         "null", "" };
    static const struct {
        const edit *edits[4];
        const char *text;
        int n;
        int64_t ids[12];
        const char *back;
    } rows[] = {
        { { NULL }, "ab ab", 2, { 2, 4 }, "ab ab" },
        { { &no_processor }, "ab ab", 2, { 2, 4 }, "ab ab" },
        { { &null_processor }, "ab ab", 2, { 2, 4 }, "ab ab" },
        /* The longest added token that fits is taken. */
        { { &prefixes }, "<x>y<x<<x>ba<a", 7, { 9, 10, 7, 6, 1, 8, 0 }, "<x>y<x<<x>ba<a" },
        /* A blank comes before each piece that has none. */
        { { &prefix }, "ab<x>b a", 6, { 4, 6, 3, 1, 3, 0 }, " ab<x> b a" },
        { { &prefix }, " ab<x> ab", 3, { 4, 6, 4 }, " ab<x> ab" },
        { { &prefix }, "<x>", 1, { 6 }, "<x>" },
        /* With a regular expression, merges don't reach across a blank. */
        { { &across, &across_token, &later }, "ab ab", 2, { 2, 4 }, "ab ab" },
        /* An option that the file leaves out has its default. Without a regular expression
         * (no_words), merges reach across blanks. */
        { { &unsaid, &across, &across_token, &later }, "ab ab", 2, { 2, 4 }, "ab ab" },
        { { &not_fused }, "ccab c", 5, { 5, 5, 2, 3, 5 }, "<u><u>ab <u>" },
        { { &not_whole, &unmerged }, "ab ab", 5, { 0, 1, 3, 0, 1 }, "ab ab" },
        { { &no_words, &across, &across_token, &later }, "ab ab", 1, { 6 }, "ab ab" },
        /* If a pair is in the list of merges twice, the later merge counts. */
        { { &twice, &pair, &later }, "aba", 2, { 0, 6 }, "aba" },
        { { &twice, &pair, &later }, "abab", 3, { 0, 6, 1 }, "abab" },
        { { &four, &pair, &later }, "aba", 2, { 0, 6 }, "aba" },
        { { &same_right, &blank_b, &later }, "ab b", 2, { 2, 6 }, "ab b" },
        /* With ignore_merges, a word of the vocabulary is one token. Other words are merged. */
        { { &unmerged }, "ab ab", 5, { 0, 1, 3, 0, 1 }, "ab ab" },
        { { &whole, &unmerged }, "ab ab", 2, { 2, 4 }, "ab ab" },
        { { &whole, &unmerged }, "ba ab aab", 7, { 1, 0, 4, 3, 0, 0, 1 }, "ba ab aab" },
        { { &whole, &unmerged }, "a a", 3, { 0, 3, 0 }, "a a" },
        /* The last character of white space belongs to the word that follows. */
        { { &blanks, &two_blanks, &later }, "a  b", 4, { 0, 3, 3, 1 }, "a  b" },
        { { &blanks, &two_blanks, &later }, "a   b", 4, { 0, 6, 3, 1 }, "a   b" },
        { { &blanks, &two_blanks, &later }, "a  ab  ", 4, { 0, 3, 4, 6 }, "a  ab  " },
        { { &whole, &unmerged, &word_0 }, "ab a", 3, { 0, 3, 2 }, "ab a" },
        { { &whole, &longest, &later }, "babab ab", 2, { 6, 4 }, "babab ab" },
        { { &whole, &longest, &later }, "bababa", 4, { 1, 2, 2, 0 }, "bababa" },
        { { &whole }, "abab ab", 3, { 2, 2, 4 }, "abab ab" },
        { { &whole }, "ababab ababab", 6, { 2, 2, 2, 4, 2, 2 }, "ababab ababab" },
        /* An added token isn't a word of the vocabulary, so ignore_merges doesn't find it. */
        { { &whole, &word }, "aab 1aab", 5, { 6, 3, 5, 0, 2 }, "aab <u>aab" },
        { { &whole }, "<u> <x>", 5, { 5, 5, 5, 3, 6 }, "<u><u><u> <x>" },
        /* Some bytes aren't in the vocabulary. */
        { { NULL }, "ccab c", 5, { 5, 5, 2, 3, 5 }, "<u><u>ab <u>" },
        { { &fused }, "ccab cac", 6, { 5, 2, 3, 5, 0, 5 }, "<u>ab <u>a<u>" },
        { { &no_unknown }, "ccab cac", 3, { 2, 3, 0 }, "ab a" },
        { { &no_unknown }, "c", 0, { 0 }, "" },
        { { &no_unknown }, "ab\ncc\n", 1, { 2 }, "ab" },
        /* The unknown token's number may be 0. */
        { { &first_unknown, &last_a }, "ccab", 3, { 0, 0, 2 }, "<u><u>ab" },
        { { &first_unknown, &last_a, &fused },
          "ccab cac",
          6,
          { 0, 2, 3, 0, 5, 0 },
          "<u>ab <u>a<u>" },
        { { &no_dropout }, "ab ab", 2, { 2, 4 }, "ab ab" },
        { { &none_added }, "ab<x>", 4, { 2, 5, 5, 5 }, "ab<u><u><u>" },
        { { &blank }, "a[a b]b", 3, { 0, 6, 1 }, "a[a b]b" },
        /* Added tokens that are normalized are looked for after the others. */
        { { &shorter }, "<x>x>", 2, { 6, 7 }, "<x>x>" },
        { { &normalized, &shorter }, "<x>x>", 3, { 5, 7, 7 }, "<u>x>x>" },
        /* The added tokens begin with different characters. */
        { { &second }, "[y]ab<x>b[y]", 5, { 7, 2, 6, 1, 7 }, "[y]ab<x>b[y]" },
    };
    scratch_begin();
    for (int i = 0; i < (int)(sizeof rows / sizeof *rows); i++) {
        RG_SCOPE();
        rg_tokenizer *t = edited_tokenizer(rows[i].edits);
        rg_tensor *ids = rg_tokenizer_encode(t, rows[i].text);
        same_numbers(rows[i].text, ids, rows[i].ids, rows[i].n);
        ck_assert_str_eq(rg_tokenizer_decode(t, ids), rows[i].back);
        rg_tokenizer_free(t);
    }
    /* If any character of a token stands for no byte, the whole token decodes to its own string. */
    static const int64_t ids[] = { 6, 0, 3, 7 };
    static const char *const texts[] = { "\u4e2d\u0120", "\u0144", "a b", "a\u00ad", "\x7F" };
    for (int i = 0; i < (int)(sizeof texts / sizeof *texts); i++) {
        char to[40], back[40];
        snprintf(to, sizeof to, "'<u>': 5, '%s': 6", texts[i]);
        snprintf(back, sizeof back, "%sa <x>", texts[i]);
        const edit raw = { "'<u>': 5", to, "" };
        rg_tokenizer *t = edited_tokenizer((const edit *const[4]){ &raw, &later });
        ck_assert_str_eq(rg_tokenizer_decode(t, rg_from_int64(ids, RG_DIMS(4))), back);
        rg_tokenizer_free(t);
    }
    scratch_end();
}
END_TEST

/* Copies the text between two pages that can't be read. If `last`, it ends right before the second
 * of these pages; otherwise it begins right after the first one. The next call overwrites it. */
static const char *between_pages(const char *text, size_t n, bool last) {
    static char *pages;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (!pages) {
        pages = mmap(NULL, 3 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        ck_assert(pages != MAP_FAILED && !mprotect(pages + page, page, PROT_READ | PROT_WRITE));
    }
    ck_assert(n <= page);
    return memcpy(pages + (last ? 2 * page - n : page), text, n);
}

/* A token with single_word is found only if no letter, digit, mark or underscore is beside it. A
 * token that strips takes the white space beside it. Bytes before or after the text aren't read.
 * The numbers are those of Hugging Face's tokenizers. */
START_TEST(test_neighbours) {
    static const edit alone = { "'single_word': false", "'single_word': true", "" };
    static const edit left = { "'lstrip': false", "'lstrip': true", "" };
    static const edit right = { "'rstrip': false", "'rstrip': true", "" };
    static const edit line = { "'<x>'", "'\\n'", "" };
    static const struct {
        const edit *edits[4];
        const char *text;
        int n;
        int64_t ids[12];
    } rows[] = {
        { { &alone }, "<x>", 1, { 6 } },
        { { &alone }, "<x> a", 3, { 6, 3, 0 } },
        { { &alone }, "<x><x>", 2, { 6, 6 } },
        { { &alone }, "-<x>-", 3, { 5, 6, 5 } },
        { { &alone }, "a<x>", 4, { 0, 5, 5, 5 } },
        { { &alone }, "<x>a", 4, { 5, 5, 5, 0 } },
        { { &alone }, "a<x>b", 5, { 0, 5, 5, 5, 1 } },
        { { &alone }, "<x>1", 4, { 5, 5, 5, 5 } },
        { { &alone }, "_<x>", 4, { 5, 5, 5, 5 } },
        { { &alone }, "b<x><x>", 5, { 1, 5, 5, 5, 6 } },
        { { &alone }, "<x>b<x>", 7, { 5, 5, 5, 1, 5, 5, 5 } },
        { { &alone }, "\u00e9<x>", 5, { 5, 5, 5, 5, 5 } },
        { { &alone }, "<x>\u00e9", 5, { 5, 5, 5, 5, 5 } },
        { { &alone }, "<x>\u0301", 5, { 5, 5, 5, 5, 5 } },
        { { &alone }, "\u00b7<x>", 3, { 5, 5, 6 } },
        { { &alone }, "\u4e2d<x>", 6, { 5, 5, 5, 5, 5, 5 } },
        { { &alone }, "\u3000<x>\u3000", 7, { 5, 5, 5, 6, 5, 5, 5 } },
        { { &alone }, "\U0001f600<x>", 5, { 5, 5, 5, 5, 6 } },
        { { &alone }, "\U00010400<x>", 7, { 5, 5, 5, 5, 5, 5, 5 } },
        { { &left }, "a <x>", 2, { 0, 6 } },
        { { &left }, "\u3000\u00a0<x>b", 2, { 6, 1 } },
        { { &left }, " \n\t<x> a<x>", 4, { 6, 3, 0, 6 } },
        { { &left }, "<x> <x>", 2, { 6, 6 } },
        { { &left }, "a\u2003<x>", 2, { 0, 6 } },
        { { &right }, "a<x> b", 3, { 0, 6, 1 } },
        { { &right }, "<x>\u3000\u00a0b", 2, { 6, 1 } },
        { { &right }, "<x> \n<x> ", 2, { 6, 6 } },
        { { &right }, "<x> ", 1, { 6 } },
        { { &alone, &left, &right }, "a <x> b", 3, { 0, 6, 1 } },
        { { &alone, &left, &right }, "a<x> b", 6, { 0, 5, 5, 5, 3, 1 } },
        { { &alone, &left, &right }, "a <x>b", 6, { 0, 3, 5, 5, 5, 1 } },
        { { &alone, &left, &right }, " <x> ", 1, { 6 } },
        /* A token that is white space itself isn't found where another one has stripped it. */
        { { &line, &left }, "a\n \na", 4, { 0, 6, 6, 0 } },
        { { &line, &left, &right }, "a\n\n a", 3, { 0, 6, 0 } },
        { { &line, &left, &right }, "a\n \n\na\n", 4, { 0, 6, 0, 6 } },
    };
    scratch_begin();
    for (int i = 0; i < (int)(sizeof rows / sizeof *rows); i++) {
        RG_SCOPE();
        rg_tokenizer *t = edited_tokenizer(rows[i].edits);
        const size_t n = strlen(rows[i].text);
        for (int last = 0; last < 2; last++) {
            const char *text = between_pages(rows[i].text, n, last);
            rg_tensor *ids = rg_tokenizer_encode(t, text, .length = (int64_t)n);
            same_numbers(rows[i].text, ids, rows[i].ids, rows[i].n);
        }
        rg_tokenizer_free(t);
    }
    scratch_end();
}
END_TEST

/* Writes a tokenizer.json whose vocabulary has all 256 bytes, each under its own number, and loads
 * it. A byte that is a visible character stands for itself. The other bytes are written as
 * characters from U+0100 on. */
static rg_tokenizer *tokenizer_of_bytes(void) {
    char vocabulary[6000], text[9000], *to = vocabulary;
    int hidden = 0;
    for (int b = 0; b < 256; b++) {
        const bool seen = (b > ' ' && b < 0x7F) || (b > 0xA0 && b != 0xAD);
        to += sprintf(to, "%s'\\u%04x': %d", b ? ", " : "", (unsigned)(seen ? b : 256 + hidden), b);
        hidden += !seen;
    }
    snprintf(text, sizeof text,
             "{'pre_tokenizer': {'type': 'ByteLevel', 'add_prefix_space': false, 'trim_offsets':"
             " true}, 'decoder': {'type': 'ByteLevel', 'add_prefix_space': true, 'trim_offsets':"
             " true}, 'model': {'unk_token': 'none', 'vocab': {%s}, 'merges': []}}",
             vocabulary);
    for (char *c = text; *c; c++)
        if (*c == '\'')
            *c = '"';
    return rg_tokenizer_from_file(scratch_write("t.json", text, strlen(text)));
}

/* If the vocabulary has all bytes, the unknown token isn't needed. */
START_TEST(test_bytes_alone) {
    static const char text[] = " ~\x7F\n\0\u00a0\u00ad\u0144\u4e2d\U0010ffffa";
    int64_t ids[sizeof text - 1], n;
    for (size_t i = 0; i < sizeof text - 1; i++)
        ids[i] = (unsigned char)text[i];
    scratch_begin();
    rg_tokenizer *t = tokenizer_of_bytes();
    ck_ok(t);
    ck_assert_int_eq(rg_tokenizer_size(t), 256);
    same_numbers("bytes", rg_tokenizer_encode(t, text, .length = sizeof text - 1), ids,
                 sizeof text - 1);
    const char *back = rg_tokenizer_decode(t, rg_from_int64(ids, RG_DIMS(sizeof text - 1)),
                                           .length = &n);
    ck_assert(back && n == sizeof text - 1 && memcmp(back, text, (size_t)n) == 0);
    rg_tokenizer_free(t);
    scratch_end();
}
END_TEST

/* Bytes that are no UTF-8 become as many U+FFFD as in Python's bytes.decode(errors="replace"): one
 * for the longest beginning of a character, and one for each other byte. */
START_TEST(test_no_utf8) {
    static const struct {
        const char *bytes;
        int replaced; /* The number of U+FFFD before the "a". */
    } rows[] = {
        { "\x80", 1 },
        { "\xBF\x80", 2 },
        { "\xC0\x80", 2 },
        { "\xC1\xBF", 2 },
        { "\xC2", 1 },
        { "\xC2\xC2", 2 },
        { "\xDF", 1 },
        { "\xE0\x80", 2 },
        { "\xE0\x9F\xBF", 3 },
        { "\xE0\xA0", 1 },
        { "\xE0\xBF", 1 },
        { "\xE1\x80", 1 },
        { "\xE2\x82", 1 },
        { "\xED\x9F", 1 },
        { "\xED\xA0\x80", 3 },
        { "\xED\xBF\xBF", 3 },
        { "\xEE\x80", 1 },
        { "\xEF\xBF", 1 },
        { "\xF0\x80\x80", 3 },
        { "\xF0\x8F\xBF\xBF", 4 },
        { "\xF0\x90", 1 },
        { "\xF0\x90\x80", 1 },
        { "\xF1\x80\x80", 1 },
        { "\xF3\xBF\xBF", 1 },
        { "\xF4\x8F\xBF", 1 },
        { "\xF4\x90\x80\x80", 4 },
        { "\xF5\x80", 2 },
        { "\xFF\xFE", 2 },
        { "\xF0\x90\xF0\x90", 2 },
        { "\xE2\x82\xE2", 2 },
        { "\xE1\xC0", 2 },
        { "\xE1\x80\xC0", 2 },
        { "\xF1\x80\xC0", 2 },
        { "\xF1\x80\x80\xC0", 2 },
    };
    scratch_begin();
    rg_tokenizer *t = tokenizer_of_bytes();
    for (int i = 0; i < (int)(sizeof rows / sizeof *rows); i++) {
        RG_SCOPE();
        char want[20] = "";
        int64_t ids[5], n = 0, length;
        for (const char *b = rows[i].bytes; *b; b++)
            ids[n++] = (unsigned char)*b;
        ids[n++] = 'a';
        for (int k = 0; k < rows[i].replaced; k++)
            strcat(want, "\uFFFD");
        /* The bytes are at the end of the text, and then before a letter. */
        for (int64_t m = n - 1; m <= n; m++) {
            if (m == n)
                strcat(want, "a");
            ck_assert_str_eq(rg_tokenizer_decode(t, rg_from_int64(ids, RG_DIMS(m))), want);
            ck_assert_str_eq(streamed(t, ids, m, &length), want);
        }
    }
    rg_tokenizer_free(t);
    scratch_end();
}
END_TEST

/* Writes vocab.json and merges.txt of tokens of 1, 2, 4, .. 512 letters, and of 127 and 255. */
static void write_long_merges(void) {
    static const int tokens[] = { 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 127, 255 };
    char vocab[3000] = "{", merges[3000] = "", a[513];
    memset(a, 'a', 512);
    for (int i = 0; i < 12; i++)
        sprintf(vocab + strlen(vocab), "%s\"%.*s\": %d", i ? ", " : "", tokens[i], a, i);
    strcat(vocab, "}");
    for (int i = 0; i < 9; i++)
        sprintf(merges + strlen(merges), "%.*s %.*s\n", tokens[i], a, tokens[i], a);
    sprintf(merges + strlen(merges), "%.*s %.*s\n", 128, a, 127, a);
    scratch_write("vocab.json", vocab, strlen(vocab));
    scratch_write("merges.txt", merges, strlen(merges));
}

/* Tokens may have any length. */
START_TEST(test_long_merges) {
    static const int64_t ids[] = { 9, 9, 8, 0 };
    char text[1282];
    scratch_begin();
    write_long_merges();
    rg_tokenizer *t = rg_tokenizer_from_folder(scratch(""));
    ck_ok(t);
    memset(text, 'a', 1281);
    text[1281] = 0;
    same_numbers("a", rg_tokenizer_encode(t, text), ids, 4);
    rg_tokenizer_free(t);
    scratch_end();
}
END_TEST

/* ---- random merges ------------------------------------------------------------------- */

/* A vocabulary: the letters a, b and c, and the tokens that the merges make. */
enum { MOST_TOKENS = 32, MOST_MERGES = 16, MOST_LETTERS = 16 };
typedef struct {
    char token[MOST_TOKENS][MOST_LETTERS];
    int n_tokens, n_merges;
    struct {
        int left, right, made;
    } merge[MOST_MERGES];
} merge_list;

static int any_number(int n) { return (int)rg_item_int(rg_randint(0, n, 1)); }

static int token_of(merge_list *m, const char *text) {
    int i = 0;
    while (i < m->n_tokens && strcmp(m->token[i], text) != 0)
        i++;
    if (i == m->n_tokens)
        strcpy(m->token[m->n_tokens++], text);
    return i;
}

/* Draws merges, of which some come twice. */
static void draw_merges(merge_list *m) {
    *m = (merge_list){ .token = { "a", "b", "c" }, .n_tokens = 3 };
    while (m->n_merges < MOST_MERGES) {
        const int left = any_number(m->n_tokens), right = any_number(m->n_tokens);
        char made[2 * MOST_LETTERS];
        const int n = sprintf(made, "%s%s", m->token[left], m->token[right]);
        if (n >= MOST_LETTERS)
            continue;
        m->merge[m->n_merges].left = left;
        m->merge[m->n_merges].right = right;
        m->merge[m->n_merges++].made = token_of(m, made);
    }
}

static void write_merges(const merge_list *m) {
    char vocab[2000] = "", lines[2000] = "";
    for (int i = 0; i < m->n_tokens; i++)
        sprintf(vocab + strlen(vocab), "%s\"%s\": %d", i ? ", " : "{", m->token[i], i);
    strcat(vocab, "}");
    for (int i = 0; i < m->n_merges; i++)
        sprintf(lines + strlen(lines), "%s %s\n", m->token[m->merge[i].left],
                m->token[m->merge[i].right]);
    scratch_write("vocab.json", vocab, strlen(vocab));
    scratch_write("merges.txt", lines, strlen(lines));
}

/* The symbols of a word, as a linked list. before[] and behind[] are the neighbours' positions, or
 * -1. A merge stores its token at the left symbol's position, and marks the right symbol as gone.
 */
typedef struct {
    int token[MOST_LETTERS], before[MOST_LETTERS], behind[MOST_LETTERS];
    bool gone[MOST_LETTERS];
    struct {
        int rank, at;
    } due[4 * MOST_LETTERS];
    int n_due;
} symbols;

/* Returns the rank of the merge of the symbol at `at` with the symbol behind it, or -1 if there is
 * none. If the list has the merge twice, returns the later rank. */
static int merge_at(const merge_list *m, const symbols *s, int at) {
    int rank = m->n_merges - 1;
    if (at < 0 || s->gone[at] || s->behind[at] < 0)
        return -1;
    const int left = s->token[at], right = s->token[s->behind[at]];
    while (rank >= 0 && (m->merge[rank].left != left || m->merge[rank].right != right))
        rank--;
    return rank;
}

static void add_due(const merge_list *m, symbols *s, int at) {
    const int rank = merge_at(m, s, at);
    if (rank < 0)
        return;
    s->due[s->n_due].rank = rank;
    s->due[s->n_due++].at = at;
}

/* Removes from due[] the merge of the lowest rank and, among merges of that rank, the leftmost one.
 * Sets *rank, and returns the position of the merge's left symbol. */
static int take_due(symbols *s, int *rank) {
    int first = 0;
    for (int i = 1; i < s->n_due; i++)
        if (s->due[i].rank < s->due[first].rank
            || (s->due[i].rank == s->due[first].rank && s->due[i].at < s->due[first].at))
            first = i;
    const int at = s->due[first].at;
    *rank = s->due[first].rank;
    s->due[first] = s->due[--s->n_due];
    return at;
}

/* Merges the word as Hugging Face's tokenizers do. When a merge's turn comes, it is skipped unless
 * the symbols at its position still make the same token. Returns the number of tokens. */
static int merge_by_hand(const merge_list *m, const char *word, int64_t ids[MOST_LETTERS]) {
    symbols s = { .n_due = 0 };
    const int n = (int)strlen(word);
    int rank, tokens = 0;
    for (int i = 0; i < n; i++) {
        s.token[i] = word[i] - 'a';
        s.before[i] = i - 1;
        s.behind[i] = i + 1 < n ? i + 1 : -1;
    }
    for (int i = 0; i < n; i++)
        add_due(m, &s, i);
    while (s.n_due > 0) {
        const int at = take_due(&s, &rank), now = merge_at(m, &s, at);
        if (now < 0 || m->merge[now].made != m->merge[rank].made)
            continue;
        const int right = s.behind[at];
        s.token[at] = m->merge[rank].made;
        s.behind[at] = s.behind[right];
        s.gone[right] = true;
        if (s.behind[at] >= 0)
            s.before[s.behind[at]] = at;
        add_due(m, &s, s.before[at]);
        add_due(m, &s, at);
    }
    for (int i = 0; i >= 0; i = s.behind[i])
        ids[tokens++] = s.token[i];
    return tokens;
}

/* Words are merged in the order of the list, for any list of merges. */
START_TEST(test_any_merges) {
    scratch_begin();
    rg_manual_seed(1);
    for (int i = 0; i < 40; i++) {
        RG_SCOPE();
        merge_list m;
        draw_merges(&m);
        write_merges(&m);
        rg_tokenizer *t = rg_tokenizer_from_folder(scratch(""));
        ck_ok(t);
        for (int k = 0; k < 30; k++) {
            char word[MOST_LETTERS] = "";
            int64_t ids[MOST_LETTERS];
            const int n = 1 + any_number(MOST_LETTERS - 1);
            for (int at = 0; at < n; at++)
                word[at] = (char)('a' + any_number(3));
            same_numbers(word, rg_tokenizer_encode(t, word), ids, merge_by_hand(&m, word, ids));
        }
        rg_tokenizer_free(t);
    }
    scratch_end();
}
END_TEST

START_TEST(test_bad_two_files) {
    static const struct {
        const char *vocab, *merges, *sentence;
    } rows[] = {
        { "[]", "", "the vocabulary is no object" },
        { "3", "", "the vocabulary is no object" },
        { "", "", "the text ends" },
        { "{'a': 1}", "", "the number of token 'a' is 1, and none from 0 to 0" },
        { "{'a': 0, 'b': 0}", "", "tokens 'a' and 'b' have the same number, 0" },
        { "{'a': 0}", "a", "merge 1 is 'a', which isn't two tokens with a blank" },
        { "{'a': 0}", "#version: 0.2\n\n", "merge 2 is '', which isn't two tokens" },
        { "{'a': 0, 'aa': 1}", "a a\n a\n", "merge 2 is of '', which is not in" },
        { "{'a': 0}", "\r\n", "merge 1 is '', which isn't two tokens" },
        { "{'a': 0}", "#version: 0.2\na b\n", "merge 2 is of 'b', which is not in" },
        { "{'a': 0}", "a a\n", "merge 1 is of 'aa', which is not in the vocabulary" },
        { "{'a': 0}", "a a \n", "merge 1 is 'a a ', which isn't two tokens" },
        { "{'a': 0}", "#versio a\n", "merge 1 is of '#versio', which is not in" },
        { "{'a': 0}", "# version\n", "merge 1 is of '#', which is not in the vocabulary" },
        { "{'a': 0}", "a \xff\n", "merge 1 is of '..', which is not in the vocabulary" },
        { "{'a': 0}", "a\x1b[31m\n", "merge 1 is 'a?[31m', which isn't two tokens" },
    };
    scratch_begin();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[100];
        size_t n = edited(text, rows[i].vocab, &(edit){ "", "", "" });
        scratch_write("vocab.json", text, n);
        scratch_write("merges.txt", rows[i].merges, strlen(rows[i].merges));
        refused(rg_tokenizer_from_folder(scratch("")), scratch(""), rows[i].sentence);
    }
    ck_assert_int_eq(remove(scratch("merges.txt")), 0);
    ck_fails(rg_tokenizer_from_folder(scratch("")), RG_IO_ERROR, "[Errno 2]");
    scratch_write("vocab.json", "{\"a\": 0, \"aa\": 1}", 17);
    static const int64_t ids[] = { 1, 0, 2, 0 };
    static const char *const ends[] = { "#version\na a\n",          "a a\r", "#version: 0.2\r\na a",
                                        "#version: 0.2\r\na a\r\n", "a a\n", "a a" };
    for (int i = 0; i < (int)(sizeof ends / sizeof *ends); i++) {
        scratch_write("merges.txt", ends[i], strlen(ends[i]));
        rg_tokenizer *t = rg_tokenizer_from_folder(scratch(""));
        same_numbers("aa", rg_tokenizer_encode(t, "aaab<|endoftext|>a"), ids, 4);
        rg_tokenizer_free(t);
    }
    scratch_end();
}
END_TEST

/* ---- what fails ---------------------------------------------------------------------- */

/* Frees a tokenizer, which must have this number of tokens. Returns whether there was one. */
static bool loaded(rg_tokenizer *t, int64_t tokens) {
    if (t)
        ck_assert_int_eq(rg_tokenizer_size(t), tokens);
    rg_tokenizer_free(t);
    return t;
}

static bool load_file(void) { return loaded(rg_tokenizer_from_file(scratch("t.json")), 7); }
static bool load_whole_folder(void) { return loaded(rg_tokenizer_from_folder(scratch("")), 7); }
static bool load_two_files(void) { return loaded(rg_tokenizer_from_folder(scratch("")), 3); }
static bool load_long_merges(void) { return loaded(rg_tokenizer_from_folder(scratch("")), 13); }

static rg_tokenizer *small;

/* Encodes a long word, for which all tables must grow, and words that were seen before. */
static bool encode_small(void) {
    char text[400];
    memset(text, 'a', sizeof text);
    memcpy(text, "ab ab abc<x>b \u0120", 16);
    return rg_tokenizer_encode(small, text, .length = sizeof text);
}
static bool decode_small(void) {
    rg_tensor *ids = rg_tokenizer_encode(small, "ab ab<x>b");
    return ids && rg_tokenizer_decode(small, ids);
}
/* The numbers are strided in memory. */
static bool decode_apart(void) {
    rg_tensor *ids = rg_tokenizer_encode(small, "ab ab<x>b");
    rg_tensor *apart = rg_slice(ids, 0, 0, 4, 2);
    return apart && rg_tokenizer_decode(small, apart);
}
static bool stream_small(void) {
    rg_token_stream s = rg_token_stream_begin(small);
    return rg_token_stream_add(&s, 2) && rg_token_stream_end(&s);
}

/* Each request for memory is denied in turn, and each call of the file system fails. */
START_TEST(test_denied) {
    static bool (*const calls[])(void) = { load_file, encode_small, decode_small, decode_apart,
                                           stream_small };
    char text[3000];
    scratch_begin();
    size_t n = edited(text, good, &(edit){ "1.0", "1.0", "" });
    small = rg_tokenizer_from_file(scratch_write("t.json", text, n));
    ck_ok(small);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        ck_assert_int_gt(deny_in_turn(calls[i], NULL), 1);
    fail_in_turn(load_file, NULL);
    rg_tokenizer_free(small);
    scratch_write("vocab.json", "{\"a\": 0, \"aa\": 1}", 17);
    scratch_write("merges.txt", "#version: 0.2\na a\n", 18);
    deny_in_turn(load_two_files, NULL);
    fail_in_turn(load_two_files, NULL);
    /* If tokenizer.json exists but can't be opened, the load fails, and other files aren't used
     * instead. */
    scratch_write("tokenizer.json", text, n);
    deny_in_turn(load_whole_folder, NULL);
    fail_in_turn(load_whole_folder, NULL);
    scratch_end();
}
END_TEST

/* The text of encode_denied. Each text makes the list of tokens grow at a different point: at an
 * added token, at a word that was seen before, at a word that is a token, or at a piece with a
 * blank before it. In the last text, a merge in the middle makes two more merges due while the heap
 * of merges is full. */
static const char *denied_text;
static bool encode_denied(void) { return rg_tokenizer_encode(small, denied_text); }

START_TEST(test_denied_in_words) {
    static const edit prefix = { "'add_prefix_space': false", "'add_prefix_space': true", "" };
    static const edit whole = { "'ignore_merges': false", "'ignore_merges': true", "" };
    static const edit more = { "'<u>': 5", "'<u>': 5, 'aa': 6, 'aab': 7, 'aba': 8", "" };
    static const edit merges = { "['a b'", "['a b', 'a a', 'a ab', 'ab a'", "" };
    static const edit later = { "'id': 6", "'id': 9", "" };
    char many[400] = "", middle[70];
    for (int i = 0; i < 100; i++)
        strcat(many, " ab");
    memset(middle, 'a', 66);
    strcpy(middle + 66, "");
    middle[63] = 'b';
    const struct {
        const edit *edits[4];
        const char *text;
    } rows[] = {
        { { NULL }, "<x>" },   { { NULL }, many },         { { &whole }, "ab" },
        { { &prefix }, "ab" }, { { &whole }, "ab abcab" }, { { &more, &merges, &later }, middle },
    };
    scratch_begin();
    for (int i = 0; i < (int)(sizeof rows / sizeof *rows); i++) {
        small = edited_tokenizer(rows[i].edits);
        denied_text = rows[i].text;
        ck_assert_int_gt(deny_in_turn(encode_denied, NULL), 1);
        rg_tokenizer_free(small);
    }
    /* A word that is longer than any token isn't looked up in the vocabulary, so that ignore_merges
     * needs no more memory. */
    long requests[2];
    denied_text = "abababab";
    for (int i = 0; i < 2; i++) {
        small = edited_tokenizer((const edit *const[4]){ i ? &whole : NULL });
        requests[i] = deny_in_turn(encode_denied, NULL);
        rg_tokenizer_free(small);
    }
    ck_assert_int_eq(requests[0], requests[1]);
    scratch_end();
}
END_TEST

/* "<|endoftext|>" is added as the last token. For some sizes of the vocabulary, the map of names
 * has to grow for it. Therefore the test tries many sizes. */
static int64_t tokens_of_two_files;
static bool load_so_many(void) {
    return loaded(rg_tokenizer_from_folder(scratch("")), tokens_of_two_files);
}

START_TEST(test_denied_in_tables) {
    char vocab[1000] = "";
    scratch_begin();
    write_long_merges();
    deny_in_turn(load_long_merges, NULL);
    scratch_write("merges.txt", "", 0);
    for (int n = 1; n < 34; n++) {
        sprintf(vocab + strlen(vocab), "%s\"%c%d\": %d", n > 1 ? ", " : "{", 'a' + n % 3, n, n - 1);
        strcat(vocab, "}");
        scratch_write("vocab.json", vocab, strlen(vocab));
        vocab[strlen(vocab) - 1] = 0;
        tokens_of_two_files = n + 1;
        deny_in_turn(load_so_many, NULL);
    }
    scratch_end();
}
END_TEST

/* If standard input is closed, the next file that is opened gets its number, 0. */
START_TEST(test_file_of_number_0) {
    scratch_begin();
    write_long_merges();
    const int input = dup(0);
    close(0);
    rg_tokenizer *t = rg_tokenizer_from_folder(scratch(""));
    const int next = dup(1);
    if (input >= 0)
        dup2(input, 0);
    else
        close(next);
    close(input);
    ck_ok(loaded(t, 13));
    ck_assert_int_eq(next, 0);
    scratch_end();
}
END_TEST

RG_TESTS(tokenizer, test_golden, test_any_merges, test_two_files, test_zeros_and_lengths,
         test_stream_holds, test_ends, test_broken_characters, test_long_word, test_bad_arguments,
         test_bad_files, test_options, test_neighbours, test_bytes_alone,
         test_no_utf8, test_long_merges, test_bad_two_files, test_denied, test_denied_in_words,
         test_denied_in_tables, test_file_of_number_0)
