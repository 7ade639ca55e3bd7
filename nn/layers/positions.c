/*
 * positions.c: learned, sinusoidal and rotary position embeddings.
 */
#include "positions.h"
#include "nn/registry.h"
#include "tensor/error.h"
#include "tensor/structs.h"
#include "tensor/text/digits.h"

#include <math.h>

/* ---- encoding positions -------------------------------------------------------- */

/* Rotates the `length` rows of x by the angles of the positions start, start + 1, .. If `a` and `b`
 * are the halves of x's last dim, the result is (a cos - b sin, b cos + a sin), where the products
 * are elementwise. */
static rg_tensor *rotate(rg_positions *self, rg_tensor *x, int64_t start, int64_t length) {
    int64_t half = x->size[x->ndim - 1] / 2;
    rg_tensor *a = rg_narrow(x, -1, 0, half), *b = rg_narrow(x, -1, half, half);
    rg_tensor *turned = rg_cat(RG_LIST(rg_neg(b), a), -1);
    rg_tensor *by_cos = rg_mul(x, rg_narrow(self->cos, 0, start, length));
    rg_tensor *by_sin = rg_mul(turned, rg_narrow(self->sin, 0, start, length));
    return rg_add(by_cos, by_sin);
}

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
    const int64_t dim = rg_size(table, -1);
    if (dim < 0)
        return NULL;
    RG_FAIL_IF(rg_size(x, -1) != dim, "positions_forward",
               "expected x of (..., length, %lld), but got %s", (long long)dim, rg_repr_shape(x));
    RG_FAIL_IF(start < 0, "positions_forward", "the position %lld is negative", (long long)start);
    int64_t length = x->size[x->ndim - 2];
    if (self->weight)
        return rg_add(x, rg_narrow(self->weight, 0, start, length));
    return rotate(self, x, start, length);
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

/* Returns the angles position / base^(2i/dim) as a matrix with a row for each position and a column
 * for each i: (max_len, dim/2 rounded up). */
static rg_tensor *position_angles(int64_t max_len, int64_t dim, double base) {
    rg_dtype dtype = rg_default_dtype();
    rg_tensor *even = rg_to(rg_arange_step(0, dim, 2), dtype);
    rg_tensor *inverse = rg_exp(rg_mul(even, -log(base) / (double)dim));
    return rg_outer(rg_to(rg_arange(max_len), dtype), inverse);
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
    rg_tensor *angles = position_angles(max_len, dim, 10000);
    rg_tensor *both = rg_stack(RG_LIST(rg_sin(angles), rg_cos(angles)), -1);
    rg_positions *self = RG_MODULE(rg_positions, &sinusoidal_class);
    RG_BUFFER(self, weight, rg_narrow(rg_flatten(both, 1, 2), 1, 0, dim), .persistent = false);
    return RG_READY(self);
}

rg_positions *(rg_nn_rotary_positions)(int64_t max_len, int64_t dim, double base) {
    RG_AS("RotaryPositions");
    RG_SCOPE();
    RG_FAIL_VALUE_IF(dim % 2, "RotaryPositions", "dim must be even, but got %lld", (long long)dim);
    RG_FAIL_VALUE_IF(!(base > 0 && isfinite(base)), "RotaryPositions",
                     "base must be positive and finite, but got %s", rgi_python_float(base));
    rg_tensor *angles = position_angles(max_len, dim, base);
    rg_tensor *both = rg_cat(RG_LIST(angles, angles), 1);
    rg_positions *self = RG_MODULE(rg_positions, &rotary_class);
    RG_BUFFER(self, cos, rg_cos(both), .persistent = false);
    RG_BUFFER(self, sin, rg_sin(both), .persistent = false);
    return RG_READY(self);
}
