"""Modules as functions of their parameters and buffers."""

import narthex as torch

from ..nn.utils.stateless import call


def functional_call(module, parameter_and_buffer_dicts, args=None, kwargs=None, *, tie_weights=True, strict=False):
    """A call of `module` with these tensors (by dotted name, in one dict or several) in the places of its own."""
    given = parameter_and_buffer_dicts
    if isinstance(given, dict):
        whole = given
    elif isinstance(given, list | tuple):
        if not all(isinstance(each, dict) for each in given):
            raise ValueError("Expected all elements of parameter_and_buffer_dicts to be dictionaries")
        names = [name for each in given for name in each]
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise ValueError(f"{repeated} appeared in multiple dictionaries; behavior of functional call is ambiguous")
        whole = {name: value for each in given for name, value in each.items()}
    else:
        raise ValueError(
            f"Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got {type(given)}"
        )
    return call(module, whole, args, kwargs, tie_weights, strict)


def _stacked(tensors: list, name: str):
    if len({tensor.requires_grad for tensor in tensors}) > 1:
        raise RuntimeError(f"Expected {name} from each model to have the same .requires_grad")
    stacked = torch.stack([tensor.detach() for tensor in tensors])
    return stacked.requires_grad_() if tensors[0].requires_grad else stacked


def stack_module_state(models) -> tuple:
    """(parameters, buffers) of models of one class, by name, each stacked along a new first dimension."""
    models = list(models)
    if not models:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if not all(model.training == models[0].training for model in models):
        raise RuntimeError("stack_module_state: Expected all models to have the same training/eval mode.")
    if not all(type(model) is type(models[0]) for model in models):
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")
    states = []
    for members in ("named_parameters", "named_buffers"):
        each = [dict(getattr(model, members)()) for model in models]
        states.append({name: _stacked([state[name] for state in each], name) for name in each[0]})
    return tuple(states)


def replace_all_batch_norm_modules_(root):
    """`root`, whose batch norms keep no running statistics any more: they take those of what they are given."""
    kinds = torch.nn.modules.batchnorm
    for module in root.modules():
        if isinstance(module, kinds._BatchNorm):
            module.running_mean = module.running_var = module.num_batches_tracked = None
            module.track_running_stats = False
    return root
