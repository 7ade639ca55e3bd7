/*
 * norm_dtypes.h: the dtypes of the inputs of layer_norm, group_norm and batch_norm.
 */
#pragma once

#include "autograd/checks.h"

/* Fails unless the parameters t[], some of which may be RG_NONE, have x's dtype or, as in torch,
 * are all float32 beside an x of 16 bits. names[i] is the name of t[i]. */
static inline bool rgi_want_norm_dtypes(const char *op, const rg_tensor *x, int n,
                                        rg_tensor *const t[], const char *const names[]) {
    const rg_tensor *like = x;
    const char *name = "input";
    for (int i = n - 1; i >= 0; i--)
        if (!rgi_is_none(t[i]) && t[i]->dtype != x->dtype
            && t[i]->dtype == rgi_computed_in((rg_dtype)x->dtype)) {
            like = t[i];
            name = names[i];
        }
    bool ok = rgi_want_float(op, x);
    for (int i = 0; i < n && ok; i++)
        ok = rgi_want_same_dtype(op, name, like, names[i], t[i]);
    return ok;
}
