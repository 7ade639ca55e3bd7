/*
 * name.c: the names that tensors are given, for errors and drawings.
 */
#include "structs.h"
#include "text.h"

rg_tensor *rg_set_name(rg_tensor *t, const char *name) {
    char *copy = NULL;
    if (!rgi_check(t, "set_name") || !rgi_rename(&copy, name))
        return NULL;
    /* The tensor takes the name only after its history has it, so that both or neither have. */
    if (!t->history || rgi_rename(&t->history->name, name))
        RG_SWAP(t->name, copy);
    else
        t = NULL;
    rgi_rename(&copy, NULL);
    return t;
}

const char *rg_name(rg_tensor *t) {
    if (!rgi_check(t, "name"))
        return NULL;
    return t->name ? t->name : "";
}
