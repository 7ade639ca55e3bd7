/*
 * value_check.h: checks of the values of arguments, such as the range of a loss's probabilities.
 * Checks of shapes and dtypes are in autograd/checks.h.
 */
#pragma once

#include "autograd/op.h"

/* A check of the values of arguments, such as a loss's. Ops have computed `flag`, a bool tensor
 * with one element, from the arguments. Its element must equal `good`. If it doesn't, the function
 * named `op` fails with `code` and `sentence`. Both strings must stay in memory. */
typedef struct {
    const rg_tensor *flag;
    bool good;
    rg_code code;
    const char *op, *sentence;
} rg_value_check;
/* Fails and returns false unless the check succeeds. If the step is recorded, each repetition
 * checks the flag that it has computed. Returns false if the flag is NULL. */
bool rgi_check_values(const rg_value_check *check);
