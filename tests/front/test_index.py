"""x[...] and x[...] = y against PyTorch: views, messages, gradients, compiled."""

from __future__ import annotations

from typing import Any

import narthex as nt
import pytest
import torch

KEYS: list[Any] = [
    0, -1, (0, 1), (slice(None), 1), (Ellipsis, 2), (slice(1, 3), slice(None, None, 2)), None, (None, 0),
    (slice(None), None, 2), slice(1, None), Ellipsis, (0, 1, 2), (slice(None), -1, slice(None)), (Ellipsis, None),
    slice(-3, -1), slice(5, 9), (), (slice(0, 0), 1),
]  # fmt: skip


def pair(*size: int) -> tuple[Any, torch.Tensor]:
    theirs = torch.randn(size, generator=torch.Generator().manual_seed(0))
    return nt.from_dlpack(theirs.clone()), theirs


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_read(key: Any) -> None:
    ours, theirs = pair(4, 5, 6)
    mine, other = ours[key], theirs[key]
    assert mine.stride() == other.stride() and mine.storage_offset() == other.storage_offset()
    assert mine is not ours
    assert torch.equal(torch.from_dlpack(mine), other)


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_write(key: Any) -> None:
    ours, theirs = pair(4, 5, 6)
    ours[key], theirs[key] = 3, 3
    assert torch.equal(torch.from_dlpack(ours), theirs)
    ours[key], theirs[key] = ours[key] * 2, theirs[key] * 2
    assert torch.equal(torch.from_dlpack(ours), theirs)


@pytest.mark.parametrize("key", [5, (0, 9), (0, 1, 2, 3), (slice(None), 7)], ids=str)
def test_out_of_bounds(key: Any) -> None:
    ours, theirs = pair(4, 5, 6)
    with pytest.raises(IndexError) as expected:
        theirs[key]
    with pytest.raises(IndexError) as caught:
        ours[key]
    assert str(caught.value) == str(expected.value)


def test_what_cannot_be_indexed() -> None:
    with pytest.raises(IndexError, match="invalid index of a 0-dim tensor"):
        nt.tensor(1.0)[0]
    with pytest.raises(ValueError, match="step must be greater than zero"):
        nt.tensor([1.0])[::-1]
    with pytest.raises(TypeError, match=r"valid indices \(got str\)"):
        nt.tensor([1.0])["x"]
    for key in (1.5, {1}, (None, 1.5)):
        with pytest.raises(IndexError) as theirs:
            torch.tensor([1.0])[key]
        with pytest.raises(IndexError) as ours:
            nt.tensor([1.0])[key]
        assert str(ours.value) == str(theirs.value)
    with pytest.raises(TypeError, match="can't assign a str"):
        nt.tensor([1.0])[0] = "x"


def test_gradient() -> None:
    ours, theirs = pair(4, 5)
    ours.requires_grad_()
    theirs.requires_grad_()
    for x in (ours, theirs):
        ((x[1:3, 2] * 2).sum() + (x[-1] * x[0]).sum() + x[:, None, 1].sum()).backward()
    assert torch.equal(torch.from_dlpack(ours.grad), theirs.grad)


def last_and_first(x: Any) -> Any:
    y = x[:, -1, :]
    z = x[1] * 2
    z[0] = 1
    z[:, 1:3] = y[0, 0:2] * 2
    return y.sum() + z.sum()


@pytest.mark.parametrize("mode", ["max-autotune", "reduce-overhead"])
def test_compiled(mode: str) -> None:
    ours, theirs = pair(4, 5, 6)
    compiled = nt.compile(last_and_first, mode=mode, fullgraph=True)
    torch.testing.assert_close(torch.from_dlpack(compiled(ours)), last_and_first(theirs))


def test_from_the_start() -> None:
    """A 0-dim tensor of integers is an index."""
    ours, theirs = pair(4, 5)
    assert torch.equal(torch.from_dlpack(ours[nt.tensor(2)]), theirs[torch.tensor(2)])


def tensor_keys(m: Any) -> list[Any]:
    """Tensors and lists among slices, integers and None, of either library."""
    t, every = m.tensor, slice(None)
    return [
        t([2, 0, -1]), [2, 0, -1], (every, [-1], every), (every, t([0, -1]), None), ([0, 1], [1, 2]), (0, t([0, 1])),
        (t([0, 1]), every, t([[1], [2]])), (t([0, 1]), 0), (Ellipsis, t([0, 1])), (None, t([0, 1])), [],
        (slice(1, 3), t([0, 1]), slice(None, None, 2)), (t([0, 1]), None, t([1, 2])), [[0, 1], [1, 2]],
        (t([0, 1]), 0, t([1, 2])), (t(1), t([0, 1])), t([0, 1]).int(), (every, t([[0, 1], [2, 3]]), t([1, 2])),
    ]  # fmt: skip


N_KEYS = len(tensor_keys(torch))


@pytest.mark.parametrize("k", range(N_KEYS))
def test_read_tensors(k: int) -> None:
    ours, theirs = pair(4, 5, 6)
    mine, other = ours[tensor_keys(nt)[k]], theirs[tensor_keys(torch)[k]]
    assert torch.equal(torch.from_dlpack(mine), other) and mine.stride() == other.stride()


@pytest.mark.parametrize("k", range(N_KEYS))
def test_write_tensors(k: int) -> None:
    ours, theirs = pair(4, 5, 6)
    mine, other = tensor_keys(nt)[k], tensor_keys(torch)[k]
    ours[mine], theirs[other] = 3, 3
    assert torch.equal(torch.from_dlpack(ours), theirs)
    values = torch.arange(1, 1 + theirs[other].shape[-1]).float()[None]
    ours[mine], theirs[other] = nt.from_dlpack(values), values
    assert torch.equal(torch.from_dlpack(ours), theirs)


def masks(m: Any) -> list[Any]:
    """Keys with bools, of either library: some fit no tensor of size (4, 5, 6)."""
    rows, every = m.tensor([True, False, True, True]), slice(None)
    table, last = m.arange(20).reshape(4, 5) % 3 == 0, m.arange(6) % 2 == 0
    whole = m.arange(120).reshape(4, 5, 6) % 7 == 0
    return [
        rows, table, whole, (Ellipsis, last), (every, m.arange(30).reshape(5, 6) % 4 == 0), (every, every, last),
        (rows, 0), (0, m.tensor([True, False, False, True, True])), (rows, every, [0, 2, 5]), (None, table, None),
        (table, m.tensor([0])), (rows, m.tensor([0, 1, 2])), (slice(1, 3), m.tensor([1, 0]), last[:2].repeat(3)),
        [True, False, True, True], ([True, False, True, False], 1), True, False, (True, 0), (every, False),
        m.tensor(True), m.tensor(False), (m.tensor(True), table), rows & False, (rows, rows), m.tensor([True]),
        (every, rows), m.ones(4, 5, 6, 1) > 0, (table, table), (0, 0, 0, rows), m.ones(4, 6) > 0, ...,
    ]  # fmt: skip


def outcome(action: Any) -> Any:
    """What an action gives, or the type and text of its IndexError."""
    try:
        return action()
    except IndexError as error:
        return str(error)


@pytest.mark.parametrize("k", range(len(masks(torch))))
def test_read_masks(k: int) -> None:
    ours, theirs = pair(4, 5, 6)
    ours.requires_grad_()
    theirs.requires_grad_()
    mine, other = outcome(lambda: ours[masks(nt)[k]]), outcome(lambda: theirs[masks(torch)[k]])
    if isinstance(other, str):
        assert mine == other
        return
    assert torch.equal(torch.from_dlpack(mine.detach()), other.detach()) and mine.stride() == other.stride()
    (mine * mine).sum().backward()
    (other * other).sum().backward()
    assert torch.equal(torch.from_dlpack(ours.grad), theirs.grad)


@pytest.mark.parametrize("k", range(len(masks(torch))))
def test_write_masks(k: int) -> None:
    ours, theirs = pair(4, 5, 6)
    key, at = masks(nt)[k], masks(torch)[k]

    def put(x: Any, place: Any, value: Any) -> Any:
        x[place] = value

    for mine, other in ((3, 3), (nt.tensor(4.0), torch.tensor(4.0)), (nt.tensor([[[5.0]]]), torch.tensor([[[5.0]]]))):
        expected = outcome(lambda: put(theirs, at, other))  # noqa: B023
        assert outcome(lambda: put(ours, key, mine)) == expected  # noqa: B023
        assert torch.equal(torch.from_dlpack(ours), theirs)
    if expected is None:
        values = torch.randn(theirs[at].shape)[None]
        ours[key], theirs[at] = nt.from_dlpack(values), values
        assert torch.equal(torch.from_dlpack(ours), theirs)


def test_bytes_are_masks() -> None:
    ours, theirs = pair(4, 5)
    with pytest.warns(UserWarning, match="indexing with dtype torch.uint8 is now deprecated"):
        assert ours[nt.tensor([1, 0, 1, 0], dtype=nt.uint8)].tolist() == theirs[[0, 2]].tolist()


@pytest.mark.parametrize("value", [7, 2.5, "tensor"])
def test_compiled_write_of_one_number(value: Any) -> None:
    """One number for all that a mask picks needs no sizes that depend on elements: the graph is whole."""

    def fill(x: Any, mask: Any, number: Any) -> Any:
        y = x * 2
        y[mask] = number
        return y

    ours, theirs = pair(4, 5)
    mine = nt.tensor(1.5) if value == "tensor" else value
    other = torch.tensor(1.5) if value == "tensor" else value
    got = nt.compile(fill, fullgraph=True)(ours, ours > 0, mine)
    assert torch.equal(torch.from_dlpack(got), fill(theirs, theirs > 0, other))


def test_where_and_argwhere() -> None:
    for m in (nt, torch):
        x = m.tensor([[0, 3], [4, 0]])
        assert [part.tolist() for part in m.where(x > 1)] == [[0, 1], [1, 0]] and isinstance(m.where(x), tuple)
        assert x[m.where(x > 1)].tolist() == [3, 4] and m.argwhere(x).tolist() == [[0, 1], [1, 0]]
        assert x.where(x > 3, 7).tolist() == [[7, 7], [4, 7]]
    ours = nt.compile(lambda x: x[nt.where(x > 1)] + 1)(nt.tensor([0, 3, 4]))
    assert ours.tolist() == [4, 5]


def test_equal_allclose_nonzero() -> None:
    for m in (nt, torch):
        x, nan = m.tensor([1.0, 2.0]), m.tensor([float("nan")])
        assert m.equal(x, x.clone()) and x.equal(other=m.tensor([1, 2])) and not m.equal(x, m.ones(3))
        assert not m.equal(nan, nan)
        assert m.allclose(x, x + 1e-9) and not x.allclose(x + 1e-3) and x.allclose(x + 1e-3, atol=1e-2)
        assert m.allclose(nan, nan, equal_nan=True) and not m.allclose(nan, nan)
        assert [part.tolist() for part in m.nonzero(x > 1, as_tuple=True)] == [[1]]
        assert m.tensor([[0, 3], [4, 0]]).nonzero().tolist() == [[0, 1], [1, 0]]
        with pytest.raises(TypeError, match=r"equal\(\): argument 'other' \(position 2\) must be Tensor, not int"):
            m.equal(x, 3)
        with pytest.raises(RuntimeError, match="Float did not match Long"):
            m.allclose(x, m.tensor([1, 2]))


def out_of_bounds(m: Any) -> list[Any]:
    t = m.tensor
    return [t([[9]]), (slice(None), t([-9])), (0, t([9])), ([0, 1], [1, 2], [0, 1, 2]), t([0.0]), (0, 0, 0, t([1]))]


@pytest.mark.parametrize("k", range(len(out_of_bounds(torch))))
def test_tensors_out_of_bounds(k: int) -> None:
    ours, theirs = pair(4, 5, 6)
    with pytest.raises(IndexError) as expected:
        theirs[out_of_bounds(torch)[k]]
    with pytest.raises(IndexError) as caught:
        ours[out_of_bounds(nt)[k]]
    assert str(caught.value) == str(expected.value)


def by_tensors(x: Any, at: Any) -> Any:
    y = x[:, [-1], :] * 2
    z = x[at] * 1.0
    z[:, [0, 2]] = 7
    z[[1], at] = x[0, at]
    return y.sum() + (z * z).sum() + x[:, at, None].sum()


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("mode", ["eager", "max-autotune", "reduce-overhead"])
def test_gradient_by_tensors(mode: str, dynamic: bool | None) -> None:
    called = by_tensors if mode == "eager" else nt.compile(by_tensors, mode=mode, fullgraph=True, dynamic=dynamic)
    for n in (4, 5, 6):
        ours, theirs = pair(n, 5, 6)
        ours.requires_grad_()
        theirs.requires_grad_()
        mine = called(ours, nt.tensor([1, -1]))
        mine.backward()
        other = by_tensors(theirs, torch.tensor([1, -1]))
        other.backward()
        torch.testing.assert_close(torch.from_dlpack(mine.detach()), other.detach())
        torch.testing.assert_close(torch.from_dlpack(ours.grad), theirs.grad)


@pytest.mark.parametrize("name", ["scatter", "scatter src", "gather", "scatter_add", "index_fill"])
def test_places_in_nothing(name):
    """A place in a dimension without elements is out of range."""
    zero, at = nt.zeros(0), nt.tensor([0])
    calls = {
        "scatter": lambda: zero.scatter(0, at, 1.0), "scatter src": lambda: zero.scatter(0, at, nt.ones(1)),
        "gather": lambda: zero.gather(0, at), "scatter_add": lambda: zero.scatter_add(0, at, nt.ones(1)),
        "index_fill": lambda: zero.index_fill(0, at, 2.0),
    }  # fmt: skip
    with pytest.raises((RuntimeError, IndexError), match="out of bounds for dimension 0 with size 0"):
        calls[name]()


def test_rows_of_an_embedding_share_their_gradient_by_their_number() -> None:
    ours, theirs = pair(5, 3)
    ours.requires_grad_(), theirs.requires_grad_()
    at, weights = [0, 2, 2, 4, 2, 0, 1], torch.randn(7, 3, generator=torch.Generator().manual_seed(1))
    mine = nt.nn.functional.embedding(nt.tensor(at), ours, 1, scale_grad_by_freq=True)
    other = torch.nn.functional.embedding(torch.tensor(at), theirs, 1, scale_grad_by_freq=True)
    mine.backward(nt.from_dlpack(weights.clone()))
    other.backward(weights)
    torch.testing.assert_close(torch.from_dlpack(ours.grad), theirs.grad)


@pytest.mark.parametrize("reduce", ["add", "multiply"])
def test_scatter_by_an_operation(reduce: str) -> None:
    ours, theirs = pair(5, 3)
    at, values = torch.tensor([[0, 2, 2], [0, 1, 2]]), torch.randn(2, 3, generator=torch.Generator().manual_seed(1))
    for value in (values, 2.5):
        mine = value if isinstance(value, float) else nt.from_dlpack(value)
        ours.scatter_(0, nt.from_dlpack(at), mine, reduce=reduce)
        theirs.scatter_(0, at, value, reduce=reduce)
        torch.testing.assert_close(torch.from_dlpack(ours), theirs)


TUPLES = [
    "(slice(None), (0, 2))", "((0, 1), (0, 2))", "([0, 1], (1, 2))", "(Ellipsis, (0, 2))", "((0, 1),)", "(1, (0, 1))",
    "(None, (0, 1))", "(slice(None), (True, False, True, True))", "(slice(None), ((0, 1), (1, 2)))",
    "(slice(None), ())", "(slice(None), (m.tensor(0), m.tensor(1)))", "[(0, 1), (1, 0)]",
]  # fmt: skip


@pytest.mark.parametrize("text", TUPLES)
def test_tuples_inside_of_a_key(text: str) -> None:
    ours, theirs = pair(2, 4, 3)
    mine, other = (eval(text, {"m": m}) for m in (nt, torch))  # noqa: S307
    compiled = nt.compile(lambda x: x[mine] * 1)
    assert torch.equal(torch.from_dlpack(ours[mine]), theirs[other])
    assert torch.equal(torch.from_dlpack(compiled(ours)), theirs[other])
    ours[mine], theirs[other] = 7, 7
    assert torch.equal(torch.from_dlpack(ours), theirs)
