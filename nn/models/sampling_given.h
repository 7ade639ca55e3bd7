/*
 * sampling_given.h: the check of options for drawing tokens. Private.
 */
#pragma once

#include "sampling.h"

/* Fails and returns false unless the numbers among the options are in their ranges. */
bool rgi_sampling_given(const char *op, const rg_sample_options *o);
