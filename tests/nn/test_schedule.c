/* Schedules: PyTorch's learning rates, chained, in closed form, and on a plateau; and their errors.
 */
#include "tests/test.h"
#include "nn/optim.h"

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

static double metric(int t) {
    return (t < 20 ? 100 - t : t < 45 ? 80 + t * 7 % 5 / 4096.0 : 79 - t / 2.0) / 64;
}

static bool plain(rg_schedule *s, int t) { return (void)t, rg_schedule_step(s); }
static bool closed(rg_schedule *s, int t) { return rg_schedule_step_to(s, t * 3 % 61); }
static bool plateau(rg_schedule *s, int t) { return rg_schedule_step_metric(s, metric(t)); }

static int follow(const char *name, rg_optim *o, rg_schedule *s, bool (*step)(rg_schedule *, int),
                  const double *want) {
    int bad = 0;
    ck_ok(s);
    for (int t = 0; t <= 60; t++, want += 3) {
        if (t)
            ck_ok(step(s, t));
        rg_param_group *a = rg_optim_group(o, 0), *b = rg_optim_group(o, 1);
        double got[] = { a->lr, b->lr, strstr(name, "Adam") ? b->betas[0] : b->momentum };
        for (int k = 0; k < 3; k++)
            if (!(fabs(got[k] - want[k]) <= 1e-14) && !bad++)
                printf("%s, step %d: %.17g, PyTorch %.17g\n", name, t, got[k], want[k]);
    }
    rg_optim_free(o);
    return bad;
}

START_TEST(test_rates) {
    int bad = 0;
    rg_optim *o;
#define FOLLOW(name, adam, make, step, ...) \
    o = two_groups(adam), bad += follow(name, o, make, step, (const double[]){ __VA_ARGS__ });
#define SGD(name, make, ...)     FOLLOW(#name, false, make, plain, __VA_ARGS__)
#define ADAM(name, make, ...)    FOLLOW(#name " of Adam", true, make, plain, __VA_ARGS__)
#define CLOSED(name, make, ...)  FOLLOW(#name " closed", false, make, closed, __VA_ARGS__)
#define PLATEAU(name, make, ...) FOLLOW(#name, false, make, plateau, __VA_ARGS__)
#include "tests/golden/schedule.inc"
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
    ck_assert(rg_optim_group(o, 0)->lr == 0.5); /* untouched */
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

RG_TESTS(schedule, test_rates, test_errors)
