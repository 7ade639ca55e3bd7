"""Writes nn/models/unicode_tables.inc: what Hugging Face's tokenizers know of each character. The
answers of the library itself are written, since its parts have the data of different versions of
Unicode. Python's regex module tells where clusters of characters (graphemes) end.

    python3 tests/golden/make/unicode.py [FILE]

The file is the output of gzip, as the bytes of a C array. Inflated, it is a list of numbers of 24
bits, whose low bytes come first, then the middle bytes, then the high ones. The numbers are these
tables, in this order. Each column of a table begins with the number of its rows. A column of code
points in ascending order has the differences between them:

    classes    the properties of a class, a bit each; its combining class; its kind in clusters
    ranges     the first code point of a range; the class of the code points in it
    lower      a code point; its distance to its lower case
    canonical  a code point; how many code points it decomposes into; and then all of these
    compatible the same for compatibility decompositions, where they differ
    composed   the first of two code points; the second; the code point that they compose"""
import gzip
import os
import sys
import unicodedata

import regex
import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers

OUT = os.path.join(os.path.dirname(__file__), "../../../nn/models/unicode_tables.inc")
CODES = [i for i in range(0x110000) if not 0xD800 <= i < 0xE000]
EVERY = "".join(map(chr, CODES))

# In the order of the bits in unicode.h.
PROPERTIES = [r"\p{Lu}", r"\p{Ll}", r"\p{Lt}", r"\p{Lm}", r"\p{Lo}", r"\p{Mn}", r"\p{Mc}\p{Me}",
              r"\p{Nd}", r"\p{Nl}\p{No}", r"\p{P}", r"\p{S}", r"\p{Han}", r"\s", r"\w"]
KINDS = ["CR", "LF", "Control", "Extend", "ZWJ", "Prepend", "SpacingMark", "L", "V", "T", "LV",
         "LVT", "Regional_Indicator"]


def matched(pattern):
    """Returns the code points that Onig's regular expression matches."""
    split = pre_tokenizers.Split(Regex(f"[{pattern}]"), "removed")
    left = {c for piece, _ in split.pre_tokenize_str(EVERY) for c in piece}
    return {i for i in CODES if chr(i) not in left}


def alone(splitter):
    """Returns the code points that the pre-tokenizer makes pieces of their own."""
    pieces = splitter.pre_tokenize_str("x".join(EVERY))
    return {ord(piece) for piece, _ in pieces if len(piece) == 1} - {ord("x")}


def words():
    """Returns the code points beside which a token that stands alone isn't found."""
    t = Tokenizer(models.BPE(vocab={"x": 0}, merges=[]))
    t.add_tokens([AddedToken("<w>", single_word=True, normalized=False)])
    return {i for i in CODES if t.token_to_id("<w>") not in t.encode(chr(i) + "<w>").ids}


def removed(normalizer):
    return {i for i in CODES if not normalizer.normalize_str(chr(i))}


def bert(**parts):
    return normalizers.BertNormalizer(**{"clean_text": False, "handle_chinese_chars": False,
                                         "strip_accents": False, "lowercase": False, **parts})


def properties():
    sets = [matched(p) for p in PROPERTIES]
    sets.append(words())
    sets.append(alone(pre_tokenizers.Digits(True)))
    sets.append(alone(pre_tokenizers.Punctuation("isolated")))
    sets.append(removed(bert(clean_text=True)))
    sets.append(removed(bert(strip_accents=True)))
    sets.append(removed(normalizers.StripAccents()))
    spaced = bert(handle_chinese_chars=True)
    sets.append({i for i in CODES if len(spaced.normalize_str(chr(i))) == 3})
    return sets


def combining_classes():
    """Returns the combining class of each code point that has one, by how marks are put in order
    beside a mark of each class."""
    order = normalizers.NFD().normalize_str
    low, high = "\u0334", "\u0345"  # Marks of the classes 1 and 240.
    some = [c for c in map(chr, CODES)
            if order(c) == c and (order(high + c) != high + c or order(c + low) != c + low)]
    marks = {unicodedata.combining(c): c for c in reversed(some)}
    classes = {ord(c): [k for k, m in marks.items()
                        if order(c + m) == c + m and order(m + c) == m + c] for c in some}
    assert all(len(k) == 1 for k in classes.values())
    return {i: k[0] for i, k in classes.items()}


def clusters():
    kinds = {}
    for n, kind in enumerate(KINDS):
        of = regex.compile(rf"\p{{Grapheme_Cluster_Break={kind}}}")
        kinds.update({i: n + 1 for i in CODES if of.match(chr(i))})
    pictures = regex.compile(r"\p{Extended_Pictographic}")
    kinds.update({i: len(KINDS) + 1 for i in CODES
                  if i not in kinds and pictures.match(chr(i))})
    return kinds


def decompositions(form, others={}):
    to = form().normalize_str
    all_of = {i: to(chr(i)) for i in CODES if not 0xAC00 <= i < 0xD7A4}
    return {i: s for i, s in all_of.items() if s != others.get(i, chr(i))}


def compositions(canonical):
    to, pairs = normalizers.NFC().normalize_str, {}
    for i, s in canonical.items():
        if len(s) > 1 and to(s) == chr(i):
            first, second = to(s[:-1]), s[-1]
            assert len(first) == 1 and to(first + second) == chr(i)
            pairs[ord(first), ord(second)] = i
    return pairs


def differences(codes):
    return [b - a for a, b in zip([0, *codes], codes)]


def columns():
    """Yields the columns of all tables."""
    sets, marks, kinds = properties(), combining_classes(), clusters()
    rows = {}
    of = [rows.setdefault((sum((i in s) << k for k, s in enumerate(sets)), marks.get(i, 0),
                           kinds.get(i, 0)), len(rows)) for i in range(0x110000)]
    assert len(rows) <= 256
    yield [r[0] for r in rows]
    yield [r[1] for r in rows]
    yield [r[2] for r in rows]
    begins = [i for i in range(0x110000) if i == 0 or of[i] != of[i - 1]]
    yield differences(begins)
    yield [of[i] for i in begins]
    lower = {i: normalizers.Lowercase().normalize_str(chr(i)) for i in CODES}
    lower = {i: s for i, s in lower.items() if s != chr(i)}
    assert [i for i, s in lower.items() if len(s) > 1] == [0x130]
    yield differences(list(lower))
    yield [(ord(s[0]) - i) & 0xFFFFFF for i, s in lower.items()]
    canonical = decompositions(normalizers.NFD)
    for table in canonical, decompositions(normalizers.NFKD, canonical):
        yield differences(list(table))
        yield [len(s) for s in table.values()]
        yield [ord(c) for s in table.values() for c in s]
    pairs = sorted(compositions(canonical).items())
    yield differences([a for (a, _), _ in pairs])
    yield [b for (_, b), _ in pairs]
    yield [c for _, c in pairs]


def main(path):
    numbers = []
    for column in columns():
        numbers += [len(column), *column]
    planes = b"".join(bytes(v >> shift & 255 for v in numbers) for shift in (0, 8, 16))
    packed = gzip.compress(planes, 9, mtime=0)
    with open(path, "w") as f:
        f.write("/* unicode_tables.inc: made by tests/golden/make/unicode.py with tokenizers "
                f"{tokenizers.__version__}.\n"
                " * This file is long because each byte is a number. */\n")
        for at in range(0, len(packed), 24):
            f.write(",".join(f"{b}" for b in packed[at:at + 24]) + ",\n")
    print(f"{path}: {len(numbers)} numbers in {len(packed)} bytes")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else OUT)
