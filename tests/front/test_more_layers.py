"""Dropouts of channels, margins, distributions, CTC, instance norm: values and gradients are PyTorch's."""

import math

import narthex as nt
import pytest
import torch
from both import close, over, same

LAYERS = {
    "CELU": (lambda n: n.CELU(0.7), (5, 4)),
    "CELU inplace": (lambda n: n.Sequential(n.Linear(4, 3), n.CELU(inplace=True)), (5, 4)),
    "Threshold": (lambda n: n.Threshold(0.1, 2.0), (5, 4)),
    "Softshrink": (lambda n: n.Softshrink(0.3), (5, 4)),
    "Hardshrink": (lambda n: n.Hardshrink(0.3), (5, 4)),
    "Softmax2d": (lambda n: n.Softmax2d(), (2, 3, 4, 5)),
    "Dropout1d": (lambda n: n.Dropout1d(0.4), (6, 5, 3)),
    "Dropout1d unbatched": (lambda n: n.Dropout1d(0.4), (5, 3)),
    "Dropout2d": (lambda n: n.Dropout2d(0.4), (6, 5, 3, 2)),
    "Dropout2d inplace": (lambda n: n.Sequential(n.Linear(2, 2), n.Dropout2d(0.4, True)), (6, 5, 3, 2)),
    "Dropout3d": (lambda n: n.Dropout3d(0.4), (6, 5, 3, 2, 2)),
    "Dropout3d unbatched": (lambda n: n.Dropout3d(0.4), (5, 3, 2, 2)),
    "AlphaDropout": (lambda n: n.AlphaDropout(0.3), (20, 5)),
    "FeatureAlphaDropout": (lambda n: n.FeatureAlphaDropout(0.3), (6, 5, 3)),
    "InstanceNorm1d": (lambda n: n.InstanceNorm1d(4), (3, 4, 5)),
    "InstanceNorm1d unbatched": (lambda n: n.InstanceNorm1d(4, affine=True), (4, 5)),
    "InstanceNorm2d": (lambda n: n.InstanceNorm2d(4, affine=True, track_running_stats=True), (3, 4, 5, 2)),
    "InstanceNorm3d": (lambda n: n.InstanceNorm3d(4, momentum=0.3, track_running_stats=True), (3, 4, 2, 2, 2)),
    "LocalResponseNorm": (lambda n: n.LocalResponseNorm(3, 0.1), (2, 5, 4, 3)),
    "LocalResponseNorm even": (lambda n: n.LocalResponseNorm(4, 0.1, 0.5, 2.0), (2, 5, 4)),
}


@pytest.mark.parametrize("layer", LAYERS)
def test_layers(layer):
    make, shape = LAYERS[layer]
    nt.manual_seed(3), torch.manual_seed(3)
    mine, theirs = make(nt.nn), make(torch.nn)
    assert str(mine) == str(theirs) and list(mine.state_dict()) == list(theirs.state_dict())
    x = torch.randn(shape)
    for training in (True, False):
        mine.train(training), theirs.train(training)
        a, b = over(x).requires_grad_(), x.clone().requires_grad_()
        nt.manual_seed(7), torch.manual_seed(7)
        got, wanted = mine(a), theirs(b)
        close(got, wanted)
        (got * got.detach().cos()).sum().backward(), (wanted * wanted.detach().cos()).sum().backward()
        close(a.grad, b.grad, 1e-4, 1e-5)
    for name, value in theirs.state_dict().items():
        close(mine.state_dict()[name], value)


def signs(*shape):
    return torch.randn(shape).sign()


def labels():
    return torch.tensor([[1, 3, -1, 0], [2, -1, 1, 1], [0, 1, 2, 3]])


LOSSES = {
    "SoftMarginLoss": ({}, (3, 4), lambda: (signs(3, 4),)),
    "MarginRankingLoss": ({"margin": 0.3}, (6,), lambda: (torch.randn(6), signs(6))),
    "HingeEmbeddingLoss": ({"margin": 0.7}, (3, 4), lambda: (signs(3, 4),)),
    "CosineEmbeddingLoss": ({"margin": 0.1}, (5, 4), lambda: (torch.randn(5, 4), signs(5))),
    "TripletMarginLoss": ({"swap": True}, (5, 4), lambda: (torch.randn(5, 4), torch.randn(5, 4))),
    "TripletMarginWithDistanceLoss": ({"swap": True}, (5, 4), lambda: (torch.randn(5, 4), torch.randn(5, 4))),
    "MultiMarginLoss": ({"p": 2, "margin": 0.6}, (5, 4), lambda: (torch.tensor([0, 3, 1, 1, 2]),)),
    "MultiLabelMarginLoss": ({}, (3, 4), lambda: (labels(),)),
    "MultiLabelSoftMarginLoss": ({}, (3, 4), lambda: ((torch.rand(3, 4) > 0.5).float(),)),
    "PoissonNLLLoss": ({"full": True}, (3, 4), lambda: (torch.rand(3, 4) * 5,)),
    "GaussianNLLLoss": ({"full": True}, (3, 4), lambda: (torch.randn(3, 4), torch.rand(3, 1) + 0.1)),
    "HuberLoss": ({"delta": 0.4}, (3, 4), lambda: (torch.randn(3, 4),)),
}


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_losses(loss, reduction):
    options, shape, others = LOSSES[loss]
    x, rest = torch.randn(shape), others()
    mine = getattr(nt.nn, loss)(reduction=reduction, **options)
    theirs = getattr(torch.nn, loss)(reduction=reduction, **options)
    assert str(mine) == str(theirs)
    a, b = over(x).requires_grad_(), x.clone().requires_grad_()
    got, wanted = mine(a, *map(over, rest)), theirs(b, *rest)
    close(got, wanted)
    got.sin().sum().backward(), wanted.sin().sum().backward()
    close(a.grad, b.grad, 1e-4, 1e-5)
    compiled = nt.compile(mine, fullgraph=loss != "GaussianNLLLoss")
    close(compiled(over(x), *map(over, rest)), wanted)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("flat", [True, False])
def test_ctc_loss(reduction, dtype, flat):
    logits = torch.randn(12, 3, 6, dtype=dtype)
    targets = torch.tensor([[1, 2, 2, 5], [3, 3, 3, 1], [4, 1, 2, 3]])
    lengths, steps = [4, 2, 3], [12, 3, 9]
    if flat:
        targets = torch.cat([row[:n] for row, n in zip(targets, lengths, strict=True)])
    a, b = over(logits).requires_grad_(), logits.clone().requires_grad_()
    mine, theirs = nt.nn.CTCLoss(reduction=reduction), torch.nn.CTCLoss(reduction=reduction)
    got = mine(a.log_softmax(2), over(targets), nt.tensor(steps), nt.tensor(lengths))
    wanted = theirs(b.log_softmax(2), targets, torch.tensor(steps), torch.tensor(lengths))
    close(got, wanted)
    got.sum().backward(), wanted.sum().backward()
    close(a.grad, b.grad, 1e-4, 1e-5)


def test_ctc_loss_without_alignment():
    x, targets = torch.randn(2, 1, 4).log_softmax(2), torch.tensor([[1, 1, 1]])
    for zero in (False, True):
        a, b = over(x).requires_grad_(), x.clone().requires_grad_()
        got = nt.nn.functional.ctc_loss(a, over(targets), (2,), (3,), zero_infinity=zero)
        wanted = torch.nn.functional.ctc_loss(b, targets, (2,), (3,), zero_infinity=zero)
        close(got, wanted)
        got.backward(), wanted.backward()
        close(a.grad, b.grad)
    got = nt.nn.functional.ctc_loss(over(x[:, 0]), over(targets[0, :1]), nt.tensor(2), nt.tensor(1))
    close(got, torch.nn.functional.ctc_loss(x[:, 0], targets[0, :1], torch.tensor(2), torch.tensor(1)))


def test_gumbel_softmax():
    x = torch.randn(4, 5)
    for hard in (False, True):
        a, b = over(x).requires_grad_(), x.clone().requires_grad_()
        nt.manual_seed(1), torch.manual_seed(1)
        got = nt.nn.functional.gumbel_softmax(a, 0.7, hard)
        wanted = torch.nn.functional.gumbel_softmax(b, 0.7, hard)
        close(got, wanted)
        got.cos().sum().backward(), wanted.cos().sum().backward()
        close(a.grad, b.grad, 1e-4, 1e-6)


def test_bilinear_and_distance():
    nt.manual_seed(0), torch.manual_seed(0)
    mine, theirs = nt.nn.Bilinear(3, 4, 5), torch.nn.Bilinear(3, 4, 5)
    x, y = torch.randn(2, 6, 3), torch.randn(2, 6, 4)
    got, wanted = mine(over(x), over(y)), theirs(x, y)
    close(got, wanted)
    got.sin().sum().backward(), wanted.sin().sum().backward()
    for a, b in zip(mine.parameters(), theirs.parameters(), strict=True):
        close(a.grad, b.grad, 1e-4, 1e-5)
    a, b = torch.randn(5, 3), torch.randn(5, 3)
    for p in (1.0, 2.0, 3.0, math.inf):
        close(nt.nn.PairwiseDistance(p)(over(a), over(b)), torch.nn.PairwiseDistance(p)(a, b))


def test_sync_batch_norm():
    nt.manual_seed(0), torch.manual_seed(0)
    mine = nt.nn.SyncBatchNorm.convert_sync_batchnorm(nt.nn.Sequential(nt.nn.BatchNorm1d(4), nt.nn.ReLU()))
    theirs = torch.nn.Sequential(torch.nn.BatchNorm1d(4), torch.nn.ReLU())
    x = torch.randn(5, 4)
    close(mine(over(x)), theirs(x))
    same(mine[0].num_batches_tracked, theirs[0].num_batches_tracked)
    assert isinstance(mine[0], nt.nn.SyncBatchNorm)


MISTAKES = {
    "probability": lambda t, n: n.functional.dropout2d(t.zeros(2, 2, 2, 2), 1.5),
    "dropout1d": lambda t, n: n.functional.dropout1d(t.zeros(2)),
    "celu": lambda t, n: n.functional.celu(t.zeros(2), 0),
    "one place": lambda t, n: n.InstanceNorm1d(3)(t.zeros(2, 3, 1)),
    "instance norm of 4D": lambda t, n: n.InstanceNorm1d(3)(t.zeros(2, 3, 1, 1)),
    "channels": lambda t, n: n.InstanceNorm1d(3, affine=True)(t.zeros(2, 4, 3)),
    "ranking": lambda t, n: n.MarginRankingLoss()(t.zeros(2), t.zeros(2, 1), t.zeros(2)),
    "margin": lambda t, n: n.TripletMarginLoss(-1.0),
    "variance": lambda t, n: n.GaussianNLLLoss()(t.zeros(2), t.zeros(2), t.tensor([1.0, -1.0])),
    "power": lambda t, n: n.MultiMarginLoss(p=3),
    "reduction": lambda t, n: n.functional.soft_margin_loss(t.zeros(2), t.zeros(2), reduction="x"),
    "triplet": lambda t, n: n.TripletMarginLoss()(t.zeros(2, 2), t.zeros(2), t.zeros(2)),
    "local response": lambda t, n: n.LocalResponseNorm(2)(t.zeros(2, 2)),
    "Softmax2d": lambda t, n: n.Softmax2d()(t.zeros(2, 2)),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes(mistake):
    with pytest.raises(Exception) as theirs:  # noqa: PT011  (whichever PyTorch raises)
        MISTAKES[mistake](torch, torch.nn)
    with pytest.raises(type(theirs.value)) as mine:
        MISTAKES[mistake](nt, nt.nn)
    assert str(theirs.value) in str(mine.value)
