/*
 * transformer_parts.h: what the files of the transformer share. Private; transformer.h is public.
 */
#pragma once

#include "sequence_checks.h"
#include "transformer.h"

/* Returns dropout(linear2(dropout(activation(linear1(x))))). */
rg_tensor *rgi_feed_forward(rg_linear_module *linear1, rg_tensor *(*activation)(rg_tensor *x),
                            rg_plain_module *inner, rg_linear_module *linear2,
                            rg_plain_module *outer, rg_tensor *x);
/* Returns a list of n copies of the layer, which is freed. */
rg_module_list *rgi_clones(const char *op, void *layer, int64_t n);
/* Frees a module that was to be taken over; RG_NONE and NULL are none. */
void rgi_drop_module(void *m);
/* Returns whether the module is a TransformerEncoderLayer, and no other that takes its keywords. */
bool rgi_is_encoder_layer(const rg_module *m);
