/*
 * torch_state.c: converts the entries of an optimizer's state that PyTorch has saved to those that
 * regard saves. In PyTorch's state a group lists the indices of its parameters; regard saves only
 * the number of parameters. PyTorch's groups also have options that change no result. These options
 * are left out, as are values that are None.
 */
#include "optim_state.h"
#include "optimizer_structs.h"
#include "tensor/text/text.h"
#include "tensor/memory.h"

#include <stdio.h>
#include <string.h>

/* Returns the part of the name after "param_groups.3.", and sets *group to the index 3. Returns
 * NULL if the name isn't of this form. */
static const char *name_in_group(const char *name, size_t *group) {
    static const char prefix[] = "param_groups.";
    if (strncmp(name, prefix, sizeof prefix - 1) != 0)
        return NULL;
    const char *digits = name + sizeof prefix - 1, *p = digits;
    for (*group = 0; *p >= '0' && *p <= '9' && p - digits < 9; p++)
        *group = *group * 10 + (size_t)(*p - '0');
    return p > digits && *p == '.' ? p + 1 : NULL;
}

/* Returns whether this is an option of torch that changes no result, and that regard doesn't
 * have. */
static bool only_torchs(const char *option) {
    static const char *const names[] = { "foreach", "capturable", "differentiable", "fused" };
    for (int i = 0; i < RG_COUNT(names); i++)
        if (strcmp(option, names[i]) == 0)
            return true;
    return false;
}

/* Returns the entry "param_groups.<group>.params", whose value n is the number of the group's
 * parameters. On failure the entry's tensor is NULL. */
static rg_named count_of_group(size_t group, double n) {
    enum { ROOM = 48 };
    char *name = rgi_scope_alloc(ROOM);
    if (!name)
        return (rg_named){ NULL, NULL };
    snprintf(name, ROOM, "param_groups.%zu.params", group);
    return (rg_named){ name, rg_scalar_dtype(n, RG_FLOAT64) };
}

rg_named_list rgi_optim_own_words(const rg_optim *o, rg_named_list dict, bool *torchs) {
    const rg_named_list failed = { .n = -1 };
    rg_named *v = rgi_scope_alloc(((size_t)dict.n + o->n_groups) * sizeof *v);
    double *counts = rgi_scope_alloc(o->n_groups * sizeof *counts);
    if (!v || !counts)
        return failed;
    memset(counts, 0, o->n_groups * sizeof *counts);
    *torchs = false;
    int n = 0;
    for (int i = 0; i < dict.n; i++) {
        size_t group = 0;
        const char *option = name_in_group(dict.v[i].name, &group);
        if (option && group < o->n_groups && strncmp(option, "params.", 7) == 0)
            counts[group]++;
        else if (dict.v[i].tensor != RG_NONE && !(option && only_torchs(option)))
            v[n++] = dict.v[i];
    }
    for (size_t g = 0; g < o->n_groups; g++) {
        if (counts[g] == 0)
            continue;
        *torchs = true;
        v[n] = count_of_group(g, counts[g]);
        if (!v[n++].tensor)
            return failed;
    }
    return (rg_named_list){ n, v };
}
