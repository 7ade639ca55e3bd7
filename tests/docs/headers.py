"""Reads the public headers, as the Makefile lists them, for site.py and for names.py of the golden
data. A header is a list of sections, a section a list of blocks, and a block is a comment with the
declarations that it speaks of.
"""

import re


class Declaration:
    """A function, a macro or a type. `own` is the comment behind it in its line."""

    def __init__(self, kind, name, text, own=""):
        self.kind, self.name, self.text, self.own = kind, name, text, own
        self.fields = []  # The fields of a struct of options: (name, default, comment, type).
        self.parameters = ""  # The text in the parentheses of a function or a macro.
        self.body = ""  # The body of a macro.
        self.calls = None  # The function in the same entry that a macro calls.


class Block:
    def __init__(self, comment):
        self.comment, self.declarations = comment, []


class Section:
    def __init__(self, title, comment):
        self.title, self.blocks = title, [Block(comment)] if comment else []


class Header:
    def __init__(self, path, comment):
        self.path, self.comment, self.sections = path, comment, [Section("", "")]

    def declarations(self):
        return [d for s in self.sections for b in s.blocks for d in b.declarations]


def plain(comment):
    """Returns a comment's text: without its stars, and with its own line breaks."""
    text = re.sub(r"^/\*+ ?|\s*\*+/$", "", comment.strip())
    return re.sub(r"^ *\* ?", "", text, flags=re.M).strip()


def for_c(text):
    """Removes the parts for C++, and joins lines that end in a backslash."""
    lines, shown = [], [True]
    for line in text.replace("\\\n", " ").split("\n"):
        if m := re.match(r"\s*#\s*(ifdef|ifndef|if|else|elif|endif)\b(.*)", line):
            word, rest = m.groups()
            if word == "endif":
                shown.pop()
            elif word in ("else", "elif"):
                shown[-1] = not shown[-1]
            else:
                shown.append("__cplusplus" not in rest or (word == "ifndef"))
        elif all(shown):
            lines.append(line)
    return "\n".join(lines)


TOKEN = re.compile(
    r"(?P<comment>/\*.*?\*/)|(?P<directive>#[^\n]*)|(?P<blank>\n[ \t]*(?=\n))|(?P<space>\s+)", re.S
)
PART = re.compile(r'/\*.*?\*/|"(?:\\.|[^"])*"|[{};]', re.S)


def end_of_declaration(text, at):
    """Returns the end of a declaration: its semicolon, or the brace of an inline function."""
    inline, depth = text.startswith("static inline", at), 0
    for m in PART.finditer(text, at):
        depth += {"{": 1, "}": -1}.get(m[0], 0)
        if depth == 0 and (m[0] == ";" or (m[0] == "}" and inline)):
            return m.end()
    raise SystemExit(f"this declaration has no end: {text[at:at + 60]!r}")


def macro(directive):
    m = re.match(r"#\s*define\s+(\w+)(?:\(([^)]*)\))?(\s+.*)?$", directive)
    if not m:
        return None
    text, own = re.subn(r"\s*/\*.*?\*/\s*$", "", directive)
    d = Declaration("macro", m[1], re.sub(r"\s+", " ", text), "")
    if own:
        d.own = plain(directive[directive.rindex("/*") :])
    d.parameters = m[2]
    d.body = re.sub(r"\s+", " ", re.sub(r"/\*.*?\*/", "", m[3] or "")).strip()
    return d


def options(text):
    """Returns the fields of a struct of options, except for pointers to functions."""
    fields = []
    body = text[text.index("{") + 1 : text.rindex("}")]
    body = re.sub(r"\bRG_ONE_OF\((\w+)\)", r"\1", body)
    # A comment belongs to the field before it in its line, or else to the field after it.
    for m in re.finditer(
        r"((?:^[ \t]*/\*(?:(?!\*/).)*\*/\s*)*)^\s*([\w ]+[ *]\**)(\w+)((?:\[[^\]]*\])?)\s+"
        r"RG_DEFAULT\(((?:[^()]|\([^()]*\))*)\);(?:[ \t]*(/\*.*?\*/))?",
        body,
        re.S | re.M,
    ):
        before = " ".join(plain(c) for c in re.findall(r"/\*.*?\*/", m[1], re.S))
        fields.append((m[3], m[5], plain(m[6] or "") or before, m[2].strip() + m[4]))
    if len(fields) != len(re.findall(r"[\w\]]\s+RG_DEFAULT\w*\(", body)):
        raise SystemExit(f"docs: which fields has {text}")
    return fields


def listed(text, macros):
    """Replaces a macro such as FIELDS_(FIELD_), which lists fields of a struct, with the fields."""

    def fields(m):
        names = re.findall(r"\bX\((\w+)\)", macros[m[1]].body) if m[1] in macros else []
        if not names or m[2] not in macros:
            return m[0]
        field = re.sub(r"RG_DEFAULT_NAMED_\(\w+, ", "RG_DEFAULT(", macros[m[2]].body)
        return "\n".join(re.sub(r"\bname\b", name, field) for name in names)

    return re.sub(r"\b(\w+_)\((\w+_)\)$", fields, text, flags=re.M)


def declaration(text, macros):
    if text.startswith("typedef"):
        kind, bare = "type", re.sub(r"/\*.*?\*/", "", text, flags=re.S)
        m = re.match(r"typedef\b[^{}]*?\b(rg_\w+)\s*\(", bare) or re.search(r"(\w+)\s*;$", bare)
        d = Declaration(kind, m[1], text)
        if "RG_OPTIONS" in text and "{" in text:
            d.kind, d.fields = "options", options(listed(text, macros))
        return d
    head = text.split("{")[0] if text.startswith("static inline") else text
    bare = re.sub(r"\s*__attribute__.*", "", head, flags=re.S)
    m = re.match(r"([^()]*?[ *])(\w+)\s*\((.*)\)", bare, re.S)
    if not m or "=" in m[1]:
        return None
    one_line = re.sub(r"\s+", " ", head.strip()).rstrip("; ") + ";"
    d = Declaration("function", m[2], one_line)
    d.parameters = re.sub(r"\s+", " ", m[3])
    return d


def read(path):
    text = open(path).read()
    header = Header(path, plain(re.match(r"/\*.*?\*/", text, re.S)[0]))
    if "RG_PUBLIC_BEGIN\n\n" in text:
        text = "\n" + text.split("RG_PUBLIC_BEGIN\n\n", 1)[1].split("\nRG_PUBLIC_END", 1)[0]
    else:
        text = text[text.index("*/") + 2 :]
    block, last, after_blank = None, None, True
    text = for_c(text)
    at, macros = 0, {}
    while at < len(text):
        m = TOKEN.match(text, at)
        kind = m.lastgroup if m else "declaration"
        start, at = at, m.end() if m else end_of_declaration(text, at)
        token = text[start:at]
        section = header.sections[-1]
        if kind == "blank":
            block = last = None
        elif kind == "comment":
            same_line = last and "\n" not in text[last_end:start]
            if re.match(r"/\* clang-format", token):
                continue
            if same_line:
                last.own = plain(token)
            elif m2 := re.match(r"-+ (.*?) -+(?:\n|$)(.*)", plain(token), re.S):
                header.sections.append(Section(m2[1], m2[2].strip()))
                block = last = None
            else:
                # A comment before a block's first declaration is about the whole block.
                block, last = Block(plain(token)), None
                section.blocks.append(block)
        elif kind != "space":
            d = macro(token) if kind == "directive" else declaration(token, macros)
            if d is None:
                continue
            if d.kind == "macro":
                macros[d.name] = d
            if block is None:
                block = Block("")
                section.blocks.append(block)
            block.declarations.append(d)
            last, last_end = d, at
    return header


# A function may have one of these endings behind the name of its macro: rg_zeros calls
# rg_zeros_dims.
WHOLE_FORM = r"(s|_(with|dims|list|of|items|float))_?"


def read_all(paths):
    """Reads the headers, finds the function that each macro calls, and drops private names."""
    headers = [read(path) for path in paths]
    every = [d for h in headers for d in h.declarations()]
    functions = {d.name: d for d in every if d.kind == "function"}
    macros = {d.name: d for d in every if d.kind == "macro"}

    def called(name, seen=()):
        """Returns the functions that a macro calls, through other macros, too."""
        found = []
        for word in re.findall(r"\b(?:rg|RG)_\w+", macros[name].body):
            if word in functions:
                found.append(word)
            elif word in macros and word not in seen and word.startswith("RG_"):
                found += called(word, (*seen, name))
        return found

    for name, d in macros.items():
        stem = name.rstrip("_")
        if name.startswith("rg_") and name not in functions:
            near = [f for f in called(name) if re.fullmatch(stem + WHOLE_FORM, f)]
            d.calls = near[0] if near else None
    for h in headers:
        for s in h.sections:
            for b in s.blocks:
                b.declarations = [d for d in b.declarations if is_public(d, functions)]
    return headers


def is_public(d, functions):
    """Returns whether programs use the name. They use no helper macros, whose names end in _, and
    no macros with the name of a function."""
    if d.kind != "macro":
        return True
    return (
        d.name not in functions
        and not d.name.endswith("__")
        and (d.name.startswith("rg_") or not d.name.endswith("_"))
    )
