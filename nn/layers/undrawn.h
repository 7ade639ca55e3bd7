/*
 * undrawn.h: skipping the random draw of weights that are about to be read from a file. Private.
 */
#pragma once

#include <stdbool.h>

/* While true, rg_nn_init_uniform_, rg_nn_init_normal_ and embeddings leave the memory of weights
 * uninitialised in this thread, and the random stream doesn't move. */
extern __thread bool rgi_undrawn __attribute__((tls_model("initial-exec")));
