"""torch.compiler: what users call around torch.compile."""

from .. import _C
from .._absent import getter

_STANCES = ("default", "force_eager", "eager_on_recompile", "fail_on_recompile")


def compile(*args, **kwargs):
    """torch.compile."""
    from .._compile import compile

    return compile(*args, **kwargs)


def disable(fn=None, recursive: bool = True, *, reason=None):
    """Marks a function that is never captured."""
    from .._dynamo import disable

    return disable(fn, recursive)


def reset() -> None:
    """Forgets every compiled function."""
    from .._dynamo import reset

    reset()


def list_backends(exclude_tags=()) -> list:
    """The names that torch.compile(backend=) takes."""
    from .._dynamo import list_backends

    return list_backends(exclude_tags)


def set_stance(stance: str = "default", *, skip_guard_eval_unsafe: bool = False, force_backend=None) -> None:
    """What compiled functions do from here on: "default", or "force_eager" to run everything uncompiled."""
    if stance not in _STANCES:
        raise RuntimeError(f"set_stance: invalid stance '{stance}'; it is one of {', '.join(_STANCES)}")
    if (
        stance in _STANCES[2:]
        or skip_guard_eval_unsafe
        or force_backend is not None
        or not hasattr(_C, "set_capture_enabled")
    ):
        raise NotImplementedError(f"set_stance: '{stance}' with these options is not there yet")
    _C.set_capture_enabled(stance == "default")


def is_compiling() -> bool:
    """True in code that is being captured, and so in the graph that is made of it."""
    return _C.is_capturing()


is_dynamo_compiling = is_compiling


__getattr__ = getter("torch.compiler")
