/*
 * given.h: checks of a module that is an argument, and its place in the tree. registry.h has the
 * struct behind a module.
 */
#pragma once

#include "module.h"

/* Returns whether m may be used. If not, the thread has an error. */
bool rgi_module_given(const rg_module *m, const char *op);

/* Fails because the class's forward doesn't take n inputs. */
rg_tensor *rgi_fail_for_inputs(const rg_module_class *c, int n);
rg_tensor *rgi_fail_for_inputs_of(const rg_module_class *c, int n, int takes);

/* Writes m's path from the root of its tree, "h.0.attn", and returns the path's length. */
size_t rgi_module_path(const rg_module *m, char *text, size_t room);
enum { RG_PATH_ROOM = 256 };
/* Returns m's first parent, or NULL. */
rg_module *rgi_module_parent(const rg_module *m);
