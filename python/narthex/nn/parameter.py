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


class _BufferMeta(type):
    def __instancecheck__(cls, instance) -> bool:
        return type(instance) is Tensor and cls is Buffer and getattr(instance, "_is_buffer", False)


class Buffer(Tensor, metaclass=_BufferMeta):
    """Makes a tensor over the memory of `data` that a Module registers as a buffer when it is assigned to one of its
    attributes; with `persistent` it belongs to the state_dict. The tensor's class is Tensor; isinstance knows it."""

    def __new__(cls, data=None, *, persistent: bool = True):
        made = (_C.empty(0) if data is None else data).detach()
        if data is not None and data.requires_grad:
            made.requires_grad_()
        made._is_buffer, made.persistent = True, persistent
        return made
