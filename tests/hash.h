/*
 * hash.h: hashes of numbers, texts and tensors, for the files of hashes that tests compare with.
 * A hash has the same value with every compiler and in every instruction set.
 */
#pragma once

#include "regard.h"

#include <math.h>
#include <string.h>

static inline void hash_number(int64_t number, uint64_t *hash) {
    *hash = (*hash ^ (uint64_t)number) * 1099511628211u;
    *hash ^= *hash >> 29;
}

static inline void hash_text(const char *text, uint64_t *hash) {
    for (const char *c = text; *c; c++)
        hash_number((unsigned char)*c, hash);
}

/* The sign and the payload of a NaN depend on the machine, so that all NaN have one hash. */
static inline void hash_real(double number, uint64_t *hash) {
    int64_t bits;
    memcpy(&bits, &number, sizeof bits);
    hash_number(isnan(number) ? INT64_MAX : bits, hash);
}

/* The greatest number of elements that hash_tensor can add. */
enum { HASH_MOST = 512 };

/* Adds the elements of a tensor of at most HASH_MOST elements. */
static inline void hash_elements(rg_tensor *t, uint64_t *hash) {
    RG_SCOPE();
    static double reals[HASH_MOST];
    static int64_t integers[HASH_MOST];
    const bool real = rg_is_floating_point(t);
    rg_tensor *wide = real ? rg_double(rg_detach(t)) : rg_long(rg_detach(t));
    if (!rg_copy_out(wide, real ? (void *)reals : integers, sizeof reals))
        return;
    for (int64_t i = 0; i < rg_numel(t); i++) {
        if (real)
            hash_real(reals[i], hash);
        else
            hash_number(integers[i], hash);
    }
}

/* Adds the dtype, the sizes, the strides and, if there are at most `most` of them, the elements.
 * NULL and RG_NONE have hashes of their own. */
static inline void hash_tensor(rg_tensor *t, int64_t most, uint64_t *hash) {
    if (t == RG_NONE || !t) {
        hash_number(t == RG_NONE, hash);
        return;
    }
    hash_number(rg_dtype_of(t), hash);
    for (int d = 0; d < rg_ndim(t); d++) {
        hash_number(rg_size(t, d), hash);
        hash_number(rg_stride(t, d), hash);
    }
    if (rg_numel(t) <= most)
        hash_elements(t, hash);
}
