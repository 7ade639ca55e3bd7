/*
 * test_denied.c: if a request for memory is denied, a constructor returns either nothing or the
 * whole module, and a list has either nothing or all its elements.
 */
#include "tests/in_turn.h"
#include "tests/test.h"
#include "regard.h"
#include "tensor/thread.h"

#include <string.h>

/* ---- constructors ---------------------------------------------------------------- */

static rg_tensor *three;

#define MADE(name, ...) \
    static void *name(void) { return __VA_ARGS__; }
MADE(linear, rg_nn_linear(4, 3))
MADE(embedding, rg_nn_embedding(4, 3, .padding_idx = 1))
MADE(layer_norm, rg_nn_layer_norm(4))
MADE(rms_norm, rg_nn_rms_norm(4))
MADE(group_norm, rg_nn_group_norm(2, 4))
MADE(conv1d, rg_nn_conv1d(2, 3, 2))
MADE(conv2d, rg_nn_conv2d(2, 3, 2, .padding_mode = RG_REFLECT))
MADE(max_pool, rg_nn_max_pool2d(2))
MADE(avg_pool, rg_nn_avg_pool1d(2))
MADE(adaptive_pool, rg_nn_adaptive_max_pool2d(2))
MADE(batch_norm, rg_nn_batch_norm2d(3))
MADE(identity, rg_nn_identity())
MADE(gelu, rg_nn_gelu())
MADE(softplus, rg_nn_softplus(1, 20))
MADE(dropout, rg_nn_dropout(0.5))
MADE(flatten, rg_nn_flatten(1, -1))
MADE(cross_entropy, rg_nn_cross_entropy_loss(.weight = three))
MADE(bce, rg_nn_bce_with_logits_loss(.weight = three, .pos_weight = three))
MADE(sequential, rg_nn_sequential(rg_nn_linear(2, 3), rg_nn_sequential(rg_nn_linear(3, 2))))
MADE(module_list, rg_nn_module_list(rg_nn_linear(2, 3), rg_nn_relu(), rg_nn_linear(3, 2)))
MADE(self_attention, rg_nn_self_attention(3, 2, 4))
MADE(multihead, rg_nn_multihead_attention(4, 2))
MADE(multihead_apart, rg_nn_multihead_attention(4, 2, .kdim = 3, .vdim = 5, .add_bias_kv = true))
MADE(multihead_bare, rg_nn_multihead_attention(4, 2, .bias = false))
MADE(learned, rg_nn_learned_positions(5, 2))
MADE(sinusoidal, rg_nn_sinusoidal_positions(5, 3))
MADE(rotary, rg_nn_rotary_positions(5, 4, 10000))
MADE(encoder, rg_nn_transformer_encoder_layer(4, 2, .dim_feedforward = 3))
MADE(decoder, rg_nn_transformer_decoder(rg_nn_transformer_decoder_layer(4, 2, .dim_feedforward = 3),
                                        2, .norm = rg_nn_layer_norm(4)))
MADE(transformer, rg_nn_transformer(.d_model = 2, .nhead = 1, .num_encoder_layers = 2,
                                    .num_decoder_layers = 1, .dim_feedforward = 3))
MADE(transformer_of_others,
     rg_nn_transformer(.d_model = 2, .nhead = 1, .custom_encoder = rg_nn_linear(2, 2),
                       .custom_decoder = rg_nn_linear(2, 2)))
MADE(module_dict, rg_nn_module_dict({ "a", rg_nn_linear(2, 3) }, { "b", rg_nn_relu() }))
MADE(parameter_list, rg_nn_parameter_list(rg_zeros(2), rg_zeros(3)))
MADE(lstm, rg_nn_lstm(3, 4, .num_layers = 2, .bidirectional = true, .proj_size = 2))
MADE(rnn, rg_nn_rnn(3, 4, .nonlinearity = "relu", .bias = false))
MADE(gru_cell, rg_nn_gru_cell(3, 4))
MADE(gpt, rg_nn_gpt(.block_size = 3, .vocab_size = 5, .n_layer = 2, .n_head = 1, .n_embd = 2))

static const struct {
    const char *name;
    void *(*make)(void);
} made[] = {
#define ROW(name) \
    { #name, name }
    ROW(linear),
    ROW(embedding),
    ROW(layer_norm),
    ROW(rms_norm),
    ROW(group_norm),
    ROW(identity),
    ROW(gelu),
    ROW(softplus),
    ROW(dropout),
    ROW(flatten),
    ROW(cross_entropy),
    ROW(bce),
    ROW(sequential),
    ROW(module_list),
    ROW(self_attention),
    ROW(multihead),
    ROW(multihead_apart),
    ROW(multihead_bare),
    ROW(learned),
    ROW(sinusoidal),
    ROW(rotary),
    ROW(encoder),
    ROW(decoder),
    ROW(transformer),
    ROW(transformer_of_others),
    ROW(module_dict),
    ROW(parameter_list),
    ROW(gpt),
    ROW(conv1d),
    ROW(conv2d),
    ROW(max_pool),
    ROW(avg_pool),
    ROW(adaptive_pool),
    ROW(batch_norm),
    ROW(lstm),
    ROW(rnn),
    ROW(gru_cell),
};

static bool same_lists(rg_named_list a, rg_named_list b) {
    bool same = a.n == b.n;
    for (int i = 0; same && i < a.n; i++)
        same = !strcmp(a.v[i].name, b.v[i].name) && rg_equal(a.v[i].tensor, b.v[i].tensor)
               && !strcmp(rg_name(a.v[i].tensor), rg_name(b.v[i].tensor))
               && rg_requires_grad(a.v[i].tensor) == rg_requires_grad(b.v[i].tensor);
    return same;
}

/* Returns whether both have the same text, parameters and buffers, to the last bit and name. */
static bool alike(void *a, void *b) {
    RG_SCOPE();
    return !strcmp(rg_module_repr(a), rg_module_repr(b))
           && same_lists(rg_named_parameters(a), rg_named_parameters(b))
           && same_lists(rg_named_buffers(a), rg_named_buffers(b))
           && same_lists(rg_state_dict(a), rg_state_dict(b));
}

START_TEST(test_constructors) {
    three = rg_ones(3);
    for (size_t i = 0; i < sizeof made / sizeof *made; i++) {
        rg_manual_seed(1);
        void *whole = made[i].make();
        ck_assert_msg(whole, "%s: %s", made[i].name, rg_error());
        bool denied = true;
        for (int64_t fail = 1; denied; fail++) {
            RG_SCOPE();
            rg_manual_seed(1);
            rg_memory_fail_at(fail);
            void *m = made[i].make();
            rg_memory_fail_at(0);
            denied = rg_error_code() != RG_OK;
            ck_assert_msg(denied == !m, "%s, request %d: %s, but %s", made[i].name, (int)fail,
                          m ? "a module" : "no module", denied ? rg_error() : "no error");
            ck_assert_msg(!m || alike(m, whole), "%s, request %d: other values", made[i].name,
                          (int)fail);
            ck_assert(m || rg_error_code() == RG_OUT_OF_MEMORY);
            rg_error_clear();
            rg_module_free(m);
            ck_assert_msg(fail < 10000, "%s never ends", made[i].name);
        }
        rg_module_free(whole);
    }
    /* The failed constructors haven't released the tensor that the program gave them. */
    ck_assert(rg_item(rg_sum(three)) == 3);
}
END_TEST

/* ---- lists ----------------------------------------------------------------------- */

static int count_parameters(void *m) { return rg_named_parameters(m).n; }
static int count_list(void *m) { return rg_parameters(m).n; }
static int count_buffers(void *m) { return rg_named_buffers(m).n; }
static int count_modules(void *m) { return rg_named_modules(m).n; }
static int count_state(void *m) { return rg_state_dict(m).n; }
static int count_elements(void *m) { return (int)rg_num_parameters(m); }
static int measure_text(void *m) {
    const char *text = rg_module_repr(m);
    return text ? (int)strlen(text) : -1;
}

static void deny_each(const char *name, int (*f)(void *m), void *m) {
    RG_SCOPE();
    int whole = f(m), got = -1;
    ck_assert(whole > 0);
    for (int64_t fail = 1; got < 0; fail++) {
        RG_SCOPE();
        rg_memory_fail_at(fail);
        got = f(m);
        rg_memory_fail_at(0);
        ck_assert_msg(got == (rg_error_code() == RG_OK ? whole : -1),
                      "%s, request %d: %d of %d, and '%s'", name, (int)fail, got, whole,
                      rg_error());
        rg_error_clear();
        ck_assert(fail < 10000);
    }
}

#define deny(f, m) deny_each(#f, f, m)

START_TEST(test_lists) {
    rg_sequential *many = rg_nn_sequential(rg_nn_rotary_positions(4, 2, 10));
    for (int i = 0; i < 60; i++)
        rg_sequential_append(many, rg_nn_linear(1, 1));
    rg_gpt *gpt = rg_nn_gpt(.block_size = 3, .vocab_size = 5, .n_layer = 2, .n_head = 1,
                            .n_embd = 2);
    deny(count_buffers, many);
    for (int k = 0; k < 2; k++) {
        void *m = k ? (void *)gpt : (void *)many;
        deny(count_parameters, m);
        deny(count_list, m);
        deny(count_modules, m);
        deny(count_state, m);
        deny(count_elements, m);
        deny(measure_text, m);
    }
    rg_module_free(many);
    rg_module_free(gpt);
}
END_TEST

/* ---- states ---------------------------------------------------------------------- */

/* If memory is denied, a load may stop anywhere, but mustn't return true. */
START_TEST(test_loading) {
    rg_sequential *from = rg_nn_sequential(), *to = rg_nn_sequential();
    for (int i = 0; i < 40; i++) {
        rg_sequential_append(from, rg_nn_linear(1, 2));
        rg_sequential_append(to, rg_nn_linear(1, 2));
    }
    bool loaded = false;
    for (int64_t fail = 1; !loaded; fail++) {
        RG_SCOPE();
        rg_named_list dict = rg_state_dict(from);
        rg_memory_fail_at(fail);
        loaded = rg_load_state_dict(to, dict, true);
        rg_memory_fail_at(0);
        ck_assert(loaded == (rg_error_code() == RG_OK));
        ck_assert(!loaded || same_lists(dict, rg_state_dict(to)));
        rg_error_clear();
        ck_assert(fail < 10000);
    }
    rg_module_free(from);
    rg_module_free(to);
}
END_TEST

/* ---- calls ------------------------------------------------------------------------- */

static rg_linear_module *layer;
static rg_gpt *model;
static rg_tensor *idx;

/* Only the call that sets requires_grad to true is denied memory, not the call that sets it back.
 */
static bool requires_grad(void) {
    const bool ok = rg_module_requires_grad_(model, true);
    const int64_t left = rgi_me->fail_at;
    rg_memory_fail_at(0);
    ck_assert(rg_module_requires_grad_(model, false));
    rg_memory_fail_at(left);
    return ok;
}

/* Clips gradients of float64, to whose dtype the limits must be converted. */
static bool clips(void) {
    RG_SCOPE();
    rg_tensor *p = rg_requires_grad_(rg_ones_dims(RG_DIMS(3), RG_FLOAT64), true);
    rg_list all = { 1, &p };
    return p && rg_backward(rg_sum(rg_mul(p, rg_transpose(rg_ones(1, 3), 0, 1))))
           && rg_clip_grad_norm_(all, 0.1) && rg_clip_grad_value_(all, 0.01);
}

static bool looks_on(rg_module *m, int n, rg_tensor *grad_input[], rg_tensor *grad, void *context) {
    (void)m;
    (void)context;
    for (int i = 0; i < n; i++)
        grad_input[i] = rg_mul(grad, 1);
    return n == 0 || grad_input[0];
}

static bool hooked_backward(void) {
    RG_SCOPE();
    const int id = rg_register_full_backward_hook((rg_module *)layer, looks_on, NULL);
    rg_tensor *x = id < 0 ? NULL : rg_requires_grad_(rg_ones(4, 4), true);
    const bool ok = x && rg_backward(rg_sum(rg_call(layer, x)));
    if (id >= 0)
        rg_remove_forward_hook((rg_module *)layer, id);
    rg_zero_grad(layer);
    return ok;
}

static bool calls_watched(void) {
    RG_SCOPE();
    rg_set_detect_anomaly(true);
    const bool ok = rg_gpt_forward(model, idx, RG_NONE).logits;
    rg_set_detect_anomaly(false);
    return ok;
}

static bool generates(void) {
    RG_SCOPE();
    return rg_gpt_generate(model, idx, 0) && rg_gpt_generate(model, idx, 2, .top_p = 0.5)
           && rg_gpt_generate(model, idx, 2, .top_k = 2);
}

static bool makes_again(void) {
    void *m = rg_deepcopy(model);
    const bool ok = m && rg_module_to(m, RG_FLOAT64);
    rg_module_free(m);
    return ok;
}

static bool loads_wide(void) {
    RG_SCOPE();
    rg_named it[] = { { "weight", rg_zeros_dims(RG_DIMS(4, 4), RG_FLOAT64) },
                      { "bias", rg_zeros_dims(RG_DIMS(4), RG_FLOAT64) } };
    return it[0].tensor && it[1].tensor
           && rg_load_state_dict(layer, (rg_named_list){ 2, it }, true);
}

START_TEST(test_calls) {
    bool (*const calls[])(void) = { clips,     hooked_backward, calls_watched,
                                    generates, makes_again,     loads_wide };
    rg_memory_may_stay = 1; /* The class of the hook's op stays in memory. */
    layer = rg_nn_linear(4, 4);
    model = rg_nn_gpt(.block_size = 5, .vocab_size = 5, .n_layer = 1, .n_head = 1, .n_embd = 2);
    idx = rg_zeros_dims(RG_DIMS(1, 2), RG_INT64);
    for (int i = 0; i < (int)(sizeof calls / sizeof *calls); i++)
        ck_assert_int_gt(deny_in_turn(calls[i], NULL), 0);
    ck_assert(rg_module_requires_grad_(model, false));
    ck_assert_int_gt(deny_in_turn(requires_grad, NULL), 0);
    rg_module_free(layer);
    rg_module_free(model);
}
END_TEST

RG_TESTS(denied, test_constructors, test_lists, test_loading, test_calls)
