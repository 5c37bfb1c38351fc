"""OptimizedModule, and PyTorch's names around the frame hook."""

from .. import _C
from .._later import names
from ..nn import Module


class OptimizedModule(Module):
    """What torch.compile returns for a module: the same module, its forward compiled.

    `__call__` is a slot of the instance that holds the captured function itself, so that a call goes from the
    interpreter to C without a Python frame. Modules with forward hooks get a Python function there, which runs the
    hooks around the captured forward.
    """

    __slots__ = ("__call__",)
    _OWN = ("_orig_mod", "_captured", "_torchdynamo_orig_callable", "_compiler_config", "training")

    def __init__(self, module: Module, backend, *, fullgraph=False, dynamic=None, name=None) -> None:
        super().__init__()
        self._modules["_orig_mod"] = module
        object.__setattr__(self, "_torchdynamo_orig_callable", module.forward)
        object.__setattr__(self, "_compiler_config", backend)
        object.__setattr__(self, "_captured", _C.CapturedFunction(module.forward, backend, fullgraph, dynamic, name))
        self._on_hooks_changed.append(self._choose_call)
        module._on_hooks_changed.append(self._choose_call)
        self._choose_call()

    def _choose_call(self) -> None:
        """Hooks of either module came or went."""
        hooked = self._has_hooks or self._orig_mod._has_hooks
        OptimizedModule.__call__.__set__(self, self._call_hooked if hooked else self._captured)

    def _call_hooked(self, *args, **kwargs):
        def inner(*args, **kwargs):
            return self._orig_mod._call_with_hooks(self._captured, args, kwargs)

        return self._call_with_hooks(inner, args, kwargs)

    def forward(self, *args, **kwargs):
        """The compiled forward of the original module, without hooks."""
        return self._captured(*args, **kwargs)

    @property
    def dynamo_ctx(self):
        """The captured forward: what PyTorch's context makes of it."""
        return self._captured

    def _initialize(self) -> None:
        """Nothing to do: the constructor does it."""

    def _call_lazy_check(self, *args, **kwargs):
        if getattr(self._orig_mod, "_initialize_hook", None) is not None:
            raise NotImplementedError(
                "OptimizedModule: modules that are initialised at their first call are not there yet"
            )
        return self(*args, **kwargs)

    def get_compiler_config(self):
        """The backend with its options."""
        return self._compiler_config

    def __getattr__(self, name: str):
        if name == "_orig_mod":
            return self.__dict__["_modules"]["_orig_mod"]
        return getattr(self._orig_mod, name)

    def __setattr__(self, name: str, value) -> None:
        if name in OptimizedModule._OWN:
            super().__setattr__(name, value)
        else:
            setattr(self._orig_mod, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._orig_mod, name)

    def __dir__(self) -> list:
        return sorted({*object.__dir__(self), *dir(self._orig_mod)})

    def train(self, mode: bool = True):
        """Sets the mode of the original module as well."""
        super().train(mode)
        return self


globals().update(
    names(
        "torch._dynamo.eval_frame",
        "use torch.compile",
        ("OptimizeContext", "_TorchDynamoContext", "_optimize_catch_errors"),
    )
)


def optimize(
    backend="narthex",
    *,
    nopython: bool = False,
    guard_export_fn=None,
    guard_fail_fn=None,
    disable: bool = False,
    dynamic=None,
):
    """A decorator: compiles a function or a module with `backend`. torch.compile is the same with more options."""
    for given, name in ((guard_export_fn, "guard_export_fn"), (guard_fail_fn, "guard_fail_fn")):
        if given is not None:
            raise NotImplementedError(f"optimize: {name} is not there yet")
    from .._compile import compile

    return compile(backend=backend, fullgraph=nopython, dynamic=dynamic, disable=disable)
