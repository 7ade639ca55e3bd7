"""Writes core.txt: what PyTorch makes of ranges, promotions and conversions.

    = arange f32 0x0.0p+0 0x1.0p+0 0x1.8p-4     a range (arange, linspace or logspace), its dtype,
    : 3ff0000000000000 ..                       start, end and step or number of steps; and its
                                                elements' bits
    = promoted.f64.3                            with float64 as the default, what operand 3 makes
    : b i64 ..                                  with each operand (see `operands`)
    = source.f32                                40 elements of a dtype
    = converted.f32.i64                         and the same converted

Elements are written as the bits of the 8 bytes that they fill as int64 or float64 (float32 is exact
in float64), so that -0 and NaN survive.
"""

import random
import struct

import torch

from golden import Golden, name_of

DTYPES = [torch.bool, torch.int64, torch.float32, torch.float64]
FLOATS = [torch.float32, torch.float64]
random.seed(1)
torch.set_num_threads(1)


def bits(t):
    form = "<d" if t.is_floating_point() else "<q"
    values = t.flatten().tolist() if t.is_floating_point() else map(int, t.flatten().tolist())
    return ["%x" % struct.unpack("<Q", struct.pack(form, v))[0] for v in values]


# ---- ranges ---------------------------------------------------------------------------------


def row(kind, start, end, third, dtype, t):
    data.case(kind, name_of(dtype), *(float(v).hex() for v in (start, end, third)))
    data.numbers(bits(t))


def arange(start, end, step, dtype=torch.float32):
    torch.set_default_dtype(dtype if dtype.is_floating_point else torch.float32)
    t = torch.arange(start, end, step)
    assert t.dtype == dtype
    row("arange", start, end, step, dtype, t)
    torch.set_default_dtype(torch.float32)


def ranges():
    for dtype in FLOATS:
        for start, end, step in [
            (0.0, 1.0, 0.1),
            (1.0, 0.0, -0.1),
            (0.0, 0.0, 1.0),
            (2.5, 2.5, -1.0),
            (0.0, 1.0, 3.0),
            (0.1, 7.7, 0.37),
            (-3.0, 20.0, 0.7),
            (1e30, 1.1e30, 1e28),
            (0.0, 1e-40, 1e-41),
            (5.0, -5.0, -0.3),
            (16777210.0, 16777230.0, 0.5),
        ]:
            arange(start, end, step, dtype)
        for i in range(6):
            start, step = random.gauss(0, 10), abs(random.gauss(0, 0.3)) + 0.01
            arange(start, start + step * random.randint(1, 70) * 1.01, step, dtype)
    for start, end, step in [
        (0, 5, 2),
        (5, 0, -2),
        (3, 3, 1),
        (-7, 8, 3),
        (2**50, 2**50 + 9, 4),
        (9, -10, -5),
        (0, 3, 2**61),
    ]:
        arange(start, end, step, torch.int64)
    for dtype in (torch.int64, torch.float32, torch.float64):
        ends = [
            (0, 10, 5),
            (0, 1, 1),
            (0, 1, 0),
            (1, 1, 4),
            (5, -5, 11),
            (-2, 3.3, 7),
            (0.5, 10.7, 6),
            (-9.9, 9.9, 3),
            (0, 100, 33),
        ]
        for _ in range(6):
            ends.append((random.gauss(0, 10), random.gauss(0, 10), random.randint(2, 40)))
        for start, end, n in ends:
            row("linspace", start, end, n, dtype, torch.linspace(start, end, n, dtype=dtype))
            start, end = start / 5, end / 5
            row("logspace", start, end, n, dtype, torch.logspace(start, end, n, dtype=dtype))
    for dtype in FLOATS:
        for start, end, n in [
            (float("nan"), 1, 3),
            (float("inf"), 1, 4),
            (1, float("-inf"), 4),
            (1e-40, 2e-40, 5),
        ]:
            row("linspace", start, end, n, dtype, torch.linspace(start, end, n, dtype=dtype))


# ---- promotion ------------------------------------------------------------------------------


def promotions():
    """Operands 0 to 3 have dims, 4 to 7 are 0-d, and 8 to 10 are Python's bool, int and float."""
    operands = [torch.ones(2, dtype=d) for d in DTYPES]
    operands += [torch.tensor(1, dtype=d) for d in DTYPES] + [True, 2, 2.5]
    for default in FLOATS:
        torch.set_default_dtype(default)
        for k, a in enumerate(operands):
            data.case(f"promoted.{name_of(default)}.{k}")
            data.numbers(name_of(torch.result_type(a, b)) for b in operands)
    torch.set_default_dtype(torch.float32)


# ---- conversions ----------------------------------------------------------------------------

SPECIAL = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    1.9,
    -1.9,
    float("nan"),
    float("inf"),
    -float("inf"),
    3e9,
    -3e9,
    1e18,
    -1e18,
    9.3e18,
    -9.3e18,
    1e30,
    -1e30,
    1e-45,
    -1e-45,
    1e-320,
    3.4e38,
    3.5e38,
    -3.5e38,
    2.0**63,
    -(2.0**63),
    16777217.0,
    9007199254740993.0,
    1e300,
    0.1,
    1 / 3,
]
INTEGERS = [
    0,
    1,
    -1,
    2,
    255,
    2**24 + 1,
    -(2**24) - 1,
    2**31,
    -(2**31) - 1,
    2**53 + 1,
    -(2**53) - 1,
    2**62 + 1,
    2**63 - 1,
    -(2**63),
]


def conversions():
    """Converts tensors of 40 elements, which fill whole vectors and a part of one."""
    sources = [torch.tensor([True, False, True] * 14)[:40], torch.tensor(INTEGERS * 3)[:40]]
    sources += [torch.tensor(SPECIAL * 2, dtype=dtype)[:40] for dtype in FLOATS]
    for s in sources:
        data.case("source." + name_of(s.dtype))
        data.numbers(bits(s))
        for to in DTYPES:
            data.case(f"converted.{name_of(s.dtype)}.{name_of(to)}")
            data.numbers(bits(s.to(to)))


with Golden("core") as data:
    ranges()
    promotions()
    conversions()
