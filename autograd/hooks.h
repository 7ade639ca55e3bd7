/*
 * hooks.h: what is called with a gradient that is complete, on its way back.
 */
#pragma once

#include "node.h"

/* Lets the hooks of an output see its gradient, and replace it. *grad may be NULL. */
bool rgi_run_hooks(rg_node *n, int output, rg_tensor **grad);
/* Returns the hook that keeps t's gradient though t is no leaf, or NULL. */
rg_hook *rgi_hook_that_retains(const rg_tensor *t);
/* Gives the hook that keeps an output's gradient, if there is one, to the output of a new node. */
void rgi_move_retained(rg_node *from, int output, rg_node *to, int to_output);
