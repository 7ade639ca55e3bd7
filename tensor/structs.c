/*
 * structs.c: defines RG_NONE, and fails with an error message for pointers that aren't a tensor in
 * use.
 */
#include "structs.h"

#include "handle.h"
#include "thread.h"
#include "unheld.h"

rg_tensor rg_none_ = { .state = RG_ALIVE, .refs = 1 };

static const struct {
    uint32_t state;
    const char *released;
} ends[] = {
    { RG_DEAD, "with its scope; rg_escape it to the scope outside, or rg_keep it, before" },
    { RG_DROPPED, "by rg_drop" },
    { RG_MODULE_FREED, "with its module, by rg_module_free or rg_tie; rg_keep it before" },
    { RG_OPTIM_FREED, "with its optimizer, by rg_optim_free; rg_keep it before" },
    { RG_LOADER_FREED, "with its loader, by rg_data_loader_free; rg_keep it before" },
    { RG_REPLAY_FREED, "with its recording, by rg_replay_free; rg_keep it before" },
    { RG_THREAD_ENDED, "at the end of the thread whose scope it was in; rg_keep it there" },
};

bool rgi_check_slow(rg_tensor *t, const char *op) {
    for (int i = 0; t && i < RG_COUNT(ends); i++)
        if (t->state == ends[i].state)
            return rgi_fail(RG_RELEASED, op, "tensor released %s", ends[i].released);
    if (rgi_is_unheld(t))
        return rgi_fail(RG_RUNTIME_ERROR, op, "%s", rgi_name_of(t));
    if (!t && rgi_null_is_explained()) {
        rgi_null_reached(op);
        return false;
    }
    return rgi_fail(RG_TYPE_ERROR, op, "expected a tensor but got %s", rgi_name_of_pointer(t));
}

bool rg_check_tensor(rg_tensor *t, const char *op) { return rgi_check(t, op); }

/* The elements of the list that a function returns if it fails. A caller that reads an element
 * without checking the list gets NULL, as from any function that has failed. */
static rg_tensor *const no_tensors[64];
const rg_list rgi_list_failed = { -1, no_tensors };

bool rgi_check_list(rg_list list, const char *op) {
    if (!rgi_given_list(list.n, list.v, op))
        return false;
    for (int i = 0; i < list.n; i++)
        if (!rgi_check(list.v[i], op))
            return false;
    return true;
}
