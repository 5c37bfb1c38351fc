"""torch.nn.utils._named_member_accessor: tensors of a module by dotted names, read, set and swapped past the checks of
attributes, for packages that run a module with other parameters for a while."""

from __future__ import annotations

from ... import _C
from ..modules.module import Module

_MISSING = object()


def _check_module(module) -> None:
    if not isinstance(module, Module):
        raise TypeError(f"{module} is not an instance of torch.nn.Module")


def _check_name(name: str, what: str = "tensor") -> None:
    if "." in name:
        raise KeyError(f'{what} name can\'t contain "."')
    if name == "":
        raise KeyError(f'{what} name can\'t be empty string ""')


def _place(module, name: str):
    """Where a module keeps what is called so: its parameters, its buffers or its attributes."""
    if name in module._parameters:
        return module._parameters
    return module._buffers if name in module._buffers else vars(module)


def set_tensor(module, name: str, tensor) -> None:
    """Puts `tensor`, or None, where the module keeps what is called `name`."""
    _check_module(module)
    if not (tensor is None or isinstance(tensor, _C.TensorBase)):
        raise TypeError(f"{tensor} is not an instance of torch.Tensor")
    _check_name(name)
    _place(module, name)[name] = tensor


def swap_tensor(module, name: str, tensor, allow_missing: bool = False):
    """Puts `tensor` where the module keeps what is called `name`, and returns what was there. A marker that an earlier
    swap with `allow_missing` returned takes the attribute away again."""
    _check_module(module)
    if not (tensor is _MISSING or tensor is None or isinstance(tensor, _C.TensorBase)):
        raise TypeError(f"{tensor} is not an instance of torch.Tensor")
    _check_name(name)
    place = _place(module, name)
    before = place.get(name, _MISSING)
    if before is _MISSING and not allow_missing:
        raise AttributeError(f"{type(module).__name__} has no attribute `{name}`")
    if not (before is _MISSING or before is None or isinstance(before, _C.TensorBase)):
        raise TypeError(f"attribute `{name}`: {before} is not an instance of torch.Tensor")
    if tensor is _MISSING:
        place.pop(name, None)
    else:
        place[name] = tensor
    return before


def swap_submodule(module, name: str, submodule):
    """Puts `submodule` in the place of the one that is called `name`, and returns that."""
    for each in (module, submodule):
        _check_module(each)
    _check_name(name, "submodule")
    before = module._modules.get(name, _MISSING)
    if before is _MISSING:
        raise AttributeError(f"{type(module).__name__} has no attribute `{name}`")
    module._modules[name] = submodule
    return before


class NamedMemberAccessor:
    """The tensors of a module and of those inside of it, by dotted names."""

    def __init__(self, module) -> None:
        self.module = module
        self.memo = {"": module}

    def get_submodule(self, name: str):
        """The module of that name, remembered."""
        if name not in self.memo:
            outer, _, last = name.rpartition(".")
            inner = getattr(self.get_submodule(outer), last, None)
            if inner is None:
                raise AttributeError(f"{type(self.get_submodule(outer)).__name__} has no attribute `{last}`")
            _check_module(inner)
            self.memo[name] = inner
        return self.memo[name]

    def _split(self, name: str) -> tuple:
        outer, _, last = name.rpartition(".")
        return self.get_submodule(outer), last

    def swap_submodule(self, path: str, value):
        """swap_submodule by a dotted name; what was remembered below it is forgotten."""
        module, name = self._split(path)
        self.memo = {key: each for key, each in self.memo.items() if key != path and not key.startswith(path + ".")}
        return swap_submodule(module, name, value)

    def get_tensor(self, name: str):
        """The tensor of that name."""
        module, last = self._split(name)
        tensor = getattr(module, last, _MISSING)
        if tensor is _MISSING:
            raise AttributeError(f"{type(module).__name__} has no attribute `{name}`")
        if not (tensor is None or isinstance(tensor, _C.TensorBase)):
            raise TypeError(f"{tensor} is not an instance of torch.Tensor")
        return tensor

    def set_tensor(self, name: str, value) -> None:
        """set_tensor by a dotted name."""
        module, last = self._split(name)
        set_tensor(module, last, value)

    def del_tensor(self, name: str) -> None:
        """Takes the tensor of that name away."""
        module, last = self._split(name)
        self.get_tensor(name)
        del _place(module, last)[last]

    def swap_tensor(self, name: str, value, allow_missing: bool = False):
        """swap_tensor by a dotted name."""
        module, last = self._split(name)
        return swap_tensor(module, last, value, allow_missing)

    def get_tensors(self, names) -> list:
        """get_tensor of each name."""
        return [self.get_tensor(name) for name in names]

    def set_tensors(self, names, values) -> None:
        """set_tensor of each name and value."""
        for name, value in zip(names, values, strict=True):
            self.set_tensor(name, value)

    def set_tensors_dict(self, named_tensors) -> None:
        """set_tensor of each pair."""
        for name, value in named_tensors.items():
            self.set_tensor(name, value)

    def del_tensors(self, names) -> None:
        """del_tensor of each name."""
        for name in names:
            self.del_tensor(name)

    def swap_tensors(self, names, values, allow_missing: bool = False) -> list:
        """swap_tensor of each name and value: what was there."""
        return [self.swap_tensor(name, value, allow_missing) for name, value in zip(names, values, strict=True)]

    def swap_tensors_dict(self, named_tensors, allow_missing: bool = False) -> tuple:
        """(what was there by name, the names that were not). Where one fails, those before it are put back."""
        before, missing = {}, []
        try:
            for name, tensor in named_tensors.items():
                before[name] = self.swap_tensor(name, tensor, allow_missing=True)
                if before[name] is _MISSING:
                    missing.append(name)
            if missing and not allow_missing:
                raise RuntimeError(f"Missing key(s): {', '.join(map(repr, missing))}.")
        except Exception:
            for name, tensor in before.items():
                self.swap_tensor(name, tensor, allow_missing=True)
            raise
        return before, missing

    def check_keys(self, keys) -> tuple:
        """(names of tensors that `keys` lacks, keys that are no names)."""
        names, keys = {name for name, _ in self.named_tensors(remove_duplicate=False)}, set(keys)
        return sorted(names - keys), sorted(keys - names)

    def named_parameters(self, remove_duplicate: bool = True):
        """The module's."""
        yield from self.module.named_parameters(remove_duplicate=remove_duplicate)

    def named_buffers(self, remove_duplicate: bool = True):
        """The module's."""
        yield from self.module.named_buffers(remove_duplicate=remove_duplicate)

    def named_tensors(self, remove_duplicate: bool = True):
        """Parameters, then buffers."""
        yield from self.named_parameters(remove_duplicate)
        yield from self.named_buffers(remove_duplicate)

    def named_modules(self, remove_duplicate: bool = True):
        """The module's."""
        yield from self.module.named_modules(remove_duplicate=remove_duplicate)
