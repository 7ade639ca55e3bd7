"""Prints tensors and modules in gdb as PyTorch prints them: `gdb -x nn/gdb.py program`.

In a process, the library's own functions make the text. In a core file, or in a program that was
linked without these functions, a tensor's dtype, shape and first values are read from memory. The
layout is that of struct rg_tensor, in tensor/structs.h, and of rg_module, in nn/module.h; no debug
information of the library is needed.
"""
import struct

import gdb

ALIVE = 0x52454741  # rg_tensor.state, in tensor/structs.h
MODULE = 0x484E4408  # rg_handle.kind, in tensor/handle.h
NAMED = 128  # a bit of rg_tensor.flags
DTYPES = [("bool", "?"), ("int64", "q"), ("float32", "f"), ("float64", "d"), ("bfloat16", "H"),
          ("float16", "e"), ("uint8", "B")]
FIRST_VALUES = 8


def memory(address, form):
    """Returns values in the program's memory. `form` is a format of struct.unpack."""
    size = struct.calcsize("=" + form)
    return struct.unpack("=" + form, bytes(gdb.selected_inferior().read_memory(address, size)))


def text_at(address):
    return gdb.Value(address).cast(gdb.lookup_type("char").pointer()).string()


def text_of_library(function, address):
    """Returns the text that a function of the library makes, or None if it can't be called."""
    try:
        scope = int(gdb.parse_and_eval("((unsigned long (*)(void)) rg_scope_begin)()"))
        try:
            call = "((const char *(*)(void *)) %s)((void *) %d)" % (function, address)
            text = gdb.parse_and_eval(call)
            return text.string() if int(text) else None
        finally:
            gdb.parse_and_eval("((void (*)(unsigned long)) rg_scope_end)(%d)" % scope)
    except gdb.error:  # There is no process, or no such function in it.
        return None


def on_lines_of_its_own(text):
    """Puts several lines on a new line, so that their columns align."""
    return "\n" + text if "\n" in text else text


def is_summary():
    """Returns whether gdb asks for a short text, as it does for arguments in a backtrace."""
    return hasattr(gdb, "print_options") and gdb.print_options().get("summary", False)


# ---- tensors --------------------------------------------------------------------------------


def first_places(sizes, strides):
    """Returns the offsets of the first elements, in elements, in the order of their indices."""
    if 0 in sizes:
        return []
    index = [0] * len(sizes)
    places = []
    while len(places) < FIRST_VALUES:
        places.append(sum(i * stride for i, stride in zip(index, strides)))
        d = len(sizes) - 1
        while d >= 0 and index[d] == sizes[d] - 1:
            index[d] = 0
            d -= 1
        if d < 0:
            break
        index[d] += 1
    return places


def tensor_in_memory(address):
    """Returns a text such as "tensor float32 (2, 3) [0.5, 1, 2, 3, 4, 5]"."""
    dtype, ndim, flags = memory(address + 16, "BBB")
    elements, data, _, label = memory(address + 32, "qQQQ")
    sizes = memory(address + 64, "%dq" % ndim)
    strides = memory(address + 128, "%dq" % ndim)
    name, form = DTYPES[dtype]
    width = struct.calcsize("=" + form)
    values = [memory(data + at * width, form)[0] for at in first_places(sizes, strides)]
    if name == "bfloat16":  # The upper half of a float.
        form = "f"
        values = [struct.unpack("=f", struct.pack("=I", v << 16))[0] for v in values]
    texts = ["%.6g" % v if form in "fde" else str(v) for v in values]
    if elements > len(values):
        texts.append("...")
    given = text_at(label + 16) if flags & NAMED else ""
    named = ' "%s"' % given if given else ""
    return "tensor%s %s (%s) [%s]" % (named, name, ", ".join(map(str, sizes)), ", ".join(texts))


class TensorPrinter:
    def __init__(self, value):
        self.address = int(value)

    def to_string(self):
        if self.address == 0:
            return "NULL"
        try:
            if self.address == int(gdb.parse_and_eval("(long) &rg_none_")):
                return "RG_NONE"
        except gdb.error:
            pass
        try:
            if memory(self.address + 8, "I")[0] != ALIVE:
                return "a released tensor, or none"
            text = None if is_summary() else text_of_library("rg_repr", self.address)
            return on_lines_of_its_own(text or tensor_in_memory(self.address))
        except (gdb.error, IndexError):
            return "no tensor"


# ---- modules --------------------------------------------------------------------------------


def begins_with_module(type):
    """Returns whether a struct is rg_module, or begins with one."""
    type = type.strip_typedefs()
    while type.code == gdb.TYPE_CODE_STRUCT:
        if type.tag == "rg_module":
            return True
        fields = type.fields()
        if not fields:
            return False
        type = fields[0].type.strip_typedefs()
    return False


class ModulePrinter:
    def __init__(self, value):
        self.address = int(value)

    def to_string(self):
        if self.address == 0:
            return "NULL"
        try:
            kind, released = memory(self.address + 8, "I?")
            if kind != MODULE or released:
                return "a freed module, or none"
            text = None if is_summary() else text_of_library("rg_module_repr", self.address)
            (cls,) = memory(self.address + 16, "Q")
            return on_lines_of_its_own(text or text_at(*memory(cls, "Q")) + "(..)")
        except gdb.error:
            return "no module"


def printer_of(value):
    type = value.type.strip_typedefs()
    if type.code != gdb.TYPE_CODE_PTR:
        return None
    target = type.target().strip_typedefs()
    if target.code != gdb.TYPE_CODE_STRUCT:
        return None
    if target.tag == "rg_tensor":
        return TensorPrinter(value)
    return ModulePrinter(value) if begins_with_module(target) else None


printer_of.name = "regard"
# gdb may run this file twice, for -x and for the library: the new printer replaces the old one.
gdb.pretty_printers[:] = [p for p in gdb.pretty_printers if getattr(p, "name", "") != "regard"]
gdb.pretty_printers.append(printer_of)
