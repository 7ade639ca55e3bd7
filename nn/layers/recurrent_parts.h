/*
 * recurrent_parts.h: functions that recurrent layers and their cells share.
 */
#pragma once

#include "nn/module.h"

/* Returns the number of gates. */
static inline int rgi_rnn_gate_count(bool lstm, bool gru) {
    if (lstm)
        return 4;
    return gru ? 3 : 1;
}

/* Returns x's part of the gates, biases included. A GRU adds the second bias in each step. */
static inline rg_tensor *rgi_rnn_gates(rg_tensor *x, rg_tensor *weight_ih, rg_tensor *bias_ih,
                                       rg_tensor *bias_hh, bool gru) {
    rg_tensor *bias = bias_ih;
    if (bias != RG_NONE && !gru)
        bias = rg_add(bias, bias_hh);
    return rg_linear(x, weight_ih, bias);
}
