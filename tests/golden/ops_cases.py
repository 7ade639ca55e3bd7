"""The tables of ops.py: how each function is called in torch, how a sample of OpInfo becomes a call of ours,
which cases are made by hand, and which of torch's sentences ours differ from, with the reason."""
import re

import torch
import torch.nn.functional as F


class Number:
    """A Python number that stands where our function takes a tensor."""
    def __init__(self, value): self.value = value


class Skip(Exception):
    """A sample that has no counterpart in our functions; says why."""


class Case:
    def __init__(self, function, *args, tol=None, why=None, flags=(), origin="by hand"):
        assert tol is None or why, "a tolerance states its reason"
        self.function, self.args, self.tol, self.why = function, list(args), tol, why
        self.flags, self.origin = set(flags), origin


T = torch.tensor

# ---- how it is called in torch ---------------------------------------------------------------------------------

CALLS = {}
def torch_call(name):
    if name in CALLS: return CALLS[name]
    short = re.sub(r"_(dims|dim|p|list|with|step|dtype)$", "", name)
    for where in (torch, F, torch.Tensor):
        for n in (name, short):
            if hasattr(where, n): return getattr(where, n)
    raise SystemExit("ops_cases.py does not say how torch calls " + name)

CALLS.update({
    "add_alpha": lambda a, b, alpha: torch.add(a, b, alpha=alpha),
    "sub_alpha": lambda a, b, alpha: torch.sub(a, b, alpha=alpha),
    "cat": lambda tensors, dim: torch.cat(tensors, dim),
    "expand_dims": lambda x, shape: x.expand(shape),
    "to": lambda x, dtype: x.to(dtype),
})

# ---- OpInfo's samples ------------------------------------------------------------------------------------------

def no(value, what):
    if value: raise Skip(what)

def plain(name): return lambda x, *args: (name, x, *args)

def alpha(name):
    return lambda x, other, alpha=1: (name, x, other) if alpha == 1 else (name + "_alpha", x, other, alpha)

def reduction(name):
    def adapt(x, dim=None, keepdim=False, dtype=None):
        no(dtype, "dtype=")
        if dim is None and not keepdim: return (name, x)
        if isinstance(dim, int): return (name + "_dim", x, dim, keepdim)
        return (name + "_dims", x, dim or (), keepdim)
    return adapt

def softmax(name):
    def adapt(x, dim, dtype=None):
        no(dtype, "dtype=")
        return (name, x, dim)
    return adapt

OPINFO = {
    "add": alpha("add"), "sub": alpha("sub"), "mul": plain("mul"),
    "matmul": plain("matmul"), "sum": reduction("sum"),
    ("max", "reduction_no_dim"): plain("max"),
    ("max", "reduction_with_dim"): lambda x, dim, keepdim=False: ("max_dim", x, dim, keepdim),
    "softmax": softmax("softmax"),
    "add_alpha": lambda a, b, alpha: torch.add(a, b, alpha=alpha),
    "sub_alpha": lambda a, b, alpha: torch.sub(a, b, alpha=alpha),
    "cat": lambda tensors, dim=0: ("cat", tensors, dim),
    "select": plain("select"), "narrow": lambda x, dim, start, length: ("narrow", x, dim, int(start), length), "transpose": plain("transpose"),
    "unsqueeze": plain("unsqueeze"), "gather": plain("gather"),
    "reshape": lambda x, *shape: ("reshape_dims", x, shape[0] if isinstance(shape[0], tuple) else shape),
    "expand": lambda x, *shape: ("expand_dims", x, shape[0] if isinstance(shape[0], tuple) else shape),
}

CREATION = {}

# ---- made by hand ----------------------------------------------------------------------------------------------

def by_hand():
    x = T([[1., 2., 3.], [4., 5., 6.]], dtype=torch.float64, requires_grad=True)
    return [
        Case("to", x, torch.float32), Case("to", x, torch.int64), Case("to", T([0., float("nan"), -2.5]), torch.bool),
        Case("to", T([1.9, -1.9, float("nan"), float("inf"), 3e9]), torch.int64),
    ]

# ---- errors ----------------------------------------------------------------------------------------------------

def error_of(name, line):
    """The expected error ('! Class sentence'), as ours is to be; None: no counterpart in C."""
    return line
