"""Parametrizations, weight and spectral norm, pruning, fusion: PyTorch's numbers, state_dicts, texts and errors."""

import copy
import pickle
import warnings

import narthex as nt
import pytest
import torch
import torch.nn.utils.prune
from both import close, over, same

BOTH = (nt, torch)


def seeded(make):
    """(Narthex's, PyTorch's) of one seed."""
    made = []
    for t in BOTH:
        t.manual_seed(3)
        made.append(make(t))
    return made


def alike(mine, theirs, x=None, rtol=1e-4):
    """Same text, keys and tensors; same results and gradients at `x`."""
    assert str(mine) == str(theirs)
    a, b = mine.state_dict(), theirs.state_dict()
    assert list(a) == list(b)
    for key, value in b.items():
        close(a[key], value, rtol, 1e-5)
    assert [name for name, _ in mine.named_parameters()] == [name for name, _ in theirs.named_parameters()]
    if x is None:
        return
    got, wanted = mine(over(x)), theirs(x)
    close(got, wanted, rtol, 1e-5)
    got.sin().sum().backward(), wanted.sin().sum().backward()
    for (name, p), q in zip(mine.named_parameters(), theirs.parameters(), strict=True):
        assert (p.grad is None) == (q.grad is None), name
        if q.grad is not None:
            close(p.grad, q.grad, 1e-3, 1e-5)


def symmetric(t):
    class Symmetric(t.nn.Module):
        def forward(self, x):
            return x.triu() + x.triu(1).transpose(-1, -2)

        def right_inverse(self, a):
            return a.triu()

    return Symmetric()


def rank_one(t):
    class RankOne(t.nn.Module):
        def forward(self, x, y):
            return x.unsqueeze(-1) @ y.unsqueeze(-2)

        def right_inverse(self, z):
            return z[:, 0].clone(), z[0].clone()

    return RankOne()


MADE = {
    "symmetric": lambda t: t.nn.utils.parametrize.register_parametrization(
        t.nn.Linear(4, 4), "weight", symmetric(t)),
    "two": lambda t: t.nn.utils.parametrize.register_parametrization(
        t.nn.utils.parametrize.register_parametrization(t.nn.Linear(4, 4), "weight", symmetric(t)), "weight",
        t.nn.Identity()),
    "rank one": lambda t: t.nn.utils.parametrize.register_parametrization(
        t.nn.Linear(4, 4), "weight", rank_one(t)),
    "and bias": lambda t: t.nn.utils.parametrize.register_parametrization(
        t.nn.utils.parametrize.register_parametrization(t.nn.Linear(4, 4), "weight", symmetric(t)), "bias",
        t.nn.Identity()),
    "weight_norm": lambda t: t.nn.utils.parametrizations.weight_norm(t.nn.Linear(4, 3)),
    "weight_norm whole": lambda t: t.nn.utils.parametrizations.weight_norm(t.nn.Linear(4, 3), dim=None),
    "weight_norm 1": lambda t: t.nn.utils.parametrizations.weight_norm(t.nn.Linear(4, 3), dim=1),
    "spectral_norm": lambda t: t.nn.utils.parametrizations.spectral_norm(t.nn.Linear(4, 3), n_power_iterations=2),
    "spectral_norm bias": lambda t: t.nn.utils.parametrizations.spectral_norm(t.nn.Linear(4, 3), "bias"),
    "orthogonal": lambda t: t.nn.utils.parametrizations.orthogonal(t.nn.Linear(4, 4)),
    "orthogonal tall": lambda t: t.nn.utils.parametrizations.orthogonal(t.nn.Linear(4, 6)),
    "orthogonal wide": lambda t: t.nn.utils.parametrizations.orthogonal(t.nn.Linear(4, 3)),
    "cayley": lambda t: t.nn.utils.parametrizations.orthogonal(t.nn.Linear(4, 3), orthogonal_map="cayley"),
    "matrix_exp": lambda t: t.nn.utils.parametrizations.orthogonal(t.nn.Linear(4, 3), orthogonal_map="matrix_exp"),
    "householder": lambda t: t.nn.utils.parametrizations.orthogonal(
        t.nn.Linear(4, 3), orthogonal_map="householder", use_trivialization=False),
}  # fmt: skip


@pytest.mark.parametrize("made", MADE)
def test_parametrizations(made):
    mine, theirs = seeded(MADE[made])
    x = torch.randn(5, 4)
    alike(mine, theirs, x)
    alike(copy.deepcopy(mine), copy.deepcopy(theirs))
    for leave in (True, False):
        ends = []
        for t, module in zip(BOTH, seeded(MADE[made]), strict=True):
            try:
                for name in list(module.parametrizations):
                    t.nn.utils.parametrize.remove_parametrizations(module, name, leave)
                ends.append(module)
            except ValueError as error:
                ends.append(str(error))
        if isinstance(ends[1], str):
            assert ends[0] == ends[1]
        else:
            assert type(ends[0]) is nt.nn.Linear
            alike(*ends)


@pytest.mark.parametrize("wrap", ["weight_norm", "spectral_norm"])
@pytest.mark.parametrize("layer", ["Conv2d", "ConvTranspose2d"])
def test_images(wrap, layer):
    x = torch.randn(2, 4, 5, 5)
    mine, theirs = seeded(lambda t: getattr(t.nn.utils.parametrizations, wrap)(getattr(t.nn, layer)(4, 3, 2)))
    alike(mine, theirs, x)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        mine, theirs = seeded(lambda t: getattr(t.nn.utils, wrap)(getattr(t.nn, layer)(4, 3, 2)))
    alike(mine, theirs, x)
    alike(mine, theirs, x)
    theirs.eval(), mine.eval()
    close(mine(over(x)), theirs(x), 1e-4, 1e-5)
    for t, module in zip(BOTH, (mine, theirs), strict=True):
        getattr(t.nn.utils, "remove_" + wrap)(module)
    alike(mine, theirs)
    assert not mine._forward_pre_hooks and not mine._has_hooks


def test_cached_and_assigned():
    calls = {}
    for t in BOTH:

        class Counted(t.nn.Module):
            def forward(self, x, t=t):
                calls[t] = calls.get(t, 0) + 1
                return x * 2

            def right_inverse(self, y):
                return y / 2

        layer = t.nn.utils.parametrize.register_parametrization(t.nn.Linear(2, 2), "weight", Counted())
        before = calls[t]
        with t.nn.utils.parametrize.cached():
            layer(t.ones(2)), layer(t.ones(2))
            with t.nn.utils.parametrize.cached():
                layer(t.ones(2))
            layer(t.ones(2))
        layer(t.ones(2))
        assert calls[t] - before == 2
        original = layer.parametrizations.weight.original
        layer.weight = t.ones(2, 2)
        assert layer.parametrizations.weight.original is original and original.tolist() == [[0.5, 0.5], [0.5, 0.5]]
        assert layer.weight.tolist() == [[1.0, 1.0], [1.0, 1.0]]
        parametrize = t.nn.utils.parametrize
        assert parametrize.is_parametrized(layer) and parametrize.is_parametrized(layer, "weight")
        assert not parametrize.is_parametrized(layer, "bias")
        assert parametrize.type_before_parametrizations(layer) is t.nn.Linear
        other = parametrize.transfer_parametrizations_and_params(layer, t.nn.Linear(2, 2))
        assert other.parametrizations.weight.original is original and other.weight.tolist() == layer.weight.tolist()
        with pytest.raises(RuntimeError, match="Serialization of parametrized modules is only supported"):
            pickle.dumps(layer)


def test_trained_and_compiled():
    x = torch.randn(6, 4)
    for name in ("weight_norm", "spectral_norm", "orthogonal"):
        ends = []
        for t in BOTH:
            t.manual_seed(0)
            layer = getattr(t.nn.utils.parametrizations, name)(t.nn.Linear(4, 4))
            optimizer = t.optim.SGD(layer.parameters(), 0.1)
            data = x if t is torch else over(x)
            for _ in range(3):
                optimizer.zero_grad()
                layer(data).square().sum().backward()
                optimizer.step()
            layer.eval()
            ends.append(layer)
        alike(*ends, rtol=1e-3)
        close(nt.compile(ends[0])(over(x)), ends[1](x), 1e-3, 1e-4)


def test_old_state_dicts():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        old = nt.nn.utils.weight_norm(nt.nn.Linear(3, 2))
    new = nt.nn.utils.parametrizations.weight_norm(nt.nn.Linear(3, 2))
    assert not new.load_state_dict(old.state_dict()).missing_keys
    same(new(nt.ones(3)), over(old(nt.ones(3))))
    mine, theirs = seeded(lambda t: t.nn.utils.spectral_norm(t.nn.Linear(2, 3)))
    for module, t in ((mine, nt), (theirs, torch)):
        module(t.ones(2))
        state = module.state_dict()
        assert state._metadata[""]["spectral_norm"] == {"weight.version": 1}
        state["weight"] = state["weight_orig"] / 2
        del state["weight_v"], state._metadata[""]["spectral_norm"]
        module.load_state_dict(state)
    alike(mine, theirs)


def wrong_shape(t):
    class Wrong(t.nn.Module):
        def forward(self, x):
            return x[0]

    return Wrong()


MISTAKES = {
    "name": lambda t: t.nn.utils.parametrize.register_parametrization(t.nn.Linear(2, 2), "nothing", symmetric(t)),
    "shape": lambda t: t.nn.utils.parametrize.register_parametrization(t.nn.Linear(2, 2), "weight", wrong_shape(t)),
    "second shape": lambda t: t.nn.utils.parametrize.register_parametrization(
        MADE["symmetric"](t), "weight", wrong_shape(t)),
    "not there": lambda t: t.nn.utils.parametrize.remove_parametrizations(t.nn.Linear(2, 2), "weight"),
    "twice": lambda t: t.nn.utils.spectral_norm(t.nn.utils.spectral_norm(t.nn.Linear(2, 2))),
    "never": lambda t: t.nn.utils.remove_weight_norm(t.nn.Linear(2, 2)),
    "never spectral": lambda t: t.nn.utils.remove_spectral_norm(t.nn.Linear(2, 2)),
    "iterations": lambda t: t.nn.utils.parametrizations.spectral_norm(t.nn.Linear(2, 2), n_power_iterations=0),
    "dimension": lambda t: t.nn.utils.parametrizations.spectral_norm(t.nn.Linear(2, 2), dim=4),
    "map": lambda t: t.nn.utils.parametrizations.orthogonal(t.nn.Linear(2, 2), orthogonal_map="x"),
    "vector": lambda t: t.nn.utils.parametrizations.orthogonal(t.nn.Linear(2, 2), "bias"),
    "fusion": lambda t: t.nn.utils.fuse_conv_bn_eval(t.nn.Conv1d(1, 1, 1), t.nn.BatchNorm1d(1)),
    "skip_init": lambda t: t.nn.utils.skip_init(dict),
    "skip_init of no device": lambda t: t.nn.utils.skip_init(t.nn.ReLU),
    "strict": lambda t: t.nn.utils.stateless.functional_call(
        t.nn.Linear(2, 2), {"w": t.ones(1)}, t.ones(2), strict=True),
    "amount": lambda t: t.nn.utils.prune.l1_unstructured(t.nn.Linear(2, 2), "weight", 1.5),
    "amount of a kind": lambda t: t.nn.utils.prune.l1_unstructured(t.nn.Linear(2, 2), "weight", "x"),
    "too many": lambda t: t.nn.utils.prune.l1_unstructured(t.nn.Linear(2, 2), "weight", 9),
    "structured vector": lambda t: t.nn.utils.prune.random_structured(t.nn.Linear(2, 2), "bias", 1, 0),
    "structured dim": lambda t: t.nn.utils.prune.ln_structured(t.nn.Linear(2, 2), "weight", 1, 2, 5),
    "not pruned": lambda t: t.nn.utils.prune.remove(t.nn.Linear(2, 2), "weight"),
    "scores": lambda t: t.nn.utils.prune.l1_unstructured(t.nn.Linear(2, 2), "weight", 1, t.ones(3)),
    "global": lambda t: t.nn.utils.prune.global_unstructured(
        [(t.nn.Linear(2, 2), "weight")], t.nn.utils.prune.RandomStructured, amount=1),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_mistakes(mistake):
    with pytest.raises(Exception) as theirs:  # noqa: PT011  (whichever PyTorch raises)
        MISTAKES[mistake](torch)
    with pytest.raises(type(theirs.value)) as mine:
        MISTAKES[mistake](nt)
    assert str(mine.value).replace("narthex.nn.", "torch.nn.") == str(theirs.value)


PRUNED = {
    "identity": lambda p, m: p.identity(m, "weight"),
    "random": lambda p, m: p.random_unstructured(m, "weight", 0.4),
    "l1": lambda p, m: p.l1_unstructured(m, "weight", 5),
    "channels": lambda p, m: p.random_structured(m, "weight", 2, 0),
    "norms": lambda p, m: p.ln_structured(m, "weight", 0.5, 2, 1),
    "norms, negative": lambda p, m: p.ln_structured(m, "weight", 1, float("inf"), -1),
    "twice": lambda p, m: p.l1_unstructured(p.random_structured(m, "weight", 1, 0), "weight", 0.5),
    "three times": lambda p, m: p.ln_structured(p.l1_unstructured(p.l1_unstructured(m, "weight", 2), "weight", 2),
                                                "weight", 1, 1, 0),
    "all": lambda p, m: p.global_unstructured([(m, "weight"), (m, "bias")], p.L1Unstructured, amount=0.3) or m,
    "bias": lambda p, m: p.l1_unstructured(m, "bias", 0),
}  # fmt: skip


@pytest.mark.parametrize("how", PRUNED)
def test_prune(how):
    mine, theirs = seeded(lambda t: PRUNED[how](t.nn.utils.prune, t.nn.Linear(4, 6)))
    alike(mine, theirs, torch.randn(5, 4))
    for t, module in zip(BOTH, (mine, theirs), strict=True):
        assert t.nn.utils.prune.is_pruned(t.nn.Sequential(module))
        for name in ("weight", "bias"):
            if hasattr(module, name + "_mask"):
                t.nn.utils.prune.remove(module, name)
        assert not t.nn.utils.prune.is_pruned(module)
    alike(mine, theirs)


@pytest.mark.parametrize("bias", [True, False])
def test_fusion(bias):
    x = torch.randn(3, 2, 6)

    def made(t, layer, transpose=False):
        t.manual_seed(1)
        norm = t.nn.BatchNorm1d(4)
        norm.running_mean.uniform_(), norm.running_var.uniform_(0.5, 2)
        t.nn.init.uniform_(norm.weight), t.nn.init.uniform_(norm.bias)
        if layer == "Linear":
            return t.nn.utils.fuse_linear_bn_eval(t.nn.Linear(6, 4, bias=bias).eval(), norm.eval())
        return t.nn.utils.fuse_conv_bn_eval(getattr(t.nn, layer)(2, 4, 3, bias=bias).eval(), norm.eval(), transpose)

    for layer, transpose in (("Linear", False), ("Conv1d", False), ("ConvTranspose1d", True)):
        alike(made(nt, layer, transpose), made(torch, layer, transpose), x)


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_functional_call():
    for t in BOTH:
        layer = t.nn.Sequential(t.nn.Linear(2, 2, bias=False), t.nn.BatchNorm1d(2))
        call = t.nn.utils.stateless.functional_call
        mean = t.zeros(2)
        given = {"0.weight": t.eye(2) * 3, "1.running_mean": mean}
        before = layer[0].weight
        got = call(layer.eval(), given, (t.ones(1, 2),))
        assert got.tolist()[0] == pytest.approx([3 / (1 + 1e-5) ** 0.5] * 2) and layer[0].weight is before
        tied = t.nn.Linear(2, 2, bias=False)
        tied.again = tied.weight
        assert call(tied, {"again": t.zeros(2, 2)}, t.ones(2)).tolist() == [0, 0]
        assert call(tied, {"again": t.zeros(2, 2)}, t.ones(2), tie_weights=False).tolist() != [0, 0]
        with pytest.raises(ValueError, match="functional_call got multiple values for keys"):
            call(tied, {"again": t.zeros(2, 2), "weight": t.ones(2, 2)}, t.ones(2))
        assert call(tied, {"nothing": t.ones(1)}, t.ones(2)).shape == (2,)


def test_small_ones():
    for t in BOTH:
        t.manual_seed(1)
        layer = t.nn.utils.skip_init(t.nn.Linear, 3, 4)
        first = t.rand(1)
        t.manual_seed(1)
        assert first.item() == t.rand(1).item() and layer.weight.shape == (4, 3)
        module = t.nn.Sequential(t.nn.Conv2d(4, 4, 3), t.nn.Linear(2, 2))
        changed = t.nn.utils.convert_conv2d_weight_memory_format(module, t.channels_last)
        assert changed is module and module[0].weight.is_contiguous(memory_format=t.channels_last)
        w = t.nn.Parameter(t.ones(4))
        w.grad = t.ones(4) * 3
        t.nn.utils.clip_grads_with_norm_([w], 1.0, t.nn.utils.get_total_norm([w.grad]))
        assert w.grad.norm().item() == pytest.approx(1, rel=1e-5)
        wrapped = t.nn.DataParallel(t.nn.Linear(2, 2))
        assert list(wrapped.state_dict()) == ["module.weight", "module.bias"] and wrapped(t.ones(1, 2)).shape == (1, 2)
        state = wrapped.state_dict()
        t.nn.modules.utils.consume_prefix_in_state_dict_if_present(state, "module.")
        assert list(state) == ["weight", "bias"] and list(state._metadata) == [""]
