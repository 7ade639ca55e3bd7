/*
 * test_every_set.c: products of matrices, and what is computed by them (convolutions, attention,
 * recurrent layers), have the same bits in every instruction set that this processor has, forward
 * and backward, and so have the numbers of an optimizer's step. tests/tensor/test_sets.c compares
 * the other kernels.
 */
#include "nn/save/sha256.h"
#include "regard.h"
#include "tensor/dtype.h"
#include "tensor/kernels/kernels.h"
#include "tensor/kernels/optim.h"
#include "tests/test.h"

#include <string.h>

/* ---- results are compared by their hashes ------------------------------------------------ */

enum { MOST = 40 };
static char hashes[MOST][RG_SHA256_ROOM]; /* Of the results in the first set. */
static int set, results;
static char what[200]; /* The computation, for the message about a difference. */

/* Compares a result with that of the first set. */
static void result(rg_tensor *t) {
    RG_SCOPE();
    ck_assert_int_lt(results, MOST);
    t = rg_contiguous(rg_detach(t));
    ck_ok(t);
    char hex[RG_SHA256_ROOM];
    rg_sha256 hash;
    rgi_sha256_begin(&hash);
    rgi_sha256_add(&hash, rg_data(t), (size_t)rg_numel(t) * rgi_sizeof(rg_dtype_of(t)));
    rgi_sha256_end(&hash, hex);
    if (set == 0)
        strcpy(hashes[results], hex);
    ck_assert_msg(strcmp(hashes[results], hex) == 0, "%s, result %d: other bits in set %d", what,
                  results, set);
    results++;
}

/* Compares y, and the gradients of the n inputs for random gradients of y. */
static void result_and_gradients(rg_tensor *y, int n, rg_tensor *const inputs[]) {
    rg_tensor *gradients[5], *g = rg_randn_like(y);
    result(y);
    ck_ok(rg_grad_many(1, &y, &g, n, inputs, gradients,
                       (rg_backward_options){ .retain_graph = false }));
    for (int i = 0; i < n; i++)
        result(gradients[i]);
}

/* Makes a computation in every set, in float32 and float64, from the same random numbers. */
static void same_in_every_set(void (*compute)(const int64_t sizes[]), const int64_t sizes[]) {
    const int chosen = k_set;
    for (int dtype = 0; dtype < 2; dtype++) {
        for (set = 0; set <= chosen; set++) {
            RG_SCOPE();
            k_set = set;
            rg_set_default_dtype(dtype ? RG_FLOAT64 : RG_FLOAT32);
            rg_manual_seed(5);
            results = 0;
            snprintf(what, sizeof what, "%lld, %lld, %lld, %lld in %s", (long long)sizes[0],
                     (long long)sizes[1], (long long)sizes[2], (long long)sizes[3],
                     dtype ? "float64" : "float32");
            compute(sizes);
        }
        k_set = chosen;
    }
}

static rg_tensor *input(rg_dims sizes) {
    return rg_requires_grad_(rg_randn_dims(sizes, rg_default_dtype(), rg_default_generator()),
                             true);
}

/* Returns whether a pair of sizes is computed. Where a program is slow, one of three pairs is.
 * `number` is i + k or i + 2 k for the sizes i and k, so that each has a third of the others. */
static bool is_drawn(int number) { return !rg_slow() || number % 3 == 0; }

/* ---- what is computed --------------------------------------------------------------------- */

/* Products of numbers of very different sizes, of which many sums cancel. */
static void product(const int64_t s[]) {
    rg_tensor *a = input(RG_DIMS(s[0], s[1], s[2])), *b = input(RG_DIMS(s[0], s[2], s[3]));
    result_and_gradients(rg_matmul(a, b), 2, (rg_tensor *[]){ a, b });
    rg_tensor *far = rg_exp(rg_mul(rg_detach(a), 9));
    result(rg_matmul(rg_mul(far, rg_sign(a)), b));
    result(rg_matmul(rg_mT(b), rg_mT(a)));
    result(rg_matmul(rg_select(a, 0, 0), rg_select(rg_select(b, 0, 0), 1, 0)));
}

START_TEST(test_products) {
    static const int64_t sizes[] = { 1, 2, 3, 5, 8, 15, 16, 17, 33, 64, 130 };
    for (int i = 0; i < RG_COUNT(sizes); i++)
        for (int k = 0; k < RG_COUNT(sizes); k++)
            if (is_drawn(i + 2 * k))
                same_in_every_set(product, (int64_t[]){ 1 + (i + k) % 3, sizes[i], sizes[k],
                                                        sizes[(i + 3 * k) % RG_COUNT(sizes)] });
    same_in_every_set(product, (int64_t[]){ 1, 40, 1100, 70 });
    same_in_every_set(product, (int64_t[]){ 2, 300, 17, 290 });
}
END_TEST

/* s is: batch, heads, tokens, size of a head. */
static void attention(const int64_t s[]) {
    for (int causal = 0; causal < 2; causal++) {
        rg_tensor *x[3];
        for (int i = 0; i < 3; i++)
            x[i] = input(RG_DIMS(s[0], s[1], s[2], s[3]));
        result_and_gradients(rg_scaled_dot_product_attention(x[0], x[1], x[2], .is_causal = causal),
                             3, x);
        rg_tensor *mask = rg_lt(rg_rand(s[2], s[2]), 0.7);
        result_and_gradients(rg_scaled_dot_product_attention(x[0], x[1], x[2], .attn_mask = mask),
                             3, x);
    }
}

START_TEST(test_attention) {
    static const int64_t tokens[] = { 1, 3, 8, 17, 40, 150 }, heads[] = { 1, 2, 7, 17 },
                         widths[] = { 1, 4, 8, 12, 16, 24, 32, 64, 80 };
    for (int i = 0; i < RG_COUNT(tokens); i++)
        for (int k = 0; k < RG_COUNT(widths); k++)
            if (is_drawn(i + k))
                same_in_every_set(attention,
                                  (int64_t[]){ 1 + i % 2, heads[(i + k) % RG_COUNT(heads)],
                                               tokens[i], widths[k] });
}
END_TEST

/* s is: channels, channels of the output, size of the image, size of the kernel. */
static void convolution(const int64_t s[]) {
    for (int stride = 1; stride < 3; stride++) {
        rg_tensor *x = input(RG_DIMS(2, s[0], s[2], s[2] + 1));
        rg_tensor *w = input(RG_DIMS(s[1], s[0], s[3], s[3]));
        result_and_gradients(rg_conv2d(x, w, RG_NONE, .stride = stride, .padding = s[3] / 2), 2,
                             (rg_tensor *[]){ x, w });
    }
}

START_TEST(test_convolutions) {
    static const int64_t channels[] = { 1, 3, 8, 15, 19, 32 }, images[] = { 5, 9, 16, 28 };
    for (int i = 0; i < RG_COUNT(channels); i++)
        for (int k = 0; k < RG_COUNT(images); k++)
            for (int64_t kernel = 1; kernel < 6 && is_drawn(i + 2 * k); kernel += 2)
                same_in_every_set(convolution, (int64_t[]){ channels[i], channels[(i + k + 1) % 6],
                                                            images[k], kernel });
}
END_TEST

/* s is: size of the input, size of the state, steps, batch. */
static void recurrent(const int64_t s[]) {
    rg_rnn_module *layers[] = { rg_nn_lstm(s[0], s[1]), rg_nn_gru(s[0], s[1]),
                                rg_nn_rnn(s[0], s[1]) };
    for (int i = 0; i < RG_COUNT(layers); i++) {
        rg_tensor *x = input(RG_DIMS(s[2], s[3], s[0]));
        rg_list p = rg_parameters(layers[i]);
        rg_tensor *inputs[5] = { x, p.v[0], p.v[1], p.v[2], p.v[3] };
        result_and_gradients(rg_rnn_forward(layers[i], x).output, 5, inputs);
        rg_module_free(layers[i]);
    }
}

START_TEST(test_recurrent_layers) {
    static const int64_t sizes[] = { 1, 3, 8, 16, 21, 40 };
    for (int i = 0; i < RG_COUNT(sizes); i++)
        for (int k = 0; k < RG_COUNT(sizes); k++)
            if (is_drawn(i + k))
                same_in_every_set(recurrent, (int64_t[]){ sizes[i], sizes[k], 1 + (i + k) % 5,
                                                          sizes[(i + 2 * k) % RG_COUNT(sizes)] });
}
END_TEST

/* s is: rows of the input, half of its size, size of the output. The weight has 16 bits. The terms
 * of each sum cancel, so that the result shows their order in spite of its 8 or 11 bits. */
static void linear(const int64_t s[]) {
    for (int dtype = 0; dtype < 2; dtype++) {
        const rg_dtype half = dtype ? RG_FLOAT16 : RG_BFLOAT16;
        rg_tensor *x = rg_to(rg_randn(s[0], s[1]), half), *w = rg_to(rg_randn(s[2], s[1]), half);
        x = rg_requires_grad_(rg_cat(RG_LIST(x, rg_flip(x, 1)), 1), true);
        w = rg_requires_grad_(rg_cat(RG_LIST(w, rg_neg(rg_flip(w, 1))), 1), true);
        result_and_gradients(rg_linear(x, w, RG_NONE), 2, (rg_tensor *[]){ x, w });
    }
}

START_TEST(test_weights_of_16_bits) {
    static const int64_t sizes[] = { 1, 3, 16, 31, 32, 33, 100, 300 };
    for (int64_t rows = 1; rows < 6; rows += 4)
        for (int i = 0; i < RG_COUNT(sizes); i++)
            same_in_every_set(linear, (int64_t[]){ rows, sizes[i], sizes[(i + 3) % 8], 0 });
}
END_TEST

/* The numbers of an optimizer's first s[0] steps, of which some are powers. */
static void steps(const int64_t s[]) {
    static const k_steps *const kinds[] = { &k_sgd_steps,   &k_adam_steps,  &k_adagrad_steps,
                                            &k_nadam_steps, &k_radam_steps, &k_rmsprop_steps };
    static const k_optimizer_numbers given = {
        .beta1 = 0.9, .beta2 = 0.999, .decay = 0.004, .sign = 1, .rate = -0.01
    };
    for (int i = 0; i < RG_COUNT(kinds); i++) {
        k_optimizer_count count = { 0 };
        k_optimizer_numbers z;
        rg_tensor *all = rg_zeros_dims(RG_DIMS(s[0], sizeof z / sizeof(int64_t)), RG_INT64);
        for (int64_t step = 0; step < s[0]; step++) {
            k_count_loop_of(kinds[i])(&count, given.beta1, given.decay, false);
            /* The given numbers are copied, or are in their place already. */
            k_optimizer_numbers in_place = given;
            memset(&z, 0xFF, sizeof z);
            k_step_numbers(kinds[i], &z, &count, &given);
            k_step_numbers(kinds[i], &in_place, &count, &in_place);
            ck_assert(memcmp(&z, &in_place, sizeof z) == 0);
            memcpy((char *)rg_data(all) + step * (int64_t)sizeof z, &z, sizeof z);
        }
        result(all);
        result(rg_scalar_dtype(count.product, RG_FLOAT64));
    }
}

START_TEST(test_steps_of_optimizers) { same_in_every_set(steps, (int64_t[]){ 300, 0, 0, 0 }); }
END_TEST

RG_TESTS(every_set, test_products, test_attention, test_convolutions, test_recurrent_layers,
         test_weights_of_16_bits, test_steps_of_optimizers)
