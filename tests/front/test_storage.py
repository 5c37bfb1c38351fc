"""Storages as objects: what tensors share, seen as bytes and as numbers."""

import copy
import pickle
import warnings

import narthex
import pytest

torch = pytest.importorskip("torch")
BOTH = (torch, narthex)


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="TypedStorage is deprecated")
        yield


def same(f):
    """What `f` gives on both sides, or the errors' types and first lines."""
    found = []
    for t in BOTH:
        try:
            found.append(f(t))
        except Exception as error:
            found.append((type(error).__name__, str(error).split("\n")[0]))
    assert found[1] == found[0]


def test_views_share_one_storage():
    for t in BOTH:
        x = t.arange(12.0).view(3, 4)
        y = x[1:, 2:]
        assert y.untyped_storage() is x.untyped_storage()
        assert y.untyped_storage().data_ptr() == x.data_ptr() == y.data_ptr() - 24
        assert x.clone().untyped_storage().data_ptr() != x.data_ptr()
        assert x.untyped_storage().nbytes() == len(x.untyped_storage()) == y.untyped_storage().size() == 48


@pytest.mark.parametrize(
    "ask",
    [
        lambda t: t.arange(4.0).untyped_storage().tolist(),
        lambda t: repr(t.arange(2.0).untyped_storage()),
        lambda t: repr(t.arange(2.0).storage()),
        lambda t: t.arange(4.0).untyped_storage()[7],
        lambda t: t.arange(4.0).untyped_storage()[4:8].tolist(),
        lambda t: t.arange(4.0).untyped_storage()["a"],
        lambda t: t.arange(4.0).untyped_storage()[100],
        lambda t: t.UntypedStorage("x"),
        lambda t: t.UntypedStorage([1, 2, 300 % 256]).tolist(),
        lambda t: t.UntypedStorage(5).nbytes(),
        lambda t: t.arange(4).storage().tolist(),
        lambda t: str(t.arange(4).storage().dtype),
        lambda t: t.arange(4, dtype=t.int16).storage().type(),
        lambda t: t.arange(4).storage_type() is t.LongStorage,
        lambda t: t.FloatStorage([1, 2, 3]).tolist(),
        lambda t: (t.FloatStorage(3).element_size(), t.DoubleStorage(3).nbytes()),
        lambda t: isinstance(t.arange(4.0).storage(), t.FloatStorage),
        lambda t: isinstance(t.arange(4.0).storage(), t.LongStorage),
        lambda t: (t.is_storage(t.ones(1).storage()), t.is_storage(t.ones(1).untyped_storage()), t.is_storage(3)),
        lambda t: t.UntypedStorage.from_buffer(b"abcd", byte_order="big", dtype=t.int16).tolist(),
        lambda t: t.FloatStorage.from_buffer(b"\0\0\x80?\0\0\0@", byte_order="little").tolist(),
        lambda t: t.arange(3.0).untyped_storage().float().tolist(),
        lambda t: t.arange(3.0).storage().int().tolist(),
        lambda t: t.ones(1).untyped_storage().is_shared(),
        lambda t: str(t.ones(1).untyped_storage().device),
        lambda t: t.arange(3.0).storage()[1],
        lambda t: t.arange(3.0).storage()[5],
    ],
)
def test_answers(ask):
    same(ask)


def test_writes_reach_tensors():
    for t in BOTH:
        x = t.arange(4.0)
        x.storage()[2] = 7.0
        assert x.tolist() == [0, 1, 7, 3]
        x.untyped_storage().copy_(t.tensor([5.0, 6.0, 7.0, 8.0]).untyped_storage())
        assert x.tolist() == [5, 6, 7, 8]
        x.untyped_storage().fill_(0)
        assert x.tolist() == [0, 0, 0, 0]
        y = t.tensor([1, 256], dtype=t.int16)
        y.untyped_storage().byteswap(t.int16)
        assert y.tolist() == [256, 1]


def test_copies_are_apart():
    for t in BOTH:
        x = t.arange(3.0)
        for make in (copy.copy, copy.deepcopy, lambda s: s.clone()):
            other = make(x.untyped_storage())
            other.fill_(0)
            assert x.tolist() == [0, 1, 2] and other.nbytes() == 12
        both = copy.deepcopy([x.untyped_storage(), x.untyped_storage()])
        assert both[0].data_ptr() == both[1].data_ptr() != x.data_ptr()
    x = narthex.arange(3.0)
    again = pickle.loads(pickle.dumps((x.untyped_storage(), x.storage())))
    assert again[0].tolist() == x.untyped_storage().tolist() and again[1].tolist() == [0, 1, 2]


def test_from_file(tmp_path):
    path = tmp_path / "numbers"
    path.write_bytes(bytes(range(8)))
    for t in BOTH:
        mapped = t.UntypedStorage.from_file(str(path), shared=True, nbytes=8)
        mapped[3] = 99
        assert t.empty(0, dtype=t.uint8).set_(mapped).tolist() == mapped.tolist()
        del mapped
    assert path.read_bytes() == bytes([0, 1, 2, 99, 4, 5, 6, 7])


def test_resize():
    for t in BOTH:
        storage = t.UntypedStorage([1, 2, 3])
        assert storage.resize_(5) is storage and storage.tolist()[:3] == [1, 2, 3] and len(storage) == 5
    with pytest.raises(NotImplementedError, match="keeps its size"):
        x = narthex.ones(3)
        x.untyped_storage().resize_(0)
    with pytest.raises(NotImplementedError, match="share_memory_"):
        narthex.ones(3).untyped_storage().share_memory_()


def test_the_typed_one_is_deprecated():
    for t in BOTH:
        t.storage._reset_warn_typed_storage_removal()
        with pytest.warns(UserWarning, match="TypedStorage is deprecated. It will be removed in the future"):
            t.ones(1).storage()
