"""Makes random index expressions for ops_cases.py: x[items] and x[items] = value, as Python text
and as items.

Most are sound; some have an index out of bounds, shapes that don't fit, or too many items.
"""

import random

import torch


def text_of(item):
    if isinstance(item, slice):
        parts = ["" if v is None else str(v) for v in (item.start, item.stop, item.step)]
        return ":".join(parts if item.step is not None else parts[:2])
    return "..." if item is ... else str(item)


class Expressions:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.torch = torch.Generator().manual_seed(seed)

    def shape(self):
        sizes = [0, 1, 2, 3] if self.random.random() < 0.1 else [1, 2, 3, 4]
        return [self.random.choice(sizes) for _ in range(self.random.randint(0, 4))]

    def range(self, size):
        end = lambda: (
            None if self.random.random() < 0.4 else self.random.randint(-size - 2, size + 2)
        )
        step = self.random.choice([None, None, 1, 2, 3] if self.random.random() < 0.97 else [0, -1])
        return slice(end(), end(), step)

    def items(self, shape):
        items, at, pick = [], 0, self.random.random
        common = self.random.choice([(2,), (3,), (2, 2), (0,)])
        for _ in range(self.random.randint(1, len(shape) + 1)):
            kind, size = pick(), shape[at] if at < len(shape) else 2
            low, high = (-size - 1, size) if pick() < 0.03 or size == 0 else (-size, size - 1)
            if kind < 0.25:
                items.append(self.range(size))
            elif kind < 0.42:
                items.append(self.random.randint(low, high))
            elif kind < 0.77 and kind >= 0.6:
                shape_of = (
                    self.random.choice([common, (1,), common[-1:]]) if pick() < 0.95 else (5,)
                )
                items.append(torch.randint(low, high + 1, shape_of, generator=self.torch))
            elif kind < 0.52 or kind >= 0.97:
                items.append(self.random.choice([None, True, False]) if pick() < 0.5 else None)
                continue
            elif kind < 0.6:
                if ... in items:
                    continue
                items.append(...)
                at = max(at, len(shape) - self.random.randint(0, 1))
                continue
            elif kind < 0.9:
                sizes = list(shape[at : at + self.random.randint(0, 2)])
                if sizes and pick() < 0.05:
                    sizes[0] += 1
                items.append(torch.rand(sizes, generator=self.torch) < 0.5)
                at += len(sizes) - 1
            else:
                items.append(torch.tensor(self.random.randint(low, high)))
            at += 1
        return items

    def arguments(self, items):
        """Returns the items as arguments. Some are texts, each of one item or of several."""
        given, i = [], 0
        while i < len(items):
            if isinstance(items[i], (torch.Tensor, bool)) or (
                isinstance(items[i], int) and self.random.random() < 0.5
            ):
                given.append(items[i])
            else:
                texts = [text_of(items[i])]
                while (
                    i + 1 < len(items)
                    and not isinstance(items[i + 1], torch.Tensor)
                    and self.random.random() < 0.6
                ):
                    i += 1
                    texts.append(text_of(items[i]))
                given.append(self.random.choice([", ", ",", " , "]).join(texts))
            i += 1
        return given

    def tensor(self, shape):
        t = torch.randint(-40, 41, shape, generator=self.torch).double() / 16
        return t.requires_grad_()

    def value(self, x, items):
        """Returns a value whose shape is that of x[items], broadcasts to it, or almost does."""
        try:
            shape = list(x[tuple(items) if len(items) != 1 else items[0]].shape)
        except (RuntimeError, IndexError, ValueError):
            shape = [2]
        change = self.random.random()
        if change < 0.3:
            shape = [1 if self.random.random() < 0.4 else n for n in shape]
        elif change < 0.45:
            shape = shape[1:]
        elif change < 0.55:
            shape = [1] + shape
        elif change < 0.6:
            shape = shape + [3]
        return self.tensor(shape)


def cases(count, seed=1):
    e = Expressions(seed)
    for i in range(count):
        x = e.tensor(e.shape())
        items = e.items(x.shape)
        if i % 2:
            yield "index_items", [x, *e.arguments(items)]
        else:
            yield "set_items_", [x, e.value(x.detach(), items), *e.arguments(items)]
