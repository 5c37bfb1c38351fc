"""What an expression becomes in C: its kind, its text and, where it is known at generation, its value."""

from dataclasses import dataclass

UNKNOWN = object()
STATUS = {
    "RuntimeError": "NX_RUNTIME",
    "ValueError": "NX_VALUE",
    "TypeError": "NX_TYPE",
    "IndexError": "NX_INDEX",
    "NotImplementedError": "NX_NOT_IMPLEMENTED",
}


@dataclass
class Value:
    """kind: int bool float dtype device ints ints? number operand tensor value options none.

    An operand is an argument that may be a tensor or a number; `value` is an argument that may be absent."""

    kind: str
    c: str = ""
    n: str = ""  # ints: their count
    array: str = ""  # tensor: the C text of its nx_array
    present: str = ""  # ints that may be absent: the C condition
    base: str = ""  # value: its type
    const: object = UNKNOWN
    source: tuple = None  # ("in", k) or ("out", k): reading the elements means saving them


def constant(value):
    if value is None:
        return Value("none", const=None)
    if isinstance(value, bool):
        return Value("bool", "true" if value else "false", const=value)
    if isinstance(value, int):
        return Value("int", str(value), const=value)
    infinite = {float("inf"): "INFINITY", float("-inf"): "-INFINITY"}
    text = "NAN" if value != value else infinite.get(value, repr(value))
    return Value("float", text, const=value)


def bare(text):
    """A condition without the brackets around all of it."""
    while text.startswith("(") and text.endswith(")"):
        depth = 0
        for k, c in enumerate(text):
            depth += (c == "(") - (c == ")")
            if depth == 0 and k < len(text) - 1:
                return text
        text = text[1:-1]
    return text


def as_int(text):
    """A count as a C int."""
    text = bare(text)
    for prefix in ("(int64_t)", "(int)"):
        text = text.removeprefix(prefix)
    text = bare(text)
    return (
        text
        if text.isdigit() or text.replace("_", "a").isalnum() or text.endswith((".n", "ndim"))
        else f"(int)({text})"
    )


def c_string(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
