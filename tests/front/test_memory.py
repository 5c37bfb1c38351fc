"""numpy and other buffers in and out, and the generator's state."""

import array
import io

import narthex as nt
import numpy as np
import pytest
import torch
from both import same

DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"]


@pytest.mark.parametrize("name", DTYPES)
def test_numpy_in_and_out(name):
    source = np.array([[0, 1, 2], [3, 4, 5]]).astype(name)
    x = nt.from_numpy(source)
    same(x, torch.from_numpy(source))
    source[0, 0] = 1
    assert x.tolist()[0][0] == 1
    back = x.numpy()
    assert back.dtype == source.dtype and back.shape == (2, 3)
    source[1, 1] = 0
    assert back[1, 1] == 0
    same(nt.from_numpy(source.T), torch.from_numpy(source.T))
    same(nt.from_numpy(source[:, ::2]), torch.from_numpy(source[:, ::2]))


@pytest.mark.parametrize(
    "wrong, error, message",
    [
        (lambda t: t.from_numpy([1.0]), TypeError, "expected np.ndarray"),
        (lambda t: t.from_numpy(np.arange(3)[::-1]), ValueError, "negative"),
        (lambda t: t.from_numpy(np.array(["a"])), TypeError, "can't convert np.ndarray of type"),
        (lambda t: t.tensor([1.0], requires_grad=True).numpy(), RuntimeError, "Can't call numpy"),
    ],
)
def test_numpy_errors(wrong, error, message):
    for module in (nt, torch):
        with pytest.raises(error, match=message):
            wrong(module)


def test_as_tensor():
    x = nt.tensor([1.0, 2.0])
    assert nt.as_tensor(x) is x and nt.as_tensor(x, dtype=nt.float32) is x
    assert nt.as_tensor(x, dtype=nt.float64).dtype is nt.float64
    source = np.array([1.0, 2.0], dtype=np.float32)
    shared = nt.as_tensor(source)
    source[0] = 5.0
    assert shared.tolist() == [5.0, 2.0]
    for given in ([1, 2], [[1.0], [2.0]], 3, True, (1.5,), np.float32(2.5), np.int64(3), [np.float64(1.5), 2.0]):
        same(nt.as_tensor(given), torch.as_tensor(given))


@pytest.mark.filterwarnings("ignore:To copy construct")
def test_tensor_of_arrays():
    """torch.tensor copies arrays, tensors, ranges and lists of them."""

    def make(t):
        x = t.tensor([[1.0, 2.0]])
        source = np.ones((2, 2), dtype=np.int32)
        copies = [t.tensor(source), t.tensor(x), t.tensor(source, dtype=t.float64, requires_grad=True)]
        source[0, 0] = 5
        yield from copies
        yield t.tensor([t.tensor(1), t.tensor(2)])
        yield t.tensor([np.float32(1.5), np.float32(2.5)])
        yield t.tensor([np.arange(2), np.arange(2)])
        yield t.tensor(range(3))
        yield t.tensor([range(2), range(2)])
        yield t.tensor(np.True_)

    for mine, theirs in zip(make(nt), make(torch)):
        same(mine, theirs)
        assert mine.requires_grad == theirs.requires_grad
    for wrong in ("text", {1: 2}, [object()]):
        with pytest.raises(TypeError, match="nested sequences of numbers"):
            nt.tensor(wrong)


NESTED = """
[T(1), 2.5]; [2.5, T(1)]; [T(1.0), T(2.0, dtype=t.float64)]; [T(True), T(2)]; [T([1]), 2]; [T([[1.0]]), 2]
[T([1, 2]), T([3, 4])]; [T([1.0]), [2.0]]; [[T([1.0])], [T([2.0])]]; [T(1j), 2]; [T([True, False])]; [T([]), T([])]
[T(1, dtype=t.int8), T(1, dtype=t.uint8)]; [T(1.0, dtype=t.float16), 3]; [T(1.0, dtype=t.float16), 3.0]
[np.float32(1), 2.5]; [1, np.float64(2)]; [np.int32(1), 2]; [True, np.int16(3)]; [np.ones(2, "f4"), [1, 2]]
[np.array([1]), 2]; [1, [2]]; [1, [2, 3]]; [1.0, [2, 3]]; [[1], 2]; [[1], [[2]]]; [[1], []]; [[1, 2], [3]]; []; [[], []]
"""


@pytest.mark.parametrize("text", NESTED.strip().replace("\n", "; ").split("; "))
def test_what_numbers_of_nested_lists_promote_to(text):
    """Values, dtype and refusals are PyTorch's, also where tensors and numpy's numbers stand among them."""

    def outcome(t, make):
        try:
            made = make(eval(text, {"t": t, "T": t.tensor, "np": np}))
        except (TypeError, ValueError) as error:
            return type(error), str(error)
        return str(made.dtype).rpartition(".")[2], made.tolist()

    assert outcome(nt, nt.tensor) == outcome(torch, torch.tensor)
    assert outcome(nt, nt.as_tensor) == outcome(torch, torch.as_tensor)


def test_frombuffer():
    data, held = array.array("f", [1.0, 2.0, 3.0]), []
    for module in (nt, torch):
        x = module.frombuffer(data, dtype=module.float32)
        held.append(x)
        assert x.tolist() == list(data)
        data[0] += 1.0
        assert x.tolist() == list(data)
        assert module.frombuffer(data, dtype=module.float32, count=1, offset=4).tolist() == [2.0]
        for wrong in ({"offset": 12}, {"offset": 1}, {"count": 4}, {"offset": -1}):
            with pytest.raises(ValueError):
                module.frombuffer(data, dtype=module.float32, **wrong)
    with pytest.raises(BufferError):
        data.append(1.0)  # the tensor holds the buffer
    with pytest.raises(NotImplementedError, match="cannot be written to"):
        nt.frombuffer(b"\0\0\0\0", dtype=nt.float32)


@pytest.mark.parametrize("drawn", [0, 3, 700])
def test_generator_state(drawn):
    """The state's bytes are PyTorch's, and each side goes on from the other's."""
    nt.manual_seed(7)
    torch.manual_seed(7)
    if drawn:
        nt.randn(drawn)
        torch.randn(drawn)
    mine, theirs = nt.get_rng_state(), torch.get_rng_state()
    same(mine, theirs)
    nt.randn(5)
    nt.set_rng_state(nt.from_dlpack(theirs))
    first = nt.randn(20)
    nt.set_rng_state(mine)
    assert nt.randn(20).tolist() == first.tolist()
    same(first, torch.randn(20))


def test_generator_objects():
    mine, theirs = nt.Generator(), torch.Generator()
    same(mine.get_state(), theirs.get_state())
    mine.set_state(nt.from_dlpack(torch.Generator().manual_seed(3).get_state()))
    assert mine.initial_seed() == 3
    same(nt.randn(4, generator=mine), torch.randn(4, generator=theirs.manual_seed(3)))
    assert nt.default_generator.initial_seed() == nt.initial_seed()
    with nt.random.fork_rng():
        inside = nt.randn(3).tolist()
    assert nt.randn(3).tolist() == inside
    for wrong, error in (
        (nt.tensor([0], dtype=nt.uint8), RuntimeError),
        (nt.zeros(5056, dtype=nt.uint8), RuntimeError),
        (nt.tensor([1.0]), TypeError),
        (3, TypeError),
    ):
        with pytest.raises(error):
            mine.set_state(wrong)
    damaged = theirs.get_state()
    damaged[16:24] = 255
    with pytest.raises(RuntimeError, match="invalid mt19937 state"):
        mine.set_state(nt.from_dlpack(damaged))


def test_storages():
    """tensor_on_storage never reaches outside of the storage."""
    x = nt.tensor([0.0, 1.0, 2.0, 3.0])
    on = nt._C.tensor_on_storage
    assert on(x, (2, 2), (1, 2), 0).tolist() == [[0.0, 2.0], [1.0, 3.0]]
    assert on(x, (0,), (1,), 4).tolist() == [] and on(x, (), (), 3).item() == 3.0
    for size, stride, offset in (((5,), (1,), 0), ((2,), (1,), 3), ((2,), (2**62,), 2**62), ((1,), (1,), -1)):
        with pytest.raises(RuntimeError, match="out of bounds"):
            on(x, size, stride, offset)
    with pytest.raises(TypeError):
        nt._C.tensor_over(bytearray(4), 3)
    with pytest.raises(ValueError, match="multiple"):
        nt._C.tensor_over(bytearray(5), nt.float32)
    with pytest.raises(BufferError):
        nt._C.tensor_over(b"1234", nt.float32)
    with pytest.raises(TypeError):
        nt._C.tensor_over(io.BytesIO(), nt.float32)
