/*
 * schedule_state.c: lists a schedule's state with PyTorch's keys, and loads it. Everything is read
 * into copies of the schedules before any schedule changes. This file is long because each kind of
 * schedule has its own keys.
 */
#include "optimizer_structs.h"
#include "tensor/memory.h"
#include "tensor/observer.h"
#include "nn/state.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- fields that are numbers both in PyTorch and here ----------------------------------- */

enum { MOST_FIELDS = 6 };
#define OPTION(kind, field) \
    { #field, RG_SAVED_##kind, offsetof(rg_schedule, o.field), NULL }
#define STATE(kind, name, number) \
    { name, RG_SAVED_##kind, offsetof(rg_schedule, state) + (number) * sizeof(double), NULL }

/* For each kind of schedule, the options that are single numbers in PyTorch's state_dict, and some
 * numbers of the schedule's state, in PyTorch's order. A row whose name is NULL ends the list; C
 * sets unused rows to 0. */
static const rg_saved schedule_options[][MOST_FIELDS] = {
    [RG_STEP_LR] = { OPTION(INT, step_size), OPTION(FLOAT, gamma) },
    [RG_MULTI_STEP_LR] = { OPTION(FLOAT, gamma) },
    [RG_EXPONENTIAL_LR] = { OPTION(FLOAT, gamma) },
    [RG_LINEAR_LR] = { OPTION(FLOAT, start_factor), OPTION(FLOAT, end_factor),
                       OPTION(INT, total_iters) },
    [RG_COSINE_ANNEALING_LR] = { OPTION(INT, T_max), OPTION(FLOAT, eta_min) },
    [RG_ONE_CYCLE_LR] = { OPTION(INT, total_steps), OPTION(BOOL, cycle_momentum) },
    [RG_REDUCE_LR_ON_PLATEAU] = { OPTION(FLOAT, factor), OPTION(INT, patience),
                                  OPTION(INT, cooldown), OPTION(FLOAT, eps),
                                  OPTION(FLOAT, threshold) },
    [RG_CONSTANT_LR] = { OPTION(FLOAT, factor), OPTION(INT, total_iters) },
    [RG_POLYNOMIAL_LR] = { OPTION(INT, total_iters), OPTION(FLOAT, power) },
    [RG_COSINE_ANNEALING_WARM_RESTARTS] = { OPTION(INT, T_0), STATE(COUNT, "T_i", RG_T_I),
                                            OPTION(INT, T_mult), OPTION(FLOAT, eta_min),
                                            STATE(COUNT, "T_cur", RG_T_CUR) },
    [RG_CYCLIC_LR] = { STATE(FLOAT, "total_size", RG_TOTAL_SIZE),
                       STATE(FLOAT, "step_ratio", RG_STEP_RATIO), OPTION(FLOAT, gamma),
                       OPTION(BOOL, cycle_momentum) },
    [RG_CHAINED_SCHEDULER] = { { .name = NULL } },
};

/* The numbers of a schedule that change from step to step, which are saved after the rows of
 * schedule_options. ChainedScheduler has none (no_counts), ReduceLROnPlateau has plateau_counts,
 * and all other kinds have plain_counts. (T_i and T_cur are in schedule_options, because PyTorch
 * has them between the options.) */
static const rg_saved no_counts[] = { { .name = NULL } };
static const rg_saved plain_counts[] = { STATE(COUNT, "last_epoch", RG_LAST_EPOCH),
                                         { .name = NULL } };
static const rg_saved plateau_counts[] = { STATE(COUNT, "last_epoch", RG_LAST_EPOCH),
                                           STATE(FLOAT, "best", RG_BEST),
                                           STATE(COUNT, "cooldown_counter", RG_COOLDOWN_COUNTER),
                                           STATE(COUNT, "num_bad_epochs", RG_NUM_BAD_EPOCHS),
                                           { .name = NULL } };

static const rg_saved *counts_of(rg_schedule_kind kind) {
    if (kind == RG_CHAINED_SCHEDULER)
        return no_counts;
    return kind == RG_REDUCE_LR_ON_PLATEAU ? plateau_counts : plain_counts;
}

/* ---- state_dict: writing a schedule's state -------------------------------------------- */

static void add_fields(rg_py *p, const rg_saved *rows, const rg_schedule *s) {
    for (; rows->name; rows++)
        rgi_saved_add(p, rows, s, true, RG_FLOAT64);
}

static void add_base_lrs(rg_py *p, const rg_schedule *s) {
    rgi_py_begin_at(p, "base_lrs", RG_PY_LIST);
    for (size_t i = 0; i < s->optim->n_groups; i++)
        rgi_py_float(p, NULL, rgi_base_lr(s, i));
    rgi_py_end(p);
}

static void add_last_lrs(rg_py *p, const rg_optim *o) {
    rgi_py_begin_at(p, "_last_lr", RG_PY_LIST);
    for (size_t i = 0; i < o->n_groups; i++)
        rgi_py_float(p, NULL, o->groups[i].options.lr);
    rgi_py_end(p);
}

/* Writes a list with a value for each group: its value in `list` or, if `list` is empty, `one`. */
static void add_values(rg_py *p, const char *key, const rg_schedule *s, const rg_by_group *list,
                       double one) {
    rgi_py_begin_at(p, key, RG_PY_LIST);
    for (size_t i = 0; i < s->optim->n_groups; i++)
        rgi_py_float(p, NULL, rgi_of_group(list, one, i));
    rgi_py_end(p);
}

/* Writes the milestones of MultiStepLR as torch does: a Counter that maps each milestone to the
 * number of times it was given. */
static void add_milestones(rg_py *p, const rg_dims *milestones) {
    rgi_py_begin_at(p, "milestones", RG_PY_COUNTER);
    for (int i = 0; i < milestones->n; i++) {
        int64_t times = 0;
        bool first = true;
        for (int k = 0; k < milestones->n; k++) {
            times += milestones->v[k] == milestones->v[i];
            first &= k >= i || milestones->v[k] != milestones->v[i];
        }
        if (!first)
            continue;
        rgi_py_int_key(p, milestones->v[i]);
        rgi_py_int(p, NULL, times);
    }
    rgi_py_end(p);
}

static void add_phase(rg_py *p, double end_step, const char *const texts[4]) {
    static const char *const keys[] = { "start_lr", "end_lr", "start_momentum", "end_momentum" };
    rgi_py_begin(p, RG_PY_DICT);
    rgi_py_float(p, "end_step", end_step);
    for (int i = 0; i < 4; i++)
        rgi_py_text(p, keys[i], texts[i]);
    rgi_py_end(p);
}

/* Sets ends[i] to the last step of OneCycleLR's i-th phase. Returns the number of phases. */
static int one_cycle_ends(const rg_schedule_options *o, double ends[3]) {
    const double n = (double)o->total_steps;
    int phases = 0;
    ends[phases++] = o->pct_start * n - 1;
    if (o->three_phase)
        ends[phases++] = 2 * o->pct_start * n - 2;
    ends[phases++] = n - 1;
    return phases;
}

/* If cycle_momentum is set, writes the entry "use_beta1". It is true if the optimizer has no
 * momentum option: then Adam's first beta is cycled in its place. */
static void add_use_beta1(rg_py *p, const rg_schedule *s) {
    if (s->o.cycle_momentum)
        rgi_py_bool(p, "use_beta1", !rgi_option_set(s->optim->defaults.options.momentum));
}

static void add_one_cycle(rg_py *p, const rg_schedule *s) {
    static const char *const up[] = { "initial_lr", "max_lr", "max_momentum", "base_momentum" };
    static const char *const back[] = { "max_lr", "initial_lr", "base_momentum", "max_momentum" };
    static const char *const down[] = { "initial_lr", "min_lr", "max_momentum", "max_momentum" };
    static const char *const last[] = { "max_lr", "min_lr", "base_momentum", "max_momentum" };
    double ends[3];
    const int phases = one_cycle_ends(&s->o, ends);
    rgi_py_begin_at(p, "_schedule_phases", RG_PY_LIST);
    add_phase(p, ends[0], up);
    add_phase(p, ends[1], phases == 3 ? back : last);
    if (phases == 3)
        add_phase(p, ends[2], down);
    rgi_py_end(p);
    rgi_py_text(p, "_anneal_func_type", s->o.anneal_linear ? "linear" : "cos");
    add_use_beta1(p, s);
}

static void add_cyclic(rg_py *p, const rg_schedule *s) {
    const rg_schedule_options *o = &s->o;
    const char *mode = o->triangular2 ? "triangular2" : "triangular";
    const bool iterations = o->scale_fn ? o->scale_iterations : o->exp_range;
    add_values(p, "max_lrs", s, &o->max_lrs, o->max_lr);
    rgi_py_text(p, "mode", o->exp_range ? "exp_range" : mode);
    rgi_py_text(p, "scale_mode", iterations ? "iterations" : "cycle");
    rgi_py_none(p, "_scale_fn_custom");
    add_use_beta1(p, s);
    if (o->cycle_momentum) {
        add_values(p, "base_momentums", s, &o->base_momentums, o->base_momentum);
        add_values(p, "max_momentums", s, &o->max_momentums, o->max_momentum);
    }
    add_values(p, "base_lrs", s, &o->base_lrs, o->base_lr);
}

static void add_plateau(rg_py *p, const rg_schedule *s) {
    if (s->o.min_lrs.n)
        rgi_py_none(p, "default_min_lr");
    else
        rgi_py_float(p, "default_min_lr", s->o.min_lr);
    add_values(p, "min_lrs", s, &s->o.min_lrs, s->o.min_lr);
    rgi_py_float(p, "mode_worse", s->o.mode_max ? -INFINITY : INFINITY);
    rgi_py_text(p, "mode", s->o.mode_max ? "max" : "min");
    rgi_py_text(p, "threshold_mode", s->o.threshold_abs ? "abs" : "rel");
}

static void add_below(rg_py *p, const rg_schedule *s) {
    if (s->kind == RG_SEQUENTIAL_LR) {
        rgi_py_begin_at(p, "_milestones", RG_PY_LIST);
        for (int i = 0; i < s->o.milestones.n; i++)
            rgi_py_int(p, NULL, s->o.milestones.v[i]);
        rgi_py_end(p);
    }
    rgi_py_begin_at(p, "_schedulers", RG_PY_LIST);
    for (int i = 0; i < rgi_schedules_below(s); i++)
        rgi_schedule_value(p, NULL, s->o.schedules[i]);
    rgi_py_end(p);
}

static void add_lambdas(rg_py *p, const rg_schedule *s) {
    rgi_py_begin_at(p, "lr_lambdas", RG_PY_LIST);
    for (size_t i = 0; i < s->optim->n_groups; i++)
        rgi_py_none(p, NULL);
    rgi_py_end(p);
}

void rgi_schedule_value(rg_py *p, const char *key, rg_schedule *s) {
    rgi_py_begin_at(p, key, RG_PY_DICT);
    add_fields(p, schedule_options[s->kind], s);
    if (s->kind == RG_MULTI_STEP_LR)
        add_milestones(p, &s->o.milestones);
    if (s->kind == RG_ONE_CYCLE_LR)
        add_one_cycle(p, s);
    if (s->kind == RG_REDUCE_LR_ON_PLATEAU)
        add_plateau(p, s);
    if (rgi_schedules_below(s))
        add_below(p, s);
    if (s->kind == RG_CYCLIC_LR)
        add_cyclic(p, s);
    if (rgi_schedule_rows[s->kind].next) {
        /* CosineAnnealingWarmRestarts doesn't count its steps in torch, so 0 is written. */
        const bool counts = s->kind != RG_COSINE_ANNEALING_WARM_RESTARTS;
        if (s->kind != RG_CYCLIC_LR)
            add_base_lrs(p, s);
        rgi_py_int(p, "_step_count", counts ? (int64_t)s->state[RG_LAST_EPOCH] + 1 : 0);
        rgi_py_bool(p, "_is_initial", false);
        rgi_py_bool(p, "_get_lr_called_within_step", false);
    }
    add_fields(p, counts_of(s->kind), s);
    add_last_lrs(p, s->optim);
    if (rgi_is_by_lambda(s->kind))
        add_lambdas(p, s);
    rgi_py_end(p);
}

rg_named_list rg_schedule_state_dict(rg_schedule *s) {
    const rg_named_list failed = { .n = -1 };
    static const char op[] = "schedule_state_dict";
    if (!rgi_may_do_once(op) || !rgi_handle_given(s, op, RG_HANDLE_SCHEDULE))
        return failed;
    rg_py p = { 0 };
    rgi_schedule_value(&p, NULL, s);
    const rg_named_list list = rgi_py_flat(&p);
    rgi_py_free(&p);
    return list;
}

/* ---- load_state_dict: reading a schedule's state --------------------------------------- */

/* The loading of a dictionary into the schedule `into`. Until all values are read, they are stored
 * in `copy`, a copy of that schedule, and in base_lrs, the groups' initial learning rates. */
typedef struct {
    rg_schedule *into, copy;
    const char *name; /* The name of the schedule's class, for error messages. */
    rg_named_list dict;
    bool *known;      /* known[i] tells whether read_fields has read the i-th entry of dict. */
    double *base_lrs; /* base_lrs[i] is NaN if the dictionary has no initial rate of group i. */
} schedule_load;

static bool loaded_number(const schedule_load *l, const rg_named *e, double *number) {
    return rgi_saved_number(e, number, l->name);
}

static bool read_fields(schedule_load *l, const rg_saved *rows) {
    for (; rows->name; rows++) {
        int at = 0;
        while (at < l->dict.n && strcmp(l->dict.v[at].name, rows->name) != 0)
            at++;
        RG_FAIL_IF(at == l->dict.n, l->name, "Missing key(s) in state_dict: \"%s\".", rows->name);
        l->known[at] = true;
        if (!rgi_saved_read(rows, &l->copy, &l->dict.v[at], l->name))
            return false;
    }
    return true;
}

static bool too_many(const schedule_load *l, const char *name) {
    return rgi_fail(RG_RUNTIME_ERROR, l->name, "\"%s\" in state_dict is one too many", name);
}

/* Reads the entry e, the element `item` of the dictionary's milestones. In a MultiStepLR, `item` is
 * the milestone and the value of e is the number of times it was given. In a SequentialLR, `item`
 * is an index and the value of e is the milestone. */
static bool read_milestone(schedule_load *l, const rg_named *e, int64_t item) {
    rg_dims *milestones = &l->copy.o.milestones;
    int64_t whole;
    if (!rgi_saved_whole(e, &whole, l->name))
        return false;
    if (l->copy.kind == RG_SEQUENTIAL_LR) {
        if (item >= milestones->n)
            return too_many(l, e->name);
        milestones->v[item] = whole;
        return true;
    }
    for (int64_t i = 0; i < whole; i++) {
        if (milestones->n == RG_MAX_DIMS)
            return too_many(l, e->name);
        milestones->v[milestones->n++] = item;
    }
    return true;
}

/* The options that have one value per parameter group: the kind of schedule, the option's name in a
 * state_dict, and the offset of its field in rg_schedule_options. */
static const struct {
    rg_schedule_kind kind;
    const char *name;
    size_t offset;
} group_lists[] = {
    { RG_CYCLIC_LR, "base_lrs", offsetof(rg_schedule_options, base_lrs) },
    { RG_CYCLIC_LR, "max_lrs", offsetof(rg_schedule_options, max_lrs) },
    { RG_CYCLIC_LR, "base_momentums", offsetof(rg_schedule_options, base_momentums) },
    { RG_CYCLIC_LR, "max_momentums", offsetof(rg_schedule_options, max_momentums) },
    { RG_REDUCE_LR_ON_PLATEAU, "min_lrs", offsetof(rg_schedule_options, min_lrs) },
};

/* Returns the list (see group_lists) that has the element `name`, such as "max_lrs.2", and sets
 * *item to the index in the list. Returns NULL if the schedule has no such list. */
static rg_by_group *list_of(schedule_load *l, const char *name, int64_t *item) {
    for (int i = 0; i < RG_COUNT(group_lists); i++) {
        *item = -1;
        if (l->copy.kind == group_lists[i].kind)
            *item = rgi_place_in_list(name, group_lists[i].name);
        if (*item >= 0)
            return (rg_by_group *)(void *)((char *)&l->copy.o + group_lists[i].offset);
    }
    return NULL;
}

/* Reads the entry e into list->v[item], the value of the group with the index `item`. Fails if
 * there is no such group, or if rg_by_group has no room for the element. But an element of min_lrs
 * for which there is no room is ignored: if there are more groups than that, min_lr is one number
 * for all groups, which read_default_min_lr reads. */
static bool read_value(schedule_load *l, const rg_named *e, rg_by_group *list, int64_t item) {
    const bool plateau = list == &l->copy.o.min_lrs;
    if (item >= (int64_t)l->copy.optim->n_groups || (!plateau && item >= RG_MOST_BY_GROUP))
        return too_many(l, e->name);
    if (item >= RG_MOST_BY_GROUP)
        return true;
    list->n = RG_MAX(list->n, (int)item + 1);
    return loaded_number(l, e, &list->v[item]);
}

/* Reads the entry e if it is an element of one of the schedule's lists, and sets *known to whether
 * it is one. Fails and returns false if the value can't be read, or the list has no room for it. */
static bool read_item(schedule_load *l, const rg_named *e, bool *known) {
    const rg_schedule_kind kind = l->copy.kind;
    int64_t place;
    rg_by_group *list = list_of(l, e->name, &place);
    const int64_t rate = rgi_place_in_list(e->name, "base_lrs");
    const int64_t milestone = rgi_place_in_list(e->name, kind == RG_SEQUENTIAL_LR ? "_milestones"
                                                                                  : "milestones");
    *known = true;
    if (list)
        return read_value(l, e, list, place);
    if (rate >= (int64_t)l->copy.optim->n_groups)
        return too_many(l, e->name);
    if (rate >= 0 && rgi_schedule_rows[kind].next)
        return loaded_number(l, e, &l->base_lrs[rate]);
    if (milestone >= 0 && (kind == RG_SEQUENTIAL_LR || kind == RG_MULTI_STEP_LR))
        return read_milestone(l, e, milestone);
    *known = false;
    return true;
}

/* Returns the entry of the dictionary with this name. Returns NULL, without an error, if there is
 * none or its value is RG_NONE. */
static const rg_named *entry_of(const schedule_load *l, const char *name) {
    for (int i = 0; i < l->dict.n; i++)
        if (strcmp(l->dict.v[i].name, name) == 0 && l->dict.v[i].tensor != RG_NONE)
            return &l->dict.v[i];
    return NULL;
}

/* Returns true if the dictionary has none of the n elements of a list, or all of them. Otherwise
 * fails, and the error message names the first missing element. */
static bool list_is_whole(const schedule_load *l, const char *list, int64_t n) {
    int64_t there = 0;
    for (int i = 0; i < l->dict.n; i++)
        there += rgi_place_in_list(l->dict.v[i].name, list) >= 0;
    if (there == 0)
        return true;
    for (int64_t item = 0; there < n && item < n; item++) {
        char name[48];
        snprintf(name, sizeof name, "%s.%lld", list, (long long)item);
        RG_FAIL_IF(!entry_of(l, name), l->name, "Missing key(s) in state_dict: \"%s\".", name);
    }
    return true;
}

/* Fails and returns false unless each list that the dictionary has is complete, with an element for
 * each group. Also fails if a SequentialLR lacks one of its milestones. */
static bool lists_are_whole(const schedule_load *l) {
    for (int i = 0; i < RG_COUNT(group_lists); i++)
        if (!list_is_whole(l, group_lists[i].name, (int64_t)l->copy.optim->n_groups))
            return false;
    const rg_dims *milestones = &l->copy.o.milestones;
    if (l->copy.kind != RG_SEQUENTIAL_LR || milestones->n == 0)
        return true;
    RG_FAIL_IF(!entry_of(l, "_milestones.0"), l->name,
               "Missing key(s) in state_dict: \"_milestones.0\".");
    return list_is_whole(l, "_milestones", milestones->n);
}

/* Returns whether the dictionary has a name with this prefix. */
static bool has_prefix(const schedule_load *l, const char *prefix) {
    for (int i = 0; i < l->dict.n; i++)
        if (strncmp(l->dict.v[i].name, prefix, strlen(prefix)) == 0)
            return true;
    return false;
}

/* Computes options of OneCycleLR that torch doesn't save: three_phase from the number of phases,
 * and pct_start from the end of the first phase. */
static bool read_phases(schedule_load *l) {
    rg_schedule_options *o = &l->copy.o;
    double ends[3], number;
    o->three_phase = has_prefix(l, "_schedule_phases.2.");
    const int phases = one_cycle_ends(o, ends);
    for (int i = 0; i < phases; i++) {
        char name[40];
        snprintf(name, sizeof name, "_schedule_phases.%d.end_step", i);
        const rg_named *e = entry_of(l, name);
        RG_FAIL_IF(!e, l->name, "Missing key(s) in state_dict: \"%s\".", name);
        if (!loaded_number(l, e, &number))
            return false;
        if (i == 0 && number != ends[0])
            o->pct_start = (number + 1) / (double)o->total_steps;
    }
    return true;
}

/* Returns whether the entry is expected although neither read_fields nor read_item reads it. Such
 * an entry is a string or None in torch, is internal to torch, follows from other entries, or is
 * looked up by another function. */
static bool key_is_idle(const rg_named *e) {
    static const char *const idle[] = { "verbose", "default_min_lr", "mode_worse", "use_beta1" };
    for (int i = 0; i < RG_COUNT(idle); i++)
        if (strcmp(e->name, idle[i]) == 0)
            return true;
    return e->name[0] == '_' || e->tensor == RG_NONE;
}

/* Reads default_min_lr, which torch saves for a ReduceLROnPlateau if its min_lr was given as one
 * number for all groups, not as a list. Returns false on failure. */
static bool read_default_min_lr(schedule_load *l) {
    const bool plateau = l->copy.kind == RG_REDUCE_LR_ON_PLATEAU;
    const rg_named *one = plateau ? entry_of(l, "default_min_lr") : NULL;
    if (!one)
        return true;
    l->copy.o.min_lrs.n = 0;
    return loaded_number(l, one, &l->copy.o.min_lr);
}

static bool read_lists(schedule_load *l) {
    rg_schedule_options *o = &l->copy.o;
    if (l->copy.kind == RG_MULTI_STEP_LR)
        o->milestones.n = 0;
    if (l->copy.kind == RG_CYCLIC_LR)
        o->base_lrs.n = 0;
    o->max_lrs.n = 0;
    o->min_lrs.n = 0;
    for (int i = 0; i < l->dict.n; i++) {
        const rg_named *e = &l->dict.v[i];
        bool known;
        if (!read_item(l, e, &known))
            return false;
        RG_FAIL_IF(!known && !l->known[i] && !key_is_idle(e), l->name,
                   "Unexpected key(s) in state_dict: \"%s\".", e->name);
    }
    RG_FAIL_IF(l->copy.o.milestones.n < RG_MIN(1, l->into->o.milestones.n), l->name,
               "Missing key(s) in state_dict: \"milestones\".");
    const bool cyclic = l->copy.kind == RG_CYCLIC_LR;
    RG_FAIL_IF(cyclic && (!o->base_lrs.n || !o->max_lrs.n), l->name,
               "Missing key(s) in state_dict: \"%s\".", o->max_lrs.n ? "base_lrs" : "max_lrs");
    return lists_are_whole(l) && read_default_min_lr(l);
}

static bool read_schedule(schedule_load *l, rg_schedule *s, rg_named_list dict) {
    const size_t groups = s->optim->n_groups;
    *l = (schedule_load){ .into = s,
                          .copy = *s,
                          .name = rgi_schedule_rows[s->kind].name,
                          .dict = dict,
                          .known = rgi_scope_alloc((size_t)dict.n),
                          .base_lrs = rgi_scope_alloc(groups * sizeof *l->base_lrs) };
    if (!l->known || !l->base_lrs)
        return false;
    memset(l->known, 0, (size_t)dict.n);
    for (size_t i = 0; i < groups; i++)
        l->base_lrs[i] = NAN;
    if (!read_fields(l, schedule_options[s->kind]) || !read_fields(l, counts_of(s->kind))
        || !read_lists(l) || (s->kind == RG_ONE_CYCLE_LR && !read_phases(l)))
        return false;
    const rg_named *worse = s->kind == RG_REDUCE_LR_ON_PLATEAU ? entry_of(l, "mode_worse") : NULL;
    if (worse) {
        double sign;
        if (!loaded_number(l, worse, &sign))
            return false;
        l->copy.o.mode_max = sign < 0;
    }
    return rgi_schedule_check(s->optim, s->kind, &l->copy.o);
}

static void put_schedule(const schedule_load *l) {
    l->into->o = l->copy.o;
    memcpy(l->into->state, l->copy.state, sizeof l->copy.state);
    rg_by_group *kept = &l->into->o.base_lrs; /* The rates that keep_base_lrs stored, if any. */
    for (size_t i = 0; i < l->into->optim->n_groups; i++) {
        const double rate = l->base_lrs[i];
        if (isnan(rate))
            continue;
        if (i < (size_t)kept->n)
            kept->v[i] = rate;
        else
            l->into->optim->groups[i].options.initial_lr = rate;
    }
}

/* Returns the number of schedules in the tree whose root is s: s itself, the schedules that s
 * steps, the schedules that these step, and so on. */
static int count_tree(const rg_schedule *s) {
    int n = 1;
    for (int i = 0; i < rgi_schedules_below(s); i++)
        n += count_tree(s->o.schedules[i]);
    return n;
}

/* Reads the dictionary into copies of s and of all schedules below s (see count_tree). The array
 * `all` has an element for each of them. Returns false on failure. */
static bool read_tree(schedule_load *all, rg_schedule *s, rg_named_list dict) {
    if (!read_schedule(all++, s, dict))
        return false;
    for (int i = 0; i < rgi_schedules_below(s); i++) {
        char name[32];
        snprintf(name, sizeof name, "_schedulers.%d", i);
        const rg_named_list part = rg_named_below(dict, name);
        if (part.n < 0 || !read_tree(all, s->o.schedules[i], part))
            return false;
        all += count_tree(s->o.schedules[i]);
    }
    return true;
}

bool rg_schedule_load_state_dict(rg_schedule *s, rg_named_list dict) {
    static const char op[] = "schedule_load_state_dict";
    RG_SCOPE();
    if (!rgi_handle_given(s, op, RG_HANDLE_SCHEDULE) || !rgi_state_given(dict, op))
        return false;
    const int n = count_tree(s);
    schedule_load *all = rgi_scope_alloc((size_t)n * sizeof *all);
    if (!all || !read_tree(all, s, dict))
        return false;
    for (int i = 0; i < n; i++)
        put_schedule(&all[i]);
    return true;
}
