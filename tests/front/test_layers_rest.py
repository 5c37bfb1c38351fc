"""Layers that few programs use, beside PyTorch."""

import pickle

import narthex as nt
import pytest
import torch
from both import close, over, same


def outcome(function, module):
    try:
        return str(function(module))
    except Exception as error:
        return type(error).__name__, str(error)


def agree(function, *tensors, rtol=1e-5):
    """The same value and gradients on both sides from the same tensors of PyTorch."""
    theirs = [t.clone().requires_grad_(t.is_floating_point()) for t in tensors]
    mine = [over(t).requires_grad_(t.is_floating_point()) for t in tensors]
    ours, expected = function(nt, *mine), function(torch, *theirs)
    close(ours, expected, rtol=rtol)
    weights = torch.rand_like(expected.detach())
    (ours * over(weights)).sum().backward()
    (expected * weights).sum().backward()
    for one, other in zip(mine, theirs):
        if other.requires_grad:
            close(one.grad, other.grad, rtol=rtol, atol=1e-5)


@pytest.mark.parametrize("inplace", [False, True])
@pytest.mark.parametrize("training", [False, True])
def test_rrelu(training, inplace):
    x = torch.randn(7, 9)

    def call(m, x):
        m.manual_seed(3)
        return m.nn.RReLU(0.1, 0.4, inplace).train(training)(x * 1)

    agree(call, x)
    for m in (nt, torch):
        m.manual_seed(3)
    same(nt.rrelu(over(x), training=True), torch.rrelu(x, training=True))
    same(nt.rand(3), torch.rand(3))
    same(nt.nn.functional.rrelu_(over(x)), torch.nn.functional.rrelu_(x.clone()))


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
def test_cross_map(size):
    x = torch.rand(2, 8, 3, 2)
    module = nt.nn.CrossMapLRN2d(size, 0.3, 0.6, 2)
    close(module(over(x)), torch.nn.CrossMapLRN2d(size, 0.3, 0.6, 2)(x))
    if size > 2:
        agree(lambda m, x: m.nn.CrossMapLRN2d(size, 0.3, 0.6, 2)(x), x)
    else:
        results = [outcome(lambda m: m.nn.CrossMapLRN2d(size)(m.ones(1, 4, 1, 1).requires_grad_()).sum().backward(), m)
                   for m in (nt, torch)]  # fmt: skip
        assert results[0] == results[1]


LOSSES = (
    {},
    {"reduction": "sum"},
    {"reduction": "none"},
    {"label_smoothing": 0.1},
    {"ignore_index": 2},
)


@pytest.mark.parametrize("options", LOSSES, ids=str)
@pytest.mark.parametrize("inner", [(), (2, 3)], ids=str)
def test_linear_cross_entropy(inner, options):
    x, w, b = torch.randn(6, 4), torch.randn(5, *inner, 4), torch.randn(5, *inner)
    y, scale = torch.randint(0, 5, (6, *inner)), torch.rand(5)

    def call(m, x, w, b, y, scale):
        return m.nn.functional.linear_cross_entropy(x, w, y, linear_bias=b, weight=scale.detach(), **options)

    def through_module(m, x, y, scale):
        m.manual_seed(1)
        return m.nn.LinearCrossEntropyLoss(4, 5, out_features=inner, bias=True, weight=scale.detach(), **options)(x, y)

    theirs = [t.clone().requires_grad_() for t in (x, w, b)]
    mine = [over(t).requires_grad_() for t in (x, w, b)]
    ours, expected = call(nt, *mine, over(y), over(scale)), call(torch, *theirs, y, scale)
    close(ours, expected)
    ours.sum().backward()
    expected.sum().backward()
    for one, other in zip(mine, theirs):
        close(one.grad, other.grad, atol=1e-5)
    close(through_module(nt, over(x), over(y), over(scale)), through_module(torch, x, y, scale))


USES = (
    lambda m: m.nn.RReLU(),
    lambda m: m.nn.RReLU(0.1, 0.2, True),
    lambda m: m.nn.functional.rrelu(m.ones(2), 0.5, 0.2),
    lambda m: m.nn.functional.rrelu(m.ones(2), 0.5, 0.2, True),
    lambda m: m.nn.CrossMapLRN2d(3),
    lambda m: m.nn.CrossMapLRN2d(3)(m.ones(3, 3)),
    lambda m: m.nn.LinearCrossEntropyLoss(5, 10),
    lambda m: m.nn.LinearCrossEntropyLoss(5, 4, out_features=(2, 3), options=m.nn.LinearCrossEntropyOptions()),
    lambda m: list(m.nn.LinearCrossEntropyLoss(5, 10, bias=True, weight=m.ones(10)).state_dict()),
    lambda m: m.nn.LinearCrossEntropyLoss(4, 5, weight=m.ones(3)),
    lambda m: m.nn.LinearCrossEntropyOptions(chunking_method="x"),
    lambda m: m.nn.LinearCrossEntropyOptions(chunking_method="aspect_ratio:3"),
    lambda m: m.nn.LinearCrossEntropyOptions(acc_policy="x"),
    lambda m: m.nn.LinearCrossEntropyOptions(batch_chunk_size=0),
    lambda m: m.nn.LinearCrossEntropyOptions(acc_dtype=3),
    lambda m: m.nn.functional.linear_cross_entropy(m.ones(3, 4), m.ones(4), m.tensor([1])),
    lambda m: m.nn.functional.linear_cross_entropy(m.ones(3, 2, 4), m.ones(5, 4), m.tensor([1])),
    lambda m: m.nn.functional.linear_cross_entropy(m.ones(3, 4), m.ones(5, 3), m.tensor([1])),
    lambda m: m.nn.functional.linear_cross_entropy(m.ones(4), m.ones(5, 2, 4), m.tensor([1])),
    lambda m: m.nn.functional.linear_cross_entropy(m.ones(3, 4), m.ones(5, 4), m.ones(3, 5), ignore_index=3),
    lambda m: m.nn.functional.linear_cross_entropy(m.ones(1, 4), m.ones(5, 4), m.tensor([1]), linear_bias=m.ones(4)),
    lambda m: m.nn.functional.linear_cross_entropy(m.ones(1, 4), m.ones(5, 4), m.tensor([1]), reduction="x"),
    lambda m: sorted(m.nn.factory_kwargs({"device": "cpu", "dtype": None}).items(), key=str),
    lambda m: m.nn.factory_kwargs({"x": 1}),
    lambda m: m.nn.factory_kwargs({"factory_kwargs": {"dtype": 3}, "dtype": 4}),
    lambda m: m.nn.factory_kwargs(None),
    lambda m: m.nn.Linear(2, 2).ipu(),
    lambda m: m.nn.parallel.gather([m.ones(2)], "cpu"),
    lambda m: m.nn.parallel.scatter((1, "a", [2, {"k": 3}]), [0, 1]),
    lambda m: m.nn.parallel.replicate(m.nn.Linear(1, 1), [0]),
    lambda m: m.nn.parallel.replicate(m.nn.Linear(1, 1), ["cpu"]),
    lambda m: m.nn.parallel.parallel_apply([m.nn.Linear(1, 1)], [m.ones(1)]),
    lambda m: m.nn.attention.WARN_FOR_UNFUSED_KERNELS,
    lambda m: m.nn.attention.current_flash_attention_impl(),
)  # fmt: skip


@pytest.mark.parametrize("number", range(len(USES)))
def test_uses_and_errors(number):
    assert outcome(USES[number], nt) == outcome(USES[number], torch)


def test_older_functions():
    x, w, b = torch.randn(6, 2, 3), torch.randn(2, 3, 4), torch.randn(4)
    agree(lambda m, x, w, b: m.nn.functional.conv_tbc(x, w, b, 1), x, w, b)
    agree(lambda m, x: m.nn.functional.pdist(x, 1.5), torch.randn(4, 3))


def test_they_pickle():
    for module in (nt.nn.RReLU(), nt.nn.CrossMapLRN2d(3), nt.nn.LinearCrossEntropyLoss(2, 3)):
        assert repr(pickle.loads(pickle.dumps(module))) == repr(module)


def test_what_needs_other_devices_says_so():
    with pytest.raises(RuntimeError, match="scatter: .* CUDA"):
        nt.nn.parallel.scatter(nt.ones(2), [0])
    with pytest.raises(AssertionError, match="MTIA"):
        nt.nn.Linear(1, 1).mtia()
    with pytest.raises(ValueError, match="Unknown flash attention impl 'x'"):
        nt.nn.attention.activate_flash_attention_impl("x")
    with pytest.raises(NotImplementedError, match="flash attention"):
        nt.nn.attention.register_flash_attention_impl("x", register_fn=print)
    assert nt.nn.attention.list_flash_attention_impls() == []
