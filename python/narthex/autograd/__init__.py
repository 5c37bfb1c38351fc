"""Gradients: backward, grad and the grad-mode switches. The engine is C (src/grad)."""

from .. import _C
from .._absent import absent
from .function import Function as Function
from .grad_mode import enable_grad, inference_mode, no_grad, set_grad_enabled
from .variable import Variable as Variable

__all__ = ["Function", "backward", "enable_grad", "grad", "inference_mode", "no_grad", "set_grad_enabled"]


def _as_tuple(value) -> tuple:
    if value is None:
        return ()
    if isinstance(value, _C.TensorBase) or hasattr(value, "_fields"):
        return (value,)
    return tuple(value)


def _standing(values: tuple, seeds=()) -> tuple:
    """The tensors, in the place of a GradientEdge one that stands for it, of the seed's size if nothing else says."""
    if all(isinstance(value, _C.TensorBase) for value in values):
        return values
    from .graph import _stand_in

    seeds = seeds or (None,) * len(values)
    return tuple(v if isinstance(v, _C.TensorBase) else _stand_in(v, s) for v, s in zip(values, seeds))


def _seeds(roots: tuple, given) -> tuple:
    """One gradient or None for each root, checked against its shape."""
    seeds = (None,) * len(roots) if given is None else (given,) if isinstance(given, _C.TensorBase) else tuple(given)
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
    roots = _as_tuple(tensors)
    if grad_tensors is None or isinstance(grad_tensors, _C.TensorBase):
        roots = _standing(roots, () if grad_tensors is None else (grad_tensors,))
    else:
        roots = _standing(roots, tuple(grad_tensors))
    if inputs is not None and len(_as_tuple(inputs)) == 0:
        raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
    retain = create_graph if retain_graph is None else retain_graph
    seeds = _seeds(roots, grad_tensors)
    if inputs is None:
        _C.autograd_run(roots, seeds, bool(retain), bool(create_graph), None)
        return
    leaves = _standing(_as_tuple(inputs))
    gradients = _C.autograd_run(roots, seeds, bool(retain), bool(create_graph), leaves)
    with set_grad_enabled(bool(create_graph)):
        once = {id(leaf): (leaf, gradient) for leaf, gradient in zip(leaves, gradients)}
        for leaf, gradient in once.values():
            if gradient is not None:
                leaf.grad = gradient if leaf.grad is None else leaf.grad + gradient


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
    """The gradients of `outputs` with respect to `inputs`, as a tuple; `.grad` of the leaves stays as it is."""
    relevant = (*_as_tuple(outputs), *_as_tuple(inputs))
    if _C._has_torch_function(relevant):
        return _C.ask_torch_function(grad, relevant, (_as_tuple(outputs), _as_tuple(inputs)), {
            "grad_outputs": grad_outputs, "retain_graph": retain_graph, "create_graph": create_graph,
            "only_inputs": only_inputs, "allow_unused": allow_unused, "is_grads_batched": is_grads_batched,
            "materialize_grads": materialize_grads})  # fmt: skip
    if not only_inputs:
        raise NotImplementedError("grad: only_inputs=False is not there; PyTorch dropped it as well")
    if is_grads_batched:
        keywords = {"allow_unused": allow_unused, "materialize_grads": materialize_grads, "create_graph": create_graph}
        return _grad_of_rows(outputs, inputs, grad_outputs, keywords, retain_graph)
    if allow_unused is False and materialize_grads:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, but got: allow_unused=False."
        )
    roots = _standing(_as_tuple(outputs), () if grad_outputs is None else _as_tuple(grad_outputs))
    leaves = _standing(_as_tuple(inputs))
    retain = create_graph if retain_graph is None else retain_graph
    gradients = _C.autograd_run(roots, _seeds(roots, grad_outputs), bool(retain), bool(create_graph), leaves)
    if materialize_grads:
        return tuple(leaf.detach().clone().zero_() if g is None else g for leaf, g in zip(leaves, gradients))
    unused = [index for index, gradient in enumerate(gradients) if gradient is None]
    if unused and not allow_unused:
        raise RuntimeError(
            f"The differentiated Tensor at index {unused[0]} appears to not have been used in the graph. "
            "Set allow_unused=True if this is the desired behavior."
        )
    return tuple(gradients)


def _grad_of_rows(outputs, inputs, grad_outputs, keywords: dict, retain_graph) -> tuple:
    """grad for all rows of the gradients of `outputs` at once; what belongs to the rows is stacked."""
    from .._vmap import map_rows

    batches = _as_tuple(grad_outputs)
    if not any(batch is not None and len(batch) for batch in batches):
        raise RuntimeError("grad: with is_grads_batched the gradients need a first dimension that is not empty")
    return tuple(map_rows(lambda *seeds: grad(outputs, inputs, seeds, retain_graph, **keywords), list(batches)))


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
