/*
 * test_bits.c: no bit depends on the number of threads, from 1 to 16. This holds for 20 steps of
 * the benchmark's small GPT, and for what each other row of the benchmark computes.
 */
#include "tests/test.h"
#include "regard.h"
#include "tensor/threads/workers.h"

#include <string.h>

/* ---- training -------------------------------------------------------------------- */

enum { STEPS = 20 };

static rg_gpt *model;
static rg_optim *optim;
static rg_tensor *idx, *targets;
static double losses[STEPS];
static int steps;

static void one_step(void *at) {
    rg_tensor *loss = rg_gpt_forward(model, idx, targets).loss;
    rg_optim_zero_grad(optim);
    ck_ok(rg_backward(loss) && rg_optim_step(optim));
    if (at)
        *(double *)at = rg_item(loss);
}

/* Returns the weights after all steps, in one tensor. A replayed training makes all steps but the
 * first from a recording. */
static rg_tensor *trained(int threads, bool replayed) {
    rg_gpt_options o = {
        .block_size = 64, .vocab_size = 65, .n_layer = 4, .n_head = 4, .n_embd = 128, .bias = true
    };
    int64_t batch = rg_emulated() ? 2 : 12;
    if (rg_slow())
        o.n_layer = 1;
    if (rg_emulated()) {
        o.block_size = 8;
        o.n_embd = 32;
    }
    ck_assert(rg_set_num_threads(threads));
    rg_manual_seed(3);
    model = rg_nn_gpt_with(o);
    idx = rg_randint(0, o.vocab_size, batch, o.block_size);
    targets = rg_randint(0, o.vocab_size, batch, o.block_size);
    optim = rg_optim_adamw(rg_parameters(model), .lr = 1e-3);
    rg_replay *replay = replayed ? rg_record(one_step, NULL) : NULL;
    RG_FOR (int i = replayed; i < steps; i++) {
        if (replayed)
            ck_ok(rg_replay_run(replay));
        else
            one_step(&losses[i]);
    }
    rg_list all = rg_parameters(model);
    rg_tensor *flat[64];
    for (int i = 0; i < all.n; i++)
        flat[i] = rg_reshape(rg_detach(all.v[i]), -1);
    rg_tensor *weights = rg_cat(((rg_list){ all.n, flat }), 0);
    rg_replay_free(replay);
    rg_optim_free(optim);
    rg_module_free(model);
    return weights;
}

static void check_same(rg_tensor *first, rg_tensor *now, const char *what, int threads) {
    ck_assert(first && now && rg_numel(first) == rg_numel(now));
    size_t bytes = (size_t)rg_numel(first) * (rg_dtype_of(first) == RG_FLOAT32 ? 4 : 8);
    ck_assert_msg(memcmp(rg_data(first), rg_data(now), bytes) == 0, "%s: other bits at %d threads",
                  what, threads);
}

START_TEST(test_training) {
    static const int counts[] = { 1, 2, 3, 16 };
    double first[STEPS];
    steps = rg_slow() ? 4 : STEPS;
    rg_tensor *weights = trained(1, false);
    memcpy(first, losses, (size_t)steps * sizeof *first);
    ck_assert_double_lt(first[steps - 1], first[0]);
    for (int k = 1; k < 4; k++) {
        RG_SCOPE();
        check_same(weights, trained(counts[k], false), "weights", counts[k]);
        ck_assert_msg(memcmp(first, losses, (size_t)steps * sizeof *first) == 0,
                      "other losses at %d threads", counts[k]);
    }
    check_same(weights, trained(2, true), "weights of a replay", 2);
}
END_TEST

/* ---- each row -------------------------------------------------------------------- */

static rg_tensor *x, *other, *g, *rows_targets, *weight, *bias;

static rg_tensor *add(void) { return rg_add(x, other); }
static rg_tensor *relu(void) { return rg_relu(x); }
static rg_tensor *gelu(void) { return rg_gelu(x); }
static rg_tensor *gelu_tanh(void) { return rg_gelu_tanh(x); }
static rg_tensor *softmax(void) { return rg_softmax(x, -1); }
static rg_tensor *layer_norm(void) {
    return rg_layer_norm(x, RG_DIMS(rg_size(x, 1)), weight, bias, 1e-5);
}
static rg_tensor *cross_entropy(void) { return rg_cross_entropy(x, rows_targets); }
static rg_tensor *sum(void) { return rg_sum(x); }
static rg_tensor *sum_0(void) { return rg_sum_dim(x, 0, false); }
static rg_tensor *sum_1(void) { return rg_sum_dim(x, 1, false); }
static rg_tensor *sum_turned(void) { return rg_sum_dim(rg_T(x), 0, false); }
static rg_tensor *sum_strided(void) {
    return rg_sum_dim(rg_slice(x, 1, 0, rg_size(x, 1), 2), 1, false);
}

static const struct {
    const char *name;
    rg_tensor *(*compute)(void);
} ROWS[] = {
    { "add", add },
    { "relu", relu },
    { "gelu", gelu },
    { "gelu tanh", gelu_tanh },
    { "softmax", softmax },
    { "layer_norm", layer_norm },
    { "cross_entropy", cross_entropy },
    { "sum", sum },
    { "sum over dim 0", sum_0 },
    { "sum over dim 1", sum_1 },
    { "sum, transposed", sum_turned },
    { "sum of every other", sum_strided },
};

/* Fills result[] with the gradients of the leaves in `of`, followed by the result of f. */
static void compute(rg_tensor *(*f)(void), rg_list of, rg_tensor *result[]) {
    for (int i = 0; i < of.n; i++)
        rg_set_grad(of.v[i], RG_NONE);
    rg_tensor *y = f();
    result[of.n] = y;
    ck_ok(y && rg_backward(y, .gradient = rg_numel(y) == rg_numel(g) ? g : rg_ones_like(y)));
    for (int i = 0; i < of.n; i++)
        result[i] = rg_grad_of(of.v[i]);
}

/* Compares what f computes at 2 to 16 threads with what it computes at 1. */
static void check_threads(const char *name, rg_tensor *(*f)(void), rg_list of) {
    RG_SCOPE();
    rg_tensor *first[4], *now[4];
    rgi_gather_workers = true; /* Otherwise one thread might do all the work. */
    rg_set_num_threads(1);
    compute(f, of, first);
    for (int threads = 2; threads <= 16; threads++) {
        RG_SCOPE();
        rg_set_num_threads(threads);
        compute(f, of, now);
        for (int i = 0; i <= of.n; i++)
            check_same(first[i], now[i], name, threads);
    }
}

/* Returns the size that suits this run: under valgrind, slowed down by a sanitizer, or usual. */
static int64_t sized(int64_t emulated, int64_t slow, int64_t usual) {
    if (rg_emulated())
        return emulated;
    return rg_slow() ? slow : usual;
}

START_TEST(test_rows) {
    int64_t n = sized(64, 512, 4096), m = sized(100, 1024, 1024);
    x = rg_requires_grad_(rg_randn(n, m), true);
    other = rg_randn(n, m);
    g = rg_randn(n, m);
    rows_targets = rg_randint(0, m, n);
    weight = rg_randn(m);
    bias = rg_randn(m);
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++)
        check_threads(ROWS[i].name, ROWS[i].compute, (rg_list){ 1, &x });
}
END_TEST

static rg_tensor *qkv[3];
static rg_tensor *attend(void) {
    return rg_scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], .is_causal = true);
}

START_TEST(test_attention) {
    int64_t t = sized(40, 200, 1024);
    for (int i = 0; i < 3; i++)
        qkv[i] = rg_requires_grad_(rg_randn(1, 8, t, 64), true);
    g = rg_randn(1, 8, t, 64);
    check_threads("attention", attend, (rg_list){ 3, qkv });
}
END_TEST

/* Compares AdamW's step of many elements, and the logits that a GPT as wide as GPT-2 computes for
 * one token at a time, with a cache of keys and values. */
START_TEST(test_optimizer_and_token) {
    int64_t n = sized(100000, 100000, (3 << 20) + 5), width = sized(24, 768, 768);
    rg_tensor *start = rg_randn(n), *slope = rg_randn(n), *stepped = NULL, *said = NULL,
              *token = rg_randint(0, 100, 1, 1);
    rg_gpt *m = rg_nn_gpt(.block_size = 64, .vocab_size = rg_slow() ? 100 : 50257, .n_layer = 1,
                          .n_head = 12, .n_embd = width);
    rgi_gather_workers = true;
    for (int threads = 1; threads <= 16; threads++) {
        rg_set_num_threads(threads);
        rg_tensor *p = rg_requires_grad_(rg_clone(start), true), *cache = rg_gpt_cache(m, 1),
                  *logits = NULL;
        rg_set_grad(p, slope);
        rg_optim *o = rg_optim_adamw(((rg_list){ 1, &p }), .lr = 1e-3);
        for (int i = 0; i < 3; i++)
            ck_ok(rg_optim_step(o));
        rg_optim_free(o);
        for (int at = 0; at < 3; at++)
            ck_ok(logits = rg_gpt_cached(m, token, cache, at));
        if (threads == 1) {
            stepped = p;
            said = logits;
        }
        check_same(stepped, p, "AdamW", threads);
        check_same(said, logits, "a token", threads);
    }
    rg_module_free(m);
}
END_TEST

RG_TESTS_UNGUARDED(bits, test_training, test_rows, test_attention, test_optimizer_and_token)
