"""functorch: the package beside torch, whose transforms are torch.func's now."""

from warnings import warn

from ..._absent import getter
from ...func import (
    functional_call,
    functionalize,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    stack_module_state,
    vjp,
    vmap,
)
from .. import make_functional as _of_modules
from ..make_functional import FunctionalModule, FunctionalModuleWithBuffers
from . import compile

__all__ = [
    "FunctionalModule", "FunctionalModuleWithBuffers", "combine_state_for_ensemble", "compile", "functional_call",
    "functionalize", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "make_functional",
    "make_functional_with_buffers", "make_fx", "stack_module_state", "vjp", "vmap",
]  # fmt: skip


def _warn(name: str, instead: str) -> None:
    warn(
        f"We've integrated functorch into PyTorch. As the final step of the integration, `functorch.{name}` is "
        "deprecated as of PyTorch 2.0 and will be deleted in a future version of PyTorch >= 2.3. Please use "
        f"`{instead}` instead; see the PyTorch 2.0 release notes and/or the `torch.func` migration guide for more "
        "details https://pytorch.org/docs/main/func.migrating.html",
        FutureWarning,
        stacklevel=3,
    )


def make_functional(model, disable_autograd_tracking: bool = False) -> tuple:
    """(function of the parameters and what the model takes, parameters)"""
    _warn("make_functional", "torch.func.functional_call")
    return _of_modules.make_functional(model, disable_autograd_tracking)


def make_functional_with_buffers(model, disable_autograd_tracking: bool = False) -> tuple:
    """(function of parameters, buffers and what the model takes, parameters, buffers)"""
    _warn("make_functional_with_buffers", "torch.func.functional_call")
    return _of_modules.make_functional_with_buffers(model, disable_autograd_tracking)


def combine_state_for_ensemble(models) -> tuple:
    """The same of several models, whose parameters and buffers are stacked."""
    _warn("combine_state_for_ensemble", "torch.func.stack_module_state")
    return _of_modules.combine_state_for_ensemble(models)


def make_fx(*args, **kwargs):
    """torch.fx.experimental.proxy_tensor.make_fx"""
    from ...fx.experimental.proxy_tensor import make_fx

    return make_fx(*args, **kwargs)


__getattr__ = getter("functorch")
