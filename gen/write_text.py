"""Text for people: ops.txt, one line an operator, and what follows from one entry."""

from gen.model import DTYPES, SHORT, admitted, copies_out, dissolves, kind, schema
from gen.write_python import python_functions
from gen.write_tables import is_overwriting


def ops_txt(world):
    """Sorted, committed, so that a review sees the changed surface."""
    lines = ["# Every operator, from ops/; `python -m gen.main list` prints this."]
    for form in world.all_forms():
        entry = form.sibling.entry
        differentiable = world.facts[form.sibling.name].get("derivative") and form.variant != "out"
        dissolved = dissolves(entry) or copies_out(form)
        gradient = "dissolves" if dissolved else "grad" if differentiable else "nograd"
        lines.append(f"aten::{schema(form)}  {kind(entry)} {gradient}")
    return "\n".join(lines) + "\n"


def gradient_lines(world, sibling):
    entry = sibling.entry
    if dissolves(entry) and not entry.one("grad"):
        return ["through the operators that it is made of"]
    row, lines = entry.one("grad"), []
    saves = world.facts[sibling.name].get("derivative") or {}
    for rule in row.value["rules"] if row else []:
        argument = sibling.argument(rule["targets"][0])
        if argument is None or argument.index not in saves:
            continue
        read_in, read_out = saves[argument.index]
        kept = [a.name for a in sibling.arguments if read_in >> a.index & 1] + ["result"] * bool(read_out)
        lines.append(f"{argument.name}: {rule['text']}   saves {' '.join(kept) or 'nothing'}")
    return lines + [f"none for {' '.join(c['names'])}: {c['reason']}" for r in entry.all("nograd") for c in r.value]


def shape_line(entry):
    checks = sum(row.word == "check" for row in entry.rows)
    return f"{entry.result_text};  rows of checks: {checks}"


def kernel_line(entry, loops):
    if kind(entry) == "point":
        stems = {}
        for stem, _, letters in (name.rpartition("_") for name in loops):
            stems.setdefault(stem, []).append(letters)
        return "loops", ", ".join(f"{stem}_{{{','.join(found)}}}_{{base,v3,v4}}" for stem, found in stems.items())
    letters = ",".join(SHORT[d] for d in admitted(entry))
    if kind(entry) == "reduce":
        return "folds", f"nx__fold_{entry.name.replace('.', '_')}_{{{letters}}}_{{base,v3,v4}}"
    if kind(entry) == "elements":
        return "elements", entry.one("elements").value["text"]
    names = [" ".join(r.value["name"] for r in entry.all(word)) for word in ("kernel", "ref")]
    return "kernels", f"{names[0]};  ref {names[1]}" if names[0] else "none"


def describe(world, name):
    """What follows from the entry, or None."""
    name = name.removeprefix("aten::")
    form = world.forms.get(name) or next((f for f in world.all_forms() if f.base == name), None)
    if form is None:
        return None
    sibling, entry = form.sibling, form.sibling.entry
    notes = {"inplace": "in-place", "out": "out", "functional": "functional"}
    lines = []
    for one in sibling.forms:
        place = f"{sibling.at.path}:{sibling.at.line}" if one is sibling.forms[0] else notes[one.variant]
        lines.append(f"aten::{schema(one)}   {place}")
    marks = [kind(entry)] + ["dissolves"] * dissolves(entry) + ["overwrites"] * is_overwriting(entry)
    shown = [
        f"{'Tensor.' if word == 'method' else 'torch.'}{base}"
        for (base, word), forms in python_functions(world).items()
        if any(f.sibling is sibling for f in forms)
    ]
    rows = [("kind", ", ".join(marks)), ("dtypes", " ".join(n for _, n, _, _ in DTYPES if n in admitted(entry)))]
    rows += [("shape", shape_line(entry)), ("python", ", ".join(shown) or "torch.ops.aten only")]
    rows += [("gradient", line) for line in gradient_lines(world, sibling)]
    rows.append(kernel_line(entry, world.facts[sibling.name].get("loops")))
    rows.append(("c", f"nx_{form.c_name}() in gen/ops.h"))
    close = " ".join(f"{row.value[0]} {row.value[1]}" for row in entry.all("close")) or "default"
    rows.append(("tests", f"tolerance {close}"))
    last = None
    for label, text in rows:
        lines.append(f"{label if label != last else '':10}{text}")
        last = label
    return "\n".join(lines) + "\n"
