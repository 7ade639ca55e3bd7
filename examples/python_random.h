/*
 * python_random.h: the random numbers of Python's module `random`: the same numbers in the same
 * order for the same seed. It has random.seed, random, gauss, shuffle, and choices of one element.
 * (The random numbers after rg_manual_seed are PyTorch's.)
 */
#pragma once

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

enum { PYTHON_WORDS = 624, PYTHON_BEHIND = 397 };

/* The Mersenne Twister mt19937. `next` is the index of the next word in the block. Normal numbers
 * are computed in pairs; the second one of a pair is kept in `normal`. */
typedef struct {
    uint32_t word[PYTHON_WORDS];
    int next;
    bool has_normal;
    double normal;
} python_random;

/* ---- words ------------------------------------------------------------------------- */

/* Returns (w ^ (w >> 30)) * by, which is a term of the recurrences that fill the block from a
 * seed. */
static inline uint32_t python_scramble(uint32_t w, uint32_t by) { return (w ^ w >> 30) * by; }

/* Does what random.seed(seed) does: fills the block from the digits of the seed to the base 2^32,
 * the lowest digit first, by the algorithm init_by_array. */
static inline void python_seed(python_random *r, uint64_t seed) {
    const uint32_t digit[2] = { (uint32_t)seed, (uint32_t)(seed >> 32) };
    const uint32_t digits = digit[1] ? 2 : 1;
    uint32_t *w = r->word;
    w[0] = 19650218;
    for (uint32_t i = 1; i < PYTHON_WORDS; i++)
        w[i] = python_scramble(w[i - 1], 1812433253) + i;
    uint32_t i = 1;
    for (uint32_t k = 0; k < 2 * PYTHON_WORDS - 1; k++) {
        bool first = k < PYTHON_WORDS;
        uint32_t j = k % digits;
        if (first)
            w[i] = (w[i] ^ python_scramble(w[i - 1], 1664525)) + digit[j] + j;
        else
            w[i] = (w[i] ^ python_scramble(w[i - 1], 1566083941)) - i;
        if (++i == PYTHON_WORDS) {
            w[0] = w[PYTHON_WORDS - 1];
            i = 1;
        }
    }
    w[0] = 0x80000000;
    r->next = PYTHON_WORDS;
    r->has_normal = false;
}

static inline void python_next_block(python_random *r) {
    uint32_t *w = r->word;
    for (int i = 0; i < PYTHON_WORDS; i++) {
        uint32_t y = (w[i] & 0x80000000) | (w[(i + 1) % PYTHON_WORDS] & 0x7fffffff);
        w[i] = w[(i + PYTHON_BEHIND) % PYTHON_WORDS] ^ y >> 1 ^ (y & 1 ? 0x9908b0df : 0);
    }
    r->next = 0;
}

/* Returns 32 random bits. */
static inline uint32_t python_word(python_random *r) {
    if (r->next == PYTHON_WORDS)
        python_next_block(r);
    uint32_t y = r->word[r->next++];
    y ^= y >> 11;
    y ^= y << 7 & 0x9d2c5680;
    y ^= y << 15 & 0xefc60000;
    return y ^ y >> 18;
}

/* ---- numbers, shuffled arrays and choices from random words ------------------------ */

/* Returns random.random(): a number in [0, 1) of 53 random bits. */
static inline double python_uniform(python_random *r) {
    uint32_t high = python_word(r) >> 5, low = python_word(r) >> 6;
    return (high * 67108864.0 + low) / 9007199254740992.0;
}

/* Returns random.gauss(mu, sigma). */
static inline double python_gauss(python_random *r, double mu, double sigma) {
    if (r->has_normal) {
        r->has_normal = false;
        return mu + r->normal * sigma;
    }
    double angle = python_uniform(r) * (2 * M_PI);
    double radius = sqrt(-2 * log(1 - python_uniform(r)));
    r->normal = sin(angle) * radius;
    r->has_normal = true;
    return mu + cos(angle) * radius * sigma;
}

/* Returns a random integer from 0 to n - 1, for n from 1 to 2^32 - 1. Draws numbers with as many
 * bits as n has until one is less than n. */
static inline uint32_t python_below(python_random *r, uint32_t n) {
    const int bits = 32 - __builtin_clz(n);
    uint32_t k = python_word(r) >> (32 - bits);
    while (k >= n)
        k = python_word(r) >> (32 - bits);
    return k;
}

/* Shuffles v as random.shuffle(v) does. */
static inline void python_shuffle(python_random *r, const char *v[], uint32_t n) {
    for (uint32_t i = n; i-- > 1;) {
        uint32_t other = python_below(r, i + 1);
        const char *swap = v[i];
        v[i] = v[other];
        v[other] = swap;
    }
}

/* Returns random.choices(range(n), weights)[0]. */
static inline int64_t python_choice(python_random *r, int64_t n, const double weights[]) {
    double sum = 0, all = 0;
    for (int64_t i = 0; i < n; i++)
        all += weights[i];
    double at = python_uniform(r) * all;
    for (int64_t i = 0; i < n - 1; i++) {
        sum += weights[i];
        if (at < sum)
            return i;
    }
    return n - 1;
}
