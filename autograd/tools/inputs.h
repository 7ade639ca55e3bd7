/*
 * inputs.h: the array of inputs with which a function of the program (rg_function) is called. NULLs
 * follow the inputs. A function that reads too many inputs then gets a NULL, and fails when the
 * NULL is used, instead of reading other memory.
 */
#pragma once

#include "autograd/autograd.h"

/* The number of NULLs after the inputs. */
enum { RG_INPUTS_BEHIND = 16 };

/* Writes the NULLs after n inputs. Requires that in[] has room for n + RG_INPUTS_BEHIND tensors. */
static inline void rgi_inputs_end(rg_tensor *in[], int n) {
    for (int i = 0; i < RG_INPUTS_BEHIND; i++)
        in[n + i] = NULL;
}

/* Copies n inputs to in[], and writes the NULLs after them. */
static inline void rgi_inputs_copy(rg_tensor *in[], int n, rg_tensor *const inputs[]) {
    for (int i = 0; i < n; i++)
        in[i] = inputs[i];
    rgi_inputs_end(in, n);
}
