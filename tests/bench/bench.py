"""PyTorch's side of `make bench`: runs the rows of bench.c with PyTorch's best settings, each in a
process of its own."""

import functools
import os
import statistics
import sys
import time

import torch
import torch._inductor.config
import torch.nn.functional as F
from torch import nn

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "golden", "make"))
from transformer import GPT  # noqa: E402

wanted = sys.argv[1] if len(sys.argv) > 1 else ""
MICRO_STEPS = (1, 8, 16), (16, 8, 16), (16, 8, 32), (16, 16, 64)


def grad_of(t):
    return 0.0 if t.grad is None else t.grad.double().square().mean().item()


def mean_square(t):
    return t.detach().double().square().mean().item()


# A row's setup returns what to run and what to check: (run, check).


def w0(run):
    return lambda: (run, lambda: 0)


def toy(optimizer, compiled=False, **options):
    def setup():
        torch.manual_seed(1)
        table = torch.randn(6, 3).requires_grad_()
        w = [torch.randn(3, n).requires_grad_() for n in (2, 2, 4)]
        idx, target = torch.arange(6), torch.randn(6, 4)
        o = optimizer([table, *w], **options)

        def loss():
            q, k, v = (F.embedding(idx, table) @ p for p in w)
            return F.mse_loss(torch.softmax(q @ k.T / 2**0.5, -1) @ v, target)

        f = torch.compile(loss) if compiled else loss

        def run():
            y = f()
            o.zero_grad()
            y.backward()
            o.step()

        return run, lambda: loss().item()

    return setup


def attention(t, grad):
    def setup():
        torch.manual_seed(2)
        q, k, v = (torch.randn(1, 8, t, 64).requires_grad_(grad) for _ in range(3))

        def run():
            q.grad = k.grad = v.grad = None
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            if grad:
                y.sum().backward()
            return y

        return run, lambda: mean_square(
            run().detach() if not grad else F.scaled_dot_product_attention(q, k, v, is_causal=True)
        )

    return setup


def gpt_step(layers, heads, width, vocabulary, batch, length, compiled=False, autocast=False):
    def setup():
        torch.manual_seed(3)
        m = GPT(
            n_layer=layers, n_head=heads, n_embd=width, vocab_size=vocabulary, block_size=length
        )
        idx = torch.randint(vocabulary, (batch, length))
        targets = torch.randint(vocabulary, (batch, length))
        o = torch.optim.AdamW(m.parameters(), lr=1e-4, fused=True)
        f = torch.compile(m) if compiled else m
        cast = functools.partial(torch.autocast, "cpu", torch.bfloat16, enabled=autocast)

        def run():
            with cast():
                loss = f(idx, targets)[1]
            o.zero_grad()
            loss.backward()
            o.step()

        def check():
            with torch.no_grad(), cast():
                return m(idx, targets)[1].item()

        if compiled:
            run()
        return run, check

    return setup


def pictures(shape, *layers):
    def setup():
        torch.manual_seed(4)
        net = nn.Sequential(*(layer() for layer in layers))
        x, target = torch.randn(shape), torch.randint(10, (shape[0],))
        o = torch.optim.SGD(net.parameters(), lr=1e-3, fused=True)

        def run():
            loss = F.cross_entropy(net(x), target)
            o.zero_grad()
            loss.backward()
            o.step()

        def check():
            with torch.no_grad():
                return F.cross_entropy(net(x), target).item()

        return run, check

    return setup


def convolutions():
    """Yields (name, setup) of networks with convolutions."""
    relu, pool, flat = nn.ReLU, lambda: nn.MaxPool2d(2), nn.Flatten
    small = 64, 1, 28, 28
    first, second = lambda: nn.Conv2d(1, 32, 3), lambda: nn.Conv2d(32, 64, 3)
    last = lambda n: lambda: nn.Linear(n, 10)  # noqa: E731
    yield "conv 3x3 step", pictures(small, first, relu, second, relu, pool, flat, last(9216))
    for name, padding, n in ("conv 5x5 step", 0, 1024), ("conv 5x5 step, padded", 2, 3136):
        first, second = (
            (lambda i, o, p: lambda: nn.Conv2d(i, o, 5, padding=p))(i, o, padding)
            for i, o in ((1, 32), (32, 64))
        )
        yield name, pictures(small, first, relu, pool, second, relu, pool, flat, last(n))
    patches = lambda: nn.Conv2d(3, 192, 16, stride=16)  # noqa: E731
    mean = lambda: nn.AdaptiveAvgPool2d(1)  # noqa: E731
    yield "patches 16x16 step", pictures((8, 3, 224, 224), patches, mean, flat, last(192))


def recurrent(layer, batch):
    def setup():
        torch.manual_seed(5)
        net = layer(128, 128)
        x = torch.randn(64, batch, 128)
        o = torch.optim.SGD(net.parameters(), lr=1e-3, fused=True)

        def run():
            loss = net(x)[0].square().mean()
            o.zero_grad()
            loss.backward()
            o.step()

        def check():
            with torch.no_grad():
                return net(x)[0].square().mean().item()

        return run, check

    return setup


def micro(batch, length, width, compiled=False):
    """Returns the setup of a small transformer's step: a layer of 4 heads, 27 letters."""

    def setup():
        torch.manual_seed(6)
        sizes = [(27, width), (length, width), *[(width, width)] * 4]
        sizes += [(4 * width, width), (width, 4 * width), (27, width)]
        weights = [(torch.randn(size) * 0.08).requires_grad_() for size in sizes]
        tokens, positions, wq, wk, wv, wo, widen, narrow, letters = weights
        idx, targets = torch.randint(27, (batch, length)), torch.randint(27, (batch * length,))
        places = torch.arange(length)
        o = torch.optim.Adam(weights, lr=1e-5, fused=True)

        def normalized(x):
            return F.rms_norm(x, (width,), eps=1e-5)

        def heads(x, weight):
            return F.linear(x, weight).view(batch, length, 4, width // 4).transpose(1, 2)

        def loss():
            x = normalized(F.embedding(idx, tokens) + F.embedding(places, positions))
            h = normalized(x)
            y = F.scaled_dot_product_attention(
                heads(h, wq), heads(h, wk), heads(h, wv), is_causal=True
            )
            x = F.linear(y.transpose(1, 2).reshape(batch, length, width), wo) + x
            x = F.linear(F.relu(F.linear(normalized(x), widen)), narrow) + x
            return F.cross_entropy(F.linear(x, letters).view(-1, 27), targets)

        f = torch.compile(loss) if compiled else loss

        def run():
            y = f()
            o.zero_grad()
            y.backward()
            o.step()

        def check():
            with torch.no_grad():
                return loss().item()

        return run, check

    return setup


def medium(setup):
    def allow():
        torch.set_float32_matmul_precision("medium")
        return setup()

    return allow


def generation():
    torch.manual_seed(3)
    m = GPT(n_layer=12, n_head=12, n_embd=768, vocab_size=50257, block_size=256)
    idx = torch.randint(50257, (1, 1))
    cache = torch.zeros(12, 2, 1, 12, 256, 64)
    at = [0]

    def token(position):
        t = m.transformer
        x = t.wte(idx) + t.wpe.weight[position : position + 1]
        for layer, block in enumerate(t.h):
            q, k, v = block.attn.c_attn(block.ln_1(x)).view(3, 12, 1, 64)
            cache[layer, 0, 0, :, position], cache[layer, 1, 0, :, position] = k[:, 0], v[:, 0]
            keys, values = cache[layer, :, :, :, : position + 1]
            y = F.scaled_dot_product_attention(q.unsqueeze(0), keys, values)
            x = x + block.attn.c_proj(y.transpose(1, 2).reshape(1, 1, 768))
            x = x + block.mlp(block.ln_2(x))
        return m.lm_head(t.ln_f(x))

    def run():
        token(at[0] % 64)
        at[0] += 1

    return run, lambda: mean_square(token(0))


def rows_of(op, grad):
    def setup():
        torch.manual_seed(5)
        x = torch.randn(4096, 1024).requires_grad_(grad)
        b, c = torch.randn(4096, 1024), torch.randn(4096, 1024)
        targets, weight, bias = torch.randint(1024, (4096,)), torch.ones(1024), torch.zeros(1024)
        f = {
            "add": lambda: x + b,
            "relu": lambda: F.relu(x),
            "gelu": lambda: F.gelu(x),
            "gelu tanh": lambda: F.gelu(x, approximate="tanh"),
            "softmax": lambda: torch.softmax(x, -1),
            "layer_norm": lambda: F.layer_norm(x, (1024,), weight, bias),
            "cross_entropy": lambda: F.cross_entropy(x, targets),
        }[op]

        def run():
            y = f()
            if grad:
                x.grad = None
                y.backward(c if y.dim() else None)

        return run, lambda: mean_square(f())

    return setup


def square(change, dim):
    def setup():
        torch.manual_seed(5)
        x = change(torch.randn(4096, 4096))
        return (lambda: x.sum() if dim is None else x.sum(dim)), lambda: x.double().mean().item()

    return setup


def adamw():
    p = torch.ones(100 << 20, requires_grad=True)
    p.grad = torch.full_like(p, 0.5)
    o = torch.optim.AdamW([p], lr=1e-3, fused=True)
    return o.step, lambda: 1


def rows():
    """Yields (name, setup, threads, wants gradients)."""
    for grad in (False, True):
        tail = ", grad" if grad else ""
        a, b, x, w, s = (
            torch.ones(*d, requires_grad=grad) for d in ((3, 3), (3, 3), (6, 3), (3, 3), (6, 6))
        )
        yield "w0 add 3x3" + tail, w0(lambda: torch.add(a, b)), 1, grad
        yield "w0 matmul 6x3 3x3" + tail, w0(lambda: torch.matmul(x, w)), 1, grad
        yield "w0 softmax 6x6" + tail, w0(lambda: torch.softmax(s, -1)), 1, grad
        yield "w0 transpose 6x3" + tail, w0(lambda: x.transpose(0, 1)), 1, grad
    a, b = (torch.ones(4, 4, requires_grad=True) for _ in range(2))
    yield "w0 sum(a*b) 4x4, forward + backward", w0(lambda: (a * b).sum().backward()), 1, True
    yield "w1 toy layer, sgd", toy(torch.optim.SGD, lr=1e-3, fused=True), 1, True
    yield "w1 toy layer, adam", toy(torch.optim.Adam, lr=1e-5, fused=True), 1, True
    for t in 1024, 4096:
        yield f"w2 attention {t} forward", attention(t, False), 1, False
        yield f"w2 attention {t} forward + backward", attention(t, True), 1, True
    yield "w2 attention 4096 forward + backward, 2 threads", attention(4096, True), 2, True
    yield "w2 attention 4096 forward, 2 threads", attention(4096, False), 2, False
    yield "w2x attention 16384 forward", attention(16384, False), 1, False
    yield "w2x attention 16384 forward + backward", attention(16384, True), 1, True
    for threads, tail in (1, ""), (2, ", 2 threads"):
        yield "w3 small gpt step" + tail, gpt_step(4, 4, 128, 65, 12, 64), threads, True
    yield "w3 small gpt step, compiled", gpt_step(4, 4, 128, 65, 12, 64, compiled=True), 1, True
    yield "w3 small gpt step, bfloat16", medium(gpt_step(4, 4, 128, 65, 12, 64)), 1, True
    yield "w3 small gpt step, autocast", gpt_step(4, 4, 128, 65, 12, 64, autocast=True), 1, True
    for threads, tail in (1, ""), (2, ", 2 threads"):
        yield "w4 gpt-2 124M step" + tail, gpt_step(12, 12, 768, 50257, 4, 64), threads, True
    yield "w4 gpt-2 124M step, bfloat16", medium(gpt_step(12, 12, 768, 50257, 4, 64)), 1, True
    for op in "add", "relu", "gelu", "gelu tanh", "softmax", "layer_norm", "cross_entropy":
        yield f"w5 {op} forward", rows_of(op, False), 1, False
        yield f"w5 {op} forward + backward", rows_of(op, True), 1, True
    yield "w5 sum 4096x4096", square(lambda x: x, None), 1, False
    yield "w5 sum 4096x4096 over dim 0", square(lambda x: x, 0), 1, False
    yield "w5 sum 4096x4096 over dim 1", square(lambda x: x, 1), 1, False
    yield "w5 sum 4096x4096 transposed, dim 0", square(lambda x: x.T, 0), 1, False
    yield "w5 sum 4096x4096 every other, dim 1", square(lambda x: x[:, ::2], 1), 1, False
    yield "w5 adamw 100M", adamw, 1, True
    for threads, tail in (1, ""), (2, ", 2 threads"):
        yield "w6 gpt-2 124M, one token" + tail, generation, threads, False
    for name, setup in convolutions():
        for threads, tail in (1, ""), (2, ", 2 threads"):
            yield f"w8 {name}{tail}", setup, threads, True
    for layer, batch in (nn.LSTM, 1), (nn.LSTM, 16), (nn.LSTM, 64), (nn.GRU, 64), (nn.RNN, 64):
        name = f"w9 {layer.__name__.lower()} step, batch {batch}"
        for threads, tail in (1, ""), (2, ", 2 threads"):
            yield name + tail, recurrent(layer, batch), threads, True
    for batch, length, width in MICRO_STEPS:
        name = f"w10 step of {batch}x{length}, {width} wide"
        yield name, micro(batch, length, width), 1, True
        yield name + ", compiled", micro(batch, length, width, compiled=True), 1, True


    yield from compiled_steps()


def compiled_steps():
    """Yields the rows of w11: each step as it is and compiled, and the time to compile it."""
    toys = ("sgd", torch.optim.SGD, 1e-3), ("adam", torch.optim.Adam, 1e-5)
    steps = [
        (f"toy layer, {name}", functools.partial(toy, optimizer, lr=lr, fused=True))
        for name, optimizer, lr in toys
    ]
    for sizes in MICRO_STEPS:
        name = "step of {}x{}, {} wide".format(*sizes)
        steps.append((name, functools.partial(micro, *sizes)))
    steps.append(("small gpt step", functools.partial(gpt_step, 4, 4, 128, 65, 12, 64)))
    for name, setup in steps:
        yield f"w11 {name}", after_two_steps(setup()), 1, True
        yield f"w11 {name}, compiled", setup(compiled=True), 1, True
        yield f"w11 {name}, to compile", to_compile(setup(compiled=True)), 1, True


def after_two_steps(setup):
    """Returns a setup that makes two steps: the number of its row is the loss after them."""

    def warm_up():
        run, check = setup()
        run()
        run()
        return run, check

    return warm_up


def to_compile(setup):
    """Returns the setup of a row whose run compiles a step and makes it once, without what was
    compiled before."""

    def compile_anew():
        torch._inductor.config.force_disable_caches = True

        def run():
            torch._dynamo.reset()
            setup()[0]()

        return run, lambda: 0

    return compile_anew


def timed(run, n):
    start = time.perf_counter_ns()
    for _ in range(n):
        run()
    return time.perf_counter_ns() - start


def peak_megabytes():
    with open("/proc/self/status") as f:
        return next(int(line.split()[1]) // 1024 for line in f if line.startswith("VmHWM"))


def repeats_of(took):
    for longer_than, repeats in (5e9, 1), (2e9, 3), (2e8, 7):
        if took >= longer_than:
            return repeats
    return 15


def measure(name, setup, threads, grad):
    torch.set_num_threads(threads)
    with torch.enable_grad() if grad else torch.inference_mode():
        run, check = setup()
        number = check()
        n = 1
        while (took := timed(run, n)) < 5e6:
            n *= 2
        median = statistics.median(timed(run, n) for _ in range(repeats_of(took))) / n
    print(f"{name}\t{median:.1f}\t{number:.9g}\t{peak_megabytes()}", flush=True)


for row in rows():
    if not row[0].startswith(wanted):
        continue
    child = os.fork()
    if child == 0:
        try:
            measure(*row)
        except Exception as e:
            print(f"{row[0]}: {e}", file=sys.stderr)
            os._exit(0 if row[0].endswith(("compiled", "to compile")) else 1)
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        sys.exit(1)
