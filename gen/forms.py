"""Entries that words of a `forms` row stand for: `alias:NAME` gives an operator another name, `copy` gives a view an
operator NAME_copy whose result is a copy. They are compositions of the operator that they belong to."""

from dataclasses import replace

from gen.syntax import INTO, Entry, Expr, Place, Problem, Row

SAMPLES = {"Scalar": 2, "int": 1, "SymInt": 1, "float": 0.5, "bool": True}  # arguments of a case that is made here


def made_entries(siblings):
    """[(entry, its siblings' words)] of an entry whose siblings these are."""
    for row in siblings[0].form_rows:
        if row["word"] == "alias" and row["name"] is None:
            raise Problem(row["at"], "another name is missing: alias:NAME")
        if row["word"] == "copy" and not any(is_view(place) for place in siblings[0].entry.results):
            raise Problem(row["at"], f"{siblings[0].name} is no view: its result is a copy already")
        if row["word"] == "alias":
            yield from (alias(form, row) for sibling in siblings for form in sibling.forms if has(form, row))
        elif row["word"] == "copy":
            yield copy(siblings[0], row)


def is_view(place):
    return place.kind == "view" or (place.kind == "as" and place.args[0] != "as")


def alias_of(form, name):
    """The name of a form in another name's family: mul_.Tensor, multiply -> multiply_.Tensor."""
    return name + form.name[len(form.sibling.base) :]


def has(form, row):
    """`alias:NAME(A, B)`: all forms but A and B, overloads or `inplace`; an out form comes with the functional one."""
    overload = form.name.partition(".")[2]
    return form.variant != "out" and form.variant not in row["outs"] and overload not in row["outs"]


def word(word, at, **more):
    return {"word": word, "at": at, "name": None, "outs": [], **more}


def call(form_name, params, at):
    """A call of an operator with an entry's own parameters."""
    names = {p.name: Expr("name", at, [], p.name) for p in params}
    positional = [names[p.name] for p in params if not p.keyword_only]
    keywords = {p.name: names[p.name] for p in params if p.keyword_only}
    return Expr("call", at, positional, "aten." + form_name, keywords)


def alias(form, row):
    sibling, at, name = form.sibling, row["at"], alias_of(form, row["name"])
    entry, writes = sibling.entry, form.variant == "inplace"
    view = any(map(is_view, entry.results))
    self = Expr("name", at, [], sibling.params[0].name)
    results = [Place("param", at, [self.value])] if writes else [
        Place("as", at, [self if view else "as"], name=p.name, listed=p.listed) for p in entry.results]
    rows = [r for r in entry.rows if r.word in ("types", "data_sized", "close", "into")]
    rows.append(Row("as", at, call(form.base, form.params, at)))
    rows += [Row("mutate", at, [self.value])] * writes
    words = [word("internal", at)]
    for out in [f for f in sibling.forms if f.variant == "out" and not writes]:
        overload = out.name.partition(".")[2]
        outs = [a.name for a in out.arguments if a.written]
        words += [word("out", at, name=overload, outs=outs)] * (overload not in row["outs"])
    rows += [Row("forms", at, words), Row("cases", at, [sample(form, at)])]
    doc = f"{sibling.base} by another name."
    return Entry(name, at, form.params, results, entry.result_is_tuple and not writes, rows, doc, "as")


def sample(form, at):
    """The first call that the entry lists of this form, or one of small tensors; the writing form of a comparison takes
    integers, whose history it cannot lose."""
    entry = form.sibling.entry
    cases = [case for row in entry.all("cases") for case in row.value]
    for case in cases if form.sibling.name == entry.name else []:
        given = zip(form.params, case["args"]) if case["case"] == "call" else []
        if case["case"] == "call" and all(isinstance(x, dict) for p, x in given if p.is_tensor and not p.type.optional):
            if form.variant == "functional" or entry.all("mutate") or sum(p.is_tensor for p in form.params) == 1:
                return case
    truth = entry.results[0].dtype is not None and entry.results[0].dtype.value == "bool"
    dtype = "int64" if truth and form.variant == "inplace" else None
    values = next((c["values"][0]["word"] for c in cases if c["case"] == "set" and c["name"] == "values"), "normal")
    values = "positive" if values == "special" else values
    args = []
    for p in [p for p in form.params if not p.keyword_only and p.initial is None]:
        tensor = {"tensor": [3, 4], "layout": "", "dtype": dtype, "values": values}
        args.append(tensor if p.is_tensor else SAMPLES[p.type.base])
    keywords = next((case["keywords"] for case in cases if case["case"] == "call"), {})
    asked = {p.name for p in form.params if p.keyword_only and p.initial is None}
    keywords = {name: given for name, given in keywords.items() if name in asked}
    return {"case": "call", "at": at, "of": None, "args": args, "keywords": keywords, "meta": False}


def copy(sibling, row):
    """clone(NAME(…)), of each part where there are several."""
    entry, at, listed = sibling.entry, row["at"], sibling.entry.results[0].listed
    part, view = Expr("name", at, [], "part"), call(sibling.base, sibling.params, at)
    made = Expr("call", at, [part if listed else view], "clone",
                {"memory_format": Expr("name", at, [], "contiguous_format")})
    made = Expr("each", at, [view, made], "part") if listed else made
    cases = [case for r in entry.all("cases") for case in r.value if case["case"] == "call"][:2]
    words = [word("function", at)] + [word("out", at)] * (not listed)
    props = [r for r in entry.rows if r.word == "props"]
    rows = [Row("as", at, made), *props, Row("into", at, INTO["same"])]
    rows += [Row("forms", at, words), Row("cases", at, cases)]
    base, dot, overload = entry.name.partition(".")
    params = [replace(p) for p in entry.params]
    doc = f"{sibling.base}, of which the result is a copy."
    results = [Place("as", at, ["as"], listed=listed)]
    return Entry(f"{base}_copy{dot}{overload}", at, params, results, False, rows, doc, "as")
