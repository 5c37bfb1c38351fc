"""Pruning: a parameter whose least important elements are 0. A mask stands beside it, and a hook before each forward
makes `name` = `name`_orig * `name`_mask."""

import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterable

from ... import _C
from ..._own_init import own_init
from .convert_parameters import parameters_to_vector

__all__ = [
    "BasePruningMethod", "CustomFromMask", "Identity", "L1Unstructured", "LnStructured", "PruningContainer",
    "RandomStructured", "RandomUnstructured", "custom_from_mask", "global_unstructured", "identity", "is_pruned",
    "l1_unstructured", "ln_structured", "random_structured", "random_unstructured", "remove",
]  # fmt: skip


def _scores(given, tensor, what: str):
    """The importance of the elements: `given`, or the elements themselves."""
    if given is None:
        return tensor
    if given.shape != tensor.shape:
        raise AssertionError(
            f"importance_scores should have the same shape as {what}, got {given.shape} vs {tensor.shape}"
        )
    return given


class BasePruningMethod(ABC):
    """A hook that prunes one tensor of a module. A subclass says its PRUNING_TYPE ("unstructured", "structured",
    "global") and computes a mask."""

    _tensor_name: str

    def __call__(self, module, inputs) -> None:
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t, default_mask):
        """The mask for importances `t` on top of `default_mask`."""

    def apply_mask(self, module):
        """The tensor, pruned."""
        if self._tensor_name is None:
            raise AssertionError(f"Module {module} has to be pruned")
        mask, original = (getattr(module, self._tensor_name + part) for part in ("_mask", "_orig"))
        return mask.to(dtype=original.dtype) * original

    @classmethod
    def _over_others(cls, module, name: str, *args, **kwargs) -> "BasePruningMethod":
        """A new method for the tensor; one that prunes it already leaves the module, and both go into a container."""
        keys = [
            key
            for key, hook in module._forward_pre_hooks.items()
            if isinstance(hook, BasePruningMethod) and hook._tensor_name == name
        ]
        if len(keys) > 1:
            raise AssertionError(
                f"Avoid adding multiple pruning hooks to the same tensor {name} of module {module}. "
                "Use a PruningContainer."
            )
        before = module._forward_pre_hooks.pop(keys[0]) if keys else None
        method = cls(*args, **kwargs)
        method._tensor_name = name
        if before is None:
            return method
        container = before if isinstance(before, PruningContainer) else PruningContainer(before)
        container.add_pruning_method(method)
        return container

    @classmethod
    def apply(cls, module, name: str, *args, importance_scores=None, **kwargs) -> "BasePruningMethod":
        """Prunes the tensor `name` of `module`, which may be pruned already; returns the hook."""
        method = cls._over_others(module, name, *args, **kwargs)
        original = getattr(module, name)
        scores = _scores(importance_scores, original, f"parameter {name} of {module}")
        first = not isinstance(method, PruningContainer)
        if first:
            module.register_parameter(name + "_orig", original)
            del module._parameters[name]
            mask = _C.ones_like(original)
        else:
            mask = getattr(module, name + "_mask").detach().clone(memory_format=_C.contiguous_format)
        try:
            module.register_buffer(name + "_mask", method.compute_mask(scores, default_mask=mask))
            setattr(module, name, method.apply_mask(module))
            module.register_forward_pre_hook(method)
        except Exception:
            if first:
                module.register_parameter(name, getattr(module, name + "_orig"))
                del module._parameters[name + "_orig"]
            raise
        return method

    def prune(self, t, default_mask=None, importance_scores=None):
        """`t`, pruned, without a module."""
        scores = _scores(importance_scores, t, "tensor t")
        return t * self.compute_mask(scores, default_mask=_C.ones_like(t) if default_mask is None else default_mask)

    def remove(self, module) -> None:
        """The tensor as it is becomes the parameter again."""
        if self._tensor_name is None:
            raise AssertionError(f"Module {module} has to be pruned before pruning can be removed")
        name, weight = self._tensor_name, self.apply_mask(module)
        if hasattr(module, name):
            delattr(module, name)
        original = module._parameters.pop(name + "_orig")
        original.data = weight.data
        del module._buffers[name + "_mask"]
        setattr(module, name, original)


class PruningContainer(BasePruningMethod):
    """Several methods for one tensor: each prunes what those before it have left."""

    def __init__(self, *args) -> None:
        self._pruning_methods: tuple = ()
        if len(args) == 1:
            self._tensor_name = args[0]._tensor_name
        for method in args:
            self.add_pruning_method(method)

    def add_pruning_method(self, method) -> None:
        """One more."""
        if method is not None and not isinstance(method, BasePruningMethod):
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if method is not None and self._tensor_name != method._tensor_name:
            raise ValueError(
                f"Can only add pruning methods acting on the parameter named '{self._tensor_name}' to "
                f"PruningContainer {self}. Found '{method._tensor_name}'"
            )
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self):
        return iter(self._pruning_methods)

    def __getitem__(self, idx):
        return self._pruning_methods[idx]

    @staticmethod
    def _left(method, t, mask):
        """An index of what earlier methods have left."""
        n_dims = t.dim()
        if method.PRUNING_TYPE == "unstructured":
            return mask == 1
        if method.PRUNING_TYPE not in ("structured", "global"):
            raise ValueError(f"Unrecognized PRUNING_TYPE {method.PRUNING_TYPE}")
        index = [slice(None)] * n_dims
        if method.PRUNING_TYPE == "structured":
            if not hasattr(method, "dim"):
                raise AttributeError(
                    'Pruning methods of PRUNING_TYPE "structured" need to have the attribute `dim` defined.'
                )
            dim = method.dim + n_dims if method.dim < 0 else method.dim
            if dim < 0:
                raise IndexError(f"Index is out of bounds for tensor with dimensions {n_dims}")
            index[dim] = mask.sum(dim=[d for d in range(n_dims) if d != dim]) != 0
        return tuple(index)

    def compute_mask(self, t, default_mask):
        """The mask of the last method on top of those before."""
        method = self._pruning_methods[-1]
        index, mask = self._left(method, t, default_mask), default_mask.to(dtype=t.dtype)
        mask[index] = method.compute_mask(t[index], default_mask=default_mask[index]).to(dtype=mask.dtype)
        return mask


class Identity(BasePruningMethod):
    """Prunes nothing, so that what is pruned and what is not look alike."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t, default_mask):
        """The mask that was there."""
        return default_mask

    @classmethod
    def apply(cls, module, name: str):
        """See BasePruningMethod."""
        return super().apply(module, name)


class _ByAmount(BasePruningMethod):
    """Prunes `amount` units: so many, or such a part of all."""

    def __init__(self, amount) -> None:
        if not isinstance(amount, numbers.Real):
            raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
        if amount < 0 or (not isinstance(amount, numbers.Integral) and amount > 1.0):
            raise ValueError(f"amount={amount} should either be a float in the range [0, 1] or a non-negative integer")
        self.amount = amount

    def _count(self, n: int) -> int:
        """How many of `n`."""
        if not isinstance(self.amount, numbers.Integral):
            return round(self.amount * n)
        if self.amount > n:
            raise ValueError(f"amount={self.amount} should be smaller than the number of parameters to prune={n}")
        return self.amount


class _Unstructured(_ByAmount):
    """Prunes single elements."""

    PRUNING_TYPE = "unstructured"

    def _first(self, t, n: int):
        """The positions of `n` elements."""
        raise NotImplementedError

    def compute_mask(self, t, default_mask):
        """0 at the elements that go."""
        n = self._count(t.numel())
        mask = default_mask.clone(memory_format=_C.contiguous_format)
        if n != 0:
            mask.view(-1)[self._first(t, n)] = 0
        return mask


class RandomUnstructured(_Unstructured):
    """Prunes elements at random."""

    def _first(self, t, n: int):
        return _C.rand_like(t).view(-1).topk(n).indices

    @classmethod
    def apply(cls, module, name: str, amount):
        """See BasePruningMethod."""
        return super().apply(module, name, amount=amount)


class L1Unstructured(_Unstructured):
    """Prunes the elements that are nearest to 0."""

    def _first(self, t, n: int):
        return t.abs().view(-1).topk(n, largest=False).indices

    @classmethod
    def apply(cls, module, name: str, amount, importance_scores=None):
        """See BasePruningMethod."""
        return super().apply(module, name, amount=amount, importance_scores=importance_scores)


own_init(RandomUnstructured, L1Unstructured)


class _Structured(_ByAmount):
    """Prunes whole channels along `dim`."""

    PRUNING_TYPE = "structured"

    def _kept(self, t, n: int):
        """An index of the channels that stay when `n` go."""
        raise NotImplementedError

    def compute_mask(self, t, default_mask):
        """0 in the channels that go."""
        if t.dim() <= 1:
            raise ValueError(
                "Structured pruning can only be applied to multidimensional tensors. Found tensor of shape "
                f"{t.shape} with {t.dim()} dims"
            )
        if self.dim >= t.dim():
            raise IndexError(f"Invalid index {self.dim} for tensor of size {t.shape}")
        n = self._count(t.shape[self.dim])
        if n == 0:
            return default_mask
        mask, index = _C.zeros_like(t), [slice(None)] * t.dim()
        index[self.dim] = self._kept(t, n)
        mask[tuple(index)] = 1
        return mask * default_mask.to(dtype=mask.dtype)


class RandomStructured(_Structured):
    """Prunes channels at random."""

    def __init__(self, amount, dim: int = -1) -> None:
        super().__init__(amount)
        self.dim = dim

    def _kept(self, t, n: int):
        drawn = _C.rand(t.shape[self.dim])
        return drawn > _C.kthvalue(drawn, n).values

    @classmethod
    def apply(cls, module, name: str, amount, dim: int = -1):
        """See BasePruningMethod."""
        return super().apply(module, name, amount=amount, dim=dim)


class LnStructured(_Structured):
    """Prunes the channels whose norm number `n` is least."""

    def __init__(self, amount, n, dim: int = -1) -> None:
        super().__init__(amount)
        self.n, self.dim = n, dim

    def _kept(self, t, n: int):
        others = list(range(t.dim()))
        others.remove(others[self.dim])
        return t.norm(p=self.n, dim=others).topk(t.shape[self.dim] - n).indices

    @classmethod
    def apply(cls, module, name: str, amount, n, dim: int, importance_scores=None):
        """See BasePruningMethod."""
        return super().apply(module, name, amount=amount, n=n, dim=dim, importance_scores=importance_scores)


class CustomFromMask(BasePruningMethod):
    """Prunes where a mask is 0."""

    PRUNING_TYPE = "global"

    def __init__(self, mask) -> None:
        self.mask = mask

    def compute_mask(self, t, default_mask):
        """Both masks."""
        if default_mask.shape != self.mask.shape:
            raise AssertionError(
                f"default_mask shape {default_mask.shape} must match self.mask shape {self.mask.shape}"
            )
        return default_mask * self.mask.to(dtype=default_mask.dtype)

    @classmethod
    def apply(cls, module, name: str, mask):
        """See BasePruningMethod."""
        return super().apply(module, name, mask=mask)


def identity(module, name: str):
    """Gives the tensor a mask of ones; returns the module."""
    Identity.apply(module, name)
    return module


def random_unstructured(module, name: str, amount):
    """Prunes elements at random; returns the module."""
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module, name: str, amount, importance_scores=None):
    """Prunes the elements that are nearest to 0; returns the module."""
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def random_structured(module, name: str, amount, dim: int):
    """Prunes channels at random; returns the module."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(module, name: str, amount, n, dim: int, importance_scores=None):
    """Prunes the channels with the least norms; returns the module."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module, name: str, mask):
    """Prunes where `mask` is 0; returns the module."""
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(parameters, pruning_method, importance_scores=None, **kwargs) -> None:
    """Prunes the tensors (module, name) of `parameters` by one unstructured method, as if they were one tensor."""
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured(): parameters is not an Iterable")
    given = {} if importance_scores is None else importance_scores
    if not isinstance(given, dict):
        raise TypeError("global_unstructured(): importance_scores must be of type dict")
    parameters = list(parameters)
    tensors = [getattr(module, name) for module, name in parameters]
    scores = [given.get(place, tensor) for place, tensor in zip(parameters, tensors)]
    masks = [getattr(module, name + "_mask", None) for module, name in parameters]
    masks = [_C.ones_like(tensor) if mask is None else mask for mask, tensor in zip(masks, tensors)]
    container, method = PruningContainer(), pruning_method(**kwargs)
    container._tensor_name = method._tensor_name = "temp"
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            'Only "unstructured" PRUNING_TYPE supported for '
            f"the `pruning_method`. Found method {pruning_method} of type {method.PRUNING_TYPE}"
        )
    container.add_pruning_method(method)
    whole, at = container.compute_mask(parameters_to_vector(scores), parameters_to_vector(masks)), 0
    for (module, name), tensor in zip(parameters, tensors):
        custom_from_mask(module, name, mask=whole[at : at + tensor.numel()].view_as(tensor))
        at += tensor.numel()


def remove(module, name: str):
    """The pruned tensor as it is becomes the parameter again; returns the module."""
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            module._hooks_changed()
            return module
    raise ValueError(f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed")


def is_pruned(module) -> bool:
    """Whether a tensor of the module, or of one below it, is pruned."""
    return any(isinstance(hook, BasePruningMethod) for m in module.modules() for hook in m._forward_pre_hooks.values())
