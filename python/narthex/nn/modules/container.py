"""Modules that hold other modules or parameters, and the one that does nothing."""

import warnings
from collections import OrderedDict
from collections.abc import Mapping
from operator import index as as_index

from ... import _C
from ..parameter import Parameter
from .module import Module


class Identity(Module):
    """Returns its input; any arguments of the constructor are ignored."""

    def __init__(self, *args, **kwargs) -> None:
        super().__init__()

    def forward(self, input):
        return input


def _position(index, size: int) -> int:
    if not isinstance(index, int):
        index = as_index(index)
    if not -size <= index < size:
        raise IndexError(f"index {index} is out of range")
    return index % size


class _Numbered(Module):
    """Submodules under the names "0", "1", ... in order."""

    def _key(self, index) -> str:
        return list(self._modules)[_position(index, len(self._modules))]

    def _refill(self, modules: list) -> None:
        """Holds `modules` from now on, numbered from 0."""
        self._modules.clear()
        for number, module in enumerate(modules):
            self.add_module(str(number), module)

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules.values())

    def __getitem__(self, idx):
        if isinstance(idx, slice):
            return self._part(list(self._modules.items())[idx])
        return self._modules[self._key(idx)]

    def __setitem__(self, idx, module: Module) -> None:
        setattr(self, self._key(idx), module)

    def __delitem__(self, index) -> None:
        held = list(self._modules.values())
        if isinstance(index, slice):
            del held[index]
        else:
            del held[_position(index, len(held))]
        self._refill(held)

    def append(self, module: Module):
        """Adds `module` at the end and returns self."""
        self.add_module(str(len(self)), module)
        return self

    def insert(self, index: int, module: Module):
        """Puts `module` before the one at `index`."""
        size = len(self)
        if not -size <= index <= size:
            raise IndexError(f"Index out of range: {index}")
        held = list(self._modules.values())
        held.insert(index, module)
        self._refill(held)
        return self

    def pop(self, key) -> Module:
        """Takes out and returns the module at `key`, or those of a slice."""
        module = self[key]
        del self[key]
        return module

    def __iadd__(self, other):
        return self.extend(other)


class Container(Module):
    """Submodules by keyword: an old way to write a module."""

    def __init__(self, **kwargs) -> None:
        super().__init__()
        warnings.warn(
            "`nn.Container` is deprecated. All of it's functionality is now implemented in `nn.Module`. Subclass that "
            "instead.",
            FutureWarning,
            stacklevel=2,
        )
        for name, module in kwargs.items():
            self.add_module(name, module)


class Sequential(_Numbered):
    """Calls its modules one after the other, each on what the one before returned."""

    def __init__(self, *args) -> None:
        super().__init__()
        named = args[0].items() if len(args) == 1 and isinstance(args[0], dict) else enumerate(args)
        for name, module in named:
            self.add_module(str(name), module)

    def extend(self, sequential):
        """Appends each module of `sequential` and returns self."""
        for module in list(sequential):
            self.append(module)
        return self

    def _part(self, items: list):
        return type(self)(dict(items))

    def forward(self, input):
        for module in self._modules.values():
            input = module(input)
        return input

    def __add__(self, other):
        if not isinstance(other, Sequential):
            raise ValueError(f"add operator supports only objects of Sequential class, but {type(other)} is given.")
        return Sequential(*self, *other)

    def __mul__(self, times: int):
        if not isinstance(times, int):
            raise TypeError(f"unsupported operand type(s) for *: {type(self)} and {type(times)}")
        if times <= 0:
            raise ValueError(f"Non-positive multiplication factor {times} for {type(self)}")
        return Sequential(*list(self) * times)

    __rmul__ = __mul__

    def __imul__(self, times: int):
        return self.extend(list(self * times)[len(self) :])


class ModuleList(_Numbered):
    """A list of registered modules; it is not called itself."""

    def __init__(self, modules=None) -> None:
        super().__init__()
        self.extend(modules or ())

    def extend(self, modules):
        """Appends each of `modules` and returns self."""
        for module in list(modules):
            self.append(module)
        return self

    def _part(self, items: list):
        return type(self)([module for _, module in items])

    def insert(self, index: int, module: Module) -> None:
        """Puts `module` before the one at `index`."""
        held = list(self._modules.values())
        held.insert(index, module)
        self._refill(held)

    def __add__(self, other):
        return ModuleList([*self, *other])

    def __repr__(self) -> str:
        """Equal neighbours share a line: "(0-2): 3 x ReLU()"."""
        runs = []
        for number, text in enumerate(map(repr, self)):
            if runs and runs[-1][2] == text:
                runs[-1][1] = number
            else:
                runs.append([number, number, text])
        lines = []
        for first, last, text in runs:
            head = f"({first}): " if first == last else f"({first}-{last}): {last - first + 1} x "
            lines.append("\n  " + head + text.replace("\n", "\n  "))
        return type(self).__name__ + "(" + "".join(lines) + ("\n)" if lines else ")")


class ModuleDict(Module):
    """A dict of registered modules in the order in which they came."""

    def __init__(self, modules=None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Module:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules)

    def __contains__(self, key: str) -> bool:
        return key in self._modules

    def clear(self) -> None:
        """Takes all modules out."""
        self._modules.clear()

    def pop(self, key: str) -> Module:
        """Takes out and returns the module under `key`."""
        return self._modules.pop(key)

    def keys(self):
        """The names."""
        return self._modules.keys()

    def values(self):
        """The modules."""
        return self._modules.values()

    def items(self):
        """(name, module) pairs."""
        return self._modules.items()

    def update(self, modules) -> None:
        """Adds the modules of a mapping or of (name, module) pairs."""
        if not hasattr(modules, "__iter__"):
            raise TypeError(
                "ModuleDict.update should be called with an iterable of key/value pairs, but got "
                + type(modules).__name__
            )
        for key, module in modules.items() if isinstance(modules, (Mapping, ModuleDict)) else modules:
            self[key] = module


def _described(value, as_type: bool = False) -> str:
    if not isinstance(value, _C.TensorBase):
        return f"Object of type: {type(value).__name__}"
    kind = "Parameter" if isinstance(value, Parameter) else "Tensor"
    size = "x".join(map(str, value.shape))
    place = "" if value.device.type == "cpu" else f" ({value.device})"
    return f"{kind} containing: [{value.type() if as_type else value.dtype} of size {size}{place}]"


def _as_parameter(value):
    return Parameter(value) if isinstance(value, _C.TensorBase) and not isinstance(value, Parameter) else value


class ParameterList(Module):
    """A list whose tensors are registered parameters; other values are kept as they are."""

    def __init__(self, values=None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self += values

    def __len__(self) -> int:
        return self._size

    def __iter__(self):
        return iter([self[index] for index in range(len(self))])

    def __getitem__(self, idx):
        if isinstance(idx, slice):
            return type(self)([self[at] for at in range(*idx.indices(len(self)))])
        return getattr(self, str(_position(idx, len(self))))

    def __setitem__(self, idx, param) -> None:
        setattr(self, str(_position(idx, len(self))), _as_parameter(param))

    def append(self, value):
        """Adds `value` at the end and returns self."""
        self._size += 1
        self[self._size - 1] = value
        return self

    def extend(self, values):
        """Appends each of `values` and returns self."""
        if not hasattr(values, "__iter__") or isinstance(values, _C.TensorBase):
            raise TypeError(f"ParameterList.extend should be called with an iterable, but got {type(values).__name__}")
        for value in list(values):
            self.append(value)
        return self

    def __iadd__(self, other):
        return self.extend(other)

    def extra_repr(self) -> str:
        """A line for each value."""
        return "\n".join(f"  ({number}): {_described(value)}" for number, value in enumerate(self))

    def __call__(self, *args, **kwargs):
        raise RuntimeError("ParameterList should not be called.")


class ParameterDict(Module):
    """A dict whose tensors are registered parameters; other values are kept as they are."""

    def __init__(self, parameters=None) -> None:
        super().__init__()
        self._keys = {}
        if parameters is not None:
            self.update(parameters)

    def __getitem__(self, key: str):
        if str(key) not in self._keys:
            raise KeyError(key)
        return getattr(self, str(key))

    def __setitem__(self, key: str, value) -> None:
        self._keys[str(key)] = None
        setattr(self, str(key), _as_parameter(value))

    def __delitem__(self, key: str) -> None:
        del self._keys[str(key)]
        delattr(self, str(key))

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self):
        return iter(self._keys)

    def __contains__(self, key: str) -> bool:
        return key in self._keys

    def keys(self):
        """The names."""
        return self._keys.keys()

    def values(self):
        """The values."""
        return (self[key] for key in self._keys)

    def items(self):
        """(name, value) pairs."""
        return ((key, self[key]) for key in self._keys)

    def get(self, key: str, default=None):
        """The value under `key`, or `default`."""
        return self[key] if key in self._keys else default

    def pop(self, key: str):
        """Takes out and returns the value under `key`."""
        value = self[key]
        del self[key]
        return value

    def popitem(self):
        """Takes out and returns the last (name, value)."""
        key, _ = self._keys.popitem()
        self._keys[key] = None
        return key, self.pop(key)

    def setdefault(self, key: str, default=None):
        """The value under `key`; where there is none, `default` is put there."""
        if key not in self:
            self[key] = default
        return self[key]

    def copy(self):
        """Another one with the same values, in the same order."""
        return ParameterDict(OrderedDict((key, self[key]) for key in self._keys))

    def fromkeys(self, keys, default=None):
        """A new one with `default` under each of `keys`."""
        return ParameterDict((key, default) for key in keys)

    def clear(self) -> None:
        """Takes all values out."""
        for key in list(self._keys):
            del self[key]

    def update(self, parameters) -> None:
        """Adds the values of a mapping or of (name, value) pairs; those of a plain dict by name, as in PyTorch."""
        if isinstance(parameters, (OrderedDict, ParameterDict)):
            parameters = parameters.items()
        elif isinstance(parameters, Mapping):
            parameters = sorted(parameters.items())
        for key, value in parameters:
            self[key] = value

    def extra_repr(self) -> str:
        """A line for each value."""
        return "\n".join(f"  ({key}): {_described(value, True)}" for key, value in self.items())

    def __call__(self, input):
        raise RuntimeError("ParameterDict should not be called.")
