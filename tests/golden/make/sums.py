"""Writes sums.txt: the bits of torch's sums on one thread, for many layouts and sizes.

= f32 6,3 1,0 2 3 fd7217ec    the sum over dims 0 and 1 (bits 0 and 1 are set in 3) of the 6x3
                              float32 numbers of values(), permuted to the dims 1, 0, with
                              each second element of the last dim; and the hash of the sums
"""

import math
import random

import torch

from golden import Golden, comma, fnv, name_of

torch.set_num_threads(1)
random.seed(1)


def values(n, dtype):
    """Returns what the test makes too: a congruential sequence between -4 and 4."""
    out, s = [], 1
    for _ in range(n):
        s = (s * 6364136223846793005 + 1442695040888963407) % 2**64
        out.append((s >> 40) / 2**21 - 4)
    return torch.tensor(out, dtype=torch.float64).to(dtype)


def row(dtype, shape, order, step, dims):
    x = values(math.prod(shape), dtype).reshape(shape).permute(order)[..., ::step]
    y = x.sum(dims).contiguous() if dims else x.sum()
    mask = sum(1 << d for d in dims) if dims else (1 << len(shape)) - 1
    bits = fnv(y.reshape(-1).view(torch.uint8).tolist())
    data.case(name_of(dtype), comma(shape), comma(order), step, mask, "%x" % bits)


def rows():
    for dtype in (torch.float32, torch.float64):
        for n in list(range(1, 70)) + [
            100,
            255,
            256,
            511,
            512,
            513,
            1000,
            4096,
            5000,
            20000,
            30000,
        ]:
            row(dtype, (n,), (0,), 1, ())
        for n in (2, 3, 5, 8, 17, 64, 200, 3000):
            for m in (1, 2, 4, 6, 8, 9, 31, 32, 33, 80):
                if n * m > 30000:
                    continue
                row(dtype, (n, m), (0, 1), 1, (0,))
                row(dtype, (n, m), (0, 1), 1, (1,))
                row(dtype, (n, m), (1, 0), 1, (1,))
                row(dtype, (n, m), (0, 1), 2, random.choice([(0,), (1,), ()]))
        for _ in range(60):
            shape = tuple(random.choice([1, 2, 3, 5, 8, 13, 33]) for _ in range(3))
            row(
                dtype,
                shape,
                tuple(random.sample(range(3), 3)),
                random.choice([1, 1, 3]),
                random.choice([(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), ()]),
            )
    # In a sum of this length torch keeps subtotals of 32 numbers.
    row(torch.float32, (2**22 + 77,), (0,), 2, ())


with Golden("sums") as data:
    rows()
