"""torch.utils.weak: references and dictionaries that keep nothing alive and tell objects apart by which they are."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping, MutableMapping
from weakref import ref

__all__ = ["TensorWeakRef", "WeakIdKeyDictionary", "WeakIdRef", "WeakTensorKeyDictionary", "WeakTensorRefKey"]


class WeakIdRef(weakref.ref):
    """A weak reference that is a key: equal to another one of the same object, and after its end to itself alone."""

    __slots__ = ("_id",)

    def __init__(self, key, callback=None) -> None:
        super().__init__(key, callback)
        self._id = id(key)

    def __hash__(self) -> int:
        return self._id

    def __eq__(self, other) -> bool:
        mine, theirs = self(), other() if isinstance(other, weakref.ref) else None
        return self is other if mine is None or theirs is None else mine is theirs

    def __ne__(self, other) -> bool:
        return not self == other


class WeakIdKeyDictionary(MutableMapping):
    """Values of objects, as long as these live; the objects need no hash and are not compared."""

    def __init__(self, dict=None, ref_type=WeakIdRef) -> None:  # noqa: A002
        self.ref_type, self.data = ref_type, {}
        own = ref(self)

        def drop(key) -> None:
            of = own()
            if of is not None:
                of.data.pop(key, None)

        self._drop = drop
        if dict is not None:
            self.update(dict)

    def __getitem__(self, key):
        return self.data[self.ref_type(key)]

    def __setitem__(self, key, value) -> None:
        self.data[self.ref_type(key, self._drop)] = value

    def __delitem__(self, key) -> None:
        del self.data[self.ref_type(key)]

    def __contains__(self, key) -> bool:
        try:
            return self.ref_type(key) in self.data
        except TypeError:  # of what no weak reference can be
            return False

    def __iter__(self) -> Iterator:
        for reference in list(self.data):
            key = reference()
            if key is not None:
                yield key

    def __len__(self) -> int:
        return sum(reference() is not None for reference in list(self.data))

    def __bool__(self) -> bool:
        return len(self) > 0

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {id(self):#x}>"

    def keyrefs(self) -> list:
        """The weak references themselves."""
        return list(self.data)

    def copy(self) -> WeakIdKeyDictionary:
        """Another one of the same objects and values."""
        new = WeakIdKeyDictionary(ref_type=self.ref_type)
        new.update(self)
        return new

    __copy__ = copy

    def __deepcopy__(self, memo):
        from copy import deepcopy

        new = type(self)()
        for key, value in self.items():
            new[key] = deepcopy(value, memo)
        return new

    def __or__(self, other):
        if not isinstance(other, Mapping):
            return NotImplemented
        new = self.copy()
        new.update(other)
        return new

    def __ior__(self, other) -> WeakIdKeyDictionary:
        self.update(other)
        return self

    def __ror__(self, other):
        if not isinstance(other, Mapping):
            return NotImplemented
        new = type(self)()
        new.update(other)
        new.update(self)
        return new

    def __eq__(self, other) -> bool:
        if not isinstance(other, Mapping):
            return NotImplemented
        return {id(k): v for k, v in self.items()} == {id(k): v for k, v in other.items()}

    __hash__ = None


WeakTensorRefKey, WeakTensorKeyDictionary = WeakIdRef, WeakIdKeyDictionary


class TensorWeakRef:
    """A weak reference to a tensor."""

    def __init__(self, tensor) -> None:
        from .. import Tensor

        if not isinstance(tensor, Tensor):
            raise AssertionError(f"expected torch.Tensor, got {type(tensor)}")
        self.ref = weakref.ref(tensor)

    def __call__(self):
        return self.ref()
