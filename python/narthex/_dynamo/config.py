"""torch._dynamo.config: settings of capture. What takes effect stands here; PyTorch's other names are kept and change
nothing.

recompile_limit (cache_size_limit): pieces that are compiled for one place in a function. automatic_dynamic_shapes:
what was seen to change is left open. assume_static_by_default: False leaves all sizes open from the start. disable:
compiled functions run uncompiled. fail_on_recompile_limit_hit: an exception, not running uncompiled behind it.
suppress_errors: a graph that a backend fails on runs as it was captured. error_on_recompile: exc.RecompileError where a
function is compiled again. specialize_int, specialize_float: such numbers are never left open.
reorderable_logging_functions: functions (print) whose calls wait until the graph has run instead of ending it; their
arguments are tensors, numbers and texts. ignore_logging_functions: calls of these are left out of what is compiled.
compiled_autograd: the backward of a compiled function is one graph, on or off (compiled_autograd.py).
raise_on_ctx_manager_usage, error_on_nested_fx_trace: as PyTorch's.
"""

from .. import _C
from ..utils._config_module import install as _install

_IN_C = (
    "recompile_limit", "automatic_dynamic_shapes", "assume_static_by_default", "fail_on_recompile_limit_hit",
    "error_on_nested_fx_trace", "error_on_recompile", "specialize_int", "specialize_float",
)  # fmt: skip
_sets = {"ignore_logging_functions": set(), "reorderable_logging_functions": set()}  # programs add to them in place


def _take_effect(name: str, value) -> None:
    if name in _IN_C:
        _C.set_capture_setting(name, int(value))
    elif name == "disable":
        _C.set_capture_stance(1 if value else 0)
    elif name in _sets:
        _sets[name] = value
        _C.set_capture_calls(*_sets.values())


_install(
    __name__,
    {
        "recompile_limit": 8,
        "automatic_dynamic_shapes": True,
        "assume_static_by_default": True,
        "disable": False,
        "fail_on_recompile_limit_hit": False,
        "suppress_errors": False,
        "raise_on_ctx_manager_usage": True,
        "error_on_nested_fx_trace": True,
        "error_on_recompile": False,
        "compiled_autograd": False,
        "specialize_int": False,
        "specialize_float": False,
        **_sets,
    },
    _take_effect,
)
_C.set_capture_calls(*_sets.values())
