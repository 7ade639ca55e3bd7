#!/usr/bin/env python3
"""Writes sums.inc: the bits of torch's sums on one thread, for many layouts and sizes.

    python3 tests/golden/sums.py > tests/golden/sums.inc
"""
import math
import random

import torch

torch.set_num_threads(1)
random.seed(1)


def fnv(data):
    h = 0xCBF29CE484222325
    for byte in data:
        h = (h ^ byte) * 0x100000001B3 & 2**64 - 1
    return h


def values(n, dtype):
    """What the test makes too: a congruential sequence between -4 and 4."""
    out, s = [], 1
    for _ in range(n):
        s = (s * 6364136223846793005 + 1442695040888963407) % 2**64
        out.append((s >> 40) / 2**21 - 4)
    return torch.tensor(out, dtype=torch.float64).to(dtype)


def row(dtype, shape, order, step, dims):
    x = values(math.prod(shape), dtype).reshape(shape).permute(order)[..., ::step]
    y = x.sum(dims).contiguous() if dims else x.sum()
    mask = sum(1 << d for d in dims) if dims else (1 << len(shape)) - 1
    pad = lambda v: "{ " + ", ".join(str(k) for k in v) + " }"
    print("{ %d, %d, %s, %s, %d, %d, 0x%xu }," % (dtype == torch.float64, len(shape), pad(shape), pad(order), step, mask,
                                                  fnv(y.reshape(-1).view(torch.uint8).tolist())))


for dtype in (torch.float32, torch.float64):
    for n in list(range(1, 70)) + [100, 255, 256, 511, 512, 513, 1000, 4096, 5000, 20000, 30000]:
        row(dtype, (n,), (0,), 1, ())
    for n in (2, 3, 5, 8, 17, 64, 200, 3000):
        for m in (1, 2, 4, 6, 8, 9, 31, 32, 33, 80):
            if n * m > 30000: continue
            row(dtype, (n, m), (0, 1), 1, (0,))
            row(dtype, (n, m), (0, 1), 1, (1,))
            row(dtype, (n, m), (1, 0), 1, (1,))
            row(dtype, (n, m), (0, 1), 2, random.choice([(0,), (1,), ()]))
    for _ in range(60):
        shape = tuple(random.choice([1, 2, 3, 5, 8, 13, 33]) for _ in range(3))
        row(dtype, shape, tuple(random.sample(range(3), 3)), random.choice([1, 1, 3]),
            random.choice([(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), ()]))
row(torch.float32, (2**22 + 77,), (0,), 2, ())          # subtotals of 32
