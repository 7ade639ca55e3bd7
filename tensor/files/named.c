/*
 * named.c: finds the tensors in a list whose names begin with a prefix and a dot (rg_named_below).
 */
#include "files.h"
#include "tensor/scope.h"
#include "tensor/unheld.h"

#include <string.h>

/* Returns whether t may be in a list that rg_torch_load has returned: t is a tensor, RG_NONE, or
 * the stand-in for a value that no tensor can hold (see unheld.h). Otherwise fails. */
static bool may_be_listed(rg_tensor *t) {
    return t == RG_NONE || rgi_is_unheld(t) || rgi_check(t, "named_below");
}

rg_named_list rg_named_below(rg_named_list list, const char *prefix) {
    const rg_named_list failed = { .n = -1 };
    if (!rgi_given_list(list.n, list.v, "named_below")
        || !rgi_given(prefix, "named_below", "a name"))
        return failed;
    const size_t length = strlen(prefix);
    rg_named *v = rgi_scope_alloc((size_t)list.n * sizeof *v);
    if (!v)
        return failed;
    int n = 0;
    for (int i = 0; i < list.n; i++) {
        const char *name = list.v[i].name;
        if (!rgi_given(name, "named_below", "a name")
            || !may_be_listed(list.v[i].tensor))
            return failed;
        if (strncmp(name, prefix, length) == 0 && name[length] == '.')
            v[n++] = (rg_named){ name + length + 1, list.v[i].tensor };
    }
    return (rg_named_list){ n, v };
}
