"""functorch: modules as functions of their parameters and buffers, as PyTorch 2.13 still has them; what a report of the
machine tells; a budget of memory."""

from __future__ import annotations

import importlib
import subprocess
import sys
import warnings
from typing import Any

import functorch
import narthex as nt
import pytest
import torch
from both import LIBS, both, close

FRONT = {nt: importlib.import_module("narthex._functorch.front"), torch: functorch}


class Tied:
    """A network whose two layers share their weight, in either library."""

    def __new__(cls, lib: Any) -> Any:
        net = lib.nn.Sequential(lib.nn.Linear(3, 3), lib.nn.BatchNorm1d(3), lib.nn.Linear(3, 3))
        net[2].weight = net[0].weight
        return net


def filled(lib: Any, net: Any) -> Any:
    for k, tensor in enumerate(net.state_dict().values()):
        if tensor.is_floating_point():
            tensor.copy_((lib.arange(float(tensor.numel())).view(tensor.shape) + k).sin().square())
    return net


@pytest.mark.parametrize("constant", [False, True])
def test_functions_of_parameters(constant: bool) -> None:
    found = []
    for lib in LIBS:
        net = filled(lib, lib.nn.Linear(3, 2))
        with pytest.warns(FutureWarning, match="functorch.make_functional` is deprecated"):
            function, params = FRONT[lib].make_functional(net, disable_autograd_tracking=constant)
        assert [p.requires_grad for p in params] == [not constant] * 2 and function.param_names == ("weight", "bias")
        assert isinstance(function, FRONT[lib].FunctionalModule) and net.weight.requires_grad
        x = lib.arange(12.0).view(4, 3)
        gradients = lib.func.grad(lambda given, f=function, x=x: f(given, x).square().sum())(params)
        found.append([function(params, x), *gradients])
        with pytest.raises(RuntimeError):  # without parameters there are no elements
            function.stateless_model(x).tolist()
    for one, other in zip(*found):
        close(one, other)


def test_functions_of_parameters_and_buffers() -> None:
    found = []
    for lib in LIBS:
        net = filled(lib, Tied(lib)).eval()
        with pytest.warns(FutureWarning):
            function, params, buffers = FRONT[lib].make_functional_with_buffers(net)
        assert function.all_names_map["0.weight"] == ["0.weight", "2.weight"] and len(params) == 5 and len(buffers) == 3
        x = lib.arange(12.0).view(4, 3)
        first = function(params, buffers, x)
        assert lib.allclose(first, net(x)) and not first.isnan().any()
        found.append([first, function([2 * p for p in params], buffers, x)])
        with pytest.warns(FutureWarning):
            together = FRONT[lib].combine_state_for_ensemble([filled(lib, Tied(lib)).eval() for _ in range(3)])
        assert [tuple(p.shape) for p in together[1]] == [(3, *p.shape) for p in params]
        found[-1].append(lib.vmap(together[0], (0, 0, None))(together[1], together[2], x))
    for one, other in zip(*found):
        close(one, other)


WRONG = {
    "buffers": lambda lib: FRONT[lib].make_functional(lib.nn.BatchNorm1d(2)),
    "no_models": lambda lib: FRONT[lib].combine_state_for_ensemble([]),
    "modes": lambda lib: FRONT[lib].combine_state_for_ensemble([lib.nn.ReLU(), lib.nn.ReLU().eval()]),
    "classes": lambda lib: FRONT[lib].combine_state_for_ensemble([lib.nn.ReLU(), lib.nn.Tanh()]),
    "budget_kind": lambda lib: lib.autograd.graph.region_activation_memory_budget(True),
    "budget_size": lambda lib: lib.autograd.graph.region_activation_memory_budget(1.5),
    "budget_eager": lambda lib: lib.autograd.graph.region_activation_memory_budget(0.5),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_calls(what: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mine, wanted = both(WRONG[what])
    assert type(mine) is type(wanted) and str(mine) == str(wanted)


def test_a_budget_in_a_compiled_function() -> None:
    def f(x: Any) -> Any:
        with nt.autograd.graph.region_activation_memory_budget(0.3):
            return x.sin().cos()

    x = nt.arange(3.0)
    assert nt.compile(f, fullgraph=True)(x).equal(x.sin().cos())


def test_report_of_the_machine() -> None:
    from narthex.utils import collect_env as ours
    from torch.utils import collect_env

    theirs = collect_env.get_env_info()
    mine = ours.get_env_info()
    assert mine._fields == theirs._fields
    for name in ("os", "gcc_version", "cmake_version", "libc_version", "python_version", "python_platform", "cpu_info"):
        assert getattr(mine, name) == getattr(theirs, name), name
    same = collect_env.SystemEnv(**{name: f"{name} 1" for name in theirs._fields})
    assert ours.pretty_str(same) == collect_env.pretty_str(same)
    command = [sys.executable, "-m", "narthex", "run", "-m", "torch.utils.collect_env"]
    told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    assert told.startswith("Collecting environment information...\nPyTorch version: 2.13.0 (Narthex ")
