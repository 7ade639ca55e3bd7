/*
 * engine.h: the engine's functions for the rest of autograd/. The functions for users are in
 * autograd.h.
 */
#pragma once

#include "node.h"

/* Returns g in meta's dtype, and summed to meta's shape if meta's tensor was broadcast. */
rg_tensor *rgi_sum_to(rg_tensor *g, const rg_meta *meta);
/* Returns whether g can be summed to meta's shape. */
bool rgi_may_sum_to(const rg_tensor *g, const rg_meta *meta);

/* True while a rule runs. */
extern __thread bool rgi_in_rule __attribute__((tls_model("initial-exec")));
