/*
 * optimizer.c: makes an optimizer, adds groups to it, and frees it. The steps are in step.c, and
 * the table of optimizers in optimizers.c.
 */
#include "optimizer_structs.h"
#include "autograd/graph_observer.h"
#include "tensor/memory.h"
#include "tensor/observer.h"
#include "tensor/opaque.h"
#include "tensor/messages/warning.h"
#include "tensor/text/python_text.h"

#include <math.h>
#include <string.h>

/* ---- groups of parameters with options ----------------------------------------- */

#define OPTION(kind, field) \
    { #field, RG_SAVED_##kind, offsetof(rg_param_group, field), NULL }
const rg_saved rgi_options[RG_OPTION_COUNT] = {
    [RG_OPTION_lr] = OPTION(FLOAT, lr),
    [RG_OPTION_beta1] = { "betas.0", RG_SAVED_PAIR, offsetof(rg_param_group, betas[0]), "betas" },
    [RG_OPTION_beta2] = { "betas.1", RG_SAVED_BEHIND, offsetof(rg_param_group, betas[1]), NULL },
    [RG_OPTION_ns_a] = { "ns_coefficients.0", RG_SAVED_TRIPLE,
                         offsetof(rg_param_group, ns_coefficients[0]), "ns_coefficients" },
    [RG_OPTION_ns_b] = { "ns_coefficients.1", RG_SAVED_BEHIND,
                         offsetof(rg_param_group, ns_coefficients[1]), NULL },
    [RG_OPTION_ns_c] = { "ns_coefficients.2", RG_SAVED_BEHIND,
                         offsetof(rg_param_group, ns_coefficients[2]), NULL },
    [RG_OPTION_lr_decay] = OPTION(FLOAT, lr_decay),
    [RG_OPTION_alpha] = OPTION(FLOAT, alpha),
    [RG_OPTION_momentum] = OPTION(FLOAT, momentum),
    [RG_OPTION_dampening] = OPTION(FLOAT, dampening),
    [RG_OPTION_eps] = OPTION(FLOAT, eps),
    [RG_OPTION_weight_decay] = OPTION(FLOAT, weight_decay),
    [RG_OPTION_initial_accumulator_value] = OPTION(FLOAT, initial_accumulator_value),
    [RG_OPTION_nesterov] = OPTION(FLAG, nesterov),
    [RG_OPTION_amsgrad] = OPTION(FLAG, amsgrad),
    [RG_OPTION_centered] = OPTION(FLAG, centered),
    [RG_OPTION_maximize] = OPTION(FLAG, maximize),
    [RG_OPTION_decoupled_weight_decay] = OPTION(FLAG, decoupled_weight_decay),
    [RG_OPTION_momentum_decay] = OPTION(FLOAT, momentum_decay),
    [RG_OPTION_ns_steps] = OPTION(COUNT, ns_steps),
    [RG_OPTION_match_rms_adamw] = { "match_rms_adamw", RG_SAVED_TEXT,
                                    offsetof(rg_param_group, match_rms_adamw), "adjust_lr_fn" },
    [RG_OPTION_max_iter] = OPTION(COUNT, max_iter),
    [RG_OPTION_max_eval] = OPTION(COUNT, max_eval),
    [RG_OPTION_tolerance_grad] = OPTION(FLOAT, tolerance_grad),
    [RG_OPTION_tolerance_change] = OPTION(FLOAT, tolerance_change),
    [RG_OPTION_history_size] = OPTION(COUNT, history_size),
    [RG_OPTION_strong_wolfe] = { "strong_wolfe", RG_SAVED_TEXT,
                                 offsetof(rg_param_group, strong_wolfe), "line_search_fn" },
    [RG_OPTION_master_weights] = OPTION(FLAG, master_weights),
    [RG_OPTION_initial_lr] = OPTION(FLOAT, initial_lr),
    [RG_OPTION_max_lr] = OPTION(FLOAT, max_lr),
    [RG_OPTION_min_lr] = OPTION(FLOAT, min_lr),
    [RG_OPTION_max_momentum] = OPTION(FLOAT, max_momentum),
    [RG_OPTION_base_momentum] = OPTION(FLOAT, base_momentum),
};

/* Sets each option of the group that wasn't given to its default. Fails and returns false if an
 * option was given that the optimizer doesn't have. */
static bool complete_options(const rg_optim *o, rg_group *group) {
    for (int i = 0; i < RG_OPTION_FIRST_OF_SCHEDULES; i++) {
        bool given = rgi_option_set(group->option[i]);
        RG_FAIL_AS_IF(RG_TYPE_ERROR, given && !rgi_option_set(o->defaults.option[i]), o->row->name,
                      "got an unexpected keyword argument '%.*s'",
                      (int)strcspn(rgi_options[i].name, "."), rgi_options[i].name);
        if (!given)
            group->option[i] = o->defaults.option[i];
    }
    return true;
}

/* Fails and returns false if a flag is neither 0 nor 1, or a count isn't a whole number from -1e15
 * to 1e15. */
static bool check_kinds(const rg_optim *o, const rg_group *group) {
    for (int k = 0; k < RG_OPTION_COUNT; k++) {
        const rg_saved_kind kind = rgi_options[k].kind;
        const double value = group->option[k];
        const bool flag = kind == RG_SAVED_FLAG || kind == RG_SAVED_TEXT;
        const bool whole = floor(value) == value && fabs(value) <= 1e15;
        if (!rgi_option_set(value))
            continue;
        RG_FAIL_VALUE_IF(flag && value != 0 && value != 1, o->row->name,
                         "%s is a flag, 0 or 1, but is: %s", rgi_options[k].name,
                         rgi_python_float(value));
        RG_FAIL_VALUE_IF(kind == RG_SAVED_COUNT && !whole, o->row->name,
                         "%s is a whole number, but is: %s", rgi_options[k].name,
                         rgi_python_float(value));
    }
    return true;
}

/* Checks that a tensor can become the optimizer's parameter number i, and adds it to the map
 * o->places. Fails and returns false if it can't. */
static bool check_param(rg_optim *o, size_t i, rg_tensor *param) {
    const char *name = o->row->name;
    RG_FAIL_VALUE_IF(!rg_is_leaf(param) && !rg_retains_grad(param), name,
                     "can't optimize a non-leaf Tensor");
    RG_FAIL_VALUE_IF(o->row->kind == RG_MUON && rg_ndim(param) != 2, name,
                     "Muon only supports 2D parameters whereas we found a parameter with size: "
                     "torch.Size(%s)",
                     RG_SIZES_TEXT(param));
    int64_t j = rgi_map_address(&o->places, param);
    RG_FAIL_VALUE_IF(j >= 0 && (size_t)j < o->n_slots, name,
                     "some parameters appear in more than one parameter group");
    RG_FAIL_VALUE_IF(j >= 0, name,
                     "optimizer contains a parameter group with duplicate parameters");
    return rgi_map_put_address(&o->places, param, (int64_t)i);
}

/* Writes a slot for each parameter of the list behind the slots in use. n_slots grows only after
 * that, in rg_optim_add_group. The map o->places is empty if an earlier call failed. Then it is
 * filled again first. Returns false on failure. */
static bool fill_slots(rg_optim *o, rg_list list) {
    for (size_t i = rgi_map_addresses(&o->places); i < o->n_slots; i++)
        if (!rgi_map_put_address(&o->places, o->slots[i].param, (int64_t)i))
            return false;
    for (size_t i = 0; i < (size_t)list.n; i++) {
        rg_tensor *param = list.v[i];
        if (!rg_check_tensor(param, o->row->name) || !check_param(o, o->n_slots + i, param))
            return false;
        o->slots[o->n_slots + i] = (rg_optim_slot){
            .param = param,
            .group = o->n_groups,
            .owner = -1,
            .count_dtype = rgi_computed_in(rg_default_dtype()),
        };
    }
    return true;
}

/* The options whose values torch checks, with the names that torch's error messages give them. */
static const char *const checked_options[RG_OPTION_COUNT] = {
    [RG_OPTION_lr] = "learning rate",
    [RG_OPTION_beta1] = "beta parameter at index 0",
    [RG_OPTION_beta2] = "beta parameter at index 1",
    [RG_OPTION_lr_decay] = "lr_decay value",
    [RG_OPTION_alpha] = "alpha value",
    [RG_OPTION_momentum] = "momentum value",
    [RG_OPTION_eps] = "epsilon value",
    [RG_OPTION_weight_decay] = "weight_decay value",
    [RG_OPTION_initial_accumulator_value] = "initial_accumulator_value value",
    [RG_OPTION_momentum_decay] = "momentum_decay value",
};
/* The options of Muon that are checked, with the names that torch's error messages give them. Torch
 * doesn't check eps. */
static const char *const checked_by_muon[RG_OPTION_COUNT] = {
    [RG_OPTION_lr] = "Learning rate",
    [RG_OPTION_eps] = "eps",
    [RG_OPTION_momentum] = "momentum",
    [RG_OPTION_weight_decay] = "weight decay",
};

/* Returns whether the value of an option that is checked is refused. A value that isn't finite, and
 * a beta outside of [0, 1) except SGD's, is refused in every group, because weights would become
 * NaN. (Torch takes some of these values.) As in torch, the first group's value may not be
 * negative. */
static bool option_is_bad(const rg_optim *o, int option, double value) {
    const bool beta = option == RG_OPTION_beta1 || option == RG_OPTION_beta2;
    const bool beta_is_bad = beta && (value < 0 || value >= 1) && o->row->kind != RG_SGD;
    return !isfinite(value) || beta_is_bad || (value < 0 && !o->n_groups);
}

static bool check_options(const rg_optim *o, const rg_group *group) {
    const rg_param_group *g = &group->options;
    const bool muon = o->row->kind == RG_MUON;
    const char *const *checked = muon ? checked_by_muon : checked_options;
    for (int k = 0; k < RG_OPTION_COUNT; k++) {
        double value = group->option[k];
        RG_FAIL_VALUE_IF(isnan(value) && !checked[k], o->row->name, "Invalid %s: nan",
                         rgi_options[k].name);
        if (!checked[k] || !rgi_option_set(value))
            continue;
        RG_FAIL_VALUE_IF(option_is_bad(o, k, value), o->row->name,
                         muon ? "%s should be >= 0 but is: %s" : "Invalid %s: %s", checked[k],
                         rgi_python_float(value));
    }
    RG_FAIL_VALUE_IF(muon && !(g->ns_steps < RG_MUON_STEPS_MAX), o->row->name,
                     RG_TOO_MANY_MUON_STEPS);
    bool nesterov = !o->n_groups && !muon && rgi_option_set(g->nesterov) && g->nesterov != 0;
    RG_FAIL_VALUE_IF(nesterov && !(g->momentum > 0 && g->dampening == 0), o->row->name,
                     "Nesterov momentum requires a momentum and zero dampening");
    return true;
}

/* Fails and returns false if an option that consists of several numbers, such as betas, lacks its
 * last number. In C a number that is left out of a list is 0, so a last number of 0 counts as
 * missing. (A program can set it to 0 through rg_optim_group.) */
static bool arrays_are_whole(const rg_optim *o, const rg_group *group) {
    for (int k = 0; k < RG_OPTION_COUNT; k++) {
        const rg_saved_kind kind = rgi_options[k].kind;
        if (kind != RG_SAVED_PAIR && kind != RG_SAVED_TRIPLE)
            continue;
        const int n = kind == RG_SAVED_PAIR ? 2 : 3;
        RG_FAIL_VALUE_IF(group->option[k + n - 1] == 0, o->row->name,
                         "%s are %d numbers, but the last one is absent or 0 (rg_optim_group can "
                         "set it to 0)",
                         rgi_options[k].key, n);
    }
    return true;
}

bool rg_optim_add_group_with(rg_optim *o, rg_list list, rg_param_group options) {
    RG_AS("add_group");
    if (!rgi_may_do_once("add_group") || !rgi_handle_given(o, "add_group", RG_HANDLE_OPTIM))
        return false;
    RG_FAIL_VALUE_IF(o->row->step_by_closure && o->n_groups, o->row->name,
                     "%s doesn't support per-parameter options (parameter groups)", o->row->name);
    rg_group group = { { options }, list.n };
    if (!complete_options(o, &group) || !check_kinds(o, &group)
        || !rgi_given_list(list.n, list.v, o->row->name))
        return false;
    if (!check_options(o, &group) || !arrays_are_whole(o, &group))
        return false;
    size_t n = o->n_slots + (size_t)list.n;
    if (!rgi_grow((void **)&o->groups, &o->groups_room, o->n_groups + 1, sizeof *o->groups)
        || !rgi_grow((void **)&o->slots, &o->slots_room, n, sizeof *o->slots))
        return false;
    if (!fill_slots(o, list)) {
        rgi_map_free(&o->places);
        return false;
    }
    for (int i = 0; i < list.n; i++) {
        rg_tensor **param = &o->slots[o->n_slots++].param;
        *param = NULL;
        rgi_set_reference(param, list.v[i]);
    }
    o->groups[o->n_groups++] = group;
    rgi_count_change();
    o->replacements = atomic_load_explicit(&rgi_replacements, memory_order_relaxed);
    return true;
}

int rg_optim_n_groups(rg_optim *o) {
    return rgi_handle_given(o, "n_groups", RG_HANDLE_OPTIM) ? (int)o->n_groups : rgi_failed_count();
}

static bool has_group(const rg_optim *o, int i) {
    if (!rgi_handle_given(o, "group", RG_HANDLE_OPTIM))
        return false;
    RG_FAIL_INDEX_IF(i < 0 || (size_t)i >= o->n_groups, "group", "there is no group %d of %zu", i,
                     o->n_groups);
    return true;
}

rg_param_group *(rg_optim_group)(rg_optim *o, int i) {
    return rgi_may_do_once("group") && has_group(o, i) ? &o->groups[i].options : NULL;
}

rg_list(rg_optim_parameters)(rg_optim *o, int i) {
    RG_AS("parameters");
    if (!has_group(o, i))
        return rgi_list_failed;
    rg_tensor **v = rgi_scope_alloc(o->n_slots * sizeof *v);
    if (!v)
        return rgi_list_failed;
    int n = 0;
    for (RG_EACH_SLOT(slot, o))
        if (slot->group == (size_t)i)
            v[n++] = slot->param;
    return (rg_list){ n, v };
}

/* ---- making and freeing an optimizer ------------------------------------------- */

rg_optim *rgi_optim_make(const rg_optim_row *row, rg_list params, rg_param_group options) {
    RG_SCOPE();
    RG_AS(row->name);
    if (!rgi_may_do_once(row->name))
        return NULL;
    RG_FAIL_VALUE_IF(!params.n, row->name, "optimizer got an empty parameter list");
    rg_optim *o = rgi_alloc(sizeof *o, RG_MEM_OTHER);
    if (!o)
        return NULL;
    *o = (rg_optim){
        .handle = RG_NEW_HANDLE(OPTIM), .row = row, .holders = 1, .defaults.options = row->defaults
    };
    if (rgi_option_set(options.max_iter) && !rgi_option_set(options.max_eval))
        options.max_eval = floor(options.max_iter * 5 / 4);
    if (!rg_optim_add_group_with(o, params, options)) {
        rg_optim_free(o);
        return NULL;
    }
    /* From now on, options that aren't given for a group have the values of the first group. */
    o->defaults = *o->groups;
    return o;
}

rg_optim *rg_optim_with(rg_optim_kind kind, rg_list params, rg_param_group options) {
    typedef rg_optim *maker(rg_list params, rg_param_group options);
    static maker *const makers[] = {
        [RG_SGD] = rg_optim_sgd_with,
        [RG_ADAM] = rg_optim_adam_with,
        [RG_ADAMW] = rg_optim_adamw_with,
        [RG_RMSPROP] = rg_optim_rmsprop_with,
        [RG_ADAGRAD] = rg_optim_adagrad_with,
        [RG_LION] = rg_optim_lion_with,
        [RG_NADAM] = rg_optim_nadam_with,
        [RG_RADAM] = rg_optim_radam_with,
        [RG_MUON] = rg_optim_muon_with,
        [RG_LBFGS] = rg_optim_lbfgs_with,
    };
    RG_FAIL_VALUE_IF((unsigned)kind >= RG_COUNT(makers), "optim", "there is no optimizer %d", kind);
    return makers[kind](params, options);
}

void rg_optim_free(rg_optim *o) {
    if (!o || !rgi_handle_given(o, "optim_free", RG_HANDLE_OPTIM))
        return;
    o->handle.released = true;
    for (rg_schedule *s = o->schedules; s; s = s->next)
        s->handle.released = true;
    rgi_optim_let_go(o);
}

void rgi_optim_let_go(rg_optim *o) {
    if (--o->holders)
        return;
    for (RG_EACH_SLOT(slot, o)) {
        rgi_release_as(slot->param, RG_OPTIM_FREED);
        for (int k = 0; k < RG_OPTIM_STATES; k++)
            rgi_release_as(slot->state[k], RG_OPTIM_FREED);
        rgi_release_as(slot->master, RG_OPTIM_FREED);
    }
    for (rg_schedule *s = o->schedules, *next; s; s = next) {
        next = s->next;
        rgi_free_handle(&s->handle, sizeof *s);
    }
    rgi_lbfgs_end(&o->lbfgs);
    rgi_map_free(&o->places);
    rgi_free(o->slots, o->slots_room * sizeof *o->slots, RG_MEM_OTHER);
    rgi_free(o->groups, o->groups_room * sizeof *o->groups, RG_MEM_OTHER);
    rgi_free_handle(&o->handle, sizeof *o);
}

bool rg_optim_zero_grad(rg_optim *o) {
    if (!rgi_handle_given(o, "zero_grad", RG_HANDLE_OPTIM))
        return false;
    for (RG_EACH_SLOT(slot, o))
        rg_set_grad(slot->param, RG_NONE);
    return true;
}

void rgi_warn_of_gradients(void) {
    rgi_warn("step", "the gradients contain those of the last step, since nothing has cleared "
                     "them: call rg_optim_zero_grad before rg_backward");
}
