"""half.py: writes half.txt, for test_half.c: random numbers that PyTorch draws in bfloat16 and
float16.

    python3 tests/golden/make/half.py
"""

import torch

import golden

FILLS = {
    "uniform": lambda n, dtype: torch.empty(n, dtype=dtype).uniform_(-1.1, 2.3),
    "normal": lambda n, dtype: torch.empty(n, dtype=dtype).normal_(0.3, 1.7),
    "exponential": lambda n, dtype: torch.empty(n, dtype=dtype).exponential_(1.5),
    "bernoulli": lambda n, dtype: torch.empty(n, dtype=dtype).bernoulli_(0.3),
    "randint": lambda n, dtype: torch.randint(0, 10, (n,), dtype=dtype),
    "dropout": lambda n, dtype: torch.dropout(torch.ones(n, dtype=dtype), 0.3, True),
}

with golden.Golden("half") as g:
    for name, fill in FILLS.items():
        for dtype in torch.bfloat16, torch.float16:
            for n in (7, 16, 40) if name == "normal" else (9,):
                torch.manual_seed(5)
                t = fill(n, dtype)
                g.case(name, golden.name_of(dtype), n)
                after = torch.randint(0, 1 << 24, (1,)).item()
                g.numbers([*map(repr, t.tolist()), after])
