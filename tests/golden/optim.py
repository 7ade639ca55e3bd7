"""Writes optim.inc, what PyTorch's optimizers make of three parameters in 100 steps, and
schedule.inc, the learning rates of its schedules.

The gradient is made of the parameter itself, by operations that round alike
everywhere: test_optim.c computes the same. Lion is its paper's pseudo-code.
"""
import warnings

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


def write(name, comment, content):
    with open(__file__.replace("optim.py", name), "w") as out:
        out.write(f"/* Made by optim.py: {comment} */\n")
        content(out)


S = torch.optim.lr_scheduler
SCHEDULES = [
    ("StepLR", dict(step_size=7, gamma=0.3)), ("StepLR", dict(step_size=1)),
    ("MultiStepLR", dict(milestones=[2, 10, 10, 30], gamma=0.5)), ("MultiStepLR", dict(milestones=[0, 5])),
    ("ExponentialLR", dict(gamma=0.93)), ("ExponentialLR", dict(gamma=1.05)),
    ("LinearLR", {}), ("LinearLR", dict(start_factor=0.1, end_factor=0.7, total_iters=40)),
    ("LinearLR", dict(start_factor=1.0, end_factor=0.0, total_iters=25)),
    ("CosineAnnealingLR", dict(T_max=50)), ("CosineAnnealingLR", dict(T_max=13, eta_min=0.02)),
    ("CosineAnnealingLR", dict(T_max=1, eta_min=0.01)),
    ("OneCycleLR", dict(max_lr=0.5, total_steps=60)),
    ("OneCycleLR", dict(max_lr=0.5, total_steps=60, anneal_strategy="linear", pct_start=0.45, div_factor=10, final_div_factor=100)),
    ("OneCycleLR", dict(max_lr=0.5, total_steps=60, three_phase=True, base_momentum=0.7, max_momentum=0.99)),
    ("OneCycleLR", dict(max_lr=0.5, total_steps=60, cycle_momentum=False, three_phase=True, anneal_strategy="linear")),
]
C_NAMES = {"StepLR": "step_lr", "MultiStepLR": "multi_step_lr", "ExponentialLR": "exponential_lr", "LinearLR": "linear_lr",
           "CosineAnnealingLR": "cosine_annealing_lr", "OneCycleLR": "one_cycle_lr", "ReduceLROnPlateau": "reduce_lr_on_plateau"}


def c_option(k, v):
    if k == "milestones":
        return ".milestones = RG_DIMS(" + ", ".join(map(str, v)) + ")"
    if k == "anneal_strategy":
        return ".anneal_linear = true"
    if k == "mode":
        return f".mode_max = {str(v == 'max').lower()}"
    if k == "threshold_mode":
        return f".threshold_abs = {str(v == 'abs').lower()}"
    return f".{k} = {c_value(v)}"


def c_schedule(kind, options):
    return f"rg_optim_{C_NAMES[kind]}(" + ", ".join(["o"] + [c_option(k, v) for k, v in options.items()]) + ")"


def two_groups(adam=False):
    ws = [torch.zeros(1, requires_grad=True) for _ in range(2)]
    groups = [{"params": ws[:1]}, {"params": ws[1:], "lr": 0.4}]
    return torch.optim.Adam(groups, lr=0.1) if adam else torch.optim.SGD(groups, lr=0.1, momentum=0.9)


def state(o):
    g = o.param_groups
    turned = g[1]["betas"][0] if "betas" in g[1] else g[1]["momentum"]
    return "".join(f"{v:.17g}, " for v in (g[0]["lr"], g[1]["lr"], turned))


def metric(t):
    """falls, stays, rises; test_schedule.c computes the same"""
    return (100 - t if t < 20 else 80 + (t * 7 % 5) / 4096 if t < 45 else 79 - t / 2) / 64


def schedules(out):
    def follow(macro, name, c, made, steps, step):
        o, s = made
        out.write(f"{macro}({name}, {c},\n    {state(o)}")
        for t in range(1, steps + 1):
            o.step()
            step(s, t)
            out.write(("\n    " if t % 4 == 0 else "") + state(o))
        out.write("0)\n")

    for kind, options in SCHEDULES:
        for adam in (False, True) if kind == "OneCycleLR" else (False,):
            o = two_groups(adam)
            made = o, getattr(S, kind)(o, **options)
            follow("ADAM" if adam else "SGD", kind, c_schedule(kind, options), made, 60, lambda s, t: s.step())
        if kind != "OneCycleLR":
            o = two_groups()
            made = o, getattr(S, kind)(o, **options)
            follow("CLOSED", kind, c_schedule(kind, options), made, 60, lambda s, t: s.step(t * 3 % 61))
    for warmup, total, start, low in ((10, 60, 0.1, 0.0), (1, 40, 1e-3, 0.02)):
        o = two_groups()
        parts = [S.LinearLR(o, start_factor=start, total_iters=warmup), S.CosineAnnealingLR(o, T_max=total - warmup, eta_min=low)]
        made = o, S.SequentialLR(o, parts, [warmup])
        follow("SGD", "warmup_cosine", f"rg_optim_warmup_cosine_lr(o, {warmup}, {total}, {start}, {low})", made, 60, lambda s, t: s.step())
    o = two_groups()
    parts = [S.ExponentialLR(o, 0.9), S.StepLR(o, 4, 0.5), S.MultiStepLR(o, [0, 3]), S.LambdaLR(o, lambda t: 1 / (1 + t))]
    made = o, S.SequentialLR(o, parts, [5, 17, 30])
    c = ("rg_optim_sequential_lr(o, .milestones = RG_DIMS(5, 17, 30), .schedules = { rg_optim_exponential_lr(o, .gamma = 0.9), "
         "rg_optim_step_lr(o, .step_size = 4, .gamma = 0.5), rg_optim_multi_step_lr(o, .milestones = RG_DIMS(0, 3)), "
         "rg_optim_lambda_lr(o, .lr_lambda = inverse) })")
    follow("SGD", "SequentialLR", c, made, 60, lambda s, t: s.step())
    for options in (dict(patience=3), dict(patience=1, cooldown=4, factor=0.5, min_lr=0.15),
                    dict(mode="max", patience=2, threshold=0.01, factor=0.7), dict(mode="max", patience=4, threshold_mode="abs", threshold=0.3),
                    dict(patience=2, threshold_mode="abs", threshold=0.02, eps=0.01), dict(patience=0, threshold=0.0, factor=0.9)):
        o = two_groups()
        made = o, S.ReduceLROnPlateau(o, **options)
        follow("PLATEAU", "ReduceLROnPlateau", c_schedule("ReduceLROnPlateau", options), made, 60, lambda s, t: s.step(metric(t)))


warnings.simplefilter("ignore")
write("optim.inc", "of each optimizer, the parameters after 1, 2, 10, 50 and 100 steps.", trajectories)
write("schedule.inc", "two groups' learning rates and the second's momentum or beta, before and after each of 60 steps.", schedules)
