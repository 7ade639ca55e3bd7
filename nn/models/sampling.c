/*
 * sampling.c: draws tokens from logits.
 */
#include "autograd/autograd.h"
#include "sampling_given.h"
#include "tensor/dtype.h"
#include "tensor/text/digits.h"

#include <math.h>

bool rgi_sampling_given(const char *op, const rg_sample_options *o) {
    RG_FAIL_VALUE_IF(!(o->temperature >= 0), op, "temperature %s is not 0 or more",
                     rgi_number(o->temperature));
    RG_FAIL_IF(o->top_k < 0, op, "top_k %lld is negative", (long long)o->top_k);
    RG_FAIL_VALUE_IF(!(o->top_p >= 0 && o->top_p <= 1), op, "top_p %s is not from 0 to 1",
                     rgi_number(o->top_p));
    RG_FAIL_VALUE_IF(!(o->min_p >= 0 && o->min_p <= 1), op, "min_p %s is not from 0 to 1",
                     rgi_number(o->min_p));
    RG_FAIL_VALUE_IF(!(o->repetition_penalty > 0), op, "repetition_penalty %s is not above 0",
                     rgi_number(o->repetition_penalty));
    return true;
}

static bool logits_given(const char *op, rg_tensor *logits, rg_tensor *previous) {
    if (!rg_check_tensor(logits, op)
        || (previous != RG_NONE && !rg_check_tensor(previous, op)))
        return false;
    const int ndim = rg_ndim(logits);
    RG_FAIL_IF((ndim != 1 && ndim != 2) || !rgi_is_float(rg_dtype_of(logits))
                   || rg_size(logits, -1) == 0,
               op, "expected logits of (batch, vocabulary), but got %s of %s",
               rg_repr_shape(logits), rg_dtype_name(rg_dtype_of(logits)));
    RG_FAIL_IF(previous != RG_NONE
                   && (rg_ndim(previous) != ndim || !rgi_is_index(rg_dtype_of(previous))),
               op, "expected previous of (batch, n) and dtype torch.int64, but got %s and %s",
               rg_repr_shape(previous), rg_dtype_name(rg_dtype_of(previous)));
    RG_FAIL_VALUE_IF(previous != RG_NONE && ndim == 2 && rg_size(previous, 0) != rg_size(logits, 0),
                     op, "the batches of logits and of previous differ: %s and %s",
                     rg_repr_shape(logits), rg_repr_shape(previous));
    return true;
}

/* Returns the logits with those of the tokens in `previous` brought nearer to unlikely ones. */
static rg_tensor *penalized(rg_tensor *logits, const rg_sample_options *o) {
    rg_tensor *at = rg_gather(logits, -1, o->previous);
    rg_tensor *less = rg_where(rg_lt(at, 0), rg_mul(at, o->repetition_penalty),
                               rg_div(at, o->repetition_penalty));
    return rg_scatter(logits, -1, o->previous, less);
}

/* Returns the logits with -inf for tokens outside of the set of most likely tokens whose
 * probabilities together reach top_p. The highest logit is always kept. Returns NULL on failure. */
static rg_tensor *limited_to_top_p(rg_tensor *logits, double top_p) {
    rg_values_indices sorted = rg_sort(logits, -1, false);
    rg_tensor *below = rg_cumsum(rg_softmax(sorted.values, -1), -1);
    rg_tensor *out = rg_le(below, 1 - top_p);
    if (!rg_fill_(rg_narrow(out, -1, rg_size(logits, -1) - 1, 1), 0))
        return NULL;
    rg_tensor *mask = rg_scatter(rg_zeros_like(out), -1, sorted.indices, out);
    return rg_masked_fill(logits, mask, -INFINITY);
}

/* Returns the logits with -inf for tokens that must not be drawn. */
static rg_tensor *limited(rg_tensor *logits, const rg_sample_options *o) {
    const int64_t top_k = RG_MIN(o->top_k, rg_size(logits, -1));
    if (top_k) {
        rg_tensor *top = rg_topk(logits, top_k, -1, true, true).values;
        rg_tensor *least = rg_narrow(top, -1, top_k - 1, 1);
        logits = rg_masked_fill(logits, rg_lt(logits, least), -INFINITY);
    }
    if (o->top_p < 1)
        logits = limited_to_top_p(logits, o->top_p);
    if (o->min_p > 0) {
        rg_tensor *p = rg_softmax(logits, -1);
        rg_tensor *least = rg_mul(rg_amax_dims(p, RG_DIMS(-1), true), o->min_p);
        logits = rg_masked_fill(logits, rg_lt(p, least), -INFINITY);
    }
    return logits;
}

static rg_tensor *sample(rg_tensor *logits, const rg_sample_options *o) {
    /* A random number that 16 bits round to 0 could choose a token of probability 0. transformers
     * converts logits, too. */
    if (rgi_is_half(rg_dtype_of(logits)))
        logits = rg_float(logits);
    if (o->previous != RG_NONE && o->repetition_penalty != 1)
        logits = penalized(logits, o);
    if (o->temperature == 0)
        return rg_argmax_dim(logits, -1, true);
    logits = limited(rg_div(logits, o->temperature), o);
    rg_generator *generator = o->generator ? o->generator : rg_default_generator();
    return rg_multinomial_with(rg_softmax(logits, -1), 1, false, generator);
}

rg_tensor *rg_sample_logits_with(rg_tensor *logits, rg_sample_options o) {
    static const char op[] = "sample_logits";
    RG_AS("sample_logits");
    if (!rgi_sampling_given(op, &o) || !logits_given(op, logits, o.previous))
        return NULL;
    RG_SCOPE();
    RG_NO_GRAD();
    return rg_escape(sample(logits, &o));
}
