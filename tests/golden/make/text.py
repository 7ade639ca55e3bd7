"""Writes text.txt: what Python makes of texts as the notebook and nanoGPT treat them.

= words "b, a b" "b a b"      a text, and its tokens (words or characters) joined again
t 2 "a" "b"                   how many different tokens there are, and all of them, sorted
: 1 0 1                       the tokens' numbers in the text

= batch 1337 1000 4 3         a seed, the length of the data, and a batch's and a block's size
x 3 6 ..                      the first batch and its targets, then the second batch and its
y 6 9 ..                      targets

= train 11 9                  a text's length, and how much of it is trained on
"""

import torch

from golden import Golden

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
    """Returns the text in double quotes, with octal escapes, as golden_quoted reads it."""
    plain = [32 <= b < 127 and chr(b) not in '"\\' for b in s.encode()]
    return '"' + "".join(chr(b) if p else "\\%03o" % b for b, p in zip(s.encode(), plain)) + '"'


def row(kind, text, tokens, joint):
    vocabulary = sorted(set(tokens))
    index = {w: i for i, w in enumerate(vocabulary)}
    codes = [index[w] for w in tokens]
    assert [vocabulary[i] for i in codes] == tokens
    data.case(kind, quoted(text), quoted(joint.join(tokens)))
    data.line("t", len(vocabulary), *map(quoted, vocabulary))
    data.numbers(codes)


def batches():
    for seed, length, batch, block in [
        (1337, 1000, 4, 3),
        (7, 5, 3, 4),
        (123, 100000, 2, 6),
        (0, 2, 5, 1),
    ]:
        torch.manual_seed(seed)
        numbers = torch.arange(length) * 3 % 1009
        data.case("batch", seed, length, batch, block)
        for _ in range(2):
            ix = torch.randint(len(numbers) - block, (batch,))
            x = torch.stack([numbers[i : i + block] for i in ix])
            y = torch.stack([numbers[i + 1 : i + 1 + block] for i in ix])
            data.line("x", *x.flatten().tolist())
            data.line("y", *y.flatten().tolist())


with Golden("text") as data:
    for text in WORDS:
        row("words", text, text.replace(",", "").split(), " ")
    for text in CHARACTERS:
        row("characters", text, list(text), "")
    batches()
    for n in [0, 1, 9, 10, 11, 30, 1003, 1115394]:
        data.case("train", n, int(0.9 * n))
