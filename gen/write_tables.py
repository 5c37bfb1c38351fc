"""Writes the tables that the dispatcher reads (tables.c: one nx_op_def a form, nx__register_ops) and the typed
wrappers for callers in C (ops.h, calls.c)."""

import re

from gen.model import (
    DTYPE_CODE,
    MEMORY_FORMATS,
    admits_complex,
    copies_out,
    dissolves,
    gives_list,
    is_view,
    kind,
    schema,
    signed,
)
from gen.values import c_string
from gen.write_rules import Source

TYPES = {"Tensor": "TENSOR", "Scalar": "SCALAR", "generator": "GENERATOR", "memory_format": "MEMORY_FORMAT",
         "dtype": "DTYPE", "layout": "LAYOUT", "device": "DEVICE", "pin_memory": "BOOL", "int": "INT", "SymInt": "INT",
         "float": "FLOAT", "bool": "BOOL", "str": "STR"}
KINDS = {"point": "POINT", "reduce": "REDUCE", "view": "VIEW", "as": "COMPOSED", "elements": "KERNEL",
         "kernel": "KERNEL"}
VARIANTS = {"functional": "NX_FUNCTIONAL", "inplace": "NX_INPLACE", "out": "NX_OUT"}
OUT_REASON = "functions with out=... arguments don't support automatic differentiation"


def initial_value(argument):
    initial = argument.initial
    if initial is None or (initial.op == "const" and initial.value == "None"):
        return "{.tag = NX_TAG_NONE}"
    if initial.op == "list":
        return ints_value([signed(part) for part in initial.args])
    sign = -1 if initial.op == "unary" else 1
    value = initial.args[0].value if initial.op == "unary" else initial.value
    if initial.op == "const":
        value = {"True": 1, "False": 0}[value]
    if argument.base == "memory_format":
        return f"{{.tag = NX_TAG_MEMORY_FORMAT, .i = {MEMORY_FORMATS[value]}}}"
    if argument.base == "dtype":
        return f"{{.tag = NX_TAG_DTYPE, .i = NX_{DTYPE_CODE[value]}}}"
    if argument.base == "float":
        return f"{{.tag = NX_TAG_FLOAT, .f = {float(sign * value)!r}}}"
    if argument.base == "str":
        return f"{{.tag = NX_TAG_STR, .str = {c_string(str(value))}}}"
    if argument.base == "bool":
        return f"{{.tag = NX_TAG_BOOL, .i = {int(value)}}}"
    if isinstance(value, float):
        return f"{{.tag = NX_TAG_FLOAT, .f = {sign * value!r}}}"
    if isinstance(argument.list_of, int) and argument.list_of > 0:  # a number stands for as many as there are
        return ints_value([sign * value] * argument.list_of)
    return f"{{.tag = NX_TAG_INT, .i = {sign * value}}}"


def ints_value(values):
    numbers = f", .ints = (int64_t[]){{{', '.join(map(str, values))}}}" if values else ""
    return f"{{.tag = NX_TAG_INTS, .n = {len(values)}{numbers}}}"


def claims(entry, name):
    """The claims of that name in the entry's `props` rows."""
    return [p for row in entry.all("props") for p in row.value if p["name"] == name]


def spelled(expr):
    """An operator's name, `add.Tensor`, as an argument of a claim."""
    return f"{expr.args[0].value}.{expr.value}" if expr.op == "field" else expr.value


def refuses_overlap(entry, argument, claim="no_overlap"):
    """`props no_overlap(src)`: src may not share memory with the tensor that is written; or not in part."""
    named = any(a.value == argument.name for p in claims(entry, claim) for a in p["args"].args)
    return named and not argument.written


def takes_complex(argument, entry):
    """Whether a complex number may stand there: where it takes part in promotion, is one of the entry's elements, or
    `props complex(fill_value)` says so."""
    if kind(entry) == "point" and (argument.param.in_promotion or argument.number_too):
        return True
    named = any(a.value == argument.name for p in claims(entry, "complex") for a in p["args"].args)
    return argument.base == "Scalar" and (named or admits_complex(entry))


def is_dim(argument):
    """Also where the entry checks dimensions itself and has plain ints."""
    named = argument.base in ("int", "SymInt") and argument.name in ("dim", "dims", "dimension")
    return argument.param.type.base == "dim" or named


def param_row(argument, entry):
    type_ = TYPES[argument.base] + ("S" if argument.list_of is not None else "")
    fields = [f".name = {c_string(argument.name)}", f".type = NX_TYPE_{type_}"]
    for name, value in (("optional", argument.optional), ("keyword_only", argument.keyword_only),
                        ("has_initial", argument.initial is not None), ("written", argument.written),
                        ("number_too", argument.number_too),
                        ("complex_too", takes_complex(argument, entry)),
                        ("optional_elements", argument.param.type.optional_elements),
                        ("is_dim", is_dim(argument)),
                        ("no_overlap", refuses_overlap(entry, argument)),
                        ("no_part_overlap", refuses_overlap(entry, argument, "no_part_overlap"))):
        if value:
            fields.append(f".{name} = true")
    if argument.list_of and argument.base != "Tensor":
        fields.append(f".int_list_of = {argument.list_of}")
    if argument.initial is not None:
        fields.append(f".initial = {initial_value(argument)}")
    return "    {" + ", ".join(fields) + "},"


def is_overwriting(entry):
    """A mutating operator that never reads what it writes: the gradient of the old elements is zero."""
    grad = entry.one("grad")
    rules = grad.value["rules"] if grad else []
    mutated = [n for row in entry.all("mutate") for n in row.value]
    return any(r["targets"] == mutated and r["formula"].op == "name" and r["formula"].value == "zero" for r in rules)


def flags(form):
    entry, found = form.sibling.entry, []
    if form.variant != "functional":
        found.append("NX_OP_MUTATES")
    if entry.one("random"):
        found.append("NX_OP_RANDOM")
    if entry.one("factory") and form.variant != "out":
        found.append("NX_OP_FACTORY")
    if is_overwriting(entry):
        found.append("NX_OP_OVERWRITES")
    # A condition ("when alpha == 1") makes it a matter of the call, which this flag cannot say.
    if any(p["when"] is None for p in claims(entry, "commutes")) and form.sibling.name == entry.name:
        found.append("NX_OP_COMMUTES")
    if claims(entry, "elementwise"):
        found.append("NX_OP_ELEMENTWISE")
    if claims(entry, "one_value"):
        found.append("NX_OP_ONE_VALUE")
    if claims(entry, "by_places"):
        found.append("NX_OP_BY_PLACES")
    if entry.one("device"):
        found.append("NX_OP_COPIES_DEVICES")
    if gives_list(entry):
        found.append("NX_OP_LIST")
    if entry.one("data_sized"):
        found.append("NX_OP_DATA_SIZED")
    if any(a.list_of is not None and a.param.type.inner == "index" for a in form.arguments):
        found.append("NX_OP_MASKS")
    return " | ".join(found) or "0"


def nograd(form):
    if form.variant == "out":
        return c_string(OUT_REASON)
    for row in form.sibling.entry.all("nograd"):
        return c_string(("raise " if row.value[0]["raises"] else "") + row.value[0]["reason"])
    return "NULL"


def write_derivative(sibling, saves, source):
    n, inputs = len(sibling.arguments), 0
    all_in = all_out = 0
    table = {"in": [0] * n, "out": [0] * n}
    for index, (read_in, read_out) in saves.items():
        inputs |= 1 << index
        all_in, all_out = all_in | read_in, all_out | read_out
        table["in"][index], table["out"][index] = read_in, read_out
    name = sibling.c_name
    for side, values in table.items():
        source.add(f"static const uint64_t saves_{side}_{name}[] = {{{', '.join(f'{v:#x}' for v in values)}}};")
    source.add(f"static const nx_derivative derivative_{name} = {{{inputs:#x}, {all_in:#x}, {all_out:#x}, "
               f"saves_in_{name}, saves_out_{name}, nx__backward_{name}, {bare_results(sibling.entry):#x}}};\n")


def write_into(sibling, source):
    """The refusal of an out= of another dtype than the result's, in the words of the entry's `into`."""
    parts, args = [], []
    for text, name, style in re.findall(r"([^{]*)(?:\{(\w+)(:c)?\})?", sibling.entry.one("into").value):
        parts.append(text.replace("%", "%%") + "%s" * bool(name))
        if name:
            args.append(f"nx_dtype_{'cpp' if style else 'kind'}({name})")
    form = c_string("%s: " + "".join(parts))
    source.add(f"""static nx_status into_{sibling.c_name}(const char *op, nx_dtype result, nx_dtype out) {{
    (void)result;
    (void)out;
    return nx_fail(NX_RUNTIME, {", ".join([form, "op"] + args)});
}}
""")


def bare_results(entry):
    """The results that `nograd` names, by bit."""
    names = {name for row in entry.all("nograd") for clause in row.value for name in clause["names"]}
    named = [place.name or f"result{k}" for k, place in enumerate(entry.results)]
    return sum(1 << k for k, name in enumerate(named) if name in names and not entry.param(name))


def write_def(form, facts, casts):
    """casts: whether autocast casts what its parts are given."""
    entry, sibling = form.sibling.entry, form.sibling
    name = sibling.c_name
    facts = {"compose": "nx_compose_out"} if copies_out(form) else facts
    dissolved = dissolves(entry) or copies_out(form)
    fields = [
        f'.name = "aten::{form.name}"',
        f".schema = {c_string('aten::' + schema(form))}",
        f".kind = NX_KIND_{'VIEW' if is_view(entry) else 'COMPOSED' if dissolved else KINDS[kind(entry)]}",
        f".variant = {VARIANTS[form.variant]}",
        f".flags = {flags(form)}",
        f".n_in = {len(form.arguments)}",
        f".n_out = {len(entry.results)}",
        f".params = params_{form.c_name}",
    ]
    names = [place.name for place in entry.results]
    if len(names) > 1 and all(names):
        fields.append(f".result_names = (const char *const[]){{{', '.join(map(c_string, names))}}}")
    if facts.get("meta"):
        fields.append(f".meta = nx__shape_{name}")
    for word in ("kernel", "ref", "compose", "point", "reduce"):
        if facts.get(word):
            fields.append(f".{word} = {facts[word]}")
    if facts.get("inverse"):
        fields.append(f".inverse = nx__inverse_{name}")
    if facts.get("scatter"):
        fields.append(f'.scatter = "aten::{facts["scatter"]}"')
    linear = [sum(1 << a.index for a in sibling.arguments if a.name in {n.value for n in claim["args"].args})
              for claim in claims(entry, "linear")] if form.variant != "out" else []
    if linear:
        fields.append(f".linear = (const uint64_t[]){{{', '.join(f'{group:#x}' for group in linear)}}}")
        fields.append(f".n_linear = {len(linear)}")
    for claim in claims(entry, "joins") if form.variant == "functional" else []:
        fields.append(f'.joins = {{{", ".join(c_string("aten::" + spelled(a)) for a in claim["args"].args)}}}')
    if form.variant == "out" and entry.one("into"):
        fields.append(f".into = into_{name}")
    if dissolved:
        fields.append(".dissolves = true")
        fields += [".casts = true"] * casts
    if facts.get("derivative") and form.variant != "out":
        fields.append(f".derivative = &derivative_{name}")
    elif not dissolved:
        fields.append(f".nograd = {nograd(form)}")
    if entry.one("autocast"):
        word = entry.one("autocast").value["word"]
        fields.append(f".autocast = NX_AUTOCAST_{word.upper()}")
    if form.functional:
        fields.append(f'.functional = "aten::{form.functional}"')
    if form.inplace:
        fields.append(f'.inplace = "aten::{form.inplace}"')
    fields.append(f".source = {c_string(f'{sibling.at.path}:{sibling.at.line}')}")
    return "    {" + ",\n     ".join(fields) + "},"


def write_register(forms, source):
    source.add(f"""const nx_op *nx__op_at[{len(forms)}];

nx_status nx__register_ops(void) {{
    for (int k = 0; k < NX_COUNT(definitions); k++) NX_TRY(nx_library_def(&definitions[k]));
    for (int k = 0; k < NX_COUNT(definitions); k++) nx__op_at[k] = nx_op_get(definitions[k].name);
    return NX_OK;
}}""")


# ---- wrappers
def wrapper_param(argument):
    """C parameter of a typed wrapper, and the nx_value made of it."""
    name, base = argument.name, argument.base
    if base == "Tensor" and argument.number_too:
        return f"nx_value {name}", name
    if argument.is_tensor:
        return f"nx_tensor *{name}", f"nx_value_tensor({name})"
    if base in ("int", "SymInt") and argument.list_of is not None:
        made = f"nx_value_ints({name}, n_{name})"
        if argument.optional:
            made = f"{name} ? {made} : NX_VALUE_NONE"
        return f"const int64_t *{name}, int n_{name}", made
    if base == "generator":
        return f"nx_generator *{name}", f"nx__value_generator({name})"
    plain = {
        "int": ("int64_t", "int"),
        "SymInt": ("int64_t", "int"),
        "float": ("double", "float"),
        "bool": ("bool", "bool"),
    }
    if base in plain and not argument.optional and argument.list_of is None:
        type_, maker = plain[base]
        return f"{type_} {name}", f"nx_value_{maker}({name})"
    return f"nx_value {name}", name


def write_wrapper(form, index, header, source):
    params, values, seen_options = [], [], False
    for argument in form.arguments:
        if argument.param.type.base == "options":
            values.append(f"options.{argument.name}")
            if not seen_options:
                params.append("nx_options options")
            seen_options = True
            continue
        param, value = wrapper_param(argument)
        params.append(param)
        values.append(value)
    gives, n = form.variant == "functional", len(form.sibling.entry.results)
    listed = gives_list(form.sibling.entry)
    to = "results" if any(a.name == "out" for a in form.arguments) else "out"
    if gives:
        params.append(f"nx_value *{to}" if listed else f"nx_tensor **{to}")
    head = f"nx_status nx_{form.c_name}({', '.join(params)})"
    header.add(f"/* {schema(form)} */\nNX_API NX_MUST_USE {head};")
    take = "nx_tensor_unref(result.tensor); /* the written argument once more */"
    if gives:
        take = f"*{to} = result.tensor;"
    room, at = "result", "&result"
    if listed or n == 0:
        source.add(f"""{head} {{
    const nx_value in[] = {{{', '.join(values)}}};
    return nx_op_call(nx__op_at[{index}], in, {to if listed else "NULL"});
}}
""")
        return
    if n > 1:  # `out` has room for all of them
        room, at = f"made[{n}]", "made"
        one = f"{to}[k] = made[k].tag == NX_TAG_TENSOR ? made[k].tensor : NULL;" if gives else \
            "nx_tensor_unref(made[k].tensor); /* the written arguments once more */"
        take = f"for (int k = 0; k < {n}; k++) {one}"
    source.add(f"""{head} {{
    const nx_value in[] = {{{', '.join(values)}}};
    nx_value {room};
    NX_TRY(nx_op_call(nx__op_at[{index}], in, {at}));
    {take}
    return NX_OK;
}}
""")


HEADER = """/* Every operator as a C function; calls go through the dispatcher. Generated from ops/.
 * A Tensor is nx_tensor *, where a number may stand instead and for every Scalar an nx_value. Several results are
 * filled into out[0], out[1] ..., NULL where one is absent; a list into a value that nx_value_drop() releases.
 * Optional arguments are nx_value, NX_VALUE_NONE when absent; an optional list or generator is NULL.
 * In-place and out forms make no tensor. */
#ifndef NARTHEX_OPS_H
#define NARTHEX_OPS_H

#include "narthex/narthex.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Of a tensor that is made; {0}: all absent. */
typedef struct nx_options {
    nx_value dtype, layout, device, pin_memory;
} nx_options;
"""


def write_wrappers(forms):
    header = Source("ops.h", HEADER)
    source = Source(
        "calls.c",
        '/* Typed wrappers over nx_op_call(). Generated from ops/. */\n#include "dispatch/dispatch.h"\n'
        '#include "gen/ops.h"\n\nextern const nx_op *nx__op_at[];\n\n'
        "static inline nx_value nx__value_generator(nx_generator *generator) {\n"
        "    return (nx_value){.tag = generator ? NX_TAG_GENERATOR : NX_TAG_NONE, .generator = generator};\n}\n",
    )
    for index, form in enumerate(forms):
        write_wrapper(form, index, header, source)
    header.add("\n#ifdef __cplusplus\n}\n#endif\n#endif")
    return header, source
