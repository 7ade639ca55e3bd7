/*
 * torch_checkpoint.c: checkpoints in PyTorch's usual form: a dict of state_dicts of the model, the
 * optimizer and the scheduler.
 */
#include "checkpoint.h"
#include "nn/data/data.h"
#include "checkpoint_given.h"
#include "tensor/text/text.h"
#include "tensor/memory.h"
#include "tensor/map.h"
#include "tensor/error.h"
#include "nn/optim/load_optim.h"

#include <math.h>
#include <stddef.h>

static const char *const torch_op = "torch_save_checkpoint";

/* ---- an optimizer ----------------------------------------------------------------------- */

static void add_torch_slot(rg_py *p, const rg_optim *o, size_t i) {
    const rg_optim_slot *slot = &o->slots[i];
    rgi_py_int_key(p, (int64_t)i);
    rgi_py_begin(p, RG_PY_DICT);
    if (o->row->saves_step)
        rgi_py_tensor(p, "step", rg_scalar_dtype(slot->step, rg_default_dtype()));
    if (o->row->factor)
        rgi_py_tensor(p, "mu_product", rg_scalar_dtype(slot->product, rg_default_dtype()));
    for (int k = 0; k < RG_OPTIM_STATES; k++)
        if (slot->state[k])
            rgi_py_tensor(p, o->row->states[k].name, slot->state[k]);
    rgi_py_end(p);
}

/* Writes group g, whose parameters' indices start at `first`. */
static void add_torch_group(rg_py *p, const rg_group *g, size_t first) {
    rgi_py_begin(p, RG_PY_DICT);
    for (int k = 0; k < RG_OPTION_COUNT; k++)
        if (rgi_option_set(g->option[k]))
            rgi_saved_add(p, &rgi_options[k], &g->options, true, RG_FLOAT64);
    rgi_py_begin_at(p, "params", RG_PY_LIST);
    for (size_t i = 0; i < (size_t)g->n_params; i++)
        rgi_py_int(p, NULL, (int64_t)(first + i));
    rgi_py_end(p);
    rgi_py_end(p);
}

static void add_torch_optim(rg_py *p, const rg_optim *o) {
    size_t first = 0;
    rgi_py_begin_at(p, "optimizer", RG_PY_DICT);
    rgi_py_begin_at(p, "state", RG_PY_DICT);
    for (size_t i = 0; i < o->n_slots; i++)
        if (o->slots[i].state[0])
            add_torch_slot(p, o, i);
    rgi_lbfgs_add(p, o);
    rgi_py_end(p);
    rgi_py_begin_at(p, "param_groups", RG_PY_LIST);
    for (size_t i = 0; i < o->n_groups; i++) {
        add_torch_group(p, &o->groups[i], first);
        first += (size_t)o->groups[i].n_params;
    }
    rgi_py_end(p);
    rgi_py_end(p);
}

/* ---- its schedules ---------------------------------------------------------------------- */

/* Returns whether another schedule of the optimizer steps this one. */
static bool is_stepped_by_another(const rg_schedule *s) {
    for (const rg_schedule *other = s->optim->schedules; other; other = other->next)
        for (int i = 0; i < rgi_schedules_below(other); i++)
            if (other->o.schedules[i] == s)
                return true;
    return false;
}

/* Writes one schedule as "scheduler", several as a list "schedulers". */
static void add_torch_schedules(rg_py *p, const rg_optim *o) {
    int n = 0;
    for (const rg_schedule *s = o->schedules; s; s = s->next)
        n += !is_stepped_by_another(s);
    if (n > 1)
        rgi_py_begin_at(p, "schedulers", RG_PY_LIST);
    for (rg_schedule *s = o->schedules; s; s = s->next)
        if (!is_stepped_by_another(s))
            rgi_schedule_value(p, n > 1 ? NULL : "scheduler", s);
    if (n > 1)
        rgi_py_end(p);
}

/* ---- the rest --------------------------------------------------------------------------- */

static void add_torch_list(rg_py *p, const char *key, rg_named_list list) {
    rgi_py_begin_at(p, key, RG_PY_ORDERED_DICT);
    for (int i = 0; i < list.n; i++)
        rgi_py_tensor(p, list.v[i].name, list.v[i].tensor);
    rgi_py_end(p);
    p->failed |= list.n < 0;
}

/* Writes the program's tensors and numbers; an integral number as an int. */
static void add_torch_own(rg_py *p, const rg_training *run) {
    for (int i = 0; i < run->tensors.n; i++)
        rgi_py_tensor(p, run->tensors.v[i].name, run->tensors.v[i].tensor);
    for (int i = 0; i < run->numbers.n; i++) {
        const double number = *run->numbers.v[i].value;
        if (number == floor(number) && fabs(number) <= INT32_MAX)
            rgi_py_int(p, run->numbers.v[i].name, (int64_t)number);
        else
            rgi_py_float(p, run->numbers.v[i].name, number);
    }
}

/* Returns whether all names in the file's dict differ. */
static bool checkpoint_names_differ(const rg_training *run) {
    static const char *const taken[] = { "model", "optimizer", "scheduler", "schedulers",
                                         "loader" };
    rg_map names = { 0 };
    bool ok = true;
    for (int i = 0; ok && i < RG_COUNT(taken); i++)
        ok = rgi_map_put_name(&names, taken[i], i);
    for (int i = 0; ok && i < run->tensors.n + run->numbers.n; i++) {
        const char *name = i < run->tensors.n ? run->tensors.v[i].name
                                              : run->numbers.v[i - run->tensors.n].name;
        if (rgi_map_name(&names, name) >= 0)
            ok = rgi_fail(RG_VALUE_ERROR, torch_op, "the name \"%s\" comes twice", name);
        ok = ok && rgi_map_put_name(&names, name, i);
    }
    rgi_map_free(&names);
    return ok;
}

bool rg_torch_save_checkpoint(const char *path, rg_training run) {
    RG_AS(torch_op);
    RG_SCOPE();
    if (!rgi_checkpoint_given(&run, torch_op) || !rgi_given_path(path, torch_op)
        || !checkpoint_names_differ(&run))
        return false;
    rg_py p = { 0 };
    rgi_py_begin(&p, RG_PY_DICT);
    if (run.model)
        add_torch_list(&p, "model", rg_state_dict(run.model));
    if (run.optim) {
        add_torch_optim(&p, run.optim);
        add_torch_schedules(&p, run.optim);
    }
    if (run.loader)
        add_torch_list(&p, "loader", rg_data_loader_state_dict(run.loader));
    add_torch_own(&p, &run);
    rgi_py_end(&p);
    const bool ok = rgi_torch_write(torch_op, &p, path);
    rgi_py_free(&p);
    return ok;
}
