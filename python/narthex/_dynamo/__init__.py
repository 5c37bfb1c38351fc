"""torch._dynamo: capture. The work is done in C (py/capture, py/loop, py/notes); here are its Python names."""

from .. import _C
from .._apart import disable
from .._later import names
from ..autograd import function as _function
from ..compiler import is_compiling, set_stance
from . import backends, compiled_autograd, config, convert_frame, eval_frame, exc, external_utils, testing, utils
from .backends import list_backends, lookup, lookup_backend, register_backend
from .convert_frame import replay
from .decorators import (
    allow_in_graph,
    assume_constant_result,
    disallow_in_graph,
    error_on_graph_break,
    forbid_in_graph,
    graph_break,
    mark_dynamic,
    mark_static,
    maybe_mark_dynamic,
    override_optimization_hint,
    run,
    skip_frame,
    step_unsupported,
    substitute_in_graph,
)
from .eval_frame import OptimizedModule, optimize
from .explanation import explain
from .export import export

patch_dynamo_config = config.patch

__all__ = [
    "OptimizedModule", "allow_in_graph", "assume_constant_result", "backends", "compiled_autograd", "config",
    "convert_frame", "disable", "disallow_in_graph", "error_on_graph_break", "eval_frame", "explain", "export",
    "forbid_in_graph", "graph_break", "is_compiling", "is_dynamo_disable_recursive", "list_backends", "lookup",
    "lookup_backend", "mark_dynamic", "mark_static", "maybe_mark_dynamic", "optimize", "optimize_assert",
    "override_optimization_hint", "patch_dynamo_config", "register_backend", "replay", "reset", "run", "set_stance",
    "skip_frame", "step_unsupported", "substitute_in_graph", "testing", "utils",
]  # fmt: skip

_function._apply_apart = disable(_function._apply)
globals().update(
    names(
        "torch._dynamo",
        "use torch.compile",
        (
            "aot_compile",
            "comptime",
            "functional_export",
        ),
    ),
    **names("torch._dynamo", "use set_logs, or TORCH_LOGS", ("callback", "on_compile_end", "on_compile_start")),
)


def optimize_assert(backend, *args, **options):
    """optimize that takes no graph break."""
    return optimize(backend, *args, nopython=True, **options)


def is_dynamo_disable_recursive(method):
    """Of what `disable` has made, whether what it calls runs uncompiled too; None for anything else."""
    if isinstance(method, type(_function._apply_apart)):
        return True
    return getattr(method, "_torchdynamo_disable_recursive", None)


def is_dynamo_supported() -> bool:
    """Whether functions are captured under this CPython; where they are not, torch.compile runs them as they are."""
    return _C.can_capture()


def is_inductor_supported() -> bool:
    """Whether torch.compile compiles what it captures: its engine needs nothing that a machine may lack."""
    return _C.can_capture()


def dont_skip_tracing(fn=None):
    """`fn` as it is: capture follows every function of Python."""
    return dont_skip_tracing if fn is None else fn


def reset_frame_count() -> None:
    """Frames are counted from none again, in utils.counters."""
    utils.counters.pop("frames", None)


def nonstrict_trace(traceable_fn):
    """`traceable_fn` as it is: capture follows it, and its operators are the graph's."""
    return traceable_fn


def disable_nested_graph_breaks(fn=None):
    """`fn` as it is, or a context that does nothing: a break ends the graph of the function that it is in, always."""
    from contextlib import nullcontext

    return nullcontext() if fn is None else fn


def set_recursion_limit(limit: int) -> None:
    """Nothing: what is followed keeps no frames of C; the limit of sys.setrecursionlimit holds. ValueError below 1, but
    for -1."""
    if limit < 1 and limit != -1:
        raise ValueError("Recursion limit must be greater or equal than 1, or -1.")


def reset_recompile_user_contexts() -> None:
    """Nothing: there are no such hooks."""


class override_cudagraphs:
    """A context manager and decorator that does nothing: there is no CUDA."""

    def __init__(self, fwd: bool | None = None, bwd: bool | None = None) -> None:
        self.fwd, self.bwd = fwd, bwd

    def __enter__(self):
        return self

    def __exit__(self, *error) -> None:
        pass

    def __call__(self, fn):
        return fn


def mark_static_address(t, guard: bool = False) -> None:
    """Nothing: compiled programs read a tensor's address at each call."""


def reset_code_caches() -> None:
    """The same as reset: there is nothing else that is kept for code."""
    reset()


def reset_code(code) -> None:
    """Forgets the compiled functions of this code object."""
    eval_frame.reset_code(code)
    for each in list(eval_frame.captured_functions):
        if eval_frame.code_of(each) is code:
            each.reset()


def reset() -> None:
    """Forgets every compiled function, so that the next call captures again."""
    for each in list(eval_frame.captured_functions):
        each.reset()
    for code in list(convert_frame.input_codes):
        eval_frame.reset_code(code)
    convert_frame.input_codes.clear()
    for backend in list(eval_frame.cached_backends.values()):
        if hasattr(backend, "reset"):
            backend.reset()
    eval_frame.cached_backends.clear()
