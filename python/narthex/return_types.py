"""torch.return_types: the classes of what operators with several named results return. One is made when it is asked
for, or first returned."""

from __future__ import annotations

from . import _C


def __getattr__(name: str):
    made = None if name.startswith("__") else _C.named_result(name)
    if made is None:
        raise AttributeError(f"module 'torch.return_types' has no attribute '{name}'")
    globals()[name] = made
    return made


def __dir__() -> list:
    names = {name.partition("::")[2].partition(".")[0] for name in _C.op_names() if name.startswith("aten::")}
    return sorted(name for name in names if _C.named_result(name) is not None)
