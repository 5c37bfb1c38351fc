"""Functions that see a tensor through windows: convolution, pooling, resampling, sampling. Part of functional."""

import math
import warnings

from .. import _C

_nn = {name.rpartition(".")[2]: f for name, f in _C.functions.items() if name.startswith("torch._C._nn.")}

__all__ = [
    "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "avg_pool1d",
    "avg_pool2d", "avg_pool3d", "max_pool1d", "max_pool1d_with_indices", "max_pool2d", "max_pool2d_with_indices",
    "max_pool3d", "max_pool3d_with_indices", "max_unpool1d", "max_unpool2d", "max_unpool3d", "adaptive_avg_pool1d",
    "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d", "adaptive_max_pool1d_with_indices",
    "adaptive_max_pool2d", "adaptive_max_pool2d_with_indices", "adaptive_max_pool3d",
    "adaptive_max_pool3d_with_indices", "fractional_max_pool2d", "fractional_max_pool2d_with_indices",
    "fractional_max_pool3d", "fractional_max_pool3d_with_indices", "lp_pool1d", "lp_pool2d", "lp_pool3d", "unfold",
    "fold", "interpolate", "upsample", "upsample_nearest", "upsample_bilinear", "grid_sample", "affine_grid",
    "channel_shuffle", "native_channel_shuffle",
]  # fmt: skip

conv1d, conv2d, conv3d = _C.conv1d, _C.conv2d, _C.conv3d
conv_transpose1d, conv_transpose2d, conv_transpose3d = _C.conv_transpose1d, _C.conv_transpose2d, _C.conv_transpose3d
adaptive_avg_pool1d = _C.adaptive_avg_pool1d
channel_shuffle, native_channel_shuffle = _C.channel_shuffle, _C.native_channel_shuffle


def _numbers(x, n: int) -> list:
    """A number for each of `n` dimensions; one stands for all."""
    return list(x) if isinstance(x, (list, tuple)) else [x] * n


# ---- pooling
def avg_pool1d(input, kernel_size, stride=None, padding=0, ceil_mode: bool = False, count_include_pad: bool = True):
    """The means of windows of one dimension."""
    stride = [] if stride is None else stride
    return _C.avg_pool1d(input, kernel_size, stride, padding, ceil_mode, count_include_pad)


def _avg_pool(n: int, average):
    def plain(
        input, kernel_size, stride=None, padding=0, ceil_mode: bool = False, count_include_pad: bool = True,
        divisor_override=None,
    ):  # fmt: skip
        stride = [] if stride is None else stride
        return average(input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)

    plain.__name__ = f"avg_pool{n}d"
    plain.__doc__ = f"The means of windows of {n} dimensions; `divisor_override` stands for the number of places."
    return plain


avg_pool2d, avg_pool3d = _avg_pool(2, _nn["avg_pool2d"]), _avg_pool(3, _nn["avg_pool3d"])


def _max_pool(n: int, both, alone=None):
    """The functions of one rank: with indices, and without them unless they are asked for (`alone`: the operator of
    those)."""

    def with_indices(
        input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode: bool = False, return_indices: bool = False
    ):
        return both(input, kernel_size, [] if stride is None else stride, padding, dilation, ceil_mode)

    def plain(
        input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode: bool = False, return_indices: bool = False
    ):
        options = input, kernel_size, [] if stride is None else stride, padding, dilation, ceil_mode
        if alone and not return_indices:
            return alone(*options)
        found = both(*options)
        return found if return_indices else found[0]

    with_indices.__name__ = with_indices.__qualname__ = f"max_pool{n}d_with_indices"
    plain.__name__ = plain.__qualname__ = f"max_pool{n}d"
    with_indices.__doc__ = f"The largest numbers of windows of {n} dimensions, and their places."
    plain.__doc__ = f"The largest numbers of windows of {n} dimensions."
    return with_indices, plain


max_pool1d_with_indices, max_pool1d = _max_pool(1, _C.max_pool1d_with_indices, _C.max_pool1d)
max_pool2d_with_indices, max_pool2d = _max_pool(2, _nn["max_pool2d_with_indices"])
max_pool3d_with_indices, max_pool3d = _max_pool(3, _nn["max_pool3d_with_indices"], _C.max_pool3d)


def _places(input, output_size, n: int) -> list:
    """`output_size` with the input's own sizes for None."""
    if isinstance(output_size, int):
        return [output_size] * n
    if input.dim() <= len(output_size):
        raise ValueError(
            f"Input dimension should be at least {len(output_size) + 1}, but got input of {input.dim()} dimensions"
        )
    own = input.size()[-len(output_size) :]
    return [own[k] if size is None else size for k, size in enumerate(output_size)]


def adaptive_avg_pool2d(input, output_size):
    """Means of windows that together cover all places, `output_size` of them; None: as many as there are."""
    return _nn["adaptive_avg_pool2d"](input, _places(input, output_size, 2))


def adaptive_avg_pool3d(input, output_size):
    """Means of windows that together cover all places, `output_size` of them; None: as many as there are."""
    return _nn["adaptive_avg_pool3d"](input, _places(input, output_size, 3))


def _adaptive_max_pool(n: int, both):
    places = _places if n > 1 else lambda input, output_size, n: output_size

    def with_indices(input, output_size, return_indices: bool = False):
        return both(input, places(input, output_size, n))

    def plain(input, output_size, return_indices: bool = False):
        found = both(input, places(input, output_size, n))
        return found if return_indices else found[0]

    with_indices.__name__ = with_indices.__qualname__ = f"adaptive_max_pool{n}d_with_indices"
    plain.__name__ = plain.__qualname__ = f"adaptive_max_pool{n}d"
    with_indices.__doc__ = "The largest numbers of windows that together cover all places, and where they lie."
    plain.__doc__ = "The largest numbers of windows that together cover all places."
    return with_indices, plain


adaptive_max_pool1d_with_indices, adaptive_max_pool1d = _adaptive_max_pool(1, _C.adaptive_max_pool1d)
adaptive_max_pool2d_with_indices, adaptive_max_pool2d = _adaptive_max_pool(2, _nn["adaptive_max_pool2d"])
adaptive_max_pool3d_with_indices, adaptive_max_pool3d = _adaptive_max_pool(3, _nn["adaptive_max_pool3d"])


def _unpooled_size(input, kernel_size, stride, padding, output_size) -> list:
    """The places that were pooled; `output_size` chooses among the sizes that give as many windows."""
    n = len(kernel_size)
    usual = [(input.size(k - n) - 1) * stride[k] + kernel_size[k] - 2 * padding[k] for k in range(n)]
    if output_size is None:
        return usual
    output_size = list(output_size)
    if len(output_size) == n + 2:
        output_size = output_size[2:]
    if len(output_size) != n:
        raise ValueError(
            f"output_size should be a sequence containing {n} or {n + 2} elements, but it has a length of "
            f"'{len(output_size)}'"
        )
    for k in range(n):
        low, high = usual[k] - stride[k], usual[k] + stride[k]
        if not low < output_size[k] < high:
            raise ValueError(f'invalid output_size "{output_size}" (dim {k} must be between {low} and {high})')
    return output_size


def _unpool(input, indices, kernel_size, stride, padding, output_size, n: int):
    kernel_size, padding = _numbers(kernel_size, n), _numbers(padding, n)
    stride = kernel_size if stride is None else _numbers(stride, n)
    size = _unpooled_size(input, kernel_size, stride, padding, output_size)
    if n == 3:
        return _nn["max_unpool3d"](input, indices, size, stride, padding)
    if n == 2:
        return _nn["max_unpool2d"](input, indices, size)
    return _nn["max_unpool2d"](input.unsqueeze(-1), indices.unsqueeze(-1), [*size, 1]).squeeze(-1)


def max_unpool1d(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    """Zeros with the numbers of `input` where `indices` of max_pool1d say."""
    return _unpool(input, indices, kernel_size, stride, padding, output_size, 1)


def max_unpool2d(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    """Zeros with the numbers of `input` where `indices` of max_pool2d say."""
    return _unpool(input, indices, kernel_size, stride, padding, output_size, 2)


def max_unpool3d(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    """Zeros with the numbers of `input` where `indices` of max_pool3d say."""
    return _unpool(input, indices, kernel_size, stride, padding, output_size, 3)


def _fractional(input, kernel_size, output_size, output_ratio, samples, n: int):
    if output_size is None and output_ratio is None:
        raise ValueError(f"fractional_max_pool{n}d requires specifying either an output_size or an output_ratio")
    if output_size is None:
        if isinstance(output_ratio, float) and output_ratio > 1:
            raise AssertionError("output_ratio must be at most 1")
        ratio = _numbers(output_ratio, n)
        output_size = [int(input.size(k - n) * ratio[k]) for k in range(n)]
    if samples is None:
        batch = 1 if input.dim() == n + 1 else input.size(0)
        samples = _C.rand(batch, input.size(-n - 1), n, dtype=input.dtype, device=input.device)
    sizes = _numbers(kernel_size, n), _numbers(output_size, n)
    return _nn[f"fractional_max_pool{n}d"](input, *sizes, samples)


def fractional_max_pool2d_with_indices(
    input, kernel_size, output_size=None, output_ratio=None, return_indices: bool = False, _random_samples=None
):
    """The largest numbers of windows at random distances, and their places."""
    return _fractional(input, kernel_size, output_size, output_ratio, _random_samples, 2)


def fractional_max_pool2d(
    input, kernel_size, output_size=None, output_ratio=None, return_indices: bool = False, _random_samples=None
):
    """The largest numbers of windows at random distances."""
    found = _fractional(input, kernel_size, output_size, output_ratio, _random_samples, 2)
    return found if return_indices else found[0]


def fractional_max_pool3d_with_indices(
    input, kernel_size, output_size=None, output_ratio=None, return_indices: bool = False, _random_samples=None
):
    """The largest numbers of windows at random distances, and their places."""
    return _fractional(input, kernel_size, output_size, output_ratio, _random_samples, 3)


def fractional_max_pool3d(
    input, kernel_size, output_size=None, output_ratio=None, return_indices: bool = False, _random_samples=None
):
    """The largest numbers of windows at random distances."""
    found = _fractional(input, kernel_size, output_size, output_ratio, _random_samples, 3)
    return found if return_indices else found[0]


def _lp_pool(input, norm_type, kernel_size, stride, ceil_mode, average, n: int):
    mean = average(input.pow(norm_type), kernel_size, [] if stride is None else stride, 0, ceil_mode)
    return (mean.sign() * mean.abs().relu() * math.prod(_numbers(kernel_size, n))).pow(1.0 / norm_type)


def lp_pool1d(input, norm_type, kernel_size, stride=None, ceil_mode: bool = False):
    """The norm number `norm_type` of each window."""
    return _lp_pool(input, norm_type, kernel_size, stride, ceil_mode, avg_pool1d, 1)


def lp_pool2d(input, norm_type, kernel_size, stride=None, ceil_mode: bool = False):
    """The norm number `norm_type` of each window."""
    return _lp_pool(input, norm_type, kernel_size, stride, ceil_mode, avg_pool2d, 2)


def lp_pool3d(input, norm_type, kernel_size, stride=None, ceil_mode: bool = False):
    """The norm number `norm_type` of each window."""
    return _lp_pool(input, norm_type, kernel_size, stride, ceil_mode, avg_pool3d, 3)


# ---- windows as columns
def unfold(input, kernel_size, dilation=1, padding=0, stride=1):
    """The windows of each image as columns."""
    return _nn["im2col"](input, *(_numbers(x, 2) for x in (kernel_size, dilation, padding, stride)))


def fold(input, output_size, kernel_size, dilation=1, padding=0, stride=1):
    """Images of `output_size`: the sums of what the columns of their windows say."""
    return _nn["col2im"](input, *(_numbers(x, 2) for x in (output_size, kernel_size, dilation, padding, stride)))


# ---- resampling
_RANKS = {"linear": 3, "bilinear": 4, "bicubic": 4, "lanczos": 4, "trilinear": 5}


def _scaled(size: int, factor) -> int:
    """floor(size * factor); of whole factors and halves without floats, so that a size that a graph leaves open stays
    so."""
    if not abs(factor) < 2.0**31:
        raise RuntimeError(f"interpolate: {factor} times: value cannot be converted to type int64_t without overflow")
    if factor == math.floor(factor):
        return size * int(factor)
    if factor in (0.5, 0.25, 0.125):
        return size // int(1 / factor)
    return math.floor(float(size) * factor)


def _output_sizes(input, size, scale_factor, recompute) -> tuple:
    """(sizes, the factors that count)."""
    n = input.dim() - 2
    if size is not None and scale_factor is not None:
        raise ValueError("only one of size or scale_factor should be defined")
    if size is None and scale_factor is None:
        raise ValueError("either size or scale_factor should be defined")
    given = size if size is not None else scale_factor
    if isinstance(given, (list, tuple)) and len(given) != n:
        what, letter = ("output", "o") if size is not None else ("scale_factor", "s")
        shown = f"output size of {given}" if size is not None else f"scale_factor of shape {given}"
        wanted = "output size" if size is not None else what
        raise ValueError(
            f"Input and {what} must have the same number of spatial dimensions, but got input with spatial dimensions "
            f"of {list(input.shape[2:])} and {shown}. Please provide input tensor in (N, C, d1, d2, ...,dK) format and "
            f"{wanted} in ({letter}1, {letter}2, ...,{letter}K) format."
        )
    given = _numbers(given, n)
    if size is not None:
        if recompute:
            raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
        return given, [None] * n
    sizes = [_scaled(input.size(k + 2), given[k]) for k in range(n)]
    return sizes, [None] * n if recompute else [float(x) for x in given]


def _check_mode(input, mode: str, antialias: bool, align_corners) -> None:
    rank = _RANKS.get(mode)
    if antialias and not (mode in ("bilinear", "bicubic", "lanczos") and input.dim() == 4):
        raise ValueError(
            "Anti-alias option is restricted to bilinear, bicubic, and lanczos modes and requires a 4-D tensor as input"
        )
    if mode == "lanczos" and input.dim() == 4 and (not antialias or align_corners):
        what = "does not support align_corners=True" if align_corners else "requires antialias=True"
        raise ValueError(f"Lanczos mode {what}")
    if input.dim() in (3, 4, 5) and (mode in ("nearest", "nearest-exact", "area") or rank == input.dim()):
        return
    if rank is not None and input.dim() in (3, 4, 5) and mode not in ("bicubic", "lanczos"):
        raise NotImplementedError(f"Got {input.dim()}D input, but {mode} mode needs {rank}D input")
    raise NotImplementedError(
        "Input Error: Only 3D, 4D and 5D input Tensors supported"
        f" (got {input.dim()}D) for the modes: nearest | linear | bilinear | bicubic | trilinear | lanczos | area | "
        f"nearest-exact (got {mode})"
    )


def interpolate(
    input, size=None, scale_factor=None, mode: str = "nearest", align_corners=None, recompute_scale_factor=None,
    antialias: bool = False,
):  # fmt: skip
    """`input` (images, channels, ...) resampled to `size`, or to its size times `scale_factor`."""
    if mode in ("nearest", "area", "nearest-exact"):
        if align_corners is not None:
            raise ValueError(
                "align_corners option can only be set with the interpolating modes: linear | bilinear | bicubic | "
                "trilinear"
            )
    elif align_corners is None:
        align_corners = False
    recompute = recompute_scale_factor or (mode == "area" and size is None)
    sizes, scales = _output_sizes(input, size, scale_factor, recompute)
    _check_mode(input, mode, antialias, align_corners)
    n = input.dim() - 2
    if mode == "area":
        return (adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d)[n - 1](input, sizes)
    if mode == "nearest":
        return _nn[f"upsample_nearest{n}d"](input, sizes, *scales)
    if mode == "nearest-exact":
        return _nn[f"_upsample_nearest_exact{n}d"](input, sizes, *scales)
    name = f"_upsample_{mode}{n}d_aa" if antialias else f"upsample_{mode}{n}d"
    return _nn[name](input, sizes, align_corners, *scales)


def upsample(input, size=None, scale_factor=None, mode: str = "nearest", align_corners=None):
    """interpolate by its old name."""
    warnings.warn("`nn.functional.upsample` is deprecated. Use `nn.functional.interpolate` instead.", stacklevel=2)
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input, size=None, scale_factor=None):
    """interpolate with mode nearest, by its old name."""
    warnings.warn(
        "`nn.functional.upsample_nearest` is deprecated. Use `nn.functional.interpolate` instead.", stacklevel=2
    )
    return interpolate(input, size, scale_factor, mode="nearest")


def upsample_bilinear(input, size=None, scale_factor=None):
    """interpolate with mode bilinear and aligned corners, by its old name."""
    warnings.warn(
        "`nn.functional.upsample_bilinear` is deprecated. Use `nn.functional.interpolate` instead.", stacklevel=2
    )
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)


# ---- sampling
_SAMPLES, _BORDERS = {"bilinear": 0, "nearest": 1, "bicubic": 2}, {"zeros": 0, "border": 1, "reflection": 2}


def _unaligned(function: str) -> bool:
    warnings.warn(
        f"Default {function} behavior has changed to align_corners=False since 1.3.0. Please specify "
        "align_corners=True if the old behavior is desired. See the documentation of grid_sample for details.",
        stacklevel=3,
    )
    return False


def grid_sample(input, grid, mode: str = "bilinear", padding_mode: str = "zeros", align_corners=None):
    """What `input` shows at the places of `grid`, which are numbers between -1 and 1, the last dimension first."""
    if mode not in _SAMPLES:
        raise ValueError(
            f"nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: '{mode}'"
        )
    if padding_mode not in _BORDERS:
        raise ValueError(
            "nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or 'reflection', but got: "
            f"'{padding_mode}'"
        )
    if align_corners is None:
        align_corners = _unaligned("grid_sample")
    return _C.grid_sampler(input, grid, _SAMPLES[mode], _BORDERS[padding_mode], align_corners)


def affine_grid(theta, size, align_corners=None):
    """The grid for grid_sample that moves images of `size` by the matrices `theta`, (images, n, n + 1)."""
    if align_corners is None:
        align_corners = _unaligned("affine_grid")
    if not theta.is_floating_point():
        raise ValueError(f"Expected theta to have floating point type, but got {theta.dtype}")
    n = len(size) - 2
    if n not in (2, 3):
        raise NotImplementedError(
            "affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, respectively. Got size "
            f"{tuple(size)}."
        )
    if theta.dim() != 3 or theta.shape[-2] != n or theta.shape[-1] != n + 1:
        raise ValueError(
            f"Expected a batch of {n}D affine matrices of shape Nx{n}x{n + 1} for size {tuple(size)}. Got "
            f"{theta.shape}."
        )
    if min(size) <= 0:
        raise ValueError(f"Expected non-zero, positive output size. Got {tuple(size)}")
    places = []
    for k in range(n):
        count = size[-1 - k]
        line = _C.linspace(-1, 1, count, dtype=theta.dtype, device=theta.device) if count > 1 else _C.zeros(
            (1,), dtype=theta.dtype, device=theta.device)  # fmt: skip
        if not align_corners:
            line = line * ((count - 1) / count)
        shape = [1] * n
        shape[n - 1 - k] = count
        places.append(line.view(shape).expand(list(size[2:])))
    places.append(_C.ones(list(size[2:]), dtype=theta.dtype, device=theta.device))
    base = _C.stack(places, -1).view(1, -1, n + 1).expand(size[0], -1, -1)
    return base.bmm(theta.transpose(1, 2)).view(size[0], *size[2:], n)
