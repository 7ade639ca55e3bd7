/*
 * test_halted.c: after a failure that nobody has looked at, training is halted. A call that would
 * change weights or write a file then fails with the message of that failure, and changes nothing.
 */
#include "nn/save/checkpoint.h"
#include "nn/layers/layers.h"
#include "nn/optim/optim.h"
#include "nn/save/save.h"
#include "tensor/error.h"
#include "tensor/files/files.h"
#include "tests/scratch.h"
#include "tests/test.h"

#include <stdio.h>
#include <string.h>

/* The objects of the functions does_..() below. Each of these functions changes weights, gradients
 * or a schedule, or writes them to a file. */
typedef struct {
    rg_linear_module *layer;
    rg_optim *sgd, *lbfgs;
    rg_schedule *steps, *plateau;
    rg_averaged_model *average;
    rg_list parameters;
} training;
static training it;

static rg_tensor *loss_of(void *context) {
    (void)context;
    rg_tensor *loss = rg_sum(rg_call(it.layer, rg_ones(2, 3)));
    return rg_backward(loss) ? loss : NULL;
}

/* A loss function that ignores the failure of its backward run. */
static rg_tensor *careless_loss(void *context) {
    (void)context;
    rg_tensor *y = rg_call(it.layer, rg_ones(2, 3));
    rg_backward(y);
    return rg_sum(y);
}

static bool does_step(void) { return rg_optim_step(it.sgd); }
static bool does_closure(void) { return rg_optim_step_closure(it.sgd, loss_of, NULL); }
static bool does_lbfgs(void) { return rg_optim_step_closure(it.lbfgs, loss_of, NULL); }
static bool does_schedule(void) { return rg_schedule_step(it.steps); }
static bool does_schedule_to(void) { return rg_schedule_step_to(it.steps, 1); }
static bool does_metric(void) { return rg_schedule_step_metric(it.plateau, 1); }
static bool does_clip(void) { return rg_clip_grad_norm_(it.parameters, 1e-3); }
static bool does_clip_value(void) { return rg_clip_grad_value_(it.parameters, 1e-3); }
static bool does_average(void) {
    return rg_averaged_model_update_parameters(it.average, it.layer);
}
static bool does_save_module(void) { return rg_module_save(it.layer, scratch("a.safetensors")); }
static bool does_save_file(void) {
    return rg_save_file(rg_state_dict(it.layer), scratch("b.safetensors"));
}
static bool does_npy(void) { return rg_save_npy(it.layer->weight, scratch("c.npy")); }
static bool does_npz(void) { return rg_save_npz(rg_state_dict(it.layer), scratch("d.npz")); }
static bool does_torch(void) { return rg_torch_save(rg_state_dict(it.layer), scratch("e.pt")); }
static bool does_checkpoint(void) {
    const rg_training run = { .model = it.layer, .optim = it.sgd };
    return rg_save_checkpoint(scratch("f.safetensors"), run)
           && rg_torch_save_checkpoint(scratch("g.pt"), run);
}

static void recorded_step(void *context) {
    (void)context;
    rg_optim_step(it.sgd);
}
static bool does_record(void) {
    rg_replay *r = rg_record(recorded_step, NULL);
    const bool recorded_it = r;
    rg_replay_free(r);
    return recorded_it;
}

static bool (*const doings[])(void) = {
    does_step,       does_closure,     does_lbfgs,   does_schedule,    does_schedule_to,
    does_metric,     does_clip,        does_clip_value, does_average,  does_save_module,
    does_save_file,  does_npy,         does_npz,     does_torch,       does_checkpoint,
    does_record,
};

static void begin(void) {
    scratch_begin();
    rg_manual_seed(1);
    it.layer = rg_nn_linear(3, 2);
    it.parameters = rg_parameters(it.layer);
    it.sgd = rg_optim_sgd(it.parameters, .lr = 0.1);
    it.lbfgs = rg_optim_lbfgs(it.parameters, .lr = 0.1);
    it.steps = rg_optim_step_lr(it.sgd, .step_size = 1);
    it.plateau = rg_optim_reduce_lr_on_plateau(it.lbfgs);
    it.average = rg_optim_averaged_model(it.layer);
    ck_ok(it.steps && it.plateau && it.average && loss_of(NULL));
}

static void end(void) {
    rg_module_free(it.average);
    rg_optim_free(it.sgd);
    rg_optim_free(it.lbfgs);
    rg_module_free(it.layer);
    scratch_end();
}

static void check_halted(rg_tensor *weight, rg_tensor *grad, const char *sentence) {
    const double lr = rg_optim_group(it.sgd, 0)->lr;
    for (size_t i = 0; i < sizeof doings / sizeof *doings; i++) {
        ck_assert_msg(!doings[i](), "number %d went on", (int)i);
        ck_assert_str_eq(rg_error_peek(), sentence);
        ck_assert(rg_equal(it.layer->weight, weight));
        ck_assert(rg_equal(rg_grad_of(it.layer->weight), grad));
        ck_assert(rg_optim_group(it.sgd, 0)->lr == lr);
        ck_assert_int_eq(scratch_files(), 0);
    }
}

START_TEST(test_nothing_goes_on) {
    static const char sentence[] =
        "backward: grad can be implicitly created only for scalar outputs";
    begin();
    rg_tensor *weight = rg_clone(rg_detach(it.layer->weight));
    rg_tensor *grad = rg_clone(rg_grad_of(it.layer->weight));
    ck_assert(!rg_backward(rg_call(it.layer, rg_ones(2, 3))));
    check_halted(weight, grad, sentence);
    /* A later backward run that succeeds doesn't undo the failure. */
    ck_assert(rg_backward(rg_sum(rg_mul(it.layer->weight, 0))));
    check_halted(weight, grad, sentence);
    ck_assert_str_eq(rg_error(), sentence);
    for (size_t i = 0; i < sizeof doings / sizeof *doings; i++) {
        rg_error_clear();
        ck_assert_msg(doings[i](), "number %d: %s", (int)i, rg_error());
    }
    ck_assert(!rg_equal(it.layer->weight, weight));
    ck_assert_int_eq(scratch_files(), 7);
    end();
}
END_TEST

/* backward gets NULL, since an earlier call has failed. The error stays that of the earlier call.
 */
START_TEST(test_the_first_failure_is_told) {
    begin();
    rg_tensor *weight = rg_clone(rg_detach(it.layer->weight));
    rg_tensor *grad = rg_clone(rg_grad_of(it.layer->weight));
    rg_tensor *y = rg_call(it.layer, rg_ones(2, 4));
    ck_assert(!rg_backward(rg_sum(y)));
    check_halted(weight, grad,
                 "linear: mat1 and mat2 shapes cannot be multiplied (2x4 and 3x2)");
    rg_error_clear();
    end();
}
END_TEST

static bool fails_grad(void) { return rg_grad(rg_ones(1), it.layer->weight); }
static bool fails_set_grad(void) { return rg_set_grad(it.layer->weight, rg_ones(7)); }
static bool fails_set_data(void) { return rg_set_data(it.layer->weight, rg_ones(7)); }
static bool fails_step(void) { return rg_optim_step(it.lbfgs); }
static bool fails_closure(void) { return rg_optim_step_closure(it.sgd, careless_loss, NULL); }
static bool fails_lbfgs(void) { return rg_optim_step_closure(it.lbfgs, careless_loss, NULL); }
static bool fails_schedule(void) { return rg_schedule_step(it.plateau); }
static bool fails_clip(void) {
    return rg_clip_grad_norm_(RG_LIST(it.layer->weight, RG_NONE), 1);
}
static bool fails_replay(void) { return rg_replay_run(NULL); }

START_TEST(test_what_halts) {
    static bool (*const failing[])(void) = { fails_grad,     fails_set_grad, fails_set_data,
                                             fails_step,     fails_closure,  fails_lbfgs,
                                             fails_schedule, fails_clip,     fails_replay };
    begin();
    rg_tensor *weight = rg_clone(rg_detach(it.layer->weight));
    rg_tensor *grad = rg_clone(rg_grad_of(it.layer->weight));
    for (size_t i = 0; i < sizeof failing / sizeof *failing; i++) {
        ck_assert_msg(!failing[i](), "number %d didn't fail", (int)i);
        char sentence[1024];
        snprintf(sentence, sizeof sentence, "%s", rg_error_peek());
        check_halted(weight, grad, sentence);
        rg_error_clear();
    }
    end();
}
END_TEST

/* A program reads a failure, but neither clears nor handles it. If it goes on with the NULL of the
 * failed call, that is a new failure, and training halts. */
START_TEST(test_a_loop_that_only_reads) {
    begin();
    rg_tensor *weight = rg_clone(rg_detach(it.layer->weight));
    rg_tensor *grad = rg_clone(rg_grad_of(it.layer->weight));
    rg_tensor *y = rg_call(it.layer, rg_ones(2, 4));
    ck_assert(*rg_error() && !rg_backward(y));
    check_halted(weight, grad, "backward: expected a tensor but got NULL");
    rg_error_clear();
    end();
}
END_TEST

/* A failed rg_size, or a failed load of a file, doesn't halt training. The program may go on
 * without the file. */
START_TEST(test_what_does_not_halt) {
    begin();
    ck_assert(rg_load_file(scratch("absent")).n < 0);
    ck_assert(rg_size(it.layer->weight, 7) == -1);
    for (size_t i = 0; i < sizeof doings / sizeof *doings; i++)
        ck_assert_msg(doings[i](), "number %d: %s", (int)i, rg_error());
    ck_assert(strstr(rg_error(), "No such file"));
    rg_error_clear();
    end();
}
END_TEST

static int told;
static void tell(rg_code code, const char *message) {
    (void)code;
    (void)message;
    told++;
}

/* A failure that an error handler has seen doesn't halt training. */
START_TEST(test_a_handler_lets_it_go_on) {
    begin();
    rg_on_error(tell);
    ck_assert(!rg_backward(rg_call(it.layer, rg_ones(2, 3))));
    ck_assert_int_eq(told, 1);
    for (size_t i = 0; i < sizeof doings / sizeof *doings; i++)
        ck_assert_msg(doings[i](), "number %d: %s", (int)i, rg_error());
    rg_on_error(NULL);
    rg_error_clear();
    end();
}
END_TEST

/* If a tensor was released together with its module, optimizer or recording, the error says so. A
 * tensor that was released by rg_drop has another error. */
static rg_tensor *recorded;
static void step_to_record(void *x) { recorded = rg_mul(x, 2); }

START_TEST(test_what_released_it) {
    rg_linear_module *m = rg_nn_linear(3, 2);
    rg_tensor *w = m->weight, *bias = m->bias;
    rg_optim *o = rg_optim_sgd(RG_LIST(bias), .lr = 1);
    rg_module_free(m);
    ck_fails(rg_neg(w), RG_RELEASED,
             "neg: tensor released with its module, by rg_module_free or rg_tie");
    ck_ok(rg_neg(bias));
    rg_optim_free(o);
    ck_fails(rg_neg(bias), RG_RELEASED,
             "neg: tensor released with its optimizer, by rg_optim_free");
    rg_tensor *x = rg_ones(2);
    rg_replay *r = rg_record(step_to_record, x);
    ck_ok(rg_replay_run(r) && rg_neg(recorded));
    rg_replay_free(r);
    ck_fails(rg_neg(recorded), RG_RELEASED, "neg: tensor released with its recording");
    /* The base x is held only by its last view. */
    rg_tensor *view = rg_keep(rg_view(rg_keep(x), 2, 1));
    rg_drop(x);
    rg_drop(view);
    ck_fails(rg_neg(view), RG_RELEASED, "neg: tensor released by rg_drop");
    ck_fails(rg_neg(x), RG_RELEASED, "neg: tensor released by rg_drop");
}
END_TEST

RG_TESTS(halted, test_what_released_it,
         test_nothing_goes_on, test_the_first_failure_is_told, test_what_halts,
         test_a_loop_that_only_reads, test_what_does_not_halt, test_a_handler_lets_it_go_on)
