/*
 * test_json.c: the reader of JSON accepts what RFC 8259 describes, and refuses everything else. The
 * tests look at what it has read, and read again what the writer writes.
 */
#include "tests/test.h"
#include "tensor/files/json.h"
#include "tensor/tensor.h"

#include <locale.h>
#include <stdio.h>
#include <string.h>

/* A text with its length, since there may be a 0 in it. */
#define TEXT(text) \
    { text, sizeof(text) - 1 }

typedef struct {
    const char *v;
    size_t n;
} json_case;

/* Copies the text into memory of just its size, since the reader writes over the text. */
static char *copy_of(json_case c) {
    char *text = malloc(c.n + 1);
    memcpy(text, c.v, c.n);
    text[c.n] = 0;
    return text;
}

/* ---- what is JSON ------------------------------------------------------------------- */

static const json_case accepted[] = {
    TEXT("[]"),
    TEXT("{}"),
    TEXT(" [] "),
    TEXT("[ \n]"),
    TEXT("{ \t}"),
    TEXT("[ [ ] , { } ]"),
    TEXT("[[]   ]"),
    TEXT("[\"\"]"),
    TEXT("[\"a\"]"),
    TEXT("[false]"),
    TEXT("[true]"),
    TEXT("[null]"),
    TEXT("null"),
    TEXT("true"),
    TEXT("false"),
    TEXT("42"),
    TEXT("-0.1"),
    TEXT("\"asd\""),
    TEXT("\"\""),
    TEXT("\t\n\r 1 \t\n\r"),
    TEXT("[null, 1, \"1\", {}]"),
    TEXT("[1\n]"),
    TEXT(" [1]"),
    TEXT("[1,null,null,null,2]"),
    TEXT("[2] "),
    TEXT("[123e65]"),
    TEXT("[0e+1]"),
    TEXT("[0e1]"),
    TEXT("[ 4]"),
    TEXT("[-0.0000000000000000000000000000000000000000000000000000000000000000000000000000001]"),
    TEXT("[20e1]"),
    TEXT("[-0]"),
    TEXT("[-123]"),
    TEXT("[-1]"),
    TEXT("[1E22]"),
    TEXT("[1E-2]"),
    TEXT("[1E+2]"),
    TEXT("[123e45]"),
    TEXT("[123.456e78]"),
    TEXT("[1e-2]"),
    TEXT("[1e+2]"),
    TEXT("[123]"),
    TEXT("[123.456789]"),
    TEXT("[1e400]"),
    TEXT("[100000000000000000000000000000000000000]"),
    TEXT("{\"asd\":\"sdf\", \"dfg\":\"fgh\"}"),
    TEXT("{\"asd\":\"sdf\"}"),
    TEXT("{\"\":0}"),
    TEXT("{\"min\": -1.0e+28, \"max\": 1.0e+28}"),
    TEXT("{\"x\":[{\"id\": \"x\"}], \"id\": \"x\"}"),
    TEXT("{\"a\":[]}"),
    TEXT("{\"title\":\"\\u041f\\u043e\"}"),
    TEXT("{\n\"a\": \"b\"\n}"),
    TEXT("{\"a\":{\"a\":{\"a\":1}}}"),
    TEXT("[\"\\u0060\\u012a\\u12AB\"]"),
    TEXT("[\"\\uD801\\udc37\"]"),
    TEXT("[\"\\ud83d\\ude39\\ud83d\\udc8d\"]"),
    TEXT("[\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"]"),
    TEXT("[\"\\\\u0000\"]"),
    TEXT("[\"\\\"\"]"),
    TEXT("[\"a/*b*/c/*d//e\"]"),
    TEXT("[\"\\\\a\"]"),
    TEXT("[\"\\\\n\"]"),
    TEXT("[\"\\u0012\"]"),
    TEXT("[\"\\uFFFF\"]"),
    TEXT("[\"asd\"]"),
    TEXT("[ \"asd\"]"),
    TEXT("[\"\\uDBFF\\uDFFF\"]"),
    TEXT("[\"\\uD7FF\\uD800\\uDC00\\uE000\"]"),
    TEXT("[\"new\\u00A0line\"]"),
    TEXT("[\"\xf4\x8f\xbf\xbf\"]"),
    TEXT("[\"\xef\xbf\xbf\"]"),
    TEXT("[\"\\u0000\"]"),
    TEXT("[\",\"]"),
    TEXT("[\"\xcf\x80\"]"),
    TEXT("[\"\xf0\x9b\xbf\xbf\"]"),
    TEXT("\" \""),
    TEXT("[\"\\uD834\\uDd1e\"]"),
    TEXT("[\"\\u0821\"]"),
    TEXT("[\"\xe2\x80\xa8\"]"),
    TEXT("[\"\xe2\x80\xa9\"]"),
    TEXT("[\"\\u0061\\u30af\\u30EA\\u30b9\"]"),
    TEXT("[\"new\\u000Aline\"]"),
    TEXT("[\"\x7f\"]"),
    TEXT("[\"\\uA66D\"]"),
    TEXT("[\"\\u005C\"]"),
    TEXT("[\"\xe2\x8d\x82\xe3\x88\xb4\xe2\x8d\x82\"]"),
    TEXT("[\"\\u0022\"]"),
    TEXT("[\"a\x7f\x61\"]"),
    TEXT("{\"a\":1,\"A\":2,\"a \":3,\"\":4}"),
};

START_TEST(test_accepted) {
    for (int i = 0; i < RG_COUNT(accepted); i++) {
        rg_json j;
        char *text = copy_of(accepted[i]);
        ck_assert_msg(rgi_json_parse(&j, "read", "f", text, accepted[i].n), "%s: %s", accepted[i].v,
                      rg_error());
        ck_assert_msg(j.v[0].end == j.n, "%s has no end", accepted[i].v);
        rgi_json_free(&j);
        free(text);
    }
}
END_TEST

static const struct {
    json_case text;
    const char *complaint;
} refused[] = {
    { TEXT(""), "at byte 0 the text ends" },
    { TEXT(" "), "at byte 1 the text ends" },
    { TEXT("\xef\xbb\xbf{}"), "at byte 0 a value is expected" },
    { TEXT("\xef\xbb\xbf"), "at byte 0 a value is expected" },
    { TEXT("\xe5"), "at byte 0 a value is expected" },
    { TEXT("[\0]"), "at byte 1 a value is expected" },
    { TEXT("[1 true]"), "at byte 3 a comma or ] is expected" },
    { TEXT("[a\xe5]"), "at byte 1 a value is expected" },
    { TEXT("[\"\": 1]"), "at byte 3 a comma or ] is expected" },
    { TEXT("[\"\"],"), "at byte 4 there is more behind the value" },
    { TEXT("[,1]"), "at byte 1 a value is expected" },
    { TEXT("[1,,2]"), "at byte 3 a value is expected" },
    { TEXT("[\"x\",,]"), "at byte 5 a value is expected" },
    { TEXT("[\"x\"]]"), "at byte 5 there is more behind the value" },
    { TEXT("[\"\",]"), "at byte 4 a value is expected" },
    { TEXT("[\"x\""), "at byte 4 a comma or ] is expected" },
    { TEXT("[x"), "at byte 1 a value is expected" },
    { TEXT("[3[4]]"), "at byte 2 a comma or ] is expected" },
    { TEXT("[\xff]"), "at byte 1 a value is expected" },
    { TEXT("[1:2]"), "at byte 2 a comma or ] is expected" },
    { TEXT("[,]"), "at byte 1 a value is expected" },
    { TEXT("[-]"), "at byte 2 a value is expected" },
    { TEXT("[   , \"\"]"), "at byte 4 a value is expected" },
    { TEXT("[\"a\",\n4\n,1,"), "at byte 11 the text ends" },
    { TEXT("[1,]"), "at byte 3 a value is expected" },
    { TEXT("[\"\va\"\\f]"), "at byte 2 there is a control character in a text" },
    { TEXT("[*]"), "at byte 1 a value is expected" },
    { TEXT("[\"\""), "at byte 3 a comma or ] is expected" },
    { TEXT("[1,"), "at byte 3 the text ends" },
    { TEXT("[{}"), "at byte 3 a comma or ] is expected" },
    { TEXT("[fals]"), "at byte 1 a value is expected" },
    { TEXT("[nul]"), "at byte 1 a value is expected" },
    { TEXT("[tru]"), "at byte 1 a value is expected" },
    { TEXT("[True]"), "at byte 1 a value is expected" },
    { TEXT("123\0"), "at byte 3 there is more behind the value" },
    { TEXT("[++1234]"), "at byte 1 a value is expected" },
    { TEXT("[+1]"), "at byte 1 a value is expected" },
    { TEXT("[+Inf]"), "at byte 1 a value is expected" },
    { TEXT("[-01]"), "at byte 3 a comma or ] is expected" },
    { TEXT("[-1.0.]"), "at byte 5 a comma or ] is expected" },
    { TEXT("[-2.]"), "at byte 4 a digit is expected" },
    { TEXT("[-NaN]"), "at byte 2 a value is expected" },
    { TEXT("[.-1]"), "at byte 1 a value is expected" },
    { TEXT("[.2e-3]"), "at byte 1 a value is expected" },
    { TEXT("[0.1.2]"), "at byte 4 a comma or ] is expected" },
    { TEXT("[0.3e+]"), "at byte 6 a digit is expected" },
    { TEXT("[0.3e]"), "at byte 5 a digit is expected" },
    { TEXT("[0.e1]"), "at byte 3 a digit is expected" },
    { TEXT("[0E+]"), "at byte 4 a digit is expected" },
    { TEXT("[0e]"), "at byte 3 a digit is expected" },
    { TEXT("[1.0e+]"), "at byte 6 a digit is expected" },
    { TEXT("[1 000.0]"), "at byte 3 a comma or ] is expected" },
    { TEXT("[1eE2]"), "at byte 3 a digit is expected" },
    { TEXT("[2.e+3]"), "at byte 3 a digit is expected" },
    { TEXT("[9.e+]"), "at byte 3 a digit is expected" },
    { TEXT("[Inf]"), "at byte 1 a value is expected" },
    { TEXT("[NaN]"), "at byte 1 a value is expected" },
    { TEXT("[\xef\xbc\x91]"), "at byte 1 a value is expected" },
    { TEXT("[1+2]"), "at byte 2 a comma or ] is expected" },
    { TEXT("[0x1]"), "at byte 2 a comma or ] is expected" },
    { TEXT("[0x42]"), "at byte 2 a comma or ] is expected" },
    { TEXT("[Infinity]"), "at byte 1 a value is expected" },
    { TEXT("[-Infinity]"), "at byte 2 a value is expected" },
    { TEXT("[-foo]"), "at byte 2 a value is expected" },
    { TEXT("[- 1]"), "at byte 2 a value is expected" },
    { TEXT("[-012]"), "at byte 3 a comma or ] is expected" },
    { TEXT("[-.123]"), "at byte 2 a value is expected" },
    { TEXT("[-1x]"), "at byte 3 a comma or ] is expected" },
    { TEXT("[1ea]"), "at byte 3 a digit is expected" },
    { TEXT("[1e\xe5]"), "at byte 3 a digit is expected" },
    { TEXT("[1.]"), "at byte 3 a digit is expected" },
    { TEXT("[.123]"), "at byte 1 a value is expected" },
    { TEXT("[1.2a-3]"), "at byte 4 a comma or ] is expected" },
    { TEXT("[012]"), "at byte 2 a comma or ] is expected" },
    { TEXT("[\"x\", truth]"), "at byte 6 a value is expected" },
    { TEXT("{[: \"x\"}\n"), "at byte 1 a name is expected" },
    { TEXT("{\"x\", null}"), "at byte 4 a colon is expected" },
    { TEXT("{\"x\"::\"b\"}"), "at byte 5 a value is expected" },
    { TEXT("{\"a\":\"a\" 123}"), "at byte 9 a comma or } is expected" },
    { TEXT("{key: 'value'}"), "at byte 1 a name is expected" },
    { TEXT("{\"\xb9\":\"0\",}"), "at byte 2 there is no UTF-8" },
    { TEXT("{\"a\" b}"), "at byte 5 a colon is expected" },
    { TEXT("{:\"b\"}"), "at byte 1 a name is expected" },
    { TEXT("{\"a\" \"b\"}"), "at byte 5 a colon is expected" },
    { TEXT("{\"a\":"), "at byte 5 the text ends" },
    { TEXT("{\"a\""), "at byte 4 a colon is expected" },
    { TEXT("{1:1}"), "at byte 1 a name is expected" },
    { TEXT("{9999E9999:1}"), "at byte 1 a name is expected" },
    { TEXT("{null:null,null:null}"), "at byte 1 a name is expected" },
    { TEXT("{\"id\":0,,,,,}"), "at byte 8 a name is expected" },
    { TEXT("{'a':0}"), "at byte 1 a name is expected" },
    { TEXT("{\"id\":0,}"), "at byte 8 a name is expected" },
    { TEXT("{\"a\":\"b\"}/**/"), "at byte 9 there is more behind the value" },
    { TEXT("{\"a\":\"b\"}//"), "at byte 9 there is more behind the value" },
    { TEXT("{\"a\":\"b\",,\"c\":\"d\"}"), "at byte 9 a name is expected" },
    { TEXT("{a: \"b\"}"), "at byte 1 a name is expected" },
    { TEXT("{\"a\":\"a"), "at byte 7 a text doesn't end" },
    { TEXT("{ \"foo\" : \"bar\", \"a\" }"), "at byte 21 a colon is expected" },
    { TEXT("{\"a\":\"b\"}#"), "at byte 9 there is more behind the value" },
    { TEXT("[\"\\uD800\\\"]"), "at byte 8 there is half of a surrogate pair" },
    { TEXT("[\"\\uD800\\u\"]"), "at byte 10 there is half of a surrogate pair" },
    { TEXT("[\"\\uD800\\u1\"]"), "at byte 10 there is half of a surrogate pair" },
    { TEXT("[\"\\uD800\\u1x\"]"), "at byte 10 there is half of a surrogate pair" },
    { TEXT("[\"\\uD800\"]"), "at byte 8 there is half of a surrogate pair" },
    { TEXT("[\"\\uDC00\"]"), "at byte 8 there is half of a surrogate pair" },
    { TEXT("[\"\\uDC00\\uDC00\"]"), "at byte 8 there is half of a surrogate pair" },
    { TEXT("[1e+-1]"), "at byte 4 a digit is expected" },
    { TEXT("[1e-+1]"), "at byte 4 a digit is expected" },
    { TEXT("[\"\\uDFFF\"]"), "at byte 8 there is half of a surrogate pair" },
    { TEXT("[\"\\uD800\\uDBFF\"]"), "at byte 14 there is half of a surrogate pair" },
    { TEXT("\"\\uD800xuDC00\""), "at byte 7 there is half of a surrogate pair" },
    { TEXT("\"\\uD800\\nDC00\""), "at byte 7 there is half of a surrogate pair" },
    { TEXT("\"\\uD800"), "at byte 7 there is half of a surrogate pair" },
    { TEXT("\"\\uD800\\"), "at byte 7 there is half of a surrogate pair" },
    { TEXT("\"\\uD800\\u"), "at byte 9 there is half of a surrogate pair" },
    { TEXT("fals"), "at byte 0 a value is expected" },
    { TEXT("[tru\0]"), "at byte 1 a value is expected" },
    { TEXT("[\"\\uD800\\uD800\"]"), "at byte 14 there is half of a surrogate pair" },
    { TEXT("[\"\\uDd1e\\uD834\"]"), "at byte 8 there is half of a surrogate pair" },
    { TEXT("[\"\\uDBFF\\uE000\"]"), "at byte 14 there is half of a surrogate pair" },
    { TEXT("[\"\\u00\"]"), "at byte 4 four hexadecimal digits are expected" },
    { TEXT("[\"\\u\"]"), "at byte 4 four hexadecimal digits are expected" },
    { TEXT("[\"\\u12G4\"]"), "at byte 4 four hexadecimal digits are expected" },
    { TEXT("[\"\\u+123\"]"), "at byte 4 four hexadecimal digits are expected" },
    { TEXT("[\"\\u\xe5\"]"), "at byte 4 four hexadecimal digits are expected" },
    { TEXT("[\"\\U1234\"]"), "at byte 3 there is an escape that JSON doesn't know" },
    { TEXT("[\"\\x00\"]"), "at byte 3 there is an escape that JSON doesn't know" },
    { TEXT("[\"\\\0\"]"), "at byte 3 there is an escape that JSON doesn't know" },
    { TEXT("[\"\\\xe5\"]"), "at byte 3 there is an escape that JSON doesn't know" },
    { TEXT("[\"\\a\"]"), "at byte 3 there is an escape that JSON doesn't know" },
    { TEXT("[\"\\\t\"]"), "at byte 3 there is an escape that JSON doesn't know" },
    { TEXT("[\"\\'\"]"), "at byte 3 there is an escape that JSON doesn't know" },
    { TEXT("[\"\\\""), "at byte 4 a text doesn't end" },
    { TEXT("\"\\"), "at byte 2 there is an escape that JSON doesn't know" },
    { TEXT("[\\u0020\"asd\"]"), "at byte 1 a value is expected" },
    { TEXT("[\\n]"), "at byte 1 a value is expected" },
    { TEXT("\""), "at byte 1 a text doesn't end" },
    { TEXT("\"\\u0041"), "at byte 7 a text doesn't end" },
    { TEXT("['single quote']"), "at byte 1 a value is expected" },
    { TEXT("abc"), "at byte 0 a value is expected" },
    { TEXT("[\"\\"), "at byte 3 there is an escape that JSON doesn't know" },
    { TEXT("[\"a\0a\"]"), "at byte 3 there is a control character in a text" },
    { TEXT("[\"new\nline\"]"), "at byte 5 there is a control character in a text" },
    { TEXT("[\"\t\"]"), "at byte 2 there is a control character in a text" },
    { TEXT("[\"\x1f\"]"), "at byte 2 there is a control character in a text" },
    { TEXT("\"x\"x"), "at byte 3 there is more behind the value" },
    { TEXT("<.>"), "at byte 0 a value is expected" },
    { TEXT("[<null>]"), "at byte 1 a value is expected" },
    { TEXT("[1]x"), "at byte 3 there is more behind the value" },
    { TEXT("[1]]"), "at byte 3 there is more behind the value" },
    { TEXT("[\"asd]"), "at byte 6 a text doesn't end" },
    { TEXT("a\xc3\xa5"), "at byte 0 a value is expected" },
    { TEXT("[true"), "at byte 5 a comma or ] is expected" },
    { TEXT("tru"), "at byte 0 a value is expected" },
    { TEXT("nul"), "at byte 0 a value is expected" },
    { TEXT("[\xe2\x81\xa0]"), "at byte 1 a value is expected" },
    { TEXT("]"), "at byte 0 a value is expected" },
    { TEXT("}"), "at byte 0 a value is expected" },
    { TEXT("{\"x\": true,"), "at byte 11 a name is expected" },
    { TEXT("{\"x\": true"), "at byte 10 a comma or } is expected" },
    { TEXT("{}}"), "at byte 2 there is more behind the value" },
    { TEXT("{\"\":"), "at byte 4 the text ends" },
    { TEXT("{"), "at byte 1 a name is expected" },
    { TEXT("{,"), "at byte 1 a name is expected" },
    { TEXT("{]"), "at byte 1 a name is expected" },
    { TEXT("[}"), "at byte 1 a value is expected" },
    { TEXT("["), "at byte 1 the text ends" },
    { TEXT("*"), "at byte 0 a value is expected" },
    { TEXT("-"), "at byte 1 a value is expected" },
    { TEXT("#{}"), "at byte 0 a value is expected" },
    { TEXT("[1\f]"), "at byte 2 a comma or ] is expected" },
    { TEXT("[\v]"), "at byte 1 a value is expected" },
    { TEXT("[\xc2\x85]"), "at byte 1 a value is expected" },
    { TEXT("[\"\xc0\x80\"]"), "at byte 2 there is no UTF-8" },
    { TEXT("[\"\xc1\xbf\"]"), "at byte 2 there is no UTF-8" },
    { TEXT("[\"\xc3\"]"), "at byte 2 there is no UTF-8" },
    { TEXT("[\"\x80\"]"), "at byte 2 there is no UTF-8" },
    { TEXT("[\"a\xe0\x80\x80\"]"), "at byte 3 there is no UTF-8" },
    { TEXT("[\"\xe0\x9f\xbf\"]"), "at byte 2 there is no UTF-8" },
    { TEXT("[\"\xed\xa0\x80\"]"), "at byte 2 there is no UTF-8" },
    { TEXT("[\"\xed\xbf\xbf\"]"), "at byte 2 there is no UTF-8" },
    { TEXT("[\"\xf0\x8f\xbf\xbf\"]"), "at byte 2 there is no UTF-8" },
    { TEXT("[\"\xf4\x90\x80\x80\"]"), "at byte 2 there is no UTF-8" },
    { TEXT("[\"\xf5\x80\x80\x80\"]"), "at byte 2 there is no UTF-8" },
    { TEXT("[\"\xfc\x80\x80\x80\x80\x80\"]"), "at byte 2 there is no UTF-8" },
    { TEXT("[\"\xe2\x82\"]"), "at byte 2 there is no UTF-8" },
    { TEXT("[\"\xe2\x82"), "at byte 2 there is no UTF-8" },
    { TEXT("[\"\xf0\x9f\x98"), "at byte 2 there is no UTF-8" },
};

START_TEST(test_refused) {
    for (int i = 0; i < RG_COUNT(refused); i++) {
        rg_json j;
        char *text = copy_of(refused[i].text), expected[128];
        snprintf(expected, sizeof expected, "read: 'f': it is no JSON: %s", refused[i].complaint);
        rg_error_clear();
        ck_assert_msg(!rgi_json_parse(&j, "read", "f", text, refused[i].text.n), "%s is taken",
                      refused[i].text.v);
        ck_assert_msg(!strcmp(rg_error(), expected), "%s: '%s' instead of '%s'", refused[i].text.v,
                      rg_error(), expected);
        ck_assert_int_eq(rg_error_code(), RG_IO_ERROR);
        free(text);
    }
    rg_error_clear();
    rg_json j;
    ck_fails(rgi_json_parse(&j, "read", "f", NULL, (size_t)1 << 32), RG_IO_ERROR,
             "'f': it has 4294967296 bytes, and 4294967295 are the most");
    ck_fails(rgi_json_parse(&j, "read", "f", (char[]){ "x" }, UINT32_MAX), RG_IO_ERROR,
             "at byte 0 a value is expected");
}
END_TEST

/* Wherever a text ends, the bytes behind its end in memory don't belong to it. */
static void check_end_of(json_case c) {
    rg_json j;
    for (size_t n = 0; n <= c.n; n++) {
        char *whole = copy_of(c), *cut = malloc(n + 1), sentence[512];
        memcpy(cut, whole, n);
        whole[n] = cut[n] = 0;
        rg_error_clear();
        const bool alone = rgi_json_parse(&j, "read", "f", cut, n);
        if (alone)
            rgi_json_free(&j);
        snprintf(sentence, sizeof sentence, "%s", rg_error());
        rg_error_clear();
        const bool followed = rgi_json_parse(&j, "read", "f", whole, n);
        if (followed)
            rgi_json_free(&j);
        ck_each(alone == followed && strcmp(sentence, rg_error()) == 0,
                "%s, cut at %zu: '%s', '%s'", c.v, n, sentence, rg_error());
        free(whole);
        free(cut);
    }
    rg_error_clear();
}

START_TEST(test_ends) {
    for (int i = 0; i < RG_COUNT(accepted); i++)
        check_end_of(accepted[i]);
    for (int i = 0; i < RG_COUNT(refused); i++)
        check_end_of(refused[i].text);
}
END_TEST

static bool parses(rg_json *j, char *text) {
    return rgi_json_parse(j, "read", "f", text, strlen(text));
}

START_TEST(test_names) {
    rg_json j;
    ck_fails(parses(&j, (char[]){ "{\"a\":1,\"b\":2,\"a\":1}" }), RG_IO_ERROR,
             "read: 'f': \"a\" comes twice in one object");
    ck_fails(parses(&j, (char[]){ "{\"a\":1,\"\\u0061\":2}" }), RG_IO_ERROR, "\"a\" comes twice");
    ck_fails(parses(&j, (char[]){ "[{\"\":{\"x\\n\":1,\"x\\n\":1}}]" }), RG_IO_ERROR,
             "\"x?\" comes twice");
    ck_fails(parses(&j, (char[]){ "{\"a\\u0000b\":1}" }), RG_IO_ERROR,
             "read: 'f': a name that begins with \"a\" has a 0 in it");
    ck_ok(parses(&j, (char[]){ "{\"a\":{\"a\":[{\"a\":1},{\"a\":2}]}}" }));
    rgi_json_free(&j);
}
END_TEST

/* ---- depth -------------------------------------------------------------------------- */

START_TEST(test_depth) {
    enum { DEPTH = 128, DEEP = 100000 };
    static char text[2 * DEEP];
    rg_json j;
    for (int kind = 0; kind < 2; kind++)
        for (int n = DEPTH; n <= DEPTH + 1; n++) {
            memset(text, '[', (size_t)n);
            memset(text + n, ']', (size_t)n);
            text[2 * n] = 0;
            rg_error_clear();
            ck_assert_int_eq(parses(&j, text), n == DEPTH);
            if (n == DEPTH)
                rgi_json_free(&j);
        }
    memset(text, '[', DEEP);
    text[DEEP] = 0;
    ck_fails(parses(&j, text), RG_IO_ERROR, "at byte 128 values lie too deep in each other");
    for (int i = 0; i < DEEP; i += 5)
        memcpy(text + i, "{\"\":[", 5);
    ck_fails(parses(&j, text), RG_IO_ERROR, "values lie too deep in each other");
}
END_TEST

/* ---- reading values ----------------------------------------------------------------- */

START_TEST(test_values) {
    char text[] =
        " {\"a\": [1, [2, {}], \"x\"], \"\": {\"a\": null}, \"b\\u00fc\": \"\\ud83d\\ude00"
        "\\u0000z\", \"t\": true} ";
    rg_json j;
    ck_ok(parses(&j, text));
    ck_assert_int_eq(j.v[0].kind, RG_JSON_OBJECT);
    ck_assert_int_eq(j.v[0].n, 4);
    uint32_t a = rgi_json_find(&j, 0, "a");
    ck_assert_int_eq(j.v[a].kind, RG_JSON_ARRAY);
    int n = 0;
    static const rg_json_kind kinds[] = { RG_JSON_NUMBER, RG_JSON_ARRAY, RG_JSON_TEXT };
    for (RG_EACH_JSON(i, &j, a))
        ck_assert_int_eq(j.v[i].kind, kinds[n++]);
    ck_assert_int_eq(n, 3);
    ck_assert_int_eq(j.v[a].n, 3);
    static const char *const names[] = { "a", "", "b\xc3\xbc", "t" };
    n = 0;
    for (RG_EACH_JSON(i, &j, 0))
        ck_assert_str_eq(j.v[i].v, names[n++]);
    ck_assert_int_eq(n, 4);
    uint32_t inner = rgi_json_find(&j, 0, "");
    ck_assert_int_eq(j.v[rgi_json_find(&j, inner, "a")].kind, RG_JSON_NULL);
    uint32_t b = rgi_json_find(&j, 0, "b\xc3\xbc");
    ck_assert_int_eq(j.v[b].n, 6);
    ck_assert(memcmp(j.v[b].v, "\xf0\x9f\x98\x80\0z", 7) == 0);
    ck_assert_ptr_null(rgi_json_text(&j, b));
    ck_assert_int_eq(j.v[rgi_json_find(&j, 0, "t")].kind, RG_JSON_TRUE);
    ck_assert_int_eq(rgi_json_find(&j, 0, "none"), 0);
    ck_assert_int_eq(rgi_json_find(&j, a, "x"), 0);
    ck_assert_ptr_null(rgi_json_text(&j, a));
    ck_assert_str_eq(rgi_json_text(&j, j.v[a].end - 1), "x");
    rgi_json_free(&j);
    ck_assert(j.v == NULL && j.n == 0);
}
END_TEST

static const struct {
    const char *text;
    bool whole;
    int64_t integer;
    double number;
} numbers[] = {
    { "0", true, 0, 0 },
    { "-0", true, 0, -0.0 },
    { "42", true, 42, 42 },
    { "-17", true, -17, -17 },
    { "9223372036854775807", true, INT64_MAX, 0x1p63 },
    { "-9223372036854775808", true, INT64_MIN, -0x1p63 },
    { "9223372036854775808", false, 0, 0x1p63 },
    { "-9223372036854775809", false, 0, -0x1p63 },
    { "18446744073709551616", false, 0, 0x1p64 },
    { "1.0", false, 0, 1 },
    { "1e2", false, 0, 100 },
    { "1E+2", false, 0, 100 },
    { "-2.5e-3", false, 0, -2.5e-3 },
    { "0.1", false, 0, 0.1 },
    { "1e400", false, 0, HUGE_VAL },
    { "1e-400", false, 0, 0 },
    { "100000000000000000000000000000000000000000", false, 0, 1e41 },
    { "1000000000000000000000000000000", false, 0, 1e30 },
    { "10000000000000000000000000000000", false, 0, 1e31 },
};

static void check_numbers(void) {
    for (int i = 0; i < RG_COUNT(numbers); i++) {
        char text[64];
        rg_json j;
        int64_t integer = 0;
        double number;
        snprintf(text, sizeof text, "[%s,7]", numbers[i].text);
        ck_ok(parses(&j, text));
        ck_assert_msg(rgi_json_integer(&j, 1, &integer) == numbers[i].whole, "%s", numbers[i].text);
        ck_assert(!numbers[i].whole || integer == numbers[i].integer);
        ck_ok(rgi_json_number(&j, 1, &number));
        ck_assert_msg(number == numbers[i].number, "%s is %.17g", numbers[i].text, number);
        rgi_json_free(&j);
    }
    rg_json j;
    ck_ok(parses(&j, (char[]){ "[\"1\", 1, null]" }));
    int64_t integer;
    double number;
    ck_assert(!rgi_json_integer(&j, 1, &integer) && !rgi_json_number(&j, 1, &number));
    ck_assert(!rgi_json_integer(&j, 3, &integer) && !rgi_json_number(&j, 3, &number));
    rgi_json_free(&j);
}

/* Numbers have a decimal point in every locale. */
START_TEST(test_numbers) {
    check_numbers();
    if (setlocale(LC_ALL, "de_DE.UTF-8") || setlocale(LC_ALL, "fr_FR.UTF-8"))
        check_numbers();
    setlocale(LC_ALL, "C");
}
END_TEST

/* ---- writing ------------------------------------------------------------------------ */

START_TEST(test_quote) {
    static const char *const texts[][2] = {
        { "", "\"\"" },
        { "plain", "\"plain\"" },
        { " two words ", "\" two words \"" },
        { "a/\"b\"\\", "\"a/\\\"b\\\"\\\\\"" },
        { "\b\f\n\r\t", "\"\\b\\f\\n\\r\\t\"" },
        { "\x01\x1f\x7f", "\"\\u0001\\u001f\x7f\"" },
        { "\xc3\xbc\xf0\x9f\x98\x80%s", "\"\xc3\xbc\xf0\x9f\x98\x80%s\"" },
    };
    for (int i = 0; i < RG_COUNT(texts); i++) {
        rg_text to = { 0 };
        rg_json j;
        rgi_json_quote(&to, texts[i][0]);
        ck_assert_str_eq(to.v, texts[i][1]);
        ck_ok(parses(&j, to.v));
        ck_assert_str_eq(rgi_json_text(&j, 0), texts[i][0]);
        rgi_json_free(&j);
        rgi_text_free(&to);
    }
}
END_TEST

/* Each character that is written is read again. */
START_TEST(test_every_byte) {
    for (int c = 1; c < 256; c++) {
        char text[] = { 'x', (char)c, 'y', 0 };
        rg_text to = { 0 };
        rg_json j;
        rgi_json_quote(&to, text);
        rg_error_clear();
        ck_assert_int_eq(parses(&j, to.v), c < 0x80);
        if (c < 0x80) {
            ck_assert_str_eq(rgi_json_text(&j, 0), text);
            rgi_json_free(&j);
        }
        rgi_text_free(&to);
    }
    rg_error_clear();
}
END_TEST

/* ---- memory ------------------------------------------------------------------------- */

START_TEST(test_denied) {
    const int64_t before = rg_memory_stats().now;
    bool done = false;
    for (int64_t fail = 1; !done; fail++) {
        char text[4096] = "[", *at = text + 1;
        for (int i = 0; i < 100; i++)
            at += sprintf(at, "{\"a\":%d,\"b\":\"x\"},", i);
        at[-1] = ']';
        rg_json j;
        rg_memory_fail_at(fail);
        done = parses(&j, text);
        rg_memory_fail_at(0);
        ck_assert_int_eq(rg_error_code(), done ? RG_OK : RG_OUT_OF_MEMORY);
        rg_error_clear();
        if (done)
            rgi_json_free(&j);
        ck_assert_int_eq(rg_memory_stats().now, before);
    }
}
END_TEST

RG_TESTS(json, test_accepted, test_refused, test_ends, test_names, test_depth, test_values,
         test_numbers, test_quote, test_every_byte, test_denied)
