/* test_gpt.c: GPT computes what the same model does in PyTorch, and generates the same with and
 * without a cache. */
#define TWIN_DATA "gpt"
#include "twin.h"

static rg_gpt *small(bool bias, double dropout) {
    rg_manual_seed(1);
    return rg_nn_gpt(.block_size = 6, .vocab_size = 11, .n_layer = 2, .n_head = 2, .n_embd = 4,
                     .bias = bias, .dropout = dropout);
}

static rg_tensor *tokens(void) { return rg_literal([ [ 1, 2, 3, 10 ], [ 0, 5, 5, 9 ] ]); }
static rg_tensor *targets(void) { return rg_literal([ [ 2, 3, 10, 4 ], [ 5, 5, 9, -1 ] ]); }

START_TEST(test_values_and_gradients) {
    const rg_dtype dtypes[] = { RG_FLOAT64, RG_FLOAT32 };
    const char *names[] = { "gpt", "gpt_plain", "gpt_dropout" };
    rg_set_default_dtype(RG_FLOAT64);
    for (int i = 0; i < 6; i++) {
        RG_SCOPE();
        rg_gpt *m = small(i / 2 != 1, i / 2 == 2 ? 0.2 : 0);
        twin_keys(names[i / 2], m);
        rg_module_to(m, dtypes[i % 2]);
        rg_train(m, i / 2);
        rg_named_list all = rg_state_dict(m);
        rg_tensor *weights[TWIN_MOST];
        for (int k = 0; k < all.n; k++)
            weights[k] = all.v[k].tensor;
        twin_near(names[i / 2], ".w", dtypes[i % 2], all.n, weights);
        rg_manual_seed(3);
        rg_logits_loss y = rg_gpt_forward(m, tokens(), targets());
        twin_compare(names[i / 2], dtypes[i % 2], m, 0, NULL, 2,
                     (rg_tensor *[]){ y.logits, y.loss });
        rg_module_free(m);
    }
}
END_TEST

static rg_tensor *count_inputs(rg_module *m, rg_list in, rg_tensor *out, void *context) {
    (void)m;
    (void)out;
    *(int *)context = in.n;
    return RG_NONE;
}

START_TEST(test_calling) {
    rg_set_default_dtype(RG_FLOAT64);
    rg_gpt *m = small(true, 0);
    rg_logits_loss y = rg_gpt_forward(m, tokens(), RG_NONE);
    twin_near("gpt_last", ".y", RG_FLOAT64, 1, &y.logits);
    ck_assert(y.loss == RG_NONE && rg_equal(rg_call(m, tokens()), y.logits));
    ck_assert(
        rg_equal(rg_call(m, tokens(), targets()), rg_gpt_forward(m, tokens(), targets()).loss));
    /* Without targets, the call has one input, and with targets it has two. A hook gets all of
     * them. */
    int inputs = 0;
    ck_assert(rg_register_forward_hook((rg_module *)m, count_inputs, &inputs) >= 0);
    rg_gpt_forward(m, tokens(), RG_NONE);
    ck_assert_int_eq(inputs, 1);
    rg_gpt_forward(m, tokens(), targets());
    ck_assert_int_eq(inputs, 2);
    rg_gpt *untied = rg_nn_gpt(.block_size = 6, .vocab_size = 11, .n_layer = 2, .n_head = 2,
                               .n_embd = 4, .untied = true);
    ck_assert_int_eq(rg_num_parameters(untied), rg_num_parameters(m) + 11 * 4);
    ck_assert(rg_get_parameter(untied, "transformer.wte.weight") != untied->lm_head->weight);
    ck_assert(rg_get_parameter(m, "transformer.wte.weight") == m->lm_head->weight);
    rg_module_free(untied);
    /* If the loss can't be computed, the call returns no logits, either. */
    const rg_logits_loss none = rg_gpt_forward(m, tokens(), rg_long(rg_zeros(3)));
    ck_assert(!none.logits && !none.loss && rg_error_code() == RG_VALUE_ERROR);
    for (int targeted = 0; targeted < 2; targeted++) {
        const rg_logits_loss nothing = rg_gpt_forward(m, RG_NONE, targeted ? targets() : RG_NONE);
        ck_assert(!nothing.logits && !nothing.loss);
    }
    ck_says(rg_call(m, RG_NONE), "gpt: expected a tensor but got RG_NONE");
    ck_says(rg_gpt_cached(m, RG_NONE, rg_gpt_cache(m, 1), 0),
            "gpt: expected a tensor but got RG_NONE");
    ck_assert(m->lm_head->weight == rg_state_dict(m).v[0].tensor);
    ck_assert_int_eq(rg_num_parameters(m), 11 * 4 + 6 * 4 + 2 * (8 + 60 + 20 + 8 + 80 + 68) + 8);
    rg_module_free(m);
}
END_TEST

/* Draws each matrix of weights from N(0, 1), so that the next tokens are of unequal probability. */
static void draw_matrices(rg_gpt *m) {
    for (int i = 0; i < rg_parameters(m).n; i++)
        if (rg_ndim(rg_parameters(m).v[i]) > 1)
            rg_nn_init_normal_(rg_parameters(m).v[i], 0, 1);
}

START_TEST(test_generation) {
    rg_set_default_dtype(RG_FLOAT64);
    rg_gpt *m = small(true, 0);
    draw_matrices(m);
    rg_tensor *begun = rg_narrow(tokens(), 1, 0, 3);
    rg_manual_seed(6);
    rg_tensor *any = rg_gpt_generate(m, begun, 12);
    twin_near("generate_any", ".y", RG_FLOAT64, 1, &any);
    rg_generator *g = rg_generator_new(6);
    rg_tensor *top = rg_gpt_generate(m, begun, 12, .temperature = 0.8, .top_k = 3, .generator = g);
    twin_near("generate_top", ".y", RG_FLOAT64, 1, &top);
    rg_generator_free(g);
    ck_assert(rg_equal(rg_gpt_generate(m, begun, 0), begun) && !rg_requires_grad(any));
    rg_module_free(m);
}
END_TEST

/* Returns a model whose logits are log(p[i]), whatever tokens it reads. */
static rg_gpt *always(const double p[4]) {
    rg_gpt *m = rg_nn_gpt(.block_size = 64, .vocab_size = 4, .n_layer = 1, .n_head = 1,
                          .n_embd = 4);
    rg_named_list all = rg_state_dict(m);
    for (int i = 0; i < all.n; i++) {
        rg_nn_init_zeros_(all.v[i].tensor);
        if (strcmp(all.v[i].name, "transformer.ln_f.bias") == 0)
            rg_nn_init_ones_(rg_narrow(all.v[i].tensor, 0, 0, 1));
    }
    for (int i = 0; i < 4; i++)
        rg_nn_init_constant_(rg_select(rg_select(m->lm_head->weight, 0, i), 0, 0), log(p[i]));
    return m;
}

static bool count_and_stop(rg_tensor *token, void *context) {
    int *left = context;
    ck_assert(rg_ndim(token) == 2 && rg_size(token, 1) == 1);
    return --*left > 0;
}

/* A token is dropped if the sum of its probability and all lower ones is at most 1 - top_p. The
 * sorted probabilities are 0.1, 0.2, 0.3 and 0.4. At temperature 0, the token with the highest
 * probability is chosen. */
START_TEST(test_choices) {
    static const double p[] = { 0.2, 0.4, 0.1, 0.3 };
    static const struct {
        double top_p, temperature;
        int64_t top_k;
        const char *kept;
    } rows[] = { { 1, 1, 0, "1111" },      { 0.75, 1, 0, "1101" }, { 0.6, 1, 0, "0101" },
                 { 0.3, 1, 0, "0100" },    { 0, 1, 0, "0100" },    { 1, 0, 0, "0100" },
                 { 0.5, 1, 2, "0100" },    { 0.6, 1, 3, "0101" },  { 1, 1, 3, "1101" },
                 { 0.99, 0.05, 0, "0100" } };
    rg_gpt *m = always(p);
    rg_eval(m);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char seen[] = "0000";
        rg_manual_seed(7);
        rg_tensor *y = rg_gpt_generate(m, rg_literal([[0]]), 60, .top_p = rows[i].top_p,
                                       .temperature = rows[i].temperature, .top_k = rows[i].top_k);
        ck_ok(y);
        for (int t = 1; t < 61; t++)
            seen[((int64_t *)rg_data(y))[t]] = '1';
        ck_assert_str_eq(seen, rows[i].kept);
    }
    int left = 3;
    rg_tensor *y = rg_gpt_generate(m, rg_literal([[0]]), 60, .each = count_and_stop,
                                   .context = &left);
    ck_assert(rg_size(y, 1) == 4 && left == 0);
    rg_module_free(m);
}
END_TEST

static rg_tensor *notes_length(rg_tensor *x, const char *name, void *lengths) {
    (void)name;
    snprintf((char *)lengths + strlen(lengths), 3, "%d ", (int)rg_size(x, 1));
    return RG_NONE;
}

/* Generation reads each token once, until there are more tokens than the window holds. The result
 * isn't copied if generation doesn't end early. */
START_TEST(test_what_generation_reads) {
    rg_gpt *m = small(true, 0);
    char lengths[40] = "";
    rg_tensor *begun = rg_narrow(tokens(), 1, 0, 3);
    RG_HOOKS(m, RG_HOOKS_AT({ "hook_embed", notes_length, lengths }));
    const bool before = rg_set_profiling(true);
    const int64_t copies = rg_profile_cost("clone").calls;
    ck_ok(rg_gpt_generate(m, begun, 6));
    ck_assert_str_eq(lengths, "3 1 1 1 6 6 ");
    ck_assert_int_eq(rg_profile_cost("clone").calls, copies);
    int left = 2;
    ck_ok(rg_gpt_generate(m, begun, 6, .each = count_and_stop, .context = &left));
    ck_assert_int_eq(rg_profile_cost("clone").calls, copies + 1);
    rg_set_profiling(before);
    rg_module_free(m);
}
END_TEST

/* With one row, generation ends when that row ends. Without rows, generation doesn't end early. */
START_TEST(test_few_rows) {
    static const double p[] = { 0.2, 0.4, 0.1, 0.3 };
    rg_gpt *m = always(p);
    rg_eval(m);
    rg_tensor *y = rg_gpt_generate(m, rg_literal([[0]]), 9, .temperature = 0,
                                   .eos_token_id = RG_DIMS(2, 1));
    ck_assert(rg_equal(y, rg_literal([[ 0, 1 ]])));
    y = rg_gpt_generate(m, rg_zeros_dims(RG_DIMS(0, 2), RG_INT64), 3, .temperature = 0,
                        .eos_token_id = RG_DIMS(1));
    ck_ok(y);
    ck_assert(rg_size(y, 0) == 0 && rg_size(y, 1) == 5);
    rg_module_free(m);
}
END_TEST

/* The tokens are those that rg_sample_logits draws from the logits of a forward call, with all
 * tokens up to then as the earlier ones. */
START_TEST(test_repetition) {
    RG_SCOPE();
    rg_manual_seed(5);
    rg_gpt *m = small(true, 0);
    draw_matrices(m);
    rg_eval(m);
    int other = 0;
    for (uint64_t seed = 0; seed < 20; seed++) {
        RG_SCOPE();
        RG_NO_GRAD();
        rg_tensor *ids = rg_narrow(tokens(), 1, 0, 2);
        rg_manual_seed(seed);
        rg_tensor *free = rg_gpt_generate(m, ids, 4);
        rg_manual_seed(seed);
        rg_tensor *y = rg_gpt_generate(m, ids, 4, .repetition_penalty = 3);
        rg_manual_seed(seed);
        for (int t = 0; t < 4; t++) {
            rg_tensor *last = rg_select(rg_gpt_forward(m, ids, RG_NONE).logits, 1, -1);
            rg_tensor *next = rg_sample_logits(last, .previous = ids, .repetition_penalty = 3);
            ids = rg_cat(RG_LIST(ids, next), 1);
        }
        ck_assert(rg_equal(y, ids));
        other += !rg_equal(y, free);
    }
    ck_assert_int_gt(other, 5);
    rg_module_free(m);
}
END_TEST

/* A row ends after one of the end tokens, and is padded from there on. Generation ends when the
 * last row has ended. */
START_TEST(test_end) {
    RG_SCOPE();
    rg_manual_seed(5);
    rg_gpt *m = small(true, 0);
    draw_matrices(m);
    rg_eval(m);
    rg_tensor *begun = rg_narrow(tokens(), 1, 0, 3);
    const int64_t rows = rg_size(begun, 0);
    int ended = 0;
    for (uint64_t seed = 0; seed < 20; seed++) {
        RG_SCOPE();
        rg_manual_seed(seed);
        rg_tensor *free = rg_gpt_generate(m, begun, 15);
        ck_ok(rows == 2 && rg_size(free, 1) == 18);
        const int64_t eos[] = { (int64_t)rg_at(free, 0, 3 + (int)(seed % 9)),
                                (int64_t)rg_at(free, 1, 5) };
        /* Each row is the same as without end tokens, up to its first end token. Padding
         * follows. */
        for (int64_t pad = -1; pad < 2; pad++) {
            rg_manual_seed(seed);
            rg_tensor *y = rg_gpt_generate(m, begun, 15, .eos_token_id = RG_DIMS(eos[0], eos[1]),
                                           .pad_token_id = pad);
            ck_ok(y);
            int64_t longest = 0;
            for (int row = 0; row < 2; row++) {
                bool over = false;
                int64_t t = 3;
                for (; t < rg_size(y, 1) && !over; t++) {
                    const int64_t token = (int64_t)rg_at(y, row, (int)t);
                    ck_assert_int_eq(token, (int64_t)rg_at(free, row, (int)t));
                    over = token == eos[0] || token == eos[1];
                }
                longest = t > longest ? t : longest;
                for (; t < rg_size(y, 1); t++)
                    ck_assert_int_eq((int64_t)rg_at(y, row, (int)t), pad < 0 ? eos[0] : pad);
            }
            ck_assert_int_eq(longest, rg_size(y, 1));
            ended += longest < 18;
        }
    }
    ck_assert_int_gt(ended, 10);
    ck_fails(rg_gpt_generate(m, begun, 1, .pad_token_id = 1000), RG_VALUE_ERROR,
             "pad_token_id 1000 is not from 0 to");
    ck_fails(rg_gpt_generate(m, begun, 1, .pad_token_id = 11), RG_VALUE_ERROR,
             "pad_token_id 11 is not from 0 to 10");
    ck_ok(rg_gpt_generate(m, begun, 1, .pad_token_id = 10));
    ck_fails(rg_gpt_generate(m, begun, 1, .pad_token_id = -2), RG_VALUE_ERROR, "pad_token_id -2");
    ck_fails(rg_gpt_generate(m, begun, 1, .eos_token_id = { .n = -1 }), RG_VALUE_ERROR,
             "expected up to 8 tokens as eos_token_id, but got -1");
    const int64_t vocabulary = m->config.vocab_size;
    ck_fails(rg_gpt_generate(m, begun, 1, .eos_token_id = RG_DIMS(0, vocabulary)), RG_VALUE_ERROR,
             "eos_token_id ");
    ck_fails(rg_gpt_generate(m, begun, 1, .eos_token_id = RG_DIMS(-1)), RG_VALUE_ERROR,
             "eos_token_id -1 is not from 0 to ");
    ck_fails(rg_gpt_generate(m, begun, 1, .temperature = -1), RG_VALUE_ERROR,
             "temperature -1 is not 0 or more");
    ck_fails(rg_gpt_generate(m, begun, 1, .temperature = NAN), RG_VALUE_ERROR,
             "temperature nan is not 0 or more");
    ck_ok(rg_gpt_generate(m, begun, 1, .eos_token_id = RG_DIMS(0, 1, 2, 3, 4, 5, 6, 7)));
    ck_fails(rg_gpt_generate(m, begun, 1, .eos_token_id = { .n = 9 }), RG_VALUE_ERROR,
             "expected up to 8 tokens as eos_token_id, but got 9");
    rg_module_free(m);
}
END_TEST

/* The logits with a cache are those of the whole sequence, whether tokens are read one by one or
 * several at once. */
START_TEST(test_cache) {
    for (int wide = 0; wide < 2; wide++) {
        rg_dtype dtype = wide ? RG_FLOAT64 : RG_FLOAT32;
        rg_manual_seed(2);
        rg_gpt *m = rg_nn_gpt(.block_size = 40, .vocab_size = 13, .n_layer = 3, .n_head = 2,
                              .n_embd = 16);
        for (int i = 0; i < rg_parameters(m).n; i++)
            if (rg_ndim(rg_parameters(m).v[i]) > 1)
                rg_nn_init_normal_(rg_parameters(m).v[i], 0, 0.3);
        rg_module_to(m, dtype);
        rg_tensor *idx = rg_randint(0, 13, 3, 40), *cache = rg_gpt_cache(m, 3);
        double far = 0;
        for (int64_t at = 0, n; at < 40; at += n) {
            RG_SCOPE();
            n = at == 20 ? 7 : 1;
            rg_tensor *whole = rg_call(m, rg_narrow(idx, 1, 0, at + n)),
                      *cached = rg_gpt_cached(m, rg_narrow(idx, 1, at, n), cache, at);
            ck_ok(cached);
            far = fmax(
                far, rg_item(rg_div(rg_max(rg_abs(rg_sub(whole, cached))), rg_max(rg_abs(whole)))));
        }
        ck_assert_msg(far < twin_limit(dtype), "%g", far);
        ck_fails(rg_gpt_cached(m, rg_narrow(idx, 1, 0, 2), cache, 39), RG_RUNTIME_ERROR,
                 "Cannot forward sequence of length 41");
        /* In this cache all layers share the same memory, so the cache is refused. */
        rg_tensor *one = rg_expand_dims(rg_narrow(cache, 0, 0, 1), rg_shape(cache));
        ck_fails(rg_gpt_cached(m, rg_narrow(idx, 1, 0, 2), one, 0), RG_RUNTIME_ERROR,
                 "more than one element of the cache refers to a single memory location");
        rg_module_free(m);
    }
}
END_TEST

/* While no hook looks inside, a block's attention is one op, with or without a cache. */
START_TEST(test_attention_is_one_op) {
    rg_gpt *m = small(true, 0);
    rg_tensor *cache = rg_gpt_cache(m, 1);
    rg_set_profiling(true);
    const int64_t before = rg_profile_cost("attention").calls,
                  joint = rg_profile_cost("joint_attention").calls;
    ck_ok(rg_gpt_cached(m, rg_literal([[ 1, 2 ]]), cache, 0));
    ck_ok(rg_gpt_cached(m, rg_literal([[ 3, 4 ]]), cache, 2));
    ck_ok(rg_call(m, tokens()));
    rg_set_profiling(false);
    ck_assert_int_eq(rg_profile_cost("attention").calls, before + 2 * 2);
    ck_assert_int_eq(rg_profile_cost("joint_attention").calls, joint + 2);
    rg_module_free(m);
}
END_TEST

static rg_tensor *loss_of(rg_tensor *const in[], void *m) {
    (void)in;
    return rg_call(m, tokens(), targets());
}

START_TEST(test_second_order) {
    rg_set_default_dtype(RG_FLOAT64);
    rg_manual_seed(1);
    rg_gpt *m = rg_nn_gpt(.block_size = 4, .vocab_size = 11, .n_layer = 1, .n_head = 1,
                          .n_embd = 2);
    twin_gradcheck(loss_of, m, rg_zeros(1));
    rg_module_free(m);
}
END_TEST

START_TEST(test_bad_arguments) {
    rg_gpt *m = small(true, 0);
    rg_tensor *cache = rg_gpt_cache(m, 1);
    ck_fails(rg_call(m, rg_long(rg_zeros(1, 7))), RG_RUNTIME_ERROR,
             "Cannot forward sequence of length 7, block size is only 6");
    ck_fails(rg_gpt_cached(m, rg_literal([[1, 2]]), cache, INT64_MAX), RG_RUNTIME_ERROR,
             "Cannot forward sequence of length 9223372036854775809, block size is only 6");
    ck_fails(rg_call(m, rg_long(rg_zeros(4))), RG_RUNTIME_ERROR, "expected idx of (batch, length)");
    ck_fails(rg_call(m, rg_long(rg_zeros(4, 0))), RG_RUNTIME_ERROR,
             "expected idx of (batch, length), with a length of at least 1, but got "
             "torch.Size([4, 0])");
    ck_fails(rg_call(m, rg_full(RG_DIMS(1, 2), 11)), RG_INDEX_ERROR,
             "index 11 is out of bounds for dimension 0 with size 11");
    ck_fails(rg_call(m, tokens(), rg_long(rg_zeros(3))), RG_VALUE_ERROR,
             "to match target batch_size");
    ck_fails(rg_call(m, tokens(), tokens(), tokens()), RG_TYPE_ERROR,
             "GPT.forward() takes 3 positional arguments but 4 were given");
    ck_fails(rg_gpt_cached(m, tokens(), cache, 0), RG_RUNTIME_ERROR, "");
    ck_fails(rg_gpt_cached(m, rg_literal([[1]]), cache, -1), RG_RUNTIME_ERROR,
             "the position -1 is negative");
    ck_fails(rg_gpt_cached(m, rg_literal([[1]]), rg_zeros(2), 0), RG_RUNTIME_ERROR,
             "expected a cache that rg_gpt_cache made for a batch of 1, but got");
    ck_fails(rg_gpt_cached(m, rg_literal([[1], [2]]), rg_gpt_cache(m, 1), 0), RG_RUNTIME_ERROR,
             "for a batch of 2, but got");
    ck_fails(
        rg_gpt_generate(m, rg_zeros(1, 2), 3), RG_RUNTIME_ERROR,
        "expected idx of (batch, length) and dtype torch.int64, but got torch.Size([1, 2]) and "
        "torch.float32");
    ck_fails(rg_gpt_generate(m, tokens(), -3), RG_RUNTIME_ERROR,
             "generate: max_new_tokens -3 is negative");
    ck_fails(rg_gpt_generate(m, tokens(), INT64_MAX), RG_RUNTIME_ERROR,
             "generate: max_new_tokens 9223372036854775807 is too large");
    ck_fails(rg_gpt_generate(m, tokens(), 3, .top_k = -1), RG_RUNTIME_ERROR,
             "generate: top_k -1 is negative");
    ck_fails(rg_gpt_generate(m, tokens(), 2, .top_p = 1.5), RG_VALUE_ERROR,
             "generate: top_p 1.5 is not from 0 to 1");
    ck_fails(rg_gpt_generate(m, tokens(), 2, .top_p = NAN), RG_VALUE_ERROR, "top_p nan");
    ck_fails(rg_nn_gpt(.n_inner = -1), RG_VALUE_ERROR, "gpt: n_inner can't be -1");
    rg_tensor *x = rg_zeros(1, 2, 4);
    ck_fails(rg_call((rg_module *)rg_get_submodule(m, "transformer.h.0"), x, x), RG_TYPE_ERROR,
             "Block.forward() takes 2 positional arguments but 3 were given");
    ck_fails(rg_call((rg_module *)rg_get_submodule(m, "transformer.h.0.attn"), x, x), RG_TYPE_ERROR,
             "CausalSelfAttention.forward() takes 2 positional arguments but 3 were given");
    ck_assert(!rg_gpt_generate(m, tokens(), INT64_MAX) && !rg_gpt_generate(NULL, tokens(), 1)
              && !rg_gpt_cache(NULL, 1) && !rg_gpt_cache(m, -1)
              && !rg_gpt_cached(NULL, tokens(), cache, 0) && !rg_gpt_cached(m, tokens(), RG_NONE, 0)
              && !rg_gpt_cached(m, tokens(), rg_zeros(3), 0)
              && !rg_gpt_forward(m, NULL, RG_NONE).logits
              && !rg_gpt_forward(NULL, tokens(), RG_NONE).logits
              && !rg_gpt_forward(m, tokens(), NULL).logits);
    rg_module_free(m);
    ck_fails(rg_nn_gpt(.n_head = 5, .n_embd = 16), RG_VALUE_ERROR,
             "n_embd 16 must be divisible by n_head 5");
    ck_fails(rg_nn_gpt(.n_head = 1, .n_embd = 1LL << 62), RG_VALUE_ERROR,
             "gpt: n_embd can't be 4611686018427387904");
    ck_fails(rg_nn_gpt(.n_layer = -1), RG_VALUE_ERROR, "gpt: n_layer can't be -1");
    ck_fails(rg_nn_gpt(.n_layer = INT16_MAX + 1), RG_VALUE_ERROR, "gpt: n_layer can't be 32768");
    ck_fails(rg_nn_gpt(.n_head = 1, .n_embd = INT32_MAX + 1LL), RG_VALUE_ERROR,
             "gpt: n_embd can't be 2147483648");
    ck_fails(rg_nn_gpt(.n_inner = INT32_MAX + 1LL), RG_VALUE_ERROR, "n_inner can't be 2147483648");
    /* A model may have no blocks. */
    m = rg_nn_gpt(.block_size = 4, .vocab_size = 11, .n_layer = 0, .n_head = 1, .n_embd = 2);
    ck_ok(m);
    ck_assert_int_eq(rg_size(rg_call(m, tokens()), 2), 11);
    rg_module_free(m);
    ck_assert(!rg_nn_gpt(.n_head = 0) && !rg_nn_gpt(.n_layer = -1) && !rg_nn_gpt(.vocab_size = -1)
              && !rg_nn_gpt(.block_size = -1) && !rg_nn_gpt(.vocab_size = INT64_MAX)
              && !rg_nn_gpt(.n_embd = INT64_MAX, .n_head = 1) && !rg_nn_gpt(.dropout = 2));
}
END_TEST

static bool use(void) {
    rg_gpt *m = rg_nn_gpt(.block_size = 4, .vocab_size = 11, .n_layer = 1, .n_head = 1,
                          .n_embd = 2);
    bool ok = rg_backward(rg_call(m, tokens(), targets()))
              && rg_gpt_generate(m, tokens(), 2, .top_k = 2);
    rg_module_free(m);
    return ok;
}

START_TEST(test_out_of_memory) { twin_out_of_memory(use); }
END_TEST

RG_TESTS_UNGUARDED(gpt, test_values_and_gradients, test_calling, test_generation, test_few_rows,
                   test_what_generation_reads, test_repetition, test_end, test_choices, test_cache,
                   test_attention_is_one_op, test_second_order, test_bad_arguments,
                   test_out_of_memory)
