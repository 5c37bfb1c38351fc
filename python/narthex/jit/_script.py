"""torch.jit.script: the source of modules and functions, written as the code of a TorchScript archive.

PyTorch reads archives with the compiler of its scripts, so code stays what it is, statement by statement, once names
are resolved: operators and functions by their whole names, constants as their values, modules by their paths, loops
over modules one by one. What stays open is run by `_archive`, as every archive is.
"""

import ast
import builtins
import copy
import inspect
import json
import math
import textwrap
import types
import typing
import warnings

from .. import _C, jit, nn
from ..autograd.grad_mode import enable_grad, no_grad
from ..nn import functional
from ._archive import BUILTINS, ScriptModule
from ._calls import FORMATS, NUMBERS, PLAIN, is_operator
from ._layers import EXPRESSIONS, HELPERS, LAYERS
from ._trace import Made, _attributes, _reach

UNKNOWN = object()  # what is known at run time alone
SIMPLE = (int, float, bool, str)
FORMAT_NUMBERS = {form: number for number, form in FORMATS.items()}
GATHERED = {"einsum": 1, "meshgrid": 0, "block_diag": 0, "cartesian_prod": 0, "broadcast_tensors": 0}  # first of a list
SPREAD = {"view", "reshape", "permute", "expand", "repeat", "tile", "flip", "new_zeros", "new_ones", "new_empty"}
MARKS = ("script", "script_if_tracing", "_script_if_tracing", "export", "unused", "ignore", "interface")
COMPARED = {ast.Eq: "__eq__", ast.NotEq: "__ne__", ast.Lt: "__lt__", ast.LtE: "__le__", ast.Gt: "__gt__",
            ast.GtE: "__ge__"}  # fmt: skip
NO_GRAD = """class {0}:
  prev : bool
  def __enter__(self: __torch__.torch.autograd.grad_mode.{0}) -> NoneType:
    self.prev = torch.is_grad_enabled()
    torch.set_grad_enabled({1})
    return None
  def __exit__(self: __torch__.torch.autograd.grad_mode.{0}, exc_type: Any, exc_value: Any, traceback: Any) -> NoneType:
    torch.set_grad_enabled(self.prev)
    return None
  def __init__(self: __torch__.torch.autograd.grad_mode.{0}) -> NoneType:
    self.prev = False
    return None
"""


class Unsupported(Exception):
    """What has no text of TorchScript; `node` is where it stands."""

    def __init__(self, what: str, node=None) -> None:
        super().__init__(what)
        self.what, self.node = what, node


class Held(typing.NamedTuple):
    """A module that the code reaches by a text."""

    part: "Part"
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


# ---- modules --------------------------------------------------------------------------------------------------------
_OWN = set(nn.Module().__dict__)


class Part:
    """A module of a script: its fields, the modules in it, the text of its methods."""

    def __init__(self, script: "Script", module: nn.Module) -> None:
        if any(getattr(module, name) for name in ("_forward_hooks", "_forward_pre_hooks")):
            raise Unsupported(f"{type(module).__name__}, a module with hooks")
        self.module, self.methods, self.fields, self.kinds = module, {}, {}, {}
        self.inherited = {}  # methods that are called by super(), by the names that they have here
        self.layer = layer_of(module)
        self.children = {
            name: script.part(child) for name, child in module._modules.items() if child is not None
        }
        self.constants = set(getattr(module, "__constants__", ()))
        try:
            self.hints = {} if self.layer else typing.get_type_hints(type(module))
        except Exception:  # names that are there for type checkers alone
            self.hints = {}
        self.constants |= {name for name, kind in self.hints.items() if typing.get_origin(kind) is typing.Final}
        for name, value in module.__dict__.items():
            if name not in _OWN and not (self.layer and name.startswith("_")):
                self.field(name, value)
        for name, value in (*module._modules.items(), *module._parameters.items(), *module._buffers.items()):
            if value is None:
                self.field(name, value)

    def field(self, name: str, value) -> bool:
        """Makes an attribute a field, if its type has a text."""
        if name not in self.fields:
            try:
                hint = self.hints.get(name)
                kind = type_of(value) if hint is None or hint is typing.Final else type_text(hint)
            except Unsupported:
                return False
            self.fields[name], self.kinds[name] = value, kind
        return True

    def names(self) -> tuple:
        """Those of the parameters and of the buffers."""
        held = self.module._parameters, self.module._buffers
        return tuple([name for name, one in kept.items() if one is not None] for kept in held)


def layer_of(module: nn.Module) -> str:
    """The name of the library's text that is the forward of `module`, or nothing: the forward is the module's own."""
    for cls in type(module).__mro__:
        of_library = cls.__module__.startswith("narthex.")
        if of_library and cls.__name__ in LAYERS:
            return cls.__name__
        if "forward" in cls.__dict__:
            if of_library and cls is not nn.Module:
                raise Unsupported(f"nn.{cls.__name__}, a layer without a text,")
            return ""
    return ""


def is_container(module) -> bool:
    return isinstance(module, (nn.ModuleList, nn.Sequential, nn.ModuleDict))


class Script(Made):
    """The code of a scripted module: its parts, its functions."""

    def __init__(self) -> None:
        super().__init__()
        self.parts, self.queue, self.functions = {}, [], {}

    def part(self, module: nn.Module) -> Part:
        """What there is of a module; one that is there twice is one."""
        if isinstance(module, ScriptModule):
            source = module.__dict__.get("_source")
            if source is None:
                raise Unsupported("a traced or loaded module inside of a scripted one")
            module = source
        if id(module) not in self.parts:
            made = self.parts[id(module)] = Part(self, module)
            if made.layer or type(module).forward is not nn.Module.forward:
                self.want(made, "forward")
            for name in dir(type(module)):
                if getattr(inspect.getattr_static(type(module), name), "_jit_mark", None) == "export":
                    self.want(made, name)
        return self.parts[id(module)]

    def want(self, part: Part, name: str) -> None:
        """Puts a method among those to be written."""
        if name not in part.methods:
            part.methods[name] = ""
            self.queue.append((part, name))

    def translate(self) -> None:
        """Writes the methods that are wanted, and those that they want."""
        while self.queue:
            part, name = self.queue.pop()
            layer, function = part.layer if name == "forward" else "", part.inherited.get(name)
            if isinstance(function, str):
                layer, function = function, None
            if layer:
                tree = copy.deepcopy(LAYERS[layer])
                body = Body(self, tree, {**vars(builtins), "torch": _narthex(), "F": functional}, part, None)
                part.methods[name] = body.text(name)
                continue
            if function is not None:
                part.methods[name] = self.written(function, name, part)
                continue
            found = inspect.getattr_static(type(part.module), name)
            function = found.fget if isinstance(found, property) else found
            part.methods[name] = self.written(function, name, part)

    def written(self, function, name: str, part: Part | None, method: str = "") -> str:
        """The text of a function of Python, as a method or a function of that name."""
        source = inspect.unwrap(function) if isinstance(function, jit.ScriptFunction) else function
        if not isinstance(source, types.FunctionType):
            raise Unsupported(f"{name}, which is no function of Python,")
        try:
            lines, first = inspect.getsourcelines(source)
            text = textwrap.dedent("".join(lines))
            tree = ast.parse(text).body[0]
        except (OSError, TypeError, SyntaxError, IndexError):
            raise Unsupported(f"{name}, whose source cannot be found,") from None
        if not isinstance(tree, ast.FunctionDef):
            raise Unsupported(f"{name}, which is no def,")
        names = {**vars(builtins), **source.__globals__}
        for free, cell in zip(source.__code__.co_freevars, source.__closure__ or ()):
            try:
                names[free] = cell.cell_contents
            except ValueError:
                pass
        try:
            if any("# type: (" in line for line in lines):
                raise Unsupported("a type comment", tree)
            return Body(self, tree, names, part, source).text(name)
        except Unsupported as wrong:
            if wrong.node is not None:
                line = first + wrong.node.lineno - 1
                raise Unsupported(f"{inspect.getsourcefile(source)}:{line}: {wrong.what}") from None
            raise Unsupported(f"{inspect.getsourcefile(source)}:{first}: {wrong.what}") from None

    def function_named(self, function) -> str:
        """The whole name of a function, which is written when it is first asked for."""
        if id(function) not in self.functions:
            name = self.name_of(function.__module__ or "__main__", function.__name__, id(function))
            self.functions[id(function)] = ("", function)
            space, _, title = name.rpartition(".")
            text = self.written(function, title, None)
            file = f"code/{space.replace('.', '/')}.py"
            self.sources[file] = self.sources.get(file, "") + textwrap.dedent(text)
            self.functions[id(function)] = (name, function)
        if not self.functions[id(function)][0]:
            raise Unsupported(f"{function.__name__}, which calls itself,")
        return self.functions[id(function)][0]

    def helper(self, name: str) -> str:
        """The whole name of a function of the library that is written as one."""
        file = "code/__torch__/torch/nn/functional.py"
        if HELPERS[name] not in self.sources.get(file, ""):
            self.sources[file] = self.sources.get(file, "") + HELPERS[name]
        return f"__torch__.torch.nn.functional.{name}"

    def context(self, kind) -> str:
        """The whole name of no_grad or enable_grad."""
        self.sources.setdefault(
            "code/__torch__/torch/autograd/grad_mode.py", NO_GRAD.format("no_grad", False)
            + NO_GRAD.format("enable_grad", True),
        )  # fmt: skip
        return f"__torch__.torch.autograd.grad_mode.{kind.__name__}"

    def build(self, part: Part, made: dict) -> tuple:
        """The script module of a part, and the name of its class."""
        if id(part) in made:
            return made[id(part)]
        module = part.module
        children = {name: self.build(child, made) for name, child in part.children.items()}
        parameters, buffers = part.names()
        kinds = [*part.kinds.items(), *((name, kind) for name, (_, kind) in children.items())]
        body = _attributes(parameters, buffers, kinds) + "".join(part.methods.values())
        cls = type(module)
        known = set(self.classes)
        name = self.name_of(cls.__module__, cls.__name__, body)
        if name not in known:
            self.write_class(name, body)
        script = Scripted(None)
        script.__dict__["_source"] = module
        made[id(part)] = (script, name)
        script.training = module.training
        script._fields.update({"_is_full_backward_hook": None, **part.fields})
        for kept in parameters:
            script.register_parameter(kept, module._parameters[kept])
        for kept in buffers:
            script.register_buffer(kept, module._buffers[kept], kept not in module._non_persistent_buffers_set)
        script._modules.update({kept: child for kept, (child, _) in children.items()})
        return script, name


class Scripted(ScriptModule):
    """What torch.jit.script makes of a module."""

    def __len__(self) -> int:
        return len(self._modules)

    def __bool__(self) -> bool:
        return True

    def __iter__(self):
        return iter(self._modules if isinstance(self._source, nn.ModuleDict) else self._modules.values())

    def __getitem__(self, at):
        if isinstance(at, slice):
            return [*self._modules.values()][at]
        return self._modules[at] if isinstance(at, str) else [*self._modules.values()][at]

    def items(self):
        """The names and modules of a ModuleDict."""
        return self._modules.items()


def _narthex():
    import narthex

    return narthex


# ---- code -----------------------------------------------------------------------------------------------------------
class Body:
    """The code of one function: `names` are those around it, `env` what is known of its own."""

    def __init__(self, script: Script, tree: ast.FunctionDef, names: dict, part: Part | None, function) -> None:
        self.script, self.tree, self.names, self.part, self.function = script, tree, names, part, function
        args = tree.args
        self.own = {arg.arg for arg in (*args.posonlyargs, *args.args, *args.kwonlyargs)}
        self.own |= {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        self.env, self.count = {}, 0
        if part is not None:
            self.env[args.args[0].arg] = Held(part, "self")

    def fail(self, what: str, node):
        raise Unsupported(what, node)

    # ---- the head ---------------------------------------------------------------------------------------------------
    def text(self, name: str) -> str:
        """The whole function, indented as a method."""
        mark = getattr(self.function, "_jit_mark", None)
        args = self.tree.args
        if args.vararg or args.kwarg:
            self.fail("*args or **kwargs", self.tree)
        for decorator in self.tree.decorator_list:
            node = decorator.func if isinstance(decorator, ast.Call) else decorator
            found = self.static(node)
            marked = isinstance(node, ast.Attribute) and node.attr in MARKS  # its names are those of the code around
            if not marked and found not in [*(getattr(jit, one) for one in MARKS), staticmethod, property]:
                self.fail("a decorator", decorator)
        if mark == "ignore":
            self.fail(f"the ignored method {name}, which no archive can hold,", self.tree)
        head, result = self.signature()
        if mark == "unused":
            said = f"{name} is not there: it is marked torch.jit.unused"
            block = [ast.Expr(called("ops.prim.RaiseException", ast.Constant(said))), _raised()]
            result = result or "Tensor"
        else:
            block = self.block(self.tree.body) or [ast.Pass()]
        lines = ast.unparse(ast.fix_missing_locations(ast.Module(block, [])))
        arrow = f" -> {result}" if result else ""
        return f"  def {name}({head}){arrow}:\n{textwrap.indent(lines, '    ')}\n"

    def signature(self) -> tuple:
        """The parameters, and the type of the result where it is told."""
        found = []
        args = self.tree.args
        if self.function is None:  # a text of the library
            found = ["self", *(ast.unparse(arg) for arg in args.args[1:])]
            for k, default in enumerate(reversed(args.defaults), 1):
                found[-k] += f"={ast.unparse(default)}"
            return ", ".join(found), ""
        try:
            hints = typing.get_type_hints(self.function, self.names)
        except Exception as error:
            self.fail(f"an annotation without a meaning ({error})", self.tree)
        parameters = inspect.signature(self.function).parameters.values()
        starred = False
        for k, parameter in enumerate(parameters):
            if k == 0 and self.part is not None:
                found.append("self")
                continue
            if parameter.kind is parameter.KEYWORD_ONLY and not starred:
                found.append("*")
                starred = True
            given = parameter.default is not parameter.empty
            kind = type_text(hints[parameter.name]) if parameter.name in hints else self.inferred(parameter)
            value = parameter.default
            if given and kind in ("float", "Optional[float]") and type(value) is int:
                value = float(value)
            found.append(f"{self.local(parameter.name)}: {kind}{f'={literal(value)}' if given else ''}")
        return ", ".join(found), type_text(hints["return"]) if "return" in hints else ""

    @staticmethod
    def inferred(parameter) -> str:
        """The type of a parameter that has no annotation."""
        if parameter.default is None:
            return "Optional[Tensor]"
        return "Tensor" if parameter.default is parameter.empty else type_of(parameter.default)

    @staticmethod
    def local(name: str) -> str:
        """A local name as the code can have it."""
        return f"{name}_" if name in ("torch", "ops", "CONSTANTS", "annotate") or name.startswith("__") else name

    # ---- what is known ----------------------------------------------------------------------------------------------
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
        if inspect.ismodule(owner) or inspect.isclass(owner) or isinstance(owner, (_narthex().finfo, _narthex().iinfo)):
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
        if function in (_narthex().finfo, _narthex().iinfo) and len(node.args) == 1:
            kind = self.static(node.args[0])
            return function(kind) if isinstance(kind, _C.dtype) else UNKNOWN
        if function is jit.is_scripting or function is jit.is_tracing:
            return function is jit.is_scripting
        if function in (_narthex().is_tensor,) or not node.args:
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

    def held_of(self, held: Held) -> list:
        """The names and modules in a module."""
        return [(name, Held(child, f"getattr({held.text}, {json.dumps(name)})"))
                for name, child in held.part.children.items()]  # fmt: skip

    def attribute(self, held: Held, name: str, node):
        """What is known of an attribute of a module; a field is open."""
        part, module = held.part, held.part.module
        if name in part.children:
            return Held(part.children[name], _reach(held.text, name))
        if name == "training" or module._parameters.get(name) is not None or module._buffers.get(name) is not None:
            return UNKNOWN
        if name in part.fields or name in module.__dict__:
            value = part.fields[name] if name in part.fields else module.__dict__[name]
            kept = part.kinds.get(name) == "NoneType" or name in part.constants or part.layer
            if kept or isinstance(value, (_C.device, _C.dtype)) or callable(value):
                return value
            if name not in part.fields:
                self.fail(f"the attribute {name}, a {type(value).__name__},", node)
            return UNKNOWN
        found = inspect.getattr_static(type(module), name, UNKNOWN)
        if isinstance(found, types.FunctionType):
            return Bound(held, name)
        if isinstance(found, staticmethod):
            return found.__func__
        if found is UNKNOWN:
            self.fail(f"the attribute {name}, which {type(module).__name__} has not,", node)
        if isinstance(found, property):
            return UNKNOWN
        return found if part.layer or found is None or callable(found) or type(found) in (_C.dtype, _C.device) or (
            part.field(name, found)
        ) is False else UNKNOWN  # fmt: skip

    # ---- expressions ------------------------------------------------------------------------------------------------
    def expr(self, node) -> ast.expr:
        """An expression with its names resolved."""
        value = self.static(node)
        if value is not UNKNOWN and not isinstance(node, ast.Constant):
            if isinstance(value, (Held, Bound)):
                self.fail("a module or a method as a value", node)
            if inspect.ismodule(value) or callable(value):
                self.fail(f"{ast.unparse(node)} as a value", node)
            try:
                return parsed(literal(value))
            except Unsupported as wrong:
                self.fail(wrong.what, node)
        method = getattr(self, f"expr_{type(node).__name__}", None)
        if method is None:
            self.fail(type(node).__name__, node)
        return method(node)

    def expr_Constant(self, node):  # noqa: N802
        return parsed(literal(node.value))

    def expr_Name(self, node):  # noqa: N802
        if node.id not in self.own:
            self.fail(f"the name {node.id}, which means nothing,", node)
        return ast.Name(self.local(node.id), ast.Load())

    def expr_Attribute(self, node):  # noqa: N802
        owner = self.static(node.value)
        if isinstance(owner, Held):
            found = inspect.getattr_static(type(owner.part.module), node.attr, None)
            if isinstance(found, property):
                if owner.part.layer:
                    return self.weights(owner, getattr(owner.part.module, node.attr), node)
                self.script.want(owner.part, node.attr)
                return ast.Call(parsed(f"{owner.text}.{node.attr}"), [], [])
            return parsed(_reach(owner.text, node.attr))
        return ast.Attribute(self.expr(node.value), node.attr, ast.Load())

    def weights(self, held: Held, value, node) -> ast.expr:
        """A layer's list of its parameters."""
        names = {id(one): name for name, one in held.part.module._parameters.items()}
        if type(value) is not list or not all(id(one) in names for one in value):
            self.fail(f"the property {node.attr}", node)
        return parsed(f"[{', '.join(_reach(held.text, names[id(one)]) for one in value)}]")

    def expr_Subscript(self, node):  # noqa: N802
        return ast.Subscript(self.expr(node.value), self.index(node.slice), ast.Load())

    def index(self, node):
        """What stands between brackets."""
        if isinstance(node, ast.Tuple):
            return ast.Tuple([self.index(one) for one in node.elts], ast.Load())
        if isinstance(node, ast.Slice):
            return ast.Slice(*(None if one is None else self.expr(one) for one in (node.lower, node.upper, node.step)))
        return self.expr(node)

    def expr_Tuple(self, node):  # noqa: N802
        return ast.Tuple([self.expr(one) for one in node.elts], ast.Load())

    def expr_List(self, node):  # noqa: N802
        return ast.List([self.expr(one) for one in node.elts], ast.Load())

    def expr_Dict(self, node):  # noqa: N802
        if None in node.keys:
            self.fail("** in a dict", node)
        return ast.Dict([self.expr(one) for one in node.keys], [self.expr(one) for one in node.values])

    def expr_UnaryOp(self, node):  # noqa: N802
        operand = self.expr(node.operand)
        return operand if isinstance(node.op, ast.UAdd) else ast.UnaryOp(node.op, operand)

    def expr_BinOp(self, node):  # noqa: N802
        return ast.BinOp(self.expr(node.left), node.op, self.expr(node.right))

    def expr_BoolOp(self, node):  # noqa: N802
        neutral = isinstance(node.op, ast.And)
        rest = [one for one in node.values if self.truth(one) is not neutral]
        made = [self.expr(one) for one in rest or node.values[-1:]]
        return made[0] if len(made) == 1 else ast.BoolOp(node.op, made)

    def expr_Compare(self, node):  # noqa: N802
        terms = [self.expr(one) for one in (node.left, *node.comparators)]
        made = [ast.Compare(terms[k], [op], [terms[k + 1]]) for k, op in enumerate(node.ops)]
        return made[0] if len(made) == 1 else ast.BoolOp(ast.And(), made)

    def expr_IfExp(self, node):  # noqa: N802
        test = self.truth(node.test)
        if test is not UNKNOWN:
            return self.expr(node.body if test else node.orelse)
        return ast.IfExp(self.expr(node.test), self.expr(node.body), self.expr(node.orelse))

    def expr_JoinedStr(self, node):  # noqa: N802
        text, args = "", []
        for one in node.values:
            if isinstance(one, ast.Constant):
                if "{" in one.value or "}" in one.value:
                    self.fail("braces in an f-string", node)
                text += one.value
            elif one.conversion != -1 or one.format_spec is not None:
                self.fail("a format in an f-string", node)
            else:
                text += "{}"
                args.append(self.expr(one.value))
        return ast.Call(ast.Attribute(ast.Constant(text), "format", ast.Load()), args, [])

    def expr_ListComp(self, node):  # noqa: N802
        (one, *more) = node.generators
        if more or one.ifs or one.is_async:
            self.fail("a comprehension with several loops or an if", node)
        rounds = self.unrolled(one.iter)
        if rounds is None:
            return ast.ListComp(self.expr(node.elt), [ast.comprehension(self.target(one.target), self.expr(one.iter),
                                                                        [], 0)])  # fmt: skip
        made = []
        for values in rounds:
            if self.bind(one.target, values):
                self.fail("a comprehension over modules and values", node)
            made.append(self.expr(node.elt))
        return ast.List(made, ast.Load())

    def expr_DictComp(self, node):  # noqa: N802
        (one, *more) = node.generators
        if more or one.ifs or self.unrolled(one.iter) is not None:
            self.fail("a comprehension with several loops, an if or modules", node)
        return ast.DictComp(self.expr(node.key), self.expr(node.value),
                            [ast.comprehension(self.target(one.target), self.expr(one.iter), [], 0)])  # fmt: skip

    # ---- calls ------------------------------------------------------------------------------------------------------
    def expr_Call(self, node):  # noqa: N802
        function = self.static(node.func)
        if any(isinstance(one, ast.Starred) for one in node.args) or any(one.arg is None for one in node.keywords):
            return self.spread(node, function)
        if function is UNKNOWN:
            if not isinstance(node.func, ast.Attribute):
                self.fail(f"a call of {ast.unparse(node.func)}", node)
            if self.static(node.func.value) is _narthex() and is_operator(node.func.attr):
                return self.operator(node.func.attr, node)
            is_cast = node.func.attr == "type" and node.args and isinstance(self.static(node.args[0]), _C.dtype)
            name = "to" if is_cast else node.func.attr
            return self.call(ast.Attribute(self.expr(node.func.value), name, ast.Load()), node)
        if isinstance(function, (Held, Bound)):
            held, name = function if isinstance(function, Bound) else (function, "forward")
            if held.part.layer and name not in ("forward", *held.part.inherited):
                self.fail(f"the method {name} of nn.{held.part.layer}", node)
            if name == "forward" and not held.part.layer and type(held.part.module).forward is nn.Module.forward:
                self.fail(f"a call of a {type(held.part.module).__name__}", node)
            self.script.want(held.part, name)
            return self.call(parsed(f"{held.text}.{name}"), node)
        return self.known(function, node)

    def call(self, function: ast.expr, node) -> ast.Call:
        """A call with the arguments of another."""
        words = [ast.keyword(one.arg, self.expr(one.value)) for one in node.keywords]
        return ast.Call(function, [self.expr(one) for one in node.args], words)

    def spread(self, node, function):
        """x.view(*sizes)."""
        is_method = function is UNKNOWN and isinstance(node.func, ast.Attribute) and node.func.attr in SPREAD
        if not is_method or len(node.args) != 1 or node.keywords:
            self.fail("* or ** in a call", node)
        return ast.Call(
            ast.Attribute(self.expr(node.func.value), node.func.attr, ast.Load()), [self.expr(node.args[0].value)], []
        )

    def kind(self, node) -> str:
        """The text of a type that stands in the code."""
        try:
            return type_text(eval(compile(ast.Expression(node), "<type>", "eval"), dict(self.names)))  # noqa: S307
        except Unsupported as wrong:
            self.fail(wrong.what, node)
        except Exception as error:
            self.fail(f"a type without a meaning ({error})", node)

    def kinds(self, node) -> ast.expr:
        """The types of isinstance."""
        if isinstance(node, (ast.Tuple, ast.List)):
            return ast.Tuple([self.kinds(one) for one in node.elts], ast.Load())
        if self.static(node) in (list, tuple):
            return ast.Name(node.id, ast.Load())
        return parsed(self.kind(node))

    def known(self, function, node) -> ast.expr:
        """A call of a function that is known."""
        torch = _narthex()
        name = getattr(function, "__name__", "")
        if function in (jit.annotate, typing.cast):
            return called("annotate", parsed(self.kind(node.args[0])), self.expr(node.args[1]))
        if function in (builtins.isinstance, jit.isinstance):
            return called("isinstance", self.expr(node.args[0]), self.kinds(node.args[1]))
        if function is torch.is_tensor:
            return called("isinstance", self.expr(node.args[0]), parsed("Tensor"))
        if function is warnings.warn:
            return called("torch.warn", self.expr(node.args[0]), ast.Constant(2))
        if function is torch.device:
            return self.call(parsed("torch.device"), node)
        if function is getattr(builtins, name, None):
            if name not in BUILTINS:
                self.fail(f"a call of {name}", node)
            return self.call(ast.Name(name, ast.Load()), node)
        if function is getattr(math, name, None):
            if name not in PLAIN:
                self.fail(f"math.{name}", node)
            return self.call(parsed(f"torch.{name}"), node)
        at_torch = isinstance(node.func, ast.Attribute) and self.static(node.func.value) is torch
        if at_torch and is_operator(node.func.attr):
            return self.operator(node.func.attr, node)
        if function is functional.interpolate:
            return self.interpolate(node)
        if name in HELPERS and function is getattr(functional, name, None):
            return self.call(parsed(self.script.helper(name)), node)
        if name in EXPRESSIONS and function is getattr(functional, name, None):
            return self.inlined(EXPRESSIONS[name], node)
        said = node.func.attr if isinstance(node.func, ast.Attribute) else name
        for title in dict.fromkeys((said, name)):
            for space, prefix in ((torch, ""), (torch.linalg, "linalg_"), (torch.special, "special_"),
                                  (torch.fft, "fft_"), (functional, "")):  # fmt: skip
                if function is getattr(space, title, None) and is_operator(prefix + title.removeprefix(prefix)):
                    return self.operator(prefix + title.removeprefix(prefix), node)
        if isinstance(function, jit.ScriptFunction):
            function = function.__wrapped__
        if not isinstance(function, types.FunctionType) or (function.__module__ or "").startswith("narthex"):
            self.fail(f"a call of {ast.unparse(node.func)}", node)
        return self.call(parsed(self.script.function_named(function)), node)

    def interpolate(self, node) -> ast.expr:
        """F.interpolate, with sizes and factors as lists."""
        names = ["input", "size", "scale_factor", "mode", "align_corners"]
        given = {"size": None, "scale_factor": None, "mode": "nearest", "align_corners": False}
        given = {name: ast.Constant(value) for name, value in given.items()}
        given |= dict(zip(names, node.args)) | {one.arg: one.value for one in node.keywords}
        if given.keys() - set(names) or len(node.args) > len(names):
            self.fail("interpolate with other than a size, a factor, a mode and align_corners", node)
        for name, kind in (("size", int), ("scale_factor", float)):
            value = self.static(given[name])
            if type(value) in (int, float):
                value = [value]
            if type(value) in (list, tuple):
                given[name] = parsed(literal([kind(one) for one in value]))
            elif value is UNKNOWN and not isinstance(given[name], (ast.List, ast.Tuple)):
                given[name] = ast.List([given[name]], ast.Load())
            elif value is UNKNOWN:
                given[name] = ast.List(given[name].elts, ast.Load())
        if self.static(given["align_corners"]) is None:
            given["align_corners"] = ast.Constant(False)
        return called(self.script.helper("interpolate"), *(self.expr(given[name]) for name in names))

    def operator(self, name: str, node) -> ast.expr:
        """torch.NAME(...), where tensors that are given one by one become a list."""
        made = self.call(parsed(f"torch.{name}"), node)
        at = GATHERED.get(name)
        if at is not None and not (len(node.args) == at + 1 and isinstance(node.args[at], (ast.List, ast.Name))):
            made.args[at:] = [ast.List(made.args[at:], ast.Load())]
        return made

    def inlined(self, tree: ast.Lambda, node) -> ast.expr:
        """An expression of the library with the arguments of a call in the place of its parameters."""
        names = [arg.arg for arg in tree.args.args]
        given = dict(zip(reversed(names), reversed(tree.args.defaults)))
        if len(node.args) > len(names) or not {one.arg for one in node.keywords} <= set(names):
            self.fail(f"the arguments of {ast.unparse(node.func)}", node)
        given |= dict(zip(names, node.args)) | {one.arg: one.value for one in node.keywords}
        if len(given) < len(names):
            self.fail(f"a call of {ast.unparse(node.func)} without all of its arguments", node)
        return self.expr(_Inserted(given, self).visit(copy.deepcopy(tree.body)))

    # ---- statements -------------------------------------------------------------------------------------------------
    def block(self, statements: list) -> list:
        """The statements of a block; what stands behind its end is left out."""
        made = []
        for statement in statements:
            method = getattr(self, f"stmt_{type(statement).__name__}", None)
            if method is None:
                self.fail(f"the statement {type(statement).__name__.lower()}", statement)
            try:
                made += method(statement)
            except Unsupported as wrong:
                wrong.node = statement if wrong.node is None or not hasattr(wrong.node, "lineno") else wrong.node
                raise
            if made and isinstance(made[-1], (ast.Return, ast.Raise, ast.Break, ast.Continue)):
                break
        return made

    def new(self, hint: str) -> str:
        """A local name that nothing has."""
        self.count += 1
        name = f"_{hint}_{self.count}"
        return name if name not in self.own else self.new(hint)

    def target(self, node) -> ast.expr:
        """What is assigned to."""
        if isinstance(node, ast.Name):
            if isinstance(self.env.get(node.id), Held) and node.id == "self":
                self.fail("an assignment to self", node)
            self.env.pop(node.id, None)
            return ast.Name(self.local(node.id), ast.Store())
        if isinstance(node, (ast.Tuple, ast.List)):
            return ast.Tuple([self.target(one) for one in node.elts], ast.Store())
        if isinstance(node, ast.Subscript):
            return ast.Subscript(self.expr(node.value), self.index(node.slice), ast.Store())
        if isinstance(node, ast.Attribute):
            held = self.static(node.value)
            if not isinstance(held, Held):
                return ast.Attribute(self.expr(node.value), node.attr, ast.Store())
            self.attribute(held, node.attr, node)
            if held.part.kinds.get(node.attr) == "NoneType":
                self.fail(f"an assignment to {node.attr}, which is None without an annotation,", node)
            return parsed(_reach(held.text, node.attr))
        self.fail(type(node).__name__, node)

    def stmt_Pass(self, node):  # noqa: N802
        return []

    def stmt_Break(self, node):  # noqa: N802
        return [node]

    stmt_Continue = stmt_Break  # noqa: N815

    def stmt_Expr(self, node):  # noqa: N802
        return [] if isinstance(node.value, ast.Constant) else [ast.Expr(self.expr(node.value))]

    def stmt_Return(self, node):  # noqa: N802
        return [ast.Return(None if node.value is None else self.expr(node.value))]

    def stmt_Assign(self, node):  # noqa: N802
        value = self.static(node.value)
        is_held = isinstance(value, Held) or (type(value) is tuple and value and isinstance(value[0], Held))
        if is_held:
            if any(self.bind(target, value) for target in node.targets):
                self.fail("an assignment of modules and values", node)
            return []
        made = self.expr(node.value)
        if len(node.targets) == 1:
            return self.assigned(node.targets[0], made)
        name = self.new("value")
        found = [ast.Assign([ast.Name(name, ast.Store())], made)]
        for target in node.targets:
            found += self.assigned(target, ast.Name(name, ast.Load()))
        return found

    def assigned(self, target, value: ast.expr) -> list:
        """target = value, with attributes and items of a tuple one by one."""
        if not isinstance(target, (ast.Tuple, ast.List)):
            return [ast.Assign([self.target(target)], value)]
        names, rest = [], []
        for one in target.elts:
            if isinstance(one, ast.Name):
                names.append(self.target(one))
                continue
            name = self.new("part")
            names.append(ast.Name(name, ast.Store()))
            rest += self.assigned(one, ast.Name(name, ast.Load()))
        return [ast.Assign([ast.Tuple(names, ast.Store())], value), *rest]

    def stmt_AnnAssign(self, node):  # noqa: N802
        if node.value is None:
            return []
        kind = self.kind(node.annotation)
        value = self.expr(node.value)
        if kind == "float" and isinstance(value, ast.Constant) and type(value.value) is int:
            value = ast.Constant(float(value.value))
        return self.assigned(node.target, called("annotate", parsed(kind), value))

    def stmt_AugAssign(self, node):  # noqa: N802
        value = self.expr(node.value)
        return [ast.AugAssign(self.target(node.target), node.op, value)]

    def stmt_Assert(self, node):  # noqa: N802
        return [ast.Assert(self.expr(node.test), None if node.msg is None else self.expr(node.msg))]

    def stmt_Delete(self, node):  # noqa: N802
        if not all(isinstance(one, ast.Subscript) for one in node.targets):
            self.fail("del of a name", node)
        return [ast.Delete([self.target(one)]) for one in node.targets]

    def stmt_Raise(self, node):  # noqa: N802
        if node.exc is None:
            self.fail("a raise of what was caught", node)
        is_call = isinstance(node.exc, ast.Call)
        kind = self.static(node.exc.func if is_call else node.exc)
        if not (inspect.isclass(kind) and issubclass(kind, BaseException)):
            self.fail("a raise of what is no exception", node)
        said = self.expr(node.exc.args[0]) if is_call and node.exc.args else ast.Constant("")
        title = f"{kind.__module__}.{kind.__qualname__}"
        return [ast.Expr(called("ops.prim.RaiseException", said, ast.Constant(title))), _raised()]

    def stmt_With(self, node):  # noqa: N802
        made = []
        for item in node.items:
            call = item.context_expr
            kind = self.static(call.func) if isinstance(call, ast.Call) and not call.args else UNKNOWN
            if kind not in (no_grad, enable_grad) or item.optional_vars is not None:
                self.fail("a with of other than no_grad() and enable_grad()", node)
            path, name = self.script.context(kind), self.new("context")
            made.append(name)
            made.append(ast.Assign([ast.Name(name, ast.Store())], parsed(f"{path}.__new__({path})")))
            made.append(ast.Assign([ast.Name(self.new("made"), ast.Store())], parsed(f"({name}).__init__()")))
        names = [one for one in made if isinstance(one, str)]
        block = self.block(node.body) or [ast.Pass()]
        for name in reversed(names):
            block = [ast.With([ast.withitem(ast.Name(name, ast.Load()))], block)]
        return [*(one for one in made if not isinstance(one, str)), *block]

    def branch(self, statements: list, before: dict) -> list:
        """A block that may not be run: the modules that names mean must not depend on it."""
        self.env = dict(before)
        made = self.block(statements)
        ends = made and isinstance(made[-1], (ast.Return, ast.Raise))
        if not ends and any(self.env.get(name) != value for name, value in before.items()):
            self.fail("a name that means one module or another", statements[0])
        self.env = dict(before)
        return made

    def stmt_If(self, node):  # noqa: N802
        test = self.truth(node.test)
        if test is not UNKNOWN:
            return self.block(node.body if test else node.orelse)
        made, before = self.expr(node.test), self.env
        body = self.branch(node.body, before) or [ast.Pass()]
        return [ast.If(made, body, self.branch(node.orelse, before))]

    def stmt_While(self, node):  # noqa: N802
        if node.orelse:
            self.fail("the else of a loop", node)
        return [ast.While(self.expr(node.test), self.branch(node.body, self.env) or [ast.Pass()], [])]

    def stmt_For(self, node):  # noqa: N802
        if node.orelse:
            self.fail("the else of a loop", node)
        rounds = self.unrolled(node.iter)
        if rounds is None:
            made = self.expr(node.iter)
            target = self.target(node.target)
            return [ast.For(target, made, self.branch(node.body, self.env) or [ast.Pass()], [])]
        if _leaves(node.body):
            self.fail("break or continue in a loop over modules", node)
        found = []
        for values in rounds:
            found += self.bind(node.target, values)
            found += self.block(node.body)
            if found and isinstance(found[-1], (ast.Return, ast.Raise)):
                break
        return found

    def bind(self, target, value) -> list:
        """Lets names mean what is known; the statements that assign the rest."""
        if isinstance(target, (ast.Tuple, ast.List)):
            if type(value) is not tuple or len(value) != len(target.elts):
                self.fail("modules and names of different numbers", target)
            return [made for one, part in zip(target.elts, value) for made in self.bind(one, part)]
        if isinstance(value, ast.expr):
            return self.assigned(target, value)
        if isinstance(value, Held):
            if not isinstance(target, ast.Name):
                self.fail("a module that is assigned to other than a name", target)
            self.env[target.id] = value
            return []
        return self.assigned(target, parsed(literal(value)))

    def unrolled(self, node):
        """The rounds of a loop over modules; None: it is none."""
        value = self.static(node)
        if isinstance(value, Held) and is_container(value.part.module):
            by_name = isinstance(value.part.module, nn.ModuleDict)
            return [name if by_name else one for name, one in self.held_of(value)]
        if type(value) is tuple and value and all(isinstance(one, Held) for one in value):
            return list(value)
        if not isinstance(node, ast.Call):
            return None
        function = self.static(node.func)
        if isinstance(function, Bound) and not node.args:
            pairs = self.held_of(function.held)
            made = {"items": pairs, "named_children": pairs, "keys": [name for name, _ in pairs],
                    "values": [one for _, one in pairs], "children": [one for _, one in pairs]}  # fmt: skip
            return made.get(function.name)
        if function is builtins.enumerate and node.args:
            rounds = self.unrolled(node.args[0])
            start = self.static(node.args[1]) if len(node.args) > 1 else 0
            return None if rounds is None or node.keywords else [(k, one) for k, one in enumerate(rounds, start)]
        if function is builtins.reversed and node.args:
            rounds = self.unrolled(node.args[0])
            return None if rounds is None else rounds[::-1]
        if function is builtins.zip:
            return self.zipped(node)
        return None

    def zipped(self, node):
        """zip of modules, and of lists that have a name."""
        given = [self.unrolled(one) for one in node.args]
        if all(one is None for one in given):
            return None
        n = min(len(one) for one in given if one is not None)
        columns = []
        for rounds, one in zip(given, node.args):
            if rounds is None and not isinstance(one, (ast.Name, ast.Attribute)):
                self.fail("zip of modules and a list without a name", node)
            columns.append(rounds or [ast.Subscript(self.expr(one), ast.Constant(k), ast.Load()) for k in range(n)])
        return list(zip(*columns))


class _Inserted(ast.NodeTransformer):
    """An expression of the library: `torch` and `F` are the project's, parameters are the arguments."""

    def __init__(self, given: dict, body: Body) -> None:
        self.given, self.body = given, body
        body.names = {**body.names, "_library": _narthex()}

    def visit_Name(self, node):  # noqa: N802
        if node.id in self.given:
            return self.given[node.id]
        return ast.Name("_library", ast.Load()) if node.id == "torch" else node


def _leaves(statements: list) -> bool:
    """Whether a loop's body leaves a round of that loop."""
    for one in statements:
        if isinstance(one, (ast.Break, ast.Continue)):
            return True
        is_loop = isinstance(one, (ast.For, ast.While))
        if not is_loop and any(_leaves(getattr(one, name, [])) for name in ("body", "orelse")):
            return True
    return False


def _raised() -> ast.Raise:
    """What tells PyTorch's compiler that a block ends here."""
    return ast.Raise(called("AssertionError", ast.Constant("")))


def script_module(module: nn.Module) -> ScriptModule:
    """The script module of `module`, which shares its parameters and buffers."""
    code = Script()
    part = code.part(module)
    code.translate()
    made: dict = {}
    script, _ = code.build(part, made)
    for one, name in made.values():
        one.__dict__["_code"] = code.find(name)
    return script


def script_function(function) -> ScriptModule:
    """A script module whose forward is a function of Python."""
    code = Script()
    module = nn.Module()
    part = code.parts[id(module)] = Part(code, module)
    name = code.function_named(function)
    space, _, title = name.rpartition(".")
    tree = code.parsed(f"code/{space.replace('.', '/')}.py")[title]
    args = tree.args
    given = [arg.arg for arg in args.args]
    words = [f"{arg.arg}={arg.arg}" for arg in args.kwonlyargs]
    head = ast.unparse(args)
    result = f" -> {ast.unparse(tree.returns)}" if tree.returns else ""
    part.methods["forward"] = (
        f"  def forward(self{', ' if head else ''}{head}){result}:\n    return {name}({', '.join([*given, *words])})\n"
    )
    made: dict = {}
    script, kind = code.build(part, made)
    script.__dict__["_code"] = code.find(kind)
    script.__dict__["_function_code"] = ast.unparse(tree)
    return script
