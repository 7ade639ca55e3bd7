/*
 * containers.c: Sequential and ModuleList: children named 0, 1, ..
 */
#include "containers.h"
#include "tensor/error.h"
#include "tensor/memory.h"

#include <stdio.h>

static rg_tensor *sequential_forward(rg_module *m, rg_tensor *x) {
    rg_sequential *self = (rg_sequential *)m;
    for (int i = 0; i < self->n && x; i++)
        x = rg_call(self->v[i], x);
    return x;
}

/* A ModuleList is laid out as a Sequential is. */
_Static_assert(sizeof(rg_sequential) == sizeof(rg_module_list)
                   && offsetof(rg_sequential, v) == offsetof(rg_module_list, v),
               "one function makes and frees both");

static void container_destroy(rg_module *m) {
    rg_sequential *self = (rg_sequential *)m;
    rgi_free(self->v, (size_t)self->n * sizeof *self->v, RG_MEM_OTHER);
}

static bool comes_before(rg_module *const *children, int i) {
    for (int k = 0; k < i; k++)
        if (children[k] == children[i])
            return true;
    return false;
}

/* Takes over the children. If it fails, each of them is freed once, also one that comes twice. */
static void *container_new(const rg_module_class *cls, int n, rg_module *const *children) {
    RG_AS(cls->name);
    if (!rgi_given_list(n, children, cls->name))
        return NULL;
    rg_sequential *self = RG_MODULE(rg_sequential, cls, .n = n);
    if (self && n) {
        self->v = rgi_alloc((size_t)n * sizeof *self->v, RG_MEM_OTHER);
        self->base.failed = !self->v;
    }
    for (int i = 0; i < n; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d", i);
        if (self && !self->base.failed)
            rg_register_child(&self->base, name, &self->v[i], children[i]);
        else if (!comes_before(children, i))
            rg_module_free(children[i]);
    }
    return RG_READY(self);
}

static const rg_module_class sequential_class = { .name = "Sequential",
                                                  .forward = sequential_forward,
                                                  .destroy = container_destroy };
static const rg_module_class module_list_class = { .name = "ModuleList",
                                                   .destroy = container_destroy };

rg_sequential *rg_nn_sequential_of(int n, rg_module *const *children) {
    return container_new(&sequential_class, n, children);
}

rg_module_list *rg_nn_module_list_of(int n, rg_module *const *children) {
    return container_new(&module_list_class, n, children);
}
