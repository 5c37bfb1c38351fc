"""Optimizers on other parameters for a while, hooks round functions, and switches of autograd, beside PyTorch."""

import copy

import narthex as nt
import pytest
import torch

BOTH = (nt, torch)


def stepped(m):
    parameters = [m.ones(2).requires_grad_(), m.ones(1).requires_grad_()]
    optimizer = m.optim.Adam(parameters, lr=0.1)
    for parameter in parameters:
        parameter.grad = m.ones_like(parameter)
    optimizer.step()
    return parameters, optimizer


def test_swapped_parameters_are_stepped():
    found = []
    for m in BOTH:
        parameters, optimizer = stepped(m)
        kept = [p.tolist() for p in parameters]
        state = copy.deepcopy(optimizer.state_dict())
        state["param_groups"][0]["lr"] = 0.5
        others = {"a": m.zeros(2), "b": m.zeros(1)}
        with pytest.raises(KeyError), m.optim.swap_in_optimizer_params_and_state(optimizer, others, state):
            assert optimizer.param_groups[0]["params"][1] is others["b"]
            for other in others.values():
                other.grad = m.ones_like(other)
            optimizer.step()
            raise KeyError
        assert [p.tolist() for p in parameters] == kept and optimizer.param_groups[0]["lr"] == 0.1
        assert optimizer.state[parameters[0]]["step"].item() == 1
        found.append([other.tolist() for other in others.values()])
        found[-1] += [state["state"][0]["step"].item(), state["state"][1]["exp_avg"].tolist()]
    assert found[0] == found[1]


WRONG = (
    lambda p, o: ({}, o.state_dict()),
    lambda p, o: ({"a": p[0], "b": p[1]}, {}),
    lambda p, o: ({"a": p[0], "b": p[1]}, {"state": {}, "param_groups": []}),
)


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_swapping_what_does_not_fit(number):
    texts = []
    for m in BOTH:
        parameters, optimizer = stepped(m)
        context = m.optim.swap_in_optimizer_params_and_state(optimizer, *WRONG[number](parameters, optimizer))
        with pytest.raises(RuntimeError) as error, context:
            pass
        texts.append(str(error.value))
    assert texts[0] == texts[1]


def test_swapping_needs_state():
    for m in BOTH:
        optimizer = m.optim.SGD([m.ones(1).requires_grad_()], lr=0.1)
        with pytest.raises(RuntimeError, match="requires initialized optimizer state"):
            with m.optim.swap_in_optimizer_params_and_state(optimizer, {}, optimizer.state_dict()):
                pass


def test_hooks_round_any_function():
    for m in BOTH:
        parameters, optimizer = stepped(m)
        seen = []
        optimizer.register_step_pre_hook(lambda o, args, kwargs, seen=seen: seen.append(("before", len(args))))
        optimizer.register_step_post_hook(lambda o, args, kwargs, seen=seen: seen.append("after"))
        run = m.optim.Optimizer.profile_hook_step(lambda self, x, seen=seen: seen.append(x))
        run(optimizer, 3)
        assert seen[1:] == [3, "after"] and seen[0][0] == "before"


def test_switches_of_autograd():
    for m in BOTH:
        for switch in (m.autograd.set_multithreading_enabled, m.autograd.grad_mode.enforce_grad_layout_policy):
            x = m.ones(2).requires_grad_()
            with switch(False):
                (x * 3).sum().backward()
            assert x.grad.tolist() == [3, 3]
            switch(True)


def test_classes_of_functions():
    for m in BOTH:
        function = m.autograd.function
        assert type(m.autograd.Function) is function.FunctionMeta

        class Twice(function.InplaceFunction):
            @staticmethod
            def forward(ctx, x):
                return x * 2

            @staticmethod
            def backward(ctx, grad):
                return grad * 2

        x = m.ones(2).requires_grad_()
        Twice.apply(x).sum().backward()
        assert x.grad.tolist() == [2, 2] and Twice(True).inplace and not Twice().inplace
