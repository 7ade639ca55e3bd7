#!/usr/bin/env python3
"""Makes small tokenizers with the library tokenizers, one for each part that a tokenizer.json can
have and each of the part's settings, and writes them and what they say of odd texts into
tests/golden/data/tokenizer_parts.txt. The cases have the form of those of tokenizers.txt, which
tokenizer_files.py explains, and there are three more:

    = made "JSON"         the cases that follow are of the tokenizer with this tokenizer.json
    = whole "TEXT"        as decode, but the ids one by one have another text
    = short "TEXT"..      the text or the pair can't be cut to the tokenizer's length
"""
import json
import os

import tokenizers
from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers,
                        processors)

from tokenizer_files import HERE, numbers, quoted, to_bytes

BEHAVIORS = ["removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"]
SPACES = ["  a b ", "\u3000\u00a0a\u2003 b\u0085\t", " \n ", "a\u200b", "", "Ab c"]
CUTS = ["--a--, b!!c", "12a3 ½x٣٤ ²Ⅷ一 9", "_é_1\u0301\u200d\u24d0- \u200d", " \t\u3000 a  b ",
        "...", "a1", ""]
LETTERS = ["ÀÉ İI ΣΑΣ ǅ", "e\u0301o\u0327\u0301 ñ \u0344", "\u0903क\u20dd ﬁ", "ẞß K", ""]
UNKNOWN = ["abc", "aéb", "é一", "xyzx", "ab中xab", "\U0001f469a", "a\u200bxa", ""]


def words(texts, normalizer=None, pre=None):
    """Returns a tokenizer whose vocabulary are the words that these parts make of the texts, but
    for each fifth."""
    found = {}
    for text in texts:
        text = normalizer.normalize_str(text) if normalizer else text
        for word, _ in pre.pre_tokenize_str(text) if pre else [(text, None)] if text else []:
            found.setdefault(word)
    known = [w for i, w in enumerate(found) if i % 5 != 3]
    t = Tokenizer(models.WordLevel({w: i for i, w in enumerate(["<unk>", *known])}, "<unk>"))
    if normalizer:
        t.normalizer = normalizer
    if pre:
        t.pre_tokenizer = pre
    return t, texts


def of_normalizers():
    n = normalizers
    bert = dict(clean_text=False, handle_chinese_chars=False, strip_accents=None, lowercase=False)
    for left, right in (True, True), (True, False), (False, True), (False, False):
        yield words(SPACES, n.Strip(left=left, right=right))
    yield words(SPACES, n.Sequence([n.Replace("a", " "), n.Strip(), n.Prepend("▁")]))
    yield words(SPACES, n.Sequence([n.NFKC(), n.Strip(), n.Lowercase()]))
    yield words(SPACES, n.Replace(Regex(r"\s+"), ""))
    yield words(LETTERS, n.Lowercase())
    yield words(LETTERS, n.StripAccents())
    yield words(LETTERS, n.Sequence([n.NFD(), n.StripAccents(), n.Lowercase(), n.NFC()]))
    yield words(LETTERS, n.BertNormalizer(**bert))
    yield words(LETTERS, n.BertNormalizer(**{**bert, "lowercase": True}))
    yield words(LETTERS, n.BertNormalizer(**{**bert, "strip_accents": True}))
    yield words(LETTERS, n.BertNormalizer(**{**bert, "lowercase": True, "strip_accents": False}))


def of_pretokenizers():
    p = pre_tokenizers
    yield words(CUTS, None, p.Whitespace())
    yield words(CUTS, None, p.WhitespaceSplit())
    yield words(CUTS, None, p.Digits(individual_digits=False))
    yield words(CUTS, None, p.Digits(individual_digits=True))
    for behavior in BEHAVIORS:
        yield words(CUTS, None, p.Punctuation(behavior))
        yield words(CUTS, None, p.Split(" ", behavior))
        yield words(CUTS, None, p.Split(Regex(r"[\é\-]|\d+"), behavior))
        yield words(CUTS, None, p.Split(Regex(r"[^\W\d]+(?=b|(?:!| ))|-|(?:a|(?:b|c))(?:x)?1"),
                                        behavior, invert=True))
    yield words(CUTS, None, p.Split("--", "isolated"))
    yield words(CUTS, None, p.Split("--", "contiguous", invert=True))
    yield words(CUTS, None, p.Sequence([p.Whitespace(), p.Digits(True), p.Punctuation()]))
    yield words(CUTS, None, p.Sequence([p.ByteLevel(add_prefix_space=True), p.Digits()]))
    yield words(CUTS, None, p.Sequence([p.ByteLevel(add_prefix_space=False, use_regex=False),
                                        p.Split("Ġ", "contiguous")]))
    yield words(CUTS, None, p.ByteLevel())
    for scheme in "always", "first", "never":
        yield words(CUTS, None, p.Metaspace(prepend_scheme=scheme))
        yield words(CUTS, None, p.Sequence([p.WhitespaceSplit(),
                                            p.Metaspace(prepend_scheme=scheme, split=False)]))


def vocabulary(*parts):
    return {token: i for i, token in enumerate(parts)}


def of_models():
    merges = [("a", "b"), ("ab", "c")]
    letters = ["<unk>", "a", "b", "c", "x", "ab", "abc"]
    for fuse in False, True:
        for unknown in "<unk>", None:
            for known in [], ["<0xC3>", "<0xA9>", "<0x7A>"]:
                yield Tokenizer(models.BPE(vocabulary(*letters, *known), merges, unk_token=unknown,
                                           fuse_unk=fuse, byte_fallback=True)), UNKNOWN
    yield Tokenizer(models.BPE(vocabulary(*letters, "xyzx", "aéb", "é一"), merges,
                               unk_token="<unk>", ignore_merges=True)), UNKNOWN
    t = Tokenizer(models.BPE(
        vocabulary("<unk>", "a", "##b", "##c</w>", "##b</w>", "a</w>", "x</w>", "##x</w>", "ab</w>",
                   "x"), [("a", "##b</w>")], unk_token="<unk>", continuing_subword_prefix="##",
        end_of_word_suffix="</w>"))
    t.pre_tokenizer = pre_tokenizers.Split("z", "removed")
    yield t, ["ab", "a", "abc", "xab", *UNKNOWN]
    t = Tokenizer(models.WordPiece(vocabulary("[UNK]", "a", "##b", "ab", "##é", "##中", "x", "##x"),
                                   unk_token="[UNK]", max_input_chars_per_word=4))
    t.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    yield t, ["abab ab", "ababx a", "aé中é aé中éb éééé ééééé", "aby x", *UNKNOWN]
    scores = [("<unk>", 0.0), ("a", -2.0), ("b", -2.5), ("ab", -3.0), ("c", -3.5), ("x", -4.0)]
    some = [f"<0x{b:02X}>" for b in sorted(set("\U0001f469é中yz".encode()))]
    for known in [], ["<0xC3>", "<0xA9>"], some:
        yield Tokenizer(models.Unigram(scores + [(b, -9.0) for b in known], 0, True)), UNKNOWN


def of_trimming():
    words_of = ["<s>", " a", "a ", "\u3000\u00a0b", "b \u2003", " ", "\u3000", "a", "b", " \u3000"]
    texts = [" a!a !a", "\u3000\u00a0b!b \u2003", " !\u3000!  !", "a! a!\u3000!b",
             " \u3000! \u3000"]
    for space in False, True:
        t = Tokenizer(models.WordLevel(vocabulary(*words_of), "<s>"))
        t.pre_tokenizer = pre_tokenizers.Punctuation("removed")
        t.post_processor = processors.RobertaProcessing(("<s>", 0), ("<s>", 0), trim_offsets=True,
                                                        add_prefix_space=space)
        yield t, texts
    t = Tokenizer(models.WordLevel(vocabulary(*words_of), "<s>"))
    t.add_tokens([AddedToken("<l>", lstrip=True), AddedToken("<r>", rstrip=True)])
    t.pre_tokenizer = pre_tokenizers.Punctuation("removed")
    t.post_processor = processors.RobertaProcessing(("<s>", 0), ("<s>", 0), trim_offsets=True,
                                                    add_prefix_space=False)
    yield t, ["a \u3000<l>", "<r>\u3000\u00a0 a", " <l> <r> ", "a!\u2003<l>\u2003<r>\u2003!b"]


def of_truncation():
    for strategy in "longest_first", "only_first", "only_second":
        for direction in "right", "left":
            for most in 4, 6:
                t = Tokenizer(models.WordLevel(vocabulary("<s>", *"abcdefgh"), "<s>"))
                t.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
                t.post_processor = processors.TemplateProcessing(
                    single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 0)])
                t.enable_truncation(most, strategy=strategy, direction=direction)
                yield t


PAIRS = [("a b c d", "e f g h"), ("a", "e f g h"), ("a b c d", "e"), ("a b c d", ""), ("", "e f g"),
         ("a b", "e f"), ("a b c d e f g", "h g"), ("a b", "c d e f g")]


def of_decoders():
    """Yields a tokenizer and lists of ids."""
    d = decoders
    some = ["<0xE4>", "<0xb8>", "<0xAD>", "<0xFF>", "<0x41>", "<0xZZ>", "a", "▁b", "<0xC3>",
            "<0x0A>"]
    ids = [[0, 1, 2], [0, 1], [0, 1, 6], [6, 3, 0, 1, 2, 7], [4, 4, 5, 9], [0, 1, 2, 3], [8, 8],
           [2], [0, 1, 2, 0, 1, 2, 4], [0, 1, 4, 2], [6, 7, 7], [8, 7, 8]]
    for decoder in (d.ByteFallback(), d.Sequence([d.ByteFallback(), d.Fuse()]),
                    d.Sequence([d.Replace("▁", " "), d.ByteFallback(), d.Fuse(),
                                d.Strip("a", 1, 0)])):
        t = Tokenizer(models.WordLevel(vocabulary(*some), "a"))
        t.decoder = decoder
        yield t, ids
    level = ["Ã", "©", "ä", "¸", "Ń", "Ġa", "a", "ÿ", "中", " ", "Ġ中"]
    t = Tokenizer(models.WordLevel(vocabulary(*level), "a"))
    t.decoder = d.ByteLevel()
    yield t, [[0, 1], [0], [1], [0, 6, 1], [2, 3, 4], [2, 3], [2, 3, 6], [7, 7, 0, 1], [5, 6, 5],
              [8, 6], [9, 5], [10, 2, 3, 4], [2, 2, 3, 2, 3, 4]]
    pieces = ["a", "##b", "##", "n't", "'s", ".", "?", "!", ",", "do", "not", "'", "'m", "'ve",
              "'re"]
    for cleanup in False, True:
        t = Tokenizer(models.WordLevel(vocabulary(*pieces), "a"))
        t.decoder = d.WordPiece(cleanup=cleanup)
        yield t, [[0, 1, 2, 0], [1, 1, 0], [9, 3, 0, 5], [0, 4, 0, 6, 7], [9, 10, 0], [0, 11, 0],
                  [0, 12, 13, 14, 8, 0], [0, 11, 1, 5, 5]]
    blanks = ["▁a", "a", "▁", "▁▁", "b▁c", " "]
    for scheme in "always", "first", "never":
        t = Tokenizer(models.WordLevel(vocabulary(*blanks), "a"))
        t.decoder = d.Metaspace(prepend_scheme=scheme)
        yield t, [[0, 0, 1], [2, 1], [3, 0], [1, 4, 5], [2], [2, 2], [5, 0]]


def write_made(f, t):
    f.write(f"= made {quoted(json.dumps(json.loads(t.to_str()), ensure_ascii=False))}\n")


def write_encoded(f, t, *texts):
    """Writes what a text or a pair becomes."""
    said = " ".join(map(quoted, texts))
    try:
        e = t.encode(*texts)
    except Exception:
        f.write(f"= short {said}\n")
        return
    f.write(f"= {'pair' if len(texts) == 2 else 'encode'} {said}\n")
    numbers(f, e.ids)
    numbers(f, e.type_ids if len(texts) == 2 else to_bytes(texts[0], e.offsets))


def write_decoded(f, t, ids):
    text = t.decode(ids)
    unlike = "\ufffd" in text and "ByteFallback" in t.to_str()
    f.write(f"= {'whole' if unlike else 'decode'} {quoted(text)}\n")
    numbers(f, ids)


def main():
    with open(os.path.join(HERE, "../data/tokenizer_parts.txt"), "w") as f:
        f.write("# tokenizer_parts.txt: made by tokenizer_parts.py with tokenizers "
                f"{tokenizers.__version__}.\n")
        for makers in of_normalizers, of_pretokenizers, of_models, of_trimming:
            for t, texts in makers():
                write_made(f, t)
                for text in texts:
                    write_encoded(f, t, text)
        for t in of_truncation():
            write_made(f, t)
            for pair in PAIRS:
                write_encoded(f, t, *pair)
            write_encoded(f, t, "a b c d e f g h")
        for t, lists in of_decoders():
            write_made(f, t)
            for ids in lists:
                write_decoded(f, t, ids)


if __name__ == "__main__":
    main()
