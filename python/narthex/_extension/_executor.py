"""torch._C's settings of how TorchScript is run: scripts run eagerly, so they are kept, can be read back, and change
nothing."""

from __future__ import annotations

# By setting: what it is before anybody sets it, the name that reads it, and whether setting it gives the one before.
_SETTINGS = {
    "_jit_set_profiling_executor": (True, "", True),
    "_jit_set_profiling_mode": (True, "", True),
    "_jit_set_num_profiled_runs": (1, "_jit_get_num_profiled_runs", True),
    "_jit_set_bailout_depth": (20, "", True),
    "_jit_set_fusion_strategy": ([("STATIC", 20)], "", True),
    "_jit_set_autocast_mode": (True, "", True),
    "_jit_set_texpr_reductions_enabled": (False, "", True),
    "_jit_texpr_set_fallback_allowed": (False, "_jit_texpr_fallback_allowed", True),
    "_jit_set_texpr_fuser_enabled": (True, "_jit_texpr_fuser_enabled", False),
    "_jit_set_inline_everything_mode": (False, "_jit_get_inline_everything_mode", False),
    "_jit_override_can_fuse_on_cpu": (True, "_jit_can_fuse_on_cpu", False),
    "_jit_override_can_fuse_on_gpu": (False, "_jit_can_fuse_on_gpu", False),
    "_set_graph_executor_optimize": (True, "_get_graph_executor_optimize", False),
}
_kept = {name: first for name, (first, _, _) in _SETTINGS.items()}


def _setter(name: str, tells: bool):
    def set_(value):
        before, _kept[name] = _kept[name], value
        return before if tells else None

    return set_


def _reader(name: str):
    return lambda: _kept[name]


NAMES = {name: _setter(name, tells) for name, (_, _, tells) in _SETTINGS.items()}
NAMES |= {reads: _reader(name) for name, (_, reads, _) in _SETTINGS.items() if reads}
