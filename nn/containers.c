/*
 * containers.c: Sequential and ModuleList: children named 0, 1, ..
 */
#include "containers.h"
#include "registry.h"
#include "tensor/error.h"
#include "tensor/memory.h"
#include "tensor/thread.h"

#include <stdio.h>

static rg_tensor *sequential_forward(rg_module *m, rg_tensor *x) {
    rg_sequential *self = (rg_sequential *)m;
    for (int i = 0; i < self->n && x; i++)
        x = rg_call(self->v[i], x);
    return x;
}

/* ---- both kinds ---------------------------------------------------------------- */

/* A ModuleList is laid out as a Sequential is. */
_Static_assert(sizeof(rg_sequential) == sizeof(rg_module_list)
                   && offsetof(rg_sequential, v) == offsetof(rg_module_list, v),
               "the same functions serve both");

static void container_destroy(rg_module *m) {
    rg_sequential *self = (rg_sequential *)m;
    rgi_free(self->v, self->room * sizeof *self->v, RG_MEM_OTHER);
}

/* Makes room for so many children, whose places in memory change. */
static bool make_room(rg_sequential *self, size_t want) {
    rg_module **before = self->v;
    if (want <= self->room)
        return true;
    if (!rgi_grow((void **)&self->v, &self->room, want, sizeof *self->v))
        return false;
    for (RG_EACH_ENTRY(e, &self->base)) {
        ptrdiff_t i = (char *)e->place - (char *)before;
        if (e->kind == RG_ENTRY_CHILD && i >= 0 && (size_t)i < (size_t)self->n * sizeof *self->v)
            e->place = (void **)((char *)self->v + i);
    }
    return true;
}

typedef struct place_name {
    char v[16];
} place_name;

static place_name name_of_place(int i) {
    place_name name;
    snprintf(name.v, sizeof name.v, "%d", i);
    return name;
}

/* Frees a child that isn't taken, if it is a module. */
static bool refuse_child(rg_module *child) {
    if (rgi_is_module(child))
        rg_module_free(child);
    return false;
}

static bool append(rg_sequential *self, rg_module *child) {
    if (!make_room(self, (size_t)self->n + 1))
        return refuse_child(child);
    if (!rg_register_child(&self->base, name_of_place(self->n).v, &self->v[self->n], child))
        return false;
    self->n++;
    return true;
}

/* ---- making -------------------------------------------------------------------- */

/* Keeps the children from being freed until let_go_of_children: one that comes twice must outlive
 * the first failure to take it. What is no module is left alone. */
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
    rg_sequential *self = RG_MODULE(rg_sequential, cls);
    hold_children(n, children);
    for (int i = 0; i < n && RG_UNFAILED_(self); i++)
        self->base.failed = !append(self, children[i]);
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

/* ---- changing ------------------------------------------------------------------ */

/* Takes down that the child at place i stands there now, and renames its parameters. A name is a
 * label: where there is no memory for a new one, the old one stays. */
static void tell_place(rg_sequential *self, int i) {
    RG_SCOPE();
    rg_registry *r = self->v[i]->registry;
    char before[RG_PATH_ROOM], after[RG_PATH_ROOM];
    if (r->parent != &self->base)
        return;
    rgi_module_path(self->v[i], before, sizeof before);
    const rg_entry *e = rgi_entry_named(&self->base, name_of_place(i).v);
    r->at = (size_t)(e - self->base.registry->entries);
    rgi_module_path(self->v[i], after, sizeof after);
    rg_code code = rgi_this.code;
    if (!rgi_rename_below(self->v[i], before, after))
        rgi_this.code = code;
}

static bool container_append(const char *op, void *container, rg_module *child) {
    RG_AS(op);
    return rgi_module_given(container, op) ? append(container, child) : refuse_child(child);
}

static bool container_insert(const char *op, void *container, int i, rg_module *child) {
    rg_sequential *self = container;
    RG_AS(op);
    if (!rgi_module_given(container, op))
        return refuse_child(child);
    if (i < -self->n || i > self->n) {
        refuse_child(child);
        return rgi_fail(RG_INDEX_ERROR, op, "Index out of range: %d", i);
    }
    if (!append(self, child))
        return false;
    if (i < 0)
        i += self->n - 1;
    for (int k = self->n - 1; k > i; k--)
        self->v[k] = self->v[k - 1];
    self->v[i] = child;
    for (int k = i; k < self->n; k++)
        tell_place(self, k);
    return true;
}

static bool container_set(const char *op, void *container, int i, rg_module *child) {
    rg_sequential *self = container;
    RG_AS(op);
    if (!rgi_module_given(container, op))
        return refuse_child(child);
    if (i < -self->n || i >= self->n) {
        refuse_child(child);
        return rgi_fail(RG_INDEX_ERROR, op, "index %d is out of range", i);
    }
    if (i < 0)
        i += self->n;
    return rg_register_child(&self->base, name_of_place(i).v, &self->v[i], child);
}

bool rg_sequential_append(rg_sequential *m, void *child) {
    return container_append("sequential_append", m, child);
}

bool rg_sequential_insert(rg_sequential *m, int i, void *child) {
    return container_insert("sequential_insert", m, i, child);
}

bool rg_sequential_set(rg_sequential *m, int i, void *child) {
    return container_set("sequential_set", m, i, child);
}

bool rg_module_list_append(rg_module_list *m, void *child) {
    return container_append("module_list_append", m, child);
}

bool rg_module_list_insert(rg_module_list *m, int i, void *child) {
    return container_insert("module_list_insert", m, i, child);
}

bool rg_module_list_set(rg_module_list *m, int i, void *child) {
    return container_set("module_list_set", m, i, child);
}
