"""torch.compiler: what users call around torch.compile."""

from .. import _C
from .._absent import getter
from .._later import names
from . import config as config
from .guards import keep_portable_guards_unsafe as keep_portable_guards_unsafe
from .guards import keep_tensor_guards_unsafe as keep_tensor_guards_unsafe
from .guards import skip_all_guards_unsafe as skip_all_guards_unsafe
from .guards import skip_guard_on_all_nn_modules_unsafe as skip_guard_on_all_nn_modules_unsafe
from .guards import skip_guard_on_globals_unsafe as skip_guard_on_globals_unsafe
from .guards import skip_guard_on_inbuilt_nn_modules_unsafe as skip_guard_on_inbuilt_nn_modules_unsafe

_DEFAULT, _SKIP_GUARDS, _THEN = 0, 4, 5
_STANCES = {
    "default": _DEFAULT,
    "force_eager": 1,
    "eager_on_recompile": 2,
    "fail_on_recompile": 3,
    "eager_then_compile": _THEN,
    "aot_eager_then_compile": _THEN,
}


def compile(*args, **kwargs):
    """torch.compile."""
    from .._compile import compile

    return compile(*args, **kwargs)


def disable(fn=None, recursive: bool = True, *, reason=None):
    """Marks a function that is never captured."""
    from .._dynamo import disable

    return disable(fn, recursive, reason=reason)


def reset() -> None:
    """Forgets every compiled function."""
    from .._dynamo import reset

    reset()


def list_backends(exclude_tags=("debug", "experimental")) -> list:
    """torch._dynamo.list_backends."""
    from .._dynamo import list_backends

    return list_backends(exclude_tags)


def _backend_of(backend):
    """The Backend of a name or callable; None for None."""
    from .._compile import make_backend

    return None if backend is None else make_backend(backend)


def _force(backend):
    """Has every compiled function use `backend`; the one before. What was compiled with another one is forgotten."""
    from .._compile import forced

    before, forced[0] = forced[0], backend
    kept = (before and before.backend) is (backend and backend.backend)
    if not kept:
        reset()
    return before


class set_stance:
    """What compiled functions do from here on, on all threads; also a context manager, and a decorator of a function.

    "default"; "force_eager": they run uncompiled; "eager_on_recompile": they do where nothing compiled fits the call;
    "fail_on_recompile": RuntimeError there, also for a first call. Another shape of a function whose sizes are left
    open is no recompilation. "eager_then_compile": the first call of a function runs uncompiled, the second is compiled
    with sizes left open where the two differ; "aot_eager_then_compile": the first one is compiled by "aot_eager".
    force_backend, with "default": compiled functions use this backend; they are compiled anew when it comes and when it
    goes. skip_guard_eval_unsafe: RuntimeError where nothing compiled fits; unlike PyTorch, all guards are asked.
    """

    def __init__(self, stance: str = "default", *, skip_guard_eval_unsafe: bool = False, force_backend=None) -> None:
        if stance not in _STANCES:
            raise RuntimeError(f"invalid torch.compile stance '{stance}': it is one of {', '.join(_STANCES)}")
        if force_backend is not None and stance != "default":
            raise RuntimeError("non-default stance cannot have force_backend set")
        self.stance, self.force_backend = stance, force_backend
        self.skip_guard_eval_unsafe = skip_guard_eval_unsafe
        self.code = _STANCES[stance]
        if skip_guard_eval_unsafe and self.code in (_DEFAULT, _THEN):
            self.code = _SKIP_GUARDS
        self.forced = _force(_backend_of(force_backend))
        self.prev = self._set()

    def _set(self) -> int:
        if self.code == _THEN:
            from .._dynamo import late

            late.backend[0] = "aot_eager" if self.stance.startswith("aot") else None
            _C.set_capture_late(late.call)
        return _C.set_capture_stance(self.code)

    def __enter__(self) -> None:
        _force(_backend_of(self.force_backend))
        self._set()

    def __exit__(self, *exception) -> None:
        _C.set_capture_stance(self.prev)
        _force(self.forced)

    def clone(self):
        """Another one that says the same."""
        skip = self.skip_guard_eval_unsafe
        return type(self)(self.stance, skip_guard_eval_unsafe=skip, force_backend=self.force_backend)

    def __call__(self, fn):
        from functools import wraps

        _C.set_capture_stance(self.prev)
        _force(self.forced)

        @wraps(fn)
        def wrapper(*args, **kwargs):
            with self.clone():
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
    names("torch.compiler", "compiling takes milliseconds", ("load_compiled_function",)),
)


def save_cache_artifacts() -> None:
    """None: there are no artifacts, compiling takes milliseconds."""


def load_cache_artifacts(serialized_artifacts: bytes) -> None:
    """None: there are no artifacts."""


def set_enable_guard_collectives(enabled: bool) -> bool:
    """False, what it was before: there is one process."""
    return False


def wrap_numpy(fn):
    """`fn`, which takes and gives numpy arrays, for tensors: arrays share their memory with the tensors."""
    from functools import wraps

    from .. import from_numpy
    from ..utils._pytree import tree_map_only

    @wraps(fn)
    def inner(*args, **kwargs):
        import numpy

        args, kwargs = tree_map_only(_C.TensorBase, lambda x: x.numpy(), (args, kwargs))
        return tree_map_only(numpy.ndarray, from_numpy, fn(*args, **kwargs))

    return inner


def set_default_backend(backend) -> None:
    """What torch.compile uses where it is given no backend: a name or a callable; None: the engine."""
    from .._compile import default

    if not (backend is None or isinstance(backend, str) or callable(backend)):
        raise TypeError(f"set_default_backend: expected a name or a callable, got {type(backend).__name__}")
    default[0] = "narthex" if backend is None else backend


def get_default_backend():
    """What set_default_backend was given; "narthex" at first, where PyTorch says "inductor"."""
    from .._compile import default

    return default[0]


_exporting = [False]


def is_exporting() -> bool:
    """True in code that torch.export follows."""
    return _exporting[0]


def allow_in_graph(fn):
    """torch._dynamo.allow_in_graph."""
    from .._dynamo import allow_in_graph

    return allow_in_graph(fn)


def substitute_in_graph(original_fn, *, can_constant_fold_through: bool = False, skip_signature_check: bool = False):
    """torch._dynamo.substitute_in_graph."""
    from .._dynamo import substitute_in_graph

    return substitute_in_graph(
        original_fn,
        can_constant_fold_through=can_constant_fold_through,
        skip_signature_check=skip_signature_check,
    )


def nested_compile_region(fn=None, *, options=None, max_reuse_entries: int = 8, reuse_hash_fn=None):
    """`fn` as it is: a part that recurs is planned anew each time, and nothing is kept to be used again."""
    return nested_compile_region if fn is None else fn


def cudagraph_mark_step_begin() -> None:
    """Nothing: a recording's results are not overwritten by its next call while anybody holds them."""


__getattr__ = getter("torch.compiler")
