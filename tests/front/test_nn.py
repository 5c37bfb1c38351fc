"""Layers, losses, init: values and gradients equal PyTorch's from the same seed; texts and state_dicts are the same."""

import math
from collections import OrderedDict

import narthex as nt
import pytest
import torch
from both import close, needs, over, same

LAYERS = {
    "Linear": (lambda n: n.Linear(4, 3), (5, 4)),
    "Linear no bias": (lambda n: n.Linear(4, 3, bias=False), (5, 4)),
    "LayerNorm": (lambda n: n.LayerNorm(4), (5, 4)),
    "LayerNorm no bias": (lambda n: n.LayerNorm((5, 4), eps=1e-3, bias=False), (2, 5, 4)),
    "LayerNorm plain": (lambda n: n.LayerNorm(4, elementwise_affine=False), (5, 4)),
    "Dropout": (lambda n: n.Dropout(0.3), (40, 5)),
    "Dropout inplace": (lambda n: n.Sequential(n.Linear(5, 4), n.Dropout(0.6, True)), (40, 5)),
    "GELU": (lambda n: n.GELU(), (5, 4)),
    "GELU tanh": (lambda n: n.GELU(approximate="tanh"), (5, 4)),
    "ReLU": (lambda n: n.ReLU(), (5, 4)),
    "SiLU": (lambda n: n.SiLU(), (5, 4)),
    "Tanh": (lambda n: n.Tanh(), (5, 4)),
    "Sigmoid": (lambda n: n.Sigmoid(), (5, 4)),
    "Softmax": (lambda n: n.Softmax(dim=1), (5, 4)),
    "LogSoftmax": (lambda n: n.LogSoftmax(dim=-1), (5, 4)),
    "Identity": (lambda n: n.Identity(), (5, 4)),
    "RMSNorm": (lambda n: n.RMSNorm(4), (5, 4)),
    "RMSNorm plain": (lambda n: n.RMSNorm((5, 4), eps=0.1, elementwise_affine=False), (2, 5, 4)),
    "GroupNorm": (lambda n: n.GroupNorm(3, 6), (4, 6, 5)),
    "GroupNorm no bias": (lambda n: n.GroupNorm(2, 6, eps=1e-3, bias=False), (4, 6)),
    "GroupNorm plain": (lambda n: n.GroupNorm(1, 6, affine=False), (4, 6, 2, 2)),
    "BatchNorm1d": (lambda n: n.BatchNorm1d(4), (5, 4)),
    "BatchNorm1d rows": (lambda n: n.BatchNorm1d(4, momentum=None, affine=False), (5, 4, 3)),
    "BatchNorm1d plain": (lambda n: n.BatchNorm1d(4, eps=0.1, track_running_stats=False), (5, 4)),
    "BatchNorm2d": (lambda n: n.BatchNorm2d(4, momentum=0.3), (5, 4, 2, 3)),
    "BatchNorm3d": (lambda n: n.BatchNorm3d(2, bias=False), (3, 2, 2, 2, 3)),
    "LeakyReLU": (lambda n: n.LeakyReLU(0.2), (5, 4)),
    "ELU": (lambda n: n.ELU(0.7), (5, 4)),
    "SELU": (lambda n: n.SELU(), (5, 4)),
    "Hardtanh": (lambda n: n.Hardtanh(-0.5, 0.7), (5, 4)),
    "ReLU6": (lambda n: n.ReLU6(), (5, 4)),
    "Hardswish": (lambda n: n.Hardswish(), (5, 4)),
    "Hardsigmoid": (lambda n: n.Hardsigmoid(), (5, 4)),
    "Mish": (lambda n: n.Mish(), (5, 4)),
    "Softplus": (lambda n: n.Softplus(2.0, 1.0), (5, 4)),
    "LogSigmoid": (lambda n: n.LogSigmoid(), (5, 4)),
    "Softsign": (lambda n: n.Softsign(), (5, 4)),
    "Tanhshrink": (lambda n: n.Tanhshrink(), (5, 4)),
    "Softmin": (lambda n: n.Softmin(dim=1), (5, 4)),
    "PReLU": (lambda n: n.PReLU(), (5, 4)),
    "PReLU of channels": (lambda n: n.PReLU(4, 0.1), (5, 4, 3)),
    "PixelShuffle": (lambda n: n.PixelShuffle(2), (3, 8, 2, 5)),
    "PixelUnshuffle": (lambda n: n.PixelUnshuffle(2), (3, 2, 4, 6)),
    "Unflatten": (lambda n: n.Unflatten(1, (3, -1)), (2, 12, 5)),
    "GLU": (lambda n: n.GLU(dim=1), (5, 4)),
    "Flatten": (lambda n: n.Flatten(), (5, 4, 3)),
    "Flatten some": (lambda n: n.Flatten(0, 1), (5, 4, 3)),
    "ZeroPad1d": (lambda n: n.ZeroPad1d(2), (5, 4, 3)),
    "ZeroPad2d": (lambda n: n.ZeroPad2d((1, 2, -1, 0)), (5, 4, 3)),
    "ZeroPad3d": (lambda n: n.ZeroPad3d(1), (2, 3, 4, 3)),
    "ConstantPad1d": (lambda n: n.ConstantPad1d((1, 0), 2.5), (5, 4)),
    "ConstantPad2d": (lambda n: n.ConstantPad2d(1, -1.0), (5, 4, 3)),
    "ConstantPad3d": (lambda n: n.ConstantPad3d(1, 0.5), (2, 3, 4, 3)),
    "ReflectionPad1d": (lambda n: n.ReflectionPad1d(2), (5, 4)),
    "ReflectionPad2d": (lambda n: n.ReflectionPad2d((1, 2, 3, 0)), (2, 5, 4)),
    "ReflectionPad3d": (lambda n: n.ReflectionPad3d(1), (2, 3, 4, 3)),
    "ReplicationPad1d": (lambda n: n.ReplicationPad1d(7), (2, 5, 4)),
    "ReplicationPad2d": (lambda n: n.ReplicationPad2d((1, 2, 3, 0)), (2, 5, 4)),
    "ReplicationPad3d": (lambda n: n.ReplicationPad3d(1), (2, 3, 4, 3)),
    "CircularPad1d": (lambda n: n.CircularPad1d((3, 1)), (5, 4)),
    "CircularPad2d": (lambda n: n.CircularPad2d(2), (2, 5, 4)),
    "CircularPad3d": (lambda n: n.CircularPad3d(1), (2, 3, 4, 3)),
    "LeakyReLU inplace": (lambda n: n.LeakyReLU(inplace=True), None),
    "ELU inplace": (lambda n: n.ELU(inplace=True), None),
    "SELU inplace": (lambda n: n.SELU(inplace=True), None),
    "Hardtanh inplace": (lambda n: n.Hardtanh(inplace=True), None),
    "ReLU6 inplace": (lambda n: n.ReLU6(inplace=True), None),
    "Hardswish inplace": (lambda n: n.Hardswish(inplace=True), None),
    "Hardsigmoid inplace": (lambda n: n.Hardsigmoid(inplace=True), None),
    "Mish inplace": (lambda n: n.Mish(inplace=True), None),
}


def seeded(module, make):
    module.manual_seed(3)
    return make(module.nn)


def gradients(module, layer, values, weights):
    x = module.nn.Parameter(values)
    result = layer(x)
    (result * weights).sum().backward()
    return [result, x.grad] + [parameter.grad for parameter in layer.parameters()]


@pytest.mark.parametrize("name", LAYERS)
def test_layers(name):
    make, shape = LAYERS[name]
    if not hasattr(nt.nn, name.partition(" ")[0]):
        pytest.skip(f"torch.nn.{name.partition(' ')[0]} is not there yet")
    mine, theirs = seeded(nt, make), seeded(torch, make)
    assert repr(mine) == repr(theirs) and list(mine.state_dict()) == list(theirs.state_dict())
    if shape is None:  # it writes into what it is given
        values = torch.randn(5, 4) * 3
        written = over(values)
        assert mine(written) is written
        close(written, theirs(values))
        return
    for one, other in zip(mine.parameters(), theirs.parameters()):
        same(one, other)
    values = torch.randn(shape)
    weights = torch.randn(theirs(values).shape)
    mine(over(values))  # both see the values once
    for module in (nt, torch):
        module.manual_seed(4)
    for one, other in zip(gradients(nt, mine, over(values), over(weights)), gradients(torch, theirs, values, weights)):
        close(one, other)
    for one, other in zip(mine.buffers(), theirs.buffers()):
        close(one, other)
    mine.eval(), theirs.eval()
    close(mine(over(values)), theirs(values))


@needs(nt.nn, "Embedding")
@pytest.mark.parametrize("options", [{}, {"padding_idx": -2}])
def test_embedding(options):
    mine = seeded(nt, lambda n: n.Embedding(6, 3, **options))
    theirs = seeded(torch, lambda n: n.Embedding(6, 3, **options))
    assert repr(mine) == repr(theirs)
    same(mine.weight, theirs.weight)
    results = []
    for module, layer in ((nt, mine), (torch, theirs)):
        result = layer(module.tensor([[1, 4], [4, 0]]))
        (result * result).sum().backward()
        results.append((result, layer.weight.grad))
    for one, other in zip(*results):
        close(one, other)


@needs(nt.nn, "Embedding")
def test_embedding_options():
    given = nt.nn.Embedding.from_pretrained(nt.tensor([[1.0, 2.0], [3.0, 4.0]]))
    assert not given.weight.requires_grad and given(nt.tensor([1])).tolist() == [[3.0, 4.0]]
    grads = []
    for m in (nt, torch):
        table = m.nn.Embedding.from_pretrained(m.ones(4, 2), freeze=False, scale_grad_by_freq=True)
        table(m.tensor([1, 1, 2])).sum().backward()
        grads.append(table.weight.grad.tolist())
    assert grads[0] == grads[1]
    with pytest.raises(AssertionError, match="Padding_idx"):
        nt.nn.Embedding(3, 2, padding_idx=3)


@needs(nt.nn, "ReLU", "SiLU")
def test_in_place():
    for name in ("ReLU", "SiLU"):
        results = []
        for module in (nt, torch):
            x = module.tensor([-1.0, 2.0])
            layer = getattr(module.nn, name)(inplace=True)
            assert layer(x) is x and repr(layer) == f"{name}(inplace=True)"
            results.append(x)
        close(*results)


LOSSES = {
    "CrossEntropyLoss": [{}, {"reduction": "sum"}, {"reduction": "none"}, {"ignore_index": 2}],
    "MSELoss": [{}, {"reduction": "sum"}, {"reduction": "none"}, {"size_average": False}],
    "NLLLoss": [{}, {"reduction": "sum"}, {"ignore_index": 2}],
}


@pytest.mark.parametrize("name, options", [(name, options) for name in LOSSES for options in LOSSES[name]], ids=str)
@pytest.mark.filterwarnings("ignore:size_average")
def test_losses(name, options):
    if not hasattr(nt.nn, name):
        pytest.skip(f"torch.nn.{name} is not there yet")
    torch.manual_seed(0)
    values, results = torch.randn(5, 4), []
    for module in (nt, torch):
        x = module.nn.Parameter(over(values) if module is nt else values.clone())
        target = module.tensor([1, 0, 2, 3, 2]) if name != "MSELoss" else module.ones_like(x)
        loss = getattr(module.nn, name)(**options)(x, target)
        (loss * loss).sum().backward()
        results.append((loss, x.grad))
    for one, other in zip(*results):
        close(one, other)


F = nt.nn.functional


@needs(F, "scaled_dot_product_attention")
@pytest.mark.parametrize("case", ["plain", "causal", "bool", "float", "scale", "dropout"])
def test_attention(case):
    torch.manual_seed(1)
    q, k, v = (torch.randn(2, 3, 5, 4) for _ in range(3))
    mask = torch.rand(5, 5).gt(0.4).logical_or(torch.eye(5, dtype=torch.bool))
    options = {
        "plain": {}, "causal": {"is_causal": True}, "bool": {"attn_mask": mask},
        "float": {"attn_mask": torch.randn(5, 5)}, "scale": {"scale": 0.3},
        "dropout": {"dropout_p": 0.2},
    }[case]  # fmt: skip
    results = []
    for module in (nt, torch):
        module.manual_seed(5)
        inputs = [module.nn.Parameter(over(x) if module is nt else x.clone()) for x in (q, k, v)]
        given = {
            name: over(value) if module is nt and isinstance(value, torch.Tensor) else value
            for name, value in options.items()
        }
        result = module.nn.functional.scaled_dot_product_attention(*inputs, **given)
        (result * result).sum().backward()
        results.append([result] + [x.grad for x in inputs])
    for one, other in zip(*results):
        close(one, other, 1e-4, 1e-5)
    mine = [over(x) for x in (q, k, v)]
    with pytest.raises(RuntimeError, match="Explicit attn_mask should not be set when is_causal=True"):
        F.scaled_dot_product_attention(*mine, attn_mask=mine[0], is_causal=True)


INIT = {
    "normal_": lambda i, t: i.normal_(t, 1.0, 0.5),
    "uniform_": lambda i, t: i.uniform_(t, -2.0, 3.0),
    "constant_": lambda i, t: i.constant_(t, 1.5),
    "ones_": lambda i, t: i.ones_(t),
    "zeros_": lambda i, t: i.zeros_(t),
    "xavier_uniform_": lambda i, t: i.xavier_uniform_(t, gain=2.0),
    "xavier_normal_": lambda i, t: i.xavier_normal_(t),
    "kaiming_uniform_": lambda i, t: i.kaiming_uniform_(t, a=math.sqrt(5)),
    "kaiming_normal_": lambda i, t: i.kaiming_normal_(t, mode="fan_out", nonlinearity="relu"),
    "trunc_normal_": lambda i, t: i.trunc_normal_(t, std=0.8, a=-1.0, b=1.0),
    "trunc_normal_ tail": lambda i, t: i.trunc_normal_(t, 0.0, 1.0, 1.5, 3.0),
}


@pytest.mark.parametrize("name", INIT)
@pytest.mark.parametrize("shape", [(3, 4), (40, 25), (4, 3, 2)])
def test_init(name, shape):
    if not hasattr(nt.nn.init, name.partition(" ")[0]):
        pytest.skip(f"torch.nn.init.{name} is not there yet")
    results = []
    for module in (nt, torch):
        parameter = module.nn.Parameter(module.empty(shape))
        module.manual_seed(11)
        assert INIT[name](module.nn.init, parameter) is parameter and parameter.grad_fn is None
        results.append(parameter)
    same(*results)


@pytest.mark.parametrize(
    "wrong, error",
    [
        (lambda t: t.nn.init.xavier_normal_(t.empty(3)), ValueError),
        (lambda t: t.nn.init.kaiming_normal_(t.empty(3, 3), mode="fan"), ValueError),
        (lambda t: t.nn.init.calculate_gain("none"), ValueError),
        (lambda t: t.nn.init.calculate_gain("leaky_relu", "a"), ValueError),
        (lambda t: t.nn.ModuleDict(3), TypeError),
        (lambda t: t.nn.Sequential() + 3, ValueError),
        (lambda t: t.nn.ParameterList([t.ones_like(t.tensor([1.0]))])(), RuntimeError),
    ],
)
def test_errors(wrong, error):
    messages = []
    for module in (nt, torch):
        with pytest.raises(error) as caught:
            wrong(module)
        messages.append(str(caught.value).partition("<")[0])
    assert messages[0] == messages[1]


def both(build):
    """The texts that `build(module, nn)` makes on either side."""
    return [[str(part) for part in build(module, module.nn)] for module in (nt, torch)]


def test_containers():
    def build(module, nn):
        i = nn.Identity
        s = nn.Sequential(i(), nn.Sequential(i()))
        yield s + s
        yield s * 2
        yield s.insert(1, nn.ModuleList([i()]))
        yield s.pop(0)
        yield s.extend([i()]).append(i())
        yield s[1:]
        del s[0]
        yield s
        s += nn.Sequential(i())
        yield len(s)
        named = nn.Sequential(OrderedDict(a=i(), b=nn.ModuleList([i(), i(), i()])))
        yield named
        yield named[-1:]
        parts = nn.ModuleList([i(), i(), nn.Sequential(i())])
        yield parts
        parts.insert(1, nn.Sequential())
        yield parts.pop(-1)
        yield parts + nn.ModuleList([i()])
        parts[0] = nn.Sequential(i())
        yield parts
        yield parts[1:]
        d = nn.ModuleDict({"x": i(), "y": nn.ModuleList()})
        d.update([("z", i())])
        yield d
        yield d.pop("x")
        yield list(d.keys()), len(d), "y" in d, "x" in d, [type(value).__name__ for value in d.values()]
        d.clear()
        yield d

    mine, theirs = both(build)
    assert mine == theirs
    for wrong in (5, -6):
        with pytest.raises(IndexError, match="out of range"):
            nt.nn.Sequential(nt.nn.Identity())[wrong]


def test_parameter_containers():
    def build(module, nn):
        one, two = module.tensor([1.0]), module.tensor([[1.0, 2.0]])
        p = nn.ParameterList([nn.Parameter(one), two, "text"])
        yield p
        yield p.append(two).extend([one])
        yield list(p.state_dict()), len(p), type(p[3]).__name__
        yield p[1:3]
        p[0] = two
        yield p[0].shape, [name for name, _ in p.named_parameters()]
        p += [one]
        yield p
        d = nn.ParameterDict({"a": one, "b": nn.Parameter(two), "c": 3})
        yield d
        yield d.pop("a").shape, list(d.keys()), "b" in d, d.get("x", 5), len(d), list(d.state_dict())
        d.update({"e": two})
        d["f"] = one
        yield d
        d.clear()
        yield len(d)

    mine, theirs = both(build)
    assert mine == theirs


def test_missing_names_say_so():
    for module, name in ((nt.nn, "Layer"), (F, "layer"), (nt.nn.init, "layer_"), (nt.nn.utils, "layer")):
        with pytest.raises(AttributeError, match=f"has no attribute '{name}': Narthex"):
            getattr(module, name)


BY_REDUCTION = {
    "MSELoss": (lambda n, r: n.MSELoss(reduction=r), "plain"),
    "L1Loss": (lambda n, r: n.L1Loss(reduction=r), "plain"),
    "SmoothL1Loss": (lambda n, r: n.SmoothL1Loss(reduction=r, beta=0.4), "plain"),
    "HuberLoss": (lambda n, r: n.HuberLoss(reduction=r, delta=0.4), "plain"),
    "KLDivLoss": (lambda n, r: n.KLDivLoss(reduction=r), "chances"),
    "KLDivLoss log": (lambda n, r: n.KLDivLoss(reduction=r, log_target=True), "plain"),
    "BCEWithLogitsLoss": (lambda n, r: n.BCEWithLogitsLoss(reduction=r), "chances"),
    "CrossEntropyLoss chances": (lambda n, r: n.CrossEntropyLoss(reduction=r, label_smoothing=0.1), "chances"),
    "CrossEntropyLoss smooth": (lambda n, r: n.CrossEntropyLoss(reduction=r, label_smoothing=0.1), "classes"),
    "CrossEntropyLoss": (lambda n, r: n.CrossEntropyLoss(reduction=r, ignore_index=2), "classes"),
    "NLLLoss": (lambda n, r: n.NLLLoss(reduction=r), "classes"),
}


@pytest.mark.filterwarnings("ignore:reduction. 'mean' divides")
@pytest.mark.parametrize("reduction", ["none", "mean", "sum", "batchmean"])
@pytest.mark.parametrize("name", BY_REDUCTION)
def test_losses_by_reduction(name, reduction):
    if reduction == "batchmean" and not name.startswith("KLDivLoss"):
        pytest.skip("of KLDivLoss alone")
    make, kind = BY_REDUCTION[name]
    torch.manual_seed(2)
    values = torch.randn(6, 4, 3)
    target = {"plain": torch.randn(6, 4, 3), "chances": torch.rand(6, 4, 3), "classes": torch.randint(4, (6, 3))}[kind]
    results = []
    for module, change in ((nt, over), (torch, torch.clone)):
        layer, x = make(module.nn, reduction), change(values).requires_grad_()
        assert repr(layer) == f"{type(layer).__name__}()" and not layer.state_dict()
        loss = layer(x, change(target))
        loss.sum().backward()
        results.append((loss, x.grad))
    for one, other in zip(*results):
        close(one, other, 1e-4, 1e-5)


def test_weights_of_losses():
    torch.manual_seed(2)
    values, target, weight = torch.randn(6, 4), torch.rand(6, 4), torch.rand(6, 4)
    for name in ("mse_loss", "l1_loss", "huber_loss", "binary_cross_entropy_with_logits"):
        for reduction in ("none", "mean", "sum"):
            mine = getattr(F, name)(over(values), over(target), weight=over(weight), reduction=reduction)
            theirs = getattr(torch.nn.functional, name)(values, target, weight=weight, reduction=reduction)
            close(mine, theirs)
    layer = nt.nn.BCEWithLogitsLoss(over(weight), pos_weight=over(weight[0]))
    theirs = torch.nn.BCEWithLogitsLoss(weight, pos_weight=weight[0])
    close(layer(over(values), over(target)), theirs(values, target))
    assert list(layer.state_dict()) == list(theirs.state_dict()) == ["weight", "pos_weight"]
    chances, weights = values.sigmoid(), weight.abs()
    for reduction in ("none", "mean", "sum"):
        layer = nt.nn.BCELoss(over(weights), reduction=reduction)
        theirs = torch.nn.BCELoss(weights, reduction=reduction)
        leaves = [over(chances).requires_grad_(), chances.clone().requires_grad_()]
        results = [layer(leaves[0], over(target)), theirs(leaves[1], target)]
        close(*results)
        [result.sum().backward() for result in results]
        close(leaves[0].grad, leaves[1].grad)
    for module, change in ((nt, over), (torch, torch.clone)):
        with pytest.raises(ValueError, match="that is different to the input size"):
            module.nn.functional.binary_cross_entropy(change(chances), change(target[0]))
        with pytest.raises(RuntimeError, match="all elements of input should be between 0 and 1"):
            module.nn.functional.binary_cross_entropy(change(chances + 1), change(target))
    for module, change in ((nt, over), (torch, torch.clone)):
        with pytest.raises(ValueError, match="must be the same as input size"):
            module.nn.functional.binary_cross_entropy_with_logits(change(values), change(target[0]))
        with pytest.raises(ValueError, match="Weights and input must have the same size"):
            module.nn.functional.mse_loss(change(values), change(target), weight=change(weight[0]))
        with pytest.raises(ValueError, match="is not a valid value for reduction"):
            module.nn.functional.l1_loss(change(values), change(target), reduction="median")
        with pytest.warns(UserWarning, match="Using a target size"):
            module.nn.functional.mse_loss(change(values), change(target[0]))


def test_batch_norm_refuses_what_it_cannot_normalise():
    for module in (nt, torch):
        with pytest.raises(ValueError, match="expected 2D or 3D input .got 4D input."):
            module.nn.BatchNorm1d(3)(module.zeros(2, 3, 1, 1))
        with pytest.raises(ValueError, match="Expected more than 1 value per channel when training"):
            module.nn.BatchNorm1d(3)(module.zeros(1, 3))


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("size", [(0, 3), (0, 3, 2), (2, 3, 0)])
def test_batch_norm_of_nothing_has_gradients_of_zero(size, training):
    found = []
    for m in (nt, torch):
        leaves = [m.zeros(size, requires_grad=True), *(m.ones(3, requires_grad=True) for _ in range(2))]
        y = m.nn.functional.batch_norm(leaves[0], m.zeros(3), m.ones(3), *leaves[1:], training=training)
        found.append([y.tolist(), *(grad.tolist() for grad in m.autograd.grad(y.sum(), leaves))])
    assert found[0] == found[1]
    for m in (nt, torch):
        with pytest.raises(IndexError):
            m.nn.functional.batch_norm(m.zeros(2, 0, 3), None, None, m.ones(0), training=True)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("affine", [True, False])
def test_batch_norm_by_running_statistics_is_one_node(dtype, affine):
    """Its gradients are those of the statistics as they were, though they have gone on since."""

    def outcome(m):
        norm = m.nn.BatchNorm1d(3, affine=affine).eval()
        norm.running_mean.copy_(m.tensor([0.5, -1.0, 2.0]))
        norm.running_var.copy_(m.tensor([1.0, 4.0, 0.25]))
        x = (m.arange(24.0).reshape(2, 3, 4) / 8).to(getattr(m, dtype)).requires_grad_()
        y = norm(x)
        node = type(y.grad_fn).__name__
        other = [type(f).__name__ for f, _ in y.grad_fn.next_functions if f is not None]
        if m is nt:
            norm.running_mean.add_(1.0)
        (y.float() ** 2).sum().backward()
        gradients = [x.grad] + [p.grad for p in norm.parameters()]
        return node, other, [y.detach().float().tolist()] + [g.float().tolist() for g in gradients]

    ours, theirs = outcome(nt), outcome(torch)
    assert ours[:2] == theirs[:2] and ours[0] == "NativeBatchNormBackward0"
    for a, b in zip(ours[2], theirs[2], strict=True):
        assert torch.allclose(torch.tensor(a), torch.tensor(b), rtol=1e-2 if dtype == "bfloat16" else 1e-5, atol=1e-5)


@pytest.mark.parametrize("last", [False, True], ids=["rows", "channels_last"])
def test_group_norm_as_one_node(last):
    def outcome(m):
        x = (m.arange(2.0 * 6 * 4 * 5).reshape(2, 6, 4, 5) % 7 - m.arange(5.0)).requires_grad_()
        w, b = m.linspace(1, 2, 6).requires_grad_(), m.linspace(-1, 1, 6).requires_grad_()
        y = m.nn.functional.group_norm(x.to(memory_format=m.channels_last) if last else x, 3, w, b)
        gradients = m.autograd.grad((y**3).sum(), (x, w, b), create_graph=True)
        second = m.autograd.grad(sum((g**2).sum() for g in gradients), (x, w))
        return type(y.grad_fn).__name__, y.stride(), [t.tolist() for t in (y, *gradients, *second)]

    ours, theirs = outcome(nt), outcome(torch)
    assert ours[:2] == theirs[:2] and ours[0] == "NativeGroupNormBackward0"
    for a, b in zip(ours[2], theirs[2], strict=True):
        assert torch.allclose(torch.tensor(a), torch.tensor(b), rtol=1e-4, atol=1e-3)


def test_clipping_is_captured():
    for m in (nt, torch):
        tensors = [m.full((2, 2), 4.0), m.full((3,), -2.0)]
        total = m.nn.utils.get_total_norm(tensors)
        assert total.item() == pytest.approx(76**0.5)
    tensors = [nt.full((2, 2), 4.0), nt.full((3,), -2.0)]
    known = nt.compile(nt.nn.utils.get_total_norm, fullgraph=True)(tensors)
    assert known.item() == pytest.approx(76**0.5)


@pytest.mark.parametrize("odd", (float("nan"), -0.0, 0.0, 1.0, -1e-40, 1 + 2**-23, float("inf"), -1.0))
def test_what_is_no_probability(odd):
    """Zeros of both signs pass; NaN and what is outside of the range is refused as PyTorch does."""

    def entropy(module):
        x = module.tensor([0.25] * 9 + [odd] + [0.5] * 3)
        return module.nn.functional.binary_cross_entropy(x, module.full((13,), 0.75), reduction="none").tolist()

    def drawn(module):
        module.manual_seed(0)
        return module.multinomial(module.tensor([0.25] * 9 + [odd] + [0.5] * 3), 5, True).tolist()

    for call in (entropy, drawn):
        try:
            expected = call(torch)
        except RuntimeError:
            with pytest.raises(RuntimeError):
                call(nt)
        else:
            assert call(nt) == pytest.approx(expected, nan_ok=True, rel=1e-6)
