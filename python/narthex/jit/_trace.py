"""torch.jit.trace: what modules and functions call with example inputs, written as the code of a TorchScript archive.

A mode of `__torch_function__` is told every call of an operator and writes it as a line of code. Sizes are numbers that
remember where they come from, so that `x.view(x.size(0), -1)` holds for other sizes; other numbers that are read from
tensors, and the branches taken by them, stay as they were.
"""

import inspect
import json
import keyword
import re
import warnings
from functools import cache
from typing import NamedTuple

from .. import _C, nn
from ..overrides import TorchFunctionMode
from . import TracerWarning, TracingCheckError
from ._archive import Code, TracedModule
from ._calls import FORMATS, NUMBERS

RENAMED = {"input": "self", "axis": "dim", "keepdims": "keepdim"}
PROPERTIES = {"T": "numpy_T", "H": "matrix_H", "mT": "mT", "mH": "mH", "real": "real", "imag": "imag", "data": "detach"}
READS = {"__bool__", "__int__", "__float__", "__index__", "__complex__", "item", "tolist", "numpy", "__array__"}
LAYERS = {"lstm", "gru", "rnn_tanh", "rnn_relu"}  # functions of Python that are operators of PyTorch
REVERSED = {"__rpow__": "pow", "__rmod__": "remainder", "__rfloordiv__": "floor_divide"}
DATA = {"tensor", "as_tensor", "asarray", "from_numpy", "frombuffer", "scalar_tensor", "from_dlpack"}  # make constants
SHOWS = {"__repr__", "__str__", "__format__"}
SIGNS = {
    "__eq__": "eq", "__ne__": "ne", "__lt__": "lt", "__le__": "le", "__gt__": "gt", "__ge__": "ge",
    "__and__": "bitwise_and", "__or__": "bitwise_or", "__xor__": "bitwise_xor", "__rand__": "bitwise_and",
    "__ror__": "bitwise_or",
    "__rxor__": "bitwise_xor", "__iand__": "bitwise_and_", "__ior__": "bitwise_or_", "__ixor__": "bitwise_xor_",
    "__invert__": "bitwise_not", "__lshift__": "bitwise_left_shift", "__rshift__": "bitwise_right_shift",
    "__rsub__": "rsub", "__floordiv__": "floor_divide",
}  # fmt: skip
FORMAT_NUMBERS = {form: number for number, form in FORMATS.items()}
_tracing: list = []  # recorders under way


class Int(int):
    """A size that remembers how it was read; what is computed of it remembers too."""

    def __new__(cls, value: int, recorder: "Recorder", text) -> "Int":
        made = super().__new__(cls, value)
        made.recorder, made.made, made.name = recorder, text, None
        return made

    def text(self) -> str:
        """Its name in the code; the line that makes it is written when it is first asked for."""
        if self.name is None:
            self.name = self.recorder.new(self.made())
        return self.name

    def __reduce__(self):
        return int, (int(self),)


def _arithmetic(name: str, apply, swapped: bool):
    def operate(self, other):
        if type(other) not in (int, Int):
            return NotImplemented
        left, right = (other, self) if swapped else (self, other)
        record = self.recorder
        return Int(
            apply(int(left), int(right)), record, lambda: f"torch.{name}({record.number(left)}, {record.number(right)})"
        )

    return operate


for _name, _sign, _apply in (
    ("add", "add", int.__add__), ("sub", "sub", int.__sub__), ("mul", "mul", int.__mul__),
    ("floordiv", "floordiv", int.__floordiv__), ("remainder", "mod", int.__mod__),
):  # fmt: skip
    setattr(Int, f"__{_sign}__", _arithmetic(_name, _apply, False))
    setattr(Int, f"__r{_sign}__", _arithmetic(_name, _apply, True))
Int.__neg__ = lambda self: Int(-int(self), self.recorder, lambda: f"torch.neg({self.text()})")


class Line(NamedTuple):
    """A line of code: the names that it makes, its text, whether it changes anything."""

    made: list
    text: str
    changes: bool

    def written(self) -> str:
        """As it stands in the code."""
        return f"{', '.join(self.made)}{', ' if len(self.made) > 1 else ''} = {self.text}"


def kind_of(value) -> str:
    """The type of an input or a result as the code writes it."""
    if isinstance(value, _C.TensorBase):
        return "Tensor"
    if isinstance(value, list):
        return f"List[{kind_of(value[0]) if value else 'Tensor'}]"
    if isinstance(value, tuple):
        return f"Tuple[{', '.join(map(kind_of, value))}]"
    if isinstance(value, dict) and value and all(isinstance(key, str) for key in value):
        return f"Dict[str, {kind_of(next(iter(value.values())))}]"
    raise TypeError(type(value).__name__)


def optional(names: list) -> str:
    """A list of tensors, some of which may be None, as the code writes it."""
    return f"annotate(List[Optional[Tensor]], [{', '.join(names)}])"


class Recorder(TorchFunctionMode):
    """Writes the calls of one function or method."""

    def __init__(self, code: "Made", paths: dict) -> None:
        super().__init__()
        self.code, self.names, self.kept, self.lines, self.count = code, dict(paths), [], [], 0

    # ---- lines -----------------------------------------------------------------------------------------------------
    def new(self, text: str, changes: bool = False) -> str:
        """Writes a line and gives the name of what it makes."""
        return self.several(1, text, changes)[0]

    def several(self, n: int, text: str, changes: bool = False) -> list:
        """The same of n results."""
        made = [f"_{self.count + k}" for k in range(n)]
        self.count += n
        self.lines.append(Line(made, text, changes))
        return made

    def know(self, tensor, name: str) -> None:
        """From here on `tensor` is called `name`; it is kept, since it is known by its address."""
        self.kept.append(tensor)
        self.names[id(tensor)] = name

    def alive(self, result: str) -> list:
        """The lines that `result`, or anything that lasts, needs."""
        wanted, found = set(re.findall(r"\b_\d+\b", result)), []
        for line in reversed(self.lines):
            if line.changes or not wanted.isdisjoint(line.made):
                wanted.update(re.findall(r"\b_\d+\b", line.text))
                found.append(line.written())
        return found[::-1]

    # ---- values ----------------------------------------------------------------------------------------------------
    def number(self, x: int) -> str:
        """A whole number."""
        return x.text() if isinstance(x, Int) else repr(int(x))

    def tensor(self, x) -> str:
        """The name of a tensor; one that no line made and no module holds is a constant."""
        if id(x) not in self.names:
            self.know(x, f"CONSTANTS.c{len(self.code.constants)}")
            self.code.constants.append(x.detach().clone())
        return self.names[id(x)]

    def value(self, x, kind: str = "") -> str:
        """An argument as the code writes it; kind: its type in the operator's schema."""
        if x is None or isinstance(x, bool):
            return repr(x)
        if isinstance(x, _C.TensorBase):
            return self.tensor(x)
        if isinstance(x, int):
            return f"{float(x)!r}" if kind.startswith("float") else self.number(x)
        if isinstance(x, float):
            return repr(x)  # the code knows inf and nan too
        if isinstance(x, (_C.device, str)) and (kind.startswith("Device") or not isinstance(x, str)):
            return f'torch.device("{x}")'
        if isinstance(x, str):
            return json.dumps(x)
        if isinstance(x, _C.dtype):
            return str(NUMBERS[x])
        if type(x) is type(_C.strided):
            return "0"
        if isinstance(x, _C.memory_format):
            return str(FORMAT_NUMBERS[x])
        if isinstance(x, (list, tuple)):
            inner = [self.value(one) for one in x]
            if "Tensor?" in kind:
                return optional(inner)
            return f"[{', '.join(inner)}]" if x else f"annotate(List[{'Tensor' if 'Tensor' in kind else 'int'}], [])"
        raise RuntimeError(f"jit.trace: a call has an argument of type {type(x).__name__}, which no code can hold")

    def result(self, value) -> str:
        """What is returned."""
        if isinstance(value, list):
            return f"[{', '.join(map(self.result, value))}]" if value else "annotate(List[Tensor], [])"
        if isinstance(value, tuple):
            return f"({', '.join(map(self.result, value))}{',' if len(value) == 1 else ''})"
        if isinstance(value, dict):
            return f"{{{', '.join(f'{json.dumps(key)}: {self.result(one)}' for key, one in value.items())}}}"
        return self.tensor(value)

    def take(self, name: str, value) -> None:
        """The lines that take an input apart."""
        if isinstance(value, dict):
            for key, one in value.items():
                self.take(self.new(f"{name}[{json.dumps(key)}]"), one)
        elif isinstance(value, (list, tuple)):
            for k, one in enumerate(value):
                self.take(self.new(f"{name}[{k}]"), one)
        else:
            self.know(value, name)

    # ---- calls -----------------------------------------------------------------------------------------------------
    def __torch_function__(self, func, types, args=(), kwargs=None):
        name = func.__name__.removeprefix("aten::").partition(".")[0]
        kwargs, owner = kwargs or {}, getattr(func, "__self__", None)
        if name == "__get__":
            return self.property(getattr(owner, "fget", None) or owner, func, args, kwargs)
        inner = getattr(func, "__wrapped__", None)
        if name in READS:
            warnings.warn(
                f"Tensor.{name} is read while it is traced: what comes of it is a constant of the trace, which may not "
                "hold for other inputs", TracerWarning, stacklevel=3,
            )  # fmt: skip
            return func(*args, **kwargs)
        if inner is not None and name not in SHOWS and name not in LAYERS:
            with self:
                return inner(*args, **kwargs)
        made = func(*args, **kwargs)
        if name in ("size", "numel", "nelement"):
            return self.size(name, made, args, kwargs)
        if name == "__getitem__":
            self.know(made, self.part(args[0], args[1]))
        elif name == "__setitem__":
            self.write(*args)
        elif name not in SHOWS:
            self.call(name, args, kwargs, made)
        return made

    def property(self, descriptor, func, args: tuple, kwargs: dict):
        """x.shape, x.T and the like."""
        name, made = descriptor.__name__, func(*args, **kwargs)
        if name == "shape":
            return self.size("size", made, args[:1], {})
        if isinstance(made, _C.TensorBase) and name in PROPERTIES:
            self.know(made, self.new(f"torch.{PROPERTIES[name]}({self.tensor(args[0])})"))
        return made

    def size(self, name: str, made, args: tuple, kwargs: dict):
        """A size, all sizes, the number of elements."""
        x = args[0]
        if name != "size":
            return Int(made, self, lambda: f"torch.numel({self.tensor(x)})")
        if isinstance(made, int):
            d = kwargs.get("dim", args[1] if len(args) > 1 else 0)
            return Int(made, self, lambda: f"torch.size({self.tensor(x)}, {int(d)})")
        of = lambda d: lambda: f"torch.size({self.tensor(x)}, {d})"  # noqa: E731
        return _C.Size([Int(n, self, of(d)) for d, n in enumerate(made)])

    def call(self, name: str, args: tuple, kwargs: dict, made) -> None:
        """The line of an operator. One that makes no tensor is not told: its result is a constant."""
        several = isinstance(made, (list, tuple))
        tensors = [one for one in (made if several else [made]) if isinstance(one, _C.TensorBase)]
        if not tensors or name in DATA:
            return
        name = SIGNS.get(name, name)
        if name in REVERSED:
            name, args = REVERSED[name], args[::-1]
        text = f"torch.{name}({', '.join(self.arguments(name, args, kwargs))})"
        given = {id(one) for one in (*args, *kwargs.values()) if isinstance(one, _C.TensorBase)}
        changes = name.endswith("_") or "out" in kwargs or any(id(one) in given for one in tensors)
        names = self.several(len(made) if several else 1, text, changes)
        for one, new in zip(made if several else [made], names):
            if isinstance(one, _C.TensorBase) and id(one) not in given:
                self.know(one, new)

    def arguments(self, name: str, args: tuple, kwargs: dict) -> list:
        """The arguments as the first overload takes them that fits."""
        if name in LAYERS:
            return [self.value(value) for value in args]
        kwargs = {RENAMED.get(key, key): value for key, value in kwargs.items()}
        for parameters in _overloads(name):
            given = bind(parameters, args, kwargs)
            if given is not None:
                return self.written(parameters, given)
        raise RuntimeError(f"jit.trace: no overload of {name} takes the arguments of a call")

    def written(self, parameters: list, given: dict) -> list:
        """Arguments in the order of the parameters; behind one that is left out they stand by name."""
        found, by_name = [], False
        for parameter in parameters:
            by_name |= parameter.kwarg_only or parameter.name not in given
            if parameter.name in given:
                text = self.value(given[parameter.name], parameter.type)
                found.append(f"{parameter.name}={text}" if by_name else text)
        return found

    # ---- parts -----------------------------------------------------------------------------------------------------
    def select(self, x, index) -> tuple:
        """The view that the numbers and slices of an index make, and its tensors by dimension."""
        index = list(index) if isinstance(index, tuple) else [index]
        index = [_C.tensor(one) if isinstance(one, (list, bool)) else one for one in index]
        is_mask = lambda one: isinstance(one, _C.TensorBase) and one.dtype in (_C.bool, _C.uint8)  # noqa: E731
        used = sum(one.dim() if is_mask(one) else one is not None and one is not Ellipsis for one in index)
        name, d, slots = self.tensor(x), 0, []
        for one in index:
            if isinstance(one, _C.TensorBase):
                slots.append(self.tensor(one))
                d += one.dim() if is_mask(one) else 1
                continue
            if isinstance(one, int):
                name = self.new(f"torch.select({name}, {d}, {self.number(one)})")
                continue
            if one is Ellipsis:
                d, slots = d + x.dim() - used, [*slots, *["None"] * (x.dim() - used)]
                continue
            if one is None:
                name = self.new(f"torch.unsqueeze({name}, {d})")
            elif one != slice(None):
                at = ", ".join(self.value(k) for k in (one.start, one.stop, 1 if one.step is None else one.step))
                name = self.new(f"torch.slice({name}, {d}, {at})")
            d, slots = d + 1, [*slots, "None"]
        return name, slots

    def part(self, x, index) -> str:
        """x[index]."""
        name, slots = self.select(x, index)
        if set(slots) <= {"None"}:
            return name if name != self.tensor(x) else self.new(f"torch.alias({name})")
        return self.new(f"torch.index({name}, {optional(slots)})")

    def write(self, x, index, value) -> None:
        """x[index] = value."""
        name, slots = self.select(x, index)
        is_tensor = isinstance(value, _C.TensorBase)
        if set(slots) <= {"None"}:
            text = (
                f"torch.copy_({name}, {self.tensor(value)})"
                if is_tensor
                else f"torch.fill_({name}, {self.value(value)})"
            )
        else:
            value = value if is_tensor else _C.tensor(value, dtype=x.dtype)
            text = f"torch.index_put_({name}, {optional(slots)}, {self.tensor(value)})"
        self.new(text, True)


@cache
def _overloads(name: str) -> list:
    """The parameters of an operator's overloads."""
    from .. import ops

    try:
        packet = getattr(ops.aten, name)
    except AttributeError:
        raise RuntimeError(f"jit.trace: {name} is called, which is no operator of ATen") from None
    return [getattr(packet, overload)._schema.arguments for overload in packet.overloads()]


def _is_whole(x) -> bool:
    return isinstance(x, int) and not isinstance(x, bool)


def fits(kind: str, x) -> bool:
    """Whether an argument may be of a schema's type."""
    if kind.endswith("?"):
        return x is None or fits(kind[:-1], x)
    if kind.endswith("]"):
        inner, _, n = kind.removeprefix("Optional").rpartition("[")
        if isinstance(x, (list, tuple)):
            return all(fits(inner, one) for one in x)
        return n != "]" and inner != "Tensor" and fits(inner, x)
    if kind in ("int", "SymInt"):
        return _is_whole(x)
    if kind in ("float", "Scalar", "number"):
        return isinstance(x, (int, float)) if kind == "float" else isinstance(x, (int, float, complex))
    known = {
        "Tensor": _C.TensorBase, "bool": bool, "str": str, "ScalarType": _C.dtype, "Device": (_C.device, str, int),
        "Layout": type(_C.strided), "MemoryFormat": _C.memory_format, "Generator": _C.Generator,
    }  # fmt: skip
    return isinstance(x, known[kind]) if kind in known else False


def bind(parameters: list, args: tuple, kwargs: dict) -> dict | None:
    """The arguments by name, or None where they do not fit; numbers one by one are a list."""
    positional = [parameter for parameter in parameters if not parameter.kwarg_only]
    n, args = len(positional), list(args)
    spread = n and len(args) >= n and "[" in positional[-1].type and all(map(_is_whole, args[n - 1 :]))
    if spread:
        args[n - 1 :] = [args[n - 1 :]]
    if len(args) > n:
        return None
    given = dict(zip((parameter.name for parameter in positional), args))
    if not given.keys().isdisjoint(kwargs):
        return None
    given |= kwargs
    names = {parameter.name for parameter in parameters}
    whole = all(parameter.name in given or parameter.has_default_value() for parameter in parameters)
    if not whole or not given.keys() <= names:
        return None
    held = [parameter for parameter in parameters if parameter.name in given]
    return given if all(fits(parameter.type, given[parameter.name]) for parameter in held) else None


# ---- the code of a trace --------------------------------------------------------------------------------------------
class Made(Code):
    """Code that is written here: its files and constants."""

    def __init__(self) -> None:
        super().__init__()
        self.sources, self.constants, self.classes = {}, [], {}

    def has(self, file: str) -> bool:
        """Whether there is such a file of code."""
        return file in self.sources

    def text(self, file: str) -> str:
        """The text of a file."""
        return self.sources[file]

    def files_of_code(self) -> dict:
        """The text of every file."""
        return dict(self.sources)

    def name_of(self, module: str, title: str, key) -> str:
        """The whole name of a class with this name and content: one that differs gets a space of its own."""
        first, dot, rest = module.partition(".")
        space = f"__torch__.{'torch' if first == 'narthex' else first}{dot}{rest}"
        space = "__torch__" if module in ("__main__", "builtins") else space
        for mangled in (space, *(f"{space}.___torch_mangle_{k}" for k in range(len(self.classes) + 1))):
            name = f"{mangled}.{title}"
            if self.classes.setdefault(name, key) == key:
                return name
        raise AssertionError

    def write_class(self, name: str, body: str) -> None:
        """Adds a class to the file of its space."""
        space, _, title = name.rpartition(".")
        file = f"code/{space.replace('.', '/')}.py"
        self.sources[file] = self.sources.get(file, "") + f"class {title}(Module):\n{body}"


def _attributes(parameters: list, buffers: list, modules: list) -> str:
    """The head of a class: what its objects hold."""
    names = lambda found: f"[{''.join(f'{json.dumps(name)}, ' for name in found)}]"  # noqa: E731
    kinds = [*((name, "Tensor") for name in (*parameters, *buffers)), ("training", "bool"),
             ("_is_full_backward_hook", "Optional[bool]"), *modules]  # fmt: skip
    lines = [f"  __parameters__ = {names(parameters)}", f"  __buffers__ = {names(buffers)}"]
    if any(not is_name(name) for name, _ in kinds):
        lines.append("  __annotations__ = []")
    lines += [
        f"  {name} : {kind}" if is_name(name) else f"  __annotations__[{json.dumps(name)}] = {kind}"
        for name, kind in kinds
    ]
    return "\n".join(lines) + "\n"


def is_name(text: str) -> bool:
    """Whether the code can call something so."""
    return text.isidentifier() and not keyword.iskeyword(text)


def _reach(path: str, name: str) -> str:
    return f"{path}.{name}" if is_name(name) else f"getattr({path}, {json.dumps(name)})"


class Tree:
    """The script modules of a module and its children, which share parameters and buffers with them."""

    def __init__(self, code: Made) -> None:
        self.code, self.made, self.paths, self.head = code, {}, {}, ""

    def add(self, module: nn.Module, path: str, outermost: bool = False) -> tuple:
        """The script module of `module`, and its class, which is written here unless methods come into it."""
        if id(module) in self.made:
            return self.made[id(module)]
        children = {
            name: self.add(child, _reach(path, name)) for name, child in module._modules.items() if child is not None
        }
        parameters = {name: one for name, one in module._parameters.items() if one is not None}
        buffers = {name: one for name, one in module._buffers.items() if one is not None}
        for name, one in (parameters | buffers).items():
            self.paths.setdefault(id(one), _reach(path, name))
        head = _attributes([*parameters], [*buffers], [(name, kind) for name, (_, kind) in children.items()])
        cls = type(module)
        key = (head, outermost)
        known = set(self.code.classes)
        kind = self.code.name_of(cls.__module__, cls.__name__, key)
        if kind not in known and not outermost:
            self.code.write_class(kind, head)
        script = TracedModule(None)
        self.made[id(module)] = (script, kind)
        script.training = module.training
        script._fields["_is_full_backward_hook"] = None
        for name, one in parameters.items():
            script.register_parameter(name, one)
        for name, one in buffers.items():
            script.register_buffer(name, one, name not in module._non_persistent_buffers_set)
        script._modules.update({name: child for name, (child, _) in children.items()})
        self.head = head  # of the outermost, in the end
        return script, kind

    def finish(self) -> None:
        """Gives the script modules their classes, whose code stands now."""
        for script, kind in self.made.values():
            script.__dict__["_code"] = self.code.find(kind)


def _method(name: str, kind: str, recorder: Recorder, function, args: tuple, names: list, strict: bool) -> str:
    """The code of a method: `function` is called with example inputs."""
    try:
        kinds = [kind_of(arg) for arg in args]
    except TypeError as wrong:
        raise RuntimeError(
            f"Type '{wrong}' cannot be traced. Only Tensors and (possibly nested) Lists, Dicts, and Tuples of Tensors "
            "can be traced"
        ) from None
    for given, arg in zip(names, args):
        recorder.take(given, arg)
    _tracing.append(recorder)
    try:
        with recorder:
            made = function(*args)
    finally:
        _tracing.pop()
    if isinstance(made, dict) and strict:
        raise RuntimeError(
            "Encountering a dict at the output of the tracer might cause the trace to be incorrect, this is only valid "
            "if the container structure does not change based on the module's inputs. Consider using a constant "
            "container instead (e.g. for `list`, use a `tuple` instead. for `dict`, use a `NamedTuple` instead). If "
            "you absolutely need this and know the side effects, pass strict=False to trace() to allow this behavior."
        )
    try:
        returned = kind_of(made)
    except TypeError:
        raise RuntimeError(
            "Only tensors, lists, tuples of tensors, or dictionary of tensors can be output from traced functions"
        ) from None
    result = recorder.result(made)
    given = "".join(f",\n    {one}: {of}" for one, of in zip(names, kinds))
    lines = "".join(f"    {line}\n" for line in recorder.alive(result))
    return f"  def {name}(self: {kind}{given}) -> {returned}:\n{lines}    return {result}\n"


def _names(function, n: int, kwargs: dict) -> list:
    """What the code calls the inputs."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    found = []
    for parameter in parameters:
        if parameter.kind is parameter.VAR_POSITIONAL:
            break
        found.append(parameter.name)
    found = [*found[: n - len(kwargs)], *(f"argument_{k + 1}" for k in range(len(found), n - len(kwargs))), *kwargs]
    return [name if is_name(name) and not re.fullmatch(r"_\d+|self", name) else f"{name}_" for name in found]


def _copied(value):
    """Inputs that calls may write to."""
    if isinstance(value, _C.TensorBase):
        return value.detach().clone().requires_grad_(value.requires_grad)
    if isinstance(value, dict):
        return {key: _copied(one) for key, one in value.items()}
    return type(value)(map(_copied, value)) if type(value) in (list, tuple) else value


def _by_place(function, n: int, names: tuple):
    """`function` with those arguments that have a name behind the n that have none."""
    return lambda *all: function(*all[:n], **dict(zip(names, all[n:])))


def record(owner, methods: dict, strict: bool, title: str = "") -> TracedModule:
    """A script module with the methods {name: (function, args, kwargs)} of the module `owner`, or of none."""
    from .. import is_autocast_enabled

    if is_autocast_enabled("cpu"):
        raise NotImplementedError("jit.trace inside autocast is not there: cast the module and its inputs instead")
    code = Made()
    tree = Tree(code)
    module = owner if owner is not None else nn.Module()
    script, kind = tree.add(module, "self", True)
    if owner is None:
        kind = code.name_of("__main__", title, None)
        tree.made[id(module)] = (script, kind)
    body = tree.head
    for name, (function, args, kwargs) in methods.items():
        called = _by_place(function, len(args), tuple(kwargs))
        names = _names(function if owner is None else getattr(owner, name), len(args) + len(kwargs), kwargs)
        given = _copied((*args, *kwargs.values()))
        body += _method(name, kind, Recorder(code, tree.paths), called, given, names, strict)
    code.write_class(kind, body)
    tree.finish()
    return script


def _pairs(mine, theirs):
    if isinstance(mine, _C.TensorBase):
        yield mine, theirs
    else:
        both = ((mine[key], theirs[key]) for key in mine) if isinstance(mine, dict) else zip(mine, theirs)
        for one, other in both:
            yield from _pairs(one, other)


def check(script, name: str, function, args: tuple, kwargs: dict, tolerance: float) -> None:
    """Calls both once more with the same inputs and the same random numbers, and warns where they differ."""
    before = _C.default_generator.get_state()
    wanted = function(*_copied(args), **_copied(kwargs))
    after = _C.default_generator.get_state()
    _C.default_generator.set_state(before)
    try:
        got = getattr(script, name)(*_copied(args), **_copied(kwargs))
    except Exception as error:
        raise TracingCheckError(
            f"Tracing failed sanity checks!\nThe trace cannot be run with its own inputs: {error}"
        ) from error
    _C.default_generator.set_state(after)
    for k, (one, other) in enumerate(_pairs(got, wanted), 1):
        if one.shape != other.shape or not _C.allclose(one.to(other.dtype), other, tolerance, 1e-5, True):
            warnings.warn(
                f"Output nr {k}. of the traced function does not match the corresponding output of the Python "
                "function.", TracerWarning, stacklevel=4,
            )  # fmt: skip
