"""torch._functorch.apis: maps and derivatives of functions by the older names of torch.func's."""

from .._vmap import vmap
from ..func import grad, grad_and_value

__all__ = ["chunk_vmap", "grad", "grad_and_value", "vmap"]


def chunk_vmap(func, in_dims=0, out_dims=0, randomness: str = "error", chunks: int = 2):
    """vmap() in so many calls, with as many slices each as are left over for them."""

    def mapped(*args, **kwargs):
        from .._vmap import _inputs

        n = _inputs(func, in_dims, args)[3]
        return vmap(func, in_dims, out_dims, randomness, chunk_size=max(1, -(-n // chunks)))(*args, **kwargs)

    return mapped
