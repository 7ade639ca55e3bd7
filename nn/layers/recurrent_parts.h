/*
 * recurrent_parts.h: functions that the recurrent layers (recurrent.c) and their cells
 * (recurrent_cells.c) share.
 */
#pragma once

#include "nn/module.h"

/* Returns the number of gates: 4 for an LSTM, 3 for a GRU, 1 for an RNN. */
static inline int rgi_rnn_gate_count(bool lstm, bool gru) {
    if (lstm)
        return 4;
    return gru ? 3 : 1;
}

/* Returns the part of the gates that depends only on x: x weight_ih^T, a matrix product, plus the
 * biases if there are any. LSTM and RNN add both biases here. A GRU adds only bias_ih here, because
 * rg_gru_scan adds bias_hh at each step. */
static inline rg_tensor *rgi_rnn_gates(rg_tensor *x, rg_tensor *weight_ih, rg_tensor *bias_ih,
                                       rg_tensor *bias_hh, bool gru) {
    rg_tensor *bias = bias_ih;
    if (bias != RG_NONE && !gru)
        bias = rg_add(bias, bias_hh);
    return rg_linear(x, weight_ih, bias);
}
