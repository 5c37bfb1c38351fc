"""What torch.compile makes of functions and modules, and PyTorch's names around the frame hook."""

from copy import copy
from weakref import WeakSet, ref

from .. import _C
from .._later import names
from ..nn import Module
from .types import GuardFail

captured_functions: WeakSet = WeakSet()  # all that live, for reset()


class _TorchDynamoContext:
    """What is called with a function and gives one that capture treats in a certain way."""


class RunOnlyContext(_TorchDynamoContext):
    """Called with a function: in it, compiled functions run what they have and compile nothing more."""

    def __call__(self, fn):
        from .decorators import run

        return run(fn)


class DisableContext(_TorchDynamoContext):
    """Called with a function: it is never captured, as by `disable`."""

    def __init__(self, msg=None, wrapping=True) -> None:
        self.msg, self.wrapping = msg, wrapping

    def __call__(self, fn):
        from .._apart import disable

        return disable(fn)


class OptimizeContext(_TorchDynamoContext):
    """Called with a function, a module or another callable: compiles it with `backend`. What `optimize` returns."""

    def __init__(self, backend, *, fullgraph=False, dynamic=None, name=None, guard_fail_fn=None) -> None:
        self.backend, self.fullgraph, self.dynamic, self.name = backend, fullgraph, dynamic, name
        self.guard_fail_fn = guard_fail_fn

    def __call__(self, fn):
        if isinstance(fn, Module):
            return OptimizedModule(fn, self)
        if not callable(fn):
            raise TypeError(f"compile: model must be a function or a module, not {type(fn).__name__}")
        if isinstance(fn, type):
            return self._compile_class(fn)
        return self.capture(fn)

    def capture(self, fn, name=None):
        """`fn`, compiled when it is called; what it is for others (its name, module, attributes) is fn's."""
        known = type(fn) in _FOLLOWED or hasattr(type(fn).__call__, "__code__")
        if not known:
            name = name or getattr(fn, "__name__", type(fn).__name__)
        backend = self.backend
        if self.guard_fail_fn is not None:
            backend = copy(backend)  # it tells of this function alone
        captured = _C.CapturedFunction(
            fn if known else _wrap_inline(fn), backend, self.fullgraph, self.dynamic, self.name or name
        )
        if self.guard_fail_fn is not None:
            backend.before_compiling = _Failures(captured, fn, self.guard_fail_fn)
        captured_functions.add(captured)
        if known and not isinstance(fn, Module):
            for attribute in ("__module__", "__name__", "__qualname__", "__doc__"):
                if hasattr(fn, attribute):
                    setattr(captured, attribute, getattr(fn, attribute))
        return captured

    def _compile_class(self, cls: type) -> type:
        """The calls of its instances are compiled from here on."""
        if hasattr(cls.__call__, "__code__"):
            cls.__call__ = self.capture(cls.__call__)
        return cls

    def get_compiler_config(self):
        """The backend with its options."""
        return self.backend


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


_FOLLOWED = (type(lambda: None), type(OptimizeContext(None).capture), _C.CapturedFunction)


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
        if getattr(self._orig_mod, "_initialize_hook", None) is not None:
            raise NotImplementedError(
                "OptimizedModule: modules that are initialised at their first call are not there yet"
            )
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


globals().update(names("torch._dynamo.eval_frame", "use torch.compile", ("_optimize_catch_errors",)))


def optimize(
    backend="narthex",
    *,
    nopython: bool = False,
    guard_export_fn=None,
    guard_fail_fn=None,
    guard_filter_fn=None,
    disable: bool = False,
    dynamic=None,
    recompile_limit=None,
    isolate_recompiles: bool = False,
    shapes_spec=None,
    name=None,
):
    """A decorator: compiles a function or a module with `backend`. torch.compile goes through it.

    guard_fail_fn: called with a GuardFail for each guard that made the function be compiled again, before it is; unlike
    PyTorch, the guards of its newest version alone are among these, and a version without a graph tells nothing.
    """
    from .._compile import make_backend

    later = {
        "guard_export_fn": guard_export_fn,
        "guard_filter_fn": guard_filter_fn,
        "recompile_limit": recompile_limit,
        "isolate_recompiles": isolate_recompiles or None,
        "shapes_spec": shapes_spec,
    }
    for option, given in later.items():
        if given is not None:
            raise NotImplementedError(f"optimize: {option} is not there yet")
    if disable:
        return _NullDecorator()
    made = make_backend(backend)
    return OptimizeContext(made, fullgraph=nopython, dynamic=dynamic, name=name, guard_fail_fn=guard_fail_fn)
