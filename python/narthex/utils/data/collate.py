"""From a list of samples to one batch: numbers and arrays become tensors, containers keep their shape."""

from collections.abc import Mapping, Sequence

from ... import _C


def _is_array(value) -> bool:
    return type(value).__module__ == "numpy"


def default_convert(data):
    """Arrays inside `data` become tensors; nothing is stacked. What a loader without batches uses."""
    if isinstance(data, _C.TensorBase) or isinstance(data, (str, bytes)):
        return data
    if _is_array(data) and hasattr(data, "__array__"):
        from ..._from_numpy import as_tensor

        return data if data.dtype.kind in "SUO" else as_tensor(data)
    if isinstance(data, Mapping):
        return {key: default_convert(value) for key, value in data.items()}
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*map(default_convert, data))
    if isinstance(data, tuple):
        return [default_convert(item) for item in data]
    return [default_convert(item) for item in data] if isinstance(data, Sequence) else data


def _stacked(tensors: list):
    """One tensor with the given ones along a new first dimension."""
    first = tensors[0]
    for number, tensor in enumerate(tensors):
        if tensor.shape != first.shape:
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got {list(first.shape)} at entry 0 "
                f"and {list(tensor.shape)} at entry {number}"
            )
    whole = _C.empty((len(tensors), *first.shape), dtype=first.dtype, device=first.device)
    for number, tensor in enumerate(tensors):
        whole.select(0, number).copy_(tensor)
    return whole


def default_collate(batch):
    """Stacks tensors and arrays, makes tensors of numbers, and goes into dicts, tuples and lists."""
    first = batch[0]
    if isinstance(first, _C.TensorBase):
        return _stacked(batch)
    if _is_array(first) and hasattr(first, "__array__"):
        from ..._from_numpy import as_tensor

        if first.dtype.kind in "SUO":
            raise TypeError(f"default_collate: batch must contain tensors, numbers or containers; found {first.dtype}")
        if first.ndim == 0 and not hasattr(first, "__setitem__"):
            return as_tensor([item.item() for item in batch], dtype=as_tensor(first).dtype)
        return _stacked([as_tensor(item) for item in batch])
    if isinstance(first, float):
        return _C.tensor(batch, dtype=_C.float64)
    if isinstance(first, int):
        return _C.tensor(batch)
    if isinstance(first, (str, bytes)):
        return batch
    if isinstance(first, Mapping):
        return {key: default_collate([sample[key] for sample in batch]) for key in first}
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*map(default_collate, zip(*batch)))
    if isinstance(first, Sequence):
        if any(len(sample) != len(first) for sample in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        return [default_collate(list(column)) for column in zip(*batch)]
    raise TypeError(
        f"default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {type(first)}"
    )
