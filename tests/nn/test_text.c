/* test_text.c: vocabularies and batches are as Python's dict, split and slices make them. */
#include "tests/golden.h"
#include "tests/in_turn.h"
#include "tests/test.h"
#include "nn/models/batches.h"
#include "nn/models/unicode.h"
#include "nn/models/vocabulary.h"
#include "autograd/ops/ops.h"
#include "tensor/files/utf8.h"
#include "tensor/memory.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* Compares the vocabulary with the case's next two lines: its tokens, and the numbers of the text.
 * Frees the vocabulary. */
static void matches(rg_vocabulary *v, const char *text, const char *joined, golden_file *f) {
    ck_ok(v);
    char *tokens = golden_field(f, 't');
    ck_assert_int_eq(v->n, golden_integer(&tokens));
    for (int64_t i = 0; i < v->n; i++) {
        const char *token = golden_quoted(&tokens);
        ck_assert_str_eq(v->tokens[i], token);
        ck_assert_int_eq(rg_vocabulary_index(v, token), i);
    }
    int64_t codes[64];
    int64_t length = golden_integers(f, ':', codes, 64);
    rg_tensor *t = rg_encode(v, text);
    ck_ok(t);
    ck_assert(rg_dtype_of(t) == RG_INT64 && rg_ndim(t) == 1 && rg_numel(t) == length);
    ck_assert(rg_equal(t, rg_from(codes, length)));
    ck_assert_str_eq(rg_decode(v, t), joined);
    rg_vocabulary_free(v);
}

/* Compares every case of this kind, words or characters. */
static void compare_texts(const char *kind) {
    golden_file f = golden_open("text");
    int n = 0;
    for (char *words = golden_case(&f); words; words = golden_case(&f)) {
        if (strcmp(golden_word(&words), kind) != 0)
            continue;
        const char *text = golden_quoted(&words);
        const char *joined = golden_quoted(&words);
        bool characters = strcmp(kind, "characters") == 0;
        matches(rg_vocabulary_new(text, .characters = characters), text, joined, &f);
        n++;
    }
    ck_assert_int_gt(n, 0);
    golden_close(&f);
}

START_TEST(test_words) { compare_texts("words"); }
END_TEST

/* Words are cut at each character at which Python's split() cuts them, and at no others, such as
 * U+200B. */
START_TEST(test_white_space_of_words) {
    static const char text[] = "one\xc2\xa0two three\xe2\x80\xa8" "four\xe2\x80\x8b" "five";
    rg_vocabulary *v = rg_vocabulary_new(text);
    ck_assert_str_eq(rg_decode(v, rg_encode(v, text)), "one two three four\xe2\x80\x8b" "five");
    rg_vocabulary_free(v);
    static const char spaces_of_ascii[] = " \t\n\v\f\r\x1c\x1d\x1e\x1f";
    rg_unicode u = { 0 };
    ck_ok(rgi_unicode_load(&u, "test"));
    /* There is no white space from U+3001 on. */
    const uint32_t step = rg_slow() ? 101 : 1;
    for (uint32_t code = 1; code < 0x110000; code += code > 0x3000 ? step : 1) {
        if ((code >= 0xD800 && code < 0xE000) || code == ',')
            continue;
        char cut[8] = "a";
        cut[1 + rgi_utf8_write(cut + 1, code)] = 'b';
        const bool is_space = code < 0x80 ? strchr(spaces_of_ascii, (int)code) != NULL
                                          : rgi_unicode_is(&u, code) & RG_UNICODE_SPACE;
        v = rg_vocabulary_new(cut);
        ck_each(v->n == 1 + is_space, "U+%04X: %d tokens", (unsigned)code, (int)v->n);
        rg_vocabulary_free(v);
    }
    rgi_unicode_free(&u);
    /* A text may end inside a character of white space. It isn't cut there. */
    for (int n = 1; n < 3; n++) {
        char *cut = strdup("a\xe2\x80\xa8");
        cut[1 + n] = 0;
        v = rg_vocabulary_new(cut);
        ck_assert(v->n == 1 && strcmp(v->tokens[0], cut) == 0);
        rg_vocabulary_free(v);
        free(cut);
    }
}
END_TEST

START_TEST(test_characters) {
    compare_texts("characters");
    /* If a text isn't UTF-8, encoding and decoding it still gives the same bytes. */
    const char broken[] = "\x80\xc3(\xf0\x9f\xf0\x9f\x99\x82\x82\xe4";
    rg_vocabulary *v = rg_vocabulary_new(broken, .characters = true);
    ck_assert_str_eq(rg_decode(v, rg_encode(v, broken)), broken);
    /* A character has four bytes at most. */
    ck_assert_int_eq(rg_numel(rg_encode(v, broken)), 7);
    ck_assert_int_eq(rg_vocabulary_index(v, "\xf0\x9f\x99\x82"), 6);
    rg_vocabulary_free(v);
}
END_TEST

START_TEST(test_unknown_words) {
    rg_vocabulary *v = rg_vocabulary_new("to be or not to be");
    ck_fails(rg_encode(v, "to see"), RG_INDEX_ERROR, "KeyError: 'see'");
    ck_assert_int_eq(rg_vocabulary_index(v, "see"), -1);
    ck_fails(rg_decode(v, rg_literal([0, 4])), RG_INDEX_ERROR, "index 4 is none of 4 tokens");
    ck_fails(rg_decode(v, rg_literal([-1])), RG_INDEX_ERROR, "index -1");
    rg_vocabulary_free(v);

    /* Known tokens keep their numbers. */
    v = rg_vocabulary_new("to be or not to be", .unknown = "<unk>");
    ck_assert_int_eq(v->n, 5);
    ck_assert(rg_equal(rg_encode(v, "to see or not"), rg_literal([3, 4, 2, 1])));
    ck_assert_str_eq(rg_decode(v, rg_literal([[3, 4], [2, 0]])), "to <unk> or be");
    ck_assert(rg_vocabulary_index(v, "see") == 4 && rg_error_code() == RG_OK);
    rg_vocabulary_free(v);

    /* The text has the token for unknown ones already. */
    v = rg_vocabulary_new("a <unk> b", .unknown = "<unk>");
    ck_assert(v->n == 3 && rg_vocabulary_index(v, "c") == 0 && rg_vocabulary_index(v, "a") == 1);
    ck_assert(rg_equal(rg_encode(v, "b see a"), rg_literal([ 2, 0, 1 ])));
    ck_assert_int_eq(rg_error_code(), RG_OK);
    rg_vocabulary_free(v);

    v = rg_vocabulary_new("one, two", .drop = NULL);
    ck_assert(v->n == 2 && rg_vocabulary_index(v, "one,") == 0);
    rg_vocabulary_free(v);

    v = rg_vocabulary_new("Life is short; eat, (dessert) first!", .drop = ",;!()");
    ck_assert_str_eq(rg_decode(v, rg_arange(v->n)), "Life dessert eat first is short");
    rg_vocabulary_free(v);
}
END_TEST

/* Returns the numbers in the next line, which begins with `kind`, as a matrix. */
static rg_tensor *matrix(golden_file *f, char kind, int64_t rows, int64_t columns) {
    int64_t numbers[32];
    ck_assert_int_eq(golden_integers(f, kind, numbers, 32), rows * columns);
    return rg_from(numbers, rows, columns);
}

static void compare_batches(golden_file *f, char *words) {
    uint64_t seed = (uint64_t)golden_integer(&words);
    int64_t length = golden_integer(&words);
    int64_t batch = golden_integer(&words);
    int64_t block = golden_integer(&words);
    rg_tensor *data = rg_remainder(rg_mul(rg_arange(length), 3), 1009);
    rg_generator *g = rg_generator_new(seed);
    rg_manual_seed(seed);
    for (int k = 0; k < 2; k++) {
        rg_pair b = rg_get_batch(data, batch, block);
        rg_pair own = rg_get_batch_with(data, batch, block, g);
        ck_ok(b.first);
        ck_assert(rg_equal(b.first, matrix(f, 'x', batch, block)));
        ck_assert(rg_equal(b.second, matrix(f, 'y', batch, block)));
        ck_assert(rg_equal(b.first, own.first) && rg_equal(b.second, own.second));
    }
    rg_generator_free(g);
}

START_TEST(test_batches) {
    golden_file f = golden_open("text");
    int n = 0;
    for (char *words = golden_case(&f); words; words = golden_case(&f))
        if (strcmp(golden_word(&words), "batch") == 0) {
            compare_batches(&f, words);
            n++;
        }
    ck_assert_int_gt(n, 0);
    golden_close(&f);
    rg_tensor *five = rg_arange(5);
    ck_fails(rg_get_batch(five, 2, 5).first, RG_RUNTIME_ERROR,
             "random_ expects 'from' to be less than 'to'");
    ck_fails(rg_get_batch(five, -1, 2).first, RG_RUNTIME_ERROR, "negative dimension");
    rg_memory_reset_peak();
    int64_t peak = rg_memory_stats().peak;
    ck_fails(rg_get_batch(five, 1, INT32_MAX).first, RG_RUNTIME_ERROR,
             "random_ expects 'from' to be less than 'to'");
    ck_fails(rg_get_batch(five, 1, INT64_MAX).first, RG_RUNTIME_ERROR,
             "random_ expects 'from' to be less than 'to'");
    ck_assert_int_lt(rg_memory_stats().peak, peak + 65536);
    rg_pair last = rg_get_batch(five, 3, 4), empty = rg_get_batch(five, 3, 0);
    ck_assert(rg_equal(rg_select(last.first, 0, 2), rg_arange(4)));
    ck_assert(rg_equal(rg_select(last.second, 0, 2), rg_arange_step(1, 5, 1)));
    ck_assert(empty.first && rg_size(empty.first, 0) == 3 && rg_numel(empty.second) == 0);
    ck_fails(rg_get_batch(five, 1, -3).first, RG_VALUE_ERROR,
             "get_batch: block_size -3 is negative");
    ck_fails(rg_get_batch(five, 1, INT64_MIN).first, RG_VALUE_ERROR, "get_batch: block_size");
}
END_TEST

START_TEST(test_train_and_validation) {
    golden_file f = golden_open("text");
    int n = 0;
    for (char *words = golden_case(&f); words; words = golden_case(&f)) {
        if (strcmp(golden_word(&words), "train") != 0)
            continue;
        rg_tensor *data = rg_arange(golden_integer(&words));
        rg_pair p = rg_split_text(data, 0.9);
        ck_ok(p.first);
        ck_assert_int_eq(rg_numel(p.first), golden_integer(&words));
        ck_assert(rg_equal(rg_cat(RG_LIST(p.first, p.second), 0), data));
        n++;
    }
    ck_assert_int_gt(n, 0);
    golden_close(&f);
    rg_tensor *ten = rg_arange(10);
    ck_assert(rg_numel(rg_split_text(ten, 0).first) == 0
              && rg_numel(rg_split_text(ten, 1).second) == 0);
    double wrong[] = { -0.1, 1.5, 0.0 / 0.0, 1e300 };
    for (size_t i = 0; i < COUNT(wrong); i++)
        ck_fails(rg_split_text(ten, wrong[i]).first, RG_VALUE_ERROR, "split_text: the fraction ");
}
END_TEST

START_TEST(test_nothing_in_nothing_out) {
    rg_vocabulary *v = rg_vocabulary_new("a b");
    rg_tensor *null = NULL;
    ck_assert(!rg_vocabulary_new(NULL) && !rg_encode(NULL, "a") && !rg_encode(v, NULL)
              && !rg_decode(NULL, rg_arange(2)));
    ck_assert(!rg_decode(v, null) && rg_vocabulary_index(NULL, "a") == -1
              && rg_vocabulary_index(v, NULL) == -1);
    ck_assert(!rg_split_text(null, 0.5).first && !rg_get_batch(null, 1, 1).first);
    ck_fails(rg_decode(v, RG_NONE), RG_TYPE_ERROR, "");
    ck_fails(rg_decode(v, rg_ones(2)), RG_TYPE_ERROR,
             "decode: expected indices of dtype torch.int64 but got torch.float32");
    ck_fails(rg_get_batch(RG_NONE, 1, 1).first, RG_TYPE_ERROR, "");
    rg_vocabulary_free(NULL);
    rg_vocabulary_free(v);
}
END_TEST

START_TEST(test_out_of_memory) {
    char text[4000] = "";
    for (int i = 0; i < 300; i++)
        sprintf(text + strlen(text), "w%d ", i * 7 % 200);
    /* The first run lengthens the thread's own lists, which isn't a leak. */
    {
        RG_SCOPE();
        rg_vocabulary *v = rg_vocabulary_new(text);
        ck_assert(rg_get_batch(rg_encode(v, text), 3, 4).first);
        rg_vocabulary_free(v);
    }
    int64_t other = -1, live = rg_live_tensors();
    for (int64_t n = 1, failed = 1; failed; n++) {
        {
            RG_SCOPE();
            rg_memory_fail_at(n);
            rg_vocabulary *v = rg_vocabulary_new(text, .unknown = "?");
            rg_tensor *t = rg_encode(v, text);
            rg_pair parts = rg_split_text(t, 0.5), b = rg_get_batch(parts.first, 3, 4);
            const char *again = rg_decode(v, b.second);
            const char *turned = rg_decode(v, rg_transpose(b.second, 0, 1));
            rg_memory_fail_at(0);
            failed = !v || !t || !parts.first || !parts.second || !b.first || !b.second || !again
                     || !turned;
            ck_assert_int_eq(rg_error_code(), failed ? RG_OUT_OF_MEMORY : RG_OK);
            ck_assert(!parts.first == !parts.second && !b.first == !b.second);
            rg_error_clear();
            rg_vocabulary_free(v);
        }
        ck_assert_int_eq(rg_live_tensors(), live);
        if (other < 0)
            other = rg_memory_stats().other;
        ck_assert_int_eq(rg_memory_stats().other, other);
        ck_assert_int_lt(n, 1000);
    }
}
END_TEST

static char words[400];
static bool make_vocabulary(void) {
    rg_vocabulary *v = rg_vocabulary_new(words);
    rg_vocabulary_free(v);
    return v;
}

/* The vocabulary's hash table may have to grow at any word, so each number of words is tried. */
START_TEST(test_denied) {
    for (int n = 1; n < 50; n++) {
        sprintf(words + strlen(words), "w%d ", n);
        ck_assert_int_gt(deny_in_turn(make_vocabulary, NULL), 1);
    }
    /* The error is the first failure: memory that is denied, or the last index, which is out of
     * range. */
    rg_vocabulary *v = rg_vocabulary_new(words);
    rg_tensor *at = rg_cat(RG_LIST(rg_zeros_dims(RG_DIMS(300), RG_INT64), rg_literal([1000])), 0);
    bool denied = true;
    for (int64_t n = 1; denied; n++) {
        RG_SCOPE();
        rg_memory_fail_at(n);
        const char *text = rg_decode(v, at);
        denied = rgi_me->fail_at == 0;
        rg_memory_fail_at(0);
        ck_assert(!text && rg_error_code() == (denied ? RG_OUT_OF_MEMORY : RG_INDEX_ERROR));
        rg_error_clear();
    }
    rg_vocabulary_free(v);
}
END_TEST

static const char *const sentence = "Life is short, eat dessert first";

/* Makes vocabularies and reads a shared one while other threads do the same. */
static void *reader(void *shared) {
    for (int i = 0; i < 50; i++) {
        RG_SCOPE();
        rg_vocabulary *own = rg_vocabulary_new(sentence);
        ck_assert(own && rg_equal(rg_encode(own, sentence), rg_encode(shared, sentence)));
        rg_vocabulary_free(own);
    }
    return NULL;
}

START_TEST(test_threads) {
    rg_vocabulary *v = rg_vocabulary_new(sentence);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, reader, v);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    rg_vocabulary_free(v);
}
END_TEST

RG_TESTS(text, test_words, test_white_space_of_words, test_characters, test_unknown_words,
         test_batches, test_train_and_validation, test_nothing_in_nothing_out, test_out_of_memory,
         test_denied, test_threads)
