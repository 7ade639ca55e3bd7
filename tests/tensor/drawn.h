/*
 * drawn.h: random numbers for tests of kernels, which are the same in every run, and a function
 * that reads an element.
 */
#pragma once

#include "tensor/dtype.h"
#include "tensor/structs.h"

static uint64_t draw_state = 1;

/* Returns a random number from least to most. */
static inline int64_t draw(int64_t least, int64_t most) {
    draw_state = draw_state * 6364136223846793005u + 1442695040888963407u;
    return least + (int64_t)((draw_state >> 33) % (uint64_t)(most - least + 1));
}

static inline double get(const rg_tensor *t, int64_t i) {
    return rgi_load_f64(t->data + i * (int64_t)rgi_sizeof(t->dtype), (rg_dtype)t->dtype);
}
