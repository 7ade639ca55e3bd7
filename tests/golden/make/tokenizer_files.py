#!/usr/bin/env python3
"""Makes small tokenizers of four kinds with the library tokenizers, in
tests/golden/files/tokenizers/, and writes what they say into tests/golden/data/tokenizers.txt:

    = file NAME           the cases that follow are of this file
    = encode "TEXT"       the text's ids, and the offsets of its tokens in bytes, follow
    = pair "TEXT" "TEXT"  the ids and the types of the pair follow
    = batch LENGTH        four of the texts, cut to this length: the length of the rows, the ids,
                          and the attention mask follow
    = decode "TEXT"       the ids that decode to the text without special tokens follow
    = every FORM          a hash of what the normalizer makes of texts with each code point
    = class PATTERN       a hash of the code points that the regular expression matches
"""
import base64
import json
import os
import struct

import tokenizers
from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers,
                        processors, trainers)

HERE = os.path.dirname(os.path.abspath(__file__))
FILES = os.path.join(HERE, "../files/tokenizers")
TEXTS = [
    "The winter's day, O! thou art", "", " ", "  two  blanks\n\nand\tlines ", "Ærø naïve café İI",
    "中文 and 日本語 한국어", "e\u0301 o\u0327\u0301 \u0344", "don't WE'LL I'm 'S", "x² ½ 12345 ٣٤",
    "<s>thou<l>   <l> a <w> b<w>", "ﬁne \u200b\u0001\ufffd ™", "👩\u200d👧 ❤️", "qqqqzzzz\U00010FFF",
    "(x) ... ?!", "\u1100\u1161\u11a8 \uac01", "the " * 30, "▁a ▁", "thou art more lovely",
]
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
          r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def lines():
    with open(os.path.join(HERE, "../../../examples/sonnets.txt")) as f:
        return f.read().split("\n")


def trained(t, trainer):
    t.train_from_iterator(lines(), trainer)
    t.add_tokens([AddedToken("<l>", lstrip=True, normalized=False),
                  AddedToken("<w>", single_word=True)])
    return t


def bert():
    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer = normalizers.BertNormalizer()
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.decoder = decoders.WordPiece()
    trained(t, trainers.WordPieceTrainer(vocab_size=200, show_progress=False, special_tokens=[
        "[PAD]", "[UNK]", "[CLS]", "[SEP]"]))
    t.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    t.enable_truncation(16)
    t.enable_padding()
    return t


def llama3():
    t = Tokenizer(models.BPE(ignore_merges=True))
    t.normalizer = normalizers.NFC()
    t.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(LLAMA3), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    trained(t, trainers.BpeTrainer(vocab_size=320, show_progress=False, special_tokens=["<s>"],
                                   initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    t.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=True, add_prefix_space=False),
        processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s>:1 $B:1",
                                      special_tokens=[("<s>", 0)])])
    return t


def llama2():
    t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(),
                                   decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    some_bytes = [f"<0x{b:02X}>" for b in range(16, 256)]
    trained(t, trainers.BpeTrainer(vocab_size=380, show_progress=False,
                                   special_tokens=["<unk>", "<s>", *some_bytes]))
    j = json.loads(t.to_str())
    j["added_tokens"] = [a for a in j["added_tokens"] if not a["content"].startswith("<0x")]
    t = Tokenizer.from_str(json.dumps(j))
    t.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 1)])
    return t


def charsmap(pairs):
    """Returns Sentencepiece's table: the texts, and a double array, in which the children of a node
    with the offset o lie at o ^ byte."""
    trie, texts = {}, b""
    for key, text in pairs.items():
        node = trie
        for b in key.encode():
            node = node.setdefault(b, {})
        node[0] = len(texts)
        texts += text.encode() + b"\0"
    units, used = [0] * 1024, {0}

    def fill(at, node, label):
        base = next(o for o in range(1, 700) if all(o ^ b not in used for b in node))
        used.update(base ^ b for b in node)
        units[at] = (base ^ at) << 10 | (0 in node) << 8 | label if at else base << 10
        for b, child in node.items():
            if b == 0:
                units[base] = 1 << 31 | child
            else:
                fill(base ^ b, child, b)
    fill(0, trie, 0)
    del units[(max(used) | 255) + 1:]
    array = struct.pack(f"<{len(units)}I", *units)
    return normalizers.Precompiled(struct.pack("<I", len(array)) + array + texts)


def t5():
    t = Tokenizer(models.Unigram())
    t.normalizer = charsmap({"ﬁ": "fi", "½": "1⁄2", "\n": " ", "\t": " ", "e\u0301": "é",
                             "\u200b": " ", "™": "TM", "²": "2"})
    t.pre_tokenizer = pre_tokenizers.Metaspace()
    t.decoder = decoders.Metaspace()
    trained(t, trainers.UnigramTrainer(vocab_size=200, show_progress=False, unk_token="<unk>",
                                       special_tokens=["<pad>", "</s>", "<unk>"]))
    t.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)])
    t.enable_padding(direction="left", pad_id=0, pad_token="<pad>", pad_to_multiple_of=8)
    t.enable_truncation(20, direction="left")
    return t


def quoted(text):
    return '"' + "".join(chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\{b:03o}"
                         for b in text.encode()) + '"'


def numbers(f, values):
    f.write(": " + " ".join(map(str, values)) + "\n")


def to_bytes(text, offsets):
    return [len(text[:i].encode()) for pair in offsets for i in pair]


def write_cases(f, t):
    batch = TEXTS[0], TEXTS[9], TEXTS[1], TEXTS[3]
    for i, text in enumerate(TEXTS):
        f.write(f"= encode {quoted(text)}\n")
        e = t.encode(text)
        numbers(f, e.ids)
        numbers(f, to_bytes(text, e.offsets))
        if i % 3 == 0:
            f.write(f"= pair {quoted(text)} {quoted(TEXTS[i - 1])}\n")
            e = t.encode(text, TEXTS[i - 1])
            numbers(f, e.ids)
            numbers(f, e.type_ids)
        f.write(f"= decode {quoted(t.decode(t.encode(text).ids))}\n")
        numbers(f, t.encode(text).ids)
    t.enable_padding(**{**(t.padding or {}), "length": None})
    for length in 8, 12:
        t.enable_truncation(**{**(t.truncation or {}), "max_length": length})
        there = t.encode_batch(batch)
        f.write(f"= batch {length}\n")
        numbers(f, [len(there[0].ids)])
        numbers(f, [i for e in there for i in e.ids])
        numbers(f, [i for e in there for i in e.attention_mask])


CODES = [i for i in range(0x110000) if not 0xD800 <= i < 0xE000]
BERT = {"clean_text": False, "handle_chinese_chars": False, "strip_accents": False,
        "lowercase": False}
FORMS = {
    "NFC": normalizers.NFC(), "NFD": normalizers.NFD(), "NFKC": normalizers.NFKC(),
    "NFKD": normalizers.NFKD(), "Lowercase": normalizers.Lowercase(),
    "StripAccents": normalizers.StripAccents(),
    "clean_text": normalizers.BertNormalizer(**{**BERT, "clean_text": True}),
    "chinese": normalizers.BertNormalizer(**{**BERT, "handle_chinese_chars": True}),
    "strip_accents": normalizers.BertNormalizer(**{**BERT, "strip_accents": True}),
}
CLASSES = [r"\p{L}", r"\p{Lu}", r"\p{Ll}", r"\p{Lt}", r"\p{Lm}", r"\p{Lo}", r"\p{M}", r"\p{Mn}",
           r"\p{N}", r"\p{Nd}", r"\p{P}", r"\p{S}", r"\p{Han}", r"\s", r"\d", r"\w",
           r"[^\s\p{L}\p{N}]", r"(?i:[sk])"]


def hashed(data):
    """Returns the 32 bits of the hash FNV-1a."""
    h = 0x811C9DC5
    for b in data:
        h = (h ^ b) * 0x01000193 & 0xFFFFFFFF
    return h


def write_every(f):
    for name, form in FORMS.items():
        f.write(f"= every {name}\n")
        texts = (form.normalize_str(f"{chr(i)}\u0327\u0301{chr(i)}\u1161") for i in CODES)
        numbers(f, [hashed("\n".join(texts).encode())])
    for pattern in CLASSES:
        split = pre_tokenizers.Split(Regex(pattern), "removed")
        left = {c for piece, _ in split.pre_tokenize_str("".join(map(chr, CODES))) for c in piece}
        f.write(f"= class {pattern}\n")
        numbers(f, [hashed(bytes(chr(i) not in left for i in CODES))])


def main():
    os.makedirs(FILES, exist_ok=True)
    with open(os.path.join(HERE, "../data/tokenizers.txt"), "w") as f:
        f.write("# tokenizers.txt: made by tokenizer_files.py with tokenizers "
                f"{tokenizers.__version__}.\n")
        for make in bert, llama3, llama2, t5:
            t = make()
            with open(os.path.join(FILES, f"{make.__name__}.json"), "w") as file:
                file.write(json.dumps(json.loads(t.to_str()), ensure_ascii=False) + "\n")
            f.write(f"= file {make.__name__}\n")
            write_cases(f, t)
        write_every(f)


if __name__ == "__main__":
    main()
