"""torch.jit: not there yet. script and trace raise NotImplementedError; torch.compile is the way to a graph."""

from .._absent import getter


def script(obj, *args, **kwargs):
    """Raises NotImplementedError."""
    raise NotImplementedError("jit.script is not there yet: use torch.compile")


def trace(func, example_inputs=None, *args, **kwargs):
    """Raises NotImplementedError."""
    raise NotImplementedError("jit.trace is not there yet: use torch.compile")


def is_scripting() -> bool:
    """Always False."""
    return False


def is_tracing() -> bool:
    """Always False."""
    return False


__getattr__ = getter("torch.jit")
