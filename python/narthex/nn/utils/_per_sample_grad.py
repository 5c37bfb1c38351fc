"""call_for_per_sample_grads: a backward that leaves the gradients of each sample of the batch in `grad_sample`."""

from functools import wraps

from ... import _C
from ..._vmap import vmap
from ...func import functional_call
from ...utils._pytree import tree_leaves, tree_map

__all__ = ["call_for_per_sample_grads"]


def _batch(args: tuple, kwargs: dict, batch_first: bool) -> int:
    sizes = {
        each.size(0 if batch_first else 1)
        for each in tree_leaves((args, kwargs))
        if isinstance(each, _C.TensorBase) and each.dim() > (0 if batch_first else 1)
    }
    if not sizes:
        raise RuntimeError(
            "Unable to find a tensor in the passed args and kwargs. They may not be pytree-able and so "
            "ExpandedWeights cannot determine the batch size from the inputs. Please explicitly pass the batch size"
        )
    if len(sizes) > 1:
        raise RuntimeError(
            "When computing batch_size, found at least one input with batch size "
            f"{min(sizes)} and one with batch size {max(sizes)}. Please specify it explicitly using the batch size "
            "kwarg in call_for_per_sample_grads"
        )
    return sizes.pop()


def call_for_per_sample_grads(module, *, batch_size=None, loss_reduction: str = "sum", batch_first: bool = True):
    """A function that calls `module`; a backward through its results adds to `grad_sample` of every parameter what each
    sample alone would leave in `grad`, with a dimension for the samples in front. `loss_reduction`: whether the loss is
    the samples' "sum" or "mean". Here every module that works sample by sample will do."""
    from .. import Module

    if loss_reduction not in ("sum", "mean"):
        raise RuntimeError(f"Expected loss_reduction argument to be sum or mean, got {loss_reduction}")
    if not isinstance(module, Module):
        raise RuntimeError(f"Module passed must be nn.Module, got {type(module).__name__}")
    if not (batch_size is None or isinstance(batch_size, int)):
        raise RuntimeError(f"Batch size passed must be None or an integer, got {type(batch_size).__name__}")
    if batch_size is not None and batch_size < 1:
        raise RuntimeError(f"Batch size must be positive, got {batch_size}")
    for weight in module.parameters():
        if getattr(weight, "grad_sample", None) is not None:
            raise RuntimeError(
                "Current Expanded Weights accumulates the gradients, which will be incorrect for multiple calls "
                f"without clearing gradients. Please clear out the grad_sample parameter of {weight} or post an issue "
                "to pytorch/pytorch to prioritize correct behavior"
            )

    def by_sample(weight, n: int):
        """The weight once for each sample, as a leaf whose gradients go to grad_sample."""
        each = weight.detach().expand(n, *weight.shape).requires_grad_()

        def keep(grad):
            scaled = grad * n if loss_reduction == "mean" else grad
            known = getattr(weight, "grad_sample", None)
            weight.grad_sample = scaled if known is None else known + scaled

        each.register_hook(keep)
        return each

    @wraps(module.forward)
    def wrapper(*args, **kwargs):
        n, dim = batch_size or _batch(args, kwargs, batch_first), 0 if batch_first else 1
        expanded = {name: by_sample(p, n) for name, p in module.named_parameters() if p.requires_grad}

        def one(weights, args, kwargs):
            with_batch = lambda x: x.unsqueeze(dim) if isinstance(x, _C.TensorBase) else x  # noqa: E731
            result = functional_call(module, weights, tree_map(with_batch, args), tree_map(with_batch, kwargs))
            return tree_map(lambda x: x.squeeze(dim) if isinstance(x, _C.TensorBase) else x, result)

        return vmap(one, in_dims=(0, dim, dim), out_dims=dim, randomness="different")(expanded, args, kwargs)

    return wrapper
