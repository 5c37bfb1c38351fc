"""An optimizer that for a while works on other parameters and other state."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

_NAME = "swap_in_optimizer_params_and_state"


def _check(optimizer, parameters: dict, state_dict: dict) -> None:
    if not optimizer.state:
        raise RuntimeError(f"{_NAME} requires initialized optimizer state.")
    if len(parameters) != sum(len(group["params"]) for group in optimizer.param_groups):
        raise RuntimeError(
            f"{_NAME} requires the explicit parameter state to match optimizer.param_groups ordering."
        )  # fmt: skip
    state = state_dict.get("state")
    if not isinstance(state, dict):
        raise RuntimeError(
            f"{_NAME} requires swapin_optim_state['state'] to be a dict mapping packed parameter ids to per-param "
            f"state dicts, got {type(state).__name__}."
        )
    if len(state_dict.get("param_groups", ())) != len(optimizer.param_groups):
        raise RuntimeError("swapin_optim_state has a different number of parameter groups than the live optimizer.")


@contextmanager
def swap_in_optimizer_params_and_state(optimizer, swapin_parameters: dict, swapin_optim_state: dict) -> Iterator[None]:
    """Inside, the optimizer has the given parameters, in the order of its own, and the state of a state_dict().

    Tensors are shared, so that what is written into them is seen outside; afterwards the optimizer is as it was.
    """
    _check(optimizer, swapin_parameters, swapin_optim_state)
    left, state, groups = iter(swapin_parameters.values()), defaultdict(dict), []
    for mine, given in zip(optimizer.param_groups, swapin_optim_state["param_groups"]):
        members = [next(left) for _ in mine["params"]]
        for number, parameter in zip(given["params"], members):
            if number in swapin_optim_state["state"]:
                state[parameter] = dict(swapin_optim_state["state"][number])
        groups.append({**mine, **given, "params": members})
    before = optimizer.param_groups, optimizer.state
    optimizer.param_groups, optimizer.state = groups, state
    try:
        yield
    finally:
        optimizer.param_groups, optimizer.state = before
