/*
 * inputs.h: the inputs that a program's function (rg_function) is called with. NULL stands behind
 * them, so that a function that reads more inputs than there are fails where it uses the first of
 * those, and doesn't read what lies in memory there.
 */
#pragma once

#include "autograd.h"

/* The number of NULLs that stand behind the inputs. */
enum { RG_INPUTS_BEHIND = 16 };

/* Writes the NULLs. Requires that `in` has room for n + RG_INPUTS_BEHIND. */
static inline void rgi_inputs_end(rg_tensor *in[], int n) {
    for (int i = 0; i < RG_INPUTS_BEHIND; i++)
        in[n + i] = NULL;
}

/* Copies n inputs, and ends them. */
static inline void rgi_inputs_copy(rg_tensor *in[], int n, rg_tensor *const inputs[]) {
    for (int i = 0; i < n; i++)
        in[i] = inputs[i];
    rgi_inputs_end(in, n);
}
