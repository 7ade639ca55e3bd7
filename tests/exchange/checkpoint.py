#!/usr/bin/env python3
"""checkpoint.py PROGRAM: trainings go from PyTorch to regard and back.

PyTorch trains three steps and saves {"model", "optimizer", "scheduler"}. regard loads this file,
trains on and saves such a file. PyTorch loads that with its own load_state_dict and trains on. The
result must be that of a training in PyTorch alone. All optimizers and schedules that both have are
tried, with two groups of parameters. The schedule's state_dict has PyTorch's keys and values.
"""
import os
import subprocess
import sys
import tempfile

import torch
from torch import nn
from torch.optim import lr_scheduler as lr

PROGRAM = os.path.abspath(sys.argv[1])
FIRST, THERE, LAST = 3, 4, 5


def require(truth, *what):
    if not truth:
        print("tests/exchange/checkpoint.py:", *what)
        sys.exit(1)


OPTIMIZERS = {
    "SGD": lambda g: torch.optim.SGD(g, lr=0.1),
    "SGD with momentum": lambda g: torch.optim.SGD(g, lr=0.1, momentum=0.9, nesterov=True),
    "Adam": lambda g: torch.optim.Adam(g, lr=0.02),
    "Adam with amsgrad": lambda g: torch.optim.Adam(g, lr=0.02, amsgrad=True, betas=(0.8, 0.95)),
    "Adam decoupled": lambda g: torch.optim.Adam(g, lr=0.02, decoupled_weight_decay=True),
    "AdamW": lambda g: torch.optim.AdamW(g, lr=0.02, maximize=True),
    "RMSprop": lambda g: torch.optim.RMSprop(g, lr=0.02, momentum=0.5, centered=True),
    "NAdam": lambda g: torch.optim.NAdam(g, lr=0.02, momentum_decay=0.01),
    "RAdam": lambda g: torch.optim.RAdam(g, lr=0.02, betas=(0.8, 0.9)),
    "RAdam decoupled": lambda g: torch.optim.RAdam(g, lr=0.02, decoupled_weight_decay=True),
    "Muon": lambda g: torch.optim.Muon(g, lr=0.02, ns_steps=4, momentum=0.9),
    "LBFGS": lambda g: torch.optim.LBFGS(g, lr=0.5, max_iter=3, history_size=5),
    "Adagrad": lambda g: torch.optim.Adagrad(g, lr=0.1, lr_decay=0.1),
}
SCHEDULES = {
    "none": None,
    "StepLR": lambda o: lr.StepLR(o, 2, 0.5),
    "MultiStepLR": lambda o: lr.MultiStepLR(o, [4, 8, 8], 0.3),
    "ExponentialLR": lambda o: lr.ExponentialLR(o, 0.8),
    "LinearLR": lambda o: lr.LinearLR(o, 0.2, 0.9, 9),
    "CosineAnnealingLR": lambda o: lr.CosineAnnealingLR(o, 10, 1e-3),
    "LambdaLR": lambda o: lr.LambdaLR(o, lambda epoch: 1 / (1 + epoch)),
    "OneCycleLR": lambda o: lr.OneCycleLR(o, 0.3, total_steps=17, pct_start=0.4),
    "OneCycleLR3": lambda o: lr.OneCycleLR(o, 0.3, total_steps=17, three_phase=True,
                                           cycle_momentum=False),
    "ReduceLROnPlateau": lambda o: lr.ReduceLROnPlateau(o, factor=0.5, patience=1, cooldown=1),
    "ConstantLR": lambda o: lr.ConstantLR(o, 0.4, 5),
    "PolynomialLR": lambda o: lr.PolynomialLR(o, 20, 1.5),
    "MultiplicativeLR": lambda o: lr.MultiplicativeLR(o, lambda epoch: (1 + epoch) / (2 + epoch)),
    "WarmRestarts": lambda o: lr.CosineAnnealingWarmRestarts(o, 2, 2, 1e-3),
    "CyclicLR": lambda o: lr.CyclicLR(o, 0.01, 0.1, 3, 4, "exp_range", 0.9, cycle_momentum=False),
    "ChainedScheduler": lambda o: lr.ChainedScheduler(
        [lr.ConstantLR(o, 0.5, 5), lr.ExponentialLR(o, 0.9)]),
    "SequentialLR": lambda o: lr.SequentialLR(
        o, [lr.LinearLR(o, 0.1, 1, 4), lr.ExponentialLR(o, 0.9)], [5]),
}
torch.manual_seed(0)
X, Y = torch.randn(8, 3), torch.randn(8, 2)


class Training:
    def __init__(self, optimizer, schedule, seed):
        torch.manual_seed(seed)
        self.model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
        p = list(self.model.parameters())
        groups = [{"params": [p[0], p[2]]},
                  {"params": [p[1], p[3]], "lr": 0.01, "weight_decay": 0.1}]
        if optimizer == "Muon":
            groups = [{"params": [p[0]]}, {"params": [p[2]], "lr": 0.01, "weight_decay": 0.2}]
        if optimizer == "LBFGS":
            groups = p
        self.optimizer = OPTIMIZERS[optimizer](groups)
        make = SCHEDULES[schedule]
        self.schedule = make(self.optimizer) if make else None

    def train(self, steps):
        for _ in range(steps):
            self.optimizer.step(self.loss)
            if isinstance(self.schedule, lr.ReduceLROnPlateau):
                self.schedule.step(1.0)
            elif self.schedule:
                self.schedule.step()

    def loss(self):
        self.optimizer.zero_grad()
        loss = nn.functional.mse_loss(self.model(X), Y)
        loss.backward()
        return loss

    def save(self, path):
        state = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(),
                 "epoch": FIRST, "x": X, "y": Y}
        if self.schedule:
            state["scheduler"] = self.schedule.state_dict()
        torch.save(state, path)

    def load(self, path):
        state = torch.load(path, weights_only=True)
        self.model.load_state_dict(state["model"])
        if self.schedule:
            # CyclicLR removes a key from the dict, so it gets a copy.
            self.schedule.load_state_dict(dict(state["scheduler"]))
        self.optimizer.load_state_dict(state["optimizer"])
        return state


def close(a, b, what, far=1e-4):
    """Requires that two values are of one structure, and their numbers close."""
    if isinstance(a, torch.Tensor):
        require(a.shape == b.shape and a.dtype == b.dtype, what, a.dtype, b.dtype)
        require(torch.allclose(a, b, rtol=far, atol=far), what, a, b)
    elif isinstance(a, dict):
        require(set(a) == set(b), what, "has other keys:", set(a) ^ set(b))
        for k in a:
            close(a[k], b[k], f"{what}.{k}", far)
    elif isinstance(a, (list, tuple)):
        require(len(a) == len(b), what, a, b)
        for i, (x, y) in enumerate(zip(a, b)):
            close(x, y, f"{what}.{i}", far)
    elif isinstance(a, (int, float)):
        # A whole number may be an int in one checkpoint and a float in the other.
        require(a == b or abs(a - b) <= far * abs(a), what, a, b)
        require(isinstance(a, bool) == isinstance(b, bool), what, a, b)
    else:
        require(a == b, what, a, b)


def go(folder, optimizer, schedule):
    what = f"{optimizer}, {schedule}:"
    start, back = os.path.join(folder, "start.pt"), os.path.join(folder, "back.pt")
    whole = Training(optimizer, schedule, 1)
    whole.train(FIRST)
    whole.save(start)
    done = subprocess.run([PROGRAM, optimizer.split()[0], schedule, start, back, str(THERE)],
                          capture_output=True, text=True)
    require(done.returncode == 0, what, done.stderr)
    whole.train(THERE)
    other = Training(optimizer, schedule, 2)
    state = other.load(back)
    require(type(state["epoch"]) is int and state["epoch"] == FIRST + THERE, what, state["epoch"])
    ours, theirs = whole.optimizer.state_dict(), other.optimizer.state_dict()
    # LBFGS saves differences of nearly equal numbers, so they have fewer digits.
    close(ours["state"], theirs["state"], what + " state", 0.02 if optimizer == "LBFGS" else 1e-4)
    require(len(ours["param_groups"]) == len(theirs["param_groups"]), what)
    for a, b in zip(ours["param_groups"], theirs["param_groups"]):
        # torch adds these keys, which change no number.
        for key in ("foreach", "capturable", "differentiable", "fused"):
            a.pop(key, None)
            b.pop(key, None)
        close(a, b, what + " group")
    if schedule != "none":
        mine, back_dict = whole.schedule.state_dict(), state["scheduler"]
        # SequentialLR doesn't use the rates that its schedules have set last.
        for child in mine.get("_schedulers", []) + back_dict.get("_schedulers", []):
            child["_last_lr"] = None
        close(mine, back_dict, what + " scheduler")
    whole.train(LAST)
    other.train(LAST)
    close(whole.model.state_dict(), other.model.state_dict(), what + " model", 1e-3)


def main():
    n = 0
    with tempfile.TemporaryDirectory() as folder:
        for optimizer in OPTIMIZERS:
            for schedule in SCHEDULES:
                cycles = schedule.startswith("OneCycleLR") and schedule != "OneCycleLR3"
                if cycles and optimizer in ("SGD", "Adagrad", "LBFGS"):
                    continue
                go(folder, optimizer, schedule)
                n += 1
    print(f"torch {torch.__version__}: {n} trainings taken over and given back")


main()
