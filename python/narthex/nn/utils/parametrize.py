"""Parametrizations: a parameter or buffer that is computed by modules, from originals, whenever it is read.

A parametrized module has a class of its own, below the one that it had, with a property in the tensor's place; the
modules and the originals stand in `module.parametrizations[name]`.
"""

import copyreg
from collections.abc import Sequence
from contextlib import contextmanager
from copy import deepcopy

from ... import _C
from ...autograd.grad_mode import no_grad
from ..modules.container import ModuleDict, ModuleList
from ..modules.module import Module
from ..parameter import Parameter

__all__ = [
    "ParametrizationList", "cached", "is_parametrized", "register_parametrization", "remove_parametrizations",
    "transfer_parametrizations_and_params", "type_before_parametrizations",
]  # fmt: skip

_depth = 0  # of blocks of cached()
_kept: dict = {}  # inside of them, by module and name


@contextmanager
def cached():
    """Inside, each parametrized tensor is computed when it is first read, and kept until the outermost block ends."""
    global _depth
    _depth += 1
    try:
        yield
    finally:
        _depth -= 1
        if not _depth:
            _kept.clear()


def _register(module: Module, name: str, tensor) -> None:
    if isinstance(tensor, Parameter):
        module.register_parameter(name, tensor)
    else:
        module.register_buffer(name, tensor)


def _set(place, tensor) -> None:
    """Lets `place`, which stays the same object, be `tensor`."""
    if place.data_ptr() != tensor.data_ptr() or place.shape != tensor.shape or place.stride() != tensor.stride():
        place.data = tensor.detach()


def _is_tensor(value) -> bool:
    return isinstance(value, _C.TensorBase)


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor. It holds what they start from: `original`, or `original0`, `original1`, ...
    where the right_inverse of the first one gives several tensors."""

    def __init__(self, modules, original, unsafe: bool = False) -> None:
        if len(modules) == 0:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        shape, dtype, new = original.shape, original.dtype, original
        with no_grad():
            for module in reversed(list(self)):
                if hasattr(module, "right_inverse"):
                    try:
                        new = module.right_inverse(new)
                    except NotImplementedError:
                        pass
        if not _is_tensor(new) and not isinstance(new, Sequence):
            raise ValueError(
                "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                f"Got {type(new).__name__}"
            )
        self.is_tensor = _is_tensor(new)
        self.ntensors = 1 if self.is_tensor else len(new)
        if self.is_tensor:
            self._keep_one(original, new)
        else:
            self._keep_several(original, new)
        if not unsafe:
            self._check(shape, dtype)

    def _keep_one(self, original, new) -> None:
        for what in ("dtype", "device"):
            if getattr(original, what) != getattr(new, what):
                raise ValueError(
                    f"When `right_inverse` outputs one tensor, it may not change the {what}.\n"
                    f"original.{what}: {getattr(original, what)}\n"
                    f"right_inverse(original).{what}: {getattr(new, what)}"
                )
        with no_grad():
            _set(original, new)
        _register(self, "original", original)

    def _keep_several(self, original, new) -> None:
        for k, tensor in enumerate(new):
            if not _is_tensor(tensor):
                raise ValueError(
                    "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                    f"Got element {k} of the sequence with type {type(tensor).__name__}."
                )
            if isinstance(original, Parameter):
                tensor = Parameter(tensor, original.requires_grad)
            _register(self, f"original{k}", tensor.requires_grad_(original.requires_grad))

    def _check(self, shape, dtype) -> None:
        made = self()
        if not _is_tensor(made):
            raise ValueError(f"A parametrization must return a tensor. Got {type(made).__name__}.")
        for what, before, now in (("dtype", dtype, made.dtype), ("shape", shape, made.shape)):
            if before != now:
                raise ValueError(
                    f"Registering a parametrization may not change the {what} of the tensor, unless `unsafe` flag is "
                    f"enabled.\nunparametrized {what}: {before}\nparametrized {what}: {now}"
                )

    def right_inverse(self, value) -> None:
        """Gives the originals the values from which the parametrizations make `value`."""
        with no_grad():
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(f"parametrization {type(module).__name__} does not implement right_inverse.")
                value = module.right_inverse(value)
            if not self.is_tensor:
                self._take_several(value)
                return
            if not _is_tensor(value):
                raise ValueError(f"`right_inverse` should return a tensor. Got {type(value).__name__}")
            if value.dtype != self.original.dtype:
                raise ValueError(
                    f"The tensor returned by `right_inverse` has dtype {value.dtype} "
                    f"while `original` has dtype {self.original.dtype}"
                )
            _set(self.original, value)

    def _take_several(self, values) -> None:
        if not isinstance(values, Sequence):
            raise ValueError(f"'right_inverse' must return a sequence of tensors. Got {type(values).__name__}.")
        if len(values) != self.ntensors:
            raise ValueError(
                f"'right_inverse' must return a sequence of tensors of length {self.ntensors}. "
                f"Got a sequence of length {len(values)}."
            )
        for k, value in enumerate(values):
            place = getattr(self, f"original{k}")
            if not _is_tensor(value):
                raise ValueError(
                    "'right_inverse' must return a sequence of tensors or reference-type opaques. "
                    f"Got element {k} of type {type(value).__name__}."
                )
            if place.dtype != value.dtype:
                raise ValueError(
                    f"Tensor {k} returned by `right_inverse` has dtype {value.dtype} "
                    f"while `original{k}` has dtype {place.dtype}"
                )
            _set(place, value)

    def forward(self):
        first, *others = self._modules.values()  # modules are all that a ModuleList holds here
        if self.is_tensor:
            value = first(self.original)
        else:
            value = first(*(getattr(self, f"original{k}") for k in range(self.ntensors)))
        for module in others:
            value = module(value)
        return value


def _copy(self, memo):
    """A deepcopy of a parametrized module: its class refuses to be pickled, which is how one is made otherwise."""
    if id(self) in memo:
        return memo[id(self)]
    new = memo[id(self)] = self.__new__(type(self))
    new.__dict__ = deepcopy(self.__dict__, memo)
    for slot in copyreg._slotnames(type(self)):
        if hasattr(self, slot):
            setattr(new, slot, deepcopy(getattr(self, slot), memo))
    return new


def _no_state(self):
    raise RuntimeError(
        "Serialization of parametrized modules is only supported through state_dict(). See:\n"
        "https://pytorch.org/tutorials/beginner/saving_loading_models.html"
        "#saving-loading-a-general-checkpoint-for-inference-and-or-resuming-training"
    )


def _own_class(module: Module) -> None:
    before = type(module)
    members = {"__getstate__": _no_state}
    if not hasattr(before, "__deepcopy__"):
        members["__deepcopy__"] = _copy
    module.__class__ = type(f"Parametrized{before.__name__}", (before,), members)


def _own_property(module: Module, name: str) -> None:
    def get(self):
        parametrization = self.parametrizations[name]
        if not _depth:
            return parametrization()
        key = (id(self), name)
        if key not in _kept:
            _kept[key] = parametrization()
        return _kept[key]

    def put(self, value) -> None:
        self.parametrizations[name].right_inverse(value)

    setattr(type(module), name, property(get, put))


def _check_next(module: Module, name: str, parametrization) -> None:
    """One more parametrization of a tensor must map such tensors to such tensors."""
    before = getattr(module, name)
    after = parametrization(before)
    if not _is_tensor(after):
        raise ValueError(f"A parametrization must return a tensor. Got {type(after).__name__}.")
    for what in ("dtype", "shape"):
        if getattr(after, what) != getattr(before, what):
            raise ValueError(
                f"Registering a parametrization may not change the {what} of the tensor, unless the `unsafe` flag is "
                f"enabled.\nmodule.{name}.{what}: {getattr(before, what)}\n"
                f"parametrization(module.{name}).{what}: {getattr(after, what)}"
            )
    if not hasattr(parametrization, "right_inverse"):
        return
    try:
        back = parametrization.right_inverse(after)
    except NotImplementedError:
        return
    if not _is_tensor(back):
        raise ValueError(f"parametrization.right_inverse must return a tensor. Got: {type(back).__name__}")
    for what in ("dtype", "shape"):
        if getattr(back, what) != getattr(before, what):
            raise ValueError(
                f"The tensor returned by parametrization.right_inverse must have the same {what} as module.{name}, "
                f"unless the `unsafe` flag is enabled.\nmodule.{name}.{what}: {getattr(before, what)}\n"
                f"returned {what}: {getattr(back, what)}"
            )


def register_parametrization(module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False):
    """`module.<tensor_name>` becomes parametrization(original), over those that are registered; returns the module.

    A `right_inverse` of the parametrization says which original gives a tensor; without it the original is the tensor
    itself. Shape and dtype must stay, which is tried out, unless `unsafe`.
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        if not unsafe:
            _check_next(module, tensor_name, parametrization)
        module.parametrizations[tensor_name].append(parametrization)
        module.parametrizations[tensor_name].unsafe |= unsafe
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        made = ParametrizationList([parametrization], getattr(module, tensor_name), unsafe=unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            _own_class(module)
            module.parametrizations = ModuleDict()
        _own_property(module, tensor_name)
        module.parametrizations[tensor_name] = made
    else:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element with name "
            f"'{tensor_name}'"
        )
    return module


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether the tensor of that name, or any, is parametrized."""
    lists = getattr(module, "parametrizations", None)
    if not isinstance(lists, ModuleDict):
        return False
    return len(lists) > 0 if tensor_name is None else tensor_name in lists


def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True):
    """Makes `module.<tensor_name>` an ordinary tensor again: as it reads now, or (of one original) that original."""
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    made = module.parametrizations[tensor_name]
    if made.is_tensor:
        original = made.original
        if leave_parametrized:
            with no_grad():
                _set(original, getattr(module, tensor_name))
    elif leave_parametrized:
        value = getattr(module, tensor_name)
        original = Parameter(value) if value.requires_grad else value
    else:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor "
            "that is parametrized in terms of a sequence of tensors."
        )
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    _register(module, tensor_name, original)
    if not is_parametrized(module):
        del module.parametrizations
        module.__class__ = type(module).__bases__[0]
    return module


def type_before_parametrizations(module: Module) -> type:
    """The class that the module had before it was parametrized, or has."""
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(from_module: Module, to_module: Module, tensor_name: str | None = None):
    """Parametrizes `to_module` by the parametrizations of `from_module` (all, or those of one tensor) with their
    originals; returns it."""
    if not is_parametrized(from_module):
        return to_module
    for name in from_module.parametrizations if tensor_name is None else [tensor_name]:
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name)))
        source = from_module.parametrizations[name]
        for parametrization in source:
            register_parametrization(to_module, name, parametrization)
        made = to_module.parametrizations[name]
        for original in ["original"] if source.is_tensor else [f"original{k}" for k in range(source.ntensors)]:
            setattr(made, original, getattr(source, original))
    return to_module
