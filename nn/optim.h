/*
 * optim.h: optimizers, gradient clipping, and schedules of the learning rate.
 *
 *     rg_optim *o = rg_optim_adamw(rg_parameters(model), .lr = 3e-4, .betas = { 0.9, 0.95 });
 *     rg_schedule *s = rg_optim_warmup_cosine_lr(o, 100, 2000, 0.01, 3e-5);
 *     RG_FOR (int i = 0; i < 2000; i++) {
 *         rg_optim_zero_grad(o);
 *         rg_backward(loss(model));
 *         rg_clip_grad_norm_(rg_parameters(model), 1.0);
 *         rg_optim_step(o);
 *         rg_schedule_step(s);
 *     }
 *     rg_optim_free(o);
 *
 * The optimizer holds a reference of its own to each parameter, and owns its schedules.
 */
#pragma once

#include "nn.h"

RG_PUBLIC_BEGIN

typedef struct rg_optim rg_optim;
typedef struct rg_schedule rg_schedule;

/* ---- optimizers ---------------------------------------------------------------------
 * What stands in torch's param_groups. An option that isn't given is the optimizer's
 * default; one that it doesn't have is an error. Flags are 0 or 1. The last five are
 * for schedules. */
#define RG_OPTIONS_(X)                                                                          \
    X(lr_decay)                                                                                 \
    X(alpha)                                                                                    \
    X(momentum)                                                                                 \
    X(dampening)                                                                                \
    X(eps)                                                                                      \
    X(weight_decay) X(initial_accumulator_value) X(nesterov) X(amsgrad) X(centered) X(maximize) \
        X(initial_lr) X(max_lr) X(min_lr) X(max_momentum) X(base_momentum)
#define RG_UNSET               __builtin_nan("0x7267")
#define RG_OPTION_(name)       double name RG_DEFAULT(RG_UNSET);
#define RG_OPTION_UNSET_(name) .name = RG_UNSET,
typedef struct rg_param_group {
    double lr RG_DEFAULT(RG_UNSET), betas[2] RG_DEFAULT({ RG_UNSET, RG_UNSET });
    RG_OPTIONS_(RG_OPTION_)
} rg_param_group;
#define RG_NO_OPTIONS_       RG_OPTIONS_(RG_OPTION_UNSET_).lr = RG_UNSET, .betas = { RG_UNSET, RG_UNSET }
#define RG_PARAM_GROUP_(...) RG_KEYWORDS(rg_param_group, (RG_NO_OPTIONS_), __VA_ARGS__)

typedef enum rg_optim_kind {
    RG_SGD,
    RG_ADAM,
    RG_ADAMW,
    RG_RMSPROP,
    RG_ADAGRAD,
    RG_LION
} rg_optim_kind;
rg_optim *rg_optim_with(rg_optim_kind kind, rg_list params, rg_param_group options);
#define RG_OPTIM_(kind, params, ...) rg_optim_with(kind, params, RG_PARAM_GROUP_(__VA_ARGS__))
/* lr 1e-3, momentum, dampening, weight_decay 0, nesterov, maximize false */
#define rg_optim_sgd(params, ...) RG_OPTIM_(RG_SGD, params, __VA_ARGS__)
/* lr 1e-3, betas { 0.9, 0.999 }, eps 1e-8, weight_decay 0 (AdamW: 0.01), amsgrad, maximize false */
#define rg_optim_adam(params, ...)  RG_OPTIM_(RG_ADAM, params, __VA_ARGS__)
#define rg_optim_adamw(params, ...) RG_OPTIM_(RG_ADAMW, params, __VA_ARGS__)
/* lr 0.01, alpha 0.99, eps 1e-8, weight_decay, momentum 0, centered, maximize false */
#define rg_optim_rmsprop(params, ...) RG_OPTIM_(RG_RMSPROP, params, __VA_ARGS__)
/* lr 0.01, lr_decay, weight_decay, initial_accumulator_value 0, eps 1e-10, maximize false */
#define rg_optim_adagrad(params, ...) RG_OPTIM_(RG_ADAGRAD, params, __VA_ARGS__)
/* lr 1e-4, betas { 0.9, 0.99 }, weight_decay 0, maximize false */
#define rg_optim_lion(params, ...) RG_OPTIM_(RG_LION, params, __VA_ARGS__)

bool rg_optim_add_group_with(rg_optim *o, rg_list params, rg_param_group options);
#define rg_optim_add_group(o, params, ...) \
    rg_optim_add_group_with(o, params, RG_PARAM_GROUP_(__VA_ARGS__))
rg_param_group *rg_optim_group(rg_optim *o, int i); /* to read and change; NULL: no such group */
int rg_optim_n_groups(rg_optim *o);                 /* -1 */
/* where there is a gradient; a failed one changes nothing */
bool rg_optim_step(rg_optim *o);
bool rg_optim_zero_grad(rg_optim *o); /* takes the gradients away */
/* NULL: nothing; its replays stay valid */
void rg_optim_free(rg_optim *o);

/* "state.0.exp_avg" (the optimizer's own tensors), "param_groups.0.lr" and "schedules.0.last_epoch"
 * (numbers as 0-d tensors). Loading copies; keys that are missing or not known are an error. */
rg_named_list rg_optim_state_dict(rg_optim *o); /* .n == -1 */
bool rg_optim_load_state_dict(rg_optim *o, rg_named_list dict);

/* ---- gradients: torch.nn.utils --------------------------------------------------- */
typedef struct rg_clip_options {
    double norm_type RG_DEFAULT(2);
    bool error_if_nonfinite RG_DEFAULT(false);
} rg_clip_options;
/* the norm before */
rg_tensor *rg_clip_grad_norm_with_(rg_list params, double max_norm, rg_clip_options o);
bool rg_clip_grad_value_(rg_list params, double clip_value);
#define rg_clip_grad_norm_(params, max_norm, ...) \
    rg_clip_grad_norm_with_(params, max_norm,     \
                            RG_KEYWORDS(rg_clip_options, (.norm_type = 2), __VA_ARGS__))

/* ---- schedules: torch.optim.lr_scheduler --------------------------------------------
 * Made with the learning rates that the groups have; step one after each epoch (or batch). */
typedef double rg_lr_lambda(int64_t epoch, void *context);
typedef struct rg_schedule_options {
    /* StepLR; LinearLR; CosineAnnealingLR */
    int64_t step_size, total_iters RG_DEFAULT(5), T_max;
    /* StepLR, MultiStepLR, ExponentialLR */
    double gamma RG_DEFAULT(0.1);
    /* MultiStepLR, SequentialLR: up to 8 */
    rg_dims milestones;
    /* LinearLR; CosineAnnealingLR */
    double start_factor RG_DEFAULT(1.0 / 3), end_factor RG_DEFAULT(1), eta_min;
    rg_lr_lambda *lr_lambda; /* LambdaLR */
    void *context;
    /* OneCycleLR */
    double max_lr;
    int64_t total_steps;
    double pct_start RG_DEFAULT(0.3);
    /* not anneal_strategy="cos" */
    bool anneal_linear, cycle_momentum RG_DEFAULT(true), three_phase;
    double base_momentum RG_DEFAULT(0.85), max_momentum RG_DEFAULT(0.95);
    double div_factor RG_DEFAULT(25), final_div_factor RG_DEFAULT(1e4);
    /* ReduceLROnPlateau; not mode="min" */
    bool mode_max, threshold_abs;
    double factor RG_DEFAULT(0.1), threshold RG_DEFAULT(1e-4), min_lr, eps RG_DEFAULT(1e-8);
    int64_t patience RG_DEFAULT(10), cooldown;
    /* SequentialLR: one more than milestones */
    rg_schedule *schedules[RG_MAX_DIMS + 1];
} rg_schedule_options;
typedef enum rg_schedule_kind {
    RG_STEP_LR,
    RG_MULTI_STEP_LR,
    RG_EXPONENTIAL_LR,
    RG_LINEAR_LR,
    RG_COSINE_ANNEALING_LR,
    RG_LAMBDA_LR,
    RG_ONE_CYCLE_LR,
    RG_REDUCE_LR_ON_PLATEAU,
    RG_SEQUENTIAL_LR
} rg_schedule_kind;
rg_schedule *rg_optim_schedule(rg_optim *o, rg_schedule_kind kind, rg_schedule_options options);
#define RG_SCHEDULE_(...)                                                                        \
    RG_KEYWORDS(rg_schedule_options,                                                             \
                (.gamma = 0.1, .start_factor = 1.0 / 3, .end_factor = 1, .total_iters = 5,       \
                 .pct_start = 0.3, .cycle_momentum = true, .base_momentum = 0.85,                \
                 .max_momentum = 0.95, .div_factor = 25, .final_div_factor = 1e4, .factor = 0.1, \
                 .threshold = 1e-4, .eps = 1e-8, .patience = 10),                                \
                __VA_ARGS__)
#define rg_optim_step_lr(o, ...) rg_optim_schedule(o, RG_STEP_LR, RG_SCHEDULE_(__VA_ARGS__))
#define rg_optim_multi_step_lr(o, ...) \
    rg_optim_schedule(o, RG_MULTI_STEP_LR, RG_SCHEDULE_(__VA_ARGS__))
#define rg_optim_exponential_lr(o, ...) \
    rg_optim_schedule(o, RG_EXPONENTIAL_LR, RG_SCHEDULE_(__VA_ARGS__))
#define rg_optim_linear_lr(o, ...) rg_optim_schedule(o, RG_LINEAR_LR, RG_SCHEDULE_(__VA_ARGS__))
#define rg_optim_cosine_annealing_lr(o, ...) \
    rg_optim_schedule(o, RG_COSINE_ANNEALING_LR, RG_SCHEDULE_(__VA_ARGS__))
#define rg_optim_lambda_lr(o, ...) rg_optim_schedule(o, RG_LAMBDA_LR, RG_SCHEDULE_(__VA_ARGS__))
#define rg_optim_one_cycle_lr(o, ...) \
    rg_optim_schedule(o, RG_ONE_CYCLE_LR, RG_SCHEDULE_(__VA_ARGS__))
#define rg_optim_reduce_lr_on_plateau(o, ...) \
    rg_optim_schedule(o, RG_REDUCE_LR_ON_PLATEAU, RG_SCHEDULE_(__VA_ARGS__))
#define rg_optim_sequential_lr(o, ...) \
    rg_optim_schedule(o, RG_SEQUENTIAL_LR, RG_SCHEDULE_(__VA_ARGS__))
/* LinearLR over the first warmup steps, then CosineAnnealingLR over the rest. */
rg_schedule *rg_optim_warmup_cosine_lr(rg_optim *o, int64_t warmup, int64_t total,
                                       double start_factor, double eta_min);
bool rg_schedule_step(rg_schedule *s);
bool rg_schedule_step_metric(rg_schedule *s, double metric); /* ReduceLROnPlateau's */
/* in closed form, where there is one */
bool rg_schedule_step_to(rg_schedule *s, int64_t epoch);

RG_PUBLIC_END
