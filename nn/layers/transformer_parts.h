/*
 * transformer_parts.h: functions that several of the transformer's files use. Private. The
 * functions for programs are in transformer.h.
 */
#pragma once

#include "sequence_checks.h"
#include "transformer.h"

/* Returns dropout(linear2(dropout(activation(linear1(x))))). `inner` is the dropout before linear2,
 * `outer` the one after it. */
rg_tensor *rgi_feed_forward(rg_linear_module *linear1, rg_tensor *(*activation)(rg_tensor *x),
                            rg_plain_module *inner, rg_linear_module *linear2,
                            rg_plain_module *outer, rg_tensor *x);
/* Returns a ModuleList of n deep copies of the layer, and frees the layer. On failure also frees
 * the layer, and returns NULL. */
rg_module_list *rgi_clones(const char *op, void *layer, int64_t n);
/* Frees a module that was passed to a constructor, which has failed before anything owned the
 * module. Ignores RG_NONE and NULL. */
void rgi_drop_module(void *m);
/* Returns whether the module's class is TransformerEncoderLayer. */
bool rgi_is_encoder_layer(const rg_module *m);
