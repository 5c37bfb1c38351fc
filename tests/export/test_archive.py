"""torch.export.save and load: archives that PyTorch reads, archives of PyTorch's, and files that mean harm."""

from __future__ import annotations

import io
import json
import pickle
import random
import zipfile
from pathlib import Path
from typing import Any

import narthex
import narthex.export
import pytest
import torch
import torch.export
from models import cases

NAMES = sorted(cases(narthex))


def written(side: Any, name: str, decomposed: bool) -> tuple:
    """(the archive, arguments, what the module makes of them)."""
    side.manual_seed(0)
    mod, args, kwargs, shapes, (more, keywords) = cases(side)[name]
    program = side.export.export(mod, args, kwargs, dynamic_shapes=shapes)
    room = io.BytesIO()
    side.export.save(program.run_decompositions() if decomposed else program, room, extra_files={"note.txt": "held"})
    return room.getvalue(), (more, keywords), program.module()(*more, **keywords)


def to(side: Any, tree: Any) -> Any:
    """The same tensors on the other side."""
    if hasattr(tree, "detach"):
        return side.from_numpy(tree.detach().numpy().copy())
    if isinstance(tree, dict):
        return {key: to(side, value) for key, value in tree.items()}
    return type(tree)(to(side, value) for value in tree) if isinstance(tree, (list, tuple)) else tree


def check(reader: Any, data: bytes, given: tuple, expected: Any) -> None:
    extra = {"note.txt": ""}
    program = reader.export.load(io.BytesIO(data), extra_files=extra)
    args, kwargs = to(reader, given)
    reader.testing.assert_close(program.module()(*args, **kwargs), to(reader, expected), rtol=1e-4, atol=1e-5)
    assert extra == {"note.txt": "held"}


@pytest.mark.parametrize("decomposed", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_ours_is_read_by_both(name: str, decomposed: bool) -> None:
    data, given, expected = written(narthex, name, decomposed)
    check(narthex, data, given, expected)
    check(torch, data, given, expected)


@pytest.mark.parametrize("decomposed", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_pytorchs_is_read(name: str, decomposed: bool) -> None:
    check(narthex, *written(torch, name, decomposed))


@pytest.mark.parametrize("reads", [narthex, torch], ids=["narthex", "pytorch"])
@pytest.mark.parametrize("writes", [narthex, torch], ids=["narthex", "pytorch"])
def test_branches(writes: Any, reads: Any) -> None:
    """A cond, one within a branch of it, several results, parameters that one branch alone reads."""

    class Branches(writes.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = writes.nn.Linear(3, 3), writes.nn.Linear(3, 3)

        def forward(self, x: Any) -> Any:
            def inner(x: Any) -> Any:
                return writes.cond(x.max() > 2, lambda x: self.first(x).sin(), lambda x: x * 2, (x,)), x.abs() + 1

            y, z = writes.cond(x.sum() > 0, inner, lambda x: (self.second(x), x.cos()), (x,))
            return y * 2, z

    mod = Branches()
    program, room = writes.export.export(mod, (writes.ones(2, 3),)), io.BytesIO()
    writes.export.save(program, room)
    room.seek(0)
    loaded = reads.export.load(room)
    for run in [loaded.module(), *([loaded.run_decompositions().module()] if reads is narthex else [])]:
        for factor in (1.0, -1.0, 3.0):
            x = [[factor] * 3] * 2
            for found, wanted in zip(run(reads.tensor(x)), mod(writes.tensor(x)), strict=True):
                assert found.tolist() == [pytest.approx(row, rel=1e-5) for row in wanted.tolist()]


def test_all_of_a_program_comes_back(tmp_path: Path) -> None:
    narthex.manual_seed(0)
    mod, args, kwargs, shapes, _ = cases(narthex)["state"]
    program = narthex.export.export(mod, args, kwargs, dynamic_shapes=shapes)
    narthex.export.save(program, tmp_path / "a.pt2")
    again = narthex.export.load(tmp_path / "a.pt2")
    assert again.graph_module.code == program.graph_module.code
    assert str(again.graph_signature) == str(program.graph_signature)
    assert again.range_constraints == program.range_constraints and again.dialect == program.dialect
    assert str(again.call_spec) == str(program.call_spec)
    for path, value in program.state_dict.items():
        assert (
            narthex.equal(again.state_dict[path], value) and again.state_dict[path].requires_grad == value.requires_grad
        )
    assert narthex.equal(again.constants["scale"], mod.scale)
    narthex.testing.assert_close(again.example_inputs, program.example_inputs)
    room = io.BytesIO()
    narthex.export.save(again, room)
    assert narthex.export.load(io.BytesIO(room.getvalue())).graph_module.code == program.graph_module.code
    decomposed = again.run_decompositions()
    results = [each.module()(*args, **kwargs)["out"] for each in (decomposed, again)]
    narthex.testing.assert_close(*results)


def test_weights_that_share_memory_still_do() -> None:
    class Tied(narthex.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.head = narthex.nn.Embedding(4, 3), narthex.nn.Linear(3, 4, bias=False)
            self.head.weight = self.embed.weight

        def forward(self, x: Any) -> Any:
            return self.head(self.embed(x))

    room = io.BytesIO()
    tied = Tied()
    narthex.export.save(narthex.export.export(tied, (narthex.tensor([1, 2]),)), room)
    assert sum("weight_" in name for name in zipfile.ZipFile(room).namelist()) == 1
    again = narthex.export.load(io.BytesIO(room.getvalue()))
    assert narthex.equal(again.module()(narthex.tensor([3, 0])), tied(narthex.tensor([3, 0])))


def test_a_loaded_program_becomes_a_model_file(tmp_path: Path) -> None:
    data, _, _ = written(torch, "gelu", False)
    narthex.model_file.save(narthex.export.load(io.BytesIO(data)), tmp_path / "gelu.nxm")
    assert (tmp_path / "gelu.nxm").stat().st_size > 100


# ---- files that mean harm
def changed(data: bytes, changes: dict[str, bytes | None]) -> io.BytesIO:
    room = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as source, zipfile.ZipFile(room, "w") as target:
        for name in source.namelist():
            content = changes.get(name.partition("/")[2], source.read(name))
            if content is not None:
                target.writestr(name, content)
    return room


def model_of(data: bytes) -> Any:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return json.loads(archive.read("archive/models/model.json"))


class Harm:
    ran = False

    def __reduce__(self) -> Any:
        return exec, ("import test_archive; test_archive.Harm.ran = True",)


def test_nothing_in_a_file_is_executed() -> None:
    data, _, _ = written(narthex, "state", False)
    bomb = pickle.dumps(Harm())
    with pytest.raises((RuntimeError, pickle.UnpicklingError)):
        narthex.export.load(changed(data, {"data/sample_inputs/model.pt": bomb}))
    plain = model_of(data)
    nodes = plain["graph_module"]["graph"]["nodes"]
    for target in ("torch.ops.os.system.default", "os.system", "_operator.call", "torch.ops.aten.__class__.default",
                   "builtins.exec", "torch.load", "torch.ops.aten.add.__init__"):  # fmt: skip
        nodes[0]["target"] = target
        with pytest.raises(NotImplementedError, match="which is not there"):
            narthex.export.load(changed(data, {"models/model.json": json.dumps(plain).encode()}))
    plain = model_of(data)
    signature = plain["graph_module"]["module_call_graph"][0]["signature"]
    signature["out_spec"] = '[1, {"type": "collections.namedtuple", "context": "\\"os.system\\"", "children_spec": []}]'
    with pytest.raises((RuntimeError, NotImplementedError), match="namedtuple"):
        narthex.export.load(changed(data, {"models/model.json": json.dumps(plain).encode()}))
    assert not Harm.ran


def test_sizes_that_cannot_be() -> None:
    data, _, _ = written(narthex, "static", False)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        table = json.loads(archive.read("archive/data/weights/model_weights_config.json"))
    for change in (
        {"sizes": [{"as_int": 1 << 40}, {"as_int": 1 << 40}]},
        {"sizes": [{"as_int": -1}, {"as_int": 3}]},
        {"strides": [{"as_int": 300}, {"as_int": 1}]},
        {"strides": [{"as_int": 1}]},
        {"storage_offset": {"as_int": 5}},
        {"storage_offset": {"as_int": -5}},
        {"dtype": 99},
        {"dtype": "7"},
    ):
        bad = json.loads(json.dumps(table))
        bad["config"]["linear.weight"]["tensor_meta"].update(change)
        with pytest.raises(RuntimeError, match="torch.export.load"):
            narthex.export.load(changed(data, {"data/weights/model_weights_config.json": json.dumps(bad).encode()}))
    for changes in ({"models/model.json": b"{"}, {"models/model.json": None}, {"data/weights/weight_0": b""},
                    {"archive_format": b"zip"}, {"models/model.json": b"[" * 99_999},
                    {"models/model.json": b"[]"}):  # fmt: skip
        with pytest.raises(RuntimeError, match="torch.export.load"):
            narthex.export.load(changed(data, changes))
    for plain in (b"", b"PK", data[: len(data) // 2], b"\x00" * 300):
        with pytest.raises(RuntimeError, match="torch.export.load"):
            narthex.export.load(io.BytesIO(plain))


def leaves(tree: Any, path: tuple = ()) -> list[tuple]:
    rows = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    found = [(*path, key) for key, _ in rows]
    for key, value in rows:
        found += leaves(value, (*path, key))
    return found


STRANGE = (None, -1, 0, 1 << 70, "", "x", "../x", [], {}, [[]], True, 1.5, {"as_int": 3}, {"as_tensor": {"name": "x"}})


@pytest.mark.parametrize("seed", range(4))
def test_a_model_with_anything_in_it(seed: int) -> None:
    """Any part of model.json is replaced by something else, 250 times: it loads, or is refused as a file."""
    draw, refused = random.Random(seed), 0
    data, (args, kwargs), _ = written(narthex, "state" if seed % 2 else "several", False)
    plain = json.dumps(model_of(data))
    for _ in range(250):
        tree = json.loads(plain)
        path = draw.choice(leaves(tree))
        at = tree
        for key in path[:-1]:
            at = at[key]
        at[path[-1]] = draw.choice(STRANGE)
        try:
            narthex.export.load(changed(data, {"models/model.json": json.dumps(tree).encode()}))
        except (RuntimeError, NotImplementedError) as error:
            assert "torch.export.load" in str(error), (path, at[path[-1]], error)
            refused += 1
    assert refused > 50


@pytest.mark.parametrize("seed", range(4))
def test_an_archive_with_changed_bytes(seed: int) -> None:
    draw = random.Random(seed)
    data, _, _ = written(narthex, "gelu", False)
    for _ in range(150):
        broken = bytearray(data)
        for _ in range(draw.randint(1, 4)):
            broken[draw.randrange(len(broken))] = draw.randrange(256)
        try:
            narthex.export.load(io.BytesIO(bytes(broken)))
        except (RuntimeError, NotImplementedError):
            pass


def test_a_path_that_is_a_link_stays_one(tmp_path: Path) -> None:
    program = narthex.export.export(narthex.nn.Linear(2, 2), (narthex.ones(1, 2),))
    there, link = tmp_path / "program.pt2", tmp_path / "link.pt2"
    narthex.export.save(program, there)
    there.chmod(0o640)
    link.symlink_to(there)
    narthex.export.save(program, link)
    assert link.is_symlink() and there.stat().st_mode & 0o777 == 0o640
    assert sorted(each.name for each in tmp_path.iterdir()) == ["link.pt2", "program.pt2"]
    assert narthex.export.load(link).module()(narthex.ones(1, 2)).shape == (1, 2)
