/*
 * gpt_points.h: the names that a GPT's values have inside, TransformerLens's. Private.
 */
#pragma once

#include "nn/inside/looks.h"

/* Returns x, or what hooks put in its place, for the point of that name in m, a GPT or a module
 * below one, whose class this is. */
rg_tensor *rgi_gpt_point(const rg_module_class *gpt, rg_module *m, const char *name, rg_tensor *x);
/* Returns whether a hook waits for one of these names, the last of which is NULL. */
bool rgi_gpt_is_awaited(const rg_module_class *gpt, rg_module *m, const char *const names[]);
