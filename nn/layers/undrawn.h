/*
 * undrawn.h: tells layers not to draw random weights, because the weights are about to be read from
 * a file. Private.
 */
#pragma once

#include <stdbool.h>

/* While this is true in a thread, rg_nn_init_uniform_, rg_nn_init_normal_ and embeddings draw no
 * random numbers there: new weights stay uninitialised, and the state of the generator doesn't
 * change. */
extern __thread bool rgi_undrawn __attribute__((tls_model("initial-exec")));
