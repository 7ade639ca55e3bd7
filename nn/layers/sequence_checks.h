/*
 * sequence_checks.h: checks the arguments of attention, transformer and recurrent layers. Each
 * function returns true if its check succeeds. `op` is the name with which the error message
 * begins. The checks of ops are in autograd/checks.h. Private.
 */
#pragma once

#include "autograd/checks.h"

/* Fails and returns false unless t has `dims` dims or, if it has no batch dim, dims - 1. `what` is
 * the argument's name in the error message. */
bool rgi_want_maybe_batched(const char *op, const char *what, const rg_tensor *t, int dims);
/* Fails and returns false unless t is a tensor in use, or RG_NONE. If t is NULL, the error message
 * has the argument's name `what`. But if the thread has an error already, that error is kept. */
bool rgi_want_tensor_or_none(const char *op, const char *what, rg_tensor *t);

/* ---- attention ------------------------------------------------------------------------- */

/* Fails and returns false unless the mask is bool or floating point, or RG_NONE. `what` is the
 * argument's name in the error message. */
bool rgi_want_mask(const char *op, const char *what, rg_tensor *mask);
/* Fails and returns false unless the mask is bool or floating point, and has from `least` to `most`
 * dims. RG_NONE passes. The query only decides whether the error message says "batched" or
 * "unbatched". */
bool rgi_want_mask_beside(const char *op, const char *what, rg_tensor *mask, const rg_tensor *query,
                          int least, int most);

/* ---- recurrent layers and their cells -------------------------------------------------- */

/* Fails and returns false unless x's last dim has the size `size`, the layer's input_size. */
bool rgi_want_input_size(const char *op, const rg_tensor *x, int64_t size);
/* Fails and returns false unless both biases, which a program may have replaced, are vectors of n
 * elements, or both are RG_NONE. */
bool rgi_want_biases(const char *op, rg_tensor *bias_ih, rg_tensor *bias_hh, int64_t n);
/* Fails and returns false if an LSTM is given only one of h_0 and c_0, or if a layer of another
 * kind is given c_0. `states` are h_0 and c_0; RG_NONE means that a state isn't given. */
bool rgi_want_states(const char *op, bool lstm, rg_tensor *const states[2]);
/* Fails and returns false unless the given states have as many dims as x. `dims` is the number of
 * dims of a batched x, and only decides whether the error message says "batched" or "unbatched". */
bool rgi_want_states_like(const char *op, const rg_tensor *x, int dims, rg_tensor *const states[2]);
/* Fails and returns false unless the state has this shape or is RG_NONE. `which` tells which of an
 * LSTM's states it is: 0 for h_0, 1 for c_0. */
bool rgi_want_state(const char *op, bool lstm, int which, const rg_tensor *state, rg_dims shape);
