"""kinds.def is the one place that says what capture knows of a type."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = [ROOT / "py" / name for name in ("notes", "loop", "capture")]


def sources():
    return {path: path.read_text() for folder in FOLDERS for path in folder.glob("*.[ch]")}


def test_only_one_place_asks_whether_a_class_may_change():
    assert [path.name for path, text in sources().items() if "Py_TPFLAGS_HEAPTYPE" in text] == ["notes.h"]


def test_names_are_interned_in_one_place():
    assert [path.name for path, text in sources().items() if "PyUnicode_InternFromString" in text] == ["kinds.c"]


def test_every_kind_is_a_type_or_has_a_rule():
    table = (ROOT / "py/notes/kinds.def").read_text()
    kinds = set(re.findall(r"^NXPY_KIND_ROW\((\w+),", table, re.M))
    types = set(re.findall(r"^NXPY_(?:TYPE|NAMED)_ROW\((\w+),", table, re.M))
    rules = set(re.findall(r"NXPY_KIND_(\w+)", (ROOT / "py/notes/kinds.c").read_text()))
    assert kinds - types - rules == set() and types <= kinds
