/*
 * functional_call.c: calls a module with other tensors in place of its parameters. The fields of
 * the modules point to these tensors while the call runs.
 */
#include "functional_call.h"

#include "nn/registry.h"
#include "nn/state.h"
#include "tensor/scope.h"
#include "tensor/structs.h"

#include <string.h>

/* A field, and the tensor to which it points before the call. */
typedef struct swapped {
    void **place;
    void *before;
} swapped;

/* Writes the module's own tensor of each name in `values` to own[]. Fails and returns false if a
 * name isn't known, or two names are those of one tensor. */
static bool find_own(const char *op, void *m, rg_named_list values, rg_tensor *own[]) {
    const rg_named_list all = rg_state_dict(m);
    if (all.n < 0)
        return false;
    for (int i = 0; i < values.n; i++) {
        int at = 0;
        while (at < all.n && strcmp(all.v[at].name, values.v[i].name))
            at++;
        RG_FAIL_IF(at == all.n, op, "the module has no parameter or buffer \"%s\"",
                   values.v[i].name);
        own[i] = all.v[at].tensor;
        for (int k = 0; k < i; k++)
            RG_FAIL_VALUE_IF(own[k] == own[i], op,
                             "got multiple values for keys %s and %s, which "
                             "are tied",
                             values.v[k].name, values.v[i].name);
    }
    return true;
}

/* Lists the fields of the modules that hold one of the tensors own[], and points them to the
 * values. If `list` is NULL, only counts them. Returns their number. */
static int swap(rg_named_modules_list modules, int n, rg_tensor *const own[],
                const rg_named *values, swapped *list) {
    int found = 0;
    for (int k = 0; k < modules.n; k++)
        for (RG_EACH_ENTRY(e, modules.v[k].module))
            for (int i = 0; i < n && e->kind != RG_ENTRY_CHILD; i++)
                if (*e->place == own[i]) {
                    if (list) {
                        list[found] = (swapped){ e->place, *e->place };
                        *e->place = values[i].tensor;
                    }
                    found++;
                    break;
                }
    return found;
}

/* Calls the module while its fields point to the values. */
static rg_tensor *call_swapped(void *m, rg_named_list values, rg_list inputs) {
    static const char op[] = "functional_call";
    RG_SCOPE();
    rg_tensor **own = rgi_scope_alloc((size_t)values.n * sizeof *own);
    const rg_named_modules_list modules = rg_named_modules(m);
    if (!own || modules.n < 0 || !find_own(op, m, values, own))
        return NULL;
    const int n = swap(modules, values.n, own, values.v, NULL);
    swapped *list = rgi_scope_alloc((size_t)n * sizeof *list);
    if (!list)
        return NULL;
    swap(modules, values.n, own, values.v, list);
    rg_tensor *y = rg_call_list(m, inputs);
    for (int i = 0; i < n; i++)
        *list[i].place = list[i].before;
    return rg_escape(y);
}

rg_tensor *(rg_functional_call_list)(void *m, rg_named_list values, rg_list inputs) {
    static const char op[] = "functional_call";
    if (!rgi_module_given(m, op) || !rgi_state_given(values, op))
        return NULL;
    const char *user = rgi_module_begin_use(m, op);
    rg_tensor *y = call_swapped(m, values, inputs);
    rgi_module_end_use(m, user);
    return y;
}
