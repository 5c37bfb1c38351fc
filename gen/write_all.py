"""Puts the writers together: all generated files as {name: text}. Problems that only writing finds join the world's."""

from pathlib import Path

from gen.model import CLASSES, dissolves, gives_list, is_view, kind
from gen.syntax import Problem
from gen.write_folds import write_reduce, write_reduce_table
from gen.write_loops import COMPLEX_HEAD, HEAD, at_level, write_point, write_point_table
from gen.write_python import write_functions, write_stubs
from gen.write_rules import (
    RULES,
    Source,
    scatter_of,
    write_backward,
    write_compose,
    write_elements,
    write_inverse,
    write_kernels,
    write_meta,
)
from gen.write_tables import param_row, write_def, write_derivative, write_into, write_register, write_wrappers

KERNELS_HEAD = """/* Kernels that the C files of ops/ define, as their entries call them. Generated from ops/. */
#ifndef NX_GEN_KERNELS_H
#define NX_GEN_KERNELS_H

#include "iter/iter.h"
"""

RULES_HEAD = """/* Shape rules, formulas, compositions and adapters of all operators. Generated from ops/. */
#ifndef NX_GEN_RULES_H
#define NX_GEN_RULES_H

#include "gen/support.h"
#include "fourier/size.h"
#include "shape/strided.h"
#include "window/window.h"

"""

# A size that a program or a model file gives may be any number.
WRAPS = """/* Sums of sizes wrap, as PyTorch's do; what comes out of them is checked. */
#pragma GCC optimize("wrapv")
"""


class Files:
    """What is being written. Loops stand in a file for each family, the `.op` file of their entries, and category of
    dtypes: a level may have those of floating dtypes alone, and the first alone has those of complex ones."""

    def __init__(self):
        self.meta = Source("meta.c", "/* Shape rules. Generated from ops/. */\n" + WRAPS + RULES)
        self.grad = Source("grad.c", "/* Gradient formulas. Generated from ops/. */\n" + WRAPS + RULES)
        self.kernels = Source(
            "kernels.c", '/* Choice among kernels. Generated from ops/. */\n#include "gen/kernels.h"\n' + RULES
        )
        self.compose = Source("compose.c", "/* Operators made of operators. Generated from ops/. */\n" + WRAPS + RULES)
        self.loops = {}  # by (family, category of dtypes)
        self.written = {}  # names of loops by (dtype, text)
        self.tables = Source(
            "tables.c", '/* What every operator is. Generated from ops/. */\n#include "gen/loops.h"\n' + RULES
        )
        self.loop_header, self.prototypes, self.declared = [], {}, []
        self.folds = {}  # names of an entry's folds: its siblings share them

    def loop(self, sibling, dtype, text):
        category = next((word for word in ("float", "complex") if dtype in CLASSES[word]), "int")
        loop_file(self.loops, Path(sibling.at.path).stem, category).add(text)


def loop_file(loops, family, category):
    head = HEAD + COMPLEX_HEAD if category == "complex" else HEAD
    return loops.setdefault((family, category), Source(f"loops_{family}_{category}.c", head))


def write_sibling(world, sibling, files, levels):
    """All that the forms of a sibling share. Returns what its table row mentions."""
    entry, facts = sibling.entry, {}
    name = sibling.c_name
    if not dissolves(entry) and not gives_list(entry):
        write_meta(world, sibling, files.meta)
        files.declared.append(f"nx_meta_fn nx__shape_{name};")
        facts["meta"] = True
    if kind(entry) == "as":
        write_compose(world, sibling, files.compose)
        files.declared.append(f"nx_op_fn nx__compose_{name};")
        facts["compose"] = f"nx__compose_{name}"
    if kind(entry) == "point":
        names = write_point(world, sibling, files.written, files.loop, files.loop_header)
        write_point_table(world, sibling, names, levels, files.tables)
        facts.update(kernel="nx_point_kernel", point=f"&point_{name}", loops=list(names.values()))
    if kind(entry) == "reduce":
        if entry.name == sibling.name:
            files.folds[entry.name] = write_reduce(world, sibling, files.loop, files.loop_header)
        write_reduce_table(sibling, files.folds.get(entry.name, {}), levels, files.tables)
        facts.update(kernel="nx_reduce_kernel", reduce=f"&reduce_{name}")
    if kind(entry) == "elements":
        kernels = {"kernel": write_elements(world, sibling, files.kernels)}
    else:
        kernels = write_kernels(world, sibling, files.kernels, files.prototypes)
    files.declared += [f"nx_kernel_fn {c};" for c in kernels.values() if c != "nx__kernel_nothing"]
    facts.update(kernels)
    if is_view(entry):
        write_inverse(world, sibling, files.grad)
        files.declared.append(f"nx_inverse_fn nx__inverse_{name};")
        facts["inverse"], facts["scatter"] = True, scatter_of(sibling)
    saves = write_backward(world, sibling, files.grad)
    if saves:
        files.declared.append(f"nx_backward_fn nx__backward_{name};")
        write_derivative(sibling, saves, files.tables)
        facts["derivative"] = saves
    return facts


def loops_header(rows, levels):
    lines = [
        "/* Loops and folds of every level. Generated from ops/. */",
        "#ifndef NX_GEN_LOOPS_H",
        "#define NX_GEN_LOOPS_H",
        "",
        '#include "dispatch/dispatch.h"',
        "",
    ]
    for level in levels:
        name, _, which = level.partition(":")
        lines += [row.replace("$", name) for dtype, row in rows if at_level(dtype, which)]
    return "\n".join(lines + ["", "#endif", ""])


def kernels_header(prototypes):
    lines = [KERNELS_HEAD]
    for name in sorted(prototypes):
        lines.append(f"nx_status nx__{name}({', '.join(prototypes[name][1])});")
    return "\n".join(lines + ["", "#endif", ""])


def write_siblings(world, siblings, files, levels):
    """What the table row of each mentions, by name; problems join the world's."""
    facts = {}
    for sibling in siblings:
        try:
            facts[sibling.name] = write_sibling(world, sibling, files, levels)
        except Problem as problem:
            world.problems.append(problem if problem.at.path else Problem(sibling.at, problem.message))
    return facts


def write_all(world, levels):
    files = Files()
    facts = write_siblings(world, world.siblings, files, levels)
    if world.problems:
        return None
    world.facts = facts
    forms = world.all_forms()
    tables = files.tables
    for form in forms:
        rows = "\n".join(param_row(a, form.sibling.entry) for a in form.arguments)
        tables.add(f"static const nx_param params_{form.c_name}[] = {{\n{rows}\n}};")
    for sibling in world.siblings:
        if sibling.entry.one("into") and any(form.variant == "out" for form in sibling.forms):
            write_into(sibling, tables)
    tables.add("\nstatic const nx_op_def definitions[] = {")
    for form in forms:
        tables.add(write_def(form, facts[form.sibling.name], world.casts(form.sibling)))
    tables.add("};\n")
    write_register(forms, tables)
    header, calls = write_wrappers(forms)
    loops = [
        loop_file(files.loops, family, category)
        for family in sorted({family for family, _ in files.loops})
        for category in ("int", "float", "complex")
    ]
    sources = (files.meta, files.grad, files.kernels, files.compose, *loops, tables, header, calls)
    found = {source.name: source.text() for source in sources}
    found["loops.h"] = loops_header(files.loop_header, levels)
    found["rules.h"] = RULES_HEAD + "\n".join(sorted(files.declared)) + "\n\n#endif\n"
    found["kernels.h"] = kernels_header(files.prototypes)
    found["functions.c"] = write_functions(world)
    found["_C_ops.pyi"] = write_stubs(world)
    return found

