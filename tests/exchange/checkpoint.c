/*
 * checkpoint.c: regard's half of tests/exchange/checkpoint.py.
 *
 *     checkpoint OPTIMIZER SCHEDULE FROM TO STEPS
 *
 * A small network loads the checkpoint FROM, which a PyTorch program saved. It makes STEPS steps,
 * and saves the checkpoint TO for PyTorch. The optimizer and the schedule begin with other options
 * than PyTorch's, which they must take from the checkpoint.
 */
#include "regard.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static rg_optim *optimizer(const char *name, rg_list all) {
    static const char *const names[] = {
        [RG_SGD] = "SGD",         [RG_ADAM] = "Adam",       [RG_ADAMW] = "AdamW",
        [RG_RMSPROP] = "RMSprop", [RG_ADAGRAD] = "Adagrad", [RG_LION] = "Lion",
        [RG_NADAM] = "NAdam",     [RG_RADAM] = "RAdam",     [RG_MUON] = "Muon",
        [RG_LBFGS] = "LBFGS"
    };
    int kind = RG_SGD;
    while (kind < RG_LBFGS && strcmp(names[kind], name) != 0)
        kind++;
    rg_tensor *weights[] = { all.v[0], all.v[2] }, *biases[] = { all.v[1], all.v[3] };
    if (kind == RG_LBFGS)
        return rg_optim_lbfgs(all, .lr = 0.5);
    if (kind == RG_MUON) {
        rg_optim *o = rg_optim_muon(rg_list_of(1, weights));
        return rg_optim_add_group(o, rg_list_of(1, weights + 1), .lr = 0.7) ? o : NULL;
    }
    rg_optim *o = rg_optim_with((rg_optim_kind)kind, rg_list_of(2, weights),
                                RG_PARAM_GROUP_(.lr = 0.5));
    return rg_optim_add_group(o, rg_list_of(2, biases), .lr = 0.7) ? o : NULL;
}

static double factor_at(int64_t epoch, void *context) {
    (void)context;
    return (double)(1 + epoch) / (double)(2 + epoch);
}

static double rate_at(int64_t epoch, void *context) {
    (void)context;
    return 1.0 / (double)(1 + epoch);
}

/* Returns false if there is no schedule of this name. */
static bool schedule(const char *name, rg_optim *o, rg_schedule **s) {
    *s = NULL;
    if (!strcmp(name, "none"))
        return true;
    if (!strcmp(name, "StepLR"))
        *s = rg_optim_step_lr(o, .step_size = 7, .gamma = 0.9);
    if (!strcmp(name, "MultiStepLR"))
        *s = rg_optim_multi_step_lr(o, .milestones = RG_DIMS(1), .gamma = 0.9);
    if (!strcmp(name, "ExponentialLR"))
        *s = rg_optim_exponential_lr(o, .gamma = 0.5);
    if (!strcmp(name, "LinearLR"))
        *s = rg_optim_linear_lr(o, .start_factor = 0.5, .total_iters = 2);
    if (!strcmp(name, "CosineAnnealingLR"))
        *s = rg_optim_cosine_annealing_lr(o, .T_max = 3);
    if (!strcmp(name, "LambdaLR"))
        *s = rg_optim_lambda_lr(o, .lr_lambda = rate_at);
    if (!strcmp(name, "OneCycleLR"))
        *s = rg_optim_one_cycle_lr(o, .max_lr = 0.5, .total_steps = 30);
    if (!strcmp(name, "OneCycleLR3"))
        *s = rg_optim_one_cycle_lr(o, .max_lr = 0.5, .total_steps = 30, .cycle_momentum = false);
    if (!strcmp(name, "ReduceLROnPlateau"))
        *s = rg_optim_reduce_lr_on_plateau(o, .patience = 5, .factor = 0.9);
    if (!strcmp(name, "ConstantLR"))
        *s = rg_optim_constant_lr(o);
    if (!strcmp(name, "PolynomialLR"))
        *s = rg_optim_polynomial_lr(o);
    if (!strcmp(name, "MultiplicativeLR"))
        *s = rg_optim_multiplicative_lr(o, .lr_lambda = factor_at);
    if (!strcmp(name, "WarmRestarts"))
        *s = rg_optim_cosine_annealing_warm_restarts(o, .T_0 = 9);
    if (!strcmp(name, "CyclicLR"))
        *s = rg_optim_cyclic_lr(o, .base_lr = 1, .max_lr = 2, .exp_range = true,
                                .cycle_momentum = false);
    if (!strcmp(name, "ChainedScheduler"))
        *s = rg_optim_chained_scheduler(
            o, .schedules = { rg_optim_constant_lr(o), rg_optim_exponential_lr(o) });
    if (!strcmp(name, "SequentialLR"))
        *s = rg_optim_sequential_lr(
            o, .schedules = { rg_optim_linear_lr(o), rg_optim_exponential_lr(o, .gamma = 0.4) },
            .milestones = RG_DIMS(9));
    return *s;
}

static rg_tensor *tensor_of(rg_named_list file, const char *name) {
    for (int i = 0; i < file.n; i++)
        if (!strcmp(file.v[i].name, name))
            return file.v[i].tensor;
    return NULL;
}

typedef struct {
    void *model;
    rg_optim *o;
    rg_named_list file;
} training;

static rg_tensor *loss_of(void *context) {
    training *t = context;
    if (!rg_optim_zero_grad(t->o))
        return NULL;
    rg_tensor *y = rg_call(t->model, tensor_of(t->file, "x"));
    rg_tensor *loss = rg_mse_loss(y, tensor_of(t->file, "y"));
    return rg_backward(loss) ? loss : NULL;
}

static bool train(void *model, rg_optim *o, rg_schedule *s, bool plateau, rg_named_list file) {
    RG_SCOPE();
    training t = { model, o, file };
    if (!rg_optim_step_closure(o, loss_of, &t))
        return false;
    return !s || (plateau ? rg_schedule_step_metric(s, 1) : rg_schedule_step(s));
}

int main(int argc, char **argv) {
    RG_SCOPE();
    if (argc != 6)
        return 2;
    rg_module *first = (rg_module *)rg_nn_linear(3, 4), *second = (rg_module *)rg_nn_linear(4, 2);
    void *model = rg_nn_sequential(first, rg_nn_tanh(), second);
    rg_list all = rg_parameters(model);
    rg_optim *o = optimizer(argv[1], all);
    rg_schedule *s;
    rg_named_list file = rg_torch_load(argv[3]);
    bool ok = schedule(argv[2], o, &s) && file.n > 0
              && rg_load_state_dict(model, rg_named_below(file, "model"), true)
              && (!s || rg_schedule_load_state_dict(s, rg_named_below(file, "scheduler")))
              && rg_optim_load_state_dict(o, rg_named_below(file, "optimizer"));
    double epoch = 3;
    const bool plateau = !strcmp(argv[2], "ReduceLROnPlateau");
    for (int i = 0; ok && i < atoi(argv[5]); i++, epoch++)
        ok = train(model, o, s, plateau, file);
    rg_training run = { .model = model, .optim = o, .numbers = RG_NUMBERS({ "epoch", &epoch }) };
    ok = ok && rg_torch_save_checkpoint(argv[4], run);
    if (!ok)
        fprintf(stderr, "%s\n", *rg_error() ? rg_error() : "no such schedule");
    rg_optim_free(o);
    rg_module_free(model);
    return !ok;
}
