/*
 * hook_list.h: the list of hooks of a node or a module. A hook is a function, with a context, that
 * the program registers. Its id is a number that is never used twice in the list. A hook that is
 * being called may add hooks to the list, and remove any of them, itself included. So the code that
 * calls the hooks finds each next hook by its id, not by its index in the array. It reads next_id
 * before the first call, and doesn't call hooks that are added later: their ids are higher.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

typedef void rg_any_function(void);

/* A hook. The owner of the list decides what `kind` means, and casts the function to the type of
 * that kind. */
typedef struct rg_hook {
    int id, kind;
    rg_any_function *function;
    void *context;
} rg_hook;
enum { RG_HOOK_REMOVED = -1 };

/* The number of hooks of a module that was called in a recorded step; it is negative once the
 * module has been freed. The recordings of such steps read it before each repetition, because a
 * repetition can't call hooks. They and the module's list of hooks hold a reference to it. */
typedef struct rg_hook_count {
    atomic_int refs, hooks;
} rg_hook_count;

/* A list of n hooks, in the order of their ids. `live` is the number of hooks that haven't been
 * removed. `count` is NULL until the list's module is called in a step that is being recorded. Such
 * a call is refused if the module has hooks. An empty list is all zeros. */
typedef struct rg_hook_list {
    rg_hook *v;
    size_t n, room, live;
    int next_id;
    _Atomic(rg_hook_count *) count;
} rg_hook_list;

/* Adds a hook, and returns its id, or -1 if memory ran out. */
int rgi_hook_add(rg_hook_list *list, int kind, rg_any_function *function, void *context);
/* Returns the hook with that id, or NULL if there is none or it was removed. */
rg_hook *rgi_hook_find(const rg_hook_list *list, int id);
/* Removes a hook, which must be in the list. */
void rgi_hook_remove(rg_hook_list *list, rg_hook *hook);
/* Returns the first hook of that kind whose id is at least `id` and less than `end`, or NULL if
 * there is none. The pointer is valid until a hook is added or removed. */
const rg_hook *rgi_hook_from(const rg_hook_list *list, int id, int end, int kind);
/* Tells the thread's observer that a module is called whose list of hooks, `list`, is empty. */
void rgi_observe_hooks(rg_hook_list *list);
/* Returns list->count with a new reference. If it is NULL, first makes it. Returns NULL if memory
 * runs out. */
rg_hook_count *rgi_hook_count_of(rg_hook_list *list);
/* Adds `by` to the number of hooks, and tells recordings of the change. `count` may be NULL. */
void rgi_count_hooks(rg_hook_count *count, int by);
void rgi_hook_count_release(rg_hook_count *count);
/* Removes all hooks, and frees the list's memory. */
void rgi_hook_list_free(rg_hook_list *list);
