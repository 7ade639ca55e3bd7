/*
 * structs.c: RG_NONE, and the error for a pointer to what is no living tensor.
 */
#include "structs.h"

#include "thread.h"
#include "unheld.h"

rg_tensor rg_none_ = { .state = RG_ALIVE, .refs = 1 };

bool rgi_check_slow(rg_tensor *t, const char *op) {
    if (t && t->state == RG_DEAD)
        return rgi_fail(RG_RELEASED, op,
                        "tensor released with its scope; return it with rg_escape");
    if (rgi_is_unheld(t))
        return rgi_fail(RG_RUNTIME_ERROR, op, "%s", rgi_name_of(t));
    if (!t && rgi_this.code != RG_OK)
        return false;
    const char *got = "another pointer";
    if (!t)
        got = "NULL";
    else if (t == RG_NONE)
        got = "RG_NONE";
    return rgi_fail(RG_TYPE_ERROR, op, "expected a tensor but got %s", got);
}

bool rgi_check_list(rg_list list, const char *op) {
    if (!rgi_given_list(list.n, list.v, op))
        return false;
    for (int i = 0; i < list.n; i++)
        if (!rgi_check(list.v[i], op))
            return false;
    return true;
}
