/*
 * test_half_training.c: modules and optimizers in bfloat16 and float16. A small network trains
 * beside PyTorch's; its weights, and the optimizer's state, are saved and loaded in their dtype,
 * and in another module's.
 */
#include "nn/nn.h"
#include "regard.h"
#include "tests/golden.h"
#include "tests/scratch.h"
#include "tests/test.h"

#include <math.h>
#include <string.h>

/* Returns a network with weights in the dtype, that half.py makes as well. */
static void *network(rg_dtype dtype) {
    rg_manual_seed(7);
    void *m = rg_nn_sequential(rg_nn_linear(4, 8), rg_nn_layer_norm(8), rg_nn_tanh(),
                               rg_nn_linear(8, 3));
    ck_ok(m && rg_module_to(m, dtype));
    return m;
}

static rg_optim *optimizer(const char *name, void *m) {
    if (strcmp(name, "sgd") == 0)
        return rg_optim_sgd(rg_parameters(m), .lr = 0.1, .momentum = 0.9, .weight_decay = 0.01);
    if (strcmp(name, "adamw") == 0)
        return rg_optim_adamw(rg_parameters(m), .lr = 0.01);
    return rg_optim_rmsprop(rg_parameters(m), .lr = 0.01);
}

static double train_step(void *m, rg_optim *o, rg_tensor *x) {
    rg_tensor *loss = rg_cross_entropy(rg_call(m, x), rg_literal([ 0, 1, 2, 0, 1, 2 ]));
    rg_optim_zero_grad(o);
    ck_ok(rg_backward(loss) && rg_optim_step(o));
    return rg_item(loss);
}

/* Requires that a number differs from PyTorch's by few roundings. Each op of an optimizer's step
 * rounds in PyTorch, and a step here rounds once, so the numbers drift apart. */
static void check_near(const char *what, double is, double wanted, rg_dtype dtype) {
    const double few = dtype == RG_BFLOAT16 ? 0.04 : 0.006;
    ck_each(fabs(is - wanted) <= few * (fabs(wanted) + 0.5), "%s in %s: %g, not %g", what,
            rg_dtype_name(dtype), is, wanted);
}

START_TEST(test_training) {
    golden_file f = golden_open("half_training");
    for (char *words; (words = golden_case(&f));) {
        RG_SCOPE();
        const char *name = golden_word(&words);
        const rg_dtype dtype = golden_dtype(golden_word(&words));
        void *m = network(dtype);
        rg_tensor *x = rg_to(rg_randn(6, 4), dtype);
        rg_optim *o = optimizer(name, m);
        char *numbers = golden_field(&f, ':');
        for (int i = 0; i < 10; i++) {
            const double loss = train_step(m, o, x);
            check_near(name, loss, golden_number(&numbers), dtype);
        }
        numbers = golden_field(&f, ':');
        const rg_list p = rg_parameters(m);
        for (int i = 0; i < p.n; i++) {
            ck_assert(rg_dtype_of(p.v[i]) == (int)dtype
                      && rg_dtype_of(rg_grad_of(p.v[i])) == (int)dtype);
            rg_tensor *flat = rg_reshape(rg_detach(p.v[i]), -1);
            for (int64_t k = 0; k < rg_numel(flat); k++)
                check_near(name, rg_at(flat, k), golden_number(&numbers), dtype);
        }
        rg_optim_free(o);
        rg_module_free(m);
    }
    golden_close(&f);
}
END_TEST

/* Makes an optimizer by its number, or returns NULL if there is no such number. */
static rg_optim *numbered(int i, void *m) {
    const rg_list all = rg_parameters(m);
    switch (i) {
    case 0: return rg_optim_sgd(all, .lr = 0.1, .momentum = 0.9, .nesterov = true);
    case 1: return rg_optim_adam(all, .lr = 0.01, .amsgrad = true);
    case 2: return rg_optim_adamw(all, .lr = 0.01);
    case 3: return rg_optim_rmsprop(all, .lr = 0.01, .momentum = 0.9, .centered = true);
    case 4: return rg_optim_adagrad(all, .lr = 0.05);
    case 5: return rg_optim_lion(all, .lr = 0.003);
    case 6: return rg_optim_nadam(all, .lr = 0.01);
    case 7: return rg_optim_radam(all, .lr = 0.01);
    case 8: return rg_optim_muon(rg_list_of(1, (rg_tensor *[]){ all.v[4] }), .lr = 0.1);
    default: return NULL;
    }
}

/* Each optimizer lowers the loss in bfloat16 about as it does in float32. */
START_TEST(test_each_optimizer) {
    for (int i = 0; i < 9; i++) {
        RG_SCOPE();
        double last[2];
        for (int k = 0; k < 2; k++) {
            const rg_dtype dtype = k ? RG_BFLOAT16 : RG_FLOAT32;
            void *m = network(dtype);
            rg_tensor *x = rg_to(rg_randn(6, 4), dtype);
            rg_optim *o = numbered(i, m);
            const double first = train_step(m, o, x);
            for (int step = 0; step < 12; step++)
                last[k] = train_step(m, o, x);
            ck_assert_msg(last[k] < 0.97 * first, "optimizer %d: from %g to %g", i, first, last[k]);
            rg_optim_free(o);
            rg_module_free(m);
        }
        ck_assert_msg(fabs(last[0] - last[1]) < 0.06, "optimizer %d: %g, in float32 %g", i, last[1],
                      last[0]);
    }
}
END_TEST

/* A run that is saved and loaded again goes on with the same bits. */
START_TEST(test_saved) {
    scratch_begin();
    RG_SCOPE();
    void *m = network(RG_BFLOAT16), *n = network(RG_BFLOAT16), *wide = network(RG_FLOAT32);
    rg_tensor *x = rg_to(rg_randn(6, 4), RG_BFLOAT16);
    rg_optim *o = optimizer("adamw", m), *q = optimizer("adamw", n);
    train_step(m, o, x);
    ck_ok(rg_save_checkpoint(scratch("c"), (rg_training){ .model = m, .optim = o }));
    ck_ok(rg_load_checkpoint(scratch("c"), (rg_training){ .model = n, .optim = q }));
    for (int i = 0; i < 3; i++)
        ck_assert(train_step(m, o, x) == train_step(n, q, x));
    for (int i = 0; i < rg_parameters(m).n; i++)
        ck_ok(rg_equal(rg_parameters(m).v[i], rg_parameters(n).v[i]));
    ck_ok(rg_module_save(m, scratch("m")) && rg_module_load(wide, scratch("m")));
    ck_assert_int_eq(rg_dtype_of(rg_parameters(wide).v[0]), RG_FLOAT32);
    ck_ok(rg_equal(rg_parameters(m).v[0], rg_parameters(wide).v[0]));
    rg_optim_free(o);
    rg_optim_free(q);
    rg_module_free(m);
    rg_module_free(n);
    rg_module_free(wide);
    scratch_end();
}
END_TEST

RG_TESTS(half_training, test_training, test_each_optimizer, test_saved)
