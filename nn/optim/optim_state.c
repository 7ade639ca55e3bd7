/*
 * optim_state.c: an optimizer's state by name, and loading it: its tensors, and the numbers of its
 * groups and schedules.
 */
#include "load_optim.h"
#include "nn/state.h"
#include "tensor/map.h"
#include "tensor/observer.h"
#include "tensor/kernels/copy.h"
#include "tensor/storage.h"
#include "tensor/scope.h"
#include "tensor/shape.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int64_t rgi_place_in_list(const char *name, const char *list) {
    const size_t n = strlen(list);
    if (strncmp(name, list, n) != 0 || name[n] != '.' || name[n + 1] < '0')
        return -1;
    /* The first character must be '0' or above: strtoll also accepts blanks and signs. */
    char *end;
    const long long place = strtoll(name + n + 1, &end, 10);
    return *end ? -1 : place;
}

/* ---- entries ------------------------------------------------------------------- */

/* A name of the state, with the tensor or number that it names. */
typedef struct optim_entry {
    char name[56];
    rg_tensor **tensor;
    double *number;
    rg_optim_slot *slot; /* The entry's slot, or NULL. */
    int needs;           /* The option that the state needs, or RG_ALWAYS. */
    const double *given; /* The default if the dictionary has no number. */
    bool settled;        /* Always set `given`, never the dictionary's value. */
    bool schedules;      /* A schedule set the number. */
    bool text;           /* A text in torch, which dictionaries of torch's omit. */
    rg_tensor *found;    /* The dictionary's value. */
} optim_entry;

__attribute__((format(printf, 3, 4))) static void add_entry(rg_optim_load *all, optim_entry e,
                                                            const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(e.name, sizeof e.name, format, args);
    va_end(args);
    all->v[all->n++] = e;
}

static void add_slot(rg_optim_load *all, rg_optim *o, size_t i) {
    rg_optim_slot *slot = &o->slots[i];
    if (o->row->saves_step)
        add_entry(all,
                  (optim_entry){ .number = &slot->step, .slot = slot, .needs = RG_ALWAYS },
                  "state.%zu.step", i);
    if (o->row->factor)
        add_entry(all,
                  (optim_entry){ .number = &slot->product, .slot = slot, .needs = RG_ALWAYS },
                  "state.%zu.mu_product", i);
    for (int k = 0; k < RG_OPTIM_STATES && o->row->states[k].name; k++) {
        optim_entry e = { .tensor = &slot->state[k],
                          .slot = slot,
                          .needs = o->row->states[k].needs };
        add_entry(all, e, "state.%zu.%s", i, o->row->states[k].name);
    }
}

/* A schedule's options may be loaded before the schedule exists that sets them. As in torch, Adam
 * loads decoupled_weight_decay, which older files lack, and AdamW ignores it. */
static void add_group(rg_optim_load *all, rg_optim *o, size_t i) {
    rg_group *g = &o->groups[i];
    add_entry(all, (optim_entry){ .number = &g->n_params }, "param_groups.%zu.params", i);
    for (int k = 0; k < RG_OPTION_COUNT; k++) {
        optim_entry e = { .number = &g->option[k],
                          .schedules = k >= RG_OPTION_FIRST_OF_SCHEDULES,
                          .text = rgi_options[k].kind == RG_SAVED_TEXT };
        if (k == RG_OPTION_decoupled_weight_decay) {
            e.given = &o->row->defaults.decoupled_weight_decay;
            e.settled = o->row == &rgi_optim_rows[RG_ADAMW];
        }
        if (k >= RG_OPTION_FIRST_OF_SCHEDULES || rgi_option_set(g->option[k]))
            add_entry(all, e, "param_groups.%zu.%s", i, rgi_options[k].name);
    }
}

static void add_schedule(rg_optim_load *all, rg_schedule *s, size_t i) {
    static const char *const names[RG_SCHEDULE_STATES] = {
        [RG_LAST_EPOCH] = "last_epoch",
        [RG_BEST] = "best",
        [RG_NUM_BAD_EPOCHS] = "num_bad_epochs",
        [RG_COOLDOWN_COUNTER] = "cooldown_counter",
        [RG_T_CUR] = "T_cur",
        [RG_T_I] = "T_i",
    };
    const bool restarts = s->kind == RG_COSINE_ANNEALING_WARM_RESTARTS;
    const int n = restarts ? RG_T_I + 1 : RG_SCHEDULE_STATES_OF_ALL;
    for (int k = 0; k < n; k++)
        add_entry(all, (optim_entry){ .number = &s->state[k], .schedules = true },
                  "schedules.%zu.%s", i, names[k]);
}

/* Lists all possible entries; the scope owns the list. Returns false if there is no memory. */
static bool list_entries(rg_optim *o, rg_optim_load *all) {
    size_t most = o->n_slots * (RG_OPTIM_STATES + 2) + o->n_groups * (RG_OPTION_COUNT + 1);
    for (rg_schedule *s = o->schedules; s; s = s->next)
        most += RG_SCHEDULE_STATES;
    all->n = 0;
    all->v = rgi_scope_alloc(most * sizeof *all->v);
    if (!all->v)
        return false;
    for (size_t i = 0; i < o->n_slots; i++)
        add_slot(all, o, i);
    for (size_t i = 0; i < o->n_groups; i++)
        add_group(all, o, i);
    size_t n = 0;
    for (rg_schedule *s = o->schedules; s; s = s->next)
        add_schedule(all, s, n++);
    return true;
}

/* ---- state_dict ---------------------------------------------------------------- */

/* Returns whether the state has the entry now. A parameter without steps has no state. */
static bool entry_is_there(const optim_entry *e) {
    if (e->tensor)
        return *e->tensor != NULL;
    return rgi_option_set(*e->number) && (!e->slot || e->slot->state[0]);
}

static rg_tensor *entry_value(const optim_entry *e) {
    if (e->tensor)
        return rgi_lend(*e->tensor);
    return rg_scalar_dtype(*e->number, e->slot ? rg_default_dtype() : RG_FLOAT64);
}

rg_named_list rg_optim_state_dict(rg_optim *o) {
    const rg_named_list failed = { .n = -1 };
    rg_optim_load all = { 0 };
    if (!rgi_may_do_once("state_dict") || !rgi_handle_given(o, "state_dict", RG_HANDLE_OPTIM)
        || !list_entries(o, &all))
        return failed;
    const rg_named_list lbfgs = rgi_lbfgs_list(o);
    if (lbfgs.n < 0)
        return failed;
    int n = lbfgs.n;
    rg_named *v = rgi_scope_alloc((size_t)(n + all.n) * sizeof *v);
    if (!v)
        return failed;
    if (n)
        memcpy(v, lbfgs.v, (size_t)n * sizeof *v);
    for (int i = 0; i < all.n; i++) {
        if (!entry_is_there(&all.v[i]))
            continue;
        v[n] = (rg_named){ all.v[i].name, entry_value(&all.v[i]) };
        if (!v[n].tensor)
            return failed;
        n++;
    }
    return (rg_named_list){ n, v };
}

/* ---- load_state_dict: everything is read and copied before anything changes ---- */

static const char *const load_op = "load_state_dict";

static bool check_groups(const rg_optim *o, rg_named_list dict) {
    size_t groups = 0;
    for (int i = 0; i < dict.n; i++)
        groups += strstr(dict.v[i].name, ".params") != NULL;
    RG_FAIL_VALUE_IF(groups != o->n_groups, load_op,
                     "loaded state dict has a different number of parameter groups");
    return true;
}

static optim_entry *entry_named(const rg_optim_load *all, const char *name) {
    int64_t at = rgi_map_name(&all->places, name);
    RG_FAIL_IF(at < 0, load_op,
               "Error(s) in loading state_dict for %s: Unexpected key(s) in state_dict: \"%s\".",
               all->optim->row->name, name);
    return &all->v[at];
}

/* Returns a copy of t with the parameter's order of dims in memory. */
static rg_tensor *copy_for(const rg_tensor *param, const rg_tensor *t) {
    rg_tensor *copy = rgi_own(rgi_new_like(param, param->dtype));
    if (copy)
        rgi_copy_elements(copy, t);
    return copy;
}

static bool find_value(const rg_optim_load *all, rg_named loaded) {
    if (!rgi_check(loaded.tensor, load_op))
        return false;
    optim_entry *e = entry_named(all, loaded.name);
    if (!e)
        return false;
    bool fits = e->tensor ? rgi_same_shape(loaded.tensor, e->slot->param)
                          : loaded.tensor->numel == 1;
    RG_FAIL_IF(!fits, load_op, "size mismatch for %s: its shape is %s", loaded.name,
               RG_SHAPE_TEXT(loaded.tensor));
    RG_FAIL_VALUE_IF(strstr(loaded.name, ".params") && rg_item(loaded.tensor) != *e->number,
                     load_op,
                     "loaded state dict contains a parameter group that doesn't match the size of "
                     "optimizer's group");
    e->found = e->tensor ? copy_for(e->slot->param, loaded.tensor) : loaded.tensor;
    if (e->slot)
        all->loaded[e->slot - all->optim->slots] = true;
    return e->found;
}

/* Returns whether a group's options after loading require a state. */
static bool state_is_asked_for(const rg_optim_load *all, const optim_entry *e) {
    if (e->needs == RG_ALWAYS)
        return true;
    char name[sizeof e->name];
    const size_t group = e->slot->group;
    snprintf(name, sizeof name, "param_groups.%zu.%s", group, rgi_options[e->needs].name);
    const int64_t at = rgi_map_name(&all->places, name);
    if (at >= 0 && all->v[at].found)
        return rg_item(all->v[at].found) != 0;
    return all->optim->groups[group].option[e->needs] != 0;
}

/* Returns whether the dictionary must have the entry. A parameter's state may be absent as a whole.
 * A number of a group or schedule is required if the optimizer has it now. */
static bool entry_is_needed(const rg_optim_load *all, const optim_entry *e) {
    if (!e->slot)
        return !e->given && !((e->schedules || e->text) && all->torchs) && entry_is_there(e);
    return all->loaded[e->slot - all->optim->slots] && state_is_asked_for(all, e);
}

static bool check_found(const rg_optim_load *all) {
    for (const optim_entry *e = all->v; e < all->v + all->n; e++)
        RG_FAIL_IF(!e->found && entry_is_needed(all, e), load_op,
                   "Error(s) in loading state_dict for %s: Missing key(s) in state_dict: \"%s\".",
                   all->optim->row->name, e->name);
    return true;
}

/* Moves the loaded tensor into the optimizer, or clears it if there is none. */
static void put_tensor(const rg_optim *o, optim_entry *e) {
    rgi_release(*e->tensor);
    *e->tensor = e->found;
    if (e->found)
        rgi_retain(e->found);
    /* SGD doesn't save its step count: a loaded buffer means that this isn't the first step. */
    if (!o->row->saves_step)
        e->slot->step = e->found != NULL;
}

/* Without a loaded number, a parameter's step count becomes 0, and an option keeps its value or
 * gets its default. */
static void put_number(optim_entry *e) {
    if (e->found && !e->settled)
        *e->number = rg_item(e->found);
    else if (e->given)
        *e->number = *e->given;
    else if (e->slot)
        *e->number = 0;
}

/* Builds the map of names. */
static bool index_entries(rg_optim_load *all) {
    const size_t slots = all->optim->n_slots;
    all->loaded = rgi_scope_alloc(slots * sizeof *all->loaded);
    if (!all->loaded)
        return false;
    memset(all->loaded, 0, slots * sizeof *all->loaded);
    for (int i = 0; i < all->n; i++)
        if (!rgi_map_put_name(&all->places, all->v[i].name, i))
            return false;
    return true;
}

/* Finds the dictionary's values. lbfgs_state.c reads LBFGS's. */
static bool find_values(rg_optim_load *all, rg_named_list dict) {
    const bool lbfgs = all->optim->row == &rgi_optim_rows[RG_LBFGS];
    for (int i = 0; i < dict.n; i++) {
        const char *name = dict.v[i].name;
        const bool apart = lbfgs && strncmp(name, "state.", 6) == 0;
        if (!apart && !find_value(all, dict.v[i]))
            return false;
    }
    return check_found(all) && (!lbfgs || rgi_lbfgs_read(&all->lbfgs, all->optim, dict));
}

bool rgi_optim_load_begin(rg_optim_load *l, rg_optim *o, rg_named_list dict, bool torchs) {
    *l = (rg_optim_load){ .optim = o, .torchs = torchs };
    if (!list_entries(o, l) || !check_groups(o, dict))
        return false;
    if (index_entries(l) && find_values(l, dict))
        return true;
    rgi_map_free(&l->places);
    return false;
}

void rgi_optim_load_end(rg_optim_load *l, bool go) {
    rgi_map_free(&l->places);
    const rg_lbfgs old = l->optim->lbfgs;
    if (go) {
        l->optim->lbfgs = l->lbfgs;
        l->lbfgs = old;
    }
    rgi_lbfgs_end(&l->lbfgs);
    for (int i = 0; go && i < l->n; i++) {
        if (l->v[i].tensor)
            put_tensor(l->optim, &l->v[i]);
        else
            put_number(&l->v[i]);
    }
}

bool rg_optim_load_state_dict(rg_optim *o, rg_named_list dict) {
    RG_SCOPE();
    rg_optim_load l;
    if (!rgi_handle_given(o, load_op, RG_HANDLE_OPTIM) || !rgi_state_given(dict, load_op))
        return false;
    bool torchs;
    dict = rgi_optim_own_words(o, dict, &torchs);
    bool ok = dict.n >= 0 && rgi_optim_load_begin(&l, o, dict, torchs);
    if (ok)
        rgi_optim_load_end(&l, true);
    return ok;
}
