/*
 * name.c: the names that tensors are given, for errors and drawings.
 */
#include "structs.h"
#include "text.h"

rg_tensor *rg_set_name(rg_tensor *t, const char *name) {
    if (!rgi_check(t, "set_name") || !rgi_rename(&t->name, name))
        return NULL;
    if (t->history && !rgi_rename(&t->history->name, name))
        return NULL;
    return t;
}

const char *rg_name(rg_tensor *t) {
    if (!rgi_check(t, "name"))
        return NULL;
    return t->name ? t->name : "";
}
