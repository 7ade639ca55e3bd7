/*
 * window.h: the elements that a tap reads, for convolutions and pooling. A tap is one element of
 * the window (the kernel) that slides along the dims.
 */
#pragma once

#include "kernels.h"

/* The elements of x that a tap reads along one dim. If begin <= o < end, window o reads the element
 * o * stride + shift; for other windows the tap is in the padding. */
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
