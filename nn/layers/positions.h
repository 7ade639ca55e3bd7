/*
 * positions.h: modules that tell a sequence x of (..., length, dim) where each row stands.
 *
 * Learned and sinusoidal positions are added to x. Rotary ones turn x: with its halves a and b,
 * x becomes (a cos - b sin, b cos + a sin), as Hugging Face's LLaMA has it. The i-th angle of a
 * position is position / base^(2i/dim), where the base of sinusoidal positions is 10000.
 */
#pragma once

#include "../module.h"

RG_PUBLIC_BEGIN

typedef struct rg_positions {
    rg_module base;
    /* Learned and sinusoidal positions stand in weight, rotary ones in cos and sin. The others are
     * NULL. */
    rg_tensor *weight, *cos, *sin;
} rg_positions;
/* Learned positions are trained, and begin with numbers from N(0, 1), as Embedding's weight does.
 */
rg_positions *rg_nn_learned_positions(int64_t max_len, int64_t dim);
/* Sines stand in the even columns, cosines in the odd ones. */
rg_positions *rg_nn_sinusoidal_positions(int64_t max_len, int64_t dim);
rg_positions *rg_nn_rotary_positions(int64_t max_len, int64_t dim, double base);
/* Returns x with its positions, of which the first is `start`; in rg_call(m, x) the first is 0. */
rg_tensor *rg_positions_forward(rg_positions *m, rg_tensor *x, int64_t start);

/* ---- whole numbers: RG_WHOLE, in tensor/keywords.h, refuses a fraction --------------- */

#define rg_nn_learned_positions(max_len, dim) \
    rg_nn_learned_positions(RG_WHOLE(max_len), RG_WHOLE(dim))
#define rg_nn_sinusoidal_positions(max_len, dim) \
    rg_nn_sinusoidal_positions(RG_WHOLE(max_len), RG_WHOLE(dim))
#define rg_nn_rotary_positions(max_len, dim, base) \
    rg_nn_rotary_positions(RG_WHOLE(max_len), RG_WHOLE(dim), base)
#define rg_positions_forward(m, x, start) rg_positions_forward(m, x, RG_WHOLE(start))

RG_PUBLIC_END
