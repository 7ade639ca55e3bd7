/*
 * recurrent.c: the modules LSTM, GRU and RNN, with several layers and one or two directions. One
 * direction of one layer is computed by rg_lstm_scan, rg_gru_scan or rg_rnn_scan. Sequences are
 * packed in packed.c, and the cells are in recurrent_cells.c. This file is long because one struct
 * implements all three kinds, with the checks of each.
 */
#include "packed.h"
#include "init.h"
#include "tensor/text/python_text.h"
#include "recurrent_parts.h"
#include "sequence_checks.h"
#include "autograd/tools/autocast.h"
#include "nn/registry.h"
#include "tensor/error.h"
#include "tensor/memory.h"
#include "tensor/scope.h"
#include "tensor/structs.h"
#include "tensor/messages/warning.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const rg_module_class lstm_class, gru_class, rnn_class;

static bool rnn_is_lstm(const rg_rnn_module *self) { return self->base.cls == &lstm_class; }
static bool rnn_is_gru(const rg_rnn_module *self) { return self->base.cls == &gru_class; }

static int rnn_directions(const rg_rnn_module *self) { return self->o.bidirectional ? 2 : 1; }

/* Returns the size of h: proj_size, if there is a projection, otherwise hidden_size. */
static int64_t rnn_width(const rg_rnn_module *self) {
    return self->o.proj_size ? self->o.proj_size : self->hidden_size;
}

/* ---- checks of the arguments ----------------------------------------------------- */

/* The arguments of a call. x is (steps, batch, ..) or, if packed, (rows of all steps, ..).
 * `batched` is false if the caller's x had no batch dim, and `batch` is the number of sequences.
 * `runs` divides the steps of x into runs of steps with the same batch size (see packed.h). One op
 * computes all steps of a run. */
typedef struct rnn_run {
    rg_rnn_module *self;
    rg_tensor *x, *h_0, *c_0;
    bool packed, batched;
    int64_t batch;
    rg_step_runs runs;
} rnn_run;

/* Fails and returns false unless the weights, which a program may have replaced, are tensors of the
 * module's sizes. The shapes of weight_ih and weight_hh are checked by the ops. */
static bool rnn_check_weights(const rg_rnn_module *self) {
    const char *name = self->base.cls->name;
    const int64_t gates = rgi_rnn_gate_count(rnn_is_lstm(self), rnn_is_gru(self));
    const int64_t made = gates * self->hidden_size;
    for (int i = 0; i < self->n_weights; i++) {
        const rg_rnn_weights *w = &self->weights[i];
        if (!rgi_check(w->weight_ih, name) || !rgi_check(w->weight_hh, name)
            || !rgi_want_biases(name, w->bias_ih, w->bias_hh, made))
            return false;
        const rg_dims projection = RG_DIMS(rnn_width(self), self->hidden_size);
        if (self->o.proj_size
            && (!rgi_check(w->weight_hr, name)
                || !rgi_want_shape(name, "weight_hr", w->weight_hr, projection)))
            return false;
    }
    return true;
}

static bool rnn_check_input(const rnn_run *r) {
    if (!rnn_check_weights(r->self))
        return false;
    const char *name = r->self->base.cls->name;
    const rg_tensor *x = r->x;
    const rg_dtype ours = (rg_dtype)r->self->weights[0].weight_ih->dtype;
    const char *given = rg_dtype_name((rg_dtype)x->dtype), *has = rg_dtype_name(ours);
    RG_FAIL_VALUE_IF(x->dtype != ours && !rg_is_autocast_enabled(), name,
                     "RNN input dtype (%s) does not match weight dtype (%s). Convert the input by "
                     "rg_to, or the model by rg_module_to",
                     given, has);
    const int dims = r->packed ? 2 : 3;
    RG_FAIL_IF(x->ndim != dims, name, "input must have %d dimensions, got %d", dims, x->ndim);
    if (!rgi_want_input_size(name, x, r->self->input_size))
        return false;
    RG_FAIL_IF(x->size[0] == 0, name, "Expected sequence length to be larger than 0 in RNN");
    return true;
}

/* Fails and returns false unless the states, if given, have the shape (layers * directions, batch,
 * size of h or of c). */
static bool rnn_check_states(const rnn_run *r) {
    const rg_rnn_module *self = r->self;
    const char *name = self->base.cls->name;
    const bool lstm = rnn_is_lstm(self);
    const rg_dims h = RG_DIMS(self->n_weights, r->batch, rnn_width(self));
    const rg_dims c = RG_DIMS(self->n_weights, r->batch, self->hidden_size);
    return rgi_want_state(name, lstm, 0, r->h_0, h) && rgi_want_state(name, lstm, 1, r->c_0, c);
}

/* Prepares an input that isn't packed. Adds a batch dim to x and to the states if x has none,
 * brings x to (steps, batch, ..), checks it, and divides its steps into runs. Returns false on
 * failure. */
static bool rnn_begin_padded(rnn_run *r) {
    const bool batch_first = r->self->o.batch_first;
    r->batched = r->x->ndim == 3;
    if (!r->batched) {
        r->x = rg_unsqueeze(r->x, batch_first ? 0 : 1);
        if (r->h_0 != RG_NONE)
            r->h_0 = rg_unsqueeze(r->h_0, 1);
        if (r->c_0 != RG_NONE)
            r->c_0 = rg_unsqueeze(r->c_0, 1);
    }
    if (batch_first)
        r->x = rg_transpose(r->x, 0, 1);
    if (!r->x || !r->h_0 || !r->c_0 || !rnn_check_input(r))
        return false;
    /* Without a projection, all steps are one run. With a projection, each step is a run of its
     * own, because h must be projected between two steps. */
    const int64_t steps = r->x->size[0];
    const int n = r->self->o.proj_size ? (int)steps : 1;
    r->batch = r->x->size[1];
    r->runs = (rg_step_runs){ .n = n, .v = rgi_scope_alloc((size_t)n * sizeof *r->runs.v) };
    for (int i = 0; i < n && r->runs.v; i++)
        r->runs.v[i] = (rg_step_run){ .at = i, .steps = steps / n, .batch = r->batch };
    return r->runs.v;
}

static bool rnn_begin_packed(rnn_run *r, const rg_rnn_keywords *k) {
    const char *name = r->self->base.cls->name;
    r->batched = true;
    if (!rgi_want_tensor_or_none(name, "sorted_indices", k->sorted_indices)
        || !rgi_want_tensor_or_none(name, "unsorted_indices", k->unsorted_indices)
        || !rnn_check_input(r))
        return false;
    r->runs = rgi_step_runs(name, k->batch_sizes, r->x->size[0], r->self->o.proj_size > 0);
    if (r->runs.n < 0)
        return false;
    r->batch = r->runs.v[0].batch;
    if (k->sorted_indices == RG_NONE)
        return true;
    if (r->h_0 != RG_NONE)
        r->h_0 = rg_index_select(r->h_0, 1, k->sorted_indices);
    if (r->c_0 != RG_NONE)
        r->c_0 = rg_index_select(r->c_0, 1, k->sorted_indices);
    return r->h_0 && r->c_0;
}

static bool rnn_begin(rnn_run *r, const rg_rnn_keywords *k) {
    const char *name = r->self->base.cls->name;
    rg_tensor *const states[] = { k->states.h_0, k->states.c_0 };
    if (!rgi_want_states(name, rnn_is_lstm(r->self), states))
        return false;
    if (!rgi_want_tensor_or_none(name, "batch_sizes", k->batch_sizes))
        return false;
    r->h_0 = states[0];
    r->c_0 = states[1];
    r->packed = k->batch_sizes != RG_NONE;
    if (r->packed)
        return rnn_begin_packed(r, k) && rnn_check_states(r);
    return rgi_want_maybe_batched(name, "input", r->x, 3)
           && rgi_want_states_like(name, r->x, 3, states) && rnn_begin_padded(r)
           && rnn_check_states(r);
}

/* ---- one direction of one layer: the recurrence over all steps ------------------- */

/* The states h and c of several sequences at one step, the longest sequence first. c is RG_NONE
 * unless the module is an LSTM. */
typedef struct rnn_state {
    rg_tensor *h, *c;
} rnn_state;

/* Returns the states of the sequences `begin` to `end` - 1: the rows of h and of c with these
 * indices. */
static rnn_state rnn_rows(rnn_state s, int64_t begin, int64_t end) {
    rnn_state part = { rg_narrow(s.h, 0, begin, end - begin), RG_NONE };
    if (s.c != RG_NONE)
        part.c = rg_narrow(s.c, 0, begin, end - begin);
    return part;
}

/* Concatenates n states, which belong to different sequences, along the batch dim. */
static rnn_state rnn_join(int n, const rnn_state *s) {
    rg_tensor **h = rgi_scope_alloc(2 * (size_t)n * sizeof *h);
    if (!h || n == 1)
        return h ? s[0] : (rnn_state){ NULL, NULL };
    rg_tensor **c = h + n;
    for (int i = 0; i < n; i++) {
        h[i] = s[i].h;
        c[i] = s[i].c;
    }
    const bool both = s[0].c != RG_NONE;
    return (rnn_state){ rg_cat(rg_list_of(n, h), 0), both ? rg_cat(rg_list_of(n, c), 0) : RG_NONE };
}

/* Computes the recurrence over all steps of `gates`, (steps, batch, all gates), beginning with the
 * state *s. If `reverse` is true, the steps are computed from the last to the first. Sets *s to the
 * state after the step that is computed last. Returns h at all steps (projected, if there is a
 * projection), or NULL on failure. */
static rg_tensor *rnn_scan(const rg_rnn_module *self, const rg_rnn_weights *w, rg_tensor *gates,
                           rnn_state *s, bool reverse) {
    if (!gates)
        return NULL;
    const int64_t last = reverse ? 0 : gates->size[0] - 1;
    rg_tensor *y;
    if (rnn_is_lstm(self)) {
        const rg_hidden_cells all = rg_lstm_scan(gates, w->weight_hh, s->h, s->c, reverse);
        y = self->o.proj_size ? rg_linear(all.h, w->weight_hr, RG_NONE) : all.h;
        s->c = rg_select(all.c, 0, last);
    } else if (rnn_is_gru(self)) {
        y = rg_gru_scan(gates, w->weight_hh, w->bias_hh, s->h, reverse);
    } else {
        y = rg_rnn_scan(gates, w->weight_hh, s->h, self->o.nonlinearity != NULL, reverse);
    }
    s->h = rg_select(y, 0, last);
    return y;
}

/* Returns the part of `gates` that belongs to one run, as (steps, batch, all gates). `gates` has
 * the layout of r->x: (steps, batch, ..) or, if packed, (rows of all steps, ..). */
static rg_tensor *rnn_gates_of(const rnn_run *r, rg_tensor *gates, const rg_step_run *run) {
    if (!r->packed)
        return r->runs.n == 1 ? gates : rg_narrow(gates, 0, run->at, run->steps);
    gates = rg_narrow(gates, 0, run->at, run->steps * run->batch);
    return rg_unflatten(gates, 0, RG_DIMS(run->steps, run->batch));
}

/* Casts the initial cells under autocast. As in torch, an LSTM then computes in the dtype of its
 * gates, but one with a projection, or whose batch size changes, in that of its cells. Returns
 * false on failure. */
static bool rnn_autocasts(const rnn_run *r, const rg_tensor *gates, rnn_state *s) {
    if (gates && rnn_is_lstm(r->self) && !r->self->o.proj_size && r->runs.n == 1)
        s->c = rg_to(s->c, (rg_dtype)gates->dtype);
    return gates && s->c;
}

/* Computes the recurrence of one direction of one layer, one run of steps (see packed.h) after the
 * other. *s holds the initial states, and receives the final states. Returns h at all steps, in the
 * layout of x, or NULL on failure. From one run to the next the batch size can change. In the
 * forward direction it falls when sequences have ended; their states are then put aside in `ends`.
 * In reverse it rises when shorter sequences begin, at their last steps; their initial states are
 * then appended to *s. */
static rg_tensor *rnn_direction(const rnn_run *r, const rg_rnn_weights *w, rg_tensor *x,
                                rnn_state *s, bool reverse) {
    const int n = r->runs.n;
    rg_tensor *gates = rgi_rnn_gates(x, w->weight_ih, w->bias_ih, w->bias_hh, rnn_is_gru(r->self));
    if (rg_is_autocast_enabled() && !rnn_autocasts(r, gates, s))
        return NULL;
    const rnn_state begin = *s;
    rg_tensor **part = rgi_scope_alloc((size_t)n * sizeof *part);
    rnn_state *ends = rgi_scope_alloc((size_t)n * sizeof *ends);
    if (!gates || !part || !ends)
        return NULL;
    int first_end = n;
    int64_t batch = reverse ? 0 : r->batch;
    for (int i = 0; i < n; i++) {
        const int at = reverse ? n - 1 - i : i;
        const rg_step_run *run = &r->runs.v[at];
        if (run->batch > batch) {
            const rnn_state both[] = { *s, rnn_rows(begin, batch, run->batch) };
            *s = batch ? rnn_join(2, both) : both[1];
        } else if (run->batch < batch) {
            ends[--first_end] = rnn_rows(*s, run->batch, batch);
            *s = rnn_rows(*s, 0, run->batch);
        }
        batch = run->batch;
        rg_tensor *y = rnn_scan(r->self, w, rnn_gates_of(r, gates, run), s, reverse);
        part[at] = r->packed ? rg_flatten(y, 0, 1) : y;
        if (!part[at])
            return NULL;
    }
    ends[--first_end] = *s;
    *s = rnn_join(n - first_end, ends + first_end);
    return n == 1 ? part[0] : rg_cat(rg_list_of(n, part), 0);
}

/* ---- all layers, and the functions for programs ---------------------------------- */

/* Returns the initial state of the layer and direction whose weights are self->weights[i]. It is
 * index i of the first dim of h_0 and c_0, or zeros if the caller gave no states. */
static rnn_state rnn_first(const rnn_run *r, int i) {
    const rg_rnn_module *self = r->self;
    const bool lstm = rnn_is_lstm(self);
    const rg_dtype dtype = (rg_dtype)r->x->dtype;
    if (r->h_0 != RG_NONE)
        return (rnn_state){ rg_select(r->h_0, 0, i), lstm ? rg_select(r->c_0, 0, i) : RG_NONE };
    return (rnn_state){ rg_zeros_dims(RG_DIMS(r->batch, rnn_width(self)), dtype),
                        lstm ? rg_zeros_dims(RG_DIMS(r->batch, self->hidden_size), dtype)
                             : RG_NONE };
}

/* Runs all layers. Returns the last layer's output, or NULL on failure. h[i] and c[i] receive the
 * final states of the layer and direction whose weights are self->weights[i]. */
static rg_tensor *rnn_layers(const rnn_run *r, rg_tensor **h, rg_tensor **c) {
    const rg_rnn_module *self = r->self;
    const int directions = rnn_directions(self);
    rg_tensor *x = r->x;
    for (int64_t layer = 0; layer < self->o.num_layers; layer++) {
        rg_tensor *out[2];
        for (int d = 0; d < directions; d++) {
            const int64_t i = layer * directions + d;
            rnn_state s = rnn_first(r, (int)i);
            out[d] = rnn_direction(r, &self->weights[i], x, &s, d);
            h[i] = s.h;
            c[i] = s.c;
        }
        x = directions == 1 ? out[0] : rg_cat(rg_list_of(2, out), -1);
        if (layer + 1 < self->o.num_layers)
            x = rg_dropout(x, self->o.dropout, self->base.training);
    }
    return x;
}

/* Stacks t[], the final h (or c) of each layer and direction, into one tensor. If packing has
 * sorted the sequences, brings them back into their original order. Removes the batch dim if the
 * input had none. */
static rg_tensor *rnn_last(const rnn_run *r, const rg_rnn_keywords *k, rg_tensor **t) {
    rg_tensor *all = rg_stack(rg_list_of(r->self->n_weights, t), 0);
    if (!r->batched)
        return rg_squeeze_dim(all, 1);
    const bool sorted = r->packed && k->unsorted_indices != RG_NONE;
    return sorted ? rg_index_select(all, 1, k->unsorted_indices) : all;
}

/* Runs the module. Returns the output, and stores h_n and c_n in the keywords *k. Returns NULL on
 * failure. */
static rg_tensor *rnn_run_all(rg_rnn_module *self, rg_tensor *x, rg_rnn_keywords *k) {
    rnn_run r = { .self = self, .x = x };
    RG_AS(self->base.cls->name);
    if (!rgi_check(x, self->base.cls->name) || !rnn_begin(&r, k))
        return NULL;
    const size_t n = (size_t)self->n_weights;
    rg_tensor **h = rgi_scope_alloc(2 * n * sizeof *h);
    if (!h)
        return NULL;
    rg_tensor *y = rnn_layers(&r, h, h + n);
    if (!y)
        return NULL;
    rg_tensor *h_n = rnn_last(&r, k, h);
    rg_tensor *c_n = rnn_is_lstm(self) ? rnn_last(&r, k, h + n) : RG_NONE;
    if (!r.packed && self->o.batch_first)
        y = rg_transpose(y, 0, 1);
    if (!r.batched)
        y = rg_squeeze_dim(y, self->o.batch_first ? 0 : 1);
    if (!h_n || !c_n)
        return NULL;
    k->h_n = rg_escape(h_n);
    k->c_n = rg_escape(c_n);
    return y;
}

static rg_tensor *rnn_forward_with(rg_module *m, rg_list in, void *keywords) {
    rg_rnn_module *self = (rg_rnn_module *)m;
    rg_rnn_keywords plain = { .states = { .h_0 = RG_NONE, .c_0 = RG_NONE },
                              .batch_sizes = RG_NONE,
                              .sorted_indices = RG_NONE,
                              .unsorted_indices = RG_NONE };
    rg_rnn_keywords *k = keywords ? keywords : &plain;
    const int most = rnn_is_lstm(self) ? 3 : 2;
    static const char *const name = "input";
    if (!in.n || in.n > most)
        return rgi_fail_for_inputs_of(m->cls, in.n, in.n ? most : 1, &name);
    if (in.n > 1)
        k->states.h_0 = in.v[1];
    if (in.n > 2)
        k->states.c_0 = in.v[2];
    return rnn_run_all(self, in.v[0], k);
}

rg_rnn_result rg_rnn_forward_with(rg_rnn_module *m, rg_tensor *x, rg_rnn_states o) {
    const rg_rnn_result failed = { NULL, NULL, NULL };
    if (!rgi_module_given((rg_module *)m, "rnn_forward"))
        return failed;
    rg_rnn_keywords k = {
        .states = o, .batch_sizes = RG_NONE, .sorted_indices = RG_NONE, .unsorted_indices = RG_NONE
    };
    rg_tensor *y = rg_call_keywords(m, &k, x);
    return y && k.h_n && k.c_n ? (rg_rnn_result){ y, k.h_n, k.c_n } : failed;
}

rg_rnn_packed_result rg_rnn_forward_packed_with(rg_rnn_module *m, rg_packed_sequence x,
                                                rg_rnn_states o) {
    const rg_rnn_packed_result failed = { .h_n = NULL };
    const char *op = "rnn_forward_packed";
    rg_tensor *all[] = { x.batch_sizes, x.sorted_indices, x.unsorted_indices };
    if (!rgi_module_given((rg_module *)m, op))
        return failed;
    for (int i = 0; i < 3; i++)
        if ((i == 0 || all[i] != RG_NONE) && !rgi_check(all[i], op))
            return failed;
    rg_rnn_keywords k = { .states = o,
                          .batch_sizes = x.batch_sizes,
                          .sorted_indices = x.sorted_indices,
                          .unsorted_indices = x.unsorted_indices };
    x.data = rg_call_keywords(m, &k, x.data);
    return x.data && k.h_n && k.c_n ? (rg_rnn_packed_result){ x, k.h_n, k.c_n } : failed;
}

/* ---- the repr of LSTM, GRU and RNN ----------------------------------------------- */

/* Appends ", name=value" to the text. Returns the text's new length. */
static int rnn_add(char *text, size_t room, int at, const char *name, const char *value) {
    return at + snprintf(text + at, room - (size_t)at, ", %s=%s", name, value);
}

/* Writes the module's repr. Options are shown only if they differ from torch's defaults.
 * nonlinearity is never shown, as in torch. */
static void rnn_repr(rg_module *m, char *text, size_t room) {
    const rg_rnn_module *self = (rg_rnn_module *)m;
    const rg_rnn_options *o = &self->o;
    int at = snprintf(text, room, "%lld, %lld", (long long)self->input_size,
                      (long long)self->hidden_size);
    if (o->proj_size)
        at += snprintf(text + at, room - (size_t)at, ", proj_size=%lld", (long long)o->proj_size);
    if (o->num_layers != 1)
        at += snprintf(text + at, room - (size_t)at, ", num_layers=%lld", (long long)o->num_layers);
    if (!o->bias)
        at = rnn_add(text, room, at, "bias", "False");
    if (o->batch_first)
        at = rnn_add(text, room, at, "batch_first", "True");
    if (o->dropout != 0)
        at = rnn_add(text, room, at, "dropout", rgi_python_float(o->dropout));
    if (o->bidirectional)
        rnn_add(text, room, at, "bidirectional", "True");
}

/* ---- classes and constructors ---------------------------------------------------- */

static void rnn_destroy(rg_module *m) {
    rg_rnn_module *self = (rg_rnn_module *)m;
    rgi_free(self->weights, (size_t)self->n_weights * sizeof *self->weights, RG_MEM_OTHER);
}

static bool rnn_copy(rg_module *m, const rg_module *from) {
    rg_rnn_module *self = (rg_rnn_module *)m;
    const size_t bytes = (size_t)self->n_weights * sizeof *self->weights;
    void *block = rgi_alloc(bytes, RG_MEM_OTHER);
    if (!block)
        return false;
    *(rg_rnn_weights **)&self->weights = memcpy(block, self->weights, bytes);
    return rg_move_places(m, ((const rg_rnn_module *)from)->weights, block, bytes);
}

#define RNN_CLASS(name_)                                                                           \
    {                                                                                              \
        .name = name_, .forward_with = rnn_forward_with,                                           \
        .keywords_bytes = sizeof(rg_rnn_keywords), .extra_repr = rnn_repr, .destroy = rnn_destroy, \
        .copy = rnn_copy                                                                           \
    }
static const rg_module_class lstm_class = RNN_CLASS("LSTM");
static const rg_module_class gru_class = RNN_CLASS("GRU");
static const rg_module_class rnn_class = RNN_CLASS("RNN");

/* Warns that dropout has no effect, because there is only one layer. */
static void rnn_warns_of_dropout(const char *name, const rg_rnn_options *o) {
    rgi_warn(name,
             "dropout option adds dropout after all but last recurrent layer, so non-zero "
             "dropout expects num_layers greater than 1, but got dropout=%s and num_layers=1",
             rgi_python_float(o->dropout));
}

static bool rnn_allows_options(const char *name, const rg_rnn_options *o) {
    const bool lstm = !strcmp(name, "LSTM"), plain = !strcmp(name, "RNN");
    RG_FAIL_VALUE_IF(!lstm && o->proj_size, name,
                     "proj_size argument is only supported for LSTM, not RNN or GRU");
    RG_FAIL_AS_IF(RG_TYPE_ERROR, !plain && o->nonlinearity, name,
                  "RNNBase.__init__() got an unexpected keyword argument 'nonlinearity'");
    RG_FAIL_VALUE_IF(
        o->nonlinearity && strcmp(o->nonlinearity, "tanh") && strcmp(o->nonlinearity, "relu"), name,
        "Unknown nonlinearity '%s'. Select from 'tanh' or 'relu'.", o->nonlinearity);
    RG_FAIL_VALUE_IF(!(o->dropout >= 0 && o->dropout <= 1), name,
                     "dropout should be a number in range [0, 1] representing the probability of "
                     "an element being zeroed");
    if (o->dropout != 0 && o->num_layers == 1)
        rnn_warns_of_dropout(name, o);
    return true;
}

static bool rnn_allows(const char *name, int64_t input, int64_t hidden, const rg_rnn_options *o) {
    if (!rnn_allows_options(name, o))
        return false;
    RG_FAIL_VALUE_IF(input <= 0, name, "input_size must be greater than zero");
    RG_FAIL_VALUE_IF(hidden <= 0, name, "hidden_size must be greater than zero");
    RG_FAIL_VALUE_IF(o->num_layers <= 0, name, "num_layers must be greater than zero");
    RG_FAIL_VALUE_IF(o->proj_size < 0, name,
                     "proj_size should be a positive integer or zero to disable projections");
    RG_FAIL_VALUE_IF(o->proj_size >= hidden, name, "proj_size has to be smaller than hidden_size");
    RG_FAIL_IF(hidden > INT64_MAX / 4 || o->num_layers > INT32_MAX / 2, name,
               "there is no room for so many weights");
    return true;
}

/* Makes one weight of the layer and direction with index i, and registers it in the field `place`.
 * The weight is a matrix (rows, columns) or, if columns is 0, a vector. Its elements are drawn from
 * U(-1/sqrt(hidden), 1/sqrt(hidden)), as in torch. */
static void rnn_weight(rg_rnn_module *self, const char *kind, int i, rg_tensor **place,
                       int64_t rows, int64_t columns) {
    char name[64];
    const int directions = rnn_directions(self);
    if (self->base.failed)
        return;
    snprintf(name, sizeof name, "%s_l%d%s", kind, i / directions, i % directions ? "_reverse" : "");
    const double bound = 1 / sqrt((double)self->hidden_size);
    rg_dims shape = { .n = columns ? 2 : 1, .v = { rows, columns } };
    rg_tensor *w = rg_nn_init_uniform_(rg_empty_dims(shape, rg_default_dtype()), -bound, bound);
    rg_register_parameter(&self->base, name, place, w);
}

/* Makes the weights of the layer and direction with index i (layer i / directions), in torch's
 * order, so that each weight gets the random numbers that it gets in torch. */
static void rnn_weights(rg_rnn_module *self, int i) {
    rg_rnn_weights *w = &self->weights[i];
    const int directions = rnn_directions(self);
    const int gates = rgi_rnn_gate_count(rnn_is_lstm(self), rnn_is_gru(self));
    const int64_t made = gates * self->hidden_size;
    const int64_t width = rnn_width(self);
    const int64_t input = i < directions ? self->input_size : width * directions;
    *w = (rg_rnn_weights){ RG_NONE, RG_NONE, RG_NONE, RG_NONE, RG_NONE };
    rnn_weight(self, "weight_ih", i, &w->weight_ih, made, input);
    rnn_weight(self, "weight_hh", i, &w->weight_hh, made, width);
    if (self->o.bias) {
        rnn_weight(self, "bias_ih", i, &w->bias_ih, made, 0);
        rnn_weight(self, "bias_hh", i, &w->bias_hh, made, 0);
    }
    if (self->o.proj_size)
        rnn_weight(self, "weight_hr", i, &w->weight_hr, width, self->hidden_size);
}

static rg_rnn_module *rnn_new(const rg_module_class *cls, int64_t input, int64_t hidden,
                              rg_rnn_options o) {
    RG_AS(cls->name);
    RG_SCOPE();
    if (!rnn_allows(cls->name, input, hidden, &o))
        return NULL;
    if (o.nonlinearity)
        o.nonlinearity = strcmp(o.nonlinearity, "tanh") ? "relu" : NULL;
    const int n = (int)o.num_layers * (o.bidirectional ? 2 : 1);
    const size_t bytes = (size_t)n * sizeof(rg_rnn_weights);
    rg_rnn_weights *weights = rgi_alloc(bytes, RG_MEM_OTHER);
    if (!weights)
        return NULL;
    rg_rnn_module *self = RG_MODULE(rg_rnn_module, cls, .weights = weights, .input_size = input,
                                    .hidden_size = hidden, .n_weights = n, .o = o);
    if (!self) {
        rgi_free(weights, bytes, RG_MEM_OTHER);
        return NULL;
    }
    for (int i = 0; i < n; i++)
        rnn_weights(self, i);
    return RG_READY(self);
}

rg_rnn_module *(rg_nn_lstm_with)(int64_t input_size, int64_t hidden_size, rg_rnn_options o) {
    return rnn_new(&lstm_class, input_size, hidden_size, o);
}

rg_rnn_module *(rg_nn_gru_with)(int64_t input_size, int64_t hidden_size, rg_rnn_options o) {
    return rnn_new(&gru_class, input_size, hidden_size, o);
}

rg_rnn_module *(rg_nn_rnn_with)(int64_t input_size, int64_t hidden_size, rg_rnn_options o) {
    return rnn_new(&rnn_class, input_size, hidden_size, o);
}
