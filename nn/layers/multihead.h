/*
 * multihead.h: functions of MultiheadAttention that a decoder's cache and GPT's hooked attention
 * use. Private; the module is in attention.h.
 */
#pragma once

#include "attention.h"
#include "nn/inside/hook_scopes.h"

/* Returns whether the module is a MultiheadAttention, not a module that replaces one. */
bool rgi_is_multihead(const rg_module *m);
/* Returns the memory's projected keys and values as (2, batch, heads, length, head size). No
 * gradient flows. */
rg_tensor *rgi_keys_and_values(rg_multihead_attention *m, rg_tensor *memory);

/* Attends in several ops with q, k and v of (batch, heads, length, head size). `point` is called on
 * the values of the list's names, whose last entry is NULL, and may replace them: see points.h. The
 * mask is added to the scores unless it is RG_NONE. */
extern const char *const rgi_attention_points[];
rg_attended rgi_attend_by_steps(rg_module *m, rg_point_of *point, rg_tensor *q, rg_tensor *k,
                                rg_tensor *v, rg_tensor *mask, double dropout);
