/*
 * hook_scopes.h: how a layer's forward calls the hooks of points.h. A hook scope is one list of
 * hooks in force, from rg_run_with_hooks, rg_run_with_cache or RG_HOOKS. Private.
 */
#pragma once

#include "points.h"
#include "tensor/base.h"

/* The thread's hook scopes, the innermost first; NULL if there are none. */
extern __thread struct rg_hook_scope *rgi_hook_scopes __attribute__((tls_model("initial-exec")));
static inline bool rgi_has_hook_scope(void) { return RG_UNLIKELY(rgi_hook_scopes != NULL); }

/* Returns x, which may be NULL, or the value that the hooks replace it with. `name` is the value's
 * name below `of`. Requires a hook scope. */
rg_tensor *rgi_point(rg_module *of, const char *name, rg_tensor *x);
/* Returns whether some hook's pattern matches the name. */
bool rgi_is_awaited(rg_module *of, const char *name);

/* The type of a function that a layer with its own names for points calls in place of
 * rg_hook_point. */
typedef rg_tensor *rg_point_of(rg_module *m, const char *name, rg_tensor *x);
