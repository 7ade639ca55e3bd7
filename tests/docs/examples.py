"""Makes an example of each function from its golden cases: C that a reader may copy, and what it
prints. site.py compiles all examples as one program.
"""

import math
import os
import re

GOLDEN = "tests/golden/data/ops"
CALLS = ["tests/autograd/op_calls.h", "tests/autograd/golden.def"]
ELEMENTWISE = "tensor/kernels/elementwise.def"
DTYPES = ["RG_BOOL", "RG_INT64", "RG_FLOAT32", "RG_FLOAT64"]
SHORT = {"b": "RG_BOOL", "i64": "RG_INT64", "f32": "RG_FLOAT32", "f64": "RG_FLOAT64"}
ENUMS = {
    "rg_reduction": ["RG_MEAN", "RG_SUM", "RG_EACH", "RG_BATCHMEAN"],
    "rg_pad_mode": ["RG_CONSTANT", "RG_REFLECT", "RG_REPLICATE", "RG_CIRCULAR"],
}
LIMITS = {-(2**63): "INT64_MIN", 2**63 - 1: "INT64_MAX", -(2**31): "INT_MIN"}
SHOWN = {
    "TENSOR": "rg_print({});",
    "VALUES_INDICES": "rg_values_indices y = {};\nrg_print(y.values);\nrg_print(y.indices);",
    "UNIQUE": "rg_unique_result y = {};\nrg_print(y.values);\nrg_print(y.inverse);\n"
    "rg_print(y.counts);",
    "TENSORS": "rg_list y = {};\nfor (int i = 0; i < y.n; i++)\n    rg_print(y.v[i]);",
}


class NoExample(Exception):
    pass


def closing(text, at):
    """Returns the place at which the parenthesis or brace at `at` closes."""
    depth = 0
    for i in range(at, len(text)):
        depth += (text[i] in "({") - (text[i] in ")}")
        if depth == 0:
            return i
    raise SystemExit(f"not closed: {text[at:at + 40]}")


def split(text):
    """Splits a text at the commas that stand in no parentheses."""
    parts, depth = [""], 0
    for c in text:
        depth += (c in "({") - (c in ")}")
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    return [p.strip() for p in parts if p.strip()]


def made_from_rows(table):
    """Returns a table whose macros are replaced with the rows that they make of elementwise.def."""
    made, macro = "", r"^#define (\w+)\(name, \.\.\.\) +(.*)\n"
    for kind, body in re.findall(macro, table, re.M):
        for name in re.findall(rf"^{kind}\((\w+),", open(ELEMENTWISE).read(), re.M):
            made += body.replace("name##_", name + "_").replace("name", name) + "\n"
    return re.sub(macro, "", table, flags=re.M) + made


def rows():
    """Returns for each function of golden.def what it returns, and its arguments."""
    header, table = [re.sub(r"/\*.*?\*/", "", open(f).read(), flags=re.S) for f in CALLS]
    table = made_from_rows(table)
    macros = dict(
        (m[1], (m[2], m[3].replace("\\\n", " ")))
        for m in re.finditer(r"#define (\w+_OPTIONS)(?:\(([\w, ]+)\))?((?:.*\\\n)*.*)\n", header)
    )

    def expanded(argument):
        name = re.match(r"\w*", argument)[0]
        if name not in macros:
            return argument
        parameters, body = macros[name]
        given = split(argument[len(name) + 1 : -1])
        for p, value in zip(split(parameters or ""), given):
            body = re.sub(rf"\b{p}\b", value, body)
        return re.sub(r"\((\d+) \+ 1\)", lambda m: f"({int(m[1]) + 1})", body.strip())

    found = {}
    for m in re.finditer(r"\b([A-Z_]+)\(([a-zA-Z_0-9]+)", table):
        kind, name = m[1], m[2]
        if kind in ("ONE", "TWO"):
            found[name] = ("TENSOR", ["T(0)", "T(1)"][: 1 + (kind == "TWO")])
        elif kind in SHOWN:
            inside = table[m.end(1) + 1 : closing(table, m.end(1))]
            found[name] = (kind, [expanded(a) for a in split(inside)[1:]])
    return found


# ---- cases -----------------------------------------------------------------------------


def cases(name):
    path = f"{GOLDEN}/{name}.txt"
    text = open(path).read() if os.path.exists(path) else ""
    for case in re.split(r"^= ", text, flags=re.M)[1:]:
        lines = case.split("\n")[1:]
        given = [l for l in lines if l and l[0] not in ">vgh!?"]
        outputs = [l for l in lines if l and l[0] in ">v"]
        if outputs and not re.search(r"^[!?]", case, re.M):
            yield given, outputs


def numel(line):
    """Returns the number of elements of a tensor's line."""
    shape = line.split()[3]
    return math.prod(int(n) for n in shape.split(",")) if shape != "." else 1


def cost(case):
    """Returns how hard an example of the case is to read: less is better."""
    given, outputs = case
    tensors = [l for l in given if l[0] == "t"]
    sizes, numbers = [numel(l) for l in tensors], [l for l in given if l[0] == "i"]
    text = " ".join([*given, *outputs])
    return (
        any(" r " in l or " 0 " in " " + l.split()[3].replace(",", " ") + " " for l in tensors),
        any(l.split()[4] != "c" for l in tensors),
        any(l.partition(":")[2] == o.partition(":")[2] for l in tensors for o in outputs),
        any(word in text for word in ("nan", "inf", *map(str, LIMITS))),
        sum(l.split()[3] == "." for l in tensors),
        any(l.split()[1] != "f64" for l in tensors[:1]),
        len(numbers) - len(set(numbers)),
        sum(abs(n - 5) for n in sizes) + 2 * len({l.split()[3] for l in tensors}),
    )


def number(text):
    if text in ("inf", "-inf", "nan"):
        return {"inf": "INFINITY", "-inf": "-INFINITY", "nan": "NAN"}[text]
    whole = int(text) if re.fullmatch(r"-?\d+", text) else float(text)
    if abs(whole) > 1e6 and whole not in LIMITS:
        raise NoExample("its numbers are hard to read")
    if whole != int(whole):
        return f"{whole:.4g}"
    return LIMITS.get(whole) or str(int(whole))


def element(dtype, text):
    if dtype == "b":
        return "True" if text == "1" else "False"
    if dtype == "i64":
        return text
    value = round(float(text), 2)
    if not abs(value) < 1000:
        raise NoExample("its values are hard to read")
    return f"{value:g}" + ("" if value != int(value) else ".")


def literal(line):
    """Returns the literal of a tensor's line."""
    head, _, values = line.partition(":")
    _, dtype, _, shape, *_ = head.split()
    values = [element(dtype, v) for v in values.split()]
    sizes = [] if shape == "." else [int(n) for n in shape.split(",")]
    if math.prod(sizes) != len(values) or not values:
        raise NoExample("its values follow a rule, or it has none")
    for size in reversed(sizes):
        values = [
            "[" + ", ".join(values[i : i + size]) + "]" for i in range(0, len(values), max(size, 1))
        ]
    return f"rg_literal({values[0]})"


class Example:
    """The declarations and the call of a case."""

    def __init__(self, given, names):
        self.given, self.names, self.declared = [], iter(names), []
        lines = iter(given)
        for line in lines:
            if line[0] == "l":
                line = [next(lines) for _ in range(int(line.split()[1]))]
            self.given.append(line)

    def tensor(self, line):
        if line[0] == "-":
            return "RG_NONE"
        if line[0] == "n":
            kind, value = line.split()[1:]
            return "(bool)" + value if kind == "b" else number(value)
        name = next(self.names)
        self.declared.append(f"rg_tensor *{name} = {literal(line)};")
        return name

    def argument(self, letter, k, kind, one_by_one=False):
        """Returns what T(k), I(k) and so on stand for, where `kind` is the type in C."""
        line = self.given[k]
        if letter == "ITEMS":
            return ", ".join(self.item(l) for l in self.given[k:])
        if letter == "LIST":
            tensors = ", ".join(self.tensor(l) for l in line)
            return tensors if one_by_one else f"RG_LIST({tensors})"
        if letter == "T":
            return self.tensor(line)
        value = line[2:].strip()
        if letter == "D":
            sizes = ", ".join(value.split(",")) if value != "." else ""
            return sizes if one_by_one else f"RG_DIMS({sizes})"
        if letter == "Y":
            return SHORT[value]
        if letter == "S":
            return f'"{value}"'
        if kind == "bool":
            return "true" if value != "0" else "false"
        return number(value)

    def item(self, line):
        if line[0] == "s":
            return f'"{line[2:]}"'
        if line[0] == "B":
            return "(bool)" + line[2:]
        return self.tensor(line) if line[0] in "t-" else line[2:]


def same(value, default):
    try:
        return float(value) == float(default)
    except ValueError:
        return value == default or (value == "RG_DIMS()" and default == "{}")


def friendly(function, names, structs, arguments):
    """Returns the macro by which a program calls the function with these arguments, or the function
    itself."""
    parameters = split(names[function].parameters)
    if parameters and parameters[-1].split()[0] in structs:
        return re.sub(r"_with(?=_?$)", "", function)
    macro = next((n for n in names if names[n].calls == function), None)
    if not macro:
        return function
    fixed = [p for p in split(names[macro].parameters) if p != "..."]
    one_by_one = (
        arguments and re.match("D|LIST|ITEMS", arguments[-1]) and len(fixed) < len(parameters)
    )
    fits = one_by_one and "_with" not in function or len(fixed) == len(arguments)
    return macro if fits else function


def example(function, names, structs, row):
    """Returns the C text of a function's example."""
    kind, arguments = row
    arguments = [a for a in arguments if a != "rg_default_generator()"]
    called = friendly(function, names, structs, arguments)
    found = []
    for case in sorted(cases(function[3:]), key=cost)[:40]:
        try:
            text = call(function, called, names, structs, arguments, case[0])
            text[-1] = SHOWN[kind].format(text[-1])
        except NoExample:
            continue
        *better, size = cost(case)
        found.append((better, size + len(text[-1]) / 10, "\n".join(text)))
    if not found:
        raise NoExample(function)
    return min(found)[2]


def call(function, called, names, structs, arguments, case):
    """Returns the declarations of a case's tensors, and the call."""
    parameters = split(names[function].parameters)
    # rg_view(x, 2, -1) is rg_view_dims(x, RG_DIMS(2, -1)).
    one_by_one = called != function and function.endswith(("_dims", "_list"))
    given = Example(case, variables(parameters))

    def evaluated(text, c_type):
        text = re.sub(r"\(rg_\w+\)", lambda m: m[0] if m[0][1:-1] in ENUMS else "", text).strip()
        if m := re.match(r"\((rg_\w+)\)\s*I\((\d+)\)$", text):
            return ENUMS[m[1]][int(given.given[int(m[2])][2:])]
        if m := re.match(r"X\((\d+)\) < 0 \? (\w+) : ", text):
            value = given.argument("X", int(m[1]), c_type)
            return m[2] if value.startswith("-") else value
        if m := re.match(r"L\((\d+)\) \? L\(\d+\) : (\w+)", text):
            value = given.argument("L", int(m[1]), c_type)
            return m[2] if value == "0" else value
        if m := re.match(r"D\((\d+)\)\.(n|v)$", text):
            sizes = given.given[int(m[1])][2:].split(",")
            return str(len(sizes)) if m[2] == "n" else f"(int64_t[]){{ {', '.join(sizes)} }}"
        if m := re.match(r"([A-Z]+)\((\d+)\)$", text):
            return given.argument(m[1], int(m[2]), c_type, one_by_one)
        return text

    written = []
    for i, a in enumerate(arguments):
        if m := re.match(r"\((rg_\w+)\)\s*\{(.*)\}$", a, re.S):
            fields = {f[0]: f for f in structs[m[1]].fields}
            for part in split(m[2]):
                field, value = re.match(r"\.(\w+) = (.*)", part, re.S).groups()
                value = evaluated(value, fields[field][3].split()[0])
                if not same(value, fields[field][1]):
                    written.append(f".{field} = {value}")
        else:
            c_type = parameters[i].split()[0] if i < len(parameters) else ""
            written.append(evaluated(a, c_type))
    return [*given.declared, f"{called}({', '.join(w for w in written if w)})"]


def variables(parameters):
    """Yields names for the tensors: those of the header, and then others."""
    names = [p.split("*")[-1].strip() for p in parameters if p.startswith("rg_tensor *")]
    names = [n for n in names if re.fullmatch(r"\w+", n)]
    return [*names, *(n for n in "abcdefgh" if n not in names)]
