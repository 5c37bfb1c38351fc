"""What the reader of .op files makes: tokens, expressions, rows and entries, as plain data.

The grammar is the one of docs/operator-language.md; read.py fills these, check.py judges them, write_*.py turn
them into C. Every part knows where it stands (`at`), so that a later stage can point at it."""

import re
from dataclasses import dataclass, field
from typing import NamedTuple


class At(NamedTuple):
    """A place in a file: line and column count from 1."""

    path: str
    line: int
    column: int


class Problem(Exception):
    """One error in a .op file."""

    def __init__(self, at, message):
        super().__init__(message)
        self.at = at
        self.message = message

    def text(self, source_lines):
        """The message, the line and a caret."""
        head = f"{self.at.path}:{self.at.line}:{self.at.column}: error: {self.message}"
        if not 1 <= self.at.line <= len(source_lines):
            return head
        return f"{head}\n{source_lines[self.at.line - 1]}\n{' ' * (self.at.column - 1)}^"


class Token(NamedTuple):
    kind: str  # name number string punct end
    text: str
    at: At
    offset: int  # of the first character in the file
    first: bool  # of its line


TOKEN = re.compile(
    r"(?P<space>[ \t]+)|(?P<comment>#[^\n]*)|(?P<newline>\n)"
    r"|(?P<number>\d+(?:\.(?!\.)\d*)?(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)"
    r"|(?P<name>[A-Za-z_][A-Za-z_0-9]*'?)"
    r'|(?P<string>"[^"\n]*")'
    r"|(?P<punct>\.\.\.|\.\.|->|==|!=|<=|>=|\?\?|[][(){}<>=+\-*/%.,:;|!?])"
    r"|(?P<other>.)"
)


def tokenize(path, text):
    """All tokens of a file, comments and blanks left out, and the comment lines by number."""
    tokens, comments = [], {}
    line, line_start, first = 1, 0, True
    for match in TOKEN.finditer(text):
        kind = match.lastgroup
        column = match.start() - line_start + 1
        if kind == "newline":
            line, line_start, first = line + 1, match.end(), True
        elif kind == "comment":
            comments[line] = (column, match.group()[1:].strip())
        elif kind != "space":
            if "\t" in text[line_start : match.start()]:
                raise Problem(At(path, line, column), "tabs are not allowed, indent with spaces")
            tokens.append(Token(kind, match.group(), At(path, line, column), match.start(), first))
            first = False
    return tokens, comments


# What an out form says of a dtype that it does not cast to, by the word that `into` has for it.
INTO = {
    "found": "Found dtype {out} but expected {result}",
    "same": "Expected out tensor to have dtype {result:c}, but got {out:c} instead",
}


@dataclass(eq=False)
class Expr:
    """op: number string name const list tuple call field index slice unary binary if let match each raise.

    args holds sub-expressions; value what is no expression: a text, names, binds [(name, Expr)]."""

    op: str
    at: At
    args: list = field(default_factory=list)
    value: object = None
    keywords: dict = field(default_factory=dict)  # of a call

    def walk(self):
        """This expression and all below it."""
        yield self
        for part in self.args:
            if part is not None:
                yield from part.walk()
        for part in self.keywords.values():
            yield from part.walk()
        if self.op == "let":
            for _, bound in self.value:
                yield from bound.walk()


@dataclass
class Type:
    base: str  # Tensor T U int SymInt dim Scalar float bool str dtype device layout memory_format options generator
    at: At
    optional: bool = False
    list_of: object = None  # None: no list, 0: any length, n: [n]
    optional_elements: bool = False
    inner: object = None  # bool int64 index of a Tensor; choices of int() and str(); the Expr of dim(); T of Scalar(T)


@dataclass
class Param:
    name: str
    at: At
    type: Type
    written: bool = False
    initial: Expr = None
    keyword_only: bool = False

    @property
    def is_tensor(self):
        return self.type.base in ("T", "U", "Tensor") and self.type.list_of is None

    @property
    def is_dim(self):
        """One dimension of something: wrapped and checked wherever a row reads it."""
        return self.type.base == "dim" and self.type.list_of is None and not self.type.optional

    @property
    def in_promotion(self):
        return self.type.base == "T" or (self.type.base == "Scalar" and self.type.inner == "T")


@dataclass
class Place:
    kind: str  # T like reduce view new sizes as param
    at: At
    args: list = field(default_factory=list)
    keywords: dict = field(default_factory=dict)
    name: str = None
    listed: bool = False
    contiguous: bool = False
    dtype: Expr = None
    condition: Expr = None


@dataclass
class Row:
    word: str
    at: At
    value: object = None


@dataclass
class Entry:
    name: str  # "add.Tensor"
    at: At
    params: list
    results: list
    result_is_tuple: bool
    rows: list = field(default_factory=list)
    doc: str = ""
    result_text: str = ""  # what stands after ->
    binds: dict = field(default_factory=dict)  # `with` of the head: what names in the rows mean

    @property
    def base(self):
        return self.name.split(".")[0]

    @property
    def overload(self):
        return self.name.split(".")[1] if "." in self.name else ""

    def all(self, word):
        return [row for row in self.rows if row.word == word]

    def one(self, word):
        rows = self.all(word)
        return rows[0] if rows else None

    def param(self, name):
        return next((p for p in self.params if p.name == name), None)


@dataclass
class Function:
    """`fn name(params) = body`: inlined wherever it is called."""

    name: str
    at: At
    params: list
    body: Expr


@dataclass
class Group:
    """`checks name(params)` and its check rows."""

    name: str
    at: At
    params: list
    rows: list


@dataclass
class Prim:
    """`prim name(params: types)  c NAME  [near N]  [cc NAME]  [d EXPR]  [cost N]`: a function of elements; `y` in d is
    its result. Up to N, both signs, NAME_near has the same bits and is faster; cc: of complex numbers."""

    name: str
    at: At
    params: list
    types: list
    c: str
    near: object
    derivative: object
    cost: int
    complex: str = None


@dataclass
class File:
    path: str
    lines: list
    entries: list = field(default_factory=list)
    functions: list = field(default_factory=list)
    groups: list = field(default_factory=list)
    prims: list = field(default_factory=list)
    problems: list = field(default_factory=list)
