"""torch.jit._builtins: which functions of torch scripts know as operators."""

from functools import cache


@cache
def _get_builtin_table() -> dict:
    """{id of a function: its operator's name}."""
    from importlib import import_module

    from .. import _SUBMODULES, ops

    table = {}
    for module in ("narthex", "narthex.nn.functional", "narthex.linalg", "narthex.special", "narthex.fft"):
        space, prefix = import_module(module), module.removeprefix("narthex").removeprefix(".").partition(".")[0]
        for name in dir(space):
            function = None if name.startswith("__") or name in _SUBMODULES else getattr(space, name, None)
            for own in (name, f"{prefix}_{name}"):
                if callable(function) and not isinstance(function, type) and hasattr(ops.aten, own):
                    table.setdefault(id(function), f"aten::{own}")
    return table


def _find_builtin(fn):
    """The operator's name of a function of torch, "aten::relu"; None of any other."""
    return _get_builtin_table().get(id(fn))
