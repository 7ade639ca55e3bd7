"""library.py: regard's shared library, as the scripts beside it call it from Python."""
import ctypes
import os


class Named(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("tensor", ctypes.c_void_p)]


class NamedList(ctypes.Structure):
    _fields_ = [("n", ctypes.c_int), ("v", ctypes.POINTER(Named))]


TENSOR, PATH = ctypes.c_void_p, ctypes.c_char_p
FUNCTIONS = {
    "torch_load": (NamedList, [PATH]),
    "torch_save": (ctypes.c_bool, [NamedList, PATH]),
    "load_npy": (TENSOR, [PATH]),
    "save_npy": (ctypes.c_bool, [TENSOR, PATH]),
    "load_npz": (NamedList, [PATH]),
    "save_npz": (ctypes.c_bool, [NamedList, PATH]),
    "named_below": (NamedList, [NamedList, ctypes.c_char_p]),
    "error": (ctypes.c_char_p, []),
    "error_clear": (None, []),
    "scope_begin": (ctypes.c_size_t, []),
    "scope_end": (None, [ctypes.c_size_t]),
    "dtype_of": (ctypes.c_int, [TENSOR]),
    "ndim": (ctypes.c_int, [TENSOR]),
    "size": (ctypes.c_int64, [TENSOR, ctypes.c_int]),
    "stride": (ctypes.c_int64, [TENSOR, ctypes.c_int]),
    "numel": (ctypes.c_int64, [TENSOR]),
    "data": (ctypes.c_void_p, [TENSOR]),
    "copy_out": (ctypes.c_bool, [TENSOR, ctypes.c_void_p, ctypes.c_size_t]),
}


def open_library(path):
    """Returns the library, whose functions know their types."""
    library = ctypes.CDLL(os.path.abspath(path))
    for name, (result, arguments) in FUNCTIONS.items():
        f = getattr(library, "rg_" + name)
        f.restype, f.argtypes = result, arguments
    return library


def shape_of(library, tensor):
    return [library.rg_size(tensor, d) for d in range(library.rg_ndim(tensor))]


def bytes_of(library, tensor, n):
    """Returns the tensor's elements, row by row, which take n bytes; None where they don't fit."""
    to = ctypes.create_string_buffer(max(1, n))
    return to.raw[:n] if library.rg_copy_out(tensor, to, n) else None
