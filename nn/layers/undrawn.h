/*
 * undrawn.h: weights that are about to be read from a file aren't drawn first. Private.
 */
#pragma once

#include <stdbool.h>

/* While this is true, what rg_nn_init_uniform_, rg_nn_init_normal_ and an embedding would draw in
 * this thread stays as it lies in memory, and the random stream stays where it is. */
extern __thread bool rgi_undrawn __attribute__((tls_model("initial-exec")));
