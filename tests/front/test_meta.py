"""Tensors on device meta: shapes without elements, and modules that are built of them."""

import copy
import pickle

import narthex
import pytest

torch = pytest.importorskip("torch")
BOTH = (torch, narthex)


def same(f):
    """What `f` gives on both sides, or the errors' types and first lines."""
    found = []
    for t in BOTH:
        try:
            found.append(f(t))
        except Exception as error:
            found.append((type(error).__name__, str(error).split("\n")[0]))
    assert found[1] == found[0]


def facts(x):
    return tuple(x.shape), x.stride(), str(x.dtype), str(x.device), x.is_meta, x.requires_grad


@pytest.mark.parametrize(
    "make",
    [
        lambda t: t.empty(2, 3, device="meta"),
        lambda t: t.zeros(2, device="meta", dtype=t.int32),
        lambda t: t.randn(3, device="meta"),
        lambda t: t.rand(2, 1, device="meta"),
        lambda t: t.arange(7, device="meta"),
        lambda t: t.full((2,), 3.0, device="meta"),
        lambda t: t.tensor([1, 2], device="meta"),
        lambda t: t.eye(3, device="meta"),
        lambda t: t.empty_strided((2, 3), (1, 2), device="meta"),
        lambda t: t.ones(2, 3).to("meta"),
        lambda t: t.ones(2, 3, device="meta").to(t.float64),
        lambda t: t.ones(3, device="meta").new_zeros(2, 2),
        lambda t: t.zeros_like(t.ones(2), device="meta"),
        lambda t: t.empty(2, 3, device="meta").t(),
        lambda t: t.empty(2, 3, device="meta")[:, 1:],
        lambda t: t.empty(2, 3, device="meta").view(6)[None],
        lambda t: t.empty(2, 3, device="meta") + t.empty(3, device="meta"),
        lambda t: t.empty(2, 3, device="meta").index_put(
            (t.ones(2, 3, device="meta") > 0,), t.ones((), device="meta")
        ),
        lambda t: t.empty(2, 3, device="meta") + t.ones(()),
        lambda t: t.empty(2, 3, device="meta") * 2.5,
        lambda t: t.empty(2, 3, device="meta") @ t.empty(3, 4, device="meta"),
        lambda t: t.empty(2, 3, device="meta").sum(0, keepdim=True),
        lambda t: t.cat([t.empty(2, 3, device="meta"), t.empty(1, 3, device="meta")]),
        lambda t: t.empty(2, 3, device="meta").softmax(-1),
        lambda t: t.empty(2, 3, device="meta").fill_(3).add_(1),
        lambda t: t.empty(2, 3, device="meta").copy_(t.ones(3)),
        lambda t: t.nn.functional.conv2d(t.empty(1, 3, 8, 8, device="meta"), t.empty(4, 3, 3, 3, device="meta")),
        lambda t: t.empty(2, 3, device="meta").clone(),
        lambda t: copy.deepcopy(t.empty(2, 3, device="meta", requires_grad=True)),
        lambda t: pickle.loads(pickle.dumps(t.empty(2, 3, device="meta").t())),
    ],
)
def test_shapes(make):
    same(lambda t: facts(make(t)))


@pytest.mark.parametrize(
    "ask",
    [
        lambda t: t.empty(1, device="meta").item(),
        lambda t: bool(t.empty(1, device="meta")),
        lambda t: t.empty(1, device="meta").cpu(),
        lambda t: t.empty(1, device="meta").to("cpu"),
        lambda t: t.ones(1).copy_(t.empty(1, device="meta")),
        lambda t: t.empty(2, device="meta").numpy(),
        lambda t: t.empty(2, device="meta") + t.ones(1, 1),
        lambda t: t.empty(2, device="meta").data_ptr(),
        lambda t: t.empty(2, device="meta").untyped_storage().nbytes(),
        lambda t: repr(t.empty(2, device="meta")),
        lambda t: repr(t.empty(2, device="meta", dtype=t.int8)),
        lambda t: repr(t.device("meta")),
        lambda t: t.device("meta").type,
        lambda t: t.nn.Linear(2, 2, device="meta").to("cpu"),
    ],
)
def test_answers(ask):
    same(ask)


def test_gradients_have_shapes():
    for t in BOTH:
        w = t.empty(4, 3, device="meta", requires_grad=True)
        (t.empty(2, 3, device="meta") @ w.t()).relu().sum().backward()
        assert facts(w.grad) == ((4, 3), w.grad.stride(), "torch.float32", "meta", True, False)


def test_models_are_built_without_memory():
    for t in BOTH:
        with t.device("meta"):
            model = t.nn.Sequential(t.nn.Linear(100000, 100000), t.nn.BatchNorm1d(100000), t.nn.ReLU())
        assert all(p.is_meta for p in model.parameters()) and model[1].running_mean.is_meta
        assert sum(p.numel() for p in model.parameters()) == 100000 * 100000 + 300000
        assert model(t.empty(5, 100000, device="meta")).shape == (5, 100000)


def test_to_empty_then_load():
    for t in BOTH:
        real = t.nn.Linear(3, 2)
        model = t.nn.Linear(3, 2, device="meta")
        assert model.to_empty(device="cpu") is model and not model.weight.is_meta
        model.load_state_dict(real.state_dict())
        assert model.weight.tolist() == real.weight.tolist()
        model.to("meta")
        assert model.bias.is_meta and model.weight.requires_grad


def test_load_with_assign_and_without():
    for t in BOTH:
        real = t.nn.Linear(3, 2)
        model = t.nn.Linear(3, 2, device="meta")
        with pytest.warns(UserWarning, match="for weight: copying from a non-meta parameter in the checkpoint"):
            model.load_state_dict(real.state_dict())
        assert model.weight.is_meta
        model.load_state_dict(real.state_dict(), assign=True)
        assert model(t.ones(3)).tolist() == real(t.ones(3)).tolist() and model.weight.requires_grad


def test_parameters_moved_by_hand():
    """As init_empty_weights does: each parameter is replaced when it is registered."""
    for t in BOTH:
        model = t.nn.Linear(3, 2)
        model._parameters["weight"] = t.nn.Parameter(model.weight.to("meta"))
        assert model.weight.is_meta and not model.bias.is_meta


def test_what_only_elements_say_raises():
    with pytest.raises((NotImplementedError, RuntimeError), match="nonzero"):
        narthex.empty(3, device="meta").nonzero()
