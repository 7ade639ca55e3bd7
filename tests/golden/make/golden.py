"""golden.py: the other scripts of this folder write their data with it, as tests/golden.h reads it.

    python3 tests/golden/make/layers.py                 writes tests/golden/data/layers.txt
    python3 tests/golden/make/layers.py --out FOLDER    writes FOLDER/layers.txt
    for s in tests/golden/make/*.py; do python3 $s || break; done
    git diff --stat tests/golden/data

The last two lines make all data anew and show what changed, which is nothing with PyTorch 2.13.
"""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
DATA = os.path.join(HERE, "..", "data")


def folder():
    """Returns the folder to write to."""
    if "--out" not in sys.argv:
        return DATA
    out = sys.argv[sys.argv.index("--out") + 1]
    os.makedirs(out, exist_ok=True)
    return out


class Golden:
    """This is a file of golden data, which is written when the `with` block that made it ends."""

    def __init__(self, name):
        import torch

        script = os.path.basename(sys.argv[0])
        version = torch.__version__.split("+")[0]
        self.path = os.path.join(folder(), name + ".txt")
        self.lines = [f"# {name}.txt: made by {script} with PyTorch {version}."]

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is None:
            with open(self.path, "w") as out:
                out.write("\n".join(self.lines) + "\n")

    def line(self, kind, *words):
        self.lines.append(" ".join([kind, *map(str, words)]))

    def case(self, name, *words):
        self.line("=", name, *words)

    def numbers(self, values):
        """Writes numbers, or the texts of numbers."""
        self.line(":", *values)

    def text(self, text):
        for line in text.split("\n") if text else ():
            self.line(">", line)


def values_of(*tensors):
    """Returns the elements of tensors, one behind the other, with every digit."""
    return [repr(v) for t in tensors for v in t.detach().double().flatten().tolist()]


def fnv(data):
    """Returns the FNV-1a hash of bytes."""
    h = 0xCBF29CE484222325
    for byte in data:
        h = (h ^ byte) * 0x100000001B3 & 2**64 - 1
    return h


def comma(items):
    """Returns "2,3", or "." for no items."""
    return ",".join(map(str, items)) or "."


def name_of(dtype):
    """Returns a dtype's name in golden data: f32, f64, bf16, f16, i64, u8 or b."""
    kind = str(dtype).split(".")[1]
    if kind == "bfloat16":
        return "bf16"
    return {"bool": "b", "uint8": "u8"}.get(kind, kind[0] + kind[-2:])
