"""torch.jit.load and save: modules of TorchScript archives, whose code runs as the Python that it nearly is.

The code of an archive is a small part of Python's syntax. Nothing else is let through: a file is read by `ast`, every
node is looked at (`ALLOWED`), attributes become calls of `_get`, `_set` and `_named`, which know the archive's
own objects alone, and functions have no builtins and no names but those of `Archive.names`. So the code can call
operators and the archive's functions, and nothing of this process.
"""

import ast
import contextlib
import io
import operator
import os
import pickle
import sys
import zipfile

from .. import _C, jit, nn, serialization
from .._apart import disable
from .._read_files import Part, Zip, names_of_script
from .._read_pickle import read
from ..autograd.grad_mode import enable_grad, no_grad
from ._calls import is_tensor, method_of, of_space, operator_of

ALLOWED = (
    ast.Module,
    ast.FunctionDef,
    ast.arguments,
    ast.arg,
    ast.Assign,
    ast.AnnAssign,
    ast.AugAssign,
    ast.If,
    ast.For,
    ast.While,
    ast.With,
    ast.withitem,
    ast.Return,
    ast.Expr,
    ast.Pass,
    ast.Call,
    ast.keyword,
    ast.Attribute,
    ast.Name,
    ast.Load,
    ast.Store,
    ast.Constant,
    ast.Tuple,
    ast.List,
    ast.Dict,
    ast.Subscript,
    ast.Slice,
    ast.UnaryOp,
    ast.unaryop,
    ast.BinOp,
    ast.operator,
    ast.Compare,
    ast.cmpop,
    ast.Break,
    ast.Continue,
    ast.Assert,
    ast.Raise,
    ast.Delete,
    ast.Del,
    ast.BoolOp,
    ast.boolop,
    ast.IfExp,
    ast.ListComp,
    ast.DictComp,
    ast.comprehension,
)
MOST_CODE = 1 << 25  # bytes of a file, unpacked
SPACES = ("torch", "ops", "CONSTANTS", "__torch__")
CONTEXTS = {"no_grad": no_grad, "enable_grad": enable_grad}
BUILTINS = {
    one.__name__: one
    for one in (
        abs, all, any, bool, chr, complex, dict, divmod, enumerate, float, int, len, list, max, min, ord, pow, print,
        range, round, sorted, str, sum, tuple, zip,
    )
}  # fmt: skip
KINDS = {
    "Tensor": _C.TensorBase,
    "int": int,
    "float": float,
    "bool": bool,
    "str": str,
    "List": list,
    "Dict": dict,
    "Tuple": tuple,
    "NoneType": type(None),
    "Device": _C.device,
    "number": (int, float),
}


AUGMENTED = {
    "Add": "iadd", "Sub": "isub", "Mult": "imul", "Div": "itruediv", "FloorDiv": "ifloordiv", "Mod": "imod",
    "Pow": "ipow", "BitAnd": "iand", "BitOr": "ior", "BitXor": "ixor", "LShift": "ilshift", "RShift": "irshift",
    "MatMult": "imatmul",
}  # fmt: skip


class Kind:
    """A type that the code names: List[int] and the like."""

    def __init__(self, base) -> None:
        self.base = base

    def __getitem__(self, inner):
        return self


class Object:
    """An object of a class of the archive that is no module."""

    def __init__(self, code: "Class") -> None:
        self.code, self.fields = code, {}


class ScriptModule(nn.Module, jit.RecursiveScriptModule):
    """A module of the archive: parameters, buffers and modules as the archive has them, methods from its code."""

    def __init__(self, code: "Class") -> None:
        super().__init__()
        self.__dict__["_code"], self.__dict__["_fields"] = code, {}

    original_name = property(lambda self: self._code.name.rpartition(".")[2])
    _is_script = True

    @disable  # a graph ends here: what runs is the reader's Python
    def forward(self, *args, **kwargs):
        """The forward of the code."""
        return self._code.method("forward")(self, *args, **kwargs)

    def __getattr__(self, name: str):
        fields = self.__dict__.get("_fields", {})
        if name in fields:
            return fields[name]
        code = self.__dict__.get("_code")
        if code is not None and name in code.methods:
            return disable(lambda *args, **kwargs: code.method(name)(self, *args, **kwargs))
        return super().__getattr__(name)

    def __setattr__(self, name: str, value) -> None:
        if name in self.__dict__.get("_fields", {}):
            self._fields[name] = value
        else:
            super().__setattr__(name, value)

    def has(self, name: str) -> bool:
        """Whether the archive gave it something of that name, None too."""
        return any(name in kept for kept in (self._parameters, self._buffers, self._modules, self._fields))

    def extra_repr(self) -> str:
        """The name of the class."""
        return f"original_name={self.original_name}"

    @property
    def code(self) -> str:
        """The code of forward."""
        return ast.unparse(self._code.methods["forward"])

    def save(self, f, _extra_files=None) -> None:
        """Writes an archive to a path or a binary file."""
        save_archive(self, f, _extra_files)

    def save_to_buffer(self, _extra_files=None) -> bytes:
        """The bytes of an archive."""
        buffer = io.BytesIO()
        save_archive(self, buffer, _extra_files)
        return buffer.getvalue()


class TracedModule(ScriptModule, jit.TopLevelTracedModule):
    """What torch.jit.trace makes: the module's parameters, buffers and modules, and the code of what it called. A
    module inside of it holds its part and has no code of its own."""


def _get(x, name: str):
    if isinstance(x, ScriptModule):
        if name in x._code.methods:
            return lambda *args, **kwargs: x._code.method(name)(x, *args, **kwargs)
        if name == "training":
            return x.training
        held = (x._parameters, x._buffers, x._modules, x._fields)
        return next((kept[name] for kept in held if name in kept), None) if x.has(name) else _fail(x, name)
    if isinstance(x, Object):
        if name in x.code.methods:
            return lambda *args, **kwargs: x.code.method(name)(x, *args, **kwargs)
        return x.fields[name] if name in x.fields else _fail(x, name)
    if isinstance(x, (no_grad, enable_grad)) and name == "__init__":
        return lambda *args: None
    found = method_of(x, name)
    return _fail(x, name) if found is None else found


def _fail(x, name: str):
    raise AttributeError(f"jit.load: the code asks {type(x).__name__} for {name}, which it has not")


def _set(x, name: str, value) -> None:
    if isinstance(x, ScriptModule):
        held = next((kept for kept in (x._parameters, x._buffers, x._modules) if name in kept), x._fields)
        held[name] = value
    elif isinstance(x, Object):
        x.fields[name] = value
    else:
        _fail(x, name)


def _augmented(sign: str, x, value):
    """x += value and the like."""
    return getattr(operator, AUGMENTED[sign])(x, value)


def _isinstance(x, kinds) -> bool:
    kinds = kinds if isinstance(kinds, (list, tuple)) else [kinds]
    return any(isinstance(x, kind.base if isinstance(kind, Kind) else KINDS.get(kind, kind)) for kind in kinds)


class Translate(ast.NodeTransformer):
    """The code with attributes of objects as calls, without annotations."""

    def __init__(self, file: str) -> None:
        self.file = file

    def visit(self, node):
        if not isinstance(node, ALLOWED):
            raise RuntimeError(
                f"jit.load: {self.file}:{getattr(node, 'lineno', 0)}: {type(node).__name__} is not TorchScript"
            )
        return super().visit(node)

    def visit_FunctionDef(self, node):  # noqa: N802
        if node.decorator_list:
            raise RuntimeError(f"jit.load: {self.file}:{node.lineno}: a decorator is not TorchScript")
        node.returns = None
        for arg in (*node.args.args, *node.args.kwonlyargs):
            arg.annotation = None
        return self.generic_visit(node)

    def visit_Name(self, node):  # noqa: N802
        if node.id.startswith("__") or node.id in SPACES:
            raise RuntimeError(f"jit.load: {self.file}:{node.lineno}: the name {node.id} is not TorchScript")
        return node

    def visit_Attribute(self, node):  # noqa: N802
        path, root = [], node
        while isinstance(root, ast.Attribute):
            path, root = [root.attr, *path], root.value
        if isinstance(root, ast.Name) and root.id in SPACES:
            return ast.Call(ast.Name("_named", ast.Load()), [ast.Constant(root.id), *map(ast.Constant, path)], [])
        return ast.Call(ast.Name("_get", ast.Load()), [self.visit(node.value), ast.Constant(node.attr)], [])

    def visit_AnnAssign(self, node):  # noqa: N802
        if node.value is None:
            return ast.Pass()
        return self.visit(ast.copy_location(ast.Assign([node.target], node.value), node))

    def visit_Assign(self, node):  # noqa: N802
        (target,) = node.targets
        value = self.visit(node.value)
        if isinstance(target, ast.Attribute):
            return ast.Expr(
                ast.Call(ast.Name("_set", ast.Load()), [self.visit(target.value), ast.Constant(target.attr), value], [])
            )
        parts = target.elts if isinstance(target, ast.Tuple) else ()
        if any(isinstance(part, ast.Attribute) for part in parts):
            raise RuntimeError(f"jit.load: {self.file}:{node.lineno}: an attribute among several targets")
        return ast.Assign([self.visit(target)], value)

    def visit_AugAssign(self, node):  # noqa: N802
        target, value = node.target, self.visit(node.value)
        if not isinstance(target, ast.Attribute):
            return ast.AugAssign(self.visit(target), node.op, value)
        owner, name = self.visit(target.value), ast.Constant(target.attr)
        before = ast.Call(ast.Name("_get", ast.Load()), [owner, name], [])
        sign = ast.Constant(type(node.op).__name__)
        made = ast.Call(ast.Name("_augmented", ast.Load()), [sign, before, value], [])
        return ast.Expr(ast.Call(ast.Name("_set", ast.Load()), [owner, name, made], []))

    def visit_Raise(self, node):  # noqa: N802
        call = node.exc
        is_call = isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "AssertionError"
        if not is_call or node.cause is not None:
            raise RuntimeError(f"jit.load: {self.file}:{node.lineno}: a raise of other than AssertionError")
        return ast.Raise(self.visit(call), None)


class Class:
    """A class of the archive: its methods' code, what is parameter, buffer, attribute."""

    def __init__(self, archive: "Archive", name: str, node: ast.ClassDef, file: str) -> None:
        self.archive, self.name, self.file, self.made = archive, name, file, {}
        self.bases = [base.id for base in node.bases if isinstance(base, ast.Name)]
        self.methods = {part.name: part for part in node.body if isinstance(part, ast.FunctionDef)}
        lists = {
            p.targets[0].id: p.value
            for p in node.body
            if isinstance(p, ast.Assign) and isinstance(p.targets[0], ast.Name)
        }
        self.parameters, self.buffers = (
            [part.value for part in lists[name].elts] if name in lists else []
            for name in ("__parameters__", "__buffers__")
        )
        if "NamedTuple" in self.bases:
            raise NotImplementedError(f"jit.load: {name} is a NamedTuple, which is not there yet")

    def __deepcopy__(self, known: dict) -> "Class":
        return self

    def method(self, name: str):
        if name not in self.methods:
            raise NotImplementedError(f"jit.load: {self.name} has no {name} in its code")
        if name not in self.made:
            self.made[name] = self.archive.function(self.methods[name], self.file)
        return self.made[name]

    def make(self, *args):
        """A new object, whose __init__ the code calls."""
        return ScriptModule(self) if "Module" in self.bases else Object(self)

    def load(self, part) -> object:
        """The object that the archive's data say."""
        made, fields = self.make(), {name: self.archive.load(value) for name, value in vars(part).items()}
        if isinstance(made, Object):
            made.fields = fields
            return made
        for name, value in fields.items():
            if name == "training":
                made.training = bool(value)
            elif name in self.parameters and is_tensor(value):
                made.register_parameter(name, nn.Parameter(value, value.requires_grad))
            elif name in self.buffers:
                made.register_buffer(name, value)
            elif isinstance(value, nn.Module):
                made._modules[name] = value
            else:
                made._fields[name] = value
        return made


class Code:
    """The code of modules: functions and classes by their whole names. A subclass has its files (has, text,
    files_of_code); constants are those that it calls CONSTANTS. It is one thing for all copies of a module."""

    def __init__(self) -> None:
        self.files, self.found = {}, {}
        self.names = {
            "_named": self.named,
            "_get": _get,
            "_set": _set,
            "_augmented": _augmented,
            "getattr": _get,
            "isinstance": _isinstance,
            "annotate": lambda kind, value: value,
            "unchecked_cast": lambda kind, value: value,
            "uninitialized": lambda kind: None,
            "unwrap_optional": lambda x: x,
            **BUILTINS,
            "AssertionError": AssertionError,
            "inf": float("inf"),
            "nan": float("nan"),
            "infj": complex(0, float("inf")),
            "nanj": complex(0, float("nan")),
            **{
                name: Kind(KINDS.get(name, object))
                for name in (
                    "Tensor",
                    "List",
                    "Dict",
                    "Tuple",
                    "Optional",
                    "Union",
                    "NoneType",
                    "Device",
                    "number",
                    "Any",
                    "Generator",
                    "Future",
                )
            },
            "__builtins__": {},
        }

    def __deepcopy__(self, known: dict) -> "Code":
        return self

    def named(self, space: str, *path: str):
        """What `torch.add`, `ops.prim.min`, `CONSTANTS.c0` and `__torch__.a.b.Class` of the code mean."""
        if space == "torch" and len(path) == 1:
            return operator_of(path[0])
        if space == "ops" and len(path) == 2:
            return of_space(*path)
        if space == "CONSTANTS" and path[0][1:].isdigit():
            return self.constants[int(path[0][1:])]
        if space == "__torch__" and path[-1] == "__new__":
            return self.find(".".join((space, *path[:-1]))).make
        if space == "__torch__":
            return self.find(".".join((space, *path)))
        raise RuntimeError(f"jit.load: the code names {'.'.join((space, *path))}, which means nothing")

    def find(self, path: str):
        """A class, a function or a space by its whole name."""
        if path not in self.found:
            space, _, name = path.rpartition(".")
            file = f"code/{space.replace('.', '/')}.py"
            parts = self.parsed(file) if self.has(file) else {}
            if space.endswith("grad_mode") and name in CONTEXTS:
                self.found[path] = Context(CONTEXTS[name])
            elif name not in parts:
                raise RuntimeError(f"jit.load: the archive has no code of {path}")
            else:
                node = parts[name]
                is_class = isinstance(node, ast.ClassDef)
                self.found[path] = Class(self, path, node, file) if is_class else self.function(node, file)
        return self.found[path]

    def parsed(self, file: str) -> dict:
        if file not in self.files:
            text = self.text(file)
            self.files[file] = {node.name: node for node in ast.parse(text, file).body if hasattr(node, "name")}
        return self.files[file]

    def function(self, node: ast.FunctionDef, file: str):
        """A function of the code as one of Python."""
        node = ast.parse(ast.unparse(node)).body[0]
        module = ast.fix_missing_locations(ast.Module([Translate(file).visit(node)], []))
        made: dict = {}
        exec(compile(module, f"<{file}>", "exec"), self.names, made)  # noqa: S102  (looked at node by node)
        return made[node.name]


class Archive(Code):
    """An open TorchScript archive."""

    def __init__(self, file, map_location) -> None:
        super().__init__()
        self.zip = Zip(file, map_location)
        if not self.zip.is_script:
            raise RuntimeError("jit.load: the file is no TorchScript archive: torch.load reads checkpoints")
        self.loaded, self.root = {}, self.zip.root
        entries = self.zip.archive.namelist()
        self.entries = {name[len(self.root) :] for name in entries}
        self.constants = self.pickled("constants")

    def has(self, file: str) -> bool:
        """Whether the archive has an entry."""
        return file in self.entries

    def pickled(self, name: str):
        """constants.pkl or data.pkl; their storages lie in the folder of that name."""
        self.zip.folder = name
        return read(self.zip.read(f"{self.root}{name}.pkl"), names_of_script, self.zip.storage)

    def load(self, value):
        """What the code sees of a value of the data; an object that is there twice stays one."""
        if isinstance(value, Part):
            if id(value) not in self.loaded:
                self.loaded[id(value)] = (self.find(value.script).load(value), value)
            return self.loaded[id(value)][0]
        if isinstance(value, list):
            return [self.load(one) for one in value]
        if isinstance(value, tuple):
            return tuple(self.load(one) for one in value)
        if isinstance(value, dict):
            return {name: self.load(one) for name, one in value.items()}
        return value

    def text(self, file: str) -> str:
        """The text of a file of the code, which is compressed, unlike tensors."""
        with self.zip.archive.open(self.root + file) as entry:
            data = entry.read(MOST_CODE + 1)
        if len(data) > MOST_CODE:
            raise RuntimeError(f"jit.load: {file} has more than {MOST_CODE} bytes")
        return data.decode()

    def files_of_code(self) -> dict:
        """The text of every file of code."""
        return {
            name: self.text(name) for name in sorted(self.entries) if name.startswith("code/") and name.endswith(".py")
        }


class Context:
    """The class no_grad or enable_grad."""

    def __init__(self, made) -> None:
        self.kind = made

    def make(self, *args):
        """A new one, on which the code calls __init__."""
        return self.kind()


def open_archive(f, map_location=None, extra=None) -> ScriptModule:
    """The module of a file or a path; `extra` gets the extra files that it names."""
    if not hasattr(f, "read"):
        with open(f, "rb") as file:
            return open_archive(io.BytesIO(file.read()), map_location, extra)
    try:
        archive = Archive(f, map_location)
        for name in extra or ():
            extra[name] = archive.zip.read(f"{archive.root}extra/{name}") if f"extra/{name}" in archive.entries else b""
        return archive.load(archive.pickled("data"))
    except (zipfile.BadZipFile, pickle.UnpicklingError, SyntaxError, RecursionError) as error:
        raise RuntimeError(f"jit.load: the file is damaged or no TorchScript archive: {error}") from error


# ---- saving --------------------------------------------------------------------------------------------------------
class _Written:
    """An object as data.pkl has it: the name of its class, its attributes."""

    def __init__(self, name: str, fields: dict) -> None:
        self.name, self.fields = name, fields


class _Writer(serialization._Writer):
    """Pickles objects of the code's classes, and parameters as tensors."""

    def save(self, obj, save_persistent_id=True):
        if type(obj) is not _Written:
            super().save(obj, save_persistent_id)
            return
        if id(obj) in self.memo:
            self.write(self.get(self.memo[id(obj)][0]))
            return
        self._save_named(serialization._Named(*obj.name.rsplit(".", 1)))
        self.write(pickle.EMPTY_TUPLE + pickle.NEWOBJ)
        self.save(obj.fields)
        self.write(pickle.BUILD)
        self.memoize(obj)  # only now: PyTorch's reader makes the object here


def _written(value, known: dict):
    """A value of the code as it is pickled; an object that is there twice stays one."""
    if isinstance(value, _C.TensorBase):
        known.setdefault(id(value), value.detach().requires_grad_(value.requires_grad))
        return known[id(value)]
    if isinstance(value, list):
        return [_written(one, known) for one in value]
    if isinstance(value, tuple):
        return tuple(_written(one, known) for one in value)
    if isinstance(value, dict):
        return {name: _written(one, known) for name, one in value.items()}
    if isinstance(value, ScriptModule) and id(value) not in known:
        held = {**value._parameters, **value._buffers, "training": value.training, **value._modules, **value._fields}
        made = known[id(value)] = _Written(value._code.name, {})
        made.fields.update({name: _written(one, known) for name, one in held.items()})
    elif isinstance(value, Object) and id(value) not in known:
        made = known[id(value)] = _Written(value.code.name, {})
        made.fields.update({name: _written(one, known) for name, one in value.fields.items()})
    return known.get(id(value), value)


def save_archive(module: ScriptModule, f, extra=None) -> None:
    """Writes `module` and its code to a path or a binary file, as PyTorch's torch.jit.load reads it."""
    path = os.fspath(f) if isinstance(f, (str, os.PathLike)) else None
    root = os.path.splitext(os.path.basename(path))[0] if path else "archive"
    code = module._code.archive
    with (
        serialization._replacing(path) if path else contextlib.nullcontext(f) as file,
        zipfile.ZipFile(file, "w") as archive,
    ):
        write = lambda name, data: serialization._write_entry(archive, f"{root}/{name}", data)  # noqa: E731
        for name, value in (("data", _written(module, {})), ("constants", tuple(code.constants))):
            text = io.BytesIO()
            writer = _Writer(text, 2)
            writer.dump(value)
            write(f"{name}.pkl", text.getvalue())
            for storage in writer.storages.values():
                write(f"{name}/{storage.key}", serialization._storage_data(storage.vector))
        for name, text in code.files_of_code().items():
            write(name, text.encode())
        for name, data in (extra or {}).items():
            write(f"extra/{name}", data.encode() if isinstance(data, str) else data)
        write("byteorder", sys.byteorder.encode())
        write("version", b"10\n")  # of the operators' schemas: without it PyTorch takes gelu for an older one
