"""Gradients: backward, grad and the grad-mode switches. The engine is C (src/grad)."""

from _collections_abc import Mapping  # collections.abc, which loads collections

from .. import _C
from .._absent import absent
from .function import Function as Function
from .grad_mode import enable_grad, inference_mode, no_grad, set_grad_enabled
from .variable import Variable as Variable

__all__ = ["Function", "backward", "enable_grad", "grad", "inference_mode", "no_grad", "set_grad_enabled"]


def _as_tuple(value) -> tuple:
    if isinstance(value, _C.TensorBase) or _is_edge(value):
        return (value,)
    return tuple(value)


def _is_edge(value) -> bool:
    if not hasattr(value, "_fields"):
        return False
    from .graph import GradientEdge

    return isinstance(value, GradientEdge)


def _inputs(value, name: str) -> tuple:
    """What `name`() differentiates by: a tensor, an edge, a sequence, an iterator (read once), the values of a dict."""
    if type(value) is dict:
        found = tuple(value.values())
    elif not isinstance(value, (_C.TensorBase, tuple, list)) and isinstance(value, Mapping):
        kind = type(value).__name__
        raise TypeError(
            f"`inputs` argument to `{name}()` must be a dict, not {kind}. Other Mapping types are not supported."
        )
    else:
        found = _as_tuple(value)
    if not found:
        raise RuntimeError(f"`inputs` argument to `{name}()` cannot be empty.")
    return found


def _standing(values: tuple, seeds=()) -> tuple:
    """The tensors, in the place of a GradientEdge one that stands for it, of the seed's size if nothing else says."""
    if all(isinstance(value, _C.TensorBase) for value in values):
        return values
    from .graph import _stand_in

    seeds = seeds or (None,) * len(values)
    return tuple(v if isinstance(v, _C.TensorBase) else _stand_in(v, s) for v, s in zip(values, seeds))


def _seeds(roots: tuple, given: tuple | None) -> tuple:
    """One gradient or None for each root, checked against its shape."""
    seeds = (None,) * len(roots) if given is None else given
    if len(seeds) != len(roots):
        raise RuntimeError(f"got {len(roots)} tensors and {len(seeds)} gradients")
    for index, (root, seed) in enumerate(zip(roots, seeds)):
        if seed is None and root.requires_grad and root.numel() != 1:
            raise RuntimeError("grad can be implicitly created only for scalar outputs")
        if seed is not None and seed.shape != root.shape:
            raise RuntimeError(
                f"Mismatch in shape: grad_output[{index}] has a shape of {seed.shape} "
                f"and output[{index}] has a shape of {root.shape}."
            )
    return seeds


def backward(
    tensors, grad_tensors=None, retain_graph=None, create_graph=False, grad_variables=None, inputs=None
) -> None:
    """Adds the gradients of `tensors` to the `.grad` of the leaves that they came from (or of `inputs` alone)."""
    if grad_variables is not None:
        if grad_tensors is not None:
            raise RuntimeError("'grad_tensors' and 'grad_variables' (deprecated) arguments both passed to backward()")
        grad_tensors = grad_variables
    leaves = None if inputs is None else _inputs(inputs, "backward")
    grad_tensors = None if grad_tensors is None else _as_tuple(grad_tensors)
    roots = _standing(_as_tuple(tensors), grad_tensors or ())
    retain = create_graph if retain_graph is None else retain_graph
    seeds = _seeds(roots, grad_tensors)
    if leaves is None:
        leaves = _C.autograd_leaves(roots)  # in a graph; else None: all
    else:
        leaves = _standing(leaves)
        leaves = tuple({id(leaf): leaf for leaf in leaves}.values()) if len(leaves) > 1 else leaves
    gradients = _C.autograd_run(roots, seeds, bool(retain), bool(create_graph), leaves)
    if leaves is None:
        return
    with set_grad_enabled(bool(create_graph)):
        for leaf, gradient in zip(leaves, gradients):
            if gradient is not None:
                _accumulate(leaf, gradient, bool(create_graph))
                for hook in _C.hooks_after(leaf):
                    if hook(leaf) is not None:
                        raise RuntimeError("Tensor post accumulate grad hooks should return None.")


def _accumulate(leaf, gradient, create_graph: bool) -> None:
    """Adds to `leaf.grad`, in place as a backward does, or makes it: `gradient` itself unless others see its memory."""
    if leaf.grad is None:
        apart = gradient.is_sparse or _C.autograd_takes(leaf, gradient)
        leaf.grad = gradient if apart else _C.empty_like(leaf).copy_(gradient)
    elif create_graph or leaf.grad.is_sparse:
        leaf.grad = leaf.grad + gradient
    else:
        leaf.grad.add_(gradient)


def _tensor_backward(tensor, gradient=None, retain_graph=None, create_graph=False, inputs=None) -> None:
    """Tensor.backward with arguments; without any the extension answers alone."""
    backward(tensor, gradient, retain_graph, create_graph, inputs=inputs)


def grad(
    outputs,
    inputs,
    grad_outputs=None,
    retain_graph=None,
    create_graph=False,
    only_inputs=True,
    allow_unused=None,
    is_grads_batched=False,
    materialize_grads=False,
) -> tuple:
    """The gradients of `outputs` with respect to `inputs`, as a tuple; `.grad` of the leaves stays as it is.

    A dict of inputs gives a dict with its keys.
    """
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, but got: allow_unused=False."
        )
    outputs, leaves = _as_tuple(outputs), _inputs(inputs, "grad")
    keywords = {
        "allow_unused": allow_unused, "create_graph": create_graph, "materialize_grads": materialize_grads,
        "retain_graph": retain_graph,
    }  # fmt: skip
    if _C._has_torch_function((*outputs, *leaves)):
        keywords.update(grad_outputs=grad_outputs, only_inputs=only_inputs, is_grads_batched=is_grads_batched)
        found = _C.ask_torch_function(grad, (*outputs, *leaves), (outputs, leaves), keywords)
    else:
        if not only_inputs:
            _warn_of_only_inputs()
        seeds = None if grad_outputs is None else _as_tuple(grad_outputs)
        found = (_grad_of_rows if is_grads_batched else _grad)(outputs, leaves, seeds, **keywords)
    return dict(zip(inputs, found, strict=True)) if type(inputs) is dict else found


def _warn_of_only_inputs() -> None:
    from warnings import warn

    warn(
        "only_inputs argument is deprecated and is ignored now (defaults to True). To accumulate gradient for other "
        "parts of the graph, please use torch.autograd.backward.",
        FutureWarning,
        stacklevel=3,
    )


def _grad(
    outputs: tuple, inputs: tuple, seeds: tuple | None, retain_graph, create_graph, allow_unused, materialize_grads
) -> tuple:
    roots, leaves = _standing(outputs, seeds or ()), _standing(inputs)
    retain = create_graph if retain_graph is None else retain_graph
    gradients = _C.autograd_run(roots, _seeds(roots, seeds), bool(retain), bool(create_graph), leaves)
    unused = [index for index, gradient in enumerate(gradients) if gradient is None]
    if not unused:
        return tuple(gradients)
    if materialize_grads:
        if any(_is_edge(inputs[index]) for index in unused):
            raise RuntimeError("materialize_grads cannot be used when the given input is a GradientEdge")
        zeros = {index: leaves[index].detach().clone().zero_().requires_grad_(bool(create_graph)) for index in unused}
        return tuple(zeros.get(index, gradient) for index, gradient in enumerate(gradients))
    if not allow_unused:
        raise RuntimeError(
            f"The differentiated Tensor at index {unused[0]} appears to not have been used in the graph. "
            "Set allow_unused=True if this is the desired behavior."
        )
    return tuple(gradients)


def _grad_of_rows(outputs: tuple, inputs: tuple, batches: tuple | None, **keywords) -> tuple:
    """grad for all rows of the gradients of `outputs` at once; what belongs to the rows is stacked."""
    from .._vmap import map_rows

    if not any(batch is not None and len(batch) for batch in batches or ()):
        raise RuntimeError("grad: with is_grads_batched the gradients need a first dimension that is not empty")
    return tuple(map_rows(lambda *seeds: _grad(outputs, inputs, seeds, **keywords), list(batches)))


_MODULES = ("anomaly_mode", "forward_ad", "function", "functional", "grad_mode", "graph", "profiler", "variable")
_LATER = {
    "detect_anomaly": "anomaly_mode",
    "enforce_grad_layout_policy": "grad_mode",
    "gradcheck": "gradcheck",
    "gradgradcheck": "gradcheck",
    "set_detect_anomaly": "anomaly_mode",
    "set_multithreading_enabled": "grad_mode",
}


def _is_checkpoint_valid() -> bool:
    """Whether the backward that runs goes on to every leaf."""
    return not _C.grad_run()[1]


def __getattr__(name: str):
    from importlib import import_module

    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    if name in _LATER:
        globals()[name] = value = getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
        return value
    raise absent("torch.autograd", name)
