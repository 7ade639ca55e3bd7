"""JAX's side of the rows w10 and w11: a compiled step, called from Python, and a thousand of them
in JAX's own loop. bench.py says what the steps are."""

import functools
import os
import statistics
import sys
import time

os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

MICRO_STEPS = (1, 8, 16), (16, 8, 16), (16, 8, 32), (16, 16, 64)
STEPS = 1000  # The steps of JAX's own loop.
wanted = sys.argv[1] if len(sys.argv) > 1 else ""


def normalized(x):
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-5)


def adam_state(weights):
    zeros = [jnp.zeros_like(w) for w in weights]
    return weights, zeros, [jnp.zeros_like(w) for w in weights], jnp.float32(0)


def adam_step(loss, state):
    weights, m, v, t = state
    g = jax.grad(loss)(weights)
    t = t + 1
    m = [0.9 * a + 0.1 * b for a, b in zip(m, g)]
    v = [0.999 * a + 0.001 * b * b for a, b in zip(v, g)]
    root = [jnp.sqrt(c / (1 - 0.999**t)) + 1e-8 for c in v]
    weights = [w - 1e-5 / (1 - 0.9**t) * a / r for w, a, r in zip(weights, m, root)]
    return weights, m, v, t


def micro(batch, length, width):
    """Returns a step (state -> state), and the first state: weights, moments and count."""
    draw = np.random.default_rng(6)
    sizes = [(27, width), (length, width), *[(width, width)] * 4]
    sizes += [(4 * width, width), (width, 4 * width), (27, width)]
    weights = [jnp.asarray(draw.standard_normal(s) * 0.08, jnp.float32) for s in sizes]
    idx = jnp.asarray(draw.integers(0, 27, (batch, length)))
    targets = jnp.asarray(draw.integers(0, 27, (batch * length, 1)))
    seen = jnp.tril(jnp.ones((length, length), bool))

    def loss(weights):
        tokens, positions, wq, wk, wv, wo, widen, narrow, letters = weights
        x = normalized(tokens[idx] + positions)
        h = normalized(x)
        q, k, v = ((h @ w.T).reshape(batch, length, 4, width // 4) for w in (wq, wk, wv))
        scores = jnp.einsum("bihd,bjhd->bhij", q, k) / (width // 4) ** 0.5
        share = jax.nn.softmax(jnp.where(seen, scores, -jnp.inf), -1)
        y = jnp.einsum("bhij,bjhd->bihd", share, v).reshape(batch, length, width)
        x = y @ wo.T + x
        x = jax.nn.relu(normalized(x) @ widen.T) @ narrow.T + x
        log = jax.nn.log_softmax((x @ letters.T).reshape(batch * length, 27))
        return -jnp.mean(jnp.take_along_axis(log, targets, 1))

    return lambda state: adam_step(loss, state), adam_state(weights)


def toy(adam):
    """Returns the step of the notebook's layer (bench.py has it, too), and its first state."""
    draw = np.random.default_rng(1)
    sizes = [(6, 3), (3, 2), (3, 2), (3, 4)]
    weights = [jnp.asarray(draw.standard_normal(s), jnp.float32) for s in sizes]
    idx, target = jnp.arange(6), jnp.asarray(draw.standard_normal((6, 4)), jnp.float32)

    def loss(weights):
        table, *w = weights
        q, k, v = (table[idx] @ p for p in w)
        return jnp.mean((jax.nn.softmax(q @ k.T / 2**0.5, -1) @ v - target) ** 2)

    def step(state):
        if adam:
            return adam_step(loss, state)
        return [w - 1e-3 * g for w, g in zip(state, jax.grad(loss)(state))]

    return step, adam_state(weights) if adam else weights


def measure(name, f, state, calls, steps):
    state = jax.block_until_ready(f(state))
    times = []
    for _ in range(9):
        start = time.perf_counter_ns()
        for _ in range(calls):
            state = f(state)
        jax.block_until_ready(state)
        times.append((time.perf_counter_ns() - start) / calls / steps)
    print(f"{name}\t{statistics.median(times):.1f}\t0\t0", flush=True)


def rows():
    """Yields (name, function that returns a step and its first state)."""
    for sizes in MICRO_STEPS:
        yield "w10 step of {}x{}, {} wide".format(*sizes), functools.partial(micro, *sizes)
    yield "w11 toy layer, sgd", functools.partial(toy, False)
    yield "w11 toy layer, adam", functools.partial(toy, True)
    for sizes in MICRO_STEPS:
        yield "w11 step of {}x{}, {} wide".format(*sizes), functools.partial(micro, *sizes)


def time_to_compile(setup):
    """Returns the median time in nanoseconds to compile the step."""
    times = []
    for _ in range(5):
        step, first = setup()
        start = time.perf_counter_ns()
        jax.jit(step).lower(first).compile()
        times.append(time.perf_counter_ns() - start)
    return statistics.median(times)


for row, setup in rows():
    if not row.startswith(wanted):
        continue
    step, first = setup()
    loop = jax.jit(lambda s: jax.lax.scan(lambda s, _: (step(s), None), s, None, STEPS)[0])
    measure(row + ", JAX, in its loop", loop, first, 1, STEPS)
    if row.startswith("w11"):
        print(f"{row}, to compile, JAX, a call\t{time_to_compile(setup):.1f}\t0\t0", flush=True)
    # The step gives the memory of its state to the next one.
    measure(row + ", JAX, a call", jax.jit(step, donate_argnums=0), first, 100, 1)
