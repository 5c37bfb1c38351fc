"""Inputs cut up over devices, results joined: this needs devices of CUDA's kind, and says so where there are none."""

from ... import _C

__all__ = ["gather", "is_namedtuple", "scatter", "scatter_kwargs"]


def is_namedtuple(obj) -> bool:
    """Whether it looks like a NamedTuple or a class of them."""
    return hasattr(obj, "_asdict") and hasattr(obj, "_fields")


def gather(outputs, target_device, dim: int = 0):
    """Raises: it joins tensors of several CUDA devices."""
    raise AssertionError("Gather function not implemented for CPU tensors")


def _scattered(value, n: int) -> list:
    """`value` for each of `n` devices; a tensor would be cut up, for which there are no devices."""
    if isinstance(value, _C.TensorBase):
        raise RuntimeError("scatter: a tensor is cut up over CUDA devices, and there are none")
    if isinstance(value, tuple) and value:
        columns = zip(*(_scattered(item, n) for item in value))
        return [type(value)(*column) if is_namedtuple(value) else column for column in columns]
    if isinstance(value, list) and value:
        return [list(column) for column in zip(*(_scattered(item, n) for item in value))]
    if isinstance(value, dict) and value:
        return [type(value)(items) for items in zip(*(_scattered(item, n) for item in value.items()))]
    return [value] * n


def scatter(inputs, target_gpus, dim: int = 0):
    """For each device what it gets of `inputs`; tensors raise."""
    return _scattered(inputs, len(target_gpus))


def scatter_kwargs(inputs, kwargs, target_gpus, dim: int = 0) -> tuple:
    """For each device what it gets of the tuple `inputs` and of the dict `kwargs`; the shorter is filled up."""
    given = list(scatter(inputs, target_gpus, dim)) if inputs else []
    named = list(scatter(kwargs, target_gpus, dim)) if kwargs else []
    n = max(len(given), len(named))
    return tuple(given + [()] * (n - len(given))), tuple(named + [{}] * (n - len(named)))
