/*
 * gpt2.c: regard's half of gpt2.py, which writes commands to this program's standard input. Each
 * command is a line, and the program answers each with a line. Texts are in hexadecimal.
 *
 *     folder PATH      opens a folder's tokenizer, and answers with its number of tokens
 *     file PATH        opens a tokenizer.json, and answers with its number of tokens
 *     encode TEXT      answers with the ids of the text's tokens
 *     decode IDS..     answers with the text of the ids
 *     stream IDS..     answers as decode does, but decodes one token at a time
 *     model PATH       opens a folder's model, and answers with its number of parameters
 *     logits IDS..     answers with the logits behind the last id
 *     greedy IDS..     answers with the ids, and 20 generated ones
 *     ending NUMBERS.. continues several rows until each ends; see the function `ending`
 *     save PATH        writes the model into this folder
 */
#include "lines.h"

static rg_tokenizer *tokenizer;
static rg_gpt *model;

static bool encode(char *text) {
    int64_t n = from_hex(text);
    rg_tensor *ids = rg_tokenizer_encode(tokenizer, text, .length = n);
    for (int64_t i = 0; ids && i < rg_numel(ids); i++)
        printf("%s%lld", i ? " " : "", (long long)((int64_t *)rg_data(ids))[i]);
    return ids;
}

static bool decode(char *text) {
    int64_t n;
    const char *decoded = rg_tokenizer_decode(tokenizer, from_decimals(text), .length = &n);
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

static bool open_tokenizer(rg_tokenizer *t) {
    rg_tokenizer_free(tokenizer);
    tokenizer = t;
    if (t)
        printf("%lld", (long long)rg_tokenizer_size(t));
    return t;
}
static bool open_folder(char *path) { return open_tokenizer(rg_tokenizer_from_folder(path)); }
static bool open_file(char *path) { return open_tokenizer(rg_tokenizer_from_file(path)); }

static bool open_model(char *path) {
    rg_module_free(model);
    model = rg_gpt_from_folder(path);
    if (model)
        printf("%lld", (long long)rg_num_parameters(model));
    return model;
}

static bool save_model(char *path) { return rg_gpt_to_folder(model, path); }

static bool logits(char *text) {
    rg_tensor *y = rg_call(model, rg_unsqueeze(from_decimals(text), 0));
    for (int64_t i = 0; y && i < rg_numel(y); i++)
        printf("%s%.9g", i ? " " : "", (double)((float *)rg_data(y))[i]);
    return y;
}

/* Answers with the ids and 20 more, each of which is the likeliest next id. */
static bool greedy(char *text) {
    rg_tensor *y = rg_gpt_generate(model, rg_unsqueeze(from_decimals(text), 0), 20,
                                   .temperature = 0);
    for (int64_t i = 0; y && i < rg_numel(y); i++)
        printf("%s%lld", i ? " " : "", (long long)((int64_t *)rg_data(y))[i]);
    return y;
}

/* Continues several rows until each ends. The line has pad_token_id, the number of ids that end a
 * row, these ids, the number of rows, and the rows. The answer is the rows' new length and the
 * rows. */
static bool ending(char *text) {
    rg_tensor *all = from_decimals(text);
    const int64_t *v = rg_data(all), n = v[1], rows = v[2 + n];
    rg_dims eos = { .n = (int)n };
    memcpy(eos.v, v + 2, (size_t)n * sizeof *v);
    rg_tensor *idx = rg_reshape(rg_slice(all, 0, 3 + n, rg_numel(all), 1), rows, -1);
    rg_tensor *y = rg_gpt_generate(model, idx, 12, .temperature = 0, .eos_token_id = eos,
                                   .pad_token_id = v[0]);
    if (y)
        printf("%lld", (long long)rg_size(y, 1));
    for (int64_t i = 0; y && i < rg_numel(y); i++)
        printf(" %lld", (long long)((int64_t *)rg_data(y))[i]);
    return y;
}

static const command commands[] = { { "encode", encode },   { "decode", decode },
                                    { "stream", stream },   { "folder", open_folder },
                                    { "file", open_file },  { "model", open_model },
                                    { "save", save_model }, { "logits", logits },
                                    { "greedy", greedy },   { "ending", ending } };

int main(void) {
    answer_lines(sizeof commands / sizeof *commands, commands);
    rg_tokenizer_free(tokenizer);
    rg_module_free(model);
}
