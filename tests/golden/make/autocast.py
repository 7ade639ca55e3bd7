"""autocast.py: writes autocast.txt, for test_autocast.c in tests/nn/: modules and training under
torch.autocast; and masters.txt, for test_masters.c: optimizers whose parameters are rounded from
float32 copies. (ops.py --autocast writes what single functions do.)

    python3 tests/golden/make/autocast.py

    = lstm bf16 f32         a module of modules(), autocast's dtype, and the dtype of its input
    > bf16 bf16 f32         the dtypes of its results
    : 0.5 ..                the values of the first, and then the sum of each parameter's gradient
    = train bf16 adamw      a network, whose losses and then weights follow: a line each
    = adamw bf16            an optimizer: the parameter after some steps, and its float32 copy
"""

import warnings

import torch
from torch import nn

from golden import Golden, name_of, values_of

DTYPES = torch.bfloat16, torch.float16


def modules():
    """Returns for each name what makes a module, and how it is called."""
    alone = lambda m, x: m(x)
    return {
        "linear": (lambda: nn.Linear(4, 3), alone),
        "linear_norm": (lambda: nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.GELU()), alone),
        "norm": (lambda: nn.LayerNorm(4), alone),
        "rms_norm": (lambda: nn.RMSNorm(4), alone),
        "group_norm": (lambda: nn.GroupNorm(1, 2), alone),
        "batch_norm": (lambda: nn.BatchNorm1d(2), alone),
        "conv": (lambda: nn.Conv1d(2, 3, 3), alone),
        "prelu": (lambda: nn.PReLU(), alone),
        "lstm": (lambda: nn.LSTM(4, 3), alone),
        "lstm_two": (lambda: nn.LSTM(4, 3, num_layers=2, bidirectional=True), alone),
        "lstm_proj": (lambda: nn.LSTM(4, 3, proj_size=2), alone),
        "gru": (lambda: nn.GRU(4, 3, num_layers=2), alone),
        "rnn": (lambda: nn.RNN(4, 3), alone),
        "lstm_cell": (lambda: nn.LSTMCell(4, 3), lambda m, x: m(x[0])),
        "gru_cell": (lambda: nn.GRUCell(4, 3), lambda m, x: m(x[0])),
        "rnn_cell": (lambda: nn.RNNCell(4, 3), lambda m, x: m(x[0])),
        "attention": (lambda: nn.MultiheadAttention(4, 2), lambda m, x: m(x, x, x)),
        "encoder": (lambda: nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0), alone),
        "encoder_eval": (lambda: nn.TransformerEncoderLayer(4, 2, 8).eval(), alone),
        "decoder": (lambda: nn.TransformerDecoderLayer(4, 2, 8, dropout=0.0),
                    lambda m, x: m(x, x)),
    }


def tensors_of(result):
    if isinstance(result, torch.Tensor):
        return [result]
    return [t for r in result for t in tensors_of(r)]


def write_module(g, name, make, call, dtype, given):
    torch.manual_seed(3)
    m = make()
    x = torch.randn(5, 2, 4).to(given)
    try:
        with torch.autocast("cpu", dtype):
            results = tensors_of(call(m, x))
        torch.autograd.backward(results[0], torch.ones_like(results[0]))
    except RuntimeError:
        return  # torch has no LSTM in float16 for a float32 input.
    g.case(name, name_of(dtype), name_of(given))
    g.line(">", *[name_of(t.dtype) for t in results])
    g.numbers(values_of(results[0]))
    g.numbers("none" if p.grad is None else repr(p.grad.double().sum().item())
              for p in m.parameters())


def write_training(g, dtype):
    torch.manual_seed(7)
    model = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.Tanh(), nn.Linear(8, 3))
    x, t = torch.randn(6, 4), torch.tensor([0, 1, 2, 0, 1, 2])
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    losses = []
    for _ in range(20):
        with torch.autocast("cpu", dtype):
            loss = nn.functional.cross_entropy(model(x), t)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    g.case("train", name_of(dtype), "adamw")
    g.numbers(map(repr, losses))
    g.numbers(values_of(*model.parameters()))


OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.02, momentum=0.9, weight_decay=0.01),
    "sgd_plain": lambda p: torch.optim.SGD(p, lr=0.02),
    "adam": lambda p: torch.optim.Adam(p, lr=0.003, amsgrad=True),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.003),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.002, momentum=0.5, centered=True),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.01),
    "nadam": lambda p: torch.optim.NAdam(p, lr=0.003),
    "radam": lambda p: torch.optim.RAdam(p, lr=0.003),
    "muon": lambda p: torch.optim.Muon(p, lr=0.003),
}


def write_masters(g, name, make, dtype):
    values = [[0.5, -1.25, 2.0], [0.875, -0.375, 1.5]]
    master = torch.tensor(values, requires_grad=True)
    param = master.detach().to(dtype)
    optimizer = make([master])
    for step in range(30):
        grad = param * 0.125 + step / 64
        master.grad = grad.float()
        optimizer.step()
        param = master.detach().to(dtype)
    g.case(name, name_of(dtype))
    g.numbers(values_of(param))
    g.numbers(values_of(master))


warnings.simplefilter("ignore")
with Golden("autocast") as g:
    for name, (make, call) in modules().items():
        for dtype in DTYPES:
            for given in torch.float32, dtype:
                write_module(g, name, make, call, dtype, given)
    for dtype in DTYPES:
        write_training(g, dtype)

with Golden("masters") as g:
    for name, make in OPTIMIZERS.items():
        for dtype in DTYPES:
            write_masters(g, name, make, dtype)
