#!/usr/bin/env python3
"""Writes top.inc: which of equal values torch.topk shows, for many sizes and few distinct values.

    python3 tests/golden/top.py > tests/golden/top.inc
"""
import torch


def fnv(data):
    h = 0xCBF29CE484222325
    for byte in data:
        h = (h ^ byte) * 0x100000001B3 & 2**64 - 1
    return h


def values(n, distinct, shape):
    """What the test makes too: a congruential sequence, or one that rises and falls."""
    out, s = [], 1
    for i in range(n):
        s = (s * 6364136223846793005 + 1442695040888963407) % 2**64
        out.append((s >> 33) % distinct if shape == 0 else min(i, n - i) % distinct)
    return torch.tensor(out, dtype=torch.float64) - 3


for n in (1, 2, 3, 4, 5, 16, 17, 18, 33, 64, 100, 128, 1000, 3000):
    for k in sorted({1, 2, n // 64, n // 2, n - 1, n} - {0}):
        if k > n:
            continue
        for distinct in (1, 3, 50, 100000):
            for shape in (0, 1):
                for largest in (0, 1):
                    for ordered in (0, 1):
                        if (n + k + distinct + shape + 2 * largest + ordered) % 3:
                            continue            # a third is plenty
                        top = values(n, distinct, shape).topk(k, largest=bool(largest), sorted=bool(ordered))[1]
                        print("{ %d, %d, %d, %d, %d, %d, %#x }," % (n, k, distinct, shape, largest, ordered,
                                                                   fnv(top.numpy().tobytes())))
