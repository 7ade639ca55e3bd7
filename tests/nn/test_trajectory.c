/* test_trajectory.c: 200 training steps have PyTorch's losses, from the same seed. */
#include "tests/golden.h"
#include "tests/test.h"
#include "regard.h"

#include <math.h>

enum { STEPS = 200 };

static void step(rg_optim *o, rg_tensor *loss, double *to) {
    rg_optim_zero_grad(o);
    ck_ok(rg_backward(loss) && rg_optim_step(o));
    *to = rg_item(loss);
}

static void learn_layer(double losses[]) {
    rg_sequential *m = rg_nn_sequential(rg_nn_embedding(20, 3), rg_nn_self_attention(3, 2, 4),
                                        rg_nn_linear(4, 20));
    rg_tensor *words = rg_randint(0, 20, 20), *next = rg_roll(words, -1, 0);
    rg_optim *o = rg_optim_sgd(rg_parameters(m), .lr = 0.05);
    RG_FOR (int i = 0; i < STEPS; i++)
        step(o, rg_cross_entropy(rg_call(m, words), next), &losses[i]);
    rg_optim_free(o);
    rg_module_free(m);
}

static void learn_encoder(double losses[]) {
    void *layers[2];
    for (int i = 0; i < 2; i++)
        layers[i] = rg_nn_transformer_encoder_layer(16, 2, .dim_feedforward = 32, .dropout = 0.1,
                                                    .batch_first = true);
    rg_sequential *m = rg_nn_sequential(layers[0], layers[1]);
    rg_tensor *x = rg_randn(4, 8, 16), *y = rg_randn(4, 8, 16);
    rg_optim *o = rg_optim_adam(rg_parameters(m), .lr = 1e-3);
    RG_FOR (int i = 0; i < STEPS; i++)
        step(o, rg_mse_loss(rg_call(m, x), y), &losses[i]);
    rg_optim_free(o);
    rg_module_free(m);
}

/* Matrices have weight decay; biases and the weights of norms have none. */
static void learn_gpt(double losses[]) {
    rg_gpt *m = rg_nn_gpt(.block_size = 16, .vocab_size = 32, .n_layer = 2, .n_head = 2,
                          .n_embd = 32);
    rg_tensor *text = rg_randint(0, 32, 400), *group[2][64];
    rg_list all = rg_parameters(m);
    int n[2] = { 0, 0 };
    for (int i = 0; i < all.n; i++) {
        int decays = rg_ndim(all.v[i]) > 1;
        group[decays][n[decays]++] = all.v[i];
    }
    rg_optim *o = rg_optim_adamw(((rg_list){ n[1], group[1] }), .lr = 1e-3, .betas = { 0.9, 0.95 },
                                 .weight_decay = 0.1);
    rg_optim_add_group(o, ((rg_list){ n[0], group[0] }), .weight_decay = 0);
    RG_FOR (int i = 0; i < STEPS; i++) {
        rg_tensor *at = rg_add(rg_randint(0, 400 - 16, 8, 1), rg_arange(16));
        step(o, rg_call(m, rg_index(text, at), rg_index(text, rg_add(at, 1))), &losses[i]);
    }
    rg_optim_free(o);
    rg_module_free(m);
}

typedef struct {
    rg_module base;
    rg_embedding_module *src, *tgt, *where;
    rg_transformer *transformer;
    rg_linear_module *head;
} translator;

/* Returns the sum of the words' rows in the table and of the rows of their positions. */
static rg_tensor *placed(translator *self, rg_embedding_module *table, rg_tensor *words) {
    return rg_add(rg_call(table, words), rg_call(self->where, rg_arange(rg_size(words, 1))));
}

static rg_tensor *translator_forward(rg_module *m, rg_tensor *src, rg_tensor *tgt) {
    translator *self = (translator *)m;
    rg_tensor *padding = rg_eq(src, 0);
    return rg_call(
        self->head,
        rg_transformer_forward(self->transformer, placed(self, self->src, src),
                               placed(self, self->tgt, tgt),
                               .tgt_mask = rg_generate_square_subsequent_mask(rg_size(tgt, 1)),
                               .src_key_padding_mask = padding, .memory_key_padding_mask = padding,
                               .tgt_key_padding_mask = rg_eq(tgt, 0)));
}

static const rg_module_class translator_class = { .name = "Translator",
                                                  .forward2 = translator_forward };

static translator *translator_new(int64_t words, int64_t d) {
    translator *self = RG_MODULE(translator, &translator_class);
    RG_CHILD(self, src, rg_nn_embedding(words, d, .padding_idx = 0));
    RG_CHILD(self, tgt, rg_nn_embedding(words, d, .padding_idx = 0));
    RG_CHILD(self, where, rg_nn_embedding(10, d));
    RG_CHILD(self, transformer,
             rg_nn_transformer(.d_model = d, .nhead = 4, .num_encoder_layers = 2,
                               .num_decoder_layers = 2, .dim_feedforward = 2 * d,
                               .batch_first = true));
    RG_CHILD(self, head, rg_nn_linear(d, words));
    return RG_READY(self);
}

/* Learns to reverse sentences of 3 to 8 words. The numbers of words are 3 to 11; 0 is padding, and
 * 1 begins a sentence. */
static void learn_translation(double losses[]) {
    translator *m = translator_new(12, 32);
    rg_tensor *words = rg_randint(3, 12, 64, 8), *length = rg_randint(3, 9, 64, 1);
    rg_tensor *at = rg_arange(8), *past = rg_ge(at, length);
    rg_tensor *back = rg_clamp(rg_sub(rg_sub(length, 1), at), 0, INFINITY);
    rg_tensor *src = rg_masked_fill(words, past, 0);
    rg_tensor *target = rg_masked_fill(rg_gather(words, 1, rg_long(back)), past, 0);
    rg_tensor *begin = rg_ones_dims(RG_DIMS(64, 1), RG_INT64);
    rg_tensor *tgt = rg_cat(RG_LIST(begin, rg_narrow(target, 1, 0, 7)), 1);
    rg_optim *o = rg_optim_adamw(rg_parameters(m), .lr = 1e-3);
    RG_FOR (int i = 0; i < STEPS; i++) {
        rg_tensor *some = rg_randint(0, 64, 16);
        rg_tensor *logits = rg_call(m, rg_index(src, some), rg_index(tgt, some));
        step(o,
             rg_cross_entropy(rg_flatten(logits, 0, 1), rg_flatten(rg_index(target, some), 0, 1),
                              .ignore_index = 0),
             &losses[i]);
    }
    rg_optim_free(o);
    rg_module_free(m);
}

/* Returns the greatest distance of our losses from PyTorch's. */
static double farthest(const char *name, void (*learn)(double losses[]), rg_dtype dtype) {
    double losses[STEPS];
    double far = 0;
    rg_set_default_dtype(dtype);
    rg_manual_seed(1);
    learn(losses);
    golden_file f = golden_find("trajectory", "%s.%d", name, dtype == RG_FLOAT64 ? 64 : 32);
    char *numbers = golden_field(&f, ':');
    for (int i = 0; i < STEPS; i++) {
        double off = fabs(losses[i] - golden_number(&numbers));
        far = off <= far ? far : off;
    }
    golden_close(&f);
    return far;
}

/* Returns how far PyTorch's losses with one thread are from those with two. */
static double between_threads(const char *name) {
    golden_file f = golden_find("trajectory", "%s.2", name);
    char *numbers = golden_field(&f, ':');
    double far = golden_number(&numbers);
    golden_close(&f);
    return far;
}

/* Compares the losses. In float64, they differ from PyTorch's by at most the limit. In float32, the
 * limit is three times the distance between PyTorch's losses with one thread and those with two. */
static void follow(const char *name, void (*learn)(double losses[]), double limit) {
    double far = farthest(name, learn, RG_FLOAT64);
    ck_assert_msg(far <= limit, "%s in float64 is off by %g", name, far);
    double own = between_threads(name);
    far = farthest(name, learn, RG_FLOAT32);
    ck_assert_msg(own > 0 && far <= 3 * own, "%s in float32 is off by %g, where PyTorch is by %g",
                  name, far, own);
}

START_TEST(test_layer) { follow("learn_layer", learn_layer, 1e-9); }
END_TEST
START_TEST(test_encoder) { follow("learn_encoder", learn_encoder, 1e-9); }
END_TEST
START_TEST(test_gpt) { follow("learn_gpt", learn_gpt, 1e-9); }
END_TEST
START_TEST(test_translation) { follow("learn_translation", learn_translation, 1e-12); }
END_TEST

RG_TESTS_UNGUARDED(trajectory, test_layer, test_encoder, test_gpt, test_translation)
