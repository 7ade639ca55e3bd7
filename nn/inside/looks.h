/*
 * looks.h: what a layer's forward asks of the hooks of points.h. Private.
 */
#pragma once

#include "points.h"
#include "tensor/base.h"

/* The thread's hooks that are in force, the innermost first; NULL where nobody looks. */
extern __thread struct rg_look *rgi_looks __attribute__((tls_model("initial-exec")));
static inline bool rgi_is_looking(void) { return RG_UNLIKELY(rgi_looks != NULL); }

/* Returns x, which may be NULL, or what the hooks put in its place. The name is the one that the
 * value has below `of`. Requires that somebody looks. */
rg_tensor *rgi_point(rg_module *of, const char *name, rg_tensor *x);
/* Returns whether a hook waits for this name. */
bool rgi_is_awaited(rg_module *of, const char *name);

/* A layer that has names of its own for its points has such a function in place of rg_hook_point.
 */
typedef rg_tensor *rg_point_of(rg_module *m, const char *name, rg_tensor *x);
