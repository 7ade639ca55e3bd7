"""Trains the model of examples/char_gpt.c in C and in PyTorch, from the same seed.

    make build/examples/char_gpt && python3 tests/bench/char_gpt.py [options of char_gpt]

Prints both validation losses whenever char_gpt prints its own. Fails if the last two are
more than 0.02 apart.
"""

import argparse
import math
import os
import re
import subprocess
import sys

import torch

here = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(here, "..", "golden", "make"))
from transformer import GPT  # noqa: E402

torch.set_default_dtype(torch.float32)

parser = argparse.ArgumentParser()
for name, default in dict(
    steps=1000,
    batch=12,
    block=64,
    layers=4,
    heads=4,
    dim=64,
    warmup=50,
    every=100,
    seed=1337,
    sample=0,
    dropout=0.1,
    lr=2e-3,
    decay=0.1,
    clip=1.0,
    program="build/examples/char_gpt",
    text="examples/sonnets.txt",
).items():
    parser.add_argument("--" + name, type=type(default), default=default)
o = parser.parse_args()
options = [
    x
    for name in vars(o)
    if name not in ("program", "text")
    for x in ("--" + name, str(getattr(o, name)))
]
said = subprocess.run(
    [o.program, *options, o.text], check=True, capture_output=True, text=True
).stdout
regard = dict(
    (int(a), float(b)) for a, b in re.findall(r"after (\d+) steps: validation loss ([\d.]+)", said)
)
regard[0] = float(re.search(r"before: validation loss ([\d.]+)", said)[1])

text = open(o.text, newline="").read()
index = {c: i for i, c in enumerate(sorted(set(text)))}
data = torch.tensor([index[c] for c in text])
n = int(0.9 * len(data))
learn, test = data[:n], data[n:]
torch.manual_seed(o.seed)
model = GPT(
    block_size=o.block,
    vocab_size=len(index),
    n_layer=o.layers,
    n_head=o.heads,
    n_embd=o.dim,
    dropout=o.dropout,
)
matrices, vectors = ([p for p in model.parameters() if (p.dim() >= 2) == m] for m in (True, False))
groups = [dict(params=matrices, weight_decay=o.decay), dict(params=vectors, weight_decay=0)]
optimizer = torch.optim.AdamW(groups, lr=o.lr, betas=(0.9, 0.99))


def rate(step):
    if step < o.warmup:
        return o.lr * (step + 1) / (o.warmup + 1)
    return o.lr * (0.1 + 0.45 * (1 + math.cos(math.pi * (step - o.warmup) / (o.steps - o.warmup))))


@torch.no_grad()
def validate():
    windows = (len(test) - 1) // o.block
    x = test[: windows * o.block].view(windows, -1)
    y = test[1 : windows * o.block + 1].view(windows, -1)
    model.eval()
    loss = sum(
        len(part) * model(part, target)[1].item()
        for part, target in zip(x.split(o.batch), y.split(o.batch))
    )
    model.train()
    return loss / windows


torch_loss = {0: validate()}
for step in range(o.steps):
    for group in optimizer.param_groups:
        group["lr"] = rate(step)
    ix = torch.randint(len(learn) - o.block, (o.batch,))
    x, y = (torch.stack([learn[i + k : i + k + o.block] for i in ix]) for k in (0, 1))
    loss = model(x, y)[1]
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), o.clip)
    optimizer.step()
    if step + 1 in regard:
        torch_loss[step + 1] = validate()

print("validation loss   regard  PyTorch %s  difference" % torch.__version__.split("+")[0])
for step in sorted(regard):
    print(
        "%9d steps   %.4f          %.4f     %+.4f"
        % (step, regard[step], torch_loss[step], regard[step] - torch_loss[step])
    )
sys.exit(abs(regard[o.steps] - torch_loss[o.steps]) > 0.02)
