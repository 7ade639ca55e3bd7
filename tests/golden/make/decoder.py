"""Writes files/llama/: a small random model of Llama's kind that transformers saves, the tokens
with which it continues a prompt (greedy.txt), and the losses of its first steps (losses.txt).

    python3 tests/golden/make/decoder.py [--out FOLDER]
"""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
# transformers.py is one of these scripts; the library's folder must come before theirs.
sys.path = [p for p in sys.path if os.path.abspath(p or ".") != HERE] + [HERE]

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from golden import folder

TO = os.path.join(folder(), "..", "files", "llama") if "--out" not in sys.argv else folder()
PROMPT = [3, 1, 4, 1, 5, 9, 2, 6]
TEXT = [i * i % 23 for i in range(60)]


def losses(model):
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for step in range(3):
        x = torch.tensor(TEXT[step * 16 : step * 16 + 17])
        loss = torch.nn.functional.cross_entropy(model(x[None, :-1]).logits[0], x[1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield "%.4f" % loss.item()


torch.manual_seed(5)
model = LlamaForCausalLM(
    LlamaConfig(
        vocab_size=23,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        bos_token_id=None,
        eos_token_id=None,
        initializer_range=0.5,
    )
).eval()
model.save_pretrained(TO)
os.remove(os.path.join(TO, "generation_config.json"))
tokens = model.generate(torch.tensor([PROMPT]), max_new_tokens=40, do_sample=False)[0, 8:]
for name, words in (("greedy", map(str, tokens.tolist())), ("losses", losses(model))):
    with open(os.path.join(TO, name + ".txt"), "w") as f:
        f.write(" ".join(words) + "\n")
