/*
 * torch_checkpoint.c: writes checkpoints in the form that is usual with PyTorch: a dict with the
 * state_dicts of the model, the optimizer and the scheduler.
 */
#include "checkpoint.h"
#include "nn/data/data.h"
#include "checkpoint_given.h"
#include "tensor/text/text.h"
#include "tensor/memory.h"
#include "tensor/map.h"
#include "tensor/error.h"
#include "tensor/files/file.h"
#include "nn/optim/optim_state.h"

#include <math.h>
#include <string.h>

static const char *const torch_op = "torch_save_checkpoint";

static void add_torch_list(rg_py *p, const char *key, rg_named_list list) {
    rgi_py_begin_at(p, key, RG_PY_ORDERED_DICT);
    for (int i = 0; i < list.n; i++)
        rgi_py_tensor(p, list.v[i].name, list.v[i].tensor);
    rgi_py_end(p);
    p->failed |= list.n < 0;
}

/* Returns whether Python's int can stand for the number: it is whole, at most INT32_MAX in
 * magnitude, and not -0.0. */
static bool is_int(double number) {
    const bool whole = number == floor(number) && fabs(number) <= INT32_MAX;
    return whole && (number != 0 || !signbit(number));
}

/* Writes run->tensors and run->numbers, which the program added to the run. */
static void add_torch_own(rg_py *p, const rg_training *run) {
    for (int i = 0; i < run->tensors.n; i++)
        rgi_py_tensor(p, run->tensors.v[i].name, run->tensors.v[i].tensor);
    for (int i = 0; i < run->numbers.n; i++) {
        const double number = *run->numbers.v[i].value;
        if (is_int(number))
            rgi_py_int(p, run->numbers.v[i].name, (int64_t)number);
        else
            rgi_py_float(p, run->numbers.v[i].name, number);
    }
}

/* The names of the entries that the file itself has. */
static const char *const taken[] = { "model", "optimizer", "scheduler", "schedulers", "loader" };

/* Fails and returns false if the name is that of a value in one of these entries, such as
 * "model.weight". rg_torch_load would find both values under one name, or the value as a part of
 * the entry. */
static bool is_outside(const char *name) {
    for (int i = 0; i < RG_COUNT(taken); i++) {
        const size_t n = strlen(taken[i]);
        RG_FAIL_VALUE_IF(!strncmp(name, taken[i], n) && name[n] == '.', torch_op,
                         "the name \"%s\" belongs to the entry \"%s\" of the file",
                         RG_SHOWN(name), taken[i]);
    }
    return true;
}

/* Returns whether all keys of the file's dict are different. Fails if two of the program's tensors
 * and numbers have the same name, or if one has a name in `taken`. */
static bool checkpoint_names_differ(const rg_training *run) {
    rg_map names = { 0 };
    bool ok = true;
    for (int i = 0; ok && i < RG_COUNT(taken); i++)
        ok = rgi_map_put_name(&names, taken[i], i);
    for (int i = 0; ok && i < run->tensors.n + run->numbers.n; i++) {
        const char *name = i < run->tensors.n ? run->tensors.v[i].name
                                              : run->numbers.v[i - run->tensors.n].name;
        if (rgi_map_name(&names, name) >= 0)
            ok = rgi_fail(RG_VALUE_ERROR, torch_op, "the name \"%s\" comes twice", name);
        ok = ok && is_outside(name) && rgi_map_put_name(&names, name, i);
    }
    rgi_map_free(&names);
    return ok;
}

bool rg_torch_save_checkpoint(const char *path, rg_training run) {
    RG_AS(torch_op);
    RG_SCOPE();
    if (!rgi_checkpoint_given(&run, torch_op) || !rgi_given_path(path, torch_op)
        || !checkpoint_names_differ(&run)
        || (run.optim && !rgi_optim_can_be_saved(run.optim, torch_op)))
        return false;
    rg_py p = { 0 };
    rgi_py_begin(&p, RG_PY_DICT);
    if (run.model)
        add_torch_list(&p, "model", rg_state_dict(run.model));
    if (run.optim) {
        rgi_optim_add(&p, "optimizer", run.optim, false);
        rgi_optim_add_schedules(&p, run.optim);
    }
    if (run.loader)
        add_torch_list(&p, "loader", rg_data_loader_state_dict(run.loader));
    add_torch_own(&p, &run);
    rgi_py_end(&p);
    const bool ok = rgi_torch_write(torch_op, &p, path);
    rgi_py_free(&p);
    return ok;
}
