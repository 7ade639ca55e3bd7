#!/usr/bin/env python3
"""Makes a small GPT-2 with transformers and tokenizers, in tests/golden/files/gpt2/, and writes
what they say of it into tests/golden/data/gpt2.txt:

    = encode "TEXT"       the ids of the text's tokens follow
    = decode "TEXT"       the ids that decode to the text follow
    = logits              ids, and the logits behind the last id
    = greedy              ids, and then these ids with 20 generated ones"""
import os

import tokenizers
import torch
import transformers
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import GPT2Config, GPT2LMHeadModel

HERE = os.path.dirname(os.path.abspath(__file__))
FILES = os.path.join(HERE, "../files/gpt2")
TEXTS = [
    "Hello world", " Hello  world\n\n", "", " ", "\t \n x",
    "the cat's don't we're I've I'm you'll he'd 's 'S 'll' '",
    "naïve café Ærø Ελλάδα русский עברית हिन्दी ไทย 中文 日本語 한국어",
    "x² ½ ٣٤ 3.14 1,000 Ⅷ ㊿", "👩\u200d👩\u200d👧 🇩🇪 ❤️ 👍🏽", "a\u0301e\u0300 \u0301",
    "\u00A0a\u3000b\u2028\u2029c \u1680 d\u200be\u180ef\x85g\x1ch",
    "<|endoftext|>the<|endoftext|> cat <|endoftext|",
    "a  <l>  b  <r>  c <w> d<w>e <w>. <n>x", "<l>   <r>  <r>", "a" * 49, "the " * 50,
    "\U00010FFF\U000E0001\U0010FFFF\uFFFF", "".join(map(chr, range(1, 384))),
    "in the beginning was the word, and the word was with GPT-2.",
]


def quoted(text):
    return '"' + "".join(chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\{b:03o}"
                         for b in text.encode()) + '"'


def make_tokenizer():
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    t.post_processor = processors.ByteLevel(trim_offsets=False)
    t.train_from_iterator(
        open(os.path.join(HERE, "../../../examples/sonnets.txt")).read().split("\n") + TEXTS[:8],
        trainers.BpeTrainer(vocab_size=380, special_tokens=["<|endoftext|>"], show_progress=False,
                            initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    t.add_tokens([AddedToken("<l>", lstrip=True, normalized=False),
                  AddedToken("<r>", rstrip=True, normalized=False),
                  AddedToken("<w>", single_word=True), AddedToken("<n>")])
    t.save(os.path.join(FILES, "tokenizer.json"))
    t.model.save(FILES)
    return t


def make_model(vocab_size):
    torch.manual_seed(3)
    m = GPT2LMHeadModel(GPT2Config(vocab_size=vocab_size, n_layer=2, n_head=2, n_embd=16,
                                   n_positions=32, bos_token_id=0, eos_token_id=0)).eval()
    with torch.no_grad():
        for p in m.parameters():
            p.add_(torch.randn_like(p) * 0.2)
    m.save_pretrained(FILES)
    os.chmod(os.path.join(FILES, "model.safetensors"), 0o644)
    os.remove(os.path.join(FILES, "generation_config.json"))
    return m


def numbers(f, values):
    f.write(": " + " ".join(map(str, values)) + "\n")


def write_tokens(f, t):
    for text in TEXTS:
        f.write(f"= encode {quoted(text)}\n")
        numbers(f, t.encode(text).ids)
    torch.manual_seed(4)
    for n in (1, 3, 8, 50, 200):
        ids = torch.randint(0, t.get_vocab_size(), (n,)).tolist()
        f.write(f"= decode {quoted(t.decode(ids, skip_special_tokens=False))}\n")
        numbers(f, ids)


def write_logits(f, m):
    for n in (1, 7, 32):
        ids = torch.randint(0, m.config.vocab_size, (1, n))
        f.write("= logits\n")
        numbers(f, ids[0].tolist())
        with torch.no_grad():
            numbers(f, [f"{x:.8g}" for x in m(ids).logits[0, -1].tolist()])
    ids = torch.tensor([[5, 6, 7]])
    out = m.generate(ids, max_new_tokens=20, do_sample=False, attention_mask=ids > 0,
                     pad_token_id=0, eos_token_id=None)
    f.write("= greedy\n")
    numbers(f, ids[0].tolist())
    numbers(f, out[0].tolist())


def main():
    os.makedirs(FILES, exist_ok=True)
    t = make_tokenizer()
    m = make_model(t.get_vocab_size())
    with open(os.path.join(HERE, "../data/gpt2.txt"), "w") as f:
        f.write(f"# gpt2.txt: made by gpt2.py with transformers {transformers.__version__} and "
                f"tokenizers {tokenizers.__version__}.\n")
        write_tokens(f, t)
        write_logits(f, m)


if __name__ == "__main__":
    main()
