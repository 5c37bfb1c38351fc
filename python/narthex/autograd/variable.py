"""Variable: what tensors with gradients were called before they were tensors."""

from .. import _C


class _Meta(type):
    def __instancecheck__(cls, value) -> bool:
        return isinstance(value, _C.TensorBase)

    def __call__(cls, data, requires_grad: bool = False, volatile=None):
        """`data` without its history, over the same memory."""
        if not isinstance(data, _C.TensorBase):
            raise TypeError(f"Variable data has to be a tensor, but got {type(data).__name__}")
        return data.detach().requires_grad_(requires_grad)


class Variable(metaclass=_Meta):
    """Variable(tensor, requires_grad=False): the tensor without its history."""
