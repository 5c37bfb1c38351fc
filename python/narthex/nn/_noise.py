"""Dropout of channels, and of what keeps mean and variance; instance_norm and local_response_norm."""

import warnings

from .. import _C


def _checked(p: float) -> None:
    if p < 0.0 or p > 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


def _channels(input, p: float, training: bool, inplace: bool, batched: bool):
    if not batched:
        input = input.unsqueeze_(0) if inplace else input.unsqueeze(0)
    result = (_C.feature_dropout_ if inplace else _C.feature_dropout)(input, p, training)
    if not batched:
        result = result.squeeze_(0) if inplace else result.squeeze(0)
    return result


def dropout1d(input, p: float = 0.5, training: bool = True, inplace: bool = False):
    """dropout of whole channels of (N, C, L) or (C, L)."""
    _checked(p)
    if input.dim() not in (2, 3):
        raise RuntimeError(
            f"dropout1d: Expected 2D or 3D input, but received a {input.dim()}D input. Note that dropout1d exists to "
            "provide channel-wise dropout on inputs with 1 spatial dimension, a channel dimension, and an optional "
            "batch dimension (i.e. 2D or 3D inputs)."
        )
    return _channels(input, p, training, inplace, input.dim() == 3)


def _warn_of_dims(name: str, n_dims: int, n: int) -> None:
    if n_dims not in (n + 1, n + 2):
        warnings.warn(
            f"{name}: Received a {n_dims}-D input to {name}, which is deprecated and will result in an error in a "
            "future release. To retain the behavior and silence this warning, please use dropout instead. Note that "
            f"{name} exists to provide channel-wise dropout on inputs with {n} spatial dimensions, a channel "
            f"dimension, and an optional batch dimension (i.e. {n + 1}D or {n + 2}D inputs).",
            stacklevel=3,
        )


def dropout2d(input, p: float = 0.5, training: bool = True, inplace: bool = False):
    """dropout of whole channels of (N, C, H, W)."""
    _checked(p)
    _warn_of_dims("dropout2d", input.dim(), 2)
    if input.dim() == 3:
        warnings.warn(
            "dropout2d: Received a 3D input to dropout2d and assuming that channel-wise 1D dropout behavior is desired "
            "- input is interpreted as shape (N, C, L), where C is the channel dim. This behavior will change in a "
            "future release to interpret the input as one without a batch dimension, i.e. shape (C, H, W). To maintain "
            "the 1D channel-wise dropout behavior, please switch to using dropout1d instead.",
            stacklevel=2,
        )
    return _channels(input, p, training, inplace, True)


def dropout3d(input, p: float = 0.5, training: bool = True, inplace: bool = False):
    """dropout of whole channels of (N, C, D, H, W) or (C, D, H, W)."""
    _checked(p)
    _warn_of_dims("dropout3d", input.dim(), 3)
    return _channels(input, p, training, inplace, input.dim() == 5)


def alpha_dropout(input, p: float = 0.5, training: bool = False, inplace: bool = False):
    """dropout that keeps mean and variance, for selu."""
    _checked(p)
    return (_C.alpha_dropout_ if inplace else _C.alpha_dropout)(input, p, training)


def feature_alpha_dropout(input, p: float = 0.5, training: bool = False, inplace: bool = False):
    """alpha_dropout of whole channels."""
    _checked(p)
    return (_C.feature_alpha_dropout_ if inplace else _C.feature_alpha_dropout)(input, p, training)


def _for_each(x, n: int):
    return None if x is None else x.repeat(n)


def instance_norm(
    input, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats: bool = True,
    momentum: float = 0.1, eps: float = 1e-05,
):  # fmt: skip
    """Mean 0 and variance 1 in each channel of each sample."""
    if use_input_stats:
        n = 1
        for size in input.shape[2:]:
            n *= size
        if n == 1:
            raise ValueError(f"Expected more than 1 spatial element when training, got input size {input.size()}")
    elif running_mean is None or running_var is None:
        raise RuntimeError("Expected running_mean and running_var to be defined when use_input_stats is false")
    batch, channels = input.shape[:2]
    means, variances = _for_each(running_mean, batch), _for_each(running_var, batch)
    result = _C.batch_norm(
        input.contiguous().view(1, batch * channels, *input.shape[2:]), _for_each(weight, batch),
        _for_each(bias, batch), means, variances, use_input_stats, momentum, eps, True,
    )  # fmt: skip
    if use_input_stats:
        for running, now in ((running_mean, means), (running_var, variances)):
            if running is not None:
                running.copy_(now.view(batch, channels).mean(0))
    return result.view(input.shape)


def local_response_norm(input, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0):
    """Each element over (k + alpha * the mean of squares in the `size` channels around it) ** beta."""
    if input.dim() < 3:
        raise ValueError(
            f"Expected 3D or higher dimensionality                          input (got {input.dim()} dimensions)"
        )
    if input.numel() == 0:
        return input
    squares = input.mul(input)
    padded = _C.constant_pad_nd(squares, [0, 0] * (input.dim() - 2) + [size // 2, (size - 1) // 2], 0)
    total = padded.narrow(1, 0, input.size(1))
    for i in range(1, size):
        total = total + padded.narrow(1, i, input.size(1))
    mean = total / size if total.dtype.is_floating_point else total // size
    return input / mean.mul(alpha).add(k).pow(beta)
