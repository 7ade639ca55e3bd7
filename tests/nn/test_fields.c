/*
 * test_fields.c: a program assigns other values to a module's fields, or registers other values
 * there: absent ones, or ones of another kind, class, shape or dtype. A call of the module then
 * fails with an error message, or computes what the fields say. It never crashes. (Fields that
 * aren't registered are const: tests/refused checks that.)
 */
#include "nn/registry.h"
#include "regard.h"
#include "tests/test.h"

#include <math.h>
#include <string.h>

#define X(...) rg_ones(__VA_ARGS__)

static void *encoder_layer(void) {
    return rg_nn_transformer_encoder_layer(2, 2, .dim_feedforward = 2, .dropout = 0,
                                           .batch_first = true);
}
static void *decoder_layer(void) {
    return rg_nn_transformer_decoder_layer(2, 2, .dim_feedforward = 2, .dropout = 0,
                                           .batch_first = true);
}
static rg_transformer *small_transformer(void) {
    return rg_nn_transformer(.d_model = 2, .nhead = 1, .num_encoder_layers = 1,
                             .num_decoder_layers = 1, .dim_feedforward = 2, .dropout = 0);
}
static void *in_eval_mode(void *m) {
    rg_eval(m);
    rg_module_requires_grad_(m, false);
    return m;
}
static rg_averaged_model *averaged(void) {
    rg_linear_module *model = rg_nn_linear(2, 2);
    rg_averaged_model *m = rg_optim_averaged_model(model);
    rg_module_free(model);
    return m;
}
static rg_tensor *with_cache(rg_transformer_decoder *m, rg_tensor *tgt, rg_tensor *memory) {
    rg_decoder_cache cache = rg_transformer_decoder_cache(m, memory, 4);
    if (!cache.tgt)
        return NULL;
    return rg_transformer_decoder_forward(m, tgt, memory, .cache = &cache);
}
static rg_tensor *gpt_cached(rg_gpt *m, rg_tensor *idx) {
    rg_tensor *cache = rg_gpt_cache(m, 1);
    if (!cache || !rg_gpt_cached(m, idx, cache, 0))
        return NULL;
    return rg_gpt_forward(m, idx, RG_NONE).logits;
}

#define FIELDS(name, type, make, call)              \
    static void *make_##name(void) { return make; } \
    static rg_tensor *call_##name(void *module) {   \
        type *m = module;                           \
        return call;                                \
    }
#include "fields.def"
#undef FIELDS

typedef struct {
    const char *name;
    void *(*make)(void);
    rg_tensor *(*call)(void *m);
} example;
#define FIELDS(name, type, make, call) { #name, make_##name, call_##name },
static const example examples[] = {
#include "fields.def"
};

/* ---- what a program might put in a field ------------------------------------------------ */

enum { TENSORS = 9, CHILDREN = 8 };

static rg_tensor *odd_tensor(int i) {
    switch (i) {
    case 0: return NULL;
    case 1: return RG_NONE;
    case 2: return rg_ones_dims((rg_dims){ 0 }, RG_FLOAT32);
    case 3: return rg_ones(5);
    case 4: return rg_ones(1, 5, 1);
    case 5: return rg_ones(0);
    case 6: return rg_ones_dims(RG_DIMS(2, 2), RG_INT64);
    case 7: return rg_ones_dims(RG_DIMS(2, 2), RG_FLOAT64);
    default: return rg_ones(1, 1);
    }
}

static void *odd_child(int i) {
    switch (i) {
    case 0: return NULL;
    case 1: return rg_nn_identity();
    case 2: return rg_nn_linear(2, 2);
    case 3: return rg_nn_module_list(rg_nn_identity());
    case 4: return rg_nn_module_list();
    case 5: return rg_nn_batch_norm1d(2);
    case 6: return rg_nn_multihead_attention(2, 1);
    default: return rg_nn_lstm(2, 2);
    }
}

static int failures, successes;

/* Puts the i-th odd tensor or module into the entry's field, calls m, and restores the field.
 * Asserts that the call has either returned a result or set an error. */
static void try_value(const example *e, void *m, const rg_named_module *at, const rg_entry *entry,
                      int i) {
    RG_SCOPE();
    void *was = *entry->place;
    void *child = entry->kind == RG_ENTRY_CHILD ? odd_child(i) : NULL;
    *entry->place = entry->kind == RG_ENTRY_CHILD ? child : odd_tensor(i);
    const rg_tensor *y = e->call(m);
    ck_assert_msg(!y == (rg_error_code() != RG_OK), "%s: %s.%s, value %d: %s", e->name, at->name,
                  entry->name, i, y ? rg_error() : "it fails without an error");
    *(y ? &successes : &failures) += 1;
    rg_error_clear();
    *entry->place = was;
    rg_module_free(child);
}

static void registered_fields(const example *e) {
    RG_SCOPE();
    void *m = e->make();
    ck_ok(m);
    rg_named_modules_list all = rg_named_modules(m);
    for (int i = 0; i < all.n; i++)
        for (RG_EACH_ENTRY(entry, all.v[i].module))
            for (int k = 0; k < (entry->kind == RG_ENTRY_CHILD ? CHILDREN : TENSORS); k++)
                try_value(e, m, &all.v[i], entry, k);
    ck_ok(e->call(m));
    rg_module_free(m);
}

START_TEST(test_registered_fields) {
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++)
        registered_fields(&examples[i]);
    ck_assert(failures > 500 && successes > 10);
}
END_TEST

/* ---- fields that a program may change ---------------------------------------------------- */

START_TEST(test_dims) {
    RG_SCOPE();
    rg_plain_module *softmax = rg_nn_softmax(1), *flatten = rg_nn_flatten(0, 1);
    const double wrong[] = { 0.5, NAN, 1e30, 4294967296.0 };
    for (int i = 0; i < 4; i++) {
        softmax->a = wrong[i];
        ck_fails(rg_call(softmax, X(2, 2)), RG_TYPE_ERROR, "a dim must be a whole number");
        flatten->b = wrong[i];
        ck_fails(rg_call(flatten, X(2, 2)), RG_TYPE_ERROR, "a dim must be a whole number");
    }
    softmax->a = -2;
    ck_assert(rg_at(rg_call(softmax, X(4, 1)), 0, 0) == 0.25);
    rg_module_free(softmax);
    rg_module_free(flatten);
}
END_TEST

/* A recurrent layer has both biases or none, and a projection of its size. */
START_TEST(test_recurrent_weights) {
    RG_SCOPE();
    rg_rnn_module *lstm = rg_nn_lstm(2, 3, .proj_size = 2);
    rg_rnn_weights *w = lstm->weights;
    rg_rnn_cell_module *cell = rg_nn_gru_cell(2, 2);
    ck_ok(rg_register_parameter(&lstm->base, "weight_hr_l0", &w->weight_hr, rg_ones(1, 3)));
    ck_fails(rg_call(lstm, X(1, 2)), RG_RUNTIME_ERROR, "weight_hr");
    ck_ok(rg_register_parameter(&lstm->base, "weight_hr_l0", &w->weight_hr, rg_ones(2, 3)));
    ck_ok(rg_call(lstm, X(1, 2)));
    ck_ok(rg_register_parameter(&lstm->base, "bias_ih_l0", &w->bias_ih, RG_NONE));
    ck_fails(rg_call(lstm, X(1, 2)), RG_RUNTIME_ERROR,
             "LSTM: bias_ih and bias_hh must be there together");
    ck_ok(rg_register_parameter(&lstm->base, "bias_hh_l0", &w->bias_hh, RG_NONE));
    ck_ok(rg_call(lstm, X(1, 2)));
    RG_PARAMETER(cell, bias_hh, RG_NONE);
    ck_fails(rg_call(cell, X(2)), RG_RUNTIME_ERROR,
             "GRUCell: bias_ih and bias_hh must be there together");
    RG_PARAMETER(cell, bias_hh, X(1));
    ck_fails(rg_call(cell, X(2)), RG_RUNTIME_ERROR, "bias_hh");
    rg_module_free(lstm);
    rg_module_free(cell);
}
END_TEST

/* As in torch, bn.track_running_stats = False stops the updates in training mode. */
START_TEST(test_track_running_stats) {
    RG_SCOPE();
    rg_batch_norm_module *bn = rg_nn_batch_norm1d(2);
    bn->o.track_running_stats = false;
    rg_tensor *x = rg_literal([[ 1., 2. ], [ 3., 4. ]]);
    ck_assert(rg_equal(rg_call(bn, rg_mul(x, 5)), rg_call(bn, rg_mul(x, 5))));
    ck_assert(rg_item(bn->num_batches_tracked) == 0 && rg_item(rg_sum(bn->running_mean)) == 0);
    rg_eval(bn);
    ck_assert(rg_allclose(rg_call(bn, x), x, 1e-4, 1e-4));
    rg_train(bn, true);
    bn->o.track_running_stats = true;
    ck_ok(rg_call(bn, x));
    ck_assert(rg_item(bn->num_batches_tracked) == 1 && rg_item(rg_sum(bn->running_mean)) > 0);
    rg_module_free(bn);
}
END_TEST

/* The weight of a loss is the buffer that is registered, also in a deep copy. */
START_TEST(test_weight_of_loss) {
    RG_SCOPE();
    rg_tensor *x = rg_full(RG_DIMS(2), 0.5), *y = X(2);
    rg_loss_module *m = rg_nn_bce_loss(.weight = X(2), .reduction = RG_SUM);
    const double once = rg_item(rg_call(m, x, y));
    rg_loss_module *copy = rg_deepcopy(m);
    ck_ok(rg_mul_(copy->weight, 3));
    ck_assert_double_eq_tol(rg_item(rg_call(copy, x, y)), 3 * once, 1e-6);
    ck_assert(rg_item(rg_call(m, x, y)) == once);
    RG_BUFFER(m, weight, rg_full(RG_DIMS(2), 2.0));
    ck_assert_double_eq_tol(rg_item(rg_call(m, x, y)), 2 * once, 1e-6);
    RG_BUFFER(m, weight, RG_NONE);
    ck_assert(rg_item(rg_call(m, x, y)) == once);
    rg_module_free(m);
    rg_module_free(copy);
}
END_TEST

RG_TESTS(fields, test_registered_fields, test_dims, test_recurrent_weights,
         test_track_running_stats, test_weight_of_loss)
