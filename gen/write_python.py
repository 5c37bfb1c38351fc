"""Writes what Python sees: functions and methods with their overloads (functions.c), and their stubs (_C_ops.pyi)."""

from keyword import iskeyword

from gen.forms import alias_of
from gen.model import schema
from gen.values import c_string

MODULES = {"function": "torch", "method": "torch.Tensor", "nn": "torch._C._nn", "linalg": "torch._C._linalg",
           "fft": "torch._C._fft", "special": "torch._C._special"}


def takes_number(form):
    """A sibling that differs only by a number for a tensor: Python reaches it through the first one."""
    sibling = form.sibling
    return sibling.name != sibling.entry.name and any(
        p.type.base == "Scalar" and p.type.inner == "T" for p in sibling.params
    )


def python_functions(world):
    """{(name, word): forms} in order; overloads with fewer parameters first, `out` last."""
    found = {}
    for form in world.all_forms():
        for word in form.words:
            is_method = word == "method"
            inplace_form = form.variant == "inplace" and form.name != form.sibling.name
            if (
                word not in MODULES
                or takes_number(form)
                or (form.variant == "out" and is_method)
                or (inplace_form and not is_method)
            ):
                continue
            found.setdefault((form.base, word), []).append(form)
            for name in world.aliases.get(form.sibling.base, {}):  # what they call is the operator itself
                if (other := alias_of(form, name)) in world.forms:
                    prefix = name.partition("_")[0]
                    key = other.partition(".")[0], prefix if prefix in MODULES else word
                    found.setdefault(key, []).append(form)
    order = {"functional": 0, "inplace": 0, "out": 1}
    for forms in found.values():
        forms.sort(key=lambda f: (order[f.variant], len(f.params), f.name))
    return dict(sorted(found.items()))


def write_functions(world):
    lines = [
        "/* Functions and methods of Python with their overloads. Generated from ops/. */",
        '#include "bind/bind.h"',
        "",
    ]
    rows = []
    for (name, word), forms in python_functions(world).items():
        table = f"overloads_{name}_{word}"
        lines.append(
            f"static const char *const {table}[] = {{{', '.join(c_string('aten::' + f.name) for f in forms)}}};"
        )
        is_method = word == "method"
        target = name if is_method else f"{MODULES[word]}.{name}"
        doc = forms[0].sibling.entry.doc or name
        doc += "\\n\\n" + "\\n".join(schema(f).replace('"', '\\"') for f in forms)
        rows.append(f'    {{"{name}", "{target}", "{MODULES[word]}", {str(is_method).lower()}, {len(forms)}, {table},\n'
                    f'     "{doc}"}},')
    lines += ["", "const nxpy_function_def nxpy_function_defs[] = {"] + rows
    lines += ["};", f"const int nxpy_n_function_defs = {len(rows)};", ""]
    return "\n".join(lines)


# ---- stubs
def stub_type(argument):
    types = {"Tensor": "Tensor", "int": "int", "SymInt": "int", "float": "float", "bool": "bool", "Scalar": "Number",
             "dtype": "dtype", "layout": "layout", "device": "DeviceLike", "memory_format": "memory_format",
             "generator": "Generator", "pin_memory": "bool", "str": "str"}
    text = types[argument.base] + (" | Number" if argument.number_too else "")
    if argument.list_of is not None:
        text = f"Sequence[{text}]" + (" | int" if argument.list_of else "")
    return text + (" | None" if argument.optional else "")


def stub(form, name, indent, is_method):
    parts, star = [], False
    for argument in form.arguments:
        if argument.keyword_only and not star:
            parts.append("*")
            star = True
        if is_method and argument.name == "self":
            parts.insert(0, "self")
            continue
        shown = "input" if argument.name == "self" else argument.name
        shown += "_" if iskeyword(shown) else ""
        parts.append(f"{shown}: {stub_type(argument)}" + (" = ..." if argument.initial is not None else ""))
    return f"{indent}def {name}({', '.join(parts)}) -> Tensor: ..."


def write_stubs(world):
    lines = ['"""Functions and methods that come from ops/. Generated."""', "from collections.abc import Sequence",
             "from typing import overload", "",
             "from narthex import Generator, Number, Tensor, device, dtype, layout, memory_format", "",
             "DeviceLike = device | str | int", ""]
    for is_method in (False, True):
        indent = "    " if is_method else ""
        if is_method:
            lines += ["", "class TensorBase:"]
        for (name, word), forms in python_functions(world).items():
            if (word == "method") != is_method:
                continue
            for form in forms:
                lines += ([f"{indent}@overload"] if len(forms) > 1 else []) + [stub(form, name, indent, is_method)]
    return "\n".join(lines) + "\n"
