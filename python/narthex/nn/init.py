"""Fills parameters with starting values. From the same seed these are PyTorch's numbers."""

import math
import warnings

from .. import _C
from .._absent import absent
from ..autograd.grad_mode import no_grad

_GAINS = {
    "linear": 1.0, "conv1d": 1.0, "conv2d": 1.0, "conv3d": 1.0, "conv_transpose1d": 1.0, "conv_transpose2d": 1.0,
    "conv_transpose3d": 1.0, "sigmoid": 1.0, "tanh": 5.0 / 3, "relu": math.sqrt(2.0), "selu": 3.0 / 4,
}  # fmt: skip


def calculate_gain(nonlinearity: str, param=None) -> float:
    """The factor that keeps the variance through a nonlinearity; `param`: the negative slope of leaky_relu."""
    if nonlinearity == "leaky_relu":
        if param is not None and (isinstance(param, bool) or not isinstance(param, (int, float))):
            raise ValueError(f"negative_slope {param} not a valid number")
        return math.sqrt(2.0 / (1 + (0.01 if param is None else param) ** 2))
    if nonlinearity not in _GAINS:
        raise ValueError(f"Unsupported nonlinearity {nonlinearity}")
    return _GAINS[nonlinearity]


def _fans(tensor) -> tuple:
    """(fan_in, fan_out): how many numbers meet in an output, and come from an input."""
    if tensor.dim() < 2:
        raise ValueError("Fan in and fan out can not be computed for tensor with fewer than 2 dimensions")
    area = math.prod(tensor.shape[2:])
    return tensor.size(1) * area, tensor.size(0) * area


_calculate_fan_in_and_fan_out = _fans


def _fan(tensor, mode: str) -> int:
    if mode.lower() not in ("fan_in", "fan_out"):
        raise ValueError(f"Mode {mode} not supported, please use one of ['fan_in', 'fan_out']")
    return _fans(tensor)[mode.lower() == "fan_out"]


_calculate_correct_fan = _fan


def uniform_(tensor, a: float = 0.0, b: float = 1.0, generator=None):
    """Uniform on [a, b)."""
    with no_grad():
        return tensor.uniform_(a, b, generator=generator)


def normal_(tensor, mean: float = 0.0, std: float = 1.0, generator=None):
    """Normal with `mean` and `std`."""
    with no_grad():
        return tensor.normal_(mean, std, generator=generator)


def constant_(tensor, val: float):
    """`val` everywhere."""
    with no_grad():
        return tensor.fill_(val)


def ones_(tensor):
    """1 everywhere."""
    return constant_(tensor, 1.0)


def zeros_(tensor):
    """0 everywhere."""
    with no_grad():
        return tensor.zero_()


def xavier_uniform_(tensor, gain: float = 1.0, generator=None):
    """Uniform, with the variance between what inputs and outputs want (Glorot and Bengio 2010)."""
    fan_in, fan_out = _fans(tensor)
    bound = math.sqrt(3.0) * (gain * math.sqrt(2.0 / float(fan_in + fan_out)))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor, gain: float = 1.0, generator=None):
    """Normal, with the variance between what inputs and outputs want (Glorot and Bengio 2010)."""
    fan_in, fan_out = _fans(tensor)
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / float(fan_in + fan_out)), generator)


def _kaiming_std(tensor, a: float, mode: str, nonlinearity: str) -> float:
    return calculate_gain(nonlinearity, a) / math.sqrt(_fan(tensor, mode))


def kaiming_uniform_(tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator=None):
    """Uniform, with the variance kept through the nonlinearity (He and others 2015)."""
    if 0 in tensor.shape:
        warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=2)
        return tensor
    bound = math.sqrt(3.0) * _kaiming_std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator=None):
    """Normal, with the variance kept through the nonlinearity (He and others 2015)."""
    if 0 in tensor.shape:
        warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=2)
        return tensor
    return normal_(tensor, 0, _kaiming_std(tensor, a, mode, nonlinearity), generator)


def trunc_normal_(tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0, generator=None):
    """Normal with `mean` and `std`, drawn again where it falls outside of [a, b]."""
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. "
            "The distribution of values may be incorrect.",
            stacklevel=2,
        )

    def below(x: float) -> float:
        return (1.0 + math.erf((x - mean) / std / math.sqrt(2.0))) / 2.0

    with no_grad():
        if below(b) - below(a) > 0.3:
            _redraw(tensor, mean, std, a, b, generator)
        else:
            _accept(tensor, mean, std, a, b, generator)
    return tensor


def _redraw(tensor, mean: float, std: float, a: float, b: float, generator) -> None:
    """Most of the mass is inside: whole tensors are drawn until each place has had a good number."""
    low, high = (_C.tensor(bound, dtype=tensor.dtype).item() for bound in (a, b))
    result = tensor.normal_(mean, std, generator=generator)
    while (outside := result.lt(low) | result.gt(high)).sum().item() > 0:
        result = _C.where(outside, _C.empty_like(result).normal_(mean, std, generator=generator), result)
    if result is not tensor:
        tensor.copy_(result)


def _accept(tensor, mean: float, std: float, a: float, b: float, generator) -> None:
    """Little of the mass is inside: uniform candidates, each kept with the density's probability."""
    peak = -0.5 * ((max(a, min(mean, b)) - mean) / std) ** 2
    result, pending = None, None
    while pending is None or pending.sum().item() > 0:
        candidates = _C.empty_like(tensor).uniform_(a, b, generator=generator)
        result = candidates if pending is None else _C.where(pending, candidates, result)
        density = candidates.sub(mean).div_(std).pow_(2).mul_(-0.5).sub_(peak)
        refused = _C.empty_like(tensor).uniform_(generator=generator).log_().gt(density)
        pending = refused if pending is None else refused & pending
    tensor.copy_(result)


def eye_(tensor):
    """The identity, or what of it fits a matrix that is not square."""
    if tensor.dim() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    with no_grad():
        tensor.zero_().diagonal().fill_(1)
    return tensor


def dirac_(tensor, groups: int = 1):
    """The weight of a convolution that hands through as many channels as there are, group by group."""
    if tensor.dim() not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    if tensor.size(0) % groups:
        raise ValueError("dim 0 must be divisible by groups")
    each = tensor.size(0) // groups
    middle = tuple(size // 2 for size in tensor.shape[2:])
    with no_grad():
        tensor.zero_()
        for group in range(groups):
            for channel in range(min(each, tensor.size(1))):
                tensor[(group * each + channel, channel, *middle)] = 1
    return tensor


def orthogonal_(tensor, gain: float = 1, generator=None):
    """Rows, or columns where there are fewer of them, that are orthonormal, times `gain` (Saxe and others 2013)."""
    if tensor.dim() < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    if tensor.numel() == 0:
        return tensor
    from .. import linalg

    rows = tensor.size(0)
    drawn = tensor.new_empty((rows, tensor.numel() // rows)).normal_(0, 1, generator=generator)
    wide = drawn.size(0) < drawn.size(1)
    with no_grad():
        q, r = linalg.qr(drawn.t() if wide else drawn)
        q = q * r.diagonal().sign()
        tensor.copy_((q.t() if wide else q).reshape(tensor.shape)).mul_(gain)
    return tensor


def sparse_(tensor, sparsity: float, std: float = 0.01, generator=None):
    """Normal with `std`; of each column the share `sparsity`, drawn at random, is zero (Martens 2010)."""
    if tensor.dim() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    rows, columns = tensor.shape
    zeros = math.ceil(sparsity * rows)
    with no_grad():
        tensor.normal_(0, std, generator=generator)
        for column in range(columns):
            tensor[_C.randperm(rows)[:zeros], column] = 0
    return tensor


def _old(name: str):
    """The name without its underscore that PyTorch still has, with its notice."""
    function = globals()[name + "_"]

    def renamed(*args, **kwargs):
        warnings.warn(f"`nn.init.{name}` is now deprecated in favor of `nn.init.{name}_`.", FutureWarning, stacklevel=2)
        return function(*args, **kwargs)

    renamed.__name__ = name
    renamed.__doc__ = f"The old name of {name}_()."
    return renamed


uniform, normal, constant, eye, dirac = map(_old, ("uniform", "normal", "constant", "eye", "dirac"))
xavier_uniform, xavier_normal = map(_old, ("xavier_uniform", "xavier_normal"))
kaiming_uniform, kaiming_normal = map(_old, ("kaiming_uniform", "kaiming_normal"))
orthogonal, sparse = map(_old, ("orthogonal", "sparse"))


def __getattr__(name: str):
    raise absent("torch.nn.init", name)
