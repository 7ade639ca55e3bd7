"""Writes schedule_pairs.txt: the learning rates of an optimizer that has two schedules.

    = both ExponentialLR CyclicLR   a way of use, and the schedules in the order of their making
    : 0.1 0.9 ..                    the learning rate and the momentum of a group, before and after
                                    each of 6 steps

The ways of use are `both`, where a step is one of each schedule; `later`, where the first schedule
makes four steps before the second is made; `sequence`, a SequentialLR of both whose milestone is 3;
and `closed`, where a step is first.step(epoch) with the next of EPOCHS. `closed` needs a schedule
that has a closed form.
test_schedule_pairs.c makes the same schedules.
"""

import warnings

import torch

from golden import Golden

S = torch.optim.lr_scheduler
EPOCHS = [3, 1, 4, 0, 9, 2]
KINDS = {
    "StepLR": lambda o: S.StepLR(o, 3, 0.5),
    "MultiStepLR": lambda o: S.MultiStepLR(o, [2, 4], 0.5),
    "ExponentialLR": lambda o: S.ExponentialLR(o, 0.9),
    "LinearLR": lambda o: S.LinearLR(o, 0.25, total_iters=6),
    "CosineAnnealingLR": lambda o: S.CosineAnnealingLR(o, 4, 0.01),
    "LambdaLR": lambda o: S.LambdaLR(o, lambda t: 1 / (1 + t)),
    "OneCycleLR": lambda o: S.OneCycleLR(o, 0.5, total_steps=20),
    "ReduceLROnPlateau": lambda o: S.ReduceLROnPlateau(o, patience=1),
    "ConstantLR": lambda o: S.ConstantLR(o, 0.5, 4),
    "PolynomialLR": lambda o: S.PolynomialLR(o, 8, 2),
    "MultiplicativeLR": lambda o: S.MultiplicativeLR(o, lambda t: 1 - 1 / (3 + t)),
    "CyclicLR": lambda o: S.CyclicLR(o, 0.01, 0.3, step_size_up=3),
    "CosineAnnealingWarmRestarts": lambda o: S.CosineAnnealingWarmRestarts(o, 3, 2),
    "SequentialLR": lambda o: S.SequentialLR(
        o, [S.LinearLR(o, 0.5, total_iters=2), S.ExponentialLR(o, 0.8)], [3]
    ),
    "ChainedScheduler": lambda o: S.ChainedScheduler(
        [S.StepLR(o, 2, 0.5), S.ExponentialLR(o, 0.8)]
    ),
}
# SequentialLR can't step these.
NOT_IN_SEQUENCES = ("ReduceLROnPlateau", "SequentialLR", "ChainedScheduler")


def step(schedule):
    schedule.step(*([1.0] if isinstance(schedule, S.ReduceLROnPlateau) else []))


def step_of(way, first, second):
    """Returns the function that makes step t, or None if the schedules can't be used this way."""
    if way == "sequence":
        if any(type(s).__name__ in NOT_IN_SEQUENCES for s in (first, second)):
            return None
        both = S.SequentialLR(first.optimizer, [first, second], [3])
        return lambda t: both.step()
    if way == "closed":
        closed = hasattr(first, "_get_closed_form_lr")
        return (lambda t: first.step(EPOCHS[t])) if closed else None
    return lambda t: (step(first), step(second))


def pair(data, way, a, b):
    o = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1, momentum=0.9)
    first = KINDS[a](o)
    if way == "later":
        for _ in range(4):
            step(first)
    make_step = step_of(way, first, KINDS[b](o))
    if not make_step:
        return
    numbers = []
    for t in range(7):
        if t:
            make_step(t - 1)
        numbers += [f"{o.param_groups[0][key]:.14g}" for key in ("lr", "momentum")]
    data.case(way, a, b)
    data.numbers(numbers)


warnings.simplefilter("ignore")
with Golden("schedule_pairs") as out:
    for use in ("both", "later", "sequence", "closed"):
        for one in KINDS:
            for other in KINDS:
                pair(out, use, one, other)
