"""class Optimizer: parameter groups, their state, saving and loading; a subclass says how one group is stepped.

A state_dict names parameters by their number in the order of the groups, so that it fits another process and PyTorch.
"""

import sys
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable
from copy import deepcopy
from functools import wraps
from operator import attrgetter
from typing import Any

from .. import _C
from .._apart import disable
from ..autograd._ranges import record_function
from ..autograd.grad_mode import enable_grad, set_grad_enabled
from ..compiler import is_compiling

_MOST_NUMBERS = 1 << 18  # in the parameters of an optimizer whose step becomes part of a graph
_COMPLEX, _dtype = {_C.complex32, _C.complex64, _C.complex128}, attrgetter("dtype")


class _Required:
    def __repr__(self) -> str:
        return "<required parameter>"


required = _Required()
ParamsT = Iterable[_C.TensorBase] | Iterable[dict[str, Any]] | Iterable[tuple[str, _C.TensorBase]]


_all_pre_hooks, _all_post_hooks = OrderedDict(), OrderedDict()  # of the steps of all optimizers


class _HookHandle:
    """What registering a hook returns: `remove()` takes it out again."""

    _next = 0

    def __init__(self, hooks: dict) -> None:
        self._hooks, self._id = hooks, _HookHandle._next
        _HookHandle._next += 1

    def remove(self) -> None:
        """Takes the hook out; a second call does nothing."""
        self._hooks.pop(self._id, None)


def _with_hooks(step):
    """Runs the optimizer's hooks before and after `step`."""

    @wraps(step)
    def run(self, *args, **kwargs):
        if is_compiling() and not _can_follow(self):
            return run_apart(self, args, kwargs)
        if _C.is_profiling():
            with record_function(f"Optimizer.step#{type(self).__name__}.step"):
                return run_hooked(self, args, kwargs)
        return run_hooked(self, args, kwargs)

    def run_hooked(self, args, kwargs):
        own = getattr(self, "_optimizer_step_pre_hooks", None)
        if own is None:  # a wrapper of another optimizer, whose class has not called Optimizer.__init__
            return step(self, *args, **kwargs)
        for hook in [*_all_pre_hooks.values(), *own.values()]:
            changed = hook(self, args, kwargs)
            if changed is None:
                continue
            if not (isinstance(changed, tuple) and len(changed) == 2):
                raise RuntimeError(f"step: a hook must return None or a tuple of (new_args, new_kwargs), got {changed}")
            args, kwargs = changed
        result = step(self, *args, **kwargs)
        for hook in [*self._optimizer_step_post_hooks.values(), *_all_post_hooks.values()]:
            hook(self, args, kwargs)
        return result

    run_apart = disable(run_hooked, reason="a step whose settings change, or that reads its numbers")
    run.hooked = True
    return run


def _can_follow(optimizer) -> bool:
    """Whether a step is captured: its settings stay as they are but for the rate, and are numbers. A step of large
    parameters is quicker by itself, one operator for all of them."""
    if not getattr(optimizer, "follows_in_graphs", False) or getattr(optimizer, "_settings_change", False):
        return False
    numbers = sum(parameter.numel() for group in optimizer.param_groups for parameter in group["params"])
    if numbers > _MOST_NUMBERS and not _C.must_be_whole():
        return False
    for group in optimizer.param_groups:
        betas = group.get("betas")
        if _C.settings_vary(optimizer, group, "lr") or (betas and isinstance(betas[0], _C.TensorBase)):
            return False
    return True


def _keep_hook(hooks: OrderedDict, hook, prepend: bool = False) -> _HookHandle:
    handle = _HookHandle(hooks)
    hooks[handle._id] = hook
    if prepend:
        hooks.move_to_end(handle._id, last=False)
    return handle


def register_optimizer_step_pre_hook(hook) -> _HookHandle:
    """`hook(optimizer, args, kwargs)` runs before each step of every optimizer and may return other (args, kwargs)."""
    return _keep_hook(_all_pre_hooks, hook)


def register_optimizer_step_post_hook(hook) -> _HookHandle:
    """`hook(optimizer, args, kwargs)` runs after each step of every optimizer."""
    return _keep_hook(_all_post_hooks, hook)


def _with_numbers(group: dict) -> dict:
    """The group with the rate and the betas as numbers where they are tensors; one that is differentiated by stays."""
    if is_compiling():
        return group
    lr, betas = group.get("lr"), group.get("betas")
    if isinstance(lr, _C.TensorBase) and not group.get("differentiable"):
        group = {**group, "lr": lr.item()}
    if betas and isinstance(betas[0], _C.TensorBase):
        group = {**group, "betas": tuple(beta.item() for beta in betas)}
    return group


def _any_complex(parameters: list) -> bool:
    if is_compiling():
        return any(parameter.is_complex() for parameter in parameters)
    return not _COMPLEX.isdisjoint(map(_dtype, parameters))


class Optimizer:
    """Base class. `params`: parameters, (name, parameter) pairs, or dicts of groups with options of their own."""

    OptimizerPreHook = Callable[[Any, tuple, dict], tuple | None]
    OptimizerPostHook = Callable[[Any, tuple, dict], None]

    def __init__(self, params, defaults: dict) -> None:
        if isinstance(params, _C.TensorBase):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, but got Tensor"
            )
        self.defaults = defaults
        self.state = defaultdict(dict)
        self.param_groups = []
        self._start_hooks()
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        for group in groups if isinstance(groups[0], dict) else [{"params": groups}]:
            self.add_param_group(group)

    def __init_subclass__(cls, **kwargs) -> None:
        super().__init_subclass__(**kwargs)
        step = cls.__dict__.get("step")
        if step is not None and not hasattr(step, "hooked"):
            cls.step = _with_hooks(step)

    def _patch_step_function(self) -> None:
        """Makes the class's `step` run hooks, unless it does: for wrappers that leave out Optimizer.__init__."""
        if not hasattr(type(self).step, "hooked"):
            type(self).step = _with_hooks(type(self).step)

    def _start_hooks(self) -> None:
        self._optimizer_step_pre_hooks, self._optimizer_step_post_hooks = OrderedDict(), OrderedDict()

    # ---- the groups --------------------------------------------------------------------------------------------

    def add_param_group(self, param_group: dict) -> None:
        """Adds a group {"params": ..., options}; options that it leaves out come from the defaults."""
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        given = param_group["params"]
        if isinstance(given, set):
            raise TypeError(
                "optimizer parameters need to be organized in ordered collections, but the ordering of tensors in "
                "sets will change between runs. Please use a list instead."
            )
        members = [given] if isinstance(given, _C.TensorBase) else list(given)
        named = [isinstance(member, tuple) for member in members]
        if any(named) and not all(named):
            raise ValueError("all optimizer params should be with/without names. Some param names are missing")
        if any(named):
            param_group["param_names"] = [name for name, _ in members]
            members = [parameter for _, parameter in members]
        for parameter in members:
            self._check_parameter(parameter)
        param_group["params"] = members
        for name, default in self.defaults.items():
            if default is required and name not in param_group:
                raise ValueError(f"parameter group didn't specify a value of required optimization parameter {name}")
            param_group.setdefault(name, default)
        self._check_group(param_group)
        self.param_groups.append(param_group)

    def _check_parameter(self, parameter) -> None:
        if not isinstance(parameter, _C.TensorBase):
            kind = type(parameter).__name__
            raise TypeError(f"optimizer can only optimize Tensors, but one of the params is {kind}")
        if not (self.defaults.get("differentiable") or parameter.is_leaf or parameter.retains_grad):
            raise ValueError("can't optimize a non-leaf Tensor")

    def _check_group(self, group: dict) -> None:
        members = group["params"]
        if len({id(parameter) for parameter in members}) != len(members):
            raise ValueError("optimizer contains a parameter group with duplicate parameters")
        if self.param_groups and ("param_names" in group) != ("param_names" in self.param_groups[0]):
            raise ValueError("all optimizer param groups should be with/without names")
        before = {id(parameter) for other in self.param_groups for parameter in other["params"]}
        if any(id(parameter) in before for parameter in members):
            raise ValueError("some parameters appear in more than one parameter group")

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drops the gradients of all parameters, or fills them with zeros."""
        if _C.is_profiling():
            with record_function(f"Optimizer.zero_grad#{type(self).__name__}.zero_grad"):
                return self._zero_grads(set_to_none)
        return self._zero_grads(set_to_none)

    def _zero_grads(self, set_to_none: bool) -> None:
        grads = []
        for group in self.param_groups:
            for parameter in group["params"]:
                if set_to_none:
                    parameter.grad = None
                    continue
                grad = parameter.grad
                if grad is None:
                    continue
                if grad.grad_fn is not None:
                    parameter.grad = grad = grad.detach()
                grads.append(grad.requires_grad_(False))
        if grads:
            _C._foreach_zero_(grads)

    # ---- a step ------------------------------------------------------------------------------------------------

    @_with_hooks
    def step(self, closure=None):
        """Changes the parameters by their gradients. `closure` computes the loss again; its value is returned."""
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        for group in self.param_groups:
            with set_grad_enabled(bool(group.get("differentiable"))):
                self._check_group_now(group)
                group = _with_numbers(group)
                if not self.takes_sparse and has_sparse(group["params"]):
                    name = type(self).__name__
                    raise RuntimeError(f"{name} does not support sparse gradients{self.instead_of_sparse}")
                if self.takes_pairs and _any_complex(group["params"]):
                    self._step_pairs(group)
                else:
                    self._step_group(group)
        return loss

    follows_in_graphs = False  # whether a step can be captured: none of its numbers is read from a tensor
    steps_one_by_one = True  # a step of many at once, which `foreach` asks for, is not recorded

    def _check_group_now(self, group: dict) -> None:
        """AssertionError for what PyTorch refuses when the step is made."""
        if group.get("differentiable") and group.get("foreach") and self.steps_one_by_one:
            raise AssertionError("_foreach ops don't support autograd")
        if not group.get("capturable") or group.get("fused") or is_compiling():
            return
        if any(parameter.grad is not None and parameter.device.type == "cpu" for parameter in group["params"]):
            raise AssertionError(
                f"{type(self).__name__}: capturable=True is for steps that a device captures, or torch.compile; a "
                "parameter is on the CPU"
            )

    takes_sparse = False  # whether _step_group knows sparse gradients
    instead_of_sparse = ""
    takes_pairs = True  # whether a complex parameter is stepped as the pairs of real numbers that it is made of

    def _step_pairs(self, group: dict) -> None:
        """_step_group over real views of the complex parameters. Their states are complex before and after."""
        if group.get("fused"):
            from ..utils._foreach_utils import _get_fused_kernels_supported_devices as devices

            first = next(parameter for parameter in group["params"] if parameter.is_complex())
            raise RuntimeError(
                "`fused=True` requires all the params to be floating point Tensors of supported devices: "
                f"{devices()} but {first.dtype} and {first.device.type}"
            )
        pairs = [_Pairs(self.state, parameter) if parameter.is_complex() else None for parameter in group["params"]]
        shown = [one.shown if one else parameter for one, parameter in zip(pairs, group["params"])]
        try:
            self._step_group({**group, "params": shown})
        finally:
            for one in filter(None, pairs):
                one.put_back(self.state)

    def _step_group(self, group: dict) -> None:
        raise NotImplementedError(f"{type(self).__name__}: a subclass defines step or _step_group")

    @staticmethod
    def profile_hook_step(func):
        """`func(optimizer, ...)` with the hooks of steps round it. Classes of optimizers have it done to their step."""
        return _with_hooks(func)

    def register_step_pre_hook(self, hook) -> _HookHandle:
        """`hook(optimizer, args, kwargs)` runs before each step and may return other (args, kwargs)."""
        return _keep_hook(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook) -> _HookHandle:
        """`hook(optimizer, args, kwargs)` runs after each step."""
        return _keep_hook(self._optimizer_step_post_hooks, hook)

    def _state_hooks(self, name: str) -> OrderedDict:
        """Hooks on state_dicts, of which few optimizers have any."""
        return self.__dict__.setdefault(f"_optimizer_{name}_hooks", OrderedDict())

    def register_state_dict_pre_hook(self, hook, prepend: bool = False) -> _HookHandle:
        """`hook(optimizer)` runs before state_dict()."""
        return _keep_hook(self._state_hooks("state_dict_pre"), hook, prepend)

    def register_state_dict_post_hook(self, hook, prepend: bool = False) -> _HookHandle:
        """`hook(optimizer, state_dict)` runs after state_dict() and may return another one."""
        return _keep_hook(self._state_hooks("state_dict_post"), hook, prepend)

    def register_load_state_dict_pre_hook(self, hook, prepend: bool = False) -> _HookHandle:
        """`hook(optimizer, state_dict)` runs before load_state_dict() and may return another one."""
        return _keep_hook(self._state_hooks("load_state_dict_pre"), hook, prepend)

    def register_load_state_dict_post_hook(self, hook, prepend: bool = False) -> _HookHandle:
        """`hook(optimizer)` runs after load_state_dict()."""
        return _keep_hook(self._state_hooks("load_state_dict_post"), hook, prepend)

    # ---- state -------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict:
        """{"state": {number: its state}, "param_groups": [{options, "params": [numbers]}]}; nothing is copied."""
        for hook in list(self._state_hooks("state_dict_pre").values()):
            hook(self)
        numbers, groups = {}, []
        for group in self.param_groups:
            for parameter in group["params"]:
                numbers.setdefault(id(parameter), len(numbers))
            packed = {name: value for name, value in group.items() if name != "params"}
            packed["params"] = [numbers[id(parameter)] for parameter in group["params"]]
            groups.append(packed)
        state = {
            numbers[id(key)] if isinstance(key, _C.TensorBase) else key: value for key, value in self.state.items()
        }
        made = {"state": state, "param_groups": groups}
        for hook in list(self._state_hooks("state_dict_post").values()):
            changed = hook(self, made)
            made = made if changed is None else changed
        return made

    def load_state_dict(self, state_dict: dict) -> None:
        """Takes over what another optimizer's state_dict() gave; the groups must have the same sizes."""
        state_dict = state_dict.copy()
        for hook in list(self._state_hooks("load_state_dict_pre").values()):
            changed = hook(self, state_dict)
            state_dict = state_dict if changed is None else changed
        saved = deepcopy(state_dict["param_groups"])
        if len(saved) != len(self.param_groups):
            raise ValueError("loaded state dict has a different number of parameter groups")
        by_number = {}
        for mine, loaded in zip(self.param_groups, saved):
            if len(mine["params"]) != len(loaded["params"]):
                raise ValueError(
                    "loaded state dict contains a parameter group that doesn't match the size of optimizer's group"
                )
            by_number.update(zip(loaded["params"], mine["params"]))
        state = defaultdict(dict)
        for key, value in state_dict["state"].items():
            parameter = by_number.get(key)
            state[key if parameter is None else parameter] = (
                deepcopy(value) if parameter is None else _state_for(parameter, value)
            )
        for mine, loaded in zip(self.param_groups, saved):
            loaded["params"] = mine["params"]
            if "param_names" in mine:
                loaded["param_names"] = mine["param_names"]
        self.__setstate__({"state": state, "param_groups": saved})
        for hook in list(self._state_hooks("load_state_dict_post").values()):
            hook(self)

    def __getstate__(self) -> dict:
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state: dict) -> None:
        self.__dict__.update(state)
        if "_optimizer_step_pre_hooks" not in self.__dict__:
            self._start_hooks()
        for group in self.param_groups:
            for name, default in self.__dict__.get("defaults", {}).items():
                group.setdefault(name, default)

    def __repr__(self) -> str:
        parts = []
        for number, group in enumerate(self.param_groups):
            lines = [f"    {name}: {group[name]}\n" for name in sorted(group) if name != "params"]
            parts.append(f"\nParameter Group {number}\n" + "".join(lines))
        return type(self).__name__ + " (" + "".join(parts) + ")"


def _state_for(parameter, value, key=None):
    """A copy of loaded state: tensors go to the parameter's device and, unless they count steps, to its dtype."""
    if isinstance(value, _C.TensorBase):
        if key == "step":
            return value.clone()
        dtype = parameter.dtype if parameter.is_floating_point() else value.dtype
        return value.to(dtype=dtype, device=parameter.device, copy=True)
    if isinstance(value, dict):
        return {name: _state_for(parameter, item, name) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_state_for(parameter, item) for item in value)
    return deepcopy(value)


def check_options(lr) -> None:
    """ValueError for a learning rate of several numbers."""
    if isinstance(lr, _C.TensorBase) and lr.numel() != 1:
        raise ValueError("Tensor lr must be 1-element")


# ---- steps that may be differentiated --------------------------------------------------------------------------------
def value_of(tensor):
    """The number in a state's tensor; in a graph, which takes no number from a tensor, one of double precision."""
    return tensor.double() if is_compiling() else tensor.item()


def of_type(number, like):
    """A number in a tensor in the dtype of what it is multiplied with, once; others as they are."""
    return number.to(like.dtype) if isinstance(number, _C.TensorBase) and number.is_floating_point() else number


def rate(group: dict):
    """The learning rate; in a graph a tensor, so that a schedule changes no graph."""
    if is_compiling() and all(parameter.device.type == "cpu" for parameter in group["params"]):
        return _C.number_input(group, "lr")
    return group["lr"]


def at_least(number, least):
    """The larger of a number, which in a graph is a tensor, and `least`."""
    return number.clamp(min=least) if isinstance(number, _C.TensorBase) else max(number, least)


def at_most(number, most):
    """The smaller of both, in the same way."""
    return number.clamp(max=most) if isinstance(number, _C.TensorBase) else min(number, most)


def put(state, number) -> None:
    """The number into a state's tensor."""
    (state.copy_ if isinstance(number, _C.TensorBase) else state.fill_)(number)


def chosen(condition, one, other):
    """What the first of two functions gives where the condition holds, else the second; in a graph of both."""
    if isinstance(condition, _C.TensorBase):
        return _C.where(condition, one(), other())
    return one() if condition else other()


def kept(value, group: dict):
    """State for what follows in a step; where that is recorded a copy, since the next step writes into the state."""
    return value.clone() if group.get("differentiable") else value


def add_into(parameter, change, factor) -> None:
    """parameter += factor * change. A factor that is a tensor, a learning rate, gets its gradient, too."""
    if isinstance(factor, _C.TensorBase):
        parameter.add_(change * of_type(factor, change))
    else:
        parameter.add_(change, alpha=factor)


def divide_into(parameter, change, below, factor) -> None:
    """parameter += factor * change / below; as add_into."""
    if isinstance(factor, _C.TensorBase):
        parameter.addcdiv_(change * of_type(factor, change), below)
    else:
        parameter.addcdiv_(change, below, value=factor)


def check_ways(foreach, fused, differentiable: bool = False) -> None:
    """Refuses what PyTorch refuses. Here a group is one call of a fused operator however these options stand."""
    if fused and differentiable:
        raise RuntimeError("`fused` does not support `differentiable`")
    if fused and foreach:
        raise RuntimeError("`fused` and `foreach` cannot be `True` together.")


class _Pairs:
    """A complex parameter shown as real numbers, with its gradient and its state in `states`, for one step."""

    def __init__(self, states: dict, parameter) -> None:
        self.parameter, self.shown, self.given = parameter, _C.view_as_real(parameter), {}
        if parameter.grad is not None:
            self.shown.grad = _C.view_as_real(parameter.grad)
        if parameter in states:
            state = states[parameter]
            self.given = {
                name: _C.view_as_real(value) if isinstance(value, _C.TensorBase) and value.is_complex() else value
                for name, value in state.items()
            }
            states[self.shown] = dict(self.given)

    def put_back(self, states: dict) -> None:
        """What the step made or put in place of another, of the parameter's size, is complex in its state."""
        for name, value in states.pop(self.shown, {}).items():
            if name not in self.given or value is not self.given[name]:
                wide = isinstance(value, _C.TensorBase) and value.shape == self.shown.shape
                states[self.parameter][name] = _C.view_as_complex(value) if wide else value


def alike(group: dict) -> list:
    """The parameters of a group that have gradients, in lists whose members lie on one device."""
    places = {}
    for parameter in group["params"]:
        if parameter.grad is not None:
            places.setdefault(parameter.device, []).append(parameter)
    return list(places.values())


def has_sparse(parameters) -> bool:
    """Whether one of their gradients is sparse; quick where no sparse tensor was ever made."""
    if "narthex.sparse._compute" not in sys.modules:
        return False
    return any(parameter.grad is not None and parameter.grad.is_sparse for parameter in parameters)


def is_half(parameter) -> bool:
    """Of a type whose separate operators round more often than a fused one."""
    return parameter.dtype is _C.bfloat16 or parameter.dtype is _C.float16


def check_range(name: str, value, low=0.0) -> None:
    """ValueError unless low <= value."""
    if not low <= value:
        raise ValueError(f"Invalid {name} value: {value}")
