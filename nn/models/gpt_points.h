/*
 * gpt_points.h: TransformerLens's names of a GPT's inner values. Private.
 */
#pragma once

#include "nn/inside/hook_scopes.h"

/* Returns x or its replacement by hooks, for the point `name` of m. m is a GPT, or a module inside
 * one, of this class. */
rg_tensor *rgi_gpt_point(const rg_module_class *gpt, rg_module *m, const char *name, rg_tensor *x);
/* Returns whether a hook waits for one of these names, a list that ends with NULL. */
bool rgi_gpt_is_awaited(const rg_module_class *gpt, rg_module *m, const char *const names[]);
