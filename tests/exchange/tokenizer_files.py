#!/usr/bin/env python3
"""Tokenizers of every kind: what regard reads of their files tokenizer.json, encodes and decodes is
compared with the library tokenizers as it is installed.

    tests/exchange/tokenizer_files.py [BUILD [TEXTS [WHICH..]]]

BUILD is the folder in which make has built tests/exchange/tokenizer_files, by default "build".
TEXTS is how many random texts each tokenizer encodes; from 1000 on, each code point is in a text,
and not only some of those that are like their neighbours. WHICH are the kinds that are compared, by
their names, or files tokenizer.json; without them, all kinds are. Offsets are in characters in
Python and in bytes in regard."""
import json
import os
import random
import subprocess
import sys
import tempfile

# The scripts beside this one have names of packages.
sys.path.pop(0)

import tokenizers
from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers,
                        processors, trainers)

SPACES = [chr(c) for c in (9, 10, 11, 12, 13, 32, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B),
                           0x2028, 0x2029, 0x202F, 0x205F, 0x3000)]
ODD = [0x1C, 0x1F, 0x180E, 0x200B, 0x200D, 0x2060, 0xFEFF, 0xFFFD, 0xFFFF, 0x10FFFF, 0x2581, 0x130,
       0x17F, 0x212A, 0x1E9E, 0xDF, 0x1C5, 0xAC00, 0x1100, 0x1161, 0x11A8, 0xD4DB, 0x344, 0xF73]
EMOJI = ["\U0001F468\u200D\U0001F469\u200D\U0001F467", "\U0001F1E9\U0001F1EA", "❤️", "👍🏽",
         "©\u200d©"]
WORDS = """the The THE cat's don't we're I've I'm you'll he'd 's 'S 'Re ' '' 'll 'l hello World
naïve café Ærøskøbing Ελλάδα русский йод עברית العربية हिन्दी ไทย
中文 日本語 ガード 한국어 ½ ² x² 3.14 1,000 ２０
2026-11-22 a_b C++ #!/bin/sh "quoted" (x) ... ?! — <s> </s> [MASK] <pad>
ﬁ ™ Å Ⅷ ㌔ ﷺ e\u0301\u0327 o\u031b\u0323
`` can ' t do not <0x41> ▁x""".split()

GPT2 = r"""'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
          r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
GPT4 = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}"
        r"| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+")
GPT4O = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
         r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
         r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+"
         r"|\s+(?!\S)|\s+")
DEEPSEEK = [r"[\r\n]", r"\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-Ֆ]+",
            r"\s?[!-/:-~！-／：-～‘-‟　-。]+", r"\s+$".replace("$", r"(?!\S)"), r"[一-龥ࠀ-一가-퟿]+"]
BLOOM = r" ?[^(\s|[.,!?…。，、।۔،])]+"
CLIP = (r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]"
        r"|[^\s\p{L}\p{N}]+")


class Regard:
    """The C program, which answers each line with one."""

    def __init__(self, build):
        self.p = subprocess.Popen([f"{build}/tests/exchange/tokenizer_files"],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, command, *rest):
        print(command, *rest, file=self.p.stdin, flush=True)
        answer = self.p.stdout.readline()
        assert answer.endswith("\n"), f"{command}: the program ended"
        answer = answer.rstrip("\n")
        if answer.startswith("error "):
            raise RuntimeError(answer[6:])
        return answer

    def numbers(self, command, *rest):
        return [int(i) for i in self.ask(command, *rest).split()]


def hexed(text):
    return text.encode().hex() or "-"


def some_text(r):
    def character():
        plane = r.choice((0, 0, 0, 1, 1, 2, 3, 14, 15, 16))
        c = plane << 16 | r.randrange(0x10000)
        return chr(c) if not 0xD800 <= c < 0xE000 else "x"

    def piece():
        return r.choice((
            lambda: r.choice(WORDS), lambda: r.choice(WORDS) + " ", lambda: " " + r.choice(WORDS),
            lambda: r.choice(SPACES) * r.randrange(1, 4), lambda: r.choice(SPACES), character,
            lambda: chr(r.choice(ODD)), lambda: r.choice("0123456789٣४²½") * r.randrange(1, 5),
            lambda: r.choice(EMOJI), lambda: chr(r.randrange(0x300, 0x370)),
            lambda: chr(r.randrange(128)), lambda: chr(r.randrange(0x4E00, 0x9FFF)),
            lambda: r.choice("abcdefgh") * r.randrange(1, 12),
            lambda: r.choice(["<l>", "<r>", "<w>", "<N>"])))()
    return "".join(piece() for _ in range(r.choice((0, 1, 2, 3, 8, 30))))


def corpus(r):
    # A token with the character U+0000 is refused.
    return [some_text(r).replace("\0", "") for _ in range(400)] + [" ".join(WORDS)] * 5


def to_bytes(text, offsets):
    """Returns offsets in characters as offsets in bytes."""
    at = [0]
    for c in text:
        at.append(at[-1] + len(c.encode()))
    return [at[i] for pair in offsets for i in pair]


# ---- tokenizers of every kind ----------------------------------------------------------------

SEQUENCE = pre_tokenizers.Sequence


def added(t):
    t.add_tokens([AddedToken("<l>", lstrip=True, normalized=False),
                  AddedToken("<r>", rstrip=True, normalized=False),
                  AddedToken("<w>", single_word=True), AddedToken("<N>")])


def trained(t, trainer, r):
    t.train_from_iterator(corpus(r), trainer)
    added(t)
    return t


def wordpiece(r, **bert):
    t = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=r.choice((9, 100))))
    t.normalizer = normalizers.BertNormalizer(**bert)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.decoder = decoders.WordPiece(cleanup=r.random() < 0.7)
    trained(t, trainers.WordPieceTrainer(vocab_size=900, show_progress=False, special_tokens=[
        "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]), r)
    if r.random() < 0.5:
        t.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    else:
        t.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
            special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return t


def byte_level(r, pre, normalizer=None, **model):
    t = Tokenizer(models.BPE(**model))
    if normalizer:
        t.normalizer = normalizer
    t.pre_tokenizer = pre
    t.decoder = decoders.ByteLevel()
    trained(t, trainers.BpeTrainer(
        vocab_size=800, show_progress=False, special_tokens=["<s>", "</s>", "<pad>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        **{k: v for k, v in model.items() if k != "ignore_merges"}), r)
    trim, prefix = r.random() < 0.5, r.random() < 0.5
    t.post_processor = r.choice((
        processors.ByteLevel(trim_offsets=trim, add_prefix_space=prefix),
        processors.RobertaProcessing(("</s>", 1), ("<s>", 0), trim_offsets=trim,
                                     add_prefix_space=prefix),
        processors.Sequence([processors.ByteLevel(trim_offsets=trim, add_prefix_space=prefix),
                             processors.TemplateProcessing(
                                 single="<s> $A", pair="<s> $A <s>:1 $B:1",
                                 special_tokens=[("<s>", 0)])])))
    return t


def split(*patterns):
    return SEQUENCE([pre_tokenizers.Split(Regex(p), "isolated") for p in patterns]
                    + [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def sentencepiece(r, kind):
    """BPE of characters with the bytes as a fallback: Llama 2, its newer form, and Gemma."""
    t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=r.random() < 0.7, byte_fallback=True,
                             ignore_merges=r.random() < 0.3))
    replace = normalizers.Replace(" ", "▁")
    end = [decoders.Strip(" ", 1, 0)] if kind != "gemma" else []
    if kind == "llama":
        t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), replace])
    elif kind == "metaspace":
        t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    else:
        t.normalizer = replace
        t.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(),
                                   decoders.Fuse(), *end])
    all_bytes = [f"<0x{b:02X}>" for b in range(0 if r.random() < 0.8 else 200, 256)]
    trained(t, trainers.BpeTrainer(vocab_size=1000, show_progress=False, limit_alphabet=150,
                                   special_tokens=["<unk>", "<s>", "</s>", *all_bytes]), r)
    # The bytes are ordinary tokens of the vocabulary in published files.
    j = json.loads(t.to_str())
    j["added_tokens"] = [a for a in j["added_tokens"] if not a["content"].startswith("<0x")]
    t = Tokenizer.from_str(json.dumps(j))
    t.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 1)])
    return t


def unigram(r, normalizer, pre, byte_fallback=False):
    t = Tokenizer(models.Unigram())
    if normalizer:
        t.normalizer = normalizer
    t.pre_tokenizer = pre
    t.decoder = decoders.Metaspace(prepend_scheme=r.choice(("always", "never", "first")))
    special = ["<pad>", "</s>", "<unk>"]
    if byte_fallback:
        special += [f"<0x{b:02X}>" for b in range(256)]
    # The trainer makes tokens such as </s> a second time if they are in a text.
    t.train_from_iterator([s.replace("<", " ").replace(">", " ") for s in corpus(r)],
                          trainers.UnigramTrainer(vocab_size=1000, show_progress=False,
                                                  unk_token="<unk>", special_tokens=special))
    added(t)
    if byte_fallback:
        j = json.loads(t.to_str())
        j["added_tokens"] = [a for a in j["added_tokens"] if not a["content"].startswith("<0x")]
        j["model"]["byte_fallback"] = True
        t = Tokenizer.from_str(json.dumps(j))
    t.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)])
    return t


def charsmap(pairs):
    """Returns a normalizer Precompiled of these pairs of strings, with a double array in which each
    node has 256 units of its own."""
    import base64
    import struct
    trie, texts, places = {}, b"", {}
    for key, text in pairs.items():
        node = trie
        for b in key.encode():
            node = node.setdefault(b, {})
        places.setdefault(text, len(texts))
        if places[text] == len(texts):
            texts += text.encode() + b"\0"
        node[None] = places[text]
    units = [0] * 256

    def fill(node, base):
        """Fills the units at `base`, and returns nothing: unit base ^ b is the child b."""
        for b, child in node.items():
            if b is None:
                units[base] = 1 << 31 | child
                continue
            at = len(units)
            units.extend([0] * 256)
            leaf = None in child
            offset = base ^ b ^ at
            assert offset < 1 << 21 or offset % 256 == 0
            units[base ^ b] = (offset << 10 if offset < 1 << 21 else offset >> 8 << 10 | 1 << 9) \
                | leaf << 8 | b
            fill(child, at)
    at = 256
    units.extend([0] * 256)
    units[0] = at << 10
    fill(trie, at)
    array = struct.pack(f"<{len(units)}I", *units)
    return normalizers.Precompiled(struct.pack("<I", len(array)) + array + texts)


def nfkc_charsmap():
    import unicodedata
    pairs = {chr(c): unicodedata.normalize("NFKC", chr(c)) for c in range(0xA0, 0x10000)
             if not 0xD800 <= c < 0xE000}
    pairs = {k: v for k, v in pairs.items() if k != v}
    pairs.update({unicodedata.normalize("NFD", chr(c)): chr(c) for c in range(0xC0, 0x180)
                  if unicodedata.normalize("NFD", chr(c)) != chr(c)})
    pairs.update({"\t": " ", "\n": " ", "\r": " ", "\u200b": "", "\u3000": " ", "\x01": ""})
    return charsmap(pairs)


def wordlevel(r):
    t = Tokenizer(models.WordLevel(unk_token="<unk>"))
    t.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase(),
                                         normalizers.Strip()])
    t.pre_tokenizer = pre_tokenizers.Whitespace()
    return trained(t, trainers.WordLevelTrainer(vocab_size=900, show_progress=False,
                                                special_tokens=["<unk>", "<pad>"]), r)


META = pre_tokenizers.Metaspace
BYTES = pre_tokenizers.ByteLevel
N = normalizers.Sequence
KINDS = {
    "BERT, uncased": lambda r: wordpiece(r, lowercase=True),
    "BERT, cased": lambda r: wordpiece(r, lowercase=False),
    "BERT, other options": lambda r: wordpiece(
        r, clean_text=r.random() < 0.5, handle_chinese_chars=r.random() < 0.5,
        strip_accents=r.random() < 0.5, lowercase=r.random() < 0.5),
    "GPT-2": lambda r: byte_level(r, BYTES(add_prefix_space=r.random() < 0.5)),
    "GPT-2's pattern": lambda r: byte_level(r, split(GPT2)),
    "Llama 3": lambda r: byte_level(r, split(LLAMA3), ignore_merges=True),
    "Qwen": lambda r: byte_level(r, split(QWEN), normalizers.NFC()),
    "GPT-4": lambda r: byte_level(r, split(GPT4)),
    "GPT-4o": lambda r: byte_level(r, split(GPT4O)),
    "DeepSeek": lambda r: byte_level(r, SEQUENCE(
        [pre_tokenizers.Split(Regex(p), "isolated") for p in DEEPSEEK]
        + [pre_tokenizers.Digits(True), BYTES(add_prefix_space=False)])),
    "BLOOM": lambda r: byte_level(r, split(BLOOM)),
    "SmolLM": lambda r: byte_level(r, SEQUENCE([pre_tokenizers.Digits(True),
                                                BYTES(add_prefix_space=False)])),
    "Falcon": lambda r: byte_level(r, SEQUENCE([
        pre_tokenizers.Punctuation("contiguous"), BYTES(add_prefix_space=False),
        pre_tokenizers.Digits(False), pre_tokenizers.Split(Regex("[0-9][0-9][0-9]"), "isolated")])),
    "CLIP": lambda r: byte_level(
        r, SEQUENCE([pre_tokenizers.Split(Regex(CLIP), "removed", invert=True), BYTES(False)]),
        N([normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()]),
        end_of_word_suffix="</w>"),
    "BPE with a prefix": lambda r: byte_level(r, BYTES(), continuing_subword_prefix="##"),
    "Llama 2": lambda r: sentencepiece(r, "llama"),
    "Llama 2, newer": lambda r: sentencepiece(r, "metaspace"),
    "Gemma": lambda r: sentencepiece(r, "gemma"),
    "T5": lambda r: unigram(r, nfkc_charsmap(), META(prepend_scheme="always")),
    "XLM-R": lambda r: unigram(r, nfkc_charsmap(), SEQUENCE([
        pre_tokenizers.WhitespaceSplit(), META(prepend_scheme="always")])),
    "ALBERT": lambda r: unigram(r, N([
        normalizers.Replace("``", '"'), normalizers.Replace("''", '"'), normalizers.NFKD(),
        normalizers.StripAccents(), normalizers.Lowercase(),
        normalizers.Replace(Regex(" {2,}"), " ")]), META(prepend_scheme="first")),
    "Unigram with bytes": lambda r: unigram(r, normalizers.NFD(), META(prepend_scheme="never"),
                                            byte_fallback=True),
    "words": wordlevel,
}


# ---- comparing -------------------------------------------------------------------------------

def same_text(regard, t, text, name):
    there = t.encode(text)
    mine = regard.numbers("encode", hexed(text))
    assert there.ids == mine, f"{name}: {text!r}: {there.ids} and {mine}"
    if "\0" in text or not text:
        return
    there = t.encode(text, add_special_tokens=False)
    mine = regard.numbers("offsets", hexed(text))
    assert to_bytes(text, there.offsets) == mine, \
        f"{name}: {text!r}: {to_bytes(text, there.offsets)} and {mine}"


def same_decoding(regard, t, ids, name, streams):
    line = " ".join(map(str, ids))
    for skip in (0, 1):
        there = t.decode(ids, skip_special_tokens=bool(skip))
        mine = bytes.fromhex(regard.ask("decode", skip, line)).decode()
        assert there == mine, f"{name}: {ids}: {there!r} and {mine!r}"
    if streams:
        there = t.decode(ids, skip_special_tokens=False)
        mine = bytes.fromhex(regard.ask("stream", line)).decode()
        assert there == mine, f"{name}: {ids}: {there!r} and {mine!r}, streamed"


def same_batch(regard, t, r, name):
    """A batch with truncation and padding, which the options of regard or the file say."""
    pairs = r.random() < 0.5
    n = r.randrange(1, 5)
    special = r.random() < 0.7
    texts = [some_text(r).replace("\0", "") for _ in range(n * (1 + pairs))]
    lengths = [r.choice((-1, 8, 9, 20)), r.choice((-1, -1, 10, 40))]
    t.no_truncation()
    t.no_padding()
    if lengths[0] >= 0:
        t.enable_truncation(lengths[0])
    t.enable_padding(length=None)
    rows = list(zip(texts[:n], texts[n:])) if pairs else texts
    longest = max(len(e.ids) for e in t.encode_batch(rows, add_special_tokens=special))
    if lengths[1] >= 0:
        t.enable_padding(length=max(lengths[1], longest))
    there = t.encode_batch(rows, add_special_tokens=special)
    answer = regard.numbers("batch", int(special), *lengths, int(pairs), *map(hexed, texts))
    compare_rows(t, there, rows, answer, name)
    t.no_truncation()
    t.no_padding()


def compare_rows(t, there, rows, answer, name):
    length, flat = answer[0], answer[1:]
    assert length == len(there[0].ids), f"{name}: {length} and {len(there[0].ids)}"
    for field in ("ids", "type_ids", "attention_mask", "special_tokens_mask"):
        want = [i for e in there for i in getattr(e, field)]
        mine, flat = flat[:len(want)], flat[len(want):]
        assert want == mine, f"{name}: {field} of {rows}: {want} and {mine}"
    want = []
    for e, row in zip(there, rows):
        row = row if isinstance(row, tuple) else (row,)
        for pair, sequence in zip(e.offsets, e.sequence_ids):
            want += to_bytes(row[sequence or 0], [pair]) if sequence is not None else [0, 0]
    assert want == flat, f"{name}: offsets of {rows}: {want} and {flat}"


def same_file_settings(regard, t, r, path, name):
    """Truncation and padding that the file says."""
    t.enable_truncation(r.randrange(8, 20), strategy="longest_first",
                        direction=r.choice(("left", "right")))
    t.enable_padding(direction=r.choice(("left", "right")), pad_id=1, pad_type_id=1,
                     pad_token="<pad>", length=r.choice((None, 24)),
                     pad_to_multiple_of=r.choice((None, 8)))
    t.save(path)
    regard.ask("file", path)
    for _ in range(10):
        texts = [some_text(r).replace("\0", "") for _ in range(4)]
        for rows in (texts, list(zip(texts[:2], texts[2:]))):
            pairs = isinstance(rows[0], tuple)
            answer = regard.numbers("batch", 1, -1, -1, int(pairs), *map(hexed, texts))
            compare_rows(t, t.encode_batch(rows), rows, answer, name)
        assert t.encode(texts[0]).ids == regard.numbers("encode", hexed(texts[0])), name


def every_character(regard, t, name, all_planes):
    """Each code point, beside letters, digits, marks and white space. Without all_planes, only some
    of those that are the same as most of their neighbours."""
    for begin in range(0, 0x110000, 128):
        alike = 0x3400 <= begin < 0xA000 or 0xAC00 <= begin < 0xF900 or begin >= 0x20000
        if alike and not all_planes and begin % 0x1000:
            continue
        characters = [chr(c) for c in range(begin, begin + 128) if not 0xD800 <= c < 0xE000]
        for form in ("a{0}b1{0}2!{0}! {0} {0}", "'{0} e\u0301{0}\u0327{0}{0}{0}\u1161<w>{0}"):
            text = " ".join(form.format(c) for c in characters)
            there, mine = t.encode(text).ids, regard.numbers("encode", hexed(text))
            if there != mine:
                for c in characters:
                    same_text(regard, t, form.format(c), f"{name}, {ord(c):#x}")
            assert there == mine, f"{name}: characters from {begin:#x} on"
        if begin % 0x1000 == 0 or begin < 0x3100:
            same_text(regard, t, "".join(characters), name)


def compare(regard, t, name, r, texts, path):
    t.save(path)
    assert int(regard.ask("file", path)) == t.get_vocab_size(), name
    every_character(regard, t, name, texts >= 1000)
    # Runs of bytes that aren't UTF-8 are streamed in another way.
    streams = '"ByteFallback"' not in t.to_str()
    for i in range(texts):
        text = some_text(r)
        same_text(regard, t, text, name)
        if i % 8 == 0:
            ids = [r.randrange(t.get_vocab_size()) for _ in range(r.randrange(1, 40))]
            same_decoding(regard, t, ids, name, streams)
            same_decoding(regard, t, t.encode(text).ids, name, True)
            same_batch(regard, t, r, name)
    same_file_settings(regard, t, r, path, name)


def main():
    build = sys.argv[1] if len(sys.argv) > 1 else "build"
    texts = int(sys.argv[2]) if len(sys.argv) > 2 else 200
    which = sys.argv[3:] or list(KINDS)
    regard = Regard(build)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "tokenizer.json")
        for name in which:
            r = random.Random(name)
            t = KINDS[name](r) if name in KINDS else Tokenizer.from_file(name)
            t.no_padding()
            t.no_truncation()
            compare(regard, t, name, r, texts, path)
    print(f"tokenizers: {len(which)} tokenizers, {texts} texts of each as with tokenizers "
          f"{tokenizers.__version__}")


if __name__ == "__main__":
    main()
