/*
 * positions.h: modules that encode the position of each row of a sequence x, (..., length, dim).
 *
 * Learned and sinusoidal positions are added to x. Rotary positions rotate x: if `a` and `b` are
 * the halves of x's last dim, the result is (a cos - b sin, b cos + a sin) with elementwise
 * products, as in Hugging Face's LLaMA. For each i with 0 <= 2i < dim, a position has the angle
 * position / base^(2i/dim). For sinusoidal positions base is 10000.
 */
#pragma once

#include "../module.h"
#pragma GCC system_header

RG_PUBLIC_BEGIN

typedef struct rg_positions {
    rg_module base;
    /* Learned and sinusoidal positions use weight, which is added to x; rotary positions use cos
     * and sin. The tensors that a module doesn't use are NULL. */
    rg_tensor *weight, *cos, *sin;
} rg_positions;
/* Makes learned positions: a parameter (max_len, dim), drawn from N(0, 1) as Embedding's weight
 * is. */
rg_positions *rg_nn_learned_positions(int64_t max_len, int64_t dim);
/* Makes sinusoidal positions: a buffer (max_len, dim) with the sines of the angles in even columns,
 * and their cosines in odd columns. */
rg_positions *rg_nn_sinusoidal_positions(int64_t max_len, int64_t dim);
/* Makes rotary positions. Fails and returns NULL if dim is odd, or base isn't positive and
 * finite. */
rg_positions *rg_nn_rotary_positions(int64_t max_len, int64_t dim, double base);
/* Returns x with positions encoded. The first row of x has the position `start`, and the next rows
 * follow. Fails and returns NULL if a position is negative or isn't less than max_len, or if the
 * last dim of x isn't dim. rg_call(m, x) encodes with start = 0. */
rg_tensor *rg_positions_forward(rg_positions *m, rg_tensor *x, int64_t start);

/* ---- checked arguments: see tensor/arguments/arguments.h ---------------------------------- */

#define rg_nn_learned_positions(max_len, dim) \
    rg_nn_learned_positions(RG_WHOLE(max_len), RG_WHOLE(dim))
#define rg_nn_sinusoidal_positions(max_len, dim) \
    rg_nn_sinusoidal_positions(RG_WHOLE(max_len), RG_WHOLE(dim))
#define rg_nn_rotary_positions(max_len, dim, base) \
    rg_nn_rotary_positions(RG_WHOLE(max_len), RG_WHOLE(dim), RG_REAL(base))
#define rg_positions_forward(m, x, start) rg_positions_forward(m, x, RG_WHOLE(start))

RG_PUBLIC_END
