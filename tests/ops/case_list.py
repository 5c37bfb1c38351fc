"""The cases of every operator, as its entry in ops/ says and its kind asks: calls as plain data, which build.py makes
arguments of."""

from __future__ import annotations

import json
import re
import zlib
from pathlib import Path
from typing import Any

from gen.main import load
from gen.model import CLASSES, DTYPE_CODE, MEMORY_FORMATS, admitted, kind

LAYOUTS = "tseo"  # transposed, with gaps, expanded, with an offset


def shape_sets(ops_folder):
    """`SHAPES(name, [ … ])` rows of cases.def."""
    text = (ops_folder / "cases.def").read_text(encoding="utf-8") if (ops_folder / "cases.def").exists() else ""
    return {name: json.loads(body) for name, body in re.findall(r"^SHAPES\((\w+),\s*(\[.*?\])\)$", text, re.M | re.S)}


def literal(value):
    if isinstance(value, dict) and "word" in value:
        word = value["word"]
        return (
            {"dtype": word}
            if word in DTYPE_CODE
            else {"memory_format": word}
            if word in MEMORY_FORMATS
            else {"word": word}
        )
    if isinstance(value, dict) and "list" in value:
        return [literal(v) for v in value["list"]]
    if isinstance(value, dict):
        return dict(value, dtype=value["dtype"] or "float32")
    return value


def tensor(shape, dtype="float32", layout="", values="normal"):
    return {"tensor": shape, "layout": layout, "dtype": dtype, "values": values}


class CaseList:
    """Cases of one sibling: shapes, layouts, dtypes and given values one at a time, then what the entry lists."""

    def __init__(self, sibling, sets):
        self.sibling, self.entry, self.sets = sibling, sibling.entry, sets
        self.cases = []
        self.tensors = [a for a in sibling.arguments if a.is_tensor]
        self.is_main = sibling.name == self.entry.name

    def add(self, args, kwargs=None, at=None, **more):
        case = {"op": "aten::" + self.sibling.name, "args": args, "kwargs": kwargs or {}, **more}
        case["seed"] = zlib.crc32(json.dumps(case, sort_keys=True).encode()) & 0x7FFFFFFF
        case["source"] = f"{self.sibling.at.path}:{(at or self.sibling.at).line}"
        others = self.sibling.forms[1:] if self.sibling.forms[0].variant == "functional" else []
        case["forms"] = {form.variant: form.name for form in others}
        case["outs"] = [a.name for form in others if form.variant == "out" for a in form.arguments if a.written]
        case["random"] = bool(self.entry.one("random"))
        case["close"] = {row.value[0]: row.value[1] for row in self.entry.all("close")}
        if case not in self.cases:
            self.cases.append(case)

    def make(self, shapes, dtype=None, layout="", values="normal", named=None):
        """A call on tensors of these shapes; other required arguments get small values. `layout`: a letter for each
        tensor, from the first again where they are more."""
        args, k, named = [], 0, {**self.usual, **(named or {})}
        kwargs = {a.name: named[a.name] for a in self.sibling.arguments if a.keyword_only and a.name in named}
        dtype = dtype or ("float32" if "float32" in self.dtypes else self.dtypes[-1])
        for argument in self.sibling.arguments:
            if argument.is_tensor:
                own = argument.param.type.inner or dtype if argument.param.type.base == "Tensor" else dtype
                own = "bool" if own == "truth" else own
                args.append(
                    tensor(shapes[min(k, len(shapes) - 1)], own, layout[k % len(layout)] if layout else "", values)
                )
                k += 1
            elif argument.name in named:
                if not argument.keyword_only:
                    args.append(named[argument.name])
            elif argument.initial is None:
                value = None if argument.optional else {"Scalar": 2, "bool": True}.get(argument.base, 1)
                value = -1 if argument.param.is_dim and argument.list_of is None else value
                if argument.keyword_only:
                    kwargs[argument.name] = value
                else:
                    args.append(value)
            elif not argument.keyword_only:
                rest = [a for a in self.sibling.arguments[argument.index :] if a.name in named and not a.keyword_only]
                if not rest:
                    break
                initial = argument.initial
                args.append({"None": None}.get(initial.value) if initial.op == "const" else initial.value)
        self.add(args, kwargs)

    def by_kind(self, chosen):
        names = {"point": "broadcast" if len(self.tensors) > 1 else "point", "reduce": "rows"}
        name = chosen if chosen and self.is_main else names.get(kind(self.entry))
        if name is None or not self.tensors:
            return []
        sets = [s if len(self.tensors) > 1 else [s] for s in self.sets[name]]
        words = self.given("values")  # where the function is at home; without it, everywhere
        far = kind(self.entry) == "point" and words in (None, ["special"])
        self.near = "normal" if far or not words else words[0]
        for shapes in sets:
            self.make(shapes, values=self.near)
        base = next(s for s in sets if len(s[0]) == 2)
        for first in self.given("layouts") or LAYOUTS:
            at = LAYOUTS.index(first)
            self.make(base, layout=LAYOUTS[at:] + LAYOUTS[:at], values=self.near)
        for dtype in self.dtypes:
            values = "limits" if dtype in CLASSES["int"] else "mixed" if dtype in CLASSES["half"] else "normal"
            self.make(base, dtype=dtype, values=values if far else self.near)
        for dtype in [d for d in ("float32", "float64") if far and d in self.dtypes]:
            self.make(base, dtype=dtype, values="special")
        return base

    def given(self, name):
        """The words of `cases NAME in …`, or None."""
        rows = [case for row in self.entry.all("cases") for case in row.value]
        found = next((c["values"] for c in rows if c["case"] == "set" and c["name"] == name), None)
        return found and [value["word"] for value in found]

    def listed(self):
        rows = [case for row in self.entry.all("cases") for case in row.value]
        chosen = (self.given("shapes") or [None])[0]
        self.dtypes = self.given("T") or [n for n in admitted(self.entry) if n in CLASSES["all"] + CLASSES["complex"]]
        optional = {a.name for a in self.sibling.arguments if a.base == "Scalar" and a.optional}
        sets = [case for case in reversed(rows) if case["case"] == "set" and case["name"] in optional]
        self.usual = {case["name"]: literal(case["values"][0]) for case in sets}  # where an operator wants one of them
        base = self.by_kind(chosen)
        for case in rows:
            if case["case"] == "set" and case["name"] != "shapes" and self.sibling.argument(case["name"]):
                for value in case["values"]:
                    for dtype in ("float32", "int64"):
                        if dtype in self.dtypes:
                            self.make(base, dtype=dtype, values=self.near, named={case["name"]: literal(value)})
            elif case["case"] != "set" and self.is_main:
                more = {"meta": True} if case.get("meta") else {}
                if case["case"] == "error":
                    more["error"] = {"type": case["kind"], "text": case["text"]}
                self.add(
                    [literal(a) for a in case["args"]],
                    {k: literal(v) for k, v in case["keywords"].items()},
                    case["at"],
                    **more,
                )
        return self.cases


def all_cases(ops: Path) -> list[dict[str, Any]]:
    """Those of the entries of a folder, in their order."""
    world = load(ops)
    assert not world.problems, world.show_problems()
    sets = shape_sets(ops)
    found = [case for sibling in world.siblings for case in CaseList(sibling, sets).listed()]
    return json.loads(json.dumps(found))  # no two share a list
