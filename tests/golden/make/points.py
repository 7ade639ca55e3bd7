"""Writes points.txt: the values inside a GPT by TransformerLens's names, computed step by step.

The model is drawn after torch.manual_seed(1), and then its matrices again. These are the cases:

    names           the names, in the order in which the values are made
    loss            the loss that the model itself has
    NAME            the value, after its shape
    NAME.gradient   the gradient of the loss by the value
    NAME.patched    the loss if the value x is replaced with 1.5 x + 0.1, and the gradients of that
                    loss by wpe and by the first block's c_attn
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

from golden import Golden, comma, values_of
from transformer import GPT


def attend(block, x, point):
    a, (b, t, e) = block.attn, x.shape
    h = a.c_attn.weight.shape[0] // 3 // SIZE
    q, k, v = (
        point("attn.hook_" + n, y.view(b, t, h, SIZE))
        for n, y in zip("qkv", a.c_attn(x).split(e, 2))
    )
    scores = torch.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(SIZE)
    hidden = torch.ones(t, t, dtype=torch.bool).triu(1)
    scores = point("attn.hook_attn_scores", scores.masked_fill(hidden, -math.inf))
    pattern = point("attn.hook_pattern", scores.softmax(-1))
    z = point("attn.hook_z", torch.einsum("bhqk,bkhd->bqhd", pattern, v))
    weight = a.c_proj.weight.view(e, h, SIZE)
    result = point("attn.hook_result", torch.einsum("bqhd,ehd->bqhe", z, weight))
    return result.sum(2) + a.c_proj.bias


def run(m, idx, targets, patched=None):
    values = {}

    def point(name, x):
        values[name] = 1.5 * x + 0.1 if name == patched else x
        return values[name]

    t = m.transformer
    tokens = point("hook_embed", t.wte(idx))
    x = tokens + point("hook_pos_embed", t.wpe(torch.arange(idx.size(1))).expand_as(tokens))
    for i, block in enumerate(t.h):

        def inside(name, x, i=i):
            return point("blocks.%d.%s" % (i, name), x)

        x = inside("hook_resid_pre", x)
        y = attend(block, inside("ln1.hook_normalized", block.ln_1(x)), inside)
        x = inside("hook_resid_mid", x + inside("hook_attn_out", y))
        y = block.mlp.c_fc(inside("ln2.hook_normalized", block.ln_2(x)))
        y = inside("mlp.hook_post", F.gelu(inside("mlp.hook_pre", y)))
        x = inside("hook_resid_post", x + inside("hook_mlp_out", block.mlp.c_proj(y)))
    logits = m.lm_head(point("ln_final.hook_normalized", t.ln_f(x)))
    return values, F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1)


SIZE = 2

if __name__ == "__main__":
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    torch.manual_seed(1)
    m = GPT(block_size=6, vocab_size=11, n_layer=2, n_head=2, n_embd=4)
    for p in m.parameters():
        if p.dim() > 1:
            nn.init.normal_(p, std=0.5)
    idx = torch.tensor([[1, 2, 3, 10], [0, 5, 5, 9]])
    targets = torch.tensor([[2, 3, 10, 4], [5, 5, 9, -1]])
    of = [m.transformer.wpe.weight, m.transformer.h[0].attn.c_attn.weight]
    with Golden("points") as data:
        values, loss = run(m, idx, targets)
        assert torch.allclose(loss, m(idx, targets)[1], rtol=1e-13)
        data.case("names")
        data.text(" ".join(values))
        data.case("loss")
        data.numbers(values_of(loss))
        gradients = torch.autograd.grad(loss, list(values.values()))
        for (name, x), g in zip(values.items(), gradients):
            data.case(name, comma(x.shape))
            data.numbers(values_of(x))
            data.case(name + ".gradient")
            data.numbers(values_of(g))
            loss = run(m, idx, targets, name)[1]
            data.case(name + ".patched")
            data.numbers(values_of(loss, *torch.autograd.grad(loss, of)))
