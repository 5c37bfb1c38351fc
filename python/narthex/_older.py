"""Functions of torch that are older names, or the layers' functions as ATen has them; each is made of others."""

import math
import warnings
from builtins import range as range_

from . import _C
from ._shells import shells_of_module
from .amp.autocast_mode import in_float32


def celu_(input, alpha=1.0):
    """nn.functional.celu in place."""
    from .nn import functional

    return functional.celu_(input, alpha)


def threshold_(input, threshold, value):
    """nn.functional.threshold in place."""
    from .nn import functional

    return functional.threshold_(input, threshold, value)


def rrelu(input, lower=0.125, upper=1.0 / 3, training=False, generator=None):
    """Leaky ReLU; the slope is drawn for each element that is not positive when training."""
    if lower > upper:
        raise RuntimeError("Lower bound should be less than or equal to the upper bound")
    if not training:
        from .nn import functional

        return functional.leaky_relu(input, (lower + upper) / 2)
    return _C.rrelu_with_noise_functional(input, input.detach(), lower, upper, True, generator)[0]


def rrelu_(input, lower=0.125, upper=1.0 / 3, training=False, generator=None):
    """rrelu in place."""
    if training or lower > upper:
        return input.copy_(rrelu(input.clone(), lower, upper, training, generator))
    from .nn import functional

    return functional.leaky_relu(input, (lower + upper) / 2, True)


def fill(input, value):
    """`value` in every place of a tensor like `input`."""
    return input.clone().fill_(value)


def resize_as_(input, the_template, *, memory_format=None):
    """Tensor.resize_as_"""
    return input.resize_as_(the_template)


def unsafe_chunk(input, chunks, dim=0):
    """chunk, whose parts are no views to autograd in PyTorch."""
    return input.chunk(chunks, dim)


def unsafe_split(tensor, split_size, dim=0):
    """split, whose parts are no views to autograd in PyTorch."""
    return tensor.split(split_size, dim)


def unsafe_split_with_sizes(input, split_sizes, dim=0):
    """split_with_sizes, whose parts are no views to autograd in PyTorch."""
    return input.split_with_sizes(split_sizes, dim)


def get_device(input):
    """The index of its device, -1 on the CPU."""
    return input.get_device()


def is_inference(input):
    """False: there are no inference tensors."""
    return False


def bilinear(input1, input2, weight, bias=None):
    """nn.functional.bilinear"""
    from .nn import functional

    return functional.bilinear(input1, input2, weight, bias)


def ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, reduction=1, zero_infinity=False):
    """nn.functional.ctc_loss; `reduction` is 0, 1, 2 for none, mean, sum."""
    from .nn import functional

    word = ("none", "mean", "sum")[reduction]
    return functional.ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, word, zero_infinity)


def instance_norm(
    input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, cudnn_enabled=False
):  # fmt: skip
    """nn.functional.instance_norm"""
    from .nn import functional

    return functional.instance_norm(
        input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps
    )  # fmt: skip


def affine_grid_generator(theta, size, align_corners):
    """nn.functional.affine_grid"""
    from .nn import functional

    return functional.affine_grid(theta, list(size), align_corners)


def native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps):
    """(result, mean, 1 over the standard deviation) of each channel; empty statistics unless `training`."""
    from .nn import functional

    result = functional.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)
    if not training:
        nothing = input.detach().reshape(-1)[:0]
        return result, nothing, nothing.clone()
    dims = [d for d, _ in enumerate(input.shape) if d != 1]
    x = input.detach()
    return result, x.mean(dims), (x.var(dims, unbiased=False) + eps).rsqrt()


def batch_norm_update_stats(input, running_mean, running_var, momentum):
    """(mean, variance) of each channel; `momentum` of them goes into the running statistics, of the variance as it is
    estimated."""
    dims = [d for d, _ in enumerate(input.shape) if d != 1]
    mean, var = input.mean(dims), input.var(dims, unbiased=False)
    n = input.numel() // input.shape[1]
    for running, own in ((running_mean, mean), (running_var, var * (n / (n - 1)) if n > 1 else var)):
        if running is not None:
            running.mul_(1 - momentum).add_(own, alpha=momentum)
    return mean, var


_without_running = _C.op_function("aten::_native_batch_norm_legit.no_stats", "torch._native_batch_norm_legit")


def _native_batch_norm_legit(input, weight, bias, *rest):
    """native_batch_norm, also without running statistics: (input, weight, bias, training, momentum, eps)."""
    if len(rest) == 3:
        return _without_running(input, weight, bias, *rest)
    return native_batch_norm(input, weight, bias, *rest)


def _batch_norm_with_update(input, weight, bias, running_mean, running_var, momentum, eps):
    """native_batch_norm in training, and what a device keeps beside it: nothing."""
    found = native_batch_norm(input, weight, bias, running_mean, running_var, True, momentum, eps)
    return *found, input.detach().reshape(-1)[:0].to(_C.uint8)


def conv_tbc(input, weight, bias, pad=0):
    """A convolution over time of (time, batch, channel) by a weight of (kernel, in, out)."""
    return _C.conv1d(input.permute(1, 2, 0), weight.permute(2, 1, 0), bias, padding=pad).permute(2, 0, 1)


def vander(x, N=None, increasing=False):
    """The matrix of the powers of `x`."""
    if x.dim() != 1:
        raise RuntimeError("x must be a one-dimensional tensor.")
    n = x.shape[0] if N is None else N
    if n < 0:
        raise RuntimeError("N must be non-negative.")
    columns, dtype = [], _C.int64 if not (x.is_floating_point() or x.is_complex()) else x.dtype
    for k in range_(n):
        columns.append(_C.ones_like(x, dtype=dtype) if k == 0 else columns[-1] * x)
    if n == 0:
        return x.new_empty((x.shape[0], 0), dtype=dtype)
    return _C.stack(columns if increasing else columns[::-1], 1)


def chain_matmul(*matrices, out=None):
    """The product of matrices, in the cheapest order."""
    if len(matrices) == 1 and isinstance(matrices[0], (list, tuple)):
        matrices = tuple(matrices[0])
    for matrix in matrices:
        if matrix.dim() != 2:
            raise RuntimeError(f"Tensor dimension is {matrix.dim()}, expected 2 instead.")
    if len(matrices) == 1:
        return matrices[0]
    from .linalg import multi_dot

    warnings.warn(
        "torch.chain_matmul is deprecated and will be removed in a future PyTorch release. Use torch.linalg.multi_dot "
        "instead, which accepts a list of two or more tensors rather than multiple parameters.",
        stacklevel=2,
    )
    result = multi_dot(list(matrices))
    return result if out is None else out.resize_(result.shape).copy_(result)


def norm_except_dim(v, pow=2, dim=0):
    """The norms over all dimensions but `dim`; -1: over all."""
    if dim == -1:
        return v.norm(pow)
    shape = [v.shape[k] if k == dim % v.dim() else 1 for k in range_(v.dim())]
    return v.transpose(0, dim).reshape(v.shape[dim], -1).norm(pow, 1).view(shape)


@in_float32
def lu(A, pivot=True, get_infos=False, out=None):  # noqa: N803  (PyTorch's name)
    """Tensor.lu; deprecated, as in PyTorch."""
    warnings.warn(
        "torch.lu is deprecated in favor of torch.linalg.lu_factor / torch.linalg.lu_factor_ex and will be removed in "
        "a future PyTorch release.", stacklevel=2,
    )  # fmt: skip
    made = A.lu(pivot, get_infos)
    if out is None:
        return made
    if len(out) != len(made):
        raise TypeError(f"expected tuple of {len(made)} elements but got {len(out)}")
    for place, value in zip(out, made):
        place.resize_(value.shape).copy_(value)
    return out


def frobenius_norm(input, dim=None, keepdim=False):
    """The root of the sum of squares over one or two dimensions, or all."""
    dims = [] if dim is None else [dim] if isinstance(dim, int) else list(dim)
    if len(dims) > 2:
        raise RuntimeError(f"Expected at most 2 dimensions, but got {len(dims)} dimensions instead.")
    from .linalg import vector_norm

    return vector_norm(input, 2, dims or None, keepdim)


def nuclear_norm(input, dim=None, keepdim=False):
    """The sum of the singular values."""
    from .linalg import matrix_norm

    return matrix_norm(input, "nuc", (-2, -1) if dim is None else tuple(dim), keepdim)


def range(start, end=None, step=1, *, dtype=None, device=None, requires_grad=False):
    """The numbers from `start` to `end`, which is among them, by `step`."""
    warnings.warn(
        "torch.range is deprecated and will be removed in a future release because its behavior is inconsistent with "
        "Python's range builtin. Instead, use torch.arange, which produces values in [start, end).",
        stacklevel=2,
    )
    start, end = (0, start) if end is None else (start, end)
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if not (math.isfinite(start) and math.isfinite(end)):
        raise RuntimeError(f"unsupported range: {start} -> {end}")
    if (end < start) if step > 0 else (end > start):
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    n = int((end - start) / step) + 1
    made = _C.arange(n, dtype=_C.float64) * step + start
    made = made.to(dtype or _C.get_default_dtype()).to(device or "cpu")
    return made.requires_grad_() if requires_grad else made


shells_of_module(globals())
