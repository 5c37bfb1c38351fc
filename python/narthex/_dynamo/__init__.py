"""torch._dynamo: capture. The work is done in C (py/capture, py/loop, py/notes); here are its Python names."""

from .._apart import disable
from .._later import names
from ..autograd import function as _function
from ..compiler import is_compiling, set_stance
from . import backends, config, convert_frame, eval_frame, testing, utils
from .backends import list_backends, lookup, register_backend
from .decorators import assume_constant_result, graph_break, mark_dynamic, mark_static, maybe_mark_dynamic, run
from .eval_frame import OptimizedModule, optimize
from .explanation import explain

lookup_backend = lookup
patch_dynamo_config = config.patch

__all__ = [
    "OptimizedModule", "assume_constant_result", "backends", "config", "convert_frame", "disable", "eval_frame",
    "explain", "graph_break", "is_compiling", "is_dynamo_disable_recursive", "list_backends", "lookup",
    "lookup_backend", "mark_dynamic", "mark_static", "maybe_mark_dynamic", "optimize", "optimize_assert",
    "patch_dynamo_config", "register_backend", "reset", "run", "set_stance", "testing", "utils",
]  # fmt: skip

_function._apply_apart = disable(_function._apply)
globals().update(
    names(
        "torch._dynamo",
        "a graph holds operators alone; torch._dynamo.disable and graph_break keep Python code out of it",
        ("disallow_in_graph", "forbid_in_graph", "nonstrict_trace", "substitute_in_graph"),
    ),
    **names("torch._dynamo", "use torch.compiler.disable or set_stance", ("skip_frame", "step_unsupported", "replay")),
    **names("torch._dynamo", "use torch.compile(fullgraph=True)", ("error_on_graph_break",)),
    **names("torch._dynamo", "use torch.compile", ("export", "set_recursion_limit")),
)


def optimize_assert(backend, *args, **options):
    """optimize that takes no graph break."""
    return optimize(backend, *args, nopython=True, **options)


def is_dynamo_disable_recursive(method):
    """True for what `disable` has made, where what it calls runs uncompiled too; None for anything else."""
    return True if isinstance(method, type(_function._apply_apart)) else None


def allow_in_graph(fn):
    """`fn` as it is: capture follows it, and its operators are the graph's."""
    return fn


def mark_static_address(t, guard: bool = True) -> None:
    """Nothing: compiled programs read a tensor's address at each call."""


def reset() -> None:
    """Forgets every compiled function, so that the next call captures again."""
    for each in list(eval_frame.captured_functions):
        each.reset()
