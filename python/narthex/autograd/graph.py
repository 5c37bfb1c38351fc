"""torch.autograd.graph: places in the graph, and what tensors that are saved for backward go through."""

from __future__ import annotations

import re
import threading
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple
from weakref import WeakSet

from .. import _C
from .._absent import getter

Node = _C.Node

__all__ = [
    "GradientEdge",
    "Node",
    "allow_mutation_on_saved_tensors",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "region_activation_memory_budget",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
    "set_override_stale_capture_stream",
    "set_warn_on_accumulate_grad_stream_mismatch",
]

_refused: list = []  # what the blocks of disable_saved_tensors_hooks say, the innermost last


# ---- places --------------------------------------------------------------------------------------------------------
class GradientEdge(NamedTuple):
    """Where a tensor's gradient arrives: result `output_nr` of `node`. `backward` and `grad` take it for a tensor."""

    node: Any
    output_nr: int
    ownership_token: Any = None  # what get_gradient_edge keeps: the leaf, or the size of what is no leaf


class _Shape:
    """What a stand-in of an edge is made like."""

    def __init__(self, tensor) -> None:
        self.shape, self.dtype, self.device = tensor.shape, tensor.dtype, tensor.device


def get_gradient_edge(tensor) -> GradientEdge:
    """The edge that the gradient of `tensor` arrives by; it does not keep the tensor's elements."""
    if not tensor.requires_grad:
        raise RuntimeError("It is not possible to get the gradient edge for a Tensor that does not require gradients")
    found = _C.gradient_edge(tensor)
    if found is None:
        raise RuntimeError("get_gradient_edge: the tensor is a view that was not recorded: its gradient goes nowhere")
    return GradientEdge(*found, tensor if tensor.is_leaf else _Shape(tensor))


def _stand_in(edge, seed=None):
    """A tensor whose history is the edge; without elements of its own that anything reads."""
    if not isinstance(edge, GradientEdge):
        raise TypeError(f"expected a Tensor or a GradientEdge, not {type(edge).__name__}")
    token = edge.ownership_token
    if token is None and edge.node.name().endswith("AccumulateGrad"):
        token = edge.node.variable
        if token is None:
            raise RuntimeError("the leaf of this GradientEdge has gone")
    if isinstance(token, _C.TensorBase):
        return token
    like = token if token is not None else seed
    if like is None:
        made = _C.zeros((1,))
    else:
        one = _C.zeros((1,), dtype=like.dtype, device=like.device)
        made = _C.tensor_on_storage(one, tuple(like.shape), (0,) * len(like.shape), 0)
    return _C.stand_for(made, edge.node, edge.output_nr)


def increment_version(tensor) -> None:
    """Counts a write of a tensor, or of each of several, that autograd did not see: saved ones are out of date then."""
    _C.increment_version((tensor,) if isinstance(tensor, _C.TensorBase) else tuple(tensor))


def set_override_stale_capture_stream(enabled: bool) -> None:
    """Changes nothing: gradients are added in the order of the work of their device, and no stream is captured."""


def set_warn_on_accumulate_grad_stream_mismatch(enabled: bool) -> None:
    """Changes nothing: gradients are added in the order of the work of their device, and nothing can mismatch."""


class _Handles:
    """Several hooks that are removed together; also a context manager."""

    def __init__(self, handles) -> None:
        self.handles = tuple(handles)

    def remove(self) -> None:
        """Takes all of them out."""
        for handle in self.handles:
            handle.remove()

    def __enter__(self):
        return self

    def __exit__(self, *exception) -> None:
        self.remove()


def register_multi_grad_hook(tensors, fn, *, mode="all"):
    """Calls `fn` once in each backward. "all": with the list of gradients of `tensors`, None for those that this
    backward does not come by, when the last one is there. "any": with the first gradient."""
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    lock, tensors = threading.Lock(), tuple(tensors)
    nodes = [get_gradient_edge(tensor).node for tensor in tensors] if mode == "all" else []
    arrived: dict = {}  # by backward: [gradients], how many are to come
    told: list = []  # the backward that `fn` has been called in

    def hook_of(index: int):
        def collect(grad) -> None:
            run = _C.grad_run()[0]
            with lock:
                if run not in arrived:
                    arrived[run] = [[None] * len(tensors), sum(map(_C.will_run, nodes))]
                found = arrived[run]
                found[0][index] = grad
                found[1] -= 1
                is_last = found[1] == 0
                if is_last:
                    del arrived[run]
            if is_last:
                fn(found[0])

        return collect

    def first(grad) -> None:
        run = _C.grad_run()[0]
        with lock:
            is_first = told != [run]
            told[:] = [run]
        if is_first:
            fn(grad)

    return _Handles(t.register_hook(hook_of(k) if mode == "all" else first) for k, t in enumerate(tensors))


# ---- what is saved -------------------------------------------------------------------------------------------------
class saved_tensors_hooks:
    """Inside, what is saved for backward is kept as `pack_hook(tensor)`; backward reads `unpack_hook(that)`.

    Blocks may be nested: the innermost one counts. A pack hook may not write its argument. What it returns is not
    watched for writes; unpack_hook must give a tensor with the elements that were packed.
    """

    def __init__(self, pack_hook, unpack_hook) -> None:
        self.pack_hook, self.unpack_hook = pack_hook, unpack_hook
        self._before: list = []

    def __enter__(self) -> None:
        if _refused:
            raise RuntimeError(_refused[-1])
        self._before.append(_C.swap_saved_hooks((self.pack_hook, self.unpack_hook)))

    def __exit__(self, *exception) -> None:
        _C.swap_saved_hooks(self._before.pop())


class save_on_cpu(saved_tensors_hooks):
    """Inside, what is saved for backward lies on the CPU until it is needed. `pin_memory` changes nothing."""

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        super().__init__(lambda tensor: (tensor.device, tensor.cpu()), lambda packed: packed[1].to(packed[0]))


class _Kept:
    """A saved tensor that may be written: then it is a copy from before."""

    __slots__ = ("__weakref__", "is_copy", "tensor")

    def __init__(self, tensor) -> None:
        self.tensor, self.is_copy = tensor.detach(), False


class _Mutations:
    """What allow_mutation_on_saved_tensors keeps: the saved tensors by the memory that they show."""

    def __init__(self) -> None:
        self.kept: dict = {}

    def clear(self) -> None:
        """Lets go of everything: a backward through what was recorded inside fails from now on."""
        for each in [one for group in self.kept.values() for one in group]:
            each.tensor = None
        self.kept.clear()

    def pack(self, tensor) -> _Kept:
        """In the place of a tensor that is saved."""
        made = _Kept(tensor)
        self.kept.setdefault(_C.storage_key(made.tensor)[0], WeakSet()).add(made)
        return made

    def unpack(self, kept: _Kept):
        """The tensor as it was when it was saved."""
        if kept.tensor is None:
            raise AssertionError(
                "Trying to backward outside of the 'allow_mutation_on_saved_tensors' context"
                "in which the graph was originally recorded."
            )
        return kept.tensor

    def before_write(self, tensor) -> None:
        """Copies what is saved of the memory that is about to be written."""
        for kept in self.kept.pop(_C.storage_key(tensor)[0], ()):
            if not kept.is_copy:
                kept.tensor, kept.is_copy = kept.tensor.clone(), True


def _written(func, args: tuple, kwargs: dict) -> list:
    """The tensors that a call of the operator writes, by the marks of its schema."""
    parameters = re.findall(r"(?:^|, |\()(?:\*, )?(\w+)(\(\w+!\))?(?:\[\])? (\w+)", str(func._schema).partition("(")[2])
    found = []
    for k, (_, mark, name) in enumerate(parameters):
        value = kwargs.get(name, args[k] if k < len(args) else None) if mark else None
        found += value if isinstance(value, (list, tuple)) else [value]
    return [value for value in found if isinstance(value, _C.TensorBase)]


@contextmanager
def allow_mutation_on_saved_tensors():
    """Inside, what is saved for backward may be written in place: it is copied first. The backward must run inside."""
    from ..utils._python_dispatch import TorchDispatchMode

    if getattr(_inside, "mutations", None) is not None:
        raise RuntimeError("allow_mutation_on_saved_tensors contexts cannot be nested")
    mutations = _inside.mutations = _Mutations()

    class CopyBeforeWrite(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if "!)" in str(func._schema):
                for tensor in _written(func, args, kwargs or {}):
                    mutations.before_write(tensor)
            return func(*args, **(kwargs or {}))

    try:
        with saved_tensors_hooks(mutations.pack, mutations.unpack), CopyBeforeWrite():
            yield mutations
    finally:
        mutations.clear()
        _inside.mutations = None


_inside = threading.local()


class disable_saved_tensors_hooks:
    """Inside, entering saved_tensors_hooks raises a RuntimeError with this message; also a decorator."""

    def __init__(self, error_message: str) -> None:
        self.error_message = error_message

    def __enter__(self) -> None:
        if _C.saved_hooks() is not None:
            raise RuntimeError(self.error_message)
        _refused.append(self.error_message)

    def __exit__(self, *exception) -> None:
        _refused.pop()

    def __call__(self, function):
        from functools import wraps

        @wraps(function)
        def disabled(*args, **kwargs):
            with disable_saved_tensors_hooks(self.error_message):
                return function(*args, **kwargs)

        return disabled


class _Saved:
    """A tensor that is kept for later, through the hooks of the moment when it was given."""

    __slots__ = ("_needs_grad", "_packed", "_tensor")

    def __init__(self, tensor) -> None:
        self._packed, self._needs_grad = _C.save_packed(tensor, False), tensor.requires_grad
        self._tensor = tensor if self._packed is None else None

    def get(self):
        """The tensor; one that was packed requires grad if it did."""
        if self._packed is None:
            return self._tensor
        tensor = _C.take_packed(self._packed)
        return tensor.detach().requires_grad_() if self._needs_grad and not tensor.requires_grad else tensor


def region_activation_memory_budget(budget: float):
    """A context of compiled functions that changes nothing: what a graph keeps for its backward is the least that a
    minimum cut finds, whatever part of it is asked for. Elsewhere it raises."""
    name = "torch.autograd.graph.region_activation_memory_budget"
    if isinstance(budget, bool) or not isinstance(budget, (int, float)):
        raise TypeError(f"{name}: expects a float, got {type(budget).__name__}")
    if not 0.0 <= budget <= 1.0:
        raise ValueError(f"{name}: must be in [0, 1], got {budget}")
    if not _C.is_capturing():
        raise RuntimeError(f"{name} can only be used inside a torch.compile region; it has no effect in eager mode.")
    return nullcontext()


__getattr__ = getter("torch.autograd.graph")
