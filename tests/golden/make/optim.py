"""Writes optim.txt, what PyTorch's optimizers make of three parameters in 100 steps, lbfgs.txt,
where LBFGS looks for a minimum (see scripts()), schedule.txt, the learning rates of its schedules,
and schedule_state.txt, their state_dicts.

    = adam_all.f32          the optimizer of this name in CASES, in float32
    : 1.25 ..               the parameters after 1, after 2, 10, 50 and 100 steps: a line each

    = StepLR                the schedule of this name in SCHEDULES
    : 0.1 0.4 0.9           both groups' learning rates and the second's momentum or beta, before
                            and after each of 60 steps: a line each

    = step                  a schedule of states()
    - base_lrs.0 0.1        an entry of its state_dict after three steps: its name, and a number, a
    - mode "min"            text in quotes, or none

The gradient is made of the parameter itself, by operations that round alike everywhere:
test_optim.c computes the same. Lion is its paper's pseudo-code. Muon's parameters are matrices.
"""

import warnings

import torch

from golden import Golden, name_of

SHAPES = [(3, 4), (5,), ()]
MATRICES = [(3, 4), (4, 3), (2, 6)]
SHOWN = [1, 2, 10, 50, 100]
CASES = [
    ("sgd", "SGD", {}),
    ("sgd_weight_decay", "SGD", dict(lr=0.05, weight_decay=0.1)),
    ("sgd_maximize", "SGD", dict(lr=0.01, weight_decay=0.02, maximize=True)),
    ("sgd_momentum", "SGD", dict(lr=0.02, momentum=0.9)),
    ("sgd_dampening", "SGD", dict(lr=0.02, momentum=0.8, dampening=0.3, weight_decay=0.01)),
    ("sgd_nesterov", "SGD", dict(lr=0.02, momentum=0.9, nesterov=True)),
    (
        "sgd_nesterov_decay",
        "SGD",
        dict(lr=0.01, momentum=0.7, nesterov=True, weight_decay=0.1, maximize=True),
    ),
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
    (
        "rmsprop_all",
        "RMSprop",
        dict(
            lr=0.002,
            alpha=0.4,
            momentum=0.5,
            centered=True,
            weight_decay=0.01,
            maximize=True,
            eps=1e-3,
        ),
    ),
    ("adagrad", "Adagrad", {}),
    (
        "adagrad_all",
        "Adagrad",
        dict(lr=0.1, lr_decay=0.02, weight_decay=0.1, initial_accumulator_value=0.3, eps=1e-3),
    ),
    ("adagrad_maximize", "Adagrad", dict(lr=0.05, maximize=True)),
    ("lion", "Lion", {}),
    ("lion_all", "Lion", dict(lr=0.01, betas=(0.8, 0.95), weight_decay=0.2)),
    ("lion_maximize", "Lion", dict(lr=0.01, maximize=True)),
    ("nadam", "NAdam", {}),
    ("nadam_rate", "NAdam", dict(lr=1e-3)),
    ("nadam_momentum_decay", "NAdam", dict(momentum_decay=6e-3)),
    ("nadam_weight_decay", "NAdam", dict(weight_decay=0.1)),
    ("nadam_both_decays", "NAdam", dict(weight_decay=0.1, momentum_decay=6e-3)),
    (
        "nadam_decoupled",
        "NAdam",
        dict(weight_decay=0.1, momentum_decay=6e-3, decoupled_weight_decay=True),
    ),
    ("nadam_maximize", "NAdam", dict(weight_decay=0.1, maximize=True)),
    (
        "nadam_all",
        "NAdam",
        dict(lr=0.02, betas=(0.3, 0.9), eps=1e-4, weight_decay=0.2, momentum_decay=0.3),
    ),
    ("radam", "RAdam", {}),
    ("radam_rate", "RAdam", dict(lr=2e-3)),
    ("radam_eps", "RAdam", dict(eps=1e-6)),
    ("radam_weight_decay", "RAdam", dict(weight_decay=0.1)),
    ("radam_decoupled", "RAdam", dict(weight_decay=0.1, decoupled_weight_decay=True)),
    ("radam_maximize", "RAdam", dict(weight_decay=0.1, maximize=True)),
    ("radam_all", "RAdam", dict(lr=0.02, betas=(0.8, 0.97), eps=1e-3, weight_decay=0.3)),
    ("radam_never_rectified", "RAdam", dict(lr=0.01, betas=(0.5, 0.6))),
    ("muon", "Muon", {}),
    ("muon_rate", "Muon", dict(lr=0.01)),
    ("muon_weight_decay", "Muon", dict(weight_decay=0.2)),
    ("muon_momentum", "Muon", dict(momentum=0.8)),
    ("muon_steps", "Muon", dict(ns_steps=6)),
    ("muon_coefficients", "Muon", dict(ns_coefficients=(3.4, -4.7, 2.0))),
    (
        "muon_all",
        "Muon",
        dict(lr=0.02, momentum=0.4, nesterov=False, eps=2.0, adjust_lr_fn="match_rms_adamw"),
    ),
]


class Lion(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0, maximize=False):
        super().__init__(
            params, dict(lr=lr, betas=betas, weight_decay=weight_decay, maximize=maximize)
        )

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


def parameters(dtype, shapes):
    made = []
    for k, shape in enumerate(shapes):
        n = torch.Size(shape).numel()
        values = [((7 * i + 5 * k) % 11 - 5) / 4 for i in range(n)]
        made.append(torch.tensor(values, dtype=dtype).reshape(shape).requires_grad_())
    return made


def set_gradients(ps, t):
    """The gradient is (p - target) / 2 + noise. The last parameter has none on every third step."""
    for k, p in enumerate(ps):
        n = p.numel()
        target = [((3 * i + k) % 7 - 3) / 8 for i in range(n)]
        noise = [((5 * i + 3 * t + k) % 13 - 6) / 16 for i in range(n)]
        target, noise = (
            torch.tensor(values, dtype=p.dtype).reshape(p.shape) for values in (target, noise)
        )
        p.grad = (p.detach() - target) * 0.5 + noise if k < 2 or t % 3 else None


def optimizer(kind, params, options):
    if kind == "Lion":
        return Lion(params, **options)
    if kind == "Muon":
        return torch.optim.Muon(params, **options)
    return getattr(torch.optim, kind)(params, foreach=False, **options)


def values(ps, digits):
    return [f"{v:.{digits}g}" for p in ps for v in p.detach().double().flatten().tolist()]


def trajectories():
    for name, kind, options in CASES:
        for dtype, digits in ((torch.float64, 17), (torch.float32, 9)):
            ps = parameters(dtype, MATRICES if kind == "Muon" else SHAPES)
            o = optimizer(kind, ps, options)
            data.case(name + "." + name_of(dtype))
            for t in range(1, 101):
                set_gradients(ps, t)
                o.step()
                if t in SHOWN:
                    data.numbers(values(ps, digits))


LBFGS_CASES = [
    ("lbfgs", {}),
    ("lbfgs_rate", dict(lr=0.01)),
    ("lbfgs_tolerance", dict(tolerance_grad=1e-6)),
    ("lbfgs_wolfe", dict(line_search_fn="strong_wolfe")),
    ("lbfgs_short", dict(lr=0.3, max_iter=7, history_size=3)),
    (
        "lbfgs_wolfe_short",
        dict(lr=5.0, max_iter=6, history_size=4, line_search_fn="strong_wolfe"),
    ),
    (
        "lbfgs_wolfe_few_tries",
        dict(lr=40.0, max_iter=9, max_eval=12, line_search_fn="strong_wolfe"),
    ),
    ("lbfgs_early", dict(lr=0.5, tolerance_grad=0.5, tolerance_change=1e-3)),
]


def valley(ps):
    """Returns Rosenbrock's function of all elements, with the factor 2 in place of 100."""
    x = torch.cat([p.flatten() for p in ps])
    ahead = x[1:] - x[:-1].square()
    return (ahead.square() * 2 + (x[:-1] - 1).square()).sum()


def valleys():
    """Writes the parameters, with the loss that the step returned, after steps of LBFGS."""
    for name, options in LBFGS_CASES:
        for dtype, digits in ((torch.float64, 17), (torch.float32, 9)):
            ps = parameters(dtype, SHAPES)
            o = torch.optim.LBFGS(ps, **options)
            data.case(name + "." + name_of(dtype))

            def closure():
                o.zero_grad()
                loss = valley(ps)
                loss.backward()
                return loss

            for t in range(1, 9):
                loss = o.step(closure).item()
                data.numbers(values(ps, digits) + [f"{loss:.{digits}g}"])


# Each of these has LBFGS's options, and the losses and the gradients of which the scripts are made.
SCRIPTS = [
    (dict(max_iter=4, max_eval=12), [0, 1, 2, 3, 4, -1, -2, -8], [1, -1, 2, -2, 4, -4, 8]),
    (dict(lr=10, max_iter=3, max_eval=11), [0, 0, 5, -5, -10, 40], [1, -1, 9, -9, 0.5, 2, -2]),
    (dict(lr=1e5, max_iter=2, max_eval=9), [0, -100, -200, -50, 100], [10, -10, 9, -9, 20, -1]),
    (
        dict(lr=8, max_iter=3, max_eval=9, tolerance_change=8),
        [0, 8, -8, -16, -24, -4],
        [8, -8, 16, -16, 4, 7],
    ),
    (dict(max_iter=5, max_eval=4, tolerance_grad=2), [0, -1, -2, -3, -4, 1], [4, -4, 3, 2, -2]),
    (dict(lr=3, max_iter=6, max_eval=20, history_size=2), [0, -2, -4, -6, -8, 3], [1, 2, 3, -3]),
    (dict(lr=1e-9, max_iter=1, max_eval=7, tolerance_change=0), [0, -1, 1], [1, -1, 2, -2]),
    (dict(lr=5e-10, max_iter=1, max_eval=7, tolerance_change=0), [0, -1, 1], [1, -1, 2, -2]),
]
PLAIN_SCRIPTS = [
    (dict(lr=0.5, max_iter=5, tolerance_change=1), [0, 1, 2, 3, 4], [1, -1, 2, -2, 4, 3]),
    (dict(max_iter=4, tolerance_grad=1, history_size=1), [0, 2, 4, 8], [1, -1, 2, -2, 3, 8]),
    (dict(lr=1e-10, max_iter=3, tolerance_change=0), [0, 1, 2], [-2, -1, -3, 1]),
    (dict(max_iter=4, max_eval=3, tolerance_change=0.25), [0, 1, 0.25], [1, -1, 0.5, 0.25, 2]),
]
# These scripts were found by hand, for limits of the line search: a point is exactly as near to an
# end as it may be, there is no step to make, the last point is the worst, or a step is exactly as
# long as the tolerance. A script without points has the loss -x, which has no minimum.
OWN_SCRIPTS = [
    (dict(lr=10, max_iter=1, max_eval=9), [(0, 1), (40, -9), (5, 1), (4, 1), (3, 1), (2, 1)]),
    (dict(max_iter=0), [(0, 1)]),
    (dict(max_iter=1, max_eval=1), [(0, 1), (-1, 1), (1, 2)]),
    (dict(max_iter=1, max_eval=3), [(0, 1), (-1, 1), (-2, 1), (5, 1)]),
    (dict(lr=0.5, max_iter=3, tolerance_change=0.5), [(0, 1), (-4, 4), (-9, 8)]),
    (dict(max_iter=2, max_eval=4), []),
    (dict(max_iter=3, max_eval=9), []),
]


def draw(state, items):
    """Draws one of the items. The generator is written out, so each Python draws the same."""
    state[0] = (state[0] * 6364136223846793005 + 1442695040888963407) % 2**64
    return items[(state[0] >> 33) % len(items)]


def follow_script(options, points):
    """Returns where LBFGS evaluates the loss in two steps, and where it ends."""
    x = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    o = torch.optim.LBFGS([x], **options)
    places = []

    def closure():
        loss, slope = points[len(places) % len(points)] if points else (-x.item(), -1)
        places.append(x.item())
        x.grad = torch.tensor([slope], dtype=torch.float64)
        return torch.tensor(float(loss), dtype=torch.float64)

    for _ in range(2):
        o.step(closure)
    return [*places, x.item()]


def write_script(options, points, wolfe):
    places = follow_script(dict(options, line_search_fn="strong_wolfe" if wolfe else None), points)
    if any(p != p or abs(p) > 1e100 for p in places):
        return
    words = {"lr": 1, "max_iter": 20, "max_eval": 0, "history_size": 100}
    words |= {"tolerance_grad": 1e-7, "tolerance_change": 1e-9} | options
    data.case("script", int(wolfe), *words.values())
    data.numbers(v for point in points for v in point)
    data.numbers(f"{p:.17g}" for p in places)


def scripts():
    """Writes the steps of LBFGS if call k of the closure returns loss and slope number k, for
    any x. The scripts make a line search take each of its branches, also with equal numbers.

        = script 1 10 4 12 100 1e-7 1e-9    strong_wolfe, lr, max_iter, max_eval or 0, history_size,
                                            tolerance_grad and tolerance_change
        : 0 1 40 -9                         the loss and the slope, call by call, over and over
        : 0 0.1 -1.5                        x at each call in two steps, and at the end
    """
    state = [1]
    for wolfe, cases, n in ((True, SCRIPTS, 25), (False, PLAIN_SCRIPTS, 10)):
        for options, losses, slopes in cases:
            for _ in range(n):
                points = [(draw(state, losses), draw(state, slopes)) for _ in range(9)]
                points[0] = (0, slopes[0])
                write_script(options, points, wolfe)
    for options, points in OWN_SCRIPTS:
        write_script(options, points, True)
        write_script(options, points, False)


S = torch.optim.lr_scheduler
SCHEDULES = [
    ("StepLR", "StepLR", dict(step_size=7, gamma=0.3)),
    ("StepLR_each", "StepLR", dict(step_size=1)),
    ("MultiStepLR", "MultiStepLR", dict(milestones=[2, 10, 10, 30], gamma=0.5)),
    ("MultiStepLR_first", "MultiStepLR", dict(milestones=[0, 5])),
    ("ExponentialLR", "ExponentialLR", dict(gamma=0.93)),
    ("ExponentialLR_growing", "ExponentialLR", dict(gamma=1.05)),
    ("LinearLR", "LinearLR", {}),
    ("LinearLR_long", "LinearLR", dict(start_factor=0.1, end_factor=0.7, total_iters=40)),
    ("LinearLR_to_nothing", "LinearLR", dict(start_factor=1.0, end_factor=0.0, total_iters=25)),
    ("CosineAnnealingLR", "CosineAnnealingLR", dict(T_max=50)),
    ("CosineAnnealingLR_short", "CosineAnnealingLR", dict(T_max=13, eta_min=0.02)),
    ("CosineAnnealingLR_one", "CosineAnnealingLR", dict(T_max=1, eta_min=0.01)),
    ("OneCycleLR", "OneCycleLR", dict(max_lr=0.5, total_steps=60)),
    (
        "OneCycleLR_linear",
        "OneCycleLR",
        dict(
            max_lr=0.5,
            total_steps=60,
            anneal_strategy="linear",
            pct_start=0.45,
            div_factor=10,
            final_div_factor=100,
        ),
    ),
    (
        "OneCycleLR_three",
        "OneCycleLR",
        dict(max_lr=0.5, total_steps=60, three_phase=True, base_momentum=0.7, max_momentum=0.99),
    ),
    (
        "OneCycleLR_no_momentum",
        "OneCycleLR",
        dict(
            max_lr=0.5,
            total_steps=60,
            cycle_momentum=False,
            three_phase=True,
            anneal_strategy="linear",
        ),
    ),
]
SCHEDULES += [
    ("ConstantLR", "ConstantLR", {}),
    ("ConstantLR_long", "ConstantLR", dict(factor=0.7, total_iters=31)),
    ("ConstantLR_one", "ConstantLR", dict(factor=0.3, total_iters=1)),
    ("PolynomialLR", "PolynomialLR", {}),
    ("PolynomialLR_power", "PolynomialLR", dict(total_iters=40, power=1.7)),
    ("PolynomialLR_root", "PolynomialLR", dict(total_iters=25, power=0.5)),
    ("MultiplicativeLR", "MultiplicativeLR", dict(lr_lambda=lambda t: 1 - 1 / (3 + t))),
    (
        "MultiplicativeLR_each",
        "MultiplicativeLR",
        dict(lr_lambda=[lambda t: 1 - 1 / (3 + t), lambda t: 1 / (1 + t)]),
    ),
    (
        "LambdaLR_each",
        "LambdaLR",
        dict(lr_lambda=[lambda t: 1 - 1 / (3 + t), lambda t: 1 / (1 + t)]),
    ),
    ("WarmRestarts", "CosineAnnealingWarmRestarts", dict(T_0=7)),
    ("WarmRestarts_longer", "CosineAnnealingWarmRestarts", dict(T_0=5, T_mult=2, eta_min=0.01)),
    ("WarmRestarts_thrice", "CosineAnnealingWarmRestarts", dict(T_0=1, T_mult=3)),
    ("CyclicLR", "CyclicLR", dict(base_lr=0.05, max_lr=0.3, step_size_up=7)),
    (
        "CyclicLR_2",
        "CyclicLR",
        dict(
            base_lr=[0.05, 0.02],
            max_lr=[0.3, 0.1],
            step_size_up=5,
            step_size_down=9,
            mode="triangular2",
            base_momentum=[0.5, 0.6],
            max_momentum=[0.8, 0.99],
        ),
    ),
    (
        "CyclicLR_range",
        "CyclicLR",
        dict(base_lr=0.05, max_lr=0.3, step_size_up=4, mode="exp_range", gamma=0.97),
    ),
    (
        "CyclicLR_scaled",
        "CyclicLR",
        dict(
            base_lr=0.05,
            max_lr=0.3,
            step_size_up=4,
            scale_fn=lambda x: 1 / (1 + x),
            scale_mode="iterations",
            cycle_momentum=False,
        ),
    ),
    (
        "OneCycleLR_each",
        "OneCycleLR",
        dict(
            max_lr=[0.5, 0.2],
            total_steps=60,
            base_momentum=[0.7, 0.6],
            max_momentum=[0.9, 0.95],
        ),
    ),
]
PLATEAUS = [
    ("ReduceLROnPlateau", dict(patience=3)),
    ("ReduceLROnPlateau_cooldown", dict(patience=1, cooldown=4, factor=0.5, min_lr=0.15)),
    ("ReduceLROnPlateau_max", dict(mode="max", patience=2, threshold=0.01, factor=0.7)),
    (
        "ReduceLROnPlateau_max_abs",
        dict(mode="max", patience=4, threshold_mode="abs", threshold=0.3),
    ),
    ("ReduceLROnPlateau_abs", dict(patience=2, threshold_mode="abs", threshold=0.02, eps=0.01)),
    (
        "ReduceLROnPlateau_each",
        dict(patience=1, factor=0.5, min_lr=[0.03, 0.2]),
    ),
    ("ReduceLROnPlateau_at_once", dict(patience=0, threshold=0.0, factor=0.9)),
]


def two_groups(adam=False):
    ws = [torch.zeros(1, requires_grad=True) for _ in range(2)]
    groups = [{"params": ws[:1]}, {"params": ws[1:], "lr": 0.4}]
    return (
        torch.optim.Adam(groups, lr=0.1) if adam else torch.optim.SGD(groups, lr=0.1, momentum=0.9)
    )


def state(o):
    first, second = o.param_groups
    turned = second["betas"][0] if "betas" in second else second["momentum"]
    return [f"{v:.17g}" for v in (first["lr"], second["lr"], turned)]


def metric(t):
    """Returns the metric of step t, which test_schedule.c computes in the same way."""
    if t < 20:
        return (100 - t) / 64
    if t < 45:
        return (80 + (t * 7 % 5) / 4096) / 64
    return (79 - t / 2) / 64


def follow(name, o, schedule, step=lambda s, t: s.step()):
    data.case(name)
    data.numbers(state(o))
    for t in range(1, 61):
        o.step()
        step(schedule, t)
        data.numbers(state(o))


def schedules():
    for name, kind, options in SCHEDULES:
        make = getattr(S, kind)
        o = two_groups()
        follow(name, o, make(o, **options))
        cycles = kind in ("OneCycleLR", "CyclicLR")
        o = two_groups(adam=cycles)
        if cycles:
            follow(name + ".adam", o, make(o, **options))
        else:
            follow(name + ".closed", o, make(o, **options), lambda s, t: s.step(t * 3 % 61))
    for name, warmup, total, start, low in (
        ("warmup_cosine", 10, 60, 0.1, 0.0),
        ("warmup_cosine_one", 1, 40, 1e-3, 0.02),
    ):
        o = two_groups()
        parts = [
            S.LinearLR(o, start_factor=start, total_iters=warmup),
            S.CosineAnnealingLR(o, T_max=total - warmup, eta_min=low),
        ]
        follow(name, o, S.SequentialLR(o, parts, [warmup]))
    o = two_groups()
    parts = [
        S.ExponentialLR(o, 0.9),
        S.StepLR(o, 4, 0.5),
        S.MultiStepLR(o, [0, 3]),
        S.LambdaLR(o, lambda t: 1 / (1 + t)),
    ]
    follow("SequentialLR", o, S.SequentialLR(o, parts, [5, 17, 30]))
    o = two_groups()
    parts = [S.ConstantLR(o, 0.1, 4), S.ExponentialLR(o, 0.9)]
    follow("ChainedScheduler", o, S.ChainedScheduler(parts))
    o = two_groups()
    parts = [
        S.CosineAnnealingWarmRestarts(o, 4, 2),
        S.PolynomialLR(o, 12, 2.0),
        S.ConstantLR(o, 0.2, 3),
        S.CosineAnnealingWarmRestarts(o, 3),
    ]
    follow("SequentialLR_new", o, S.SequentialLR(o, parts, [9, 20, 33]))
    o = two_groups()
    parts = [S.LinearLR(o, 0.1, total_iters=5), S.CosineAnnealingWarmRestarts(o, 6)]
    chained = [S.SequentialLR(o, parts, [5]), S.StepLR(o, 20, 0.5)]
    follow("ChainedScheduler_of_a_sequence", o, S.ChainedScheduler(chained))
    for name, options in PLATEAUS:
        o = two_groups()
        follow(name, o, S.ReduceLROnPlateau(o, **options), lambda s, t: s.step(metric(t)))


def flat(value, name=""):
    """Yields the entries for which a state_dict stands, with their names."""
    if not isinstance(value, (dict, list, tuple)):
        yield name, value
        return
    for key, v in value.items() if isinstance(value, dict) else enumerate(value):
        yield from flat(v, f"{name}.{key}" if name else str(key))


def word_of(value):
    if value is None or isinstance(value, str):
        return f'"{value}"' if value else "none"
    return f"{float(value):.17g}"


def inverse(t):
    return 1 / (1 + t)


def states():
    """Writes the state_dicts of schedules after three steps; test_schedule_state.c makes the same
    schedules.
    """
    cycle = dict(max_lr=0.5, total_steps=7)
    waves = dict(base_lr=0.05, max_lr=0.3, step_size_up=2)
    for name, make in (
        ("step", lambda o: S.StepLR(o, 2, 0.5)),
        ("multi_step", lambda o: S.MultiStepLR(o, [2, 6, 6, 5], 0.5)),
        ("exponential", lambda o: S.ExponentialLR(o, 0.5)),
        ("linear", lambda o: S.LinearLR(o, 0.25, 0.75, 4)),
        ("cosine", lambda o: S.CosineAnnealingLR(o, 5, 0.01)),
        ("lambda", lambda o: S.LambdaLR(o, inverse)),
        ("multiplicative", lambda o: S.MultiplicativeLR(o, inverse)),
        ("constant", lambda o: S.ConstantLR(o, 0.25, 2)),
        ("polynomial", lambda o: S.PolynomialLR(o, 6, 2.0)),
        ("restarts", lambda o: S.CosineAnnealingWarmRestarts(o, 2, 3, 0.01)),
        ("one_cycle", lambda o: S.OneCycleLR(o, **cycle)),
        ("one_cycle_adam", lambda o: S.OneCycleLR(o, **cycle)),
        (
            "one_cycle_linear",
            lambda o: S.OneCycleLR(
                o, **cycle, anneal_strategy="linear", three_phase=True, cycle_momentum=False
            ),
        ),
        ("cyclic", lambda o: S.CyclicLR(o, **waves)),
        ("cyclic_adam", lambda o: S.CyclicLR(o, **waves, mode="triangular2", step_size_down=3)),
        (
            "cyclic_range",
            lambda o: S.CyclicLR(o, **waves, mode="exp_range", gamma=0.5, cycle_momentum=False),
        ),
        ("cyclic_scaled", lambda o: S.CyclicLR(o, **waves, scale_fn=inverse)),
        (
            "cyclic_scaled_by_steps",
            lambda o: S.CyclicLR(o, **waves, scale_fn=inverse, scale_mode="iterations"),
        ),
        ("plateau", lambda o: S.ReduceLROnPlateau(o, patience=1, cooldown=2, min_lr=0.125)),
        (
            "plateau_max",
            lambda o: S.ReduceLROnPlateau(
                o, mode="max", threshold_mode="abs", threshold=0.5, patience=4, min_lr=[0.1, 0.2]
            ),
        ),
        (
            "sequential",
            lambda o: S.SequentialLR(o, [S.LinearLR(o), S.ExponentialLR(o, 0.5)], [2]),
        ),
        ("chained", lambda o: S.ChainedScheduler([S.StepLR(o, 2, 0.5), S.ExponentialLR(o, 0.5)])),
    ):
        o = two_groups(adam="adam" in name)
        schedule = make(o)
        for _ in range(3):
            o.step()
            schedule.step(*([1.0] if "plateau" in name else []))
        data.case(name)
        for key, value in flat(schedule.state_dict()):
            data.line("-", key, word_of(value))


warnings.simplefilter("ignore")
with Golden("optim") as data:
    trajectories()
    valleys()
with Golden("lbfgs") as data:
    scripts()
with Golden("schedule") as data:
    schedules()
with Golden("schedule_state") as data:
    states()
