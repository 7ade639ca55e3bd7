/*
 * schedule.h: schedules of the learning rate: torch.optim.lr_scheduler.
 *
 * A schedule starts from the learning rates that the optimizer's groups have. CyclicLR and
 * OneCycleLR start from rates in their options instead. A group's initial_lr is its rate before its
 * first schedule. A later schedule of the same optimizer starts from initial_lr where it computes a
 * rate in a closed form. The first rate of a later CyclicLR is initial_lr, not base_lr. Both are as
 * in torch. A schedule belongs to the optimizer, and is freed with it. The program calls
 * rg_schedule_step after each epoch or after each batch. The schedule's epoch is 0 at first, and
 * each call adds 1 to it. A group that is added later follows the schedule from its own rate; after
 * that, the steps of OneCycleLR, and of schedules with a list of values by group, fail.
 */
#pragma once

#include "optimizer.h"
#pragma GCC system_header

RG_PUBLIC_BEGIN

typedef struct rg_schedule rg_schedule;
/* A function of the program that returns a factor for this epoch. LambdaLR multiplies the initial
 * learning rate by the factor, and MultiplicativeLR the previous rate. The function must not be
 * left by longjmp. */
typedef double rg_lr_lambda(int64_t epoch, void *context);
/* A function of the program that returns the factor by which the height of a cycle of CyclicLR is
 * multiplied. `x` is the number of the cycle, from 1 on, or the epoch if scale_iterations is true.
 * The function must not be left by longjmp. */
typedef double rg_cycle_scale(double x, void *context);

/* A value for each parameter group. If torch accepts such a list for an option, the option has a
 * second field of this type: .max_lrs = RG_BY_GROUP(0.1, 0.2). A list has at most 32 values. */
enum { RG_MOST_BY_GROUP = 32 };
typedef struct rg_by_group {
    int n;
    double v[RG_MOST_BY_GROUP];
} rg_by_group;
#ifndef __cplusplus
#define RG_BY_GROUP(...) \
    ((rg_by_group){ (int)(sizeof((double[]){ __VA_ARGS__ }) / sizeof(double)), { __VA_ARGS__ } })
#endif

/* Each comment names the schedules that read some or all of the options below it. As in torch, a
 * schedule refuses an option that it doesn't read, unless the value is the default here. */
typedef struct RG_OPTIONS rg_schedule_options {
    RG_BY_NAME;
    /* Read by StepLR. */
    int64_t step_size RG_DEFAULT(0);
    /* Read by LinearLR, ConstantLR and PolynomialLR. */
    int64_t total_iters RG_DEFAULT(5);
    double start_factor RG_DEFAULT(1.0 / 3);
    double end_factor RG_DEFAULT(1);
    double power RG_DEFAULT(1);
    /* Read by CosineAnnealingLR and CosineAnnealingWarmRestarts. */
    int64_t T_max RG_DEFAULT(0);
    int64_t T_0 RG_DEFAULT(0);
    int64_t T_mult RG_DEFAULT(1);
    double eta_min RG_DEFAULT(0);
    /* Read by StepLR, MultiStepLR and ExponentialLR, where the default is 0.1, and by CyclicLR,
     * where the default is 1. */
    double gamma RG_DEFAULT(RG_UNSET);
    /* Read by MultiStepLR and SequentialLR. There can be at most 8 milestones. SequentialLR expects
     * them in increasing order. */
    rg_dims milestones RG_DEFAULT({});
    /* Read by LambdaLR and MultiplicativeLR. Give either lr_lambda, one function for all groups, or
     * lr_lambdas, one function for each group. `context` is passed to these functions and to
     * scale_fn. */
    rg_lr_lambda *lr_lambda RG_DEFAULT(NULL);
    rg_lr_lambda *lr_lambdas[RG_MOST_BY_GROUP] RG_DEFAULT({});
    void *context RG_DEFAULT(NULL);
    /* Read by CyclicLR. .triangular2 = true means torch's mode="triangular2", .exp_range = true
     * means mode="exp_range", and .scale_iterations = true means scale_mode="iterations". By
     * default step_size_down is equal to step_size_up. */
    double base_lr RG_DEFAULT(0);
    rg_by_group base_lrs RG_DEFAULT({});
    int64_t step_size_up RG_DEFAULT(2000);
    int64_t step_size_down RG_DEFAULT(0);
    rg_flag triangular2 RG_DEFAULT(false);
    rg_flag exp_range RG_DEFAULT(false);
    rg_flag scale_iterations RG_DEFAULT(false);
    rg_cycle_scale *scale_fn RG_DEFAULT(NULL);
    /* Read by OneCycleLR. .anneal_linear = true means torch's anneal_strategy="linear". CyclicLR
     * also reads max_lr, cycle_momentum and the momenta. By default base_momentum is 0.85 and
     * max_momentum is 0.95. In CyclicLR the defaults are 0.8 and 0.9. */
    double max_lr RG_DEFAULT(0);
    rg_by_group max_lrs RG_DEFAULT({});
    int64_t total_steps RG_DEFAULT(0);
    double pct_start RG_DEFAULT(0.3);
    rg_flag anneal_linear RG_DEFAULT(false);
    rg_flag cycle_momentum RG_DEFAULT(true);
    rg_flag three_phase RG_DEFAULT(false);
    double base_momentum RG_DEFAULT(RG_UNSET);
    double max_momentum RG_DEFAULT(RG_UNSET);
    rg_by_group base_momentums RG_DEFAULT({});
    rg_by_group max_momentums RG_DEFAULT({});
    double div_factor RG_DEFAULT(25);
    double final_div_factor RG_DEFAULT(1e4);
    /* Read by ReduceLROnPlateau. .mode_max = true means torch's mode="max", and .threshold_abs =
     * true means threshold_mode="abs". ConstantLR also reads `factor`. By default `factor` is 0.1.
     * In ConstantLR the default is 1/3. */
    rg_flag mode_max RG_DEFAULT(false);
    rg_flag threshold_abs RG_DEFAULT(false);
    double factor RG_DEFAULT(RG_UNSET);
    double threshold RG_DEFAULT(1e-4);
    double min_lr RG_DEFAULT(0);
    rg_by_group min_lrs RG_DEFAULT({});
    double eps RG_DEFAULT(1e-8);
    int64_t patience RG_DEFAULT(10);
    int64_t cooldown RG_DEFAULT(0);
    /* Read by SequentialLR and ChainedScheduler. SequentialLR needs one schedule more than there
     * are milestones. Unlike in torch, it can't step a SequentialLR or a ChainedScheduler. */
    rg_schedule *schedules[RG_MAX_DIMS + 1] RG_DEFAULT({});
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
    RG_SEQUENTIAL_LR,
    RG_CONSTANT_LR,
    RG_POLYNOMIAL_LR,
    RG_MULTIPLICATIVE_LR,
    RG_CYCLIC_LR,
    RG_COSINE_ANNEALING_WARM_RESTARTS,
    RG_CHAINED_SCHEDULER
} rg_schedule_kind;
rg_schedule *rg_optim_schedule(rg_optim *o, rg_schedule_kind kind, rg_schedule_options options);
#define RG_SCHEDULE_(...)                                                                          \
    RG_KEYWORDS(rg_schedule_options,                                                               \
                (.gamma = RG_UNSET, .start_factor = 1.0 / 3, .end_factor = 1, .total_iters = 5,    \
                 .power = 1, .T_mult = 1, .step_size_up = 2000, .pct_start = 0.3,                  \
                 .cycle_momentum = true, .base_momentum = RG_UNSET, .max_momentum = RG_UNSET,      \
                 .div_factor = 25, .final_div_factor = 1e4, .factor = RG_UNSET, .threshold = 1e-4, \
                 .eps = 1e-8, .patience = 10),                                                     \
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
#define rg_optim_constant_lr(o, ...) rg_optim_schedule(o, RG_CONSTANT_LR, RG_SCHEDULE_(__VA_ARGS__))
#define rg_optim_polynomial_lr(o, ...) \
    rg_optim_schedule(o, RG_POLYNOMIAL_LR, RG_SCHEDULE_(__VA_ARGS__))
#define rg_optim_multiplicative_lr(o, ...) \
    rg_optim_schedule(o, RG_MULTIPLICATIVE_LR, RG_SCHEDULE_(__VA_ARGS__))
#define rg_optim_cyclic_lr(o, ...) rg_optim_schedule(o, RG_CYCLIC_LR, RG_SCHEDULE_(__VA_ARGS__))
#define rg_optim_cosine_annealing_warm_restarts(o, ...) \
    rg_optim_schedule(o, RG_COSINE_ANNEALING_WARM_RESTARTS, RG_SCHEDULE_(__VA_ARGS__))
/* ChainedScheduler: a step of this schedule is a step of each schedule in its list. */
#define rg_optim_chained_scheduler(o, ...) \
    rg_optim_schedule(o, RG_CHAINED_SCHEDULER, RG_SCHEDULE_(__VA_ARGS__))
/* Makes a schedule that is LinearLR with this start_factor in the first `warmup` steps, and
 * CosineAnnealingLR with this eta_min in the remaining total - warmup steps. Returns NULL on
 * failure. */
rg_schedule *rg_optim_warmup_cosine_lr(rg_optim *o, int64_t warmup, int64_t total,
                                       double start_factor, double eta_min);

/* Makes a step of any schedule but ReduceLROnPlateau: moves to the next epoch and sets the groups'
 * learning rates. Returns false on failure. */
bool rg_schedule_step(rg_schedule *s);
/* Makes a step of ReduceLROnPlateau. `metric` is the value that the schedule watches, such as the
 * validation loss. Returns false on failure. */
bool rg_schedule_step_metric(rg_schedule *s, double metric);
/* Lists the entries of torch's scheduler.state_dict(), such as "last_epoch", "step_size" and
 * "base_lrs.0". If an entry is a string or None in torch, its value is RG_NONE. On failure .n is
 * -1. */
rg_named_list rg_schedule_state_dict(rg_schedule *s);
/* Loads a list that rg_schedule_state_dict returned, options included, as torch does. Fails, and
 * changes nothing, if a key is missing or unknown, or if a value is invalid for its option. The
 * list can also be torch's: rg_named_below(rg_torch_load("checkpoint.pt"), "scheduler"). Options
 * that are strings in torch, such as threshold_mode and anneal_strategy, keep their values. But the
 * mode of ReduceLROnPlateau is loaded from the entry "mode_worse". The groups' present learning
 * rates aren't loaded from the list: the optimizer's state has them, and must be loaded as well. */
bool rg_schedule_load_state_dict(rg_schedule *s, rg_named_list dict);
/* Moves the schedule to this epoch, and sets the learning rates by the schedule's closed form.
 * Fails if there is no closed form. As in torch, MultiplicativeLR instead multiplies the present
 * rate by the lambda's value at this epoch. */
bool rg_schedule_step_to(rg_schedule *s, int64_t epoch);

/* ---- checked arguments: see tensor/arguments/arguments.h ---------------------------------- */

#define rg_optim_warmup_cosine_lr(o, warmup, total, start_factor, eta_min)                 \
    rg_optim_warmup_cosine_lr(o, RG_WHOLE(warmup), RG_WHOLE(total), RG_REAL(start_factor), \
                              RG_REAL(eta_min))
#define rg_schedule_step_metric(s, metric) rg_schedule_step_metric(s, RG_REAL(metric))
#define rg_schedule_step_to(s, epoch)      rg_schedule_step_to(s, RG_WHOLE(epoch))

RG_PUBLIC_END

#ifdef __cplusplus
template <typename... T> static inline rg_by_group rg_by_group_of(T... v) {
    return rg_by_group{ (int)sizeof...(v), { (double)v... } };
}
#define RG_BY_GROUP(...) rg_by_group_of(__VA_ARGS__)
#endif
