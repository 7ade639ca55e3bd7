/*
 * name.c: the names that tensors are given, for errors and drawings.
 */
#include "internal.h"

rg_tensor *rg_set_name(rg_tensor *t, const char *name) {
    if (!rgi_check(t, "set_name"))
        return NULL;
    return rgi_rename(&t->name, name) && (!t->history || rgi_rename(&t->history->name, name))
               ? t
               : NULL;
}

const char *rg_name(rg_tensor *t) { return !rgi_check(t, "name") ? NULL : t->name ? t->name : ""; }
