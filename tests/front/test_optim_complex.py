"""Optimizers over complex parameters, which they step as pairs of real numbers: numbers, states, errors."""

from __future__ import annotations

from typing import Any

import narthex as nt
import numpy as np
import pytest

from tests.front.both import both

WAYS = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    ("Adam", {}),
    ("Adam", {"amsgrad": True, "weight_decay": 0.1, "maximize": True}),
    ("AdamW", {"amsgrad": True}),
    ("NAdam", {}),
    ("NAdam", {"decoupled_weight_decay": True, "weight_decay": 0.1}),
    ("RAdam", {}),
    ("RMSprop", {"centered": True, "momentum": 0.9}),
    ("Adadelta", {}),
    ("Adagrad", {"initial_accumulator_value": 0.1, "lr_decay": 0.1}),
    ("Adamax", {}),
    ("ASGD", {"t0": 1}),
    ("Rprop", {}),
    ("LBFGS", {"max_iter": 3}),
    ("LBFGS", {"max_iter": 3, "line_search_fn": "strong_wolfe"}),
]


def parameters(m: Any) -> tuple[Any, Any]:
    numbers = np.random.default_rng(0).standard_normal((2, 3, 2)).astype("float32")
    whole = m.view_as_complex(m.from_numpy(numbers))
    return m.nn.Parameter(whole), m.nn.Parameter(m.from_numpy(numbers[:, 0, 0].copy()))


def steps(m: Any, name: str, options: dict) -> Any:
    """Losses, parameters and the states of the complex one after three steps, saved and loaded on the way."""
    whole, real = parameters(m)

    def begin() -> Any:
        return getattr(m.optim, name)([whole, real], **options)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = (whole.sum(1) - real - 0.5j).abs().square().sum()
        loss.backward()
        return loss

    optimizer, losses = begin(), []
    for _ in range(3):
        losses.append(optimizer.step(closure).item())
        saved, optimizer = optimizer.state_dict(), begin()
        optimizer.load_state_dict(saved)
    tensors = {key: value for key, value in optimizer.state[whole].items() if isinstance(value, m.Tensor)}
    if name == "LBFGS":
        tensors = {}
    rows = [m.view_as_real(value) if value.is_complex() else value for value in (whole, real, *tensors.values())]
    kinds = [(key, str(value.dtype), tuple(value.shape)) for key, value in tensors.items()]
    return losses, [row.detach().numpy() for row in rows], sorted(kinds), len(optimizer.state)


@pytest.mark.parametrize("name, options", WAYS, ids=[f"{name}-{k}" for k, (name, _) in enumerate(WAYS)])
def test_steps(name: str, options: dict) -> None:
    mine, theirs = both(lambda m: steps(m, name, options))
    assert mine[0] == pytest.approx(theirs[0], rel=1e-4, abs=1e-6) and mine[2:] == theirs[2:]
    assert len(mine[1]) == len(theirs[1])
    for a, b in zip(mine[1][:2], theirs[1][:2]):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def test_a_parameter_without_gradient() -> None:
    whole, real = parameters(nt)
    before = whole.detach().clone()
    optimizer = nt.optim.Adam([whole, real])
    real.sum().backward()
    optimizer.step()
    assert (whole == before).all() and list(optimizer.state) == [real]


@pytest.mark.parametrize("name", ["Adafactor", "SparseAdam", "Adam", "AdamW", "SGD", "Adagrad"])
def test_refused(name: str) -> None:
    def run(m: Any) -> None:
        whole, _ = parameters(m)
        options = {} if name in ("Adafactor", "SparseAdam") else {"fused": True}
        optimizer = getattr(m.optim, name)([whole], **options)
        whole.abs().sum().backward()
        optimizer.step()

    mine, theirs = both(run)
    assert isinstance(theirs, Exception) and (type(mine), str(mine)) == (type(theirs), str(theirs))


def test_dense_parameters() -> None:
    def run(m: Any) -> None:
        m.optim.SparseAdam([m.ones(3).to_sparse()])

    mine, theirs = both(run)
    assert isinstance(theirs, ValueError) and str(mine) == str(theirs)


def test_lists_for_one_launch() -> None:
    def run(m: Any) -> Any:
        from importlib import import_module

        tools = import_module(f"{m.__name__}.utils._foreach_utils")
        first = [m.ones(1), m.ones(2, dtype=m.float64), m.zeros(3)]
        found = {}
        for with_places in (False, True):
            lists = [first, [None, *first[1:]], []]
            for (device, dtype), (parts, places) in tools._group_tensors_by_device_and_dtype(
                lists, with_places
            ).items():
                named = [[None if t is None else t.tolist() for t in part] for part in parts]
                found[with_places, str(device), str(dtype)] = named, places
        known = tools._get_foreach_kernels_supported_devices(), tools._get_fused_kernels_supported_devices()
        kinds = [tools._has_foreach_support([t], m.device("cpu")) for t in (first[0], m.nn.Parameter(first[0]), None)]
        return found, known, kinds, tools._device_has_foreach_support(m.device("mps"))

    mine, theirs = both(run)
    assert mine == theirs
