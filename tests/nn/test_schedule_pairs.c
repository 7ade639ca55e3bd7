/* test_schedule_pairs.c: an optimizer with two schedules has PyTorch's learning rates, whichever
 * kinds of schedules they are (see schedule_pairs.py). */
#include "tests/golden.h"
#include "tests/test.h"
#include "tensor/base.h"
#include "nn/optim/optim.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static double inverse(int64_t t, void *context) {
    (void)context;
    return 1 / (1 + (double)t);
}

static double nearly_one(int64_t t, void *context) {
    (void)context;
    return 1 - 1 / (3 + (double)t);
}

/* The names of the kinds of schedules, in the order of rg_schedule_kind. */
static const char *const kinds[] = {
    "StepLR",           "MultiStepLR",
    "ExponentialLR",    "LinearLR",
    "CosineAnnealingLR", "LambdaLR",
    "OneCycleLR",       "ReduceLROnPlateau",
    "SequentialLR",     "ConstantLR",
    "PolynomialLR",     "MultiplicativeLR",
    "CyclicLR",         "CosineAnnealingWarmRestarts",
    "ChainedScheduler",
};

static rg_schedule *make(rg_optim *o, rg_schedule_kind kind) {
    switch (kind) {
    case RG_STEP_LR: return rg_optim_step_lr(o, .step_size = 3, .gamma = 0.5);
    case RG_MULTI_STEP_LR:
        return rg_optim_multi_step_lr(o, .milestones = RG_DIMS(2, 4), .gamma = 0.5);
    case RG_EXPONENTIAL_LR: return rg_optim_exponential_lr(o, .gamma = 0.9);
    case RG_LINEAR_LR: return rg_optim_linear_lr(o, .start_factor = 0.25, .total_iters = 6);
    case RG_COSINE_ANNEALING_LR:
        return rg_optim_cosine_annealing_lr(o, .T_max = 4, .eta_min = 0.01);
    case RG_LAMBDA_LR: return rg_optim_lambda_lr(o, .lr_lambda = inverse);
    case RG_ONE_CYCLE_LR: return rg_optim_one_cycle_lr(o, .max_lr = 0.5, .total_steps = 20);
    case RG_REDUCE_LR_ON_PLATEAU: return rg_optim_reduce_lr_on_plateau(o, .patience = 1);
    case RG_CONSTANT_LR: return rg_optim_constant_lr(o, .factor = 0.5, .total_iters = 4);
    case RG_POLYNOMIAL_LR: return rg_optim_polynomial_lr(o, .total_iters = 8, .power = 2);
    case RG_MULTIPLICATIVE_LR: return rg_optim_multiplicative_lr(o, .lr_lambda = nearly_one);
    case RG_CYCLIC_LR:
        return rg_optim_cyclic_lr(o, .base_lr = 0.01, .max_lr = 0.3, .step_size_up = 3);
    case RG_COSINE_ANNEALING_WARM_RESTARTS:
        return rg_optim_cosine_annealing_warm_restarts(o, .T_0 = 3, .T_mult = 2);
    case RG_SEQUENTIAL_LR: {
        rg_schedule *up = rg_optim_linear_lr(o, .start_factor = 0.5, .total_iters = 2);
        rg_schedule *down = rg_optim_exponential_lr(o, .gamma = 0.8);
        return rg_optim_sequential_lr(o, .schedules = { up, down }, .milestones = RG_DIMS(3));
    }
    case RG_CHAINED_SCHEDULER: {
        rg_schedule *steps = rg_optim_step_lr(o, .step_size = 2, .gamma = 0.5);
        rg_schedule *all = rg_optim_exponential_lr(o, .gamma = 0.8);
        return rg_optim_chained_scheduler(o, .schedules = { steps, all });
    }
    }
    return NULL;
}

static rg_schedule_kind kind_named(const char *name) {
    int kind = 0;
    while (strcmp(kinds[kind], name) != 0)
        ck_assert_int_lt(++kind, RG_COUNT(kinds));
    return (rg_schedule_kind)kind;
}

static rg_tensor *base_rate(rg_named_list dict) {
    const rg_named_list rates = rg_named_below(dict, "base_lrs");
    ck_assert_int_eq(rates.n, 1);
    return rates.v[0].tensor;
}

static void step(rg_schedule *s, rg_schedule_kind kind) {
    ck_ok(kind == RG_REDUCE_LR_ON_PLATEAU ? rg_schedule_step_metric(s, 1) : rg_schedule_step(s));
}

/* Makes schedules of both kinds, and uses them in the given way. Returns how many of the rates and
 * momenta differ from PyTorch's, which are the words in `want`. */
static int off_in_pair(const char *way, rg_schedule_kind a, rg_schedule_kind b, char *want) {
    static const int epochs[] = { 3, 1, 4, 0, 9, 2 };
    RG_SCOPE();
    const bool later = !strcmp(way, "later"), sequence = !strcmp(way, "sequence");
    const bool closed = !strcmp(way, "closed");
    rg_tensor *x = rg_requires_grad_(rg_zeros(1), true);
    rg_optim *o = rg_optim_sgd(RG_LIST(x), .lr = 0.1, .momentum = 0.9);
    rg_schedule *first = make(o, a);
    for (int t = 0; later && t < 4; t++)
        step(first, a);
    rg_schedule *second = make(o, b), *both = NULL;
    ck_ok(first && second);
    if (sequence)
        ck_ok(both = rg_optim_sequential_lr(o, .schedules = { first, second },
                                            .milestones = RG_DIMS(3)));
    int off = 0;
    for (int t = 0; t < 7; t++) {
        if (t && both)
            ck_ok(rg_schedule_step(both));
        if (t && closed)
            ck_ok(rg_schedule_step_to(first, epochs[t - 1]));
        if (t && !both && !closed) {
            step(first, a);
            step(second, b);
        }
        const rg_param_group *g = rg_optim_group(o, 0);
        const double got[] = { g->lr, g->momentum };
        for (int k = 0; k < 2; k++) {
            const double number = golden_number(&want);
            if (!(fabs(got[k] - number) <= 1e-12) && !off++)
                printf("%s %s %s, step %d: %.17g, PyTorch %.17g\n", way, kinds[a], kinds[b], t,
                       got[k], number);
        }
    }
    rg_optim_free(o);
    return off;
}

START_TEST(test_pairs) {
    int off = 0, pairs = 0;
    golden_file f = golden_open("schedule_pairs");
    for (char *words = golden_case(&f); words; words = golden_case(&f), pairs++) {
        const char *way = golden_word(&words);
        const rg_schedule_kind a = kind_named(golden_word(&words));
        const rg_schedule_kind b = kind_named(golden_word(&words));
        off += off_in_pair(way, a, b, golden_field(&f, ':'));
    }
    golden_close(&f);
    ck_assert_int_eq(pairs, 699);
    ck_assert_int_eq(off, 0);
}
END_TEST

/* The state of a schedule has the rates from which it computes, not those of a later OneCycleLR. */
START_TEST(test_states_of_pairs) {
    RG_SCOPE();
    rg_tensor *x = rg_requires_grad_(rg_zeros(1), true);
    rg_optim *o = rg_optim_sgd(RG_LIST(x), .lr = 0.5, .momentum = 0.9);
    rg_schedule *s = rg_optim_lambda_lr(o, .lr_lambda = inverse);
    rg_schedule *cycle = rg_optim_one_cycle_lr(o, .max_lr = 1, .total_steps = 5);
    ck_ok(cycle);
    ck_assert_double_eq(rg_item(base_rate(rg_schedule_state_dict(cycle))), 1.0 / 25);
    rg_named_list dict = rg_schedule_state_dict(s);
    ck_assert_double_eq(rg_item(base_rate(dict)), 0.5);
    rg_fill_(base_rate(dict), 0.25);
    ck_ok(rg_schedule_load_state_dict(s, dict));
    ck_ok(rg_schedule_step(s));
    ck_assert_double_eq(rg_optim_group(o, 0)->lr, 0.125);
    ck_assert_double_eq(rg_optim_group(o, 0)->initial_lr, 1.0 / 25);
    rg_optim_free(o);
}
END_TEST

/* A new OneCycleLR stores the groups' rates in earlier schedules, which have room for 32 groups.
 * Without an earlier schedule there may be more groups. */
START_TEST(test_one_cycle_of_many_groups) {
    RG_SCOPE();
    rg_optim *o = rg_optim_sgd(RG_LIST(rg_requires_grad_(rg_zeros(1), true)), .lr = 0.5,
                               .momentum = 0.9);
    for (int i = 1; i <= RG_MOST_BY_GROUP; i++)
        ck_ok(rg_optim_add_group(o, RG_LIST(rg_requires_grad_(rg_zeros(1), true))));
    ck_ok(rg_optim_one_cycle_lr(o, .max_lr = 1, .total_steps = 5));
    ck_fails(rg_optim_one_cycle_lr(o, .max_lr = 1, .total_steps = 5), RG_VALUE_ERROR,
             "OneCycleLR: expected up to 32 groups after another schedule, but got 33");
    rg_optim_free(o);
}
END_TEST

RG_TESTS(schedule_pairs, test_pairs, test_states_of_pairs, test_one_cycle_of_many_groups)
