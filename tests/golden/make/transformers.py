"""Writes transformers.txt: what PyTorch makes of encoders, decoders and whole transformers.

    python3 tests/golden/make/transformers.py [--samples | --random N SEED | --fast N SEED]

It writes some of PyTorch's own samples of these modules, those of
torch.testing._internal.common_modules, and random cases. With --samples it writes all of
PyTorch's samples, with --random N random cases, and with --fast N random cases for which an encoder
of PyTorch may take its fast path.
A case draws its module after torch.manual_seed(1), in float64, and has these lines:

    = NAME KEY=VALUE ..            the module, its options, and how it is run
    k KEY KEY ..                   the keys of its state_dict
    x NAME DIMS NUMBERS            an input: src, tgt or memory
    m NAME DIMS b|f64 NUMBERS      a mask, under the name of its keyword
    : NUMBERS                      the output
    : NUMBERS                      without nograd=1, every gradient of the sum of the output times a
                                   draw after torch.manual_seed(4): by the inputs, by the parameters
"""

import random
import sys
import warnings

import torch
from torch import nn
from torch.nn import functional as F
from torch.testing._internal.common_modules import module_db

from golden import Golden, comma, values_of

warnings.simplefilter("ignore")

LAYER = dict(
    dim_feedforward=2048,
    dropout=0.1,
    activation=F.relu,
    layer_norm_eps=1e-5,
    batch_first=False,
    norm_first=False,
    bias=True,
)
WHOLE = dict(d_model=512, nhead=8, num_encoder_layers=6, num_decoder_layers=6) | LAYER
MASKS = ("src_mask", "tgt_mask", "memory_mask", "mask")
PADDINGS = ("src_key_padding_mask", "tgt_key_padding_mask", "memory_key_padding_mask")
FLAGS = ("src_is_causal", "tgt_is_causal", "memory_is_causal", "is_causal")
ACTIVATIONS = [F.relu, F.gelu, torch.tanh]


def made(kind, o, layers, norm):
    """Returns the module, drawn anew."""
    torch.manual_seed(1)
    if kind == "Transformer":
        return nn.Transformer(**o)
    layer = nn.TransformerEncoderLayer if "Encoder" in kind else nn.TransformerDecoderLayer
    layer = layer(**o)
    if "Layer" in kind:
        return layer
    norm = nn.LayerNorm(o["d_model"], o["layer_norm_eps"]) if norm else None
    return getattr(nn, kind)(layer, layers, norm)


def word(value):
    if value in ACTIVATIONS:
        return ACTIVATIONS.index(value)
    return int(value) if isinstance(value, bool) else value


def case(data, name, kind, o, inputs, call, layers=0, norm=False, train=True, grad=True):
    module = made(kind, o, layers, norm).train(train)
    named = {k: v for k, v in call.items() if torch.is_tensor(v)}
    flags = {k: v for k, v in call.items() if k in FLAGS}
    how = dict(kind=kind, **o, layers=layers, norm=norm, train=train, nograd=not grad, **flags)
    data.case(name, *("%s=%s" % (k, word(v)) for k, v in how.items()))
    data.line("k", *module.state_dict())
    for k, x in inputs.items():
        data.line("x", k, comma(x.shape), *values_of(x))
    for k, m in named.items():
        kind = "b" if m.dtype == torch.bool else "f64"
        data.line("m", k, comma(m.shape), kind, *values_of(m))
    leaves = [x.detach().clone().requires_grad_() for x in inputs.values()]
    torch.manual_seed(3)
    with torch.set_grad_enabled(grad):
        y = module(*leaves, **named, **flags)
    data.numbers(values_of(y))
    if grad:
        torch.manual_seed(4)
        loss = (y * torch.randn(y.shape)).sum()
        found = torch.autograd.grad(loss, leaves + list(module.parameters()))
        data.numbers(values_of(*found))


# ---- PyTorch's own samples -------------------------------------------------------------


def options_of(kind, sample):
    """Returns the options of a sample's constructor, and how many layers it asks for."""
    args, kwargs = sample.constructor_input.args, dict(sample.constructor_input.kwargs)
    for k in "device", "dtype":
        kwargs.pop(k, None)
    if kind == "TransformerEncoder":
        layer, layers = args
        o = dict(
            d_model=layer.self_attn.embed_dim,
            nhead=layer.self_attn.num_heads,
            dim_feedforward=layer.linear1.out_features,
            dropout=layer.dropout.p,
            activation=layer.activation,
            layer_norm_eps=layer.norm1.eps,
            batch_first=layer.self_attn.batch_first,
            norm_first=layer.norm_first,
            bias=layer.linear1.bias is not None,
        )
        return o, layers
    names = list(WHOLE) if kind == "Transformer" else ["d_model", "nhead", *LAYER]
    defaults = WHOLE if kind == "Transformer" else LAYER
    return defaults | dict(zip(names, args)) | kwargs, 0


def samples(data, every=1):
    """Writes one in `every` of PyTorch's samples."""
    for info in module_db:
        kind = info.module_cls.__name__
        if not kind.startswith("Transformer"):
            continue
        names = dict(
            Transformer=("src", "tgt"),
            TransformerDecoderLayer=("tgt", "memory"),
        ).get(kind, ("src",))
        for train in True, False:
            torch.manual_seed(7)
            found = info.module_inputs_func(info, "cpu", torch.float64, True, train)
            for i, sample in list(enumerate(found))[::every]:
                o, layers = options_of(kind, sample)
                f = sample.forward_input
                call = {k: v for k, v in f.kwargs.items() if v is not None}
                name = "sample_%s_%s_%d" % (kind, "train" if train else "eval", i)
                inputs = dict(zip(names, f.args))
                if train or every == 1:
                    case(data, name, kind, o, inputs, call, layers, False, train)
                if not train:
                    name += "_no_grad"
                    case(data, name, kind, o, inputs, call, layers, train=False, grad=False)


# ---- random cases ----------------------------------------------------------------------


def random_mask(r, shape, causal):
    """Returns a mask in which each query sees at least one key."""
    if causal:
        return nn.Transformer.generate_square_subsequent_mask(shape[-1])
    if r.random() < 0.5:
        return torch.randn(shape)
    mask = torch.rand(shape) < 0.4
    mask[..., 0] = False
    return mask


def random_padding(r, batch, length):
    if r.random() < 0.2:
        return torch.randn(batch, length)
    lengths = torch.tensor([[r.randint(1, length)] for _ in range(batch)])
    mask = torch.arange(length) >= lengths
    if r.random() < 0.3 and length > 2:
        mask[0, :2] = torch.tensor([True, False])
        mask[0, -1] = False
    return mask if r.random() < 0.7 else torch.zeros(batch, length).masked_fill(mask, -torch.inf)


def random_case(data, r, name, fast=False):
    kinds = ["TransformerEncoderLayer", "TransformerEncoder", "TransformerDecoderLayer"]
    kind = r.choice(kinds + ["TransformerDecoder", "Transformer"] * 2)
    if fast:
        kind = r.choice(["TransformerEncoder", "Transformer"])
    heads = 2 if fast else r.choice([1, 2, 3])
    d = heads * r.choice([2, 4])
    o = LAYER | dict(
        d_model=d,
        nhead=heads,
        dim_feedforward=r.choice([3, 8]),
        dropout=r.choice([0.0, 0.0, 0.25]),
        activation=r.choice(ACTIVATIONS),
        layer_norm_eps=r.choice([1e-5, 1e-3]),
        batch_first=r.random() < 0.6,
        norm_first=r.random() < 0.4,
        bias=r.random() < 0.75,
    )
    if fast:
        activation = r.choice(ACTIVATIONS[:2])
        o |= dict(activation=activation, batch_first=True, norm_first=False, bias=True)
    if kind == "Transformer":
        o["num_encoder_layers"], o["num_decoder_layers"] = r.choice([1, 2]), r.choice([1, 2])
    batch, s, t = r.choice([1, 2, 3]), r.randint(1, 5), r.randint(1, 5)
    unbatched = r.random() < 0.2 and not fast
    torch.manual_seed(r.randint(0, 1 << 30))

    def drawn(length):
        if unbatched:
            return torch.randn(length, d)
        return torch.randn(*((batch, length) if o["batch_first"] else (length, batch)), d)

    encodes, decodes = "Decoder" not in kind, "Encoder" not in kind
    inputs, call = {}, {}
    if kind == "Transformer":
        inputs = dict(src=drawn(s), tgt=drawn(t))
    elif encodes:
        inputs = dict(src=drawn(s))
    else:
        inputs = dict(tgt=drawn(t), memory=drawn(s))
    rows = heads if unbatched else batch * heads

    def shape(l, k):
        return (l, k) if r.random() < 0.6 else (rows, l, k)

    def may_mask(key, l, k, flag):
        p = r.random()
        if p < 0.25:
            call[key] = random_mask(r, (l, k), True) if l == k else random_mask(r, (l, k), False)
            if l == k and r.random() < 0.5:
                call[flag] = True
        elif p < 0.5:
            call[key] = random_mask(r, shape(l, k), False)

    def may_pad(key, length):
        if r.random() < 0.5:
            mask = random_padding(r, batch, length)
            call[key] = mask[0] if unbatched else mask

    if encodes:
        key = "mask" if kind == "TransformerEncoder" else "src_mask"
        if fast:
            call["src_key_padding_mask"] = random_padding(r, batch, s)
        else:
            may_mask(key, s, s, "src_is_causal" if kind == "Transformer" else "is_causal")
            may_pad("src_key_padding_mask", s)
    if decodes:
        may_mask("tgt_mask", t, t, "tgt_is_causal")
        may_mask("memory_mask", t, s, "memory_is_causal")
        may_pad("tgt_key_padding_mask", t)
        may_pad("memory_key_padding_mask", s)
    train, grad = r.random() < 0.5, r.random() < 0.7
    if fast:
        train, grad = False, False
    layers = r.choice([1, 2, 3])
    # Cases in which a query sees no key are dropped. Such a row is NaN in one path of PyTorch and
    # not in the other. If the whole input is padding, one path fails.
    lines = len(data.lines)
    try:
        case(data, name, kind, o, inputs, call, layers, r.random() < 0.5, train, grad)
    except RuntimeError as e:
        if "to_padded_tensor" not in str(e):
            raise
        del data.lines[lines:]
        return False
    if any(" nan" in line for line in data.lines[lines:]):
        del data.lines[lines:]
        return False
    return True


def random_cases(data, n, seed, fast=False):
    r = random.Random(seed)
    i = 0
    while i < n:
        i += random_case(data, r, "%s_%d" % ("fast" if fast else "random", i), fast)


if __name__ == "__main__":
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    with Golden("transformers") as data:
        if "--samples" in sys.argv:
            samples(data)
        elif "--random" in sys.argv or "--fast" in sys.argv:
            fast = "--fast" in sys.argv
            at = sys.argv.index("--fast" if fast else "--random")
            random_cases(data, int(sys.argv[at + 1]), int(sys.argv[at + 2]), fast)
        else:
            samples(data, 5)
            random_cases(data, 40, 1)
            random_cases(data, 20, 1, True)
