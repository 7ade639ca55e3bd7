/*
 * sequence_checks.h: requirements of attention, transformer and recurrent layers.
 * Each function returns true, or fails and returns false; `op` is the name that the error begins
 * with. They go on from autograd/checks.h, which has the requirements of ops. Private.
 */
#pragma once

#include "autograd/checks.h"

/* Requires `dims` dims, or one less where there is no batch. */
bool rgi_want_maybe_batched(const char *op, const char *what, const rg_tensor *t, int dims);

/* ---- attention ------------------------------------------------------------------------- */

/* Requires that a mask, which may be absent, has bools or floats. */
bool rgi_want_mask(const char *op, const char *what, rg_tensor *mask);
/* Requires so, and from `least` to `most` dims beside a query of these dims. */
bool rgi_want_mask_beside(const char *op, const char *what, rg_tensor *mask, const rg_tensor *query,
                          int least, int most);

/* ---- recurrent layers and their cells -------------------------------------------------- */

/* Requires that the last dim has the layer's input_size. */
bool rgi_want_input_size(const char *op, const rg_tensor *x, int64_t size);
/* Requires h_0 and c_0 of an LSTM, or none of them; of another layer c_0 must be absent. */
bool rgi_want_states(const char *op, bool lstm, rg_tensor *const states[2]);
/* Requires that the states that are given have as many dims as x, where x has `dims` with a batch.
 */
bool rgi_want_states_like(const char *op, const rg_tensor *x, int dims, rg_tensor *const states[2]);
/* Requires a state, number `which` of an LSTM's, that has this shape. It may be absent. */
bool rgi_want_state(const char *op, bool lstm, int which, const rg_tensor *state, rg_dims shape);
