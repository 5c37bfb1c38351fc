"""torch._dynamo.convert_frame: callbacks for set_eval_frame that have the frames they are given captured.

`convert_frame(backend, hooks)` makes one; catch_errors_wrapper(it, hooks) is what set_eval_frame takes. What such a
callback gives for a frame is a code object of one call: that of the function, compiled. Its guards and its graphs
are those of torch.compile; the callback itself is asked once for each function.
"""

import sysconfig
import types
import warnings
from functools import update_wrapper
from os.path import dirname
from weakref import WeakSet

from .. import _C
from . import config
from .hooks import Hooks
from .types import ConvertFrameReturn, GuardedCode, _frames, wrap_guarded_code

_APART = (dirname(dirname(__file__)) + "/", sysconfig.get_paths()["stdlib"] + "/", "<frozen ")
_SITE = sysconfig.get_paths()["purelib"] + "/"
_NEVER = 0x20 | 0x80 | 0x200  # generators, coroutines

input_codes: WeakSet = WeakSet()  # that a callback was asked for
output_codes: WeakSet = WeakSet()  # that it gave


def has_tensor_in_frame(frame) -> bool:
    """Whether the frame has to do with tensors: by its arguments, or by torch among the globals that its code names."""
    from .eval_frame import always_optimize_code_objects

    if frame.f_code in always_optimize_code_objects:
        return True
    for name in frame.f_code.co_names:
        found = frame.f_globals.get(name)
        if isinstance(found, types.ModuleType) and found.__name__.partition(".")[0] in ("narthex", "numpy"):
            return True
    return any(_has_tensor(value, set()) for value in frame.f_locals.values())


def _has_tensor(value, seen: set) -> bool:
    from ..nn import Module

    if id(value) in seen:
        return False
    seen.add(id(value))
    if isinstance(value, (_C.TensorBase, Module)) or type(value).__module__ == "numpy":
        return True
    if isinstance(value, type):
        return issubclass(value, Module)
    if type(value) is dict:
        return any(_has_tensor(each, seen) for each in list(value.values()))
    return isinstance(value, (list, tuple)) and any(_has_tensor(each, seen) for each in value)


def _why_not(frame) -> str | None:
    """Why a frame is left as it is; None: it is not."""
    code = frame.f_code
    if config.disable:
        return "Dynamo tracing is disabled"
    if code.co_filename.startswith(_APART) and not code.co_filename.startswith(_SITE):
        return "frame is in the Dynamo skipfiles list"
    if code in output_codes:
        return "frame is already Dynamo-generated code"
    if not code.co_flags & 1:
        return "no function's frame"
    if code.co_flags & _NEVER:
        return "a generator or coroutine"
    return None if has_tensor_in_frame(frame) else "no tensor-related objects found in frame"


class _OfFunction:
    """Guards of what was made for the frames of one function: the compiled function asks all else itself."""

    def __init__(self, function) -> None:
        self.function = function

    def holds_for(self, function) -> bool:
        return function is self.function

    def __call__(self, f_locals) -> bool:
        return True


def _code_calling(target, code):
    """A code object that takes what `code` takes and returns what `target` returns for it."""
    taken, n = list(code.co_varnames), code.co_argcount
    named = taken[n : n + code.co_kwonlyargcount]
    first = [f"_{k}" for k in range(n)]
    more, rest = ["_more"] if code.co_flags & 4 else [], ["_rest"] if code.co_flags & 8 else []
    takes = [*first, *(["/"] if first else []), *(f"*{m}" for m in more), *(["*"] if named and not more else [])]
    takes += [*named, *(f"**{r}" for r in rest)]
    gives = [*first, *(f"*{m}" for m in more), *(f"{name}={name}" for name in named), *(f"**{r}" for r in rest)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)  # a text is called: what it stands for takes its place
        text = f"def f({', '.join(takes)}):\n    return '_compiled'({', '.join(gives)})\n"
        made = next(c for c in compile(text, code.co_filename, "exec").co_consts if isinstance(c, types.CodeType))
    consts = tuple(target if c == "_compiled" else c for c in made.co_consts)
    return made.replace(
        co_consts=consts, co_name=code.co_name, co_qualname=code.co_qualname, co_firstlineno=code.co_firstlineno
    )


class ConvertFrameAssert:
    """Has frames captured as one graph each: a graph break is an error."""

    def __init__(
        self,
        compiler_fn,
        one_graph: bool = True,
        export: bool = False,
        export_constraints=None,
        package=None,
        recompile_limit=None,
    ) -> None:
        if export or export_constraints is not None or package is not None:
            raise NotImplementedError("convert_frame_assert: export and package are not there; use torch.export")
        self._torchdynamo_orig_backend = compiler_fn
        self._one_graph, self._recompile_limit = one_graph, recompile_limit

    @property
    def _clone_with_backend(self):
        return lambda backend: convert_frame_assert(backend, self._one_graph, recompile_limit=self._recompile_limit)

    def __call__(self, frame, cache_entry, hooks, frame_state, *, skip: int = 0) -> ConvertFrameReturn:
        from .eval_frame import OptimizeContext

        input_codes.add(frame.f_code)
        reason = _why_not(frame)
        if reason is not None:
            return ConvertFrameReturn(skip_reason=reason)
        if len(_frames._code_entries(frame.f_code)) >= config.accumulated_cache_size_limit:
            return ConvertFrameReturn(skip_reason="accumulated_cache_size_limit functions have this code")
        context = OptimizeContext(self, fullgraph=self._one_graph, hooks=hooks, recompile_limit=self._recompile_limit)
        captured = context.capture(frame._function)
        captured.of_frames = True
        made = _code_calling(captured, frame.f_code)
        output_codes.add(made)
        frame_state["n"] = frame_state.get("n", 0) + 1
        return wrap_guarded_code(GuardedCode(made, _OfFunction(frame._function), None, frame.f_code.co_qualname))


class ConvertFrame(ConvertFrameAssert):
    """Has frames captured; what cannot be ends a graph, and the next begins behind it."""

    def __init__(self, compiler_fn, hooks, package=None, recompile_limit=None) -> None:
        super().__init__(compiler_fn, False, package=package, recompile_limit=recompile_limit)
        self._hooks = hooks

    @property
    def _clone_with_backend(self):
        return lambda backend: convert_frame(backend, self._hooks, recompile_limit=self._recompile_limit)


def convert_frame(compiler_fn, hooks=None, package=None, recompile_limit=None) -> ConvertFrame:
    """A callback (frame, cache entry, hooks, frame state) that has frames captured with this backend."""
    return ConvertFrame(compiler_fn, hooks or Hooks(), package, recompile_limit)


def convert_frame_assert(
    compiler_fn, one_graph=True, export=False, export_constraints=None, package=None, recompile_limit=None
) -> ConvertFrameAssert:
    """The same, each frame as one graph: RuntimeError where that is not possible."""
    return ConvertFrameAssert(compiler_fn, one_graph, export, export_constraints, package, recompile_limit)


class CatchErrorsWrapper:
    """A callback as set_eval_frame takes it, of one that takes hooks as well."""

    def __init__(self, callback, hooks) -> None:
        if hasattr(callback, "__name__"):
            update_wrapper(self, callback)
        self._torchdynamo_orig_backend, self.hooks = callback, hooks

    def __call__(self, frame, cache_entry, frame_state) -> ConvertFrameReturn:
        return self._torchdynamo_orig_backend(frame, cache_entry, self.hooks, frame_state, skip=1)


def catch_errors_wrapper(callback, hooks=None) -> CatchErrorsWrapper:
    """CatchErrorsWrapper(callback, hooks)."""
    return CatchErrorsWrapper(callback, hooks or Hooks())


def replay(filename: str) -> None:
    """NotImplementedError: nothing records frames."""
    raise NotImplementedError(f"torch._dynamo.convert_frame.replay: no frame was recorded in {filename}")
