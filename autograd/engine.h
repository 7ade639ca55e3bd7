/*
 * engine.h: what the rest of autograd/ asks of the engine. Users ask by the functions
 * in autograd.h.
 */
#pragma once

#include "node.h"

/* Returns g summed down to the shape of meta, if that was broadcast, and in its dtype. */
rg_tensor *rgi_sum_to(rg_tensor *g, const rg_meta *meta);
/* Returns whether it can be summed so. */
bool rgi_may_sum_to(const rg_tensor *g, const rg_meta *meta);

/* A rule runs. */
extern __thread bool rgi_in_rule __attribute__((tls_model("initial-exec")));
