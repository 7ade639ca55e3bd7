"""PyTorch's side of `make bench`: the rows of bench.c, with PyTorch's best settings."""
import statistics
import sys
import time

import torch

torch.set_num_threads(1)
wanted = sys.argv[1] if len(sys.argv) > 1 else ""


def ones(*shape, grad=False):
    return torch.ones(*shape, requires_grad=grad)


def rows():
    for grad in (False, True):
        tail = ", grad" if grad else ""
        a, b, x, w, s = (ones(*d, grad=grad) for d in ((3, 3), (3, 3), (6, 3), (3, 3), (6, 6)))
        yield "w0 add 3x3" + tail, lambda: torch.add(a, b)
        yield "w0 matmul 6x3 3x3" + tail, lambda: torch.matmul(x, w)
        yield "w0 softmax 6x6" + tail, lambda: torch.softmax(s, -1)
        yield "w0 transpose 6x3" + tail, lambda: x.transpose(0, 1)
    a, b = ones(4, 4, grad=True), ones(4, 4, grad=True)
    yield "w0 sum(a*b) 4x4, fwd + bwd", lambda: (a * b).sum().backward()


def timed(run, n):
    start = time.perf_counter_ns()
    for _ in range(n):
        run()
    return (time.perf_counter_ns() - start) / n


for name, run in rows():
    if not name.startswith(wanted):
        continue
    with torch.inference_mode() if "grad" not in name and "bwd" not in name else torch.enable_grad():
        n = 50
        while timed(run, n) * n < 5e6:
            n *= 2
        print(f"{name}\t{statistics.median(timed(run, n) for _ in range(15)):.1f}", flush=True)
