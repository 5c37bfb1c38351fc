"""torch._guards: what libraries ask about the compilation that is going on."""

from . import _C
from ._absent import getter
from .utils import _pytree as pytree

__all__ = ["TracingContext", "detect_fake_mode"]


def detect_fake_mode(inputs=None):
    """A FakeTensorMode where one of the inputs has no elements, or what is computed has none; else None."""
    from ._subclasses.fake_tensor import FakeTensor, FakeTensorMode

    is_on = _C.set_fake(False)
    _C.set_fake(is_on)
    if is_on or any(isinstance(leaf, FakeTensor) for leaf in pytree.tree_leaves(inputs)):
        return FakeTensorMode()
    return None


class TracingContext:
    """What PyTorch's compiler keeps of a compilation; Narthex keeps nothing of it in Python."""

    @staticmethod
    def try_get():
        """None."""
        return None

    @staticmethod
    def get():
        """Raises RuntimeError, as PyTorch does outside of a compilation."""
        raise RuntimeError("TracingContext.get() must be called within an ongoing trace.")


__getattr__ = getter("torch._guards")
