#!/usr/bin/env python3
"""Changes the values of tokenizer.json files, those in tests/golden/data/tokenizer_parts.txt, to
others, and writes what the library tokenizers makes of the files into
tests/golden/data/tokenizer_changes.txt:

    = base "JSON"                    the values that follow are of this file
    = value OFFSET LENGTH LETTERS    where a value lies in the JSON, in bytes; a letter for each of
                                     REPLACEMENTS, and the ids of TEXT follow for each letter a

    -    the replacement is the value
    x    the file is refused
    a    the file is taken
    e    the file is taken, but TEXT can't be encoded
    o    the file is refused, but regard takes it, since nothing reads the value (see UNREAD)

Values of one place in a file, which have one kind, are changed only once.
"""
import json
import os
import re

import tokenizers

from tokenizer_files import HERE, numbers, quoted

REPLACEMENTS = ["null", "true", "false", "-1", "0", "1", "1.5", '"a"', '""', "[]", "{}", "[0]",
                '["a"]', '{"a":0}', '{"type":"a"}', "99999999999999999999"]
TEXT = "Ab c a 12 <s>x é ab xyz, b!!c"
# The ends of the paths of values that regard doesn't read, and the replacements that it takes.
UNREAD = [(("version",), ["null"]), (("added_tokens",), ["null"]), (("byte_fallback",), ["null"]),
          (("tokens", "0"), REPLACEMENTS), (("tokens",), ["[0]"]), (("Strip", "content"), ['""'])]


def bases():
    """Yields the JSON texts of tokenizer_parts.txt."""
    with open(os.path.join(HERE, "../data/tokenizer_parts.txt"), "rb") as f:
        for line in f:
            if line.startswith(b"= made "):
                text = line.strip()[len(b'= made "'):-1]
                yield re.sub(rb"\\(\d{3})", lambda m: bytes([int(m.group(1), 8)]), text)


class Values:
    """Finds the values in a JSON text: a list of (begin, end, path, first character)."""

    def __init__(self, text):
        self.text, self.at, self.found = text, 0, []
        self.value(())

    def skip(self, characters=b" "):
        while self.text[self.at] in characters:
            self.at += 1

    def string(self):
        begin = self.at
        self.at += 1
        while self.text[self.at] != ord('"'):
            self.at += 2 if self.text[self.at] == ord("\\") else 1
        self.at += 1
        return json.loads(self.text[begin:self.at])

    def members(self, path):
        """Goes through an object or an array, whose bracket has been read."""
        start = self.at - 1
        whole = json.JSONDecoder().raw_decode(self.text[start:].decode())[0]
        kind = whole.get("type", "") if isinstance(whole, dict) else ""
        for number in range(len(whole)):
            self.skip(b" ,")
            name = str(min(number, 1))
            if isinstance(whole, dict):
                key = self.string()
                self.skip(b" :")
                name = name if path[-1:] == ("vocab",) else key
            self.value((*path, kind, name) if kind else (*path, name))
        self.skip()
        self.at += 1

    def value(self, path):
        self.skip()
        begin, first = self.at, chr(self.text[self.at])
        if first in "{[":
            self.at += 1
            self.members(path)
        elif first == '"':
            self.string()
        else:
            self.at += len(re.match(rb"[-+.\w]+", self.text[self.at:])[0])
        self.found.append((begin, self.at, path, first if first in '{["tfn' else "0"))


def letter_of(path, text, replacement, ids):
    """Returns the letter for a changed file, and appends the ids to the list."""
    try:
        made = tokenizers.Tokenizer.from_str(text.decode())
    except BaseException:  # tokenizers also panics.
        unread = any(path[-len(end):] == end and replacement in known for end, known in UNREAD)
        return "o" if unread else "x"
    try:
        ids.append(made.encode(TEXT).ids)
        return "a"
    except BaseException:
        return "e"


def main():
    seen = set()
    with open(os.path.join(HERE, "../data/tokenizer_changes.txt"), "w") as f:
        f.write("# tokenizer_changes.txt: made by tokenizer_changes.py with tokenizers "
                f"{tokenizers.__version__}.\n")
        for base in bases():
            fresh = [v for v in sorted(Values(base).found) if v[2:] not in seen]
            seen.update(v[2:] for v in fresh)
            if fresh:
                f.write(f"= base {quoted(base.decode())}\n")
            for begin, end, path, _ in fresh:
                ids, letters = [], ""
                for replacement in REPLACEMENTS:
                    changed = base[:begin] + replacement.encode() + base[end:]
                    letters += "-" if changed == base else letter_of(path, changed, replacement,
                                                                     ids)
                f.write(f"= value {begin} {end - begin} {letters}\n")
                for of_text in ids:
                    numbers(f, of_text)


if __name__ == "__main__":
    main()
