"""Functions that modules are made of. The names that are here are the ones whose operators are there."""

import warnings

from .. import _C
from .._absent import absent
from .._later import keep_whole

# The operators that a function calls; it is there once they are.
NEEDS = {
    "cross_entropy": "cross_entropy_loss", "dropout": "dropout dropout_", "embedding": "embedding",
    "layer_norm": "layer_norm", "log_softmax": "log_softmax", "mse_loss": "mse_loss", "nll_loss": "nll_loss_nd",
    "relu": "relu relu_", "sigmoid": "sigmoid", "silu": "silu silu_", "softmax": "softmax", "tanh": "tanh",
}  # fmt: skip
_REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}
_in_nn = {name.rpartition(".")[2]: f for name, f in _C.functions.items() if name.startswith("torch._C._nn.")}


def _later(function: str, **given) -> None:
    """Raises for the first argument that is given and not there yet."""
    for name, value in given.items():
        if value:
            raise NotImplementedError(f"{function}: {name}={value!r} is not there yet; leave it out")


def relu(input, inplace: bool = False):
    """max(x, 0)"""
    return _C.TensorBase.relu_(input) if inplace else _C.relu(input)


def silu(input, inplace: bool = False):
    """x * sigmoid(x)"""
    return _C.op_function("aten::silu_", "torch._C._nn.silu_")(input) if inplace else _in_nn["silu"](input)


def tanh(input):
    """`input.tanh()`"""
    return input.tanh()


def sigmoid(input):
    """`input.sigmoid()`"""
    return input.sigmoid()


def _usual_dim(name: str, n_dims: int) -> int:
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an argument.",
        stacklevel=3,
    )
    return 0 if n_dims in (0, 1, 3) else 1


def softmax(input, dim=None, _stacklevel: int = 3, dtype=None):
    """exp(x) / sum(exp(x)) along `dim`."""
    dim = _usual_dim("softmax", input.dim()) if dim is None else dim
    return input.softmax(dim) if dtype is None else input.softmax(dim, dtype=dtype)


def log_softmax(input, dim=None, _stacklevel: int = 3, dtype=None):
    """log(softmax(x)) along `dim`, computed at once."""
    dim = _usual_dim("log_softmax", input.dim()) if dim is None else dim
    return input.log_softmax(dim) if dtype is None else input.log_softmax(dim, dtype=dtype)


def dropout(input, p: float = 0.5, training: bool = True, inplace: bool = False):
    """Zeros elements with probability `p` and scales the others by 1 / (1 - p), when training."""
    if p < 0.0 or p > 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    return _C.dropout_(input, p, training) if inplace else _C.dropout(input, p, training)


def embedding(
    input, weight, padding_idx=None, max_norm=None, norm_type: float = 2.0, scale_grad_by_freq: bool = False,
    sparse: bool = False,
):  # fmt: skip
    """The rows of `weight` at the integers in `input`."""
    _later("embedding", max_norm=max_norm, scale_grad_by_freq=scale_grad_by_freq, sparse=sparse)
    if padding_idx is None:
        padding_idx = -1
    elif not -weight.size(0) <= padding_idx < weight.size(0):
        raise AssertionError("Padding_idx must be within num_embeddings")
    elif padding_idx < 0:
        padding_idx += weight.size(0)
    return _C.embedding(weight, input, padding_idx, scale_grad_by_freq, sparse)


def layer_norm(input, normalized_shape, weight=None, bias=None, eps: float = 1e-5):
    """Mean 0 and variance 1 over the last dimensions, then `weight` and `bias`."""
    return _C.layer_norm(input, normalized_shape, weight, bias, eps)


def _reduction(name: str, reduction: str, size_average, reduce) -> int:
    """The number of `reduction`; `size_average` and `reduce` are its deprecated forms."""
    if size_average is not None or reduce is not None:
        if reduce is False:
            reduction = "none"
        else:
            reduction = "sum" if size_average is False else "mean"
    if reduction not in _REDUCTIONS:
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return _REDUCTIONS[reduction]


def cross_entropy(
    input, target, weight=None, size_average=None, ignore_index: int = -100, reduce=None, reduction: str = "mean",
    label_smoothing: float = 0.0,
):  # fmt: skip
    """-log(softmax(input)) at the classes `target`; `input` is (N, C), (C) or (N, C, ...)."""
    number = _reduction("cross_entropy", reduction, size_average, reduce)
    return _in_nn["cross_entropy_loss"](input, target, weight, number, ignore_index, label_smoothing)


def nll_loss(
    input, target, weight=None, size_average=None, ignore_index: int = -100, reduce=None, reduction: str = "mean"
):
    """-input at the classes `target`; `input` holds logarithms of probabilities."""
    number = _reduction("nll_loss", reduction, size_average, reduce)
    return _in_nn["nll_loss_nd"](input, target, weight, number, ignore_index)


def mse_loss(input, target, size_average=None, reduce=None, reduction: str = "mean", weight=None):
    """(input - target) ** 2"""
    _later("mse_loss", weight=weight is not None)
    if target.shape != input.shape:
        warnings.warn(
            f"Using a target size ({target.shape}) that is different to the input size ({input.shape}). "
            "This will likely lead to incorrect results due to broadcasting. "
            "Please ensure they have the same size.",
            stacklevel=2,
        )
    return _in_nn["mse_loss"](input, target, _reduction("mse_loss", reduction, size_average, reduce))


for _name in ("gelu", "linear", "scaled_dot_product_attention"):
    globals()[_name] = _in_nn[_name]  # the operator itself, as in PyTorch
keep_whole(globals(), NEEDS)


def __getattr__(name: str):
    raise absent("torch.nn.functional", name)
