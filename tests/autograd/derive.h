/*
 * derive.h: checks that follow from an op's row and samples alone. Each returns
 * the number of faults it found, and adds to what the tests report they ran.
 */
#pragma once

#include "autograd/op.h"

extern long derive_checks;
extern bool derive_quiet; /* faults are expected: don't print them */

/* Inputs made from a sample's text (see op.h); requires_grad on the floating ones.
 * -1: the text is malformed. The same text gives the same numbers. */
int derive_inputs(const char *text, rg_dtype dtype, rg_tensor *in[RG_MAX_INPUTS]);

typedef int derive_check(const rg_op *op, const rg_sample *sample);
derive_check derive_first_order, derive_second_order, derive_layouts, derive_float32, derive_fused,
    derive_null, derive_leaves_nothing, derive_no_gradient, derive_inplace, derive_out_of_memory;
