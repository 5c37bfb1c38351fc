"""Values in order: quantiles, distinct values and how often each is there, histograms."""

from collections import namedtuple

from . import _C
from ._composed import _KINDS
from ._shells import shells_of_module
from .amp.autocast_mode import in_float32

histogram_result = namedtuple("histogram", ("hist", "bin_edges"))
histogramdd_result = namedtuple("histogramdd", ("hist", "bin_edges"))
_INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


def _quantile(input, q, dim, keepdim: bool, interpolation: str, ignore_nan: bool):
    if interpolation not in _INTERPOLATIONS:
        raise RuntimeError("quantile() interpolation must be one of linear, lower, higher, midpoint or nearest, "
                           f"but got {interpolation}")  # fmt: skip
    if input.dtype not in (_C.float32, _C.float64):
        raise RuntimeError("quantile() input tensor must be either float or double dtype")
    if input.numel() == 0:
        raise RuntimeError("quantile() input tensor must be non-empty")
    if isinstance(q, _C.TensorBase):
        if q.dtype is not input.dtype:
            raise RuntimeError("quantile() q tensor must be same dtype as the input tensor")
        if q.dim() > 1:
            raise RuntimeError("quantile() q must be a scalar or 1D tensor")
    else:
        if not 0 <= q <= 1:
            raise RuntimeError(f"quantile() q must be in the range [0, 1] but got {q}")
        q = _C.full((), q, dtype=input.dtype)
    rank = input.dim()
    rows = input.flatten() if dim is None else input.transpose(dim, -1) if rank else input.reshape(1)
    rows = rows.sort(dim=-1).values
    n = rows.shape[-1]
    nans = rows.isnan()
    at = q.reshape(-1) * (n - 1)
    if ignore_nan:
        at = q.reshape(-1) * ((~nans).sum(-1, keepdim=True) - 1).clamp(min=0)
    else:
        at = _C.where(nans.any(-1, keepdim=True), _C.full_like(at, n - 1), at)
    if interpolation in ("lower", "higher", "nearest"):
        at = {"lower": _C.floor, "higher": _C.ceil, "nearest": _C.round}[interpolation](at)
    low = at.long().expand(rows.shape[:-1] + (at.shape[-1],))
    values = rows.gather(-1, low)
    if interpolation in ("linear", "midpoint"):
        weight = 0.5 * (at != at.floor()) if interpolation == "midpoint" else at - at.floor()
        above = rows.gather(-1, at.ceil().long().expand_as(low))
        values = _C.lerp(values, above, weight.to(values.dtype).expand_as(values))
    return _placed(values, q, rank, dim, keepdim)


def _placed(values, q, rank: int, dim, keepdim: bool):
    """The quantiles, which lie along the last dimension, in front; the reduced dimension as `keepdim` says."""
    values = values.movedim(-1, 0)
    if dim is None:
        values = values.reshape((values.shape[0],) + (1,) * rank) if keepdim else values
    elif rank:
        place = dim % rank  # the last dimension stands there now
        values = values.unsqueeze(-1).transpose(place + 1, -1)
        values = values if keepdim else values.squeeze(place + 1)
    else:
        values = values.reshape(values.shape[:1])
    return values if q.dim() else values.squeeze(0)


@in_float32
def quantile(input, q, dim=None, keepdim=False, *, interpolation="linear", out=None):
    """The values below which the parts `q` of the elements lie, along `dim` or of all; NaN where there is one."""
    return _into(out, _quantile(input, q, dim, keepdim, interpolation, False))


@in_float32
def nanquantile(input, q, dim=None, keepdim=False, *, interpolation="linear", out=None):
    """The same of the elements that are not NaN."""
    return _into(out, _quantile(input, q, dim, keepdim, interpolation, True))


def _into(out, value):
    return value if out is None else out.resize_(value.shape).copy_(value)


# ---- distinct values
def _runs(sorted_rows):
    """Of a vector, or of rows, with equal ones side by side: where each run begins, as a mask."""
    n = sorted_rows.shape[0]
    first = _C.ones_like(sorted_rows if sorted_rows.dim() == 1 else sorted_rows.flatten(1).sum(1), dtype=_C.bool)
    if n > 1:
        differs = sorted_rows[1:] != sorted_rows[:-1]
        first[1:] = differs if differs.dim() == 1 else differs.flatten(1).any(1)
    return first


def _ties(rows):
    """Which rows but the first equal the one before; NaN equals NaN, as in order."""
    same = rows[1:] == rows[:-1]
    if rows.dtype.is_floating_point:
        same |= (rows[1:] != rows[1:]) & (rows[:-1] != rows[:-1])
    return same.all(1)


def _order_of_rows(rows):
    """The order of rows by their elements from the first on: by few of them, then by more while those leave it open."""
    flat, columns = rows.unsqueeze(-1).flatten(1), 8
    while True:
        order = _C.arange(flat.shape[0])
        for k in range(min(columns, flat.shape[1]) - 1, -1, -1):
            order = order[flat[:, k][order].argsort(stable=True)]
        if columns >= flat.shape[1]:
            return order
        found = flat[order]
        if (_ties(found[:, :columns]) == _ties(found)).all():
            return order
        columns *= 4


def _distinct(input, rows, order, return_inverse: bool, return_counts: bool, dim):
    """The first of each run of equal `rows`, which are the elements or parts of `input`; `order`: where each row was
    before sorting. With them the number of each row's run and the runs' lengths, as asked for."""
    if rows.dim() == 1 and dim is None and not (return_inverse or return_counts):
        return _C.cat([rows[:1], rows[1:].masked_select(rows[1:] != rows[:-1])])
    first = _runs(rows)
    starts = first.nonzero().flatten()
    values = rows.index_select(0, starts)
    found = [values if dim is None else values.movedim(0, dim).contiguous()]
    if return_inverse:
        number = first.long().cumsum(0) - 1
        inverse = number if order is None else _C.empty_like(number).scatter_(0, order, number)
        found.append(inverse.view(input.shape) if dim is None else inverse)
    if return_counts:
        ends = _C.cat([starts[1:], _C.full((1,), rows.shape[0], dtype=_C.int64)]) if starts.numel() else starts
        found.append(ends - starts)
    return tuple(found) if len(found) > 1 else found[0]


def unique(input, sorted=True, return_inverse=False, return_counts=False, dim=None):
    """The distinct elements, or parts of dimension `dim`, in order; where each went; how often each is there."""
    input = input.detach()
    if dim is None:
        rows, order = input.flatten().sort(stable=True)
    else:
        parts = input.movedim(dim, 0)
        order = _order_of_rows(parts)
        rows = parts[order]
    return _distinct(input, rows, order, return_inverse, return_counts, dim)


def unique_consecutive(input, return_inverse=False, return_counts=False, dim=None):
    """The elements, or the parts of dimension `dim`, without those that equal the one before."""
    input = input.detach()
    rows = input.flatten() if dim is None else input.movedim(dim, 0)
    if dim is not None and 0 in rows.shape[1:]:
        raise RuntimeError("There are 0 sized dimensions, and they aren't selected, so unique cannot be applied")
    return _distinct(input, rows, None, return_inverse, return_counts, dim)


# ---- histograms
def _range(name: str, input, low, high, margin):
    """The two ends of the bins: those of the elements where both are the same."""
    if low == high and input.numel():
        if _C.is_capturing() or input._is_fake:
            return _range_of_elements(name, input, margin)
        low, high = input.min().item(), input.max().item()
    if low == high:
        low, high = low - margin, high + margin
    if not (abs(low) < float("inf") and abs(high) < float("inf")):
        raise RuntimeError(f"{name}: range of [{low}, {high}] is not finite")
    if low > high:
        raise RuntimeError(f"{name}: max must be larger than min")
    return low, high


_counted = _C.op_function("aten::_counts", "torch._counts")
_asserted = _C.op_function("aten::_functional_assert_async.msg", "torch._functional_assert_async")


def _range_of_elements(name: str, input, margin):
    """The same as tensors: in a graph the elements are not known yet."""
    low, high = input.min().double(), input.max().double()
    low = _asserted(low.isfinite() & high.isfinite(), f"{name}: range of the elements is not finite", low)
    same = low == high
    return _C.where(same, low - margin, low), _C.where(same, high + margin, high)


def _zeros(x, n: int):
    """n zeros of x's dtype; of a fake tensor fake ones."""
    return _C.zeros_like(x.sum(dtype=x.dtype).expand(n), memory_format=_C.contiguous_format)


def histc(input, bins=100, min=0, max=0, *, out=None):
    """How many elements lie in each of `bins` equal bins from `min` to `max`, of all elements where these are equal."""
    if bins <= 0:
        raise RuntimeError(f"torch.histogram(): bins must be > 0, but got {bins} for dimension 0")
    if not input.dtype.is_floating_point:
        raise NotImplementedError(f"histc: not implemented for '{_KINDS[input.dtype]}'")
    low, high = _range("torch.histc", input, min, max, 1)
    x = input.detach().flatten()
    inside = ((x >= low) & (x <= high)).to(x.dtype)
    at = ((x.double() - low) * bins / (high - low)).clamp(min=0, max=bins - 1).long()
    return _into(out, _zeros(x, bins).scatter_add_(0, at, inside))


def histogram(input, bins, *, range=None, weight=None, density=False, out=None):
    """(hist, bin_edges): counts or sums of weights between edges, which are equally spaced where `bins` is a number."""
    flat = input.detach().reshape(-1, 1)
    hist, edges = histogramdd(flat, [bins], range=range, weight=None if weight is None else weight.reshape(-1),
                              density=density)  # fmt: skip
    return histogram_result(hist, edges[0])


def _edges(x, bins, ends, k: int):
    """The edges of the bins of dimension `k`: as given, or equally spaced between two ends."""
    if isinstance(bins, _C.TensorBase):
        if bins.dim() != 1:
            raise RuntimeError(
                f"torch.histogramdd: bins tensor should have one dimension, but got {bins.dim()} dimensions in the "
                f"bins tensor for dimension {k}"
            )
        if bins.numel() == 0:
            raise RuntimeError(
                "torch.histogramdd: bins tensor should have at least 1 element, but got 0 elements in the bins tensor "
                f"for dimension {k}"
            )
        if bins.dtype != x.dtype:
            raise RuntimeError(
                "torch.histogramdd: input tensor and bins tensors should have the same dtype, but got input with dtype "
                f"{x.dtype} and bins for dimension {k} with dtype {bins.dtype}"
            )
        return bins
    if bins <= 0:
        raise RuntimeError(f"torch.histogram(): bins must be > 0, but got {bins} for dimension {k}")
    low, high = ends or (0, 0)
    if low > high:
        raise RuntimeError(
            f"torch.histogramdd: min should not exceed max, but got min {low:g} max {high:g} for dimension {k}"
        )
    low, high = _range("torch.histogramdd()", x, low, high, 0.5)
    return _C.linspace(low, high, bins + 1, dtype=x.dtype)


def histogramdd(input, bins, *, range=None, weight=None, density=False, out=None):
    """The same in as many dimensions as the last one of `input` has elements; `bin_edges` is a tuple."""
    if input.dtype not in (_C.float32, _C.float64):
        raise NotImplementedError(f"histogramdd: not implemented for '{input.dtype}'")
    if weight is not None and (weight.shape != input.shape[:-1] or weight.dtype != input.dtype):
        raise RuntimeError(
            "torch.histogramdd: if weight tensor is provided it should have the same shape as the input tensor "
            f"excluding its innermost dimension, but got input with shape {list(input.shape)} and weight with shape "
            f"{list(weight.shape)}"
            if weight.shape != input.shape[:-1]
            else "torch.histogramdd: if weight tensor is provided, input tensor and weight tensor should have the same "
            f"dtype, but got input({input.dtype}), and weight({weight.dtype})"
        )
    points = input.detach().reshape(-1, input.shape[-1])
    n = points.shape[1]
    bins = [bins] * n if isinstance(bins, int) else list(bins)
    if len(bins) != n:
        raise RuntimeError("The size of bins must be equal to the innermost dimension of the input.")
    edges = [_edges(points[:, k], given, None if range is None else range[2 * k : 2 * k + 2], k)
             for k, given in enumerate(bins)]  # fmt: skip
    inside = _C.ones_like(points[:, 0], dtype=_C.bool)
    at = None
    for k, edge in enumerate(edges):
        x = points[:, k].contiguous()
        inside &= (x >= edge[0]) & (x <= edge[-1])
        place = _C.searchsorted(edge.contiguous(), x, right=True) - 1
        place = place.clamp(min=0, max=edge.numel() - 2)
        at = place if at is None else at * (edge.numel() - 1) + place
    sizes = [edge.numel() - 1 for edge in edges]
    total = 1
    for size in sizes:
        total *= size
    if weight is None:
        hist = _counted(at.masked_fill(~inside, total), total + 1)[:total].to(input.dtype).view(sizes)
    else:
        weights = weight.detach().reshape(-1)
        hist = _zeros(weights, total).scatter_add_(0, at, weights * inside).view(sizes)
    if density:
        hist = hist / hist.sum()
        for k, edge in enumerate(edges):
            hist = hist / (edge[1:] - edge[:-1]).view([-1 if d == k else 1 for d, _ in enumerate(edges)])
    return histogramdd_result(hist, tuple(edges))


shells_of_module(globals())
