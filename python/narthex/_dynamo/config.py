"""torch._dynamo.config: settings of capture that take effect. Others are not here, so that setting one is noticed.

recompile_limit (cache_size_limit): pieces that are compiled for one place in a function. automatic_dynamic_shapes:
what was seen to change is left open. assume_static_by_default: False leaves all sizes open from the start. disable:
compiled functions run uncompiled. fail_on_recompile_limit_hit: RuntimeError instead of running uncompiled behind it.
"""

import sys

from .. import _C

error_on_nested_fx_trace = True
error_on_nested_jit_trace = True
recompile_limit = cache_size_limit = 8
automatic_dynamic_shapes = True
assume_static_by_default = True
disable = False
fail_on_recompile_limit_hit = False
raise_on_ctx_manager_usage = True
accumulated_cache_size_limit = accumulated_recompile_limit = 256

_NAMES = frozenset(name for name in globals() if not name.startswith("_") and name != "sys")
_SAME = {"recompile_limit": "cache_size_limit", "cache_size_limit": "recompile_limit"}
_IN_C = ("recompile_limit", "automatic_dynamic_shapes", "assume_static_by_default", "fail_on_recompile_limit_hit")


class _Config(type(sys)):
    def __setattr__(self, name: str, value) -> None:
        if name not in _NAMES and not name.startswith("__"):
            raise AttributeError(f"torch._dynamo.config.{name} does not exist: Narthex has {', '.join(sorted(_NAMES))}")
        super().__setattr__(name, value)
        if name in _SAME:
            super().__setattr__(_SAME[name], value)
        setting = "recompile_limit" if name in _SAME else name
        if setting in _IN_C:
            _C.set_capture_setting(setting, int(value))
        elif setting == "disable":
            _C.set_capture_stance(1 if value else 0)

    def patch(self, arg=None, value=None, **changes):
        """A context manager and decorator: these settings inside, the former ones behind it."""
        return _Patch({**({arg: value} if isinstance(arg, str) else arg or {}), **changes})


class _Patch:
    def __init__(self, changes: dict) -> None:
        self.changes, self.before = changes, []

    def __enter__(self) -> None:
        config = sys.modules[__name__]
        self.before.append({name: getattr(config, name) for name in self.changes})
        for name, value in self.changes.items():
            setattr(config, name, value)

    def __exit__(self, *exception) -> None:
        for name, value in self.before.pop().items():
            setattr(sys.modules[__name__], name, value)

    def __call__(self, function):
        from functools import wraps

        @wraps(function)
        def inner(*args, **kwargs):
            with self:
                return function(*args, **kwargs)

        return inner


sys.modules[__name__].__class__ = _Config
