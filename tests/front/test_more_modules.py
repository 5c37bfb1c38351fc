"""Transformers, lazy modules, bags, the adaptive softmax, hooks of all modules: as PyTorch's."""

import copy
import pickle
import warnings

import narthex as nt
import pytest
import torch
from both import close, over, same

BOTH = (nt, torch)


def seeded(make):
    made = []
    for t in BOTH:
        t.manual_seed(3)
        made.append(make(t))
    return made


def alike(mine, theirs, *inputs, **options):
    """Same text and keys; same results and gradients."""
    assert str(mine) == str(theirs) and list(mine.state_dict()) == list(theirs.state_dict())
    for key, value in theirs.state_dict().items():
        close(mine.state_dict()[key], value, 1e-5, 1e-6)
    if not inputs:
        return
    given = {name: over(value) if isinstance(value, torch.Tensor) else value for name, value in options.items()}
    nt.manual_seed(5), torch.manual_seed(5)
    got, wanted = mine(*map(over, inputs), **given), theirs(*inputs, **options)
    got, wanted = (sum(x.sin().sum() for x in r) if isinstance(r, tuple) else r for r in (got, wanted))
    close(got, wanted, 1e-4, 1e-5)
    assert got.requires_grad == wanted.requires_grad
    if wanted.requires_grad:
        got.sin().sum().backward(), wanted.sin().sum().backward()
    for (name, p), q in zip(mine.named_parameters(), theirs.parameters(), strict=True):
        assert (p.grad is None) == (q.grad is None), name
        if q.grad is not None:
            close(p.grad, q.grad, 1e-3, 1e-5)


WAYS = [{}, {"norm_first": True}, {"batch_first": True, "activation": "gelu"}, {"bias": False}]


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("masks", [False, True])
def test_transformer(way, masks):
    src, tgt = torch.randn(5, 5, 8), torch.randn(5, 5, 8)
    options = {}
    if masks:
        padding = torch.zeros(5, 5, dtype=torch.bool)
        padding[1, 3:] = True
        causal = torch.nn.Transformer.generate_square_subsequent_mask(5)
        same(nt.nn.Transformer.generate_square_subsequent_mask(5), causal)
        options = {"tgt_mask": causal, "tgt_is_causal": True, "src_key_padding_mask": padding,
                   "memory_key_padding_mask": padding, "src_mask": torch.zeros(5, 5).bool()}  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        mine, theirs = seeded(lambda t: t.nn.Transformer(8, 2, 2, 2, 16, **way))
        alike(mine, theirs, src, tgt, **options)
        alike(mine.decoder, theirs.decoder, src, tgt)
    assert mine.decoder.layers[0].norm1.eps == theirs.decoder.layers[0].norm1.eps


def test_transformer_mistakes():
    for wrong in (
        lambda t: t.nn.Transformer(8, 2, 1, 1, 8)(t.ones(2, 3, 8), t.ones(2, 4, 8)),
        lambda t: t.nn.Transformer(8, 2, 1, 1, 8)(t.ones(2, 3, 7), t.ones(2, 3, 8)),
        lambda t: t.nn.TransformerDecoderLayer(8, 2, activation="x"),
    ):
        said = []
        for t in BOTH:
            with pytest.raises(RuntimeError) as error:
                wrong(t)
            said.append(str(error.value))
        assert said[0] == said[1]


LAZY = {
    "LazyLinear": (lambda n: n.LazyLinear(3), (2, 5)),
    "LazyLinear without bias": (lambda n: n.LazyLinear(3, bias=False), (2, 5)),
    "LazyConv1d": (lambda n: n.LazyConv1d(4, 3, padding=1), (2, 3, 6)),
    "LazyConv2d": (lambda n: n.LazyConv2d(4, 3, groups=2), (2, 4, 6, 6)),
    "LazyConv2d unbatched": (lambda n: n.LazyConv2d(4, 3, bias=False), (4, 6, 6)),
    "LazyConv3d": (lambda n: n.LazyConv3d(2, 2), (1, 3, 3, 3, 3)),
    "LazyConvTranspose1d": (lambda n: n.LazyConvTranspose1d(4, 3, output_padding=1, stride=2), (2, 3, 6)),
    "LazyConvTranspose2d": (lambda n: n.LazyConvTranspose2d(4, 2, groups=2), (2, 4, 3, 3)),
    "LazyConvTranspose3d": (lambda n: n.LazyConvTranspose3d(2, 2), (1, 3, 3, 3, 3)),
    "LazyBatchNorm1d": (lambda n: n.LazyBatchNorm1d(), (4, 3)),
    "LazyBatchNorm2d": (lambda n: n.LazyBatchNorm2d(affine=False), (4, 3, 2, 2)),
    "LazyBatchNorm3d": (lambda n: n.LazyBatchNorm3d(track_running_stats=False), (4, 3, 2, 2, 2)),
    "LazyInstanceNorm1d": (lambda n: n.LazyInstanceNorm1d(), (4, 3, 5)),
    "LazyInstanceNorm2d": (lambda n: n.LazyInstanceNorm2d(momentum=0.3), (4, 3, 2, 2)),
    "LazyInstanceNorm3d": (lambda n: n.LazyInstanceNorm3d(), (4, 3, 2, 2, 2)),
}


@pytest.mark.parametrize("lazy", LAZY)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_lazy(lazy):
    make, shape = LAZY[lazy]
    mine, theirs = seeded(lambda t: make(t.nn))
    assert str(mine) == str(theirs) and list(mine.state_dict()) == list(theirs.state_dict())
    assert mine.has_uninitialized_params() == theirs.has_uninitialized_params()
    assert [str(p) for p in mine.parameters()] == [str(p) for p in theirs.parameters()]
    copied = copy.deepcopy(mine)
    x = torch.randn(shape)
    alike_after = []
    for t, module in zip(BOTH, (mine, theirs), strict=True):
        t.manual_seed(4)
        module(over(x) if t is nt else x)
        alike_after.append(module)
    alike(*alike_after, x)
    assert type(mine).__name__ == type(theirs).__name__ == lazy.split()[0].removeprefix("Lazy")
    assert not mine._forward_pre_hooks and not mine._load_state_dict_pre_hooks
    copied.load_state_dict(mine.state_dict())
    if list(copied.parameters()):
        assert not copied.has_uninitialized_params()
    if "InstanceNorm" not in lazy:  # which asks for num_features that nobody has told it, in PyTorch too
        close(copied.eval()(over(x)), theirs.eval()(x), 1e-4, 1e-5)


def test_lazy_mistakes():
    said = []
    for t in BOTH:
        texts = []
        layer = t.nn.LazyConv2d(3, 2)
        for wrong in (
            lambda t=t, layer=layer: layer(t.ones(2, 2)),
            lambda layer=layer: layer.weight.shape,
            lambda layer=layer: layer.weight.share_memory_(),
            lambda t=t: t.nn.LazyConv2d(4, 2, groups=2)(t.ones(1, 3, 3, 3)),
            lambda t=t, layer=layer: t.nn.Conv2d(2, 3, 2).load_state_dict(layer.state_dict()),
        ):
            with pytest.raises((RuntimeError, ValueError)) as error:
                wrong()
            texts.append(str(error.value))
        assert str(pickle.loads(pickle.dumps(layer.weight))) == "<UninitializedParameter>"
        said.append(texts)
    assert said[0][:4] == said[1][:4]
    assert "Can't access the shape of an uninitialized parameter" in said[0][4]


BAGS = {
    "rows": ({}, None),
    "sum": ({"mode": "sum"}, [0, 2, 2, 5]),
    "mean": ({"mode": "mean"}, [0, 2, 2, 5]),
    "max": ({"mode": "max"}, [0, 2, 2, 5]),
    "max of rows": ({"mode": "max"}, None),
    "last": ({"mode": "sum", "include_last_offset": True}, [0, 2, 5, 6]),
    "padding": ({"mode": "mean", "padding_idx": 2}, [0, 2, 2, 5]),
    "padding max": ({"mode": "max", "padding_idx": -3}, [0, 1, 2, 5]),
    "norm": ({"mode": "sum", "max_norm": 0.9}, [0, 2, 5]),
}


@pytest.mark.parametrize("bag", BAGS)
def test_embedding_bag(bag):
    options, offsets = BAGS[bag]
    mine, theirs = seeded(lambda t: t.nn.EmbeddingBag(5, 3, **options))
    numbers = torch.tensor([2, 1, 4, 2, 2, 0])
    if offsets is None:
        alike(mine, theirs, numbers.view(2, 3))
    else:
        alike(mine, theirs, numbers, torch.tensor(offsets))
    close(mine.weight, theirs.weight)
    if options.get("mode") == "sum" and not options.get("max_norm"):
        weights = torch.randn(6)
        a, b = over(weights).requires_grad_(), weights.clone().requires_grad_()
        got = mine(over(numbers), nt.tensor(offsets), a)
        wanted = theirs(numbers, torch.tensor(offsets), b)
        close(got, wanted)
        got.sin().sum().backward(), wanted.sin().sum().backward()
        close(a.grad, b.grad, 1e-4, 1e-6)


@pytest.mark.parametrize("wrong", ["offsets", "none", "dims", "mode", "weights", "first", "last", "per sample"])
def test_bag_mistakes(wrong):
    said = []
    for t in BOTH:
        w, x = t.ones(3, 2), t.tensor([0, 1])
        calls = {
            "offsets": lambda f, t=t, w=w, x=x: f(x.view(1, 2), w, t.tensor([0])),
            "none": lambda f, w=w, x=x: f(x, w),
            "dims": lambda f, w=w, x=x: f(x.view(1, 1, 2), w),
            "mode": lambda f, w=w, x=x: f(x.view(1, 2), w, mode="x"),
            "weights": lambda f, t=t, w=w, x=x: f(x, w, t.tensor([0]), per_sample_weights=t.ones(3)),
            "first": lambda f, t=t, w=w, x=x: f(x, w, t.tensor([1])),
            "last": lambda f, t=t, w=w, x=x: f(x, w, t.tensor([0, 5])),
            "per sample": lambda f, t=t, w=w, x=x: f(x, w, t.tensor([0]), per_sample_weights=t.ones(2)),
        }
        with pytest.raises((ValueError, RuntimeError, NotImplementedError)) as error:
            calls[wrong](t.nn.functional.embedding_bag)
        said.append((error.type, str(error.value).replace("narthex._tensor.Tensor", "torch.Tensor")))
    assert said[0][0] is said[1][0] and said[1][1].startswith(said[0][1])  # PyTorch prints the offsets, too


def test_embedding_max_norm():
    mine, theirs = seeded(lambda t: t.nn.Embedding(5, 3, padding_idx=1, max_norm=0.8, norm_type=1.0))
    alike(mine, theirs, torch.tensor([[0, 3], [1, 0]]))
    close(mine.weight, theirs.weight)


@pytest.mark.parametrize("bias", [False, True])
def test_adaptive_softmax(bias):
    mine, theirs = seeded(lambda t: t.nn.AdaptiveLogSoftmaxWithLoss(16, 20, [5, 10, 15], 2.0, head_bias=bias))
    x, y = torch.randn(8, 16), torch.tensor([0, 4, 6, 19, 12, 9, 5, 17])
    alike(mine, theirs, x, y)
    close(mine.log_prob(over(x)), theirs.log_prob(x), 1e-4, 1e-5)
    same(mine.predict(over(x)), theirs.predict(x))
    alike(mine, theirs, x[0], y[0])
    alike(mine, theirs, x[:1], y[:1])
    said = []
    for t in BOTH:
        texts = []
        layer = t.nn.AdaptiveLogSoftmaxWithLoss(4, 6, [2])
        for wrong in (
            lambda t=t: t.nn.AdaptiveLogSoftmaxWithLoss(4, 6, []),
            lambda t=t: t.nn.AdaptiveLogSoftmaxWithLoss(4, 6, [3, 2]),
            lambda t=t: t.nn.AdaptiveLogSoftmaxWithLoss(4, 6, [6]),
            lambda t=t, layer=layer: layer(t.ones(2, 4), t.tensor([0, 9])),
            lambda t=t, layer=layer: layer(t.ones(2, 4), t.tensor([0])),
            lambda t=t, layer=layer: layer(t.ones(2, 4), t.tensor([[0]])),
            lambda t=t, layer=layer: layer(t.ones(2, 4), t.tensor(0)),
        ):
            with pytest.raises((ValueError, RuntimeError)) as error:
                wrong()
            texts.append(str(error.value))
        said.append(texts)
    assert said[0] == said[1]


def test_hooks_of_all_modules():
    seen = []
    for t in BOTH:
        of = t.nn.modules.module
        calls = []
        x = t.tensor([[1.0, 2.0]], requires_grad=True)
        t.manual_seed(0)
        model = t.nn.Sequential(t.nn.Linear(2, 2), t.nn.ReLU())
        handles = [
            of.register_module_forward_pre_hook(lambda m, a, calls=calls: calls.append(("pre", m._get_name()))),
            of.register_module_forward_hook(
                lambda m, a, k, r, calls=calls: calls.append(("after", m._get_name(), sorted(k))) or r * 2,
                with_kwargs=True),
            of.register_module_full_backward_hook(
                lambda m, i, o, calls=calls: calls.append(("backward", m._get_name(), [round(g.sum().item(), 4)
                                                                                      for g in (*i, *o)]))),
            of.register_module_full_backward_pre_hook(
                lambda m, o, calls=calls: calls.append(("backward pre", m._get_name()))),
        ]  # fmt: skip
        own = model[0].register_forward_hook(lambda m, a, r, calls=calls: calls.append(("own", len(calls))))
        result = model(x)
        result.sum().backward()
        calls.append([round(v, 4) for v in x.grad.flatten().tolist()])
        for handle in (*handles, own):
            handle.remove()
        n = len(calls)
        calls.append([round(v, 4) for v in model(x).flatten().tolist()])
        assert len(calls) == n + 1
        seen.append(calls)
    assert seen[0] == seen[1]
    assert type(nt.nn.Linear(2, 2))(2, 2)(nt.ones(2)).shape == (2,)


def test_global_hooks_that_are_always_called():
    for t in BOTH:
        seen = []

        class Raises(t.nn.Module):
            def forward(self):
                raise KeyError("x")

        handle = t.nn.modules.module.register_module_forward_hook(
            lambda m, a, r, seen=seen: seen.append(r), always_call=True
        )
        with pytest.raises(KeyError):
            Raises()()
        handle.remove()
        assert seen == [None]


def test_hooks_of_registrations():
    seen = []
    for t in BOTH:
        of, calls = t.nn.modules.module, []
        handles = [
            getattr(of, f"register_module_{kind}_registration_hook")(
                lambda m, name, value, kind=kind, calls=calls: calls.append((kind, m._get_name(), name))
            )
            for kind in ("parameter", "buffer", "module")
        ]
        model = t.nn.Sequential(t.nn.BatchNorm1d(2))
        model.add = t.nn.ReLU()
        model.register_buffer("b", t.ones(1))
        model.b = t.zeros(1)
        model.p = t.nn.Parameter(t.ones(1))
        for handle in handles:
            handle.remove()
        model.q = t.nn.Parameter(t.ones(1))
        replace = of.register_module_parameter_registration_hook(lambda m, name, value, t=t: t.nn.Parameter(value * 2))
        model.r = t.nn.Parameter(t.ones(1))
        replace.remove()
        calls.append(model.r.item())
        seen.append(calls)
    assert seen[0] == seen[1]


def test_hooks_are_found_as_they_were_given():
    for t in BOTH:
        layer = t.nn.Linear(2, 2)

        def hook(module, args):
            return None

        layer.register_forward_pre_hook(hook)
        layer.register_forward_hook(lambda m, a, k, r: None, with_kwargs=True)
        assert list(layer._forward_pre_hooks.values()) == [hook] and len(layer._forward_hooks_with_kwargs) == 1
        copied = copy.deepcopy(layer)
        assert copied(t.ones(2)).shape == (2,)


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_old_names():
    for t in BOTH:
        with pytest.warns(FutureWarning, match="NLLLoss2d"):
            assert isinstance(t.nn.NLLLoss2d(), t.nn.NLLLoss)
        assert list(dict(t.nn.Container(a=t.nn.ReLU()).named_children())) == ["a"]


def test_copied_gradients():
    """Gradients of several parameters, whose Python objects come and go while they are copied."""
    model = nt.nn.Sequential(nt.nn.Linear(3, 4), nt.nn.Linear(4, 2))
    model(nt.ones(1, 3)).sum().backward()
    for p, q in zip(model.parameters(), copy.deepcopy(model).parameters(), strict=True):
        assert p.grad.tolist() == q.grad.tolist() and p.grad is not q.grad
