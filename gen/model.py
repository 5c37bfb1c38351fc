"""The whole set of operators: entries with their siblings (`also`) and forms (functional, in-place, out), each with
its schema and its arguments in the order of a call. Made from what read.py read; nothing here writes C."""

import re
from dataclasses import dataclass, field, replace
from pathlib import Path

from gen.derive import derive
from gen.family import changed_params, operators
from gen.forms import made_entries
from gen.syntax import At, Expr, Param, Problem, Type

TABLE = Path(__file__).resolve().parent.parent / "include" / "narthex" / "dtypes.def"
KINDS = {"BOOL": "b", "UNSIGNED": "i", "SIGNED": "i", "FLOAT": "f", "FLOAT8": "8", "COMPLEX": "c"}


@dataclass
class Dtype:
    """A row of dtypes.def, as far as operators need it."""

    code: str
    c: str  # the type in memory
    category: str
    compute: str  # the C type that loops compute in; None: it has no loops
    name: str
    brief: str
    scalar: int  # its number in PyTorch's schemas

    @property
    def kind(self):
        """b bool, i integer, f float, c complex; u, h and 8: unsigned, complex and float8 that are only stored."""
        kind = KINDS[self.category]
        return {"i": "u", "c": "h"}.get(kind, kind) if self.compute is None else kind

    @property
    def bits(self):
        """Of an element in memory: its name says it, but for bool."""
        return int((re.search(r"\d+", self.name) or ["8"])[0])

    @property
    def computes_signed(self):
        """The C type in which values of it compare as they should: signed integers compute unsigned, and wrap."""
        return self.compute.removeprefix("u") if self.category == "SIGNED" else self.compute

    @property
    def limits(self):
        """The smallest and the largest value of an integer or a bool, as C says them."""
        if self.category == "BOOL":
            return 0, 1
        if self.category == "UNSIGNED":
            return 0, f"UINT{self.bits}_MAX" if self.bits > 16 else 2**self.bits - 1
        half = 2 ** (self.bits - 1)
        return (f"INT{self.bits}_MIN", f"INT{self.bits}_MAX") if self.bits > 16 else (-half, half - 1)


def read_dtypes():
    rows = re.findall(r"^NX_DTYPE_ROW\(([^)]*)\)", TABLE.read_text(encoding="utf-8"), re.MULTILINE)
    for row in rows:
        code, c, category, compute, name, brief, *_, scalar, _, _ = [part.strip().strip('"') for part in row.split(",")]
        yield Dtype(code, c, category, None if compute == "void" else compute, name, brief, int(scalar))


TYPES = {dtype.name: dtype for dtype in read_dtypes()}
DTYPES = [(t.code, t.name, t.c, t.kind) for t in TYPES.values()]  # in the order of their numbers
DTYPE_CODE = {name: code for code, name, _, _ in DTYPES}
WORDS = {"bool": "b", "int": "i", "float": "f", "complex": "c", "unsigned": "u", "float8": "8"}
CLASSES = {word: [n for _, n, _, k in DTYPES if k == kind] for word, kind in WORDS.items()}
CLASSES["half"] = [t.name for t in TYPES.values() if t.kind == "f" and t.compute != t.c]
CLASSES["number"] = CLASSES["int"] + CLASSES["float"]
CLASSES["all"] = CLASSES["bool"] + CLASSES["number"]
CLASSES["any"] = list(TYPES)
COMPUTE = {dtype.name: dtype.compute for dtype in TYPES.values() if dtype.compute}  # the dtypes that have loops
SHORT = {dtype.name: dtype.brief for dtype in TYPES.values()}
SCALAR_TYPES = {dtype.name: dtype.scalar for dtype in TYPES.values()}  # as PyTorch's schemas print dtypes
MEMORY_FORMATS = {"contiguous_format": 0, "preserve_format": 1, "channels_last": 2, "channels_last_3d": 3}
OPTIONS = ["dtype", "layout", "device", "pin_memory"]
SCHEMA_TYPE = {
    "T": "Tensor",
    "U": "Tensor",
    "dim": "int",
    "dtype": "ScalarType",
    "device": "Device",
    "layout": "Layout",
    "memory_format": "MemoryFormat",
    "generator": "Generator",
}
MEANINGS = ("point", "reduce", "view", "as", "elements")


@dataclass
class Argument:
    """One argument of a call as the schema has it; `options` became four."""

    param: Param
    name: str
    index: int
    base: str  # Tensor int float bool str Scalar dtype layout device memory_format generator
    list_of: object
    optional: bool
    written: bool
    keyword_only: bool
    initial: object  # an Expr or None
    number_too: bool

    @property
    def is_tensor(self):
        """A tensor, there or not; no list of them."""
        return self.base == "Tensor" and self.list_of is None

    def schema_type(self):
        text = {**SCHEMA_TYPE, "pin_memory": "bool"}.get(self.base, self.base)
        if self.written:
            text += "($!)"
        if self.list_of is not None:
            text += f"{'?' * self.param.type.optional_elements}[{self.list_of or ''}]"
        return text + ("?" if self.optional else "")


@dataclass
class Form:
    """One registered operator."""

    sibling: object
    name: str
    variant: str  # functional inplace out
    params: list
    arguments: list = field(default_factory=list)
    words: list = field(default_factory=list)  # function method nn ... as Python shows it
    functional: str = None
    inplace: str = None

    @property
    def c_name(self):
        return self.name.replace(".", "_")

    @property
    def base(self):
        return self.name.split(".")[0]


@dataclass
class Sibling:
    """An entry, or one of its `also`: same rows, other parameters."""

    entry: object
    name: str
    at: At
    params: list
    binds: dict
    form_rows: list
    forms: list = field(default_factory=list)

    @property
    def c_name(self):
        return self.name.replace(".", "_")

    @property
    def base(self):
        return self.name.split(".")[0]

    @property
    def arguments(self):
        return self.forms[0].arguments

    def argument(self, name):
        return next((a for a in self.arguments if a.name == name), None)


def meaning(entry):
    """The one row that says what the operator computes; an entry of kernels alone has none."""
    return next((entry.one(word) for word in MEANINGS if entry.one(word)), None)


def kind(entry):
    row = meaning(entry)
    return row.word if row else "kernel"


def dissolves(entry):
    """Whether it is its parts to all but history, where a `grad` row makes one node of it; lists of views stay."""
    if kind(entry) != "as" or entry.one("kernel"):
        return False
    return not gives_list(entry) or not (entry.one("grad") or entry.one("nograd"))


def admitted(entry, letter="T"):
    """The dtypes that a type variable may stand for."""
    for row in entry.all("types"):
        letters, words, _ = row.value
        if letter in letters:
            return [n for _, n, _, _ in DTYPES if any(n in CLASSES.get(w, [w]) for w in words)]
    return CLASSES["all"]


def admits_complex(entry):
    words = {word for row in entry.all("types") for word in row.value[1]}
    made = any(e.op == "call" and e.value == "complex" for p in entry.results if p.dtype for e in p.dtype.walk())
    return made or bool(words & {"complex", "any", "complex32", *CLASSES["complex"]})


def copies_out(form):
    """An out form that runs the functional form and copies: of a composition, of what takes a factory's options."""
    entry = form.sibling.entry
    takes_options = any(p.type.base == "options" for p in form.sibling.params)
    return form.variant == "out" and (kind(entry) == "as" or takes_options)


def gives_list(entry):
    return any(place.listed for place in entry.results)


def is_view(entry):
    """Whether the results lie in the memory of `self`, one or a list of them, and calls of it stand in graphs."""
    return kind(entry) == "view" or (gives_list(entry) and not dissolves(entry))


def may_alias(entry):
    """A composition that may hand back memory of its argument: `as(self)`."""
    return any(place.kind == "as" and not isinstance(place.args[0], str) for place in entry.results)


def flatten(sibling, params):
    """Arguments in call order: keyword-only ones last, `options` as its four."""
    arguments = []
    is_point = kind(sibling.entry) == "point"
    # Parameters that are a number in a sibling: Python may give the number to the first one.
    numbered = {p.name for row in sibling.entry.all("also") for p in row.value["params"] if p.type.inner == "T"}
    for param in params:
        type_ = param.type
        if type_.base == "options":
            for name in OPTIONS:
                initial = Expr("const", param.at, [], "None")
                arguments.append(Argument(param, name, len(arguments), name, None, True, False, True, initial, False))
            continue
        base = {"T": "Tensor", "U": "Tensor", "dim": "int"}.get(type_.base, type_.base)
        number_too = is_point and type_.base == "T" and not param.written and param.name in numbered
        arguments.append(Argument(param, param.name, len(arguments), base, type_.list_of, type_.optional, param.written,
                                  param.keyword_only, param.initial, number_too))
    return arguments


def signed(part):
    """The number that stands in a list."""
    return -part.args[0].value if part.op == "unary" else part.value


def initial_text(argument):
    initial = argument.initial
    if initial.op == "const":
        return initial.value
    if initial.op == "name" and initial.value in MEMORY_FORMATS:
        return str(MEMORY_FORMATS[initial.value])  # as PyTorch prints it
    if initial.op == "name" and argument.base == "dtype":
        return str(SCALAR_TYPES[initial.value])
    if initial.op == "list":
        return "[" + ", ".join(str(signed(part)) for part in initial.args) + "]"
    if initial.op == "unary":
        return "-" + str(initial.args[0].value)
    value = initial.value
    if argument.base == "bool":
        return "True" if value else "False"
    if argument.base == "float" or isinstance(value, float):
        return f"{float(value)!r}".removesuffix("0") if float(value).is_integer() else f"{value:.17g}"
    return f'"{value}"' if initial.op in ("name", "string") else str(value)


def schema(form):
    """The signature as PyTorch prints it, without "aten::"."""
    entry, parts, star, n_written = form.sibling.entry, [], False, 0
    is_view = kind(entry) == "view" or may_alias(entry)
    for argument in form.arguments:
        if argument.keyword_only and not star:
            parts.append("*")
            star = True
        text = argument.schema_type()
        if argument.written:
            text = text.replace("$", chr(ord("a") + n_written))
            n_written += 1
        elif is_view and argument.index == 0:
            text = "Tensor(a -> *)" if gives_list(entry) else "Tensor(a)"
        text += " " + argument.name
        parts.append(text + ("=" + initial_text(argument) if argument.initial is not None else ""))
    results = []
    for k, place in enumerate(entry.results):
        mark = f"({chr(ord('a') + k)}!)" if form.variant != "functional" else "(a)" if is_view else ""
        results.append(f"Tensor{mark}{'[]' * place.listed}" + (f" {place.name}" if place.name else ""))
    result = results[0] if not entry.result_is_tuple else "(" + ", ".join(results) + ")"
    return f"{form.name}({', '.join(parts)}) -> {result}"


def written(param):
    return replace(param, written=True)


def make_forms(sibling):
    """The functional, in-place and out forms that the `forms` row asks for."""
    entry, rows = sibling.entry, {row["word"]: row for row in sibling.form_rows}
    python_words = [w for w in rows if w not in ("inplace", "out", "functional", "alias", "copy")]
    base, _, overload = sibling.name.partition(".")
    primary = "inplace" if entry.one("mutate") else "functional"
    main = Form(sibling, sibling.name, primary, sibling.params, words=python_words)
    sibling.forms = [main]
    if "functional" in rows:
        params = [replace(p, written=False) for p in sibling.params]
        name = rows["functional"]["name"]
        name += f".{overload}" if overload and "." not in name else ""
        functional = Form(sibling, name, "functional", params)
        main.functional, functional.inplace = functional.name, main.name
        sibling.forms.append(functional)
    if "inplace" in rows:
        params = [written(p) if k == 0 else p for k, p in enumerate(sibling.params)]
        inplace = Form(
            sibling,
            rows["inplace"]["name"] or f"{base}_" + (f".{overload}" if overload else ""),
            "inplace",
            params,
            words=python_words,
        )
        main.inplace, inplace.functional = inplace.name, main.name
        sibling.forms.append(inplace)
    if "out" in rows:
        name = rows["out"]["name"] or (overload + "_out" if overload else "out")
        n = len(entry.results)
        names = rows["out"]["outs"] or (["out"] if n == 1 else [f"out{k}" for k in range(n)])
        outs = [Param(one, sibling.at, Type("T", sibling.at), written=True, keyword_only=True) for one in names]
        params = [p for p in sibling.params if p.type.base != "options"]  # they are the written tensor's
        form = Form(sibling, f"{base}.{name}", "out", params + outs, words=python_words)
        form.functional = main.name
        sibling.forms.append(form)
    for form in sibling.forms:
        form.arguments = flatten(sibling, form.params)


def make_siblings(entry):
    forms = entry.one("forms")
    form_rows = forms.value if forms else []
    siblings = [Sibling(entry, entry.name, entry.at, entry.params, entry.binds, form_rows)]
    for row in entry.all("also"):
        value = row.value
        params = value["params"]
        if value["same"]:
            params = changed_params(entry, params)
        binds = entry.binds | dict(value["binds"])
        own = value["forms"]
        if own is None:
            own = [dict(row, name=None) for row in form_rows if row["word"] not in ("functional", "alias", "copy")]
        siblings.append(Sibling(entry, value["name"], value["at"], params, binds, own))
    for sibling in siblings:
        make_forms(sibling)
    return siblings


class World:
    """All entries of some files that were read, and what they share."""

    def __init__(self, files):
        self.files, self.problems = [], []
        self.entries, self.functions, self.groups, self.siblings, self.forms, self.prims = [], {}, {}, [], {}, {}
        self.operators = []  # an entry for each operator that one stands for
        self.made, self.aliases = [], {}  # entries that words of `forms` gave; other names by base name
        self.callable = {}  # the forms that a formula may mean, by base name: no out forms
        self.parts = {}  # of a composition, by the sibling's C name: the siblings that it calls
        for file in files:
            self.add(file)
        if not self.problems:
            for entry in self.entries:
                self.take_apart(entry)
            self.entries += self.made
            self.operators += self.made

    def add(self, file):
        self.files.append(file)
        self.problems += file.problems
        self.entries += file.entries
        for table, items in ((self.functions, file.functions), (self.groups, file.groups), (self.prims, file.prims)):
            for item in items:
                if item.name in table:
                    self.problems.append(Problem(item.at, f"'{item.name}' is defined twice"))
                table[item.name] = item

    def take_apart(self, entry):
        try:
            found = operators(entry)
        except Problem as problem:
            return self.problems.append(problem)
        self.operators += found
        for one in found:
            self.expand(one)

    def expand(self, entry):
        row = entry.one("grad")
        if row and row.value["auto"]:
            try:
                row.value["rules"] = derive(entry, self)
            except Problem as problem:
                self.problems.append(problem)
        siblings = make_siblings(entry)
        try:
            made = list(made_entries(siblings))
        except Problem as problem:
            return self.problems.append(problem)
        for row in [row for row in siblings[0].form_rows if row["word"] == "alias"]:
            self.aliases.setdefault(siblings[0].base, {})[row["name"]] = True
        self.made += made
        siblings += [sibling for one in made for sibling in make_siblings(one)]
        for sibling in siblings:
            self.siblings.append(sibling)
            for form in sibling.forms:
                if form.name in self.forms:
                    self.problems.append(Problem(sibling.at, f"operator '{form.name}' is defined twice"))
                self.forms[form.name] = form
                if form.variant != "out":
                    self.callable.setdefault(form.base, []).append(form)

    def all_forms(self):
        """In the order of ops.txt."""
        return [self.forms[name] for name in sorted(self.forms)]

    def overloads(self, base):
        return self.callable.get(base, [])

    def casts(self, sibling, seen=()):
        """Whether autocast casts what one of the parts of a composition is given. Known when these are written."""
        parts = self.parts.get(sibling.c_name, ()) if sibling.c_name not in seen else ()
        return any(part.entry.one("autocast") or self.casts(part, (*seen, sibling.c_name)) for part in parts)

    def show_problems(self):
        lines = {file.path: file.lines for file in self.files}
        ordered = sorted(self.problems, key=lambda p: (p.at.path, p.at.line, p.at.column))
        text = "\n".join(p.text(lines.get(p.at.path, [])) for p in ordered[:20])
        return text + (f"\n... and {len(ordered) - 20} more" if len(ordered) > 20 else "")
