/*
 * test_points.c: values inside a model can be seen, kept and replaced by their names. The values of
 * a GPT are those that PyTorch computes step by step.
 */
#define TWIN_DATA "points"
#include "twin.h"
#include "tests/in_turn.h"

#include <pthread.h>

static rg_tensor *tokens(void) { return rg_literal([ [ 1, 2, 3, 10 ], [ 0, 5, 5, 9 ] ]); }
static rg_tensor *targets(void) { return rg_literal([ [ 2, 3, 10, 4 ], [ 5, 5, 9, -1 ] ]); }

static rg_gpt *small(void) {
    rg_set_default_dtype(RG_FLOAT64);
    rg_manual_seed(1);
    rg_gpt *m = rg_nn_gpt(.block_size = 6, .vocab_size = 11, .n_layer = 2, .n_head = 2,
                          .n_embd = 4);
    rg_list p = rg_parameters(m);
    for (int i = 0; i < p.n; i++)
        if (rg_ndim(p.v[i]) > 1)
            rg_nn_init_normal_(p.v[i], 0, 0.5);
    return m;
}

/* Compares the tensors with the numbers of the case name + suffix. Unlike twin_near, accepts
 * infinities that are equal to the expected ones. */
static void near(const char *name, const char *suffix, int n, rg_tensor *const t[]) {
    golden_file f = golden_find(TWIN_DATA, "%s%s", name, suffix);
    char *numbers = golden_field(&f, ':');
    for (int i = 0; i < n; i++) {
        ck_assert_msg(t[i] != NULL, "%s%s: %s", name, suffix, rg_error());
        rg_tensor *row = rg_contiguous(rg_detach(t[i]));
        for (int64_t k = 0; k < rg_numel(row); k++) {
            double is = ((double *)rg_data(row))[k], want = golden_number(&numbers);
            ck_each(is == want || fabs(is - want) < 1e-11, "%s%s: element %d is %.17g, not %.17g",
                    name, suffix, (int)k, is, want);
        }
    }
    ck_assert_msg(golden_at_end(numbers), "%s%s has fewer values", name, suffix);
    golden_close(&f);
}

enum { N_NAMES = 35 };
static char all_names[4096];
static char *name_of[N_NAMES];

static void read_names(void) {
    golden_file f = golden_find(TWIN_DATA, "names");
    snprintf(all_names, sizeof all_names, "%s", golden_text(&f));
    golden_close(&f);
    char *at = all_names;
    for (int i = 0; i < N_NAMES; i++)
        name_of[i] = golden_word(&at);
    ck_assert(golden_at_end(at));
}

/* ---- a GPT, as in PyTorch ---------------------------------------------------------- */

START_TEST(test_values_inside_a_gpt) {
    read_names();
    rg_gpt *m = small();
    rg_cached_run run = rg_run_with_cache(m, "hook_* blocks.* blocks.*.hook_result ln_final.*",
                                          tokens(), targets());
    ck_ok(run.output);
    ck_assert_int_eq(run.cache.n, N_NAMES);
    near("loss", "", 1, &run.output);
    for (int i = 0; i < N_NAMES; i++) {
        RG_SCOPE();
        ck_assert_str_eq(run.cache.v[i].name, name_of[i]);
        golden_file f = golden_open(TWIN_DATA);
        char *words;
        do
            words = golden_case(&f);
        while (strcmp(golden_word(&words), name_of[i]));
        rg_dims shape = golden_dims(golden_word(&words)), is = rg_shape(run.cache.v[i].tensor);
        golden_close(&f);
        ck_assert(is.n == shape.n && !memcmp(is.v, shape.v, (size_t)is.n * sizeof is.v[0]));
        near(name_of[i], "", 1, &run.cache.v[i].tensor);
        rg_tensor *x = rg_cache_get(run.cache, name_of[i]);
        rg_tensor *g = rg_grad(run.output, x, .retain_graph = true);
        near(name_of[i], ".gradient", 1, &g);
    }
    rg_module_free(m);
}
END_TEST

static int calls;

static rg_tensor *patch(rg_tensor *x, const char *name, void *context) {
    ck_assert_str_eq(name, context);
    calls++;
    return rg_add(rg_mul(x, 1.5), 0.1);
}

START_TEST(test_values_replaced_in_a_gpt) {
    read_names();
    rg_gpt *m = small();
    rg_tensor *of[] = { rg_get_parameter(m, "transformer.wpe.weight"),
                        rg_get_parameter(m, "transformer.h.0.attn.c_attn.weight") };
    rg_tensor *loss = rg_call(m, tokens(), targets());
    for (int i = 0; i < N_NAMES; i++) {
        RG_SCOPE();
        calls = 0;
        rg_tensor *y[3];
        y[0] = rg_run_with_hooks(m, RG_HOOKS_AT({ name_of[i], patch, name_of[i] }), tokens(),
                                 targets());
        ck_ok(rg_grad_many(1, y, NULL, 2, of, y + 1, (rg_backward_options){ .gradient = RG_NONE }));
        near(name_of[i], ".patched", 3, y);
        ck_assert_int_eq(calls, 1);
        /* The hooks leave nothing behind: the loss has the same bits as before. */
        ck_assert(rg_equal(rg_call(m, tokens(), targets()), loss));
    }
    rg_module_free(m);
}
END_TEST

/* The sum of the heads' results, and of the bias if there is one, is the output of attention. */
START_TEST(test_results_of_heads) {
    rg_set_default_dtype(RG_FLOAT64);
    for (int bias = 0; bias < 2; bias++) {
        RG_SCOPE();
        rg_gpt *m = rg_nn_gpt(.block_size = 6, .vocab_size = 11, .n_layer = 1, .n_head = 2,
                              .n_embd = 4, .bias = bias);
        rg_list p = rg_parameters(m);
        for (int i = 0; i < p.n; i++)
            rg_nn_init_normal_(p.v[i], 0, 0.5);
        rg_tensor *logits = rg_call(m, tokens());
        rg_cached_run run = rg_run_with_cache(m, "*.hook_result *.hook_attn_out", tokens());
        ck_ok(run.output);
        ck_assert(rg_allclose(run.output, logits, 1e-12, 1e-13));
        rg_tensor *sum = rg_sum_dim(rg_cache_get(run.cache, "blocks.0.attn.hook_result"), 2, false);
        if (bias)
            sum = rg_add(sum, rg_get_parameter(m, "transformer.h.0.attn.c_proj.bias"));
        ck_assert(
            rg_allclose(sum, rg_cache_get(run.cache, "blocks.0.hook_attn_out"), 1e-12, 1e-13));
        rg_module_free(m);
    }
}
END_TEST

/* A block outside a GPT has the same values, under the paths of nanoGPT's modules. */
START_TEST(test_a_block_alone) {
    static const char *const names[][2] = {
        { "hook_resid_pre", "hook_resid_pre" }, { "ln_1.hook_normalized", "ln1.hook_normalized" },
        { "attn.hook_z", "attn.hook_z" },       { "hook_attn_out", "hook_attn_out" },
        { "mlp.hook_post", "mlp.hook_post" },   { "hook_resid_post", "hook_resid_post" },
    };
    rg_gpt *m = small();
    rg_cached_run whole = rg_run_with_cache(m, "blocks.0.*", tokens());
    rg_module *block = rg_deepcopy(rg_get_submodule(m, "transformer.h.0"));
    ck_ok(block);
    rg_cached_run alone = rg_run_with_cache(block, "*",
                                            rg_cache_get(whole.cache, "blocks.0.hook_resid_pre"));
    ck_ok(alone.output);
    for (int i = 0; i < (int)(sizeof names / sizeof *names); i++) {
        char name[64];
        snprintf(name, sizeof name, "blocks.0.%s", names[i][1]);
        rg_tensor *x = rg_cache_get(alone.cache, names[i][0]);
        ck_assert_msg(x && rg_equal(x, rg_cache_get(whole.cache, name)), "%s: %s", name,
                      rg_error());
    }
    rg_module_free(block);
    rg_module_free(m);
}
END_TEST

/* ---- modules ------------------------------------------------------------------------ */

/* The outputs of modules are kept under their paths. Keeping them doesn't change a bit of the
 * result. */
START_TEST(test_outputs_of_modules) {
    rg_gpt *m = small();
    rg_tensor *loss = rg_call(m, tokens(), targets());
    rg_cached_run run = rg_run_with_cache(m, "transformer.h.* lm_head", tokens(), targets());
    ck_ok(run.output);
    ck_assert(rg_equal(run.output, loss));
    ck_assert_int_eq(run.cache.n, 2 * 12 + 1);
    ck_assert_str_eq(run.cache.v[0].name, "transformer.h.0.ln_1");
    ck_assert(rg_equal(rg_cache_get(run.cache, "lm_head"),
                       rg_gpt_forward(m, tokens(), targets()).logits));
    run = rg_run_with_cache(m, "*", tokens(), targets());
    ck_ok(run.output);
    ck_assert(rg_allclose(run.output, loss, 1e-13, 1e-14));
    ck_assert(rg_equal(rg_cache_get(run.cache, "transformer.h.1.mlp"),
                       rg_cache_get(run.cache, "blocks.1.hook_mlp_out")));
    ck_fails(rg_cache_get(run.cache, "blocks.1.attn.hook_result"), RG_VALUE_ERROR,
             "KeyError: 'blocks.1.attn.hook_result'");
    ck_fails(rg_cache_get(run.cache, "blocks.1.attn.hook_patern"), RG_VALUE_ERROR,
             "cache_get: KeyError: 'blocks.1.attn.hook_patern'; the nearest name is "
             "'blocks.1.attn.hook_pattern'");
    ck_fails(rg_cache_get((rg_named_list){ 0, NULL }, "hook"), RG_VALUE_ERROR,
             "cache_get: KeyError: 'hook'; the cache is empty");
    rg_module_free(m);
}
END_TEST

/* If a module is called twice, the last value is kept. */
START_TEST(test_called_twice) {
    rg_linear_module *l = rg_nn_linear(3, 3);
    rg_sequential *m = rg_nn_sequential(l, rg_nn_relu(), l);
    rg_tensor *x = rg_randn(2, 3);
    rg_cached_run run = rg_run_with_cache(m, "0", x);
    ck_ok(run.output);
    ck_assert(run.cache.n == 1 && rg_equal(run.cache.v[0].tensor, run.output));
    ck_fails(rg_cache_get((rg_named_list){ -1, NULL }, "0"), RG_TYPE_ERROR, "cache_get: expected");
    ck_fails(rg_cache_get(run.cache, NULL), RG_TYPE_ERROR, "cache_get: expected a name");
    rg_module_free(m);
}
END_TEST

/* The names of modules begin at the module that is run. The names of a GPT's values begin at the
 * GPT, even if only its block is run. */
START_TEST(test_names_below_and_above) {
    rg_gpt *m = small();
    rg_sequential *outer = rg_nn_sequential(m, rg_nn_identity());
    rg_cached_run run = rg_run_with_cache(outer, "*.hook_pattern", tokens());
    ck_ok(run.output);
    ck_assert_int_eq(run.cache.n, 2);
    ck_assert_str_eq(run.cache.v[1].name, "0.blocks.1.attn.hook_pattern");
    run = rg_run_with_cache(rg_get_submodule(outer, "0.transformer.h.1"), "*hook_z mlp",
                            rg_randn(1, 3, 4));
    ck_ok(run.output);
    ck_assert_int_eq(run.cache.n, 2);
    ck_assert_str_eq(run.cache.v[0].name, "blocks.1.attn.hook_z");
    ck_assert_str_eq(run.cache.v[1].name, "mlp");
    rg_module_free(outer);
}
END_TEST

/* ---- MultiheadAttention --------------------------------------------------------------- */

START_TEST(test_multihead_attention) {
    rg_set_default_dtype(RG_FLOAT64);
    rg_manual_seed(3);
    rg_transformer_encoder_layer *m = rg_nn_transformer_encoder_layer(8, 2, .dropout = 0.0,
                                                                      .batch_first = true);
    rg_tensor *x = rg_randn(3, 5, 8), *y = rg_call(m, x);
    rg_cached_run run = rg_run_with_cache(m, "self_attn.hook_*", x);
    ck_ok(run.output);
    ck_assert(rg_allclose(run.output, y, 1e-12, 1e-13));
    ck_assert_int_eq(run.cache.n, 6);
    rg_attended a = rg_multihead_attention_forward(m->self_attn, x, x, x, .need_weights = true,
                                                   .average_attn_weights = false);
    ck_assert(rg_equal(rg_cache_get(run.cache, "self_attn.hook_pattern"), a.weights));
    rg_dims z = rg_shape(rg_cache_get(run.cache, "self_attn.hook_z"));
    ck_assert(z.n == 4 && z.v[0] == 3 && z.v[1] == 5 && z.v[2] == 2 && z.v[3] == 4);
    /* Since a hook changes q, attention is no longer one op, and must apply the causal mask
     * itself. */
    rg_tensor *mask = rg_generate_square_subsequent_mask(5);
    rg_tensor *causal = rg_transformer_encoder_layer_forward(m, x, .src_mask = mask,
                                                             .is_causal = true);
    calls = 0;
    RG_HOOKS(m, RG_HOOKS_AT({ "self_attn.hook_q", patch, "self_attn.hook_q" }));
    const bool before = rg_set_profiling(true);
    const int64_t drops = rg_profile_cost("dropout").calls;
    rg_tensor *patched = rg_transformer_encoder_layer_forward(m, x, .src_mask = mask,
                                                              .is_causal = true);
    ck_assert_int_eq(rg_profile_cost("dropout").calls, drops);
    rg_set_profiling(before);
    ck_ok(patched);
    ck_assert_int_eq(calls, 1);
    ck_assert(!rg_allclose(patched, causal, 1e-3, 1e-3));
    /* With a causal mask, the first position sees only itself, whatever its query is. */
    ck_assert(rg_allclose(rg_select(patched, 1, 0), rg_select(causal, 1, 0), 1e-12, 1e-13));
    rg_module_free(m);
}
END_TEST

/* ---- hooks ------------------------------------------------------------------------------ */

static rg_tensor *doubled(rg_tensor *x, const char *name, void *context) {
    (void)name;
    (void)context;
    calls++;
    return rg_mul(x, 2);
}

static rg_tensor *plus_one(rg_tensor *x, const char *name, void *context) {
    (void)name;
    (void)context;
    return rg_add(x, 1);
}

static rg_tensor *leaves_alone(rg_tensor *x, const char *name, void *context) {
    (void)x;
    (void)name;
    (void)context;
    calls++;
    return RG_NONE;
}

static rg_tensor *fails(rg_tensor *x, const char *name, void *context) {
    (void)context;
    return x && *name ? NULL : x;
}

static rg_tensor *runs_again(rg_tensor *x, const char *name, void *model) {
    (void)name;
    calls++;
    return rg_add(rg_call(model, x), 100);
}

/* A module of the program: y = 3 x, with a hook point at x. */
static rg_tensor *triple_forward(rg_module *m, rg_tensor *x) {
    return rg_mul(rg_hook_point(m, "hook_x", x), 3);
}
static const rg_module_class triple_class = { .name = "Triple", .forward = triple_forward };
typedef struct {
    rg_module base;
} triple;

START_TEST(test_order_and_nesting) {
    triple *m = RG_MODULE(triple, &triple_class);
    m = RG_READY(m);
    rg_sequential *s = rg_nn_sequential(m, rg_nn_identity());
    rg_tensor *x = rg_scalar(1);
    ck_assert(rg_item(rg_call(s, x)) == 3);
    /* Hooks are called in the order of the list. Hooks of an outer block are called before those of
     * an inner one. */
    RG_HOOKS(s, RG_HOOKS_AT({ "0.hook_x", plus_one, NULL }, { "0*", doubled, NULL }));
    ck_assert(rg_item(rg_call(s, x)) == 2 * (3 * (1 + 1) * 2));
    {
        RG_HOOKS(s, RG_HOOKS_AT({ "0.hook_x", plus_one, NULL }));
        ck_assert(rg_item(rg_call(s, x)) == 2 * (3 * ((1 + 1) * 2 + 1)));
        rg_cached_run run = rg_run_with_cache(s, "*", x);
        ck_assert(rg_item(rg_cache_get(run.cache, "0.hook_x")) == 5);
        ck_assert(rg_item(rg_cache_get(run.cache, "0")) == 30);
    }
    ck_assert(rg_item(rg_call(s, x)) == 2 * (3 * (1 + 1) * 2));
    /* If the child is called directly, the hooks on s are called, too, under the same names. */
    ck_assert(rg_item(rg_call(m, x)) == 2 * (3 * (1 + 1) * 2));
    rg_module_free(s);
}
END_TEST

/* A run of a submodule gives names that begin at the submodule, not above it. */
START_TEST(test_names_of_a_part) {
    triple *m = RG_MODULE(triple, &triple_class);
    rg_sequential *inner = rg_nn_sequential(rg_nn_relu(), RG_READY(m));
    rg_sequential *outer = rg_nn_sequential(rg_nn_relu(), inner);
    rg_cached_run run = rg_run_with_cache(inner, "*", rg_scalar(1));
    ck_ok(run.output);
    ck_assert_int_eq(run.cache.n, 3);
    ck_assert(rg_item(rg_cache_get(run.cache, "1.hook_x")) == 1);
    run = rg_run_with_cache(outer, "*hook_x", rg_scalar(1));
    ck_assert(run.cache.n == 1 && rg_item(rg_cache_get(run.cache, "1.1.hook_x")) == 1);
    rg_module_free(outer);
}
END_TEST

static rg_tensor *large_forward(rg_module *m, rg_tensor *x) {
    return rg_hook_point(m, "hook_result", x);
}
static const rg_module_class large_class = { .name = "Large", .forward = large_forward };

/* A large value is kept only if the pattern ends with the whole name of the value. */
START_TEST(test_what_is_asked_for_by_name) {
    triple *m = RG_MODULE(triple, &large_class);
    rg_sequential *s = rg_nn_sequential(RG_READY(m));
    rg_tensor *x = rg_scalar(1);
    ck_fails(rg_run_with_cache(m, "*", x).output, RG_VALUE_ERROR, "no value that is called '*'");
    ck_fails(rg_run_with_cache(m, "hook_*", x).output, RG_VALUE_ERROR, "no value");
    ck_assert_int_eq(rg_run_with_cache(m, "hook_result", x).cache.n, 1);
    ck_assert_int_eq(rg_run_with_cache(m, "*hook_result", x).cache.n, 1);
    ck_assert_int_eq(rg_run_with_cache(s, "*hook_result", x).cache.n, 1);
    ck_assert_int_eq(rg_run_with_cache(s, "*", x).cache.n, 1);
    rg_module_free(s);
}
END_TEST

/* If a hook fails, the hooks after it aren't called. */
START_TEST(test_no_hook_after_a_failure) {
    triple *m = RG_MODULE(triple, &triple_class);
    m = RG_READY(m);
    rg_tensor *x = rg_scalar(1);
    calls = 0;
    ck_fails(rg_run_with_hooks(
                 m, RG_HOOKS_AT({ "hook_x", fails, NULL }, { "hook_x", leaves_alone, NULL }), x),
             RG_TYPE_ERROR, "hook_x: expected a tensor of a hook");
    RG_HOOKS(m, RG_HOOKS_AT({ "hook_x", fails, NULL }));
    ck_fails(rg_run_with_hooks(m, RG_HOOKS_AT({ "hook_x", leaves_alone, NULL }), x), RG_TYPE_ERROR,
             "hook_x: expected a tensor of a hook");
    ck_assert_int_eq(calls, 0);
    rg_module_free(m);
}
END_TEST

enum { MOST_POINTS = 64 };
static char points_seen[MOST_POINTS][64];

static rg_tensor *notes_point(rg_tensor *x, const char *name, void *context) {
    (void)x;
    (void)context;
    ck_assert_int_lt(calls, MOST_POINTS);
    snprintf(points_seen[calls++], sizeof points_seen[0], "%s", name);
    return RG_NONE;
}

/* Returns true if some values that are computed after this point don't depend on it. For example,
 * keys are computed after queries, but not from them. */
static bool stands_beside_others(const char *point) {
    static const char *const beside[] = { "transformer.wte", "hook_embed", "hook_q", "hook_k" };
    for (int i = 0; i < 4; i++)
        if (strstr(point, beside[i]))
            return true;
    return false;
}

/* A hook fails at each point in turn. Asserts that the forward then stops: no value that depends on
 * the point is seen, and the error names the point. There must be at least `least` points. */
static void stops_at_each_point(void *m, rg_tensor *x, int least) {
    calls = 0;
    ck_ok(rg_run_with_hooks(m, RG_HOOKS_AT({ "*", notes_point, NULL }), x));
    char names[MOST_POINTS][64];
    memcpy(names, points_seen, sizeof names);
    const int n = calls;
    ck_assert_int_ge(n, least);
    for (int i = 0; i < n; i++) {
        RG_SCOPE();
        char said[100];
        snprintf(said, sizeof said, "%.63s: expected a tensor of a hook", names[i]);
        calls = 0;
        ck_fails(rg_run_with_hooks(
                     m, RG_HOOKS_AT({ "*", notes_point, NULL }, { names[i], fails, NULL }), x),
                 RG_TYPE_ERROR, said);
        ck_assert_msg(calls == i + 1 || stands_beside_others(names[i]),
                      "%s fails, and %d others follow", names[i], calls - i - 1);
    }
}

START_TEST(test_no_point_after_a_failure) {
    rg_gpt *gpt = small();
    stops_at_each_point(gpt, tokens(), 30);
    rg_module_free(gpt);
    rg_transformer_encoder_layer *layer = rg_nn_transformer_encoder_layer(4, 2,
                                                                          .dim_feedforward = 3);
    stops_at_each_point(layer, rg_randn(3, 2, 4), 12);
    rg_module_free(layer);
}
END_TEST

/* Guards of hooks on one module may be closed in any order. */
START_TEST(test_ends_in_another_order) {
    triple *m = RG_MODULE(triple, &triple_class);
    m = RG_READY(m);
    rg_sequential *s = rg_nn_sequential(m);
    rg_tensor *x = rg_scalar(1);
    for (int last = 0; last < 3; last++) {
        rg_hooks_guard g[3];
        for (int i = 0; i < 3; i++)
            g[i] = rg_hooks_guard_open(s, RG_HOOKS_AT({ "0.hook_x", i ? plus_one : doubled, NULL },
                                                      { "0", plus_one, NULL }));
        ck_assert(rg_item(rg_call(s, x)) == 3 * (2 + 2) + 3);
        rg_hooks_guard_close(&g[(last + 1) % 3]);
        rg_hooks_guard_close(&g[(last + 2) % 3]);
        ck_assert(rg_item(rg_call(s, x)) == 3 * 2 + 1);
        rg_hooks_guard_close(&g[last]);
        ck_assert(rg_item(rg_call(s, x)) == 3);
    }
    rg_module_free(s);
}
END_TEST

/* Freeing a module ends its hooks, but not the hooks on another module. A new module in the same
 * memory has no hooks. */
START_TEST(test_a_look_at_what_ended) {
    triple *m = RG_MODULE(triple, &triple_class), *other = RG_MODULE(triple, &triple_class);
    m = RG_READY(m);
    RG_HOOKS(m, RG_HOOKS_AT({ "hook_x", doubled, NULL }));
    rg_module_free(RG_READY(other));
    ck_assert(rg_item(rg_call(m, rg_scalar(1))) == 6);
    rg_module_free(m);
    for (int i = 0; i < 3; i++) {
        m = RG_MODULE(triple, &triple_class);
        m = RG_READY(m);
        ck_assert(rg_item(rg_call(m, rg_scalar(1))) == 3);
        rg_module_free(m);
    }
}
END_TEST

/* Freeing another module doesn't end the hooks on this one. */
START_TEST(test_an_end_beside_a_look) {
    rg_sequential *s = rg_nn_sequential(rg_nn_relu(), rg_nn_identity()), *other;
    calls = 0;
    rg_hooks_guard look = rg_hooks_guard_open(s, RG_HOOKS_AT({ "0 1", leaves_alone, NULL }));
    other = rg_nn_sequential(rg_nn_relu());
    rg_module_free(other);
    ck_ok(rg_call(s, rg_scalar(1)));
    ck_assert_int_eq(calls, 2);
    rg_hooks_guard_close(&look);
    ck_ok(rg_call(s, rg_scalar(1)));
    ck_assert_int_eq(calls, 2);
    rg_module_free(s);
}
END_TEST

static rg_tensor *calls_module(rg_tensor *x, const char *name, void *m) {
    (void)name;
    ck_assert_int_lt(calls++, 9);
    return rg_add(rg_call(m, x), 10);
}

static void *calls_alone(void *model) {
    rg_tensor *y = rg_call(model, rg_scalar(1));
    return y && rg_item(y) == 1 ? model : NULL;
}

/* A hook isn't called for modules that a hook calls, nor for calls on another thread. */
START_TEST(test_outputs_that_nobody_looks_at) {
    rg_sequential *s = rg_nn_sequential(rg_nn_relu());
    pthread_t t;
    void *ok;
    RG_HOOKS(s, RG_HOOKS_AT({ "0", calls_module, s }));
    calls = 0;
    ck_assert_int_eq(pthread_create(&t, NULL, calls_alone, s), 0);
    pthread_join(t, &ok);
    ck_assert(ok == s && calls == 0);
    ck_assert(rg_item(rg_call(s, rg_scalar(1))) == 11 && calls == 1);
    rg_module_free(s);
}
END_TEST

static rg_tensor *run_inside(rg_tensor *x, const char *name, void *context) {
    (void)x;
    (void)name;
    rg_tensor **c = context;
    c[1] = rg_keep(rg_call((void *)c[0], tokens()));
    return RG_NONE;
}

/* A model makes large values, and computes in an order with other rounding, only if hooks look at
 * that model. */
START_TEST(test_nothing_is_made_for_others) {
    rg_gpt *m = small(), *other = small();
    rg_tensor *plain = rg_call(m, tokens());
    {
        RG_HOOKS(other, RG_HOOKS_AT({ "*.hook_result *.hook_pattern", leaves_alone, NULL },
                                    { "*", leaves_alone, NULL }));
        calls = 0;
        ck_assert(rg_equal(rg_call(m, tokens()), plain) && calls == 0);
    }
    rg_tensor *inside[] = { (void *)m, NULL };
    ck_ok(rg_run_with_hooks(m, RG_HOOKS_AT({ "blocks.1.attn.hook_result", run_inside, inside }),
                            tokens()));
    ck_assert(rg_equal(inside[1], plain));
    rg_drop(inside[1]);
    ck_assert(
        !rg_equal(rg_run_with_cache(m, "*.hook_result *.hook_pattern", tokens()).output, plain));
    rg_module_free(m);
    rg_module_free(other);
}
END_TEST

START_TEST(test_a_hook_that_runs_the_model) {
    triple *m = RG_MODULE(triple, &triple_class);
    m = RG_READY(m);
    calls = 0;
    rg_tensor *y = rg_run_with_hooks(m, RG_HOOKS_AT({ "hook_x", runs_again, m }), rg_scalar(1));
    ck_ok(y);
    ck_assert(rg_item(y) == 309 && calls == 1);
    rg_module_free(m);
}
END_TEST

START_TEST(test_refusals) {
    rg_linear_module *l = rg_nn_linear(3, 4);
    rg_sequential *m = rg_nn_sequential(l, rg_nn_relu());
    rg_tensor *x = rg_randn(2, 3);
    calls = 0;
    ck_fails(
        rg_run_with_hooks(m, RG_HOOKS_AT({ "0", leaves_alone, NULL }, { "7", doubled, NULL }), x),
        RG_VALUE_ERROR, "run_with_hooks: the Sequential has no value that is called '7'");
    ck_assert_int_eq(calls, 1);
    ck_fails(rg_run_with_cache(m, "nothing.*", x).output, RG_VALUE_ERROR, "'nothing.*'");
    ck_fails(rg_run_with_hooks(m, RG_HOOKS_AT({ "0", fails, NULL }), x), RG_TYPE_ERROR, "0: ");
    ck_fails(rg_run_with_hooks(m, RG_HOOKS_AT({ NULL, doubled, NULL }), x), RG_TYPE_ERROR,
             "run_with_hooks: expected a name");
    ck_fails(rg_run_with_hooks(m, RG_HOOKS_AT({ "0", NULL, NULL }), x), RG_TYPE_ERROR, "function");
    ck_fails(rg_run_with_hooks(NULL, RG_HOOKS_AT({ "0", doubled, NULL }), x), RG_TYPE_ERROR,
             "run_with_hooks");
    ck_fails(rg_run_with_hooks(m, RG_HOOKS_AT({ "0", doubled, NULL }), rg_randn(2, 5)),
             RG_RUNTIME_ERROR, "linear");
    ck_fails(rg_run_with_cache(m, NULL, x).output, RG_TYPE_ERROR, "run_with_cache");
    ck_fails(rg_hook_point(m, "x", NULL), RG_TYPE_ERROR, "hook_point");
    ck_fails(rg_hook_point(NULL, "x", x), RG_TYPE_ERROR, "hook_point");
    ck_fails(rg_hook_point(m, NULL, x), RG_TYPE_ERROR, "hook_point: expected a name but got NULL");
    /* A list of no hooks is accepted, and leaves no hook behind. */
    ck_ok(rg_run_with_hooks_list(m, (rg_hooks_at){ 0, NULL }, RG_LIST(x)));
    ck_fails(rg_run_with_hooks_list(m, (rg_hooks_at){ 1, NULL }, RG_LIST(x)), RG_TYPE_ERROR,
             "run_with_hooks: expected hooks but got NULL");
    calls = 0;
    ck_ok(rg_call(m, x));
    ck_assert(calls == 0 && rg_hook_point(m, "x", x) == x);
    rg_module_free(m);
}
END_TEST

/* A model may be freed before its hooks end. A copy of the model has none of its hooks. */
START_TEST(test_copies_and_ends) {
    rg_sequential *s = rg_nn_sequential(rg_nn_relu(), rg_nn_identity());
    rg_tensor *x = rg_scalar(1);
    rg_hooks_guard guard = rg_hooks_guard_open(s, RG_HOOKS_AT({ "*", doubled, NULL }));
    rg_sequential *copy = rg_deepcopy(s);
    ck_assert(rg_item(rg_call(s, x)) == 4 && rg_item(rg_call(copy, x)) == 1);
    rg_module_free(s);
    ck_assert(rg_item(rg_call(copy, x)) == 1);
    rg_hooks_guard_close(&guard);
    ck_assert_int_eq(rg_error_code(), RG_OK);
    rg_module_free(copy);
}
END_TEST

static void *other_thread(void *model) {
    rg_tensor *y = rg_call(model, rg_scalar(1));
    return y && rg_item(y) == 3 ? model : NULL;
}

START_TEST(test_hooks_are_the_threads) {
    triple *m = RG_MODULE(triple, &triple_class);
    m = RG_READY(m);
    RG_HOOKS(m, RG_HOOKS_AT({ "hook_x", doubled, NULL }));
    pthread_t t;
    void *ok;
    ck_assert_int_eq(pthread_create(&t, NULL, other_thread, m), 0);
    pthread_join(t, &ok);
    ck_assert(ok == m);
    ck_assert(rg_item(rg_call(m, rg_scalar(1))) == 6);
    rg_module_free(m);
}
END_TEST

static void recorded_step(void *context) {
    void **c = context;
    RG_HOOKS(c[0], RG_HOOKS_AT({ "hook_x", doubled, NULL }));
    rg_call(c[0], c[1]);
}

START_TEST(test_no_replay) {
    triple *m = RG_MODULE(triple, &triple_class);
    m = RG_READY(m);
    void *context[] = { m, rg_scalar(1) };
    calls = 0;
    ck_fails(rg_record(recorded_step, context), RG_NOT_IMPLEMENTED, "a hook at a point");
    ck_assert_int_eq(calls, 0);
    rg_module_free(m);
}
END_TEST

static rg_tensor *long_forward(rg_module *m, rg_tensor *x) {
    char name[2000];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    return rg_mul(rg_hook_point(m, name, x), 3);
}
static const rg_module_class long_class = { .name = "Long", .forward = long_forward };

static rg_tensor *keeps_name(rg_tensor *x, const char *name, void *kept) {
    (void)x;
    snprintf(kept, 2000, "%s", name);
    return RG_NONE;
}

/* A name may have any length. A hook is told the path, and as much of the name as there is room
 * for. */
START_TEST(test_long_names) {
    char key[61], kept[2000] = "", path[200];
    memset(key, 'k', sizeof key - 1);
    key[sizeof key - 1] = '\0';
    triple *inner = RG_MODULE(triple, &long_class);
    rg_module_dict *m = rg_nn_module_dict({ key, RG_READY(inner) });
    for (int i = 0; i < 2; i++)
        m = rg_nn_module_dict({ key, m });
    RG_HOOKS(m, RG_HOOKS_AT({ "*n", keeps_name, kept }));
    ck_assert(rg_item(rg_call(inner, rg_scalar(2))) == 6);
    const int n = snprintf(path, sizeof path, "%s.%s.%s.nnn", key, key, key);
    ck_assert(strncmp(kept, path, (size_t)n) == 0 && strlen(kept) < 600);
    ck_assert(strlen(kept) > 300 && strspn(kept + n, "n") == strlen(kept + n));
    rg_module_free(m);
}
END_TEST

/* With a cache and one token at a time, hooks give the same logits as with the whole text at
 * once. */
START_TEST(test_generation_is_steered) {
    rg_gpt *m = small();
    rg_tensor *idx = rg_narrow(tokens(), 0, 0, 1);
    RG_HOOKS(m, RG_HOOKS_AT({ "blocks.0.hook_resid_post blocks.*.attn.hook_z", doubled, NULL }));
    rg_tensor *cache = rg_gpt_cache(m, 1), *logits = NULL, *whole = rg_call(m, idx);
    for (int i = 0; i < 4; i++)
        logits = rg_gpt_cached(m, rg_narrow(idx, 1, i, 1), cache, i);
    ck_ok(logits);
    ck_assert(rg_allclose(logits, whole, 1e-11, 1e-12));
    rg_module_free(m);
}
END_TEST

static rg_gpt *denied;
static bool run_denied(void) {
    rg_tensor *y = rg_run_with_hooks(denied, RG_HOOKS_AT({ "blocks.0.*", leaves_alone, NULL }),
                                     tokens());
    return y && rg_run_with_cache(denied, "*", tokens()).output != NULL;
}

/* Looks at a module that never had a hook. */
static bool look_at_new(void) {
    RG_SCOPE();
    rg_sequential *s = rg_nn_sequential(rg_nn_relu(), rg_nn_identity());
    rg_tensor *x = s ? rg_ones(1) : NULL;
    const bool ok = x && rg_run_with_hooks(s, RG_HOOKS_AT({ "*", leaves_alone, NULL }), x);
    rg_module_free(s);
    return ok;
}

static rg_tensor *many_forward(rg_module *m, rg_tensor *x) {
    for (int i = 0; i < 30 && x; i++) {
        char name[16];
        snprintf(name, sizeof name, "hook_%d", i);
        x = rg_hook_point(m, name, x);
    }
    return x;
}
static const rg_module_class many_class = { .name = "Many", .forward = many_forward };

/* Caches 30 values, although the run makes no new tensor for them: each value is x. */
static bool cache_of_many(void) {
    RG_SCOPE();
    triple *m = RG_MODULE(triple, &many_class);
    m = RG_READY(m);
    rg_tensor *x = m ? rg_ones(1) : NULL;
    const bool ok = x && rg_run_with_cache(m, "*", x).output;
    rg_module_free(m);
    return ok;
}

START_TEST(test_out_of_memory) {
    denied = small();
    twin_out_of_memory(run_denied);
    twin_out_of_memory(look_at_new);
    starve_in_turn(cache_of_many, 36);
    rg_module_free(denied);
}
END_TEST

RG_TESTS(points, test_values_inside_a_gpt, test_values_replaced_in_a_gpt, test_outputs_of_modules,
         test_called_twice, test_names_below_and_above, test_multihead_attention,
         test_order_and_nesting, test_names_of_a_part, test_what_is_asked_for_by_name,
         test_no_hook_after_a_failure, test_no_point_after_a_failure, test_long_names,
         test_an_end_beside_a_look, test_ends_in_another_order, test_a_look_at_what_ended,
         test_outputs_that_nobody_looks_at, test_nothing_is_made_for_others, test_results_of_heads,
         test_a_block_alone, test_a_hook_that_runs_the_model, test_refusals, test_copies_and_ends,
         test_hooks_are_the_threads, test_no_replay, test_generation_is_steered, test_out_of_memory)
