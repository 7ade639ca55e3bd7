/*
 * test_replay.c: the runs of a recording compute the same bits as calls of the step would. A step
 * that can't be repeated by runs is refused.
 */
#include "autograd/replay/recording.h"
#include "autograd/tools/function.h"
#include "nn/data/data.h"
#include "nn/optim/optim.h"
#include "nn/models/gpt.h"
#include "nn/layers/transformer.h"
#include "tensor/memory.h"
#include "tensor/thread.h"
#include "tests/scratch.h"
#include "tests/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 12 };

typedef struct model {
    rg_module *module;
    rg_optim *optim;
    rg_tensor *x, *target, *loss;
    rg_tensor *(*forward)(struct model *m);
    bool accumulate;
} model;

static rg_tensor *toy_forward(model *m) { return rg_mse_loss(rg_call(m->module, m->x), m->target); }
static rg_tensor *gpt_forward(model *m) {
    return rg_gpt_forward((rg_gpt *)m->module, m->x, m->target).loss;
}

static rg_tensor *transformer_forward(model *m) {
    rg_tensor *y = rg_transformer_forward((rg_transformer *)m->module, m->x, m->target,
                                          .tgt_mask = rg_generate_square_subsequent_mask(5),
                                          .tgt_is_causal = true);
    return rg_mse_loss(y, m->target);
}

static void step(void *context) {
    model *m = context;
    rg_tensor *loss = m->forward(m);
    if (!m->accumulate)
        rg_optim_zero_grad(m->optim);
    rg_backward(loss);
    rg_clip_grad_norm_(rg_parameters(m->module), 0.5);
    rg_optim_step(m->optim);
    rg_drop(m->loss);
    m->loss = rg_keep(loss);
}

static model make(const char *kind) {
    model m = { .forward = toy_forward };
    rg_manual_seed(3);
    if (strncmp(kind, "gpt", 3) == 0) {
        double dropout = strcmp(kind, "gpt") ? 0.2 : 0;
        m.module = &rg_nn_gpt(.block_size = 8, .vocab_size = 13, .n_layer = 2, .n_head = 2,
                              .n_embd = 16, .dropout = dropout)
                        ->base;
        m.x = rg_keep(rg_randint(0, 13, 3, 8));
        m.target = rg_keep(rg_randint(0, 13, 3, 8));
        m.forward = gpt_forward;
        m.optim = rg_optim_adamw(rg_parameters(m.module), .lr = 1e-2);
    } else if (strcmp(kind, "transformer") == 0) {
        m.module = &rg_nn_transformer(.d_model = 8, .nhead = 2, .num_encoder_layers = 1,
                                      .num_decoder_layers = 1, .dim_feedforward = 16)
                        ->base;
        m.x = rg_keep(rg_randn(4, 3, 8));
        m.target = rg_keep(rg_randn(5, 3, 8));
        m.forward = transformer_forward;
        m.optim = rg_optim_adam(rg_parameters(m.module), .lr = 1e-2);
    } else if (strcmp(kind, "layer") == 0) {
        m.module = &rg_nn_transformer_encoder_layer(8, 2, .dim_feedforward = 16, .dropout = 0.1,
                                                    .norm_first = true)
                        ->base;
        m.x = rg_keep(rg_randn(5, 3, 8));
        m.target = rg_keep(rg_randn(5, 3, 8));
        m.optim = rg_optim_adam(rg_parameters(m.module), .lr = 1e-2, .amsgrad = 1);
    } else {
        m.module = &rg_nn_self_attention(3, 2, 4)->base;
        m.x = rg_keep(rg_randn(6, 3));
        m.target = rg_keep(rg_randn(6, 4));
        m.accumulate = strcmp(kind, "accumulating") == 0;
        m.optim = rg_optim_sgd(rg_parameters(m.module), .lr = 1e-2, .momentum = 0.9);
    }
    return m;
}

static void drop(model *m) {
    rg_optim_free(m->optim);
    rg_module_free(m->module);
    rg_drop(m->x);
    rg_drop(m->target);
    rg_drop(m->loss);
}

/* Changes the inputs halfway through the steps. */
static void change(model *m, int i) {
    if (i != STEPS / 2)
        return;
    if (rg_is_floating_point(m->x))
        rg_mul_(m->x, 0.5);
    else
        rg_copy_(m->x, rg_flip(m->target, 1));
}

static const char *const kinds[] = { "toy",         "accumulating", "layer",
                                     "transformer", "gpt",          "gpt with dropout" };

static void same_bits(const char *kind) {
    double eager[STEPS], again[STEPS];
    model m = make(kind);
    RG_FOR (int i = 0; i < STEPS; i++) {
        change(&m, i);
        step(&m);
        eager[i] = rg_item(m.loss);
    }
    rg_tensor *weights = rg_keep(rg_clone(rg_detach(rg_parameters(m.module).v[0])));
    drop(&m);
    m = make(kind);
    rg_replay *r = rg_record(step, &m);
    ck_assert_msg(r != NULL, "%s: %s", kind, rg_error());
    again[0] = rg_item(m.loss);
    int64_t live = rg_live_tensors();
    for (int i = 1; i < STEPS; i++) {
        change(&m, i);
        ck_assert_msg(rg_replay_run(r), "%s: %s", kind, rg_error());
        again[i] = rg_item(m.loss);
    }
    ck_assert_msg(memcmp(eager, again, sizeof eager) == 0,
                  "%s: losses differ, at last %.17g and %.17g", kind, eager[STEPS - 1],
                  again[STEPS - 1]);
    ck_assert(rg_equal(weights, rg_parameters(m.module).v[0]));
    /* The runs leave no tensors. This function itself has made a few. */
    ck_assert_int_le(rg_live_tensors(), live + 64);
    rg_replay_free(r);
    rg_drop(weights);
    drop(&m);
}

START_TEST(test_same_bits) {
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        same_bits(kinds[i]);
}
END_TEST

static rg_tensor *x;
static void looks(void *unused) {
    (void)unused;
    rg_item(rg_sum(x));
}
static void finds(void *unused) {
    (void)unused;
    rg_nonzero(x);
}
static void permutes(void *unused) {
    (void)unused;
    rg_randperm(3);
}
static void overwrites(void *unused) {
    (void)unused;
    rg_add_(rg_zeros(2), 1);
}
static void overwrites_a_part(void *unused) {
    (void)unused;
    rg_add_(rg_select(rg_zeros(2), 0, 1), 1);
}
static void overwrites_what_it_read(void *unused) {
    (void)unused;
    rg_tensor *t = rg_keep(rg_zeros(2));
    rg_mul(t, 2);
    rg_add_(t, 1);
    rg_drop(t);
}
static void draws_where_it_read(void *unused) {
    (void)unused;
    rg_tensor *t = rg_zeros(2);
    rg_mul(t, 2);
    rg_uniform_(t, 0, 1);
}
static void fills_where_it_read(void *unused) {
    (void)unused;
    rg_tensor *t = rg_zeros(2);
    rg_mul(t, 2);
    rg_fill_(t, 1);
}
static void looks_at(void *unused) {
    (void)unused;
    rg_at(x, 0);
}
static void seeds(void *unused) {
    (void)unused;
    rg_manual_seed(1);
}
static rg_tensor *same_output(rg_module *m, rg_list in, rg_tensor *y, void *unused) {
    (void)m;
    (void)in;
    (void)unused;
    return y;
}
static void hooks_forward(void *unused) {
    (void)unused;
    rg_plain_module *m = rg_nn_relu();
    rg_register_forward_hook(&m->base, same_output, NULL);
    rg_call(m, x);
    rg_module_free(m);
}
static void nests(void *unused) {
    (void)unused;
    rg_record(looks, NULL);
}
static rg_replay *other_recording;
static void runs_another(void *unused) {
    (void)unused;
    rg_replay_run(other_recording);
}
static void only_reads(void *unused) {
    (void)unused;
    rg_mul(x, 2);
}
static void copies_over(void *to) { rg_copy_(to, rg_mul(x, 2)); }
static void fails(void *unused) {
    (void)unused;
    rg_matmul(x, rg_ones(5, 5));
}
static rg_tensor *same(rg_tensor *g, void *unused) {
    (void)unused;
    return g;
}
static void hooks(void *unused) {
    (void)unused;
    rg_tensor *y = rg_mul(rg_requires_grad_(rg_ones(2), true), 2);
    rg_register_hook(y, same, NULL);
    rg_backward(rg_sum(y));
}

START_TEST(test_refusals) {
    static void (*const steps[])(void *) = { looks,
                                             looks_at,
                                             finds,
                                             permutes,
                                             seeds,
                                             overwrites,
                                             overwrites_a_part,
                                             overwrites_what_it_read,
                                             draws_where_it_read,
                                             fills_where_it_read,
                                             hooks,
                                             hooks_forward,
                                             nests,
                                             fails };
    x = rg_keep(rg_ones(2));
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        ck_assert_msg(!rg_record(steps[i], NULL), "step %zu was recorded", i);
        ck_assert_int_ne(rg_error_code(), RG_OK);
        rg_error_clear();
    }
    ck_fails(rg_record(NULL, NULL), RG_RUNTIME_ERROR, "there is no step");
    ck_fails(rg_record(nests, NULL), RG_RUNTIME_ERROR, "record: a step is being recorded already");
    other_recording = rg_record(only_reads, NULL);
    ck_ok(other_recording);
    ck_fails(rg_record(runs_another, NULL), RG_NOT_IMPLEMENTED,
             "replay_run: can't be part of a recorded step");
    rg_replay_free(other_recording);
    /* A call that is refused does nothing. An error from before the recording isn't a failure of
     * the step. */
    rg_tensor *to = rg_zeros(2);
    ck_assert(!rg_matmul(x, rg_ones(5, 5)));
    other_recording = rg_record(copies_over, to);
    ck_assert(other_recording && strstr(rg_error(), "matmul: "));
    rg_error_clear();
    rg_fill_(to, 7);
    ck_assert(!rg_record(runs_another, NULL));
    rg_error_clear();
    ck_assert(rg_equal(to, rg_full_like(to, 7)));
    ck_ok(rg_replay_run(other_recording));
    ck_assert(rg_equal(to, rg_full_like(to, 2)));
    rg_replay_free(other_recording);
    rg_replay_free(NULL);
    /* Outside a recording a value may be looked at. */
    ck_assert_double_eq(rg_item(rg_sum(x)), 2);
    rg_drop(x);
}
END_TEST

/* ---- calls that can't be repeated --------------------------------------------------------- */

static rg_generator *own_generator;
static rg_tensor *generator_state, *weights;
static rg_module *plain;
static rg_optim *sgd;
static rg_schedule *rates;
static rg_data_loader *loader;
static rg_tokens *tokens;

#define ONCE(name, call)               \
    static void once_##name(void *w) { \
        (void)w;                       \
        call;                          \
    }
ONCE(item, rg_item(rg_sum(w)))
ONCE(at, rg_at(w, 0))
ONCE(data, rg_data(w))
ONCE(data_as, rg_data_as(float, w))
ONCE(copy_out, rg_copy_out(w, (float[2]){ 0 }, 8))
ONCE(str, rg_str(w))
ONCE(str_of_number, rg_str(rg_sum(w)))
ONCE(repr, rg_repr(w))
ONCE(repr_numpy, rg_repr_numpy(w))
ONCE(repr_tf, rg_repr_tf(w))
ONCE(equal, rg_equal(w, w))
ONCE(allclose, rg_allclose(w, w, 0, 0))
ONCE(manual_seed, rg_manual_seed(1))
ONCE(generator_seed, rg_generator_seed(own_generator, 1))
ONCE(generator_set_state, rg_generator_set_state(own_generator, generator_state))
ONCE(randperm, rg_randperm_with(3, own_generator))
ONCE(bernoulli, rg_bernoulli_with(weights, own_generator))
ONCE(multinomial, rg_multinomial_with(weights, 1, true, own_generator))
ONCE(set_data, rg_set_data(w, rg_zeros(2)))
ONCE(set_grad, rg_set_grad(w, weights))
ONCE(module_to, rg_module_to(plain, RG_FLOAT32))
ONCE(deepcopy, rg_deepcopy(plain))
ONCE(schedule_step, rg_schedule_step(rates))
ONCE(generator_new, rg_generator_free(rg_generator_new(1)))
ONCE(generator_state, rg_generator_state(own_generator))
ONCE(data_loader_next, rg_data_loader_next(loader))
ONCE(data_loader_state_dict, rg_data_loader_state_dict(loader))
ONCE(tokens_windows, rg_tokens_windows(tokens, generator_state, 1))
ONCE(tokens_get_batch, rg_tokens_get_batch_with(tokens, 1, 1, own_generator))
ONCE(optim_group, ck_assert_ptr_null(rg_optim_group(sgd, 0)))
ONCE(add_group, rg_optim_add_group(sgd, RG_LIST(w)))
ONCE(adam, rg_optim_free(rg_optim_adam(RG_LIST(w))))
ONCE(step_lr, rg_optim_step_lr(sgd, .step_size = 1))
ONCE(optim_state_dict, rg_optim_state_dict(sgd))
ONCE(schedule_state_dict, rg_schedule_state_dict(rates))
ONCE(cumprod, rg_backward(rg_sum(rg_cumprod(w, 0))))
ONCE(prod, rg_backward(rg_prod(w)))
ONCE(scatter_reduce,
     rg_backward(rg_sum(rg_scatter_reduce(weights, 0, rg_zeros_dims(RG_DIMS(2), RG_INT64), w,
                                          "prod")),
                 .create_graph = true))

static void prints(void *w) { rg_print(rg_mul(w, 2)); }

/* Each of these functions says that it can't be part of a step, and does nothing: no numbers are
 * drawn. A step may print, since the program doesn't get the text. */
START_TEST(test_once_alone) {
    static const struct {
        void (*step)(void *w);
        const char *name;
    } once[] = {
        { once_item, "item" },
        { once_at, "at" },
        { once_data, "data" },
        { once_data_as, "data_as" },
        { once_copy_out, "copy_out" },
        { once_str, "str" },
        { once_str_of_number, "str" },
        { once_repr, "repr" },
        { once_repr_numpy, "repr_numpy" },
        { once_repr_tf, "repr_tf" },
        { once_equal, "equal" },
        { once_allclose, "allclose" },
        { once_manual_seed, "generator_seed" },
        { once_generator_seed, "generator_seed" },
        { once_generator_set_state, "generator_set_state" },
        { once_randperm, "randperm" },
        { once_bernoulli, "bernoulli" },
        { once_multinomial, "multinomial" },
        { once_set_data, "set_data" },
        { once_set_grad, "set_grad" },
        { once_module_to, "module_to" },
        { once_deepcopy, "deepcopy" },
        { once_schedule_step, "schedule_step" },
        { once_generator_new, "generator_new" },
        { once_generator_state, "generator_state" },
        { once_data_loader_next, "data_loader_next" },
        { once_data_loader_state_dict, "data_loader_state_dict" },
        { once_tokens_windows, "tokens_windows" },
        { once_tokens_get_batch, "tokens_get_batch" },
        { once_optim_group, "group" },
        { once_add_group, "add_group" },
        { once_adam, "Adam" },
        { once_step_lr, "StepLR" },
        { once_optim_state_dict, "state_dict" },
        { once_schedule_state_dict, "schedule_state_dict" },
        { once_cumprod, "the gradient of cumprod" },
        { once_prod, "the gradient of prod" },
        { once_scatter_reduce, "the gradient of scatter_reduce" },
    };
    rg_tensor *w = rg_requires_grad_(rg_ones(2), true);
    own_generator = rg_generator_new(3);
    generator_state = rg_generator_state(own_generator);
    weights = rg_mul(rg_ones(2), 0.5);
    plain = (rg_module *)rg_nn_linear(2, 2);
    sgd = rg_optim_sgd(rg_parameters(plain));
    rates = rg_optim_step_lr(sgd, .step_size = 1);
    loader = rg_data_loader_new(RG_LIST(rg_arange(4)), .batch_size = 2);
    tokens = rg_tokens_open(scratch_write("tokens.bin", "123456", 6));
    for (int i = 0; i < RG_COUNT(once); i++) {
        char said[100];
        snprintf(said, sizeof said, "%s: can't be part of a recorded step", once[i].name);
        ck_fails(rg_record(once[i].step, w), RG_NOT_IMPLEMENTED, said);
        ck_assert(rg_equal(rg_generator_state(own_generator), generator_state));
        ck_assert(rg_grad_of(w) == RG_NONE);
    }
    ck_assert(rg_at(rg_data_loader_next(loader).v[0], 0) == 0);
    rg_replay *printed = rg_record(prints, w);
    ck_ok(printed);
    rg_replay_free(printed);
    rg_tokens_close(tokens);
    rg_data_loader_free(loader);
    rg_optim_free(sgd);
    rg_module_free(plain);
    rg_generator_free(own_generator);
}
END_TEST

static rg_tensor *drawn;
static void draws(void *unused) {
    (void)unused;
    rg_drop(drawn);
    drawn =
        rg_keep(rg_add(rg_randint(0, 100, 3), rg_mul(rg_rand(3), rg_uniform_(rg_empty(3), 1, 2))));
}

/* A replayed step draws new numbers in each run, and draws those that the step itself would. */
START_TEST(test_fresh_draws) {
    rg_tensor *want[4];
    rg_manual_seed(7);
    for (int i = 0; i < 4; i++) {
        draws(NULL);
        want[i] = rg_keep(rg_clone(drawn));
    }
    rg_manual_seed(7);
    rg_replay *r = rg_record(draws, NULL);
    ck_assert_msg(r != NULL, "%s", rg_error());
    for (int i = 0; i < 4; i++) {
        if (i)
            ck_assert(rg_replay_run(r));
        ck_assert(rg_equal(drawn, want[i]));
        rg_drop(want[i]);
    }
    rg_replay_free(r);
    rg_drop(drawn);
}
END_TEST

static void updates_a_draw(void *unused) {
    (void)unused;
    RG_FOR (int i = 0; i < 1; i++)
        rg_ones(3);
    rg_drop(drawn);
    drawn = rg_keep(rg_add_(rg_rand(3), 1));
}

/* A draw is made anew in each run. So the step may write to it, even if its memory belonged to a
 * constant before. */
START_TEST(test_updated_draws) {
    rg_manual_seed(7);
    rg_tensor *first = rg_add(rg_rand(3), 1), *second = rg_add(rg_rand(3), 1);
    drawn = NULL;
    rg_manual_seed(7);
    rg_replay *r = rg_record(updates_a_draw, NULL);
    ck_assert_msg(r != NULL, "%s", rg_error());
    ck_assert(rg_equal(drawn, first));
    ck_assert(rg_replay_run(r) && rg_equal(drawn, second));
    rg_replay_free(r);
    rg_drop(drawn);
}
END_TEST

START_TEST(test_grad_taken_away) {
    model m = make("accumulating"), other = make("accumulating");
    rg_replay *r = rg_record(step, &m);
    step(&other);
    for (int i = 0; i < 4; i++) {
        if (i % 2) {
            rg_optim_zero_grad(m.optim);
            rg_optim_zero_grad(other.optim);
        }
        RG_FOR (int once = 0; once < 1; once++)
            step(&other);
        ck_assert(r && rg_replay_run(r));
        ck_assert(rg_equal(rg_parameters(m.module).v[0], rg_parameters(other.module).v[0]));
    }
    rg_replay_free(r);
    drop(&m);
    drop(&other);
}
END_TEST

START_TEST(test_outlives_its_optimizer) {
    model m = make("toy"), other = make("toy");
    rg_replay *r = rg_record(step, &m), *second = rg_record(step, &m);
    rg_optim_free(m.optim);
    for (int i = 0; i < 3; i++)
        ck_assert(rg_replay_run(i == 2 ? second : r));
    for (int i = 0; i < 5; i++)
        RG_FOR (int once = 0; once < 1; once++)
            step(&other);
    ck_assert(rg_item(m.loss) == rg_item(other.loss));
    ck_assert(rg_equal(rg_parameters(m.module).v[0], rg_parameters(other.module).v[0]));
    m.optim = NULL;
    rg_replay_free(r);
    ck_assert(rg_replay_run(second));
    rg_replay_free(second);
    drop(&m);
    drop(&other);
}
END_TEST

START_TEST(test_without_memory) {
    bool ok = false;
    for (int64_t fail = 1; !ok && fail < 5000; fail++) {
        model m = make("toy");
        int64_t live = rg_live_tensors();
        rg_memory_fail_at(fail);
        rg_replay *r = rg_record(step, &m);
        ok = r && rg_replay_run(r) && rg_replay_run(r);
        rg_memory_fail_at(0);
        if (!ok)
            ck_assert_int_eq(rg_error_code(), RG_OUT_OF_MEMORY);
        rg_error_clear();
        rg_replay_free(r);
        rg_drop(m.loss);
        m.loss = NULL;
        RG_FOR (int i = 0; i < 1; i++)
            rg_optim_zero_grad(m.optim);
        /* At most 8 tensors are left: those of the optimizer's state, which it owns. */
        ck_assert_int_le(rg_live_tensors(), live + 8);
        drop(&m);
    }
    ck_assert(ok);
}
END_TEST

/* If a call in a step fails, the step may clear the error and go on. Then each run does what the
 * step did while it was recorded, or the recording fails. */
static bool went_without;
static void carries_on(void *context) {
    rg_tensor *w = context;
    rg_tensor *y = rg_mul(w, rg_full(RG_DIMS(4), 2)), *z = rg_cat(RG_LIST(w, w), 0);
    rg_tensor *sum = y && z ? rg_add(rg_sum(y), rg_sum(z)) : NULL;
    bool ok = sum && rg_set_grad(w, RG_NONE) && rg_backward(sum);
    went_without = !ok;
    rg_error_clear();
}

/* Each run would add 1 to the constant `two` again. So the recording must fail, unless the step was
 * denied memory for `two`. */
static void adds_to_a_constant(void *context) {
    rg_tensor *w = context, *two = rg_full(RG_DIMS(4), 2);
    if (two)
        rg_mul(w, rg_add_(two, 1));
    went_without = !two;
    rg_error_clear();
}

START_TEST(test_forgotten_errors) {
    rg_tensor *w = rg_requires_grad_(rg_ones(4), true), *four = rg_full(RG_DIMS(4), 4);
    int refused = 0, recorded = 0;
    for (int64_t fail = 1; recorded < 3 && fail < 1000; fail++) {
        RG_SCOPE();
        rg_memory_fail_at(fail);
        rg_replay *r = rg_record(carries_on, w);
        const bool denied = rgi_me->fail_at == 0;
        rg_memory_fail_at(0);
        /* If a request was denied and there is a recording, the step itself has seen the
         * failure. */
        ck_assert(!r || !denied || went_without);
        refused += !r;
        rg_error_clear();
        if (!r || went_without) {
            rg_replay_free(r);
            continue;
        }
        rg_tensor *others[60];
        for (int i = 0; i < 60; i++)
            others[i] = rg_full(RG_DIMS(4), 3);
        rg_set_grad(w, RG_NONE);
        ck_ok(rg_replay_run(r));
        ck_ok(rg_replay_run(r));
        ck_assert_msg(rg_equal(rg_grad_of(w), four), "request %d: %s", (int)fail,
                      rg_repr(rg_grad_of(w)));
        for (int i = 0; i < 60; i++)
            ck_assert(rg_equal(others[i], rg_full_like(others[i], 3)));
        rg_replay_free(r);
        recorded++;
    }
    ck_assert_int_eq(recorded, 3);
    ck_assert_int_gt(refused, 10);
    for (int64_t fail = 1; fail < 100; fail++) {
        RG_SCOPE();
        rg_memory_fail_at(fail);
        rg_replay *r = rg_record(adds_to_a_constant, w);
        rg_memory_fail_at(0);
        ck_assert(!r || went_without);
        rg_replay_free(r);
        rg_error_clear();
    }
}
END_TEST

/* The gradient of the first backward run must stay, even if the second run fails. In the second
 * run, two leaves share a gradient. */
static void goes_back_twice(void *context) {
    rg_tensor *const *w = context;
    rg_set_grad(w[0], RG_NONE);
    rg_set_grad(w[1], RG_NONE);
    rg_tensor *y = rg_sum(rg_mul(w[0], w[1]));
    if (y)
        rg_backward(y);
    rg_tensor *both = rg_add(w[0], w[1]);
    if (both)
        rg_backward(rg_sum(both));
    went_without = rg_error_code() != RG_OK;
    rg_error_clear();
}

/* A step clears an error and goes on. Each run must leave the gradients that the step left while it
 * was recorded. */
START_TEST(test_forgotten_runs_back) {
    rg_tensor *w[2] = { rg_requires_grad_(rg_full(RG_DIMS(2), 3.0), true),
                        rg_requires_grad_(rg_full(RG_DIMS(2), 5.0), true) };
    int without = 0, with = 0;
    for (int64_t fail = 1; with < 3 && fail < 1000; fail++) {
        RG_SCOPE();
        rg_memory_fail_at(fail);
        rg_replay *r = rg_record(goes_back_twice, w);
        rg_memory_fail_at(0);
        rg_error_clear();
        if (!r)
            continue;
        without += went_without;
        with += !went_without;
        rg_tensor *left[2];
        for (int i = 0; i < 2; i++) {
            left[i] = rg_grad_of(w[i]);
            left[i] = left[i] == RG_NONE ? RG_NONE : rg_clone(left[i]);
            ck_ok(rg_set_grad(w[i], rg_full(RG_DIMS(2), 100.0)));
        }
        for (int run = 0; run < 2; run++) {
            ck_ok(rg_replay_run(r));
            for (int i = 0; i < 2; i++) {
                rg_tensor *g = rg_grad_of(w[i]);
                ck_assert_msg(left[i] == RG_NONE ? g == RG_NONE : rg_equal(g, left[i]),
                              "request %d, leaf %d", (int)fail, i);
            }
        }
        rg_replay_free(r);
    }
    ck_assert_int_eq(with, 3);
    ck_assert_int_gt(without, 0);
}
END_TEST

static void plain_backward(void *w) { rg_backward(rg_sum(rg_mul(w, w))); }

/* The step doesn't clear the gradient, so its runs add to it. The memory of the sum is made while
 * the step is recorded. */
START_TEST(test_sums_without_memory) {
    rg_tensor *w = rg_requires_grad_(rg_randn(3), true), *twice = rg_mul(rg_detach(w), 2);
    rg_replay *r = NULL;
    for (int64_t fail = 1; !r; fail++) {
        rg_set_grad(w, RG_NONE);
        rg_memory_fail_at(fail);
        r = rg_record(plain_backward, w);
        rg_memory_fail_at(0);
        ck_assert_int_eq(rg_error_code(), r ? RG_OK : RG_OUT_OF_MEMORY);
        ck_assert(r || rg_grad_of(w) == RG_NONE || rg_equal(rg_grad_of(w), twice));
        rg_error_clear();
    }
    ck_ok(rg_replay_run(r));
    ck_assert(rg_equal(rg_grad_of(w), rg_mul(twice, 2)));
    rg_replay_free(r);
}
END_TEST

/* Each run adds to the gradient of the previous run. So a run mustn't write other tensors into the
 * memory of that gradient. The step makes and drops such tensors before its backward run. */
static void adds_up(void *context) {
    rg_tensor *w = context;
    RG_FOR (int i = 0; i < 1; i++)
        for (int k = 0; k < 8; k++)
            rg_exp(rg_detach(w));
    rg_backward(rg_sum(rg_mul(w, w)));
}

START_TEST(test_gradients_add_up) {
    for (int given = 0; given < 2; given++) {
        RG_SCOPE();
        rg_tensor *w = rg_requires_grad_(rg_randn(64), true);
        if (given)
            rg_set_grad(w, rg_mul(rg_detach(w), 10));
        rg_replay *r = rg_record(adds_up, w);
        ck_ok(r);
        for (int i = 2; i < 6; i++) {
            ck_ok(rg_replay_run(r));
            ck_assert(
                rg_allclose(rg_grad_of(w), rg_mul(rg_detach(w), 2 * i + 10 * given), 1e-5, 1e-6));
        }
        rg_replay_free(r);
    }
}
END_TEST

static rg_tensor *factor[2], *product_y;

static void multiplies(void *unused) {
    (void)unused;
    product_y = rg_matmul(factor[0], factor[1]);
    for (int i = 0; i < 2; i++)
        rg_set_grad(factor[i], RG_NONE);
    rg_backward(product_y, .gradient = rg_detach(product_y));
    rg_keep(product_y);
}

/* While "medium" is set, products are computed in bfloat16: forward, backward and in a replay. With
 * "highest", a replay computes them in float32. */
START_TEST(test_precision_of_products) {
    RG_SCOPE();
    factor[0] = rg_requires_grad_(rg_randn(40, 50), true);
    factor[1] = rg_requires_grad_(rg_randn(50, 60), true);
    ck_assert(rg_set_float32_matmul_precision("medium"));
    rg_replay *r = rg_record(multiplies, NULL);
    ck_assert(r && rg_replay_run(r));
    for (int medium = 1; medium >= 0; medium--) {
        ck_assert(rg_set_float32_matmul_precision(medium ? "medium" : "highest")
                  && rg_replay_run(r));
        rg_tensor *a = rg_detach(factor[0]), *b = rg_detach(factor[1]), *y = rg_matmul(a, b);
        ck_assert(rg_equal(product_y, y));
        ck_assert(rg_equal(rg_grad_of(factor[0]), rg_matmul(y, rg_T(b))));
        ck_assert(rg_equal(rg_grad_of(factor[1]), rg_matmul(rg_T(a), y)));
    }
    rg_replay_free(r);
    rg_drop(product_y);
}
END_TEST

/* ---- memory that is reused -------------------------------------------------------- */

enum { SLOTS = 5, KEPT = 3, RUNS = 5 };

/* The context of a step whose ops are chosen by random numbers. Its tensors are dropped in any
 * order, or are kept, viewed and written to. No write may change the memory of another tensor. */
typedef struct wild {
    /* `at` is the state of the random numbers that choose the ops, and `seed` is its first value.
     */
    uint64_t seed, at;
    /* p are the parameters, x is the input, `whole` has integers, `place` has the indices of two
     * rows, and `kept` has results that outlive a step. */
    rg_tensor *p[2], *x, *whole, *place, *kept[KEPT];
    rg_optim *optim;
} wild;

static int any(wild *w, int n) {
    w->at = w->at * 6364136223846793005u + 1442695040888963407u;
    return (int)((w->at >> 33) % (uint64_t)n);
}

static rg_tensor *wild_value(wild *w, rg_tensor *a, rg_tensor *b) {
    RG_SCOPE();
    rg_tensor *t;
    switch (any(w, 22)) {
    case 0: return rg_escape(rg_tanh(a));
    case 1: return rg_escape(rg_add(a, b));
    case 2: return rg_escape(rg_mul(rg_tanh(a), 0.5));
    case 3: return rg_escape(rg_tanh(rg_matmul(a, b)));
    case 4: return rg_escape(rg_T(a));
    case 5: return rg_escape(rg_softmax(a, any(w, 2)));
    case 6: return rg_escape(rg_cat(RG_LIST(rg_narrow(a, 0, 0, 2), rg_narrow(b, 0, 2, 4)), 0));
    case 7: return rg_escape(rg_mul_(rg_add(a, 1), b));
    case 8: return rg_escape(rg_add(a, rg_ones(6, 6)));
    case 9: return rg_escape(rg_mul(a, rg_rand(6, 6)));
    case 10: return rg_escape(rg_dropout(b, 0.3, true));
    case 11: return rg_escape(rg_relu(rg_sub(rg_tanh(a), rg_sigmoid(b))));
    case 12: return rg_escape(rg_detach(a));
    case 13: return rg_escape(rg_layer_norm(a, RG_DIMS(6), RG_NONE, RG_NONE, 1e-5));
    case 14: return rg_escape(rg_where(rg_gt(a, 0.1), b, rg_neg(a)));
    case 15: return rg_escape(rg_add(rg_tanh(a), w->whole));
    case 16: return rg_escape(rg_mul(rg_reshape(rg_reshape(a, 36), 6, 6), rg_T(b)));
    case 17: return rg_escape(rg_T(rg_index_fill_(rg_T(rg_neg(a)), 0, w->place, 0.5)));
    case 18: return rg_escape(rg_reshape(rg_add(rg_reshape(a, 36), rg_reshape(b, 36)), 6, 6));
    case 19:
        t = rg_T(rg_neg(a));
        rg_set_item_(t, rg_narrow(rg_tanh(b), 0, 1, 2), w->place);
        return rg_escape(t);
    case 20:
        t = rg_neg(a);
        rg_add_(t, b);
        return rg_escape(rg_mul(t, rg_reshape(rg_arange(36), 6, 6)));
    default:
        t = rg_sub(a, rg_mean_dim(a, 0, true));
        rg_copy_(t, rg_tanh(b));
        return rg_escape(rg_mul(t, t));
    }
}

static bool is_among(const rg_tensor *t, int n, rg_tensor *const v[]) {
    for (int k = 0; k < n; k++)
        if (v[k] == t)
            return true;
    return false;
}

static rg_tensor *wild_loss(wild *w) {
    rg_tensor *v[SLOTS] = { w->x, w->p[0], w->p[1], w->x, w->p[0] };
    for (int i = 0; i < 14; i++) {
        int to = any(w, SLOTS), keep = any(w, 4 * KEPT);
        rg_tensor *y = wild_value(w, v[any(w, SLOTS)], v[any(w, SLOTS)]), *old = v[to];
        v[to] = y;
        bool used = old == w->x || is_among(old, 2, w->p) || is_among(old, SLOTS, v)
                    || is_among(old, KEPT, w->kept);
        if (!used && any(w, 3))
            rg_drop(old);
        if (keep >= KEPT || y == w->kept[keep] || is_among(w->kept[keep], SLOTS, v))
            continue;
        rg_drop(w->kept[keep]);
        w->kept[keep] = rg_keep(any(w, 2) ? y : rg_detach(y));
    }
    rg_tensor *loss = rg_mean(rg_square(rg_tanh(v[0])));
    for (int k = 1; k < SLOTS; k++)
        loss = rg_add(loss, rg_mean(rg_tanh(v[k])));
    return rg_add(loss, rg_mean(rg_matmul(w->p[0], w->p[1])));
}

static void wild_step(void *context) {
    wild *w = context;
    w->at = w->seed;
    int order = any(w, 6);
    if (order == 0) {
        /* The optimizer uses the gradients of the previous step. */
        rg_optim_step(w->optim);
        rg_optim_zero_grad(w->optim);
    }
    for (int i = 0; i < 2 && order == 1; i++) {
        /* The third loss may reuse the memory of these two losses. */
        RG_SCOPE();
        wild_loss(w);
    }
    if (order == 1)
        rg_optim_step(w->optim);
    rg_tensor *loss = wild_loss(w);
    if (order < 4)
        rg_optim_zero_grad(w->optim);
    rg_backward(loss);
    if (order == 2)
        rg_backward(wild_loss(w));
    if (order > 1)
        rg_optim_step(w->optim);
    if (order == 3 || order == 5)
        rg_optim_zero_grad(w->optim);
    if (order == 3) {
        loss = rg_keep(wild_loss(w));
        rg_drop(w->kept[0]);
        w->kept[0] = loss;
    }
}

static wild wild_make(uint64_t seed) {
    wild w = { .seed = seed };
    rg_manual_seed(seed);
    for (int i = 0; i < 2; i++)
        w.p[i] = rg_requires_grad_(rg_keep(rg_randn(6, 6)), true);
    w.x = rg_keep(rg_randn(6, 6));
    w.whole = rg_keep(rg_randint(0, 3, 6, 6));
    w.place = rg_keep(rg_randint(0, 6, 2));
    rg_list p = { 2, w.p };
    w.optim = seed % 2 ? rg_optim_adamw(p, .lr = 1e-2)
                       : rg_optim_sgd(p, .lr = 1e-2, .momentum = 0.9);
    return w;
}

static void wild_drop(wild *w) {
    rg_optim_free(w->optim);
    for (int k = 0; k < KEPT; k++)
        rg_drop(w->kept[k]);
    rg_drop(w->p[0]);
    rg_drop(w->p[1]);
    rg_drop(w->x);
    rg_drop(w->whole);
    rg_drop(w->place);
}

/* Returns the parameters, the gradients and the kept results after a step, in one tensor. */
static rg_tensor *wild_seen(wild *w) {
    RG_SCOPE();
    RG_NO_GRAD();
    rg_tensor *all = rg_cat(RG_LIST(rg_reshape(w->p[0], -1), rg_reshape(w->p[1], -1)), 0);
    for (int i = 0; i < 2; i++) {
        rg_tensor *g = rg_grad_of(w->p[i]);
        if (g != RG_NONE)
            all = rg_cat(RG_LIST(all, rg_reshape(g, -1)), 0);
    }
    for (int k = 0; k < KEPT; k++)
        if (w->kept[k])
            all = rg_cat(RG_LIST(all, rg_reshape(rg_to(w->kept[k], RG_FLOAT32), -1)), 0);
    return rg_keep(rg_clone(all));
}

static void wild_change(wild *w, int run) {
    if (run == 2)
        rg_mul_(w->x, -0.5);
}

/* Calls the step RUNS times, and keeps what the program sees after each call. */
static void wild_eager(uint64_t seed, rg_tensor *seen[RUNS]) {
    wild w = wild_make(seed);
    RG_FOR (int i = 0; i < RUNS; i++) {
        RG_SCOPE();
        wild_change(&w, i);
        wild_step(&w);
        ck_assert_msg(rg_error_code() == RG_OK, "%d: %s", (int)seed, rg_error());
        seen[i] = wild_seen(&w);
    }
    wild_drop(&w);
}

/* Records the step and runs the recording. Compares what the program sees after each run with
 * seen[]. */
static void wild_replayed(uint64_t seed, rg_tensor *const seen[RUNS]) {
    wild w = wild_make(seed);
    rg_replay *r = rg_record(wild_step, &w);
    ck_assert_msg(r != NULL, "%d: %s", (int)seed, rg_error());
    const size_t planned = r->plan.block_bytes + r->plan.own_bytes, most = r->plan.most_bytes;
    ck_assert_msg(10 * planned <= 11 * most, "%d: %zu bytes for %zu", (int)seed, planned, most);
    RG_FOR (int i = 0; i < RUNS; i++) {
        RG_SCOPE();
        wild_change(&w, i);
        ck_assert_msg(i == 0 || rg_replay_run(r), "%d: %s", (int)seed, rg_error());
        rg_tensor *now = wild_seen(&w);
        ck_assert_msg(rg_ndim(now) && rg_size(now, 0) == rg_size(seen[i], 0)
                          && memcmp(rg_data(now), rg_data(seen[i]), 4 * (size_t)rg_numel(now)) == 0,
                      "seed %d, run %d", (int)seed, i);
        rg_drop(now);
    }
    rg_tensor *before = wild_seen(&w), *after;
    /* Freeing the recording doesn't change the tensors that the program keeps. */
    rg_replay_free(r);
    RG_FOR (int i = 0; i < 8; i++)
        rg_fill_(rg_empty(6, 6), NAN);
    after = wild_seen(&w);
    ck_assert(memcmp(rg_data(before), rg_data(after), 4 * (size_t)rg_numel(after)) == 0);
    rg_drop(before);
    rg_drop(after);
    wild_drop(&w);
}

START_TEST(test_wild_steps) {
    const char *seeds = getenv("SEEDS");
    uint64_t last = seeds ? strtoull(seeds, NULL, 10) : 150;
    for (uint64_t seed = 1; seed <= last; seed++) {
        RG_SCOPE();
        int64_t live = rg_live_tensors();
        rg_tensor *seen[RUNS];
        wild_eager(seed, seen);
        wild_replayed(seed, seen);
        for (int i = 0; i < RUNS; i++)
            rg_drop(seen[i]);
        ck_assert_int_eq(rg_live_tensors(), live);
    }
}
END_TEST

static void chain(void *from) {
    rg_tensor *y = from;
    for (int i = 0; i < 40; i++) {
        rg_tensor *next = rg_tanh(y);
        if (i)
            rg_drop(y);
        y = next;
    }
    rg_backward(rg_sum(rg_mul(rg_requires_grad_(rg_ones(64, 1024), true), y)));
}

static void deep(void *w) {
    rg_tensor *y = w;
    rg_set_grad(w, RG_NONE);
    for (int i = 0; i < 20; i++)
        y = rg_tanh(rg_matmul(y, w));
    rg_backward(rg_sum(y));
}

/* A recording takes about as much memory as the step itself, since the memory of a dropped result
 * is reused within the step. */
START_TEST(test_memory_goes_round) {
    RG_SCOPE();
    rg_tensor *values = rg_randn(64, 1024), *w = rg_requires_grad_(rg_randn(128, 128), true);
    int64_t before = rg_memory_stats().storages, buffer = 64 * 1024 * 4, peak;
    rg_replay *r = rg_record(chain, values);
    ck_assert(r && rg_memory_stats().storages - before <= 8 * buffer);
    ck_assert(rg_replay_run(r));
    rg_replay_free(r);
    ck_assert_int_le(rg_memory_stats().storages - before, 64);
    RG_FOR (int i = 0; i < 2; i++)
        deep(w);
    rg_memory_reset_peak();
    RG_FOR (int i = 0; i < 1; i++)
        deep(w);
    peak = rg_memory_stats().peak;
    rg_memory_reset_peak();
    r = rg_record(deep, w);
    ck_assert(r && rg_replay_run(r));
    ck_assert_int_le(rg_memory_stats().peak, peak + peak / 8);
    rg_replay_free(r);
}
END_TEST

static void second_backward(void *w) {
    rg_tensor *y = rg_sum(rg_tanh(rg_mul(w, w)));
    rg_backward(y);
    rg_backward(y);
}

static void released(void *w) {
    rg_tensor *y;
    for (int i = 0; i < 1; i++) {
        RG_SCOPE();
        y = rg_tanh(w);
    }
    rg_add(y, 1);
}

static void other_data(void *w) { rg_set_data(w, rg_zeros(3)); }

static bool after(rg_tensor *t, void *context) {
    (void)t;
    ++*(int *)context;
    return true;
}

static void recorded_sum(void *w) { rg_backward(rg_sum(rg_mul(w, w)), .create_graph = true); }

/* These steps are refused because of what the leaf has: a hook, or a gradient to which a backward
 * run with create_graph would add. */
START_TEST(test_refused_for_what_the_leaf_has) {
    RG_SCOPE();
    rg_tensor *w = rg_requires_grad_(rg_randn(3), true);
    int calls = 0;
    const int id = rg_register_post_accumulate_grad_hook(w, after, &calls);
    ck_fails(rg_record(plain_backward, w), RG_NOT_IMPLEMENTED,
             "a hook: can't be part of a recorded step");
    ck_assert(calls == 0 && rg_grad_of(w) == RG_NONE);
    ck_ok(rg_remove_hook(w, id));
    ck_ok(rg_backward(rg_sum(w)));
    ck_fails(rg_record(recorded_sum, w), RG_NOT_IMPLEMENTED,
             "backward: can't be part of a recorded step");
    ck_assert(rg_equal(rg_grad_of(w), rg_ones(3)));
}
END_TEST

static void *many_rounds(rg_tensor *w, int n) {
    RG_FOR (int i = 0; i < n; i++) {
        rg_tensor *h = rg_mul(w, w), *part = rg_narrow(h, 0, 0, 128);
        h = rg_add(rg_tanh(part), rg_reshape(rg_exp(h), 128, 128));
        rg_set_grad(w, RG_NONE);
        rg_backward(rg_sum(rg_mul(h, h)));
    }
    return w;
}
static void two_rounds(void *w) { many_rounds(w, 2); }
static void nine_rounds(void *w) { many_rounds(w, 9); }

/* A round of a step is a scope with a forward and a backward run. The next round reuses the memory
 * of a round that has ended, including that of a graph with views. */
START_TEST(test_rounds_take_turns) {
    RG_SCOPE();
    rg_tensor *w = rg_requires_grad_(rg_randn(128, 128), true);
    const int64_t before = rg_memory_stats().storages;
    rg_replay *r = rg_record(two_rounds, w);
    ck_ok(r);
    const int64_t two = rg_memory_stats().storages - before;
    rg_replay_free(r);
    rg_set_grad(w, RG_NONE);
    r = rg_record(nine_rounds, w);
    ck_ok(r);
    ck_assert_int_le(rg_memory_stats().storages - before, two + 4096);
    rg_replay_free(r);
    rg_set_grad(w, RG_NONE);
}
END_TEST

/* If a tensor doesn't retain its gradient, rg_grad_of returns RG_NONE. A recorded step may call
 * rg_grad_of for such a tensor. */
static bool was_absent;
static void asks_for_no_gradient(void *w) {
    rg_tensor *h = rg_mul(w, 2);
    rg_set_grad(w, RG_NONE);
    rg_backward(rg_sum(h));
    was_absent = rg_grad_of(h) == RG_NONE && rg_grad_of(rg_ones(2)) == RG_NONE;
}

START_TEST(test_absent_gradients) {
    RG_SCOPE();
    rg_tensor *w = rg_requires_grad_(rg_randn(3), true);
    rg_replay *r = rg_record(asks_for_no_gradient, w);
    ck_ok(r);
    ck_assert(was_absent);
    ck_ok(rg_replay_run(r));
    ck_assert(rg_equal(rg_grad_of(w), rg_full(RG_DIMS(3), 2.0)));
    rg_replay_free(r);
}
END_TEST

/* The context of a step with two leaves, w and a. The gradient g is made outside the step. */
typedef struct {
    rg_tensor *w, *g, *a;
} outside;

/* Each of these steps writes to a tensor that only the recording still holds. */
static void drops_a_gradient(void *w) {
    rg_tensor *h = rg_mul(w, 2), *part = rg_narrow(h, 0, 0, 2);
    rg_grad(rg_sum(rg_mul(part, part)), h);
}
static rg_tensor *written;
static void copies(void *w) { rg_copy_(written, rg_detach(w)); }
static void fills(void *unused) {
    (void)unused;
    rg_fill_(written, 4);
}
static void draws_again(void *unused) {
    (void)unused;
    rg_normal_(written, 0, 1);
}
static void drops_two(void *w) { rg_max_dim(rg_detach(w), 0, false); }

START_TEST(test_runs_write_to_their_own) {
    static void (*const steps[])(void *) = { drops_a_gradient, copies, fills, draws_again,
                                             drops_two };
    enum { OTHERS = 40 };
    for (int k = 0; k < RG_COUNT(steps); k++) {
        RG_SCOPE();
        rg_tensor *w = rg_requires_grad_(rg_randn(37, 11), true), *others[3 * OTHERS];
        written = rg_zeros_dims(RG_DIMS(37, 11), RG_FLOAT64);
        rg_replay *r = rg_record(steps[k], w);
        ck_ok(r);
        rg_drop(written);
        for (int i = 0; i < OTHERS; i++) {
            others[i] = rg_full(RG_DIMS(37, 11), 3);
            others[OTHERS + i] = rg_full(RG_DIMS(11), 3);
            others[2 * OTHERS + i] = rg_to(rg_full(RG_DIMS(37, 11), 3), RG_FLOAT64);
        }
        ck_ok(rg_replay_run(r));
        for (int i = 0; i < 3 * OTHERS; i++)
            ck_assert_msg(rg_equal(others[i], rg_full_like(others[i], 3)), "step %d, tensor %d", k,
                          i);
        rg_replay_free(r);
    }
}
END_TEST

/* Strides decide in which order sums add. So a run refuses a tensor whose data have other strides
 * than when the step was recorded: its results could differ from those of a call of the step in
 * their last bits. A run accepts other data with the same strides. */
static rg_tensor *summand[2], *summed;
static void sums(void *unused) {
    (void)unused;
    rg_drop(summed);
    summed = rg_keep(rg_add(summand[0], summand[1]));
}

START_TEST(test_data_that_lie_otherwise) {
    static const int64_t sizes[][2] = { { 5, 7 }, { 2, 2 }, { 2, 3 } };
    for (int t = 0; t < 3 * RG_COUNT(sizes); t++) {
        RG_SCOPE();
        const int k = t % 3;
        const int64_t *size = sizes[t / 3];
        for (int i = 0; i < 2; i++)
            summand[i] = rg_randn(size[0], size[1]);
        rg_replay *r = rg_record(sums, NULL);
        ck_ok(r);
        rg_tensor *was = rg_clone(summed), *lies = rg_randn(size[1], size[0]);
        for (int i = 0; i < 2; i++)
            if (i == k || k == 2)
                ck_ok(rg_set_data(summand[i], rg_T(lies)));
        ck_fails(rg_replay_run(r), RG_RUNTIME_ERROR, "data with other strides");
        ck_assert(rg_equal(summed, was));
        for (int i = 0; i < 2; i++)
            ck_ok(rg_set_data(summand[i], rg_contiguous(rg_T(lies))));
        ck_ok(rg_replay_run(r));
        ck_assert_msg(rg_equal(summed, rg_mul(rg_T(lies), 2)), "input %d", k);
        rg_replay_free(r);
        rg_drop(summed);
        summed = NULL;
    }
}
END_TEST

/* A run also fails if the program has given a result data with other strides than when the step was
 * recorded. */
static rg_tensor *picked;
static void picks(void *from) { picked = rg_keep(rg_index_select(from, 0, rg_arange(4))); }

START_TEST(test_outputs_stay_as_they_lie) {
    RG_SCOPE();
    rg_tensor *from = rg_randn(4, 3), *lies = rg_zeros(3, 4), *other = rg_zeros(4, 3);
    rg_replay *r = rg_record(picks, from);
    ck_ok(r);
    ck_ok(rg_set_data(picked, rg_T(lies)));
    ck_fails(rg_replay_run(r), RG_RUNTIME_ERROR, "data with other strides");
    ck_assert(rg_equal(lies, rg_zeros(3, 4)));
    ck_ok(rg_set_data(picked, other) && rg_replay_run(r));
    ck_assert(rg_equal(picked, from) && rg_equal(other, from));
    rg_replay_free(r);
    rg_drop(picked);
}
END_TEST

/* A run fails if a recorded tensor was given data of another dtype. It also fails if the tensor was
 * given other data while a saved value or a view in the step has the old data. */
static rg_tensor *parameter;
static rg_optim *descent;
static void learns(void *view) {
    rg_optim_zero_grad(descent);
    rg_tensor *p = view ? rg_T(parameter) : parameter;
    rg_backward(rg_sum(view ? rg_exp(p) : rg_mul(p, p)));
    rg_optim_step(descent);
}

START_TEST(test_other_data) {
    for (int view = 0; view < 2; view++) {
        RG_SCOPE();
        parameter = rg_requires_grad_(rg_randn(2, 3), true);
        descent = rg_optim_sgd(RG_LIST(parameter), .lr = 0.1);
        rg_replay *r = rg_record(learns, view ? &view : NULL);
        rg_tensor *old = rg_detach(parameter);
        ck_ok(r && rg_replay_run(r));
        ck_ok(rg_set_data(parameter, rg_zeros(2, 3)));
        ck_fails(rg_replay_run(r), RG_RUNTIME_ERROR,
                 "other data since the step was recorded");
        ck_ok(rg_set_data(parameter, rg_to(old, RG_FLOAT64)));
        ck_fails(rg_replay_run(r), RG_RUNTIME_ERROR,
                 "dtype torch.float32 has been given data of dtype torch.float64");
        ck_ok(rg_set_data(parameter, old) && rg_replay_run(r));
        rg_replay_free(r);
        rg_optim_free(descent);
    }
}
END_TEST

/* The program may also give other data to a result that it keeps. Runs then write to these data. */
static rg_tensor *made;
static void makes(void *from) { made = rg_keep(rg_add(from, from)); }

START_TEST(test_results_with_other_data) {
    RG_SCOPE();
    rg_tensor *from = rg_randn(4, 3), *other = rg_zeros(4, 3);
    rg_replay *r = rg_record(makes, from);
    ck_ok(r);
    ck_ok(rg_set_data(made, other) && rg_replay_run(r));
    ck_assert(rg_equal(made, rg_mul(from, 2)) && rg_equal(other, made));
    rg_replay_free(r);
    rg_drop(made);
}
END_TEST

/* A run fails if an op is denied memory for its work. The next run succeeds if it gets the memory.
 */
static rg_tensor *filled;
static void fills_from_the_end(void *at) {
    rg_drop(filled);
    filled = rg_keep(rg_index_fill(rg_zeros(4), 0, at, rg_scalar(2)));
}

START_TEST(test_runs_without_memory) {
    RG_SCOPE();
    rg_tensor *at = rg_literal([ -1, 1 ]);
    rg_replay *r = rg_record(fills_from_the_end, at);
    ck_ok(r);
    int failed = 0;
    for (int64_t fail = 1; fail - failed < 3; fail++) {
        rg_fill_(filled, 9);
        rg_memory_fail_at(fail);
        bool ok = rg_replay_run(r);
        rg_memory_fail_at(0);
        failed += !ok;
        ck_assert_int_eq(rg_error_code(), ok ? RG_OK : RG_OUT_OF_MEMORY);
        ck_assert(!ok || rg_equal(filled, rg_literal([ 0., 2., 0., 2. ])));
        rg_error_clear();
    }
    ck_assert_int_gt(failed, 0);
    rg_replay_free(r);
    rg_drop(filled);
}
END_TEST

/* A backward function of the program returns two gradients that share memory. The step then adds to
 * one of the two. */
static bool shares_forward(rg_function_context *ctx, rg_tensor *const in[], rg_tensor *out[]) {
    (void)ctx;
    out[0] = rg_add(in[0], in[1]);
    return out[0];
}
static bool shares_backward(rg_function_context *ctx, rg_tensor *const g[], rg_tensor *gin[]) {
    (void)ctx;
    rg_tensor *both = rg_mul(g[0], 5);
    gin[0] = both;
    gin[1] = rg_detach(both);
    return both;
}
static rg_function_class shares = { .name = "Shares",
                                    .forward = shares_forward,
                                    .backward = shares_backward };
static rg_tensor *sharing[2];
static void adds_to_one(void *adds) {
    rg_tensor *one = sharing[*(int *)adds];
    for (int i = 0; i < 2; i++)
        rg_set_grad(sharing[i], RG_NONE);
    rg_tensor *twice = rg_mul(one, 2);
    rg_tensor *y = rg_function_apply(&shares, NULL, sharing[0], sharing[1]);
    rg_backward(rg_add(rg_sum(twice), rg_add(rg_sum(y), rg_sum(rg_mul(one, 7)))));
}

START_TEST(test_gradients_that_share_memory) {
    RG_SCOPE();
    rg_memory_may_stay = 1;
    for (int i = 0; i < 2; i++)
        sharing[i] = rg_requires_grad_(rg_randn(6), true);
    for (int adds = 0; adds < 2; adds++) {
        adds_to_one(&adds);
        for (int run = 0; run < 3; run++) {
            rg_replay *r = run ? rg_record(adds_to_one, &adds) : NULL;
            ck_assert(run == 0 || (r && (run == 1 || rg_replay_run(r))));
            for (int i = 0; i < 2; i++)
                ck_assert(
                    rg_equal(rg_grad_of(sharing[i]), rg_full(RG_DIMS(6), i == adds ? 14 : 5)));
            rg_replay_free(r);
        }
    }
}
END_TEST

/* The recording keeps alive a gradient that is passed to rg_backward. If the step itself has made
 * that gradient, it can't write to it afterwards. */
static void from_outside(void *context) {
    outside *o = context;
    rg_set_grad(o->w, RG_NONE);
    rg_backward(o->w, .gradient = o->g);
}
static void from_a_leaf(void *w) {
    rg_set_grad(w, RG_NONE);
    rg_backward(w);
}
static void gives_what_it_fills(void *w) {
    rg_tensor *g = rg_ones(6);
    rg_backward(w, .gradient = g);
    rg_fill_(g, 3);
}

START_TEST(test_given_gradients_are_held) {
    RG_SCOPE();
    outside o = { .w = rg_requires_grad_(rg_randn(6), true), .g = rg_full(RG_DIMS(6), 5.0) };
    rg_replay *r = rg_record(from_outside, &o);
    ck_ok(r);
    rg_drop(o.g);
    rg_set_grad(o.w, RG_NONE);
    for (int i = 0; i < 40; i++)
        rg_full(RG_DIMS(6), 7.0);
    ck_ok(rg_replay_run(r));
    ck_assert(rg_equal(rg_grad_of(o.w), rg_full(RG_DIMS(6), 5.0)));
    rg_replay_free(r);
    rg_tensor *one = rg_requires_grad_(rg_scalar(2.0), true);
    r = rg_record(from_a_leaf, one);
    ck_ok(r);
    rg_set_grad(one, RG_NONE);
    for (int i = 0; i < 40; i++)
        rg_scalar(7.0);
    ck_ok(rg_replay_run(r));
    ck_assert_double_eq(rg_item(rg_grad_of(one)), 1);
    rg_replay_free(r);
    rg_set_grad(o.w, RG_NONE);
    ck_fails(rg_record(gives_what_it_fills, o.w), RG_NOT_IMPLEMENTED,
             "fill_: can't be part of a recorded step");
}
END_TEST

static void adds_and_reads(void *w) {
    rg_backward(rg_sum(rg_mul(w, 2)));
    rg_mul_(rg_grad_of(w), 3);
}

/* The program sets a leaf's gradient and also holds the gradient itself. A repetition that reads
 * this gradient fails if the leaf has another gradient by then. That holds even if the gradient was
 * set before the tensor required grad. */
START_TEST(test_given_before_grad_is_required) {
    RG_SCOPE();
    for (int before = 0; before < 2; before++) {
        rg_tensor *w = rg_ones(2), *g = rg_ones(2);
        if (before)
            rg_set_grad(w, g);
        rg_requires_grad_(w, true);
        if (!before)
            rg_set_grad(w, g);
        rg_replay *r = rg_record(adds_and_reads, w);
        ck_ok(r);
        ck_assert(rg_equal(g, rg_full(RG_DIMS(2), 9.0)));
        ck_ok(rg_replay_run(r));
        ck_assert(rg_equal(g, rg_full(RG_DIMS(2), 33.0)));
        {
            RG_SCOPE();
            rg_set_grad(w, rg_ones(2));
        }
        ck_fails(rg_replay_run(r), RG_RUNTIME_ERROR,
                 "a gradient that was there when the step was recorded is another now");
        ck_assert(rg_equal(g, rg_full(RG_DIMS(2), 33.0)));
        rg_replay_free(r);
    }
}
END_TEST

/* A tensor in reused memory is an inference tensor only if it is made in inference mode. */
static bool were_inference[2];
static void changes_mode(void *w) {
    rg_drop(rg_exp(w));
    {
        RG_INFERENCE_MODE();
        rg_tensor *y = rg_exp(w);
        were_inference[0] = rg_is_inference(y);
        rg_drop(y);
    }
    were_inference[1] = rg_is_inference(rg_exp(w));
}

START_TEST(test_lent_memory_has_its_mode) {
    RG_SCOPE();
    rg_replay *r = rg_record(changes_mode, rg_ones(3));
    ck_ok(r);
    ck_assert(were_inference[0] && !were_inference[1]);
    rg_replay_free(r);
}
END_TEST

/* Returns the bytes of storages that a recording takes or, if `of_nodes`, the bytes of its
 * nodes. */
static int64_t bytes_of_step(void (*f)(void *), void *context, bool of_nodes) {
    rg_memory before = rg_memory_stats();
    rg_replay *r = rg_record(f, context);
    rg_memory after = rg_memory_stats();
    ck_ok(r);
    rg_replay_free(r);
    return of_nodes ? after.nodes - before.nodes : after.storages - before.storages;
}

/* Makes n results with `numbers` elements. Results whose letters in `together` are equal are in use
 * at the same time. */
typedef struct {
    rg_tensor *from;
    int n, numbers[4];
    const char *together;
} sizes;
static void makes_sizes(void *context) {
    const sizes *s = context;
    rg_tensor *y[4];
    for (int i = 0, first = 0; i < s->n; i++) {
        y[i] = rg_exp(rg_narrow(s->from, 0, 0, s->numbers[i]));
        for (; s->together[i + 1] != s->together[i] && first <= i; first++)
            rg_drop(rg_neg_(y[first]));
    }
}

static void chain_that_dies(void *w) {
    rg_tensor *y = rg_tanh(w);
    for (int i = 0; i < 5; i++) {
        rg_tensor *next = rg_tanh(y);
        rg_drop(y);
        y = next;
    }
    rg_drop(y);
    RG_NO_GRAD();
    rg_tensor *v[6];
    for (int i = 0; i < 6; i++)
        v[i] = rg_exp(w);
    for (int i = 0; i < 6; i++)
        rg_drop(v[i]);
}

/* Adds up four gradients of w. If `views`, each reaches w as a view. The graph holds all other
 * tensors. */
static void adds_up_four(void *w, bool views) {
    rg_tensor *sum = NULL;
    rg_set_grad(w, RG_NONE);
    for (int i = 0; i < 4; i++) {
        rg_tensor *y = rg_sum(rg_tanh(views ? rg_reshape(w, 64, 64) : w));
        sum = sum ? rg_add(sum, y) : y;
    }
    rg_backward(sum, .retain_graph = true);
}
static void adds_up_views(void *w) { adds_up_four(w, true); }
static void adds_up_plain(void *w) { adds_up_four(w, false); }

/* Results share memory unless they are in use at the same time. */
START_TEST(test_results_share_memory) {
    RG_SCOPE();
    rg_tensor *from = rg_randn(16384), *w = rg_requires_grad_(rg_randn(4096), true);
    static const struct {
        const char *together;
        int numbers[4], takes;
    } steps[] = {
        { "ab", { 4064, 4064 }, 4064 },
        { "ab", { 4064, 2032 }, 4064 },
        { "ab", { 4064, 16 }, 4064 },
        { "ab", { 2032, 4064 }, 4064 },
        { "aabb", { 6000, 4064, 4000, 5000 }, 6000 + 4064 },
        { "aabb", { 2032, 2032, 4064, 4064 }, 4064 + 4064 },
        { "abbb", { 6000, 2000, 2000, 2000 }, 6000 },
    };
    for (int i = 0; i < RG_COUNT(steps); i++) {
        sizes s = { .from = from, .together = steps[i].together };
        s.n = (int)strlen(s.together);
        memcpy(s.numbers, steps[i].numbers, sizeof s.numbers);
        int64_t bytes = bytes_of_step(makes_sizes, &s, false), takes = 4 * steps[i].takes;
        ck_assert_msg(bytes >= takes && bytes < takes + 2500, "step %d: %lld bytes", i,
                      (long long)bytes);
    }
    ck_assert_int_le(bytes_of_step(chain_that_dies, w, false), 6 * 20480);
    ck_assert_int_le(bytes_of_step(chain_that_dies, w, true), 0);
    rg_set_grad(w, RG_NONE);
    ck_assert_int_le(bytes_of_step(adds_up_views, w, false), 7 * 20480 + 2048);
    rg_set_grad(w, RG_NONE);
    ck_assert_int_le(bytes_of_step(adds_up_plain, w, false), 7 * 20480 + 2048);
}
END_TEST

/* Half of the constants are written to before they are read: the first ones, or every other one.
 * After that, one more constant is written to. */
enum { CONSTANTS = 12 };
static int written_constant;
static bool every_other;
static bool is_anew(int i) { return every_other ? i % 2 == 0 : i < CONSTANTS / 2; }
static void writes_constants(void *w) {
    rg_tensor *c[CONSTANTS];
    for (int i = 0; i < CONSTANTS; i++)
        c[i] = rg_zeros(3);
    for (int i = 0; i < CONSTANTS; i++)
        if (is_anew(i))
            rg_fill_(c[i], 2);
    for (int i = 0; i < CONSTANTS; i++)
        rg_mul(w, c[i]);
    rg_fill_(c[written_constant], 3);
}

/* A constant that is written to before it is read no longer counts as a constant. Writing to any
 * other one is refused. */
START_TEST(test_constants_are_told_apart) {
    RG_SCOPE();
    for (int k = 0; k < 2 * CONSTANTS; k++) {
        every_other = k % 2;
        written_constant = k / 2;
        rg_replay *r = rg_record(writes_constants, rg_ones(3));
        ck_assert_msg(!r == !is_anew(written_constant), "constant %d: %s", written_constant,
                      rg_error());
        ck_assert_msg(r || strstr(rg_error(), "can't be part of a recorded step"), "%s",
                      rg_error());
        rg_error_clear();
        rg_replay_free(r);
    }
}
END_TEST

/* A user's op that reads two tensors which aren't its inputs, one in each of its functions, and
 * writes to its last input. */
static rg_tensor *beside[2];
static bool beside_forward(rg_function_context *ctx, rg_tensor *const in[], rg_tensor *out[]) {
    (void)ctx;
    rg_add_(in[2], 1);
    out[0] = rg_mul(rg_add(rg_add(in[0], in[1]), in[2]), beside[0]);
    return out[0];
}
static bool beside_backward(rg_function_context *ctx, rg_tensor *const g[], rg_tensor *gin[]) {
    (void)ctx;
    gin[0] = gin[1] = rg_mul(g[0], beside[1]);
    return gin[0];
}
static rg_function_class reads_beside = { .name = "ReadsBeside",
                                          .forward = beside_forward,
                                          .backward = beside_backward };

typedef struct {
    rg_tensor *w, *x, *loss;
} user_step;
static void steps_with_user_op(void *context) {
    user_step *s = context;
    beside[0] = rg_keep(rg_exp(s->x));
    beside[1] = rg_keep(rg_sin(s->x));
    rg_drop(rg_tanh(s->x));
    rg_tensor *in[] = { rg_mul(s->w, s->x), rg_mul(s->w, 2), rg_tanh(s->x) };
    rg_tensor *y = rg_function_apply_list(&reads_beside, NULL, (rg_list){ 3, in });
    for (int i = 0; i < 3; i++)
        rg_drop(in[i]);
    rg_drop(beside[0]);
    y = rg_mul(rg_tanh(rg_square(y)), 3);
    rg_set_grad(s->w, RG_NONE);
    rg_tensor *loss = rg_sum(y);
    rg_backward(loss);
    rg_drop(beside[1]);
    rg_drop(s->loss);
    s->loss = rg_keep(loss);
}

/* What a user's op reads beside its inputs keeps its values until the op has run. The op's own
 * writes aren't taken for writes to another input. */
START_TEST(test_user_ops_read_beside) {
    enum { USER_RUNS = 4 };
    RG_SCOPE();
    rg_memory_may_stay = 1;
    user_step s = { .w = rg_requires_grad_(rg_randn(16), true), .x = rg_randn(16) };
    rg_tensor *first_x = rg_clone(s.x), *losses[USER_RUNS], *grads[USER_RUNS];
    for (int i = 0; i < USER_RUNS; i++) {
        steps_with_user_op(&s);
        losses[i] = rg_clone(rg_detach(s.loss));
        grads[i] = rg_clone(rg_grad_of(s.w));
        rg_mul_(s.x, 0.7);
    }
    rg_copy_(s.x, first_x);
    rg_replay *r = rg_record(steps_with_user_op, &s);
    for (int i = 0; i < USER_RUNS; i++) {
        ck_ok(i == 0 ? r != NULL : rg_replay_run(r));
        ck_assert(rg_equal(losses[i], s.loss) && rg_equal(grads[i], rg_grad_of(s.w)));
        rg_mul_(s.x, 0.7);
    }
    rg_replay_free(r);
    rg_drop(s.loss);
}
END_TEST

static bool went_on;
static void forgets_a_refusal(void *w) {
    rg_tensor *half = rg_full(RG_DIMS(3), 0.5);
    rg_mul(w, half);
    went_on = rg_fill_(half, 2) || rg_add_(half, 1) || rg_item(half) == rg_item(half);
    rg_error_clear();
}

/* A refused call fails, and the step may clear its error. The recording fails nevertheless. */
START_TEST(test_refused_deeds_fail) {
    RG_SCOPE();
    went_on = true;
    ck_assert_ptr_null(rg_record(forgets_a_refusal, rg_ones(3)));
    ck_assert(!went_on);
}
END_TEST

/* A recording refuses what the step itself would refuse, in the same words. */
START_TEST(test_refused_as_by_the_step) {
    RG_SCOPE();
    rg_tensor *w = rg_requires_grad_(rg_randn(3), true);
    ck_fails(rg_record(second_backward, w), RG_RUNTIME_ERROR,
             "Trying to backward through the graph a second time");
    ck_fails(rg_record(released, w), RG_RELEASED, "released with its scope");
    ck_fails(rg_record(other_data, w), RG_NOT_IMPLEMENTED,
             "set_data: can't be part of a recorded step");
}
END_TEST

static void three_roots(void *w) {
    rg_set_grad(w, RG_NONE);
    rg_tensor *y = rg_sum_dim(rg_mul(w, w), 0, true),
              *v[] = { y, rg_select(y, 0, 0), rg_mul(y, 3) };
    rg_backward_many(3, v, NULL, (rg_backward_options){ .gradient = RG_NONE });
}

static void given_a_gradient(void *context) {
    outside *o = context;
    rg_set_grad(o->w, RG_NONE);
    rg_tensor *roots[] = { rg_reshape(o->w, 6), rg_mul(rg_reshape(o->w, 6), 2) };
    rg_tensor *given[] = { o->g, o->g };
    rg_backward_many(2, roots, given, (rg_backward_options){ .gradient = RG_NONE });
}

/* One gradient becomes the gradient of the leaf a, and reaches w as a view of the same memory. Then
 * another gradient is added to w's. */
static void two_have_it(void *context) {
    outside *o = context;
    rg_set_grad(o->w, RG_NONE);
    rg_set_grad(o->a, RG_NONE);
    rg_tensor *before = rg_mul(o->w, 3), *both = rg_add(o->a, rg_reshape(o->w, 6));
    rg_tensor *first = rg_add(rg_sum(rg_mul(both, 5)), rg_sum(before));
    rg_backward(rg_add(first, rg_sum(rg_mul(o->w, 7))));
}

START_TEST(test_a_gradient_from_outside_stays) {
    RG_SCOPE();
    outside o = { .w = rg_requires_grad_(rg_randn(2, 3), true), .g = rg_full(RG_DIMS(6), 5.0) };
    rg_replay *r = rg_record(given_a_gradient, &o);
    for (int i = 0; i < 3; i++) {
        ck_assert_msg(r && (i == 0 || rg_replay_run(r)), "%s", rg_error());
        ck_assert(rg_equal(o.g, rg_full_like(o.g, 5)));
        ck_assert(rg_equal(rg_grad_of(o.w), rg_full(RG_DIMS(2, 3), 15.0)));
    }
    rg_replay_free(r);
    o.a = rg_requires_grad_(rg_randn(6), true);
    r = rg_record(two_have_it, &o);
    for (int i = 0; i < 3; i++) {
        ck_assert_msg(r && (i == 0 || rg_replay_run(r)), "%s", rg_error());
        ck_assert(rg_equal(rg_grad_of(o.a), rg_full(RG_DIMS(6), 5.0)));
        ck_assert(rg_equal(rg_grad_of(o.w), rg_full(RG_DIMS(2, 3), 15.0)));
    }
    rg_replay_free(r);
}
END_TEST

/* The gradient of a root is made only once, while the step is recorded. So runs mustn't add to
 * it. */
START_TEST(test_three_roots) {
    RG_SCOPE();
    rg_tensor *w = rg_requires_grad_(rg_randn(3), true);
    rg_replay *r = rg_record(three_roots, w);
    for (int i = 0; i < 3; i++) {
        ck_assert_msg(r && (i == 0 || rg_replay_run(r)), "%s", rg_error());
        ck_assert(rg_allclose(rg_grad_of(w), rg_mul(rg_detach(w), 10), 1e-5, 1e-6));
    }
    rg_replay_free(r);
}
END_TEST

static rg_tensor *root;
static void backs(void *unused) {
    (void)unused;
    rg_backward(root, .retain_graph = true);
}

/* A recording keeps alive a graph that was made before it, even after the program has dropped the
 * graph. */
START_TEST(test_graph_from_outside) {
    RG_SCOPE();
    rg_tensor *w = rg_requires_grad_(rg_randn(4, 4), true), *want[3];
    RG_FOR (int i = 0; i < 1; i++)
        root = rg_keep(rg_sum(rg_tanh(rg_matmul(rg_tanh(w), rg_mul(w, w)))));
    for (int i = 0; i < 3; i++) {
        backs(NULL);
        want[i] = rg_clone(rg_grad_of(w));
    }
    rg_set_grad(w, RG_NONE);
    rg_replay *r = rg_record(backs, NULL);
    rg_drop(root);
    RG_FOR (int i = 0; i < 9; i++)
        rg_full_like(w, NAN);
    for (int i = 0; i < 3; i++) {
        ck_assert(r && (i == 0 || rg_replay_run(r)));
        ck_assert(rg_equal(rg_grad_of(w), want[i]));
    }
    rg_replay_free(r);
}
END_TEST

/* ---- indices that differ between runs --------------------------------------------------- */

static rg_tensor *at; /* A vector of two indices. */
#define AT(name, call)               \
    static void at_##name(void *w) { \
        (void)w;                     \
        call;                        \
    }
AT(embedding, rg_embedding(at, w))
AT(embedding_back, rg_backward(rg_sum(rg_embedding(at, w))))
AT(gather, rg_gather(w, 0, rg_reshape(at, 1, 2)))
AT(scatter, rg_scatter(w, 0, rg_reshape(at, 1, 2), rg_ones(1, 2)))
AT(scatter_add, rg_scatter_add(w, 0, rg_reshape(at, 1, 2), rg_ones(1, 2)))
AT(index_select, rg_index_select(w, 0, at))
AT(index_add, rg_index_add(w, 0, at, rg_ones(2, 2), 1))
AT(index_fill, rg_index_fill(w, 0, at, rg_scalar(1.0)))
AT(index_copy, rg_index_copy(w, 0, at, rg_ones(2, 2)))
AT(index, rg_index(w, at))
AT(take, rg_take(w, at))
AT(nll_loss, rg_cross_entropy(rg_narrow(w, 0, 0, 2), at))

/* A run checks indices as the step itself does. If one of them is out of range, the run reads or
 * writes nothing. */
START_TEST(test_indices) {
    static const struct {
        const char *name;
        void (*step)(void *w);
    } steps[] = {
        { "embedding", at_embedding },
        { "embedding", at_embedding_back },
        { "gather", at_gather },
        { "scatter", at_scatter },
        { "scatter_add", at_scatter_add },
        { "index_select", at_index_select },
        { "index_add", at_index_add },
        { "index_fill", at_index_fill },
        { "index_copy", at_index_copy },
        { "index", at_index },
        { "take", at_take },
        { "cross_entropy", at_nll_loss },
    };
    rg_tensor *w = rg_requires_grad_(rg_randn(4, 2), true);
    at = rg_zeros_dims(RG_DIMS(2), RG_INT64);
    for (int i = 0; i < RG_COUNT(steps); i++) {
        rg_fill_(at, 0);
        rg_replay *r = rg_record(steps[i].step, w);
        ck_assert_msg(r != NULL, "%s: %s", steps[i].name, rg_error());
        for (int64_t bad = 1000000; bad > -2000001; bad -= 2000000) {
            RG_SCOPE();
            rg_fill_(at, bad);
            ck_assert_msg(!rg_replay_run(r), "%s runs", steps[i].name);
            const char *said = rg_error();
            ck_assert_msg(strncmp(said, steps[i].name, strlen(steps[i].name)) == 0
                              && (strstr(said, "out of range") || strstr(said, "out of bounds")),
                          "%s: %s", steps[i].name, said);
            rg_error_clear();
            rg_fill_(at, 1);
            ck_ok(rg_replay_run(r));
        }
        rg_replay_free(r);
    }
}
END_TEST

static rg_tensor *checked[2];
static void by_binary_cross_entropy(void *w) {
    rg_backward(rg_binary_cross_entropy(rg_mul(w, checked[0]), checked[1]));
}
static void by_gaussian_nll(void *w) {
    rg_backward(rg_gaussian_nll_loss(w, checked[0], rg_mul(checked[1], 1)));
}

static void by_quantile(void *w) {
    rg_backward(rg_sum(rg_quantile(rg_mul(w, checked[0]), checked[1])));
}

/* Some functions refuse certain values. A run checks these values as the step itself does, and
 * fails before gradients change. */
START_TEST(test_refused_values) {
    static const struct {
        void (*step)(void *w);
        int which;
        double bad;
        const char *said;
    } steps[] = {
        { by_binary_cross_entropy, 0, 3,
          "binary_cross_entropy: all elements of input should be between 0 and 1" },
        { by_binary_cross_entropy, 1, 1.5,
          "binary_cross_entropy: all elements of target should be between 0 and 1" },
        { by_binary_cross_entropy, 1, NAN,
          "binary_cross_entropy: all elements of target should be between 0 and 1" },
        { by_gaussian_nll, 1, -0.5, "gaussian_nll_loss: var has negative entry/entries" },
        { by_quantile, 1, 1.25, "quantile: quantile() q values must be in the range [0, 1]" },
        { by_quantile, 1, NAN, "quantile: quantile() q values must be in the range [0, 1]" },
    };
    rg_tensor *w = rg_requires_grad_(rg_full(RG_DIMS(2), 0.5), true);
    for (int i = 0; i < 2; i++)
        checked[i] = rg_full(RG_DIMS(2), 0.5);
    for (int i = 0; i < RG_COUNT(steps); i++) {
        rg_set_grad(w, RG_NONE);
        rg_replay *r = rg_record(steps[i].step, w);
        ck_ok(r);
        for (int again = 0; again < 2; again++) {
            ck_ok(rg_replay_run(r));
            rg_tensor *before = rg_clone(rg_grad_of(w));
            rg_fill_(checked[steps[i].which], steps[i].bad);
            ck_assert(!rg_replay_run(r));
            ck_assert_str_eq(rg_error(), steps[i].said);
            rg_error_clear();
            ck_assert(rg_equal(rg_grad_of(w), before));
            rg_fill_(checked[steps[i].which], 0.5);
        }
        rg_replay_free(r);
    }
}
END_TEST

/* Tensors of the program to which a recorded step writes: by copying, in place, and with zeros. */
typedef struct {
    rg_tensor *x, *copied, *scaled, *zeroed;
} tensors_written;

static void write_to(void *context) {
    const tensors_written *w = context;
    rg_copy_(w->copied, rg_mul(w->x, 2));
    rg_mul_(w->scaled, 3);
    rg_zero_(w->zeroed);
}

/* A graph that has saved a tensor notices that a replay has written to it. */
START_TEST(test_replays_count_writes) {
    tensors_written w = { rg_ones(2), rg_ones(2), rg_ones(2), rg_ones(2) };
    rg_tensor *weight = rg_requires_grad_(rg_ones(2), true);
    rg_tensor *all[] = { w.copied, w.scaled, w.zeroed };
    rg_replay *r = rg_record(write_to, &w);
    ck_ok(r);
    for (int i = 0; i < 3; i++) {
        rg_tensor *loss = rg_sum(rg_mul(weight, all[i]));
        ck_ok(rg_replay_run(r));
        ck_assert_msg(!rg_backward(loss), "%d", i);
        ck_assert_msg(strstr(rg_error(), "modified by an inplace operation"), "%s", rg_error());
        rg_error_clear();
    }
    rg_replay_free(r);
}
END_TEST

/* ---- outputs that a run writes over -------------------------------------------------------- */

/* The tensors that a recorded step leaves to the program. The last one is the gradient of w. */
enum { LEFT = 8, RANDOM = 6 };
typedef struct {
    rg_tensor *x, *w, *left[LEFT];
} outputs_left;

static void leaves_outputs(void *context) {
    outputs_left *s = context;
    rg_tensor *y = rg_mul(s->x, s->w);
    rg_tensor *rows = rg_reshape(y, 2, 2), *added = rg_add(y, 1);
    rg_list parts = rg_split(rg_mul(s->x, 3), 2, 0);
    rg_mul_(added, 2);
    rg_set_grad(s->w, RG_NONE);
    rg_backward(rg_sum(rg_mul(y, y)));
    rg_tensor *const left[] = { y,          rows,       added,     rg_select(added, 0, 1),
                                parts.v[0], parts.v[1], rg_rand(4) };
    for (int i = 0; i < RG_COUNT(left); i++)
        s->left[i] = rg_keep(left[i]);
    s->left[LEFT - 1] = rg_keep(rg_grad_of(s->w));
}

/* A graph that has saved an output of a recorded step notices that a run has written over it. Views
 * among the outputs keep their histories. */
START_TEST(test_runs_count_writes_to_outputs) {
    outputs_left s = { .x = rg_literal([ 1., 2., 3., 4. ]),
                       .w = rg_requires_grad_(rg_ones(4), true) };
    rg_replay *r = rg_record(leaves_outputs, &s);
    ck_ok(r);
    for (int i = 0; i < LEFT; i++) {
        rg_tensor *t = s.left[i];
        const char *name = rg_grad_fn(t);
        rg_tensor *weight = rg_requires_grad_(rg_ones_like(rg_detach(t)), true);
        rg_tensor *loss = rg_sum(rg_mul(weight, rg_detach(t)));
        ck_ok(rg_replay_run(r));
        ck_assert_msg(!rg_backward(loss), "%d", i);
        const char *by = i == RANDOM ? "last write was by rand" : "last write was by replay_run";
        ck_assert_msg(strstr(rg_error(), by), "%d: %s", i, rg_error());
        rg_error_clear();
        ck_assert_str_eq(rg_grad_fn(t), name);
        ck_ok(rg_backward(rg_sum(rg_mul(weight, rg_detach(t)))));
    }
    for (int i = 0; i < LEFT; i++)
        rg_drop(s.left[i]);
    rg_replay_free(r);
}
END_TEST

/* The step keeps its input, and the next call of rg_replays_run writes over that input. */
static rg_tensor *kept_input;
static rg_tensor *keeps_its_input(rg_tensor *const inputs[], void *unused) {
    (void)unused;
    kept_input = rg_keep(inputs[0]);
    return rg_mul(inputs[0], 2);
}

START_TEST(test_runs_count_writes_to_inputs) {
    rg_replays *replays = rg_replays_new(keeps_its_input, NULL);
    rg_tensor *ones = rg_ones(2), *weight = rg_requires_grad_(rg_ones(2), true);
    ck_ok(rg_replays_run(replays, 1, &ones));
    rg_tensor *loss = rg_sum(rg_mul(weight, kept_input));
    ck_ok(rg_replays_run(replays, 1, &ones));
    ck_fails(rg_backward(loss), RG_RUNTIME_ERROR, "last write was by replays_run");
    rg_drop(kept_input);
    rg_replays_free(replays);
}
END_TEST

/* A replayed step without rg_optim_zero_grad gives the warning that a call of the step gives. */
static int warnings_of_gradients;
static void counts_warnings(const char *line) {
    warnings_of_gradients += strstr(line, "zero_grad") != NULL;
}
static void steps_without_clearing(void *w) {
    rg_backward(rg_sum(rg_mul(w, w)));
    rg_optim_step(descent);
}
static void clears_and_steps(void *w) {
    rg_optim_zero_grad(descent);
    steps_without_clearing(w);
}

static void clears_and_adds(void *w) {
    rg_optim_zero_grad(descent);
    rg_backward(rg_sum(rg_mul(w, w)));
    steps_without_clearing(w);
}
static void adds_and_clears(void *w) {
    clears_and_adds(w);
    rg_optim_zero_grad(descent);
}
/* Adds to one gradient after a step that has used another one. */
static rg_optim *other_descent;
static rg_tensor *other_weight;
static void steps_in_turn(void *w) {
    rg_optim_zero_grad(descent);
    rg_optim_zero_grad(other_descent);
    rg_backward(rg_sum(rg_mul(w, other_weight)));
    rg_optim_step(descent);
    rg_backward(rg_sum(rg_mul(other_weight, other_weight)));
    rg_optim_step(other_descent);
    rg_optim_zero_grad(descent);
    rg_optim_zero_grad(other_descent);
}

START_TEST(test_runs_warn_of_gradients) {
    rg_tensor *w = rg_requires_grad_(rg_ones(2), true);
    other_weight = rg_requires_grad_(rg_ones(2), true);
    descent = rg_optim_sgd(RG_LIST(w));
    other_descent = rg_optim_sgd(RG_LIST(other_weight));
    rg_on_warning(counts_warnings);
    void (*const steps[])(void *) = { clears_and_steps, clears_and_adds, adds_and_clears,
                                      steps_in_turn, steps_without_clearing };
    for (int i = 0; i < RG_COUNT(steps); i++) {
        rg_optim_zero_grad(descent);
        rg_replay *r = rg_record(steps[i], w);
        ck_ok(rg_replay_run(r));
        ck_ok(rg_replay_run(r));
        ck_assert_int_eq(warnings_of_gradients, steps[i] == steps_without_clearing);
        rg_replay_free(r);
    }
    rg_on_warning(NULL);
    rg_optim_free(descent);
    rg_optim_free(other_descent);
}
END_TEST

RG_TESTS(replay, test_runs_count_writes_to_outputs, test_runs_count_writes_to_inputs,
         test_runs_warn_of_gradients, test_replays_count_writes, test_same_bits,
         test_precision_of_products, test_refusals, test_once_alone, test_fresh_draws,
         test_updated_draws, test_grad_taken_away, test_outlives_its_optimizer, test_without_memory,
         test_forgotten_errors, test_forgotten_runs_back, test_sums_without_memory,
         test_results_with_other_data, test_other_data, test_runs_without_memory,
         test_gradients_add_up, test_wild_steps, test_memory_goes_round, test_rounds_take_turns,
         test_refused_as_by_the_step, test_refused_for_what_the_leaf_has, test_refused_deeds_fail,
         test_constants_are_told_apart, test_runs_write_to_their_own, test_data_that_lie_otherwise,
         test_outputs_stay_as_they_lie, test_gradients_that_share_memory,
         test_given_gradients_are_held, test_given_before_grad_is_required,
         test_lent_memory_has_its_mode, test_results_share_memory, test_user_ops_read_beside,
         test_absent_gradients, test_three_roots, test_a_gradient_from_outside_stays,
         test_graph_from_outside, test_indices, test_refused_values)
