"""Parameters as tensors of one shape, and between logits and probabilities."""

from __future__ import annotations

from numbers import Number

from .. import _C
from .._type_info import finfo
from ..functional import broadcast_tensors

euler_constant = 0.57721566490153286060


def broadcast_all(*values) -> tuple:
    """Numbers and tensors as tensors of one shape; numbers take the tensors' dtype and device, else the default's."""
    if not all(isinstance(value, (_C.TensorBase, Number)) for value in values):
        raise ValueError("Input arguments must all be instances of Number, torch.Tensor or objects implementing "
                         "__torch_function__.")  # fmt: skip
    tensors = [value for value in values if isinstance(value, _C.TensorBase)]
    if len(tensors) < len(values):
        like = tensors[0] if tensors else None
        dtype = _C.get_default_dtype() if like is None else like.dtype
        device = "cpu" if like is None else like.device
        values = [v if isinstance(v, _C.TensorBase) else _C.tensor(v, dtype=dtype, device=device) for v in values]
    return tuple(broadcast_tensors(*values))


def batch_shape_of(param, *given):
    """The batch shape of a distribution: of numbers alone none, else that of `param`, which they were made into."""
    return _C.Size() if all(isinstance(value, Number) for value in given) else param.size()


def clamp_probs(probs):
    """Probabilities that are neither 0 nor 1."""
    eps = finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def logits_to_probs(logits, is_binary: bool = False):
    """sigmoid, or softmax of the last dimension."""
    return _C.sigmoid(logits) if is_binary else _C.softmax(logits, dim=-1)


def probs_to_logits(probs, is_binary: bool = False):
    """The logits of probabilities, kept from infinity."""
    clamped = clamp_probs(probs)
    return clamped.log() - _C.log1p(-clamped) if is_binary else clamped.log()


class lazy_property:  # noqa: N801  (PyTorch's name)
    """A property that is computed once, with gradients recorded, and kept on the instance."""

    def __init__(self, wrapped) -> None:
        self.wrapped, self.__doc__, self.__name__ = wrapped, wrapped.__doc__, wrapped.__name__

    def __get__(self, instance, owner=None):
        if instance is None:
            return self
        from ..autograd.grad_mode import enable_grad

        with enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.__name__, value)
        return value


class ProbsOrLogits:
    """A distribution of a yes or no that is given as `probs` or as `logits`; the other one follows."""

    def _set_param(self, probs, logits, *beside) -> tuple:
        """Keeps the one that is there, broadcast with what stands beside it, which is given back so."""
        *beside, self._param = broadcast_all(*beside, given_one(probs, logits))
        setattr(self, "logits" if probs is None else "probs", self._param)
        return tuple(beside)

    def _expanded(self, cls, batch_shape, _instance, names):
        new = super()._expanded(cls, batch_shape, _instance, (*names, "probs", "logits"))
        new._param = new.__dict__["probs" if "probs" in new.__dict__ else "logits"]
        return new

    @lazy_property
    def logits(self):
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self):
        return logits_to_probs(self.logits, is_binary=True)

    param_shape = property(lambda self: self._param.size())


def given_one(probs, logits):
    """`probs` or `logits`, whichever is not None."""
    if (probs is None) == (logits is None):
        raise ValueError("Either `probs` or `logits` must be specified, but not both.")
    return logits if probs is None else probs


def tril_matrix_to_vec(mat, diag: int = 0):
    """The elements on and under a diagonal of the last two dimensions, row by row."""
    n = mat.shape[-1]
    if not -n <= diag < n:
        raise ValueError(f"diag ({diag}) provided is outside [{-n}, {n - 1}].")
    rows = _C.arange(n, device=mat.device)
    return mat[..., rows.unsqueeze(-1) + diag + 1 > rows]


def vec_to_tril_matrix(vec, diag: int = 0):
    """The inverse of tril_matrix_to_vec; zeros above the diagonal."""
    more = 1 + 2 * diag
    n = (-more + (more**2 + 8 * vec.shape[-1] + 4 * abs(diag) * (diag + 1)) ** 0.5) / 2
    if not round(n) - n < finfo(vec.dtype).eps:
        raise ValueError(
            f"The size of last dimension is {vec.shape[-1]} which cannot be expressed as the lower triangular part of "
            "a square D x D matrix."
        )
    size = round(n)
    rows = _C.arange(size, device=vec.device)
    matrix = vec.new_zeros((*vec.shape[:-1], size, size))
    matrix[..., rows < rows.view(-1, 1) + (diag + 1)] = vec
    return matrix


def _standard_normal(shape, dtype, device):
    """Numbers of the standard normal distribution, `shape` of them."""
    return _C.normal(_C.zeros(shape, dtype=dtype, device=device), _C.ones(shape, dtype=dtype, device=device))


def _sum_rightmost(value, dim: int):
    """The sum over the last `dim` dimensions."""
    return value if dim == 0 else value.reshape(*value.shape[:-dim], -1).sum(-1)
