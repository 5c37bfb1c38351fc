"""torch.jit.script: the source of modules and functions, written as the code of a TorchScript archive.

PyTorch reads archives with the compiler of its scripts, so code stays what it is, statement by statement, once names
are resolved: operators and functions by their whole names, constants as their values, modules by their paths, loops
over modules one by one. What stays open is run by `_archive`, as every archive is.
"""

import ast
import builtins
import copy
import inspect
import textwrap
import types
import typing

from .. import jit, nn
from ..nn import functional
from ._archive import ScriptModule
from ._layers import HELPERS, LAYERS
from ._script_body import Body
from ._script_known import (
    Unsupported,
    narthex_module,
    type_of,
    type_text,
)
from ._trace import Made, _attributes

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
        self.children = {name: script.part(child) for name, child in module._modules.items() if child is not None}
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


USUAL = {"padding_mode": "zeros", "proj_size": 0, "max_norm": None}  # settings that the texts of layers know


def layer_of(module: nn.Module) -> str:
    """The name of the library's text that is the forward of `module`, or nothing: the forward is the module's own."""
    for cls in type(module).__mro__:
        of_library = cls.__module__.startswith("narthex.")
        if of_library and cls.__name__ in LAYERS:
            for name, usual in USUAL.items():
                if getattr(module, name, usual) != usual:
                    raise Unsupported(f"nn.{cls.__name__} with {name}={getattr(module, name)!r}")
            return cls.__name__
        if "forward" in cls.__dict__:
            if of_library and cls is not nn.Module:
                raise Unsupported(f"nn.{cls.__name__}, a layer without a text,")
            return ""
    return ""


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
                body = Body(self, tree, {**vars(builtins), "torch": narthex_module(), "F": functional}, part, None)
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
