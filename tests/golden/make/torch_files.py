"""Writes small files of torch.save's into tests/golden/files/, and torch_files.txt, which says what
is in them, in the words of test_torch_file.c:

= views.pt 2                       the file has two entries,
- "a.weight" f32 2,3 3,1 0 4       of which this has a name, a dtype, sizes, strides, the number of
                                   the storage that it shares with others, and an offset in it,
: 1.0 2.0 3.0 4.0 5.0 6.0          and these elements;
- "a.note" none                    this has no tensor.
= sparse.pt -1                     the file is refused
> it makes a sparse tensor         with a sentence that contains this text.
"""

import collections
import os
import warnings
import zipfile
from unittest import mock

import torch

from golden import Golden, comma, folder, name_of

warnings.simplefilter("ignore")
torch.set_num_threads(1)
FILES = os.path.join(folder(), "..", "files")
OWN = (torch.bool, torch.int64, torch.float32, torch.float64, torch.uint8)
TO_INT64 = (torch.int8, torch.int16, torch.int32, torch.uint16, torch.uint32,
            torch.uint64)
TO_FLOAT32 = (torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e8m0fnu)


def held(t):
    if t.dtype in TO_INT64:
        return t.to(torch.int64)
    return t.to(torch.float32) if t.dtype in TO_FLOAT32 else t


def flat(value, name=None):
    """Yields the entries for which the value stands."""
    if isinstance(value, (dict, list, tuple)):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, v in items:
            yield from flat(v, str(key) if name is None else f"{name}.{key}")
    else:
        yield name or "", value


def quoted(text):
    return '"' + "".join(chr(b) if 0x20 < b < 0x7F and b not in b'"\\' else "\\%03o" % b
                         for b in text.encode()) + '"'


def describe(value):
    """Writes the entries of the value."""
    entries, storages = list(flat(value)), {}
    data.lines[-1] += f" {len(entries)}"
    for name, v in entries:
        number = not isinstance(v, torch.Tensor)
        if isinstance(v, int) and not -2**63 <= v < 2**63:
            data.line("-", quoted(name), "beyond")
            continue
        if isinstance(v, (bool, int, float)):
            dtype = {bool: torch.bool, int: torch.int64, float: torch.float64}[type(v)]
            v = torch.tensor(v, dtype=dtype)
        if not isinstance(v, torch.Tensor):
            data.line("-", quoted(name), "none")
            continue
        # Tensors that have a type of their own share no memory with others in regard.
        key = name if number or not v.numel() else (v.untyped_storage().data_ptr(), v.dtype)
        storage = storages.setdefault(key, len(storages))
        data.line("-", quoted(name), name_of(held(v).dtype), comma(v.shape), comma(v.stride()),
                  storage, v.storage_offset())
        data.numbers(map(repr, map(float, held(v).flatten().tolist()))
                     if held(v).is_floating_point() else map(int, held(v).flatten().tolist()))


def path_of(name):
    os.makedirs(FILES, exist_ok=True)
    return os.path.join(FILES, name)


def save(name, value, **options):
    torch.save(value, path_of(name), **options)
    data.case(name)


def good(name, value, **options):
    save(name, value, **options)
    describe(value)


def bad(name, value, sentence):
    save(name, value)
    data.lines[-1] += " -1"
    data.text(sentence)


def model():
    torch.manual_seed(1)
    m = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    m.append(torch.nn.Linear(3, 2))
    m[2].weight = m[0].weight
    return m


def checkpoint():
    m = model()
    optimizer = torch.optim.AdamW(m.parameters(), lr=0.01)
    for _ in range(2):
        optimizer.zero_grad()
        m[:2](torch.randn(4, 3)).square().sum().backward()
        optimizer.step()
    return {"model": m.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 7,
            "loss": 0.1, "best": True, "name": "small", "history": [1.5, (2, -3, 2**40), []]}


def views():
    base = torch.arange(24, dtype=torch.float32)
    other = torch.tensor([[True, False], [False, True]])
    return collections.OrderedDict(
        whole=base, rows=base.reshape(4, 6), turned=base.reshape(4, 6).t(), part=base[5:9],
        stepped=base[1::5], wide=base[3].expand(2, 3), one=base[7], other=other, again=other.t(),
        nothing=torch.empty(0, 3), number=torch.tensor(2.5, dtype=torch.float64),
        half=torch.arange(6, dtype=torch.float16).reshape(2, 3).t())


def types():
    t = {}
    for dtype in OWN + TO_INT64 + TO_FLOAT32:
        name = str(dtype).split(".")[1]
        numbers = [1, 0, 2, 64, 5] if dtype != torch.float8_e8m0fnu else [1, 2, 0.5, 64, 2]
        t[name] = torch.tensor(numbers).to(dtype)
    t["int8"][1], t["int16"][1], t["int32"][1], t["int64"][1] = -128, -(2**15), -(2**31), -(2**63)
    t["uint8"][1], t["uint16"][1], t["uint32"][1] = 255, 65535, 2**32 - 1
    t["uint64"][1] = 2**63 - 1
    return t


def untyped():
    """Tensors of several types lie in one storage, of which only bytes are known."""
    t = torch.tensor([1, 2, 3, 65535], dtype=torch.uint16)
    return {"a": t, "b": t[1:3], "c": t.view(torch.uint32)}


def shared_dict():
    d = {"w": torch.ones(2)}
    return {"first": d, "second": [d, d["w"]]}


def big_endian(value):
    """Writes the file that a big-endian machine would write."""
    swapped = {}
    for name, t in value.items():
        swapped[name] = t.clone()
        swapped[name].untyped_storage().byteswap(t.dtype)
    with mock.patch("sys.byteorder", "big"):
        save("big_endian.pt", swapped)
    describe(value)


def with_fields():
    t = torch.arange(3.0)
    t.origin = "here"
    p = torch.nn.Parameter(torch.ones(2))
    p.decay = 0.5
    return {"tensor": t, "parameter": p, "counter": collections.Counter("aab"),
            "set": {1, 2}, "bytes": b"\xffa", "array": bytearray(b"x"), "size": torch.Size([2, 3]),
            "dtype": torch.float16, "device": torch.device("cuda:1"), "none": None, "text": "wört"}


def script():
    """Writes the members by which a TorchScript archive is known; a real one names its folders."""
    with zipfile.ZipFile(path_of("script.pt"), "w") as z:
        for name, text in (("data.pkl", b"\x80\2}."), ("constants.pkl", b"\x80\2)."),
                           ("version", b"3\n")):
            z.writestr(zipfile.ZipInfo("script/" + name), text)
    data.case("script.pt", -1)
    data.text("it is a TorchScript archive")


with Golden("torch_files") as data:
    good("state_dict.pt", model().state_dict())
    good("checkpoint.pt", checkpoint())
    good("tensor.pt", torch.arange(6).reshape(2, 3).t())
    good("parameter.pt", torch.nn.Parameter(torch.tensor([1.0, -2.0])))
    good("views.pt", views())
    good("types.pt", types())
    good("untyped.pt", untyped())
    good("shared_dict.pt", shared_dict())
    good("fields.pt", with_fields())
    good("keys.pt", {3: 1, "": {"": 2, "a.b": {"ключ": 3}}, -1: []})
    good("nothing.pt", {})
    good("number.pt", -0.0)
    big_endian({"f32": torch.tensor([1.5, -2.0]), "i64": torch.tensor([1, -2, 2**40]),
                "f64": torch.tensor(0.1, dtype=torch.float64), "b": torch.tensor([True, False]),
                "i16": torch.tensor([1, -300], dtype=torch.int16)})
    bad("complex.pt", {"w": torch.ones(2, dtype=torch.complex64)},
        "GLOBAL torch.ComplexFloatStorage was not an allowed global: its elements are complex")
    bad("number_complex.pt", {"z": 1 + 2j},
        "GLOBAL builtins.complex was not an allowed global: it is a complex number")
    bad("sparse.pt", {"w": torch.eye(2).to_sparse()},
        "it makes a sparse tensor: save t.to_dense()")
    bad("quantized.pt", {"w": torch.quantize_per_tensor(torch.ones(2), 0.5, 0, torch.qint8)},
        "it makes a quantized tensor: save t.dequantize()")
    bad("meta.pt", {"w": torch.empty(2, device="meta")},
        "a tensor on the meta device has no elements")
    bad("negative.pt", {"w": torch.ones(2, dtype=torch.complex64).conj().imag},
        "a tensor is negated or conjugated when it is read: save t.resolve_neg()")
    bad("bits.pt", {"w": torch.tensor([1, 255], dtype=torch.uint8).view(torch.float8_e4m3fnuz)},
        "GLOBAL torch.float8_e4m3fnuz was not an allowed global: regard has no such elements")
    good("large.pt", {"seed": 2**63})
    bad("large_uint64.pt", torch.tensor([1, 2**63], dtype=torch.uint64),
        'tensor "": element 1 is 9223372036854775808, which int64 can\'t hold')
    bad("module.pt", torch.nn.Linear(1, 1),
        "Unsupported global: GLOBAL torch.nn.modules.linear.Linear was not an allowed global")
    bad("twice.pt", {"a": {"b": 1}, "a.b": 2}, 'entry "a.b": it comes twice')
    bad("key.pt", {"a": {0.5: 1}}, 'entry "a": a key in it is a float')
    script()
