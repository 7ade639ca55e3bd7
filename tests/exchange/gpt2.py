#!/usr/bin/env python3
"""GPT-2 both ways: what regard reads and writes is compared with transformers and tokenizers as
they are installed.

    tests/exchange/gpt2.py [BUILD [ROUNDS]]

BUILD is the folder in which make has built tests/exchange/gpt2, by default "build". The token ids
of each text must be the same, and logits must agree within 1e-4."""
import json
import os
import random
import subprocess
import sys
import tempfile

# The scripts beside this one have names of packages.
sys.path.pop(0)

import tokenizers
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

SPACES = [chr(c) for c in (9, 10, 11, 12, 13, 32, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B),
                           0x2028, 0x2029, 0x202F, 0x205F, 0x3000)]
ODD = [0x1C, 0x1D, 0x1E, 0x1F, 0x180E, 0x200B, 0x200D, 0x2060, 0xFEFF, 0xFFFD, 0xFFFF, 0x10FFFF, 0]
DIGITS = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000 and chr(c).isnumeric()]
EMOJI = ["\U0001F468\u200D\U0001F469\u200D\U0001F467", "\U0001F1E9\U0001F1EA", "❤️", "👍🏽"]
WORDS = """the The THE cat's don't we're I've I'm you'll he'd 's 'S ' '' 'll 'l 're hello World
naïve café Ærøskøbing Ελλάδα русский עברית العربية हिन्दी ไทย 中文 日本語 한국어 ½ ² x² 3.14 1,000
2026-11-22 a_b C++ #!/bin/sh "quoted" (x) ... ?! — <|endoftext|> <|x|> [MASK] <pad>""".split()


class Regard:
    """The C program, which answers each line with one."""

    def __init__(self, build):
        self.p = subprocess.Popen([f"{build}/tests/exchange/gpt2"], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, text=True)

    def ask(self, command, rest=""):
        print(command, rest, file=self.p.stdin, flush=True)
        answer = self.p.stdout.readline()
        assert answer.endswith("\n"), f"{command}: the program ended"
        answer = answer.rstrip("\n")
        if answer.startswith("error "):
            raise RuntimeError(answer[6:])
        return answer

    def encode(self, text):
        return [int(i) for i in self.ask("encode", text.encode().hex()).split()]

    def decode(self, ids, command="decode"):
        return bytes.fromhex(self.ask(command, " ".join(map(str, ids)))).decode()


def some_text(r):
    def character():
        plane = r.choice((0, 0, 0, 1, 1, 2, 3, 14, 15, 16))
        c = plane << 16 | r.randrange(0x10000)
        return chr(c) if not 0xD800 <= c < 0xE000 else "x"

    def piece():
        return r.choice((
            lambda: r.choice(WORDS), lambda: r.choice(WORDS) + " ", lambda: " " + r.choice(WORDS),
            lambda: r.choice(SPACES) * r.randrange(1, 4), lambda: r.choice(SPACES), character,
            lambda: chr(r.choice(ODD)), lambda: r.choice(DIGITS) * r.randrange(1, 3),
            lambda: r.choice(EMOJI), lambda: chr(r.randrange(0x300, 0x370)),
            lambda: chr(r.randrange(128)), lambda: chr(r.randrange(0x4E00, 0x9FFF)),
            lambda: r.choice("abcdefgh") * r.randrange(1, 12)))()
    return "".join(piece() for _ in range(r.choice((1, 2, 3, 8, 30, 200))))


def corpus(r):
    return [some_text(r) for _ in range(300)]


def trained(r, alphabet=True, **options):
    """Returns a byte-level tokenizer; without the alphabet its vocabulary lacks bytes."""
    t = Tokenizer(models.BPE(**options))
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    special = ["<|endoftext|>"] + ([options["unk_token"]] if "unk_token" in options else [])
    t.train_from_iterator(corpus(r) if alphabet else ["the cat sat on the mat"] * 9,
                          trainers.BpeTrainer(
        vocab_size=r.choice((300, 500, 1500)), special_tokens=special, show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet() if alphabet else []))
    return t


def variant(r):
    """Returns a tokenizer with some of the parts that regard supports."""
    options = {}
    alphabet = r.random() < 0.7
    if not alphabet and r.random() < 0.7:
        options = {"unk_token": "<unk>", "fuse_unk": r.random() < 0.5}
    t = trained(r, alphabet, **options)
    j = json.loads(t.to_str())
    j["model"]["ignore_merges"] = r.random() < 0.3
    j["pre_tokenizer"]["add_prefix_space"] = r.random() < 0.3
    j["pre_tokenizer"]["use_regex"] = r.random() < 0.8
    if r.random() < 0.5:
        j["model"]["merges"] = [" ".join(m) for m in j["model"]["merges"]]
    if r.random() < 0.3 and len(j["model"]["merges"]) > 3:
        j["model"]["merges"].append(j["model"]["merges"][1])
    t = Tokenizer.from_str(json.dumps(j))
    if r.random() < 0.7:
        for content in ("<|x|>", "[MASK]", "<pad>", "cat", "ca", "é", " x", "  b", "don't"):
            flags = {f: r.random() < 0.4 for f in ("lstrip", "rstrip", "single_word", "normalized")}
            token = AddedToken(content, **flags)
            if r.random() < 0.5:
                t.add_special_tokens([token])
            else:
                t.add_tokens([token])
    return t


def compare(regard, t, texts, r):
    assert t.get_vocab_size() > 0
    for text in texts:
        ids = t.encode(text).ids
        mine = regard.encode(text)
        assert ids == mine, f"{text!r}: {ids} and {mine}"
        some = ids + [r.randrange(t.get_vocab_size()) for _ in range(r.choice((0, 3, 20)))]
        there = t.decode(some, skip_special_tokens=False)
        for command in ("decode", "stream"):
            mine = regard.decode(some, command)
            assert there == mine, f"{command} {some}: {there!r} and {mine!r}"


def tokenizers_match(regard, folder, rounds):
    n = 0
    for seed in range(rounds):
        r = random.Random(seed)
        t = variant(r)
        path = os.path.join(folder, "tokenizer.json")
        t.save(path)
        assert int(regard.ask("file", path)) == t.get_vocab_size()
        texts = [some_text(r) for _ in range(150)] + ["", " ", "\n", "a", "\0", "é " * 3000]
        compare(regard, t, texts, r)
        n += len(texts)
    print(f"gpt2: {n} texts of {rounds} tokenizers as with tokenizers {tokenizers.__version__}")


def every_character(regard, folder):
    """Each code point, beside a letter, a digit, a mark, white space and a token that stands
    alone."""
    t = trained(random.Random(0))
    t.add_tokens([AddedToken("<x>", single_word=True), AddedToken("<l>", lstrip=True),
                  AddedToken("<r>", rstrip=True)])
    t.save(os.path.join(folder, "tokenizer.json"))
    regard.ask("folder", folder)
    for begin in range(0, 0x110000, 256):
        text = "".join(f"a{c}b1{c}2!{c}! {c} {c}<x>{c}<l><r>{c}"
                       for c in map(chr, range(begin, begin + 256))
                       if not 0xD800 <= ord(c) < 0xE000)
        assert t.encode(text).ids == regard.encode(text), f"characters from {begin:#x} on"
    print("gpt2: every code point is of the same class")


def two_files(regard, folder):
    """vocab.json and merges.txt, as GPT2Tokenizer reads them."""
    from transformers import GPT2Tokenizer
    n = 0
    for seed in range(10):
        r = random.Random(seed)
        t = trained(r)
        if seed % 2:
            j = json.loads(t.to_str())
            vocab = [k for k in sorted(j["model"]["vocab"], key=j["model"]["vocab"].get)][1:]
            t = Tokenizer(models.BPE(vocab={k: i for i, k in enumerate(vocab)},
                                     merges=[tuple(m) for m in j["model"]["merges"]]))
        where = os.path.join(folder, f"two{seed}")
        os.mkdir(where)
        t.model.save(where)
        fast = GPT2Tokenizer.from_pretrained(where)
        assert int(regard.ask("folder", where)) == len(fast)
        for text in [some_text(r) for _ in range(100)]:
            assert fast(text)["input_ids"] == regard.encode(text), repr(text)
            n += 1
    print(f"gpt2: {n} texts as with GPT2Tokenizer of vocab.json and merges.txt")


def some_model(r):
    """Returns a small random model, with weights large enough that all of them show."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel
    n_head = r.choice((1, 2, 4))
    torch.manual_seed(r.randrange(1 << 30))
    m = GPT2LMHeadModel(GPT2Config(
        vocab_size=r.randrange(30, 90), n_layer=r.randrange(1, 4), n_head=n_head,
        n_embd=n_head * r.choice((3, 8, 16)), n_positions=r.randrange(8, 40),
        n_inner=r.choice((None, None, 24)), layer_norm_epsilon=r.choice((1e-5, 1e-3)),
        activation_function=r.choice(("gelu_new", "gelu", "gelu_pytorch_tanh")),
        tie_word_embeddings=r.random() < 0.7, bos_token_id=r.choice([None, 3]),
        eos_token_id=r.choice([None, 5, [4, 6]]),
        attn_pdrop=r.choice((0.1, 0.0)))).eval()
    with torch.no_grad():
        for p in m.parameters():
            p.add_(torch.randn_like(p) * 0.2)
    return m


def same_logits(regard, m, r):
    import torch
    far = 0
    for _ in range(3):
        n = r.randrange(1, m.config.n_positions)
        ids = [r.randrange(m.config.vocab_size) for _ in range(n)]
        with torch.no_grad():
            there = m(torch.tensor([ids])).logits[0, -1]
        answer = regard.ask("logits", " ".join(map(str, ids)))
        mine = torch.tensor([float(x) for x in answer.split()])
        far = max(far, (there - mine).abs().max().item() / max(1, there.abs().max().item()))
    assert far < 1e-4, far
    return far


def same_ends(regard, m, r):
    """Compares texts that end at chosen tokens. Returns whether one ended before the limit."""
    import torch
    rows = [[r.randrange(1, m.config.vocab_size) for _ in range(2)]
            for _ in range(r.choice([1, 3]))]
    most = min(12, m.config.n_positions - 2)
    if most < 12:
        return 0
    ids = torch.tensor(rows)
    free = m.generate(ids, max_new_tokens=12, do_sample=False, attention_mask=ids > 0,
                      pad_token_id=0, eos_token_id=-1)
    eos = [int(free[i, r.randrange(2, 14)]) for i in range(len(rows))]
    pad = r.randrange(m.config.vocab_size)
    there = m.generate(ids, max_new_tokens=12, do_sample=False, attention_mask=ids > 0,
                       pad_token_id=pad, eos_token_id=eos)
    ask = [pad, len(eos), *eos, len(rows), *[i for row in rows for i in row]]
    mine = [int(i) for i in regard.ask("ending", " ".join(map(str, ask))).split()]
    assert mine[0] == there.shape[1] and mine[1:] == there.flatten().tolist(), (mine, there)
    return there.shape[1] < 14


def models_match(regard, folder, rounds):
    import torch
    import transformers
    from safetensors.torch import load_file, save_file
    from transformers import GPT2LMHeadModel
    far = ended = 0
    for seed in range(rounds):
        r = random.Random(seed)
        m = some_model(r)
        where, back = os.path.join(folder, f"m{seed}"), os.path.join(folder, f"b{seed}")
        os.mkdir(back)
        m.generation_config.max_length = 77
        if r.random() < 0.3:
            m.save_pretrained(where, max_shard_size="20KB")
        else:
            m.save_pretrained(where)
        weights = os.path.join(where, "model.safetensors")
        if os.path.exists(weights) and r.random() < 0.5:
            t = {k.removeprefix("transformer."): v for k, v in load_file(weights).items()}
            for i in range(m.config.n_layer):
                t[f"h.{i}.attn.bias"] = torch.ones(1, 1, 4, 4).tril()
                t[f"h.{i}.attn.masked_bias"] = torch.tensor(-1e4)
            if m.config.tie_word_embeddings and r.random() < 0.5:
                t["lm_head.weight"] = t["wte.weight"].clone()
            save_file(t, weights)
        assert int(regard.ask("model", where)) == m.num_parameters()
        far = max(far, same_logits(regard, m, r))
        ids = torch.tensor([[1, 2, 3]])
        most = min(20, m.config.n_positions - 3)
        there = m.generate(ids, max_new_tokens=most, do_sample=False, attention_mask=ids > 0,
                           pad_token_id=0, eos_token_id=-1)
        mine = [int(i) for i in regard.ask("greedy", "1 2 3").split()]
        assert there[0].tolist() == mine[:3 + most]
        ended += same_ends(regard, m, r)
        regard.ask("save", back)
        again = GPT2LMHeadModel.from_pretrained(back).eval()
        for key in ("bos_token_id", "eos_token_id", "pad_token_id"):
            assert getattr(again.config, key) == getattr(m.config, key), key
            assert getattr(again.generation_config, key) == getattr(m.generation_config, key), key
        assert again.generation_config.max_length == 77
        m = again
        far = max(far, same_logits(regard, m, r))
    print(f"gpt2: {ended} of {rounds} batches ended before they had to")
    print(f"gpt2: logits of {rounds} models within {far:.2g} of transformers "
          f"{transformers.__version__}, both ways")


def main():
    build = sys.argv[1] if len(sys.argv) > 1 else "build"
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 60
    regard = Regard(build)
    with tempfile.TemporaryDirectory() as folder:
        models_match(regard, folder, rounds)
        tokenizers_match(regard, folder, rounds)
        two_files(regard, folder)
        every_character(regard, folder)


if __name__ == "__main__":
    main()
