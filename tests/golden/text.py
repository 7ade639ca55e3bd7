"""Writes text.h: what Python makes of texts as the notebook and nanoGPT treat them.

    python3 tests/golden/text.py > tests/golden/text.h
"""
import torch

WORDS = [
    "Life is short, eat dessert first",
    "one",
    "",
    " ,\t, \n",
    "a,b c , d,, ,e\tf\x1cg\vh\fi\rj\x1ek\x1fl\x1dm",
    "the cat sat on the mat and the dog on the log",
    "Zebra zebra apple Éclair éclair 東京 ~ ! Über zoo",
]
CHARACTERS = ["hello, world\n", "naïve café 東京 🙂 a,b\t", "", "aaaa"]


def quoted(s):
    return '"' + "".join(chr(b) if 32 <= b < 127 and chr(b) not in '"\\?' else "\\%03o" % b for b in s.encode()) + '"'


def row(text, tokens, joint):
    vocabulary = sorted(set(tokens))
    index = {w: i for i, w in enumerate(vocabulary)}
    codes = [index[w] for w in tokens]
    assert [vocabulary[i] for i in codes] == tokens
    strings = ", ".join(quoted(w) for w in vocabulary) or "0"
    print("    { %s, %s,\n      %d, { %s },\n      %d, { %s } }," % (quoted(text), quoted(joint.join(tokens)), len(vocabulary),
          strings, len(codes), ", ".join(map(str, codes)) or "0"))


def table(name, texts, split, joint):
    print("\nstatic const struct { const char *text, *joined; int64_t n; const char *tokens[24]; int64_t length, codes[32]; } %s[] = {" % name)
    for text in texts:
        row(text, split(text), joint)
    print("};")


def batches():
    print("\nstatic const struct { uint64_t seed; int64_t length, batch, block, x[2][12], y[2][12]; } BATCHES[] = {")
    for seed, length, batch, block in [(1337, 1000, 4, 3), (7, 5, 3, 4), (123, 100000, 2, 6), (0, 2, 5, 1)]:
        torch.manual_seed(seed)
        data = torch.arange(length) * 3 % 1009
        xs, ys = [], []
        for _ in range(2):
            ix = torch.randint(len(data) - block, (batch,))
            xs.append(torch.stack([data[i:i + block] for i in ix]).flatten().tolist())
            ys.append(torch.stack([data[i + 1:i + 1 + block] for i in ix]).flatten().tolist())
        both = [", ".join("{ %s }" % ", ".join(map(str, v)) for v in part) for part in (xs, ys)]
        print("    { %d, %d, %d, %d,\n      { %s },\n      { %s } }," % (seed, length, batch, block, *both))
    print("};")


print("/* text.h: made by text.py with Python and PyTorch %s. */\n#include <stdint.h>" % torch.__version__.split("+")[0])
table("WORDS", WORDS, lambda s: s.replace(",", "").split(), " ")
table("CHARACTERS", CHARACTERS, list, "")
batches()
print("\nstatic const int64_t TRAIN[][2] = {     /* n, int(0.9 * n) */\n    %s\n};"
      % " ".join("{ %d, %d }," % (n, int(0.9 * n)) for n in [0, 1, 9, 10, 11, 30, 1003, 1115394]))
