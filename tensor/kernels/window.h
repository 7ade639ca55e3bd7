/*
 * window.h: where the taps of a window that slides along a dim find their elements: convolutions
 * and pooling ask it.
 */
#pragma once

#include "kernels.h"

/* The windows that see an element behind a tap of one dim are those from begin to before end;
 * window o sees element o * stride + shift. */
typedef struct {
    int64_t begin, end, shift;
} k_tap;

static inline k_tap k_tap_at(const k_window *z, int d, int64_t tap) {
    const int64_t shift = tap * z->dilation[d] - z->padding[d];
    const int64_t stride = z->stride[d];
    k_tap t = { .shift = shift };
    if (shift < 0)
        t.begin = RG_MIN((stride - 1 - shift) / stride, z->to[d]);
    if (shift < z->size[d])
        t.end = RG_MIN((z->size[d] - 1 - shift) / stride + 1, z->to[d]);
    t.end = RG_MAX(t.end, t.begin);
    return t;
}
