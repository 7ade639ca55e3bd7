"""safetensors_files.py: writes the safetensors files of tests/golden/files/ with safetensors and
PyTorch, and what test_safetensors.c and test_foreign.c expect of them and of the small types.

    python3 tests/golden/make/safetensors_files.py
"""

import os

import torch
from safetensors.torch import save_file, save_model

import golden

FILES = os.path.join(golden.HERE, "..", "files")
FLOAT8 = {"f8_e4m3": torch.float8_e4m3fn, "f8_e5m2": torch.float8_e5m2,
          "f8_e8m0": torch.float8_e8m0fnu}
HALVES = {"f16": torch.float16, "bf16": torch.bfloat16}


def path(name):
    return os.path.join(FILES, name + ".safetensors")


def bits_of(dtype, codes):
    """Returns the bits of the float32 that each code becomes. All NaNs of a sign count as one."""
    kind = torch.uint8 if codes == 256 else torch.uint16
    values = torch.arange(codes, dtype=torch.int32).to(kind).view(dtype).float()
    bits = values.view(torch.int32).long() & 0xFFFFFFFF
    nan = (bits & 0x80000000) | 0x7FC00000
    return torch.where(values.isnan(), nan, bits).tolist()


def write_foreign():
    with golden.Golden("foreign") as g:
        for name, dtype in FLOAT8.items():
            g.case(name)
            bits = bits_of(dtype, 256)
            for i in range(0, 256, 8):
                g.numbers(f"{b:08x}" for b in bits[i : i + 8])
        for name, dtype in HALVES.items():
            g.case(name)
            data = b"".join(b.to_bytes(4, "little") for b in bits_of(dtype, 65536))
            g.numbers([f"{golden.fnv(data):016x}"])


def types():
    """Returns a tensor of each type that safetensors has and regard reads."""
    ints = [0, 1, -1, 127, -128, 100, 7, -3]
    floats = [0.0, -0.0, 1.5, -2.25, float("inf"), float("-inf"), 0.007812, 240.0]
    d = {"bool": torch.tensor([[True, False], [False, True]]),
         "u8": torch.tensor([0, 1, 255, 128], dtype=torch.uint8),
         "i8": torch.tensor(ints, dtype=torch.int8).reshape(2, 2, 2),
         "u16": torch.tensor([0, 65535, 258], dtype=torch.uint16),
         "i16": torch.tensor([-32768, 32767, 258], dtype=torch.int16),
         "u32": torch.tensor([0, 2**32 - 1, 16909060], dtype=torch.uint32),
         "i32": torch.tensor([-(2**31), 2**31 - 1, 16909060], dtype=torch.int32),
         "u64": torch.tensor([0, 2**53, 2**40 + 5], dtype=torch.uint64),
         "i64": torch.tensor([-(2**53), 2**53, 5]),
         "f32": torch.tensor(floats).reshape(4, 2),
         "f64": torch.tensor(floats + [0.1], dtype=torch.float64),
         "scalar": torch.tensor(3.5), "empty": torch.zeros(2, 0, 3, dtype=torch.float64),
         "ones": torch.ones(1, 1, 1, 1, 1, 1, 1, 1)}
    for name, dtype in {**HALVES, **FLOAT8}.items():
        positive = [1.0, 2.0, 0.5, 0.125]
        d[name] = torch.tensor(positive if name == "f8_e8m0" else floats).to(dtype)
    return d


def write_types():
    """Writes each type, and a list of what is in the file."""
    d = types()
    save_file(d, path("types"), metadata={"made by": "safetensors \u2713"})
    with golden.Golden("safetensors") as g:
        for name, t in sorted(d.items()):
            integer = not t.is_floating_point() and t.dtype not in (torch.bool, torch.uint8)
            small = t.is_floating_point() and t.itemsize < 2
            t = t.long() if integer else t.float() if small else t
            g.case(name, golden.name_of(t.dtype), golden.comma(t.shape))
            g.numbers(golden.values_of(t))


def write_awkward():
    """Writes a file which regard has to write byte by byte: see test_awkward in C."""
    names = ["", "b", "a.weight", "\u00fc\u65e5\U0001f600", '"\\/', "\n\t\b\f\r\x01\x1f\x7f",
             "x" * 300]
    d = {}
    for i, name in enumerate(names):
        d[name] = torch.arange(i * 2, dtype=torch.float32).reshape(2, i) / 4
        d[name + "!"] = torch.arange(i) - 1
        d[name + "#"] = torch.arange(i).double()
        d[name + "?"] = torch.arange(i) % 2 == 0
    d["number"] = torch.tensor(7)
    save_file(d, path("awkward"), metadata={'"key"\n': "v\u00e4lue\\"})
    save_file({}, path("nothing"))


class Tree(torch.nn.Module):
    """This is a module whose state has these names and shapes."""

    def __init__(self, shapes):
        super().__init__()
        for name, shape in shapes.items():
            *path_, last = name.split(".")
            m = self
            for part in path_:
                if part not in m._modules:
                    m.add_module(part, torch.nn.Module())
                m = m._modules[part]
            m.register_parameter(last, torch.nn.Parameter(torch.randn(shape)))


def write_gpt():
    torch.manual_seed(14)
    norms = {f"transformer.{n}.{k}": (4,) for n in ("h.0.ln_1", "h.0.ln_2", "ln_f")
             for k in ("weight", "bias")}
    m = Tree({"transformer.wte.weight": (5, 4), "transformer.wpe.weight": (3, 4), **norms,
              "transformer.h.0.attn.c_attn.weight": (12, 4),
              "transformer.h.0.attn.c_attn.bias": (12,),
              "transformer.h.0.attn.c_proj.weight": (4, 4),
              "transformer.h.0.attn.c_proj.bias": (4,),
              "transformer.h.0.mlp.c_fc.weight": (16, 4), "transformer.h.0.mlp.c_fc.bias": (16,),
              "transformer.h.0.mlp.c_proj.weight": (4, 16),
              "transformer.h.0.mlp.c_proj.bias": (4,), "lm_head.weight": (5, 4)})
    m.transformer.wte.weight = m.lm_head.weight
    save_model(m, path("tied"))


os.makedirs(FILES, exist_ok=True)
write_foreign()
write_types()
write_awkward()
write_gpt()
