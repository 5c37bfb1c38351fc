"""torch.compiler: what users call around torch.compile."""

from .. import _C
from .._absent import getter
from .._later import names

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


class set_stance:
    """What compiled functions do from here on, on all threads; also a context manager, and a decorator of a function.

    "default"; "force_eager": they run uncompiled; "eager_on_recompile": they do where nothing compiled fits the call;
    "fail_on_recompile": RuntimeError there, also for a first call. Another shape of a function whose sizes are left
    open is no recompilation. Unlike PyTorch, skip_guard_eval_unsafe and force_backend raise NotImplementedError.
    """

    def __init__(self, stance: str = "default", *, skip_guard_eval_unsafe: bool = False, force_backend=None) -> None:
        if stance not in _STANCES:
            raise RuntimeError(f"invalid torch.compile stance '{stance}': it is one of {', '.join(_STANCES)}")
        if force_backend is not None and stance != "default":
            raise RuntimeError("non-default stance cannot have force_backend set")
        if skip_guard_eval_unsafe or force_backend is not None:
            raise NotImplementedError("set_stance: skip_guard_eval_unsafe and force_backend are not there yet")
        self.stance = stance
        self.prev = _C.set_capture_stance(_STANCES.index(stance))

    def __enter__(self) -> None:
        _C.set_capture_stance(_STANCES.index(self.stance))

    def __exit__(self, *exception) -> None:
        _C.set_capture_stance(self.prev)

    def __call__(self, fn):
        from functools import wraps

        _C.set_capture_stance(self.prev)

        @wraps(fn)
        def wrapper(*args, **kwargs):
            with set_stance(self.stance):
                return fn(*args, **kwargs)

        return wrapper


def is_compiling() -> bool:
    """True in code that is being captured, and so in the graph that is made of it."""
    return _C.is_capturing()


is_dynamo_compiling = is_compiling


def assume_constant_result(fn):
    """torch._dynamo.assume_constant_result."""
    from .._dynamo import assume_constant_result

    return assume_constant_result(fn)


globals().update(
    names(
        "torch.compiler",
        "a graph holds operators alone; torch.compiler.disable keeps Python code out of it",
        ("substitute_in_graph", "wrap_numpy"),
    ),
    **names("torch.compiler", "give torch.compile its backend", ("set_default_backend", "get_default_backend")),
    **names(
        "torch.compiler",
        "compiling takes milliseconds",
        ("save_cache_artifacts", "load_cache_artifacts", "load_compiled_function"),
    ),
    **names(
        "torch.compiler",
        "no guard is left out",
        (
            *("keep_portable_guards_unsafe", "keep_tensor_guards_unsafe", "skip_all_guards_unsafe"),
            *("skip_guard_on_all_nn_modules_unsafe", "skip_guard_on_globals_unsafe"),
            *("skip_guard_on_inbuilt_nn_modules_unsafe", "set_enable_guard_collectives"),
        ),
    ),
)


def is_exporting() -> bool:
    """False: torch.export captures as torch.compile does, and code sees is_compiling()."""
    return False


def allow_in_graph(fn):
    """`fn` as it is: capture follows it, and its operators are the graph's."""
    return fn


def nested_compile_region(fn=None, *options, **more):
    """`fn` as it is: a part that recurs is planned anew each time."""
    return nested_compile_region if fn is None else fn


def cudagraph_mark_step_begin() -> None:
    """Nothing: a recording's results are not overwritten by its next call while anybody holds them."""


__getattr__ = getter("torch.compiler")
