/*
 * schedules.c: computes the learning rate of each schedule at epoch t. A function *_next computes
 * the rate from the previous rate, as torch's get_lr does. A function *_closed computes it from the
 * initial rate, as torch's closed form does. If a schedule has a single function, that function is
 * used in both cases.
 */
#include "optimizer_structs.h"
#include "tensor/messages/callback.h"

#include <math.h>

static double base_lr(const rg_schedule *s, const rg_param_group *g) {
    return rgi_base_lr(s, rgi_group_place(s, g));
}

/* Returns a / b, or NaN if b is 0. rgi_set_rate fails if a rate is NaN. (In torch, the division
 * itself fails.) */
static double ratio(double a, double b) { return b == 0 ? NAN : a / b; }

/* ---- StepLR: the rate times gamma after every step_size epochs ----------------- */

static double step_next(const rg_schedule *s, rg_param_group *g, double t) {
    bool falls = t > 0 && fmod(t, (double)s->o.step_size) == 0;
    return falls ? g->lr * s->o.gamma : g->lr;
}

static double step_closed(const rg_schedule *s, rg_param_group *g, double t) {
    return base_lr(s, g) * pow(s->o.gamma, floor(t / (double)s->o.step_size));
}

/* ---- MultiStepLR: the rate times gamma at each milestone ----------------------- */

int rgi_milestones_at(const rg_schedule *s, double t) {
    int n = 0;
    for (int i = 0; i < s->o.milestones.n; i++)
        n += (double)s->o.milestones.v[i] == t;
    return n;
}

int rgi_milestones_until(const rg_schedule *s, double t) {
    int n = 0;
    for (int i = 0; i < s->o.milestones.n; i++)
        n += (double)s->o.milestones.v[i] <= t;
    return n;
}

static double multi_step_next(const rg_schedule *s, rg_param_group *g, double t) {
    return g->lr * pow(s->o.gamma, rgi_milestones_at(s, t));
}

static double multi_step_closed(const rg_schedule *s, rg_param_group *g, double t) {
    return base_lr(s, g) * pow(s->o.gamma, rgi_milestones_until(s, t));
}

/* ---- ExponentialLR: the rate times gamma after each epoch ---------------------- */

static double exponential_next(const rg_schedule *s, rg_param_group *g, double t) {
    return t > 0 ? g->lr * s->o.gamma : g->lr;
}

static double exponential_closed(const rg_schedule *s, rg_param_group *g, double t) {
    return base_lr(s, g) * pow(s->o.gamma, t);
}

/* ---- LinearLR: a factor from start_factor to end_factor in total_iters epochs -- */

/* In one epoch the factor grows by slope / n. Let f be the factor at t - 1, which is start_factor +
 * (t - 1) * slope / n. Then the rate is multiplied by 1 + slope / (n * f). */
static double linear_next(const rg_schedule *s, rg_param_group *g, double t) {
    double slope = s->o.end_factor - s->o.start_factor, n = (double)s->o.total_iters;
    if (t == 0)
        return g->lr * s->o.start_factor;
    if (t > n)
        return g->lr;
    return g->lr * (1 + ratio(slope, n * s->o.start_factor + (t - 1) * slope));
}

static double linear_closed(const rg_schedule *s, rg_param_group *g, double t) {
    double slope = s->o.end_factor - s->o.start_factor, n = (double)s->o.total_iters;
    return base_lr(s, g) * (s->o.start_factor + slope * fmin(n, t) / n);
}

/* ---- CosineAnnealingLR: half a cosine down to eta_min in T_max epochs ---------- */

static double cosine_next(const rg_schedule *s, rg_param_group *g, double t) {
    double n = (double)s->o.T_max, low = s->o.eta_min;
    if (t == 0)
        return g->lr;
    if (fmod(t - 1 - n, 2 * n) == 0)
        return g->lr + (base_lr(s, g) - low) * (1 - cos(M_PI / n)) / 2;
    return ratio(1 + cos(M_PI * t / n), 1 + cos(M_PI * (t - 1) / n)) * (g->lr - low) + low;
}

static double cosine_closed(const rg_schedule *s, rg_param_group *g, double t) {
    double n = (double)s->o.T_max, low = s->o.eta_min;
    return low + (base_lr(s, g) - low) * (1 + cos(M_PI * t / n)) / 2;
}

/* ---- LambdaLR: the initial rate times the program's function of t -------------- */

/* Returns the program's factor at epoch t, which lr_lambda returns or, if that isn't given, the
 * group's own function in lr_lambdas. */
static double lambda_at(const rg_schedule *s, const rg_param_group *g, double t) {
    rg_lr_lambda *one = s->o.lr_lambda;
    return (one ? one : s->o.lr_lambdas[rgi_group_place(s, g)])((int64_t)t, s->o.context);
}

static double lambda_rate(const rg_schedule *s, rg_param_group *g, double t) {
    return base_lr(s, g) * lambda_at(s, g, t);
}

/* ---- MultiplicativeLR: the previous rate times the program's function of t ----- */

static double multiplicative_next(const rg_schedule *s, rg_param_group *g, double t) {
    return t > 0 ? g->lr * lambda_at(s, g, t) : g->lr;
}

/* Multiplies the present rate by the lambda's value at t, as a step does. rg_schedule_step_to calls
 * this in place of a closed form, because in torch MultiplicativeLR has none. */
static double multiplicative_at(const rg_schedule *s, rg_param_group *g, double t) {
    return g->lr * lambda_at(s, g, t);
}

/* ---- ConstantLR: the initial rate times factor in the first total_iters epochs -- */

static double constant_next(const rg_schedule *s, rg_param_group *g, double t) {
    if (t == 0)
        return g->lr * s->o.factor;
    return t == (double)s->o.total_iters ? g->lr * ratio(1, s->o.factor) : g->lr;
}

static double constant_closed(const rg_schedule *s, rg_param_group *g, double t) {
    const double later = t >= (double)s->o.total_iters;
    return base_lr(s, g) * (s->o.factor + later * (1 - s->o.factor));
}

/* ---- PolynomialLR: the initial rate times (1 - t / total_iters)^power ---------- */

static double polynomial_next(const rg_schedule *s, rg_param_group *g, double t) {
    const double n = (double)s->o.total_iters;
    if (t == 0 || t > n)
        return g->lr;
    return g->lr * pow(ratio(1 - t / n, 1 - (t - 1) / n), s->o.power);
}

static double polynomial_closed(const rg_schedule *s, rg_param_group *g, double t) {
    const double n = (double)s->o.total_iters;
    return base_lr(s, g) * pow(1 - fmin(n, t) / n, s->o.power);
}

/* ---- CosineAnnealingWarmRestarts: half a cosine down, again and again ---------- */

static double warm_restarts(const rg_schedule *s, rg_param_group *g, double t) {
    const double low = s->o.eta_min;
    (void)t;
    return low
           + (base_lr(s, g) - low) * (1 + cos(M_PI * s->state[RG_T_CUR] / s->state[RG_T_I])) / 2;
}

/* ---- CyclicLR: up from base_lr to max_lr and down, again and again ------------- */

/* Returns the factor by which the height of this cycle, max_lr - base_lr, is multiplied at t. */
static double cycle_scale(const rg_schedule *s, double cycle, double t) {
    const rg_schedule_options *o = &s->o;
    if (o->scale_fn)
        return o->scale_fn(o->scale_iterations ? t : cycle, o->context);
    if (o->exp_range)
        return pow(o->gamma, t);
    return o->triangular2 ? 1 / pow(2, cycle - 1) : 1;
}

/* Returns CyclicLR's learning rate at t. If cycle_momentum is set, also sets the group's momentum
 * (or Adam's first beta), which falls while the learning rate rises. */
static double cyclic(const rg_schedule *s, rg_param_group *g, double t) {
    const size_t i = rgi_group_place(s, g);
    const double size = s->state[RG_TOTAL_SIZE], up = s->state[RG_STEP_RATIO];
    const double cycle = floor(1 + t / size), x = 1 + t / size - cycle;
    const double part = x <= up ? ratio(x, up) : ratio(x - 1, up - 1);
    const double scale = cycle_scale(s, cycle, t);
    if (s->o.cycle_momentum && !isnan(part)) {
        const double base = rgi_of_group(&s->o.base_momentums, s->o.base_momentum, i);
        const double most = rgi_of_group(&s->o.max_momentums, s->o.max_momentum, i);
        double *cycled = rgi_option_set(g->momentum) ? &g->momentum : &g->betas[0];
        *cycled = most - (most - base) * part * scale;
    }
    const double base = rgi_of_group(&s->o.base_lrs, s->o.base_lr, i);
    const double most = rgi_of_group(&s->o.max_lrs, s->o.max_lr, i);
    return base + (most - base) * part * scale;
}

/* ---- OneCycleLR: up to max_lr, down again, and far below the first rate ------- */

/* Interpolates between `from` (part = 0) and `to` (part = 1), linearly or along a cosine. */
static double anneal(const rg_schedule *s, double from, double to, double part) {
    if (s->o.anneal_linear)
        return (to - from) * part + from;
    return to + (from - to) / 2 * (cos(M_PI * part) + 1);
}

/* A point where a phase of OneCycleLR begins or ends: at epoch t a group has this learning rate and
 * this momentum. Within a phase both are interpolated between its two points. */
typedef struct cycle_corner {
    double t, lr, momentum;
} cycle_corner;

/* Returns OneCycleLR's learning rate at t. If cycle_momentum is set, also sets the group's momentum
 * (or Adam's first beta). There are two phases or, if three_phase is true, three. */
static double one_cycle(const rg_schedule *s, rg_param_group *g, double t) {
    if (!rgi_option_set(g->max_lr)) {
        rgi_fail(RG_VALUE_ERROR, rgi_schedule_rows[s->kind].name,
                 "group %d has no max_lr, since it was added after the schedule was made",
                 (int)rgi_group_place(s, g));
        return NAN;
    }
    double n = (double)s->o.total_steps, start = s->o.pct_start;
    cycle_corner corner[4] = {
        { 0, g->initial_lr, g->max_momentum },
        { start * n - 1, g->max_lr, g->base_momentum },
    };
    int corners = 2;
    if (s->o.three_phase)
        corner[corners++] = (cycle_corner){ 2 * start * n - 2, g->initial_lr, g->max_momentum };
    corner[corners++] = (cycle_corner){ n - 1, g->min_lr, g->max_momentum };
    const cycle_corner *from = corner, *last_phase = corner + corners - 2;
    while (from < last_phase && t > from[1].t)
        from++;
    const cycle_corner *to = from + 1;
    const double part = ratio(t - from->t, to->t - from->t);
    if (s->o.cycle_momentum && !isnan(part)) {
        double *cycled = rgi_option_set(g->momentum) ? &g->momentum : &g->betas[0];
        *cycled = anneal(s, from->momentum, to->momentum, part);
    }
    return anneal(s, from->lr, to->lr, part);
}

/* ---- the table of all schedules ------------------------------------------------ */

/* The names and functions of the schedules. ReduceLROnPlateau, SequentialLR and ChainedScheduler
 * have no functions: schedule.c steps them. */
const rg_schedule_row rgi_schedule_rows[] = {
    [RG_STEP_LR] = { "StepLR", step_next, step_closed },
    [RG_MULTI_STEP_LR] = { "MultiStepLR", multi_step_next, multi_step_closed },
    [RG_EXPONENTIAL_LR] = { "ExponentialLR", exponential_next, exponential_closed },
    [RG_LINEAR_LR] = { "LinearLR", linear_next, linear_closed },
    [RG_LAMBDA_LR] = { "LambdaLR", lambda_rate, lambda_rate },
    [RG_COSINE_ANNEALING_LR] = { "CosineAnnealingLR", cosine_next, cosine_closed },
    [RG_ONE_CYCLE_LR] = { "OneCycleLR", one_cycle, one_cycle },
    [RG_REDUCE_LR_ON_PLATEAU] = { "ReduceLROnPlateau", NULL, NULL },
    [RG_SEQUENTIAL_LR] = { "SequentialLR", NULL, NULL },
    [RG_CONSTANT_LR] = { "ConstantLR", constant_next, constant_closed },
    [RG_POLYNOMIAL_LR] = { "PolynomialLR", polynomial_next, polynomial_closed },
    [RG_MULTIPLICATIVE_LR] = { "MultiplicativeLR", multiplicative_next, multiplicative_at },
    [RG_CYCLIC_LR] = { "CyclicLR", cyclic, cyclic },
    [RG_COSINE_ANNEALING_WARM_RESTARTS] = { "CosineAnnealingWarmRestarts", warm_restarts,
                                            warm_restarts },
    [RG_CHAINED_SCHEDULER] = { "ChainedScheduler", NULL, NULL },
};

/* ---- setting the rate of a group ------------------------------------------------ */

/* Fails because the next learning rate of a group is NaN, and names the cause. In torch a division
 * by zero is an error as well; any other NaN becomes the learning rate. */
static bool fail_for_nan(const rg_schedule *s, double rate_before) {
    const rg_schedule_options *q = &s->o;
    const struct {
        const char *what;
        bool is_cause;
    } causes[] = {
        { "the learning rate before isn't finite", !isfinite(rate_before) },
        { "lr_lambda returned nan, or a factor that makes the learning rate nan",
          rgi_is_by_lambda(s->kind) },
        { "scale_fn returned nan, or a scale that makes the learning rate nan",
          s->kind == RG_CYCLIC_LR && q->scale_fn },
        { "float division by zero", true },
    };
    int i = 0;
    while (!causes[i].is_cause)
        i++;
    return rgi_fail(RG_VALUE_ERROR, rgi_schedule_rows[s->kind].name, "%s", causes[i].what);
}

bool rgi_set_rate(const rg_schedule *s, rg_param_group *g, double t, rg_schedule_rate *rate) {
    const int64_t before = rgi_failures();
    const double lr = rate(s, g, t);
    const bool ok = !isnan(lr) || rgi_failures() == before;
    if (!rgi_called(ok, before, RG_RUNTIME_ERROR, rgi_schedule_rows[s->kind].name,
                    "the function of the rate failed, and cleared its error"))
        return false;
    if (isnan(lr))
        return fail_for_nan(s, g->lr);
    g->lr = lr;
    return true;
}
