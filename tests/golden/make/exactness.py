"""Writes exactness.txt: how far PyTorch's float32 is from float64, in each op on one thread.

= softmax.short n f:400,7:-8:8    an op and a variant, how its result is measured, and its inputs
: 0.31 1.5 0.52 2.9               rms and worst error of the result, and of each input's gradient

An input is a kind, a shape and limits. `f` has numbers between the limits, and a gradient; `t` is
the same, but made as the transpose of its last two dims; `c` has no gradient; and `i:5,2:10` has
integers from 0 to 9. The seed is the case's number in the file. The inputs' random numbers are
drawn first, and then those of the result's gradient, between -1 and 1.

Errors are in units in the last place: of each element where the result is measured by `e`, and of
the root mean square of all elements where it is measured by `n`, as all gradients are.
"""

import math

import torch
import torch.nn.functional as F

from golden import Golden
from ops_cases import rotary_embedding

torch.set_num_threads(1)


def lstm(x, w_ih, b, w_hh, h, c):
    weights = [w_ih, w_hh, b, torch.zeros_like(b)]
    return torch.lstm(x, [h[None], c[None]], weights, True, 1, 0.0, True, False, False)[0]


def gru(x, w_ih, b, w_hh, b_hh, h):
    return torch.gru(x, h[None], [w_ih, w_hh, b, b_hh], True, 1, 0.0, True, False, False)[0]


def rnn(x, w_ih, b, w_hh, h):
    weights = [w_ih, w_hh, b, torch.zeros_like(b)]
    return torch.rnn_tanh(x, h[None], weights, True, 1, 0.0, True, False, False)[0]


def attention(q, k, v, mask=None, **options):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, **options)


def joint_attention(x, heads=4):
    q, k, v = x.unflatten(2, (3, heads, -1)).permute(2, 0, 3, 1, 4)
    y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return y.transpose(1, 2).flatten(2)


def norm_of_batch(x, w, b):
    return F.batch_norm(x, None, None, w, b, True)


def recurrence(a, b):
    y = [b[:, 0]]
    for k in range(1, b.shape[1]):
        y.append(b[:, k] + a[:, k] * y[-1])
    return torch.stack(y, 1)


def optimizer(make, steps=4):
    """Returns a function that says how far steps with one gradient move a parameter."""

    def moved(p, g):
        start = p.detach()
        p = start.clone().requires_grad_(True)
        o = make([p])
        for _ in range(steps):
            p.grad = g.detach().clone()
            o.step()
        return p.detach() - start

    return moved


def lstm_of(steps, batch, wide, hidden):
    return (
        f"f:{steps},{batch},{wide}:-1:1 f:{4 * hidden},{wide}:-0.3:0.3 f:{4 * hidden}:-0.3:0.3"
        f" f:{4 * hidden},{hidden}:-0.3:0.3 f:{batch},{hidden}:-1:1 f:{batch},{hidden}:-1:1"
    )


def heads(batch, n_heads, queries, keys, size, limit):
    return " ".join(
        f"f:{batch},{n_heads},{n},{size}:-{limit}:{limit}" for n in (queries, keys, keys)
    )


N = "2000"
HALVES = "f:2000:-3:3"
PAIR = f"f:{N}:-3:3 f:{N}:-3:3"
POSITIVE = f"f:{N}:0.1:3"
ROWS = {
    "tiny": "f:300,3:-4:4",
    "short": "f:200,17:-4:4",
    "of_8": "f:200,8:-4:4",
    "of_32": "f:100,32:-4:4",
    "of_64": "f:100,64:-4:4",
    "of_250": "f:40,250:-4:4",
    "wide": "f:12,1000:-4:4",
    "widest": "f:2,20000:-4:4",
    "sharp": "f:100,33:-40:40",
    "turned": "t:40,60:-4:4",
}
# Each function has what it computes and, by variant, how the result is measured and its inputs.
E, NORM = "e ", "n "


def each(**inputs):
    return {k: E + v for k, v in inputs.items()}


def whole(**inputs):
    return {k: NORM + v for k, v in inputs.items()}


FUNCTIONS = {
    # ---- element by element ----
    "exp": (torch.exp, each(near="f:2000:-1:1", far="f:2000:-80:80")),
    "exp2": (torch.exp2, each(near="f:2000:-1:1", far="f:2000:-100:100")),
    "expm1": (torch.expm1, each(near="f:2000:-0.01:0.01", far="f:2000:-5:20")),
    "log": (torch.log, each(near="f:2000:0.9:1.1", far="f:2000:0.001:1000")),
    "log1p": (torch.log1p, each(near="f:2000:-0.01:0.01", far="f:2000:-0.9:100")),
    "log2": (torch.log2, each(near="f:2000:0.9:1.1", far="f:2000:0.001:1000")),
    "log10": (torch.log10, each(near="f:2000:0.9:1.1", far="f:2000:0.001:1000")),
    "sqrt": (torch.sqrt, each(far="f:2000:0.001:1000")),
    "rsqrt": (torch.rsqrt, each(far="f:2000:0.001:1000")),
    "square": (torch.square, each(far=HALVES)),
    "reciprocal": (torch.reciprocal, each(far=POSITIVE)),
    "sin": (torch.sin, each(near="f:2000:-1:1", far="f:2000:-100:100")),
    "cos": (torch.cos, each(near="f:2000:-1:1", far="f:2000:-100:100")),
    "tan": (torch.tan, each(near="f:2000:-1:1", far="f:2000:-100:100")),
    "sinh": (torch.sinh, each(near="f:2000:-0.5:0.5", far="f:2000:-10:10")),
    "cosh": (torch.cosh, each(near="f:2000:-0.5:0.5", far="f:2000:-10:10")),
    "tanh": (torch.tanh, each(near="f:2000:-0.5:0.5", far="f:2000:-5:5")),
    "asin": (torch.asin, each(far="f:2000:-0.99:0.99")),
    "acos": (torch.acos, each(far="f:2000:-0.99:0.99")),
    "atan": (torch.atan, each(near="f:2000:-1:1", far="f:2000:-20:20")),
    "erf": (torch.erf, each(near="f:2000:-0.5:0.5", far="f:2000:-3:3")),
    "erfc": (torch.erfc, each(near="f:2000:-0.5:0.5", far="f:2000:-3:5")),
    "sigmoid": (torch.sigmoid, each(near="f:2000:-1:1", far="f:2000:-20:20")),
    "elu": (F.elu, each(near="f:2000:-0.01:0.01", far="f:2000:-5:5")),
    "gelu": (F.gelu, each(near="f:2000:-1:1") | whole(far="f:2000:-6:6")),
    "gelu_tanh": (
        lambda x: F.gelu(x, approximate="tanh"),
        each(near="f:2000:-1:1") | whole(far="f:2000:-6:6"),
    ),
    "silu": (F.silu, each(near="f:2000:-1:1", far="f:2000:-20:20")),
    "mish": (F.mish, each(near="f:2000:-1:1", far="f:2000:-15:15")),
    "softplus": (F.softplus, each(near="f:2000:-1:1", far="f:2000:-15:25")),
    "hardswish": (F.hardswish, whole(far="f:2000:-5:5")),
    "hardsigmoid": (F.hardsigmoid, whole(far="f:2000:-5:5")),
    "logsigmoid": (F.logsigmoid, each(near="f:2000:-1:1", far="f:2000:-15:15")),
    "leaky_relu": (lambda x: F.leaky_relu(x, 0.3), each(far=HALVES)),
    "prelu": (F.prelu, each(far="f:20,5,20:-3:3 f:5:0.1:0.4")),
    "softshrink": (F.softshrink, whole(far=HALVES)),
    "glu": (lambda x: F.glu(x, -1), each(far="f:40,50:-4:4")),
    "frac": (torch.frac, each(far=HALVES)),
    "add": (torch.add, each(far=PAIR, row="f:50,40:-3:3 f:40:-3:3")),
    "sub": (torch.sub, each(far=PAIR, column="f:50,40:-3:3 f:50,1:-3:3")),
    "mul": (torch.mul, each(far=PAIR, row="f:50,40:-3:3 f:40:-3:3")),
    "div": (torch.div, each(far=f"f:{N}:-3:3 {POSITIVE}", row="f:50,40:-3:3 f:40:0.1:3")),
    "over": (lambda x: x / 3, each(far=HALVES)),
    "add_alpha": (lambda a, b: torch.add(a, b, alpha=0.3), whole(far=PAIR)),
    "remainder": (torch.remainder, whole(far=f"f:{N}:-3:3 {POSITIVE}")),
    "fmod": (torch.fmod, whole(far=f"f:{N}:-3:3 {POSITIVE}")),
    "pow": (
        torch.pow,
        each(near=f"f:{N}:0.5:2 f:{N}:-3:3", far=f"f:{N}:0.01:10 f:{N}:-15:15"),
    ),
    "xlogy": (torch.xlogy, each(far=f"f:{N}:-3:3 {POSITIVE}")),
    "logaddexp": (torch.logaddexp, whole(far=PAIR)),
    "logaddexp2": (torch.logaddexp2, whole(far=PAIR)),
    "atan2": (torch.atan2, each(far=PAIR)),
    "lerp": (torch.lerp, whole(far=f"{PAIR} f:{N}:0:1")),
    "addcmul": (lambda x, a, b: torch.addcmul(x, a, b, value=0.3), whole(far=f"{PAIR} {HALVES}")),
    "addcdiv": (lambda x, a, b: torch.addcdiv(x, a, b, value=0.3), whole(far=f"{PAIR} {POSITIVE}")),
    "round_decimals": (lambda x: torch.round(x, decimals=2), whole(far=HALVES)),
    # ---- reductions ----
    "sum": (lambda x: x.sum(-1), whole(**ROWS)),
    "sum_all": (torch.sum, whole(small="f:300:-1:3", large="f:30000:-1:3")),
    "sum_first": (lambda x: x.sum(0), whole(few="f:20,300:-1:3", many="f:5000,8:-1:3")),
    "nansum": (lambda x: x.nansum(-1), whole(short=ROWS["short"], wide=ROWS["wide"])),
    "mean": (lambda x: x.mean(-1), whole(**ROWS)),
    "prod": (lambda x: x.prod(-1), each(short="f:200,17:0.5:2", wide="f:20,100:0.8:1.25")),
    "var": (lambda x: x.var(-1), each(**ROWS, far="f:100,50:99:101")),
    "std": (lambda x: x.std(-1), each(**ROWS, far="f:100,50:99:101")),
    "logsumexp": (lambda x: x.logsumexp(-1), whole(**ROWS)),
    "norm": (lambda x: x.norm(dim=-1), each(**ROWS)),
    "norm_one": (lambda x: x.norm(p=1, dim=-1), each(short=ROWS["short"], wide=ROWS["wide"])),
    "norm_three": (lambda x: x.norm(p=3, dim=-1), each(short=ROWS["short"], wide=ROWS["wide"])),
    "cdist": (
        torch.cdist,
        whole(
            few="f:9,5:-2:2 f:11,5:-2:2",
            many="f:60,5:-2:2 f:50,5:-2:2",
            wide="f:40,100:-2:2 f:30,100:-2:2",
        ),
    ),
    "cdist_one": (lambda a, b: torch.cdist(a, b, p=1), whole(many="f:60,5:-2:2 f:50,5:-2:2")),
    "cumsum": (lambda x: x.cumsum(-1), whole(**ROWS)),
    "cumprod": (
        lambda x: x.cumprod(-1),
        each(short="f:200,17:0.5:2", wide="f:20,100:0.8:1.25"),
    ),
    "logcumsumexp": (lambda x: x.logcumsumexp(-1), whole(short=ROWS["short"], wide=ROWS["wide"])),
    "trace": (torch.trace, whole(far="f:60,60:-1:3")),
    "bincount": (
        lambda i, w: torch.bincount(i, w, 10),
        whole(far="i:2000:10 c:2000:-1:3"),
    ),
    # ---- products ----
    "matmul": (
        torch.matmul,
        whole(
            tiny="f:300,3,4:-1:1 f:300,4,2:-1:1",
            thin="f:60,70:-1:1 f:70,3:-1:1",
            vector="f:60,500:-1:1 f:500:-1:1",
            dot="f:1000:-1:1 f:1000:-1:1",
            square="f:64,64:-1:1 f:64,64:-1:1",
            turned="t:40,60:-1:1 t:60,50:-1:1",
            deep="f:20,3000:-1:1 f:3000,30:-1:1",
            batch="f:6,20,33:-1:1 f:6,33,18:-1:1",
        ),
    ),
    "addmm": (
        lambda c, a, b: torch.addmm(c, a, b, beta=0.5, alpha=2),
        whole(far="f:30,20:-1:1 f:30,40:-1:1 f:40,20:-1:1"),
    ),
    "linear": (
        F.linear,
        whole(
            narrow="f:50,8:-1:1 f:12,8:-1:1 f:12:-1:1",
            wide="f:16,300:-1:1 f:200,300:-1:1 f:200:-1:1",
        ),
    ),
    "conv1d": (
        lambda x, w, b: F.conv1d(x, w, b, padding=1),
        whole(far="f:3,8,50:-1:1 f:12,8,3:-1:1 f:12:-1:1"),
    ),
    "conv2d": (
        lambda x, w, b: F.conv2d(x, w, b, padding=1),
        whole(
            few="f:2,3,12,13:-1:1 f:8,3,3,3:-1:1 f:8:-1:1",
            many="f:2,33,9,10:-1:1 f:36,33,3,3:-1:1 f:36:-1:1",
            large="f:1,8,20,20:-1:1 f:8,8,7,7:-1:1 f:8:-1:1",
            point="f:2,40,8,8:-1:1 f:24,40,1,1:-1:1 f:24:-1:1",
        ),
    ),
    "conv2d_stride": (
        lambda x, w, b: F.conv2d(x, w, b, stride=2),
        whole(far="f:2,17,15,14:-1:1 f:19,17,3,3:-1:1 f:19:-1:1"),
    ),
    "conv2d_groups": (
        lambda x, w, b: F.conv2d(x, w, b, groups=8),
        whole(far="f:2,8,15,14:-1:1 f:8,1,3,3:-1:1 f:8:-1:1"),
    ),
    "avg_pool2d": (lambda x: F.avg_pool2d(x, 3), whole(far="f:3,4,15,15:-1:1")),
    # ---- places that numbers are added to ----
    "index_add": (
        lambda x, i, s: x.index_add(0, i, s),
        whole(far="f:5,30:-1:1 i:60:5 f:60,30:-1:1"),
    ),
    "scatter_add": (
        lambda x, i, s: x.scatter_add(0, i, s),
        whole(far="f:5,30:-1:1 i:60,30:5 f:60,30:-1:1"),
    ),
    "scatter_mean": (
        lambda x, i, s: x.scatter_reduce(0, i, s, "mean"),
        whole(far="f:5,30:-1:1 i:60,30:5 f:60,30:-1:1"),
    ),
    "index": (lambda x, i: x[i], whole(far="f:5,30:-1:1 i:200:5")),
    "gather": (lambda x, i: x.gather(0, i), whole(far="f:5,30:-1:1 i:200,30:5")),
    "index_select": (lambda x, i: x.index_select(0, i), whole(far="f:5,30:-1:1 i:200:5")),
    "embedding": (lambda x, i: F.embedding(i, x), whole(far="f:5,30:-1:1 i:200:5")),
    "repeat": (lambda x: x.repeat(50, 2), whole(far="f:5,30:-1:1")),
    "expand": (lambda x: x.expand(500, 30), whole(far="f:1,30:-1:1")),
    "unfold": (lambda x: x.unfold(0, 9, 1), whole(far="f:100:-1:1")),
    "interleave": (lambda x: x.repeat_interleave(40, 0), whole(far="f:5,30:-1:1")),
    "pad": (lambda x: F.pad(x, (5, 5, 4, 4), mode="reflect"), whole(far="f:3,8,9:-1:1")),
    "max_pool2d": (lambda x: F.max_pool2d(x, 3, stride=1), whole(far="f:3,4,15,15:-1:1")),
    # ---- neural ----
    "softmax": (lambda x: x.softmax(-1), each(**ROWS)),
    "softmax_first": (lambda x: x.softmax(0), each(few="f:7,300:-4:4", many="f:200,16:-4:4")),
    "log_softmax": (lambda x: x.log_softmax(-1), whole(**ROWS)),
    "layer_norm": (
        lambda x, w, b: F.layer_norm(x, w.shape, w, b),
        whole(
            tiny="f:300,4:-2:2 f:4:0.5:1.5 f:4:-1:1",
            **{
                f"of_{n}": f"f:{2000 // n},{n}:-2:2 f:{n}:0.5:1.5 f:{n}:-1:1"
                for n in (8, 16, 32, 48, 64, 100, 256)
            },
            wide="f:6,2000:-2:2 f:2000:0.5:1.5 f:2000:-1:1",
            far="f:50,64:99:101 f:64:0.5:1.5 f:64:-1:1",
        ),
    ),
    "rms_norm": (
        lambda x, w: F.rms_norm(x, w.shape, w, 1e-5),
        whole(
            tiny="f:300,4:-2:2 f:4:0.5:1.5",
            **{
                f"of_{n}": f"f:{2000 // n},{n}:-2:2 f:{n}:0.5:1.5"
                for n in (8, 16, 32, 48, 64, 100, 256)
            },
            wide="f:6,2000:-2:2 f:2000:0.5:1.5",
        ),
    ),
    "group_norm": (
        lambda x, w, b: F.group_norm(x, 3, w, b),
        whole(
            plain="f:8,6,7,5:-2:2 f:6:0.5:1.5 f:6:-1:1",
            far="f:8,6,7,5:99:101 f:6:0.5:1.5 f:6:-1:1",
            wide="f:2,6,40,40:-2:2 f:6:0.5:1.5 f:6:-1:1",
        ),
    ),
    "batch_norm": (
        norm_of_batch,
        whole(
            rows="f:60,17:-2:2 f:17:0.5:1.5 f:17:-1:1",
            planes="f:6,5,12,13:-2:2 f:5:0.5:1.5 f:5:-1:1",
            far="f:6,5,12,13:99:101 f:5:0.5:1.5 f:5:-1:1",
        ),
    ),
    # ---- attention: short and narrow heads go by lanes, others by tiles ----
    "attention": (
        attention,
        whole(
            short=heads(8, 4, 5, 6, 4, 2),
            sharp=heads(64, 2, 3, 3, 2, 9),
            sharper=heads(64, 4, 8, 8, 4, 12),
            narrow=heads(4, 4, 16, 16, 8, 3),
            filled=heads(2, 8, 32, 32, 16, 2),
            tiles=heads(1, 3, 70, 65, 24, 2),
            sharp_tiles=heads(1, 3, 70, 65, 24, 6),
            long=heads(1, 1, 200, 300, 64, 1),
        ),
    ),
    "attention_causal": (
        lambda q, k, v: attention(q, k, v, is_causal=True),
        whole(
            short=heads(8, 4, 6, 6, 4, 3),
            narrow=heads(4, 4, 17, 17, 8, 3),
            tiles=heads(1, 3, 130, 130, 32, 2),
        ),
    ),
    "attention_masked": (
        attention,
        whole(
            short=heads(8, 4, 5, 6, 4, 3) + " c:5,6:-9:9",
            tiles=heads(1, 3, 70, 65, 24, 2) + " c:70,65:-9:9",
        ),
    ),
    "attention_composed": (
        lambda q, k, v: attention(q, k, v),
        whole(three="f:6,9,8:-3:3 f:6,7,8:-3:3 f:6,7,8:-3:3"),
    ),
    "joint_attention": (
        joint_attention,
        whole(short="f:4,9,48:-3:3", tiles="f:1,100,192:-2:2"),
    ),
    # ---- recurrent layers ----
    "lstm": (
        lstm,
        whole(
            short=lstm_of(5, 4, 6, 8),
            long=lstm_of(60, 2, 3, 5),
            wide=lstm_of(4, 16, 20, 64),
        ),
    ),
    "gru": (
        gru,
        whole(
            short="f:5,4,6:-1:1 f:24,6:-0.3:0.3 f:24:-0.3:0.3 f:24,8:-0.3:0.3 f:24:-0.3:0.3"
            " f:4,8:-1:1",
            wide="f:4,16,20:-1:1 f:192,20:-0.3:0.3 f:192:-0.3:0.3 f:192,64:-0.3:0.3"
            " f:192:-0.3:0.3 f:16,64:-1:1",
        ),
    ),
    "rnn": (
        rnn,
        whole(
            short="f:5,4,6:-1:1 f:8,6:-0.3:0.3 f:8:-0.3:0.3 f:8,8:-0.3:0.3 f:4,8:-1:1",
            wide="f:4,16,20:-1:1 f:64,20:-0.3:0.3 f:64:-0.3:0.3 f:64,64:-0.3:0.3 f:16,64:-1:1",
        ),
    ),
    # ---- losses ----
    "mse_loss": (F.mse_loss, whole(far="f:500:-2:2 f:500:-2:2")),
    "smooth_l1_loss": (F.smooth_l1_loss, whole(far="f:500:-2:2 c:500:-2:2")),
    "huber_loss": (F.huber_loss, whole(far="f:500:-2:2 c:500:-2:2")),
    "binary_cross_entropy": (
        lambda p, t: F.binary_cross_entropy(p, t, reduction="none"),
        whole(far="f:1000:0.01:0.99 c:1000:0:1"),
    ),
    "binary_cross_entropy_with_logits": (
        lambda x, t: F.binary_cross_entropy_with_logits(x, t, reduction="none"),
        whole(far="f:1000:-6:6 c:1000:0:1"),
    ),
    "nll_loss": (F.nll_loss, whole(far="f:300,5:-3:0 i:300:5")),
    "cross_entropy": (
        lambda x, t: F.cross_entropy(x, t, reduction="none"),
        whole(
            tiny="f:300,3:-4:4 i:300:3",
            short="f:100,17:-4:4 i:100:17",
            wide="f:10,1000:-4:4 i:10:1000",
            sharp="f:100,33:-40:40 i:100:33",
        ),
    ),
    "cross_entropy_mean": (F.cross_entropy, whole(short="f:100,17:-4:4 i:100:17")),
    "cross_entropy_shares": (F.cross_entropy, whole(short="f:100,17:-4:4 c:100,17:0:0.1")),
    "cross_entropy_smoothed": (
        lambda x, t: F.cross_entropy(x, t, reduction="none", label_smoothing=0.1),
        whole(short="f:100,17:-4:4 i:100:17"),
    ),
    # ---- optimizers ----
    **{
        name: (optimizer(make), whole(far="c:500:-0.01:0.01 c:500:-1:1"))
        for name, make in {
            "optim_sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01),
            "optim_adam": lambda p: torch.optim.Adam(p, lr=0.1),
            "optim_adamw": lambda p: torch.optim.AdamW(p, lr=0.1),
            "optim_rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.1),
            "optim_adagrad": lambda p: torch.optim.Adagrad(p, lr=0.1),
            "optim_nadam": lambda p: torch.optim.NAdam(p, lr=0.1),
            "optim_radam": lambda p: torch.optim.RAdam(p, lr=0.1),
        }.items()
    },
    "optim_radam_long": (
        optimizer(lambda p: torch.optim.RAdam(p, lr=0.1), 12),
        whole(far="c:500:-0.01:0.01 c:500:-1:1"),
    ),
    # Its inputs come from the same stream of random numbers as those of the rows above.
    "rotary_embedding": (
        lambda x, cos, sin: rotary_embedding(x, cos, sin, False),
        each(far="f:40,50:-4:4 f:40,25:-1:1 f:40,25:-1:1"),
    ),
    # ---- running sums of many elements ----
    "logcumsumexp_long": (lambda x: x.logcumsumexp(-1), whole(widest="f:2,20000:0:1")),
}


def make(text):
    """Returns an input, and whether it has a gradient."""
    kind, shape, *limits = text.split(":")
    shape = [int(n) for n in shape.split(",")]
    if kind == "t":
        shape[-2:] = shape[-1], shape[-2]
    x = torch.rand(shape)
    if kind == "i":
        return (x * int(limits[0])).long(), False
    low, high = map(float, limits)
    x = x * (high - low) + low
    return (x.transpose(-2, -1) if kind == "t" else x), kind in "ft"


def run(f, inputs, g=None, dtype=torch.float32):
    """Returns the result, and the gradients of those inputs that have one."""
    x = [
        (t.to(dtype) if t.is_floating_point() else t).detach().requires_grad_(wanted)
        for t, wanted in inputs
    ]
    y = f(*x)
    if g is None or not y.requires_grad:
        return [y.detach()]
    leaves = [t for t in x if t.requires_grad]
    return [y.detach(), *torch.autograd.grad(y, leaves, g.to(dtype))]


def error(y, right, by_element):
    """Returns the error's root mean square, and the largest, in units in the last place."""
    size = right.abs() if by_element else right.square().mean().sqrt().expand_as(right)
    unit = torch.exp2(size.clamp_min(2.0**-126).log2().floor()) if by_element else size
    far = (y.double() - right).abs() / (unit * 2.0**-23)
    far = torch.where(y.double() == right, torch.zeros_like(far), far)
    return ["%.3g" % far.square().mean().sqrt().item(), "%.3g" % far.max().item()]


with Golden("exactness") as data:
    seed = 0
    for name, (f, variants) in FUNCTIONS.items():
        for variant, inputs in variants.items():
            seed += 1
            torch.manual_seed(seed)
            kind, *words = inputs.split()
            tensors = [make(word) for word in words]
            y = run(f, tensors)[0]
            g = torch.rand(y.shape) * 2 - 1
            numbers = []
            results = zip(run(f, tensors, g), run(f, tensors, g, torch.float64))
            for i, (single, double) in enumerate(results):
                assert torch.isfinite(single).all(), (name, variant)
                numbers += error(single, double, kind == "e" and i == 0)
            data.case(f"{name}.{variant}", kind, *words)
            data.numbers(numbers)
