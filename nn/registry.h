/*
 * registry.h: the private part of a module: the names and kinds of its registered fields. module.h
 * has the functions for programs.
 */
#pragma once

#include "autograd/hook_list.h"
#include "given.h"
#include "tensor/handle.h"
#include "tensor/map.h"

typedef enum rg_entry_kind { RG_ENTRY_PARAMETER, RG_ENTRY_BUFFER, RG_ENTRY_CHILD } rg_entry_kind;

typedef struct rg_entry {
    rg_entry_kind kind;
    bool transient; /* state_dict excludes this buffer. */
    char name[64];
    /* The module's field. It is read each time, since a program may assign to it. */
    void **place;
} rg_entry;

/* The kinds of hooks by the time when they run: before forward, after it, or in a backward run:
 * with the gradient of the result, or once those of the inputs exist, too. */
enum { RG_HOOK_BEFORE, RG_HOOK_AFTER, RG_HOOK_BACKWARD_PRE, RG_HOOK_BACKWARD };

/* The one observer of modules (points.c). `ended` is called when a module is freed; `hook` is a
 * forward hook that copies of a module don't inherit. Both are NULL until a file sets them. */
typedef struct rg_module_observer {
    void (*ended)(const rg_module *m);
    rg_forward_hook *hook;
} rg_module_observer;
extern rg_module_observer rgi_module_observer;

/* A module's registry. It is in the same block of memory, after the module's struct. */
typedef struct rg_registry {
    size_t bytes;      /* The size of the block. */
    int parents;       /* The number of modules that have this one as their child. */
    bool ready;        /* The constructor has returned: a later failure leaves m unchanged. */
    rg_module *parent; /* The first parent, while it lives. */
    size_t at;         /* The index of this module's entry in its parent. */
    rg_entry *entries;
    size_t n, room;
    rg_map names; /* Maps names to entries' indices, if there are many. */
    rg_hook_list hooks;
} rg_registry;

#define RG_EACH_ENTRY(e, m)                                                \
    rg_entry *e = (m)->registry->entries, *e##_end = e + (m)->registry->n; \
    e < e##_end;                                                           \
    e++

/* Returns the module's entry of this name, or NULL. */
rg_entry *rgi_entry_named(const rg_module *m, const char *name);
/* Adds an entry without a value. Returns NULL if there is no memory. */
rg_entry *rgi_add_entry(rg_registry *r, rg_entry entry);
/* Frees m's struct and registry, but no values. */
void rgi_module_end(rg_module *m);
/* Registers the child in a field of m that may be outside of its struct, as rg_register_child does
 * for a module that isn't a container. */
bool rgi_put_child(rg_module *m, const char *name, rg_module **place, rg_module *child);
/* Returns whether m is a Sequential, a ModuleList or a ModuleDict. */
bool rgi_is_container(const rg_module *m);
/* Sets m's child of this name and *place: replaces the present child, or appends. */
bool rgi_container_put(rg_module *m, const char *name, rg_module **place, rg_module *child);
/* Records that m's entry e holds this child. */
void rgi_join_parent(rg_module *m, const rg_entry *e, rg_module *child);
/* Renames each parameter of m that is named `from`, a dot and its name in m: `to` replaces `from`.
 * If either is "", the dot is omitted. */
bool rgi_rename_below(rg_module *m, const char *from, const char *to);
/* Returns whether the entry's field still has its registered value; otherwise fails with advice. */
bool rgi_is_registered(const char *op, const rg_entry *e);
/* Returns whether m is a module that hasn't been freed. */
static inline bool rgi_is_module(const rg_module *m) { return rgi_is_handle(m, RG_HANDLE_MODULE); }

/* The state that the backward hooks of one call share; NULL without such hooks. */
typedef struct rg_backward_call rg_backward_call;
/* Begins a call with backward hooks: replaces the inputs by aliases that pass their gradients to
 * the hooks. Sets *call, unless m has no backward hook. Returns false on failure. */
bool rgi_backward_call_begin(rg_module *m, int n, rg_tensor *inputs[], rg_backward_call **call);
/* Ends the call. Returns y, or an alias that passes its gradient to the hooks. */
rg_tensor *rgi_backward_call_end(rg_backward_call *call, rg_tensor *y);

/* Returns whether this thread is calling m. If so, the outermost call frees m when it ends; a
 * second request is an error. */
bool rgi_free_after_call(const rg_module *m);

/* Selects the kinds of values that a walk collects. */
typedef struct rg_walk_for {
    bool parameters, buffers, modules;
    /* Exclude transient buffers, and list shared values under each name, as state_dict does. */
    bool saved;
} rg_walk_for;
/* Lists the selected values in torch's order. The scope owns the list; .n == -1 means failure. */
rg_named_list rgi_walk(const char *op, void *m, rg_walk_for wanted);
