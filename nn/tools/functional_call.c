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

/* A field of a module, the tensor to which it points before the call, and the one to which it
 * points during the call. The field is found again by its name, since it may move. */
typedef struct swapped {
    rg_module *module;
    char name[sizeof((rg_entry *)0)->name];
    rg_tensor *before, *value;
} swapped;

/* Writes the module's own tensor of each name in `values` to own[]. Fails and returns false if a
 * name isn't known, or if two names of one tensor have different values. */
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
            RG_FAIL_VALUE_IF(own[k] == own[i] && values.v[k].tensor != values.v[i].tensor, op,
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
                        list[found] = (swapped){ .module = modules.v[k].module,
                                                 .before = *e->place,
                                                 .value = values[i].tensor };
                        memcpy(list[found].name, e->name, sizeof e->name);
                        *e->place = values[i].tensor;
                    }
                    found++;
                    break;
                }
    return found;
}

/* Points the fields to the module's own tensors again. If the call has put another tensor into a
 * field, it stays there, and the module's own one is released. */
static void swap_back(int n, const swapped *list) {
    for (int i = 0; i < n; i++) {
        const rg_entry *e = rgi_entry_named(list[i].module, list[i].name);
        if (e && *e->place == list[i].value)
            *e->place = list[i].before;
        else
            rg_drop(list[i].before);
    }
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
    const char **users = rgi_scope_alloc((size_t)modules.n * sizeof *users);
    if (!list || !users)
        return NULL;
    swap(modules, values.n, own, values.v, list);
    for (int i = 0; i < modules.n; i++)
        users[i] = rgi_module_begin_use(modules.v[i].module, op);
    rg_tensor *y = rg_call_list(m, inputs);
    swap_back(n, list);
    for (int i = modules.n; i-- > 0;)
        rgi_module_end_use(modules.v[i].module, users[i]);
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
