"""Writes inference.txt: what PyTorch allows with tensors that were made in inference mode.

The case NAME holds what came of it: torch's sentence, or "ok", and then 1 where the result is an
inference tensor, 1 where it requires grad, and its elements. Each case begins with new tensors:

    w, n    leaves of three ones; w requires grad
    x, r    such leaves made in inference mode; r requires grad
    v, s    views of w and of w * 1, made in inference mode
"""

import torch

from golden import Golden, values_of


def leaf(grad=False):
    return torch.ones(3, dtype=torch.float64, requires_grad=grad)


class Made:
    def __init__(self):
        self.w, self.n = leaf(True), leaf()
        self.computed = self.w * 1
        with torch.inference_mode():
            self.x, self.r = leaf(), leaf(True)
            self.v, self.s = self.w.view(3), self.computed.view(3)


def in_mode(f, *modes):
    def run(m):
        if not modes:
            return f(m)
        with modes[0]:
            return in_mode(f, *modes[1:])(m)

    return run


def gradient(y, of, *how):
    y.backward(*how)
    return of.grad


def accumulated(m):
    y = m.w * 3
    with torch.inference_mode():
        y.backward(leaf())
    return gradient((m.w * 2).sum(), m.w)


def grad_inside(m):
    y = (m.w * m.w).sum()
    with torch.inference_mode():
        return torch.autograd.grad(y, m.w, create_graph=True)[0]


def stepped(m):
    m.r.grad = torch.ones_like(m.r)
    torch.optim.SGD([m.r], lr=0.5).step()
    return m.r


def base_written(m):
    m.computed.add_(1)
    return m.s * 2


class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a * b


ON, OFF = torch.inference_mode(), torch.inference_mode(False)
CASES = {
    "mul": lambda m: m.x * m.w,
    "square": lambda m: m.r * m.r,
    "add": lambda m: m.x + m.w,
    "scaled": lambda m: m.r * 2,
    "scaled_plain": lambda m: m.x * 2,
    "view": lambda m: m.x.view(3, 1),
    "detach": lambda m: m.x.detach(),
    "clone": lambda m: m.x.clone(),
    "function": lambda m: Product.apply(m.x, m.w),
    "add_": lambda m: m.x.add_(1),
    "add_no_grad": in_mode(lambda m: m.x.add_(1), torch.no_grad()),
    "add_inside": in_mode(lambda m: m.x.add_(1), ON),
    "add_view": lambda m: m.x.view(3).add_(1),
    "add_recorded": lambda m: m.x.add_(m.w),
    "add_to_normal": lambda m: m.computed.add_(m.x),
    "mul_to_normal": lambda m: m.computed.mul_(m.x),
    "fill_": lambda m: m.x.fill_(2),
    "zero_": lambda m: m.x.zero_(),
    "copy_": lambda m: m.x.copy_(m.n),
    "copy_from": lambda m: m.n.copy_(m.x),
    "normal_": lambda m: m.x.normal_(),
    "set_item": lambda m: m.x.__setitem__(0, 2.0),
    "leaf_inside": in_mode(lambda m: m.w.add_(1), ON),
    "requires_grad_": lambda m: m.x.requires_grad_(),
    "requires_grad_again": lambda m: m.r.requires_grad_(),
    "requires_grad_off": lambda m: m.r.requires_grad_(False),
    "requires_grad_inside": in_mode(lambda m: m.x.requires_grad_(), ON),
    "backward": lambda m: gradient((m.r + 1).sum(), m.r),
    "backward_from": lambda m: gradient(m.w * 3, m.w, m.x),
    "backward_inside": in_mode(lambda m: gradient((m.computed * 2).sum(), m.w), ON),
    "made_inside": in_mode(lambda m: m.w * 2, ON),
    "enable_grad_inside": in_mode(lambda m: m.w * 2, ON, torch.enable_grad()),
    "normal_inside": in_mode(lambda m: m.w * 2, ON, OFF),
    "normal_in_no_grad": in_mode(lambda m: m.w * 2, torch.no_grad(), OFF),
    "accumulate": accumulated,
    "grad_inside": grad_inside,
    "step": stepped,
    "version": lambda m: m.x._version,
    "view_add_": lambda m: m.v.add_(1),
    "view_of_computed_add_": lambda m: m.s.add_(1),
    "view_add_no_grad": in_mode(lambda m: m.s.add_(1), torch.no_grad()),
    "base_written": base_written,
}

if __name__ == "__main__":
    with Golden("inference") as data:
        for name, f in CASES.items():
            data.case(name)
            try:
                y = f(Made())
            except RuntimeError as e:
                data.text(str(e))
                continue
            data.text("ok %d %d" % (y.is_inference(), y.requires_grad))
            data.numbers(values_of(y))
