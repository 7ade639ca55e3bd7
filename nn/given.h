/*
 * given.h: functions that check that an argument is a module, and mark a module as in use. Other
 * functions raise the error for a call with the wrong number of inputs, and find a module's parent
 * and path. The struct rg_registry, the private part of a module, is in registry.h.
 */
#pragma once

#include "module.h"

/* Returns whether m is a module that hasn't been freed. If it isn't, fails with `op` as the name of
 * the function, and returns false. */
bool rgi_module_given(const rg_module *m, const char *op);

/* Between these two calls the function `user` works on m, and m can't be freed.
 * rgi_module_begin_use returns the name of m's previous user, or NULL. Pass it to
 * rgi_module_end_use. */
const char *rgi_module_begin_use(rg_module *m, const char *user);
void rgi_module_end_use(rg_module *m, const char *user_before);

/* Fail with torch's TypeError, because a module of class c was called with n inputs, and return
 * NULL. rgi_fail_for_inputs looks up in c how many inputs the class takes. rgi_fail_for_inputs_of
 * gets this number as `takes`, and the names of these inputs, of which the error message has the
 * missing ones. */
rg_tensor *rgi_fail_for_inputs(const rg_module_class *c, int n);
rg_tensor *rgi_fail_for_inputs_of(const rg_module_class *c, int n, int takes,
                                  const char *const names[]);

/* Writes m's path from the root of its tree, such as "h.0.attn", to `text`, which has room for
 * `room` bytes. A root's path is "", and a path that is too long is cut off. Returns the length of
 * the text. */
size_t rgi_module_path(const rg_module *m, char *text, size_t room);
enum { RG_PATH_ROOM = 256 };
/* Returns m's parent: the first module in which m was registered as a child. Returns NULL if m was
 * registered in none, or if that module has released m or has been freed. */
rg_module *rgi_module_parent(const rg_module *m);
