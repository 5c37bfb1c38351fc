"""FunctionSchema: an operator's schema, taken apart. It is the text that the extension has for the operator."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from ._schema import _pieces

_HEAD = re.compile(r"(?P<name>[\w:]+)(?:\.(?P<overload>\w+))?\((?P<given>.*)\) -> (?P<results>.*)$", re.DOTALL)
_ONE = re.compile(
    r"(?P<type>[A-Za-z]\w*)(?:\((?P<alias>[^)]*)\))?"
    r"(?P<more>\??(?:\[\d*\]\??)*)(?: (?P<name>\w+))?(?:=(?P<default>.*))?$"
)


class AliasInfo(NamedTuple):
    """Which memory an argument or result shows, and whether it is written."""

    before_set: set
    after_set: set
    is_write: bool


class Argument:
    """A parameter or result."""

    def __init__(self, text: str, kwarg_only: bool = False) -> None:
        match = _ONE.match(text.strip())
        if match is None:
            raise RuntimeError(f"a schema's argument cannot be read: {text}")
        self.name, self.type, self.kwarg_only = match["name"] or "", match["type"] + match["more"], kwarg_only
        self.default_value: Any = match["default"]
        marks = match["alias"]
        self.alias_info = None
        if marks is not None:
            first, arrow, last = marks.partition("->")
            sets = [set(re.findall(r"\w+|\*", part)) for part in (first, last if arrow else first)]
            self.alias_info = AliasInfo(*sets, "!" in first)
        self._text = text.strip()

    @property
    def is_out(self) -> bool:
        """Of an out= form: what is written."""
        return self.kwarg_only and self.alias_info is not None and self.alias_info.is_write

    def has_default_value(self) -> bool:
        """Whether it may be left out."""
        return self.default_value is not None

    def __repr__(self) -> str:
        return self._text


class FunctionSchema(str):
    """"aten::add_.Tensor(Tensor(a!) self, ...) -> Tensor(a!)": a text with `name`, `arguments` and `returns`."""

    __slots__ = ("arguments", "name", "overload_name", "returns")

    def __new__(cls, text: str) -> FunctionSchema:
        made = super().__new__(cls, text)
        match = _HEAD.match(text.strip())
        if match is None:
            raise RuntimeError(f"a schema cannot be read: {text}")
        made.name, made.overload_name = match["name"], match["overload"] or ""
        made.arguments, by_keyword = [], False
        for part in _pieces(match["given"]):
            if part == "*":
                by_keyword = True
            else:
                made.arguments.append(Argument(part, by_keyword))
        results = match["results"].strip()
        results = results[1:-1] if results.startswith("(") else results
        made.returns = [Argument(part) for part in _pieces(results)]
        return made

    @property
    def is_mutable(self) -> bool:
        """Whether an argument is written."""
        return any(one.alias_info is not None and one.alias_info.is_write for one in self.arguments)


def parse_schema(schema: str) -> FunctionSchema:
    """The schema that the text is."""
    return FunctionSchema(schema)
