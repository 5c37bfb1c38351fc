"""Tensors among numpy's functions, and numpy's numbers in tensors: what PyTorch makes of them."""

import narthex as nt
import numpy as np
import pytest
import torch


@pytest.mark.parametrize(
    "function",
    [
        lambda x: np.asarray(x),
        lambda x: np.array(x, copy=None),
        lambda x: np.asarray(x, dtype=np.float64),
        lambda x: np.asarray(x).sum(),
        lambda x: np.concatenate([x, x]),
        lambda x: np.stack([x, x]),
        lambda x: np.histogram(x, 3)[0],
        lambda x: np.percentile(x, 50),
        lambda x: np.array(list(x)),
        lambda x: np.arange(10)[(x > 0).long()],
        lambda x: np.linspace(0.0, 1.0, 5)[x > 0],
    ],
)
def test_functions_that_give_arrays(function):
    numbers = [0.5, -1.0, 2.0, -3.5, 4.0]
    mine, theirs = function(nt.tensor(numbers)), function(torch.tensor(numbers))
    assert type(mine) is type(theirs) and mine.dtype == theirs.dtype
    np.testing.assert_array_equal(mine, theirs)


@pytest.mark.filterwarnings("ignore:__array_wrap__")
@pytest.mark.parametrize(
    "function",
    [
        lambda x: np.sqrt(x),
        lambda x: np.maximum(x, 1),
        lambda x: np.isnan(x),
        lambda x: x + np.ones(2),
        lambda x: x * np.float64(2),
        lambda x: np.float32(2) * x,
    ],
)
def test_functions_that_give_tensors(function):
    mine, theirs = function(nt.tensor([1.0, 4.0])), function(torch.tensor([1.0, 4.0]))
    assert type(mine) is nt.Tensor and str(mine.dtype) == str(theirs.dtype) and mine.tolist() == theirs.tolist()


def test_an_array_over_the_same_memory():
    x = nt.zeros(3)
    np.asarray(x)[1] = 5
    assert x.tolist() == [0, 5, 0]
    np.array(x)[1] = 6
    assert x.tolist() == [0, 5, 0]
    with pytest.raises(ValueError, match="without a copy"):
        np.asarray(x, dtype=np.float64, copy=False)
    with pytest.raises(RuntimeError, match="requires grad"):
        np.asarray(nt.ones(1, requires_grad=True))
    with pytest.raises(TypeError, match="unsupported operand"):
        np.ones(3) * x  # numpy leaves it to the tensor, which takes no arrays, as in PyTorch


@pytest.mark.parametrize(
    "data", ["np.float64(2)", "[np.float64(2), np.float64(3)]", "np.float32(2)", "np.int16(2)", "2.0"]
)
def test_numbers_keep_their_dtype(data):
    mine, theirs = nt.tensor(eval(data)), torch.tensor(eval(data))
    assert str(mine.dtype) == str(theirs.dtype) and mine.tolist() == theirs.tolist()
    assert nt.tensor(eval(data), dtype=nt.float32).dtype is nt.float32


@pytest.mark.parametrize(
    "text",
    [
        "x + np.float32(2)", "np.float32(2) - x", "x * np.int64(2)", "np.int64(2) ** x", "x > np.float32(1)",
        "np.float32(1) < x", "n * np.float32(2)", "n * np.float64(2)", "n + np.int8(2)", "x == np.ones(2)",
        "t.add(x, np.float32(1))", "t.full((2,), np.float32(3))", "t.full((2,), np.bool_(True))",
        "x.clamp(np.float32(0), np.float16(0.5))", "x.masked_fill(x > 2, np.float32(4))", "x.mul_(np.float32(2))",
        "t.zeros(np.int64(3))", "x.view(np.int64(2), 1)", "x[np.int64(1)]",
    ],
)  # fmt: skip
def test_numbers_as_operands(text):
    results = []
    for t in (nt, torch):
        results.append(eval(text, {"t": t, "np": np, "x": t.tensor([1.0, 4.0]), "n": t.arange(3)}))
    mine, theirs = results
    assert type(mine) is nt.Tensor and str(mine.dtype) == str(theirs.dtype) and mine.tolist() == theirs.tolist()


def test_arrays_are_no_numbers():
    for call in (lambda: nt.ones(3).add(np.ones(3)), lambda: nt.ones(2).reshape(np.array([2, 1]))):
        with pytest.raises(TypeError, match="not numpy.ndarray"):
            call()


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"])
def test_numpy_may_write(dtype):
    x = nt.zeros(2, 3, dtype=getattr(nt, dtype))
    array = x.t().numpy()
    assert array.shape == (3, 2) and str(array.dtype) == dtype and array.flags.writeable
    array[2, 1] = 1
    assert x.tolist() == [[0, 0, 0], [0, 0, 1]]
    del x
    assert array.sum() == 1 and nt.zeros(0, 3, dtype=getattr(nt, dtype)).numpy().shape == (0, 3)
    with pytest.raises(TypeError, match="BFloat16"):
        nt.ones(1, dtype=nt.bfloat16).numpy()


@pytest.mark.parametrize(
    "key",
    [
        "np.array([2, 0])", "np.array([True, False, True])", "(slice(None), np.array([3, 1]))", "range(2)",
        "(np.array([0, 2]), np.array([1, 3]))", "(np.array([[0], [2]]), torch.tensor([1, 3]))", "(1, range(1, 3))",
    ],
)  # fmt: skip
def test_arrays_as_indices(key):
    mine, theirs = nt.arange(12).view(3, 4), torch.arange(12).view(3, 4)
    ours, key = eval(key, {"np": np, "torch": nt}), eval(key, {"np": np, "torch": torch})
    assert mine[ours].tolist() == theirs[key].tolist()
    mine[ours], theirs[key] = 7, 7
    assert mine.tolist() == theirs.tolist()
