/*
 * multihead.h: declares the functions of MultiheadAttention that other files use. The decoder's
 * cache (transformer_decoder.c) needs rgi_keys_and_values. GPT's attention needs
 * rgi_attend_by_steps when hooks are set inside it. Private. The module itself is in attention.h.
 */
#pragma once

#include "attention.h"
#include "nn/inside/hook_scopes.h"

/* Returns whether m's class is MultiheadAttention. A layer's self_attn is of another class if the
 * program has replaced it. */
bool rgi_is_multihead(const rg_module *m);
/* Projects the memory, an encoder's output, to keys and values. Returns both as one tensor (2,
 * batch, heads, length, head size), or NULL on failure. No gradient flows to the memory. */
rg_tensor *rgi_keys_and_values(rg_multihead_attention *m, rg_tensor *memory);

/* The names of the values inside attention that hooks can see (points, see points.h). NULL ends the
 * array. */
extern const char *const rgi_attention_points[];
/* Computes attention in several ops, so that hooks can see the values in between. q, k and v are
 * (batch, heads, length, head size). If this thread has hook scopes, `point` is called with the
 * name and the value of each point in rgi_attention_points; what it returns replaces the value.
 * `mask` is added to the scores, unless it is RG_NONE. If `dropout` isn't 0, it is applied to the
 * weights. Returns the heads' outputs and the weights, of which at least one is NULL on failure. */
rg_attended rgi_attend_by_steps(rg_module *m, rg_point_of *point, rg_tensor *q, rg_tensor *k,
                                rg_tensor *v, rg_tensor *mask, double dropout);
