/*
 * positions.h: modules that encode the position of each row of a sequence x, (..., length, dim).
 *
 * Learned and sinusoidal positions are added to x. Rotary positions rotate x, as Hugging Face's
 * LLaMA does: see rg_rotary_embedding. For each i with 0 <= 2i < dim, a position has the angle
 * position / base^(2i/dim). For sinusoidal positions base is 10000.
 */
#pragma once

#include "../module.h"
#pragma GCC system_header

RG_PUBLIC_BEGIN

typedef struct rg_positions {
    rg_module base;
    /* Learned and sinusoidal positions use weight, which is added to x; rotary positions use cos
     * and sin, (max_len, dim / 2). The tensors that a module doesn't use are NULL. */
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

typedef struct RG_OPTIONS rg_rotary_options {
    RG_BY_NAME;
    double base RG_DEFAULT(10000);
    /* A text that is longer than those that a model was trained on gets lower frequencies. If
     * original_max_position_embeddings, the length of these texts, is 0, all frequencies are
     * divided by factor. Otherwise they are scaled as in Llama 3: those that turn less than
     * low_freq_factor times in that length are divided by factor, those that turn more than
     * high_freq_factor times are kept, and between them the scale changes linearly. */
    double factor RG_DEFAULT(1);
    double low_freq_factor RG_DEFAULT(1);
    double high_freq_factor RG_DEFAULT(4);
    int64_t original_max_position_embeddings RG_DEFAULT(0);
} rg_rotary_options;
/* Returns the frequencies of rotary positions, base^(-2i/dim) for each i < dim / 2. A pair of
 * elements at a position has the angle position times frequency. The dtype is the default dtype, or
 * float32 if that has 16 bits, in which angles aren't exact:
 *
 *     rg_tensor *angles = rg_outer(positions, rg_rotary_frequencies(64, .base = 500000));
 *     q = rg_rotary_embedding(q, rg_cos(angles), rg_sin(angles), false);
 */
rg_tensor *rg_rotary_frequencies_with(int64_t dim, rg_rotary_options o);
#define rg_rotary_frequencies(dim, ...)                                                            \
    rg_rotary_frequencies_with(dim, RG_KEYWORDS(rg_rotary_options,                                 \
                                                (.base = 10000, .factor = 1, .low_freq_factor = 1, \
                                                 .high_freq_factor = 4),                           \
                                                __VA_ARGS__))

/* ---- checked arguments: see tensor/arguments/arguments.h ---------------------------------- */

#define rg_nn_learned_positions(max_len, dim) \
    rg_nn_learned_positions(RG_WHOLE(max_len), RG_WHOLE(dim))
#define rg_nn_sinusoidal_positions(max_len, dim) \
    rg_nn_sinusoidal_positions(RG_WHOLE(max_len), RG_WHOLE(dim))
#define rg_nn_rotary_positions(max_len, dim, base) \
    rg_nn_rotary_positions(RG_WHOLE(max_len), RG_WHOLE(dim), RG_REAL(base))
#define rg_rotary_frequencies_with(dim, ...) rg_rotary_frequencies_with(RG_WHOLE(dim), __VA_ARGS__)
#define rg_positions_forward(m, x, start) rg_positions_forward(m, x, RG_WHOLE(start))

RG_PUBLIC_END
