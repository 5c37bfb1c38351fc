"""torch.save and torch.load: files go to PyTorch and come from it; reading executes nothing."""

import io
import json
import os
import pickle
import random
import signal
import subprocess
import sys
import zipfile
from collections import OrderedDict

import narthex as nt
import pytest
import torch
from both import same

DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"]


def content(module):
    """Everything that a checkpoint usually has; `module` makes it."""
    x = module.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    return {
        "tensors": {name: module.tensor([0, 1, 1], dtype=getattr(module, name)) for name in DTYPES},
        "x": x,
        "view": x.t(),
        "scalar": module.tensor(2.5),
        "empty": module.empty((0, 3)),
        "parameter": module.nn.Parameter(module.tensor([1.0, -1.0])),
        "frozen": module.nn.Parameter(module.tensor([1.0]), requires_grad=False),
        "leaf": module.tensor([2.0], requires_grad=True),
        "plain": [1, -(2**40), 2.5, "text", None, True, (1, (2, 3)), b"bytes", {4, 5}],
        "ordered": OrderedDict(a=1, b=[x]),
        "dtype": module.bfloat16,
        "size": x.shape,
        "device": module.device("cpu"),
    }


def compare(mine, theirs):
    if isinstance(mine, nt.Tensor):
        same(mine, theirs)
        assert mine.requires_grad == theirs.requires_grad and mine.stride() == theirs.stride()
        assert isinstance(mine, nt.nn.Parameter) == isinstance(theirs, torch.nn.Parameter)
    elif isinstance(mine, dict):
        assert type(mine) is type(theirs) and list(mine) == list(theirs)
        for key in mine:
            compare(mine[key], theirs[key])
    elif isinstance(mine, nt.Size):
        assert isinstance(theirs, torch.Size) and tuple(mine) == tuple(theirs)
    elif isinstance(mine, (list, tuple)):
        assert type(mine) is type(theirs) and len(mine) == len(theirs)
        for one, other in zip(mine, theirs):
            compare(one, other)
    elif isinstance(mine, (nt.dtype, nt.device)):
        assert repr(mine) == repr(theirs)
    else:
        assert type(mine) is type(theirs) and mine == theirs


@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_to_pytorch(tmp_path, protocol):
    path = tmp_path / "model.pt"
    nt.save(content(nt), path, pickle_protocol=protocol)
    theirs = torch.load(path, weights_only=protocol == 2)
    compare(content(nt), theirs)
    assert theirs["x"].data_ptr() == theirs["view"].data_ptr() == theirs["ordered"]["b"][0].data_ptr()
    assert theirs["ordered"]["b"][0] is theirs["x"]
    if protocol == 2:
        mapped = torch.load(path, mmap=True)
        compare(content(nt), mapped)
        assert mapped["x"].data_ptr() % 64 == 0


def test_from_pytorch(tmp_path):
    path = tmp_path / "model.pt"
    torch.save(content(torch), path)
    mine = nt.load(path)
    compare(mine, content(torch))
    mine["x"].fill_(7.0)
    assert mine["view"].tolist() == [[7.0, 7.0]] * 3 and mine["ordered"]["b"][0] is mine["x"]
    assert mine["view"]._base is None and mine["view"]._version == mine["x"]._version


def test_there_and_back_through_a_file_object():
    file = io.BytesIO()
    nt.save(content(nt), file)
    file.seek(0)
    compare(nt.load(file), content(torch))


def test_state_of_a_module_and_optimizer(tmp_path):
    theirs = torch.nn.Sequential(torch.nn.Identity(), torch.nn.ParameterList([torch.ones(2)]))
    torch.save({"model": theirs.state_dict()}, tmp_path / "a.pt")
    mine = nt.nn.Sequential(nt.nn.Identity(), nt.nn.ParameterList([nt.tensor([0.0, 0.0])]))
    found = nt.load(tmp_path / "a.pt", map_location="cpu")["model"]
    assert isinstance(found, OrderedDict) and repr(mine.load_state_dict(found)) == "<All keys matched successfully>"
    assert mine[1][0].tolist() == [1.0, 1.0]
    optimizer = nt.optim.SGD(mine.parameters(), lr=0.1, momentum=0.9)
    (mine[1][0] * 2).sum().backward()
    optimizer.step()
    nt.save({"model": mine.state_dict(), "optimizer": optimizer.state_dict()}, tmp_path / "b.pt")
    state = torch.load(tmp_path / "b.pt")
    theirs.load_state_dict(state["model"])
    other = torch.optim.SGD(theirs.parameters(), lr=1.0, momentum=0.1)
    other.load_state_dict(state["optimizer"])
    assert other.param_groups[0]["lr"] == 0.1 and other.state[theirs[1][0]]["momentum_buffer"].tolist() == [2.0, 2.0]


def test_map_location(tmp_path):
    path = tmp_path / "x.pt"
    torch.save(torch.tensor([1.0]), path)
    places = []
    for where in ("cpu", nt.device("cpu"), {"cuda:0": "cpu"}, lambda storage, place: places.append(place) or storage):
        assert nt.load(path, map_location=where).tolist() == [1.0]
    assert places == ["cpu"]
    # What a machine with CUDA wrote differs by one word.
    data = io.BytesIO()
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(data, "w") as new:
        for name in old.namelist():
            text = old.read(name)
            if name.endswith("data.pkl"):
                assert b"X\x03\x00\x00\x00cpu" in text
                text = text.replace(b"X\x03\x00\x00\x00cpu", b"X\x06\x00\x00\x00cuda:0")
            new.writestr(name, text)
    with pytest.raises(RuntimeError, match="Attempting to deserialize object on a CUDA device"):
        nt.load(data)
    assert nt.load(data, map_location="cpu").tolist() == [1.0]
    assert nt.load(data, map_location={"cuda:0": "cpu"}).tolist() == [1.0]


class Command:
    """What a hostile file would hold: a call of os.system when it is unpickled."""

    def __init__(self, path) -> None:
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


@pytest.mark.parametrize("weights_only", [None, True])
def test_nothing_is_executed(tmp_path, weights_only):
    path, trace = tmp_path / "x.pt", tmp_path / "trace"
    torch.save({"a": Command(trace)}, path)
    with pytest.raises(pickle.UnpicklingError, match=r"(posix|nt)[.]system was not an allowed global"):
        nt.load(path, weights_only=weights_only)
    assert not trace.exists()


def archive_of(text: bytes) -> io.BytesIO:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", text)
        archive.writestr("archive/data/0", b"\0" * 8)
        archive.writestr("archive/version", b"3\n")
    return file


GET_TENSOR = b"ctorch._utils\n_rebuild_tensor_v2\n"


def tensor_text(offset: bytes, size: bytes, stride: bytes, n: bytes = b"K\x02") -> bytes:
    storage = b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpu" + n + b"tQ"
    return b"\x80\x02" + GET_TENSOR + b"(" + storage + offset + b"(" + size + b"t(" + stride + b"t\x89}tR."


@pytest.mark.parametrize(
    "text, error",
    [
        (b"", pickle.UnpicklingError),
        (b"\x80\x02K\x01", pickle.UnpicklingError),
        (b"\x80\x02.", pickle.UnpicklingError),
        (b"\x80\x02t.", pickle.UnpicklingError),
        (b"\x80\x02h\x05.", pickle.UnpicklingError),
        (b"\x80\x02]K\x01s.", pickle.UnpicklingError),
        (b"\x80\x02K\x01)R.", pickle.UnpicklingError),
        (b"\x80\x02" + GET_TENSOR + b")R.", pickle.UnpicklingError),
        # attributes on a function, an extension code, an object made by the class itself
        (b"\x80\x02" + GET_TENSOR + b"}X\x08\x00\x00\x00__code__K\x01sb.", pickle.UnpicklingError),
        (b"\x80\x02\x82\x01.", pickle.UnpicklingError),
        (b"\x80\x02cbuiltins\neval\nX\x01\x00\x00\x001\x85R.", pickle.UnpicklingError),
        (b"\x80\x02ctorch\nmanual_seed\nK\x01\x85R.", pickle.UnpicklingError),
        (b"\x80\x04\x8c\x05posix\x8c\x06system\x93.", pickle.UnpicklingError),
        (tensor_text(b"K\x00", b"K\x03", b"K\x01"), RuntimeError),
        (tensor_text(b"K\x01", b"K\x02", b"K\x01"), RuntimeError),
        (tensor_text(b"J\xff\xff\xff\xff", b"K\x01", b"K\x01"), RuntimeError),
        (tensor_text(b"K\x00", b"J\xff\xff\xff\xff", b"K\x01"), RuntimeError),
        (tensor_text(b"K\x00", b"K\x02", b"J\xff\xff\xff\xff"), RuntimeError),
        (tensor_text(b"K\x00", b"\x8a\x08" + b"\xff" * 7 + b"\x7f", b"\x8a\x08" + b"\xff" * 7 + b"\x7f"), RuntimeError),
        (tensor_text(b"K\x00", b"K\x02", b"K\x01", b"M\x00\x10"), RuntimeError),
        (tensor_text(b"K\x00", b"K\x01K\x01", b"K\x01"), RuntimeError),
    ],
)
def test_damaged_files(text, error):
    with pytest.raises(error):
        nt.load(archive_of(text))


def test_other_files(tmp_path):
    (tmp_path / "cut.pt").write_bytes(b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.")
    with pytest.raises(pickle.UnpicklingError, match="damaged pickle"):
        nt.load(tmp_path / "cut.pt")
    (tmp_path / "plain.pt").write_bytes(pickle.dumps({"a": 1}))
    with pytest.raises(pickle.UnpicklingError, match="none that torch.save wrote"):
        nt.load(tmp_path / "plain.pt")
    with pytest.raises(FileNotFoundError):
        nt.load(tmp_path / "none.pt")
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("x.txt", b"")
    with pytest.raises(RuntimeError, match="no checkpoint"):
        nt.load(file)


def saved() -> bytes:
    file = io.BytesIO()
    nt.save({"a": nt.arange(10.0), "b": [1, "x", nt.ones(3, 4).t()], "p": nt.nn.Parameter(nt.ones(2))}, file)
    return file.getvalue()


def test_truncated_and_foreign_files(tmp_path):
    whole, path = saved(), tmp_path / "x.pt"
    for n in range(4, len(whole), 97):
        path.write_bytes(whole[:n])
        with pytest.raises(RuntimeError, match="cut off or damaged"):
            nt.load(path)
    for text, match in ((b"", "is empty"), (b"import torch\n", "no file of torch.save: it begins with b'import t'")):
        path.write_bytes(text)
        with pytest.raises(pickle.UnpicklingError, match=match):
            nt.load(path)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x/data.pkl", b"\0" * 1000)
    with pytest.raises(RuntimeError, match="damaged: x/data.pkl: it is compressed"):
        nt.load(path)


def test_flipped_bytes():
    """Every damage is told of by an error of these types, or does not matter."""
    whole, draw = saved(), random.Random(0)
    told = 0
    for _ in range(1500):
        damaged = bytearray(whole)
        for _ in range(draw.choice((1, 2, 5))):
            damaged[draw.randrange(len(damaged))] = draw.randrange(256)
        try:
            nt.load(io.BytesIO(bytes(damaged)))
        except (RuntimeError, pickle.UnpicklingError) as error:
            assert "torch.load" in str(error) or "pickle" in str(error) or "Weights only" in str(error), error
            told += 1
    assert told > 500


def test_a_killed_save_leaves_the_old_file(tmp_path):
    path = tmp_path / "x.pt"
    nt.save({"step": 1}, path)
    path.chmod(0o640)
    program = f"""
import os, signal, narthex as nt
from narthex import serialization
def dies(archive, name, data):
    if "/data/" in name:
        os.kill(os.getpid(), signal.SIGKILL)
    write(archive, name, data)
write, serialization._write_entry = serialization._write_entry, dies
nt.save({{"step": 2, "x": nt.ones(1000)}}, {str(path)!r})
"""
    assert subprocess.run([sys.executable, "-c", program]).returncode == -signal.SIGKILL
    assert nt.load(path) == {"step": 1}
    with pytest.raises((AttributeError, pickle.PicklingError)):
        nt.save({"x": [nt.ones(3), lambda: 1]}, path)
    nt.save({"step": 3}, path)
    assert nt.load(path) == {"step": 3} and path.stat().st_mode & 0o777 == 0o640
    link = tmp_path / "link.pt"
    link.symlink_to(path)
    nt.save({"step": 4}, link)
    assert link.is_symlink() and nt.load(path) == {"step": 4}
    with pytest.raises(RuntimeError, match="Parent directory .* does not exist"):
        nt.save({}, tmp_path / "none" / "x.pt")


@pytest.mark.parametrize(
    "wrong, error, message",
    [
        (lambda: nt.save(1, io.BytesIO(), pickle_module=json), NotImplementedError, "pickle_module"),
        (lambda: nt.load(io.BytesIO(), mmap=True), ValueError, "f must be a string filename"),
        (lambda: nt.load(io.BytesIO(), pickle_module=pickle, weights_only=True), RuntimeError, "pickle_module"),
        (lambda: nt.save(lambda: 1, io.BytesIO()), (AttributeError, pickle.PicklingError), "pickle"),
    ],
)
def test_what_is_not_there(wrong, error, message):
    with pytest.raises(error, match=message):
        wrong()
