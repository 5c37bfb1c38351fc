"""Parameter: a tensor that a Module registers when it is assigned to one of its attributes."""

from .. import _C
from .._tensor import Tensor


class Parameter(Tensor):
    """A leaf tensor over the memory of `data` that requires grad unless told otherwise."""

    def __new__(cls, data=None, requires_grad: bool = True):
        if data is None:
            data = _C.empty(0)
        return _C.TensorBase.__new__(cls, data, requires_grad, True)

    def __init__(self, data=None, requires_grad: bool = True) -> None:
        """`data` None: an empty tensor."""
