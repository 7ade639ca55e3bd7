"""Writes hooks.txt: which modules PyTorch calls inside a layer, and what hooks there change.

A module NAME is drawn after torch.manual_seed(1), and its inputs after torch.manual_seed(2). It has
these cases:

    NAME.order    each call of a module, as its hooks see it: "name(" before forward, and ")name"
                  after it, with the shape of the result, or of the first tensor of a tuple
    NAME.y        the module's output if a hook doubles the result of one module inside it
"""

import torch
from torch import nn

from golden import Golden, values_of
from transformer import GPT


def first(y):
    return y[0] if isinstance(y, tuple) else y


def doubled(m, args, y):
    return (y[0] * 2, *y[1:]) if isinstance(y, tuple) else y * 2


def hooked(name, module, inside, inputs, **keywords):
    order, handles = [], []
    for path, m in module.named_modules():
        handles.append(
            m.register_forward_pre_hook(lambda m, args, path=path: order.append(path + "("))
        )
        handles.append(
            m.register_forward_hook(
                lambda m, args, y, path=path: order.append(
                    ")%s:%s" % (path, "x".join(map(str, first(y).shape)))
                )
            )
        )
    module(*inputs, **keywords)
    for handle in handles:
        handle.remove()
    data.case(name + ".order")
    data.text(" ".join(order))
    handle = module.get_submodule(inside).register_forward_hook(doubled)
    data.case(name + ".y")
    data.numbers(values_of(first(module(*inputs, **keywords))))
    handle.remove()


def encoder(**how):
    torch.manual_seed(1)
    m = nn.TransformerEncoderLayer(4, 2, dim_feedforward=6, dropout=0.0, **how)
    torch.manual_seed(2)
    return m, torch.randn(3, 2, 4)


if __name__ == "__main__":
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    with Golden("hooks") as data:
        m, x = encoder()
        hooked("post", m, "self_attn", [x])
        m, x = encoder(norm_first=True)
        mask = nn.Transformer.generate_square_subsequent_mask(3)
        hooked("pre", m, "self_attn", [x], src_mask=mask)
        torch.manual_seed(1)
        m = nn.MultiheadAttention(4, 2)
        torch.manual_seed(2)
        x = torch.randn(3, 2, 4)
        hooked("multihead", m, "", [x, x, x])
        torch.manual_seed(1)
        m = GPT(block_size=6, vocab_size=11, n_layer=2, n_head=2, n_embd=4)
        idx = torch.tensor([[1, 2, 3, 10], [0, 5, 5, 9]])
        hooked("gpt", m, "transformer.wpe", [idx])
        hooked("gpt_loss", m, "transformer.h.1.attn", [idx, idx])
        torch.manual_seed(1)
        m = nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.ReLU(), nn.Linear(3, 2)))
        torch.manual_seed(2)
        hooked("sequential", m, "1.1", [torch.randn(4, 2)])
