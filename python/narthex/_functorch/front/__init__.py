"""functorch: the package beside torch, whose transforms are torch.func's now."""

from ..._absent import getter
from ...func import (
    functional_call,
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
from . import compile

__all__ = [
    "compile", "functional_call", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp",
    "make_fx", "stack_module_state", "vjp", "vmap",
]  # fmt: skip


def make_fx(*args, **kwargs):
    """torch.fx.experimental.proxy_tensor.make_fx"""
    from ...fx.experimental.proxy_tensor import make_fx

    return make_fx(*args, **kwargs)


__getattr__ = getter("functorch")
