"""Writes ops/FUNCTION.txt: what PyTorch 2.13 computes for every public function.

    python3 tests/golden/make/ops.py                 writes tests/golden/data/ops/
    python3 tests/golden/make/ops.py softmax add     writes these functions only
    python3 tests/golden/make/ops.py --out FOLDER --seed 7 --budget 200000 --case 20000
    REGARD_GOLDEN=FOLDER build/tests/autograd/test_golden
                                                     tries other and more samples
    python3 tests/golden/make/ops.py --half          writes tests/golden/data/half/: a few of these
                                                     cases in bfloat16 and float16
    python3 tests/golden/make/ops.py --bytes         writes tests/golden/data/bytes/: a few of these
                                                     cases with tensors of uint8, alone and beside
                                                     tensors of other dtypes
    python3 tests/golden/make/ops.py --autocast      writes tests/golden/data/autocast/: a few of
                                                     them under torch.autocast

The functions are those that autograd/ops/ops.h declares, and some of tensor.h. ops_cases.py says
how each is called in torch, how a sample of torch's own OpInfo becomes a call, and which cases were
made by hand. OpInfo needs the package expecttest.

A file is a list of cases; a line's first character says what it holds:

    = softmax x100 direct # OpInfo   a case: function; a tolerance 100 times the usual; flags;
                                     origin and reasons. The flag in=bf16 says that torch calls the
                                     function under autocast in that dtype
    t f64 g 2,3 1,2 : 0.5 1 ..       an argument: dtype, g if it requires grad (or -), shape,
                                     strides, values
    t f64 g 64,64 c r 3              the same with the values of cotangent(3)
    n f 0.5                          a Python number (i, f, b) in place of a tensor
    -                                absent
    i 3                              an integer
    x 0.5                            a double
    L 2,3                            dims
    s text                           a string
    y f32                            a dtype
    B 1                              a bool as an index
    l 2                              a list of the next two
    > f64 AddBackward0 2,3 : ..      an output: dtype, grad_fn ('-': does not require grad), shape,
                                     values
    v f64 ViewBackward0 6 : ..       an output that shares the storage of the first argument
    g 2,3 : ..                       the first gradient of each tensor that requires grad ('g -':
                                     none)
    h 2,3 : ..                       its second gradient
    ! IndexError sentence            instead of outputs: the error ('Error': of any class)
    ? RuntimeError sentence          instead of gradients: the error of backward

Shape '.' is 0-d. ':' may be '/7 12.5 :', which gives every 7th value only and the largest of all.
For the first gradients, output k has the gradient cotangent(k). For the second gradients, the k-th
first gradient has cotangent(100 + k). torch's and our generators are seeded with 42 in each case.
"""

import argparse
import contextlib
import decimal
import glob
import itertools
import math
import os
import random
import re
import sys
import warnings

import numpy as np
import torch

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.dont_write_bytecode = True
import ops_cases as table
from ops_cases import Case, Number, Skip

NAMES = {torch.float64: "f64", torch.float32: "f32", torch.int64: "i64", torch.bool: "b"}
# Functions whose cases in float16 are left out.
NOT_IN_FLOAT16 = {
    "norm_p": "torch's gradient is 0, as a power of the norm overflows",
    "binary_cross_entropy_with": "torch's gradient is NaN, as its 1e-12 is 0 in float16",
}
HALVES = {torch.bfloat16: "bf16", torch.float16: "f16"}
BYTES = {torch.uint8: "u8"}
# Functions whose cases with bytes are made by hand, or left out.
ONLY_BY_HAND = {"set_items_": "its indices would become masks of other shapes"}
NOT_IN_BYTES = {
    "rotary_embedding": "ours is an op of its own, of floats",
}
WHOLE = (torch.int64, torch.uint8)
ERRORS = (RuntimeError, IndexError, ValueError, TypeError, AssertionError)
FOUR = decimal.Context(prec=4, rounding=decimal.ROUND_DOWN)
KEEP = 48  # An expected tensor of more values is thinned.


# ---- what the header declares --------------------------------------------------------


def declared():
    """Returns the functions of autograd/ops/ops.h: name -> the types of the parameters."""
    text = open(os.path.join(HERE, "../../../autograd/ops/ops.h")).read()
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    functions = {}
    for name, params in re.findall(
        r"^(?:rg_tensor \*|rg_list +|rg_values_indices |rg_unique_result )rg_(\w+)\((.*?)\);",
        text,
        re.S | re.M,
    ):
        functions[name] = [re.sub(r"\s*\w+$", "", p.strip()) for p in params.split(",")]
    return functions


# ---- tensors -------------------------------------------------------------------------


def short(v, dtype):
    """Returns the shortest text that gives back exactly this value."""
    if dtype == torch.bool:
        return "1" if v else "0"
    if dtype in WHOLE:
        return str(v)
    if v != v or v in (math.inf, -math.inf):
        return str(v)
    s = repr(v) if dtype == torch.float64 else str(np.float32(v))
    return s[:-2] if s.endswith(".0") else s


def shown(v, dtype):
    """Returns an expected value as text, with two digits more than the comparison needs."""
    if dtype != torch.float64:
        return short(v, dtype)
    return min("%.14g" % v, short(v, dtype), key=len)


def rounded(t):
    """Rounds t to four significant digits, towards zero, so that its text is short."""

    def one(v):
        return v if not math.isfinite(v) else float(FOUR.create_decimal_from_float(v))

    if not t.is_floating_point() or t.numel() == 0:
        return t
    return torch.tensor([one(v) for v in t.flatten().tolist()], dtype=t.dtype).reshape(t.shape)


def expressible(t):
    """Returns whether narrow, permute and expand of a contiguous tensor give the strides."""
    dims = sorted(((st, sz) for st, sz in zip(t.stride(), t.shape) if st and sz != 1), reverse=True)
    return all(a[0] % b[0] == 0 and a[0] // b[0] >= b[1] for a, b in zip(dims, dims[1:]))


def laid_out(t, style):
    """Returns the same values (except for 'expanded') with other strides."""
    if t.dim() == 0 or t.numel() == 0:
        return t.clone()
    if style == "turned":
        return t.transpose(0, -1).contiguous().transpose(0, -1)
    if style == "stepped":
        wide = torch.zeros(*t.shape[:-1], t.shape[-1] * 2, dtype=t.dtype)
        wide[..., ::2] = t
        return wide[..., ::2]
    if style == "expanded":
        dim = max(range(t.dim()), key=lambda d: t.shape[d])
        return t.narrow(dim, 0, 1).contiguous().expand(t.shape)
    return t.contiguous().clone()


def prepared(t, style=None):
    """Returns a tensor of a case: exact in little text, with the strides that are asked for. It
    requires grad if t did."""
    if style is None and not expressible(t):
        style = "plain"
    r = rounded(t.detach())
    if style:
        r = laid_out(r, style)
    elif not t.is_contiguous():
        buffer = torch.zeros(
            max((sum((s - 1) * st for s, st in zip(t.shape, t.stride())) + 1), 1), dtype=t.dtype
        )
        view = buffer.as_strided(t.shape, t.stride())
        if t.numel():
            for i in np.ndindex(*t.shape):
                view[i] = r[i]
        r = view
    return r.requires_grad_(t.requires_grad)


def fresh(t):
    """Returns a copy of t: a leaf with the same values and strides. Cases made by hand share
    tensors, so each case gets copies."""
    storage = t.detach().untyped_storage().clone()
    r = torch.empty(0, dtype=t.dtype).set_(storage, t.storage_offset(), t.shape, t.stride())
    if hasattr(t, "seed"):
        r.seed = t.seed
    return r.requires_grad_(t.requires_grad)


def over_tensors(f, arg):
    if isinstance(arg, torch.Tensor):
        return f(arg)
    if isinstance(arg, (list, tuple)) and any(isinstance(a, torch.Tensor) for a in arg):
        return [over_tensors(f, a) for a in arg]
    return arg


def tensors_of(args):
    for a in args:
        if isinstance(a, torch.Tensor):
            yield a
        elif isinstance(a, (list, tuple)):
            yield from tensors_of(a)


def numel(case):
    return sum(t.numel() for t in tensors_of(case.args))


def cotangent(k, like):
    return table.numbers(k, like.shape, like.dtype)


# ---- evaluating ----------------------------------------------------------------------


def python(arg):
    return arg.value if isinstance(arg, Number) else arg


def flat(out):
    if isinstance(out, torch.Tensor):
        return [out]
    if isinstance(out, bool):
        return [torch.tensor(int(out))]
    return [t for o in out for t in flat(o)]


def sentence(error):
    """Returns the message without what names the caller, Python's overloads, or the C++ stack."""
    text = " ".join(str(error).split("\nException raised from")[0].split())
    return re.sub(r"^[\w.]+\(\): ", "", text)


def kind(error):
    for k in (NotImplementedError, IndexError, ValueError, TypeError, AssertionError, RuntimeError):
        if isinstance(error, k):
            return k.__name__


def tracked(y):
    # In torch a bool may have requires_grad set.
    return y.requires_grad and y.is_floating_point()


def shares(y, x):
    return (
        isinstance(x, torch.Tensor)
        and y.numel() > 0
        and y.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    )


def node_of(y, function):
    """Returns the name that the node of an output must have here: torch's, but see NODES."""
    if not tracked(y):
        return "-"
    node = "leaf" if y.is_leaf else y.grad_fn.name().rsplit("::", 1)[-1]
    for f, torchs, ours, _ in table.NODES:
        if re.fullmatch(f, function) and node == torchs:
            return ours
    return node


def output_line(y, case, first_argument):
    if y.dim() > 8:
        raise Skip("more than 8 dims")
    if y.dtype not in NAMES:
        raise Skip("the result is %s" % y.dtype)
    letter = "v" if shares(y, first_argument) else ">"
    node = node_of(y, case.function)
    return " ".join([letter, NAMES[y.dtype], node, shape_text(y.shape), values_text(y)])


def gradient_lines(case, outs, leaves):
    """Returns the lines of the first and second gradients, or of the error of backward."""
    live = [(k, y) for k, y in enumerate(outs) if tracked(y)]
    if not live or any(
        re.fullmatch(f, case.function) and when(*case.args) for f, when, _ in table.NO_GRADIENT
    ):
        return []
    second = leaves[0].dtype == torch.float64 and "first" not in case.flags
    try:
        first = torch.autograd.grad(
            [y for _, y in live],
            leaves,
            [cotangent(k, y) for k, y in live],
            create_graph=second,
            allow_unused=True,
        )
    except ERRORS as e:
        line = table.error_of(case.function, "? %s %s" % (kind(e), sentence(e)))
        return [line] if line else []
    lines = [gradient_text("g", g) for g in first]
    return lines + second_gradient_lines(leaves, first) if second else lines


def second_gradient_lines(leaves, first):
    again = [(k, g) for k, g in enumerate(first) if g is not None and g.requires_grad]
    if not again:
        return ["h -"] * len(leaves)
    try:
        twice = torch.autograd.grad(
            [g for _, g in again],
            leaves,
            [cotangent(100 + k, g) for k, g in again],
            allow_unused=True,
        )
        return [gradient_text("h", h) for h in twice]
    except ERRORS:
        return []  # torch has no second derivative here, so nothing is compared.


def autocast_of(case):
    """Returns the autocast under which the function is called."""
    for dtype, name in HALVES.items():
        if "in=" + name in case.flags:
            return torch.autocast("cpu", dtype)
    return contextlib.nullcontext()


def evaluate(case, call):
    """Returns the lines of expectation behind a case's arguments."""
    leaves = [t for t in tensors_of(case.args) if t.requires_grad]
    args = list(case.args)
    if case.function.endswith("_") and "direct" not in case.flags:
        args[0] = args[0].clone()
    torch.manual_seed(42)
    try:
        with autocast_of(case):
            outs = flat(call(*map(python, args)))
    except ERRORS as e:
        return ["! %s %s" % (kind(e), sentence(e))]
    if len(outs) > 32:
        raise Skip("more than 32 results")
    lines = [output_line(y, case, args[0]) for y in outs]
    return lines + gradient_lines(case, outs, leaves)


# ---- writing -------------------------------------------------------------------------


def shape_text(shape):
    return ",".join(map(str, shape)) or "."


def values_text(t, exact=False):
    text, values = short if exact else shown, t.detach().flatten().tolist()
    if exact or len(values) <= KEEP:
        return ": " + " ".join(text(v, t.dtype) for v in values) if values else ":"
    step = next(
        s for s in itertools.count(-(-len(values) // KEEP)) if math.gcd(s, len(values)) == 1
    )
    finite = [abs(v) for v in values if math.isfinite(v)]
    return "/%d %s : " % (step, text(max(finite, default=0), t.dtype)) + " ".join(
        text(v, t.dtype) for v in values[::step]
    )


def gradient_text(letter, g):
    return (
        letter + " -" if g is None else "%s %s %s" % (letter, shape_text(g.shape), values_text(g))
    )


def argument_lines(arg, ctype):
    if isinstance(arg, torch.Tensor):
        grad = "g" if arg.requires_grad else "-"
        plain = arg.stride() == torch.empty(arg.shape).stride()
        strides = "c" if plain else shape_text(arg.stride())
        values = "r %d" % arg.seed if hasattr(arg, "seed") else values_text(arg, exact=True)
        return [" ".join(["t", NAMES[arg.dtype], grad, shape_text(arg.shape), strides, values])]
    if arg is None:
        return ["-"]
    if isinstance(arg, torch.dtype):
        return ["y " + NAMES[arg]]
    if isinstance(arg, Number) or (ctype == "rg_tensor *" and isinstance(arg, (bool, int, float))):
        v = python(arg)
        if not isinstance(v, int):
            return ["n f " + short(v, torch.float64)]
        return ["n %s %d" % ("b" if isinstance(v, bool) else "i", v)]
    if isinstance(arg, str):
        return ["s " + arg]
    if ctype == "double":
        return ["x " + short(float(arg), torch.float64)]
    if ctype == "item" and isinstance(arg, bool):
        return ["B %d" % arg]
    if isinstance(arg, (bool, int)):
        return ["i %d" % arg]
    if ctype in ("rg_dims", "const int64_t *"):
        return ["L " + shape_text(arg)]
    if not isinstance(arg, (list, tuple)):
        raise Skip("%r for %s" % (arg, ctype))
    return ["l %d" % len(arg)] + [line for a in arg for line in argument_lines(a, "rg_tensor *")]


def case_lines(case, ctypes):
    head = "= " + case.function
    loose = [
        (factor, why)
        for f, when, factor, why in table.TOLERANCES
        if re.fullmatch(f, case.function) and when(*case.args)
    ]
    if case.function in table.ROUNDED_STEPS and any(f.startswith("in=") for f in case.flags):
        loose.append((1000, "torch rounds the products of each step"))
    head += "".join(" x%d" % factor for factor, _ in loose)
    flags = [f for f in sorted(case.flags) if f == "direct" or f.startswith("in=")]
    head += "".join(" " + f for f in flags) + " # " + case.origin
    head += "".join("; " + why for _, why in loose)
    lines = [head]
    for i, arg in enumerate(case.args):
        lines += argument_lines(arg, ctypes[min(i, len(ctypes) - 1)])
    return lines


# ---- choosing ------------------------------------------------------------------------


def skeleton(case):
    """Returns what a case looks like. Of cases that look the same, one or few are enough."""

    def look(a):
        if isinstance(a, torch.Tensor):
            return (a.dtype, a.dim(), a.numel() == 0, a.requires_grad)
        if isinstance(a, (list, tuple)):
            return tuple(look(x) for x in a)
        return type(a) if isinstance(a, (float, Number)) else a

    return tuple(look(a) for a in case.args)


def set_sizes(s, m):
    """Sets the sizes S and M, of which OpInfo makes its samples."""
    from torch.testing._internal import common_methods_invocations, opinfo

    definitions = "torch.testing._internal.opinfo.definitions"
    modules = [common_methods_invocations, opinfo.core] + [
        m for name, m in sys.modules.items() if name.startswith(definitions)
    ]
    for module in modules:
        if hasattr(module, "S"):
            module.S = s
        if hasattr(module, "M"):
            module.M = m


def samples_of(op, dtype, seed):
    """Returns pairs of a sample and its origin. The samples are small where the op allows that."""
    samples = []
    for sizes in (3, 4), (5, 10):
        set_sizes(*sizes)
        torch.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed)
        try:
            inputs = op.sample_inputs("cpu", dtype, requires_grad=dtype.is_floating_point)
            samples = [(s, "OpInfo") for s in itertools.islice(inputs, 400)]
            break
        except (RuntimeError, IndexError, ValueError, AssertionError):
            continue
    if op.error_inputs_func and dtype == torch.float32:
        samples += [(s.sample_input, "OpInfo error") for s in op.error_inputs("cpu")]
    return samples


def case_of(adapter, sample):
    case = adapter(sample.input, *sample.args, **sample.kwargs)
    if isinstance(case, tuple):
        case = Case(*case)
    for t in tensors_of(case.args):
        if t.dtype not in NAMES or t.device.type != "cpu" or t.layout != torch.strided:
            raise Skip("%s %s" % (t.dtype, t.device))
        if t.dim() > 8:
            raise Skip("more than 8 dims")
    return case


def from_opinfo(table, functions, seed):
    """Returns the cases that torch's OpInfo gives: function -> cases, and the counted reasons for
    what was skipped."""
    from torch.testing._internal.common_methods_invocations import op_db

    cases, skipped = {}, {}
    for op in op_db:
        adapter = table.get((op.name, op.variant_test_name), table.get(op.name))
        if adapter is None:
            continue
        for dtype in (torch.float64, torch.float32, torch.int64, torch.bool):
            if not op.supports_dtype(dtype, "cpu"):
                continue
            for sample, origin in samples_of(op, dtype, seed):
                try:
                    case = case_of(adapter, sample)
                except (Skip, TypeError, ValueError) as e:
                    reason = "%s: %s" % (op.name, str(e).split("\n")[0][:90])
                    skipped[reason] = skipped.get(reason, 0) + 1
                    continue
                case.origin = origin
                cases.setdefault(case.function, []).append(case)
                if case.function + "_" in functions and isinstance(case.args[0], torch.Tensor):
                    inplace = Case(case.function + "_", *case.args, origin=origin)
                    cases.setdefault(inplace.function, []).append(inplace)
    set_sizes(5, 10)
    return cases, skipped


def varied(cases, limit):
    """Yields small cases first, unlike ones before alike ones, some with other strides."""
    rng = random.Random(1)
    seen, ranked = {}, []
    for case in sorted(cases, key=numel):
        if numel(case) > limit:
            continue
        rank = seen[skeleton(case)] = seen.get(skeleton(case), -1) + 1
        ranked.append((rank, case))
    ranked.sort(key=lambda r: r[0])
    for _, case in ranked:
        if case.origin == "OpInfo":
            style = rng.choice([None, None, "turned", "stepped", "expanded"])
            case.args = [
                over_tensors(lambda t: prepared(t, style if t.is_floating_point() else None), a)
                for a in case.args
            ]
            if style:
                case.origin += " " + style
        else:
            case.args = [over_tensors(prepared, a) for a in case.args]
        yield case


def text_of(case, call, ctypes):
    """Returns a case with its expected results, or None if a 'valid' case fails in torch."""
    if case.origin == "by hand":
        case.args = [over_tensors(fresh, a) for a in case.args]
    if re.fullmatch(table.NOT_TRACKED, case.function):
        case.args = [over_tensors(torch.detach, a) for a in case.args]
    # The lines come first, as a call may change its arguments.
    lines = case_lines(case, ctypes)
    expectation = evaluate(case, call)
    if expectation and expectation[0].startswith("!"):
        if "valid" in case.flags:
            return None
        changed = table.error_of(case.function, expectation[0])
        if changed is None:
            raise Skip(expectation[0][:80])
        expectation[0] = changed
    return "\n".join(lines + expectation) + "\n"


def texts_of(name, cases, budget, ctypes, skipped):
    """Returns the texts of a function's cases: of all that are made by hand, and of others until
    these take `budget` bytes, or a third of it for a function in place."""
    call = table.torch_call(name)
    texts, room = [], budget // (3 if name.endswith("_") else 1)
    for case in cases:
        hand = case.origin == "by hand"
        if not hand and room < 0:
            break
        try:
            text = text_of(case, call, ctypes)
        except Skip as e:
            reason = "%s: %s" % (name, e)
            skipped[reason] = skipped.get(reason, 0) + 1
            continue
        if text is None or text in texts:
            continue
        texts.append(text)
        if not hand:
            room -= len(text)
    return texts


def converted(case, dtypes, flags=()):
    """Returns the case with its float64 tensors in the dtypes, which are taken in turn."""
    turn = itertools.cycle(dtypes)

    def one(t):
        if t.dtype != torch.float64:
            return t
        return t.detach().to(next(turn)).requires_grad_(t.requires_grad)

    args = [over_tensors(one, a) for a in case.args]
    return Case(case.function, *args, flags=[*case.flags, *flags], origin=case.origin)


def converted_texts_of(name, cases, ctypes, skipped, changes):
    """Returns the texts of a few cases for each row of `changes`, which differ in kind, and in
    which torch doesn't fail. A row has dtypes, flags, and the most cases."""
    call = table.torch_call(name)
    wide = [c for c in cases if any(t.dtype == torch.float64 for t in tensors_of(c.args))
            and not any(t.dtype == torch.float32 for t in tensors_of(c.args))
            and 2 <= numel(c) <= 60]
    texts = []
    for dtypes, flags, most in changes:
        seen = set()
        for case in wide:
            look = str(skeleton(case))
            left_out = torch.float16 in dtypes and name in NOT_IN_FLOAT16
            if look in seen or len(seen) == most or left_out:
                continue
            case = converted(case, dtypes, flags)
            if len({t.dtype for t in tensors_of(case.args)} & set(dtypes)) < len(dtypes):
                continue
            try:
                text = text_of(case, call, ctypes)
            except Skip as e:
                reason = "%s: %s" % (name, e)
                skipped[reason] = skipped.get(reason, 0) + 1
                continue
            if text is None or "\n! " in text or "\n? " in text:
                continue
            seen.add(look)
            texts.append(text)
    return texts


def as_bytes(t):
    """Returns the numbers as bytes: floats are spread over all of them, and integers, which may be
    indices, stay as they are if they can. Bools stay."""
    if t.dtype == torch.bool:
        return t
    whole = t.detach()
    if t.is_floating_point():
        whole = torch.nan_to_num(whole.double() * 40, 0, 0, 0).clamp(-1000, 1000).long()
    with_strides = torch.empty_strided(t.shape, t.stride(), dtype=torch.uint8)
    return with_strides.copy_(whole & 255) if 0 not in t.stride() else (whole & 255).byte()


def byte_variants(case):
    """Yields the case with bytes in place of its floats, of all its numbers, of those of its first
    tensor, and of those of its other tensors. The other tensors of these have float32."""

    def variant(is_byte):
        k = itertools.count()

        def one(t):
            if is_byte(next(k), t):
                return as_bytes(t)
            if not t.is_floating_point():
                return t
            return t.detach().float().requires_grad_(t.requires_grad)

        args = [over_tensors(one, a) for a in case.args]
        return Case(case.function, *args, flags=[*case.flags, "first"], origin=case.origin)

    yield variant(lambda k, t: t.is_floating_point())
    yield variant(lambda k, t: True)
    if len(list(tensors_of(case.args))) > 1:
        yield variant(lambda k, t: k == 0)
        yield variant(lambda k, t: k > 0)


def fails(case, call):
    try:
        call(*[python(over_tensors(fresh, a)) for a in case.args])
    except ERRORS:
        return True
    return False


def byte_cases(name, cases, call):
    """Yields the cases of a function with bytes: those made by hand, and variants of a few others
    that differ in kind. Of a case that fails without bytes, torch and ours may name two faults."""
    yield from (c for c in table.with_bytes() if c.function == name)
    seen = {}
    for case in cases:
        sizes = [t.numel() for t in tensors_of(case.args)]
        mixed = "clamp" in name and len({type(python(a)) for a in case.args[1:]} - {type(None)}) > 1
        if mixed or name in ONLY_BY_HAND or fails(case, call):
            continue
        if not sizes or min(sizes) == 0 or sum(sizes) > 24:
            continue
        for number, variant in enumerate(byte_variants(case)):
            dtypes = [t.dtype for t in tensors_of(variant.args)]
            look = str([number, dtypes, [type(python(a)) for a in variant.args]])
            seen[look] = seen.get(look, 0) + 1
            if torch.uint8 in dtypes and len(seen) <= 12 and seen[look] <= 2:
                yield variant


def byte_texts_of(name, cases, ctypes, skipped):
    call = table.torch_call(name)
    texts = []
    for case in byte_cases(name, cases, call) if name not in NOT_IN_BYTES else []:
        try:
            text = text_of(case, call, ctypes)
        except Skip as e:
            reason = "%s: %s" % (name, e)
            skipped[reason] = skipped.get(reason, 0) + 1
            continue
        if text and text not in texts:
            texts.append(text)
    return texts


HALF = [([dtype], [], 2) for dtype in HALVES]
AUTOCAST = [
    ([torch.float32], ["in=bf16"], 2),
    ([torch.bfloat16], ["in=bf16"], 1),
    ([torch.float32, torch.bfloat16], ["in=bf16"], 1),
    ([torch.bfloat16, torch.float32], ["in=bf16"], 1),
    ([torch.float64], ["in=bf16"], 1),
    ([torch.float32], ["in=f16"], 1),
]


def alone(name, cases):
    """Yields variants of small cases in which one of several tensors alone requires grad: a result
    may require grad for the sake of one of its inputs only."""
    small = []
    for case in cases:
        floats = [t for t in tensors_of(case.args) if t.is_floating_point()]
        if len({id(t) for t in floats}) == len(floats) > 1 and all(
            t.numel() and t.is_contiguous() for t in floats
        ):
            small.append((numel(case), len(small), case, floats))
    for _, _, case, floats in sorted(small)[:3]:
        for chosen in floats:

            def requiring(t):
                t = t.detach()
                return t.requires_grad_() if t.data_ptr() == chosen.data_ptr() else t

            args = [over_tensors(requiring, a) for a in case.args]
            yield Case(name, *args, flags=["valid", *case.flags], origin="by hand")


def parsed_options():
    options = argparse.ArgumentParser()
    options.add_argument("functions", nargs="*")
    options.add_argument("--out", default=os.path.join(HERE, "..", "data"))
    options.add_argument("--half", action="store_true")
    options.add_argument("--bytes", action="store_true")
    options.add_argument("--autocast", action="store_true")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument(
        "--budget",
        type=int,
        default=20000,
        help="bytes of text for a function, beside hand-made cases",
    )
    options.add_argument(
        "--case", type=int, default=160, help="most elements in the arguments of a case"
    )
    return options.parse_args()


def remove_unknown(folder, functions):
    for path in glob.glob(os.path.join(folder, "*.txt")):
        if os.path.basename(path)[:-4] not in functions:
            os.remove(path)


def main():
    options = parsed_options()
    kind = "ops"
    for one in "half", "bytes", "autocast":
        kind = one if getattr(options, one) else kind
    changes = {"half": HALF, "autocast": AUTOCAST}.get(kind)
    folder = os.path.join(options.out, kind)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)

    functions = {**declared(), **table.PARAMETERS}
    missing = [f for f in options.functions if f not in functions]
    if missing:
        sys.exit("not declared: " + " ".join(missing))
    names = {"half": HALVES, "bytes": {**BYTES, **HALVES}, "autocast": HALVES, "ops": {}}
    NAMES.update(names[kind])
    opinfo, skipped = from_opinfo(table.OPINFO, functions, options.seed)
    by_hand = {}
    for case in table.by_hand():
        by_hand.setdefault(case.function, []).append(case)
    for unknown in (set(opinfo) | set(by_hand)) - set(functions):
        sys.exit("ops.h has no function " + unknown)

    os.makedirs(folder, exist_ok=True)
    total = empty = written = 0
    for name in sorted(options.functions or functions):
        cases = by_hand.get(name, [])
        cases = cases + list(alone(name, cases)) + list(varied(opinfo.get(name, []), options.case))
        if changes:
            texts = converted_texts_of(name, cases, functions[name], skipped, changes)
        elif options.bytes:
            texts = byte_texts_of(name, cases, functions[name], skipped)
        else:
            texts = texts_of(name, cases, options.budget, functions[name], skipped)
        path = os.path.join(folder, name + ".txt")
        if not texts:
            print("no case: " + name)
            empty += 1
            if os.path.exists(path):
                os.remove(path)
            continue
        with open(path, "w") as f:
            f.write("".join(texts))
        total += len(texts)
        written += sum(map(len, texts))
    if not options.functions:
        remove_unknown(folder, functions)
    print("skipped samples, and why:")
    for reason, n in sorted(skipped.items(), key=lambda r: -r[1]):
        print("%6d  %s" % (n, reason))
    print(
        "%d functions, %d without a case, %d cases, %d bytes"
        % (len(options.functions or functions), empty, total, written)
    )


if __name__ == "__main__":
    main()
