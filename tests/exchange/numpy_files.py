#!/usr/bin/env python3
"""numpy_files.py LIBRARY: regard and the installed NumPy read each other's files.

200 random dicts (odd shapes, every dtype of either byte order, both orders of dims, views, names
that are Unicode and very long) are written by np.savez or np.savez_compressed, read by regard,
written by regard and read by NumPy. Each of their arrays goes the same way as a .npy. Elements are
the same to the bit. Where regard has the dtype, its .npy is NumPy's, byte for byte.
"""
import os
import random
import sys
import tempfile
import zipfile

import numpy as np

from library import bytes_of, open_library, shape_of

library = open_library(sys.argv[1])
# NumPy has no bfloat16; "V2" stands in its place.
OWN = [np.dtype(d) for d in ("bool", "int64", "float32", "float64", "V2", "float16",
                                 "uint8")]


def require(truth, *what):
    if not truth:
        print("tests/exchange/numpy_files.py:", *what, "|", library.rg_error().decode())
        sys.exit(1)


def held(a):
    """Returns the array as regard holds it."""
    native = a.dtype.newbyteorder("=")
    if native in OWN:
        return a.astype(native)
    return a.astype("float32" if native.kind == "f" else "int64")


def check_tensor(name, tensor, a):
    """Requires that regard's tensor is the array."""
    want = held(a)
    require(tensor, name, "isn't read")
    require(OWN[library.rg_dtype_of(tensor)] == want.dtype, name, "has another dtype")
    shape = shape_of(library, tensor)
    require(shape == list(a.shape), name, "has shape", shape, "and not", a.shape)
    require(bytes_of(library, tensor, want.nbytes) == want.tobytes("C"), name, "has other bits")


def check_array(name, got, a):
    """Requires that the array which regard wrote is the same."""
    want = held(a)
    require(got.dtype == want.dtype and got.shape == want.shape, name, "came back", got.dtype,
            got.shape, "and not", want.dtype, want.shape)
    require(got.tobytes() == want.tobytes(), name, "came back with other bits")


# ---- random dicts

TYPES = ["?"] + [order + kind for order in "<>" for kind in
                 ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "f2", "f4", "f8")]


def random_array(r):
    shape = [r.choice([0, 1, 1, 2, 3, 5, 7]) for _ in range(r.randrange(6))]
    dtype = np.dtype(r.choice(TYPES))
    whole = [n * r.choice([1, 2]) for n in shape]
    count = int(np.prod(whole, dtype=int))
    if dtype.kind == "b":
        a = np.array([r.random() < 0.5 for _ in range(count)], dtype=bool)
    else:
        a = np.frombuffer(r.randbytes(count * dtype.itemsize), dtype=dtype)
    a = a.reshape(whole)[tuple(slice(None, None, w // n if n else 1) for w, n in zip(whole, shape))]
    if a.dtype.kind == "f":
        a = np.where(np.isnan(a), 1, a).astype(dtype)
    return np.asfortranarray(a) if r.random() < 0.3 else a.T if r.random() < 0.3 else a


def random_name(r, i):
    return r.choice([f"w{i}", f"слой.{i}.🙂", f"{i}." + "x" * r.choice([200, 5000]), f"a b.{i}"])


def check_dict(r, folder, arrays):
    theirs, ours = os.path.join(folder, "theirs.npz"), os.path.join(folder, "ours.npz")
    (np.savez if r.random() < 0.5 else np.savez_compressed)(theirs, **arrays)
    there = library.rg_load_npz(theirs.encode())
    require(there.n == len(arrays), "a list of", there.n, "for", len(arrays))
    for i, (name, a) in enumerate(arrays.items()):
        require(there.v[i].name.decode() == name, "entry", i, "has another name")
        check_tensor(name, there.v[i].tensor, a)
    require(library.rg_save_npz(there, ours.encode()), "a dict isn't written")
    require(zipfile.ZipFile(ours).testzip() is None, "an archive is damaged")
    with np.load(ours) as back:
        require(list(back) == list(arrays), "other names came back")
        for name, a in arrays.items():
            check_array(name, back[name], a)


def check_one(folder, a):
    theirs, ours = os.path.join(folder, "theirs.npy"), os.path.join(folder, "ours.npy")
    np.save(theirs, a)
    tensor = library.rg_load_npy(theirs.encode())
    check_tensor("a .npy", tensor, a)
    require(library.rg_save_npy(tensor, ours.encode()), "a .npy isn't written")
    check_array("a .npy", np.load(ours), a)
    if a.dtype in OWN and (a.flags.c_contiguous or a.flags.f_contiguous):
        with open(theirs, "rb") as f, open(ours, "rb") as g:
            require(f.read() == g.read(), "a .npy differs from NumPy's:", a.dtype, a.shape)


def main():
    r = random.Random(1)
    arrays = 0
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(200):
            scope = library.rg_scope_begin()
            one = {random_name(r, i): random_array(r) for i in range(r.randrange(8))}
            check_dict(r, folder, one)
            for a in one.values():
                check_one(folder, a)
            arrays += len(one)
            library.rg_scope_end(scope)
    print(f"exchange: NumPy {np.__version__}: 200 dicts, {arrays} arrays, both ways")


main()
