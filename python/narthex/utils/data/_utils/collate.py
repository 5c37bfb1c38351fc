"""From a list of samples to one batch: numbers and arrays become tensors, containers keep their kind and shape.

`collate` asks a table of functions by type, which a program may replace or extend; `default_collate` uses the table
`default_collate_fn_map`. numpy's kinds join it once the program has imported numpy.
"""

import re
import sys
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from copy import copy

from .... import _C

np_str_obj_array_pattern = re.compile(r"[SaUO]")  # kinds of numpy that no tensor has
_KINDS = "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"


def _rebuilt_mapping(old: Mapping, items: dict):
    """A mapping of the kind of `old` with other values; a dict where its class cannot be made so."""
    try:
        if not isinstance(old, MutableMapping):
            return type(old)(items)
        new = copy(old)
        new.update(items)
        return new
    except TypeError:
        return items


def _rebuilt_sequence(old: Sequence, items: list):
    """A sequence of the kind of `old` with other items; a list where its class cannot be made so."""
    try:
        if not isinstance(old, MutableSequence):
            return type(old)(items)
        new = copy(old)
        for number, item in enumerate(items):
            new[number] = item
        return new
    except TypeError:
        return items


def _is_named(value) -> bool:
    return isinstance(value, tuple) and hasattr(value, "_fields")


def default_convert(data):
    """Arrays inside `data` become tensors; nothing is stacked. What a loader without batches uses."""
    if isinstance(data, _C.TensorBase):
        return data
    if type(data).__module__ == "numpy" and hasattr(data, "__array__"):
        from ...._from_numpy import as_tensor

        return data if data.dtype.kind in "SUO" else as_tensor(data)
    if isinstance(data, Mapping):
        return _rebuilt_mapping(data, {key: default_convert(value) for key, value in data.items()})
    if _is_named(data):
        return type(data)(*map(default_convert, data))
    if isinstance(data, tuple):
        return [default_convert(item) for item in data]
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes, bytearray)):
        return _rebuilt_sequence(data, [default_convert(item) for item in data])
    return data


def collate_tensor_fn(batch, *, collate_fn_map=None):
    """The tensors along a new first dimension."""
    return _C.stack(list(batch), 0)


def collate_numpy_array_fn(batch, *, collate_fn_map=None):
    """The arrays as tensors along a new first dimension."""
    from ...._from_numpy import as_tensor

    if batch[0].dtype.kind in "SUO":
        raise TypeError(_KINDS.format(batch[0].dtype))
    return collate([as_tensor(item) for item in batch], collate_fn_map=collate_fn_map)


def collate_numpy_scalar_fn(batch, *, collate_fn_map=None):
    """One tensor of numpy's numbers."""
    from ...._from_numpy import as_tensor

    return as_tensor([item.item() for item in batch], dtype=as_tensor(batch[0]).dtype)


def collate_float_fn(batch, *, collate_fn_map=None):
    """A tensor of float64."""
    return _C.tensor(batch, dtype=_C.float64)


def collate_int_fn(batch, *, collate_fn_map=None):
    """A tensor of the integers, or of the truths."""
    return _C.tensor(batch)


def collate_str_fn(batch, *, collate_fn_map=None):
    """The batch as it is."""
    return batch


default_collate_fn_map: dict = {
    _C.TensorBase: collate_tensor_fn,
    float: collate_float_fn,
    int: collate_int_fn,
    str: collate_str_fn,
    bytes: collate_str_fn,
}


def _add_numpy() -> None:
    numpy = sys.modules.get("numpy")
    if numpy is not None and numpy.ndarray not in default_collate_fn_map:
        default_collate_fn_map[numpy.ndarray] = collate_numpy_array_fn
        default_collate_fn_map[(numpy.bool_, numpy.number, numpy.object_)] = collate_numpy_scalar_fn


def _function_for(kind: type, table: dict) -> Callable | None:
    """The function of exactly this type, or the first one of a type that it is derived from."""
    return table.get(kind) or next((function for of, function in table.items() if issubclass(kind, of)), None)


def collate(batch, *, collate_fn_map: dict | None = None):
    """One batch of a list of samples: by the table where it knows the samples' type, container by container else."""
    first = batch[0]
    if collate_fn_map is not None:
        function = _function_for(type(first), collate_fn_map)
        if function is not None:
            return function(batch, collate_fn_map=collate_fn_map)
    if isinstance(first, Mapping):
        columns = {key: collate([sample[key] for sample in batch], collate_fn_map=collate_fn_map) for key in first}
        return _rebuilt_mapping(first, columns)
    if not isinstance(first, Sequence):
        raise TypeError(_KINDS.format(type(first)))
    if not _is_named(first) and any(len(sample) != len(first) for sample in batch):
        raise RuntimeError("each element in list of batch should be of equal size")
    columns = [collate(column, collate_fn_map=collate_fn_map) for column in zip(*batch)]
    if _is_named(first):
        return type(first)(*columns)
    return columns if isinstance(first, tuple) else _rebuilt_sequence(first, columns)


def default_collate(batch):
    """Stacks tensors and arrays, makes tensors of numbers, and goes into dicts, tuples and lists."""
    _add_numpy()
    return collate(batch, collate_fn_map=default_collate_fn_map)
