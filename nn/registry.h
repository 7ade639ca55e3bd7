/*
 * registry.h: the private part of a module: its registered fields (entries) with their names and
 * kinds, its hooks, and its parent. The functions for programs are in module.h.
 */
#pragma once

#include "autograd/hook_list.h"
#include "given.h"
#include "tensor/error.h"
#include "tensor/handle.h"
#include "tensor/map.h"

typedef enum rg_entry_kind { RG_ENTRY_PARAMETER, RG_ENTRY_BUFFER, RG_ENTRY_CHILD } rg_entry_kind;

typedef struct rg_entry {
    rg_entry_kind kind;
    bool transient; /* Set for a buffer that isn't persistent: state_dict leaves it out. */
    bool optional;  /* Set for a buffer that files of old versions of torch lack. */
    char name[64];
    /* The address of the module's field that holds the value. The value is read through this
     * address each time, because a program may assign to the field. */
    void **place;
} rg_entry;

/* When a hook runs: before forward, after forward, in backward when the gradient of the result is
 * known, or in backward when the gradients of the inputs are known as well. */
enum { RG_HOOK_BEFORE, RG_HOOK_AFTER, RG_HOOK_BACKWARD_PRE, RG_HOOK_BACKWARD };

/* Functions by which one other file (inside/points.c) observes all modules. `ended` is called when
 * a module is freed. `hook` is the forward hook that points.c registers; a deep copy of a module
 * doesn't get that hook. Both are NULL until points.c sets them. */
typedef struct rg_module_observer {
    void (*ended)(const rg_module *m);
    rg_forward_hook *hook;
} rg_module_observer;
extern rg_module_observer rgi_module_observer;

/* The private part of a module. It is in the same block of memory as the module's struct, after the
 * struct. */
typedef struct rg_registry {
    size_t bytes; /* The size of the block: struct and registry. */
    /* The number of fields, in all modules together, that hold this module as a child. */
    int parents;
    /* Set once the constructor has returned. From then on a failed registration doesn't mark the
     * module as failed. */
    bool ready;
    /* The first parent: the module that was the first to register this module as a child. NULL if
     * there is none, or if the first parent has released this module. */
    rg_module *parent;
    /* `users` is the number of functions that work on the module, in all threads. Unless it is 0,
     * the module can't be freed. `user` names one of them; with several threads it may be NULL. */
    atomic_int users;
    _Atomic(const char *) user;
    /* Two fields that are used while the module is being freed. `freed_after` is the module above
     * it that is freed afterwards, or NULL. `held` is the number of entries that haven't been
     * released yet. */
    rg_module *freed_after;
    size_t held;
    size_t at; /* The index of this module's entry in parent->registry->entries. */
    rg_entry *entries;
    size_t n, room;
    rg_map names; /* Maps names to indices of entries. Used only if there are many entries. */
    rg_hook_list hooks;
    /* The next module in the list of all modules, and the pointer that points to this one. */
    rg_module *next, **link;
} rg_registry;

#define RG_EACH_ENTRY(e, m)                                                \
    rg_entry *e = (m)->registry->entries, *e##_end = e + (m)->registry->n; \
    e < e##_end;                                                           \
    e++

/* Returns m's entry of this name, or NULL if there is none. */
rg_entry *rgi_entry_named(const rg_module *m, const char *name);
/* Returns false, because an earlier registration in m failed. The error message says so, unless
 * rgi_null_is_explained is true: then the thread's error is kept. */
static inline bool rgi_refuse_unfinished(const rg_module *m, const char *op) {
    RG_FAIL_IF(!rgi_null_is_explained(), op, "an earlier registration in this %s failed",
               m->cls->name);
    return false;
}
/* Appends an entry to the registry, without storing a value in the entry's field. Returns NULL if
 * memory runs out. */
rg_entry *rgi_add_entry(rg_registry *r, rg_entry entry);
/* Puts m into the list of all modules, and takes it out again (tools/tie.c). */
void rgi_list_module(rg_module *m);
void rgi_unlist_module(rg_module *m);
/* Returns whether the program has assigned over this parameter: no field of a module holds it, and
 * a field with its name, without the path, holds a tensor that isn't registered as a parameter. */
bool rgi_is_assigned_over(const rg_tensor *parameter);
/* Makes room for one more entry. Other threads may search the list of all modules meanwhile.
 * Returns false if memory runs out. */
bool rgi_grow_entries(rg_registry *r);
/* Frees m's struct and registry. The parameters, buffers and children are not released. */
void rgi_module_end(rg_module *m);
/* Registers the child in the field `place`, which may lie outside of m's struct. Does what
 * rg_register_child does for a module that isn't a container: on failure the child is freed. */
bool rgi_put_child(rg_module *m, const char *name, rg_module **place, rg_module *child);
/* Returns whether m is a Sequential, a ModuleList or a ModuleDict. */
bool rgi_is_container(const rg_module *m);
/* Makes `child` a child of the container m under this name. A child that has the name already is
 * replaced; otherwise `child` is appended. If `place` lies outside of the container's array v, also
 * stores `child` in *place. Returns false on failure. */
bool rgi_container_put(rg_module *m, const char *name, rg_module **place, rg_module *child);
/* Records that m's entry e holds this child: counts one more parent, and stores m as the first
 * parent if the child has none yet. */
void rgi_join_parent(rg_module *m, const rg_entry *e, rg_module *child);
/* Renames the parameters of m and of all modules below it, when m's path changes from `from` to
 * `to`. A name that consists of `from`, a dot and the parameter's path in m gets `to` in place of
 * `from`; other names are kept. If `from` or `to` is "", the dot is omitted. Returns false if
 * memory runs out. */
bool rgi_rename_below(rg_module *m, const char *from, const char *to);
/* Renames the parameters of a module that is about to become m's child: "w_query" becomes
 * "attn.w_query". Returns false if memory runs out. */
bool rgi_name_child(rg_module *m, const char *name, rg_module *child);
/* Returns whether the entry's field holds a registered value or RG_NONE. If the program has
 * assigned another value to the field, fails and says which macro should have been used. */
bool rgi_is_registered(const char *op, const rg_entry *e);
/* Returns whether m is a module that hasn't been freed. */
static inline bool rgi_is_module(const rg_module *m) { return rgi_is_handle(m, RG_HANDLE_MODULE); }

/* The state that the backward hooks of one call share. Its pointer is NULL in a call of a module
 * that has no backward hooks. */
typedef struct rg_backward_call rg_backward_call;
/* Prepares a call of a module that has backward hooks: replaces each input by an alias whose node
 * in the graph calls the hooks in a backward run, and sets *call. Leaves *call unchanged if m has
 * no backward hook. Returns false on failure. */
bool rgi_backward_call_begin(rg_module *m, int n, rg_tensor *inputs[], rg_backward_call **call);
/* Ends what rgi_backward_call_begin began. Returns y, or an alias of y whose node in the graph
 * calls the hooks in a backward run. `call` may be NULL; then y is returned. */
rg_tensor *rgi_backward_call_end(rg_backward_call *call, rg_tensor *y);

/* Returns true if m must not be freed yet, because a call of m is in progress on this thread. Then
 * the outermost such call frees m when it ends. A second request also sets the error RG_RELEASED;
 * the result is still true. */
bool rgi_free_after_call(const rg_module *m);

/* Fails and returns false if a function is working on the module (see rgi_module_begin_use). */
bool rgi_may_free(const rg_module *m);

/* Selects the kinds of values that rgi_walk lists. */
typedef struct rg_walk_for {
    bool parameters, buffers, modules;
    /* List as state_dict does: leave out buffers that aren't persistent, and list a shared value
     * under each of its names, not only the first. */
    bool saved;
} rg_walk_for;
/* Lists the selected values of m and of all modules below it, with their paths, in torch's order.
 * The scope owns the list. On failure .n is -1. */
rg_named_list rgi_walk(const char *op, void *m, rg_walk_for wanted);
