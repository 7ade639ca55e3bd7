/*
 * gpt_points.h: the names that TransformerLens gives to the inner values of a GPT. Private.
 */
#pragma once

#include "nn/inside/hook_scopes.h"

/* Calls the hooks of the point `name` of the module m (a named value inside the module, see
 * points.h) with the value x. Returns x, or the tensor by which a hook replaced it. `gpt` is the
 * class of GPTs. If m is a GPT or inside one, hooks find the point under TransformerLens's name,
 * relative to the GPT. Otherwise they find it under `name`, relative to m. */
rg_tensor *rgi_gpt_point(const rg_module_class *gpt, rg_module *m, const char *name, rg_tensor *x);
/* Returns whether a hook is registered for one of the points `names` of m. The array ends with
 * NULL. */
bool rgi_gpt_is_awaited(const rg_module_class *gpt, rg_module *m, const char *const names[]);
