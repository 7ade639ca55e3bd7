"""safetensors.py: what safetensors writes, regard reads and writes again, and safetensors reads.

    python3 tests/exchange/safetensors.py PROGRAM      PROGRAM is build/tests/exchange/safetensors

200 random state_dicts go both ways, to the bit: odd shapes, every dtype, names that are empty, very
long or in any script, views and ties. A tied GPT goes through save_model and load_model. What
safetensors refuses, regard refuses, too. Ends with 1 where anything differs.
"""

import json
import os
import random
import subprocess
import sys
import tempfile

# This file's folder holds a module of the package's name.
sys.path.pop(0)

import numpy
import torch
from safetensors import safe_open
from safetensors.numpy import load_file as load_numpy
from safetensors.numpy import save_file as save_numpy
from safetensors.torch import load_file, load_model, save_file, save_model

DTYPES = [torch.bool, torch.uint8, torch.int8, torch.uint16, torch.int16, torch.uint32,
          torch.int32, torch.uint64, torch.int64, torch.float8_e4m3fn, torch.float8_e5m2,
          torch.float8_e8m0fnu, torch.float16, torch.bfloat16, torch.float32, torch.float64]
PROGRAM = os.path.abspath(sys.argv[1])


def run(*args):
    return subprocess.run([PROGRAM, *args], capture_output=True, text=True)


def must_run(*args):
    done = run(*args)
    assert done.returncode == 0, done.stderr


def bits(t):
    """Returns a tensor's dtype, shape and bytes."""
    t = t.contiguous()
    return t.dtype, t.shape, t.flatten().view(torch.uint8).numpy().tobytes() if t.numel() else b""


def as_regard(t):
    """Returns the tensor as regard reads it, in one of its own dtypes."""
    if t.dtype in (torch.bool, torch.int64, torch.float32, torch.float64, torch.bfloat16,
                   torch.float16, torch.uint8):
        return t
    return t.float() if t.is_floating_point() else t.to(torch.int64)


def nans_alike(t):
    """Returns the tensor with the same bits in all NaNs, which PyTorch's conversions may change."""
    return torch.where(t.isnan(), torch.nan, t) if t.is_floating_point() else t


def random_name(rng):
    kind = rng.randrange(8)
    if kind == 0:
        return "".join(chr(rng.randrange(1, 0x80)) for _ in range(rng.randrange(6)))
    if kind == 1:
        return "x" * rng.randrange(300, 5000)
    if kind == 2:
        return "".join(rng.choice("\u00fc\u65e5\U0001f600\u202e\ufeff\"\\/\n\0"[:-1])
                       for _ in range(4))
    return ".".join(rng.choice(["h", "0", "weight", "attn", "", "ln_1"])
                    for _ in range(rng.randrange(1, 5)))


def random_tensor(rng):
    dtype = rng.choice(DTYPES)
    shape = [rng.choice([0, 1, 2, 3, 5, 8]) for _ in range(rng.randrange(0, 9))]
    while shape and torch.Size(shape).numel() > 5000:
        shape.pop()
    n = torch.Size(shape).numel() * dtype.itemsize
    raw = torch.tensor([rng.randrange(256) for _ in range(n)], dtype=torch.uint8)
    if dtype == torch.bool:
        raw &= 1
    if dtype == torch.uint64:
        raw[7::8] &= 127
    return raw.view(dtype).reshape(shape) if n else torch.empty(shape, dtype=dtype)


def random_dict(rng):
    d = {random_name(rng): random_tensor(rng) for _ in range(rng.randrange(0, 12))}
    if rng.random() < 0.5:
        d["view"] = torch.randn(7, 5).t()[1:4, ::2].contiguous()
    return d


def check_same(d, back):
    assert d.keys() == back.keys()
    for k, t in d.items():
        want = as_regard(t)
        if want.dtype == t.dtype:
            assert bits(want) == bits(back[k]), (k, t.dtype)
        else:
            assert bits(nans_alike(want)) == bits(nans_alike(back[k])), (k, t.dtype)


def both_ways(folder, rng):
    a, b, c = (os.path.join(folder, name) for name in "abc")
    d = random_dict(rng)
    metadata = {random_name(rng): random_name(rng)} if rng.random() < 0.5 else None
    save_file(d, a, metadata=metadata)
    must_run(rng.choice(["copy", "lazy"]), a, b)
    back = load_file(b)
    check_same(d, back)
    with safe_open(b, "pt") as f:
        assert f.metadata() == metadata
    # The file that regard wrote must have the bytes that safetensors writes.
    save_file(back, c, metadata=metadata)
    assert open(b, "rb").read() == open(c, "rb").read()


def through_numpy(folder, rng):
    a, b = os.path.join(folder, "a"), os.path.join(folder, "b")
    kinds = ["bool", "u1", "i1", "u2", "i2", "u4", "i4", "i8", "f2", "f4", "f8"]
    d = {f"{i}": (numpy.arange(24) * 5 % 2 if k == "bool" else numpy.arange(24)).astype(k)
         .reshape(2, 3, 4) for i, k in enumerate(kinds)}
    save_numpy(d, a)
    must_run("copy", a, b)
    back = load_numpy(b)
    assert d.keys() == back.keys()
    for k in d:
        assert numpy.array_equal(d[k], back[k])


class Tree(torch.nn.Module):
    def __init__(self, tensors):
        super().__init__()
        for name, t in tensors.items():
            *path, last = name.split(".")
            m = self
            for part in path:
                if part not in m._modules:
                    m.add_module(part, torch.nn.Module())
                m = m._modules[part]
            m.register_parameter(last, torch.nn.Parameter(t))


def gpt_shapes():
    """Returns the names and shapes of the parameters of the program's GPT."""
    n, layers, vocab, block = 4, 2, 7, 5
    shapes = {"transformer.wte.weight": (vocab, n), "transformer.wpe.weight": (block, n)}
    for i in range(layers):
        h = f"transformer.h.{i}."
        for norm in ("ln_1", "ln_2"):
            shapes |= {f"{h}{norm}.weight": (n,), f"{h}{norm}.bias": (n,)}
        for name, out, into in (("attn.c_attn", 3 * n, n), ("attn.c_proj", n, n),
                                ("mlp.c_fc", 4 * n, n), ("mlp.c_proj", n, 4 * n)):
            shapes |= {f"{h}{name}.weight": (out, into), f"{h}{name}.bias": (out,)}
    shapes |= {"transformer.ln_f.weight": (n,), "transformer.ln_f.bias": (n,)}
    return shapes | {"lm_head.weight": (vocab, n)}


def gpt():
    m = Tree({k: torch.randn(s) for k, s in gpt_shapes().items()})
    m.transformer.wte.weight = m.lm_head.weight
    return m


def through_module(folder):
    a, b, c = (os.path.join(folder, name) for name in "abc")
    m, other = gpt(), gpt()
    save_model(m, a, metadata={"format": "pt"})
    must_run("gpt", a, b)
    assert load_model(other, b) == (set(), [])
    for k, t in m.state_dict().items():
        assert torch.equal(t, other.state_dict()[k])
    with safe_open(a, "pt") as f, safe_open(b, "pt") as g:
        assert f.metadata() == g.metadata() and f.keys() == g.keys()
    # A file may have the other name of a tied weight, but not both names.
    d = load_file(a)
    d["transformer.wte.weight"] = d["lm_head.weight"].clone()
    save_file(d, c)
    done = run("gpt", c, b)
    assert 'Unexpected key(s) in state_dict: "transformer.wte.weight"' in done.stderr, done.stderr
    try:
        load_model(other, c)
        raise AssertionError("load_model takes both names")
    except RuntimeError as e:
        assert str(e).split("\n")[1] == done.stderr.strip("\n").split("\n")[1]
    del d["lm_head.weight"]
    save_file(d, c)
    must_run("gpt", c, b)
    load_model(other, c)


def crafted(rng):
    """Returns the bytes of a file, perhaps with a mistake."""
    header = {"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
              "b": {"dtype": "I64", "shape": [], "data_offsets": [8, 16]}}
    text, size = json.dumps(header), 16
    for _ in range(rng.randrange(3)):
        at = rng.randrange(len(text))
        text = text[:at] + rng.choice('0123456789[]{},:"ab -.eF') + text[at + rng.randrange(2):]
    size += rng.choice([0, 0, 0, -1, 1])
    raw = text.encode()
    n = len(raw) + rng.choice([0] * 8 + [1, -1])
    return n.to_bytes(8, "little") + raw + bytes(size)


def refusals(folder, rng):
    """Returns how many files both refuse, and how many regard alone does."""
    a, b = os.path.join(folder, "a"), os.path.join(folder, "b")
    with open(a, "wb") as f:
        f.write(crafted(rng))
    try:
        load_file(a)
        taken = True
    except Exception:
        taken = False
    done = run("copy", a, b)
    assert done.returncode in (0, 1) and (done.returncode == 0 or a in done.stderr)
    assert taken or done.returncode == 1, ("regard alone takes", open(a, "rb").read())
    return not taken, taken and done.returncode == 1


def main():
    rng = random.Random(14)
    torch.manual_seed(14)
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(200):
            both_ways(folder, rng)
        through_numpy(folder, rng)
        through_module(folder)
        found = [refusals(folder, rng) for _ in range(300)]
    print(f"safetensors: 200 state_dicts and a tied module both ways; of 300 crafted files "
          f"{sum(f[0] for f in found)} are refused by both, {sum(f[1] for f in found)} by regard")


main()
