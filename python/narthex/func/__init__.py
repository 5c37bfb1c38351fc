"""Functions of functions: gradients, Jacobians and products with them, maps over a dimension, modules as functions.

Derivatives are autograd's own: each level makes its tensors anew from those outside and asks for gradients with a
graph, so levels may stand in each other. What runs forwards (jvp, jacfwd, linearize) differentiates the backward, which
is linear in what it is given, once more. `vmap` calls its function once for each slice (vmap.py).
"""

from .._absent import getter
from .._vmap import vmap as vmap
from ._derivatives import grad as grad
from ._derivatives import grad_and_value as grad_and_value
from ._derivatives import hessian as hessian
from ._derivatives import jacfwd as jacfwd
from ._derivatives import jacrev as jacrev
from ._derivatives import jvp as jvp
from ._derivatives import linearize as linearize
from ._derivatives import vjp as vjp
from ._functionalize import functionalize as functionalize
from ._modules import functional_call as functional_call
from ._modules import replace_all_batch_norm_modules_ as replace_all_batch_norm_modules_
from ._modules import stack_module_state as stack_module_state
from ._rearrange import rearrange as rearrange


def debug_unwrap(tensor, *, recurse: bool = True):
    """The tensor: maps and derivatives make no wrappers of tensors here."""
    return tensor


__getattr__ = getter("torch.func")
