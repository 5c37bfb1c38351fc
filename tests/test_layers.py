"""The rules of the house: who may include whom, and what may stand where. A failure prints the offending line.

layers.txt is the order. Generated headers count as the folder of their source, the C files of ops/ as src/kernel.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
INCLUDE = re.compile(r'\s*#\s*include\s+["<]([^">]+)[">]')
GENERATED = {"gen"}


def read_layers() -> dict[str, list[str]]:
    lines = [line for line in (ROOT / "layers.txt").read_text().splitlines() if line and not line.startswith("#")]
    return {name.strip(): uses.split() for name, uses in (line.split(":") for line in lines)}


def code_files() -> Iterator[tuple[str, Path]]:
    """(folder as layers.txt names it, file) for every C file of the library, the bindings and the plugins."""
    for top in ("src", "py", "plugins"):
        for path in sorted((ROOT / top).rglob("*.[ch]")):
            yield f"{top}/{path.relative_to(ROOT / top).parts[0]}", path
    for path in sorted((ROOT / "ops").rglob("*.[ch]")):
        yield "src/kernel", path
    for path in sorted((ROOT / "gen").glob("*.[ch]")):  # what generated files call, formulas of gradients above all
        yield "src/grad", path
    for path in sorted((ROOT / "include/narthex").glob("*.h")):
        yield "include/narthex", path


def includes() -> Iterator[tuple[str, Path, int, str]]:
    for folder, path in code_files():
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if match := INCLUDE.match(line):
                yield folder, path, number, match[1]


def show(path: Path, number: int, text: str) -> str:
    return f"{path.relative_to(ROOT)}:{number}: {text}"


def folder_of(include: str) -> str | None:
    """The layer that an included name belongs to; None for the system's headers."""
    first = include.split("/")[0]
    if first == "narthex":
        return "include/narthex"
    for top in ("src", "py"):
        if "/" in include and (ROOT / top / first).is_dir():
            return f"{top}/{first}"
    return None


def test_layers_are_one_total_order() -> None:
    seen: list[str] = []
    for name, uses in read_layers().items():
        for use in uses:
            assert use in seen, f"layers.txt: {name} uses {use}, which does not stand above it"
        seen.append(name)


def test_every_folder_with_code_is_a_layer() -> None:
    layers = read_layers()
    assert {folder for folder, _ in code_files()} <= set(layers)


def test_includes_follow_the_layers() -> None:
    layers, wrong = read_layers(), []
    for folder, path, number, name in includes():
        target = folder_of(name)
        if target is None or target == folder or name.split("/")[0] in GENERATED:
            continue
        if target not in layers[folder]:
            wrong.append(show(path, number, f"{folder} may not include {name}"))
        elif (
            target != "include/narthex"
            and name not in (f"{(last := name.split('/')[0])}/{last}.h",)
            and not name.endswith(".def")
        ):
            wrong.append(show(path, number, f"from another folder only {target}/{target.split('/')[1]}.h, not {name}"))
    assert not wrong, "\n".join(wrong)


def test_python_is_seen_by_the_bindings_alone() -> None:
    wrong = [
        show(p, n, name) for folder, p, n, name in includes() if name == "Python.h" and not folder.startswith("py/")
    ]
    assert not wrong, "\n".join(wrong)


def test_cpython_internals_are_seen_by_one_folder() -> None:
    wrong = [show(p, n, name) for folder, p, n, name in includes() if "internal/" in name and folder != "py/cpython"]
    assert not wrong, "\n".join(wrong)


def test_what_cpython_keeps_to_itself_is_named_by_one_folder() -> None:
    """Its opcodes, its private functions, and the structs and fields that versions change."""
    private = r"\b_Py[A-Z]\w*|<opcode\.h>|\bNB_[A-Z]|\bPy(Dict|Set|Gen|Coro)Object\b|\bco_(localsplus|exception|line)"
    fields = r"->(exc_info|cframe|ma_\w+|gi_\w+|f_code|prev_instr|localsplus|stacktop)\b"
    wrong = [line for line in lines_matching(f"{private}|{fields}", ("py/",)) if not line.startswith("py/cpython/")]
    assert not wrong, "\n".join(wrong)


def cpython_functions(path: Path) -> set[str]:
    return set(re.findall(r"^[\w ]+[ *](nxpy_\w+)\([^;]*?\) \{", path.read_text(), re.MULTILINE))


def test_every_version_of_cpython_tells_the_same() -> None:
    folder = ROOT / "py/cpython"
    declared = set(
        re.findall(r"^(?!typedef)\w[\w ]*[ *](nxpy_\w+)\([^{]*?\);", (folder / "cpython.h").read_text(), re.MULTILINE)
    )
    known, later = [folder / "known.c", folder / "instances.c"], folder / "since312.c"
    for version in [*folder.glob("py3*.c"), folder / "none.c"]:
        shared = [] if version.stem == "none" else known if version.stem == "py311" else [*known, later]
        told = set().union(*map(cpython_functions, [version, *shared]))
        assert declared <= told, f"{version.name}: {declared - told}"
        header = version.with_suffix(".h")
        assert cpython_functions(header) == cpython_functions(folder / "none.h"), header.name


def test_versions_of_cpython_tell_of_known_instructions() -> None:
    folder = ROOT / "py/cpython"
    known = set(re.findall(r"^NXPY_INSTRUCTION_ROW\((\w+)\)", (folder / "instructions.def").read_text(), re.MULTILINE))
    every = set(re.findall(r"NXPY_OP_(\w+);", (folder / "known.c").read_text()))
    for version in folder.glob("py3*.def"):
        told = set(re.findall(r"^NXPY_OPCODE_ROW\(\w+, (\w+),", version.read_text(), re.MULTILINE)) - {"part"}
        assert told <= known, version.name
        every |= told
    assert known <= every


def test_plugins_include_only_the_public_headers() -> None:
    wrong = []
    for folder, path, number, name in includes():
        own = (path.parent / name).exists() or name.endswith(".inc")
        system = "/" not in name or name.startswith(("sys/", "linux/"))
        if folder.startswith("plugins/") and not own and not system and not name.startswith("narthex/"):
            wrong.append(show(path, number, name))
    assert not wrong, "\n".join(wrong)


def lines_matching(pattern: str, folders: tuple[str, ...]) -> list[str]:
    found = []
    for folder, path in code_files():
        if folder.startswith(folders):
            for number, line in enumerate(path.read_text().splitlines(), 1):
                if re.search(pattern, line):
                    found.append(show(path, number, line.strip()))
    return found


def test_the_library_names_no_device() -> None:
    wrong = lines_matching(r'"(npu|cuda|xpu|mps)', ("src/",))
    assert not wrong, "\n".join(wrong)


def test_no_conditional_compilation_in_code() -> None:
    guard = re.compile(r"#\s*if(ndef \w+_H\b|def __cplusplus)")
    wrong = [
        line
        for line in lines_matching(r"^\s*#\s*(if|ifdef|ifndef|elif|else)\b", ("src/", "py/", "plugins/"))
        if not guard.search(line)
    ]
    assert not wrong, "\n".join(wrong)


def test_one_place_reads_the_environment() -> None:
    wrong = [
        line
        for line in lines_matching(r"\bgetenv\b", ("src/", "py/", "plugins/"))
        if not line.startswith("src/base/flags.c")
    ]
    assert not wrong, "\n".join(wrong)


def test_nothing_aborts() -> None:
    wrong = lines_matching(r"\b(abort|exit|_exit)\(", ("src/", "py/", "plugins/"))
    assert not wrong, "\n".join(wrong)


def test_one_place_allocates() -> None:
    """Outside src/base/memory.c the library takes memory through nx_alloc, so that tests can fail every allocation."""
    allowed = ("src/base/memory.c", "src/base/thread.c")
    wrong = [
        line
        for line in lines_matching(r"[^_\w](malloc|calloc|realloc|strdup)\(", ("src/",))
        if not line.startswith(allowed)
    ]
    assert not wrong, "\n".join(wrong)


TABLES = [
    ("include/narthex/errors.def", r"NX_ERROR_ROW\((\w+),", r"\bNX_{}\b"),
    ("include/narthex/dtypes.def", r"NX_DTYPE_ROW\((\w+),", r"\bNX_{}\b|\b{}\b"),
    ("src/core/keys.def", r"NX_KEY_ROW\((\w+),", r"NX_KEY(_AT)?_?\(?{}\b"),
    ("src/base/flags.def", r"NX_FLAG_ROW\((\w+),", r"nx_flag\.{}\b"),
    ("src/pass/pass.def", r"NX_PASS_ROW\('\w', (\w+),", r"nx__do_{}\b"),
    ("src/dispatch/known.def", r"NX_KNOWN_ROW\((\w+),", r"NX_KNOWN_{}\b"),
]


@pytest.mark.parametrize(
    ("table", "row", "use"), TABLES, ids=lambda value: value if str(value).endswith(".def") else ""
)
def test_every_row_of_a_table_is_used(table: str, row: str, use: str) -> None:
    names = re.findall(row, (ROOT / table).read_text(), re.MULTILINE)
    names = [name for name in names if name != "code" and name != "name"]
    text = "\n".join(path.read_text() for _, path in code_files() if str(path) != str(ROOT / table))
    unused = [name for name in names if not re.search(use.format(name, name), text)]
    assert names and not unused, f"{table}: nothing uses {unused}"


def test_passes_name_no_operator() -> None:
    """What a pass knows of an operator stands in its entry or in src/dispatch/known.def; numbers' forms in ints.c."""
    folders = ("src/ir", "src/pass", "src/engine", "src/compile", "src/replay")
    named = lines_matching(r'^(?!.*/\*.*"aten::).*"aten::', folders)
    named = [line for line in named if not line.startswith("src/ir/ints.c")]
    assert not named, "\n".join(named)


@pytest.mark.parametrize("folder", sorted({str(path.parent.relative_to(ROOT)) for _, path in code_files()}))
def test_sizes(folder: str) -> None:
    """A file stays under 800 lines, a folder under 15 C files, a line within 140 characters."""
    files = [path for path in (ROOT / folder).iterdir() if path.suffix in (".c", ".h")]
    assert len([path for path in files if path.suffix == ".c"]) <= 15, f"{folder}: {len(files)} files"
    for path in files:
        lines = path.read_text().splitlines()
        assert len(lines) < 800, f"{path.relative_to(ROOT)}: {len(lines)} lines"
        for number, line in enumerate(lines, 1):
            assert len(line) <= 140, show(path, number, f"{len(line)} characters")
