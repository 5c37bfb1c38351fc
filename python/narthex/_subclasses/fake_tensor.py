"""Fake tensors: a shape, a dtype and a device without elements. They are tensors of the usual class that know it
(`_is_fake`); FakeTensor is what isinstance asks for."""

from contextlib import contextmanager

from .. import _C
from .._absent import getter

__all__ = [
    "DataDependentOutputException", "FakeTensor", "FakeTensorMode", "UnsupportedFakeTensorException",
    "is_fake", "maybe_get_fake_mode", "unset_fake_temporarily",
]  # fmt: skip

DataDependentOutputException = _C.FakeTensorError


class UnsupportedFakeTensorException(RuntimeError):
    """What cannot be made fake."""


class _AsksElements(type):
    def __instancecheck__(cls, instance) -> bool:
        return isinstance(instance, _C.TensorBase) and instance._is_fake


class FakeTensor(metaclass=_AsksElements):
    """isinstance(x, FakeTensor): whether x has a shape and no elements. FakeTensorMode makes such tensors."""

    def __init__(self, *args, **kwargs) -> None:
        raise NotImplementedError("FakeTensor: FakeTensorMode().from_tensor(t) makes one")


def is_fake(x) -> bool:
    """Whether x is a tensor without elements."""
    return isinstance(x, FakeTensor)


class FakeTensorMode:
    """with FakeTensorMode(): what is made or computed has no elements. from_tensor: a tensor's fake.

    Unlike PyTorch, tensors with elements may be among the arguments of a call (allow_non_fake_inputs), and sizes are
    numbers: a shape_env raises.
    """

    def __init__(self, *, allow_fallback_kernels=True, allow_non_fake_inputs=True, shape_env=None, **others) -> None:
        if shape_env is not None:
            raise NotImplementedError("FakeTensorMode: shape_env is not there: sizes of fake tensors are numbers")
        self.shape_env, self.allow_non_fake_inputs = None, allow_non_fake_inputs
        self._before: list = []

    def __enter__(self):
        self._before.append(_C.set_fake(True))
        return self

    def __exit__(self, *exception) -> None:
        _C.set_fake(self._before.pop())

    def from_tensor(self, tensor, *, static_shapes=None, source=None, symbolic_context=None, trace=True):
        """A tensor of the same shape, dtype, strides and device without elements."""
        if not isinstance(tensor, _C.TensorBase):
            raise TypeError(f"from_tensor: expected a tensor, got {type(tensor).__name__}")
        if tensor._is_fake:
            return tensor
        fake = _C.fake_like(tensor)
        if tensor.requires_grad:
            fake.requires_grad_()
        return fake


def maybe_get_fake_mode(t):
    """A FakeTensorMode for a fake tensor, None for another one."""
    return FakeTensorMode() if isinstance(t, FakeTensor) else None


@contextmanager
def unset_fake_temporarily():
    """Inside, what is computed has elements."""
    before = _C.set_fake(False)
    try:
        yield None
    finally:
        _C.set_fake(before)


__getattr__ = getter("torch._subclasses.fake_tensor")
