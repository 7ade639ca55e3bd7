/*
 * containers.c: Sequential, ModuleList, ModuleDict and ParameterList. The children or parameters
 * are named 0, 1, ..; those of a ModuleDict have names that the program gives.
 */
#include "containers.h"
#include "registry.h"
#include "tensor/error.h"
#include "tensor/memory.h"
#include "tensor/scope.h"
#include "tensor/structs.h"
#include "tensor/text/text.h"
#include "tensor/thread.h"

#include <stdio.h>
#include <string.h>

static rg_tensor *sequential_forward(rg_module *m, rg_tensor *x) {
    rg_sequential *self = (rg_sequential *)m;
    for (int i = 0; i < self->n && x; i++)
        x = rg_call(self->v[i], x);
    return x;
}

/* ---- for all kinds of containers ----------------------------------------------- */

/* Checks at compile time that another container's struct has the same layout as rg_sequential,
 * because the same functions handle all containers. The field v points to the children or, in a
 * ParameterList, to the parameters. */
#define LAID_OUT_ALIKE(type)                                                     \
    _Static_assert(sizeof(rg_sequential) == sizeof(type)                         \
                       && offsetof(rg_sequential, v) == offsetof(type, v)        \
                       && offsetof(rg_sequential, room) == offsetof(type, room), \
                   "the same functions serve all containers")
LAID_OUT_ALIKE(rg_module_list);
LAID_OUT_ALIKE(rg_module_dict);
LAID_OUT_ALIKE(rg_parameter_list);

/* The fields of a container are const for programs. Only the next two functions change them. */
static void set_children(rg_sequential *self, rg_module **v) { *(rg_module ***)&self->v = v; }
static void count_one_more(rg_sequential *self) { ++*(int *)&self->n; }

static void container_destroy(rg_module *m) {
    rg_sequential *self = (rg_sequential *)m;
    rgi_free(self->v, self->room * sizeof *self->v, RG_MEM_OTHER);
}

static bool container_copy(rg_module *m, const rg_module *from) {
    rg_sequential *self = (rg_sequential *)m;
    size_t bytes = self->room * sizeof *self->v;
    if (!bytes)
        return true;
    void *block = rgi_alloc(bytes, RG_MEM_OTHER);
    if (!block)
        return false;
    set_children(self, memcpy(block, self->v, bytes));
    return rg_move_places(m, ((const rg_sequential *)from)->v, block, bytes);
}

/* Allocates room for `want` children in v. If that moves v, stores the new address of each child's
 * field in the child's entry. Returns false on failure. */
static bool make_room_for(rg_sequential *self, size_t want) {
    uintptr_t before = (uintptr_t)self->v;
    size_t bytes = self->room * sizeof *self->v;
    if (want <= self->room)
        return true;
    if (!rgi_grow((void **)&self->v, (size_t *)&self->room, want, sizeof *self->v))
        return false;
    return rg_move_places(&self->base, (const void *)before, self->v, bytes);
}

typedef struct place_name {
    char v[16];
} place_name;

static place_name name_of_place(int i) {
    place_name name;
    snprintf(name.v, sizeof name.v, "%d", i);
    return name;
}

/* Called when a container can't take a child: frees the child, if it is a module. Returns false. */
static bool refuse_child(rg_module *child) {
    if (rgi_is_module(child))
        rg_module_free(child);
    return false;
}

/* Appends a child under this name. On failure the child is freed. */
static bool append_as(rg_sequential *self, const char *name, rg_module *child) {
    if (!make_room_for(self, (size_t)self->n + 1))
        return refuse_child(child);
    if (!rgi_put_child(&self->base, name, &self->v[self->n], child))
        return false;
    count_one_more(self);
    return true;
}

static bool append(rg_sequential *self, rg_module *child) {
    return append_as(self, name_of_place(self->n).v, child);
}

/* Replaces the child of this name, or appends one if the name is new. On failure the child is
 * freed. */
static bool put_named(rg_sequential *self, const char *name, rg_module *child) {
    const rg_entry *e = name ? rgi_entry_named(&self->base, name) : NULL;
    if (!e)
        return append_as(self, name, child);
    return rgi_put_child(&self->base, name, (rg_module **)(void *)e->place, child);
}

/* ---- constructors -------------------------------------------------------------- */

/* The arguments of a constructor: an array of children or, if `v` is NULL, children with names. */
typedef struct given_children {
    int n;
    rg_module *const *v;
    const rg_module_item *items;
} given_children;

static rg_module *given_child(const given_children *given, int i) {
    return given->v ? given->v[i] : given->items[i].module;
}

/* Counts one more parent for each child, so that no child is freed before let_go_of_children is
 * called. Otherwise a child that is listed twice would be freed when it is refused for the first
 * time, and then used again. Values that are no modules are skipped. */
static void hold_children(const given_children *given) {
    for (int i = 0; i < given->n; i++) {
        rg_module *child = given_child(given, i);
        if (rgi_is_module(child))
            child->registry->parents++;
    }
}

static void let_go_of_children(const given_children *given) {
    for (int i = 0; i < given->n; i++) {
        rg_module *child = given_child(given, i);
        if (!rgi_is_module(child))
            continue;
        child->registry->parents--;
        rg_module_free(child);
    }
}

/* Makes a container that owns the children. On failure returns NULL, and each child is freed once,
 * also if it is listed twice. */
static void *container_new(const rg_module_class *cls, const given_children *given) {
    RG_AS(cls->name);
    if (!rgi_given_list(given->n, given->v ? (const void *)given->v : given->items, cls->name))
        return NULL;
    rg_sequential *self = RG_MODULE(rg_sequential, cls);
    hold_children(given);
    for (int i = 0; i < given->n && RG_UNFAILED_(self); i++)
        self->base.failed = !(given->v
                                  ? append(self, given->v[i])
                                  : put_named(self, given->items[i].name, given->items[i].module));
    self = RG_READY(self);
    let_go_of_children(given);
    return self;
}

static const rg_module_class sequential_class = { .name = "Sequential",
                                                  .forward = sequential_forward,
                                                  .destroy = container_destroy,
                                                  .copy = container_copy };
static const rg_module_class module_list_class = { .name = "ModuleList",
                                                   .destroy = container_destroy,
                                                   .copy = container_copy };
static const rg_module_class module_dict_class = { .name = "ModuleDict",
                                                   .destroy = container_destroy,
                                                   .copy = container_copy };

rg_sequential *(rg_nn_sequential_of)(int n, rg_module *const *children) {
    return container_new(&sequential_class, &(given_children){ .n = n, .v = children });
}

rg_module_list *(rg_nn_module_list_of)(int n, rg_module *const *children) {
    return container_new(&module_list_class, &(given_children){ .n = n, .v = children });
}

rg_module_dict *(rg_nn_module_dict_of)(int n, const rg_module_item *items) {
    return container_new(&module_dict_class, &(given_children){ .n = n, .items = items });
}

bool rgi_is_container(const rg_module *m) {
    return m->cls == &sequential_class || m->cls == &module_list_class
           || m->cls == &module_dict_class;
}

/* put_named stores the child in an element of the array v. If `place` is a field elsewhere, the
 * child is stored there as well. If `place` was an element of v, it must not be written to, because
 * v may have moved. */
bool rgi_container_put(rg_module *m, const char *name, rg_module **place, rg_module *child) {
    rg_sequential *self = (rg_sequential *)m;
    const bool own = (uintptr_t)place - (uintptr_t)self->v < self->room * sizeof *self->v;
    if (!put_named(self, name, child))
        return false;
    if (!own)
        *place = child;
    return true;
}

/* ---- changing the children ----------------------------------------------------- */

/* Returns whether the child at index i is registered under the number i as its name. A child that
 * was added by rg_register_child may have another name. */
static bool is_named_by_place(const rg_sequential *self, int i) {
    const rg_entry *e = rgi_entry_named(&self->base, name_of_place(i).v);
    return e && e->place == (void **)(void *)&self->v[i];
}

/* Returns the entry of the child at index i, whatever its name. */
static const rg_entry *entry_of_place(const rg_sequential *self, int i) {
    if (RG_LIKELY(is_named_by_place(self, i)))
        return rgi_entry_named(&self->base, name_of_place(i).v);
    const rg_entry *e = self->base.registry->entries;
    while (e->place != (void **)(void *)&self->v[i])
        e++;
    return e;
}

/* Records that another child now stands at index i: updates the child's index in its parent, and
 * renames the parameters below it. If memory runs out for a new name, the old name stays, and this
 * isn't a failure: names are only labels. */
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
    rg_failure failure;
    rgi_set_failure_aside(&failure);
    rgi_rename_below(self->v[i], before, after);
    rgi_forget_failure();
    rgi_bring_failure_back(&failure);
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
    if (i < 0)
        i += self->n;
    for (int k = i; k < self->n; k++)
        if (!is_named_by_place(self, k)) {
            refuse_child(child);
            return rgi_fail(RG_INDEX_ERROR, op, "KeyError: '%d'", k);
        }
    if (!append(self, child))
        return false;
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
    return rgi_put_child(&self->base, entry_of_place(self, i)->name, &self->v[i], child);
}

bool(rg_sequential_append)(rg_sequential *m, void *child) {
    return container_append("sequential_append", m, child);
}

bool(rg_sequential_insert)(rg_sequential *m, int i, void *child) {
    return container_insert("sequential_insert", m, i, child);
}

bool(rg_sequential_set)(rg_sequential *m, int i, void *child) {
    return container_set("sequential_set", m, i, child);
}

bool(rg_module_list_append)(rg_module_list *m, void *child) {
    return container_append("module_list_append", m, child);
}

bool(rg_module_list_insert)(rg_module_list *m, int i, void *child) {
    return container_insert("module_list_insert", m, i, child);
}

bool(rg_module_list_set)(rg_module_list *m, int i, void *child) {
    return container_set("module_list_set", m, i, child);
}

/* ---- ModuleDict ---------------------------------------------------------------- */

bool(rg_module_dict_set)(rg_module_dict *m, const char *name, void *child) {
    RG_AS("module_dict_set");
    if (!rgi_module_given((rg_module *)m, "module_dict_set"))
        return refuse_child(child);
    return put_named((rg_sequential *)m, name, child);
}

/* Returns the dictionary's entry of the child with this name. Returns NULL without an error if
 * there is none, and with an error if m is no module or the name is NULL. */
static rg_entry *entry_of_dict(const char *op, rg_module_dict *m, const char *name) {
    if (!rgi_module_given((rg_module *)m, op) || !rgi_given(name, op, "a name"))
        return NULL;
    rg_entry *e = rgi_entry_named(&m->base, name);
    return e && e->kind == RG_ENTRY_CHILD ? e : NULL;
}

void *rg_module_dict_get(rg_module_dict *m, const char *name) {
    const rg_entry *e = entry_of_dict("module_dict_get", m, name);
    if (e)
        return rgi_is_registered("module_dict_get", e) ? *e->place : NULL;
    RG_FAIL_INDEX_IF(m && name && rgi_is_module((rg_module *)m), "module_dict_get",
                     "KeyError: '%s'", name);
    return NULL;
}

bool rg_module_dict_contains(rg_module_dict *m, const char *name) {
    return entry_of_dict("module_dict_contains", m, name);
}

rg_named_modules_list rg_module_dict_items(rg_module_dict *m) {
    const rg_named_modules_list failed = { -1, NULL };
    if (!rgi_module_given((rg_module *)m, "module_dict_items"))
        return failed;
    rg_named_module *items = rgi_scope_alloc((size_t)m->n * sizeof *items);
    if (!items)
        return failed;
    int n = 0;
    for (RG_EACH_ENTRY(e, &m->base)) {
        if (e->kind != RG_ENTRY_CHILD)
            continue;
        if (!rgi_is_registered("module_dict_items", e))
            return failed;
        items[n++] = (rg_named_module){ e->name, *e->place };
    }
    return (rg_named_modules_list){ n, items };
}

/* ---- ParameterList ------------------------------------------------------------- */

/* Adds a line of the repr, such as " (0): Parameter containing: [torch.float32 of size 2x3]". */
static void repr_parameter(rg_text *text, int i, const rg_tensor *t) {
    rgi_text_add(text, "%s  (%d): ", i ? "\n" : "", i);
    if (t == RG_NONE) {
        rgi_text_add(text, "Object of type: NoneType");
        return;
    }
    rgi_text_add(text, "Parameter containing: [%s of size ", rg_dtype_name((rg_dtype)t->dtype));
    for (int d = 0; d < t->ndim; d++)
        rgi_text_add(text, "%s%lld", d ? "x" : "", (long long)t->size[d]);
    rgi_text_add(text, "]");
}

static void parameter_list_repr(rg_module *m, char *text, size_t room) {
    const rg_parameter_list *self = (rg_parameter_list *)m;
    RG_SCOPE();
    rg_text lines = { 0 };
    for (int i = 0; i < self->n; i++)
        repr_parameter(&lines, i, self->v[i]);
    const char *all = self->n ? rgi_text_own(&lines) : "";
    snprintf(text, room, "%s", all ? all : "");
}

static const rg_module_class parameter_list_class = { .name = "ParameterList",
                                                      .extra_repr = parameter_list_repr,
                                                      .destroy = container_destroy,
                                                      .copy = container_copy };

/* Stores the value at index i. A tensor that isn't a parameter doesn't become one: the list stores
 * a new parameter that shares the tensor's data. */
static bool put_parameter(rg_parameter_list *self, int i, rg_tensor *value) {
    const bool shares = value != RG_NONE && rgi_check(value, "register_parameter")
                        && !(value->flags & RG_IS_PARAMETER);
    rg_tensor *parameter = shares ? rg_detach(value) : value;
    const bool ok = rg_register_parameter(&self->base, name_of_place(i).v, &self->v[i], parameter);
    if (!ok && shares && parameter)
        rg_drop(parameter);
    return ok;
}

static bool append_parameter(rg_parameter_list *self, rg_tensor *value) {
    if (!make_room_for((rg_sequential *)self, (size_t)self->n + 1)
        || !put_parameter(self, self->n, value))
        return false;
    count_one_more((rg_sequential *)self);
    return true;
}

rg_parameter_list *rg_nn_parameter_list_of(rg_list values) {
    RG_AS("ParameterList");
    if (!rgi_given_list(values.n, values.v, "ParameterList"))
        return NULL;
    rg_parameter_list *self = RG_MODULE(rg_parameter_list, &parameter_list_class);
    for (int i = 0; i < values.n && RG_UNFAILED_(self); i++)
        self->base.failed = !append_parameter(self, values.v[i]);
    return RG_READY(self);
}

bool rg_parameter_list_append(rg_parameter_list *m, rg_tensor *value) {
    RG_AS("parameter_list_append");
    return rgi_module_given((rg_module *)m, "parameter_list_append") && append_parameter(m, value);
}

bool(rg_parameter_list_set)(rg_parameter_list *m, int i, rg_tensor *value) {
    RG_AS("parameter_list_set");
    if (!rgi_module_given((rg_module *)m, "parameter_list_set"))
        return false;
    RG_FAIL_INDEX_IF(i < -m->n || i >= m->n, "parameter_list_set", "index %d is out of range", i);
    if (i < 0)
        i += m->n;
    return put_parameter(m, i, value);
}
