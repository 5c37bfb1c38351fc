"""What torch.compile makes of functions and modules, and PyTorch's names around the frame hook."""

import sys
from contextlib import ExitStack, contextmanager, nullcontext
from copy import copy
from functools import cache, wraps
from weakref import WeakKeyDictionary, WeakSet, ref

from .. import _C, _compile
from .._apart import _Apart
from ..nn import Module
from . import config
from .hooks import Hooks
from .types import (
    CacheEntry,
    GuardFail,
    GuardFilterEntry,
    _debug_get_cache_entry_list,
    _frames,
    innermost_backend,
    set_code_exec_strategy,
    set_guard_complete_hook,
    set_guard_error_hook,
    skip_code,
)

__all__ = [
    "OptimizeContext", "OptimizedModule", "always_optimize_code_objects", "cached_backends", "innermost_backend",
    "innermost_fn", "optimize", "reset_code", "set_code_exec_strategy", "set_eval_frame", "set_guard_complete_hook",
    "set_guard_error_hook", "skip_code", "_debug_get_cache_entry_list",
]  # fmt: skip

null_context = nullcontext
set_eval_frame, get_eval_frame_callback = _frames.set_eval_frame, _frames.get_eval_frame_callback
reset_code = _frames.reset_code
captured_functions: WeakSet = WeakSet()  # all that live, for reset()
cached_backends: dict = {}  # by id, those that something was compiled with since the last reset
always_optimize_code_objects: WeakKeyDictionary = WeakKeyDictionary()  # code of functions that torch.compile was given


class _TorchDynamoContext:
    """What is called with a function and gives one that capture treats in a certain way: of this class itself, one in
    whose calls frames are `callback`'s (set_eval_frame): None: none is captured; False: what was compiled runs."""

    def __init__(self, callback, on_enter=nullcontext, backend_ctx_ctor=nullcontext, patch_fn=nullcontext) -> None:
        if not callable(callback) and callback is not False and callback is not None:
            raise AssertionError(f"Expected callback to be callable, False, or None, got {type(callback)}")
        self.callback, self._backend_ctx_ctor, self.prior = callback, backend_ctx_ctor, None
        self.enter_exit_hooks = [each for each in (on_enter, backend_ctx_ctor) if each is not nullcontext]
        patch_fn()

    def __call__(self, fn):
        if not callable(fn):
            raise AssertionError(f"A callable function is expected, but {type(fn)} is provided.")
        return _under_callback(fn, self.callback, self._inside)

    @contextmanager
    def _inside(self):
        with ExitStack() as stack:
            for make in self.enter_exit_hooks:
                context = make()
                if context is not None:
                    stack.enter_context(context)
            yield


class RunOnlyContext(_TorchDynamoContext):
    """Called with a function: in it, compiled functions run what they have and compile nothing more."""

    def __init__(self) -> None:
        super().__init__(False)

    def __call__(self, fn):
        from .decorators import run

        return run(fn)


class DisableContext(_TorchDynamoContext):
    """Called with a function: it is never captured, as by `disable`."""

    def __init__(self, msg=None, wrapping=True) -> None:
        super().__init__(None)
        self.msg, self.wrapping = msg, wrapping

    def __call__(self, fn):
        from .._apart import disable

        return disable(fn)


@cache
def _leave_arguments_alone() -> None:
    """From the first function that is compiled on distributions look at arguments only where they are told to, as in
    PyTorch: each look would end a graph."""
    _compile.looks_at_arguments[0] = False
    loaded = sys.modules.get("narthex.distributions.distribution")
    if loaded is not None:
        loaded.Distribution.set_default_validate_args(False)


class OptimizeContext(_TorchDynamoContext):
    """Called with a function, a module or another callable: compiles it. What `optimize` returns.

    callback: a Backend or what convert_frame made, whose backend compiles the function when it is called; any other
    callable is set for the function's frames (set_eval_frame) while it runs. backend_ctx_ctor(): entered around calls.
    isolate_recompiles: what a function was compiled to is its own in any case.
    """

    def __init__(
        self,
        callback,
        backend_ctx_ctor=nullcontext,
        first_ctx: bool = False,
        *,
        fullgraph: bool = False,
        error_on_graph_break=None,
        export: bool = False,
        dynamic=None,
        compiler_config=None,
        rebuild_ctx=None,
        package=None,
        hooks=None,
        isolate_recompiles: bool = False,
        shapes_spec=None,
        recompile_limit=None,
        name=None,
    ) -> None:
        for option, given in (("export", export or None), ("package", package), ("shapes_spec", shapes_spec)):
            if given is not None:
                raise NotImplementedError(f"optimize: {option} is not there yet")
        _leave_arguments_alone()
        self.callback, self.first_ctx, self.fullgraph = callback, first_ctx, bool(fullgraph or error_on_graph_break)
        self.dynamic, self.name, self.hooks = dynamic, name, hooks or Hooks()
        self.compiler_config, self._backend_ctx_ctor = compiler_config, backend_ctx_ctor
        self.backend = self.recompile_limit = None
        if _is_ours(callback):
            self.backend = _backend_of(callback)
            cached_backends.setdefault(id(self.backend.backend), self.backend.backend)
            self.recompile_limit = recompile_limit or getattr(_inner_convert(callback), "_recompile_limit", None)
        self.prior = None

    def __call__(self, fn):
        if isinstance(fn, Module):
            return OptimizedModule(fn, self)
        if not callable(fn):
            raise TypeError(f"compile: model must be a function or a module, not {type(fn).__name__}")
        if isinstance(fn, type):
            return self._compile_class(fn)
        code = code_of(fn)
        if code is not None:
            always_optimize_code_objects[code] = True
        return self.capture(fn)

    def __enter__(self) -> None:
        """For frames that begin inside of the block; where config.raise_on_ctx_manager_usage is off."""
        if config.raise_on_ctx_manager_usage:
            raise RuntimeError(
                "torch._dynamo.optimize(...) is used with a context manager. Please use torch.compile(...) as an "
                "annotation or decorator, or set torch._dynamo.config.raise_on_ctx_manager_usage to False."
            )
        callback = self.callback
        if self.backend is not None:
            callback = _frame_callback(callback, self.hooks, self.recompile_limit)
        self.prior = [*(self.prior or ()), (_frames.get_eval_frame_callback(), self._backend_ctx_ctor())]
        self.prior[-1][1].__enter__()
        _frames.set_eval_frame(callback)

    def __exit__(self, *error) -> None:
        callback, context = self.prior.pop()
        _frames.set_eval_frame(callback)
        context.__exit__(*error)

    def capture(self, fn, name=None):
        """`fn`, compiled when it is called; what it is for others (its name, module, attributes) is fn's."""
        if self.backend is None:
            return _under_callback(fn, self.callback, self._backend_ctx_ctor)
        known = type(fn) in _FOLLOWED or hasattr(type(fn).__call__, "__code__")
        if not known:
            name = name or getattr(fn, "__name__", type(fn).__name__)
        backend = self.backend
        if self.hooks.guard_fail_fn is not None:
            backend = copy(backend)  # it tells of this function alone
        captured = _C.CapturedFunction(
            fn if known else _wrap_inline(fn), backend, self.fullgraph, self.dynamic, self.name or name
        )
        if self.hooks.guard_fail_fn is not None:
            backend.before_compiling = _Failures(captured, fn, self.hooks.guard_fail_fn)
        if self.hooks.guard_filter_fn is not None or self.hooks.guard_export_fn is not None:
            captured.guards_listener = Guards(self.hooks)
        captured.recompile_limit = self.recompile_limit or 0
        captured_functions.add(captured)
        if known and not isinstance(fn, Module):
            for attribute in ("__module__", "__name__", "__qualname__", "__doc__"):
                if hasattr(fn, attribute):
                    setattr(captured, attribute, getattr(fn, attribute))
        captured.get_compiler_config = self.get_compiler_config
        if self._backend_ctx_ctor is not nullcontext:
            return _in_context(captured, self._backend_ctx_ctor)
        return captured

    def _compile_class(self, cls: type) -> type:
        """The calls of its instances are compiled from here on."""
        if hasattr(cls.__call__, "__code__"):
            cls.__call__ = self.capture(cls.__call__)
        return cls

    def get_compiler_config(self):
        """What the backend's own get_compiler_config gives; the backend with its options, where it has none."""
        return self.backend if self.compiler_config is None else self.compiler_config


class _Failures:
    """Tells guard_fail_fn of the guards that failed since the function was compiled last, before it is again."""

    def __init__(self, captured, fn, tell) -> None:
        function = getattr(fn, "forward", fn)
        self.captured, self.tell, self.told = ref(captured), tell, 0
        self.code = getattr(getattr(function, "__func__", function), "__code__", None)

    def __call__(self) -> None:
        reasons = list(self.captured().recompiles)
        for reason in reasons[min(self.told, len(reasons)) :]:
            self.tell(GuardFail(reason, self.code))
        self.told = len(reasons)


class _NullDecorator:
    """What `optimize(disable=True)` returns: leaves what it is called with as it is."""

    def __call__(self, fn):
        if not callable(fn):
            raise TypeError(f"compile: model must be a function or a module, not {type(fn).__name__}")
        return fn


_FOLLOWED = (type(lambda: None), type(Hooks().__init__), _C.CapturedFunction)


def _wrap_inline(fn):
    """A Python function around a callable that has no Python code of its own: capture begins in it."""

    def inner(*args, **kwargs):
        return fn(*args, **kwargs)

    return inner


class OptimizedModule(Module):
    """What torch.compile returns for a module: the same module, its calls compiled, with the hooks that it has.

    `forward` is an attribute of the instance, the captured call, so that a call goes from the interpreter to C without
    a Python frame. Nothing of it is kept in the module itself.
    """

    _OWN = ("_orig_mod", "dynamo_ctx", "forward")

    def __init__(self, mod: Module, dynamo_ctx: OptimizeContext) -> None:
        super().__init__()
        self._modules["_orig_mod"] = mod
        self.dynamo_ctx = dynamo_ctx
        self._initialize()

    def _initialize(self) -> None:
        name = getattr(self._orig_mod.forward, "__qualname__", type(self._orig_mod).__qualname__)
        object.__setattr__(self, "forward", self.dynamo_ctx.capture(self._orig_mod, name))

    def __reduce__(self):
        return type(self), (self._orig_mod, self.dynamo_ctx)

    def _call_lazy_check(self, *args, **kwargs):
        """A call before which a lazy module has become what it is."""
        if hasattr(self._orig_mod, "_initialize_hook"):
            self._orig_mod._infer_parameters(self._orig_mod, args, kwargs)
        return self(*args, **kwargs)

    @property
    def _torchdynamo_orig_callable(self):
        return self._orig_mod.forward

    def get_compiler_config(self):
        """The backend with its options."""
        return self.dynamo_ctx.get_compiler_config()

    @property
    def training(self) -> bool:
        """The original module's."""
        return self._orig_mod.training

    @training.setter
    def training(self, value: bool) -> None:
        if "_modules" in self.__dict__:  # not yet in Module.__init__
            self._orig_mod.training = value

    def __len__(self) -> int:
        if not hasattr(type(self._orig_mod), "__len__"):
            raise TypeError(f"{type(self._orig_mod).__name__} does not support len()")
        return len(self._orig_mod)

    def __bool__(self) -> bool:
        return bool(self._orig_mod)

    def __getattr__(self, name: str):
        if name == "_orig_mod":
            return self.__dict__["_modules"]["_orig_mod"]
        return getattr(self._orig_mod, name)

    def __setattr__(self, name: str, value) -> None:
        if name in OptimizedModule._OWN or hasattr(type(self), name):
            super().__setattr__(name, value)
        else:
            setattr(self._orig_mod, name, value)

    def __delattr__(self, name: str) -> None:
        if name in OptimizedModule._OWN or hasattr(type(self), name):
            super().__delattr__(name)
        else:
            delattr(self._orig_mod, name)

    def __dir__(self) -> list:
        return sorted({*object.__dir__(self), *dir(self._orig_mod)})


def _inner_convert(callback):
    """What convert_frame made, in a CatchErrorsWrapper or not."""
    return callback._torchdynamo_orig_backend if type(callback).__name__ == "CatchErrorsWrapper" else callback


def _is_ours(callback) -> bool:
    """A Backend, or what torch._dynamo.convert_frame makes of one."""
    from .._compile import Backend
    from . import convert_frame

    known = (Backend, convert_frame.ConvertFrame, convert_frame.ConvertFrameAssert)
    return type(callback) in known or (
        type(callback) is convert_frame.CatchErrorsWrapper and type(callback._torchdynamo_orig_backend) in known
    )


def _backend_of(callback):
    from .._compile import make_backend

    return make_backend(innermost_backend(callback))


def _frame_callback(callback, hooks, recompile_limit):
    from . import convert_frame

    if isinstance(callback, convert_frame.CatchErrorsWrapper):
        return callback
    if isinstance(callback, convert_frame.ConvertFrameAssert):
        return convert_frame.catch_errors_wrapper(callback, hooks)
    made = convert_frame.convert_frame(callback, hooks, recompile_limit=recompile_limit)
    return convert_frame.catch_errors_wrapper(made, hooks)


def _under_callback(fn, callback, context):
    """A function like `fn`; the frames that begin in it are the callback's."""

    @wraps(fn)
    def inner(*args, **kwargs):
        before = _frames.set_eval_frame(None)
        with context():
            try:
                _frames.set_eval_frame(callback)
                return fn(*args, **kwargs)
            finally:
                _frames.set_eval_frame(before)

    inner._torchdynamo_orig_callable, inner._torchdynamo_wrapper_id = fn, id(inner)
    return inner


def _in_context(captured, context):
    """A function like `captured` whose calls run inside of context()."""

    @wraps(captured)
    def inner(*args, **kwargs):
        with context():
            return captured(*args, **kwargs)

    inner._torchdynamo_orig_callable, inner._torchdynamo_wrapper_id = captured.fn, id(inner)
    inner.get_compiler_config = captured.get_compiler_config
    return inner


def innermost_fn(fn):
    """The function or module that compile, disable and such were called with."""
    while True:
        if isinstance(fn, OptimizedModule):
            fn = fn._orig_mod
        elif isinstance(fn, _C.CapturedFunction):
            fn = fn.fn
        elif isinstance(fn, _Apart):
            fn = fn.func
        elif getattr(fn, "_torchdynamo_wrapper_id", None) == id(fn):
            fn = fn._torchdynamo_orig_callable
        else:
            return fn


def code_of(fn):
    """The code of what `fn` was made of: of a module, of its forward; None: there is none."""
    function = innermost_fn(fn)
    function = function.forward if isinstance(function, Module) else function
    return getattr(getattr(function, "__func__", function), "__code__", None)


def compiled_entries(code) -> list:
    """A CacheEntry for each piece that torch.compile has made from the beginning of functions with this code."""
    entries = []
    for captured in list(captured_functions):
        if code_of(captured) is code:
            entries += [CacheEntry(code, guards, None, "Unknown", captured.backend) for guards in captured.guards]
    return entries


class Guard:
    """One guard, as guard_export_fn gets it: name (what it is about), guard_types (its kind), code_list (its text)."""

    def __init__(self, kind: str, name: str, text: str, may_be_left_out: bool) -> None:
        self.name, self.guard_types, self.code_list, self.may_be_left_out = name, [kind], [text], may_be_left_out

    def create_fn_name(self) -> str:
        """Its kind."""
        return self.guard_types[0]

    def __repr__(self) -> str:
        return f"Guard({self.create_fn_name()}, {self.name!r}, {self.code_list[0]})"


class Guards:
    """Hands the guards of each compiled piece to guard_filter_fn and guard_export_fn."""

    def __init__(self, hooks) -> None:
        self.hooks = hooks

    def __call__(self, rows: list):
        guards, keep = [Guard(*row) for row in rows], None
        if self.hooks.guard_filter_fn is not None:
            entries = [
                GuardFilterEntry(g.name, False, None, g.create_fn_name(), (), g.name.startswith("G["), g)
                for g in guards
            ]
            keep = [bool(each) for each in self.hooks.guard_filter_fn(entries)]
        if self.hooks.guard_export_fn is not None:
            self.hooks.guard_export_fn([g for k, g in enumerate(guards) if keep is None or keep[k]])
        return keep


def _optimize_catch_errors(
    compile_fn,
    hooks,
    backend_ctx_ctor=nullcontext,
    fullgraph: bool = False,
    error_on_graph_break=None,
    export: bool = False,
    dynamic=None,
    compiler_config=None,
    rebuild_ctx=None,
    package=None,
    isolate_recompiles: bool = False,
    shapes_spec=None,
    name=None,
) -> OptimizeContext:
    """The context of what convert_frame made."""
    from .convert_frame import catch_errors_wrapper

    return OptimizeContext(
        catch_errors_wrapper(compile_fn, hooks),
        backend_ctx_ctor,
        True,
        fullgraph=fullgraph,
        error_on_graph_break=error_on_graph_break,
        export=export,
        dynamic=dynamic,
        compiler_config=compiler_config,
        rebuild_ctx=rebuild_ctx,
        package=package,
        hooks=hooks,
        isolate_recompiles=isolate_recompiles,
        shapes_spec=shapes_spec,
        name=name,
    )


def optimize(
    backend="narthex",
    *,
    nopython: bool = False,
    error_on_graph_break=None,
    guard_export_fn=None,
    guard_fail_fn=None,
    guard_filter_fn=None,
    disable: bool = False,
    dynamic=None,
    package=None,
    recompile_limit=None,
    isolate_recompiles: bool = False,
    shapes_spec=None,
    name=None,
):
    """A decorator: compiles a function or a module with `backend`. torch.compile goes through it.

    guard_fail_fn: called with a GuardFail for each guard that made the function be compiled again, before it is; unlike
    PyTorch, the guards of its newest version alone are among these, and a version without a graph tells nothing.
    guard_export_fn: called with the guards of each compiled piece. guard_filter_fn: called with a GuardFilterEntry for
    each, gives a bool for each; a guard with False is not asked, but for those that keep memory safe (types, tensors,
    lengths), which stay. recompile_limit: config.recompile_limit for this function. isolate_recompiles: what is
    compiled for one `optimize` is its own in any case. backend.backend_ctx_ctor, if there is one, makes contexts.
    """
    from .._compile import make_backend
    from . import convert_frame

    if disable:
        return _NullDecorator()
    made = make_backend(backend)
    hooks = Hooks(guard_export_fn, guard_fail_fn, guard_filter_fn)
    config_of = getattr(made.backend, "get_compiler_config", None)
    return _optimize_catch_errors(
        convert_frame.convert_frame(made, hooks, recompile_limit=recompile_limit),
        hooks,
        getattr(made.backend, "backend_ctx_ctor", nullcontext),
        fullgraph=nopython,
        error_on_graph_break=error_on_graph_break,
        dynamic=dynamic,
        compiler_config=config_of() if config_of is not None else None,
        package=package,
        isolate_recompiles=isolate_recompiles,
        shapes_spec=shapes_spec,
        name=name,
    )
