"""Text for people: ops.txt, one line an operator, and what follows from one entry."""

from gen.model import DTYPES, admitted, dissolves, kind, schema
from gen.write_loops import SHORT
from gen.write_python import python_functions
from gen.write_tables import is_overwriting


def ops_txt(world):
    """Sorted, committed, so that a review sees the changed surface."""
    lines = ["# Every operator, from ops/*.op; `python -m gen.main list` prints this."]
    for form in world.all_forms():
        entry = form.sibling.entry
        gradient = "dissolves" if dissolves(entry) else "grad" if world.facts[form.sibling.name].get("derivative") and \
            form.variant != "out" else "nograd"
        lines.append(f"aten::{schema(form)}  {kind(entry)} {gradient}")
    return "\n".join(lines) + "\n"


def gradient_lines(world, sibling):
    entry = sibling.entry
    if dissolves(entry):
        return ["through the operators that it is made of"]
    row, lines = entry.one("grad"), []
    saves = world.facts[sibling.name].get("derivative") or {}
    source = {file.path: file.lines for file in world.files}[entry.at.path]
    for rule in row.value["rules"] if row else []:
        argument = sibling.argument(rule["targets"][0])
        if argument is None or argument.index not in saves:
            continue
        read_in, read_out = saves[argument.index]
        kept = [a.name for a in sibling.arguments if read_in >> a.index & 1] + ["result"] * bool(read_out)
        lines.append(f"{argument.name}: saves {' '.join(kept) or 'nothing'}   ({entry.at.path}:{rule['at'].line})")
    if row:
        lines.append(source[row.at.line - 1].strip())
    return lines + [f"none for {' '.join(c['names'])}: {c['reason']}" for r in entry.all("nograd") for c in r.value]


def describe(world, name):
    """What follows from the entry, or None."""
    name = name.removeprefix("aten::")
    form = world.forms.get(name) or next((f for f in world.all_forms() if f.base == name), None)
    if form is None:
        return None
    sibling, entry = form.sibling, form.sibling.entry
    facts, rows = world.facts[sibling.name], []
    lines = []
    for one in sibling.forms:
        note = f"{sibling.at.path}:{sibling.at.line}" if one is sibling.forms[0] else one.variant.replace("inplace", "in-place")
        lines.append(f"aten::{schema(one)}   {note}")
    dtypes = " ".join(n for _, n, _, _ in DTYPES if n in admitted(entry))
    rows.append(("kind", kind(entry) + (", dissolves" if dissolves(entry) else "") + (", overwrites" if is_overwriting(entry) else "")))
    rows.append(("dtypes", dtypes))
    checks = [r for r in entry.rows if r.word == "check"]
    rows.append(("shape", f"{entry.results[0].kind}({', '.join(str(getattr(a, 'value', a)) for a in entry.results[0].args)})"
                 f";  checks: {len(checks)}"))
    shown = [f"{'Tensor.' if word == 'method' else 'torch.'}{base}" for (base, word), forms in python_functions(world).items()
             if any(f.sibling is sibling for f in forms)]
    rows.append(("python", ", ".join(shown) or "torch.ops.aten only"))
    rows += [("gradient", line) for line in gradient_lines(world, sibling)]
    if kind(entry) == "point":
        rows.append(("loops", f"nx__loop_{sibling.c_name}_{{{','.join(SHORT[d] for d in admitted(entry))}}}_{{base,v4}}"))
    if kind(entry) == "reduce":
        rows.append(("folds", f"nx__fold_{entry.name.replace('.', '_')}_{{{','.join(SHORT[d] for d in admitted(entry))}}}_{{base,v4}}"))
    kernels = [r.value["name"] for r in entry.all("kernel")]
    if kernels:
        rows.append(("kernels", " ".join(kernels) + "   ref " + " ".join(r.value["name"] for r in entry.all("ref"))))
    rows.append(("c", f"nx_{form.c_name}() in gen/ops.h" + (f", {facts['compose']}" if facts.get("compose") else "")))
    cases = sum(len(r.value) for r in entry.all("cases"))
    rows.append(("tests", f"{cases} rows of cases; tolerance {'as listed' if entry.one('close') else 'default'}"))
    last = None
    for label, text in rows:
        lines.append(f"{label if label != last else '':10}{text}")
        last = label
    return "\n".join(lines) + "\n"
