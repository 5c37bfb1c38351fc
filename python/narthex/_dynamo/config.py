"""torch._dynamo.config: settings of capture. Others are not here, so that setting one is noticed."""

import sys

error_on_nested_fx_trace = True
error_on_nested_jit_trace = True

_NAMES = frozenset(name for name in globals() if not name.startswith("_") and name != "sys")


class _Config(type(sys)):
    def __setattr__(self, name: str, value) -> None:
        if name not in _NAMES and not name.startswith("__"):
            raise AttributeError(f"torch._dynamo.config.{name} does not exist: Narthex has {', '.join(sorted(_NAMES))}")
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Config
