/*
 * schedule.c: makes schedules and steps them. Their options are checked in schedule_checks.c, and
 * the learning rates are computed in schedules.c.
 */
#include "optimizer_structs.h"
#include "tensor/memory.h"
#include "tensor/observer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- making a schedule --------------------------------------------------------- */

/* Does the work of set_rates (see below), which keeps the optimizer alive during this call. */
static bool set_rates_of_groups(rg_schedule *s, double t, rg_schedule_rate *rate) {
    const char *name = rgi_schedule_rows[s->kind].name;
    RG_FAIL_VALUE_IF(s->kind == RG_ONE_CYCLE_LR && t > (double)s->o.total_steps, name,
                     "Tried to step %.0f times. The specified number of total steps is %lld", t,
                     (long long)s->o.total_steps);
    if (!rgi_lists_fit(s->optim, s->kind, &s->o))
        return false;
    for (size_t i = 0; i < s->optim->n_groups; i++) {
        rg_param_group *g = &s->optim->groups[i].options;
        if (!rgi_option_set(g->initial_lr))
            g->initial_lr = g->lr;
        if (!rgi_set_rate(s, g, t, rate))
            return false;
    }
    s->state[RG_LAST_EPOCH] = t;
    return true;
}

/* Sets the learning rates of all groups to those at epoch t, which `rate` computes. Fails if
 * OneCycleLR has no step left, if a list of options lacks a value for a group, or if a rate is NaN.
 * Also fails if a function of the program that `rate` calls, such as lr_lambda, fails or frees the
 * optimizer. */
static bool set_rates(rg_schedule *s, double t, rg_schedule_rate *rate) {
    rg_optim *o = s->optim;
    o->holders++;
    const bool ok = set_rates_of_groups(s, t, rate);
    const bool freed = o->handle.released;
    rgi_optim_let_go(o);
    RG_FAIL_AS_IF(RG_RELEASED, freed, "schedule_step", "lr_lambda has freed the optimizer");
    return ok;
}

/* Stores the bounds of the momentum in g, the i-th group, if the momentum is cycled. torch stores
 * them in the group as well. */
static void put_momenta(const rg_schedule *s, rg_param_group *g, size_t i) {
    if (!s->o.cycle_momentum)
        return;
    g->max_momentum = rgi_of_group(&s->o.max_momentums, s->o.max_momentum, i);
    g->base_momentum = rgi_of_group(&s->o.base_momentums, s->o.base_momentum, i);
}

/* Stores each group's initial learning rate in the earlier schedules, which compute from it. Called
 * before a OneCycleLR changes initial_lr, since in torch that change doesn't affect earlier
 * schedules. A rate that an earlier call has stored is kept. Nothing is stored in a CyclicLR, which
 * computes from its own options, or in a OneCycleLR, which computes from the group's present
 * initial_lr, as in torch. Fails if there are too many groups. rgi_base_lr reads the stored
 * rates. */
static bool keep_base_lrs(rg_optim *o) {
    RG_FAIL_VALUE_IF(o->schedules && o->n_groups > RG_MOST_BY_GROUP, "OneCycleLR",
                     "expected up to %d groups after another schedule, but got %zu",
                     RG_MOST_BY_GROUP, o->n_groups);
    for (rg_schedule *s = o->schedules; s; s = s->next) {
        if (s->kind == RG_CYCLIC_LR || s->kind == RG_ONE_CYCLE_LR)
            continue;
        for (size_t i = (size_t)s->o.base_lrs.n; i < o->n_groups; i++) {
            const rg_param_group *g = &o->groups[i].options;
            s->o.base_lrs.v[i] = rgi_option_set(g->initial_lr) ? g->initial_lr : g->lr;
        }
        s->o.base_lrs.n = (int)o->n_groups;
    }
    return true;
}

/* Stores the bounds of the learning rate and of the momentum in each group, as torch does. This
 * changes initial_lr, so keep_base_lrs first stores the old value in the earlier schedules. Returns
 * false on failure. */
static bool begin_one_cycle(rg_schedule *s) {
    if (!keep_base_lrs(s->optim))
        return false;
    for (size_t i = 0; i < s->optim->n_groups; i++) {
        rg_param_group *g = &s->optim->groups[i].options;
        g->max_lr = rgi_of_group(&s->o.max_lrs, s->o.max_lr, i);
        g->initial_lr = g->max_lr / s->o.div_factor;
        g->min_lr = g->initial_lr / s->o.final_div_factor;
        put_momenta(s, g, i);
    }
    return true;
}

/* Begins a CyclicLR. Computes the length of a cycle, and the fraction of it in which the rate
 * rises. Sets the learning rates to base_lr, with which a cycle begins, and stores the momenta. */
static void begin_cyclic(rg_schedule *s) {
    const double up = (double)s->o.step_size_up;
    const double down = s->o.step_size_down ? (double)s->o.step_size_down : up;
    s->state[RG_TOTAL_SIZE] = up + down;
    s->state[RG_STEP_RATIO] = up / s->state[RG_TOTAL_SIZE];
    for (size_t i = 0; i < s->optim->n_groups; i++) {
        s->optim->groups[i].options.lr = rgi_of_group(&s->o.base_lrs, s->o.base_lr, i);
        put_momenta(s, &s->optim->groups[i].options, i);
    }
}

static void set_initial_rates(rg_optim *o) {
    for (size_t i = 0; i < o->n_groups; i++)
        o->groups[i].options.lr = o->groups[i].options.initial_lr;
}

/* Begins a SequentialLR. When the schedules in its list were made, they changed the learning rates.
 * So this function sets the rate of each group back to its initial_lr. Also sets the schedules in
 * the list back to the time before their first step. */
static void begin_sequential(rg_schedule *s) {
    set_initial_rates(s->optim);
    for (int i = 0; i <= s->o.milestones.n; i++)
        s->o.schedules[i]->state[RG_LAST_EPOCH] = -1;
}

static bool begin_schedule(rg_schedule *s) {
    rg_schedule *first = s;
    if (s->kind == RG_ONE_CYCLE_LR && !begin_one_cycle(s))
        return false;
    if (s->kind == RG_CYCLIC_LR)
        begin_cyclic(s);
    s->state[RG_T_I] = (double)s->o.T_0;
    if (s->kind == RG_SEQUENTIAL_LR) {
        begin_sequential(s);
        first = s->o.schedules[rgi_milestones_until(s, 0)];
    }
    rg_schedule_rate *rate = rgi_schedule_rows[first->kind].next;
    if (rate && !set_rates(first, 0, rate))
        return false;
    /* As in torch, the first rate of a new CyclicLR is initial_lr. That isn't base_lr if the
     * optimizer has had another schedule before. */
    if (s->kind == RG_CYCLIC_LR)
        set_initial_rates(s->optim);
    return true;
}

/* Fails if an option was given both as one value and as a list. */
static bool values_are_given_once(const char *name, const rg_schedule_options *q) {
    const struct {
        const char *one, *each;
        bool both;
    } pairs[] = {
        { "base_lr", "base_lrs", q->base_lrs.n && q->base_lr != 0 },
        { "max_lr", "max_lrs", q->max_lrs.n && q->max_lr != 0 },
        { "min_lr", "min_lrs", q->min_lrs.n && q->min_lr != 0 },
        { "base_momentum", "base_momentums",
          q->base_momentums.n && rgi_option_set(q->base_momentum) },
        { "max_momentum", "max_momentums", q->max_momentums.n && rgi_option_set(q->max_momentum) },
        { "lr_lambda", "lr_lambdas", q->lr_lambdas[0] && q->lr_lambda },
    };
    for (int i = 0; i < RG_COUNT(pairs); i++)
        RG_FAIL_VALUE_IF(pairs[i].both, name, "%s and %s can't both be given", pairs[i].one,
                         pairs[i].each);
    return true;
}

/* Sets the options that weren't given and whose default depends on the kind of schedule. */
static void complete_schedule(rg_schedule_kind kind, rg_schedule_options *q) {
    const bool cyclic = kind == RG_CYCLIC_LR;
    if (!rgi_option_set(q->gamma))
        q->gamma = cyclic ? 1 : 0.1;
    if (!rgi_option_set(q->factor))
        q->factor = kind == RG_CONSTANT_LR ? 1.0 / 3 : 0.1;
    if (!rgi_option_set(q->base_momentum))
        q->base_momentum = cyclic ? 0.8 : 0.85;
    if (!rgi_option_set(q->max_momentum))
        q->max_momentum = cyclic ? 0.9 : 0.95;
}

rg_schedule *rg_optim_schedule(rg_optim *o, rg_schedule_kind kind, rg_schedule_options q) {
    RG_SCOPE();
    RG_FAIL_VALUE_IF((unsigned)kind >= RG_COUNT(rgi_schedule_rows), "schedule",
                     "there is no schedule %d", kind);
    RG_AS(rgi_schedule_rows[kind].name);
    if (!rgi_may_do_once(rgi_schedule_rows[kind].name)
        || !rgi_schedule_has_options(kind, &q)
        || !values_are_given_once(rgi_schedule_rows[kind].name, &q))
        return NULL;
    complete_schedule(kind, &q);
    if (!rgi_handle_given(o, "schedule", RG_HANDLE_OPTIM) || !rgi_schedule_check(o, kind, &q))
        return NULL;
    rg_schedule *s = rgi_alloc(sizeof *s, RG_MEM_OTHER);
    if (!s)
        return NULL;
    *s = (rg_schedule){ .handle = RG_NEW_HANDLE(SCHEDULE), .optim = o, .kind = kind, .o = q };
    s->state[RG_BEST] = q.mode_max ? -INFINITY : INFINITY;
    if (!begin_schedule(s)) {
        rgi_free(s, sizeof *s, RG_MEM_OTHER);
        return NULL;
    }
    rg_schedule **end = &o->schedules;
    while (*end)
        end = &(*end)->next;
    *end = s;
    return s;
}

rg_schedule *(rg_optim_warmup_cosine_lr)(rg_optim *o, int64_t warmup, int64_t total,
                                         double start_factor, double eta_min) {
    RG_AS("warmup_cosine_lr");
    RG_FAIL_VALUE_IF(warmup < 0 || warmup >= total, "warmup_cosine_lr",
                     "expected fewer steps of warmup than in total, but got %lld of %lld",
                     (long long)warmup, (long long)total);
    rg_schedule *up = rg_optim_linear_lr(o, .start_factor = start_factor, .total_iters = warmup);
    if (!up)
        return NULL;
    rg_schedule *down = rg_optim_cosine_annealing_lr(o, .T_max = total - warmup,
                                                     .eta_min = eta_min);
    if (!down)
        return NULL;
    return rg_optim_sequential_lr(o, .schedules = { up, down }, .milestones = RG_DIMS(warmup));
}

/* ---- steps of a schedule ------------------------------------------------------- */

static bool may_step(rg_schedule *s, const char *op) {
    return rgi_may_do_once(op) && rgi_handle_given(s, op, RG_HANDLE_SCHEDULE);
}

int rgi_schedules_below(const rg_schedule *s) {
    int n = 0;
    if (s->kind == RG_SEQUENTIAL_LR)
        return s->o.milestones.n + 1;
    while (s->kind == RG_CHAINED_SCHEDULER && n <= RG_MAX_DIMS && s->o.schedules[n])
        n++;
    return n;
}

static bool step_chained(rg_schedule *s) {
    for (int i = 0; i < rgi_schedules_below(s); i++)
        if (!rg_schedule_step(s->o.schedules[i]))
            return false;
    s->state[RG_LAST_EPOCH]++;
    return true;
}

/* Moves to the next epoch of the cycle. When the cycle has ended, begins the next cycle, which is
 * T_mult times as long. */
static void step_warm_restarts(rg_schedule *s) {
    double *at = &s->state[RG_T_CUR], *length = &s->state[RG_T_I];
    ++*at;
    if (*at < *length)
        return;
    *at = fmod(*at, *length);
    *length *= (double)s->o.T_mult;
}

/* Moves to epoch t: computes which cycle contains it, and the position in that cycle. */
static void place_warm_restarts(rg_schedule *s, double t) {
    const double first = (double)s->o.T_0, times = (double)s->o.T_mult;
    double before = 0, length = first;
    if (times == 1) {
        before = t - fmod(t, first);
    } else if (t >= first) {
        const double n = trunc(log(t / first * (times - 1) + 1) / log(times));
        before = first * (pow(times, n) - 1) / (times - 1);
        length = first * pow(times, n);
    }
    s->state[RG_T_CUR] = t - before;
    s->state[RG_T_I] = length;
}

static bool step_schedule(rg_schedule *s) {
    if (!may_step(s, "schedule_step"))
        return false;
    double t = s->state[RG_LAST_EPOCH] + 1;
    if (s->kind == RG_CHAINED_SCHEDULER)
        return step_chained(s);
    if (s->kind == RG_COSINE_ANNEALING_WARM_RESTARTS && t > 0)
        step_warm_restarts(s);
    if (rgi_schedule_rows[s->kind].next)
        return set_rates(s, t, rgi_schedule_rows[s->kind].next);
    RG_FAIL_AS_IF(RG_TYPE_ERROR, s->kind == RG_REDUCE_LR_ON_PLATEAU, "ReduceLROnPlateau",
                  "step() missing 1 required positional argument: 'metrics'");
    rg_schedule *now = s->o.schedules[rgi_milestones_until(s, t)];
    s->state[RG_LAST_EPOCH] = t;
    if (rgi_milestones_at(s, t))
        return set_rates(now, 0, rgi_schedule_rows[now->kind].closed);
    return step_schedule(now);
}

bool rg_schedule_step(rg_schedule *s) { return RG_UNLESS_HALTED(step_schedule(s)); }

static bool step_to(rg_schedule *s, int64_t epoch) {
    if (!may_step(s, "schedule_step_to"))
        return false;
    rg_schedule_rate *rate = rgi_schedule_rows[s->kind].closed;
    RG_FAIL_AS_IF(RG_NOT_IMPLEMENTED, !rate, rgi_schedule_rows[s->kind].name, "has no closed form");
    if (s->kind == RG_COSINE_ANNEALING_WARM_RESTARTS) {
        RG_FAIL_VALUE_IF(epoch < 0, "CosineAnnealingWarmRestarts",
                         "Expected non-negative epoch, but got %lld", (long long)epoch);
        place_warm_restarts(s, (double)epoch);
    }
    return set_rates(s, (double)epoch, rate);
}

bool(rg_schedule_step_to)(rg_schedule *s, int64_t epoch) {
    return RG_UNLESS_HALTED(step_to(s, epoch));
}

/* ---- ReduceLROnPlateau: the rate times factor when a metric stops improving ---- */

static bool plateau_is_better(const rg_schedule *s, double metric) {
    double sign = s->o.mode_max ? -1 : 1, best = s->state[RG_BEST];
    double bar = s->o.threshold_abs ? best - sign * s->o.threshold
                                    : best * (1 - sign * s->o.threshold);
    return s->o.mode_max ? metric > bar : metric < bar;
}

static void plateau_reduce(rg_schedule *s) {
    for (size_t i = 0; i < s->optim->n_groups; i++) {
        double *lr = &s->optim->groups[i].options.lr;
        double lower = fmax(*lr * s->o.factor, rgi_of_group(&s->o.min_lrs, s->o.min_lr, i));
        if (*lr - lower > s->o.eps)
            *lr = lower;
    }
}

static bool step_by_metric(rg_schedule *s, double metric) {
    if (!may_step(s, "schedule_step_metric"))
        return false;
    RG_FAIL_AS_IF(RG_TYPE_ERROR, s->kind != RG_REDUCE_LR_ON_PLATEAU,
                  rgi_schedule_rows[s->kind].name, "step() takes no metric");
    if (!rgi_lists_fit(s->optim, s->kind, &s->o))
        return false;
    double *state = s->state;
    state[RG_LAST_EPOCH]++;
    if (plateau_is_better(s, metric)) {
        state[RG_BEST] = metric;
        state[RG_NUM_BAD_EPOCHS] = 0;
    } else {
        state[RG_NUM_BAD_EPOCHS]++;
    }
    if (state[RG_COOLDOWN_COUNTER] > 0) {
        state[RG_COOLDOWN_COUNTER]--;
        state[RG_NUM_BAD_EPOCHS] = 0;
    }
    if (state[RG_NUM_BAD_EPOCHS] <= (double)s->o.patience)
        return true;
    state[RG_COOLDOWN_COUNTER] = (double)s->o.cooldown;
    state[RG_NUM_BAD_EPOCHS] = 0;
    plateau_reduce(s);
    return true;
}

bool(rg_schedule_step_metric)(rg_schedule *s, double metric) {
    return RG_UNLESS_HALTED(step_by_metric(s, metric));
}
