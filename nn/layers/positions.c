/*
 * positions.c: learned, sinusoidal and rotary position embeddings.
 */
#include "positions.h"
#include "nn/registry.h"
#include "tensor/dtype.h"
#include "tensor/error.h"
#include "tensor/structs.h"
#include "tensor/text/digits.h"

#include <math.h>

/* ---- encoding positions -------------------------------------------------------- */

typedef struct positions_keywords {
    int64_t start;
} positions_keywords;

static rg_tensor *positions_run(rg_module *m, rg_tensor *x, int64_t start) {
    rg_positions *self = (rg_positions *)m;
    if (!rgi_check(x, "positions_forward"))
        return NULL;
    RG_FAIL_IF(x->ndim < 2, "positions_forward", "expected x of (..., length, dim), but got %s",
               rg_repr_shape(x));
    rg_tensor *table = self->weight ? self->weight : self->cos;
    if (!rgi_check(table, "positions_forward"))
        return NULL;
    const int64_t dim = (self->weight ? 1 : 2) * rg_size(table, -1);
    RG_FAIL_IF(rg_size(x, -1) != dim, "positions_forward",
               "expected x of (..., length, %lld), but got %s", (long long)dim, rg_repr_shape(x));
    RG_FAIL_IF(start < 0, "positions_forward", "the position %lld is negative", (long long)start);
    int64_t length = x->size[x->ndim - 2];
    if (self->weight)
        return rg_add(x, rg_narrow(self->weight, 0, start, length));
    return rg_rotary_embedding(x, rg_narrow(self->cos, 0, start, length),
                               rg_narrow(self->sin, 0, start, length), false);
}

static rg_tensor *positions_forward(rg_module *m, rg_tensor *x) { return positions_run(m, x, 0); }

static rg_tensor *positions_forward_with(rg_module *m, rg_list in, void *keywords) {
    const positions_keywords *k = keywords;
    return in.n == 1 ? positions_run(m, in.v[0], k->start) : rgi_fail_for_inputs(m->cls, in.n);
}

rg_tensor *(rg_positions_forward)(rg_positions *self, rg_tensor *x, int64_t start) {
    if (!rgi_module_given((rg_module *)self, "positions_forward"))
        return NULL;
    return rg_call_keywords(self, &(positions_keywords){ start }, x);
}

/* ---- constructors -------------------------------------------------------------- */

#define POSITIONS_CLASS(Name)                                                               \
    {                                                                                       \
        .name = Name, .forward = positions_forward, .forward_with = positions_forward_with, \
        .keywords_bytes = sizeof(positions_keywords)                                        \
    }
static const rg_module_class learned_class = POSITIONS_CLASS("LearnedPositions");
static const rg_module_class sinusoidal_class = POSITIONS_CLASS("SinusoidalPositions");
static const rg_module_class rotary_class = POSITIONS_CLASS("RotaryPositions");

/* Returns the dtype in which angles are computed: the default dtype, or float32 if that has 16
 * bits, in which neither positions nor angles are exact. */
static rg_dtype positions_dtype(void) { return rgi_computed_in((rg_dtype)rg_default_dtype()); }

/* Returns sines or cosines as a module keeps them: in the default dtype. */
static rg_tensor *positions_table(rg_tensor *t) { return rg_to(t, rg_default_dtype()); }

/* Returns the angles position / 10000^(2i/dim) as a matrix with a row for each position and a
 * column for each i: (max_len, dim/2 rounded up). */
static rg_tensor *sinusoidal_angles(int64_t max_len, int64_t dim) {
    const rg_dtype dtype = positions_dtype();
    rg_tensor *even = rg_to(rg_arange_step(0, dim, 2), dtype);
    rg_tensor *inverse = rg_exp(rg_mul(even, -log(10000) / (double)dim));
    return rg_outer(rg_to(rg_arange(max_len), dtype), inverse);
}

/* Fails and returns false unless the options are those of rotary positions. */
static bool rotary_check(const char *op, int64_t dim, const rg_rotary_options *o) {
    RG_FAIL_VALUE_IF(dim < 0 || dim % 2, op, "dim must be even, but got %lld", (long long)dim);
    RG_FAIL_VALUE_IF(!(o->base > 0 && isfinite(o->base)), op,
                     "base must be positive and finite, but got %s", rgi_python_float(o->base));
    RG_FAIL_VALUE_IF(!(o->factor > 0 && isfinite(o->factor)), op,
                     "factor must be positive and finite, but got %s", rgi_python_float(o->factor));
    RG_FAIL_VALUE_IF(o->original_max_position_embeddings < 0, op,
                     "original_max_position_embeddings %lld is negative",
                     (long long)o->original_max_position_embeddings);
    RG_FAIL_VALUE_IF(o->original_max_position_embeddings
                         && !(o->high_freq_factor > o->low_freq_factor),
                     op, "high_freq_factor must be above low_freq_factor");
    return true;
}

/* Computes the frequencies in float64, and converts them at the end. */
static rg_tensor *rotary_frequencies(int64_t dim, const rg_rotary_options *o) {
    const rg_dtype dtype = positions_dtype();
    rg_tensor *even = rg_double(rg_arange_step(0, dim, 2));
    rg_tensor *f = rg_exp(rg_mul(even, -log(o->base) / (double)dim));
    if (!o->original_max_position_embeddings)
        return rg_to(rg_div(f, o->factor), dtype);
    rg_tensor *turns = rg_mul(f, (double)o->original_max_position_embeddings / (2 * M_PI));
    const double low = o->low_freq_factor, high = o->high_freq_factor;
    rg_tensor *kept = rg_clamp(rg_div(rg_sub(turns, low), high - low), 0, 1);
    rg_tensor *scale = rg_add(kept, rg_div(rg_sub(1, kept), o->factor));
    return rg_to(rg_mul(f, scale), dtype);
}

rg_tensor *(rg_rotary_frequencies_with)(int64_t dim, rg_rotary_options o) {
    RG_AS("rotary_frequencies");
    RG_SCOPE();
    return rotary_check("rotary_frequencies", dim, &o) ? rg_escape(rotary_frequencies(dim, &o))
                                                       : NULL;
}

rg_positions *(rg_nn_learned_positions)(int64_t max_len, int64_t dim) {
    RG_AS("LearnedPositions");
    RG_SCOPE();
    rg_positions *self = RG_MODULE(rg_positions, &learned_class);
    RG_PARAMETER(self, weight, rg_randn(max_len, dim));
    return RG_READY(self);
}

rg_positions *(rg_nn_sinusoidal_positions)(int64_t max_len, int64_t dim) {
    RG_AS("SinusoidalPositions");
    RG_SCOPE();
    rg_tensor *angles = sinusoidal_angles(max_len, dim);
    rg_tensor *both = positions_table(rg_stack(RG_LIST(rg_sin(angles), rg_cos(angles)), -1));
    rg_positions *self = RG_MODULE(rg_positions, &sinusoidal_class);
    RG_BUFFER(self, weight, rg_narrow(rg_flatten(both, 1, 2), 1, 0, dim), .persistent = false);
    return RG_READY(self);
}

rg_positions *(rg_nn_rotary_positions)(int64_t max_len, int64_t dim, double base) {
    RG_AS("RotaryPositions");
    RG_SCOPE();
    const rg_rotary_options o = { .base = base, .factor = 1 };
    if (!rotary_check("RotaryPositions", dim, &o))
        return NULL;
    rg_tensor *places = rg_to(rg_arange(max_len), positions_dtype());
    rg_tensor *angles = rg_outer(places, rotary_frequencies(dim, &o));
    rg_positions *self = RG_MODULE(rg_positions, &rotary_class);
    RG_BUFFER(self, cos, positions_table(rg_cos(angles)), .persistent = false);
    RG_BUFFER(self, sin, positions_table(rg_sin(angles)), .persistent = false);
    return RG_READY(self);
}
