"""half_operands.py: writes half_operands.txt, for test_half_operands.c: ops on elements of bfloat16
or float16, beside an operand of another dtype that is a number or a tensor without dims. A case has
the result; the next line has the gradient of x, if the op has one.

    python3 tests/golden/make/half_operands.py
"""

import torch

import golden

X = [1.0, -2.0, 0.0001, 0.625]
Y = [3.0, 0.75, 2.0, -1.5]
VALUES = {"number": [0.9, 1e-8, 70000.0], "f32": [0.9, 70000.0], "f64": [70000.0], "i64": [70000]}


def where(a, b):
    return torch.where(torch.tensor([True, False, True, False]), a, b)


def product(a, b):
    """Returns the product as `number * x` computes it; torch.mul(number, x) rounds the number."""
    return b * a if isinstance(a, float) else a * b


def quotient(a, b):
    """`number / x` multiplies the number by the rounded 1 / x: one rounding is enough."""
    return (a / b.float()).to(b.dtype) if isinstance(a, float) else torch.div(a, b)


BINARY = {"mul": product, "div": quotient, "add": torch.add, "sub": torch.sub,
          "floor_divide": torch.floor_divide,
          "div_floor": lambda a, b: torch.div(a, b, rounding_mode="floor"),
          "div_trunc": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
          "remainder": torch.remainder, "fmod": torch.fmod, "pow": torch.pow, "xlogy": torch.xlogy,
          "atan2": torch.atan2, "maximum": torch.maximum, "minimum": torch.minimum,
          "fmax": torch.fmax, "fmin": torch.fmin, "eq": torch.eq, "lt": torch.lt, "ge": torch.ge,
          "where": where, "clamp_min": torch.clamp_min, "clamp_max": torch.clamp_max}

# The functions of three tensors, at each place of the other operand.
TERNARY = {"lerp": [None, None, torch.lerp],
           "addcmul": [lambda x, y, v: torch.addcmul(v, x, y),
                       lambda x, y, v: torch.addcmul(x, v, y),
                       lambda x, y, v: torch.addcmul(x, y, v)],
           "addcdiv": [lambda x, y, v: torch.addcdiv(v, x, y),
                       lambda x, y, v: torch.addcdiv(x, v, y),
                       lambda x, y, v: torch.addcdiv(x, y, v)]}


def calls():
    """Returns the name, the place and the function of each call."""
    for name, f in BINARY.items():
        yield name, 0, lambda x, y, v, f=f: f(v, x)
        yield name, 1, lambda x, y, v, f=f: f(x, v)
    for name, places in TERNARY.items():
        for place, f in enumerate(places):
            if f:
                yield name, place, f


# Their results of tiny numbers are subnormal, and their gradients read the operand that torch has
# rounded for the result, which may be infinite there, as it was given.
ROUNDED = "pow", "xlogy", "atan2", "lerp"


def write(g, name, place, call, dtype, kind, value):
    """Writes a case, unless torch refuses the call."""
    if name in ROUNDED and value != 0.9 and dtype == torch.float16:
        return
    x = torch.tensor(X, dtype=dtype, requires_grad=True)
    y = torch.tensor(Y, dtype=dtype)
    v = value if kind == "number" else torch.tensor(value, dtype=golden_dtypes[kind])
    try:
        result = call(x, y, v)
    except (TypeError, RuntimeError):
        return
    g.case(name, place, golden.name_of(dtype), kind, repr(value))
    g.line(":", golden.name_of(result.dtype), *golden.values_of(result))
    try:
        result.backward(y)
    except RuntimeError:
        g.line(":")
        return
    g.line(":", *golden.values_of(x.grad))


golden_dtypes = {"f32": torch.float32, "f64": torch.float64, "i64": torch.int64}

with golden.Golden("half_operands") as g:
    for name, place, call in calls():
        for dtype in torch.bfloat16, torch.float16:
            for kind, values in VALUES.items():
                for value in values:
                    write(g, name, place, call, dtype, kind, value)
