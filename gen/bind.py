"""Values for the parameters of a form: which of them fit, and what an argument of the call itself is."""

from gen.syntax import Problem
from gen.values import Value, constant


def bind(form, args, keywords):
    """Arguments for the parameters of a form: [(param, Value or None for the default)] or the reason why not."""
    params, bound = form.params, []
    if len(args) > len(params):
        return None, f"takes {len(params)} arguments"
    rest = dict(keywords)
    for k, param in enumerate(params):
        value = args[k] if k < len(args) else rest.pop(param.name, None)
        param.number_too = next((a.number_too for a in form.arguments if a.name == param.name), False)
        if value is None:
            if param.initial is None and param.type.base != "options":
                return None, f"'{param.name}' is missing"
            bound.append((param, constant(None) if param.type.base == "options" else None))
        elif not accepts(param, value):
            return None, f"'{param.name}' cannot be a {value.kind}"
        else:
            bound.append((param, value))
    return (None, f"has no parameter '{next(iter(rest))}'") if rest else (bound, None)


def accepts(param, value):
    base, kind = param.type.base, value.kind
    if param.is_tensor:
        numbers = ("operand", "number", "int", "float", "bool")
        return kind == "tensor" or (param.number_too and kind in numbers) or (kind == "none" and param.type.optional)
    if kind == "none":
        return param.type.optional or base == "options"
    if base in ("T", "U", "Tensor"):
        return kind == "tensors"
    if base == "bool" and param.type.list_of is not None:
        return kind == "bools"
    if param.type.list_of is not None:
        return kind == "ints" or (kind == "ints?" and param.type.optional)
    table = {
        "Scalar": ("number", "int", "float", "bool"),
        "int": ("int",),
        "SymInt": ("int",),
        "float": ("float", "int"),
        "bool": ("bool", "int"),
        "options": ("options",),
        "dim": ("int",),
    }
    if base in ("int", "SymInt") and kind == "value":
        return param.type.optional and value.base in ("int", "SymInt")
    if base == "Scalar" and kind == "value":
        return value.base == "Scalar"  # the formula has asked whether it is there
    if base in ("float", "bool") and kind == "value":
        return param.type.optional and value.base == base
    if base in table:
        return kind in table[base]
    return kind == base or (kind == "value" and value.base == base)


def argument_value(argument):
    """The Value of an argument of the call `in`."""
    k, c, base = argument.index, f"in[{argument.index}]", argument.base
    if base == "Tensor" and argument.list_of is None and not argument.optional:
        if argument.number_too:
            return Value("operand", c, source=("in", k))
        return Value("tensor", f"{c}.tensor", array=f"{c}.array", source=("in", k))
    if base == "Tensor" and argument.list_of is None:
        present = f"({c}.tag == NX_TAG_TENSOR)"
        tensor = f"({present} ? {c}.tensor : NULL)"
        return Value("tensor", tensor, array=f"{c}.array", present=present, source=("in", k))
    if base == "Tensor":
        return Value("tensors", c, source=("in", k))
    if base == "bool" and argument.list_of is not None:
        return Value("bools", c)
    if base in ("int", "SymInt") and argument.list_of is not None:
        return Value("ints?", c) if argument.optional else Value("ints", f"{c}.ints", f"{c}.n")
    if base == "Scalar" and not argument.optional:
        return Value("number", c)
    if argument.optional or base in ("str", "dtype", "device", "layout", "memory_format", "generator"):
        return Value("value", c, base=base)
    if base in ("int", "SymInt"):
        return Value("int", f"{c}.i")
    if base == "float":
        return Value("float", f"nx_value_as_float(&{c})")
    if base == "bool":
        return Value("bool", f"({c}.i != 0)")
    raise Problem(argument.param.at, f"not yet generated: a parameter of type {argument.schema_type()}")
