/*
 * hook_list.h: the list of hooks of a node or a module. A hook is a function, with a context,
 * that a program registers. Its id is its number in the list, and is never used twice. A
 * running hook may add hooks to the list, and remove any of them, so the caller finds each next
 * hook by its id. A call runs only hooks that were in the list when it began: their ids are less
 * than the next_id of that moment.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

typedef void rg_any_function(void);

/* A hook of the list. Its kind is for the list's owner, who also casts the function to the type of
 * that kind. */
typedef struct rg_hook {
    int id, kind;
    rg_any_function *function;
    void *context;
} rg_hook;
enum { RG_HOOK_REMOVED = -1 };

/* A list of n hooks in the order of their ids. `live` of them aren't removed. An empty list is all
 * zeros. */
typedef struct rg_hook_list {
    rg_hook *v;
    size_t n, room, live;
    int next_id;
} rg_hook_list;

/* Adds a hook, and returns its id, or -1 if memory ran out. */
int rgi_hook_add(rg_hook_list *list, int kind, rg_any_function *function, void *context);
/* Returns the hook with that id, or NULL. */
rg_hook *rgi_hook_find(const rg_hook_list *list, int id);
/* Removes a hook of the list. */
void rgi_hook_remove(rg_hook_list *list, rg_hook *hook);
/* Returns the first hook of that kind whose id is at least `id` and less than `end`, or NULL. The
 * pointer is valid until a hook is added. */
const rg_hook *rgi_hook_from(const rg_hook_list *list, int id, int end, int kind);
/* Frees the list's memory. */
void rgi_hook_list_free(rg_hook_list *list);
