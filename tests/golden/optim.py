"""Writes optim.inc: what PyTorch's optimizers make of three parameters in 100 steps.

The gradient is made of the parameter itself, by operations that round alike
everywhere: test_optim.c computes the same. Lion is its paper's pseudo-code.
"""
import torch

SHAPES = [(3, 4), (5,), ()]
SHOWN = [1, 2, 10, 50, 100]
CASES = [
    ("sgd", "SGD", {}),
    ("sgd_weight_decay", "SGD", dict(lr=0.05, weight_decay=0.1)),
    ("sgd_maximize", "SGD", dict(lr=0.01, weight_decay=0.02, maximize=True)),
    ("sgd_momentum", "SGD", dict(lr=0.02, momentum=0.9)),
    ("sgd_dampening", "SGD", dict(lr=0.02, momentum=0.8, dampening=0.3, weight_decay=0.01)),
    ("sgd_nesterov", "SGD", dict(lr=0.02, momentum=0.9, nesterov=True)),
    ("sgd_nesterov_decay", "SGD", dict(lr=0.01, momentum=0.7, nesterov=True, weight_decay=0.1, maximize=True)),
    ("adam", "Adam", {}),
    ("adam_all", "Adam", dict(lr=0.02, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.1)),
    ("adam_small_beta", "Adam", dict(lr=0.02, betas=(0.3, 0.4))),
    ("adam_amsgrad", "Adam", dict(lr=0.03, amsgrad=True, betas=(0.9, 0.9))),
    ("adam_maximize", "Adam", dict(lr=0.01, maximize=True, weight_decay=0.05, amsgrad=True)),
    ("adamw", "AdamW", {}),
    ("adamw_all", "AdamW", dict(lr=0.02, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.3)),
    ("adamw_amsgrad", "AdamW", dict(lr=0.03, amsgrad=True, betas=(0.9, 0.9), maximize=True)),
    ("adamw_no_decay", "AdamW", dict(lr=0.01, weight_decay=0.0)),
    ("rmsprop", "RMSprop", {}),
    ("rmsprop_alpha", "RMSprop", dict(lr=0.005, alpha=0.9, eps=1e-3, weight_decay=0.1)),
    ("rmsprop_momentum", "RMSprop", dict(lr=0.002, momentum=0.9)),
    ("rmsprop_centered", "RMSprop", dict(lr=0.005, centered=True, eps=1e-4)),
    ("rmsprop_all", "RMSprop", dict(lr=0.002, alpha=0.4, momentum=0.5, centered=True, weight_decay=0.01, maximize=True, eps=1e-3)),
    ("adagrad", "Adagrad", {}),
    ("adagrad_all", "Adagrad", dict(lr=0.1, lr_decay=0.02, weight_decay=0.1, initial_accumulator_value=0.3, eps=1e-3)),
    ("adagrad_maximize", "Adagrad", dict(lr=0.05, maximize=True)),
    ("lion", "Lion", {}),
    ("lion_all", "Lion", dict(lr=0.01, betas=(0.8, 0.95), weight_decay=0.2)),
    ("lion_maximize", "Lion", dict(lr=0.01, maximize=True)),
]


class Lion(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0, maximize=False):
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay, maximize=maximize))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            (b1, b2), lr, wd = group["betas"], group["lr"], group["weight_decay"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                g = -p.grad if group["maximize"] else p.grad
                m = self.state[p].get("exp_avg", torch.zeros_like(p))
                c = b1 * m + (1 - b1) * g
                p.copy_(p - lr * (c.sign() + wd * p))
                self.state[p]["exp_avg"] = b2 * m + (1 - b2) * g


def parameters(dtype):
    made = []
    for k, shape in enumerate(SHAPES):
        n = torch.Size(shape).numel()
        values = [((7 * i + 5 * k) % 11 - 5) / 4 for i in range(n)]
        made.append(torch.tensor(values, dtype=dtype).reshape(shape).requires_grad_())
    return made


def set_gradients(ps, t):
    """(p - target) / 2 + noise; the last one has none on every third step"""
    for k, p in enumerate(ps):
        n = p.numel()
        target = torch.tensor([((3 * i + k) % 7 - 3) / 8 for i in range(n)], dtype=p.dtype).reshape(p.shape)
        noise = torch.tensor([((5 * i + 3 * t + k) % 13 - 6) / 16 for i in range(n)], dtype=p.dtype).reshape(p.shape)
        p.grad = (p.detach() - target) * 0.5 + noise if k < 2 or t % 3 else None


def c_value(v):
    if isinstance(v, tuple):
        return "{ " + ", ".join(map(repr, v)) + " }"
    return str(v).lower() if isinstance(v, bool) else repr(v)


def optimizer(kind, params, options):
    if kind == "Lion":
        return Lion(params, **options)
    return getattr(torch.optim, kind)(params, foreach=False, **options)


def values(ps, digits):
    return ", ".join(f"{v:.{digits}g}" for p in ps for v in p.detach().double().flatten().tolist())


def trajectories(out):
    for name, kind, options in CASES:
        made = f"rg_optim_{kind.lower()}(" + ", ".join(["p"] + [f".{k} = {c_value(v)}" for k, v in options.items()]) + ")"
        for dtype, digits in ((torch.float64, 17), (torch.float32, 9)):
            ps = parameters(dtype)
            o = optimizer(kind, ps, options)
            out.write(f"CASE({name}_{str(dtype)[-2:]}, {made}, RG_{str(dtype)[6:].upper()},\n")
            for t in range(1, 101):
                set_gradients(ps, t)
                o.step()
                if t in SHOWN:
                    out.write("    " + values(ps, digits) + (",\n" if t < 100 else ")\n"))


with open(__file__.replace("optim.py", "optim.inc"), "w") as out:
    out.write("/* Made by optim.py: of each optimizer, the parameters after 1, 2, 10, 50 and 100 steps. */\n")
    trajectories(out)
