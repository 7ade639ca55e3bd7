"""Writes print.txt: tensors by their bits, and the text that PyTorch, Python and NumPy make of
them.

    python3 tests/golden/make/print.py --out FOLDER --seed 7 --count 5000
    REGARD_GOLDEN=FOLDER build/tests/tensor/test_print          looks at other tensors

    = kind dtype default grad precision threshold edgeitems linewidth sci_mode flags shape
    : bits ..
    > text

kind is repr, str, numpy or tf; grad is '-', 'leaf' or a node's name; flag T swaps the first two
dims; the shape of a 0-d tensor is '.'; the bits are repeated until the tensor is full.
"""

import argparse
import random
import struct

import numpy as np
import torch

from golden import Golden, comma

np.seterr(all="ignore")
TORCH = {"f32": torch.float32, "f64": torch.float64, "i64": torch.int64, "bool": torch.bool}
NUMPY = {"f32": np.float32, "f64": np.float64, "i64": np.int64, "bool": np.bool_}
BITS = {"f32": np.uint32, "f64": np.uint64, "i64": np.uint64, "bool": np.uint8}
DEFAULT = (4, 1000, 3, 80, -1)
SPECIAL = [0.0, -0.0, float("nan"), -float("nan"), float("inf"), -float("inf"), 1.0, -1.0]
NEAR = [
    1e-4,
    9.9999e-5,
    1.00001e-4,
    1e8,
    99999999.0,
    100000001.0,
    999.99994,
    999.99995,
    0.99995,
    0.99994,
    9999.5,
    1e6,
    999999.0,
    1000001.0,
    1e16,
    9999999999999998.0,
    1e15,
    0.5,
    0.00005,
    2.5,
    0.125,
    5e-324,
    1e-45,
    1.17549435e-38,
    3.4028234663852886e38,
    1.7976931348623157e308,
    2.2250738585072014e-308,
    1000.0,
    1e100,
    1e-100,
    9.9e99,
    1.5e-101,
]


def floats(rng, dtype, n):
    style = rng.randrange(10)
    scale = 10.0 ** rng.randint(-12, 12) if rng.random() < 0.3 else 10.0 ** rng.randint(-3, 3)
    out = []
    for _ in range(n):
        if style == 0:
            v = float(rng.randint(-9, 99))
        elif style == 1:
            v = float(rng.randint(-(10 ** rng.randint(1, 12)), 10 ** rng.randint(1, 12)))
        elif style == 2:
            v = rng.random()
        elif style == 3:
            v = rng.gauss(0, 1) * scale
        elif style == 4:
            v = rng.choice([-1, 1]) * 10.0 ** rng.uniform(-8, 10)
        elif style == 5:
            v = rng.randint(-400, 400) / rng.choice([4, 8, 10, 100, 1000])
        elif style == 6:
            v = rng.choice(NEAR) * rng.choice([1, 1, 1, -1])
        elif style == 7:
            v = rng.choice([-1, 1]) * 2.0 ** rng.randint(-40, 40)
        elif style == 8:
            v = None
        else:
            v = 10.0 ** rng.uniform(-2, 2)
        if v is None:
            if dtype == "f32":
                v = struct.unpack("<f", struct.pack("<I", rng.getrandbits(32)))[0]
            elif rng.random() < 0.5:
                v = struct.unpack("<d", struct.pack("<Q", rng.getrandbits(64)))[0]
            else:
                v = 2.0 ** rng.randint(-1074, 1023)
        out.append(v)
    if rng.random() < 0.25:
        for _ in range(rng.randint(1, 3)):
            out[rng.randrange(n)] = rng.choice(SPECIAL)
    if rng.random() < 0.04:
        out = [rng.choice(SPECIAL[:6]) for _ in out]
    with np.errstate(all="ignore"):
        return np.array(out, dtype=np.float64).astype(NUMPY[dtype]).view(BITS[dtype])


def bits_of(rng, dtype, n):
    if dtype in ("f32", "f64"):
        return floats(rng, dtype, n)
    if dtype == "bool":
        return np.array([rng.random() < rng.choice([0, 0.5, 1]) for _ in range(n)], dtype=np.uint8)
    top = rng.choice([1, 9, 100, 10**6, 2**63 - 1])
    return np.array(
        [
            rng.choice([-(2**63), 2**63 - 1, 0]) if rng.random() < 0.02 else rng.randint(-top, top)
            for _ in range(n)
        ],
        dtype=np.int64,
    ).view(np.uint64)


def shape_of(rng):
    kind = rng.random()
    if kind < 0.08:
        return ()
    if kind < 0.13:
        return tuple(rng.choice([0, 0, 1, 3]) for _ in range(rng.randint(1, 4)))
    if kind < 0.40:
        return (rng.randint(1, rng.choice([3, 10, 60])),)
    if kind < 0.75:
        return (rng.randint(1, 7), rng.randint(1, rng.choice([5, 14])))
    if kind < 0.93:
        return tuple(rng.randint(1, 4) for _ in range(3))
    if kind < 0.98:
        return tuple(rng.randint(1, 3) for _ in range(4))
    return tuple(rng.randint(1, 2) for _ in range(rng.randint(5, 8)))


def large_of(rng):
    return rng.choice(
        [
            (1000,),
            (1001,),
            (1200,),
            (40, 30),
            (7, 150),
            (6, 170),
            (3, 4, 90),
            (11, 11, 11),
            (300, 4),
            (2, 3, 200),
            (7, 7, 7, 7),
            (6, 2, 100),
            (1, 1500),
            (1500, 1),
            (8, 1, 9, 16),
        ]
    )


def tensor_of(dtype, shape, bits):
    n = int(np.prod(shape, dtype=np.int64))
    flat = np.resize(bits, n) if n else np.zeros(0, BITS[dtype])
    return flat.view(NUMPY[dtype]).reshape(shape)


def with_grad(t, grad):
    if grad == "-":
        return t
    t = t.requires_grad_()
    if grad == "leaf":
        return t
    assert grad.endswith("Backward")
    f = type(
        grad[:-8],
        (torch.autograd.Function,),
        {
            "forward": staticmethod(lambda ctx, x: x.clone(memory_format=torch.preserve_format)),
            "backward": staticmethod(lambda ctx, g: g),
        },
    )
    return f.apply(t)


def expected(kind, dtype, default, grad, options, flags, shape, bits):
    a = tensor_of(dtype, shape, bits)
    if "T" in flags:
        a = a.swapaxes(0, 1)
    if kind in ("numpy", "tf"):
        text = str(a)
        if kind == "numpy":
            return text
        return "tf.Tensor(%s%s, shape=%s, dtype=%s)" % (
            "\n" if "\n" in text else "",
            text,
            a.shape,
            a.dtype,
        )
    precision, threshold, edgeitems, linewidth, sci = options
    torch.set_printoptions(
        precision, threshold, edgeitems, linewidth, sci_mode=None if sci < 0 else bool(sci)
    )
    torch.set_default_dtype(TORCH[default])
    t = torch.from_numpy(tensor_of(dtype, shape, bits).copy())
    if "T" in flags:
        t = t.transpose(0, 1)
    t = with_grad(t.detach(), grad)
    text = format(t, "") if kind == "str" else repr(t)
    torch.set_printoptions(profile="default")
    torch.set_default_dtype(torch.float32)
    return text


def emit(kind, dtype, shape, bits, default="f32", grad="-", options=DEFAULT, flags="-"):
    width = 2 * BITS[dtype]().itemsize
    data.case(kind, dtype, default, grad, *options, flags, comma(shape))
    data.numbers(f"{int(b):0{width}x}" for b in bits)
    data.text(expected(kind, dtype, default, grad, options, flags, shape, bits))


def names(rng):
    r = rng.random()
    if r < 0.6:
        return "-"
    if r < 0.75:
        return "leaf"
    return (
        rng.choice(
            [
                "Mul",
                "Add",
                "UnsafeView",
                "NativeLayerNorm",
                "ScaledDotProductFlashAttentionForCpu",
                "A" * rng.randint(1, 70),
            ]
        )
        + "Backward"
    )


def case(rng, large=False):
    kind = rng.choices(["repr", "numpy", "str", "tf"], [12, 5, 2, 1])[0]
    dtype = rng.choices(["f32", "f64", "i64", "bool"], [8, 4, 3, 1])[0]
    if large:
        shape = large_of(rng)
    elif kind == "str" and rng.random() < 0.7:
        shape = ()
    else:
        shape = shape_of(rng)
    n = int(np.prod(shape, dtype=np.int64))
    options, default, grad, flags = DEFAULT, "f32", "-", "-"
    if kind in ("repr", "str"):
        if rng.random() < 0.3:
            options = (
                rng.choice([0, 1, 2, 4, 6, 8, 10, 17, 30]),
                rng.choice([0, 3, 20, 1000]),
                rng.choice([0, 1, 2, 3, 5]),
                rng.choice([0, 20, 40, 80, 120, 200]),
                rng.choice([-1, -1, 0, 1]),
            )
        if rng.random() < 0.15:
            default = "f64"
        if dtype in ("f32", "f64"):
            grad = names(rng)
    if len(shape) >= 2 and rng.random() < 0.2:
        flags = "T"
    bits = bits_of(rng, dtype, max(1, min(n, 37 if large else 90)))
    emit(kind, dtype, shape, bits, default, grad, options, flags)


def edges():
    """Shows every special and threshold value alone, with 1, and with itself halved and doubled."""
    with np.errstate(all="ignore"):
        for dtype in ("f32", "f64"):
            for v in SPECIAL + NEAR:
                for group in ([v], [v, 1.0], [v, v / 2, v * 2, -v], [v, v * 1000], [v, v * 1001]):
                    bits = np.array(group, dtype=np.float64).astype(NUMPY[dtype]).view(BITS[dtype])
                    for kind in ("repr", "numpy"):
                        emit(kind, dtype, (len(bits),), bits)
                    if len(group) == 1:
                        for kind in ("repr", "str", "numpy"):
                            emit(kind, dtype, (), bits)


def wraps():
    """Shows what just fits (a suffix on a line, a number in a row, a thousand), and what just
    doesn't."""
    for n in list(range(1, 6)) + list(range(28, 50)):
        for count in (1, 7):
            emit("repr", "f64", (count,), bits_of_doubles([0.5]), grad="A" * n + "Backward")
    for count in range(1, 12):
        emit("repr", "f64", (count,), bits_of_doubles([7.0]), grad="leaf")
    for n in (1000, 1001):
        for kind in ("repr", "numpy"):
            emit(kind, "i64", (n,), np.arange(3, dtype=np.uint64))
    for n in range(4, 14):
        for kind in ("repr", "numpy"):
            emit(kind, "f64", (40,), bits_of_doubles([10.0**n / 8 + 0.125]))


def bits_of_doubles(values):
    return np.array(values, dtype=np.float64).view(np.uint64)


def powers():
    """Shows powers of two for which rounding to the shortest number of digits gives a text that
    doesn't read back as the power. Other digits of the same number do."""
    for k in range(-1074, 1024):
        v = 2.0**k
        digits = len(repr(v).split("e")[0].replace(".", "").strip("0"))
        if float(f"{v:.{digits - 1}e}") != v:
            emit("str", "f64", (), bits_of_doubles([v]))
    for k in range(-149, 128):
        v = np.float32(2.0**k)
        digits = len(np.format_float_scientific(v, trim="-").split("e")[0].replace(".", ""))
        if np.float32(f"{v:.{digits - 1}e}") != v:
            emit("numpy", "f32", (), np.array([v]).view(np.uint32))
            emit("numpy", "f32", (2,), np.array([v, 3 * v]).view(np.uint32))


def cases(seed, count):
    if seed is not None:
        rng = random.Random(seed)
        for i in range(count):
            case(rng, large=i % 50 == 0)
        return
    rng = random.Random(2)
    edges()
    wraps()
    powers()
    for _ in range(2400):
        case(rng)
    for _ in range(60):
        case(rng, large=True)


options = argparse.ArgumentParser()
options.add_argument("--out")
options.add_argument("--seed", type=int)
options.add_argument("--count", type=int, default=1000)
options = options.parse_args()
with Golden("print") as data:
    cases(options.seed, options.count)
