"""What scripts know before they run: types and values as TorchScript writes them, what stands for modules."""

import ast
import builtins
import inspect
import math
import types
import typing

from .. import _C, jit, nn
from ._calls import FORMATS, NUMBERS, is_operator
from ._layers import LAYERS

UNKNOWN = object()  # what is known at run time alone
SIMPLE = (int, float, bool, str)
FORMAT_NUMBERS = {form: number for number, form in FORMATS.items()}
GATHERED = {"einsum": 1, "meshgrid": 0, "block_diag": 0, "cartesian_prod": 0, "broadcast_tensors": 0}  # first of a list
SPREAD = {"view", "reshape", "permute", "expand", "repeat", "tile", "flip", "new_zeros", "new_ones", "new_empty"}
MARKS = (
    "script", "script_if_tracing", "_script_if_tracing", "script_method", "export", "unused", "ignore", "interface",
)  # fmt: skip
COMPARED = {ast.Eq: "__eq__", ast.NotEq: "__ne__", ast.Lt: "__lt__", ast.LtE: "__le__", ast.Gt: "__gt__",
            ast.GtE: "__ge__"}  # fmt: skip


class Unsupported(Exception):
    """What has no text of TorchScript; `node` is where it stands."""

    def __init__(self, what: str, node=None) -> None:
        super().__init__(what)
        self.what, self.node = what, node


class Held(typing.NamedTuple):
    """A module that the code reaches by a text."""

    part: object  # Part of _script.py
    text: str


class Bound(typing.NamedTuple):
    """A method of a module."""

    held: Held
    name: str


class Super(typing.NamedTuple):
    """super() of a method that `owner` defines."""

    held: Held
    owner: type


# ---- types and values -----------------------------------------------------------------------------------------------
def type_text(kind) -> str:
    """A type as the code writes it."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    plain = {
        int: "int", float: "float", bool: "bool", str: "str", None: "NoneType", type(None): "NoneType",
        typing.Any: "Any", _C.device: "Device", _C.dtype: "int", _C.Size: "List[int]", complex: "complex",
    }  # fmt: skip
    if isinstance(kind, type) and issubclass(kind, _C.TensorBase):
        return "Tensor"
    try:
        if kind in plain:
            return plain[kind]
    except TypeError:
        pass
    if origin is typing.Final or origin is typing.Annotated:
        return type_text(inner[0])
    if origin in (list, tuple, dict) and inner and Ellipsis not in inner:
        name = {list: "List", tuple: "Tuple", dict: "Dict"}[origin]
        return f"{name}[{', '.join(map(type_text, inner))}]"
    if origin in (typing.Union, types.UnionType):
        rest = [type_text(one) for one in inner if one is not type(None)]
        united = rest[0] if len(rest) == 1 else f"Union[{', '.join(rest)}]"
        return f"Optional[{united}]" if type(None) in inner else united
    raise Unsupported(f"the type {kind}")


def type_of(value) -> str:
    """The type of a value that a module holds."""
    if isinstance(value, _C.TensorBase):
        return "Tensor"
    if type(value) in SIMPLE or value is None:
        return type_text(type(value))
    if type(value) is list and value and len({type_of(one) for one in value}) == 1:
        return f"List[{type_of(value[0])}]"
    if type(value) is tuple and value:
        return f"Tuple[{', '.join(map(type_of, value))}]"
    if type(value) is dict and value:
        key, kind = {type_of(one) for one in value}, {type_of(one) for one in value.values()}
        if len(key) == len(kind) == 1:
            return f"Dict[{key.pop()}, {kind.pop()}]"
    raise Unsupported(f"a {type(value).__name__}")


def literal(value) -> str:
    """A constant as the code writes it."""
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    if value is None or value is Ellipsis or type(value) in SIMPLE:
        return "..." if value is Ellipsis else repr(value)
    if isinstance(value, _C.dtype):
        return str(NUMBERS[value])
    if isinstance(value, _C.device):
        return f'torch.device("{value}")'
    if isinstance(value, _C.memory_format):
        return str(FORMAT_NUMBERS[value])
    if isinstance(value, type(_C.strided)):
        return "0"
    if isinstance(value, (list, _C.Size)):
        return f"[{', '.join(map(literal, value))}]" if value else "annotate(List[int], [])"
    if type(value) is tuple:
        return f"({', '.join(map(literal, value))}{',' if len(value) == 1 else ''})"
    if type(value) is dict and value:
        return f"{{{', '.join(f'{literal(key)}: {literal(one)}' for key, one in value.items())}}}"
    raise Unsupported(f"a {type(value).__name__} as a value")


def parsed(text: str) -> ast.expr:
    """The expression of a text."""
    return ast.parse(text, mode="eval").body


def called(name: str, *args: ast.expr) -> ast.Call:
    """A call of what has a whole name."""
    return ast.Call(parsed(name), list(args), [])


def is_container(module) -> bool:
    return isinstance(module, (nn.ModuleList, nn.Sequential, nn.ModuleDict))


def narthex_module():
    import narthex

    return narthex


class Known:
    """What is known of expressions before the code runs: values of names around it, choices by them. A subclass has
    env, names and own, and says what an attribute of a module is."""

    def static(self, node):
        """The value of an expression that is known here: constants, modules, functions; else UNKNOWN."""
        method = getattr(self, f"static_{type(node).__name__}", None)
        return UNKNOWN if method is None else method(node)

    def static_Constant(self, node):  # noqa: N802
        return node.value

    def static_Name(self, node):  # noqa: N802
        if node.id in self.env:
            return self.env[node.id]
        return UNKNOWN if node.id in self.own else self.names.get(node.id, UNKNOWN)

    def static_Attribute(self, node):  # noqa: N802
        owner = self.static(node.value)
        if isinstance(owner, Held):
            return self.attribute(owner, node.attr, node)
        if isinstance(owner, Super):
            return self.inherited(owner, node)
        torch = narthex_module()
        if owner is torch and is_operator(node.attr):
            return vars(torch).get(node.attr, UNKNOWN)  # some have a text and are no names of torch
        if inspect.ismodule(owner) or inspect.isclass(owner) or isinstance(owner, (torch.finfo, torch.iinfo)):
            return getattr(owner, node.attr, UNKNOWN)
        return UNKNOWN

    def inherited(self, owner: Super, node):
        """A method that super() finds, under a name of its own."""
        part = owner.held.part
        mro = type(part.module).__mro__
        for cls in mro[mro.index(owner.owner) + 1 :]:
            if node.attr in cls.__dict__ and cls is not nn.Module:
                of_library = cls.__module__.startswith("narthex.")
                if of_library and (node.attr != "forward" or cls.__name__ not in LAYERS):
                    break
                name = f"_{cls.__name__}_{node.attr}"
                part.inherited[name] = cls.__name__ if of_library else cls.__dict__[node.attr]
                return Bound(owner.held, name)
        self.fail(f"super().{node.attr}", node)

    def static_Subscript(self, node):  # noqa: N802
        owner = self.static(node.value)
        if isinstance(owner, Held) and is_container(owner.part.module):
            at = self.static_slice(node.slice)
            if at is not UNKNOWN:
                held = self.held_of(owner)
                if isinstance(at, str):
                    return dict(held).get(at, UNKNOWN)
                try:
                    return tuple(one for _, one in held)[at]
                except IndexError:
                    self.fail("an index behind the end of the modules", node)
            self.fail("an index of modules that is not a constant", node)
        return UNKNOWN

    def static_slice(self, node):
        if not isinstance(node, ast.Slice):
            return self.static(node)
        ends = [None if one is None else self.static(one) for one in (node.lower, node.upper, node.step)]
        return UNKNOWN if UNKNOWN in ends else slice(*ends)

    def static_Tuple(self, node):  # noqa: N802
        found = tuple(self.static(one) for one in node.elts)
        return found if found and all(isinstance(one, Held) for one in found) else UNKNOWN

    static_List = static_Tuple  # noqa: N815

    def static_UnaryOp(self, node):  # noqa: N802
        value = self.static(node.operand)
        if value is UNKNOWN or not (value is None or type(value) in SIMPLE):
            return UNKNOWN
        if isinstance(node.op, ast.Not):
            return not value
        return -value if isinstance(node.op, ast.USub) and type(value) in (int, float) else UNKNOWN

    def static_BoolOp(self, node):  # noqa: N802
        is_and = isinstance(node.op, ast.And)
        values = [self.static(one) for one in node.values]
        for value in values:
            known = value is not UNKNOWN and (value is None or type(value) in SIMPLE)
            if known and bool(value) is not is_and:
                return value
            if not known and not isinstance(value, Held):
                break
        else:
            return values[-1]
        # behind what is open: a value that decides, where what stands before it does nothing
        decides = any(value is (not is_and) for value in values)
        quiet = all(isinstance(one, (ast.Attribute, ast.Name, ast.Compare, ast.Constant)) for one in node.values)
        return (not is_and) if decides and quiet else UNKNOWN

    def static_Compare(self, node):  # noqa: N802
        if len(node.ops) != 1:
            return UNKNOWN
        left, right, op = self.static(node.left), self.static(node.comparators[0]), node.ops[0]
        if left is UNKNOWN or right is UNKNOWN:
            return UNKNOWN
        if isinstance(op, (ast.Is, ast.IsNot)):
            return (left is right) is isinstance(op, ast.Is)
        if type(op) in COMPARED and type(left) in SIMPLE and type(right) in SIMPLE:
            made = getattr(left, COMPARED[type(op)])(right)
            return UNKNOWN if made is NotImplemented else made
        return UNKNOWN

    def static_IfExp(self, node):  # noqa: N802
        test = self.truth(node.test)
        return UNKNOWN if test is UNKNOWN else self.static(node.body if test else node.orelse)

    def static_Call(self, node):  # noqa: N802
        function = self.static(node.func)
        if function is UNKNOWN or isinstance(function, (Held, Bound)) or node.keywords:
            return UNKNOWN
        if function is builtins.super and not node.args and self.part is not None and "__class__" in self.names:
            return Super(self.env["self"], self.names["__class__"]) if "self" in self.env else UNKNOWN
        if function in (narthex_module().finfo, narthex_module().iinfo) and len(node.args) == 1:
            kind = self.static(node.args[0])
            return function(kind) if isinstance(kind, _C.dtype) else UNKNOWN
        if function is jit.is_scripting or function is jit.is_tracing:
            return function is jit.is_scripting
        if function in (narthex_module().is_tensor,) or not node.args:
            return UNKNOWN
        first = self.static(node.args[0])
        if function in (builtins.hasattr, builtins.getattr) and isinstance(first, Held):
            name = self.static(node.args[1])
            if not isinstance(name, str):
                return UNKNOWN
            if function is builtins.hasattr:
                return hasattr(first.part.module, name)
            if len(node.args) == 3 and not hasattr(first.part.module, name):
                return self.static(node.args[2])
            return self.attribute(first, name, node)
        if function is builtins.len and isinstance(first, Held):
            return len(first.part.module)
        if function is builtins.isinstance and isinstance(first, Held):
            return isinstance(first.part.module, self.classes(node.args[1]))
        return UNKNOWN

    def classes(self, node):
        if isinstance(node, ast.Tuple):
            return tuple(self.static(one) for one in node.elts)
        return self.static(node)

    def truth(self, node):
        """Whether a condition holds, where that is known."""
        value = self.static(node)
        if value is None or type(value) in SIMPLE:
            return bool(value)
        if isinstance(value, Held):
            return bool(value.part.module) if is_container(value.part.module) else True
        return UNKNOWN
