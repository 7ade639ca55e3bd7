#!/usr/bin/env python3
"""Writes random.inc: calls of torch's random functions, what they gave, and where the generator stood.

    python3 tests/golden/random.py > tests/golden/random.inc

The streams are those without MKL, so it has to run on a CPU that is not Intel's (there torch.bernoulli_ with a
number asks MKL), or with a torch that was built without it.
"""
import torch

NAMES = {torch.float32: "RG_FLOAT32", torch.float64: "RG_FLOAT64", torch.int64: "RG_INT64", torch.bool: "RG_BOOL"}
F32, F64 = torch.float32, torch.float64
MASK = 2**64 - 1


def fnv(data):
    h = 0xCBF29CE484222325
    for byte in data:
        h = (h ^ byte) * 0x100000001B3 & MASK
    return h


def number(x):
    x = float(x)
    if x != x or x in (float("inf"), -float("inf")):
        return {"nan": "NAN", "inf": "INFINITY", "-inf": "-INFINITY"}[str(x)]
    if x == int(x) and abs(x) < 1e6:
        return str(int(x))
    mantissa, exponent = x.hex().split("p")
    return mantissa.rstrip("0").rstrip(".") + "p" + exponent


def layout(shape, order=None, gap=0, step=1):
    """Strides: the dims in `order` from the outermost to the innermost, elements `step` apart, rows with a gap."""
    stride, s = [0] * len(shape), step
    for d in reversed(order or range(len(shape))):
        stride[d] = s
        s = s * max(shape[d], 1) + gap
    return shape, stride


def chances(t):
    """Weights that the test computes too: in (0, 1), the same for each dtype's rounding."""
    i = torch.arange(t.numel(), dtype=torch.float64)
    return t.copy_(((i * 7919 % 101 + 1) / 102).reshape(t.shape))


def listed(items):
    return ", ".join(map(str, items)) or "0"


def show(kind, dtype, place, args, y, exact):
    shape, stride = place
    flat = y.detach().contiguous().flatten()
    v = flat.double()
    picks = v if len(v) < 5 else [*v[:2], *v[-3:]]      # of the last normals, which are drawn again, some
    sums = (v.abs().sum(), (v * (torch.arange(len(v), dtype=F64) % 7 + 1)).sum())
    if exact:                                           # the bits say it all; two values to look at
        picks, sums = v[:2], (0, 0)
    ints = ("INT64_MIN" if n == -2**63 else str(n) for n in (args if kind in ("RANDINT", "RANDPERM") else ()))
    print("{ %s, %s, %d, {%s}, {%s}, {%s}, {%s}, %d, {%s}, {%s}, %#x, %#x }," % (
        kind, NAMES[dtype], len(shape), listed(shape), listed(stride), listed(map(number, args)), listed(ints),
        len(picks), listed(map(number, picks)), listed(map(number, sums)),
        fnv(flat.numpy().tobytes()) if exact else 0, fnv(torch.get_rng_state().numpy().tobytes())))


def call(kind, dtype=F32, place=((), ()), *args):
    if isinstance(place, int):
        place = (place,)
    if not place or isinstance(place[0], int):
        place = layout(tuple(place))
    shape, stride = place
    room = 1 + sum((max(n, 1) - 1) * s for n, s in zip(shape, stride))
    t = torch.as_strided(torch.zeros(room, dtype=dtype), shape, stride)
    y = {
        "RAND": lambda: torch.rand(shape, dtype=dtype),
        "RANDN": lambda: torch.randn(shape, dtype=dtype),
        "RANDINT": lambda: torch.randint(args[0], args[1], shape, dtype=dtype),
        "RANDPERM": lambda: torch.randperm(args[0]),
        "BERNOULLI": lambda: torch.bernoulli(chances(t)),
        "MULTINOMIAL": lambda: torch.multinomial(chances(t), args[0], bool(args[1])),
        "UNIFORM_": lambda: t.uniform_(*args),
        "NORMAL_": lambda: t.normal_(*args),
        "TRUNC_NORMAL_": lambda: torch.nn.init.trunc_normal_(t, *args),
        "EXPONENTIAL_": lambda: t.exponential_(*args),
        "BERNOULLI_": lambda: t.bernoulli_(*args),
        "RAND_LIKE": lambda: torch.rand_like(t),
        "RANDN_LIKE": lambda: torch.randn_like(t),
    }[kind]()
    inexact = ("RANDN", "NORMAL_", "TRUNC_NORMAL_", "EXPONENTIAL_", "RANDN_LIKE")
    show(kind, dtype, place, args, y, kind not in inexact)


def seed(s):
    torch.manual_seed(s)
    print("\n{ SEED, .state = %#x }," % (s & MASK))


SIZES = (0, 1, 2, 15, 16, 17, 31, 32, 33, 100, 1000, (6, 3))
PLACES = (layout((3, 6), (1, 0)),               # a transposed 6x3
          layout((40, 5), (1, 0), 2),           # of more columns than it shows
          layout((25, 4), None, 3),             # columns cut off
          layout((30,), None, 0, 2),            # every second element
          layout((2, 3, 4), (1, 2, 0)),
          layout((4, 1, 5, 2), (2, 0, 3, 1), 1))

seed(123)
call("RAND", F32, (6, 3))
for s in (0, 123, 2**32 - 1, 2**40, -7):
    for kind in ("RAND", "RANDN"):
        for dtype in (F32, F64):
            seed(s)
            for n in SIZES if s in (0, -7) else (3, 17, 700):
                call(kind, dtype, n)

seed(5)
for dtype in (F32, F64):
    for place in PLACES:
        call("UNIFORM_", dtype, place, -0.3, 1.7)
        call("NORMAL_", dtype, place, 0.5, 0.02)
        call("EXPONENTIAL_", dtype, place, 1.5)
        call("BERNOULLI_", dtype, place, 0.3)
        call("BERNOULLI", dtype, place)
        call("RAND_LIKE", dtype, place)
        call("RANDN_LIKE", dtype, place)
        call("TRUNC_NORMAL_", dtype, place, 0.0, 1.0, -1.0, 1.5)
        call("TRUNC_NORMAL_", dtype, place, 0.0, 1.0, 2.0, 3.0)

seed(6)
for dtype in (F32, F64):
    for low, high in ((0.0, 1.0), (-0.1, 0.1), (3.25, 3.25), (-1e30, 1e30), (0.0, 1e-40), (5.0, 7.7)):
        call("UNIFORM_", dtype, 600, low, high)
    for mean, std in ((0.0, 1.0), (0.0, 0.0), (-2.0, 0.5), (0.0, 0.02), (3.0, 4.0)):
        call("NORMAL_", dtype, 15, mean, std)
        call("NORMAL_", dtype, 555, mean, std)
    for rate in (1.0, 0.25, 1e6):
        call("EXPONENTIAL_", dtype, 530, rate)
    for args in ((0.0, 1.0, -2.0, 2.0), (0.0, 0.02, -0.04, 0.04), (1.0, 2.0, -1.0, 0.0), (0.0, 1.0, 3.0, 5.0),
                 (0.0, 1.0, -0.1, 0.1), (0.0, -1.0, -2.0, 2.0), (0.0, 1.0, 2.0, 2.0)):
        call("TRUNC_NORMAL_", dtype, 7, *args)
        call("TRUNC_NORMAL_", dtype, (30, 20), *args)

seed(7)
for dtype in (F32, F64, torch.int64, torch.bool):
    for p in (0.0, 0.1, 0.5, 0.9, 1.0):
        call("BERNOULLI_", dtype, 700, p)
for dtype in (F32, F64):
    for n in (0, 1, (6, 3), 1000):
        call("BERNOULLI", dtype, n)

seed(8)
for low, high in ((0, 1), (0, 10), (-5, 3), (0, 2**28 - 1), (0, 2**28), (0, 2**32 - 1), (0, 2**32), (-2**40, 2**41),
                  (-2**63, 2**63 - 1), (2**62, 2**62 + 5)):
    for n in (0, 1, 2, (6, 3), 700):
        call("RANDINT", torch.int64, n, low, high)
call("RANDINT", torch.bool, 50, 0, 2)
for dtype in (F32, F64):
    for low, high in ((0, 100), (-3, 2**24 + 5), (2**24 + 1, 2**24 + 8), (-2**24 - 7, -2**24 - 1), (0, 2**40 + 1)):
        call("RANDINT", dtype, 30, low, high)
for n in (0, 1, 2, 3, 10, 511, 512, 513, 514, 1025, 5000):
    call("RANDPERM", torch.int64, (), n)

seed(9)
for dtype in (F32, F64):
    for place in (layout((1,)), layout((5,)), layout((600,)), layout((4, 6)), layout((4, 6), (1, 0)), layout((3, 9), None, 2)):
        n = place[0][-1]
        for draws, again in ((1, 0), (1, 1), (n, 0), ((n + 1) // 2, 0), (2, 1), (600, 1)):
            call("MULTINOMIAL", dtype, place, draws, again)
for n in (4101, 6000, 9999, 9999):              # float32 has ties among so many
    call("MULTINOMIAL", F32, n, n, 0)

seed(10)
for dtype in (F32, F64):
    for i in range(3):                          # a second normal that waits meets every kind of call
        call("RANDN", dtype, 3)
        call("RAND", dtype, 2)
        call("RANDN", dtype, 17)
        call("RANDPERM", torch.int64, (), 10)
        call("BERNOULLI_", dtype, (2, 3), 0.5)
        call("RANDN", dtype, 1)
        call("MULTINOMIAL", dtype, (4,), 2, 0)
        call("RANDINT", torch.int64, 5, 0, 100)
        call("NORMAL_", dtype, layout((9,), None, 0, 2), 0.0, 1.0)
        call("RANDN", F64 if dtype == F32 else F32, 4)
