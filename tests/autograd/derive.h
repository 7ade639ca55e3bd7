/*
 * derive.h: checks that are derived from an op's row and samples alone. Each returns the number of
 * faults that it found, and counts its checks in derive_checks.
 */
#pragma once

#include "autograd/op.h"

extern long derive_checks;
extern bool derive_quiet; /* If true, faults are expected, and not printed. */

/* Makes inputs from a sample's text, which op.h describes. Inputs of floating point require grad.
 * The same text gives the same numbers. Returns the number of inputs, or -1 if the text is
 * malformed. */
int derive_inputs(const char *text, rg_dtype dtype, rg_tensor *in[RG_MAX_INPUTS]);

typedef int derive_check(const rg_op *op, const rg_sample *sample);
derive_check derive_first_order, derive_second_order, derive_layouts, derive_float32, derive_fused,
    derive_null, derive_leaves_nothing, derive_only_results, derive_no_gradient, derive_inplace,
    derive_inner, derive_alone, derive_overlap, derive_written, derive_poked,
    derive_poked_replay, derive_out_of_memory, derive_withheld;

/* Returns whether a backward run of the sample uses the fused derivative. Such a run makes one
 * call, or at most half of the calls that a run with create_graph makes. */
bool derive_is_fused(const rg_op *op, const rg_sample *sample);
