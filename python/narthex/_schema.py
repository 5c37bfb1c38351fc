"""Signatures of operators as text: "mine::scale(Tensor x, float by=1.0, *, Tensor(a!)? out=None) -> Tensor"."""

from __future__ import annotations

import ast
import re
from typing import Any, NamedTuple

_REQUIRED = object()
_ARGUMENT = re.compile(r"(?P<type>\w+(?:\([\w!|* ->]*\))?(?:\[\d*\]|\?)*)\s+(?P<name>\w+)\s*(?:=\s*(?P<default>.+))?$")


class Argument(NamedTuple):
    type: str
    name: str
    default: Any
    kwarg_only: bool

    @property
    def written(self) -> bool:
        """Whether the operator writes it."""
        return "!" in self.type

    def __str__(self) -> str:
        return f"{self.type} {self.name}" + ("" if self.default is _REQUIRED else f"={self.default}")


class Schema(NamedTuple):
    """`name` with namespace and overload, the arguments, the results' types as text."""

    name: str
    arguments: tuple
    returns: str

    def bind(self, args: tuple, kwargs: dict) -> list:
        """A value for each argument, in order; TypeError where they do not fit."""
        positional = [a for a in self.arguments if not a.kwarg_only]
        if len(args) > len(positional):
            raise TypeError(f"{self.name}() expected at most {len(positional)} argument(s) but received {len(args)} "
                            f"argument(s). Declaration: {self}")  # fmt: skip
        given = dict(zip([a.name for a in positional], args))
        for name, value in kwargs.items():
            if name in given:
                raise TypeError(f"{self.name}() got multiple values for argument '{name}'. Declaration: {self}")
            given[name] = value
        values = []
        for argument in self.arguments:
            value = given.pop(argument.name, argument.default)
            if value is _REQUIRED:
                raise TypeError(f"{self.name}() is missing value for argument '{argument.name}'. Declaration: {self}")
            values.append(value)
        if given:
            unknown = next(iter(given))
            raise TypeError(f"Unknown keyword argument '{unknown}' for operator '{self.name}'. Schema: {self}")
        return values

    def split(self, values: list) -> tuple:
        """(those that are given by position, those by keyword)."""
        pairs = list(zip(self.arguments, values, strict=True))
        return [v for a, v in pairs if not a.kwarg_only], {a.name: v for a, v in pairs if a.kwarg_only}

    def call(self, function, values: list):
        """Calls a kernel with them."""
        positional, keywords = self.split(values)
        return function(*positional, **keywords)

    def __str__(self) -> str:
        parts, starred = [], False
        for argument in self.arguments:
            if argument.kwarg_only and not starred:
                parts.append("*")
                starred = True
            parts.append(str(argument))
        return f"{self.name}({', '.join(parts)}) -> {self.returns}"


def _pieces(text: str) -> list:
    """The parts between commas that stand in no bracket."""
    parts, depth, start = [], 0, 0
    for at, letter in enumerate(text):
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth == 0:
            parts.append(text[start:at])
            start = at + 1
    parts.append(text[start:])
    return [part.strip() for part in parts if part.strip()]


def _default(text: str | None):
    if text is None:
        return _REQUIRED
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        words = {"true": True, "false": False, "inf": float("inf"), "nan": float("nan")}
        if text in words:
            return words[text]
        from . import _C

        return getattr(_C, text, text)


def parse(text: str) -> Schema:
    """The signature that `text` is; RuntimeError where it is none."""
    match = re.fullmatch(r"\s*([\w.]+::[\w.]+)\s*\((.*)\)\s*->\s*(.+?)\s*", text, re.S)
    if match is None:
        raise RuntimeError(f"schema {text!r}: expected 'namespace::name(arguments) -> results'")
    arguments, keyword_only = [], False
    for part in _pieces(match[2]):
        if part == "*":
            keyword_only = True
            continue
        found = _ARGUMENT.match(part)
        if found is None:
            raise RuntimeError(f"schema {text!r}: expected 'type name' or 'type name=default', found {part!r}")
        arguments.append(Argument(found["type"], found["name"], _default(found["default"]), keyword_only))
    return Schema(match[1], tuple(arguments), match[3])
