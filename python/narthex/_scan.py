"""`narthex scan`: what of a tree of PyTorch sources would not run here, and where, before it is run.

Sources are read, not executed. Names are followed from an import of torch, torch_npu or torchair through modules and
classes as far as they are written; methods of tensors and what is fetched by a text (getattr) are not seen.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from ._later import Later

ROOTS = ("torch", "torch_npu", "torchair")
EXPECTED = {"ImportError", "ModuleNotFoundError", "AttributeError", "Exception"}


@dataclass(frozen=True)
class Finding:
    path: Path
    line: int
    name: str  # torch.foo.bar, up to the part that is missing
    raises: bool  # it is there for imports' sake and raises when it is used
    optional: bool  # in a try block that expects it


def sources(paths: list[Path]) -> Iterator[Path]:
    for path in paths:
        yield from sorted(path.rglob("*.py")) if path.is_dir() else [path]


def resolve(name: str) -> tuple[str, bool] | None:
    """What of a dotted name is not here, and whether it is there by name alone; None: it is all there. Names behind
    what is neither a module nor a class are not followed."""
    parts = name.split(".")
    try:
        found = importlib.import_module(parts[0])
    except ImportError:
        return parts[0], False
    for i, part in enumerate(parts[1:], 2):
        if not isinstance(found, (ModuleType, type)):
            return None
        try:
            found = getattr(found, part)
        except NotImplementedError:
            return ".".join(parts[:i]), True
        except AttributeError:
            try:
                found = importlib.import_module(".".join(parts[:i]))
            except (ImportError, AttributeError):
                return ".".join(parts[:i]), False
        if isinstance(found, Later) or (isinstance(found, type) and (found.__doc__ or "").startswith("Not there yet")):
            return ".".join(parts[:i]), True
    return None


def catches(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(isinstance(kind, ast.Name) and kind.id in EXPECTED for kind in kinds)


class Reader(ast.NodeVisitor):
    """Collects the dotted names of one source: (line, name, whether a try block expects it to be missing)."""

    def __init__(self) -> None:
        self.known: dict[str, str] = {}  # what a name of the source stands for: F -> torch.nn.functional
        self.used: list[tuple[int, str, bool]] = []
        self.expected = 0

    def use(self, node: ast.AST, name: str) -> None:
        self.used.append((node.lineno, name, self.expected > 0))

    def visit_Import(self, node: ast.Import) -> None:  # noqa: N802
        for item in node.names:
            root = item.name.split(".")[0]
            if root in ROOTS:
                self.known[item.asname or root] = item.name if item.asname else root
                self.use(node, item.name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:  # noqa: N802
        if node.level or not node.module or node.module.split(".")[0] not in ROOTS:
            return
        for item in node.names:
            if item.name == "*":
                self.use(node, node.module)
                continue
            self.known[item.asname or item.name] = f"{node.module}.{item.name}"
            self.use(node, f"{node.module}.{item.name}")

    def visit_Try(self, node: ast.Try) -> None:  # noqa: N802
        expects = any(catches(handler) for handler in node.handlers)
        self.expected += expects
        for child in node.body:
            self.visit(child)
        self.expected -= expects
        for child in [*node.handlers, *node.orelse, *node.finalbody]:
            self.visit(child)

    def visit_Attribute(self, node: ast.Attribute) -> None:  # noqa: N802
        parts, at = [], node
        while isinstance(at, ast.Attribute):
            parts.append(at.attr)
            at = at.value
        if isinstance(at, ast.Name) and at.id in self.known and isinstance(node.ctx, ast.Load):
            self.use(node, ".".join([self.known[at.id], *reversed(parts)]))
        else:
            self.visit(at)


def scan(paths: list[Path]) -> tuple[list[Finding], list[tuple[Path, str]], int]:
    """Findings in order of files and lines, one for a name and line; files that could not be read, with the reason; how
    many sources there were. `torch` must be Narthex in this process."""
    findings, unread, known, n = {}, [], {}, 0
    for path in sources(paths):
        n += 1
        reader = Reader()
        try:
            reader.visit(ast.parse(path.read_text(encoding="utf-8")))
        except (OSError, SyntaxError, ValueError) as error:
            unread.append((path, getattr(error, "msg", None) or getattr(error, "strerror", None) or str(error)))
            continue
        for line, name, optional in sorted(reader.used):
            if name not in known:
                known[name] = resolve(name)
            if known[name]:
                findings[Finding(path, line, *known[name], optional)] = None
    return list(findings), unread, n


def report(paths: list[Path]) -> int:
    """Prints a line for each finding; 1 when something that is not optional would fail, else 0."""
    from . import _absent

    findings, unread, n = scan(paths)
    _absent.asked.clear()  # the line at exit is for programs
    for f in findings:
        what = "is there for imports alone and raises when it is used" if f.raises else "is not there"
        print(f"{f.path}:{f.line}: {f.name} {what}{' (a try block expects that)' if f.optional else ''}")
    for path, why in unread:
        print(f"{path}: could not be read: {why}")
    hard = [f for f in findings if not f.optional]
    files, names = len({f.path for f in hard}), len({f.name for f in hard})
    print(f"{n} sources; {f'{names} names are missing in {files} of them' if hard else 'every name of torch is there'}")
    return 1 if hard or unread else 0
