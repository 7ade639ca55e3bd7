/* Schedules: PyTorch's learning rates, chained, in closed form, and on a plateau; and their errors. */
#include "tests/test.h"
#include "nn/optim.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static rg_optim *two_groups(bool adam) {
    RG_SCOPE();
    rg_tensor *a = rg_requires_grad_(rg_zeros(1), true), *b = rg_requires_grad_(rg_zeros(1), true);
    rg_optim *o = adam ? rg_optim_adam(RG_LIST(a), .lr = 0.1) : rg_optim_sgd(RG_LIST(a), .lr = 0.1, .momentum = 0.9);
    ck_ok(rg_optim_add_group(o, RG_LIST(b), .lr = 0.4));
    return o;
}

static double inverse(int64_t t, void *context) {
    (void)context;
    return 1 / (1 + (double)t);
}

static double metric(int t) { return (t < 20 ? 100 - t : t < 45 ? 80 + t * 7 % 5 / 4096.0 : 79 - t / 2.0) / 64; }

static bool plain(rg_schedule *s, int t) { return (void)t, rg_schedule_step(s); }
static bool closed(rg_schedule *s, int t) { return rg_schedule_step_to(s, t * 3 % 61); }
static bool plateau(rg_schedule *s, int t) { return rg_schedule_step_metric(s, metric(t)); }

static int follow(const char *name, rg_optim *o, rg_schedule *s, bool (*step)(rg_schedule *, int), const double *want) {
    int bad = 0;
    ck_ok(s);
    for (int t = 0; t <= 60; t++, want += 3) {
        if (t) ck_ok(step(s, t));
        rg_param_group *a = rg_optim_group(o, 0), *b = rg_optim_group(o, 1);
        double got[] = { a->lr, b->lr, strstr(name, "Adam") ? b->betas[0] : b->momentum };
        for (int k = 0; k < 3; k++)
            if (!(fabs(got[k] - want[k]) <= 1e-14) && !bad++) printf("%s, step %d: %.17g, PyTorch %.17g\n", name, t, got[k], want[k]);
    }
    rg_optim_free(o);
    return bad;
}

START_TEST(test_rates) {
    int bad = 0;
    rg_optim *o;
#define FOLLOW(name, adam, make, step, ...) o = two_groups(adam), bad += follow(name, o, make, step, (const double[]){ __VA_ARGS__ });
#define SGD(name, make, ...)     FOLLOW(#name, false, make, plain, __VA_ARGS__)
#define ADAM(name, make, ...)    FOLLOW(#name " of Adam", true, make, plain, __VA_ARGS__)
#define CLOSED(name, make, ...)  FOLLOW(#name " closed", false, make, closed, __VA_ARGS__)
#define PLATEAU(name, make, ...) FOLLOW(#name, false, make, plateau, __VA_ARGS__)
#include "tests/golden/schedule.inc"
    ck_assert_int_eq(bad, 0);
}
END_TEST

RG_TESTS(schedule, test_rates)
