/*
 * schedules.h: functions of the tests of schedules: stepping any kind of schedule, comparing
 * dictionaries, and choosing the options that a kind of schedule has.
 */
#pragma once

#include "regard.h"

#include <string.h>

/* Steps a schedule; the metric of ReduceLROnPlateau is 1. */
static inline bool step_any(rg_schedule *s, rg_schedule_kind kind) {
    return kind == RG_REDUCE_LR_ON_PLATEAU ? rg_schedule_step_metric(s, 1) : rg_schedule_step(s);
}

/* Returns whether both dictionaries have the same entries, and at least one. */
static inline bool same_lists(rg_named_list a, rg_named_list b) {
    bool same = a.n == b.n && a.n > 0;
    for (int i = 0; same && i < a.n; i++)
        same = !strcmp(a.v[i].name, b.v[i].name)
               && (a.v[i].tensor == RG_NONE ? b.v[i].tensor == RG_NONE
                                            : rg_equal(a.v[i].tensor, b.v[i].tensor));
    return same;
}

/* Calls `row` with the name of each option of schedules. */
#define EACH_SCHEDULE_OPTION(row)                                                                \
    row(step_size) row(total_iters) row(start_factor) row(end_factor) row(power) row(T_max)      \
    row(T_0) row(T_mult) row(eta_min) row(gamma) row(milestones) row(lr_lambda) row(lr_lambdas)  \
    row(context) row(base_lr) row(base_lrs) row(step_size_up) row(step_size_down)                \
    row(triangular2) row(exp_range) row(scale_iterations) row(scale_fn) row(max_lr) row(max_lrs) \
    row(total_steps) row(pct_start) row(anneal_linear) row(cycle_momentum) row(three_phase)      \
    row(base_momentum) row(max_momentum) row(base_momentums) row(max_momentums) row(div_factor)  \
    row(final_div_factor) row(mode_max) row(threshold_abs) row(factor) row(threshold)            \
    row(min_lr) row(min_lrs) row(eps) row(patience) row(cooldown) row(schedules)

/* Returns whether schedules of this kind have the option. The lists are torch's signatures, with
 * the names of regard's options. */
static inline bool has_option(rg_schedule_kind kind, const char *name) {
    static const char *const lists[] = {
        [RG_STEP_LR] = " step_size gamma ",
        [RG_MULTI_STEP_LR] = " milestones gamma ",
        [RG_EXPONENTIAL_LR] = " gamma ",
        [RG_LINEAR_LR] = " start_factor end_factor total_iters ",
        [RG_COSINE_ANNEALING_LR] = " T_max eta_min ",
        [RG_LAMBDA_LR] = " lr_lambda lr_lambdas context ",
        [RG_ONE_CYCLE_LR] = " max_lr max_lrs total_steps pct_start anneal_linear cycle_momentum "
                            "base_momentum base_momentums max_momentum max_momentums div_factor "
                            "final_div_factor three_phase ",
        [RG_REDUCE_LR_ON_PLATEAU] = " mode_max factor patience threshold threshold_abs cooldown "
                                    "min_lr min_lrs eps ",
        [RG_SEQUENTIAL_LR] = " schedules milestones ",
        [RG_CONSTANT_LR] = " factor total_iters ",
        [RG_POLYNOMIAL_LR] = " total_iters power ",
        [RG_MULTIPLICATIVE_LR] = " lr_lambda lr_lambdas context ",
        [RG_CYCLIC_LR] = " base_lr base_lrs max_lr max_lrs step_size_up step_size_down triangular2 "
                         "exp_range gamma scale_fn scale_iterations context cycle_momentum "
                         "base_momentum base_momentums max_momentum max_momentums ",
        [RG_COSINE_ANNEALING_WARM_RESTARTS] = " T_0 T_mult eta_min ",
        [RG_CHAINED_SCHEDULER] = " schedules ",
    };
    const char *at = strstr(lists[kind], name);
    while (at && !(at[-1] == ' ' && at[strlen(name)] == ' '))
        at = strstr(at + 1, name);
    return at;
}

/* Returns the options in q that schedules of this kind have; the others are at their defaults. */
static inline rg_schedule_options own_options(rg_schedule_kind kind, rg_schedule_options q) {
    rg_schedule_options own = RG_SCHEDULE_();
#define COPY_OWN(field)           \
    if (has_option(kind, #field)) \
        memcpy(&own.field, &q.field, sizeof own.field);
    EACH_SCHEDULE_OPTION(COPY_OWN)
#undef COPY_OWN
    return own;
}
