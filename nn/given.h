/*
 * given.h: questions about modules that a function is given. registry.h says what stands behind a
 * module.
 */
#pragma once

#include "module.h"

/* Returns whether m may be used. If not, the thread has an error. */
bool rgi_module_given(const rg_module *m, const char *op);

/* Fails with the sentence that n inputs are too many, or too few, for the class; the second one is
 * told how many it takes. */
rg_tensor *rgi_fail_for_inputs(const rg_module_class *c, int n);
rg_tensor *rgi_fail_for_inputs_of(const rg_module_class *c, int n, int takes);

/* Writes m's path from the top of its tree, "h.0.attn", and returns its length. */
size_t rgi_module_path(const rg_module *m, char *text, size_t room);
enum { RG_PATH_ROOM = 256 };
/* Returns the first module that has m as its child, or NULL. */
rg_module *rgi_module_parent(const rg_module *m);
