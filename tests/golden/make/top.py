"""Writes top.txt: which of equal values torch.topk returns, for many sizes and few distinct values.

= 17 2 3 0 1 1 a8c7f832       topk of the 17 numbers of values(17, 3, 0), with k = 2, largest = 1
                              and sorted = 1, and the hash of the indices that it returns
"""

import itertools

import torch

from golden import Golden, fnv


def values(n, distinct, shape):
    """Returns what the test makes too: a congruential sequence, or one that rises and falls."""
    out, s = [], 1
    for i in range(n):
        s = (s * 6364136223846793005 + 1442695040888963407) % 2**64
        out.append((s >> 33) % distinct if shape == 0 else min(i, n - i) % distinct)
    return torch.tensor(out, dtype=torch.float64) - 3


def sizes():
    for n in (1, 2, 3, 4, 5, 16, 17, 18, 33, 64, 100, 128, 1000, 3000):
        for k in sorted({1, 2, n // 64, n // 2, n - 1, n} - {0}):
            if k <= n:
                yield n, k


def rows():
    kinds = list(itertools.product((1, 3, 50, 100000), (0, 1), (0, 1), (0, 1)))
    for n, k in sizes():
        for distinct, shape, largest, ordered in kinds:
            if (n + k + distinct + shape + 2 * largest + ordered) % 3:
                continue  # A third of the combinations is plenty.
            x = values(n, distinct, shape)
            indices = x.topk(k, largest=bool(largest), sorted=bool(ordered))[1]
            bits = fnv(indices.numpy().tobytes())
            data.case(n, k, distinct, shape, largest, ordered, "%x" % bits)


with Golden("top") as data:
    rows()
