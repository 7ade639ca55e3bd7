/*
 * hook_scopes.h: declares the functions that call the hooks of points.h. A point is a place in the
 * forward of a layer where hooks can see or replace a named value. At each point the forward calls
 * rgi_point. A hook scope is a list of hooks that is in force because of rg_run_with_hooks,
 * rg_run_with_cache or RG_HOOKS. Private.
 */
#pragma once

#include "points.h"
#include "tensor/base.h"

/* The hook scopes of this thread, the innermost first. NULL if there are none. */
extern __thread struct rg_hook_scope *rgi_hook_scopes __attribute__((tls_model("initial-exec")));
static inline bool rgi_has_hook_scope(void) { return RG_UNLIKELY(rgi_hook_scopes != NULL); }

/* Calls the hooks that match the point `name` of the module `of`, where the value is x. Returns x,
 * or the tensor by which a hook replaced it. Returns NULL if x is NULL or a hook fails. Requires
 * that there is a hook scope. */
rg_tensor *rgi_point(rg_module *of, const char *name, rg_tensor *x);
/* Returns whether rgi_point would call a hook at the point `name` of the module `of`. */
bool rgi_is_awaited(rg_module *of, const char *name);

/* A function that a layer calls in place of rgi_point, if it has its own names for points. */
typedef rg_tensor *rg_point_of(rg_module *m, const char *name, rg_tensor *x);
