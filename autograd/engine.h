/*
 * engine.h: functions of the backward engine for the other files of autograd/. The functions for
 * users are in autograd.h.
 */
#pragma once

#include "node.h"

/* Converts g to the dtype in `meta`, and sums it to the shape in `meta` over the dims along which a
 * tensor of that shape was broadcast. Fails if that isn't possible. */
rg_tensor *rgi_sum_to(rg_tensor *g, const rg_meta *meta);
/* Returns whether g can be summed to the shape in `meta`. */
bool rgi_may_sum_to(const rg_tensor *g, const rg_meta *meta);

/* True while the engine calls a rule (rg_rule in op.h), which computes the gradient of an input. */
extern __thread bool rgi_in_rule __attribute__((tls_model("initial-exec")));
