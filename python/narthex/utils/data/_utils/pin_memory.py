"""Batches in memory that accelerators copy from: containers with each tensor, and each object that can, pinned."""

from collections.abc import Mapping, MutableMapping, MutableSequence, Sequence
from copy import copy


def pin_memory(data, device=None):
    """`data` with what it holds pinned, in containers of the same kinds where these can be made; else dict or list."""
    if hasattr(data, "pin_memory"):
        return data.pin_memory()
    if isinstance(data, (str, bytes)):
        return data
    if isinstance(data, Mapping):
        pinned = {key: pin_memory(value, device) for key, value in data.items()}
        return _like(data, pinned, isinstance(data, MutableMapping), lambda made: made.update(pinned))
    if isinstance(data, tuple):
        members = [pin_memory(value, device) for value in data]
        return type(data)(*members) if hasattr(data, "_fields") else type(data)(members)
    if isinstance(data, Sequence):
        pinned = [pin_memory(value, device) for value in data]
        return _like(data, pinned, isinstance(data, MutableSequence), lambda made: _fill(made, pinned))
    return data


def _fill(made, members: list) -> None:
    for place, member in enumerate(members):
        made[place] = member


def _like(data, members, can_be_written: bool, write):
    """`members` in a container of data's kind, whose other attributes a copy keeps; `members` if none can be made."""
    try:
        if not can_be_written:
            return type(data)(members)
        made = copy(data)
        write(made)
        return made
    except TypeError:
        return members
