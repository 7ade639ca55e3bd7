/* test_schedule.c: schedules give PyTorch's learning rates: chained, in closed form, and on a
 * plateau; and they refuse what PyTorch refuses. */
#include "schedules.h"
#include "tests/golden.h"
#include "tests/test.h"
#include "tensor/memory.h"
#include "nn/optim/optim.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static rg_optim *two_groups(bool adam) {
    RG_SCOPE();
    rg_tensor *a = rg_requires_grad_(rg_zeros(1), true), *b = rg_requires_grad_(rg_zeros(1), true);
    rg_optim *o = adam ? rg_optim_adam(RG_LIST(a), .lr = 0.1)
                       : rg_optim_sgd(RG_LIST(a), .lr = 0.1, .momentum = 0.9);
    ck_ok(rg_optim_add_group(o, RG_LIST(b), .lr = 0.4));
    return o;
}

static double inverse(int64_t t, void *context) {
    (void)context;
    return 1 / (1 + (double)t);
}

/* The metric falls, then hardly changes, and falls again. */
static double metric(int t) {
    if (t < 20)
        return (100 - t) / 64.0;
    if (t < 45)
        return (80 + t * 7 % 5 / 4096.0) / 64;
    return (79 - t / 2.0) / 64;
}

static bool plain(rg_schedule *s, int t) {
    (void)t;
    return rg_schedule_step(s);
}
static bool closed(rg_schedule *s, int t) { return rg_schedule_step_to(s, t * 3 % 61); }
static bool plateau(rg_schedule *s, int t) { return rg_schedule_step_metric(s, metric(t)); }

/* Follows a schedule for 60 steps, and frees its optimizer. Returns how many numbers are off. */
static int follow(const char *name, rg_optim *o, rg_schedule *s, bool (*step)(rg_schedule *, int)) {
    int bad = 0;
    golden_file f = golden_find("schedule", "%s", name);
    ck_ok(s);
    for (int t = 0; t <= 60; t++) {
        if (t)
            ck_ok(step(s, t));
        rg_param_group *a = rg_optim_group(o, 0), *b = rg_optim_group(o, 1);
        double turned = strstr(name, "adam") ? b->betas[0] : b->momentum;
        double got[] = { a->lr, b->lr, turned };
        char *numbers = golden_field(&f, ':');
        for (int k = 0; k < 3; k++) {
            double want = golden_number(&numbers);
            if (!(fabs(got[k] - want) <= 1e-14) && !bad++)
                printf("%s, step %d: %.17g, PyTorch %.17g\n", name, t, got[k], want);
        }
    }
    golden_close(&f);
    rg_optim_free(o);
    return bad;
}

/* Each name is that of a schedule in optim.py. `make` makes it for o, which is Adam or SGD. */
#define FOLLOW(name, adam, step, make)      \
    do {                                    \
        rg_optim *o = two_groups(adam);     \
        bad += follow(name, o, make, step); \
    } while (0)

static double nearly_one(int64_t epoch, void *context) {
    (void)context;
    return 1 - 1.0 / (double)(3 + epoch);
}

static double falling_scale(double x, void *context) {
    (void)context;
    return 1 / (1 + x);
}

static rg_schedule *chained_sequence(rg_optim *o) {
    rg_schedule *up = rg_optim_linear_lr(o, .start_factor = 0.1, .total_iters = 5);
    rg_schedule *waves = rg_optim_cosine_annealing_warm_restarts(o, .T_0 = 6);
    rg_schedule *both = rg_optim_sequential_lr(o, .schedules = { up, waves },
                                               .milestones = RG_DIMS(5));
    return rg_optim_chained_scheduler(
        o, .schedules = { both, rg_optim_step_lr(o, .step_size = 20, .gamma = 0.5) });
}

/* Follows a schedule without momentum twice: step by step, and with rg_schedule_step_to to epochs
 * in another order. */
#define FOLLOW_BOTH(name, ...)               \
    FOLLOW(name, false, plain, __VA_ARGS__); \
    FOLLOW(name ".closed", false, closed, __VA_ARGS__)
/* Follows a schedule that has a momentum twice: with SGD and with Adam. */
#define FOLLOW_CYCLE(name, ...)              \
    FOLLOW(name, false, plain, __VA_ARGS__); \
    FOLLOW(name ".adam", true, plain, __VA_ARGS__)

START_TEST(test_newer_rates) {
    int bad = 0;
    FOLLOW_BOTH("ConstantLR", rg_optim_constant_lr(o));
    FOLLOW_BOTH("ConstantLR_long", rg_optim_constant_lr(o, .factor = 0.7, .total_iters = 31));
    FOLLOW_BOTH("ConstantLR_one", rg_optim_constant_lr(o, .factor = 0.3, .total_iters = 1));
    FOLLOW_BOTH("PolynomialLR", rg_optim_polynomial_lr(o));
    FOLLOW_BOTH("PolynomialLR_power", rg_optim_polynomial_lr(o, .total_iters = 40, .power = 1.7));
    FOLLOW_BOTH("PolynomialLR_root", rg_optim_polynomial_lr(o, .total_iters = 25, .power = 0.5));
    FOLLOW_BOTH("MultiplicativeLR", rg_optim_multiplicative_lr(o, .lr_lambda = nearly_one));
    FOLLOW_BOTH("MultiplicativeLR_each",
                rg_optim_multiplicative_lr(o, .lr_lambdas = { nearly_one, inverse }));
    FOLLOW_BOTH("LambdaLR_each", rg_optim_lambda_lr(o, .lr_lambdas = { nearly_one, inverse }));
    FOLLOW_BOTH("WarmRestarts", rg_optim_cosine_annealing_warm_restarts(o, .T_0 = 7));
    FOLLOW_BOTH("WarmRestarts_longer",
                rg_optim_cosine_annealing_warm_restarts(o, .T_0 = 5, .T_mult = 2, .eta_min = 0.01));
    FOLLOW_BOTH("WarmRestarts_thrice",
                rg_optim_cosine_annealing_warm_restarts(o, .T_0 = 1, .T_mult = 3));
    FOLLOW_CYCLE("CyclicLR",
                 rg_optim_cyclic_lr(o, .base_lr = 0.05, .max_lr = 0.3, .step_size_up = 7));
    FOLLOW_CYCLE("CyclicLR_2",
                 rg_optim_cyclic_lr(o, .base_lrs = RG_BY_GROUP(0.05, 0.02),
                                    .max_lrs = RG_BY_GROUP(0.3, 0.1), .step_size_up = 5,
                                    .step_size_down = 9, .triangular2 = true,
                                    .base_momentums = RG_BY_GROUP(0.5, 0.6),
                                    .max_momentums = RG_BY_GROUP(0.8, 0.99)));
    FOLLOW_CYCLE("CyclicLR_range",
                 rg_optim_cyclic_lr(o, .base_lr = 0.05, .max_lr = 0.3, .step_size_up = 4,
                                    .exp_range = true, .gamma = 0.97));
    FOLLOW_CYCLE("CyclicLR_scaled",
                 rg_optim_cyclic_lr(o, .base_lr = 0.05, .max_lr = 0.3, .step_size_up = 4,
                                    .scale_fn = falling_scale, .scale_iterations = true,
                                    .cycle_momentum = false));
    FOLLOW_CYCLE("OneCycleLR_each",
                 rg_optim_one_cycle_lr(o, .max_lrs = RG_BY_GROUP(0.5, 0.2), .total_steps = 60,
                                       .base_momentums = RG_BY_GROUP(0.7, 0.6),
                                       .max_momentums = RG_BY_GROUP(0.9, 0.95)));
    ck_assert_int_eq(bad, 0);
}
END_TEST

START_TEST(test_rates) {
    int bad = 0;
    FOLLOW("StepLR", false, plain, rg_optim_step_lr(o, .step_size = 7, .gamma = 0.3));
    FOLLOW("StepLR.closed", false, closed, rg_optim_step_lr(o, .step_size = 7, .gamma = 0.3));
    FOLLOW("StepLR_each", false, plain, rg_optim_step_lr(o, .step_size = 1));
    FOLLOW("StepLR_each.closed", false, closed, rg_optim_step_lr(o, .step_size = 1));
    FOLLOW("MultiStepLR", false, plain,
           rg_optim_multi_step_lr(o, .milestones = RG_DIMS(2, 10, 10, 30), .gamma = 0.5));
    FOLLOW("MultiStepLR.closed", false, closed,
           rg_optim_multi_step_lr(o, .milestones = RG_DIMS(2, 10, 10, 30), .gamma = 0.5));
    FOLLOW("MultiStepLR_first", false, plain,
           rg_optim_multi_step_lr(o, .milestones = RG_DIMS(0, 5)));
    FOLLOW("MultiStepLR_first.closed", false, closed,
           rg_optim_multi_step_lr(o, .milestones = RG_DIMS(0, 5)));
    FOLLOW("ExponentialLR", false, plain, rg_optim_exponential_lr(o, .gamma = 0.93));
    FOLLOW("ExponentialLR.closed", false, closed, rg_optim_exponential_lr(o, .gamma = 0.93));
    FOLLOW("ExponentialLR_growing", false, plain, rg_optim_exponential_lr(o, .gamma = 1.05));
    FOLLOW("ExponentialLR_growing.closed", false, closed,
           rg_optim_exponential_lr(o, .gamma = 1.05));
    FOLLOW("LinearLR", false, plain, rg_optim_linear_lr(o));
    FOLLOW("LinearLR.closed", false, closed, rg_optim_linear_lr(o));
    FOLLOW("LinearLR_long", false, plain,
           rg_optim_linear_lr(o, .start_factor = 0.1, .end_factor = 0.7, .total_iters = 40));
    FOLLOW("LinearLR_long.closed", false, closed,
           rg_optim_linear_lr(o, .start_factor = 0.1, .end_factor = 0.7, .total_iters = 40));
    FOLLOW("LinearLR_to_nothing", false, plain,
           rg_optim_linear_lr(o, .start_factor = 1.0, .end_factor = 0.0, .total_iters = 25));
    FOLLOW("LinearLR_to_nothing.closed", false, closed,
           rg_optim_linear_lr(o, .start_factor = 1.0, .end_factor = 0.0, .total_iters = 25));
    FOLLOW("CosineAnnealingLR", false, plain, rg_optim_cosine_annealing_lr(o, .T_max = 50));
    FOLLOW("CosineAnnealingLR.closed", false, closed, rg_optim_cosine_annealing_lr(o, .T_max = 50));
    FOLLOW("CosineAnnealingLR_short", false, plain,
           rg_optim_cosine_annealing_lr(o, .T_max = 13, .eta_min = 0.02));
    FOLLOW("CosineAnnealingLR_short.closed", false, closed,
           rg_optim_cosine_annealing_lr(o, .T_max = 13, .eta_min = 0.02));
    FOLLOW("CosineAnnealingLR_one", false, plain,
           rg_optim_cosine_annealing_lr(o, .T_max = 1, .eta_min = 0.01));
    FOLLOW("CosineAnnealingLR_one.closed", false, closed,
           rg_optim_cosine_annealing_lr(o, .T_max = 1, .eta_min = 0.01));
    FOLLOW("OneCycleLR", false, plain, rg_optim_one_cycle_lr(o, .max_lr = 0.5, .total_steps = 60));
    FOLLOW("OneCycleLR.adam", true, plain,
           rg_optim_one_cycle_lr(o, .max_lr = 0.5, .total_steps = 60));
    FOLLOW("OneCycleLR_linear", false, plain,
           rg_optim_one_cycle_lr(o, .max_lr = 0.5, .total_steps = 60, .anneal_linear = true,
                                 .pct_start = 0.45, .div_factor = 10, .final_div_factor = 100));
    FOLLOW("OneCycleLR_linear.adam", true, plain,
           rg_optim_one_cycle_lr(o, .max_lr = 0.5, .total_steps = 60, .anneal_linear = true,
                                 .pct_start = 0.45, .div_factor = 10, .final_div_factor = 100));
    FOLLOW("OneCycleLR_three", false, plain,
           rg_optim_one_cycle_lr(o, .max_lr = 0.5, .total_steps = 60, .three_phase = true,
                                 .base_momentum = 0.7, .max_momentum = 0.99));
    FOLLOW("OneCycleLR_three.adam", true, plain,
           rg_optim_one_cycle_lr(o, .max_lr = 0.5, .total_steps = 60, .three_phase = true,
                                 .base_momentum = 0.7, .max_momentum = 0.99));
    FOLLOW("OneCycleLR_no_momentum", false, plain,
           rg_optim_one_cycle_lr(o, .max_lr = 0.5, .total_steps = 60, .cycle_momentum = false,
                                 .three_phase = true, .anneal_linear = true));
    FOLLOW("OneCycleLR_no_momentum.adam", true, plain,
           rg_optim_one_cycle_lr(o, .max_lr = 0.5, .total_steps = 60, .cycle_momentum = false,
                                 .three_phase = true, .anneal_linear = true));
    FOLLOW("warmup_cosine", false, plain, rg_optim_warmup_cosine_lr(o, 10, 60, 0.1, 0.0));
    FOLLOW("warmup_cosine_one", false, plain, rg_optim_warmup_cosine_lr(o, 1, 40, 0.001, 0.02));
    FOLLOW("SequentialLR", false, plain,
           rg_optim_sequential_lr(
               o, .milestones = RG_DIMS(5, 17, 30),
               .schedules = { rg_optim_exponential_lr(o, .gamma = 0.9),
                              rg_optim_step_lr(o, .step_size = 4, .gamma = 0.5),
                              rg_optim_multi_step_lr(o, .milestones = RG_DIMS(0, 3)),
                              rg_optim_lambda_lr(o, .lr_lambda = inverse) }));
    FOLLOW("ChainedScheduler", false, plain,
           rg_optim_chained_scheduler(
               o, .schedules = { rg_optim_constant_lr(o, .factor = 0.1, .total_iters = 4),
                                 rg_optim_exponential_lr(o, .gamma = 0.9) }));
    FOLLOW("SequentialLR_new", false, plain,
           rg_optim_sequential_lr(
               o, .milestones = RG_DIMS(9, 20, 33),
               .schedules = { rg_optim_cosine_annealing_warm_restarts(o, .T_0 = 4, .T_mult = 2),
                              rg_optim_polynomial_lr(o, .total_iters = 12, .power = 2),
                              rg_optim_constant_lr(o, .factor = 0.2, .total_iters = 3),
                              rg_optim_cosine_annealing_warm_restarts(o, .T_0 = 3) }));
    FOLLOW("ChainedScheduler_of_a_sequence", false, plain, chained_sequence(o));
    FOLLOW("ReduceLROnPlateau_each", false, plateau,
           rg_optim_reduce_lr_on_plateau(o, .patience = 1, .factor = 0.5,
                                         .min_lrs = RG_BY_GROUP(0.03, 0.2)));
    FOLLOW("ReduceLROnPlateau", false, plateau, rg_optim_reduce_lr_on_plateau(o, .patience = 3));
    FOLLOW("ReduceLROnPlateau_cooldown", false, plateau,
           rg_optim_reduce_lr_on_plateau(o, .patience = 1, .cooldown = 4, .factor = 0.5,
                                         .min_lr = 0.15));
    FOLLOW("ReduceLROnPlateau_max", false, plateau,
           rg_optim_reduce_lr_on_plateau(o, .mode_max = true, .patience = 2, .threshold = 0.01,
                                         .factor = 0.7));
    FOLLOW("ReduceLROnPlateau_max_abs", false, plateau,
           rg_optim_reduce_lr_on_plateau(o, .mode_max = true, .patience = 4, .threshold_abs = true,
                                         .threshold = 0.3));
    FOLLOW("ReduceLROnPlateau_abs", false, plateau,
           rg_optim_reduce_lr_on_plateau(o, .patience = 2, .threshold_abs = true, .threshold = 0.02,
                                         .eps = 0.01));
    FOLLOW("ReduceLROnPlateau_at_once", false, plateau,
           rg_optim_reduce_lr_on_plateau(o, .patience = 0, .threshold = 0.0, .factor = 0.9));
    ck_assert_int_eq(bad, 0);
}
END_TEST

START_TEST(test_errors) {
    rg_optim *o = two_groups(false), *other = two_groups(true);
    RG_SCOPE();
    rg_optim *ada = rg_optim_adagrad(RG_LIST(rg_zeros(1)));
    rg_schedule *plateau = rg_optim_reduce_lr_on_plateau(o),
                *exponential = rg_optim_exponential_lr(o, .gamma = 0.5);
    rg_schedule *foreign = rg_optim_exponential_lr(other),
                *twice = rg_optim_sequential_lr(o, .schedules = { exponential });
    ck_ok(twice);
    double lr = rg_optim_group(o, 0)->lr;
#define INVALID(make, text) ck_fails(make, RG_VALUE_ERROR, text)
    INVALID(rg_optim_step_lr(o), "StepLR: Expected positive integer step_size, but got 0");
    INVALID(rg_optim_cosine_annealing_lr(o, .T_max = -3),
            "Expected positive integer T_max, but got -3");
    INVALID(rg_optim_lambda_lr(o), "Expected a lr_lambda");
    INVALID(rg_optim_lambda_lr(o, .lr_lambdas = { inverse }), "Expected 2 lr_lambdas, but got 1");
    INVALID(rg_optim_multiplicative_lr(o, .lr_lambdas = { inverse }),
            "Expected 2 lr_lambdas, but got 1");
    INVALID(rg_optim_multiplicative_lr(o, .lr_lambdas = { inverse, inverse, inverse }),
            "Expected 2 lr_lambdas, but got 3");
    INVALID(rg_optim_constant_lr(o, .factor = 1.5),
            "ConstantLR: Constant multiplicative factor expected to be between 0 and 1.");
    INVALID(rg_optim_constant_lr(o, .factor = -1), "expected to be between 0 and 1.");
    INVALID(rg_optim_cosine_annealing_warm_restarts(o), "Expected positive integer T_0, but got 0");
    INVALID(rg_optim_cosine_annealing_warm_restarts(o, .T_0 = 3, .T_mult = 0),
            "Expected integer T_mult >= 1, but got 0");
    INVALID(rg_optim_cyclic_lr(ada, .max_lr = 1),
            "optimizer must support momentum or beta1 with `cycle_momentum` option enabled");
    INVALID(rg_optim_cyclic_lr(o, .base_lrs = RG_BY_GROUP(1, 2, 3), .max_lr = 1),
            "base_lr must have the same length as optimizer.param_groups. base_lr has 3 values, "
            "param_groups has 2.");
    INVALID(rg_optim_one_cycle_lr(o, .max_lrs = RG_BY_GROUP(1), .total_steps = 9),
            "max_lr must have the same length as optimizer.param_groups. max_lr has 1 values, "
            "param_groups has 2.");
    INVALID(
        rg_optim_one_cycle_lr(o, .max_lr = 1, .total_steps = 9, .base_momentums = RG_BY_GROUP(1)),
        "base_momentum must have the same length");
    INVALID(rg_optim_reduce_lr_on_plateau(o, .min_lrs = RG_BY_GROUP(1, 2, 3)),
            "expected 2 min_lrs, got 3");
    INVALID(rg_optim_chained_scheduler(o), "ChainedScheduler expects at least one scheduler to be "
                                           "chained, but got no scheduler.");
    INVALID(rg_optim_chained_scheduler(o, .schedules = { exponential, plateau }),
            "ChainedScheduler does not support `ReduceLROnPlateau` scheduler as it requires "
            "additional kwargs to be specified when calling `step`, but got one at index 1 in the "
            "given schedulers sequence.");
    INVALID(rg_optim_chained_scheduler(o, .schedules = { foreign }),
            "ChainedScheduler expects all schedulers to belong to the same optimizer");
    rg_schedule *chained = rg_optim_chained_scheduler(o, .schedules = { exponential });
    INVALID(rg_optim_sequential_lr(o, .schedules = { chained }), "nor ChainedScheduler");
    ck_fails(rg_schedule_step_to(chained, 3), RG_NOT_IMPLEMENTED, "has no closed form");
    INVALID(rg_optim_reduce_lr_on_plateau(o, .factor = 1), "Factor should be < 1.0.");
    INVALID(rg_optim_linear_lr(o, .start_factor = 0),
            "Starting multiplicative factor expected to be greater than 0 and less or equal to 1.");
    INVALID(rg_optim_linear_lr(o, .end_factor = NAN),
            "Ending multiplicative factor expected to be between 0 and 1.");
    INVALID(rg_optim_one_cycle_lr(o, .max_lr = 1),
            "Expected positive integer total_steps, but got 0");
    INVALID(rg_optim_one_cycle_lr(o, .total_steps = 5, .pct_start = 1.5),
            "Expected float between 0 and 1 pct_start, but got 1.5");
    INVALID(rg_optim_one_cycle_lr(ada, .total_steps = 5),
            "optimizer must support momentum or beta1 with `cycle_momentum` option enabled");
    INVALID(rg_optim_one_cycle_lr(o, .total_steps = 20, .pct_start = 0.05, .max_lr = 1),
            "float division by zero");
    INVALID(rg_optim_sequential_lr(o),
            "to be one more than the number of milestone points, but got number of schedulers 0");
    INVALID(rg_optim_sequential_lr(o, .schedules = { foreign }),
            "expects schedules of the same optimizer");
    INVALID(rg_optim_sequential_lr(o, .schedules = { plateau }),
            "neither ReduceLROnPlateau nor SequentialLR");
    INVALID(rg_optim_sequential_lr(o, .schedules = { twice }),
            "neither ReduceLROnPlateau nor SequentialLR");
    INVALID(rg_optim_schedule(o, (rg_schedule_kind)77, RG_SCHEDULE_()), "there is no schedule 77");
    INVALID(rg_optim_with((rg_optim_kind)77, RG_LIST(rg_zeros(1)), RG_PARAM_GROUP_()),
            "there is no optimizer 77");
    rg_optim_group(o, 0)->lr = 0.5;
    INVALID(rg_optim_warmup_cosine_lr(o, 10, 10, 0.1, 0),
            "expected fewer steps of warmup than in total, but got 10 of 10");
    INVALID(rg_optim_warmup_cosine_lr(o, 2, 9, 0, 0), "Starting multiplicative factor expected");
    /* A schedule that is refused leaves the rate alone. */
    ck_assert(rg_optim_group(o, 0)->lr == 0.5);
    ck_assert_ptr_null(rg_optim_step_lr(NULL, .step_size = 3));
    ck_assert_ptr_null(rg_optim_warmup_cosine_lr(NULL, 1, 2, 0.1, 0));
    ck_fails(rg_schedule_step(plateau), RG_TYPE_ERROR,
             "step() missing 1 required positional argument: 'metrics'");
    ck_fails(rg_schedule_step_metric(exponential, 1), RG_TYPE_ERROR, "step() takes no metric");
    ck_fails(rg_schedule_step_to(plateau, 1), RG_NOT_IMPLEMENTED, "has no closed form");
    ck_fails(rg_schedule_step(NULL), RG_TYPE_ERROR, "expected a schedule but got NULL");
    ck_assert(!rg_schedule_step_metric(NULL, 1) && !rg_schedule_step_to(NULL, 1));
    rg_error_clear();
    ck_ok(rg_schedule_step_metric(plateau, NAN));
    rg_schedule *cycle = rg_optim_one_cycle_lr(ada, .max_lr = lr, .total_steps = 1,
                                               .cycle_momentum = false);
    ck_ok(rg_schedule_step(cycle));
    INVALID(rg_schedule_step(cycle),
            "Tried to step 2 times. The specified number of total steps is 1");
    rg_optim_free(o);
    rg_optim_free(other);
    rg_optim_free(ada);
}
END_TEST

/* A chain with the largest number of schedules steps all of them. */
START_TEST(test_the_longest_chain) {
    RG_SCOPE();
    rg_optim *o = two_groups(false);
    rg_schedule *s[RG_MAX_DIMS + 1];
    for (int i = 0; i <= RG_MAX_DIMS; i++)
        s[i] = rg_optim_exponential_lr(o, .gamma = 0.5);
    rg_schedule *chained = rg_optim_chained_scheduler(
        o, .schedules = { s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7], s[8] });
    ck_ok(chained);
    const double lr = rg_optim_group(o, 0)->lr;
    ck_ok(rg_schedule_step(chained));
    ck_assert_double_eq(rg_optim_group(o, 0)->lr, lr / 512);
    /* The ninth schedule is checked like the others. */
    rg_optim *other = two_groups(false);
    s[8] = rg_optim_exponential_lr(other, .gamma = 0.5);
    ck_fails(rg_optim_chained_scheduler(
                 o, .schedules = { s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7], s[8] }),
             RG_VALUE_ERROR, "but got scheduler ExponentialLR at index 8");
    rg_optim_free(other);
    rg_optim_free(o);
}
END_TEST

/* A group that is added later has no value in a schedule's lists. The schedule's next step fails,
 * even if a ChainedScheduler makes that step. */
START_TEST(test_groups_that_come_later) {
    RG_SCOPE();
    rg_optim *o = two_groups(false), *gone = two_groups(false);
    rg_schedule *cyclic = rg_optim_cyclic_lr(o, .base_lr = 0.1, .max_lrs = RG_BY_GROUP(1, 2));
    rg_schedule *plateau = rg_optim_reduce_lr_on_plateau(o, .min_lrs = RG_BY_GROUP(0.1, 0.2));
    rg_schedule *lambdas = rg_optim_lambda_lr(o, .lr_lambdas = { inverse, inverse });
    rg_schedule *chained = rg_optim_chained_scheduler(o, .schedules = { lambdas });
    rg_schedule *freed = rg_optim_exponential_lr(gone, .gamma = 0.5);
    ck_ok(cyclic && plateau && chained && freed);
    ck_ok(rg_schedule_step(cyclic) && rg_schedule_step(chained));
    ck_ok(rg_schedule_step_metric(plateau, 1));
    ck_ok(rg_optim_add_group(o, RG_LIST(rg_requires_grad_(rg_zeros(2), true)), .lr = 1));
    const double lr = rg_optim_group(o, 0)->lr;
    INVALID(rg_schedule_step(cyclic), "max_lr must have the same length as optimizer.param_groups. "
                                      "max_lr has 2 values, param_groups has 3.");
    INVALID(rg_schedule_step_metric(plateau, 1), "expected 3 min_lrs, got 2");
    INVALID(rg_schedule_step(lambdas), "Expected 3 lr_lambdas, but got 2");
    INVALID(rg_schedule_step(chained), "Expected 3 lr_lambdas, but got 2");
    ck_assert(rg_optim_group(o, 0)->lr == lr);
    rg_optim_free(gone);
    if (!rgi_pool_bypassed())
        ck_fails(rg_optim_chained_scheduler(o, .schedules = { freed }), RG_RELEASED,
                 "schedule released");
    rg_optim_free(o);
}
END_TEST

/* torch accepts these options up to their bounds, and refuses them beyond. */
START_TEST(test_options_at_their_bounds) {
    RG_SCOPE();
    rg_optim *o = two_groups(false);
    ck_ok(rg_optim_constant_lr(o, .factor = 1) && rg_optim_constant_lr(o, .factor = 0));
    ck_ok(rg_optim_linear_lr(o, .start_factor = 1, .end_factor = 0));
    INVALID(rg_optim_linear_lr(o, .start_factor = 1.5), "Starting multiplicative factor expected");
    INVALID(rg_optim_linear_lr(o, .end_factor = 1.5), "Ending multiplicative factor expected");
    INVALID(rg_optim_linear_lr(o, .end_factor = -0.5), "Ending multiplicative factor expected");
    INVALID(rg_optim_one_cycle_lr(o, .max_lr = 1, .total_steps = 5, .pct_start = -0.25),
            "Expected float between 0 and 1 pct_start, but got -0.25");
    const double lr = rg_optim_group(o, 0)->lr;
    INVALID(rg_optim_cyclic_lr(o, .base_lr = 7, .max_lr = 9, .step_size_up = 0),
            "float division by zero");
    INVALID(
        rg_optim_cyclic_lr(o, .base_lr = 7, .max_lr = 9, .step_size_up = -3, .step_size_down = 3),
        "float division by zero");
    ck_assert(rg_optim_group(o, 0)->lr == lr);
    ck_ok(rg_optim_multi_step_lr(o, .milestones = RG_DIMS(1, 2, 3, 4, 5, 6, 7, 8)));
    INVALID(rg_optim_multi_step_lr(o, .milestones = (rg_dims){ .n = 9 }),
            "Expected up to 8 milestones, but got 9");
    INVALID(rg_optim_multi_step_lr(o, .milestones = (rg_dims){ .n = -1 }),
            "Expected up to 8 milestones, but got -1");
    static const rg_by_group one = { 1, { 1 } };
    INVALID(rg_optim_cyclic_lr(o, .max_lrs = one), "max_lr has 1 values, param_groups has 2.");
    INVALID(rg_optim_cyclic_lr(o, .max_lr = 1, .base_momentums = one), "base_momentum has 1 val");
    INVALID(rg_optim_cyclic_lr(o, .max_lr = 1, .max_momentums = one), "max_momentum has 1 values");
    INVALID(rg_optim_one_cycle_lr(o, .max_lr = 1, .total_steps = 9, .max_momentums = one),
            "max_momentum has 1 values");
    rg_optim_free(o);
}
END_TEST

/* Changes the option in q, and makes a schedule of this kind. Asserts that the option is refused as
 * unexpected exactly if this kind of schedule lacks it. `byte` is the option's first byte in q. */
static void check_option(rg_optim *o, rg_schedule_kind kind, const char *name,
                         rg_schedule_options *q, char *byte) {
    *byte ^= 1;
    const bool made = rg_optim_schedule(o, kind, *q), has = has_option(kind, name);
    char text[100];
    snprintf(text, sizeof text, "got an unexpected keyword argument '%s'", name);
    ck_assert_msg(has == (made || !strstr(rg_error(), text)), "schedule %d, option %s", kind, name);
    ck_assert(has || rg_error_code() == RG_TYPE_ERROR);
    rg_error_clear();
    *byte ^= 1;
}

/* A schedule refuses each option that it doesn't have, as a call in Python does. */
START_TEST(test_unexpected_options) {
    RG_SCOPE();
    rg_optim *o = two_groups(false);
    rg_schedule_options q = RG_SCHEDULE_();
    for (int kind = RG_STEP_LR; kind <= RG_CHAINED_SCHEDULER; kind++) {
        const rg_schedule_kind k = (rg_schedule_kind)kind;
#define CHECK_OPTION(field)                                                         \
    if (!strstr("lr_lambdas scale_fn schedules", #field) || !has_option(k, #field)) \
        check_option(o, k, #field, &q, (char *)&q.field);
        EACH_SCHEDULE_OPTION(CHECK_OPTION)
    }
    ck_fails(rg_optim_cosine_annealing_lr(o, .T_max = 2, .min_lr = 0.5), RG_TYPE_ERROR,
             "CosineAnnealingLR: got an unexpected keyword argument 'min_lr'");
    rg_schedule *s[] = { rg_optim_constant_lr(o), rg_optim_constant_lr(o),
                         rg_optim_constant_lr(o) };
    INVALID(
        rg_optim_sequential_lr(o, .schedules = { s[0], s[1], s[2] }, .milestones = RG_DIMS(6, 2)),
        "SequentialLR: expects milestones in increasing order");
    rg_optim_free(o);
}
END_TEST

/* With pct_start = 1, the rate rises in the whole cycle. With pct_start = 0, the rate falls in the
 * whole cycle, since the first phase ends at step -1. */
START_TEST(test_one_cycle_of_one_phase) {
    RG_SCOPE();
    rg_optim *o = two_groups(false);
    rg_schedule *s = rg_optim_one_cycle_lr(o, .max_lr = 1, .total_steps = 5, .pct_start = 1,
                                           .anneal_linear = true, .div_factor = 5);
    ck_ok(s);
    for (int t = 0; t < 5; t++) {
        ck_assert_double_eq_tol(rg_optim_group(o, 0)->lr, 0.2 + 0.2 * t, 1e-15);
        ck_ok(t == 4 || rg_schedule_step(s));
    }
    s = rg_optim_one_cycle_lr(o, .max_lr = 1, .total_steps = 5, .pct_start = 0,
                              .anneal_linear = true, .div_factor = 5, .final_div_factor = 2);
    ck_ok(s);
    for (int t = 0; t < 5; t++) {
        ck_assert_double_eq_tol(rg_optim_group(o, 0)->lr, 1 - 0.9 * (t + 1) / 5, 1e-15);
        ck_ok(t == 4 || rg_schedule_step(s));
    }
    rg_optim_free(o);
}
END_TEST

static double by_nan(int64_t epoch, void *unused) {
    (void)unused;
    return epoch ? NAN : 1;
}
static double scaled_by_nan(double x, void *unused) {
    (void)x;
    (void)unused;
    return NAN;
}

/* A rate that is NaN is refused, and the error names its cause. */
START_TEST(test_rates_of_nan) {
    RG_SCOPE();
    rg_optim *o = two_groups(false);
    rg_schedule *s = rg_optim_lambda_lr(o, .lr_lambda = by_nan);
    INVALID(rg_schedule_step(s), "LambdaLR: lr_lambda returned nan");
    s = rg_optim_multiplicative_lr(o, .lr_lambda = by_nan);
    INVALID(rg_schedule_step(s), "MultiplicativeLR: lr_lambda returned nan");
    INVALID(rg_optim_cyclic_lr(o, .max_lr = 1, .scale_fn = scaled_by_nan, .cycle_momentum = false),
            "CyclicLR: scale_fn returned nan");
    INVALID(rg_optim_exponential_lr(o, .gamma = NAN), "ExponentialLR: gamma is nan");
    INVALID(rg_optim_cosine_annealing_lr(o, .T_max = 2, .eta_min = NAN),
            "CosineAnnealingLR: eta_min is nan");
    INVALID(rg_optim_polynomial_lr(o, .power = NAN), "PolynomialLR: power is nan");
    INVALID(rg_optim_constant_lr(o, .factor = NAN), "ConstantLR: factor is nan");
    INVALID(rg_optim_cyclic_lr(o, .base_lr = NAN, .max_lr = 1), "CyclicLR: base_lr is nan");
    INVALID(rg_optim_reduce_lr_on_plateau(o, .threshold = NAN),
            "ReduceLROnPlateau: threshold is nan");
    INVALID(rg_optim_reduce_lr_on_plateau(o, .min_lr = NAN), "ReduceLROnPlateau: min_lr is nan");
    INVALID(rg_optim_reduce_lr_on_plateau(o, .eps = NAN), "ReduceLROnPlateau: eps is nan");
    INVALID(rg_optim_one_cycle_lr(o, .max_lr = NAN, .total_steps = 5), "OneCycleLR: max_lr is nan");
    INVALID(rg_optim_one_cycle_lr(o, .max_lr = 1, .total_steps = 5, .div_factor = 0),
            "OneCycleLR: division by zero");
    INVALID(rg_optim_one_cycle_lr(o, .max_lr = 1, .total_steps = 5, .final_div_factor = 0),
            "OneCycleLR: float division by zero");
    rg_optim_group(o, 0)->lr = NAN;
    INVALID(rg_optim_exponential_lr(o, .gamma = 0.5),
            "ExponentialLR: the learning rate before isn't finite");
    rg_optim_free(o);
}
END_TEST

/* After total_iters steps, ConstantLR divides the rate by its factor. If the factor is 0, that step
 * fails, as in torch. */
START_TEST(test_constant_of_nothing) {
    RG_SCOPE();
    rg_optim *o = two_groups(false);
    rg_schedule *s = rg_optim_constant_lr(o, .factor = 0, .total_iters = 2);
    ck_ok(s && rg_schedule_step(s));
    ck_assert(rg_optim_group(o, 0)->lr == 0);
    INVALID(rg_schedule_step(s), "ConstantLR: float division by zero");
    rg_optim_free(o);
}
END_TEST

/* The last phase has no steps if the first one has all of them: a division of 1 by 0 fails, as that
 * of 0 does, and leaves rate and momentum as they were. */
START_TEST(test_one_cycle_without_a_last_phase) {
    RG_SCOPE();
    for (int linear = 0; linear < 2; linear++) {
        rg_optim *o = two_groups(true);
        rg_schedule *s = rg_optim_one_cycle_lr(o, .max_lr = 0.5, .total_steps = 4, .pct_start = 1,
                                               .anneal_linear = linear);
        for (int i = 0; i < 3; i++)
            ck_ok(rg_schedule_step(s));
        const double beta = rg_optim_group(o, 0)->betas[0];
        INVALID(rg_schedule_step(s), "OneCycleLR: float division by zero");
        ck_assert(rg_optim_group(o, 0)->lr == 0.5);
        ck_assert(rg_optim_group(o, 0)->betas[0] == beta);
        rg_optim_free(o);
    }
}
END_TEST

START_TEST(test_one_cycle_of_a_later_group) {
    RG_SCOPE();
    rg_optim *o = two_groups(false);
    rg_schedule *s = rg_optim_one_cycle_lr(o, .max_lr = 0.5, .total_steps = 9,
                                           .cycle_momentum = false);
    ck_ok(s && rg_schedule_step(s));
    ck_ok(rg_optim_add_group(o, RG_LIST(rg_requires_grad_(rg_zeros(2), true)), .lr = 1));
    INVALID(rg_schedule_step(s), "OneCycleLR: group 2 has no max_lr");
    ck_assert(rg_optim_group(o, 2)->lr == 1);
    rg_optim_free(o);
}
END_TEST

/* If `scale_iterations`, scale_fn gets the number of steps. Otherwise it gets the number of the
 * cycle, which begins with 1. */
START_TEST(test_scales_of_cycles) {
    static const double expected[][7] = { { 0, 0.25, 0.5, 0.25, 0, 0.5 / 3, 1.0 / 3 },
                                          { 0, 0.25, 1.0 / 3, 0.125, 0, 0.5 / 6, 1.0 / 7 } };
    for (int by_steps = 0; by_steps < 2; by_steps++) {
        RG_SCOPE();
        rg_optim *o = two_groups(false);
        rg_schedule *s = rg_optim_cyclic_lr(o, .max_lr = 1, .step_size_up = 2,
                                            .scale_fn = falling_scale, .exp_range = true,
                                            .scale_iterations = by_steps, .cycle_momentum = false);
        ck_ok(s);
        for (int t = 0; t < 7; t++) {
            ck_assert_double_eq_tol(rg_optim_group(o, 1)->lr, expected[by_steps][t], 1e-15);
            ck_ok(rg_schedule_step(s));
        }
        rg_optim_free(o);
    }
}
END_TEST

static double by_place(int64_t t, void *context) {
    int *calls = context;
    return t ? ++*calls : 1;
}

/* The lists of a schedule may be full: RG_MOST_BY_GROUP lambdas for as many groups, and a sequence
 * of RG_MAX_DIMS + 1 schedules. */
START_TEST(test_full_lists) {
    RG_SCOPE();
    int calls = 0;
    rg_optim *o = rg_optim_sgd(RG_LIST(rg_requires_grad_(rg_zeros(1), true)), .lr = 1);
    rg_schedule_options q = RG_SCHEDULE_(.context = &calls);
    for (int i = 1; i < RG_MOST_BY_GROUP; i++)
        ck_ok(rg_optim_add_group(o, RG_LIST(rg_requires_grad_(rg_zeros(1), true))));
    for (int i = 0; i < RG_MOST_BY_GROUP; i++)
        q.lr_lambdas[i] = by_place;
    rg_schedule *s = rg_optim_schedule(o, RG_LAMBDA_LR, q);
    ck_ok(s && rg_schedule_step(s));
    for (int i = 0; i < RG_MOST_BY_GROUP; i++)
        ck_assert(rg_optim_group(o, i)->lr == i + 1);
    rg_optim_free(o);

    o = two_groups(false);
    q = RG_SCHEDULE_(.milestones = RG_DIMS(1, 2, 3, 4, 5, 6, 7, 8));
    for (int i = 0; i <= RG_MAX_DIMS; i++)
        q.schedules[i] = rg_optim_constant_lr(o, .factor = 1.0 / (i + 1), .total_iters = 2);
    s = rg_optim_schedule(o, RG_SEQUENTIAL_LR, q);
    ck_ok(s);
    for (int i = 0; i <= RG_MAX_DIMS; i++) {
        ck_assert_double_eq_tol(rg_optim_group(o, 0)->lr, 0.1 / (i + 1), 1e-15);
        ck_ok(rg_schedule_step(s));
    }
    rg_optim_free(o);
}
END_TEST

/* As in torch, the schedules of a sequence wait at epoch -1, except for the one that is stepped
 * first. If a milestone is 0 or less, a later schedule of the list is stepped first. */
START_TEST(test_sequences_begin) {
    static const struct {
        int n;
        int64_t milestones[2];
        double epochs[3], rates[4];
    } want[] = {
        { 1, { 2 }, { 0, -1 }, { 1, 0.5, 1, 0.5 } },
        { 1, { 0 }, { -1, 0 }, { 1, 0.5, 0.25, 0.125 } },
        { 2, { 0, 2 }, { -1, 0, -1 }, { 1, 0.5, 1, 0.5 } },
        { 2, { 0, 0 }, { -1, -1, 0 }, { 1, 0.5, 0.25, 0.125 } },
        { 2, { -1, 2 }, { -1, 0, -1 }, { 1, 0.5, 1, 0.5 } },
    };
    for (int i = 0; i < RG_COUNT(want); i++) {
        RG_SCOPE();
        rg_optim *o = rg_optim_sgd(RG_LIST(rg_requires_grad_(rg_zeros(1), true)), .lr = 1);
        rg_schedule_options q = RG_SCHEDULE_(.milestones = { .n = want[i].n });
        for (int k = 0; k <= want[i].n; k++)
            q.schedules[k] = rg_optim_exponential_lr(o, .gamma = 0.5);
        for (int k = 0; k < want[i].n; k++)
            q.milestones.v[k] = want[i].milestones[k];
        rg_schedule *s = rg_optim_schedule(o, RG_SEQUENTIAL_LR, q);
        ck_ok(s);
        rg_named_list d = rg_schedule_state_dict(s);
        for (int k = 0; k <= want[i].n; k++) {
            char name[40];
            snprintf(name, sizeof name, "_schedulers.%d.last_epoch", k);
            for (int e = 0; e < d.n; e++)
                if (strcmp(d.v[e].name, name) == 0)
                    ck_assert_double_eq(rg_item(d.v[e].tensor), want[i].epochs[k]);
        }
        for (int t = 0; t < 4; t++) {
            ck_assert_double_eq(rg_optim_group(o, 0)->lr, want[i].rates[t]);
            ck_ok(rg_schedule_step(s));
        }
        rg_optim_free(o);
    }
}
END_TEST

/* If a schedule waits for its turn in a sequence, but is stepped by itself, it begins at epoch 0.
 */
START_TEST(test_restarts_begin) {
    RG_SCOPE();
    rg_optim *o = two_groups(false);
    rg_schedule *first = rg_optim_exponential_lr(o, .gamma = 0.5);
    rg_schedule *waves = rg_optim_cosine_annealing_warm_restarts(o, .T_0 = 2);
    ck_ok(rg_optim_sequential_lr(o, .schedules = { first, waves }, .milestones = RG_DIMS(9)));
    ck_ok(rg_schedule_step(waves));
    ck_assert_double_eq(rg_optim_group(o, 0)->lr, 0.1);
    ck_ok(rg_schedule_step(waves));
    ck_assert_double_eq_tol(rg_optim_group(o, 0)->lr, 0.05, 1e-15);
    rg_optim_free(o);
}
END_TEST

/* A metric that equals the best one isn't better. A rate that would fall by no more than eps
 * stays. */
START_TEST(test_plateau_at_its_bounds) {
    for (int way = 0; way < 4; way++) {
        RG_SCOPE();
        rg_optim *o = two_groups(false);
        const bool max = way % 2, absolute = way / 2;
        rg_optim_group(o, 0)->lr = 1;
        rg_optim_group(o, 1)->lr = 1.25;
        rg_schedule *s = rg_optim_reduce_lr_on_plateau(o, .mode_max = max, .patience = 0,
                                                       .threshold_abs = absolute, .threshold = 0,
                                                       .factor = 0.5, .eps = 0.5);
        ck_ok(rg_schedule_step_metric(s, 3));
        ck_assert(rg_optim_group(o, 1)->lr == 1.25);
        ck_ok(rg_schedule_step_metric(s, 3));
        ck_assert(rg_optim_group(o, 0)->lr == 1 && rg_optim_group(o, 1)->lr == 0.625);
        rg_optim_free(o);
    }
}
END_TEST

/* A cyclic schedule writes the same options into a group as in torch. It writes momenta only if
 * cycle_momentum is set. */
START_TEST(test_groups_of_cycles) {
    for (int momenta = 0; momenta < 2; momenta++) {
        RG_SCOPE();
        rg_optim *o = two_groups(false), *q = two_groups(false);
        ck_ok(rg_optim_one_cycle_lr(o, .max_lr = 1, .total_steps = 5, .cycle_momentum = momenta));
        ck_ok(rg_optim_cyclic_lr(q, .base_lr = 0.25, .max_lr = 1, .cycle_momentum = momenta));
        rg_optim *both[] = { o, q };
        for (int k = 0; k < 2; k++) {
            rg_named_list d = rg_optim_state_dict(both[k]);
            int n = 0;
            for (int i = 0; i < d.n; i++)
                n += strstr(d.v[i].name, "_momentum") != NULL;
            ck_assert_int_eq(n, momenta ? 4 : 0);
            rg_optim_free(k ? NULL : both[k]);
        }
        ck_assert(rg_optim_group(q, 0)->initial_lr == 0.25);
        rg_optim_free(q);
    }
    /* With cycle_momentum = false, the optimizer needs no momentum. */
    RG_SCOPE();
    rg_optim *o = rg_optim_adagrad(RG_LIST(rg_requires_grad_(rg_zeros(1), true)));
    ck_ok(rg_optim_cyclic_lr(o, .base_lr = 0.25, .max_lr = 1, .cycle_momentum = false));
    ck_fails(rg_optim_cyclic_lr(o, .base_lr = 0.25, .max_lr = 1), RG_VALUE_ERROR,
             "CyclicLR: optimizer must support momentum or beta1 with `cycle_momentum` option");
    rg_optim_free(o);
}
END_TEST

/* Only warm restarts refuse an epoch below 0, as in torch. */
START_TEST(test_epochs_before_the_first) {
    RG_SCOPE();
    rg_optim *o = two_groups(false);
    rg_schedule *s = rg_optim_exponential_lr(o, .gamma = 0.5);
    ck_ok(rg_schedule_step_to(s, -1));
    ck_assert_double_eq(rg_optim_group(o, 0)->lr, 0.2);
    rg_optim_free(o);
    o = two_groups(false);
    s = rg_optim_cosine_annealing_warm_restarts(o, .T_0 = 3);
    ck_fails(rg_schedule_step_to(s, -1), RG_VALUE_ERROR,
             "CosineAnnealingWarmRestarts: Expected non-negative epoch, but got -1");
    rg_optim_free(o);
}
END_TEST

/* After rg_schedule_step_to, a schedule goes on as a schedule that was stepped to that epoch. */
START_TEST(test_on_from_an_epoch) {
    for (int64_t epoch = 0; epoch < 40; epoch++)
        for (int times = 1; times < 3; times++) {
            RG_SCOPE();
            rg_optim *o = two_groups(false), *q = two_groups(false);
            rg_schedule *s = rg_optim_cosine_annealing_warm_restarts(o, .T_0 = 3, .T_mult = times);
            rg_schedule *t = rg_optim_cosine_annealing_warm_restarts(q, .T_0 = 3, .T_mult = times);
            ck_ok(rg_schedule_step_to(s, epoch));
            for (int64_t i = 0; i < epoch; i++)
                ck_ok(rg_schedule_step(t));
            for (int i = 0; i < 4; i++) {
                ck_assert_double_eq_tol(rg_optim_group(o, 0)->lr, rg_optim_group(q, 0)->lr, 1e-12);
                ck_ok(rg_schedule_step(s) && rg_schedule_step(t));
            }
            rg_optim_free(o);
            rg_optim_free(q);
        }
}
END_TEST

static void step_schedule(void *s) { rg_schedule_step(s); }
static void step_to_epoch(void *s) { rg_schedule_step_to(s, 3); }
static void step_by_metric(void *s) { rg_schedule_step_metric(s, 1); }

/* A schedule's step can't be recorded. The recording fails and leaves the rate as it is. */
START_TEST(test_no_recording) {
    RG_SCOPE();
    rg_optim *o = two_groups(false);
    rg_schedule *s = rg_optim_exponential_lr(o, .gamma = 0.5);
    rg_schedule *p = rg_optim_reduce_lr_on_plateau(o, .patience = 0, .threshold_abs = true,
                                                   .threshold = 1);
    ck_ok(s && p && rg_schedule_step_metric(p, 0));
    ck_fails(rg_record(step_schedule, s), RG_NOT_IMPLEMENTED, "schedule_step: can't be part of");
    ck_fails(rg_record(step_to_epoch, s), RG_NOT_IMPLEMENTED, "schedule_step_to: can't be part");
    ck_fails(rg_record(step_by_metric, p), RG_NOT_IMPLEMENTED, "schedule_step_metric: can't be");
    ck_assert_double_eq(rg_optim_group(o, 0)->lr, 0.1);
    rg_optim_free(o);
}
END_TEST

/* A metric must be better by the threshold, which is absolute or a fraction of the best metric. */
START_TEST(test_thresholds) {
    static const struct {
        bool max, absolute;
        double metric;
        bool better;
    } cases[] = { { false, true, 9.4, true },   { false, true, 9.5, false },
                  { false, false, 9.4, false }, { false, false, 4.9, true },
                  { true, true, 10.6, true },   { true, true, 10.5, false },
                  { true, false, 14.9, false }, { true, false, 15.1, true } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        RG_SCOPE();
        rg_optim *o = two_groups(false);
        rg_schedule *s = rg_optim_reduce_lr_on_plateau(o, .mode_max = cases[i].max, .patience = 0,
                                                       .threshold_abs = cases[i].absolute,
                                                       .threshold = 0.5);
        ck_ok(rg_schedule_step_metric(s, 10) && rg_schedule_step_metric(s, cases[i].metric));
        ck_assert_msg((rg_optim_group(o, 0)->lr == 0.1) == cases[i].better, "case %d", (int)i);
        rg_optim_free(o);
    }
}
END_TEST

/* If a lambda frees the optimizer, the step fails. This holds in a chain of schedules, too. */
static double frees(int64_t epoch, void *optim) {
    if (epoch > 0)
        rg_optim_free(optim);
    return 0.5;
}

START_TEST(test_lambda_that_frees_the_optimizer) {
    for (int chained = 0; chained < 2; chained++) {
        rg_tensor *w = rg_requires_grad_(rg_ones(2), true);
        rg_optim *o = rg_optim_sgd(RG_LIST(w), .lr = 1);
        rg_schedule *s = rg_optim_lambda_lr(o, .lr_lambda = frees, .context = o);
        if (chained)
            s = rg_optim_chained_scheduler(o, .schedules = { s, rg_optim_constant_lr(o) });
        ck_ok(s);
        ck_fails(rg_schedule_step(s), RG_RELEASED, "lr_lambda has freed the optimizer");
    }
}
END_TEST

RG_TESTS(schedule, test_epochs_before_the_first, test_no_recording, test_sequences_begin,
         test_rates, test_newer_rates, test_errors, test_groups_that_come_later,
         test_the_longest_chain, test_options_at_their_bounds, test_one_cycle_of_one_phase,
         test_constant_of_nothing, test_one_cycle_without_a_last_phase,
         test_one_cycle_of_a_later_group, test_rates_of_nan, test_scales_of_cycles, test_full_lists,
         test_restarts_begin, test_plateau_at_its_bounds, test_thresholds, test_groups_of_cycles,
         test_on_from_an_epoch, test_unexpected_options, test_lambda_that_frees_the_optimizer)
