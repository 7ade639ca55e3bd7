"""Writes the site of `make docs`: README.md, the guides, the files to which these link, a page for
each public header (or for each section of a long one), and the ops.

    site.py BUILD NAMES HEADER...

BUILD has the libraries and tests/docs/ops, and the site goes to BUILD/docs. NAMES is names.txt of
the golden data. The script fails if a library exports a function that no header declares, or if
NAMES lacks one.
"""

import glob
import html
import json
import os
import re
import shutil
import subprocess
import sys
import textwrap

sys.dont_write_bytecode = True
import examples
import headers

HERE = os.path.dirname(os.path.abspath(__file__))
# README.md recommends the guides in an order.
GUIDES = sorted(glob.glob("docs/*.md"), key=open("README.md").read().rpartition("\n| to |")[2].find)
GUIDES = ["README.md", *GUIDES]
# A header with more functions than this has a page for each section.
LONG = 60


def escape(text):
    return html.escape(text, quote=False)


def slug(title):
    """Returns the anchor of a heading, as GitHub makes it."""
    return re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", title.lower()).strip())


def link(page, target):
    """Returns the address of a target as seen from a page."""
    path, _, anchor = target.partition("#")
    relative = "" if path == page else os.path.relpath(path, os.path.dirname(page) or ".")
    return relative + ("#" + anchor if anchor else "")


class Site:
    def __init__(self, build, names, paths):
        self.build, self.pages, self.wanted, self.index = build, {}, [], []
        self.headers = headers.read_all(paths)
        self.python = dict(line.split(" ", 1) for line in open(names).read().splitlines())
        self.declared = {d.name: d for h in self.headers for d in h.declarations()}
        self.structs = {n: d for n, d in self.declared.items() if d.kind == "options"}
        self.where = {}  # The page and anchor of each name.
        self.uses = {}  # The places in guides where a name stands.
        self.sources = {f: open(f).read() for f in sorted(glob.glob("examples/*.c"))}
        self.aliases = {}  # Python's expressions for a name, from docs/names.md.
        self.check()

    # ---- what must hold ----------------------------------------------------------------

    def check(self):
        wrong = []
        for library in sorted(glob.glob(f"{self.build}/libregard*.so")):
            symbols = subprocess.run(
                ["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True
            ).stdout
            for name in re.findall(r" T (rg_\w+)", symbols):
                if name not in self.declared:
                    wrong.append(f"{library} exports {name}, which no public header declares")
        for name, d in self.declared.items():
            if (
                d.kind in ("function", "macro")
                and name.startswith("rg_")
                and name not in self.python
            ):
                wrong.append(
                    f"names.txt doesn't say what {name} is in Python: "
                    "tests/golden/make/names.py writes it"
                )
        if wrong:
            raise SystemExit("docs: " + "\ndocs: ".join(wrong))

    # ---- pages -------------------------------------------------------------------------

    def page_of(self, path):
        """Returns the page of a file or folder of the project, which is written if it isn't yet."""
        page = "index.html" if path == "README.md" else re.sub(r"\.md$", "", path) + ".html"
        if page not in self.pages and path not in self.wanted:
            self.wanted.append(path)
        return page

    def write(self, page, title, body):
        self.pages[page] = (title, body)

    def linked(self, page, text):
        """Makes links of the public names in a page's code."""

        def name(m):
            return (
                f'<a href="{link(page, self.where[m[0]])}">{m[0]}</a>'
                if m[0] in self.where
                else m[0]
            )

        def code(m):
            return m[0] if m[1] else m[2] + re.sub(r"\b(?:rg|RG)_\w+", name, m[3]) + "</code>"

        return re.sub(r"(<a [^>]*>)?(<code[^>]*>)(.*?)</code>", code, text, flags=re.S)

    def markdown(self, path):
        page = self.page_of(path)
        body = subprocess.run(
            ["cmark-gfm", "-e", "table", "--unsafe", path],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        body = re.sub(r"<!--.*?-->\n?", "", body, flags=re.S)
        seen = ["", ""]

        def heading(m):
            seen[:] = [slug(re.sub("<.*?>", "", html.unescape(m[2]))), re.sub("<.*?>", "", m[2])]
            self.index.append([html.unescape(seen[1]), f"{page}#{seen[0]}", [], title])
            return f'<h{m[1]} id="{seen[0]}">{m[2]}</h{m[1]}>'

        def reference(m):
            target = html.unescape(m[1])
            if re.match(r"\w+:|#", target):
                return m[0]
            file, _, anchor = target.partition("#")
            file = os.path.normpath(os.path.join(os.path.dirname(path), file))
            if not os.path.exists(file):
                raise SystemExit(f"{path}: the link to {target} leads nowhere")
            return f'href="{link(page, self.page_of(file) + (anchor and "#" + anchor))}"'

        title = re.sub("<.*?>", "", re.search(r"<h1>(.*?)</h1>", body)[1])
        body = re.sub(r'href="([^"]*)"', reference, body)
        parts = re.split(r"(?=<h\d>)", body)
        for i, part in enumerate(parts):
            parts[i] = re.sub(r"<h(\d)>(.*?)</h\d>", heading, part)
            for name in re.findall(r"\b(?:rg|RG)_\w+", part):
                use = (f"{page}#{seen[0]}", html.unescape(title), html.unescape(seen[1]))
                if path in GUIDES and use not in self.uses.setdefault(name, []):
                    self.uses[name].append(use)
        # A table that is wider than the page scrolls inside it.
        body = "".join(parts).replace("<table>", '<div class="wide"><table>')
        self.write(page, html.unescape(title), body.replace("</table>", "</table></div>"))

    def source(self, path):
        """Writes the page of a source file, or of a folder."""
        page = self.page_of(path)
        if os.path.isdir(path):
            files = [f for f in sorted(glob.glob(path + "/*")) if re.search(r"\.[ch]$", f)]
            items = [f'<li><a href="{link(page, self.page_of(f))}">{f}</a></li>' for f in files]
            body = "<ul>" + "".join(items) + "</ul>"
        else:
            body = f'<pre class="source"><code>{escape(open(path).read())}</code></pre>'
        self.write(page, path, f"<h1>{path}</h1>{body}")

    def aliases_of(self, path):
        """Reads the table of Python's and C's expressions in docs/names.md."""
        for row in re.findall(r"^\| (`.*`) \| (`.*) \|$", open(path).read(), re.M):
            python, c = [re.findall(r"`(.*?)`", cell) for cell in row]
            for i, text in enumerate(python):
                written = c[i] if len(python) == len(c) else c[0]
                names = re.findall(r"\b(?:rg|RG)_\w+", re.sub(r"\w+ = ", "", written))
                if names:
                    self.aliases.setdefault(names[0], []).append(text)

    # ---- functions ---------------------------------------------------------------------

    def entries(self, block):
        """Splits a block into comments with the declarations that they describe."""
        found = []
        for d in self.gathered(block.declarations):
            before = found[-1][1] if found else []
            # A comment on constants isn't about the functions after them.
            behind = before and is_constant(before[-1]) and not is_constant(d)
            follows = before and d.name.startswith(before[0].name + "_")
            if before and not d.own and not behind and (block.comment or follows):
                before.append(d)
            elif behind and not d.own:
                found.append(("", [d]))
            else:
                found.append((d.own or block.comment, [d]))
        if not found:
            return [(block.comment, [])]
        if found[0][0] != block.comment and block.comment:
            found.insert(0, (block.comment, []))
        return found

    def gathered(self, declarations):
        """Puts each macro before the function that it calls, and leaves out the structs of options,
        which stand as tables with the functions that take them."""
        taken = {
            d.parameters.split(",")[-1].split()[0]
            for d in self.declared.values()
            if d.kind == "function" and d.parameters
        }
        result = []
        for d in declarations:
            if d.calls or (d.kind == "options" and d.name in taken and "(*" not in d.text):
                continue
            result += [m for m in self.declared.values() if m.calls == d.name] + [d]
        return result

    def options_of(self, d):
        last = (
            examples.split(d.parameters)[-1].split()
            if d.kind == "function" and d.parameters
            else []
        )
        return self.structs.get(last[0]) if last else None

    def signature(self, d):
        """Returns how a name is called. A macro with options has its function's parameters."""
        if d.kind != "macro":
            return d.text
        f = self.declared.get(d.calls)
        if f and self.options_of(f):
            parameters = examples.split(f.parameters)[:-1] + ["..."]
            kind = re.match(r"(.*?)\b" + f.name, f.text)[1]
            return f"{kind}{d.name}({', '.join(parameters)});"
        call = d.name + (f"({d.parameters})" if d.parameters is not None else "")
        shown = d.body.replace("__VA_ARGS__", "...")
        simple = shown and len(shown) < 100 and not re.search(r"\w__?\b|__|[{#]", shown)
        return f"{call}    is {shown}" if simple else call

    def python_of(self, declarations):
        """Returns what the names are in Python."""
        found, absent = [], []
        for d in declarations:
            said = self.python.get(d.name)
            if said and said.startswith("- "):
                absent.append(said[2:])
            elif said:
                found += said.split(" ")
        if found:
            return ", ".join(f"<code>{escape(n)}</code>" for n in dict.fromkeys(found))
        return "none: " + escape("; ".join(dict.fromkeys(absent))) if absent else ""

    def entry(self, page, comment, declarations):
        if not declarations:
            return prose(comment)
        body = []
        named = [d for d in declarations if d.kind in ("function", "macro")]
        if named:
            heads = [f'<a id="{d.name}" href="#{d.name}">{d.name}</a>' for d in named]
            body.append(f"<h3>{', '.join(heads)}</h3>")
        for d in declarations:
            if d not in named:
                body.append(f'<a id="{d.name}"></a>')
        lines = escape("\n".join(self.signature(d) for d in declarations))
        body.append(f'<pre class="signature"><code>{lines}</code></pre>' + prose(comment))
        for struct in {o.name: o for o in map(self.options_of, declarations) if o}.values():
            told = any(f[2] for f in struct.fields)
            rows = "".join(
                f"<tr><td><code>.{f[0]} = {escape(f[1])}</code></td>"
                f"<td><code>{escape(f[3])}</code></td>"
                + (f"<td>{marked(f[2])}</td></tr>" if told else "</tr>")
                for f in struct.fields
            )
            heads = "<th>option, with its default</th><th>type</th>" + ("<th></th>" if told else "")
            if struct.name not in self.shown and "(*" not in struct.text:
                body.append(f'<a id="{struct.name}"></a>')
            self.shown.add(struct.name)
            body.append(f'<div class="wide"><table><tr>{heads}</tr>{rows}</table></div>')
        facts = [
            ("Python", self.python_of(declarations)),
            ("Guides", self.guides(page, declarations)),
            ("Programs", self.programs(page, named) if named else ""),
        ]
        facts += [("Op", self.op_link(page, d)) for d in declarations]
        body.append(definitions(facts))
        body += [self.example(d.name) for d in declarations if d.name in self.examples]
        return f"<section>{''.join(body)}</section>"

    def guides(self, page, declarations):
        uses = list(dict.fromkeys(u for d in declarations for u in self.uses.get(d.name, [])))
        shown = {u[1]: u for u in reversed(uses)}
        return ", ".join(
            f'<a href="{link(page, address)}">{escape(title)}</a>'
            for address, title, _ in reversed(shown.values())
        )

    def programs(self, page, declarations):
        """Returns links to examples that use a function which no guide uses."""
        if any(d.name in self.uses for d in declarations):
            return ""
        names = "|".join(d.name for d in declarations if d.kind != "type")
        found = [f for f, text in self.sources.items() if re.search(rf"\b({names})\b", text)]
        return ", ".join(f'<a href="{link(page, self.page_of(f))}">{f}</a>' for f in found[:3])

    def op_link(self, page, d):
        op = (
            self.ops.get(re.sub(r"_(with|dims|dim|list)$", "", d.name[3:]))
            if d.kind == "function"
            else None
        )
        if not op or d.name.endswith("_"):
            return ""
        shapes = escape(op["shapes"][0]) if "shapes" in op else ""
        return (
            f'<a href="{link(page, "ops.html#op-" + op["op"][0])}">{op["op"][0]}</a>, '
            f"{shapes}, derivative: {escape(op['derivative'][0])}"
        )

    def example(self, name):
        text, printed = self.examples[name]
        return f"<pre><code>{escape(text)}</code></pre><pre><samp>{escape(printed)}</samp></pre>"

    def place(self, header):
        """Yields the sections of a header with their pages, and notes where each name is."""
        functions = [d for d in header.declarations() if d.kind == "function"]
        for s in header.sections:
            s.declarations = [d for b in s.blocks for d in b.declarations]
            page = header.path + ".html"
            if s.title and len(functions) > LONG:
                page = f"{header.path}/{slug(s.title.split(':')[0])}.html"
                while page in self.taken:
                    page = page.replace(".html", "-2.html")
                self.taken.add(page)
            s.page = page
            for d in s.declarations:
                at = d.name
                self.where.setdefault(d.name, f"{page}#{at}")

    def write_headers(self):
        self.taken, self.shown = set(), set()
        for h in self.headers:
            self.place(h)
        for d in self.declared.values():
            if d.calls in self.where:
                self.where[d.name] = self.where[d.calls].split("#")[0] + "#" + d.name
            if d.kind == "options":
                users = [f for f in self.declared.values() if self.options_of(f) is d]
                if users and "(*" not in d.text:
                    self.where[d.name] = self.where[users[0].name].split("#")[0] + "#" + d.name

    def finish_headers(self):
        for h in self.headers:
            bodies = {}
            for s in h.sections:
                shown = [e for b in s.blocks for e in self.entries(b)]
                if s.title and any(d.kind != "macro" or not d.calls for d in s.declarations):
                    bodies.setdefault(s.page, []).append(
                        f'<h2 id="{slug(s.title)}">{escape(s.title)}</h2>'
                    )
                for comment, declarations in shown:
                    if declarations or comment and s.declarations:
                        bodies.setdefault(s.page, []).append(
                            self.entry(s.page, comment, declarations)
                        )
            first = h.path + ".html"
            top = f"<h1>{h.path}</h1>" + prose(h.comment)
            parts = [s for s in h.sections if s.page != first and s.page in bodies]
            if parts:
                top += (
                    '<ul class="parts">'
                    + "".join(
                        f'<li><a href="{link(first, s.page)}">{escape(s.title)}</a>'
                        f"<p>{self.short_list(first, s)}</p></li>"
                        for s in parts
                    )
                    + "</ul>"
                )
            bodies[first] = [top, *bodies.get(first, [])]
            for page, body in bodies.items():
                up = "" if page == first else f'<p><a href="{link(page, first)}">{h.path}</a></p>'
                title = next((s.title for s in h.sections if s.page == page and s.title), h.path)
                self.write(page, h.path if page == first else title, up + "".join(body))

    def short_list(self, page, section):
        names = [
            d.name
            for b in section.blocks
            for d in self.gathered(b.declarations)
            if d.kind in ("function", "macro")
        ]
        return ", ".join(f"<code>{n}</code>" for n in names)

    # ---- ops ---------------------------------------------------------------------------

    def read_ops(self):
        printed = subprocess.run(
            [f"{self.build}/tests/docs/ops"], capture_output=True, text=True, check=True
        )
        self.ops = {}
        for line in printed.stdout.splitlines():
            key, value = line.split("\t", 1)
            if key == "op":
                op = self.ops[value] = {}
            op.setdefault(key, []).append(value.replace("\\n", "\n"))

    def write_ops(self):
        body = [
            "<h1>Ops</h1><p>These are the nodes of the graph. Functions are made of them. What "
            "stands here is in the op's row, or was computed from its samples.</p>"
        ]
        for name, op in self.ops.items():
            function = next(
                (
                    f
                    for f in (f"rg_{name}", f"rg_{name}_with", f"rg_{name}_dims", f"rg_{name}_list")
                    if f in self.where
                ),
                None,
            )
            n = op["inputs"][0]
            facts = [
                ("Function", function and f"<code>{function}</code>"),
                ("Formula", f"<code>{escape(op['formula'][0])}</code>"),
                ("Inputs", "any number" if n == "0" else n),
                ("Shapes", "<br>".join(map(escape, op.get("shapes", [])))),
                ("Dtypes", "<br>".join(map(escape, op.get("dtypes", [])))),
                (
                    "Derivative",
                    escape(op["derivative"][0]) + (", in one pass" if "fused" in op else ""),
                ),
                ("grad_fn", escape(op.get("node", [""])[0])),
                ("In place", "may write over its first input" if "in place" in op else ""),
            ]
            example = next(
                (f for f in (function or "", f"rg_{name}_dim") if f in self.examples), None
            )
            if example:
                shown = self.example(example)
            else:
                shown = "".join(
                    f"<pre><samp>{escape(t)}</samp></pre>"
                    for t in ["\n".join(op.get("input", [])), "\n".join(op.get("output", []))]
                    if t
                )
            body.append(
                f'<section><h3><a id="op-{name}" href="#op-{name}">{name}</a></h3>'
                f"{definitions(facts)}{shown}</section>"
            )
        self.write("ops.html", "Ops", "".join(body))

    # ---- examples ----------------------------------------------------------------------

    def run_examples(self):
        """Compiles and runs the examples of the functions that the golden data have cases of."""
        self.examples, texts = {}, {}
        for name, row in examples.rows().items():
            try:
                texts["rg_" + name] = examples.example(
                    "rg_" + name, self.declared, self.structs, row
                )
            except examples.NoExample:
                pass
        source, program = f"{self.build}/tests/docs/examples.c", f"{self.build}/tests/docs/examples"
        with open(source, "w") as f:
            f.write('#include "regard.h"\n#include <stdio.h>\n\n')
            for name, text in texts.items():
                f.write(f"static void example_{name}(void) {{\n    RG_SCOPE();\n{text}\n}}\n")
            f.write(
                "int main(void) {\n    rg_on_error(rg_abort_on_error);\n    rg_on_warning(NULL);\n"
            )
            for name in texts:
                f.write(f'    puts("@ {name}");\n    fflush(stdout);\n    example_{name}();\n')
            f.write("}\n")
        compiler = [
            *os.environ.get("CC", "cc").split(),
            *os.environ.get("CFLAGS", "").split(),
            "-O0",
            "-g0",
            "-I.",
            source,
            f"{self.build}/libregard.a",
            *os.environ.get("LIBS", "-lm -ldl -pthread").split(),
            "-o",
            program,
        ]
        subprocess.run(compiler, check=True)
        printed = subprocess.run([program], capture_output=True, text=True, check=True).stdout
        for part in re.split(r"^@ ", printed, flags=re.M)[1:]:
            name, _, output = part.partition("\n")
            self.examples[name] = (texts[name], output.rstrip("\n"))

    # ---- the whole ---------------------------------------------------------------------

    def make(self):
        self.read_ops()
        self.run_examples()
        self.write_headers()
        self.aliases_of("docs/names.md")
        for path in [*GUIDES, "CONTRIBUTING.md"]:
            self.markdown(path)
        self.finish_headers()
        self.write_ops()
        self.write_contents()
        for path in self.wanted:
            if self.page_of(path) not in self.pages:
                self.markdown(path) if path.endswith(".md") else self.source(path)
        for name, d in self.declared.items():
            if d.kind in ("function", "macro") and (name in self.python or name.startswith("RG_")):
                said = self.python.get(name, "- ")
                python = [] if said.startswith("- ") else said.split(" ")
                self.index.append([name, self.where[name], python + self.aliases.get(name, []), ""])
        for op in self.ops.values():
            name = op["op"][0]
            self.index.append(
                [name, f"ops.html#op-{name}", op.get("node", []), "op: " + op["formula"][0]]
            )
        self.save()

    def write_contents(self):
        body = [
            "<h1>Functions</h1><p>The public headers, in the order in which regard.h includes them."
            "</p>"
        ]
        for h in self.headers:
            about = re.split(r"\n\n", h.comment)[0].replace("\n", " ")
            about = re.sub(r"^\S+\.h: ", "", about)
            body.append(f'<h2><a href="{h.path}.html">{h.path}</a></h2><p>{escape(about)}</p><p>')
            body.append(
                "<br>".join(
                    self.short_list("functions.html", s)
                    for s in h.sections
                    if self.short_list("functions.html", s)
                )
                + "</p>"
            )
        self.write("functions.html", "Functions", "".join(body))
        items = [
            f'<li><a href="{self.page_of(g)}">{escape(self.pages[self.page_of(g)][0])}</a></li>'
            for g in GUIDES
        ]
        self.write("guides.html", "Guides", f"<h1>Guides</h1><ul>{''.join(items)}</ul>")

    def save(self):
        out = f"{self.build}/docs"
        shutil.rmtree(out, ignore_errors=True)
        template = open(f"{HERE}/page.html").read()
        for page, (title, body) in self.pages.items():
            os.makedirs(os.path.dirname(f"{out}/{page}"), exist_ok=True)
            root = os.path.relpath(".", os.path.dirname(page) or ".")
            text = template.replace("{root}", root).replace("{title}", escape(title))
            with open(f"{out}/{page}", "w") as f:
                f.write(text.replace("{body}", self.linked(page, body)))
        for file in ("style.css", "search.js"):
            shutil.copy(f"{HERE}/{file}", out)
        with open(f"{out}/index.js", "w") as f:
            rows = ",\n".join(json.dumps(row) for row in self.index)
            f.write(f"var INDEX = [\n{rows}\n];\n")
        print(
            f"{out}/index.html: {len(self.pages)} pages, {len(self.examples)} examples, "
            f"{len(self.ops)} ops"
        )


def is_constant(d):
    return d.kind == "macro" and d.parameters is None


def definitions(facts):
    rows = "".join(f"<dt>{name}</dt><dd>{value}</dd>" for name, value in facts if value)
    return f"<dl>{rows}</dl>" if rows else ""


def prose(comment):
    """Makes paragraphs of a comment. Indented lines in it stay as they are."""
    result, kept = [], []
    for part in [*re.split(r"\n\s*\n", comment.strip("\n")), ""]:
        if part.startswith("  "):
            kept.append(part)
            continue
        if kept:
            text = escape(textwrap.dedent("\n\n".join(kept)))
            result.append(f"<pre><code>{text}</code></pre>")
            kept = []
        if part.strip():
            result.append(f"<p>{marked(' '.join(part.split()))}</p>")
    return "".join(result)


def marked(text):
    """Sets code in a comment: calls, names, and text between backquotes."""
    text = re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))
    call = r"\b(?:rg|RG)_\w+(?:\([^()]*(?:\([^()]*\)[^()]*)*\))?"
    return re.sub(rf"(?<!<code>)({call})", r"<code>\1</code>", text)


Site(sys.argv[1], sys.argv[2], sys.argv[3:]).make()
