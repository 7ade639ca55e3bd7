#!/usr/bin/env python3
"""The example sentences beside transformers, as it is installed.

    tests/exchange/sentences.py [BUILD [FOLDER]]

BUILD is the folder in which make has built examples/sentences, by default "build". transformers
makes small random encoders. The vectors of 300 lines of odd texts must agree within 2e-5. With
FOLDER, the folder of a published model of BERT's kind, its vectors of 1,000 lines must."""
import json
import os
import random
import subprocess
import sys
import tempfile
import warnings

# The scripts beside this one have names of packages.
sys.path.pop(0)

import numpy as np
import torch
import transformers
from tokenizers import Tokenizer
from transformers import AutoModel

warnings.simplefilter("ignore")
transformers.logging.set_verbosity_error()
BUILD = sys.argv[1] if len(sys.argv) > 1 else "build"
SMALL = "tests/golden/files/bert"
SHAPE = dict(hidden_size=48, intermediate_size=80, num_hidden_layers=3, num_attention_heads=6,
             max_position_embeddings=40, initializer_range=0.2)
MODELS = {
    "bert": ("Bert", {}, False),
    "bert, first token": ("Bert", dict(hidden_act="gelu_new"), True),
    "roberta": ("Roberta", dict(type_vocab_size=1, pad_token_id=0), False),
    "xlm-roberta": ("XLMRoberta", dict(type_vocab_size=1, pad_token_id=0), True),
}
PARTS = ["the cat", "a dog!", "Caf\u00e9", "\u4eca\u65e5", "\U0001f642", "x=1+2", "I\u0307",
         "\u200b", "  ", "on the mat, and", "[CLS]", "\u041f\u0440\u0438\u0432\u0435\u0442"]


def lines_of(n):
    r = random.Random(7)
    return [" ".join(r.choice(PARTS) for _ in range(r.choice([0, 1, 2, 5, 30]))) for _ in range(n)]


def vectors(folder, lines, to):
    """Returns what the example computes."""
    with open(to + "/lines.txt", "w", encoding="utf-8", newline="") as f:
        f.write("".join(line + "\n" for line in lines))
    subprocess.run([BUILD + "/examples/sentences", folder, to + "/lines.txt", "--vectors",
                    to + "/vectors.npy"], check=True)
    return np.load(to + "/vectors.npy")


def wanted(model, tokenizer, lines, most, first_token):
    tokenizer.no_padding()
    tokenizer.enable_truncation(most)
    found = []
    for line in lines:
        ids = torch.tensor([tokenizer.encode(line).ids])
        with torch.no_grad():
            x = model(ids, attention_mask=torch.ones_like(ids))[0][0]
        x = x[0] if first_token else x.mean(0)
        found.append(torch.nn.functional.normalize(x, dim=0).numpy())
    return np.stack(found)


def compare(name, folder, lines, to, model, most, first_token):
    tokenizer = Tokenizer.from_file(folder + "/tokenizer.json")
    ours, theirs = vectors(folder, lines, to), wanted(model, tokenizer, lines, most, first_token)
    apart = np.abs(ours - theirs).max()
    ok = ours.shape == theirs.shape and apart <= 2e-5
    print("sentences: %s: %d vectors, apart by at most %.1e%s" % (name, len(lines), apart,
                                                                "" if ok else ", TOO FAR"))
    return ok


failed = False
with tempfile.TemporaryDirectory() as to:
    for name, (kind, options, first_token) in MODELS.items():
        tokenizer = Tokenizer.from_file(SMALL + "/tokenizer.json")
        torch.manual_seed(1)
        config = getattr(transformers, kind + "Config")(
            vocab_size=tokenizer.get_vocab_size(), **SHAPE, **options)
        model = getattr(transformers, kind + "Model")(config).eval()
        folder = os.path.join(to, name)
        model.save_pretrained(folder)
        tokenizer.save(folder + "/tokenizer.json")
        os.makedirs(folder + "/1_Pooling")
        with open(folder + "/1_Pooling/config.json", "w") as f:
            json.dump(dict(pooling_mode_cls_token=first_token,
                           pooling_mode_mean_tokens=not first_token), f)
        most = 40 - (0 if kind == "Bert" else 1)
        failed |= not compare(name, folder, lines_of(300), to, model, most, first_token)
    if len(sys.argv) > 2:
        folder = sys.argv[2]
        model = AutoModel.from_pretrained(folder).eval()
        with open(folder + "/sentence_bert_config.json") as f:
            most = json.load(f)["max_seq_length"]
        failed |= not compare(folder, folder, lines_of(1000), to, model, most, False)
sys.exit(failed)
