"""The programs of this folder through Python: Graph.parse, text, python, verify, aot and calling a graph.

tests/unit/ir/test_nx.c runs every command of every file; here the commands that Python has are run again,
and texts damaged at random must end in an error or in a graph, never in a crash.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

nx_c = pytest.importorskip("narthex._C")
import narthex as torch  # noqa: E402  (after the check that it is built)

Graph = nx_c.Graph
FILES = sorted(Path(__file__).parent.glob("*.nx"))


def read(path: Path) -> tuple[str, str, str]:
    """Command, program and expected text of one file."""
    program, expected = path.read_text().split("# expect:\n")
    lines = [line[2:] if line.startswith("# ") else line[1:] for line in expected.splitlines() if line.startswith("#")]
    return program.splitlines()[0].removeprefix("# test: "), program, "\n".join(lines) + "\n"


def cases(*commands: str) -> list[object]:
    return [pytest.param(*read(f), id=f.stem) for f in FILES if read(f)[0].split()[0] in commands]


@pytest.mark.parametrize(("command", "program", "expected"), cases("error"))
def test_error(command: str, program: str, expected: str) -> None:
    with pytest.raises(ValueError) as error:
        Graph.parse(program)
    assert str(error.value) == expected.rstrip("\n")


@pytest.mark.parametrize("path", [f for f in FILES if not f.stem.startswith("error")], ids=lambda f: f.stem)
def test_reads_back(path: Path) -> None:
    text = Graph.parse(read(path)[1]).text()
    assert Graph.parse(text).text() == text


@pytest.mark.parametrize(("command", "program", "expected"), cases("print", "python"))
def test_print(command: str, program: str, expected: str) -> None:
    graph = Graph.parse(program)
    got = graph.text() if command == "print" else graph.python(shapes="plain" not in command, lines=True)
    assert got == expected


@pytest.mark.parametrize(("command", "program", "expected"), cases("verify"))
def test_verify(command: str, program: str, expected: str) -> None:
    graph = Graph.parse(program)
    if expected == "ok\n":
        graph.verify()
        return
    with pytest.raises(RuntimeError) as error:
        graph.verify()
    assert str(error.value) == expected.rstrip("\n")


@pytest.mark.parametrize(("command", "program", "expected"), cases("aot"))
def test_aot(command: str, program: str, expected: str) -> None:
    graph = Graph.parse(program)
    if not expected.startswith(("joint:", "forward:")):
        with pytest.raises(NotImplementedError) as error:
            graph.aot(True)
        assert str(error.value) == expected.rstrip("\n")
        return
    aot = graph.aot(True)
    parts = [(name, getattr(aot, name)) for name in ("joint", "forward", "backward")]
    assert expected.startswith("".join(f"{name}:\n{part.text()}" for name, part in parts if part is not None))


def test_printed_code_is_python() -> None:
    """The printed form of the thin line runs under PyTorch's names and gives what the interpreter gives."""
    graph = Graph.parse(read(Path(__file__).parent / "python_captured.nx")[1])
    scope: dict[str, object] = {"torch": torch}
    exec(graph.python(shapes=True, lines=True), scope)  # noqa: S102
    inputs = [torch.randn(5, 4), torch.randn(3, 4), torch.randn(5)]
    (want,) = graph(*inputs)
    (got,) = scope["forward"](None, *inputs)  # type: ignore[operator]
    assert got.item() == want.item()


@pytest.mark.parametrize("seed", range(20))
def test_damaged_text(seed: int) -> None:
    draw = random.Random(seed)
    pieces = ["%", "[", ")", "{", "9" * 20, "-1", '"', "\\", "\n", "#", "f32[", "aten::t", "cpu", "(((", "é"]
    pieces += ["npu:0", " grad"]
    for _ in range(100):
        text = read(draw.choice(FILES))[1]
        for _ in range(draw.randint(1, 4)):
            at = draw.randrange(len(text))
            text = text[:at] + draw.choice(pieces) + text[at + draw.randint(0, 6) :]
        try:
            graph = Graph.parse(text)
        except ValueError as error:
            assert "line" in str(error), f"seed {seed}: {error}"
            continue
        assert Graph.parse(graph.text()).text() == graph.text(), f"seed {seed}"
        try:
            graph.verify()
        except RuntimeError:
            continue
        graph.python()
