"""Writes core.h: what PyTorch makes of ranges, promotions and conversions.

    python3 tests/golden/core.py > tests/golden/core.h

Elements are written as the bits of the 8 bytes they fill as int64 or float64
(float32 is exact in float64), so that -0 and NaN survive.
"""
import random
import struct

import torch

DTYPES = [torch.bool, torch.int64, torch.float32, torch.float64]
NAMES = ["RG_BOOL", "RG_INT64", "RG_FLOAT32", "RG_FLOAT64"]
random.seed(1)
torch.set_num_threads(1)


def bits(t):
    out = []
    for v in t.flatten().tolist():
        out.append(struct.pack("<d", v) if t.is_floating_point() else struct.pack("<q", int(v)))
    return ["0x%x" % struct.unpack("<Q", b)[0] for b in out]


def wrap(items):
    lines, line = [], "   "
    for item in items:
        if len(line) + len(item) > 108:
            lines.append(line)
            line = "   "
        line += " " + item + ","
    return "\n".join(lines + [line])


def nested(items, *sizes):
    """The initialiser of an array of so many dims."""
    if not sizes:
        return wrap(items)
    n = len(items) // sizes[0]
    return "{\n" + "\n}, {\n".join(nested(items[i * n:(i + 1) * n], *sizes[1:]) for i in range(sizes[0])) + "\n}"


print("/* core.h: made by core.py with PyTorch %s. */" % torch.__version__.split("+")[0])
print("#include <stdint.h>\n")

# ---- ranges: offset and count are into RANGE_BITS
values, rows = [], []


def row(kind, start, end, third, dtype, t):
    rows.append("{ %s, %s, %s, %s, %s, %d, %d }" % (kind, float(start).hex(), float(end).hex(), float(third).hex(),
                                                     NAMES[DTYPES.index(dtype)], len(values), t.numel()))
    values.extend(bits(t))


def arange(start, end, step, dtype=torch.float32):
    torch.set_default_dtype(dtype if dtype.is_floating_point else torch.float32)
    t = torch.arange(start, end, step)
    assert t.dtype == dtype
    row("ARANGE", start, end, step, dtype, t)
    torch.set_default_dtype(torch.float32)


for dtype in (torch.float32, torch.float64):
    for start, end, step in [(0., 1., .1), (1., 0., -.1), (0., 0., 1.), (2.5, 2.5, -1.), (0., 1., 3.), (0.1, 7.7, .37),
                             (-3., 20., .7), (1e30, 1.1e30, 1e28), (0., 1e-40, 1e-41), (5., -5., -.3), (16777210., 16777230., .5)]:
        arange(start, end, step, dtype)
    for i in range(6):
        start, step = random.gauss(0, 10), abs(random.gauss(0, .3)) + .01
        arange(start, start + step * random.randint(1, 70) * 1.01, step, dtype)
for start, end, step in [(0, 5, 2), (5, 0, -2), (3, 3, 1), (-7, 8, 3), (2**50, 2**50 + 9, 4), (9, -10, -5), (0, 3, 2**61)]:
    arange(start, end, step, torch.int64)
for dtype in (torch.int64, torch.float32, torch.float64):
    ends = [(0, 10, 5), (0, 1, 1), (0, 1, 0), (1, 1, 4), (5, -5, 11), (-2, 3.3, 7), (0.5, 10.7, 6), (-9.9, 9.9, 3), (0, 100, 33)]
    ends += [(random.gauss(0, 10), random.gauss(0, 10), random.randint(2, 40)) for _ in range(6)]
    for start, end, steps in ends:
        row("LINSPACE", start, end, steps, dtype, torch.linspace(start, end, steps, dtype=dtype))
        start, end = start / 5, end / 5
        row("LOGSPACE", start, end, steps, dtype, torch.logspace(start, end, steps, dtype=dtype))
for dtype in (torch.float32, torch.float64):
    for start, end, steps in [(float("nan"), 1, 3), (float("inf"), 1, 4), (1, float("-inf"), 4), (1e-40, 2e-40, 5)]:
        row("LINSPACE", start, end, steps, dtype, torch.linspace(start, end, steps, dtype=dtype))
print("enum { ARANGE, LINSPACE, LOGSPACE };")
print("static const struct { int kind; double start, end, third; int dtype, offset, n; } RANGES[] = {")
print("    " + ",\n    ".join(rows).replace("nan", "NAN").replace("-inf", "-INFINITY").replace(" inf", " INFINITY") + "\n};")
print("static const uint64_t RANGE_BITS[] = {\n%s\n};\n" % wrap(values))

# ---- promotion: operands 0-3 have dims, 4-7 are 0-d, 8-10 are Python's bool, int, float
operands = [torch.ones(2, dtype=d) for d in DTYPES] + [torch.tensor(1, dtype=d) for d in DTYPES] + [True, 2, 2.5]
table = []
for default in (torch.float32, torch.float64):
    torch.set_default_dtype(default)
    for a in operands:
        for b in operands:
            table.append(str(DTYPES.index(torch.result_type(a, b))))
torch.set_default_dtype(torch.float32)
print("static const unsigned char PROMOTED[2][11][11] = {\n%s\n};\n" % nested(table, 2, 11))

# ---- conversions: 40 elements of each dtype, as each dtype; more than a vector, and a rest
special = [0., -0., 1., -1., .5, -.5, 1.9, -1.9, float("nan"), float("inf"), -float("inf"), 3e9, -3e9, 1e18, -1e18,
           9.3e18, -9.3e18, 1e30, -1e30, 1e-45, -1e-45, 1e-320, 3.4e38, 3.5e38, -3.5e38, 2.**63, -2.**63, 16777217.,
           9007199254740993., 1e300, 0.1, 1 / 3]
integers = [0, 1, -1, 2, 255, 2**24 + 1, -2**24 - 1, 2**31, -2**31 - 1, 2**53 + 1, -2**53 - 1, 2**62 + 1, 2**63 - 1, -2**63]
sources = [torch.tensor([True, False, True] * 14)[:40], torch.tensor(integers * 3)[:40],
           torch.tensor(special * 2, dtype=torch.float32)[:40], torch.tensor(special * 2, dtype=torch.float64)[:40]]
print("static const uint64_t SOURCES[4][40] = {\n%s\n};" % nested([b for s in sources for b in bits(s)], 4))
print("static const uint64_t CONVERTED[4][4][40] = {      /* [from][to] */\n%s\n};"
      % nested([b for s in sources for d in DTYPES for b in bits(s.to(d))], 4, 4))
