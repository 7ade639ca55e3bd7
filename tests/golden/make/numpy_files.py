"""numpy_files.py: writes the archives of tests/golden/files/ with NumPy.

A member's name says what it holds: <f4.C.2x3 is a little-endian float32 array of shape (2, 3), in C
order. Element i is i - 3, halved in floats; i in unsigned integers; and i % 3 == 0 in bool. The
same arrays are in numpy.npz, as np.savez writes it, and in deflated.npz, as np.savez_compressed
does. versions.npz has one array in each version of the format.
"""

import io
import os
import zipfile

import numpy as np

TYPES = ["|b1", "|i1", "|u1", "<i2", ">i2", "<u2", ">u2", "<i4", ">i4", "<u4", ">u4", "<i8", ">i8",
         "<u8", ">u8", "<f2", ">f2", "<f4", ">f4", "<f8", ">f8"]
SHAPES = [(), (0,), (1,), (7,), (2, 3), (3, 0, 2), (2, 3, 4), (1, 1, 1, 1, 2, 1, 1, 1)]
FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "files")


def array(descr, order, shape):
    i = np.arange(int(np.prod(shape)))
    kind = descr[1]
    v = i % 3 == 0 if kind == "b" else i if kind == "u" else (i - 3) / 2 if kind == "f" else i - 3
    return np.asarray(v.reshape(shape).astype(descr), order=order)


def name(descr, order, shape):
    return f"{descr}.{order}.{'x'.join(map(str, shape))}"


def arrays():
    own = {"|b1", "<i8", "<f4", "<f8"}
    cases = [(d, o, s) for d in TYPES for o in "CF" for s in (SHAPES if d in own else [(2, 3)])]
    return {name(*c): array(*c) for c in cases}


def versions(path):
    with zipfile.ZipFile(path, "w") as z:
        for version in [(1, 0), (2, 0), (3, 0)]:
            text = io.BytesIO()
            np.lib.format.write_array(text, array("<f4", "F", (2, 3)), version=version)
            z.writestr(zipfile.ZipInfo(f"{version[0]}.npy"), text.getvalue())
        # Python 2 wrote long integers so.
        text = b"{'descr': '<f4', 'fortran_order': True, 'shape': (2L, 3L), }"
        text += b" " * (117 - len(text)) + b"\n"
        data = array("<f4", "F", (2, 3)).tobytes(order="F")
        z.writestr(zipfile.ZipInfo("2L.npy"), b"\x93NUMPY\x01\x00v\x00" + text + data)


np.savez(os.path.join(FOLDER, "numpy.npz"), **arrays())
np.savez_compressed(os.path.join(FOLDER, "deflated.npz"), **arrays())
versions(os.path.join(FOLDER, "versions.npz"))
