/*
 * fuzz_tokenizer.c: gives rg_tokenizer_from_file files that nobody would write. A tokenizer that is
 * read is given texts that nobody would write. Numbers must decode to the same text token by token
 * as all at once. If a tokenizer has all bytes as tokens and strips nothing, the numbers of a text
 * must decode to that text.
 *
 *     build/tests/fuzz/fuzz_tokenizer [iterations] [seed]
 *
 * The file is in memory. It has the bytes of the input up to the first byte of 0, and the bytes
 * after that one are the text. The program mutates inputs of its own, and the files of
 * tests/golden/files/tokenizers if it runs where that is. Built with -DRG_LIBFUZZER
 * -fsanitize=fuzzer, it takes those of libFuzzer.
 */
#include "limited.h"
#include "regard.h"
#include "nn/models/tokenizer_struct.h"

static long fuzz_read, fuzz_encoded;

/* ---- checks -------------------------------------------------------------------------- */

/* Returns whether the decoder makes bytes of tokens such as <0x0A>. A stream returns each character
 * of these as soon as it is complete. */
static bool has_fallback(const rg_tokenizer *t) {
    bool has = false;
    for (size_t i = 0; i < t->n_decoders; i++)
        has = has || t->decoders[i].kind == RG_DECODE_FALLBACK;
    return has;
}

/* Encodes the text, up to its first byte of 0, in a batch of pairs. */
static void fuzz_batch(const rg_tokenizer *t, const char *text, size_t n) {
    char *copy = malloc(n + 1);
    memcpy(copy, text, n);
    copy[n] = 0;
    const char *list[] = { copy, "ab <x>" };
    rg_names texts = { 2, list };
    rg_encoding e = rg_tokenizer_encode_batch(t, texts, .pairs = texts, .max_length = 40,
                                              .return_offsets_mapping = true);
    const int64_t *offsets = e.input_ids ? rg_data(e.offset_mapping) : NULL;
    const int64_t most = (int64_t)(strlen(copy) > 6 ? strlen(copy) : 6);
    for (int64_t i = 0; offsets && i < rg_numel(e.offset_mapping); i += 2)
        fuzz_require(offsets[i] >= 0 && offsets[i] <= offsets[i + 1] && offsets[i + 1] <= most,
                     "an offset is none");
    if (!e.input_ids)
        fuzz_require(rg_error_code() == RG_VALUE_ERROR, "no error of the kind");
    rg_error_clear();
    free(copy);
}

static void fuzz_text(const rg_tokenizer *t, const char *text, size_t n, bool comes_back) {
    int64_t length, at = 0;
    fuzz_batch(t, text, n);
    rg_tensor *ids = rg_tokenizer_encode(t, text, .length = (int64_t)n);
    if (!ids) {
        fuzz_require(rg_error_code() == RG_VALUE_ERROR || rg_error_code() == RG_RUNTIME_ERROR,
                     "no error of the kind");
        return;
    }
    fuzz_encoded++;
    const char *back = rg_tokenizer_decode(t, ids, .length = &length);
    fuzz_require(back, "it doesn't decode");
    if (comes_back)
        fuzz_require((size_t)length == n && memcmp(back, text, n) == 0, "it comes back as another");
    if (has_fallback(t))
        return;
    rg_token_stream s = rg_token_stream_begin(t);
    for (int64_t i = 0; i <= rg_numel(ids); i++) {
        const char *part = i < rg_numel(ids) ? rg_token_stream_add(&s, ((int64_t *)rg_data(ids))[i])
                                             : rg_token_stream_end(&s);
        fuzz_require(part && at + s.length <= length && !memcmp(back + at, part, (size_t)s.length),
                     "a stream decodes to another");
        at += s.length;
    }
    fuzz_require(at == length, "a stream decodes to less");
}

static void load_and_free(void) { rg_tokenizer_free(rg_tokenizer_from_file("memory")); }

/* Returns the tokenizer of a file of these bytes. */
static rg_tokenizer *fuzz_load(const void *bytes, size_t n) {
    memory_file_begin();
    memory_file_set(bytes, n);
    fuzz_limited(load_and_free);
    rg_tokenizer *t = rg_tokenizer_from_file("memory");
    memory_file_end();
    return t;
}

/* ---- a tokenizer that has all bytes --------------------------------------------------- */

#define BYTE_LEVEL "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": true}"
#define ADDED(id, text, strips, flag)                                                             \
    "{\"id\": " #id ", \"content\": \"" text "\", \"single_word\": " flag ", \"lstrip\": " strips \
    ", \"rstrip\": " strips ", \"normalized\": " flag ", \"special\": true}"

/* Writes a tokenizer.json whose first 256 tokens are the bytes. */
static size_t write_whole(char *to, const char *strips) {
    char *begin = to;
    to += sprintf(to, "{\"added_tokens\": [%s", strips);
    to += sprintf(to, "], \"pre_tokenizer\": " BYTE_LEVEL ", \"decoder\": " BYTE_LEVEL
                      ", \"model\": {\"type\": \"BPE\", \"vocab\": {");
    for (int b = 0; b < 256; b++) {
        char name[4];
        name[rgi_byte_character((unsigned char)b, name)] = 0;
        const char *escape = b == '"' || b == '\\' ? "\\" : "";
        to += sprintf(to, "\"%s%s\": %d, ", escape, name, b);
    }
    to += sprintf(to, "\"ab\": 256, \"aa\": 257, \"\u0120a\": 258, \"aaaa\": 259},"
                      " \"merges\": [\"a b\", \"a a\", \"\u0120 a\", \"aa aa\"]}}");
    return (size_t)(to - begin);
}

static char whole_file[8000];
static rg_tokenizer *whole_tokenizer(void) {
    static rg_tokenizer *t;
    if (t)
        return t;
    size_t n = write_whole(
        whole_file, ADDED(260, "<x>", "false", "false") ", " ADDED(261, "ab<", "false", "true"));
    t = fuzz_load(whole_file, n);
    fuzz_require(t, "the whole tokenizer doesn't load");
    return t;
}

/* ---- one input ----------------------------------------------------------------------- */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const uint8_t *zero = size ? memchr(data, 0, size) : NULL;
    size_t before = zero ? (size_t)(zero - data) : size;
    const char *text = zero ? (const char *)zero + 1 : "";
    size_t n = zero ? size - before - 1 : 0;
    RG_SCOPE();
    rg_error_clear();
    fuzz_text(whole_tokenizer(), text, n, true);
    rg_error_clear();
    rg_tokenizer *t = fuzz_load(data, before);
    if (!t) {
        fuzz_require(rg_error_code() == RG_IO_ERROR && *rg_error(), "no error of the kind");
        return 0;
    }
    fuzz_read++;
    fuzz_require(rg_error_code() == RG_OK, "an error in spite of a result");
    fuzz_text(t, text, n, false);
    rg_tokenizer_free(t);
    return 0;
}

#ifndef RG_LIBFUZZER
static const char *const fuzz_words[] = {
    "{",
    "}",
    "[",
    "]",
    "\"",
    ": ",
    ", ",
    "0",
    "1",
    "-1",
    "99999999999",
    "null",
    "true",
    "false",
    "\"a\"",
    "\"b\"",
    "\"ab\"",
    "\"vocab\": ",
    "\"merges\": ",
    "\"unk_token\": \"a\"",
    "\"lstrip\": true",
    "\"ignore_merges\": true",
    "\"add_prefix_space\": true",
    "\"content\": ",
    "[\"a\", \"b\"]",
    "\"a b\"",
    "\\u0000",
    "\xc3\xa9",
    "\xff",
    "\u0120",
    "<x>",
    "ab<",
    "aaaa",
    " ",
    "  ",
    "\n",
    "'s",
    "'ll",
    "1",
    "\u00b2",
    "\u3000",
    "\U0001F468",
    "\u0301",
    "the",
    "\"type\": ",
    "\"Sequence\"",
    "\"Metaspace\"",
    "\"NFKC\"",
    "\"Regex\"",
    "\\\\p{L}+",
    "(?i:a|b)",
    "(a)?",
    "[^a-c]",
    "{1,3}",
    "<0x41>",
    "\u2581",
};

/* Changes the text fewer than `most` times. Returns the new length. */
static size_t fuzz_some(char *text, size_t n, size_t room, uint32_t most) {
    for (uint32_t times = fuzz_below(most); times > 0; times--)
        n = fuzz_change(text, n, room, fuzz_words, RG_COUNT(fuzz_words));
    return n;
}

enum { ROOM = 40000 };

/* Copies one of the golden files to `to`. Returns its length, or 0 if it isn't there. */
static size_t golden_input(char *to, const char *name) {
    char path[100];
    snprintf(path, sizeof path, "tests/golden/files/tokenizers/%s.json", name);
    FILE *f = fopen(path, "rb");
    size_t n = f ? fread(to, 1, ROOM / 2, f) : 0;
    if (f)
        fclose(f);
    return n;
}

int main(int argc, char **argv) {
    static const char *const names[] = { "bert", "llama3", "llama2", "t5" };
    const long iterations = fuzz_begin(argc, argv, 20000);
    static char input[ROOM];
    for (long i = 0; i < iterations; i++) {
        size_t n = fuzz_below(2) ? golden_input(input, names[fuzz_below(RG_COUNT(names))]) : 0;
        if (n == 0)
            n = write_whole(input, fuzz_below(2) ? ADDED(260, "<x>", "true", "false")
                                                 : ADDED(260, "ab<", "false", "true"));
        n = fuzz_some(input, n, sizeof input / 2, 4);
        input[n++] = 0;
        n += fuzz_some(input + n, 0, sizeof input - n, 40);
        LLVMFuzzerTestOneInput((const uint8_t *)input, n);
    }
    rg_tokenizer_free(whole_tokenizer());
    printf("fuzz_tokenizer: %ld files, of which %ld were read, and %ld texts encoded\n", iterations,
           fuzz_read, fuzz_encoded);
    return 0;
}
#endif
