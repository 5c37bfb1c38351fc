"""Reads the files of a .pt2 archive into an exported program. The files are taken for hostile: every value is checked
for what it must be before it is used, operators are found by name and nothing else is, expressions of sizes are parsed,
pickles are read by the reader that makes tensors and containers alone."""

import io
import json
import operator
import re

from .. import _C
from .._ops import ops
from .._ops_in_python import IN_PYTHON
from .._subclasses import FakeTensorMode
from ..fx import Graph, GraphModule, Node
from ..utils import _pytree as pytree
from ..utils._sympy.value_ranges import ValueRanges
from . import _branches
from ._archive import Archive, Broken
from ._serialize import DTYPES, FORMATS, MUTATIONS, OPERATORS, SCHEMA
from ._sizes import Expr, parse
from .exported_program import ExportedProgram, ModuleCallEntry, ModuleCallSignature, TrainingIRVerifier, Verifier
from .graph_signature import (
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    SymIntArgument,
    TensorArgument,
)

_MAX_DIMS, _MAX_SIZE = 64, 1 << 48
_TARGET = re.compile(r"torch\.ops\.(\w+)\.(\w+)\.(\w+)")
_DTYPE_OF = {number: name for name, number in DTYPES.items()}
_FORMAT_OF = {number: name for name, number in FORMATS.items()}
_SPECIAL = {"Infinity": float("inf"), "-Infinity": float("-inf"), "NaN": float("nan")}


def _broken(what: str) -> Broken:
    return Broken(f"torch.export.load: {what}")


def _get(plain, key: str, kind):
    """plain[key], which must be a `kind`."""
    value = plain.get(key) if isinstance(plain, dict) else None
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise _broken(f"{key} is a {type(value).__name__}")
    return value


def _one(plain, what: str) -> tuple:
    """(tag, value) of a union."""
    if not isinstance(plain, dict) or len(plain) != 1:
        raise _broken(f"{what} says more than one thing, or nothing")
    return next(iter(plain.items()))


def _load_json(data: bytes):
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _broken(f"no JSON: {error}") from None


def _float(value) -> float:
    if isinstance(value, str) and value in _SPECIAL:
        return _SPECIAL[value]
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _broken("a number is none")
    return float(value)


def _int(value) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not -(2**63) <= value < 2**63:
        raise _broken("a whole number is none")
    return value


def _dtype(number):
    name = _DTYPE_OF.get(number) if isinstance(number, int) else None
    if name is None:
        raise _broken(f"there is no dtype {number!r}")
    return getattr(_C, name)


def _device(plain):
    kind, index = _get(plain, "type", str), plain.get("index")
    try:
        return _C.device(kind) if index is None else _C.device(kind, _int(index))
    except (RuntimeError, TypeError, ValueError) as error:
        raise _broken(f"a device: {error}") from None


class _Sizes:
    """Reads sizes: numbers and expressions, and what these are for the example."""

    def __init__(self) -> None:
        self.hints: dict = {}

    def size(self, plain):
        tag, value = _one(plain, "a size")
        if tag == "as_int":
            return _int(value)
        if tag != "as_expr":
            raise _broken(f"a size is {tag}")
        hint = value.get("hint") if isinstance(value, dict) else None
        kind, number = _one(hint, "a hint") if hint is not None else (None, None)
        try:
            expr = parse(_get(value, "expr_str", str))
        except NotImplementedError as error:
            if kind != "as_int":
                raise _broken(str(error)) from None
            return _int(number)  # what it is for the example: such sizes are recomputed where they matter
        except (ValueError, RecursionError) as error:
            raise _broken(str(error)) from None
        if kind == "as_int" and expr.name:
            self.hints.setdefault(expr.name, _int(number))
        return expr

    def number(self, size) -> int:
        """What it is for the example."""
        if not isinstance(size, Expr):
            return size
        try:
            return size.value({**dict.fromkeys(_names_in(size), 2), **self.hints})
        except ZeroDivisionError:
            raise _broken("a size divides by 0") from None


def _names_in(expr: Expr) -> set:
    found: set = set()
    for factors in expr.terms:
        for factor in factors:
            found |= {factor} if isinstance(factor, str) else _names_in(factor.top) | _names_in(factor.bottom)
    return found


class _Meta:
    """A tensor's description: dtype, device, sizes (Exprs among them), strides, offset."""

    def __init__(self, plain, reader: _Sizes) -> None:
        self.reader = reader
        self.dtype, self.device = _dtype(_get(plain, "dtype", int)), _device(_get(plain, "device", dict))
        self.sizes = [reader.size(each) for each in _get(plain, "sizes", list)]
        self.strides = [reader.size(each) for each in _get(plain, "strides", list)]
        self.offset = reader.size(_get(plain, "storage_offset", dict))
        self.requires_grad = bool(plain.get("requires_grad"))
        if len(self.sizes) > _MAX_DIMS or len(self.sizes) != len(self.strides):
            raise _broken("a tensor's sizes and strides do not belong together")
        if plain.get("layout", 7) != 7:
            raise NotImplementedError("torch.export.load: a tensor that is not strided")

    def numbers(self) -> tuple:
        """(sizes, strides) for the example."""
        sizes, strides = [self.reader.number(s) for s in self.sizes], [self.reader.number(s) for s in self.strides]
        total = 1
        for size in sizes:
            total *= max(size, 1)
            if size < 0 or total > _MAX_SIZE:
                raise _broken("a tensor's size cannot be")
        return sizes, strides

    def fake(self):
        """A tensor like it, without elements."""
        import narthex

        sizes, strides = self.numbers()
        with FakeTensorMode():
            return narthex.empty_strided(
                sizes, [max(stride, 0) for stride in strides], dtype=self.dtype, device=self.device
            )


# ---- tensors with elements
def _tensors(archive: Archive, folder: str, config: str) -> dict:
    """The tensors of a table, those over the same storage over the same memory."""
    if folder + config not in archive:
        return {}
    table = _get(_load_json(archive.read(folder + config)), "config", dict)
    found, storages = {}, {}
    for path, row in table.items():
        if not isinstance(path, str) or not path:
            raise _broken("a tensor has no name")
        name = _get(row, "path_name", str)
        if row.get("use_pickle"):
            value = _unpickled(archive.read(folder + name))
        else:
            value = _over(_Meta(_get(row, "tensor_meta", dict), _Sizes()), folder + name, archive, storages)
        found[path] = _as_declared(value, row)
    return found


def _as_declared(value, row: dict):
    from ..nn import Parameter

    if not isinstance(value, _C.TensorBase):
        raise NotImplementedError("torch.export.load: a constant that is no tensor")
    wants = bool(_get(row, "tensor_meta", dict).get("requires_grad")) if row.get("tensor_meta") else value.requires_grad
    wants = wants and (value.is_floating_point() or value.is_complex())
    return Parameter(value.detach(), requires_grad=wants) if row.get("is_param") else value


def _over(meta: _Meta, name: str, archive: Archive, storages: dict):
    import narthex

    sizes, strides = meta.numbers()
    offset = meta.reader.number(meta.offset)
    key = (name, str(meta.dtype))
    if key not in storages:
        data = bytearray(archive.read(name))
        storages[key] = narthex.empty(0, dtype=meta.dtype) if not data else _C.tensor_over(data, meta.dtype)
    whole = storages[key]
    if offset < 0 or any(stride < 0 for stride in strides):
        raise _broken("a tensor begins before its storage")
    last = offset + sum((size - 1) * stride for size, stride in zip(sizes, strides)) + 1 if all(sizes) else 0
    if last > whole.numel():
        raise _broken(f"{name} is shorter than a tensor that lies in it")
    made = whole.as_strided(sizes, strides, offset)
    return made if meta.device.type == "cpu" else made.to(meta.device)


def _unpickled(data: bytes):
    from ..serialization import load

    try:
        return load(io.BytesIO(data), weights_only=True)
    except (RuntimeError, ValueError, EOFError, TypeError, KeyError, IndexError, AttributeError) as error:
        raise _broken(f"a pickled tensor: {error}") from None


# ---- the graph
class _Reader:
    """Builds the graph of model.json. values: {name: node}."""

    def __init__(self, plain, sizes: _Sizes) -> None:
        self.plain, self.sizes, self.graph, self.values = plain, sizes, Graph(), {}
        self.metas = {name: _Meta(each, sizes) for name, each in _get(plain, "tensor_values", dict).items()}
        self.ints = {name: sizes.size(each) for name, each in _get(plain, "sym_int_values", dict).items()}
        self.others = {*(plain.get("sym_bool_values") or ()), *(plain.get("sym_float_values") or ())}
        if plain.get("custom_obj_values"):
            raise NotImplementedError("torch.export.load: objects of TorchScript's classes")

    def name(self, text) -> str:
        if not isinstance(text, str) or not text.isidentifier():
            raise _broken(f"a value is called {text!r}")
        return text

    def known(self, name):
        node = self.values.get(name) if isinstance(name, str) else None
        if node is None:
            raise _broken(f"{name!r} is used before it is defined")
        return node

    def mark(self, node: Node, name: str) -> None:
        """What is known of the value of that name."""
        node.name = self.name(name)
        if name in self.values:
            raise _broken(f"{name} is defined twice")
        self.values[name] = node
        if name in self.metas:
            meta = self.metas[name]
            node.meta["val"] = meta.fake()
            if any(isinstance(size, Expr) for size in meta.sizes):
                node.meta["sizes"] = meta.sizes
        elif name in self.ints:
            node.meta["symbol"] = node.meta["val"] = self.ints[name]
        elif name in self.others:
            node.meta["val"] = _hint_of(self.plain, name)
        else:
            raise _broken(f"nothing is said of {name}")

    # ---- arguments
    def argument(self, plain):
        tag, value = _one(plain, "an argument")
        read = getattr(self, f"_{tag}", None) if isinstance(tag, str) and tag.startswith("as_") else None
        if read is None:
            raise NotImplementedError(f"torch.export.load: an argument of the kind {tag!r}")
        return read(value)

    def _list(self, value, of) -> list:
        if not isinstance(value, list):
            raise _broken("a list is none")
        return [of(each) for each in value]

    def _as_none(self, value):
        return None

    def _as_tensor(self, value):
        return self.known(_get(value, "name", str))

    def _as_tensors(self, value):
        return self._list(value, self._as_tensor)

    def _as_optional_tensors(self, value):
        return self._list(value, self._as_optional_tensor)

    def _as_optional_tensor(self, value):
        tag, inner = _one(value, "a tensor")
        return None if tag == "as_none" else self._as_tensor(inner)

    def _as_int(self, value):
        return _int(value)

    def _as_ints(self, value):
        return self._list(value, _int)

    def _as_float(self, value):
        return _float(value)

    def _as_floats(self, value):
        return self._list(value, _float)

    def _as_bool(self, value):
        return bool(value)

    def _as_bools(self, value):
        return self._list(value, bool)

    def _as_string(self, value):
        return str(value)

    def _as_strings(self, value):
        return self._list(value, str)

    def _as_complex(self, value):
        return complex(_float(_get(value, "real", (int, float, str))), _float(_get(value, "imag", (int, float, str))))

    def _as_sym_int(self, value):
        tag, inner = _one(value, "a whole number")
        return _int(inner) if tag == "as_int" else self.known(inner)

    def _as_sym_bool(self, value):
        tag, inner = _one(value, "a truth value")
        return bool(inner) if tag == "as_bool" else self.known(inner)

    def _as_sym_float(self, value):
        tag, inner = _one(value, "a float")
        return _float(inner) if tag == "as_float" else self.known(inner)

    def _as_sym_ints(self, value):
        return self._list(value, self._as_sym_int)

    def _as_scalar_type(self, value):
        return _dtype(value)

    def _as_memory_format(self, value):
        name = _FORMAT_OF.get(value) if isinstance(value, int) else None
        if name is None:
            raise _broken(f"there is no memory format {value!r}")
        return getattr(_C, name)

    def _as_layout(self, value):
        if value != 7:
            raise NotImplementedError("torch.export.load: a layout other than strided")
        return _C.strided

    def _as_device(self, value):
        return _device(value)

    def _as_graph(self, value):
        """A graph inside of a call."""
        inside = _Reader(_get(value, "graph", dict), self.sizes)
        for each in _get(inside.plain, "inputs", list):
            tag, tensor = _one(each, "an input of a branch")
            if tag != "as_tensor":
                raise NotImplementedError(f"torch.export.load: an input of the kind {tag} in a branch")
            name = inside.name(_get(tensor, "name", str))
            inside.mark(inside.graph.placeholder(name), name)
        inside.read()
        inside.graph.output(tuple(inside.argument(each) for each in _get(inside.plain, "outputs", list)))
        return inside.graph

    # ---- nodes
    def read(self) -> None:
        for plain in _get(self.plain, "nodes", list):
            self.node(plain)

    def node(self, plain) -> None:
        name = _get(plain, "target", str)
        target = _branches.COND if name == _branches.CALL else _target(name)
        args, kwargs = [], {}
        for each in _get(plain, "inputs", list):
            value = self.argument(_get(each, "arg", dict))
            if each.get("kind") == 2 or kwargs:
                kwargs[self.name(each.get("name"))] = value
            else:
                args.append(value)
        args = _branches.arguments_of(args) if target is _branches.COND else self.as_tensors(target, args)
        outputs = _get(plain, "outputs", list)
        name = plain.get("name") or f"call_{len(self.values)}"
        made = self.graph.create_node("call_function", target, tuple(args), kwargs, self.name(name))
        trace = (plain.get("metadata") or {}).get("stack_trace")
        if isinstance(trace, str):
            made.meta["stack_trace"] = trace
        stack = _stack_of((plain.get("metadata") or {}).get("nn_module_stack"))
        if stack:
            made.meta["nn_module_stack"] = stack
        self.outputs(made, outputs)

    def as_tensors(self, target, args: list) -> list:
        """Numbers become tensors where the operator takes none: in the first place, and beside a rounding mode."""
        if not hasattr(target, "_schema"):
            return args
        given = list(args)
        for place in (0, 1) if target.__name__.endswith("Tensor_mode") else (0,):
            number = given[place] if place < len(given) else None
            if isinstance(number, (int, float)) and target._schema.arguments[place].type == "Tensor":
                given[place] = self.tensor_of(number, given[1 - place] if len(given) > 1 else None)
        return given

    def tensor_of(self, number, beside) -> Node:
        """A node for a number, of the other argument's dtype where that is a floating point type."""
        like = beside.meta.get("val") if isinstance(beside, Node) else None
        is_like = isinstance(number, float) and isinstance(like, _C.TensorBase) and like.is_floating_point()
        value = _C.tensor(number, dtype=like.dtype if is_like else None)
        kwargs = {"dtype": value.dtype}
        made = self.graph.create_node(
            "call_function", ops.aten.scalar_tensor.default, (number,), kwargs, "scalar_tensor"
        )
        made.meta["val"] = _C.fake_like(value)
        return made

    def outputs(self, node: Node, outputs: list) -> None:
        tagged = [_one(each, "a result") for each in outputs]
        alone = ("as_tensor", "as_sym_int", "as_sym_bool", "as_sym_float")
        if len(tagged) == 1 and tagged[0][0] in alone and node.target is not _branches.COND:
            tag, value = tagged[0]
            self.mark(node, _get(value, "name" if tag == "as_tensor" else "as_name", str))
            return
        if len(tagged) == 1 and tagged[0][0] == "as_tensors":
            node.meta["is_list"] = True
            tagged = [("as_tensor", each) for each in self._list(tagged[0][1], lambda each: each)]
        vals, sizes = [], []
        for k, (tag, value) in enumerate(tagged):
            if tag != "as_tensor":
                raise NotImplementedError(f"torch.export.load: one of several results of the kind {tag}")
            part = self.graph.create_node("call_function", operator.getitem, (node, k), {}, "getitem")
            self.mark(part, _get(value, "name", str))
            vals.append(part.meta["val"])
            sizes.append(part.meta.get("sizes"))
        if vals:
            node.meta["val"] = tuple(vals)
            if any(sizes):
                node.meta["sizes"] = sizes


def _hint_of(plain: dict, name: str):
    """What a float or a truth value that follows from sizes is for the example."""
    row = (plain.get("sym_float_values") or {}).get(name) or (plain.get("sym_bool_values") or {}).get(name)
    hint = row.get("as_expr", {}).get("hint") if isinstance(row, dict) else None
    kind, value = _one(hint, "a hint") if hint is not None else (None, None)
    return _float(value) if kind == "as_float" else bool(value)


def _target(text: str):
    """The operator of that name."""
    space, _, name = text.rpartition(".")
    if space in ("_operator", "operator") and name in OPERATORS:
        return getattr(operator, name)
    match = _TARGET.fullmatch(text)
    missing = NotImplementedError(f"torch.export.load: the program calls {text}, which is not there")
    of_python = match is not None and match[2] in IN_PYTHON and not match[3].startswith("_")
    if match is None or (not of_python and any(part.startswith("__") for part in match.groups())):
        raise missing
    try:
        found = getattr(getattr(getattr(ops, match[1]), match[2]), match[3])
    except AttributeError:
        raise missing from None
    return found


# ---- signature
def _constant(plain):
    tag, value = _one(plain, "a constant")
    if tag == "as_none":
        return None
    if tag == "as_float":
        return _float(value)
    kinds = {"as_int": _int, "as_bool": bool, "as_string": str}
    if tag not in kinds:
        raise _broken(f"a constant is {tag}")
    return kinds[tag](value)


def _input(plain) -> InputSpec:
    tag, value = _one(plain, "an input")
    if tag == "user_input":
        kind, inner = _one(_get(value, "arg", dict), "an input")
        if kind == "as_tensor":
            return InputSpec(InputKind.USER_INPUT, TensorArgument(_get(inner, "name", str)), None)
        if kind == "as_sym_int" and "as_name" in inner:
            return InputSpec(InputKind.USER_INPUT, SymIntArgument(_get(inner, "as_name", str)), None)
        raise NotImplementedError(f"torch.export.load: an input of the kind {kind}")
    if tag == "constant_input":
        return InputSpec(
            InputKind.USER_INPUT,
            ConstantArgument(_get(value, "name", str), _constant(_get(value, "value", dict))),
            None,
        )
    arg = TensorArgument(_get(_get(value, "arg", dict), "name", str))
    if tag == "parameter":
        return InputSpec(InputKind.PARAMETER, arg, _get(value, "parameter_name", str))
    if tag == "buffer":
        return InputSpec(InputKind.BUFFER, arg, _get(value, "buffer_name", str), bool(value.get("persistent")))
    if tag == "tensor_constant":
        return InputSpec(InputKind.CONSTANT_TENSOR, arg, _get(value, "tensor_constant_name", str))
    raise NotImplementedError(f"torch.export.load: an input of the kind {tag}")


def _call_argument(plain):
    kind, inner = _one(plain, "an argument or a result")
    if kind == "as_tensor":
        return TensorArgument(_get(inner, "name", str))
    if kind == "as_sym_int" and isinstance(inner, dict) and "as_name" in inner:
        return SymIntArgument(_get(inner, "as_name", str))
    return ConstantArgument("", _constant(plain))


def _stack_of(text) -> dict:
    """A node's nn_module_stack, of rows `key,path,class`."""
    found = {}
    for row in text.split(";") if isinstance(text, str) and text else ():
        key, _, rest = row.partition(",")
        path, comma, kind = rest.partition(",")
        if not comma:
            raise _broken("the modules that a call is in are not said")
        found[key] = (path, kind)
    return found


def _output(plain) -> OutputSpec:
    tag, value = _one(plain, "a result")
    if tag in MUTATIONS:
        kind, name = MUTATIONS[tag]
        return OutputSpec(kind, TensorArgument(_get(_get(value, "arg", dict), "name", str)), _get(value, name, str))
    if tag != "user_output":
        raise NotImplementedError(f"torch.export.load: a result of the kind {tag}")
    return OutputSpec(OutputKind.USER_OUTPUT, _call_argument(_get(value, "arg", dict)), None)


_CONTAINERS = {"builtins.tuple", "builtins.list", "builtins.dict", "collections.OrderedDict", "collections.deque"}


def _check_spec(plain, depth: int = 0) -> None:
    """Only containers that hold nothing but their parts, and classes that this program has registered."""
    if depth > 64 or not isinstance(plain, dict) or not isinstance(plain.get("children_spec"), list):
        raise _broken("how arguments nest is not said")
    kind = plain.get("type")
    if kind in ("collections.namedtuple", "collections.defaultdict"):
        raise NotImplementedError(f"torch.export.load: arguments in a {kind.rpartition('.')[2]}")
    if kind is not None and kind not in _CONTAINERS and kind not in pytree.serialized_names():
        raise _broken(f"arguments in a {kind!r}, which is not registered")
    for child in plain["children_spec"]:
        _check_spec(child, depth + 1)


def _spec(text):
    if not isinstance(text, str):
        raise _broken("how arguments nest is not said")
    plain = _load_json(text.encode())
    if not isinstance(plain, list) or len(plain) != 2:
        raise _broken("how arguments nest is not said")
    _check_spec(plain[1])
    try:
        spec = pytree.treespec_loads(text)
        if spec.num_leaves < 0:
            raise ValueError
        spec.unflatten([None] * spec.num_leaves)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise _broken(f"how arguments nest: {error}") from None
    return spec


def _entries(plain) -> list:
    found = []
    for each in plain:
        signature = each.get("signature") if isinstance(each, dict) else None
        if signature is not None:
            names = signature.get("forward_arg_names")
            if names is not None and not all(isinstance(name, str) and name.isidentifier() for name in names):
                raise _broken("an argument has no name")
            given = [list(map(_call_argument, _get(signature, which, list))) for which in ("inputs", "outputs")]
            signature = ModuleCallSignature(
                *given, _spec(signature.get("in_spec")), _spec(signature.get("out_spec")), names and list(names)
            )
        found.append(ModuleCallEntry(_get(each, "fqn", str), signature))
    if not found or found[0].fqn or found[0].signature is None:
        raise _broken("how the program is called is not said")
    return found


def _ranges(plain: dict) -> dict:
    found = {}
    for name, bounds in plain.items():
        low, high = bounds.get("min_val"), bounds.get("max_val")
        if re.fullmatch(r"\w+", name):
            found[Expr.symbol(name)] = ValueRanges.of(
                0 if low is None else _int(low), 2**63 - 1 if high is None else _int(high)
            )
    return found


def program_of(plain, state: dict, constants: dict, example_inputs) -> ExportedProgram:
    """The program that model.json describes."""
    version = _get(_get(plain, "schema_version", dict), "major", int)
    if version != SCHEMA[0]:
        raise NotImplementedError(f"torch.export.load: version {version} of the format; {SCHEMA[0]} is known")
    module = _get(plain, "graph_module", dict)
    reader = _Reader(_get(module, "graph", dict), _Sizes())
    signature = _get(module, "signature", dict)
    inputs = [_input(each) for each in _get(signature, "input_specs", list)]
    for spec in inputs:
        node = reader.graph.placeholder(reader.name(spec.arg.name))
        if isinstance(spec.arg, ConstantArgument):
            node.name, node.meta["val"] = spec.arg.name, spec.arg.value
            reader.values[spec.arg.name] = node
        else:
            reader.mark(node, spec.arg.name)
    reader.read()
    results = [reader.argument(each) for each in _get(reader.plain, "outputs", list)]
    reader.graph.output(tuple(results))
    outputs = [_output(each) for each in _get(signature, "output_specs", list)]
    _check_state(inputs, state, constants)
    entries = _entries(_get(module, "module_call_graph", list))
    dialect = (plain.get("verifiers") or ["TRAINING"])[0]
    program = ExportedProgram(
        GraphModule({}, reader.graph), reader.graph, ExportGraphSignature(inputs, outputs), state,
        _ranges(_get(plain, "range_constraints", dict)), entries, example_inputs, constants,
        verifiers=[TrainingIRVerifier if dialect == "TRAINING" else Verifier], hints=reader.sizes.hints,
    )  # fmt: skip
    _check_counts(program)
    return program


def _check_state(inputs: list, state: dict, constants: dict) -> None:
    for spec in inputs:
        if spec.target is not None and spec.target not in state and spec.target not in constants:
            raise _broken(f"there is no {spec.target} among the tensors")
        if spec.target is not None and not all(
            part.isidentifier() or part.isdigit() for part in spec.target.split(".")
        ):
            raise _broken(f"a tensor's path is {spec.target!r}")


def _check_counts(program: ExportedProgram) -> None:
    """That signature, graph and the way of calling speak of as many values."""
    spec = program.call_spec
    users = len(program.user_placeholders)
    results = len(program.graph_signature.user_outputs)
    if spec.in_spec.num_leaves != users or spec.out_spec.num_leaves != results or spec.in_spec.num_children != 2:
        raise _broken("the signature and the way of calling do not belong together")
    try:
        program.validate()
    except (RuntimeError, AttributeError, TypeError) as error:
        raise _broken(str(error)) from None


def load(f, extra_files: dict | None) -> ExportedProgram:
    """torch.export.load."""
    archive = Archive(f)
    models = archive.names("models/")
    if models != ["models/model.json"]:
        raise _broken(f"the archive has {len(models)} models")
    state = _tensors(archive, "data/weights/", "model_weights_config.json")
    constants = _tensors(archive, "data/constants/", "model_constants_config.json")
    examples = None
    if "data/sample_inputs/model.pt" in archive:
        examples = _unpickled(archive.read("data/sample_inputs/model.pt"))
    try:
        program = program_of(_load_json(archive.read("models/model.json")), state, constants, None)
    except (AttributeError, TypeError, KeyError, RecursionError) as error:
        raise _broken(f"model.json: {error}") from None
    if (
        isinstance(examples, tuple)
        and len(examples) == 2
        and isinstance(examples[0], tuple)
        and isinstance(examples[1], dict)
    ):
        program.example_inputs = examples
    for name in extra_files or {}:
        extra_files[name] = archive.read(f"extra/{name}").decode()
    return program
