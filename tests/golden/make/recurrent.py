"""Writes recurrent.txt: what PyTorch makes of LSTM, GRU, RNN, their cells, and packed sequences.

    python3 tests/golden/make/recurrent.py [--random N SEED]

It writes PyTorch's own samples of these modules, those of torch.testing._internal.common_modules,
and others, or with --random N random cases. A case draws its module after torch.manual_seed(1), in
float64, and has these lines:

    = NAME KEY=VALUE ..            the module, its options, and how it is run
    > TEXT                         its repr
    k KEY KEY ..                   the keys of its state_dict
    x DIMS NUMBERS                 the input, and then the states
    l N N ..                       lengths, if the input is packed
    : NUMBERS                      all results, after torch.manual_seed(3)
    : NUMBERS                      the gradients of a weighted sum of these, by the inputs, by the
                                   parameters; element j has the weight 0.5 + 0.1 (j % 11)
    : NUMBERS                      if second=1, the gradients of a weighted sum of these gradients
"""

import random
import sys
import warnings

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.testing._internal.common_modules import module_db

from golden import Golden, comma, values_of

warnings.simplefilter("ignore")
KINDS = ("LSTM", "GRU", "RNN", "LSTMCell", "GRUCell", "RNNCell")


def weighted(tensors):
    parts = []
    for t in tensors:
        weight = 0.5 + 0.1 * (torch.arange(t.numel(), dtype=t.dtype) % 11)
        parts.append((t.flatten() * weight).sum())
    return sum(parts)


def gradients(tensors, wanted, graph):
    got = torch.autograd.grad(weighted(tensors), wanted, create_graph=graph, allow_unused=True)
    return [torch.zeros_like(w) if g is None else g for g, w in zip(got, wanted)]


def results(m, x, states, lengths, enforce_sorted):
    """Returns all results, one behind the other."""
    lstm = type(m).__name__.startswith("LSTM")
    hx = (tuple(states) if lstm else states[0]) if states else None
    first = getattr(m, "batch_first", False)
    if lengths is None:
        y = m(x, hx)
    else:
        packed = pack_padded_sequence(x, torch.tensor(lengths), first, enforce_sorted)
        y = m(packed, hx)
        y = (pad_packed_sequence(y[0], first)[0], *y[1:])
    flat = []
    for part in y if isinstance(y, tuple) else (y,):
        flat += part if isinstance(part, tuple) else [part]
    return flat


def case(name, kind, o, x, states=(), lengths=None, train=False, second=False, sort=True):
    torch.manual_seed(1)
    m = getattr(nn, kind)(dtype=torch.float64, **o).train(train)
    words = dict(kind=kind, **o, train=train, second=second, enforce_sorted=sort)
    data.case(name, *(f"{k}={int(v) if isinstance(v, bool) else v}" for k, v in words.items()))
    data.text(repr(m))
    data.line("k", *m.state_dict())
    inputs = [t.detach().clone().requires_grad_() for t in (x, *states)]
    for t in inputs:
        data.line("x", comma(t.shape), *values_of(t))
    if lengths is not None:
        data.line("l", *lengths)
    torch.manual_seed(3)
    y = results(m, inputs[0], inputs[1:], lengths, sort)
    data.numbers(values_of(*y))
    wanted = [*inputs, *m.parameters()]
    g = gradients(y, wanted, second)
    data.numbers(values_of(*g))
    if second:
        data.numbers(values_of(*gradients(g, wanted, False)))


def samples():
    """Writes PyTorch's own samples."""
    for info in module_db:
        kind = info.module_cls.__name__
        if kind not in KINDS:
            continue
        torch.manual_seed(2)
        made = info.module_inputs_func(info, "cpu", torch.float64, True, False)
        for i, sample in enumerate(made):
            how, given = sample.constructor_input, sample.forward_input
            o = dict(zip(("input_size", "hidden_size"), how.args)) | how.kwargs
            x, *states = given.args
            if states and isinstance(states[0], tuple):
                states = states[0]
            case(f"sample_{kind}_{i}", kind, o, x, states)


def states_of(kind, o, batch):
    """Draws states of a batch, or states without a batch dim if `batch` is None."""
    rows = () if batch is None else (batch,)
    if "Cell" in kind:
        widths = [o["hidden_size"]] * (2 if kind == "LSTMCell" else 1)
        return [torch.randn(*rows, w) for w in widths]
    n = o.get("num_layers", 1) * (2 if o.get("bidirectional") else 1)
    widths = [o.get("proj_size") or o["hidden_size"]] + [o["hidden_size"]] * (kind == "LSTM")
    return [torch.randn(n, *rows, w) for w in widths]


def drawn(name, kind, o, steps, batch, given=False, lengths=None, **how):
    """Writes a case with a drawn input, which has no batch dim if `batch` is None."""
    torch.manual_seed(2)
    o = dict(input_size=3, hidden_size=2) | o
    shape = [batch] if "Cell" in kind else [steps, batch]
    if o.get("batch_first") and batch is not None:
        shape.reverse()
    x = torch.randn(*(n for n in shape if n is not None), o["input_size"])
    states = states_of(kind, o, batch) if given else ()
    case(name, kind, o, x, states, lengths, **how)


def chosen():
    """Writes what PyTorch's samples lack: a batch, packed sequences, dropout, second order."""
    for kind in KINDS[:3]:
        drawn(f"{kind}_plain", kind, {}, 3, 2, second=True)
        drawn(f"{kind}_states", kind, {}, 3, 2, True, second=True)
        two = dict(num_layers=2, bidirectional=True)
        drawn(f"{kind}_two", kind, two, 4, 3, True, second=True)
        drawn(f"{kind}_first", kind, two | dict(batch_first=True, bias=False), 2, 3)
        drawn(f"{kind}_dropout", kind, two | dict(dropout=0.3), 3, 2, train=True)
        drawn(f"{kind}_one_step", kind, {}, 1, 2, True)
        drawn(f"{kind}_no_batch", kind, {}, 3, 0, True)
        drawn(f"{kind}_wide", kind, dict(input_size=1, hidden_size=17), 2, 9)
        drawn(f"{kind}_packed", kind, two, 4, 3, True, [4, 2, 1], second=True)
        drawn(f"{kind}_packed_even", kind, {}, 3, 2, False, [3, 3])
        unsorted = dict(sort=False, train=True)
        o = two | dict(dropout=0.3, batch_first=True)
        drawn(f"{kind}_packed_unsorted", kind, o, 5, 4, True, [2, 4, 1, 4], **unsorted)
    projected = dict(hidden_size=3, proj_size=2, num_layers=2, bidirectional=True)
    drawn("LSTM_projected", "LSTM", projected, 3, 2, True, second=True)
    drawn("LSTM_projected_packed", "LSTM", projected, 4, 3, True, [4, 4, 1], second=True)
    drawn("RNN_relu", "RNN", dict(nonlinearity="relu", num_layers=2), 4, 3, second=True)
    for kind in KINDS[3:]:
        drawn(f"{kind}_batch", kind, {}, 1, 2, second=True)
        drawn(f"{kind}_states", kind, dict(bias=False), 1, 3, True, second=True)
        drawn(f"{kind}_alone", kind, {}, 1, None)


def randomly(n, seed):
    rng = random.Random(seed)
    flag = lambda: rng.random() < 0.5
    for i in range(n):
        kind = rng.choice(KINDS)
        o = dict(
            input_size=rng.randint(1, 9), hidden_size=rng.choice([1, 2, 3, 8, 17, 33]), bias=flag()
        )
        if kind.startswith("RNN") and flag():
            o["nonlinearity"] = "relu"
        batch = rng.choice([None, 1, 2, 3, 5, 9, 17])
        steps = rng.randint(1, 7)
        if "Cell" in kind:
            drawn(f"random_{i}", kind, o, 1, batch, flag(), second=flag())
            continue
        o |= dict(num_layers=rng.randint(1, 3), batch_first=flag(), bidirectional=flag())
        if flag():
            o["dropout"] = rng.choice([0.1, 0.5, 1.0])
        if kind == "LSTM" and o["hidden_size"] > 1 and rng.random() < 0.3:
            o["proj_size"] = rng.randint(1, o["hidden_size"] - 1)
        how = dict(train=flag(), second=rng.random() < 0.3)
        lengths = None
        if batch and flag():
            lengths = [rng.randint(1, steps) for _ in range(batch)]
            # torch.sort may put equal lengths in any order, on which dropout's result depends.
            how["sort"] = batch > 16 or flag()
            if how["sort"]:
                lengths.sort(reverse=True)
        drawn(f"random_{i}", kind, o, steps, batch, flag(), lengths, **how)


torch.set_num_threads(1)
torch.set_default_dtype(torch.float64)
with Golden("recurrent") as data:
    if "--random" in sys.argv:
        at = sys.argv.index("--random")
        randomly(int(sys.argv[at + 1]), int(sys.argv[at + 2]))
    else:
        samples()
        chosen()
