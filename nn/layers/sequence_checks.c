/*
 * sequence_checks.c: checks of the arguments of attention, transformer and recurrent layers.
 */
#include "sequence_checks.h"

#include "tensor/shape.h"

#include <string.h>

bool rgi_want_maybe_batched(const char *op, const char *what, const rg_tensor *t, int dims) {
    RG_FAIL_VALUE_IF(t->ndim != dims && t->ndim != dims - 1, op,
                     "%s: Expected %s to be %dD or %dD, got %dD instead", op, what, dims - 1, dims,
                     t->ndim);
    return true;
}

bool rgi_want_tensor_or_none(const char *op, const char *what, rg_tensor *t) {
    RG_FAIL_AS_IF(RG_TYPE_ERROR, !t && !rgi_null_is_explained(), op,
                  "expected %s to be a tensor or RG_NONE but got NULL", what);
    return rgi_check_optional(t, op);
}

/* ---- attention ------------------------------------------------------------------------- */

bool rgi_want_mask(const char *op, const char *what, rg_tensor *mask) {
    if (!rgi_want_tensor_or_none(op, what, mask))
        return false;
    if (rgi_is_none(mask))
        return true;
    RG_FAIL_IF(!rgi_is_bool(mask->dtype) && !rgi_is_float(mask->dtype), op,
               "only bool and floating types of %s are supported", what);
    return true;
}

bool rgi_want_mask_beside(const char *op, const char *what, rg_tensor *mask, const rg_tensor *query,
                          int least, int most) {
    if (!rgi_want_mask(op, what, mask))
        return false;
    if (rgi_is_none(mask))
        return true;
    const char *kind = query->ndim == 3 ? "batched (3-D)" : "unbatched (2-D)";
    const bool fits = mask->ndim >= least && mask->ndim <= most;
    RG_FAIL_IF(!fits && least == most, op,
               "For %s `query`, expected `%s` to be `None` or %d-D but found %d-D tensor instead",
               kind, what, least, mask->ndim);
    RG_FAIL_IF(!fits, op,
               "For %s `query`, expected `%s` to be `None`, %d-D or %d-D but found %d-D tensor "
               "instead",
               kind, what, least, most, mask->ndim);
    return true;
}

/* ---- recurrent layers and their cells -------------------------------------------------- */

bool rgi_want_input_size(const char *op, const rg_tensor *x, int64_t size) {
    const int64_t given = x->size[x->ndim - 1];
    RG_FAIL_IF(given != size, op,
               "input.size(-1) must be equal to input_size. Expected %lld, got %lld",
               (long long)size, (long long)given);
    return true;
}

bool rgi_want_states(const char *op, bool lstm, rg_tensor *const states[2]) {
    if (!rgi_want_tensor_or_none(op, "h_0", states[0])
        || !rgi_want_tensor_or_none(op, "c_0", states[1]))
        return false;
    RG_FAIL_IF(!lstm && states[1] != RG_NONE, op, "only an LSTM has c_0");
    RG_FAIL_IF(lstm && (states[0] == RG_NONE) != (states[1] == RG_NONE), op,
               "h_0 and c_0 must be given together");
    return true;
}

bool rgi_want_biases(const char *op, rg_tensor *bias_ih, rg_tensor *bias_hh, int64_t n) {
    RG_FAIL_IF((bias_ih == RG_NONE) != (bias_hh == RG_NONE), op,
               "bias_ih and bias_hh must be there together");
    return bias_ih == RG_NONE
           || (rgi_check(bias_ih, op) && rgi_check(bias_hh, op)
               && rgi_want_vector(op, "bias_ih", bias_ih, n)
               && rgi_want_vector(op, "bias_hh", bias_hh, n));
}

bool rgi_want_states_like(const char *op, const rg_tensor *x, int dims,
                          rg_tensor *const states[2]) {
    const char *kind = x->ndim == dims ? "batched" : "unbatched";
    for (int i = 0; i < 2; i++)
        RG_FAIL_IF(states[i] != RG_NONE && states[i]->ndim != x->ndim, op,
                   "For %s %d-D input, %s should also be %d-D but got %d-D tensor", kind, x->ndim,
                   i ? "cx" : "hx", x->ndim, states[i]->ndim);
    return true;
}

bool rgi_want_state(const char *op, bool lstm, int which, const rg_tensor *state, rg_dims shape) {
    static const char *const names[] = { "hidden[0]", "hidden[1]" };
    if (rgi_is_none(state))
        return true;
    bool fits = state->ndim == shape.n;
    for (int d = 0; d < shape.n && fits; d++)
        fits = state->size[d] == shape.v[d];
    const char *wanted = RG_DIMS_TEXT(&shape);
    RG_FAIL_IF(!fits, op, "Expected %s size (%.*s), got %s", lstm ? names[which] : "hidden",
               (int)strlen(wanted) - 2, wanted + 1, RG_SHAPE_TEXT(state));
    return true;
}
