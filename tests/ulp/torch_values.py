"""Writes PyTorch's results for the inputs of ulp.c to standard output, if PyTorch is here.

    torch_values.py float32 NAME STEP    each STEPth float, in the order of their bits
    torch_values.py float64 NAME FILE    the doubles in a file
"""

import sys

try:
    import torch
except ImportError:
    sys.exit()

dtype, name, inputs = sys.argv[1:]
torch.set_num_threads(1)
if name == "gelu_tanh":
    function = lambda x: torch.nn.functional.gelu(x, approximate="tanh")
else:
    function = getattr(torch, name, None) or getattr(torch.nn.functional, name)


def parts():
    """Yields the inputs in parts."""
    if dtype == "float64":
        yield torch.frombuffer(bytearray(open(inputs, "rb").read()), dtype=torch.float64)
        return
    step, size = int(inputs), 1 << 18
    for begin in range(0, 1 << 32, step * size):
        bits = torch.arange(begin, min(begin + step * size, 1 << 32), step)
        yield bits.to(torch.int32).view(torch.float32)


try:
    with torch.inference_mode():
        for x in parts():
            sys.stdout.buffer.write(function(x).numpy().data)
except BrokenPipeError:
    sys.stderr.close()
