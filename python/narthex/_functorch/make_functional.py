"""A module as a function of its parameters and buffers, as functorch had it, by torch.func.functional_call."""

from __future__ import annotations

from copy import deepcopy

from .. import _C
from ..func import functional_call
from ..nn import Module, Parameter

__all__ = [
    "FunctionalModule", "FunctionalModuleWithBuffers", "combine_state_for_ensemble", "make_functional",
    "make_functional_with_buffers",
]  # fmt: skip


def _taken(model, members, wrap) -> tuple[tuple, dict[str, list[str]]]:
    """The different tensors of `members` and all names of each, by its first. In the model stand tensors without
    elements in their place, the same for one that is there under several names."""
    names: dict[int, list[str]] = {}
    found = {}
    for name, tensor in list(members(remove_duplicate=False)):
        found.setdefault(id(tensor), (tensor, wrap(_C.empty_like(tensor, device="meta"))))
        names.setdefault(id(tensor), []).append(name)
    for key, (_, empty) in found.items():
        for name in names[key]:
            place, _, own = name.rpartition(".")
            setattr(model.get_submodule(place), own, empty)
    return tuple(tensor for tensor, _ in found.values()), {all_names[0]: all_names for all_names in names.values()}


def _is_constant(params: tuple, constant: bool) -> tuple:
    for param in params if constant else ():
        param.requires_grad_(False)
    return params


class FunctionalModule(Module):
    """module(params, *args): what the model gives with these parameters."""

    def __init__(self, stateless_model, param_names: tuple, names_map: dict) -> None:
        super().__init__()
        self.stateless_model, self.param_names, self.names_map = stateless_model, param_names, names_map

    @staticmethod
    def _create_from(model, disable_autograd_tracking: bool = False) -> tuple:
        model = deepcopy(model)
        params, names = _taken(model, model.named_parameters, Parameter)
        return FunctionalModule(model, tuple(names), names), _is_constant(params, disable_autograd_tracking)

    def forward(self, params, *args, **kwargs):
        return functional_call(self.stateless_model, dict(zip(self.names_map, params)), args, kwargs)


class FunctionalModuleWithBuffers(Module):
    """module(params, buffers, *args): what the model gives with these parameters and buffers."""

    def __init__(
        self, stateless_model, param_names: tuple, buffer_names: tuple, param_names_map: dict, buffer_names_map: dict
    ) -> None:
        super().__init__()
        self.stateless_model, self.param_names, self.buffer_names = stateless_model, param_names, buffer_names
        self.all_names_map = {**param_names_map, **buffer_names_map}

    @staticmethod
    def _create_from(model, disable_autograd_tracking: bool = False) -> tuple:
        model = deepcopy(model)
        params, names = _taken(model, model.named_parameters, Parameter)
        buffers, of_buffers = _taken(model, model.named_buffers, lambda tensor: tensor)
        made = FunctionalModuleWithBuffers(model, tuple(names), tuple(of_buffers), names, of_buffers)
        return made, _is_constant(params, disable_autograd_tracking), buffers

    def forward(self, params, buffers, *args, **kwargs):
        given = dict(zip(self.all_names_map, (*params, *buffers)))
        return functional_call(self.stateless_model, given, args, kwargs)


def make_functional(model, disable_autograd_tracking: bool = False) -> tuple:
    """(function of the parameters and what the model takes, parameters); of a model without buffers."""
    if next(model.buffers(), None) is not None:
        raise RuntimeError(
            "make_functional(model): `model` has buffers. Please use make_functional_with_buffers(model) instead."
        )
    return FunctionalModule._create_from(model, disable_autograd_tracking)


def make_functional_with_buffers(model, disable_autograd_tracking: bool = False) -> tuple:
    """(function of parameters, buffers and what the model takes, parameters, buffers)"""
    return FunctionalModuleWithBuffers._create_from(model, disable_autograd_tracking)


def combine_state_for_ensemble(models) -> tuple:
    """The same of several models of one class, whose parameters and buffers are stacked: for vmap."""
    text = "combine_state_for_ensemble: Expected "
    if len(models) == 0:
        raise RuntimeError(text + "at least one model, got 0.")
    if len({model.training for model in models}) > 1:
        raise RuntimeError(text + "all models to have the same training/eval mode.")
    if len({type(model) for model in models}) > 1:
        raise RuntimeError(text + "all models to be of the same class.")
    functions, *states = zip(*map(make_functional_with_buffers, models))
    return functions[0], *(tuple(_C.stack(list(same)).detach() for same in zip(*state)) for state in states)
