"""torch._dynamo.exc: what capture and export raise."""

from enum import Enum, auto

from .. import _C

Unsupported = _C.Unsupported
TorchDynamoException = Unsupported


class RecompileError(TorchDynamoException):
    """A function is compiled again while config.error_on_recompile is on."""


class FailOnRecompileLimitHit(RuntimeError):
    """A function was compiled as often as it may be while config.fail_on_recompile_limit_hit is on."""


class InternalTorchDynamoError(TorchDynamoException):
    """PyTorch's for errors of its own; nothing raises it here: such an error comes through as it is."""


class TorchRuntimeError(TorchDynamoException):
    """PyTorch's where an operator fails in a trace; nothing raises it here: the operator's error comes through."""


class BackendCompilerFailed(TorchDynamoException):
    """A backend of the program's failed on a graph: with `inner_exception`. Errors of the backends that are here come
    through as they are."""

    def __init__(self, backend_fn, inner_exception: Exception) -> None:
        self.backend_name = getattr(backend_fn, "__name__", "?")
        self.inner_exception = inner_exception
        kind = type(inner_exception).__name__
        super().__init__(f"backend={self.backend_name!r} raised:\n{kind}: {inner_exception}")


class InvalidBackend(TorchDynamoException):
    """There is no backend of that name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"Invalid backend: {name!r}, see `torch._dynamo.list_backends()` for available backends.")


class UncapturedHigherOrderOpError(TorchDynamoException):
    """What `while_loop`, `scan` and `map` raise for functions that PyTorch does not take into a graph."""


class UserErrorType(Enum):
    """What is wrong with a program, or with what export was told of it."""

    DYNAMIC_CONTROL_FLOW = auto()
    ANTI_PATTERN = auto()
    STANDARD_LIBRARY = auto()
    CONSTRAINT_VIOLATION = auto()
    DYNAMIC_DIM = auto()
    INVALID_INPUT = auto()
    INVALID_OUTPUT = auto()
    UNSUPPORTED_ALIASED_MUTATED_DYNAMIC_INPUTS = auto()


class UserError(Unsupported):
    """What export raises where it was told of inputs and sizes what does not hold."""

    def __init__(self, error_type: UserErrorType, msg: str, case_name: str | None = None) -> None:
        super().__init__(msg)
        self.error_type, self.message = error_type, msg
