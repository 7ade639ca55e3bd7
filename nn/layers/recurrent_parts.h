/*
 * recurrent_parts.h: what the recurrent layers and their cells have in common.
 */
#pragma once

#include "nn/module.h"

/* Returns how many gates there are to each number of h. */
static inline int rgi_rnn_gate_count(bool lstm, bool gru) {
    if (lstm)
        return 4;
    return gru ? 3 : 1;
}

/* Returns the gates that x makes, with the biases; a GRU's second is left to its steps. */
static inline rg_tensor *rgi_rnn_gates(rg_tensor *x, rg_tensor *weight_ih, rg_tensor *bias_ih,
                                       rg_tensor *bias_hh, bool gru) {
    rg_tensor *bias = bias_ih;
    if (bias != RG_NONE && !gru)
        bias = rg_add(bias, bias_hh);
    return rg_linear(x, weight_ih, bias);
}
