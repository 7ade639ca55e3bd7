/*
 * multihead.h: what a decoder's cache asks of MultiheadAttention. Private; the module is in
 * attention.h.
 */
#pragma once

#include "attention.h"

/* Returns whether the module is a MultiheadAttention, and none that stands in place of one. */
bool rgi_is_multihead(const rg_module *m);
/* Returns the memory's keys and values as (2, batch, heads, length, size of a head). No gradient
 * flows. */
rg_tensor *rgi_keys_and_values(rg_multihead_attention *m, rg_tensor *memory);
