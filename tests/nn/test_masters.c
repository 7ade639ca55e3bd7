/*
 * test_masters.c: optimizers that keep float32 copies of parameters of 16 bits: the steps of
 * PyTorch's optimizers on such copies, files, and programs that write to the parameters.
 */
#include "nn/nn.h"
#include "regard.h"
#include "tensor/base.h"
#include "tests/golden.h"
#include "tests/scratch.h"
#include "tests/test.h"

#include <math.h>
#include <string.h>

static rg_optim *optimizer(const char *name, rg_list p, bool masters) {
    if (strcmp(name, "sgd") == 0)
        return rg_optim_sgd(p, .lr = 0.02, .momentum = 0.9, .weight_decay = 0.01,
                            .master_weights = masters);
    if (strcmp(name, "sgd_plain") == 0)
        return rg_optim_sgd(p, .lr = 0.02, .master_weights = masters);
    if (strcmp(name, "adam") == 0)
        return rg_optim_adam(p, .lr = 0.003, .amsgrad = true, .master_weights = masters);
    if (strcmp(name, "adamw") == 0)
        return rg_optim_adamw(p, .lr = 0.003, .master_weights = masters);
    if (strcmp(name, "rmsprop") == 0)
        return rg_optim_rmsprop(p, .lr = 0.002, .momentum = 0.5, .centered = true,
                                .master_weights = masters);
    if (strcmp(name, "adagrad") == 0)
        return rg_optim_adagrad(p, .lr = 0.01, .master_weights = masters);
    if (strcmp(name, "lion") == 0)
        return rg_optim_lion(p, .lr = 0.003, .master_weights = masters);
    if (strcmp(name, "nadam") == 0)
        return rg_optim_nadam(p, .lr = 0.003, .master_weights = masters);
    if (strcmp(name, "radam") == 0)
        return rg_optim_radam(p, .lr = 0.003, .master_weights = masters);
    ck_assert_str_eq(name, "muon");
    return rg_optim_muon(p, .lr = 0.003, .master_weights = masters);
}

static const char *const names[] = { "sgd",     "sgd_plain", "adam",  "adamw", "rmsprop",
                                     "adagrad", "lion",      "nadam", "radam", "muon" };

static rg_tensor *parameter(rg_dtype dtype) {
    rg_tensor *t = rg_literal([ [ 0.5, -1.25, 2.0 ], [ 0.875, -0.375, 1.5 ] ]);
    return rg_requires_grad_(rg_to(t, dtype), true);
}

/* Returns the gradient of step number i, in the parameter's dtype. */
static rg_tensor *gradient(rg_tensor *p, int i) {
    return rg_add(rg_mul(rg_detach(p), 0.125), i / 64.0);
}

static void train_step(rg_optim *o, rg_tensor *p, int i) {
    RG_SCOPE();
    ck_ok(rg_set_grad(p, gradient(p, i)) && rg_optim_step(o));
}

static rg_tensor *entry(rg_optim *o, const char *name) {
    const rg_named_list all = rg_optim_state_dict(o);
    for (int i = 0; i < all.n; i++)
        if (strcmp(all.v[i].name, name) == 0)
            return all.v[i].tensor;
    return NULL;
}

/* The parameter is PyTorch's rounded, and the master has PyTorch's float32 values. */
START_TEST(test_golden) {
    golden_file f = golden_open("masters");
    for (char *words; (words = golden_case(&f));) {
        RG_SCOPE();
        const char *name = golden_word(&words);
        const rg_dtype dtype = golden_dtype(golden_word(&words));
        rg_tensor *p = parameter(dtype);
        rg_optim *o = optimizer(name, rg_list_of(1, &p), true);
        for (int i = 0; i < 30; i++)
            train_step(o, p, i);
        rg_tensor *master = entry(o, "state.0.master");
        ck_assert(master && rg_dtype_of(master) == RG_FLOAT32);
        ck_ok(rg_equal(rg_to(master, dtype), rg_detach(p)));
        char *rounded = golden_field(&f, ':'), *values = golden_field(&f, ':');
        /* Muon's matrices are rounded to bfloat16, and sums of roundings differ. */
        const double few = strcmp(name, "muon") == 0 ? 4e-3 : 4e-6;
        for (int k = 0; k < 6; k++) {
            const double is = rg_at(rg_reshape(master, -1), k), wanted = golden_number(&values);
            ck_each(fabs(is - wanted) <= few * (fabs(wanted) + 0.1), "%s in %s: %.9g, not %.9g",
                    name, rg_dtype_name(dtype), is, wanted);
            const double half = rg_at(rg_reshape(rg_detach(p), -1), k);
            ck_each(fabs(half - golden_number(&rounded)) <= 0.01 * (fabs(half) + 0.1), "%s", name);
        }
        rg_optim_free(o);
    }
    golden_close(&f);
}
END_TEST

/* The master has the bits of a float32 parameter with the same gradients. */
START_TEST(test_as_float32) {
    for (int n = 0; n < RG_COUNT(names); n++)
        for (int d = 0; d < 2; d++) {
            RG_SCOPE();
            rg_tensor *p = parameter(d ? RG_FLOAT16 : RG_BFLOAT16);
            rg_tensor *wide = parameter(RG_FLOAT32);
            rg_optim *o = optimizer(names[n], rg_list_of(1, &p), true);
            rg_optim *q = optimizer(names[n], rg_list_of(1, &wide), false);
            for (int i = 0; i < 20; i++) {
                rg_set_grad(wide, rg_to(gradient(p, i), RG_FLOAT32));
                train_step(o, p, i);
                ck_ok(rg_optim_step(q));
                ck_assert_msg(rg_equal(entry(o, "state.0.master"), rg_detach(wide)), "%s, step %d",
                              names[n], i);
            }
            const rg_named_list a = rg_optim_state_dict(o), b = rg_optim_state_dict(q);
            for (int i = 0; i < b.n; i++)
                ck_assert_msg(rg_equal(entry(o, b.v[i].name), b.v[i].tensor), "%s of %s",
                              b.v[i].name, names[n]);
            ck_assert_int_eq(a.n, b.n + 2); /* The master, and the option. */
            rg_optim_free(o);
            rg_optim_free(q);
        }
}
END_TEST

/* An update that the parameter's rounding loses isn't lost in the master. */
START_TEST(test_small_updates) {
    for (int masters = 0; masters < 2; masters++) {
        RG_SCOPE();
        rg_tensor *p = rg_requires_grad_(rg_to(rg_literal([1.0]), RG_BFLOAT16), true);
        rg_optim *o = rg_optim_sgd(rg_list_of(1, &p), .lr = 0.001, .master_weights = masters);
        for (int i = 0; i < 100; i++) {
            rg_set_grad(p, rg_ones_like(rg_detach(p)));
            ck_ok(rg_optim_step(o));
        }
        ck_assert_double_eq_tol(rg_item(rg_detach(p)), masters ? 0.9 : 1.0, 0.003);
        rg_optim_free(o);
    }
}
END_TEST

/* A program that writes to the parameter, or replaces its data, changes the next step's master. One
 * that writes the same values doesn't. */
START_TEST(test_writes) {
    RG_SCOPE();
    rg_tensor *p = parameter(RG_BFLOAT16);
    rg_optim *o = optimizer("adamw", rg_list_of(1, &p), true);
    train_step(o, p, 0);
    rg_tensor *master = rg_clone(entry(o, "state.0.master"));
    {
        RG_NO_GRAD();
        rg_copy_(p, rg_clone(p));
    }
    rg_set_grad(p, rg_zeros_like(rg_detach(p)));
    ck_ok(rg_optim_step(o));
    ck_assert(rg_allclose(entry(o, "state.0.master"), master, 0, 0.01));
    ck_assert(!rg_equal(rg_to(rg_detach(p), RG_FLOAT32), entry(o, "state.0.master")));
    {
        RG_NO_GRAD();
        rg_fill_(p, 3);
    }
    ck_ok(rg_optim_step(o));
    ck_assert(rg_allclose(entry(o, "state.0.master"), rg_full_like(master, 3), 0, 0.01));
    ck_ok(rg_set_data(p, rg_full_like(rg_detach(p), 5)) && rg_optim_step(o));
    ck_assert(rg_allclose(entry(o, "state.0.master"), rg_full_like(master, 5), 0, 0.01));
    rg_optim_free(o);
}
END_TEST

/* The option can be changed between steps, and a parameter can get another dtype: then the states
 * are converted. */
START_TEST(test_changes) {
    for (int n = 0; n < RG_COUNT(names); n++) {
        RG_SCOPE();
        rg_tensor *p = parameter(RG_BFLOAT16);
        rg_optim *o = optimizer(names[n], rg_list_of(1, &p), false);
        train_step(o, p, 0);
        ck_assert(!entry(o, "state.0.master"));
        rg_optim_group(o, 0)->master_weights = true;
        train_step(o, p, 1);
        ck_assert(entry(o, "state.0.master") != NULL);
        rg_optim_group(o, 0)->master_weights = false;
        train_step(o, p, 2);
        ck_assert(!entry(o, "state.0.master"));
        rg_optim_free(o);
    }
}
END_TEST

/* A run that is saved goes on with the same bits, also in an optimizer that was made without the
 * option. */
START_TEST(test_saved) {
    for (int n = 0; n < RG_COUNT(names); n++) {
        RG_SCOPE();
        rg_tensor *p = parameter(RG_BFLOAT16), *q = parameter(RG_BFLOAT16);
        rg_optim *o = optimizer(names[n], rg_list_of(1, &p), true);
        rg_optim *other = optimizer(names[n], rg_list_of(1, &q), n % 2);
        for (int i = 0; i < 5; i++)
            train_step(o, p, i);
        {
            RG_NO_GRAD();
            rg_copy_(q, p);
        }
        ck_ok(rg_optim_load_state_dict(other, rg_optim_state_dict(o)));
        for (int i = 5; i < 12; i++) {
            train_step(o, p, i);
            train_step(other, q, i);
            ck_assert_msg(rg_equal(rg_detach(p), rg_detach(q)), "%s, step %d", names[n], i);
            ck_assert(rg_equal(entry(o, "state.0.master"), entry(other, "state.0.master")));
        }
        rg_optim_free(o);
        rg_optim_free(other);
    }
}
END_TEST

/* Checkpoints, whose files are read before anything changes, have the masters, too. A model that is
 * loaded after its optimizer leaves the masters as they are. */
START_TEST(test_checkpoint) {
    scratch_begin();
    RG_SCOPE();
    void *m = rg_nn_linear(3, 2), *n = rg_nn_linear(3, 2);
    rg_module_to(m, RG_BFLOAT16);
    rg_module_to(n, RG_BFLOAT16);
    rg_optim *o = rg_optim_adamw(rg_parameters(m), .lr = 0.003, .master_weights = true);
    rg_optim *q = rg_optim_adamw(rg_parameters(n), .lr = 0.003, .master_weights = true);
    const rg_list a = rg_parameters(m), b = rg_parameters(n);
    for (int i = 0; i < 9; i++) {
        if (i == 3) {
            ck_ok(rg_save_checkpoint(scratch("c"), (rg_training){ .model = m, .optim = o }));
            ck_ok(rg_load_checkpoint(scratch("c"), (rg_training){ .model = n, .optim = q }));
        }
        if (i == 5)
            ck_ok(rg_load_state_dict(n, rg_state_dict(m), true));
        for (int k = 0; k < a.n; k++) {
            rg_set_grad(a.v[k], gradient(a.v[k], i));
            rg_set_grad(b.v[k], gradient(b.v[k], i));
        }
        ck_ok(rg_optim_step(o) && rg_optim_step(q));
        for (int k = 0; k < a.n && i >= 3; k++)
            ck_assert_msg(rg_equal(rg_detach(a.v[k]), rg_detach(b.v[k])), "step %d", i);
    }
    ck_ok(rg_equal(entry(o, "state.0.master"), entry(q, "state.0.master")));
    rg_optim_free(o);
    rg_optim_free(q);
    rg_module_free(m);
    rg_module_free(n);
    scratch_end();
}
END_TEST

/* Makes five steps, with a seal of each. Before the third, changes the first master's last bit if
 * `spoils`, which the parameter's rounding hides. Returns whether the seal has failed. */
static bool fails_sealed(rg_seal *seal, bool spoils) {
    RG_SCOPE();
    rg_manual_seed(3);
    void *m = rg_nn_linear(3, 2);
    rg_module_to(m, RG_BFLOAT16);
    const rg_list p = rg_parameters(m);
    rg_optim *o = rg_optim_sgd(p, .lr = 0.01, .master_weights = true);
    const rg_training run = { .model = m, .optim = o };
    bool ok = true;
    for (int i = 0; i < 5 && ok; i++) {
        for (int k = 0; k < p.n; k++)
            rg_set_grad(p.v[k], gradient(p.v[k], i));
        if (spoils && i == 2)
            ((uint32_t *)rg_data(entry(o, "state.0.master")))[0] ^= 1;
        ck_ok(rg_optim_step(o));
        ok = rg_seal_step(seal, i + 1, run);
    }
    rg_optim_free(o);
    rg_module_free(m);
    return !ok;
}

/* A seal has the masters. */
START_TEST(test_sealed) {
    scratch_begin();
    rg_seal *seal = rg_seal_begin(scratch("seal"), .every = 1);
    ck_assert(!fails_sealed(seal, false) && rg_seal_end(seal));
    seal = rg_seal_check(scratch("seal"));
    ck_assert(!fails_sealed(seal, false) && rg_seal_end(seal));
    seal = rg_seal_check(scratch("seal"));
    ck_assert(fails_sealed(seal, true));
    ck_assert_msg(strstr(rg_error(), "step 3") && strstr(rg_error(), "master"), "%s", rg_error());
    rg_seal_end(seal);
    rg_error_clear();
    scratch_end();
}
END_TEST

/* States without masters, as torch saves them, are loaded in float32, and the master is made of the
 * parameter. */
START_TEST(test_without_masters) {
    RG_SCOPE();
    rg_tensor *p = parameter(RG_BFLOAT16), *q = parameter(RG_BFLOAT16);
    rg_optim *o = optimizer("adamw", rg_list_of(1, &p), false);
    rg_optim *other = optimizer("adamw", rg_list_of(1, &q), true);
    train_step(o, p, 0);
    ck_ok(rg_optim_load_state_dict(other, rg_optim_state_dict(o)));
    ck_assert_int_eq(rg_dtype_of(entry(other, "state.0.exp_avg")), RG_FLOAT32);
    train_step(other, q, 1);
    ck_assert(entry(other, "state.0.master") != NULL);
    rg_optim_free(o);
    rg_optim_free(other);
}
END_TEST

/* A step that runs out of memory changes nothing. */
START_TEST(test_without_memory) {
    RG_SCOPE();
    rg_tensor *p = parameter(RG_BFLOAT16);
    rg_optim *o = optimizer("adam", rg_list_of(1, &p), true);
    rg_set_grad(p, gradient(p, 0));
    rg_tensor *before = rg_clone(rg_detach(p));
    for (int64_t i = 1;; i++) {
        rg_memory_fail_at(i);
        const bool ok = rg_optim_step(o);
        rg_memory_fail_at(0);
        if (ok)
            break;
        rg_error_clear();
        ck_assert(rg_equal(rg_detach(p), before));
    }
    ck_assert(!rg_equal(rg_detach(p), before));
    rg_optim_free(o);
}
END_TEST

/* A whole model trains with masters, clipping and a schedule. LBFGS refuses the option. */
START_TEST(test_model) {
    RG_SCOPE();
    rg_manual_seed(7);
    void *m = rg_nn_sequential(rg_nn_linear(4, 8), rg_nn_layer_norm(8), rg_nn_tanh(),
                               rg_nn_linear(8, 3));
    rg_module_to(m, RG_BFLOAT16);
    rg_tensor *x = rg_to(rg_randn(6, 4), RG_BFLOAT16);
    rg_optim *o = rg_optim_adamw(rg_parameters(m), .lr = 0.01, .master_weights = true);
    double first = 0, last = 0;
    for (int i = 0; i < 30; i++) {
        RG_SCOPE();
        rg_tensor *loss = rg_cross_entropy(rg_call(m, x), rg_literal([ 0, 1, 2, 0, 1, 2 ]));
        rg_optim_zero_grad(o);
        ck_ok(rg_backward(loss) && rg_clip_grad_norm_(rg_parameters(m), 1.0) && rg_optim_step(o));
        last = rg_item(loss);
        first = i ? first : last;
    }
    ck_assert(last < 0.5 * first);
    rg_optim_free(o);
    ck_fails(rg_optim_lbfgs(rg_parameters(m), .master_weights = true), RG_TYPE_ERROR,
             "unexpected keyword argument 'master_weights'");
    rg_module_free(m);
}
END_TEST

/* A step that can't compare a loaded master with its parameter fails, and keeps the master, which
 * has what is too little for 16 bits. */
START_TEST(test_masters_that_cannot_be_compared) {
    RG_SCOPE();
    rg_tensor *p = rg_requires_grad_(rg_to(rg_ones(3), RG_BFLOAT16), true);
    rg_optim *o = rg_optim_sgd(RG_LIST(p), .lr = 1e-4, .master_weights = true);
    ck_ok(rg_set_grad(p, rg_ones_like(p)));
    for (int i = 0; i < 15; i++)
        ck_ok(rg_optim_step(o));
    int failed = 0;
    for (bool done = false; !done; failed += !done) {
        ck_ok(rg_optim_load_state_dict(o, rg_optim_state_dict(o)));
        rg_memory_fail_at(failed + 1);
        done = rg_optim_step(o);
        rg_memory_fail_at(0);
        ck_assert(done == (rg_error_code() == RG_OK));
        rg_error_clear();
    }
    ck_assert_int_gt(failed, 1);
    ck_assert(fabs(rg_at(entry(o, "state.0.master"), 0) - (1 - 16e-4)) < 1e-6);
    rg_optim_free(o);
}
END_TEST

RG_TESTS(masters, test_golden, test_as_float32, test_small_updates, test_writes, test_changes,
         test_saved, test_checkpoint, test_sealed, test_without_masters, test_without_memory,
         test_model, test_masters_that_cannot_be_compared)
