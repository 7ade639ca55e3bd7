"""Writes files/bert/: a small random model of BERT's kind that transformers saves, with its
tokenizer, lines of text, and the cosines of the lines with a question (nearest.txt).

    python3 tests/golden/make/encoder.py [--out FOLDER]
"""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
# transformers.py is one of these scripts; the library's folder must come before theirs.
sys.path = [p for p in sys.path if os.path.abspath(p or ".") != HERE] + [HERE]

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertModel

from golden import folder

TO = os.path.join(folder(), "..", "files", "bert") if "--out" not in sys.argv else folder()
LINES = ["The cat sat on the mat", "A dog, a cat!", "", "Café au lait", "the the the dog sat",
         "a mat", "cat", "on a mat sat the dog and the cat, and the dog sat on and on"]
QUESTION = "the cat and the dog"

tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", ",", "!"]
tokens += [c for c in "abcdefghijklmnopqrstuvwxyz"] + ["##" + c for c in "abcdefghijklmnopqrst"]
tokens += ["the", "cat", "dog", "sat", "on", "mat", "and"]
tokenizer = Tokenizer(models.WordPiece({t: i for i, t in enumerate(tokens)}, unk_token="[UNK]"))
tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
tokenizer.decoder = decoders.WordPiece()
tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))

torch.manual_seed(3)
model = BertModel(
    BertConfig(
        vocab_size=len(tokens),
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=24,
        initializer_range=0.5,
    )
).eval()
model.save_pretrained(TO)
tokenizer.save(os.path.join(TO, "tokenizer.json"))
with open(os.path.join(TO, "lines.txt"), "w") as f:
    f.write("".join(line + "\n" for line in LINES))


def vector(text):
    ids = torch.tensor([tokenizer.encode(text).ids[:24]])
    with torch.no_grad():
        return torch.nn.functional.normalize(model(ids)[0][0].mean(0), dim=0)


asked = vector(QUESTION)
cosines = [(asked @ vector(line)).item() for line in LINES]
with open(os.path.join(TO, "nearest.txt"), "w") as f:
    for i in sorted(range(len(LINES)), key=lambda i: -cosines[i]):
        f.write("%.4f  %s\n" % (cosines[i], LINES[i]))
