"""Writes data.txt: batches and splits of the numbers 0, 1, .. in torch's order.

    = loader 10 3 1 0 1      items, batch size, shuffle, drop_last, a generator of its own
    : 4 1 7                  the batches of two epochs
    e                        stands behind each epoch
    d 123                    what torch.randint(1000000, (1,)) draws afterwards
    = split 10 0.5 0.5       items, and lengths or fractions
    : 3 1 4                  each part's indices
    = batch 100 4 8          tokens 0, 1, .., batch size, block size: where the windows begin
    : 3 1 4
"""

import torch
from torch.utils.data import DataLoader, TensorDataset, random_split

from golden import Golden


def loader(g, n, batch, shuffle, drop, own):
    torch.manual_seed(7)
    generator = torch.Generator().manual_seed(7) if own else None
    data = DataLoader(TensorDataset(torch.arange(n)), batch_size=batch, shuffle=bool(shuffle),
                      drop_last=bool(drop), generator=generator)
    g.case("loader", n, batch, shuffle, drop, own)
    for _ in range(2):
        for (x,) in data:
            g.numbers(x.tolist())
        g.line("e")
    g.line("d", torch.randint(1000000, (1,), generator=generator).item())


with Golden("data") as g:
    for n, batch in [(10, 3), (10, 5), (1, 1), (7, 100), (40, 8)]:
        for bits in range(8):
            loader(g, n, batch, bits & 1, bits >> 1 & 1, bits >> 2)
    for n, lengths in [(10, [7, 3]), (10, [0.5, 0.5]), (11, [0.5, 0.25, 0.25]), (5, [0, 5]),
                       (10, [0.9, 0.1]), (3, [0.3, 0.3, 0.4]), (1, [1])]:
        torch.manual_seed(7)
        g.case("split", n, *lengths)
        for part in random_split(range(n), lengths):
            g.numbers(part.indices)
    for n, batch, block in [(100, 4, 8), (9, 3, 8), (70000, 5, 64)]:
        torch.manual_seed(7)
        g.case("batch", n, batch, block)
        g.numbers(torch.randint(n - block, (batch,)).tolist())
