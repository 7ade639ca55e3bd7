/*
 * schedule_checks.c: checks the options of schedules: that a schedule has the options that were
 * given, and that their values suit it.
 */
#include "optimizer_structs.h"
#include "tensor/text/c_locale.h"
#include "tensor/text/digits.h"

#include <math.h>
#include <string.h>

/* ---- options that a schedule doesn't have ----------------------------------------------- */

/* OPTION makes a row of the table `options`: the option's name, its bytes in rg_schedule_options,
 * and the kinds of schedules that have it. The option was given if these bytes differ from the
 * default. PART_OF_OPTION makes a row with the bytes of a part of the option, such as a list's
 * length. */
#define BIT(kind)                 (1u << RG_##kind)
#define OPTION(field, kinds)      PART_OF_OPTION(field, field, kinds)
#define PART_OF_OPTION(name, part, kinds)                                                     \
    { #name, offsetof(rg_schedule_options, part), sizeof(((rg_schedule_options *)0)->part), \
      (kinds) }
enum {
    LAMBDA = BIT(LAMBDA_LR) | BIT(MULTIPLICATIVE_LR),
    COSINE = BIT(COSINE_ANNEALING_LR) | BIT(COSINE_ANNEALING_WARM_RESTARTS),
    CYCLES = BIT(CYCLIC_LR) | BIT(ONE_CYCLE_LR),
    GAMMA = BIT(STEP_LR) | BIT(MULTI_STEP_LR) | BIT(EXPONENTIAL_LR) | BIT(CYCLIC_LR),
    ITERS = BIT(LINEAR_LR) | BIT(CONSTANT_LR) | BIT(POLYNOMIAL_LR)
};
static const struct {
    const char *name;
    size_t at, bytes;
    unsigned kinds;
} options[] = {
    OPTION(step_size, BIT(STEP_LR)),
    OPTION(total_iters, ITERS),
    OPTION(start_factor, BIT(LINEAR_LR)),
    OPTION(end_factor, BIT(LINEAR_LR)),
    OPTION(power, BIT(POLYNOMIAL_LR)),
    OPTION(T_max, BIT(COSINE_ANNEALING_LR)),
    OPTION(T_0, BIT(COSINE_ANNEALING_WARM_RESTARTS)),
    OPTION(T_mult, BIT(COSINE_ANNEALING_WARM_RESTARTS)),
    OPTION(eta_min, COSINE),
    OPTION(gamma, GAMMA),
    PART_OF_OPTION(milestones, milestones.n, BIT(MULTI_STEP_LR) | BIT(SEQUENTIAL_LR)),
    OPTION(lr_lambda, LAMBDA),
    PART_OF_OPTION(lr_lambdas, lr_lambdas[0], LAMBDA),
    OPTION(context, LAMBDA | BIT(CYCLIC_LR)),
    OPTION(base_lr, BIT(CYCLIC_LR)),
    PART_OF_OPTION(base_lrs, base_lrs.n, BIT(CYCLIC_LR)),
    OPTION(step_size_up, BIT(CYCLIC_LR)),
    OPTION(step_size_down, BIT(CYCLIC_LR)),
    OPTION(triangular2, BIT(CYCLIC_LR)),
    OPTION(exp_range, BIT(CYCLIC_LR)),
    OPTION(scale_iterations, BIT(CYCLIC_LR)),
    OPTION(scale_fn, BIT(CYCLIC_LR)),
    OPTION(max_lr, CYCLES),
    PART_OF_OPTION(max_lrs, max_lrs.n, CYCLES),
    OPTION(total_steps, BIT(ONE_CYCLE_LR)),
    OPTION(pct_start, BIT(ONE_CYCLE_LR)),
    OPTION(anneal_linear, BIT(ONE_CYCLE_LR)),
    OPTION(cycle_momentum, CYCLES),
    OPTION(three_phase, BIT(ONE_CYCLE_LR)),
    OPTION(base_momentum, CYCLES),
    OPTION(max_momentum, CYCLES),
    PART_OF_OPTION(base_momentums, base_momentums.n, CYCLES),
    PART_OF_OPTION(max_momentums, max_momentums.n, CYCLES),
    OPTION(div_factor, BIT(ONE_CYCLE_LR)),
    OPTION(final_div_factor, BIT(ONE_CYCLE_LR)),
    OPTION(mode_max, BIT(REDUCE_LR_ON_PLATEAU)),
    OPTION(threshold_abs, BIT(REDUCE_LR_ON_PLATEAU)),
    OPTION(factor, BIT(REDUCE_LR_ON_PLATEAU) | BIT(CONSTANT_LR)),
    OPTION(threshold, BIT(REDUCE_LR_ON_PLATEAU)),
    OPTION(min_lr, BIT(REDUCE_LR_ON_PLATEAU)),
    PART_OF_OPTION(min_lrs, min_lrs.n, BIT(REDUCE_LR_ON_PLATEAU)),
    OPTION(eps, BIT(REDUCE_LR_ON_PLATEAU)),
    OPTION(patience, BIT(REDUCE_LR_ON_PLATEAU)),
    OPTION(cooldown, BIT(REDUCE_LR_ON_PLATEAU)),
    PART_OF_OPTION(schedules, schedules[0], BIT(SEQUENTIAL_LR) | BIT(CHAINED_SCHEDULER)),
};

bool rgi_schedule_has_options(rg_schedule_kind kind, const rg_schedule_options *q) {
    const rg_schedule_options defaults = RG_SCHEDULE_();
    for (int i = 0; i < RG_COUNT(options); i++) {
        const char *given = (const char *)q + options[i].at;
        const bool has = options[i].kinds >> kind & 1;
        const bool other = memcmp(given, (const char *)&defaults + options[i].at, options[i].bytes);
        RG_FAIL_AS_IF(RG_TYPE_ERROR, other && !has, rgi_schedule_rows[kind].name,
                      "got an unexpected keyword argument '%s'", options[i].name);
    }
    return true;
}

/* ---- requirements on values -------------------------------------------------------------- */

/* A requirement that the options of one kind of schedule must meet. `kept` is true if they meet it.
 * If they don't, `complaint` is the error message, as in torch; if the message ends with a blank,
 * `number` is appended. */
typedef struct schedule_rule {
    rg_schedule_kind kind;
    bool kept;
    const char *complaint;
    double number;
} schedule_rule;

static bool check_rules(rg_schedule_kind kind, int n, const schedule_rule rules[]) {
    for (int i = 0; i < n; i++) {
        const char *complaint = rules[i].complaint;
        if (rules[i].kind != kind || rules[i].kept)
            continue;
        const bool ends_in_number = complaint[strlen(complaint) - 1] == ' ';
        return rgi_fail(RG_VALUE_ERROR, rgi_schedule_rows[kind].name, "%s%s", complaint,
                        ends_in_number ? rgi_number(rules[i].number) : "");
    }
    return true;
}

/* Returns whether the optimizer has an option that CyclicLR and OneCycleLR can cycle together with
 * the learning rate: a momentum, or Adam's first beta. */
static bool has_momentum(const rg_optim *o) {
    const rg_param_group *g = &o->defaults.options;
    return rgi_option_set(g->momentum) || rgi_option_set(g->betas[0]);
}

static bool check_one_cycle(const rg_optim *o, const rg_schedule_options *q) {
    const schedule_rule rules[] = {
        { RG_ONE_CYCLE_LR, q->total_steps > 0, "Expected positive integer total_steps, but got ",
          (double)q->total_steps },
        { RG_ONE_CYCLE_LR, q->pct_start >= 0 && q->pct_start <= 1,
          "Expected float between 0 and 1 pct_start, but got ", q->pct_start },
        { RG_ONE_CYCLE_LR, q->div_factor != 0 && !isnan(q->div_factor), "division by zero", 0 },
        { RG_ONE_CYCLE_LR, q->final_div_factor != 0 && !isnan(q->final_div_factor),
          "float division by zero", 0 },
        { RG_ONE_CYCLE_LR, !q->cycle_momentum || has_momentum(o),
          "optimizer must support momentum or beta1 with `cycle_momentum` option enabled", 0 },
    };
    return check_rules(RG_ONE_CYCLE_LR, RG_COUNT(rules), rules);
}

/* Returns whether a list of n values is empty or has a value for each group. Fails if not. `name`
 * is the option's name for the error message. */
static bool list_fits(const rg_optim *o, const char *op, const char *name, int n) {
    RG_FAIL_VALUE_IF(n && (size_t)n != o->n_groups, op,
                     "%s must have the same length as optimizer.param_groups. %s has %d values, "
                     "param_groups has %zu.",
                     name, name, n, o->n_groups);
    return true;
}

/* Returns the number of functions in lr_lambdas. There must be one for each group. */
static int count_lambdas(const rg_schedule_options *q) {
    int n = 0;
    while (n < RG_MOST_BY_GROUP && q->lr_lambdas[n])
        n++;
    return n;
}

bool rgi_lists_fit(const rg_optim *o, rg_schedule_kind kind, const rg_schedule_options *q) {
    const char *name = rgi_schedule_rows[kind].name;
    if (rgi_is_by_lambda(kind))
        RG_FAIL_VALUE_IF(!q->lr_lambda && (size_t)count_lambdas(q) != o->n_groups, name,
                         "Expected %zu lr_lambdas, but got %d", o->n_groups, count_lambdas(q));
    if (kind == RG_REDUCE_LR_ON_PLATEAU)
        RG_FAIL_VALUE_IF(q->min_lrs.n && (size_t)q->min_lrs.n != o->n_groups, name,
                         "expected %zu min_lrs, got %d", o->n_groups, q->min_lrs.n);
    return (kind != RG_CYCLIC_LR && kind != RG_ONE_CYCLE_LR)
           || (list_fits(o, name, "base_lr", q->base_lrs.n)
               && list_fits(o, name, "max_lr", q->max_lrs.n)
               && list_fits(o, name, "base_momentum", q->base_momentums.n)
               && list_fits(o, name, "max_momentum", q->max_momentums.n));
}

static bool check_sequential(const rg_optim *o, const rg_schedule_options *q) {
    int n = 0;
    bool fit = true;
    for (; n <= RG_MAX_DIMS && q->schedules[n]; n++)
        fit &= q->schedules[n]->optim == o && rgi_schedule_rows[q->schedules[n]->kind].next;
    bool sorted = true;
    for (int i = 1; i < q->milestones.n; i++)
        sorted &= q->milestones.v[i - 1] <= q->milestones.v[i];
    const schedule_rule rules[] = {
        { RG_SEQUENTIAL_LR, n - 1 == q->milestones.n,
          "Sequential Schedulers expects number of schedulers provided to be one more than the "
          "number of milestone points, but got number of schedulers ",
          n },
        { RG_SEQUENTIAL_LR, fit,
          "expects schedules of the same optimizer, neither ReduceLROnPlateau nor SequentialLR nor "
          "ChainedScheduler",
          0 },
        { RG_SEQUENTIAL_LR, sorted, "expects milestones in increasing order", 0 },
    };
    return check_rules(RG_SEQUENTIAL_LR, RG_COUNT(rules), rules);
}

/* Fails unless at least one schedule is given, all given schedules belong to the optimizer o, and
 * none is a ReduceLROnPlateau, whose steps need a metric. */
static bool check_chained(const rg_optim *o, const rg_schedule_options *q) {
    const char *name = rgi_schedule_rows[RG_CHAINED_SCHEDULER].name;
    RG_FAIL_VALUE_IF(!q->schedules[0], name,
                     "ChainedScheduler expects at least one scheduler to be chained, but got no "
                     "scheduler.");
    for (int i = 0; i <= RG_MAX_DIMS && q->schedules[i]; i++) {
        const rg_schedule *s = q->schedules[i];
        if (!rgi_handle_given(s, name, RG_HANDLE_SCHEDULE))
            return false;
        RG_FAIL_VALUE_IF(s->kind == RG_REDUCE_LR_ON_PLATEAU, name,
                         "ChainedScheduler does not support `ReduceLROnPlateau` scheduler as it "
                         "requires additional kwargs to be specified when calling `step`, but got "
                         "one at index %d in the given schedulers sequence.",
                         i);
        RG_FAIL_VALUE_IF(s->optim != o, name,
                         "ChainedScheduler expects all schedulers to belong to the same optimizer, "
                         "but got scheduler %s at index %d, which is of another %s.",
                         rgi_schedule_rows[s->kind].name, i, s->optim->row->name);
    }
    return true;
}

bool rgi_schedule_check(const rg_optim *o, rg_schedule_kind kind, const rg_schedule_options *q) {
    const schedule_rule rules[] = {
        { kind, q->milestones.n >= 0 && q->milestones.n <= RG_MAX_DIMS,
          "Expected up to 8 milestones, but got ", q->milestones.n },
        { kind, !isnan(q->gamma), "gamma is nan", 0 },
        { kind, !isnan(q->eta_min), "eta_min is nan", 0 },
        { kind, !isnan(q->power), "power is nan", 0 },
        { kind, !isnan(q->factor), "factor is nan", 0 },
        { kind, !isnan(q->base_lr), "base_lr is nan", 0 },
        { kind, !isnan(q->max_lr), "max_lr is nan", 0 },
        { kind, !isnan(q->threshold), "threshold is nan", 0 },
        { kind, !isnan(q->min_lr), "min_lr is nan", 0 },
        { kind, !isnan(q->eps), "eps is nan", 0 },
        { RG_STEP_LR, q->step_size > 0, "Expected positive integer step_size, but got ",
          (double)q->step_size },
        { RG_COSINE_ANNEALING_LR, q->T_max > 0, "Expected positive integer T_max, but got ",
          (double)q->T_max },
        { RG_LAMBDA_LR, q->lr_lambda || q->lr_lambdas[0], "Expected a lr_lambda", 0 },
        { RG_MULTIPLICATIVE_LR, q->lr_lambda || q->lr_lambdas[0], "Expected a lr_lambda", 0 },
        { RG_CONSTANT_LR, !(q->factor > 1 || q->factor < 0),
          "Constant multiplicative factor expected to be between 0 and 1.", 0 },
        { RG_COSINE_ANNEALING_WARM_RESTARTS, q->T_0 > 0, "Expected positive integer T_0, but got ",
          (double)q->T_0 },
        { RG_COSINE_ANNEALING_WARM_RESTARTS, q->T_mult >= 1,
          "Expected integer T_mult >= 1, but got ", (double)q->T_mult },
        { RG_CYCLIC_LR, !q->cycle_momentum || has_momentum(o),
          "optimizer must support momentum or beta1 with `cycle_momentum` option enabled", 0 },
        { RG_CYCLIC_LR, q->step_size_up + q->step_size_down > 0, "float division by zero", 0 },
        { RG_REDUCE_LR_ON_PLATEAU, q->factor < 1, "Factor should be < 1.0.", 0 },
        { RG_LINEAR_LR, q->start_factor > 0 && q->start_factor <= 1,
          "Starting multiplicative factor expected to be greater than 0 and less or equal to 1.",
          0 },
        { RG_LINEAR_LR, q->end_factor >= 0 && q->end_factor <= 1,
          "Ending multiplicative factor expected to be between 0 and 1.", 0 },
    };
    if (!check_rules(kind, RG_COUNT(rules), rules) || !rgi_lists_fit(o, kind, q))
        return false;
    if (kind == RG_CHAINED_SCHEDULER)
        return check_chained(o, q);
    if (kind == RG_ONE_CYCLE_LR)
        return check_one_cycle(o, q);
    return kind != RG_SEQUENTIAL_LR || check_sequential(o, q);
}
