"""Hooks in the backward pass, hooks of states, members by name: what PyTorch's modules do, ours do."""

import narthex as nt
import numpy as np
import pytest
import torch

BOTH = [torch, nt]


def small(t):
    t.manual_seed(0)
    return t.nn.Sequential(t.nn.Linear(3, 4), t.nn.BatchNorm1d(4), t.nn.Linear(4, 2))


def close(a, b):
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("replace", [False, True])
def test_full_backward_hooks(replace):
    seen = {}
    for t in BOTH:
        model, calls = small(t).double(), []

        def hook(module, grad_input, grad_output, calls=calls):
            calls.append([None if g is None else g.clone() for g in (*grad_input, *grad_output)])
            return tuple(None if g is None else g * 2 for g in grad_input) if replace else None

        def pre(module, grad_output, calls=calls):
            calls.append([g.clone() for g in grad_output])
            return tuple(g * 3 for g in grad_output) if replace else None

        handles = [model[2].register_full_backward_hook(hook), model[2].register_full_backward_pre_hook(pre)]
        x = t.arange(6.0, dtype=t.float64).reshape(2, 3)
        model(x).square().sum().backward()
        handles.append(model[0].register_full_backward_hook(hook))  # its input has no gradient
        if not replace:
            model(x).sum().backward()
        for handle in handles:
            handle.remove()
        model(x).sum().backward()
        seen[t] = calls, [p.grad for p in model.parameters()]
    for mine, theirs in zip(seen[nt][0], seen[torch][0], strict=True):
        assert [g is None for g in mine] == [g is None for g in theirs]
        for a, b in zip(mine, theirs, strict=True):
            if a is not None:
                close(a, b)
    for a, b in zip(seen[nt][1], seen[torch][1], strict=True):
        close(a, b)


def test_forward_hooks_that_are_always_called():
    for t in BOTH:

        class Fails(t.nn.Module):
            def forward(self, x):
                raise ValueError("no")

        model, calls = Fails(), []
        model.register_forward_hook(lambda *a, calls=calls: calls.append(a[2]), always_call=True)
        model.register_forward_hook(lambda *a, calls=calls: calls.append("never"))
        with pytest.raises(ValueError, match="no"):
            model(t.ones(1))
        assert calls == [None]
        model = t.nn.Identity()
        model.register_forward_pre_hook(lambda m, a, k: 3, with_kwargs=True)
        with pytest.raises(RuntimeError, match="forward pre-hook must return None or a tuple of"):
            model(t.ones(1))


def test_states_that_do_not_fit():
    said = {}
    for t in BOTH:
        model, out = small(t), []
        state = model.state_dict()
        state["nobody"] = state.pop("0.bias")
        state["2.weight"] = t.ones(5, 5)
        state["1.bias"] = 3
        for strict in (True, False):
            with pytest.raises(RuntimeError) as error:
                model.load_state_dict(state, strict=strict)
            out.append(str(error.value).replace("narthex", "torch").replace("Tensor'>", "'>"))
        del state["2.weight"], state["1.bias"]
        out.append(repr(model.load_state_dict(state, strict=False)))
        out.append(repr(model.load_state_dict(model.state_dict())))
        out.append(dict(model.state_dict()._metadata))
        with pytest.raises(TypeError, match="Expected state_dict to be dict-like"):
            model.load_state_dict([1])
        said[t] = out
    assert said[nt] == said[torch]


def test_extra_state_hooks_and_assignment():
    seen = {}
    for t in BOTH:
        calls = []

        class Counts(t.nn.Linear):
            n = 3

            def get_extra_state(self):
                return {"n": self.n}

            def set_extra_state(self, state):
                self.n = state["n"]

        model = t.nn.Sequential(Counts(2, 2), t.nn.Linear(2, 1))
        model[0].register_state_dict_pre_hook(lambda m, prefix, keep, calls=calls: calls.append(("before", prefix)))
        model[0].register_state_dict_post_hook(lambda m, state, prefix, meta: state.update({prefix + "more": 1}))
        model[0].register_load_state_dict_pre_hook(lambda m, state, prefix, *rest: state.pop(prefix + "more"))
        model.register_load_state_dict_post_hook(lambda m, keys, calls=calls: calls.append(tuple(map(list, keys))))
        state = model.state_dict()
        calls.append(list(state))
        state["0._extra_state"] = {"n": 7}
        weight = state["1.weight"] = t.ones(1, 2)
        model.load_state_dict(state, assign=True)
        assert model[0].n == 7 and model[1].weight.data_ptr() == weight.data_ptr()
        assert isinstance(model[1].weight, t.nn.Parameter) and model[1].weight.requires_grad
        seen[t] = calls
    assert seen[nt] == seen[torch]


def test_members_by_name():
    for t in BOTH:
        model = small(t)
        assert model.get_parameter("0.weight") is model[0].weight
        assert model.get_buffer("1.running_mean") is model[1].running_mean
        for call, text in (
            (lambda m=model: m.get_parameter("0.nothing"), "Linear has no attribute `nothing`"),
            (lambda m=model: m.get_parameter("1.running_mean"), "`running_mean` is not an nn.Parameter"),
            (lambda m=model: m.get_buffer("0.weight"), "`weight` is not a buffer"),
            (lambda m=model, t=t: m.set_submodule("1.nothing", t.nn.ReLU(), strict=True), "no attribute `nothing`"),
        ):
            with pytest.raises(AttributeError, match=text):
                call()
        model.set_submodule("1", t.nn.ReLU())
        assert isinstance(model[1], t.nn.ReLU) and model._get_name() == "Sequential"
        assert model.to_empty(device="cpu")[0].weight.shape == (4, 3)


def test_buffers_by_assignment():
    for t in BOTH:
        model = t.nn.Module()
        model.a, model.b = t.nn.Buffer(t.ones(2)), t.nn.Buffer(t.zeros(1), persistent=False)
        assert isinstance(model.a, t.nn.Buffer) and not isinstance(t.ones(1), t.nn.Buffer)
        assert type(model.a) is t.Tensor and dict(model.named_buffers()).keys() == {"a", "b"}
        assert list(model.state_dict()) == ["a"]
        model.a = t.zeros(3)
        assert model.a.shape == (3,) and list(model.state_dict()) == ["a"]
