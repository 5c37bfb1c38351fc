"""Entries that stand for several operators: an `also` of another name is an operator of its own, with the entry's rows
and what its `with` says: numbers, and operators and parameters that the rows call by a name of their own."""

import re
from dataclasses import fields, is_dataclass, replace

from gen.syntax import At, Expr, Problem


def operators(entry):
    """[entry] for each operator that it stands for; overloads of one stay in its `also` rows."""
    others = [row for row in entry.all("also") if row.value["name"].split(".")[0] != entry.base]
    names = [entry.name] + [row.value["name"] for row in others]
    for case in (case for row in entry.all("cases") for case in row.value if case["case"] != "set"):
        if (case["of"] or entry.name) not in names:
            raise Problem(case["at"], f"'{case['of']}' is no operator of this entry ({', '.join(names)})")
    for row in entry.all("autocast"):
        if unknown := set(row.value["of"] or ()) - set(names):
            raise Problem(row.value["at"], f"'{min(unknown)}' is no operator of this entry ({', '.join(names)})")
    if not others and not entry.binds:
        return [entry]
    return [one(entry, None)] + [one(entry, row.value) for row in others]


def one(entry, also):
    name = also["name"] if also else entry.name
    binds = dict(also["binds"]) if also else entry.binds
    called = {key: value.value for key, value in binds.items() if value.op == "name"}
    missing = entry.binds.keys() - binds.keys()
    if missing:
        raise Problem(also["at"], f"{name} does not say what '{min(missing)}' is")
    rows = [own(row, called) for row in entry.rows if row.word not in ("also", "cases") and is_of(row, name)]
    rows += [replace(row, value=found) for row in entry.all("cases") if (found := cases_of(row.value, entry, name))]
    same_base = [row for row in entry.all("also") if row.value["name"].split(".")[0] == name.split(".")[0]]
    rows += [own(row, called) for row in same_base if not also or row.value is not also]
    if also and also["forms"] is not None:
        rows = [replace(row, value=also["forms"]) if row.word == "forms" else row for row in rows]
    numbers = {key: value for key, value in binds.items() if key not in called}
    if also is None:
        return replace(entry, results=own(entry.results, called), rows=rows, binds=numbers)
    params = own(also["params"], called)
    if also["same"]:
        params = changed_params(entry, params)
    results = own(entry.results, called)
    return replace(entry, name=name, at=also["at"], params=params, results=results, rows=rows, binds=numbers)


def is_of(row, name):
    """Whether a row is the operator's: `autocast` may say of which ones it is."""
    return row.word != "autocast" or row.value["of"] is None or name in row.value["of"]


def changed_params(entry, params):
    """Those of `also NAME(... lr: Tensor)`, which repeats only what differs."""
    changed = {p.name: p for p in params}
    for name in changed.keys() - {p.name for p in entry.params}:
        there = ", ".join(p.name for p in entry.params)
        raise Problem(changed[name].at, f"{entry.name} has no parameter '{name}' ({there})")
    return [replace(changed.get(p.name, p), keyword_only=p.keyword_only) for p in entry.params]


def cases_of(cases, entry, name):
    """Those that are given for all, for the operator `name`, or without a name for the entry's first."""
    return [case for case in cases if case["case"] == "set" or (case["of"] or entry.name) == name]


def own(value, called):
    """A copy in which names in `called` are those of operators and parameters."""
    if isinstance(value, At):
        return value
    if isinstance(value, Expr):
        rest = {f.name: own(getattr(value, f.name), called) for f in fields(value) if f.name not in ("op", "at")}
        if value.op in ("call", "name"):
            rest["value"] = called.get(value.value, value.value)
        return Expr(value.op, value.at, **rest)
    if is_dataclass(value):
        return replace(value, **{f.name: own(getattr(value, f.name), called) for f in fields(value)})
    if isinstance(value, dict):
        made = {key: own(part, called) for key, part in value.items()}
        if "formula" in made:  # and its text
            made["text"] = re.sub(r"\w+", lambda word: called.get(word.group(), word.group()), made["text"])
        return made
    if isinstance(value, (list, tuple)):
        return type(value)(own(part, called) for part in value)
    return value
