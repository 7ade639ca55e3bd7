/*
 * sequence_checks.h: checks of the arguments of attention, transformer and recurrent layers. Each
 * function returns true, or fails and returns false; `op` is the name at the begin of the error.
 * autograd/checks.h has the checks of ops. Private.
 */
#pragma once

#include "autograd/checks.h"

/* Requires `dims` dims, or one less if there is no batch. */
bool rgi_want_maybe_batched(const char *op, const char *what, const rg_tensor *t, int dims);

/* ---- attention ------------------------------------------------------------------------- */

/* Requires that a mask, which may be absent, is bool or float. */
bool rgi_want_mask(const char *op, const char *what, rg_tensor *mask);
/* Requires the same, and from `least` to `most` dims for a query of these dims. */
bool rgi_want_mask_beside(const char *op, const char *what, rg_tensor *mask, const rg_tensor *query,
                          int least, int most);

/* ---- recurrent layers and their cells -------------------------------------------------- */

/* Requires that the last dim's size is the layer's input_size. */
bool rgi_want_input_size(const char *op, const rg_tensor *x, int64_t size);
/* Requires that an LSTM gets both h_0 and c_0 or neither, and that other layers get no c_0. */
bool rgi_want_states(const char *op, bool lstm, rg_tensor *const states[2]);
/* Requires that the given states have x's number of dims; x has `dims` dims with a batch. */
bool rgi_want_states_like(const char *op, const rg_tensor *x, int dims, rg_tensor *const states[2]);
/* Requires that a state has this shape, if it is given. `which` is its index among an LSTM's
 * states. */
bool rgi_want_state(const char *op, bool lstm, int which, const rg_tensor *state, rg_dims shape);
