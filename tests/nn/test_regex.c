/* test_regex.c: the regular expressions of tokenizers. The matches are those of Onig, which Hugging
 * Face's tokenizers use; tests/exchange compares each code point. */
#include "nn/models/regex.h"
#include "tests/test.h"
#include "regard.h"

#include <string.h>

static rg_unicode unicode;

static void setup(void) { ck_assert(rgi_unicode_load(&unicode, "test")); }
static void teardown(void) { rgi_unicode_free(&unicode); }

static bool compile(rg_regex *r, const char *pattern) {
    const rg_file f = { .op = "load", .path = "t.json", .fd = -1 };
    *r = (rg_regex){ 0 };
    return rgi_regex_compile(r, &unicode, &f, "the part", pattern, strlen(pattern));
}

/* Writes to `to` the matches in a text, each with a bar behind it, and dots for gaps. */
static const char *matches(const char *pattern, const char *text, char *to) {
    rg_regex r;
    const char *at = text, *end = text + strlen(text), *from, *stop;
    char *out = to;
    ck_assert_msg(compile(&r, pattern), "%s", rg_error());
    while (at < end) {
        ck_ok(rgi_regex_find(&r, at, end, &from, &stop));
        for (; at < from; at++)
            *out++ = '.';
        for (; at < stop; at++)
            *out++ = *at;
        if (from < stop)
            *out++ = '|';
    }
    *out = 0;
    rgi_regex_free(&r);
    return to;
}

#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define LLAMA3                                                               \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}" \
    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

static const struct {
    const char *pattern, *text, *found;
} rows[] = {
    { GPT2, "it's we'll  he'd'x", "it|'s| we|'ll| | he|'d|'|x|" },
    { GPT2, "'S 'l 'r ' ''s", "'|S| '|l| '|r| '| ''|s|" },
    { GPT2, "x1 22  \n y", "x|1| 22|  \n| y|" },
    { GPT2, "a  ", "a|  |" },
    { LLAMA3, "I'LL (go) 12345", "I|'LL| (|go|)| |123|45|" },
    { LLAMA3, "a \n\n b!\n", "a| \n\n| b|!\n|" },
    { LLAMA3, "'\u017f 'K", "'\u017f| '|K|" },
    { "a|ab", "ab", "a|." },
    { "(?:a|ab)c", "abcac", "abc|ac|" },
    { "(ab)?c", "abcc", "abc|c|" },
    { "(?:a)?(?:b)?c", "bcac", "bc|ac|" },
    { "a(b)", "abc", "ab|." },
    { "'(?:s|t)", "it's't", "..'s|'t|" },
    { "ab(?:cd|ef)", "abefab", "abef|.." },
    { "a{2}", "aaaaa", "aa|aa|." },
    { "a{2,}", "aaaaa", "aaaaa|" },
    { "a{,2}b", "aaab", ".aab|" },
    { "a?+ab", "aab", "aab|" },
    { "a++b", "aab", "aab|" },
    { "a+ab", "aaab", "aaab|" },
    { "a*+ab", "aaab", "...." },
    { "a(?=b)", "aab", ".a|." },
    { "a(?!b)", "aab", "a|.." },
    { "(?=ab)\\w|(?!c)d", "aabcd", ".a|..d|" },
    { "(?:(?=b)|x)[ab]", "abxa", ".b|xa|" },
    { "[a-c]+", "xabcd", ".abc|." },
    { "[\\\u00e9\\-]", "\u00e9-\\", "\u00e9|-|." },
    { "[^a-c]+", "xabcd", "x|...d|" },
    { "[a\\-c]+", "a-bc", "a-|.c|" },
    { "[]a]", "a]", "a|]|" },
    { "[a-]", "a-", "a|-|" },
    { " ?[^(\\s|[.,!])]+", "(ab) |c.d", ".ab|...c|.d|" },
    { "\\x41\\u0042\\x{43}\\.", "ABC.", "ABC.|" },
    { "\\S\\D\\W", "a- 1-", "a- |.." },
    { "\\P{L}\\p{^L}", "a12", ".12|" },
    { ".+", "ab\ncd", "ab|.cd|" },
    { "[\u4e00-\u4e02]", "\u4e01", "\u4e01|" },
    { "[^\u4e00-\u4e02]", "\u4e01\u4e03", "...\u4e03|" },
    { "(?i:\\s[sdk])", " K \u212a", " K| \u212a|" },
    { "\\p{Lu}\\p{Ll}\\p{Lo}\\p{Mn}\\p{Nd}\\p{P}\\p{S}", "Aa\u4e2d\u03011!+",
      "Aa\u4e2d\u03011!+|" },
};

START_TEST(test_matches) {
    char to[200];
    setup();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        ck_assert_msg(!strcmp(matches(rows[i].pattern, rows[i].text, to), rows[i].found),
                      "%s in \"%s\": \"%s\"", rows[i].pattern, rows[i].text, to);
    teardown();
}
END_TEST

static const struct {
    const char *pattern, *said;
} bad[] = {
    { "a(", "no ) at byte 2" },
    { "a)", "a ) too many at byte 1" },
    { "(a)+", "a quantifier behind a group, other than ?, at byte 4" },
    { "(?:a)?+b", "a quantifier behind a group, other than ?," },
    { "(?<=a)b", "a group that isn't supported" },
    { "(?>a)", "a group that isn't supported" },
    { "^a", "an operator that isn't supported" },
    { "a$", "an operator that isn't supported" },
    { "*a", "an operator that isn't supported" },
    { "a+?", "a quantifier that isn't supported" },
    { "a{2}{3}", "a quantifier that isn't supported" },
    { "a{3,2}", "a wrong number of times" },
    { "a{}", "a wrong number of times" },
    { "a{1001}", "too large a number" },
    { "a*", "a match of the empty text, which isn't supported," },
    { "a|", "a match of the empty text" },
    { "(?=a)", "a match of the empty text" },
    { "", "a match of the empty text" },
    { "[a", "no ]" },
    { "[[:alpha:]]", "a class inside a class that isn't supported" },
    { "[a[^b]]", "a class inside a class that isn't supported" },
    { "[a&&b]", "&&, which isn't supported" },
    { "[b-a]", "a range that isn't supported" },
    { "[\\s-a]", NULL },
    { "[a-\\s]", "a range that isn't supported" },
    { "(?i:[a-c])", "a range in (?i:, which isn't supported" },
    { "(?i:\u00e9)", "a letter that isn't ASCII in (?i:" },
    { "\\p{Greek}", "a property that isn't supported" },
    { "\\pL", "a property that isn't supported" },
    { "\\b", "an escape that isn't supported" },
    { "\\1", "an escape that isn't supported" },
    { "a\\", "nothing behind a backslash" },
    { "\\x{4", "no }" },
    { "\\u00g0", "a wrong digit" },
    { "\\x{110000}", "no character" },
    { "((((((((((((((((((a))))))))))))))))))", "too many groups in one another" },
    { "\xff", "no UTF-8" },
};

START_TEST(test_refusals) {
    setup();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        rg_regex r;
        bool ok = compile(&r, bad[i].pattern);
        rgi_regex_free(&r);
        ck_assert_msg(ok == !bad[i].said, "%s", bad[i].pattern);
        if (bad[i].said)
            ck_assert_msg(rg_error_code() == RG_IO_ERROR && strstr(rg_error(), bad[i].said), "%s",
                          rg_error());
        rg_error_clear();
    }
    teardown();
}
END_TEST

/* A pattern may have so many parts, but not more. */
START_TEST(test_many_parts) {
    char pattern[5000];
    rg_regex r;
    setup();
    memset(pattern, 'a', sizeof pattern);
    pattern[sizeof pattern - 1] = 0;
    ck_fails(compile(&r, pattern), RG_IO_ERROR, "has too many parts at byte 399");
    rgi_regex_free(&r);
    pattern[3990] = 0;
    ck_ok(compile(&r, pattern));
    rgi_regex_free(&r);
    teardown();
}
END_TEST

/* A match may take very many steps; then it fails. */
START_TEST(test_too_many_steps) {
    char pattern[200] = "", text[40] = "";
    rg_regex r;
    setup();
    for (int i = 0; i < 30; i++)
        strcat(pattern, "(a)?");
    for (int i = 0; i < 30; i++) {
        strcat(pattern, "a");
        strcat(text, i < 29 ? "a" : "b");
    }
    ck_assert(compile(&r, pattern));
    const char *from, *to;
    ck_fails(rgi_regex_find(&r, text, text + 30, &from, &to), RG_RUNTIME_ERROR,
             "a regular expression takes more than 10000000 steps");
    rgi_regex_free(&r);
    teardown();
}
END_TEST

RG_TESTS(regex, test_matches, test_refusals, test_many_parts, test_too_many_steps)
