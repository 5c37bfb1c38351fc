"""Questions about conditions on sizes. A comparison of sizes is decided, and guarded, when it is asked, so each of
these is the condition itself."""

from ..._absent import getter
from ..._C import SymInt


class GuardOnDataDependentSymNode(RuntimeError):
    """What torch.export raises where a tensor's elements decide what the program does."""


class ConstraintViolationError(RuntimeError):
    """What torch.export raises where an input is not of the size that dynamic_shapes says."""


def guard_or_true(a) -> bool:
    """The condition."""
    return bool(a)


def guard_or_false(a) -> bool:
    """The condition."""
    return bool(a)


def statically_known_true(x) -> bool:
    """The condition."""
    return bool(x)


def definitely_true(a) -> bool:
    """The condition."""
    return bool(a)


def definitely_false(a) -> bool:
    """Whether the condition does not hold."""
    return not a


def sym_eq(x, y) -> bool:
    """Whether both are the same sizes."""
    return x == y


def is_symbolic(val) -> bool:
    """Whether a size is a value of a graph that is being recorded."""
    return isinstance(val, SymInt)


def is_concrete_int(a) -> bool:
    """Whether a size is a plain number."""
    return not isinstance(a, SymInt)


def guard_int(a) -> int:
    """The size as a number, guarded."""
    return int(a)


def free_symbols(val) -> set:
    """No symbols: sizes are values, not expressions."""
    return set()


def free_unbacked_symbols(x) -> set:
    """No symbols: sizes that elements decide end a graph."""
    return set()


def has_free_symbols(val) -> bool:
    """False."""
    return False


def has_free_unbacked_symbols(x) -> bool:
    """False."""
    return False


__getattr__ = getter("torch.fx.experimental.symbolic_shapes")
