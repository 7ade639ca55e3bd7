/*
 * test_schedule_state.c: the state_dict of a schedule is PyTorch's, with its texts. An entry that
 * doesn't belong to the schedule is refused.
 */
#include "tests/golden.h"
#include "tests/in_turn.h"
#include "schedules.h"
#include "tests/test.h"
#include "nn/optim/optimizer_structs.h"
#include "tensor/scope.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST = 128 };

static rg_optim *of_groups(int n, bool adam) {
    RG_SCOPE();
    rg_tensor *w = rg_requires_grad_(rg_zeros(1), true);
    rg_optim *o = adam ? rg_optim_adam(RG_LIST(w), .lr = 0.1)
                       : rg_optim_sgd(RG_LIST(w), .lr = 0.1, .momentum = 0.9);
    for (int i = 1; o && i < n; i++)
        if (!rg_optim_add_group(o, RG_LIST(rg_requires_grad_(rg_zeros(1), true)), .lr = 0.4))
            return NULL;
    return o;
}

static double inverse(int64_t t, void *context) {
    (void)context;
    return 1 / (1 + (double)t);
}

static double inverse_scale(double x, void *context) {
    (void)context;
    return 1 / (1 + x);
}

/* ---- the schedules of optim.py's states() ------------------------------------------------ */

#define MADE(name, ...) \
    static rg_schedule *name(rg_optim *o) { return __VA_ARGS__; }
#define CYCLE .max_lr = 0.5, .total_steps = 7
#define WAVES .base_lr = 0.05, .max_lr = 0.3, .step_size_up = 2
MADE(step, rg_optim_step_lr(o, .step_size = 2, .gamma = 0.5))
MADE(multi_step, rg_optim_multi_step_lr(o, .milestones = RG_DIMS(2, 6, 6, 5), .gamma = 0.5))
MADE(exponential, rg_optim_exponential_lr(o, .gamma = 0.5))
MADE(linear, rg_optim_linear_lr(o, .start_factor = 0.25, .end_factor = 0.75, .total_iters = 4))
MADE(cosine, rg_optim_cosine_annealing_lr(o, .T_max = 5, .eta_min = 0.01))
MADE(lambda, rg_optim_lambda_lr(o, .lr_lambda = inverse))
MADE(multiplicative, rg_optim_multiplicative_lr(o, .lr_lambda = inverse))
MADE(constant, rg_optim_constant_lr(o, .factor = 0.25, .total_iters = 2))
MADE(polynomial, rg_optim_polynomial_lr(o, .total_iters = 6, .power = 2))
MADE(restarts, rg_optim_cosine_annealing_warm_restarts(o, .T_0 = 2, .T_mult = 3, .eta_min = 0.01))
MADE(one_cycle, rg_optim_one_cycle_lr(o, CYCLE))
MADE(one_cycle_linear, rg_optim_one_cycle_lr(o, CYCLE, .anneal_linear = true, .three_phase = true,
                                             .cycle_momentum = false))
MADE(cyclic, rg_optim_cyclic_lr(o, WAVES))
MADE(cyclic_adam, rg_optim_cyclic_lr(o, WAVES, .triangular2 = true, .step_size_down = 3))
MADE(cyclic_range,
     rg_optim_cyclic_lr(o, WAVES, .exp_range = true, .gamma = 0.5, .cycle_momentum = false))
MADE(cyclic_scaled, rg_optim_cyclic_lr(o, WAVES, .scale_fn = inverse_scale))
MADE(cyclic_scaled_by_steps,
     rg_optim_cyclic_lr(o, WAVES, .scale_fn = inverse_scale, .scale_iterations = true))
MADE(plateau, rg_optim_reduce_lr_on_plateau(o, .patience = 1, .cooldown = 2, .min_lr = 0.125))
MADE(plateau_max,
     rg_optim_reduce_lr_on_plateau(o, .mode_max = true, .threshold_abs = true, .threshold = 0.5,
                                   .patience = 4, .min_lrs = RG_BY_GROUP(0.1, 0.2)))
MADE(sequential, rg_optim_sequential_lr(o, .milestones = RG_DIMS(2),
                                        .schedules = { rg_optim_linear_lr(o), exponential(o) }))
MADE(chained, rg_optim_chained_scheduler(o, .schedules = { step(o), exponential(o) }))

static const struct {
    const char *name;
    rg_schedule *(*make)(rg_optim *o);
} made[] = {
#define ROW(name) \
    { #name, name }
    ROW(step),
    ROW(multi_step),
    ROW(exponential),
    ROW(linear),
    ROW(cosine),
    ROW(lambda),
    ROW(multiplicative),
    ROW(constant),
    ROW(polynomial),
    ROW(restarts),
    ROW(one_cycle),
    { "one_cycle_adam", one_cycle },
    ROW(one_cycle_linear),
    ROW(cyclic),
    ROW(cyclic_adam),
    ROW(cyclic_range),
    ROW(cyclic_scaled),
    ROW(cyclic_scaled_by_steps),
    ROW(plateau),
    ROW(plateau_max),
    ROW(sequential),
    ROW(chained),
};

/* Makes a schedule of the table, with an optimizer of its own, and steps it. */
static rg_schedule *new_schedule(size_t i, int steps) {
    rg_schedule *s = made[i].make(of_groups(2, strstr(made[i].name, "adam")));
    ck_ok(s);
    for (int k = 0; k < steps; k++)
        ck_ok(step_any(s, s->kind));
    return s;
}

/* ---- what is in a dictionary ------------------------------------------------------------- */

static const rg_named *entry(rg_named_list list, const char *name) {
    for (int i = 0; i < list.n; i++)
        if (strcmp(list.v[i].name, name) == 0)
            return &list.v[i];
    return NULL;
}

/* Returns the text that the dictionary has under the name, or NULL if the value is no text. */
static const char *text_of(const rg_py *p, rg_named_list flat, const char *name) {
    int n = 0;
    for (size_t i = 0; i < p->n; i++) {
        const rg_py_kind kind = p->v[i].kind;
        if (kind < RG_PY_TENSOR)
            continue;
        if (strcmp(flat.v[n++].name, name) == 0)
            return kind == RG_PY_TEXT ? p->v[i].text : NULL;
    }
    return NULL;
}

/* Asserts that the schedule's state has the entry in this line of schedule_state.txt. */
static void check_entry(const rg_py *p, rg_named_list flat, char *line, const char *schedule) {
    const char *name = golden_word(&line);
    const rg_named *e = entry(flat, name);
    ck_assert_msg(e, "%s has no %s", schedule, name);
    if (*line == ' ')
        line++;
    const bool text = *line == '"', none = strcmp(line, "none") == 0;
    const char *own = text_of(p, flat, name);
    ck_assert_msg((own != NULL) == text && (e->tensor == RG_NONE) == (text || none), "%s: %s: %s",
                  schedule, name, line);
    if (text)
        ck_assert_str_eq(own, golden_quoted(&line));
    if (text || none)
        return;
    /* For the schedules inside another one, torch has the rates of their last steps, and regard has
     * the present rates. */
    if (strncmp(name, "_schedulers.", 12) == 0 && strstr(name, "_last_lr"))
        return;
    const double want = golden_number(&line), got = rg_item(e->tensor);
    ck_assert_msg(got == want || fabs(got - want) <= 1e-15, "%s: %s is %.17g, not %.17g", schedule,
                  name, got, want);
}

START_TEST(test_states) {
    for (size_t i = 0; i < RG_COUNT(made); i++) {
        RG_SCOPE();
        golden_file f = golden_find("schedule_state", "%s", made[i].name);
        rg_schedule *s = new_schedule(i, 3);
        rg_py p = { 0 };
        rgi_schedule_value(&p, NULL, s);
        rg_named_list flat = rgi_py_flat(&p);
        ck_assert(same_lists(flat, rg_schedule_state_dict(s)));
        int n = 0;
        for (; golden_peek(&f) == '-'; n++)
            check_entry(&p, flat, golden_field(&f, '-'), made[i].name);
        ck_assert_msg(n == flat.n, "%s has %d entries, PyTorch %d", made[i].name, flat.n, n);
        /* Only a schedule of other schedules has this key. */
        int below = 0;
        for (size_t k = 0; k < p.n; k++)
            below += p.v[k].kind == RG_PY_KEY && strcmp(p.v[k].text, "_schedulers") == 0;
        ck_assert_int_eq(below, rgi_schedules_below(s) > 0);
        rgi_py_free(&p);
        golden_close(&f);
        rg_optim_free(s->optim);
    }
}
END_TEST

/* Loading a schedule's own state changes neither the state nor the rates that follow. */
START_TEST(test_own_states) {
    for (size_t i = 0; i < RG_COUNT(made); i++) {
        RG_SCOPE();
        rg_schedule *s = new_schedule(i, 3), *t = new_schedule(i, 3);
        const rg_named_list before = rg_schedule_state_dict(s);
        ck_ok(rg_schedule_load_state_dict(s, before));
        ck_assert_msg(same_lists(rg_schedule_state_dict(s), before), "%s", made[i].name);
        for (int k = 0; k < 4; k++) {
            ck_ok(step_any(s, s->kind) && step_any(t, t->kind));
            for (int g = 0; g < 2; g++)
                ck_assert(rg_optim_group(s->optim, g)->lr == rg_optim_group(t->optim, g)->lr);
        }
        rg_optim_free(s->optim);
        rg_optim_free(t->optim);
    }
}
END_TEST

/* Loading a state computes pct_start from the ends of the phases. If the result differs from the
 * schedule's pct_start only by rounding, the schedule's own value stays. */
START_TEST(test_share_of_the_way_up) {
    for (int steps = 7; steps < 60; steps++) {
        RG_SCOPE();
        rg_optim *o = of_groups(2, false);
        rg_schedule *s = rg_optim_one_cycle_lr(o, .max_lr = 1, .total_steps = steps,
                                               .pct_start = 0.45);
        ck_ok(s && rg_schedule_load_state_dict(s, rg_schedule_state_dict(s)));
        ck_assert(s->o.pct_start == 0.45);
        rg_optim_free(o);
    }
}
END_TEST

/* ---- what is refused --------------------------------------------------------------------- */

/* Gives the entry `name` the name `to` and the value t. If there is no such entry, adds one. */
static rg_named_list changed(rg_named_list list, rg_named v[MOST], const char *name, const char *to,
                             rg_tensor *t) {
    ck_assert_int_lt(list.n, MOST);
    memcpy(v, list.v, (size_t)list.n * sizeof *v);
    const rg_named *e = entry(list, name);
    const int at = e ? (int)(e - list.v) : list.n;
    v[at] = (rg_named){ to, t };
    return (rg_named_list){ RG_MAX(list.n, at + 1), v };
}

static void refuses(rg_schedule *s, rg_named_list dict, const char *sentence) {
    RG_SCOPE();
    const rg_named_list before = rg_schedule_state_dict(s);
    ck_fails(rg_schedule_load_state_dict(s, dict), RG_RUNTIME_ERROR, sentence);
    ck_assert(same_lists(rg_schedule_state_dict(s), before));
}

/* Returns the part of the name after the last dot, or the whole name if that part is a number. */
static const char *last_part(const char *name) {
    const char *dot = strrchr(name, '.');
    return dot && dot[1] > '9' ? dot + 1 : name;
}

/* Returns whether the entry is a whole number in torch, and is used by regard. */
static bool is_whole(const char *name) {
    static const char *const names[] = { "step_size",     "total_iters", "T_max",
                                         "total_steps",   "patience",    "cooldown",
                                         "T_0",           "T_i",         "T_mult",
                                         "T_cur",         "last_epoch",  "cooldown_counter",
                                         "num_bad_epochs" };
    for (int i = 0; i < RG_COUNT(names); i++)
        if (strcmp(last_part(name), names[i]) == 0)
            return true;
    return strncmp(name, "milestones.", 11) == 0 || strncmp(name, "_milestones.", 12) == 0;
}

/* Returns whether the entry is a number in torch that regard ignores. */
static bool is_idle(const char *name) {
    const char *last = strncmp(name, "_schedulers.", 12) == 0 ? name + 14 : name;
    return strstr(name, "_is_initial") || strstr(name, "_step_count") || strstr(name, "_last_lr")
           || strstr(name, "_get_lr_called") || strcmp(last, "use_beta1") == 0;
}

START_TEST(test_every_number) {
    for (size_t i = 0; i < RG_COUNT(made); i++) {
        rg_schedule *s = new_schedule(i, 3);
        RG_SCOPE();
        const rg_named_list own = rg_schedule_state_dict(s);
        for (int k = 0; k < own.n; k++) {
            RG_SCOPE();
            rg_named v[MOST];
            char said[100];
            const char *name = own.v[k].name;
            const char *plain = strncmp(name, "_schedulers.", 12) == 0 ? name + 14 : name;
            if (own.v[k].tensor == RG_NONE || is_idle(name) || strcmp(name, "mode_worse") == 0)
                continue;
            snprintf(said, sizeof said, "\"%s\" in state_dict is no number", plain);
            refuses(s, changed(own, v, name, name, rg_ones(2)), said);
            if (!is_whole(name))
                continue;
            snprintf(said, sizeof said, "\"%s\" in state_dict is no whole number", plain);
            refuses(s, changed(own, v, name, name, rg_scalar(0.5)), said);
        }
        rg_optim_free(s->optim);
    }
}
END_TEST

static size_t named(const char *name) {
    size_t i = 0;
    while (strcmp(made[i].name, name) != 0)
        i++;
    return i;
}

START_TEST(test_odd_names) {
    static const struct {
        const char *schedule, *name, *to, *sentence;
    } wrong[] = {
        { "step", "", "base_lrs/0", "Unexpected key(s) in state_dict: \"base_lrs/0\"" },
        { "step", "", "base_lrs./", "Unexpected key(s) in state_dict: \"base_lrs./\"" },
        { "step", "", "base_lrs.:", "Unexpected key(s) in state_dict: \"base_lrs.:\"" },
        { "step", "", "base_lrs.1x", "Unexpected key(s) in state_dict: \"base_lrs.1x\"" },
        { "step", "", "base_lrs. 0", "Unexpected key(s) in state_dict: \"base_lrs. 0\"" },
        { "step", "", "base_lrs.+0", "Unexpected key(s) in state_dict: \"base_lrs.+0\"" },
        { "step", "", "base_lrs0", "Unexpected key(s) in state_dict: \"base_lrs0\"" },
        { "step", "", "base_lrs.2", "\"base_lrs.2\" in state_dict is one too many" },
        { "step", "", "milestones.2", "Unexpected key(s) in state_dict: \"milestones.2\"" },
        { "step", "", "min_lrs.0", "Unexpected key(s) in state_dict: \"min_lrs.0\"" },
        { "plateau", "", "base_lrs.0", "Unexpected key(s) in state_dict: \"base_lrs.0\"" },
        { "plateau", "", "min_lrs.2", "\"min_lrs.2\" in state_dict is one too many" },
        { "plateau", "", "min_lrs.70", "\"min_lrs.70\" in state_dict is one too many" },
        { "cyclic", "", "max_lrs.2", "\"max_lrs.2\" in state_dict is one too many" },
        { "cyclic", "max_lrs.0", "max_lrs.9", "\"max_lrs.9\" in state_dict is one too many" },
        { "sequential", "", "_milestones.1", "\"_milestones.1\" in state_dict is one too many" },
        { "sequential", "", "base_lrs.0", "Unexpected key(s) in state_dict: \"base_lrs.0\"" },
    };
    for (int i = 0; i < RG_COUNT(wrong); i++) {
        rg_schedule *s = new_schedule(named(wrong[i].schedule), 3);
        RG_SCOPE();
        rg_named v[MOST];
        refuses(s, changed(rg_schedule_state_dict(s), v, wrong[i].name, wrong[i].to, rg_scalar(1.)),
                wrong[i].sentence);
        rg_optim_free(s->optim);
    }
}
END_TEST

/* Schedules ignore torch's entries that they don't use, whatever the entries' values are. */
START_TEST(test_idle_names) {
    static const char *const idle[] = { "verbose", "default_min_lr", "mode_worse", "use_beta1",
                                        "_anything" };
    for (size_t i = 0; i < RG_COUNT(made); i++) {
        rg_schedule *s = new_schedule(i, 3);
        RG_SCOPE();
        const rg_named_list own = rg_schedule_state_dict(s);
        for (int k = 0; k < RG_COUNT(idle); k++) {
            rg_named v[MOST];
            if (s->kind == RG_REDUCE_LR_ON_PLATEAU && (k == 1 || k == 2))
                continue;
            ck_ok(rg_schedule_load_state_dict(s, changed(own, v, idle[k], idle[k], rg_ones(2))));
            ck_ok(rg_schedule_load_state_dict(s, changed(own, v, idle[k], idle[k], RG_NONE)));
            ck_assert(same_lists(rg_schedule_state_dict(s), own));
        }
        rg_optim_free(s->optim);
    }
}
END_TEST

/* Flags are loaded. A state that lacks a list of values is refused, although the schedule already
 * has such a list. */
START_TEST(test_flags_and_lists) {
    rg_named v[MOST];
    rg_schedule *s = new_schedule(named("one_cycle"), 3);
    RG_SCOPE();
    rg_named_list own = rg_schedule_state_dict(s);
    for (int on = 0; on < 2; on++) {
        ck_ok(rg_schedule_load_state_dict(
            s, changed(own, v, "cycle_momentum", "cycle_momentum", rg_scalar((double)on))));
        ck_assert(rg_item(entry(rg_schedule_state_dict(s), "cycle_momentum")->tensor) == on);
    }
    rg_optim_free(s->optim);
    rg_optim *o = of_groups(2, false);
    s = rg_optim_cyclic_lr(o, .base_lrs = RG_BY_GROUP(0.1, 0.2), .max_lrs = RG_BY_GROUP(1, 2));
    own = rg_schedule_state_dict(s);
    static const char *const lists[] = { "base_lrs", "max_lrs" };
    for (int i = 0; i < 2; i++) {
        char said[64];
        int n = 0;
        for (int k = 0; k < own.n; k++)
            if (strncmp(own.v[k].name, lists[i], strlen(lists[i])) != 0)
                v[n++] = own.v[k];
        snprintf(said, sizeof said, "Missing key(s) in state_dict: \"%s\".", lists[i]);
        refuses(s, (rg_named_list){ n, v }, said);
    }
    rg_optim_free(o);
}
END_TEST

/* The state has, for each milestone, how often it was given, even if the list of milestones is
 * full. */
START_TEST(test_milestones_are_counted) {
    RG_SCOPE();
    rg_optim *o = of_groups(1, false);
    const rg_dims given[] = { RG_DIMS(0), RG_DIMS(0, 3), RG_DIMS(3, 0, 3),
                              RG_DIMS(1, 2, 3, 4, 5, 6, 7, 1) };
    static const double times[][2] = { { 0, 1 }, { 0, 1 }, { 3, 2 }, { 1, 2 } };
    for (int i = 0; i < RG_COUNT(given); i++) {
        char name[32];
        rg_schedule *s = rg_optim_multi_step_lr(o, .milestones = given[i]);
        ck_ok(s);
        snprintf(name, sizeof name, "milestones.%d", (int)times[i][0]);
        ck_assert_double_eq(rg_item(entry(rg_schedule_state_dict(s), name)->tensor), times[i][1]);
    }
    rg_optim_free(o);
}
END_TEST

/* A loaded place may lie beyond the end of the cycle. As in torch, the next step begins the next
 * cycle at the remainder. */
START_TEST(test_place_beyond_the_cycle) {
    rg_schedule *s = new_schedule(named("restarts"), 1);
    RG_SCOPE();
    rg_named v[MOST];
    ck_ok(rg_schedule_load_state_dict(
        s, changed(rg_schedule_state_dict(s), v, "T_cur", "T_cur", rg_scalar(6))));
    ck_ok(rg_schedule_step(s));
    const rg_named_list now = rg_schedule_state_dict(s);
    ck_assert_double_eq(rg_item(entry(now, "T_cur")->tensor), 1); /* 7 % 2 */
    ck_assert_double_eq(rg_item(entry(now, "T_i")->tensor), 6);
    rg_optim_free(s->optim);
}
END_TEST

/* torch's mode_worse is a number, which is below 0 where larger is better. */
START_TEST(test_what_is_worse) {
    static const double worse[] = { -INFINITY, -1, 0, 1, INFINITY };
    for (int i = 0; i < RG_COUNT(worse); i++) {
        rg_schedule *s = new_schedule(named("plateau"), 3);
        RG_SCOPE();
        rg_named v[MOST];
        rg_named_list own = changed(rg_schedule_state_dict(s), v, "mode_worse", "mode_worse",
                                    rg_scalar(worse[i]));
        /* mode_worse may be the first entry. */
        for (int k = 0; k < own.n; k++)
            if (strcmp(v[k].name, "mode_worse") == 0) {
                const rg_named first = v[0];
                v[0] = v[k];
                v[k] = first;
            }
        ck_ok(rg_schedule_load_state_dict(s, own));
        const double now = rg_item(entry(rg_schedule_state_dict(s), "mode_worse")->tensor);
        ck_assert(now == (worse[i] < 0 ? -INFINITY : INFINITY));
        rg_optim_free(s->optim);
    }
}
END_TEST

START_TEST(test_what_is_worse_is_a_number) {
    rg_schedule *s = new_schedule(named("plateau"), 3);
    RG_SCOPE();
    rg_named v[MOST];
    refuses(s, changed(rg_schedule_state_dict(s), v, "mode_worse", "mode_worse", rg_ones(2)),
            "ReduceLROnPlateau: \"mode_worse\" in state_dict is no number");
    rg_optim_free(s->optim);
}
END_TEST

/* ReduceLROnPlateau's state has no base_lrs. Loading it leaves each group's initial_lr as it is. */
START_TEST(test_no_first_rates) {
    RG_SCOPE();
    rg_optim *o = of_groups(2, false);
    rg_schedule *s = plateau(o);
    ck_ok(s && exponential(o) && rg_schedule_load_state_dict(s, rg_schedule_state_dict(s)));
    ck_assert(rg_optim_group(o, 0)->initial_lr == 0.1 && rg_optim_group(o, 1)->initial_lr == 0.4);
    rg_optim_free(o);
}
END_TEST

/* Returns whether a state may lack the key. These keys are numbers that torch keeps and regard
 * ignores, and the milestones of MultiStepLR, of which there may be any number. */
static bool may_lack(const char *key, rg_schedule_kind kind) {
    static const char *const idle[] = { "default_min_lr", "mode_worse", "use_beta1" };
    for (int i = 0; i < RG_COUNT(idle); i++)
        if (strcmp(key, idle[i]) == 0)
            return true;
    if (strncmp(key, "_schedule_phases.", 17) == 0)
        return !strstr(key, ".end_step");
    if (kind == RG_MULTI_STEP_LR && strncmp(key, "milestones.", 11) == 0)
        return true;
    return key[0] == '_' && strncmp(key, "_milestones.", 12) != 0;
}

/* A state that lacks a key is refused, except for keys that may_lack allows and keys whose value is
 * RG_NONE. */
START_TEST(test_each_key_is_needed) {
    for (size_t i = 0; i < RG_COUNT(made); i++) {
        rg_schedule *s = new_schedule(i, 3);
        RG_SCOPE();
        const rg_named_list own = rg_schedule_state_dict(s);
        for (int without = 0; without < own.n; without++) {
            rg_named v[MOST];
            const rg_named *e = &own.v[without];
            rg_named_list part = { own.n - 1, v };
            for (int k = 0; k < part.n; k++)
                v[k] = own.v[k + (k >= without)];
            rg_error_clear();
            const bool loaded = rg_schedule_load_state_dict(s, part);
            /* The error of a schedule inside another one names the key without the "_schedulers"
             * prefix. */
            const char *key = strncmp(e->name, "_schedulers.", 12) ? e->name : e->name + 14;
            const bool named = strstr(rg_error(), "Missing key(s)") && strstr(rg_error(), key);
            ck_assert_msg(loaded == (e->tensor == RG_NONE || may_lack(key, s->kind))
                              && (loaded || named),
                          "%s without %s: %s", made[i].name, e->name, rg_error());
            ck_assert(loaded || same_lists(rg_schedule_state_dict(s), own));
            rg_error_clear();
            ck_ok(rg_schedule_load_state_dict(s, own));
        }
        rg_optim_free(s->optim);
    }
}
END_TEST

/* The state of a sequence must have a part for each of its schedules. */
START_TEST(test_missing_parts) {
    for (int part = 0; part < 2; part++) {
        rg_schedule *s = new_schedule(named("sequential"), 3);
        RG_SCOPE();
        rg_named v[MOST];
        char prefix[16];
        snprintf(prefix, sizeof prefix, "_schedulers.%d", part);
        const rg_named_list own = rg_schedule_state_dict(s);
        rg_named_list dict = { 0, v };
        for (int i = 0; i < own.n; i++)
            if (strncmp(own.v[i].name, prefix, strlen(prefix)) != 0)
                v[dict.n++] = own.v[i];
        ck_assert_int_lt(dict.n, own.n);
        refuses(s, dict,
                part ? "ExponentialLR: Missing key(s) in state_dict: \"gamma\""
                     : "LinearLR: Missing key(s) in state_dict: \"start_factor\"");
        rg_optim_free(s->optim);
    }
}
END_TEST

/* ---- many groups, and no memory ---------------------------------------------------------- */

/* A list has at most 32 values. If one value stands for all groups, there may be any number of
 * groups. */
START_TEST(test_many_groups) {
    RG_SCOPE();
    rg_optim *o = of_groups(RG_MOST_BY_GROUP + 1, false);
    rg_schedule *plain = step(o), *less = plateau(o), *waves = cyclic(o);
    ck_ok(plain && less && waves);
    rg_named_list own = rg_schedule_state_dict(plain);
    rg_optim_group(o, 9)->initial_lr = 7;
    ck_ok(rg_schedule_load_state_dict(plain, own));
    ck_assert(rg_optim_group(o, 9)->initial_lr == rg_item(entry(own, "base_lrs.9")->tensor));
    own = rg_schedule_state_dict(less);
    ck_assert(entry(own, "min_lrs.32"));
    ck_ok(rg_schedule_load_state_dict(less, own));
    ck_assert(same_lists(rg_schedule_state_dict(less), own));
    own = rg_schedule_state_dict(waves);
    refuses(waves, own, "\"max_lrs.32\" in state_dict is one too many");
    rg_optim_free(o);
}
END_TEST

static rg_schedule *to_load;

static bool load_again(void) {
    RG_SCOPE();
    const rg_named_list own = rg_schedule_state_dict(to_load);
    return own.n > 0 && rg_schedule_load_state_dict(to_load, own);
}

START_TEST(test_out_of_memory) {
    for (size_t i = 0; i < RG_COUNT(made); i++) {
        to_load = new_schedule(i, 3);
        ck_assert_int_ge(deny_in_turn(load_again, NULL), 5);
        rg_optim_free(to_load->optim);
    }
}
END_TEST

RG_TESTS(schedule_state, test_milestones_are_counted, test_place_beyond_the_cycle,
         test_what_is_worse, test_what_is_worse_is_a_number, test_states, test_own_states,
         test_share_of_the_way_up, test_every_number, test_odd_names, test_idle_names,
         test_flags_and_lists, test_no_first_rates, test_missing_parts, test_each_key_is_needed,
         test_many_groups, test_out_of_memory)
