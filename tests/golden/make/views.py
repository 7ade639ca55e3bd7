"""Writes views.txt: random programs that make views and write through them, as PyTorch runs them.

    = 17                    a program begins; its tensors are numbered as they are made
    $ leaf 2,3 5            a statement: here the leaf 0 with the values `values(6, 5)` below
    $ view 0 select 0 1     tensor 1 is a view of tensor 0
    $ write mul_ 1 2        t1.mul_(t2)
    > a view of a leaf ..   if the last statement failed: words that the error must contain
    ? 1 1 SelectBackward0   after all statements: whether t1 requires grad, and its grad_fn. Both
                            are absent for a view that was made without grad mode: in PyTorch it
                            requires grad, but gets no gradient
    : -1.125 0.25           and its elements
    g 0                     the gradient of t0, or none if no numbers follow
    : 0.5 0.25
    h 0                     what hook 0 was called with, one gradient behind the other
    : 0.5

A program ends with an error, or after `backward` or `second`, whose operands are weighted and
summed. `second` computes the gradients of all leaves, which it writes as r lines, and then runs
backward from the sum of their squares.
"""

import random

import torch

from golden import Golden, comma, values_of as elements_of

PROGRAMS = 700
random.seed(13)
torch.set_num_threads(1)
torch.set_default_dtype(torch.float64)

UNARY_ = "exp_ sigmoid_ tanh_ neg_ relu_ square_ abs_ sin_ floor_ zero_".split()
BINARY_ = "add_ sub_ mul_ div_ copy_".split()
WITH_NUMBER_ = "add_ mul_ sub_ div_ pow_ fill_".split()
PURE = "mul add sub".split()
PURE_UNARY = "exp sin square neg sigmoid".split()
SUBSCRIPTS = ["0", "-1", "1:", "...", "::2", "[0, 1]", ":, 0", ":1", "0, 1:", "None, 0"]


def values(n, seed):
    """Returns numbers that are exact in binary, and never 0."""
    return [((i * 7 + seed * 5) % 19 * 2 - 19) / 16 for i in range(n)]


def tensor(shape, seed):
    n = torch.Size(shape).numel()
    return torch.tensor(values(n, seed)).reshape(shape).clone()


def values_of(t):
    """Returns the elements; PyTorch has zeros without memory."""
    t = t.detach()
    return elements_of(torch.zeros(t.shape) + t if t._is_zerotensor() else t)


def words_of(error):
    """Returns what regard's error must have of PyTorch's."""
    text = str(error)
    for known in (
        "one of the variables needed for gradient computation has been modified by an inplace",
        "Can't detach views in-place. Use detach() instead.",
    ):
        text = known if text.startswith(known) else text
    # A view of a view that was made without grad mode has a grad_fn in PyTorch, but no gradient.
    return text[max(text.find("created in no_grad mode"), 0) :]


class Program:
    def __init__(self):
        self.t, self.lines, self.untracked = [], [], set()
        self.hooks, self.hooked, self.retained = [], set(), set()
        self.grad_mode, self.error, self.ended = True, None, False

    def is_leaf(self, k):
        try:
            return self.t[k].is_leaf and self.t[k].requires_grad
        except RuntimeError:
            return False

    # ---- statements -----------------------------------------------------------------------

    def run(self, words, act):
        """Runs a statement."""
        try:
            with torch.set_grad_enabled(self.grad_mode):
                made = act()
        except (RuntimeError, IndexError) as e:
            self.error = words_of(e)
            made = None
        self.lines.append(("$", *words))
        if made is not None:
            self.t.append(made)

    def leaf(self):
        shape = random.choice([(4,), (2, 3), (3, 2), (2, 2, 2), (6,), (1, 4), (3, 3)])
        seed, kind = random.randint(0, 30), random.choice(["leaf", "leaf", "plain"])
        if not self.t:
            kind = "leaf"
        self.run(
            (kind, comma(shape), seed), lambda: tensor(shape, seed).requires_grad_(kind == "leaf")
        )

    def pick(self):
        """Returns the number of a random tensor. New tensors are likelier than old ones."""
        n = len(self.t)
        return max(random.randrange(n), random.randrange(n))

    def pure(self):
        a = self.pick()
        if self.grad_mode and a in self.untracked:
            return
        if random.random() < 0.4:
            name = random.choice(PURE_UNARY)
            self.run(("unary", name, a), lambda: getattr(torch, name)(self.t[a]))
        elif random.random() < 0.4:
            self.run(("number", a), lambda: self.t[a] * 1.5)
        else:
            name, b = random.choice(PURE), self.operand(self.t[a].shape)
            if b is not None:
                self.run(("binary", name, a, b), lambda: getattr(torch, name)(self.t[a], self.t[b]))

    def operand(self, shape):
        """Returns the number of a tensor that broadcasts to the shape, or None.

        A view that was made without grad mode requires grad in PyTorch, but its gradient goes
        nowhere."""
        fits = [
            i
            for i, t in enumerate(self.t)
            if self.expands(t.shape, shape) and not (self.grad_mode and i in self.untracked)
        ]
        return random.choice(fits) if fits else None

    @staticmethod
    def expands(a, b):
        a = list(a)
        return len(a) <= len(b) and all(x in (1, y) for x, y in zip(a[::-1], list(b)[::-1]))

    def view(self):
        a = self.pick()
        x, n = self.t[a], self.t[a].dim()
        shape = list(x.shape)
        ways = ["alias"]
        d = random.randrange(n) if n else 0
        if n:
            ways += ["select", "slice", "slice", "unsqueeze", "narrow", "squeeze"]
            ways += ["flatten"] * x.is_contiguous()
            ways += ["expand"] * (1 in shape)
            ways += ["split", "unbind", "chunk"] if random.random() < 0.2 else []
        if n >= 2:
            ways += ["t", "transpose", "transpose", "permute", "diagonal"]
        if x.is_contiguous() and x.numel() % 2 == 0 and x.numel():
            ways += ["view", "view"]
        way = random.choice(ways)
        size = shape[d] if n else 0
        if size == 0 and way in (
            "select",
            "slice",
            "narrow",
            "split",
            "unbind",
            "chunk",
            "diagonal",
        ):
            return
        words, act = self.way(way, x, d, size)
        self.run(("view", a, *words), act)
        if not self.error and (not self.grad_mode or a in self.untracked):
            self.untracked.add(len(self.t) - 1)

    def way(self, way, x, d, size):
        n, i = x.dim(), random.randrange(max(size, 1))
        if way == "alias":
            return (way,), lambda: x[...]
        if way == "select":
            return (way, d, i), lambda: x.select(d, i)
        if way == "slice":
            end, step = random.randint(i, size), random.choice([1, 1, 2])
            return (way, d, i, end, step), lambda: torch.ops.aten.slice(x, d, i, end, step)
        if way == "narrow":
            length = random.randint(1, size - i)
            return (way, d, i, length), lambda: x.narrow(d, i, length)
        if way == "unsqueeze":
            return (way, d), lambda: x.unsqueeze(d)
        if way in ("squeeze", "flatten"):
            return (way,), lambda: getattr(x, way)()
        if way == "expand":
            shape = [2] + [3 if s == 1 else s for s in x.shape]
            return (way, comma(shape)), lambda: x.expand(shape)
        if way == "t":
            return ("T",), lambda: x.permute(*range(n)[::-1])
        if way == "transpose":
            e = random.randrange(n)
            return (way, d, e), lambda: x.transpose(d, e)
        if way == "permute":
            dims = random.sample(range(n), n)
            return (way, comma(dims)), lambda: x.permute(dims)
        if way == "diagonal":
            offset = random.choice([0, 0, 1, -1])
            return (way, offset), lambda: x.diagonal(offset)
        if way == "view":
            shape = random.choice([[-1], [2, -1], [-1, 2], [1, -1]])
            return (way, comma(shape)), lambda: x.view(shape)
        if way == "unbind":
            return (way, d, i), lambda: x.unbind(d)[i]
        length = random.randint(1, size)
        parts = getattr(x.detach(), way)(length, d)
        k = random.randrange(len(parts))
        return (way, length, d, k), lambda: getattr(x, way)(length, d)[k]

    def write(self):
        a = self.pick()
        x, kind = self.t[a], random.random()
        base = x._base if x._is_view() else x
        of_leaf = base.is_leaf and base.requires_grad and self.grad_mode
        if (of_leaf or self.is_leaf(a)) and random.random() < 0.98:
            return
        # PyTorch lets some functions write to places that elements share.
        shares = any(n > 1 and step == 0 for n, step in zip(x.shape, x.stride()))
        kind = random.uniform(0.45, 0.75) if shares else kind
        if kind < 0.25:
            name = random.choice(UNARY_)
            self.run(("write", name, a), lambda: self.nothing(getattr(x, name)()))
        elif kind < 0.45:
            name, v = random.choice(WITH_NUMBER_), random.choice([2.0, -1.5, 0.5])
            v = 2.0 if name == "pow_" else v
            self.run(("write_number", name, a, v), lambda: self.nothing(getattr(x, name)(v)))
        elif kind < 0.75:
            name, b = random.choice(BINARY_), self.operand(x.shape)
            if b is None or random.random() < 0.02:
                b = self.pick()
            y = self.t[b]
            if self.overlap(x, y) or (name == "copy_" and x is y):
                return
            self.run(("write", name, a, b), lambda: self.nothing(getattr(x, name)(y)))
        elif kind < 0.85:
            mode, b = random.choice(["masked_fill_", "clamp_", "lerp_", "addcmul_"]), self.operand(
                x.shape
            )
            if b is None:
                return
            y = self.t[b]
            if self.overlap(x, y):
                return
            mask = (torch.arange(x.numel()) % 2 == 0).reshape(x.shape)
            act = {
                "masked_fill_": lambda: x.masked_fill_(mask, 0.75),
                "clamp_": lambda: x.clamp_(-0.5, 0.75),
                "lerp_": lambda: x.lerp_(y, 0.25),
                "addcmul_": lambda: x.addcmul_(y, y, value=0.5),
            }[mode]
            self.run(("write", mode, a, b), lambda: self.nothing(act()))
        else:
            self.set_item(a, x)

    @staticmethod
    def share(x, y):
        return x.untyped_storage().data_ptr() == y.untyped_storage().data_ptr()

    @staticmethod
    def overlap(x, y):
        """Returns whether y has elements of x, but isn't x. PyTorch reads such
        elements before or after they are written, in no fixed order."""
        if (x.data_ptr(), x.shape, x.stride()) == (y.data_ptr(), y.shape, y.stride()):
            return False
        if not Program.share(x, y):
            return False
        places = torch.arange(x.untyped_storage().nbytes())
        at = lambda t: set(
            places.as_strided(t.shape, t.stride(), t.storage_offset()).flatten().tolist()
        )
        return bool(at(x) & at(y))

    def set_item(self, a, x):
        text = random.choice(SUBSCRIPTS)
        try:
            part = eval(f"x.detach()[{text}]", {"x": x.detach()})
        except (IndexError, RuntimeError):
            return
        b = self.operand(part.shape)
        if b is None or self.share(x, self.t[b]) or random.random() < 0.3:
            act = lambda: exec(f"x[{text}] = 0.25", {"x": x})
            self.run(("set_number", a, 0.25, text), act)
        else:
            act = lambda: exec(f"x[{text}] = y", {"x": x, "y": self.t[b]})
            self.run(("set_item", a, b, text), act)

    @staticmethod
    def nothing(_):
        return None

    def look_on(self):
        """Has a tensor retain its gradient, or registers a hook."""
        a = self.pick()
        x = self.t[a]
        if not x.requires_grad or a in self.untracked or not self.grad_mode:
            return
        if random.random() < 0.5:
            self.run(("retain", a), lambda: x.retain_grad())
            self.retained.add(a)
            return
        calls = []

        def act():
            x.grad_fn  # PyTorch crashes where a hook meets a view that is out of date.
            x.register_hook(lambda g: calls.extend(values_of(g)))

        self.run(("hook", a), act)
        self.hooks.append(calls)

    def mode(self):
        if not self.grad_mode or random.random() < 0.25:
            self.grad_mode = not self.grad_mode
            self.lines.append(("$", "grad_mode", int(self.grad_mode)))

    def other(self):
        a, kind = self.pick(), random.random()
        if kind < 0.3:
            self.run(("detach", a), lambda: self.t[a].detach())
        elif kind < 0.35 and not any(t._is_view() and t._base is self.t[a] for t in self.t):
            self.run(("requires_grad_", a), lambda: self.nothing(self.t[a].requires_grad_()))
        elif kind < 0.4 and self.t[a]._is_view():
            self.run(("detach_", a), lambda: self.nothing(self.t[a].detach_()))
        elif kind < 0.7:
            self.mode()
        else:
            self.look_on()

    # ---- the end --------------------------------------------------------------------------

    def state(self):
        with torch.no_grad():
            for k, t in enumerate(self.t):
                try:
                    name = type(t.grad_fn).__name__ if t.grad_fn else "-"
                except RuntimeError:
                    name = "Invalid"
                known = k not in self.untracked
                self.lines.append(("?", k, *((int(t.requires_grad), name) if known else ())))
                self.lines.append((":", *values_of(t)))

    def loss(self):
        outputs = [i for i, t in enumerate(self.t) if t.requires_grad and i not in self.untracked]
        outputs = random.sample(outputs, min(len(outputs), random.randint(1, 3)))
        return outputs

    @staticmethod
    def weighted(t):
        return (t * tensor(t.shape, 3)).sum()

    def finish(self):
        if not self.grad_mode:
            self.grad_mode = True
            self.lines.append(("$", "grad_mode", 1))
        self.state()
        outputs = self.loss()
        if not outputs:
            return
        second, self.ended = random.random() < 0.35, True
        first = {id(t): k for k, t in reversed(list(enumerate(self.t)))}
        leaves = [k for k in sorted(first.values()) if self.is_leaf(k) and k not in self.untracked]
        results = []

        def act():
            loss = sum(
                (self.weighted(self.t[i]) for i in outputs[1:]), self.weighted(self.t[outputs[0]])
            )
            if not second:
                loss.backward()
                return
            x = [self.t[k] for k in leaves]
            results[:] = torch.autograd.grad(loss, x, create_graph=True, allow_unused=True)
            squares = [(g * g).sum() for g in results if g is not None and g.requires_grad]
            if squares:
                sum(squares[1:], squares[0]).backward()

        self.run(("second" if second else "backward", *outputs), act)
        if self.error:
            return
        for k, g in zip(leaves, results):
            self.lines.append(("r", k))
            if g is not None:
                self.lines.append((":", *values_of(g)))
        # In second order, hooks and retained gradients aren't compared. In PyTorch, values that a
        # write through a view saved lead to the view's new history, so its hooks see more.
        looking = (set(), []) if second else (self.retained, self.hooks)
        for k in sorted(set(leaves) | looking[0]):
            self.lines.append(("g", k))
            if self.t[k].grad is not None:
                self.lines.append((":", *values_of(self.t[k].grad)))
        for k, calls in enumerate(looking[1]):
            self.lines.append(("h", k))
            if calls:
                self.lines.append((":", *calls))

    def make(self):
        self.leaf()
        if random.random() < 0.7:
            self.leaf()
        self.run(("number", 0), lambda: self.t[0] * 1.5)
        steps = (
            [self.view] * 6 + [self.write] * 6 + [self.pure] * 2 + [self.other] * 2 + [self.leaf]
        )
        for _ in range(random.randint(3, 14)):
            if not self.error:
                random.choice(steps)()
        if not self.error:
            self.finish()


def main():
    import warnings

    warnings.simplefilter("ignore")
    with Golden("views") as data:
        number = 0
        while number < PROGRAMS:
            p = Program()
            p.make()
            # A rule of PyTorch's may stumble over a view that it saved, before it sees that the
            # view was written to.
            if p.ended and p.error and p.error.startswith("Output"):
                continue
            data.case(number)
            number += 1
            for line in p.lines:
                data.line(*line)
            if p.error:
                data.text(p.error)


if __name__ == "__main__":
    main()
