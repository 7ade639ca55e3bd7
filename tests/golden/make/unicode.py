"""Writes nn/models/unicode_ranges.inc: the classes of all characters, as Hugging Face's tokenizers
has them. Each character is put beside others, and how the library splits them tells its class:

    python3 tests/golden/make/unicode.py [FILE]

A row is where a range begins, times 8, and the class of the characters in it, which is one of
RG_UNICODE_OTHER, RG_UNICODE_LETTER, RG_UNICODE_NUMBER and RG_UNICODE_SPACE, and RG_UNICODE_WORD
for what the regular expression \\w takes."""
import os
import sys

import tokenizers
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers

OTHER, LETTER, NUMBER, SPACE, WORD = 0, 1, 2, 3, 4
OUT = os.path.join(os.path.dirname(__file__), "../../../nn/models/unicode_ranges.inc")


def the_tokenizer():
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    t = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    t.add_tokens([AddedToken("<x>", single_word=True, normalized=False)])
    return t


def classes():
    """Returns a list with the class of each of the 0x110000 code points."""
    split = pre_tokenizers.ByteLevel(add_prefix_space=False).pre_tokenize_str
    t = the_tokenizer()
    x = t.token_to_id("<x>")

    def of(c):
        kind = SPACE
        for before, name in (("a", LETTER), ("1", NUMBER), ("!", OTHER)):
            if len(split(before + c)) == 1:
                kind = name
        return kind | (0 if x in t.encode(c + "<x>").ids else WORD)

    return [OTHER if 0xD800 <= i < 0xE000 else of(chr(i)) for i in range(0x110000)]


def main(path):
    all_classes = classes()
    rows = [i << 3 | c for i, c in enumerate(all_classes) if i == 0 or c != all_classes[i - 1]]
    with open(path, "w") as f:
        f.write("/* unicode_ranges.inc: made by tests/golden/make/unicode.py with tokenizers "
                f"{tokenizers.__version__}. */\n")
        for at in range(0, len(rows), 9):
            f.write(", ".join(f"0x{r:06x}" for r in rows[at:at + 9]) + ",\n")
    print(f"{path}: {len(rows)} ranges")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else OUT)
