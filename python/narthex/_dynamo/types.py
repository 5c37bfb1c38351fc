"""torch._dynamo.types: what callbacks for frames get and say (set_eval_frame), and hooks of guards.

`_ask` and `_find` are called from py/capture/callback.c, with no callback set.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from types import CodeType
from typing import Any, NamedTuple

from .. import _C

_frames = _C._dynamo.eval_frame


class GuardFail(NamedTuple):
    """Which guard did not hold, and the code that is compiled again."""

    reason: str
    orig_code: object


@dataclass(frozen=True)
class GuardFilterEntry:
    """One guard, as guard_filter_fn gets it."""

    name: str
    has_value: bool
    value: object
    guard_type: str
    derived_guard_types: tuple
    is_global: bool
    orig_guard: object


class FrameAction(IntEnum):
    """What is done with a frame: the callback is asked; it runs as it is; only what was made of it earlier is used."""

    DEFAULT = 0
    SKIP = 1
    RUN_ONLY = 2


class FrameExecStrategy:
    """What is done with a frame (cur_action) and with the frames that begin in it (recursive_action)."""

    def __init__(self, cur_action=FrameAction.DEFAULT, recursive_action=FrameAction.DEFAULT) -> None:
        self.cur_action, self.recursive_action = cur_action, recursive_action


FrameState = dict


class ExtraState:
    """What is kept for a code object. A name for annotations: C keeps it."""


@dataclass
class GuardedCode:
    """A code object to run in a frame's place, as long as guard_manager(f_locals), or its `check`, is true."""

    code: CodeType
    guard_manager: Any
    compile_id: Any = None
    trace_annotation: str = "Unknown"


@dataclass
class ConvertFrameReturn:
    """What a callback says of a frame. As it is: this frame and later ones of its code run as they are."""

    frame_exec_strategy: FrameExecStrategy = field(
        default_factory=lambda: FrameExecStrategy(FrameAction.SKIP, FrameAction.DEFAULT)
    )
    apply_to_code: bool = True
    guarded_code: GuardedCode | None = None
    skip_reason: str | None = None


def wrap_guarded_code(guarded_code: GuardedCode) -> ConvertFrameReturn:
    """What a callback says that has made a code object."""
    return ConvertFrameReturn(FrameExecStrategy(), guarded_code=guarded_code)


class CacheEntry:
    """What was made of a frame."""

    __slots__ = ("backend", "code", "compile_id", "guard_manager", "isolate_recompiles_id", "trace_annotation")

    def __init__(self, code, guard_manager, compile_id, trace_annotation, backend) -> None:
        self.code, self.guard_manager, self.compile_id = code, guard_manager, compile_id
        self.trace_annotation, self.backend, self.isolate_recompiles_id = trace_annotation, backend, -1


class DynamoFrameType:
    """A frame that begins. f_back: the frame that called it."""

    __slots__ = (
        *("f_code", "f_locals", "f_globals", "f_builtins", "f_lasti", "f_lineno", "f_back"),
        *("closure", "_function"),
    )

    def __init__(self, code, function, f_locals, f_globals, f_builtins, f_back) -> None:
        self.f_code, self.f_locals, self.f_globals, self.f_builtins = code, f_locals, f_globals, f_builtins
        self.f_lasti, self.f_lineno, self.f_back = -1, code.co_firstlineno, f_back
        self.closure, self._function = function.__closure__ or (), function


DynamoCallbackFn = Callable[[DynamoFrameType, CacheEntry | None, dict], ConvertFrameReturn]
DynamoCallback = DynamoCallbackFn | None | bool


def innermost_backend(fn):
    """The backend that callbacks are wrapped around."""
    while hasattr(fn, "_torchdynamo_orig_backend"):
        fn = fn._torchdynamo_orig_backend
    return fn


def _ask(callback, code, function, f_locals, f_globals, f_builtins, entry, state) -> tuple:
    """(what is done with the frame, with those below, whether later ones are treated alike, CacheEntry or None)"""
    said = callback(
        DynamoFrameType(code, function, f_locals, f_globals, f_builtins, sys._getframe().f_back), entry, state
    )
    if said is None:
        said = ConvertFrameReturn()
    strategy, made = said.frame_exec_strategy, said.guarded_code
    if made is not None:
        made = CacheEntry(
            made.code, made.guard_manager, made.compile_id, made.trace_annotation, innermost_backend(callback)
        )
    return int(strategy.cur_action), int(strategy.recursive_action), said.apply_to_code, made


_error_hook = _complete_hook = None


def _holds(entry, f_locals, code, function, at: int, n: int) -> bool:
    guards = entry.guard_manager
    try:
        if hasattr(guards, "holds_for"):
            return guards.holds_for(function)
        return bool(getattr(guards, "check", guards)(f_locals))
    except Exception:
        if _error_hook is not None:
            _error_hook(guards, code, f_locals, at, at == n - 1)
        raise


def _find(entries: list, callback, f_locals, code, function):
    """The code of the first entry whose guards hold, moved to the front; None. Of a callback's own backend alone."""
    backend = innermost_backend(callback) if callback else None
    found = None
    for at, entry in enumerate(entries):
        if (backend is None or entry.backend is backend) and _holds(entry, f_locals, code, function, at, len(entries)):
            found = entry
            break
    if _complete_hook is not None and not _complete_hook(found is not None):
        return None
    if found is None:
        return None
    entries.insert(0, entries.pop(at))
    return found.code


def set_guard_error_hook(hook) -> None:
    """hook(guard_manager, code, f_locals, index, last) is called when a guard raises; None: nothing is."""
    global _error_hook
    _error_hook = hook


def set_guard_complete_hook(hook):
    """hook(hit) is called when the guards of a frame were asked; when it is false, so is the hit. Gives the last."""
    global _complete_hook
    before, _complete_hook = _complete_hook, hook
    return before


def set_code_exec_strategy(code, strategy) -> None:
    """What is done with frames of `code` from here on. SKIP holds for torch.compile too: a call of its function ends
    the graph and runs uncompiled, what it calls is compiled."""
    _frames._set_code_actions(code, int(strategy.cur_action), int(strategy.recursive_action))


def skip_code(code) -> None:
    """Frames of `code` are not captured; those that begin in them are."""
    set_code_exec_strategy(code, FrameExecStrategy(FrameAction.SKIP, FrameAction.DEFAULT))


def _debug_get_cache_entry_list(code) -> list:
    """What callbacks made of the frames of a code object, and torch.compile of functions with it; the newest first."""
    from .eval_frame import code_of, compiled_entries

    code = code if isinstance(code, CodeType) else code_of(code)
    of_callbacks = [e for e in _frames._code_entries(code) if not hasattr(e.guard_manager, "holds_for")]
    return [*of_callbacks, *compiled_entries(code)]


def _get_cache_entries_for_region(code, isolate_recompiles_id: int) -> list:
    """The entries of -1; other regions have none: what torch.compile gives keeps what it compiled for itself."""
    return _debug_get_cache_entry_list(code) if isolate_recompiles_id == -1 else []


def _get_total_cache_entry_count(code) -> int:
    """How many entries there are."""
    return len(_debug_get_cache_entry_list(code))


def code_framelocals_names(code) -> tuple:
    """The names of a frame's locals, cells and free variables."""
    cells = [name for name in code.co_cellvars if name not in code.co_varnames]
    return (*code.co_varnames, *cells, *code.co_freevars)


_FrameAction, _FrameExecStrategy, _PyInterpreterFrame = FrameAction, FrameExecStrategy, DynamoFrameType
_CacheEntry, _ExtraState = CacheEntry, ExtraState
_NAMES = (
    *("_CacheEntry", "_ExtraState", "_FrameAction", "_FrameExecStrategy", "_PyInterpreterFrame"),
    *("_debug_get_cache_entry_list", "_get_cache_entries_for_region", "_get_total_cache_entry_count"),
    *("code_framelocals_names", "set_code_exec_strategy", "set_guard_complete_hook", "set_guard_error_hook"),
    "skip_code",
)
