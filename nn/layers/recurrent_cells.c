/*
 * recurrent_cells.c: the modules LSTMCell, GRUCell and RNNCell. Each runs one step of rg_lstm_scan,
 * rg_gru_scan or rg_rnn_scan.
 */
#include "recurrent.h"
#include "init.h"
#include "recurrent_parts.h"
#include "sequence_checks.h"
#include "nn/registry.h"
#include "tensor/error.h"
#include "tensor/structs.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const rg_module_class lstm_cell_class, gru_cell_class, rnn_cell_class;

static bool cell_is_lstm(const rg_rnn_cell_module *self) {
    return self->base.cls == &lstm_cell_class;
}
static bool cell_is_gru(const rg_rnn_cell_module *self) {
    return self->base.cls == &gru_cell_class;
}

/* ---- checks of the arguments ----------------------------------------------------- */

static bool cell_check_dims(const rg_rnn_cell_module *self, rg_tensor *x, rg_tensor *const s[2]) {
    const char *name = self->base.cls->name;
    const bool lstm = cell_is_lstm(self);
    const char *names[] = { lstm ? "hx[0]" : "hidden", "hx[1]" };
    if (!rgi_check(x, name) || !rgi_want_maybe_batched(name, "input", x, 2)
        || !rgi_want_states(name, lstm, s))
        return false;
    for (int i = 0; i < 2; i++)
        if (s[i] != RG_NONE && !rgi_want_maybe_batched(name, names[i], s[i], 2))
            return false;
    return rgi_want_states_like(name, x, 2, s);
}

/* Fails and returns false unless x is (batch, input_size) and each given state is (batch,
 * hidden_size). If the caller's tensors had no batch dim, it has been added before this check. */
static bool cell_check_sizes(const rg_rnn_cell_module *self, const rg_tensor *x,
                             rg_tensor *const s[2]) {
    const char *name = self->base.cls->name;
    const bool lstm = cell_is_lstm(self);
    const rg_dims shape = RG_DIMS(x->size[0], self->hidden_size);
    const int gates = rgi_rnn_gate_count(lstm, cell_is_gru(self));
    return rgi_want_input_size(name, x, self->input_size)
           && rgi_want_biases(name, self->bias_ih, self->bias_hh, gates * self->hidden_size)
           && rgi_want_state(name, lstm, 0, s[0], shape)
           && rgi_want_state(name, lstm, 1, s[1], shape);
}

/* ---- one step of a cell ---------------------------------------------------------- */

/* Runs one time step. x is (1, batch, input_size). Returns h and c, each (1, batch, hidden_size). c
 * is RG_NONE unless the cell is an LSTM's. */
static rg_hidden_cells cell_step(const rg_rnn_cell_module *self, rg_tensor *x, rg_tensor *h,
                                 rg_tensor *c) {
    rg_tensor *gates = rgi_rnn_gates(x, self->weight_ih, self->bias_ih, self->bias_hh,
                                     cell_is_gru(self));
    if (cell_is_lstm(self))
        return rg_lstm_scan(gates, self->weight_hh, h, c, false);
    if (cell_is_gru(self))
        return (rg_hidden_cells){ rg_gru_scan(gates, self->weight_hh, self->bias_hh, h, false),
                                  RG_NONE };
    return (rg_hidden_cells){ rg_rnn_scan(gates, self->weight_hh, h, self->relu, false), RG_NONE };
}

/* Runs the cell. Returns the new h, and stores the new c in the keywords *k. Returns NULL on
 * failure. */
static rg_tensor *cell_run(const rg_rnn_cell_module *self, rg_tensor *x, rg_rnn_cell_keywords *k) {
    rg_tensor *s[] = { k->states.h_0, k->states.c_0 };
    RG_AS(self->base.cls->name);
    if (!cell_check_dims(self, x, s))
        return NULL;
    const bool batched = x->ndim == 2;
    if (!batched) {
        x = rg_unsqueeze(x, 0);
        for (int i = 0; i < 2; i++)
            s[i] = s[i] == RG_NONE ? RG_NONE : rg_unsqueeze(s[i], 0);
    }
    if (!x || !s[0] || !s[1] || !cell_check_sizes(self, x, s))
        return NULL;
    for (int i = 0; i < 2; i++)
        if (s[i] == RG_NONE && (i == 0 || cell_is_lstm(self)))
            s[i] = rg_zeros_dims(RG_DIMS(x->size[0], self->hidden_size), (rg_dtype)x->dtype);
    rg_hidden_cells y = cell_step(self, rg_unsqueeze(x, 0), s[0], s[1]);
    y.h = rg_select(y.h, 0, 0);
    if (cell_is_lstm(self))
        y.c = rg_select(y.c, 0, 0);
    if (!batched) {
        y.h = rg_squeeze_dim(y.h, 0);
        if (cell_is_lstm(self))
            y.c = rg_squeeze_dim(y.c, 0);
    }
    if (!y.h || !y.c)
        return NULL;
    k->c = rg_escape(y.c);
    return y.h;
}

static rg_tensor *cell_forward_with(rg_module *m, rg_list in, void *keywords) {
    const rg_rnn_cell_module *self = (const rg_rnn_cell_module *)m;
    rg_rnn_cell_keywords plain = { .states = { .h_0 = RG_NONE, .c_0 = RG_NONE } };
    rg_rnn_cell_keywords *k = keywords ? keywords : &plain;
    const int most = cell_is_lstm(self) ? 3 : 2;
    static const char *const name = "input";
    if (!in.n || in.n > most)
        return rgi_fail_for_inputs_of(m->cls, in.n, in.n ? most : 1, &name);
    if (in.n > 1)
        k->states.h_0 = in.v[1];
    if (in.n > 2)
        k->states.c_0 = in.v[2];
    return cell_run(self, in.v[0], k);
}

rg_hidden_cells rg_lstm_cell_forward_with(rg_rnn_cell_module *m, rg_tensor *x, rg_rnn_states o) {
    const rg_hidden_cells failed = { NULL, NULL };
    if (!rgi_module_given((rg_module *)m, "lstm_cell_forward"))
        return failed;
    rg_rnn_cell_keywords k = { .states = o, .c = RG_NONE };
    rg_tensor *h = rg_call_keywords(m, &k, x);
    return h && k.c ? (rg_hidden_cells){ h, k.c } : failed;
}

/* ---- repr, classes and constructors ---------------------------------------------- */

static void cell_repr(rg_module *m, char *text, size_t room) {
    const rg_rnn_cell_module *self = (rg_rnn_cell_module *)m;
    snprintf(text, room, "%lld, %lld%s%s", (long long)self->input_size,
             (long long)self->hidden_size, self->bias_ih == RG_NONE ? ", bias=False" : "",
             self->relu ? ", nonlinearity=relu" : "");
}

#define CELL_CLASS(name_)                                                       \
    {                                                                           \
        .name = name_, .forward_with = cell_forward_with,                       \
        .keywords_bytes = sizeof(rg_rnn_cell_keywords), .extra_repr = cell_repr \
    }
static const rg_module_class lstm_cell_class = CELL_CLASS("LSTMCell");
static const rg_module_class gru_cell_class = CELL_CLASS("GRUCell");
static const rg_module_class rnn_cell_class = CELL_CLASS("RNNCell");

/* Returns a new weight or bias, drawn from U(-1/sqrt(hidden), 1/sqrt(hidden)) as in torch. */
static rg_tensor *cell_weight(const rg_rnn_cell_module *self, rg_dims shape) {
    const double bound = self->hidden_size > 0 ? 1 / sqrt((double)self->hidden_size) : 0;
    return rg_nn_init_uniform_(rg_empty_dims(shape, rg_default_dtype()), -bound, bound);
}

static rg_rnn_cell_module *cell_new(const rg_module_class *cls, int64_t input, int64_t hidden,
                                    rg_rnn_cell_options o) {
    RG_AS(cls->name);
    RG_SCOPE();
    const char *by = o.nonlinearity ? o.nonlinearity : "tanh";
    RG_FAIL_AS_IF(RG_TYPE_ERROR, o.nonlinearity && cls != &rnn_cell_class, cls->name,
                  "%s.__init__() got an unexpected keyword argument 'nonlinearity'", cls->name);
    RG_FAIL_IF(strcmp(by, "tanh") && strcmp(by, "relu"), cls->name, "Unknown nonlinearity: %s", by);
    RG_FAIL_IF(hidden > INT64_MAX / 4 || hidden < INT64_MIN / 4, cls->name,
               "there is no room for so many weights");
    rg_rnn_cell_module *self = RG_MODULE(rg_rnn_cell_module, cls, .input_size = input,
                                         .hidden_size = hidden, .relu = !strcmp(by, "relu"));
    const int gates = rgi_rnn_gate_count(cls == &lstm_cell_class, cls == &gru_cell_class);
    const int64_t made = gates * hidden;
    RG_PARAMETER(self, weight_ih, cell_weight(self, RG_DIMS(made, input)));
    RG_PARAMETER(self, weight_hh, cell_weight(self, RG_DIMS(made, hidden)));
    RG_PARAMETER(self, bias_ih, o.bias ? cell_weight(self, RG_DIMS(made)) : RG_NONE);
    RG_PARAMETER(self, bias_hh, o.bias ? cell_weight(self, RG_DIMS(made)) : RG_NONE);
    return RG_READY(self);
}

rg_rnn_cell_module *(rg_nn_lstm_cell_with)(int64_t input_size, int64_t hidden_size,
                                           rg_rnn_cell_options o) {
    return cell_new(&lstm_cell_class, input_size, hidden_size, o);
}

rg_rnn_cell_module *(rg_nn_gru_cell_with)(int64_t input_size, int64_t hidden_size,
                                          rg_rnn_cell_options o) {
    return cell_new(&gru_cell_class, input_size, hidden_size, o);
}

rg_rnn_cell_module *(rg_nn_rnn_cell_with)(int64_t input_size, int64_t hidden_size,
                                          rg_rnn_cell_options o) {
    return cell_new(&rnn_cell_class, input_size, hidden_size, o);
}
