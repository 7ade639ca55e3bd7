/*
 * requires_grad.c: sets requires_grad of all parameters of a module, and of the modules below it.
 */
#include "nn/registry.h"
#include "tensor/error.h"
#include "tensor/scope.h"

/* Sets requires_grad of the parameters. On failure, undoes the changes that were made, and returns
 * false. */
static bool set_all(rg_named_list l, bool on) {
    bool *before = rgi_scope_alloc((size_t)l.n * sizeof *before);
    int n = 0;
    if (!before)
        return false;
    for (int i = 0; i < l.n; i++)
        before[i] = rg_requires_grad(l.v[i].tensor);
    while (n < l.n && rg_requires_grad_(l.v[n].tensor, on))
        n++;
    if (n == l.n)
        return true;
    while (n-- > 0)
        rg_requires_grad_(l.v[n].tensor, before[n]);
    return false;
}

bool(rg_module_requires_grad_)(void *m, bool on) {
    RG_AS("module_requires_grad_");
    RG_SCOPE();
    rg_named_list l = rg_named_parameters(m);
    return l.n >= 0 && set_all(l, on);
}
