/*
 * random.h: random numbers; only for the files of tensor/random/. generator.c makes the same random
 * words as torch. distributions.c turns them into numbers, and fills tensors. random.c has the
 * public functions for whole tensors. sample.c draws permutations, indices, and zeros and ones by
 * probability.
 *
 * To get torch's numbers, the order of the draws must be torch's as well. Elements are visited in
 * memory order. Normal numbers are drawn in pairs or in blocks of sixteen. A double takes two
 * words, the high one first.
 */
#pragma once

#include "tensor/kernels/kernels.h"
#include "tensor/threads/lock.h"

/* ---- generator.c: mt19937 --------------------------------------------------------- */

struct rg_generator {
    rg_handle handle;
    rg_own_lock lock;
    k_random_stream stream;
};

/* Locks the generator and returns true. If the generator was never seeded, first seeds it with
 * g->stream.seed. Fails and returns false, with an error whose op is `op`, if g is NULL or was
 * freed, or if a rewind (see rewind.h) has no memory for the generator's state. Each function that
 * draws from a generator or sets its state calls this first. */
bool rgi_generator_lock(rg_generator *g, const char *op);
void rgi_generator_unlock(rg_generator *g);

enum { RANDOM_CHUNK = K_RANDOM_CHUNK };

/* Draw n numbers from a generator, which must be locked. rgi_draw_words draws words of 32 bits, for
 * any n. The others require n <= RANDOM_CHUNK. rgi_draw_pairs makes each 64-bit number from two
 * words. rgi_draw_double draws doubles that are uniform in [0, 1). */
void rgi_draw_words(rg_generator *g, uint32_t *to, int n);
void rgi_draw_pairs(rg_generator *g, uint64_t *to, int n);
void rgi_draw_double(rg_generator *g, double *to, int n);

/* ---- distributions.c: fills ---------------------------------------------------------------------
 * A fill function checks the parameters p[] of the distribution as torch does, and fills t with
 * random numbers. If it fails, it returns false, and the error's op is `op`. */

typedef bool random_fill(rg_tensor *t, const double p[], rg_generator *g, const char *op);

bool rgi_fill_uniform(rg_tensor *t, const double p[], rg_generator *g, const char *op);
bool rgi_fill_normal(rg_tensor *t, const double p[], rg_generator *g, const char *op);
bool rgi_fill_trunc_normal(rg_tensor *t, const double p[], rg_generator *g, const char *op);
bool rgi_fill_exponential(rg_tensor *t, const double p[], rg_generator *g, const char *op);
bool rgi_fill_bernoulli(rg_tensor *t, const double p[], rg_generator *g, const char *op);

/* rgi_fill_integers fills t with integers from base to base + range - 1. p[] has the bytes of a
 * random_range. */
typedef struct random_range {
    uint64_t range;
    int64_t base;
} random_range;
bool rgi_fill_integers(rg_tensor *t, const double p[], rg_generator *g, const char *op);

/* Fills t with numbers that are uniform in [0, 1), drawn in t's dtype. Fails and returns false if
 * t's dtype isn't floating, unless t is empty. */
bool rgi_fill_unit(rg_tensor *t, rg_generator *g, const char *op);

/* ---- sample.c -------------------------------------------------------------------------------- */

/* Returns what rg_bernoulli_with returns, but without a history. An element is 1 if its probability
 * in p is greater than a uniform number, which is drawn in p's dtype; otherwise it is 0. */
rg_tensor *rgi_draw_bernoulli(rg_tensor *p, rg_generator *g);
