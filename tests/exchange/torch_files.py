#!/usr/bin/env python3
"""torch_files.py LIBRARY: regard and the installed PyTorch read each other's files.

200 random state_dicts (odd shapes, every dtype, names that are empty, Unicode and very long, views,
transposes, ties) are written by torch, read by regard, written by regard and read by torch with
weights_only=True. Elements are the same to the bit. Sizes and strides stay, and tensors that shared
memory still share it. Where regard has every dtype, the pickle is torch's own, byte for byte.
Checkpoints are read, too.
"""
import collections
import ctypes
import os
import random
import sys
import tempfile
import zipfile

import torch

from library import bytes_of, open_library, shape_of

library = open_library(sys.argv[1])
none = ctypes.addressof(ctypes.c_char.in_dll(library, "rg_none_"))

OWN = [torch.bool, torch.int64, torch.float32, torch.float64, torch.bfloat16, torch.float16,
       torch.uint8]
OTHERS = {
    torch.int8: torch.int64, torch.int16: torch.int64,
    torch.int32: torch.int64, torch.uint16: torch.int64, torch.uint32: torch.int64,
    torch.uint64: torch.int64,
    torch.float8_e4m3fn: torch.float32, torch.float8_e5m2: torch.float32,
    torch.float8_e8m0fnu: torch.float32,
}


def require(truth, *what):
    if not truth:
        print("tests/exchange/torch_files.py:", *what, "|", library.rg_error().decode())
        sys.exit(1)


def held(t):
    """Returns t as regard holds it."""
    return t if t.dtype in OWN else t.to(OTHERS[t.dtype])


def bits(t):
    """Returns the bytes of t's elements, row by row."""
    if not t.numel():
        return b""
    row = torch.empty(t.numel(), dtype=t.dtype)
    return bytes(row.copy_(t.detach().reshape(-1)).view(torch.uint8).numpy())


def check_tensor(name, address, t):
    """Requires that regard's tensor is torch's t."""
    want = held(t)
    require(address != none, name, "has no tensor")
    require(OWN[library.rg_dtype_of(address)] == want.dtype, name, "has another dtype")
    shape = shape_of(library, address)
    require(shape == list(t.shape), name, "has shape", shape, "and not", list(t.shape))
    strides = [library.rg_stride(address, d) for d in range(len(shape))]
    if t.numel():
        require(strides == list(t.stride()), name, "has strides", strides, t.stride())
    got = bytes_of(library, address, t.numel() * want.element_size())
    require(got == bits(want), name, "has other bits:", t.dtype)


def flat(value, name=""):
    """Yields the entries into which regard flattens the value."""
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, (list, tuple)):
        items = enumerate(value)
    else:
        yield name, value
        return
    for key, v in items:
        yield from flat(v, str(key) if name is None else f"{name}.{key}")


def load(path):
    library.rg_error_clear()
    entries = library.rg_torch_load(path.encode())
    require(entries.n >= 0, path, "isn't read")
    return entries


def check_file(path, value):
    """Requires that regard reads the file as the value. Returns its list."""
    entries = load(path)
    want = list(flat(value, None if isinstance(value, (dict, list, tuple)) else ""))
    require(entries.n == len(want), path, "has", entries.n, "entries and not", len(want))
    for i, (name, v) in enumerate(want):
        got = entries.v[i]
        require(got.name.decode() == name, "entry", i, "is named", got.name, "and not", name)
        if isinstance(v, torch.Tensor):
            check_tensor(name, got.tensor, v)
        elif isinstance(v, (bool, int, float)):
            dtype = {bool: torch.bool, int: torch.int64, float: torch.float64}[type(v)]
            check_tensor(name, got.tensor, torch.tensor(v, dtype=dtype))
        else:
            require(got.tensor == none, name, "has a tensor")
    return entries


# ---- random state_dicts

def random_name(r, i):
    kind = r.randrange(8)
    if kind == 0:
        return f"слой.{i}.вес.🙂"
    if kind == 1:
        return f"{i}." + "x" * r.choice([255, 256, 4000, 70000])
    if kind == 2:
        return f"a b\t\n\"'{{}}\\{i}"
    if kind == 3:
        return f".{i}."
    return f"layers.{i}.{r.choice(['weight', 'bias', 'running_mean'])}"


def random_elements(r, dtype, shape):
    numel = 1
    for n in shape:
        numel *= n
    size = torch.tensor([], dtype=dtype).element_size()
    raw = bytearray(r.randbytes(numel * size))
    if dtype == torch.bool:
        raw = bytearray(b & 1 for b in raw)
    if dtype == torch.uint64:
        raw[7::8] = bytes(b & 0x7F for b in raw[7::8])
    if not raw:
        return torch.empty(shape, dtype=dtype)
    row = torch.frombuffer(raw, dtype=torch.uint8).clone().view(dtype)
    if dtype.is_floating_point and dtype not in OWN:
        # The processor decides which NaN a conversion gives, so there are no NaNs.
        row.view(torch.uint8).reshape(-1, size)[row.float().isnan()] = 0
    return row.reshape(shape)


def random_tensor(r, dtypes, before):
    shape = [r.choice([0, 1, 1, 2, 3, 5, 7, 16]) for _ in range(r.randrange(6))]
    kind = r.randrange(8)
    if before and kind == 0:
        return r.choice(before)
    if before and kind == 1:
        t = r.choice(before)
        return t.view(-1)[t.numel() // 2:] if t.is_contiguous() else t
    if before and kind == 2:
        t = r.choice(before)
        return t.t() if t.dim() == 2 else t[..., ::2] if t.dim() else t
    t = random_elements(r, r.choice(dtypes), shape)
    if kind == 3 and t.dim() > 1:
        return t.transpose(0, -1)
    if kind == 4 and t.numel() == 1:
        return t.expand([3, 2] + list(t.shape))
    return t


def random_state(seed):
    r = random.Random(seed)
    dtypes = OWN if seed % 2 else OWN + list(OTHERS)
    state, tensors = collections.OrderedDict(), []
    for i in range(r.choice([0, 1, 2, 5, 12, 30])):
        t = random_tensor(r, dtypes, tensors)
        tensors.append(t)
        # As in the state_dict of a module, two entries with the same tensor are two objects.
        state[random_name(r, i)] = t.detach()
    if seed % 10 == 3:
        state[""] = torch.tensor(seed)
    if seed == 7:
        for i in range(2001):
            state[f"many.{i}"] = torch.tensor(float(i))
    return state


def check_sharing(state, back):
    """Requires that tensors share storages in `back` as they do in `state`."""
    a, b = {}, {}
    for name, t in state.items():
        if not t.numel():
            continue
        first = a.setdefault((t.untyped_storage().data_ptr(), t.dtype), name)
        other = b.setdefault(back[name].untyped_storage().data_ptr(), name)
        require(first == other, name, "shares memory with", first, "and then with", other)
        require(t.storage_offset() == back[name].storage_offset(), name, "has another offset")


def pickle_of(path):
    with zipfile.ZipFile(path) as z:
        require(z.testzip() is None, path, "is no sound archive")
        names = [n.split("/", 1)[1] for n in z.namelist()]
        return z.read(z.namelist()[0]), [n for n in names if not n.startswith(".data/")]


def round_trip(folder, seed):
    state = random_state(seed)
    path, again = os.path.join(folder, "state.pt"), os.path.join(folder, "again", "state.pt")
    torch.save(state, path)
    mark = library.rg_scope_begin()
    entries = check_file(path, state)
    require(library.rg_torch_save(entries, again.encode()), "isn't written")
    back = torch.load(again, weights_only=True)
    if isinstance(back, torch.Tensor):
        back = {"": back}
    require(list(back) == list(state), "the names differ")
    for name, t in state.items():
        require(back[name].shape == t.shape and back[name].dtype == held(t).dtype, name)
        require(bits(back[name]) == bits(held(t)), name, "has other bits")
    check_sharing(state, back)
    library.rg_scope_end(mark)
    # Tensors without elements get contiguous strides when regard reads them.
    same = all(t.dtype in OWN and t.numel() for t in state.values()) and list(state) != [""]
    if same:
        require(pickle_of(path) == pickle_of(again), "seed", seed, "gives another pickle")
    return same


# ---- checkpoints and the rest

def checkpoint(optimizer):
    torch.manual_seed(1)
    linear = torch.nn.Linear
    model = torch.nn.Sequential(linear(3, 4), torch.nn.BatchNorm1d(4), linear(4, 2))
    optimizer = optimizer(model.parameters())
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(5, 3)).square().mean().backward()
        optimizer.step()
        schedule.step()
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3,
            "schedule": {"last_epoch": 3, "gamma": 0.1}, "loss": 0.25, "done": False,
            "note": "text", "rng": torch.get_rng_state(), "history": [1.0, (2, None)]}


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(os.path.join(folder, "again"))
        same = sum(round_trip(folder, seed) for seed in range(200))
        others = 0
        path = os.path.join(folder, "other.pt")
        for value in [
            checkpoint(torch.optim.SGD),
            checkpoint(lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9)),
            checkpoint(torch.optim.AdamW),
            checkpoint(torch.optim.RMSprop),
            torch.arange(6).reshape(2, 3),
            torch.nn.Parameter(torch.randn(3)),
            torch.tensor(2.5),
            [torch.ones(2), {"a": torch.zeros(1)}, 7],
            {1: torch.ones(1), 2: {3: torch.ones(2)}},
            5, 2.5, True, None, "text", {}, -(2**63), 2**63 - 1, -1, 70000, 300,
        ]:
            torch.save(value, path)
            mark = library.rg_scope_begin()
            check_file(path, value)
            library.rg_scope_end(mark)
            others += 1
    print(f"torch {torch.__version__}: 200 state_dicts there and back, {same} of them with torch's "
          f"own pickle; {others} other files read")


main()
