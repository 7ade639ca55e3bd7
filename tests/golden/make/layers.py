"""Writes layers.txt and init.txt: PyTorch's layers, losses, reprs, state dicts, initial weights.

A layer is made after torch.manual_seed(1) and called after torch.manual_seed(3). Its inputs are
drawn after torch.manual_seed(2): n(2,3) is normal, p(2,3) lies in (0.05, 0.95), t(3) is -1 or 1,
l(2,3) are log-probabilities, and i5(2,3) are indices below 5. A layer NAME has these cases:

    NAME.w       its parameters in float32
    NAME.y       its output
    NAME.g       the gradients of its first input and of its parameters, one behind the other, of
                 the sum of y times a draw after torch.manual_seed(4)
    NAME.keys    the keys of its state_dict
    NAME.repr    its repr
"""

import math
import re
import warnings

import torch
from torch import nn

from golden import Golden, values_of

warnings.simplefilter("ignore")
torch.set_num_threads(1)


def put(name, *tensors):
    data.case(name)
    data.numbers(values_of(*tensors))


def put_text(name, text):
    data.case(name)
    data.text(text)


def drawn(spec):
    kind, below, shape = re.fullmatch(r"([a-z])(\d*)\(([\d,]*)\)", spec).groups()
    shape = [int(n) for n in shape.split(",") if n]
    if kind == "t":
        return torch.randint(0, 2, shape) * 2 - 1
    if kind == "i":
        return torch.randint(0, int(below), shape)
    if kind == "p":
        return torch.rand(shape) * 0.9 + 0.05
    x = torch.randn(shape)
    return torch.log_softmax(x, -1) if kind == "l" else x


LAYERS = [
    ("linear", lambda: nn.Linear(4, 3), "n(5,4)"),
    ("linear_no_bias", lambda: nn.Linear(4, 3, bias=False), "n(2,3,4)"),
    ("linear_one", lambda: nn.Linear(1, 1), "n(1)"),
    ("embedding", lambda: nn.Embedding(5, 3), "i5(2,4)"),
    ("embedding_padded", lambda: nn.Embedding(5, 4, padding_idx=-2), "i5(7)"),
    (
        "embedding_bounded",
        lambda: nn.Embedding(5, 4, 1, max_norm=1.5, norm_type=1.0, scale_grad_by_freq=True),
        "i5(7)",
    ),
    ("layer_norm", lambda: nn.LayerNorm(4), "n(2,3,4)"),
    ("layer_norm_two", lambda: nn.LayerNorm((3, 4), eps=0.1, bias=False), "n(2,3,4)"),
    ("layer_norm_bare", lambda: nn.LayerNorm(4, elementwise_affine=False), "n(3,4)"),
    ("rms_norm", lambda: nn.RMSNorm(4, eps=1e-6), "n(2,3,4)"),
    ("rms_norm_bare", lambda: nn.RMSNorm((3, 4), eps=0.5, elementwise_affine=False), "n(2,3,4)"),
    ("group_norm", lambda: nn.GroupNorm(2, 4), "n(2,4,3)"),
    ("group_norm_bare", lambda: nn.GroupNorm(1, 3, eps=0.1, affine=False), "n(2,3,2)"),
    ("conv1d", lambda: nn.Conv1d(2, 4, 3), "n(2,2,7)"),
    ("conv1d_all", lambda: nn.Conv1d(4, 6, 2, 2, 3, 2, 2, bias=False), "n(2,4,5)"),
    ("conv1d_same", lambda: nn.Conv1d(2, 3, 4, padding="same"), "n(2,5)"),
    ("conv1d_circular", lambda: nn.Conv1d(2, 3, 3, padding=2, padding_mode="circular"), "n(1,2,5)"),
    ("conv2d", lambda: nn.Conv2d(3, 4, 3), "n(2,3,5,4)"),
    ("conv2d_all", lambda: nn.Conv2d(2, 4, (2, 3), (2, 1), (1, 2), 2, 2), "n(2,2,4,5)"),
    ("conv2d_valid", lambda: nn.Conv2d(1, 2, 2, padding="valid"), "n(1,3,3)"),
    (
        "conv2d_reflect",
        lambda: nn.Conv2d(1, 2, (3, 2), padding="same", padding_mode="reflect"),
        "n(2,1,4,3)",
    ),
    (
        "conv2d_replicate",
        lambda: nn.Conv2d(1, 2, 2, padding=(1, 0), padding_mode="replicate"),
        "n(1,1,3,3)",
    ),
    ("max_pool1d", lambda: nn.MaxPool1d(3, 2, 1), "n(2,2,7)"),
    ("max_pool2d", lambda: nn.MaxPool2d(2), "n(2,2,4,5)"),
    ("max_pool2d_all", lambda: nn.MaxPool2d((3, 2), (2, 1), 1, 2, ceil_mode=True), "n(2,6,5)"),
    ("avg_pool1d", lambda: nn.AvgPool1d(3, 2, 1, True, False), "n(2,2,6)"),
    ("avg_pool2d", lambda: nn.AvgPool2d(2), "n(2,2,4,5)"),
    (
        "avg_pool2d_all",
        lambda: nn.AvgPool2d((3, 2), 2, (1, 0), True, divisor_override=5),
        "n(2,6,5)",
    ),
    ("adaptive_avg_pool1d", lambda: nn.AdaptiveAvgPool1d(3), "n(2,2,7)"),
    ("adaptive_avg_pool2d", lambda: nn.AdaptiveAvgPool2d((3, None)), "n(2,2,4,5)"),
    ("adaptive_max_pool1d", lambda: nn.AdaptiveMaxPool1d(3), "n(2,2,7)"),
    ("adaptive_max_pool2d", lambda: nn.AdaptiveMaxPool2d(2), "n(2,4,5)"),
    ("batch_norm1d", lambda: nn.BatchNorm1d(3), "n(4,3)"),
    ("batch_norm1d_none", lambda: nn.BatchNorm1d(3, 1e-3, None, bias=False), "n(2,3,4)"),
    ("batch_norm2d", lambda: nn.BatchNorm2d(3, momentum=0.25), "n(2,3,4,5)"),
    (
        "batch_norm2d_bare",
        lambda: nn.BatchNorm2d(2, affine=False, track_running_stats=False),
        "n(2,2,3,3)",
    ),
    (
        "conv_net",
        lambda: nn.Sequential(
            nn.Conv2d(1, 2, 3, padding=1),
            nn.BatchNorm2d(2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(1, -1),
            nn.Linear(8, 3),
        ),
        "n(3,1,4,4)",
    ),
    ("dropout", lambda: nn.Dropout(0.3), "n(3,5)"),
    ("identity", lambda: nn.Identity(), "n(2,3)"),
    ("relu", lambda: nn.ReLU(), "n(2,5)"),
    ("relu6", lambda: nn.ReLU6(), "n(2,5)"),
    ("gelu", lambda: nn.GELU(), "n(2,5)"),
    ("gelu_tanh", lambda: nn.GELU("tanh"), "n(2,5)"),
    ("silu", lambda: nn.SiLU(), "n(2,5)"),
    ("mish", lambda: nn.Mish(), "n(2,5)"),
    ("selu", lambda: nn.SELU(), "n(2,5)"),
    ("tanh", lambda: nn.Tanh(), "n(2,5)"),
    ("sigmoid", lambda: nn.Sigmoid(), "n(2,5)"),
    ("logsigmoid", lambda: nn.LogSigmoid(), "n(2,5)"),
    ("softsign", lambda: nn.Softsign(), "n(2,5)"),
    ("hardswish", lambda: nn.Hardswish(), "n(2,5)"),
    ("hardsigmoid", lambda: nn.Hardsigmoid(), "n(2,5)"),
    ("leaky_relu", lambda: nn.LeakyReLU(0.02), "n(2,5)"),
    ("elu", lambda: nn.ELU(1.5), "n(2,5)"),
    ("celu", lambda: nn.CELU(0.5), "n(2,5)"),
    ("softplus", lambda: nn.Softplus(2.0, 1.0), "n(2,5)"),
    ("hardtanh", lambda: nn.Hardtanh(-0.5, 0.75), "n(2,5)"),
    ("tanhshrink", lambda: nn.Tanhshrink(), "n(2,5)"),
    ("hardshrink", lambda: nn.Hardshrink(0.4), "n(2,5)"),
    ("softshrink", lambda: nn.Softshrink(0.4), "n(2,5)"),
    ("threshold", lambda: nn.Threshold(0.1, 20.0), "n(2,5)"),
    ("glu", lambda: nn.GLU(0), "n(4,3)"),
    ("prelu", lambda: nn.PReLU(), "n(2,5)"),
    ("prelu_channels", lambda: nn.PReLU(3, 0.1), "n(2,3,2)"),
    ("softmin", lambda: nn.Softmin(1), "n(2,5)"),
    ("softmax", lambda: nn.Softmax(0), "n(2,5)"),
    ("log_softmax", lambda: nn.LogSoftmax(-1), "n(2,5)"),
    ("flatten", lambda: nn.Flatten(1, -1), "n(2,3,2)"),
    ("mse_loss", lambda: nn.MSELoss(), "n(2,3)", "n(2,3)"),
    ("mse_loss_sum", lambda: nn.MSELoss(reduction="sum"), "n(2,3)", "n(2,3)"),
    ("l1_loss", lambda: nn.L1Loss(reduction="none"), "n(2,3)", "n(2,3)"),
    ("smooth_l1_loss", lambda: nn.SmoothL1Loss(beta=0.5), "n(2,3)", "n(2,3)"),
    ("huber_loss", lambda: nn.HuberLoss(delta=0.5), "n(2,3)", "n(2,3)"),
    ("nll_loss", lambda: nn.NLLLoss(weight=torch.tensor([1.0, 2, 0.5])), "l(4,3)", "i3(4)"),
    ("cross_entropy_loss", lambda: nn.CrossEntropyLoss(), "n(4,3)", "i3(4)"),
    (
        "cross_entropy_loss_all",
        lambda: nn.CrossEntropyLoss(
            torch.tensor([1.0, 2, 0.5]), ignore_index=1, label_smoothing=0.1
        ),
        "n(4,3)",
        "i3(4)",
    ),
    ("bce_loss", lambda: nn.BCELoss(weight=torch.tensor([1.0, 2, 0.5])), "p(2,3)", "p(2,3)"),
    (
        "bce_with_logits_loss",
        lambda: nn.BCEWithLogitsLoss(pos_weight=torch.tensor([1.0, 2, 0.5])),
        "n(2,3)",
        "p(2,3)",
    ),
    ("kl_div_loss", lambda: nn.KLDivLoss(reduction="batchmean"), "l(2,3)", "p(2,3)"),
    ("kl_div_loss_log", lambda: nn.KLDivLoss(reduction="sum", log_target=True), "l(2,3)", "l(2,3)"),
    (
        "cosine_embedding_loss",
        lambda: nn.CosineEmbeddingLoss(0.1, reduction="none"),
        "n(4,3)",
        "n(4,3)",
        "t(4)",
    ),
    ("margin_ranking_loss", lambda: nn.MarginRankingLoss(0.5), "n(5)", "n(5)", "t(5)"),
    (
        "hinge_embedding_loss",
        lambda: nn.HingeEmbeddingLoss(0.5, reduction="sum"),
        "p(2,3)",
        "t(2,3)",
    ),
    ("triplet_margin_loss", lambda: nn.TripletMarginLoss(), "n(4,3)", "n(4,3)", "n(4,3)"),
    (
        "triplet_margin_loss_all",
        lambda: nn.TripletMarginLoss(2.0, p=3.0, eps=1e-3, swap=True, reduction="sum"),
        "n(4,3)",
        "n(4,3)",
        "n(4,3)",
    ),
    ("gaussian_nll_loss", lambda: nn.GaussianNLLLoss(), "n(2,3)", "n(2,3)", "p(2,3)"),
    (
        "gaussian_nll_loss_all",
        lambda: nn.GaussianNLLLoss(full=True, eps=0.3, reduction="none"),
        "n(2,3)",
        "n(2,3)",
        "p(2)",
    ),
    ("poisson_nll_loss", lambda: nn.PoissonNLLLoss(), "n(2,3)", "i5(2,3)"),
    (
        "poisson_nll_loss_all",
        lambda: nn.PoissonNLLLoss(log_input=False, full=True, eps=0.1, reduction="none"),
        "p(2,3)",
        "n(2,3)",
    ),
    (
        "net",
        lambda: nn.Sequential(
            nn.Linear(4, 3),
            nn.LayerNorm(3),
            nn.GELU(),
            nn.Sequential(nn.Dropout(0.5), nn.Linear(3, 2)),
        ),
        "n(5,4)",
    ),
]


def tree():
    """Builds what test_module.c builds: every shape of a repr."""
    layers = nn.ModuleList(
        [
            nn.ReLU(),
            nn.ReLU(),
            nn.Sequential(nn.Tanh()),
            nn.Sequential(nn.Tanh()),
            nn.Linear(2, 2),
            nn.ReLU(),
        ]
    )
    return nn.Sequential(
        nn.Linear(2, 2),
        nn.Sequential(),
        nn.ModuleList(),
        layers,
        nn.Embedding(3, 2),
        nn.CrossEntropyLoss(),
    )


class Tree(nn.Module):
    """This module has children, buffers, a shared child and a tied weight, as in test_module.c."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(2, 3)
        self.scale = nn.Parameter(torch.ones(2))
        self.register_buffer("mask", torch.ones(3))
        self.register_buffer("cache", torch.ones(4), persistent=False)
        self.deep = nn.Sequential(nn.Linear(3, 2), nn.ReLU())
        self.same = self.fc
        self.tied = nn.Linear(2, 3)
        self.tied.weight = self.fc.weight

    def extra_repr(self):
        return "much"


class Lines(nn.Module):
    """This module has an extra_repr of two lines."""

    def extra_repr(self):
        return "one\ntwo"


def nested():
    """Builds what test_module.c builds: modules with an extra_repr, inside others."""
    inner = nn.ModuleList([nn.ReLU(), nn.ReLU(), Tree(), Lines()])
    return nn.Sequential(nn.ModuleList([Tree(), Tree(), Lines(), inner, inner]), Lines(), Tree())


def loading(name, drop, add):
    m = Tree()
    state = {k: v for k, v in m.state_dict().items() if k not in drop}
    for key, shape in add:
        state[key] = torch.ones(shape)
    try:
        m.load_state_dict(state)
        put_text(name, "")
    except RuntimeError as e:
        put_text(name, str(e))


def layers():
    for name, make, *specs in LAYERS:
        torch.set_default_dtype(torch.float32)
        torch.manual_seed(1)
        m = make()
        if list(m.parameters()):
            put(name + ".w", *m.parameters())
        torch.set_default_dtype(torch.float64)
        torch.manual_seed(1)
        m = make()
        torch.manual_seed(2)
        x = [drawn(s) for s in specs]
        if x[0].is_floating_point():
            x[0].requires_grad_(True)
        torch.manual_seed(3)
        y = m(*x)
        put(name + ".y", y)
        torch.manual_seed(4)
        loss = (y * torch.randn(y.shape)).sum()
        put(
            name + ".g",
            *torch.autograd.grad(
                loss, [t for t in x[:1] if t.is_floating_point()] + list(m.parameters())
            )
        )
        put_text(name + ".keys", " ".join(m.state_dict()))
        put_text(name + ".repr", repr(m))
    m = Tree()
    put_text("tree.repr", repr(tree()))
    put_text("nested.repr", repr(nested()))
    put_text("everything.repr", repr(m))
    put_text("everything.keys", " ".join(m.state_dict()))
    put_text("everything.parameters", " ".join(n for n, _ in m.named_parameters()))
    put_text("everything.buffers", " ".join(n for n, _ in m.named_buffers()))
    put_text("everything.modules", " ".join(n for n, _ in m.named_modules()))
    loading("load.missing", ["scale", "deep.0.bias", "fc.weight"], [])
    loading(
        "load.unexpected",
        [],
        [
            ("deep.0.x", 1),
            ("deep.y", 1),
            ("zero", 1),
            ("fc.weight.deep", 1),
            ("same.y", 1),
            ("deep", 1),
            ("tied.bias.", 1),
        ],
    )
    loading("load.size", [], [("scale", 3), ("deep.0.weight", (3, 2)), ("mask", ())])
    loading(
        "load.all",
        ["mask", "fc.bias"],
        [("scale", (2, 2)), ("cache", 4), ("deep.1.w", 1), ("alpha", 1)],
    )


INITS = {
    "uniform": lambda t: nn.init.uniform_(t, -0.5, 2),
    "normal": lambda t: nn.init.normal_(t, 1, 2),
    "trunc_normal": lambda t: nn.init.trunc_normal_(t, 0.5, 1.5, -1, 2),
    "constant": lambda t: nn.init.constant_(t, 0.3),
    "ones": nn.init.ones_,
    "zeros": nn.init.zeros_,
    "xavier_uniform": lambda t: nn.init.xavier_uniform_(t, 1.5),
    "xavier_normal": lambda t: nn.init.xavier_normal_(t),
    "kaiming_uniform": lambda t: nn.init.kaiming_uniform_(t, a=math.sqrt(5)),
    "kaiming_uniform_out": lambda t: nn.init.kaiming_uniform_(
        t, mode="fan_out", nonlinearity="relu"
    ),
    "kaiming_normal": lambda t: nn.init.kaiming_normal_(t, a=0.3),
    "kaiming_normal_selu": lambda t: nn.init.kaiming_normal_(
        t, mode="fan_out", nonlinearity="selu"
    ),
    "orthogonal": lambda t: nn.init.orthogonal_(t),
    "orthogonal_gain": lambda t: nn.init.orthogonal_(t, 2.5),
}


def init():
    """Fills each of three shapes in both dtypes, and draws the uniform number that follows."""
    for name, f in INITS.items():
        for dtype in torch.float32, torch.float64:
            for k, shape in enumerate([(6, 4), (2, 3), (3, 2, 5)]):
                torch.manual_seed(7 + k)
                put(
                    "%s%d.%d" % (name, k, 32 if dtype == torch.float32 else 64),
                    f(torch.empty(shape, dtype=dtype)),
                    torch.rand(1),
                )
    names = ["linear", "conv1d", "conv2d", "conv3d"]
    names += ["conv_transpose1d", "conv_transpose2d", "conv_transpose3d"]
    names += ["sigmoid", "tanh", "relu", "selu"]
    put(
        "gains",
        torch.tensor(
            [nn.init.calculate_gain(n) for n in names]
            + [nn.init.calculate_gain("leaky_relu", 0.2)],
            dtype=torch.float64,
        ),
    )


with Golden("layers") as data:
    layers()
with Golden("init") as data:
    torch.set_default_dtype(torch.float32)
    init()
