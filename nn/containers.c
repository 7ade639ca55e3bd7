/*
 * containers.c: Sequential and ModuleList: children named 0, 1, ..
 */
#include "containers.h"
#include "registry.h"
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

/* While it is held, no child is freed, also one that comes twice among those that a container
 * fails to take. What is no module is left alone. */
static void hold_children(int n, rg_module *const *children) {
    for (int i = 0; i < n; i++)
        if (rgi_is_module(children[i]))
            children[i]->registry->parents++;
}

static void let_go_of_children(int n, rg_module *const *children) {
    for (int i = 0; i < n; i++)
        if (rgi_is_module(children[i]) && --children[i]->registry->parents == 0)
            rg_module_free(children[i]);
}

/* Takes over the children. If it fails, each of them is freed once. */
static void *container_new(const rg_module_class *cls, int n, rg_module *const *children) {
    RG_AS(cls->name);
    if (!rgi_given_list(n, children, cls->name))
        return NULL;
    rg_sequential *self = RG_MODULE(rg_sequential, cls, .n = n);
    if (self && n) {
        self->v = rgi_alloc((size_t)n * sizeof *self->v, RG_MEM_OTHER);
        self->base.failed = !self->v;
    }
    hold_children(n, children);
    for (int i = 0; i < n && RG_UNFAILED_(self); i++) {
        char name[16];
        snprintf(name, sizeof name, "%d", i);
        rg_register_child(&self->base, name, &self->v[i], children[i]);
    }
    self = RG_READY(self);
    let_go_of_children(n, children);
    return self;
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
