/*
 * test_shared.c: several threads call the same modules at once, in evaluation mode: with grad mode
 * off, and with backward runs through parameters that require grad or don't. Each thread gets the
 * results that one thread alone gets. Under ThreadSanitizer, the modules and the parameters are
 * read by all threads.
 */
#include "regard.h"
#include "tensor/base.h"
#include "tests/test.h"

#include <pthread.h>

enum { THREADS = 4, TURNS = 5, N = 4, SIZE = 8 };

static rg_module *models[16];
static int n_models;
static rg_tensor *of_one[16], *of_gradient[16];

/* Makes every kind of module that maps (batch, SIZE, SIZE) to a tensor. */
static void make_models(void) {
    rg_module *const made[] = {
        (rg_module *)rg_nn_sequential(rg_nn_linear(SIZE, SIZE), rg_nn_gelu(), rg_nn_dropout(0.5)),
        (rg_module *)rg_nn_sequential(rg_nn_layer_norm(SIZE), rg_nn_conv1d(SIZE, SIZE, 3),
                                      rg_nn_batch_norm1d(SIZE)),
        (rg_module *)rg_nn_transformer_encoder_layer(SIZE, 2, .dim_feedforward = 16,
                                                     .batch_first = true),
        (rg_module *)rg_nn_sequential(rg_nn_flatten(1, -1), rg_nn_linear(SIZE * SIZE, 2),
                                      rg_nn_softmax(-1)),
        (rg_module *)rg_nn_sequential(rg_nn_rms_norm(SIZE), rg_nn_prelu(), rg_nn_avg_pool1d(2)),
    };
    n_models = RG_COUNT(made);
    for (int i = 0; i < n_models; i++) {
        models[i] = made[i];
        rg_eval(models[i]);
    }
}

static rg_tensor *input(void) {
    return rg_sin(rg_float(rg_reshape(rg_arange(N * SIZE * SIZE), N, SIZE, SIZE)));
}

/* Calls a model, and runs backward from the result into an input of the thread's own. Returns the
 * result, and stores the gradient in *g. */
static rg_tensor *call_back(int i, rg_tensor **g) {
    rg_tensor *x = rg_requires_grad_(input(), true);
    rg_tensor *y = rg_call(models[i], x);
    *g = y ? rg_grad(rg_sum(rg_square(y)), x) : NULL;
    return y;
}

static bool is_right(int i) {
    rg_tensor *g;
    rg_tensor *y = call_back(i, &g);
    bool ok = y && g && rg_equal(y, of_one[i]) && rg_equal(g, of_gradient[i]);
    RG_NO_GRAD();
    return ok && rg_equal(rg_call(models[i], input()), of_one[i]);
}

/* Calls each model, and compares its results. If `into_parameters`, also runs backward into the
 * parameters. */
static void *use_models(void *into_parameters) {
    bool ok = true;
    for (int turn = 0; turn < TURNS; turn++)
        RG_FOR (int i = 0; i < n_models; i++) {
            ok = ok && is_right(i);
            if (into_parameters)
                ok = ok && rg_backward(rg_sum(rg_call(models[i], input())));
            ok = ok && rg_parameters(models[i]).n >= 0 && rg_state_dict(models[i]).n >= 0;
        }
    return ok ? models : NULL;
}

static void use_by_threads(void *into_parameters) {
    pthread_t thread[THREADS];
    for (int t = 0; t < THREADS; t++)
        pthread_create(&thread[t], NULL, use_models, into_parameters);
    for (int t = 0; t < THREADS; t++) {
        void *ok;
        pthread_join(thread[t], &ok);
        ck_assert_ptr_nonnull(ok);
    }
}

START_TEST(test_threads_share_modules) {
    rg_manual_seed(1);
    make_models();
    for (int frozen = 0; frozen < 2; frozen++) {
        for (int i = 0; i < n_models; i++) {
            if (frozen)
                rg_module_requires_grad_(models[i], false);
            of_one[i] = call_back(i, &of_gradient[i]);
            ck_ok(of_gradient[i]);
        }
        use_by_threads(frozen ? NULL : models);
    }
    for (int i = 0; i < n_models; i++)
        rg_module_free(models[i]);
}
END_TEST

RG_TESTS_UNGUARDED(shared, test_threads_share_modules)
