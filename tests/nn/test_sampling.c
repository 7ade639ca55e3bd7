/*
 * test_sampling.c: tokens are drawn from logits as transformers draws them.
 */
#include "tests/golden.h"
#include "tests/in_turn.h"
#include "tests/test.h"
#include "autograd/autograd.h"
#include "nn/models/sampling.h"

#include <math.h>

/* Two rows of logits, and earlier tokens of each. */
static rg_tensor *logits(void) {
    rg_tensor *t = rg_zeros(2, 12);
    for (int r = 0; r < 2; r++)
        for (int i = 0; i < 12; i++)
            rg_data_as(float, t)[12 * r + i] = (float)((7 * i * i + 3 * r) % 23) / 4 - 3;
    return t;
}

static rg_tensor *previous(void) { return rg_literal([[1, 3, 3], [0, 11, 2]]); }

static rg_tensor *x, *earlier;

START_TEST(test_draws) {
    golden_file f = golden_open("sampling");
    int cases = 0;
    for (char *words = golden_case(&f); words; words = golden_case(&f), cases++) {
        RG_SCOPE();
        rg_generator *g = rg_generator_new(42);
        rg_sample_options o = { .previous = previous(), .generator = g };
        o.temperature = golden_number(&words);
        o.top_k = golden_integer(&words);
        o.top_p = golden_number(&words);
        o.min_p = golden_number(&words);
        o.repetition_penalty = golden_number(&words);
        char *drawn = golden_field(&f, ':');
        for (int i = 0; i < 20; i++) {
            rg_tensor *tokens = rg_sample_logits_with(logits(), o);
            ck_ok(tokens);
            for (int r = 0; r < 2; r++)
                ck_assert_int_eq(rg_data_as(int64_t, tokens)[r], golden_integer(&drawn));
        }
        rg_generator_free(g);
    }
    golden_close(&f);
    ck_assert_int_eq(cases, 72);
}
END_TEST

/* Without a batch the result is a vector. At temperature 0 the most likely token is taken, also
 * after a penalty. The result requires no gradient. */
START_TEST(test_shapes) {
    rg_tensor *row = rg_requires_grad_(rg_select(logits(), 0, 0), true);
    rg_tensor *token = rg_sample_logits(row, .temperature = 0);
    ck_assert(rg_ndim(token) == 1 && rg_numel(token) == 1 && rg_dtype_of(token) == RG_INT64);
    ck_assert_int_eq(rg_item_int(token), rg_item_int(rg_argmax(row)));
    ck_assert_int_eq(rg_item_int(rg_sample_logits(row, .top_p = 0)), rg_item_int(token));
    ck_assert_int_eq(rg_item_int(rg_sample_logits(row, .top_k = 1)), rg_item_int(token));
    ck_assert_int_eq(rg_item_int(rg_sample_logits(row, .min_p = 1)), rg_item_int(token));
    rg_tensor *other = rg_sample_logits(row, .temperature = 0, .previous = token,
                                        .repetition_penalty = 100);
    ck_assert_int_ne(rg_item_int(other), rg_item_int(token));
    ck_assert_int_eq(rg_size(rg_sample_logits(rg_zeros(0, 3)), 0), 0);
}
END_TEST

/* Logits of 16 bits are computed with in float32: in 16 bits, a random number that is rounded to 0
 * could choose a token of probability 0. */
START_TEST(test_half) {
    static const rg_dtype dtypes[] = { RG_BFLOAT16, RG_FLOAT16 };
    for (int i = 0; i < 2; i++)
        for (int seed = 0; seed < 40; seed++) {
            RG_SCOPE();
            rg_manual_seed(seed);
            rg_tensor *half = rg_to(rg_mul(rg_randn(1000), 3), dtypes[i]);
            rg_sample_options o = { .temperature = 0.7,
                                    .top_k = 100,
                                    .top_p = 0.9,
                                    .repetition_penalty = 1.3,
                                    .previous = rg_arange(30) };
            rg_generator *a = rg_generator_new(seed), *b = rg_generator_new(seed);
            o.generator = a;
            const int64_t token = rg_item_int(rg_sample_logits_with(half, o));
            o.generator = b;
            const int64_t same = rg_item_int(rg_sample_logits_with(rg_float(half), o));
            ck_assert_int_eq(token, same);
            rg_generator_free(a);
            rg_generator_free(b);
        }
}
END_TEST

START_TEST(test_refused) {
    x = logits();
    ck_fails(rg_sample_logits(x, .min_p = NAN), RG_VALUE_ERROR, "min_p nan is not from 0 to 1");
    ck_fails(rg_sample_logits(x, .previous = rg_literal([[0], [12]]), .repetition_penalty = 2),
             RG_RUNTIME_ERROR, "sample_logits: index 12 is out of bounds");
    ck_fails(rg_sample_logits(x, .previous = rg_literal([[0]]), .repetition_penalty = 2),
             RG_VALUE_ERROR, "the batches of logits and of previous differ");
}
END_TEST

static bool use(void) {
    return rg_sample_logits(x, .top_k = 9, .top_p = 0.9, .min_p = 0.1,
                            .previous = earlier, .repetition_penalty = 2);
}

START_TEST(test_denied) {
    x = logits();
    earlier = previous();
    ck_assert_int_gt(deny_in_turn(use, NULL), 10);
}
END_TEST

RG_TESTS(sampling, test_draws, test_shapes, test_half, test_refused, test_denied)
