"""embedding_bag and EmbeddingBag beside PyTorch's, with their gradients, and tables with a greatest norm."""

import narthex
import pytest

torch = pytest.importorskip("torch")
BOTH = (torch, narthex)
ROWS = [[0.5 * i - j + (i * j) % 3 for j in range(4)] for i in range(6)]


def run(t, indices, offsets, weights=None, **options):
    table = t.tensor(ROWS, requires_grad=True)
    scale = None if weights is None else t.tensor(weights, requires_grad=True)
    given = None if offsets is None else t.tensor(offsets)
    y = t.nn.functional.embedding_bag(t.tensor(indices), table, given, per_sample_weights=scale, **options)
    (y * t.arange(1.0, y.numel() + 1).view(y.shape)).sum().backward()
    found = [y.detach(), table.grad] + ([] if scale is None else [scale.grad])
    return [x.tolist() for x in found]


def close(a, b):
    for ours, theirs in zip(a, b, strict=True):
        torch.testing.assert_close(torch.tensor(ours), torch.tensor(theirs))


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize(
    "bags",
    [([1, 2, 4, 5, 4, 3], [0, 2, 2, 5]), ([[1, 1, 4], [5, 0, 0]], None), ([3], [0]), ([2, 2, 2], [0, 3])],
    ids=str,
)
@pytest.mark.parametrize("padding", [None, 4, -6])
def test_bags(mode, bags, padding):
    close(run(narthex, *bags, mode=mode, padding_idx=padding), run(torch, *bags, mode=mode, padding_idx=padding))


def test_options():
    bags = [1, 2, 4, 5, 4, 3], [0, 2, 4]
    close(*(run(t, *bags, [0.5, 1, 2, -1, 3, 0.25], mode="sum") for t in BOTH))
    close(*(run(t, bags[0], [0, 2, 4, 6], mode="sum", include_last_offset=True) for t in BOTH))
    close(*(run(t, [4, 4, 4], [0, 1], mode="mean", scale_grad_by_freq=True) for t in BOTH))


@pytest.mark.parametrize(
    "ask",
    [
        lambda t: t.nn.functional.embedding_bag(t.tensor([1]), t.ones(3, 2)),
        lambda t: t.nn.functional.embedding_bag(t.tensor([[1]]), t.ones(3, 2), t.tensor([0])),
        lambda t: t.nn.functional.embedding_bag(t.tensor([1]), t.ones(3, 2), t.tensor([1])),
        lambda t: t.nn.functional.embedding_bag(t.tensor([1]), t.ones(3, 2), t.tensor([0, 5])),
        lambda t: t.nn.functional.embedding_bag(t.tensor([1]), t.ones(3, 2), t.tensor([0]), mode="min"),
        lambda t: t.nn.functional.embedding_bag(t.tensor([[[1]]]), t.ones(3, 2)),
        lambda t: t.nn.functional.embedding_bag(
            t.tensor([1]), t.ones(3, 2), t.tensor([0]), per_sample_weights=t.ones(1), mode="max"
        ),
        lambda t: t.nn.EmbeddingBag(3, 2, padding_idx=7),
    ],
)
def test_errors(ask):
    texts = []
    for t in BOTH:
        with pytest.raises((RuntimeError, ValueError, NotImplementedError, AssertionError)) as caught:
            ask(t)
        texts.append((caught.type, str(caught.value).split("\n")[0]))
    assert texts[0] == texts[1]


def test_layer():
    found = []
    for t in BOTH:
        t.manual_seed(3)
        layer = t.nn.EmbeddingBag(10, 3, mode="sum", padding_idx=2)
        found.append((repr(layer), layer(t.tensor([1, 2, 3, 9]), t.tensor([0, 3])).tolist()))
    assert found[0] == found[1]


def test_greatest_norm():
    found = []
    for t in BOTH:
        table = t.tensor(ROWS)
        y = t.nn.functional.embedding(t.tensor([1, 5, 5]), table, max_norm=2.0)
        found.append((y, table))
    for theirs, ours in zip(*found, strict=True):
        torch.testing.assert_close(torch.tensor(ours.tolist()), theirs)


@pytest.mark.parametrize(
    "call",
    [
        lambda t: t.vander(t.tensor([1.0, 2.0, 3.0])),
        lambda t: t.vander(t.tensor([1, 2, 3]), 4, True),
        lambda t: t.norm_except_dim(t.tensor(ROWS), 2, 1),
        lambda t: t.norm_except_dim(t.tensor(ROWS), 2, -1),
        lambda t: t.frobenius_norm(t.tensor(ROWS), [0, 1]),
        lambda t: t.nuclear_norm(t.tensor(ROWS)),
        lambda t: t.conv_tbc(t.tensor(ROWS)[:, None], t.tensor(ROWS)[:, :, None].view(2, 4, 3), t.ones(3), 1),
        lambda t: t.native_batch_norm(t.tensor(ROWS), None, None, None, None, True, 0.1, 1e-5)[2],
        lambda t: t.native_group_norm(t.tensor(ROWS), None, None, 6, 4, 1, 2, 1e-5)[1],
        lambda t: t.celu_(t.tensor([-1.0, 2.0]), 0.5),
        lambda t: t.threshold_(t.tensor([-1.0, 2.0]), 0.5, 7.0),
        lambda t: t.addmv_(t.ones(6), t.tensor(ROWS), t.ones(4), beta=2),
        lambda t: t.fill(t.ones(2), 3),
        lambda t: t.rrelu(t.tensor([-1.0, 2.0])),
        lambda t: t.affine_grid_generator(t.tensor([[[1.0, 0, 0], [0, 1, 0]]]), [1, 1, 2, 3], True),
        lambda t: t.chain_matmul(t.tensor(ROWS), t.tensor(ROWS).t(), t.tensor(ROWS)),
        lambda t: t.range(0.5, 3, 0.5),
    ],
)
@pytest.mark.filterwarnings("ignore:torch.chain_matmul", "ignore:torch.range", "ignore:.*is deprecated")
def test_older_names(call):
    torch.testing.assert_close(torch.tensor(call(narthex).tolist()), torch.tensor(call(torch).tolist()))
