"""The tables of ops.py say how each function is called in torch, how a sample of OpInfo becomes a
call of ours, which cases are made by hand, and which of torch's sentences ours differ from and why.
"""

import itertools
import math
import re

import torch
import torch.nn.functional as F

import subscript


class Number:
    """A Python number stands where our function takes a tensor."""

    def __init__(self, value):
        self.value = value


class Skip(Exception):
    """A sample has no counterpart in our functions, and this says why."""


class Case:
    def __init__(self, function, *args, flags=(), origin="by hand"):
        self.function, self.args = function, list(args)
        # "first" means that there are no second gradients, "direct" that the call writes into the
        # argument itself, and "valid" that the case is left out if it is an error.
        self.flags, self.origin = set(flags), origin


def numbers(k, shape, dtype):
    """Returns the numbers that ruled_numbers in tests/autograd/op_cases.h makes."""
    state, values = (k * 7919 + 12345) & 0xFFFFFFFF, []
    for _ in range(math.prod(shape)):
        state = (state * 1664525 + 1013904223) & 0xFFFFFFFF
        values.append(((state >> 22) - 511.5) / 512)
    return torch.tensor(values, dtype=dtype).reshape(shape)


# These stand in the order of rg_dtype, rg_pad_mode and rg_reduction.
ORDER = [torch.bool, torch.int64, torch.float32, torch.float64, torch.bfloat16, torch.float16,
         torch.uint8]
DTYPES = ORDER[:4]
PADS = ["constant", "reflect", "replicate", "circular"]
REDUCTIONS = ["mean", "sum", "none", "batchmean"]

# ---- parameters that the header does not tell: options, and functions of tensor.h ----

TENSOR, DIMS, INT, DOUBLE, DTYPE = "rg_tensor *", "rg_dims", "int", "double", "rg_dtype"
LOSSES = [
    "mse_loss",
    "l1_loss",
    "smooth_l1_loss",
    "huber_loss",
    "nll_loss",
    "cross_entropy",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "kl_div",
]
PARAMETERS = {
    **{
        name + "_with": [TENSOR, TENSOR, INT, TENSOR, TENSOR, INT, DOUBLE, DOUBLE, DOUBLE, INT]
        for name in LOSSES
    },
    "cosine_embedding_loss_with": [TENSOR, TENSOR, TENSOR, INT, DOUBLE],
    "margin_ranking_loss_with": [TENSOR, TENSOR, TENSOR, INT, DOUBLE],
    "hinge_embedding_loss_with": [TENSOR, TENSOR, INT, DOUBLE],
    "triplet_margin_loss_with": [TENSOR, TENSOR, TENSOR, INT, DOUBLE, DOUBLE, DOUBLE, INT],
    "gaussian_nll_loss_with": [TENSOR, TENSOR, TENSOR, INT, INT, DOUBLE],
    "poisson_nll_loss_with": [TENSOR, TENSOR, INT, INT, INT, DOUBLE],
    "scaled_dot_product_attention_with": [TENSOR, TENSOR, TENSOR, TENSOR, DOUBLE, INT, DOUBLE, INT],
    "embedding_with": [TENSOR, TENSOR, INT, DOUBLE, DOUBLE, INT],
    "dropout_with": [TENSOR, DOUBLE, INT],
    "bernoulli_with": [TENSOR],
    "repeat_interleave_with": [TENSOR, TENSOR, INT, INT],
    "meshgrid_with": [TENSOR, "text"],
    **{
        name: [TENSOR, INT, TENSOR, TENSOR, "text", INT]
        for name in ("scatter_reduce_with", "scatter_reduce_with_")
    },
    "quantile_with": [TENSOR, TENSOR, INT, INT, "text"],
    "searchsorted_with": [TENSOR, TENSOR, INT, TENSOR],
    "bincount_with": [TENSOR, TENSOR, INT],
    "cdist_with": [TENSOR, TENSOR, DOUBLE, "text"],
    "nan_to_num_with": [TENSOR, DOUBLE, DOUBLE, DOUBLE],
    "nan_to_num_with_": [TENSOR, DOUBLE, DOUBLE, DOUBLE],
    **{f"conv{d}d_with": [TENSOR, TENSOR, TENSOR, DIMS, INT, DIMS, DIMS, INT] for d in (1, 2)},
    **{
        f"max_pool{d}d{kind}_with": [TENSOR, DIMS, DIMS, DIMS, DIMS, INT]
        for d in (1, 2)
        for kind in ("", "_with_indices")
    },
    **{f"avg_pool{d}d_with": [TENSOR, DIMS, DIMS, DIMS, INT, INT, INT] for d in (1, 2)},
    "batch_norm_with": [TENSOR, TENSOR, TENSOR, TENSOR, TENSOR, INT, DOUBLE, DOUBLE],
    "split_sizes": [TENSOR, DIMS, INT],
    "index_items": [TENSOR, "item"],
    "set_items_": [TENSOR, TENSOR, "item"],
    "full": [DIMS, TENSOR],
    "full_dims": [DIMS, TENSOR, DTYPE],
    "zeros_dims": [DIMS, DTYPE],
    "ones_dims": [DIMS, DTYPE],
    "zeros_like": [TENSOR],
    "ones_like": [TENSOR],
    "full_like": [TENSOR, TENSOR],
    "arange": [TENSOR],
    "arange_step": [TENSOR, TENSOR, TENSOR],
    "arange_as": [TENSOR, DTYPE],
    "arange_step_as": [TENSOR, TENSOR, TENSOR, DTYPE],
    "eye_as": [INT, INT, DTYPE],
    "linspace": [DOUBLE, DOUBLE, INT, DTYPE],
    "logspace": [DOUBLE, DOUBLE, INT, DOUBLE, DTYPE],
    "eye": [INT, INT],
    "scalar": [TENSOR],
    "scalar_dtype": [DOUBLE, DTYPE],
    "promote_types": [DTYPE, DTYPE],
    "result_type": [TENSOR, TENSOR],
    "equal": [TENSOR, TENSOR],
    "allclose": [TENSOR, TENSOR, DOUBLE, DOUBLE],
}
NO_PADDING = -(2**63)
NO_DIM = -(2**31)
SAME = 2**63 - 1
AS_IT_IS = -(2**63)

# ---- how it is called in torch -------------------------------------------------------


def loss(name):
    """Returns a call that takes the options by place, in the order of rg_loss_options."""

    def call(
        x,
        target,
        reduction,
        weight,
        pos_weight,
        ignore_index,
        label_smoothing,
        beta,
        delta,
        log_target,
    ):
        kw = {"reduction": REDUCTIONS[reduction]}
        if name in ("nll_loss", "cross_entropy"):
            kw |= {"weight": weight, "ignore_index": ignore_index}
        if name == "cross_entropy":
            kw["label_smoothing"] = label_smoothing
        if (
            name.startswith("binary")
            or name in ("mse_loss", "l1_loss", "huber_loss")
            and weight is not None
        ):
            kw["weight"] = weight
        if name.endswith("logits"):
            kw["pos_weight"] = pos_weight
        if name == "smooth_l1_loss":
            kw["beta"] = beta
        if name == "huber_loss":
            kw["delta"] = delta
        if name == "kl_div":
            kw["log_target"] = bool(log_target)
        return getattr(F, name)(x, target, **kw)

    return call


def typed(name, where=torch):
    """Returns a call whose last argument is the dtype."""

    def call(*args):
        *given, dtype = args
        return getattr(where, name)(*given, dtype=dtype)

    return call


def item(i):
    return eval("IndexOf()[%s]" % i, {"IndexOf": IndexOf}) if isinstance(i, str) else i


def scanned(gates, h, backward, step):
    """Returns h of all steps, each of which is made of the gates and of h before it."""
    steps = list(reversed(gates)) if backward else list(gates)
    made = []
    for gate in steps:
        h = step(gate, h)
        made.append(h)
    return torch.stack(made[::-1] if backward else made)


def rotary_embedding(x, cos, sin, interleaved):
    """Rotary positions as transformers computes them for Llama, and for GPT-J if interleaved."""
    half = (*x.shape[:-1], x.shape[-1] // 2)
    cos, sin = cos.expand(half), sin.expand(half)
    if interleaved:
        turned = torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2)
        return x * cos.repeat_interleave(2, -1) + turned * sin.repeat_interleave(2, -1)
    a, b = x.chunk(2, -1)
    return x * torch.cat((cos, cos), -1) + torch.cat((-b, a), -1) * torch.cat((sin, sin), -1)


def gru_scan(gates, weight, bias, h_0, backward):
    def step(gate, h):
        r, z, n = gate.chunk(3, 1)
        a, b, q = F.linear(h, weight, bias).chunk(3, 1)
        n = torch.tanh(n + torch.sigmoid(r + a) * q)
        return (h - n) * torch.sigmoid(z + b) + n

    return scanned(gates, h_0, backward, step)


def rnn_scan(gates, weight, h_0, relu, backward):
    opened = torch.relu if relu else torch.tanh
    return scanned(gates, h_0, backward, lambda gate, h: opened(gate + F.linear(h, weight)))


def attention(q, k, v, mask, p, causal, scale, gqa):
    options = dict(is_causal=bool(causal), scale=scale or None, enable_gqa=bool(gqa))
    return F.scaled_dot_product_attention(q, k, v, mask, p, **options)


def bound(v):
    """Returns v, or None if v is NaN, by which our function means no bound."""
    return None if math.isnan(v) else v


class IndexOf:
    def __getitem__(self, i):
        return i


def items(given):
    parsed = [item(i) for i in given]
    whole = tuple(j for i in parsed for j in (i if isinstance(i, tuple) else (i,)))
    # In torch x[0:2] and x[0:2,] have different grad_fn names.
    return whole[0] if len(whole) == 1 else whole


def set_items(x, value, *given):
    x[items(given)] = value
    return x


def margin_loss(name):
    """Returns a call whose last two arguments are the reduction and the margin."""

    def call(*args):
        *tensors, how, margin = args
        return getattr(F, name)(*tensors, margin=margin, reduction=REDUCTIONS[how])

    return call


MARGINS = ("cosine_embedding_loss", "margin_ranking_loss", "hinge_embedding_loss")
CALLS = {name + "_with": loss(name) for name in LOSSES}
CALLS.update({name + "_with": margin_loss(name) for name in MARGINS})
CALLS.update(
    {
        name + form + "_as": typed(name)
        for name in ("sum", "nansum", "mean", "prod", "norm")
        for form in ("", "_p", "_dim", "_dims")
    }
)
CALLS.update(
    {name + "_as": typed(name) for name in ("cumsum", "cumprod", "softmax", "log_softmax", "eye")}
)
CALLS.update(
    {
        "norm_as": lambda x, dtype: torch.norm(x, dtype=dtype),
        "softmin_as": typed("softmin", F),
        "arange_as": typed("arange"),
        "arange_step_as": typed("arange"),
    }
)
CALLS.update(
    {
        "pairwise_distance": lambda a, b, p, eps, keep: F.pairwise_distance(
            a, b, p, eps, bool(keep)
        ),
        "triplet_margin_loss_with": lambda a, p, n, how, margin, norm, eps, swap: (
            F.triplet_margin_loss(a, p, n, margin, norm, eps, bool(swap), reduction=REDUCTIONS[how])
        ),
        "gaussian_nll_loss_with": lambda x, t, var, how, full, eps: F.gaussian_nll_loss(
            x, t, var, bool(full), eps, REDUCTIONS[how]
        ),
        "poisson_nll_loss_with": lambda x, t, how, log, full, eps: F.poisson_nll_loss(
            x, t, bool(log), bool(full), eps=eps, reduction=REDUCTIONS[how]
        ),
    }
)


def number_or_list(v, default):
    return v[0] if len(v) == 1 else v or default


def conv_call(f):
    return lambda x, w, b, stride, padding, paddings, dilation, groups: f(
        x,
        w,
        b,
        number_or_list(stride, 1),
        "same" if padding == SAME else number_or_list(paddings, padding),
        number_or_list(dilation, 1),
        groups,
    )


def max_pool_call(f):
    return lambda x, kernel, stride, padding, dilation, ceil: f(
        x, kernel, stride or None, padding or 0, dilation or 1, bool(ceil)
    )


def avg_pool_call(f, has_divisor):
    return lambda x, kernel, stride, padding, ceil, count, divisor: f(
        x,
        kernel,
        stride or None,
        padding or 0,
        bool(ceil),
        bool(count),
        **({"divisor_override": divisor or None} if has_divisor else {}),
    )


def adaptive_call(f):
    def call(x, size):
        size = tuple(None if n == AS_IT_IS else n for n in size)
        return f(x, size if len(size) == 2 else size[0])

    return call


CALLS.update(
    {
        "conv1d_with": conv_call(F.conv1d),
        "conv2d_with": conv_call(F.conv2d),
        "max_pool1d_with": max_pool_call(F.max_pool1d),
        "max_pool2d_with": max_pool_call(F.max_pool2d),
        "max_pool1d_with_indices_with": max_pool_call(F.max_pool1d_with_indices),
        "max_pool2d_with_indices_with": max_pool_call(F.max_pool2d_with_indices),
        "avg_pool1d_with": avg_pool_call(F.avg_pool1d, False),
        "avg_pool2d_with": avg_pool_call(F.avg_pool2d, True),
        "adaptive_avg_pool1d": F.adaptive_avg_pool1d,
        "adaptive_max_pool1d": F.adaptive_max_pool1d,
        "adaptive_max_pool1d_with_indices": F.adaptive_max_pool1d_with_indices,
        "adaptive_avg_pool2d_with": adaptive_call(F.adaptive_avg_pool2d),
        "adaptive_max_pool2d_with": adaptive_call(F.adaptive_max_pool2d),
        "adaptive_max_pool2d_with_indices_with": adaptive_call(F.adaptive_max_pool2d_with_indices),
        "batch_norm_with": lambda x, mean, var, w, b, training, momentum, eps: F.batch_norm(
            x,
            mean if mean is None else mean.clone(),
            var if var is None else var.clone(),
            w,
            b,
            bool(training),
            momentum,
            eps,
        ),
    }
)
CALLS.update(
    {
        name: (lambda f: lambda x: f(x, inplace=True))(getattr(F, name[:-1]))
        for name in ("relu6_", "silu_", "mish_", "hardswish_", "hardsigmoid_", "selu_")
    }
)
CALLS.update(
    {
        name: (lambda f: lambda x, dim: f(x, dim=dim))(getattr(torch, name[:-5]))
        for name in ("cumsum_dims", "count_nonzero_dims")
    }
)
CALLS.update(
    {
        "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
        "round_decimals": lambda x, d: torch.round(x, decimals=d),
        "add_alpha": lambda a, b, alpha: torch.add(a, b, alpha=alpha),
        "sub_alpha": lambda a, b, alpha: torch.sub(a, b, alpha=alpha),
        "add_alpha_": lambda a, b, alpha: a.add_(b, alpha=alpha),
        "div_floor": lambda a, b: torch.div(a, b, rounding_mode="floor"),
        "div_trunc": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
        "addcmul": lambda x, a, b, value: torch.addcmul(x, a, b, value=value),
        "addcdiv": lambda x, a, b, value: torch.addcdiv(x, a, b, value=value),
        "addcmul_": lambda x, a, b, value: x.addcmul_(a, b, value=value),
        "addcdiv_": lambda x, a, b, value: x.addcdiv_(a, b, value=value),
        "var_dim": lambda x, dim, c, keep: torch.var(x, dim, correction=c, keepdim=keep),
        "var_dims": lambda x, dim, c, keep: torch.var(x, dim, correction=c, keepdim=keep),
        "std_dim": lambda x, dim, c, keep: torch.std(x, dim, correction=c, keepdim=keep),
        "std_dims": lambda x, dim, c, keep: torch.std(x, dim, correction=c, keepdim=keep),
        "norm_p": lambda x, p: torch.norm(x, p),
        # Only F.group_norm refuses a single value per channel, as our function does. With groups =
        # 0 F.group_norm divides by zero, so torch.group_norm is called.
        "group_norm": lambda x, groups, *rest: (F if groups else torch).group_norm(
            x, groups, *rest
        ),
        "tensordot_dims": lambda a, b, in_a, in_b: torch.tensordot(a, b, (list(in_a), list(in_b))),
        "tensordot": lambda a, b, n: torch.tensordot(a, b, n),
        "addmm": lambda c, a, b, beta, alpha: torch.addmm(c, a, b, beta=beta, alpha=alpha),
        "baddbmm": lambda c, a, b, beta, alpha: torch.baddbmm(c, a, b, beta=beta, alpha=alpha),
        "einsum_list": lambda equation, operands: torch.einsum(equation, *operands),
        # The sign of a zero from torch's softshrink depends on its place. Adding 0 clears the sign.
        "softshrink": lambda x, lambd: F.softshrink(x, lambd) + 0.0,
        "T": lambda x: x.T,
        "mT": lambda x: x.mT,
        "slice": lambda x, dim, start, end, step: torch.ops.aten.slice(x, dim, start, end, step),
        "split_sizes": lambda x, sizes, dim: torch.split(x, list(sizes), dim),
        "split": lambda x, size, dim: torch.split(x, size, dim),
        "pad_with": lambda x, padding, mode, value: F.pad(
            x, padding, PADS[mode], *([value] if mode == 0 else [])
        ),
        "index_items": lambda x, *i: x[items(i)],
        "set_items_": set_items,
        "index_add": lambda x, dim, index, source, alpha: torch.index_add(
            x, dim, index, source, alpha=alpha
        ),
        "index_add_": lambda x, dim, index, source, alpha: x.index_add_(
            dim, index, source, alpha=alpha
        ),
        "take_along_dim": lambda x, index, dim: torch.take_along_dim(x, index, dim),
        "sort": lambda x, dim, descending: torch.sort(
            x, dim=dim, descending=bool(descending), stable=True
        ),
        "argsort": lambda x, dim, descending: torch.argsort(
            x, dim=dim, descending=bool(descending), stable=True
        ),
        "topk": lambda x, k, dim, largest, in_order: torch.topk(
            x, k, dim, bool(largest), bool(in_order)
        ),
        "unique_full": lambda x: torch.unique(x, return_inverse=True, return_counts=True),
        "unique_dim": lambda x, dim: torch.unique(
            x, return_inverse=True, return_counts=True, dim=dim
        ),
        "searchsorted": lambda a, v, right: torch.searchsorted(a, v, right=bool(right)),
        "bucketize": lambda v, b, right: torch.bucketize(v, b, right=bool(right)),
        "embedding_with": lambda i, w, pad, most, norm, scale: F.embedding(
            i, w, None if pad == NO_PADDING else pad, most or None, norm, bool(scale)
        ),
        **{
            name: (lambda f: lambda x, n, high, low: f(x, n, bound(high), bound(low)))(f)
            for name, f in (
                ("nan_to_num_with", torch.nan_to_num),
                ("nan_to_num_with_", torch.nan_to_num_),
            )
        },
        "scatter_reduce_with": lambda x, dim, index, source, how, own: x.scatter_reduce(
            dim, index, source, how, include_self=bool(own)
        ),
        "scatter_reduce_with_": lambda x, dim, index, source, how, own: x.scatter_reduce_(
            dim, index, source, how, include_self=bool(own)
        ),
        # torch's median along an expanded dim reads wrong elements.
        "median_dim": lambda x, dim, keep: torch.median(x.contiguous(), dim, bool(keep)),
        "quantile_with": lambda x, q, dim, keep, how: torch.quantile(
            x, q, dim=None if dim == NO_DIM else dim, keepdim=bool(keep), interpolation=how
        ),
        "searchsorted_with": lambda a, v, right, sorter: torch.searchsorted(
            a, v, right=bool(right), sorter=sorter
        ),
        "bincount_with": lambda x, weights, least: torch.bincount(x, weights, least),
        "cdist_with": lambda a, b, p, mode: torch.cdist(a, b, p, mode),
        "unfold": lambda x, dim, size, step: x.unfold(dim, size, step),
        "repeat_interleave_with": lambda x, repeats, dim, size: torch.repeat_interleave(
            x,
            repeats,
            dim=None if dim == NO_DIM else dim,
            output_size=None if size < 0 else size,
        ),
        "meshgrid_with": lambda tensors, indexing: torch.meshgrid(tensors, indexing=indexing),
        "layer_norm": lambda x, shape, w, b, eps: F.layer_norm(x, shape, w, b, eps),
        "rms_norm": lambda x, shape, w, eps: F.rms_norm(x, shape, w, None if eps < 0 else eps),
        "dropout_with": lambda x, p, training: F.dropout(x, p, bool(training)),
        "bernoulli_with": torch.bernoulli,
        "scaled_dot_product_attention_with": attention,
        "joint_attention": lambda x, heads, causal: F.scaled_dot_product_attention(
            *x.unflatten(2, (3, heads, -1)).permute(2, 0, 3, 1, 4), is_causal=bool(causal)
        )
        .transpose(1, 2)
        .flatten(2),
        "rotary_embedding": rotary_embedding,
        "gru_scan": gru_scan,
        "rnn_scan": rnn_scan,
        "full": torch.full,
        "full_dims": lambda shape, v, dtype: torch.full(shape, v, dtype=dtype),
        "zeros_dims": lambda shape, dtype: torch.zeros(shape, dtype=dtype),
        "ones_dims": lambda shape, dtype: torch.ones(shape, dtype=dtype),
        "linspace": lambda a, b, n, dtype: torch.linspace(a, b, n, dtype=dtype),
        "logspace": lambda a, b, n, base, dtype: torch.logspace(a, b, n, base, dtype=dtype),
        "scalar": lambda v: torch.tensor(v),
        "scalar_dtype": lambda v, dtype: torch.tensor(v, dtype=dtype),
        "promote_types": lambda a, b: torch.tensor(ORDER.index(torch.promote_types(a, b))),
        "result_type": lambda a, b: torch.tensor(ORDER.index(torch.result_type(a, b))),
        "allclose": lambda a, b, rtol, atol: torch.allclose(a, b, rtol, atol),
        "expand_dims": lambda x, shape: x.expand(shape),
        "to": lambda x, dtype: x.to(dtype),
        "view_dims": lambda x, shape: x.view(shape),
        "repeat_dims": lambda x, n: x.repeat(n),
        "sum_dims": lambda x, dim, keep: torch.sum(x, dim, keep),
        "clone": lambda x: x.clone(),
        "contiguous": lambda x: x.contiguous(),
    }
)


def torch_call(name):
    if name in CALLS:
        return CALLS[name]
    short = re.sub(r"_(dims|dim|p|list|with|step|dtype)$", "", name)
    for where in (torch.Tensor, torch, F) if name.endswith("_") else (torch, F, torch.Tensor):
        for n in (name, short):
            if hasattr(where, n):
                return getattr(where, n)
    raise SystemExit("ops_cases.py does not say how torch calls " + name)


# ---- OpInfo's samples ----------------------------------------------------------------


def no(value, what):
    if value:
        raise Skip(what)


def plain(name):
    return lambda x, *args: (name, x, *args)


def same(*names):
    return {name: plain(name.split(".")[-1]) for name in names}


def alpha(name):
    return lambda x, other, alpha=1: (
        (name, x, other) if alpha == 1 else (name + "_alpha", x, other, alpha)
    )


def swapped(name):
    return lambda x, other: (name, other, x)


def as_dtype(case, dtype):
    """Returns the case or, if a dtype is given, the case of the _as function with that dtype."""
    name, *args = case
    return case if dtype is None else (name + "_as", *args, dtype)


def reduction(name, keep=True):
    def adapt(x, dim=None, keepdim=False, dtype=None):
        rest = (bool(keepdim),) if keep else ()
        if dim is None and not keepdim:
            return as_dtype((name, x), dtype)
        if isinstance(dim, int):
            return as_dtype((name + "_dim", x, dim, *rest), dtype)
        if name in ("prod", "argmax", "argmin", "max", "min"):
            raise Skip("keepdim without dim")
        return as_dtype((name + "_dims", x, dim or (), *rest), dtype)

    return adapt


def spread(name):
    def adapt(x, dim=None, unbiased=None, keepdim=False, correction=None):
        if isinstance(dim, bool):
            dim, unbiased = None, dim
        if correction is None:
            correction = 1 if unbiased is None else int(unbiased)
        c = float(correction)
        if dim is None and not keepdim and c == 1:
            return (name, x)
        if isinstance(dim, int):
            return (name + "_dim", x, dim, c, bool(keepdim))
        return (name + "_dims", x, dim or (), c, bool(keepdim))

    return adapt


def norm(x, p="fro", dim=None, keepdim=False, dtype=None):
    if p == "nuc":
        raise Skip("the nuclear norm")
    p = 2.0 if p in ("fro", None) else float(p)
    if dim is None and not keepdim:
        return as_dtype(("norm", x) if p == 2 else ("norm_p", x, p), dtype)
    if isinstance(dim, int):
        return as_dtype(("norm_dim", x, p, dim, bool(keepdim)), dtype)
    return as_dtype(("norm_dims", x, p, dim or (), bool(keepdim)), dtype)


def vector_norm(x, ord=2, dim=None, keepdim=False, dtype=None):
    return norm(x, ord, dim, keepdim, dtype)


def cumulative(name):
    def adapt(x, dim, dtype=None):
        return as_dtype((name, x, dim), dtype)

    return adapt


def shape(name):
    def adapt(x, *given):
        dims = given[0] if len(given) == 1 and not isinstance(given[0], int) else given
        return (name, x, tuple(int(d) for d in dims))

    return adapt


def logsumexp(x, dim, keepdim=False):
    if isinstance(dim, int):
        return ("logsumexp", x, dim, bool(keepdim))
    return ("logsumexp_dims", x, dim, bool(keepdim))


def split(x, size, dim=0):
    return (
        ("split", x, size, dim) if isinstance(size, int) else ("split_sizes", x, tuple(size), dim)
    )


def movedim(x, source, destination):
    return ("movedim" if isinstance(source, int) else "movedim_dims", x, source, destination)


def squeeze(x, dim=None):
    if dim is None:
        return ("squeeze", x)
    return ("squeeze_dim" if isinstance(dim, int) else "squeeze_dims", x, dim)


def roll(x, shifts, dims=None):
    if isinstance(shifts, int) and isinstance(dims, int):
        return ("roll", x, shifts, dims)

    def several(v):
        if v is None:
            return ()
        return (v,) if isinstance(v, int) else tuple(v)

    return ("roll_dims", x, several(shifts), several(dims))


def sizes(v):
    """Returns an int, a list of them, or None as dims."""
    if v is None:
        return ()
    return (v,) if isinstance(v, int) else tuple(v)


def conv(name):
    def case(x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
        if x.dtype == torch.int64:
            raise Skip("a convolution of integers")
        text = isinstance(padding, str)
        number = SAME if padding == "same" else 0
        paddings = () if text else sizes(padding)
        return (name, x, weight, bias, sizes(stride), number, paddings, sizes(dilation), groups)

    return case


def max_pool(name):
    def case(
        x,
        kernel_size,
        stride=None,
        padding=0,
        dilation=1,
        ceil_mode=False,
        return_indices=False,
    ):
        indices = "_with_indices" if return_indices else ""
        places = [sizes(v) for v in (kernel_size, stride, padding, dilation)]
        return (name + indices + "_with", x, *places, int(ceil_mode))

    return case


def avg_pool(name):
    def case(
        x,
        kernel_size,
        stride=None,
        padding=0,
        ceil_mode=False,
        count_include_pad=True,
        divisor_override=None,
    ):
        places = [sizes(v) for v in (kernel_size, stride, padding)]
        divisor = divisor_override or 0
        return (name, x, *places, int(ceil_mode), int(count_include_pad), divisor)

    return case


def adaptive_pool(name, dims):
    def case(x, output_size, return_indices=False):
        size = tuple(AS_IT_IS if n is None else n for n in sizes(output_size))
        if not size:
            raise Skip("no size")
        full = name + ("_with_indices" if return_indices else "")
        return (full, x, size[0]) if dims == 1 else (full + "_with", x, size)

    return case


def batch_norm(x, mean, var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
    mean, var = (None if t is None else t.detach() for t in (mean, var))
    return ("batch_norm_with", x, mean, var, weight, bias, int(training), momentum, eps)


def tensordot(a, b, dims=2):
    if isinstance(dims, int):
        return ("tensordot", a, b, dims)
    in_a, in_b = ((d,) if isinstance(d, int) else tuple(d) for d in dims)
    return ("tensordot_dims", a, b, in_a, in_b)


def pad(x, padding, mode="constant", value=0):
    return ("pad_with", x, tuple(padding), PADS.index(mode), float(value or 0))


def getitem(x, index):
    def one(i):
        if i is None:
            return "None"
        if i is Ellipsis:
            return "..."
        if isinstance(i, slice):
            return ":".join(
                "" if v is None else str(v)
                for v in (i.start, i.stop, i.step)[: 2 if i.step is None else 3]
            )
        if isinstance(i, list):
            return torch.tensor(i)
        return i

    return ("index_items", x, *map(one, index if isinstance(index, tuple) else (index,)))


def scatter(x, dim, index, src, reduce=None):
    no(reduce, "reduce=")
    return ("scatter", x, dim, index, src)


def scatter_reduce(x, dim, index, src, reduce, include_self=True):
    return ("scatter_reduce_with", x, dim, index, src, reduce, bool(include_self))


def take_along_dim(x, indices, dim=None):
    if dim is None:
        raise Skip("dim=None")
    return ("take_along_dim", x, indices, dim)


def topk(x, k, dim=-1, largest=True, sorted=True):
    no(not sorted, "sorted=False")
    return ("topk", x, k, dim, largest, True)


def sort(x, dim=-1, descending=False, stable=True):
    return ("sort", x, dim, descending)


def argsort(x, dim=-1, descending=False, stable=True):
    if not stable and x.numel() > 16:
        raise Skip("not stable")
    return ("argsort", x, dim, descending)


def unique(x, sorted=True, return_inverse=False, return_counts=False, dim=None):
    no(not sorted, "sorted=False")
    if dim is not None:
        return ("unique_dim", x, dim)
    return ("unique_full" if return_inverse or return_counts else "unique", x)


def searchsorted(a, values, out_int32=False, right=False, side=None, sorter=None):
    no(out_int32, "out_int32=")
    if sorter is not None:
        return ("searchsorted_with", a, values, right or side == "right", sorter)
    return ("searchsorted", a, values, right or side == "right")


def bucketize(values, boundaries, out_int32=False, right=False):
    no(out_int32, "out_int32=")
    return ("bucketize", values, boundaries, right)


def embedding(
    index,
    weight,
    padding_idx=None,
    max_norm=None,
    norm_type=2.0,
    scale_grad_by_freq=False,
    sparse=False,
):
    no(sparse, "sparse")
    no(max_norm == 0, "max_norm=0")
    padding = NO_PADDING if padding_idx is None else padding_idx
    bound = float(max_norm or 0), float(norm_type)
    return ("embedding_with", index, weight, padding, *bound, int(scale_grad_by_freq))


def to(x, *args, dtype=None, **rest):
    given = [a for a in args if isinstance(a, torch.dtype)] or [dtype]
    no(
        given[0] is None or rest.get("memory_format") not in (None, torch.preserve_format),
        "without a dtype, or with a layout",
    )
    return ("to", x, given[0])


def sdpa(q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    return (
        "scaled_dot_product_attention_with",
        q,
        k,
        v,
        attn_mask,
        float(dropout_p),
        is_causal,
        float(scale or 0),
        enable_gqa,
    )


def loss_sample(name):
    def adapt(x, target, reduction="mean", weight=None, *rest, **options):
        if weight is not None and name in ("mse_loss", "l1_loss", "huber_loss"):
            raise Skip("weight=")
        return loss_case(name, x, target, reduction, weight, *rest, **options)

    return adapt


def loss_case(
    name,
    x,
    target,
    reduction="mean",
    weight=None,
    pos_weight=None,
    ignore_index=-100,
    label_smoothing=0.0,
    beta=1.0,
    delta=1.0,
    log_target=False,
):
    return (
        name + "_with",
        x,
        target,
        REDUCTIONS.index(reduction),
        weight,
        pos_weight,
        ignore_index,
        float(label_smoothing),
        float(beta),
        float(delta),
        int(log_target),
    )


def repeat_interleave(x, repeats, dim=None, output_size=None):
    return (
        "repeat_interleave_with",
        x,
        repeats,
        NO_DIM if dim is None else dim,
        -1 if output_size is None else output_size,
    )


def meshgrid(first, *rest, indexing="ij"):
    no(indexing == "xy", "OpInfo gives the two in no fixed order, so xy is in cases by hand")
    tensors = list(first) if isinstance(first, (list, tuple)) else [first, *rest]
    return ("meshgrid_with", tensors, indexing)


def quantile(x, q, dim=None, keepdim=False, interpolation="linear"):
    return (
        "quantile_with",
        x,
        q if isinstance(q, torch.Tensor) else Number(q),
        NO_DIM if dim is None else dim,
        bool(keepdim),
        interpolation,
    )


def median(x, dim=None, keepdim=False):
    return ("median", x) if dim is None else ("median_dim", x, dim, bool(keepdim))


def cdist(a, b, p=2.0, compute_mode="use_mm_for_euclid_dist_if_necessary"):
    return ("cdist_with", a, b, float(p), compute_mode)


def margin_sample(name, usual=0.0):
    def adapt(*tensors, margin=usual, reduction="mean"):
        if len(tensors) > (2 if name.startswith("hinge") else 3):
            *tensors, margin = tensors
        return (name + "_with", *tensors, REDUCTIONS.index(reduction), float(margin))

    return adapt


def triplet(a, p, n, margin=1.0, swap=False, eps=1e-6, reduction="mean", **norm):
    power = float(norm.pop("p", 2))
    return (
        "triplet_margin_loss_with",
        a,
        p,
        n,
        REDUCTIONS.index(reduction),
        float(margin),
        power,
        float(eps),
        int(swap),
    )


def gaussian_nll(x, target, var, full=False, eps=1e-6, reduction="mean"):
    var = Number(var) if isinstance(var, float) else var
    how = REDUCTIONS.index(reduction)
    return ("gaussian_nll_loss_with", x, target, var, how, int(full), float(eps))


def poisson_nll(x, target, log_input=True, full=False, eps=1e-8, reduction="mean"):
    how = REDUCTIONS.index(reduction)
    return ("poisson_nll_loss_with", x, target, how, int(log_input), int(full), float(eps))


def contiguous(name):
    def adapt(x, memory_format=None):
        no(
            memory_format not in (None, torch.preserve_format, torch.contiguous_format),
            "memory_format=",
        )
        return (name, x)

    return adapt


def gelu(x, approximate="none"):
    return ("gelu" if approximate == "none" else "gelu_tanh", x)


def div(x, other, rounding_mode=None):
    return ({None: "div", "floor": "div_floor", "trunc": "div_trunc"}[rounding_mode], x, other)


UNARY = (
    "neg abs exp exp2 expm1 log log1p log2 log10 sqrt rsqrt "
    "square reciprocal sin cos tan sinh cosh tanh asin acos "
    "atan sigmoid erf erfc floor ceil trunc frac sign isnan isinf isfinite logical_not".split()
)
ACTIVATIONS = (
    "relu relu6 selu gelu gelu_tanh silu mish softsign hardswish hardsigmoid logsigmoid "
    "tanhshrink".split()
)
UNARY_WRITES = [
    name + "_"
    for name in UNARY + "round relu relu6 silu mish hardswish hardsigmoid selu".split()
    if name not in ("isnan", "isinf", "isfinite")
]
BINARY = (
    "add sub mul div div_floor div_trunc floor_divide remainder fmod pow atan2 "
    "xlogy logaddexp logaddexp2 "
    "maximum minimum fmax fmin eq ne lt le gt "
    "ge logical_and logical_or logical_xor".split()
)
ON_EVERYTHING = (
    "sum nansum mean prod amax amin max min argmax argmin var std norm any all count_nonzero"
).split()
WRITTEN = (
    "add sub mul div floor_divide remainder fmod pow atan2 xlogy eq ne lt le gt ge "
    "logical_and logical_or logical_xor"
).split()

OPINFO = {
    **same(*UNARY),
    **same(*("nn.functional." + a for a in ACTIVATIONS if not a.startswith("gelu"))),
    **same(*(b for b in BINARY if not b.startswith("div_"))),
    **same("matmul", "dot", "mv", "mm", "bmm", "outer", "inner", "kron"),
    "nn.functional.gelu": gelu,
    "round": lambda x, decimals=None: (
        ("round", x) if decimals is None else ("round_decimals", x, decimals)
    ),
    "nn.functional.leaky_relu": lambda x, negative_slope=0.01: (
        "leaky_relu",
        x,
        float(negative_slope),
    ),
    "nn.functional.elu": lambda x, alpha=1.0: ("elu", x, float(alpha)),
    "nn.functional.celu": lambda x, alpha=1.0: ("celu", x, float(alpha)),
    "nn.functional.softplus": lambda x, beta=1, threshold=20: (
        "softplus",
        x,
        float(beta),
        float(threshold),
    ),
    "nn.functional.hardshrink": lambda x, lambd=0.5: ("hardshrink", x, float(lambd)),
    "nn.functional.softshrink": lambda x, lambd=0.5: ("softshrink", x, float(lambd)),
    "nn.functional.tanhshrink": plain("tanhshrink"),
    "nn.functional.threshold": lambda x, threshold, value: (
        "threshold",
        x,
        float(threshold),
        float(value),
    ),
    "nn.functional.glu": lambda x, dim=-1: ("glu", x, dim),
    "nn.functional.prelu": lambda x, weight: ("prelu", x, weight),
    "nn.functional.softmin": cumulative("softmin"),
    "nn.functional.hardtanh": lambda x, min_val=-1.0, max_val=1.0: (
        "hardtanh",
        x,
        float(min_val),
        float(max_val),
    ),
    "add": alpha("add"),
    "sub": alpha("sub"),
    "div": div,
    "__radd__": swapped("add"),
    "__rsub__": swapped("sub"),
    "__rmul__": swapped("mul"),
    "__rdiv__": swapped("div"),
    "__rpow__": swapped("pow"),
    "__rmod__": swapped("remainder"),
    "__rmatmul__": swapped("matmul"),
    ("max", "binary"): plain("maximum"),
    ("min", "binary"): plain("minimum"),
    "where": lambda x, condition, other: ("where", condition, x, other),
    **same("masked_fill", "clamp_min", "clamp_max", "lerp"),
    "clamp": lambda x, min=None, max=None: ("clamp", x, min, max),
    "addcmul": lambda x, a, b, value=1: ("addcmul", x, a, b, float(value)),
    "addcdiv": lambda x, a, b, value=1: ("addcdiv", x, a, b, float(value)),
    **{
        name: reduction(name)
        for name in (
            "sum",
            "nansum",
            "mean",
            "prod",
            "amax",
            "amin",
            "argmax",
            "argmin",
            "any",
            "all",
        )
    },
    "count_nonzero": reduction("count_nonzero", keep=False),
    "var": spread("var"),
    "std": spread("std"),
    ("max", "reduction_no_dim"): plain("max"),
    ("min", "reduction_no_dim"): plain("min"),
    ("max", "reduction_with_dim"): lambda x, dim, keepdim=False: ("max_dim", x, dim, keepdim),
    ("min", "reduction_with_dim"): lambda x, dim, keepdim=False: ("min_dim", x, dim, keepdim),
    "norm": norm,
    "linalg.vector_norm": vector_norm,
    "logsumexp": logsumexp,
    "cumsum": cumulative("cumsum"),
    "cumprod": cumulative("cumprod"),
    "logcumsumexp": cumulative("logcumsumexp"),
    "nan_to_num": lambda x, nan=None, posinf=None, neginf=None: (
        "nan_to_num_with",
        x,
        *(math.nan if v is None else v for v in (nan or 0.0, posinf, neginf)),
    ),
    "tensordot": tensordot,
    "einsum": lambda operands, equation: ("einsum_list", equation, operands),
    ("addmm", ""): lambda c, a, b, beta=1, alpha=1: ("addmm", c, a, b, float(beta), float(alpha)),
    "baddbmm": lambda c, a, b, beta=1, alpha=1: ("baddbmm", c, a, b, float(beta), float(alpha)),
    "nn.functional.linear": lambda x, weight, bias=None: ("linear", x, weight, bias),
    "view": shape("view_dims"),
    "reshape": shape("reshape_dims"),
    "expand": shape("expand_dims"),
    "permute": shape("permute_dims"),
    "repeat": shape("repeat_dims"),
    "tile": shape("tile_dims"),
    "flip": lambda x, dims: ("flip_dims", x, (dims,) if isinstance(dims, int) else tuple(dims)),
    "flatten": lambda x, start_dim=0, end_dim=-1: ("flatten", x, start_dim, end_dim),
    "unflatten": lambda x, dim, sizes: ("unflatten", x, dim, tuple(sizes)),
    **same(
        "transpose",
        "T",
        "t",
        "mT",
        "unsqueeze",
        "expand_as",
        "view_as",
        "reshape_as",
        "select",
        "trace",
        "gather",
        "scatter_add",
        "index_select",
        "masked_select",
    ),
    "movedim": movedim,
    "squeeze": squeeze,
    "split": split,
    "split_with_sizes": split,
    "roll": roll,
    "narrow": lambda x, dim, start, length: ("narrow", x, dim, int(start), length),
    "slice": lambda x, dim=0, start=0, end=2**62, step=1: ("slice", x, dim, start, end, step),
    "diagonal": lambda x, offset=0, dim1=0, dim2=1: ("diagonal", x, offset, dim1, dim2),
    "chunk": lambda x, chunks, dim=0: ("chunk", x, chunks, dim),
    "unbind": lambda x, dim=0: ("unbind", x, dim),
    "cat": lambda tensors, dim=0: ("cat", tensors, dim),
    "stack": lambda tensors, dim=0: ("stack", tensors, dim),
    "hstack": plain("hstack"),
    "vstack": plain("vstack"),
    **{
        name: (lambda name: lambda x, diagonal=0: (name, x, diagonal))(name)
        for name in ("tril", "triu", "diag")
    },
    "diag_embed": lambda x, offset=0, dim1=-2, dim2=-1: ("diag_embed", x, offset, dim1, dim2),
    "unfold": lambda x, dim, size, step: ("unfold", x, dim, size, step),
    "repeat_interleave": repeat_interleave,
    "cdist": cdist,
    "quantile": quantile,
    "median": median,
    "kthvalue": lambda x, k, dim=-1, keepdim=False: ("kthvalue", x, k, dim, bool(keepdim)),
    "bincount": lambda x, weights=None, minlength=0: ("bincount_with", x, weights, minlength),
    "meshgrid": meshgrid,
    "nn.functional.pad": pad,
    "contiguous": contiguous("contiguous"),
    "clone": contiguous("clone"),
    "to": to,
    **{
        name: (lambda dtype: lambda x, **_: ("to", x, dtype))(dtype)
        for name, dtype in (
            ("bool", torch.bool),
            ("long", torch.int64),
            ("float", torch.float32),
            ("double", torch.float64),
        )
    },
    "__getitem__": getitem,
    "scatter": scatter,
    **{("scatter_reduce", how): scatter_reduce for how in ("sum", "prod", "mean", "amax", "amin")},
    "index_fill": lambda x, dim, index, value: (
        "index_fill",
        x,
        dim,
        index,
        value if isinstance(value, torch.Tensor) else Number(value),
    ),
    **same("index_copy", "take"),
    "take_along_dim": take_along_dim,
    "index_add": lambda x, dim, index, source, alpha=1: (
        "index_add",
        x,
        dim,
        index,
        source,
        float(alpha),
    ),
    "nonzero": lambda x, as_tuple=False: ("nonzero", x),
    "topk": topk,
    "sort": sort,
    "argsort": argsort,
    "unique": unique,
    "searchsorted": searchsorted,
    "bucketize": bucketize,
    "nn.functional.one_hot": lambda x, num_classes=-1: ("one_hot", x, num_classes),
    "nn.functional.embedding": embedding,
    "softmax": cumulative("softmax"),
    "log_softmax": cumulative("log_softmax"),
    "nn.functional.conv1d": conv("conv1d_with"),
    "nn.functional.conv2d": conv("conv2d_with"),
    "nn.functional.max_pool1d": max_pool("max_pool1d"),
    "nn.functional.max_pool2d": max_pool("max_pool2d"),
    "nn.functional.avg_pool1d": avg_pool("avg_pool1d_with"),
    "nn.functional.avg_pool2d": avg_pool("avg_pool2d_with"),
    "nn.functional.adaptive_avg_pool1d": adaptive_pool("adaptive_avg_pool1d", 1),
    "nn.functional.adaptive_avg_pool2d": adaptive_pool("adaptive_avg_pool2d", 2),
    "nn.functional.adaptive_max_pool1d": adaptive_pool("adaptive_max_pool1d", 1),
    "nn.functional.adaptive_max_pool2d": adaptive_pool("adaptive_max_pool2d", 2),
    "nn.functional.batch_norm": batch_norm,
    "nn.functional.layer_norm": lambda x, shape, weight=None, bias=None, eps=1e-5: (
        "layer_norm",
        x,
        shape,
        weight,
        bias,
        float(eps),
    ),
    "nn.functional.rms_norm": lambda x, shape, weight=None, eps=None: (
        "rms_norm",
        x,
        shape,
        weight,
        -1.0 if eps is None else float(eps),
    ),
    "nn.functional.group_norm": lambda x, groups, weight=None, bias=None, eps=1e-5: (
        "group_norm",
        x,
        groups,
        weight,
        bias,
        float(eps),
    ),
    "nn.functional.normalize": lambda x, p=2.0, dim=1, eps=1e-12: (
        "normalize",
        x,
        float(p),
        dim,
        float(eps),
    ),
    "nn.functional.cosine_similarity": lambda a, b, dim=1, eps=1e-8: (
        "cosine_similarity",
        a,
        b,
        dim,
        float(eps),
    ),
    "nn.functional.dropout": lambda x, p=0.5, training=True, inplace=False: (
        "dropout_with",
        x,
        float(p),
        training,
    ),
    "nn.functional.scaled_dot_product_attention": sdpa,
    **{"nn.functional." + name: loss_sample(name) for name in LOSSES},
    **{"nn.functional." + name: margin_sample(name) for name in MARGINS[:2]},
    "nn.functional.hinge_embedding_loss": margin_sample("hinge_embedding_loss", 1.0),
    "nn.functional.triplet_margin_loss": triplet,
    "nn.functional.gaussian_nll_loss": gaussian_nll,
    "nn.functional.poisson_nll_loss": poisson_nll,
    "nn.functional.pairwise_distance": lambda a, b, p=2.0, eps=1e-6, keepdim=False: (
        "pairwise_distance",
        a,
        b,
        float(p),
        float(eps),
        keepdim,
    ),
    "fill": lambda x, value: ("fill_", x, value),
    "zero_": plain("zero_"),
    "full": lambda shape, value, dtype=None, device=None: (
        ("full_dims", shape, Number(value), dtype) if dtype else ("full", shape, Number(value))
    ),
    "zeros": lambda shape, dtype, device=None: ("zeros_dims", shape, dtype),
    "ones": lambda shape, dtype, device=None: ("ones_dims", shape, dtype),
    "linspace": lambda a, b, n, dtype=None, device=None: (
        "linspace",
        float(a),
        float(b),
        n,
        dtype or torch.float32,
    ),
    "logspace": lambda a, b, n, base=10.0, dtype=None, device=None: (
        "logspace",
        float(a),
        float(b),
        n,
        float(base),
        dtype or torch.float32,
    ),
    **{
        name: (lambda name: lambda x, **rest: (no(rest.get("dtype"), "dtype="), name, x)[1:])(name)
        for name in ("zeros_like", "ones_like")
    },
    "full_like": lambda x, value, dtype=None: (no(dtype, "dtype="), "full_like", x, Number(value))[
        1:
    ],
    "equal": plain("equal"),
    "allclose": lambda a, b, rtol=1e-5, atol=1e-8, equal_nan=False: (
        no(equal_nan, "equal_nan="),
        "allclose",
        a,
        b,
        rtol,
        atol,
    )[1:],
}

# ---- made by hand --------------------------------------------------------------------

nan, inf = math.nan, math.inf
f64, f32, i64, b8 = torch.float64, torch.float32, torch.int64, torch.bool


def T(data, dtype=None, grad=None):
    """Returns a tensor that requires grad if it can."""
    t = torch.tensor(data, dtype=dtype)
    return t.requires_grad_(t.is_floating_point() if grad is None else grad)


def grid(*shape, dtype=f64):
    """Returns different numbers of both signs, which are exact in binary."""
    n = math.prod(shape)
    values = [((7 * i) % n - n / 2 + 0.25) / 4 for i in range(n)]
    return torch.tensor(values).to(dtype).reshape(shape).requires_grad_(dtype.is_floating_point)


def R(seed, *shape, dtype=f64, turned=False):
    """Returns many numbers that take little text."""
    t = numbers(seed, shape, dtype)
    if turned:
        t = t.transpose(0, -1).contiguous().transpose(0, -1)
    t.seed = seed
    return t.requires_grad_()


def turned(t):
    """Returns the transposed matrix, which requires grad."""
    return t.detach().t().requires_grad_()


def no_elements(*shape):
    return torch.zeros(*shape, dtype=f64, requires_grad=True)


def direct(function, *args):
    """Returns a case that writes to its argument, and not to a clone of it."""
    return Case(function, *args, flags=["direct"])


def attend(q, k, v, mask=None, p=0.0, causal=0, scale=0.0, gqa=0):
    return Case("scaled_dot_product_attention_with", q, k, v, mask, p, causal, scale, gqa)


def loss_by_hand(*args, **options):
    return Case(*loss_case(*args, **options))


def reduction_arguments(name):
    """Returns three tuples of a reduction's arguments: the norm's order, which stands before the
    dims, the correction of var and std, and keepdim=False, which count_nonzero lacks."""
    order = (2.0,) if name == "norm" else ()
    correction = (1.0,) if name in ("var", "std") else ()
    return order, correction, () if name == "count_nonzero" else (False,)


SPECIAL = [
    nan,
    inf,
    -inf,
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    2.5,
    -2.5,
    3.0,
    -3.0,
    6.0,
    19.5,
    20.5,
    -20.5,
    100.0,
    -100.0,
    1e-8,
    -1e-8,
    1e4,
    -1e4,
]
HUGE = [1e300, -1e300, 5e-324, 1e-310, 709.5, -745.0, 1e18]
# For these numbers torch's answer depends on their place in the tensor, as its loops for vectors
# and for single elements differ.
UNSETTLED = {
    **dict.fromkeys(["elu", "selu", "celu", "hardswish", "hardtanh", "relu6"], [nan]),
    **dict.fromkeys(["hardshrink", "softshrink"], [nan]),
    "gelu": [nan, inf],
}


def settled(name):
    return [
        v for v in SPECIAL if not any(v == u or v != v and u != u for u in UNSETTLED.get(name, []))
    ]


WEAK = [Number(True), Number(2), Number(2.5), Number(-1)]
OPERANDS = [
    T([True, False, True]),
    T([3, -2, 5]),
    T([1.5, -2.5, 0.5], f32),
    T([2.5, -0.5, 1.5], f64),
    T(True),
    T(3),
    T(1.5, f32),
    T(-2.5, f64),
]


def unary():
    extra = {
        "leaky_relu": [(0.01,), (-0.5,)],
        "elu": [(1.0,), (0.5,)],
        "celu": [(1.0,), (-1.5,), (0.0,)],
        "softplus": [(1.0, 20.0), (2.0, 1.0)],
        "hardtanh": [(-1.0, 1.0), (2.0, -2.0)],
        "hardshrink": [(0.5,), (-1.0,)],
        "softshrink": [(0.5,), (0.0,), (-1.0,), (1e39,), (nan,)],
        "threshold": [(0.5, -7.0), (1.5, 2.5), (-1.0, nan), (0.0, 1e19), (1e19, 0.0)],
        "round_decimals": [(0,), (2,), (-1,)],
        "clamp": [(-1.0, 2.0), (None, 0.5), (2.0, -2.0), (None, None)],
        "clamp_min": [(0.5,)],
        "clamp_max": [(0.5,)],
    }
    for name in UNARY + ACTIVATIONS + ["round"] + list(extra):
        for args in extra.get(name, [()]):
            yield Case(name, T(settled(name), f64), *args, flags=["first"])
            yield Case(name, T(HUGE, f64), *args, flags=["first"])
            yield Case(name, T(settled(name), f32), *args)
            yield Case(name, T(0.75, f64), *args)
            yield Case(name, T([nan], f64, False), *args)
            yield Case(name, T([[]], f64), *args)
            yield Case(name, T([0, 1, -1, 2, -3, 40]), *args)
            yield Case(name, T([True, False]), *args)
            yield Case(name, turned(grid(2, 3)), *args)
            yield Case(name, grid(1, 3).detach().expand(2, 3).requires_grad_(), *args)


def unary_writes():
    for name in UNARY_WRITES:
        yield Case(name, T(settled(name[:-1]), f64), flags=["first"])
        yield Case(name, T([0, 1, -1, 2, -3]))
        yield Case(name, T([True, False]))
        yield direct(name, T([0.5, 0.25], f64))
        yield direct(name, torch.tensor([0.5]).expand(3))
    for name, args in (
        ("leaky_relu_", (0.01,)),
        ("leaky_relu_", (-0.5,)),
        ("elu_", (0.5,)),
        ("celu_", (-1.5,)),
        ("hardtanh_", (-1.0, 1.0)),
        ("hardtanh_", (2.0, -2.0)),
        ("threshold_", (0.5, -7.0)),
    ):
        yield Case(name, T(settled(name[:-1]), f64), *args, flags=["first"])
        yield Case(name, T([0, 1, -1, 2, -3]), *args)
        yield Case(name, T([True, False]), *args)
        yield Case(name, T([0.5, 0.25], f64), *args, flags=["direct"])
        if name != "threshold_":
            yield Case(name, torch.tensor([0.5]).expand(3), *args, flags=["direct"])
    yield Case("celu_", T([0.5, 0.25], f64), 0.0)


def binary():
    special = [nan, inf, -inf, 0.0, -0.0, 1.0, -1.0, 2.0, 0.5, -2.5, 3.0]
    pairs = list(itertools.product(special, special))
    for name in BINARY:
        for a, b in itertools.product(OPERANDS, OPERANDS):
            yield Case(name, a, b)
        for t, w in itertools.product(OPERANDS, WEAK):
            yield Case(name, t, w)
            if name not in (
                "maximum",
                "minimum",
                "fmax",
                "fmin",
                "atan2",
                "logaddexp",
                "logaddexp2",
                "logical_and",
                "logical_or",
                "logical_xor",
            ):
                yield Case(name, w, t)
        for dtype in (f64, f32):
            yield Case(
                name,
                T([p[0] for p in pairs], dtype),
                T([p[1] for p in pairs], dtype),
                flags=["first"],
            )
        ints = list(itertools.product([7, -7, 2, -2, 1], [2, -2, 3, 1, -1]))
        yield Case(name, T([p[0] for p in ints]), T([p[1] for p in ints]))
        yield Case(name, T([1, 2]), T([0, 1]))
        yield Case(name, T([1, 2]), Number(0))
        yield Case(name, grid(2, 3), grid(4))
        yield Case(name, grid(2, 1, 3), grid(4, 1))
        yield Case(name, grid(0, 3), grid(1, 3))
        yield Case(name, grid(2, 0), grid(3, 2, 1))


def binary_writes():
    for name in (
        "add add_alpha sub mul div floor_divide remainder fmod pow atan2 xlogy "
        "eq ne lt le gt ge logical_and logical_or "
        "logical_xor"
    ).split():
        more = [Number(2)] if name == "add_alpha" else []
        for a, b in itertools.product(OPERANDS, OPERANDS):
            if name == "add" or a.dim() or not b.dim():
                yield Case(name + "_", a, b, *more)
        for t, w in itertools.product(OPERANDS, WEAK):
            yield Case(name + "_", t, w, *more)
        yield Case(name + "_", grid(3), grid(2, 3), *more)
        yield Case(name + "_", grid(2, 3), grid(3), *more)
        yield direct(name + "_", grid(3), grid(3), *more)
        yield direct(name + "_", torch.zeros(1).expand(2), torch.ones(2), *more)


def of_several():
    """These take numbers beside tensors, or three tensors and more."""
    for name in ("add_alpha", "sub_alpha"):
        for a in (Number(2), Number(2.5), Number(True)):
            for t in OPERANDS[:4]:
                yield Case(name, t, t, a)
    for dtype in (f64, f32, i64, b8):
        x = T([nan, inf, -inf, 0.0, 2.5], dtype) if dtype.is_floating_point else T([0, 1], dtype)
        for name in ("nan_to_num_with", "nan_to_num_with_"):
            for args in (
                (0.0, nan, nan),
                (nan, inf, -inf),
                (1e300, 1e300, -1e300),
                (1.5, 2.0, nan),
            ):
                yield Case(name, x, *args)
        yield Case("nan_to_num_with_", x.detach(), 1.0, nan, nan, flags=["direct"])
    yield Case("nan_to_num_with", T([[nan, 1.0]] * 3, f64).t(), 0.0, nan, nan)
    yield Case("nan_to_num_with", torch.zeros(0, 2), 0.0, nan, nan)
    mask = T([True, False, True])
    for a, b in itertools.product(OPERANDS[:4] + WEAK, OPERANDS[:4] + WEAK):
        yield Case("where", mask, a, b)
    yield Case("where", T([[True], [False]]), grid(3), grid(2, 1))
    yield Case("where", mask, T([nan, 1.0, inf], f64), T([0.0, nan, -inf], f64))
    yield Case("where", T([1, 0]), grid(2), grid(2))
    for t, v in itertools.product(OPERANDS[:4], WEAK + OPERANDS[4:]):
        yield Case("masked_fill", t, mask, v)
        yield Case("masked_fill_", t, mask, v)
        yield Case("clamp", t, v, None)
        yield Case("clamp", t, Number(0), v)
        yield Case("clamp_min", t, v)
        yield Case("clamp_max", t, v)
        yield Case("clamp_", t, v, Number(2))
        yield Case("clamp_min_", t, v)
        yield Case("clamp_max_", t, v)
    yield Case("masked_fill", grid(2, 3), T([1, 0, 1]), Number(1))
    yield Case("masked_fill", grid(2, 3), mask, T([1.0, 2.0]))
    yield Case("clamp", T([nan, 1.0, 5.0], f64), T([0.0, nan, 6.0], f64), T([2.0, 2.0, 2.0], f64))
    for w in (Number(0.3), Number(0.7), T(0.3, f64), T([0.1, 0.5, 0.9], f64)):
        yield Case("lerp", grid(3), grid(3), w)
        yield Case("lerp", grid(2, 3), grid(3), w)
        yield Case("lerp_", grid(2, 3), grid(3), w)
    yield Case("lerp", T([1, 2]), T([3, 4]), Number(0.5))
    yield Case("lerp", grid(3), T([1.0, 2.0, 3.0], f32), Number(0.5))
    for name in ("addcmul", "addcdiv"):
        yield Case(name, grid(2, 3), grid(3), grid(2, 1), 0.5)
        yield Case(name + "_", grid(2, 3), grid(3), grid(2, 1), -2.0)
        yield Case(name, T([1, 2, 3]), T([1, 2, 3]), T([2, 2, 2]), 2.0)
        yield Case(name, T([1.0, 2.0], f32), grid(2), grid(2), 1.0)
        yield Case(name, grid(2, 3), grid(4), grid(2, 1), 0.5)


def reductions():
    ties = T([[1.0, 3.0, 3.0], [2.0, nan, 0.0], [-inf, inf, 5.0]], f64)
    for name in ON_EVERYTHING:

        def cases(x):
            yield Case(name, x, flags=several)
            for dim in (0, -1, 1, 2, -3):
                yield Case(name + "_dim", x, *order, dim, *correction, *keep, flags=several)
            if keep:
                yield Case(name + "_dim", x, *order, -1, *correction, True, flags=several)
            if name in ("prod", "max", "min", "argmax", "argmin"):
                return
            for dims in ((), (0,), (0, 1), (1, -2), (0, 0), (3,)):
                yield Case(name + "_dims", x, *order, dims, *correction, *keep, flags=several)

        order, correction, keep = reduction_arguments(name)
        several = []
        yield from cases(grid(2, 3))
        for x in (
            T([[1, 5], [0, -2]]),
            T([[True, False]]),
            torch.zeros(0, 3, dtype=f64),
            T(1.0, f64),
        ):
            yield Case(name + "_dim", x, *order, 0, *correction, *keep)
        # Second gradients of NaN and infinity depend on the formula, so they aren't compared.
        several = ["valid", "first"]
        yield from cases(ties)
        several = ["valid"]
        yield from cases(T([[1.0, 3.0, 3.0], [0.0, 0.0, -2.0]], f32))
        yield from cases(T(2.5, f64))
        yield from cases(no_elements(0, 3))
        yield from cases(no_elements(2, 0, 3))
        yield from cases(T([[1, 5, 5], [0, -2, 3]]))
        yield from cases(T([[True, False], [True, True]]))
        yield from cases(grid(3, 1).detach().expand(3, 4).requires_grad_())
        yield from cases(grid(2, 3, 4).detach().permute(2, 0, 1).requires_grad_())


def norms_and_spreads():
    for p in (0.0, 1.0, 2.0, 3.0, 0.5, -1.0, -2.0, inf, -inf):
        for x in (
            grid(2, 3),
            T([[0.0, 0.0], [3.0, -4.0]], f64),
            T([[1.0, -1.0], [1.0, 1.0]], f64),
            T(0.0, f64),
            T([nan, 1.0, inf], f64),
            no_elements(0, 2),
            T([1, 2]),
        ):
            yield Case("norm_p", x, p)
            yield Case("norm_dim", x, p, -1, False)
            yield Case("norm_dim", x, p, 0, True)
            yield Case("norm_dims", x, p, (0, 1), False)
    for c in (0.0, 1.0, 2.0, 0.5, 10.0):
        for name in ("var", "std"):
            yield Case(name + "_dim", grid(3, 4), 1, c, False)
            yield Case(name + "_dims", grid(3, 4), (0, 1), c, True)
            yield Case(name + "_dims", T([[1.0, 1.0], [2.0, 2.0]], f64), (1,), c, False)
    yield Case("var", T([2.0], f64))
    yield Case("std", T([1.0, 1.0], f64))
    yield Case("std", T([1.0]))


def exponentials_and_products():
    for x in (
        grid(2, 3),
        T([-inf, -inf], f64),
        T([inf, 1.0], f64),
        T([nan, 1.0], f64),
        T(3.0, f64),
        T([1000.0, 1000.0], f64),
        no_elements(2, 0),
        T([[1, 2], [3, 4]]),
        T([True, False]),
    ):
        for dim in (0, 1, -1):
            yield Case("logsumexp", x, dim, False)
            for name in ("softmax", "softmin", "log_softmax", "cumsum", "cumprod", "logcumsumexp"):
                yield Case(name, x, dim)
        yield Case("logsumexp", x, 0, True)
        yield Case("logsumexp_dims", x, (), False)
        yield Case("logsumexp_dims", x, (0, -1), True)
    for v in ([2.0, 0.0, 3.0], [2.0, 0.0, 0.0, 4.0], [0.0, 1.0], [nan, 2.0, 0.0]):
        yield Case("cumprod", T(v, f64), 0)
        yield Case("prod", T(v, f64))
        yield Case("prod_dim", T([v, v], f64), 1, False)
    for v in ([-inf, -inf, 1.0], [1.0, inf, 2.0], [1.0, nan, 2.0], [1e4, -1e4, 1e4], [0.0] * 3):
        yield Case("logcumsumexp", T(v, f64), 0, flags=["first"])
        yield Case("logcumsumexp", T(v, f32), 0)
    yield Case("prod", T([[2.0, 0.0], [3.0, 4.0]], f64))
    yield Case("prod", T(3.0, f64))


EINSUMS = [
    ("ij,jk->ik", (2, 3), (3, 4)),
    ("ij,jk", (2, 3), (3, 4)),
    ("ii", (3, 3)),
    ("ii->i", (3, 3)),
    ("ij->ji", (2, 3)),
    ("ij->", (2, 3)),
    ("bij,bjk->bik", (2, 2, 3), (2, 3, 4)),
    ("i,j->ij", (2,), (3,)),
    ("...i,i", (2, 3, 4), (4,)),
    ("b...,b...->b", (2, 3, 4), (2, 3, 4)),
    ("ij,jk,kl->il", (2, 3), (3, 4), (4, 2)),
    ("bhqd,bhkd->bhqk", (2, 2, 3, 2), (2, 2, 4, 2)),
    ("ji", (2, 3)),
    ("i j , j k -> i k", (2, 3), (3, 4)),
    ("i...->...", (2, 3)),
    ("Ab,bA->A", (2, 3), (3, 2)),
    ("ij,jk->ik", (2, 3), (4, 4)),
    ("ij->k", (2, 3)),
    ("i1->i", (2, 3)),
    ("ij,jk->ik", (2, 3)),
    ("ij", (2, 3), (3, 4)),
    ("i", (2, 3)),
    ("ijk", (2, 3)),
    ("ij->ii", (2, 3)),
    ("i..j", (2, 3)),
    ("ij-->i", (2, 3)),
    ("", (2,)),
    ("...", (2, 3)),
    (",->", (), ()),
    ("->", ()),
    ("ij,ij->ij", (2, 1), (2, 3)),
    ("ij->...", (2, 3)),
    ("...ij->...ji", (0, 2, 3)),
    ("i,i->", (0,), (0,)),
    ("ij,jk->ik", (2, 3), (1, 4)),
    ("ijk,lm->j", (2, 3, 2), (2, 2)),
    ("i,j,k->ijk", (2,), (3,), (4,)),
    ("ij,ij,ij->ij", (2, 3), (2, 3), (2, 3)),
    ("b,bi,bij->bij", (2,), (2, 3), (2, 3, 2)),
    ("Aij,jk->Aik", (1, 2, 3), (3, 2)),
    ("Aij,jk->Aik", (2, 2, 3), (3, 2)),
    ("zAa,Aaz->aZ", (2, 3, 4), (3, 4, 2)),
    ("AB,BC->AC", (2, 3), (4, 2)),
    ("XZ,ZY->XY", (2, 3), (4, 2)),
    ("ia,aj->ij", (2, 3), (4, 2)),
    ("AA->A", (2, 3)),
    ("ij->AA", (2, 3)),
    ("ij{->ij", (2, 3)),
    ("i[->ij", (2, 3)),
    ("ij->i{", (2, 3)),
    ("ij>ji", (2, 3)),
    ("AB->B", (2, 3)),
    ("Ai,ij->j", (2, 3), (3, 4)),
    ("ij->i,j", (2, 3)),
    ("ij->i->j", (2, 3)),
    ("ij,jk->i1", (2, 3), (3, 4)),
    (70 * "i", (2, 3)),
    (70 * "i" + "...", (2, 3)),
    ("ij->" + 70 * "i", (2, 3)),
]


def dtypes():
    """Makes cases of the functions that take a dtype."""
    tensors = [
        T([[1.5, 2.25, -3.7], [0.5, 300.0, 1e-3]], f32),
        T([[1.5, 2.25, -3.7], [0.5, 300.0, 1e-3]], f64),
        T([[1.5, 2.25, -3.7]], f64, False),
        T([[1, 2, 300], [0, -1, 2]]),
        T([[True, False], [True, True]]),
        T(2.5, f32),
        torch.zeros(0, 3, dtype=f64, requires_grad=True),
        grid(4, 3, dtype=f32).detach().t().requires_grad_(),
        grid(1, 3).detach().expand(2, 3).requires_grad_(),
    ]
    for x, dtype in itertools.product(tensors, DTYPES):
        for name in ("sum", "nansum", "mean", "prod"):
            yield Case(name + "_as", x, dtype)
            for dim in (0, -1, 2):
                yield Case(name + "_dim_as", x, dim, dim < 0, dtype)
            for dims in ((), (0,), (0, 1)):
                if name != "prod":
                    yield Case(name + "_dims_as", x, dims, False, dtype)
        for name in ("cumsum", "cumprod", "softmax", "softmin", "log_softmax"):
            for dim in (0, -1, 2):
                yield Case(name + "_as", x, dim, dtype)
        yield Case("norm_as", x, dtype)
        for p in (2.0, 1.0, inf, 3.0):
            yield Case("norm_dim_as", x, p, -1, True, dtype)
            # An empty x with p = inf has two faults. torch names one, and ours the other.
            if x.numel() or p != inf:
                yield Case("norm_p_as", x, p, dtype)
                yield Case("norm_dims_as", x, p, (0,), False, dtype)
    for dtype in DTYPES:
        x = T([[1.5, nan, -2.7], [nan, nan, nan]], f32, False)
        yield Case("nansum_as", x, dtype)
        yield Case("nansum_dim_as", x, -1, False, dtype)
        yield Case("nansum_dims_as", x, (0,), True, dtype)
    for dtype in DTYPES:
        for end in (0, 5, 2.9, True, -1, nan, inf, 1e19, -3.7):
            yield Case("arange_as", Number(end), dtype)
        for a, b, c in (
            (1, 5, 2),
            (5, 1, -2),
            (0.5, 2.5, 0.5),
            (0.5, 2.5, 1),
            (1.2, 5.9, 1.5),
            (5, 1, -1.9),
            (1, 5, 0),
            (0, 1e19, 1e18),
            (0, 5, -1),
            (0, 5, nan),
            (2**53, 2**53 + 3, 1),
        ):
            yield Case("arange_step_as", *map(Number, (a, b, c)), dtype)
        for n, m in ((2, 3), (0, 2), (3, 3), (-1, 2), (2, -1)):
            yield Case("eye_as", n, m, dtype)


def products():
    shapes = [
        (),
        (3,),
        (0,),
        (2, 3),
        (3, 2),
        (3, 3),
        (0, 3),
        (3, 0),
        (2, 2, 3),
        (2, 3, 2),
        (1, 3, 4),
        (5, 1, 3, 2),
        (4, 3, 2),
    ]
    for a, b in itertools.product(shapes, shapes):
        yield Case("matmul", grid(*a), grid(*b))
    for name in ("dot", "mv", "mm", "bmm", "outer", "inner", "kron"):
        for a, b in itertools.product(
            [(), (3,), (0,), (2, 3), (3, 2), (2, 2, 3), (2, 3, 4), (0, 3, 2)], repeat=2
        ):
            yield Case(name, grid(*a), grid(*b))
        yield Case(name, grid(3), grid(3, dtype=f32))
        yield Case(name, grid(3, 3), grid(3, 3, dtype=f32))
        yield Case(name, T([1, 2, 3]), T([2, 3, 4]))
        yield Case(name, T([[1, 2], [3, 4]]), T([5, 6]))
        yield Case(name, T([True, False]), T([True, True]))
    yield Case("matmul", T([[1, 2], [3, 4]]), T([[1, 2], [3, 4]]))
    yield Case("matmul", grid(2, 2), T([[1, 2], [3, 4]]))
    yield Case("matmul", T([[True]]), T([[True]]))
    truths = [
        torch.ones(*shape, dtype=torch.bool)
        for shape in ((2,), (3,), (0,), (2, 3), (3, 2), (0, 2), (2, 0), (2, 2, 3), (2, 3, 0))
    ]
    for a, b in itertools.product(truths, truths):
        yield Case("matmul", a, b)
    for a in ((3,), (1, 3), (2, 3), (0, 3)):
        for b in ((2, 3, 1), (2, 3, 2), (2, 3, 0), (0, 3, 2)):
            yield Case("matmul", grid(*a), grid(*b))
            yield Case("matmul", grid(*a), grid(*b).detach())
            yield Case("matmul", grid(*a).detach(), grid(*b))
    for c in ((2, 4), (4,), (), (1,), (2, 1), (3, 4), (2, 5)):
        yield Case("addmm", grid(*c), grid(2, 3), grid(3, 4), 0.5, 2.0)
        yield Case("addmm", grid(*c), grid(2, 3), grid(3, 4), 0.0, 1.0)
    yield Case("addmm", T([nan, 1.0], f64), grid(2, 3), grid(3, 2), 0.0, 1.0)
    for beta in (0.0, 0.5):
        yield Case("addmm", grid(2), T([[nan, 1.0], [inf, 2.0]], f64), grid(2, 2), beta, 0.0)
    yield Case("addmm", grid(2), grid(2, 0), grid(0, 2), 1.0, 1.0)
    for c in ((2, 2, 4), (4,), (), (1, 2, 1), (3, 2, 4)):
        yield Case("baddbmm", grid(*c), grid(2, 2, 3), grid(2, 3, 4), 0.5, 2.0)
    yield Case("baddbmm", T([nan], f64), grid(2, 2, 3), grid(2, 3, 4), 0.0, 1.0)
    for x, w, b in (
        ((2, 3), (4, 3), (4,)),
        ((3,), (4, 3), (4,)),
        ((3,), (3,), ()),
        ((2, 5, 3), (4, 3), None),
        ((2, 3), (3,), None),
        ((2, 3), (4, 2), None),
        ((0, 3), (4, 3), (4,)),
        ((2, 3), (4, 3), (3,)),
        ((), (4, 3), None),
        ((2, 0), (4, 0), (4,)),
    ):
        yield Case("linear", grid(*x), grid(*w), None if b is None else grid(*b))
    for n in (0, 1, 2, 3, -1):
        yield Case("tensordot", grid(2, 3, 4), grid(3, 4, 2), n)
    for a, b in (
        ((1,), (0,)),
        ((1, 2), (0, 1)),
        ((0, -1), (-1, 1)),
        ((), ()),
        ((1,), (1,)),
        ((0, 0), (2, 2)),
        ((5,), (0,)),
        ((0,), (0, 1)),
    ):
        yield Case("tensordot_dims", grid(2, 3, 4), grid(3, 4, 2), a, b)
    for a, b in itertools.product([(), (1,), (2,), (1, 2), (2, 1)], repeat=2):
        yield Case("tensordot_dims", grid(*a), grid(*b), (0,), (0,))
        yield Case("tensordot_dims", grid(*a), grid(*b), (-1,), (0,))
    for equation, *operands in EINSUMS:
        yield Case("einsum_list", equation, [grid(*shape) for shape in operands])


def shapes():
    for case in on_shapes():
        if (
            case.args[0] is not COMMON[0]
            and case.args[0] is not COMMON[1]
            and any(case.args[0] is c for c in COMMON)
        ):
            case.flags.add("valid")
        yield case


COMMON = [
    grid(2, 3, 4),
    T(2.5, f64),
    grid(2, 3, 4).detach().permute(2, 0, 1).requires_grad_(),
    no_elements(0, 3),
    T([[1, 2], [3, 4]]),
    T([True, False]),
]


def along_dims(t):
    for d in (0, 1, -1, -4, 3, 5):
        yield Case("unsqueeze", t, d)
        yield Case("squeeze_dim", t, d)
        yield Case("unbind", t, d)
        yield Case("select", t, d, 0)
        yield Case("select", t, d, -1)
        yield Case("select", t, d, 7)
        yield Case("split", t, 2, d)
        yield Case("chunk", t, 2, d)
        yield Case("split_sizes", t, (1, 2), d)
        yield Case("narrow", t, d, 0, 1)
        yield Case("narrow", t, d, -2, 2)
        yield Case("narrow", t, d, 1, 9)
        yield Case("narrow", t, d, 9, 0)
        yield Case("narrow", t, d, 0, -1)
        for a, b, s in (
            (0, 2, 1),
            (-2, 9, 1),
            (1, 0, 1),
            (0, 9, 2),
            (-9, -1, 3),
            (0, 2, 0),
            (0, 2, -1),
        ):
            yield Case("slice", t, d, a, b, s)
        yield Case("flip_dims", t, (d,))
        yield Case("roll", t, 1, d)
        yield Case("roll", t, -5, d)
        yield Case("unflatten", t, d, (2, -1))
        yield Case("unflatten", t, d, (1, 2, 2))
        yield Case("unflatten", t, d, ())
        for e in (0, -1, 2):
            yield Case("transpose", t, d, e)
            yield Case("flatten", t, d, e)
            yield Case("movedim", t, d, e)
            yield Case("diagonal", t, 1, d, e)


def over_dims(t):
    """These take no dim, or several."""
    for name in ("squeeze", "T", "t", "mT", "trace", "contiguous", "clone", "nonzero"):
        yield Case(name, t)
    for k in (0, 1, -1, 5, -5):
        yield Case("tril", t, k)
        yield Case("triu", t, k)
        yield Case("diag", t, k)
    for p in ((0, 1, 2), (2, 0, 1), (-1, 0, 1), (0, 0, 1), (0, 1), (), (0, 1, 5), (1, 0)):
        yield Case("permute_dims", t, p)
        yield Case("squeeze_dims", t, p)
        yield Case("flip_dims", t, p)
        yield Case("repeat_dims", t, p)
        yield Case("tile_dims", t, p)
    yield Case("repeat_dims", t, (2, 1, 1, 2))
    yield Case("tile_dims", t, (2,))
    yield Case("repeat_dims", t, (-1, 1, 1))
    for s, d in (((1,), ()), ((1, 2), (0, 1)), ((1,), (0, 1)), ((30,), (0,)), ((1, 1), (0, 0))):
        yield Case("roll_dims", t, s, d)
    for s, d in (
        ((0, 1), (1, 0)),
        ((0,), (-1,)),
        ((0, 1), (0, 0)),
        ((0, 0), (0, 1)),
        ((0, 1), (2,)),
        ((2, 0), (0, 1)),
    ):
        yield Case("movedim_dims", t, s, d)


def in_parts(t):
    """These convert, cut, fit and pad."""
    for dtype in DTYPES:
        yield Case("to", t, dtype)
    for s in (0, 1, 3, 9, -1):
        yield Case("split", t, s, 0)
        yield Case("chunk", t, s, 0)
    for s in ((2,), (1, 1), (1, 1, 1), (3, -1), (), (0, 2)):
        yield Case("split_sizes", t, s, 0)
    for other in (grid(6, 4), grid(4, 3, 2), grid(1, 2, 3, 4), COMMON[1]):
        yield Case("view_as", t, other)
        yield Case("reshape_as", t, other)
        yield Case("expand_as", t, other)
    for pad in (
        (1, 2),
        (-1, 1),
        (1, 1, 2, 0),
        (0, 0, 1, 1),
        (-1, -2),
        (),
        (1,),
        (1, 1, 1, 1, 1, 1, 1, 1),
        (-3, -3),
        (1, 0, 0, 0, 0, 2),
    ):
        for mode, value in ((0, 0.0), (0, 2.5), (1, 0.0), (2, 0.0), (3, 0.0)):
            yield Case("pad_with", t, pad, mode, value)


def on_shapes():
    scalar, ints = COMMON[1], COMMON[4]
    targets = (
        (6, 4),
        (-1,),
        (2, -1, 2),
        (2, 12),
        (24,),
        (5, 5),
        (-1, -1),
        (-2, 12),
        (0, -1),
        (2, 3, 4, 1),
        (1,),
        (),
        (4,),
        (3, 0),
        (0,),
        (1, 2, 3, 4, 1),
    )
    for t, s in itertools.product(COMMON, targets):
        yield Case("view_dims", t, s)
        yield Case("reshape_dims", t, s)
    for t, s in itertools.product(
        (grid(1, 3), scalar, grid(3), torch.zeros(1, 0, dtype=f64), ints),
        (
            (2, 3),
            (-1, 3),
            (4, 2, 3),
            (3,),
            (2, 4),
            (-1, -1, -1),
            (),
            (0, 3),
            (-2, 3),
            (2, 0),
            (0,),
            (-1, 2, 3),
        ),
    ):
        yield Case("expand_dims", t, s)
    for t in COMMON:
        yield from along_dims(t)
        yield from over_dims(t)
        yield from in_parts(t)
    for t in (grid(3), grid(1, 1, 3), grid(3, 2)):
        yield Case("trace", t)
        yield Case("diag", t, 0)
        yield Case("diag", t, 1)
    yield Case("to", T([1.9, -1.9, nan, inf, 3e9]), i64)
    yield Case("to", T([nan, 0.0, -0.0, 0.5]), b8)
    yield Case("to", T([2**53 + 1, 16777217]), f32)
    yield Case("to", T([1e300, 1e-300, nan], f64), f32)
    yield Case("trace", T([[1, 2], [3, 4]]))
    yield Case("trace", T([[True]]))
    yield from joined()


def joined():
    lists = (
        [grid(2, 3), grid(2, 3)],
        [grid(2, 3)],
        [grid(0), grid(2, 3)],
        [grid(3), T([1, 2, 3]), T([True])],
        [T([1]), T([1.5])],
        [grid(2, 3), grid(3, 3)],
        [COMMON[1], COMMON[1]],
        [grid(2), grid(2, 3)],
        [T([1.0], f32), T([2.0], f64)],
        [grid(2, 0), grid(2, 3)],
        [T(True), T(2)],
        [T([True]), T([False])],
        [],
    )
    for given in lists:
        for d in (0, 1, -1, 2, -4):
            yield Case("cat", given, d)
            yield Case("stack", given, d)
        yield Case("hstack", given)
        yield Case("vstack", given)


def indexing():
    for function, given in subscript.cases(360):
        yield Case(function, *given)
    x = grid(3, 4, 2)
    for i in (
        "0",
        "-1",
        "1:3",
        "...",
        "..., 0",
        "None",
        ":, None, 1",
        "::2",
        "1:3, None, -1",
        "0, 1, 1",
        "3",
        "-4",
        "0, 0, 0, 0",
        "::0",
        "5:",
        "2:1",
        "-2:, :2",
        "True",
        "False",
        "None, None",
        "..., None",
        "0, ..., 1",
        "..., ...",
        ":, :, :",
        "::-1",
        "1:10:3",
        "0:0",
        "True, 1",
    ):
        yield Case("index_items", x, i)
        yield Case("set_items_", x, Number(9), i)
        if i in ("0", "1:3", "...", "::2", "..., 0", "-2:, :2", "None"):
            yield Case("set_items_", x, grid(2), i)
            yield Case("set_items_", x, grid(7), i)


def indexing_by_tensors():
    x = grid(3, 4, 2)
    m, m3 = T([True, False, True]), T([[True, False, True, False]] * 3)
    for i in (
        (T([0, 2]),),
        (T([[0, -1]]),),
        (T([0, 3]),),
        (T([-4]),),
        (m,),
        (m3,),
        (m, T([0, 1])),
        (":", T([1, 1, 0])),
        (T([0, 1]), T([2, 3])),
        (T([0, 1]), ":", T([1, 0])),
        (":", T([0, 1]), T([1, 0])),
        (1, T([0, 1])),
        (T([0, 1]), 1),
        (T(1),),
        (T(1), ":", T([0, 1])),
        ("None", T([0, 1])),
        (T([]).long(),),
        (T([True, False]),),
        (T([1.0, 2.0]),),
        (m3, 0),
        ("...", T([0, 1])),
        (T([[0, 1, 2]] * 2), T([[0, 1, 2]] * 3)),
        (T([[0, 1, 2]] * 2), T([[0, 1]] * 2)),
        (T([[0, 1]] * 2), T([[0, 1, 2]] * 2)),
        (T([[0, 1, 2]] * 2), ":", T([[0, 1]] * 2)),
        (True,),
        (False,),
        (True, 0),
        (T(True),),
        (T(False),),
        (1, "None", T([0])),
        (T([[0], [1]]), T([[0, 1]])),
        (T([0, 1]), T([0, 1, 2])),
        (T([0]), "None", T([1])),
        ("1:", T([0, 0, 1])),
        (m, ":", 0),
        (m, ":", T([0, 1])),
        (T([0, 0]), "1:3"),
    ):
        yield Case("index_items", x, *i)
        yield Case("set_items_", x, Number(-1.5), *i)
        yield Case("set_items_", x, grid(1).detach()[0].requires_grad_(), *i)
        yield Case("set_items_", x, grid(2), *i)
    yield Case("index_items", T(3.0, f64), "None")
    yield Case("index_items", T(3.0, f64), 0)
    yield Case("index_items", T(3.0, f64), "...")
    yield Case("index_items", T([1.0, 2.0, 3.0]), T(1))
    yield Case("index_items", T([[1.0, 2.0]]), True)
    yield Case("index_items", T([1, 2]), T([True, False]))
    yield Case("set_items_", T([1, 2, 3]), Number(2.5), "0")
    yield Case("set_items_", T([1, 2, 3]), T([1.5]), T([0]))
    yield direct("set_items_", grid(3), grid(3), ":")
    yield Case("set_items_", grid(3, dtype=f32), grid(3), ":")


def gathering():
    y = grid(3, 4)
    for i in (
        T([[0, 1, 2, 0]]),
        T([[0, 2], [1, 1]]),
        T([[0, 3]]),
        T([[-1, 0]]),
        T([0, 1]),
        T([[0.5]]),
        torch.zeros(0, 4, dtype=i64),
        T([[0, 0, 0, 0, 0]]),
    ):
        for d in (0, 1, -1, 2):
            yield Case("gather", y, d, i)
            yield Case("take_along_dim", y, i, d)
            for source in (grid(3, 4), grid(1, 4), Number(2.5), grid(3, 4, dtype=f32)):
                for name in ("scatter", "scatter_"):
                    yield Case(name, y, d, i, source)
                if not isinstance(source, Number):
                    for name in ("scatter_add", "scatter_add_"):
                        yield Case(name, y, d, i, source)
    for i in (T([0, 2, 0]), T(1), T([3]), T([-1]), T([]).long(), T([[0, 1]]), T([0.5])):
        for d in (0, 1, -1, 2):
            yield Case("index_select", y, d, i)
            for source in (grid(3, 4), grid(3, 3), grid(1, 4), grid(4)):
                for name in ("index_add", "index_add_"):
                    yield Case(name, y, d, i, source, 1.0)
                    yield Case(name, y, d, i, source, -0.5)
    for t in (T(2.0, f64), T([1, 2, 3])):
        yield Case("gather", t, 0, T([0]))
        yield Case("index_select", t, 0, T([0]))
        yield Case("gather", t, 0, T(0))
        yield Case("scatter", t, 0, T([0]), Number(1))
        yield Case("take_along_dim", t, T([-1]), 0)
    yield Case("take_along_dim", no_elements(0, 3), T([[0, 1, 2]]), 1)
    yield Case("take_along_dim", y, T([[-3, 5, 2, -1]]), 0)
    yield Case("take_along_dim", y, T([[-3, 5, 2, -1]]), 1)
    for t, source in ((T([1, 2, 3]), T([5, 7])), (T([True, False, True]), T([True, True]))):
        for alpha in (0.0, 1.0, 3.0, -2.0):
            yield Case("index_add", t, 0, T([0, 2]), source, alpha)
    yield Case("index_add", grid(3), 0, T([0, 5]), grid(2), 1.0)
    yield Case("index_add", grid(3), 0, T([0, 5]), grid(2), 2.0)
    yield Case("index_add", T(1.0, f64), 0, T([5]), grid(1), 1.0)
    for t, k in (
        (y, T([[True], [False], [True]])),
        (y, T([True, False, True, False])),
        (T(2.0, f64), T(True)),
        (y, T([1, 0, 1, 0])),
        (T([1, 2]), T([True, False])),
        (y, T([True, False])),
        (grid(0, 2), torch.zeros(0, 2, dtype=b8)),
    ):
        yield Case("masked_select", t, k)
    for t in (
        T([0.0, -0.0, nan, 1.0]),
        T([[0, 1], [2, 0]]),
        T([True, False]),
        T(0.0),
        T(3),
        torch.zeros(0, 2),
    ):
        yield Case("nonzero", t)


def ordering():
    for t in (
        T([3.0, 1.0, nan, 2.0, 1.0], f64),
        T([[1.0, 3.0, 2.0], [5.0, 4.0, 6.0]], f64),
        T([3, 1, 2, 1]),
        T([True, False, True]),
        T(2.0, f64),
        no_elements(0, 3),
        T([inf, -inf, nan, 0.0, -0.0], f64),
    ):
        for d in (0, -1, 1, 2):
            for down in (False, True):
                yield Case("sort", t, d, down)
                yield Case("argsort", t, d, down)
            for k in (0, 1, 2, 9, -1):
                yield Case("topk", t, k, d, True, True)
                yield Case("topk", t, k, d, False, True)
            yield Case("unique_dim", t, d)
        yield Case("unique", t)
        yield Case("unique_full", t)
    yield Case("unique", T([nan, nan, 1.0]))
    yield Case("unique_dim", T([[1, 2], [1, 2], [0, 5]]), 0)
    yield Case("unique_full", T([[3, 1], [1, 3]]))


def searching():
    edges = T([0.0, 1.0, 1.0, 2.0], grad=False)
    for right in (False, True):
        for v in (
            T([1.0, nan, -1.0, 5.0, 1.5], grad=False),
            T([[1.0], [2.0]], grad=False),
            Number(1.0),
            Number(1),
            T([1, 2]),
            T(1.0, grad=False),
            torch.zeros(0),
        ):
            yield Case("searchsorted", edges, v, right)
            yield Case("bucketize", v, edges, right)
        yield Case(
            "searchsorted",
            T([[0.0, 1.0], [1.0, 2.0]], grad=False),
            T([[1.0], [1.0]], grad=False),
            right,
        )
        yield Case("searchsorted", T([[0.0, 1.0], [1.0, 2.0]], grad=False), Number(1.0), right)
        yield Case(
            "searchsorted", T([[0.0, 1.0], [1.0, 2.0]], grad=False), T([1.0], grad=False), right
        )
        yield Case("bucketize", T([1.0, 2.0], grad=False), T([[1.0, 2.0]], grad=False), right)
        yield Case("searchsorted", T([1, 3, 5]), T([3, 6]), right)
        yield Case("searchsorted", T([1.0, nan], grad=False), T([nan, 2.0], grad=False), right)
        yield Case("searchsorted", T([1.0, 2.0], f64, False), T([1.0], f32, False), right)
        yield Case("searchsorted", T([1.0, 2.0]), T([1.0]), right)


def embedding_by_hand():
    for t in (
        T([0, 2]),
        T(1),
        T([[0, 1], [2, 0]]),
        torch.zeros(0, dtype=i64),
        T([-1]),
        T([1.0]),
        T([True]),
    ):
        for n in (-1, 3, 2, 0):
            yield Case("one_hot", t, n)
    for i in (
        T([0, 2, 2]),
        T([[1, 0]]),
        T(1),
        torch.zeros(0, 2, dtype=i64),
        T([3]),
        T([-1]),
        T([0.5]),
    ):
        for pad in (NO_PADDING, 0, -1, 2, 5, -4):
            yield Case("embedding_with", i, grid(3, 2), pad, 0.0, 2.0, 0)
    yield Case("embedding_with", T([0]), grid(3), NO_PADDING, 0.0, 2.0, 0)
    often = T([[0, 2, 2], [1, 2, 0]])
    for padding in (NO_PADDING, 2, 0):
        yield Case("embedding_with", often, grid(4, 3), padding, 0.0, 2.0, 1)
    yield Case("embedding_with", often[0, 0], grid(4, 3), NO_PADDING, 0.0, 2.0, 1)
    yield Case("embedding_with", often[:0], grid(4, 3), NO_PADDING, 0.5, 2.0, 1)
    yield Case("embedding_with", often, grid(4, 3, dtype=f32), 0, 0.5, 2.0, 1)
    for most, norm in itertools.product((0.5, 1.25, inf, nan), (2.0, 1.0, inf, 3.0)):
        yield Case("embedding_with", often, grid(4, 3), NO_PADDING, most, norm, 0)
    yield Case("embedding_with", often, grid(3, 4).detach().t().requires_grad_(), 1, 0.5, 2.0, 0)
    odd = T([[nan, 1.0], [inf, 2.0], [3.0, 4.0]], f64)
    yield Case("embedding_with", often, odd, 1, 0.5, 2.0, 0)
    for i, w in (
        (T([3]), grid(3, 2)),
        (T([-1]), grid(3, 2)),
        (T([0.5]), grid(3, 2)),
        (T([True]), grid(3, 2)),
        (T([0]), grid(3)),
        (T([0]), T([[1, 2], [3, 4]])),
        (T([0]), T([[True], [False]])),
        (T([0]), grid(3, 0)),
    ):
        yield Case("embedding_with", i, w, NO_PADDING, 0.5, 2.0, 0)


def interleaving():
    """These repeat slices, embed diagonals, and slide windows along a dim."""
    x = grid(2, 3)
    for offset in (0, 1, -2, 2**62):
        for d, e in ((-2, -1), (0, 2), (2, 0), (1, 1), (1, 3)):
            yield Case("diag_embed", x, offset, d, e)
    for t in (T(1.0, f64), T([1, 2]), T([True, False]), torch.zeros(0, dtype=f64), grid(0, 2)):
        yield Case("diag_embed", t, 0, -2, -1)
        yield Case("diag_embed", t, -1, 1, 0)
    y = grid(4, 5)
    for t in (y, grid(5, 4).detach().t().requires_grad_(), T(1.5, f64), T([1, 2, 3]), grid(0, 3)):
        for d in (0, -1, 1, 2):
            for size, step in ((2, 1), (2, 3), (3, 1), (0, 1), (1, 1), (9, 1), (-1, 1), (1, 0)):
                yield Case("unfold", t, d, size, step)
    yield Case("unfold", y, 1, 2, 2**62)
    for times in (
        Number(2),
        Number(0),
        Number(-1),
        Number(True),
        T([1, 2]),
        T([0, 3]),
        T(2),
        T([2]),
        T([1, -1]),
        T([-1, 1]),
        T([1, 2, 3]),
        T([[1, 2]]),
        T([1.0, 2.0], grad=False),
        T([True, False]),
        T([3, 0]).expand(2),
    ):
        for d in (NO_DIM, 0, 1, -1, 2):
            yield Case("repeat_interleave_with", x, times, d, -1)
        yield Case("repeat_interleave_with", x, times, 0, 3)
        yield Case("repeat_interleave_with", x, times, 0, 4)
        yield Case("repeat_interleave_with", T(1.5, f64), times, NO_DIM, -1)
        yield Case("repeat_interleave_with", T(1.5, f64), times, 0, -1)
        yield Case("repeat_interleave_with", T([1, 2]), times, 0, -1)
    eight = grid(2, 1, 1, 1, 1, 1, 1, 3)
    yield Case("repeat_interleave_with", eight, Number(2), 7, -1)
    yield Case("repeat_interleave_with", grid(0, 2), Number(2), NO_DIM, -1)
    yield Case("repeat_interleave_with", grid(0, 2), torch.zeros(0, dtype=i64), 0, -1)
    for indexing in ("ij", "xy", "zz"):
        for tensors in (
            [grid(2), grid(3)],
            [grid(2), T(1.5, f64), grid(3)],
            [grid(3)],
            [T(2.0, f64)],
            [grid(2), grid(0)],
            [T([1, 2]), T([3])],
            [grid(2), T([1, 2])],
            [grid(2), grid(2, 2)],
            [],
            [grid(1)] * 9,
        ):
            yield Case("meshgrid_with", tensors, indexing)


def writing_at_indices():
    """These take elements by one index, and write over slices, or join elements, at indices."""
    y = grid(3, 4)
    for index in (T([]).long(), torch.zeros(0, 4, dtype=i64), torch.zeros(2, 0, dtype=i64)):
        for source in (grid(0), grid(*index.shape), grid(3, 4)):
            for name in ("scatter", "scatter_add"):
                yield Case(name, y, 0, index, source)
            for how in ("sum", "prod", "mean", "amax", "amin"):
                yield Case("scatter_reduce_with", y, 0, index, source, how, True)
    for i in (T([0, 11, 5]), T([[-1, 3]]), T(2), T([12]), T([-13]), T([0.5]), T([True])):
        for t in (y, grid(4, 3).detach().t().requires_grad_(), T(1.5, f64), T([1, 2, 3])):
            yield Case("take", t, i)
    yield Case("take", torch.zeros(0), T([0]))
    yield Case("take", torch.zeros(0), torch.zeros(0, dtype=i64))
    indices = [T([0, 2]), T(1), T([-1]), T([3]), T([-4]), T([]).long(), T([[0, 1]]), T([0.5])]
    for i in indices + [T([True])]:
        for d in (0, -1, 2):
            in_place = [] if d else ["_"]
            for end in ["", *in_place]:
                for v in (Number(2.5), T(1.5, f64), T(2), T([1.0], f64)):
                    yield Case("index_fill" + end, y, d, i, v)
                for source in (grid(2, 4), grid(3, 2), grid(1, 4), grid(4)):
                    yield Case("index_copy" + end, y, d, i, source)
    for i in (T([0]), T(0), T([-1]), T([0, 0]), T([1]), T([]).long()):
        for t in (T(1.5, f64), T(3), T(True), grid(3), T([1, 2]), grid(0, 3), grid(2, 0)):
            for v in (Number(2), Number(0.5), T(2.5, f64), T(0.5, f32), Number(1e30)):
                yield Case("index_fill", t, 0, i, v)
            for source in (T(5.0, f64), T([5.0], f64), T([5.0, 6.0], f64), T(2), T([4])):
                yield Case("index_copy", t, 0, i, source)
    yield Case("index_copy", y, 0, T([1]), grid(1, 4, dtype=f32))
    yield Case("index_copy", grid(2, 3, 4), 1, T([1]), grid(2, 1, 5))
    yield Case("index_copy", grid(2, 3, 4), 1, T([2, 0]), grid(2, 2, 4))
    yield Case("index_copy_", y.detach(), 0, T([1, 0, 2]), y.detach())
    for how in ("sum", "prod", "mean", "amax", "amin", "add"):
        for own in (True, False):
            for name in ("scatter_reduce_with", "scatter_reduce_with_"):
                yield Case(name, y, 0, T([[0, 1, 2, 0], [0, 0, 2, 1]]), grid(2, 4), how, own)
                yield Case(name, y, 1, T([[0, 2], [1, 1]]), grid(3, 4), how, own)
                yield Case(name, y, 0, torch.zeros(0, 4, dtype=i64), grid(3, 4), how, own)
                yield Case(name, T([1, 5, -3]), 0, T([0, 0, 2, 2]), T([4, -9, 2, 2]), how, own)
                for sign in (1, -1):
                    yield Case(
                        name,
                        T([1, 5, -3]),
                        0,
                        T([0, 2, 2]),
                        sign * T([2**62 + 7, 2**62 + 9, 2**62 + 8]),
                        how,
                        own,
                    )
                yield Case(
                    name, T([True, False]), 0, T([0, 0, 1]), T([True, False, True]), how, own
                )
            for i in (T([[0, 3]]), T([[-1, 0]]), T([0, 1])):
                yield Case("scatter_reduce_with", y, 0, i, grid(2, 4), how, own)
            yield Case("scatter_reduce_with", y, 2, T([[0]]), grid(1, 1), how, own)
            yield Case("scatter_reduce_with", y, 0, T([[0.5]]), grid(1, 1), how, own)
            yield Case("scatter_reduce_with", y, 0, T([[0]]), grid(1, 1, dtype=f32), how, own)
            for t in (T(2.0, f64), T([2.0, nan, 1.0], f64), T([0.0, 3.0], f64)):
                for source in (T([3.0, 3.0, 2.0], f64), T([0.0, nan, 0.0], f64)):
                    i = T([0, 0, 0]) if t.dim() == 0 else T([0, 1, 0])
                    yield Case("scatter_reduce_with", t, 0, i, source, how, own)
            zeros = T([0.0, 0.0, 0.0, 2.0], f64)
            yield Case(
                "scatter_reduce_with", T([4.0, 0.0], f64), 0, T([0, 0, 1, 1]), zeros, how, own
            )
            ties = T([[1.0, 3.0, 3.0], [3.0, 3.0, 2.0]], f64)
            yield Case("scatter_reduce_with", ties, 0, T([[0, 0, 1], [0, 1, 1]]), ties, how, own)


def distances():
    mm = "use_mm_for_euclid_dist"
    modes = (mm + "_if_necessary", mm, "donot_" + mm)
    shapes = [(2, 3), (4, 3), (3,), (), (2, 2), (0, 3), (2, 0), (3, 1, 2, 3), (2, 4, 3), (3, 4, 3)]
    for a, b in itertools.product(shapes, shapes):
        yield Case("cdist_with", grid(*a), grid(*b), 1.0, modes[0])
    for p in (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, inf, -1.0, nan):
        a, b = grid(3, 2), T([[0.0, 1.0], [-0.75, 0.125], [1.0, 2.0], [nan, 1.0]], f64)
        yield Case("cdist_with", a, b, p, modes[2])
        same = T([[1.0, 2.0], [1.0, 2.0], [1.0, 3.0]], f64)
        yield Case("cdist_with", same, same, p, modes[2])
        yield Case("cdist_with", grid(3, 2, dtype=f32), grid(4, 2, dtype=f32), p, modes[2])
        yield Case("cdist_with", grid(3, 2), grid(3, 2, dtype=f32), p, modes[2])
        yield Case("cdist_with", T([[1, 2]]), grid(3, 2), p, modes[0])
        yield Case("cdist_with", grid(1, 2), T([[1, 2]]), p, modes[0])
    for mode in modes + ("mm",):
        yield Case("cdist_with", R(1, 2, 3, 5), R(2, 4, 5), 2.0, mode)
        yield Case("cdist_with", R(1, 5, 3, turned=True), R(2, 27, 3), 2.0, mode)
        yield Case("cdist_with", R(1, 2, 2, 27, 3), R(2, 27, 3), 2.0, mode)
        for a, b in (((27, 0), (2, 0)), ((0, 27, 3), (27, 3))):
            yield Case("cdist_with", grid(*a), grid(*b), 2.0, mode)
        for a, b in (((27, 3), (0, 3)), ((0, 3), (27, 3))):
            yield Case("cdist_with", grid(*a), grid(*b), 2.0, mode)
    for dtype in (f64, f32):
        for p in (1.0, 2.0, 2.5, inf):
            yield Case(
                "cdist_with", R(1, 41, 37, dtype=dtype), R(2, 67, 37, dtype=dtype), p, modes[2]
            )
        yield Case(
            "cdist_with", R(1, 41, 37, dtype=dtype), R(2, 67, 37, dtype=dtype), 2.0, modes[0]
        )


def ranks():
    """These find elements by their rank, and count integers."""
    ties = T([[2.0, 1.0, 2.0, 1.0, 3.0], [nan, 1.0, -inf, nan, inf]], f64)
    many = torch.tensor([[(7 * i * i + 3 * j) % 5 for i in range(40)] for j in range(2)])
    for x in (
        grid(3, 4),
        ties,
        ties.detach().float().requires_grad_(),
        T([3, 1, 2, 2]),
        T([True, False]),
        T(2.5, f64),
        T(3),
        torch.zeros(0, dtype=f64, requires_grad=True),
        torch.zeros(0, 3, dtype=f64, requires_grad=True),
        torch.zeros(0, dtype=i64),
        grid(2, 3, 4).detach().permute(2, 0, 1).requires_grad_(),
        many,
        many.double(),
    ):
        yield Case("median", x)
        for d in (0, 1, -1, 3):
            for keep in (False, True):
                yield Case("median_dim", x, d, keep)
            for k in (1, 2, 4, 0):
                yield Case("kthvalue", x, k, d, k == 2)
    for k in range(1, 41, 3):
        yield Case("kthvalue", many, k, 1, False)
    q = T([0.0, 0.3, 0.5, 1.0], f64)
    for how in ("linear", "lower", "higher", "midpoint", "nearest"):
        for d in (NO_DIM, 0, -1):
            for x in (grid(3, 4), ties, T(1.5, f64)):
                yield Case("quantile_with", x, Number(0.4), d, False, how, flags=["first"])
                yield Case("quantile_with", x, q, d, True, how, flags=["first"])
    for x in (grid(3, 4), T([1, 2]), T([True]), grid(3, dtype=f32), torch.zeros(0), grid(0, 2)):
        for q in (
            Number(1),
            Number(-0.5),
            Number(nan),
            T(0.25, f64),
            T([0.5], f32),
            T([[0.5]], f64),
        ):
            yield Case("quantile_with", x, q, NO_DIM, False, "linear")
    for q in (T([0.5, 1.5], f64), T([nan], f64), torch.zeros(0, dtype=f64), Number(0.3)):
        for d in (1, 2):
            yield Case("quantile_with", grid(3, 4), q, d, False, "linear")
            yield Case("quantile_with", grid(3, 4), q, d, False, "cubic")
    one = T([3.0, 1.0, 2.0], grad=False)
    for s in (
        T([1, 2, 0]),
        T([1, 2]),
        T([1.0, 2.0, 0.0]),
        T([1, 2, 3]),
        T([-1, 2, 0]),
        T([[1, 2, 0]]),
    ):
        for v in (T([1.5, 3.0], grad=False), Number(2.0), torch.zeros(0), T([1, 2])):
            yield Case("searchsorted_with", one, v, False, s)
            yield Case("searchsorted_with", one, v, True, s)
    yield Case(
        "searchsorted_with",
        T([[3.0, 1.0], [2.0, 5.0]]),
        T([[1.5], [4.0]]),
        True,
        T([[1, 0], [0, 1]]),
    )
    yield Case("searchsorted_with", torch.zeros(0), T([1.0]), False, torch.zeros(0, dtype=i64))
    for x in (
        T([0, 1, 1, 5]),
        T([0, -1]),
        T([[0, 1]]),
        T(0),
        T([0.0, 1.0], grad=False),
        T([True, False]),
        torch.zeros(0, dtype=i64),
        torch.zeros(0),
        T([2**63 - 1]),
        T([3, 0, 1, 2, 9, 3])[::2],
    ):
        for w in (None, grid(4), grid(3, dtype=f32), T([1, 2, 3, 4]), T([True, False]), grid(1, 2)):
            for least in (0, 8, -1):
                yield Case("bincount_with", x, w, least)


def normalizing():
    x = grid(2, 3, 4)
    rows = T([[-inf, -inf], [nan, 1.0], [inf, 1.0], [1000.0, 1000.0]], f64)
    for name in ("softmax", "softmin", "log_softmax"):
        for d in (0, 1, -1, 2, -3, 3):
            yield Case(name, x, d)
        yield Case(name, rows, 1)
        yield Case(name, rows, 0)
    for shape in ((2, 3, 4), (4,), (3,), (0, 4), (2, 0), (), (6, 1)):
        for d in (0, 1, -1, 2):
            yield Case("glu", grid(*shape), d)
    yield Case("glu", rows, 1, flags=["first"])
    yield Case("glu", rows, 0, flags=["first"])
    yield Case("glu", grid(4, dtype=f32), 0)
    yield Case("glu", grid(4, 3).detach().t().requires_grad_(), 1)
    yield Case("glu", grid(1, 4).detach().expand(4, 4).requires_grad_(), 0)
    for t in (T([1, 2]), T([True, False])):
        yield Case("glu", t, 0)
        yield Case("prelu", t, t[:1])
        yield Case("prelu", t, T([0.5]))
    for shape in ((2, 3, 4), (2, 3), (3,), (1,), (), (0, 3), (2, 0), (2, 3, 0)):
        for w in ((), (1,), (3,), (4,), (0,), (1, 1), (1, 3)):
            yield Case("prelu", grid(*shape), grid(*w))
    special = T([nan, inf, -inf, 0.0, -0.0, 1e300, -1e300], f64)
    yield Case("prelu", special, T([0.5], f64), flags=["first"])
    yield Case("prelu", T([0.0, -0.0, 1.0, -2.0], f64), T([0.25], f64))
    yield Case("prelu", grid(2, 3), grid(3, dtype=f32))
    yield Case("prelu", grid(2, 3, dtype=f32), grid(3, dtype=f32))
    yield Case("prelu", grid(4, 3).detach().t().requires_grad_(), grid(4))
    yield Case("prelu", grid(4, 3).detach().t().requires_grad_(), T(0.25, f64, False))
    for interleaved in (False, True):
        for shape, angles in (
            ((2, 3, 4), (3, 2)),
            ((2, 3, 4), (2, 3, 2)),
            ((2, 3, 4), (2,)),
            ((3, 4), (1, 2)),
            ((4,), ()),
            ((0, 4), (2,)),
            ((2, 0), (0,)),
        ):
            yield Case("rotary_embedding", grid(*shape), grid(*angles), grid(*angles), interleaved)
        x = grid(4, 3, dtype=f32).detach().t().requires_grad_()
        yield Case("rotary_embedding", x, grid(2, dtype=f32), grid(3, 2, dtype=f32), interleaved)
    flat = T([[2.0, 2.0, 2.0], [1.0, 1.0, 1.0]], f64)
    for shape, w, b in (
        ((4,), grid(4), grid(4)),
        ((3, 4), None, None),
        ((4,), grid(4), None),
        ((4,), None, grid(4)),
        ((2, 3, 4), None, None),
        ((3,), None, None),
        ((), None, None),
        ((4,), grid(3), None),
        ((1, 2, 3, 4), None, None),
    ):
        yield Case("layer_norm", x, shape, w, b, 1e-5)
        yield Case("rms_norm", x, shape, w, -1.0)
        yield Case("rms_norm", x, shape, w, 1e-3)
    yield Case("layer_norm", flat, (3,), None, None, 1e-5)
    yield Case("layer_norm", flat, (3,), None, None, 0.0, flags=["first"])
    yield Case("rms_norm", T([[0.0, 0.0]], f64), (2,), None, -1.0)
    yield Case("layer_norm", grid(0, 4), (4,), grid(4), grid(4), 1e-5)
    yield Case("layer_norm", grid(2, 0), (0,), None, None, 1e-5)
    yield Case("layer_norm", T([[1, 2]]), (2,), None, None, 1e-5)
    yield Case("layer_norm", grid(2, 4, dtype=f32), (4,), grid(4), grid(4), 1e-5)
    yield Case("layer_norm", grid(4), (4,), grid(4), grid(4), 1e-5)
    for g in (1, 2, 4, 3, 0, -1):
        yield Case("group_norm", grid(2, 4, 3), g, grid(4), grid(4), 1e-5)
        yield Case("group_norm", grid(2, 4), g, None, None, 1e-5)
    yield Case("group_norm", grid(2, 4, 2, 2), 2, grid(4), None, 1e-5)
    yield Case("group_norm", grid(4), 2, None, None, 1e-5)
    yield Case("group_norm", grid(0, 4, 2), 2, grid(4), grid(4), 1e-5)
    yield Case("group_norm", grid(2, 4), 2, grid(3), None, 1e-5)
    for p in (1.0, 2.0, 3.0, inf, 0.0):
        for t in (grid(2, 3), T([[0.0, 0.0], [3.0, 4.0]], f64)):
            for d in (0, 1, -1, 2):
                yield Case("normalize", t, p, d, 1e-12)
    for a, b, d in (
        ((2, 3), (2, 3), 1),
        ((2, 3), (3,), -1),
        ((2, 1, 3), (4, 3), 2),
        ((3,), (3,), 0),
        ((2, 3), (2, 3), 2),
        ((2, 3), (2, 4), 1),
        ((0, 3), (0, 3), 1),
        ((2, 0), (2, 0), 1),
        ((), (), 0),
    ):
        yield Case("cosine_similarity", grid(*a), grid(*b), d, 1e-8)
    yield Case("cosine_similarity", T([0.0, 0.0], f64), T([1.0, 2.0], f64), 0, 1e-8)
    yield Case("cosine_similarity", T([1, 2]), T([1, 2]), 0, 1e-8)
    yield Case("cosine_similarity", T([1.0, 2.0]), grid(2), 0, 1e-8)
    for p in (0.0, 0.25, 0.5, 1.0, -0.5, 1.5, nan):
        for training in (True, False):
            yield Case("dropout_with", grid(4, 5), p, training)
            yield Case("dropout_with", grid(3, dtype=f32), p, training)
    yield Case("dropout_with", T(1.5, f64), 0.5, True)
    yield Case("dropout_with", T([1, 2]), 0.5, True)
    yield Case("dropout_with", no_elements(0, 2), 0.5, True)
    yield Case("dropout_with", turned(grid(3, 4)), 0.5, True)
    chances = [[0.0, 0.25, 0.5], [0.75, 1.0, 0.3]]
    for x in (chances, 0.5, [], [[0.5], [1.5]], [nan], [-0.25]):
        yield Case("bernoulli_with", T(x, f64))
        yield Case("bernoulli_with", T(x, f32).detach())
    yield Case("bernoulli_with", turned(T(chances, f64)))
    yield Case("bernoulli_with", T([0, 1]))


def attending():
    q, k, v = grid(2, 3, 4), grid(2, 5, 4), grid(2, 5, 2)
    mask = torch.tensor([[True, False, True, True, False]] * 3)
    none = torch.tensor([[False] * 5, [True] * 5, [True] * 5])
    for m in (
        None,
        mask,
        none,
        grid(3, 5),
        grid(2, 1, 5),
        grid(2, 3, 4),
        T([[-inf] * 5] * 3, f64, False),
    ):
        for causal in (0, 1):
            yield attend(q, k, v, m, causal=causal)
        yield attend(q, k, v, m, scale=0.3)
    yield attend(grid(3, 4), grid(5, 4), grid(5, 2))
    yield attend(grid(2, 2, 3, 4), grid(2, 2, 5, 4), grid(2, 2, 5, 4))
    yield attend(grid(4), grid(4), grid(4))
    yield attend(grid(1, 4, 3, 2), grid(1, 2, 3, 2), grid(1, 2, 3, 2), gqa=1)
    yield attend(grid(1, 4, 3, 2), grid(1, 2, 3, 2), grid(1, 2, 3, 2))
    yield attend(grid(1, 4, 3, 2), grid(1, 3, 3, 2), grid(1, 3, 3, 2), gqa=1)
    yield attend(grid(2, 3, 4), grid(2, 5, 3), v)
    yield attend(q, k, grid(2, 4, 2))
    yield attend(q, k, v.detach().float())
    yield attend(q, k, v, p=0.5)
    yield attend(q, k, v, T([[1, 0, 1, 1, 0]] * 3))
    yield attend(grid(2, 0, 4), k, v)
    yield attend(q, grid(2, 0, 4), grid(2, 0, 2))
    # Inputs of four dims, which one op computes, and inputs that this op doesn't take. (If k and v
    # have wrong batches, heads or lengths, torch reads beyond them, so there are no such cases.)
    q, k, v = grid(2, 2, 3, 4), grid(2, 2, 5, 4), grid(2, 2, 5, 4)
    yield attend(q, k, grid(2, 2, 5, 3))
    yield attend(no_elements(2, 2, 0, 4), k, v)
    yield attend(no_elements(0, 2, 3, 4), no_elements(0, 2, 5, 4), no_elements(0, 2, 5, 4))
    yield attend(q, no_elements(2, 2, 0, 4), no_elements(2, 2, 0, 4))
    yield attend(no_elements(2, 2, 3, 0), no_elements(2, 2, 5, 0), v)
    for shape in ((3, 5), (4, 5), (3, 6), (2, 3, 5), (2, 1, 3, 5), (1, 2, 3, 5), (3, 1, 3, 5)):
        m = grid(*shape).detach()
        yield attend(q, k, v, m)
        yield attend(q, k, v, m > 0)
        yield attend(q, k, v, m.float())
    yield attend(q, k, v, grid(3, 5))
    yield attend(grid(3, 4, dtype=f32), grid(5, 4, dtype=f32), grid(5, 2, dtype=f32), causal=1)


def losses_of_distances():
    for reduction in ("mean", "sum", "none"):
        for name in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"):
            yield loss_by_hand(name, grid(2, 3), turned(grid(3, 2)), reduction)
            yield loss_by_hand(name, grid(2, 3), grid(3), reduction)
            yield loss_by_hand(name, grid(2, 3), grid(4), reduction)
            yield loss_by_hand(name, T([1.0, nan, inf], f64), T([1.0, 2.0, inf], f64), reduction)
            yield loss_by_hand(name, grid(0, 2), grid(0, 2), reduction)
            yield loss_by_hand(name, T([1, 2]), T([1, 3]), reduction)
            yield loss_by_hand(name, T([1.0, 2.0]), grid(2), reduction)
            yield loss_by_hand(name, T(1.0, f64), T(2.0, f64), reduction)
            yield loss_by_hand(name, T([1.0, 2.0], f64), T([1, 3]), reduction)
        for beta in (0.0, 0.5, -1.0):
            yield loss_by_hand(
                "smooth_l1_loss",
                T([0.0, 0.25, -2.0, 1.0], f64),
                T([0.0, 0.0, 1.0, 1.5], f64),
                reduction,
                beta=beta,
            )
        for delta in (0.0, 0.5, -1.0):
            yield loss_by_hand(
                "huber_loss",
                T([0.0, 0.25, -2.0, 1.0], f64),
                T([0.0, 0.0, 1.0, 1.5], f64),
                reduction,
                delta=delta,
            )


def losses_of_classes():
    for reduction in ("mean", "sum", "none"):
        for name in ("nll_loss", "cross_entropy"):
            for weight in (None, T([0.5, 2.0, 1.5], f64, False), T([1.0, 2.0], f64, False)):
                yield loss_by_hand(name, grid(4, 3), T([0, 2, 1, -100]), reduction, weight=weight)
                yield loss_by_hand(name, grid(3), T(1), reduction, weight=weight)
                yield loss_by_hand(
                    name, grid(2, 3, 2), T([[0, 1], [2, -100]]), reduction, weight=weight
                )
                yield loss_by_hand(
                    name, grid(2, 3), T([1, 1]), reduction, weight=weight, ignore_index=1
                )
            for target in (
                T([3, 0]),
                T([-1, 0]),
                T([0, 1, 2]),
                T([0.5, 1.0]),
                T([[0, 1]]),
                T([True, False]),
            ):
                yield loss_by_hand(name, grid(2, 3), target, reduction)
            yield loss_by_hand(name, grid(0, 3), torch.zeros(0, dtype=i64), reduction)
            yield loss_by_hand(name, T([[1, 2, 3]]), T([1]), reduction)
            yield loss_by_hand(name, T(1.0, f64), T(0), reduction)
            yield loss_by_hand(name, grid(2, 3, 2, 2), torch.zeros(2, 2, 2, dtype=i64), reduction)
        for s in (0.0, 0.3, 1.0, -0.1, 1.5):
            for weight in (None, T([0.5, 2.0, 1.5], f64, False)):
                yield loss_by_hand(
                    "cross_entropy",
                    grid(2, 3),
                    T([0, -100]),
                    reduction,
                    weight=weight,
                    label_smoothing=s,
                )
                yield loss_by_hand(
                    "cross_entropy",
                    grid(2, 3),
                    T([[0.2, 0.3, 0.5], [1.0, 0.0, 0.0]], f64),
                    reduction,
                    weight=weight,
                    label_smoothing=s,
                )
        yield loss_by_hand("cross_entropy", T([[1.0, -inf, 2.0]], f64), T([1]), reduction)
        yield loss_by_hand("cross_entropy", T([[1000.0, -1000.0, 0.0]], f64), T([1]), reduction)
        yield loss_by_hand("cross_entropy", grid(3), T([0.2, 0.3, 0.5], f64), reduction)
        for s, weight in ((0.0, None), (0.3, None), (0.3, T([0.5, 2.0, 1.5], f64, False))):
            p = T([0.2, 0.3, 0.5], f64)
            yield loss_by_hand(
                "cross_entropy", grid(3), p, reduction, weight=weight, label_smoothing=s
            )
            yield loss_by_hand(
                "cross_entropy", grid(3), T(1), reduction, weight=weight, label_smoothing=s
            )
            yield loss_by_hand(
                "cross_entropy",
                grid(2, 3, 2),
                turned(grid(2, 2)).detach().gt(0).long(),
                reduction,
                weight=weight,
                label_smoothing=s,
            )


def huge_logits():
    """These are so large that the logarithm of the number of classes is lost when it is added."""
    classes, soft = T([0, 2, 1]), [[0.25, 0.75, 0.0], [1.0, 0.0, 0.0], [0.5, 0.25, 0.25]]
    for dtype, values in ((f32, (1e8, 1e15, 1e30, 3e38, inf)), (f64, (1e8, 1e15, 1e300, inf))):
        weight, target = T([0.5, 2.0, 1.5], dtype, False), T(soft, dtype, False)
        one = T([[1.0, 0.5], [0.25, -1.0], [0.5, 2.0]], dtype)
        for v in (nan, *values, *(-v for v in values)):
            rows = [[v, v, 0.5], [v, v, v], [-v, v, 1.0]]
            for reduction, s, w, t in itertools.product(
                ("mean", "sum", "none"), (0.0, 0.1), (None, weight), (classes, target)
            ):
                options = dict(weight=w, label_smoothing=s)
                yield loss_by_hand("cross_entropy", T(rows, dtype), t, reduction, **options)
            for dim in (0, 1):
                for name in ("softmax", "softmin", "log_softmax"):
                    yield Case(name, T(rows, dtype), dim)
                yield Case("logsumexp", T(rows, dtype), dim, False)
            for name in ("logaddexp", "logaddexp2"):
                a, b = T([v, v, 0.5], dtype), T([v, 1.0, -v], dtype)
                yield Case(name, a, b, flags=["first"])
            yield attend(one, one, one, mask=T(rows, dtype))
            yield attend(T([[v, 0.5], [-v, 1.0], [v, v]], dtype), one, one)


def losses_of_two():
    for reduction in ("mean", "sum", "none"):
        p = T([[0.2, 0.9, 0.5], [0.0, 1.0, 0.3]], f64)
        t01 = T([[0.0, 1.0, 0.25], [0.0, 1.0, 1.0]], f64)
        for weight in (None, T([0.5, 2.0, 1.5], f64, False), T([1.0, 2.0], f64, False)):
            yield loss_by_hand("binary_cross_entropy", p, t01, reduction, weight=weight)
            yield loss_by_hand(
                "binary_cross_entropy_with_logits", grid(2, 3), t01, reduction, weight=weight
            )
            yield loss_by_hand(
                "binary_cross_entropy_with_logits", grid(2, 3), t01, reduction, pos_weight=weight
            )
            yield loss_by_hand(
                "binary_cross_entropy_with_logits",
                T([[100.0, -100.0, nan], [inf, -inf, 0.0]], f64),
                t01,
                reduction,
                weight=weight,
                pos_weight=weight,
            )
        yield loss_by_hand(
            "binary_cross_entropy", T([0.0, 1.0], f64), T([1.0, 0.0], f64), reduction
        )
        yield loss_by_hand(
            "binary_cross_entropy", T([1.5, 0.5], f64), T([1.0, 0.0], f64), reduction
        )
        yield loss_by_hand(
            "binary_cross_entropy", T([-0.5, nan], f64), T([1.0, 0.0], f64), reduction
        )
        for name in ("binary_cross_entropy", "binary_cross_entropy_with_logits"):
            yield loss_by_hand(name, T([0.5, 0.5], f64), T([1.0], f64), reduction)
            yield loss_by_hand(name, T([0.5]), T([1.0], f64), reduction)
            yield loss_by_hand(name, T([1, 0]), T([1, 0]), reduction)
            yield loss_by_hand(
                name,
                no_elements(0),
                torch.zeros(0, dtype=f64),
                reduction,
            )


def losses_of_distributions():
    for reduction in REDUCTIONS:
        for log in (0, 1):
            yield loss_by_hand(
                "kl_div",
                grid(2, 3),
                T([[0.2, 0.0, 1.0], [0.5, 0.25, 0.25]], f64),
                reduction,
                log_target=log,
            )
            yield loss_by_hand(
                "kl_div", grid(2, 3), T([0.2, 0.3, 0.5], f64), reduction, log_target=log
            )
            yield loss_by_hand(
                "kl_div", grid(2, 3), T([-1.0, nan, 0.5], f64), reduction, log_target=log
            )
            yield loss_by_hand("kl_div", T(1.0, f64), T(0.5, f64), reduction, log_target=log)
        yield loss_by_hand("kl_div", grid(2, 3), T([[1, 0, 2]] * 2), reduction)
        yield loss_by_hand("kl_div", grid(0, 3), grid(0, 3), reduction)
        yield loss_by_hand("kl_div", grid(2, 3), grid(2), reduction)


def margins():
    """Makes cases of the losses that have options of their own."""
    signs = T([1, -1, 1, -1, 0, 2])
    integers = T([[1, 2, 3], [3, 2, 1]])
    truths = T([[True, False, True]])
    for how in range(4):
        for margin in (0.0, 0.5, -2.0):
            for t in (signs, signs.double(), grid(6)):
                yield Case("cosine_embedding_loss_with", grid(6, 3), -grid(6, 3), t, how, margin)
                yield Case("margin_ranking_loss_with", grid(6), R(4, 6), t, how, margin)
                yield Case("hinge_embedding_loss_with", grid(6), t, how, margin)
        for p, eps, swap in ((2.0, 1e-6, 0), (1.0, 0.0, 1), (3.0, 0.1, 1), (inf, 1e-6, 0)):
            for margin in (1.0, 0.25, 30.0):
                a, b, c = grid(4, 3), R(3, 4, 3), R(5, 4, 3)
                yield Case("triplet_margin_loss_with", a, b, c, how, margin, p, eps, swap)
        for full, eps in ((0, 1e-6), (1, 0.5)):
            for x, var in (
                ((2, 3), T([[0.1, 0.7, 2.0], [0.0, 0.4, 1e-9]], f64)),
                ((2, 3), T([[0.1], [0.7]], f64)),
                ((2, 3), T([0.1, 0.7], f64)),
                ((2, 3), T([[0.1, 0.7, 0.9]], f64)),
                ((2, 3), T([0.1, 0.7, 0.9], f64)),
                ((2, 3), T([0.1], f64)),
                ((3,), T(0.3, f64)),
                ((), T(0.3, f64)),
                ((3,), T([1.0, -1e-9, 2.0], f64)),
                ((3,), T([1.0, nan, 2.0], f64)),
                ((3,), Number(0.7)),
                ((2, 3), Number(0.0)),
                ((3,), Number(-0.7)),
                ((3,), T([1, 2, 3])),
                ((3,), T([1.0, 2.0, 3.0], f32)),
            ):
                yield Case("gaussian_nll_loss_with", grid(*x), R(2, *x), var, how, full, eps)
        for log, full in ((1, 0), (1, 1), (0, 0), (0, 1)):
            for x, t in (
                (grid(6), T([0.0, 0.5, 1.0, 1.5, 2.0, 7.0], f64)),
                (grid(2, 3), T([0, 1, 5])),
                (T([nan, inf, -inf, 0.0], f64), T([1.0, 2.0, 3.0, nan], f64, False)),
                (T(2.0, f64), T(3.0, f64)),
                (T([1.0, 2.0]), T([2.0, 3.0], f64)),
                (T([1, 2]), T([2, 3])),
            ):
                yield Case("poisson_nll_loss_with", x, t, how, log, full, 1e-8, flags=["first"])
            yield Case("poisson_nll_loss_with", R(4, 5), R(5, 5), how, log, full, 1.5)
    usual = (0, 1.0, 2.0, 1e-6, 1)
    for margin in (0.0, -1.5, nan):
        yield Case("triplet_margin_loss_with", *[grid(2, 3)] * 3, 0, margin, 2.0, 1e-6, 0)
    for shapes in (
        ((2, 3), (2, 3), (2,)),
        ((2, 3), (2, 3), (1,)),
        ((2, 3), (1, 3), (2,)),
        ((3,), (3,), ()),
        ((2, 3), (2, 3), ()),
        ((2, 3), (3,), (2,)),
        ((2, 3), (2, 4), (2,)),
        ((2, 3), (2, 3), (3,)),
        ((2, 3), (2, 3), (2, 1)),
        ((0, 3), (0, 3), (0,)),
        ((3,), (3,), (3,)),
        ((2, 3), (2, 1), (1, 3)),
        ((2, 3), (2, 4), (2, 3)),
        ((2, 3), (2, 3), (2, 2)),
        ((2, 2, 3), (2, 2, 3), (2, 2, 3)),
        ((), (), ()),
        ((0, 3), (0, 3), (0, 3)),
        ((2, 0), (2, 0), (2, 0)),
    ):
        a, b, c = (R(k, *s) for k, s in enumerate(shapes))
        yield Case("cosine_embedding_loss_with", a, b, c.sign().detach(), 2, 0.0)
        yield Case("margin_ranking_loss_with", a, b, c, 2, 0.5)
        yield Case("triplet_margin_loss_with", a, b, c, *usual)
        yield Case("hinge_embedding_loss_with", a, c, 2, 1.0)
        yield Case("gaussian_nll_loss_with", a, b, c.detach().abs().requires_grad_(), 2, 0, 1e-6)
        yield Case("poisson_nll_loss_with", a, b, 2, 1, 0, 1e-8)
        for p, keep in ((2.0, 0), (1.0, 1), (0.0, 0), (inf, 1), (-1.0, 0), (-inf, 0), (0.5, 0)):
            yield Case("pairwise_distance", a, b, p, 1e-6, keep)
    for t in (integers, truths):
        yield Case("cosine_embedding_loss_with", t, t, signs[: len(t)], 2, 0.25)
        yield Case("margin_ranking_loss_with", t, t, t, 2, 0.5)
        yield Case("hinge_embedding_loss_with", t, t, 2, 2.5)
        yield Case("hinge_embedding_loss_with", t, t, 0, 1.0)
        yield Case("hinge_embedding_loss_with", t, t, 0, nan)
        yield Case("triplet_margin_loss_with", t, t, t, *usual)
        yield Case("gaussian_nll_loss_with", t, t, t, 2, 0, 1e-6)
        yield Case("poisson_nll_loss_with", t, t, 2, 0, 1, 1e-8)
        yield Case("pairwise_distance", t, t, 2.0, 1e-6, 0)
    near, far = T([[1e300, 0.0]], f64), T([[-1e300, 0.0]], f64)
    yield Case("pairwise_distance", near, far, 2.0, 1e-6, 0, flags=["first"])
    yield Case("pairwise_distance", grid(2, 3), grid(2, 3), 2.0, 0.0, 0)
    yield Case("pairwise_distance", grid(2, 3), grid(2, 3, dtype=f32), 2.0, 1e-6, 0)
    yield Case("cosine_embedding_loss_with", near * 0, far, T([1]), 0, 0.0, flags=["first"])
    mixed = grid(2, 3), grid(2, 3, dtype=f32)
    yield Case("cosine_embedding_loss_with", *mixed, T([1, -1]), 0, 0.0)
    yield Case("margin_ranking_loss_with", *mixed, integers, 0, 0.0)
    yield Case("triplet_margin_loss_with", *mixed, integers, *usual)
    odd = T([nan, inf, -inf, nan, inf, -inf], f64), T([1, 1, 1, -1, -1, -1])
    yield Case("hinge_embedding_loss_with", *odd, 2, 1.0, flags=["first"])


def writing():
    for a, b in itertools.product(
        (grid(2, 3), grid(2, 3, dtype=f32), T([[1, 2, 3]] * 2), T([[True, False, True]] * 2)),
        (
            grid(3),
            grid(2, 1, dtype=f32),
            T([1, 2, 3]),
            T([True, False, True]),
            grid(4),
            T(2.0, f64),
            Number(1),
            Number(2.5),
            grid(2, 2, 3),
        ),
    ):
        if not isinstance(b, Number):
            yield Case("copy_", a, b)
        if isinstance(b, Number) or b.numel() == 1:
            yield Case("fill_", a, b)
        if not isinstance(b, Number):
            yield Case("fill_", a, b)
    for t in (grid(2, 3), T([1, 2]), T([True]), T(2.0), torch.zeros(0)):
        yield Case("zero_", t)
        yield direct("zero_", t)
    yield direct("copy_", grid(3), grid(3))
    yield direct("fill_", grid(3), Number(1))
    yield direct("fill_", torch.zeros(1).expand(3), Number(1))


def creation():
    numbers = [Number(v) for v in (True, 0, 3, -2, 2.5, nan, inf, 2**62)]
    for s, v in itertools.product(((), (2, 3), (0,), (2, 0)), numbers):
        yield Case("full", s, v)
        for dtype in DTYPES:
            yield Case("full_dims", s, v, dtype)
    for t, v in itertools.product(
        (grid(2, 3), T([1, 2]), T([True]), T(2.5), grid(3, 2).detach().t()), numbers
    ):
        yield Case("full_like", t, v)
        yield Case("zeros_like", t)
        yield Case("ones_like", t)
    for s in ((), (2, 3), (0,), (-1,), (2, -3)):
        for dtype in DTYPES:
            yield Case("zeros_dims", s, dtype)
            yield Case("ones_dims", s, dtype)
        yield Case("full", s, Number(1))
    for v in (0, 3, 3.0, 2.5, -1, 0.0, nan, inf, True):
        yield Case("arange", Number(v))
    for a, b, c in (
        (0, 1, 0.1),
        (0, 5, 2),
        (5, 0, -2),
        (1, 2, 0),
        (0, 3, -1),
        (0, -3, 1),
        (0.5, 3, 1),
        (1, 2.5, 0.25),
        (0, 3, 1.0),
        (0.0, nan, 1.0),
        (0.0, inf, 1.0),
        (2, 2, 1),
        (0, 1e30, 1.0),
        (-1.5, 1.5, 0.3),
        (0, 1, 0.3),
    ):
        yield Case("arange_step", *map(Number, (a, b, c)))
    for a, b, n in (
        (0.0, 10.0, 5),
        (0.0, 1.0, 1),
        (0.0, 1.0, 0),
        (3.0, -3.0, 7),
        (0.0, 1.0, -1),
        (-2.5, 2.5, 4),
        (nan, 1.0, 3),
        (0.0, inf, 3),
        (0.0, 1.0, 10),
        (1e30, -1e30, 3),
        (0.0, 10.0, 4),
    ):
        for dtype in DTYPES[1:]:
            yield Case("linspace", a, b, n, dtype)
        if max(abs(a), abs(b)) < 20:
            for base in (10.0, 2.0):
                yield Case("logspace", a, b, n, base, f32)
                yield Case("logspace", a, b, n, base, f64)
    yield Case("logspace", 0.0, 4.0, 5, 2.0, i64)
    for n, m in ((3, 3), (2, 4), (4, 2), (0, 2), (2, 0), (-1, 2), (2, -1)):
        yield Case("eye", n, m)
    for v in (True, 3, -2, 2.5, nan):
        yield Case("scalar", Number(v))
    for v in (0.0, 3.0, -2.75, nan, inf):
        yield from (
            Case("scalar_dtype", v, dtype)
            for dtype in DTYPES
            if math.isfinite(v) or dtype.is_floating_point or dtype == b8
        )
    for a, b in itertools.product(DTYPES, DTYPES):
        yield Case("promote_types", a, b)
    every = [torch.ones(s, dtype=d) for d in DTYPES for s in ((), (2,))] + [
        Number(True),
        Number(1),
        Number(1.5),
    ]
    for a, b in itertools.product(every, every):
        yield Case("result_type", a, b)
    for a, b in itertools.product(
        (
            T([1.0, 2.0], grad=False),
            T([1.0, nan], grad=False),
            T([1, 2]),
            T([[1.0, 2.0]], grad=False),
            T([1.0, 2.00001], grad=False),
            T([inf, 1.0], grad=False),
            T([True, False]),
            torch.zeros(0),
            T([1.0, 2.0], f64, False),
        ),
        repeat=2,
    ):
        yield Case("equal", a, b)
        yield Case("allclose", a, b, 1e-5, 1e-8)


def facts():
    """A gradient has to be chosen here: ties, corners, zeros."""
    for dtype in (f64, f32):

        def t(*values):
            return T(list(values), dtype)

        for name in ("max", "min", "amax", "amin"):
            yield Case(name, t(3.0, 3.0, 1.0))
            yield Case(name, t(1.0, 1.0, 3.0))
        for name in ("max_dim", "min_dim", "amax_dim", "amin_dim"):
            yield Case(name, t(3.0, 3.0, 1.0), 0, False)
            yield Case(name, t(1.0, 1.0, 3.0), 0, True)
        for name in (
            "maximum",
            "minimum",
            "fmax",
            "fmin",
            "atan2",
            "remainder",
            "div_floor",
            "pow",
        ):
            for a, b in ((1.0, 1.0), (nan, 1.0), (1.0, nan), (0.0, 0.0), (5.0, 3.0), (-5.0, 3.0)):
                yield Case(name, t(a), t(b), flags=["first"])
        for name in (
            "relu",
            "abs",
            "sqrt",
            "sign",
            "frac",
            "round",
            "relu6",
            "hardswish",
            "hardsigmoid",
            "norm",
            "log",
            "rsqrt",
            "reciprocal",
            "asin",
            "acos",
        ):
            yield Case(name, t(0.0, -0.0, 6.0, 3.0, -3.0, 1.0, -1.0, 2.5), flags=["first"])
        yield Case("clamp", t(0.0, 1.0, -1.0, 2.0, nan), Number(0), Number(1))
        yield Case("clamp", t(0.0, 1.0, 2.0), Number(3), Number(1))
        yield Case("clamp", t(0.0, 1.0, 2.0), t(0.0, 1.0, 3.0), t(2.0, 1.0, 1.0))
        yield Case("clamp_min", t(0.0, 1.0), t(0.0, 2.0))
        yield Case("clamp_max", t(0.0, 1.0), t(0.0, 2.0))
        yield Case("hardtanh", t(-1.0, 1.0, 0.0, 2.0, nan), -1.0, 1.0)
        yield Case("leaky_relu", t(0.0, -0.0, -1.0), 0.01)
        yield Case("elu", t(0.0, -1.0), 1.0)
        yield Case("softplus", t(19.9, 20.0, 21.0, nan), 1.0, 20.0)
        for p in (0.0, 0.5, 1.0, 2.0, 3.0, inf, -inf, -1.0):
            yield Case("norm_p", t(0.0, 0.0), p)
            yield Case("norm_p", t(2.0, -2.0, 1.0), p)
        for a, b in (
            (0.0, 0),
            (0.0, 1),
            (0.0, 2),
            (-1.0, 2),
            (2.0, -1),
            (0.0, 0.5),
            (0.0, -1),
            (-1.0, 0.5),
            (4.0, 0.5),
            (3.0, 3),
        ):
            yield Case("pow", t(a), Number(b), flags=["first"])
            yield Case("pow", t(a), t(float(b)), flags=["first"])
            yield Case("pow", Number(a), t(float(b)), flags=["first"])
        yield Case("where", T([True]), t(1.0), t(nan))
        yield Case("div", t(1.0, 0.0, nan), t(0.0, 0.0, 1.0))
        yield Case("sort", t(2.0, 1.0, 2.0, 1.0), 0, False)
        yield Case("topk", t(2.0, 1.0, 2.0, 1.0), 2, 0, True, True)
        for name in ("l1_loss", "smooth_l1_loss", "huber_loss", "mse_loss"):
            yield loss_by_hand(name, t(1.0, 2.0), t(1.0, 3.0), "none")
        yield loss_by_hand("smooth_l1_loss", t(1.0, 2.0, 0.0), t(1.0, 3.0, 0.0), "none", beta=0.0)
        for reduction in ("none", "mean"):
            yield loss_by_hand(
                "cross_entropy", T([[100.0, 0.0], [0.0, 1.0]], dtype), T([0, 1]), reduction
            )
        yield Case("cumprod", t(2.0, 0.0, 4.0, 0.0), 0)
        yield Case("cosine_similarity", t(0.0, 0.0), t(0.0, 0.0), 0, 1e-8)
        yield Case("logsumexp", t(-inf, -inf), 0, False)
        for p in (2.0, 3.0, -1.0, 0.5):
            yield Case("norm_dim", T([[1e-25], [-1e20], [0.0], [2.0]], dtype), p, 1, False)
        yield Case("std", t(2.0, 2.0))
        yield Case("masked_fill", t(1.0, 2.0), T([True, False]), Number(0))
    yield Case("lt", T([2**53 + 1]), Number(float(2**53 + 1)))
    yield Case("eq", T([16777217]), T([16777216.0]))
    yield Case("lt", T([True, False]), T([1.5]))
    yield Case("pow", Number(2), T([1, 2, 3]))
    yield Case("pow", T([1, 2, 3]), Number(-1))


def writes():
    """These write in place on tensors with gaps and on turned ones."""

    def places(dtype=f64):
        return (
            grid(3, 2, dtype=dtype).detach().t(),
            grid(2, 6, dtype=dtype).detach()[:, ::2],
            grid(4, 3, dtype=dtype).detach()[1:3],
        )

    for dtype in (f64, f32):
        for name in UNARY_WRITES:
            for t in places(dtype):
                yield direct(name, t)
        for t in places(dtype):
            for b in (
                Number(2),
                T([1.5, -2.0, 3.0], dtype, False),
                T([[1.5], [-2.0]], dtype, False),
            ):
                for name in WRITTEN:
                    yield direct(name + "_", t, b)
                yield direct("masked_fill_", t, T([True, False, True]), Number(9))
                yield direct("clamp_", t, Number(-0.5), b)
                if not isinstance(b, Number):
                    yield direct("copy_", t, b)
                    yield direct("lerp_", t, b, Number(0.25))
                    yield direct("addcmul_", t, b, b, 2.0)
                    yield direct("addcdiv_", t, b, b, 2.0)
            yield direct("fill_", t, Number(3))
            yield direct("zero_", t)
            yield direct("set_items_", t, Number(7), ":, 1")
            yield direct("set_items_", t, Number(7), T([[True, False, True], [False] * 3]))
            for name in ("scatter_", "scatter_add_"):
                yield direct(name, t, 1, T([[0, 2], [1, 1]]), grid(2, 2, dtype=dtype).detach())
            yield direct("index_add_", t, 1, T([0, 2, 0]), grid(2, 3, dtype=dtype).detach(), 2.0)
    for t in (T([[1, 2, 3], [4, 5, 6]]).t(), T([[True, False]] * 3).t()):
        yield direct("fill_", t, Number(1))
        yield direct("zero_", t)
        yield direct("logical_not_", t)
        yield direct("eq_", t, Number(1))
        yield direct("copy_", t, T([[0.5, 2.5]], grad=False))


def extremes():
    """These have numbers that the dtype just holds, or doesn't, and sizes that overflow in a sum or
    product."""
    whole, single, mask = T([3, 4]), T([3.0, 4.0], f32, False), T([True, False])
    index, one, ones = T([0]), T([1]), T([[1, 1], [1, 1]])
    for v in (9.1e18, -9.1e18, -(2.0**63), 1e19, -1e19, nan, inf, 2.5, 1e40, -1e40):
        for x in (whole, single, mask):
            if v == v or x is not single:
                yield Case("pad_with", x, (1, 1), PADS.index("constant"), v)
            yield Case("fill_", x, Number(v), flags=["direct"])
            yield Case("set_items_", x, Number(v), 0, flags=["direct"])
            yield Case("set_items_", x, Number(v), index, flags=["direct"])
            yield Case("set_items_", x, Number(v), mask, flags=["direct"])
            yield Case("masked_fill", x, mask, Number(v))
            yield Case("scatter", x, 0, index, Number(v))
            yield Case("scatter_", x, 0, index, Number(v), flags=["direct"])
        for x in (whole, single):
            yield Case("index_add", x, 0, index, x[:1], v)
            yield Case("addcmul", x, x, x, v)
            yield Case("add_alpha", x, x, Number(v))
        yield Case("addcdiv", single, single, single, v)
        yield Case("lerp", single, single, Number(v))
        yield Case("addmm", ones, ones, ones, v, 1.0)
        yield Case("addmm", ones, ones, ones, 1.0, v)
        yield Case("addmm", ones.float(), ones.float(), ones.float(), v, 1.0)
    big, most, row = 2**62, 2**63 - 1, T([[[1.0, 2.0]]], f64)
    for left, right in ((big, 0), (0, big), (big, big), (most, 0), (big, -1)):
        for mode in range(len(PADS)):
            yield Case("pad_with", row, (left, right), mode, 0.0)
            yield Case("pad_with", row, (left, right, 0, 0), mode, 0.0)
            yield Case("pad_with", row, (left, right, 0, 0, 0, 0, 0, 0), mode, 0.0)
    empty = T([], f64, False)
    for shape in ((0, 2**32, 2**32), (2**62, 2, 0), (2**62, -1)):
        for name in ("reshape_dims", "view_dims"):
            yield Case(name, empty, shape)
            yield Case(name, whole, shape)
    for shape in ((big, 0), (big, 2, 0), (big, 4, 0), (most, 2, 0), (2**33, 2**33, 0)):
        for sizes in (shape, shape[::-1]):
            for dtype in (f32, i64):
                yield Case("zeros_dims", sizes, dtype)
                yield Case("full_dims", sizes, Number(1), dtype)
    for shape in ((2**60, 2), (2**61, 2**61, 2), (2**32, 2**32, 2)):
        yield Case("repeat_dims", whole, tuple(min(s, 2**61) for s in shape))
        yield Case("tile_dims", whole, tuple(min(s, 2**61) for s in shape))


def at_limits():
    """These have the last vector of a reduction, the last number of a dtype, or no elements."""
    for dtype in (f64, f32):
        for n in (15, 16, 17, 31, 33, 67):
            for place in (0, 7, n - 1):
                x = numbers(n, (n,), dtype)
                x[place] = -3.0 if place % 2 else 3.0
                low = numbers(n, (n,), dtype).sign() * 2
                low[place] = 0.25
                for p in (inf, -inf):
                    yield Case("norm_p", (x if p > 0 else low).clone().requires_grad_(), p)
            yield Case("norm_dim", R(n, 3, n, dtype=dtype), inf, 1, False)
            yield Case("norm_dim", R(n, n, 3, dtype=dtype), -inf, 0, True)
        for weight in (0.0, 0.25, 0.5, 0.75, 1.0):
            a, b = T([1e20, 1.0, -3.0], dtype), T([3.0, 1e20, 1e-20], dtype)
            yield Case("lerp", a, b, Number(weight))
            yield Case("lerp", a, b, T([weight] * 3, dtype))
    # torch alone takes 2^63, which int64 does not hold, and wraps it.
    for value in (8e18, 9e18, 9.2e18, 9223372036854774784.0, 1e19):
        for sign in (1, -1):
            for t in (T([1, 2]), T([True]), T([1.0]), T([1.0], f64)):
                yield Case("pad_with", t, (1, 0), 0, sign * value)
    for value in (1e39, inf, -inf, nan, 2.5, -0.5):
        for t in (T([1, 2]), T([True, False]), T([1.0]), T([1.0], f64)):
            yield Case("pad_with", t, (0, 1), 0, value)
    for x, i in (((3, 0), [7]), ((3, 0), [-4, 1]), ((0, 3), [0]), ((0, 3), []), ((2, 0, 3), [5])):
        yield Case("index_items", no_elements(*x), T(i).long())
        yield Case("index_items", no_elements(*x), ":", T(i).long())
    for x, y in (
        ((0, 3), (3, 2)),
        ((2, 0), (0, 2)),
        ((2, 3), (3, 0)),
        ((2, 3), (3, 2)),
        ((0,), (0,)),
    ):
        for dtype in (torch.bool, i64, f32):
            yield Case("matmul", torch.zeros(x, dtype=dtype), torch.zeros(y, dtype=dtype))
    for n in (0, 1, 2):
        for dtype in (f32, f64, i64):
            yield Case("logspace", 2.0, 5.0, n, 10.0, dtype)
            yield Case("linspace", 2.0, 5.0, n, dtype)


def of_other_dtypes():
    """A tensor beside the input, such as a weight, has another dtype than the input."""
    x, target = T([[0.5, -1.0, 2.0]] * 2), T([[1.0, 0.0, 0.25]] * 2, grad=False)
    inside = T([[0.5, 0.25, 0.75]] * 2)
    for reduction in ("mean", "sum", "none"):
        for dtype in (f64, i64, torch.bool):
            weight = T([2, 3, 1], dtype, False)
            for logits in (x, x.detach().double().requires_grad_()):
                yield loss_by_hand(
                    "binary_cross_entropy_with_logits", logits, target, reduction, pos_weight=weight
                )
                yield loss_by_hand(
                    "binary_cross_entropy_with_logits", logits, target, reduction, weight=weight
                )
            yield loss_by_hand("binary_cross_entropy", inside, target, reduction, weight=weight)
            yield loss_by_hand("nll_loss", x, T([2, 1]), reduction, weight=weight)
            yield loss_by_hand("cross_entropy", x, T([2, 1]), reduction, weight=weight)
            yield loss_by_hand("cross_entropy", x, target, reduction, weight=weight)
        for dtype in (f32, f64, i64):
            weights = T([[2, 3, 1], [0, 5, 4]], dtype, False)
            for name in ("mse_loss", "l1_loss", "huber_loss"):
                yield loss_by_hand(name, x, target, reduction, weight=weights)
                yield loss_by_hand(name, grid(2, 3), grid(3), reduction, weight=weights)
                yield loss_by_hand(name, x, target, reduction, weight=weights[0])
    for dtype in (f64, i64):
        w = T([1, 2, 3], dtype)
        yield Case("layer_norm", x, (3,), w, None, 1e-5)
        yield Case("layer_norm", x, (3,), None, w, 1e-5)
        if dtype == i64:  # With a float64 weight torch computes in float64, and converts.
            yield Case("rms_norm", x, (3,), w, 1e-5)
        yield Case("group_norm", T([[[0.5, -1.0], [2.0, 1.0], [3.0, 0.0]]]), 3, w, None, 1e-5)
        yield Case("linear", x, T([[1, 2, 3]] * 2, dtype), None)
        yield Case("linear", x, T([[1.0, 2.0, 3.0]] * 2), T([1, 2], dtype))
        yield Case("lerp", x, target, T([[1, 0, 1]], dtype))
        yield Case("addmm", T([[1, 2]], dtype), x, T([[1.0, 2.0]] * 3), 1.0, 1.0)
        yield Case("addmm", T([[1.0, 2.0]]), x, T([[1, 2]] * 3, dtype), 1.0, 1.0)


def refused():
    """These have shapes and dtypes that torch refuses in words of their own."""
    for name in ("nll_loss", "cross_entropy"):
        for shape in ((2, 2), (2, 1), (2, 3), (3,), (1,), ()):
            yield loss_by_hand(name, grid(2, 3), torch.zeros(shape, dtype=i64))
        yield loss_by_hand(name, grid(2, 3, 2), torch.zeros(2, 3, dtype=i64))
        yield loss_by_hand(name, grid(2, 3), torch.zeros(2, dtype=f32))
    for dtype in (i64, torch.bool):
        ones = torch.ones(2, 2, dtype=dtype)
        for name in ("huber_loss", "smooth_l1_loss", "mse_loss", "l1_loss", "kl_div"):
            yield loss_by_hand(name, ones, ones.clone())
        for c, a, b in itertools.product((f32, dtype), repeat=3):
            yield Case("addmm", *(torch.ones(2, 2, dtype=d) for d in (c, a, b)), 1.0, 1.0)
        yield Case("addmm", torch.ones(2, 2, dtype=f64), grid(2, 2, dtype=f32), ones, 1.0, 1.0)
    for shape, groups in (((1, 4), 4), ((1, 4), 2), ((2, 4), 4), ((1, 4, 1), 4), ((1, 2, 2), 2)):
        yield Case("group_norm", grid(*shape), groups, None, None, 1e-5)
    for mode in (1, 2, 3):
        for shape in ((2, 0), (0, 2), (0, 2, 3), (2, 0, 3), (2, 3, 0)):
            yield Case("pad_with", no_elements(*shape), (1, 1), mode, 0.0)
            yield Case("pad_with", no_elements(*shape), (1, 1, 1, 1), mode, 0.0)


def large():
    """These have enough elements for vectors, blocks and threads, with remainders."""
    for dtype in (f64, f32):

        def r(k, *shape, **kw):
            return R(k, *shape, dtype=dtype, **kw)

        for name in UNARY + ACTIVATIONS + ["round"]:
            if name not in ("log", "log2", "log10", "log1p", "sqrt", "rsqrt", "reciprocal", "tan"):
                yield Case(name, r(1, 1037))
        for name in ("exp", "tanh", "gelu", "sigmoid"):
            yield Case(name, r(1, 40, 1037, turned=True), flags=["first"])
        for name in BINARY:
            yield Case(name, r(1, 31, 67), r(2, 31, 67))
            yield Case(name, r(1, 31, 67, turned=True), r(2, 67))
            yield Case(name, r(1, 31, 1), r(2, 31, 67, turned=True))
        for name in ON_EVERYTHING:
            if name == "prod":
                continue
            order, correction, keep = reduction_arguments(name)
            behind = correction + keep
            yield Case(name, r(3, 20011))
            if name == "sum":
                for x in (r(3, 37, 1041), r(4, 1041, 37), r(5, 517, 67, turned=True)):
                    yield Case("median", x)
                    yield Case("median_dim", x, 0, False)
                    yield Case("kthvalue", x, 30, 1, False)
            for x in (r(3, 37, 1041), r(4, 1041, 37), r(5, 517, 67, turned=True)):
                yield Case(name, x)
                yield Case(name + "_dim", x, *order, 0, *behind)
                yield Case(name + "_dim", x, *order, 1, *behind)
            if name not in ("max", "min", "argmax", "argmin"):
                yield Case(name + "_dims", r(3, 13, 31, 17), *order, (0, 2), *behind)
        for x in (r(3, 37, 1041), r(4, 1041, 37), r(5, 517, 67, turned=True), r(6, 5, 300, 7)):
            for d in (0, 1):
                for name in ("softmax", "log_softmax", "cumsum"):
                    yield Case(name, x, d)
                yield Case("logsumexp", x, d, False)
                yield Case("sort", x, d, False)
                yield Case("sort", x, d, True)
                yield Case("argsort", x, d, False)
                yield Case("topk", x, 5, d, True, True)
                yield Case("topk", x, 30, d, False, True)
            yield Case("layer_norm", x, (x.shape[-1],), r(7, x.shape[-1]), r(8, x.shape[-1]), 1e-5)
            yield Case("rms_norm", x, (x.shape[-1],), r(7, x.shape[-1]), -1.0)
            yield Case("normalize", x, 2.0, -1, 1e-12)
            yield (
                Case("cosine_similarity", x, x.detach() * 2 + 1, -1, 1e-8)
                if x.numel() < 20000
                else Case("normalize", x, 2.0, 0, 1e-12)
            )
        yield Case("group_norm", r(3, 3, 24, 50), 6, r(4, 24), r(5, 24), 1e-5)
        yield Case("dropout_with", r(3, 100, 50), 0.3, True)
        yield Case("unique", r(3, 5000))
        yield Case("nonzero", r(3, 10, 70))
        for n, k, m in ((65, 70, 33), (1, 300, 257), (130, 1, 70), (7, 513, 5), (256, 64, 1)):
            for ta in (False, True):
                yield Case("matmul", r(1, n, k, turned=ta), r(2, k, m, turned=not ta))
                yield Case("linear", r(1, n, k, turned=ta), r(2, m, k, turned=ta), r(3, m))
                yield Case("addmm", r(3, m), r(1, n, k), r(2, k, m, turned=ta), 0.5, 2.0)
        yield Case("matmul", r(1, 4, 3, 33, 20), r(2, 3, 20, 35))
        yield Case("matmul", r(1, 4, 33, 20), r(2, 20, 35))
        yield Case("matmul", r(1, 600, 70), r(2, 70))
        yield Case("bmm", r(1, 9, 33, 20), r(2, 9, 20, 15))
        yield Case("dot", r(1, 5003), r(2, 5003))
        yield Case("outer", r(1, 103), r(2, 99))
        yield Case("einsum_list", "bhqd,bhkd->bhqk", [r(1, 2, 3, 33, 17), r(2, 2, 3, 35, 17)])
        for causal in (0, 1):
            same = [r(k, 2, 3, 130, 40) for k in (1, 2, 3)]
            longer = [r(1, 1, 2, 67, 8), r(2, 1, 2, 301, 8), r(3, 1, 2, 301, 8)]
            yield attend(*same, causal=causal)
            yield attend(*longer, causal=causal)
            yield Case("joint_attention", r(1, 2, 70, 72), 3, causal)
            yield Case("joint_attention", r(1, 2, 5, 12), 2, causal)
            gru = r(1, 3, 2, 6), r(2, 6, 2), r(3, 6), r(4, 2, 2)
            wide = no_elements(3, 2, 0), no_elements(0, 0), no_elements(0), no_elements(2, 0)
            yield Case("gru_scan", *wide, causal)
            yield Case("rnn_scan", wide[0], wide[1], wide[3], 0, causal)
            yield Case("gru_scan", *gru, causal)
            yield Case("gru_scan", *gru[:2], None, gru[3], causal)
            for relu in (0, 1):
                yield Case("rnn_scan", r(1, 4, 3, 2), r(2, 2, 2), r(3, 3, 2), relu, causal)
        masked = r(1, 2, 2, 67, 8), r(2, 2, 2, 71, 8), r(3, 2, 2, 71, 8)
        yield attend(*masked, r(4, 67, 71))
        indices = torch.arange(50) * 7 % 30
        for reduction in ("mean", "sum", "none"):
            yield loss_by_hand(
                "cross_entropy", r(1, 50, 530), indices, reduction, label_smoothing=0.1
            )
            yield loss_by_hand("mse_loss", r(1, 50, 530), r(2, 50, 530), reduction)
            yield loss_by_hand("nll_loss", r(1, 50, 30), indices, reduction)
        yield Case("embedding_with", indices, r(1, 30, 65), NO_PADDING, 0.0, 2.0, 0)
        yield Case("embedding_with", indices, r(1, 30, 65), 7, 2.0, 2.0, 1)
        yield Case("index_select", r(1, 30, 65), 0, indices)
        yield Case("cat", [r(1, 30, 65), r(2, 7, 65), r(3, 1, 65)], 0)
        yield Case("cat", [r(1, 30, 65), r(2, 30, 3)], 1)
        for name in ("contiguous", "clone"):
            yield Case(name, r(1, 130, 67, turned=True))
        yield Case("cumprod", r(3, 7, 20), 1)
        yield Case("where", r(1, 31, 67).detach() > 0, r(2, 31, 67), r(3, 67))


def convolving():
    def case(x, w, b=None, **options):
        name = f"conv{options.pop('dims', len(w.shape) - 2)}d_with"
        return Case(*conv(name)(x, w, b, **options))

    for shape in ((3,), (3, 4), (2, 3, 5), (1, 1, 3, 4, 4)):
        yield case(grid(*shape), grid(2, 3, 3, 3))
        yield case(grid(*shape), grid(2, 3, 3))
    yield case(grid(1, 3, 4), grid(2, 3, 3, 3), dims=1)
    yield case(grid(1, 3, 4, 4), grid(2, 3, 3), dims=2)
    yield case(grid(1, 3, 4), grid(2, 3), dims=1)
    x, w = grid(2, 4, 5, 4), grid(4, 2, 3, 2)
    for options in (
        dict(groups=2, padding=1, stride=(2, 1), dilation=(1, 2)),
        dict(groups=2, padding="same", dilation=(1, 2)),
        dict(groups=2, padding="same"),
        dict(groups=2, padding=(2, 0), stride=3),
        dict(groups=1),
        dict(groups=3),
        dict(groups=4),
        dict(groups=0),
        dict(groups=2, padding=-1),
        dict(groups=2, stride=0),
        dict(groups=2, stride=(1, -1)),
        dict(groups=2, dilation=0),
        dict(groups=2, dilation=3),
        dict(groups=2, padding="same", stride=2),
        dict(groups=2, padding="same", stride=(1, 2)),
        dict(groups=2, padding="same", stride=(2, 1)),
    ):
        yield case(x, w, grid(4), **options)
    for b in (grid(2), grid(3, 1), grid(4, dtype=f32)):
        yield case(x, w, b, groups=2)
    yield case(grid(1, 2, 4, dtype=f32), grid(2, 2, 3), dims=1)
    yield case(grid(1, 2, 4), grid(2, 2, 0), dims=1)
    yield case(grid(0, 2, 4), grid(2, 2, 3), grid(2))
    yield case(grid(2, 0, 4), grid(2, 0, 3), grid(2))
    yield case(grid(2, 2, 0), grid(2, 2, 1))
    yield case(grid(2, 2, 4), grid(0, 2, 1))
    yield case(grid(2, 2, 4), grid(2, 2, 7))
    for kernel in ((2, 3), (3, 2), (2, 2), (4, 1)):
        yield case(grid(1, 2, 4, 5), grid(2, 2, *kernel), padding="same")
    yield case(grid(5, 4, 2).detach().permute(2, 1, 0).requires_grad_(), grid(3, 4, 2), grid(3))
    yield case(grid(2, 1, 1).detach().expand(2, 4, 6).requires_grad_(), grid(3, 4, 2))
    for dtype in (f64, f32):
        yield case(
            R(1, 3, 20, 19, 17, dtype=dtype), R(2, 35, 20, 5, 3, dtype=dtype), R(3, 35, dtype=dtype)
        )
        yield case(R(1, 2, 6, 700, dtype=dtype), R(2, 4, 3, 9, dtype=dtype), stride=2, groups=2)


def pooling():
    special = T([[[1, nan, 3, nan, 5, 5, 5, -inf, -inf, -inf]]], f64)
    for name in ("max_pool1d", "avg_pool1d_with", "max_pool2d", "avg_pool2d_with"):
        call = max_pool(name) if "max" in name else avg_pool(name)
        wide = (6,) if "1d" in name else (5, 6)
        x = grid(2, 3, *wide)
        for options in (
            dict(kernel_size=2),
            dict(kernel_size=3, stride=1, padding=1),
            dict(kernel_size=3, stride=2, padding=1, ceil_mode=True),
            dict(kernel_size=0),
            dict(kernel_size=-1),
            dict(kernel_size=2, stride=0),
            dict(kernel_size=2, stride=-1),
            dict(kernel_size=2, padding=2),
            dict(kernel_size=2, padding=-1),
            dict(kernel_size=7),
        ):
            yield Case(*call(x, **options))
            if "max" in name:
                yield Case(*call(x, **options, return_indices=True))
                yield Case(*call(x, **options, dilation=2))
                yield Case(*call(x, **options, dilation=0))
        for shape in ((4,), (3, 4), (0, 2, 4), (2, 0, 4), (2, 3, 0), (2, 0, 4, 4), (0, 2, 4, 4)):
            yield Case(*call(grid(*shape), 2))
        for t in (T([[[1, 7, 2, 4]]]), T([[[True, False, True, True]]])):
            yield Case(*call(t if "1d" in name else t.unsqueeze(0), 1 if "2d" in name else 2))
        if "1d" in name:
            yield Case(*call(special, 3, 1, 1), flags=["first"])
    for name in ("avg", "max"):
        for dims in (1, 2):
            call = adaptive_pool(f"adaptive_{name}_pool{dims}d", dims)
            x = grid(2, 3, 7) if dims == 1 else grid(2, 3, 5, 7)
            for size in (1, 2, 3, 9, -1) + (((2, None), (None, 1)) if dims == 2 else ()):
                yield Case(*call(x, size))
            yield Case(*call(x.detach(), 0))
            for shape in ((4,), (3, 4), (0, 2, 4), (2, 0, 4), (2, 3, 0), (2, 3, 0, 4)):
                yield Case(*call(grid(*shape).detach(), 2))


def normalizing_batches():
    mean, var = T([0.5, -1.0, 2.0], f64, False), T([1.0, 0.25, 3.0], f64, False)
    w, b = grid(3), grid(3)
    for x in (
        R(1, 4, 3),
        R(2, 2, 3, 5),
        R(3, 2, 3, 3, 6),
        grid(0, 3),
        grid(1, 3),
        grid(3),
        T([[1, 2, 3]]),
    ):
        for training in (0, 1):
            yield Case(*batch_norm(x, mean, var, w, b, training))
            yield Case(*batch_norm(x, None, None, w, None, training))
            yield Case(*batch_norm(x, mean, var, None, b, training, 0.3, 0.1))
    x = R(1, 4, 3)
    for training in (0, 1):
        yield Case(*batch_norm(x, mean, None, w, b, training))
        yield Case(*batch_norm(x, mean, var[:2], w, b, training))
        yield Case(*batch_norm(x, mean, var, grid(2), b, training))
        yield Case(*batch_norm(x, mean, var, w, grid(4), training))
        yield Case(*batch_norm(x, mean, var, grid(3, dtype=f32), b, training))
        yield Case(*batch_norm(x, mean.float(), var.float(), w, b, training))
        yield Case(*batch_norm(x, mean.float(), var.float(), w.float(), b.float(), training))
        yield Case(*batch_norm(x.float(), mean, var, w, b, training))
        yield Case(*batch_norm(x.float(), mean.float(), var.float(), w, b.float(), training))
        yield Case(*batch_norm(x.float(), mean.float(), var, w.float(), b.float(), training))
        yield Case(*batch_norm(x, mean, var, w, b, training, 0.1, 0.0))
        yield Case(*batch_norm(x, mean, var, w, b, training, 0.1, -1.0))


def with_bytes():
    """Makes the cases of ops.py --bytes that aren't made from others: numbers in and out of range,
    divisors of 0, bytes as masks, as indices and as classes, and conversions."""
    u8 = torch.uint8
    u, z = torch.tensor([1, 2, 250, 255], dtype=u8), torch.tensor([0, 3, 7, 9], dtype=u8)
    one = torch.tensor(200, dtype=u8)
    values = [Number(v) for v in (0, 1, 2, 200, 255, 256, 300, -1, -300, 2.5, -0.5, True)]
    binary = """add sub mul div div_floor div_trunc floor_divide remainder fmod pow maximum minimum
                eq ne lt le gt ge logical_and logical_or logical_xor xlogy""".split()
    others = [z, u + 1, one, T([1, -2, 300, 4]), T(300), T(-1), T([True, False, True, True]),
              T([0.5, 1.5, -2.0, 4.0], f32, False), T(2.5, f32, False), T(2.5, f64, False)]
    for name in binary:
        for other in others + [v for v in values if "imum" not in name and "log" not in name]:
            yield Case(name, u, other)
            if not (name == "sub" and isinstance(other, Number) and other.value is True):
                yield Case(name, other, u)
    for name in ("add_", "sub_", "mul_", "div_", "remainder_", "pow_"):
        for other in others + values:
            yield Case(name, u, other)
    for alpha in (0, 1, -1, 300, 2.5, True):
        yield Case("add_alpha", u, z, Number(alpha))
    for v in values:
        yield Case("fill_", u, v)
        yield Case("masked_fill", u, u > 2, v)
        yield Case("where", u > 2, u, v)
        yield Case("clamp_min", u, v)
        yield Case("clamp", u, Number(2), v)
        yield Case("full_like", u, v)
        yield Case("full_dims", (2,), v, u8)
        yield Case("index_fill", u, 0, T([0, 2]), v)
        yield Case("set_items_", u, v, 1)
        yield Case("set_items_", u, v, u > 2)
        yield Case("arange_as", v, u8)
    for mask in (torch.tensor([0, 2, 1, 0], dtype=u8), torch.tensor([[0, 1], [3, 0]], dtype=u8)):
        x = T([[1, 2], [3, 4]]) if mask.dim() > 1 else T([1.0, 2.0, 3.0, 4.0], f64)
        yield Case("where", mask, x, x + 1)
        yield Case("index_items", x, mask)
        yield Case("set_items_", x, Number(7), mask)
        yield Case("masked_select", x, mask)
        yield Case("masked_fill", x, mask, Number(7))
    yield Case("index_items", u, torch.tensor(1, dtype=u8))
    yield Case("index_items", u, T([3, 0]))
    for target in (torch.tensor([0, 2], dtype=u8), torch.tensor([5, 2], dtype=u8)):
        plain = [grid(2, 3, dtype=f32), target, 0, None, None, -100, 0.0, 1.0, 1e-6, False]
        for name in ("nll_loss_with", "cross_entropy_with"):
            yield Case(name, *plain)
            yield Case(name, *plain[:5], 2, *plain[6:])
        yield Case("cross_entropy_with", *plain[:6], 0.1, *plain[7:])
    for dtype in ORDER:
        yield Case("to", T([-1.5, 256.7, -300.0, 1e10, -1e10, 1e20, inf, nan], f64, False), u8)
        yield Case("to", T([-1.5, 256.7, -300.0, 1e10, -1e10, 1e20, inf, nan], f32, False), u8)
        yield Case("to", T([0, -1, 255, 256, 2**40 + 7]), u8)
        yield Case("to", u, dtype)
        yield Case("sum_as", u, dtype)
        yield Case("cumsum_as", u, 0, dtype)
        yield Case("prod_as", u, dtype)
        yield Case("promote_types", dtype, u8)
        yield Case("promote_types", u8, dtype)
        for shape in ((), (2,)):
            yield Case("result_type", u, torch.ones(shape, dtype=dtype))
            yield Case("result_type", torch.ones((), dtype=u8), torch.ones(shape, dtype=dtype))
    for v in (True, 1, 1.5):
        yield Case("result_type", u, Number(v))
        yield Case("result_type", Number(v), one)
    for n in (0.0, 3.0, 255.0, 256.0):
        yield Case("scalar_dtype", n, u8)
        yield Case("linspace", 0.0, n, 5, u8)
    yield Case("eye_as", 2, 3, u8)
    yield Case("zeros_dims", (2,), u8)
    yield Case("ones_dims", (2,), u8)
    for a, b in ((u, u), (u, u.long()), (u, z)):
        yield Case("equal", a, b)
        yield Case("allclose", a, b, 1e-5, 1e-8)
        yield Case("cat", [a, b], 0)
        yield Case("stack", [a, b], 0)
    yield Case("one_hot", z, 10)
    yield Case("bincount_with", z, None, 0)
    yield Case("bernoulli_with", u)
    yield Case("dropout_with", u, 0.5, True)


def by_hand():
    for family in (
        convolving,
        pooling,
        normalizing_batches,
        facts,
        writes,
        extremes,
        at_limits,
        of_other_dtypes,
        refused,
        large,
        unary,
        unary_writes,
        binary,
        binary_writes,
        of_several,
        reductions,
        norms_and_spreads,
        exponentials_and_products,
        products,
        shapes,
        indexing,
        interleaving,
        writing_at_indices,
        ranks,
        distances,
        indexing_by_tensors,
        gathering,
        ordering,
        searching,
        embedding_by_hand,
        normalizing,
        attending,
        losses_of_distances,
        losses_of_classes,
        huge_logits,
        losses_of_two,
        losses_of_distributions,
        margins,
        dtypes,
        writing,
        creation,
    ):
        yield from family()


# ---- errors --------------------------------------------------------------------------

# Python itself complains about its arguments' types, as C's compiler does.
NOT_OURS = (
    r"received an invalid combination|argument '\w+' \(position|must be tuple of ints|"
    r"must be (Tensor|int|tuple|Number), not|missing \d+ required|unexpected keyword|"
    r"not supported between|unsupported operand|Overloaded torch operator|"
    r"expected Tensor as element|got an unexpected keyword|object cannot be interpreted|"
    r"Expected object of scalar type|out of range integral"
)

# torch doesn't record these functions, and gives their inputs a gradient as if there had been no
# call. The cases therefore have no inputs that require grad.
NOT_TRACKED = r"logical_\w+_"


def meets(x, source):
    """Returns whether some element of x equals one of the source."""
    return bool(torch.isin(x.detach().contiguous(), source.detach().contiguous()).any())


# No gradients are compared where torch's are mistaken. A row has a function, its arguments, and the
# reason.
NO_GRADIENT = [
    (
        r"atan2_?",
        lambda a, b: torch.uint8 in (getattr(a, "dtype", None), getattr(b, "dtype", None)),
        "torch's squares of bytes wrap",
    ),
    (
        r"(var|std)_dims",
        lambda x, dims, *rest: len(dims) == 0 and x.dim() > 0,
        "torch counts one element where () means all",
    ),
    (
        r"scatter_reduce_with_?",
        lambda x, dim, i, src, how, own: not own and how in ("amax", "amin") and meets(x, src),
        "torch shares with an x that takes no part but happens to equal the extreme",
    ),
]


def constant(x, *rest):
    return x.numel() and x.max() == x.min()


# Tolerances are looser by a factor. A row has a function, its arguments, the factor, and the
# reason.
TOLERANCES = [
    (
        r"(layer|group)_norm",
        constant,
        1e4,
        "nothing varies: rounding is multiplied by 1/sqrt(eps), twice for second gradients",
    )
]

# Under autocast, torch multiplies by the weights of these in 16 bits, and we in float32.
ROUNDED_STEPS = "gru_scan", "rnn_scan"

# The name of a node differs from torch's. A row has a function, torch's name, ours, and the reason.
NODES = [
    (
        r"rms_norm",
        "ToCopyBackward0",
        "MulBackward0",
        "torch rounds to 16 bits by an op of its own",
    ),
    (
        r"rotary_embedding",
        "AddBackward0",
        "RotaryEmbeddingBackward",
        "it is one op, and several in transformers",
    ),
    (
        r"pairwise_distance",
        "NormBackward1",
        "LinalgVectorNormBackward0",
        "torch's older norm has the same formula",
    ),
    (
        r"softshrink",
        "AddBackward0",
        "SoftshrinkBackward0",
        "CALLS adds 0, so that every zero is positive",
    ),
    (
        r"rms_norm",
        "CloneBackward0",
        "MulBackward0",
        "torch makes a turned result contiguous; ours is made so",
    ),
    (
        r"scaled_dot_product_attention_with",
        "AddBackward0",
        "UnsafeViewBackward0",
        "attention of nothing takes a way of its own",
    ),
    (
        r"sort",
        "SortBackward1",
        "SortBackward0",
        "its name in torch without stable=, as one calls it",
    ),
]

# Our sentence differs from torch's. A row has a function, torch's line, ours (None: left out), and
# the reason.
EXCEPTIONS = [
    (
        r".*",
        r"\? .*(returned an invalid gradient|INTERNAL ASSERT|Found dtype \w+ but expected|"
        r"grad_input must be contiguous|with a bool tensor is not|on a bool tensor is not).*",
        None,
        "a mistake of torch's own backward; ours gives the gradient",
    ),
    (
        r".*",
        r"\? \w+ (derivative for aten::\w+?)_? is not implemented",
        r"? Error \1 is not implemented",
        "ours goes on with the reason",
    ),
    (
        r".*_",
        r"\? RuntimeError In-place (leakyReLu|elu) backward calculation is triggered with a neg.*",
        None,
        "torch has the result alone, which doesn't tell the side; ours has x, and the gradient",
    ),
    (r".*", r"! AssertionError (.*)", r"! Error \1", "Python's assert has no class of ours"),
    (
        r"expand_dims",
        r"! RuntimeError numel: integer multiplication overflow",
        "! RuntimeError The expanded size of the tensor",
        "torch multiplies the sizes before it looks at them",
    ),
    (
        r"gaussian_nll_loss_with",
        r"(! .*output type )long int",
        r"\1Long",
        "torch names the C++ type, as clamp_ does",
    ),
    (
        r"gaussian_nll_loss_with",
        r"(! .*output type )bool",
        r"\1Bool",
        "torch names the C++ type, as clamp_ does",
    ),
    (
        r"clamp\w*_",
        r"(! .*output type )bool",
        r"\1Bool",
        "torch names the C++ type in clamp_ alone",
    ),
    (
        r"clamp\w*_",
        r"(! .*output type )long int",
        r"\1Long",
        "torch names the C++ type in clamp_ alone",
    ),
    (
        r"clamp\w*_|gaussian_nll_loss_with",
        r"(! .*output type )unsigned char",
        r"\1Byte",
        "torch names the C++ type in clamp_ alone",
    ),
    (r".*", r"! RuntimeError .*DefaultCPUAllocator.*", None, "the machine's memory"),
    (
        r"(layer|group)_norm|scaled_dot_product_attention_with",
        r"! RuntimeError (mixed dtype|expected m1 and m2).*",
        None,
        "two faults, of which ours names that bytes aren't floats",
    ),
    (
        r"conv\dd_with",
        r"! NotImplementedError .*slow_conv_dilated.*'Byte'",
        None,
        "torch convolves bytes only without dilation",
    ),
    (
        r"set_items_",
        r"! RuntimeError masked_fill_ only supports boolean masks.*unsigned char",
        None,
        "torch takes a mask of bytes unless the value is a number",
    ),
    (
        r"embedding_with",
        r"! IndexError index \d+ out of range for tensor of size .*",
        "! IndexError index out of range in self",
        "torch finds the row by select where there is a max_norm",
    ),
    (
        r"meshgrid_with",
        r"(! .*tensor list but got:) .*",
        r"\1",
        "torch prints the tensor; ours says its shape",
    ),
    (
        r"diag_embed",
        r"! RuntimeError (Storage size calculation|IntArrayRef contains an int).*",
        "! RuntimeError",
        "the sizes are too large",
    ),
    (
        r"(index_fill|index_copy|scatter_reduce_with)_?",
        r"\? (?!.*Double backward).*",
        None,
        "a mistake of torch's own backward; ours gives the gradient",
    ),
    (
        r"index_(fill|copy)_?",
        r"! RuntimeError setStorage: .*",
        "! IndexError out of bounds for dimension",
        "torch looks for a slice before it looks at the index",
    ),
    (
        r"unflatten",
        r"! RuntimeError unflatten got an unexpected error: (.*)",
        r"! Error \1",
        "Python's wrapping of an error",
    ),
    (r".*", r"! \w+ .*INTERNAL ASSERT.*", None, "a mistake of torch's own"),
]


def error_of(name, line):
    """Returns the expected error ('! Class sentence', or '?' of backward) as ours is to be, or None
    if it has no counterpart in C."""
    if re.search(NOT_OURS, line):
        return None
    for function, torchs, ours, _ in EXCEPTIONS:
        if re.fullmatch(function, name) and re.fullmatch(torchs, line):
            return None if ours is None else re.fullmatch(torchs, line).expand(ours)
    return line
