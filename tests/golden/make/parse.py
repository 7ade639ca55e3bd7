"""Writes parse.txt: literals, and what torch.tensor makes of them.

    python3 tests/golden/make/parse.py --out FOLDER --seed 7 --count 5000
    REGARD_GOLDEN=FOLDER build/tests/tensor/test_parse          looks at other literals

    = f32 [1, 2]                  the dtype ('-': inferred) and the literal
    > tensor([1.000..             the tensor with every digit,
    ! ValueError sentence         or the error

torch takes [[], [1]] and drops the 1, since it doesn't look beyond an empty list. There is no such
case, for regard calls that an error.
"""

import argparse
import random

import torch

from golden import Golden

nan, inf, true, false = float("nan"), float("inf"), True, False
DTYPES = {
    "f32": torch.float32,
    "f64": torch.float64,
    "i64": torch.int64,
    "bool": torch.bool,
    "-": None,
}
torch.set_printoptions(precision=17, sci_mode=True, threshold=10**6)
FIXED = [
    "1",
    "-1",
    "1.5",
    "True",
    "-True",
    "nan",
    "-inf",
    "[]",
    "[[]]",
    "[[], []]",
    "[[[]], [[]]]",
    "[True, 2]",
    "[True, 2.5]",
    "[1, 2.5]",
    "[1, nan]",
    "[9223372036854775807]",
    "[-9223372036854775808]",
    "[9223372036854775808]",
    "[-9223372036854775809]",
    "[9223372036854775808, 1.5]",
    "[18446744073709551616, 0.5]",
    "1" + "0" * 400,
    "[0.5, 1" + "0" * 400 + "]",
    "1e400",
    "1e40",
    "-1e40",
    "1e-50",
    "0x1F",
    "-0x10",
    "0",
    "-0.0",
    "+3",
    "--3",
    "[1,]",
    "[[1, 2], [3, 4],]",
    "1.",
    ".5",
    "1e3",
    "1E-3",
    "[[1, 2, 3], [4, 5]]",
    "[[1, 2], [3, 4, 5]]",
    "[1, [2]]",
    "[[1], 2]",
    "[0.5, [2]]",
    "[[1, 2], [3, [4]]]",
    "[[[1], [2]], [[3, 4]]]",
    "[[[1, 2], [3]], [4]]",
    "[1, [2.5]]",
    "[[1], []]",
    "[[1, 2], 3.5]",
    "9007199254740993",
    "[9007199254740993, 0.5]",
    "0.1",
    "[16777217, 0.5]",
    "[[[[[[[[1, 2]]]]]]]]",
    "[True, [False]]",
    "[1.5, -2.7, 1e10]",
    "[nan, 0.5, 0., -0., 2]",
]


def scalar(rng, kind):
    if kind == 0:
        return rng.choice(["True", "False"])
    if kind == 1:
        return str(rng.choice([rng.randint(-9, 99), rng.randint(-(2**63), 2**63 - 1)]))
    return rng.choice(
        [
            repr(rng.gauss(0, 1) * 10.0 ** rng.randint(-30, 30)),
            f"{rng.uniform(-9, 9):.2f}",
            "nan",
            "inf",
            "-inf",
            repr(rng.random()),
            f"{rng.randint(-99, 99)}.",
            "1e5",
            "-2.5E-3",
        ]
    )


def nested(rng, shape, kinds, ragged):
    if not shape:
        return scalar(rng, rng.choice(kinds))
    if ragged and rng.random() < 0.06:
        if rng.random() < 0.5:
            return scalar(rng, rng.choice(kinds))
        shape = [rng.randint(0, 3)] + shape[1:] + rng.choice([[], [1], [2]])
    items = (nested(rng, shape[1:], kinds, ragged) for _ in range(shape[0]))
    return "[" + rng.choice([", ", ","]).join(items) + "]"


def emit(dtype, literal):
    try:
        t = torch.tensor(eval(literal), dtype=DTYPES[dtype])
    except (ValueError, TypeError, RuntimeError, OverflowError) as e:
        name = "ValueError" if isinstance(e, OverflowError) else type(e).__name__
        data.case(dtype, literal)
        data.line("!", name, str(e).splitlines()[0])
        return
    if t.numel() == 0 and t.tolist() != eval(literal):
        return
    data.case(dtype, literal)
    data.text(repr(t))


def cases(seed, count):
    rng = random.Random(2 if seed is None else seed)
    if seed is None:
        for literal in FIXED:
            for dtype in DTYPES:
                emit(dtype, literal)
    for i in range(count):
        shape = [rng.choice([0, 1, 1, 2, 2, 3, 4]) for _ in range(rng.randint(0, 4))]
        kinds = rng.choice([[0], [1], [2], [0, 1], [1, 2], [0, 1, 2], [2]])
        emit(rng.choice(["-", "-", "-"] + list(DTYPES)), nested(rng, shape, kinds, i % 2))


options = argparse.ArgumentParser()
options.add_argument("--out")
options.add_argument("--seed", type=int)
options.add_argument("--count", type=int, default=600)
options = options.parse_args()
with Golden("parse") as data:
    cases(options.seed, options.count)
