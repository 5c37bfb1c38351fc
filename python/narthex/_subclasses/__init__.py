"""torch._subclasses: tensors without elements."""

from .fake_tensor import FakeTensor, FakeTensorMode, UnsupportedFakeTensorException

__all__ = ["FakeTensor", "FakeTensorMode", "UnsupportedFakeTensorException"]
