/*
 * fuzz_json.c: tests the reader of JSON with texts that nobody would write. If a text is read, it
 * is written and read again, and must be the same. If it isn't read, the error is an RG_IO_ERROR,
 * and nothing is left behind.
 *
 *     build/tests/fuzz/fuzz_json [iterations] [seed]
 *
 * The program mutates texts of its own. Built with -DRG_LIBFUZZER -fsanitize=fuzzer, it takes those
 * of libFuzzer.
 */
#include "mutate.h"
#include "tensor/files/json.h"

static long fuzz_read; /* The number of texts that were read. */

/* Writes a value. A text that contains a byte of 0 is cut there. */
static void write_again(rg_text *to, const rg_json *j, uint32_t value) {
    static const char *const words[] = { "null", "false", "true" };
    const rg_json_value *it = &j->v[value];
    int64_t integer;
    double number;
    bool first = true;
    switch (it->kind) {
    case RG_JSON_NUMBER:
        fuzz_require(rgi_json_number(j, value, &number), "a number is none");
        rgi_json_integer(j, value, &integer);
        rgi_text_add(to, "%.*s", (int)it->n, it->v);
        break;
    case RG_JSON_TEXT:
        fuzz_require(it->v[it->n] == 0, "a text doesn't end");
        rgi_json_quote(to, it->v);
        break;
    case RG_JSON_ARRAY:
    case RG_JSON_OBJECT:
        rgi_text_add(to, it->kind == RG_JSON_ARRAY ? "[" : "{");
        for (RG_EACH_JSON(i, j, value)) {
            rgi_text_add(to, first ? "" : ",");
            first = false;
            write_again(to, j, i);
            if (it->kind == RG_JSON_OBJECT) {
                fuzz_require(rgi_json_find(j, value, j->v[i].v) == i + 1, "a name isn't found");
                rgi_text_add(to, ":");
                write_again(to, j, i + 1);
            }
        }
        rgi_text_add(to, it->kind == RG_JSON_ARRAY ? "]" : "}");
        break;
    default: rgi_text_add(to, "%s", words[it->kind]);
    }
}

static void same_again(const rg_json *j) {
    rg_text written = { 0 }, twice = { 0 };
    rg_json again;
    write_again(&written, j, 0);
    fuzz_require(!written.failed, "there is no memory");
    char *copy = malloc(written.n + 1);
    memcpy(copy, written.v, written.n + 1);
    fuzz_require(rgi_json_parse(&again, "read", "f", copy, written.n), "it doesn't come back");
    fuzz_require(again.n == j->n, "another number of values comes back");
    write_again(&twice, &again, 0);
    fuzz_require(twice.n == written.n && !memcmp(twice.v, written.v, twice.n), "it changes");
    rgi_json_free(&again);
    rgi_text_free(&written);
    rgi_text_free(&twice);
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = malloc(size + 1);
    rg_json j;
    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = 0;
    rg_error_clear();
    if (rgi_json_parse(&j, "read", "f", text, size)) {
        fuzz_read++;
        fuzz_require(rg_error_code() == RG_OK, "an error in spite of a result");
        fuzz_require(j.v[0].end == j.n, "the first value isn't the whole");
        same_again(&j);
        rgi_json_free(&j);
    } else {
        fuzz_require(rg_error_code() == RG_IO_ERROR && *rg_error(), "no error of the kind");
    }
    free(text);
    return 0;
}

#ifndef RG_LIBFUZZER
static const char *const fuzz_seeds[] = {
    "{\"a\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},\"__metadata__\":{}}",
    "[1, -0.5, 1e10, 123456789012345678901234567890, null, true, false]",
    "{\"model\": {\"vocab\": {\"!\": 0, \"\\u0120the\": 1}, \"merges\": [[\"a\", \"b\"]]}}",
    "[\"\\ud83d\\ude00\\n\\t\\\\\\\"\xc3\xbc\xe2\x82\xac\xf0\x9f\x98\x80\"]",
    "[[[[[[[[]]]]]]],{\"\":{\"\":{\"\":{}}}}]",
    "  {\r\n\t\"key\" : [ ] }  ",
};
static const char *const fuzz_words[] = {
    "[",
    "]",
    "{",
    "}",
    ",",
    ":",
    "\"",
    "\\",
    "\\u",
    "\\ud83d",
    "\\udc00",
    "\\u0000",
    "-",
    "+",
    ".",
    "e",
    "E",
    "0",
    "1",
    "9",
    "null",
    "true",
    "false",
    " ",
    "\n",
    "\xc3",
    "\x80",
    "\xed\xa0",
    "\xf4\x90",
    "\"a\":",
    "\"a\",",
    "[[[[[[[[[[[[",
    "]]]]]]]]]]]]",
    "1e999",
};

int main(int argc, char **argv) {
    const long iterations = fuzz_begin(argc, argv, 100000);
    char text[512];
    for (long i = 0; i < iterations; i++) {
        const char *seed = fuzz_seeds[fuzz_below(RG_COUNT(fuzz_seeds))];
        size_t n = strlen(seed);
        memcpy(text, seed, n);
        n = fuzz_mutate(text, n, sizeof text, fuzz_words, RG_COUNT(fuzz_words));
        LLVMFuzzerTestOneInput((const uint8_t *)text, n);
    }
    printf("fuzz_json: %ld texts, of which %ld were read\n", iterations, fuzz_read);
    return 0;
}
#endif
