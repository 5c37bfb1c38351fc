"""Elements that a graph computes decide what a function does, in one graph (fullgraph): always the numbers of eager."""

import narthex as torch
import pytest

from .conftest import ramp, same

F = torch.nn.functional


def branches(x):
    return x * 2 if x.sum() > 0 else x - 1


def masks(x):
    return x[x > 0] * 2


def writes_masked(x):
    y = x * 1
    y[y > 0] = x[x > 0] * 3
    return y


def masks_rows(x):
    return x.view(2, 2)[x.view(2, 2).sum(1) > 0].sum(0)


def nests(x):
    mask = x > 0
    if mask.any() and not mask.all():
        return x[mask].mean()
    return x.sum()


def draws(x):
    y = F.dropout(x, 0.5)
    return y * torch.rand(4) if y.sum() > 0 else torch.rand(4) + y


def loops(x):
    n = 0
    while (x > 0).any():
        x = x - 1
        n += 1
    return x, n


def compares(x):
    return x if torch.equal(x > 0, x > -0.5) and torch.allclose(x.abs(), x.abs()) else x * 2


def adds_up(x):
    """Writes into memory of its own, beside inputs and results of composed operators."""
    total = F.linear(x.view(2, 2), x.view(2, 2))
    total /= 2
    total.scatter_add_(0, (x.view(2, 2) > 0).long(), x.view(2, 2))
    torch.mm(x.view(2, 2), x.view(2, 2), out=total[:2])
    return total[total > 0]


def slices(x):
    n = torch.IntTensor([3])[0]
    x = x.clone()
    x[:n] *= 2
    return x[n:], x[(x > 0).sum() :], [1, 2, 3, 4, 5][(x > 0).sum()]


def compares_on_the_way(x):
    return x * max(x[0], x[1]), sorted([x[3], x[1], x[2]])[0], x[3] in [x[1], x[3]]


CASES = {
    "branch": branches,
    "own memory": adds_up,
    "slices": slices,
    "max": compares_on_the_way,
    "mask": masks,
    "write by a mask": writes_masked,
    "rows by a mask": masks_rows,
    "nested": nests,
    "random numbers": draws,
    "loop": loops,
    "equal": compares,
    "item": lambda x: x * (x > 0).sum().item(),
    "int": lambda x: x * int((x > 0).sum()) + float((x > 0).sum()),
    "tolist": lambda x: ((x > 0).tolist(), x + 1),
    "nonzero": lambda x: x.nonzero(),
    "where": lambda x: torch.where(x > 0)[0],
    "unique": lambda x: torch.unique((x > 0).int()),
    "masked_select": lambda x: torch.masked_select(x, x > 0),
    "one_hot": lambda x: F.one_hot((x > 0).long()),
    "bincount": lambda x: torch.bincount((x > 0).long()),
    "repeat_interleave": lambda x: x.repeat_interleave((x > 0).long()),
    "assert": lambda x: torch._assert_async((x == x).all()) or x + 1,
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("backend", ["eager", "narthex"])
def test_one_graph(name, backend):
    function = CASES[name]
    compiled = torch.compile(function, fullgraph=True, backend=backend)
    for seed in range(12):
        x = torch.randn(4, generator=torch.Generator().manual_seed(seed % 5))
        torch.manual_seed(seed)
        expected = function(x.clone())
        torch.manual_seed(seed)
        assert same(compiled(x), expected)
        assert torch.rand(1).tolist() == following(function, x, seed)
    assert compiled.entries <= 5


def following(function, x, seed):
    """The random number that is drawn behind an eager call."""
    torch.manual_seed(seed)
    function(x.clone())
    return torch.rand(1).tolist()


def test_a_graph_is_found_again_and_reasons_are_told():
    compiled = torch.compile(branches, fullgraph=True)
    for sign in (1, -1, 1, -1):
        compiled(sign * (ramp(3) + 1))
    assert compiled.entries == 2
    (reason,) = compiled.recompiles
    assert "a tensor's elements" in reason and "were others" in reason


def test_gradients():
    w = ramp(3).requires_grad_()

    def function(x):
        y = x * w
        return y.sum() * 2 if y.sum() > 0 else y.sum() * 3

    compiled, found = torch.compile(function, fullgraph=True), []
    for sign in (1, -1, 1):
        for each in (function, compiled):
            w.grad = None
            each(ramp(3) * sign).backward()
            found.append(w.grad.tolist())
    assert found[::2] == found[1::2] and compiled.entries == 2


def test_sizes_that_vary():
    def function(x):
        return x[x.sum(1) > 0].sum(0) * x.size(0)

    compiled = torch.compile(function, fullgraph=True)
    for n in (2, 3, 4, 5, 3, 2):
        x = torch.randn(n, 3)
        torch.testing.assert_close(compiled(x), function(x))


def test_what_writes_may_not_decide():
    def function(x):
        x.add_(1)
        return x * 2 if x.sum() > 0 else x

    x = ramp(2)
    with pytest.raises(RuntimeError, match="the graph writes what existed before"):
        torch.compile(function, fullgraph=True)(x)
    assert x.tolist() == [0, 1]


@pytest.mark.parametrize("show", [lambda x: x.view(-1), lambda x: x.reshape(-1), lambda x: x.T])
def test_what_writes_through_a_view_may_not_decide_either(show):
    def function(x):
        show(x).add_(1)
        return x * 2 if x.sum() > 0 else x

    x = ramp(2, 2)
    with pytest.raises(RuntimeError, match="the graph writes what existed before"):
        torch.compile(function, fullgraph=True)(x)
    assert x.tolist() == ramp(2, 2).tolist()


def test_writes_behind_it_may_not_be_either():
    def function(x, y):
        z = x * 2 if x.sum() > 0 else x
        y.add_(1)
        return z

    y = ramp(2)
    with pytest.raises(RuntimeError, match="writes what existed before"):
        torch.compile(function, fullgraph=True)(ramp(2), y)
    assert y.tolist() == [0, 1]


def test_what_varies_at_each_call_runs_uncompiled_in_the_end():
    compiled = torch.compile(lambda x: x * x.sum().item(), fullgraph=True)
    with pytest.warns(UserWarning, match="runs uncompiled from now on"):
        for k in range(12):
            assert compiled(ramp(2) + k).tolist() == [k * (2 * k + 1), (k + 1) * (2 * k + 1)]
    assert compiled.entries == 8


def test_what_is_another_at_each_run_ends():
    torch.manual_seed(0)
    rolls = []

    def backend(gm, inputs):
        def run(*args):
            rolls.append(1)
            return [torch.full((), len(rolls) % 2 == 1) if r.dtype == torch.bool else r for r in gm(*args)]

        return run

    compiled = torch.compile(branches, fullgraph=True, backend=backend)
    for _ in range(4):
        assert same(compiled(ramp(3)), ramp(3) * 2)


def test_errors_of_the_data_are_the_programs_own():
    def function(x, table):
        y = table[x.long()]
        return y * 2 if y.sum() > 0 else y

    compiled = torch.compile(function, fullgraph=True)
    assert same(compiled(ramp(2), ramp(2)), torch.tensor([0.0, 2.0]))
    with pytest.raises(IndexError, match="out of bounds"):
        compiled(ramp(3), ramp(2))
    assert same(compiled(ramp(2), -ramp(2)), torch.tensor([0.0, -1.0]))


def test_without_fullgraph_the_graph_ends():
    compiled = torch.compile(branches)
    assert same(compiled(ramp(3)), ramp(3) * 2) and len(compiled.graphs) == 2
