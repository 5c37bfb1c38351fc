"""The code of one function as the code of a TorchScript archive, expression by expression, statement by statement."""

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
from ._archive import BUILTINS
from ._calls import PLAIN, is_operator
from ._layers import EXPRESSIONS, HELPERS
from ._script_known import (
    GATHERED,
    MARKS,
    SPREAD,
    UNKNOWN,
    Bound,
    Held,
    Known,
    Unsupported,
    called,
    is_container,
    literal,
    narthex_module,
    parsed,
    type_of,
    type_text,
)
from ._trace import _reach


class Body(Known):
    """The code of one function: `names` are those around it, `env` what is known of its own."""

    def __init__(self, script, tree: ast.FunctionDef, names: dict, part, function) -> None:
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
            if self.static(node.func.value) is narthex_module() and is_operator(node.func.attr):
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
        torch = narthex_module()
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
        body.names = {**body.names, "_library": narthex_module()}

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
