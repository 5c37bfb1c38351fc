"""torch.load and torch.save beyond state_dicts: whole modules and other objects, allowed classes, files of before
PyTorch 1.6, mapped files, TorchScript archives; both ways between Narthex and PyTorch."""

import enum
import io
import os
import pickle
import subprocess
import sys
from collections import OrderedDict

import narthex as nt
import pytest
import torch
from both import close, same
from test_serialization import archive_of, compare, content


class Point:
    def __init__(self, x, y):
        self.x, self.y = x, y


class Colour(enum.Enum):
    RED = 1


def file_of(module, obj, **how) -> io.BytesIO:
    file = io.BytesIO()
    module.save(obj, file, **how)
    file.seek(0)
    return file


def network(module):
    module.manual_seed(0)
    layers = [module.nn.Conv2d(1, 3, 3), module.nn.BatchNorm2d(3), module.nn.ReLU(), module.nn.Flatten()]
    layers += [module.nn.Linear(3 * 16, 4), module.nn.Dropout(0.1), module.nn.GELU(), module.nn.LSTM(4, 5)]
    net = module.nn.Sequential(*layers[:-1])
    net.recurrent = layers[-1]
    net.names = module.nn.ModuleDict({"a": module.nn.Embedding(3, 2), "b": module.nn.LayerNorm(4)})
    return net.eval()


@pytest.mark.parametrize("old", [False, True])
def test_whole_modules_go_both_ways(old):
    how = {"_use_new_zipfile_serialization": not old}
    x = torch.randn(2, 1, 6, 6)
    theirs, mine = network(torch), network(nt)
    read_here = nt.load(file_of(torch, theirs, **how), weights_only=False)
    assert type(read_here) is nt.nn.Sequential and not read_here.training
    close(read_here[:7](nt.tensor(x.numpy())), theirs[:7](x))
    read_there = torch.load(file_of(nt, mine, **how), weights_only=False)
    assert type(read_there) is torch.nn.Sequential
    close(mine[:7](nt.tensor(x.numpy())), read_there[:7](x))
    assert repr(read_there) == repr(theirs) and repr(read_here) == repr(mine)
    for module in (read_here, read_there):  # they are alive: train them
        sum(p.sum() for p in module.train().parameters()).backward()
        assert all(p.grad is not None for p in module.parameters())
    state = nt.load(file_of(nt, mine, **how), weights_only=False).state_dict()
    assert list(state) == list(theirs.state_dict())
    with pytest.raises(
        pickle.UnpicklingError, match="container.Sequential was not an allowed global"
    ):
        nt.load(file_of(torch, theirs, **how))


@pytest.mark.parametrize("protocol", [2, 4])
def test_files_of_before_1_6(protocol):
    how = {"_use_new_zipfile_serialization": False, "pickle_protocol": protocol}
    for weights_only in (True, False):
        file = file_of(torch, content(torch), **how)
        theirs = torch.load(file_of(torch, content(torch), **how), weights_only=False)
        compare(nt.load(file, weights_only=weights_only), theirs)
        if protocol == 2 or not weights_only:  # which is all that PyTorch reads so
            compare(content(nt), torch.load(file_of(nt, content(nt), **how), weights_only=weights_only))
    x = torch.arange(6.0)
    a, b = nt.load(file_of(torch, [x, x.view(2, 3)[1]], **how))
    b.fill_(9)
    assert a.tolist() == [0, 1, 2, 9, 9, 9]
    stays = nt.load(file_of(torch, {"x": x}, **how), map_location=lambda storage, where: storage)
    assert stays["x"].tolist() == [*range(6)]


def test_damaged_streams():
    whole = file_of(torch, {"a": torch.arange(10.0)}, _use_new_zipfile_serialization=False).getvalue()
    for n in range(9, len(whole), 7):
        with pytest.raises((RuntimeError, pickle.UnpicklingError)):
            nt.load(io.BytesIO(whole[:n]))
    grown = whole.replace(b"K\x0a", b"K\x7f", 1)
    assert grown != whole
    with pytest.raises((RuntimeError, pickle.UnpicklingError)):
        nt.load(io.BytesIO(grown))


class Command:
    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


def test_who_asks_for_it_gets_any_object(tmp_path):
    obj = {"p": Point(nt.ones(2), [Colour.RED]), "f": os.path.join, "o": slice(1, 2), "t": (nt.float32, nt.Size([2]))}
    found = nt.load(file_of(nt, obj), weights_only=False)
    assert type(found["p"]) is Point and found["p"].x.tolist() == [1, 1] and found["p"].y == [Colour.RED]
    assert found["f"] is os.path.join and found["o"] == slice(1, 2) and found["t"] == (nt.float32, nt.Size([2]))
    nt.load(file_of(torch, Command(tmp_path / "ran")), weights_only=False)
    assert (tmp_path / "ran").exists()
    with pytest.raises(pickle.UnpicklingError, match="was not an allowed global"):
        nt.load(file_of(torch, Command(tmp_path / "again")))
    assert not (tmp_path / "again").exists()
    assert nt.load(file_of(torch, Point(1, 2)), pickle_module=pickle).y == 2  # as PyTorch, a pickle module decides


@pytest.mark.parametrize("module", [nt, torch])
def test_allowed_classes(module):
    made = {"p": Point(module.ones(2), 3), "c": Colour.RED, "s": OrderedDict(a=1)}
    serialization = nt.serialization
    name = f"{__name__}.Point"
    assert serialization.get_unsafe_globals_in_checkpoint(file_of(module, made)) == [name, f"{__name__}.Colour"]
    with pytest.raises(pickle.UnpicklingError, match=f"{name} was not an allowed global.*add_safe_globals"):
        nt.load(file_of(module, made))
    with serialization.safe_globals([Point, Colour]):
        found = nt.load(file_of(module, made))
        assert serialization.get_safe_globals() == [Point, Colour]
        assert serialization.get_unsafe_globals_in_checkpoint(file_of(module, made)) == []
    assert type(found["p"]) is Point and found["p"].x.tolist() == [1, 1] and found["c"] is Colour.RED
    assert serialization.get_safe_globals() == []
    serialization.add_safe_globals([(Point, "old.place.Dot"), Colour])
    try:
        renamed = file_of(module, made).getvalue()
        text = b"\x80\x02cold.place\nDot\n)\x81}X\x01\x00\x00\x00xK\x05sb."
        assert nt.load(archive_of(text)).x == 5
        with pytest.raises(pickle.UnpicklingError):
            nt.load(io.BytesIO(renamed))
    finally:
        serialization.clear_safe_globals()
    net = file_of(torch, torch.nn.Linear(2, 3))
    with serialization.safe_globals([nt.nn.Linear, set, nt.nn.Parameter]):
        assert nt.load(net).weight.shape == (3, 2)


def test_mapped_files(tmp_path):
    path = tmp_path / "x.pt"
    torch.save({"a": torch.arange(100_000.0), "b": torch.arange(7, dtype=torch.int16), "e": torch.empty(0)}, path)
    found = nt.load(path, mmap=True)
    assert found["a"].sum().item() == torch.arange(100_000.0).sum() and found["b"].tolist() == list(range(7))
    assert found["e"].numel() == 0
    found["a"].fill_(1)  # stays here
    assert nt.load(path)["a"][5].item() == 5
    before = resident()
    torch.save({"a": torch.zeros(32_000_000)}, path)
    after = resident()
    big = nt.load(path, mmap=True)
    assert resident() - max(before, after) < 64 << 20 and big["a"][-1].item() == 0
    file = tmp_path / "old.pt"
    torch.save({"a": 1}, file, _use_new_zipfile_serialization=False)
    with pytest.raises(RuntimeError, match="mmap"):
        nt.load(file, mmap=True)


def resident() -> int:
    with open("/proc/self/statm") as text:
        return int(text.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_the_other_byte_order(tmp_path):
    """A file as a machine with the other order writes it, by hand."""
    import zipfile

    x = {"a": torch.tensor([1.5, -2.0]), "b": torch.tensor([258], dtype=torch.int16), "c": torch.tensor([1 + 2j])}
    whole = file_of(torch, x)
    turned = io.BytesIO()
    with zipfile.ZipFile(whole) as before, zipfile.ZipFile(turned, "w") as after:
        for name in before.namelist():
            data = before.read(name)
            size = {"data/0": 4, "data/1": 2, "data/2": 4}.get(name.partition("/")[2], 1)
            data = b"".join(data[i : i + size][::-1] for i in range(0, len(data), size))
            after.writestr(name, b"big" if name.endswith("byteorder") else data)
    found = nt.load(turned)
    assert found["a"].tolist() == [1.5, -2.0] and found["b"].tolist() == [258] and found["c"].tolist() == [1 + 2j]


def test_torchscript_archives_give_their_tensors(tmp_path):
    path = tmp_path / "script.pt"
    net = network(torch)
    torch.jit.trace(net[:5], torch.randn(1, 1, 6, 6)).save(str(path))
    found = nt.load(path)
    expected = net[:5].state_dict()
    assert set(found) >= set(expected) - {"1.num_batches_tracked"}
    for name in set(found) & set(expected):
        same(found[name], expected[name])


def test_the_environment_decides_for_those_who_do_not(tmp_path):
    torch.save(slice(1, 2), tmp_path / "x.pt")
    program = f"import narthex as nt; print(nt.load({str(tmp_path / 'x.pt')!r}))"

    def run(**environment):
        done = subprocess.run([sys.executable, "-c", program], env={**os.environ, **environment}, capture_output=True)
        return done.stdout + done.stderr

    assert b"was not an allowed global" in run()
    assert run(TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD="1") == b"slice(1, 2, None)\n"
