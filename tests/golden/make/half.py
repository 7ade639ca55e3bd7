"""half.py: writes half.txt, for test_half.c: random numbers that PyTorch draws in bfloat16 and
float16; and half_training.txt, for test_half_training.c: how it trains in them.

    python3 tests/golden/make/half.py
"""

import torch

import golden

FILLS = {
    "uniform": lambda n, dtype: torch.empty(n, dtype=dtype).uniform_(-1.1, 2.3),
    "normal": lambda n, dtype: torch.empty(n, dtype=dtype).normal_(0.3, 1.7),
    "exponential": lambda n, dtype: torch.empty(n, dtype=dtype).exponential_(1.5),
    "bernoulli": lambda n, dtype: torch.empty(n, dtype=dtype).bernoulli_(0.3),
    "trunc": lambda n, dtype: torch.nn.init.trunc_normal_(
        torch.empty(n, dtype=dtype), 0.3, 1.7, -2.003, 2.003),
    "narrow": lambda n, dtype: torch.nn.init.trunc_normal_(
        torch.empty(n, dtype=dtype), 0.3, 1.7, -0.3001, 0.3001),
    "randint": lambda n, dtype: torch.randint(0, 10, (n,), dtype=dtype),
    "dropout": lambda n, dtype: torch.dropout(torch.ones(n, dtype=dtype), 0.3, True),
    "chances": lambda n, dtype: torch.bernoulli(torch.linspace(0, 0.1, n).to(dtype)),
    "draws": lambda n, dtype: torch.multinomial(torch.linspace(0, 1, 600).to(dtype), n, True),
    "distinct": lambda n, dtype: torch.multinomial(torch.linspace(0, 1, 600).to(dtype), n, False),
}
LENGTHS = {
    **dict.fromkeys(("normal", "trunc", "narrow"), (7, 16, 40)),
    **dict.fromkeys(("chances", "draws", "distinct"), (300,)),
}

with golden.Golden("half") as g:
    for name, fill in FILLS.items():
        for dtype in torch.bfloat16, torch.float16:
            for n in LENGTHS.get(name, (9,)):
                torch.manual_seed(5)
                t = fill(n, dtype)
                g.case(name, golden.name_of(dtype), n)
                after = torch.randint(0, 1 << 24, (1,)).item()
                g.numbers([*map(repr, t.tolist()), after])


OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.01),
}

with golden.Golden("half_training") as g:
    for name, make in OPTIMIZERS.items():
        for dtype in torch.bfloat16, torch.float16:
            # The 1e-8 that keeps these optimizers' divisors from 0 is 0 in float16.
            if dtype == torch.float16 and name != "sgd":
                continue
            torch.manual_seed(7)
            model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.LayerNorm(8),
                                        torch.nn.Tanh(), torch.nn.Linear(8, 3)).to(dtype)
            x, t = torch.randn(6, 4).to(dtype), torch.tensor([0, 1, 2, 0, 1, 2])
            optimizer = make(model.parameters())
            g.case(name, golden.name_of(dtype))
            losses = []
            for _ in range(10):
                loss = torch.nn.functional.cross_entropy(model(x), t)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
            g.numbers(map(repr, losses))
            g.numbers(repr(v) for p in model.parameters() for v in p.flatten().tolist())
