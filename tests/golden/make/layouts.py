"""Writes layouts/FUNCTION.txt: how the results of PyTorch 2.13 lie in memory.

    python3 tests/golden/make/layouts.py                 writes tests/golden/data/layouts/
    python3 tests/golden/make/layouts.py softmax add     writes these functions only
    python3 tests/golden/make/layouts.py --out FOLDER --seed 7 --cases 100
    REGARD_GOLDEN=FOLDER build/tests/autograd/test_golden    tries other and more samples

The cases are those that ops.py wrote, with the same arguments in other strides: transposed, with
other orders of the dims, with the channels of images last, with gaps, expanded, and with odd
strides of dims of size 1. The form is that of ops.py, with one more kind of line: behind an output
or a gradient,

    ~ 1,2            is its strides.
"""

import argparse
import glob
import os
import random
import re
import sys
import warnings

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.dont_write_bytecode = True
import ops
import ops_cases as table
from ops_cases import Case, Number, Skip

DTYPES = {name: dtype for dtype, name in ops.NAMES.items()}
ops.KEEP = 6
MOST = 80  # The maximum number of elements of a case.

# ---- reading what ops.py wrote -------------------------------------------------------


def dims(word):
    return [] if word == "." else [int(n) for n in word.split(",")]


def tensor(words):
    dtype, grad, shape, _, *values = words
    dtype = DTYPES[dtype]
    if values[0] == "r":
        t = table.numbers(int(values[1]), dims(shape), dtype)
        t.seed = int(values[1])
    else:
        t = torch.tensor([float(v) for v in values[1:]], dtype=torch.float64)
        if dtype == torch.int64:
            t = torch.tensor([int(v) for v in values[1:]], dtype=dtype)
        t = t.to(dtype).reshape(dims(shape))
    t.wants_grad = grad == "g"
    return t


def argument(line, lines):
    kind, words = line[0], line[1:].split()
    if kind == "t":
        return tensor(words)
    if kind == "n":
        return Number({"i": int, "f": float, "b": lambda v: v == "1"}[words[0]](words[1]))
    if kind == "i":
        return int(words[0])
    if kind == "x":
        return float(words[0])
    if kind == "L":
        return dims(words[0]) if words[0] != "-" else []
    if kind == "s":
        return line[2:]
    if kind == "y":
        return DTYPES[words[0]]
    if kind == "B":
        return words[0] == "1"
    if kind == "l":
        return [argument(next(lines), lines) for _ in range(int(words[0]))]
    return None


def read(path):
    """Returns the cases of a file that are no errors."""
    cases = []
    for text in open(path).read().split("\n= ")[0:]:
        lines = iter(text.removeprefix("= ").rstrip("\n").split("\n"))
        head = next(lines)
        if re.search(r"^[!?]", text, re.M):
            continue
        args = [argument(line, lines) for line in lines if line[0] not in ">vgh"]
        flags = {"direct"} if " direct " in head.split("#")[0] else set()
        cases.append(Case(head.split()[0], *args, flags=flags, origin="layout"))
    return cases


# ---- layouts -------------------------------------------------------------------------


def ordered(t, order, gap=1, odd=False):
    """Returns t's values with its dims in this order in memory, outermost first, and with a gap
    behind each element. If `odd`, dims of size 1 get strides that no other dim implies."""
    stride, step = [0] * t.dim(), gap
    for d in reversed(order):
        stride[d] = step
        step *= t.shape[d]
    if odd:
        stride = [s if n != 1 else 7 * (d % 3) for d, (s, n) in enumerate(zip(stride, t.shape))]
    size = sum((n - 1) * s for n, s in zip(t.shape, stride)) + 1
    r = torch.zeros(size, dtype=t.dtype).as_strided(t.shape, stride)
    return r.copy_(t)


def expanded(t, dim, order):
    short = t.narrow(dim, 0, 1)
    return ordered(short, order).expand(t.shape)


def laid_out(t, style, rng):
    if t.dim() < 1 or t.numel() == 0:
        return t.clone()
    order = list(range(t.dim()))
    if style == "turned":
        order = order[::-1]
    elif style == "channels last" and t.dim() == 4:
        order = [0, 2, 3, 1]
    elif style != "plain":
        rng.shuffle(order)
    if style == "expanded":
        return expanded(t, rng.choice(order), order)
    return ordered(t, order, gap=2 if style == "gaps" else 1, odd=style == "odd")


STYLES = ["turned", "shuffled", "gaps", "expanded", "channels last", "odd", "first", "others"]


def relaid(case, style, rng):
    count = 0

    def one(t):
        nonlocal count
        own = style
        if style == "first":
            own = "turned" if count == 0 else "plain"
        elif style == "others":
            own = "plain" if count == 0 else "shuffled"
        inplace = case.function.endswith("_") and count == 0
        count += 1
        if own in ("expanded", "gaps") and inplace:
            own = "shuffled"
        r = laid_out(t.detach(), own, rng)
        if not ops.expressible(r):
            r = laid_out(t.detach(), "turned", rng)
        if hasattr(t, "seed") and own != "expanded":
            r.seed = t.seed
        return r.requires_grad_(t.wants_grad)

    args = [ops.over_tensors(one, a) for a in case.args]
    return Case(case.function, *args, flags=case.flags, origin="layout: " + style)


# ---- what isn't compared -------------------------------------------------------------

# The outputs of these functions are contiguous here. In torch some lie as columns, some as torch's
# sorting leaves them, and some with the channels of images last.
OUTPUTS_APART = (
    r"nonzero|kron|quantile_with|unique_dim|rms_norm|binary_cross_entropy_with_logits_with|"
    r"conv\w+|\w*pool\d\w+|rotary_embedding"
)
# The name of this function's node depends on the inputs' strides in torch, and here on their sizes.
LEFT_OUT = {"scaled_dot_product_attention_with"}
# The gradients of these functions are computed by other formulas than torch's, and so have other
# strides: products are transposed, and gradients of sums aren't expanded.
GRADIENTS_APART = OUTPUTS_APART + (
    r"|sum\w*|norm\w*|maximum|minimum|fmax|fmin|matmul|mm|bmm|inner|addmm|linear|tensordot\w*|"
    r"masked_select|amax\w*|amin\w*|median\w*|cdist_with|einsum_list|set_items_|take|"
    r"\w+_scan|\w+_loss_with|binary_cross_entropy_with|pairwise_distance"
)


def strides_line(t, function, apart):
    """Returns the line of t's strides, or none: those of an empty tensor don't matter, nor does the
    stride of a single index that is too large to be counted in bytes."""
    if t.numel() == 0 or re.fullmatch(apart, function) or max(t.stride(), default=0) >= 2**59:
        return []
    return ["~ " + ops.shape_text(t.stride())]


# ---- evaluating ----------------------------------------------------------------------


def bools(args):
    return [bool(a) if type(a) is int and a in (0, 1) else a for a in args]


def evaluate(case, call):
    leaves = [t for t in ops.tensors_of(case.args) if t.requires_grad]
    args = [ops.python(a) for a in case.args]
    if case.function.endswith("_") and "direct" not in case.flags:
        args[0] = args[0].clone()
    torch.manual_seed(42)
    try:
        outs = ops.flat(call(*args))
    except TypeError:
        outs = ops.flat(call(*bools(args)))
    lines = []
    for y in outs:
        lines.append(ops.output_line(y, case, args[0]))
        lines += strides_line(y, case.function, OUTPUTS_APART)
    live = [(k, y) for k, y in enumerate(outs) if ops.tracked(y)]
    if not live or not leaves:
        return lines
    if any(
        re.fullmatch(f, case.function) and when(*case.args) for f, when, _ in table.NO_GRADIENT
    ):
        return lines
    gradients = torch.autograd.grad(
        [y for _, y in live],
        leaves,
        [ops.cotangent(k, y) for k, y in live],
        allow_unused=True,
    )
    for g in gradients:
        lines.append(ops.gradient_text("g", g))
        if g is not None:
            lines += strides_line(g, case.function, GRADIENTS_APART)
    return lines


def texts_of(name, cases, most, ctypes, rng):
    call, texts, seen = table.torch_call(name), [], {}
    cases = [c for c in cases if 0 < ops.numel(c) <= MOST]
    cases = [c for c in cases if any(t.dim() > 1 for t in ops.tensors_of(c.args))]
    cases.sort(key=lambda c: -max(t.dim() for t in ops.tensors_of(c.args)))
    for case in cases:
        for t in ops.tensors_of(case.args):
            t.requires_grad_(False)
        seen.setdefault(ops.skeleton(case), []).append(case)
    firsts = [c for group in seen.values() for c in group[:2]]
    rng.shuffle(firsts)
    for round in range(len(STYLES)):
        for i, case in enumerate(firsts):
            if len(texts) == most:
                return texts
            case = relaid(case, STYLES[(i + round) % len(STYLES)], rng)
            try:
                lines = ops.case_lines(case, ctypes)
                text = "\n".join(lines + evaluate(case, call)) + "\n"
            except (Skip, *ops.ERRORS):
                continue
            if text not in texts:
                texts.append(text)
    return texts


def main():
    options = argparse.ArgumentParser()
    options.add_argument("functions", nargs="*")
    options.add_argument("--out", default=os.path.join(HERE, "..", "data"))
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--cases", type=int, default=8)
    options = options.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    functions = {**ops.declared(), **table.PARAMETERS}
    folder = os.path.join(options.out, "layouts")
    os.makedirs(folder, exist_ok=True)
    total = 0
    for path in sorted(glob.glob(os.path.join(HERE, "..", "data", "ops", "*.txt"))):
        name = os.path.basename(path)[:-4]
        if name in LEFT_OUT or options.functions and name not in options.functions:
            continue
        rng = random.Random("%d %s" % (options.seed, name))
        texts = texts_of(name, read(path), options.cases, functions[name], rng)
        if texts:
            with open(os.path.join(folder, name + ".txt"), "w") as f:
                f.write("".join(texts))
        total += len(texts)
    print("%d cases" % total)


if __name__ == "__main__":
    main()
