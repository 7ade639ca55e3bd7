"""Writes random.txt: calls of torch's random functions, what they gave, and the generator's state.

    = seed 7b                                       torch.manual_seed(0x7b) was called
    = normal_ f32 6,3 3,1 0.5 0.02                  a function, dtype, sizes, strides, arguments
    : 0.25 0x1.8p-1 ..                              the first two and last three elements (all if
                                                    they are fewer than five)
    b 3ac1df2642e3ac7a                              the hash of all, which must be the same, or
    s 0x1.8p+1 0x1p+4                               the sums of |v| and (i % 7 + 1) v, if the last
                                                    digits may differ
    g 38415810d4981e03                              the hash of the generator's state after it
    w 0x1.8p-1                                      the normal that waits in it, if one does

On Intel's processors torch.bernoulli_ with a number draws from MKL, and gives other numbers. The
script must therefore run on another processor, or with a torch that was built without MKL.
"""

import torch

from golden import Golden, comma, fnv, name_of

F32, F64 = torch.float32, torch.float64
INEXACT = ("randn", "normal_", "trunc_normal_", "exponential_", "randn_like")


def number(x):
    """Returns the shortest text that gives back exactly x."""
    x = float(x)
    if x != x or x in (float("inf"), -float("inf")):
        return str(x)
    if x == int(x) and abs(x) < 1e6:
        return str(int(x))
    mantissa, exponent = x.hex().split("p")
    return mantissa.rstrip("0").rstrip(".") + "p" + exponent


def layout(shape, order=None, gap=0, step=1):
    """Returns the shape and its strides: the dims lie in `order` from the outermost to the
    innermost, elements are `step` apart, and rows have a gap."""
    stride, s = [0] * len(shape), step
    for d in reversed(order or range(len(shape))):
        stride[d] = s
        s = s * max(shape[d], 1) + gap
    return shape, stride


def chances(t):
    """Fills t with weights that the test computes too: in (0, 1), the same in each dtype."""
    i = torch.arange(t.numel(), dtype=torch.float64)
    return t.copy_(((i * 7919 % 101 + 1) / 102).reshape(t.shape))


def show(kind, dtype, place, args, y):
    shape, stride = place
    flat = y.detach().contiguous().flatten()
    v = flat.double()
    exact = kind not in INEXACT
    # randn draws its last numbers anew, so the last three are shown as well. Exact numbers are
    # compared by their hash, and the first two are shown for the reader.
    shown = v[:2] if exact else v
    if len(shown) >= 5:
        shown = [*v[:2], *v[-3:]]
    as_text = str if kind in ("randint", "randperm") else number
    data.case(kind, name_of(dtype), comma(shape), comma(stride), *map(as_text, args))
    data.numbers(map(number, shown))
    if exact:
        data.line("b", "%x" % fnv(flat.numpy().tobytes()))
    else:
        weights = torch.arange(len(v), dtype=F64) % 7 + 1
        data.line("s", number(v.abs().sum()), number((v * weights).sum()))
    state = torch.get_rng_state()
    data.line("g", "%x" % fnv(state.numpy().tobytes()))
    # The state has five last fields: x, the waiting normal, rho, whether a normal waits, and
    # the waiting normal of float32.
    waiting, waits = state[-32:-24].view(F64)[0], state[-16:-8].view(torch.int64)[0] != 0
    if waits:
        data.line("w", number(waiting))


def call(kind, dtype=F32, place=((), ()), *args):
    if isinstance(place, int):
        place = (place,)
    if not place or isinstance(place[0], int):
        place = layout(tuple(place))
    shape, stride = place
    room = 1 + sum((max(n, 1) - 1) * s for n, s in zip(shape, stride))
    t = torch.as_strided(torch.zeros(room, dtype=dtype), shape, stride)
    y = {
        "rand": lambda: torch.rand(shape, dtype=dtype),
        "randn": lambda: torch.randn(shape, dtype=dtype),
        "randint": lambda: torch.randint(args[0], args[1], shape, dtype=dtype),
        "randperm": lambda: torch.randperm(args[0]),
        "bernoulli": lambda: torch.bernoulli(chances(t)),
        "multinomial": lambda: torch.multinomial(chances(t), args[0], bool(args[1])),
        "uniform_": lambda: t.uniform_(*args),
        "normal_": lambda: t.normal_(*args),
        "trunc_normal_": lambda: torch.nn.init.trunc_normal_(t, *args),
        "exponential_": lambda: t.exponential_(*args),
        "bernoulli_": lambda: t.bernoulli_(*args),
        "rand_like": lambda: torch.rand_like(t),
        "randn_like": lambda: torch.randn_like(t),
    }[kind]()
    show(kind, dtype, place, args, y)


def seed(s):
    torch.manual_seed(s)
    data.case("seed", "%x" % (s & 2**64 - 1))


SIZES = (0, 1, 2, 15, 16, 17, 31, 32, 33, 100, 1000, (6, 3))
PLACES = (
    layout((3, 6), (1, 0)),
    layout((40, 5), (1, 0), 2),
    layout((25, 4), None, 3),
    layout((30,), None, 0, 2),
    layout((2, 3, 4), (1, 2, 0)),
    layout((4, 1, 5, 2), (2, 0, 3, 1), 1),
)


def calls():
    seed(123)
    call("rand", F32, (6, 3))
    for s in (0, 123, 2**32 - 1, 2**40, -7):
        for kind in ("rand", "randn"):
            for dtype in (F32, F64):
                seed(s)
                for n in SIZES if s in (0, -7) else (3, 17, 700):
                    call(kind, dtype, n)

    seed(5)
    for dtype in (F32, F64):
        for place in PLACES:
            call("uniform_", dtype, place, -0.3, 1.7)
            call("normal_", dtype, place, 0.5, 0.02)
            call("exponential_", dtype, place, 1.5)
            call("bernoulli_", dtype, place, 0.3)
            call("bernoulli", dtype, place)
            call("rand_like", dtype, place)
            call("randn_like", dtype, place)
            call("trunc_normal_", dtype, place, 0.0, 1.0, -1.0, 1.5)
            call("trunc_normal_", dtype, place, 0.0, 1.0, 2.0, 3.0)

    seed(6)
    for dtype in (F32, F64):
        for low, high in (
            (0.0, 1.0),
            (-0.1, 0.1),
            (3.25, 3.25),
            (-1e30, 1e30),
            (0.0, 1e-40),
            (5.0, 7.7),
        ):
            call("uniform_", dtype, 600, low, high)
        for mean, std in ((0.0, 1.0), (0.0, 0.0), (-2.0, 0.5), (0.0, 0.02), (3.0, 4.0)):
            call("normal_", dtype, 15, mean, std)
            call("normal_", dtype, 555, mean, std)
        for rate in (1.0, 0.25, 1e6):
            call("exponential_", dtype, 530, rate)
        for args in (
            (0.0, 1.0, -2.0, 2.0),
            (0.0, 0.02, -0.04, 0.04),
            (1.0, 2.0, -1.0, 0.0),
            (0.0, 1.0, 3.0, 5.0),
            (0.0, 1.0, -0.1, 0.1),
            (0.0, -1.0, -2.0, 2.0),
            (0.0, 1.0, 2.0, 2.0),
        ):
            call("trunc_normal_", dtype, 7, *args)
            call("trunc_normal_", dtype, (30, 20), *args)

    seed(7)
    for dtype in (F32, F64, torch.int64, torch.bool):
        for p in (0.0, 0.1, 0.5, 0.9, 1.0):
            call("bernoulli_", dtype, 700, p)
    for dtype in (F32, F64):
        for n in (0, 1, (6, 3), 1000):
            call("bernoulli", dtype, n)

    seed(8)
    for low, high in (
        (0, 1),
        (0, 10),
        (-5, 3),
        (0, 2**28 - 1),
        (0, 2**28),
        (0, 2**32 - 1),
        (0, 2**32),
        (-(2**40), 2**41),
        (-(2**63), 2**63 - 1),
        (2**62, 2**62 + 5),
    ):
        for n in (0, 1, 2, (6, 3), 700):
            call("randint", torch.int64, n, low, high)
    call("randint", torch.bool, 50, 0, 2)
    for dtype in (F32, F64):
        for low, high in (
            (0, 100),
            (-3, 2**24 + 5),
            (2**24 + 1, 2**24 + 8),
            (-(2**24) - 7, -(2**24) - 1),
            (0, 2**40 + 1),
        ):
            call("randint", dtype, 30, low, high)
    for n in (0, 1, 2, 3, 10, 511, 512, 513, 514, 1025, 5000):
        call("randperm", torch.int64, (), n)

    seed(9)
    for dtype in (F32, F64):
        for place in (
            layout((1,)),
            layout((5,)),
            layout((600,)),
            layout((4, 6)),
            layout((4, 6), (1, 0)),
            layout((3, 9), None, 2),
        ):
            n = place[0][-1]
            for draws, again in ((1, 0), (1, 1), (n, 0), ((n + 1) // 2, 0), (2, 1), (600, 1)):
                call("multinomial", dtype, place, draws, again)
    # Among these numbers of weights, float32 has ties.
    for n in (4101, 6000, 9999, 9999):
        call("multinomial", F32, n, n, 0)

    seed(10)
    for dtype in (F32, F64):
        # After an odd number of normals a second normal waits in the generator. Each kind of call
        # is made while one waits.
        for i in range(3):
            call("randn", dtype, 3)
            call("rand", dtype, 2)
            call("randn", dtype, 17)
            call("randperm", torch.int64, (), 10)
            call("bernoulli_", dtype, (2, 3), 0.5)
            call("randn", dtype, 1)
            call("multinomial", dtype, (4,), 2, 0)
            call("randint", torch.int64, 5, 0, 100)
            call("normal_", dtype, layout((9,), None, 0, 2), 0.0, 1.0)
            call("randn", F64 if dtype == F32 else F32, 4)


with Golden("random") as data:
    calls()
