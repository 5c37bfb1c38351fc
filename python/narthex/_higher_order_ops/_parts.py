"""What cond, while_loop, scan and map share: parts of a traced function that go into graphs of their own
(py/notes/region.c), and the errors of PyTorch, which looks at such a function before it runs it."""

from .. import _C
from ..utils import _pytree as pytree


def only_tensors(tree) -> bool:
    return all(isinstance(leaf, _C.TensorBase) for leaf in pytree.tree_leaves(tree))


def traced(function, given=()):
    """`function`, recorded as a part that is given tensors like the leaves of `given`: the structure of its result.

    Where it cannot be, the function that is compiled is followed without parts, as Python runs it.
    """
    leaves, spec = pytree.tree_flatten(given)
    fakes = _C.part_open(tuple(leaves))
    results, out = pytree.tree_flatten(function(*pytree.tree_unflatten(list(fakes), spec)))
    if not only_tensors(results):
        raise RuntimeError("a part of the graph must give tensors alone")
    _C.part_close(tuple(results))
    return out


def uncaptured(text: str) -> Exception:
    """PyTorch's error for a function that it cannot take into a graph."""
    from .._dynamo.exc import UncapturedHigherOrderOpError

    return UncapturedHigherOrderOpError(text)


def _fake_text(tensor) -> str:
    """As PyTorch shows a tensor without elements."""
    device = [] if tensor.device.type == "cpu" else [f"device='{tensor.device}'"]
    dtype = [] if tensor.dtype is _C.get_default_dtype() else [f"dtype={tensor.dtype}"]
    grad = ["requires_grad=True"] if tensor.requires_grad and tensor.is_leaf else []
    return f"FakeTensor({', '.join(['...', *device, f'size={tuple(tensor.shape)}', *dtype, *grad])})"


def _text(leaf) -> str:
    return _fake_text(leaf) if isinstance(leaf, _C.TensorBase) else str(leaf)


def _differences(a, b) -> list:
    """What is not the same of two leaves."""
    tensors = isinstance(a, _C.TensorBase), isinstance(b, _C.TensorBase)
    if not any(tensors):
        return []
    if not all(tensors):
        return [f"type: {_text(a)} vs {_text(b)}"]
    strides = tuple(a.stride()), tuple(b.stride())
    fields = (("shape", a.shape, b.shape), ("dtype", a.dtype, b.dtype), ("stride", *strides))
    told = ", ".join(f"'{name}: {x} vs {y}'" for name, x, y in fields if x != y)
    return ([told] if told else []) + (["device"] if a.device != b.device else [])


def check_alike(a: list, b: list, names: tuple) -> None:
    """PyTorch's error where leaves are not of the same number, sizes, strides, dtypes and devices."""
    if len(a) != len(b):
        lists = [f"[{', '.join(map(_text, leaves))}]" for leaves in (a, b)]
        text = f"to have same number of outputs but got lhs:{lists[0]} and rhs:{lists[1]}"
        raise uncaptured(f"Expected {names[0]} and {names[1]} {text}")
    lines = [
        f"pair[{k}] differ in {told}, where lhs is {_text(x)} and rhs is {_text(y)}"
        for k, (x, y) in enumerate(zip(a, b, strict=True))
        for told in _differences(x, y)
    ]
    if lines:
        raise uncaptured("\n".join([f"Expected {names[0]} and {names[1]} to have same metadata but found:", *lines]))


def stacked(results: list):
    """The leaves of equal structures, each in one tensor along a new first dimension."""
    leaves, specs = zip(*(pytree.tree_flatten(result) for result in results))
    if any(spec != specs[0] for spec in specs):
        raise RuntimeError("the function must return the same structure at each step")
    return pytree.tree_unflatten([_C.stack(list(column)) for column in zip(*leaves)], specs[0])
