"""Functions of torch that are made of operators by Python: what they need to know are sizes and dimensions."""

from . import _C
from ._shells import shells_of_module
from .amp.autocast_mode import in_float32

_KINDS = {_C.float16: "Half", _C.bfloat16: "BFloat16", _C.float32: "Float", _C.float64: "Double", _C.bool: "Bool",
          _C.uint8: "Byte", _C.int8: "Char", _C.int16: "Short", _C.int32: "Int", _C.int64: "Long",
          _C.complex32: "ComplexHalf", _C.complex64: "ComplexFloat", _C.complex128: "ComplexDouble"}  # fmt: skip


def _numel(sizes) -> int:
    found = 1
    for size in sizes:
        found *= size
    return found


def rot90(input, k: int = 1, dims=(0, 1)):
    """`k` quarter turns from the first of `dims` towards the second."""
    if len(dims) != 2:
        raise RuntimeError(f"expected total rotation dims == 2, but got dims = {len(dims)}")
    if input.ndim < 2:
        raise RuntimeError(f"expected total dims >= 2, but got total dims = {input.ndim}")
    first, second = dims
    if first == second or abs(first - second) == input.ndim:
        raise RuntimeError(f"expected rotation dims to be different, but got dim0 = {first} and dim1 = {second}")
    for name, dim in (("0", first), ("1", second)):
        if not -input.ndim <= dim < input.ndim:
            raise RuntimeError(f"Rotation dim{name} out of range, dim{name} = {dim}")
    k %= 4
    if k == 0:
        return input.clone(memory_format=_C.contiguous_format)
    if k == 2:
        return input.flip([first, second])
    return input.flip([second if k == 1 else first]).transpose(first, second)


def tensordot(a, b, dims=2, out=None):
    """The sum of products over dimensions of both: so many, or those of two lists."""
    if isinstance(dims, _C.TensorBase):
        dims = dims.tolist()
    if isinstance(dims, int):
        if dims < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
        if dims > min(a.ndim, b.ndim):
            raise RuntimeError(f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims}")
        dims = (list(range(-dims, 0)), list(range(dims)))
    left, right = ([one] if isinstance(one, int) else list(one) for one in dims)
    if len(left) != len(right):
        raise RuntimeError("both dimension lists should have same length")
    left, right = [dim % a.ndim for dim in left], [dim % b.ndim for dim in right]
    for one, other in zip(left, right):
        if a.shape[one] == 1 and b.shape[other] != 1:
            b = b.sum(other, True)
        elif b.shape[other] == 1 and a.shape[one] != 1:
            a = a.sum(one, True)
        elif a.shape[one] != b.shape[other]:
            raise RuntimeError(
                f"contracted dimensions need to match, but first has size {a.shape[one]} in dim {one} and second has "
                f"size {b.shape[other]} in dim {other}"
            )
    rows = [dim for dim in range(a.ndim) if dim not in left]
    columns = [dim for dim in range(b.ndim) if dim not in right]
    sizes = [a.shape[dim] for dim in rows] + [b.shape[dim] for dim in columns]
    k = _numel(a.shape[dim] for dim in left)
    n, m = _numel(a.shape[dim] for dim in rows), _numel(b.shape[dim] for dim in columns)
    found = a.permute(rows + left).reshape(n, k) @ b.permute(right + columns).reshape(k, m)
    return found.reshape(sizes) if out is None else out.copy_(found.reshape(sizes))


def block_diag(*tensors):
    """A matrix with the tensors as blocks along its diagonal."""
    blocks = []
    for at, one in enumerate(tensors):
        if one.ndim > 2:
            raise RuntimeError(
                f"torch.block_diag: Input tensors must have 2 or fewer dimensions. Input {at} has {one.ndim} dimensions"
            )
        blocks.append(one.reshape(1, -1) if one.ndim < 2 else one)
    if not blocks:
        return _C.empty([1, 0])
    width, rows, before = sum(one.shape[1] for one in blocks), [], 0
    for one in blocks:
        height, own = one.shape
        rows.append(_C.cat([one.new_zeros([height, before]), one, one.new_zeros([height, width - before - own])], 1))
        before += own
    return _C.cat(rows, 0)


def diff(input, n: int = 1, dim: int = -1, prepend=None, append=None, *, out=None):
    """The differences of neighbours along a dimension, n times."""
    if input.ndim == 0:
        raise RuntimeError("diff expects input to be at least one-dimensional")
    if n < 0:
        raise RuntimeError(f"order must be non-negative but got {n}")
    if n == 0:
        return input.clone() if out is None else out.copy_(input)
    dim = dim % input.ndim
    for one in (prepend, append):
        if one is not None and one.ndim != input.ndim:
            raise RuntimeError("diff expects prepend or append to be the same dimension as input")
    parts = [one for one in (prepend, input, append) if one is not None]
    found = _C.cat(parts, dim) if len(parts) > 1 else input
    for _ in range(min(n, found.shape[dim])):
        size = found.shape[dim] - 1
        late, early = found.narrow(dim, 1, size), found.narrow(dim, 0, size)
        found = late ^ early if found.dtype == _C.bool else late - early
    return found if out is None else out.copy_(found)


def _steps(y, x, dim: int):
    """The distances of neighbours: along y's dimension where x has one dimension, else along x's own."""
    if x.ndim == 1:
        if x.shape[0] != y.shape[dim]:
            raise RuntimeError("trapezoid: There must be one `x` value for each sample point")
        return diff(x).reshape([-1] + [1] * (y.ndim - dim % y.ndim - 1))
    if y.ndim > x.ndim:
        x = x.reshape([1] * (y.ndim - x.ndim) + list(x.shape))
    return diff(x, 1, dim)


def _trapezoids(y, x, dx, dim: int):
    first = min(y.shape[dim], 1)
    size = y.shape[dim] - first
    sums = y.narrow(dim, first, size) + y.narrow(dim, 0, size)
    return sums * (dx if x is None else _steps(y, x, dim)) / 2


def _no_bools(name: str, y, x) -> None:
    """Refuses truth values, which are no numbers to integrate."""
    if y.dtype == _C.bool or (x is not None and x.dtype == _C.bool):
        which = "`y`" if x is None else "`x` or `y`"
        raise RuntimeError(f"{name}: received a bool input for {which}, but bool is not supported")


def trapezoid(y, x=None, *, dx=None, dim: int = -1):
    """The integral along a dimension by the trapezoidal rule."""
    if y.shape[dim] == 0:
        return _C.zeros_like(y.detach().sum(dim, dtype=y.dtype))
    _no_bools("trapezoid", y, x)
    return _trapezoids(y, x, 1 if dx is None else dx, dim).sum(dim)


trapz = trapezoid


def cumulative_trapezoid(y, x=None, *, dx=None, dim: int = -1):
    """The integral up to each point along a dimension, the first left out."""
    _no_bools("cumulative_trapezoid", y, x)
    return _trapezoids(y, x, 1 if dx is None else dx, dim).cumsum(dim)


def cov(input, *, correction: int = 1, fweights=None, aweights=None):
    """The covariances of variables, a row each, whose observations are columns."""
    if input.ndim > 2:
        raise RuntimeError(
            f"cov(): expected input to have two or fewer dimensions but got an input with {input.ndim} dimensions"
        )
    if input.dtype == _C.bool:
        raise RuntimeError("cov(): bool dtype is not supported for input")
    x = input.reshape(1, -1) if input.ndim < 2 else input
    count = x.shape[1]
    weights = None
    for name, one in (("fweights", fweights), ("aweights", aweights)):
        if one is None:
            continue
        if one.ndim > 1:
            raise RuntimeError(
                f"cov(): expected {name} to have one or fewer dimensions but got {name} with {one.ndim} dimensions"
            )
        kind = "floating point" if name == "aweights" else "integral"
        if one.dtype.is_floating_point != (name == "aweights") or one.dtype == _C.bool:
            raise RuntimeError(
                f"cov(): expected {name} to have {kind} dtype but got {name} with {_KINDS.get(one.dtype)} dtype"
            )
        if one.numel() != count:
            raise RuntimeError(
                f"cov(): expected {name} to have the same numel as there are observations in the input but got "
                f"{one.numel()} != {count}"
            )
        if count > 0 and not _C.is_capturing() and not one._is_fake and one.min() < 0:
            raise RuntimeError(f"cov(): {name} cannot be negative")
        weights = one if weights is None else weights * one
    total = count if weights is None else weights.sum()
    scaled = x if weights is None else x * weights
    centred = x - (x.mean(1, True) if weights is None and x.dtype.is_floating_point else (scaled.sum(1, True) / total))
    if weights is None or aweights is None or correction == 0:
        norm = total - correction
    else:
        both = aweights if fweights is None else fweights * aweights
        norm = total - correction * (both * aweights).sum() / total
    norm = norm.clamp(min=0) if isinstance(norm, _C.TensorBase) else max(norm, 0)
    other = centred if weights is None else centred * weights
    products = other @ centred.t().conj()
    found = products / norm if isinstance(norm, _C.TensorBase) or norm else products * float("nan")
    return found.squeeze() if input.ndim < 2 or x.shape[0] == 1 else found


def corrcoef(input):
    """The correlations of variables, a row each."""
    if input.ndim > 2:
        raise RuntimeError(
            f"corrcoef(): expected input to have two or fewer dimensions but got an input with {input.ndim} dimensions"
        )
    found = cov(input)
    if found.ndim == 0:
        return found / found
    root = found.diagonal().sqrt()
    found = found / root.unsqueeze(-1) / root.unsqueeze(0)
    if found.dtype.is_complex:
        return _C.complex(found.real.clamp(-1, 1), found.imag.clamp(-1, 1))
    return found.clamp(-1, 1)


def renorm(input, p, dim: int, maxnorm, *, out=None):
    """The parts along a dimension, those scaled down that are longer than `maxnorm`."""
    if p <= 0:
        raise RuntimeError("renorm: non-positive norm not supported")
    if input.ndim < 2:
        raise RuntimeError(f"renorm: input needs at least 2 dimensions, got {input.ndim} dimensions")
    if maxnorm < 0:
        raise RuntimeError(f"renorm: expected maxnorm to be >= 0 but got {maxnorm}")
    others = [one for one in range(input.ndim) if one != dim % input.ndim]
    lengths = _C.functions["torch._C._linalg.linalg_vector_norm"](input, p, others, True)
    found = input * _C.where(lengths > maxnorm, maxnorm / (lengths + 1e-7), _C.ones_like(lengths))
    return found if out is None else out.copy_(found)


@in_float32
def cdist(x1, x2, p: float = 2.0, compute_mode: str = "use_mm_for_euclid_dist_if_necessary"):
    """The distance of each row of `x1` from each of `x2`."""
    if compute_mode not in (
        "use_mm_for_euclid_dist_if_necessary",
        "use_mm_for_euclid_dist",
        "donot_use_mm_for_euclid_dist",
    ):
        raise ValueError(f"{compute_mode} is not a valid value for compute_mode")
    for name, one in (("X1", x1), ("X2", x2)):
        if one.ndim < 2:
            raise RuntimeError(f"cdist only supports at least 2D tensors, {name} got: {one.ndim}D")
        if not one.dtype.is_floating_point:
            raise RuntimeError(f"cdist only supports floating-point dtypes, {name} got: {_KINDS[one.dtype]}")
    if x1.shape[-1] != x2.shape[-1]:
        raise RuntimeError(f"X1 and X2 must have the same number of columns. X1: {x1.shape[-1]} X2: {x2.shape[-1]}")
    if p < 0:
        raise RuntimeError("cdist only supports non-negative p values")
    # As a product of matrices, less exact where rows are close together, it is computed where PyTorch does so.
    many = compute_mode.startswith("use_mm") and (
        not compute_mode.endswith("necessary") or max(x1.shape[-2], x2.shape[-2]) > 25
    )
    recorded = _C.is_grad_enabled() and (x1.requires_grad or x2.requires_grad)
    if p == 2 and many and not recorded and x1.dtype == x2.dtype and x1.dtype in (_C.float32, _C.float64):
        squares = (x1 * x1).sum(-1, keepdim=True) + (x2 * x2).sum(-1, keepdim=True).mT
        return (squares - 2 * (x1 @ x2.mT)).clamp_min(0).sqrt()
    length = _C.functions["torch._C._linalg.linalg_vector_norm"]
    return length(x1.unsqueeze(-2) - x2.unsqueeze(-3), p, [-1])


def pdist(input, p: float = 2.0):
    """The distances of all pairs of rows, in the order of the pairs."""
    if input.ndim != 2:
        raise RuntimeError(f"pdist only supports 2D tensors, got: {input.ndim}D")
    if not input.dtype.is_floating_point:
        raise RuntimeError("pdist only supports floating-point dtypes")
    if p < 0:
        raise RuntimeError("pdist only supports non-negative p values")
    rows = input.shape[0]
    if rows < 2:
        return input[:0].sum(-1)
    length = _C.functions["torch._C._linalg.linalg_vector_norm"]
    parts = [input[at + 1 :] - input[at] for at in range(rows - 1)]
    return length(_C.cat(parts, 0), p, [-1])


def gradient(input, *, spacing=1, dim=None, edge_order: int = 1):
    """The derivative along dimensions from neighbours; `spacing` is a distance or the places, for each dimension."""
    if edge_order not in (1, 2):
        raise RuntimeError("torch.gradient only supports edge_order=1 and edge_order=2.")
    dims = list(range(input.ndim)) if dim is None else [dim] if isinstance(dim, int) else list(dim)
    given = list(spacing) if isinstance(spacing, (list, tuple)) else [spacing] * len(dims)
    devices = [input.device, *(x.device for x in given if isinstance(x, _C.TensorBase))]
    other = next((device for device in devices if device != devices[0]), None)
    if other is not None:
        raise RuntimeError(
            f"torch.gradient expected each tensor to be on the same device, but got devices {devices[0]} and {other}!"
        )
    if len(given) != len(dims) and dim is not None:
        raise RuntimeError(
            "torch.gradient expected spacing to be unspecified, a scalar or it's spacing and dim arguments to have the "
            f"same length, but got a spacing argument of length {len(given)} and a dim argument of length {len(dims)}."
        )
    if len(given) != len(dims):
        kind = "spacing" if isinstance(spacing, (list, tuple)) else "dim"
        raise RuntimeError(
            f"torch.gradient expected {kind} to be unspecified, a scalar, or a list of length equal to "
            f"'self.dim() = {input.ndim}', since dim argument was not given, but got a list of length {len(given)}"
        )
    for one in dims:
        if not -input.ndim <= one < input.ndim:
            bounds = f"[{-input.ndim}, {input.ndim - 1}]"
            raise IndexError(f"Dimension out of range (expected to be in range of {bounds}, but got {one})")
    if len({one % input.ndim for one in dims}) != len(dims):
        raise RuntimeError(f"dim {dims[-1]} appears multiple times in the list of dims")
    for one in dims:
        if input.shape[one] <= edge_order:
            raise RuntimeError("torch.gradient expected each dimension size to be at least edge_order+1")
    return tuple([_slopes(input, one % input.ndim, step, edge_order) for one, step in zip(dims, given)])


def _slopes(x, dim: int, step, edge_order: int):
    """Along one dimension: inside from both neighbours, at the edges from one side."""
    n, step = x.shape[dim], 1 if step is None else step
    part = lambda start, size: x.narrow(dim, start, size)  # noqa: E731
    if not (x.dtype.is_floating_point or x.dtype.is_complex):
        x = x.to(_C.get_default_dtype())
    if not isinstance(step, _C.TensorBase) or step.ndim == 0:
        ends = [part(1, 1) - part(0, 1), part(n - 1, 1) - part(n - 2, 1)]
        if edge_order == 2:
            ends = [
                2 * part(1, 1) - 1.5 * part(0, 1) - 0.5 * part(2, 1),
                1.5 * part(n - 1, 1) - 2 * part(n - 2, 1) + 0.5 * part(n - 3, 1),
            ]
        return _C.cat([ends[0], (part(2, n - 2) - part(0, n - 2)) / 2, ends[1]], dim) / step
    steps = diff(step).reshape([-1] + [1] * (x.ndim - dim - 1))
    before, after = steps.narrow(0, 0, n - 2), steps.narrow(0, 1, n - 2)
    whole = before + after
    inner = (
        part(0, n - 2) * (-after / (before * whole))
        + part(1, n - 2) * ((after - before) / (before * after))
        + part(2, n - 2) * (before / (after * whole))
    )
    first, last = steps.narrow(0, 0, 1), steps.narrow(0, n - 2, 1)
    ends = [(part(1, 1) - part(0, 1)) / first, (part(n - 1, 1) - part(n - 2, 1)) / last]
    if edge_order == 2:
        h, k = first, steps.narrow(0, 1, 1)
        m, e = steps.narrow(0, n - 3, 1), last
        ends = [
            part(0, 1) * (-(2 * h + k) / (h * (h + k)))
            + part(1, 1) * ((h + k) / (h * k))
            - part(2, 1) * (h / (k * (h + k))),
            part(n - 3, 1) * (e / (m * (m + e)))
            - part(n - 2, 1) * ((m + e) / (m * e))
            + part(n - 1, 1) * ((m + 2 * e) / (e * (m + e))),
        ]
    return _C.cat([ends[0], inner, ends[1]], dim)


shells_of_module(globals())
