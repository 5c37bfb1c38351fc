"""torch.autograd.graph: what tensors that are saved for backward go through."""

from .. import _C
from .._absent import getter

Node = _C.Node

__all__ = ["Node", "disable_saved_tensors_hooks", "save_on_cpu", "saved_tensors_hooks"]

_refused: list = []  # what the blocks of disable_saved_tensors_hooks say, the innermost last


class saved_tensors_hooks:
    """Inside, what is saved for backward is kept as `pack_hook(tensor)`; backward reads `unpack_hook(that)`.

    Blocks may be nested: the innermost one counts. A pack hook may not write its argument. What it returns is not
    watched for writes; unpack_hook must give a tensor with the elements that were packed.
    """

    def __init__(self, pack_hook, unpack_hook) -> None:
        self.pack_hook, self.unpack_hook = pack_hook, unpack_hook
        self._before: list = []

    def __enter__(self) -> None:
        if _refused:
            raise RuntimeError(_refused[-1])
        self._before.append(_C.swap_saved_hooks((self.pack_hook, self.unpack_hook)))

    def __exit__(self, *exception) -> None:
        _C.swap_saved_hooks(self._before.pop())


class save_on_cpu(saved_tensors_hooks):
    """Inside, what is saved for backward lies on the CPU until it is needed. `pin_memory` changes nothing."""

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        super().__init__(lambda tensor: (tensor.device, tensor.cpu()), lambda packed: packed[1].to(packed[0]))


class disable_saved_tensors_hooks:
    """Inside, entering saved_tensors_hooks raises a RuntimeError with this message; also a decorator."""

    def __init__(self, error_message: str) -> None:
        self.error_message = error_message

    def __enter__(self) -> None:
        if _C.saved_hooks() is not None:
            raise RuntimeError(self.error_message)
        _refused.append(self.error_message)

    def __exit__(self, *exception) -> None:
        _refused.pop()

    def __call__(self, function):
        from functools import wraps

        @wraps(function)
        def disabled(*args, **kwargs):
            with disable_saved_tensors_hooks(self.error_message):
                return function(*args, **kwargs)

        return disabled


class _Saved:
    """A tensor that is kept for later, through the hooks of the moment when it was given."""

    __slots__ = ("_needs_grad", "_packed", "_tensor")

    def __init__(self, tensor) -> None:
        self._packed, self._needs_grad = _C.save_packed(tensor, False), tensor.requires_grad
        self._tensor = tensor if self._packed is None else None

    def get(self):
        """The tensor; one that was packed requires grad if it did."""
        if self._packed is None:
            return self._tensor
        tensor = _C.take_packed(self._packed)
        return tensor.detach().requires_grad_() if self._needs_grad and not tensor.requires_grad else tensor


__getattr__ = getter("torch.autograd.graph")
