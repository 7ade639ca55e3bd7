/*
 * multihead.h: functions of MultiheadAttention for a decoder's cache, and for a GPT whose inner
 * values are read. Private; the module is in attention.h.
 */
#pragma once

#include "attention.h"
#include "nn/inside/looks.h"

/* Returns whether the module is a MultiheadAttention, and none that stands in place of one. */
bool rgi_is_multihead(const rg_module *m);
/* Returns the memory's keys and values as (2, batch, heads, length, size of a head). No gradient
 * flows. */
rg_tensor *rgi_keys_and_values(rg_multihead_attention *m, rg_tensor *memory);

/* Attends step by step with q, k and v of (batch, heads, length, size of a head). What `point` puts
 * in place of the values that the list names, whose last entry is NULL, is gone on with: see
 * points.h. The mask is added to the scores unless it is RG_NONE. */
extern const char *const rgi_attention_points[];
rg_attended rgi_attend_by_steps(rg_module *m, rg_point_of *point, rg_tensor *q, rg_tensor *k,
                                rg_tensor *v, rg_tensor *mask, double dropout);
