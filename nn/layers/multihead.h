/*
 * multihead.h: functions of MultiheadAttention that other files use: the decoder's cache
 * (transformer_decoder.c), and GPT's attention when hooks observe it. Private. The module itself is
 * in attention.h.
 */
#pragma once

#include "attention.h"
#include "nn/inside/hook_scopes.h"

/* Returns whether the module is a MultiheadAttention, not a module that replaces one. */
bool rgi_is_multihead(const rg_module *m);
/* Projects the memory, an encoder's output, to keys and values. Returns both as one tensor (2,
 * batch, heads, length, head size). No gradient flows to the memory. */
rg_tensor *rgi_keys_and_values(rg_multihead_attention *m, rg_tensor *memory);

/* Computes attention in several ops, so that hooks can see the values in between. q, k and v are
 * (batch, heads, length, head size). `point` is called with each value that rgi_attention_points
 * names, and its result replaces that value: see points.h. (The array of names ends with NULL.) The
 * mask is added to the scores, unless it is RG_NONE. Returns the heads' outputs and the attention
 * weights. */
extern const char *const rgi_attention_points[];
rg_attended rgi_attend_by_steps(rg_module *m, rg_point_of *point, rg_tensor *q, rg_tensor *k,
                                rg_tensor *v, rg_tensor *mask, double dropout);
