/*
 * tokenizer_files.c: regard's half of tokenizer_files.py, which writes commands to this program's
 * standard input. Each command is a line, and the program answers each with a line. Texts are in
 * hexadecimal, and "-" is the empty text.
 *
 *     file PATH        opens a tokenizer.json, and answers with its number of tokens
 *     encode TEXT      answers with the ids of the text's tokens
 *     offsets TEXT     answers with the offsets of the tokens, without special ones
 *     decode SKIP IDS..    answers with the text of the ids, without special tokens if SKIP is 1
 *     stream IDS..     answers as decode does, but decodes one token at a time
 *     batch SPECIAL MAX_LENGTH PAD_TO PAIRS TEXTS..  answers with the length of the rows, and with
 *                      the elements of the tensors of an encoded batch; with PAIRS, the second half
 *                      of the texts are the second texts
 */
#include "lines.h"

static rg_tokenizer *tokenizer;

static void print_numbers(rg_tensor *t) {
    for (int64_t i = 0; t && i < rg_numel(t); i++)
        printf("%lld ", (long long)((int64_t *)rg_data(t))[i]);
}

static bool file(char *path) {
    rg_tokenizer *t = rg_tokenizer_from_file(path);
    if (!t)
        return false;
    rg_tokenizer_free(tokenizer);
    tokenizer = t;
    printf("%lld", (long long)rg_tokenizer_size(t));
    return true;
}

static bool encode(char *text) {
    int64_t n = from_hex(text);
    rg_tensor *ids = rg_tokenizer_encode(tokenizer, text, .length = n);
    print_numbers(ids);
    return ids;
}

static bool offsets(char *text) {
    from_hex(text);
    const char *one = text;
    rg_names texts = { 1, &one };
    rg_encoding e = rg_tokenizer_encode_batch(tokenizer, texts, .add_special_tokens = false,
                                              .return_offsets_mapping = true);
    print_numbers(e.offset_mapping);
    return e.input_ids;
}

static bool decode(char *text) {
    int64_t n;
    bool skip = *text == '1';
    const char *decoded = rg_tokenizer_decode(tokenizer, from_decimals(text + 1), .length = &n,
                                              .skip_special_tokens = skip);
    if (decoded)
        print_hex(decoded, n);
    return decoded;
}

static bool stream(char *text) {
    rg_tensor *ids = from_decimals(text);
    rg_token_stream s = rg_token_stream_begin(tokenizer);
    bool ok = ids;
    for (int64_t i = 0; ok && i <= rg_numel(ids); i++) {
        const char *part = i < rg_numel(ids) ? rg_token_stream_add(&s, ((int64_t *)rg_data(ids))[i])
                                             : rg_token_stream_end(&s);
        ok = part;
        if (ok)
            print_hex(part, s.length);
    }
    return ok;
}

static bool batch(char *line) {
    enum { MOST = 100 };
    const char *texts[MOST];
    long options[4];
    int n = 0;
    for (int i = 0; i < 4; i++)
        options[i] = strtol(line, &line, 10);
    for (char *word = strtok(line, " "); word && n < MOST; word = strtok(NULL, " ")) {
        texts[n++] = word;
        from_hex(word);
    }
    int rows = options[3] ? n / 2 : n;
    rg_names first = { rows, texts }, pairs = { 0 };
    if (options[3])
        pairs = (rg_names){ rows, texts + rows };
    rg_encoding e = rg_tokenizer_encode_batch(
        tokenizer, first, .pairs = pairs, .add_special_tokens = options[0] != 0,
        .max_length = options[1], .pad_to = options[2], .return_offsets_mapping = true);
    if (!e.input_ids)
        return false;
    printf("%lld ", (long long)rg_size(e.input_ids, 1));
    print_numbers(e.input_ids);
    print_numbers(e.token_type_ids);
    print_numbers(e.attention_mask);
    print_numbers(e.special_tokens_mask);
    print_numbers(e.offset_mapping);
    return true;
}

static const command commands[] = { { "file", file },       { "encode", encode },
                                    { "offsets", offsets }, { "decode", decode },
                                    { "stream", stream },   { "batch", batch } };

int main(void) {
    answer_lines(sizeof commands / sizeof *commands, commands);
    rg_tokenizer_free(tokenizer);
}
