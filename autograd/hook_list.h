/*
 * hook_list.h: a list of hooks, which nodes and modules have. A hook is a function that a program
 * registers, with a context. Its number in the list (id) is never given twice. A hook may add hooks
 * to the list and remove any of them while it runs, so each next one is found by its id.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

typedef void rg_any_function(void);

/* The list's owner says what the kinds mean, and casts the function to the type that its kind has.
 */
typedef struct rg_hook {
    int id, kind;
    rg_any_function *function;
    void *context;
} rg_hook;
enum { RG_HOOK_REMOVED = -1 };

/* The list has n hooks, in the order of their ids, of which `live` aren't removed. It begins with
 * zeros. */
typedef struct rg_hook_list {
    rg_hook *v;
    size_t n, room, live;
    int next_id;
} rg_hook_list;

/* Adds a hook, and returns its id, or -1 where there is no memory. */
int rgi_hook_add(rg_hook_list *list, int kind, rg_any_function *function, void *context);
/* Returns the hook with that id, or NULL. */
rg_hook *rgi_hook_find(const rg_hook_list *list, int id);
/* Removes a hook that is there. */
void rgi_hook_remove(rg_hook_list *list, rg_hook *hook);
/* Returns the first hook of that kind whose id is at least `id`, or NULL. It may move where hooks
 * are added. */
const rg_hook *rgi_hook_from(const rg_hook_list *list, int id, int kind);
/* Frees the list's memory. */
void rgi_hook_list_free(rg_hook_list *list);
