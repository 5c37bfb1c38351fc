"""torch.multiprocessing: Python's, whose pickles take tensors along by copying their elements."""

import multiprocessing as _python

from .._absent import absent

__all__ = [*_python.__all__, "get_all_sharing_strategies", "get_sharing_strategy", "set_sharing_strategy"]
globals().update({name: getattr(_python, name) for name in _python.__all__})
_STRATEGIES = {"file_descriptor", "file_system"}
_strategy = ["file_descriptor"]


def get_all_sharing_strategies() -> set:
    """The names that set_sharing_strategy takes."""
    return set(_STRATEGIES)


def get_sharing_strategy() -> str:
    """What set_sharing_strategy set."""
    return _strategy[0]


def set_sharing_strategy(new_strategy: str) -> None:
    """Kept only: elements are copied."""
    if new_strategy not in _STRATEGIES:
        raise AssertionError(f"set_sharing_strategy: '{new_strategy}' is none of {', '.join(sorted(_STRATEGIES))}")
    _strategy[0] = new_strategy


_PROCESSES = (
    "ProcessContext", "ProcessExitedException", "ProcessRaisedException", "SpawnContext", "spawn", "start_processes",
)  # fmt: skip


def __getattr__(name: str):
    if name not in _PROCESSES:
        raise absent("torch.multiprocessing", name)
    from importlib import import_module  # `from . import spawn` would ask here first

    processes = import_module(f"{__name__}.spawn")
    globals().update({each: getattr(processes, each) for each in _PROCESSES})
    return globals()[name]
