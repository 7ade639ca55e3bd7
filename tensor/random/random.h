/*
 * random.h: random numbers, for the files of tensor/random/. generator.c makes torch's words,
 * distributions.c turns them into numbers and fills tensors, random.c has the functions that a
 * program calls for whole tensors, and sample.c draws indices, and zeros and ones by probability.
 *
 * The order of the draws is a part of torch's stream, as the words are: elements are visited in
 * memory order, normals are drawn in pairs or in blocks of sixteen, and a double takes two words,
 * the high one first.
 */
#pragma once

#include "tensor/kernels/kernels.h"
#include "tensor/threads/lock.h"

/* ---- generator.c: mt19937 --------------------------------------------------------- */

struct rg_generator {
    rg_handle handle;
    rg_own_lock lock;
    uint64_t seed;
    /* The count that torch's state has: 1 when the block is used up, and 0 before the first seed.
     */
    int left;
    /* The index of the next word in the block. */
    int next;
    /* Set if the second normal of a pair is kept for the next draw. */
    bool has_normal;
    double normal;
    /* Aligned so that vectors of words don't cross cache lines. */
    uint32_t word[K_RANDOM_WORDS] __attribute__((aligned(64)));
};

/* Locks the generator, and seeds it at its first use. Fails, in the name of op, if g is NULL or was
 * freed. */
bool rgi_generator_lock(rg_generator *g, const char *op);
void rgi_generator_unlock(rg_generator *g);

/* The greatest number of elements in a draw; they stay in the L1 cache. */
enum { RANDOM_CHUNK = 512 };

/* Draw n numbers, at most a chunk, from a locked generator: words, pairs of words as one number
 * each, and uniforms in [0, 1) as floats or doubles. */
void rgi_draw_words(rg_generator *g, uint32_t *to, int n);
void rgi_draw_pairs(rg_generator *g, uint64_t *to, int n);
void rgi_draw_float(rg_generator *g, void *to, int n);
void rgi_draw_double(rg_generator *g, void *to, int n);

/* ---- distributions.c: fills ---------------------------------------------------------------------
 * A fill checks the distribution's parameters p as torch does, and fills t. It returns false if it
 * fails; the failure names op. */

typedef bool random_fill(rg_tensor *t, const double p[], rg_generator *g, const char *op);

bool rgi_fill_uniform(rg_tensor *t, const double p[], rg_generator *g, const char *op);
bool rgi_fill_normal(rg_tensor *t, const double p[], rg_generator *g, const char *op);
bool rgi_fill_trunc_normal(rg_tensor *t, const double p[], rg_generator *g, const char *op);
bool rgi_fill_exponential(rg_tensor *t, const double p[], rg_generator *g, const char *op);
bool rgi_fill_bernoulli(rg_tensor *t, const double p[], rg_generator *g, const char *op);

/* Fills t with integers from base to base + range - 1; p holds the bytes of this struct. */
typedef struct random_range {
    uint64_t range;
    int64_t base;
} random_range;
bool rgi_fill_integers(rg_tensor *t, const double p[], rg_generator *g, const char *op);

/* Fills t with uniforms in [0, 1) of its own dtype. */
bool rgi_fill_unit(rg_tensor *t, rg_generator *g, const char *op);
