"""Writes attention.txt, transformer.txt, gpt.txt and trajectory.txt: what PyTorch makes of
attention, positions, encoder layers and a GPT, and how they learn.

A case draws its module after torch.manual_seed(1) and its inputs after torch.manual_seed(2), in
float64. A module NAME has these cases:

    NAME.w       its weights
    NAME.y       its outputs
    NAME.g       every gradient, one behind the other, of the sum of y times a draw
    NAME.keys    the keys of its state_dict
"""

import math
import warnings

import torch
from torch import nn
from torch.nn import functional as F

from golden import Golden, values_of

warnings.simplefilter("ignore")


def put(name, *tensors):
    data.case(name)
    data.numbers(values_of(*tensors))


def drawn(*shape):
    return torch.randn(*shape, requires_grad=True)


def run(name, module, inputs, f=None, train=False):
    """Writes what f makes of the module and the inputs, or what the module makes of them."""
    module.train(train)
    torch.manual_seed(3)
    y = f(module, *inputs) if f else module(*inputs)
    y = y if isinstance(y, tuple) else (y,)
    y = [t for t in y if t is not None]
    put(name + ".y", *y)
    torch.manual_seed(4)
    loss = sum((t * torch.randn(t.shape)).sum() for t in y)
    leaves = [x for x in inputs if x.is_floating_point()] + list(module.parameters())
    put(name + ".g", *torch.autograd.grad(loss, leaves))


def name_state(name, module):
    data.case(name + ".keys")
    data.text(" ".join(module.state_dict()))


# ---- attention -----------------------------------------------------------------------


class SelfAttention(nn.Module):
    def __init__(self, d_in, d_out_kq, d_out_v):
        super().__init__()
        self.d_out_kq = d_out_kq
        self.w_query = nn.Parameter(torch.randn(d_in, d_out_kq))
        self.w_key = nn.Parameter(torch.randn(d_in, d_out_kq))
        self.w_value = nn.Parameter(torch.randn(d_in, d_out_v))

    def forward(self, x):
        queries, keys, values = x @ self.w_query, x @ self.w_key, x @ self.w_value
        return torch.softmax(queries @ keys.mT / self.d_out_kq**0.5, dim=-1) @ values


def masks(q, k, heads, attn, padding):
    """Returns the masks of a case, in which each query sees at least one key."""
    length, keys, batch = q, k, 2
    torch.manual_seed(5)
    shape = (length, keys) if attn[-1:] == "2" else (batch * heads, length, keys)
    a = p = None
    if attn[:1] == "b":
        a = torch.rand(shape) < 0.4
        a[..., 0] = False
    elif attn[:1] == "f":
        a = torch.randn(shape)
    elif attn == "causal2":
        a = nn.Transformer.generate_square_subsequent_mask(length)
    if padding == "b":
        p = torch.tensor([[False] * keys, [False] * (keys - 1) + [True]])
    elif padding == "f":
        p = torch.randn(batch, keys)
    return a, p


def multihead(name, how, attn="", padding="", **call):
    """Writes a case of attention: cross-attention if `cross` is given, else self-attention."""
    train = how.pop("train", False)
    cross = how.pop("cross", False)
    torch.manual_seed(1)
    m = nn.MultiheadAttention(4, 2, **how)
    first = how.get("batch_first", False)
    torch.manual_seed(2)
    sides = [(3, 4)] + [(5, how.get("kdim") or 4), (5, how.get("vdim") or 4)] * cross
    x = [drawn(2, n, d) if first else drawn(n, 2, d) for n, d in sides]
    a, p = masks(3, 5 if cross else 3, 2, attn, padding)
    options = dict(attn_mask=a, key_padding_mask=p, **call)
    run(
        name,
        m,
        x,
        lambda m, q, k=None, v=None: m(q, q if k is None else k, q if v is None else v, **options),
        train,
    )
    name_state(name, m)


def attention():
    torch.manual_seed(1)
    m = SelfAttention(3, 2, 4)
    torch.manual_seed(2)
    run("self", m, [drawn(6, 3)])
    torch.manual_seed(2)
    run("self_batched", m, [drawn(2, 5, 3)])
    name_state("self", m)

    no = dict(need_weights=False)
    multihead("plain", {})
    multihead("plain_fast", {}, **no)
    multihead("each_head", {}, average_attn_weights=False)
    multihead("no_bias", dict(bias=False), **no)
    multihead("batch_first", dict(batch_first=True))
    multihead("cross", dict(cross=True))
    multihead("dims", dict(cross=True, kdim=5, vdim=6))
    multihead("dims_fast", dict(cross=True, kdim=5, vdim=6, batch_first=True, bias=False), **no)
    multihead("bool2", {}, "b2")
    multihead("bool3", {}, "b3", **no)
    multihead("float2", dict(cross=True), "f2", **no)
    multihead("float3", {}, "f3")
    multihead("padding", {}, "", "b")
    multihead("padding_fast", dict(cross=True, batch_first=True), "", "f", **no)
    multihead("both", {}, "b3", "b")
    multihead("both_fast", {}, "f2", "f", **no)
    multihead("causal", {}, "causal2", "", is_causal=True)
    multihead("causal_fast", {}, "causal2", "", is_causal=True, **no)
    multihead("causal_padding", {}, "causal2", "b", is_causal=True, **no)
    multihead("extra", dict(cross=True, add_bias_kv=True, add_zero_attn=True), "b2", "b")
    multihead("extra_fast", dict(add_bias_kv=True, add_zero_attn=True), "f3", **no)
    multihead("dropout", dict(dropout=0.3, train=True))
    multihead("dropout_fast", dict(dropout=0.3, train=True, batch_first=True), **no)

    torch.manual_seed(1)
    m = nn.MultiheadAttention(4, 2)
    torch.manual_seed(2)
    x, pad = [drawn(3, 4)], torch.tensor([False, False, True])
    run("unbatched", m, x, lambda m, q: m(q, q, q, key_padding_mask=pad))

    torch.manual_seed(2)
    x, at = torch.randn(2, 6, 4), torch.arange(20.0)[:, None]
    angle = at / 10000 ** (torch.arange(0, 4, 2) / 4)
    pe = torch.zeros(20, 4)
    pe[:, 0::2], pe[:, 1::2] = angle.sin(), angle.cos()
    put("sinusoidal.y", x + pe[3:9])
    cos, sin = torch.cat([angle, angle], -1).cos()[3:9], torch.cat([angle, angle], -1).sin()[3:9]
    put("rotary.y", x * cos + torch.cat([-x[..., 2:], x[..., :2]], -1) * sin)
    torch.manual_seed(1)
    put("learned.y", x + nn.Embedding(20, 4).weight[3:9])


# ---- encoder layers ------------------------------------------------------------------


def encoder(name, how, src_mask=None, padding=None, train=False, causal=False):
    torch.manual_seed(1)
    m = nn.TransformerEncoderLayer(4, 2, dim_feedforward=6, **{"dropout": 0.0, **how})
    torch.manual_seed(2)
    x = drawn(2, 3, 4) if how.get("batch_first") else drawn(3, 2, 4)
    run(
        name,
        m,
        [x],
        lambda m, x: m(x, src_mask=src_mask, src_key_padding_mask=padding, is_causal=causal),
        train,
    )
    name_state(name, m)


def transformer():
    mask = nn.Transformer.generate_square_subsequent_mask(3)
    padding = torch.tensor([[False] * 3, [False] * 2 + [True]])
    encoder("post", {}, train=True)
    encoder("pre", dict(norm_first=True), train=True)
    encoder("post_gelu", dict(activation="gelu", batch_first=True, layer_norm_eps=1e-3), train=True)
    encoder(
        "pre_causal",
        dict(norm_first=True, activation="gelu", bias=False),
        mask,
        train=True,
        causal=True,
    )
    encoder("post_masked", dict(batch_first=True), mask, padding * -1e3)
    encoder("pre_padded", dict(norm_first=True), None, padding)
    encoder("post_dropout", dict(dropout=0.3), train=True)
    encoder(
        "pre_dropout",
        dict(dropout=0.3, norm_first=True, batch_first=True, activation="gelu"),
        mask,
        train=True,
    )


# ---- GPT: nanoGPT's shape and names --------------------------------------------------


class CausalSelfAttention(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.c_attn = nn.Linear(o["n_embd"], 3 * o["n_embd"], bias=o["bias"])
        self.c_proj = nn.Linear(o["n_embd"], o["n_embd"], bias=o["bias"])
        self.attn_dropout, self.resid_dropout = nn.Dropout(o["dropout"]), nn.Dropout(o["dropout"])
        self.n_head, self.dropout = o["n_head"], o["dropout"]

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (
            p.view(b, t, self.n_head, -1).transpose(1, 2) for p in self.c_attn(x).chunk(3, dim=2)
        )
        y = F.scaled_dot_product_attention(
            q, k, v, dropout_p=self.dropout if self.training else 0, is_causal=True
        )
        return self.resid_dropout(self.c_proj(y.transpose(1, 2).reshape(b, t, c)))


class MLP(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.c_fc = nn.Linear(o["n_embd"], 4 * o["n_embd"], bias=o["bias"])
        self.gelu = nn.GELU()
        self.c_proj = nn.Linear(4 * o["n_embd"], o["n_embd"], bias=o["bias"])
        self.dropout = nn.Dropout(o["dropout"])

    def forward(self, x):
        return self.dropout(self.c_proj(self.gelu(self.c_fc(x))))


class Block(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.ln_1 = nn.LayerNorm(o["n_embd"], bias=o["bias"])
        self.attn = CausalSelfAttention(o)
        self.ln_2 = nn.LayerNorm(o["n_embd"], bias=o["bias"])
        self.mlp = MLP(o)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self, **o):
        super().__init__()
        self.o = o = dict(dropout=0.0, bias=True) | o
        self.transformer = nn.ModuleDict(
            dict(
                wte=nn.Embedding(o["vocab_size"], o["n_embd"]),
                wpe=nn.Embedding(o["block_size"], o["n_embd"]),
                drop=nn.Dropout(o["dropout"]),
                h=nn.ModuleList([Block(o) for _ in range(o["n_layer"])]),
                ln_f=nn.LayerNorm(o["n_embd"], bias=o["bias"]),
            )
        )
        self.lm_head = nn.Linear(o["n_embd"], o["vocab_size"], bias=False)
        self.transformer.wte.weight = self.lm_head.weight
        self.apply(self.first_weights)
        for name, p in self.named_parameters():
            if name.endswith("c_proj.weight"):
                nn.init.normal_(p, mean=0.0, std=0.02 / math.sqrt(2 * o["n_layer"]))

    @staticmethod
    def first_weights(m):
        if isinstance(m, (nn.Linear, nn.Embedding)):
            nn.init.normal_(m.weight, mean=0.0, std=0.02)
        if isinstance(m, nn.Linear) and m.bias is not None:
            nn.init.zeros_(m.bias)

    def forward(self, idx, targets=None):
        t = self.transformer
        x = t.drop(t.wte(idx) + t.wpe(torch.arange(idx.size(1))))
        for block in t.h:
            x = block(x)
        x = t.ln_f(x)
        if targets is None:
            return self.lm_head(x[:, [-1], :]), None
        logits = self.lm_head(x)
        return logits, F.cross_entropy(
            logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1
        )

    @torch.no_grad()
    def generate(self, idx, n, temperature=1.0, top_k=None):
        for _ in range(n):
            logits = self(idx[:, -self.o["block_size"] :])[0][:, -1, :] / temperature
            if top_k is not None:
                logits[logits < torch.topk(logits, min(top_k, logits.size(-1)))[0][:, [-1]]] = (
                    -math.inf
                )
            idx = torch.cat((idx, torch.multinomial(F.softmax(logits, dim=-1), 1)), dim=1)
        return idx


def gpt():
    small = dict(block_size=6, vocab_size=11, n_layer=2, n_head=2, n_embd=4)
    idx = torch.tensor([[1, 2, 3, 10], [0, 5, 5, 9]])
    targets = torch.tensor([[2, 3, 10, 4], [5, 5, 9, -1]])
    for name, how, train in (
        ("gpt", {}, False),
        ("gpt_plain", dict(bias=False), True),
        ("gpt_dropout", dict(dropout=0.2), True),
    ):
        torch.manual_seed(1)
        m = GPT(**small, **how)
        put(name + ".w", *m.state_dict().values())
        run(name, m, [idx, targets], None, train)
        name_state(name, m)
    torch.manual_seed(1)
    m = GPT(**small)
    put("gpt_last.y", m(idx)[0])
    for p in m.parameters():
        if p.dim() > 1:
            nn.init.normal_(p)
    for name, how in ("any", {}), ("top", dict(temperature=0.8, top_k=3)):
        torch.manual_seed(6)
        put("generate_%s.y" % name, m.generate(idx[:, :3], 12, **how))


# ---- 200 steps of training, everything drawn from one seed ---------------------------


def learn(optimizer, loss_of, steps=200):
    losses = []
    for _ in range(steps):
        loss = loss_of()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def learn_layer():
    m = nn.Sequential(nn.Embedding(20, 3), SelfAttention(3, 2, 4), nn.Linear(4, 20))
    words = torch.randint(0, 20, (20,))
    return learn(
        torch.optim.SGD(m.parameters(), lr=0.05), lambda: F.cross_entropy(m(words), words.roll(-1))
    )


def learn_encoder():
    m = nn.Sequential(
        *[nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True) for _ in range(2)]
    )
    x, y = torch.randn(4, 8, 16), torch.randn(4, 8, 16)
    return learn(torch.optim.Adam(m.parameters(), lr=1e-3), lambda: F.mse_loss(m(x), y))


def learn_gpt():
    m = GPT(block_size=16, vocab_size=32, n_layer=2, n_head=2, n_embd=32)
    text = torch.randint(0, 32, (400,))
    decay = [p for p in m.parameters() if p.dim() > 1]
    rest = [p for p in m.parameters() if p.dim() == 1]
    groups = [dict(params=decay, weight_decay=0.1), dict(params=rest, weight_decay=0.0)]

    def loss_of():
        at = torch.randint(0, 400 - 16, (8, 1)) + torch.arange(16)
        return m(text[at], text[at + 1])[1]

    return learn(torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.95)), loss_of)


class Translator(nn.Module):
    def __init__(self, words, d):
        super().__init__()
        self.src = nn.Embedding(words, d, padding_idx=0)
        self.tgt = nn.Embedding(words, d, padding_idx=0)
        self.where = nn.Embedding(10, d)
        self.transformer = nn.Transformer(d, 4, 2, 2, 2 * d, batch_first=True)
        self.head = nn.Linear(d, words)

    def forward(self, src, tgt):
        n = tgt.size(1)
        y = self.transformer(
            self.src(src) + self.where(torch.arange(src.size(1))),
            self.tgt(tgt) + self.where(torch.arange(n)),
            tgt_mask=nn.Transformer.generate_square_subsequent_mask(n),
            src_key_padding_mask=src == 0,
            memory_key_padding_mask=src == 0,
            tgt_key_padding_mask=tgt == 0,
        )
        return self.head(y)


def learn_translation():
    """Learns to turn sentences round: 3 to 8 words of 12, where 0 is padding and 1 begins."""
    m = Translator(12, 32)
    words, length = torch.randint(3, 12, (64, 8)), torch.randint(3, 9, (64, 1))
    at = torch.arange(8)
    src = words.masked_fill(at >= length, 0)
    target = words.gather(1, (length - 1 - at).clamp(min=0)).masked_fill(at >= length, 0)
    tgt = torch.cat([torch.ones(64, 1, dtype=torch.int64), target[:, :-1]], 1)

    def loss_of():
        some = torch.randint(0, 64, (16,))
        logits = m(src[some], tgt[some])
        return F.cross_entropy(logits.flatten(0, 1), target[some].flatten(), ignore_index=0)

    return learn(torch.optim.AdamW(m.parameters(), lr=1e-3), loss_of)


def trajectory():
    """Writes losses. The last number is how far PyTorch's float32 losses are from its own with two
    threads."""
    for f in learn_layer, learn_encoder, learn_gpt, learn_translation:
        losses = {}
        for dtype, threads in (torch.float64, 1), (torch.float32, 1), (torch.float32, 2):
            torch.set_default_dtype(dtype)
            torch.set_num_threads(threads)
            torch.manual_seed(1)
            losses[dtype, threads] = f()
        one, two = losses[torch.float32, 1], losses[torch.float32, 2]
        for name, values in (
            ("64", losses[torch.float64, 1]),
            ("32", one),
            ("2", [max(abs(a - b) for a, b in zip(one, two))]),
        ):
            put("%s.%s" % (f.__name__, name), torch.tensor(values, dtype=torch.float64))


if __name__ == "__main__":
    for part in attention, transformer, gpt, trajectory:
        torch.set_default_dtype(torch.float64)
        torch.set_num_threads(1)
        with Golden(part.__name__) as data:
            part()
