"""torch.masked: reductions and normalisations of the elements that a mask names. MaskedTensor: _masked_tensor.py.

In every function `mask`, a bool tensor that can be broadcast to the input, says by True which elements take part; None:
all of them. `dtype` is what the input is converted to first. A reduction of no element gives what the operation begins
with: 0, 1, an infinity, NaN for mean and median.
"""

import math

from .. import _C, linalg
from .._type_info import iinfo
from ._masked_tensor import MaskedTensor, as_masked_tensor, masked_tensor


def _kept(input, mask, fill):
    """The input with `fill` where the mask has False."""
    if mask is None:
        return input
    if mask.dtype != _C.bool:
        mask = mask.bool()
    return _C.where(mask, input, _C.full((), fill, dtype=input.dtype, device=input.device))


def _least(dtype):
    if dtype == _C.bool:
        return False
    return -math.inf if dtype.is_floating_point or dtype.is_complex else iinfo(dtype).min


def _most(dtype):
    if dtype == _C.bool:
        return True
    return math.inf if dtype.is_floating_point or dtype.is_complex else iinfo(dtype).max


def _summed(input, dtype):
    """In the dtype that sums have: int64 for whole numbers."""
    if dtype is None and not (input.dtype.is_floating_point or input.dtype.is_complex):
        dtype = _C.int64
    return input if dtype is None else input.to(dtype)


def _cast(input, dtype):
    return input if dtype is None else input.to(dtype)


def _dims(input, dim) -> tuple:
    """The dimensions as numbers from 0, sorted; all of them for None and ()."""
    if dim is None or dim == ():
        return tuple(range(input.dim()))
    found = []
    for d in (dim,) if isinstance(dim, int) else dim:
        if not -max(1, input.dim()) <= d < max(1, input.dim()):
            n = max(1, input.dim())
            raise IndexError(f"Dimension out of range (expected to be in range of [{-n}, {n - 1}], but got {d})")
        d %= max(1, input.dim())
        if d in found:
            raise RuntimeError(f"dim={d} appears multiple times in the list of dims")
        found.append(d)
    return tuple(sorted(found)) if input.dim() else ()


def _along(function, input, dim, keepdim):
    """A reduction of one dimension, done for each of several, the last first."""
    for d in reversed(_dims(input, dim)):
        input = function(input, d, bool(keepdim))
    return input


def sum(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The sum of the elements that take part."""
    input = _summed(input, dtype)
    dims = _dims(input, dim)
    return _kept(input, mask, 0).sum(dims, keepdim=bool(keepdim)) if dims else _kept(input, mask, 0)


def prod(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """Their product."""
    input = _kept(_summed(input, dtype), mask, 1)
    return _along(lambda x, d, keep: x.prod(d, keep), input, dim, keepdim)


def amax(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The largest of them; the least value of the dtype when there is none."""
    input = _cast(input, dtype)
    dims = _dims(input, dim)
    return _C.amax(_kept(input, mask, _least(input.dtype)), dims, bool(keepdim))


def amin(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The smallest of them; the largest value of the dtype when there is none."""
    input = _cast(input, dtype)
    dims = _dims(input, dim)
    return _C.amin(_kept(input, mask, _most(input.dtype)), dims, bool(keepdim))


def argmax(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The place of the largest one, in the input's dtype as PyTorch gives it."""
    input = _cast(input, dtype)
    return _C.argmax(_kept(input, mask, _least(input.dtype)), dim, bool(keepdim)).to(input.dtype)


def argmin(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The place of the smallest one, in the input's dtype as PyTorch gives it."""
    input = _cast(input, dtype)
    return _C.argmin(_kept(input, mask, _most(input.dtype)), dim, bool(keepdim)).to(input.dtype)


def _count(input, dim, keepdim, mask):
    """How many take part, in int64."""
    whole = _C.ones(input.shape, dtype=_C.int64, device=input.device)
    return sum(whole, dim, keepdim=keepdim, mask=mask)


def mean(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The mean of those that take part; NaN of none."""
    input = _cast(input, dtype)
    if not (input.dtype.is_floating_point or input.dtype.is_complex):
        raise ValueError(
            "mean(): Could not infer output dtype. Input dtype must be either a floating point or complex dtype. "
            f"Got: {input.dtype}"
        )
    return sum(input, dim, keepdim=keepdim, mask=mask) / _count(input, dim, keepdim, mask)


def median(input, dim=-1, *, keepdim=False, dtype=None, mask=None):
    """The lower of the middle ones along `dim`; NaN of none."""
    input = _cast(input, dtype)
    if not input.dtype.is_floating_point:
        raise ValueError(f"input must be floating point when computing masked median, got {input.dtype}")
    if mask is None:
        return _C.median(input, dim, bool(keepdim))[0]
    return _C.nanmedian(_kept(input, mask, math.nan), dim, bool(keepdim))[0]


def _spread(input, dim, unbiased, correction, keepdim, dtype, mask):
    if unbiased is not None and correction is not None:
        raise ValueError("Only one of unbiased and correction may be given")
    taken = (1 if unbiased in (None, True) else 0) if correction is None else correction
    if dtype is None and not (input.dtype.is_floating_point or input.dtype.is_complex):
        dtype = _C.float32
    input = _cast(input, dtype)
    count = _count(input, dim, True, mask)
    apart = input - sum(input, dim, keepdim=True, mask=mask) / count
    squares = apart * apart.conj() if input.dtype.is_complex else apart * apart
    total = sum(squares, dim, keepdim=keepdim, mask=mask)
    return total / (_count(input, dim, keepdim, mask) - taken).clamp(min=0)


def var(input, dim=None, unbiased=None, *, correction=None, keepdim=False, dtype=None, mask=None):
    """Their variance: the squares' sum over how many take part less `correction` (1; 0 when not `unbiased`)."""
    return _spread(input, dim, unbiased, correction, keepdim, dtype, mask)


def std(input, dim=None, unbiased=None, *, correction=None, keepdim=False, dtype=None, mask=None):
    """The root of their variance."""
    return _spread(input, dim, unbiased, correction, keepdim, dtype, mask).sqrt()


def norm(input, ord=2.0, dim=None, *, keepdim=False, dtype=None, mask=None):
    """Their vector norm of order `ord`."""
    input = _cast(input, dtype)
    ord = 2.0 if ord is None else ord
    return linalg.vector_norm(_kept(input, mask, math.inf if ord < 0 else 0), ord, _dims(input, dim), bool(keepdim))


def logsumexp(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The logarithm of the sum of their exponentials."""
    input = _cast(input, dtype)
    found = _C.logsumexp(_kept(input, mask, _least(input.dtype)), _dims(input, dim), bool(keepdim))
    return found.to(input.dtype)  # whole numbers for whole numbers, as PyTorch


def logaddexp(input, other, *, dtype=None, input_mask=None, other_mask=None):
    """log(exp(input) + exp(other)), a side that does not take part being -inf."""
    input, other = _cast(input, dtype), _cast(other, dtype)
    return _C.logaddexp(_kept(input, input_mask, -math.inf), _kept(other, other_mask, -math.inf))


def cumsum(input, dim, *, dtype=None, mask=None):
    """Sums up to each place along `dim`."""
    return _kept(_summed(input, dtype), mask, 0).cumsum(dim)


def cumprod(input, dim, *, dtype=None, mask=None):
    """Products up to each place along `dim`."""
    return _kept(_summed(input, dtype), mask, 1).cumprod(dim)


def softmax(input, dim, *, dtype=None, mask=None):
    """Exponentials over their sum along `dim`; 0 where an element does not take part, NaN in a row of none."""
    input = _cast(input, dtype)
    return _C.softmax(_kept(input, mask, _least(input.dtype)), dim)


def log_softmax(input, dim, *, dtype=None, mask=None):
    """The logarithm of softmax."""
    input = _cast(input, dtype)
    return _C.log_softmax(_kept(input, mask, _least(input.dtype)), dim)


def softmin(input, dim, *, dtype=None, mask=None):
    """softmax of the negative."""
    input = _cast(input, dtype)
    return _C.softmax(-_kept(input, mask, _most(input.dtype)), dim)


def normalize(input, ord, dim, *, eps=1e-12, dtype=None, mask=None):
    """Those that take part over their norm along `dim`, which is at least `eps`; 0 elsewhere."""
    input = _cast(input, dtype)
    length = norm(input, ord, dim, keepdim=True, mask=mask)
    return _kept(input, mask, 0) / length.clamp(min=eps)


def is_masked_tensor(obj, /) -> bool:
    """Whether it is a MaskedTensor."""
    return isinstance(obj, MaskedTensor)


__all__ = [
    "MaskedTensor", "amax", "amin", "argmax", "argmin", "as_masked_tensor", "cumprod", "cumsum", "is_masked_tensor",
    "log_softmax", "logaddexp", "logsumexp", "masked_tensor", "mean", "median", "norm", "normalize", "prod",
    "softmax", "softmin", "std", "sum", "var",
]  # fmt: skip
