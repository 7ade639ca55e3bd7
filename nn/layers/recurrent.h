/*
 * recurrent.h: LSTM, GRU, RNN and their cells, and packed sequences of different lengths, as in
 * torch.nn.utils.rnn. One direction of one layer is computed by rg_lstm_scan, rg_gru_scan or
 * rg_rnn_scan of autograd/ops/ops.h.
 *
 *     rg_rnn_module *lstm = rg_nn_lstm(3, 4, .num_layers = 2, .batch_first = true);
 *     rg_rnn_result y = rg_lstm_forward(lstm, x);
 *     y = rg_lstm_forward(lstm, x, .h_0 = y.h_n, .c_0 = y.c_n);
 *
 *     rg_packed_sequence packed = rg_pack_padded_sequence(x, lengths, .batch_first = true);
 *     rg_rnn_packed_result z = rg_lstm_forward_packed(lstm, packed);
 *     rg_padded_sequence padded = rg_pad_packed_sequence(z.output, .batch_first = true);
 */
#pragma once

#include "../module.h"
#pragma GCC system_header

RG_PUBLIC_BEGIN

/* ---- sequences of several lengths ------------------------------------------------ */

/* Sequences of different lengths, stored step by step without padding: first the rows of step 0,
 * then those of step 1, and so on. A step has a row for each sequence that is long enough to have
 * this step, the longest sequence first. `data` is (rows of all steps, ..), and `batch_sizes` lists
 * the number of sequences at each step. `sorted_indices` sorts the sequences by length, and
 * `unsorted_indices` restores their original order. Both are RG_NONE if enforce_sorted was true:
 * then the sequences were sorted already. */
typedef struct rg_packed_sequence {
    rg_tensor *data, *batch_sizes, *sorted_indices, *unsorted_indices;
} rg_packed_sequence;
typedef struct RG_OPTIONS rg_pack_options {
    RG_BY_NAME;
    rg_flag batch_first RG_DEFAULT(false);
    rg_flag enforce_sorted RG_DEFAULT(true);
} rg_pack_options;
/* Packs x, of shape (steps, batch, ..), or (batch, steps, ..) with batch_first. lengths[i] is the
 * length of the i-th sequence. On failure all fields are NULL. */
rg_packed_sequence rg_pack_padded_sequence_with(rg_tensor *x, rg_tensor *lengths,
                                                rg_pack_options o);
#define RG_PACK_(...) RG_KEYWORDS(rg_pack_options, (.enforce_sorted = true), __VA_ARGS__)
#define rg_pack_padded_sequence(x, lengths, ...) \
    RG_IN_ORDER_2(rg_pack_padded_sequence_with, __COUNTER__, x, lengths, RG_PACK_(__VA_ARGS__))
/* Packs a list of sequences. Each is a tensor (steps, ..). batch_first has no effect here. On
 * failure all fields are NULL. */
rg_packed_sequence rg_pack_sequence_with(rg_list sequences, rg_pack_options o);
#define rg_pack_sequence(sequences, ...) rg_pack_sequence_with(sequences, RG_PACK_(__VA_ARGS__))

typedef struct RG_OPTIONS rg_pad_options {
    RG_BY_NAME;
    rg_flag batch_first RG_DEFAULT(false);
    double padding_value RG_DEFAULT(0);
    /* Used by pad_packed_sequence: the number of steps of the output. 0 means as many as the
     * longest sequence has. */
    int64_t total_length RG_DEFAULT(0);
    /* The side on which pad_sequence pads: "right" or "left". */
    const char *padding_side RG_DEFAULT("right");
} rg_pad_options;
/* The padded sequences and their lengths. On failure both fields are NULL. */
typedef struct rg_padded_sequence {
    rg_tensor *output, *lengths;
} rg_padded_sequence;
#define RG_PAD_(...) RG_KEYWORDS(rg_pad_options, (.padding_side = "right"), __VA_ARGS__)
/* Undoes packing. `output` has the sequences in their original order, padded at the end to the same
 * length: (steps, batch, ..) or, with batch_first, (batch, steps, ..). `lengths` has their
 * lengths. */
rg_padded_sequence rg_pad_packed_sequence_with(rg_packed_sequence packed, rg_pad_options o);
#define rg_pad_packed_sequence(packed, ...) \
    rg_pad_packed_sequence_with(packed, RG_PAD_(__VA_ARGS__))
/* Pads sequences, which are tensors (steps, ..), to the length of the longest. Returns one tensor
 * (longest, batch, ..) or, with batch_first, (batch, longest, ..), with the dtype of the first
 * sequence. Fails and returns NULL if the list is empty, or the sequences differ in the other
 * dims. */
rg_tensor *rg_pad_sequence_with(rg_list sequences, rg_pad_options o);
#define rg_pad_sequence(sequences, ...) rg_pad_sequence_with(sequences, RG_PAD_(__VA_ARGS__))

/* ---- LSTM, GRU, RNN ---------------------------------------------------------------- */

typedef struct RG_OPTIONS rg_rnn_options {
    RG_BY_NAME;
    int64_t num_layers RG_DEFAULT(1);
    rg_flag bias RG_DEFAULT(true);
    rg_flag batch_first RG_DEFAULT(false);
    /* The probability of dropout on the output of each layer but the last. */
    double dropout RG_DEFAULT(0);
    rg_flag bidirectional RG_DEFAULT(false);
    int64_t proj_size RG_DEFAULT(0); /* Used by LSTM only. */
    /* "tanh" or "relu"; NULL means "tanh". LSTM and GRU fail if it is given. */
    const char *nonlinearity RG_DEFAULT(NULL);
} rg_rnn_options;
/* The weights of one layer and direction. The biases are RG_NONE if the option bias is false, and
 * weight_hr, the projection, is RG_NONE if proj_size is 0. */
typedef struct rg_rnn_weights {
    rg_tensor *weight_ih, *weight_hh, *bias_ih, *bias_hh, *weight_hr;
} rg_rnn_weights;
typedef struct rg_rnn_module {
    rg_module base;
    /* The weights of layer l are weights[l] or, if bidirectional, weights[2 * l] for the forward
     * direction and weights[2 * l + 1] for the reverse. They are registered as weight_ih_l0, ..,
     * weight_ih_l0_reverse and so on. */
    rg_rnn_weights *const weights;
    const int64_t input_size, hidden_size;
    const int n_weights;
    const rg_rnn_options o;
} rg_rnn_module;
rg_rnn_module *rg_nn_lstm_with(int64_t input_size, int64_t hidden_size, rg_rnn_options o);
rg_rnn_module *rg_nn_gru_with(int64_t input_size, int64_t hidden_size, rg_rnn_options o);
rg_rnn_module *rg_nn_rnn_with(int64_t input_size, int64_t hidden_size, rg_rnn_options o);
#define RG_RNN_(...) RG_KEYWORDS(rg_rnn_options, (.num_layers = 1, .bias = true), __VA_ARGS__)
#define rg_nn_lstm(input_size, hidden_size, ...) \
    rg_nn_lstm_with(input_size, hidden_size, RG_RNN_(__VA_ARGS__))
#define rg_nn_gru(input_size, hidden_size, ...) \
    rg_nn_gru_with(input_size, hidden_size, RG_RNN_(__VA_ARGS__))
#define rg_nn_rnn(input_size, hidden_size, ...) \
    rg_nn_rnn_with(input_size, hidden_size, RG_RNN_(__VA_ARGS__))

/* The initial states: (layers * directions, batch, size of the state), or without the batch dim if
 * x has none. A cell's states have no dim of layers. A state that isn't given is zero. An LSTM must
 * be given both states or neither; the other kinds take only h_0. */
typedef struct RG_OPTIONS rg_rnn_states {
    RG_BY_NAME;
    rg_tensor *h_0 RG_DEFAULT(RG_NONE);
    rg_tensor *c_0 RG_DEFAULT(RG_NONE);
} rg_rnn_states;
#define RG_STATES_(...) RG_KEYWORDS(rg_rnn_states, (.h_0 = RG_NONE, .c_0 = RG_NONE), __VA_ARGS__)
/* The results of a call. c_n is RG_NONE unless the module is an LSTM. On failure all fields are
 * NULL. */
typedef struct rg_rnn_result {
    rg_tensor *output, *h_n, *c_n;
} rg_rnn_result;
typedef struct rg_rnn_packed_result {
    rg_packed_sequence output;
    rg_tensor *h_n, *c_n;
} rg_rnn_packed_result;
/* Run an LSTM, GRU or RNN; each of the functions can run any of the three kinds. x is (steps,
 * batch, input_size) or, with batch_first, (batch, steps, input_size). Without a batch dim, x is
 * (steps, input_size). The _packed functions take a packed sequence instead. rg_call(m, x) returns
 * only the output. With initial states, call rg_call(m, x, h_0) or, for an LSTM, rg_call(m, x, h_0,
 * c_0). */
rg_rnn_result rg_rnn_forward_with(rg_rnn_module *m, rg_tensor *x, rg_rnn_states o);
rg_rnn_packed_result rg_rnn_forward_packed_with(rg_rnn_module *m, rg_packed_sequence x,
                                                rg_rnn_states o);
#define rg_rnn_forward(m, x, ...)         rg_rnn_forward_with(m, x, RG_STATES_(__VA_ARGS__))
#define rg_gru_forward(m, x, ...)         rg_rnn_forward_with(m, x, RG_STATES_(__VA_ARGS__))
#define rg_lstm_forward(m, x, ...)        rg_rnn_forward_with(m, x, RG_STATES_(__VA_ARGS__))
#define rg_rnn_forward_packed(m, x, ...)  rg_rnn_forward_packed_with(m, x, RG_STATES_(__VA_ARGS__))
#define rg_gru_forward_packed(m, x, ...)  rg_rnn_forward_packed_with(m, x, RG_STATES_(__VA_ARGS__))
#define rg_lstm_forward_packed(m, x, ...) rg_rnn_forward_packed_with(m, x, RG_STATES_(__VA_ARGS__))
/* The keywords of an LSTM, GRU or RNN in rg_call_keywords: the arguments beside x, and the results
 * h_n and c_n, which the call stores here. If the input is a packed sequence, x is its field
 * `data`, and its other three fields are copied to the fields of the same names here. Otherwise
 * batch_sizes is RG_NONE. In C, the states that are absent must be written as well, as .states = {
 * .h_0 = RG_NONE, .c_0 = RG_NONE }, since a field that isn't written is NULL, which is an error. */
typedef struct rg_rnn_keywords {
    rg_rnn_states states RG_EMPTY;
    rg_tensor *batch_sizes RG_DEFAULT(RG_NONE);
    rg_tensor *sorted_indices RG_DEFAULT(RG_NONE);
    rg_tensor *unsorted_indices RG_DEFAULT(RG_NONE);
    rg_tensor *h_n RG_DEFAULT(RG_NONE);
    rg_tensor *c_n RG_DEFAULT(RG_NONE);
} rg_rnn_keywords;

/* ---- LSTMCell, GRUCell, RNNCell: one step ------------------------------------------ */

typedef struct RG_OPTIONS rg_rnn_cell_options {
    RG_BY_NAME;
    rg_flag bias RG_DEFAULT(true);
    const char *nonlinearity RG_DEFAULT(NULL); /* RNNCell's: "tanh" or "relu". NULL means "tanh". */
} rg_rnn_cell_options;
typedef struct rg_rnn_cell_module {
    rg_module base;
    rg_tensor *weight_ih, *weight_hh, *bias_ih, *bias_hh;
    const int64_t input_size, hidden_size;
    const bool relu;
} rg_rnn_cell_module;
rg_rnn_cell_module *rg_nn_lstm_cell_with(int64_t input_size, int64_t hidden_size,
                                         rg_rnn_cell_options o);
rg_rnn_cell_module *rg_nn_gru_cell_with(int64_t input_size, int64_t hidden_size,
                                        rg_rnn_cell_options o);
rg_rnn_cell_module *rg_nn_rnn_cell_with(int64_t input_size, int64_t hidden_size,
                                        rg_rnn_cell_options o);
#define RG_CELL_(...) RG_KEYWORDS(rg_rnn_cell_options, (.bias = true), __VA_ARGS__)
#define rg_nn_lstm_cell(input_size, hidden_size, ...) \
    rg_nn_lstm_cell_with(input_size, hidden_size, RG_CELL_(__VA_ARGS__))
#define rg_nn_gru_cell(input_size, hidden_size, ...) \
    rg_nn_gru_cell_with(input_size, hidden_size, RG_CELL_(__VA_ARGS__))
#define rg_nn_rnn_cell(input_size, hidden_size, ...) \
    rg_nn_rnn_cell_with(input_size, hidden_size, RG_CELL_(__VA_ARGS__))
/* Runs one step of an LSTM cell: rg_lstm_cell_forward(m, x, .h_0 = h, .c_0 = c) returns the new h
 * and c. rg_call(m, x, h, c) returns only the new h. GRU and RNN cells have no function of their
 * own; they are called by rg_call(m, x) or rg_call(m, x, h). x is (batch, input_size) or, without a
 * batch, (input_size). */
rg_hidden_cells rg_lstm_cell_forward_with(rg_rnn_cell_module *m, rg_tensor *x, rg_rnn_states o);
#define rg_lstm_cell_forward(m, x, ...) rg_lstm_cell_forward_with(m, x, RG_STATES_(__VA_ARGS__))
/* The keywords of a cell in rg_call_keywords: the states, and a result. The call stores the new c
 * in `c`; for GRU and RNN cells c stays RG_NONE. */
typedef struct rg_rnn_cell_keywords {
    rg_rnn_states states RG_EMPTY;
    rg_tensor *c RG_DEFAULT(RG_NONE);
} rg_rnn_cell_keywords;

/* ---- checked arguments: see tensor/arguments/arguments.h ---------------------------------- */

#define rg_nn_lstm_with(input_size, hidden_size, ...) \
    rg_nn_lstm_with(RG_WHOLE(input_size), RG_WHOLE(hidden_size), __VA_ARGS__)
#define rg_nn_gru_with(input_size, hidden_size, ...) \
    rg_nn_gru_with(RG_WHOLE(input_size), RG_WHOLE(hidden_size), __VA_ARGS__)
#define rg_nn_rnn_with(input_size, hidden_size, ...) \
    rg_nn_rnn_with(RG_WHOLE(input_size), RG_WHOLE(hidden_size), __VA_ARGS__)
#define rg_nn_lstm_cell_with(input_size, hidden_size, ...) \
    rg_nn_lstm_cell_with(RG_WHOLE(input_size), RG_WHOLE(hidden_size), __VA_ARGS__)
#define rg_nn_gru_cell_with(input_size, hidden_size, ...) \
    rg_nn_gru_cell_with(RG_WHOLE(input_size), RG_WHOLE(hidden_size), __VA_ARGS__)
#define rg_nn_rnn_cell_with(input_size, hidden_size, ...) \
    rg_nn_rnn_cell_with(RG_WHOLE(input_size), RG_WHOLE(hidden_size), __VA_ARGS__)

RG_PUBLIC_END
