/*
 * registry.h: what stands behind a module's struct: which of its fields are parameters, buffers
 * and children, under which names. Private; what a program may use is in module.h.
 */
#pragma once

#include "autograd/hook_list.h"
#include "given.h"
#include "tensor/handle.h"
#include "tensor/map.h"

typedef enum rg_entry_kind { RG_ENTRY_PARAMETER, RG_ENTRY_BUFFER, RG_ENTRY_CHILD } rg_entry_kind;

typedef struct rg_entry {
    rg_entry_kind kind;
    bool transient; /* state_dict leaves this buffer out. */
    char name[64];
    /* The place is the module's field. It is read anew each time, for a program may change it. */
    void **place;
} rg_entry;

/* The kind of a module's hook says when it runs: before forward, after it, or in a backward run
 * with the gradient of the result, or once those of the inputs are there, too. */
enum { RG_HOOK_BEFORE, RG_HOOK_AFTER, RG_HOOK_BACKWARD_PRE, RG_HOOK_BACKWARD };

/* The one observer of modules is told where a module ends, and has a forward hook on some of them,
 * which copies of a module don't have. Its functions are NULL where no file has set them. */
typedef struct rg_module_observer {
    void (*ended)(const rg_module *m);
    rg_forward_hook *hook;
} rg_module_observer;
extern rg_module_observer rgi_module_observer;

/* The registry lies in one block of memory with the module's struct, behind it. */
typedef struct rg_registry {
    size_t bytes;      /* The bytes of the block. */
    int parents;       /* The number of modules that have this one as their child. */
    bool ready;        /* The constructor is done: what fails from now on leaves m as it was. */
    rg_module *parent; /* The first parent stands here while it lives. */
    size_t at;         /* The parent's entry of this number is this module. */
    rg_entry *entries;
    size_t n, room;
    rg_map names; /* The entries' numbers by their names, where there are many. */
    rg_hook_list hooks;
} rg_registry;

#define RG_EACH_ENTRY(e, m)                                                \
    rg_entry *e = (m)->registry->entries, *e##_end = e + (m)->registry->n; \
    e < e##_end;                                                           \
    e++

/* Returns the module's entry of this name, or NULL. */
rg_entry *rgi_entry_named(const rg_module *m, const char *name);
/* Adds an entry, which has no value yet. Returns NULL if there is no memory. */
rg_entry *rgi_add_entry(rg_registry *r, rg_entry entry);
/* Frees m's struct and registry, but nothing that they point to. */
void rgi_module_end(rg_module *m);
/* Registers the child in a place of m's own, which need not be in its struct, as rg_register_child
 * does for a module that is no container. */
bool rgi_put_child(rg_module *m, const char *name, rg_module **place, rg_module *child);
/* Returns whether m is a Sequential, a ModuleList or a ModuleDict. */
bool rgi_is_container(const rg_module *m);
/* Puts the child under the name into m, in the place of the one that is there, or behind the
 * others, and into *place. */
bool rgi_container_put(rg_module *m, const char *name, rg_module **place, rg_module *child);
/* Takes down that m holds a child, which stands in m's entry e. */
void rgi_join_parent(rg_module *m, const rg_entry *e, rg_module *child);
/* Renames each parameter of m whose name is `from`, a dot and its name in m: `to` takes the place
 * of `from`. Where one of the two is "", the dot is left out, too. */
bool rgi_rename_below(rg_module *m, const char *from, const char *to);
/* Returns whether what stands in the entry's place was registered; else fails with what to do. */
bool rgi_is_registered(const char *op, const rg_entry *e);
/* Returns whether m is a module that wasn't freed. */
static inline bool rgi_is_module(const rg_module *m) { return rgi_is_handle(m, RG_HANDLE_MODULE); }

/* The state that the backward hooks of one call of a module share, or NULL where there are none. */
typedef struct rg_backward_call rg_backward_call;
/* Begins a call with the inputs, in whose place it puts aliases that tell the hooks of their
 * gradients. *call, which is NULL, stays so where m has no backward hook. Returns false on failure.
 */
bool rgi_backward_call_begin(rg_module *m, int n, rg_tensor *inputs[], rg_backward_call **call);
/* Ends it. Returns y, or an alias that tells the hooks of its gradient. */
rg_tensor *rgi_backward_call_end(rg_backward_call *call, rg_tensor *y);

/* Returns whether this thread is calling m; then the outermost of these calls frees m when it ends.
 * Asking for that twice leaves an error. */
bool rgi_free_after_call(const rg_module *m);

/* A walk over the tree collects these. */
typedef struct rg_walk_for {
    bool parameters, buffers, modules;
    /* If true, as state_dict wants it, transient buffers are left out, and what is shared is listed
     * under each of its names. */
    bool saved;
} rg_walk_for;
/* Lists what is asked for in torch's order. The scope owns the list; .n == -1 means failure. */
rg_named_list rgi_walk(const char *op, void *m, rg_walk_for wanted);
