"""A call of a module with other tensors in the places of its parameters and buffers."""

import warnings
from contextlib import contextmanager

from ... import _C

__all__ = ["functional_call"]


def _place(module, key: str):
    """(the dictionary that holds the tensor under a dotted name, its name there); None where there is none."""
    path, _, name = key.rpartition(".")
    for part in path.split(".") if path else ():
        module = module._modules.get(part)
        if module is None:
            return None
    for where in (module._parameters, module._buffers):
        if name in where:
            return where, name
    return None


def _untied(module, given: dict) -> dict:
    """`given`, and each of its tensors under the other names that its place has in `module`."""
    names = {}
    for members in (module.named_parameters, module.named_buffers):
        for name, tensor in members(remove_duplicate=False):
            names.setdefault(id(tensor), []).append(name)
    whole = dict(given)
    for tied in names.values():
        values = [given[name] for name in tied if name in given]
        if any(value is not values[0] for value in values):
            raise ValueError(
                f"functional_call got multiple values for keys {sorted(name for name in tied if name in given)}, "
                "which are tied. Consider using tie_weights=False"
            )
        if values:
            whole.update((name, values[0]) for name in tied)
    return whole


def _check_names(module, given: dict) -> None:
    own = {name for members in (module.named_parameters, module.named_buffers)
           for name, _ in members(remove_duplicate=False)}  # fmt: skip
    problems = []
    if unexpected := [name for name in given if name not in own]:
        problems.append(f"Unexpected key(s): {', '.join(map(repr, unexpected))}.")
    if missing := sorted(own - set(given)):
        problems.append(f"Missing key(s): {', '.join(map(repr, missing))}.")
    if problems:
        lines = "\n\t".join(problems)
        raise RuntimeError(f"Error(s) in reparametrizing for {module._get_name()}:\n\t{lines}")


@contextmanager
def _reparametrize_module(module, parameters_and_buffers: dict, tie_weights: bool = False, strict: bool = False):
    """Inside, `module` has these tensors; what stands in the places then goes back into the dict."""
    given = _untied(module, parameters_and_buffers) if tie_weights else parameters_and_buffers
    if strict:
        _check_names(module, given)
    before = []
    try:
        for key, tensor in given.items():
            place = _place(module, key)
            if place is None:
                continue
            where, name = place
            before.append((key, where, name, where[name]))
            if not isinstance(tensor, _C.TensorBase):
                raise TypeError(f"{tensor} is not an instance of torch.Tensor")
            where[name] = tensor
        yield
    finally:
        for key, where, name, tensor in reversed(before):
            if key in parameters_and_buffers:
                parameters_and_buffers[key] = where[name]
            where[name] = tensor


def call(module, parameters_and_buffers: dict, args=None, kwargs=None, tie_weights: bool = True, strict: bool = False):
    """`module(*args, **kwargs)` with these tensors; see functional_call."""
    args = () if args is None else args if isinstance(args, tuple) else (args,)
    with _reparametrize_module(module, dict(parameters_and_buffers), tie_weights, strict):
        return module(*args, **({} if kwargs is None else kwargs))


def functional_call(
    module, parameters_and_buffers: dict, args=None, kwargs=None, *, tie_weights: bool = True, strict: bool = False
):
    """A call of `module` with `parameters_and_buffers` (by dotted name) in the places of its own tensors.

    With `tie_weights` a tensor counts under all names that its place has; with `strict` all names must be given.
    """
    warnings.warn(
        "`torch.nn.utils.stateless.functional_call` is deprecated as of PyTorch 2.0 and will be removed in a future "
        "version of PyTorch. Please use `torch.func.functional_call` instead which is a drop-in replacement.",
        FutureWarning,
        stacklevel=2,
    )
    return call(module, parameters_and_buffers, args, kwargs, tie_weights, strict)
